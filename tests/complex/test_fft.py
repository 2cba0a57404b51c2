"""``np.fft`` of traced arrays: every length, every option, gradients."""

import functools

import numpy as np
import pytest

import numbatape as nt
from numbatape.ops.fft import MORE, ROOM
from numbatape.ops.fourier_tables import factors_of, smooth, stages_of
from tests.complex import laws
from tests.every_case import every

RNG = np.random.default_rng(7)
Z, X = laws.random(RNG, (3, 4)), RNG.normal(size=(3, 4))
NORMS = (None, "backward", "ortho", "forward")
LENGTHS = {
    None: (None, 3, 7, 6)
}  # a norm is a factor that depends on the length: a given one and the own one


@every("n", [*range(1, 41), 97, 128, 1000, 1009])
def test_every_length(n):
    z, ybar = laws.random(RNG, n), laws.random(RNG, n)
    value, pullback = nt.vjp(np.fft.fft, z)
    tolerance = 1e-15 * (1.0 + np.log2(n))
    laws.close(value, np.fft.fft(z), tolerance)
    laws.close(pullback(ybar)[0], n * np.fft.ifft(ybar), tolerance)


@every("n", [*range(1, 41), 97, 128, 194, 1000, 1018])
@pytest.mark.parametrize("rows", [1, 5, 17])
def test_real_numbers_of_every_length(n, rows):
    """Spectra are NumPy's, and so are inverses; adjoints pair with the transforms of other arrays."""
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(rows, n)), rng.normal(size=(rows, n))
    half, other = np.fft.rfft(y), laws.random(rng, (rows, n // 2 + 1))
    tolerance = 1e-15 * (1.0 + np.log2(n))
    spectra, pullback = nt.vjp(np.fft.rfft, x)
    laws.close(spectra, np.fft.rfft(x), tolerance)
    laws.close(np.sum(pullback(other)[0] * y), np.sum(other * half.conj()).real, 1e-12)
    for norm in ("backward", "forward"):
        inverse = functools.partial(np.fft.irfft, n=n, norm=norm)
        numbers, pullback = nt.vjp(inverse, other)
        laws.close(numbers, inverse(other), 2 * tolerance)
        laws.close(np.sum(pullback(y)[0].conj() * half).real, np.sum(y * inverse(half)), 1e-12)
        laws.close(nt.jvp(inverse, (other,), (half,))[1], inverse(half), 2 * tolerance)


def test_lengths_of_small_factors_have_stages_of_their_own():
    """Bluestein's algorithm, which serves others, takes two transforms of twice the length."""
    assert [stages_of(n)[0] for n in (28, 30, 224, 1024, 2401)] == [28, 30, 224, 1024, 2401]
    assert [stages_of(n)[0] for n in (29, 31, 1025)] == [60, 63, 2058]


def test_real_numbers_take_half_of_a_transform():
    tape = nt.prepare_gradient_cache(lambda x: np.sum(np.fft.irfft2(np.fft.rfft2(x)) ** 2), X).tape
    names = [tape.name_of(k) for k in range(len(tape))]
    assert [name for name in names if name in ("fft", "rfft", "irfft")] == ["rfft", "fft", "fft", "irfft"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "hfft", "irfft"])
def test_one_axis(name, norm):
    f = getattr(np.fft, name)
    for n in LENGTHS.get(norm, (None, 7)):
        for axis in (-1, 0) if norm is None else (0,):
            laws.check(lambda z, n=n, axis=axis: f(z, n, axis, norm), Z)
    laws.check(lambda x: f(x, norm=norm), X)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["rfft", "ihfft"])
def test_of_real_numbers(name, norm):
    f = getattr(np.fft, name)
    for n in LENGTHS.get(norm, (None, 7)):
        laws.check(lambda x, n=n: f(x, n, axis=0, norm=norm), X)
        if norm is None:
            laws.check(lambda x, n=n: f(x, n), X)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn", "rfft2", "rfftn"])
def test_several_axes(name, norm):
    f = getattr(np.fft, name)
    x = X if name.startswith("rfft") else Z
    laws.check(lambda x: f(x, s=(4, 5), axes=(1, 0), norm=norm), x)
    if norm is None:
        laws.check(f, x)


def test_orders():
    laws.check(np.fft.fftshift, Z)
    laws.check(lambda z: np.fft.ifftshift(z, 1), Z)
    laws.check(np.fft.fftshift, X)
    laws.check(lambda x: np.fft.fft(x) * np.fft.fftfreq(4), X)


def test_single_precision():
    z = Z.astype(np.complex64)
    for f in (np.fft.fft, np.fft.ifft2, np.fft.irfft):
        value, pullback = nt.vjp(f, z)
        assert value.dtype == f(z).dtype and pullback(np.ones_like(value))[0].dtype == np.complex64
        laws.close(value, f(z), 1e-6)
    assert nt.vjp(np.fft.rfft, X.astype(np.float32))[0].dtype == np.complex64


def test_errors_are_numpys():
    with pytest.raises(ValueError, match="Invalid number of FFT data points"):
        nt.vjp(lambda x: np.fft.fft(x, 0), X)
    with pytest.raises(ValueError, match="norm"):
        nt.vjp(lambda x: np.fft.fft(x, norm="no"), X)


def test_power_spectrum():
    """Parseval: the sum of the power spectrum is n times that of squares."""

    def f(x):
        return np.sum(np.abs(np.fft.fft(x)) ** 2)

    x = RNG.normal(size=12)
    np.testing.assert_allclose(nt.grad(f)(x), 24.0 * x, rtol=1e-13)
    np.testing.assert_allclose(nt.hessian(f)(x), 24.0 * np.eye(12), atol=1e-12)


