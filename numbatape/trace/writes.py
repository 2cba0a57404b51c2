"""Writing into traced arrays: assignment, augmented assignment, ``out=``, ``ufunc.at``.

NumPy writes the numbers and raises its own errors; this file writes the cells (`numbatape.trace.boxes`).
"""

from __future__ import annotations

import numpy as np

from ..errors import LeakError, UnsupportedOperationError
from ..tape.tape import CONSTANT
from ..usercode.frames import unreachable, where_in_user_code
from . import boxes, integers, operations, patches, position_masks
from . import complex_parts as complex_arrays
from .aliasing import duplicates, has_twice, is_for_all_sizes, is_lent, is_same, root_of
from .array import TracedArray, new_traced
from .complex_array import TracedComplex
from .constants import checked
from .index_parts import is_basic, key_part
from .operands import find_trace, lift, values_of
from .plain_arrays import (
    PlainArray,
    PlainComplex,
    as_ndarrays,
    becomes_plain,
    becomes_traced,
    fixed,
    is_plain,
)
from .primitives import broadcast_to, dims_of, elementwise, family_of, layout_of, value_of
from .shared_inputs import in_common_memory, in_memory_of, is_shared, mirror, sources, written
from .symbolic_sizes import has_size

HALF = 20  # bits of a place in the real part of a complex number; its other bits are in the imaginary part

NOTHING = complex("nan+nanj")  # what None is as a complex number


def assign(target, key, item, what: str = "an assignment") -> None:
    """Do ``target[key] = item`` for a traced, plain or ordinary array."""
    key, item = operations.positions_in(key), integers.lifted(item)
    trace = find_trace(target, item, *(key if type(key) is tuple else (key,)))
    if is_plain(target) and not (has_size(key) and becomes_traced(target)):
        if trace is None and all(map(is_plain, boxes.sharers(target))):
            target._trace.memory.check_write(root_of(target._value))
            target._value[as_ndarrays(key)] = as_ndarrays(item)
            target._trace.constants.forget(root_of(target._value))
            return
        expose(target)
    if type(target) is TracedArray:
        setitem(target, as_ndarrays(key), as_ndarrays(item))
    elif type(target) is TracedComplex:
        set_parts(target, as_ndarrays(key), as_ndarrays(item))
    elif trace is None:
        target[key] = item
    else:
        raise LeakError(unreachable(what))


def expose(x) -> None:
    """Turn a plain array, and all arrays that share its memory, into traced ones."""
    trace = x._trace
    trace.check_open()
    sharing = boxes.sharers(x)
    root = root_of(x._value)
    trace.memory.check_write(root)
    trace.constants.forget(root)
    if is_lent(trace, root):
        raise LeakError(
            f"a traced value is written at {where_in_user_code()} into an array that code outside of the "
            "trace still has a view of, which would not see it: give that code np.copy(array), or write first"
        )
    strange = next((a for a in sharing if a._value.real.dtype != root.real.dtype), None)
    if strange is not None:
        raise UnsupportedOperationError(
            f"a traced value is written at {where_in_user_code()} into an array of {root.dtype} that is seen "
            f"as {strange._value.dtype} too; use astype"
        )
    family = family_of(x._value.real)
    box = boxes.Box(root, family)
    number = trace.tape.literal(checked(box.numbers), family)
    storage, offset, _ = trace.tape.values[number]  # its cells are in the order of the memory
    box.cells[...] = boxes.grid(storage << boxes.SHIFT | offset, box.cells.shape, (1,))
    trace.memory.boxes[id(root)] = box
    for array in sharing:
        if type(array) is PlainArray:
            array.__class__ = TracedArray
        elif type(array) is PlainComplex:
            array.__class__ = TracedComplex
            whole = complex_arrays.in_box(trace, array._value)
            array._re, array._im = whole._re, whole._im
        elif type(array) is TracedArray:  # made from it when it was an operand
            box.settled.append(array)
        else:
            complex_arrays.complete(array)


