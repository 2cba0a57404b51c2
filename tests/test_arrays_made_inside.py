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


WRITERS = {
    "cumsum": lambda w: np.cumsum(w, out=w),
    "cumprod": lambda w: np.cumprod(w, out=w),
    "clip": lambda w: np.clip(w, 0.0, 1.5, out=w),
    "sum": lambda w: np.sum(np.ones((3, 2)), axis=0, out=w),
    "dot": lambda w: np.dot(np.ones((2, 2)), w.copy(), out=w),
    "concatenate": lambda w: np.concatenate([[4.0], [5.0]], out=w),
    "partition": lambda w: w.partition(0),
    "flat": lambda w: w.flat.__setitem__(0, 9.0),
    "view": lambda w: w.view(np.float64).__setitem__(1, 9.0),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_operands_that_numpy_writes_to_between_two_uses(writer):
    """Nothing tells the trace of these writes: each use of an array is with what it contains then."""

    def f(x):
        w = np.array([2.0, 1.0])
        before = np.sum(w * x)
        WRITERS[writer](w)
        return np.dot(x, w) + before**2

    x = np.array([0.3, 1.7])
    np.testing.assert_allclose(nt.value_and_grad(f)(x)[0], f(x), rtol=1e-14)


def test_complex_operands_that_numpy_writes_to_between_two_uses():
    def f(x):
        w = np.array([2.0, 1.0 + 0.5j])
        before = np.abs(np.sum(w * x))
        np.cumsum(w, out=w)
        return np.abs(np.sum(w * x)) + before**2

    x = np.array([0.3, 1.7])
    np.testing.assert_allclose(nt.value_and_grad(f)(x)[0], f(x), rtol=1e-14)
