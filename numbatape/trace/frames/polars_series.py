"""The result of arithmetic of a captured Series of polars with traced values.

polars computes in compiled code, and has no place for columns of other packages. So this class stands for its
Series: entries that depend on traced values, and the methods that are the same as NumPy's or a formula away.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import LeakError, UnsupportedOperationError
from ...usercode.frames import where_in_user_code
from .. import operations
from ..library_kinds import DECIDES, package_of
from ..pytrees import register
from .labels import NUMBERS, expect_labels


def numbers_in(series) -> np.ndarray:
    """Return the array of a Series of polars.

    Raises
    ------
    UnsupportedOperationError
        If entries are missing, or no numbers.
    """
    found = series.to_numpy()
    if series.null_count() or found.dtype.kind not in NUMBERS:
        raise UnsupportedOperationError(
            f"a Series of polars ({series.dtype}, {series.null_count()} missing) meets a traced value at "
            f"{where_in_user_code()}: only numbers without missing entries have derivatives"
        )
    return found


class TracedSeries(np.lib.mixins.NDArrayOperatorsMixin):
    """A Series of polars that depends on traced values.

    Parameters
    ----------
    entries : TracedArray
        Of one dimension.
    name : str
    """

    def __init__(self, entries, name: str):
        self._entries, self.name = entries, name
        expect_labels(entries)

    def _like(self, entries) -> TracedSeries:
        return TracedSeries(entries, self.name)

    # ---- NumPy's protocols

    def __array__(self, dtype=None, copy=None):
        raise LeakError(
            f"np.asarray(series) at {where_in_user_code()} would drop the derivative of a traced Series; use "
            "`.to_numpy()`"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return ufunc_of_polars(ufunc, inputs, kwargs, method)

    def __array_function__(self, function, types, args, kwargs):
        return function(*operations.arrays_of(args), **operations.arrays_of(kwargs))

    # ---- as an array

    def to_numpy(self, **options):
        """Return the traced array."""
        return self._entries

    shape = property(lambda self: self._entries.shape)
    dtype = property(lambda self: self._entries.dtype)

    def __len__(self) -> int:
        return len(self._entries)

    def len(self) -> int:
        """Return the number of entries."""
        return len(self)

    def __iter__(self) -> Iterator:
        return iter(self._entries)

    def to_list(self) -> list:
        """Return the entries."""
        return list(self._entries)

    def __getitem__(self, key):
        found = self._entries[key.to_numpy() if hasattr(key, "to_numpy") else key]
        return self._like(found) if np.ndim(found) else found

    def filter(self, mask):
        """Return the entries for which a mask holds."""
        return self[mask]

    def head(self, n: int = 10):
        """Return the first entries."""
        return self[:n]

    def tail(self, n: int = 10):
        """Return the last entries."""
        return self[max(len(self) - n, 0) :] if n >= 0 else self[-n:]

    def alias(self, name: str):
        """Return the entries under another name."""
        return TracedSeries(self._entries, name)

    # ---- functions

    def std(self, ddof: int = 1):
        """Return the standard deviation."""
        return np.std(self._entries, ddof=ddof)

    def var(self, ddof: int = 1):
        """Return the variance."""
        return np.var(self._entries, ddof=ddof)

    def dot(self, other):
        """Return the sum of products with another Series or an array."""
        return np.dot(self._entries, _array_of(other))

    def pow(self, exponent):
        """Return powers of the entries."""
        return self**exponent

    def clip(self, lower_bound=None, upper_bound=None):
        """Return the entries between two bounds."""
        return self._like(np.clip(self._entries, _array_of(lower_bound), _array_of(upper_bound)))

    def __getattr__(self, name: str):
        if name in _NUMBERS:
            return lambda: _NUMBERS[name](self._entries)
        if name in _ENTRIES:
            return lambda: self._like(_ENTRIES[name](self._entries))
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedOperationError(
            f"Series.{name} of polars at {where_in_user_code()} is not supported for a Series that depends "
            "on traced values; use its array (`.to_numpy()`)"
        )

    def __bool__(self):
        raise TypeError("the truth value of a Series is ambiguous")

    __hash__ = None  # type: ignore[assignment]


_NUMBERS = {
    **{"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max, "median": np.median, "product": np.prod},
    **{"any": np.any, "all": np.all},
}
_ENTRIES = {
    **{"abs": np.abs, "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin},
    **{"cos": np.cos, "tanh": np.tanh, "cum_sum": np.cumsum, "cum_prod": np.cumprod, "sign": np.sign},
}


def _array_of(x):
    if type(x) is TracedSeries:
        return x.to_numpy()
    return numbers_in(x) if package_of(x) == "polars" else x


def ufunc_of_polars(ufunc, inputs, kwargs, method: str = "__call__"):
    """Return a ufunc of traced values and Series of polars as a Series, with the first one's name."""
    names = [x.name for x in inputs if type(x) is TracedSeries or package_of(x) == "polars"]
    result = getattr(ufunc, method)(*map(_array_of, inputs), **kwargs)
    if type(result) is tuple:
        return tuple([TracedSeries(part, names[0]) for part in result])
    return TracedSeries(result, names[0]) if np.ndim(result) == 1 else result


setattr(TracedSeries, DECIDES, True)
register(TracedSeries, lambda x: (x.to_numpy(),), lambda parts: parts[0])
