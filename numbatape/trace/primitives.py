"""What all traced functions consist of: elementwise instructions, array instructions, views, copies.

Each function computes the value with NumPy and has the emitter (`numbatape.emitter`) append the
instruction or make the view. The functions of `numbatape.numpy_api` are compositions of these.
"""

from __future__ import annotations

import numpy as np

from ..emitter import addresses, instructions
from ..emitter.instructions import row
from ..errors import UnsupportedOperationError
from ..ops import ArrayOp, Elementwise, resolve
from ..tape.tape import ACTIVE, CONSTANT, F32, F64, NARROW, VARYING, family_of_dtype
from ..usercode.frames import where_in_user_code
from . import operations
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced
from .trace import Trace

BOOL = np.dtype(np.bool_)
NO_DIMS: dict[str, int] = {}
INT64 = np.dtype(np.int64)
# Results of ops with these traits may be beyond the range of small integers.
OVERFLOWING = frozenset(("mirror", "sum", "product", "power"))
FLOAT64, FLOAT32, FLOAT16 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)


def value_of(arg):
    """Return the NumPy value behind an argument, traced or not."""
    return arg._value if type(arg) is TracedArray else arg


def sample_of(arg):
    """Return the NumPy value behind an argument, or zeros of its shape and dtype where nobody computed it."""
    return arg._sample() if type(arg) is TracedArray else arg


def trace_of(args) -> Trace:
    """Return the trace that traced arguments belong to."""
    trace = None
    for arg in args:
        if type(arg) is TracedArray:
            if trace is None:
                trace = arg._trace
            elif arg._trace is not trace:
                raise sizes.foreign()
    assert trace is not None
    if trace.closed:
        trace.check_open()
    return trace


def family_of(value) -> int:
    """Return the family whose cells hold a value; raise for dtypes that are not supported."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if dtype is FLOAT64:
        return F64
    if dtype in NARROW:
        return F32
    if dtype == FLOAT64 or dtype.kind in "biu":
        return F64
    raise UnsupportedOperationError(
        f"a traced operation gives dtype {dtype} at {where_in_user_code()}; use float64 or float32"
    )


def dims_of(array: TracedArray) -> tuple[int, ...]:
    """Return the dimensions as size codes."""
    return layout_of(array).dims


def layout_of(array: TracedArray):
    """Return dimensions and strides as size codes."""
    return array._trace.tape.layout_of(array._id)


def operand(trace: Trace, arg, family: int, of_floats: bool = False) -> int:
    """Return the value number of an argument in a family's cells, see `Constants.number_of`."""
    if type(arg) is TracedArray:
        if arg._trace is not trace:
            raise sizes.foreign()
        return arg._id if arg._family == family else trace.cast(arg, family)
    return trace.constants.number_of(arg, family, of_floats)


def by_row(name: str):
    """Return a row of the op table as a function of arrays, traced or not."""

    def call(*args):
        if any(type(arg) is TracedArray for arg in args):
            return elementwise(name, *args)
        return resolve(row(name).numpy[0])(*args)

    return call


def elementwise(op: Elementwise | str, *args, value=None) -> TracedArray:
    """Record an elementwise op of the table; operands broadcast as NumPy's do.

    Parameters
    ----------
    op
        Row or its name.
    args
        Traced arrays, arrays or numbers.
    value
        The result, if NumPy's function has been called already.
    """
    if op.__class__ is str:
        op = row(op)
    trace = trace_of(args)
    if value is None:
        value = resolve(op.numpy[0])(*map(value_of, args))
    if not hasattr(value, "dtype"):
        raise UnsupportedOperationError(
            f"a {type(value).__name__} is the result of a traced operation at {where_in_user_code()}; use "
            "numbers and arrays of numbers"
        )
    if value.dtype is FLOAT64 or (value.dtype is BOOL and any(map(_is_wide, args))):
        floats = value.dtype is FLOAT64
        numbers = [
            arg._id if type(arg) is TracedArray and arg._family == F64 else operand(trace, arg, F64, floats)
            for arg in args
        ]
        out, level = instructions.elementwise_of_level(trace.tape, op, F64, numbers, trace.line())
        return new_traced(trace, value, out, level, F64)
    return _elementwise_of_dtype(trace, op, args, value)


