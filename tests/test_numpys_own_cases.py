"""Calls from NumPy's own tests and from others' that compare with NumPy.

One cache serves several points; at each of them the result is NumPy's, or the error is.
"""

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.3, 2.0, 1.0])
ROWS = np.arange(12.0).reshape(2, 2, 3)
HOLES = np.array([np.nan, 2.0, 1.0])
HOLDS_INFINITIES = np.array([np.inf, 2.0, -np.inf])
NEGATIVE = np.array([-0.3, 2.0, 1.0])


def _put_along_rows(x):
    y = ROWS[0] * x
    np.put_along_axis(y, np.argsort(x)[:2, None] % 2, x[2] * np.array([[2.0], [1.0]]), 0)
    return y


# What is called; points beside X.
CASES = {
    "average, axes in another order": (lambda x: np.average(ROWS * x, (1, 0), [[0.0, 0.5], [0.0, 1.0]]), []),
    "average of integers, float32 weights": (lambda x: np.average([1, 2, 4], weights=x.astype("f")), []),
    "cov, weights that may be negative": (lambda x: np.cov(ROWS[0], aweights=x), [NEGATIVE, 0.0 * X]),
    "gradient over NaN": (lambda x: np.gradient(np.concatenate([X, x]), 0.5), [HOLES, X[::-1] * np.inf]),
    "gradient, equal steps as an array": (lambda x: np.gradient(x, np.arange(3.0)), [[1.0, np.nan, 2.0]]),
    "cross of vectors without third entry": (
        lambda x: np.stack([np.cross(x, DATA[:2]), np.cross(DATA[:2], x)]),
        [[1.0, np.nan, 2.0], [2.0, 1.0, np.inf]],
    ),
    "isclose of float32 and a Python number": (
        lambda x: np.isclose(x.astype("f"), 2, rtol=0.4999999999999999, atol=0),
        [],
    ),
    "digitize, falling bins": (lambda x: np.digitize(x, [2.0, 1.0, 0.3]), [X[::-1], X + 0.1]),
    "digitize, bins that may not be sorted": (lambda x: np.digitize(0.5, x[1:]), [X[::-1], X]),
    "digitize, NaN behind the bins": (lambda x: np.digitize(x, np.sort(x)), [[1.0, np.nan, 2.0]]),
    "digitize, no order": (lambda x: np.digitize(0.5, np.sort(x) * x[:1]), [NEGATIVE]),
    "searchsorted, NaN among the entries": (
        lambda x: [
            np.searchsorted(table, np.outer(x, x), side)
            for side in ("left", "right")
            for table in ([1.0, np.nan, -np.nan], [-np.inf, 0.09, 0.6, 0.6, np.inf], [], np.sort(x))
        ],
        [HOLES, HOLDS_INFINITIES, -0.0 * X],
    ),
    "interp, infinite values": (
        lambda x: np.interp([0.0, 0.3, 0.5, 1.0], [0.0, 0.3, 1.0], x),
        [
            [1.0, np.inf, 2.0],
            [-np.inf, np.inf, 3.0],
            [np.inf, np.inf, 3.0],
        ],
    ),
    "interp, infinite knots": (
        lambda x: np.interp(x, [0.0, 1.0, np.inf], [1.0, 2.0, 4.0]),
        [[0.5, np.inf, -1.0]],
    ),
    "interp at NaN, equal knots": (lambda x: np.interp(x, [1.0, 1.0], [2.0, 3.0]), [HOLES]),
    "piecewise of one truth value": (lambda x: np.piecewise(x[0], np.bool_(False), [x[1], x[2]]), []),
    "argwhere of a number": (lambda x: np.argwhere(x[0]), [0.0 * X]),
    "histogram2d, edges of both axes": (lambda x: np.histogram2d(x, X, [0.0, x[0], 3.0]), [X[::-1]]),
    "histogram2d, edges and a number": (lambda x: np.histogram2d(x, X, ((0, 0.5, 3), 2)), [X + 0.2]),
    "histogram, traced range": (lambda x: np.histogram(X, 3, (x[0], x[1])), [X[::-1], 0.5 * X]),
    "shapes of lists": (lambda x: (np.shape([x, x]), np.ndim([x]), np.size([x, X]), 0.0 * x), []),
    "windows of traced lengths": (
        lambda x: (np.hanning(x[1]), np.bartlett(x[2]), np.kaiser(x[1], x[0])),
        [
            [0.2, 5.0, 3.0],
        ],
    ),
    "sums in complex64": (
        lambda x: (x.sum(dtype="F"), np.cumprod(x, dtype="F"), np.prod(x, dtype=np.complex64)),
        [],
    ),
    "loops in complex64": (
        lambda x: (np.multiply(x, x, dtype="F", casting="same_kind"), np.astype(x, "F")),
        [],
    ),
    "einsum in complex numbers": (lambda x: np.einsum("i,i->i", x, x, dtype=complex), []),
    "float_power of complex64": (lambda x: np.float_power(x.astype("F"), 2.5), []),
    "sort, complex NaN": (lambda x: np.sort(x + 1j * x[::-1]), [HOLES]),
    "logspace, several bases": (lambda x: np.logspace(1.0, 2.0, 4, base=x, axis=0), [X + 1.0]),
    "geomspace": (lambda x: np.geomspace(x[0], x[1], 4), [[-8.0, -1.0, 0.0], X * 0.0]),
    "geomspace of integers": (lambda x: np.geomspace(10.0 * x[2], 1e6, 6, dtype=int), []),
    "linspace of negative integers": (lambda x: np.linspace(-7.5 * x[2], 1.0, 7, dtype=int), []),
    "put_along_axis, positions for a whole row": (_put_along_rows, [X[::-1]]),
    "conversions of reversed vectors": (
        lambda x: (np.exp(x[::-1].astype("f")), np.flip(x.astype("e")), np.flip(x.astype("f")).astype(float)),
        [X + 1.0],
    ),
    "float16 compared with Python's numbers": (
        lambda x: (x.astype("e") == 0.01, x.astype("e") < 0.3, x),
        [[0.01, 0.3, 5.0]],
    ),
    "cond of a singular matrix": (lambda x: np.linalg.cond(np.outer(X, X) * x[0] + np.diag(x)), [0.0 * X]),
    "setxor1d and intersect1d of repeated entries": (
        lambda x: (np.setxor1d(x, [1.0, 1.0, 5.0], True), np.intersect1d(x, [1.0, 1.0, 5.0], True), x),
        [[1.0, 5.0, 5.0]],
    ),
    "poly, NaN and conjugates": (
        lambda x: (np.poly(x), np.poly([1j * x[0], -1j * x[2]]), x),
        [HOLES, [1.0, 2.0, 1.0]],
    ),
    "unique_values of NaN": (lambda x: np.unique_values(x), [HOLES * np.nan]),
    "apply_along_axis of len": (lambda x: (np.apply_along_axis(len, 0, ROWS[0] * x), x), []),
    "histogram, a rule for the bins": (lambda x: np.histogram(np.concatenate([x, X]), "sturges"), [X**3]),
    "svd(hermitian=True) of a singular matrix": (
        lambda x: tuple(np.linalg.svd(np.diag(x), hermitian=True)),
        [[1.0, 0.5, 0.0]],
    ),
    "nan_to_num of float16": (lambda x: np.nan_to_num(x.astype("e")), [HOLDS_INFINITIES, HOLES]),
    "histogramdd of float32": (lambda x: np.histogramdd(x.astype("f")[:, None], 2, density=True)[0], []),
    "unique of nothing": (
        lambda x: (*np.unique(x[:0], True, True, axis=0), np.unique(x[None, :0], axis=0)),
        [],
    ),
    "nanargmax, all NaN": (lambda x: (np.nanargmax(x), x), [HOLES, HOLES * np.nan]),
    "partition of fewer entries": (lambda x: np.partition(x[x > 0.5], 1), [X[::-1], NEGATIVE - 1.0]),
    "choose, negative positions": (
        lambda x: np.choose(np.sign(x).astype(int), [x, 2.0 * x]),
        [NEGATIVE, 0.0 * X],
    ),
    "conditions that are complex": (
        lambda x: (
            np.extract(x + 0j, x),
            np.compress(x + 0j, 1j * x),
            np.argwhere(1j * x),
            np.flatnonzero(x + 0j),
        ),
        [[0.0, 1.0, 2.0], 0.0 * X],
    ),
    "argsort and partition of complex numbers": (
        lambda x: (np.argsort(1j * x[0]), np.partition(x * 1j, 1), np.argpartition(x * 1j, 1)),
        [X[::-1]],
    ),
    "out= of another shape": (lambda x: np.outer(x, x, np.ones((2, 2))), []),
    "out= of another dtype": (lambda x: x.clip(0, 1, np.zeros(3, int)), []),
}
DATA = np.array([3.0, 4.0, 5.0])


