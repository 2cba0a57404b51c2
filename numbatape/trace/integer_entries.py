"""Traced ints and sizes in lists, as NumPy's functions take them: entries of an array, or positions."""

from __future__ import annotations

import numpy as np

from . import operations
from . import symbolic_sizes as sizes
from .integers import TracedInteger, as_entry, as_index, settled
from .operands import find_trace, lift

OF_POSITIONS = frozenset({np.take, np.delete})  # their lists are arrays, or positions in arrays
# Where the arguments of functions that know sizes are numbers of entries: by place and by name.
NUMBERS_OF_ENTRIES = {
    **dict.fromkeys((np.linspace, np.logspace, np.geomspace), (2, "num")),
    **dict.fromkeys((np.reshape, np.broadcast_to), (1, "shape")),
    **dict.fromkeys((np.partition, np.argpartition), (1, "kth")),
    np.insert: (1, "obj"),
    np.lib.stride_tricks.sliding_window_view: (1, "window_shape"),
    np.pad: (1, "pad_width"),
    np.repeat: (1, "repeats"),
    np.roll: (1, "shift"),
    np.tile: (1, "reps"),
}
OF_PARTS = frozenset({np.split, np.array_split})  # a list says where to cut, an int how many parts there are
OF_TRANSFORMS = 1, "n"
OF_TRANSFORMS_OF_AXES = 1, "s"


def arguments(function, args, kwargs, knows_sizes: bool = False) -> tuple[tuple, dict]:
    """Return the arguments of a call of a NumPy function; it gets sizes as they are if it knows them."""
    keeps = sizes.knows_sizes(function)
    if function is np.clip:
        return args, kwargs  # what its implementation makes of them are operands of ufuncs
    if function in OF_POSITIONS:
        args = tuple(map(positions, map(as_index, args)))
        kwargs = {name: positions(as_index(x)) for name, x in kwargs.items()}
    elif keeps:
        args, kwargs = sized_arguments(function, args, kwargs)
    keeps = keeps or knows_sizes
    return settled(args, keeps), settled(kwargs, keeps)


def sized_arguments(function, args, kwargs) -> tuple[tuple, dict]:
    """Return the arguments of a function that knows sizes, with ints that number entries as sizes."""
    transforms = OF_TRANSFORMS if function.__name__.endswith("fft") else OF_TRANSFORMS_OF_AXES
    place, name = NUMBERS_OF_ENTRIES.get(function, transforms)
    if function in OF_PARTS:
        name = "indices_or_sections"
        sized = lambda tree: _sized(tree) if type(tree) in (list, tuple) else tree  # noqa: E731
    else:
        sized = _sized
    args = tuple([sized(x) if k == place else x for k, x in enumerate(args)])
    return args, {key: sized(x) if key == name else x for key, x in kwargs.items()}


def _sized(tree):
    if type(tree) in (list, tuple):
        return type(tree)([_sized(part) for part in tree])
    return operations.as_size(tree)


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
    """Return an index with ints, and lists of them, as positions, and with the ends of slices as sizes."""
    return tuple(map(_part, key)) if type(key) is tuple else _part(key)


def _part(k):
    if type(k) is slice:
        return slice(*map(operations.as_size, (k.start, k.stop, k.step)))
    return settled(positions(as_index(k)), but_sizes=True)
