"""The steady call of a function over points: blocks of points go into lanes, are swept and read.

The first call with arguments of some sizes goes through `numbatape.caches.batch`, which finds out what each
point needs. Where every block of points took one path, the next call like it repeats these sweeps. If one of
them stops (at a guard on which the points part, or at an error), the general call serves all points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..engine import kernels
from ..jit.steady import CALLED, PLACED, TUPLE
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.variant import VariantWorkspace
from ..steady_calls.elastic_ends import address_of
from ..steady_calls.entry import REFUSED, ROW_COUNT, Entry, Served, refuse
from ..steady_calls.front import Front, entry_for
from ..steady_calls.leaf_rows import DataRow, LaneRow, SameRow
from ..steady_calls.outs import Out, in_form
from ..threads import Turn
from .batch import Sweep
from .block_work import Block, BlockWork


class Leaf(NamedTuple):
    """The shape of a leaf of the arguments if it is an array, and which axis of it numbers the points."""

    size: tuple[int, ...] | None
    axis: int | None

    def points_first(self, leaf):
        if self.axis is None:
            return leaf
        leaf = np.moveaxis(leaf, self.axis, 0) if self.axis else leaf
        return leaf if leaf.flags.aligned else leaf.copy()

    def like(self, row):
        """Return an array like those that calls bring, points first; None for a leaf without points."""
        if self.axis is None:
            return None
        assert self.size is not None
        return self.points_first(np.empty(self.size, row.dtype))

    def placed(self, dtype: np.dtype, word: np.ndarray, alive: list) -> dict:
        """Return the words of a row that writes an array's address to a word."""
        assert self.size is not None
        alive.append(dtype)
        return {
            "kind": PLACED,
            "object": id(dtype),
            "ndim": len(self.size),
            "shape": self.size,
            "cells": word.ctypes.data,
        }


class _Result:
    """An array that sweeps of a builtin fill. A call hands it out and makes the next one.

    Parameters
    ----------
    array
        The first one.
    word
        Where the address of the array is that the next call fills.
    """

    def __init__(self, array: np.ndarray, word: np.ndarray):
        self._array, self._word = array, word
        word[0] = address_of(array)

    def __call__(self) -> np.ndarray:
        array = self._array
        following = np.empty(array.shape, array.dtype)
        place = address_of(following)
        # There is no call between these two lines, so an interrupt comes before or after both, see `Turn`.
        self._word[0] = place
        self._array = following
        return array


class _Called(NamedTuple):
    """What a builtin calls instead of a sweep.

    Attributes
    ----------
    entered
        The words about that, as `kernels.entry_words` returns them.
    bases
        The addresses of arguments and results.
    results
        What makes the results.
    alive
        What is kept alive.
    """

    entered: dict[str, int]
    bases: np.ndarray
    results: list[_Result]
    alive: object


