"""Where derivatives go: fresh arrays, ``out=``, the cache's own buffers, one flat vector; in every cache."""

import copy
import itertools

import numpy as np
import optree
import pytest

import numbatape as nt

X, P = np.array([0.5, -1.5, 2.0]), {"a": np.array([1.0, 2.0]), "k": 0.5}


def scalar(x, p):
    return np.sum(x**2) * np.sum(p["a"]) * p["k"] + np.sum(x) ** 3


def vector(x, p):
    return x**2 * np.sum(p["a"]) * p["k"]


YBAR = np.array([1.0, 10.0, 100.0])
V = (np.ones(3), {"a": np.zeros(2), "k": 1.0})
CACHES = {
    "gradient": (nt.prepare_gradient_cache, scalar, lambda c, x, p, **o: nt.value_and_gradient(c, x, p, **o)),
    "forward gradient": (
        nt.prepare_derivative_cache,
        scalar,
        lambda c, x, p, **o: nt.value_and_gradient(c, x, p, **o),
    ),
    "pullback": (
        nt.prepare_pullback_cache,
        vector,
        lambda c, x, p, **o: nt.value_and_pullback(c, YBAR, x, p, **o),
    ),
    "derivative": (
        nt.prepare_derivative_cache,
        vector,
        lambda c, x, p, **o: nt.value_and_derivative(c, (x, V[0]), (p, V[1]), **o),
    ),
    "Jacobian by columns": (
        nt.prepare_derivative_cache,
        vector,
        lambda c, x, p, **o: nt.value_and_jacobian(c, x, p, **o),
    ),
    "Jacobian by rows": (
        nt.prepare_pullback_cache,
        vector,
        lambda c, x, p, **o: nt.value_and_jacobian(c, x, p, **o),
    ),
    "hvp": (nt.prepare_hvp_cache, scalar, lambda c, x, p, **o: nt.value_and_hvp(c, V, x, p, **o)),
    "Hessian": (
        nt.prepare_hessian_cache,
        scalar,
        lambda c, x, p, **o: nt.value_gradient_and_hessian(c, x, p, **o),
    ),
}
HERE = [(X, P), (X + 1.0, {"a": np.array([3.0, -1.0]), "k": 2.0}), (X * 2, P)]


def arrays(tree):
    return [leaf for leaf in optree.tree_leaves(tree) if isinstance(leaf, np.ndarray)]


def equal(one, other):
    assert optree.tree_structure(one) == optree.tree_structure(other)
    for a, b in zip(optree.tree_leaves(one), optree.tree_leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b)


@pytest.mark.parametrize("name", CACHES)
def test_results_are_fresh(name):
    prepare, f, call = CACHES[name]
    cache = prepare(f, X, P)
    results = [call(cache, *args) for args in HERE]
    kept = copy.deepcopy(results)
    call(cache, X * 7, P)
    equal(results, kept)
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays(results), 2))


@pytest.mark.parametrize("name", CACHES)
def test_reused_buffers_are_the_same_arrays_in_each_call(name):
    prepare, f, call = CACHES[name]
    fresh = prepare(f, X, P)
    cache = prepare(f, X, P, config=nt.Config(reuse_buffers=True))
    first = arrays(call(cache, *HERE[0])[1:])
    for args in HERE:
        made = call(cache, *args)
        equal(made, call(fresh, *args))
        assert all(a is b for a, b in zip(arrays(made[1:]), first, strict=True))
    clone = cache.clone()
    before = copy.deepcopy(made)
    call(clone, X * 3, P)
    equal(made, before)


@pytest.mark.parametrize("name", CACHES)
def test_out(name):
    prepare, f, call = CACHES[name]
    cache = prepare(f, X, P)
    expected = call(cache, *HERE[1])
    numbers_as_arrays = optree.tree_map(np.array, expected[1] if len(expected) == 2 else expected[1:])
    out = optree.tree_map(np.zeros_like, numbers_as_arrays)
    made = call(cache, *HERE[1], out=out)
    for a, b in zip(optree.tree_leaves(out), optree.tree_leaves(expected[1:]), strict=True):
        np.testing.assert_array_equal(a, b)
    returned = made[1] if len(expected) == 2 else made[1:]
    assert all(a is b for a, b in zip(optree.tree_leaves(returned), optree.tree_leaves(out), strict=True))
    wrong = optree.tree_map(lambda leaf: np.zeros((*leaf.shape, 2)), numbers_as_arrays)
    with pytest.raises(nt.SpecError, match="out"):
        call(cache, *HERE[1], out=wrong)


