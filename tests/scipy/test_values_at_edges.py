"""SciPy's values at infinite, singular and missing arguments."""

import numpy as np
import pytest
import scipy.integrate
import scipy.signal as S
import scipy.special as sc
import scipy.stats as st
from scipy.spatial import distance

import numbatape as nt
from tests.agreement import agrees
from tests.every_case import every


def same(function, x):
    """Values of a function that was traced at another argument."""
    for place in (np.full_like(x, 3.0), x):
        value, _ = nt.jvp(function, (place,), (np.ones_like(x),))
        for got, wanted in zip(value, function(place), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-14, equal_nan=True)


EDGES = {
    "infinite": [np.inf, 1 + 1j],
    "infinite of a phase": [np.inf + 1j, 1.0],
    "minus infinity": [-np.inf, -np.inf + 2j],
    "usual": [0.3 + 1j, -np.inf + 2j],
}


@every("name", list(EDGES))
def test_complex_logsumexp(name):
    with np.errstate(all="ignore"):
        same(lambda x: (sc.logsumexp(x), *sc.logsumexp(x, return_sign=True)), np.array(EDGES[name], complex))


def test_slopes_of_complex_logsumexp_beside_an_infinite_term():
    f = lambda re, im: np.imag(sc.logsumexp(re + 1j * im))  # noqa: E731
    slope = nt.grad(f, argnums=1)(np.array([-np.inf, 0.5, 0.2]), np.zeros(3))
    np.testing.assert_allclose(slope, sc.softmax([-np.inf, 0.5, 0.2]), rtol=1e-14)


def test_the_sign_of_a_complex_sum_of_zero_is_zero():
    weights = np.array([1 + 0j, -1])
    with np.errstate(divide="ignore"):
        same(lambda x: sc.logsumexp(x, b=weights, return_sign=True), np.array([0.3, 0.3]))


@pytest.mark.filterwarnings("ignore:non-integer arg n:DeprecationWarning")
@pytest.mark.parametrize("k", [-1.0, 0.0, 1.5])
def test_infinitely_many_trials(k):
    same(lambda n: (sc.bdtr(k, n, 0.3), sc.bdtrc(k, n, 0.3), sc.bdtri(k, n, 0.3)), np.array(np.inf))


def test_shapiro_without_missing_values():
    x = np.random.default_rng(0).normal(size=(2, 7))
    x[0, 2], x[1, 3:5] = np.nan, np.nan

    def omitting(x):
        return tuple(st.shapiro(x, axis=1, nan_policy="omit"))

    np.testing.assert_allclose(nt.jvp(omitting, (x,), (x * 0.0,))[0], omitting(x), rtol=1e-11)
    keep = np.flatnonzero(~np.isnan(x[0]))
    slope = nt.grad(lambda x: omitting(x)[0][0])(x)[0, keep]
    np.testing.assert_allclose(slope, nt.grad(lambda x: st.shapiro(x)[0])(x[0, keep]), rtol=1e-12)
    cache = nt.prepare_gradient_cache(lambda x: st.shapiro(x, nan_policy="raise")[0], x[0, keep])
    with pytest.raises(ValueError, match="contains nan values"):
        nt.value_and_gradient(cache, x[0, 1:])


@every("options", [{"axis": (0, 2)}, {"axis": (2, 0), "keepdims": True}, {"keepdims": True}, {"axis": -1}])
def test_shapiro_over_axes(options):
    samples = np.random.default_rng(1).normal(size=(3, 2, 4))
    for x in (samples, np.cos(3.0 * samples)):
        value, _ = nt.jvp(lambda x: tuple(st.shapiro(x, **options)), (x,), (x,))
        for got, wanted in zip(value, st.shapiro(x, **options), strict=True):
            assert np.shape(got) == np.shape(wanted)
            np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_widths_at_the_height_of_an_entry():
    x = np.array([1.0, 0.0, 1.0, 2.0, 1.0, 0.0, -1.0])  # the right crossing is an entry on a straight slope
    agrees(lambda x: S.peak_widths(x, [3], rel_height=1.0), x, order=1)


