"""``np.polynomial`` with any number of coefficients; what is not here runs as NumPy's own code."""

from __future__ import annotations

import numpy as np

from ..trace import operations
from ..trace.axes import length
from ..trace.operands import find_trace, lift, values_of
from ..trace.symbolic_sizes import is_size
from .registration import run_composition
from .sized import counted
from .stand_ins import stands_for


def _series(*operands):
    """Return coefficients as a vector of floats, None if they are not one whose length is a size."""
    c = operands[0]
    if type(c) in (list, tuple):
        c = lift(find_trace(*operands), c)
    if np.ndim(values_of(c)) != 1 or not hasattr(c, "_trace") or not is_size(length(c, 0)):
        return None
    return c if c.dtype.kind in "fc" else c + 0.0


def _or_copy(name: str, module: str = "polynomial"):
    """Register an implementation, which returns None for what NumPy's own code is to do."""

    def register(implementation):
        original = getattr(getattr(np.polynomial, module), name)

        def call(*args, **kwargs):
            found = implementation(*args, **kwargs)
            return operations.library_copy(original)(*args, **kwargs) if found is None else found

        stands_for(f"numpy.polynomial.{module}", name, run=run_composition)(call)
        return implementation

    return register


@_or_copy("polyval")
def polyval(x, c, tensor=True):
    series = _series(c, x)
    if series is None or np.iscomplexobj(values_of(series)) or np.iscomplexobj(values_of(x)):
        return None
    if isinstance(x, (tuple, list)):
        x = np.asarray(x)
    return np.polyval(series[::-1], x) if tensor or np.ndim(values_of(x)) == 0 else None


@_or_copy("polyder")
def polyder(c, m=1, scl=1, axis=0):
    series = _series(c)
    if series is None or type(m) is not int or m < 1 or length(series, 0) <= m:
        return None
    for _ in range(m):
        series = (counted(length(series, 0))[1:] * (series[1:] * scl)) * 1.0
    return series


@_or_copy("polyint")
def polyint(c, m=1, k=(), lbnd=0, scl=1, axis=0):
    series = _series(c)
    constants = [*k] if np.ndim(values_of(k)) else [k]
    if series is None or type(m) is not int or m < 1 or len(constants) > m or np.ndim(values_of(lbnd)):
        return None
    if length(series, 0) < 2:  # NumPy asks whether a single coefficient is zero
        return None
    for constant in [*constants, *[0.0] * (m - len(constants))]:
        series = series * scl
        terms = np.concatenate([np.zeros(1), series / (counted(length(series, 0)) + 1)])
        below = constant - np.polyval(terms[::-1], lbnd)
        series = np.concatenate([np.reshape(below, (1,)), terms[1:]])
    return series


@_or_copy("mapdomain", "polyutils")
def mapdomain(x, old, new):
    """Map a polynomial, as `convert` does: NumPy makes an array of it, whose one entry is an object."""
    if getattr(type(x), "__array_ufunc__", x) is not None:
        return None
    offset, scale = np.polynomial.polyutils.mapparms(old, new)
    return offset + scale * x
