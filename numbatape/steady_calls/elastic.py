"""`ElasticEntry`: the steady call of one trace for arguments of any sizes, in a workspace that follows them.

An `Entry` of the steady calls serves one set of sizes. For sizes that nobody has seen, a workspace of the
trace is moved to them: a kernel plans them (`numbatape.engine.replan`), some words of the frame and of the
builtin's tables change, and the builtin runs. This takes some microseconds, where the general call and a
new workspace take 400. Memory grows, and never shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import jit
from ..engine import Plan, Workspace, kernels
from ..engine.calls import Calls
from ..engine.frame import CELL_A, SEED_CELL, SEED_CELLS, WORD
from ..engine.moving.moving_spaces import ITEMSIZE, MovingSpace
from ..engine.moving.space_words import FAILED, LARGE, UNPLANNED
from ..engine.placement import aligned
from ..engine.plan import BRIEF_CODE
from ..engine.replan_kernels import ALL_CELLS, LEVELS
from ..engine.segments import Cuts, Segments
from ..engine.strips.strip_replan import StripReplanner
from ..engine.strips.strip_replan_kernels import OTHER_WAY
from ..ops.status import DONE, GUARD
from ..programs.counted_sizes import MOST_COUNTS
from ..programs.variant import LONG, MANY
from ..tape.tape import F64, FAMILY_DTYPE
from .elastic_ends import UNKNOWN, Input, Result, Seed, address_of, ends_of, result_of, rows_for_all_sizes
from .elastic_results import ElasticResults
from .leaf_rows import ArrayRow, DataRow, FrozenRow, KnownNumberRow, NumberRow, SameRow
from .outs import in_form

ndarray = np.ndarray
ROW = {name: k for k, name in enumerate(jit.steady.ROW)}
CELLS_OF, BYTES, OBJECT = (ROW[name] for name in ("cells", "bytes", "object"))
FRAME, LOCKED = jit.steady.WORDS.index("frame"), jit.steady.WORDS.index("locked")
MOST_DIMENSIONS = 64
WORD_BYTES = jit.object_layout.WORD
KINDS = (ArrayRow, NumberRow, SameRow, DataRow, FrozenRow, KnownNumberRow)


class ElasticEntry:
    """What serves calls like those of an entry, of other sizes. Made by `elastic_entry_of`.

    Attributes
    ----------
    variant, tape
        The trace, and the tape that runs: the trace's own one, or that of value and gradient.
    deferred
        How many calls were of sizes whose gradient is computed in the other way
        (`numbatape.programs.one_way`).
    """

    def __init__(self, entry, planner, inputs: list[Input], seeds: list[Seed], results: list[Result | None]):
        space = entry.space
        self.variant = space.variant
        self._entry, self._inputs = entry, inputs
        counted = self._counted = self.variant.counted
        given = len(inputs) if counted is None else len(inputs) - len(counted.guards)
        self._leaf_rows = rows_for_all_sizes(entry.rows, planner.tape)
        kinds = [row.__class__ for row in self._leaf_rows]
        copied = {k for k, kind in enumerate(kinds) if kind is ArrayRow}
        self._filled = [at for at in inputs if at.row not in copied]
        self._seeded = seeds
        self._has_cotangents = any(seed.row is not None for seed in seeds)
        # Arrays of no dimensions are looked at as well: a number may come in their place.
        arrays = {k for k, kind in enumerate(kinds) if kind in (ArrayRow, DataRow, FrozenRow)}
        self._arrays = [at for at in inputs[:given] if at.ndim or at.row in arrays]
        self._planner, self.deferred = planner, 0
        # The dimensions of the arguments and of all inputs, where data decide some.
        self._tried: tuple | None = None
        self._in_strips = isinstance(planner, StripReplanner)
        self._one_way = None if self._in_strips else space.one_way
        self.tape = tape = planner.tape
        self._frame = space.frame.copy()
        self._frame[WORD["CONTINUED"]] = 0
        self._watched = space.watched  # kept alive, because the frame refers to captured arrays by address
        self._seeds, self._seed = space.seeds.copy(), space.seed.copy()
        self._at_seeds = memoryview(self._seeds)
        shapes = [np.zeros(MOST_DIMENSIONS, np.int64) for _ in entry.rows]
        self._at_shapes = [address_of(shape) for shape in shapes]
        self._shapes = [shape.data for shape in shapes]
        self._copied = copied
        self._known: list = [None] * len(entry.rows)
        for name, table in {"SEEDS": self._seeds, "SEED_DATA": self._seed}.items():
            self._frame[WORD[name]] = table.ctypes.data
        self._at_frame = address_of(self._frame)
        v, g = ([aligned(0, dtype) for dtype in FAMILY_DTYPE] for _ in "vg")
        self._space = moving = MovingSpace(
            planner, self._frame, v, g, _calls_into(self._frame), outermost=True
        )
        self._v, self._g, self._at_v = moving.v, moving.g, moving.at_v
        self._results = ElasticResults(results, entry.outs, moving)
        self._sizes = memoryview(planner.sizes)
        self._follow_tables()
        kernels.ensure(planner.kernels, planner.values, reverse=not tape.forward)
        self._prologue = kernels.sweep("prologue") if tape.prologue else None
        self._cuts: Cuts | None = None  # where the sweeps are cut

    def build(self, refuse: Callable) -> bool:
        """Make the builtin, which hands what it cannot serve to ``refuse``; return whether there is one."""
        entry = self._entry
        alive: list = [self._frame, entry.rows, entry.rebound]
        # An array that nobody writes to is compared as well: at other sizes there is another one.
        kinds = [DataRow if row.__class__ is FrozenRow else row.__class__ for row in self._leaf_rows]
        its_rows: list = [kind.native(row, alive) for kind, row in zip(kinds, self._leaf_rows, strict=True)]
        if any(row is None for row in its_rows):
            return False
        entered, outs = kernels.entry_words(entry.space, entry.sweep), self._results.records()
        made = kernels.steady_call(
            *(entered, refuse, its_rows, outs, entry.form),
            *(entry.rebound, entry.watch_rows(alive), entry.turn, self.variant.counter, alive),
        )
        if made is None:
            return False
        self._builtin, words, rows, table = made
        self._tables = made  # kept alive, because the next three are views of its arrays
        self._words = memoryview(words)
        self._rows = memoryview(rows.reshape(-1))
        self._results.attach(memoryview(table.reshape(-1)))
        self._words[FRAME] = address_of(self._frame)
        for at in self._inputs:
            if at.row is not None and at.ndim:
                self._rows[len(ROW) * at.row + ROW["shape"]] = self._at_shapes[at.row]
        for seed in self._seeded:
            if seed.row is not None and seed.dims:
                self._rows[len(ROW) * seed.row + ROW["shape"]] = self._at_shapes[seed.row]
        self._let_kernel_serve(address_of(words) + WORD_BYTES * LOCKED, address_of(rows))
        return True

    def _let_kernel_serve(self, locked: int, rows: int) -> None:
        """Let a kernel write the words of the builtin that depend on sizes alone."""
        leaves, first, tape = [], 0, self.tape
        for at in self._inputs:
            if at.row in self._copied:
                words = rows + WORD_BYTES * len(ROW) * at.row
                cells, count = words + WORD_BYTES * CELLS_OF, words + WORD_BYTES * BYTES
                itemsize = self._leaf_rows[at.row].dtype.itemsize
                places = cells, count, self._at_shapes[at.row], at.family, at.place
                leaves.append((*places, itemsize, first, at.ndim))
            first += at.ndim
        ones = [seed for seed in self._seeded if seed.row is None]
        seeds = [(address_of(self._seeds[one.number, SEED_CELL:]), one.place, one.offset) for one in ones]
        is_short = len(tape) <= BRIEF_CODE and not tape.calls
        large = (0, 0) if self._one_way is None else (MANY, LONG)
        self._space.serve(leaves, seeds, locked if is_short else 0, large, not self._filled)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._v, *self._g))

    def serve(self, leaves: Sequence, refused):
        """Return the results for leaves of any sizes, ``refused`` where this trace does not hold for them."""
        result = self._served(leaves, refused)
        if self._counted is None:
            return result
        for _ in range(MOST_COUNTS):
            if result is not refused or self._tried is None:
                break
            # A guard in the sweep has seen another number of entries.
            self._tried = self._corrected(*self._tried)
            if self._tried is not None:
                result = self._served(leaves, refused)
        self._tried = None
        return result

    def _served(self, leaves: Sequence, refused):
        turn = self._entry.turn
        if turn.busy or len(leaves) != len(self._entry.rows):
            return refused
        turn.busy, result, ready = True, refused, False
        try:
            ready = self._move(leaves)
            if ready and self._cuts is not None:
                result, ready = self._in_segments(leaves, refused), False
        finally:
            turn.busy = False
        if ready:
            result = self._builtin(*leaves)
        if result is refused and self._space.calls is not None:
            self._space.calls.begin()  # forgets what a rule raised: it will do so again in the general call
        return result

    def _in_segments(self, leaves: Sequence, refused):
        """Do what the builtin does, between whose sweeps Python looks for signals."""
        entry, rows, first = self._entry, self._leaf_rows, self._first
        if not all(map(_is_like, rows, leaves)) or (entry.rebound is not None and entry.rebound()):
            return refused
        for at in self._inputs:
            if at.row is not None and rows[at.row].__class__ in (ArrayRow, NumberRow):
                cell, leaf = first[at.place], leaves[at.row]
                self._v[at.family][cell : cell + np.size(leaf)] = np.reshape(leaf, -1)
        start = 0
        for seed in self._seeded:
            count = self._at_seeds[seed.number, SEED_CELLS]
            if seed.row is not None:
                self._seed[start : start + count] = np.reshape(leaves[seed.row], -1)
            start += count
        if self._enter_segments(entry.sweep):
            return refused
        self.variant.counter[0] += 1
        return in_form(entry.form, self._results.made(first, self._sizes, self._ends))

    def _move(self, leaves: Sequence) -> bool:
        """Plan for the sizes of the leaves, and bring everything to its place; return whether that worked."""
        dimensions: list[int] = []
        for at in self._arrays:
            leaf = at.fixed if at.row is None else leaves[at.row]
            if leaf.__class__ is not ndarray or leaf.ndim != at.ndim:
                return False
            dimensions += leaf.shape
        if self._counted is None:
            return self._moved(leaves, dimensions) == DONE
        given = tuple(dimensions)
        now = (given, self._counted.tried_for(given)) if self._tried is None else self._tried
        self._tried = None
        for _ in range(MOST_COUNTS):
            outcome = -1 if now is None or now[1] is None else self._moved(leaves, now[1])
            if outcome != GUARD:
                if outcome == DONE:
                    self._counted.keep(*now)
                    self._tried = now
                    self._frame[WORD["STOPPED"]] = -1
                return outcome == DONE
            now = self._corrected(*now)
        return False

    def _corrected(self, given: tuple[int, ...], tried: tuple[int, ...]):
        """Return the arguments' dimensions, and those to try after a guard has stopped a sweep, or None."""
        stopped, counted = int(self._frame[WORD["STOPPED"]]), self._counted
        guard = int(self.tape.code["aux"][stopped]) if stopped >= 0 else -1
        if guard not in counted.guards:
            return None
        more = float(self._v[F64][self._planner.code[stopped, CELL_A]])
        if not math.isfinite(more):
            return None
        other = counted.corrected(given, tried, guard, counted.seen(tried, guard) + int(more))
        return None if other is None else (given, other)

    def _moved(self, leaves: Sequence, dimensions: Sequence[int]) -> int:
        """Plan for dimensions of all inputs; return the prologue's status, or -1 where that did not work."""
        space, planner = self._space, self._planner
        if space.calls is not None:
            space.calls.begin()
        status = space.lead(dimensions)
        if status == LARGE and self._takes_two_sweeps(dimensions):
            status = space.place()
        if status:
            self.deferred += status == LARGE or (status == UNPLANNED and space.outcome == OTHER_WAY)
            return space.outcome if status == FAILED else -1
        if self._in_strips and not planner.pays():
            self.deferred += 1
            return -1
        if self._generation is not planner.code:
            self._follow_tables()
        self._cuts = planner.cuts() if planner.is_long else None
        first, sizes = self._first, self._sizes
        for at in self._filled:
            if not self._fill(at, first[at.place], leaves):
                return -1
        if self._has_cotangents and not self._place_seeds(leaves, first, sizes):
            return -1
        self._results.place(first, sizes, self._ends)
        return self._run_prologue() if self._filled or self._cuts is not None else DONE

    def _takes_two_sweeps(self, dimensions: Sequence[int]) -> bool:
        """Whether two sweeps are better for many cells than one (`numbatape.programs.one_way`)."""
        assert self._one_way is not None
        cells = self._ends[ALL_CELLS], self._ends[LEVELS + ALL_CELLS]  # those of float64, and of float32
        return self._one_way().refuses(dimensions, cells, self._planner.longest)

    def _run_prologue(self) -> int:
        if self._prologue is None:
            return DONE
        long = self._cuts is not None
        return self._enter_segments("prologue") if long else self._prologue(self._at_frame, 0)

    def _enter_segments(self, name: str) -> int:
        assert self._cuts is not None
        return Segments(self._frame, self._cuts, kernels.sweep).run(name)

    def _follow_tables(self) -> None:
        """Let the frame refer to the tables of the plan, which are new ones where strips got more room."""
        planner = self._planner
        self._generation = planner.code
        self._first, self._ends = memoryview(planner.storages.reshape(-1)), memoryview(planner.ends)

    def _place_seeds(self, leaves: Sequence, first: memoryview, sizes: memoryview) -> bool:
        """Say where cotangents are and where they go; return whether they have the shapes of the results."""
        start, words = 0, self._rows
        for seed in self._seeded:
            offset = seed.offset
            self._at_seeds[seed.number, SEED_CELL] = first[seed.place] + (
                offset if offset >= 0 else sizes[-offset - 1]
            )
            assert seed.row is not None
            count, leaf = 1, leaves[seed.row]
            if seed.dims:
                shape = tuple([n if n >= 0 else sizes[-n - 1] for n in seed.dims])
                if leaf.__class__ is not ndarray or leaf.shape != shape:
                    return False
                count, its_shape = leaf.size, self._shapes[seed.row]
                for axis, n in enumerate(shape):
                    its_shape[axis] = n
            if start + count > len(self._seed):
                self._seed = np.resize(self._seed, 2 * (start + count))
                self._frame[WORD["SEED_DATA"]] = address_of(self._seed)
                return self._place_seeds(leaves, first, sizes)
            self._at_seeds[seed.number, SEED_CELLS] = count
            place = len(ROW) * seed.row
            words[place + CELLS_OF] = address_of(self._seed) + self._seed.itemsize * start
            words[place + BYTES] = self._seed.itemsize * count
            start += count
        return True

    def _fill(self, at: Input, cell: int, leaves: Sequence) -> bool:
        """Copy a constant to its cells; let the builtin know where it has to copy a number."""
        cells = self._v[at.family]
        if at.row is None:
            cells[cell : cell + at.fixed.size] = at.fixed.reshape(-1)
            return True
        leaf, row, words = leaves[at.row], self._leaf_rows[at.row], self._rows
        place = len(ROW) * at.row
        words[place + CELLS_OF] = self._at_v[at.family] + ITEMSIZE[at.family] * cell
        if at.ndim:
            shape = self._shapes[at.row]
            for axis, n in enumerate(leaf.shape):
                shape[axis] = n
        kind = row.__class__
        if kind is DataRow or kind is FrozenRow:
            if not row.computes(leaf):
                return False
            # What was copied a moment ago is not compared.
            words[place + BYTES] = 0
            cells[cell : cell + leaf.size] = leaf.reshape(-1)
        elif kind is KnownNumberRow:
            if not row.fits(leaf):
                return False
            self._known[at.row] = leaf
            words[place + OBJECT] = id(leaf)
            cells[cell] = leaf
        return True


