"""``scipy.stats`` in traced functions: values and derivatives of every law against SciPy's own.

Values are those of the replayed tape, at quantiles, ends of the support, outside of it, infinities
and NaN. Derivatives: of SciPy's own function, by extrapolated differences.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy
from scipy import integrate, special, stats
from scipy.stats import gamma, norm

import numbatape as nt
import numbatape.solvers  # announces its stand-ins
from numbatape.numpy_api.function_tables import MAKERS
from numbatape.recording.contents import load_all
from numbatape.scipy_api.stats.distributions import LAWS
from numbatape.scipy_api.stats.values_only import NAMES as VALUES_ONLY
from tests.agreement import agrees
from tests.every_case import every

load_all()

CONTINUOUS = {
    "": "norm cauchy laplace logistic gumbel_r gumbel_l hypsecant moyal expon gibrat halfnorm halfcauchy "
    "halflogistic rayleigh maxwell wald levy levy_l uniform arcsine semicircular anglit cosine kstwobign",
    "0.4": "wrapcauchy genpareto skewcauchy",
    "0.3": "triang genextreme pearson3 genhalflogistic tukeylambda",
    "1.7": "t skewnorm powernorm exponnorm gennorm genlogistic dgamma dweibull loggamma laplace_asymmetric "
    "vonmises vonmises_line gamma chi2 chi invgamma nakagami lognorm foldnorm foldcauchy halfgennorm "
    "rice weibull_min weibull_max exponpow invweibull gompertz lomax fisk loglaplace alpha invgauss "
    "recipinvgauss fatiguelife pareto powerlaw bradford rdist truncexpon argus kappa3 rel_breitwigner",
    "0.4 1.3": "johnsonsu johnsonsb loguniform reciprocal",
    "1.6 1.9": "gengamma exponweib burr burr12 mielke powerlognorm betaprime",
    "1.5 0.4": "norminvgauss geninvgauss",
    "1.3 2.4": "crystalball jf_skew_t",
    "0.3 -0.4": "kappa4",
    "2.3 1.4": "ncx2 nct",
    "1.4 2.2 0.3": "genhyperbolic genexpon",
    "3.3 4.1 1.6": "ncf",
    "1.6 0.4 1.9": "truncweibull_min",
    "0.3 0.6 1.4 1.7": "dpareto_lognorm",
    "1.4 2.2 0.7 0.5": "gausshyper",
    "3": "erlang irwinhall",
    "5.2 7.1": "f",
    "2.2 3.4": "beta truncpareto",
    "0.2 0.7": "trapezoid",
    "-1.2 2.1": "truncnorm",
}
DISCRETE = {
    "2.3": "zipf",
    "1.3 9": "zipfian",
    "15 6 7 1.4": "nchypergeom_fisher nchypergeom_wallenius",
    "0.3": "bernoulli geom logser planck dlaplace",
    "2.4": "poisson yulesimon",
    "7 0.35": "binom",
    "3.5 0.4": "nbinom",
    "6 1.7 2.3": "betabinom betanbinom",
    "20 7 9": "hypergeom nhypergeom",
    "0.6 8": "boltzmann",
    "2 9": "randint",
    "1.9 2.6": "skellam",
}
MULTIVARIATE = (
    "multivariate_normal multivariate_t dirichlet multinomial wishart invwishart dirichlet_multinomial "
    "matrix_normal matrix_t vonmises_fisher normal_inverse_gamma"
)
LOC, SCALE = 0.3, 1.7


def rows(table):
    return [
        pytest.param(name, tuple(map(float, shapes.split())), id=name)
        for shapes, names in table.items()
        for name in names.split()
        if hasattr(stats, name)
    ]


def test_every_law_has_a_case():
    texts = [*CONTINUOUS.values(), *DISCRETE.values(), MULTIVARIATE]
    # Classes (kernel densities, random variables) and Tukey's law have tests of their own, in tests/scipy.
    others = inspect.isfunction, inspect.isclass
    laws = {
        name
        for name in MAKERS["scipy.stats"]
        if not name.startswith(("_methods.", "_implied."))
        and not any(kind(getattr(stats, name, None)) for kind in others)
    }
    assert {name for text in texts for name in text.split()} == laws - {
        *VALUES_ONLY,
        "poisson_binom",
        "studentized_range",
    }


def agree(got, want, rtol=5e-12, atol=1e-13):
    got, want = np.asarray(got), np.asarray(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        close = np.abs(got - want) <= atol + rtol * np.abs(want)
    assert np.all(same | close), (got[~(same | close)], want[~(same | close)])


def pull(f, *args, count=None):
    """Return the replayed value, and the gradients of the sum of its entries, or of its first ``count``."""
    plain = [a.value if isinstance(a, nt.Constant) else a for a in args]
    with np.errstate(all="ignore"):
        cache = nt.prepare_pullback_cache(f, *args)
        cotangent = np.ones(np.shape(f(*plain)))
        if count is not None:
            cotangent[count:] = 0.0
        return nt.value_and_pullback(cache, cotangent, *plain)


def slope(f, args, k, steps=(1e-3, 5e-4)):
    """Richardson's extrapolation of differences for one argument, along ones."""
    values = []
    for h in steps:
        h = h * max(1.0, float(np.max(np.abs(args[k]))))
        moved = [[a + h * s if i == k else a for i, a in enumerate(args)] for s in (2, 1, -1, -2)]
        up2, up, down, down2 = (np.sum(f(*m)) for m in moved)
        values.append((8 * (up - down) - (up2 - down2)) / (12 * h))
    return (16 * values[1] - values[0]) / 15


# SciPy's density of kstwobign errs by 6e-9 between 0.82 and 1; crystalball has a kink at its quantile 0.2.
QUANTILES = {"kstwobign": (0.1, 0.2, 0.3, 0.95), "crystalball": (0.1, 0.45, 0.6, 0.85)}


@functools.cache
def inside(law, shapes):
    """Return points in the middle of a law: kept, for SciPy finds roots of some cumulative functions."""
    quantiles = QUANTILES.get(law.name, (0.2, 0.45, 0.6, 0.85))
    return law.ppf(quantiles, *shapes, loc=LOC, scale=SCALE)


# Where SciPy takes the logarithm of a density that underflows, or its formula gives NaN.
FINER = {
    "moyal",
    "rice",
    "foldnorm",
    "exponpow",
    "invweibull",
    "gompertz",
    "levy",
    "levy_l",
    "burr12",
    "alpha",
}
FINER |= {"geninvgauss", "genhyperbolic", "pearson3", "ncx2", "nct", "exponnorm"}
FINER |= {"halfnorm", "recipinvgauss", "genpareto", "loglaplace", "betaprime", "gumbel_r", "gumbel_l"}


