"""The threads that help with a computation when its caller asks for several threads.

Each helper waits at a lock for its next task. Handing it one takes 3 to 10 µs, and up to 70 where the other
processor sleeps and belongs to a virtual machine. The thread pool of the
standard library took 20 to 30, because of its queue and its futures: a third of what 1 024 points of eight
schools take.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .threads import survives_fork


class _Helper:
    """A thread that runs one task at a time for whoever has taken it from the crew."""

    def __init__(self, here: threading.local):
        self._given, self._done = threading.Lock(), threading.Lock()
        self._given.acquire()
        self._done.acquire()
        self._task: Callable[[], Any] | None = None
        self._outcome: tuple[Any, BaseException | None] = (None, None)
        # A daemon: it waits for ever, and must not keep the process from ending.
        threading.Thread(target=self._run, args=(here,), name="numbatape", daemon=True).start()

    def _run(self, here: threading.local) -> None:
        here.helping = True
        while True:
            self._given.acquire()
            task, self._task = self._task, None
            assert task is not None
            try:
                self._outcome = task(), None
            except BaseException as error:  # handed to the caller, which raises it
                self._outcome = None, error
            del task
            self._done.release()

    def begin(self, task: Callable[[], Any]) -> None:
        self._task = task
        self._given.release()

    def outcome(self) -> tuple[Any, BaseException | None]:
        """Wait until the task has come to its end; return its result, and what it raised."""
        self._done.acquire()
        outcome, self._outcome = self._outcome, (None, None)
        return outcome


class Crew:
    """The threads of this process that run tasks beside their caller."""

    def __init__(self):
        self._idle: list[_Helper] = []
        self._here = threading.local()
        self._lock = survives_fork(threading.Lock())

    def together(self, tasks: Sequence[Callable[[], Any]]) -> list:
        """Return the results of tasks: the first one runs in this thread, each other one in one of its own.

        In a thread of the crew, which may not wait for another one, they run one after another.

        Raises
        ------
        Exception
            That of the first task that raised one, after all tasks have come to their ends.
        """
        if len(tasks) == 1 or getattr(self._here, "helping", False):
            return [task() for task in tasks]
        helpers = self._taken(len(tasks) - 1)
        for helper, task in zip(helpers, tasks[1:], strict=True):
            helper.begin(task)
        try:
            first = tasks[0]()
        finally:
            # They write to memory that the caller uses next.
            outcomes = [helper.outcome() for helper in helpers]
            with self._lock:
                self._idle += helpers
        for _, error in outcomes:
            if error is not None:
                raise error
        return [first, *[result for result, _ in outcomes]]

    def forget(self) -> None:
        """Start anew in a child process, which has none of the threads."""
        self._idle = []

    def _taken(self, count: int) -> list[_Helper]:
        """Return helpers that nobody else has, until they are given back."""
        with self._lock:
            taken, self._idle = self._idle[:count], self._idle[count:]
        return taken + [_Helper(self._here) for _ in range(count - len(taken))]


CREW = Crew()

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=CREW.forget)
