"""``scipy.signal``: spectra of signals, by Fourier transforms of their segments."""

from __future__ import annotations

import numpy as np
import scipy.signal

from ...numpy_api.fft import frequencies, whole_number
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sized import counted
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import length, one_axis, pinned
from ...trace.complex_parts import halves
from ...trace.operands import find_trace, lift_first, values_of
from ...trace.primitives import dims_of
from ...trace.symbolic_sizes import is_size
from .borders import continued
from .convolutions import detrend as without_trend
from .convolutions import windows
from .signal_windows import get_window


def _last(x, axis):
    """Return a signal with its time along the last axis."""
    trace = find_trace(x)
    x = np.asarray(x) if trace is None else lift_first(x)
    if trace is not None:  # SciPy returns arrays in the shape of signals that have no entry
        for dim in dims_of(next(part for part in halves(x) if part is not None)):
            trace.tape.sizes.guard(dim, ">=", 1)
    return x if x.ndim == 1 else np.moveaxis(x, axis, -1)


def _window(name: str, window, nperseg, length: int):
    """Return the weights of a segment, as SciPy chooses them."""
    if find_trace(window) is not None:
        raise unsupported_argument(f"scipy.signal.{name}", "a traced window", "pass it as nt.Constant")
    if not isinstance(window, (str, tuple)):
        return np.asarray(window, float)
    size = 256 if nperseg is None else nperseg
    size = length if size > length else size
    found = get_window(size._trace, window, size) if is_size(size) else None
    return scipy.signal.get_window(window, int(size)) if found is None else found


def _segments(x, weights, step: int, trend):
    """Return the weighted segments of a signal, along a new last axis."""
    width = length(weights, 0)
    # A segment that is as long as the signal is the only one, whatever their length.
    parts = np.expand_dims(x, -2) if width == length(x, -1) else windows(x, width)[..., ::step, :]
    if callable(trend):
        parts = trend(parts)
    elif trend:
        parts = (scipy.signal.detrend if find_trace(x) is None else without_trend)(parts, -1, trend)
    return parts * weights


def _is_complex(*signals) -> bool:
    return any(np.iscomplexobj(values_of(x)) for x in signals)


def _transforms(x, weights, step, trend, nfft: int, one_sided: bool):
    transform = np.fft.rfft if one_sided else np.fft.fft
    return transform(_segments(x, weights, step, trend), nfft, -1)


