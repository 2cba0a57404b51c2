"""`TracedInteger`: a Python int that is data where that is exact, and else a guard.

It is an argument, or a size of an array. Arithmetic of sizes with one another and with ints gives sizes
(`numbatape.trace.symbolic_sizes`). All other arithmetic with ints and floats is recorded with Python's
meaning (exact, ``//`` rounds down, ``/`` by zero raises); with arrays it is weakly typed, as a Python int is
in NumPy. Every other use (an index in C, ``range``, ``if``, bits, text) needs its value, which becomes a
guard. So the tape holds for other values only as far as it computes with the int.
"""

from __future__ import annotations

import numbers
import operator
import sys

import numpy as np

from ..errors import LeakError
from ..tape.tape import ACTIVE
from ..usercode.frames import where_in_user_code
from . import size_fractions
from . import symbolic_sizes as sizes
from .array import TracedArray, new_traced
from .complex_array import TracedComplex
from .integer_arithmetic import INTEGER, exact_integer, number_of, required, with_float
from .primitives import value_of
from .pytrees import leaf

# Exponents with instructions of their own; most powers that are parameters are among these.
COMMON_EXPONENTS = range(-1, 4)

_ARRAYS = (np.ndarray, np.generic, TracedArray, TracedComplex)
_WITH_INTEGER_ARRAYS = ("add", "sub", "mul", "truediv")


@leaf
class TracedInteger:
    """A Python int of a traced function. Not made by users."""

    __slots__ = ("_array", "_code", "_settled", "_trace", "_value")

    def __init__(self, array: TracedArray):
        self._trace = array._trace
        self._array = array
        self._value: int = array._value
        self._code: int | None = None  # the size code, if this is a size
        self._settled = False  # whether a guard has fixed its value

    @classmethod
    def of_size(cls, trace, code: int) -> TracedInteger:
        """Return a size of an array, or what arithmetic made of sizes."""
        self = object.__new__(cls)
        self._trace, self._code, self._settled = trace, code, False
        self._value = trace.tape.sizes.value(code)
        return self

    @property  # type: ignore[misc]
    def __class__(self):
        return int  # this serves ``isinstance`` in other code; numbatape itself asks ``type``

    def lifted(self) -> TracedArray:
        """Return the number as an operand, weakly typed."""
        trace = self._trace
        trace.check_open()
        if self._code is not None:
            return sizes.number_of(trace, self._code)
        x = self._array
        return new_traced(trace, self._value, x._id, x._level, x._family)

    def settled(self) -> int:
        """Return the value, which the trace relies on from now on."""
        if not self._settled:
            trace = self._trace
            trace.check_open()
            if self._code is not None:
                trace.tape.sizes.pin(self._code, trace.line())
            else:
                trace.guard(self._array, "int", self._value)
                sizes.pin_count(trace, self._array._id)
            self._settled = True
        return self._value

    __int__ = __trunc__ = settled

    def __index__(self):
        if not self._settled and self._trace.capture.refuses(sys._getframe(1)):
            raise self._trace.validity.plain_index()
        return self.settled()

    def __float__(self):
        return float(self.settled())

    def as_float(self):
        """Return ``float(n)``: that of a size is a weakly typed float, which needs no guard."""
        if not sizes.is_size(self):
            return float(self.settled())
        return size_fractions.noted(_recorded_float(self), "truediv", self, 1)

    def __complex__(self):
        return complex(self.settled())

    def __bool__(self):
        return self != 0

    def __array__(self, dtype=None, copy=None):
        return np.array(self.settled(), dtype)

    def __floor__(self):
        return self

    __ceil__ = __pos__ = __copy__ = __floor__

    def __deepcopy__(self, memo):
        return self

    def __round__(self, digits=None):
        return self if digits is None else round(self.settled(), digits)

    def __neg__(self):
        return 0 - self

    def __abs__(self):
        return abs(self._value) if self._settled else exact_integer("abs", abs(self._value), self)

    def __invert__(self):
        return ~self.settled()

    def bit_length(self):
        """Return ``n.bit_length()``; the tape holds for all sizes with the same number of bits."""
        bits = self._value.bit_length()
        if not sizes.is_size(self) or self._value < 1:
            return self.settled().bit_length()
        _ = self >= 1 << (bits - 1), self < 1 << bits  # Both comparisons record a guard.
        return bits

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __pow__(self, other, modulo=None):
        if modulo is not None:
            return pow(self.settled(), settled(other), settled(modulo))
        return _combine("pow", self, other)

    def __rpow__(self, other):
        return _combine("pow", other, self)

    def __hash__(self):
        # A dictionary would keep this object as a key, so the function is traced with plain ints instead.
        raise LeakError(f"hash(n) of a traced int at {where_in_user_code()}")

    def __reduce__(self):
        raise LeakError(f"pickling a traced int at {where_in_user_code()}")

    def __repr__(self):
        return repr(self.settled())

    def __str__(self):
        return str(self.settled())

    def __format__(self, spec):
        return format(self.settled(), spec)

    def __getattr__(self, name):
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.settled(), name)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        made = _numpys(ufunc, inputs) if method == "__call__" and not kwargs else None
        if made is not None:
            return made
        return getattr(ufunc, method)(*operands(ufunc, inputs, method), **settled(kwargs))

    def __array_function__(self, function, types, args, kwargs):
        if function in OF_ALL_INTS:
            args = [x._value if type(x) is TracedInteger else x for x in args]
        return function(*settled(args), **settled(kwargs))


