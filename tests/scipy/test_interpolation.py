"""``scipy.interpolate`` at traced points and of traced values: SciPy's values, derivatives by differences."""

import numpy as np
import pytest
from scipy.interpolate import (
    Akima1DInterpolator,
    BSpline,
    CubicHermiteSpline,
    CubicSpline,
    InterpolatedUnivariateSpline,
    LinearNDInterpolator,
    NearestNDInterpolator,
    PchipInterpolator,
    PPoly,
    Rbf,
    RBFInterpolator,
    RectBivariateSpline,
    RegularGridInterpolator,
    UnivariateSpline,
    bisplev,
    griddata,
    interp1d,
    interpn,
    make_interp_spline,
    make_lsq_spline,
    make_smoothing_spline,
    pchip_interpolate,
    spalde,
    splder,
    splev,
    splint,
    splrep,
    sproot,
)
from scipy.spatial import KDTree

import numbatape as nt
from tests.agreement import agrees

X = np.array([0.0, 0.7, 1.5, 2.2, 3.0])
Y = np.sin(2 * X) + X
TABLE = np.stack([Y, Y**2], 1)
INSIDE = np.array([0.3, 1.05, 2.0, 2.9])
KNOTS = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 2.0])

TCK = splrep(X, Y)
CONSTANT_OUTSIDE = UnivariateSpline(X, Y, s=0.1, ext="const")

OF_POINTS = {
    "CubicSpline": CubicSpline(X, Y),
    "CubicSpline, natural": CubicSpline(X, Y, bc_type="natural"),
    "CubicSpline, columns": CubicSpline(X, TABLE),
    "CubicSpline, rows": CubicSpline(X, TABLE.T, axis=1),
    "CubicHermiteSpline": CubicHermiteSpline(X, Y, np.cos(X)),
    "PchipInterpolator": PchipInterpolator(X, Y),
    "Akima1DInterpolator": Akima1DInterpolator(X, Y),
    "PPoly": PPoly(np.array([[1.0, 2.0], [3.0, 4.0]]), [0.0, 1.0, 3.0]),
    "BSpline": BSpline(KNOTS, Y, 3),
    **{f"make_interp_spline, {k}": make_interp_spline(X, Y, k=k) for k in (1, 2, 3)},
    "make_interp_spline, columns": make_interp_spline(X, TABLE),
    **{f"interp1d, {kind}": interp1d(X, Y, kind=kind) for kind in ("linear", "quadratic", "cubic")},
    "interp1d, rows": interp1d(X, TABLE.T),
    "interp1d, fill": interp1d(X, Y, bounds_error=False, fill_value=(0.0, 1.0)),
    "derivative": CubicSpline(X, Y).derivative(),
    "antiderivative": CubicSpline(X, Y).antiderivative(),
    "RegularGridInterpolator": RegularGridInterpolator((X,), Y),
    "splev": lambda x: splev(x, TCK),
    "splev, derivative": lambda x: splev(x, TCK, der=1),
    **{f"splev, ext={k}": (lambda x, k=k: splev(2.0 * x - 0.5, TCK, ext=k)) for k in (0, 1, 3)},
    "splev, derivative, outside": lambda x: splev(2.0 * x - 0.5, TCK, 1, 3),  # FITPACK extrapolates it
    "splev, curve": lambda x: np.stack(splev(x, (TCK[0], [TCK[1], TCK[1] ** 2], 3))),
    "splint": lambda x: np.stack([splint(x[0], x[1], TCK), splint(x[2], 5.0, TCK), splint(-1.0, x[3], TCK)]),
    "UnivariateSpline": UnivariateSpline(X, Y, s=0.1),
    "UnivariateSpline, ext=1": lambda x: CONSTANT_OUTSIDE(2.0 * x - 0.5),
    "InterpolatedUnivariateSpline": InterpolatedUnivariateSpline(X, Y, k=2),
}
POINTS = {"BSpline": np.array([0.3, 1.1, 1.7])}


