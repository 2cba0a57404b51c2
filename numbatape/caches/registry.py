"""The caches behind the one-shot verbs: pools by function and argument signature."""

from __future__ import annotations

import threading
import weakref

from .arguments import Flattened

_pools: weakref.WeakSet = weakref.WeakSet()


class Pool:
    """Prepared caches of one function, by signature; each call borrows one.

    Thread-safe and re-entrant: a call that finds none idle clones one.
    """

    def __init__(self, prepare):
        self._prepare = prepare
        self._idle: dict[tuple, list] = {}
        self._first: dict[tuple, object] = {}
        self._lock = threading.Lock()
        _pools.add(self)

    def borrow(self, flat: Flattened):
        """Return ``(cache, its shelf)`` for arguments of this signature; append it back when done."""
        key = (flat.structure, tuple((s.level, s.dtype, s.ndim, s.kind) for s in flat.specs))
        with self._lock:
            shelf = self._idle.setdefault(key, [])
            if shelf:
                return shelf.pop(), shelf
            first = self._first.get(key)
        if first is not None:
            return first.clone(), shelf  # type: ignore[attr-defined]
        cache = self._prepare(flat)
        with self._lock:
            self._first.setdefault(key, cache)
        return cache, shelf

    def clear(self) -> None:
        with self._lock:
            self._idle.clear()
            self._first.clear()


def clear_caches() -> None:
    """Free the tapes and workspaces that the one-shot verbs keep.

    Examples
    --------
    >>> import numbatape as nt
    >>> nt.clear_caches()
    """
    for pool in list(_pools):
        pool.clear()
