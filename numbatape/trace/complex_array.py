"""`TracedComplex`: what a user's function computes with where numbers are complex.

The engine only knows real numbers. A `TracedComplex` has a real and an imaginary part, both
`TracedArray`s, and each operation on it is a composition of real ones, so that derivatives of any order,
lanes and guards are those of the parts. The NumPy values of an array's parts are views of its complex
value, so that NumPy tells what shares memory, and a write goes to both parts (`numbatape.trace.writes`).
"""

from __future__ import annotations

import sys
from operator import index

import numpy as np

from ..errors import LeakError
from ..tape.tape import ACTIVE, CONSTANT, DTYPE_CLASSES, as_dtype
from ..usercode.frames import is_stored, unreachable
from ..usercode.ownership import sees_sizes
from . import operations
from .aliasing import refuse_swaps
from .kinds import check_attribute, compared_with_no_number, like_arrays_in_patterns, missing, truth
from .library_kinds import is_no_array, is_sparse
from .methods import Methods, in_place, may_be_operand
from .number_calls import is_repeated, repeated
from .pytrees import register
from .trace import failing


def _operator(ufunc):
    repeats = ufunc is np.multiply

    def forward(self, other):
        if is_sparse(other):
            return operations.operate_on_sparse(ufunc, self, other)
        if repeats and is_repeated(type(other)) and not isinstance(self._value, np.ndarray):
            return repeated(self, other)  # raises
        if _meets(self, other):
            return combine(ufunc, self, other)
        return compared_with_no_number(ufunc, self, other)

    def reflected(self, other):
        if is_sparse(other):
            return operations.operate_on_sparse(ufunc, other, self)
        if repeats and is_repeated(type(other)) and not isinstance(self._value, np.ndarray):
            return repeated(self, other)
        return combine(ufunc, other, self) if _meets(self, other) else NotImplemented

    return forward, reflected


def _meets(self, other) -> bool:
    """Whether an operator computes with another operand.

    If it does not, a user's object computes by its own operator.
    """
    return may_be_operand(other) and (isinstance(self._value, np.ndarray) or not is_no_array(other))


def combine(ufunc, *operands):
    """Return the result of Python's operator; numbers of Python give a weakly typed number (NEP 50)."""
    kinds = [getattr(x, "_value", x).__class__ for x in operands]
    # Python's own operator of complex numbers would compute with NumPy's doubles.
    if kinds[0] is complex and ufunc not in COMPARISONS:
        kinds = [float if kind is np.float64 else kind for kind in kinds]
    of_python = all(kind in WEAK for kind in kinds)
    if of_python and ufunc in ORDER:
        raise TypeError(f"'{ORDER[ufunc]}' is not supported for complex numbers of Python's")
    result = ufunc(*operands)
    if of_python:
        if type(result) is TracedComplex:
            return operations.adopted(result, result._value.item())
        if ufunc in COMPARISONS and hasattr(result, "_value"):
            result._value = bool(result._value)
            return truth(result, compared=True)
    return result


COMPARISONS = (np.equal, np.not_equal)
ORDER = {np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">="}
WEAK = (complex, float, int, bool)


