"""DataFrames of pandas and polars as containers of their columns, and as traced functions see them.

A DataFrame whose columns are numbers of one dtype is one array of two dimensions. Any other is taken apart
by columns, and columns that are no numbers (text, dates) are part of the structure.
"""

from __future__ import annotations

import operator
import sys
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from ...errors import LeakError, UnsupportedOperationError
from ...late import imported
from ...usercode.frames import where_in_user_code
from ...usercode.ownership import sees_sizes
from ..array import TracedArray
from ..axes import length
from ..library_kinds import FRAME, LABELLED, is_column, package_of
from ..pytrees import register_labelled
from . import labels as of_labels
from .labelled_calls import array_in, depends
from .labels import NUMBERS, TRANSPOSED, Labels, SeriesLabels, index_of, numbers_of, rows_of, series_labels
from .polars_series import TracedSeries
from .row_labels import Iloc, Loc, require_names, rows_differ, same_index, without_rows


class FrameLabels(Labels):
    """The labels of a DataFrame: the index (None for polars), names of columns, columns that are no numbers.

    The last of these, a dictionary by place, is None if the frame is one array.
    """

    __slots__ = ()

    @property
    def columns(self) -> list:
        """The names of the columns."""
        return list(self.parts[1])


class Frame(np.lib.mixins.NDArrayOperatorsMixin):
    """A DataFrame while it is traced: its columns are arrays, and NumPy's functions see one array.

    Parameters
    ----------
    labels : FrameLabels
    whole : TracedArray or None
        The frame as an array, if its columns have one dtype.
    columns : list or None
        The columns otherwise: traced arrays, or the library's columns that are no numbers.
    """

    def __init__(self, labels: FrameLabels, whole=None, columns: list | None = None):
        self._labels, self._whole, self._columns = labels, whole, columns
        for part in [whole] if columns is None else columns:
            labels.on(part)  # NumPy's functions of traced arrays look for frames from now on

    # ---- columns

    @property
    def columns(self):
        """The names of the columns: an Index for pandas, a list for polars."""
        names = self._labels.parts[1]
        return list(names) if type(names) is tuple else names

    @property
    def index(self):
        """The labels of the rows."""
        return index_of(self._labels.parts[0], len(self))

    def keys(self):
        return self.columns

    def items(self):
        return [(name, self._column(k)) for k, name in enumerate(self._labels.columns)]

    def __iter__(self) -> Iterator:
        return iter(self._labels.columns)

    def __contains__(self, name) -> bool:
        return name in self._labels.columns

    def __len__(self) -> int:
        return operator.index(self._sizes()[0])

    def _column(self, place: int):
        column = self._whole[:, place] if self._columns is None else self._columns[place]
        name = self._labels.columns[place]
        return series_labels(self._labels.package, self._labels.parts[0], name).on(column)

    def __getitem__(self, key):
        names = self._labels.columns
        if isinstance(key, list) and all(name in names for name in key):
            return self._chosen([names.index(name) for name in key])
        try:
            place = names.index(key)
        except ValueError:
            if isinstance(key, (str, int)):
                raise KeyError(key) from None
            if self._labels.package != "pandas":
                raise self._refusal("[...] by anything but names of columns") from None
            return _pandas().item_of_frame(self.as_pandas(), key)
        if names.count(key) > 1:
            return self._chosen([k for k, name in enumerate(names) if name == key])
        return self._column(place)

    def _chosen(self, places: list) -> Frame:
        rows, names, others = self._labels.parts
        names = names[places] if hasattr(names, "take") else tuple(names[k] for k in places)
        if self._columns is None:
            return Frame(FrameLabels(self._labels.package, (rows, names, None)), self._whole[:, places])
        others = {k: others[place] for k, place in enumerate(places) if place in others}
        columns = [self._columns[place] for place in places]
        return Frame(FrameLabels(self._labels.package, (rows, names, others)), columns=columns)

    def __setitem__(self, key, value):
        raise self._refusal("[...] = ...")

    def __getattr__(self, name: str):
        if not name.startswith("_"):
            if self._labels.package == "pandas" and hasattr(self._labels.library.DataFrame, name):
                return _pandas().attribute_of_frame(self.as_pandas(), name)
            if name in self:
                return self[name]
            raise self._refusal(f".{name}")
        raise AttributeError(name)

    def _refusal(self, what: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f"DataFrame{what} at {where_in_user_code()} is not supported: of a DataFrame that is an "
            "argument, a traced function gets columns as arrays (`df['name']`), and all of them as one array "
            "(`df.to_numpy()`); do what needs more before the call"
        )

    def as_pandas(self):
        """Return pandas' own DataFrame, with traced columns."""
        columns = [self._column(k) for k in range(len(self._labels.columns))]
        return _pandas().frame_of(columns, self.index, self._labels.parts[1])

    def original(self):
        """Return the DataFrame that the function would be given."""
        parts = [self._whole] if self._columns is None else self._columns
        return frame_of(self._labels, [part._value for part in parts if type(part) is TracedArray])

    # ---- the frame as one array

    def to_numpy(self, dtype=None, **options):
        """Return all columns as one array."""
        if self._columns is not None and self._labels.parts[2]:
            name = self._labels.columns[min(self._labels.parts[2])]
            raise UnsupportedOperationError(
                f"a DataFrame at {where_in_user_code()} has a column {name!r} that is no numbers; "
                "choose columns first: df[[...]]"
            )
        whole = np.stack(self._columns, 1) if self._whole is None else self._whole
        return whole if dtype is None else whole.astype(dtype)

    @property
    def values(self):
        """All columns as one array."""
        return self.to_numpy()

    @property
    def T(self):
        """The transposed array, whose methods go through the columns of a transposed DataFrame."""
        turned = self.to_numpy().T
        return TRANSPOSED.on(turned) if self._labels.package == "pandas" else turned

    @property
    def shape(self) -> tuple:
        """Sizes; the number of rows is a traced int for the user's code, as that of an array is."""
        size, columns = self._sizes()
        return size if sees_sizes(sys._getframe(1)) else operator.index(size), columns

    def _sizes(self) -> tuple:
        names = self._labels.columns
        if not names:
            return 0, 0
        column = self._column(0) if self._whole is None else self._whole
        return length(column, 0) if type(column) is TracedArray else len(column), len(names)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def iloc(self):
        """Entries by places; what they select of numbers is an array."""
        if self._is_mixed():
            return _pandas().attribute_of_frame(self.as_pandas(), "iloc")
        return Iloc(self.to_numpy(), *self._axes()) if self._labels.package == "pandas" else self.to_numpy()

    @property
    def loc(self):
        """Entries by labels; what they select of numbers is an array."""
        if self._is_mixed():
            return _pandas().attribute_of_frame(self.as_pandas(), "loc")
        rows, columns = self._axes()
        return Loc(self.to_numpy(), rows, self.index, columns)

    def _is_mixed(self) -> bool:
        """Whether a DataFrame of pandas has columns that are no numbers, so that it is no array."""
        return self._labels.package == "pandas" and bool(self._labels.parts[2])

    def _axes(self) -> tuple:
        return SeriesLabels(self._labels.parts[0], None), self._labels.parts[1]

    def dot(self, other):
        """Return the product with a vector or a matrix."""
        return np.matmul(self, other)

    def __array__(self, dtype=None, copy=None):
        raise LeakError(
            f"np.asarray(df) at {where_in_user_code()} would drop the derivative of a traced DataFrame; use "
            "`df.to_numpy()`"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        frames = [x for x in inputs if type(x) is Frame]
        if len(frames) == 2 and ufunc is not np.matmul:
            (rows, columns), (others, names) = (x._labels.parts[:2] for x in frames)
            if not same_index(rows, others) or list(columns) != list(names):
                raise rows_differ()
        elif frames and ufunc is not np.matmul and frames[0]._labels.package == "pandas":
            for x in inputs:
                require_names(x, frames[0].columns)
        result = getattr(ufunc, method)(*arrays_of(inputs), **kwargs)
        if (
            frames
            and method == "__call__"
            and ufunc is not np.matmul
            and frames[0]._labels.package == "pandas"
        ):
            its_rows, width = SeriesLabels(*frames[0]._labels.parts[:2]), len(frames[0]._labels.columns)
            for part in result if type(result) is tuple else (result,):
                if type(part) is TracedArray and part.ndim == 2 and part._value.shape[1] == width:
                    its_rows.on(part)  # its methods go through columns, too
        return result

    def __array_function__(self, function, types, args, kwargs):
        return function(*arrays_of(args), **arrays_of(kwargs))


def _pandas():
    return imported(".pandas_of_arguments", __package__)


def arrays_of(tree, keep_rows: bool = False):
    """Return arguments of a call with arrays in place of frames and objects that depend on traced values.

    Parameters
    ----------
    keep_rows
        Whether arrays keep the labels of their rows, which pandas' ufuncs align.
    """
    kind = type(tree)
    if kind is TracedArray:
        return tree if keep_rows else without_rows(tree)
    if kind is Frame or kind is TracedSeries:
        return tree.to_numpy()
    if kind is tuple or kind is list:
        return kind([arrays_of(part, keep_rows) for part in tree])
    if kind is dict:
        return {key: arrays_of(part, keep_rows) for key, part in tree.items()}
    return array_in(tree) if package_of(tree) in LABELLED and depends(tree) else tree


# ---- what takes frames apart, and what puts them together


def apart_frame(frame) -> tuple:
    """Take a DataFrame of pandas apart."""
    kinds, names = set(frame.dtypes), frame.columns
    rows = rows_of(frame.index)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in NUMBERS:
        return (frame.to_numpy(),), FrameLabels("pandas", (rows, names, None)), ("values",)
    columns = [column for _, column in frame.items()]  # half of the time that `iloc` takes
    if columns and all(map(is_column, columns)):
        return (array_in(frame),), FrameLabels("pandas", (rows, names, None)), ("values",)
    others = {k: one for k, one in enumerate(columns) if getattr(one.dtype, "kind", "O") not in NUMBERS}
    arrays = tuple(numbers_of(one) for k, one in enumerate(columns) if k not in others)
    labels = FrameLabels("pandas", (rows, names, others))
    return arrays, labels, tuple(name for k, name in enumerate(names) if k not in others)


def apart_polars_frame(frame) -> tuple:
    """Take a DataFrame of polars apart."""
    names, columns = tuple(frame.columns), frame.get_columns()
    kinds = {str(one.dtype) for one in columns}
    if len(kinds) == 1 and columns[0].dtype.is_float():
        return (frame.to_numpy(),), FrameLabels("polars", (None, names, None)), ("values",)
    others = {
        k: one for k, one in enumerate(columns) if not one.dtype.is_numeric() and str(one.dtype) != "Boolean"
    }
    arrays = tuple(one.to_numpy() for k, one in enumerate(columns) if k not in others)
    labels = FrameLabels("polars", (None, names, others))
    return arrays, labels, tuple(name for k, name in enumerate(names) if k not in others)


def frame_of(labels: FrameLabels, parts):
    """Return a DataFrame; a `Frame` of traced parts; and blocks of a Jacobian, by the names of columns."""
    rows, names, others = labels.parts
    if any(type(part) is TracedArray for part in parts):
        columns = _in_place(parts, others) if others is not None else None
        return Frame(labels, parts[0]) if columns is None else Frame(labels, columns=columns)
    if others is None and (type(parts[0]) is not np.ndarray or np.shape(parts[0])[1:] != (len(names),)):
        return parts[0]  # a block of a Jacobian
    if others is not None and any(type(part) is not np.ndarray or part.ndim != 1 for part in parts):
        return _derivative_by_columns(labels, parts)
    if labels.package == "polars":
        columns = list(parts[0].T) if others is None else _in_place(parts, others)
        rows = zip(names, columns, strict=True)
        return labels.library.DataFrame([labels.library.Series(name, part) for name, part in rows])
    if others is None:
        return labels.library.DataFrame(parts[0], index_of(rows, len(parts[0])), names, copy=False)
    columns = _in_place(parts, others)
    arrays = {k: getattr(part, "array", part) for k, part in enumerate(columns)}
    made = labels.library.DataFrame(arrays, index_of(rows, len(columns[0])) if columns else rows)
    made.columns = names
    return made


def _derivative_by_columns(labels: FrameLabels, parts):
    """Return a DataFrame of the columns that have a gradient; a dictionary of other parts by column."""
    rows, names, others = labels.parts
    numbers = [k for k in range(len(names)) if k not in others]
    places = [k for k, part in zip(numbers, parts, strict=True) if part is not None]
    given = [part for part in parts if part is not None]
    if not given or any(type(part) is not np.ndarray or part.ndim != 1 for part in given):
        return OrderedDict(zip([names[k] for k in numbers], parts, strict=True))
    chosen = names[places] if hasattr(names, "take") else tuple(names[k] for k in places)
    return frame_of(FrameLabels(labels.package, (rows, chosen, {})), given)


def _in_place(parts, others: dict) -> list:
    """Return columns in their order: numbers, and in their places the others."""
    columns = list(parts)
    for place in sorted(others):
        columns.insert(place, others[place])
    return columns


def _apart_traced(frame: Frame) -> tuple:
    """Take a traced frame apart again, for a derivative inside of the function."""
    _, names, others = frame._labels.parts
    if others is None:
        return (frame._whole,), frame._labels, ("values",)
    places = [k for k in range(len(names)) if k not in others]
    return (
        tuple(frame._columns[k] for k in places),
        frame._labels,
        tuple(names[k] for k in places),
    )


setattr(Frame, FRAME, True)
register_labelled(Frame, _apart_traced, frame_of)

# The keys are a package and the name of a class; the values say what takes an object apart, and what puts it
# together.
KNOWN = {
    ("pandas", "Series"): (of_labels.apart_series, of_labels.series_of),
    ("pandas", "DataFrame"): (apart_frame, frame_of),
    ("polars", "Series"): (of_labels.apart_polars_series, of_labels.polars_series_of),
    ("polars", "DataFrame"): (apart_polars_frame, frame_of),
    ("xarray", "DataArray"): (of_labels.apart_data_array, of_labels.data_array_of),
}
