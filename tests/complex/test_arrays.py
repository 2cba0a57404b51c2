"""NumPy's functions of complex arrays."""

import cmath

import numpy as np
import pytest
import scipy.fft

import numbatape as nt
from tests.complex import laws

RNG = np.random.default_rng(6)
Z, W = laws.random(RNG, (3, 4)), laws.random(RNG, (3, 4))
X = RNG.normal(size=(3, 4))
S, B = laws.random(RNG, (3, 3)) + np.eye(3), laws.random(RNG, (3, 2))

ONE = {
    "reshape": lambda z: z.reshape(4, 3),
    "ravel": np.ravel,
    "ravel, small letters": lambda z: z.ravel("f") + z.T.ravel("a"),
    "T": lambda z: z.T,
    "H": lambda z: z.conj().T,
    "mT": lambda z: z.mT,
    "flip": np.flip,
    "roll": lambda z: np.roll(z, 2, 1),
    "pad": lambda z: np.pad(z, 1, constant_values=1j),
    "slice": lambda z: z[1:, ::2],
    "entries": lambda z: z[[0, 2, 0]],
    "mask": lambda z: z[X > 0],
    "concatenate": lambda z: np.concatenate([z, 2 * z, X]),
    "stack": lambda z: np.stack([z, 1j * z], axis=1),
    "block": lambda z: np.block([[z, z], [X, 1j * z]]),
    "split": lambda z: np.split(z, 2, 1)[1] * 1j,
    "append": lambda z: np.append(z, 1j),
    "where": lambda z: np.where(X > 0, z, 2j * z),
    "select": lambda z: np.select([X > 0, X < -1], [z, 2 * z], 0),
    "tril": np.tril,
    "diag": lambda z: np.diag(z[0]),
    "trace": lambda z: np.trace(z[:, :3]),
    "diff": np.diff,
    "take": lambda z: np.take(z, [1, 1], axis=1),
    "tile": lambda z: np.tile(z, (2, 1)),
    "repeat": lambda z: np.repeat(z, 2, 0),
    "broadcast_to": lambda z: np.broadcast_to(z[0], (3, 4)) * 1,
    "meshgrid": lambda z: np.meshgrid(z[0], X[1])[0],
    "array": lambda z: np.array([z[0, 0], 2 * z[1, 1], 1j]),
    "sum": lambda z: np.sum(z, 0),
    "sum all": np.sum,
    "mean": lambda z: z.mean(axis=1),
    "average": lambda z: np.average(z, axis=0, weights=[1, 2, 3]),
    "prod": lambda z: np.prod(z, 1),
    "prod all": np.prod,
    "cumsum": lambda z: np.cumsum(z, 1),
    "cumprod": lambda z: np.cumprod(z, 0),
    "add.reduce": np.add.reduce,
    "var": lambda z: np.var(z, 0),
    "std": np.std,
    "norm": np.linalg.norm,
    "norm of rows": lambda z: np.linalg.norm(z, axis=1),
    "norm fro": lambda z: np.linalg.norm(z, "fro", (0, 1)),
    "norm 1": lambda z: np.linalg.norm(z, 1, axis=0),
    "vector_norm": lambda z: np.linalg.vector_norm(z, axis=0, keepdims=True),
    "matrix_norm": np.linalg.matrix_norm,
    "multiply.outer": lambda z: np.multiply.outer(z[0], z[1]),
    "angle": lambda z: np.angle(z, deg=True),
    "polyval": lambda z: np.polyval([1.0, 2j, 3], z),
    "polyval of coefficients": lambda z: np.polyval(z[0], 0.5 + 0.5j),
    "vander": lambda z: np.vander(z[0]),
    "linspace": lambda z: np.linspace(z[0], z[1], 5),
    "real and imag": lambda z: z.real * z.imag,
    "nested calls": lambda z: np.sum(np.abs(z @ z.conj().T) ** 2),
}
TWO = {
    name: getattr(np, name)
    for name in ("dot", "vdot", "inner", "outer", "kron", "convolve", "correlate", "vecdot")
}


@pytest.mark.parametrize("name", ONE)
def test_one_array(name):
    laws.check(ONE[name], Z)


@pytest.mark.parametrize("name", TWO)
def test_products_of_vectors(name):
    for a, b in ((Z[0], W[0]), (Z[0], X[0]), (X[0], W[0])):
        laws.check(TWO[name], a, b)
    laws.check(lambda x: TWO[name](x, W[0]), X[0])


def test_products_of_matrices():
    laws.check(np.matmul, Z, W.T)
    laws.check(lambda a, b: a @ b, X, W.T)
    laws.check(lambda b: X @ b, W.T)
    laws.check(lambda a, b: np.einsum("ij,kj->ik", a, b), Z, W)
    laws.check(lambda a, b: np.einsum("ij,kj,ij->ik", a, b, a), Z, W)
    laws.check(lambda a, b: np.tensordot(a, b, ((1,), (1,))), Z, W)
    laws.check(lambda a: np.linalg.matrix_power(a, 3), S)
    laws.check(lambda a: np.linalg.multi_dot([a, a, B]), S)


