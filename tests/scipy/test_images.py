"""``scipy.ndimage``: the value is SciPy's, derivatives agree with differences, for each border and order."""

# ruff: noqa: E501  (a table; functions as defaults, which the tracer replaces)

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as I

import numbatape as nt
from numbatape.testing import check_derivatives
from tests.agreement import is_affine
from tests.every_case import every, together

RNG = np.random.default_rng(0)
A, T = RNG.normal(size=(4, 5)), RNG.normal(size=(2, 3, 4))
LABELS = RNG.integers(0, 3, (4, 5))
CROSS = np.array([[0, 1, 1], [1, 1, 0]])
HEIGHTS = np.arange(6.0).reshape(2, 3) / 17.3
TURN = np.array([[1.1, 0.2], [-0.3, 0.8]])
FILTER_MODES = ("reflect", "nearest", "mirror", "wrap", "constant")
MODES = (*FILTER_MODES, "grid-mirror", "grid-wrap", "grid-constant")
BEYOND, NEAR = (
    np.array([[-7.4, -0.4, 2.6, 5.4], [3.4, 1.7, -2.6, 2.3]]),
    np.array([[-0.4, 0.6, 2.3], [1.7, -0.7, 4.3]]),
)
EXTREMES = (
    "minimum_filter",
    "maximum_filter",
    "median_filter",
    "grey_erosion",
    "grey_dilation",
    "grey_opening",
    "white_tophat",
    "black_tophat",
)
STATISTICS = ("sum", "sum_labels", "mean", "variance", "standard_deviation", "minimum", "maximum", "median")


def joined(*functions):
    """Return a function of all results, so that one check of derivatives serves them."""
    return lambda *arguments: np.concatenate([np.ravel(function(*arguments)) for function in functions])


GAUSSIANS = ("gaussian_laplace", "gaussian_gradient_magnitude")


def into_parts(x):
    out = np.zeros((4, *A.shape))
    I.gaussian_filter(x, 1.5, output=out[0])
    I.spline_filter(x, output=out[1])
    I.sobel(x, output=out[2])
    I.grey_dilation(x, 3, output=out[3])
    return out


def written(write):
    out = np.zeros(A.shape)
    write(out)
    return out


