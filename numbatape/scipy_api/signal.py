"""``scipy.signal`` and ``scipy.ndimage``: convolutions and compositions of them, linear in the signal."""

from __future__ import annotations

import numpy as np

from ..numpy_api.registration import unsupported_argument
from ..numpy_api.stand_ins import stands_for
from ..trace.axes import axes_of, one_axis, pinned
from ..trace.operands import find_trace, lift_all, lift_first, values_of
from ..trace.primitives import layout_of, view


def _windows(x, width: int):
    """Return windows along the last axis, as a new last axis of a view."""
    layout, sizes = layout_of(x), x._trace.tape.sizes
    dim, stride = layout.dims[-1], layout.strides[-1]
    value = np.lib.stride_tricks.sliding_window_view(x._value, width, axis=-1)
    dims = (*layout.dims[:-1], sizes.sub(dim, width - 1), width)
    return view(x, value, dims, (*layout.strides, stride))


def slide(x, kernel):
    """Return the sums of products of an array with a smaller one at all positions (``valid`` correlation)."""
    for k in range(x.ndim):
        pinned(x, k), pinned(kernel, k)
    lead = [n - k + 1 for n, k in zip(x.shape[:-1], kernel.shape[:-1], strict=True)]
    total = None
    for place in np.ndindex(*kernel.shape[:-1]):
        part = x[tuple(slice(p, p + n) for p, n in zip(place, lead, strict=True))]
        term = np.matmul(_windows(part, kernel.shape[-1]), kernel[place])
        total = term if total is None else total + term
    return total


def _flipped(x):
    return x[(slice(None, None, -1),) * x.ndim]


