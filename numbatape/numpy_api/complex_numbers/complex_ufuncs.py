"""``__array_ufunc__`` of complex numbers: calls, reduce, accumulate, outer."""

from __future__ import annotations

import numpy as np

from ...errors import UnsupportedOperationError
from ...tape.tape import CONSTANT, as_dtype
from ...trace import complex_parts, operations
from ...trace.operands import adopt, values_of
from ...trace.plain_arrays import as_ndarrays
from ...usercode.frames import not_supported
from ..dispatch import AXES, along_axes
from ..function_tables import COMPLEX_UFUNCS
from ..ufuncs import METHODS, into_out, name_of

REDUCTIONS = {np.add: np.sum, np.multiply: np.prod}
SINGLE = (np.complex64, np.float32, np.float16)
ACCUMULATIONS = {np.add: np.cumsum, np.multiply: np.cumprod}


def unsupported(what: str, hint: str = "") -> UnsupportedOperationError:
    return not_supported(f"{what} of complex traced numbers", hint)


def call_complex_ufunc(ufunc, method, inputs, kwargs):
    """Record what NumPy was asked to do with complex inputs."""
    if method == "at":
        return operations.ufunc_at(ufunc, *inputs)
    if kwargs.get("out") is not None:
        return into_out(ufunc, method, inputs, kwargs)
    inputs, kwargs = as_ndarrays((inputs, kwargs))
    name = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
    kwargs.pop("out", None)
    if method == "__call__":
        if kwargs.pop("where", True) is not True:
            raise unsupported(f"{name}(..., where=mask)", "use np.where(mask, ..., ...)")
        return call(ufunc, inputs, kwargs)
    if method == "outer":
        left, right = inputs
        shape = (*np.shape(values_of(left)), *(1,) * np.ndim(values_of(right)))
        return ufunc(np.reshape(left, shape), right, **kwargs)
    if method == "accumulate" and not np.ndim(values_of(inputs[0])):
        raise TypeError("cannot accumulate on a scalar")
    function = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}.get(method, {}).get(ufunc)
    if function is not None:
        if (
            method == "accumulate" and kwargs.get("dtype") is not None
        ):  # np.cumsum takes fewer names of dtypes
            kwargs["dtype"] = as_dtype(kwargs["dtype"])
        return function(inputs[0], axis=kwargs.pop("axis", 0), **kwargs)
    if COMPLEX_UFUNCS.find(ufunc) is None or (ufunc.nin, ufunc.nout) != (2, 1):
        raise unsupported(name)
    return METHODS[method](ufunc, inputs, kwargs)


def _as_doubles(x):
    """Return an operand in the precision of a double result, in which NumPy computes all steps to it."""
    kind = getattr(values_of(x), "dtype", None)
    if kind not in SINGLE:
        return x
    return _as(x, complex if kind.kind == "c" else float)


def _as(x, dtype):
    return np.astype(x, dtype) if complex_parts.is_traced(x) else np.asarray(x, dtype)[()]


def call(ufunc, inputs, kwargs):
    """Return ``ufunc(*inputs, **kwargs)`` of complex operands, by its implementation for pairs of parts."""
    options = [name for name in kwargs if name not in ("dtype", "casting", "order", "subok")]
    if options and ufunc.signature is not None and AXES.issuperset(options):
        return along_axes(ufunc, inputs, kwargs)
    dtype = kwargs.pop("dtype", None)
    if options:
        raise unsupported(f"np.{ufunc.__name__}({', '.join(options)}=...)")
    function = COMPLEX_UFUNCS.find(ufunc)
    if function is None and ufunc.signature is not None:  # sizes of its results may be those of `out` alone
        raise unsupported(name_of(ufunc))
    trace = complex_parts.trace_of(*inputs)
    values = [values_of(x) for x in inputs]
    value = ufunc(*values, **kwargs) if dtype is None else ufunc(*values, dtype=dtype, **kwargs)
    if dtype is not None and as_dtype(dtype).kind != "c":
        return ufunc(*(np.astype(x, as_dtype(dtype)) for x in inputs))  # NumPy casts, if the rule allows it
    if dtype is not None:  # NumPy casts before it computes, truth values as well
        inputs = [_as(x, as_dtype(dtype)) for x in inputs]
    if function is None:
        if all(x._level == CONSTANT for x in inputs if complex_parts.is_traced(x)):
            trace.pin_constants()
            return value
        found = operations.complex_special(ufunc, inputs)
        if found is None:
            raise unsupported(name_of(ufunc))
        return found
    if getattr(value, "dtype", None) == np.complex128:
        inputs = [_as_doubles(x) for x in inputs]
    result = function(*[complex_parts.signed_halves(x, trace) for x in inputs])
    return complex_parts.make(*result, value) if result.__class__ is tuple else adopt(result, value)
