"""What pure functions of tapes have returned: derivatives, tapes with lanes, sparsity patterns.

Equal tapes share their results, so that a function which is prepared twice, or traced again on the same path,
is derived once. Results are attributes of the tapes and go with the last of them. Which tapes are equal is
known by their digests. The digest of a long tape takes some milliseconds, so it is computed only if there is
another tape of the same size.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakSet

from ..threads import survives_fork
from .tape import Tape

Result = TypeVar("Result")
ATTRIBUTE = "results"  # the attribute of a tape that has its results
SIZES = 1024  # where tapes of more sizes than this are known, sizes whose tapes are all gone are forgotten

_lock = survives_fork(threading.Lock())
_tapes: dict[tuple[int, ...], WeakSet[Tape]] = {}  # those that have results, by size


class Results(Generic[Result]):
    """The results of one function.

    Parameters
    ----------
    most
        How many there may be for one tape; the oldest one goes for a further one.
    """

    def __init__(self, most: int = 16):
        self._most = most

    def of(self, tape: Tape, key: object, make: Callable[[], Result]) -> Result:
        """Return what ``make`` has returned for an equal tape with the same key, or returns now."""
        mine = _results_of(tape).setdefault(self, OrderedDict())
        found = mine.get(key)
        if found is None:
            made = make()  # without the lock, because this may take long, and may ask for other results
            with _lock:
                found = mine.setdefault(key, made)
                while len(mine) > self._most:
                    mine.popitem(last=False)
        return found


def _results_of(tape: Tape) -> dict[Results, OrderedDict]:
    """Return the results that a tape shares with equal ones.

    Tapes that call rules of the user's have results of their own, because a digest does not cover all that
    rules may refer to.
    """
    known = vars(tape).get(ATTRIBUTE)
    if known is not None:
        return known
    if tape.calls_rules:
        return vars(tape).setdefault(ATTRIBUTE, {})
    size = len(tape.code), len(tape.values), len(tape.storages), len(tape.layouts)
    with _lock:
        others = [*_tapes.get(size, ())]
    equal = next((other for other in others if are_equal(other, tape)), None)
    found = {} if equal is None else vars(equal)[ATTRIBUTE]
    with _lock:
        if len(_tapes) > SIZES:
            for empty in [key for key, tapes in _tapes.items() if not tapes]:
                del _tapes[empty]
        _tapes.setdefault(size, WeakSet()).add(tape)
        return vars(tape).setdefault(ATTRIBUTE, found)


def are_equal(tape: Tape, other: Tape) -> bool:
    """Whether two tapes compute the same, and name the same lines of the user's code in error messages."""
    if tape.digest != other.digest or tape.guards != other.guards or tape.lines != other.lines:
        return False
    return tape.positions.tobytes() == other.positions.tobytes()
