"""Errors that a function catches: whether NumPy raises is a guard, and later calls take either path by it."""

import math

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt
from numbatape.programs.program import Program

TWO = np.eye(2)


def symmetric(x):
    """Return a matrix that is positive definite where ``|x[0]| < 1``, and singular where it is 1."""
    two = TWO.astype(x.dtype)
    return two + x[0] * (1 - two)


def factor_or_penalty(x):
    try:
        factor = np.linalg.cholesky(symmetric(x))
    except np.linalg.LinAlgError:
        return 10.0 + x[0] ** 2 * x[1]
    return np.log(np.diag(factor)).sum() * x[1]


def upper_factor(x):
    try:
        return (np.linalg.cholesky(symmetric(x), upper=True) @ x).sum()
    except np.linalg.LinAlgError:
        return x @ x


def larger_until_it_works(x):
    added = 0.0
    while True:
        try:
            factor = np.linalg.cholesky(symmetric(x) + added * TWO)
            break
        except np.linalg.LinAlgError:
            added = 4.0 * added + 0.25
    return np.sum(factor * x) + added


def factor_of_scipy(x):
    try:
        factor = scipy.linalg.cholesky(symmetric(x) * x[1], lower=True)
    except scipy.linalg.LinAlgError:
        return -x[0] * x[1]
    return factor.sum()


def solution_by_factor(x):
    try:
        factored = scipy.linalg.cho_factor(symmetric(x))
    except (ValueError, FloatingPointError):  # a `LinAlgError` is a `ValueError`
        return x[0] * 3.0
    return scipy.linalg.cho_solve(factored, x) @ x


def solution(x):
    try:
        return np.linalg.solve(symmetric(x), x).sum()
    except Exception:
        return x[0] + x[1] ** 2


def columns(x):
    try:
        return np.linalg.solve(symmetric(x), np.stack([x, x * x], 1)).sum()
    except np.linalg.LinAlgError:
        return x.sum()


def inverse(x):
    try:
        return np.linalg.inv(symmetric(x))[0] @ x
    except np.linalg.LinAlgError as error:
        return x @ x if "ingular" in str(error) else x[0]


def scipys(x):
    try:
        return scipy.linalg.solve(symmetric(x), x).sum() + scipy.linalg.inv(symmetric(x))[0] @ x
    except scipy.linalg.LinAlgError:
        return x @ x


def positive(x):
    try:
        return scipy.linalg.solve(symmetric(x), x, assume_a="pos").sum()
    except scipy.linalg.LinAlgError:
        return x @ x


def stack(x):
    try:
        return np.linalg.cholesky(np.stack([TWO * x[1], symmetric(x)])).sum()
    except np.linalg.LinAlgError:
        return x[0] * 2.0


def in_a_helper(x):
    def whitened(a, b):
        return np.linalg.solve(np.linalg.cholesky(a), b)

    try:
        white = whitened(symmetric(x), x)
    except np.linalg.LinAlgError:
        white = x * 0.5
    finally:
        scale = 2.0
    return scale * white @ white


def logarithm(x):
    try:
        return math.log(x[0]) + x[1]
    except ValueError:
        return x[0] * x[1]


def root(x):
    try:
        return math.sqrt(1.0 - x[0]) * x[1]
    except ValueError:
        return 0.0 * x[1]


def large(x):
    try:
        return math.exp(500.0 * x[0]) * x[1]
    except OverflowError:
        return 1e300 * x[1]


def power(x):
    try:
        return math.pow(x[0] - 1.0, -500.0) * x[1]
    except OverflowError:
        return x[0]
    except ValueError:
        return x[1]


def gamma(x):
    try:
        return math.gamma(200.0 * x[0]) * x[1]
    except OverflowError:
        return x[0]
    except ValueError:
        return x[1] * 2.0


def quotient(x):
    try:
        return x[1] * (1.0 / (x[0] - 1.0).item())
    except ZeroDivisionError:
        return 7.0 * x[1]


