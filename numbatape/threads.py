"""What threads and forks need: which call uses some memory, shared results, locks that survive a fork.

A child process has one thread, the one that forked. A flag or lock that another thread held at that moment
would stay held for ever in the child; so the child releases them all.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from .errors import BusyError

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "numbatape does not support free-threaded Python, because a `Turn` relies on the interpreter's lock: "
        "use the usual build of Python"
    )

HEAD = object.__basicsize__
Method = TypeVar("Method", bound=Callable)
Result = TypeVar("Result")


class Turn:
    """Whether a call is under way in memory that serves one call at a time.

    Testing `busy` and setting it, with no call in between, is atomic: CPython hands the interpreter lock to
    another thread only at calls and backward jumps, and runs signal handlers only there. Callers write
    ``turn.busy = True``, ``try:``, and ``finally: turn.busy = False`` in line, because an interrupt in a
    method of a context manager could leave the flag set.

    Compiled code reads and writes the attribute as the word at `address`, which holds the address of
    ``True`` or ``False``. It need not count references, because it restores the word before it returns.
    """

    __slots__ = ("__weakref__", "busy")

    busy: bool

    def __init__(self):
        self.busy = False
        _turns.add(self)

    @property
    def address(self) -> int:
        """The address of the attribute ``busy``."""
        return id(self) + _PLACE


def completed(*steps: Callable[[], object]) -> None:
    """Run steps that leave the user's objects as they were, each of them in spite of errors and of Ctrl-C.

    A step that an interrupt ends runs once more, so it has to be one that may run twice. The first error is
    raised when all is done, or an interrupt.
    """
    raised: BaseException | None = None
    waiting = [*reversed(steps)]
    while waiting:
        try:
            waiting[-1]()
            waiting.pop()
        except KeyboardInterrupt as interrupt:
            raised = interrupt
        except BaseException as error:
            raised = raised or error
            waiting.pop()
    try:
        if raised is not None:
            raise raised
    finally:
        raised = None  # its traceback refers to this frame


_turns: weakref.WeakSet[Turn] = weakref.WeakSet()
_locks: weakref.WeakSet = weakref.WeakSet()


def _place() -> int:
    """Return the offset of the attribute ``busy`` in a `Turn`, in bytes."""
    probe, seen = Turn(), []
    for value in (True, False):
        probe.busy = value
        words = range(HEAD, Turn.__basicsize__, 8)
        seen.append([k for k in words if ctypes.c_void_p.from_address(id(probe) + k).value == id(value)])
    if seen[0] != seen[1] or len(seen[0]) != 1:
        raise ImportError("numbatape needs CPython, whose objects have their attributes in __slots__ order")
    return seen[0][0]


_PLACE = _place()


def alone(turn: Turn, call, /, *args, **kwargs):
    """Return ``call(*args, **kwargs)``, made while nobody else has the turn.

    Raises
    ------
    BusyError
        If a call is under way.
    """
    if turn.busy:
        raise BusyError(
            "this cache (or bound callable, or pullback) is in the middle of another call: one of another "
            "thread, or the call whose rule makes this one. Give each its own, cache.clone(), or use the "
            "one-shot verbs (nt.value_and_grad, nt.hvp, nt.jacobian, ...), which several threads may call at "
            "once and a rule inside of a call"
        )
    turn.busy = True
    try:
        return call(*args, **kwargs)
    finally:
        turn.busy = False


def one_at_a_time(method: Method) -> Method:
    """Let a method of an object with a ``_turn`` run while no other such call is under way.

    Raises
    ------
    BusyError
        From the call, if another one is under way.
    """

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        return alone(self._turn, method, self, *args, **kwargs)

    return call  # type: ignore[return-value]


def in_turn(turn: Turn, function: Callable) -> Callable:
    """Return a function that runs when it has the turn, and else raises `BusyError`."""
    return functools.partial(alone, turn, function)


class Patient:
    """A lock that is held while the user's code runs; waiting ends when its holder makes no progress.

    The holder may be waiting for the very thread that waits here (its rule asks a pool of threads, one of
    which calls the function that is being traced), so that both would wait for ever. Hence the code under
    the lock must be correct without it, too; the lock only saves threads from doing the same work twice.
    """

    LOOK, STILL = 0.05, 10  # seconds between looks at the holder; looks that may find it at one place

    def __init__(self):
        self._lock = survives_fork(threading.RLock())
        self._holder = 0
        self._held = threading.local()  # for each thread, whether each nested entry got the lock

    def __enter__(self):
        mine = self._held.__dict__.setdefault("got", [])
        gave_up = bool(mine) and not mine[-1]  # an outer entry of this thread gave up already
        got = not gave_up and (self._lock.acquire(blocking=False) or self._wait())
        if got:
            self._holder = threading.get_ident()
        mine.append(got)

    def __exit__(self, *_):
        if self._held.got.pop():
            self._lock.release()

    def _wait(self) -> bool:
        """Wait; return whether the lock was acquired before its holder stopped making progress."""
        place, seen = None, 0
        while seen < self.STILL:
            if self._lock.acquire(timeout=self.LOOK):
                return True
            frame = sys._current_frames().get(self._holder)
            now = None if frame is None else (id(frame), frame.f_lasti)
            place, seen = now, seen + 1 if now == place else 0
        return False


class Kept(Generic[Result]):
    """The newest results of something that takes long, which threads share.

    Parameters
    ----------
    most
        How many there may be; the oldest one goes for a further one.
    """

    def __init__(self, most: int):
        self._most, self._lock = most, survives_fork(threading.Lock())
        self._results: OrderedDict[tuple, Result] = OrderedDict()

    def get(self, key: tuple) -> Result | None:
        """Return a result that is kept, or None."""
        with self._lock:
            return self._results.get(key)

    def put(self, key: tuple, result: Result) -> None:
        """Keep a result."""
        with self._lock:
            self._results[key] = result
            while len(self._results) > self._most:
                self._results.popitem(last=False)

    def items(self) -> list[tuple[tuple, Result]]:
        """Return what is kept, the oldest first."""
        with self._lock:
            return [*self._results.items()]


def survives_fork(lock):
    """Return a lock of `threading`, which a child process releases whoever held it at the fork."""
    _locks.add(lock)
    return lock


def _in_child() -> None:
    for lock in _locks:
        lock._at_fork_reinit()  # The standard library does this with its own locks.
    for turn in _turns:
        turn.busy = False


def keep_from_fork(lock: threading.RLock) -> None:  # type: ignore[valid-type]
    """Let forks wait for a lock that guards what a child cannot repair, such as LLVM's memory."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_in_child)