class LaneEntry(Served):
    """A steady call of `SteadyCalls` that consists of sweeps over blocks of points.

    Parameters
    ----------
    lists
        The blocks, as each worker sweeps them.
    rows
        What the leaves of the arguments are like.
    results
        Shape and dtype of each array that the sweeps fill, point by point.
    finished
        Makes the leaves of the results of these arrays.
    form
        How the results are put together, see `Entry`.
    turn
        Of the caller whose workspaces these are.
    """

    def __init__(self, lists: list[list[Block]], rows: list[Leaf], results, finished, form: int, turn: Turn):
        self.rows, self.turn = rows, turn
        self._results, self._finished, self._form = results, finished, form
        self._entries = list(dict.fromkeys(block.entry for blocks in lists for block in blocks))
        self._captured = list({entry.captured for entry in self._entries if entry.captured is not None})
        self._work = BlockWork(lists)
        self.has_room = self._entries[0].has_room
        self._retired = False
        self._words: list[np.ndarray] = []  # the words of each builtin, by which `retire` stops it

    @functools.cached_property
    def builtin(self):
        """The builtin that returns `REFUSED` for what it cannot serve, None if there is none."""
        return self.native(refuse)

    def native(self, fallback: Callable, others: np.ndarray | None = None):
        """Return a builtin that hands what it cannot serve to ``fallback``; None if there is none.

        Those that ``others`` tells of serve leaves of other sizes before.
        It does the blocks as its sweep. They read arguments where they are, and write to results that are
        there already: those of the next call are made when a call's results are handed out.
        """
        first, called = self._entries[0], self._called
        if called is None:
            return None
        alive: list = [called, [entry.space for entry in self._entries]]
        rows: list[dict] = []
        for k, (row, leaf) in enumerate(zip(first.rows, self.rows, strict=True), 1):
            if isinstance(row, LaneRow):
                rows.append(leaf.placed(row.dtype, called.bases[k:], alive))
            elif len(self._entries) > 1 and not isinstance(row, (SameRow, DataRow)):
                return None  # there is a cell in each workspace that it is copied to
            elif (words := row.native(alive)) is None:
                return None
            else:
                rows.append(words)
        outs = [{"kind": CALLED, "object": id(result)} for result in called.results]
        made = kernels.steady_call(
            *(called.entered, fallback, rows, outs, self._form),
            *(first.rebound, first.watch_rows(alive), self.turn, first.space.variant.counter, alive),
            others,
        )
        if made is None:
            return None
        builtin, its, table, _ = made
        self._words.append(its)
        for entry in self._entries:
            entry.attend(its, table)
        return builtin

    @functools.cached_property
    def _called(self) -> _Called | None:
        """What builtins call; None if Python has to take part in a call."""
        if self._finished is not list or len(self._captured) > 1:
            return None
        given = [leaf.like(row) for row, leaf in zip(self._entries[0].rows, self.rows, strict=True)]
        arrays = [np.empty(shape, dtype) for shape, dtype in self._results]
        found = self._work.called(given, arrays)
        if found is None:
            return None
        entered, bases, alive = found
        first = len(bases) - len(arrays)
        return _Called(entered, bases, [_Result(x, bases[first + k :]) for k, x in enumerate(arrays)], alive)

    def serve_in_turn(self, leaves: Sequence):
        # Once for all blocks: it takes 5 µs, and a block of garch11 takes 120.
        if any(captured.rebound() for captured in self._captured):
            return REFUSED
        given = [row.points_first(leaf) for row, leaf in zip(self.rows, leaves, strict=True)]
        for entry in self._entries:
            if not entry.accepts(given):
                return REFUSED
            for row, leaf in zip(entry.rows, given, strict=True):
                if row.__class__ is not LaneRow:
                    row.write(leaf)
        arrays = [np.empty(shape, dtype) for shape, dtype in self._results]
        if not self._work.done(given, arrays):
            return REFUSED
        return in_form(self._form, self._finished(arrays))

    # ---- whose workspaces these are

    def occupy(self) -> None:
        """Take the workspaces from the entries that they served before."""
        for entry in self._entries:
            entry.occupy()
            entry.belongs_to(self)

    def leave(self) -> None:
        """Let the workspaces serve no entry."""
        for entry in self._entries:
            entry.belongs_to(None)
            entry.leave()

    def drop(self, entry: Entry) -> None:
        """Serve no call any more, because a workspace is put to another use."""
        self.retire()

    def renew(self, entry: Entry) -> None:
        """Serve no call any more, because a workspace now compares an array that was always the same one."""
        self.retire()

    def retire(self) -> None:
        """Refuse all calls from now on."""
        self._retired = True
        for words in self._words:
            words[ROW_COUNT] = -1
        owner = self.owner()
        if owner is not None:
            owner.drop(self)


class Lesson(NamedTuple):
    """What a general call over points has done, for `teach`.

    Attributes
    ----------
    flat
        The arguments at one point.
    axes
        For each leaf of the arguments the axis that numbers the points, None if all points share it.
    leaves
        The leaves of the arguments.
    evaluator, slots
        What has swept, and the numbers of the tape's inputs that have a point in each lane.
    entry_point
        Name of the sweeps' entry point.
    sweeps
        All sweeps, in order.
    threads
        How many threads may sweep at once.
    sources
        Returns for a workspace, by array: what returns what a sweep has left, of so many points.
    arrays
        What the sweeps have filled.
    finished
        Makes the leaves of the result of the arrays.
    """

    flat: Flattened
    axes: Sequence[int | None]
    leaves: Sequence
    evaluator: Evaluator
    slots: frozenset[int]
    entry_point: str
    sweeps: list[Sweep]
    threads: int
    sources: Callable[[VariantWorkspace], list[Callable[[int], np.ndarray]]]
    arrays: list[np.ndarray]
    finished: Callable[[list[np.ndarray]], Sequence]


