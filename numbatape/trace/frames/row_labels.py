"""Which rows of an argument of pandas an array has: pandas aligns rows by their labels, and arrays do not.

A Series that is an argument is an array for the traced function. What is taken from it (slices, masks,
``loc``, ``iloc``) and what is computed entry by entry keeps the labels of its rows, so that an index means
what it means for pandas, sums skip missing entries, and operands whose rows pandas would align are refused.
"""

from __future__ import annotations

import sys

import numpy as np

from ...errors import UnsupportedOperationError
from ...usercode.frames import where_in_user_code
from .. import operations
from ..array import TracedArray
from .labels import TRANSPOSED, SeriesLabels

# NumPy's functions whose result has the rows of the Series that they are given.
ENTRYWISE = (np.cumsum, np.cumprod, np.clip, np.round, np.around, np.astype)
# Functions for which pandas leaves missing entries out; the values are functions that do so for an array.
SKIPPING = {
    **{np.sum: np.nansum, np.prod: np.nanprod, np.mean: np.nanmean, np.std: np.nanstd, np.var: np.nanvar},
    **{np.max: np.nanmax, np.min: np.nanmin, np.amax: np.nanmax, np.amin: np.nanmin},
    **{np.argmax: np.nanargmax, np.argmin: np.nanargmin},
    **{np.cumsum: np.nancumsum, np.cumprod: np.nancumprod},
}
ITS_ARRAY = "take `.to_numpy()` first, which goes by places"


def rows_in(x) -> SeriesLabels | None:
    """Return the labels of the rows of an array, or None."""
    found = x._trace.arguments.labels.get(x._id) if type(x) is TracedArray else None
    return found if type(found) is SeriesLabels and found.package == "pandas" else None


def without_rows(x):
    """Return an array as a view without labels."""
    return x if rows_in(x) is None else x[...]


# ---- operands


def with_rows(ufunc, inputs, result):
    """Note which rows the result of a ufunc has; raise if pandas would first align those of the operands."""
    labelled = [x for x in inputs if rows_in(x) is not None]
    if not labelled:
        return result
    first = labelled[0]
    for other in labelled[1:]:
        if other.ndim == first.ndim:
            require_same_rows(first, other)
        elif ufunc is not np.matmul:
            raise rows_differ()
    if ufunc is not np.matmul:
        for part in result if type(result) is tuple else (result,):
            if (
                type(part) is TracedArray
                and part._value.shape == first._value.shape
                and rows_in(part) is None
            ):
                rows_in(first).on(part)
    return result


def require_same_rows(one: TracedArray, other: TracedArray, left: SeriesLabels | None = None) -> None:
    """Raise if two arrays have rows that pandas would align, or may have in another call.

    ``left`` are the rows of the first one, if it is a DataFrame's array, which has none of its own.
    """
    left, right = rows_in(one) if left is None else left, rows_in(other)
    if left is right:
        return
    if min(one.ndim, other.ndim) > 1 and not left.parts[1].equals(right.parts[1]):
        raise rows_differ()
    if not left.steps and not right.steps:
        if same_index(left.parts[0], right.parts[0]):
            return
    elif left.now_of(one).equals(right.now_of(other)):
        if not _taken_alike(left, right):
            left.rely_on()
            right.rely_on()
        return
    raise rows_differ()


def _taken_alike(left: SeriesLabels, right: SeriesLabels) -> bool:
    """Whether the same rows were taken of two arguments; what decides it is a guard."""
    if len(left.steps) != len(right.steps) or not same_index(left.parts[0], right.parts[0]):
        return False
    if left.parts[0] is None and left.steps and len(left.source) != len(right.source):
        return False
    return all(map(_same_step, left.steps, right.steps))


def _same_step(one, other) -> bool:
    if one is other:
        return True
    if type(one) is slice or type(other) is slice:
        return type(one) is type(other) and one == other
    return one.dtype == other.dtype and one.shape == other.shape and bool(np.all(one == other))


def same_index(one, other) -> bool:
    """Whether two indexes of pandas are equal; None is 0, 1, 2, ..., of any length."""
    if one is None or other is None:
        known = other if one is None else one
        return known is None or list(known) == list(range(len(known)))
    return one is other or bool(one.equals(other))


def require_names(x, columns) -> None:
    """Raise if an operand of a DataFrame is a Series that pandas would align with its columns."""
    rows = rows_in(x)
    if rows is not None and (x.ndim != 1 or not rows.now_of(x).equals(columns)):
        raise rows_differ()


def rows_differ() -> UnsupportedOperationError:
    """Return the error for operands whose rows pandas would align."""
    return UnsupportedOperationError(
        f"rows with different labels meet at {where_in_user_code()}: pandas aligns them, but of what is an "
        "argument a traced function gets arrays; align them before the call (a.align(b)), or take "
        "`.to_numpy()` of both"
    )


