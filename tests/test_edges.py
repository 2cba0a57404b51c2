"""Empty arrays, arrays of one entry, numbers where arrays are usual, float32 that NumPy makes float64."""

import fractions
import functools
import math
import operator

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.special as sc
import scipy.stats

import numbatape as nt
from tests.every_case import every

REDUCTIONS = {
    f"{name}-{axis}": lambda x, g=name, a=axis: getattr(np, g)(x, axis=a) * 1.0
    for name in (
        *(
            "sum",
            "mean",
            "prod",
            "var",
            "max",
            "min",
            "ptp",
            "median",
            "nansum",
            "nanmean",
            "nanmax",
            "nanmin",
        ),
        *("nanmedian", "argmax", "argmin", "cumsum", "cumprod", "any"),
    )
    for axis in (None, 0, -1)
}
FUNCTIONS = REDUCTIONS | {
    "max-initial": lambda x: np.max(x, axis=0, initial=0.1),
    "min-initial": lambda x: np.min(x, axis=-1, initial=0.1),
    "max-axes": lambda x: np.max(x, axis=(0, 1)),
    "fmax-axes": lambda x: np.fmax.reduce(x, axis=(0, 1)),
    "fmin-all": lambda x: np.fmin.reduce(x, axis=None),
    "hypot-reduce": lambda x: np.hypot.reduce(x),
    "subtract-reduce": lambda x: np.subtract.reduce(x),
    "logaddexp-reduce": lambda x: np.logaddexp.reduce(x),
    "logaddexp2-reduce": lambda x: np.logaddexp2.reduce(x),
    "maximum-reduce": lambda x: np.maximum.reduce(x, axis=None),
    "logsumexp": lambda x: sc.logsumexp(x, axis=-1),
    "softmax": lambda x: sc.softmax(x, axis=0),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=0),
    "mask": lambda x: x[x > 0.2] if x.ndim else x,
    "nonzero": lambda x: x[np.nonzero(x > 0.2)] if x.ndim else x,
    "argwhere": lambda x: np.argwhere(x > 0.2) * 1.0 if x.ndim else x,
    "argsort": lambda x: np.argsort(x) * x,
    "sort": lambda x: np.sort(x),
    "resize": lambda x: np.resize(x, (5, 7)),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x),
    "asfortranarray": lambda x: np.asfortranarray(x),
    "require": lambda x: np.require(x),
    "cov": lambda x: np.cov(x),
    "polysub": lambda x: np.polysub(np.ravel(x)[:1], 2.0 * np.ravel(x)[:2]),
    "polyadd-numbers": lambda x: np.polyadd(np.sum(x), 2.0),
    "reshape-fortran": lambda x: x.reshape((-1, 1), order="F"),
    "outer": lambda x: np.multiply.outer(x, x),
    "outer-number": lambda x: np.add.outer(np.sum(x), x) + np.add.outer(x, 2.0),
    "average-weights": lambda x: np.average(x, axis=-1, returned=True)[1] if x.ndim and x.size else x,
    "neighbours": lambda x: x[1:] * x[:-1],
    "norm": lambda x: np.linalg.norm(x),
    "joined": lambda x: np.r_[x, 2.0 * x],
    "joined-one": lambda x: np.r_[x] * 1.0,
    "columns": lambda x: np.c_[x, 2.0 * x],
    "nanquantile": lambda x: np.nanquantile(x, 0.3, axis=-1),
    "nanmedian-keepdims": lambda x: np.nanmedian(x, axis=0, keepdims=True),
    "quantile-none": lambda x: np.quantile(x, [], axis=0),
    "gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
    "gradient_magnitude": lambda x: scipy.ndimage.gaussian_gradient_magnitude(x, 1.0),
    "convolve-image": lambda x: scipy.ndimage.convolve(x, np.ones((2,) * x.ndim)),
    "periodogram": lambda x: scipy.signal.periodogram(x)[1],
    "fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
}
SHAPES = {
    1: [(4,), (0,), (1,), (2,), (7,)],
    2: [(3, 4), (0, 4), (3, 0), (1, 4), (3, 1), (1, 1), (0, 0), (5, 2), (4, 3), (6, 2), (12, 1)],
    0: [()],
}


