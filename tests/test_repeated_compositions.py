"""Compositions that recur in a trace are repeated from templates: the tape is what it is without them."""

import itertools

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats

import numbatape as nt
from numbatape.numpy_api import repeated, small_integers
from numbatape.tape.instruction import MAIN

X = np.linspace(0.2, 0.95, 8)
DATA = np.linspace(0.1, 0.9, 8)
MATRIX = np.random.default_rng(0).normal(size=(8, 8)) / 8 + np.eye(8)

COMPOSITIONS = {
    "roll": lambda x, s: np.roll(x, 2),
    "roll rows": lambda x, s: np.roll(x[:, None] * MATRIX, 1, axis=0),
    "tile": lambda x, s: np.tile(x, (2, 2)),
    "linspace": lambda x, s: np.linspace(s, x[1], 5),
    "cross": lambda x, s: np.cross(x[:3], x[3:6]),
    "interp": lambda x, s: np.interp(x, DATA, x[::-1]),
    "interp at a number": lambda x, s: np.interp(s, DATA, x),
    "interp of traced values in the loop": lambda x, s: np.interp(DATA, DATA, x * s),
    "convolve": lambda x, s: np.convolve(x, DATA[:3]),
    "gradient": lambda x, s: np.gradient(x, 0.1),
    "pad": lambda x, s: np.pad(x, (1, 2)),
    "variance": lambda x, s: np.var(x[:, None] * MATRIX, axis=0, ddof=1),
    "float32": lambda x, s: np.roll(x.astype(np.float32), 1),
    "softmax": lambda x, s: scipy.special.softmax(x),
    "einsum": lambda x, s: np.einsum("ij,j->i", MATRIX * s, x),
    "density": lambda x, s: scipy.stats.gamma.logpdf(DATA, x, scale=s),
    "vander": lambda x, s: np.vander(x, 3),
    "gather": lambda x, s: (x[:, None] * MATRIX)[[0, 3, 5], 1] * s,
    "gather of a triangle": lambda x, s: (x[:, None] * MATRIX)[np.triu_indices(3)],
    "gather of rows": lambda x, s: (x[:, None] * MATRIX)[DATA > 0.5, ::2],
    "complex result": lambda x, s: np.abs(np.fft.fft(x)),
    "complex operand": lambda x, s: np.fft.irfft(np.fft.rfft(x) * 1j),
    "triangle": lambda x, s: scipy.linalg.cho_solve((np.linalg.cholesky(MATRIX @ MATRIX.T * s), True), x),
    "factor with the other triangle": lambda x, s: scipy.linalg.cho_factor(MATRIX @ MATRIX.T * s)[0] @ x,
    "factor without it": lambda x, s: scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(MATRIX @ MATRIX.T * s), x
    ),
    "pseudo-inverse": lambda x, s: np.linalg.pinv(MATRIX[:, :5] * s) @ x,
    "wide pseudo-inverse": lambda x, s: scipy.linalg.pinv(MATRIX[:5] * s, rtol=1e-9),
    "least squares": lambda x, s: np.linalg.lstsq(MATRIX[:, :4] * s, x)[0],
    "squares of what is left": lambda x, s: np.linalg.lstsq(MATRIX[:, :4] * x[:4], x, rcond=None)[1],
    "matrix exponential": lambda x, s: scipy.linalg.expm(MATRIX * s * 9.0),
    "LU factors": lambda x, s: scipy.linalg.lu_factor(MATRIX * x[:, None] * s)[0],
    "system of LU factors": lambda x, s: scipy.linalg.lu_solve(scipy.linalg.lu_factor(MATRIX * s), x),
    "system of turned factors": lambda x, s: scipy.linalg.lu_solve(
        scipy.linalg.lu_factor(MATRIX * s), x * DATA, 1
    ),
    "eigenvectors of SciPy's": lambda x, s: np.abs(
        scipy.linalg.eigh(MATRIX @ MATRIX.T * s + np.diag(x), eigvals_only=False)[1]
    ),
    "several rules": lambda x, s: scipy.linalg.lu(MATRIX * s)[2] @ x,
    "rule whose kind of result is a guard": lambda x, s: scipy.linalg.sqrtm(MATRIX @ MATRIX.T * s),
    "rule without another value": lambda x, s: scipy.linalg.solve_sylvester(MATRIX * s, MATRIX, MATRIX * x),
    "complex rule": lambda x, s: np.linalg.eigvals(MATRIX + np.eye(8, k=1) - np.eye(8, k=-1) * s).real,
    "singular values": lambda x, s: np.linalg.svd(MATRIX * x[:, None] * s, compute_uv=False),
    "singular values of SciPy's": lambda x, s: scipy.linalg.svdvals(MATRIX[:, :5] * x[:, None] * s),
    "singular vectors of SciPy's": lambda x, s: np.abs(scipy.linalg.svd(MATRIX * x[:, None] * s)[2]),
    "eigenvalues": lambda x, s: np.linalg.eigvalsh(MATRIX @ MATRIX.T * s + np.diag(x)),
    "upper factor": lambda x, s: np.linalg.qr(MATRIX * x[:, None] * s, mode="r"),
    "factors of SciPy's": lambda x, s: scipy.linalg.qr(MATRIX * x[:, None] * s)[0] @ x,
    "rule with a constant": lambda x, s: scipy.linalg.solve_discrete_lyapunov(0.1 * MATRIX, MATRIX * s),
    "views of parts": lambda x, s: np.split(x * s, 4)[1] + np.array_split(x, [2, 4])[1],
    "diagonals": lambda x, s: np.diag(x[:, None] * MATRIX * s, 1),
    "backwards": lambda x, s: np.flip(x[:, None] * MATRIX, 1) * s,
    "eigenvectors": lambda x, s: np.abs(np.linalg.eigh(MATRIX @ MATRIX.T * s + np.diag(x))[1]),
    "singular vectors": lambda x, s: np.abs(np.linalg.svd(MATRIX * x[:, None] * s).Vh),
    "several results": lambda x, s: np.hypot(*np.meshgrid(x, DATA * s)) + np.meshgrid(x, DATA)[1] * s,
}


