"""Ufuncs of complex numbers: values, laws, derivatives of holomorphic functions, edge points."""

import numpy as np
import pytest

import numbatape as nt
from tests.complex import laws
from tests.every_case import every

RNG = np.random.default_rng(5)
Z, W = laws.random(RNG, (3, 4)), laws.random(RNG, (3, 4))
X = RNG.normal(size=(3, 4))

# Holomorphic ufuncs and their derivatives.
SLOPES = {
    np.exp: np.exp,
    np.exp2: lambda z: np.exp2(z) * np.log(2.0),
    np.expm1: np.exp,
    np.log: lambda z: 1.0 / z,
    np.log2: lambda z: 1.0 / (z * np.log(2.0)),
    np.log10: lambda z: 1.0 / (z * np.log(10.0)),
    np.log1p: lambda z: 1.0 / (1.0 + z),
    np.sqrt: lambda z: 0.5 / np.sqrt(z),
    np.square: lambda z: 2.0 * z,
    np.reciprocal: lambda z: -1.0 / z**2,
    np.negative: lambda z: -np.ones_like(z),
    np.positive: np.ones_like,
    np.sin: np.cos,
    np.cos: lambda z: -np.sin(z),
    np.tan: lambda z: 1.0 / np.cos(z) ** 2,
    np.sinh: np.cosh,
    np.cosh: np.sinh,
    np.tanh: lambda z: 1.0 / np.cosh(z) ** 2,
    np.arcsin: lambda z: 1.0 / (np.sqrt(1.0 - z) * np.sqrt(1.0 + z)),
    np.arccos: lambda z: -1.0 / (np.sqrt(1.0 - z) * np.sqrt(1.0 + z)),
    np.arctan: lambda z: 1.0 / (1.0 + z * z),
    np.arcsinh: lambda z: 1.0 / np.sqrt(1.0 + z * z),
    np.arccosh: lambda z: 1.0 / (np.sqrt(z - 1.0) * np.sqrt(z + 1.0)),
    np.arctanh: lambda z: 1.0 / (1.0 - z * z),
}
OTHERS = (np.absolute, np.sign, np.conjugate, np.angle, np.real, np.imag)


def named(functions):
    return [pytest.param(f, id=f.__name__) for f in functions]


@pytest.mark.parametrize("f", named([*SLOPES, *OTHERS]))
def test_laws(f):
    laws.check(f, Z, tolerance=1e-14)
    laws.check(f, complex(Z[0, 1]), tolerance=1e-14)
    laws.check(f, Z[0, 1], tolerance=1e-14)


@pytest.mark.parametrize("f", named(SLOPES))
def test_holomorphic_derivative(f):
    for z in Z.reshape(-1):
        assert abs(nt.derivative(f, holomorphic=True)(z) - SLOPES[f](z)) <= 1e-13 * abs(SLOPES[f](z))
        assert abs(nt.grad(f, holomorphic=True)(z) - SLOPES[f](z)) <= 1e-13 * abs(SLOPES[f](z))


@pytest.mark.parametrize("f", named(f for f in SLOPES if f not in (np.negative, np.positive)))
def test_second_holomorphic_derivative(f):
    second = nt.derivative(nt.derivative(f, holomorphic=True), holomorphic=True)
    for z in Z[0]:
        expected = nt.derivative(SLOPES[f], holomorphic=True)(z)
        assert abs(second(z) - expected) <= 1e-11 * abs(expected)


@pytest.mark.parametrize("f", named(SLOPES))
def test_complex64_stays_single(f):
    z = Z.astype(np.complex64)
    value, pullback = nt.vjp(f, z)
    (gradient,) = pullback(np.ones_like(value))
    assert value.dtype == gradient.dtype == np.complex64
    laws.close(value, f(z), 3e-6)


