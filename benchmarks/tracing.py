"""Latency per operation: first gradients of functions that were never seen before, kernels at hand.

A first gradient runs the function, freezes and plans its tape, and sweeps it once. Every round makes a new
function of the same source, so that nothing is known about it. The least processor time of many rounds
counts: what else the machine does only ever adds to it.

The memory of a trace is counted by ``tracemalloc``: the most that preparing a long loop over numbers takes
beyond a loop of half the length, an operation.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import workloads
from benchmarks.peers import rebound
from benchmarks.timing import summary

MATRIX = np.random.default_rng(0).normal(size=(8, 8)) / 8
TABLE = np.linspace(0.0, 1.0, 8)
OBSERVED = np.random.default_rng(1).normal(size=(500, 2))


def scalar_loop(x):
    """5 000 operations on entries of a vector: five a turn, and three reads."""
    y = x[0]
    n = len(x)
    for i in range(1000):
        y = y * 0.5 + np.sin(x[i % n]) * x[(i + 1) % n]
        y = y - x[(i + 2) % n]
    return y


def array_loop(x):
    """2 600 operations on vectors of eight: 13 a turn, with products, slices, sums and choices."""
    y = x
    for _ in range(200):
        z = np.exp(-y) * x
        y = MATRIX @ (z + TABLE)
        w = y[1:] * z[:-1]
        y = np.where(y > 0.0, y, 0.1 * y) + np.sum(w)
    return np.sum(y)


def kalman(theta):
    """500 steps of a Kalman filter with four states and two observations: 25 operations a step."""
    phi, q, r = theta[0], np.exp(theta[1]), np.exp(theta[2])
    A = np.eye(4) * phi + np.eye(4, k=1) * 0.1
    Q, R, H = np.eye(4) * q, np.eye(2) * r, np.eye(4)[:2]
    m, P, lp = np.zeros(4), np.eye(4), 0.0
    for y in OBSERVED:
        m = A @ m
        P = A @ P @ A.T + Q
        e = y - H @ m
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        lp = lp - 0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(S)[1])
        m = m + K @ e
        P = P - K @ H @ P
    return lp


def eight_schools(theta):
    """A log-density of 25 operations; its data are constants that it captures."""
    return workloads.eight_schools_nc(theta, *SCHOOLS)


SCHOOLS = tuple(workloads.load("eight_schools")[name].astype(float) for name in ("y", "sigma"))


def prior(t):
    """Part of `helpers`."""
    return -0.5 * np.sum(t**2)


def predict(t, weights):
    """Part of `helpers`."""
    return np.tanh(weights @ t) + TABLE


@dataclass
class Model:
    """A model that holds its data."""

    y: np.ndarray
    X: np.ndarray

    def log_likelihood(self, t):
        """Part of `helpers`."""
        r = self.y - predict(t, self.X)
        return -0.5 * np.sum(r * r)


MODEL = Model(np.linspace(0.2, 0.7, 8), MATRIX)


def helpers(t):
    """A log-density of 11 operations in functions and methods of its module, which hold arrays."""
    return prior(t) + MODEL.log_likelihood(t)


@dataclass(frozen=True)
class Case:
    """A function, its argument, and how many operations it does."""

    function: Callable
    x: np.ndarray
    operations: int


CASES = {
    "scalar loop": Case(scalar_loop, np.linspace(0.5, 0.9, 8), 5_000),
    "array loop": Case(array_loop, np.linspace(0.5, 0.9, 8), 2_600),
    "Kalman filter": Case(kalman, np.array([0.9, -1.0, -0.5]), 12_500),
    "eight schools": Case(eight_schools, np.linspace(0.1, 1.0, 10), 25),
    "helpers": Case(helpers, np.linspace(0.5, 0.9, 8), 11),
}


def first_gradient(function: Callable, x: np.ndarray):
    """Return value and gradients of a function that is prepared for this call."""
    import numbatape as nt

    return nt.value_and_gradient(nt.prepare_gradient_cache(function, x), x)


def seconds(case: Case, rounds: int) -> list[float]:
    """Return the processor time of first gradients; the first one, which may load kernels, is not counted."""
    found = []
    for _ in range(rounds + 1):
        function = rebound(case.function)
        gc.collect()
        start = time.process_time()
        first_gradient(function, case.x)
        found.append(time.process_time() - start)
    return found[1:]


def chain(operations: int) -> Callable:
    """Return a function that does so many operations on numbers, and as many reads of entries."""

    def run(x):
        y = x[0]
        for _ in range(operations // 4):
            y = y * x[1] + x[2]
            y = (y - x[3]) * 0.5
        return y

    return run


def peak(operations: int) -> int:
    """Return the bytes that are allocated at most while `chain` is prepared."""
    import numbatape as nt

    function = chain(operations)
    gc.collect()
    tracemalloc.start()
    try:
        nt.prepare_gradient_cache(function, np.linspace(0.5, 0.9, 8))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bytes_an_operation(operations: int = 20_000) -> float:
    """Return the memory that an operation on numbers takes at most, from the trace to the plan."""
    peak(1_000)  # what is imported and kept once does not count
    # The least of two, because tables of the process that happen to grow in a run do not count either.
    least, most = (min(peak(n), peak(n)) for n in (operations, 2 * operations))
    return (most - least) / operations


def measure(rounds: int, progress: Callable) -> dict:
    """Return the least time of each case, in all and an operation."""
    found = {}
    for name, case in CASES.items():
        progress(f"tracing, {name}")
        least = summary(seconds(case, rounds))["minimum"]
        found[name] = {"first gradient": least, "an operation": least / case.operations}
    return found
