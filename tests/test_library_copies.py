"""Functions of NumPy and SciPy without an implementation of ours: their copies run on traced arrays."""

import abc
import functools
import inspect

import numpy as np
import pytest
import scipy.integrate as integrate
import scipy.linalg as linalg
import scipy.optimize as optimize
import scipy.signal as signal
import scipy.stats as stats
from numpy import polynomial
from scipy.spatial import distance

import numbatape as nt
from numbatape.errors import LeakError, UnsupportedOperationError
from numbatape.stand_ins import library_copies
from tests.every_case import together

X = np.array([0.3, 0.25, 0.5, 0.9, -0.4, 0.7])
A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.2]])
W = np.array([0.5, 1.0, 2.0])
Z = np.array([0.2, 0.4, 0.3, 0.8, 0.1, 0.3])
ONES, NONE = np.ones((3, 1)), np.zeros((1, 1))


def doubled(line, widths, axis, options):
    """Fill the ends of a line for np.pad."""
    line[: widths[0]] = line[widths[0]] * 2.0
    line[-widths[1] :] = line[-widths[1] - 1] ** 2


FUNCTIONS = {
    "companion": (lambda x: linalg.companion(x), X),
    "tmean in limits, along an axis": (lambda x: stats.tmean(x.reshape(3, 2), (-0.5, 0.8), axis=0), X),
    "tvar in limits, along an axis": (lambda x: stats.tvar(x.reshape(3, 2), (None, 0.8), axis=0), X),
    "tmin in limits, along an axis": (lambda x: stats.tmin(x.reshape(3, 2), -0.5, axis=0), X),
    "fiedler": (lambda x: linalg.fiedler(x), X),
    "leslie": (lambda x: linalg.leslie(x[:3], x[3:5]), X),
    "bilinear": (lambda x: signal.bilinear(x[:2], x[2:4])[1], X),
    "butter": (lambda x: np.concatenate(signal.butter(3, x[0])), X),
    "cheby1": (lambda x: np.concatenate(signal.cheby1(2, 1.0 + x[1], x[0])), X),
    "iirnotch": (lambda x: np.concatenate(signal.iirnotch(x[0], 30.0 * x[2])), X),
    "firwin": (lambda x: signal.firwin(5, x[0]), X),
    "freqs": (lambda x: np.abs(signal.freqs(x[:2], x[2:4], worN=np.array([1.0, 2.0]))[1]), X),
    "freqz_zpk": (lambda x: np.abs(signal.freqz_zpk(x[:2], [0.2], 1.0, worN=4)[1]), X),
    "lp2hp": (lambda x: np.concatenate(signal.lp2hp([1.0, 2.0], [1.0, 0.3, 0.2], x[0])), X),
    "lp2bp": (lambda x: np.concatenate(signal.lp2bp(x[:2], [1.0, 0.3, 0.2], x[3])), X),
    "lfilter_zi": (lambda x: signal.lfilter_zi(x[:2], np.array([1.0, 0.4])), X),
    "lsim": (lambda x: signal.lsim(([1.0], [1.0, 0.5]), x, np.arange(6.0))[1], X),
    "cont2discrete": (lambda a: signal.cont2discrete((a, ONES, ONES.T, NONE), 0.1)[0], A),
    "tf2ss": (lambda x: signal.tf2ss(x[:2], np.concatenate([[1.0], x[2:4]]))[0], X),
    "deconvolve": (lambda x: signal.deconvolve(x, [1.0, 0.3])[0], X),
    "get_window": (lambda x: signal.get_window(("gaussian", x[0]), 5), X),
    "get_window, chosen namespace": (lambda x: signal.get_window(("kaiser", x[0]), 5), X),
    "mahalanobis": (lambda a: distance.mahalanobis(X[:3], X[3:], a), A),
    "seuclidean": (lambda x: distance.seuclidean(x[:3], x[3:], W), X),
    "jensenshannon": (lambda x: distance.jensenshannon(np.abs(x[:3]), np.abs(x[3:])), X),
    "cumulative_simpson": (lambda x: integrate.cumulative_simpson(x, dx=0.1), X),
    "newton_cotes": (lambda x: integrate.newton_cotes(2)[0] * x[0], X),
    "ttest_ind": (lambda x: stats.ttest_ind(x[:3], x[3:], equal_var=False).pvalue, X),
    "ttest_rel": (lambda x: stats.ttest_rel(x[:3], x[3:]).pvalue, X),
    "pearsonr": (lambda x: stats.pearsonr(x[:3], x[3:])[0], X),
    "linregress": (lambda x: stats.linregress(x[:3], x[3:]).slope, X),
    "f_oneway": (lambda x: stats.f_oneway(x[:3], x[3:]).statistic, X),
    "wasserstein": (lambda x: stats.wasserstein_distance(x[:3], x[3:]), X),
    "jarque_bera": (lambda x: stats.jarque_bera(x).statistic, X),
    "circmean": (lambda x: stats.circmean(x), X),
    "theilslopes": (lambda x: stats.theilslopes(x)[0], X),
    "siegelslopes": (lambda x: np.stack(stats.siegelslopes(x, np.array([0.0, 1, 1, 3, 5, 4]))), X),
    "siegelslopes, separate": (lambda x: np.stack(stats.siegelslopes(x[:3], x[3:], "separate")), X),
    "differential_entropy": (lambda x: stats.differential_entropy(x), X),
    "lmoment": (lambda x: stats.lmoment(x), X),
    "chi2_contingency": (lambda x: stats.chi2_contingency(np.abs(x.reshape(2, 3)) + 1.0)[0], X),
    "ks_1samp": (lambda x: stats.ks_1samp(x, stats.norm.cdf).statistic, X),
    "kstest": (lambda x: stats.kstest(x, stats.norm(0.1, 2.0).cdf, alternative="less").statistic, X),
    "shapiro": (lambda x: np.stack([stats.shapiro(x)[0], *stats.shapiro(x[:3])]), X),
    "shapiro, rows": (lambda x: stats.shapiro(x.reshape(2, 3), axis=1, keepdims=True).statistic, X),
    "anderson": (lambda x: stats.anderson(x, method="interpolate").statistic, X),
    "tukey_hsd": (lambda x: stats.tukey_hsd(x[:2], x[2:4], x[4:]).statistic[0], X),
    "goodness_of_fit": (
        lambda x: (
            stats.goodness_of_fit(
                stats.norm,
                x,
                known_params={"loc": 0, "scale": 1},
                n_mc_samples=9,
                rng=np.random.default_rng(1),
            ).statistic
        ),
        X,
    ),
    "pearsonr, interval": (lambda x: np.stack(stats.pearsonr(x, Z).confidence_interval()), X),
    "ttest, interval": (lambda x: np.stack(stats.ttest_ind(x[:3], x[3:]).confidence_interval()), X),
    "bootstrap": (
        lambda x: np.stack(
            [
                (
                    found := stats.bootstrap((x,), np.mean, n_resamples=30, rng=np.random.default_rng(1))
                ).standard_error,
                *found.confidence_interval,
            ]
        ),
        X,
    ),
    "bootstrap, one sample at a time": (
        lambda x: (
            stats.bootstrap(
                (x,), np.median, n_resamples=5, vectorized=False, method="basic", rng=np.random.default_rng(1)
            ).standard_error
        ),
        X,
    ),
    "permutation_test": (
        lambda x: (
            stats.permutation_test(
                (x[:3], x[3:]),
                lambda a, b: np.mean(a) - np.mean(b),
                n_resamples=9,
                rng=np.random.default_rng(1),
            ).statistic
        ),
        X,
    ),
    "rosen_hess": (lambda x: optimize.rosen_hess(x), X),
    "pad mean": (lambda x: np.pad(x, (2, 1), "mean", stat_length=2), X),
    "pad maximum": (lambda x: np.pad(x.reshape(2, 3), (2, 1), "maximum"), X),
    "pad ramp": (lambda x: np.pad(x, (2, 1), "linear_ramp", end_values=0.5), X),
    "pad reflect odd": (lambda x: np.pad(x, (2, 1), "reflect", reflect_type="odd"), X),
    "pad symmetric odd": (lambda x: np.pad(x, (2, 1), "symmetric", reflect_type="odd"), X),
    "pad function": (lambda x: np.pad(x, (2, 1), doubled), X),
    "histogramdd": (lambda x: np.histogramdd(x.reshape(3, 2), 2, [(-1, 1)] * 2, weights=x[:3])[0], X),
    "vecdot axis": (lambda x: np.vecdot(x.reshape(2, 3), x.reshape(2, 3)[::-1] + 1.0, axis=0), X),
    "clip low": (lambda x: x.clip(0.1), X),
    "clip high": (lambda x: x.clip(max=0.4), X),
    "r_ of new arrays": (lambda x: np.r_[x, np.eye(6)[0]], X),
    **{
        f"{name} weighted": (
            lambda x, name=name: getattr(distance, name)(x[:3], x[3:], w=W),
            X + 0.01 * np.arange(6),
        )
        for name in ("euclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra", "braycurtis")
    },
    **{
        f"cdist {name} weighted": (
            lambda x, name=name: distance.cdist(x.reshape(2, 3), A + 0.07, name, w=W),
            X,
        )
        for name in ("euclidean", "cityblock", "cosine", "correlation", "canberra", "minkowski")
    },
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_copies_have_values_and_derivatives(name):
    f, x = FUNCTIONS[name]

    def total(x):
        return np.sum(np.sin(f(x)))

    verb = nt.value_and_grad(total)
    for point in (x, x * 1.01, x):
        value, gradient = verb(point)
        np.testing.assert_allclose(value, total(point), rtol=1e-13)
        direction = np.cos(np.arange(x.size)).reshape(x.shape)
        steps = [
            (total(point + h * direction) - total(point - h * direction)) / (2 * h) for h in (4e-5, 2e-5)
        ]
        slope = (4.0 * steps[1] - steps[0]) / 3.0
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [6, 12])
def test_p_values_of_shapiro(size):
    """SciPy's own normal distribution has eleven digits here."""
    v = np.sin(3.0 * np.arange(size))
    x = np.resize(X, size) + 0.1 * v
    verb = nt.value_and_grad(lambda x: stats.shapiro(x).pvalue)
    for point in (x, 1.1 * x**2):
        value, gradient = verb(point)
        np.testing.assert_allclose(value, stats.shapiro(point).pvalue, rtol=1e-10)
        slope = [
            (stats.shapiro(point + h * v).pvalue - stats.shapiro(point - h * v).pvalue) / (2 * h)
            for h in (4e-4, 2e-4)
        ]
        np.testing.assert_allclose(gradient @ v, (4.0 * slope[1] - slope[0]) / 3.0, rtol=1e-6)


