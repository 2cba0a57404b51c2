"""What everything traced is made of: elementwise instructions, array instructions, views, copies.

Each function computes the value with NumPy and records the instruction. The functions of
`numbatape.trace.functions` are compositions of these.
"""

from __future__ import annotations

import numpy as np

from ..errors import ForeignTraceError, UnsupportedOperationError
from ..ops import OPCODE, OPS, ArrayOp, Elementwise, resolve
from ..tape.tape import ACTIVE, CONSTANT, F32, F64, MAIN, NARROW, NONE, PROLOGUE, VARYING, family_of_dtype
from .array import TracedArray, new_traced
from .trace import Trace, where_in_user_code

CORES = {op.name: op.operands for op in OPS if isinstance(op, ArrayOp)}  # parsed once, not once a call
FLOAT64, FLOAT32, FLOAT16 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)


def row(name: str):
    """Return a row of the op table by name."""
    return OPS[OPCODE[name]]


def value_of(arg):
    """Return the NumPy value behind an argument, traced or not."""
    return arg._value if type(arg) is TracedArray else arg


def trace_of(args) -> Trace:
    """Return the trace that traced arguments belong to."""
    trace = None
    for arg in args:
        if type(arg) is TracedArray:
            if trace is None:
                trace = arg._trace
            elif arg._trace is not trace:
                raise ForeignTraceError(
                    f"values of two traces meet at {where_in_user_code()}; a traced value was kept "
                    "from an earlier call, or a prepared cache is used inside a traced function"
                )
    assert trace is not None
    trace.check_open()
    return trace


def family_of(value) -> int:
    """Return the family whose cells hold a value; raise for dtypes that numbatape lacks."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
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
    builder = array._trace.tape
    return builder.layouts[builder.values[array._id][2]]


def operand(trace: Trace, arg, family: int) -> tuple[int, int, tuple[int, ...]]:
    """Return (value number, level, dims) of an argument in a family's cells."""
    if type(arg) is TracedArray:
        dims = layout_of(arg).dims
        if trace.kept is not None:
            trace.keep(arg)
        number = arg._id if arg._family == family else trace.cast(arg, family)
        return number, arg._level, dims
    return trace.literal(arg, family), CONSTANT, np.shape(arg)


def broadcast_dims(trace: Trace, shapes) -> tuple[int, ...]:
    """Return the broadcast of dimensions given as codes; what it relied on becomes guards."""
    sizes = trace.tape.sizes
    result: list[int] = []
    for k in range(max(map(len, shapes), default=0)):
        chosen = 1
        for dims in shapes:
            if k >= len(dims):
                continue
            dim = dims[-1 - k]
            if chosen == 1:
                chosen = sizes.pin(dim) if sizes.value(dim) == 1 else dim
            elif sizes.value(dim) == 1:
                sizes.pin(dim)
            else:
                chosen = sizes.same(chosen, dim)
        result.append(chosen)
    return tuple(reversed(result))


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
    family = family_of(value)
    half = family == F32 and value.dtype == FLOAT16
    if half:
        args = tuple(map(_half_operand, args))
    elif value.dtype.kind == "b" and all(map(_is_single, args)) and not all(map(_is_weak, args)):
        family = F32  # comparisons of float32 compare float32
    numbers, shapes, level, active = [], [], CONSTANT, 0
    for k, arg in enumerate(args):
        number, its_level, dims = operand(trace, arg, family)
        numbers.append(number)
        shapes.append(dims)
        if its_level > level:
            level = its_level
        if its_level == ACTIVE:
            if op.partials[k] is not None:
                active |= 1 << k
            elif "xyw"[k] in op.opaque:
                raise _opaque(op, k)
    if level == ACTIVE and not active:
        level = VARYING
    out = trace.tape.array(broadcast_dims(trace, shapes), family, level)
    stage = PROLOGUE if level == CONSTANT else MAIN
    code = 2 * OPCODE[op.name] + family
    trace.tape.emit(code, active, stage, out, *numbers, *[NONE] * (4 - len(numbers)), line=trace.line())
    result = new_traced(trace, value, out, level, family)
    return rounded(result, value) if half and op.name != "copy" else result


