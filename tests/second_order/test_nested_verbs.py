"""Every verb inside of every other one, against exact derivatives.

The functions are cubic polynomials in plain NumPy, which compute with decimal numbers as well. Central
differences of cubics are exact but for rounding, and decimals have 28 digits, so that the references are
loops over the functions' values. (Fractions would not round, but take three times as long.)
"""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest

import numbatape as nt

POINT = np.array([0.5, -1.25, 2.0])
WEIGHTS = np.array([1, -2, 4, 3, 5, -1, 2])
STENCIL = ((-2, 1 / Decimal(12)), (-1, -2 / Decimal(3)), (1, 2 / Decimal(3)), (2, -1 / Decimal(12)))


def base(x):
    return np.stack([x[0] * x[1] * x[2], x[0] ** 2 * x[1] + x[2], x[1] ** 3])


def total(f):
    """A scalar function of the entries of a function's result."""

    def scalar(x):
        y = np.ravel(f(x))
        return np.sum(y * np.resize(WEIGHTS, y.shape))

    return scalar


def slopes(f, x):
    """The exact Jacobian of a function at decimals: an object array of shape (entries, entries of x)."""
    columns = []
    for k in range(len(x)):
        column = 0
        for step, weight in STENCIL:
            moved = x.copy()
            moved[k] += step
            column = column + weight * np.ravel(f(moved))
        columns.append(column)
    return np.stack(columns, axis=-1)


def curvature(f, x):
    """The exact Hessian of a scalar cubic at decimals."""
    units = np.array([[Decimal(int(i == j)) for j in range(len(x))] for i in range(len(x))], object)
    result = np.empty((len(x), len(x)), object)
    for i, j in itertools.product(range(len(x)), repeat=2):
        if i == j:
            result[i, i] = f(x + units[i]) - 2 * f(x) + f(x - units[i])
        elif i < j:
            both, apart = units[i] + units[j], units[i] - units[j]
            result[i, j] = result[j, i] = (f(x + both) + f(x - both) - f(x + apart) - f(x - apart)) / 4
    return result


def rows(x):
    return np.stack([x, 2 * x, x[::-1]])


def values_and_derivatives(pair):
    return np.concatenate([np.ravel(part) for part in pair])


def gradient_and_aux(f, x):
    gradient, aux = nt.grad(lambda z: (total(f)(z), z[0] * z[1]), has_aux=True)(x)
    return np.concatenate([gradient, np.ravel(aux)])


def pulled(f, x):
    y, pullback = nt.vjp(f, x)
    weights = np.resize(WEIGHTS, np.shape(np.ravel(y))).astype(float)
    return pullback(np.reshape(weights, np.shape(y)))[0]


