"""The process that `numbatape.jit.background` starts: it compiles stored kernels with all of LLVM's passes.

It does so when nothing in the cache directory has changed for some seconds, so that it does not compete with
programs that compile, and replaces each file as a whole. Only kernels of this very compiler and processor are
replaced: those whose text has the key of the file's name. What fails ends the process, and nobody notices.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from . import background, compiler, locks, store, trust

LONGEST = 900  # seconds until the system ends the process, whatever it does then


def run(quiet: float) -> None:
    """Compile the kernels of the baseline tier in the cache directory, those too that are added meanwhile.

    Parameters
    ----------
    quiet
        Seconds that a directory must not have changed for.
    """
    if hasattr(signal, "alarm"):
        signal.alarm(LONGEST)
    directory = store.usable_directory()
    if directory is None:
        return
    # On Windows nobody has handed the lock on.
    if os.name == "nt" and locks.taken(directory / background.LOCK) is None:
        return
    optimise(directory, quiet)


def optimise(directory: Path, quiet: float) -> None:
    """Compile the kernels of the baseline tier in a directory until there are no others than were tried."""
    tried: set[str] = set()
    known = None
    while left := [stem for stem in store.with_tier(directory, store.BASELINE) if stem not in tried]:
        for stem in left:
            _wait(directory, known, quiet)
            name, _, key = stem.rpartition("-")
            source = _text(directory / f"{stem}.py")
            if store.key_of(source) == key and not improve(name, source):
                return
            tried.add(stem)
            known = directory.stat().st_mtime_ns


def _wait(directory: Path, known: int | None, quiet: float) -> None:
    """Wait until a directory has not changed for some time, unless it is as known."""
    while (changed := directory.stat().st_mtime_ns) != known:
        known = changed
        time.sleep(quiet)


def _text(path: Path) -> str:
    try:
        return trust.read_own(path).decode()
    except (OSError, ValueError):
        return ""


def improve(name: str, source: str) -> bool:
    """Replace a stored kernel by its optimised form, if it is there and of the baseline tier.

    Returns
    -------
    bool
        False where files can no longer be written.
    """
    key = store.key_of(source)
    found = store.read(name, key)
    if found is None or found.tier != store.BASELINE:
        return True
    return store.exchange(name, key, compiler.compile_source(source, key, optimise=True))
