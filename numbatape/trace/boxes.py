"""Boxes: which cells of the tape are the entries of an array that is written to.

Cells of the tape are written once. Assigning to an array replaces the cells of its entries by others: a box
keeps one code (the number of a cell) for each entry of the array's memory, and NumPy's own assignment moves
the codes as it moves the numbers. Arrays share a box if their values share memory: views of traced arrays
are views in NumPy. When an array is used as a whole, its cells are copied into one storage
(`numbatape.trace.settling`).
"""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..errors import UnsupportedOperationError
from ..tape.tape import ACTIVE, CONSTANT, VARYING
from ..usercode.frames import where_in_user_code
from . import operations
from .aliasing import has_twice, part, root_of, rooted
from .array import TracedArray, new_traced, revalue
from .cell_copies import OFFSET, SHIFT, grid, is_pool, rehomed, surrounding
from .complex_array import TracedComplex

LITERAL = CONSTANT - 1  # the level of a cell that holds a plain number
MOST_AROUND = 4  # how many times the cells of an array may be copied for it and the views around it
ndarray = np.ndarray


class Box:
    """The cells of one array's memory; a complex number has two, its real and its imaginary part.

    Attributes
    ----------
    root
        The array that owns the memory.
    first
        Address of the first cell, which is not that of the array where its strides are negative.
    width
        Bytes of a cell's number in this memory.
    cells, levels
        One code and one level per cell, in the order of memory; gaps between entries have cells, too. The
        code is 0 where no array of the trace has referred to the memory.
    settled
        Traced arrays in this memory whose value number is up to date.
    home, used
        A storage of the same size, to which scalars move when they are written to the array, and which of its
        cells (called slots) are taken; each slot is written once.
    grids
        The codes and levels of ``root``, in its shape.
    """

    __slots__ = ("cells", "family", "first", "grids", "home", "levels", "root", "settled", "used", "width")

    def __init__(self, root: ndarray, family: int):
        self.root = root
        self.family = family
        self.width = root.real.itemsize
        self.first, end = byte_bounds(root) if root.size else (0, 0)
        count = (end - self.first) // self.width
        self.cells = np.zeros(count, np.int64)
        self.levels = np.full(count, LITERAL, np.int8)
        self.settled: list[TracedArray] = []
        self.home: int | None = None
        self.used: ndarray | None = None
        self.grids = self.window(self.cells, root), self.window(self.levels, root)

    def window(self, memory: ndarray, value: ndarray) -> ndarray:
        """Return the part of codes, levels or slots that belongs to an array's memory."""
        if not value.size:
            return np.empty(value.shape, memory.dtype)
        width, item = memory.itemsize, self.width
        start = value.__array_interface__["data"][0] - self.first
        strides = [step // item * width for step in value.strides]
        return np.ndarray(value.shape, memory.dtype, memory, start // item * width, strides)

    @property
    def numbers(self) -> ndarray:
        """The numbers of all cells, in the order of memory: a view of it."""
        root = self.root
        start = self.first - root.__array_interface__["data"][0] if root.size else 0
        return part(root, start, shape=self.cells.shape, typestr=root.real.dtype.str, strides=None)

    def windows(self, value: ndarray) -> tuple[ndarray, ndarray]:
        """Return (codes, levels) of an array in this memory: writable views."""
        if value is self.root:
            return self.grids
        return self.window(self.cells, value), self.window(self.levels, value)

    def slots(self, value: ndarray) -> ndarray:
        """Return the slot of each entry of an array in this memory: its place in the order of memory."""
        return self.window(np.arange(len(self.cells)), value)

    def around(self, value: ndarray) -> tuple[ndarray, ndarray] | None:
        """Return (codes, levels) of an array and of the entries around it, or None if it is copied alone."""
        root = self.root
        order = sorted(range(root.ndim), key=lambda axis: -abs(root.strides[axis]))
        shape = *(root.shape[axis] for axis in order), root.itemsize // self.width
        if root.size * shape[-1] != len(self.cells) or has_twice(value):
            return None
        # What is around all entries is these.
        block = () if value is root else surrounding(self.slots(value), shape)
        codes, levels = (memory.reshape(shape)[block] for memory in (self.cells, self.levels))
        return (codes, levels) if codes.all() and codes.size <= MOST_AROUND * value.size else None

    def touch(self) -> None:
        """Note that cells changed: value numbers are determined again when they are needed."""
        for array in self.settled:
            if array._trace.memory.located:
                hold(array)
            # An array that is listed twice has lost the attribute already.
            with contextlib.suppress(AttributeError):
                del array._id, array._level
        self.settled.clear()


def box_of(x) -> Box | None:
    """Return the box of a traced array, if its memory was written to."""
    boxes = x._trace.memory.boxes
    return boxes.get(id(root_of(x._value))) if boxes and x._value.__class__ is ndarray else None


def sharers(x) -> list:
    """Return the arrays of the trace that are alive and share memory with ``x``, itself included."""
    root, trace = root_of(x._value), x._trace
    trace.memory.sort_in()
    alive = [array for reference in trace.memory.sharing[id(root)] if (array := reference()) is not None]
    # The id of memory that was freed may belong to other memory now.
    return [array for array in alive if root_of(array._value) is root]


def is_known(trace, root: ndarray) -> bool:
    """Whether any array of the trace that is alive has its entries in the memory of an array."""
    trace.memory.sort_in()
    references = trace.memory.sharing.get(id(root), ())
    return any(root_of(array._value) is root for r in references if (array := r()) is not None)


def array_of(x, value: ndarray):
    """Return the array of the trace that stands for an ndarray in the memory of ``x``, or None."""
    return next((array for array in sharers(x) if array._value is value), None)


def aliases(x) -> list[TracedArray]:
    """Return the real arrays that share memory with ``x``: themselves, or the parts of complex ones."""
    found = sharers(x)
    whole = [array for array in found if type(array) is TracedComplex]
    if whole:
        for z in whole:
            operations.complete(z)
        found = sharers(x)
    assert any(array is x for array in found)
    return [array for array in found if type(array) is not TracedComplex]


def open_box(x) -> Box:
    """Return the box of an array's memory, made if there is none; sizes become fixed."""
    box = box_of(x)
    if box is not None:
        return box
    sharing = aliases(x)
    root = root_of(x._value)
    if root.dtype != x._value.dtype and root.real.dtype != x._value.dtype:
        # NumPy made the array as a part of an array of another kind, to which nothing else refers.
        assert len(sharing) == 1
        revalue(x, x._value.copy())
    box = Box(root_of(x._value), x._family)
    if box.root.dtype.kind == "c":  # a part that is zero has no array
        box.cells[...] = ~x._trace.tape.literal(np.float64(0.0), box.family)
    for array in sharing:
        hold(array)
        codes, levels = box.windows(array._value)
        codes[...] = addresses(array)
        levels[...] = array._level
        box.settled.append(array)
    x._trace.memory.boxes[id(box.root)] = box
    return box


def seen(x, view):
    """Return a view of a traced array that NumPy makes by addresses; sizes become fixed.

    Parameters
    ----------
    view
        Makes the view of the ndarray that ``x`` stands for.
    """
    if type(x) is TracedComplex:
        if any(step % x._value.itemsize for step in view(x._value).strides):
            raise UnsupportedOperationError(
                f"a view of a complex traced array at {where_in_user_code()} begins between two numbers"
            )
        operations.complete(x)
        box = open_box(x._re)
    else:
        box = open_box(x)
    value = rooted(x._trace, view(x._value))
    if not value.size:
        # An array without entries may have any address.
        value = part(box.root, 0, shape=value.shape, typestr=value.dtype.str, strides=None)
    (low, high), (first, last) = map(byte_bounds, (box.root, value))
    if value.size and not (low <= first and last <= high):
        raise UnsupportedOperationError(
            f"a view of a traced array at {where_in_user_code()} reaches beyond the memory of the array"
        )
    if type(x) is TracedComplex:
        return operations.in_box(x._trace, value)
    return lazy(x._trace, value, x._family)


# ---- rows at traced positions


def locate(row, x, indices) -> None:
    """Note the position of a row that NumPy makes a view of ``x``, because a write needs to know it."""
    value = row._value
    if value.__class__ is ndarray and root_of(value) is root_of(x._value):
        traced = [k for k in indices if type(k) is TracedArray]
        row._trace.memory.located[row._trace.tape.storage_of(row._id)] = traced


def locate_plain(row, x, indices) -> None:
    """Note that a row of a plain array is in the array's memory, if NumPy makes it a view.

    Rows are seldom written to; without a write, the row stays a gather from a literal.
    """
    value = x._value[tuple([k._value if type(k) is TracedArray else k for k in indices])]
    if type(row) is TracedArray and value.__class__ is ndarray and root_of(value) is root_of(x._value):
        revalue(row, value)
        locate(row, x, indices)
        x._trace.constants.roots.add(id(root_of(value)))


def hold(x) -> None:
    """Restrict the tape to the present position of a row, because its memory is written to."""
    trace = x._trace
    with contextlib.suppress(AttributeError):  # the attribute is missing if there was no value number yet
        number = object.__getattribute__(x, "_id")
        for k in trace.memory.located.pop(trace.tape.storage_of(number), ()):
            trace.guard(k.reshape(()), "int", int(k._value))


def addresses(x) -> ndarray:
    """Return the codes of the cells of a traced array that has a value number."""
    builder = x._trace.tape
    storage, offset, layout = builder.values[x._id]
    layout = builder.layouts[layout]
    sizes = builder.sizes
    dims, strides = ([sizes.pin(code) for code in part] for part in (layout.dims, layout.strides))
    if is_pool(storage):
        number = builder.view(storage, offset, (), ())
        return np.full(dims, ~number, np.int64)
    return grid(storage << SHIFT | sizes.pin(offset), dims, strides)


def code_of(x) -> int:
    """Return the code of a traced scalar."""
    storage, offset, _ = x._trace.tape.values[x._id]
    return ~x._id if is_pool(storage) or offset < 0 else storage << SHIFT | offset


def cells_of(x):
    """Return ``(codes, levels)`` of what is written: copies, or two numbers for a scalar."""
    if x._value.__class__ is not ndarray:
        return code_of(x), x._level
    box = box_of(x)
    if box is not None:
        codes, levels = box.windows(x._value)
        return codes.copy(), levels.copy()
    return addresses(x), x._level


# ---- reading


def lazy(trace, value: ndarray, family: int):
    """Return a view of memory with a box; it gets a value number when it is used."""
    result = TracedArray.__new__(TracedArray)
    result._trace, result._value, result._family = trace, value, family
    return result


def cell(x, value, code: int, level: int):
    """Return the scalar that a cell holds; a plain number if it is one."""
    if level == LITERAL:
        return value
    if code < 0:
        return new_traced(x._trace, value, ~code, level, x._family)
    builder = x._trace.tape
    number = builder.values.append((code >> SHIFT, code & OFFSET, 0))
    return new_traced(x._trace, value, number, level, x._family)


def entry(box: Box, x, key):
    """Return ``x[key]`` for a basic index of an array with a box."""
    value = x._value[key]
    if value.__class__ is ndarray:
        return lazy(x._trace, value, x._family)
    codes, levels = box.windows(x._value)
    return cell(x, value, int(codes[key]), int(levels[key]))


# ---- writing


def put_entry(x, k: int, scalar) -> bool:
    """Do ``x[k] = scalar`` by a fast path, if possible: for loops that fill a vector."""
    value, trace = x._value, x._trace
    box = trace.memory.boxes.get(id(value))
    if (
        box is None
        or value.__class__ is not ndarray
        or value.ndim != 1
        or value.dtype != np.float64
        or type(scalar) is not TracedArray
        or scalar._value.__class__ is not np.float64
        or scalar._trace is not trace
        or trace.closed
        or id(value) in trace.arguments.inputs
    ):
        return False
    value[k] = scalar._value
    put_scalar(box, x, k, scalar)
    box.touch()
    return True


def put_scalar(box: Box, x, key, scalar) -> None:
    """Make a traced scalar's cell one entry; the scalar moves to the home if it can."""
    codes, levels = box.windows(x._value)
    code, level = code_of(scalar), scalar._level
    # Integers stay where they are: they may have been read as positions, whose storage nothing may write to.
    if code < 0 and level >= VARYING and box.root.dtype.kind in "fc":
        builder = x._trace.tape
        if box.home is None:
            builder.storages.append((len(box.cells), box.family, level))
            box.home, box.used = len(builder.storages) - 1, np.zeros(len(box.cells), bool)
        elif level == ACTIVE != builder.storages[box.home][2]:
            builder.set_level(box.home, ACTIVE)
        whole = x._value is box.root and x._value.ndim == 1 and x._value.flags.c_contiguous
        slot = key % len(box.cells) if whole and type(key) is int else int(box.slots(x._value)[key])
        if not box.used[slot] and rehomed(x._trace, ~code, box.home, slot):
            box.used[slot] = True
            code = box.home << SHIFT | slot
    codes[key] = code
    levels[key] = level
