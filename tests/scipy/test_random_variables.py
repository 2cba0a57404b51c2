"""``scipy.stats``'s newer interface: SciPy's answers, and their derivatives by parameters and points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import numbatape as nt

if not hasattr(st, "Binomial"):
    pytest.skip("SciPy has all of these classes from 1.17 on", allow_module_level=True)

P, X = np.array([0.4, 1.3]), np.array([0.2, 0.9, 1.7])
OF_POINTS = ("pdf", "logpdf", "cdf", "logcdf", "ccdf", "logccdf", "icdf", "iccdf")
OF_ITSELF = ("mean", "variance", "standard_deviation", "median", "entropy")
Gamma = st.make_distribution(st.gamma)
PRIOR = st.Normal(mu=0.3, sigma=1.7)
CUT = st.truncate(2.0 * st.Normal(mu=0.0, sigma=1.0) + 1.0, lb=0.1, ub=3.0)
MIXED = st.Mixture([st.Normal(mu=0.0, sigma=1.0), st.Normal(mu=2.0, sigma=0.5)], weights=[0.3, 0.7])

VARIABLES = {
    "normal": lambda p: st.Normal(mu=p[0], sigma=p[1]),
    "standard": lambda p: st.Normal(),
    "uniform": lambda p: st.Uniform(a=-p[0], b=3.0 * p[1]),
    "logistic": lambda p: p[0] + p[1] * st.Logistic(),
    "turned": lambda p: 2.0 - (st.Normal(mu=p[0], sigma=p[1]) * 2.0 - p[0]) / p[1],
    "gamma": lambda p: Gamma(a=p[1]),
    "made inside": lambda p: st.make_distribution(st.gamma)(a=p[1]),
    "truncated": lambda p: st.truncate(st.Normal(mu=p[0], sigma=p[1]), lb=-p[1], ub=2.5),
    "truncated below": lambda p: st.truncate(Gamma(a=p[1]) * p[0], lb=0.1),
    "size": lambda p: abs(st.Normal(mu=p[0], sigma=p[1])),
    "exp": lambda p: st.exp(st.Normal(mu=p[0], sigma=p[1])),
    "log": lambda p: st.log(Gamma(a=p[1])),
    "rank": lambda p: st.order_statistic(st.Normal(mu=p[0], sigma=p[1]), r=2, n=5),
    "mixture": lambda p: st.Mixture(
        [st.Normal(mu=p[0], sigma=p[1]), st.Uniform(a=0.0, b=2.0)], weights=np.stack([p[0], 1.0 - p[0]])
    ),
    "made outside": lambda p: PRIOR,
    "cut outside": lambda p: CUT,
    "mixed outside": lambda p: MIXED,
    "shifted from outside": lambda p: PRIOR * p[1] + p[0],
    "mixed from outside": lambda p: st.Mixture([PRIOR, CUT]),
}  # fmt: skip
# What has no formula, and is not SciPy's own object's answer either because something is traced.
UNKNOWN = {
    "truncated": ("mean", "variance", "standard_deviation", "entropy"),
    "size": ("icdf", "iccdf", *OF_ITSELF),
    "rank": ("logcdf", "logccdf", "mean", "variance", "standard_deviation", "entropy"),
    "mixture": ("icdf", "iccdf", "median", "entropy"),
    "exp": ("mean", "variance", "standard_deviation", "entropy"),
}
UNKNOWN |= {"truncated below": UNKNOWN["truncated"], "log": UNKNOWN["exp"]}
UNKNOWN |= dict.fromkeys(("mixed outside", "mixed from outside"), ("icdf", "iccdf"))


def answers(name: str):
    """Return all that a variable answers, as a function of its parameters."""
    unknown, make = UNKNOWN.get(name, ()), VARIABLES[name]

    def f(p):
        variable = make(p)
        parts = [
            getattr(variable, q)((0.4 if q[0] == "i" else 1.0) * X * p[1])
            for q in OF_POINTS
            if q not in unknown
        ]
        parts += [getattr(variable, q)() + 0.0 * p[:1] for q in OF_ITSELF if q not in unknown]
        parts.append(np.reshape(variable.cdf(0.3 * p[0], p[1]), (1,)))
        return np.concatenate(parts)

    return f


@pytest.mark.parametrize("name", VARIABLES)
def test_answers(name):
    f = answers(name)
    value, pull = nt.vjp(f, P)
    np.testing.assert_allclose(value, f(P), rtol=1e-7, atol=1e-12)  # SciPy integrates some of them
    differences = np.stack([(f(P + d) - f(P - d)) / 2e-5 for d in 1e-5 * np.eye(2)], -1)
    np.testing.assert_allclose(nt.jacobian(f)(P), differences, rtol=1e-5, atol=1e-6)
    weights = np.cos(np.arange(len(value)))
    np.testing.assert_allclose(pull(weights)[0], weights @ nt.jacobian(f)(P), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name, question", [(name, q) for name in UNKNOWN for q in UNKNOWN[name]])
def test_what_has_no_formula(name, question):
    def f(p):
        method = getattr(VARIABLES[name](p), question)
        return np.sum(method(0.4 * X * p[1])) if question in OF_POINTS else method() + p[0]

    with pytest.raises(nt.UnsupportedOperationError, match=f"{question} of a random variable.*logpdf"):
        nt.grad(f)(P)


@pytest.mark.filterwarnings("ignore:divide by zero")  # of SciPy's own search for quantiles
@pytest.mark.parametrize("make", [lambda p: st.Normal(mu=p[0], sigma=p[1]), lambda p: Gamma(a=p[1])])
def test_shapes_and_moments(make):
    def f(p):
        variable = make(p)
        moments = [variable.moment(k, kind) for kind in ("raw", "central", "standardized") for k in range(5)]
        tails = [variable.ilogcdf(-p[0]), variable.ilogccdf(-p[0])]
        shapes = [variable.skewness(), variable.kurtosis(), variable.kurtosis(convention="excess")]
        return np.stack(moments + tails + shapes)

    np.testing.assert_allclose(nt.vjp(f, P)[0], f(P), rtol=1e-9, atol=1e-12)
    differences = np.stack([(f(P + d) - f(P - d)) / 2e-5 for d in 1e-5 * np.eye(2)], -1)
    np.testing.assert_allclose(nt.jacobian(f)(P), differences, rtol=1e-6, atol=1e-6)
    with pytest.raises(nt.UnsupportedOperationError, match=r"moment\(5, 'central'\) of a random variable"):
        nt.grad(lambda p: make(p).moment(5, "central"))(P)


def test_whole_numbers():
    f = lambda p: st.Binomial(n=7, p=p[0]).logpmf(np.arange(8)) * st.Binomial(n=3, p=p[0]).cdf(1.0)  # noqa: E731
    np.testing.assert_allclose(nt.vjp(f, P)[0], f(P), rtol=1e-12)
    step = np.array([1e-6, 0.0])
    difference = (f(P + step) - f(P - step)) / 2e-6
    np.testing.assert_allclose(nt.jacobian(f)(P)[:, 0], difference, rtol=1e-6)


def test_questions_about_plain_variables_go_to_scipy():
    f = lambda p: p[0] * MIXED.entropy() + PRIOR.skewness() + PRIOR.mode() * CUT.mean()  # noqa: E731
    np.testing.assert_allclose(nt.value_and_grad(f)(P)[0], f(P), rtol=1e-12)


def test_parameters_of_a_variable_and_broken_ones():
    def f(p):
        own = PRIOR.sigma + st.Normal(mu=p[1], sigma=1.0).mu
        return own + st.Normal(mu=p[0], sigma=p[1] - np.array([2.0, 1.0, 0.0])).logpdf(X)

    np.testing.assert_allclose(nt.vjp(f, P)[0], f(P), rtol=1e-12)
    assert list(np.isnan(f(P))) == [True, False, False]


def test_the_support_moves_with_the_parameters():
    f = lambda p: np.stack([*st.Uniform(a=-p[0], b=p[1]).support(), *st.beta(2.0, 3.0, p[0], p[1]).support()])  # noqa: E731
    np.testing.assert_allclose(nt.vjp(f, P)[0], f(P), rtol=1e-15)
    np.testing.assert_array_equal(nt.jacobian(f)(P), [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def test_single_precision_stays():
    f = lambda p: np.sum(st.Normal(mu=p[0], sigma=p[1]).logpdf(X.astype(np.float32)))  # noqa: E731
    assert f(P.astype(np.float32)).dtype == nt.vjp(f, P.astype(np.float32))[0].dtype == np.float32
    if hasattr(st, "Logistic"):  # SciPy 1.17; without parameters its numbers are float64
        nt.check(lambda x: st.Logistic().logpdf(x), 0.4)


class Mine:
    __make_distribution_version__ = "1.16.0"

    @property
    def parameters(self):
        return {"a": (0, np.inf)}

    @property
    def support(self):
        return {"endpoints": (0, 1)}

    def pdf(self, x, a):
        return a * x ** (a - 1)


Own = st.make_distribution(Mine())


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda p: Own(a=p[0]).pdf(0.5), nt.UnsupportedOperationError, "make_distribution.*no formula"),
        (lambda p: st.make_distribution(st.ksone)(n=p[0]), nt.UnsupportedOperationError, "ksone"),
        (lambda p: PRIOR.pdf(p[0], method="quadrature"), nt.UnsupportedOperationError, "method="),
        (lambda p: (PRIOR * p[0]) ** 2, nt.UnsupportedOperationError, "powers and reciprocals"),
        (lambda p: st.Normal(p[0], p[1]).pdf(0.5), TypeError, "positional"),
        (lambda p: st.Normal(mean=p[0]).pdf(0.5), Exception, "mean"),
        (lambda p: st.log(PRIOR).pdf(p[0]), NotImplementedError, "non-negative"),
        (lambda p: st.Mixture([PRIOR, CUT], weights=p).pdf(0.5), ValueError, "sum to 1"),
        (lambda p: PRIOR.logcdf(p[1], p[0]), nt.UnsupportedOperationError, "logarithm of a negative"),
    ],
)  # fmt: skip
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        nt.grad(f)(P)
