"""Convolutions are one instruction, for all lengths, dimensions and orders of derivatives."""

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import numbatape as nt
from numbatape import testing

RNG = np.random.default_rng(8)
FUNCTIONS = {
    "full": lambda x, w: np.convolve(x, w),
    "same": lambda x, w: np.convolve(x, w, "same"),
    "valid": lambda x, w: np.correlate(x, w),
    "image": lambda x, w: scipy.signal.convolve2d(x[:, None] * x, w[:, None] * w, "same"),
    "volume": lambda x, w: scipy.signal.convolve(
        x[:, None, None] * x[:, None], w[:2, None, None] * w[:, None]
    ),
    "volume in volume": lambda x, w: scipy.signal.convolve(w[:, None, None] * w[:, None], x[:, None, None]),
    "filter": lambda x, w: scipy.ndimage.correlate1d(x[:, None] * x, w, axis=0),
    "of itself": lambda x, w: np.convolve(x, x) * w[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name):
    def f(x, w):
        return np.sum(np.sin(FUNCTIONS[name](x, w)))

    testing.check_derivatives(f, RNG.normal(size=11), RNG.normal(size=5), order=2)


def test_one_instruction_serves_all_lengths():
    def f(x, w):
        return np.sum(np.convolve(x, w) ** 2)

    cache = nt.prepare_gradient_cache(f, np.ones(7), np.ones(3))
    assert [row["op"] for row in cache.profile(1)] == ["convolution", "dot"]
    for n, k in ((30, 5), (4, 4), (100, 1)):
        x, w = RNG.normal(size=n), RNG.normal(size=k)
        value, (of_x, of_w) = nt.value_and_gradient(cache, x, w)
        z = np.convolve(x, w)
        np.testing.assert_allclose(value, np.sum(z**2))
        np.testing.assert_allclose(of_x, 2 * np.correlate(z, w))
        np.testing.assert_allclose(of_w, 2 * np.correlate(z, x))
    assert len(cache.guards().traces) == 1


def test_a_zero_cotangent_adds_nothing_beside_an_infinite_entry():
    def f(x, w):
        return np.convolve(x, w, "valid")[0]

    config = nt.Config(strong_zero=True)
    x, w = np.array([1.0, 2.0, np.inf]), np.array([3.0, 4.0])
    _, (of_x, of_w) = nt.value_and_gradient(nt.prepare_gradient_cache(f, x, w, config=config), x, w)
    np.testing.assert_array_equal(of_x, [4.0, 3.0, 0.0])
    np.testing.assert_array_equal(of_w, [2.0, 1.0])


def test_an_array_that_becomes_empty_raises_as_in_numpy():
    for function in (np.convolve, np.correlate):
        f = lambda x, w, of=function: np.sum(of(x, w, "valid"))  # noqa: E731
        cache = nt.prepare_gradient_cache(f, np.ones(3), np.ones(2))
        with pytest.raises(ValueError, match="cannot be empty"):
            nt.value_and_gradient(cache, np.ones(3), np.ones(0))


def test_complex_correlations_with_larger_images_are_scipys():
    def f(x):
        z = scipy.signal.correlate2d(x * (1.0 + 0.5j), np.arange(6.0).reshape(2, 3) * (1.0 - 2.0j), "valid")
        return np.sum(z.real + 3.0 * z.imag)

    x = RNG.normal(size=(1, 2))
    value, gradient = nt.value_and_grad(f)(x)
    np.testing.assert_allclose([value, np.sum(gradient * x)], f(x))
