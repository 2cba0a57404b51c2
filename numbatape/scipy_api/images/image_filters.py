"""``scipy.ndimage``: correlations with weights, and the filters that are made of them."""

from __future__ import annotations

import numpy as np
import scipy.ndimage

from ...numpy_api import sliding
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sliding import flipped
from ...trace.axes import axes_of, one_axis, pinned
from ...trace.operands import find_trace, lift_all, lift_first, values_of
from ...trace.primitives import stop_gradient
from ..signal.borders import padded
from .image_outputs import filters


def one_each(value, count: int) -> list:
    """Return a list of one value an axis, as SciPy does for scalars and texts."""
    return [value] * count if np.ndim(values_of(value)) == 0 else list(value)


# ---- weights along one axis


def correlated(x, weights, axis, mode, cval, origin=0, convolve=False):
    """Correlate (or convolve) along one axis."""
    axis = one_axis(x, axis)
    count = pinned(weights, 0) if hasattr(weights, "_trace") else len(weights)
    if convolve:
        weights, origin = weights[::-1], -origin - (1 - count % 2)
    before = count // 2 + origin
    line = padded(np.moveaxis(x, axis, -1), before, count - 1 - before, mode, cval)
    return np.moveaxis(sliding.correlated(line, np.expand_dims(weights, tuple(range(x.ndim - 1)))), -1, axis)


def _vector(weights):
    if find_trace(weights) is not None:
        return lift_first(weights)
    return np.asarray(weights) if np.iscomplexobj(weights) else np.asarray(weights, float)


def _conjugate(weights):
    """Return what a correlation, which conjugates its weights, multiplies by."""
    return np.conj(weights) if np.iscomplexobj(values_of(weights)) else weights


@filters("correlate1d")
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    return correlated(lift_first(input, weights), _conjugate(_vector(weights)), axis, mode, cval, origin)


@filters("convolve1d")
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    return correlated(lift_first(input, weights), _vector(weights), axis, mode, cval, origin, True)


@filters("uniform_filter1d")
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    return correlated(lift_first(input), np.full(size, 1.0 / size), axis, mode, cval, origin)


@filters("uniform_filter")
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    x = lift_first(input)
    axes = axes_of(x, axes)
    each = (one_each(option, len(axes)) for option in (size, mode, origin))
    for axis, width, border, shift in zip(axes, *each, strict=True):
        if width > 1:
            x = correlated(x, np.full(int(width), 1.0 / int(width)), axis, border, cval, shift)
    return x


# ---- Gaussians


def _gaussian(sigma, order: int, truncate: float, radius):
    """Return SciPy's weights: what the filter makes of one entry of 1, from its far end.

    Of a traced width, they are computed by SciPy's formula; how many there are is a guard.
    """
    if find_trace(sigma) is not None:
        if radius is None:
            radius = int(np.floor(truncate * stop_gradient(sigma) + 0.5))
        return _gaussian_of_traced(sigma, order, radius)
    radius = int(truncate * float(sigma) + 0.5) if radius is None else +radius  # True is a radius of 1
    pulse = np.zeros(2 * radius + 1)
    pulse[radius] = 1.0
    answer = scipy.ndimage.gaussian_filter1d(pulse, sigma, order=order, mode="constant", radius=radius)
    return answer[::-1].copy()


def _gaussian_of_traced(sigma, order: int, radius: int):
    places = np.arange(-radius, radius + 1.0)
    inverse = 1.0 / np.square(sigma)
    bell = np.exp(-0.5 * inverse * np.square(places))
    bell = bell / np.sum(bell)
    factors = [1.0]  # the coefficients of a polynomial; each derivative of the bell adds a power
    for _ in range(order):
        slopes = [k * factor for k, factor in enumerate(factors)][1:]
        falls = [0.0, *(-inverse * factor for factor in factors)]
        factors = [fall + (slopes[k] if k < len(slopes) else 0.0) for k, fall in enumerate(falls)]
    polynomial = sum(factor * places**k for k, factor in enumerate(factors))
    return (polynomial * bell)[::-1]


@filters("gaussian_filter1d")
def gaussian_filter1d(
    input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None
):
    weights = _gaussian(sigma, order, truncate, radius)
    return correlated(lift_first(input), weights, axis, mode, cval)


@filters("gaussian_filter")
def gaussian_filter(
    input,
    sigma,
    order=0,
    output=None,
    mode="reflect",
    cval=0.0,
    truncate=4.0,
    *,
    radius=None,
    axes=None,
):
    x = lift_first(input)
    axes = axes_of(x, axes)
    each = (one_each(option, len(axes)) for option in (sigma, order, mode, radius))
    for axis, width, degree, border, reach in zip(axes, *each, strict=True):
        if width > 1e-15:  # as SciPy decides what is no width
            x = correlated(x, _gaussian(width, degree, truncate, reach), axis, border, cval)
    return x


# ---- differences


def _across_edges(slope, smooth):
    """Return a filter that takes a difference along one axis, and smooths along all others."""

    def filtered(input, axis=-1, output=None, mode="reflect", cval=0.0):
        x = lift_first(input)
        axis, modes = one_axis(x, axis), one_each(mode, x.ndim)
        result = correlated(x, np.array(slope), axis, modes[axis], cval)
        for other in range(x.ndim):
            if other != axis:
                result = correlated(result, np.array(smooth), other, modes[other], cval)
        return result

    return filtered


