"""Writes into complex arrays: NumPy's values, the gradient of the same function without writes, errors."""

import cmath
import operator

import numpy as np
import pytest

import numbatape as nt

RNG = np.random.default_rng(3)
Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)
W = RNG.normal(size=4) + 1j * RNG.normal(size=4)
PAIRS = {}


def pair(function):
    """Register a function that returns (with writes, without)."""
    PAIRS[function.__name__] = function()
    return function


def energy(*parts):
    return sum(np.sum(np.abs(part - 0.3j) ** 2 * (k + 1.0)) for k, part in enumerate(parts))


@pair
def entries():
    def f(z):
        out = np.zeros(4, complex)
        for k in range(4):
            out[k] = z[k] * z[k - 1]
        out[2] += 1j
        return energy(out)

    return f, lambda z: energy(z * np.roll(z, 1) + np.array([0, 0, 1j, 0]))


@pair
def augmented():
    def f(z):
        w = z * 2.0
        other, v = w, w[1:3]
        w *= z
        w += 1j
        v /= 1 + 1j
        other -= z.real
        other **= 2
        return energy(w)

    def g(z):
        w = (z * z * 2.0 + 1j) / np.array([1.0, 1 + 1j, 1 + 1j, 1.0]) - np.real(z)
        return energy(w * w)

    return f, g


@pair
def parts():
    def f(z):
        w = z.copy()
        w.real = np.abs(z)
        w.imag[1:] *= 2.0
        w[2].real  # noqa: B018  (a number)
        part = w.imag
        w[0] = 3.0
        part[3] = w.real[1]
        u = np.zeros(4, complex)
        u.imag[...] = z.real
        return energy(w, u, part)

    def g(z):
        a, b = np.abs(z), np.imag(z) * 2.0
        re = np.stack([0.0 * a[0] + 3.0, a[1], a[2], a[3]])
        im = np.stack([0.0 * a[0], b[1], b[2], a[1]])
        return energy(re + 1j * im, 1j * np.real(z), im)

    return f, g


@pair
def seen_as_other_numbers():
    def f(z):
        w = z**2
        pairs = w.view(float).reshape(-1, 2)
        w[1] = z[0]
        pairs[:, 0] *= 2.0
        numbers = np.abs(z)
        couples = numbers.view(complex)
        numbers[0] = z[3].real
        couples[1] *= 1j
        return energy(w, pairs, numbers, couples, (2j * z).view(float), np.imag(z).copy().view(complex))

    def g(z):
        w = np.concatenate([z[:1] ** 2, z[:1], z[2:] ** 2])
        re, im = 2.0 * np.real(w), np.imag(w)
        a = np.abs(z)
        numbers = np.stack([np.real(z[3]), a[1], -a[3], a[2]])
        parts = np.stack([-2.0 * np.imag(z), 2.0 * np.real(z)], -1)
        couples = numbers[::2] + 1j * numbers[1::2], np.imag(z)[::2] + 1j * np.imag(z)[1::2]
        return energy(re + 1j * im, np.stack([re, im], -1), numbers, couples[0], np.ravel(parts), couples[1])

    return f, g


@pair
def argument():
    def f(z):
        z[0], z[3] = z[3], z[0] * 1j
        z[1:] += z[:-1]
        return energy(z)

    def g(z):
        y = np.stack([z[3], z[1], z[2], z[0] * 1j])
        return energy(np.concatenate([y[:1], y[1:] + y[:-1]]))

    return f, g


@pair
def views():
    def f(z):
        m = (z * 1.0).reshape(2, 2)
        m.T[0] *= 1j
        np.swapaxes(m, 0, 1)[1, 1] = m[0, 0]
        m.ravel()[1] = 2.0
        flat = m[::-1].flat
        wide = np.broadcast_to(m[0], (2, 2))
        m[0, 0] = m[1, 0] ** 2
        return energy(m, np.diagonal(m), wide) + 0.0 * np.sum(np.abs(flat))

    def g(z):
        m = np.stack([(1j * z[2]) ** 2, 2.0 + 0 * z[0], 1j * z[2], 1j * z[0]]).reshape(2, 2)
        return energy(m, np.stack([m[0, 0], m[1, 1]]), np.stack([m[0], m[0]]))

    return f, g


