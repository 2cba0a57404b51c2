"""Rows whose bits are those of Python's ``math``, which calls the C library: for ``Config(values="numpy")``.

NumPy's loops, and the rows that use them, differ from the C library in the last bits. Each row here is
another row of the table with the library's function as its value; derivatives are the same.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .table import Elementwise, register_row, registered

PREFIX = "libm_"
# The keys are names in ``math``; the values, names of rows.
FUNCTIONS = {
    **{name: name for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "erf", "erfc")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: name.replace("a", "arc", 1) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "atan2": "arctan2",
    "pow": "power",
}


def without_errors(name: str, otherwise):
    """Return a function of ``math`` for arrays, with infinities and NaN where it raises."""
    function = getattr(math, name)

    def one(*args):
        try:
            return function(*args)
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return otherwise(*args)

    def many(*args):
        return np.vectorize(one, otypes=[float])(*args)[()]

    return many


def _register(name: str, its: str) -> None:
    op = registered(its)
    assert isinstance(op, Elementwise)
    letters = ", ".join("xy"[: op.arity])
    otherwise = op.numpy[0] if not isinstance(op.numpy[0], str) else lambda *_: np.nan
    register_row(
        dataclasses.replace(
            op,
            name=PREFIX + its,
            value=f"math.{name}({letters})",
            numpy=(without_errors(name, otherwise),),
            hot=False,
            python=True,
            loop=None,
            paired="",
        )
    )


for _name, _its in FUNCTIONS.items():
    _register(_name, _its)
