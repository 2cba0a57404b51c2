"""What a call costs beside its sweeps: prepared and one-shot, in containers, with other sizes and branches.

Every task is a function of ten numbers or fewer, so that the sweeps take 0.1 to 0.3 µs, and every row has the
time of the same work without a call path: the bound callable of the function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from benchmarks.timing import interleave

X, Y = np.linspace(0.5, 1.5, 10), np.linspace(1.0, 2.0, 10)
TEN = {f"part {k}": np.full(3, 0.1 * k) for k in range(10)}
SIZES = [np.linspace(0.5, 1.5, n) for n in range(4, 64)]


def cubes(x):
    return np.sum(x * x * x)


def squares(x):
    return x * x


def parts(tree):
    return sum(np.sum(part * part) for part in tree.values())


def misfit(x, data, scale=1.0):
    return scale * np.sum((x - data) ** 2)


def either(x):
    return np.sum(x * x) if x[0] > 1.0 else np.sum(x)


def in_turn(function: Callable, calls: list[tuple]) -> Callable:
    """Return a call without arguments that goes through some calls, one at a time."""
    turns = itertools.cycle(calls)
    return lambda: function(*next(turns))


def tasks() -> dict[str, Callable]:
    """Return calls without arguments, ready to be timed."""
    import numbatape as nt

    prepared = nt.prepare_gradient_cache(cubes, X)
    pullback = nt.prepare_pullback_cache(squares, X)
    batches = [(X, Y + k) for k in range(7)]
    found = {
        "bound": nt.prepare_gradient_cache(cubes, X).bind(X),
        "prepared": lambda: nt.value_and_gradient(prepared, X),
        "nt.value_and_grad(f)(x)": lambda: nt.value_and_grad(cubes)(X),
        "nt.grad(f)(x)": lambda: nt.grad(cubes)(X),
        "a dictionary of ten arrays": lambda: nt.value_and_grad(parts)(TEN),
        "data and a keyword": lambda: nt.grad(misfit)(X, Y, scale=2.0),
        "other data in each call": in_turn(nt.grad(misfit), batches),
        "sixty sizes in turn": in_turn(nt.grad(cubes), [(x,) for x in SIZES]),
        "two branches in turn": in_turn(nt.grad(either), [(X,), (X + 1.0,)]),
        "value_and_pullback": lambda: nt.value_and_pullback(pullback, X, X),
        "nt.vjp(f, x) and its pullback": lambda: nt.vjp(squares, X)[1](X),
        "nt.jvp": lambda: nt.jvp(squares, (X,), (X,)),
        "nt.hvp(f)(x, v)": lambda: nt.hvp(cubes)(X, X),
        "nt.hessian(f)(x)": lambda: nt.hessian(cubes)(X),
        "nt.jacobian(f)(x)": lambda: nt.jacobian(squares)(X),
    }
    for call in found.values():
        for _ in range(2 * len(SIZES)):  # every size and branch is known when time is taken
            call()
    return found


def measure(rounds: int, seconds: float, progress: Callable) -> dict:
    """Return least times in seconds by task."""
    progress("calls")
    times = interleave(tasks(), rounds, seconds)
    return {name: {"a call": its["minimum"]} for name, its in times.items()}
