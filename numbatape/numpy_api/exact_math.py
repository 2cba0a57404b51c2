"""``math`` and Python's ``**``, bit for bit, for ``Config(values="numpy")``.

Most functions of ``math`` are the C library's, which kernels call, too (`numbatape.ops.libm`). Python itself
computes the others: a sweep calls these as it calls a user's rule.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..late import imported
from ..ops.libm import FUNCTIONS, PREFIX, without_errors
from ..trace.array import TracedArray
from ..trace.primitives import elementwise, value_of
from ..trace.trace import CURRENT


def wanted() -> bool:
    """Whether the trace is for a cache with ``Config(values="numpy")``."""
    trace = CURRENT.get()
    return trace is not None and trace.values == "numpy"


def exact(name: str, args):
    """Return a function of ``math`` by its own code; None where all implementations give the same bits."""
    if name in FUNCTIONS:
        return elementwise(PREFIX + FUNCTIONS[name], *args)
    pullback = PULLBACKS.get(name)
    return None if pullback is None else called(name, pullback, args)


def logarithm(x):
    """``math.log`` of one argument."""
    return exact("log", (x,)) if type(x) is TracedArray else math.log(x)


def called(name: str, pullback, args, value=None):
    """Record a call of Python's function."""
    call = imported("..matrix.matrix_rule", __package__).call
    return call(_rule(name, pullback, value), *args)[0][()]


@functools.cache
def _rule(name: str, pullback, value):
    MatrixRule = imported("..matrix.matrix_rule", __package__).MatrixRule
    return MatrixRule(f"math.{name}", value or without_errors(name, lambda *_: math.nan), pullback)


def _by_row(row: str):
    """Return the pullback of a function of one argument that has a row."""

    def pullback(ybar, y, x):
        partial_function = imported("..derive.formulas", __package__).partial_function
        return (ybar[0] * partial_function(row, 0)(x, None, None, y[0]),)

    return pullback


def _hypot_pullback(ybar, y, *args):
    """Return the pullback of ``math.hypot``, which is zero at the origin."""
    (z,), (ct,) = y, ybar
    at_zero = np.equal(z, 0.0)
    scale = np.where(at_zero, 0.0, ct / np.where(at_zero, 1.0, z))
    return tuple(scale * x for x in args)


PULLBACKS = {
    "cbrt": _by_row("cbrt"),
    "gamma": _by_row("gamma"),
    "lgamma": _by_row("gammaln"),
    "hypot": _hypot_pullback,
}


def total(args):
    """``math.fsum`` of scalars."""

    def value(*xs):
        return np.float64(math.fsum(xs))

    return called("fsum", _fsum_pullback, args, value)


def _fsum_pullback(ybar, y, *args):
    return tuple(ybar[0] for _ in args)


def distance(p, q):
    """``math.dist`` of two vectors."""
    return called("dist", _dist_pullback, (p, q), _dist)


def _dist(p, q):
    return np.float64(math.dist(p, q))


def _dist_pullback(ybar, y, p, q):
    (part,) = _hypot_pullback(ybar, y, p - q)
    return part, -part


def sum_of_products(p, q):
    """``math.sumprod`` of two vectors (Python 3.12)."""
    return called("sumprod", _sumprod_pullback, (p, q), _sumprod)


def _sumprod(p, q):
    return np.float64(math.sumprod(p.tolist(), q.tolist()))  # type: ignore[attr-defined]


def _sumprod_pullback(ybar, y, p, q):
    return ybar[0] * q, ybar[0] * p


def remainder(x, y):
    """``math.remainder``, whose quotient is rounded to the nearest integer."""
    return called("remainder", _remainder_pullback, (x, y))


def _remainder_pullback(ybar, y, a, b):
    return ybar[0], -ybar[0] * np.rint((a - y[0]) / b)


def power_of_scalars(x, y):
    """``x**y`` of scalars, for which both Python and NumPy call the C library's pow; None for others."""
    values = [value_of(part) for part in (x, y)]
    scalars = all(isinstance(value, (int, float, np.integer)) for value in values)
    if not scalars or not any(isinstance(value, float) for value in values):
        return None
    return elementwise(PREFIX + "power", x, y)
