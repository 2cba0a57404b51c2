"""What arithmetic of a captured Series of pandas with traced values gives: a traced Series.

``df["y"] - slope * df["x"]`` is a Series for pandas, with an index, and with methods that are not NumPy's:
``std`` divides by n - 1, sums skip missing entries. A `TracedSeries` gives what the Series would give, or
raises where it does not know. (A Series that is an argument is an array for the traced function.)

pandas leaves operators to objects with a higher ``__pandas_priority__``. It has none for products of
matrices, so ``DataFrame.dot`` and ``Series.dot`` are lent to the trace (`numbatape.capture.frame_products`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from ..errors import LeakError
from ..usercode.frames import where_in_user_code
from . import operations
from .array import TracedArray
from .labels import NUMBERS
from .library_kinds import is_frame, is_series
from .series_functions import SeriesFunctions, refusal
from .trace import not_numpys

# Operators by the names of pandas' methods for them.
_OPERATORS = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "pow": np.power},
    **{"truediv": np.true_divide, "floordiv": np.floor_divide, "mod": np.remainder},
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
    **{"eq": np.equal, "ne": np.not_equal},
}
# Reductions skip missing entries, as these functions do.
_SKIPPING = {
    **{"sum": np.nansum, "prod": np.nanprod, "mean": np.nanmean, "min": np.nanmin, "max": np.nanmax},
    **{"std": np.nanstd, "var": np.nanvar, "median": np.nanmedian},
}
_OVER_ALL = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max}
_OVER_ALL |= {"std": np.std, "var": np.var, "median": np.median}
# NumPy's functions that call a method of a Series; all others take its array.
_METHODS = {getattr(np, name): name for name in ("sum", "prod", "mean", "min", "max", "std", "var")}
_METHODS |= {getattr(np, name): name for name in ("cumsum", "cumprod", "clip", "round")}

_ANY = -1  # the number of no value


def array_of(x):
    """Return the array of a Series, traced or not, or of a DataFrame; other values as they are."""
    if type(x) is TracedSeries:
        return x._array
    return numbers_in(x) if is_series(x) or is_frame(x) else x


def numbers_in(value) -> np.ndarray:
    """Return the array of a Series or a DataFrame of numbers.

    Raises
    ------
    UnsupportedOperationError
        For text, dates, and dtypes of pandas' own, whose missing entries are not NaN.
    """
    kinds = [value.dtype] if is_series(value) else list(value.dtypes)
    if not all(isinstance(kind, np.dtype) and kind.kind in NUMBERS for kind in kinds):
        raise not_numpys(value)
    return value.to_numpy()


def arrays_in(tree):
    """Return arguments of a call with arrays in place of traced Series, and of pandas' objects."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([arrays_in(part) for part in tree])
    if kind is dict:
        return {key: arrays_in(part) for key, part in tree.items()}
    return array_of(tree)


def has_series(args) -> bool:
    """Whether a traced Series is among the arguments of a call."""
    return any(type(x) is TracedSeries for x in args)


