"""What holds for every differentiable function of complex numbers."""

import numpy as np

import numbatape as nt


def random(rng, shape, kind=complex):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape))[()] if kind is complex else np.asarray(x)[()]


def like(rng, x):
    return random(rng, np.shape(x), complex if np.iscomplexobj(x) else float)


def close(actual, expected, tolerance):
    scale = np.max(np.abs(expected), initial=1e-300)
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def check(f, *args, tolerance=1e-13):
    """Value against NumPy, jvp against differences, the pullback as the adjoint of the jvp."""
    rng = np.random.default_rng(0)
    expected = f(*args)
    value, pullback = nt.vjp(f, *args)
    close(value, expected, tolerance)
    assert np.asarray(value).dtype == np.asarray(expected).dtype
    tangents = tuple(like(rng, x) for x in args)
    _, pushed = nt.jvp(f, args, tangents)
    step = 1e-5
    moved = [f(*(x + k * step * t for x, t in zip(args, tangents, strict=True))) for k in (-2, -1, 1, 2)]
    close(pushed, (8.0 * (moved[2] - moved[1]) - (moved[3] - moved[0])) / (12.0 * step), 1e-8)
    cotangent = like(rng, expected)
    pulled = pullback(cotangent)
    for g, x in zip(pulled, args, strict=True):
        assert np.asarray(g).dtype == np.asarray(x).dtype and np.shape(g) == np.shape(x)
    left = np.sum(np.real(np.conj(cotangent) * pushed))
    right = sum(np.sum(np.real(np.conj(g) * t)) for g, t in zip(pulled, tangents, strict=True))
    assert abs(left - right) <= 1e-11 * (abs(left) + abs(right) + np.linalg.norm(pushed))