# ---- entries


def entry_of_rows(x: TracedArray, key):
    """Return ``x[key]`` of an array with rows, as the user's code writes it of a Series."""
    rows = rows_in(x)
    if rows is not None and x.ndim == 2:
        return _column_of(x, rows, key)
    if rows is None or x.ndim != 1:
        return operations.getitem(x, key)
    if type(key).__module__.partition(".")[0] == "pandas":  # the key is a captured Series
        key = _mask_of_pandas(x, rows, key) if key.dtype == np.bool_ else key.to_numpy()
    if key is Ellipsis:
        key = slice(None)
    if type(key) is slice:
        ends = [end for end in (key.start, key.stop) if end is not None]
        by_label = any(isinstance(end, str) or not hasattr(end, "__index__") for end in ends)
        return rows.loc(x)[key] if by_label else by_places(x, rows, key)
    if rows_in(key) is not None and key.dtype == np.bool_:
        require_same_rows(x, key)
    numbers = np.asarray(getattr(key, "_value", key))
    if numbers.dtype.kind not in "iuOUS" or (isinstance(key, tuple) and numbers.ndim):
        return by_places(x, rows, key)
    if rows.parts[0] is None and not rows.steps:  # the labels count the rows, so a label is a place
        return by_places(x, rows, key)
    index = rows.now_of(x)
    wanted = [numbers[()]] if not numbers.ndim else list(numbers)
    if index.dtype.kind not in "iuf" and not all(label in index for label in wanted):
        if numbers.dtype.kind in "iu":
            return by_places(x, rows, key)
        raise KeyError(key)
    if type(key) is TracedArray:
        raise _depends()
    return rows.loc(x)[numbers[()] if not numbers.ndim else wanted]


def names_of_columns(x: TracedArray):
    """Return the names of the columns of what is taken or computed of a DataFrame; None for other arrays."""
    rows = rows_in(x)
    return None if rows is None or x.ndim != 2 else rows.parts[1]


def turned_frame(x: TracedArray, turned: TracedArray) -> TracedArray:
    """Return a transposed array, with labels if it was taken or computed of a DataFrame."""
    return turned if names_of_columns(x) is None else TRANSPOSED.on(turned)


def _column_of(x: TracedArray, rows: SeriesLabels, key):
    """Return ``x[key]`` of what is taken or computed of a DataFrame: columns by their names, or rows."""
    names = rows.parts[1]
    if type(key) is slice or getattr(key, "dtype", None) == np.bool_:
        return by_places(x, rows, (key, slice(None)), names)
    if type(key) is tuple:
        raise KeyError(key)
    wanted = list(names.get_indexer_for(key if type(key) is list else [key]))
    if -1 in wanted or (len(wanted) > 1 and type(key) is not list):
        raise KeyError(key)
    return by_places(x, rows, (slice(None), wanted if type(key) is list else wanted[0]), names)


def by_places(x: TracedArray, rows: SeriesLabels, key, columns=None):
    """Return entries of an array with rows by an index of places, with their rows.

    Parameters
    ----------
    columns : pandas.Index
        Of a DataFrame, whose rows and columns are taken one after the other.
    """
    keys = [np.array(k, int if k == [] else None) if type(k) is list else k for k in _parts(key)]
    if len(keys) > x.ndim or any(k is None or k is Ellipsis or np.ndim(_now(k)) > 1 for k in keys):
        return x[...][key]
    for k in keys:
        if rows_in(k) is not None and k.dtype == np.bool_:
            require_same_rows(x, k, rows if rows_in(x) is None else None)
    found = x[...] if len(keys) == 1 else x[:, keys[1]]
    found = found[keys[0]]
    if columns is not None:
        names = columns[_now(keys[1])] if len(keys) > 1 else columns
        # One row is a Series whose labels are the names of columns.
        if type(keys[0]) is not slice and not np.ndim(_now(keys[0])):
            return SeriesLabels(names, None).on(found) if np.ndim(found) else found
        rows = SeriesLabels(rows.parts[0], names if found.ndim > 1 else None)
    return rows.taken(x, keys[0], _now(keys[0])).on(found) if np.ndim(found) else found


def _parts(key) -> tuple:
    return key if isinstance(key, tuple) else (key,)


def _now(key):
    """Return what an index is in the call that is traced."""
    if type(key) is slice:
        return slice(*[_now(end) for end in (key.start, key.stop, key.step)])
    return getattr(key, "_value", key)


