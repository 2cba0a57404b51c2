"""Writes whose positions are data, and ``ufunc.at``."""

from __future__ import annotations

import math

import numpy as np

from ..emitter.instructions import broadcast_dims
from . import extents
from .aliasing import has_twice, offsets, root_of
from .array import TracedArray
from .axes import entries, lengths, merge, unmerge
from .indexing import flat_position, mask_positions
from .operands import find_trace, lift
from .patches import MOST_PATCHES
from .plain_arrays import fixed
from .primitives import (
    array_instruction,
    broadcast_to,
    contiguous,
    dims_of,
    elementwise,
    expand,
    reshape,
    value_of,
)
from .symbolic_sizes import code_of, is_size, valued
from .writes import assign, converted, overlap, setitem


def write_at(x: TracedArray, keys: tuple, item) -> None:
    """Do ``x[keys] = item`` where a mask or positions are traced."""
    trace = x._trace
    item = lift(trace, converted(trace, item, x))
    x._value.copy()[tuple(map(value_of, keys))] = item._value  # NumPy's errors
    mask = keys[0]
    if len(keys) == 1 and type(mask) is TracedArray and mask._value.dtype.kind == "b":
        if overlap(x, item):
            setitem(x, fixed(mask), item)  # guarded, because the order of writes matters
            return
        wide = mask
        if mask.ndim < x.ndim:
            wide = expand(mask, tuple(range(mask.ndim, x.ndim)))
        if item.ndim == 0 or (item.ndim == 1 == mask.ndim == x.ndim and lengths(item)[0] == 1):
            setitem(x, Ellipsis, elementwise("where", wide, reshape(item, ()), x))
            return
        keys = tuple(mask_positions(mask))
    if all(map(_is_position, keys)) and not overlap(x, item):
        note_positions(x)
        setitem(x, Ellipsis, _with_row(x, keys, item))
        return
    flat, shape = _places(x, keys)
    count = math.prod(shape)
    if count < 1:
        return
    if math.prod(lengths(item)) == 1:
        written = reshape(item, ())
        hit = _totals(x, extents.filled(trace, dims_of(flat), 1.0, np.float64), flat) > 0.0
    else:
        # The last one of several writes to one position counts.
        last = _totals(x, *_last_turns(x, flat, count))
        if item.ndim > len(shape):  # NumPy drops leading axes of one entry
            item = reshape(item, lengths(item)[item.ndim - len(shape) :])
        wide = broadcast_to(item, valued(shape), [code_of(trace, n) for n in shape])
        turns = merge(np.maximum(last - 1.0, 0.0), [x.ndim])
        places = np.astype(turns, int)
        written, hit = unmerge(merge(contiguous(wide), [wide.ndim])[places], dims_of(x)), last > 0.0
    setitem(x, Ellipsis, np.where(hit, written, x))


def write_at_known(x: TracedArray, keys: tuple, item) -> bool:
    """Do ``x[keys] = item`` where lists name entries of an array of symbolic size; return whether it did.

    A few are written one by one, as slices and ints are, and many like positions that are data.
    """
    listed = [axis for axis, key in enumerate(keys) if type(key) is not slice]
    has_lists = any(isinstance(key, (list, np.ndarray)) for key in keys)
    if not has_lists or any(map(is_size, keys)) or not any(map(is_size, lengths(x))):
        return False
    if overlap(x, item, in_place=False):  # lists move the entries of an array that is written to itself
        return False
    first, last = listed[0], listed[-1]
    places = [np.asarray(key) for key in keys[first : last + 1]]
    if not all(k.size == 0 or (k.ndim < 2 and k.dtype.kind == "i") for k in places):
        return False
    x._value.copy()[valued(keys)] = value_of(item)  # NumPy's errors
    rows = np.stack(np.broadcast_arrays(*places), -1).reshape(-1, len(places))
    if len(rows) > MOST_PATCHES:
        positions = [lift(x._trace, k) for k in places]
        write_at(x, (*keys[:first], *positions, *keys[last + 1 :]), item)
        return True
    axis = np.ndim(value_of(item)) - x.ndim + last  # of the item, that lists go along
    along = axis >= 0 and np.shape(value_of(item))[axis] > 1
    for k, row in enumerate(rows.tolist()):
        part = item if axis < 0 else item[(*[slice(None)] * axis, k if along else 0)]
        setitem(x, (*keys[:first], *row, *keys[last + 1 :]), part)
    return True