# Points on cuts, near them, where things cancel, and far out: (function, point).
FAR = [(np.tanh, 800 + 2j), (np.tanh, -30 + 0.5j), (np.tan, 2 - 500j), (np.sqrt, 1e300 + 1e300j)]
CUTS = [
    (f, z)
    for f in (np.sqrt, np.log, np.log2, np.arcsin, np.arccos, np.arctanh, np.arccosh)
    for z in (-2 + 0j, complex(-2, -0.0), -2 + 1e-14j, 2 + 0j, complex(2, -0.0))
]
SMALL = [
    (f, z)
    for f in (np.expm1, np.sin, np.sinh, np.tanh, np.tan, np.arcsin, np.arctan, np.arcsinh, np.arctanh)
    for z in (0j, 1e-12 + 2e-12j, 1e-300j)
]
NEAR_ONE = [
    (np.log, 1 + 1e-9j),
    (np.log, np.exp(0.25j * np.pi)),
    (np.log, 1 + 1e-12 + 0j),
    (np.log, -1 + 1e-9j),
]


@every("f, z", [*FAR, *CUTS, *SMALL, *NEAR_ONE])
def test_edges(f, z):
    z = np.complex128(z)
    value, pullback = nt.vjp(f, z)
    expected = f(z)
    assert abs(value - expected) <= 4e-16 * abs(expected)
    beside = complex(z.real, z.imag or np.copysign(1e-300, z.imag))  # 1 - z would drop the sign of a zero
    with np.errstate(all="ignore"):
        slope = SLOPES[f](np.complex128(beside))
    if np.isfinite(slope) and abs(slope) > 1e-300:
        assert abs(pullback(1.0 + 0j)[0] - np.conj(slope)) <= 1e-13 * abs(slope)


AXES = (0.5j, -0.5j, 0.5 + 0j, 1 + 1j, -1 + 1j, -1 - 1j, 1 - 1j, 0.3 + 0.3j)


@pytest.mark.parametrize("f", named(f for f in SLOPES if f not in (np.negative, np.positive)))
def test_where_a_part_or_a_difference_is_zero(f):
    """Choices by a sign must not disturb derivatives of any order."""
    for z in map(np.complex128, AXES):
        beside = complex(z.real, z.imag or 1e-300)
        slope = SLOPES[f](np.complex128(beside))
        assert abs(nt.grad(f, holomorphic=True)(z) - slope) <= 1e-13 * abs(slope)
        second = nt.derivative(nt.derivative(f, holomorphic=True), holomorphic=True)(z)
        steps = 1e-4 * np.exp(0.7j) * np.array([-2, -1, 1, 2])
        moved = SLOPES[f](beside + steps)
        expected = (8.0 * (moved[2] - moved[1]) - (moved[3] - moved[0])) / (12e-4 * np.exp(0.7j))
        on_cut = f is np.arccosh and not z.imag
        assert on_cut or abs(second - expected) <= 1e-8 * max(abs(expected), abs(slope))


def test_log1p_of_small_numbers():
    """More accurate than NumPy's, which adds one first."""
    value = nt.vjp(np.log1p, 1e-10 + 1e-12j)[0]
    np.testing.assert_allclose([value.real, value.imag], [1e-10 - 0.5e-20, 1e-12], rtol=1e-9)


def test_size_at_zero():
    assert nt.grad(np.abs)(0j) == 0j
    np.testing.assert_array_equal(
        nt.grad(lambda z: np.sum(np.abs(z)))(np.array([0, 3 + 4j])), [0, 0.6 + 0.8j]
    )
    assert nt.vjp(np.sign, 0j)[0] == 0.0
    assert nt.grad(lambda z: np.real(z) ** 2 + np.imag(z) ** 2)(1 + 1j) == 2 + 2j


BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide}


@pytest.mark.parametrize("name", [*BINARY, "power"])
def test_two_operands(name):
    f = BINARY.get(name, np.power)
    for a, b in ((Z, W), (Z, X), (np.abs(X), W), (Z, W[0]), (Z, W[0, 0]), (Z[0, 0], W), (Z[:, :1], W[0])):
        laws.check(f, a, b, tolerance=1e-14)
    laws.check(lambda x: f(np.abs(x), 2 - 1j), X, tolerance=1e-14)
    laws.check(lambda x: f(1j, x), X, tolerance=1e-14)
    laws.check(lambda x: f(np.abs(x), W), X, tolerance=1e-14)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 8, -1, -2, 0.5, 2.5, -0.5, 1 + 1j, np.float64(1.5), 3.0])