# SciPy integrates their cumulative functions, with errors that differences magnify; `norminvgauss.sf` of
# several points is that of the first one.
INTEGRATED = {"geninvgauss", "genhyperbolic", "norminvgauss"}
# Every which point is taken where each derivative of an area at each point is an integral of its own.
FEWER = {"gausshyper": 3, "dpareto_lognorm": 2}


@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang")
@every("method", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize(("name", "shapes"), rows(CONTINUOUS))
def test_continuous(name, shapes, method):
    law = getattr(stats, name)
    if name in INTEGRATED and method not in ("logpdf", "pdf"):
        return
    low, high = law.support(*shapes, loc=LOC, scale=SCALE)
    x = inside(law, shapes)
    if name in FEWER and method not in ("logpdf", "pdf"):
        x = x[1 :: FEWER[name]]
    edges = [np.nan, -50.0, -1.0, *((low, high, -np.inf, np.inf) if name not in FINER else ())]
    points = np.concatenate([x, edges])

    def f(x, *rest):
        *shapes, loc, scale = rest
        return getattr(law, method)(x, *shapes, loc=loc, scale=scale)

    args = [points, *shapes, LOC, SCALE]
    try:
        value, gradients = pull(f, *args, count=len(x))
    except nt.UnsupportedOperationError as error:
        if "closed form" not in str(error) and "hyp2f1" not in str(error):
            assert method not in ("logpdf", "pdf")
            return
        args[1 : 1 + len(shapes)] = map(nt.Constant, shapes)  # cumulative functions of gamma, beta, t
        value, gradients = pull(f, *args, count=len(x))
    with np.errstate(all="ignore"):
        agree(value, f(points, *shapes, LOC, SCALE))
    plain = [x, *shapes, LOC, SCALE]
    for k, gradient in enumerate(gradients):
        if gradient is not None:
            if (name == "uniform" and k == 0) or name in (
                "truncnorm",
                "loguniform",
                "reciprocal",
                "truncpareto",
            ):
                steps = (1e-4, 5e-5)
            else:
                steps = (1e-3, 5e-4)
            want = slope(f, plain, k, steps)
            assert np.sum(gradient) == pytest.approx(want, rel=2e-8, abs=2e-8), (k, args)


# Where SciPy's quantile of a small probability goes by one minus it.
COARSE = {"moyal", "levy_l", "powernorm", "genlogistic", "mielke", "betaprime", "f", "kappa3", "argus"}
COARSE |= {"kstwobign", "genexpon", "truncweibull_min", "kappa4"}


@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang")
@every("method", ["ppf", "isf"])
@pytest.mark.parametrize(
    ("name", "shapes"), [case for case in rows(CONTINUOUS) if LAWS[case.id].ppf or LAWS[case.id].isf]
)
def test_quantiles(name, shapes, method):
    """Values at ends and outside, too; derivatives for the probability, the location and the scale."""
    law = getattr(stats, name)
    small = [] if name in COARSE else [1e-9]
    q = np.array([-0.1, 0.0, *small, 0.03, 0.3, 0.6, 0.93, 1.0, 1.2, np.nan])

    def f(q, loc, scale):
        return getattr(law, method)(q, *shapes, loc=loc, scale=scale)

    value, _ = pull(f, q, LOC, SCALE)
    agree(value, f(q, LOC, SCALE), rtol=2e-11 if name in COARSE else 5e-12)
    args = [np.array([0.12, 0.3, 0.61, 0.8]), LOC, SCALE]
    _, gradients = pull(f, *args)
    density = law.pdf(f(*args), *shapes, loc=LOC, scale=SCALE)
    agree(gradients[0], {"ppf": 1.0, "isf": -1.0}[method] / density, rtol=1e-9)
    for k in (1, 2):
        assert gradients[k] == pytest.approx(slope(f, args, k), rel=2e-8, abs=2e-8)


# Whose functions in SciPy are those of the count below for counts only, or NaN at infinity.
BETWEEN_COUNTS = {"hypergeom", "logser", "skellam", "yulesimon"}


@every("method", ["cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize(("name", "shapes"), rows(DISCRETE))
def test_counts_below(name, shapes, method):
    law = getattr(stats, name)
    k = np.concatenate([np.arange(-4.0, 12.0), [30.0, np.nan]])
    if name not in BETWEEN_COUNTS:
        k = np.concatenate([k, [2.5, -np.inf, np.inf]])

    def f(k, *shapes):
        return getattr(law, method)(k, *shapes)

    free = [i for i, shape in enumerate(shapes) if shape != int(shape)]
    args = [s if i in free else nt.Constant(s) for i, s in enumerate(shapes)]
    value, _ = pull(f, nt.Constant(k) if free else k, *args)
    with np.errstate(all="ignore"):
        agree(value, f(k, *shapes), rtol=1e-9 if name == "skellam" else 2e-11)  # SciPy subtracts from one
    if not free:
        return
    inner = np.array([0.0] if name == "bernoulli" else [2.0, 3.0, 4.0])
    _, gradients = pull(f, nt.Constant(inner), *args)
    for i in free:
        want = slope(f, [inner, *shapes], 1 + i)
        assert np.sum(gradients[1 + i]) == pytest.approx(want, rel=2e-8, abs=2e-8)


NEEDS = {
    **{"mean": "mean", "var": "var", "std": "var", "entropy": "entropy"},
    **{"stats": "mean", "median": "ppf", "interval": "ppf"},
}
MOMENTS = [
    pytest.param(*case.values, method, id=f"{case.id}-{method}")
    for case in [*rows(CONTINUOUS), *rows(DISCRETE)]
    for method, its in NEEDS.items()
    if LAWS[case.id].mean and getattr(LAWS[case.id], its)
]


@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang")
@every("name, shapes, method", MOMENTS)
def test_moments(name, shapes, method):
    law = getattr(stats, name)
    discrete = LAWS[name].discrete
    whole = discrete or name == "irwinhall"  # SciPy has no moments of a number of variables that is not whole
    free = [i for i, shape in enumerate(shapes) if not (whole and shape == int(shape))]
    if NEEDS[method] == "ppf":
        free = []  # a quantile: above
    first = (0.9,) if method == "interval" else ()
    places = {"loc": LOC} if discrete else {"loc": LOC, "scale": SCALE}

    def f(*rest):
        own = [rest[free.index(i)] if i in free else shape for i, shape in enumerate(shapes)]
        given = dict(zip(places, rest[len(free) :], strict=True))
        result = getattr(law, method)(*first, *own, **given)
        return 3.0 * result[0] + result[1] if isinstance(result, tuple) else result

    args = [shapes[i] for i in free] + list(places.values())
    value, gradients = pull(f, *args)
    agree(value, f(*args))
    for k in range(len(args)):
        if np.isfinite(value):
            want = gradients[k] if gradients[k] is not None else 0.0
            assert want == pytest.approx(slope(f, args, k), rel=2e-8, abs=2e-8)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        *[
            ("gamma", (2.0,)),
            ("chi", (3.0,)),
            ("cauchy", ()),
            ("expon", ()),
            ("gennorm", (1.3,)),
            ("burr12", (3.0, 2.0)),
        ],
        *[
            ("exponweib", (2.9, 1.95)),
            ("genexpon", (9.1, 16.2, 3.3)),
            ("gumbel_r", ()),
            ("genextreme", (-0.1,)),
        ],
        *[("weibull_min", (1.8,)), ("gompertz", (0.9,)), ("foldcauchy", (4.7,)), ("exponpow", (2.7,))],
    ],
)
@every("method", ["cdf", "sf", "logcdf", "logsf"])
def test_far_tails(name, shapes, method):
    """Where one of cdf and sf is nearly one, the other is accurate, and their logarithms are."""
    law = getattr(stats, name)
    points = np.array([law.isf(1e-9, *shapes), law.ppf(1e-9, *shapes)])
    cdf = np.array([-np.expm1(law.logsf(points[0], *shapes)), 1e-9])
    sf = np.array([1e-9, 1.0 - 1e-9])
    want = {
        "cdf": cdf,
        "sf": sf,
        "logcdf": [np.log1p(-1e-9), np.log(1e-9)],
        "logsf": [np.log(1e-9), np.log1p(-1e-9)],
    }
    value, (gradient,) = pull(lambda x: getattr(law, method)(x, *shapes), points)
    density = law.pdf(points, *shapes) * (1.0 if method.endswith("cdf") else -1.0)
    over = {"logcdf": cdf, "logsf": sf}.get(method, 1.0)
    # SciPy's own quantiles of some laws are accurate to seven digits in a tail.
    np.testing.assert_allclose(value, want[method], rtol=2e-6)
    np.testing.assert_allclose(gradient, density / over, rtol=2e-6)
    np.testing.assert_allclose(value, getattr(law, method)(points, *shapes), rtol=2e-6)


# Points far out in a tail, where one minus the other tail would have no digits.
TAILS = {
    "ncx2": (300.0, (3.0, 2.0), "sf"),
    "ncf": (1e5, (3.3, 9.0, 1.6), "sf"),
    "nct": (-9.0, (7.0, 1.4), "cdf"),
    "skewnorm": (-6.0, (2.0,), "cdf"),
}


@pytest.mark.parametrize("logarithm", ["", "log"])
@pytest.mark.parametrize("name", TAILS)
def test_tails_by_scipy(name, logarithm):
    x, shapes, method = TAILS[name]
    law = getattr(stats, name)
    f, tail = getattr(law, logarithm + method), getattr(law, method)(x, *shapes)
    value, slope = nt.jvp(lambda x: f(x, *shapes), (x,), (1.0,))
    density = law.pdf(x, *shapes) * {"cdf": 1.0, "sf": -1.0}[method]
    assert value == pytest.approx(f(x, *shapes), rel=1e-14)
    assert slope == pytest.approx(density / tail if logarithm else density, rel=1e-7)


@pytest.mark.parametrize("df", [0.4, 2.5])
@every("method", ["pdf", "cdf", "sf"])
def test_noncentral_t(method, df):
    """For one degree of freedom and for more there are two formulas."""
    f = getattr(stats.nct, method)
    x = np.array([-2.0, 0.2, 1.4])
    nt.testing.check_derivatives(lambda x, nc: f(x, df, nc), x, 0.7, order=2)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        *[("laplace", ()), ("gennorm", (1.3,)), ("laplace_asymmetric", (1.3,))],
        *[("dgamma", (1.0,)), ("dweibull", (1.0,))],
    ],
)
def test_where_two_halves_of_a_law_meet(name, shapes):
    law = getattr(stats, name)
    density = law.pdf(0.0, *shapes)
    assert nt.grad(lambda x: law.cdf(x, *shapes))(0.0) == pytest.approx(density, rel=1e-12)
    assert nt.grad(lambda x: law.sf(x, *shapes))(0.0) == pytest.approx(-density, rel=1e-12)
    if name in ("laplace", "gennorm"):
        assert nt.grad(lambda q: law.ppf(q, *shapes))(0.5) == pytest.approx(1.0 / density, rel=1e-12)
        assert nt.grad(lambda q: law.isf(q, *shapes))(0.5) == pytest.approx(-1.0 / density, rel=1e-12)


