"""Arrays with labels as containers: pandas' and polars' Series, and xarray's DataArray.

Such an argument is taken apart into its array and its labels, which are part of the structure. Of a Series,
a traced function gets the array alone, which has some attributes of the original (``.to_numpy()``,
``.values``, ``.loc``); a DataArray stays one, with a traced array. Derivatives get the labels back. The
packages are never imported here, because an argument of theirs says that they are there.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...tape.instruction import NONE
from .. import operations
from ..array import TracedArray
from ..library_kinds import is_column

NUMBERS = "fiubc"  # kinds of dtypes
ITSELF = object()  # an attribute that is the array
OF_SERIES = dict.fromkeys(("to_numpy", "values", "iloc", "index", "loc"), ITSELF)


class Labels:
    """What an object of a library has beside its arrays, as metadata of a structure.

    Parameters
    ----------
    package : str
        "pandas", "polars" or "xarray".
    parts : tuple
        Labels. Equal labels make equal structures.
    attributes : dict
        What a traced array with these labels has as further attributes; values that are functions are called
        with the array.
    """

    __slots__ = ("attributes", "package", "parts")

    def __init__(self, package: str, parts: tuple, attributes: dict | None = None):
        self.package, self.parts, self.attributes = package, parts, attributes or {}

    def __eq__(self, other):
        return type(other) is type(self) and self.package == other.package and _equal(self.parts, other.parts)

    def __hash__(self):
        return hash((self.package, *(len(part) if hasattr(part, "__len__") else 0 for part in self.parts)))

    @property
    def library(self) -> Any:
        return sys.modules[self.package]

    def read(self, x, name: str):
        """Return an attribute of a traced array that has these labels."""
        found = self.attributes[name]
        if found is ITSELF and self.package == "pandas":
            x = x[...]  # Taking the labels away makes pandas align nothing with it.
        if name == "to_numpy":
            return lambda dtype=None, **options: x if dtype is None else x.astype(dtype)
        return x if found is ITSELF else found(x) if callable(found) else found

    def has_member(self, x, name: str) -> bool:
        """Whether a name is that of a method, or of another member, which only pandas' Series has."""
        if "loc" not in self.attributes or x._value.ndim != 1 or name.startswith("_"):
            return False
        return hasattr(self.library.Series, name) and not hasattr(x._value, name)

    def has_row(self, name: str) -> bool:
        """Whether a name is the label of a row of a Series: pandas makes it an attribute."""
        rows = self.parts[0]
        return "loc" in self.attributes and rows is not None and name in rows

    def on(self, x):
        """Return a traced array, which has attributes of an object with these labels from now on."""
        if type(x) is TracedArray:
            x._trace.arguments.labels[x._id] = self
        return x


def _equal(a, b) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(_equal, a, b))
    if type(a) is dict:
        return a.keys() == b.keys() and all(_equal(part, b[key]) for key, part in a.items())
    if hasattr(a, "equals"):  # pandas' indexes and columns compare themselves
        return bool(a.equals(b)) and getattr(a, "names", None) == getattr(b, "names", None)
    return bool(a == b)


def rows_of(index):
    """Return an index of pandas as labels: None for 0, 1, 2, ..., so that its length may change."""
    kind = sys.modules["pandas"].RangeIndex
    counts = type(index) is kind and index.start == 0 and index.step == 1 and index.name is None
    return None if counts else index


def expect_labels(x) -> None:
    """Let NumPy's functions of traced arrays look for objects with labels from now on, in the trace of x."""
    if type(x) is TracedArray:
        x._trace.arguments.labels.setdefault(NONE, None)  # such an object has no value number


def index_of(rows, size: int):
    """Return the index of pandas that `rows_of` was given, for a number of rows."""
    return sys.modules["pandas"].RangeIndex(size) if rows is None else rows


def numbers_of(column) -> np.ndarray:
    """Return a column of pandas as an array; entries missing from columns with masks are NaN."""
    if is_column(column):
        return column.array.entries
    if isinstance(column.dtype, np.dtype) or column.dtype.kind not in NUMBERS:
        return column.to_numpy()
    if column.isna().any():
        return column.to_numpy(float, na_value=np.nan)
    return column.to_numpy(column.dtype.numpy_dtype)


