"""What the implementations share: NumPy's own result first, lifting, axes, merged axes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..emitter import addresses
from ..emitter.instructions import row
from ..errors import UnsupportedOperationError
from ..tape.tape import CONSTANT, F32, F64, family_of_dtype
from ..trace import operations
from ..trace.array import TracedArray, new_traced
from ..trace.complex_array import TracedComplex
from ..trace.primitives import (
    FLOAT64,
    array_instruction,
    contiguous,
    expand,
    family_of,
    layout_of,
    rounded,
    seen,
    trace_of,
    transpose,
)
from ..trace.trace import CURRENT, Trace
from ..usercode.frames import where_in_user_code
from ..usercode.users_line import UsersLine
from .registry import REAL, full_name, register_form


def plain(tree):
    """Return arguments of a call with traced arrays replaced by their values."""
    kind = type(tree)
    if kind is TracedArray or kind is TracedComplex:
        return tree._value
    if kind is list:
        return [plain(item) for item in tree]
    if kind is tuple:
        return tuple([plain(item) for item in tree])
    if kind is dict:
        return {key: plain(item) for key, item in tree.items()}
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


def unsupported_argument(function, name: str, hint: str = "") -> UnsupportedOperationError:
    """Return the error for an argument, or for the value of one, that has no rule."""
    name_of = function if isinstance(function, str) else full_name(function)
    return UnsupportedOperationError(
        f"{name_of}(..., {name}) of a traced array at {where_in_user_code()} is not supported"
        + (f"; {hint}" if hint else "")
    )


# ---- registration


def composes(*functions: Callable, complex: str | None = None):
    """Register a composition of other functions.

    NumPy is called first: it raises its own errors, and its result is the value that the
    composition's result carries (they may differ in the last bits).

    Parameters
    ----------
    complex
        The implementation for complex arguments, see `registry.implements`.
    """
    return _registrar(functions, run_composition, complex)


def records(*functions: Callable, complex: str | None = None):
    """Register an implementation whose first argument is NumPy's own result."""
    return _registrar(functions, run_record, complex)


CONTAINERS = (list, tuple, dict)
NUMPYS = (np.ndarray, np.float64)


def run_composition(implementation, value, args, kwargs):
    if kwargs or any([type(x) in CONTAINERS or (type(x) is TracedArray and x._family == F32) for x in args]):
        if value.__class__ is float or getattr(value, "dtype", None) == np.float64:
            args, kwargs = (converted(tree, np.float32, np.float64) for tree in (args, kwargs))
        # NumPy computes functions of float16 in float32, and rounds at the end.
        args, kwargs = (converted(tree, np.float16, np.float32) for tree in (args, kwargs))
    with np.errstate(all="ignore"):  # NumPy's own call has given the warnings already
        return adopt(implementation(*args, **kwargs), value)


def converted(tree, old, new):
    """Return arguments with traced numbers of one dtype cast to another, in which NumPy computes."""
    kind = type(tree)
    if kind is TracedArray:
        return np.astype(tree, new) if tree._family == F32 and tree.dtype == old else tree
    if kind is list or kind is tuple:
        return kind([converted(item, old, new) for item in tree])
    if kind is dict:
        return {key: converted(item, old, new) for key, item in tree.items()}
    return tree


def run_record(implementation, value, args, kwargs):
    return implementation(value, *args, **kwargs)


def _registrar(functions, run, complex):
    def decorate(implementation):
        for function in functions:
            REAL.register((function,), evaluated(function, implementation, run))
        register_form(functions, complex)
        return implementation

    return decorate


def as_users_call(function):
    """Return a library's function that is called from the user's line, which SciPy's warnings then name."""
    if not (getattr(function, "__module__", None) or "").startswith("scipy."):
        return function
    return lambda *args, **kwargs: UsersLine().call(function, *args, **kwargs)


def evaluated(function, implementation, run):
    """Return a function of traced arguments that calls NumPy's ``function`` on their values first."""
    accepted, takes_any = _keywords(implementation)
    call_function = as_users_call(function)

    @functools.wraps(implementation)
    def call(*args, **kwargs):
        if "overwrite_input" in kwargs:
            raise unsupported_argument(function, "overwrite_input", "leave it out")
        value = call_function(*plain(args), **(plain(kwargs) if kwargs else kwargs))
        for name in kwargs:
            if name not in accepted and not takes_any:
                raise unsupported_argument(function, name)
        return run(implementation, value, args, kwargs)

    return call


def _keywords(implementation) -> tuple[frozenset[str], bool]:
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(names), bool(code.co_flags & inspect.CO_VARKEYWORDS)


def adopt(result, value):
    """Return a traced result that carries NumPy's own value; tuples and lists entry by entry."""
    if type(result) is TracedArray:
        its = result._value
        same_kind = value.__class__ is its.__class__ and value.__class__ in NUMPYS
        if same_kind and result._family == F64 and value.dtype is FLOAT64 and value.shape == its.shape:
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