BASES = {
    "Polynomial": "poly",
    "Chebyshev": "cheb",
    "Legendre": "leg",
    "Hermite": "herm",
    "HermiteE": "herme",
    "Laguerre": "lag",
}
C, Y = np.array([1.1, 2.2, 3.3]), np.array([0.1, 0.2, 0.7])
OPERATIONS = {
    "add": lambda g, x: g("add")(x, Y[:2]),
    "mul": lambda g, x: g("mul")(x, Y),
    "div": lambda g, x: np.concatenate(g("div")(x, Y[:2])),
    "pow": lambda g, x: g("pow")(x, 2),
    "val at x": lambda g, x: g("val")(x, Y),
    "val of c": lambda g, x: g("val")(Y, x),
    "val2d": lambda g, x: g("val2d")(x, Y, np.outer(x, Y)),
    "der": lambda g, x: g("der")(x),
    "int": lambda g, x: g("int")(x, k=x[0]),
    "fromroots": lambda g, x: g("fromroots")(x),
    "vander": lambda g, x: g("vander")(x, 3),
    "fit": lambda g, x: g("fit")(Y, x, 1),
}
OF_OBJECTS = {
    "call": lambda cls, x: cls(x)(x[:2]),
    "arithmetic": lambda cls, x: (cls(x) * cls(Y) + cls(x) ** 2 - 2.0 * cls(Y) // cls(Y[:2]))(Y),
    "calculus": lambda cls, x: cls(x).deriv()(Y) + cls(x).integ()(Y),
    "composed": lambda cls, x: cls(x)(cls(Y)).coef,
    "converted": lambda cls, x: cls(x).convert(kind=polynomial.Polynomial).coef,
    "domain": lambda cls, x: cls(x, domain=[0, 2])(Y),
    "converted from a traced domain": lambda cls, x: cls(Y, domain=x[:2]).convert(window=[x[1], 4.0]).coef,
}


def near(f, x):
    """Whether the gradient of a function is that of differences."""
    jacobian = nt.jacobian(f)(x)
    h = 1e-6
    columns = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))]
    np.testing.assert_allclose(jacobian, np.stack(columns, -1), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("base", BASES)
def test_functions_of_polynomials(base):
    module = inspect.getmodule(getattr(polynomial, base))

    def named(name):
        return getattr(module, BASES[base] + name)

    together(near, {name: functools.partial(f, named) for name, f in OPERATIONS.items()}, C)


@pytest.mark.parametrize("base", BASES)
def test_polynomials_as_objects(base):
    cls = getattr(polynomial, base)
    together(near, {name: functools.partial(f, cls) for name, f in OF_OBJECTS.items()}, C)
    for f in OF_OBJECTS.values():
        assert np.all(np.isfinite(f(cls, C)))  # the class is what it was


def test_polynomials_are_reached_through_numpy():
    near(lambda x: np.polynomial.polynomial.polyval(Y, x), C)
    near(lambda x: np.polynomial.chebyshev.Chebyshev(x)(Y), C)

    def of_outer(x):
        def inner(x):
            return np.polynomial.Legendre(x)(Y)

        return inner(x) * np.sum(x)

    near(of_outer, C)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def __mul__(self, other):
        return isinstance(other, Shape)


class Square(Shape):
    def area(self, x):
        return np.sum(np.array([x[0], x[1]]) ** 2) * (1.0 if isinstance(self, Shape) else 3.0)


def test_tests_of_abstract_classes_end():
    """The stand-in for an abstract class is one of the subclasses that the class asks."""
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(nt.grad(lambda x: Square().area(x) * (Square() * Square()))(x), 2.0 * x)
    assert (Square() * Square()) is True
    assert (Square() * 3.0) is False
    assert not isinstance(3.0, Shape)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 3, 2)])
