"""Which arrays share memory: NumPy's own arrays tell, never the name of a function.

This file also handles ordinary arrays of the trace that are passed to code which does not know them.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from ..errors import LeakError
from ..usercode.frames import is_store, not_supported, where_in_user_code

FEW_ARRAYS = 256  # references to arrays that are gone are dropped whenever there are this many more
FEW_BYTES = 4096  # up to so many bytes, two copies as `bytes` are made and compared sooner than arrays are


def root_of(value):
    """Return the array that owns the memory of an array, whatever objects are in between."""
    base = value.base
    while base is not None:
        if not isinstance(base, np.ndarray):
            # A memoryview, or an object that lends its memory, such as `as_strided` and `lend` make.
            base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                return value
        value, base = base, base.base
    return value


def refuse_swaps(target, key, item, frame) -> None:
    """Raise if compiled code, which a frame has called, writes a row of an array to another one.

    ``x[i], x[j] = x[j], x[i]``, by which a generator of NumPy's shuffles what is no ndarray, makes both rows
    one: they are views. With ndarrays it copies one of them first.
    """
    moved, whole = item._value, target._value
    if type(key) is not int or not moved.__class__ is whole.__class__ is np.ndarray or whole.ndim < 2:
        return
    if moved.shape == whole.shape[1:] and root_of(moved) is root_of(whole) and not is_store(frame):
        raise not_supported(
            "a call that moves rows of an array by compiled code",
            "write x[i] = x[j]; of a generator's shuffle, take a permutation, x[rng.permutation(len(x))], "
            "with the generator made in the function by np.random.default_rng(seed)",
        )


def immutable(array: np.ndarray) -> bool:
    """Whether nobody can write to an array's memory through NumPy: its bases are read-only, too."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base  # type: ignore[assignment]
    return array is None or isinstance(array, bytes)


def has_bits(data: np.ndarray, contents: np.ndarray) -> bool:
    """Whether an array, in the dtype of some contiguous contents, has the same bits."""
    if data.nbytes <= FEW_BYTES:
        if data.dtype != contents.dtype:
            data = data.astype(contents.dtype)
        return data.tobytes() == contents.tobytes()
    bits = f"u{contents.dtype.itemsize}"
    return np.array_equal(np.ravel(data).astype(contents.dtype, copy=False).view(bits), contents.view(bits))