def test_second_derivatives_through_it():
    def f(x):
        return np.sum(np.abs(np.fft.fft(np.exp(1j * x))) ** 4)

    x, v, step = RNG.normal(size=6), RNG.normal(size=6), 1e-5
    expected = (nt.grad(f)(x + step * v) - nt.grad(f)(x - step * v)) / (2.0 * step)
    np.testing.assert_allclose(nt.hvp(f)(x, v), expected, rtol=1e-7)
    np.testing.assert_allclose(nt.hessian(f)(x) @ v, expected, rtol=1e-7)
    for mode in ("forward_over_reverse", "reverse_over_forward"):
        cache = nt.prepare_hessian_cache(f, x, config=nt.Config(second_order_mode=mode))
        np.testing.assert_allclose(nt.value_gradient_and_hessian(cache, x)[2] @ v, expected, rtol=1e-7)


def test_debug_mode():
    config = nt.Config(debug_mode=True, silence_debug_messages=True)
    for n in (6, 7):
        z = laws.random(RNG, n)
        cache = nt.prepare_gradient_cache(lambda z: np.sum(np.abs(np.fft.fft(z)) ** 2), z, config=config)
        laws.close(nt.value_and_gradient(cache, z)[1][0], 2 * n * z, 1e-13)


ONE_TAPE = {
    "fft": lambda x: np.sum(np.abs(np.fft.fft(x, norm="ortho")) ** 4),
    "rfft": lambda x: np.sum(np.abs(np.fft.rfft(x)) * np.fft.rfftfreq(len(x), 0.1)),
    "irfft": lambda x: np.sum(np.fft.irfft(np.fft.rfft(x), len(x)) ** 3),
    "derivative": lambda x: np.sum(np.fft.ifft(1j * np.fft.fftfreq(len(x)) * np.fft.fft(x)).real ** 2),
    "padded": lambda x: np.sum(np.fft.irfft(np.abs(np.fft.rfft(x, 2 * len(x))) ** 2)[: len(x)] ** 2),
    "cut off": lambda x: np.sum(np.abs(np.fft.fft(x, len(x) // 2)) ** 4),
    "shifted": lambda x: np.sum(np.abs(np.fft.fftshift(np.fft.fft(x))) * np.arange(len(x))),
    "two axes": lambda x: np.sum(np.abs(np.fft.fft2(np.outer(x, x[1:]))) ** 3),
}


@pytest.mark.parametrize("name", ONE_TAPE)
def test_one_trace_serves_all_lengths(name):
    f = ONE_TAPE[name]
    cache = nt.prepare_gradient_cache(f, RNG.normal(size=7))
    for n in (8, 11, 30, 97, 3):  # with and without factors beyond 5
        x = RNG.normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, nt.grad(f)(x), rtol=1e-10)
    assert cache.traces == 1


def test_one_trace_serves_all_lengths_of_single_precision():
    """The tables of lengths stay float64."""
    f = ONE_TAPE["rfft"]
    cache = nt.prepare_gradient_cache(f, np.ones(7, np.float32))
    for n in (8, 11, 77):
        x = RNG.normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x.astype(np.float32))
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(value, f(x), rtol=1e-6)
        np.testing.assert_allclose(gradient, nt.grad(f)(x), atol=1e-6 * n)
    assert cache.traces == 1


def test_computed_tables_have_room():
    """Those of all lengths, with 64 factors and the stages' scratch of four times their length."""
    for n in range(1, 2000):
        if factors_of(n) is not None:
            assert 2 + 64 + 4 * n <= ROOM * n + MORE
        else:
            assert 2 + 64 + 4 * smooth(2 * n - 1) + 2 * n <= ROOM * n + MORE


def test_batched():
    points = RNG.normal(size=(5, 6))
    values, gradients = nt.batch(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(points)
    np.testing.assert_allclose(values, 6.0 * np.sum(points**2, 1), rtol=1e-13)
    np.testing.assert_allclose(gradients, 12.0 * points, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6, 7, 16, 45, 97])
def test_transforms_side_by_side_have_the_bits_of_single_ones(n):
    z, ybar = laws.random(RNG, (11, n)), laws.random(RNG, (11, n))
    alone = nt.prepare_pullback_cache(np.fft.fft, z[0])
    expected = [nt.value_and_pullback(alone, *row) for row in zip(ybar, z, strict=True)]
    for axis in (0, 1):
        cache = nt.prepare_pullback_cache(
            lambda z, k=axis: np.fft.fft(z, axis=1 - k), np.moveaxis(z, axis, 0)
        )
        value, (zbar,) = nt.value_and_pullback(cache, np.moveaxis(ybar, axis, 0), np.moveaxis(z, axis, 0))
        np.testing.assert_array_equal(np.moveaxis(value, 0, axis), [its for its, _ in expected])
        np.testing.assert_array_equal(np.moveaxis(zbar, 0, axis), [its for _, (its,) in expected])


def test_one_operand_for_several_transforms():
    """The adjoint of what is broadcast is a sum over the transforms."""
    x, w = RNG.normal(size=6), RNG.normal(size=(9, 6))

    def f(x):
        return np.sum(w * np.fft.fft(np.broadcast_to(x, (9, 6)) + 1j * w).real)

    np.testing.assert_allclose(nt.grad(f)(x), np.fft.fft(w).real.sum(0), rtol=1e-12)
