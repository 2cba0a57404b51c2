"""`Entry`: what serves calls with specs and sizes that one workspace knows.

It has rows that say what each leaf of the arguments must be and where it goes, a sweep, and outs that say
how the results are made. The builtin of `numbatape.jit.steady` serves it in 0.5 µs around the sweeps, its own
method `serve` in some 2 µs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import jit
from ..engine import kernels
from ..engine.frame import WORD
from ..jit import address
from ..late import imported
from ..programs.variant import VariantWorkspace
from ..threads import Turn
from .leaf_rows import FrozenRow, KnownNumberRow
from .outs import Out, in_form

if TYPE_CHECKING:
    from ..caches.lane_calls import LaneEntry
    from ..capture.captured import Captured
    from ..engine.workspace import SharedCells
    from ..recording.recorded import Factor
    from .leading import Leading
    from .steady import SteadyCalls
    from .steady_strips import SteadyStrips

OBJECT, ROW_COUNT = jit.steady.ROW.index("object"), jit.steady.WORDS.index("row_count")
STOPPED = WORD["STOPPED"]
SEVERAL = 4  # constants that have changed so often are others in each call
REFUSED = object()  # what an entry returns for leaves that it cannot serve


def refuse(*leaves):
    """Serve nothing."""
    return REFUSED


def nobody() -> None:
    """Return no owner."""


class Served:
    """What serves calls of some sizes, one at a time.

    Attributes
    ----------
    owner
        Returns whose entry it is, None if it is nobody's: a weak reference, because the owner holds it.
    """

    turn: Turn
    rows: list[Any]
    owner: Callable[[], Any] = staticmethod(nobody)
    key: tuple = ()  # by which its owner finds it
    counted: Any = None  # what knows the sizes that data decide in its trace (`CountedSizes`)
    _retired: bool

    def belongs_to(self, owner: SteadyCalls | LaneEntry | None) -> None:
        """Take an owner, who hears when the entry is retired; None for nobody."""
        self.owner = nobody if owner is None else weakref.ref(owner)

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
        rows: list[Any],
        outs: list[Out],
        form: int,
        sweep: str,
        captured: Captured | None,
        turn: Turn,
    ):
        if form == jit.steady.PAIR and all(out.kind == jit.steady.FIXED for out in outs[1:]):
            # These results are the same objects in every call, so one tuple of them serves all calls.
            others = tuple(out.source for out in outs[1:])
            outs, form = [outs[0], Out(jit.steady.FIXED, others)], jit.steady.TUPLE
        self.space, self.rows, self.outs, self.form = space, rows, outs, form
        self.is_gradient = sweep == "gradient"
        self.sweep, self.captured, self.turn = space.entry_point(sweep), captured, turn
        self.rebound = None if captured is None else captured.rebound
        self.counted = space.variant.counted
        # Arrays that have no rows, which products may read where they are: constants with their cells, and
        # captured ones.
        self.omitted: list[tuple[np.ndarray, np.ndarray]] = []
        self.factors: Sequence[Factor] = ()
        self.values: SharedCells | None = None  # what sweeps of many sizes may compute with
        self.follows_sizes = False  # whether an `ElasticEntry` may be made of it
        self.has_room: Callable = bool  # whether workspaces for further sizes may be kept
        self._data = [(k, row) for k, row in enumerate(rows) if hasattr(row, "changed")]
        self._frozen = [k for k, row in self._data if row.__class__ is FrozenRow]
        given = space, np.zeros(1), _stopped, space.variant.counter
        self._run, self._alive = kernels.call_of(self.sweep, *given)
        self._natives: list[tuple] = []  # (words, rows) of the builtins there are
        self._retired = False
        self._stale = False  # whether the cells hold no prologue of the rows' constants
        self._reloads, self.follows_constants = 0, False  # how often constants changed; if calls copy them
        # How much is noted of what is captured, all of which its builtins compare.
        noted = () if captured is None else vars(captured).values()
        self.noted = sum(len(each) for each in noted if isinstance(each, (list, dict, set)))
        # How often another entry has served what this one stopped at, by stops.
        self.missed: dict[tuple, int] = {}
        # These end that calls of other entries go on in this one's workspace
        # (`numbatape.steady_calls.continuing`).
        self._entered: list[Callable[[], None]] = []

    @property
    def is_current(self) -> bool:
        """Whether its workspace serves it, and holds the prologue of its constants."""
        return not (self._retired or self._stale)

    @property
    def has_data(self) -> bool:
        """Whether arguments that are constants, or captured arrays, may be others in a later call."""
        return bool(self._data or self.omitted or self.factors) or self.follows_constants

    @functools.cached_property
    def builtin(self):
        """The builtin that returns `REFUSED` for what it cannot serve, None if there is none."""
        return self.native(refuse)

    @functools.cached_property
    def stops(self) -> tuple:
        """Where its sweeps stop."""
        return imported(".paths", __package__).stops_of(self)

    @functools.cached_property
    def _strips(self) -> SteadyStrips | None:
        """What calls read and make in place of cells, where value and gradient run strip by strip."""
        strips = self.space.plan.strips
        if not self.is_gradient or strips is None or not strips.extents:
            return None  # what others leave in the cells may be read by later sweeps
        given = self.space, self.rows, self.outs, self.leading
        return imported(".steady_strips", __package__).SteadyStrips(*given)

    @functools.cached_property
    def in_place(self) -> Any:
        """What calls read in place of the cells of constants, None where there is nothing."""
        if not self.has_data:
            return None
        return imported(".steady_data", __package__).data_of(self, self._strips)

    @property
    def frame(self) -> np.ndarray:
        """The frame of its builtins."""
        return (self.in_place or self._strips or self.space).frame

    @functools.cached_property
    def leading(self) -> Leading | None:
        """The guards that its calls ask first, None where there are none."""
        has_any = self.space.plan.tape.guards
        return imported(".leading", __package__).leading_of(self) if has_any else None

    def native(self, fallback: Callable, others: np.ndarray | None = None):
        """Return a builtin that hands what it cannot serve to ``fallback``; None if there is none.

        Those that ``others`` tells of serve leaves of other sizes before.
        """
        if self.space.segments is not None or self.space.variant.effects is not None:
            return None  # Python runs between the sweeps, or behind them
        alive: list = []
        rows = [row.native(alive) for row in self.rows]
        if any(row is None for row in rows):
            return None
        entered = kernels.entry_words(self.space, self.sweep)
        its_outs = self.outs if self._strips is None else self._strips.outs
        for part in filter(None, (self._strips, self.in_place)):
            rows, entered["frame"] = part.rows(rows), address(part.frame)
        outs, kept = [out.native() for out in its_outs], ()
        if fallback is refuse and self.values is not None:
            shared = imported(".steady_values", __package__).shared_values(self, rows, outs)
            if shared is not None:
                rows, outs, kept = shared.rows, shared.outs, shared.kept
                entered["frame"] = address(shared.frame)
                alive.append(shared)
        if self.leading is not None:
            entered |= self.leading.words(rows, self.frame, alive)
        alive += [self.space, self.rows, self._strips, self.in_place, its_outs]
        alive += [out.source for out in its_outs]
        made = kernels.steady_call(
            *(entered, fallback, rows, outs, self.form),
            *(self.rebound, self.watch_rows(alive), self.turn, self.space.variant.counter, alive),
            *(others, *kept),
        )
        if made is None:
            return None
        builtin, words, table, _ = made
        self.attend(words, table)
        if self.leading is not None:
            self.leading.attend(words, table)
        return builtin

    def attend(self, words: np.ndarray, rows: np.ndarray) -> None:
        """Keep the tables of a builtin that computes with this entry's constants as they have to be."""
        self._natives.append((words, rows))
        if self._stale:
            self._set_stale(True)

    def watch_rows(self, alive: list) -> list[dict] | None:
        """Return the rows by which a builtin checks what is captured; add to ``alive`` what they refer to."""
        return [] if self.captured is None else self.captured.watch_rows(alive)

    def serve(self, leaves: Sequence):
        """Do what `Served.serve` does; where only constants changed, the builtin serves once they are taken.

        The builtin takes its turn itself and compares the constants again, as another thread may have come
        first.
        """
        if self._data and not self._retired and self.builtin is not None and self._took(leaves):
            result = self.builtin(*leaves)
            if result is not REFUSED:
                return result
        return super().serve(leaves)

    def _took(self, leaves: Sequence) -> bool:
        """Compute with a call's constants from now on; return False if none changed, or some do not fit."""
        if self.turn.busy or len(leaves) != len(self.rows):
            return False
        if self._frozen or self.space.calls is not None:
            return False
        self.turn.busy = True
        try:
            changed = []
            for k, row in self._data:
                leaf = leaves[k]
                if leaf is row.known and not self._stale:
                    continue
                if not row.fits(leaf):
                    return False
                if self._stale or row.is_other(leaf):
                    changed.append((row, leaf))
            return bool(changed) and self._reload(changed)
        finally:
            self.turn.busy = False

    def serve_in_turn(self, leaves: Sequence):
        """Do what `serve` does, for who has the turn."""
        if self.rebound is not None and self.rebound():
            return REFUSED
        return self.serve_as_bound(leaves)

    def serve_as_bound(self, leaves: Sequence):
        """Do what `serve_in_turn` does, where names are known to be bound to what they were bound to."""
        if not self.accepts(leaves):
            return REFUSED
        is_long = self.space.segments is not None
        strips = self._strips if is_long else None
        if is_long and self.leading is not None and self.leading.stop(self.rows, leaves):
            return self._refuse_there()
        if strips is None:
            for row, leaf in zip(self.rows, leaves, strict=True):
                row.write(leaf)
        if not (self.swept() if strips is None else strips.sweep_with(self.rows, leaves, self.swept)):
            return self._refuse_there()
        if self.space.variant.effects is not None:
            self.space.variant.effects.replay(self.space.outputs)
        return in_form(self.form, [out.make() for out in (self.outs if strips is None else strips.outs)])

    def _refuse_there(self):
        """Refuse a call, and note for those who ask where its sweep has stopped."""
        self.frame[STOPPED] = self.space.stopped
        return REFUSED

    def accepts(self, leaves: Sequence) -> bool:
        """Whether this entry is for such leaves, whose constants it computes with from now on."""
        if not all(row.fits(leaf) for row, leaf in zip(self.rows, leaves, strict=True)):
            return False
        others = [k for k in self._frozen if leaves[k] is not self.rows[k].known]
        if others:
            self.put({k: self.rows[k].compared() for k in others})
        changed = [(row, leaves[k]) for k, row in self._data if self._stale or row.changed(leaves[k])]
        return not changed or self._reload(changed)

    def put(self, found: dict[int, Any]) -> None:
        """Serve calls by other rows from now on, given by their numbers."""
        self.rows = [found.get(k, row) for k, row in enumerate(self.rows)]
        self._data = [(k, self.rows[k]) for k, _ in self._data if hasattr(self.rows[k], "changed")]
        self._frozen = [k for k in self._frozen if k not in found]
        self.part()
        for words, _ in self._natives:
            words[ROW_COUNT] = -1
        self._natives.clear()
        self.__dict__.pop("builtin", None)
        if (owner := self.owner()) is not None:
            owner.renew(self)

    def is_entered_by(self, end: Callable[[], None]) -> None:
        """Note that calls of another entry go on in this one's workspace, and what ends that."""
        self._entered.append(end)

    def part(self) -> None:
        """Let no call go on in another entry's workspace, and none of another entry in this one's."""
        if self.space.continued is not None:
            self.space.continued.clear()
            self.space.continued = None
        while self._entered:
            self._entered.pop()()

    def swept(self) -> bool:
        """Sweep; return whether the sweep has come to its end."""
        return self._run() is not None

    def _reload(self, changed) -> bool:
        """Compute with other constants from now on; return False if the tape holds for no others."""
        space = self.space
        if space.variant.contents is not None:
            return False
        self.part()
        space.constants = None  # the cells no longer hold what the general call loaded
        space.prologue_done = False
        self._set_stale(True)  # If a guard or an error stops the prologue, the entry stays marked as stale.
        for row, leaf in changed:
            row.take(leaf)
        for k, row in self._data:
            if row.__class__ is KnownNumberRow:  # the builtins know numbers by identity
                for _, rows in self._natives:
                    rows[k, OBJECT] = id(row.known)
        try:
            self._set_stale(space.run_prologue() != 0)
        except Exception:
            # A rule may raise anything. The general call runs it again, where the function may catch that.
            return False
        self._reloads += 1
        if self._reloads == SEVERAL and not self._stale:
            imported(".following", __package__).let_constants_follow(self)
        return not self._stale

    def _set_stale(self, stale: bool) -> None:
        """Let the builtins serve nothing while the prologue of their constants is not computed."""
        self._stale = stale
        for words, _ in self._natives:
            words[ROW_COUNT] = -1 if stale else len(self.rows)

    def occupy(self) -> None:
        """Take the workspace from the entry that it served before."""
        self.space.retire_entry()
        self.part()
        self.space.entry = weakref.ref(self)

    def leave(self) -> None:
        """Let the workspace serve no entry."""
        self.space.entry = None

    def retire(self) -> None:
        """Refuse all calls from now on, because the workspace is put to another use.

        Another thread may have looked up the builtin and not called it yet; no call has -1 leaves, so the
        builtin refuses it.
        """
        self._retired = True
        self.part()
        for words, _ in self._natives:
            words[ROW_COUNT] = -1
        if (owner := self.owner()) is not None:
            owner.drop(self)


def _stopped() -> None:
    """The sweep stopped: at a guard, at a constant that changed, or at an error."""
