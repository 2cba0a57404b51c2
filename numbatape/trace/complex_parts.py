"""Making complex traced arrays from parts, from plain complex numbers, from NumPy's own values."""

from __future__ import annotations

import numpy as np

from ..emitter.instructions import broadcast_dims
from ..tape.tape import CONSTANT
from ..usercode.frames import not_supported
from . import boxes, operations, primitives
from .aliasing import contents_to_compare, is_as_it_was, memory_of, root_of
from .array import TracedArray, new_traced, note
from .complex_array import REAL, TracedComplex
from .operands import adopt, find_trace, lift, values_of
from .plain_arrays import as_ndarrays
from .primitives import dims_of, family_of
from .symbolic_sizes import valued
from .trace import Trace

REAL.add(TracedArray)


def is_traced(x) -> bool:
    return type(x) is TracedArray or type(x) is TracedComplex


def trace_of(*args) -> Trace:
    """Return the trace of the first traced value, lists and tuples included."""
    trace = find_trace(args)
    assert trace is not None
    return trace


class Zero:
    """A part that is zero everywhere.

    Its signs matter only on branch cuts, and where the program asks for the part.

    ``signs`` computes the part: it is called where the part is asked for, and may then be called again.
    ``depth`` says how many such parts it is made of.
    """

    __slots__ = ("depth", "signs")

    def __init__(self, signs, depth: int):
        self.signs, self.depth = signs, depth


def snapshot(x):
    """Return a part as it is now, in memory of its own: the array may be written to."""
    if type(x) is TracedArray:
        its = x._value
        return new_traced(
            x._trace, np.array(its) if its.__class__ is np.ndarray else its, x._id, x._level, x._family
        )
    return x.copy() if isinstance(x, np.ndarray) else x


def zeros_like(x: TracedArray) -> TracedArray:
    """Return zeros: a view of one literal cell."""
    dtype = np.result_type(np.asarray(x._value).dtype, np.float32)
    cell = lift(x._trace, dtype.type(0.0))
    return primitives.broadcast_to(cell, np.shape(x._value), dims_of(x)) if x.ndim else cell


def part(z: TracedComplex, name: str) -> TracedArray:
    """Return the real or the imaginary part (zeros if it is None), in the memory of ``z``."""
    found = getattr(z, name)
    if found is not None:
        return found
    result = zeros_like(z._im if name == "_re" else z._re)
    zero = None if z._zeros is None else z._zeros[name == "_im"]
    if zero is not None:
        result = np.copysign(result, zero.signs({}))
    if z._value.__class__ is complex:
        result._value = 0.0  # a Python number takes the dtype of what it meets
    elif z._value.__class__ is np.ndarray:
        result = adopt(result, z._value.real if name == "_re" else z._value.imag)
    return result


def complete(z: TracedComplex) -> None:
    """Give an array, which is about to be written to, both of its parts."""
    z._re, z._im, z._zeros = part(z, "_re"), part(z, "_im"), None


def in_box(trace: Trace, value: np.ndarray) -> TracedComplex:
    """Return a complex array in memory that has been written to."""
    family = primitives.family_of(value.real)
    return TracedComplex(*(boxes.lazy(trace, its, family) for its in (value.real, value.imag)), value)


def make(re, im, value) -> TracedComplex:
    """Return the complex array of two parts, which stands for NumPy's own ``value``.

    Parameters
    ----------
    re, im
        Traced or plain, of the value's shape or one that broadcasts to it; None or a `Zero` for zeros. They
        are in the memory of ``value``, so that views share memory as NumPy's do.
    """
    zeros = None
    if type(re) is Zero or type(im) is Zero:
        zeros = re if type(re) is Zero else None, im if type(im) is Zero else None
        re, im = (None if type(x) is Zero else x for x in (re, im))
    trace = trace_of(re, im)
    is_array = value.__class__ is np.ndarray
    if is_array and trace.memory.boxes and id(root_of(value)) in trace.memory.boxes:
        return in_box(trace, value)
    shape = np.shape(value)
    parts = [None if x is None else lift(trace, x) for x in (re, im)]
    dims = broadcast_dims(trace.tape, [dims_of(x) for x in parts if x is not None])
    done = []
    for x, its in zip(parts, (value.real, value.imag), strict=True):
        if x is not None:
            if np.shape(x._value) != shape:
                x = primitives.broadcast_to(x, shape, dims)
            # Python's complex numbers are weakly typed, and so are their parts.
            if is_array or x._value.__class__ is not its.__class__:
                x = adopt(x, its)
        done.append(x)
    result = TracedComplex(*done, value, zeros)
    if is_array:
        note(trace, result, value)
    return result


def adopted(z: TracedComplex, value) -> TracedComplex:
    """Return the same numbers, carrying NumPy's own value of them."""
    return make(*signed_halves(z), value)