# name -> (x -> array by the verb, x -> the same by differences), given a function
VERBS = {
    "grad": (
        lambda f: nt.grad(total(f)),
        lambda f: lambda x: slopes(total(f), x)[0],
    ),
    "value_and_grad": (
        lambda f: lambda x: values_and_derivatives(nt.value_and_grad(total(f))(x)),
        lambda f: lambda x: np.append(total(f)(x), slopes(total(f), x)),
    ),
    "grad has_aux": (
        lambda f: lambda x: gradient_and_aux(f, x),
        lambda f: lambda x: np.append(slopes(total(f), x)[0], x[0] * x[1]),
    ),
    "derivative": (  # of a function that uses traced values from outside
        lambda f: lambda x: nt.derivative(lambda t: np.ravel(f(x * 2.0 + t)))(0.0),
        lambda f: lambda x: slopes(lambda t: np.ravel(f(x * 2 + t[0])), x[:1] * 0)[:, 0],
    ),
    "jacobian": (
        lambda f: lambda x: np.ravel(nt.jacobian(f)(x)),
        lambda f: lambda x: np.ravel(slopes(f, x)),
    ),
    "jacobian forward": (
        lambda f: lambda x: np.ravel(nt.jacobian(f, mode="forward")(x)),
        lambda f: lambda x: np.ravel(slopes(f, x)),
    ),
    "hessian": (
        lambda f: lambda x: np.ravel(nt.hessian(total(f))(x)),
        lambda f: lambda x: np.ravel(curvature(total(f), x)),
    ),
    "hvp": (
        lambda f: lambda x: nt.hvp(total(f))(x, x),
        lambda f: lambda x: np.dot(curvature(total(f), x), x),
    ),
    "jvp": (
        lambda f: lambda x: values_and_derivatives(nt.jvp(f, (x,), (x,))),
        lambda f: lambda x: np.concatenate([np.ravel(f(x)), np.dot(slopes(f, x), x)]),
    ),
    "vjp": (
        lambda f: lambda x: pulled(f, x),
        lambda f: lambda x: np.dot(np.resize(WEIGHTS, np.ravel(f(x)).shape), slopes(f, x)),
    ),
    "sparse_jacobian": (
        lambda f: lambda x: np.ravel(nt.sparse_jacobian(f)(x).toarray()),
        lambda f: lambda x: np.ravel(slopes(f, x)),
    ),
    "sparse_hessian": (
        lambda f: lambda x: np.ravel(nt.sparse_hessian(total(f))(x).toarray()),
        lambda f: lambda x: np.ravel(curvature(total(f), x)),
    ),
    "batch": (
        lambda f: lambda x: values_and_derivatives(nt.batch(total(f))(rows(x))),
        lambda f: (
            lambda x: np.concatenate(
                [[total(f)(z) for z in rows(x)], *[slopes(total(f), z)[0] for z in rows(x)]]
            )
        ),
    ),
    "batch of arrays": (
        lambda f: lambda x: values_and_derivatives(nt.batch(lambda z: np.ravel(f(z)))(rows(x))),
        lambda f: (
            lambda x: np.concatenate(
                [np.ravel([np.ravel(f(z)) for z in rows(x)]), np.ravel([slopes(f, z) for z in rows(x)])]
            )
        ),
    ),
}


def exact(verbs, x):
    f = base
    for name in verbs:
        f = VERBS[name][1](f)
    found = f(np.array([Decimal(entry) for entry in x], object))
    return np.array([float(entry) for entry in np.ravel(found)])


def evaluations(verbs) -> int:
    """Return about how often a reference evaluates the function."""
    second = ("hessian", "hvp", "sparse_hessian")
    return math.prod(21 if verb in second else 36 if verb.startswith("batch") else 12 for verb in verbs)


