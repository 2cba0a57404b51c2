"""SciPy's functions of arrays: integrals of samples, signals, images, distances, Fourier transforms."""

# ruff: noqa: E501, B008, E741  (a table; functions as defaults, which the tracer replaces)

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.ndimage
import scipy.signal
import scipy.spatial
from scipy.integrate import cumulative_trapezoid, fixed_quad, quad, romb, simpson, trapezoid
from scipy.spatial import distance

import numbatape as nt
from numbatape.testing import check_derivatives

RNG = np.random.default_rng(3)
S, M = scipy.signal, RNG.normal(size=(3, 4))
I, F = scipy.ndimage, scipy.fft
V, W, K = RNG.normal(size=8), RNG.normal(size=3), RNG.normal(size=(2, 3))
T9 = np.sort(RNG.uniform(size=9))
P, Q = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3))
SECTIONS = S.butter(4, 0.3, output="sos")

CASES = {
    "trapezoid": (lambda y: trapezoid(y, dx=0.5) ** 2 + np.sum(scipy.integrate.trapezoid(y[:6].reshape(2, 3), axis=0)), V),
    "trapezoid points": (lambda y, x: trapezoid(y, x), T9**2, T9),
    "cumulative": (lambda y: cumulative_trapezoid(y, dx=0.3, initial=0) ** 2, V),
    "cumulative points": (lambda y, x: cumulative_trapezoid(y, x), T9**2, T9),
    "simpson odd": (lambda y, x: simpson(y, x=x), T9**3, T9),
    "simpson even": (lambda y, x: simpson(y, x=x), T9[1:] ** 3, T9[1:]),
    "simpson dx": (lambda y: simpson(y, dx=0.1) + simpson(y[:7]) + simpson(y[:2]), V),
    "simpson axis": (lambda y: simpson(y, axis=0) * 2.0, M),
    "romb": (lambda y: romb(y, dx=0.25) ** 2, RNG.normal(size=9)),
    "fixed_quad": (lambda a: fixed_quad(lambda x, c: np.exp(-c * x), a[0], a[1], (a[2],), n=6)[0], np.array([0.1, 1.0, 2.0])),
    **{
        f"{name} {mode}": (lambda a, b, f=getattr(S, name), m=mode: f(a, b, m), V, W)
        for name in ("convolve", "correlate", "fftconvolve", "oaconvolve")
        for mode in ("full", "same", "valid")
    },
    **{
        f"{name} 2d {mode}": (lambda a, b, f=getattr(S, name), m=mode: f(a, b, m), M, K)
        for name in ("convolve", "correlate", "convolve2d")
        for mode in ("full", "same", "valid")
    },
    "lfilter": (lambda b, a, x: S.lfilter(b, a, x), W, np.array([1.5, -0.3, 0.2, 0.1]), V),
    "lfilter fir": (lambda b, x: S.lfilter(b, [2.0], x), W, V),
    "lfilter axis": (lambda x: S.lfilter([1.0, 0.5], [1.0, -0.4], x, axis=0), M),
    "lfilter zi": (lambda x, z: np.concatenate(S.lfilter([1.0, 0.5, 0.1], [1.0, -0.4], x, zi=z)), V, W[:2]),
    "lfilter zi short": (lambda x, z: np.concatenate(S.lfilter([1.0, 0.5, 0.1], [1.0, -0.4], x[:1], zi=z)), V, W[:2]),
    "sosfilt": (lambda x: S.sosfilt(S.butter(3, 0.3, output="sos"), x), V),
    "sosfilt with states": (lambda x: S.sosfilt(SECTIONS, x, zi=SECTIONS[:, :2] * x[0])[0] * x[1], V),
    "states of sosfilt": (lambda x: S.sosfilt(SECTIONS, np.outer(x, x), 0, np.ones((2, 2, len(x))))[1], V),
    "decimate": (lambda x: S.decimate(np.tile(x, 8), 2), V),
    "filtfilt": (lambda x: S.filtfilt([0.3, 0.2], [1.0, -0.5], x), V),
    "filtfilt even": (lambda x: S.filtfilt([0.3, 0.2], [1.0, -0.5], x, axis=0, padtype="even", padlen=2), M),
    "correlate valid swapped": (lambda a, b: S.correlate(b, a, "valid"), V, W),
    "convolve same larger": (lambda a, b: S.convolve(b, a, "same"), V, W),
    "fftconvolve big": (lambda a: S.fftconvolve(a, a[::-1], "same"), RNG.normal(size=70)),
    "fftconvolve axes": (lambda a, b: S.fftconvolve(a, b, axes=1), M, M[:, :2]),
    **{f"correlate2d {m}": (lambda a, b, m=m: S.correlate2d(a, b, m, "symm"), M, K) for m in ("full", "same", "valid")},
    "correlate2d": (lambda a, b: S.correlate2d(a, b[:, :2], "same"), M, K),
    "convolve2d symm": (lambda a, b: S.convolve2d(a, b, "same", "symm"), M, K),
    "convolve2d wrap": (lambda a, b: S.convolve2d(a, b, "full", "wrap"), M, K),
    "detrend": (lambda x: S.detrend(x, bp=[4]) ** 2 + S.detrend(x, type="constant"), V),
    "detrend axis": (lambda x: S.detrend(x, axis=0), M),
    "lfilter_zi at one": (lambda b, a: S.lfilter_zi(b, a), W, np.array([1.0, -0.3])),
    "sosfilt_zi": (lambda s: S.sosfilt_zi(s), SECTIONS),
    "lfilter complex": (lambda b, x: np.abs(S.lfilter(b * 1j, [1.0, -0.4, 0.1], x * (1 + 2j))) ** 2, W, V),
    **{
        f"{name} complex {mode}": (lambda a, b, f=getattr(S, name), m=mode: np.abs(f(a * (1 + 2j), b + 1j * a[:3], m)), V, W)
        for name in ("convolve", "correlate", "fftconvolve")
        for mode in ("full", "same", "valid")
    },
    "fftconvolve complex axes": (lambda a, b: np.abs(S.fftconvolve(a, b * 1j + 1.0, axes=1)), M, M[:, :2]),
    "correlate2d complex": (lambda a, b: np.imag(S.correlate2d(a * 1j, b * (2 + 1j), "same", "wrap")), M, K),
    "hilbert": (lambda x: np.abs(S.hilbert(x)) ** 2, V),
    "hilbert odd": (lambda x: np.imag(S.hilbert(x[:7])), V),
    "savgol": (lambda x: S.savgol_filter(x, 5, 2) + S.savgol_filter(x, 5, 2, deriv=1, mode="mirror"), V),
    **{
        f"savgol even {m}": (lambda x, m=m: S.savgol_filter(x, 4, 2, deriv=1, mode=m), V)
        for m in ("mirror", "constant", "interp")
    },
    "savgol, spacing": (lambda d: S.savgol_filter(V, 5, 2, deriv=2, delta=d[0]), V[:1] + 2.0),
    "savgol axis": (lambda x: S.savgol_filter(x, 3, 1, axis=0), M),
    **{
        f"{name}1d {mode}": (lambda x, w, f=getattr(I, name + "1d"), m=mode: f(x, w, mode=m, origin=1), V, W)
        for name in ("correlate", "convolve")
        for mode in ("reflect", "nearest", "mirror", "wrap", "constant")
    },
    "convolve1d even": (lambda x, w: I.convolve1d(x, w[:2], axis=0) + I.correlate1d(x, w[:2]), M, W),
    "image correlate": (lambda x, w: I.correlate(x, w, mode="nearest"), M, K),
    "image convolve": (lambda x, w: I.convolve(x, w, mode="constant", cval=2.0), M, K),
    "gaussian": (lambda x: I.gaussian_filter(x, [0.5, 0.3]) ** 2 + I.gaussian_filter1d(x, 0.4, 0), M),
    "uniform": (lambda x: I.uniform_filter(x, 2) + I.uniform_filter1d(x, 3), M),
    **{f"cdist {m}": (lambda x, y, m=m: distance.cdist(x, y, m), P, Q)
       for m in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra", "braycurtis")},
    "cdist minkowski": (lambda x, y: distance.cdist(x, y, "minkowski", p=3.0), P, Q),
    "cdist mahalanobis": (lambda x, y: distance.cdist(x, y, "mahalanobis", VI=np.diag([1.0, 2.0, 3.0])), P, Q),
    "cdist seuclidean": (lambda x, y: distance.cdist(x, y, "seuclidean", V=np.array([1.0, 2.0, 3.0])), P, Q),
    "pdist": (lambda x: distance.squareform(distance.pdist(x)) ** 2, P),
    "distances with their own variances": (lambda x: distance.pdist(x, "seuclidean") + distance.pdist(x, distance.cosine), P),
    "distances with their own covariance": (lambda x, y: distance.cdist(x, y[:3], "mahalanobis"), np.concatenate([P, 2.0 * P**2]), Q),
    "a metric of the user's": (lambda x, y: distance.cdist(x, y, lambda u, v, c: c * np.sum((u - v) ** 4) ** 0.25, c=2.0), P, Q),
    "squareform": (lambda x: distance.squareform(distance.squareform(distance.pdist(x))), P),
    "pairs": (lambda x: distance.euclidean(x[0], x[1]) + distance.cosine(x[2], x[1]) + distance.minkowski(x[0], x[3], 3), P),
    "fft": (lambda x: np.abs(F.ifft(F.fft(x, 6) * F.fft(x[::-1], 6, norm="ortho"))) ** 2, V),
    "rfft": (lambda x: F.irfft(F.rfft(x) ** 2, 8), V),
    "fftn": (lambda x: np.abs(F.fftshift(F.fft2(x))) ** 2 + np.real(F.ifftn(F.fftn(x, axes=0) ** 2)), M),
    **{f"{n} {k}": (lambda x, f=getattr(F, n), k=k: f(x, k, axis=0, norm="ortho"), M)
       for n in ("dct", "idct", "dst", "idst") for k in (1, 2, 3, 4)},
    "dctn": (lambda x: F.dctn(x) * F.idstn(x, 3, axes=[1]), M),
    "dct n": (lambda x: np.sum(F.dct(x, n=5)) + np.sum(F.dct(x, n=10) ** 2), V),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    f, *args = CASES[name]
    for x in nt.vjp(f, *args)[:1]:
        want = np.asarray(f(*args))
        assert np.shape(x) == want.shape and np.asarray(x).dtype == want.dtype
    check_derivatives(
        lambda *a: np.sum(np.sin(f(*a))), *args, float32=False, order=2 if len(args) > 1 else 1, points=0
    )


# SciPy 1.18 says that these will be removed.
@pytest.mark.filterwarnings("ignore:`(distance_matrix|minkowski_distance(_p)?)` is deprecated")
def test_distances_from_itself_have_no_slope():
    """Each pair of two points counts twice, and the pairs of a point with itself do not count."""
    g, h, m = (
        nt.grad(lambda x, f=f: np.sum(f(x, x)))(P)
        for f in (
            distance.cdist,
            scipy.spatial.distance_matrix,
            lambda x, y: np.stack([distance.mahalanobis(p, q, np.eye(3)) for p in x for q in y]),
        )
    )
    others = [np.delete(P, k, axis=0) for k in range(len(P))]
    each = [
        2.0 * np.sum((p - q) / np.linalg.norm(p - q, axis=1)[:, None], axis=0)
        for p, q in zip(P, others, strict=True)
    ]
    np.testing.assert_allclose([g, h, m], [each] * 3, rtol=1e-13)


@pytest.mark.parametrize(
    "f, hint",
    [
        (lambda x: np.sum(distance.cdist(P * x[0], P, "jaccard")), "euclidean"),
        (lambda x: romb(x, show=True), "show"),
    ],
)
def test_what_there_is_not(f, hint):
    with pytest.raises(nt.UnsupportedOperationError, match=hint):
        nt.grad(f)(RNG.normal(size=9) ** 2 + 0.5)


# ---- quad


def test_integrals_with_parameters_and_limits():
    def f(p):
        return quad(lambda x, c: np.exp(-c * x) * p[1], p[2], p[3] ** 2, args=(p[0],))[0] ** 2

    check_derivatives(f, np.array([0.7, 1.3, 0.2, 1.1]), rtol_modes=1e-9, float32=False, points=0)


def test_integrals_over_all_numbers():
    """A normal density's constant: ``sqrt(2 pi) s``."""
    f = lambda s: quad(lambda x: math.exp(-0.5 * (x / s) ** 2), -np.inf, np.inf)[0]  # noqa: E731
    np.testing.assert_allclose(nt.grad(f)(1.7), math.sqrt(2.0 * math.pi), rtol=1e-9)
    np.testing.assert_allclose(nt.value_and_grad(f)(1.7)[0], f(1.7), rtol=1e-15)
    assert abs(nt.hessian(f)(1.7)) < 1e-8


def test_quads_options():
    g = nt.grad(lambda p: quad(lambda x: np.abs(x - 0.5) * p, 0, 1, points=[0.5], epsabs=1e-10)[0])
    np.testing.assert_allclose(g(2.0), 0.25, rtol=1e-10)
    with pytest.raises(nt.UnsupportedOperationError, match=r"weight='cos'.*multiply the integrand"):
        nt.grad(lambda p: quad(lambda x: x * p, 0, 1, weight="cos", wvar=p)[0])(1.0)
