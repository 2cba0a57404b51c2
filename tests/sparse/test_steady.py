"""Steady calls of sparse caches: the same results as general calls, and no general call where none is due."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt

SHIFTS = np.array([2, 0, 1, 3])


def chain(x):
    return x[1:] * x[:-1] + np.sin(x[1:])


def branch(x):
    return x[1:] * x[:-1] if x[0] > 0.0 else np.cumsum(x)[1:]


def gathered(x):
    return x[SHIFTS] ** 2 * x


def several(x, y):
    return {"product": x * y["a"], "constant": np.ones(2), "sum": x + y["b"]}


def single_precision(x):
    return np.float32(2.0) * x**2


def table(x):
    return np.outer(x[:2], x[2:]) ** 2


ONE = (np.array([0.4, -0.3, 1.2, 0.7]),)
TWO = (ONE[0], {"a": ONE[0] + 1.0, "b": 0.5})
FUNCTIONS = [(f, ONE) for f in (chain, branch, gathered, table)]
FUNCTIONS += [(several, TWO), (single_precision, (ONE[0].astype(np.float32),))]
IDS = [f.__name__ for f, _ in FUNCTIONS]


def moved(args, by):
    x, *rest = args
    return (x + x.dtype.type(by), *rest)


def same(found, expected):
    its, theirs = nt.flatten(found[:-1])[0], nt.flatten(expected[:-1])[0]
    assert np.array_equal(its, theirs)
    matrix, wanted = found[-1], expected[-1]
    assert matrix.dtype == wanted.dtype
    assert matrix.shape == wanted.shape
    assert np.array_equal(matrix.indptr, wanted.indptr)
    assert np.array_equal(matrix.indices, wanted.indices)
    assert np.array_equal(matrix.data, wanted.data)


def refuse(*args):
    raise AssertionError("a general call")


def prepared(f, args, kind, **options):
    if kind == "jacobian":
        return nt.prepare_sparse_jacobian_cache(f, *args, **options), nt.value_and_sparse_jacobian
    scalar = lambda *args: np.sum(nt.flatten(f(*args))[0] ** 2)  # noqa: E731
    return nt.prepare_sparse_hessian_cache(scalar, *args, **options), nt.value_gradient_and_sparse_hessian


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
@pytest.mark.parametrize("f, args", FUNCTIONS, ids=IDS)
def test_the_second_call_is_steady_and_has_the_same_bits(f, args, kind, reuse, monkeypatch):
    cache, run = prepared(f, args, kind, config=nt.Config(reuse_buffers=reuse))
    points = [moved(args, by) for by in (0.0, 0.1, 0.2)]
    expected = [run(cache.clone(), *point) for point in points]
    run(cache, *args)
    monkeypatch.setattr(cache, "_flatten", refuse)
    found = [run(cache, *point) for point in points]
    assert np.shares_memory(found[0][-1].data, found[1][-1].data) == reuse
    for its, theirs in zip(found[-1:] if reuse else found, expected[-1:] if reuse else expected, strict=True):
        same(its, theirs)


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
def test_branches_and_sizes_have_steady_calls_of_their_own(kind, monkeypatch):
    cache, run = prepared(branch, ONE, kind)
    points = [ONE[0], -ONE[0], np.arange(1.0, 8.0), -np.arange(1.0, 8.0)]
    expected = [run(cache.clone(), point) for point in points]
    for point in points * 2:  # further sizes get a steady call when they come again
        same(run(cache, point), run(cache.clone(), point))
    monkeypatch.setattr(cache, "_flatten", refuse)
    for k in (0, 1, 2, 3, 2, 1, 0):
        same(run(cache, points[k]), expected[k])


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
def test_a_pattern_that_depends_on_constants_is_read_again(kind):
    f = lambda x, positions: x[positions] ** 3 * x  # noqa: E731
    cache, run = prepared(f, (ONE[0], nt.Constant(SHIFTS)), kind)
    for positions in (SHIFTS, SHIFTS, SHIFTS[::-1].copy(), SHIFTS):
        fresh, _ = prepared(f, (ONE[0], nt.Constant(positions)), kind)
        same(run(cache, ONE[0], positions), run(fresh, ONE[0], positions))


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
def test_other_constants_and_other_captured_values(kind):
    weights = np.arange(1.0, 5.0)
    f = lambda x, c: weights * c * x**2  # noqa: E731
    cache, run = prepared(f, (ONE[0], nt.Constant(2.0)), kind)
    for c in (2.0, 2.0, 3.0, 3.0, 2.0):
        fresh, _ = prepared(f, (ONE[0], nt.Constant(c)), kind)
        same(run(cache, ONE[0], c), run(fresh, ONE[0], c))
    weights[1] = 7.0
    fresh, _ = prepared(f, (ONE[0], nt.Constant(2.0)), kind)
    same(run(cache, ONE[0], 2.0), run(fresh, ONE[0], 2.0))


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
@pytest.mark.parametrize("options", [{"check": True}, {"pattern": np.ones((4, 4))}])
def test_options_hold_in_every_call(kind, options):
    cache, run = prepared(gathered, ONE, kind, **options)
    plain, _ = prepared(gathered, ONE, kind)
    for point in (ONE[0], ONE[0] + 1.0, ONE[0]):
        assert np.array_equal(run(cache, point)[-1].toarray(), run(plain, point)[-1].toarray())
