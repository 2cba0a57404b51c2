"""``scipy.interpolate`` at traced points and of traced values: SciPy's values, derivatives by differences."""

import numpy as np
import pytest
from scipy.interpolate import (
    Akima1DInterpolator,
    BSpline,
    CubicHermiteSpline,
    CubicSpline,
    InterpolatedUnivariateSpline,
    PchipInterpolator,
    PPoly,
    RBFInterpolator,
    RegularGridInterpolator,
    UnivariateSpline,
    interp1d,
    make_interp_spline,
    splev,
    splint,
    splrep,
)

import numbatape as nt

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
    "splev, curve": lambda x: np.stack(splev(x, (TCK[0], [TCK[1], TCK[1] ** 2], 3))),
    "splint": lambda x: np.stack([splint(x[0], x[1], TCK), splint(x[2], 5.0, TCK), splint(-1.0, x[3], TCK)]),
    "UnivariateSpline": UnivariateSpline(X, Y, s=0.1),
    "UnivariateSpline, ext=1": lambda x: CONSTANT_OUTSIDE(2.0 * x - 0.5),
    "InterpolatedUnivariateSpline": InterpolatedUnivariateSpline(X, Y, k=2),
}
POINTS = {"BSpline": np.array([0.3, 1.1, 1.7])}


def agrees(f, x):
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
    agrees(lambda x: np.sin(f(x)), x)


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator", "BSpline", "make_interp_spline, 3"])
def test_derivatives_of_the_polynomials(name):
    f, x = OF_POINTS[name], 1.1
    derivative = nt.derivative(lambda x: f(x))
    assert np.isclose(derivative(x), f(x, 1), rtol=1e-12)
    assert np.isclose(nt.derivative(derivative)(x), f(x, 2), rtol=1e-12)
    agrees(lambda x: f(x, nu=1), POINTS.get(name, INSIDE))
    agrees(lambda x: f.derivative()(x) * f.antiderivative()(x), POINTS.get(name, INSIDE))


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
    agrees(OF_VALUES[name], Y)


def test_grids():
    table = np.random.default_rng(0).normal(size=(5, 3, 2))
    grid = RegularGridInterpolator((X, np.arange(3.0)), table)
    agrees(lambda p: grid(np.reshape(p, (2, 2))), np.array([0.3, 0.5, 1.6, 1.7]))
    agrees(lambda p: grid((p, 0.5 * p)), np.array([0.3, 1.6]))

    def of_both(p):
        made = RegularGridInterpolator((X, np.arange(3.0)), table * p[0], bounds_error=False, fill_value=0.5)
        return made(np.stack([p, p + 0.2], 1))

    agrees(of_both, np.array([0.3, 1.6, 4.0]))


def test_outside_of_the_range():
    periodic = CubicSpline(X, np.append(Y[:-1], Y[0]), bc_type="periodic")
    agrees(lambda x: periodic(x), np.array([-0.5, 3.4, 7.0]))
    agrees(lambda x: OF_POINTS["CubicSpline"](x), np.array([-0.5, 3.4]))
    agrees(lambda x: OF_POINTS["interp1d, fill"](x), np.array([-0.5, 1.0, 3.4]))
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


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda y: PchipInterpolator(X, y)(1.0),
            r"PchipInterpolator of traced values at .*:\d+",
        ),
        (lambda y: Akima1DInterpolator(X, y)(1.0), "CubicSpline and make_interp_spline"),
        (lambda y: splev(1.0, splrep(X, y, s=0.5)), r"splrep of traced values with s > 0 .* \(s=0\) are"),
        (lambda y: UnivariateSpline(X, y)(1.0), "make_interp_spline"),
        (lambda y: UnivariateSpline(X, y, s=0).integral(0.0, 1.0), r"UnivariateSpline\.integral of traced"),
        (lambda y: RBFInterpolator(X[:, None], Y)(y[:1, None])[0], r"scipy\.interpolate\.CubicSpline"),
        (lambda y: CubicSpline(y, Y)(1.0), "CubicSpline of traced breakpoints"),
        (lambda y: CubicSpline(X, y, bc_type=((1, 2.0), (1, 0.0)))(1.0), "names and values of zero"),
        (lambda y: interp1d(X, Y, kind="nearest")(y[0]), r"interp1d\(kind='nearest'\)"),
        (lambda y: RegularGridInterpolator((X,), Y, method="nearest")(y[:1])[0], "method='linear' is"),
    ],
)
def test_what_is_not_supported(call, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(lambda y: np.sum(call(y)))(X)
