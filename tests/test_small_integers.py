"""Constants of small integer dtypes: NumPy's results, where integers wrap around or become floats."""

import math

import numpy as np
import pytest
import scipy.spatial.distance

import numbatape as nt

FUNCTIONS = {
    "matmul": lambda k: k @ k,
    "dot": lambda k: np.dot(k, k),
    "outer": lambda k: np.outer(k, k),
    "einsum": lambda k: np.einsum("i,j->ij", k, k),
    "kron": lambda k: np.kron(k, k),
    "convolve": lambda k: np.convolve(k, k),
    "power": lambda k: k**2,
    "difference": lambda k: k - k[::-1],
    "sum in its dtype": lambda k: np.sum(k, dtype=k.dtype),
    "cumsum in its dtype": lambda k: np.cumsum(k, dtype=k.dtype),
    "cast": lambda k: (3 * k.astype(np.int64)).astype(k.dtype),
    "cast of floats": lambda k: (k % 100 * 1.5).astype(np.int8),
    "vander": lambda k: np.vander(k, 3),
    "interp": lambda k: np.interp([0.5, 1.5], [0, 1, 2], k),
    "gradient": np.gradient,
    "linspace": lambda k: np.linspace(k[0], k[-1], 4),
    "histogram": lambda k: np.histogram(k, 3)[0],
    "norm": lambda k: np.linalg.norm(k, 3),
    "average": lambda k: np.average(k, weights=k),
    "roots": lambda k: np.abs(np.roots(k)),
    "mean": np.mean,
    "frexp": lambda k: np.stack(np.frexp(k)),
    "modf": lambda k: np.stack(np.modf(k)) + k[0],
    "distances": lambda k: scipy.spatial.distance.pdist(k[:, None]),
}
KINDS = {
    np.int8: [100, 99, 27],
    np.uint8: [200, 199, 7],
    np.int32: [2000000000, 1999999999, 7],
    np.uint64: [200, 199, 7],
    np.bool_: [1, 0, 1],
}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore:Converting input from bool")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_numpys(name, kind):
    f = FUNCTIONS[name]

    def weighted(x, k):
        return x * np.sum(np.asarray(f(k)).astype(np.float64))

    run = nt.grad(weighted)
    for k in (np.array(KINDS[kind], kind), np.array(KINDS[kind][::-1], kind)):
        try:
            expected = weighted(1.0, k)
        except TypeError:  # differences of truth values, say
            with pytest.raises(TypeError):
                run(1.0, k)
            continue
        if expected > 2.0**60 and name == "cast":
            with pytest.raises(nt.UnsupportedOperationError, match=r"beyond 2\*\*53"):
                run(1.0, k)
        else:
            np.testing.assert_allclose(run(1.0, k), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, np.int16, np.uint16, np.uint32, np.int64])
def test_conversions_to_int(kind):
    f = lambda x, k: x * (int(k) + k.item() + [4.0, 5.0][int(k)])  # noqa: E731
    assert nt.grad(f)(1.0, kind(1)) == 7.0
    assert nt.grad(f)(1.0, kind(0)) == 4.0


def test_integers_that_depend_on_the_argument():
    with pytest.raises(nt.UnsupportedOperationError, match=r"integers wrap around.* use int64 or float64"):
        nt.grad(lambda x: np.sum(x) * np.sum(np.outer(*2 * [(x > 0).astype(np.int8)])))(np.ones(3))


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float64])
def test_numbers_that_wrap_around_after_some_that_did_not(kind):
    """One tape serves contents that wrap around, or it is made anew."""

    def f(x, k):
        small = np.sum(k, dtype=np.int8), np.prod(k, dtype=np.uint8), np.cumsum(k, dtype=np.int8)[1]
        return x * (np.sum(np.polyval(k, k)) + 0.5 * small[0] + 0.25 * small[1] + 0.125 * small[2])

    first = np.array([1, 2, 3], kind)
    cache = nt.prepare_gradient_cache(f, 1.0, nt.Constant(first))
    for k in (first, np.array([100, 99, 27], kind)):
        assert nt.value_and_gradient(cache, 1.0, nt.Constant(k))[0] == f(1.0, k)


GROWING = {
    "product": lambda k: k * k * k,
    "power": lambda k: k**3,
    "prod": np.prod,
    "cumprod": np.cumprod,
    "sum": lambda k: np.sum(k * 2**38),
    "dot": lambda k: (k * 2**8) @ (k * 2**8),
    "outer": lambda k: np.outer(k, k * k),
    "linear congruence": lambda k: (k * 1103515245 + 12345) % 2**31,
}
LARGE = {"linear congruence": 2**24}


