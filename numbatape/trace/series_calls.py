"""Ufuncs and products with Series and DataFrames of pandas, whose results are traced Series."""

from __future__ import annotations

import sys

import numpy as np

from ..errors import UnsupportedOperationError
from ..usercode.frames import where_in_user_code
from .array import TracedArray
from .library_kinds import is_frame, is_series
from .pytrees import register_labelled
from .series import TracedSeries, array_of
from .trace import not_numpys


def ufunc_of_series(ufunc, inputs, kwargs, value):
    """Return the result of a ufunc with a Series of pandas among its inputs.

    Parameters
    ----------
    value
        What pandas gives for the inputs' values.
    """
    if not is_series(value) or not all(is_series(x) for x in inputs if hasattr(x, "dtypes")):
        raise not_numpys(value)
    return labelled_ufunc(ufunc, inputs, kwargs)


def labelled_ufunc(ufunc, inputs, kwargs):
    """Return a ufunc's result with the index that all labelled inputs have."""
    index = None
    for x in inputs:
        labels = x.index if type(x) is TracedSeries or is_series(x) else _index_of_argument(x)
        if labels is not None and index is not None and not index.equals(labels):
            raise UnsupportedOperationError(
                f"{ufunc.__name__} of Series with different indexes at {where_in_user_code()}: pandas would "
                "align their rows, which is not supported; use their arrays (`.to_numpy()`)"
            )
        index = labels if index is None else index
    names = {x.name for x in inputs if type(x) is TracedSeries or is_series(x)}
    result = ufunc(*map(array_of, inputs), **kwargs)
    name = names.pop() if len(names) == 1 else None
    if type(result) is tuple:
        return tuple([_series(part, index, name) for part in result])
    return _series(result, index, name)


def _series(array, index, name):
    """Return a traced Series; pandas broadcasts numbers only."""
    if np.shape(array) != (len(index),):
        raise UnsupportedOperationError(
            f"a Series of {len(index)} entries meets an array that makes the result's shape "
            f"{np.shape(array)} at {where_in_user_code()}; use arrays (`.to_numpy()`)"
        )
    return TracedSeries(array, index, name)


def _index_of_argument(x):
    """Return the index of a Series that is an argument; None for other values."""
    labels = x._trace.labels.get(x._id) if type(x) is TracedArray else None
    return None if labels is None or labels.package != "pandas" else labels.read(x, "index")


def product(left, right):
    """Return ``left @ right`` of a Series or a DataFrame of pandas with a traced vector or matrix.

    Raises
    ------
    UnsupportedOperationError
        If the result would be a DataFrame.
    """
    frame = next((x for x in (left, right) if is_frame(x)), None)
    labelled = [_labels_of(left, -1), _labels_of(right, 0)]
    if labelled[0] is not None and labelled[1] is not None and not labelled[0].equals(labelled[1]):
        raise ValueError("matrices are not aligned")  # pandas' own error
    result = np.dot(array_of(left), array_of(right))
    if frame is None:
        return result
    if np.ndim(result) != 1:
        raise not_numpys(frame)
    return TracedSeries(result, left.index if frame is left else right.columns, None)


def _labels_of(operand, axis: int):
    """Return the labels of the axis that a product sums over; None if there are none."""
    if is_frame(operand):
        return operand.columns if axis else operand.index
    return operand.index if is_series(operand) or type(operand) is TracedSeries else None


def put_together(labels, parts):
    """Return a result of the traced function, a Series, with numbers in place of traced ones."""
    (part,) = parts
    if type(part) is TracedArray:
        return TracedSeries(part, *labels)
    if type(part) is not np.ndarray or part.ndim != 1:
        return part  # a block of a Jacobian
    return sys.modules["pandas"].Series(part, labels[0], name=labels[1], copy=False)


register_labelled(TracedSeries, lambda x: ((x.to_numpy(),), (x.index, x.name), ("values",)), put_together)
