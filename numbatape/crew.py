"""The threads that help with a computation when its caller asks for several threads.

Most processes never ask, and do not import this file: the thread pools of the standard library take 5 ms.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from .threads import survives_fork


class Crew:
    """The threads of this process that run tasks beside their caller."""

    def __init__(self):
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0
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
        pool = self._of_size(len(tasks) - 1)
        others = [pool.submit(task) for task in tasks[1:]]
        try:
            first = tasks[0]()
        finally:
            wait(others)  # they write to memory that the caller uses next
        return [first, *(other.result() for other in others)]

    def forget(self) -> None:
        """Start anew in a child process, which has none of the threads."""
        self._pool, self._size = None, 0

    def _of_size(self, size: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._size < size:
                if self._pool is not None:
                    self._pool.shutdown(wait=False)  # what it has been given still runs
                self._pool = ThreadPoolExecutor(size, "numbatape", self._begin)
                self._size = size
            return self._pool

    def _begin(self) -> None:
        self._here.helping = True


CREW = Crew()

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=CREW.forget)
