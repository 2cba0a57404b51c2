"""Dual numbers in NumPy's object arrays: NumPy's own meaning of writes and views, with derivatives."""

import cmath
import math

import numpy as np


class Dual:
    """A number and its derivative along one direction, real or complex."""

    __slots__ = ("dot", "value")

    def __init__(self, value, dot=0.0):
        self.value, self.dot = value, dot

    def __add__(self, other):
        other = dual(other)
        return Dual(self.value + other.value, self.dot + other.dot)

    def __sub__(self, other):
        other = dual(other)
        return Dual(self.value - other.value, self.dot - other.dot)

    def __rsub__(self, other):
        return dual(other) - self

    def __mul__(self, other):
        other = dual(other)
        return Dual(self.value * other.value, self.value * other.dot + self.dot * other.value)

    def __truediv__(self, other):
        other = dual(other)
        result = self.value / other.value
        return Dual(result, (self.dot - result * other.dot) / other.value)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return Dual(-self.value, -self.dot)

    def __lt__(self, other):
        return self.value < dual(other).value

    def __gt__(self, other):
        return self.value > dual(other).value

    def _through(self, name, slope):
        module = cmath if isinstance(self.value, complex) else math
        return Dual(getattr(module, name)(self.value), getattr(module, slope)(self.value) * self.dot)

    def sin(self):
        return self._through("sin", "cos")

    def exp(self):
        return self._through("exp", "exp")

    def conjugate(self):
        return Dual(self.value.conjugate(), np.conj(self.dot))


def dual(x):
    return x if isinstance(x, Dual) else Dual(x)


def duals(values, directions):
    """Return an array of dual numbers."""
    result = np.empty(np.shape(values), object)
    for k in np.ndindex(result.shape):
        result[k] = Dual(values[k].item(), directions[k].item())
    return result
