"""Stand-ins for methods of pandas, polars, xarray and SciPy's sparse matrices that would drop derivatives.

Objects of pandas and xarray can hold traced values (`numbatape.trace.frames.labelled_calls`). But some of
their methods call ``np.asarray``: constructors on the data that they are given, ``to_numpy`` and its like on
what they return. Operators of polars do so with the other operand. Stand-ins for these methods are put on the
packages' classes while a function is traced that refers to something of the package.
"""

from __future__ import annotations

import functools
import operator
import sys

import numpy as np

from ..errors import UnsupportedOperationError
from ..late import imported
from ..trace import operations
from ..trace.array import TracedArray
from ..trace.frames.column_functions import covariance
from ..trace.frames.labelled_calls import array_in, depends
from ..trace.frames.polars_series import TracedSeries, ufunc_of_polars
from ..trace.library_kinds import LABELLED, Sparse, lending_package, package_of
from ..trace.operands import find_trace
from ..trace.pytrees import leaves
from ..trace.trace import current
from ..usercode.frames import where_in_user_code
from . import lending, pandas_methods


class MethodSwitch(lending.Switch):
    """A method for which, in a trace, a function of the method, the object and the arguments is called."""

    __slots__ = ("_function",)

    def __init__(self, member, function):
        super().__init__(member)
        self._function = function

    def __get__(self, owner, cls=None):
        return (
            self.__wrapped__ if owner is None else functools.partial(self._function, self.__wrapped__, owner)
        )


class AttributeSwitch(lending.DataSwitch):
    """A property that, in a trace, is what a function of the property and the object returns."""

    __slots__ = ("_function",)

    def __init__(self, member, function):
        super().__init__(member)
        self._function = function

    def __get__(self, owner, cls=None):
        return self if owner is None else self._function(self.__wrapped__.__get__, owner)


class FunctionSwitch(lending.Switch):
    """A function that NumPy itself reads off the class, as it does with ``__array_function__``."""

    __slots__ = ()

    def __get__(self, owner, cls=None):
        return self.__wrapped__


# NumPy's functions that call the method of their name, if the argument is no array; the second ones call
# only those of pandas, because xarray's have other parameters.
REDUCTIONS = frozenset((np.sum, np.prod, np.mean, np.min, np.max, np.std, np.var))
BY_METHOD = frozenset((np.cumsum, np.cumprod, np.clip, np.round))


def _of_numpy(self, function, types, args, kwargs):
    """Be ``__array_function__``: give NumPy's functions arrays if something traced is among the arguments."""
    by_method = function in REDUCTIONS or (function in BY_METHOD and package_of(self) == "pandas")
    if not by_method or not depends(args[0]):
        arrays, options = operations.arrays_of(args), operations.arrays_of(kwargs)
        if find_trace(arrays, options) is not None:
            return function(*_without_labels(arrays), **_without_labels(options))
    return function._implementation(*args, **kwargs)


def _without_labels(tree):
    """Return arguments with NumPy's arrays in place of Series and their like."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([_without_labels(part) for part in tree])
    if kind is dict:
        return {key: _without_labels(part) for key, part in tree.items()}
    return np.asarray(tree) if hasattr(kind, "__array_function__") and package_of(tree) in LABELLED else tree


def _is_traced(x) -> bool:
    return type(x) is TracedArray or depends(x)


def _product(method, left, other):
    return operations.product(left, other) if _is_traced(other) or depends(left) else method(left, other)


def _array(method, owner, dtype=None, *args, **options):
    """Return the array of an object: what ``to_numpy`` gives."""
    if not depends(owner) or (np.ndim(owner) == 1 and _inside_pandas()):
        return (
            method(owner, dtype, *args, **options) if dtype is not None else method(owner, *args, **options)
        )
    found = array_in(owner)
    return found if dtype is None else found.astype(dtype)


def _values(method, owner):
    return array_in(owner) if depends(owner) and not _inside_pandas() else method(owner)


def _inside_pandas() -> bool:
    """Whether pandas itself asks for the array of a Series: it expects the numbers of a mask."""
    return sys._getframe(2).f_globals.get("__name__", "").startswith("pandas.")


def _item(method, owner, *place):
    return array_in(owner).item(*place) if depends(owner) else method(owner, *place)


# ---- pandas


def _made_series(method, owner, data=None, index=None, *args, **options):
    if type(data) is dict and any(type(value) is TracedArray for value in data.values()):
        made = sys.modules["pandas"].Series(list(data.values()), list(data))
        data, index = (made.array, made.index) if index is None else (made.reindex(index).array, index)
    method(owner, _column(data, index), index, *args, **options)


def _made_frame(method, owner, data=None, index=None, columns=None, *args, **options):
    if type(data) is TracedArray and data.ndim == 2:
        data = imported("numbatape.trace.frames.pandas_calls").frame_of_array(data, index, columns)
    elif type(data) is list and any(type(leaf) is TracedArray for leaf in leaves(data)):
        data, columns = _by_column(data, columns)
    if type(data) is dict and any(type(leaf) is TracedArray for leaf in leaves(list(data.values()))):
        sizes = (len(value) for value in data.values() if type(value) is list or np.ndim(value))
        rows = range(next(sizes, 1)) if index is None else index
        data = {name: _column(value, rows) for name, value in data.items()}
    method(owner, data, index, columns, *args, **options)


def _by_column(rows: list, columns) -> tuple:
    """Return rows, each a dictionary or a list, as a dictionary of columns, and the columns' names."""
    if type(rows[0]) is dict:
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name, np.nan) for row in rows] for name in names}, columns
    names = range(len(rows[0])) if columns is None else columns
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}, columns