def outcome(function, *args):
    with np.errstate(all="ignore"):
        try:
            return function(*args), None
        except Exception as error:
            return None, error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@every("ndim", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_size_is_numpys(name, ndim):
    """Fresh, on a tape traced at another size, and by a cache: NumPy's value, or NumPy's error."""
    f, rng, cache = FUNCTIONS[name], np.random.default_rng(1), None
    for shape in SHAPES[ndim]:
        x = np.asarray(rng.normal(size=shape))
        expected, error = outcome(f, x)
        calls = [(lambda x: nt.vjp(f, x)[0], x)]
        if cache is not None:
            ybar = np.ones(np.shape(expected))
            calls.append((lambda *args: nt.value_and_pullback(*args)[0], cache, ybar, x))
        for call, *args in calls:
            value, raised = outcome(call, *args)
            if error is not None:
                assert isinstance(raised, type(error)), (shape, value, raised)
                continue
            assert raised is None, (shape, raised)
            assert np.shape(value) == np.shape(expected), shape
            np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-15, err_msg=str(shape))
        if cache is None and error is None:
            cache = nt.prepare_pullback_cache(f, x)


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
@pytest.mark.parametrize("q", [0.3, [0.2, 0.5]])
@pytest.mark.parametrize("axis", [None, 1, (0, 1)])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(0, 2)])
def test_quantiles_of_rows_of_nan(q, axis, rows):
    x = np.array([[np.nan, np.nan], [1.0, 2.0]])[rows]
    for f in (lambda x: np.nanquantile(x, q, axis=axis), lambda x: np.nanmedian(x, axis, keepdims=True)):
        value, slope = nt.jvp(f, (x,), (np.ones((2, 2))[rows],))
        np.testing.assert_array_equal(value, f(x))
        np.testing.assert_array_equal(slope, np.where(np.isnan(value), 0.0, 1.0))


