"""Conversions of traced values to Python's numbers, as a mixin of `TracedArray`: guards and errors.

A Python number made from a traced value may decide what is recorded, so each becomes a guard; where it
would lose a derivative, an error names the line.
"""

from __future__ import annotations

import sys
from operator import index

import numpy as np

from ..errors import LeakError
from ..tape.tape import ACTIVE, CONSTANT
from ..usercode.frames import LOGS, asked_by, is_remainder, is_stored, unreachable
from . import operations
from .symbolic_sizes import NEAR
from .trace import failing

FLOATS = (np.float64, float)
FLOAT_HINT = (
    "leave float out, also of what is kept or printed (the number in an array of one entry is x[0] or "
    "x.reshape(())); where no derivative is needed, float(nt.stop_gradient(x))"
)
TRUTHS = (np.bool_, bool, *FLOATS)  # numbers whose truth value is no error


class Reads:
    """Conversions to Python's numbers and to plain arrays."""

    __slots__ = ()

    def _python(self, kind):
        with failing(self._trace):
            return kind(self._value)

    def __round__(self, digits=None):
        if isinstance(self._value, (np.ndarray, np.bool_)):
            raise TypeError(f"type {type(self._value).__name__} doesn't define __round__ method")
        if digits is not None:
            return self._as_weak(np.round(self, digits))
        size = operations.rounded_to_size(self, NEAR)
        return int(np.rint(self)) if size is None else size

    def __trunc__(self):
        return int(self)

    def __floor__(self):
        return int(np.floor(self))

    def __ceil__(self):
        return int(np.ceil(self))

    def _number(self):
        """Return the array's only entry as a number."""
        return self.reshape(()) if isinstance(self._value, np.ndarray) else self

    def __bool__(self):
        if self._value.__class__ in TRUTHS:
            outcome, number = bool(self._value), self
            if self._value.__class__ in FLOATS:
                number = np.not_equal(self, 0.0)  # the guard is on whether it is zero, not on the number
        else:
            outcome = self._python(bool)  # raises NumPy's own error where the truth value is ambiguous
            number = self._number()
            if np.asarray(self._value).dtype != np.bool_:
                number = np.not_equal(number, 0)
        self._trace.check_open()
        return self._trace.guard(number, "bool", outcome)

    def __int__(self):
        outcome = self._python(int)
        self._trace.check_open()
        number = self._number()
        self._trace.guard(np.trunc(number) if self.dtype.kind == "f" else number, "int", outcome)
        return outcome

    def __index__(self):
        outcome = index(self._value)
        self._trace.guard(self._number(), "int", outcome)
        return outcome

    def __float__(self):
        outcome = float(self._value)
        if self._level == ACTIVE:
            if asked_by(LOGS):
                return outcome  # a logger writes the number down and uses it for nothing else
            if is_remainder(sys._getframe(1)):  # A conversion there is one of text.
                self._trace.note_text()
                return outcome
            if is_stored():
                raise self._unreachable()
            raise self._leak("float(x)", FLOAT_HINT)
        if self._level == CONSTANT:
            self._trace.pin_constants(self)
            return outcome
        return self._trace.guard(self._number(), "float", outcome)

    def __complex__(self):
        if self._level == CONSTANT:
            return complex(float(self))
        raise self._leak("complex(x)", "build arrays with np.stack or np.array; x + 0j is complex")

    def __array__(self, dtype=None, copy=None):
        answer = operations.answer_to_sparse_product(sys._getframe(1), self._value)
        if answer is not None:
            return answer
        if self._level == CONSTANT:
            if self._value.__class__ is np.ndarray and self._trace.capture.refuses(sys._getframe(1)):
                raise self._trace.validity.plain_index()
            self._trace.pin_constants(self)
            return np.array(self._value, dtype)
        if is_stored():
            raise self._unreachable()
        raise self._leak("np.asarray(x)", "build arrays with np.stack, np.concatenate or np.where")

    def _unreachable(self) -> LeakError:
        """Return the error for an assignment, noted because ``a.flat[0] = x`` raises another one for it."""
        validity, error = self._trace.validity, LeakError(unreachable("an assignment"))
        validity.leak = validity.leak or error
        return error

    def _as_weak(self, result):
        """Keep the result of a Python float's method weakly typed."""
        if self._value.__class__ is float:
            result._value = float(result._value)
        return result
