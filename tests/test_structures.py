"""Which derivative stands where: results outside, arguments inside, as in JAX, for all kinds of trees."""

import itertools

import numpy as np
import optree
import pytest

import numbatape as nt

X, Y = np.array([0.5, 1.5]), np.array([2.0, 3.0, 4.0])

RESULTS = {
    "array": lambda a, b: a**2 * np.sum(b),
    "scalar": lambda a, b: np.sum(a) * np.prod(b),
    "dict": lambda a, b: {"u": np.sum(a) * b, "v": a[0]},
    "tuple": lambda a, b: (a, [b**2, np.sum(a * a)]),
    "with constants": lambda a, b: {"one": np.ones(2), "n": 3, "b": b * a[0], "more": (b > 2.5)},
}
ARGUMENTS = {
    "arrays": ((X, Y), lambda x, y: (x, y)),
    "dict and array": (({"a": X, "k": 0.5}, Y), lambda p, y: (p["a"] * p["k"], y)),
    "tuples": (((X, [Y]), 2.0), lambda p, k: (p[0] * k, p[1][0])),
}
ARGNUMS = (0, 1, (0,), (1, 0), (0, 1))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def by_differences(f, args, path_of_result, number, path_of_argument):
    """Return the derivative of one leaf of the result by one leaf of an argument."""
    leaf = np.asarray(at(args[number], path_of_argument))

    def moved(step):
        leaves, spec = optree.tree_flatten(args[number])
        place = optree.tree_paths(args[number]).index(path_of_argument)
        leaves = [*leaves]
        leaves[place] = (leaf + step)[()]
        changed = [*args]
        changed[number] = optree.tree_unflatten(spec, leaves)
        return np.asarray(at(f(*changed), path_of_result), float)

    columns = []
    for k in np.ndindex(leaf.shape):
        step = np.zeros(leaf.shape)
        step[k] = 1e-5
        columns.append((moved(step) - moved(-step)) / 2e-5)
    shape = np.shape(at(f(*args), path_of_result))
    return np.moveaxis(
        np.reshape(columns, leaf.shape + shape), range(leaf.ndim), range(len(shape), len(shape) + leaf.ndim)
    )


CASES = list(itertools.product(RESULTS, ARGUMENTS, ARGNUMS))


@pytest.mark.parametrize(("result", "argument", "argnums"), CASES)
def test_jacobian(result, argument, argnums):
    args, unpack = ARGUMENTS[argument]
    f = lambda *args: RESULTS[result](*unpack(*args))  # noqa: E731
    value = f(*args)
    made = nt.jacobian(f, argnums)(*args)
    inside = lambda x: nt.jacobian(lambda *args: f(*args), argnums)(*args)  # noqa: E731
    nested = optree.tree_leaves(nt.jvp(lambda x: optree.tree_leaves(inside(x)), (1.0,), (1.0,))[0])
    for mine, other in zip(optree.tree_leaves(made), nested, strict=True):
        np.testing.assert_array_equal(mine, other)
    for place in optree.tree_paths(value):
        for k, number in enumerate(argnums if isinstance(argnums, tuple) else (argnums,)):
            for path in optree.tree_paths(args[number]):
                block = at(made, (*place, *((k,) if isinstance(argnums, tuple) else ()), *path))
                expected = by_differences(f, args, place, number, path)
                assert np.shape(block) == expected.shape
                np.testing.assert_allclose(block, expected, atol=1e-8)


@pytest.mark.parametrize(("argument", "argnums"), list(itertools.product(ARGUMENTS, ARGNUMS)))
def test_hessian_is_the_jacobian_of_the_gradient(argument, argnums):
    args, unpack = ARGUMENTS[argument]
    f = lambda *args: RESULTS["scalar"](*unpack(*args)) ** 2  # noqa: E731
    made = nt.hessian(f, argnums)(*args)
    expected = nt.jacobian(nt.grad(f, argnums), argnums)(*args)
    assert optree.tree_structure(made) == optree.tree_structure(expected)
    for mine, other in zip(optree.tree_leaves(made), optree.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-13, atol=1e-13)
    inside = nt.jvp(lambda t: optree.tree_leaves(nt.hessian(f, argnums)(*args)), (1.0,), (1.0,))[0]
    assert len(inside) == len(optree.tree_leaves(made))


@pytest.mark.parametrize("prepare", [nt.prepare_derivative_cache, nt.prepare_pullback_cache])
@pytest.mark.parametrize("result", RESULTS)
def test_caches_arrange_them_alike(result, prepare):
    f = RESULTS[result]
    _, made = nt.value_and_jacobian(prepare(f, X, Y), X, Y)
    expected = nt.jacobian(f, (0, 1))(X, Y)
    assert optree.tree_structure(made) == optree.tree_structure(expected)
    for mine, other in zip(optree.tree_leaves(made), optree.tree_leaves(expected), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("result", RESULTS)
def test_sparse_jacobians_have_a_row_for_each_entry(result):
    f = lambda x: RESULTS[result](x[:2], x[2:])  # noqa: E731
    x = np.concatenate([X, Y])
    dense = [np.reshape(part, (-1, 5)) for part in optree.tree_leaves(nt.jacobian(f)(x))]
    pattern = nt.sparsity(f, x)
    assert pattern.shape == np.concatenate(dense).shape
    made = nt.sparse_jacobian(f)(x)
    np.testing.assert_allclose(made.toarray(), np.concatenate(dense))
    given = nt.sparse_jacobian(f, pattern=pattern)(x)
    np.testing.assert_array_equal(given.toarray(), made.toarray())
    cache = nt.prepare_sparse_jacobian_cache(f, x, check=True)
    first, second = (nt.value_and_sparse_jacobian(cache, x)[1] for _ in range(2))
    assert first.indptr is second.indptr
    assert first.has_canonical_format


@pytest.mark.parametrize(
    "constant", [lambda x: np.ones(3), lambda x: 1.0, lambda x: np.arange(4), lambda x: x > 0]
)
def test_sparse_jacobians_of_constants(constant):
    expected = np.zeros((np.size(constant(X)), 2))
    np.testing.assert_array_equal(nt.sparse_jacobian(constant)(X).toarray(), expected)
    np.testing.assert_array_equal(nt.sparsity(constant, X).toarray(), expected)