@every("method", ["logpdf", "pdf", "cdf", "sf", "ppf"])
def test_a_pearson_law_without_skewness_is_normal(method):
    """SciPy takes skewnesses below 1.6e-5 for zero; the derivative there is the law's, not that of a step."""
    points, weights = np.array([0.2, 0.5, 0.9]), np.array([0.7, -0.4, 1.1])

    def f(x, skew):
        return np.sum(weights * getattr(stats.pearson3, method)(x, skew))

    value, (slope, by_skew) = nt.value_and_grad(f, argnums=(0, 1))(points, 0.0)
    normal = getattr(norm, method)
    assert value == pytest.approx(np.sum(weights * normal(points)), rel=1e-14)
    np.testing.assert_allclose(slope, nt.grad(lambda x: np.sum(weights * normal(x)))(points), rtol=1e-13)
    h = 1e-2
    up, down = f(points, h), f(points, -h)
    assert by_skew == pytest.approx((up - down) / (2 * h), rel=1e-4)
    assert nt.hessian(f, argnums=1)(points, 0.0) == pytest.approx((up + down - 2 * value) / h**2, rel=1e-3)
    several = nt.value_and_grad(lambda s: np.sum(getattr(stats.pearson3, method)(0.3, s)))(
        np.array([0.0, 0.7, -0.2])
    )
    assert np.all(np.isfinite(several[1])) and several[0] == pytest.approx(
        np.sum(getattr(stats.pearson3, method)(0.3, [0.0, 0.7, -0.2])), rel=1e-12
    )


def test_frozen_distributions_have_them_too():
    slopes = nt.grad(lambda m: norm(m, 2.0).ppf(0.3) + norm(m, 2.0).mean() + stats.gamma(m).interval(0.5)[0])
    assert slopes(1.5) == pytest.approx(2.0 + slope(lambda a: stats.gamma.ppf(0.25, a), [1.5], 0), rel=1e-8)


