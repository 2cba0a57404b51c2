"""The table of those ufuncs of ``scipy.special`` that are compositions of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...numpy_api.registration import unsupported_argument
from ...tape.tape import ACTIVE
from ...trace.array import TracedArray
from ...trace.operands import values_of

UFUNCS: dict[str, Callable] = {}  # The keys are names, because SciPy may not be imported yet.


def ufunc(*names):
    """Register a composition for ufuncs of ``scipy.special``."""

    def register(function):
        for name in names:
            UFUNCS[name] = function
        return function

    return register


def is_active(x) -> bool:
    """Whether an operand is traced and has a derivative."""
    return type(x) is TracedArray and x._level == ACTIVE


def refuse_slope(name: str, n) -> None:
    """Raise for a degree that has a derivative."""
    if is_active(n):
        hint = "for its degree there is no formula; pass it as nt.Constant, or wrap it in nt.stop_gradient"
        raise unsupported_argument(f"scipy.special.{name}", "a degree with a derivative", hint)


def whole_order(name: str, m) -> int:
    """Return an order, which may be negative, as an int, or raise if it is none."""
    refuse_slope(name, m)
    if np.ndim(values_of(m)) == 0 and values_of(m) == int(values_of(m)):
        return int(m)
    raise unsupported_argument(f"scipy.special.{name}", f"m={values_of(m)!r}", "one whole number is")


def whole(name: str, n) -> int:
    """Return a degree as an int, or raise if it is none; a traced one records a guard."""
    refuse_slope(name, n)
    if np.ndim(values_of(n)) == 0 and values_of(n) == int(values_of(n)) and values_of(n) >= 0:
        return int(n)
    raise unsupported_argument(f"scipy.special.{name}", f"n={values_of(n)!r}", "one whole number is")
