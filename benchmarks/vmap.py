"""Maps over 1 024 rows: `nt.vmap` beside NumPy's stacked calls, `nt.batch`, and loops over the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.timing import interleave

ROWS = 1024


def energy(x):
    """A function of eight numbers."""
    return np.sum(np.exp(x) * x) + np.sum(np.cos(x[1:] - x[:-1]))


def stacked_energy(x):
    """The same of many rows, written for whole arrays."""
    return np.sum(np.exp(x) * x) + np.sum(np.cos(x[:, 1:] - x[:, :-1]))


def tasks(rows: int = ROWS) -> dict[str, dict[str, Callable]]:
    """Return, by task and way, calls without arguments that return arrays."""
    import numbatape as nt

    rng = np.random.default_rng(0)
    x, vectors, right = (rng.normal(size=(rows, *shape)) for shape in ((8,), (8,), (8, 8)))
    matrices = rng.normal(size=(rows, 8, 8))
    positive = matrices @ matrices.transpose(0, 2, 1) + 8 * np.eye(8)
    gradient, hessian, batch = nt.grad(energy), nt.hessian(energy), nt.batch(energy)
    gradients, hessians, energies = nt.vmap(gradient), nt.vmap(hessian), nt.vmap(energy)
    cholesky, solve = nt.vmap(np.linalg.cholesky), nt.vmap(np.linalg.solve)
    total = nt.prepare_gradient_cache(lambda x: np.sum(energies(x)), x)
    whole = nt.prepare_gradient_cache(stacked_energy, x)
    return {
        "cholesky, 8 x 8": {
            "vmap": lambda: cholesky(positive),
            "whole arrays": lambda: np.linalg.cholesky(positive),
        },
        "solve, 8 x 8 and a vector": {
            "vmap": lambda: solve(positive, vectors),
            "whole arrays": lambda: np.linalg.solve(positive, vectors[..., None])[..., 0],
        },
        "solve, 8 x 8 and a matrix": {
            "vmap": lambda: solve(positive, right),
            "whole arrays": lambda: np.linalg.solve(positive, right),
        },
        "gradients of a function of 8 numbers": {
            "vmap": lambda: gradients(x),
            "batch": lambda: batch(x)[1],
            "loop": lambda: np.stack([gradient(row) for row in x]),
        },
        "Hessians of this function": {
            "vmap": lambda: hessians(x),
            "loop": lambda: np.stack([hessian(row) for row in x]),
        },
        "gradient of the sum over rows": {
            "vmap": lambda: nt.value_and_gradient(total, x)[1][0],
            "whole arrays": lambda: nt.value_and_gradient(whole, x)[1][0],
        },
    }


def check(name: str, calls: dict[str, Callable]) -> None:
    """Raise if the ways of a task have different results."""
    wanted = calls["vmap"]()
    for way, call in calls.items():
        if not np.allclose(call(), wanted, 1e-9, 1e-12):
            raise ValueError(f"{name}: {way} has other results than vmap")


def measure(rounds: int, seconds: float, progress: Callable, rows: int = ROWS) -> dict:
    """Return least times in seconds by task and way."""
    found = {}
    for name, calls in tasks(rows).items():
        progress(name)
        check(name, calls)
        times = interleave(calls, rounds, seconds)
        found[name] = {way: its["minimum"] for way, its in times.items()}
    return found
