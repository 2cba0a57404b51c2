"""Masks of positions: ``x[np.arange(len(x)) < k]`` is ``x[:k]``, a slice that needs no guard on the length.

Which entries a mask selects decides a shape. A mask that depends on sizes alone would make them guards; where
it compares positions with numbers, the tape tells which positions they are.
"""

from __future__ import annotations

import numpy as np

from ..tape.tape import CONSTANT
from . import operations
from .array import TracedArray
from .primitives import dims_of


def as_positions(x: TracedArray, keys: tuple) -> tuple:
    """Return an index with the slice, or the positions, that a mask of positions selects in its place."""
    axis = next((k for k, key in enumerate(keys) if type(key) is not slice), len(keys))
    mask = keys[axis] if axis < len(keys) else None
    # The value of a number may be Python's own, without a dtype, so the class is asked first. Beside index
    # arrays, a mask means pairs of positions, so all other indices must be slices.
    if (
        type(mask) is not TracedArray
        or mask._level != CONSTANT
        or mask._value.__class__ is not np.ndarray
        or mask._value.dtype.kind != "b"
        or not all(type(key) is slice for key in keys[axis + 1 :])
        or x._value.shape[axis : axis + mask.ndim] != mask._value.shape
        or mask._trace.integers.origins is None
    ):
        return keys
    if mask.ndim == 2:
        found = operations.selected_pairs(mask)
    else:
        found = operations.selected(mask)
        found = None if found is None else (found,)
    if found is None:
        return keys
    for own, its in zip(dims_of(mask), dims_of(x)[axis : axis + mask.ndim], strict=True):
        mask._trace.tape.sizes.same(own, its)
    return (*keys[:axis], *found, *keys[axis + 1 :])


def selected_positions(mask: TracedArray) -> list | None:
    """Return index arrays of the entries that a mask of positions selects; None if it is no such mask."""
    if mask.ndim == 2:
        found = operations.selected_pairs(mask)
        return None if found is None else list(found)
    chosen = operations.selected(mask)
    if type(chosen) is slice:
        chosen = operations.arange(mask._trace, dims_of(mask)[0])[chosen]
    return None if chosen is None else [chosen]
