"""Convolutions and correlations of traced arrays, by the ops for matrices."""

from __future__ import annotations

import numpy as np

from ..emitter.instructions import row
from ..trace import complex_parts
from ..trace.axes import drop_axes, length, pinned
from ..trace.operands import lift_all, values_of
from ..trace.primitives import array_instruction, dims_of, expand
from .complex_numbers.complex_products import multilinear
from .products import is_finite

CORRELATION, CONVOLUTION = row("correlation"), row("convolution")


def correlated(x, w):
    """Return the sums of products of an array with a smaller one of as many axes, wherever that fits."""
    return _by_parts(_correlated, x, w)


def convolved(x, w):
    """Return all products of entries of two arrays of as many axes, added up where their places add up."""
    return _by_parts(_convolved, x, w)


def flipped(x):
    return x[(slice(None, None, -1),) * x.ndim]


def _by_parts(function, x, w):
    if not (np.iscomplexobj(values_of(x)) or np.iscomplexobj(values_of(w))):
        return function(*lift_all(x, w))
    trace = complex_parts.trace_of(x, w)

    def product(*parts):
        return function(*lift_all(*parts))

    re, im = multilinear(product, [complex_parts.halves(each, trace) for each in (x, w)])
    value = (0.0 if re is None else re._value) + 1j * (0.0 if im is None else im._value)
    return complex_parts.make(re, im, value)


def _correlated(x, w):
    if x.ndim <= 2:
        return _of_matrices(CORRELATION, x, w)
    counts = [pinned(w, axis) for axis in range(x.ndim - 2)]
    left = [length(x, axis) - k + 1 for axis, k in enumerate(counts)]
    total = None
    for place in np.ndindex(*counts):
        part = x[tuple(slice(p, p + n) for p, n in zip(place, left, strict=True))]
        term = _of_matrices(CORRELATION, part, w[place])
        total = term if total is None else total + term
    return total


def _convolved(x, w):
    if x.ndim <= 2:
        return _of_matrices(CONVOLUTION, x, w)
    edges = [(n - 1, n - 1) for n in (length(w, axis) for axis in range(x.ndim))]
    return _correlated(np.pad(x, edges), flipped(w))


def _of_matrices(op, x, w):
    """Record an op over the last two axes; a vector is a matrix of one row, a number cannot slide."""
    if not x.ndim:
        return x * w
    vectors = x.ndim == 1
    if vectors:
        x, w = (expand(each, (0,)) for each in (x, w))
    if x._trace.strong and not (is_finite(x) and is_finite(w)):
        result = _by_entries(op, x, w)
    else:
        sizes = x._trace.tape.sizes
        (m, n), (k, r) = dims_of(x)[-2:], dims_of(w)[-2:]
        if op is CORRELATION:
            sizes.guard(m, ">=", k)
            sizes.guard(n, ">=", r)
            dims = {"m": sizes.add(sizes.sub(m, k), 1), "n": sizes.add(sizes.sub(n, r), 1)}
        else:
            dims = {"f": sizes.sub(sizes.add(m, k), 1), "h": sizes.sub(sizes.add(n, r), 1)}
        result = array_instruction(op, (x, w), op.oracle(x._value, w._value), dims=dims)
    return drop_axes(result, (-2,)) if vectors else result


def _by_entries(op, x, w):
    """Return what an op does as elementwise products and sums, in which zero cotangents stay zero."""
    shape = [pinned(w, axis) for axis in (w.ndim - 2, w.ndim - 1)]
    if op is CONVOLUTION:
        around = [(0, 0)] * (x.ndim - 2) + [(n - 1, n - 1) for n in shape]
        x, w = np.pad(x, around), w[..., ::-1, ::-1]
    views = np.lib.stride_tricks.sliding_window_view(x, shape, (-2, -1))
    return np.sum(views * w, (-2, -1))  # w has no further axes
