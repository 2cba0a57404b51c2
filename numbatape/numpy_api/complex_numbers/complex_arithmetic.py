"""Sums, products, quotients, comparisons of complex numbers, by real and imaginary part."""

from __future__ import annotations

import operator

import numpy as np

from ...trace.complex_parts import NEGATIVE, Zero, snapshot
from ..function_tables import complex_ufunc

# ---- parts that may be zero everywhere: None (+0), or a `Zero`, whose signs are found where they matter

DEEPEST = 24  # parts of zeros are computed at once when they consist of more than this many


def is_zero(x) -> bool:
    return x is None or x.__class__ is Zero


def without_sign(x):
    """Return a part, None for one that is zero."""
    return None if is_zero(x) else x


def signed(x):
    """Return a part with the signs of its zeros."""
    return 0.0 if x is None else x.signs({}) if x.__class__ is Zero else x


def full(x) -> tuple:
    """Return both parts, zeros as numbers with their signs."""
    return signed(x[0]), signed(x[1])


def numbers(x) -> tuple:
    """Return both parts for functions that ask for no sign of a zero."""
    return (0.0 if is_zero(x[0]) else x[0]), (0.0 if is_zero(x[1]) else x[1])


def _zero(combine, *parts) -> Zero:
    """Return the zeros that have the signs of a combination of parts.

    The parts may be written to before the signs are asked for: they are kept as they are now.
    """
    kept = [snapshot(x) for x in parts]

    def signs(known):
        if id(kept) not in known:
            known[id(kept)] = combine(*(_sign(x, known) for x in kept))
        return known[id(kept)]

    depth = 1 + sum(x.depth for x in kept if x.__class__ is Zero)
    if depth > DEEPEST:
        found = signs({})
        return Zero(lambda known: found, 1)
    return Zero(signs, depth)


def _sign(x, known):
    return 0.0 if x is None else x.signs(known) if x.__class__ is Zero else np.copysign(1.0, x)


def plus(a, b):
    if is_zero(a) or is_zero(b):
        if not is_zero(a):
            return a
        if not is_zero(b):
            return b
        return None if a is None or b is None else _zero(operator.add, a, b)
    return a + b


def minus(a, b):
    if is_zero(b):
        return a if b is None or not is_zero(a) else None if a is None else _zero(operator.sub, a, b)
    if is_zero(a):  # the difference of two zeros is +0
        return -b if a is NEGATIVE else signed(a) - b
    return a - b


def times(a, b):
    if is_zero(a) or is_zero(b):
        if is_zero(b):
            a, b = b, a
        if b is None or (b.__class__ is float and not b < 0.0):
            return a  # a positive factor leaves the signs of zeros
        return _zero(operator.mul, a, b)
    if a.__class__ is float and a == 1.0:
        return b
    if b.__class__ is float and b == 1.0:
        return a
    return a * b


def over(a, b):
    """Return the quotient by a part that is not zero everywhere."""
    return times(a, b) if is_zero(a) else a / b


def negated(a):
    return NEGATIVE if a is None else _zero(operator.neg, a) if a.__class__ is Zero else -a


@complex_ufunc(np.add)
def add(a, b):
    return plus(a[0], b[0]), plus(a[1], b[1])


@complex_ufunc(np.subtract)
def subtract(a, b):
    return minus(a[0], b[0]), minus(a[1], b[1])


@complex_ufunc(np.negative)
def negative(a):
    return negated(a[0]), negated(a[1])


@complex_ufunc(np.positive)
def positive(a):
    return a


@complex_ufunc(np.conjugate)
def conjugate(a):
    return a[0], negated(a[1])


@complex_ufunc(np.multiply)
def multiply(a, b):
    return (
        minus(times(a[0], b[0]), times(a[1], b[1])),
        plus(times(a[0], b[1]), times(a[1], b[0])),
    )


@complex_ufunc(np.square)
def square(a):
    x, y = a
    if is_zero(x) or is_zero(y):
        return (x * x if is_zero(y) else -(y * y)), times(x, y)
    return (x - y) * (x + y), 2.0 * (x * y)


@complex_ufunc(np.true_divide)
def divide(a, b):
    """Smith's algorithm divides by the larger part first, so that intermediate results do not overflow."""
    c, d = b
    if is_zero(d):  # the zeros that NumPy adds decide about the signs of zeros
        turn = times(d, c)
        return over(plus(a[0], times(a[1], turn)), c), over(minus(a[1], times(a[0], turn)), c)
    if is_zero(c):  # (x + iy)/(iw) = y/w - ix/w
        turn = times(c, d)
        return over(plus(times(a[0], turn), a[1]), d), over(minus(times(a[1], turn), a[0]), d)
    swap = np.abs(c) < np.abs(d)
    p, q = np.where(swap, d, c), np.where(swap, c, d)
    r = q / np.where(p == 0.0, 1.0, p)
    scale = p + q * r
    x, y = full(a)
    first, second = np.where(swap, y, x), np.where(swap, x, y)
    real = (first + second * r) / scale
    imag = second - first * r
    return real, np.where(swap, -imag, imag) / scale


@complex_ufunc(np.reciprocal)
def reciprocal(a):
    x, y = a
    if is_zero(y):
        return 1.0 / x, times(negated(times(y, x)), x)
    if is_zero(x):
        return times(times(x, y), y), -1.0 / y
    return divide((1.0, None), a)


# ---- comparisons, predicates


@complex_ufunc(np.equal)
def equal(a, b):
    (x, y), (c, d) = numbers(a), numbers(b)
    return np.logical_and(np.equal(x, c), np.equal(y, d))


@complex_ufunc(np.not_equal)
def not_equal(a, b):
    (x, y), (c, d) = numbers(a), numbers(b)
    return np.logical_or(np.not_equal(x, c), np.not_equal(y, d))


def _ordered(ufunc, strict):
    """Register a comparison: by real parts and, where they are equal, by imaginary ones."""

    def compare(a, b):
        (x, y), (c, d) = numbers(a), numbers(b)
        return np.logical_or(strict(x, c), np.logical_and(np.equal(x, c), ufunc(y, d)))

    complex_ufunc(ufunc)(compare)


_ordered(np.less, np.less)
_ordered(np.less_equal, np.less)
_ordered(np.greater, np.greater)
_ordered(np.greater_equal, np.greater)


def _either(ufunc, join):
    def test(a):
        x, y = numbers(a)
        return join(ufunc(x), ufunc(y))

    complex_ufunc(ufunc)(test)


_either(np.isnan, np.logical_or)
_either(np.isinf, np.logical_or)
_either(np.isfinite, np.logical_and)


def truth(a):
    x, y = numbers(a)
    return np.logical_or(np.not_equal(x, 0.0), np.not_equal(y, 0.0))


def _logical(ufunc):
    complex_ufunc(ufunc)(lambda *operands: ufunc(*map(truth, operands)))


for _ufunc in (np.logical_not, np.logical_and, np.logical_or, np.logical_xor):
    _logical(_ufunc)


# ---- size and direction


@complex_ufunc(np.absolute)
def absolute(a):
    """The absolute value: 0 at 0, with derivative 0 there."""
    x, y = a
    if is_zero(x) or is_zero(y):
        return np.abs(x if is_zero(y) else y)
    return np.hypot(x, y)


@complex_ufunc(np.sign)
def sign(a):
    size = absolute(a)
    safe = np.where(size == 0.0, np.inf, size)  # the sign of zero is zero, with derivative zero
    return tuple(x if is_zero(x) else x / safe for x in a)
