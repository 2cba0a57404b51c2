"""`TracedArray`: what a user's function computes with while it is traced.

It behaves as the NumPy array (or scalar) that it stands for: operators, methods and properties
here, functions through NumPy's protocols. It is no subclass of ndarray, because ``np.asarray`` would silently
drop the derivative.
"""

from __future__ import annotations

import sys
from weakref import ref

import numpy as np

from ..ops import OPCODE, OPS, Elementwise
from ..stalls import LOOKS, TRACING
from ..tape.instruction import MAIN, NONE, OUT, PROLOGUE, opcode
from ..tape.tape import ACTIVE, CONSTANT, F64, FAMILY_DTYPE
from ..usercode.frames import where_in_user_code
from . import operations
from .aliasing import root_of
from .complex_array import combine as complex_combine
from .complex_array import meets
from .kinds import PYTHON, check_attribute, check_subscriptable, missing
from .methods import Methods
from .reads import Reads
from .sparse_kinds import is_sparse
from .trace import failing

float64, ndarray = np.float64, np.ndarray
_value_of = object.__getattribute__  # does not compute what is missing, see `deferred`
OTHER, WEAK, STRONG = 0, 1, 2  # the kinds of operands that `_kind` returns
DIVISIONS = (np.true_divide, np.floor_divide, np.remainder)
NEG = opcode(OPCODE["neg"], F64)


def note(trace, array, value) -> None:
    """Note which memory an array refers to, because a later write to that memory changes the array."""
    key = id(value) if value.base is None else id(root_of(value))
    trace.arrays.append((key, ref(array)))
    if key in trace.boxes:
        trace.boxes[key].settled.append(array)


def new_traced(trace, value, number, level, family) -> TracedArray:
    """Return a traced array; cheaper than a constructor call (0.3 µs)."""
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._value = value
    self._id = number
    self._level = level
    self._family = family
    if value.__class__ is ndarray:
        note(trace, self, value)
    return self


def deferred(trace, number) -> TracedArray:
    """Return a traced array whose value is computed when it is first needed, see ``__getattr__``."""
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._id = number
    self._level = trace.tape.level_of(number)
    self._family = trace.tape.family_of(number)
    trace.deferred.append(ref(self))
    return self


def is_deferred(x) -> bool:
    """Whether nobody has asked for a traced array's value yet."""
    if type(x) is TracedArray:
        try:
            _value_of(x, "_value")
        except AttributeError:
            return True
    return False


def revalue(x, value) -> None:
    """Replace the carried value by NumPy's, where the recorded operations computed it differently."""
    x._value = value
    if value.__class__ is ndarray:
        note(x._trace, x, value)


def unary_scalar(op: Elementwise, x: TracedArray, value) -> TracedArray:
    """Record a differentiable op of one float64 number: 2 µs less than by way of shapes and families."""
    trace = x._trace
    trace.check_open()
    active = 1 if x._level == ACTIVE else 0
    return _scalar(trace, value, opcode(OPCODE[op.name], F64), active, x._level, x._id, NONE)


def _scalar(trace, value, code, active, level, a, b):
    """Record a one-cell float64 instruction and return its result: the fast path of scalar loops."""
    tape = trace.tape
    pool = 2 * level
    cells = tape.pool_cells
    offset = cells[pool]
    cells[pool] = offset + 1
    values = tape.values
    number = len(values)
    values.append((pool, offset, 0))
    line = trace.differentiating
    if line is None:
        frame = sys._getframe(2)
        line = trace.places.get((id(frame.f_code), frame.f_lasti))
        if line is None:
            line = trace.line()
    stage = MAIN if level else PROLOGUE
    tape.code.append((code, active, stage, number, a, b, NONE, NONE, line))
    if not offset & LOOKS:
        TRACING.step(len(tape.code))
    self = TracedArray.__new__(TracedArray)
    self._trace = trace
    self._value = value
    self._id = number
    self._level = level
    self._family = F64
    return self


