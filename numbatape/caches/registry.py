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
from typing import TYPE_CHECKING, Any

import numpy as np

from ..capture.moving_names import Moving
from ..config import Config
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.program import Program
from ..programs.trace_log import Signatures
from ..steady_calls.front import Front
from ..threads import Turn, survives_fork
from ..trace.trace import current

if TYPE_CHECKING:
    from .derived import Derived

ATTRIBUTE = "__numbatape__"
_IMMORTAL = (np.ufunc, types.BuiltinFunctionType, type(np.sum))

_shelves: weakref.WeakSet[Shelf] = weakref.WeakSet()
_immortal: dict[Callable, Shelf] = {}
RECENT = 32  # shelves of bound methods and callable objects that are kept, with the objects
_recent: OrderedDict[tuple[int, int], tuple] = OrderedDict()
# The code of functions that refer to nothing of their own, by the ids of it and of its globals.
_codes: OrderedDict[tuple[int, int], weakref.ref] = OrderedDict()
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
        self.moving = Moving()
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
                options = {"moving": flat.moving, "changes": self.moving}
                self._programs[key] = Program(function, config, transform, repeats, **options)
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
                    cls = imported(".derived", __package__).Derived
                    options = {"moving": flat.moving, "changes": self.moving}
                    self._derived[key] = cls(function, Config(), transform, lanes, **options)
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

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()
            self._derived.clear()
            self.moving.forget()
            for idle in self._idle.values():  # emptied and not replaced, because verbs refer to these lists
                idle.clear()


@contextlib.contextmanager
def _returned(idle: list, found):
    """Lend an object, and put it back if the call did not raise."""
    yield found
    idle.append(found)


def shelf_of(function) -> Shelf:
    """Return a function's shelf: its attribute, or an entry of a table where it cannot have attributes."""
    found = known_shelf(function)
    if found is not None:
        return found
    if not isinstance(function, (types.FunctionType, functools.partial)):
        with _lock:
            return _recent_shelf(function)
    _collector.look()
    with _lock:
        found = vars(function).get(ATTRIBUTE)
        if found.__class__ is not Shelf or not _owns(found, function):
            found = vars(function)[ATTRIBUTE] = Shelf(function)
        return found


def may_share(function) -> bool:
    """Whether other functions may do what one does: those of its code, if it is not the first one of it."""
    if type(function) is not types.FunctionType or function.__closure__ or function.__defaults__:
        return True
    code = function.__code__
    key = id(code), id(function.__globals__)
    with _lock:
        before = _codes.get(key)
        if before is not None and before() is code:
            return True
        _codes[key] = weakref.ref(code)
        while len(_codes) > RECENT:
            _codes.popitem(last=False)
    return False


def known_shelf(function) -> Shelf | None:
    """Return the shelf of a function; None if it has none yet."""
    found = getattr(function, "__dict__", _NOTHING).get(ATTRIBUTE)
    if found.__class__ is Shelf and _owns(found, function):
        return found
    if isinstance(function, (types.FunctionType, functools.partial)):
        return None
    with _lock:
        if isinstance(function, _IMMORTAL):
            return _immortal.setdefault(function, Shelf())
        known = _recent.get(_key_of_object(function))
        return None if known is None else known[2]


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


def _recent_shelf(function) -> Shelf:
    """Return the shelf of a bound method or of an object that can be called.

    Each evaluation of ``model.loss`` makes a new object, while the model stays the same. The shelf is not an
    attribute of the model, because it would show in the model's ``vars`` and in comparisons of them.
    """
    key = _key_of_object(function)
    if key in _recent:
        _recent.move_to_end(key)
    else:
        owner = getattr(function, "__self__", None)
        _recent[key] = owner, function, Shelf()  # all kept alive, so that no other object gets their ids
        while len(_recent) > RECENT:
            _recent.popitem(last=False)
    return _recent[key][2]


def _key_of_object(function) -> tuple[int, int]:
    """Return what tells a bound method, or an object that can be called, from others."""
    if isinstance(function, types.MethodType):
        return id(function.__self__), id(function.__func__)
    return id(function), 0


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
        _codes.clear()
    imported(".function_families", __package__).forget()
    for shelf in list(_shelves):
        shelf.clear()
    imported("..subtapes.functions", __package__).clear()
