"""The threads that help with a job whose caller asks for several threads.

`numbatape.jit.crew` says how they work. This file makes the tables that they read: a `Job` is made once for
calls of some sizes, and served in each of them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..jit import crew as layout
from ..jit.crew import CREW_FUNCTION, HELP, HELPER, JOB, LOOK, SERVE
from ..threads import survives_fork

MOST = 256  # helpers of a process
# How long a thread that waits looks for a change before it sleeps. It has to be longer than what Python
# does between two calls.
PATIENCE = 5e-5  # seconds
DONE = 1  # what a block in Python returns; ctypes returns 0 where it is interrupted before it has begun
_NEXT, _FAILED, _STOP = (JOB.index(name) for name in ("next", "failed", "stop"))
_COUNT, _MOST = (layout.CREW.index(name) for name in ("count", "most"))
PYTHON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@functools.cache
def _function() -> Callable[[int, int], int]:
    """Return the crew's function, which releases the interpreter's lock.

    Raises
    ------
    CannotEmit
        Where LLVM emits no code for this machine.
    """
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(CREW_FUNCTION.address())


@functools.cache
def _looks() -> int:
    """Return how often a thread looks in `PATIENCE`; 0 where nobody could change anything meanwhile."""
    if processors() == 1:
        return 0
    words, least = np.array([0, 1000], np.int64), float("inf")
    for _ in range(5):
        began = time.perf_counter()
        _function()(words.ctypes.data, LOOK)
        least = min(least, time.perf_counter() - began)
    return int(PATIENCE / least * 1000)


def processors() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """The helpers of this process.

    Attributes
    ----------
    address
        Of what jobs know of them.
    """

    def __init__(self):
        self._lock = survives_fork(threading.Lock())
        self._words = np.zeros(len(layout.CREW), np.int64)
        self.address = self._words.ctypes.data
        self.forget()

    def forget(self) -> None:
        """Start anew: a child process has none of the threads."""
        self._table = np.zeros((MOST, len(HELPER)), np.int64)
        # A helper that sleeps when the process ends is never told to go, so nothing that it reads is freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._table))
        words = {"helpers": self._table.ctypes.data, "count": 0, "most": min(processors() - 1, MOST)}
        self._words[:] = [words[name] for name in layout.CREW]

    @property
    def count(self) -> int:
        """How many helpers there are."""
        return int(self._words[_COUNT])

    def grow(self, missing: int, wanted: int) -> None:
        """Start helpers for a job that has found too few of those that it wanted.

        There are not more helpers than one job wants, unless there are processors for the helpers of several
        jobs.
        """
        with self._lock:
            most = min(self.count + missing, max(wanted, int(self._words[_MOST])))
            while self.count < most:
                row = self._table[self.count]
                row[HELPER.index("looks")] = _looks()
                for name in ("given", "ended"):
                    row[HELPER.index(name)] = _lock_that_is_held()
                # The helper is a daemon: it waits for ever, and must not keep the process from ending.
                helper = threading.Thread(
                    target=_function(), args=(row.ctypes.data, HELP), name="numbatape", daemon=True
                )
                # The helper is counted before it starts, because an interrupt may come once it runs.
                self._words[_COUNT] += 1
                try:
                    helper.start()
                except RuntimeError:  # The system has no more threads, or the process is ending.
                    self._words[_COUNT] -= 1
                    return


def _lock_that_is_held() -> int:
    """Return the address of a lock of CPython's that somebody holds."""
    api = ctypes.pythonapi
    new = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", api))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(("PyThread_acquire_lock", api))
    lock = new()
    if not lock:
        raise MemoryError("no memory for a lock")
    acquire(lock, 1)
    return lock


CREW = Crew()

if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=CREW.forget)


# ---- jobs


class Block(NamedTuple):
    """What one worker has to do for one block.

    Attributes
    ----------
    frame, sweep
        The frame of a workspace and the address of the sweep's entry point, or any number and a function of
        the type `PYTHON`.
    done
        What that returns unless it fails.
    before, behind
        Records of copies before and behind it, see `numbatape.engine.strided_copies`.
    """

    frame: int
    sweep: int
    done: int
    before: Sequence[Sequence[int]] = ()
    behind: Sequence[Sequence[int]] = ()


class Job:
    """Blocks that several threads work on.

    Parameters
    ----------
    lists
        The blocks, as each worker does them.
    bases
        How many base addresses a call brings.
    step
        After how many blocks Python looks for signals.
    alive
        What the addresses in blocks refer to.

    Attributes
    ----------
    workers
        How many threads may work on it.

    Raises
    ------
    CannotEmit
        Where LLVM emits no code for this machine.
    """

    def __init__(self, lists: Sequence[Sequence[Block]], bases: int, step: int, alive=()):
        self._count, self._step, self._alive = len(lists[0]), step, [alive]
        self.workers = len(lists)
        self._wanted = min(self.workers - 1, MOST)  # how many helpers a job may want
        its_lists = self._kept([self._list_of(blocks) for blocks in lists])
        self._record = dict.fromkeys(JOB, 0) | {
            "lists": its_lists,
            "blocks": self._count,
            "crew": CREW.address,
            "wanted": self._wanted,
            "came": self._wanted,
            "looks": _looks() if self._wanted else 0,
        }
        self._function = _function()
        self._words, self._bases = self._words_and_bases(bases)

    def _words_and_bases(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        bases = np.zeros(1 + count, np.int64)  # the first one is 0, for memory itself
        record = self._record | {"bases": bases.ctypes.data}
        return np.array([record[name] for name in JOB], np.int64), bases

    def called(self, locked: bool = False) -> tuple[dict[str, int], np.ndarray, object] | None:
        """Return what a builtin calls with which frame; the base addresses, to be written; and what to keep.

        None for a job that Python has to do in parts. ``locked``: whether it keeps the interpreter's lock.
        """
        if self._count > self._step:
            return None
        words, bases = self._words_and_bases(len(self._bases) - 1)
        entered = {"frame": words.ctypes.data, "sweep": CREW_FUNCTION.address(), "locked": int(locked)}
        return entered, bases, (self, words)

    def _kept(self, words) -> int:
        """Return the address of words that live as long as the job."""
        kept = np.array(words, np.int64)
        self._alive.append(kept)
        return kept.ctypes.data

    def _list_of(self, blocks: Sequence[Block]) -> int:
        rows = []
        for frame, sweep, done, *copies in blocks:
            tables = [word for records in copies for word in (self._kept(records), len(records))]
            rows.append([frame, sweep, done, *tables, 0])
        return self._kept(rows)

    def serve(self, bases: Sequence[int]) -> bool:
        """Do all blocks; return whether none has failed.

        Parameters
        ----------
        bases
            The base addresses of this call.
        """
        words = self._words
        self._bases[1:] = bases
        words[_FAILED] = 0
        for first in range(0, self._count, self._step):
            words[_NEXT], words[_STOP] = first, min(first + self._step, self._count)
            came = self._function(words.ctypes.data, SERVE)
            if words[_FAILED]:
                return False
            if came < self._wanted:
                CREW.grow(self._wanted - came, self._wanted)
        return True
