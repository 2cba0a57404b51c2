"""Derivatives by central differences, extrapolated to step zero.

A single step size proves nothing: some step may agree by accident with a wrong derivative, or none may
agree with the right one. The extrapolation uses many steps, and estimates its own error from how far they
differ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LEVELS = 9
FEWEST = 4  # fewer steps may agree by accident
RATIO = 2.0


def extrapolated(
    f: Callable[[float], np.ndarray], step: float, enough: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (derivative of f at 0, estimate of its error), entry by entry (Ridders, 1982).

    Parameters
    ----------
    f
        Function of a real number to an array.
    step
        The first step; the last is smaller by a factor of 256 at most.
    enough
        No smaller steps are taken once the errors of all entries are estimated to be at most this.
    """
    previous: list[np.ndarray] = []
    best = error = None
    for level in range(LEVELS):
        h = step / RATIO**level
        with np.errstate(all="ignore"):
            row = [(np.asarray(f(h), float) - np.asarray(f(-h), float)) / (2.0 * h)]
            for k, last in enumerate(previous):
                factor = RATIO ** (2 * (k + 1))
                row.append((factor * row[k] - last) / (factor - 1.0))
                # The error estimate of Ridders: how far an entry is from its two neighbours in the table.
                seen = np.maximum(np.abs(row[k + 1] - row[k]), np.abs(row[k + 1] - last))
                seen = np.where(np.isnan(seen), np.inf, seen)
                if best is None or error is None:
                    best, error = row[k + 1], seen
                else:
                    better = seen < error
                    best, error = np.where(better, row[k + 1], best), np.where(better, seen, error)
        previous = row
        if level + 1 >= FEWEST and error is not None and np.all(error <= enough):
            break
    assert best is not None
    assert error is not None
    return best, error
