"""Polynomials by their coefficients, highest power first: roots, quotients, values, derivatives, fits."""

from __future__ import annotations

import functools

import numpy as np

from ..matrix.eigen import real_eigvals
from ..trace.axes import entries, length, pinned
from ..trace.operands import find_trace, lift, lift_all, lift_first, values_of
from ..trace.primitives import array_instruction, broadcast_to, dims_of, value_of
from ..trace.symbolic_sizes import is_size
from .function_tables import HOLDS, MAKERS
from .registration import composes
from .sized import positions
from .stand_ins import class_that_makes


@composes(np.roots, complex=HOLDS)
def roots(p):
    """Eigenvalues of the companion matrix, as NumPy computes them; which ends are zero is guarded."""
    p = lift_first(p)
    if p.ndim == 0:
        p = np.reshape(p, (1,))
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    first, last = 0, pinned(p, 0)
    while first < last and bool(p[first] == 0):
        first += 1
    while first < last and bool(p[last - 1] == 0):
        last -= 1
    if first == last:
        return np.array([])
    zeros = np.zeros(pinned(p, 0) - last)
    p = p[first:last]
    p = p if p.dtype.kind in "fc" else np.astype(p, float)
    count = last - first - 1
    if count == 0:
        return zeros
    companion = np.concatenate([(-p[1:] / p[0])[None, :], np.eye(count - 1, count)])
    return np.concatenate([real_eigvals(companion), zeros])


@composes(np.polydiv, complex=HOLDS)
def polydiv(u, v):
    """Long division; whether leading coefficients of the remainder are zero is guarded."""
    u, v = lift_all(u, v)
    u, v = (np.reshape(x, (-1,)) + 0.0 if x.ndim == 0 else x + 0.0 for x in (u, v))
    n = pinned(v, 0)
    steps = pinned(u, 0) - n + 1
    if steps < 1:
        return np.zeros(1) * (u[0] + v[0]), u
    scale, quotient, rest = 1.0 / v[0], [], u
    done = []
    for _ in range(steps):
        factor = scale * rest[0]
        quotient.append(factor)
        rest = np.concatenate([rest[:n] - factor * v, rest[n:]])
        done.append(rest[:1])
        rest = rest[1:]
    remainder = np.concatenate([*done, rest])
    while remainder.shape[0] > 1 and bool(np.allclose(remainder[0], 0, rtol=1e-14)):
        remainder = remainder[1:]
    return np.stack(quotient), remainder


# ---- values, derivatives, sums and products


@composes(np.polyval, complex="complex_reductions.polyval")
def polyval(p, x):
    p, x = lift_all(p, x)
    dtype = np.result_type(values_of(p), values_of(x))
    exact = dtype.kind == "f" or dtype == np.int64  # smaller integers wrap around
    if p.ndim == 1 and is_size(length(p, 0)) and exact:
        return _horner(p, x)
    result = np.zeros_like(x)
    for k in range(pinned(p, 0)):  # p[k] is a row of numbers where polynomials stand side by side
        result = result * x + p[k]
    return result


def _horner(p, x):
    """Return the value of a polynomial of any degree: one recurrence, with NumPy's roundings."""
    (n,) = dims_of(p)
    table, count = p._trace.tape.sizes, values_of(p).shape[0]
    shape = np.shape(values_of(x))  # Python's numbers have none of their own
    factors = broadcast_to(np.expand_dims(x, -1), (*shape, count), (*dims_of(x), n))
    states = np.zeros((*shape, count + 1), np.result_type(values_of(p), values_of(x), 0.0))
    for k in range(count):
        states[..., k + 1] = states[..., k] * values_of(x) + values_of(p)[k]
    zero = np.zeros((), states.dtype)
    return array_instruction("recurrence", (factors, p, zero), states, dims={"m": table.add(n, 1)})[..., -1]


@composes(np.polyder, complex=HOLDS)
def polyder(p, m=1):
    p = lift_first(p)
    for _ in range(m):
        n, p = length(p, 0), p[:-1]
        p = p * (n - 1 - positions(p, 0)) if is_size(n) else p * np.arange(n - 1, 0, -1.0)
    return p


@composes(np.polyadd, complex=HOLDS)
def polyadd(a1, a2):
    a1, a2 = map(np.atleast_1d, lift_all(a1, a2))
    gap = length(a1, 0) - length(a2, 0)
    return np.pad(a1, (max(-gap, 0), 0)) + np.pad(a2, (max(gap, 0), 0))


