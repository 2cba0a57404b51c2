"""The parts of an index: what each one means to NumPy, and what it selects along its axis.

What basic indices select are size codes: the first entry, the number of entries, and the step.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from . import integers, operations, size_fractions
from . import symbolic_sizes as sizes
from .array import TracedArray
from .plain_arrays import is_plain
from .primitives import value_of


class SizedStep(NamedTuple):
    """The step of a slice that is a size, by its code: as a number it could be taken for a negative step."""

    code: int


def key_part(k):
    """Turn lists into arrays and index-like objects into int; keep traced integer scalars."""
    if is_plain(k):
        k = k._value
    elif isinstance(k, np.ndarray) and type(k) is not np.ndarray:
        k = np.asarray(k)  # NumPy reads the data of a masked array that is an index, whatever its mask says
    k = operations.positions(integers.as_index(k))
    if type(k) is TracedArray and k._trace.integers.origins is not None:
        # A number is read, and a mask, unless the number of its entries may be a size that is counted.
        decides = (k.ndim == 0) if k.dtype.kind != "b" else k.ndim and not sizes.may_count(k._trace)
        if decides and sizes.rely_on(k._trace, (k,)):
            k = k._value
    if type(k) is TracedArray and k.ndim == 0 and k.dtype.kind == "b":
        return bool(k)  # records a guard: it decides a shape
    if isinstance(k, list):
        return (
            np.stack(k)
            if any(isinstance(i, TracedArray) for i in k)
            else np.asarray(k, int if not k else None)
        )
    if isinstance(k, np.ndarray) and k.ndim == 0 and k.dtype.kind in "iub":
        return k.item()
    if isinstance(k, slice):
        return slice(*map(_bound, (k.start, k.stop, k.step)))
    if isinstance(k, np.integer):
        return int(k)
    if hasattr(type(k), "__index__") and not isinstance(k, (int, np.ndarray)) and type(k) is not TracedArray:
        return k.__index__()  # an object of the user's class may be an index, too
    return k


def _bound(k):
    if type(k) is TracedArray and k.dtype.kind == "i":
        size = size_fractions.rounded_to_size(k, size_fractions.DOWN)  # ``np.floor_divide(len(x), 2)``
        k = k if size is None else size
    k = operations.as_size(k)
    return k if k is None or sizes.is_size(k) else operator.index(k)


def is_basic(k) -> bool:
    if k is None or k is Ellipsis or isinstance(k, slice):
        return True
    return isinstance(k, (int, np.integer)) and not isinstance(k, bool)


def is_plain_basic(k) -> bool:
    """Whether a part of an index is a slice, an ellipsis or an int, which selects without making an axis."""
    return k is Ellipsis or type(k) in (slice, int) or isinstance(k, np.integer) or sizes.is_size(k)


def marks_of(key: tuple) -> tuple | None:
    """Return an index of ints, slices, None and Ellipsis as a key of a dictionary; None for any other."""
    marks: list = []
    for k in key:
        kind = type(k)
        if kind is slice:
            ends = k.start, k.stop, k.step
            for end in ends:
                if end is not None and type(end) is not int:
                    return None
            marks.append(ends)
        elif kind is int or k is None or k is Ellipsis:
            marks.append(k)
        else:
            return None
    return tuple(marks)


def full_key(x: TracedArray, key) -> list:
    """Expand the ellipsis and missing trailing axes."""
    used = sum(axes_of(k) for k in key if k is not None and k is not Ellipsis)
    missing = x.ndim - used
    if missing < 0:
        x._value[tuple(map(value_of, key))]  # NumPy's own IndexError
    if not any(k is Ellipsis for k in key):
        key = (*key, Ellipsis)
    place = next(n for n, k in enumerate(key) if k is Ellipsis)
    return [*key[:place], *[slice(None)] * missing, *key[place + 1 :]]


def axes_of(k) -> int:
    value = value_of(k)
    if getattr(value, "dtype", None) == np.bool_ or isinstance(value, bool):
        return np.ndim(value)
    return 1


# ---- along an axis


def spans_of(x: TracedArray, key, dims) -> list[tuple]:
    """Return ``(first, size, step)`` of a basic index for each axis of an array, as size codes.

    Parameters
    ----------
    dims
        The size codes of the array's axes.
    """
    key = tuple(map(_with_known_step, map(key_part, key)))
    return [span_of(x._trace, k, dim) for k, dim in zip(full_key(x, key), dims, strict=True)]


def _with_known_step(k):
    return slice(k.start, k.stop, integers.settled(k.step)) if type(k) is slice else k


def span_of(trace, k, dim: int) -> tuple:
    """Return (first, size, step) of an index along an axis; the step of an integer is None."""
    if isinstance(k, int):
        return _place(trace, k, dim), 1, None
    return _slice_codes(trace, k, dim)


def _place(trace, k, dim: int) -> int:
    """Return the size code of an index, which must be inside of the axis."""
    if sizes.is_size(k):
        return _along_axis(trace, sizes.code_of(trace, k), k._value, dim, 1)
    return _along_axis(trace, None, int(k), dim, 1) if dim < 0 else k % dim


def _along_axis(trace, code: int | None, value: int, dim: int, entries: int) -> int:
    """Return a position counted from the start of an axis with the given number of entries.

    Parameters
    ----------
    code, value
        The position as the function gives it, negative from the end: its size code, or None for a plain
        number, and its value. (A code is a negative number as well, so the two can't be told apart.)
    """
    table = trace.tape.sizes
    if value >= 0:
        code = value if code is None else code
        table.guard(code, ">=", 0)
        table.guard(dim, ">=", table.add(code, entries))
        return code
    from_end = -value if code is None else sizes.combined(table, "sub", 0, code)
    table.guard(from_end, ">=", 1)
    table.guard(dim, ">=", from_end)
    return table.sub(dim, from_end)


def _slice_codes(trace, k: slice, dim: int):
    """Return (first, size, step) of a slice along an axis, as size codes if they depend on sizes."""
    if k == slice(None):
        return 0, dim, 1
    table = trace.tape.sizes
    n = table.value(dim)
    start, stop, step = sizes.valued(k).indices(n)
    if dim < 0 or sizes.has_size(k):
        if k.start is None and k.stop is None and step < 0 and n and not sizes.is_size(k.step):
            table.guard(dim, ">=", 1)
            return table.sub(dim, 1), table.floordiv(table.add(dim, -step - 1), -step), step
        if step > 0:
            first, last = _end(trace, k.start, 0, dim), _end(trace, k.stop, dim, dim)
            if start > stop:
                table.guard(first, ">=", last)
                return 0, 0, step
            table.guard(last, ">=", first)
            size = table.sub(last, first)
            if sizes.is_size(k.step):
                code = sizes.code_of(trace, k.step)
                table.guard(code, ">=", 1)
                return first, table.floordiv(table.add(size, table.sub(code, 1)), code), SizedStep(code)
            if step > 1:  # every step-th entry, the first one included
                size = table.floordiv(table.add(size, step - 1), step)
            return first, size, step
        integers.settled(k)
        table.pin(dim, trace.line())
    count = len(range(start, stop, step))
    return (start if count else 0), count, step


def _end(trace, k, default: int, dim: int) -> int:
    """Return the size code of a slice's end."""
    if k is None:
        return default
    table, size = trace.tape.sizes, sizes.is_size(k)
    value, n = k._value if size else int(k), table.value(dim)
    code = sizes.code_of(trace, k) if size else None
    if -n <= value <= n:
        return _along_axis(trace, code, value, dim, 0)
    # NumPy cuts off what is outside of the axis.
    from_end = -value if code is None else sizes.combined(table, "sub", 0, code)
    table.guard((value if code is None else code) if value > 0 else from_end, ">=", table.add(dim, 1))
    return dim if value > 0 else 0