AT_EDGES = {
    "trim_mean of NaN": (lambda x: st.trim_mean(x, 0.2), [1.0, np.nan, 2.0, 3.0, 4.0, 2.5]),
    "shapiro of equal numbers": (lambda x: st.shapiro(x).statistic, np.zeros(6)),
    "p-value of equal numbers": (lambda x: st.shapiro(x).pvalue, np.ones(6)),
    "simpson of samples at one place": (lambda x: scipy.integrate.simpson(EVEN, x=x), np.zeros(6)),
    "simpson of two samples at one place": (
        lambda x: scipy.integrate.simpson(EVEN, x=x),
        [0.0, 0.0, 1.0, 2.0, 2.0, 3.0],
    ),
    "steps at NaN": (
        lambda x: scipy.interpolate.interp1d(range(6), EVEN, "zero")(x),
        [np.nan, 1, 2, 3, 4, 5],
    ),
    "canberra of NaN": (lambda x: distance.canberra(x, EVEN), [np.nan, 1.0, 2.0, np.inf, 4.0, 5.0]),
    "ansari": (lambda x: st.ansari(x, EVEN).pvalue, [0.3, 1.7, -0.2, 4.1, 0.9, 1.1]),
}
EVEN = np.array([0.45, -0.54, 0.58, 0.36, 0.29, 0.03])


@pytest.mark.filterwarnings("ignore:scipy.stats.shapiro:UserWarning")
@every("name", list(AT_EDGES))
def test_values_where_scipy_has_its_own(name):
    function, edge = AT_EDGES[name]
    usual, edge = np.array([0.1, 0.4, 0.7, 1.3, 1.6, 2.2]), np.asarray(edge, float)
    cache = nt.prepare_derivative_cache(function, usual)
    with np.errstate(invalid="ignore"):
        for x in (usual, edge):
            value, _ = nt.value_and_derivative(cache, (x, np.ones(6)))
            np.testing.assert_allclose(value, function(x), rtol=1e-11, atol=1e-14)


def test_the_tests_of_scipy_keep_no_traced_numbers():
    nt.value_and_grad(lambda x: np.sum(x) * st.ansari(x, EVEN).statistic)(EVEN[:5] + 0.01)
    assert st.ansari(EVEN[:5] + 0.01, EVEN).pvalue <= 1.0  # SciPy keeps the sizes of its last call


COMPLEX_DISTANCES = {
    **{
        name: lambda u, v, name=name: getattr(distance, name)(u, v)
        for name in (
            "canberra",
            "braycurtis",
            "euclidean",
            "sqeuclidean",
            "cityblock",
            "chebyshev",
            "minkowski",
        )
    },
    "weights": lambda u, v: distance.euclidean(u, v, [0.5, 2.0, 1.0]),
    "seuclidean": lambda u, v: distance.seuclidean(u, v, [0.5, 2.0, 1.0]),
    "pairs": lambda u, v: distance.pdist(np.stack([u, v, u * v]), "seuclidean"),
    "all": lambda u, v: distance.cdist(np.stack([u, v]), np.stack([u * v, u]), "cosine"),
    "truth values, canberra": lambda u, v: distance.canberra(u.real > 0.5, v.real > 0.5),
    "truth values, braycurtis": lambda u, v: distance.braycurtis(u.real > 0.5, v.real > 0.5),
}


@pytest.mark.filterwarnings("ignore:Casting complex:numpy.exceptions.ComplexWarning", "ignore:invalid value")
@pytest.mark.parametrize("name", COMPLEX_DISTANCES)
def test_distances_of_complex_vectors(name):
    """SciPy's compiled metrics read real parts, and some functions convert the second vector."""
    f = COMPLEX_DISTANCES[name]
    u, v = np.array([1 + 2j, 0.3 - 1j, 0.7j]), np.array([0.2j, 1.5 - 1j, 0.1 + 0.4j])
    value, _ = nt.jvp(f, (u, v), (u, v))
    np.testing.assert_allclose(value, f(u, v), rtol=1e-13)
    assert np.asarray(value).dtype == np.asarray(f(u, v)).dtype
