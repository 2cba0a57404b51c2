"""`PlainArray`: an ordinary array made while tracing, to which traced values may be written later.

`PlainComplex` is the same for complex numbers.

In a traced function that writes to arrays, ``np.zeros`` and the like return these. A plain array behaves as
the ndarray that it wraps, and costs nothing on the tape, until a traced value is written to it: then it and
all of its views become traced arrays (`numbatape.trace.writes.expose`).
"""

from __future__ import annotations

import numpy as np

from ..savings import frozen
from ..tape.tape import CONSTANT, as_dtype, family_of_dtype
from . import boxes, operations
from .aliasing import is_lent, lend, root_of, rooted
from .array import TracedArray, new_traced, note
from .complex_array import TracedComplex
from .kinds import missing
from .primitives import layout_of
from .pytrees import leaf
from .symbolic_sizes import has_size
from .trace import CURRENT, failing

_CLASS = object.__dict__["__class__"]


class Plain:
    """What the two kinds of plain arrays share: they are the ndarray that they wrap."""

    __slots__ = ()

    @property
    def __class__(self):
        return np.ndarray

    @__class__.setter
    def __class__(self, cls):
        _CLASS.__set__(self, cls)

    def __getattr__(self, name):
        return outside(self, name)

    # ---- what Python asks

    def __bool__(self):
        return bool(self._value)

    def __int__(self):
        return int(self._value)

    def __index__(self):
        return self._value.__index__()

    def __float__(self):
        return float(self._value)

    def __complex__(self):
        return complex(self._value)

    def __hash__(self):
        return hash(self._value)  # raises NumPy's error

    def __len__(self):
        return len(self._value)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __array__(self, dtype=None, copy=None):
        """Return the ndarray for code that does not know this class, or a copy where NumPy makes one."""
        if copy or (dtype is not None and as_dtype(dtype) != self._value.dtype):
            return np.array(self._value, dtype)
        return lend(self._trace, self._value)

    def __reduce__(self):
        return self._value.__reduce__()

    def __repr__(self):
        return repr(self._value)

    def __getitem__(self, key):
        if self._trace.integers.met:
            key = operations.positions_in(key)
        key = as_ndarrays(key)
        keys = key if key.__class__ is tuple else (key,)
        if any(type(k) is TracedArray for k in keys):
            return self._at(key, keys)
        if has_size(key):
            if becomes_traced(self):
                return TracedArray.__getitem__(self, key)
            if type(self) is PlainArray and not self._trace.memory.stores:
                return self._as_traced()[key]
        return wrap(self._trace, self._value[key])

    def partition(self, *args, **kwargs):
        self._value.partition(*args, **kwargs)
        self._trace.constants.forget(self._value)

    def item(self, *args):
        return self._value.item(*args)

    def tolist(self):
        return self._value.tolist()

    def tobytes(self, order="C"):
        return self._value.tobytes(order)

    def view(self, dtype=None, type=None):
        given = [kind for kind in (dtype, type) if kind is not None]
        return wrap(self._trace, self._value.view(*given))

    def __copy__(self, memo=None):
        return wrap(self._trace, self._value.copy("K"))

    __deepcopy__ = __copy__

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        with failing(self._trace):
            return operations.call_plain_ufunc(ufunc, method, inputs, kwargs)

    @property
    def shape(self):
        return self._value.shape

    @shape.setter
    def shape(self, shape):
        self._value.shape = shape

    @property
    def base(self):
        """The array that owns the memory, as the function knows it."""
        base = self._value.base
        known = base if base is None else boxes.array_of(self, base)
        return wrap(self._trace, base) if known is None else known

    size = property(lambda self: self._value.size)
    T = property(lambda self: wrap(self._trace, self._value.T))