QUANTILES = ("averaged_inverted_cdf", "weibull", "linear", "median_unbiased", "lower", "midpoint")
BESIDE = [
    [1.0, 2.0, 3.0, np.inf],
    [-np.inf, 1.0, 2.0, 3.0],
    [2.0, -np.inf, 1.0, -np.inf],
    [np.inf, 0.0, 1.0, -np.inf],
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", QUANTILES)
def test_quantiles_beside_infinities(method):
    """NumPy's rounded positions decide between an entry, an infinity and NaN, of traced probabilities too."""
    given = nt.value_and_grad(lambda x, q: np.quantile(x, q, method=method), argnums=(0, 1))
    for q in (0.1, 0.3, 0.75, 0.8):
        fixed = nt.value_and_grad(functools.partial(lambda q, x: np.quantile(x, q, method=method), q))
        for x in map(np.array, BESIDE):
            expected = np.quantile(x, q, method=method)
            by_argument, (slopes_of_it, _) = given(x, q)
            for value, slopes in (fixed(x), (by_argument, slopes_of_it)):
                np.testing.assert_array_equal(value, expected, err_msg=f"{q} of {x}")
                if np.isfinite(expected):
                    np.testing.assert_allclose(np.sum(slopes), 1.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("q", [0, 1, [0, 1]])
def test_whole_probabilities_are_the_first_and_the_last_entry(q):
    for x in map(np.array, BESIDE):
        np.testing.assert_array_equal(nt.vjp(lambda x: np.quantile(x, q), x)[0], np.quantile(x, q))
        if np.ndim(q) == 0:
            assert nt.value_and_grad(lambda x, q: np.quantile(x, q))(x, q)[0] == np.quantile(x, q)


def test_a_result_of_nothing():
    assert nt.jvp(lambda x: (), (1.0,), (1.0,)) == ((), ())


JOINED = {
    "rows": lambda x: np.r_[x, np.ones((1, 3)), x],
    "one": lambda x: np.r_[x],
    "numbers": lambda x: np.r_[x[0, 0], 2.0, x[1]],
    "slices": lambda x: np.r_[0:3, x[0]],
    "columns": lambda x: np.c_[x, np.ones((2, 1))],
    "columns-of-vectors": lambda x: np.c_[x[0], x[1], np.arange(3.0)],
    "columns-of-stacks": lambda x: np.c_[x[None], x[None]],
}


@pytest.mark.parametrize("name", JOINED)
def test_joiners(name):
    x = np.arange(6.0).reshape(2, 3)
    y, pullback = nt.vjp(JOINED[name], x)
    np.testing.assert_array_equal(y, JOINED[name](x))
    direction = np.cos(x)
    along = JOINED[name](x + direction) - JOINED[name](x)
    (gradient,) = pullback(np.sin(y))
    np.testing.assert_allclose(np.sum(gradient * direction), np.sum(np.sin(y) * along), rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: scipy.linalg.qr(x, mode="r"),
        lambda x: scipy.linalg.toeplitz(x[..., 0]),
        lambda x: scipy.linalg.toeplitz(x[..., 0], x[..., 1]),
        lambda x: scipy.linalg.circulant(x[..., 0]),
    ],
)
def test_stacks(f, shape):
    x = np.random.default_rng(0).normal(size=shape)
    value, expected = nt.vjp(f, x)[0], f(x)
    assert type(value) is type(expected)
    np.testing.assert_allclose(value, expected, rtol=1e-13)


WIDENED = {
    "math": lambda x: math.exp(x[0]) + math.hypot(x[0], x[1], x[2]) + math.lgamma(x[0]) + math.fsum(x),
    "bincount": lambda x: np.bincount([0, 1, 1], x),
    "cov": lambda x: np.cov(x, x[::-1] ** 2),
    "corrcoef": lambda x: np.corrcoef(x, x[::-1] ** 2),
    "vander": lambda x: np.vander(x),
    "geomspace": lambda x: np.geomspace(x[0], x[1], 4),
    "cube": lambda x: x ** np.float64(3.0),
    "lstsq": lambda x: np.linalg.lstsq(np.stack([x, x**0]).T, np.array([1.0, 2.0, 4.0]), rcond=None)[0],
    "mean": lambda x: np.mean(x, dtype=np.float64),
}


@pytest.mark.parametrize("name", WIDENED)
def test_float32_is_float64_where_numpy_computes_so(name):
    f, x = WIDENED[name], np.array([0.3, 0.7, 1.9], np.float32)
    expected = f(x)
    assert np.asarray(expected).dtype == np.float64
    value, pullback = nt.vjp(f, x)
    assert np.asarray(value).dtype == np.float64
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    assert pullback(np.ones(np.shape(value)))[0].dtype == np.float32


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "f, got",
    [
        (lambda x: None, "None .is a return missing"),
        (lambda x: "text", "str"),
        (lambda x: {"a": x, "b": "text"}, "str"),
        (lambda x: (part for part in x), "generator"),
        (lambda x: Holder(x), "Holder"),
        (lambda x: lambda: x, "function"),
        (lambda x: scipy.sparse.csr_array(np.outer(x, x)), "a sparse matrix"),
        (lambda x: [scipy.sparse.csc_matrix(np.eye(2)), np.sum(x)], "a sparse matrix"),
        (lambda x: scipy.interpolate.PPoly(np.outer(x, x), np.arange(len(x) + 1)), "Piecewise"),
    ],
)
def test_results_that_hide_a_derivative_raise(f, got):
    x = np.ones(3)
    for call in (
        lambda: nt.jvp(f, (x,), (x,)),
        lambda: nt.vjp(f, x),
        lambda: nt.jacobian(f)(x),
        lambda: nt.jacobian(f, mode="reverse")(x),
        lambda: nt.derivative(lambda t: f(np.stack([t, t])))(1.0),
        lambda: nt.sparsity(f, x),
        lambda: nt.sparse_jacobian(f)(x),
        lambda: nt.value_and_derivative(nt.prepare_derivative_cache(f, x), (x, x)),
        lambda: nt.value_and_pullback(nt.prepare_pullback_cache(f, x), 1.0, x),
        lambda: nt.grad(lambda x: np.sum(nt.jvp(f, (x,), (x,))[1]))(x),
        lambda: nt.grad(lambda x: np.sum(nt.jacobian(f)(x)))(x),
    ):
        with pytest.raises(nt.OutputError, match=f"got {got}"):
            call()
    assert nt.vjp(lambda x: (x, None), x)[0][1] is None


def test_item_names_an_entry_of_the_flat_array():
    np.testing.assert_array_equal(nt.grad(lambda x: x.item(3))(np.ones((2, 2))), [[0, 0], [0, 1]])
    gradient = nt.grad(lambda x, k: x[int(k.item(3))])(np.arange(5.0), np.arange(4).reshape(2, 2))
    np.testing.assert_array_equal(gradient, np.eye(5)[3])


