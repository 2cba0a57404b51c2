"""Starts the process that compiles kernels of the baseline tier once more, for the processes that come later.

It gives them all of LLVM's passes (`numbatape.jit.optimising`), at the lowest priority and when nobody
compiles. There is one for each cache: whoever starts it takes a lock, which the new process inherits and has
until it ends. Nothing that is seen or waited for connects the two: no pipe, no terminal, no child whose end a
program would have to ask for. Where it cannot be started, the baseline tier is all there is.

``NUMBATAPE_BACKGROUND=0`` turns it off.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

from . import locks, store

LOCK = "optimising.lock"
QUIET = 3.0  # seconds without a change in the cache directory: no program compiles then
# What it runs. It waits before it imports anything, because the program is busy with its first results then.
# A descriptor that is open in the program, by whatever means, would keep a pipe of the program's open.
_PROGRAM = """
import os, sys, time
os.chdir(os.path.abspath(os.sep))
if os.name == "posix":
    os.nice(19)
    os.setsid()
    lock = int(sys.argv[1])
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, lock)
    os.closerange(lock + 1, most if 0 < most < 1 << 16 else 1 << 16)
seconds = float(sys.argv[2])
time.sleep(seconds)
sys.path += sys.argv[3:]
from numbatape.jit import optimising
optimising.run(seconds)
"""
# The shell ends at once, so that the process is nobody's child, and leaves it without Ctrl-C's signal.
_SHELL = ("/bin/sh", "-c", '"$0" "$@" &')
# Others are programs that have Python inside: they may do anything when they are given these arguments.
_INTERPRETER = re.compile(r"python(\d+(\.\d+)*)?[dw]?(\.exe)?", re.IGNORECASE)


def start() -> None:
    """Start the process for this process's cache, if it is wanted, possible, and not under way."""
    if not _is_wanted() or not _is_interpreter(sys.executable):
        return
    directory = store.usable_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError, ValueError, NotImplementedError):
        path = Path(os.path.abspath(directory))
        handle = locks.taken(path / LOCK)
        if handle is None:
            return
        try:
            _start(path, handle)
        finally:
            os.close(handle)


def _is_wanted() -> bool:
    return os.environ.get("NUMBATAPE_BACKGROUND", "1") in ("", "1")


def _is_interpreter(path: str | None) -> bool:
    return bool(path) and not hasattr(sys, "frozen") and bool(_INTERPRETER.fullmatch(os.path.basename(path)))


def _command(lock: int) -> list[str]:
    """Return what runs the program, isolated from the user's environment, directories and modules."""
    return [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(lock), str(QUIET), *_places()]


def _places() -> list[str]:
    """Return the directories, or archives, in which this very numbatape and what it needs were found."""
    files = (sys.modules[name].__file__ or "" for name in ("numbatape", "llvmlite", "numpy"))
    return [*dict.fromkeys(os.path.dirname(os.path.dirname(os.path.abspath(file))) for file in files)]


def _environment(directory: Path) -> dict[str, str]:
    # NumPy starts threads for its BLAS otherwise.
    own = {"NUMBATAPE_CACHE_DIR": str(directory), "NUMBATAPE_BACKGROUND": "0", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **own}


if sys.platform == "win32":

    def _start(directory: Path, handle: int) -> None:
        """Start the process. Locks are not inherited here: it takes its own, when ours is long closed."""
        import subprocess

        flags = (
            subprocess.IDLE_PRIORITY_CLASS | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        )
        none = subprocess.DEVNULL
        process = subprocess.Popen(
            _command(0),
            env=_environment(directory),
            stdin=none,
            stdout=none,
            stderr=none,
            creationflags=flags,
        )
        process.returncode = 0  # nobody waits for it, and Python would warn of that

else:

    def _start(directory: Path, handle: int) -> None:
        """Start the process with the lock, and wait until it is nobody's child.

        No code of Python's runs between fork and exec here, so that other threads and locks do not matter.
        """
        lock = 3 if handle != 3 else 4
        actions = [
            (os.POSIX_SPAWN_DUP2, handle, lock),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        command = [*_SHELL, *_command(lock)]
        child = os.posix_spawn(command[0], command, _environment(directory), file_actions=actions)
        with contextlib.suppress(ChildProcessError):  # the program waits for all children in a thread, say
            os.waitpid(child, 0)
