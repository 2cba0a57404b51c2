"""Python's operators of traced arrays.

Numbers take a fast path: each operator has a method of its own, which computes the value by Python's
arithmetic and records one instruction (`numbatape.trace.number_calls`). Everything else goes through the
operator's ufunc.
"""

from __future__ import annotations

import operator
import sys

import numpy as np

from ..ops import OPCODE, OPS, Elementwise
from ..tape.code import LAST_OUT
from ..tape.instruction import NONE, opcode
from ..tape.tape import ACTIVE, F64, VARYING
from ..usercode.frames import catches, where_in_user_code
from . import number_calls, operations
from .complex_array import combine as complex_combine
from .kinds import PYTHON, compared_with_no_number, truth
from .library_kinds import DECIDES, LABELLED, is_no_array, is_sparse, package_of
from .methods import in_place, may_be_operand
from .number_calls import PLAIN_NUMBERS, POWER, call_of_numbers, is_repeated, record_number, repeated
from .trace import failing

float64, ndarray = np.float64, np.ndarray
PRODUCTS = (-1, 1, 2, 3)  # These exponents are recorded as quotients and products.
OTHER, WEAK, STRONG = 0, 1, 2  # the kinds of operands that `_kind` returns
DIVISIONS = (np.true_divide, np.floor_divide, np.remainder)
NEG, SQUARE = opcode(OPCODE["neg"], F64), opcode(OPCODE["square"], F64)

TracedArray: type  # `equip` sets it, because this file cannot import the class, which is above it


def _arithmetic(name: str, ufunc, function):
    """Return ``(forward, reflected)`` methods of an operator of Python's arithmetic."""
    row = OPS[OPCODE[name]]
    assert isinstance(row, Elementwise)
    code, commutes = opcode(OPCODE[name], F64), row.commutes
    twice = opcode(OPCODE[row.twice], F64) if row.twice else None
    divides = ufunc in DIVISIONS

    def forward(self, other):
        """Record ``self op other`` of two numbers at once; hand everything else to NumPy's function."""
        left, kind = self._value, type(other)
        its = left.__class__
        if its is float64 or (its is float and not divides):
            trace = self._trace
            level = self._level
            if kind is TracedArray:
                right = other._value
                its = right.__class__
                if (its is float64 or its is float) and other._trace is trace and not trace.closed:
                    active = 1 if level == ACTIVE else 0
                    if other._level == ACTIVE:
                        active += 2
                        level = ACTIVE
                    elif other._level > level:
                        level = other._level
                    value = function(left, right)
                    a, b = self._id, other._id
                    if twice is not None and a == b:
                        return record_number(trace, value, twice, active & 1, level, a, NONE)
                    if commutes:
                        recent = trace.tape.code.recent
                        if recent and recent[LAST_OUT] == b:
                            # The last result becomes operand a, which the engine can take from a register.
                            active = (active >> 1) | (active & 1) << 1
                            return record_number(trace, value, code, active, level, b, a)
                    return record_number(trace, value, code, active, level, a, b)
            elif kind in PLAIN_NUMBERS and not trace.closed:
                number = trace.constants.floats.get(other)
                if number is None:
                    number = trace.constants.number_of(other, F64, of_floats=True)
                active = 1 if level == ACTIVE else 0
                return record_number(trace, function(left, other), code, active, level, self._id, number)
        return general(ufunc, self, other)

    def reflected(self, other):
        right = self._value
        its = right.__class__
        if (its is float64 or (its is float and not divides)) and type(other) in PLAIN_NUMBERS:
            trace = self._trace
            if not trace.closed:
                number = trace.constants.floats.get(other)
                if number is None:
                    number = trace.constants.number_of(other, F64, of_floats=True)
                level = self._level
                active = 2 if level == ACTIVE else 0
                return record_number(trace, function(other, right), code, active, level, number, self._id)
        return general(ufunc, other, self)

    return forward, reflected


def _comparison(name: str, ufunc, function):
    """Return the method of a comparison, whose result carries no derivative."""
    code = opcode(OPCODE[name], F64)

    def compare(self, other):
        """Record a comparison of two numbers at once; hand everything else to NumPy's function."""
        left, kind = self._value, type(other)
        its = left.__class__
        if its is float64 or its is float:
            trace, level, right, number = self._trace, self._level, other, None
            if kind is TracedArray:
                right = other._value
                its = right.__class__
                if (its is float64 or its is float) and other._trace is trace and not trace.closed:
                    level, number = max(level, other._level), other._id
            elif kind in PLAIN_NUMBERS and not trace.closed:
                number = trace.constants.floats.get(other)
                if number is None:
                    number = trace.constants.number_of(other, F64)
            if number is not None:
                value = function(left, right)
                result = record_number(trace, value, code, 0, min(level, VARYING), self._id, number)
                return truth(result, compared=True) if value.__class__ is bool else result
        if (
            not may_be_operand(other)
            or type(other) is operations.TracedInteger
            or (its is not ndarray and is_no_array(other))
        ):
            return compared_with_no_number(ufunc, self, other)
        if _is_usual(self, other):
            with failing(self._trace):
                return operations.call_ufunc(ufunc, "__call__", (self, other), {})
        if kind in (list, tuple) and _is_weak(self):
            return NotImplemented
        if package_of(other) in LABELLED:
            return operations.ufunc_of_labelled(ufunc, (self, other), {})
        result = ufunc(self, other)
        of_python = _is_weak(other) or getattr(other, "_value", other).__class__ is complex
        if its is not float64 and _is_weak(self) and of_python:
            result._value = bool(result._value)  # Python's own comparison gives a bool
            return truth(result, compared=True)
        return result

    return compare