def _operator(name: str, ufunc):
    """Return ``(forward, reflected)`` methods of a binary operator.

    Float64 scalars take a fast path; everything else goes through the ufunc and its protocol.
    """
    row = OPS[OPCODE[name]]
    assert isinstance(row, Elementwise)
    code, commutes = opcode(OPCODE[name], F64), row.commutes
    twice = opcode(OPCODE[row.twice], F64) if row.twice else None

    def forward(self, other):
        left = self._value
        if left.__class__ is float64:
            trace = self._trace
            kind = type(other)
            if kind is TracedArray:
                right = other._value
                if right.__class__ is float64 and other._trace is trace and not trace.closed:
                    level = self._level
                    active = 1 if level == ACTIVE else 0
                    if other._level == ACTIVE:
                        active += 2
                        level = ACTIVE
                    elif other._level > level:
                        level = other._level
                    value = ufunc(left, right)
                    if twice is not None and other._id == self._id:
                        return _scalar(trace, value, twice, active & 1, level, self._id, NONE)
                    if commutes and trace.tape.code and trace.tape.code[-1][OUT] == other._id:
                        # The last result becomes operand a, which the engine can take from a register.
                        active = (active >> 1) | (active & 1) << 1
                        return _scalar(trace, value, code, active, level, other._id, self._id)
                    return _scalar(trace, value, code, active, level, self._id, other._id)
            elif (kind is float or kind is int or kind is float64) and not trace.closed:
                level = self._level
                active = 1 if level == ACTIVE else 0
                number = trace.literal(other, F64)
                return _scalar(trace, ufunc(left, other), code, active, level, self._id, number)
        return _general(ufunc, self, other)

    def reflected(self, other):
        right = self._value
        kind = type(other)
        if right.__class__ is float64 and (kind is float or kind is int or kind is float64):
            trace = self._trace
            if not trace.closed:
                level = self._level
                active = 2 if level == ACTIVE else 0
                number = trace.literal(other, F64)
                return _scalar(trace, ufunc(other, right), code, active, level, number, self._id)
        return _general(ufunc, other, self)

    return forward, reflected


def _general(ufunc, left, right):
    if _is_usual(left, right):
        return _call(ufunc, left, right)
    if is_sparse(left) or is_sparse(right):
        return _sparse(ufunc, left, right)
    if not _acceptable(left) or not _acceptable(right) or type(right) is operations.TracedInteger:
        return NotImplemented
    if ufunc in DIVISIONS and _is_weak(left) and _is_weak(right):
        _require_divisor(ufunc, left, right)
    result = complex_combine(ufunc, left, right)
    if _is_weak(left) and _is_weak(right) and isinstance(result._value, float):
        result._value = float(result._value)  # a Python float stays weakly typed (NEP 50)
    return result


def _is_usual(left, right) -> bool:
    """Whether both operands are real, and one at least is a number or an array of NumPy's."""
    its, other = _kind(left), _kind(right)
    return its != OTHER and other != OTHER and its + other > 2 * WEAK


def _call(ufunc, left, right):
    """Call a ufunc of usual operands directly: by way of NumPy's protocol it takes 5 µs more."""
    try:
        return operations.call_ufunc(ufunc, "__call__", (left, right), {})
    except Exception:
        (left if type(left) is TracedArray else right)._trace.failed = True
        raise


def _require_divisor(ufunc, left, right) -> None:
    """Raise where Python's numbers are divided by a constant zero; else record that the constant is not zero.

    A divisor that is differentiated may be zero: derivatives are limits, which may be infinite.
    """
    traced = type(right) is TracedArray
    if traced and right._level != CONSTANT:
        return
    with failing((right if traced else left)._trace):
        if (right._value if traced else right) == 0:
            raise ZeroDivisionError(f"division by zero at {where_in_user_code()}")
        if traced:
            right._trace.guard(right != 0, "bool", True)


def _power(left, right):
    trace = (left if isinstance(left, TracedArray) else right)._trace  # arrays of the trace have one, too
    if trace.values == "numpy" and _acceptable(left) and _acceptable(right):
        with failing(trace):
            result = operations.power_of_scalars(left, right)
        if result is not None:
            if _is_weak(left) and _is_weak(right):
                result._value = float(result._value)
            return result
    return _general(np.power, left, right)


def _sparse(ufunc, left, right):
    traced = left if type(left) is TracedArray else right
    with failing(traced._trace):
        return operations.operate_on_sparse(ufunc, left, right)


def _acceptable(arg) -> bool:
    return not isinstance(arg, (str, bytes, dict, set)) and arg is not None


