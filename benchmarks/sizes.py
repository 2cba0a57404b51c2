"""Lengths that change from call to call, and branches: beside autograd, torch and JAX, if installed.

Every row is the processor time of one call of value and gradient. "one length" is the same call without a
change, for as many entries as those below it have on average: what these take beyond it is the price of
switching. The peers get the same function; JAX
compiles it for every length, the other two build its graph in every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

NEW = 1_000  # the first of the lengths that come only once
BETWEEN_LOOKS = 240  # about so many calls are made between two looks at the clock


def smooth(x, np=np):
    """A function of vectors, which uses the length as a number."""
    return np.sum(np.exp(-x * x) * x[0]) / len(x)


def either(x, np=np):
    """One of two paths."""
    return np.sum(x * x) if x[0] > 1.0 else np.sum(np.exp(x))


def turns(x, np=np):
    """A loop that halves a number until it is small: its number of turns depends on the data."""
    y = np.sum(x * x)
    while y > 1.0:
        y = y * 0.5
    return y


def vector(n: int, first: float = 0.5) -> np.ndarray:
    return np.linspace(first, 1.5, n)


def scenes() -> dict[str, tuple[Callable, list]]:
    """Return the arguments of each scene, to be gone through in turn."""
    return {
        "one length": (smooth, [vector(100)]),
        "two lengths in turn": (smooth, [vector(100), vector(101)]),
        "60 lengths in turn": (smooth, [vector(n) for n in range(70, 130)]),
        "one length, the mean of the next ones": (smooth, [vector(260)]),
        "500 lengths in turn": (smooth, [vector(n) for n in range(10, 510)]),
        "one path": (either, [vector(100)]),
        "two paths in turn": (either, [vector(100), vector(100, 1.2)]),
        "loops of 1 to 8 turns": (turns, [vector(n) * 2.0 for n in (1, 2, 5, 10, 20, 40, 80, 160)]),
    }


def of_numbatape(f: Callable, x) -> Callable:
    import numbatape as nt

    cache = nt.prepare_gradient_cache(f, x)
    return lambda x: nt.value_and_gradient(cache, x)


def one_shot(f: Callable, x) -> Callable:
    import numbatape as nt

    return nt.value_and_grad(lambda x: f(x))


def of_autograd(f: Callable, x) -> Callable:
    import autograd
    import autograd.numpy as anp

    return autograd.value_and_grad(lambda x: f(x, anp))


def of_torch(f: Callable, x) -> Callable:
    import torch

    def call(x):
        x = torch.tensor(x, requires_grad=True)
        value = f(x, torch)
        value.backward()
        return value.item(), x.grad.numpy()

    call(x)
    return call


def of_jax(f: Callable, x) -> Callable:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    both = jax.value_and_grad(lambda x: f(x, jnp))
    compiled = jax.jit(both) if f is smooth else both  # a jitted function cannot branch on values

    def call(x):
        value, gradient = compiled(x)
        return float(value), np.asarray(gradient)

    call(x)
    return call


OWN = {"numbatape prepared": of_numbatape, "numbatape one-shot": one_shot}
PEERS = {"autograd": of_autograd, "torch": of_torch, "jax": of_jax}


def in_turn(call: Callable, arguments: list, seconds: float) -> float:
    """Return the least mean time of a call over some rounds.

    Looking at the clock takes as long as some calls do, so all scenes look at it after about as many calls.
    """
    turn, best = arguments * max(1, BETWEEN_LOOKS // len(arguments)), np.inf
    for _ in range(3):
        for x in turn:
            call(x)
    for _ in range(5):
        start, done, now = time.process_time(), 0, 0.0
        while now < seconds:
            for x in turn:
                call(x)
            done += len(turn)
            now = time.process_time() - start
        best = min(best, now / done)
    return best


def new_lengths(call: Callable, count: int) -> tuple[float, float]:
    """Return the times of a call with a length that never came before, and with one that is known."""
    lengths = NEW + np.random.default_rng(0).permutation(4 * count)[:count]
    arguments = [vector(int(n)) for n in lengths]
    start = time.process_time()
    for x in arguments:
        call(x)
    new = (time.process_time() - start) / count
    middle = vector(NEW + 2 * count)
    return new, in_turn(call, [middle], 0.01)


def measure(seconds: float, libraries: list[str], progress: Callable) -> dict:
    """Return times in seconds by scene and by library."""
    table: dict[str, dict[str, float]] = {}
    chosen = OWN | {name: prepare for name, prepare in PEERS.items() if name in libraries}
    for name, prepare in chosen.items():
        try:
            prepare(smooth, vector(3))
        except ImportError:
            continue
        progress(f"sizes, {name}")
        slow = name == "jax"  # a new length takes a compilation
        for scene, (f, arguments) in scenes().items():
            some = arguments[:60] if slow else arguments
            table.setdefault(scene, {})[name] = in_turn(prepare(f, some[0]), some, seconds)
        call = prepare(smooth, vector(100))
        for x in map(vector, range(3, 23)):
            call(x)
        new, known = new_lengths(call, 10 if slow else 300)
        table.setdefault("1 000 to 2 200 entries, one length", {})[name] = known
        table.setdefault("1 000 to 2 200 entries, a new length in every call", {})[name] = new
    return table
