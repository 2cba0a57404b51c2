"""Writes whose positions are data, and ``ufunc.at``."""

from __future__ import annotations

import numpy as np

from .aliasing import has_twice, offsets
from .array import TracedArray
from .axes import merge, unmerge
from .indexing import mask_positions
from .operands import find_trace, lift
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
        if item.ndim == 0 or (item.ndim == 1 == mask.ndim == x.ndim and item.size == 1):
            setitem(x, Ellipsis, elementwise("where", wide, reshape(item, ()), x))
            return
        keys = tuple(mask_positions(mask))
    flat, shape = _places(x, keys)
    count = int(np.prod(shape))
    if not count:
        return
    if item.size == 1:
        written = reshape(item, ())
        hit = _totals(x, np.ones(count), flat) > 0.0
    else:
        # Of several writes to one position the last one counts.
        last = _totals(x, *_last_turns(x, flat, count))
        entries = reshape(contiguous(broadcast_to(item, shape)), (-1,))
        turns = merge(np.maximum(last - 1.0, 0.0), [x.ndim])
        written, hit = unmerge(entries[np.astype(turns, int)], dims_of(x)), last > 0.0
    setitem(x, Ellipsis, np.where(hit, written, x))


def _places(x, keys):
    """Return the places in the flattened ``x`` that keys select, as a vector, and their shape."""
    if x.ndim == 1 and len(keys) == 1 and getattr(value_of(keys[0]), "dtype", np.dtype(bool)).kind != "b":
        return merge(keys[0], [keys[0].ndim]), keys[0]._value.shape  # bounds are checked when the tape runs
    grid = x._trace.constants.grids.setdefault(x._value.shape, np.arange(x.size).reshape(x.shape))
    places = lift(x._trace, grid)[keys]
    return merge(places, [places.ndim]), places._value.shape


def _last_turns(x, flat, count: int):
    """Return (turns, places): the last write to a position has its number (from 1) as turn, others have 0."""
    if count == 1:
        return np.ones(1), flat
    flat = np.where(flat < 0, flat + x.size, flat)
    order = np.argsort(flat, kind="stable")
    places = flat[order]
    is_last = np.append(np.not_equal(places[1:], places[:-1]), True)
    return np.where(is_last, order + 1.0, 0.0), places


def _totals(x, entries, places):
    """Return zeros in the shape of ``x``, with entries added up at places of its flattened form."""
    value = np.zeros(x._value.size, np.result_type(value_of(entries), np.float32))
    np.add.at(value, value_of(places).astype(int), value_of(entries))
    dims = dims_of(x)
    size = x._trace.tape.sizes.product(dims)
    return unmerge(array_instruction("scatter1", (entries, places), value, dims={"m": size}), dims)


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
    if find_trace(keys) is not None and not has_twice(x._value):
        flat, shape = _places(x, keys)
        added = added_up(merge(x, [x.ndim]), _flat(trace, operand, shape), flat)
        setitem(x, Ellipsis, unmerge(added, dims_of(x)))
        return
    places = _memory_places(x)[tuple(map(fixed, keys))]
    touched, which = np.unique(places, return_inverse=True)
    if not touched.size:
        return
    x = x if x.ndim else x[None]
    where = np.unravel_index(touched, x._value.shape)
    setitem(x, where, added_up(x[where], _flat(trace, operand, places.shape), which.reshape(-1)))


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
