"""Writes whose positions are data, and ``ufunc.at``."""

from __future__ import annotations

import numpy as np

from .array import TracedArray
from .boxes import CONSTANT
from .functions.common import find_trace, lift
from .indexing import mask_positions
from .primitives import broadcast_to, contiguous, elementwise, reshape, value_of


def write_at(x: TracedArray, keys: tuple, item) -> None:
    """Do ``x[keys] = item`` where a mask or positions are traced."""
    from .writes import converted, setitem

    trace = x._trace
    item = lift(trace, converted(trace, item, x))
    x._value.copy()[tuple(map(value_of, keys))] = item._value  # NumPy's errors
    mask = keys[0]
    if len(keys) == 1 and mask.__class__ is TracedArray and mask._value.dtype.kind == "b":
        wide = reshape(mask, (*mask._value.shape, *(1,) * (x.ndim - mask.ndim)))
        if item.ndim == 0 or (item.ndim == 1 == mask.ndim == x.ndim and item.size == 1):
            setitem(x, Ellipsis, elementwise("where", wide, reshape(item, ()), x))
            return
        keys = tuple(mask_positions(mask))
    flat, shape = _places(x, keys)
    if not flat.size:
        return
    entries = reshape(contiguous(broadcast_to(item, shape)), (-1,))
    # Of several writes to one place the last one stays.
    turns = np.arange(1, flat.size + 1)
    last = np.max(np.where(_hits(x, flat), turns, 0), axis=1)
    written = entries[np.maximum(last - 1, 0)]
    result = np.where(last > 0, written, reshape(contiguous(x), (-1,)))
    setitem(x, Ellipsis, reshape(result, x._value.shape))


def _places(x, keys):
    """Return the places in the flattened ``x`` that keys select, as a vector, and their shape."""
    places = lift(x._trace, np.arange(x.size).reshape(x.shape))[keys]
    return reshape(contiguous(places), (-1,)), places.shape  # wrapped, and checked when the tape runs


def _hits(x, flat):
    """Return for each place of ``x`` (rows) which entries of a vector of places are this one."""
    return np.equal(np.arange(x.size)[:, None], flat[None, :])


# ---- ufunc.at


def add_at(ufunc, x: TracedArray, indices, operand) -> None:
    """Do ``np.add.at`` or ``np.subtract.at``: what goes to one place is added up first."""
    from .writes import setitem

    trace = x._trace
    keys = indices if isinstance(indices, tuple) else (indices,)
    ufunc.at(x._value.copy(), tuple(map(value_of, keys)), value_of(operand))  # NumPy's errors
    if find_trace(keys) is not None:
        flat, shape = _places(x, keys)
        totals = np.sum(np.where(_hits(x, flat), _flat(trace, operand, shape), 0.0), axis=1)
        setitem(x, Ellipsis, ufunc(x, reshape(totals, x._value.shape)))
        return
    places = np.arange(x.size).reshape(x.shape)[indices]
    touched, which, counts = np.unique(places.reshape(-1), return_inverse=True, return_counts=True)
    if not touched.size:
        return
    # One row a place, filled up with a zero that stands behind the operands.
    table = np.full((len(touched), counts.max()), places.size)
    order = np.argsort(which, kind="stable")
    first = np.cumsum(counts) - counts
    table[which[order], np.arange(places.size) - np.repeat(first, counts)] = order
    entries = np.append(_flat(trace, operand, places.shape), 0.0)
    where = np.unravel_index(touched, x._value.shape)
    setitem(x, where, ufunc(x[where], np.sum(entries[table], axis=1)))


def _flat(trace, operand, shape):
    return reshape(contiguous(broadcast_to(lift(trace, operand), shape)), (-1,))


def one_by_one(ufunc, x: TracedArray, indices, operands) -> None:
    """Do ``ufunc.at`` in rounds, in each of which no position is there twice."""
    from .writes import setitem

    keys = indices if isinstance(indices, tuple) else (indices,)
    places = np.arange(x.size).reshape(x.shape)[tuple(_fixed(k) for k in keys)]
    flat = np.reshape(places, -1)
    parts = [_flat(x._trace, operand, np.shape(places)) for operand in operands]
    seen: dict[int, int] = {}
    rounds: list[list[int]] = []
    for k, place in enumerate(flat.tolist()):
        turn = seen[place] = seen.get(place, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(k)
    for chosen in map(np.array, rounds):
        where = np.unravel_index(flat[chosen], x._value.shape)
        setitem(x, where, ufunc(x[where], *(part[chosen] for part in parts)))


def _fixed(k):
    """Return an index with its traced positions as numbers: the tape holds for these."""
    if k.__class__ is not TracedArray:
        return k
    trace = k._trace
    if k._level == CONSTANT:
        trace.pin_constants()
        return k._value
    flat = k.reshape(-1)
    for n in range(flat.size):
        trace.guard(flat[n], "bool" if k.dtype.kind == "b" else "int", flat._value[n].item())
    return k._value