@pytest.mark.parametrize("name", GROWING)
def test_int64_beyond_what_cells_hold(name):
    """NumPy's int64 wraps around, cells of floats round: the tape of small ones does not serve large ones."""
    f = lambda x: x[0] * np.sum(GROWING[name](x.astype(int)) % 1000)  # noqa: E731
    run = nt.value_and_grad(f)
    small, large = np.array([3.5, 2.5, 4.5]), np.array([3.5, 2.0, 2.0]) * LARGE.get(name, 2**21)
    for _ in range(2):
        value, gradient = run(small)
        np.testing.assert_array_equal((value, *gradient), (f(small), f(small) / small[0], 0, 0))
        with pytest.raises(nt.UnsupportedOperationError, match=r"integers beyond 2\*\*53 .*use float64"):
            run(large)


def test_int64_of_constants_that_wraps_around():
    f = lambda x, k: x * np.sum(k * k)  # noqa: E731
    run = nt.grad(f)
    for entries in ([1, 2, 3], [2**32, 2**33, 0], [5, 6, 7]):
        k = np.array(entries)
        assert run(1.5, k) == f(1.0, k)


def test_positions_and_counts_need_no_guards():
    """Arithmetic of positions, counts and sizes stays far below 2**53."""

    def f(x):
        order = np.argsort(x)
        rank = 3 * order + np.arange(len(x)) - np.sum(x > 0.3) * len(x)
        return np.sum(x * (rank % 7)) * np.sum(order * 2)

    cache = nt.prepare_gradient_cache(f, np.array([0.5, 0.2, 0.4]))
    x = np.array([0.1, 0.9, 0.4])
    assert nt.value_and_gradient(cache, x)[0] == pytest.approx(f(x), rel=1e-14)
    assert not len(cache.tape.guards)


def fibonacci(n):
    step = lambda i, c: (c[1], c[0] + c[1])  # noqa: E731
    return lambda x: x * nt.fori_loop(0, n, step, (np.int64(0), np.int64(1)))[0]


def scanned(step, n, first=7):
    return lambda x: x * nt.fori_loop(0, n, step, np.int64(first))


def counted(x):
    def step(carry, row):
        above, chosen = carry
        return (
            above + np.where(row > 0.0, 2, 0),
            nt.cond(row > 1.0, lambda n: n + 1, lambda n: n, chosen),
        ), ()

    above, chosen = nt.scan(step, (0, 0), x * np.arange(6.0) - 1.0)[0]
    return x * above * chosen


STATES = {  # those that are computed, and those that leave the range
    "product": (scanned(lambda i, s: 3 * s + i, 5), scanned(lambda i, s: 3 * s + i, 50)),
    "factorial": (scanned(lambda i, s: s * (i + 1), 12), scanned(lambda i, s: s * (i + 1), 20)),
    "congruence": (
        scanned(lambda i, s: s * 16807 % (2**31 - 1), 30),
        scanned(lambda i, s: (s * 1103515245 + 12345) % 2**31, 5),
    ),
    "square": (scanned(lambda i, s: (s * s + 1) % 2**26, 9), scanned(lambda i, s: (s * s + 1) % 2**31, 9)),
    "two carries": (fibonacci(70), fibonacci(80)),
    "reduction": (
        scanned(lambda i, s: np.sum(s * np.array([1, -1, 2])), 40),
        scanned(lambda i, s: np.sum(s * np.array([2**50, -(2**50), 1])), 3),
    ),
    "while": (
        lambda x: x * nt.while_loop(lambda s: s < 10**15, lambda s: 3 * s + 1, np.int64(1)),
        lambda x: x * nt.while_loop(lambda s: s != 0, lambda s: 3 * s + 1, np.int64(1)),
    ),
    "counters": (counted, scanned(lambda i, s: s + i, 9, 2**53 - 9)),
}


@pytest.mark.parametrize("name", STATES)
def test_int64_state_of_loops(name):
    """In the body of a loop there are no guards: arithmetic that leaves the range raises as the tape runs."""
    exact, beyond = STATES[name]
    assert nt.value_and_grad(exact)(1.5)[0] == exact(1.5)
    with pytest.raises(nt.UnsupportedOperationError, match=r"beyond 2\*\*53"):
        nt.grad(beyond)(1.5)


def test_int64_arguments_of_bodies_that_are_larger_in_later_calls():
    def f(x, n):
        state = nt.scan(lambda s, row: (3 * s + 1, row * (s % 7)), n, x)
        return np.sum(state[1]) * nt.cond(x[0] > 0.0, lambda: n * n, lambda: n)

    x = np.linspace(0.5, 1.5, 6)
    cache = nt.prepare_gradient_cache(f, x, np.int64(3))
    for n in (np.int64(5), np.int64(2**24)):
        assert nt.value_and_gradient(cache, x, n)[0] == pytest.approx(f(x, n), rel=1e-14)
    for n in (np.int64(2**30), np.int64(2**46)):
        for call in (nt.grad(f), nt.hessian(f), lambda x, n: nt.value_and_gradient(cache, x, n)):
            with pytest.raises(nt.UnsupportedOperationError, match=r"beyond 2\*\*53"):
                call(x, n)