def jacobians_agree(f, x):
    """Value and Jacobian by both modes, in a trace and in further calls of its tape."""
    for mode in ("forward", "reverse"):
        for point in (x, x, x + 0.01):
            value, jacobian = nt.value_and_jacobian(f, mode=mode)(point)
            assert np.allclose(value, f(point), rtol=1e-12, atol=1e-14)
            steps = 1e-5 * np.eye(x.size)
            expected = np.stack([(f(point + d) - f(point - d)) / 2e-5 for d in steps], -1)
            assert np.allclose(jacobian, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", OF_POINTS)
def test_interpolators_made_outside(name):
    f, x = OF_POINTS[name], POINTS.get(name, INSIDE)
    jacobians_agree(lambda x: np.sin(f(x)), x)


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator", "BSpline", "make_interp_spline, 3"])
def test_derivatives_of_the_polynomials(name):
    f, x = OF_POINTS[name], 1.1
    derivative = nt.derivative(lambda x: f(x))
    assert np.isclose(derivative(x), f(x, 1), rtol=1e-12)
    assert np.isclose(nt.derivative(derivative)(x), f(x, 2), rtol=1e-12)
    jacobians_agree(lambda x: f(x, nu=1), POINTS.get(name, INSIDE))
    jacobians_agree(lambda x: f.derivative()(x) * f.antiderivative()(x), POINTS.get(name, INSIDE))


OF_VALUES = {
    "splrep": lambda y: splev(INSIDE, splrep(X, y)),
    "splrep, k=1": lambda y: splev(INSIDE, splrep(X, y, k=1, s=0), der=1),
    "splrep, knots": lambda y: splev(INSIDE, splrep(X, y, k=2, t=[1.5], task=-1)),
    "splint": lambda y: np.reshape(splint(0.3, 2.9, splrep(X, y)), (1,)),
    "UnivariateSpline": lambda y: UnivariateSpline(X, y, s=0)(INSIDE, nu=1),
    "InterpolatedUnivariateSpline": lambda y: InterpolatedUnivariateSpline(X, y)(INSIDE),
    "CubicSpline": lambda y: CubicSpline(X, y)(INSIDE),
    "CubicSpline, clamped": lambda y: CubicSpline(X, y, 0, "clamped")(INSIDE),
    "CubicSpline, periodic": lambda y: CubicSpline(X, np.append(y[:-1], y[0]), bc_type="periodic")(
        INSIDE + 3.0
    ),
    "CubicSpline, ends": lambda y: CubicSpline(X, y, bc_type=((1, 0.0), (2, 0.0)))(INSIDE),
    "CubicSpline, rows": lambda y: CubicSpline(X, np.stack([y, y**2]), axis=1)(INSIDE),
    "CubicSpline, slopes": lambda y: CubicSpline(X, y)(INSIDE, 1),
    "CubicSpline, derivative": lambda y: CubicSpline(X, y).derivative(2)(INSIDE),
    "make_interp_spline": lambda y: make_interp_spline(X, y, 2)(INSIDE),
    "BSpline": lambda y: BSpline(KNOTS, y, 3)(INSIDE[:3]),
    "PPoly": lambda y: PPoly(np.reshape(y[:4], (2, 2)), [0.0, 1.0, 3.0])(INSIDE),
    "interp1d": lambda y: interp1d(X, y)(INSIDE),
    "interp1d, cubic": lambda y: interp1d(X, y, kind="cubic", fill_value="extrapolate")(INSIDE + 1.0),
    "RegularGridInterpolator": lambda y: RegularGridInterpolator((X,), y)(INSIDE[:, None]),
    "points and values": lambda y: CubicSpline(X, y)(0.1 * y[:3]),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_traced_values(name):
    jacobians_agree(OF_VALUES[name], Y)


def test_grids():
    table = np.random.default_rng(0).normal(size=(5, 3, 2))
    grid = RegularGridInterpolator((X, np.arange(3.0)), table)
    jacobians_agree(lambda p: grid(np.reshape(p, (2, 2))), np.array([0.3, 0.5, 1.6, 1.7]))
    jacobians_agree(lambda p: grid((p, 0.5 * p)), np.array([0.3, 1.6]))

    def of_both(p):
        made = RegularGridInterpolator((X, np.arange(3.0)), table * p[0], bounds_error=False, fill_value=0.5)
        return made(np.stack([p, p + 0.2], 1))

    jacobians_agree(of_both, np.array([0.3, 1.6, 4.0]))


def test_outside_of_the_range():
    periodic = CubicSpline(X, np.append(Y[:-1], Y[0]), bc_type="periodic")
    jacobians_agree(lambda x: periodic(x), np.array([-0.5, 3.4, 7.0]))
    jacobians_agree(lambda x: OF_POINTS["CubicSpline"](x), np.array([-0.5, 3.4]))
    jacobians_agree(lambda x: OF_POINTS["interp1d, fill"](x), np.array([-0.5, 1.0, 3.4]))
    f = PchipInterpolator(X, Y, extrapolate=False)
    assert np.array_equal(
        np.isnan(nt.value_and_jacobian(lambda x: f(x))(np.array([-0.5, 1.0]))[0]), [True, False]
    )
    for call in (OF_POINTS["interp1d, linear"], OF_POINTS["RegularGridInterpolator"]):
        slope = nt.grad(lambda x, call=call: np.sum(call(np.stack([x, x]))))
        slope(1.0)
        with pytest.raises(ValueError, match=r"outside of the interpolation range|out of bounds"):
            slope(5.0)
        assert np.isfinite(slope(1.2))


def test_plain_points_and_attributes_are_scipys():
    spline = CubicSpline(X, Y)

    def f(x):
        assert np.array_equal(spline.x, X) and spline.integrate(0.0, 3.0) > 0.0
        return x * spline(1.0) + x * CubicSpline(X, Y)(1.0)

    assert np.isclose(nt.grad(f)(2.0), 2 * spline(1.0))


def test_integrals_over_whole_periods():
    places = 0.4 * X + 0.1
    ends = places[0] + 1.2 * np.arange(1.0, 20.0)  # rounding puts some of them before, some behind a period
    spline = CubicSpline(places, PERIODIC, bc_type="periodic")
    value = nt.value_and_grad(
        lambda b, k: CubicSpline(places, k * PERIODIC, bc_type="periodic").integrate(0.1, b)
    )
    found = [value(end, 1.0)[0] for end in ends]
    np.testing.assert_allclose(found, [spline.integrate(0.1, end) for end in ends], rtol=1e-12)


@pytest.mark.parametrize(
    "make", [PchipInterpolator, Akima1DInterpolator, lambda x, y: CubicHermiteSpline(x, y, y)]
)
@pytest.mark.parametrize("places", [[0.0, 2.0, 1.0, 3.0], [3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 1.0, 2.0]])
def test_breakpoints_must_ascend(make, places):
    for argnums in (0, 1):
        with pytest.raises(ValueError, match="strictly increasing"):
            nt.grad(lambda x, y: make(x, y)(0.5), argnums=argnums)(np.array(places), Y[:4])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda y: splev(1.0, splrep(X, y, s=0.5)), r"splrep of traced values with s > 0 .* \(s=0\) are"),
        (lambda y: UnivariateSpline(X, y)(1.0), "make_interp_spline"),
        (
            lambda y: make_interp_spline(y, Y, bc_type="natural")(1.0),
            "make_interp_spline of traced breakpoints",
        ),
        (lambda y: splrep(y, Y, w=y)[1], "splrep of traced weights"),
        (lambda y: RegularGridInterpolator((X,), Y, method="pchip")(y[:1])[0], "linear, nearest, slinear"),
        (lambda y: RectBivariateSpline(X, X, TABLE @ TABLE.T, s=y[0])(1.0, 1.0), "one with s=0"),
        (lambda y: griddata(SITES, y, SITES, method="cubic"), "'linear' and 'nearest'"),
    ],
)
def test_what_is_not_supported(call, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(lambda y: np.sum(call(y)))(X)


GRID = np.outer(np.sin(X), X) + Y
PLACES = np.array([[0.3, 1.1], [2.1, 0.4], [1.0, 2.9]])
SITES = np.random.default_rng(2).normal(size=(5, 2))
CORNERS = np.concatenate([SITES, 4.0 * np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.2, 1.0]])])
HEIGHTS = np.sin(CORNERS[:, 0]) + CORNERS[:, 1]
SURFACE, RBF = RectBivariateSpline(X, X, GRID), RBFInterpolator(CORNERS, HEIGHTS)
LINEAR, NEAREST = (
    LinearNDInterpolator(CORNERS, HEIGHTS),
    NearestNDInterpolator(CORNERS, TABLE[[0, 1] * 4 + [2]]),
)
SPLINES = {k: RegularGridInterpolator((X, X), GRID, method=k) for k in ("nearest", "slinear", "cubic")}
OUTSIDE = np.array([-0.5, 1.0, 3.4])
KNOTS = np.arange(9.0)  # of a basis that begins before the first place of a spline in it
PERIODIC = np.array([0.0, 1.0, 1.0, 1.0, 0.0])
KINDS = ("nearest", "nearest-up", "previous", "next", "zero")


