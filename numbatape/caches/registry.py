"""What the one-shot verbs keep: programs and idle evaluators, by function and signature.

A function's shelf hangs on the function itself, so that it lives as long: a program refers to its
function, and a table of weak keys would keep both alive for ever.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import weakref
from collections.abc import Callable

import numpy as np

from ..config import Config
from ..threads import survives_fork
from .arguments import Flattened
from .derived import Derived
from .program import Evaluator, Program

ATTRIBUTE = "__numbatape__"
_IMMORTAL = (np.ufunc, types.BuiltinFunctionType, type(np.sum))

_shelves: weakref.WeakSet[Shelf] = weakref.WeakSet()
_immortal: dict[Callable, Shelf] = {}
_lock = survives_fork(threading.Lock())


class Shelf:
    """The programs of one function, and evaluators that no call uses at the moment.

    Thread-safe and re-entrant: a call that finds none idle makes another.
    """

    def __init__(self, function=None):
        self.owner = weakref.ref(function) if function is not None else None
        self._programs: dict[tuple, Program] = {}
        self._idle: dict[tuple, list[Evaluator]] = {}
        self._derived: dict[tuple, Derived] = {}
        self._lent: dict[tuple, list] = {}
        self._lock = survives_fork(threading.Lock())
        _shelves.add(self)

    def __reduce__(self):
        return Shelf, ()  # functions may be pickled with their attributes; shelves stay at home

    def program(self, function, flat: Flattened, transform=None) -> Program:
        """Return the program of the function, or of its derivative, for arguments of this signature."""
        with self._lock:
            key = (flat.signature, transform)
            if key not in self._programs:
                self._programs[key] = Program(function, Config(), transform)
            return self._programs[key]

    def borrow(self, function, flat: Flattened) -> tuple[Evaluator, list[Evaluator]]:
        """Return ``(evaluator, the list to append it to when done)``."""
        program = self.program(function, flat)
        with self._lock:
            idle = self._idle.setdefault(flat.signature, [])
            return (idle.pop() if idle else Evaluator(program)), idle

    @contextlib.contextmanager
    def derived(self, function, flat: Flattened, kind: str, transform, lanes: bool):
        """Lend a derivative of the function for arguments of this signature."""
        key = (kind, flat.signature)

        def make() -> Derived:
            with self._lock:
                if key not in self._derived:
                    self._derived[key] = Derived(function, Config(), transform, lanes)
                return self._derived[key].clone()

        with self.lent(key, make) as found:
            yield found

    @contextlib.contextmanager
    def lent(self, key: tuple, make: Callable):
        """Lend what no other call uses at the moment; ``make()`` makes another."""
        with self._lock:
            idle = self._lent.setdefault(key, [])
            found = idle.pop() if idle else None
        if found is None:
            found = make()
        yield found
        idle.append(found)  # not one whose call raised

    def clear(self) -> None:
        with self._lock:
            for table in (self._programs, self._idle, self._derived, self._lent):
                table.clear()


def shelf_of(function) -> Shelf:
    """Return a function's shelf; a fresh one for what can carry none (a bound method)."""
    with _lock:
        if isinstance(function, _IMMORTAL):
            return _immortal.setdefault(function, Shelf())
        if not isinstance(function, (types.FunctionType, functools.partial)):
            return Shelf()
        found = vars(function).get(ATTRIBUTE)
        # functools.wraps copies attributes to another function
        if not isinstance(found, Shelf) or found.owner is None or found.owner() is not function:
            found = vars(function)[ATTRIBUTE] = Shelf(function)
        return found


def clear_caches() -> None:
    """Free the tapes and workspaces that the one-shot verbs keep.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.clear_caches()
    """
    for shelf in list(_shelves):
        shelf.clear()