def _column(data, index):
    """Return data of a column that has a traced value as a traced column; other data as they are."""
    columns = imported("numbatape.trace.frames.traced_columns")
    if type(data) is TracedArray:
        if data.ndim == 0 and index is not None:
            data = data * np.ones(len(index))
        return columns.as_column(data)
    if type(data) in (list, tuple, type({}.values())) and any(
        type(x) is TracedArray and x.ndim == 0 for x in data
    ):
        return columns.TracedColumn._from_sequence(data)
    return data


def _chosen_by(chooses: bool):
    """Return the method ``where`` (or ``mask``) of a Series: pandas would read the condition."""

    def choose(method, owner, cond, other=np.nan, **options):
        if options or callable(cond) or callable(other) or not any(map(depends, (owner, cond, other))):
            return method(owner, cond, other, **options)
        parts = [array_in(x) if hasattr(x, "index") else x for x in _aligned(owner, cond, other)]
        x, cond, other = parts
        found = np.where(cond, x, other) if chooses else np.where(cond, other, x)
        return _like(owner, found)

    return choose


def _clip(method, owner, lower=None, upper=None, **options):
    if options or not any(map(_is_traced, (owner, lower, upper))):
        return method(owner, lower, upper, **options)
    return _like(
        owner, np.clip(*[array_in(x) if hasattr(x, "index") else x for x in _aligned(owner, lower, upper)])
    )


def _clip_frame(method, frame, lower=None, upper=None, **options):
    if options or not any(map(_is_traced, (frame, lower, upper))) or np.ndim(lower) or np.ndim(upper):
        return method(frame, lower, upper, **options)
    return frame.apply(lambda column: column.clip(lower, upper))


def _covariance(scaled: bool):
    """Return the method ``cov``, or ``corr``, of a Series."""

    def covary(method, owner, other, *args, ddof: int = 1, **options):
        if args or options or not (depends(owner) or depends(other)):
            ddof = {} if scaled else {"ddof": ddof}
            return method(owner, other, *args, **ddof, **options)
        return covariance(*map(array_in, owner.align(other, join="inner")), ddof, scaled)

    return covary


def _correlations(method, frame, *args, **options):
    if args or options or not depends(frame):
        return method(frame, *args, **options)
    columns = [frame.iloc[:, k] for k in range(frame.shape[1])]
    found = np.stack([np.stack([one.corr(other) for other in columns]) for one in columns])
    return sys.modules["pandas"].DataFrame(found, frame.columns, frame.columns)


def _aligned(owner, *others):
    """Return Series with the rows of the first one."""
    return owner, *[
        x.reindex(owner.index) if hasattr(x, "index") and not isinstance(x, list) else x for x in others
    ]


def _like(owner, array):
    return sys.modules["pandas"].Series(array, owner.index, name=owner.name)


def _apply(method, frame, func, axis=0, **options):
    """Return a function of each row, which pandas would make of objects; of columns, as pandas does it."""
    if axis in (0, "index") or not depends(frame) or not callable(func):
        return method(frame, func, axis, **options)
    args, keywords = options.pop("args", ()), options
    found = [func(frame.iloc[k], *args, **keywords) for k in range(len(frame))]
    series = sys.modules["pandas"].Series
    if any(isinstance(one, series) for one in found):
        return sys.modules["pandas"].concat(found, axis=1).T
    return series(found, frame.index)