def each(z: TracedComplex, function, value) -> TracedComplex:
    """Apply a function that only moves entries to both parts."""
    trace = z._trace
    if trace.memory.boxes and value.__class__ is np.ndarray and id(root_of(value)) in trace.memory.boxes:
        return in_box(trace, value)
    done = [None if x is None else function(x) for x in halves(z)]
    # A view of a part that is zero everywhere may be the number zero: that part is None again.
    done = [None if type(x) is not TracedArray and not x else x for x in done]
    return make(*done, value) if any(type(x) is TracedArray for x in done) else value


def complex_entries(z: TracedComplex, key) -> TracedComplex:
    """Return ``z[key]``."""
    key = as_ndarrays(operations.positions_in(key))
    return each(z, lambda part: part[key], z._value[values_of(valued(key))])


def reinterpreted(x, dtype):
    """Return ``x.view(dtype)``: real numbers, two by two, as complex ones, or complex ones as real.

    A complex array has its parts in two storages, so the view of one is made of copies. All of them are in
    one memory for NumPy, and share a box as soon as one is written to.
    """
    trace = x._trace
    if x._value.__class__ is not np.ndarray:
        raise not_supported("a view of a traced number as one of another dtype")
    value = x._value.view(dtype)
    if x.ndim > 1:  # whether NumPy can make the view is up to the order of the caller's arrays
        if not trace.arguments.in_order:
            raise not_supported("a view of an array in another order than C as one of another dtype")
        trace.arguments.asks_order = True
    if trace.memory.boxes and id(root_of(value)) in trace.memory.boxes:
        return in_box(trace, value) if value.dtype.kind == "c" else boxes.lazy(trace, value, family_of(value))
    if value.dtype.kind == "c":
        return make(x[..., ::2], x[..., 1::2], value)
    pairs = np.stack([part(x, "_re"), part(x, "_im")], -1)
    return adopt(pairs.reshape(*pairs.shape[:-2], -1), value)


def halves(x, trace: Trace | None = None) -> tuple:
    """Return (real, imaginary) part of an operand, traced or plain; None where it is +0."""
    if type(x) is TracedComplex:
        if x._zeros is not None:
            re, im = x._zeros
            return (x._re if re is None else part(x, "_re")), (x._im if im is None else part(x, "_im"))
        return x._re, x._im
    if type(x) is TracedArray:
        return x, None
    if isinstance(x, (list, tuple)):
        x = np.stack(x) if find_trace(x) is not None else np.asarray(x)
        return halves(x, trace)
    if isinstance(x, np.ndarray) and x.ndim:
        if x.dtype.kind != "c":
            return x, None
        if trace is None:
            return np.ascontiguousarray(x.real), np.ascontiguousarray(x.imag)
        # The same part arrays are returned each time, so that a constant becomes one literal.
        kept = trace.constants.halves.get(memory_of(x))
        if kept is None or not all(map(is_as_it_was, (x.real, x.imag), kept[3:])):
            parts = x.real.copy(), x.imag.copy()
            kept = x, *parts, *(contents_to_compare(x, part) for part in parts)
            trace.constants.halves[memory_of(x)] = kept
            trace.constants.roots.add(id(root_of(x)))
        return kept[1:3]
    if isinstance(x, complex) or getattr(x, "dtype", np.dtype(float)).kind == "c":
        number = x if isinstance(x, complex) else x[()]
        re, im = (None if y == 0.0 and not np.signbit(y) else y for y in (number.real, number.imag))
        return (number.real, None) if re is None and im is None else (re, im)
    return x, None


def signed_halves(x, trace: Trace | None = None) -> tuple:
    """Return (real, imaginary) part of an operand, a `Zero` for zeros whose signs are not asked for yet."""
    re, im = (x._re, x._im) if type(x) is TracedComplex else halves(x, trace)
    if type(x) is TracedComplex:
        if x._zeros is not None:
            return (re if x._zeros[0] is None else x._zeros[0]), (im if x._zeros[1] is None else x._zeros[1])
    elif isinstance(x, (complex, np.complexfloating)) and x:  # a number with one part that may be -0
        return (NEGATIVE if re == 0.0 else re), (NEGATIVE if im == 0.0 else im)
    return re, im


NEGATIVE = Zero(lambda known: -0.0, 1)


def constant(trace: Trace, value) -> TracedComplex:
    """Return a plain complex array or number as a traced one."""
    re, im = halves(value, trace)
    dtype = np.asarray(value).real.dtype
    parts = []
    for x in (re, im):
        if x is not None and not isinstance(x, np.ndarray):
            data = np.asarray(x, dtype)
            family = primitives.family_of(data)
            x = new_traced(trace, x, trace.constants.number_of(data, family), CONSTANT, family)
        parts.append(x if x is None else lift(trace, x))
    return TracedComplex(*parts, value)