@pair
def real_into_complex():
    def f(z):
        x = z.real * 1.0
        w = x + 0j
        x[0] = 5.0
        w[1] = x[0]
        w[2] = 7
        w[np.array([False, False, False, True])] = z[0]
        return energy(w, x)

    def g(z):
        x = np.real(z)
        return energy(np.stack([x[0] + 0j, 5.0 + 0j * x[0], 7.0 + 0j * x[0], z[0]]),
                      np.stack([0.0 * x[0] + 5.0, x[1], x[2], x[3]]))  # fmt: skip

    return f, g


@pair
def positions():
    def f(z):
        k = np.argsort(z.real)
        w = z * 1j
        w[k[:2]] = z[2:]
        np.add.at(w, [0, 0, 1], z[:3])
        np.subtract.at(w, k, 1.0)
        np.multiply.at(w, [2, 2], 1j)
        w[z.real > 0] *= 2.0
        w[np.abs(z) > 1e9] = 1j
        return energy(w)

    def g(z):
        k = np.argsort(np.real(z))
        at = np.arange(4)
        w = np.where(at == k[0], z[2], np.where(at == k[1], z[3], z * 1j))
        w = w + np.stack([z[0] + z[1], z[2], 0.0 * z[0], 0.0 * z[0]]) - 1.0
        w = w * np.array([1, 1, -1, 1])
        return energy(np.where(np.real(z) > 0, 2.0 * w, w))

    return f, g


@pair
def functions_in_place():
    def f(z):
        m = np.zeros((2, 2), complex)
        np.copyto(m, z[:2])
        np.fill_diagonal(m, z[2])
        w = np.empty(4, complex)
        np.exp(z, out=w)
        np.multiply(w, 1j, out=w, where=np.arange(4) < 2)
        np.put(w, [3], z[1])
        np.place(w, np.arange(4) == 2, [z[0]])
        np.putmask(w, np.arange(4) == 1, z)
        total = np.zeros(2, complex)
        np.sum(m, axis=0, out=total)
        z[:2].fill(1j)
        np.put_along_axis(z, np.array([3]), 2.0, 0)
        return energy(m, w, total, z)

    def g(z):
        m = np.stack([np.stack([z[2], z[1]]), np.stack([z[0], z[2]])])
        w = np.stack([1j * np.exp(z[0]), z[1], z[0], z[1]])
        end = np.stack([1j + 0 * z[0], 1j + 0 * z[0], z[2], 2.0 + 0 * z[0]])
        return energy(m, w, m[0] + m[1], end)

    return f, g


@pair
def scalars_of_cmath():
    def f(z):
        out = np.empty((2, 2), complex)
        for i in range(2):
            for j in range(2):
                out[i, j] = cmath.exp(z[i]) * cmath.sqrt(z[2 + j] + 9.0)
        out[0] = out[1, ::-1]
        return energy(out)

    def g(z):
        out = np.exp(z[:2])[:, None] * np.sqrt(z[2:] + 9.0)
        return energy(np.stack([out[1, ::-1], out[1]]))

    return f, g