FACTORED = (0.5, 1.5, -0.25, -1.5, 0.75)
SYSTEMS = (0.5, 1.0, -0.25, -1.0, 0.75)
NUMBERS = (0.5, 1.0, -0.25, 0.0, 1.5, -1.0, 1.001)
PROGRAMS = {
    **dict.fromkeys((factor_or_penalty, upper_factor, larger_until_it_works, factor_of_scipy), FACTORED),
    **dict.fromkeys((solution_by_factor, positive, stack, in_a_helper), FACTORED),
    **dict.fromkeys((solution, columns, inverse, scipys), SYSTEMS),
    **dict.fromkeys((logarithm, root, large, power, gamma, quotient), NUMBERS),
}
VERBS = {
    "value_and_grad": nt.value_and_grad,
    "hessian": nt.hessian,
    "jvp": lambda f: lambda x: nt.jvp(f, (x,), (np.array([0.3, -0.7]),)),
    "vmap": lambda f: lambda x: nt.vmap(nt.grad(f))(np.stack([x, np.array([0.5, 2.0]), x[::-1]])),
}


@pytest.fixture
def traces(monkeypatch):
    """The functions that were traced, one after the other."""
    found = []
    trace = Program.trace

    def counted(self, *args, **kwargs):
        found.append(self.name)
        return trace(self, *args, **kwargs)

    monkeypatch.setattr(Program, "trace", counted)
    return found


