"""Helpers for arrays of any package, by which SciPy's functions in Python begin.

They ask for shapes in ways that need ints (entries of a table, keys of a set); here sizes stay symbolic.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..numpy_api import sized
from ..numpy_api.function_tables import MAKERS
from ..numpy_api.stand_ins import stands_for
from ..trace import operations
from ..trace import symbolic_sizes as sizes
from ..trace.axes import axes_of
from ..trace.complex_parts import is_traced
from ..trace.plain_arrays import wrap
from ..trace.trace import current

_WHOLE = object()


class At:
    """``array_api_extra.at(x, index)``, or ``at(x)[index]``: the array is written to, and returned.

    As with NumPy's arrays, a copy is made if that is asked for, or if the array is read-only.

    Parameters
    ----------
    x
        A traced array.
    index
        What is written to.
    """

    def __init__(self, x, index=_WHOLE):
        self._x, self._index = x, index

    def __getitem__(self, index):
        return At(self._x, index)

    def set(self, y, /, copy=None, xp=None):
        """Return the array with other entries at the index."""
        result = self._target(copy)
        result[self._index] = y
        return result

    def _target(self, copy):
        # A stand-in gets plain arrays as ndarrays, to which a traced value could not be written.
        in_place = self._x.flags.writeable if copy is None else not copy
        return wrap(current(), self._x if in_place else np.copy(self._x))


def _combining(combine):
    def method(self, y, /, copy=None, xp=None):
        result = self._target(copy)
        result[self._index] = combine(result[self._index], y)
        return result

    return method


for _name, _combine in {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "power": operator.pow},
    **{"divide": operator.truediv, "min": np.minimum, "max": np.maximum},
}.items():
    setattr(At, _name, _combining(_combine))

# SciPy 1.18 moved the package.
for _package in ("scipy._lib", "scipy._external"):
    stands_for(f"{_package}.array_api_extra", "at", run=None)(At)


def _promoting(original):
    """Return the stand-in for ``xp_promote``, which compares shapes as keys of a set before it broadcasts."""

    def xp_promote(*args, broadcast=False, **options):
        found = operations.library_copy(original)(*args, **options)
        if not broadcast or not args:
            return found
        parts = found if isinstance(found, tuple) else (found,)
        arrays = [x for x in parts if x is not None]
        shapes = [x._sizes() if is_traced(x) else x.shape for x in arrays]
        if not sizes.has_size(shapes):
            shape, spread = np.broadcast_shapes(*shapes), _broadcast_to
        elif (shape := sized.broadcast_shapes(current(), *shapes)) is not None:
            spread = sized.IMPLEMENTATIONS["broadcast_to"]
        else:
            raise ValueError("Array shapes are incompatible for broadcasting.")
        pairs = zip(arrays, shapes, strict=True)
        alike = iter([x if _same(own, shape) else spread(current(), x, shape) for x, own in pairs])
        parts = tuple([None if x is None else next(alike) for x in parts])
        return parts[0] if len(parts) == 1 else parts

    return xp_promote


def _broadcast_to(_trace, x, shape):
    return np.broadcast_to(x, shape)


def _same(one, other) -> bool:
    """Whether two shapes are the same."""
    return len(one) == len(other) and all(n is m or n == m for n, m in zip(one, other, strict=True))


def _common(trace, shapes, axis) -> dict | None:
    """Return the sizes of shapes that are broadcast to one another, by axis, but for the axes given."""
    rank = max(map(len, shapes))
    try:
        axes = () if axis is None else normalize_axis_tuple(axis, rank)
    except (TypeError, ValueError):
        return None  # SciPy's error
    others = [k for k in range(rank) if k not in axes]
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    common = sized.broadcast_shapes(trace, *[[shape[k] for k in others] for shape in padded])
    return None if common is None else dict(zip(others, common, strict=True))


def _broadcast_shapes(trace, shapes, axis=None):
    """Return shapes broadcast to one another, but for the axes given; a single one if none is."""
    found = _common(trace, shapes, axis)
    if found is None or axis is None:
        return found and tuple(found.values())
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple([tuple([found.get(k, n) for k, n in enumerate(shape)]) for shape in padded])


def _broadcast_shapes_remove_axis(trace, shapes, axis=None):
    """Return the shape that shapes without the axes given are broadcast to."""
    found = _common(trace, shapes, axis)
    return None if found is None else tuple(found.values())


@stands_for("scipy._lib._array_api", "_length_nonmasked", run=None)
def _length_nonmasked(x, axis, keepdims=False, xp=None):
    """Return the number of entries along axes: a size."""
    found = x._sizes()
    return math.prod([found[k] for k in axes_of(x, axis)])


@stands_for("scipy.stats._stats_py", "_put_val_to_limits", run=None)
def _put_val_to_limits(a, limits, inclusive, val=np.nan, xp=None):
    """Return an array with a value in the place of entries outside of limits, and which entries these are."""
    mask = np.less(a, -np.inf)  # the mask is false for each entry
    for limit, included, outside in zip(
        limits or (), inclusive, ((np.less, np.less_equal), (np.greater, np.greater_equal)), strict=False
    ):
        if limit is not None:
            mask = np.logical_or(mask, outside[not included](a, limit))
    if limits is not None and bool(np.all(mask)):
        raise ValueError("No array values within given limits")
    return (np.where(mask, val, a) if limits is not None and bool(np.any(mask)) else a), mask


MAKERS["scipy._lib._array_api"]["xp_promote"] = _promoting
for _function in (_broadcast_shapes, _broadcast_shapes_remove_axis):
    MAKERS["scipy.stats._axis_nan_policy"][_function.__name__] = functools.partial(
        sized.with_sizes,
        implementation=_function,
        make=lambda original: operations.library_copy(original),  # imported late: it is in a layer above
    )
