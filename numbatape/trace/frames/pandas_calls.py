"""Ufuncs and products of traced values with objects of pandas."""

from __future__ import annotations

import operator
import sys

import numpy as np

from ...errors import UnsupportedOperationError
from ...usercode.frames import where_in_user_code
from ..array import TracedArray
from ..library_kinds import is_column, is_frame, is_series, package_of
from .labels import NUMBERS, numbers_of
from .traced_columns import TracedColumn, as_column, entries_of

# Operators by the names of ufuncs, whose names differ.
OPERATORS = {
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow"},
    **{"floor_divide": "floordiv", "remainder": "mod", "less": "lt", "less_equal": "le", "greater": "gt"},
    **{"greater_equal": "ge", "equal": "eq", "not_equal": "ne"},
}


def array_of(x):
    """Return the array of a Series, a DataFrame, an index or a column; other values as they are.

    Raises
    ------
    UnsupportedOperationError
        For text and dates.
    """
    if is_series(x):
        return _numbers(x)
    if not is_frame(x):
        if _has_no_rows(x):
            return _numbers(sys.modules["pandas"].Series(x), type(x).__name__)
        return entries_of(x)
    columns = [_numbers(x.iloc[:, k]) for k in range(x.shape[1])]
    if any(type(column) is TracedArray for column in columns):
        return np.stack(columns, 1)
    return x.to_numpy()


def _has_no_rows(x) -> bool:
    """Whether a value is an index, an array or a scalar of pandas: nothing is aligned with it."""
    return package_of(x) == "pandas" and not is_column(x)


def _numbers(series, kind: str = "Series"):
    if getattr(series.dtype, "kind", "O") not in NUMBERS:
        raise UnsupportedOperationError(
            f"a {kind} of dtype {series.dtype} meets a traced value at {where_in_user_code()}: it has no "
            "numbers; convert it (`.astype(float)`)"
        )
    return numbers_of(series)


def ufunc_of_pandas(ufunc, inputs, kwargs):
    """Return what pandas gives for a ufunc of traced values and objects of its own."""
    labelled = [x for x in inputs if is_series(x) or is_frame(x)]
    if not labelled:
        return ufunc(*map(array_of, inputs), **kwargs)
    if len(labelled) == 1 and all(_index_of_argument(x) is None for x in inputs):
        return _with_labels(labelled[0], ufunc(*map(array_of, inputs), **kwargs))
    function = getattr(operator, OPERATORS.get(ufunc.__name__, ""), ufunc)
    return function(*[_as_pandas(x, labelled[0]) for x in inputs], **kwargs)  # pandas aligns the rows


def _with_labels(owner, result):
    """Return the result of a ufunc with the labels of its only operand that has some."""
    if type(result) is tuple:
        return tuple([_with_labels(owner, part) for part in result])
    if is_frame(owner):
        return frame_of_array(result, owner.index, owner.columns)
    return sys.modules["pandas"].Series(as_column(result), owner.index, name=owner.name)


def _as_pandas(x, owner):
    """Return an operand with traced columns; an array gets its labels, or those of another operand."""
    pd = sys.modules["pandas"]
    if is_series(x):
        return x if is_column(x) else _with_labels(x, TracedColumn(array_of(x)))
    if is_frame(x):
        columns = [x.iloc[:, k] for k in range(x.shape[1])]
        numbers = [one.dtype.kind in NUMBERS for one in columns]
        made = {k: _as_pandas(one, None) if numbers[k] else one for k, one in enumerate(columns)}
        return pd.DataFrame(made, x.index).set_axis(x.columns, axis=1)
    if type(x) is not TracedArray:
        return x
    index = _index_of_argument(x)
    index = owner.index if index is None else index
    return pd.Series(TracedColumn(x if x.ndim else np.broadcast_to(x, len(index))), index)


def _index_of_argument(x):
    """Return the index of a Series that is an argument; None for other values."""
    if type(x) is not TracedArray:
        return None
    labels = x._trace.arguments.labels.get(x._id)
    return None if labels is None or labels.package != "pandas" else labels.read(x, "index")


def frame_of_array(x, index, columns):
    """Return a DataFrame of a traced matrix."""
    pd = sys.modules["pandas"]
    made = pd.DataFrame({k: TracedColumn(x[:, k]) for k in range(x.shape[1])}, index)
    return made if columns is None else made.set_axis(columns, axis=1)


def product(left, right):
    """Return ``left @ right`` of a Series or a DataFrame of pandas with a traced vector or matrix."""
    pd = sys.modules["pandas"]
    labelled = [_labels_of(left, -1), _labels_of(right, 0)]
    if labelled[0] is not None and labelled[1] is not None and not labelled[0].equals(labelled[1]):
        raise ValueError("matrices are not aligned")  # pandas' own error
    result = np.dot(array_of(left), array_of(right))
    rows = left.index if is_frame(left) else None
    columns = right.columns if is_frame(right) else None
    if np.ndim(result) == 2 and (rows is not None or columns is not None):
        return frame_of_array(result, rows, columns)
    labels = rows if rows is not None else columns
    return result if labels is None or not np.ndim(result) else pd.Series(as_column(result), labels)


def _labels_of(operand, axis: int):
    """Return the labels of the axis that a product sums over; None if there are none."""
    if is_frame(operand):
        return operand.columns if axis else operand.index
    return operand.index if is_series(operand) else None
