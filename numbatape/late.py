"""Imports of modules that are only needed once a program runs."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from types import ModuleType

# Forks wait for this lock: if another thread is importing a module, the child would hold the module's lock
# for ever.
LOCK = threading.RLock()
# Windows has no fork. (numbatape.threads is not imported for this alone.)
if hasattr(os, "register_at_fork"):
    _release = LOCK.release
    os.register_at_fork(before=LOCK.acquire, after_in_parent=_release, after_in_child=_release)


_complete: dict[tuple[str, str | None], ModuleType] = {}  # whose import is over


def imported(name: str, package: str | None = None) -> ModuleType:
    """Return a module by name; import it if necessary.

    If another thread is importing it, this waits until the import is complete.
    """
    found = _complete.get((name, package))
    if found is None:
        with LOCK:
            found = _complete[name, package] = import_module(name, package)
    return found