class SeriesLabels(Labels):
    """The labels of a Series of pandas, and of what is taken from one: which of its rows these are.

    The rows of an array of two dimensions have such labels, too; their name is the index of its columns.

    Attributes
    ----------
    steps : tuple
        Indices that were taken, one after the other, of the rows of the argument.
    source : TracedArray
        The argument, if there are any.
    now : pandas.Index
        The labels that these rows have in the call that is traced.
    """

    __slots__ = ("now", "source", "steps")

    def __init__(self, rows, name):
        super().__init__("pandas", (rows, name), OF_SERIES | {"name": name})
        self.steps, self.source, self.now = (), None, None

    def read(self, x, name: str):
        """Return an attribute of a traced array that has these labels."""
        return getattr(self, name)(x) if name in ("iloc", "index", "loc") else super().read(x, name)

    def now_of(self, x):
        """Return the labels of the rows that an array with these labels has in the call that is traced."""
        return self.now if self.steps else index_of(self.parts[0], x._value.shape[0])

    def rely_on(self) -> None:
        """Let the tape hold only for calls in which these rows are the same."""
        if self.steps and self.parts[0] is None:
            _ = self.source.shape  # a guard on each size
        for step in self.steps:
            if type(step) is slice:
                _ = [None if end is None else int(end) for end in (step.start, step.stop, step.step)]
            elif type(step) is TracedArray:
                _ = bool(np.all(step == step._value.copy()))  # a guard on its entries

    def index(self, x):
        """Return the attribute ``index``."""
        self.rely_on()
        return self.now if self.steps else index_of(self.parts[0], len(x))

    def loc(self, x):
        """Return the attribute ``loc``."""
        return operations.Loc(x, self, self.index(x))

    def iloc(self, x):
        """Return the attribute ``iloc``."""
        return operations.Iloc(x, self)

    def taken(self, x, step, plain) -> SeriesLabels:
        """Return the labels of ``x[step]``; ``plain`` is the index without traced values."""
        made = SeriesLabels(*self.parts)
        made.steps, made.source = (*self.steps, step), self.source if self.steps else x
        made.now = self.now_of(x)[plain]
        return made


# What a traced array of a transposed DataFrame has: its methods go through columns, nothing else is kept.
TRANSPOSED = Labels("pandas", (None, None), {"to_numpy": ITSELF, "values": ITSELF})


def original_of(x: TracedArray):
    """Return the numbers of a traced array as what the function would be given: a Series, a DataArray.

    That is the array itself, unless the traced array has the labels of an argument.
    """
    labels = x._trace.arguments.labels.get(x._id)
    if labels is None or type(x._value) is not np.ndarray:
        return x._value
    if labels is TRANSPOSED:
        return labels.library.DataFrame(x._value)
    if type(labels) is not SeriesLabels:
        make = polars_series_of if labels.package == "polars" else data_array_of
        return make(labels, (x._value,))
    rows, names = labels.now_of(x), labels.parts[1]
    if x._value.ndim == 1:
        return labels.library.Series(x._value, rows, name=names)
    return labels.library.DataFrame(x._value, rows, names)


# ---- classes of one array: what takes them apart, and what puts them together


def series_labels(package: str, rows, name) -> Labels:
    """Return the labels of a Series; rows are those of `rows_of`, None for polars."""
    if package == "polars":
        return Labels(package, (name,), {"to_numpy": ITSELF, "name": name})
    return SeriesLabels(rows, name)


def apart_series(series) -> tuple:
    """Take a Series of pandas apart."""
    return (numbers_of(series),), series_labels("pandas", rows_of(series.index), series.name), ("values",)


def series_of(labels: Labels, parts):
    """Return a Series of pandas; a traced array, or a block of a Jacobian, stays an array."""
    (part,) = parts
    rows, name = labels.parts
    if type(part) is not np.ndarray or part.ndim != 1 or (rows is not None and len(part) != len(rows)):
        return labels.on(part)
    return labels.library.Series(part, rows, name=name, copy=False)


def apart_polars_series(series) -> tuple:
    """Take a Series of polars apart."""
    return (series.to_numpy(),), series_labels("polars", None, series.name), ("values",)


def polars_series_of(labels: Labels, parts):
    """Return a Series of polars; a traced array, or a block of a Jacobian, stays an array."""
    (part,) = parts
    if type(part) is not np.ndarray or part.ndim != 1:
        return labels.on(part)
    return labels.library.Series(labels.parts[0], part)


def apart_data_array(array) -> tuple:
    """Take a DataArray of xarray apart."""
    parts = array.dims, array.name, array.shape, dict(array.coords.items())
    data = array.variable._data
    return (
        (data if type(data) is TracedArray else array.to_numpy(),),
        Labels("xarray", parts),
        ("values",),
    )


def data_array_of(labels: Labels, parts):
    """Return a DataArray, which computes with traced arrays, too; a block of a Jacobian stays an array."""
    (part,) = parts
    dims, name, shape, coords = labels.parts
    if type(part) is TracedArray:
        expect_labels(part)
    elif type(part) is not np.ndarray:
        return part
    if part.shape != shape:
        return part
    return labels.library.DataArray(part, coords, dims, name)