def turns(f, count=14):
    """Return a function that calls a composition in turns, with operands at other places each time."""

    def run(x):
        s, total = x[0] * 1.0, 0.0
        for k in range(count):
            total = total + (k + 1) * np.sum(f(x, s) * 1.0)
            x = x[::-1] * 0.9 if k == 4 else x * 0.95
            s = x[1] if k % 2 else np.sin(s)
        return total

    return run


def recorded(f, monkeypatch, patience=None):
    """Return values and gradients at points, the ops of the tape, and how many calls were repeated."""
    hits = []
    with monkeypatch.context() as patch:
        append = repeated._appended
        patch.setattr(repeated, "_appended", lambda *args: hits.append(args) or append(*args))
        if patience is not None:
            patch.setattr(repeated, "PATIENCE", patience)
        cache = nt.prepare_gradient_cache(f, X)
        points = X, 0.9 * X, np.linspace(0.3, 0.8, 8)
        found = [nt.value_and_gradient(cache, x) for x in points]
    code = cache.tape.code
    return found, code["op"][code["stage"] == MAIN].tolist(), len(hits)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_tapes_are_those_without_templates(name, monkeypatch):
    f = turns(COMPOSITIONS[name])
    ours, ops, hits = recorded(f, monkeypatch)
    plain, expected, none = recorded(f, monkeypatch, patience=-1)
    assert hits >= 2
    assert none == 0
    assert ops == expected
    for (value, (gradient,)), (its_value, (its_gradient,)) in zip(ours, plain, strict=True):
        assert value == its_value
        np.testing.assert_array_equal(gradient, its_gradient)


def test_systems_of_noted_factors_are_repeated(monkeypatch):
    """`cho_solve` reads the Cholesky factor that `cho_factor` has noted, not its own argument."""

    def f(x):
        factors = [scipy.linalg.cho_factor(MATRIX @ MATRIX.T * x[k]) for k in range(2)]
        for k in range(10):
            x = scipy.linalg.cho_solve(factors[k % 2], x) * 0.5 + np.sum(factors[k // 5][0]) * 0.01
        return np.sum(x)

    ours, ops, hits = recorded(f, monkeypatch)
    plain, expected, _ = recorded(f, monkeypatch, patience=-1)
    assert hits >= 6
    assert ops == expected
    for (value, (gradient,)), (its_value, (its_gradient,)) in zip(ours, plain, strict=True):
        assert value == its_value
        np.testing.assert_array_equal(gradient, its_gradient)


def test_values_that_are_written_to_are_looked_at_again():
    def f(x):
        values, total = np.zeros(8), 0.0
        for k in range(8):
            values[:] = x * (k + 1.0)
            if k == 6:
                values[2] = np.inf
            total = total + np.sum(np.interp(DATA[4:] + 0.001, DATA, values)[:-1])
            total = total + np.minimum(np.interp(DATA[2], DATA, values), 5.0)
        return total

    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, 0.9 * X):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        assert np.all(np.isfinite(gradient))
    beyond = np.where(DATA[3] == DATA, np.inf, X)
    np.testing.assert_equal(nt.value_and_gradient(cache, beyond)[0], f(beyond))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_interp_computes_with_float64_as_numpy_does(dtype):
    """The slopes of float32 knots were float32, and the remainder of a float32 point."""
    points, knots = (np.array(x).astype(dtype) for x in ([1.1, 3.3, 5.7], [0.3, 2.4, 2.9, 4.6]))

    def f(x):
        return np.sum(np.interp(points, knots, x)) + np.sum(np.interp(points, knots, x, period=3.3))

    x = np.array([0.1, 100.3, 0.7, 20.9], np.float32)
    cache = nt.prepare_gradient_cache(f, x)
    value, (gradient,) = nt.value_and_gradient(cache, 3 * x)
    assert value == pytest.approx(f(3 * x), rel=1e-14)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, [f(row) for row in np.eye(4)], rtol=1e-6, atol=1e-7)


