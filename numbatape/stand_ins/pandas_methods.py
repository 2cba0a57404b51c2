"""Stand-ins for methods of pandas that compute in compiled code: windows, ranks, and positions of entries.

`numbatape.stand_ins.lent_methods` puts them on pandas' classes while a function is traced. Each takes pandas'
method, which runs where nothing is traced, and the object.
"""

from __future__ import annotations

import copy
import inspect
import sys

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..trace.frames.column_functions import read
from ..trace.frames.labelled_calls import array_in, depends
from ..trace.library_kinds import is_frame, is_series
from ..trace.operands import find_trace, lift
from ..usercode.frames import where_in_user_code


def _windows():
    return imported("numbatape.trace.frames.pandas_windows")


def _series(array, index, name):
    return sys.modules["pandas"].Series(array, index, name=name)


def refuse(what: str, hint: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{what} of pandas at {where_in_user_code()} is not supported for columns that depend on traced "
        f"values; {hint}"
    )


def _bound(method, owner, args, options) -> dict:
    """Return the arguments of a call of pandas' method by name, with its defaults."""
    call = inspect.signature(method).bind(owner, *args, **options)
    call.apply_defaults()
    return call.arguments


# ---- windows


def _by_column(compute):
    """Return a method of windows that computes with one column at a time.

    ``compute(owner, column, *args, **options)`` → an array, and its index.
    """

    def call(method, owner, *args, **options):
        if not depends(owner.obj) and not any(map(depends, (*args, *options.values()))):
            return method(owner, *args, **options)
        if getattr(owner, "_grouper", None) is not None:
            raise refuse(f"groupby(...).{_name_of(owner)}(...)", "take the groups one by one")
        options = {key: value for key, value in options.items() if key not in ("engine", "engine_kwargs")}
        if not is_frame(owner.obj):
            return _series(*compute(owner, owner.obj, *args, **options), owner.obj.name)
        made = {}  # The keys are positions, because several columns may have the same name.
        for k in range(owner.obj.shape[1]):
            one = copy.copy(owner)
            one.obj = owner.obj.iloc[:, k]
            made[k] = _series(*compute(one, one.obj, *args, **options), None)
        return sys.modules["pandas"].DataFrame(made).set_axis(owner.obj.columns, axis=1)

    return call


def _name_of(owner) -> str:
    return {"Expanding": "expanding", "ExponentialMovingWindow": "ewm"}.get(type(owner).__name__, "rolling")


def _reduction(name: str):
    def compute(owner, column, *args, **options):
        if name in ("var", "std", "sem"):
            given = {"ddof": options.get("ddof", args[0] if args else 1)}
        elif name == "quantile":
            q = options.get("q", args[0] if args else None)
            method = options.get("interpolation", args[1] if len(args) > 1 else "linear")
            given = {"q": q, "method": method}
        else:
            given = {}
        windows = _windows().Windows(owner, column.index)
        return _windows().reduced_windows(name, windows, array_in(column), **given), windows.index

    return _by_column(compute)


def _apply(owner, column, func, raw=False, args=(), kwargs=None):
    windows = _windows().Windows(owner, column.index)
    x = array_in(column)

    def of_rows(rows):
        given = x[rows] if raw else _series(x[rows], column.index[rows], None)
        return func(given, *args, **(kwargs or {}))

    return windows.applied(x, of_rows), windows.index


def _covariance(scaled: bool):
    def compute(owner, column, other=None, pairwise=None, ddof=1, **options):
        if other is None or pairwise or is_frame(other):
            raise refuse(f"{_name_of(owner)}(...) of all pairs of columns", "give one Series")
        windows = _windows().Windows(owner, column.index)
        both = [array_in(one) for one in (column, other.reindex(column.index))]
        return _windows().covariances(windows, *both, ddof, scaled), windows.index

    return _by_column(compute)


def _weighted_mean(owner, column, numeric_only=False):
    return _windows().weighted_means(owner, array_in(column)), column.index


# ---- positions and ranks


def _rank(pandas_rank, owner, /, *args, **options):
    if not depends(owner):
        return pandas_rank(owner, *args, **options)
    if args or options.pop("na_option", "keep") != "keep" or options.pop("axis", 0) not in (0, "index"):
        raise refuse("rank with na_option or along rows", "use s.fillna(...).rank()")
    options.pop("numeric_only", None)
    if is_frame(owner):
        return owner.apply(lambda column: column.rank(**options))
    kind, ascending = options.get("method", "average"), options.get("ascending", True)
    found = _windows().ranks(array_in(owner), kind, ascending, options.get("pct", False))
    return _series(found, owner.index, owner.name)


def _extreme(ascending: bool):
    """Return the method ``nsmallest``, or ``nlargest``, of a Series or a DataFrame."""

    def extreme(method, owner, n=5, *args, **options):
        if not depends(owner):
            return method(owner, n, *args, **options)
        if options.get("keep", "first") != "first" or len(args) > 1:
            raise refuse("nlargest(keep=...)", "use sort_values")
        if is_frame(owner):
            by = options.get("columns", args[0] if args else None)
            return owner.sort_values(by, ascending=ascending, kind="stable").head(n)
        return owner.dropna().sort_values(ascending=ascending, kind="stable").head(n)

    return extreme


