"""Arguments of a call: their values and their trace, plain data as traced arrays; and values of results."""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedOperationError
from ..tape.tape import CONSTANT, F64, family_of_dtype
from ..usercode.frames import where_in_user_code
from . import operations
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced
from .axes import drop_axes
from .complex_array import TracedComplex
from .constants import as_base
from .primitives import FLOAT64, family_of, rounded, trace_of
from .trace import CURRENT, Trace


def values_of(tree):
    """Return arguments of a call with traced arrays replaced by their values."""
    kind = type(tree)
    if kind is TracedArray or kind is TracedComplex:
        return tree._value
    if kind is operations.TracedInteger:
        return sizes.valued(tree)
    if kind is list:
        return [values_of(item) for item in tree]
    if kind is tuple:
        return tuple([values_of(item) for item in tree])
    if kind is dict:
        return {key: values_of(item) for key, item in tree.items()}
    return tree


def find_trace(*trees) -> Trace | None:
    """Return the trace of the first traced array in arguments, lists and tuples included."""
    for tree in trees:
        if type(tree) is TracedArray:
            return trace_of((tree,))
        if type(tree) is TracedComplex:
            return trace_of([part for part in (tree._re, tree._im) if part is not None])
        if isinstance(tree, (list, tuple)):
            found = find_trace(*tree)
            if found is not None:
                return found
    return None


def lift(trace: Trace, x) -> TracedArray:
    """Return an operand as a traced array: literals for plain data, stacked lists of traced.

    Raises
    ------
    ForeignTraceError
        If the operand is a value of another trace.
    """
    if type(x) is TracedArray or type(x) is TracedComplex:
        if x._trace is not trace:
            raise sizes.foreign()
        return x
    if isinstance(x, (list, tuple)) and find_trace(x) is not None:
        x = operations.as_entries(x) if operations.among(x) else x
        return np.stack([lift(trace, item) for item in x])
    value = as_base(x) if isinstance(x, np.ndarray) else np.asarray(x)
    if hasattr(type(value), "_as_traced"):  # a plain array, to which traced values may be written later
        return value._as_traced()
    if value.dtype.kind == "c":
        return operations.constant(trace, value)
    family = family_of_dtype(value.dtype)
    number = trace.constants.number_of(value, family)
    return new_traced(trace, value if value.ndim else value[()], number, CONSTANT, family)


def lift_all(*operands) -> list[TracedArray]:
    """Return operands of one call, in which at least one thing is traced, as traced arrays."""
    trace = find_trace(*operands) or CURRENT.get()
    assert trace is not None
    return [lift(trace, x) for x in operands]


def lift_first(x, *others) -> TracedArray:
    """Return ``x`` as a traced array; the trace is that of any argument of the call.

    The traced value may be none of ``x`` and ``others``: a position, an option, an entry of a list.
    """
    return x if type(x) is TracedArray else lift(find_trace(x, *others) or CURRENT.get(), x)


NUMPYS = (np.ndarray, np.float64)


def may_be_guard(condition) -> bool:
    """Whether Python may ask for the truth value of a condition, traced or not, see `Trace.may_guard`."""
    return type(condition) is not TracedArray or condition._trace.may_guard(condition)


def is_wrong(condition) -> bool:
    """Return whether a condition holds under which NumPy raises: a guard.

    The body of a loop has no guards on what differs from step to step: there NumPy has raised for the numbers
    with which the body was traced, and nothing does so for others.
    """
    return may_be_guard(condition) and bool(condition)


def adopt(result, value):
    """Return a traced result that carries NumPy's own value; tuples and lists entry by entry."""
    if type(result) is TracedArray:
        its = result._value
        same_kind = value.__class__ is its.__class__ and value.__class__ in NUMPYS
        if same_kind and result._family == F64 and value.dtype is FLOAT64 and value.shape == its.shape:
            return new_traced(result._trace, value, result._id, result._level, F64)
        if value.__class__ is float and its.__class__ is np.float64 and result._family == F64:
            return new_traced(result._trace, value, result._id, result._level, F64)
        if np.shape(value) != np.shape(result._value):
            if np.shape(result._value) != (1,) or np.ndim(value):
                raise UnsupportedOperationError(
                    f"a result of shape {np.shape(value)} at {where_in_user_code()}: its rule gives shape "
                    f"{np.shape(result._value)}; please report this"
                )
            result = drop_axes(result, (0,))
        family, number = result._family, result._id
        dtype = np.asarray(value).dtype
        if dtype == np.float16 and result.dtype != dtype:
            return rounded(result, value)
        if dtype.kind == "f" and family != family_of(value):
            family = family_of(value)
            number = result._trace.cast(result, family)
        return new_traced(result._trace, value, number, result._level, family)
    if type(result) is TracedComplex:
        return operations.adopted(result, value)
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return result.__class__([adopt(one, its) for one, its in zip(result, value, strict=True)])
    return result


def begun(initial, dtype):
    """Return the ``initial`` of a reduction in the dtype in which NumPy reduces; integers lose a fraction."""
    if not hasattr(initial, "_value"):
        initial = np.asarray(initial)
    if initial.dtype.kind == "c" and dtype.kind not in "bc":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    return np.reshape(np.astype(initial, dtype, copy=False), ())[()]
