"""``np.r_`` and ``np.c_``."""

from __future__ import annotations

import numpy as np

from ..trace import operations
from ..trace.operands import find_trace, lift, values_of
from ..trace.plain_arrays import as_ndarrays, has_plain, trace_of_plain, wrap_result
from .arrays_of_lists import WEAK, arange
from .function_tables import MAKERS
from .registration import unsupported_argument


class _Joiner:
    """``np.r_`` and ``np.c_`` of arrays, numbers and slices."""

    def __init__(self, original, columns: bool):
        self._original, self._columns = original, columns

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __len__(self):
        return 0

    def __getitem__(self, key):
        """Return entries of the original, at traced positions, too."""
        slices = [part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, slice)]
        trace = find_trace(key, [(part.start, part.stop, part.step) for part in slices])
        if trace is None and has_plain(key):
            return wrap_result(trace_of_plain(key), self._original[as_ndarrays(key)], self._original)
        if trace is None:
            return self._original[key]
        key = as_ndarrays(key if isinstance(key, tuple) else (key,))
        directions = (-1, 2, 0) if self._columns else (0, 1, -1)
        if isinstance(key[0], str):
            try:
                given = tuple(map(int, key[0].split(",")))
            except ValueError:
                raise unsupported_argument("np.r_", repr(key[0]), "np.concatenate takes an axis") from None
            key, directions = key[1:], given + directions[len(given) :]
        if any(isinstance(part, str) for part in key):
            raise ValueError("special directives must be the first entry.")
        axis, ndim, first = directions
        # Python's numbers are weakly typed: a float makes floats of integers, and keeps float32.
        parts = [self._points(part) if isinstance(part, slice) else part for part in key]
        dtype = np.result_type(*map(_its_dtype, values_of(parts)))
        parts = [np.astype(_of_dimensions(lift(trace, x), ndim, first), dtype, copy=False) for x in parts]
        return np.concatenate(parts, axis)

    def _points(self, part: slice):
        """Return the points that a slice stands for: a range, or with ``3j`` so many on a line."""
        if find_trace((part.start, part.stop, part.step)) is None:
            return self._original[part]
        start = 0 if part.start is None else part.start
        if isinstance(part.step, complex):
            return np.linspace(start, part.stop, int(abs(part.step)))
        return arange(start, part.stop, 1 if part.step is None else part.step)


def _of_dimensions(x, ndim: int, first: int):
    """Return an array with at least so many dimensions, of which its own begin at ``first``."""
    x = np.atleast_1d(x)
    missing = ndim - x.ndim
    if missing <= 0:
        return x
    before = min(first if first >= 0 else missing + 1 + first, missing)
    return np.expand_dims(x, (*range(before), *range(before + x.ndim, ndim)))


def _its_dtype(x):
    """Return what decides about a common dtype: a number, perhaps a weak one, or the dtype of an array."""
    x = x._value if type(x) is operations.TracedInteger else x
    return x if isinstance(x, WEAK) else np.asarray(x).dtype


MAKERS["numpy"]["r_"] = lambda original: _Joiner(original, columns=False)
MAKERS["numpy"]["c_"] = lambda original: _Joiner(original, columns=True)
