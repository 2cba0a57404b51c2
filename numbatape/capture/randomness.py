"""Random draws while tracing raise, because a tape would replay one draw for ever.

Draws from the global generators are noticed by their states; those from generators that the function
captures or gets as arguments likewise (`Environment.generator_states`).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import random
import sys
import threading
from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedOperationError

WORDS, KEPT = 624, 4  # how many words a Mersenne twister has, and how many of them are compared
# Where there are threads, a generator has to move in so many runs before a function is said to draw.
RUNS = 4


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
    """Return the part of the state of a Mersenne twister that every draw changes; all of another state."""
    state = generator.get_state(legacy=False)
    words = state["state"]
    if "pos" not in words:  # another generator has been set by `np.random.set_bit_generator`
        return (repr(state),)
    return words["pos"], words["key"][:KEPT].tobytes(), state["has_gauss"], state["gauss"]


def _global_states() -> tuple:
    """Return states of the global generators; None for NumPy's as long as it is not imported.

    The two generators return copies of all of their words, which takes 15 and 50 µs: more than to trace ten
    instructions. So the words that every draw changes are read where the generators keep them.
    """
    pythons = _words_of_python()
    state = (
        hash(random.getstate()) if pythons is None else (bytes(pythons), random.getstate.__self__.gauss_next)
    )
    return state, _state_of_numpy() if "numpy.random" in sys.modules else None


@functools.cache
def _words_of_python() -> ctypes.Array | None:
    """Return which word of Python's generator is next, and the first ones; None if they are elsewhere."""
    generator = getattr(random.getstate, "__self__", None)
    if type(generator) is not random.Random or sys.implementation.name != "cpython":
        return None
    words = (ctypes.c_uint32 * (1 + KEPT)).from_address(id(generator) + object.__basicsize__)
    state = generator.getstate()[1]
    return words if [*words] == [state[-1], *state[:KEPT]] else None


def _state_of_numpy() -> tuple:
    """Return what `_state_of` returns of NumPy's global generator, as bytes."""
    generator = np.random.get_bit_generator()
    if len(_known) != 1 or generator not in _known:  # the generator is new, or another one than before
        _known.clear()
        _known[generator] = _words_of_numpy(generator)
    parts = _known[generator]
    return _state_of(np.random) if parts is None else tuple(map(bytes, parts))


_known: dict = {}  # the words of NumPy's generator, by its bit generator


def _words_of_numpy(generator) -> tuple | None:
    """Return parts of the memory of NumPy's generator, None if they are not where they are expected.

    These are the first words of the twister, which one is next, and whether a normal number waits (they are
    drawn in pairs), with that number.
    """
    its = getattr(np.random.get_state, "__self__", None)
    if type(generator) is not np.random.MT19937 or type(its) is not np.random.RandomState:
        return None
    # Where a waiting number is in an object of that class is found with another object, which has one that no
    # other word of the object is likely to hold.
    sample, number = np.random.RandomState(0), 0.8414709848078965
    sample.set_state({**sample.get_state(legacy=False), "has_gauss": 1, "gauss": number})
    size = type(sample).__basicsize__ // 8
    found = [*(ctypes.c_double * size).from_address(id(sample))]
    if sys.implementation.name != "cpython" or found.count(number) != 1:
        return None
    place = 8 * found.index(number) - 8  # the word before the number says whether it waits
    first = generator.ctypes.state_address
    words = (ctypes.c_uint32 * KEPT).from_address(first)
    following = ctypes.c_int32.from_address(first + 4 * WORDS)
    waits = ctypes.c_int32.from_address(id(its) + place)
    normal = ctypes.c_double.from_address(id(its) + place + 8)
    state = (following.value, bytes(words), waits.value, normal.value)
    is_so = ctypes.c_int32.from_address(id(sample) + place).value == 1 and state == _state_of(np.random)
    return (following, words, waits, normal) if is_so else None


def _is_new(state: tuple) -> bool:
    """Whether a state may be that of a generator without any draw and without a seed.

    The first word of all new generators is the same; it changes once a generator has drawn all of its words.
    """
    # A state has the next word's number, bytes of the first words (4 each), and what waits.
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
        moved = not _is_new(_state_of(np.random))
    if moved or pythons != pythons_after:
        raise MovedError
