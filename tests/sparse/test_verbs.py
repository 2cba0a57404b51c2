"""sparsity, sparse_jacobian, sparse_hessian and their prepared caches, against dense derivatives."""

import itertools

import numpy as np
import pytest
import scipy.sparse

import numbatape as nt


@pytest.fixture
def rng():
    """The numbers of a test must not depend on which tests ran before: sums may nearly cancel."""
    return np.random.default_rng(0)


def banded(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(np.cos(x))


def arrow(x):
    return np.sum(x[1:] ** 2 * x[0]) + np.sum(np.exp(0.1 * x))


def blocks(x):
    return np.sum(np.sum(np.sin(x.reshape(-1, 5)), axis=1) ** 2)


def loop(x):
    total = 0.0
    for k in range(len(x) - 1):
        total = total + x[k] * np.sin(x[k + 1])
    return total


def grouped(x):
    """The groups follow from the entries, so that the pattern of the sums is not known before the sweep."""
    group = np.cumsum(x > 0.0)
    return np.sum(np.bincount(group, weights=np.sin(x)) ** 2)


@pytest.mark.parametrize(
    ("f", "chunk"), [*itertools.product((banded, arrow, blocks, loop), (None, 1, 2)), (grouped, None)]
)
def test_hessian(f, chunk, rng):
    cache = nt.prepare_sparse_hessian_cache(f, np.ones(20), check=True, config=nt.Config(chunk_size=chunk))
    for n in (20, 20, 35):
        x = rng.normal(size=n)
        value, gradient, hessian = nt.value_gradient_and_sparse_hessian(cache, x)
        assert isinstance(hessian, scipy.sparse.csr_array)
        np.testing.assert_allclose(hessian.toarray(), nt.hessian(f)(x), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(gradient, nt.grad(f)(x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(nt.sparse_hessian(f)(x).toarray(), hessian.toarray(), rtol=1e-13)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.concatenate([x[1:] * x[:-1], np.sin(x)]),  # columns
        lambda x: np.stack([np.sum(x * x), x[0] * x[1]]),  # rows
        lambda x: {"a": x[::2] ** 2, "n": 3, "b": np.sum(x[:4])},
        lambda x: x[np.array([0, 0, 3])] * 2.0,
    ],
)
def test_jacobian(f, rng):
    cache = nt.prepare_sparse_jacobian_cache(f, np.ones(8), check=True)
    for n in (8, 12):
        x = rng.normal(size=n)
        _, jacobian = nt.value_and_sparse_jacobian(cache, x)
        dense = nt.jacobian(f)(x)
        wanted = (
            np.concatenate([np.atleast_2d(dense[k]) for k in ("a", "b", "n")])
            if isinstance(dense, dict)
            else dense
        )
        np.testing.assert_allclose(jacobian.toarray(), wanted, rtol=1e-13, atol=1e-15)


def test_structure_is_fixed_and_buffers_may_be_reused():
    fresh = nt.prepare_sparse_hessian_cache(banded, np.ones(9))
    reused = nt.prepare_sparse_hessian_cache(banded, np.ones(9), config=nt.Config(reuse_buffers=True))
    a, b = (nt.value_gradient_and_sparse_hessian(fresh, np.full(9, k))[2] for k in (0.5, 0.7))
    assert a.indices is b.indices and a.indptr is b.indptr
    assert not np.array_equal(a.data, b.data)
    c, d = (nt.value_gradient_and_sparse_hessian(reused, np.full(9, k))[2] for k in (0.5, 0.7))
    assert np.shares_memory(c.data, d.data)
    np.testing.assert_array_equal(d.toarray(), b.toarray())


def test_known_patterns(rng):
    x = rng.normal(size=6)
    band = scipy.sparse.diags_array([np.ones(6), np.ones(5)], offsets=[0, 1])
    cache = nt.prepare_sparse_hessian_cache(banded, x, pattern=band, check=True)
    hessian = nt.value_gradient_and_sparse_hessian(cache, x)[2]
    np.testing.assert_allclose(hessian.toarray(), nt.hessian(banded)(x), rtol=1e-12)
    np.testing.assert_allclose(nt.sparse_hessian(banded, pattern=band)(x).toarray(), hessian.toarray())
    missing = nt.prepare_sparse_hessian_cache(banded, x, pattern=np.eye(6), check=True)
    with pytest.raises(nt.PatternError, match="misses an entry"):
        nt.value_gradient_and_sparse_hessian(missing, x)
    missing = nt.prepare_sparse_jacobian_cache(np.diff, x, pattern=np.eye(5, 6), check=True)
    with pytest.raises(nt.PatternError, match="misses an entry"):
        nt.value_and_sparse_jacobian(missing, x)
    with pytest.raises(nt.SpecError):
        nt.value_and_sparse_jacobian(nt.prepare_sparse_jacobian_cache(np.diff, x, pattern=np.eye(3)), x)


def test_branches_have_patterns_of_their_own():
    f = lambda x: np.sum(x[1:] * x[:-1]) if x[0] > 0 else np.sum(x**2)  # noqa: E731
    cache = nt.prepare_sparse_hessian_cache(f, np.ones(5), check=True)
    for x in (np.ones(5), -np.ones(5), np.ones(5)):
        hessian = nt.value_gradient_and_sparse_hessian(cache, x)[2]
        np.testing.assert_allclose(hessian.toarray(), nt.hessian(f)(x))


def test_positions_that_are_constants_are_read_again():
    f = lambda x, k: np.sum(x[k] ** 2)  # noqa: E731
    x = np.ones(6)
    cache = nt.prepare_sparse_hessian_cache(f, x, nt.Constant(np.array([0, 1])), check=True)
    for k in ([0, 1], [2, 5], [3, 3]):
        hessian = nt.value_gradient_and_sparse_hessian(cache, x, np.array(k))[2]
        np.testing.assert_allclose(hessian.toarray(), nt.hessian(f)(x, np.array(k)))


def test_traces_that_are_dropped_leave_no_pattern_behind():
    k = np.array([0, 1])
    cache = nt.prepare_sparse_hessian_cache(lambda x: np.prod(x[k]), np.ones(6), check=True)
    for j in range(12):  # what is captured changes: all traces are dropped, and memory is used again
        k[:] = j % 6, (j + 1 + j // 6) % 6
        hessian = nt.value_gradient_and_sparse_hessian(cache, np.ones(6))[2].toarray()
        expected = np.zeros((6, 6))
        expected[k[0], k[1]] = expected[k[1], k[0]] = 1.0
        np.testing.assert_array_equal(hessian, expected)


def test_sparsity():
    pattern = nt.sparsity(lambda x: x[1:] * x[:-1], np.ones(4))
    np.testing.assert_array_equal(pattern.toarray(), np.eye(3, 4, dtype=bool) | np.eye(3, 4, 1, dtype=bool))
    assert nt.sparsity(banded, np.ones(6), order=2).nnz == 16
    assert nt.sparsity(lambda x: np.sum(3.0 * x), np.ones(6), order=2).nnz == 0
    assert nt.sparse_hessian(lambda x: np.sum(3.0 * x))(np.ones(6)).nnz == 0


@pytest.mark.parametrize("place", [1, -2])
def test_derivatives_by_a_later_argument(place):
    """SciPy's solvers of differential equations pass the time first."""
    rhs = lambda t, y, k=2.0: np.diff(y, append=t) * y * k  # noqa: E731
    y = np.arange(1.0, 4.0)
    dense = nt.jacobian(rhs, argnums=1)(0.5, y, 3.0)
    np.testing.assert_array_equal(nt.sparse_jacobian(rhs, argnums=place)(0.5, y, 3.0).toarray(), dense)
    energy = lambda t, y, k: np.sum(rhs(t, y, k))  # noqa: E731
    with_aux = nt.sparse_hessian(lambda t, y, k: (energy(t, y, k), t), argnums=place, has_aux=True)
    found, aux = with_aux(0.5, k=3.0, y=y)
    np.testing.assert_array_equal(found.toarray(), nt.hessian(energy, argnums=1)(0.5, y, 3.0))
    assert aux == 0.5
    inner = nt.grad(lambda t: nt.sparse_jacobian(rhs, argnums=place)(t, y, 3.0).data.sum())
    assert inner(0.5) == nt.grad(lambda t: nt.jacobian(rhs, 1)(t, y, 3.0).sum())(0.5)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nt.sparsity(np.exp, np.ones(4) * 1j), nt.DtypeError, "is of real arguments"),
        (lambda: nt.sparsity(banded, np.ones(4), order=3), ValueError, "must be 1 .* or 2"),
        (lambda: nt.sparse_hessian(np.sin)(np.ones(3)), nt.OutputError, "a Hessian needs"),
        (lambda: nt.sparse_jacobian(np.add, argnums=(0, 1))(1.0, 2.0), nt.SpecError, "one argument"),
        (lambda: nt.sparse_jacobian(np.sin)(np.arange(3)), nt.DtypeError, "only float64 and float32"),
        (lambda: nt.sparse_jacobian(np.add, argnums=1)(1.0, ()), nt.DtypeError, "argument 1 is empty"),
        (
            lambda: nt.grad(lambda t: nt.sparse_jacobian(np.add, argnums=1)(t, 2).data.sum())(0.5),
            nt.DtypeError,
            "argument 1 is int64",
        ),
        (
            lambda: nt.value_and_sparse_jacobian(nt.prepare_gradient_cache(banded, np.ones(3)), np.ones(3)),
            TypeError,
            "needs a cache of prepare_sparse_jacobian_cache",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