def points(program):
    return [np.array([number, 2.0]) for number in PROGRAMS[program]]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_both_paths_are_kept(program, verb, traces):
    """Later calls take the path of NumPy's error without a trace, and give what a new trace gives."""
    call = VERBS[verb](program)
    for x in points(program):
        call(x)
    before = len(traces)
    for x in reversed(points(program)):
        found = call(x)
        assert len(traces) == before
        kept = x.copy()
        del traces[before:]
        fresh = VERBS[verb](lambda y: program(y))(x)
        del traces[before:]
        for a, b in zip(*(z if isinstance(z, tuple) else (z,) for z in (found, fresh)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        if verb != "vmap" and verb != "hessian":
            np.testing.assert_allclose(found[0], program(x), rtol=1e-12)
        np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_draws_of_a_batch_take_both_paths(program, traces):
    draws = np.stack(points(program))
    batch = nt.batch(program)
    batch(draws)
    before = len(traces)
    values, gradients = batch(draws[::-1])
    assert len(traces) == before
    for x, value, gradient in zip(draws[::-1], values, gradients, strict=True):
        np.testing.assert_allclose(value, program(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, nt.grad(lambda y: program(y))(x), rtol=1e-12)


@pytest.mark.parametrize("program", [factor_or_penalty, solution, inverse, positive])
def test_rows_that_fail_have_derivatives_of_their_own_path(program):
    """In a map that is traced itself all rows are factored together, those that fail among them."""
    rows = np.stack(points(program))

    def total(rows):
        return np.sum(nt.vmap(program)(rows))

    np.testing.assert_allclose(total(rows), sum(map(program, rows)), rtol=1e-12)
    expected = [nt.grad(lambda x: program(x))(x) for x in rows]
    np.testing.assert_allclose(nt.grad(total)(rows), expected, rtol=1e-12)
    hessian = nt.hessian(total)(rows)
    for k, x in enumerate(rows):
        np.testing.assert_allclose(
            hessian[k, :, k], nt.hessian(lambda x: program(x))(x), rtol=1e-11, atol=1e-11
        )
        hessian[k, :, k] = 0.0
    assert not hessian.any()


def test_sizes_change_on_both_paths(traces):
    def scaled(x):
        distances = (x[:, None] - x[None, :]) ** 2
        try:
            factor = np.linalg.cholesky(np.exp(-distances) - 0.5 * np.eye(len(x)))
        except np.linalg.LinAlgError:
            return np.sum(x * x)
        return np.log(np.diag(factor)).sum()

    gradient = nt.value_and_grad(scaled)
    spread, close = np.arange(5.0) * 3.0, np.arange(5.0) * 0.01
    for n in (3, 4, 5):
        for x in (spread[:n], close[:n]):
            value, slopes = gradient(x)
            assert np.isclose(value, scaled(x), rtol=1e-12)
            np.testing.assert_allclose(slopes, nt.grad(lambda y: scaled(y))(x), rtol=1e-10)
    assert traces.count("scaled") == 2


@pytest.mark.parametrize("decorate", [nt.function, nt.checkpoint], ids=["function", "checkpoint"])
def test_errors_that_a_sub_tape_catches(decorate):
    inner = decorate(factor_or_penalty)
    outer = nt.value_and_grad(lambda x: inner(x) * 2.0 + x[0])
    for x in points(factor_or_penalty) * 2:
        value, gradient = outer(x)
        assert np.isclose(value, factor_or_penalty(x) * 2.0 + x[0], rtol=1e-12)
        expected = nt.grad(factor_or_penalty)(x) * 2.0 + [1.0, 0.0]
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_float32_and_prepared_caches(traces):
    x = np.array([0.5, 2.0], np.float32)
    cache = nt.prepare_gradient_cache(solution, x)
    for first in (0.5, 1.0, 0.25, 1.0):
        x = np.array([first, 2.0], np.float32)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        assert value.dtype == gradient.dtype == np.float32
        assert np.isclose(value, solution(x), rtol=1e-5)
    assert traces.count("solution") == 2


def test_matrices_at_the_edge_take_a_path_that_can_be_computed():
    """NumPy's factor and the kernel's differ by rounding, and so does whether there is one."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        places, data = np.sort(rng.normal(size=8)), rng.normal(size=8)
        distances = (places[:, None] - places[None, :]) ** 2

        def density(theta, distances=distances, data=data):
            covariance = np.exp(theta[0] - distances * np.exp(-theta[1]))
            added = 1e-18
            while True:
                try:
                    factor = np.linalg.cholesky(covariance + added * np.eye(8))
                    break
                except np.linalg.LinAlgError:
                    added *= 10.0
            return -0.5 * np.sum(np.linalg.solve(factor, data) ** 2) - np.log(np.diag(factor)).sum()

        for centre in range(4):
            theta = rng.normal(size=2) * [1.0, 2.0] + [0.0, centre]
            value, (slopes,) = nt.value_and_gradient(nt.prepare_gradient_cache(density, theta), theta)
            assert np.isfinite(value) and np.isfinite(slopes).all()


def test_draws_at_the_edge_take_a_path_that_can_be_computed():
    """In a batch, a point whose matrix only NumPy can factor takes the path of the error alone."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        places = np.sort(rng.normal(size=8))
        distances = (places[:, None] - places[None, :]) ** 2

        def density(theta, distances=distances):
            covariance = np.exp(theta[0] - distances * np.exp(-theta[1]))
            added = 1e-18
            while True:
                try:
                    return -np.log(np.diag(np.linalg.cholesky(covariance + added * np.eye(8)))).sum()
                except np.linalg.LinAlgError:
                    added *= 10.0

        nt.clear_caches()  # each function has traces of its own
        values, gradients = nt.batch(density)(rng.normal(size=(9, 2)) * [1.0, 2.0] + [0.0, 2.0])
        assert np.isfinite(values).all()
        assert np.isfinite(gradients).all()


def test_what_nothing_catches_is_raised_as_before(traces):
    gradient = nt.value_and_grad(lambda x: np.linalg.cholesky(symmetric(x)).sum())
    gradient(np.array([0.5, 2.0]))
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
            gradient(np.array([1.5, 2.0]))
    assert np.isfinite(gradient(np.array([0.5, 2.0]))[0])


def sum_of_a_list(x):
    try:
        return math.fsum([x[0], 8e307 * x[1], 1e308])
    except OverflowError:
        return x[0] * 2.0


def complex_factor(x):
    try:
        return np.abs(np.linalg.cholesky(symmetric(x) + 0j)).sum()
    except np.linalg.LinAlgError:
        return x[0] * 2.0


@pytest.mark.parametrize("program", [sum_of_a_list, complex_factor])
def test_errors_without_a_guard_are_caught_as_before(program):
    for x in points(factor_or_penalty) * 2:
        value, gradient = nt.value_and_grad(program)(x)
        assert value == pytest.approx(program(x), rel=1e-12)
        np.testing.assert_allclose(gradient, nt.grad(lambda y: program(y))(x), rtol=1e-12)


def test_errors_of_shapes_are_no_guards(traces):
    """Whether a matrix is square depends on no number: such a path is traced in every call, as before."""

    def product_of(x):
        try:
            return np.linalg.inv(np.stack([x, x, x])).sum()
        except np.linalg.LinAlgError:
            return x @ x

    x = np.array([0.5, 2.0])
    gradient = nt.value_and_grad(product_of)
    for _ in range(3):
        value, slopes = gradient(x)
        assert value == x @ x
        np.testing.assert_array_equal(slopes, 2.0 * x)
