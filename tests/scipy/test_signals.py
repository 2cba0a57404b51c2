"""``scipy.signal``: spectra, other sampling rates, waves; values are SciPy's, derivatives agree with differences."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal as S

import numbatape as nt
from numbatape.testing import check_derivatives
from tests.agreement import is_affine

RNG = np.random.default_rng(0)
V, Y, M = RNG.normal(size=18), RNG.normal(size=18), RNG.normal(size=(2, 16))
T, Z, F = np.sort(RNG.uniform(0, 9, 11)), RNG.normal(size=11), np.array([0.5, 1.3, 2.2])

WINDOW = np.linspace(0.2, 1.0, 16)
MODES = ("constant", "wrap", "edge", "smooth", "symmetric", "reflect", "antisymmetric", "antireflect", "line")


def joined(*functions):
    """Return a function of all results as real numbers, so that one check of derivatives serves them."""

    def function(*arguments):
        results = [f(*arguments) for f in functions]
        parts = [part for z in results for part in ([np.real(z), np.imag(z)] if np.iscomplexobj(z) else [z])]
        return np.concatenate([np.ravel(part) for part in parts])

    return function


CASES = {
    "welch": (joined(lambda x: S.welch(x, nperseg=8)[1], lambda x: S.welch(x, 2.0, "hamming", 8, 6, 10, "linear", True, "spectrum", average="median")[1]), V),
    "welch along an axis": (joined(lambda x: S.welch(x, nperseg=7, return_onesided=False, detrend=False)[1], lambda x: S.welch(x.T, nperseg=8, axis=0)[1]), M),
    "csd": (joined(lambda x, y: S.csd(x, y, nperseg=8)[1], lambda x, y: S.csd(x, y[:15], nperseg=6, average="median")[1]), V, Y),
    "csd with data": (joined(lambda x: S.csd(x, Y, nperseg=8, detrend="linear")[1]), V),
    "periodogram": (joined(lambda x: S.periodogram(x, 3.0, "hann")[1], lambda x: S.periodogram(x, nfft=30)[1], lambda x: S.periodogram(x, nfft=11)[1]), V),
    "coherence": (lambda x, y: S.coherence(x, y, nperseg=8)[1], V, Y),
    "spectrogram": (joined(lambda x: S.spectrogram(x, nperseg=8)[2], lambda x: S.spectrogram(x.T, nperseg=8, axis=0, mode="magnitude")[2], lambda x: S.spectrogram(x, nperseg=8, mode="complex", noverlap=2)[2]), M),
    "stft": (joined(lambda x: S.stft(x, nperseg=8)[2], lambda x: S.stft(x, nperseg=8, boundary=None)[2]), V),
    "stft of a signal that is shorter than a segment": (joined(lambda x: S.stft(x, nperseg=20)[2], lambda x: S.spectrogram(x, nperseg=20, mode="magnitude")[2]), V),
    "roots of sections": (joined(*(lambda s, k=k: S.sos2zpk(s)[k] for k in range(3))), np.array([[1.0, 0.3, 0.5, 1.0, 0.2, 0.4], [0.7, 0.1, 0.6, 1.0, -0.3, 0.5]])),
    "stft boundaries": (joined(lambda x: S.stft(x, nperseg=7, boundary="odd", padded=False, scaling="psd", detrend="constant")[2], lambda x: S.stft(x, nperseg=8, boundary="even", return_onesided=False)[2], lambda x: S.stft(x, nperseg=8, boundary="constant")[2]), M),
    "istft": (joined(lambda x: S.istft(S.stft(x, nperseg=8)[2] ** 2, nperseg=8)[1], lambda x: S.istft(S.stft(x, nperseg=8, noverlap=6)[2], nperseg=8, noverlap=6)[1]), M),
    "lombscargle": (joined(S.lombscargle, lambda x, y, f: S.lombscargle(x, y, f, floating_mean=True)), T, Z, F),
    "lombscargle normalized": (lambda x, y, f: S.lombscargle(x, y, f, normalize=True, floating_mean=True, weights=np.arange(1.0, 12.0)), T, Z, F),
    "resample": (joined(lambda x: S.resample(x, 13), lambda x: S.resample(x, 36), lambda x: S.resample(x, 8), lambda x: S.resample(x[:17], 18)), V),
    "upfirdn": (lambda h, x: S.upfirdn(h, x, 3, 2), np.arange(1.0, 6.0), V),
    "upfirdn along an axis": (lambda x: S.upfirdn([1.0, 2.0], x, 2, 3, axis=0), M),
    "resample_poly": (joined(lambda x: S.resample_poly(x, 3, 2), lambda x: S.resample_poly(x, 5, 3, window=np.hanning(7)), lambda x: S.resample_poly(x, 4, 2, padtype="maximum")), V),
    "resample with a window": (joined(lambda x: S.resample(x, 13, window="hann"), lambda x: S.resample(x, 6, axis=1, window=WINDOW), lambda x: S.resample(x.T, 20, window=lambda f: np.exp(-(f**2)))), M),
    "resample complex": (joined(lambda x: S.resample(x + 1j * x**2, 13), lambda x: S.resample(np.fft.fft(x), 20, domain="freq"), lambda x: S.resample(x, 12, np.arange(18.0), window=x**2)[0]), V),
    "resample_poly beyond the ends": (joined(*(lambda x, mode=mode: S.resample_poly(x, 3, 2, padtype=mode) for mode in ("line", "reflect")), lambda x: S.resample_poly(x, 3, 2, cval=0.5)), V[:5]),
    "upfirdn beyond the ends": (joined(*(lambda x, mode=mode: S.upfirdn(np.arange(1.0, 10.0), x, 2, 3, mode=mode, cval=0.4) for mode in MODES)), V[:3]),
    "spectrogram of angles": (joined(lambda x: S.spectrogram(x, nperseg=8, mode="angle")[2], lambda x: S.spectrogram(x.T, nperseg=8, axis=0, mode="phase")[2], lambda x: S.spectrogram(x, nperseg=6, mode="phase")[2]), M[:, :12]),
    "filtfilt": (joined(lambda x, c: S.filtfilt(c, [1.0, -0.5], x), lambda x, c: S.filtfilt([1.0], np.append(1.0, 0.3 * c), x, method="gust"), lambda x, c: S.filtfilt(c, [1.0, -0.4], x, method="gust", irlen=4), lambda x, c: S.filtfilt(c[:1], [2.0], x, method="gust")), V[:10], np.array([0.5, -0.2])),
    "filtfilt along an axis": (joined(lambda x: S.filtfilt([0.5, 0.2], [1.0, -0.5], x.T, axis=0, method="gust")), M),
    "windows": (joined(lambda x: S.medfilt2d(x, 3), lambda x: S.order_filter(x, np.ones((1, 3)), 1), lambda x: S.wiener(x, (1, 3), 0.5)), M),
    "windows of one axis": (joined(lambda x: S.medfilt(x, 5), lambda x: S.wiener(x, 5)), V),
    "freqz": (joined(lambda b, a: S.freqz(b, a, 6)[1], lambda b, a: S.freqz(b, worN=6, whole=True)[1], lambda b, a: S.freqz(b, 2.0, 6, include_nyquist=True)[1]), np.array([1.0, 0.5, 0.2]), np.array([1.2, -0.4])),
    "freqz at one frequency": (joined(lambda b, w: S.freqz(b, 2.0, w[0])[1], lambda b, w: S.freqz(b, 2.0, 0.7)[1], lambda b, w: S.freqz(b, 2.0, [0.3, w[1]])[0]), np.array([1.0, 0.5, 0.2]), np.array([0.1, 0.4])),
    "freqz at frequencies": (lambda b, w: joined(lambda: S.freqz(b, [1.0, 0.3], w, fs=2.0)[1])(), np.array([1.0, 0.5, 0.2]), np.array([0.1, 0.4, 0.7])),
    "sawtooth": (joined(S.sawtooth, lambda t, w: S.sawtooth(t)), T + 0.05, np.array(0.4)),
    "square": (joined(S.square, lambda t, w: t * S.square(t)), T + 0.05, np.array(0.4)),
    "iircomb": (joined(lambda q: S.iircomb(10.0, q, fs=100.0)[0], lambda q: S.iircomb(10.0, q, fs=100.0)[1]), np.array(15.0)),
    "chirp": (S.chirp, T, 0.3, 4.0, 0.6),
    "chirp methods": (joined(lambda t: S.chirp(t, 0.3, 4.0, 0.6, "quadratic", 30.0), lambda t: S.chirp(t, 0.3, 4.0, 0.6, "quadratic", 30.0, False), lambda t: S.chirp(t, 0.3, 4.0, 0.6, "logarithmic"), lambda t: S.chirp(t, 0.3, 10.0, 0.6, "hyperbolic"), lambda t: S.chirp(t, 0.3, 4.0, 0.6, complex=True)), T),
    "lists": (lambda p: S.sweep_poly(T / 4, [p[0], 0.2, p[1]]) + S.lombscargle(T, Z, [p[0] + 1.0, 2.0]).sum(), np.array([0.1, 0.3])),
    "sweep_poly": (lambda t, p: S.sweep_poly(t, p, 10.0), T / 4, np.array([0.1, -0.2, 0.3])),
    "sepfir2d": (lambda x, h, c: S.sepfir2d(x, h, c), M[:, :7], np.array([1.0, 2.0, 0.4]), np.array([0.3])),
    "symiirorder1": (joined(lambda x, c: S.symiirorder1(x, c[0], c[1]), lambda x, c: S.symiirorder1(np.stack([x, x**2]), 0.4, -c[1])), RNG.normal(size=20), np.array([0.3, 0.2])),
    "symiirorder2": (joined(lambda x: S.symiirorder2(x, 0.2, 0.4), lambda x: S.symiirorder2(np.stack([x, -x]), 0.1, 0.7)), RNG.normal(size=20)),
    "gausspulse": (joined(lambda t: S.gausspulse(t, 0.5), lambda t: np.concatenate(S.gausspulse(t, 0.5, retquad=True, retenv=True))), T / 3 - 1.0),
}  # fmt: skip
# Which entries are taken depends on the numbers, and may be others nearby.
CHOOSING = {"welch", "csd", "windows", "windows of one axis", "resample_poly", "sawtooth"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:nperseg:UserWarning")
def test_values_and_derivatives(name):
    function, *arguments = CASES[name]
    curved = not is_affine(function, *arguments)
    check_derivatives(function, *arguments, order=1 + curved, points=int(name in CHOOSING))


def test_frequencies_and_times_are_plain_arrays():
    seen = []

    def power(x):
        frequencies, times, spectrum = S.spectrogram(x, nperseg=8)
        seen.append((frequencies, times))
        return np.sum(spectrum)

    nt.grad(power)(V)
    wanted = S.spectrogram(V, nperseg=8)[:2]
    for got, plain in zip(seen[0], wanted, strict=True):
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: S.welch(x, window=x)[1], "window"),
        (lambda x: S.resample_poly(x, 2, 1, window=list(x[:3])), "window"),
        (lambda x: S.freqz(x, plot=print)[1].real, "plot"),
    ],
)
def test_what_has_no_derivative_raises_by_name(function, text):
    with pytest.raises(nt.UnsupportedOperationError, match=text):
        nt.grad(lambda x: np.sum(function(x)))(V)


@pytest.mark.parametrize("evaluate", [S.cspline1d_eval, S.qspline1d_eval])
def test_curvature_of_a_spline_at_its_samples_is_that_beside_them(evaluate):
    def curvature(x):
        return np.diag(nt.hessian(lambda x: np.sum(evaluate(V, x)))(x))

    samples = np.array([0.0, 1.0, 2.0, 7.0, -3.0, 19.0])  # two of them beyond the ends
    beside = 1e-9 * np.sign(samples + 1.0)
    np.testing.assert_allclose(curvature(samples), curvature(samples + beside), rtol=1e-6, atol=1e-6)


def test_a_logarithmic_chirp_of_one_frequency():
    """SciPy's formula divides zero by zero there, and has no digits beside it."""
    t, verb = np.array([0.1, 0.4]), nt.value_and_grad
    bend = verb(lambda f: np.sum(S.chirp(t, 1.5, 2.0, f, method="log")))
    value, slope = bend(1.5)
    assert value == pytest.approx(np.sum(np.cos(3.0 * np.pi * t)))
    assert slope == pytest.approx(-np.sum(np.sin(3.0 * np.pi * t) * np.pi * t * t / 2.0))
    np.testing.assert_allclose(bend(1.7)[0], np.sum(S.chirp(t, 1.5, 2.0, 1.7, method="log")))


@pytest.mark.parametrize("function", [S.residue, S.residuez])
def test_conjugate_poles_come_in_scipy_s_order(function):
    """They have the same absolute value, by which SciPy sorts, and the order of equal ones is NumPy's own."""
    for a in ([0.6, 0.3, 0.8, 0.5, 0.2], [1.0, 0.2, 0.9, 0.1, 0.5, 0.3, 0.7]):
        residues, poles = nt.vjp(lambda a: function([0.4, 0.3], a)[:2], np.array(a))[0]
        np.testing.assert_allclose(poles, function([0.4, 0.3], a)[1], rtol=1e-13)
        np.testing.assert_allclose(residues, function([0.4, 0.3], a)[0], rtol=1e-12)
