"""Loops with a body that is traced once, beside the same loops in Python, and beside JAX's ``lax.scan``.

Run it as ``python -m benchmarks.loops [NAME ...]``. Times are processor time; JAX takes part if it is
installed. Each result is compared with that of the Python loop before it is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

import numbatape as nt
from benchmarks.timing import interleave

RNG = np.random.default_rng(0)
RETURNS, SERIES, STATES = RNG.normal(size=200), RNG.normal(size=500), RNG.normal(size=(500, 2))
FRAMES = RNG.normal(size=(100, 8))


def in_python(f, carry, xs):
    """Run a loop as `numbatape.scan` does, in Python."""
    outputs = []
    for x in xs:
        carry, y = f(carry, x)
        outputs.append(y)
    return carry, outputs


def garch11(scan, np, t):
    """Log-likelihood of a GARCH(1, 1) model, 200 returns."""

    def step(carry, y):
        variance, total = carry
        residual = y - t[0]
        total = total - 0.5 * (np.log(variance) + residual * residual / variance)
        return (t[1] + t[2] * residual * residual + t[3] * variance, total), None

    return scan(step, (0.3, 0.0), RETURNS)[0][1]


def arma11(scan, np, t):
    """Log-likelihood of an ARMA(1, 1) model, 500 numbers."""

    def step(carry, y):
        before, error, total = carry
        error = y - (t[0] + t[1] * before + t[2] * error)
        return (y, error, total - 0.5 * error * error / t[3]), None

    return scan(step, (0.0, 0.0, 0.0), SERIES)[0][2]


def hmm(scan, np, t):
    """Log-likelihood of a hidden Markov model of two states, 500 numbers, by the forward algorithm."""
    transition = np.stack([np.stack([t[0], 1.0 - t[0]]), np.stack([1.0 - t[1], t[1]])])

    def step(carry, y):
        belief, total = carry
        joint = (belief @ transition) * np.exp(-0.5 * (y - t[2:]) ** 2)
        evidence = np.sum(joint)
        return (joint / evidence, total + np.log(evidence)), None

    return scan(step, (np.full(2, 0.5), 0.0), SERIES)[0][1]


def kalman(scan, np, t):
    """Log-likelihood of a Kalman filter: 500 steps, a state of 4, observations of 2."""
    a = np.eye(4) + 0.05 * np.diag(np.ones(3), 1) * t[0]
    h = np.eye(2, 4) * t[1]
    q, r = np.exp(t[2]) * np.eye(4), np.exp(t[3]) * np.eye(2)

    def step(carry, y):
        m, p, total = carry
        m, p = a @ m, a @ p @ a.T + q
        s = h @ p @ h.T + r
        e = y - h @ m
        gain = np.linalg.solve(s, h @ p).T
        total = total - 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
        return (m + gain @ e, p - gain @ h @ p, total), None

    return scan(step, (np.zeros(4), np.eye(4), 0.0), STATES)[0][2]


def lstm(scan, np, t):
    """Sum of squares of what two LSTM layers of 8 units give, 100 steps of 8 numbers."""
    weights, biases = t[:1024].reshape(2, 16, 32), t[1024:].reshape(2, 32)

    def layer(k, x, h, c):
        z = np.concatenate([x, h]) @ weights[k] + biases[k]
        gate = 1.0 / (1.0 + np.exp(-z))
        c = gate[8:16] * c + gate[:8] * np.tanh(z[16:24])
        return gate[24:] * np.tanh(c), c

    def step(carry, x):
        h1, c1, h2, c2, total = carry
        h1, c1 = layer(0, x, h1, c1)
        h2, c2 = layer(1, h1, h2, c2)
        return (h1, c1, h2, c2, total + np.sum(h2 * h2)), None

    return scan(step, (*[np.zeros(8)] * 4, 0.0), FRAMES)[0][4]


CASES: dict[str, tuple[Callable, np.ndarray]] = {
    "garch11": (garch11, np.array([0.1, 0.1, 0.2, 0.5])),
    "arma11": (arma11, np.array([0.1, 0.4, 0.2, 1.5])),
    "hmm": (hmm, np.array([0.8, 0.7, -1.0, 1.0])),
    "kalman": (kalman, np.array([1.0, 1.0, -1.0, 0.0])),
    "lstm": (lstm, 0.3 * RNG.normal(size=1088)),
}


def calls_of(scan, f, x) -> dict[str, Callable]:
    """Return the gradient, the Hessian and a batch of gradients of a function with a loop."""
    g = lambda t: f(scan, np, t)  # noqa: E731
    points = x + 0.01 * RNG.normal(size=(64, len(x)))
    gradient, hessian, batch = nt.value_and_grad(g), nt.hessian(g), nt.batch(g)
    return {
        "gradient": lambda: gradient(x)[1],
        "hessian": lambda: hessian(x),
        "batch of 64": lambda: batch(points)[1],
    }


def jax_calls(f, x) -> dict[str, Callable]:
    """Return the same by JAX's ``lax.scan``, compiled; nothing if JAX is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    space = SimpleNamespace(**{name: getattr(jnp, name) for name in dir(jnp) if not name.startswith("_")})
    g = lambda t: f(jax.lax.scan, space, t)  # noqa: E731
    points = x + 0.01 * RNG.normal(size=(64, len(x)))
    gradient, hessian = jax.jit(jax.grad(g)), jax.jit(jax.hessian(g))
    batch = jax.jit(jax.vmap(jax.grad(g)))
    return {
        "gradient": lambda: np.asarray(gradient(x)),
        "hessian": lambda: np.asarray(hessian(x)),
        "batch of 64": lambda: np.asarray(batch(points)),
    }


def main(names: list[str]) -> None:
    """Print a table: the first call, then steady ones."""
    for name in names or CASES:
        f, x = CASES[name]
        ways = {
            "scan": calls_of(nt.scan, f, x),
            "Python loop": calls_of(in_python, f, x),
            "jax": jax_calls(f, x),
        }
        for what in list(ways["scan"])[: 1 if name == "lstm" else 3]:  # its Hessian has a million entries
            calls = {way: found[what] for way, found in ways.items() if what in found}
            first, results = {}, {}
            for way, call in calls.items():
                start = time.process_time()
                results[way] = call()
                first[way] = time.process_time() - start
            if what != "batch of 64":  # each way has points of its own
                for result in results.values():
                    np.testing.assert_allclose(result, results["Python loop"], rtol=1e-7, atol=1e-7)
            steady = interleave(calls, 5, 0.1)
            texts = [
                f"{way} {steady[way]['median'] * 1e6:9.1f} us, first {first[way]:6.3f} s" for way in calls
            ]
            print(f"{name:8s} {what:12s} {'; '.join(texts)}")


if __name__ == "__main__":
    main(sys.argv[1:])
