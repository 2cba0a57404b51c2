"""Steady calls: what happens when a cache or a verb is called again with specs and sizes that it knows.

An `Entry` belongs to one workspace: rows that say what each leaf of the arguments must be and where it
goes, a sweep, and outs that say how the results are made. The builtin of `numbatape.jit.steady` serves it in
0.5 µs around the sweeps, its own method `serve` in some 2 µs. `SteadyCalls` finds the entry for the
sizes of a call; what no entry serves goes to the general call, which takes all arguments apart, checks them
and explains what is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import jit
from ..engine import kernels
from ..tape.tape import CONSTANT
from ..threads import Turn
from .arguments import Flattened, bare
from .leaf_rows import KnownNumberRow, Row, rows_of, sizes_of, watched_memory
from .outs import Out, in_form
from .program import Evaluator
from .variant import VariantWorkspace

if TYPE_CHECKING:
    from ..capture.captured import Captured
    from .elastic import ElasticEntry
    from .lane_calls import LaneEntry

ndarray = np.ndarray
OBJECT, ROW_COUNT = jit.steady.ROW.index("object"), jit.steady.WORDS.index("row_count")
AT_ONCE = 2  # this many sizes get an entry at their first call; further ones when they come again
RARE = 32  # without room, a size gets an entry in another's place if it has come so often
MOST_MET = 4096
MOST_ELASTIC = 8
REFUSED = object()  # what an entry returns for leaves that it cannot serve


def refuse(*leaves):
    """Serve nothing."""
    return REFUSED


# ---- entries


class Served:
    """What serves calls of some sizes, one at a time."""

    turn: Turn
    rows: Sequence
    _retired: bool

    def serve(self, leaves: Sequence):
        """Return the results or `REFUSED`, for all kinds of rows, and for data that changed."""
        if self.turn.busy or self._retired or len(leaves) != len(self.rows):
            return REFUSED
        self.turn.busy = True
        try:
            return self.serve_in_turn(leaves)
        finally:
            self.turn.busy = False

    def serve_in_turn(self, leaves: Sequence):
        """Do what `serve` does, for who has the turn."""
        raise NotImplementedError


class Entry(Served):
    """The steady call of one workspace.

    Parameters
    ----------
    space
        The workspace; its inputs are the rows' cells.
    rows, outs
        One row per leaf of the arguments, one out per leaf of the results.
    form
        TUPLE, PAIR or ALONE of `numbatape.jit.steady`: how the results are put together.
    sweep
        The kernels' entry point.
    captured
        What the function captured, which each call checks; None if it captured nothing.
    turn
        Of the cache whose workspace this is.
    """

    def __init__(
        self,
        space: VariantWorkspace,
        rows: list,
        outs: list[Out],
        form: int,
        sweep: str,
        captured: Captured | None,
        turn: Turn,
    ):
        if form == jit.steady.PAIR and all(out.kind == jit.steady.FIXED for out in outs[1:]):
            others = tuple(out.source for out in outs[1:])  # one tuple for all calls
            outs, form = [outs[0], Out(jit.steady.FIXED, others)], jit.steady.TUPLE
        self.space, self.rows, self.outs, self.form = space, rows, outs, form
        self.sweep, self.captured, self.turn = sweep, captured, turn
        self.rebound = None if captured is None else captured.rebound
        self.owner: SteadyCalls | LaneEntry | None = None
        self.first: Callable | None = None  # serves a call when this entry is in front
        self.follows_sizes = False  # whether a `ElasticEntry` may be made of it
        self.has_room: Callable = bool  # whether workspaces for further sizes may be kept
        self._data = [(k, row) for k, row in enumerate(rows) if hasattr(row, "changed")]
        dummy = np.zeros(1)
        self._run, self._alive = kernels.call_of(sweep, space, dummy, _stopped, space.variant.counter)
        self._natives: list[tuple] = []  # (words, rows) of the builtins there are
        self._retired = False
        self._stale = False  # whether the cells hold no prologue of the rows' constants

    @functools.cached_property
    def builtin(self):
        """The builtin that returns `REFUSED` for what it cannot serve, None if there is none."""
        return self.native(refuse)

    def native(self, fallback: Callable):
        """Return a builtin that hands what it cannot serve to ``fallback``; None if there is none."""
        if self.space.segments is not None or self.space.variant.effects is not None:
            return None  # Python runs between the sweeps, or behind them
        alive: list = []
        rows = [row.native(alive) for row in self.rows]
        if any(row is None for row in rows):
            return None
        outs = [{"kind": out.kind, "object": id(out.source)} for out in self.outs]
        alive += [self, self.rows, self.outs, [out.source for out in self.outs]]
        hits = self.space.variant.counter
        made = kernels.steady_call(
            *(kernels.entry_words(self.space, self.sweep), fallback, rows, outs, self.form),
            *(self.rebound, self.watch_rows(alive), self.turn, hits, alive),
        )
        if made is None:
            return None
        builtin, words, table, _ = made
        self.attend(words, table)
        return builtin

    def attend(self, words: np.ndarray, rows: np.ndarray) -> None:
        """Keep the tables of a builtin that computes with this entry's constants as they have to be."""
        self._natives.append((words, rows))
        if self._stale:
            self._set_stale(True)

    def watch_rows(self, alive: list) -> list[dict] | None:
        """Return the rows by which a builtin checks what is captured; add to ``alive`` what they refer to."""
        return [] if self.captured is None else self.captured.watch_rows(alive)

    def serve_in_turn(self, leaves: Sequence):
        """Do what `serve` does, for who has the turn."""
        if self.rebound is not None and self.rebound():
            return REFUSED
        return self.serve_as_bound(leaves)

    def serve_as_bound(self, leaves: Sequence):
        """Do what `serve_in_turn` does, where names are known to be bound to what they were bound to."""
        if not self.accepts(leaves):
            return REFUSED
        for row, leaf in zip(self.rows, leaves, strict=True):
            row.write(leaf)
        if not self.swept():
            return REFUSED
        if self.space.variant.effects is not None:
            self.space.variant.effects.replay(self.space.outputs)
        return in_form(self.form, [out.make() for out in self.outs])

    def accepts(self, leaves: Sequence) -> bool:
        """Whether this entry is for such leaves, whose constants it computes with from now on."""
        if not all(row.fits(leaf) for row, leaf in zip(self.rows, leaves, strict=True)):
            return False
        changed = [(row, leaves[k]) for k, row in self._data if self._stale or row.changed(leaves[k])]
        return not changed or self._reload(changed)

    def swept(self) -> bool:
        """Sweep; return whether the sweep has come to its end."""
        return self._run() is not None

    def _reload(self, changed) -> bool:
        """Compute with other constants from now on; return False if the tape holds for no others."""
        space = self.space
        if space.variant.contents is not None:
            return False
        space.constants = None  # the cells no longer hold what the general call loaded
        space.prologue_done = False
        self._set_stale(True)  # it stays so where the prologue stops, at a guard or an error
        for row, leaf in changed:
            row.take(leaf)
        for _, rows in self._natives:
            for k, row in self._data:
                if isinstance(row, KnownNumberRow):  # the builtin knows numbers by identity
                    rows[k, OBJECT] = id(row.known)
        try:
            self._set_stale(space.run_prologue() != 0)
        except Exception:
            # A rule may raise anything. The general call, which follows, calls the rule again, where the
            # user's function can catch the exception.
            return False
        return not self._stale

    def _set_stale(self, stale: bool) -> None:
        """Let the builtins serve nothing while the prologue of their constants is not computed."""
        self._stale = stale
        for words, _ in self._natives:
            words[ROW_COUNT] = -1 if stale else len(self.rows)

    def occupy(self) -> None:
        """Take the workspace from the entry that it served before."""
        if self.space.entry is not None:
            self.space.entry.retire()
        self.space.entry = self

    def leave(self) -> None:
        """Let the workspace serve no entry."""
        self.space.entry = None

    def retire(self) -> None:
        """Refuse all calls from now on, because the workspace is put to another use.

        Another thread may have looked up the builtin and not called it yet; no call has -1 leaves, so the
        builtin refuses it.
        """
        self._retired = True
        for words, _ in self._natives:
            words[ROW_COUNT] = -1
        if self.owner is not None:
            self.owner.drop(self)