def check(verbs, rtol=1e-12):
    f = base
    for name in verbs:
        f = VERBS[name][0](f)
    points = (POINT, POINT[::-1].copy())  # the second call replays what the first recorded
    for point in points if evaluations(verbs) < 200 else points[:1]:
        np.testing.assert_allclose(np.ravel(f(point)), exact(verbs, point), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("outer", VERBS)
@pytest.mark.parametrize("inner", VERBS)
def test_pairs(inner, outer):
    check((inner, outer))


TRIPLES = [verbs for verbs in itertools.product(VERBS, repeat=3) if evaluations(verbs) < 6000]
CHOSEN = np.random.default_rng(7).permutation(len(TRIPLES))[:16]


@pytest.mark.parametrize("verbs", [TRIPLES[k] for k in CHOSEN], ids=" in ".join)
def test_triples(verbs):
    check(verbs, rtol=1e-11)


# ---- sparse derivatives inside of a trace

X, Y = np.random.default_rng(3).normal(size=(2, 5))


def chain(x):
    return x[1:] ** 2 * x[:-1]


def energy(x):
    return np.sum(x[1:] ** 2 * x[:-1] ** 2)


def by_differences(f, x, step=1e-5):
    moves = step * np.eye(x.size)
    return np.array([(f(x + move) - f(x - move)) / (2 * step) for move in moves])


SPARSE = {
    "data": lambda x: np.sum(nt.sparse_jacobian(chain)(x).data ** 2),
    "toarray": lambda x: np.sum(nt.sparse_jacobian(chain)(x).toarray() ** 2),
    "constant rows": lambda x: np.sum(
        nt.sparse_jacobian(lambda z: np.concatenate([z**3, np.ones(2), z[:2] * z[1:3]]))(x).toarray() ** 2
    ),
    "by rows": lambda x: np.sum(
        nt.sparse_jacobian(lambda z: np.stack([np.sum(z**3), z[0] * z[1]]))(x).toarray() ** 2
    ),
    "product": lambda x: np.sum((nt.sparse_jacobian(chain)(x) @ x) ** 2),
    "hessian data": lambda x: np.sum(nt.sparse_hessian(energy)(x).data ** 2),
    "hessian product": lambda x: x @ (nt.sparse_hessian(energy)(x) @ x),
    "captured": lambda x: np.sum(nt.sparse_jacobian(lambda z: chain(z) * x[1:] * np.sum(x))(2 * x).data ** 2),
    "captured, plain argument": lambda x: np.sum(
        nt.sparse_hessian(lambda z: energy(z) * np.sum(x))(np.arange(5.0)).data ** 2
    ),
    "branches": lambda x: np.sum(
        nt.sparse_jacobian(lambda z: chain(z) * z[0] if z[0] > 0 else z[:2] ** 3)(x).data ** 2
    ),
    "traced positions": lambda x: np.sum(nt.sparse_jacobian(lambda z: z[np.argsort(z)] ** 2)(x).data ** 2),
    "plain positions": lambda x: np.sum(nt.sparse_jacobian(lambda z: z[[0, 2, 2]] ** 2)(x).data ** 2),
    "linear": lambda x: np.sum(nt.sparse_jacobian(lambda z: 2 * z)(x).toarray()) * x[0],
    "constant": lambda x: np.sum(nt.sparse_jacobian(lambda z: np.ones(3))(x).toarray()) + x[0] ** 2,
    "constant scalar": lambda x: np.sum(nt.sparse_hessian(lambda z: 3.0)(x).toarray()) + x[0] ** 2,
    "known pattern": lambda x: np.sum(nt.sparse_jacobian(lambda z: z**3, pattern=np.eye(5))(x).data ** 2),
    "other arguments": lambda x: np.sum(nt.sparse_jacobian(lambda z, w: z**2 * w)(x, 3 * x).data ** 2),
    "roles": lambda x: np.sum(nt.sparse_jacobian(lambda z, w: z**2 * w)(x, nt.Constant(3 * x)).data ** 2),
    "containers": lambda x: np.sum(
        nt.sparse_jacobian(lambda p: p["a"] ** 2 * p["b"][0])({"a": x, "b": 2 * x}).data ** 2
    ),
    "sparsity": lambda x: nt.sparsity(chain, x).nnz * nt.sparsity(energy, x, order=2).nnz * np.sum(x**2),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_derivatives_of_traced_values(name):
    f = SPARSE[name]
    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, Y, -X, X[:5] * 2):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, by_differences(f, x), rtol=1e-6, atol=1e-6)


def test_sparse_derivatives_follow_sizes_and_positions():
    def entries(x, k):
        return np.sum(nt.sparse_jacobian(lambda z: z[k] ** 3 * z[0])(x).data[::2] ** 2)

    cache = nt.prepare_gradient_cache(entries, X, nt.Constant(np.array([0, 1, 2])))
    for x, k in ((X, [0, 1, 2]), (X, [4, 3, 0]), (X[:4], [1, 1, 2]), (X[:4], [3, 1]), (Y, [0, 1, 2])):
        k = np.array(k)
        value, (gradient, _) = nt.value_and_gradient(cache, x, nt.Constant(k))
        np.testing.assert_allclose(value, entries(x, k), rtol=1e-13)
        differences = by_differences(lambda z, k=k: entries(z, k), x)
        np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)


# ---- batches inside of a trace


def writes(z):
    z[0] = z[0] ** 2
    return np.sum(z**2)


BATCHES = {
    "data of each point": lambda x: nt.batch(lambda z, w: np.sum(z**3 * w), in_axes=(0, 0))(
        np.stack([x, 2 * x]), nt.Constant(np.stack([x, x**2]))
    )[1],
    "another axis": lambda x: nt.batch(lambda z, w: np.sum(z**3) * w[0], in_axes=(-1, None))(
        np.stack([x, 2 * x], 1), x
    )[1],
    "containers": lambda x: nt.batch(lambda p: p["u"] * np.sum(p["v"] ** 3))({"u": x, "v": np.outer(x, x)})[
        1
    ]["v"],
    "several arguments": lambda x: np.concatenate(
        nt.batch(lambda u, v: np.sum(u * v**2), in_axes=(0, 0))(np.outer(x, x), np.outer(x, x[::-1]))[1]
    ),
    "branches": lambda x: nt.batch(lambda z: z[0] ** 3 if z[0] > 0 else z[1] ** 2)(np.outer(x, x))[1],
    "writes": lambda x: nt.batch(writes)(np.outer(x, x))[1],
    "captured": lambda x: nt.batch(lambda z: np.sum(z**3 * x))(np.ones((2, 5)))[1],
    "numbers": lambda x: nt.batch(lambda t: t**3)(x)[1],
    "arrays": lambda x: nt.batch(lambda z: z[:2] ** 3)(np.outer(x, x))[1],
    "no points": lambda x: np.append(np.ravel(nt.batch(lambda z: np.sum(z**3))(np.outer(x, x)[:0])[1]), x**2),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_traced_values(name):
    def f(x):
        return np.sum(BATCHES[name](x) ** 2) + np.sum(x)

    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, Y, X[:4]) if name != "captured" else (X, Y):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        differences = by_differences(f, x)
        np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())


