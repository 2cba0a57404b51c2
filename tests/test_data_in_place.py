"""Products read data where callers have them: results follow what the arrays contain."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches.entry import Entry

RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(64, 40))
X = RNG.normal(size=40)


def transposed(x, m):
    return np.sum(np.tanh(m.T @ np.sin(m @ x)) * x)


def part(x, m):
    return np.sum((m[3:50, 5:] @ x[5:]) ** 2) + np.sum(np.exp(-(x[:20] @ m[:20, ::2])))


def stack(x, m):
    return np.sum(np.cos(m.reshape(4, 16, 40) @ x)) + np.sum(np.sin(m.reshape(8, 8, 40) @ x.reshape(40, 1)))


def matrices(x, m):
    return np.sum(np.tanh(m @ np.outer(x, x[:7])) @ np.ones(7) * x[0])


def branch(x, m):
    return np.sum((m @ x) ** 2) if x[0] > 0.0 else np.sum(m @ x)


PRODUCTS = {
    "vector": lambda x, m: np.sum(np.log1p((m @ x) ** 2)),
    "from the left": lambda x, m: np.sum(np.sin(np.outer(x, x)[:9] @ m.T)),
    **{f.__name__: f for f in (transposed, part, stack, matrices, branch)},
}
OTHERS = {
    "other instructions": lambda x, m: np.sum(m @ x) + np.sum(np.exp(x * m)),
    "computed once": lambda x, m: np.sum((np.exp(-np.abs(m)) @ x) ** 2),
    "both": lambda x, m: np.sum((np.sqrt(np.abs(m)) @ x) * (m @ x)),
    "a test": lambda x, m: np.sum((m @ x) ** 2) if m[0, 0] > 0.0 else np.sum(m @ x),
    "a test of a product": lambda x, m: np.sum(m @ x) if (m @ np.ones(40))[0] > 0.0 else np.sum((m @ x) ** 3),
    "entries": lambda x, m: np.sum(m @ x) * m[1, 2] + x[np.argmax(m[0])],
    "an output": lambda x, m: (np.sum(m @ x), m),
}
EVERY = PRODUCTS | OTHERS


def changed(m, k):
    """Return data for the k-th call: in the same memory, elsewhere, in other orders."""
    m[...] = DATA * (1.0 + k) * (-1.0) ** (k // 2)
    m[k, 0] = np.nan if k == 3 else k
    strided = np.zeros((64, 80))[:, ::2]
    strided[...] = m
    return (m, m, m + 0.5, np.asfortranarray(m), strided, m, m.copy())[k % 7]


@pytest.mark.parametrize("name", EVERY)
def test_results_follow_the_data(name):
    f, m = EVERY[name], DATA.copy()
    aux = name == "an output"
    verb = nt.value_and_grad(f, has_aux=aux)
    cache = nt.prepare_gradient_cache(f, X, nt.Constant(m)) if not aux else None
    for k in range(14):
        x, data = X + 0.1 * k - 0.3 * (k % 3), changed(m, k)
        expected = nt.value_and_grad(lambda x, m: f(x, m), has_aux=aux)(x, data.copy())
        for _ in range(2):
            found = verb(x, data)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-11)
            if aux:
                np.testing.assert_array_equal(found[0][1], data)
            else:
                np.testing.assert_allclose(found[0], expected[0], rtol=1e-11)
                np.testing.assert_allclose(nt.value_and_gradient(cache, x, data)[1][0], found[1], rtol=1e-11)


@pytest.mark.parametrize("name", PRODUCTS)
def test_nothing_is_compared_or_copied_for_products(name, monkeypatch):
    f, m = PRODUCTS[name], DATA.copy()
    verb = nt.grad(f)
    verb(X, m), verb(X, m)
    expected = nt.grad(lambda x, m: f(x, m))(X, 2.0 * m)
    monkeypatch.setattr(Entry, "serve", None)
    m *= 2.0
    np.testing.assert_allclose(verb(X, m), expected, rtol=1e-11)
    np.testing.assert_allclose(verb(X, m.copy()), expected, rtol=1e-11)


def test_gradients_that_are_the_data_of_the_next_call():
    """Under ``reuse_buffers`` they lie where the sweep writes the next gradient."""

    def f(w, m):
        return np.sum(np.tanh(w @ m.T) ** 2)

    w = DATA[:48]
    cache = nt.prepare_gradient_cache(f, w, nt.Constant(w), config=nt.Config(reuse_buffers=True))
    data = w
    for _ in range(4):
        expected = nt.grad(lambda w, m: f(w, m))(w, data.copy())
        (data,) = nt.value_and_gradient(cache, w, data)[1][:1]
        np.testing.assert_allclose(data, expected, rtol=1e-11)