def _step(weights, noverlap, share: int = 2):
    width = length(weights, 0)
    return width - (width // share if noverlap is None else whole_number(noverlap))


def _scale(weights, fs, scaling: str) -> float:
    return 1.0 / (fs * np.sum(weights * weights)) if scaling == "density" else 1.0 / np.sum(weights) ** 2


def _doubled(nfft):
    """Return the share of each frequency of a spectrum of one side: negative ones count with theirs."""
    k = counted(nfft // 2 + 1)
    return np.where((k == 0) | (2 * k == nfft), 1.0, 2.0)


def _frequencies(nfft, fs, one_sided: bool):
    if is_size(nfft):
        return frequencies(nfft, 1.0 / fs, one_sided)
    return (np.fft.rfftfreq if one_sided else np.fft.fftfreq)(nfft, 1.0 / fs)


def _filled(x, size):
    """Return a signal with zeros up to a size."""
    missing = size - length(x, -1)
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing else x


def _powers(name, x, y, fs, window, nperseg, noverlap, nfft, trend, onesided, scaling, axis):
    """Return frequencies and the powers of all segments, of shape (..., segments, frequencies)."""
    same = y is x
    x = _last(x, axis)
    y = x if same else _last(y, axis)
    size = length(x, -1)
    if not same:
        size = max(size, length(y, -1))
        x, y = (_filled(one, size) for one in (x, y))
    weights = _window(name, window, nperseg, size)
    nfft = length(weights, 0) if nfft is None else whole_number(nfft)
    one_sided = onesided and not _is_complex(x, y)
    step = _step(weights, noverlap)
    of_x = _transforms(x, weights, step, trend, nfft, one_sided)
    if same:
        power = np.square(np.real(of_x)) + np.square(np.imag(of_x))
    else:
        power = np.conjugate(of_x) * _transforms(y, weights, step, trend, nfft, one_sided)
    power = power * _scale(weights, fs, scaling)
    if one_sided:
        power = power * _doubled(nfft)
    return _frequencies(nfft, fs, one_sided), power, weights, step


@stands_for("scipy.signal", "csd", knows_sizes=True)
def csd(
    x,
    y,
    fs=1.0,
    window="hann_periodic",
    nperseg=None,
    noverlap=None,
    nfft=None,
    detrend="constant",
    return_onesided=True,
    scaling="density",
    axis=-1,
    average="mean",
):
    """Return the mean (or median) of the powers of segments, by Welch's method."""
    frequencies, power, *_ = _powers(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis
    )
    count = length(power, -2)
    if count == 1:
        power = power[..., 0, :]
    elif average == "median":
        power = _median(power) / _median_bias(int(count))
    else:
        power = np.mean(power, -2)
    return frequencies, np.moveaxis(power, -1, axis) if power.ndim > 1 else power


def _median(power):
    if _is_complex(power):
        return np.median(np.real(power), -2) + 1j * np.median(np.imag(power), -2)
    return np.median(power, -2)


def _median_bias(count: int) -> float:
    """Return the expected median of periodograms over their mean (Allen et al. 2012, appendix B)."""
    even = 2.0 * np.arange(1, (count - 1) // 2 + 1)
    return 1.0 + float(np.sum(1.0 / (even + 1.0) - 1.0 / even))


@stands_for("scipy.signal", "welch", knows_sizes=True)
def welch(x, *args, **options):
    return csd(x, x, *args, **options)


@stands_for("scipy.signal", "periodogram", knows_sizes=True)
def periodogram(
    x,
    fs=1.0,
    window="boxcar",
    nfft=None,
    detrend="constant",
    return_onesided=True,
    scaling="density",
    axis=-1,
):
    x = lift_first(x)
    axis = one_axis(x, axis)
    size = length(x, axis)
    if nfft is not None and nfft < size:
        x = np.moveaxis(np.moveaxis(x, axis, -1)[..., :nfft], -1, axis)
        size, nfft = nfft, None
    window = "boxcar" if window is None else window
    return csd(x, x, fs, window, size, 0, nfft, detrend, return_onesided, scaling, axis)


@stands_for("scipy.signal", "coherence", knows_sizes=True)
def coherence(x, y, fs=1.0, window="hann_periodic", nperseg=None, noverlap=None, nfft=None,
              detrend="constant", axis=-1):  # fmt: skip
    options = (fs, window, nperseg, noverlap, nfft, detrend)
    frequencies, of_x = csd(x, x, *options, axis=axis)
    _, of_y = csd(y, y, *options, axis=axis)
    _, of_both = csd(x, y, *options, axis=axis)
    return frequencies, (np.square(np.real(of_both)) + np.square(np.imag(of_both))) / of_x / of_y


# ---- the transforms of segments


def _times(size, weights, step, fs):
    """Return the times of the middles of all segments."""
    width = length(weights, 0)
    return (width / 2 + step * counted((size - width) // step + 1)) / float(fs)


@stands_for("scipy.signal", "spectrogram", knows_sizes=True)
def spectrogram(
    x,
    fs=1.0,
    window=("tukey_periodic", 0.25),
    nperseg=None,
    noverlap=None,
    nfft=None,
    detrend="constant",
    return_onesided=True,
    scaling="density",
    axis=-1,
    mode="psd",
):
    """Return powers of segments, or amplitudes and angles of their transforms."""
    line = _last(x, axis)
    if mode == "psd":
        overlap = length(_window("spectrogram", window, nperseg, length(line, -1)), 0) // 8
        frequencies, power, weights, step = _powers(
            "spectrogram", line, line, fs, window, nperseg, overlap if noverlap is None else noverlap,
            nfft, detrend, return_onesided, scaling, -1,
        )  # fmt: skip
        return frequencies, _times(length(line, -1), weights, step, fs), _placed(power, axis)
    weights = _window("spectrogram", window, nperseg, length(line, -1))
    frequencies, times, result = _stft(
        line, fs, weights, noverlap, nfft, detrend, return_onesided, scaling, 8
    )
    result = _placed(result, axis)
    if mode == "complex":
        return frequencies, times, result
    if mode == "magnitude":
        return frequencies, times, np.abs(result)
    angles = np.angle(result)
    if mode == "phase":
        angles = np.unwrap(angles, axis=axis - 1 if axis < 0 else axis)
    return frequencies, times, angles


def _placed(result, axis):
    """Return segments of shape (..., segments, frequencies) with frequencies where the time was."""
    return np.moveaxis(result, -1, axis - 1 if axis < 0 else axis)


def _stft(x, fs, weights, noverlap, nfft, trend, onesided, scaling, share):
    """Return frequencies, times and the scaled transforms; segments overlap by a share of their length."""
    nfft = length(weights, 0) if nfft is None else whole_number(nfft)
    one_sided = onesided and not _is_complex(x)
    step = _step(weights, noverlap, share)
    result = _transforms(x, weights, step, trend, nfft, one_sided) * np.sqrt(_scale(weights, fs, scaling))
    return _frequencies(nfft, fs, one_sided), _times(length(x, -1), weights, step, fs), result


@stands_for("scipy.signal", "stft", knows_sizes=True)
def stft(
    x,
    fs=1.0,
    window="hann_periodic",
    nperseg=256,
    noverlap=None,
    nfft=None,
    detrend=False,
    return_onesided=True,
    boundary="zeros",
    padded=True,
    axis=-1,
    scaling="spectrum",
):
    """Transform segments of the signal, continued by half a window at both ends."""
    line = _last(x, axis)
    weights = _window("stft", window, nperseg, length(line, -1))
    width, step = length(weights, 0), _step(weights, noverlap)
    if boundary is not None:
        line = continued(line, width // 2, boundary)
    if padded:
        size = length(line, -1)
        line = _filled(line, size + (step - (size - width) % step) % step % width)
    scaling = "density" if scaling == "psd" else scaling
    frequencies, times, result = _stft(
        line, fs, weights, noverlap, nfft, detrend, return_onesided, scaling, 2
    )
    if boundary is not None:
        times = times - width / 2 / fs
    return frequencies, times, _placed(result, axis)


@stands_for("scipy.signal", "istft")
def istft(
    Zxx,
    fs=1.0,
    window="hann_periodic",
    nperseg=None,
    noverlap=None,
    nfft=None,
    input_onesided=True,
    boundary=True,
    time_axis=-1,
    freq_axis=-2,
    scaling="spectrum",
):
    """Overlap and add: each segment's inverse transform, weighted, over the sum of squared weights."""
    z = np.moveaxis(lift_first(Zxx), (time_axis, freq_axis), (-2, -1))
    count, bins = z.shape[-2:]
    usual = 2 * (bins - 1) if input_onesided else bins
    length = usual if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    weights = _window("istft", window, length, length)
    step = _step(weights, noverlap)
    parts = (np.fft.irfft if input_onesided else np.fft.ifft)(z, nfft, -1)[..., :length]
    factor = weights.sum() if scaling == "spectrum" else np.sqrt(fs * np.sum(weights**2))
    parts = parts * (weights * factor)
    total = length + (count - 1) * step
    norm = np.zeros(total)
    result = 0.0
    for k in range(count):
        first = k * step
        norm[first : first + length] += weights**2
        around = [(0, 0)] * (parts.ndim - 2) + [(first, total - first - length)]
        result = result + np.pad(parts[..., k, :], around)
    inner = slice(length // 2, -(length // 2)) if boundary else slice(None)
    result = result[..., inner] / np.where(norm > 1e-10, norm, 1.0)[inner]
    times = np.arange(pinned(result, 0) if hasattr(result, "_trace") else result.shape[0]) / float(fs)
    if result.ndim > 1:
        place = range(z.ndim)[time_axis] - (range(z.ndim)[freq_axis] < range(z.ndim)[time_axis])
        result = np.moveaxis(result, -1, place)
    return times, result


@stands_for("scipy.signal", "lombscargle")
def lombscargle(x, y, freqs, precenter=False, normalize=False, weights=None, floating_mean=False):
    """Fit a sine at each frequency by least squares; ``floating_mean`` adds a constant to it."""
    if normalize not in (False, True, "power", "normalize"):
        raise unsupported_argument("scipy.signal.lombscargle", f"normalize={normalize!r}")
    x, y, freqs = (lift_first(part, x, y, freqs, weights) for part in (x, y, freqs))
    weights = np.ones_like(y, dtype=float) if weights is None else weights
    weights = weights / np.sum(weights)
    if precenter is True:
        y = y - np.mean(y)
    angles = np.expand_dims(freqs, 1) * np.expand_dims(x, 0)  # (frequencies, times)

    def moment(values):
        return np.matmul(values, weights)

    def squares(cosine, sine):
        """Return the weighted squares of the waves, without their means."""
        cc = moment(cosine * cosine)
        ss, cs = 1.0 - cc, moment(cosine * sine)
        if floating_mean:
            c, s = moment(cosine), moment(sine)
            return cc - c * c, ss - s * s, cs - c * s
        return cc, ss, cs

    cc, ss, cs = squares(np.cos(angles), np.sin(angles))
    turned = angles - np.expand_dims(0.5 * np.arctan2(2.0 * cs, cc - ss), 1)
    cosine, sine = np.cos(turned), np.sin(turned)
    cc, ss, _ = squares(cosine, sine)
    centred = y - moment(y) if floating_mean else y
    yc, ys = moment(cosine * centred), moment(sine * centred)
    if floating_mean:
        inner = moment(centred)  # the first moment of centred data is zero but for rounding
        yc, ys = yc - inner * moment(cosine), ys - inner * moment(sine)
    least = np.finfo(float).epsneg
    power = 2.0 * (np.square(yc) / np.maximum(cc, least) + np.square(ys) / np.maximum(ss, least))
    if normalize in (True, "normalize"):
        return power * (0.5 / moment(centred * centred))
    return power * (length(y, 0) / 4.0)