@pytest.mark.parametrize("name", [name for name in CACHES if name != "derivative"])
@pytest.mark.parametrize("reuse", [False, True])
def test_flat_results(name, reuse):
    prepare, f, call = CACHES[name]
    friendly = prepare(f, X, P)
    cache = prepare(f, X, P, config=nt.Config(friendly_tangents=False, reuse_buffers=reuse))
    for args in HERE:
        made, expected = call(cache, *args), call(friendly, *args)
        equal(made[0], expected[0])
        for flat, tree in zip(made[1:], expected[1:], strict=True):
            leaves = optree.tree_leaves(tree)
            assert flat.size == sum(map(np.size, leaves))
            if flat.ndim == 1:
                equal(flat, np.concatenate(list(map(np.ravel, leaves))))
            else:
                np.testing.assert_allclose(
                    np.sort(flat, axis=None), np.sort(np.concatenate(list(map(np.ravel, leaves))))
                )
    first, second = (call(cache, *args)[1] for args in HERE[:2])
    assert (first is second) == reuse
    out = np.zeros_like(second) if len(made) == 2 else tuple(map(np.zeros_like, made[1:]))
    expected = call(cache, *HERE[2])
    call(cache, *HERE[2], out=out)
    for mine, other in zip([out] if len(made) == 2 else out, expected[1:], strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_flat_jacobian_is_one_matrix():
    f = lambda x, y: {"b": x[0] * y, "a": np.sum(x * x), "n": np.ones((2, 1))}  # noqa: E731
    x, y = X, np.array([2.0, 3.0])
    for prepare in (nt.prepare_derivative_cache, nt.prepare_pullback_cache):
        cache = prepare(f, x, y, config=nt.Config(friendly_tangents=False))
        _, matrix = nt.value_and_jacobian(cache, x, y)
        np.testing.assert_array_equal(
            matrix,
            [[1.0, -3.0, 4.0, 0, 0], [2, 0, 0, 0.5, 0], [3, 0, 0, 0, 0.5], [0] * 5, [0] * 5],
        )


# ---- adding up


@pytest.mark.parametrize("friendly", [True, False])
def test_pullbacks_add_up(friendly):
    config = nt.Config(reuse_buffers=True, friendly_tangents=friendly)
    cache = nt.prepare_pullback_cache(vector, X, P, config=config)
    switches = (False, False)
    _, first = nt.value_and_pullback(cache, YBAR, *HERE[0], args_to_zero=switches)
    total = arrays(copy.deepcopy(first))
    for args in HERE:
        _, made = nt.value_and_pullback(cache, YBAR, *args, args_to_zero=switches)
        alone = nt.value_and_pullback(nt.prepare_pullback_cache(vector, X, P, config=config), YBAR, *args)[1]
        total = [a + b for a, b in zip(total, arrays(alone), strict=True)]
        for mine, other in zip(arrays(made), total, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-14)
    assert all(a is b for a, b in zip(arrays(made), arrays(first), strict=True))


def test_pullbacks_add_up_argument_by_argument():
    cache = nt.prepare_pullback_cache(lambda x, s: x * s, X, 2.0, config=nt.Config(reuse_buffers=True))
    nt.value_and_pullback(cache, YBAR, X, 2.0)
    _, (gx, gs) = nt.value_and_pullback(cache, YBAR, X, 2.0, args_to_zero=(True, False))
    np.testing.assert_array_equal(gx, 2.0 * YBAR)
    assert gs == 2.0 * (YBAR @ X)
    assert nt.value_and_pullback(cache, YBAR, X, 2.0, args_to_zero=(True, False))[1][1] == 3.0 * (YBAR @ X)


def test_what_cannot_be_added_up():
    cache = nt.prepare_pullback_cache(np.sin, X)
    with pytest.raises(ValueError, match="results are fresh here"):
        nt.value_and_pullback(cache, YBAR, X, args_to_zero=(False,))
    owning = nt.prepare_pullback_cache(np.sin, X, config=nt.Config(reuse_buffers=True))
    with pytest.raises(nt.SpecError, match="one bool for each of 1 arguments, got 2"):
        nt.value_and_pullback(owning, YBAR, X, args_to_zero=(False, True))
    nt.value_and_pullback(owning, YBAR, X)
    with pytest.raises(nt.ShapeError, match=r"of shape \(3,\).*\(2,\)"):
        nt.value_and_pullback(owning, YBAR[:2], X[:2], args_to_zero=(False,))
    forward = nt.prepare_derivative_cache(np.sum, X, config=nt.Config(reuse_buffers=True))
    with pytest.raises(ValueError, match="forward mode adds nothing up"):
        nt.value_and_gradient(forward, X, args_to_zero=(False,))


# ---- sizes

SIZED = {
    "gradient": (nt.prepare_gradient_cache, lambda x: np.sum(x**2), nt.value_and_gradient),
    "pullback": (nt.prepare_pullback_cache, lambda x: x**2, lambda c, x: nt.value_and_pullback(c, x, x)),
    "rows": (nt.prepare_pullback_cache, lambda x: x**2, nt.value_and_jacobian),
    "derivative": (
        nt.prepare_derivative_cache,
        lambda x: x**2,
        lambda c, x: nt.value_and_derivative(c, (x, x)),
    ),
    "columns": (nt.prepare_derivative_cache, lambda x: x**2, nt.value_and_jacobian),
    "hvp": (nt.prepare_hvp_cache, lambda x: np.sum(x**3), lambda c, x: nt.value_and_hvp(c, x, x)),
    "Hessian": (nt.prepare_hessian_cache, lambda x: np.sum(x**3), nt.value_gradient_and_hessian),
    "sparse Jacobian": (nt.prepare_sparse_jacobian_cache, lambda x: x**2, nt.value_and_sparse_jacobian),
    "sparse Hessian": (
        nt.prepare_sparse_hessian_cache,
        lambda x: np.sum(x**3),
        nt.value_gradient_and_sparse_hessian,
    ),
}


@pytest.mark.parametrize("name", SIZED)
def test_resize_of_a_cache_of_fixed_sizes(name):
    prepare, f, call = SIZED[name]
    cache = prepare(f, X, config=nt.Config(fixed_sizes=True))
    dense = lambda made: optree.tree_map(lambda leaf: getattr(leaf, "toarray", lambda: leaf)(), made)  # noqa: E731
    for n in (3, 5, 2, 3):
        assert cache.resize(np.ones(n)) is cache
        for _ in range(3):
            x = np.linspace(1.0, 2.0, n)
            equal(dense(call(cache, x)), dense(call(prepare(f, x), x)))
        for other in (4, 5 if n != 5 else 3):
            with pytest.raises(nt.ShapeError, match=rf"prepared for shape \({n},\)"):
                call(cache, np.ones(other))


def test_forward_gradients_of_one_array_are_kept_too():
    cache = nt.prepare_derivative_cache(lambda x: np.sum(x**3), X, config=nt.Config(reuse_buffers=True))
    _, (first,) = nt.value_and_gradient(cache, X)
    for x in (X + 1.0, X + 2.0, X):
        _, (gradient,) = nt.value_and_gradient(cache, x)
        assert gradient is first
        np.testing.assert_allclose(gradient, 3 * x**2, rtol=1e-14)


def test_a_steady_call_of_the_sizes_before_a_resize_is_forgotten():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x**2), X, config=nt.Config(fixed_sizes=True))
    for _ in range(3):
        nt.value_and_gradient(cache, X)
    cache.resize(X[:2])
    with pytest.raises(nt.ShapeError, match="fixed_sizes=True"):
        nt.value_and_gradient(cache, X)
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X[:2])[1][0], 2 * X[:2])