def _elementwise_of_dtype(trace: Trace, op: Elementwise, args, value) -> TracedArray:
    """Record an elementwise op whose result is not float64."""
    if value.dtype.kind in "iu" and op.integers in OVERFLOWING and value.dtype != INT64:
        return exact_constants(trace, args, value)
    family = family_of(value)
    half = family == F32 and value.dtype == FLOAT16
    if half:
        args = tuple(map(_half_operand, args))
    elif value.dtype.kind == "b" and all(map(_is_single, args)) and not all(map(_is_weak, args)):
        family = F32  # float32 operands are compared as float32
        if all(_is_weak(arg) or value_of(arg).dtype == FLOAT16 for arg in args):
            args = tuple(map(_half_operand, args))
    numbers = [operand(trace, arg, family) for arg in args]
    out, level = instructions.elementwise_of_level(trace.tape, op, family, numbers, trace.line())
    result = new_traced(trace, value, out, level, family)
    if value.dtype == INT64:
        return operations.checked_integers(trace, op, args, result)
    return rounded(result, value) if half and not op.moves else result


def exact_constants(trace: Trace, args, value) -> TracedArray:
    """Return integers that may have wrapped around in their dtype, which cells of floats do not do.

    Raises
    ------
    UnsupportedOperationError
        If they depend on more than constants.
    """
    traced = [arg for arg in args if type(arg) is TracedArray]
    if any(arg._level != CONSTANT for arg in traced):
        if value.dtype == INT64:
            raise UnsupportedOperationError(
                f"integers beyond 2**53 are not exact in a float64 ({where_in_user_code()}); use float64"
            )
        raise UnsupportedOperationError(
            f"arithmetic with a result of dtype {value.dtype}, in which integers wrap around, at "
            f"{where_in_user_code()}; use int64 or float64"
        )
    trace.pin_constants(*traced)
    number = operand(trace, value, F64)
    return new_traced(trace, value if value.ndim else value[()], number, trace.tape.level_of(number), F64)


def _is_wide(arg) -> bool:
    """Whether an operand is a traced float64 array or number."""
    return type(arg) is TracedArray and getattr(arg._value, "dtype", None) is FLOAT64


def _is_weak(arg) -> bool:
    return type(value_of(arg)) in (float, int, bool)


def _is_single(arg) -> bool:
    return _is_weak(arg) or getattr(value_of(arg), "dtype", None) in NARROW


def array_instruction(
    op: ArrayOp | str, args, value, differentiable: bool = True, dims: dict[str, int] | None = None
) -> TracedArray:
    """Record an array op: core dimensions last, batch dimensions broadcast.

    The result's core dimensions are looked up by letter among the operands'; a letter that the
    operands do not have takes its size code from ``dims``, or its size from ``value``.
    """
    if op.__class__ is str:
        op = row(op)
    trace = trace_of(args)
    value = np.asarray(value) if not hasattr(value, "dtype") else value
    if value.dtype is FLOAT64 and not dims and not op.index and not instructions.FREE[op.name]:
        numbers = [
            arg._id if type(arg) is TracedArray and arg._family == F64 else operand(trace, arg, F64)
            for arg in args
        ]
        out, level = instructions.array_op_of_level(
            trace.tape, op, F64, numbers, trace.line(), NO_DIMS, differentiable
        )
        return new_traced(trace, value if value.ndim else value[()], out, level, F64)
    if value.dtype.kind in "biu" and op.integers in OVERFLOWING and value.dtype != INT64:
        return exact_constants(trace, args, value)
    family = F64
    narrow = value.dtype is not FLOAT64 and not op.wide
    if narrow and (value.dtype in NARROW or any(_has_dtype(a, NARROW) for a in args)):
        family = F32
    letters = dims or {}
    if instructions.FREE[op.name]:
        core = instructions.CORES[op.name][0]
        core_shape = value.shape[len(value.shape) - len(core) :]
        letters = dict(zip(core, core_shape, strict=True)) | letters
    if op.index:
        numbers = [operand(trace, arg, F64 if "abc"[k] in op.index else family) for k, arg in enumerate(args)]
    else:
        numbers = [operand(trace, arg, family) for arg in args]
    tape = trace.tape
    out, level = instructions.array_op_of_level(
        tape, op, family, numbers, trace.line(), letters, differentiable
    )
    result = new_traced(trace, value if value.ndim else value[()], out, level, family)
    if value.dtype == INT64:
        return operations.checked_integers(trace, op, args, result)
    half = family == F32 and value.dtype == FLOAT16
    return rounded(result, result._value) if half and not op.moves else result


