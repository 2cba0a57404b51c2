"""The process's kernel tables: addresses by kernel number, filled when a plan first needs one."""

from __future__ import annotations

import functools

import numpy as np

from .. import jit
from ..ops import OPS
from .chain import sweep_source
from .codegen import FIRST_KERNEL, kernel_source

FORWARD = np.zeros(FIRST_KERNEL, np.int64)
FORWARD_NUMPY = np.zeros(FIRST_KERNEL, np.int64)  # Config(values="numpy")
REVERSE = np.zeros(FIRST_KERNEL, np.int64)


def forward_table(values: str) -> np.ndarray:
    """Return the table of forward kernels for ``Config(values=...)``."""
    return FORWARD_NUMPY if values == "numpy" else FORWARD


def ensure(kernels, values: str = "fast", reverse: bool = True) -> None:
    """Load the kernels with the given numbers (2 * row + family) into the tables.

    Parameters
    ----------
    reverse
        Whether the reverse kernels are needed too.
    """
    forward = forward_table(values)
    for number in kernels:
        if not forward[number]:
            forward[number] = _loaded(number, "forward", values)
        if reverse and OPS[number >> 1].differentiable and not REVERSE[number]:
            REVERSE[number] = _loaded(number, "reverse", values)


def _loaded(number: int, direction: str, values: str) -> int:
    """Return the address of a kernel."""
    row, family = number >> 1, number & 1
    name = f"{OPS[row].name}-{('f64', 'f32')[family]}" + "-reverse" * (direction == "reverse")
    return jit.load(name, kernel_source(row, family, direction, values)).address[direction]


@functools.cache
def sweeps() -> dict:
    """Return the sweeps' entry points as callables ``(frame address, 0) -> status``."""
    loaded = jit.load("sweeps", sweep_source())
    names = ("prologue", "value", "lanes", "resume", "pullback", "watched", "gradient", "bound")
    return {name: loaded.function(name) for name in names}


def call_of(name: str, frame_address: int, value: np.ndarray, fallback, hits: np.ndarray, turn=None):
    """Return a builtin that runs a sweep on a frame and returns ``value[0]`` as a float.

    ``fallback()`` gives the result where the sweep stops early, or another call has the ``turn`` (None:
    the caller has it). ``hits`` counts the sweeps that do not stop. What the addresses point to must
    stay alive as long as the builtin; the second result holds its own words.
    """
    numbers = {
        "frame": frame_address,
        "sweep": jit.load("sweeps", sweep_source()).address[name],
        "value": value.ctypes.data,
        "single": int(value.dtype == np.float32),
        "fallback": id(fallback),
        "hits": hits.ctypes.data,
        **jit.turn_words(turn),
    }
    words = np.array([numbers[name] for name in jit.BUILTIN_WORDS], np.int64)
    return jit.make_builtin(words), (words, fallback, hits, turn)


def steady_call(frame_address: int, closure, turn, hits: np.ndarray, **parts):
    """Return the builtin of a gradient's steady call and what it refers to; None if there is none here.

    ``closure`` serves what it cannot; ``turn`` and ``hits`` as in `call_of`. Parts are those of
    `numbatape.jit.steady.WORDS`: numbers, or objects that are taken by address.
    """
    if not jit.steady_available():
        return None
    sweep = jit.load("sweeps", sweep_source()).address["gradient"]
    numbers = {"frame": frame_address, "sweep": sweep, "closure": id(closure), "array_type": id(np.ndarray)}
    numbers |= {"hits": hits.ctypes.data, **jit.turn_words(turn)}
    shape = np.array([*parts.pop("shape"), 0], np.int64)
    cells = parts.pop("cells")
    numbers |= {"shape": shape.ctypes.data, "cells": cells.ctypes.data, "bytes": cells.nbytes}
    for name, part in parts.items():
        numbers[name] = part if type(part) is int else 0 if part is None else id(part)
    words = np.array([numbers[name] for name in jit.STEADY_WORDS], np.int64)
    return jit.make_steady(words), (words, shape, cells, closure, turn, hits, parts)


def warmup(dtypes=("f64",)) -> list[str]:
    """Compile (or load) the sweeps and every kernel of the op table.

    Parameters
    ----------
    dtypes : sequence of {"f64", "f32"}
        Whose kernels.

    Returns
    -------
    list of str
        Names of the kernels that are now on disk.

    Examples
    --------
    >>> import numbatape as nt
    >>> names = nt.warmup(dtypes=())
    >>> "sweeps" in names
    True
    """
    from .verifier import plan_functions

    sweeps()
    plan_functions()
    families = [("f64", "f32").index(dtype) for dtype in dtypes]
    ensure(2 * row + family for row in range(len(OPS)) for family in families)
    return jit.kernel_info()["kernels"]