def test_one_tape_serves_other_sizes(monkeypatch):
    def f(x):
        for _ in range(6):
            x = np.roll(x, 1) * x + np.gradient(x)
        return np.sum(x)

    cache = nt.prepare_gradient_cache(f, X)
    for n in (8, 5, 11):
        x = np.linspace(0.1, 0.4, n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        with monkeypatch.context() as patch:
            patch.setattr(repeated, "PATIENCE", -1)
            expected = nt.grad(lambda x: f(x) * 1.0)(x)
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    assert cache.traces == 1


def test_distances_of_views_in_one_storage_count(monkeypatch):
    """Parts of one array are told apart by where they are, not only by what they look like."""

    def f(x):
        pairs = itertools.combinations(range(6), 2)
        return sum((k + 1.0) * np.sum(np.cross(x[a : a + 3], x[b : b + 3])) for k, (a, b) in enumerate(pairs))

    ours, ops, _ = recorded(f, monkeypatch)
    plain, expected, _ = recorded(f, monkeypatch, patience=-1)
    assert ops == expected
    np.testing.assert_array_equal(ours[1][1], plain[1][1])


def test_contents_of_plain_arrays_count():
    """An array that is written to between the calls is another one."""

    def f(x):
        table, total = np.linspace(0.0, 1.0, 4), 0.0
        for k in range(8):
            total = total + np.sum(np.interp(x, table.tolist(), (table * (k + 1)).copy()))
            if k > 4:
                table = table + 0.125
        return total

    np.testing.assert_allclose(nt.value_and_grad(f)(X)[0], f(X), rtol=1e-14)


def test_guards_stay():
    """What Python decides by numbers is decided in each call, which no template repeats."""

    def f(x):
        total = 0.0
        for k in range(6):
            total = total + np.interp(0.5 + 0.01 * k, x, DATA)  # looks whether the last two knots are equal
            x = x * 1.01
        return total

    cache = nt.prepare_gradient_cache(f, X)
    nt.value_and_gradient(cache, X)
    assert len(cache.tape.guards) == 6
    equal = np.array([*X[:-1], X[-2]])
    assert nt.value_and_gradient(cache, equal)[0] == f(equal)


def test_views_are_not_copied():
    """In a function with writes, what gives a view of its argument is recorded each time, and they arrive."""

    def f(x):
        y, total = x * 1.0, 0.0
        for k in range(6):
            part = np.diagonal(np.atleast_2d(y)[:, :1])
            y[0] = y[0] * 2.0
            total = total + part[0] * k
        return total

    assert nt.value_and_grad(f)(X)[0] == f(X)


@pytest.mark.parametrize("write", ["np.put(y, 0, 3.0)", "np.multiply(y, 2.0, out=y)", "y.sort()", "y += 1.0"])
def test_writes_arrive_in_repeated_views(write):
    """A view that a template makes is a view, however the array is written to."""
    body = f"""
def f(x):
    y, total = x[::-1] * 1.0, 0.0
    for k in range(6):
        first, second = np.split(y, 2)
        {write}
        total = total + np.sum(first * second) * k + np.flip(y)[0]
    return total
"""
    scope = {"np": np}
    exec(body, scope)
    f = scope["f"]
    value, gradient = nt.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-14)
    step = 1e-6 * np.eye(len(X))
    slope = [(f(X + d) - f(X - d)) / 2e-6 for d in step]
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-5)


def test_truth_values_are_converted_only_where_they_must_be(monkeypatch):
    """Counting them does with truth values what NumPy does, so that no conversion is recorded."""

    def refuse(tree):
        raise AssertionError("converted")

    monkeypatch.setattr(small_integers, "_as_floats", refuse)
    f = lambda x: np.sum(np.interp(DATA, DATA, x))  # noqa: E731
    np.testing.assert_allclose(nt.value_and_grad(f)(X)[0], f(X), rtol=1e-14)