class TracedSeries(SeriesFunctions):
    """A Series of pandas that depends on traced values.

    Parameters
    ----------
    array : TracedArray
    index : pandas.Index
    name : hashable
    """

    __pandas_priority__ = 10_000  # above those of a Series (3 000) and a DataFrame (4 000)

    def __init__(self, array: TracedArray, index, name):
        self._array, self.index, self.name = array, index, name
        if type(array) is TracedArray:  # NumPy's functions of traced arrays look for Series from now on
            array._trace.labels.setdefault(_ANY, None)

    def _like(self, array) -> TracedSeries:
        return TracedSeries(array, self.index, self.name)

    # ---- NumPy's protocols

    def __array__(self, dtype=None, copy=None):
        raise LeakError(
            f"np.asarray(series) at {where_in_user_code()} would drop the derivative of a traced Series; use "
            "`.to_numpy()`"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or kwargs:
            raise refusal(f"np.{ufunc.__name__}.{method} with options", "series")
        if any(is_frame(x) for x in inputs):
            raise not_numpys(next(x for x in inputs if is_frame(x)))
        return operations.labelled_ufunc(ufunc, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        name = _METHODS.get(function)
        if name is None:
            return function(*arrays_in(args), **arrays_in(kwargs))
        if type(args[0]) is not TracedSeries or kwargs.get("out") is not None:
            raise refusal(f"np.{function.__name__} with these arguments", "series")
        if name in ("std", "var"):
            kwargs = {"ddof": 0} | kwargs
        return getattr(args[0], name)(*args[1:], **kwargs)

    # ---- as an array

    def to_numpy(self, dtype=None):
        """Return the traced array."""
        return self._array if dtype is None else self._array.astype(dtype)

    values = property(to_numpy)
    array = property(to_numpy)
    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: 1)
    T = property(lambda self: self)

    @property
    def size(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator:
        return iter(self._array)

    def items(self) -> Iterator:
        """Return pairs of a label and an entry."""
        return zip(self.index, self._array, strict=True)

    def to_list(self) -> list:
        """Return the entries."""
        return list(self._array)

    tolist = to_list

    def copy(self, deep: bool = True) -> TracedSeries:
        """Return another Series with the same entries."""
        return self._like(np.copy(self._array))

    def astype(self, dtype) -> TracedSeries:
        """Return the entries in another dtype."""
        return self._like(self._array.astype(dtype))

    # ---- entries: pandas says which

    def _chosen(self, select):
        pd = sys.modules["pandas"]
        places = select(pd.Series(np.arange(len(self)), self.index))
        if not is_series(places):
            return self._array[int(places)]
        return TracedSeries(self._array[places.to_numpy()], places.index, self.name)

    def __getitem__(self, key):
        return self._chosen(lambda places: places[_plain_key(key)])

    @property
    def loc(self) -> _Chooser:
        """Entries by label."""
        return _Chooser(lambda key: self._chosen(lambda places: places.loc[key]))

    @property
    def iloc(self) -> _Chooser:
        """Entries by place."""
        return _Chooser(lambda key: self._chosen(lambda places: places.iloc[key]))

    def head(self, n: int = 5):
        """Return the first entries."""
        return self._chosen(lambda places: places.head(n))

    def tail(self, n: int = 5):
        """Return the last entries."""
        return self._chosen(lambda places: places.tail(n))

    def __setitem__(self, key, value):
        raise refusal("[...] = ...", "Series")

    # ---- functions of entries

    def clip(self, lower=None, upper=None):
        """Return the entries between two bounds."""
        self._require_index("clip", lower, upper)
        return self._like(np.clip(self._array, array_of(lower), array_of(upper)))

    def round(self, decimals: int = 0):
        """Return rounded entries."""
        return self._like(np.round(self._array, decimals))

    def abs(self):
        """Return absolute values."""
        return np.abs(self)

    def apply(self, function, args=(), **kwargs):
        """Return a function of each entry; of the Series, if it is a ufunc."""
        if isinstance(function, np.ufunc):
            return function(self, *args, **kwargs)
        return self._like(np.stack([function(entry, *args, **kwargs) for entry in self]))

    map = apply

    def pipe(self, function, *args, **kwargs):
        """Return a function of the Series."""
        return function(self, *args, **kwargs)

    # ---- products

    def dot(self, other):
        """Return the sum of products with a vector or a Series of the same index, or such sums of columns."""
        return operations.product(self, other)

    def __matmul__(self, other):
        return operations.product(self, other)

    def __rmatmul__(self, other):
        return operations.product(other, self)

    # ---- the rest

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise refusal(f".{name}", "Series")

    def __bool__(self):
        raise ValueError(
            "The truth value of a Series is ambiguous. Use a.empty, a.bool(), a.item(), a.any() or a.all()."
        )

    def __neg__(self):
        return np.negative(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return np.abs(self)

    def __invert__(self):
        return np.invert(self)

    __hash__ = None  # type: ignore[assignment]


class _Chooser:
    """The attribute ``loc`` or ``iloc``."""

    def __init__(self, choose):
        self._choose = choose

    def __getitem__(self, key):
        return self._choose(_plain_key(key))


def _plain_key(key):
    """Return a key that pandas understands: a traced mask is read, which is a guard."""
    if type(key) is TracedSeries:
        return sys.modules["pandas"].Series(_plain_key(key.to_numpy()), key.index)
    if type(key) is TracedArray:
        return np.array([bool(entry) for entry in key]) if key.dtype == bool else int(key)
    return key


def _operator(ufunc):
    def forward(self, other, *options, **more):
        if options or any(value is not None for value in more.values()):
            raise refusal(f".{ufunc.__name__} with options", "Series")
        return self.__array_ufunc__(ufunc, "__call__", self, other)

    def reflected(self, other):
        return self.__array_ufunc__(ufunc, "__call__", other, self)

    return forward, reflected


def _reduction(name: str):
    def reduce(self, axis=None, dtype=None, out=None, skipna=True, **options):
        if dtype is not None or out is not None:
            raise refusal(f".{name} with these options", "Series")
        if name in ("std", "var"):
            options = {"ddof": 1} | options
        elif options:
            raise refusal(f".{name} with these options", "Series")
        skips = skipna and self._array.dtype.kind == "f"
        return (_SKIPPING if skips else _OVER_ALL)[name](self._array, **options)

    reduce.__name__ = name
    return reduce


for _name, _ufunc in _OPERATORS.items():
    _forward, _reflected = _operator(_ufunc)
    setattr(TracedSeries, _name, _forward)
    if _name != "div":
        setattr(TracedSeries, f"__{_name}__", _forward)
        if _ufunc not in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
            setattr(TracedSeries, f"__r{_name}__", _reflected)
    if hasattr(TracedSeries, f"__r{_name}__") or _name == "div":
        setattr(TracedSeries, f"r{_name}", _reflected)
for _name, _ufunc in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
    _forward, _reflected = _operator(_ufunc)
    setattr(TracedSeries, f"__{_name}__", _forward)
    setattr(TracedSeries, f"__r{_name}__", _reflected)
for _name in _SKIPPING:
    setattr(TracedSeries, _name, _reduction(_name))
