"""Random draws while tracing raise: a tape would replay one draw for ever.

The global generators are noticed by their state; those that the function captures or gets as
arguments are noticed the same way by whoever knows them (`Environment.generator_states`).
"""

from __future__ import annotations

import contextlib
import random
import sys

import numpy as np

from ..errors import UnsupportedOperationError


def error(source: str) -> UnsupportedOperationError:
    """Return the error for a draw from ``source``."""
    return UnsupportedOperationError(
        f"the function draws random numbers ({source}) while it is traced; the tape would repeat this "
        "draw in every call. Draw outside and pass the numbers as nt.Constant(...)"
    )


def generators() -> tuple[type, ...]:
    """Return the classes of random generators; NumPy's are imported (15 ms) with the first of them."""
    names = vars(sys.modules.get("numpy.random", random))  # another thread may be importing it
    numpys = (names.get(name) for name in ("Generator", "RandomState", "BitGenerator"))
    return (random.Random, *filter(None, numpys))


def _state_of(generator) -> tuple:
    """Return what every draw from a Mersenne twister changes."""
    state = generator.get_state(legacy=False)
    words = state["state"]
    return words["pos"], words["key"][:4].tobytes(), state["has_gauss"], state["gauss"]


def _global_states() -> tuple:
    """Return what tells whether the global generators have moved; None for NumPy's while there is none."""
    numpys = _state_of(np.random) if "numpy.random" in sys.modules else None
    return hash(random.getstate()), numpys


def _is_new(state: tuple) -> bool:
    """Whether a state may be that of a generator which nobody has drawn from, nor given a seed.

    The first word of every new generator is the same, and no longer once it has drawn all its words.
    """
    new = _state_of(np.random.RandomState())
    return (state[0], state[1][:4], state[2:]) == (new[0], new[1][:4], new[2:])


@contextlib.contextmanager
def forbidden():
    """Raise `UnsupportedOperationError` if the global generators moved inside the block."""
    pythons, numpys = _global_states()
    yield
    pythons_after, numpys_after = _global_states()
    moved = numpys != numpys_after
    if moved and numpys is None:  # it was imported inside of the block
        moved = not _is_new(numpys_after)
    if moved or pythons != pythons_after:
        raise error("np.random or random")