# What these attributes say of an int does not depend on its value.
OF_ALL_INTS = frozenset({np.ndim, np.shape, np.size, np.iscomplexobj, np.isrealobj, np.result_type})
numbers.Integral.register(TracedInteger)  # code of libraries tests for it


def _operator(name: str):
    def forward(self, other):
        return _combine(name, self, other)

    def reflected(self, other):
        return _combine(name, other, self)

    return forward, reflected


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    for _method, _function in zip((f"__{_name}__", f"__r{_name}__"), _operator(_name), strict=True):
        setattr(TracedInteger, _method, _function)
for _name in ("and_", "or_", "xor", "lshift", "rshift", "matmul"):
    _apply = getattr(operator, _name)
    _name = _name.rstrip("_")
    setattr(TracedInteger, f"__{_name}__", lambda a, b, _apply=_apply: _apply(a.settled(), settled(b)))
    setattr(TracedInteger, f"__r{_name}__", lambda a, b, _apply=_apply: _apply(settled(b), a.settled()))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedInteger, f"__{_name}__", lambda a, b, _name=_name: _compare(_name, a, b))


def settled(tree, but_sizes: bool = False):
    """Return arguments of a call with plain ints in place of traced ones, whose values become guards.

    Parameters
    ----------
    but_sizes
        Whether sizes stay as they are.
    """
    kind = type(tree)
    if kind is TracedInteger:
        return tree if but_sizes and sizes.is_size(tree) else tree.settled()
    if kind is tuple or kind is list:
        return kind([settled(part, but_sizes) for part in tree])
    if kind is dict:
        return {key: settled(part, but_sizes) for key, part in tree.items()}
    if kind is slice:
        return slice(*(settled(part, but_sizes) for part in (tree.start, tree.stop, tree.step)))
    return tree


def but_sizes(tree):
    """Return arguments of a call with plain ints in place of sizes; other traced ints stay."""
    if type(tree) is list or type(tree) is tuple:
        return type(tree)([but_sizes(part) for part in tree])
    return tree.settled() if type(tree) is TracedInteger and sizes.is_size(tree) else tree


def lifted(x):
    """Return a traced int as an operand; other things as they are."""
    return x.lifted() if type(x) is TracedInteger else x


def as_index(k):
    """Return a traced int as a traced index; sizes and other things as they are."""
    if type(k) is not TracedInteger or sizes.is_size(k):
        return k
    return as_entry(k)


def as_entry(n: TracedInteger):
    """Return a traced int as an entry of an array of integers: its value where a guard has fixed that."""
    if n._settled:
        return n._value
    x = n.lifted()
    return new_traced(x._trace, np.int64(n._value), x._id, x._level, x._family)


def _is_number(x) -> bool:
    return type(x) in (int, bool, float, TracedInteger)


# ---- comparisons


def _compare(name: str, left, right):
    apply = getattr(operator, name)
    if left._settled or not (_is_number(right) or isinstance(right, _ARRAYS)):
        return apply(left.settled(), settled(right)) if _known_to_int(right) else NotImplemented
    if not _is_number(right):
        return apply(left.lifted(), right)
    if _are_sizes(left, right):
        trace = left._trace
        return sizes.compared(trace, name, sizes.code_of(trace, left), sizes.code_of(trace, right))
    return required(apply(left.lifted(), lifted(right)), apply(left._value, number_of(right)))


def _known_to_int(x) -> bool:
    """Whether Python compares ints with such a value by value, not by identity."""
    return isinstance(x, (numbers.Number, *_ARRAYS)) or type(x) is TracedInteger


def _are_sizes(left, right) -> bool:
    """Whether one of two numbers is a size, and the other one a size or an int."""
    if not (sizes.is_size(left) or sizes.is_size(right)):
        return False
    return all(type(x) in (int, bool) or sizes.is_size(x) for x in (left, right))


# ---- arithmetic


def _combine(name: str, left, right):
    """Return ``left op right``, where at least one is a traced int."""
    apply = getattr(operator, name)
    left, right = (x._value if type(x) is TracedInteger and x._settled else x for x in (left, right))
    if _are_sizes(left, right):
        made = _of_sizes(name, left, right)
        if made is not None:
            return made
    if _is_number(left) and _is_number(right):
        if type(left) is float or type(right) is float:
            return size_fractions.noted(with_float(name, apply, left, right), name, left, right)
        traced = TracedInteger in (type(left), type(right))
        return INTEGER[name](left, right) if traced else apply(left, right)
    if isinstance(left, _ARRAYS) or isinstance(right, _ARRAYS):
        return apply(*_with_array(name, left, right))
    # The other operand is a list to repeat, a Fraction or a sparse matrix, which needs a plain int.
    return apply(settled(left), settled(right))