CASES = {
    **{
        f"map_coordinates {mode} {order}": (lambda x, c, m=mode, o=order: I.map_coordinates(x, c, order=o, mode=m, cval=0.3), A, NEAR if mode == "grid-constant" else BEYOND)
        for mode, order in [*zip(MODES, (1, 3, 4, 3, 1, 0, 2, 1), strict=True), ("mirror", 5), ("constant", 3), ("grid-constant", 3)]
    },
    "map_coordinates not filtered": (lambda x, c: I.map_coordinates(x, c, prefilter=False), A, np.abs(BEYOND) % 4),
    **{f"shift {mode}": (lambda x, s, m=mode: I.shift(x, s, mode=m), A, np.array([0.7, -1.3])) for mode in MODES[1::4]},
    "shift one": (lambda x, s: I.shift(x, s, order=1), A, np.array(0.3)),
    **{f"zoom {mode}": (lambda x, m=mode: I.zoom(x, 1.7, mode=m), A) for mode in MODES[::4]},
    "zoom grid": (lambda x: I.zoom(x, (2, 0.5), grid_mode=True, mode="grid-constant"), A),
    "zoom by one": (lambda x: I.zoom(x, 1), A),
    **{f"affine_transform {mode}": (lambda x, a, b, m=mode: I.affine_transform(x, a, b, mode=m, order=2), A, TURN, np.array([0.17, 0.38])) for mode in MODES[1::3]},
    "affine_transform diagonal": (lambda x: I.affine_transform(x, [0.9, 1.2], 0.1, (4, 4)), A),
    "affine_transform homogeneous": (lambda x: I.affine_transform(x, [[0.9, 0.1, 0.2], [0.1, 1.2, 0.3], [0, 0, 1]], order=1), A),
    **{f"rotate {mode}": (lambda x, m=mode: I.rotate(x, 31.0, mode=m), A) for mode in ("nearest", "constant")},
    "rotate angle": (lambda x, a: I.rotate(x, a, reshape=False), A, np.array(20.0)),
    "rotate planes": (lambda x: I.rotate(x, 20.0, axes=(0, 2), reshape=False, order=1), T),
    "output": (into_parts, A),
    "output by place": (lambda x: written(lambda out: I.correlate1d(x, [1.0, 2.0, 3.0], 0, out, "wrap")), A),
    "output over the input": (lambda x: written(lambda out: (np.copyto(out, x), I.uniform_filter(out, 3, output=out))), A),
    "output's dtype": (lambda x: I.convolve(x, HEIGHTS, output="float64") + I.laplace(x, np.float64), A),
    "output of functions of functions": (lambda x: I.generic_gradient_magnitude(x, I.sobel), A),
    "spline_filter": (lambda x: I.spline_filter(x), A),
    "spline_filter1d": (lambda x: I.spline_filter1d(x, 4, 0, mode="reflect"), A),
    "differences": (joined(*[lambda x, n=name, m=mode: getattr(I, n)(x, mode=m) for name in ("sobel", "prewitt", "laplace") for mode in ("reflect", "wrap")]), A),
    **{
        f"{mode} windows": (joined(*[lambda x, n=name, m=mode: getattr(I, n)(x, (2, 3), mode=m) for name in EXTREMES[k % 2 :: 2]]), A)
        for k, mode in enumerate(FILTER_MODES)
    },
    "footprints": (joined(*[lambda x, n=name: getattr(I, n)(x, footprint=CROSS, origin=(0, -1)) for name in EXTREMES[:5]]), A),
    "grey_dilation structure": (lambda x: I.grey_dilation(x, structure=HEIGHTS, mode="wrap"), A),
    "grey_erosion structure": (lambda x: I.grey_erosion(x, footprint=CROSS, structure=HEIGHTS), A),
    "morphology": (joined(*[lambda x, n=name: getattr(I, n)(x, 3) for name in ("morphological_gradient", "morphological_laplace", "grey_closing")]), A),
    "ranks": (joined(lambda x: I.rank_filter(x, -2, 3), lambda x: I.percentile_filter(x, 30, 3)), A),
    "lines": (joined(lambda x: I.maximum_filter1d(x, 3, 0, origin=1), lambda x: I.minimum_filter1d(x, 4)), A),
    "statistics": (joined(*[lambda x, n=name: getattr(I, n)(x) for name in STATISTICS]), A),
    "statistics of labels": (joined(*[lambda x, n=name: getattr(I, n)(x, LABELS) for name in STATISTICS]), A),
    "statistics of parts": (joined(*[lambda x, n=name: getattr(I, n)(x, LABELS, [1, 2]) for name in STATISTICS]), A),
    "center_of_mass": (lambda x: np.array(I.center_of_mass(x)), A + 9.0),
    "center_of_mass parts": (lambda x: np.array(I.center_of_mass(x, LABELS, [1, 2])), A + 9.0),
    "gaussian_filter": (joined(*[lambda x, o=order: I.gaussian_filter(x, (1.0, 0.7), o, mode=["reflect", "wrap"]) for order in (1, [0, 2])]), A),
    "gaussian_filter axes": (joined(lambda x: I.gaussian_filter(x, 1.0, axes=(1,), radius=2), lambda x: I.gaussian_filter1d(x, 0.8, 0, 1), lambda x: I.gaussian_filter1d(x, 1.5, radius=True)), A),
    "widths": (joined(lambda s: I.gaussian_filter(A, s, (0, 3)), lambda s: I.gaussian_filter1d(A, s[0], radius=3), lambda s: I.gaussian_laplace(A, s)), np.array([1.1, 0.7])),
    "gaussian derivatives": (joined(lambda x: I.gaussian_laplace(x, 1.0), lambda x: I.gaussian_gradient_magnitude(x, (1.0, 2.0))), A),
    "gaussian derivatives axes": (joined(*[lambda x, n=name: getattr(I, n)(x, 1.0, axes=(1,), mode=["wrap"]) for name in GAUSSIANS]), A),
    "gaussian derivatives modes": (joined(*[lambda x, n=name: getattr(I, n)(x, (1.0, 2.0), mode=["constant", "nearest"]) for name in GAUSSIANS]), A),
    "gaussian derivatives order": (lambda x: I.gaussian_laplace(x, (1.0, 2.0), axes=(1, 0), mode=["wrap", "constant"]), A),
    "uniform_filter origin": (joined(lambda x: I.uniform_filter(x, (2, 3), origin=(0, -1)), lambda x: I.uniform_filter1d(x, 4, 0, origin=1)), A),
    "correlate origin": (lambda x, w: I.correlate(x, w, origin=(0, -1)), A, HEIGHTS),
    "convolve origin": (lambda x, w: I.convolve(x, w, origin=(0, 1)), A, HEIGHTS),
    "axes": (lambda x, w: I.correlate(x, w, axes=(2, 0), origin=(0, -1)) + I.convolve(x, w, axes=(0, 1), mode="wrap"), T, HEIGHTS),
    "complex weights": (joined(*[lambda x, w, n=name: np.abs(getattr(I, n)(x, (2 + 1j) * w, cval=0.5)) for name in ("correlate", "convolve")]), A, HEIGHTS),
    "complex weights of lines": (joined(*[lambda x, w, n=name: np.real(getattr(I, n)(x * 1j, [1.0, 2j, 3.0], 0)) for name in ("correlate1d", "convolve1d")]), A, HEIGHTS),
    **{f"beyond the border, not filtered, {order}": (lambda x, c, o=order: I.map_coordinates(x, c, order=o, mode="nearest", prefilter=False), A, BEYOND) for order in (2, 5)},
    "gradient's magnitude in a mirrored corner": (lambda x: I.gaussian_gradient_magnitude(x, 1.0, mode="mirror"), A),
    "statistics of an array of parts": (joined(*[lambda x, n=name: getattr(I, n)(x, LABELS, [[2], [1]]) for name in STATISTICS]), A),
    "labels of a larger image": (joined(*[lambda x, n=name: getattr(I, n)(x[:1], LABELS, 1) for name in ("sum", "maximum")]), A),
    "fourier filters": (joined(*[lambda x, n=name: getattr(I, n)(x, 1.5) for name in ("fourier_gaussian", "fourier_uniform", "fourier_ellipsoid")]), A),
    "fourier filters, widths": (joined(*[lambda w, n=name: np.abs(getattr(I, n)(np.fft.rfft2(A), w, A.shape[1]) + getattr(I, n)(A[:, :3], w[0])) for name in ("fourier_gaussian", "fourier_uniform", "fourier_shift")]), np.array([0.7, 1.2])),
    "fourier_shift": (lambda x: np.fft.ifft2(I.fourier_shift(np.fft.fft2(x), (0.5, 1.2))).real, A),
}  # fmt: skip