def test_powers(exponent):
    laws.check(lambda z: z**exponent, Z)
    laws.check(lambda z: exponent**z if exponent else z, Z)


def test_powers_of_zero():
    z = np.zeros(2, complex)
    for exponent in (0, 2, 0.5, 1 + 1j):
        np.testing.assert_array_equal(nt.vjp(lambda z, p=exponent: z**p, z)[0], z**exponent)


@pytest.mark.parametrize("a", [1 + 1j, 1e300 + 1e300j, 1e-300 + 1e-200j, 0j])
@pytest.mark.parametrize("b", [1e300 + 1e300j, 1e-300 + 1e-300j, 1e200j, 3 + 0j, 1e-160 + 1e160j])
def test_quotients_far_out(a, b):
    with np.errstate(all="ignore"):
        expected = np.complex128(a) / np.complex128(b)
    value = nt.vjp(np.true_divide, a, b)[0]
    assert value == expected or abs(value - expected) <= 4e-16 * abs(expected)


def test_comparisons():
    pairs = np.array([1 + 1j, 1 + 2j, 2 + 0j]), np.array([1 + 1j, 1 + 1j, 1 + 5j])
    for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        np.testing.assert_array_equal(nt.vjp(lambda a, b, f=f: (a + 0, f(a, b)), *pairs)[0][1], f(*pairs))
    bad = np.array([np.nan, complex(0, np.inf), 1j])
    for f in (np.isnan, np.isinf, np.isfinite, np.logical_not, np.iscomplex, np.isreal):
        np.testing.assert_array_equal(nt.vjp(lambda a, f=f: (a + 0, f(a)), bad)[0][1], f(bad))


def test_weak_and_strong_types():
    z = np.complex64(1 + 2j)
    assert nt.vjp(lambda z: z * 2j + 1.0, z)[0].dtype == np.complex64
    assert nt.vjp(lambda z: z * np.complex128(2j), z)[0].dtype == np.complex128
    assert type(nt.vjp(lambda z: z * 2j, 1j)[0]) is complex
    assert nt.vjp(lambda x: 1j * x, np.ones(2, np.float32))[0].dtype == np.complex64
    assert nt.vjp(lambda x: x.astype(complex), np.ones(2))[0].dtype == np.complex128
    assert nt.vjp(lambda z: z.astype(np.complex64), np.ones(2, complex))[0].dtype == np.complex64


NUMBERS = (
    2 + 1j,
    np.complex64(1 + 2j),
    np.complex128(2j),
    2.0,
    np.float32(0.5),
    np.array([1j, 2.0], np.complex64),
)


@pytest.mark.parametrize("a", NUMBERS, ids=repr)
@pytest.mark.parametrize("b", [*NUMBERS, 3, True], ids=repr)
def test_promotion_is_numpys(a, b):
    """Python's numbers are weakly typed under operators, and not after a ufunc."""
    for f in (
        lambda x: x * b,
        lambda x: b - x,
        lambda x: np.exp(x) * b,
        lambda x: (-x + 1) ** 2 / b,
        lambda x: abs(x) * b,
        lambda x: x.conjugate() ** 2 * b,
    ):
        result = nt.vjp(f, a)[0]
        expected = f(a)
        assert np.asarray(result).dtype == np.asarray(expected).dtype
        assert isinstance(result, np.ndarray) == isinstance(expected, np.ndarray)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("f", [np.sqrt, np.log, np.exp, np.abs, np.arcsin, lambda z: z**0.5])
@pytest.mark.parametrize("z", NUMBERS[1:3], ids=repr)
def test_scalars_stay_scalars(f, z):
    for result in nt.jvp(f, (z,), (z,)):
        assert type(result) is type(f(z))


def test_zero_and_nearly_real_numbers():
    assert nt.jvp(np.sign, (0j,), (1.0,)) == (0j, 0j)
    assert nt.grad(lambda z: np.abs(z))(0j) == 0j
    close = np.array([1.0 + 1e-16j, 2.0])
    assert nt.vjp(np.real_if_close, close)[0].dtype == float
    assert nt.vjp(np.real_if_close, close + 1j)[0].dtype == complex
    assert nt.grad(lambda z: np.sum(np.abs(np.real_if_close(z))))(close).tolist() == [1.0, 1.0]