def _stopped() -> None:
    """The sweep stopped: at a guard, at a constant that changed, or at an error."""


class SteadyCalls:
    """The entries of one cache, by the sizes of its arguments.

    Parameters
    ----------
    general
        Serves leaves that no entry serves.
    install
        Called with the callable that serves the next call, whenever that changes.
    """

    def __init__(self, general: Callable, install: Callable[[Callable], None]):
        self._general = general
        self._install = install
        self._entries: dict[tuple, list[Entry | LaneEntry]] = {}
        # By sizes that have one entry: its builtin. The fewer objects a call touches, the more sizes stay in
        # the processor's caches.
        self._alone: dict[tuple, Callable] = {}
        self._latest: Callable | None = None  # of those, the last one that served
        self._elastic: list[ElasticEntry] = []  # what serves new sizes, the last used first
        self._untried: list[Entry] = []  # of traces for which there may be none yet
        self._met: dict[tuple, int] = {}  # how often sizes came that no entry is for
        self.welcome = True  # whether an entry for the present call would pay
        self._front: Entry | LaneEntry | None = None  # whose builtin is installed
        self._last: Entry | LaneEntry | None = None  # which served the last call that the front did not

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def learn(self, entry: Entry | LaneEntry) -> None:
        """Keep an entry for calls with leaves of its sizes."""
        entry.occupy()
        entry.owner = self
        if isinstance(entry, Entry) and entry.follows_sizes and len(self._untried) < MOST_ELASTIC:
            self._untried.append(entry)
        sizes = _key(tuple(row.size for row in entry.rows))
        self._entries.setdefault(sizes, []).insert(0, entry)
        self._alone.pop(sizes, None)
        self._put_in_front(entry)

    def _put_in_front(self, entry: Entry | LaneEntry) -> None:
        self._front = entry
        if entry.first is None:
            entry.first = entry.native(self.again) or self.again
        self._install(entry.first)

    def drop(self, entry: Entry | LaneEntry) -> None:
        """Forget an entry."""
        entry.owner = None
        entry.leave()
        for key, entries in list(self._entries.items()):
            if entry in entries:
                entries.remove(entry)
                if not entries:
                    del self._entries[key]
                self._alone.pop(key, None)
        if entry is self._last:
            self._last = None
        self._latest = None
        if entry is self._front:
            self._front = None  # its builtin hands every call on to the fallback

    def again(self, *leaves):
        """Serve leaves that the entry in front does not serve: of other sizes, or on another path."""
        if len(leaves) == 1 and leaves[0].__class__ is ndarray:  # what `_sizes` returns, 0.05 µs faster
            sizes = leaves[0].shape
        else:
            sizes = sizes_of(leaves)
        builtin = self._alone.get(sizes)
        if builtin is not None and builtin is not self._latest:  # one that serves twice goes to the front
            result = builtin(*leaves)
            if result is not REFUSED:
                self._latest = builtin
                return result
        result = self._served_by_builtin(leaves, sizes, self._front)
        if result is not REFUSED:
            return result
        opened, sizes = _opened(leaves, sizes)
        if sizes in self._entries:
            self.welcome = True  # if none of them serves, it is something else than the sizes that is new
            result = self._served_in_python(opened, sizes)
        else:
            result = self._served_elastically(opened, sizes)
        return self._general(*leaves) if result is REFUSED else result

    def _served_elastically(self, leaves: tuple, sizes: tuple):
        """Serve leaves of sizes that are new, by a workspace that follows sizes."""
        if len(self._met) >= MOST_MET:
            self._met.clear()
        times = self._met[sizes] = self._met.get(sizes, 0) + 1
        few = len(self._entries) < AT_ONCE and len(self) < AT_ONCE
        self.welcome = few or times > RARE or (times > 1 and self._has_room())
        if self.welcome:
            return REFUSED
        if self._untried:
            self._make_elastic_entries()
        for elastic in self._elastic:
            result = elastic.serve(leaves, REFUSED)
            if result is not REFUSED:
                if elastic is not self._elastic[0]:
                    self._elastic.remove(elastic)
                    self._elastic.insert(0, elastic)
                return result
        # The first of these sizes gets an entry, from which an elastic one can be made.
        self.welcome = any(elastic.deferred == 1 for elastic in self._elastic)
        return REFUSED

    def _has_room(self) -> bool:
        return self._front is None or self._front.has_room()

    def _make_elastic_entries(self) -> None:
        """Make a `ElasticEntry` for each trace that has got an entry, as far as that can have one."""
        from .elastic import elastic_entry_of  # no process needs it before sizes change

        while self._untried:
            entry = self._untried.pop()
            variant, tape = entry.space.variant, entry.space.plan.tape
            known = any(its.variant is variant and its.tape.digest == tape.digest for its in self._elastic)
            if entry.owner is not self or known:
                continue
            elastic = elastic_entry_of(entry, refuse)
            if elastic is not None:
                self._elastic.insert(0, elastic)
                del self._elastic[MOST_ELASTIC:]

    def known(self, *leaves):
        """Serve leaves by one of the entries, or return `REFUSED`: for when another table is in front."""
        sizes = _sizes(leaves)
        result = self._served_by_builtin(leaves, sizes, None)
        return self._served_in_python(*_opened(leaves, sizes)) if result is REFUSED else result

    def _served_by_builtin(self, leaves: tuple, sizes: tuple, front: Entry | LaneEntry | None):
        """Serve leaves by the builtin of an entry for their sizes; ``front`` has been asked already."""
        entries = self._entries.get(sizes, ())
        for entry in entries:
            if entry is not front and entry.builtin is not None:
                result = entry.builtin(*leaves)
                if result is not REFUSED:
                    if len(entries) == 1:
                        self._alone[sizes] = entry.builtin
                    self._note(entry)
                    return result
        return REFUSED

    def _served_in_python(self, opened: tuple, sizes: tuple):
        """Serve what builtins refuse: data that changed, complex numbers, other memory layouts, constants.

        Parameters
        ----------
        opened, sizes
            The leaves without the marks of constants, and their sizes.
        """
        for entry in tuple(self._entries.get(sizes, ())):
            result = entry.serve(opened)
            if result is not REFUSED:
                self._note(entry)
                return result
        return REFUSED

    def _note(self, entry: Entry | LaneEntry) -> None:
        """Put an entry in front that served twice in a row; sizes that alternate leave the front alone."""
        if entry is not self._last:
            self._last = entry
        elif entry is not self._front and entry.owner is self:
            self._put_in_front(entry)