def check(function, *arguments):
    curved = not is_affine(function, *arguments)
    check_derivatives(function, *arguments, order=1 + curved, points=int(curved))


@every(
    "name",
    [name for name, (_, *arguments) in CASES.items() if arguments[0] is not A or arguments[1:]],
    tests=2,
)
def test_values_and_derivatives(name):
    check(*CASES[name])


OF_ONE_IMAGE = {name: its[0] for name, its in CASES.items() if len(its) == 2 and its[1] is A}
CURVED = {name: not is_affine(function, A) for name, function in OF_ONE_IMAGE.items()}


@pytest.mark.parametrize("curved", [True, False])
@pytest.mark.parametrize("part", range(3))
def test_values_and_derivatives_of_one_image(part, curved):
    """Several functions at a time, those that are not affine apart from those that are."""
    names = [name for name in OF_ONE_IMAGE if CURVED[name] == curved][part::3]
    together(check, {name: OF_ONE_IMAGE[name] for name in names}, A)


@pytest.mark.parametrize("mode", MODES)
def test_borders_and_middles_between_pixels_are_scipys(mode):
    """There the last bit of a place decides which pixel it is: whether a corner is inside after a quarter turn."""
    image = np.random.default_rng(3).normal(size=(7, 6))
    places = np.stack(np.meshgrid(np.arange(-16.0, 20.0, 0.5), np.arange(-15.0, 16.0, 0.5)))
    for order in (0, 1):
        its = {"order": order, "mode": mode}
        functions = [
            *(lambda x, a=a, o=its: I.rotate(x, a, reshape=a > 100, **o) for a in (45, 90, 135, 270)),
            *(lambda x, s=s, o=its: I.shift(x, s, **o) for s in (0.5, (-0.5, 6), (-1, 1.5))),
            lambda x, o=its: I.affine_transform(x, [-1.0, 0.5], [6.0, 0.25], **o),
            lambda x, o=its: I.map_coordinates(x, places, **o),
        ]
        for f in functions:
            value, pullback = nt.vjp(f, image)
            assert np.allclose(value, f(image), rtol=1e-13, atol=1e-13)
            (slope,) = pullback(np.ones_like(value))
            assert np.vdot(slope, image) == pytest.approx(value.sum())  # looking up is linear in the image


