"""Sums, products, quotients, comparisons of complex numbers, by real and imaginary part."""

from __future__ import annotations

import numpy as np

from .function_tables import rule

# ---- parts that may be None (zero everywhere)


def full(x) -> tuple:
    """Return both parts, zeros as numbers."""
    return (0.0 if x[0] is None else x[0]), (0.0 if x[1] is None else x[1])


def plus(a, b):
    return b if a is None else a if b is None else a + b


def minus(a, b):
    return a if b is None else -b if a is None else a - b


def times(a, b):
    if a is None or b is None:
        return None
    if a.__class__ is float and a == 1.0:
        return b
    if b.__class__ is float and b == 1.0:
        return a
    return a * b


def negated(a):
    return None if a is None else -a


@rule(np.add)
def add(a, b):
    return plus(a[0], b[0]), plus(a[1], b[1])


@rule(np.subtract)
def subtract(a, b):
    return minus(a[0], b[0]), minus(a[1], b[1])


@rule(np.negative)
def negative(a):
    return negated(a[0]), negated(a[1])


@rule(np.positive)
def positive(a):
    return a


@rule(np.conjugate)
def conjugate(a):
    return a[0], negated(a[1])


@rule(np.multiply)
def multiply(a, b):
    return (
        minus(times(a[0], b[0]), times(a[1], b[1])),
        plus(times(a[0], b[1]), times(a[1], b[0])),
    )


@rule(np.square)
def square(a):
    x, y = a
    if x is None or y is None:
        return (x * x if y is None else -(y * y)), None
    return (x - y) * (x + y), 2.0 * (x * y)


@rule(np.true_divide)
def divide(a, b):
    """Smith's algorithm divides by the larger part first, so that intermediate results do not overflow."""
    if b[1] is None:
        return tuple(None if x is None else x / b[0] for x in a)
    if b[0] is None:  # (x + iy)/(iw) = y/w - ix/w
        return (None if a[1] is None else a[1] / b[1]), (None if a[0] is None else -(a[0] / b[1]))
    c, d = b
    swap = np.abs(c) < np.abs(d)
    p, q = np.where(swap, d, c), np.where(swap, c, d)
    r = q / np.where(p == 0.0, 1.0, p)
    scale = p + q * r
    x, y = full(a)
    first, second = np.where(swap, y, x), np.where(swap, x, y)
    real = (first + second * r) / scale
    imag = second - first * r
    return real, np.where(swap, -imag, imag) / scale


@rule(np.reciprocal)
def reciprocal(a):
    return divide((1.0, None), a)


# ---- comparisons, predicates


@rule(np.equal)
def equal(a, b):
    (x, y), (c, d) = full(a), full(b)
    return np.logical_and(np.equal(x, c), np.equal(y, d))


@rule(np.not_equal)
def not_equal(a, b):
    (x, y), (c, d) = full(a), full(b)
    return np.logical_or(np.not_equal(x, c), np.not_equal(y, d))


def _ordered(ufunc, strict):
    """Register a comparison: by real parts and, where they are equal, by imaginary ones."""

    def compare(a, b):
        (x, y), (c, d) = full(a), full(b)
        return np.logical_or(strict(x, c), np.logical_and(np.equal(x, c), ufunc(y, d)))

    rule(ufunc)(compare)


_ordered(np.less, np.less)
_ordered(np.less_equal, np.less)
_ordered(np.greater, np.greater)
_ordered(np.greater_equal, np.greater)


def _either(ufunc, join):
    def test(a):
        x, y = full(a)
        return join(ufunc(x), ufunc(y))

    rule(ufunc)(test)


_either(np.isnan, np.logical_or)
_either(np.isinf, np.logical_or)
_either(np.isfinite, np.logical_and)


def truth(a):
    x, y = full(a)
    return np.logical_or(np.not_equal(x, 0.0), np.not_equal(y, 0.0))


def _logical(ufunc):
    rule(ufunc)(lambda *operands: ufunc(*map(truth, operands)))


for _ufunc in (np.logical_not, np.logical_and, np.logical_or, np.logical_xor):
    _logical(_ufunc)


# ---- size and direction


@rule(np.absolute)
def absolute(a):
    """The absolute value: 0 at 0, with derivative 0 there."""
    x, y = a
    if x is None or y is None:
        return np.abs(x if y is None else y)
    return np.hypot(x, y)


@rule(np.sign)
def sign(a):
    size = absolute(a)
    safe = np.where(size == 0.0, np.inf, size)  # the sign of zero is zero, with derivative zero
    return tuple(None if x is None else x / safe for x in a)