def _flex(method, frame, other, function, **options):
    """Return what ``df.add(number)`` gives, which pandas would convert to a float."""
    if type(other) is TracedArray and not other.ndim:
        return function(frame, other)
    return method(frame, other, function, **options)


def _written(method, frame, value):
    """Make what is written to a DataFrame a column."""
    value = _column(value, frame.index)
    if depends(value) and id(frame) in current().capture.objects:
        raise UnsupportedOperationError(
            f"a traced value is written to a captured DataFrame at {where_in_user_code()}; write to a copy "
            "(`df = df.copy()`), or use `df.assign(...)`"
        )
    return method(frame, value)


def _operator(ufunc, reflected: bool):
    """Return an operator of a Series of polars: that of traced values, if the other operand is one."""

    def operate(method, owner, other):
        if type(other) is not TracedArray and type(other) is not TracedSeries:
            return method(owner, other)
        inputs = (other, owner) if reflected else (owner, other)
        return ufunc_of_polars(ufunc, inputs, {})

    return operate


def _dot(method, owner, other):
    return other.dot(owner) if type(other) is TracedSeries else method(owner, other)


_ARITHMETIC = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "pow": np.power},
    **{"mod": np.remainder, "floordiv": np.floor_divide},
}
_COMPARISONS = {
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal},
    "ne": np.not_equal,
}
_OF_POLARS = {
    **{f"__{name}__": _operator(ufunc, False) for name, ufunc in (_ARITHMETIC | _COMPARISONS).items()},
    **{f"__r{name}__": _operator(ufunc, True) for name, ufunc in _ARITHMETIC.items()},
    "dot": _dot,
}
_OF_BOTH = {"dot": _product, "__matmul__": _product, "to_numpy": _array, "values": _values}
_CHOICES = {"where": _chosen_by(True), "mask": _chosen_by(False), "clip": _clip}
_CHOICES |= {"cov": _covariance(False), "corr": _covariance(True)}


def _entrywise(function):
    """Return a method of sparse matrices that takes another matrix, a dense array or a number."""

    def method(original, owner, other):
        if isinstance(other, Sparse) or find_trace(other) is not None:
            return function(owner, other)
        return original(owner, other)

    return method


# For each package and class, the stand-ins of its methods.
METHODS = {
    "scipy": {
        "sparse._base._spbase": {
            "maximum": _entrywise(
                lambda owner, other: operations.larger_or_smaller(np.maximum, owner, other)
            ),
            "minimum": _entrywise(
                lambda owner, other: operations.larger_or_smaller(np.minimum, owner, other)
            ),
            "multiply": _entrywise(lambda owner, other: operations.multiplied_entrywise(owner, other)),
        }
    },
    "pandas": {
        "Series": {**_OF_BOTH, **_CHOICES, **pandas_methods.SERIES, "__init__": _made_series},
        "DataFrame": {
            **_OF_BOTH,
            **pandas_methods.FRAME,
            "__init__": _made_frame,
            "_sanitize_column": _written,
            "_flex_arith_method": _flex,
            "_flex_cmp_method": _flex,
            "apply": _apply,
            "clip": _clip_frame,
            "corr": _correlations,
        },
        **pandas_methods.WINDOWS,
    },
    "polars": {"Series": _OF_POLARS},
    "xarray": {"DataArray": {"to_numpy": _array, "values": _values, "item": _item}},
}


def lend_methods(trace, values: list) -> None:
    """Let objects of pandas, polars and xarray take traced values, for as long as a trace lasts.

    Parameters
    ----------
    values
        What the function refers to of these packages, and of ``scipy.sparse``. Nothing traced may be written
        to them.
    """
    trace.capture.objects.update(map(id, values))
    for package in {lending_package(value) for value in values}:
        for name, functions in METHODS.get(package, {}).items():
            cls = operator.attrgetter(name)(sys.modules[package])
            for method, function in functions.items():
                member = next((vars(base)[method] for base in cls.__mro__ if method in vars(base)), None)
                if member is None:  # a private method of pandas, which other versions need not have
                    continue
                switch = AttributeSwitch if isinstance(member, property) else MethodSwitch
                lending.lend(trace, cls, method, switch(member, function))
            if package in LABELLED:
                lending.lend(trace, cls, "__array_function__", FunctionSwitch(_of_numpy))
