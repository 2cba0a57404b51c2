"""Methods of a traced Series that pandas defines otherwise than NumPy, because entries may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedOperationError
from ..usercode.frames import where_in_user_code
from .series_groups import TracedGroups


def refusal(what: str, of: str) -> UnsupportedOperationError:
    """Return the error for a method or an option that is not known."""
    return UnsupportedOperationError(
        f"{of}{what} at {where_in_user_code()} is not supported for a Series that depends on traced values; "
        "use its array (`.to_numpy()`)"
    )


class SeriesFunctions:
    """What a traced Series has by its array alone."""

    _array: Any
    _like: Any

    def _require_index(self, name: str, *others) -> None:
        """Raise if pandas would align the rows of this Series and of others."""
        index = self.index  # type: ignore[attr-defined]
        theirs = [getattr(other, "index", None) for other in others]  # of a list it is a method
        if not all(labels is None or callable(labels) or index.equals(labels) for labels in theirs):
            raise refusal(f".{name} with another index", "Series")

    # ---- missing entries

    def isna(self):
        """Return which entries are missing."""
        return self._like(np.isnan(self._array))

    def notna(self):
        """Return which entries are not missing."""
        return self._like(np.logical_not(np.isnan(self._array)))

    def fillna(self, value):
        """Return the entries, and a number in place of missing ones."""
        if np.ndim(value):
            raise refusal(".fillna by more than a number", "Series")
        return self._like(np.where(np.isnan(self._array), value, self._array))

    def dropna(self):
        """Return the entries that are not missing."""
        return self[self.notna()]  # type: ignore[index]

    def where(self, condition, other=np.nan):
        """Return the entries for which a condition holds, and another value for the rest."""
        return self._chosen_by(condition, self, other)

    def mask(self, condition, other=np.nan):
        """Return the entries for which a condition does not hold, and another value for the rest."""
        return self._chosen_by(condition, other, self)

    def _chosen_by(self, condition, chosen, other):
        if callable(condition) or callable(other):
            raise refusal(".where of functions", "Series")
        self._require_index("where", condition, chosen, other)
        return self._like(np.where(condition, chosen, other))

    # ---- along the rows

    def cumsum(self, axis=None, dtype=None, out=None, skipna: bool = True):
        """Return running sums, which skip missing entries."""
        return self._running("cumsum", np.nancumsum, dtype, out, skipna)

    def cumprod(self, axis=None, dtype=None, out=None, skipna: bool = True):
        """Return running products, which skip missing entries."""
        return self._running("cumprod", np.nancumprod, dtype, out, skipna)

    def cummax(self, axis=None, skipna: bool = True):
        """Return running maxima, which skip missing entries."""
        return self._running("cummax", lambda x: _running_extreme(np.maximum, -np.inf, x), None, None, skipna)

    def cummin(self, axis=None, skipna: bool = True):
        """Return running minima, which skip missing entries."""
        return self._running("cummin", lambda x: _running_extreme(np.minimum, np.inf, x), None, None, skipna)

    def _running(self, name, function, dtype, out, skipna):
        if dtype is not None or out is not None or not skipna:
            raise refusal(f".{name} with these options", "Series")
        x = self._array
        return self._like(np.where(np.isnan(x), x, function(x)))

    def shift(self, periods: int = 1, freq=None, axis=0, fill_value=np.nan):
        """Return the entries moved by a number of places."""
        if freq is not None or np.ndim(periods) or np.ndim(fill_value):
            raise refusal(".shift with these options", "Series")
        x, n = self._array, len(self._array)
        size = min(abs(periods), n)
        filled = np.full(size, fill_value)
        parts = [filled, x[: n - size]] if periods > 0 else [x[size:], filled]
        return self._like(np.concatenate(parts))

    def diff(self, periods: int = 1):
        """Return differences from the entries a number of places before."""
        return self._like(self._array - self.shift(periods).to_numpy())

    # ---- numbers

    def quantile(self, q=0.5, interpolation: str = "linear"):
        """Return a quantile of the entries that are not missing."""
        if np.ndim(q):
            raise refusal(".quantile of several numbers", "Series")
        return np.nanquantile(self._array, q, method=interpolation)

    def sem(self):
        """Return the standard error of the mean."""
        count = np.sum(np.logical_not(np.isnan(self._array)))
        return np.nanstd(self._array, ddof=1) / np.sqrt(count)

    def count(self):
        """Return how many entries are not missing."""
        return np.sum(np.logical_not(np.isnan(self._array)))

    def any(self):
        """Whether any entry is true."""
        return np.any(self._array)

    def all(self):
        """Whether all entries are true."""
        return np.all(self._array)

    def agg(self, function, *args, **kwargs):
        """Return a function of the Series, or what the method of that name gives."""
        if isinstance(function, str):
            return getattr(self, function)(*args, **kwargs)
        return function(self, *args, **kwargs)

    def groupby(self, by=None, **options):
        """Return groups of entries, by a label for each."""
        if by is None or any(value is not None for value in options.values()):
            raise refusal(".groupby with these options", "Series")
        return TracedGroups(self, by)  # type: ignore[arg-type]


def _running_extreme(ufunc, least: float, x):
    return ufunc.accumulate(np.where(np.isnan(x), least, x))