def test_order_of_pythons_complex_numbers():
    """NumPy's complex numbers are ordered, Python's are not; a truth value of NumPy's cannot be rounded."""
    for f in (lambda a: (a + 1j) > 2.0, lambda a: (a + 1j) <= 2.0, lambda a: round(np.float64(a) > 0)):
        with pytest.raises(TypeError):
            f(1.0)
        with pytest.raises(TypeError):
            nt.jvp(f, (1.0,), (1.0,))


REAL_MADE = {
    "conjugate": lambda x: np.log(np.conj(x + 0j)),
    "square": lambda x: np.sqrt((x + 0j) ** 2 - 9.0),
    "negative": lambda x: np.sqrt(-(x + 0j)),
    "negative factor": lambda x: np.log(-2.0 * (x + 0j)),
    "imaginary twice": lambda x: np.log((1j * x) * 1j),
    "quotient": lambda x: np.log((x + 0j) / -1.5),
    "one by": lambda x: np.log(1.0 / (x + 0j)),
    "reciprocal": lambda x: np.log(np.reciprocal(x + 0j)),
    "negative power": lambda x: np.log((x + 0j) ** -1) + np.sqrt((x + 0j) ** -3),
    "cosine": lambda x: np.sqrt(np.cos(x + 2.0 + 0j)),
    "hyperbolic cosine": lambda x: np.log(1.0 - np.cosh(x + 0j)),
    "difference": lambda x: np.sqrt(2.0 - 1j * (x - x) - 9.0),
    "a number with -0": lambda x: np.sqrt(x * complex(1.0, -0.0)),
    "the part itself": lambda x: np.arctan2(np.conj(x + 0j).imag, x),
    "moved": lambda x: np.log(np.conj(x + 0j)[::-1]) if np.ndim(x) else np.log(np.conj(x + 0j)),
}


@pytest.mark.parametrize("name", REAL_MADE)
def test_zeros_of_numbers_made_of_real_ones_have_numpys_signs(name):
    f = REAL_MADE[name]
    for x in (np.array([-1.7, -0.4, 0.3, 1.9]), np.array([1.7, 0.4, -0.3, -1.9]), -0.7, 1.3):
        y, pull = nt.vjp(f, x)
        np.testing.assert_allclose(y, f(x), rtol=1e-12, atol=1e-15)
        step = 1e-6
        dy = (f(x + step) - f(x - step)) / (2 * step)
        (g,) = pull(np.ones_like(y))
        np.testing.assert_allclose(np.sum(g), np.sum(np.real(dy)), rtol=1e-6, atol=1e-8)


def test_signs_of_zeros_are_those_before_a_write():
    def f(x):
        x = x * 1.0
        z = (x + 0j) * -1.0
        x[:] = -x
        return np.sum(np.log(z).imag)

    x = np.array([-1.0, 2.0])
    assert nt.value_and_grad(f)(x)[0] == f(x)


def test_long_chains_of_real_made_numbers():
    def f(x):
        z = np.conj(x + 0j)
        for _ in range(2000):
            z = -z * 1.0000001
        return np.sum(np.log(z).imag * x)

    x = np.array([-1.0, 2.0])
    assert nt.value_and_grad(f)(x)[0] == f(x)


@pytest.mark.parametrize("f", [np.arctan, np.arctanh])
def test_inverse_tangents_far_away(f):
    z = np.array([0.3 + 0.2j, 2e9 - 1e3j, -1e200 + 1e200j, complex(np.inf, 1.0), complex(0.5, -np.inf)])
    cache = nt.prepare_pullback_cache(f, np.full(5, 0.1 + 0.1j))
    value, (slope,) = nt.value_and_pullback(cache, np.ones(5, complex), z)
    np.testing.assert_allclose(value.real, f(z).real, rtol=1e-15)
    np.testing.assert_allclose(value.imag, f(z).imag, rtol=1e-15)
    known = np.conj(1.0 / (1.0 + z[:2] ** 2 * (1.0 if f is np.arctan else -1.0)))
    np.testing.assert_allclose(slope[:2], known, rtol=1e-14)
