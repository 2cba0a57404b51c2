"""The parts of an index: what each one means to NumPy, before it is applied to an array."""

from __future__ import annotations

import numpy as np

from . import integers, size_fractions
from . import symbolic_sizes as sizes
from .array import TracedArray
from .plain_arrays import is_plain
from .primitives import value_of


def key_part(k):
    """Turn lists into arrays and index-like objects into int; keep traced integer scalars."""
    if is_plain(k):
        k = k._value
    k = integers.as_index(k)
    if type(k) is TracedArray and k._trace.of_sizes is not None:
        decides = k.ndim == 0 or k.dtype.kind == "b"
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
    return k


def _bound(k):
    if type(k) is TracedArray and k.dtype.kind == "i":
        size = size_fractions.rounded_to_size(k, size_fractions.DOWN)  # ``np.floor_divide(len(x), 2)``
        k = k if size is None else size
    return k if k is None or sizes.is_size(k) else k.__index__()


def is_basic(k) -> bool:
    if k is None or k is Ellipsis or isinstance(k, slice):
        return True
    return isinstance(k, (int, np.integer)) and not isinstance(k, bool)


def is_plain_basic(k) -> bool:
    """Whether a part of an index is a slice, an ellipsis or an int, which selects without making an axis."""
    return k is Ellipsis or type(k) in (slice, int) or isinstance(k, np.integer) or sizes.is_size(k)


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
