"""What one more scalar operation of a Python loop costs, both sweeps together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.timing import interleave
from benchmarks.workloads import Workload

SHORT, LONG = 1000, 5000


def add(x):
    """y + x[i]"""
    y = x[0]
    for i in range(1, len(x)):
        y = y + x[i]
    return y


def multiply(x):
    """y * x[i]"""
    y = x[0]
    for i in range(1, len(x)):
        y = y * x[i]
    return y


def multiply_add(x):
    """y * x[0] + x[i]"""
    y = x[0]
    for i in range(1, len(x)):
        y = y * x[0] + x[i]
    return y


LOOPS = {add: 1, multiply: 1, multiply_add: 2}  # operations a turn


def cost(prepare: Callable, function: Callable, rounds: int, seconds: float) -> float:
    """Return seconds per operation: the difference between a long and a short loop."""
    calls = {}
    for n in (SHORT, LONG):
        # About one, so that products stay far from overflow and from zero.
        x = 1 + 1e-3 * np.random.default_rng(n).standard_normal(n)
        calls[n] = prepare(Workload(function.__name__, function, (x,)))[0]
    times = interleave(calls, rounds, seconds)
    return (times[LONG]["median"] - times[SHORT]["median"]) / ((LONG - SHORT) * LOOPS[function])
