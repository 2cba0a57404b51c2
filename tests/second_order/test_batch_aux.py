"""``nt.batch(f, has_aux=True)``: values and derivatives are those of the value alone, aux is stacked."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.trace import pytrees

POINTS = np.arange(6.0).reshape(3, 2) + 0.5


def aux_of(x):
    return {"twice": x * 2, "pair": (np.sum(x), 3), "rows": np.arange(2), "spin": np.exp(1j * x)}


def untraceable(x):
    """A rule whose pullback is no plain function: the reverse sweep calls it."""
    return nt.primitive(
        np.sin, pullback=lambda y, dy, x: (dy * np.array([float(np.cos(e)) for e in np.ravel(x)]),)
    )(x)


VALUES = {
    "gradient": lambda x: np.sum(x**2),
    "columns": lambda x: np.stack([x[0], x[1], x[0] * x[1]]),
    "rows": lambda x: x[:1] * x[1],
    "complex": lambda x: np.exp(1j * x),
    "constant": lambda x: 2.0,
    "swept back": lambda x: np.sum(untraceable(x)),
    "branch": lambda x: np.sum(x**2) if x[0] > 1.0 else x[1],
}


def same(found, expected):
    pairs = zip(pytrees.leaves(found), pytrees.leaves(expected), strict=True)
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("kind", VALUES)
def test_values_derivatives_and_aux(kind, count):
    points, value = POINTS[:count], VALUES[kind]
    mapped = nt.batch(lambda x: (value(x), aux_of(x)), has_aux=True)
    expected = nt.batch(value)(points)
    for _ in range(2):  # the second call is steady
        (values, aux), derivatives = mapped(points)
        same((values, derivatives), expected)
        same(aux, nt.vmap(aux_of)(points))


def test_inside_of_a_trace():
    mapped = nt.batch(lambda x: (np.sum(x**3), np.sum(x)), has_aux=True)

    def f(points):
        (values, sums), gradients = mapped(points)
        return np.sum(values) + np.sum(sums) + np.sum(gradients)

    np.testing.assert_allclose(nt.grad(f)(POINTS), 3 * POINTS**2 + 1 + 6 * POINTS, rtol=1e-14)


def test_values_alone():
    values, aux = nt.batch(lambda x: (np.sum(x), x), has_aux=True, value_only=True)(POINTS)
    same((values, aux), (np.sum(POINTS, axis=1), POINTS))


@pytest.mark.parametrize("value_only", [False, True])
@pytest.mark.parametrize(
    "f, message",
    [(np.sum, "needs a function that returns .value, aux."), (lambda x: (x[0], "text"), "returns a str")],
    ids=["no pair", "text"],
)
def test_what_is_refused(f, message, value_only):
    with pytest.raises(nt.OutputError, match=message):
        nt.batch(f, has_aux=True, value_only=value_only)(POINTS)
