"""What the one-shot verbs keep: programs and idle evaluators, by function and signature.

A function's shelf is an attribute of the function, so that both live equally long: a program refers to its
function, so a table with weak keys would keep both alive for ever. Python's collector frees both, see
`Collector`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Config
from ..late import imported
from ..threads import Turn, survives_fork
from ..trace.aliasing import root_of
from ..trace.trace import current
from .arguments import Flattened
from .derived import Derived
from .evaluator import Evaluator
from .front import Front
from .program import Program
from .trace_log import Signatures

ATTRIBUTE = "__numbatape__"
_IMMORTAL = (np.ufunc, types.BuiltinFunctionType, type(np.sum))

_shelves: weakref.WeakSet[Shelf] = weakref.WeakSet()
_immortal: dict[Callable, Shelf] = {}
# Functions that were made again and again, such as a lambda in a loop, by what they consist of; see
# `_shelf_of_equal`.
_equals: OrderedDict[tuple, Any] = OrderedDict()
RECENT = 32  # shelves of bound methods and callable objects that are kept, with the objects
_recent: OrderedDict[tuple[int, int], tuple] = OrderedDict()
_NOTHING: dict = {}
_lock = survives_fork(threading.Lock())


class Caller:
    """What one call of a one-shot verb uses: workspaces by signature, and steady calls that it learned."""

    def __init__(self):
        self.front = Front(Turn())
        self._kept: dict[tuple, Any] = {}

    def kept(self, key: tuple, make: Callable):
        """Return what this caller keeps under a key; ``make()`` makes it."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found


USUAL = Config()


class Shelf:
    """The programs of one function, what one-shot verbs made of it, and their idle workspaces.

    Thread-safe and re-entrant: a call that finds nothing idle makes another.
    """

    def __init__(self, function=None):
        self.owner = weakref.ref(function) if function is not None else None
        self._programs: dict[tuple, Program] = {}
        self._derived: dict[tuple, Derived] = {}
        self._idle: dict[tuple, list] = {}
        self._verbs: dict[tuple, Callable] = {}
        self._signatures = Signatures()
        self._lock = survives_fork(threading.Lock())
        _shelves.add(self)

    def __reduce__(self):
        return Shelf, ()  # a function is pickled with its attributes, and arrives with an empty shelf

    def verb(self, key: tuple, make: Callable[..., Callable], *args) -> Callable:
        """Return the function that a verb makes of this one by ``make(*args)``; the same one each time.

        Thus ``nt.grad(f)(x)`` in a loop finds what earlier iterations have learned.
        """
        try:
            found = self._verbs.get(key)
        except (TypeError, ValueError):
            # An option cannot be hashed: a list (TypeError), or a memoryview of writable memory (ValueError).
            return make(*args)
        if found is None:
            found = self._verbs[key] = make(*args)
        return found

    def program(
        self, function, flat: Flattened, transform=None, repeats: bool = False, config: Config = USUAL
    ) -> Program:
        """Return the program of the function, or of its derivative, for arguments of this signature."""
        with self._lock:
            key = (flat.signature, transform, repeats, config)
            if key not in self._programs:
                self._programs[key] = Program(function, config, transform, repeats)
                self._signatures.add(function, flat)
            return self._programs[key]

    def evaluator(
        self, caller: Caller, function, flat: Flattened, repeats: bool = False, gradient: bool = False
    ) -> Evaluator:
        """Return a caller's workspaces for arguments of this signature, see `Evaluator`."""
        key = (flat.signature, repeats, gradient)
        program = self.program(function, flat, repeats=repeats)
        return caller.kept(key, lambda: Evaluator(program, gradient=gradient))

    def derived(self, caller: Caller, function, flat: Flattened, transform, lanes: bool) -> Derived:
        """Return a caller's workspaces for a derivative of the function."""
        key = (transform, lanes, flat.signature)

        def make() -> Derived:
            with self._lock:
                if key not in self._derived:
                    self._derived[key] = Derived(function, Config(), transform, lanes)
                    self._signatures.add(function, flat)
                return self._derived[key].clone()

        return caller.kept(key, make)

    def idle(self, key: tuple) -> list:
        """Return the list of idle objects of one kind."""
        found = self._idle.get(key)
        if found is None:
            with self._lock:
                found = self._idle.setdefault(key, [])
        return found

    def lent(self, key: tuple, make: Callable):
        """Lend an object that no other call uses; ``make()`` makes one if there is none."""
        idle = self.idle(key)
        try:
            found = idle.pop()
        except IndexError:
            found = make()  # outside of a generator, in which a StopIteration would be another error
        return _returned(idle, found)

    def holds(self) -> bool:
        """Whether everything that the function captures is as it was when it was traced."""
        with self._lock:
            programs = [*self._programs.values(), *(derived.program for derived in self._derived.values())]
        return not any(p.environment.changed() for p in programs)

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()
            self._derived.clear()
            for idle in self._idle.values():  # emptied and not replaced, because verbs refer to these lists
                idle.clear()


@contextlib.contextmanager
def _returned(idle: list, found):
    """Lend an object, and put it back if the call did not raise."""
    yield found
    idle.append(found)


