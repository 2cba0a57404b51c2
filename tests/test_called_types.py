"""NumPy's scalar types as functions: ``np.float64(x)`` of a traced value is what ``x.astype`` gives."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.testing import check_derivatives

X = np.array([1.3, 2.6])
FLOATS = {
    "of a number": lambda x: np.float64(x[0]) * x[1],
    "of an array": lambda x: np.sum(np.double(x) * x),
    "in a function inside": lambda x: (lambda: np.float64(x[0]) ** 2)(),
    "in a comprehension": lambda x: sum([np.float64(v) ** 2 for v in x]),
    "of a complex number": lambda x: np.complex128(x[0] + 1j * x[1]).imag * x[0],
    "beside the type": lambda x: np.float64(x[0]) * np.ones(2, dtype=np.float64)[0],
}
DATA = {
    "as a factor": lambda x: np.int64(x[1]) * x[0],
    "as an index": lambda x: np.arange(10.0)[np.intp(x[1])] * x[0],
    "as a condition": lambda x: x[0] if np.bool_(x[0] > 1.0) else x[1],
    "of an array": lambda x: np.sum(np.int32(x)) * x[0],
}


@pytest.mark.parametrize("f", FLOATS.values(), ids=FLOATS)
def test_a_conversion_to_floats_has_a_derivative(f):
    assert nt.value_and_grad(f)(X)[0] == f(X)
    check_derivatives(f, X)


@pytest.mark.parametrize("f", DATA.values(), ids=DATA)
def test_a_conversion_to_integers_is_data(f):
    for x in (X, X + 1.0):
        value, gradient = nt.value_and_grad(f)(x)
        assert value == f(x)
        np.testing.assert_allclose(gradient, [f(x) / x[0], 0.0], rtol=1e-14)


def test_float32_rounds():
    value, gradient = nt.value_and_grad(lambda x: np.float64(np.float32(x[0])))(X)
    assert value == np.float32(1.3)
    np.testing.assert_array_equal(gradient, [1.0, 0.0])


def test_a_size_stays_symbolic():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x) / np.float64(x.size), np.ones(4))
    for n in (5, 6, 7):
        value, (gradient,) = nt.value_and_gradient(cache, np.ones(n))
        assert value == 1.0
        np.testing.assert_array_equal(gradient, np.full(n, 1.0 / n))
    assert cache._program.traces == 1


def test_the_types_themselves_stay_types():
    def f(x):
        assert isinstance(x[0], np.float64)
        assert np.float64.__name__ == "float64"
        assert np.float64("2.5") == 2.5
        return np.sum(x.astype(np.float64))

    np.testing.assert_array_equal(nt.grad(f)(X), np.ones(2))


def test_a_memoryview_of_an_array_of_the_trace_is_refused():
    def f(x):
        made = np.zeros(2)
        made[0] = x[0]
        return np.sum(np.asarray(memoryview(made)))

    with pytest.raises(nt.UnsupportedOperationError, match="memoryview"):
        nt.grad(f)(X)
