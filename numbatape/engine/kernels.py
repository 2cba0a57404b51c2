"""The process's kernel tables: addresses by kernel number, filled when a plan first needs one."""

from __future__ import annotations

import functools

import numpy as np

from .. import jit
from ..ops import OPS
from .chain import sweep_source
from .codegen import FIRST_KERNEL, kernel_source

FORWARD = np.zeros(FIRST_KERNEL, np.int64)
REVERSE = np.zeros(FIRST_KERNEL, np.int64)


def ensure(kernels) -> None:
    """Load the kernels with the given numbers (2 * row + family) into the tables."""
    for number in kernels:
        if FORWARD[number]:
            continue
        row, family = number >> 1, number & 1
        name = f"{OPS[row].name}-{('f64', 'f32')[family]}"
        loaded = jit.load(name, kernel_source(row, family))
        REVERSE[number] = loaded.address.get("reverse", 0)
        FORWARD[number] = loaded.address["forward"]


@functools.cache
def sweeps() -> dict:
    """Return the sweeps' entry points as callables ``(frame address, 0) -> status``."""
    loaded = jit.load("sweeps", sweep_source())
    names = ("prologue", "value", "lanes", "resume", "pullback", "watched", "gradient", "bound")
    return {name: loaded.function(name) for name in names}


def call_of(name: str, frame_address: int, value: np.ndarray, fallback):
    """Return a builtin that runs a sweep on a frame and returns ``value[0]`` as a float.

    ``fallback()`` gives the result where the sweep stops early. What the addresses point to must
    stay alive as long as the builtin; the second result holds its own words.
    """
    sweep = jit.load("sweeps", sweep_source()).address[name]
    single = int(value.dtype == np.float32)
    words = np.array([frame_address, sweep, value.ctypes.data, single, id(fallback)], np.int64)
    return jit.make_builtin(words), words


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
