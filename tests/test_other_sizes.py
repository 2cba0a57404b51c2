"""Verbs traced at some sizes and called at others: values are NumPy's, gradients those of a new trace."""

import types

import numpy as np
import pytest
import scipy.linalg
import scipy.signal

import numbatape as nt

POINTS = np.random.default_rng(4).normal(size=(2, 8))
SIZES = [(3, 3), (7, 2), (6, 5), (2, 4), (1, 1), (5, 3)]

SLICES = {
    "x[:-k]": lambda x, y: x[: -len(y)],
    "x[-k:]": lambda x, y: x[-len(y) :],
    "x[k:]": lambda x, y: x[len(y) :],
    "x[:k]": lambda x, y: x[: len(y)],
    "x[1:-k]": lambda x, y: x[1 : -len(y)],
    "x[-k:-1]": lambda x, y: x[-len(y) : -1],
    "x[k-n:]": lambda x, y: x[len(y) - len(x) :],
    "x[:n-k]": lambda x, y: x[: len(x) - len(y)],
    "x[k::-1]": lambda x, y: x[len(y) :: -1],
    "x[::k]": lambda x, y: x[:: len(y)],
    "x[k//2:-1]": lambda x, y: x[len(y) // 2 : -1],
    "x[-1-k//2]": lambda x, y: x[-1 - min(len(y), len(x)) // 2],
}
JOINED = {
    "full": lambda x, y: np.convolve(x, y),
    "same": lambda x, y: scipy.signal.convolve(x, y, "same"),
    "valid": lambda x, y: np.correlate(x, y, "valid"),
    "pad": lambda x, y: np.pad(x, (len(y), 1), mode="reflect" if len(x) > len(y) else "edge"),
    "wrap": lambda x, y: np.pad(x, len(y), mode="wrap"),
    "roll": lambda x, y: x * np.roll(x, len(y)),
    "tile": lambda x, y: np.tile(x, len(y)) * np.repeat(y, len(x)),
    "resize": lambda x, y: np.resize(x, len(y)) * y,
    "insert": lambda x, y: np.insert(x, [0, len(x)], y[:1]),
    "interp": lambda x, y: np.interp(x, np.linspace(-1.0, 1.0, len(y)), y),
    "searchsorted": lambda x, y: x * np.searchsorted(np.sort(y), x),
    "eye": lambda x, y: np.eye(len(x), len(y)) @ y,
    "tril": lambda x, y: np.tril(np.outer(x, y), 1)[-1],
    "vander": lambda x, y: np.vander(x, len(y)),
    "polynomials": lambda x, y: np.polymul(x, y) * np.polyval(x, 0.3),
    "toeplitz": lambda x, y: scipy.linalg.toeplitz(x, y),
    "block": lambda x, y: np.block([[np.outer(x, x), np.outer(x, y)], [np.outer(y, x), np.outer(y, y)]]),
    "gradient": lambda x, y: np.gradient(np.concatenate([x, y])),
    "pinv": lambda x, y: np.linalg.pinv(np.outer(x, y) + np.eye(len(x), len(y))),
    "singular values": lambda x, y: (
        np.linalg.svd(np.outer(x, y) + np.eye(len(x), len(y)))[1] if len(x) == len(y) else x
    ),
    "quantile": lambda x, y: np.quantile(x, 0.3) * y,
    "unique": lambda x, y: np.unique(np.concatenate([x, y, x]), return_counts=True)[1] * x[0],
    "linspace": lambda x, y: np.linspace(x[0], y[-1], len(x) + 1),
    "fft": lambda x, y: np.abs(np.fft.fft(x, len(y) + 1)),
    "written": lambda x, y: _written(x, y),
}


def _written(x, y):
    z = np.zeros((len(x), len(y)))
    z[:, 0] = x
    z[-1] += y
    z[len(x) // 2] *= 2.0
    return z


def copy_of(f):
    """Return the same function as another object, which has been traced nowhere."""
    return types.FunctionType(f.__code__, f.__globals__, f.__name__, None, f.__closure__)


@pytest.mark.parametrize("name", [*SLICES, *JOINED])
@pytest.mark.filterwarnings("ignore::numbatape.RetracingWarning")
def test_verbs_follow_the_sizes(name):
    program = (SLICES | JOINED)[name]

    def f(x, y):
        return np.sum(np.sin(program(x, y)))

    verb = nt.value_and_grad(f, argnums=(0, 1))
    for m, k in SIZES:
        x, y = POINTS[0, :m].copy(), POINTS[1, :k].copy()
        try:
            wanted = f(x, y)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                verb(x, y)
            continue
        value, gradients = verb(x, y)
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12, err_msg=str((m, k)))
        again = nt.grad(copy_of(f), argnums=(0, 1))(x, y)
        for ours, others in zip(gradients, again, strict=True):
            np.testing.assert_allclose(ours, others, rtol=1e-9, atol=1e-10, err_msg=str((m, k)))


MASK = np.array([True, False, True, False])


def test_a_mask_of_another_length():
    """NumPy's error for a mask that is shorter than its axis, also where the trace was of one that fits."""
    gradient = nt.grad(lambda x: np.sum(x[MASK] ** 2))
    np.testing.assert_array_equal(gradient(np.ones(4)), [2.0, 0.0, 2.0, 0.0])
    with pytest.raises(IndexError, match="did not match"):
        gradient(np.ones(5))


def test_a_tangent_traced_without_entries():
    """Where an axis has no entry its strides are 0, as a broadcast's are, but only at that size."""
    rows, none, x = np.ones((8, 3)), np.ones((8, 0)), np.vander(np.linspace(0.1, 0.9, 8), 8)
    cache = nt.prepare_derivative_cache(lambda x: np.sum(np.cosh(np.sum(x, axis=1))), rows)
    assert nt.value_and_derivative(cache, (none, none)) == (8.0, 0.0)
    total = x.sum(axis=1)
    _, derivative = nt.value_and_derivative(cache, (x, x))
    np.testing.assert_allclose(derivative, np.sum(np.sinh(total) * total), rtol=1e-12)


def _divided(w, y):
    return np.sum(y / np.exp(w))


@pytest.mark.parametrize(("m", "n", "k"), [(8, 6, 1), (8, 17, 8)])
def test_an_axis_that_a_guard_keeps_at_one(m, n, k):
    """Sums are taken before factors that broadcast along an axis of one entry."""
    w, y = np.resize(POINTS, (m, 1, k)), np.linspace(-1.0, 2.0, n * k).reshape(n, k)
    cache = nt.prepare_hvp_cache(_divided, w, y)
    _, _, (product, other) = nt.value_and_hvp(cache, (w, y), w, y)
    inverse = np.exp(-w)
    by_row = np.sum(y / np.exp(w) * (w - 1.0), axis=1, keepdims=True)
    np.testing.assert_allclose(product, by_row, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(other, -np.sum(inverse * w, axis=0) * np.ones_like(y), rtol=1e-11, atol=1e-12)
    values, (ws, ys) = nt.batch(_divided, in_axes=(0, 0))(np.stack([w] * 3), np.stack([y] * 3))
    np.testing.assert_allclose(values, _divided(w, y), rtol=1e-12)
    np.testing.assert_allclose(ws[2], -np.sum(y / np.exp(w), axis=1, keepdims=True), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(ys[1], np.sum(inverse, axis=0) * np.ones_like(y), rtol=1e-11)


# Derivatives that are zeros while tracing, or have no entries, as functions of an array of any length.
WITHOUT_INSTRUCTIONS = {
    "gradient of a constant": lambda x: nt.grad(lambda y: 2.0)(x),
    "second argument alone": lambda x: nt.grad(lambda y, z: np.sum(z**2), argnums=(0, 1))(x, x)[0],
    "pullback of a constant": lambda x: nt.vjp(lambda y: 2.0, x)[1](1.0)[0],
    "pushforward": lambda x: nt.jvp(lambda y: 1.0 * x, (1.0,), (1.0,))[1],
    "hvp of a sum": lambda x: nt.hvp(lambda y: np.sum(y))(x, x),
    "jacobian of a constant": lambda x: nt.jacobian(lambda y: np.ones(3))(x),
    "jacobian of another array": lambda x: nt.jacobian(lambda y: x)(np.ones(2)),
    "jacobian": lambda x: nt.jacobian(lambda y: y**2)(x),
    "hessian": lambda x: nt.hessian(lambda y: np.sum(y**3))(x),
    "hessian_diagonal": lambda x: nt.hessian_diagonal(lambda y: np.sum(y**3))(x),
    "jacobian of chosen entries": lambda x: nt.jacobian(lambda y: y**2)(x[x > 1.0]),
}


@pytest.mark.parametrize("name", WITHOUT_INSTRUCTIONS)
@pytest.mark.parametrize("lengths", [(0, 3, 1), (3, 2, 0)])
def test_derivatives_inside_of_a_function_at_other_lengths(name, lengths):
    inside = WITHOUT_INSTRUCTIONS[name]
    f = lambda x: np.sum(inside(x) + 1.0) * (1.0 + np.sum(x))  # noqa: E731
    both = nt.value_and_grad(f)
    for n in lengths:
        x = np.arange(1.0, n + 1)
        assert both(x)[0] == f(x)