@leaf
class PlainArray(Plain, TracedArray):
    """An ordinary array of a traced function. Not made by users."""

    __slots__ = ()

    def __getattr__(self, name):
        # Code that asks for the value number uses the array as an operand, so the array becomes a literal.
        if name == "_id":
            # All uses of a captured array share one literal; others are copied, because writes may follow.
            trace, value = self._trace, self._value
            borrowed = id(root_of(value)) in trace.capture.borrowed
            return trace.constants.number_of(value if borrowed else value.copy(), self._family)
        return CONSTANT if name == "_level" else outside(self, name)

    def _as_traced(self):
        return new_traced(self._trace, self._value.copy(), self._id, CONSTANT, self._family)

    def _at(self, key, keys):
        row = self._as_traced()[key]
        boxes.locate_plain(row, self, keys)
        return row

    imag = property(lambda self: wrap(self._trace, self._value.imag))


class PlainComplex(Plain, TracedComplex):
    """An ordinary complex array of a traced function. Not made by users."""

    __slots__ = ()

    _level = CONSTANT

    def _as_traced(self):
        return operations.constant(self._trace, self._value.copy())

    def _at(self, key, keys):
        numbers = tuple([k._value if type(k) is TracedArray else k for k in keys])
        if np.may_share_memory(self._value[numbers], self._value):  # a view, which may be written to
            return wrap(self._trace, self._value[tuple(map(fixed, keys))])
        return self._as_traced()[key]

    @property
    def real(self):
        return wrap(self._trace, self._value.real)

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return wrap(self._trace, self._value.imag)

    @imag.setter
    def imag(self, value):
        self.imag[...] = value


COMPLEX = {np.dtype(np.complex128), np.dtype(np.complex64)}


def becomes_traced(x) -> bool:
    """Turn a plain array that nothing else refers to into a literal; return whether it was one.

    What is read from or written to positions that depend on sizes is then part of it, for all sizes.
    """
    trace, root = x._trace, root_of(x._value)
    alone = type(x) is PlainArray and root is x._value and len(boxes.sharers(x)) == 1
    if not alone or not root.size or is_lent(trace, root) or id(root) in trace.capture.borrowed:
        return False
    trace.check_open()
    trace.memory.check_write(root)
    number = x._id
    trace.constants.forget(root)
    x.__class__ = TracedArray
    x._id, x._level = number, CONSTANT
    return True


def becomes_plain(x: TracedArray) -> bool:
    """Turn integers or flags of known sizes back into a plain array, if nothing else refers to their memory.

    A program that goes through them entry by entry (``if not done[k]: done[k] = True``) often asks them where
    it goes next: the entries are plain numbers then, and no guards.
    """
    trace, root = x._trace, root_of(x._value)
    memory, origins, settled = trace.memory, trace.integers.origins, trace.tape.sizes.settled
    if (
        origins is None
        or x._value.dtype.kind not in "iub"
        or root is not x._value
        or len(boxes.sharers(x)) > 1
    ):
        return False
    if id(root) in memory.boxes or id(root) in memory.patchworks or x._level != CONSTANT:
        return False
    if id(root) in trace.constants.roots or any(settled(dim) < 0 for dim in layout_of(x).dims):
        return False
    behind = origins.sizes_behind(x._id)
    if behind is None or any(settled(code) < 0 for code in behind):
        return False
    memory.check_write(root)
    x.__class__ = PlainArray
    del x._id, x._level
    return True


def is_plain(x) -> bool:
    """Whether a value is a plain array, for which ``isinstance(x, np.ndarray)`` is true."""
    kind = type(x)
    return kind is PlainArray or kind is PlainComplex


@frozen()
class Scratch:
    """The shape and dtype of memory that a traced function is given to write to."""

    shape: tuple[int, ...]
    dtype: np.dtype


def scratch(memory: Scratch) -> Plain:
    """Return memory for the function that is traced now."""
    trace = CURRENT.get()
    assert trace is not None
    made = wrap(trace, np.zeros(memory.shape, memory.dtype))
    trace.arguments.scratch.append(made)
    return made


