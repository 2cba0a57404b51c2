"""Value and gradient beside the same written by hand and compiled by Numba (LLVM at its third level).

    python -m benchmarks.native

What is written by hand is what a perfect compiler of derivatives would make of these loops: one pass forward
that keeps what is needed, one pass back, everything else in registers. Beside it stands the function itself,
compiled: its value alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np

import numbatape as nt
from benchmarks import workloads
from benchmarks.report import grid, markdown_table
from benchmarks.timing import interleave

compiled = numba.njit(error_model="numpy", cache=False)


@compiled
def ark(theta, y, g):
    alpha, log_sigma = theta[0], theta[6]
    sigma = math.exp(log_sigma)
    ratio = sigma / 2.5
    lp = -0.5 * (alpha / 10) ** 2 - math.log1p(ratio * ratio) + log_sigma
    g[:] = 0.0
    g[0] = -alpha / 100
    g[6] = 1 - 2 * ratio * ratio / (1 + ratio * ratio)
    for k in range(1, 6):
        lp -= 0.5 * (theta[k] / 10) ** 2
        g[k] = -theta[k] / 100
    precision = 1 / (sigma * sigma)
    for t in range(5, len(y)):
        mu = alpha
        for k in range(5):
            mu += theta[1 + k] * y[t - k - 1]
        e = y[t] - mu
        w = e * precision
        lp -= 0.5 * e * w + log_sigma
        g[0] += w
        for k in range(5):
            g[1 + k] += w * y[t - k - 1]
        g[6] += e * w - 1
    return lp


@compiled
def garch(theta, y, first, s, g):
    mu, alpha0 = theta[0], math.exp(theta[1])
    alpha1, p = 1 / (1 + math.exp(-theta[2])), 1 / (1 + math.exp(-theta[3]))
    beta1 = p * (1 - alpha1)
    n = len(y)
    s[0] = first
    lp = theta[1] + math.log(alpha1) + 2 * math.log(1 - alpha1) + math.log(p) + math.log(1 - p)
    lp -= 0.5 * ((y[0] - mu) / first) ** 2
    for t in range(1, n):
        s[t] = math.sqrt(alpha0 + alpha1 * (y[t - 1] - mu) ** 2 + beta1 * s[t - 1] ** 2)
        lp -= math.log(s[t]) + 0.5 * ((y[t] - mu) / s[t]) ** 2
    back = gm = g0 = g1 = gb = 0.0
    for t in range(n - 1, 0, -1):
        z = (y[t] - mu) / s[t]
        back += (z * z - 1) / s[t]
        gm += z / s[t]
        half = back * 0.5 / s[t]  # of the square
        d = y[t - 1] - mu
        g0 += half
        g1 += half * d * d
        gm -= 2 * half * alpha1 * d
        gb += half * s[t - 1] * s[t - 1]
        back = 2 * half * beta1 * s[t - 1]
    g[0] = gm + (y[0] - mu) / (first * first)
    g[1] = 1 + g0 * alpha0
    g[2] = (g1 - gb * p + 1 / alpha1 - 2 / (1 - alpha1)) * alpha1 * (1 - alpha1)
    g[3] = (gb * (1 - alpha1) + 1 / p - 1 / (1 - p)) * p * (1 - p)
    return lp


@compiled
def log_add(a, b):
    top = max(a, b)
    return top + math.log1p(math.exp(min(a, b) - top))


@compiled
def hmm(theta, y, kept, g):
    p, q = 1 / (1 + math.exp(-theta[0])), 1 / (1 + math.exp(-theta[1]))
    mu0 = math.exp(theta[2])
    mu1 = mu0 + math.exp(theta[3])
    to00, to01, to10, to11 = math.log(p), math.log(1 - p), math.log(q), math.log(1 - q)
    n = len(y)
    a, b = -0.5 * (y[0] - mu0) ** 2, -0.5 * (y[0] - mu1) ** 2
    for t in range(1, n):
        u, v = log_add(a + to00, b + to10), log_add(a + to01, b + to11)
        kept[t, 0], kept[t, 1] = math.exp(a + to00 - u), math.exp(a + to01 - v)
        a, b = u - 0.5 * (y[t] - mu0) ** 2, v - 0.5 * (y[t] - mu1) ** 2
    total = log_add(a, b)
    ga, gb = math.exp(a - total), math.exp(b - total)
    g00 = g01 = g10 = g11 = g0 = g1 = 0.0
    for t in range(n - 1, 0, -1):
        g0 += ga * (y[t] - mu0)
        g1 += gb * (y[t] - mu1)
        w00, w01 = ga * kept[t, 0], gb * kept[t, 1]
        w10, w11 = ga - w00, gb - w01
        g00, g01, g10, g11 = g00 + w00, g01 + w01, g10 + w10, g11 + w11
        ga, gb = w00 + w01, w10 + w11
    g0 += ga * (y[0] - mu0) - (mu0 - 3)
    g1 += gb * (y[0] - mu1) - (mu1 - 10)
    g[0] = (g00 + 1) * (1 - p) - (g01 + 1) * p
    g[1] = (g10 + 1) * (1 - q) - (g11 + 1) * q
    g[2] = (g0 + g1) * mu0 + 1
    g[3] = g1 * (mu1 - mu0) + 1
    prior = -0.5 * (mu0 - 3) ** 2 - 0.5 * (mu1 - 10) ** 2
    return total + prior + to00 + to01 + to10 + to11 + theta[2] + theta[3]


STEPS = 200


def predators(x):
    """Lotka and Volterra's equations, 200 steps of Euler's: x = start, three rates."""
    u, v, total = x[0], x[1], 0.0
    for _ in range(STEPS):
        w = u * v
        u, v = u + 0.02 * (x[2] * u - w), v + 0.02 * (x[3] * w - x[4] * v)
        total = total + (u - 1.0) ** 2 + (v - 1.0) ** 2
    return total


@compiled
def predators_by_hand(x, kept, g):
    u, v, total = x[0], x[1], 0.0
    for t in range(STEPS):
        kept[t, 0], kept[t, 1] = u, v
        w = u * v
        u, v = u + 0.02 * (x[2] * u - w), v + 0.02 * (x[3] * w - x[4] * v)
        total += (u - 1.0) ** 2 + (v - 1.0) ** 2
    gu = gv = g2 = g3 = g4 = 0.0
    for t in range(STEPS - 1, -1, -1):
        gu += 2 * (u - 1.0)
        gv += 2 * (v - 1.0)
        u, v = kept[t, 0], kept[t, 1]
        g2 += 0.02 * gu * u
        g3 += 0.02 * gv * u * v
        g4 -= 0.02 * gv * v
        gw = 0.02 * (x[3] * gv - gu)
        gu, gv = gu * (1 + 0.02 * x[2]) + gw * v, gv * (1 - 0.02 * x[4]) + gw * u
    g[0], g[1], g[2], g[3], g[4] = gu, gv, g2, g3, g4
    return total


def chain(x):
    """sum(sin(cos(exp(x)))), 100 000 entries"""
    return np.sum(np.sin(np.cos(np.exp(x))))


@compiled
def chain_by_hand(x, g):
    total = 0.0
    for i in range(len(x)):
        e = math.exp(x[i])
        c = math.cos(e)
        total += math.sin(c)
        g[i] = -math.cos(c) * math.sin(e) * e
    return total


def tasks() -> dict[str, tuple[Callable, np.ndarray, tuple, Callable | None, tuple]]:
    """Return, by name: function, argument, data, the same by hand if it is written, and what that keeps."""
    works = {w.name: w for w in workloads.catalogue()}
    found = {}
    for name, hand, kept in (("arK", ark, ()), ("garch11", garch, (200,)), ("hmm_example", hmm, (100, 2))):
        work = works[name]
        room = (np.zeros(kept),) if kept else ()
        found[name] = work.function, np.asarray(work.active[0], float), work.data, hand, room
    for name in ("_sum_sin_1000", "naive_map_sin_cos_exp", "large_single_block_4000"):
        found[name] = works[name].function, np.asarray(works[name].active[0], float), (), None, ()
    x = np.array([1.2, 0.8, 0.9, 0.8, 1.1])
    found["Lotka-Volterra, 200 steps"] = predators, x, (), predators_by_hand, (np.zeros((STEPS, 2)),)
    found["sum(sin(cos(exp(x)))), 100 000"] = chain, np.linspace(0.1, 1.0, 100_000), (), chain_by_hand, ()
    return found


def measure(rounds: int, seconds: float) -> dict[str, dict[str, float | str]]:
    """Return median times of bound calls, of what is written by hand, and of Numba's value."""
    table: dict[str, dict[str, float | str]] = {}
    for name, (function, x, data, hand, room) in tasks().items():
        cache = nt.prepare_gradient_cache(lambda x, f=function, d=data: f(x, *d), x)
        bound, gradient = cache.bind(x), np.zeros_like(x)
        its = compiled(function)
        calls = {"numbatape, bound": bound, "Numba's value": lambda f=its, a=(x, *data): f(*a)}
        np.testing.assert_allclose(bound(), its(x, *data), rtol=1e-10)
        if hand is not None:
            args = (x, *data, *room, gradient)
            np.testing.assert_allclose(bound(), hand(*args), rtol=1e-10)
            np.testing.assert_allclose(bound.out[0], gradient, rtol=1e-8, atol=1e-10)
            calls["by hand"] = lambda h=hand, a=args: h(*a)
        times = interleave(calls, rounds, seconds)
        ours = times["numbatape, bound"]["median"]
        table[name] = {"numbatape, bound": ours}
        for column, ratio in (("by hand", "/ by hand"), ("Numba's value", "/ value")):
            if column in calls:
                table[name] |= {
                    column: times[column]["median"],
                    ratio: f"{ours / times[column]['median']:.2f}",
                }
    return table


if __name__ == "__main__":
    rows = grid(measure(15, 2e-3), "value and gradient")
    assert rows is not None
    print(markdown_table(rows))
