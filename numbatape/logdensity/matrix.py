"""The matrices of draws: one row per draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def finite_rows(matrix: Matrix) -> npt.NDArray[np.bool_]:
    """Return which rows hold neither NaN nor infinity."""
    finite: npt.NDArray[np.bool_] = np.isfinite(matrix)
    return np.asarray(finite.all(axis=1))