@every("method", ["logpmf", "pmf"])
@pytest.mark.parametrize(("name", "shapes"), rows(DISCRETE))
def test_discrete(name, shapes, method):
    law = getattr(stats, name)
    k = np.concatenate([np.arange(-4.0, 12.0), [np.nan, 2.5]])
    free = [i for i, shape in enumerate(shapes) if shape != int(shape)]

    def f(k, *shapes):
        return getattr(law, method)(k, *shapes)

    args = [s if i in free else nt.Constant(s) for i, s in enumerate(shapes)]
    value, _ = pull(f, nt.Constant(k) if free else k, *args)
    with np.errstate(all="ignore"):
        agree(value, f(k, *shapes))
    support = k[np.isfinite(law.logpmf(k, *shapes))]
    for i in free:
        _, gradients = pull(f, nt.Constant(support), *args)
        want = slope(f, [support, *shapes], 1 + i)
        assert np.sum(gradients[1 + i]) == pytest.approx(want, rel=2e-8, abs=2e-8)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("gamma", (-1.0,)),
        ("beta", (0.0, 2.0)),
        ("t", (-2.0,)),
        ("weibull_min", (0.0,)),
        ("truncnorm", (2.0, 1.0)),
    ],
)
def test_parameters_that_are_not_valid_give_nan(name, shapes):
    law = getattr(stats, name)
    x = np.array([-0.5, 0.5])
    value, _ = pull(lambda x, *shapes: law.logpdf(x, *shapes), x, *shapes)
    agree(value, law.logpdf(x, *shapes))
    value, _ = pull(lambda x, scale: norm.logpdf(x, 0.0, scale), x, -1.0)
    assert np.isnan(value).all()


def test_outside_of_the_support_the_gradient_is_zero():
    value, (x, shape) = pull(lambda x, a: gamma.logpdf(x, a), np.array([-1.0, 2.0]), 3.0)
    assert value[0] == -np.inf
    assert x[0] == 0.0
    assert shape == pytest.approx(np.log(2.0) - float(scipy.special.digamma(3.0)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, mu, sigma: norm.logpdf(x, mu, sigma),
        lambda x, mu, sigma: norm(mu, sigma).logpdf(x),
        lambda x, mu, sigma: stats.norm(loc=mu, scale=sigma).logpdf(x),
        lambda x, mu, sigma: scipy.stats.norm.logpdf(x, scale=sigma, loc=mu),
        lambda x, mu, sigma: norm.logpdf(list(x), mu, sigma),
    ],
)
def test_ways_to_say_it(f):
    x, mu, sigma = np.array([0.5, -1.0, 2.0]), 0.3, 1.4
    value, gradients = pull(f, x, mu, sigma)
    agree(value, norm.logpdf(x, mu, sigma))
    z = (x - mu) / sigma
    agree(gradients[0], -z / sigma)
    agree(gradients[1], np.sum(z) / sigma)
    agree(gradients[2], np.sum(z * z - 1.0) / sigma)


PRIOR = norm(0.5, 2.0)
COUNTS = np.array([3, 0, 2])


def test_distributions_frozen_outside():
    slopes = nt.grad(lambda x: np.sum(PRIOR.logpdf(x)) + stats.poisson.logpmf(COUNTS, np.exp(x[0])).sum())
    x = np.array([0.3, -1.0])
    agree(slopes(x), (0.5 - x) / 4.0 + [5.0 - 3.0 * np.exp(0.3), 0.0])
    assert PRIOR.logpdf(0.5) == norm.logpdf(0.0) - np.log(2.0)


def test_broadcasting_and_float32():
    x, mu = np.ones((4, 1)), np.arange(3.0)
    value, (gx, gmu) = pull(lambda x, mu: norm.logpdf(x, mu), x, mu)
    assert value.shape == (4, 3)
    agree(gmu, 4.0 * (1.0 - mu))
    assert gx.shape == (4, 1)
    value, (gradient,) = pull(lambda x: norm.logpdf(x), np.float32([0.5]))
    assert value.dtype == norm.logpdf(np.float32([0.5])).dtype == np.float64  # as SciPy has it
    assert gradient.dtype == np.float32