def wrap(trace, result, strangers: frozenset[int] = frozenset()):
    """Return a result of NumPy with its arrays as plain arrays of the trace.

    Views of some memory that the trace does not know, given by the ids of what owns it, stay as they are.
    """
    if isinstance(result, (tuple, list)):
        parts = [wrap(trace, part, strangers) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if type(result) is not np.ndarray:
        return watched(trace, result) if isinstance(result, np.ndarray) else result
    if strangers and id(root_of(result)) in strangers:
        return result
    result = rooted(trace, result)
    if result.dtype in COMPLEX:
        whole = PlainComplex.__new__(PlainComplex)
        whole._trace, whole._value, whole._zeros = trace, result, None
        note(trace, whole, result)
        return whole
    if result.dtype.kind not in "fiub" or result.dtype.itemsize > 8:
        return watched(trace, result)
    self = PlainArray.__new__(PlainArray)
    self._trace, self._value = trace, result
    self._family = family_of_dtype(result.dtype)
    note(trace, self, result)
    return self


def wrap_result(trace, result, *arguments):
    """Return the result of a call as `wrap` does, but views of ndarrays among its arguments as they are.

    The trace does not know their memory. A write to such a view has to be seen, so that the function is
    traced again with these arrays as plain ones (`numbatape.stand_ins.captured_arrays`). A plain array in its
    place would be written to alone.
    """
    return wrap(trace, result, frozenset(id(root_of(array)) for array in ndarrays_in(arguments)))


def ndarrays_in(tree):
    """Yield the ndarrays among the arguments of a call, without plain and traced arrays.

    A memoryview is one, or lends the memory of one.
    """
    if isinstance(tree, np.ndarray):
        if not is_plain(tree):
            yield tree
    elif isinstance(tree, memoryview):
        yield from ndarrays_in(tree.obj)
    elif isinstance(tree, (list, tuple, dict)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from ndarrays_in(part)


def watched(trace, result: np.ndarray) -> np.ndarray:
    """Return an array that cannot be a plain one; if it shares memory with one, note that it was lent."""
    shares = result.base is not None and boxes.is_known(trace, root_of(result))
    return lend(trace, result) if shares else result


def outside(x: Plain, name: str):
    """Return an attribute of the ndarray behind a plain array that the class does not have.

    The protocols of NumPy and DLPack would give the memory to code whose writes are not noticed.
    """
    if name in ("__array_interface__", "__array_struct__", "__dlpack__"):
        raise missing(x, name, f"{name} of an array made in the function", depth=3)
    return getattr(lend(x._trace, x._value) if name in ("ctypes", "data") else x._value, name)


class Iterator:
    """The base of what `numbatape.trace.flat` makes of ``x.flat``; it is here so that all files know it."""


def unflattened(args: tuple) -> tuple:
    """Return arguments of a call with iterators replaced by arrays."""
    return tuple([arg.as_array() if issubclass(type(arg), Iterator) else arg for arg in args])


def as_ndarrays(tree):
    """Return arguments of a call with plain arrays replaced by their ndarrays."""
    kind = type(tree)
    if kind is PlainArray or kind is PlainComplex:
        return tree._value
    if kind is tuple:
        return tuple([as_ndarrays(part) for part in tree])
    if kind is list:
        return [as_ndarrays(part) for part in tree]
    if kind is dict:
        return {key: as_ndarrays(part) for key, part in tree.items()}
    return tree


def has_plain(tree) -> bool:
    """Whether a plain array is among the arguments of a call."""
    kind = type(tree)
    if kind is TracedArray:
        return False
    if kind is tuple or kind is list:
        return any(map(has_plain, tree)) if tree else False
    if kind is dict:
        return any(map(has_plain, tree.values()))
    return kind is PlainArray or kind is PlainComplex


def trace_of_plain(*trees):
    """Return the trace of the first plain array in arguments."""
    for tree in trees:
        if is_plain(tree):
            return tree._trace
        if type(tree) in (tuple, list, dict):
            found = trace_of_plain(*(tree.values() if type(tree) is dict else tree))
            if found is not None:
                return found
    return None


def fixed(k):
    """Return an index with its traced positions as numbers, which become guards."""
    if type(k) is not TracedArray:
        return k
    trace = k._trace
    if k._level == CONSTANT:
        trace.pin_constants(k)
        return k._value
    flat = k.reshape(-1)
    for n in range(flat.size):
        trace.guard(flat[n], "bool" if k.dtype.kind == "b" else "int", flat._value[n].item())
    return k._value
