"""What pandas' objects are, and the arrays in them. This never imports pandas."""

from __future__ import annotations

import numpy as np

from .labels import NUMBERS
from .trace import not_numpys


def is_series(value) -> bool:
    """Whether a value is a Series of pandas."""
    return type(value).__name__ == "Series" and type(value).__module__.partition(".")[0] == "pandas"


def is_frame(value) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return type(value).__name__ == "DataFrame" and type(value).__module__.partition(".")[0] == "pandas"


def numbers_in(value) -> np.ndarray:
    """Return the array of a Series or a DataFrame of numbers.

    Raises
    ------
    UnsupportedOperationError
        For text, dates, and dtypes of pandas' own, whose missing entries are not NaN.
    """
    kinds = [value.dtype] if is_series(value) else list(value.dtypes)
    if not all(isinstance(kind, np.dtype) and kind.kind in NUMBERS for kind in kinds):
        raise not_numpys(value)
    return value.to_numpy()
