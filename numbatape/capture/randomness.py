"""Random draws while tracing raise, because a tape would replay one draw for ever.

Draws from the global generators are noticed by their states; those from generators that the function
captures or gets as arguments likewise (`Environment.generator_states`).
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedOperationError

RUNS = 4  # in which a generator has to move before a function is said to draw, where there are threads


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
    """Return the part of the state of a Mersenne twister that every draw changes."""
    state = generator.get_state(legacy=False)
    words = state["state"]
    return words["pos"], words["key"][:4].tobytes(), state["has_gauss"], state["gauss"]


def _global_states() -> tuple:
    """Return states of the global generators; None for NumPy's as long as it is not imported."""
    numpys = _state_of(np.random) if "numpy.random" in sys.modules else None
    return hash(random.getstate()), numpys


def _is_new(state: tuple) -> bool:
    """Whether a state may be that of a generator without any draw and without a seed.

    The first word of all new generators is the same; it changes once a generator has drawn all of its words.
    """
    new = _state_of(np.random.RandomState())
    return (state[0], state[1][:4], state[2:]) == (new[0], new[1][:4], new[2:])


class MovedError(Exception):
    """A global generator moved: the function, or another thread meanwhile, has drawn from it."""


def repeated(run: Callable, undo: Callable):
    """Return what ``run()`` returns, in a run during which no global generator moved.

    Other threads may draw at any time: those of Dask do so once in a while. A function that draws itself
    does so in every run.

    Parameters
    ----------
    run
        Raises `MovedError` if a generator moved.
    undo
        Called before another run.

    Raises
    ------
    UnsupportedOperationError
        If a generator moved in every run.
    """
    for attempt in range(RUNS):
        try:
            return run()
        except MovedError:
            if threading.active_count() == 1 or attempt == RUNS - 1:
                raise error("np.random or random") from None
        undo()


@contextlib.contextmanager
def forbidden():
    """Raise `MovedError` if the global generators moved inside the block."""
    pythons, numpys = _global_states()
    yield
    pythons_after, numpys_after = _global_states()
    moved = numpys != numpys_after
    if moved and numpys is None:  # NumPy's generator was imported inside of the block
        moved = not _is_new(numpys_after)
    if moved or pythons != pythons_after:
        raise MovedError