def test_positions_of_a_flattened_array(shape, order):
    def f(x):
        places = np.unravel_index(np.argsort(x.ravel()), shape, order)
        again = np.ravel_multi_index(places, shape, order=order)
        top = np.unravel_index(np.argmax(x), shape)
        wrapped = np.ravel_multi_index((np.argmax(x) + 3,) * len(shape), shape, mode="wrap", order=order)
        return x[top] ** 2 * (1.0 + wrapped) + np.sum(x.ravel() * again) + np.sum(x.ravel() * places[0])

    verb, rng = nt.value_and_grad(f), np.random.default_rng(1)
    for _ in range(4):
        x = rng.normal(size=shape)
        value, gradient = verb(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        steps = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(x.size).reshape(-1, *shape)]
        np.testing.assert_allclose(gradient.ravel(), steps, rtol=1e-6, atol=1e-6)


def test_columns_of_powers_have_the_length_of_each_call():
    verb = nt.value_and_grad(lambda x: np.sum(np.vander(x, 1)))
    for n in (3, 1, 6):
        value, gradient = verb(np.arange(float(n)))
        assert value == n
        np.testing.assert_array_equal(gradient, np.zeros(n))


def test_what_copies_cannot_do_is_an_error():
    with pytest.raises(LeakError, match=r"scipy\.optimize\.bracket"):
        nt.grad(lambda x: optimize.bracket(lambda t: (t - x[0]) ** 2, xa=x[1])[0])(X)
    with pytest.raises(UnsupportedOperationError, match=r"scipy\.linalg\.bandwidth of a traced array"):
        nt.grad(lambda x: linalg.bandwidth(np.outer(x, x))[0] * x[0])(X)
    # Not the name of a decorator's function.
    with pytest.raises(UnsupportedOperationError, match=r"scipy\.stats\.norm\.fit\(\.\.\., method='MM'\)"):
        nt.grad(lambda x: stats.norm.fit(x, method="MM")[0])(X)
    with pytest.raises(TypeError, match="required positional"):
        nt.grad(lambda x: np.sum(linalg.leslie(x)))(X)


