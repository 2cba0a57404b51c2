"""Columns of pandas whose entries are traced values.

``df["y"] - slope * df["x"]`` is a Series for pandas, with an index, alignment by it, and methods that are not
NumPy's: ``std`` divides by n - 1, sums skip missing entries. pandas keeps columns of other packages as
*extension arrays*, so a Series or a DataFrame that depends on traced values is pandas' own, and its data are
`TracedColumn` objects. What pandas needs to know as plain numbers (masks that select rows, which entries are
missing) is read, and becomes a guard.

This file is imported when a traced value meets an object of pandas, which is loaded then.
"""

from __future__ import annotations

import operator
import sys

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype
from pandas.api.indexers import check_array_indexer

from ...errors import UnsupportedOperationError
from ...usercode.frames import where_in_user_code
from ..array import TracedArray, new_traced
from ..library_kinds import COLUMN, DECIDES
from .column_functions import ACCUMULATIONS, REDUCTIONS, missing, over_groups, read, reduced
from .labels import expect_labels

WRITES = int(pd.__version__.partition(".")[0]) >= 3  # older versions share the memory of columns


class TracedDtype(ExtensionDtype):
    """The dtype of a traced column: that of the array which the column stands for.

    Parameters
    ----------
    numpy_dtype : numpy.dtype
    """

    na_value = np.nan
    _metadata = ("numpy_dtype",)  # pandas compares these attributes of two dtypes

    def __init__(self, numpy_dtype: np.dtype):
        self.numpy_dtype = numpy_dtype

    @property
    def name(self) -> str:
        return str(self.numpy_dtype)

    @property
    def type(self):
        return self.numpy_dtype.type

    @property
    def kind(self) -> str:
        return self.numpy_dtype.kind

    @property
    def itemsize(self) -> int:
        return self.numpy_dtype.itemsize  # pandas 2 asks for it before it makes a plain array

    @property
    def _is_numeric(self) -> bool:
        return True

    @property
    def _is_boolean(self) -> bool:
        return self.kind == "b"

    @classmethod
    def construct_from_string(cls, string):
        raise TypeError(f"no traced column is made by the name {string!r}")

    @classmethod
    def construct_array_type(cls):
        return TracedColumn

    def _get_common_dtype(self, dtypes):
        kinds = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
        if all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in kinds):
            return TracedDtype(np.result_type(*kinds))
        return None