def setitem(x: TracedArray, key, item) -> None:
    """Do ``x[key] = item``."""
    trace = x._trace
    trace.check_open()
    if x._value.__class__ is not np.ndarray:
        raise TypeError(f"'numpy.{x.dtype.name}' object does not support item assignment")
    if not x._value.flags.writeable:
        # NumPy raises this also where no entry is selected.
        raise ValueError("assignment destination is read-only")
    keys = key if type(key) is tuple else (key,)
    if find_trace(keys) is not None:
        if is_shared(trace, root_of(x._value)):
            # Only the entries that are written become the other argument's, too.
            key = keys = tuple(map(fixed, keys))
        if find_trace(keys) is not None and not _is_mask_for_number(keys, item):
            key = keys = tuple(map(key_part, position_masks.as_positions(x, keys)))
        if find_trace(keys) is not None:
            operations.write_at(x, keys, item)
            return
    if type(item) is list or type(item) is tuple:
        x._value.copy()[key] = values_of(item)  # NumPy's error for one that is too deep
    item = converted(trace, item, x)
    shared = _for_writing(x)
    if not shared:
        if all(_is_whole(k) for k in keys) and len(keys) <= max(1, x.ndim) and _replace(x, key, item):
            return
        at_positions = id(x._value) in trace.memory.overwritten and boxes.box_of(x) is None
        if at_positions and not has_size(keys) and _is_entry(x, keys):
            operations.write_at(x, keys, item)
            return
        if patches.write(x, keys, item) or operations.write_at_known(x, keys, item):
            return
    key = integers.settled(key)
    if not shared and find_trace(item) is None and becomes_plain(x):
        x._value[key] = item
        return
    box = boxes.open_box(x)
    if type(item) is TracedArray and item._value.__class__ is not np.ndarray and _is_entry(x, keys):
        x._value[key] = item._value
        boxes.put_scalar(box, x, key, item)
    else:

        def write(target, source):
            target[key] = source

        _write_thrice(x, box, item, write, shared)
    box.touch()
    if shared:
        mirror(trace, box, np.unique(box.slots(x._value)[key]))


def _is_mask_for_number(keys: tuple, item) -> bool:
    """Whether one number is written where a traced mask says: which entries there are decides no shape."""
    mask = keys[0]
    return (
        len(keys) == 1
        and type(mask) is TracedArray
        and mask._value.__class__ is np.ndarray
        and mask._value.ndim > 0
        and mask._value.dtype.kind == "b"
        and np.ndim(value_of(item)) == 0
    )


def _write_thrice(x: TracedArray, box, item, write, shared: bool) -> None:
    """Let NumPy write the numbers, the codes of their cells, and the levels."""
    if shared and type(item) is TracedArray:
        found = sources(x._trace, box, item, x._value, write)
        if found is not None:
            slots, box.cells[slots], box.levels[slots] = found
            write(x._value, in_memory_of(x._trace, item._value, box.root))
            return
    if type(item) is TracedArray and root_of(np.asarray(item._value)) is box.root:
        codes, levels = box.windows(item._value)  # they may overlap; NumPy's order of writes is kept
    else:
        codes, levels = _cells(x._trace, item, x)
        levels = np.broadcast_to(np.int8(levels), np.shape(codes))  # an item without values writes nothing
    write(x._value, value_of(item))
    for target, source in zip(box.windows(x._value), (codes, levels), strict=True):
        write(target, source)


def write_where(x, item, mask, what: str) -> None:
    """Do ``np.copyto(x, item, where=mask)``; a traced mask stays data, unless the order of writes matters."""
    if find_trace(mask) is not None:
        if not overlap(x, item):
            assign(x, Ellipsis, masked(mask, as_ndarrays(item), as_ndarrays(x)), what)
            return
        mask = fixed(mask)

    def write(target, source):
        np.copyto(target, source, "unsafe", where=mask)

    write_by(x, item, write, what)


def masked(condition, result, old):
    """Return ``result`` where a condition holds and the old contents elsewhere."""
    trace = find_trace(condition, result, old)
    if trace is None or TracedComplex in (type(result), type(old)) or np.iscomplexobj(old):
        return np.where(condition, result, old)
    return elementwise("where", lift(trace, condition), lift(trace, result), lift(trace, old))


