"""Errors of the kernel language's functions at many points: ``python -m benchmarks.accuracy [COUNT]``.

Prints the largest error in units in the last place over COUNT points of each kind in
``tests/engine/test_elementary.py``. Elementary functions are compared with the C library's of 64-bit
mantissas, whose own error is less than a thousandth of a unit; they take 100 ns a point. The others are
compared with mpmath, which takes 20 to 200 µs, so they get at most 100 000 points of each kind.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.engine.test_elementary import FUNCTIONS, computed, errors

BLOCK = 1_000_000
MOST_BY_MPMATH = 100_000
WIDE = {"exp", "expm1", "log", "log1p", "tanh", "sinh", "cosh", "sin", "cos"}


def largest_error(name: str, points: np.ndarray) -> float:
    values, short = computed(name, points, "run"), name.removeprefix("fast_")
    if short not in WIDE:
        return max(errors(values, points, FUNCTIONS[name][0]))
    exact = getattr(np, short)(points.astype(np.longdouble))
    last = np.spacing(np.abs(exact.astype(float)))
    return float(np.max(np.abs(values - exact) / last))


def main(count: int) -> None:
    for name, (_, _, limit, kinds) in FUNCTIONS.items():
        rng, most = np.random.default_rng(11), 0.0
        wanted = count if name.removeprefix("fast_") in WIDE else min(count, MOST_BY_MPMATH)
        for points in kinds:
            for first in range(0, wanted, BLOCK):
                most = max(most, largest_error(name, points(rng, min(BLOCK, wanted - first))))
        print(f"{name:14} {len(kinds)} times {wanted} points: {most:.3f} ulp, limit {limit}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