class Entries:
    """An attribute of a traced Series or DataFrame through which entries are read, and none is written."""

    def __setitem__(self, key, value):
        raise UnsupportedOperationError(
            f"an entry is written at {where_in_user_code()} to a Series or a DataFrame that is an argument, "
            "which a traced function cannot change; write to a copy of it (`.copy()`)"
        )


class Iloc(Entries):
    """The attribute ``iloc`` of a traced Series or DataFrame: entries by places."""

    def __init__(self, x: TracedArray, rows: SeriesLabels, columns=None):
        self._x, self._rows, self._columns = x, rows, columns

    def __getitem__(self, key):
        return by_places(self._x, self._rows, key, self._columns)


class Loc(Entries):
    """The attribute ``loc`` of a traced Series or DataFrame: entries by pandas' rules.

    Parameters
    ----------
    x, rows
        The array, and the labels of its rows.
    index : pandas.Index
        The same labels.
    columns : pandas.Index, optional
        Those of the columns.
    """

    def __init__(self, x: TracedArray, rows: SeriesLabels, index, columns=None):
        self._x, self._rows, self._index, self._columns = x, rows, index, columns

    def __getitem__(self, key):
        if self._columns is None:
            return by_places(self._x, self._rows, self._places(self._index, key))
        keys = zip((self._index, self._columns), _parts(key), strict=False)
        places = tuple([self._places(*pair) for pair in keys])
        return by_places(self._x, self._rows, places, self._columns)

    @staticmethod
    def _places(labels, key):
        if getattr(key, "dtype", None) == np.bool_ and type(key).__module__[:6] != "pandas":
            return key
        if type(key) is TracedArray:
            raise _depends()
        found = sys.modules["pandas"].Series(np.arange(len(labels)), labels).loc[key]
        return found.to_numpy() if hasattr(found, "to_numpy") else int(found)


def _depends() -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"a Series at {where_in_user_code()} is indexed by labels that depend on the arguments; {ITS_ARRAY}"
    )


def _mask_of_pandas(x: TracedArray, rows: SeriesLabels, mask):
    rows.rely_on()
    if not rows.now_of(x).equals(mask.index):
        raise rows_differ()
    return mask.to_numpy()


# ---- functions


BY_COLUMNS = frozenset(
    ("all", "any", "cumprod", "cumsum", "max", "mean", "min", "prod", "std", "sum", "var")
)  # methods of a DataFrame that NumPy's arrays have, too


def method_of_rows(x: TracedArray, name: str, args: tuple, kwargs: dict) -> TracedArray:
    """Return the array whose method of NumPy does what that of a Series does, or of a DataFrame.

    What is taken or computed of a DataFrame is an array of two dimensions; pandas goes through its columns
    one by one, which the ``axis`` in ``kwargs`` says.

    Raises
    ------
    UnsupportedOperationError
        If the divisors of ``std()`` differ, or if a product aligns rows.
    """
    found = x._trace.arguments.labels.get(x._id)
    if found is None or found.package not in ("pandas", "polars"):
        return x
    if x.ndim == 2:
        if name in BY_COLUMNS and not args:
            kwargs.setdefault("axis", 0)
    elif x.ndim != 1:
        return x
    if name in ("std", "var") and len(args) < 4 and "ddof" not in kwargs:
        raise UnsupportedOperationError(
            f".{name}() at {where_in_user_code()}: a Series divides by n - 1, and an array by n; a traced "
            f"function gets arrays, so say which: {name}(ddof=1) or {name}(ddof=0)"
        )
    if rows_in(x) is None:
        return x
    if name == "dot":
        with_rows(np.matmul, (x, *args), None)
    skips = kwargs.pop("skipna", True)
    return x if skips else without_rows(x)


def function_of_rows(function, args: tuple, kwargs: dict):
    """Return what one of NumPy's functions gives, which pandas' own method computes for a Series."""
    x = args[0]
    rows, plain = rows_in(x), [without_rows(part) for part in args]
    result = function(*plain, **kwargs)
    skipping = SKIPPING.get(function)
    skips = skipping is not None and x.dtype.kind == "f" and kwargs.get("where", True) is True
    # The guard is on a sum, whose derivative is a number: zero times that of a product may be NaN.
    if skips and bool(np.isnan(result if function in (np.sum, np.mean) else np.sum(plain[0]))):
        result = skipping(*plain, **kwargs)
        if function in ENTRYWISE:
            result = np.where(np.isnan(plain[0]), np.nan, result)
    if function in ENTRYWISE and type(result) is TracedArray and result._value.shape == x._value.shape:
        rows.on(result)
    return result


def needs_rows(function, args: tuple) -> bool:
    """Whether pandas computes one of NumPy's functions by a method of the Series that it is given."""
    if function not in SKIPPING and function not in ENTRYWISE:
        return False
    return bool(args) and rows_in(args[0]) is not None and args[0].ndim == 1