def overlap(x, item=None, in_place=True) -> bool:
    """Whether it matters in which order ``item`` is written to an array.

    It does where the array has an entry twice, or shares memory with the item; not if both are the same and
    each entry stays where it is (``in_place``).
    """
    value, its = values_of(as_ndarrays((x, item)))
    trace = find_trace(x, item)
    if trace is not None:
        value, its = in_common_memory(trace, [value, its])
    if (
        isinstance(its, np.ndarray)
        and np.may_share_memory(value, its)
        and not (in_place and is_same(value, its))
    ):
        return True
    return has_twice(value)


def write_by(x, item, write, what: str) -> None:
    """Do a write of NumPy's to a traced, plain or ordinary array.

    NumPy moves the cells as it moves the numbers, including repetitions, wrapping and omissions.

    Parameters
    ----------
    write
        ``write(array, values)``, called for the numbers, for the codes of their cells and for the levels.
    """
    if is_plain(x):
        if find_trace(item) is None and all(map(is_plain, boxes.sharers(x))):
            x._trace.memory.check_write(root_of(x._value))
            write(x._value, as_ndarrays(item))
            x._trace.constants.forget(root_of(x._value))
            return
        expose(x)
    item = as_ndarrays(item)
    if type(x) in (TracedArray, TracedComplex) and x._value.__class__ is not np.ndarray:
        write(x._value, values_of(item))  # NumPy raises for a number, or writes to a copy of it.
    elif type(x) is TracedArray:
        _write_cells(x, item, write)
    elif type(x) is TracedComplex:
        parts = complex_arrays.halves(NOTHING if item is None else item)
        its = values_of(item)
        if isinstance(its, np.ndarray) and its.dtype == x._value.dtype and np.may_share_memory(x._value, its):
            write = _as_moved(x._value, its, write)
        for whole, its in zip((x.real, x.imag), parts, strict=True):
            zeros = np.zeros(np.shape(values_of(item)), whole.dtype)
            _write_cells(whole, zeros if its is None else its, write)
    elif find_trace(item) is None or isinstance(x, np.generic):
        write(x, values_of(item))
    else:
        raise LeakError(unreachable(what))


def _as_moved(target: np.ndarray, source: np.ndarray, write):
    """Return a write to a part of complex numbers that moves its entries as NumPy moves whole numbers.

    What NumPy does where both arrays overlap depends on their layout: it copies some of them first. The real
    parts alone have another layout, so numbers of places are written to arrays of complex numbers instead.
    """
    into, taken = duplicates((target, source))
    count = target.size
    into_places, places = (np.arange(a.size).reshape(a.shape) for a in (into, taken))
    # A place is written as two numbers of 20 bits: a part of complex64 holds integers of 24 bits exactly.
    for array, its in ((taken, places + count), (into, into_places)):
        array.real, array.imag = its >> HALF, its & (1 << HALF) - 1
    write(into, taken)
    moved = into.real.astype(np.int64) << HALF | into.imag.astype(np.int64)

    def write_part(its_target, its_source):
        its_target[...] = np.append(np.ravel(its_target), np.ravel(its_source))[moved]

    return write_part


def _write_cells(x: TracedArray, item, write) -> None:
    trace = x._trace
    trace.check_open()
    item = converted(trace, item, x)
    shared = _for_writing(x)
    box = boxes.open_box(x)
    _write_thrice(x, box, item, write, shared)
    box.touch()
    if shared:
        mirror(trace, box, written(box, value_of(item), x._value, write))


def _for_writing(x: TracedArray) -> bool:
    """Make an array of literals writeable; return whether a write changes another argument, too."""
    root = root_of(x._value)
    x._trace.memory.check_write(root)
    if id(root) in x._trace.constants.roots:  # the array is a view of memory that was an operand
        ordinary = next(filter(is_plain, boxes.sharers(x)), None)
        if ordinary is None:
            raise LeakError(unreachable("an assignment"))
        expose(ordinary)
    return is_shared(x._trace, root)