def _calls_into(frame: np.ndarray) -> Callable[[Plan, Any, Any], Calls]:
    """Return what makes the loops and rules of a plan, which some frame refers to."""
    return lambda plan, v, g: Calls(plan, v, g, Workspace).into(frame)


def _is_like(row, leaf) -> bool:
    """Whether a leaf is what a row says, whatever its shape; constants are what `_fill` has taken."""
    if row.__class__ is ArrayRow:
        return leaf.__class__ is ndarray and leaf.dtype == row.dtype
    return row.__class__ in (DataRow, FrozenRow, KnownNumberRow) or row.fits(leaf)


def elastic_entry_of(entry, refuse: Callable) -> ElasticEntry | None:
    """Return what serves calls like those of an entry, of other sizes; None if only the general call does."""
    space, variant = entry.space, entry.space.variant
    if variant.contents is not None or variant.effects is not None:
        return None
    planner = space.replanner()
    if planner is None or not planner.proved:
        return None
    if any(row.__class__ not in KINDS for row in entry.rows):
        return None
    ends = ends_of(entry)
    results = [result_of(space, out) for out in entry.outs]
    if ends is None or any(result is UNKNOWN for result in results):
        return None
    elastic = ElasticEntry(entry, planner, *ends, results)
    return elastic if elastic.build(refuse) else None
