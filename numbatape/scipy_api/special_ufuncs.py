"""The table of those ufuncs of ``scipy.special`` that are compositions of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numpy_api.registration import unsupported_argument
from ..trace.operands import values_of

UFUNCS: dict[str, Callable] = {}  # by name, because SciPy may not be imported yet


def ufunc(*names):
    """Register a composition for ufuncs of ``scipy.special``."""

    def register(function):
        for name in names:
            UFUNCS[name] = function
        return function

    return register


def whole(name: str, n) -> int:
    """Return a degree as an int, or raise if it is none; a traced one records a guard."""
    if np.ndim(values_of(n)) == 0 and values_of(n) == int(values_of(n)) and values_of(n) >= 0:
        return int(n)
    raise unsupported_argument(f"scipy.special.{name}", f"n={values_of(n)!r}", "one whole number is")