def test_constants_of_later_calls_count():
    """A template that was made with one constant does not serve another one."""

    def f(x, c):
        return sum(np.sum(np.interp(x, c * (k // 3 + 1.0), x)) for k in range(9))

    c = np.linspace(0.1, 1.0, 8)
    cache = nt.prepare_gradient_cache(f, X, nt.Constant(c))
    for scale in (1.0, 0.7):
        assert nt.value_and_gradient(cache, X, nt.Constant(scale * c))[0] == f(X, scale * c)


@pytest.mark.parametrize("module", [np.linalg, scipy.linalg])
def test_pseudo_inverses_of_integers(module):
    """The precision is that of float64, in which NumPy and SciPy compute with them."""

    def f(x):
        matrix = np.round(np.outer(x, [1.0, 20.0]) * 10.0 + np.eye(8, 2)).astype(int)
        return sum([np.sum(module.pinv(matrix)) * x[k] for k in range(4)])

    value, gradient = nt.value_and_grad(f)(X)
    assert value == pytest.approx(f(X), rel=1e-12)
    np.testing.assert_allclose(gradient[:4], f(X) / np.sum(X[:4]), rtol=1e-12)


def calls_of_rules(x):
    """Return a number by calls of rules that are repeated, with operands from two places."""
    total, matrix = 0.0, np.diag(x) + 0.1 * MATRIX
    for k in range(8):
        factors = scipy.linalg.lu_factor(matrix * (1.0 + 0.1 * k))
        total = total + np.sum(scipy.linalg.lu_solve(factors, x[::-1] if k % 2 else x)) ** 2
    return total


def test_repeated_rules_are_differentiated_twice():
    """What such a call was given, and what it returned, is found when a pullback is traced."""

    def once(x):
        solutions = [np.linalg.solve(np.diag(x) + 0.1 * MATRIX, x[::-1] if k % 2 else x) for k in range(8)]
        return sum([(np.sum(y) / (1.0 + 0.1 * k)) ** 2 for k, y in enumerate(solutions)])

    np.testing.assert_allclose(nt.grad(calls_of_rules)(X), nt.grad(once)(X), rtol=1e-10)
    expected = nt.hessian(once)(X)
    np.testing.assert_allclose(nt.hessian(calls_of_rules)(X), expected, rtol=1e-9)
    np.testing.assert_allclose(nt.jacobian(lambda x: nt.grad(calls_of_rules)(x))(X), expected, rtol=1e-9)
    rows = np.stack([X, 0.9 * X])
    np.testing.assert_allclose(nt.vmap(nt.grad(calls_of_rules))(rows)[1], nt.grad(once)(0.9 * X), rtol=1e-10)

    def inner(x):
        slope = nt.grad(calls_of_rules)(x)  # the calls of a nested function are in the same trace
        return np.sum(slope**2) if slope[0] > 1e9 else np.sum(np.sin(slope))

    expected = nt.grad(lambda x: np.sum(np.sin(nt.grad(once)(x))))(X)
    np.testing.assert_allclose(nt.grad(inner)(X), expected, rtol=1e-9)


def test_repeated_rules_have_calls_of_their_own(monkeypatch):
    """Each call computes with its own operands, also at other sizes and in a forward sweep."""
    cache = nt.prepare_gradient_cache(calls_of_rules, X)
    numbers = [each.number for each in cache.tape.calls]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == 16
    for x in (X, 0.8 * X, X[::-1].copy()):
        found = nt.value_and_gradient(cache, x)
        with monkeypatch.context() as patch:
            patch.setattr(repeated, "PATIENCE", -1)
            value, gradient = nt.value_and_grad(lambda x: calls_of_rules(x) * 1.0)(x)
        assert found[0] == value
        np.testing.assert_array_equal(found[1][0], gradient)
    direction = np.linspace(1.0, -1.0, 8)
    slope = nt.jvp(calls_of_rules, (X,), (direction,))[1]
    assert slope == pytest.approx(nt.grad(calls_of_rules)(X) @ direction, rel=1e-11)


def test_second_order():
    f = turns(COMPOSITIONS["gradient"])
    expected = nt.jacobian(lambda x: 2.0 * nt.grad(f)(x))(X) / 2.0
    np.testing.assert_allclose(nt.hessian(f)(X), expected, rtol=1e-12, atol=1e-14)


def test_which_operand_of_a_repeated_rule_is_complex_counts():
    def solved(x, k):
        pair = [k * (np.reshape(x[:4], (2, 2)) + 1j * x[4]), k * MATRIX[:2, :2] * x[5]]
        found = scipy.linalg.solve_sylvester(*(pair[::-1] if k > 3 else pair), MATRIX[:2, :2])
        return k * np.sum(found.real + 2.0 * found.imag)

    together = nt.grad(lambda x: sum(solved(x, k) for k in range(1, 6)))
    expected = sum(nt.grad(solved)(X, k) for k in range(1, 6))
    np.testing.assert_allclose(together(X), expected, rtol=1e-10)