def _has_dtype(arg, dtypes) -> bool:
    return getattr(value_of(arg), "dtype", None) in dtypes


# ---- float16


def rounded(x: TracedArray, value) -> TracedArray:
    """Return float32 or float64 cells rounded to float16, ties to even; its derivative is that of a copy.

    Adding a number m whose last place is that of float16 rounds in float64: ``(|x| + m) - m``.

    Parameters
    ----------
    value
        NumPy's result, in float16.
    """
    number = x._trace.cast(x, F64) if x._family == F32 else x._id
    given = new_traced(x._trace, np.asarray(value, np.float64)[()], number, x._level, F64)
    still = stop_gradient(given)
    sign = np.copysign(1.0, still)
    with np.errstate(all="ignore"):
        exponent = np.fmin(np.fmax(np.floor(np.log2(np.abs(still))), -14.0), 15.0)
        m = elementwise("ldexp", 1.5, exponent + 42.0, value=np.ldexp(1.5, 42 + _plain_exponent(exponent)))
        size = (sign * given + m) - m
        size = np.where(size > float(np.finfo(np.float16).max), np.inf, size)
        result = sign * size
    number = x._trace.cast(result, F32)
    return new_traced(x._trace, value, number, result._level, F32)


def _plain_exponent(exponent: TracedArray):
    return np.asarray(exponent._value).astype(int)[()]


def _half_operand(arg):
    """Return an operand of an op with a float16 result, converted to float16 first, as in NumPy."""
    if type(arg) is not TracedArray:
        return np.asarray(arg).astype(np.float16)[()]
    narrow = arg.dtype == FLOAT16 or arg.dtype.kind in "biu"
    return arg if narrow else np.astype(arg, np.float16)


# ---- views: they need no instruction, only another address


def seen(x: TracedArray, value, number: int) -> TracedArray:
    """Return the traced array of a view of ``x``: of a value in the same storage."""
    return new_traced(x._trace, value, number, x._level, x._family)


def view(x: TracedArray, value, dims, strides, offset=None) -> TracedArray:
    """Return another address into the storage of ``x``."""
    return seen(x, value, addresses.view(x._trace.tape, x._id, dims, strides, offset))


def transpose(x: TracedArray, axes=None) -> TracedArray:
    """Return ``x`` with its axes in another order."""
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(int(a) % max(x.ndim, 1) for a in axes)
    return seen(x, np.transpose(x._value, axes), addresses.transposed(x._trace.tape, x._id, order))


def broadcast_to(x: TracedArray, shape, dims=None) -> TracedArray:
    """Return ``x`` seen with the given shape; ``dims`` are its size codes if they are symbolic."""
    value = np.broadcast_to(x._value, shape)
    dims = tuple(value.shape) if dims is None else tuple(dims)
    return seen(x, value, addresses.broadcast(x._trace.tape, x._id, dims))


def contiguous(x: TracedArray) -> TracedArray:
    """Return ``x`` itself if its cells are in row-major order, else a copy."""
    if addresses.is_dense(x._trace.tape, x._id):
        return x
    return elementwise("copy", x, value=np.ascontiguousarray(x._value))