# ---- operands


def lift(trace: Trace, x) -> TracedArray:
    """Return an operand as a traced array: literals for plain data, stacked lists of traced."""
    if type(x) is TracedArray or type(x) is TracedComplex:
        return x
    if isinstance(x, (list, tuple)) and find_trace(x) is not None:
        return np.stack([lift(trace, item) for item in x])
    value = x if isinstance(x, np.ndarray) else np.asarray(x)
    if value.dtype.kind == "c":
        return operations.constant(trace, value)
    family = family_of_dtype(value.dtype)
    number = trace.literal(value, family)
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


def axes_of(x, axis) -> tuple[int, ...]:
    """Return ``axis`` as a tuple of non-negative axes; None means all. Numbers have the axes 0 and -1."""
    if axis is None or (x.ndim == 0 and axis in (0, -1)):
        return tuple(range(x.ndim))
    return normalize_axis_tuple(axis, x.ndim)


def one_axis(x, axis) -> int:
    return normalize_axis_tuple(axis, x.ndim)[0]


def pinned(x: TracedArray, axis: int) -> int:
    """Return the size of one axis; the tape then holds for this size only."""
    if type(x) is not TracedArray:  # a complex array, whose parts record the guard
        return x.shape[axis]
    return x._trace.tape.sizes.pin(layout_of(x).dims[axis])


def count_of(x: TracedArray, axes) -> int:
    result = 1
    for axis in axes:
        result *= pinned(x, axis)
    return result


# ---- views that keep sizes symbolic


def merge(x: TracedArray, counts: Sequence[int]) -> TracedArray:
    """Return ``x`` with neighbouring axes merged: ``counts[k]`` of them become axis k.

    The result is a view where the strides allow it, else a copy. A count of zero makes an axis of size one.
    """
    tape = x._trace.tape
    number = addresses.merged(tape, x._id, counts)
    if number is None:
        x = contiguous(x)
        number = addresses.merged(tape, x._id, counts)
        assert number is not None
    shape = [tape.sizes.value(d) for d in addresses.layout_of(tape, number).dims]
    return seen(x, np.reshape(x._value, shape), number)


def unmerge(x: TracedArray, dims) -> TracedArray:
    """Return ``x`` with the given size codes as its shape; their product is its size."""
    x = contiguous(x)
    tape = x._trace.tape
    value = np.reshape(x._value, [tape.sizes.value(d) for d in dims])
    return seen(x, value, addresses.reshaped(tape, x._id, dims))


def drop_axes(x: TracedArray, axes) -> TracedArray:
    """Return ``x`` without the given axes, whose size is one."""
    value = np.asarray(x._value).squeeze(tuple(axes))
    return seen(x, value[()], addresses.dropped(x._trace.tape, x._id, axes))


def axis_to_end(x: TracedArray, axis: int) -> TracedArray:
    if axis == x.ndim - 1:
        return x
    return transpose(x, [*(k for k in range(x.ndim) if k != axis), axis])


def axis_from_end(x: TracedArray, axis: int) -> TracedArray:
    """Undo `axis_to_end`."""
    if axis == x.ndim - 1:
        return x
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return transpose(x, order)


# ---- array ops over axes


def over_axes(op: str, x: TracedArray, axes, function, keepdims=False, ordered=False) -> TracedArray:
    """Record a reduction ``(n)->()`` over several axes as one instruction.

    Parameters
    ----------
    function
        NumPy's reduction, for the value.
    ordered
        Whether the order of the entries matters (positions); otherwise it is that of memory.
    """
    kept = [k for k in range(x.ndim) if k not in axes]
    layout, sizes = layout_of(x), x._trace.tape.sizes
    if row(op).nonempty:  # NumPy raises if there are no entries
        for k in axes:
            sizes.guard(layout.dims[k], ">=", 1)
    if ordered or len(axes) == 1:
        order = sorted(axes)
    else:
        order = sorted(axes, key=lambda k: -abs(sizes.value(layout.strides[k])))
    moved = x if [*kept, *order] == list(range(x.ndim)) else transpose(x, [*kept, *order])
    merged = moved if len(order) == 1 else merge(moved, [1] * len(kept) + [len(order)])
    result = array_instruction(op, (merged,), function(merged._value, axis=-1))
    return expand(result, tuple(axes)) if keepdims and axes else result


def along_axis(op: str, x: TracedArray, axis, function) -> TracedArray:
    """Record an op ``(n)->(n)`` along one axis; None means the flattened array."""
    if axis is None:
        x, axis = merge(x, [x.ndim]), 0
    if x.ndim == 0:  # NumPy treats a number as a vector of one entry
        return along_axis(op, expand(x, (0,)), axis, function)
    axis = one_axis(x, axis)
    moved = axis_to_end(x, axis)
    result = array_instruction(op, (moved,), function(moved._value, axis=-1))
    return axis_from_end(result, axis)