def _of_sizes(name: str, left, right):
    """Return ``left op right`` as a size, None if it is none."""
    trace = (left if type(left) is TracedInteger else right)._trace
    trace.check_open()
    if name == "pow":
        if type(right) is not int or not 1 <= right <= COMMON_EXPONENTS[-1]:
            return None
        made = code = sizes.code_of(trace, left)
        for _ in range(right - 1):
            made = trace.tape.sizes.mul(made, code)
    else:
        codes = sizes.code_of(trace, left), sizes.code_of(trace, right)
        made = sizes.combined(trace.tape.sizes, name, *codes)
        if made is None and name in ("floordiv", "mod") and right != 0:
            return getattr(operator, name)(settled(left), settled(right))
    return None if made is None else sizes.seen(trace, made)


def _with_array(name: str, left, right) -> tuple:
    """Return both operands; the traced int is settled where NumPy looks at its value."""
    mine, other = (left, right) if type(left) is TracedInteger else (right, left)
    if type(mine) is not TracedInteger:
        return left, right
    value = value_of(other)
    dtype = getattr(value, "dtype", None)
    weak = type(value) is float
    if dtype is not None and dtype.kind not in "fc":
        exact = dtype == np.int64 and (
            name in _WITH_INTEGER_ARRAYS
            or (name in ("floordiv", "mod") and mine is right and sizes.is_size(mine) and bool(mine >= 1))
        )
        return (lifted(left), lifted(right)) if exact else (settled(left), settled(right))
    if weak and name in ("truediv", "floordiv", "mod") and mine is right and mine == 0:
        return left, mine.settled()
    active_base = name == "pow" and mine is right and getattr(other, "_level", None) == ACTIVE
    if active_base and not mine > COMMON_EXPONENTS[-1] and not mine < COMMON_EXPONENTS[0]:
        return left, mine.settled()
    return lifted(left), lifted(right)


COMPARISONS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal})
EXTREMA = frozenset({np.minimum, np.maximum})
NAMES = {np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "truediv",
         np.floor_divide: "floordiv", np.remainder: "mod", np.power: "pow"}  # fmt: skip


def _numpys(ufunc, inputs) -> TracedArray | None:
    """Return NumPy's arithmetic of sizes and ints as a number of NumPy's; None for anything else."""
    name = NAMES.get(ufunc)
    if name is None or name == "pow" or not all(type(x) is int or sizes.is_size(x) for x in inputs):
        return None
    left, right = inputs
    if name in ("truediv", "floordiv", "mod") and (type(right) is not int or right == 0):
        return None  # NumPy warns of a zero, where Python raises
    made = _combine(name, left, right)
    x = made.lifted() if type(made) is TracedInteger else made
    if type(x) is not TracedArray:
        return None
    kind = np.float64 if name == "truediv" else np.int64
    return new_traced(x._trace, kind(x._value), x._id, x._level, x._family)


def operands(ufunc, inputs, method: str) -> tuple:
    """Return the inputs of a ufunc; traced ints are settled unless the result is computed from them."""
    others = [value_of(x) for x in inputs if type(x) is not TracedInteger]
    if len(others) == len(inputs):
        return inputs
    if method != "__call__" or ufunc.nout != 1:
        return settled(inputs)
    if ufunc in NAMES and others and isinstance(others[0], _ARRAYS):
        return _with_array(NAMES[ufunc], *inputs)
    if ufunc in COMPARISONS and others and isinstance(others[0], _ARRAYS) and others[0].dtype.kind in "iu":
        return tuple(map(lifted, inputs))  # NumPy compares whatever numbers of all integer dtypes
    if ufunc in EXTREMA and len(others) == 1 and getattr(others[0], "dtype", None) == np.int64:
        return tuple(map(lifted, inputs))
    # NumPy computes in floats if an operand is one, or if the function only knows floats (``np.sqrt(n)``).
    kinds = [x.dtype for x in others if isinstance(x, _ARRAYS)] + [float for x in others if type(x) is float]
    whole = sum(type(x) is int for x in others)
    known = len(kinds) + whole == len(others) and all(np.dtype(kind).kind in "fc" for kind in kinds)
    if known and (kinds or _is_of_floats(ufunc)):
        return tuple(map(lifted, inputs))
    return settled(inputs)


def _is_of_floats(ufunc) -> bool:
    return ufunc.resolve_dtypes((np.dtype(int),) * ufunc.nin + (None,))[-1].kind == "f"


def _recorded_float(n: TracedInteger) -> TracedArray:
    x = n.lifted()
    return new_traced(x._trace, float(n._value), x._id, x._level, x._family)