def transform(z):
    """Return the discrete Fourier transform by the textbook loop in place."""
    n = z.shape[0]
    y = z.copy()
    y[[1, 2]] = y[[2, 1]]
    size = 2
    while size <= n:
        for start in range(0, n, size):
            for k in range(size // 2):
                turn = cmath.exp(-2j * cmath.pi * k / size)
                a, b = y[start + k], y[start + k + size // 2] * turn
                y[start + k], y[start + k + size // 2] = a + b, a - b
        size *= 2
    return y


@pair
def butterflies():
    return lambda z: energy(transform(z)), lambda z: energy(np.fft.fft(z))


@pytest.mark.parametrize("name", PAIRS)
def test_against_the_form_without_writes(name):
    f, g = PAIRS[name]
    value, gradient = nt.value_and_grad(f), nt.grad(g)
    for z in (Z, W, Z):
        kept = z.copy()
        result, slope = value(z)
        assert (z == kept).all()
        np.testing.assert_allclose(result, f(z.copy()), rtol=1e-12)
        np.testing.assert_allclose(slope, gradient(z), rtol=1e-11, atol=1e-12)
        pushed = nt.jvp(f, (z,), (W,))[1]
        np.testing.assert_allclose(pushed, np.sum(np.real(np.conj(slope) * W)), rtol=1e-11)


@pytest.mark.parametrize("name", PAIRS)
def test_second_order_and_batches(name):
    f, g = PAIRS[name]
    x = np.concatenate([Z.real, Z.imag])
    np.testing.assert_allclose(
        *(nt.hessian(lambda x, h=h: h(x[:4] + 1j * x[4:]))(x) for h in (f, g)), rtol=1e-10, atol=1e-11
    )
    points = np.stack([Z, W, Z * 1j])
    for mine, reference in zip(nt.batch(f)(points), nt.batch(g)(points), strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-11, atol=1e-12)


def test_views_as_other_numbers_follow_sizes():
    """One trace serves all lengths, odd ones raise NumPy's error, and so do other precisions."""
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.abs(x.view(complex)) ** 3), np.ones(4))
    for n in (6, 2, 8):
        x = np.arange(1.0, n + 1.0)
        expected = 3.0 * x * np.repeat(np.hypot(x[::2], x[1::2]), 2)
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0], expected, rtol=1e-13)
    assert cache.traces == 1
    with pytest.raises(ValueError, match="larger dtype"):
        nt.value_and_gradient(cache, np.ones(5))
    with pytest.raises(nt.UnsupportedOperationError, match="to another dtype"):
        nt.grad(lambda x: np.sum(np.abs(x.view(np.complex64))))(np.ones(4))


def test_single_precision():
    def f(z):
        out = np.zeros(4, np.complex64)
        for k in range(4):
            out[k] = z[k] * z[k - 1]
        out *= z
        out.real[0] = 1.0
        return np.sum(np.abs(out) ** 2)

    z = Z.astype(np.complex64)
    value, gradient = nt.value_and_grad(f)(z)
    assert (value.dtype, gradient.dtype) == (np.float32, np.complex64)
    np.testing.assert_allclose(value, f(z), rtol=1e-5)
    np.testing.assert_allclose(gradient, nt.grad(f)(Z), rtol=2e-4, atol=1e-4)


def test_whole_writes_keep_sizes_symbolic():
    def f(z):
        w = z * 1j
        w *= z
        w[:] = w - 1.0
        w.imag *= 2.0
        return np.sum(np.abs(w))

    cache = nt.prepare_gradient_cache(f, Z)
    for n in (4, 2, 9):
        z = np.linspace(1.0, 2.0, n) + 1j
        np.testing.assert_allclose(nt.value_and_gradient(cache, z)[0], f(z.copy()), rtol=1e-14)
    assert cache.traces == 1


def test_arguments_that_share_memory():
    def f(a, b):
        a[0] = 2j * b[1]
        a.imag[2] = 0.5
        return np.sum(np.abs(a * b) ** 2)

    cache = nt.prepare_gradient_cache(f, Z, Z)
    for first, second in ((Z, Z), (Z, Z.copy()), (Z, Z)):
        one = first.copy()
        other = one if second is first else second.copy()
        value, _ = nt.value_and_gradient(cache, first, second)
        np.testing.assert_allclose(value, f(one, other), rtol=1e-14)
    with pytest.raises(nt.UnsupportedOperationError, match="overlaps another one"):
        nt.grad(f, (0, 1))(Z[:3], Z[1:])