def dense_number(x: TracedArray) -> int:
    """Return the number of a value of the same numbers whose cells are in row-major order."""
    tape = x._trace.tape
    if addresses.is_dense(tape, x._id):
        return x._id
    return instructions.elementwise(tape, row("copy"), x._family, [x._id], x._trace.line())


def reshape(x: TracedArray, shape) -> TracedArray:
    """Return ``x`` with another shape; it is copied where NumPy would copy."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) or type(shape) is TracedArray else shape
    table, line = x._trace.tape.sizes, x._trace.line()
    codes = [sizes.code_of(x._trace, n) for n in shape]
    shape = tuple(map(table.value, codes))
    value = np.reshape(x._value, shape)
    source = contiguous(x)
    whole = table.product(dims_of(source))
    if -1 in shape and whole < 0:
        known = table.product(code for code, n in zip(codes, shape, strict=True) if n != -1)
        table.guard(known, ">=", 1, line)
        rest = table.quotient(whole, known)
        target = tuple([rest if n == -1 else code for code, n in zip(codes, shape, strict=True)])
    else:
        # Whatever -1 stands for is known: the whole size is.
        columns = zip(codes, shape, value.shape, strict=True)
        target = tuple([n if given == -1 else code for code, given, n in columns])
    table.guard(whole, "==", table.product(target), line)
    return seen(source, value, addresses.reshaped(x._trace.tape, source._id, target))


def expand(x: TracedArray, axes) -> TracedArray:
    """Return ``x`` with new axes of size one at the given positions of the result."""
    own = np.asarray(x._value)
    ndim = own.ndim + len(axes)
    places, rest = {axis % ndim for axis in axes}, iter(own.shape)
    value = own.reshape([1 if k in places else next(rest) for k in range(ndim)])
    return seen(x, value, addresses.expanded(x._trace.tape, x._id, axes))


# ---- results put together from pieces


def assemble(trace: Trace, shape, dtype, pieces, dims=None, value=None) -> TracedArray:
    """Return a new array filled piece by piece.

    Parameters
    ----------
    pieces
        ``(key, source)`` pairs: the place in the result (per axis a slice, or ``(first, size)`` as size
        codes), and what is copied there. Together they cover each cell exactly once.
    dims
        Size codes of the shape where they are symbolic.
    value
        The result, if NumPy has put it together already.
    """
    family = family_of_dtype(np.dtype(dtype))
    table = trace.tape.sizes
    known = value is not None
    value = value if known else np.empty(shape, dtype)
    dims = tuple(shape) if dims is None else tuple(dims)
    parts = []
    for key, source in pieces:
        spans = [_span(index, dim) for index, dim in zip(key, dims, strict=True)]
        parts.append((spans, operand(trace, source, family)))
        if not known:
            place = [(table.value(first), table.value(size)) for first, size in spans]
            value[tuple(slice(first, first + size) for first, size in place)] = value_of(source)
    number = instructions.pieces(trace.tape, dims, family, parts, trace.line())
    if value.dtype == INT64:
        operations.limit_pieces(trace, [source for _, source in pieces], number)
    return new_traced(trace, value if value.ndim else value[()], number, trace.tape.level_of(number), family)


def _span(index, dim: int) -> tuple[int, int]:
    """Return (first, size) of a piece along an axis, as size codes."""
    if index.__class__ is tuple:
        return index
    return (0, dim) if index == slice(None) else (index.start, index.stop - index.start)


def stop_gradient(x: TracedArray) -> TracedArray:
    """Return the same values without a derivative."""
    if x._level != ACTIVE:
        return x
    number = instructions.copied(x._trace.tape, x._id, VARYING, x._trace.line())
    value = np.copy(x._value) if isinstance(x._value, np.ndarray) else x._value
    return new_traced(x._trace, value, number, VARYING, x._family)
