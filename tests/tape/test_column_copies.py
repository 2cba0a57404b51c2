"""Columns and short rows are copied before instructions read them, where that costs less."""

import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape.config import PASSES, STRIPS

RNG = np.random.default_rng(7)
X, W = RNG.normal(size=(80, 4)), RNG.normal(size=80)
WITHOUT = nt.Config(passes=(*(name for name in PASSES if name != "columns"), STRIPS))
COLUMNS = nt.Config(passes=("columns",))


def function_of_a_column(x, w):
    return np.sum(np.exp(x[:, 1]) * W)


def several_readers(x, w):
    return np.sum((x[:, 0] + W) * x[:, 0] - x[:, 2]) + np.sum(w / x[:, 2] ** 2)


def column_times_number(x, w):
    return np.sum(np.exp(w[3] * x[:, 2] - W**2))


def short_rows(x, w):
    return np.sum(np.tanh(x[:, 1:3]) * w[:, None] + x[:, :2])


def backwards(x, w):
    return np.sum(np.log1p(w[::-1] ** 2) * np.sin(w)[::-1])


def written_between(x, w):
    y = x * 2.0
    first = np.sin(y[:, 0])
    y[:, 0] = w**2
    return np.sum(first * np.sin(y[:, 0]))


def without_derivative(x, w):
    return np.sum(np.exp(nt.stop_gradient(x)[:, 1]) * x[:, 1] * w)


def groups_of_rows(x, w):
    table = x.reshape(-1, 5, 1) * w[:3]
    return np.sum(scipy.special.logsumexp(table, axis=1) ** 2)


FUNCTIONS = [
    *(function_of_a_column, several_readers, column_times_number, short_rows, backwards, written_between),
    without_derivative,
    groups_of_rows,
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_derivatives_are_the_same_with_copies(f):
    """Also those of second order, whose directions are in lanes."""
    caches = [nt.prepare_gradient_cache(f, X, W, config=config) for config in (None, WITHOUT)]
    for x, w in ((X, W), (-X, W**2)):
        results = [nt.value_and_gradient(cache, x, w) for cache in caches]
        assert results[0][0] == results[1][0] == pytest.approx(f(x, w), rel=1e-14)
        for one, other in zip(results[0][1], results[1][1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-300)
    hessians = [nt.hessian(lambda w, f=f: f(X, w))(W), nt.jacobian(nt.grad(lambda w, f=f: f(X, w)))(W)]
    np.testing.assert_allclose(*hessians, rtol=1e-10, atol=1e-12)


def copies(f, *args, config=COLUMNS):
    tape = nt.prepare_gradient_cache(f, *args, config=config).tape
    return [tape.name_of(k) for k in range(len(tape))].count("copy")


def test_what_is_copied():
    assert copies(function_of_a_column, X, W) == 1
    assert copies(several_readers, X, W) == 2
    assert copies(column_times_number, X, W) == 1
    assert copies(short_rows, X, W) == 1
    assert copies(groups_of_rows, X, W) == 1
    # one product, whole arrays, what is broadcast, what is transposed, a few entries
    assert copies(lambda x, w: np.sum(x[:, 1] * w), X, W) == 0
    assert copies(lambda x, w: np.sum(np.exp(x) + np.exp(w)[:, None]), X, W) == 0
    assert copies(lambda x, w: np.sum(np.exp(x.T) * w), X, W) == 0
    assert copies(lambda x, w: np.sum(np.exp(x[:6, 1])), X, W) == 0


def test_a_column_of_data_is_copied_when_the_data_change():
    cache = nt.prepare_gradient_cache(lambda a, x: np.sum(np.exp(a[0] * x[:, 1])), W[:3], nt.Constant(X))
    tape = cache.tape
    assert [tape.name_of(k) for k in range(tape.prologue)].count("copy") == 1
    for x in (X, 2.0 * X):
        assert nt.value_and_gradient(cache, W[:3], x)[0] == pytest.approx(np.sum(np.exp(W[0] * x[:, 1])))
