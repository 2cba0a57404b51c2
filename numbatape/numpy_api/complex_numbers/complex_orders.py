"""The largest and the smallest of complex numbers: by real parts, where these are equal by imaginary ones."""

from __future__ import annotations

import math

import numpy as np

from ...trace.operands import values_of
from ..function_tables import complex_ufunc
from ..reductions import NO, flag, is_given
from ..registration import unsupported_argument


def _position(extremum):
    """Return a function for the first place of an extremum along an axis, or of the first NaN."""

    def place(a, axis=None, out=None, *, keepdims=False):
        keepdims = flag(keepdims)
        if axis is None:
            found = place(np.ravel(a), 0)
            return np.reshape(found, (1,) * np.ndim(values_of(a))) if keepdims else found
        re, im = np.real(a), np.imag(a)
        first = np.equal(re, extremum(re, axis, keepdims=True))
        worst = -np.inf if extremum is np.max else np.inf
        best = np.equal(im, extremum(np.where(first, im, worst), axis, keepdims=True))
        missing = np.isnan(a)
        best = np.where(np.any(missing, axis, keepdims=True), missing, np.logical_and(first, best))
        return np.argmax(best, axis, keepdims=keepdims)

    return place


def _extremum(position):
    def reduce(a, axis=None, out=None, keepdims=False, initial=NO, where=NO):
        if is_given(initial) or (where is not NO and where is not True):
            raise unsupported_argument("np.max", "initial and where, of complex numbers")
        keepdims, numbers = flag(keepdims), np.ndim(values_of(a)) == 0
        a = np.reshape(a, (1,)) if numbers else a
        count = np.ndim(values_of(a))
        axes = range(count) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = [k % count for k in axes]
        kept = [k for k in range(count) if k not in axes]
        shape = [*(a.shape[k] for k in kept), math.prod(a.shape[k] for k in axes)]
        rows = np.reshape(np.transpose(a, [*kept, *axes]), shape)
        found = np.take_along_axis(rows, position(rows, -1, keepdims=True), -1)[..., 0]
        return np.expand_dims(found, tuple(axes)) if keepdims and not numbers else found[()]

    return reduce


argmax, argmin = _position(np.max), _position(np.min)
largest, smallest = _extremum(argmax), _extremum(argmin)


def _of_two(before, beyond, absent: bool):
    """Return a function of two pairs of parts that chooses one; NaN is chosen, or left where ``absent``."""

    def choose(x, y):
        (a, b), (c, d) = ([0.0 if part is None else part + 0.0 for part in pair] for pair in (x, y))
        left = np.logical_or(beyond(a, c), np.logical_and(np.equal(a, c), before(b, d)))
        other = np.isnan(c) | np.isnan(d) if absent else np.isnan(a) | np.isnan(b)
        defined = ~(np.isnan(a) | np.isnan(b) | np.isnan(c) | np.isnan(d))
        left = np.logical_or(np.logical_and(left, defined), other)
        alike = np.logical_and(np.equal(a, c), np.equal(b, d))  # a tie is shared equally
        return tuple(np.where(alike, 0.5 * p + 0.5 * q, np.where(left, p, q)) for p, q in ((a, c), (b, d)))

    return choose


for _ufuncs, _before, _beyond in (
    ((np.maximum, np.fmax), np.greater_equal, np.greater),
    ((np.minimum, np.fmin), np.less_equal, np.less),
):
    for _ufunc, _absent in zip(_ufuncs, (False, True), strict=True):
        complex_ufunc(_ufunc)(_of_two(_before, _beyond, _absent))