def memory_of(array: np.ndarray) -> tuple:
    """Return a key that is the same for two arrays if they are the same entries of the same memory."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def contents_to_compare(data: np.ndarray, contents: np.ndarray) -> np.ndarray | None:
    """Return the contents that a later use of an array has to be compared with; None for read-only memory."""
    return None if immutable(data) else contents


def is_as_it_was(data: np.ndarray, contents: np.ndarray | None) -> bool:
    """Whether an array has not been written to since `contents_to_compare` returned these contents.

    A comparison reads the whole array, which takes as long as an operation on it does. So memory that was
    read-only then and still is counts as unchanged, as it does in arguments.
    """
    return immutable(data) if contents is None else has_bits(data, contents)


def window(root: np.ndarray, seen: np.ndarray, owner: np.ndarray | None = None) -> np.ndarray:
    """Return the part of ``root`` (or of its `twin`) that ``seen`` is, by addresses."""
    owner = root if owner is None else owner
    memory = owner.transpose(sorted(range(root.ndim), key=lambda k: -root.strides[k]))
    start = seen.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    if memory.flags.c_contiguous:
        result: np.ndarray = np.ndarray(seen.shape, seen.dtype, memory, start, seen.strides)
    else:
        (low, high), (first, last) = map(np.lib.array_utils.byte_bounds, (root, seen))
        if first < low or last > high:
            raise ValueError("a view reaches outside of the array that it was made of")
        result = part(owner, start, **seen.__array_interface__ | {"strides": seen.strides})
    result.flags.writeable = seen.flags.writeable
    return result


def part(owner: np.ndarray, start: int, **interface) -> np.ndarray:
    """Return an array in another one's memory, with any strides, also those that NumPy refuses for buffers.

    Parameters
    ----------
    start
        Bytes between the beginnings of the two arrays.
    interface
        Its shape, typestr and strides, as in NumPy's array interface.
    """
    data = owner.__array_interface__["data"][0] + start, not owner.flags.writeable
    return np.asarray(_Part(interface | {"data": data, "version": 3}, owner))


class _Part:
    """The base of a `part`, which refers to the owner."""

    __slots__ = ("__array_interface__", "base")

    def __init__(self, interface: dict, owner: np.ndarray):
        self.__array_interface__, self.base = interface, owner


def twin(root: np.ndarray) -> np.ndarray:
    """Return a copy with the same strides, so that the copy can have each view that the original has.

    Memory of a library (every other number of a tensor, a memory map read backwards) may have gaps, repeats
    or negative strides, which NumPy's own copies would not keep.
    """
    copy = root.copy("K")
    if copy.strides == root.strides or root.size < 2:
        return copy
    low, high = np.lib.array_utils.byte_bounds(root)
    start = root.__array_interface__["data"][0] - low
    # In bytes, not in an array, so that `root_of` finds the copy as the owner of its memory.
    copy = np.ndarray(root.shape, root.dtype, bytearray(high - low), start, root.strides)
    copy[...] = root
    return copy


def rooted(trace, value: np.ndarray) -> np.ndarray:
    """Return NumPy's result as a view of the trace's array with the same memory, if its base hides this.

    The bases of some arrays are DLPack capsules, ctypes arrays or iterators instead of the owner.
    """
    root = root_of(value)
    if root.base is None or not value.size:
        return value
    for array in _arrays_of(trace):
        owner = root_of(array._value)
        if owner is not root and np.may_share_memory(owner, value):
            return window(owner, value)
    return value


def duplicates(tree, copies: dict | None = None):
    """Return arguments with copies of their arrays, which share memory as the originals do."""
    copies = {} if copies is None else copies
    if type(tree) is np.ndarray:
        root = root_of(tree)
        if id(root) not in copies:
            copies[id(root)] = twin(root)
        return window(root, tree, copies[id(root)])
    if type(tree) in (list, tuple):
        return type(tree)([duplicates(part, copies) for part in tree])
    if type(tree) is dict:
        return {key: duplicates(part, copies) for key, part in tree.items()}
    return tree


def order_of_writes(outs, inputs) -> list[int]:
    """Return in which order NumPy writes the outputs of one call, given as arrays or None.

    An output that overlaps another operand is computed in a copy, which is written at the end.
    """
    copied: list[int] = []
    for k, out in enumerate(outs):
        others = [other for j, other in enumerate(outs) if j != k and j not in copied and other is not None]
        clash = any(np.may_share_memory(out, other) for other in others) or any(
            np.may_share_memory(out, x) and not is_same(out, x) for x in inputs
        )
        if out is not None and clash:
            copied.append(k)
    return [k for k in range(len(outs)) if k not in copied] + copied


def is_for_all_sizes(view: np.ndarray, array: np.ndarray) -> bool:
    """Whether a view with the address of an array on the tape is the array, whatever its size.

    All entries of ``np.zeros(n)`` have one address, so that of its reverse is the same one; NumPy's strides
    tell both apart, unless there is one entry.
    """
    return view is array or (is_same(view, array) and min(array.shape, default=1) > 1)


def is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same entries of the same memory."""
    return a is b or memory_of(a) == memory_of(b)


def reads_what_it_wrote(target, value: np.ndarray) -> bool:
    """Whether NumPy may read entries that it has just written: ``x[::2] = x[:3]``, ``m[1] = m[:, 2]``.

    It copies the value first where both are in one memory and have several dimensions or opposite directions.
    Along one dimension it copies nothing, and begins at the end that is right where both have the same steps.
    """
    if target.ndim != 1 or not value.ndim or value.shape[-1] < 2:
        return False
    if root_of(target) is not root_of(value):
        return False
    step, its_step = target.strides[0], value.strides[-1]
    return step != its_step and step * its_step > 0


def has_twice(value: np.ndarray) -> bool:
    """Whether several entries of an array have the same memory, as in broadcast and strided views."""
    if value.flags.c_contiguous or value.flags.f_contiguous:
        return False
    return len(np.unique(offsets(value))) < value.size


def offsets(value: np.ndarray) -> np.ndarray:
    """Return the distance of each entry of an array from the first one, in bytes."""
    places = np.zeros(value.shape, np.int64)
    for axis, (n, step) in enumerate(zip(value.shape, value.strides, strict=True)):
        shape = [1] * value.ndim
        shape[axis] = n
        places += step * np.arange(n).reshape(shape)
    return places


def _arrays_of(trace):
    references = [*trace.memory.arrays]
    for more in trace.memory.sharing.values():
        references += more
    return [array for reference in references if (array := reference()) is not None]


