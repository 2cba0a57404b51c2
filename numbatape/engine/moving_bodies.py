"""`MovingBody`: the workspace of a body, which moves to the sizes of the call.

The body of `numbatape.function`, of a branch or of a loop may have arrays of any sizes. A kernel plans it for
other ones (`numbatape.engine.replan`), and some words of the frame change, as those of a whole tape do
(`numbatape.caches.elastic`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ops import status
from . import kernels
from .frame import WORD
from .moving_cells import ITEMSIZE, MovingCells
from .plan import Plan
from .plan_tables import END, STORAGE_WORDS
from .replan import Replanner


class MovingBody:
    """A body's workspace for sizes that change.

    Parameters
    ----------
    planner
        Plans the body for further sizes; its tables are those that the frame refers to.
    space
        The workspace, which nothing else uses.

    Attributes
    ----------
    v, g
        The addresses of value cells and of adjoint cells, by family.
    first, sizes
        First cell and end of each storage, and the values of the body's size codes.
    ends
        Where the constant, the varying and the active cells of each family end.
    """

    def __init__(self, planner: Replanner, space):
        self._planner, self._space, self._kernels = planner, space, ()
        tape = planner.tape
        families = tape.storages["family"].tolist()
        self._literals = [(families[x.storage], x.storage, x.offset, x.data) for x in tape.literals]
        self.first, self.sizes = memoryview(planner.storages.reshape(-1)), memoryview(planner.sizes)
        self.ends = memoryview(planner.ends)
        for name, table in {"CODE": planner.code, "AUX": planner.aux}.items():
            space.frame[WORD[name]] = table.ctypes.data
        self._cells = MovingCells(memoryview(space.frame), space.v, space.g)
        self.v, self.g = self._cells.at_v, self._cells.at_g

    @classmethod
    def of(cls, plan: Plan, space) -> MovingBody | None:
        """Return what moves a workspace of a plan; None where other sizes need Python."""
        planner = None if plan.strips is not None else Replanner.of(plan)
        return None if planner is None or not planner.proved else cls(planner, space)

    def move(self, dimensions: tuple[int, ...]) -> bool:
        """Plan for other dimensions, and bring everything to its place; return whether that worked."""
        planner = self._planner
        if planner.move(dimensions) or planner.is_long:
            return False
        if planner.kernels is not self._kernels:
            kernels.ensure(planner.kernels, planner.values, reverse=True)
            self._kernels = planner.kernels
        self._cells.follow(self.ends)
        for family, storage, offset, data in self._literals:
            at = self.first[STORAGE_WORDS * storage] + offset
            self._cells.v[family][at : at + len(data)] = data
        tape, calls = planner.tape, self._space.calls
        if calls is not None:
            calls.move(planner, dimensions, self._cells.v, self._cells.g)
        if not tape.prologue:
            return True
        return kernels.sweep("prologue")(self._space.address, 0) == status.DONE

    def settle(self, dimensions: tuple[int, ...]) -> Plan:
        """Return the present plan, and let the workspace have it: for messages of errors."""
        space = self._space
        space.plan, space.v, space.g = (
            self._planner.plan_in_tables(dimensions),
            tuple(self._cells.v),
            tuple(self._cells.g),
        )
        return space.plan

    @property
    def work(self) -> float:
        """About how much work a run is, in the unit of `numbatape.engine.segments`."""
        calls = self._space.calls
        return self._planner.work + (0.0 if calls is None else calls.work)

    def address(self, place: Sequence) -> int:
        """Return the address of a value, or of its adjoint; see `numbatape.engine.moving_words.Address`."""
        adjoint, family, storage, offset = place
        cell = self.first[STORAGE_WORDS * storage] + (offset if offset >= 0 else self.sizes[-offset - 1])
        if adjoint:
            return self.g[family] + ITEMSIZE[family] * (cell - self.ends[3 * family + 1])
        return self.v[family] + ITEMSIZE[family] * cell

    def room(self, place: tuple[int, int, int]) -> int:
        """Return the bytes of storages that lie next to each other: of a `moving_words.Room`."""
        family, first, last = place
        cells = self.first[STORAGE_WORDS * last + END] - self.first[STORAGE_WORDS * first]
        return -(-ITEMSIZE[family] * cells // 8) * 8
