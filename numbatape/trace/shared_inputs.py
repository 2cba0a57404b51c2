"""Arguments that share memory: writes to one of them change the others."""

from __future__ import annotations

import itertools

import numpy as np

from ..errors import UnsupportedOperationError
from ..usercode.frames import where_in_user_code
from . import boxes
from .aliasing import is_same, root_of, window
from .trace import Trace

OVERLAPS = "overlaps"


def sharing(values) -> tuple[tuple[int, int, str], ...]:
    """Return the pairs of arrays that share memory, and whether they are the same array."""
    arrays = [(k, value) for k, value in enumerate(values) if isinstance(value, np.ndarray)]
    return tuple(
        (i, j, "same" if is_same(a, b) else OVERLAPS)
        for (i, a), (j, b) in itertools.combinations(arrays, 2)
        if np.may_share_memory(a, b) and (is_same(a, b) or np.shares_memory(a, b))
    )


def memory_of(values, relied_on) -> tuple | None:
    """Return how arguments lie in memory, as far as a tape relies on it; None if it does not.

    ``relied_on`` has "shared" where one of them is written to, and "order" where an operation went by the
    order of entries in memory. That arguments are no captured arrays is asked apart (`lie_in`).
    """
    found = [sharing(values)] if "shared" in relied_on and len(values) > 1 else []
    if "order" in relied_on:
        found.append(are_in_order(values))
    return tuple(found) or None


def lie_in(values, arrays) -> bool:
    """Whether one of some values has memory of one of some arrays."""
    return any(
        isinstance(value, np.ndarray) and np.may_share_memory(value, array)
        for array in arrays
        for value in values
    )


def are_in_order(values) -> bool:
    """Whether all arrays have their entries in C order."""
    return all([_in_c_order(x) for x in values if isinstance(x, np.ndarray) and x.ndim > 1])


def own_copy(value):
    """Return an argument as a trace has it: an array is copied, because either may be written to later.

    The function may write to the copy if it may write to the caller's array.
    """
    if not isinstance(value, np.ndarray):
        return value
    copied = value.copy()
    copied.flags.writeable = value.flags.writeable
    return copied


def note_inputs(trace: Trace, traced, values) -> None:
    """Note which inputs of a trace share memory of the caller, and whether all have the usual order."""
    trace.arguments.in_order = are_in_order(values)
    for x in traced:
        if isinstance(x._value, np.ndarray):
            trace.arguments.inputs[id(x._value)] = x
    for i, j, kind in sharing(values):
        for one, other in ((traced[i], traced[j]), (traced[j], traced[i])):
            trace.arguments.twins.setdefault(id(one._value), []).append(None if kind == OVERLAPS else other)


def _in_c_order(array: np.ndarray) -> bool:
    """Whether entries along a later axis are never farther apart; so are the parts of complex arrays."""
    steps = [abs(step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    return array.flags.c_contiguous or steps == sorted(steps, reverse=True)


def note_pair(trace: Trace, re, im, z) -> None:
    """Note that two inputs are the parts of one complex array, which has memory of its own."""
    root = z._value
    its = trace.arguments
    if isinstance(root, np.ndarray) and id(re._value) in its.inputs:
        its.inputs[id(root)] = z
        its.joined[id(re)], its.joined[id(im)] = z._re, z._im
        if id(re._value) in its.twins:
            its.twins[id(root)] = its.twins[id(re._value)]


def is_shared(trace: Trace, root: np.ndarray) -> bool:
    """Note that an array is written to; return whether the write changes another argument."""
    if id(root) not in trace.arguments.inputs:
        return False
    trace.arguments.written = True
    twins = trace.arguments.twins.get(id(root), ())
    if any(other is None for other in twins):  # `in` would compare traced arrays
        raise UnsupportedOperationError(
            f"an argument that partly overlaps another one is written to at {where_in_user_code()}; "
            "pass a copy of one of them"
        )
    return id(root) in trace.arguments.twins


def in_memory_of(trace: Trace, value, root: np.ndarray):
    """Return an array, or a view of it, as one in the memory of an argument that is the same array.

    Arguments that are the same array have a copy each in the trace, so that each has its derivative.

    Parameters
    ----------
    root
        The memory of one of these arguments; another array is returned as it is.
    """
    if not isinstance(value, np.ndarray) or id(root) not in trace.arguments.twins:
        return value
    own = root_of(value)
    same = any(own is root_of(other._value) for other in _twins(trace, root) if other is not None)
    return window(own, value, root) if same else value


def in_common_memory(trace: Trace, values: list) -> list:
    """Return arrays with those that are views of one argument, passed several times, in the same memory."""
    roots = {id(root_of(x)): root_of(x) for x in values if isinstance(x, np.ndarray)}
    for root in roots.values():
        values = [in_memory_of(trace, x, root) for x in values]
    return values


def _twins(trace: Trace, root: np.ndarray) -> list:
    """Return the arguments that are the same array as one with some memory; None for an overlap."""
    joined = trace.arguments.joined
    return [joined.get(id(other), other) for other in trace.arguments.twins[id(root)]]


def sources(trace: Trace, box: boxes.Box, item, target: np.ndarray, write) -> tuple | None:
    """Return what a write to an argument changes, if it reads another argument that is the same array.

    NumPy's write is repeated with the numbers of cells: which of them it reads depends on the order of
    writes where the two sides overlap.

    Returns
    -------
    tuple or None
        The slots that are written, and codes and levels of what is written there; None if ``item`` is
        nowhere in the memory of another argument that is the same array.
    """
    seen = in_memory_of(trace, item._value, box.root)
    if seen is item._value:
        return None
    its = boxes.open_box(item)
    numbers = np.arange(len(box.cells))
    write(box.window(numbers, target), box.window(numbers, seen))
    slots = written(box, item._value, target, write)
    return slots, its.cells[numbers[slots]], its.levels[numbers[slots]]


def written(box: boxes.Box, value, target: np.ndarray, write) -> np.ndarray:
    """Return the slots of a box that a write of NumPy's changes."""
    is_written = np.zeros(len(box.cells), bool)
    write(box.window(is_written, target), np.ones(np.shape(value), bool))
    return np.flatnonzero(is_written)


def mirror(trace: Trace, box: boxes.Box, slots: np.ndarray) -> None:
    """Repeat a write to some slots in the arguments that are the same array."""
    for other in _twins(trace, box.root):
        its = boxes.open_box(other)
        its.numbers[slots] = box.numbers[slots]
        its.cells[slots], its.levels[slots] = box.cells[slots], box.levels[slots]
        its.touch()
