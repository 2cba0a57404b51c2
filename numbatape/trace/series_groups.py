"""``series.groupby(labels)`` of a Series that depends on traced values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UnsupportedOperationError
from ..usercode.frames import where_in_user_code

if TYPE_CHECKING:
    from .series import TracedSeries

_BY_GROUPS = ("prod", "min", "max", "std", "var", "median", "first", "last")


class TracedGroups:
    """The groups of a traced Series; what they have in common is a Series with one entry a group.

    Parameters
    ----------
    series : TracedSeries
    by : Series, array or list
        A label for each entry. Entries whose label is missing belong to no group.
    """

    def __init__(self, series: TracedSeries, by):
        pd = sys.modules["pandas"]
        if hasattr(by, "index") and not isinstance(by, list) and not series.index.equals(by.index):
            raise UnsupportedOperationError(
                f"groupby by labels with another index at {where_in_user_code()}: pandas would align them, "
                "which is not supported; use their arrays (`.to_numpy()`)"
            )
        if callable(by) or np.shape(by) != (len(series),):
            raise UnsupportedOperationError(
                f"groupby at {where_in_user_code()} by anything but a label for each entry is not supported "
                "for a Series that depends on traced values"
            )
        self._series = series
        self._codes, labels = pd.factorize(np.asarray(by) if isinstance(by, list) else by, sort=True)
        self._labels = pd.Index(labels, name=getattr(by, "name", None))
        self._grouped = self._codes >= 0

    def __iter__(self) -> Iterator:
        return zip(self._labels, self._parts(), strict=True)

    def __len__(self) -> int:
        return len(self._labels)

    def _parts(self) -> list:
        return [self._series[self._codes == k] for k in range(len(self))]

    def _with(self, array):
        """Return a Series with one entry a group."""
        return type(self._series)(array, self._labels, self._series.name)

    def _totals(self, entries):
        """Return the sums of an array's entries over groups."""
        return np.bincount(self._codes[self._grouped], entries[self._grouped], len(self))

    def sum(self):
        """Return the sums of the groups; missing entries are skipped."""
        x = self._series.to_numpy()
        return self._with(self._totals(np.where(np.isnan(x), 0.0, x)))

    def count(self):
        """Return how many entries of each group are not missing."""
        return self._with(self._totals(np.where(np.isnan(self._series.to_numpy()), 0.0, 1.0)))

    def mean(self):
        """Return the means of the groups; missing entries are skipped."""
        return self._with(self.sum().to_numpy() / self.count().to_numpy())

    def size(self):
        """Return how many entries each group has."""
        return sys.modules["pandas"].Series(np.bincount(self._codes[self._grouped]), self._labels)

    def agg(self, function: str | Callable):
        """Return a function of each group, or what the method of that name gives."""
        if isinstance(function, str):
            return getattr(self, function)()
        return self._with(np.stack([function(part) for part in self._parts()]))

    aggregate = apply = agg

    def transform(self, function: str | Callable):
        """Return a number of its group for each entry."""
        if not self._grouped.all():
            raise UnsupportedOperationError(
                f"groupby(...).transform at {where_in_user_code()} with missing labels is not supported for "
                "a Series that depends on traced values"
            )
        found = self.agg(function).to_numpy()
        return type(self._series)(found[self._codes], self._series.index, self._series.name)

    def __getattr__(self, name: str):
        if name in _BY_GROUPS:
            return lambda: self._with(np.stack([_of_part(part, name) for part in self._parts()]))
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedOperationError(
            f"groupby(...).{name} at {where_in_user_code()} is not supported for a Series that depends on "
            "traced values; use its array (`.to_numpy()`)"
        )


def _of_part(part, name: str):
    if name in ("first", "last"):
        return part.iloc[0 if name == "first" else -1]
    return getattr(part, name)()