def test_output_and_scratch_arguments():
    def squares(y, z):
        y[:] = z**2

    cache = nt.prepare_pullback_cache(squares, nt.Cache(np.empty(4, complex)), Z)
    value, (nothing, gradient) = nt.value_and_pullback(cache, W, Z)
    np.testing.assert_allclose(value, Z**2, rtol=1e-14)
    np.testing.assert_allclose(gradient, np.conj(2 * Z) * W, rtol=1e-14)
    assert nothing is None


def test_plain_arrays_stay_plain():
    def f(z):
        turns = np.zeros(4, complex)
        turns[1] = 1j
        turns.real[2] = 2.0
        turns.imag = 1.0
        kept = turns.real
        assert isinstance(turns, np.ndarray) and turns[1] == 1j and kept[2] == 2.0
        assert np.linalg.norm(turns) == np.sqrt(8.0) and complex(turns[2]) == 2 + 1j
        first = np.sum(np.abs(turns * z))
        turns[3] = z[0]
        kept[0] = 4.0
        return first + np.sum(np.abs(turns) ** 2)

    def g(z):
        first = np.sum(np.abs(np.array([1j, 1j, 2 + 1j, 1j]) * z))
        return first + 17.0 + 1.0 + 5.0 + np.abs(z[0]) ** 2

    np.testing.assert_allclose(nt.value_and_grad(f)(Z)[0], f(Z), rtol=1e-14)
    np.testing.assert_allclose(nt.grad(f)(Z), nt.grad(g)(Z), rtol=1e-13)


def test_copies_are_apart():
    def f(z):
        kept = [
            z.copy(),
            +z,
            np.array(z),
            z.astype(complex),
            z.flatten(),
            np.conj(np.conj(z)),
            z[[0, 1, 2, 3]],
        ]
        z[:] = 0.0
        return energy(*kept)

    np.testing.assert_allclose(nt.grad(f)(Z), nt.grad(lambda z: energy(*[z] * 7))(Z), rtol=1e-13)


captured = np.zeros(3, complex)


def into_captured(z):
    captured[0] = z[0]
    return np.sum(np.abs(z))


def add_at_captured(z):
    np.add.at(captured, [0], z[0])
    return np.sum(np.abs(z))


@pytest.mark.parametrize("f", [into_captured, add_at_captured])
def test_captured_arrays_are_scratch(f):
    for z in (Z, 2 * Z):
        np.testing.assert_allclose(nt.grad(f)(z), nt.grad(lambda z: np.sum(np.abs(z)))(z), rtol=1e-14)
        assert (captured == 0.0).all()