def test_linear_algebra():
    laws.check(np.linalg.solve, S, B)
    laws.check(np.linalg.solve, S, Z[:, 0])
    laws.check(np.linalg.solve, S.real, Z[:, 0])
    laws.check(np.linalg.solve, np.stack([S, S.T]), np.stack([B, B]))
    laws.check(np.linalg.inv, S)
    laws.check(np.linalg.inv, np.stack([S, S.T]))
    laws.check(np.linalg.det, S)
    laws.check(np.linalg.det, np.stack([S, S.T]))
    laws.check(np.linalg.det, S[[1, 0, 2]])
    laws.check(lambda a: np.linalg.slogdet(a)[1], S)
    laws.check(lambda a: np.linalg.slogdet(a)[0], S)


def test_determinant_takes_other_pivots_without_another_trace():
    cache = nt.prepare_pullback_cache(np.linalg.det, S)
    for matrix in (S[[1, 0, 2]], S[[2, 1, 0]], S.T):
        value, (gradient,) = nt.value_and_pullback(cache, 1.0, matrix)
        laws.close(value, np.linalg.det(matrix), 1e-13)
        laws.close(gradient, np.conj(np.linalg.det(matrix) * np.linalg.inv(matrix).T), 1e-12)
    assert cache.traces == 1


def test_norm_has_second_derivatives_where_a_part_is_zero():
    def f(x):
        return np.linalg.norm(x[:2] + 1j * x[2:])

    x = np.array([3.0, 4.0, 0.0, 0.0])
    np.testing.assert_allclose(nt.hessian(f)(x), np.eye(4) / 5.0 - np.outer(x, x) / 125.0, atol=1e-15)


def test_sizes_stay_symbolic():
    cache = nt.prepare_gradient_cache(lambda z: np.sum(np.abs(np.exp(1j * z)) ** 2), np.ones(3, complex))
    for n in (3, 5, 8):
        z = laws.random(RNG, n)
        value, (gradient,) = nt.value_and_gradient(cache, z)
        laws.close(value, np.sum(np.exp(-2.0 * z.imag)), 1e-14)
        laws.close(gradient, -2j * np.exp(-2.0 * z.imag), 1e-14)
    assert cache.traces == 1


def test_questions():
    def f(z):
        assert z.shape == (3, 4) and z.ndim == 2 and z.size == 12 and z.dtype == complex and len(z) == 3
        assert np.shape(z) == (3, 4) and np.iscomplexobj(z) and not np.iscomplexobj(z.real)
        assert z.nbytes == 192 and z.itemsize == 16 and np.result_type(z) is np.dtype(complex)
        assert repr(z).startswith("array(")
        assert np.zeros_like(z).dtype == complex
        assert np.allclose(z, Z) and np.array_equal(z, Z)
        rows = [np.sum(row) for row in z]
        return sum(rows)

    laws.check(lambda z: f(z) if not isinstance(z, np.ndarray) else np.sum(z), Z)


def test_stand_ins():
    """``cmath`` and ``scipy.fft`` never reach a protocol."""
    assert abs(nt.grad(lambda x: abs(cmath.exp(1j * x) * cmath.sqrt(-x)) ** 2)(2.0) - 1.0) < 1e-15
    slope = nt.grad(lambda z: cmath.log(z, 2.0) + cmath.acos(z), holomorphic=True)(1 + 1j)
    assert abs(slope - (1 / ((1 + 1j) * np.log(2.0)) - 1 / (np.sqrt(-1j) * np.sqrt(2 + 1j)))) < 1e-14
    polar = nt.grad(lambda z: cmath.polar(z)[0] + 2.0 * cmath.phase(z) + cmath.rect(abs(z), 0.5).imag)(3 + 4j)
    assert abs(polar - ((3 + 4j) / 5 * (1 + np.sin(0.5)) + 2.0 * (-4 + 3j) / 25)) < 1e-15
    x = RNG.normal(size=6)
    energy = nt.grad(lambda x: np.sum(np.abs(scipy.fft.fft(x, norm="ortho")) ** 2))
    np.testing.assert_allclose(energy(x), 2 * x)
    shifted = nt.grad(lambda x: scipy.fft.fftshift(scipy.fft.rfftn(x))[0].imag)(x)
    np.testing.assert_array_equal(shifted, nt.grad(lambda x: np.fft.fftshift(np.fft.rfft(x))[0].imag)(x))


