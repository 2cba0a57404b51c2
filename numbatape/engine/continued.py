"""`Continued`: where the calls of a workspace go on whose forward sweep a guard stops.

Where a guard stops a sweep, another trace of the function went the other way there. The sweep's kernel then
copies what that trace's workspace needs of the values so far, sweeps forward from there in that workspace,
and back if the results need it, and copies the results to where the caller looks for them. So the call needs
no Python, and nothing is computed twice that both traces share (`numbatape.engine.shared_beginnings`).

Where a guard of that trace stops the call again, it goes on from there in the same way: a function with many
tests comes to the path that its numbers take by one workspace for each test that went the other way.

Where calls come to an end less often than they stop, nothing goes on any more. One in `TURNS` calls is left
to Python: if a path comes alone from now on, its own workspace serves from the beginning, without copies.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..jit import address
from . import kernels
from .continued_kernels import HEAD, MOST_NUMBERS, MOST_OPEN, ROW, TURNS
from .frame import WORD
from .shared_beginnings import Beginning, Memory
from .workspace import Workspace

MOST_ROWS = 8
OPEN, STOP, AFTER = map(ROW.index, ("OPEN", "STOP", "AFTER"))
ROWS, REACHED, PULLBACK = map(HEAD.index, ("ROWS", "REACHED", "PULLBACK"))


class Continued:
    """The table that the frame of a workspace refers to.

    Parameters
    ----------
    space
        The workspace. It owns the table, so the table does not refer to it.
    sweep
        The entry point of its sweeps: "gradient" or "forward".
    """

    def __init__(self, space: Workspace, sweep: str):
        self._frame, self._tape, self._entrances = space.frame, space.plan.tape, space.entrances
        self._words = np.zeros(len(HEAD) + MOST_ROWS * len(ROW), np.int64)
        # There is no sweep back where the forward sweep computes all results.
        sweeps = ("resume",) if sweep == "forward" else ("resume", "pullback")
        addresses = kernels.continued_address(), *map(kernels.sweep_address, sweeps)
        self._words[: len(addresses)] = addresses
        self._rows = self._words[len(HEAD) :].reshape(MOST_ROWS, len(ROW))
        # Who has the workspace that each row leads to, weakly; and what the row refers to.
        self._leads_to: list[weakref.ref | None] = [None] * MOST_ROWS
        self._alive: list[tuple] = [()] * MOST_ROWS
        self._beginnings: list[Beginning | None] = [None] * MOST_ROWS
        self._ends: list[Callable[[], None]] = []

    def leads_to(self, owner: object) -> bool:
        """Whether a row leads to the workspace that somebody has, even if that row is closed."""
        return any(its is not None and its() is owner for its in self._leads_to)

    def takes(self, beginning: Beginning, is_bool: bool) -> bool:
        """Whether one row more may be of use.

        Parameters
        ----------
        is_bool
            Whether there are only two outcomes of the guard.
        """
        rows = [row for row, its in zip(self._rows, self._leads_to, strict=True) if its is not None]
        known = is_bool and any(row[STOP] == beginning.stop for row in rows)
        return len(rows) < MOST_ROWS and not known

    def reached_of(self, owners: Iterable) -> Any:
        """Return whose workspace the last call that was begun here has stopped in; None if none of these."""
        reached = int(self._words[REACHED])
        return next((its for its in owners if its.space.address == reached), None)

    def add(
        self,
        beginning: Beginning,
        other: Workspace,
        owner: object,
        results: Sequence[Memory],
        hits: tuple[np.ndarray, np.ndarray],
    ) -> Callable[[], None]:
        """Go on in another workspace where a guard stops the sweep; return what ends that.

        Parameters
        ----------
        owner
            Keeps the other workspace alive, and what that refers to.
        results
            What is copied when that is done, as if all were read before any is written: adjoints of both
            workspaces may have the same memory.
        hits
            The numbers of calls of the two traces.
        """
        if self._words[PULLBACK]:
            other.require_reverse()
        k = self._leads_to.index(None)
        entrances, its = other.entrances, other.continued
        number = next(n for n in range(1, MOST_NUMBERS + 2) if n > MOST_NUMBERS or n not in entrances)
        if number <= MOST_NUMBERS:
            entrances[number] = beginning
            if its is not None:
                its._admit(number, beginning)
        self._beginnings[k] = beginning
        known = self._entrances.items()
        leaving, between = _apart(results)
        tables = [_table(rows) for rows in (beginning.copies, leaving)]
        words = {
            "STOP": beginning.stop,
            "GUARD": beginning.guard,
            "FRAME": other.address,
            "START": beginning.start,
            "MEETS": beginning.meets,
            "NUMBER": number,
            "AFTER": 1 + sum(1 << n for n, each in known if each.brings(beginning, self._tape)),
            "OPEN": MOST_OPEN,
            "LEFT": TURNS,
            "ENTER": address(tables[0]),
            "ENTER_COUNT": len(beginning.copies),
            "LEAVE": address(tables[1]),
            "LEAVE_COUNT": len(leaving),
            "ITS_HITS": address(hits[0]),
            "OTHER_HITS": address(hits[1]),
        }
        row, leads_to, beginnings = self._rows[k], self._leads_to, self._beginnings

        def end(_=None) -> None:
            if beginnings[k] is beginning:
                row[OPEN], leads_to[k], beginnings[k] = 0, None, None
            if entrances.get(number) is beginning:
                del entrances[number]

        self._ends.append(end)
        self._alive[k] = *tables, *hits, between
        leads_to[k] = weakref.ref(owner, end)
        row[:] = [words.get(name, 0) for name in ROW]
        self._words[ROWS] = max(int(self._words[ROWS]), k + 1)
        self._frame[WORD["CONTINUED"]] = address(self._words)
        return end

    def _admit(self, number: int, beginning: Beginning) -> None:
        """Let calls that have come by a row of another table go on here where that has brought enough."""
        for row, its in zip(self._rows, self._beginnings, strict=True):
            row[AFTER] &= ~(1 << number)
            if its is not None and beginning.brings(its, self._tape):
                row[AFTER] |= 1 << number

    def clear(self) -> None:
        """Go on nowhere."""
        self._frame[WORD["CONTINUED"]] = 0
        while self._ends:
            self._ends.pop()()


def _apart(rows: Sequence[Memory]) -> tuple[list[Memory], np.ndarray]:
    """Return rows that copy one after the other what others copy at once, and the memory in between."""
    between = np.zeros(sum(row[2] for row in rows), np.uint8)
    free = all(
        target + count <= source or source + size <= target
        for target, _, count in rows
        for _, source, size in rows
    )
    if free:
        return list(rows), between
    first = address(between) + np.cumsum([0, *(row[2] for row in rows)]).astype(int)
    places = list(zip(first.tolist(), rows, strict=False))
    there = [(place, source, count) for place, (_, source, count) in places]
    return there + [(target, place, count) for place, (target, _, count) in places], between


def _table(rows: Sequence[tuple]) -> np.ndarray:
    return np.array(rows or [(0,)], np.int64)
