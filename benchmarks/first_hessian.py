"""The first Hessian and the first Hessian-vector product of a function, beside its first gradient.

Run it as ``python -m benchmarks.first_hessian [NAME ...]``. Times are processor time in a warm process: the
kernels are there, the function is new each time.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.first_gradient import scalar_ops
from benchmarks.peers import rebound

DATA = np.random.default_rng(0).normal(size=(500, 2))


def kalman(t):
    """Log-likelihood of a Kalman filter: 500 steps, a state of 4, observations of 2."""
    a = np.eye(4) + 0.05 * np.diag(np.ones(3), 1) * t[0]
    h = np.eye(2, 4) * t[1]
    q, r = np.exp(t[2]) * np.eye(4), np.exp(t[3]) * np.eye(2)
    m, p, total = np.zeros(4), np.eye(4), 0.0
    for y in DATA:
        m, p = a @ m, a @ p @ a.T + q
        s = h @ p @ h.T + r
        e = y - h @ m
        gain = np.linalg.solve(s, h @ p).T
        m, p = m + gain @ e, p - gain @ h @ p
        total = total - 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
    return total


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(t):
    """Log-density of the eight schools, not centred."""
    mu, tau, eta = t[0], np.exp(t[1]), t[2:]
    residuals = (EFFECTS - mu - tau * eta) / ERRORS
    prior = -0.5 * np.sum(eta**2) - mu**2 / 50.0 - np.log1p((tau / 5.0) ** 2) + t[1]
    return prior - 0.5 * np.sum(residuals**2)


CASES: dict[str, tuple[Callable, np.ndarray, int]] = {  # function, point, repetitions
    "scalar_ops": (scalar_ops, np.linspace(0.5, 0.9, 10), 3),
    "kalman": (kalman, np.array([1.0, 1.0, -1.0, 0.0]), 3),
    "eight_schools": (eight_schools, np.linspace(-0.5, 0.5, 10), 7),
}


def measure(name: str) -> dict[str, float]:
    """Return the least processor time of the first gradient, Hessian and product."""
    import numbatape as nt

    function, x, repetitions = CASES[name]
    verbs = {
        "gradient": lambda f: nt.grad(f)(x),
        "Hessian": lambda f: nt.hessian(f)(x),
        "product": lambda f: nt.hvp(f)(x, x),
    }
    found = {}
    for verb, first in verbs.items():
        spent = []
        for _ in range(repetitions + 1):  # the first one loads kernels
            again = rebound(function)
            gc.collect()  # Equal tapes share what is derived of them, so the ones before must be gone.
            start = time.process_time()
            first(again)
            spent.append(time.process_time() - start)
        found[verb] = min(spent)
    return found


def main(names: list[str]) -> None:
    """Print one line a function."""
    for name in names or CASES:
        found = measure(name)
        rest = ", ".join(f"{verb} {s:.4f} s ({s / found['gradient']:.1f})" for verb, s in found.items())
        print(f"{name}: {rest}")


if __name__ == "__main__":
    main(sys.argv[1:])