def teach(front: Front, lesson: Lesson, result, directions: int | None = None) -> None:
    """Let calls like one over points be served by a steady call, if each block of points took one path.

    Parameters
    ----------
    front
        What learns it.
    result
        What the call returned.
    directions
        The number of an argument behind those of the function, which stays in the workspaces.
    """
    variants = [sweep.space.variant for sweep in lesson.sweeps]
    if any(variant.contents is not None or variant.effects is not None for variant in variants):
        return
    omitted = frozenset() if directions is None else frozenset((directions,))

    def entry(space: VariantWorkspace, outs: list[Out], form: int, turn: Turn) -> Entry | None:
        how = lesson.flat, space, outs, form, lesson.entry_point, omitted, (), lesson.slots
        return entry_for(lesson.evaluator, *how, turn=turn)

    def made(form: int, turn: Turn) -> Entry | LaneEntry | None:
        alone = None
        if _is_one_block(lesson):
            space = lesson.sweeps[0].space
            outs = [
                Out(CALLED, functools.partial(_filled, array.shape, array.dtype, source))
                for array, source in zip(lesson.arrays, lesson.sources(space), strict=True)
            ]
            alone = entry(space, outs, form, turn)
            if alone is not None and alone.builtin is not None:
                return alone
        blocks = _entry_of_blocks(lesson, entry, form, turn)
        return alone if alone is not None and (blocks is None or blocks.builtin is None) else blocks

    front.keep(lesson.flat, result, made, omitted)


def _entry_of_blocks(lesson: Lesson, entry: Callable, form: int, turn: Turn) -> LaneEntry | None:
    """Return what serves calls like the one of a lesson, block by block; None where no table can.

    Each thread sweeps its blocks in workspaces of its own.
    """
    if any(
        axis is not None and leaf.__class__ is not np.ndarray
        for leaf, axis in zip(lesson.leaves, lesson.axes, strict=True)
    ):
        return None  # entries are found by the sizes of arrays, and only arrays can be cut into blocks
    slices = [sweep.chosen for sweep in lesson.sweeps if isinstance(sweep.chosen, slice)]
    if len(slices) < len(lesson.sweeps):
        # The points were not swept in rows that follow one another, and others may part in another way.
        return None
    lists: list[list[Block]] = []
    for worker in range(min(lesson.threads, len(lesson.sweeps))):
        known: dict[int, tuple] = {}
        lists.append([])
        for sweep, chosen in zip(lesson.sweeps, slices, strict=True):
            if id(sweep.space) not in known:
                own = _another(sweep.space) if worker else sweep.space
                known[id(sweep.space)] = entry(own, [], TUPLE, turn), lesson.sources(own)
            its, sources = known[id(sweep.space)]
            if its is None:
                return None
            lists[-1].append(Block(its, chosen, sources))
    rows = [
        Leaf(leaf.shape if leaf.__class__ is np.ndarray else None, axis)
        for leaf, axis in zip(lesson.leaves, lesson.axes, strict=True)
    ]
    results = [(array.shape, array.dtype) for array in lesson.arrays]
    return LaneEntry(lists, rows, results, lesson.finished, form, turn)


def _another(space: VariantWorkspace) -> VariantWorkspace:
    """Return a workspace with the same contents, for another thread."""
    made = VariantWorkspace(space.plan, space.variant, None, space.dimensions, space.widths)
    for cells, its in zip(made.inputs, space.inputs, strict=True):
        cells[...] = its
    made.seed[...] = space.seed
    made.run_prologue()
    return made


def _is_one_block(lesson: Lesson) -> bool:
    """Whether the arguments are one block that fills all lanes, so that an `Entry` serves calls like it."""
    first, *others = lesson.sweeps
    lanes = {len(first.space.inputs[slot]) for slot in lesson.slots}
    return not others and lanes == {first.count} and not any(lesson.axes) and lesson.finished is list


def _filled(shape: tuple[int, ...], dtype, source: Callable[[int], np.ndarray]) -> np.ndarray:
    """Return a new array with what a sweep has left."""
    array = np.empty(shape, dtype)
    array[...] = source(shape[0])
    return array
