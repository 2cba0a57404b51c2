"""``scipy.integrate`` of samples, and of functions at fixed points."""

from __future__ import annotations

import numpy as np

from ..numpy_api.calculus import sliced
from ..numpy_api.registration import unsupported_argument
from ..numpy_api.stand_ins import stands_for
from ..trace.axes import length, one_axis, pinned
from ..trace.operands import lift_first, values_of


@stands_for("scipy.integrate", "trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    return np.trapezoid(lift_first(y, x, dx), x, dx, axis)


def _steps(y, x, dx, axis):
    """Return the distances between samples, in a shape that broadcasts with them."""
    if x is None:
        return dx
    if np.ndim(values_of(x)) == 1:
        return np.reshape(np.diff(x), [-1 if k == axis else 1 for k in range(y.ndim)])
    return np.diff(x, axis=axis)


@stands_for("scipy.integrate", "cumulative_trapezoid")
def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    y = lift_first(y, x, dx)
    axis = one_axis(y, axis)
    means = (sliced(y, axis, 1, None) + sliced(y, axis, None, -1)) / 2.0
    return _led(np.cumsum(_steps(y, x, dx, axis) * means, axis), initial, axis)


def _led(result, initial, axis):
    if initial is None:
        return result
    shape = list(result._sizes())
    shape[axis] = 1
    initial = np.broadcast_to(lift_first(initial, result), tuple(shape))
    return np.concatenate([initial, result], axis)


@stands_for("scipy.integrate", "romb")
def romb(y, dx=1.0, axis=-1, show=False):
    """Extrapolate trapezoidal sums of ever smaller steps, as Richardson does."""
    if show:
        raise unsupported_argument("scipy.integrate.romb", "show")
    y = lift_first(y, dx)
    axis = one_axis(y, axis)
    count = pinned(y, axis) - 1
    rows, width = [], count
    while width >= 1:
        part = y[(*(slice(None),) * axis, slice(None, None, width))]
        row = [np.trapezoid(part, dx=1.0, axis=axis) * width * dx]
        for k, before in enumerate(rows[-1] if rows else []):
            row.append(row[k] + (row[k] - before) / (4.0 ** (k + 1) - 1.0))
        rows.append(row)
        width //= 2
    return rows[-1][-1]


def _quotient(a, b):
    """Return a / b, and zero where b is, as SciPy does for samples at the same place."""
    zero = np.equal(b, 0.0)
    return np.where(zero, 0.0, a / np.where(zero, 1.0, b))


@stands_for("scipy.integrate", "simpson")
def simpson(y, x=None, *, dx=1.0, axis=-1):
    """Integrate parabolas through three samples; Cartwright's formula takes the last of an even number."""
    y = lift_first(y, x, dx)
    axis = one_axis(y, axis)
    n = length(y, axis)  # stays symbolic: there is one tape for odd numbers of samples, and one for even ones
    if n == 1:
        return 0.0 * np.sum(y, axis)

    def at(k, stop=None, step=None):
        return y[(*(slice(None),) * axis, slice(k, stop, step))]

    if n == 2:
        return np.trapezoid(y, x, dx, axis)
    h = _steps(y, x, dx, axis)

    def step(first, last=None, by=None):
        return h if x is None else h[(*(slice(None),) * axis, slice(first, last, by))]

    odd = n if n % 2 else n - 1
    h0, h1 = step(0, odd - 1, 2), step(1, odd - 1, 2)
    ratio = _quotient(h0, h1)
    total = (h0 + h1) / 6.0 * (
        at(0, odd - 1, 2) * (2.0 - _quotient(1.0, ratio))
        + at(1, odd, 2) * (h0 + h1) * _quotient(h0 + h1, h0 * h1)
        + at(2, odd, 2) * (2.0 - ratio)
    )  # fmt: skip
    result = np.sum(total, axis)
    if n % 2 == 0:
        a, b = step(-2, -1), step(-1)
        last = (
            at(-1) * _quotient(2.0 * b**2 + 3.0 * a * b, 6.0 * (b + a))
            + at(-2, -1) * _quotient(b**2 + 3.0 * a * b, 6.0 * a)
            - at(-3, -2) * _quotient(b**3, 6.0 * a * (a + b))
        )
        result = result + np.sum(last, axis)
    return result


@stands_for("scipy.integrate", "fixed_quad", run=None)
def fixed_quad(func, a, b, args=(), n=5):
    """Apply Gauss and Legendre's rule of n points; the function is called once, with all of them."""
    points, weights = np.polynomial.legendre.leggauss(n)
    at = (b - a) * (points + 1.0) / 2.0 + a
    return (b - a) / 2.0 * np.sum(weights * func(at, *args), axis=-1), None