def _key(sizes: tuple) -> tuple:
    """Return the key of some sizes among entries: the shape alone of one array, which is there already."""
    return sizes[0] if len(sizes) == 1 and sizes[0] is not None else sizes


def _sizes(leaves: tuple) -> tuple:
    """Return the key of the sizes of leaves."""
    return _key(sizes_of(leaves))


def _opened(leaves: tuple, sizes: tuple) -> tuple[tuple, tuple]:
    """Return leaves without the marks of constants, and their sizes."""
    if None in sizes:  # not all are arrays
        leaves = tuple(map(bare, leaves))
        sizes = _sizes(leaves)
    return leaves, sizes


def entry_for(
    evaluator: Evaluator,
    flat: Flattened,
    space: VariantWorkspace,
    outs: list[Out],
    form: int,
    sweep: str,
    omitted: frozenset[int] = frozenset(),
    more: Sequence[Row] = (),
    lanes: frozenset[int] = frozenset(),
    *,
    turn: Turn,
) -> Entry | None:
    """Return the entry for calls like one that a workspace has just served; None if it would serve none.

    Parameters
    ----------
    flat
        The arguments of that call.
    omitted
        Arguments that calls leave out; their contents are watched where they were at preparation.
    more
        Rows of further leaves, behind those of the arguments: directions, cotangents.
    lanes
        Numbers of the tape's inputs that have a point in each lane.
    """
    config = evaluator.program.config
    if config.debug_mode or space.variant.single_use or space.variant.sharing is not None:
        return None
    if any(spec.part and spec.level == CONSTANT and spec.kind != "array" for spec in flat.specs):
        return None  # the parts of a complex constant number are not compared one by one
    rows = rows_of(flat, space, omitted, lanes)
    watched = watched_memory(flat, omitted)
    if any(array is None for array in watched) or not evaluator.watch(space, watched):
        return None
    environment = evaluator.program.environment
    captured = None if environment.empty else environment
    entry = Entry(space, [*rows, *more], outs, form, sweep, captured, turn)
    entry.follows_sizes = not config.fixed_sizes and not config.reuse_buffers and not evaluator.levels
    entry.has_room = evaluator.has_room
    return entry
