"""Traced ints and sizes in lists, as NumPy's functions take them: entries of an array, or positions."""

from __future__ import annotations

import numpy as np

from . import symbolic_sizes as sizes
from .integers import TracedInteger, as_entry, settled
from .operands import find_trace, lift

OF_POSITIONS = frozenset({np.take, np.delete})  # their lists are arrays, or positions in arrays


def arguments(function, args, kwargs, knows_sizes: bool = False) -> tuple[tuple, dict]:
    """Return the arguments of a call of a NumPy function; it gets sizes as they are if it knows them."""
    keeps = knows_sizes or sizes.knows_sizes(function)
    if function in OF_POSITIONS:
        args = tuple(map(positions, args))
        kwargs = {name: positions(x) for name, x in kwargs.items()}
    return settled(args, keeps), settled(kwargs, keeps)


def as_entries(tree):
    """Return numbers, and lists of numbers, with traced ints, sizes too, as entries of an integer array."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind([as_entries(part) for part in tree])
    return as_entry(tree) if kind is TracedInteger else tree


def among(tree) -> bool:
    """Whether a number, or a list of numbers, is a traced int or has one."""
    kind = type(tree)
    return any(map(among, tree)) if kind is list or kind is tuple else kind is TracedInteger


def positions(x):
    """Return a list with traced ints as a traced array of positions; other things as they are."""
    if type(x) not in (list, tuple) or not among(x):
        return x
    x = as_entries(x)
    trace = find_trace(x)
    return np.asarray(x) if trace is None else lift(trace, x)


def positions_in(key):
    """Return an index to write at: lists as arrays of positions, and plain ints in place of traced ones."""
    if type(key) is not tuple:
        return settled(positions(key), but_sizes=True)
    return tuple([settled(positions(part), but_sizes=True) for part in key])