@composes(np.polymul, complex=HOLDS)
def polymul(a1, a2):
    # Leading zeros are left out, as in np.poly1d: how many there are is guarded.
    return np.convolve(*(_without_leading_zeros(np.atleast_1d(x)) for x in lift_all(a1, a2)))


def _without_leading_zeros(p):
    first, count = 0, length(p, 0)
    while first < count - 1 and bool(p[first] == 0):  # guards, of which one is on the size
        first += 1
    return p[first:] if first else p


@composes(np.polysub, complex=HOLDS)
def polysub(a1, a2):
    return np.polyadd(a1, np.negative(lift_first(a2, a1)))[...]


@composes(np.polyint, complex=HOLDS)
def polyint(p, m=1, k=None):
    p = lift_first(p, k)
    constants = np.zeros(m) if k is None else np.broadcast_to(lift_first(k, p), (m,))
    for step in range(m):
        n = length(p, -1)
        powers = n - positions(p, 0) if is_size(n) else np.arange(n, 0, -1)
        p = np.concatenate([p / powers, np.atleast_1d(constants[step])])
    return p[...] if m == 0 else p


@composes(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Solve the least squares of a scaled Vandermonde matrix, with the scale and the cutoff of NumPy."""
    trace = find_trace(x, y, w)
    x, y = lift(trace, x) + 0.0, lift(trace, y) + 0.0
    matrix = np.vander(x, int(deg) + 1)
    if w is not None:
        w = lift(trace, w)
        matrix = matrix * w[:, None]
        y = y * (w[:, None] if y.ndim == 2 else w)
    scale = np.sqrt(np.sum(np.square(matrix), 0))
    cutoff = entries(x, (0,)) * np.finfo(x.dtype).eps if rcond is None else rcond
    matrix = matrix / scale
    solution, *details = np.linalg.lstsq(matrix, y, cutoff)
    result = solution / (scale[:, None] if y.ndim == 2 else scale)
    if full:
        return result, *details, cutoff
    if not cov:
        return result
    covariance = np.linalg.inv(matrix.T @ matrix) / np.outer(scale, scale)
    covariance = covariance if y.ndim == 1 else covariance[:, :, None]
    if cov == "unscaled":
        return result, covariance
    freedom = entries(x, (0,), int(deg) + 1)
    return result, covariance * (np.sum(np.square(y - matrix @ solution), 0) / freedom)


class TracedPoly1d(np.poly1d):
    """NumPy's polynomial in a trace; NumPy's quotients and values make arrays of plain numbers of it."""

    __hash__ = None  # type: ignore[assignment]  # as NumPy's

    def __truediv__(self, other):
        if _is_number(other):
            return _own(np.poly1d(self.coeffs / other))
        return tuple(map(_own, map(np.poly1d, np.polydiv(self.coeffs, _own_of(other).coeffs))))

    def __call__(self, val):
        if not isinstance(val, np.poly1d):
            return np.polyval(self.coeffs, val)
        composed = 0
        for coefficient in self.coeffs:
            composed = _own(composed * val) + coefficient
        return composed

    def __rtruediv__(self, other):
        if _is_number(other):
            return _own(np.poly1d(other / self.coeffs))
        return _own_of(other) / self


def _is_number(x) -> bool:
    return np.isscalar(value_of(x))


def _own(found):
    """Return a polynomial that NumPy's class has made, as one of the class above."""
    if type(found) is np.poly1d:
        found.__class__ = TracedPoly1d
    return found


def _own_of(x):
    trace = find_trace(x)
    return _own(np.poly1d(x if trace is None else lift(trace, x)))


def _closed(theirs):
    """Return a method of NumPy's class whose result is of the class above."""
    return functools.wraps(theirs)(lambda self, *args, **kwargs: _own(theirs(self, *args, **kwargs)))


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "neg", "pos", "pow"):
    setattr(TracedPoly1d, f"__{_name}__", _closed(getattr(np.poly1d, f"__{_name}__")))
for _name in ("deriv", "integ"):
    setattr(TracedPoly1d, _name, _closed(getattr(np.poly1d, _name)))


def _poly1d(original: type) -> type:
    """Return the stand-in for ``np.poly1d``: it makes polynomials of lists of traced numbers, too."""

    def make(c_or_r, r=False, variable=None):
        trace = find_trace(c_or_r)
        return _own(original(c_or_r if trace is None else lift(trace, c_or_r), r, variable))

    return class_that_makes(original, make)


MAKERS["numpy"]["poly1d"] = _poly1d
