"""``math``: Python floats in, a Python float (weakly typed) out."""

from __future__ import annotations

import numpy as np

from ..array import TracedArray
from ..primitives import elementwise
from .common import lift_all
from .stand_ins import stands_for

UFUNCS = (
    *("exp", "exp2", "expm1", "log2", "log10", "log1p", "sqrt", "cbrt", "fabs", "floor", "ceil", "trunc"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fmod", "copysign", "degrees", "radians"),
    *("isnan", "isinf", "isfinite"),
)
RENAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
           "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}  # fmt: skip
ROWS = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


# Where ``math`` raises ValueError. A guard, so that a call outside runs the function again and it
# raises, or its ``except`` runs.
DOMAINS = {
    "sqrt": lambda x: x >= 0.0,
    **dict.fromkeys(("log", "log2", "log10"), lambda x: x > 0.0),
    "log1p": lambda x: x > -1.0,
    **dict.fromkeys(("asin", "acos"), lambda x: abs(x) <= 1.0),
    "acosh": lambda x: x >= 1.0,
    "atanh": lambda x: abs(x) < 1.0,
}


def _guard_domain(name: str, x) -> None:
    inside = DOMAINS.get(name)
    if inside is not None and type(x) is TracedArray:
        bool(inside(x) | (x != x))  # NaN passes through math as well


def _through_ufunc(name, ufunc):
    def call(*args):
        _guard_domain(name, args[0])
        if len(args) > 2:  # math.hypot takes any number
            return np.linalg.norm(np.stack(lift_all(*args)))
        return ufunc(*args)

    return call


for _names in (dict(zip(UFUNCS, UFUNCS, strict=True)), RENAMED):
    for _name, _its in _names.items():
        stands_for("math", _name)(_through_ufunc(_name, getattr(np, _its)))


def _through_row(row):
    def call(x):
        return elementwise(row, x)

    return call


for _name, _row in ROWS.items():
    stands_for("math", _name)(_through_row(_row))


@stands_for("math", "log")
def log(x, base=None):
    _guard_domain("log", x)
    if base is not None:
        _guard_domain("log", base)
    return np.log(x) if base is None else np.log(x) / np.log(base)


@stands_for("math", "ldexp")
def ldexp(x, i):
    return np.ldexp(x, i)


@stands_for("math", "modf")
def modf(x):
    return np.modf(x)


@stands_for("math", "isclose", run=None)
def isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    near = abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)
    return bool(near & ~np.isinf(a) & ~np.isinf(b))


@stands_for("math", "fsum")
def fsum(seq):
    return np.sum(np.stack(lift_all(*seq)))


@stands_for("math", "prod")
def prod(iterable, *, start=1):
    return np.prod(np.stack(lift_all(*iterable))) * start


@stands_for("math", "dist")
def dist(p, q):
    p, q = (np.stack(part) if isinstance(part, (list, tuple)) else part for part in (p, q))
    return np.linalg.norm(p - q)


@stands_for("math", "sumprod")
def sumprod(p, q):
    return np.dot(*(np.stack(part) if isinstance(part, (list, tuple)) else part for part in (p, q)))