def _place(find, label: bool):
    """Return the method that finds an extreme entry: ``argmax``, or with labels ``idxmax``."""

    def place(method, owner, *args, **options):
        if not depends(owner):
            return method(owner, *args, **options)
        given = _bound(method, owner, args, options)
        if not given["skipna"] or given["axis"] not in (None, 0, "index"):
            raise refuse(
                f"{method.__name__} along rows or with skipna=False", "use NumPy's argmax and argmin"
            )
        if is_frame(owner):
            found = [getattr(owner.iloc[:, k], method.__name__)() for k in range(owner.shape[1])]
            return _series(found, owner.columns, None)
        found = int(find(array_in(owner)))
        return owner.index[found] if label else found

    return place


def _isin(method, owner, values):
    traced = find_trace(values) is not None
    if not depends(owner) and not depends(values) and not traced:
        return method(owner, values)
    x, values = (array_in(one) if is_series(one) else one for one in (owner, values))
    values = lift(find_trace(values), values) if traced else values
    found = np.isin(x, values if traced else list(values))
    return _series(found, owner.index, owner.name)


def _searchsorted(method, owner, value, side="left", sorter=None):
    if sorter is not None or not (depends(owner) or depends(value) or find_trace(value) is not None):
        return method(owner, value, side, sorter)
    return read(np.searchsorted(*(array_in(one) if is_series(one) else one for one in (owner, value)), side))


def _distinct(take):
    """Return a method that looks for the first entry of each value.

    ``take(owner, array, first places, arguments by name)`` makes its result.
    """

    def distinct(method, owner, *args, **options):
        if not depends(owner):
            return method(owner, *args, **options)
        given = _bound(method, owner, args, options)
        if given.get("keep", "first") != "first" or options.get("inplace"):
            raise refuse("the last entry of each value (keep=...), or inplace=True,", "reverse the rows")
        x = array_in(owner)
        return take(owner, x, _windows().first_places(x), given)

    return distinct


def _drop_duplicates(owner, x, first, given):
    rows = owner.iloc[first]
    return rows.reset_index(drop=True) if given["ignore_index"] else rows


def _duplicated(owner, x, first, given):
    again = np.ones(len(x), bool)
    again[first] = False
    return _series(again, owner.index, owner.name)


def _count(owner, x, first, given):
    return len(first) - int(given["dropna"] and bool(np.any(np.isnan(x))))


def _fillna(method, owner, value=None, *args, **options):
    of_rows = is_series(value) and depends(value)
    if find_trace((value,)) is None and not of_rows:
        return method(owner, value, *args, **options)
    if args or (of_rows and is_frame(owner)) or any(each not in (None, False) for each in options.values()):
        raise refuse(
            "fillna with a traced value and limit=, axis= or inplace=True", "use s.where(s.notna(), value)"
        )
    if is_frame(owner):
        return owner.apply(lambda column: column.fillna(value))
    x = array_in(owner) if depends(owner) else owner.to_numpy(float)
    others = array_in(value.reindex(owner.index)) if of_rows else value
    return _series(np.where(np.isnan(x), others, x), owner.index, owner.name)


REDUCED = ("kurt", "max", "mean", "median", "min", "quantile", "sem", "skew", "std", "sum", "var")
WINDOWED = {
    **{name: _reduction(name) for name in REDUCED},
    "apply": _by_column(_apply),
    "corr": _covariance(True),
    "cov": _covariance(False),
}


def _rows(method, frame):
    """Return the rows, which pandas would take from one array of all columns."""
    if not depends(frame):
        return method(frame)
    return ((label, frame.iloc[k]) for k, label in enumerate(frame.index))


def _merge(method, left, right, *args, **options):
    """Join two frames; pandas compares keys in compiled code, which gets their plain numbers."""
    if hasattr(type(right), "as_pandas"):
        right = right.as_pandas()  # an argument
    given = _bound(method, left, (right, *args), options)
    if is_frame(given["right"]) and (depends(left) or depends(given["right"])):
        common = [name for name in left.columns if name in given["right"].columns]
        for side, on in (("left", "left_on"), ("right", "right_on")):
            names = given["on"] if given["on"] is not None else given[on]
            names = common if names is None else names if type(names) is list else [names]
            owner = left if side == "left" else given["right"]
            keys = [name for name in names if isinstance(name, str) and name in owner.columns]
            given[side] = owner.assign(**{name: _key(owner[name]) for name in keys if depends(owner[name])})
        left = given.pop("left")
        given.pop("self", None)
        return method(left, **given)
    return method(left, right, *args, **options)


def _key(column):
    if column.dtype.kind == "f":
        raise refuse("merge by floats", "make the keys before the call, or integers")
    return read(array_in(column))


_OF_BOTH = {
    "fillna": _fillna,
    "idxmax": _place(np.nanargmax, True),
    "idxmin": _place(np.nanargmin, True),
    "nlargest": _extreme(False),
    "nsmallest": _extreme(True),
    "rank": _rank,
}
FRAME = {**_OF_BOTH, "iterrows": _rows, "merge": _merge}
SERIES = {
    **_OF_BOTH,
    "argmax": _place(np.nanargmax, False),
    "argmin": _place(np.nanargmin, False),
    "drop_duplicates": _distinct(_drop_duplicates),
    "duplicated": _distinct(_duplicated),
    "isin": _isin,
    "nunique": _distinct(_count),
    "searchsorted": _searchsorted,
    "unique": _distinct(lambda owner, x, first, given: x[first]),
}
WINDOWS = {
    "api.typing.Rolling": WINDOWED,
    "api.typing.Expanding": WINDOWED,
    "api.typing.ExponentialMovingWindow": {"mean": _by_column(_weighted_mean)},
}
