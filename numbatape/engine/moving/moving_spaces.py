"""`MovingSpace`: a workspace that moves to the sizes of each call, with all that its tape calls.

A kernel (`numbatape.engine.moving.moving_kernels`) does this for a tape and for the bodies that it calls,
however deep they are nested. What is here writes down once what the kernel reads, and helps where it stops:
for more memory, for kernels that were not needed before, and for what has to be made anew. Memory never
shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...tape.families import FAMILIES, FAMILY_DTYPE
from .. import kernels
from ..frame import WORD
from ..placement import aligned
from ..plan import Plan
from ..plan_tables import LIMIT, STORAGE_WORDS
from ..replan import Replanner
from ..replan_kernels import ALL_CELLS, FIRST_ACTIVE, LEVELS
from ..strips.strip_replan import StripReplanner
from ..strips.strip_replan_kernels import SETTLE
from . import space_words as words
from .moving_source import loaded
from .moving_words import Rows

if TYPE_CHECKING:
    from ..workspace import Workspace

# What Python cannot help with.
ENDS = words.UNPLANNED, words.LARGE, words.FAILED
# The kernel may stop this often for one set of sizes; a deep nest of loops goes on with the next set.
MOST_STOPS = 1000
SPARE = 1.25  # memory grows by this factor beyond what a plan needs
ITEMSIZE = tuple(dtype.itemsize for dtype in FAMILY_DTYPE)


class MovingSpace:
    """A workspace for sizes that change.

    Parameters
    ----------
    planner
        Plans the tape for further sizes.
    frame
        The frame, which refers to the planner's tables from now on.
    v, g
        The value cells and the adjoints that there are, by family.
    calls
        What the tape calls, or a function that makes this of a plan, value cells and adjoints, when it is
        first needed; None if the tape calls nothing.
    outermost
        Whether no kernel of a loop clears the adjoints and plans this tape.

    Attributes
    ----------
    v, g
        Value cells and adjoints by family: lists that stay the same, with arrays that do not.
    at_v, at_g
        The addresses of value cells and of adjoints, by family.
    calls
        What the tape calls.
    words, address
        What the kernel reads, and where it stands.
    """

    def __init__(self, planner: Replanner | StripReplanner, frame, v, g, calls: Any, outermost: bool):
        tape = planner.tape
        self.planner, self.frame = planner, frame
        self.calls, self._make_calls = (None, calls) if callable(calls) else (calls, None)
        self.v, self.g = list(v), list(g)
        self.words = np.zeros(words.SPACE_WORDS, np.int64)
        self._words, self.address = memoryview(self.words), self.words.ctypes.data
        self._lead, self._place = map(loaded().function, ("led", "placed")) if outermost else (None, None)
        self._given = planner.given
        self.at_v, self.at_g = (self._words[at:] for at in (words.VALUES_AT, words.ADJOINTS_AT))
        self._rows, self._stays = Rows(), isinstance(planner, StripReplanner)
        families = tape.storages["family"].tolist()
        self._literals = [
            np.ascontiguousarray(item.data, FAMILY_DTYPE[families[item.storage]]) for item in tape.literals
        ]
        literals = [
            (families[x.storage], STORAGE_WORDS * x.storage, x.offset, data.ctypes.data, data.nbytes, 0)
            for x, data in zip(tape.literals, self._literals, strict=True)
        ]
        known = {
            words.FRAME: frame.ctypes.data,
            words.SEEDS: int(outermost),
            words.CALLED: int(bool(tape.calls)),
            words.CALL_COUNT: -1,
            words.MOVED: loaded().address["moved"],
            words.PROLOGUE: kernels.sweep_address("prologue") if tape.prologue and not outermost else 0,
        }
        for word, number in known.items():
            self._words[word] = number
        self._words[words.LITERALS_AT], self._words[words.LITERAL_COUNT] = self._rows.take(literals)
        self._literal_rows = self._rows.last
        self._note_memory()
        self.follow_tables()

    def follow_tables(self) -> None:
        """Let the frame refer to the tables of the planner, which are new ones where strips got more room."""
        planner, frame = self.planner, self.frame
        tables = {"CODE": planner.code, "AUX": planner.aux}
        if isinstance(planner, StripReplanner):
            tables["STRIPS"] = planner.blocks
        for name, table in tables.items():
            frame[WORD[name]] = table.ctypes.data
        self._words[words.PLANNER], self._words[words.STAYS] = planner.address, 0
        self._words[words.REPLAN], self._words[words.MOVER] = planner.mover

    def serve(
        self,
        leaves: Sequence[tuple],
        seeds: Sequence[tuple],
        locked: int,
        large: tuple[int, int],
        prologue: bool,
    ) -> None:
        """Let the kernel keep the tables of a builtin that serves this tape, which nothing calls.

        Parameters
        ----------
        leaves, seeds
            Rows of `numbatape.engine.moving.space_words`: arguments, and cotangents of one.
        locked
            Address of the word that says that sweeps keep Python's lock; 0 if they never do.
        large
            From how many cells on `lead` stops: if no vector is worth strips, and if there is one. 0: never.
        prologue
            Whether the kernel runs the prologue, too.
        """
        its = self._words
        its[words.LEAVES_AT], its[words.LEAF_COUNT] = self._rows.take(leaves)
        its[words.SEEDS_AT], its[words.SEED_COUNT] = self._rows.take(seeds)
        its[words.LOCKED_AT] = locked
        its[words.MANY], its[words.LONG] = large
        if prologue and self.planner.tape.prologue:
            its[words.PROLOGUE] = kernels.sweep_address("prologue")

    def lead(self, dimensions: Sequence[int]) -> int:
        """Plan the tape for dimensions of its inputs and bring everything to its place.

        Returns 0 if that worked, or what stopped it: UNPLANNED and FAILED (`outcome` says more), LARGE
        (`place` goes on), or anything else.
        """
        given, its = self._given, self._words
        for k, n in enumerate(dimensions):
            given[k] = n
        status = self._lead(self.address, 0)
        if status:
            if its[words.STATUS] == words.UNPLANNED and its[words.OUTCOME] == SETTLE:
                status = self._settled(dimensions)
            if status and its[words.STATUS] not in ENDS:
                status = self._with_help()
        its[words.STAYS] = self._stays and not status
        return status

    def place(self) -> int:
        """Bring everything to where the plan wants it, although it is large; return as `lead` does."""
        status = self._place(self.address, 0)
        if status and self._words[words.STATUS] not in ENDS:
            status = self._with_help()
        self._words[words.STAYS] = self._stays and not status
        return status

    @property
    def outcome(self) -> int:
        """Why there is no plan, or what the prologue has returned."""
        return self._words[words.OUTCOME]

    def _settled(self, dimensions: Sequence[int]) -> int:
        """Get a plan with more room, and try again."""
        planner = self.planner
        assert isinstance(planner, StripReplanner)
        planner.settle(tuple(dimensions))
        kernels.ensure(planner.kernels, planner.values, reverse=not planner.tape.forward)
        self.follow_tables()
        return self._lead(self.address, 0)

    def _with_help(self) -> int:
        """Do what the kernel waits for, and let it go on; return its last status, 0 if that worked."""
        made: list[MovingSpace] = []
        status, stops = 1, 1
        while status and self.helped(made) and stops < MOST_STOPS:
            status, stops = self._place(self.address, 0), stops + 1
        for space in made:
            space._words[words.MADE] = 0
        return status

    def helped(self, made: list[MovingSpace]) -> bool:
        """Do what the kernel waits for, here or in a body; return whether it can go on.

        ``made`` takes the spaces in which what is called was made anew.
        """
        status, self._words[words.STATUS] = self._words[words.STATUS], 0
        if status == words.ROOM:
            self._make_room()
        elif status == words.KERNELS:
            planner = self.planner
            planner.note_kernels()
            kernels.ensure(planner.kernels, planner.values, reverse=not planner.tape.forward)
        elif status == words.REMADE:
            self.calls.remake(self.plan, self.v, self.g)
            self._note_made(made)
        elif status == words.TABLES:
            if self.calls is None:
                self.calls = self._make_calls(self.plan, self.v, self.g)
                self._note_made(made)
            else:
                self._note_calls()
        else:
            return self.calls is not None and any(call.helped(made) for call in self.calls.moving)
        return True

    @property
    def plan(self) -> Plan:
        """The present plan, in the tables of the planner."""
        # A tape that runs in strips calls nothing, so its planner is no other class.
        assert isinstance(self.planner, Replanner)
        return self.planner.plan_in_tables(self.planner.dimensions)

    def _note_made(self, made: list[MovingSpace]) -> None:
        """Tell the kernel that what is called was made for these sizes, so that it does nothing for it."""
        self._words[words.MADE], self._words[words.CALL_COUNT] = 1, -1
        made.append(self)

    def _note_calls(self) -> None:
        """Tell the kernel what the tape calls."""
        its, calls = self._words, self.calls
        its[words.FOLLOWS] = calls.let_follow(self)
        self._call_rows = Rows()
        rows = [(call.address,) for call in calls.moving]
        its[words.CALLS_AT], its[words.CALL_COUNT] = self._call_rows.take(rows)
        its[words.RAISED_AT], its[words.FAILED_AT] = calls.failure_words

    def _make_room(self) -> None:
        """Make room for a plan."""
        ends = self.planner.ends.reshape(-1, LEVELS).tolist()
        for family in range(len(FAMILIES)):
            first, total = ends[family][FIRST_ACTIVE], ends[family][ALL_CELLS]
            if total > len(self.v[family]):
                self.v[family] = aligned(int(SPARE * total), FAMILY_DTYPE[family])
                self._literal_rows[words.LITERAL_LAST :: words.LITERAL_WORDS] = 0
            if total - first > len(self.g[family]) and not self.planner.tape.forward:
                self.g[family] = aligned(int(SPARE * (total - first)), FAMILY_DTYPE[family])
        self._note_memory()

    def _note_memory(self) -> None:
        its = self._words
        for family in range(len(FAMILIES)):
            for cells, at, room in (
                (self.v, words.VALUES_AT, words.VALUES_ROOM),
                (self.g, words.ADJOINTS_AT, words.ADJOINTS_ROOM),
            ):
                its[at + family], its[room + family] = cells[family].ctypes.data, len(cells[family])
            if self.planner.tape.forward:  # there are no adjoints
                its[words.ADJOINTS_ROOM + family] = LIMIT

    @property
    def moves(self) -> int:
        """How often sizes have changed."""
        return self._words[words.MOVES]

    @property
    def work(self) -> int:
        """About how much work a run is, in the unit of `numbatape.engine.segments`."""
        return self._words[words.SPACE_WORK]

    @property
    def active(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The first active cell of each family, and how many there are."""
        ends = self.planner.ends.tolist()
        return (ends[1], ends[2] - ends[1]), (ends[4], ends[5] - ends[4])

    def settle(self, space: Workspace) -> Plan:
        """Give a workspace the present plan and cells, for messages of errors; return the plan."""
        space.plan, space.v, space.g = self.plan, tuple(self.v), tuple(self.g)
        return space.plan


def spaces_of_bodies(spaces: Sequence[Workspace]) -> list[MovingSpace] | None:
    """Return what lets the workspaces of bodies follow sizes; None where other sizes need Python."""
    planners = [None if space.plan.strips is not None else Replanner.of(space.plan) for space in spaces]
    if not all(planner is not None and planner.proved for planner in planners):
        return None
    return [
        MovingSpace(planner, space.frame, space.v, space.g, space.calls, outermost=False)
        for planner, space in zip(planners, spaces, strict=True)
        if planner is not None
    ]