def set_parts(z: TracedComplex, key, item) -> None:
    """Do ``z[key] = item`` for complex numbers."""
    z._trace.check_open()
    if z._value.__class__ is not np.ndarray:
        raise TypeError(f"'numpy.{z.dtype.name}' object does not support item assignment")
    keys = key if type(key) is tuple else (key,)
    if any(type(k) is TracedComplex for k in keys):
        z._value[values_of(key)]  # NumPy's error
    its = values_of(item)
    if isinstance(its, np.ndarray) and not all(map(is_basic, keys)) and np.may_share_memory(z._value, its):
        keys = tuple(map(fixed, keys))  # the order of writes matters, and NumPy's depends on the layout
        write_by(z, item, lambda target, source: target.__setitem__(keys, source), "an assignment")
        return
    parts = [
        0.0 if part is None else part for part in complex_arrays.halves(NOTHING if item is None else item)
    ]
    for whole, its in zip((z.real, z.imag), parts, strict=True):
        setitem(whole, key, its)


def _is_whole(k) -> bool:
    return k is Ellipsis or (type(k) is slice and k == slice(None))


def _is_entry(x, keys) -> bool:
    return len(keys) == x.ndim and all(isinstance(k, (int, np.integer)) and is_basic(k) for k in keys)


def _cells(trace, item, x):
    if type(item) is TracedArray:
        return boxes.cells_of(item)
    data = np.asarray(item).astype(x._value.dtype)
    number = trace.tape.literal(checked(data), x._family)
    if data.ndim == 0:
        return ~number, boxes.LITERAL
    return boxes.addresses(new_traced(trace, data, number, CONSTANT, x._family)), boxes.LITERAL


def converted(trace, item, x):
    """Return the item in the dtype of ``x``, converted as NumPy's assignment does."""
    if type(item) is not TracedArray:
        if find_trace(item) is not None:
            item = lift(trace, item)
        if np.iscomplexobj(values_of(item)):
            # Raises NumPy's error, or gives its warning.
            np.empty(np.shape(values_of(item)), x._value.dtype)[...] = values_of(item)
            item = np.not_equal(item, 0) if x._value.dtype == bool else np.real(item)
        if find_trace(item) is None:
            return item
    item = lift(trace, item)
    if np.asarray(item._value).dtype != x._value.dtype or item._value.__class__ is float:
        item = np.astype(item, x._value.dtype)
    if item._family != x._family:
        number = trace.cast(item, x._family)
        item = new_traced(trace, item._value, number, item._level, x._family)
    return item


def _replace(x, key, item) -> bool:
    """Replace a whole array by another value, if nothing else refers to its memory.

    Then sizes stay symbols.
    """
    if boxes.box_of(x) is not None or id(root_of(x._value)) in x._trace.memory.patchworks:
        return False
    sharing = [other for other in boxes.aliases(x) if not _other_parts(other._value, x._value)]
    # Views that are the same entries for this size may be others for another one: ``x[:3]`` of three entries.
    address = x._trace.tape.values[x._id]
    if not all(
        is_for_all_sizes(other._value, x._value) and x._trace.tape.values[other._id] == address
        for other in sharing
    ):
        return False
    if np.ndim(value_of(item)) > x.ndim:
        return False  # NumPy drops leading axes of one entry, or raises
    trace = x._trace
    value = x._value
    source = item
    if type(item) is not TracedArray:
        source = lift(trace, np.asarray(item).astype(value.dtype))
    value[key] = value_of(item)
    if layout_of(source).dims != layout_of(x).dims:
        source = broadcast_to(source, value.shape, dims_of(x))
    number, level = source._id, source._level
    for other in sharing:
        other._id, other._level = number, level
    return True


def _other_parts(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether one array has the real and the other the imaginary parts of complex numbers in memory."""
    if root_of(a).dtype.kind != "c":
        return False
    distance = a.__array_interface__["data"][0] - b.__array_interface__["data"][0]
    return distance % (2 * a.itemsize) != 0