def note_positions(x: TracedArray) -> None:
    """Note that single positions of an array, which are data, are read or written (`Memory.overwritten`)."""
    root = root_of(x._value)
    if x._value is root and any(map(is_size, lengths(x))):
        x._trace.memory.overwritten[id(root)] = root


def _is_position(key) -> bool:
    """Whether a part of an index is one integer."""
    value = value_of(key)
    return not isinstance(key, (slice, type(None), type(Ellipsis))) and (
        np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iu"
    )


def _with_row(x, keys, item):
    """Return ``x`` with another row where integers, one for each of the first axes, say."""
    count = len(keys)
    rest, position = dims_of(x)[count:], keys[0]
    if count > 1:
        position = flat_position(x._trace, keys, dims_of(x)[:count])
    lead = item.ndim - len(rest)
    if lead > 0:  # NumPy drops leading axes of one entry
        item = reshape(item, lengths(item)[lead:])
    item = broadcast_to(item, x._value.shape[count:], rest)
    value = np.array(x._value)
    value[tuple(map(value_of, keys))] = item._value
    rows, row = merge(x, [count, x.ndim - count]), merge(item, [item.ndim])
    written = array_instruction("put", (rows, row, position), value.reshape(rows._value.shape))
    return unmerge(written, dims_of(x))


def _places(x, keys):
    """Return the places in the flattened ``x`` that keys select, as a vector, and their sizes."""
    if x.ndim == 1 and len(keys) == 1 and getattr(value_of(keys[0]), "dtype", np.dtype(bool)).kind != "b":
        return merge(keys[0], [keys[0].ndim]), lengths(keys[0])  # bounds are checked when the tape runs
    trace, shape = x._trace, lengths(x)
    if any(map(is_size, shape)):
        dims = dims_of(x)
        grid = unmerge(extents.arange(trace, trace.tape.sizes.product(dims)), dims)
    else:
        plain = trace.constants.grids.setdefault(shape, np.arange(math.prod(shape)).reshape(shape))
        grid = lift(trace, plain)
    places = grid[keys]
    return merge(places, [places.ndim]), lengths(places)


def _last_turns(x, flat, count):
    """Return (turns, places): the last write to a position has its number (from 1) as turn, others have 0."""
    if count == 1:
        return np.ones(1), flat
    flat = np.where(flat < 0, flat + entries(x, range(x.ndim)), flat)
    order = np.argsort(flat, kind="stable")
    places = flat[order]
    is_last = np.append(np.not_equal(places[1:], places[:-1]), True)
    return np.where(is_last, order + 1.0, 0.0), places


def _totals(x, added, places):
    """Return zeros in the shape of ``x``, with numbers added up at places of its flattened form."""
    value = np.zeros(x._value.size, np.result_type(value_of(added), np.float32))
    np.add.at(value, value_of(places).astype(int), value_of(added))
    dims = dims_of(x)
    size = x._trace.tape.sizes.product(dims)
    return unmerge(array_instruction("scatter1", (added, places), value, dims={"m": size}), dims)


# ---- ufunc.at


def add_at(ufunc, x: TracedArray, indices, operand) -> None:
    """Do ``np.add.at`` or ``np.subtract.at``."""
    trace = x._trace
    operand = converted(trace, operand, x)
    if ufunc is np.subtract:
        # Unsigned integers have no negative, and booleans refuse it: they become what is subtracted from.
        plain = find_trace(operand) is None
        operand = np.negative(np.asarray(operand, x._value.dtype) if plain else operand)
    keys = indices if isinstance(indices, tuple) else (indices,)
    rows = _selected_rows(x, keys)
    if rows is not None:
        _add_rows_at(x, rows, lift(trace, operand))
        return
    if find_trace(keys) is not None and not has_twice(x._value):
        flat, shape = _places(x, keys)
        added = added_up(merge(x, [x.ndim]), _flat(trace, operand, valued(shape)), flat)
        setitem(x, Ellipsis, unmerge(added, dims_of(x)))
        return
    places = _memory_places(x)[tuple(map(fixed, keys))]
    touched, which = np.unique(places, return_inverse=True)
    if not touched.size:
        return
    x = x if x.ndim else x[None]
    where = np.unravel_index(touched, x._value.shape)
    setitem(x, where, added_up(x[where], _flat(trace, operand, places.shape), which.reshape(-1)))


