"""Slopes of noncentral laws for degrees of freedom, compared with mpmath's; sums of uniform variables."""

import mpmath
import numpy as np
import pytest
import scipy.special as sc
from scipy import stats

import numbatape as nt

CASES = {
    "chndtr": (
        sc.chndtr,
        [
            ((3.0, 2.0, 1.0), -0.151830334329208),
            ((1.0, 3.0, 20.0), -4.10277912668335e-5),
            ((300.0, 5.0, 250.0), -0.00459955424921883),  # where not every term is added
            ((60.0, 4.0, 0.0), -4.36828317280833e-12),
        ],
        1,
    ),
    "chndtr, end": (
        sc.chndtr,
        [
            ((1300.0, 1260.0, 63.0), 0.00700053246361711),
            ((2800.0, 3000.0, 2.0), 0.000157509871534799),
            ((1.0, 0.25, 0.5), 0.118246899691048),
        ],
        0,
    ),
    "chndtr, noncentrality": (
        sc.chndtr,
        [
            ((1300.0, 1260.0, 63.0), -0.00688471916636155),
            ((2800.0, 3000.0, 2.0), -0.000146917915402907),
            ((1.0, 0.25, 0.5), -0.256293855156783),
        ],
        2,
    ),
    # The orders of its Bessel functions may be below -1, where the function may be negative.
    "chndtr, end twice": (
        nt.grad(lambda x, df, nc: np.sum(sc.chndtr(x, df, nc))),
        [
            ((1300.0, 1260.0, 63.0), 5.37365169264843e-5),
            ((2800.0, 3000.0, 2.0), 5.62156971333856e-6),
            ((1.0, 0.25, 0.5), -0.0985160232859948),
        ],
        0,
    ),
    "ncfdtr, first": (
        sc.ncfdtr,
        [((3.0, 5.0, 1.0, 1.0), -0.0044003137552008), ((4.0, 11.0, 80.0, 2.0), 9.36499925042959e-8)],
        0,
    ),
    "ncfdtr, second": (
        sc.ncfdtr,
        [((3.0, 5.0, 1.0, 1.0), 0.00729612161807268), ((4.0, 11.0, 80.0, 2.0), -1.63282995675895e-8)],
        1,
    ),
    "nctdtr": (
        sc.nctdtr,
        [
            ((3.0, 0.7, 0.5), 0.00428643562912026),
            ((0.4, -1.0, 0.3), 0.0347414834172569),
            ((5.0, 4.0, -3.0), -1.08735060105278e-8),
            ((2.0, 9.0, 40.0), 0.0601486902401068),
        ],
        0,
    ),
    "nct.pdf": (
        stats.nct.pdf,
        [((0.5, 3.0, 0.7), 0.0107356816093391), ((5.0, 30.0, 2.0), -0.000274287469434817)],
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_known_slopes(name):
    f, cases, place = CASES[name]
    args, slopes = zip(*cases, strict=True)
    columns = [np.array(column) for column in zip(*args, strict=True)]
    tangents = tuple(np.ones(len(cases)) if k == place else np.zeros(len(cases)) for k in range(len(columns)))
    np.testing.assert_allclose(nt.jvp(f, tuple(columns), tangents)[1], slopes, rtol=1e-11)


LAWS = {"ncx2": (2.3, 1.4), "nct": (3.3, 0.7), "ncf": (3.3, 4.1, 1.6)}


@pytest.mark.parametrize("name", LAWS)
def test_laws(name):
    """In both modes, twice, and in quantiles and moments."""
    law, (df, *others) = getattr(stats, name), LAWS[name]

    def slope(df):
        return nt.jvp(lambda df: law.logsf(1.3, df, *others), (df,), (1.0,))[1]

    h = 1e-4
    first = (law.logsf(1.3, df + h, *others) - law.logsf(1.3, df - h, *others)) / (2.0 * h)
    assert slope(df) == pytest.approx(first, rel=1e-6)
    assert nt.grad(lambda df: law.logsf(1.3, df, *others))(df) == pytest.approx(slope(df), rel=1e-13)
    second = (slope(df + h) - slope(df - h)) / (2.0 * h)
    assert nt.jvp(slope, (df,), (1.0,))[1] == pytest.approx(second, rel=1e-6)

    place, moved = nt.value_and_grad(lambda df: law.ppf(0.3, df, *others))(df)
    for_df, for_x = nt.grad(lambda df, x: law.cdf(x, df, *others), argnums=(0, 1))(df, place)
    assert moved == pytest.approx(-for_df / for_x, rel=1e-9)
    nt.testing.check_derivatives(lambda *a: law.mean(*a) + law.var(*a), 5.3, *others)


MANY = [
    (400.0, 400.0, 1e-8),
    (5000.0, 5000.0, 5.0),
    (1e-3, 400.0, 1.0),
    (3.0, 12.0, 1e-70),
    (1500.0, 2000.0, 300.0),
]


@pytest.mark.parametrize("point", MANY, ids=str)
def test_densities_where_bessel_functions_are_small(point):
    """SciPy's own log-density, but not its density, is minus infinity at most of these points."""

    def exact(x, df, nc):
        order = df / 2 - 1
        bessel = mpmath.log(mpmath.besseli(order, mpmath.sqrt(x * nc)))
        return -mpmath.log(2) - (x + nc) / 2 + order / 2 * mpmath.log(x / nc) + bessel

    with mpmath.workdps(60):
        exacts = [mpmath.mpf(number) for number in point]
        value = float(exact(*exacts))
        slopes = [
            mpmath.diff(exact, exacts, n, h=exacts[k] * 1e-14)
            for k, n in enumerate(np.eye(3, dtype=int).tolist())
        ]
        across = float(mpmath.diff(exact, exacts, (1, 1, 0), h=exacts[0] * 1e-14))
    found, gradient = nt.value_and_grad(stats.ncx2.logpdf, argnums=(0, 1, 2))(*point)
    assert found == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradient[:2], np.array(slopes[:2], float), rtol=1e-11)
    assert gradient[2] == pytest.approx(float(slopes[2]), rel=1e-11, abs=1e-11)
    assert nt.hessian(lambda z: stats.ncx2.logpdf(*z))(np.array(point))[0, 1] == pytest.approx(
        across, rel=1e-11
    )
    density = nt.prepare_gradient_cache(stats.ncx2.pdf, *point)
    assert nt.value_and_gradient(density, *point)[0] == pytest.approx(stats.ncx2.pdf(*point), rel=1e-11)


def test_moments_that_do_not_exist():
    for law, shapes in ((stats.nct, (1.0, 0.7)), (stats.ncf, (3.0, 2.0, 1.0))):
        assert np.isnan(nt.value_and_grad(lambda n, law=law, s=shapes: law.mean(s[0], *s[1:]) * n)(1.0)[0])
        assert np.isnan(nt.value_and_grad(lambda a, law=law, s=shapes: law.mean(a, *s[1:]))(shapes[0])[0])


@pytest.mark.parametrize("n", [1, 4])
def test_sums_of_uniform_variables(n):
    """For n = 4 the density is a cubic spline: its slope at 1.2 is that of ``(x**3 - 4*(x - 1)**3)/6``."""
    x = 1.2 if n == 4 else 0.4
    law = stats.irwinhall
    slope = (x**2 - 4.0 * (x - 1.0) ** 2) / 2.0 if n == 4 else 0.0
    value, found = nt.value_and_grad(lambda x: law.pdf(2.0 * x + 1.0, n, loc=1.0, scale=2.0))(x)
    assert value == pytest.approx(law.pdf(x, n) / 2.0, rel=1e-14)
    assert found == pytest.approx(slope / 2.0, rel=1e-13, abs=1e-15)
    assert nt.grad(lambda x: law.sf(x, n))(x) == -law.pdf(x, n)
    bend = nt.derivative(nt.derivative(lambda x: law.logpdf(x, n)))(x)
    assert bend == pytest.approx(
        (-3.0 * x + 4.0) / law.pdf(x, n) - (slope / law.pdf(x, n)) ** 2 if n == 4 else 0.0
    )
    assert nt.grad(lambda q: law.ppf(q, n))(0.3) == pytest.approx(1.0 / law.pdf(law.ppf(0.3, n), n))
    with pytest.raises(nt.UnsupportedOperationError, match="argument 2 with a derivative"):
        nt.grad(lambda n: law.cdf(x, n))(float(n))