def test_objects_without_traced_values_keep_their_methods():
    """They may be the user's, or the library's own, and live on when the trace has ended."""
    result = stats.ttest_ind(X[:3], X[3:])
    before = dict(vars(result))
    assert library_copies._with_copied_methods(result, None, ()) is result
    assert vars(result) == before


SAMPLE = np.array([0.1, 0.4, 0.7])


def below(x):
    return stats.cramervonmises(SAMPLE, lambda t: np.clip(t * x[0], 0, 1)).statistic


def spread(x):
    runs.append(1)
    statistic = lambda a, axis: x[0] * np.mean(a, axis=axis)  # noqa: E731
    return stats.bootstrap((SAMPLE,), statistic, n_resamples=5, rng=0, method="basic").standard_error


runs: list = []


@pytest.mark.parametrize("f", [below, spread])
def test_functions_of_the_users_with_traced_surroundings(f):
    x, step = np.array([1.1]), np.array([1e-6])
    runs.clear()
    value, slope = nt.value_and_grad(f)(x)
    assert len(runs) == (f is spread)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    np.testing.assert_allclose(slope, (f(x + step) - f(x - step)) / 2e-6, rtol=1e-6)


def test_a_filter_designed_by_a_constant_argument():
    """Its complex poles are constants, over which SciPy's code iterates."""
    f = lambda y, cutoff: np.sum(signal.lfilter(*signal.butter(3, cutoff), y) ** 2)  # noqa: E731
    y = np.linspace(-1.0, 1.0, 6)
    for cutoff in (0.3, 0.4):
        plain = nt.grad(lambda y, c=cutoff: f(y, c))(y)
        np.testing.assert_allclose(nt.grad(f)(y, cutoff), plain, rtol=1e-12)