filters("prewitt")(_across_edges([-1.0, 0.0, 1.0], [1.0, 1.0, 1.0]))
filters("sobel")(_across_edges([-1.0, 0.0, 1.0], [1.0, 2.0, 1.0]))


def _added(x, terms):
    """Return the sum of one term an axis; without axes, the image as it is, as SciPy does."""
    total = None
    for term in terms:
        total = term if total is None else total + term
    return x * 1.0 if total is None else total


@filters("laplace")
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    x = lift_first(input)
    axes = axes_of(x, axes)
    modes = one_each(mode, len(axes))
    second = np.array([1.0, -2.0, 1.0])
    terms = (correlated(x, second, axis, border, cval) for axis, border in zip(axes, modes, strict=True))
    return _added(x, terms)


def _gaussian_derivatives(x, sigma, degree, mode, cval, axes, options):
    """Return the derivatives, along some axes, of an image that is smoothed along all axes."""
    orders = degree * np.eye(x.ndim, dtype=int)
    modes = one_each(mode, len(axes))
    return [
        gaussian_filter(x, sigma, list(orders[axis]), None, border, cval, **options)
        for axis, border in zip(axes, modes, strict=True)
    ]


@filters("gaussian_laplace")
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **options):
    x = lift_first(input)
    axes = axes_of(x, axes)
    widths = one_each(sigma, len(axes))
    # Other axes are not smoothed. With all axes given, SciPy takes the widths in their order.
    if len(axes) < x.ndim:
        among = dict(zip(axes, widths, strict=True))
        widths = [among.get(axis, 0.0) for axis in range(x.ndim)]
    return _added(x, _gaussian_derivatives(x, widths, 2, mode, cval, axes, options))


@filters("gaussian_gradient_magnitude")
def gaussian_gradient_magnitude(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **options):
    x = lift_first(input)
    axes = axes_of(x, axes)
    if not axes:
        return x * 1.0
    slopes = _gaussian_derivatives(x, sigma, 1, mode, cval, axes, options)
    # A norm has the slope zero where it is zero, as it is in mirrored corners.
    return np.linalg.norm(np.stack(list(slopes)), axis=0)


# ---- weights over several axes


def _correlated_all(input, weights, mode, cval, origin, axes, convolve: bool):
    x, weights = lift_all(input, weights)
    axes = axes_of(x, axes)
    weights = flipped(weights) if convolve else _conjugate(weights)
    shifts = one_each(origin, len(axes))
    if len(axes) < x.ndim:  # SciPy reads origins in the order of the axes, but weights from the first axis on
        shifts = [shift for _, shift in sorted(zip(axes, shifts, strict=True))]
    axes = sorted(axes)
    for axis, count, shift in zip(axes, weights.shape, shifts, strict=True):
        before = count // 2 + (-shift - (1 - count % 2) if convolve else shift)
        line = padded(np.moveaxis(x, axis, -1), before, count - 1 - before, mode, cval)
        x = np.moveaxis(line, -1, axis)
    return sliding.correlated(
        x, np.expand_dims(weights, [axis for axis in range(x.ndim) if axis not in axes])
    )


@filters("correlate")
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    return _correlated_all(input, weights, mode, cval, origin, axes, False)


@filters("convolve")
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    return _correlated_all(input, weights, mode, cval, origin, axes, True)


# ---- products with the Fourier transforms of filters


def _wave_numbers(x, axis: int, n: int) -> np.ndarray:
    """Return waves along an axis of a spectrum, over its length, which n is for that of a real signal."""
    size = np.shape(values_of(x))[axis]
    return np.arange(float(size)) / n if n >= 0 else np.fft.fftfreq(size)


# Factors of spectra by the filter's width along an axis and the numbers of waves.
OF_WIDTHS = {
    "fourier_gaussian": lambda width, waves: np.exp(-2.0 * np.square(np.pi * width * waves)),
    "fourier_shift": lambda width, waves: np.exp(-2j * np.pi * width * waves),
    "fourier_uniform": lambda width, waves: np.sinc(width * waves),
}


def _spectral(name: str):
    """A filter of spectra multiplies them by numbers: those that it makes of a spectrum of ones."""

    def filtered(input, scale, n=-1, axis=-1, output=None):
        x = lift_first(input, scale)
        for k in range(x.ndim):
            pinned(x, k)
        if find_trace(scale) is not None:
            if name not in OF_WIDTHS:
                raise unsupported_argument(f"scipy.ndimage.{name}", "traced widths")
            halved = one_axis(x, axis)
            for k, width in enumerate(np.broadcast_to(lift_first(scale), (x.ndim,))):
                factor = OF_WIDTHS[name](width, _wave_numbers(x, k, n if k == halved else -1))
                x = x * np.reshape(factor, (-1, *(1,) * (x.ndim - 1 - k)))
            return x
        ones = np.ones(x.shape, complex if name == "fourier_shift" else float)
        return x * getattr(scipy.ndimage, name)(ones, scale, n, axis)

    return filtered


for _name in ("fourier_ellipsoid", "fourier_gaussian", "fourier_shift", "fourier_uniform"):
    filters(_name)(_spectral(_name))