ERRORS = {
    "shape": lambda z: operator.setitem(z, slice(0, 2), z[:3]),
    "index": lambda z: operator.setitem(z, 9, z[0]),
    "broadcast view": lambda z: operator.setitem(np.broadcast_to(z[0], (3,)), 0, z[1]),
    "scalar": lambda z: operator.setitem(z[0], 0, 1.0),
    "complex into real": lambda z: operator.setitem(z.real * 1.0, 0, 1j),
    "out": lambda z: np.multiply(z, 2.0, out=np.zeros(4)),
    "augmented": lambda z: operator.iadd(z.real * 1.0, 1j),
    "augmented by traced": lambda z: operator.imul(z.real * 1.0, z),
    "grow": lambda z: operator.iadd(z[:1], z),
    "no imaginary part": lambda z: setattr(z.real, "imag", 1.0),
    "read-only": lambda z: np.diagonal(np.outer(z, z)).__setitem__(0, 1.0),
    "at": lambda z: np.add.at(z, [0, 4], z[:2]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name):
    f = ERRORS[name]
    with pytest.raises((ValueError, IndexError, TypeError)) as plain:
        f(Z.copy())
    with pytest.raises(type(plain.value)) as traced:
        nt.grad(lambda z: (f(z), np.sum(np.abs(z)))[1])(Z)
    assert str(plain.value)[:30] == str(traced.value)[:30]


def test_what_numpy_drops_it_warns_of():
    def f(z):
        x = np.abs(z)
        x[0] = z[1]
        np.add.at(x, [0], z[2])
        return np.sum(x)

    with pytest.warns(np.exceptions.ComplexWarning):
        gradient = nt.grad(f)(Z)
    np.testing.assert_allclose(gradient, Z / np.abs(Z) * (np.arange(4) > 0) + [0, 1, 1, 0], rtol=1e-14)


def test_read_only_argument():
    z = Z.copy()
    z.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        nt.grad(lambda z: (z.imag.fill(0.0), np.sum(np.abs(z)))[1])(z)


def test_loop_writes_are_no_instructions():
    def f(z):
        out = np.empty(100, complex)
        for k in range(100):
            out[k] = z[k] + 1.0
        return np.sum(out.real) + np.sum(out.imag)

    assert len(nt.prepare_gradient_cache(f, np.ones(100, complex)).tape) < 210


def test_plain_arrays_in_the_rest_of_numpy():
    def f(x):
        z = x[:3] + 1j * x[3:]
        p, q = np.zeros(3, complex), np.zeros(3)
        p[:2] = [1j, 2]
        q[1] = 3.0
        r = q * 1j + p
        total = np.abs(np.vdot(p, z)) + np.real(np.sum(r * z)) + energy(np.fft.fft(p) * z)
        total += np.sum(np.abs(np.linalg.eigvals(np.outer(p, p) + np.eye(3))[0] * z))
        m = np.outer(p, z)
        m[0] = p
        p *= 2
        p += z
        p[p.real > 1.5] = 0
        r[:] = p
        r = -r
        t = np.array([1j, 2.0, 3.0])
        t[1] = z[0]
        u = t.copy()
        u[0] = z[1]
        w = np.concatenate([t, u])
        w[0] = 3
        k = np.empty((2, 3), complex)
        k[:] = z
        k[0, 1:] = k[1, :-1] * 1j
        full, like = np.full(3, 1j), np.zeros_like(z)
        full[1] = z[2]
        like[0] = z[0] * full[1]
        ones = np.ones_like(full)
        ones[2] = like[0]
        e = np.eye(3, dtype=complex)
        e[0, 1] = z[0]
        s = np.fft.ifft(np.fft.fft(z))
        s[1:] = 0
        s.real[0] += 1
        return total + energy(m, p.conj(), abs(r), w, k, ones, e @ z, np.linalg.solve(e, t), np.fft.fft(s))

    nt.testing.check_derivatives(f, np.array([1.0, 2.0, 0.3, 1.0, -1.0, 0.5]))


def test_plain_arrays_that_were_written_to_in_nested_verbs():
    direction = np.array([3j, 1.0 + 1j])

    def f(x):
        z, p = x[:2] + 1j * x[2:], np.zeros(2, complex)
        p[:2] = [1j, 2]
        along = nt.jvp(lambda w: energy(w * z), (p,), (direction,))[1]
        return nt.grad(lambda w: energy(w * z))(p)[0].imag + along

    def by_hand(x):
        z, p = x[:2] + 1j * x[2:], np.array([1j, 2.0])
        gradient = 2.0 * np.conj(z) * (p * z - 0.3j)  # of sum(abs(w * z - 0.3j) ** 2), by w
        return gradient[0].imag + np.sum(np.real(np.conj(gradient) * direction))

    x = np.array([1.0, 2.0, 0.3, 1.0])
    for verb in (nt.value_and_grad, nt.hessian):
        for found, wanted in zip(verb(f)(x), verb(by_hand)(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
