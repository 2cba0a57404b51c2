"""Random programs of complex arrays: value, gradient, tangent and Hessian product against NumPy."""

import numpy as np
import pytest

import numbatape as nt

RNG = np.random.default_rng(9)
MASK = RNG.normal(size=(3, 4)) > 0
WEIGHTS = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
LEFT = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
RIGHT = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))

UNARY = (
    lambda a: np.exp(0.3 * a),
    lambda a: np.sin(0.3 * a),
    np.tanh,
    lambda a: np.sqrt(a + 2.5j),
    lambda a: np.log(a + 3 - 2j),
    lambda a: np.arctan(a / 3),
    lambda a: (a + 3) ** 1.5 / 5,
    lambda a: a**2 / 4,
    lambda a: 1 / (a + 3j),
    lambda a: a / (np.abs(a) ** 2 + 1),
    lambda a: np.sign(a + 0.1) + a,
    np.conj,
    lambda a: 1j * a.real + a.imag,
    lambda a: np.abs(a) + 1j * a,
    lambda a: a * MASK,
    lambda a: a * WEIGHTS,
    lambda a: np.where(MASK, a, 2 - a),
    lambda a: np.fft.fft(a) / 2,
    lambda a: np.fft.irfft(a, 4),
    lambda a: np.fft.fft2(a, norm="ortho"),
    lambda a: np.roll(a, 1, -1),
    lambda a: a[::-1],
    lambda a: np.concatenate([a[:1], 1j * a[1:]]),
    lambda a: np.cumsum(a, -1) / 3,
    lambda a: np.mean(a, axis=0) + a,
    lambda a: np.linalg.norm(a) + a,
    lambda a: np.linalg.solve(LEFT, a),
    lambda a: a @ RIGHT,
    lambda a: np.einsum("ij,kj->ik", a, np.conj(WEIGHTS))[:, :1] + a,
)
BINARY = (
    np.add,
    np.subtract,
    np.multiply,
    lambda a, b: a / (b * b + 4j),
    lambda a, b: np.where(MASK, a, b),
    lambda a, b: np.stack([a, b]).sum(0),
)


def program(rng):
    """Return a random real function of a complex and a real array."""
    steps = []
    for count in range(2, int(rng.integers(5, 11))):
        table = UNARY if rng.random() < 0.7 else BINARY
        places = rng.integers(count, size=1 if table is UNARY else 2)
        steps.append((table[rng.integers(len(table))], places))

    def f(z, x):
        values = [z, x]
        for function, places in steps:
            values.append(function(*(values[k] for k in places)))
        return np.sum(np.tanh(np.abs(values[-1] + 0.3 * values[-2]) / 10) ** 2)

    return f


@pytest.mark.parametrize("seed", range(24))
def test_program(seed):
    rng = np.random.default_rng(seed)
    f = program(rng)
    z, dz = (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)) for _ in range(2))
    x, dx = rng.normal(size=(2, 3, 4))
    value, (gz, gx) = nt.value_and_grad(f, argnums=(0, 1))(z, x)
    np.testing.assert_allclose(value, f(z, x), rtol=1e-12, atol=1e-14)
    slope = np.sum(np.real(np.conj(gz) * dz)) + np.sum(gx * dx)
    scale = np.sum(np.abs(gz * dz)) + np.sum(np.abs(gx * dx))
    step = 1e-5
    moved = [f(z + k * step * dz, x + k * step * dx) for k in (-2, -1, 1, 2)]
    expected = (8 * (moved[2] - moved[1]) - (moved[3] - moved[0])) / (12 * step)
    assert abs(slope - expected) <= 1e-7 * scale + 1e-9
    assert abs(nt.jvp(f, (z, x), (dz, dx))[1] - slope) <= 1e-11 * scale + 1e-13

    def of_parts(p):
        return f(p[0] + 1j * p[1], p[2])

    p, v = np.stack([z.real, z.imag, x]), np.stack([dz.real, dz.imag, dx])
    expected = (nt.grad(of_parts)(p + step * v) - nt.grad(of_parts)(p - step * v)) / (2 * step)
    np.testing.assert_allclose(
        nt.hvp(of_parts)(p, v), expected, rtol=0, atol=1e-5 * np.max(np.abs(expected)) + 1e-8
    )