def _kind(arg) -> int:
    """Return `STRONG` for real arrays and numbers of NumPy, `WEAK` for numbers of Python, else `OTHER`."""
    kind = type(arg)
    if kind is TracedArray:
        return WEAK if arg._value.__class__ in PYTHON else STRONG
    if kind is ndarray:
        return STRONG if arg.dtype.kind in "fiub" else OTHER
    if kind is float64:
        return STRONG
    return WEAK if kind is float or kind is int or kind is bool else OTHER


def _is_weak(arg) -> bool:
    kind = arg._value.__class__ if type(arg) is TracedArray else type(arg)
    return kind is float or kind is int or kind is bool


def _comparison(ufunc):
    def compare(self, other):
        if not _acceptable(other) or type(other) is operations.TracedInteger:
            return NotImplemented
        if _is_usual(self, other):
            return _call(ufunc, self, other)
        result = ufunc(self, other)
        if self._value.__class__ is not float64 and _is_weak(self) and _is_weak(other):
            result._value = bool(result._value)  # Python's own comparison gives a bool
        return result

    return compare


def _in_place(ufunc):
    def mutate(self, other):
        if not isinstance(self._value, ndarray) or not _acceptable(other):
            return NotImplemented  # scalars are immutable: Python rebinds the name
        return ufunc(self, other, out=(self,))

    return mutate


