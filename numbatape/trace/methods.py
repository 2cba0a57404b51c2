"""The methods of ndarray, as a mixin of `TracedArray`: each is the NumPy function of its name."""

from __future__ import annotations

import math
import sys

import numpy as np

from ..errors import LeakError, UnsupportedOperationError
from ..tape.tape import as_dtype
from ..usercode.frames import not_supported, where_in_user_code
from ..usercode.ownership import sees_sizes
from . import operations
from .aliasing import has_twice
from .kinds import PYTHON, Kinds, check_attribute, length_of_scalar, truth
from .symbolic_sizes import is_size, rely_on
from .trace import standing

FUNCTIONS = (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "cumprod", "cumsum"),
    *("diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "round"),
    *("searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
)
MASKED = "keep data and mask apart: np.where(mask, 0.0, x), np.sum(x, where=~mask)"
UNSUPPORTED = ("resize", "setfield", "byteswap")


def _method(name: str):
    function = getattr(np, name)

    def method(self, *args, **kwargs):
        check_attribute(self, name)
        if self._trace.arguments.labels:
            self = operations.method_of_rows(self, name, args, kwargs)
        return function(self, *args, **kwargs)

    method.__name__ = name
    return method


def _refused(name: str):
    def method(self, *args, **kwargs):
        raise not_supported(f"ndarray.{name} of a traced array")

    method.__name__ = name
    return method


def may_be_operand(arg) -> bool:
    """Whether an operator takes something as its other operand, or leaves it to the other one's class."""
    if arg is None or isinstance(arg, (str, bytes, dict, set)):
        return False
    # This is NumPy's rule: an object whose class says so has operators of its own for arrays.
    answers = getattr(type(arg), "__array_ufunc__", False)
    if answers is not False or isinstance(arg, np.generic):
        return answers is not None
    return not getattr(arg, "__array_priority__", 0.0) > 0.0  # this is how units of astropy say so


def in_place(ufunc):
    """Return the method of an augmented assignment."""

    def mutate(self, other):
        if not isinstance(self._value, np.ndarray) or not may_be_operand(other):
            return NotImplemented  # scalars are immutable: Python rebinds the name
        return ufunc(self, other, out=(self,))

    return mutate


def _has_number(x, number: int) -> bool:
    """Whether a traced array has this number. It has another one, or none, when it was written to."""
    try:
        return object.__getattribute__(x, "_id") == number
    except AttributeError:
        return False


def is_in_order(x, order) -> bool:
    """Whether the entries of an array lie in memory as NumPy's option ``order`` wants it for a copy."""
    if x.ndim < 2 or order in ("K", "k", None):
        return True
    flags = x._value.flags
    if order in ("A", "a"):
        return flags.c_contiguous or flags.f_contiguous
    return flags.f_contiguous if order in ("F", "f") else flags.c_contiguous


class Methods(Kinds):
    """Methods that traced arrays share with ndarray."""

    __slots__ = ()

    # ---- containers

    def __len__(self):
        if self.ndim == 0:
            return length_of_scalar(self._value)
        return self._sizes()[0].__index__()  # a guard on this size alone

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        names = operations.names_of_columns(self) if self._trace.arguments.labels else None
        return self._entries() if names is None else iter(names)

    def _entries(self):
        """Yield the rows. The size is asked for with the first one: `np.iterable` wants none."""
        # A fixed number of rows whose length is a size, as in ``i, j = np.indices((n, n))``, needs no guard.
        read = self._trace.integers.origins is not None and (self.ndim == 1 or is_size(self._sizes()[0]))
        read = read and self.dtype.kind != "c"  # complex numbers are two values of the tape
        plain = read and rely_on(self._trace, (self,)) and self.ndim == 1
        number, entries = (self._id, self._value.copy()) if plain else (None, None)
        for k in range(len(self)):
            # What runs between the entries may write to the array, or to its rows.
            yield entries[k] if plain and _has_number(self, number) else self[k]

    def __contains__(self, item):
        return bool(np.any(self == item))

    def __delitem__(self, key):
        raise ValueError("cannot delete array elements")

    def __copy__(self):
        return np.copy(self) if isinstance(self._value, np.ndarray) else self

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __hash__(self):
        if isinstance(self._value, np.ndarray):
            raise TypeError("unhashable type: 'numpy.ndarray'")
        if np.asarray(self._value).dtype.kind in "biu":
            # After the trace, the number stays: what takes dictionaries apart does not bear an error here.
            if not self._trace.closed:
                self._trace.integers.hashed = True
                int(self)  # a guard on the number: a position or a truth value
            return hash(self._value)
        raise self._leak("hash(x)", "a traced value can be no key of a dict or a cache")

    def __reduce__(self):
        raise self._leak("pickling x", "return it instead of storing it")

    def _leak(self, what: str, hint: str) -> LeakError:
        return operations.leak(self, what, hint)

    # ---- text: the same as NumPy's, because the program may read it

    def __repr__(self):
        self._trace.note_text(self._level)
        return repr(self._value)

    def __str__(self):
        self._trace.note_text(self._level)
        return str(self._value)

    def __format__(self, spec):
        self._trace.note_text(self._level)
        return format(self._value, spec)

    # ---- properties

    @property
    def size(self) -> int:
        check_attribute(self, "size")
        return math.prod(self._sizes() if sees_sizes(sys._getframe(1)) else self.shape)

    def _sizes(self) -> tuple:
        return self.shape

    def _sample(self):
        """Return the value; of a derivative that nobody has computed, zeros of its shape and dtype."""
        return self._value

    @property
    def ndim(self) -> int:
        value = self._sample()
        if value.__class__ in PYTHON:
            check_attribute(self, "ndim")
            return 0
        return value.ndim

    @property
    def dtype(self) -> np.dtype:
        value = self._sample()
        if value.__class__ in PYTHON:
            check_attribute(self, "dtype")
            return np.asarray(value).dtype
        return value.dtype

    @property
    def mT(self):
        return np.swapaxes(self, -1, -2)

    def __array_namespace__(self, *, api_version=None):
        # NumPy's own errors; its numbers do not have the method before version 2.3.
        np.asarray(self._value).__array_namespace__(api_version=api_version)
        found = standing(np)
        return operations.module_in_traces(np) if found is np else found

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def reshape(self, *shape, order="C", copy=None):
        check_attribute(self, "reshape")
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order or "C")

    def _in_shape(self, shape):
        """Return a view in another shape, for ``x.shape = shape``."""
        if self._value.base is None and operations.is_shared(self._trace, self._value):
            raise UnsupportedOperationError(
                f"the shape of an argument that is passed twice is set at {where_in_user_code()}; "
                "use reshape, or pass a copy"
            )
        other = self.reshape(shape)
        if self._value.size and not np.shares_memory(other._value, self._value):
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the "
                "desired shape."
            )
        return other

    def transpose(self, *axes):
        check_attribute(self, "transpose")
        if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
            axes = axes[0]
        return np.transpose(self, axes or None)

    def clip(self, min=None, max=None, out=None, **options):
        check_attribute(self, "clip")
        return np.clip(self, min, max, out, **options)

    def compress(self, condition, axis=None, out=None):
        check_attribute(self, "compress")
        return np.compress(condition, self, axis, out)

    def flatten(self, order="C"):
        check_attribute(self, "flatten")
        return np.copy(np.ravel(self, order))

    @property
    def flat(self):
        return operations.Flat(self)

    @flat.setter
    def flat(self, value):
        self.flat.assign(value)

    def fill(self, value):
        check_attribute(self, "fill")
        self._value.copy().fill(getattr(value, "_value", value))  # NumPy's errors
        # NumPy's numbers fill a copy, so nothing is left to do for them.
        if isinstance(self._value, np.ndarray):
            self[...] = value

    def sort(self, axis=-1, kind=None, order=None, *, stable=None):
        check_attribute(self, "sort")
        for row in _ordered_apart(self, axis):
            row[...] = np.sort(row, axis if row is self else -1, kind, order, stable=stable)

    def partition(self, kth, axis=-1, kind="introselect", order=None):
        check_attribute(self, "partition")
        for row in _ordered_apart(self, axis):
            row[...] = np.partition(row, kth, axis if row is self else -1, kind, order)

    def put(self, indices, values, mode="raise"):
        np.put(self, indices, values, mode)

    def setflags(self, write=None, align=None, uic=None):
        self._value.setflags(write, align, uic)

    def copy(self, order="C"):
        check_attribute(self, "copy")
        if not isinstance(self._value, np.ndarray):
            return self  # a number
        made = np.copy(self) if is_in_order(self, order) else np.copy(self, order=order)
        return operations.with_rows(np.copy, (self,), made) if self._trace.arguments.labels else made

    def conj(self):
        check_attribute(self, "conj")
        return self

    def conjugate(self):
        return self

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        check_attribute(self, "astype")
        dtype = as_dtype(dtype)
        if order in ("A", "a") and self.ndim > 1:  # that of this array, not of what is made of it
            order = "F" if is_in_order(self, "F") and not is_in_order(self, "C") else "C"
        made = self if not copy and dtype == self.dtype else np.astype(self, dtype)
        return made if is_in_order(made, order) else np.copy(made, order=order)

    def item(self, *args):
        check_attribute(self, "item")
        if len(args) == 1 and not isinstance(args[0], tuple):
            value = self.reshape(-1)[args[0]]
        elif args:
            value = self[args[0] if isinstance(args[0], tuple) else args]
        else:
            value = self.reshape(())
        if self.dtype.kind == "f":
            return _as_python_number(value)
        return (bool if self.dtype.kind == "b" else int)(value)

    def tolist(self):
        check_attribute(self, "tolist")
        if self.ndim == 0:
            if self.dtype.kind == "f":
                return _as_python_number(self)
            number = operations.adopt(self.reshape(()), self._value.item())
            return truth(number) if self.dtype.kind == "b" else number
        return [row.tolist() for row in self]

    def view(self, dtype=None, type=None):
        check_attribute(self, "view")
        if type is None and np.ndarray in getattr(dtype, "__mro__", ()):
            dtype, type = None, dtype
        if type not in (None, np.ndarray):
            hint = MASKED if type.__name__ == "MaskedArray" else ""
            raise not_supported(f"ndarray.view({type.__name__}) of a traced array", hint)
        if dtype in (None, np.ndarray) or as_dtype(dtype) == self._value.dtype:
            return self[...] if isinstance(self._value, np.ndarray) else self[()]
        own, other = self._value.dtype, as_dtype(dtype)
        if {own.kind, other.kind} == {"f", "c"} and type_of_parts(own) == type_of_parts(other):
            return operations.reinterpreted(self, other)
        raise UnsupportedOperationError(
            f"ndarray.view to another dtype at {where_in_user_code()} has no derivative; use astype"
        )

    def tobytes(self, order="C"):
        check_attribute(self, "tobytes")
        raise LeakError(f"x.tobytes() at {where_in_user_code()} would drop a derivative")


def type_of_parts(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the real part of numbers of some dtype."""
    return np.empty(0, dtype).real.dtype


def _ordered_apart(x, axis: int) -> list:
    """Return the parts of an array that NumPy puts in order one after another: rows that share entries."""
    if isinstance(x._value, np.ndarray) and x.ndim > 1 and has_twice(x._value):
        by_rows = np.moveaxis(x, axis, -1)
        return [by_rows[index] for index in np.ndindex(by_rows.shape[:-1])]
    return [x]


def _as_python_number(x):
    """Return a traced number as a Python float, which is weakly typed."""
    value = x._value.item() if hasattr(x._value, "item") else x._value
    return operations.adopt(np.astype(x, np.float64), value)


for _name in FUNCTIONS:
    if hasattr(np, _name):
        setattr(Methods, _name, _method(_name))
for _name in UNSUPPORTED:
    setattr(Methods, _name, _refused(_name))
