"""Gradients of linear algebra, spectra and time steps beside NumPy's and SciPy's values of the functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from benchmarks.timing import interleave

SIZE = 200
STEP = 1e-6
TOLERANCE = 1e-4  # of the slope by differences along a random direction


def tasks(n: int = SIZE) -> dict[str, tuple[Callable, tuple, tuple]]:
    """Return, by name, a scalar function, the arguments differentiated and the constants."""
    rng = np.random.default_rng(0)
    a, b, w = (rng.normal(size=(n, n)) for _ in range(3))
    tall, wide = rng.normal(size=(2 * n, n)), rng.normal(size=(2 * n, 1))
    regular = a + n**0.5 * 2 * np.eye(n)
    symmetric, positive = a + a.T, a @ a.T / n + np.eye(n)
    triangle, vector = np.tril(a / n**0.5) + 2 * np.eye(n), rng.normal(size=n)
    left, values, right = rng.normal(size=(n, n)), vector, rng.normal(size=(n, n))

    def eigh(x, u, c):
        found, vectors = np.linalg.eigh(x)
        return np.sum(c * found) + np.sum(u * vectors)

    def svd(x, u, c, t):
        p, s, q = np.linalg.svd(x)
        return np.sum(u * p) + np.sum(c * s) + np.sum(t * q)

    def qr(x, u, t):
        q, r = np.linalg.qr(x)
        return np.sum(u * q) + np.sum(t * r)

    def heat(x, w):
        u = x.copy()
        for _ in range(20):
            u[1:-1, 1:-1] += 0.1 * (
                u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            )
        return np.sum(w * u)

    def convolution(x, y, w):
        spectrum = np.fft.rfft(x.reshape(-1)) * np.fft.rfft(y.reshape(-1))
        return np.sum((np.fft.irfft(spectrum, x.size) - w.reshape(-1)) ** 2)

    return {
        "heat equation, 20 steps in place": (heat, (a,), (w,)),
        "fft2, squared errors of moduli": (
            lambda x, w: np.sum((np.abs(np.fft.fft2(x)) - w) ** 2),
            (a,),
            (np.abs(np.fft.fft2(w)),),
        ),
        "convolution by fft, n*n entries": (convolution, (a, b), (w,)),
        "sum of a Kronecker product": (
            lambda x, y: np.sum(np.kron(x, y)),
            (a[: n // 10 + 1, : n // 10 + 1], b[: n // 5 + 1, : n // 5 + 1]),
            (),
        ),
        "cholesky": (lambda x, w: np.sum(w * np.linalg.cholesky(x)), (positive,), (w,)),
        "solve, A and n columns": (lambda x, y, w: np.sum(w * np.linalg.solve(x, y)), (regular, b), (w,)),
        "solve, A and a vector": (lambda x, y, c: c @ np.linalg.solve(x, y), (regular, vector), (values,)),
        "matmul, one factor": (lambda x, y, w: np.sum(w * (x @ y)), (a,), (b, w)),
        "matmul, both factors": (lambda x, y, w: np.sum(w * (x @ y)), (a, b), (w,)),
        "eigh": (eigh, (symmetric,), (left, values)),
        "eigvalsh": (lambda x, c: np.sum(c * np.linalg.eigvalsh(x)), (symmetric,), (values,)),
        "svd": (svd, (a,), (left, values, right)),
        "svd, values alone": (
            lambda x, c: np.sum(c * np.linalg.svd(x, compute_uv=False)),
            (a,),
            (values,),
        ),
        "qr": (qr, (a,), (left, right)),
        "inv": (lambda x, w: np.sum(w * np.linalg.inv(x)), (regular,), (w,)),
        "det": (lambda x: np.linalg.det(x), (regular / n**0.5,), ()),
        "slogdet": (lambda x: np.linalg.slogdet(x)[1], (regular,), ()),
        "lstsq, 2n rows": (lambda x, y: np.sum(np.linalg.lstsq(x, y)[0]), (tall, wide), ()),
        "pinv, 2n rows": (lambda x, w: np.sum(w * np.linalg.pinv(x).T), (tall,), (np.concatenate([a, b]),)),
        "solve_triangular, n columns": (
            lambda x, y, w: np.sum(w * scipy.linalg.solve_triangular(x, y, lower=True)),
            (triangle, b),
            (w,),
        ),
        "expm": (lambda x, w: np.sum(w * scipy.linalg.expm(x)), (a / n**0.5,), (w,)),
        "cho_solve(cho_factor)": (
            lambda x, y: y @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(x, lower=True), y),
            (positive, vector),
            (),
        ),
    }


def gradient_call(function, active, data):
    """Return a prepared call of value and gradient, with fresh results."""
    import numbatape as nt

    args = (*active, *(nt.Constant(x, frozen=True) for x in data))
    cache = nt.prepare_gradient_cache(function, *args)
    return lambda: nt.value_and_gradient(cache, *active)


def check(name: str, function, active, data, call) -> None:
    """Raise if the value, or the slope along a random direction, is not that of the function."""
    rng = np.random.default_rng(1)
    value, gradients = call()
    plain = function(*active, *data)
    if not abs(value - plain) <= 1e-8 * max(1.0, abs(plain)):
        raise ValueError(f"{name}: value {value}, NumPy's {plain}")
    direction = [rng.normal(size=x.shape) for x in active]
    if name.startswith(("cholesky", "cho_", "eig")):  # one triangle is read, whatever the other holds
        direction = [d + d.T if d.ndim == 2 else d for d in direction]
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, direction, strict=False))

    def shifted(step):
        return function(*(x + step * d for x, d in zip(active, direction, strict=True)), *data)

    near, far = ((shifted(h) - shifted(-h)) / (2 * h) for h in (STEP, 2 * STEP))
    expected = (4 * near - far) / 3
    if not abs(slope - expected) <= TOLERANCE * max(1.0, abs(expected)):
        raise ValueError(f"{name}: slope {slope}, by differences {expected}")


def measure(rounds: int, seconds: float, progress: Callable, size: int = SIZE) -> dict:
    """Return least times in seconds by task: NumPy's value, value and gradient."""
    found = {}
    for name, (function, active, data) in tasks(size).items():
        progress(name)
        call = gradient_call(function, active, data)
        check(name, function, active, data, call)
        plain = lambda f=function, x=(*active, *data): f(*x)  # noqa: E731
        times = interleave({"numpy": plain, "numbatape": call}, rounds, seconds)
        found[name] = {engine: its["minimum"] for engine, its in times.items()}
    return found