def test_counters_of_loops_need_no_checks():
    """A loop knows how far its steps take them."""

    def f(x):
        return np.sum(nt.scan(lambda i, row: (i + 1, row * x[i] * (i * i)), 0, x)[1])

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    assert "exact_integers" not in str(cache.tape)
    x = np.array([0.3, 0.2, 0.5, 0.7])
    assert nt.value_and_gradient(cache, x)[0] == pytest.approx(f(x), rel=1e-14)


DIVIDED = {
    "floor_divide": lambda x: (np.arange(3) + 5) // np.argsort(x),
    "remainder": lambda x: (np.arange(3) + 5) % (x > 1).astype(int),
    "fmod": lambda x: np.fmod(np.argsort(x) + 4, np.argsort(x)),
    "divmod": lambda x: np.divmod(np.argsort(x) + 4, np.argsort(x)[::-1])[0],
    "of a number": lambda x: 7 // np.argmax(x),
    "by a plain array": lambda x: np.argsort(x) // np.array([0, 1, 2]),
    "by a number of Python's": lambda x: np.argsort(x) % math.floor(x[0]),
}


@pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")
@pytest.mark.parametrize("name", DIVIDED)
def test_division_of_int64_by_zero(name):
    """It gives 0 in NumPy, with a warning."""
    f = lambda x: x[0] * np.sum(DIVIDED[name](x))  # noqa: E731
    run = nt.value_and_grad(f)
    for x in ([0.5, 1.5, 2.5], [2.5, 1.0, 0.5], [0.5, 0.6, 0.4]):
        assert run(np.array(x))[0] == f(np.array(x))


@pytest.mark.parametrize("name", ["exp", "sin", "log1p", "atan", "degrees", "fsum"])
@pytest.mark.parametrize("kind", ["float16", "float32", "bool", "truth"])
def test_functions_of_math_compute_in_double_precision(name, kind):
    of_kind = {
        "float16": lambda x: x[0],
        "float32": lambda x: x[0].astype(np.float32),
        "bool": lambda x: x[0] > 0,
    }
    convert = of_kind.get(kind, lambda x: x[0].item() > 0)

    def f(x):
        number = convert(x)
        return np.sum(x), math.fsum([number, 0.1]) if name == "fsum" else getattr(math, name)(number)

    run = nt.value_and_grad(f, has_aux=True)
    for x in ([0.3, 1.0], [-0.3, 1.0], [0.7, 1.0]):
        x = np.array(x, np.float16 if kind == "float16" else np.float64)
        assert run(x)[0][1] == pytest.approx(f(x)[1], rel=1e-15)


CONVERTED = {
    "norm": lambda k: np.linalg.norm(k, 3),
    "pdist": lambda k: np.sum(scipy.spatial.distance.pdist(k[:, None])),
    "cdist": lambda k: np.sum(scipy.spatial.distance.cdist(k[:, None], k[:, None], "sqeuclidean")),
    "euclidean": lambda k: scipy.spatial.distance.euclidean(k, k[::-1]),
    "sqeuclidean": lambda k: scipy.spatial.distance.sqeuclidean(k, k[::-1]),
    "minkowski": lambda k: scipy.spatial.distance.minkowski(k, k[::-1], 3),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_large_integers_become_floats_where_numpy_converts_them(name):
    f = CONVERTED[name]
    run = nt.value_and_grad(lambda x, k: x * f(k))
    for k in ([3, 1, 2], [3_000_000_000, 1_000_000_000, 7], [2**50, 2**51, 5]):
        k = np.array(k)
        assert run(1.5, k)[0] == pytest.approx(1.5 * f(k), rel=1e-14)


FACTORIALS = {
    "series": lambda x: sum(x**n / math.factorial(n) for n in range(25)),
    "reflected": lambda x: math.factorial(20) * x - 3**36 / x,
    "NumPy's": lambda x: x * np.prod(np.arange(1, 21)) + np.sin(x) / np.int64(3**36),
    "of an array": lambda x: np.sum(np.full(3, x) * math.factorial(20)),
    "maximum": lambda x: np.maximum(x, 3**36),
}


@pytest.mark.parametrize("name", FACTORIALS)
def test_large_ints_meet_floats_as_in_numpy(name):
    """A product of a float64 and an int beyond 2**53 is that of two float64."""
    f = FACTORIALS[name]
    # Since Python 3.12 the sum of a series of floats is compensated, that of traced numbers is not.
    np.testing.assert_allclose(nt.value_and_grad(f)(1.5)[0], f(1.5), rtol=1e-15)