def _by_ufunc(ufunc):
    """Return ``(forward, reflected)`` methods of an operator that has no fast path."""
    return lambda self, other: general(ufunc, self, other), lambda self, other: general(ufunc, other, self)


def _product(self, other):
    """Return a product of matrices; the place is noted where code has written it."""
    if type(other) is ndarray and _is_usual(self, other) and not self._trace.arguments.labels:
        self._trace.capture.note_product(self, other, sys._getframe(1))
    return general(np.matmul, self, other)


def _of_bits(ufunc):
    def combine(left, right):
        if _is_whole(left) and _is_whole(right):
            return operations.combine_bits(ufunc, left, right)
        return ufunc(left, right)

    return combine, lambda self, other: combine(other, self)


def general(ufunc, left, right):
    """Return the result of a binary operator by its ufunc."""
    if _is_usual(left, right):
        with failing((left if type(left) is TracedArray else right)._trace):
            # By way of NumPy's protocol it would take 5 µs more.
            return operations.call_ufunc(ufunc, "__call__", (left, right), {})
    if _is_whole(left) and _is_whole(right):
        return operations.combine_integers(ufunc, left, right)
    if _has_fraction(left, right):
        numbers = _without_fractions(left, right)
        if numbers is not None:
            return general(ufunc, *numbers)
    if is_sparse(left) or is_sparse(right):
        with failing((left if type(left) is TracedArray else right)._trace):
            return operations.operate_on_sparse(ufunc, left, right)
    number, other = (left, right) if type(left) is TracedArray else (right, left)
    kind = type(other)
    if hasattr(kind, DECIDES) or getattr(kind, "__array_ufunc__", kind) is None:
        return NotImplemented  # by None, NumPy's arrays leave an operator to the other class, too
    if (
        ufunc is np.multiply
        and is_repeated(kind)
        and not isinstance(getattr(number, "_value", number), ndarray)
    ):
        return repeated(number, other)
    if type(other) in (list, tuple) and _is_weak(number):
        return NotImplemented
    if package_of(other) in LABELLED and ufunc is not np.matmul:
        return operations.ufunc_of_labelled(ufunc, (left, right), {})
    if not may_be_operand(left) or not may_be_operand(right) or type(right) is operations.TracedInteger:
        return NotImplemented
    if is_no_array(other) and not isinstance((left if other is right else right)._value, ndarray):
        return NotImplemented
    if ufunc in DIVISIONS and _is_weak(left) and _is_weak(right):
        require_divisor(ufunc, left, right)
    result = complex_combine(ufunc, left, right)
    if _is_weak(left) and _is_weak(right) and isinstance(result._value, float):
        result._value = float(result._value)  # a Python float stays weakly typed (NEP 50)
    return result


def _without_fractions(left, right) -> tuple | None:
    """Return a traced number and a Fraction as a traced number and a float; None for a traced array.

    A Fraction becomes a float where it meets a float. NumPy makes an array of objects of it and an array.
    """
    if any(type(x) is TracedArray and isinstance(x._value, ndarray) for x in (left, right)):
        return None
    as_floats = [float(x) if _has_fraction(x) else x for x in (left, right)]
    return as_floats[0], as_floats[1]


def _has_fraction(*operands) -> bool:
    """Whether one of these is a Fraction, of a module (with `decimal`) that not every program imports."""
    fractions = sys.modules.get("fractions")
    return fractions is not None and any(type(x) is fractions.Fraction for x in operands)


def require_divisor(ufunc, left, right) -> None:
    """Raise where Python's numbers are divided by zero; else record that the divisor is not zero.

    A divisor that is differentiated may be zero, unless the function may catch the error: derivatives are
    limits, which may be infinite. In the body of a loop, only constants are looked at.
    """
    traced = type(right) is TracedArray
    if traced and not right._trace.may_guard(right):
        return
    if traced and right._level == ACTIVE and not catches(ZeroDivisionError, right._trace.start):
        return
    with failing((right if traced else left)._trace):
        is_zero = (right._value if traced else right) == 0
        if traced:
            right._trace.guard(np.not_equal(right, 0), "bool", not is_zero)
        if is_zero:
            error = ZeroDivisionError(f"division by zero at {where_in_user_code()}")
            raise right._trace.validity.foresee(error) if traced else error