def test_stop_gradient_inside_of_batches_and_sparse_derivatives():
    held = lambda z: np.sum(z**2 * nt.stop_gradient(z))  # noqa: E731
    np.testing.assert_allclose(nt.batch(held)(np.stack([X, Y]))[1], 2 * np.stack([X, Y]) ** 2, rtol=1e-14)
    np.testing.assert_allclose(nt.sparse_hessian(held)(X).diagonal(), 2 * X, rtol=1e-14)
    outer = nt.grad(lambda x: np.sum(nt.batch(held)(np.stack([x, 2 * x]))[1]))
    np.testing.assert_allclose(outer(X), by_differences(lambda x: np.sum(2 * x**2) / 2 * 5, X), rtol=1e-6)


CONSTANT = {
    "grad": lambda f: nt.grad(lambda x: np.sum(f(x)))(POINT),
    "jvp": lambda f: nt.jvp(f, (POINT,), (POINT,))[1],
    "vjp": lambda f: nt.vjp(f, POINT)[1](POINT)[0],
    "jacobian": lambda f: nt.jacobian(f, mode="forward")(POINT),
    "hessian": lambda f: nt.hessian(lambda x: np.sum(f(x)))(POINT),
    "hvp": lambda f: nt.hvp(lambda x: np.sum(f(x)))(POINT, POINT),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_function_that_returns_a_value_of_the_outer_one_has_no_slope(name):
    def outer(x):
        return np.sum(x) + np.sum(CONSTANT[name](lambda _: 2.0 * x) * x)

    np.testing.assert_array_equal(nt.grad(outer)(POINT), 1.0)


def written(x, y):
    z = np.zeros(4)
    z[:3], z[2:] = x, y[:2]
    return z


def copied(x, y):
    z = x * 1.0
    np.copyto(z, y, where=[True, False, True])
    return z


# What brings two arrays together other than by arithmetic, of two traces at first.
MEETINGS = {
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "stack": lambda x, y: np.stack([x, y]),
    "array": lambda x, y: np.array([x[0], y[1], 2.0]),
    "choose": lambda x, y: np.choose([0, 1, 0], [x, y]),
    "sum of a list": lambda x, y: np.sum([x, y], axis=0),
    "cov": np.cov,
    "complex": lambda x, y: np.abs(np.stack([x + 0.5j, y * 1j])),
    "vmap": lambda x, y: nt.vmap(lambda a: np.append(a, y))(x),
    "written": written,
    "copied": copied,
    "fill_diagonal": lambda x, y: np.fill_diagonal(z := np.outer(x, x), y) or z,
}


@pytest.mark.parametrize("name", MEETINGS)
def test_derivatives_at_plain_arrays_of_functions_of_traced_ones(name):
    """The numbers of the traced values mean other values in the trace of the inner function."""
    at, given = np.array([1.0, 2.0, 3.0]), np.array([0.3, 0.5, 0.7])

    def inner(x, y):
        z = np.ravel(MEETINGS[name](x, y))
        return np.sum(np.sin(z) * np.arange(1, 1 + z.size))

    def along(y):
        return nt.jvp(lambda x: inner(x, y), (at,), (at,))[1]

    def against(y):
        return nt.grad(lambda x: inner(x, y))(at) @ at

    both = lambda z: inner(z[:3], z[3:])  # noqa: E731
    slopes, curvature = nt.grad(both)(np.append(at, given)), nt.hessian(both)(np.append(at, given))
    for f in (along, against):
        value, slope = nt.value_and_grad(f)(given)
        np.testing.assert_allclose(value, slopes[:3] @ at, rtol=1e-12)
        np.testing.assert_allclose(slope, at @ curvature[:3, 3:], rtol=1e-12, atol=1e-12)


def test_a_product_along_an_array_that_the_function_has_written():
    cube = lambda x: np.sum(x**3)  # noqa: E731

    def f(x):
        direction = np.zeros(3)
        direction[1:] = 2.0
        return nt.hvp(cube)(x, direction + 1.0) @ x

    x = np.array([0.3, 0.5, 0.7])
    np.testing.assert_allclose(nt.grad(f)(x), 12.0 * x * [1.0, 3.0, 3.0], rtol=1e-12)


# Functions of a number and of the length of an array.
OF_A_LENGTH = {
    "arange": lambda x, n: np.sum(np.arange(n) * x**2),
    "zeros": lambda x, n: np.sum((np.zeros(n) + x) ** 2),
    "full": lambda x, n: np.sum(np.full(n, x**2)),
    "eye": lambda x, n: np.sum(np.eye(n) * x**2),
    "broadcast_to": lambda x, n: np.sum(np.broadcast_to(x**2, (n,))),
    "product": lambda x, n: x**2 * n,
}


@pytest.mark.parametrize("name", OF_A_LENGTH)
def test_derivatives_at_plain_numbers_follow_the_sizes_of_traced_arrays(name):
    f = OF_A_LENGTH[name]

    def slope(n):
        return nt.grad(lambda x: f(x[0], n))(np.array([0.5, 1.0, 1.5]))[0]

    cache = nt.prepare_gradient_cache(lambda y: np.sum(y) * slope(len(y)), np.ones(3))
    for n in (3, 5, 2):
        factor = f(1.0, n)  # the slope at 0.5
        value, (gradient,) = nt.value_and_gradient(cache, np.linspace(0.0, 1.0, n))
        np.testing.assert_allclose(value, factor * n / 2, rtol=1e-13)
        np.testing.assert_allclose(gradient, np.full(n, factor), rtol=1e-13)


@pytest.mark.parametrize(
    "inner",
    [
        lambda p: nt.grad(lambda x: np.sum(p * x**3))(POINT),
        lambda p: nt.jacobian(lambda x: x**3 * p)(POINT),
        lambda p: nt.hessian(lambda x: np.sum(p * x**3))(POINT),
        lambda p: nt.vmap(nt.grad(lambda x: np.sum(p * x**3)))(POINT),
        lambda p: nt.grad(lambda q: np.sum(nt.grad(lambda x: np.sum(p * q * x**3))(POINT)))(POINT),
    ],
    ids=["grad", "jacobian", "hessian", "vmap", "twice"],
)
def test_a_derivative_at_plain_arguments_of_a_function_that_uses_traced_values_is_traced_once(inner):
    """The attempt without the outer trace, which fails, says nothing about what the tape holds for."""
    cache = nt.prepare_gradient_cache(lambda p: np.sum(inner(p) ** 2), POINT)
    for factor in (1.0, 2.0, 3.0):
        _, (gradient,) = nt.value_and_gradient(cache, factor * POINT)
        each = [
            np.sum(inner(factor * POINT + h) ** 2) - np.sum(inner(factor * POINT - h) ** 2)
            for h in 1e-6 * np.eye(3)
        ]
        np.testing.assert_allclose(gradient, np.array(each) / (2 * 1e-6), rtol=1e-6)
    assert cache.traces == 1


def test_an_error_that_a_function_inside_has_caught_counts_in_each_call():
    def f(p):
        def caught(x):
            try:
                return np.sum(np.linalg.cholesky(np.array([[p[0]]])) * x)
            except np.linalg.LinAlgError:
                return np.sum(p**2 * x)

        return np.sum(nt.grad(caught)(POINT))

    gradient = nt.grad(f)
    for p in (np.array([-1.0, 1.0, 1.0]), np.array([4.0, 1.0, 1.0]), np.array([-2.0, 1.0, 1.0])):
        expected = 2 * p if p[0] < 0 else np.array([3 * 0.5 / np.sqrt(p[0]), 0.0, 0.0])
        np.testing.assert_allclose(gradient(p), expected, rtol=1e-12)