def outcome(run):
    """Return what a call gives, or the class of its error."""
    try:
        with np.errstate(all="ignore"):
            found = run()
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        return type(error)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Arrays of 2-dimensional:DeprecationWarning")
def test_one_cache_at_several_points(name):
    f, others = CASES[name]
    cache = None
    for x in (X, *map(np.array, others)):
        wanted = outcome(lambda x=x: f(x))

        def run(x=x):
            nonlocal cache
            cache = cache or nt.prepare_derivative_cache(f, x)
            return nt.value_and_derivative(cache, (x, np.ones(3)))[0]

        found = outcome(run)
        if isinstance(wanted, type):
            assert found is not None and issubclass(found, wanted), (found, wanted)
            continue
        for one, its in zip(found, wanted, strict=True):
            char = np.asarray(its).dtype.char
            np.testing.assert_allclose(one, its, rtol={"d": 1e-12, "D": 1e-12, "e": 1e-3}.get(char, 1e-6))
            assert np.asarray(one).dtype == np.asarray(its).dtype


def test_values_with_leading_axes_at_traced_positions():
    def f(x, places):
        y = np.zeros((1, 3)) * x
        y[np.zeros(3, int), places] = x[None]
        return y

    x, places = X.copy(), np.array([2, 1, 0])
    cache = nt.prepare_gradient_cache(lambda x, places: np.sum(f(x, places) * DATA), x, places)
    value, (gradient, _) = nt.value_and_gradient(cache, x, places)
    np.testing.assert_allclose(value, np.sum(f(x, places) * DATA), rtol=1e-14)
    np.testing.assert_allclose(gradient, DATA[::-1], rtol=1e-14)


