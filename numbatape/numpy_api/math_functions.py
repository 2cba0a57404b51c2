"""``math``: Python floats in, a Python float (weakly typed) out."""

from __future__ import annotations

import math

import numpy as np

from ..trace import size_fractions
from ..trace.array import TracedArray
from ..trace.kinds import truth
from ..trace.operands import lift_all
from ..trace.primitives import elementwise
from . import exact_math
from .stand_ins import stands_for

UFUNCS = (
    *("exp", "exp2", "expm1", "log2", "log10", "log1p", "sqrt", "cbrt", "fabs"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fmod", "copysign", "degrees", "radians"),
    *("isnan", "isinf", "isfinite"),
)
TESTS = UFUNCS[-3:]
RENAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
           "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}  # fmt: skip
ROWS = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


# These raise where NumPy returns NaN or an infinity for finite numbers.
RAISING = {
    *("exp", "exp2", "expm1", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "fmod"),
    *("floor", "ceil", "trunc", "asin", "acos", "acosh", "atanh", "pow", "gamma", "lgamma"),
}


def _guarded(result, *args):
    """Return a result, with guards that fail for arguments for which ``math`` raises.

    A call with such arguments then runs the function itself, which raises, or its ``except`` runs.
    """
    # `math` has not raised for these arguments: if the result is not finite, one of them is not either.
    if type(result) is TracedArray and not np.isfinite(result):
        for x in args:
            if type(x) is TracedArray and not np.isnan(x):
                bool(x == np.inf) or bool(x == -np.inf)
    return result


def _through_ufunc(name, ufunc):
    def call(*args):
        if name in TESTS:
            return truth(ufunc(*args))
        if exact_math.wanted():
            result = exact_math.exact(name, args)
            if result is not None:
                return _guarded(result, *args) if name in RAISING else result
        if len(args) > 2:  # math.hypot takes any number of arguments
            return np.linalg.norm(np.stack(lift_all(*args)))
        return _guarded(ufunc(*args), *args) if name in RAISING else ufunc(*args)

    return call


for _names in (dict(zip(UFUNCS, UFUNCS, strict=True)), RENAMED):
    for _name, _its in _names.items():
        stands_for("math", _name)(_through_ufunc(_name, getattr(np, _its)))


def _through_row(name, row):
    def call(x):
        result = exact_math.exact(name, (x,)) if exact_math.wanted() else None
        if result is None:
            result = elementwise(row, x)
        return _guarded(result, x) if name in RAISING else result

    return call


for _name, _row in ROWS.items():
    stands_for("math", _name)(_through_row(_name, _row))


def _rounding(name, rounding):
    """Return the stand-in for a rounding function, whose result for a fraction of a size is a size."""
    otherwise = _through_ufunc(name, getattr(np, name))

    def call(x):
        size = size_fractions.rounded_to_size(x, rounding)
        return otherwise(x) if size is None else size

    return call


for _name, _how in (
    ("floor", size_fractions.DOWN),
    ("trunc", size_fractions.DOWN),
    ("ceil", size_fractions.UP),
):
    stands_for("math", _name)(_rounding(_name, _how))


@stands_for("math", "isqrt", run=None)
def isqrt(n, /):
    root = size_fractions.integer_root(n)
    return math.isqrt(n) if root is None else root


@stands_for("math", "comb", run=None)
def comb(n, k, /):
    """Pairs of a size are a size, other numbers of combinations are ints that the tape relies on."""
    size = size_fractions.size_of(n) if type(k) is int and 0 <= k <= 2 else None
    return math.comb(n, k) if size is None else (1, size, size * (size - 1) // 2)[k]


@stands_for("math", "log")
def log(x, base=None):
    logarithm = exact_math.logarithm if exact_math.wanted() else np.log
    if base is None:
        return _guarded(logarithm(x), x)
    return _guarded(_guarded(logarithm(x), x) / _guarded(logarithm(base), base), x, base)


@stands_for("math", "remainder")
def remainder(x, y):
    return _guarded(exact_math.remainder(*lift_all(x, y)), x, y)


@stands_for("math", "ldexp")
def ldexp(x, i):
    return _guarded(np.ldexp(x, i), x)


@stands_for("math", "frexp")
def frexp(x):
    return np.frexp(x)


@stands_for("math", "nextafter")
def nextafter(x, y, *, steps=None):
    for _ in range(1 if steps is None else steps):
        x = np.nextafter(x, y)
    return x


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
    terms = lift_all(*seq)
    if not terms:
        return 0.0
    total = exact_math.total(terms) if exact_math.wanted() else np.sum(np.stack(terms))
    return _guarded(total, *terms)


@stands_for("math", "prod")
def prod(iterable, *, start=1):
    factors = lift_all(*iterable)
    return np.prod(np.stack(factors)) * start if factors else start


@stands_for("math", "dist")
def dist(p, q):
    p, q = (np.stack(part) if isinstance(part, (list, tuple)) else part for part in (p, q))
    if exact_math.wanted():
        return exact_math.distance(*lift_all(p, q))
    return np.linalg.norm(p - q)


@stands_for("math", "sumprod")
def sumprod(p, q):
    p, q = (np.stack(part) if isinstance(part, (list, tuple)) else part for part in (p, q))
    return exact_math.sum_of_products(*lift_all(p, q)) if exact_math.wanted() else np.dot(p, q)
