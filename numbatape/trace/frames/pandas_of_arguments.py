"""Objects of pandas for arguments: what a traced Series or DataFrame has that arrays have not.

A traced function gets arrays of such an argument. Where it asks for more (``groupby``, ``rolling``,
``itertuples``), pandas' own object with traced columns answers, as for a captured one. It is made for each
attribute that is read, so what would change the argument is refused: the change would be lost.
"""

from __future__ import annotations

import functools

import pandas as pd

from ...errors import UnsupportedOperationError
from ...usercode.frames import where_in_user_code
from .. import operations
from ..array import TracedArray
from .row_labels import Entries, rows_in
from .traced_columns import TracedColumn

# Attributes by which code changes an object, or lets other code do so.
_CHANGE = frozenset(("insert", "pop", "update", "isetitem", "attrs", "flags", "pipe"))
_PLACES = ("at", "iat", "loc", "iloc")


class _Reads(Entries):
    """One of the attributes ``loc``, ``iloc``, ``at`` and ``iat`` of pandas."""

    def __init__(self, made):
        self._made = made

    def __getitem__(self, key):
        return self._made[_given(key)]


def series_of(x: TracedArray):
    """Return pandas' Series of an array that has the labels of one."""
    rows = rows_in(x)
    operations.lend_methods(x._trace, [pd])
    return pd.Series(TracedColumn(x[...]), rows.index(x), name=rows.parts[1])


def frame_of(columns: list, index, names):
    """Return a DataFrame of traced columns, and of columns of pandas that are no numbers."""
    made = {}
    for k, column in enumerate(columns):
        if type(column) is TracedArray:
            operations.lend_methods(column._trace, [pd])
            column = TracedColumn(column[...])
        made[k] = getattr(column, "array", column)
    return pd.DataFrame(made, index).set_axis(names, axis=1)


def attribute_of_series(x: TracedArray, name: str):
    """Return an attribute of a Series that is an argument."""
    return _attribute(series_of(x), name)


def attribute_of_frame(made, name: str):
    """Return an attribute of a DataFrame that `frame_of` has made."""
    return _attribute(made, name)


def item_of_frame(made, key):
    """Return ``df[key]`` of a DataFrame that `frame_of` has made."""
    return made[_given(key)]


def _attribute(made, name: str):
    if name in _CHANGE:
        raise _refusal(made, f".{name}")
    found = getattr(made, name)
    if name in _PLACES:
        return _Reads(found)
    return functools.partial(_called, made, name, found) if callable(found) else found


def _called(made, name: str, method, *args, **options):
    if options.get("inplace"):
        raise _refusal(made, f".{name}(inplace=True)")
    return method(*map(_given, args), **{key: _given(value) for key, value in options.items()})


def _given(x):
    """Return an argument of a method of pandas, which aligns rows by their labels."""
    if type(x) is TracedArray:
        return series_of(x) if rows_in(x) is not None and x.ndim == 1 else x
    if type(x) is tuple:
        return tuple(map(_given, x))
    return x.as_pandas() if hasattr(type(x), "as_pandas") else x


def _refusal(made, what: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{type(made).__name__}{what} at {where_in_user_code()} may change an argument, which a traced "
        "function cannot do; change a copy of it (`.copy()`), or do it before the call"
    )
