"""``scipy.signal``: convolutions and compositions of them, linear in the signal."""

from __future__ import annotations

import math

import numpy as np

from ...numpy_api import sliding
from ...numpy_api.sized import positions
from ...numpy_api.sliding import flipped
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import axes_of, length, lengths, one_axis, pinned
from ...trace.extents import arange
from ...trace.operands import find_trace, lift_all, lift_first, values_of
from ...trace.symbolic_sizes import code_of
from .borders import padded


def windows(x, width: int):
    """Return windows along the last axis, as a new last axis of a view."""
    return np.lib.stride_tricks.sliding_window_view(x, width, axis=-1)


def _reversed(x):
    """Return the array whose convolution with another is the correlation of the other with ``x``."""
    return flipped(np.conj(x) if np.iscomplexobj(values_of(x)) else x)


def convolved(a, b, mode: str):
    """Return the convolution of two arrays of as many axes, with SciPy's modes."""
    if mode == "valid" and _is_shorter(a, b):
        a, b = b, a
    if any([bool(n == 0) for n in (*lengths(a), *lengths(b))]):
        columns = list(zip(a.shape, b.shape, strict=True))
        of_mode = {"full": lambda n, k: n + k - 1, "same": lambda n, k: n, "valid": lambda n, k: n - k + 1}
        return np.zeros([max(of_mode[mode](n, k), 0) for n, k in columns])
    if mode == "valid":
        return sliding.correlated(a, flipped(b))
    is_smaller = a.ndim > 2 and bool(math.prod(lengths(a)) < math.prod(lengths(b)))
    full = sliding.convolved(b, a) if is_smaller else sliding.convolved(a, b)
    if mode == "full":
        return full
    shape = lengths(a)
    starts = [(n - m) // 2 for n, m in zip(lengths(full), shape, strict=True)]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, shape, strict=True))]


def _is_shorter(a, b) -> bool:
    """Whether an array is shorter than another one along some axis, which is a guard."""
    return any([n < k for n, k in zip(lengths(a), lengths(b), strict=True)])


@stands_for("scipy.signal", "convolve")
def convolve(in1, in2, mode="full", method="auto"):
    return convolved(*lift_all(in1, in2), mode)


@stands_for("scipy.signal", "correlate")
def correlate(in1, in2, mode="full", method="auto"):
    a, b = lift_all(in1, in2)
    swapped = mode == "valid" and _is_shorter(a, b)
    result = convolved(b, _reversed(a), mode) if swapped else convolved(a, _reversed(b), mode)
    return _reversed(result) if swapped else result


def _by_fourier(a, b, mode, axes):
    axes = axes_of(a, axes)
    other = [k for k in range(a.ndim) if k not in axes]
    if mode == "valid" and any([length(a, k) < length(b, k) for k in axes]):
        a, b = b, a
    sizes = {k: length(a, k) + length(b, k) - 1 for k in axes}
    full = _product_of_transforms(a, b, sizes)
    if mode == "full":
        return full
    shape = list(lengths(full))
    for k in axes:
        shape[k] = length(a, k) if mode == "same" else length(a, k) - length(b, k) + 1
    key = [slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(lengths(full), shape, strict=True)]
    for k in other:
        key[k] = slice(None)
    return full[tuple(key)]


def _product_of_transforms(a, b, sizes: dict):
    """Return the circular convolution of two arrays, filled up to sizes along axes."""
    *others, last = sizes
    is_complex = np.iscomplexobj(values_of(a)) or np.iscomplexobj(values_of(b))
    forth, back = (np.fft.fft, np.fft.ifft) if is_complex else (np.fft.rfft, np.fft.irfft)
    a, b = forth(a, sizes[last], last), forth(b, sizes[last], last)
    for k in others:
        a, b = np.fft.fft(a, sizes[k], k), np.fft.fft(b, sizes[k], k)
    full = a * b
    for k in others:
        full = np.fft.ifft(full, sizes[k], k)
    return back(full, sizes[last], last)


@stands_for("scipy.signal", "fftconvolve", "oaconvolve")
def fftconvolve(in1, in2, mode="full", axes=None):
    a, b = lift_all(in1, in2)
    # The transforms do not pay for small arrays.
    if axes is None and min(a._value.size, b._value.size) <= 64:
        return convolved(a, b, mode)
    return _by_fourier(a, b, mode, axes)


@stands_for("scipy.signal", "convolve2d")
def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    return _bordered(*lift_all(in1, in2), mode, boundary, fillvalue)


@stands_for("scipy.signal", "correlate2d")
def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    a, b = lift_all(in1, in2)
    if mode == "same":
        full = _bordered(a, _reversed(b), "full", boundary, fillvalue)
        return full[tuple(slice(k // 2, k // 2 + n) for n, k in zip(a.shape, b.shape, strict=True))]
    if mode == "valid" and _is_shorter(a, b):
        return flipped(convolved(b, _reversed(a), mode))  # SciPy does not conjugate a second time
    return _bordered(a, _reversed(b), mode, boundary, fillvalue)


def _bordered(a, b, mode, boundary, fillvalue):
    """Convolve in two dimensions, with entries beyond the borders."""
    if boundary == "fill" and find_trace(fillvalue) is None and np.ndim(fillvalue) == 0 and fillvalue == 0:
        return convolved(a, b, mode)
    if mode == "valid":
        return convolved(a, b, mode)
    kind = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}[boundary]
    options = {"constant_values": fillvalue} if kind == "constant" else {}
    wide = np.pad(a, [(k - 1, k - 1) for k in b.shape], kind, **options)
    full = sliding.correlated(wide, flipped(b))
    if mode == "full":
        return full
    starts = [(k - 1) // 2 for k in b.shape]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, lengths(a), strict=True))]


@stands_for("scipy.signal", "detrend")
def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=False):
    """Subtract means, or lines of least squares: by one slope, or by an orthogonal basis for each piece."""
    x = lift_first(data)
    axis = one_axis(x, axis)
    if type in ("constant", "c"):
        return x - np.mean(x, axis, keepdims=True)
    if np.array_equal(bp, 0) and bool(length(x, axis) >= 2):
        line = np.moveaxis(x, axis, -1)
        slope = 1.0 * positions(line, -1)
        slope = slope - np.mean(slope)
        part = line - np.mean(line, -1, keepdims=True)
        part = part - np.matmul(part, slope)[..., None] * slope / np.sum(slope * slope)
        return np.moveaxis(part, -1, axis)
    n = pinned(x, axis)
    edges = np.unique(np.concatenate([[0], np.atleast_1d(bp), [n]])).astype(int)
    line, parts = np.moveaxis(x, axis, -1), []
    for first, last in zip(edges, edges[1:], strict=False):
        basis, _ = np.linalg.qr(np.stack([np.ones(last - first), np.arange(1.0, last - first + 1)], 1))
        part = line[..., first:last]
        parts.append(part - np.matmul(np.matmul(part, basis), basis.T))
    return np.moveaxis(np.concatenate(parts, -1), -1, axis)


@stands_for("scipy.signal", "hilbert")
def hilbert(x, N=None, axis=-1):
    """Return the analytic signal, which has no negative frequencies."""
    x = lift_first(x)
    n = length(x, one_axis(x, axis)) if N is None else N
    k = 1.0 * arange(x._trace, code_of(x._trace, n))
    half = np.where(2 * k < n, 2.0, np.where(2 * k == n, 1.0, 0.0))
    half = np.where(k == 0, 1.0, half)
    weights = half[tuple(slice(None) if k == one_axis(x, axis) else None for k in range(x.ndim))]
    return np.fft.ifft(np.fft.fft(x, n, axis) * weights, axis=axis)


# ---- polynomials through windows


@stands_for("scipy.signal", "savgol_filter")
def savgol_filter(x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0):
    """Fit polynomials by least squares: by a convolution, and by matrices at the two ends."""
    import scipy.signal

    x = lift_first(x, delta)
    axis = one_axis(x, axis)
    line = np.moveaxis(x, axis, -1)
    step, delta = (delta, 1.0) if find_trace(delta) is not None else (1.0, delta)
    weights = scipy.signal.savgol_coeffs(window_length, polyorder, deriv, delta)[::-1].copy()
    half = window_length // 2
    if mode == "interp":
        unit = np.eye(window_length)
        ends = scipy.signal.savgol_filter(unit, window_length, polyorder, deriv, delta, axis=0, mode="interp")
        first = np.matmul(line[..., :window_length], ends[:half].T)
        last = np.matmul(line[..., -window_length:], ends[window_length - half :].T)
        # If the length is even, the first window stands before the middle, and is left out.
        whole = windows(line, window_length)
        inner = np.matmul(whole[..., 1 - window_length % 2 :, :], weights)
        result = np.concatenate([first, inner, last], -1)
    else:
        wide = padded(line, window_length - 1 - half, half, mode, cval)
        result = np.matmul(windows(wide, window_length), weights)
    return np.moveaxis(result if find_trace(step) is None else result / step**deriv, -1, axis)


# ---- splines


@stands_for("scipy.signal._spline_filters", "_quadratic")
@stands_for("scipy.signal._bsplines", "_quadratic")  # where it was before SciPy 1.15
def _quadratic(x):
    """Return the quadratic B-spline at some places, as ``scipy.signal.qspline1d_eval`` needs it.

    SciPy evaluates it at ``abs(x)``. That has a kink at 0, where the spline has none, so second derivatives
    would be 0 at the samples. Each piece holds from its first end on, so that at a knot the derivatives are
    those on the right.
    """
    rising, middle, falling = 0.5 * (x + 1.5) ** 2, 0.75 - x * x, 0.5 * (1.5 - x) ** 2
    inside = np.where(x < -0.5, rising, np.where(x < 0.5, middle, falling))
    return np.where((x < -1.5) | (x > 1.5), 0.0, inside)