EXPECTED = {
    "normal": lambda x: norm.expect(lambda y: y**2 * x[2], loc=x[0], scale=x[1]),
    "frozen": lambda x: norm(x[0], x[1]).expect(np.cos),
    "mean": lambda x: gamma.expect(None, (x[0],), scale=x[1]),
    "part": lambda x: gamma(x[0]).expect(lambda y: y, 0.5, x[1] + 2.0, conditional=True),
    "infinite density": lambda x: stats.beta.expect(np.sin, (0.5, x[2]), loc=x[0], scale=x[1]),
    "function alone": lambda x: norm(0.3, 1.2).expect(lambda y: np.sin(x[0] * y)),
    "counts": lambda x: stats.poisson.expect(lambda k: k**2 * x[1], (4.0 * x[0],), loc=2),
    "few counts": lambda x: stats.binom(7, x[0] / 2).expect(
        lambda k: np.sqrt(k + x[1]), conditional=True, lb=2
    ),
    "moment": lambda x: norm(x[0], x[1]).moment(3),
    "moment without a location": lambda x: gamma.moment(3, x[0]),
    "moment of counts": lambda x: stats.poisson.moment(3, x[0]),
    "nnlf": lambda x: gamma.nnlf((x[0], 0.0, x[1]), x + 0.1),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_values(name):
    """SciPy's integrals and sums are accurate to ten digits, for derivatives too."""
    f, x = EXPECTED[name], np.array([1.2, 0.9, 0.6])
    verb = nt.value_and_grad(f)
    for point in (x, 1.1 * x):
        value, gradient = verb(point)
        np.testing.assert_allclose(value, f(point), rtol=1e-9)
        slopes = [(f(point + h) - f(point - h)) / 2e-4 for h in 1e-4 * np.eye(3)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def test_an_expected_value_of_too_many_counts():
    f = lambda a, **ends: stats.zipf.expect(lambda k: 1.0 / k, (a,), **ends)  # noqa: E731
    with pytest.raises(nt.UnsupportedOperationError, match=r"zipf\.expect at .* a million terms.* ub="):
        nt.grad(f)(2.0)
    slope = (f(2.0 + 1e-5, ub=50) - f(2.0 - 1e-5, ub=50)) / 2e-5
    assert nt.grad(lambda a: f(a, ub=50))(2.0) == pytest.approx(slope, rel=1e-8)


def test_stand_ins_have_scipy_s_classes():
    def f(x):
        kind = isinstance(norm, stats.rv_continuous) and isinstance(stats.poisson, stats.rv_discrete)
        return norm.logpdf(x) if kind else x

    assert nt.grad(f)(0.3) == -0.3


def test_the_rest_of_a_distribution_is_scipy_s():
    assert nt.grad(lambda x: x * norm.ppf(0.975) + stats.gamma(2.0).mean())(1.0) == norm.ppf(0.975)


# ---- multivariate


ROOT = np.array([[1.2, 0.0, 0.0], [0.4, 0.9, 0.0], [-0.3, 0.5, 1.1]])
COV = ROOT @ ROOT.T
POINTS = np.array([[0.3, -1.0, 0.5], [1.1, 0.2, -0.7]])
MEAN = np.array([0.1, -0.2, 0.4])
ALPHA = np.array([1.2, 2.0, 3.1])


def share(z):
    return np.exp(z) / np.sum(np.exp(z), axis=0)


MULTI = {
    "dirichlet-multinomial": (
        lambda a: stats.dirichlet_multinomial.logpmf([[1, 3, 2], [4, 0, 2]], a, [6, 6]),
        ALPHA,
    ),
    "covariance-cholesky": (
        lambda x, r: stats.multivariate_normal.logpdf(x, cov=stats.Covariance.from_cholesky(r)),
        POINTS,
        ROOT,
    ),
    "covariance-precision": (
        lambda x, r: stats.multivariate_normal(MEAN, stats.Covariance.from_precision(r @ r.T)).logpdf(x),
        POINTS,
        ROOT,
    ),
    "covariance-diagonal": (
        lambda x, d: stats.multivariate_normal.pdf(x, MEAN, stats.Covariance.from_diagonal(d)),
        POINTS,
        ALPHA,
    ),
    "covariance-eigenvectors": (
        lambda x, r: stats.multivariate_normal.logpdf(
            x, cov=stats.Covariance.from_eigendecomposition(np.linalg.eigh(r @ r.T))
        ),
        POINTS,
        ROOT,
    ),
    "covariance-of-data": (
        lambda x: stats.multivariate_normal.logpdf(x, MEAN, stats.Covariance.from_diagonal(ALPHA)),
        POINTS,
    ),
    "wishart, both triangles": (lambda x: stats.wishart.logpdf(COV + 0.01 * x, 4.5, COV), ROOT),
    **{
        f"{name}-{method}": (
            lambda d, r, name=name, method=method: getattr(getattr(stats, name), method)(d, r @ r.T),
            *(8.5, ROOT),
        )
        for name in ("wishart", "invwishart")
        for method in ("mean", "mode", "var", "entropy")
    },
    "t-entropy": (lambda r, df: stats.multivariate_t(np.zeros(3), r @ r.T, df).entropy(), ROOT, 3.5),
    "matrix-normal-entropy": (lambda r, c: stats.matrix_normal.entropy(r @ r.T, c), ROOT, np.eye(2)),
    "vonmises-fisher-entropy": (lambda k: stats.vonmises_fisher([1.0, 0.0, 0.0], k).entropy(), 1.7),
    "multinomial-entropy": (lambda z: stats.multinomial.entropy(6, share(z)), MEAN),
    **{
        f"dirichlet-{method}": (lambda a, method=method: getattr(stats.dirichlet, method)(a), ALPHA)
        for method in ("mean", "var", "cov", "entropy")
    },
    "multinomial-cov": (lambda z: stats.multinomial.cov(6, share(z)), MEAN),
    "dirichlet-multinomial-mean": (lambda a: stats.dirichlet_multinomial.mean(a, 6), ALPHA),
    "dirichlet-multinomial-var": (lambda a: stats.dirichlet_multinomial.var(a, 6), ALPHA),
    "dirichlet-multinomial-cov": (lambda a: stats.dirichlet_multinomial(a, 6).cov(), ALPHA),
    "matrix-normal": (
        lambda x, m, r, c: stats.matrix_normal.logpdf(x, m, r @ r.T, c @ c.T),
        np.stack([POINTS, POINTS[::-1]]),
        0.3 * POINTS,
        ROOT[:2, :2],
        ROOT,
    ),
    "matrix-normal-one": (
        lambda x, r: stats.matrix_normal(rowcov=r @ r.T).logpdf(x),
        POINTS[:, :1],
        ROOT[:2, :2],
    ),
    "vonmises-fisher": (
        lambda m, k: stats.vonmises_fisher.logpdf(
            POINTS / np.linalg.norm(POINTS, axis=1)[:, None], m / np.linalg.norm(m), k
        ),
        ALPHA,
        1.7,
    ),
    "normal": (lambda x, m, r: stats.multivariate_normal.logpdf(x, m, r @ r.T), POINTS, MEAN, ROOT),
    "normal-pdf": (lambda x, m, r: stats.multivariate_normal(m, r @ r.T).pdf(x), POINTS, MEAN, ROOT),
    "normal-one": (lambda x, m: stats.multivariate_normal.logpdf(x, m, 2.0), MEAN, POINTS[0]),
    "normal-diagonal": (lambda x, s: stats.multivariate_normal.logpdf(x, MEAN, s), POINTS, ALPHA),
    "normal-number": (lambda x, m: stats.multivariate_normal.logpdf(x, m, 1.5), MEAN, 0.3),
    "t": (lambda x, m, r, df: stats.multivariate_t.logpdf(x, m, r @ r.T, df), POINTS, MEAN, ROOT, 3.5),
    "dirichlet": (lambda z, a: stats.dirichlet.logpdf(share(z), a), MEAN, ALPHA),
    "dirichlet-short": (lambda z, a: stats.dirichlet.logpdf(share(z)[:-1], a), MEAN, ALPHA),
    "multinomial": (lambda z: stats.multinomial.logpmf([[1, 3, 2], [4, 0, 2]], 6, share(z)), MEAN),
    "wishart": (lambda x, s, df: stats.wishart.logpdf(x @ x.T, df, s @ s.T), ROOT + 0.1, ROOT, 4.5),
    "invwishart": (lambda x, s, df: stats.invwishart.logpdf(x @ x.T, df, s @ s.T), ROOT + 0.1, ROOT, 4.5),
}


if hasattr(stats, "normal_inverse_gamma"):
    MULTI["normal-inverse-gamma-moments"] = (
        lambda m, v, a, b: np.stack(
            [*stats.normal_inverse_gamma.mean(m, v, a, b), *stats.normal_inverse_gamma.var(m, v, a, b)]
        ),
        *(0.3, 1.2, 2.1, 1.6),
    )
    MULTI["normal-inverse-gamma"] = (
        lambda x, s, m, v, a, b: stats.normal_inverse_gamma.logpdf(x, s, m, v, a, b),
        *(MEAN, ALPHA, 0.3, 1.2, 2.1, 1.6),
    )
if hasattr(stats, "matrix_t"):
    MULTI["matrix-t"] = (
        lambda x, m, r, c, df: stats.matrix_t.logpdf(x, m, r @ r.T, c @ c.T, df),
        *(np.stack([POINTS, POINTS[::-1]]), 0.3 * POINTS, ROOT[:2, :2], ROOT, 3.4),
    )


@pytest.mark.parametrize("name", MULTI)
def test_multivariate(name):
    f, *args = MULTI[name]
    value, gradients = pull(f, *args)
    agree(value, f(*args))
    for k, gradient in enumerate(gradients):
        if np.ndim(args[k]) == 0:
            assert gradient == pytest.approx(slope(f, args, k), rel=1e-8)
            continue
        for position in np.ndindex(np.shape(args[k])):
            unit = np.zeros_like(args[k])
            unit[position] = 1.0

            def along(t, k=k, unit=unit):
                return f(*(a + t * unit if i == k else a for i, a in enumerate(args)))

            assert gradient[position] == pytest.approx(slope(along, [0.0], 0), rel=1e-8, abs=1e-8)


SPREAD = np.array([[2.0, 0.3], [0.3, 1.0]])
FROZEN = {
    "normal": (stats.multivariate_normal([0.1, 0.2], SPREAD), lambda d, x: d.logpdf(x) + d.pdf(x)),
    "normal, one dimension": (stats.multivariate_normal(0.1, 2.0), lambda d, x: np.sum(d.logpdf(x))),
    "normal, singular": (
        stats.multivariate_normal([0.1, 0.2], SPREAD, allow_singular=True),
        lambda d, x: d.logpdf(x) * d.entropy(),
    ),
    "t": (stats.multivariate_t([0.1, 0.2], SPREAD, 3), lambda d, x: d.logpdf(x)),
    "dirichlet": (stats.dirichlet([1.5, 2.0]), lambda d, x: d.logpdf(x / np.sum(x))),
    "wishart": (stats.wishart(3, SPREAD), lambda d, x: d.logpdf(np.diag(x) + 0.1)),
    "matrix normal": (
        stats.matrix_normal(np.eye(2), SPREAD, SPREAD[::-1, ::-1]),
        lambda d, x: d.logpdf(np.diag(x)) * d.entropy(),
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_multivariate_distributions_frozen_outside(name):
    frozen, density = FROZEN[name]
    f = lambda x: density(frozen, x)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, np.array([0.5, 1.0]))
    for x in (np.array([0.5, 1.0]), np.array([0.7, 0.4])):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        agree(value, f(x))
        for k in range(2):
            expected = slope(lambda t, k=k, x=x: f(x + t * np.eye(2)[k]), [0.0], 0)
            assert gradient[k] == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert cache.traces == 1


def test_a_frozen_distribution_that_is_changed():
    frozen = stats.multivariate_normal([0.1, 0.2], SPREAD)
    x = np.array([0.5, 1.0])
    gradient = nt.value_and_grad(lambda x: frozen.logpdf(x))
    agree(gradient(x)[0], frozen.logpdf(x))
    frozen.mean[:] = 3.0
    agree(gradient(x)[0], frozen.logpdf(x))


def test_nothing_of_scipy_is_imported_for_it():
    code = "import sys, numbatape; assert not any(m.startswith('scipy.stats') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


MOMENTS = {
    "betaprime": (2.5, 6.3),
    "chi": (3.2,),
    "foldnorm": (1.3,),
    "invgauss": (0.7,),
    "lomax": (3.4,),
    "skewnorm": (1.2,),
    "triang": (0.3,),
    "skellam": (2.0, 1.3),
}


BY_VALUES = {"ksone": (10,), "kstwo": (10,), "landau": (), "levy_stable": (1.8, -0.5)}


@pytest.mark.parametrize("name", BY_VALUES)
def test_laws_that_are_known_by_their_values(name):
    law, shapes, h = getattr(stats, name), BY_VALUES[name], 1e-5

    def parts(x):
        places = {"loc": 0.1 * x, "scale": 1.0 + x}
        of_place = [getattr(law, name)(x, *shapes, **places) for name in ("cdf", "sf", "logcdf", "logsf")]
        return np.stack([*of_place, law.ppf(x, *shapes, **places), law(*shapes, loc=0.1 * x).isf(x)])

    value, slope = nt.jvp(parts, (0.3,), (1.0,))
    np.testing.assert_allclose(value, parts(0.3), rtol=1e-13)
    np.testing.assert_allclose(slope, (parts(0.3 + h) - parts(0.3 - h)) / (2.0 * h), rtol=1e-5)
    if name in ("ksone", "kstwo"):
        with pytest.raises(nt.UnsupportedOperationError, match=rf"{name}\.pdf"):
            nt.grad(lambda x: law.pdf(x, *shapes))(0.3)


# By mpmath's quadrature of the characteristic function with 34 digits: a place, slopes, second derivatives
# in the order of the upper triangle.
DENSITIES = [
    ("landau", (-2.0,), (0.05035600355651108,), (0.3027258967153791,)),
    ("landau", (3.0,), (-0.026718261543406917,), (0.015984061499564974,)),
    (
        "levy_stable",
        (-1.3, 1.6, 0.4),
        (0.1359031301552192, -0.10070577248806586, 0.10716710964429098),
        (
            *(-0.05127804722828915, -0.03912504793746225, -0.025606226906661048),
            *(0.3816546532843655, -0.40768175014699454, -0.008064335241396993),
        ),
    ),
    (
        "levy_stable",
        (0.7, 1.9, -0.8),
        (-0.07736562665194492, -0.10183805075112466, -0.013284081183010587),
        (
            *(-0.11867879400362369, -0.12617055049170278, -0.020354248002567993),
            *(-0.0603990194498811, 0.11176315283600659, -0.004040935312761245),
        ),
    ),
]


@pytest.mark.parametrize(("name", "place", "slopes", "bends"), DENSITIES)
def test_slopes_of_densities_by_integrals(name, place, slopes, bends):
    law, place = getattr(stats, name), np.array(place)
    np.testing.assert_allclose(nt.grad(lambda p: law.pdf(*p))(place), slopes, rtol=2e-13)
    found = nt.hessian(lambda p: law.pdf(*p))(place)
    np.testing.assert_allclose(found[np.triu_indices(len(place))], bends, rtol=1e-12)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    of_logarithm = np.array(slopes) / law.pdf(*place)  # SciPy's stable densities have ten digits
    np.testing.assert_allclose(nt.grad(lambda p: law.logpdf(*p))(place), of_logarithm, rtol=1e-9)


def test_stable_densities_of_other_parametrizations_and_orders():
    law = stats.levy_stable
    slope, ends = nt.grad(lambda x: law.pdf(x, 1.0, 0.5))(0.3), law.pdf([0.3 - 1e-5, 0.3 + 1e-5], 1.0, 0.5)
    assert slope == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-6)
    law.parameterization = "S0"
    try:
        with pytest.raises(nt.UnsupportedOperationError, match=r"levy_stable\.pdf"):
            nt.grad(lambda x: law.pdf(x, 1.5, 0.5))(0.3)
    finally:
        law.parameterization = "S1"


@pytest.mark.parametrize("frozen", [False, True])
def test_scipy_moves_stable_laws_of_order_one(frozen):
    h = 1e-5

    def parts(loc, scale, pdf=False):
        x, shapes = np.array([-1.2, 0.4, 2.0]), (1.0, 0.5)
        law = stats.levy_stable(*shapes, loc=loc, scale=scale)
        if frozen:
            return law.pdf(x) if pdf else np.stack([law.cdf(x), law.sf(x)])
        law = stats.levy_stable
        if pdf:
            return law.pdf(x, *shapes, loc, scale)
        return np.stack([law.cdf(x, *shapes, loc=loc, scale=scale), law.sf(x, *shapes, loc, scale)])

    value, slope = nt.jvp(parts, (0.3, 2.0), (0.4, 1.0))
    np.testing.assert_allclose(value, parts(0.3, 2.0), rtol=1e-13)
    expected = (parts(0.3 + 0.4 * h, 2.0 + h) - parts(0.3 - 0.4 * h, 2.0 - h)) / (2.0 * h)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    densities, _ = nt.jvp(lambda x: x * nt.stop_gradient(parts(0.3 * x, 2.0 * x, True)), (1.0,), (1.0,))
    np.testing.assert_allclose(densities, parts(0.3, 2.0, True), rtol=1e-13)


def test_wallenius_against_draws_one_by_one():
    """The masses of all counts follow from those of one draw fewer."""
    balls, good, drawn, found = 300, 100, 50, 20

    def exact(odds):
        masses = {0: mpmath.mpf(1)}
        for draw in range(drawn):
            after = dict.fromkeys(range(draw + 2), mpmath.mpf(0))
            for k, mass in masses.items():
                yes, no = odds * (good - k), balls - good - (draw - k)
                after[k + 1] += mass * yes / (yes + no)
                after[k] += mass * no / (yes + no)
            masses = after
        return mpmath.log(masses[found])

    law = stats.nchypergeom_wallenius
    value, slope = nt.value_and_grad(lambda odds: law.logpmf(found, balls, good, drawn, odds))(1.5)
    assert value == pytest.approx(float(exact(mpmath.mpf(1.5))), rel=1e-12)
    assert slope == pytest.approx(float(mpmath.diff(exact, mpmath.mpf(1.5))), rel=1e-12)
    assert nt.grad(lambda odds: law.logpmf(4, 9, 4, 9, odds))(1.5) == 0.0  # the whole urn


OF_TRIALS = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "mean", "var", "std", "entropy")


@pytest.mark.parametrize("name", OF_TRIALS)
def test_successes_of_trials_with_probabilities_of_their_own(name):
    p, law = np.array([[0.2, 0.7, 0.45, 0.9], [0.1, 0.2, 0.3, 0.4]]), stats.poisson_binom
    if name in ("mean", "var", "std", "entropy"):
        functions = [getattr(law, name), lambda p: getattr(law(p, 1), name)()]
    else:
        functions = [
            lambda p: getattr(law, name)(np.array([2, 1]), p),
            lambda p: getattr(law(p[0], loc=1), name)(np.array([2, 3, 4])),
            lambda p: getattr(law, name)(np.array([-1, 6, 3]), p[0])[2],
        ]
    for f in functions:
        np.testing.assert_allclose(nt.vjp(f, p)[0], f(p), rtol=1e-13)
        nt.check(f, p)
    assert np.isnan(nt.vjp(lambda p: law.pmf(2, p), np.array([0.5, 1.5]))[0])
    moments = lambda p: np.stack(law.stats(p, moments="mvsk"))  # noqa: E731
    np.testing.assert_allclose(nt.jvp(moments, (p[0],), (p[1],))[0], moments(p[0]), rtol=1e-12)


def test_p_values_of_kolmogorov_and_smirnov():
    x = np.array([0.3, -1.0, 1.4, 0.6, -0.2])

    def f(s):
        above = stats.ks_1samp(s * x, norm.cdf, alternative="less").pvalue
        return stats.kstest(s * x, "norm").pvalue * above * special.smirnovi(5, s / 3.0)

    assert nt.grad(f)(1.2) == pytest.approx((f(1.2 + 1e-6) - f(1.2 - 1e-6)) / 2e-6, rel=1e-6)


OF_HIGHER_ORDER = {
    "zipf": (6.5,),  # a sum over all counts has seven digits
    "nbinom": (3.5, 0.3),
    "truncnorm": (-1.0, 2.0),
    "truncexpon": (1.7,),
    "fisk": (7.7,),
    "pareto": (5.2,),
    "trapezoid": (0.2, 0.6),
}


@pytest.mark.parametrize("name", OF_HIGHER_ORDER)
def test_moments_have_the_digits_of_formulas(name):
    law, shapes = getattr(stats, name), OF_HIGHER_ORDER[name]

    def moments(*shapes):
        return np.stack([*law.stats(*shapes, moments="mvsk"), *(law.moment(k, *shapes) for k in (1, 3, 4))])

    value, slopes = nt.jvp(moments, shapes, (1.0,) * len(shapes))
    np.testing.assert_allclose(value, moments(*shapes), rtol=1e-12)
    at = [moments(*(shape + h for shape in shapes)) for h in (-1e-4, 1e-4)]
    np.testing.assert_allclose(slopes, (at[1] - at[0]) / 2e-4, rtol=1e-5)
    assert type(nt.vjp(lambda a: law.moment(3, a, *shapes[1:]), shapes[0])[0]) is np.float64


def test_moments_of_a_truncated_normal_law_without_an_end():
    f = lambda a, b: np.sum(stats.truncnorm.stats(a, b, moments="vk"))  # noqa: E731
    assert nt.grad(f, argnums=(0, 1))(-np.inf, 1.0) == (0.0, pytest.approx(nt.grad(f, 1)(-40.0, 1.0)))


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("moment", ["mean", "var"])
def test_moments_by_scipys_formulas(name, moment):
    method, shapes = getattr(getattr(stats, name), moment), np.array(MOMENTS[name])
    places = (0.3,) if name == "skellam" else (0.3, 1.4)
    nt.testing.check_derivatives(lambda *given: method(*given), *shapes, *places, order=1, points=1)


def test_moments_for_the_place_and_the_scale():
    slopes = nt.grad(lambda loc, scale: stats.kappa3.mean(3.0, loc, scale), argnums=(0, 1))(0.3, 1.4)
    assert slopes == pytest.approx((1.0, stats.kappa3.mean(3.0)))


INTEGRALS = {
    "area": (lambda a: stats.geninvgauss.cdf([0.4, 3.0], a, 0.7), 1.3),
    "area above": (lambda a: stats.norminvgauss.sf(0.3, a, 0.4), 1.3),
    "area, place": (lambda x: stats.genhyperbolic.cdf(x, 0.5, 1.3, 0.4, scale=x), 1.3),
    "area on the circle": (lambda k: stats.vonmises.cdf([-0.4, 3.5], k), 1.3),
    "quantile": (lambda a: stats.skewnorm.ppf([0.2, 0.9], a, loc=a), 1.3),
    "upper quantile": (lambda q: stats.argus.isf([0.5 * q, 1e-9], q), 0.7),
    "interval": (lambda a: np.stack(stats.rice.interval(0.8, a)), 1.3),
    "quantile of an area": (lambda b: stats.geninvgauss.median(1.2, b), 0.6),
    "skewness": (lambda a: stats.gamma.stats(a, moments="msk")[1], 1.3),
    "kurtosis": (lambda b: stats.skewnorm(b).stats("k"), 1.3),
    "kurtosis, by moments": (lambda c: stats.weibull_max.stats(c, moments="sk")[1], 1.7),
    "mean, where SciPy has no formula": (lambda c: stats.genextreme.mean(c), 0.1),
    "entropy": (lambda a: stats.burr12.entropy(a, 2.0), 1.3),
    "entropy of counts": (lambda m: stats.poisson.entropy(m), 1.3),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_what_follows_by_integrals_and_inversion(name):
    f, x = INTEGRALS[name]
    agrees(
        f,
        x,
        order=2 if name in ("area above", "quantile", "upper quantile") else 1,
        value_rtol=1e-8,
        rtol=1e-6,
        step=0.02,
    )


def test_quantiles_of_counts_are_data():
    f = lambda m: np.stack([*stats.poisson(m, m).interval(0.5), stats.poisson.isf(0.2, m)]) * m  # noqa: E731
    value, slope = nt.jvp(f, (3.2,), (1.0,))
    np.testing.assert_allclose(value, f(3.2))
    np.testing.assert_allclose(slope, f(3.2) / 3.2 + 3.2 * np.array([1.0, 1.0, 0.0]))


def test_the_median_of_an_even_density_does_not_depend_on_its_shape():
    assert nt.grad(lambda a: stats.dgamma.median(a) + stats.dweibull.median(a))(1.3) == 0.0


def test_moments_that_do_not_exist_are_scipys():
    second = nt.value_and_grad(lambda b: stats.crystalball.var(b, 2.5))
    assert [second(b) for b in (1.2, 1.3)] == [(np.inf, 0.0)] * 2
    value, slope = nt.jvp(lambda c: stats.foldcauchy.moment(3, c), (1.2,), (1.0,))
    assert np.isnan(value) and slope == 0.0


@pytest.mark.parametrize(
    ("name", "x", "shapes"),
    [("gamma", 0.0, (2.0,)), ("beta", 1.0, (2.0, 3.0)), ("maxwell", 0.0, ()), ("triang", 0.0, (0.3,))],
)
def test_densities_that_vanish_at_an_end_have_slopes_in_both_modes(name, x, shapes):
    f = lambda x, scale: getattr(stats, name).pdf(x, *shapes, 0.0, scale)  # noqa: E731
    assert nt.grad(f, argnums=(0, 1))(x, 1.0) == (0.0, 0.0)
    assert nt.jvp(f, (x, 1.0), (1.0, 0.0))[1] == 0.0
    assert nt.hessian(f)(x, 1.0) == 0.0


@pytest.mark.parametrize(
    ("name", "x", "shapes"),
    [("truncpareto", 1.7, (-2.0, 5.0)), ("gengamma", 0.0, (4.4, -3.1)), ("powerlaw", 0.0, (0.6,))],
)
@every("method", ["pdf", "logpdf", "cdf", "sf"])
def test_values_are_scipys_for_all_shapes(name, x, shapes, method):
    f = lambda x: getattr(getattr(stats, name), method)(x, *shapes)  # noqa: E731
    for point in (x, x + 0.2):
        np.testing.assert_allclose(nt.value_and_grad(f)(point)[0], f(point), rtol=1e-14)


def test_moments_on_a_circle_and_of_a_density_that_is_infinite_at_its_end():
    def circular(p):
        return stats.vonmises.moment(2, p[0], loc=p[1], scale=p[2])

    def mean(f, kappa):
        return integrate.quad(lambda t: f(t) * stats.vonmises.pdf(t, kappa), -np.pi, np.pi)[0]

    p = kappa, loc, scale = np.array([3.45, 0.05, 0.83])
    value, slope = nt.value_and_grad(circular)(p)
    second, mixed = (mean(f, kappa) for f in (np.square, lambda t: t**2 * np.cos(t)))
    np.testing.assert_allclose(value, loc**2 + scale**2 * second, rtol=1e-9)
    rise = mixed - second * special.i1(kappa) / special.i0(kappa)
    np.testing.assert_allclose(slope, [scale**2 * rise, 2 * loc, 2 * scale * second], rtol=1e-7)
    value, slope = nt.value_and_grad(lambda m: stats.vonmises.expect(np.cos, args=(2.0,), loc=m))(0.3)
    ratio = special.i1(2.0) / special.i0(2.0)
    np.testing.assert_allclose([value, slope], [np.cos(0.3) * ratio, -np.sin(0.3) * ratio], rtol=1e-9)

    p = np.array([0.54, 0.4, 1.1])
    bends = nt.hessian(lambda p: stats.powerlaw.moment(2, p[0], loc=p[1], scale=p[2]))(p)
    wanted = nt.hessian(
        lambda p: p[1] ** 2 + 2 * p[1] * p[2] * p[0] / (p[0] + 1) + p[2] ** 2 * p[0] / (p[0] + 2)
    )(p)
    np.testing.assert_allclose(bends, wanted, rtol=1e-6)


@pytest.mark.parametrize("c", [0.8429573427527741, 0.9516540478400546])
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_a_mean_where_the_slope_of_the_density_is_infinite_at_an_end_that_moves(c):
    """The end is 1/c, where the density is ``(1 - c*x)**(1/c - 1)`` times something smooth."""

    def mean(c):
        def weighed(u):  # u = 1 - c*x
            return 2 * (1 - u) * u ** (1 / c - 1) / (c * (1 + u ** (1 / c))) ** 2

        return mpmath.quad(weighed, [0, 0.01, 0.1, 1])

    value, slope = nt.value_and_grad(lambda c: stats.genhalflogistic.mean(c))(c)
    np.testing.assert_allclose(value, float(mean(mpmath.mpf(c))), rtol=1e-9)
    np.testing.assert_allclose(slope, float(mpmath.diff(mean, c)), rtol=1e-7)


@pytest.mark.parametrize(
    "name, shapes",
    [("betabinom", (9, 2.3, 0.6)), ("hypergeom", (20, 9, 12)), ("zipfian", (1.2, 9))],
)
def test_sums_of_counts_from_another_first_one(name, shapes):
    """Where the sum begins and ends hangs on counts and shapes, which are arguments."""
    law = getattr(scipy.stats, name)
    f = lambda s, k, *shapes: law.sf(k, *shapes) * s + law.cdf(k, *shapes) ** 2  # noqa: E731
    for k in ([4, 5], [1, 7]):
        for more in (0, 1, -2):
            given = tuple(v + more if isinstance(v, int) else v for v in shapes)
            value = nt.vjp(f, 1.0, np.array(k), *given)[0]
            np.testing.assert_allclose(value, f(1.0, np.array(k), *given), rtol=1e-12)