def convolved(a, b, mode: str):
    """Return the convolution of two arrays of as many axes, with SciPy's modes."""
    if mode == "valid" and any(n < k for n, k in zip(a.shape, b.shape, strict=True)):
        a, b = b, a
    big, small = (a, b) if a._value.size >= b._value.size else (b, a)
    pad = [(k - 1, k - 1) for k in small.shape]
    full = slide(np.pad(big, pad) if any(map(any, pad)) else big, _flipped(small))
    if mode == "full":
        return full
    shape = a.shape if mode == "same" else [n - k + 1 for n, k in zip(a.shape, b.shape, strict=True)]
    starts = [(n - m) // 2 for n, m in zip(full.shape, shape, strict=True)]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, shape, strict=True))]


@stands_for("scipy.signal", "convolve")
def convolve(in1, in2, mode="full", method="auto"):
    return convolved(*lift_all(in1, in2), mode)


@stands_for("scipy.signal", "correlate")
def correlate(in1, in2, mode="full", method="auto"):
    a, b = lift_all(in1, in2)
    swapped = mode == "valid" and any(n < k for n, k in zip(a.shape, b.shape, strict=True))
    result = convolved(b, _flipped(a), mode) if swapped else convolved(a, _flipped(b), mode)
    return _flipped(result) if swapped else result


def _by_fourier(a, b, mode, axes):
    axes = axes_of(a, axes)
    other = [k for k in range(a.ndim) if k not in axes]
    if mode == "valid" and any(a.shape[k] < b.shape[k] for k in axes):
        a, b = b, a
    sizes = [a.shape[k] + b.shape[k] - 1 for k in axes]
    spectrum = np.fft.rfftn(a, sizes, axes) * np.fft.rfftn(b, sizes, axes)
    full = np.fft.irfftn(spectrum, sizes, axes)
    if mode == "full":
        return full
    shape = list(full.shape)
    for k in axes:
        shape[k] = a.shape[k] if mode == "same" else a.shape[k] - b.shape[k] + 1
    key = [slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(full.shape, shape, strict=True)]
    for k in other:
        key[k] = slice(None)
    return full[tuple(key)]


@stands_for("scipy.signal", "fftconvolve", "oaconvolve")
def fftconvolve(in1, in2, mode="full", axes=None):
    a, b = lift_all(in1, in2)
    if axes is None and min(a._value.size, b._value.size) <= 64:  # for small arrays the transforms do not pay
        return convolved(a, b, mode)
    return _by_fourier(a, b, mode, axes)


@stands_for("scipy.signal", "convolve2d")
def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    return _bordered(*lift_all(in1, in2), mode, boundary, fillvalue)


@stands_for("scipy.signal", "correlate2d")
def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    a, b = lift_all(in1, in2)
    if mode == "same":
        full = _bordered(a, _flipped(b), "full", boundary, fillvalue)
        return full[tuple(slice(k // 2, k // 2 + n) for n, k in zip(a.shape, b.shape, strict=True))]
    if mode == "valid" and any(n < k for n, k in zip(a.shape, b.shape, strict=True)):
        return _flipped(convolved(b, _flipped(a), mode))
    return _bordered(a, _flipped(b), mode, boundary, fillvalue)


def _bordered(a, b, mode, boundary, fillvalue):
    """Convolve in two dimensions, with entries beyond the borders."""
    if boundary == "fill" and np.ndim(values_of(fillvalue)) == 0 and values_of(fillvalue) == 0:
        return convolved(a, b, mode)
    if mode == "valid":
        return convolved(a, b, mode)
    kind = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}[boundary]
    options = {"constant_values": fillvalue} if kind == "constant" else {}
    wide = np.pad(a, [(k - 1, k - 1) for k in b.shape], kind, **options)
    full = slide(wide, _flipped(b))
    if mode == "full":
        return full
    starts = [(k - 1) // 2 for k in b.shape]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, a.shape, strict=True))]


@stands_for("scipy.signal", "detrend")
def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=False):
    x = lift_first(data)
    axis = one_axis(x, axis)
    if type in ("constant", "c"):
        return x - np.mean(x, axis, keepdims=True)
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
    """The analytic signal, which has no negative frequencies."""
    x = lift_first(x)
    n = pinned(x, one_axis(x, axis)) if N is None else N
    half = np.zeros(n)
    half[0], half[1 : (n + 1) // 2] = 1.0, 2.0
    if n % 2 == 0:
        half[n // 2] = 1.0
    weights = np.reshape(half, [-1 if k == one_axis(x, axis) else 1 for k in range(x.ndim)])
    return np.fft.ifft(np.fft.fft(x, n, axis) * weights, axis=axis)


@stands_for("scipy.signal", "savgol_filter", run=None)
def savgol_filter(x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0):
    """Least squares of polynomials: a convolution, and matrices at the two ends."""
    import scipy.signal

    x = lift_first(x)
    value = scipy.signal.savgol_filter(
        x._value, window_length, polyorder, deriv, delta, axis, mode, values_of(cval)
    )
    axis = one_axis(x, axis)
    line = np.moveaxis(x, axis, -1)
    weights = scipy.signal.savgol_coeffs(window_length, polyorder, deriv, delta)[::-1].copy()
    half = window_length // 2
    if mode == "interp":
        unit = np.eye(window_length)
        ends = scipy.signal.savgol_filter(unit, window_length, polyorder, deriv, delta, axis=0, mode="interp")
        first = np.matmul(line[..., :window_length], ends[:half].T)
        last = np.matmul(line[..., -window_length:], ends[window_length - half :].T)
        inner = np.matmul(_windows(line, window_length), weights)
        result = np.concatenate([first, inner, last], -1)
    else:
        result = np.matmul(_windows(_padded(line, half, half, mode, cval), window_length), weights)
    result = np.moveaxis(result, -1, axis)
    assert result.shape == value.shape
    return result


# ---- scipy.ndimage

BORDERS = {"reflect": "symmetric", "grid-mirror": "symmetric", "nearest": "edge", "mirror": "reflect",
           "wrap": "wrap", "grid-wrap": "wrap", "constant": "constant",
           "grid-constant": "constant"}  # fmt: skip


def _padded(line, before: int, behind: int, mode: str, cval):
    """Return an array with more entries at both ends of its last axis."""
    width = [(0, 0)] * (line.ndim - 1) + [(before, behind)]
    options = {"constant_values": cval} if BORDERS[mode] == "constant" else {}
    return np.pad(line, width, BORDERS[mode], **options)


def _correlated(x, weights, axis, mode, cval, origin, flip: bool):
    """Correlate along one axis; ``flip``: convolve."""
    axis = one_axis(x, axis)
    count = pinned(weights, 0) if hasattr(weights, "_trace") else len(weights)
    if flip:
        weights, origin = weights[::-1], -origin - (1 - count % 2)
    before = count // 2 + origin
    line = _padded(np.moveaxis(x, axis, -1), before, count - 1 - before, mode, cval)
    return np.moveaxis(np.matmul(_windows(line, count), weights), -1, axis)


def _refuse_output(name, output):
    if output is not None:
        raise unsupported_argument(f"scipy.ndimage.{name}", "output", "take the result")


@stands_for("scipy.ndimage", "correlate1d")
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    _refuse_output("correlate1d", output)
    return _correlated(lift_first(input, weights), _vector(weights), axis, mode, cval, origin, False)


@stands_for("scipy.ndimage", "convolve1d")
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    _refuse_output("convolve1d", output)
    return _correlated(lift_first(input, weights), _vector(weights), axis, mode, cval, origin, True)


def _vector(weights):
    return np.asarray(weights, float) if find_trace(weights) is None else lift_first(weights)


def _correlated_all(x, weights, mode, cval, flip: bool):
    if flip:
        weights = _flipped(weights)
    moved = x
    for k, count in enumerate(weights.shape):
        before = count // 2 - (1 - count % 2 if flip else 0)
        line = _padded(np.moveaxis(moved, k, -1), before, count - 1 - before, mode, cval)
        moved = np.moveaxis(line, -1, k)
    return slide(moved, weights)


@stands_for("scipy.ndimage", "correlate")
def image_correlate(input, weights, output=None, mode="reflect", cval=0.0):
    _refuse_output("correlate", output)
    return _correlated_all(*lift_all(input, weights), mode, cval, False)


@stands_for("scipy.ndimage", "convolve")
def image_convolve(input, weights, output=None, mode="reflect", cval=0.0):
    _refuse_output("convolve", output)
    return _correlated_all(*lift_all(input, weights), mode, cval, True)


def _gaussian(sigma: float, truncate: float):
    radius = int(truncate * float(sigma) + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-radius, radius + 1) ** 2)
    return weights / weights.sum()


@stands_for("scipy.ndimage", "gaussian_filter1d")
def gaussian_filter1d(input, sigma, axis=-1, output=None, mode="reflect", cval=0.0, truncate=4.0):
    _refuse_output("gaussian_filter1d", output)
    if find_trace(sigma) is not None:
        raise unsupported_argument(
            "scipy.ndimage.gaussian_filter1d", "sigma", "it decides the number of weights"
        )
    return _correlated(lift_first(input), _gaussian(sigma, truncate), axis, mode, cval, 0, False)


@stands_for("scipy.ndimage", "gaussian_filter")
def gaussian_filter(input, sigma, output=None, mode="reflect", cval=0.0, truncate=4.0):
    _refuse_output("gaussian_filter", output)
    if find_trace(sigma) is not None:
        raise unsupported_argument(
            "scipy.ndimage.gaussian_filter", "sigma", "it decides the number of weights"
        )
    x = lift_first(input)
    for axis, width in enumerate(np.broadcast_to(sigma, x.ndim)):
        if width > 1e-15:
            x = _correlated(x, _gaussian(float(width), truncate), axis, mode, cval, 0, False)
    return x


@stands_for("scipy.ndimage", "uniform_filter1d")
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0):
    _refuse_output("uniform_filter1d", output)
    return _correlated(lift_first(input), np.full(size, 1.0 / size), axis, mode, cval, 0, False)


@stands_for("scipy.ndimage", "uniform_filter")
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0):
    _refuse_output("uniform_filter", output)
    x = lift_first(input)
    for axis, width in enumerate(np.broadcast_to(size, x.ndim)):
        if width > 1:
            x = _correlated(x, np.full(int(width), 1.0 / int(width)), axis, mode, cval, 0, False)
    return x
