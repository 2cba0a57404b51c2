"""``scipy.signal``: other sampling rates, medians of windows, and responses of digital filters."""

from __future__ import annotations

import math
import operator

import numpy as np
import scipy.signal
import scipy.special as sc

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sized import counted
from ...numpy_api.stand_ins import stands_for
from ...trace import operations
from ...trace.axes import length, lengths, one_axis, pinned
from ...trace.operands import find_trace, lift_all, lift_first, values_of
from ..images.image_windows import rank_filter
from .borders import extended
from .convolutions import convolved, correlate


@stands_for("scipy.signal", "resample", knows_sizes=True)
def resample(x, num, t=None, axis=0, window=None, domain="time"):
    """Cut or fill the spectrum; a frequency at its end stands for two, or for half of one."""
    if domain != "time" or window is not None or np.iscomplexobj(values_of(x)):
        return operations.library_copy(scipy.signal.resample)(x, num, t, axis, window, domain)
    line = np.moveaxis(lift_first(x), axis, -1)
    size = length(line, -1)
    least, share = min(num, size), num / size
    if num != size:
        share = share * np.where(2 * counted(least // 2 + 1) == least, 2.0 if num < size else 0.5, 1.0)
    spectrum = np.fft.rfft(line)[..., : least // 2 + 1] * share
    result = np.moveaxis(np.fft.irfft(spectrum, num), -1, axis)
    if t is None:
        return result
    return result, t[0] + (t[1] - t[0]) * (size / num) * counted(num)


def _stretched(line, up: int):
    """Return a signal with ``up - 1`` zeros after each entry but the last."""
    if up == 1:
        return line
    *others, size = lengths(line)
    zeros = [(0, 0)] * line.ndim + [(0, up - 1)]
    wide = np.reshape(np.pad(np.expand_dims(line, -1), zeros), (*others, size * up))
    return wide[..., : (size - 1) * up + 1]


@stands_for("scipy.signal", "upfirdn")
def upfirdn(h, x, up=1, down=1, axis=-1, mode="constant", cval=0):
    h, x = lift_all(h, x)
    line, size = np.moveaxis(x, axis, -1), pinned(h, 0)
    width = -(-size // up)
    if mode == "constant" and find_trace(cval) is None and not np.any(cval):
        width = 0
    count = (length(line, -1) - 1) * up + size  # entries of the convolution without a border
    if width:
        line = extended(line, width, mode, cval)
    line = _stretched(line, up)
    weights = np.reshape(h, (1,) * (line.ndim - 1) + (size,))
    found = convolved(line, weights, "full")[..., width * up : width * up + count : down]
    return np.moveaxis(found, -1, axis)


@stands_for("scipy.signal", "resample_poly")
def resample_poly(x, up, down, axis=0, window=("kaiser", 5.0), padtype="constant", cval=None):
    """Filter by SciPy's weights between zeros, and leave out what the filter delays."""
    x = lift_first(x)
    up, down = int(up) // math.gcd(int(up), int(down)), int(down) // math.gcd(int(up), int(down))
    if up == down == 1:
        return x * 1.0
    if find_trace(window) is not None:
        raise unsupported_argument("scipy.signal.resample_poly", "a traced window")
    size = length(x, one_axis(x, axis))
    count = -(-size * up // down)
    if isinstance(window, (list, np.ndarray)):
        weights = np.asarray(window, float)
        half = (len(weights) - 1) // 2
    else:
        half = 10 * max(up, down)
        weights = scipy.signal.firwin(2 * half + 1, 1.0 / max(up, down), window=window)
    before = down - half % down
    skipped = (half + before) // down
    weights = np.concatenate([np.zeros(before), weights * up])
    # As many as the last entry needs at any length: count * down is less than size * up + down.
    behind = (skipped + 1) * down - 1 + up - len(weights)
    weights = np.concatenate([weights, np.zeros(max(behind, 0))])
    statistic = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}.get(padtype)
    background = None if statistic is None else statistic(x, axis=axis, keepdims=True)
    if background is not None:
        x, padtype = x - background, "constant"
    spread = upfirdn(weights, x, up, down, axis, padtype, cval or 0)
    moved = np.moveaxis(spread, axis, -1)[..., skipped : skipped + count]
    result = np.moveaxis(moved, -1, axis)
    return result if background is None else result + background


# ---- windows around each entry


def _odd_sizes(kernel_size, rank: int) -> list[int]:
    return [3] * rank if kernel_size is None else [int(k) for k in np.broadcast_to(kernel_size, rank)]


@stands_for("scipy.signal", "medfilt", "medfilt2d")
def medfilt(volume, kernel_size=None):
    x = lift_first(volume)
    size = _odd_sizes(kernel_size, x.ndim)
    return rank_filter(x, math.prod(size) // 2, size, mode="constant")


@stands_for("scipy.signal", "order_filter")
def order_filter(a, domain, rank):
    return rank_filter(a, rank, footprint=domain, mode="constant")


@stands_for("scipy.signal", "wiener")
def wiener(im, mysize=None, noise=None):
    x = lift_first(im)
    ones = np.ones(_odd_sizes(mysize, x.ndim))
    mean = correlate(x, ones, "same") / ones.size
    variance = correlate(np.square(x), ones, "same") / ones.size - np.square(mean)
    noise = np.mean(variance) if noise is None else noise
    return np.where(variance < noise, mean, (x - mean) * (1.0 - noise / variance) + mean)


# ---- responses


def _is_whole(worN) -> bool:
    """Whether SciPy takes ``worN`` for the number of angles; a float is an angle."""
    try:
        operator.index(values_of(worN))
    except TypeError:
        return False
    return True


@stands_for("scipy.signal", "freqz")
def freqz(b, a=1, worN=512, whole=False, plot=None, fs=2 * np.pi, include_nyquist=False):
    """Evaluate both polynomials at points of the unit circle."""
    if plot is not None:
        raise unsupported_argument("scipy.signal.freqz", "plot", "plot the result")
    if np.ndim(values_of(b)) > 1 or np.ndim(values_of(a)) > 1:
        raise unsupported_argument("scipy.signal.freqz", "several filters at once", "call it for each")
    b, a = (
        np.atleast_1d(lift_first(x) if find_trace(x) is not None else np.asarray(x, float)) for x in (b, a)
    )
    if worN is None or _is_whole(worN):
        last = 2.0 * np.pi if whole else np.pi
        angles = np.linspace(
            0.0, last, 512 if worN is None else int(worN), endpoint=include_nyquist and not whole
        )
    else:
        worN = lift_first(worN) if find_trace(worN) is not None else np.asarray(worN, float)
        angles = 2.0 * np.pi * np.atleast_1d(worN) / fs

    def response(coefficients):
        powers = np.arange(float(np.shape(coefficients)[0]))
        phases = np.expand_dims(angles, 1) * powers
        real = np.matmul(np.cos(phases), coefficients)
        return real - 1j * np.matmul(np.sin(phases), coefficients)

    return angles * (fs / (2.0 * np.pi)), response(b) / response(a)


# ---- waves


@stands_for("scipy.signal", "sawtooth")
def sawtooth(t, width=1):
    turn = np.mod(lift_first(t, width), 2.0 * np.pi)
    bad, rising = (width > 1) | (width < 0), turn < width * 2.0 * np.pi
    up = np.where(np.logical_and(rising, np.logical_not(bad)), width, 1.0)
    down = np.where(np.logical_or(rising, bad), 0.0, width)
    waves = np.where(
        rising, turn / (np.pi * up) - 1.0, (np.pi * (down + 1.0) - turn) / (np.pi * (1.0 - down))
    )
    return np.where(bad, np.nan, waves)


@stands_for("scipy.signal", "square")
def square(t, duty=0.5):
    waves = np.where(np.mod(lift_first(t, duty), 2.0 * np.pi) < duty * 2.0 * np.pi, 1.0, -1.0)
    return np.where((duty > 1) | (duty < 0), np.nan, waves)


@stands_for("scipy.signal", "chirp")
def chirp(t, f0, t1, f1, method="linear", phi=0, vertex_zero=True, *, complex=False):
    t = lift_first(t, f0, t1, f1, phi)
    if method in ("linear", "lin", "li"):
        cycles = f0 * t + 0.5 * ((f1 - f0) / t1) * t * t
    elif method in ("quadratic", "quad", "q"):
        bend = (f1 - f0) / t1**2
        cycles = f0 * t + bend * t**3 / 3.0 if vertex_zero else f1 * t + bend * ((t1 - t) ** 3 - t1**3) / 3.0
    elif method in ("logarithmic", "log", "lo"):
        cycles = f0 * t * sc.exprel(np.log(f1 / f0) * (t / t1))  # smooth where both are equal
    elif bool(np.all(np.equal(f0, f1))):  # a guard where they are traced
        raise unsupported_argument("scipy.signal.chirp", f"method={method!r} with f0 = f1", "it is a sine")
    else:
        singular = -f1 * t1 / (f0 - f1)
        cycles = -singular * f0 * np.log(np.abs(1.0 - t / singular))
    phase = 2.0 * np.pi * cycles + np.deg2rad(phi)
    return np.exp(1j * phase) if complex else np.cos(phase)


@stands_for("scipy.signal", "sweep_poly")
def sweep_poly(t, poly, phi=0):
    poly = poly.coeffs if isinstance(poly, np.poly1d) else poly
    t, poly = (lift_first(part, t, poly, phi) for part in (t, poly))
    return np.cos(2.0 * np.pi * np.polyval(np.polyint(poly), t) + np.deg2rad(phi))


@stands_for("scipy.signal", "gausspulse")
def gausspulse(t, fc=1000, bw=0.5, bwr=-6, tpr=-60, retquad=False, retenv=False):
    t = lift_first(t, fc, bw, bwr)
    rate = -np.square(np.pi * fc * bw) / (4.0 * np.log(np.power(10.0, bwr / 20.0)))
    envelope, angle = np.exp(-rate * t * t), 2.0 * np.pi * fc * t
    results = [envelope * np.cos(angle)]
    if retquad:
        results.append(envelope * np.sin(angle))
    if retenv:
        results.append(envelope)
    return results[0] if len(results) == 1 else tuple(results)