def shelf_of(function) -> Shelf:
    """Return a function's shelf: its attribute, or an entry of a table where it cannot have attributes."""
    found = getattr(function, "__dict__", _NOTHING).get(ATTRIBUTE)
    if found.__class__ is Shelf and _owns(found, function):
        return found
    with _lock:
        if isinstance(function, _IMMORTAL):
            return _immortal.setdefault(function, Shelf())
        if not isinstance(function, (types.FunctionType, functools.partial)):
            return _recent_shelf(function)
        found = vars(function).get(ATTRIBUTE)
        if found.__class__ is Shelf and _owns(found, function):
            return found
    equal = _shelf_of_equal(function)
    if equal is not None:
        return equal
    _collector.look()
    with _lock:
        found = vars(function).get(ATTRIBUTE)
        if found.__class__ is not Shelf or not _owns(found, function):
            found = vars(function)[ATTRIBUTE] = Shelf(function)
        return found


MOST_GROWTH = 256 << 20  # bytes
OF_A_SECOND = 1 << 30  # bytes that a program fills in the time of a collection of one second


def resident() -> int:
    """Return how many bytes of memory the process has; 0 where no file tells it, as one does on Linux."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Collector:
    """Collects garbage if the process has grown by half, and by `MOST_GROWTH`, since there was none.

    Python's collector counts objects and no bytes: some sixty functions that were made one after the other,
    each with data of its own, waited for it together. Where there are so many objects that collections take
    long, the process has to grow by more.
    """

    def __init__(self):
        self.limit = 0  # the bytes of the process beyond which garbage is collected; 0 before the first look
        self.seconds = 0.0  # how long the last collection took

    def look(self) -> None:
        """Collect if it is time; never inside of a trace, nor where the program turned the collector off."""
        if not gc.isenabled() or current() is not None:
            return
        now = resident()
        if self.limit and now > self.limit:
            start = time.thread_time()
            gc.collect()
            self.seconds = time.thread_time() - start
            now = self.limit = resident()
        usual = now + max(MOST_GROWTH, now // 2, int(self.seconds * OF_A_SECOND))
        # A process that has shrunk since gets a lower limit; one that grows keeps its limit until it is met.
        self.limit = min(self.limit, usual) if self.limit > now else usual


_collector = Collector()  # looks whenever a further function gets a shelf


def _shelf_of_equal(function) -> Shelf | None:
    """Return the shelf of a function that does the same as a new one, or None.

    ``nt.grad(lambda x: ...)`` in a loop gets a new function in each turn. It does what the one of the turn
    before did if its code, its globals, the variables of its closure and its defaults are the same objects,
    and nothing that the tape relies on has changed. The second function of a kind is kept for that, with its
    shelf: one that is made once is freed as ever.
    """
    if type(function) is not types.FunctionType or current() is not None:
        return None
    parts = _parts(function)
    if parts is None:
        return None
    key = tuple(map(id, parts))
    with _lock:
        known = _equals.get(key)
        if known is None or known.__class__ is weakref.ref:
            if known is None or known() is not function.__code__:
                _equals[key] = weakref.ref(function.__code__)
            else:
                shelf = vars(function)[ATTRIBUTE] = Shelf(function)
                _equals[key] = function, shelf  # alive, so that no other objects get the ids in the key
            while len(_equals) > RECENT:
                _equals.popitem(last=False)
            return None
        _equals.move_to_end(key)
    if known[1].holds():
        return known[1]
    with _lock:
        _equals.pop(key, None)
    return None


def _parts(function: types.FunctionType) -> list | None:
    """Return the objects that decide what a function does; None if unknown, or if they take much memory."""
    if function.__dict__ or function.__kwdefaults__:
        return None
    cells, defaults = function.__closure__ or (), function.__defaults__ or ()
    try:
        contents = [cell.cell_contents for cell in cells]
    except ValueError:  # a variable without a value
        return None
    if not all(map(_is_small, (*contents, *defaults))):
        return None
    return [function.__code__, function.__globals__, *cells, *defaults]


def _is_small(value) -> bool:
    """Whether a value may be kept alive for a function that is made again and again."""
    kind = type(value)
    return (
        kind in _SMALL
        or (kind is np.ndarray and root_of(value).nbytes <= MOST_BYTES)  # a view keeps all of its memory
        or (kind is types.FunctionType and not value.__closure__)
    )


_SMALL = (float, int, bool, str, np.float64, type(None), type, types.ModuleType)
MOST_BYTES = 1 << 16


def _recent_shelf(function) -> Shelf:
    """Return the shelf of a bound method or of an object that can be called.

    Each evaluation of ``model.loss`` makes a new object, while the model stays the same. The shelf is not an
    attribute of the model, because it would show in the model's ``vars`` and in comparisons of them.
    """
    if isinstance(function, types.MethodType):
        owner, key = function.__self__, (id(function.__self__), id(function.__func__))
    else:
        owner, key = function, (id(function), 0)
    if key in _recent:
        _recent.move_to_end(key)
    else:
        _recent[key] = owner, function, Shelf()  # all kept alive, so that no other object gets their ids
        while len(_recent) > RECENT:
            _recent.popitem(last=False)
    return _recent[key][2]


def _owns(shelf: Shelf, function) -> bool:
    """Whether a shelf is this function's own: functools.wraps copies attributes to another function."""
    return shelf.owner is not None and shelf.owner() is function


def clear_caches() -> None:
    """Free the tapes and workspaces that one-shot verbs and sub-tapes keep; the next calls trace again.

    Prepared caches are left alone.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.clear_caches()
    """
    with _lock:
        _recent.clear()
        _equals.clear()
    for shelf in list(_shelves):
        shelf.clear()
    imported("..subtapes.functions", __package__).clear()
