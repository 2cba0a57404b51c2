"""Blocks of points as a job for several threads.

Most blocks need no Python: numbers are copied from the arguments into the lanes of a workspace, swept, and
copied from there into the results. Where numbers change their kind on the way, or a sweep is cut into
segments, Python does the block, in whichever thread has taken it.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..engine import crew, kernels, segments
from ..engine.interrupts import work_of_plan
from ..engine.strided_copies import copies
from ..jit import CannotEmit
from ..steady_calls.elastic_ends import address_of
from ..steady_calls.entry import Entry
from ..steady_calls.leaf_rows import LaneRow

MOST_JOBS = 4  # arguments of other strides get jobs of their own, of which so many are kept


class Block(NamedTuple):
    """Points that are swept at once.

    Attributes
    ----------
    entry
        Of the workspace that sweeps them.
    chosen
        Which points these are.
    sources
        By result: returns what the sweep has left, of so many points.
    """

    entry: Entry
    chosen: slice
    sources: Sequence[Callable[[int], np.ndarray]]

    @property
    def _count(self) -> int:
        return self.chosen.stop - self.chosen.start

    def done(self, given: Sequence, arrays: Sequence[np.ndarray]) -> bool:
        """Do the block in Python; return whether its sweep has come to its end."""
        for row, leaf in zip(self.entry.rows, given, strict=True):
            if row.__class__ is LaneRow:
                row.write(leaf[self.chosen])
        if not self.entry.swept():
            return False
        for array, source in zip(arrays, self.sources, strict=True):
            array[self.chosen] = source(self._count)
        return True

    def before(self, given: Sequence) -> list[list[int]] | None:
        """Return the copies into lanes; None where numbers change their kind.

        The arguments have base addresses in their order, from 1 on.
        """
        records: list[list[int]] = []
        for base, (row, leaf) in enumerate(zip(self.entry.rows, given, strict=True), 1):
            if row.__class__ is not LaneRow:
                continue
            parts = [(row.cells, 0)]
            if row.imag is not None:
                parts.append((row.imag, row.cells.itemsize))
            if not _is_copied(row.cells) or row.dtype.kind not in "fc":
                return None
            if row.dtype.itemsize != len(parts) * row.cells.itemsize or not row.dtype.isnative:
                return None
            first, *rest = leaf.strides
            for cells, offset in parts:
                start, place = self.chosen.start * first + offset, cells.ctypes.data
                # Lanes that are left over repeat the first point, as `LaneRow` writes them.
                left = len(cells) - self._count, 0, place + self._count * cells.strides[0]
                ways = [(self._count, first, place), left]
                for count, stride, to in ways:
                    source, target = (base, start, (stride, *rest)), (0, to, cells.strides)
                    found = copies((count, *leaf.shape[1:]), cells.itemsize, source, target)
                    if found is None:
                        return None
                    records += found
        return records

    def behind(self, arrays: Sequence[np.ndarray], base: int) -> list[list[int]] | None:
        """Return the copies into results, whose base addresses begin with a number; None if none do that."""
        space, records = self.entry.space, []
        for number, (array, source) in enumerate(zip(arrays, self.sources, strict=True), base):
            view = source(self._count)
            own = isinstance(view, np.ndarray) and any(
                np.may_share_memory(view, cells) for cells in (*space.v, *space.g)
            )
            if not own or view.dtype != array.dtype or not _is_copied(view):
                return None
            view = np.broadcast_to(view, array[self.chosen].shape)
            start = self.chosen.start * array.strides[0]
            ends = (0, view.ctypes.data, view.strides), (number, start, array.strides)
            found = copies(view.shape, view.itemsize, *ends)
            if found is None:
                return None
            records += found
        return records


def _is_copied(array: np.ndarray) -> bool:
    """Whether records of copies are for numbers of this kind."""
    return array.dtype in (np.float64, np.float32)


def _base(leaf) -> int:
    """Return the base address of copies from a leaf of the arguments; 0 for a number, which none reads."""
    return address_of(leaf) if leaf.__class__ is np.ndarray else 0


class _Made(NamedTuple):
    """A job for arguments of some strides.

    Attributes
    ----------
    job
        None where a loop in Python does the blocks.
    counters
        Of the variants whose sweeps no entry counts.
    native
        Whether no block needs Python.
    """

    job: crew.Job | None = None
    counters: Sequence[np.ndarray] = ()
    native: bool = False


class BlockWork:
    """All blocks of a call.

    Parameters
    ----------
    lists
        The blocks, as each worker does them.
    """

    def __init__(self, lists: list[list[Block]]):
        self._lists = lists
        self._made: dict[tuple, _Made] = {}
        self._now: tuple[Sequence, Sequence[np.ndarray]] = (), ()  # the arguments and results of this call
        self._error: BaseException | None = None

    def done(self, given: Sequence, arrays: Sequence[np.ndarray]) -> bool:
        """Do the blocks; return whether all sweeps have come to their ends.

        Parameters
        ----------
        given
            The leaves of the arguments, with points as the first axis of each that has points.
        arrays
            The results.
        """
        job, counters, _ = self._job_for(given, arrays)
        if job is None:
            return all(block.done(given, arrays) for block in self._lists[0])
        self._now, self._error = (given, arrays), None
        try:
            if not job.serve([*map(_base, given), *map(address_of, arrays)]):
                if self._error is not None:
                    raise self._error
                return False
        finally:
            self._now, self._error = ((), ()), None
        for counter in counters:
            counter[0] += 1
        return True

    def called(self, given: Sequence, arrays: Sequence[np.ndarray]):
        """Return what `Job.called` does for such arguments and results; None if Python has to take part."""
        job, _, native = self._job_for(given, arrays)
        if job is None or not native:
            return None
        blocks = self._lists[0]
        return job.called(len(self._lists) == len(blocks) == 1 and blocks[0].entry.space.plan.is_brief)

    def _job_for(self, given, arrays) -> _Made:
        strides = tuple([leaf.strides if leaf.__class__ is np.ndarray else None for leaf in given])
        made = self._made.get(strides)
        if made is None:
            if len(self._made) >= MOST_JOBS:
                self._made.clear()
            made = self._made[strides] = self._job(given, arrays)
        return made

    def _job(self, given, arrays) -> _Made:
        """Return the job of the native crew for arguments like these.

        Blocks that it can't prepare by itself call back into Python. One thread needs no job for these alone.
        """
        count = len(self._lists[0])
        alive: list = []
        lists: list[list[crew.Block]] = []
        counters: dict[int, np.ndarray] = {}
        for blocks in self._lists:
            lists.append([])
            for block in blocks:
                space = block.entry.space
                before = None if space.segments is not None else block.before(given)
                behind = None if before is None else block.behind(arrays, 1 + len(given))
                if before is None or behind is None:
                    if not alive:
                        # Weakly, because the job is kept by this object, which does it.
                        alive.append(
                            crew.PYTHON(functools.partial(BlockWork._in_python, weakref.proxy(self)))
                        )
                    # Blocks are numbered worker by worker, see `_in_python`.
                    number = (len(lists) - 1) * count + len(lists[-1])
                    function = ctypes.cast(alive[0], ctypes.c_void_p).value
                    lists[-1].append(crew.Block(number, function or 0, crew.DONE))
                else:
                    sweep = kernels.sweep_address(block.entry.sweep)
                    lists[-1].append(crew.Block(space.address, sweep, 0, before, behind))
                    counters[id(space.variant)] = space.variant.counter
        if len(lists) == 1 and not counters:
            return _Made()
        try:
            job = crew.Job(lists, len(given) + len(arrays), self._step(), alive)
        except CannotEmit:
            return _Made()
        return _Made(job, list(counters.values()), not alive)

    def _step(self) -> int:
        """Return after how many blocks Python looks for signals."""
        spaces = {id(block.entry.space): block.entry.space for block in self._lists[0]}.values()
        work = max(
            work_of_plan(space.plan) + (0.0 if space.calls is None else space.calls.work) for space in spaces
        )
        return len(self._lists) * max(1, int(segments.MOST / max(work, 1.0)))

    def _in_python(self, number: int, _) -> int:
        """Do the block with a number, which counts the blocks of all workers one after the other."""
        try:
            worker, k = divmod(number, len(self._lists[0]))
            return crew.DONE if self._lists[worker][k].done(*self._now) else 0
        except BaseException as error:
            # An exception cannot pass through the crew's compiled function, so it is kept, and the
            # caller raises it.
            self._error = error
            return 0