def test_neighbours_are_data_of_the_tape():
    """A place that moves to other pixels needs no new trace."""
    cache = nt.prepare_gradient_cache(
        lambda c: np.sum(I.map_coordinates(A, c, order=1, mode="nearest")), BEYOND
    )
    other = RNG.uniform(0, 3, BEYOND.shape)
    value, (slope,) = nt.value_and_gradient(cache, other)
    step = 1e-6 * np.eye(8).reshape(8, 2, 4)
    plain = [np.sum(I.map_coordinates(A, other + d, order=1, mode="nearest")) for d in step]
    assert cache.traces == 1
    np.testing.assert_allclose(slope.ravel(), (np.array(plain) - value) / 1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: I.zoom(A, x[0, 0]), "zoom"),
        (lambda x: I.rotate(A, x[0, 0]), "reshape=False"),
        (lambda x: I.fourier_ellipsoid(A, x[0, 0]), "traced widths"),
        (lambda x: I.sobel(x, output=int), "output of dtype int64"),
        (lambda x: I.maximum_filter(x, 3, axes=(0,)), "axes"),
        (lambda x: I.mean(x, x > 0), "labels"),
        (lambda x: I.affine_transform(x, [0.0, 1.2]), "zeros on a diagonal"),
    ],
)
def test_what_decides_shapes_raises_by_name(function, text):
    with pytest.raises(nt.UnsupportedOperationError, match=text):
        nt.grad(lambda x: np.sum(function(x)))(A)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, bool])
def test_images_of_integers_stay_images_of_integers(dtype):
    """SciPy rounds or truncates after each pass, so nothing has a derivative by what is not the image."""
    image = (np.arange(20).reshape(4, 5) * 7 % 11 - 3 * (dtype is np.int16)).astype(dtype)

    def f(m):
        places = [I.affine_transform(image, m), I.shift(image, m[0], order=1), I.map_coordinates(image, m)]
        filters = [I.gaussian_filter(image, m[0, 0]), I.convolve(image, m), I.correlate1d(image, m[1])]
        assert all(x.dtype == dtype for x in places + filters)
        return np.concatenate([np.ravel(x) for x in [*places, *filters]]) * 1.0

    jacobian = nt.value_and_jacobian(f)
    for at in (np.abs(TURN), np.abs(TURN) + 0.1):
        value, slope = jacobian(at)
        np.testing.assert_array_equal(value, f(at))
        assert not slope.any()
    floats = nt.grad(
        lambda s: I.gaussian_filter(image, s, output=float).sum() + I.spline_filter(image)[0, 0] * s
    )
    slope = (lambda h: (I.gaussian_filter(image, 1.0 + h, output=float).sum() - I.gaussian_filter(image, 1.0 - h, output=float).sum()) / (2 * h))(1e-5)  # fmt: skip
    assert floats(1.0) == pytest.approx(slope + I.spline_filter(image)[0, 0], rel=1e-6, abs=1e-6)