def written(x):
    """Return a copy that a traced function takes for an array to which traced values may be written."""
    made = np.zeros(x.shape)
    made[:] = x
    return made


def kernel(name):
    return {"kernel": name} | ({} if name in ("linear", "cubic", "thin_plate_spline") else {"epsilon": 2.0})


FURTHER = {
    "hermite, values": (lambda y: CubicHermiteSpline(X, y, np.cos(X))(INSIDE), Y),
    "hermite, slopes": (lambda d: CubicHermiteSpline(X, TABLE, d)(INSIDE), np.sin(TABLE)),
    "hermite, places": (lambda x: CubicHermiteSpline(x, Y, np.cos(x))(INSIDE), X),
    "pchip, values": (lambda y: PchipInterpolator(X, y)(OUTSIDE), TABLE),
    "pchip, places": (lambda x: PchipInterpolator(x, TABLE.T, axis=1)(INSIDE), X),
    "pchip, turns": (
        lambda y: PchipInterpolator(X, y).derivative()(INSIDE),
        np.array([1.0, 2.0, 0.5, 0.4, 3.0]),
    ),
    "pchip, two": (lambda y: PchipInterpolator(X[:2], y)(INSIDE[:2]), Y[:2]),
    "pchip_interpolate": (lambda y: pchip_interpolate(X, y, INSIDE, der=1), Y),
    "akima, values": (lambda y: Akima1DInterpolator(X, y)(INSIDE), TABLE),
    "akima, places": (lambda x: Akima1DInterpolator(x, Y, extrapolate=True)(OUTSIDE), X),
    "akima, three": (lambda y: Akima1DInterpolator(X[:3], y)(INSIDE[:2]), Y[:3]),
    "makima": (lambda y: Akima1DInterpolator(X, y, method="makima")(INSIDE), Y),
    "integrate": (lambda y: CubicSpline(X, y).integrate(y[0], 3.5), Y),
    "integrate, limits": (lambda t: CubicSpline(X, TABLE).integrate(t[0], t[1]), INSIDE),
    "integrate, periodic": (lambda t: CubicSpline(X, TABLE).integrate(t[0], 5.0 * t[1], "periodic"), INSIDE),
    "antiderivative": (lambda y: CubicSpline(X, np.stack([y, y**2], 1)).antiderivative(2)(INSIDE), Y),
    "from_spline": (lambda x: PPoly.from_spline(TCK)(x), INSIDE),
    "from_spline, values": (lambda y: PPoly.from_spline(splrep(X, y))(INSIDE), Y),
    "from_spline, outside": (
        lambda y: np.nan_to_num(PPoly.from_spline(splrep(X, y), extrapolate=False)(OUTSIDE)),
        Y,
    ),
    "from_spline of a BSpline": (
        lambda y: np.nan_to_num(PPoly.from_spline(BSpline(KNOTS, y, 3, extrapolate=False))(3.0 * OUTSIDE)),
        Y,
    ),
    "basis_element": (lambda x: BSpline.basis_element(t=[0, 1, 2, 3, 4])(x), INSIDE),
    "PPoly, descending": (lambda c: PPoly(c, X[::-1]).antiderivative()(INSIDE), TABLE.T[:, :4]),
    "PPoly, descending, points": (lambda x: PPoly(TABLE.T[:, :4], X[::-1])(x), OUTSIDE),
    "grid, descending": (lambda z: RegularGridInterpolator((X[::-1], X), z)(PLACES), GRID),
    "interpn, descending": (lambda z: interpn((X, X[::-1]), z, PLACES, method="cubic"), GRID),
    "surface, places in memory": (
        lambda z: RectBivariateSpline(written(X), written(X), z)(X[:2], X[1:3]),
        GRID,
    ),
    "BSpline, antiderivative": (lambda y: BSpline(KNOTS, y, 3).antiderivative(2)(3.0 + INSIDE / 2.0), Y),
    "BSpline, integrate": (lambda y: BSpline(KNOTS, y, 3, extrapolate=False).integrate(-1.0, 4.5), Y),
    "BSpline, limits": (
        lambda t: BSpline(KNOTS, Y, 3).integrate(t[0], 3.0 + t[1], extrapolate=False),
        INSIDE,
    ),
    "spline, antiderivative": (
        lambda y: make_interp_spline(X, PERIODIC * y, bc_type="periodic").antiderivative()(INSIDE),
        Y,
    ),
    "BSpline, periodic": (
        lambda x: BSpline(np.arange(-3.0, 9.0), np.arange(8.0) ** 2, 3, "periodic")(x),
        OUTSIDE,
    ),
    "PPoly, breakpoints": (lambda x: PPoly(np.ones((2, 4)), x)(INSIDE), X),
    "make_lsq_spline": (lambda y: make_lsq_spline(X, y, np.r_[[0.0] * 3, 1.5, [3.0] * 3], k=2)(INSIDE), Y),
    "make_smoothing_spline": (lambda y: make_smoothing_spline(X, y, lam=0.1)(INSIDE), Y),
    "UnivariateSpline, derivative": (lambda x: CONSTANT_OUTSIDE.derivative()(x), INSIDE),
    "UnivariateSpline, integral": (lambda y: UnivariateSpline(X, y, s=0).integral(-1.0, y[0] + 2.0), Y),
    "splder": (lambda y: splev(INSIDE, splder(splrep(X, y))), Y),
    **{f"interp1d, {k}": (lambda y, k=k: interp1d(X, y, kind=k)(INSIDE), TABLE.T) for k in KINDS},
    **{f"interp1d, {k}, points": (lambda x, k=k: interp1d(X, Y, kind=k)(x), INSIDE) for k in KINDS},
    "interp1d, fills": (lambda y: interp1d(X, y, bounds_error=False, fill_value=(y[0], y[-1]))(OUTSIDE), Y),
    "interp1d, unsorted": (lambda y: interp1d(X[::-1], y, kind="zero")(INSIDE), Y),
    "interp1d, places": (lambda x: interp1d(x, TABLE.T)(INSIDE), X),
    "interp1d, places, a number": (lambda x: interp1d(x, TABLE, axis=0)(float(INSIDE[0])), X),
    "interp1d, columns": (lambda y: interp1d(X, y, axis=0)(INSIDE[:2]), TABLE),
    "interp1d, columns at many places": (lambda x: interp1d(X, TABLE, axis=0)(x), INSIDE.reshape(2, 2)),
    "interp1d, fills of columns": (
        lambda y: interp1d(X, y, "nearest", 0, bounds_error=False, fill_value=(y[0, 0], y[1] * 2.0))(OUTSIDE),
        TABLE,
    ),
    "interp1d, one place": (lambda y: interp1d(X[:1], y, bounds_error=False, fill_value=7.0)(X[:2]), Y[:1]),
    "interp1d, one traced place": (
        lambda x: interp1d(x, [2.0], bounds_error=False, fill_value=(-1.0, 5.0))(np.r_[0.2, 0.5, 3.0]),
        np.array([0.5]),
    ),
    **{
        f"splev, knots, ext={k}": (lambda t, k=k: splev(OUTSIDE + 2.2, (t, *TCK[1:]), k % 2, k), KNOTS)
        for k in (0, 3)
    },
    "splev, knots, zero outside": (lambda t: splev(OUTSIDE + 2.2, (t, *TCK[1:]), ext=1), KNOTS),
    "splev, spline of traced values": (lambda y: splev(INSIDE, make_interp_spline(X, y), 1), Y),
    "splev, spline of traced knots": (lambda t: splev(OUTSIDE + 2.2, BSpline(t, np.arange(5.0), 3)), KNOTS),
    "splint, knots": (lambda t: splint(2.0, 4.3, (t, *TCK[1:])), KNOTS),
    **{f"grid, {k}": (lambda p, k=k: SPLINES[k](p), PLACES) for k in SPLINES},
    "grid, derivative": (lambda p: SPLINES["cubic"](p, nu=(1, 0)), PLACES),
    "grid of values": (lambda g: RegularGridInterpolator((X, X), g, method="slinear")(PLACES), GRID),
    "grid, numbers": (lambda p: SPLINES["slinear"]((p[0], p[1])), PLACES[0]),
    "interpn, numbers": (lambda p: interpn((X, X), GRID, (p[0], [p[1]])), PLACES[0]),
    "interpn, lists": (lambda p: interpn((X, X), GRID, [[p[0], p[1]], [0.3, p[0] * p[1]]]), PLACES[0]),
    "interpn, splinef2d, lists": (lambda p: interpn((X, X), GRID, [[p[0], p[1]]], "splinef2d"), PLACES[0]),
    "triangles, lists": (lambda p: LINEAR([[0.3 * p[0], p[1]], [0.0, p[0]]]), 0.3 * PLACES[0]),
    "interpn": (lambda p: interpn((X, X), GRID, p, method="nearest"), PLACES),
    "splinef2d": (lambda p: interpn((X, X), GRID, p, method="splinef2d"), PLACES),
    "surface": (lambda p: SURFACE(p[:2, 0], p[:2, 1]), np.sort(PLACES, 0)),
    "surface, ev": (lambda p: SURFACE.ev(p[:, 0] - 1.0, p[:, 1], dy=1), PLACES),
    "surface, values": (lambda g: RectBivariateSpline(X, X, g, kx=2)(1.0, X[:2], grid=True), GRID),
    "surface, integral": (lambda p: SURFACE.integral(p[0, 0], p[1, 0], p[0, 1], 4.0), PLACES),
    "bisplev": (lambda p: bisplev(p[0], p[1], (*SURFACE.tck, 3, 3)), PLACES[0]),
    "triangles": (lambda p: LINEAR(p), 0.3 * PLACES),
    "triangles, outside": (
        lambda p: LinearNDInterpolator(CORNERS, HEIGHTS, 1.0)(p[:, 0], p[:, 1]),
        3.0 * PLACES,
    ),
    "triangles, values": (lambda v: LinearNDInterpolator(CORNERS, v, rescale=True)(0.3 * PLACES), HEIGHTS),
    "nearest": (lambda p: NEAREST(p), PLACES),
    "nearest, values": (lambda v: NearestNDInterpolator(CORNERS, v)(PLACES), HEIGHTS),
    "griddata": (lambda v: griddata(CORNERS, v, 0.3 * PLACES), HEIGHTS),
    "RBF, outside": (lambda p: RBF(p), PLACES),
    "RBF, values": (lambda v: RBFInterpolator(CORNERS, v, smoothing=0.1)(PLACES), HEIGHTS),
    "RBF, neighbours": (lambda v: RBFInterpolator(CORNERS, v, neighbors=5)(PLACES), HEIGHTS),
    **{
        f"RBF, {k}": (lambda c, k=k: RBFInterpolator(c, HEIGHTS, **kernel(k))(PLACES), CORNERS)
        for k in ("linear", "cubic", "thin_plate_spline", "gaussian", "multiquadric")
    },
    "RBF, width": (
        lambda p: RBFInterpolator(CORNERS, HEIGHTS, kernel="gaussian", epsilon=p[0], smoothing=p[1])(PLACES),
        np.array([0.7, 0.1]),
    ),
    "Rbf": (lambda p: Rbf(*CORNERS.T, HEIGHTS)(p[:, 0], p[:, 1]), PLACES),
}
WAVES = np.array([1.0, -1.0, 1.3, -1.0, 1.0, -1.2])
STEPS = np.array([1.0, 2.0, 1.0, -0.3, -1.0, -0.5])
AT = np.array([0.0, 1.0, 1.7, 3.0, 3.8, 5.0])
FURTHER |= {
    "roots": (lambda y: CubicSpline(AT, y).roots(), WAVES),
    "roots, places": (lambda x: CubicSpline(x, WAVES).roots(extrapolate=False), AT),
    "solve": (lambda v: CubicSpline(AT, WAVES).solve(v[0]), np.array([0.2])),
    "extrema": (lambda y: CubicSpline(AT, y).derivative().roots(), WAVES),
    "roots, jumps": (lambda c: PPoly(c.reshape(2, 3), AT[:4]).roots(), STEPS),
    "roots, jumps at places": (lambda x: PPoly(STEPS.reshape(2, 3), x).roots(), AT[:4] + 0.1),
    # What is left of the equation at -40 is rounding of terms of 1e12.
    "roots, far outside": (
        lambda y: PPoly(np.append([0.0025, 0.107], np.arange(0.2, 0.9, 0.1))[:, None] * y[0], AT[:2]).roots(),
        WAVES,
    ),
    "roots, FITPACK": (lambda y: UnivariateSpline(AT, y, s=0).roots() * sproot(splrep(AT, y)), WAVES),
    "all derivatives": (
        lambda y: np.stack([UnivariateSpline(AT, y, s=0).derivatives(2.2), spalde(y[:2], splrep(AT, y))[1]]),
        WAVES + 2.0,
    ),
}
CURVED = {
    "roots",
    "solve",
    "extrema",
    "hermite, places",
    "pchip, values",
    "akima, values",
    "integrate",
    "surface, ev",
    "RBF, cubic",
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_interpolators(name):
    f, x = FURTHER[name]
    agrees(f, x, order=2 if name in CURVED else 1, value_rtol=1e-9, rtol=1e-6)


def test_the_degree_is_that_of_each_call():
    def f(c):
        made = PPoly(c, AT[:4])
        return np.sum(made(INSIDE) + made(INSIDE, 1) * made.derivative()(INSIDE))

    cache = nt.prepare_gradient_cache(f, np.ones((2, 3)))
    for order in (2, 5, 1, 3, 5):
        c = np.cos(np.arange(3.0 * order)).reshape(order, 3)
        value, (slope,) = nt.value_and_gradient(cache, c)
        np.testing.assert_allclose(value, f(c), rtol=1e-12)
        np.testing.assert_allclose(np.sum(slope * c), nt.jvp(f, (c,), (c,))[1], rtol=1e-12)
        assert slope.shape == c.shape


MOVING = {  # through places and values in one vector
    "not-a-knot": lambda x, y: CubicSpline(x, np.stack([y, y**2]), axis=1)(INSIDE),
    "natural": lambda x, y: CubicSpline(x, y, bc_type="natural").antiderivative()(INSIDE),
    "ends": lambda x, y: CubicSpline(x, y, bc_type=((2, y[1]), (1, y[0])))(INSIDE, 1),
    "ends of values": lambda x, y: CubicSpline(X, y, bc_type=((1, 0.7), "not-a-knot"))(INSIDE),
    "periodic": lambda x, y: CubicSpline(x, np.append(y[:-1], y[0]), bc_type="periodic")(INSIDE + 3.0),
    "periodic, three": lambda x, y: CubicSpline(x[:3], y[[0, 1, 0]], bc_type="periodic")(INSIDE),
    "parabola": lambda x, y: CubicSpline(x[:3], y[:3])(INSIDE),
    "three": lambda x, y: CubicSpline(x[:3], y[:3], bc_type=("clamped", "not-a-knot"))(INSIDE),
    "line": lambda x, y: CubicSpline(x[:2], y[:2])(INSIDE),
    "make_interp_spline": lambda x, y: make_interp_spline(x, np.stack([y, y]), axis=-1)(INSIDE, 1),
    "degree 2": lambda x, y: make_interp_spline(x, y, 2)(INSIDE),
    "interp1d": lambda x, y: interp1d(x, np.stack([y, y]), "quadratic", fill_value="extrapolate")(
        INSIDE + 1.0
    ),
    "splrep": lambda x, y: splev(INSIDE, splrep(x, y, k=4)) + splint(0.3, 2.0, splrep(x, y)),
    "UnivariateSpline": lambda x, y: UnivariateSpline(x, y, s=0, ext=3)(INSIDE + 1.0),
    "InterpolatedUnivariateSpline": lambda x, y: InterpolatedUnivariateSpline(x, y, k=4).derivative()(INSIDE),
}


@pytest.mark.parametrize("name", MOVING)
def test_places_that_move(name):
    n = len(X)
    order = 2 if name in ("not-a-knot", "make_interp_spline") else 1
    agrees(
        lambda p: MOVING[name](p[:n], p[n:]), np.concatenate([X, Y]), order=order, value_rtol=1e-11, rtol=1e-6
    )


def test_a_point_that_is_missing_has_no_slope():
    value, slope = nt.value_and_grad(lambda x: CubicSpline(x, Y)(np.nan))(X)
    assert np.isnan(value) and np.isnan(slope).all()


@pytest.mark.parametrize("make", [CubicSpline, make_interp_spline])
def test_places_that_move_must_ascend(make):
    verb = nt.grad(lambda x: make(x, Y)(0.5))
    verb(X)
    with pytest.raises(ValueError, match=r"increasing|sorted"):
        verb(X[::-1].copy())


KNOTS_OF = {  # of knots and weights in one vector
    "knots": lambda p: BSpline(p[:7], p[7:], 2)(np.array([[0.65, 0.7], [1.9, 0.6]])),
    "outside, slopes": lambda p: BSpline(p[:7], p[7:], 2)(np.array([0.1, 0.9, 2.9]), nu=1),
    "periodic": lambda p: BSpline(p[:7], np.stack([p[7:], p[7:] ** 2]), 2, "periodic", 1)(2.9 + p[:1]),
    "repeated": lambda p: BSpline(np.concatenate([p[:3] * 0.0, p[3:4], p[:3] * 0.0 + 2.0]), p[7:], 2)(X[:3]),
    "integrals": lambda p: np.stack(
        [
            BSpline(p[:7], p[7:], 2, extrapolate=False).integrate(0.0, 1.0),
            BSpline(p[:7], p[7:], 2).antiderivative()(0.9) * BSpline(p[:7], p[7:], 2).derivative()(0.9),
        ]
    ),
}


@pytest.mark.parametrize("name", KNOTS_OF)
def test_knots_that_move(name):
    places = np.array([0.0, 0.3, 0.55, 0.8, 1.3, 2.1, 2.2])
    agrees(KNOTS_OF[name], np.concatenate([places, [0.4, -1.0, 0.7, 0.2]]))


def test_knots_that_make_no_spline():
    def at(t):
        return BSpline(t, np.ones(4), 2)(0.5)

    for knots, message in (
        (np.linspace(1.0, 0.0, 7), "non-decreasing"),
        (np.zeros(7), "repeated"),
        (np.linspace(0.0, 1.0, 8), "make no spline of degree 2"),
    ):
        with pytest.raises(ValueError, match=message):
            nt.grad(at)(knots)
    with pytest.raises(nt.UnsupportedOperationError, match=r"BSpline\.roots of traced knots"):
        nt.grad(lambda t: BSpline(t, np.ones(4), 2).roots())(np.linspace(0.0, 1.0, 7))


def test_splines_on_grids_of_values():
    """SciPy finds their coefficients by iteration; its value is kept, and derivatives are the exact map's."""
    f = lambda g: RegularGridInterpolator((X, X), g, method="cubic")(PLACES)  # noqa: E731
    value, slope = nt.jvp(f, (GRID,), (TABLE @ TABLE.T,))
    np.testing.assert_allclose(value, f(GRID), rtol=1e-12)
    exact = RectBivariateSpline(X, X, TABLE @ TABLE.T).ev(*PLACES.T)
    np.testing.assert_allclose(slope, exact, rtol=1e-12)


def test_types_of_interpolators():
    def f(x):
        made = CubicSpline(X, Y)
        assert isinstance(made, CubicSpline) and isinstance(made, PPoly) and not isinstance(x, BSpline)
        return made(x)

    agrees(f, INSIDE)


def test_a_line_through_one_place_is_nan():
    with np.errstate(invalid="ignore"):
        slope = nt.grad(lambda y: interp1d(X[:1], y, fill_value="extrapolate")(X[0])[()])(Y[:1])
    assert np.isnan(slope).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: PchipInterpolator(X, x)(INSIDE),
        lambda x: CubicHermiteSpline(x, Y, np.cos(X))(INSIDE),
        lambda x: Akima1DInterpolator(x, Y)(INSIDE),
        lambda x: PPoly(np.stack([x, x * x]), np.arange(6.0))(INSIDE),
        lambda x: PPoly(np.ones((2, len(X) - 1)), x)(INSIDE),
        lambda x: KDTree(x[:, None]).query(INSIDE[:, None])[0],
    ],
)
def test_single_precision_is_computed_in_double_as_in_scipy(f):
    single = X.astype(np.float32)
    value, expected = nt.vjp(f, single)[0], f(single)
    assert value.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(value, expected, rtol=1e-13)