def test_functions_that_turn_complex():
    for name in ("sqrt", "log", "log2", "log10"):
        f = getattr(np.emath, name)
        for x in (2.0, -2.0, np.array([1.0, -3.0])):
            laws.check(f, np.asarray(x)[()])
        laws.check(f, Z)
    for name in ("arcsin", "arccos", "arctanh"):
        for x in (0.5, 2.0, np.array([0.25, -3.0])):
            laws.check(getattr(np.emath, name), np.asarray(x)[()])


def test_what_has_no_rule_works_on_constants():
    cache = nt.prepare_gradient_cache(
        lambda x, c: x * np.max(np.linalg.eigvals(c)).imag + np.max(c).real, 2.0, nt.Constant(S)
    )
    for matrix in (S, 1j * S):
        expected = np.max(np.linalg.eigvals(matrix)).imag
        assert nt.value_and_gradient(cache, 2.0, matrix)[1][0] == expected


MIXED = {
    "split": lambda x: np.stack(np.split(x.astype(complex), 3)),
    "split of imaginary": lambda x: np.stack(np.split(1j * x, 3)),
    "sum dtype": lambda x: np.sum(x, dtype=complex),
    "sum by keyword": lambda x: np.sum(a=1j * x, axis=0),
    "exp dtype": lambda x: np.exp(x, dtype=complex),
    "sqrt dtype": lambda x: np.sqrt(-x, dtype=complex),
    "zero times": lambda x: x * 0j,
    "plus zero": lambda x: x + 0j,
    "outer": lambda x: np.outer(x, [1j, 2]),
    "powers": lambda x: (1j * x) ** np.arange(6),
    "float_power": lambda x: np.float_power(1j * x, 2),
    "where": lambda x: np.where(x > 2.5, x, 1j),
    "where of constants": lambda x: np.where(x > 2.5, 1j, 2) * x,
    "stack": lambda x: np.stack([1j * x[0], 1.0]),
    "full": lambda x: np.full(3, 1j * x[0]),
    "full_like": lambda x: np.full_like(1j * x, 2j) * x,
    "array dtype": lambda x: np.array([x[0], 1.0], dtype=complex),
    "r_": lambda x: np.r_[1j * x, 1j],
    "argmax": lambda x: (1j * x)[np.argmax(abs(1j * x))],
    "new axis": lambda x: (1j * x)[..., None] * x,
    "constant matrix": lambda x: (np.ones((2, 6)) * 1j) @ x,
    "einsum with lists": lambda x: np.einsum(1j * x, [0], x, [1], [0, 1]),
    "trapezoid": lambda x: np.trapezoid(1j * x * x, dx=0.5),
    "gradient": lambda x: np.gradient(1j * x * x),
    "nan_to_num": lambda x: np.nan_to_num(1j * x),
    "isclose": lambda x: np.where(np.isclose(1j * x, 1j * x + 1e-12), 1j * x, 0),
    "flat": lambda x: (1j * x).flat[2:],
    "tolist": lambda x: (1j * x).tolist()[0] * 2,
    "transforms": lambda x: np.fft.irfft(np.fft.rfft(x) * np.exp(-1j * np.arange(4)), 6),
    "transform of integers": lambda x: np.fft.fft(np.arange(4) * x[0]),
}


@pytest.mark.parametrize("name", MIXED)
def test_real_numbers_that_turn_complex(name):
    laws.check(MIXED[name], np.arange(1.0, 7.0), tolerance=1e-14)


OF_DTYPES = {
    "var-complex": lambda x: np.var(x, 0, complex),
    "std-complex64": lambda x: np.std(x, dtype=np.complex64),
    "var-real": lambda x: np.var(x * (1 + 0.5j), 0, float),
    "var-both": lambda x: np.var(x * (1 + 0.5j), 0, complex, keepdims=True),
    "prod-real": lambda x: np.prod(x * (1 + 0.5j), 0, float),
    "cumprod-real": lambda x: np.cumprod(x * (1 + 0.5j), 0, float),
    "nancumprod-real": lambda x: np.nancumprod(x * (1 + 0.5j), dtype=np.float32),
    "cumsum-real": lambda x: np.cumsum(x * (1 + 0.5j), dtype=float),
}


@pytest.mark.parametrize("name", OF_DTYPES)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_reductions_in_a_dtype(name):
    f, x = OF_DTYPES[name], np.array([[0.4, 1.3], [-0.7, 0.9], [1.1, -0.2]])
    v = np.array([[0.3, -1.0], [0.5, 0.2], [-0.8, 0.6]])
    value, slope = nt.jvp(f, (x,), (v,))
    expected = f(x)
    single = expected.dtype in (np.float32, np.complex64)
    assert value.dtype == expected.dtype and value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=1e-6 if single else 1e-12)
    h = 1e-2 if single else 1e-6
    wanted = (f(x + h * v) - f(x - h * v)) / (2 * h)
    np.testing.assert_allclose(slope, wanted, rtol=1e-2 if single else 1e-7, atol=1e-3 if single else 1e-9)