def _opaque(op: Elementwise, k: int) -> UnsupportedOperationError:
    place = ("first", "second", "third")[k]
    return UnsupportedOperationError(
        f"{op.name} at {where_in_user_code()} has no derivative in closed form for its {place} argument; "
        "pass that as nt.Constant, or wrap it in nt.stop_gradient"
    )


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
    sizes = trace.tape.sizes
    value = np.asarray(value) if not hasattr(value, "dtype") else value
    narrow = value.dtype in NARROW or any(_has_dtype(a, NARROW) for a in args)
    family = F32 if narrow and value.dtype != FLOAT64 else F64
    groups = CORES[op.name]
    letters: dict[str, int] = dict(dims or {})
    numbers, batches, level, active = [], [], CONSTANT, 0
    for k, (arg, core) in enumerate(zip(args, groups[1:], strict=True)):
        its_family = F64 if "abc"[k] in op.index else family
        number, its_level, its_dims = operand(trace, arg, its_family)
        numbers.append(number)
        split = len(its_dims) - len(core)
        batches.append(its_dims[:split])
        for letter, dim in zip(core, its_dims[split:], strict=True):
            letters[letter] = sizes.same(letters[letter], dim) if letter in letters else dim
        if its_level > level:
            level = its_level
        if its_level == ACTIVE and op.differentiable and "abc"[k] not in op.index:
            active |= 1 << k
    if not differentiable:
        active = 0
    if level == ACTIVE and not active:
        level = VARYING
    batch = broadcast_dims(trace, batches)
    core_shape = value.shape[len(value.shape) - len(groups[0]) :]
    core = tuple(letters.get(x, n) for x, n in zip(groups[0], core_shape, strict=True))
    out = trace.tape.array(batch + core, family, level)
    aux = NONE
    if op.scratch != "0":
        cells = _scratch_cells(trace, op, letters, value)
        aux = trace.tape.array((*batch, cells), family, VARYING if level else CONSTANT)
    stage = PROLOGUE if level == CONSTANT else MAIN
    code = 2 * OPCODE[op.name] + family
    numbers += [NONE] * (3 - len(numbers))
    trace.tape.emit(code, active, stage, out, *numbers, aux, trace.line())
    result = new_traced(trace, value if value.ndim else value[()], out, level, family)
    return rounded(result, result._value) if value.dtype == FLOAT16 and op.name not in MOVING else result


def _has_dtype(arg, dtypes) -> bool:
    return getattr(value_of(arg), "dtype", None) in dtypes


# ---- float16

MOVING = ("gather", "fill")  # what they give is rounded already


def rounded(x: TracedArray, value) -> TracedArray:
    """Return float32 or float64 cells rounded to float16, ties to even; to the derivative it is a copy.

    Adding a number whose last place is that of float16 does it, in float64: ``(|x| + m) - m``.

    Parameters
    ----------
    value
        The float16 numbers that NumPy makes of it.
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
    """Return an operand of an op whose result is float16 as NumPy converts it first."""
    if type(arg) is not TracedArray:
        return np.asarray(arg).astype(np.float16)[()]
    narrow = arg.dtype == FLOAT16 or arg.dtype.kind in "biu"
    return arg if narrow else np.astype(arg, np.float16)


def _scratch_cells(trace, op, letters, value) -> int:
    """Evaluate the scratch formula over size codes (sums and products of letters)."""
    sizes = trace.tape.sizes
    result = 0
    for term in op.scratch.replace(" ", "").split("+"):
        product = 1
        for factor in term.split("*"):
            product = sizes.mul(product, int(factor) if factor.isdigit() else letters[factor])
        result = sizes.add(result, product)
    return result


# ---- views: no instruction, another address


def view(x: TracedArray, value, dims, strides, offset=None) -> TracedArray:
    """Return another address into the storage of ``x``."""
    builder = x._trace.tape
    storage, start, _ = builder.values[x._id]
    number = builder.view(storage, start if offset is None else offset, dims, strides)
    return new_traced(x._trace, value, number, x._level, x._family)


def transpose(x: TracedArray, axes=None) -> TracedArray:
    layout = layout_of(x)
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(int(a) % max(x.ndim, 1) for a in axes)
    value = np.transpose(x._value, axes)
    dims, strides = ([codes[a] for a in order] for codes in (layout.dims, layout.strides))
    return view(x, value, dims, strides)


def broadcast_to(x: TracedArray, shape, dims=None) -> TracedArray:
    """Return ``x`` seen with the given shape; ``dims`` are its size codes if they are symbolic."""
    value = np.broadcast_to(x._value, shape)
    layout = layout_of(x)
    dims = tuple(value.shape) if dims is None else tuple(dims)
    sizes = x._trace.tape.sizes
    lead = len(dims) - x.ndim
    strides = [0] * lead
    for k, own in enumerate(layout.dims):
        if sizes.value(own) == 1 and value.shape[lead + k] != 1:
            sizes.pin(own)
            strides.append(0)
        else:
            sizes.same(own, dims[lead + k])
            strides.append(layout.strides[k])
    return view(x, value, dims, strides)


def contiguous(x: TracedArray) -> TracedArray:
    """Return ``x`` itself if its cells are in row-major order, else a copy."""
    layout = layout_of(x)
    expected = x._trace.tape.contiguous_strides(layout.dims)[0]
    if layout.strides == expected:
        return x
    wide = [k for k, dim in enumerate(layout.dims) if dim != 1]  # the stride of one entry does not matter
    if all(layout.strides[k] == expected[k] for k in wide):
        return x
    return elementwise("copy", x, value=np.ascontiguousarray(x._value))


def reshape(x: TracedArray, shape) -> TracedArray:
    """Return ``x`` with another shape, of a copy where NumPy would copy."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) or type(shape) is TracedArray else shape
    shape = tuple(int(n.__index__()) for n in shape)
    value = np.reshape(x._value, shape)
    sizes = x._trace.tape.sizes
    source = contiguous(x)
    dims = dims_of(source)
    if -1 in shape and any(d < 0 for d in dims):
        known = sizes.product(n for n in shape if n != -1)
        target = tuple(sizes.floordiv(sizes.product(dims), known) if n == -1 else n for n in shape)
        sizes.same(sizes.product(target), sizes.product(dims))
    else:
        target = tuple(value.shape)
        sizes.guard(sizes.product(dims), "==", int(value.size))
    return view(source, value, target, x._trace.tape.contiguous_strides(target)[0])


