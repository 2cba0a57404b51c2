"""Arrays that a function makes, and writes to, in arithmetic and casts."""

import operator

import numpy as np
import pytest

import numbatape as nt


@pytest.mark.parametrize(
    "apply", [operator.pow, operator.truediv, operator.floordiv, operator.mod, operator.lt]
)
@pytest.mark.parametrize("other", [2, 1.5, np.float64(2.0), [1.0, 2.0, 3.0]], ids=repr)
def test_operators_of_arrays_made_inside(apply, other):
    def f(x):
        made = np.array([1.0, 2.0, 4.0])
        made[1] = 3.0
        x[0] = made[2]
        return np.sum(x * apply(made, other)) + np.sum(x * apply(other, made))

    x = np.array([0.3, 0.4, 0.5])
    np.testing.assert_allclose(nt.value_and_grad(f)(x)[0], f(x.copy()), rtol=1e-13)
    made = np.array([1.0, 3.0, 4.0])
    expected = (apply(made, other) + np.multiply(1.0, apply(other, made))) * [0, 1, 1]
    np.testing.assert_allclose(nt.grad(f)(x), expected, rtol=1e-13)


def test_a_float_of_pythons_written_to_float32():
    def f(x, q):
        x[0] = 4.0 * q
        x[1:] += q
        return np.sum(x)

    x = np.array([0.3, 0.4, 0.5], np.float32)
    value, (gx, gq) = nt.value_and_grad(f, argnums=(0, 1))(x, 0.25)
    assert value == f(x.copy(), 0.25) and type(value) is np.float32
    assert gx.tolist() == [0.0, 1.0, 1.0] and gq == 6.0