class TracedArray(Methods, Reads):
    """An array or scalar of a traced function. Not made by users."""

    # After a write, _id and _level are missing until they are needed; in a derivative, _value is. See
    # __getattr__.
    __slots__ = ("__weakref__", "_family", "_id", "_level", "_trace", "_value")

    __add__, __radd__ = _operator("add", np.add)
    __sub__, __rsub__ = _operator("sub", np.subtract)
    __mul__, __rmul__ = _operator("mul", np.multiply)
    __truediv__, __rtruediv__ = _operator("div", np.true_divide)
    __lt__, __le__ = _comparison(np.less), _comparison(np.less_equal)
    __gt__, __ge__ = _comparison(np.greater), _comparison(np.greater_equal)
    __eq__, __ne__ = _comparison(np.equal), _comparison(np.not_equal)  # type: ignore[assignment]
    __hash__ = Reads.__hash__  # a class that defines __eq__ does not inherit it

    def __floordiv__(self, other):
        return _general(np.floor_divide, self, other)

    def __rfloordiv__(self, other):
        return _general(np.floor_divide, other, self)

    def __mod__(self, other):
        return _general(np.remainder, self, other)

    def __rmod__(self, other):
        return _general(np.remainder, other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __pow__(self, other, modulo=None):
        return NotImplemented if modulo is not None else _power(self, other)

    def __rpow__(self, other):
        return _power(other, self)

    def __matmul__(self, other):
        return _general(np.matmul, self, other)

    def __rmatmul__(self, other):
        return _general(np.matmul, other, self)

    def __and__(self, other):
        return np.bitwise_and(self, other)

    def __rand__(self, other):
        return np.bitwise_and(other, self)

    def __or__(self, other):
        return np.bitwise_or(self, other)

    def __ror__(self, other):
        return np.bitwise_or(other, self)

    def __xor__(self, other):
        return np.bitwise_xor(self, other)

    def __rxor__(self, other):
        return np.bitwise_xor(other, self)

    def __lshift__(self, other):
        return np.left_shift(self, other)

    def __rlshift__(self, other):
        return np.left_shift(other, self)

    def __rshift__(self, other):
        return np.right_shift(self, other)

    def __rrshift__(self, other):
        return np.right_shift(other, self)

    def __invert__(self):
        return np.invert(self)

    def __neg__(self):
        value = self._value
        if value.__class__ is float64 and not self._trace.closed:
            active = 1 if self._level == ACTIVE else 0
            return _scalar(self._trace, -value, NEG, active, self._level, self._id, NONE)
        result = np.negative(self)
        if value.__class__ is float:
            result._value = -value
        return result

    def __pos__(self):
        return np.positive(self) if isinstance(self._value, ndarray) else self

    def __abs__(self):
        return self._as_weak(np.absolute(self))

    # ---- containers

    def __getitem__(self, key):
        try:  # this is `failing` written out, which saves 0.2 µs in loops over x[k]
            if type(key) is int and self._value.ndim == 1:
                return operations.item(self, key)
            return operations.getitem(self, key)
        except Exception:
            self._trace.failed = True
            check_subscriptable(self)
            raise

    def __setitem__(self, key, value):
        with failing(self._trace):
            if type(key) is int and operations.put_entry(self, key, value):
                return
            operations.assign(self, key, value)

    # The same text as NumPy's, because the program may read it.
    def __repr__(self):
        self._trace.note_text(self._level)
        return repr(self._value)

    def __str__(self):
        self._trace.note_text(self._level)
        return str(self._value)

    def __format__(self, spec):
        self._trace.note_text(self._level)
        return format(self._value, spec)

    def __copy__(self):
        return np.copy(self) if isinstance(self._value, ndarray) else self

    def __deepcopy__(self, memo):
        return self.__copy__()

    # ---- NumPy's protocols

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        try:
            if self._trace.integers:
                inputs, kwargs = operations.operands(ufunc, inputs, method), operations.settled(kwargs)
            if meets(inputs) or (kwargs and meets(kwargs.values())):
                return operations.call_complex_ufunc(ufunc, method, inputs, kwargs)
            return operations.call_ufunc(ufunc, method, inputs, kwargs)
        except Exception:
            self._trace.failed = True
            raise

    def __array_function__(self, function, types, args, kwargs):
        try:
            if self._trace.integers:
                args, kwargs = operations.settled(args), operations.settled(kwargs)
            if meets(args) or (kwargs and meets(kwargs.values())):
                return operations.call_complex_function(function, args, kwargs)
            return operations.call_function(function, args, kwargs)
        except Exception:
            self._trace.failed = True
            raise

    # ---- properties

    def _sample(self):
        try:
            return _value_of(self, "_value")
        except AttributeError:
            layouts, sizes = self._trace.tape.layouts, self._trace.tape.sizes
            shape = tuple(map(sizes.value, layouts[self._trace.tape.values[self._id][2]].dims))
            zero = FAMILY_DTYPE[self._family].type(0.0)
            return np.broadcast_to(zero, shape) if shape else zero

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, as plain integers: the tape holds for these sizes (a guard)."""
        if not isinstance(self._sample(), ndarray):
            check_attribute(self, "shape")
            return ()
        if operations.box_of(self) is not None:
            return self._value.shape
        layout = self._trace.tape.layouts[self._trace.tape.values[self._id][2]]
        sizes = self._trace.tape.sizes
        return tuple(sizes.pin(dim) for dim in layout.dims)

    @shape.setter
    def shape(self, shape):
        other = self._in_shape(shape)
        self._id, self._level = other._id, other._level
        revalue(self, other._value)

    @property
    def base(self):
        """The array that owns the memory, or None."""
        if self._value.base is None:
            return None
        known = operations.array_of(self, self._value.base)
        return operations.seen(self, lambda value: value.base) if known is None else known

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps in the memory of NumPy's array, as plain integers."""
        return self._value.strides if self.shape is not None else ()

    @property
    def flags(self):
        return self._value.flags

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def T(self):
        check_attribute(self, "T")
        return operations.transpose(self)

    @property
    def mT(self):
        return np.swapaxes(self, -1, -2)

    @property
    def real(self):
        return self

    @real.setter
    def real(self, value):
        self[...] = value

    @property
    def imag(self):
        if not isinstance(self._value, ndarray):
            return self._value.imag
        zeros = np.zeros_like(self)
        if isinstance(zeros, np.ndarray):
            zeros.flags.writeable = False  # as NumPy's imaginary part of a real array
        return zeros

    @imag.setter
    def imag(self, value):
        raise TypeError("array does not have imaginary part to set")

    def __getattr__(self, name):
        if name in ("_id", "_level"):
            operations.settle(self)
            return object.__getattribute__(self, name)
        if name == "_value":
            value = self._trace.evaluation.value(self._id)
            revalue(self, value)
            return value
        if name == "is_integer" and not isinstance(self._value, np.ndarray):  # only numbers have this method
            return lambda: bool(np.equal(np.remainder(self, 1), 0))
        raise missing(self, name, f"ndarray.{name} of a traced array")


for _name, _ufunc in {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide},
    **{"floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "matmul": np.matmul},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"lshift": np.left_shift, "rshift": np.right_shift},
}.items():
    setattr(TracedArray, f"__i{_name}__", _in_place(_ufunc))
