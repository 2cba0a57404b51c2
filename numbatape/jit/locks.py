"""One process compiles a kernel that several processes need at once; the others wait for its file.

The lock is one of the operating system on an open file, which is released however its process ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 60.0  # seconds; the largest kernel takes a few, on a machine where all cores are busy
PAUSE = 0.01  # seconds between two attempts to take a lock


if os.name == "nt":
    import msvcrt

    def _take(handle: int) -> None:
        """Lock an open file, or raise PermissionError where another process has it."""
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

    def _give(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        """Lock an open file, or raise BlockingIOError where another process has it."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give(handle: int) -> None:
        """Unlock an open file: closing it would not be enough if the child of a fork has it, too."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of a file in the context, if it can be acquired.

    Otherwise (a directory that cannot be written to, a file system without locks, another process that has
    held it for longer than any kernel takes) the context is entered without it: two processes may then do
    the same work.
    """
    try:
        handle = _opened(path)
    except OSError:
        yield
        return
    held = False
    try:
        held = _wait(handle)
        yield
    finally:
        with contextlib.suppress(OSError):
            if held:
                path.unlink()  # processes that wait have this file open; later ones create another
                _give(handle)
        os.close(handle)


def taken(path: Path) -> int | None:
    """Return an open file whose lock this process has from now on; None where it cannot be had at once.

    The file stays: were it deleted, a process that has it open and one that creates it would both have a
    lock. The lock is free when all descriptors of this opening are closed, those of a child too.
    """
    try:
        handle = _opened(path)
    except OSError:
        return None
    try:
        _take(handle)
        os.utime(path)  # `store.prune` deletes old ones
    except OSError:
        os.close(handle)
        return None
    return handle


def _wait(handle: int) -> bool:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            _take(handle)
            return True
        except (BlockingIOError, PermissionError):  # another process has it
            pass
        except OSError:
            return False
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
