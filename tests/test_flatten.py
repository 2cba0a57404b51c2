"""`nt.flatten`: a container of arrays as a vector and back, outside and inside of traced functions."""

import collections
import dataclasses
import pickle

import numpy as np
import optree
import pytest

import numbatape as nt

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Weights:
    bias: float
    matrix: np.ndarray


TREES = {
    "array": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "number": 2.0,
    "zero dimensions": np.array(2.0),
    "dictionary": {"b": np.array([1.0, 2.0]), "a": 3.0},
    "nested": {"layers": [{"w": np.ones((2, 2))}, {"w": np.arange(3.0)}], "scale": np.float64(2.0)},
    "named tuple": Pair(np.ones(2), (1.0, np.zeros((1, 2)))),
    "dataclass": Weights(0.5, np.ones((2, 2))),
    "single": {"x": np.ones(2, np.float32), "y": np.float32(3.0)},
    "mixed": {"x": np.ones(2, np.float32), "y": np.arange(2.0)},
    "not only floats": {"n": 3, "name": "model", "x": np.ones(2), "rows": np.arange(2)},
    "nothing": {"n": 3},
    "empty array": {"x": np.zeros((0, 2)), "y": 1.0},
}


def leaves(tree):
    nt.flatten(tree)  # registers the dataclass
    return optree.tree_flatten(tree, none_is_leaf=True, namespace="numbatape")


def same(a, b):
    (first, structure), (second, other) = leaves(a), leaves(b)
    assert structure == other
    for x, y in zip(first, second, strict=True):
        assert isinstance(y, type(x)) and np.array_equal(x, y)
        assert not isinstance(x, np.ndarray) or (x.dtype, x.shape) == (y.dtype, y.shape)


@pytest.mark.parametrize("name", TREES)
def test_back_again(name):
    vector, unflatten = nt.flatten(TREES[name])
    same(TREES[name], unflatten(vector))
    assert vector.shape == (unflatten.size,) == (len(unflatten.names),)
    assert np.array_equal(nt.flatten(unflatten(vector))[0], vector)
    same(unflatten(vector), pickle.loads(pickle.dumps(unflatten))(vector))


@pytest.mark.parametrize("name", [name for name in TREES if name != "nothing"])
def test_gradients_in_both_directions(name):
    """Through ``unflatten`` a gradient is the flattened gradient; through ``flatten`` the unflattened one."""
    vector, unflatten = nt.flatten(TREES[name])
    weights = np.cos(np.arange(vector.size)).astype(vector.dtype)

    def of_vector(v):
        return np.sum(weights * v**2)

    def of_tree(tree):
        return of_vector(nt.flatten(tree)[0])

    expected = 2 * weights * vector
    there_and_back = nt.grad(lambda v: of_tree(unflatten(v)))(vector)
    assert np.allclose(there_and_back, expected, rtol=1e-6)
    gradient = nt.grad(of_tree)(TREES[name])
    assert np.allclose(nt.flatten(gradient)[0], expected, rtol=1e-6)


def test_hessians_are_those_of_the_vector():
    start = {"a": 0.5, "b": np.array([1.0, 2.0])}
    vector, unflatten = nt.flatten(start)

    def of_tree(p):
        return np.sin(p["a"]) * np.sum(p["b"] ** 3)

    by_hand = nt.hessian(lambda v: np.sin(v[0]) * np.sum(v[1:] ** 3))(vector)
    assert np.allclose(nt.hessian(lambda v: of_tree(unflatten(v)))(vector), by_hand)
    assert np.allclose(nt.jacobian(lambda v: nt.flatten(nt.grad(of_tree)(unflatten(v)))[0])(vector), by_hand)


def test_an_array_that_the_function_writes_to():
    def f(p):
        w = np.zeros(2)
        w[0] = p["a"] ** 2
        vector, unflatten = nt.flatten({"w": w, "b": p["b"]})
        return np.sum(vector**2) + unflatten(vector)["w"][0]

    gradient = nt.grad(f)({"a": 3.0, "b": np.ones(2)})
    assert gradient["a"] == 4 * 27.0 + 6.0
    assert np.array_equal(gradient["b"], [2.0, 2.0])


def test_leading_axes():
    _, unflatten = nt.flatten({"a": 1.0, "b": np.ones((2, 2)), "n": 7})
    draws = np.arange(4 * 3 * 5.0).reshape(4, 3, 5)
    found = unflatten(draws)
    assert found["a"].shape == (4, 3) and found["b"].shape == (4, 3, 2, 2) and found["n"] == 7
    assert np.array_equal(found["b"][2, 1], unflatten(draws[2, 1])["b"])


def test_names():
    _, unflatten = nt.flatten({"mu": 1.0, "theta": [np.zeros((1, 2)), 3.0], "fit": Weights(1.0, np.ones(1))})
    assert unflatten.names == (
        *("fit.bias", "fit.matrix[0]", "mu", "theta[0][0,0]", "theta[0][0,1]", "theta[1]"),
    )
    assert nt.flatten(np.zeros(2))[1].names == ("x[0]", "x[1]")


def test_a_prepared_cache_traces_once():
    vector, unflatten = nt.flatten({"a": 1.0, "b": np.ones(2)})
    cache = nt.prepare_gradient_cache(lambda v: unflatten(v)["a"] * np.sum(unflatten(v)["b"]), vector)
    for factor in (1.0, 2.0, 3.0):
        value, (gradient,) = nt.value_and_gradient(cache, factor * vector)
        assert value == 2 * factor**2 and np.array_equal(gradient, factor * np.array([2.0, 1.0, 1.0]))
    assert cache.traces == 1


def test_the_vector_is_divided_as_in_each_call():
    """Parts of other lengths may have as many numbers together."""

    def f(a, b):
        vector, unflatten = nt.flatten({"a": a, "b": b})
        return np.sum(unflatten(vector**2)["b"])

    cache = nt.prepare_gradient_cache(f, np.ones(2), np.ones(3))
    for n in (3, 1, 2, 0, 5):
        a, b = np.arange(float(n)), np.arange(1.0, 6.0 - n)
        value, slopes = nt.value_and_gradient(cache, a, b)
        np.testing.assert_allclose(value, np.sum(b**2))
        np.testing.assert_allclose(np.concatenate(slopes), np.concatenate([0.0 * a, 2.0 * b]))


def test_errors():
    _, unflatten = nt.flatten({"a": 1.0, "b": np.ones(2)})
    with pytest.raises(nt.SpecError, match=r"a vector of 3 entries.* got shape \(2,\)"):
        unflatten(np.ones(2))
    with pytest.raises(nt.SpecError, match=r"got shape \(\)"):
        unflatten(1.0)
    with pytest.raises(nt.SpecError, match="a vector of 3 entries"):
        nt.grad(lambda v: unflatten(v)["a"])(np.ones(4))
    with pytest.raises(nt.DtypeError, match="z is complex"):
        nt.flatten({"z": 1j * np.ones(2)})


def test_a_class_of_numbers_is_no_number():
    vector, unflatten = nt.flatten([np.float64, 1.0])
    assert vector.tolist() == [1.0]
    assert unflatten(vector)[0] is np.float64