def _selected_rows(x, keys):
    """Return the positions along the first axis that a key is; None if it is something else, or empty."""
    if not x.ndim or len(keys) != 1 or has_twice(x._value):
        return None
    key = keys[0]
    if type(key) is list and find_trace(key) is None:
        key = np.asarray(key)
    if type(key) not in (TracedArray, np.ndarray):
        return None
    positions = value_of(key)
    return key if positions.dtype.kind in "iu" and positions.ndim > 0 < positions.size else None


def _add_rows_at(x, positions, rows) -> None:
    """Add rows, or the entries of a vector, at positions along the first axis, one after the other."""
    rest = dims_of(x)[1:]
    lead = dims_of(positions) if type(positions) is TracedArray else positions.shape
    shape = (*value_of(positions).shape, *x._value.shape[1:])
    dims = broadcast_dims(x._trace.tape, [(*lead, *rest), dims_of(rows)])
    if rows._value.shape != shape:
        rows = broadcast_to(rows, shape, dims)
    where = Ellipsis
    if type(positions) is TracedArray:
        flat = merge(positions, [positions.ndim])
    else:
        flat = positions.reshape(-1)
        touched, which = np.unique(flat % len(x._value), return_inverse=True)
        if 2 * len(touched) < len(x._value):  # most rows are not added to, and stay the values that they are
            if np.min(flat) < 0:
                x._trace.tape.sizes.pin(dims_of(x)[0])
            where, flat = touched, which.reshape(-1)
    part = x[where]
    if not rest:
        setitem(x, where, added_up(part, merge(rows, [len(lead)]), flat))
        return
    wide, rows = merge(part, [1, len(rest)]), merge(rows, [len(lead), len(rest)])
    value = np.array(wide._value)
    np.add.at(value, value_of(flat).astype(int), rows._value)
    added = array_instruction("add_rows_at", (wide, rows, flat), value)
    setitem(x, where, unmerge(added, (dims_of(added)[0], *rest)))


def added_up(x, entries, places):
    """Return a vector with entries added at positions, one after the other."""
    value = np.array(x._value)
    np.add.at(value, value_of(places).astype(int), value_of(entries))
    return array_instruction("add_at", (x, entries, places), value)


def _memory_places(x):
    """Return the position of each entry in the flattened ``x``, the first one of shared memory."""
    places = np.arange(x.size).reshape(x.shape)
    if not has_twice(x._value):
        return places
    _, first, which = np.unique(offsets(x._value), return_index=True, return_inverse=True)
    return first[which].reshape(x.shape)


def _flat(trace, operand, shape):
    """Return an operand as a vector, one entry per position; sizes stay symbols where nothing broadcasts."""
    operand = lift(trace, operand)
    if np.shape(operand._value) == shape:
        return merge(operand, [operand.ndim])
    return reshape(contiguous(broadcast_to(operand, shape)), (-1,))


def one_by_one(ufunc, x, indices, operands) -> None:
    """Do ``ufunc.at`` in rounds, so that no round has a position twice."""
    keys = indices if isinstance(indices, tuple) else (indices,)
    places = _memory_places(x)[tuple(fixed(k) for k in keys)]
    flat = np.reshape(places, -1)
    seen_wide = (np.broadcast_to(lift(x._trace, operand), np.shape(places)) for operand in operands)
    parts = [np.reshape(operand, (-1,)) for operand in seen_wide]
    seen: dict[int, int] = {}
    rounds: list[list[int]] = []
    for k, place in enumerate(flat.tolist()):
        turn = seen[place] = seen.get(place, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(k)
    x = x if x.ndim else x[None]
    # The operands of all rounds are taken first: they may be views of what the rounds write to.
    taken = [(np.array(chosen), [part[chosen] for part in parts]) for chosen in rounds]
    for chosen, its in taken:
        where = np.unravel_index(flat[chosen], x._value.shape)
        assign(x, where, ufunc(x[where], *its))