def test_batches_of_empty_results():
    values, gradients = nt.batch(lambda x: x[:0])(np.ones((2, 3)))
    assert values.shape == (2, 0) and gradients.shape == (2, 0, 3)


def test_norms_of_zero_have_derivative_zero():
    for p in (None, 1, 1.5, 2, 3):
        norm = lambda x, p=p: np.linalg.norm(x, p)  # noqa: E731
        np.testing.assert_array_equal(nt.grad(norm)(np.zeros(3)), np.zeros(3))
        np.testing.assert_array_equal(nt.jacobian(norm, mode="forward")(np.zeros(3)), np.zeros(3))
        np.testing.assert_array_equal(nt.hessian(norm)(np.zeros(3)), np.zeros((3, 3)))
    rows = lambda x: np.sum(np.linalg.norm(x, 3, axis=1))  # noqa: E731
    gradient = nt.grad(rows)(np.array([[0.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_allclose(gradient, [[0.0, 0.0], np.array([1.0, 4.0]) / 9 ** (2 / 3)])


def test_partials_of_divisions_by_literal_zeros():
    """The cotangent is a known number, and the partial is NumPy's: an infinity, no error of Python's."""

    def f(x):
        s = np.sum(x) / 0.0
        return 0.3 * s + np.sum(np.sin(x))

    x = np.array([1.0, 2.0, 3.0])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(nt.grad(f)(x), np.full(3, np.inf))
        np.testing.assert_array_equal(nt.hessian(f)(x), np.diag(-np.sin(x)))
        np.testing.assert_array_equal(nt.batch(f)(np.array([x, -x]))[1], np.full((2, 3), np.inf))


def test_an_integer_of_a_traced_number_indexes_an_array_that_is_copied():
    def f(x):
        table = np.arange(10.0)  # copied, because the second index is traced
        return table[math.floor(2.0 * x[0])] * x[1] + table[x.astype(int)][1] * x[0]

    x = np.array([1.2, 3.1])
    assert nt.value_and_grad(f)(x)[0] == f(x)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_batch_of_an_object_that_numpy_converts(one_by_one):
    class Draws:
        def __init__(self, count):
            self.values = np.arange(2.0 * count).reshape(count, 2)

        def __array__(self, dtype=None, copy=None):
            return self.values

    batch = nt.batch(lambda x: np.sum(x**2))
    for count in (3, 3, 3, 5, 2):
        points = Draws(count) if one_by_one else memoryview(Draws(count).values)
        values, gradients = batch(points)
        np.testing.assert_array_equal(values, np.sum(Draws(count).values ** 2, axis=1))
        np.testing.assert_array_equal(gradients, 2.0 * Draws(count).values)


@pytest.mark.parametrize("name", ["mul", "add", "sub", "truediv", "floordiv", "mod", "pow"])
def test_a_fraction_and_a_number_are_computed_as_floats(name):
    operation, half = getattr(operator, name), fractions.Fraction(1, 2)
    for f in (lambda x, h: operation(x, h) * x, lambda x, h: operation(h, x) * x):
        for x in (0.75, 0.5):
            found = nt.value_and_grad(lambda x, f=f: f(x, half))(x)
            assert found == nt.value_and_grad(lambda x, f=f: f(x, 0.5))(x)
            assert found[0] == f(x, half)


def test_a_fraction_and_an_array_would_be_an_array_of_objects():
    with pytest.raises(nt.UnsupportedOperationError, match="dtype object"):
        nt.grad(lambda x: np.sum(x * fractions.Fraction(1, 2)))(np.ones(2))


@pytest.mark.parametrize(
    "made", [np.copy, np.sort, np.flip, lambda e: np.reshape(e, (0, 1)), lambda e: e + 1j * e]
)
def test_results_without_entries_are_written_to(made):
    def f(x):
        empty = np.copy(made(x[:0]))
        empty[...] = 2.0 * x[0]
        empty *= x[1]
        return np.sum(x**2) + np.sum(empty.real)

    np.testing.assert_array_equal(nt.grad(f)(np.arange(3.0)), [0.0, 2.0, 4.0])


@pytest.mark.parametrize(
    "shape, function",
    [
        ((0, 3), np.linalg.matrix_rank),
        ((2, 3, 0), lambda x: np.linalg.matrix_rank(x + 0j)),
        ((0, 3), scipy.linalg.null_space),
        ((3, 0), lambda x: scipy.stats.iqr(x, axis=1)),
        ((0, 3), lambda x: scipy.signal.convolve2d(x, np.ones((2, 2)))),
        ((0, 3), lambda x: scipy.signal.convolve2d(np.ones((2, 2)), x, mode="same")),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_matrices_without_entries(shape, function):
    value, pullback = nt.vjp(lambda x: function(x) + 0.0, np.ones(shape))
    known = function(np.ones(shape))
    np.testing.assert_array_equal(value, known)
    assert np.shape(value) == np.shape(known) and pullback(np.ones(np.shape(known)))[0].shape == shape


def test_python_ints_beyond_all_of_numpys_are_floats():
    f = lambda x: np.sum(x * 10**30) + x[0] * -(10**30) + np.sum(x < 10**30)  # noqa: E731
    value, slopes = nt.value_and_grad(f)(np.array([1.0, 2.0]))
    assert value == f(np.array([1.0, 2.0])) and slopes.tolist() == [0.0, 1e30]


@pytest.mark.parametrize("condition", [None, "", "a", [None, 1], {}])
def test_conditions_that_are_neither_numbers_nor_truth_values(condition):
    x = np.array([1.5, 2.5])
    for f in (lambda x: np.where(condition, x, 3.0 * x), lambda x: np.sum(x, where=condition)):
        np.testing.assert_array_equal(nt.jvp(f, (x,), (x,))[0], f(x))


@pytest.mark.parametrize("where", [2.5, 2, True])
def test_masks_of_numbers_count_as_numpy_counts_them(where):
    x = np.array([1.0, 2.5, -0.3])
    for f in (lambda x: np.mean(x, where=where), lambda x: np.var(x, where=where)):
        np.testing.assert_allclose(nt.value_and_grad(f)(x)[0], f(x), rtol=1e-14)


def test_arrays_differ_from_none_and_text_entry_by_entry():
    def f(x):
        return np.sum(x[x != None]) + (x == "a").sum() + (2.0 if x[0] == None else x[0])  # noqa: E711

    g = nt.value_and_grad(f)
    for n in (2, 3):
        value, slope = g(np.arange(float(n)))
        assert value == f(np.arange(float(n)))
        np.testing.assert_array_equal(slope, [2.0] + [1.0] * (n - 1))


def test_a_mask_without_entries_fits_every_length():
    def f(x):
        rows = np.broadcast_to(x, (2, *x.shape))
        return np.sum(rows[rows[0] > 0])

    g = nt.grad(f)
    for n in (0, 2, 0):
        np.testing.assert_array_equal(g(np.ones(n)), 2.0 * np.ones(n))
    with pytest.raises(IndexError, match="did not match"):
        g(np.ones(3))


def test_what_numpy_does_at_once():
    x = np.ones((2, 3))
    for f in (lambda x: np.diff(x, 0, append=x[:1, :1]), lambda x: np.diff(x, 0, axis=5)):
        np.testing.assert_array_equal(nt.jvp(f, (x,), (x,))[0], x)
    empty = np.ones((2, 0), np.float32)
    largest = nt.jvp(lambda x: np.max(x, keepdims=True, initial=1.0), (empty,), (empty,))[0]
    assert largest.dtype == np.float32 and largest.shape == (1, 1)
    with pytest.raises(TypeError, match="scalar"):
        nt.jvp(lambda x: np.add.reduceat(x, [0]), (1.0,), (1.0,))


def test_third_derivatives_of_a_power_where_base_and_exponent_are_zero():
    """They are zero by convention, as the second ones are, whatever the order of the modes."""

    def power(p):
        return p[0] ** p[1]

    def back(f):
        return nt.grad(lambda p: np.sum(f(p) * np.array([0.2, 0.5])))

    def along(f):
        return lambda p: nt.jvp(f, (p,), (np.array([0.3, 0.7]),))[1]

    first = nt.grad(power)
    for third in (back(back(first)), along(back(first)), along(along(first)), back(along(first))):
        np.testing.assert_array_equal(third(np.zeros(2)), 0.0)
