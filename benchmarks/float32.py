"""Gradients of float32 vectors beside those of float64, and beside NumPy's values.

``python -m benchmarks.float32`` prints processor times of bound value and gradient, as they are in
docs/benchmarks.md. The calls of a row are timed in turn, and the least time of each counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks.report import markdown_table, time_text
from benchmarks.timing import calls_per_round, cpu_time

SIZES = (100, 1_000, 10_000, 100_000)
DTYPES = (np.float64, np.float32)


def arithmetic(x, y):
    """Arithmetic alone."""
    return np.sum((x * y + x - y) * (x - y) * x / (y * y + x * x))


def normal(x, y):
    """A normal log-density without its constants."""
    z = (x - y) * x
    return np.sum(-z * z)


def squares(x, y):
    """A sum of squared differences. (NumPy's own dot product would add the time of BLAS's threads.)"""
    return np.sum((x - y) ** 2)


def sines(x, y):
    """Sines alone."""
    return np.sum(np.sin(x))


def chain(x, y):
    """Three functions, one of the other."""
    return np.sum(np.sin(np.cos(np.exp(x))))


def bump(x, y):
    """A product of two functions."""
    return np.sum(np.tanh(x) * np.exp(y))


def softplus(x, y):
    """The logarithm of ``1 + exp(-|x|)``."""
    return np.sum(np.log1p(np.exp(-np.abs(x))))


FUNCTIONS = (arithmetic, normal, squares, sines, chain, bump, softplus)


def arguments(size: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    x, y = rng.uniform(0.2, 1.2, (2, size))
    return x.astype(dtype), y.astype(dtype)


def calls(function: Callable, size: int) -> dict[str, Callable]:
    """Return bound gradients and NumPy's values, by dtype."""
    import numbatape as nt

    found: dict[str, Callable] = {}
    for dtype in DTYPES:
        given = arguments(size, dtype)
        name = np.dtype(dtype).name
        found[name] = nt.prepare_gradient_cache(function, *given).bind(*given)
        found[f"{name}, NumPy's value"] = lambda given=given: function(*given)
    return found


def least(timed: dict[str, Callable], rounds: int, seconds: float) -> dict[str, float]:
    """Return the least processor time of each call, in seconds; they are timed in turn."""
    number = {name: calls_per_round(call, seconds) for name, call in timed.items()}
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, call in timed.items():
            best[name] = min(best[name], cpu_time(call, number[name]) / number[name])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.004, help="least duration of one timing")
    given = parser.parse_args()
    rows = [["function", "size", "float64", "float32", "ratio", "float32, NumPy's value"]]
    for function in FUNCTIONS:
        for size in SIZES:
            best = least(calls(function, size), given.rounds, given.seconds)
            double, single = best["float64"], best["float32"]
            times = [time_text(t) for t in (double, single)]
            value = time_text(best["float32, NumPy's value"])
            rows.append([function.__name__, str(size), *times, f"{single / double:.2f}", value])
    print(markdown_table(rows))


if __name__ == "__main__":
    main()
