"""What code reads outside of the program while it is traced: files, directories, processes, connections.

CPython's audit events report it whatever code reads: ``Path.read_text``, ``pandas.read_csv``, a helper that
opens a file. The trace then serves one call only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import weakref

from ..jit.audit import observe
from ..trace.state import Outside
from ..trace.trace import current
from ..usercode.ownership import PACKAGE, is_users_file

_READING = ("os.listdir", "os.scandir", "os.walk", "os.system", "os.posix_spawn", "os.exec", "os.spawn")
_FAMILIES = ("subprocess.", "socket.", "sqlite3.", "urllib.", "http.", "ftplib.", "imaplib.", "pty.")
# Code that reads files other than data: modules that are imported, lines of source for a message, kernels.
_MACHINERY = (
    "importlib",
    "linecache",
    "tokenize",
    "inspect",
    "traceback",
    "warnings",
    "zipimport",
    "pkgutil",
)
_COMPILERS = ("numba.", "llvmlite.", "numbatape.jit.")
# The first package looks at what is installed, which is no data. The second keeps results of functions of
# which its user says that they depend on their arguments alone.
_NO_DATA = ("numbatape.usercode.ownership", "joblib.memory")
_count = threading.Lock()


def _event(name: str, args: tuple) -> None:
    trace = current()
    if trace is None or trace.closed or not _reads(name, args) or _is_machinery():
        return
    what = args[0] if args and isinstance(args[0], (str, bytes, os.PathLike)) else ""
    note(f"`{name}`" + (f" of {what!r}" if what else ""))


def note(what: str) -> None:
    """Note that the user's code reads something outside: the tape that is recorded holds for one call."""
    trace = current()
    if trace is None or trace.closed:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and not is_users_file(
        frame.f_code.co_filename, frame.f_globals.get("__name__")
    ):
        frame = frame.f_back
    trace.validity.outside.append(Outside(what, frame.f_code.co_filename, frame.f_lineno))


def _reads(name: str, args: tuple) -> bool:
    if name == "open":
        path, mode, flags = args
        # A number is a pipe or the like. Files in /sys describe the machine, numbatape's own are its code.
        if isinstance(path, int) or os.fsdecode(path).startswith(("/sys/", PACKAGE)):
            return False
        if mode is None:  # os.open has flags and no mode
            return (flags & (os.O_WRONLY | os.O_RDWR)) != os.O_WRONLY
        return "+" in mode or not {"w", "a", "x"} & set(mode)
    return name in _READING or name.startswith(_FAMILIES)


def _is_machinery() -> bool:
    """Whether the file is read by an import, for a message, for a kernel, or when garbage is collected."""
    frame = sys._getframe(2)
    # A trace makes garbage, so that Python's collector may run in it: Dask then asks how much memory is used.
    callbacks = {getattr(each, "__code__", None) for each in gc.callbacks}
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if frame.f_code in callbacks or frame.f_code.co_name == "__del__" or module == weakref.__name__:
            return True
        if module in _NO_DATA or module.partition(".")[0].lstrip("_") in _MACHINERY:
            return True
        if f"{module}.".startswith(_COMPILERS):
            return True
        if module.startswith("numbatape."):
            return False
        frame = frame.f_back
    return False


@contextlib.contextmanager
def observed(wanted: bool):
    """Note on the current trace what code reads inside the block, if that is wanted."""
    if not wanted:
        yield
        return
    words = observe(_event)
    with _count:
        words[0] += 1
    try:
        yield
    finally:
        with _count:
            words[0] -= 1