class TracedColumn(ExtensionArray):
    """A column of pandas whose entries are traced.

    Parameters
    ----------
    entries : TracedArray or numpy.ndarray
        Of one dimension.
    """

    __array_priority__ = 10_000.0  # the priority is above that of a traced array

    def __init__(self, entries):
        self._entries = entries
        expect_labels(entries)

    @property
    def entries(self):
        """The array that the column stands for."""
        return self._entries

    def _in_trace(self):
        """Return the array; raise if the column outlived its trace."""
        if type(self._entries) is TracedArray:
            self._entries._trace.check_open()
        return self._entries

    # ---- what pandas asks of an extension array

    @classmethod
    def _from_sequence(cls, scalars, *, dtype=None, copy=False):
        if isinstance(scalars, TracedColumn):
            return scalars
        if type(scalars) is TracedArray:
            return cls(scalars)
        if getattr(scalars, "dtype", None) is not None and scalars.dtype != object:
            return cls(np.asarray(scalars, getattr(dtype, "numpy_dtype", None)))
        numbers = [x if type(x) is TracedArray else float("nan" if x is None else x) for x in scalars]
        return cls(np.stack(numbers) if numbers else np.zeros(0))

    @classmethod
    def _concat_same_type(cls, to_concat):
        return cls(np.concatenate([column.entries for column in to_concat]))

    @property
    def dtype(self):
        return TracedDtype(self._entries.dtype)

    @property
    def nbytes(self) -> int:
        return self.dtype.numpy_dtype.itemsize * len(self)

    def __len__(self) -> int:
        return len(self._in_trace())

    def __getitem__(self, item):
        found = self._in_trace()[check_array_indexer(self, item)]
        return TracedColumn(found) if np.ndim(found) else found

    def __setitem__(self, key, value):
        if not WRITES:
            raise UnsupportedOperationError(
                f"a traced value is written to a Series at {where_in_user_code()}, which needs pandas 3; "
                "make another Series (`s.where(...)`)"
            )
        changed = np.copy(self._entries)
        if isinstance(changed, np.ndarray):  # plain numbers, to which a traced one may be written
            changed = np.where(True, changed, value[0] if np.ndim(value) else value)
        changed[check_array_indexer(self, key)] = entries_of(value)
        self._entries = changed

    def take(self, indices, *, allow_fill=False, fill_value=None):
        places = np.asarray(indices, np.intp)
        if not allow_fill or not (places < 0).any():
            return TracedColumn(self._entries[places])
        fill = np.nan if fill_value is None else fill_value
        if not len(self):
            return TracedColumn(np.full(len(places), fill))
        return TracedColumn(np.where(places < 0, fill, self._entries[np.maximum(places, 0)]))

    def copy(self):
        # This array itself may be returned, because a write makes another one.
        return TracedColumn(self._entries)

    def isna(self):
        return missing(self._entries)

    def astype(self, dtype, copy=True):
        kind = getattr(dtype, "numpy_dtype", dtype)
        if isinstance(kind, ExtensionDtype) or kind is object or np.dtype(kind).kind not in "fiub":
            return super().astype(dtype, copy)
        return TracedColumn(self._entries.astype(kind))

    def to_numpy(self, dtype=None, copy=False, na_value=None):
        return self.__array__(dtype)

    def __array__(self, dtype=None, copy=None):
        x = self._entries
        if type(x) is TracedArray:
            if x.dtype == bool:
                return read(x)
            if sys._getframe(1).f_globals.get("__name__", "").startswith("pandas.io.formats"):
                x._trace.note_text(x._level)  # the caller makes text of the entries
                return np.asarray(x._value, dtype)
        return np.asarray(x, dtype)  # a traced array raises

    def argsort(self, *, ascending=True, kind="quicksort", na_position="last", **kwargs):
        gone = missing(self._entries)
        present = np.flatnonzero(~gone)
        x = self._entries[present]
        if ascending:
            order = read(np.argsort(x, kind="stable"))
        else:  # Sorting goes backwards, so that equal entries keep their order.
            order = len(present) - 1 - read(np.argsort(x[::-1], kind="stable"))[::-1]
        parts = present[order], np.flatnonzero(gone)
        return np.concatenate(parts if na_position == "last" else parts[::-1])

    def factorize(self, use_na_sentinel: bool = True):
        """Return which group each entry is in, and the groups' plain numbers, as `groupby` needs them."""
        return pd.factorize(read(self._entries), use_na_sentinel=use_na_sentinel)

    def _values_for_factorize(self):
        return read(self._entries), np.nan  # of keys by which `merge` joins

    # ---- functions of entries

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(isinstance(x, (pd.Series, pd.DataFrame, pd.Index)) for x in inputs):
            return NotImplemented
        result = getattr(ufunc, method)(*map(entries_of, inputs), **kwargs)
        return tuple(map(as_column, result)) if type(result) is tuple else as_column(result)

    def __neg__(self):
        return TracedColumn(-self._entries)

    def __pos__(self):
        return self

    def __abs__(self):
        return TracedColumn(abs(self._entries))

    def __invert__(self):
        return TracedColumn(~self._entries)

    def round(self, decimals: int = 0):
        """Return rounded entries."""
        return TracedColumn(np.round(self._entries, decimals))

    def map(self, mapper, na_action=None):
        """Return a function of each entry."""
        if not callable(mapper) or na_action is not None:
            return super().map(mapper, na_action)
        return self._from_sequence([mapper(_as_pythons(entry)) for entry in self])

    def fillna(self, value=None, method=None, limit=None, copy=True):
        """Return the entries, and other numbers in place of missing ones (``method`` is of pandas 2)."""
        if limit is not None or method is not None:
            _require((), "fillna(limit=...) or (method=...)")
        x = self._entries
        return TracedColumn(np.where(np.isnan(x), entries_of(value), x))

    def _pad_or_backfill(self, **options):
        # Otherwise pandas 2 would call `fillna(method=...)`, with a warning, as it does where a class has not
        # this method itself.
        return super()._pad_or_backfill(**options)

    # ---- reductions

    def _reduce(self, name, *, skipna=True, keepdims=False, **options):
        _require(REDUCTIONS, name)
        found = reduced(name, self._entries, {"skipna": skipna, **options})
        return TracedColumn(np.reshape(found, (1,))) if keepdims else found

    def _accumulate(self, name, *, skipna=True, **options):
        _require(ACCUMULATIONS, name)
        return TracedColumn(ACCUMULATIONS[name](self._entries, skipna))

    def _quantile(self, qs, interpolation):
        return TracedColumn(np.nanquantile(self._entries, qs, method=interpolation))

    def interpolate(self, *, method, limit=None, limit_direction="forward", limit_area=None, **options):
        """Return the entries, and in place of missing ones the line through their neighbours."""
        if method != "linear" or limit is not None or limit_direction != "forward" or limit_area is not None:
            _require((), f"interpolate(method={method!r}) or with a limit")
        gone, rows = missing(self._entries), np.arange(float(len(self)))
        if gone.all():
            return self
        line = np.interp(rows, rows[~gone], self._entries[~gone])
        return TracedColumn(np.where(rows < rows[~gone][0], np.nan, line))

    def _groupby_op(self, *, how, has_dropped_na, min_count, ngroups, ids, **options):
        _require(REDUCTIONS | ACCUMULATIONS, how, "groupby(...).")
        options["min_count"] = min_count
        return TracedColumn(over_groups(how, self._entries, ids, ngroups, options))


setattr(TracedColumn, COLUMN, True)
setattr(TracedColumn, DECIDES, True)


def _require(known, name: str, of: str = "") -> None:
    if name not in known:
        raise UnsupportedOperationError(
            f"{of}{name} of pandas at {where_in_user_code()} is not supported for columns that depend on "
            "traced values; use their arrays (`.to_numpy()`)"
        )


def entries_of(x):
    """Return the array of a column; other values as they are."""
    return x.entries if type(x) is TracedColumn else x


def _as_pythons(x):
    """Return an entry as a number of Python, which pandas takes functions of."""
    if type(x) is TracedArray and isinstance(x._value, np.float64):
        return new_traced(x._trace, float(x._value), x._id, x._level, x._family)
    return x


def as_column(x):
    """Return an array of one dimension as a column; other values as they are."""
    return TracedColumn(x) if type(x) is TracedArray and x.ndim == 1 else x


def _operator(function):
    def forward(self, other):
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        return as_column(function(self._in_trace(), entries_of(other)))

    def reflected(self, other):
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        return as_column(function(entries_of(other), self._in_trace()))

    return forward, reflected


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and_", "or_", "xor"):
    _forward, _reflected = _operator(getattr(operator, _name))
    setattr(TracedColumn, f"__{_name.rstrip('_')}__", _forward)
    setattr(TracedColumn, f"__r{_name.rstrip('_')}__", _reflected)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedColumn, f"__{_name}__", _operator(getattr(operator, _name))[0])
