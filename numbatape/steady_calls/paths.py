"""Which entry serves next where a sweep has stopped at a guard: the one whose trace went the other way there.

A function with six tests has up to 64 paths. Entries of all of them have the same key, so without what the
guard has seen, half of them would be asked in vain.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..engine.frame import WORD
from ..tape.tape import F64

if TYPE_CHECKING:
    from ..programs.variant import Variant
    from .entry import Entry

STOPPED = WORD["STOPPED"]
MOST_STOPS = 4096


class Paths:
    """The entries of a table by their keys and traces."""

    def __init__(self) -> None:
        self._entries: dict[tuple, Entry] = {}
        # All traces that have an entry; this must not keep them alive.
        self._variants: weakref.WeakValueDictionary[int, Variant] = weakref.WeakValueDictionary()
        # Traces, by the one that stopped, where, and what it saw there.
        self._followers: dict[tuple, list[int]] = {}

    def add(self, entry: Entry) -> None:
        """Note an entry, which has its key already."""
        variant = entry.space.variant
        self._entries[entry.key, id(variant)] = entry
        if self._variants.get(id(variant)) is not variant:
            self._variants[id(variant)] = variant
            self._followers.clear()

    def remove(self, entry: Entry) -> None:
        """Forget an entry."""
        place = entry.key, id(entry.space.variant)
        if self._entries.get(place) is entry:
            del self._entries[place]

    def after(self, entry: Entry) -> Entry | None:
        """Return the entry to ask next where the last sweep of one has stopped; None if none is known.

        This is a guess where the entry has refused for another reason than a guard: the stop is an older one.
        """
        number, frame, cells, read = entry.stops
        at = frame[STOPPED]
        if at not in read:
            read[at] = entry.space.guard_cell(at)
        cell = read[at]
        if cell is None:
            return None
        stop = number, at, cells[cell]
        followers = self._followers.get(stop)
        if followers is None:
            if len(self._followers) >= MOST_STOPS:
                self._followers.clear()
            followers = self._followers[stop] = self._following(entry, at, cells[cell])
        for variant in followers:
            found = self._entries.get((entry.key, variant))
            if found is not None:
                return found
        return None

    def in_order(self, entries: Sequence, front: Any) -> Iterator:
        """Yield entries that have a key: the one in front, where what it sees leads to, and the others."""
        left = list(entries)
        entry = front if front in left else left[0]
        while entry in left:
            left.remove(entry)
            yield entry
            entry = self.after(entry) if hasattr(entry, "stops") else None
        yield from left

    def _following(self, entry: Entry, at: int, seen: Any) -> list[int]:
        """Return the traces that came to a guard as one did, and saw there what it has seen now."""
        if not math.isfinite(seen):
            return []
        variant = entry.space.variant
        guard = int(entry.space.plan.tape.code["aux"][at])
        seen = bool(seen) if variant.tape.guards[guard].kind == "bool" else seen
        wanted = *variant.outcomes[:guard], seen
        return [name for name, its in self._variants.items() if its.outcomes[: guard + 1] == wanted]


def last_stop(entry: Entry) -> tuple[int, float]:
    """Return the guard at which a call has stopped last, and what that has seen; 0 if it is no guard."""
    at = int(entry.frame[STOPPED])
    cell = entry.space.guard_cell(at)
    return at, 0.0 if cell is None else float(entry.space.v[F64][cell])


def stops_of(entry: Entry) -> tuple:
    """Return what `Paths.after` reads of an entry."""
    space = entry.space
    return id(space.variant), entry.frame.data, space.v[F64].data, {}
