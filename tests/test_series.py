"""A pandas Series as an argument: the function gets its array, and gradients are Series like it."""

import numpy as np
import pytest

import numbatape as nt

pd = pytest.importorskip("pandas")

S = pd.Series([1.0, 2.0, 3.0], index=list("abc"), name="weight")


def loss(x):
    w = np.zeros(3)
    w[:] = x**3
    return np.sum(w) * x[0]


def test_gradients_are_series():
    expected = nt.grad(loss)(S.to_numpy())
    gradient = nt.grad(loss)
    for _ in range(3):
        found = gradient(S)
        pd.testing.assert_series_equal(found, pd.Series(expected, S.index, name="weight"))
    moved = S.set_axis(list("xyz"))  # the same tape, other labels
    assert list(gradient(moved).index) == list("xyz") and list(gradient(S).index) == list("abc")


def test_other_verbs():
    values = S.to_numpy()
    assert np.allclose(nt.hvp(loss)(S, S), nt.hvp(loss)(values, values))
    assert np.allclose(nt.jvp(loss, (S,), (S,))[1], nt.jvp(loss, (values,), (values,))[1])
    assert np.allclose(nt.jacobian(np.sin)(S), np.diag(np.cos(values)))
    assert np.allclose(nt.hessian(loss)(S), nt.hessian(loss)(values))
    (cotangent,) = nt.vjp(np.sin, S)[1](np.ones(3))
    assert isinstance(cotangent, pd.Series) and np.allclose(cotangent, np.cos(values))


def test_in_containers_and_as_constants():
    found = nt.grad(lambda p, data: np.sum(p["s"] * data) * p["k"])({"s": S, "k": 2.0}, S + 1)
    pd.testing.assert_series_equal(found["s"], 2 * (S + 1))
    counts = pd.Series([1, 2, 3])
    assert nt.grad(lambda x, n: np.sum(x * n))(2.0, counts) == 6.0
    cache = nt.prepare_gradient_cache(lambda x, y: np.sum(x * y), S, nt.Constant(S))
    assert np.allclose(nt.value_and_gradient(cache, S, 3 * S)[1][0], 3 * S)
    vector, unflatten = nt.flatten({"s": S})
    pd.testing.assert_series_equal(unflatten(2 * vector)["s"], 2 * S)


def test_integers_and_text():
    with pytest.raises(nt.DtypeError, match=r"argument 0 .* is int64: only float64 and float32"):
        nt.grad(np.sum)(pd.Series([1, 2]))
    with pytest.raises(nt.DtypeError, match=r"dtype .* is not supported"):
        nt.grad(lambda x, names: x)(1.0, pd.Series(["a", "b"], dtype=object))