def _power(left, right):
    if _has_fraction(left, right):
        left, right = _without_fractions(left, right) or (left, right)
    # Plain arrays that were made while tracing have a trace, too.
    trace = (left if isinstance(left, TracedArray) else right)._trace
    of_python = _is_weak(left) and _is_weak(right) and not (_is_whole(left) and _is_whole(right))
    result = None
    if trace.values == "numpy" and may_be_operand(left) and may_be_operand(right):
        with failing(trace):
            result = operations.power_of_scalars(left, right)
    if result is None:
        # NumPy's operator, other than its function, takes the power of truth values for a square.
        result = np.square(left) if _is_square_of_truths(left, right) else general(np.power, left, right)
    return operations.python_power(result, left, right) if of_python else result


def _is_square_of_truths(left, right) -> bool:
    value = left._value if type(left) is TracedArray else left
    return isinstance(value, ndarray) and value.dtype.kind == "b" and type(right) is int and right == 2


def _is_usual(left, right) -> bool:
    """Whether both operands are real, and one at least is a number or an array of NumPy's."""
    its, other = _kind(left), _kind(right)
    return its != OTHER and other != OTHER and its + other > 2 * WEAK


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


def _is_whole(arg) -> bool:
    """Whether a number is an int or a truth value of Python's."""
    kind = arg._value.__class__ if type(arg) is TracedArray else type(arg)
    return kind is int or kind is bool


def _is_weak(arg) -> bool:
    kind = arg._value.__class__ if type(arg) is TracedArray else type(arg)
    return kind is float or kind is int or kind is bool


def _pow(self, other, modulo=None):
    left, trace = self._value, self._trace
    if left.__class__ is float64 and modulo is None and trace.values == "fast" and not trace.closed:
        if other.__class__ is int or other.__class__ is float:
            if other == 2:
                level = self._level
                active = 1 if level == ACTIVE else 0
                return record_number(trace, left * left, SQUARE, active, level, self._id, NONE)
            special = other in PRODUCTS
        else:
            special = type(other) is not TracedArray
        if not special:
            found = call_of_numbers(trace, POWER, np.power, (self, other))
            if found is not None:
                return found
    return NotImplemented if modulo is not None else _power(self, other)


def _neg(self):
    value, level = self._value, self._level
    if (value.__class__ is float64 or value.__class__ is float) and not self._trace.closed:
        active = 1 if level == ACTIVE else 0
        return record_number(self._trace, -value, NEG, active, level, self._id, NONE)
    return operations.combine_integers(np.subtract, 0, self) if _is_whole(self) else np.negative(self)


def _pos(self):
    if _is_whole(self):
        return operations.as_integer(self)
    return self if type(self._value) in (float, float64) else np.positive(self)


def _abs(self):
    return operations.absolute_integer(self) if _is_whole(self) else self._as_weak(np.absolute(self))


def _invert(self):
    return operations.combine_integers(np.subtract, -1, self) if _is_whole(self) else np.invert(self)


def _divmod(left, right, self, other):
    if not may_be_operand(other) or (self._value.__class__ is not ndarray and is_no_array(other)):
        return NotImplemented
    return left // right, left % right


def _methods() -> dict:
    """Return the methods by name."""
    found = {
        "__neg__": _neg,
        "__pos__": _pos,
        "__abs__": _abs,
        "__invert__": _invert,
        "__divmod__": lambda self, other: _divmod(self, other, self, other),
        "__rdivmod__": lambda self, other: _divmod(other, self, self, other),
        "__pow__": _pow,
        "__rpow__": lambda self, other: _power(other, self),
    }
    pairs = {
        "add": _arithmetic("add", np.add, operator.add),
        "sub": _arithmetic("sub", np.subtract, operator.sub),
        "mul": _arithmetic("mul", np.multiply, operator.mul),
        "truediv": _arithmetic("div", np.true_divide, operator.truediv),
        "floordiv": _by_ufunc(np.floor_divide),
        "mod": _by_ufunc(np.remainder),
        "matmul": (_product, _by_ufunc(np.matmul)[1]),
        "and": _of_bits(np.bitwise_and),
        "or": _of_bits(np.bitwise_or),
        "xor": _of_bits(np.bitwise_xor),
        "lshift": _of_bits(np.left_shift),
        "rshift": _of_bits(np.right_shift),
    }
    for name, (forward, reflected) in pairs.items():
        found |= {f"__{name}__": forward, f"__r{name}__": reflected}
    for name, ufunc in IN_PLACE.items():
        found[f"__i{name}__"] = in_place(ufunc)
    for name, (row, ufunc) in COMPARISONS.items():
        found[f"__{name}__"] = _comparison(row, ufunc, getattr(operator, name))
    return found


IN_PLACE = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide},
    **{"floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "matmul": np.matmul},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"lshift": np.left_shift, "rshift": np.right_shift},
}
COMPARISONS = {
    **{"lt": ("less", np.less), "le": ("less_equal", np.less_equal)},
    **{"gt": ("greater", np.greater), "ge": ("greater_equal", np.greater_equal)},
    **{"eq": ("equal", np.equal), "ne": ("not_equal", np.not_equal)},
}


def equip(cls: type) -> None:
    """Give the class of traced arrays its operators."""
    global TracedArray
    TracedArray = cls
    number_calls.equip(cls)
    for name, method in _methods().items():
        method.__name__ = name
        setattr(cls, name, method)