@pytest.mark.parametrize("kind", [float, complex])
def test_lstsq_takes_a_negative_cutoff_for_the_precision(kind):
    a = np.array([[1.0, 2.0, 1.0], [2.0, 1.0, 2.0], [0.0, 3.0, 0.0]], kind)  # of rank 2
    with pytest.raises(nt.UnsupportedOperationError, match="less than full rank"):
        nt.jvp(lambda a: np.linalg.lstsq(a, DATA, rcond=-1)[0], (a,), (a,))


@pytest.mark.parametrize("kind", [float, complex])
def test_orders_of_memory_that_a_trace_does_not_keep_are_refused(kind):
    x = np.asfortranarray(ROWS[0].astype(kind))
    for order in "AK":
        with pytest.raises(nt.UnsupportedOperationError, match="another order than C"):
            nt.jvp(lambda x, order=order: (2.0 * x).ravel(order), (x,), (x,))
        c = x.copy("C")
        found, _ = nt.jvp(lambda x, order=order: x.T.ravel(order), (c,), (c,))
        np.testing.assert_array_equal(found, c.T.ravel(order))


def _later(f, first, second, error):
    """Check that a call that NumPy refuses raises NumPy's error where a cache knows another size."""
    one = [np.ones_like(x) for x in first], [np.ones_like(x) for x in second]
    cache = nt.prepare_derivative_cache(f, *first)
    nt.value_and_derivative(cache, *zip(first, one[0], strict=True))
    for run in (
        lambda: f(*second),
        lambda: nt.value_and_derivative(cache, *zip(second, one[1], strict=True)),
    ):
        with pytest.raises(error):
            run()


def test_shapes_that_do_not_fit_later():
    a, b = np.ones((4, 3)), np.ones((3, 4))
    _later(lambda a, b: np.tensordot(a, b, 2), (a, a), (a, b), ValueError)
    _later(lambda a: np.linalg.matrix_power(a, 1), (a[:3],), (a,), np.linalg.LinAlgError)


@pytest.mark.parametrize("key", [(None, slice(None), [1, 2]), (slice(None), [0, 1], None, [1, 2])])
def test_new_axes_beside_positions_at_several_sizes(key):
    cache = None
    for shape in ((4, 4, 4), (5, 4, 4), (4, 4, 5)):  # the last two have equal numbers of entries
        x = np.arange(float(np.prod(shape))).reshape(shape)
        cache = cache or nt.prepare_derivative_cache(lambda x: x[key], x)
        np.testing.assert_array_equal(nt.value_and_derivative(cache, (x, x))[0], x[key])


@pytest.mark.parametrize("kind", [float, complex])
def test_a_later_call_with_another_order_of_memory_is_refused(kind):
    x = ROWS[0].astype(kind)
    f = lambda x: x.ravel("A")  # noqa: E731
    for _ in range(3):
        np.testing.assert_array_equal(nt.vjp(f, x)[0], x.ravel())
    with pytest.raises(nt.UnsupportedOperationError, match="another order than C"):
        nt.vjp(f, np.asfortranarray(x))
    cache = nt.prepare_pullback_cache(f, x)
    with pytest.raises(nt.UnsupportedOperationError, match="another order than C"):
        nt.value_and_pullback(cache, x.ravel(), np.asfortranarray(x))


def test_searches_take_no_array_of_all_comparisons():
    knots, points = np.linspace(-3.0, 3.0, 300), np.linspace(-4.0, 4.0, 500)
    for f in (np.searchsorted, lambda t, x: np.digitize(x, t), lambda t, x: np.interp(x, t, np.sin(t))):
        cache = nt.prepare_gradient_cache(lambda x, f=f: np.sum(f(knots, x) * x), points)
        assert sum(cache._space.plan.cells) < 50 * len(points)
        np.testing.assert_allclose(nt.value_and_gradient(cache, points)[0], np.sum(f(knots, points) * points))