def expand(x: TracedArray, axes) -> TracedArray:
    """Return ``x`` with new axes of size one at the given positions of the result."""
    layout = layout_of(x)
    ndim = x.ndim + len(axes)
    places = {a % ndim for a in axes}
    own = iter(zip(layout.dims, layout.strides, strict=True))
    pairs = [(1, 0) if k in places else next(own) for k in range(ndim)]
    value = np.expand_dims(x._value, tuple(axes))
    return view(x, value, [d for d, _ in pairs], [s for _, s in pairs])


# ---- results put together from pieces


def assemble(like: Trace, shape, dtype, pieces, dims=None) -> TracedArray:
    """Return a new array filled piece by piece.

    Parameters
    ----------
    pieces
        ``(key, source)`` pairs: where in the result, one slice or one ``(first, size)`` pair of size
        codes an axis, and what is copied there. Together they cover every cell, each once.
    dims
        Size codes of the shape where they are symbolic.
    """
    family = family_of_dtype(np.dtype(dtype))
    level = max((p._level for _, p in pieces if type(p) is TracedArray), default=CONSTANT)
    builder = like.tape
    result_value = np.empty(shape, dtype)
    dims = tuple(shape) if dims is None else tuple(dims)
    storage_value = builder.array(dims, family, level)
    strides = builder.layouts[builder.values[storage_value][2]].strides
    storage, start, _ = builder.values[storage_value]
    line = like.line()
    for key, source in pieces:
        spans = [_span(index, dim) for index, dim in zip(key, dims, strict=True)]
        place = [(builder.sizes.value(first), builder.sizes.value(size)) for first, size in spans]
        result_value[tuple(slice(first, first + size) for first, size in place)] = value_of(source)
        offset, part_dims, part_strides = start, [], []
        for (first, size), stride in zip(spans, strides, strict=True):
            offset = builder.sizes.add(offset, builder.sizes.mul(first, stride))
            part_dims.append(size)
            part_strides.append(stride)
        number, its_level, source_dims = operand(like, source, family)
        broadcast_dims(like, [tuple(part_dims), source_dims])
        part = builder.view(storage, offset, part_dims, part_strides)
        active = 1 if its_level == ACTIVE else 0
        stage = PROLOGUE if its_level == CONSTANT else MAIN
        builder.emit(2 * OPCODE["copy"] + family, active, stage, part, number, line=line)
    value = result_value if result_value.ndim else result_value[()]
    return new_traced(like, value, storage_value, level, family)


def _span(index, dim: int) -> tuple[int, int]:
    """Return (first, size) of a piece along an axis, as size codes."""
    if index.__class__ is tuple:
        return index
    return (0, dim) if index == slice(None) else (index.start, index.stop - index.start)


def stop_gradient(x: TracedArray) -> TracedArray:
    """Return the same values without a derivative."""
    if x._level != ACTIVE:
        return x
    trace = x._trace
    out = trace.tape.array(dims_of(x), x._family, VARYING)
    trace.tape.emit(2 * OPCODE["copy"] + x._family, 0, MAIN, out, x._id, line=trace.line())
    value = np.copy(x._value) if isinstance(x._value, np.ndarray) else x._value
    return new_traced(trace, value, out, VARYING, x._family)