@like_arrays_in_patterns
class TracedComplex(Methods):
    """A complex array or scalar of a traced function. Not made by users.

    A part that is None is zero everywhere: it costs no instructions. One of the two is a traced array.
    ``_zeros`` has the signs of such parts (`Zero`), None where all of them are +0.
    """

    __slots__ = ("__weakref__", "_im", "_re", "_trace", "_value", "_zeros")

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.true_divide)
    __matmul__, __rmatmul__ = _operator(np.matmul)
    __lt__, __le__ = _operator(np.less)[0], _operator(np.less_equal)[0]
    __gt__, __ge__ = _operator(np.greater)[0], _operator(np.greater_equal)[0]
    __eq__, __ne__ = _operator(np.equal)[0], _operator(np.not_equal)[0]  # type: ignore[assignment]
    __hash__ = Methods.__hash__  # a class that defines __eq__ has none otherwise

    def __init__(self, re, im, value, zeros=None):
        self._zeros = zeros
        self._re = re
        self._im = im
        self._trace = (im if re is None else re)._trace
        self._value = value

    def __pow__(self, other, modulo=None):
        if modulo is not None or not _meets(self, other):
            return NotImplemented
        return combine(np.power, self, other)

    def __rpow__(self, other):
        return combine(np.power, other, self) if _meets(self, other) else NotImplemented

    def __neg__(self):
        return combine(np.negative, self)

    def __pos__(self):
        return np.positive(self) if isinstance(self._value, np.ndarray) else self

    def __abs__(self):
        result = np.absolute(self)
        if self._value.__class__ is complex:
            result._value = float(result._value)  # a Python number takes the dtype of what it meets
        return result

    # ---- parts

    @property
    def _level(self) -> int:
        return max(part._level for part in (self._re, self._im) if part is not None)

    @property
    def real(self):
        return operations.part(self, "_re")

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return operations.part(self, "_im")

    @imag.setter
    def imag(self, value):
        self.imag[...] = value

    def conj(self):
        check_attribute(self, "conj")
        return combine(np.conjugate, self)

    def conjugate(self):
        return combine(np.conjugate, self)

    # ---- containers

    def __getitem__(self, key):
        return operations.complex_entries(self, key)

    def __setitem__(self, key, value):
        with failing(self._trace):
            if type(value) is type(self):
                refuse_swaps(self, key, value, sys._getframe(1))
            operations.assign(self, key, value)

    # ---- NumPy's protocols

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        with failing(self._trace):
            if self._trace.integers.met:
                inputs, kwargs = operations.operands(ufunc, inputs, method), operations.settled(kwargs)
            return operations.call_complex_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        with failing(self._trace):
            if self._trace.integers.met:
                args, kwargs = operations.arguments(function, args, kwargs)
            return operations.call_complex_function(function, args, kwargs)

    # ---- what Python asks of a number

    def __bool__(self):
        with failing(self._trace):
            bool(self._value)  # NumPy's own error where the truth value is ambiguous
        return bool(np.not_equal(self, 0.0).reshape(()))

    def __complex__(self):
        outcome = complex(self._value)
        if self._level == ACTIVE:
            if is_stored():
                raise LeakError(unreachable("an assignment"))
            raise self._leak(
                "complex(x)",
                "cmath functions call it: use np.exp(x) for cmath.exp(x), x.reshape(()) for a scalar",
            )
        if self._level == CONSTANT:
            self._trace.pin_constants()
            return outcome
        for part in (self._re, self._im):
            if part is not None:
                float(part)  # records a guard
        return outcome

    def __float__(self):
        return self._as_real(float)

    def __int__(self):
        return self._as_real(int)

    def __index__(self):
        return self._as_real(index)

    def _as_real(self, kind):
        with failing(self._trace):
            kind(self._value)  # Python raises its TypeError here, or NumPy gives its warning
        return kind(self.real)

    def __array__(self, dtype=None, copy=None):
        answer = operations.answer_to_sparse_product(sys._getframe(1), self._value)
        if answer is not None:
            return answer
        if self._level == CONSTANT:
            self._trace.pin_constants()
            return np.array(self._value, dtype)
        if is_stored():
            raise LeakError(unreachable("an assignment"))
        raise self._leak("np.asarray(z)", "build arrays with np.stack, np.concatenate or np.where")

    def item(self, *args):
        if not args:
            value = self.reshape(())
            return operations.adopted(value, np.asarray(value._value).item())
        flat = len(args) == 1 and not isinstance(args[0], tuple)
        value = self.reshape(-1)[args[0]] if flat else self[args[0] if len(args) == 1 else args]
        return operations.adopted(value, np.asarray(value._value).item())

    # ---- properties

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes: for the user's code traced ints, else plain ones, which the tape relies on (a guard)."""
        check_attribute(self, "shape")
        if self._trace.integers.symbolic and sees_sizes(sys._getframe(1)):
            return self._sizes()
        for part in (self._re, self._im):
            if part is not None:
                shape = part.shape
        return shape

    def _sizes(self) -> tuple:
        """Return the sizes as the user's code sees them; both parts have the same."""
        return next(part for part in (self._re, self._im) if part is not None)._sizes()

    @shape.setter
    def shape(self, shape):
        other = self._in_shape(shape)
        self._re, self._im, self._value, self._zeros = other._re, other._im, other._value, other._zeros

    @property
    def flags(self):
        return self._value.flags

    @property
    def T(self):
        check_attribute(self, "T")
        return np.transpose(self)

    def __getattr__(self, name):
        raise missing(self, name, f"ndarray.{name} of a complex traced array")


for _name, _ufunc in {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply},
    **{"truediv": np.true_divide, "pow": np.power, "matmul": np.matmul},
}.items():
    setattr(TracedComplex, f"__i{_name}__", in_place(_ufunc))


# Classes that `meets` need not look into; `TracedArray`, which is above this file, is added there.
REAL = {float, int, bool, str, slice, type(None), np.float64}


def meets(args) -> bool:
    """Whether something complex is among the arguments of a call, lists and tuples included."""
    for arg in args:
        kind = type(arg)
        if kind in REAL:
            continue
        if kind is TracedComplex or kind is complex:
            return True
        if kind is list or kind is tuple:
            if meets(arg):
                return True
        elif isinstance(arg, (np.ndarray, np.generic)):
            if arg.dtype.kind == "c":
                return True
        elif kind is type:
            if issubclass(arg, (complex, np.complexfloating)):
                return True
        elif isinstance(arg, (np.dtype, DTYPE_CLASSES)) and as_dtype(arg).kind == "c":
            return True
    return False


def names_complex(kwargs) -> bool:
    """Whether the dtype that a call asks for is complex, and given by its name."""
    dtype = kwargs.get("dtype")
    return type(dtype) is str and as_dtype(dtype).kind == "c"


def _apart(z: TracedComplex):
    return z.real, z.imag


register(TracedComplex, _apart, lambda parts: operations.join(*parts))