def lend(trace, value: np.ndarray) -> np.ndarray:
    """Return an ordinary array in the memory of a plain one, and note that it exists.

    Writes to one are seen by the other, as long as no traced value is written: see `is_lent`.
    """
    lent = part(value, 0, **value.__array_interface__)
    root = root_of(value)
    trace.constants.forget(root)  # Other code may change the memory from now on.
    trace.memory.borrowers.append((weakref.ref(lent), root))
    return lent


def is_lent(trace, root: np.ndarray) -> bool:
    """Whether code outside of the trace still has an array in this memory."""
    if not _has_borrower(trace, root):
        return False
    gc.collect()  # the array may only be in a cycle of garbage
    return _has_borrower(trace, root)


def _has_borrower(trace, root) -> bool:
    alive = [(reference, owner) for reference, owner in trace.memory.borrowers if reference() is not None]
    trace.memory.borrowers = alive
    return any(owner is root for _, owner in alive)


class Memory:
    """Which arrays of the trace share memory, and what has been written there.

    Attributes
    ----------
    writes
        Whether the function may write to arrays, or captured arrays have stand-ins.
    stores
        Whether the function may write to arrays.
    arrays
        Weak references to arrays that are not in `sharing` yet.
    sharing
        Weak references to arrays, by the id of their memory's owner.
    most, most_sorted
        How many of either there may be before references to arrays that are gone are dropped.
    sorted
        How many there are in `sharing`.
    borrowers
        Weak references to arrays outside of the trace that have memory of plain arrays, and its owners.
    boxes
        Of arrays that were written to, by the id of the memory's owner (`numbatape.trace.boxes`).
    located
        Traced positions of rows that NumPy makes views, by storage.
    overwritten
        Owners of memory with a symbolic size in which single positions are read or written that are data, by
        id. A write there is an instruction from then on, so that neither copies the array.
    patchworks
        Of arrays of symbolic size that were written to (`numbatape.trace.patches`).
    regions
        By the id of a view's ndarray (`numbatape.trace.regions`).
    fixed
        By id: memory that the body of a loop that is being recorded may not write to.
    """

    __slots__ = (
        "arrays",
        "borrowers",
        "boxes",
        "fixed",
        "located",
        "most",
        "most_sorted",
        "overwritten",
        "patchworks",
        "regions",
        "sharing",
        "sorted",
        "stores",
        "writes",
    )

    def __init__(self):
        self.writes = self.stores = False
        self.arrays: list[weakref.ref] = []
        self.sharing: dict[int, list[weakref.ref]] = {}
        self.most = self.most_sorted = FEW_ARRAYS
        self.sorted = 0
        self.borrowers: list[tuple] = []
        self.boxes: dict[int, Any] = {}
        self.located: dict[int, list] = {}
        self.overwritten: dict[int, np.ndarray] = {}
        self.patchworks: dict[int, Any] = {}
        self.regions: dict[int, Any] = {}
        self.fixed: dict[int, np.ndarray] = {}

    def forget_dead(self) -> None:
        """Drop the references to arrays that are gone; nearly all of a loop's are.

        Python's garbage collector counts references that stay. With those of some thousand operations it
        examined all objects of the program in every second trace, which took 30 ms.
        """
        self.arrays = _alive(self.arrays)
        self.most = 2 * len(self.arrays) + FEW_ARRAYS

    def sort_in(self) -> None:
        """Sort the arrays that were noted since the last call by their memory."""
        for reference in self.arrays:
            array = reference()
            # Where NumPy returned an array without dimensions, the traced one may be a Python number by now.
            if array is not None and isinstance(array._value, np.ndarray):
                self.sharing.setdefault(id(root_of(array._value)), []).append(reference)
                self.sorted += 1
        self.arrays.clear()
        if self.sorted > self.most_sorted:
            self.sharing = {key: alive for key, its in self.sharing.items() if (alive := _alive(its))}
            self.sorted = sum(map(len, self.sharing.values()))
            self.most_sorted = 2 * self.sorted + FEW_ARRAYS

    def check_write(self, root: np.ndarray) -> None:
        """Raise if memory from outside of the loop body that is being recorded is written to."""
        if id(root) in self.fixed:
            raise LeakError(
                f"the body of a loop writes at {where_in_user_code()} to an array from outside; make it "
                "part of the carry, or return what is written"
            )


def _alive(references: list[weakref.ref]) -> list[weakref.ref]:
    return [reference for reference in references if reference() is not None]
