"""`Program`: a function's traces, shared by the clones of a cache. `Evaluator`: one clone's half."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import threads
from ..config import Config
from ..engine import Plan, Workspace, make_plan
from ..engine.frame import WORD
from ..engine.lanes import Lanes, with_lanes
from ..engine.placement import LINE_CELLS, placed_cells
from ..errors import UnsupportedOperationError
from ..ops import status
from ..tape import Tape
from ..tape.tape import CONSTANT
from ..trace import randomness
from ..trace.capture import Environment
from ..trace.record import Recording, record
from ..trace.sharing import sharing
from ..trace.trace import EXACT_INTEGER
from ..trace.warn import warn_of
from . import debug
from .arguments import STATIC, Flattened
from .failures import failure


class Variant:
    """One trace: the path that some inputs take, with its plans by input dimensions."""

    def __init__(self, recording: Recording, flat: Flattened, values: str = "fast"):
        self.recording = recording
        self.tape = recording.tape
        self.statics = flat.statics
        # The contents of the constants where the tape holds for no others, else None.
        self.contents = constant_contents(flat) if recording.pinned else None
        # Which arguments share memory, where one of several is written to.
        self.sharing = sharing_of(flat) if recording.writes_inputs and len(flat.traced()) > 1 else None
        self.outcomes = tuple(guard.outcome for guard in self.tape.guards)
        self.single_use = recording.failed
        self.counter = np.zeros(1, np.int64)  # steady calls add to it in compiled code
        self._values = values
        self._plans: dict[tuple, Plan | None] = {}
        self._laned: dict[tuple[Lanes, ...], Tape] = {}
        self._cells: dict[tuple, int] = {}  # by lane, see `cells_a_lane`

    def share_plans(self, other: Variant) -> None:
        """Take the plans of a trace that recorded the same: of a function that is traced in every call."""
        ours, theirs = self.tape, other.tape
        if ours.calls or theirs.calls or ours.digest != theirs.digest or ours.guards != theirs.guards:
            return
        places = [[(each.storage, each.offset) for each in tape.literals] for tape in (ours, theirs)]
        if places[0] == places[1]:
            self._plans, self._laned, self._cells = other._plans, other._laned, other._cells

    @property
    def hits(self) -> int:
        """The number of calls that took this path to its end."""
        return int(self.counter[0])

    def laned(
        self, dimensions: tuple, levels: tuple[Lanes, ...], widths: tuple[int, ...]
    ) -> tuple[Tape, tuple[int, ...]]:
        """Return (tape, its input dimensions) with lanes: one level around another."""
        tape, sizes = self.tape, dimensions
        for k, (level, width) in enumerate(zip(levels, widths, strict=True), 1):
            wide: list[int] = []
            rest = iter(sizes)
            for number, slot in enumerate(tape.inputs):
                wide += [width] if number in level.slots else []
                wide += [next(rest) for _ in slot.dims]
            if levels[:k] not in self._laned:
                self._laned[levels[:k]] = with_lanes(tape, level, sizes)
            tape, sizes = self._laned[levels[:k]], tuple(wide)
        return tape, sizes

    def lane_plan(self, dimensions: tuple, levels: tuple[Lanes, ...], widths: tuple[int, ...]) -> Plan:
        """Return the plan for some sizes in which inputs have lanes."""
        key = (dimensions, levels, widths)
        if key not in self._plans:
            tape, sizes = self.laned(dimensions, levels, widths)
            self._plans[key] = make_plan(tape, sizes, self._values)
        plan = self._plans[key]
        assert plan is not None
        return plan

    def cells_a_lane(self, dimensions: tuple, levels: tuple[Lanes, ...], inner: tuple[int, ...] = ()) -> int:
        """Return how many cells one lane more of the outermost level takes."""
        key = (dimensions, levels, inner)
        if key not in self._cells:
            # Arrays start on cache lines: what less than a line of lanes takes would be rounding.
            widths = LINE_CELLS, 2 * LINE_CELLS
            few, many = (placed_cells(*self.laned(dimensions, levels, (*inner, width))) for width in widths)
            self._cells[key] = max(1, (many - few) // LINE_CELLS)
        return self._cells[key]

    def plan(self, dimensions: tuple) -> Plan | None:
        """Return the plan for some sizes, or None where the trace relied on others."""
        if dimensions not in self._plans:
            sizes = self.tape.sizes
            try:
                broken = sizes.broken_guard(sizes.evaluate(dimensions)) is not None
            except ZeroDivisionError:
                broken = True
            self._plans[dimensions] = None if broken else make_plan(self.tape, dimensions, self._values)
        return self._plans[dimensions]

    def fits(self, flat: Flattened, contents) -> bool:
        """Whether this trace may hold for some arguments (guards on values aside)."""
        if self.statics != flat.statics or (self.contents is not None and self.contents != contents()):
            return False
        if self.sharing is not None and self.sharing != sharing_of(flat):
            return False
        return self.plan(flat.dimensions) is not None


class VariantWorkspace(Workspace):
    """A workspace that knows what is loaded.

    Attributes
    ----------
    constants
        ``(leaf, bytes)`` of each constant in the cells; the bytes are None where the leaf's
        identity says enough.
    """

    def __init__(self, plan: Plan, variant: Variant):
        super().__init__(plan)
        self.variant = variant  # alive as long as this is, so that its id stays its own
        self.constants: list[tuple[Any, bytes | None]] | None = None
        self.lanes_stay = False  # whether lanes were filled, for good
        self.entry: Any = None  # the steady call that this workspace serves
        self.watched: tuple = ()  # what the frame refers to by address
        self.alive: tuple = ()
        self.checked: Any = None  # the cells of the last sweep with checks (``debug_mode``)

    def load(self, flat: Flattened, skip: frozenset[int] = frozenset()) -> None:
        """Copy the arguments into their cells; constants only where they differ, lanes not at all."""
        constants = []
        rows = zip(self.inputs, flat.traced(), strict=True)
        for number, (cells, (leaf, spec, by_identity)) in enumerate(rows):
            if number in skip:
                continue
            if spec.level == CONSTANT:
                constants.append((cells, leaf, by_identity))
            else:
                cells[...] = leaf
        if self.constants is None:
            self._load_constants(constants)
            return
        for (_, leaf, by_identity), (kept, contents) in zip(constants, self.constants, strict=True):
            same = leaf is kept if by_identity else contents == np.asarray(leaf).tobytes()
            if not same:
                self._load_constants(constants)
                return

    def _load_constants(self, constants) -> None:
        if self.entry is not None:
            self.entry.retire()  # it would compute with these constants and compare with others
        self.prologue_done = False
        self.constants = None  # until all are in place
        for cells, leaf, _ in constants:
            kind = np.asarray(leaf).dtype.kind
            if (
                kind in "iu"
                and np.size(leaf)
                and max(abs(int(np.max(leaf))), abs(int(np.min(leaf)))) > EXACT_INTEGER
            ):
                raise UnsupportedOperationError("an integer argument beyond 2**53 is not exact in a float64")
            cells[...] = leaf
        self.constants = [
            (leaf, None if by_identity else np.asarray(leaf).tobytes()) for _, leaf, by_identity in constants
        ]


@dataclass(frozen=True)
class Stop:
    """A guard that said something else than in its variant."""

    variant: Variant
    at: int  # number of the guard
    seen: float
    in_prologue: bool  # guards of the main part before it have not been asked yet

    @classmethod
    def of(cls, space: VariantWorkspace) -> Stop:
        tape = space.plan.tape
        at = int(tape.code["aux"][space.stopped])
        value = space.guard_value(space.stopped)
        seen = {"float": float, "int": int, "bool": bool}[tape.guards[at].kind](value)
        return cls(space.variant, at, seen, space.stopped < tape.prologue)

    def allows(self, other: Variant) -> bool:
        """Whether the inputs may take another variant's path."""
        if other.outcomes[: self.at] != self.variant.outcomes[: self.at]:
            return self.in_prologue
        return other.outcomes[self.at : self.at + 1] == (self.seen,)


class Program:
    """All traces of one function for one signature of arguments."""

    def __init__(self, function, config: Config, transform=None):
        self.function = function
        self.transform = transform  # what is traced is transform(function), a derivative of it
        self.config = config
        self.variants: OrderedDict[int, Variant] = OrderedDict()
        self.traces = 0
        self._data_integers = True  # whether Python ints are tried as data, see `record`
        self._once: Variant | None = None  # the last trace that served one call
        self._captures = False  # whether captured arrays take part, likewise
        self.version = 0  # counts the times that captured values changed
        self.environment = Environment(function)
        self._lock = threads.survives_fork(threading.RLock())

    def refresh(self) -> bool:
        """Forget all traces if a captured value is no longer what it was; return whether that is so."""
        changed = self.environment.rebound() or self.environment.rewritten()
        if changed:
            with self._lock:
                self.variants.clear()
                self.environment = Environment(self.function)
                self.version += 1
        return changed

    def trace(self, flat: Flattened) -> Variant:
        """Run the function on traced arguments and keep the tape."""
        with self._lock:
            for value, spec in zip(flat.leaves, flat.specs, strict=True):
                if spec.level == STATIC:
                    self.environment.add(value)
            before = self.environment.generator_states()
            passes, strong = self.config.passes == "all", self.config.strong_zero
            data_integers = self._data_integers and not self.environment.tests_identity
            choices = self.transform, passes, strong, data_integers, self.environment
            recording = record(
                self.function, flat.inputs(), flat.rebuild, *choices, self.config.values, self._captures
            )
            self._data_integers, self._captures = recording.data_integers, recording.captures
            if self.environment.generator_states() != before:
                raise randomness.error("a random generator that it holds or is given")
            self.traces += 1
            variant = Variant(recording, flat, self.config.values)
            outside = (*self.environment.opaque, *recording.outside)
            warn_of(outside)
            # What a function changes it has to change in every call, also where it starts from the same.
            changes = recording.kept or self.environment.rebound() or self.environment.rewritten()
            variant.single_use = variant.single_use or changes or bool(outside)
            if variant.single_use:
                if self._once is not None:
                    variant.share_plans(self._once)
                self._once = variant
            if not variant.single_use:
                self.variants[id(variant)] = variant
                while len(self.variants) > self.config.max_variants:
                    self.variants.popitem(last=False)
            return variant

    def find(self, flat: Flattened, stop: Stop | None = None, tried=()) -> Variant | None:
        """Return a trace that fits, and is not known to part from the inputs' path."""
        known: list[tuple] = []

        def contents() -> tuple:
            if not known:
                known.append(constant_contents(flat))
            return known[0]

        with self._lock:
            for variant in reversed(self.variants.values()):
                if id(variant) in tried or (stop is not None and not stop.allows(variant)):
                    continue
                if variant.fits(flat, contents):
                    self.variants.move_to_end(id(variant))
                    return variant
        return None

    def snapshot(self) -> list[Variant]:
        """Return the variants there are."""
        with self._lock:
            return list(self.variants.values())


def constant_contents(flat: Flattened) -> tuple:
    """Return the bytes of all constant leaves."""
    return tuple(np.asarray(leaf).tobytes() for leaf, spec, _ in flat.traced() if spec.level == CONSTANT)


def sharing_of(flat: Flattened) -> tuple:
    """Return which traced leaves share memory."""
    return sharing(value for value, _, _ in flat.traced())


class Evaluator:
    """One thread's workspaces for a program.

    Parameters
    ----------
    levels
        Which inputs have lanes, as a leading dimension; of several levels, the last is the outermost.
    """

    def __init__(self, program: Program, levels: tuple[Lanes, ...] = ()):
        self.program = program
        self.levels = levels
        self.lanes = frozenset().union(*(level.slots for level in levels))
        self._workspaces: OrderedDict[tuple, VariantWorkspace] = OrderedDict()
        self._last: dict[tuple, Variant] = {}

    def workspace(self, variant: Variant, dimensions: tuple, widths: tuple = ()) -> VariantWorkspace:
        """Return the workspace of a variant for some sizes, with so many lanes a level."""
        key = (id(variant), dimensions, widths)
        found = self._workspaces.get(key)
        if found is None:
            if self.levels:
                plan: Plan | None = variant.lane_plan(dimensions, self.levels, widths)
            else:
                plan = variant.plan(dimensions)
            assert plan is not None
            found = self._workspaces[key] = VariantWorkspace(plan, variant)
            self._trim()
        else:
            self._workspaces.move_to_end(key)
        return found

    def _trim(self) -> None:
        config = self.program.config
        limit = config.max_bytes
        while len(self._workspaces) > 1 and (
            len(self._workspaces) > config.max_variants
            or (limit is not None and sum(w.nbytes for w in self._workspaces.values()) > limit)
        ):
            _, dropped = self._workspaces.popitem(last=False)
            if dropped.entry is not None:
                dropped.entry.retire()

    def forward(
        self, flat: Flattened, widths: tuple = (), fill=None, checks: bool = True
    ) -> VariantWorkspace:
        """Run the forward sweep of the trace that fits; trace the function if none does.

        Parameters
        ----------
        widths, fill
            The number of lanes of each level, and a function that writes them into a workspace; the
            leaves of inputs with lanes stand for their shapes.
        checks
            Whether ``Config(debug_mode=True)`` checks the sweep: not while a cache is prepared.

        Raises
        ------
        IndexError, numpy.linalg.LinAlgError
            As NumPy would, with the source line.
        """
        program = self.program
        program.refresh()
        key = (flat.statics, flat.dimensions, program.version)
        variant = self._last.get(key)
        if variant is None or variant.contents is not None or variant.sharing is not None:
            variant = program.find(flat)
        tried: set[int] = set()
        fresh = False
        while True:
            if variant is None:
                variant, fresh = program.trace(flat), True
            tried.add(id(variant))
            space = self.workspace(variant, flat.dimensions, widths)
            space.load(flat, self.lanes)
            if fill is not None and not space.lanes_stay:
                fill(space)
                space.lanes_stay = any(level.fixed for level in self.levels)
            try:
                outcome = space.forward()
                while outcome == status.GUARD and fresh:
                    outcome = space.accept_guard()
            except Exception as error:  # of a rule that the user has written
                variant, fresh = self._after_failure(space, flat, error, fresh), True
                continue
            if outcome == status.GUARD:
                variant = program.find(flat, Stop.of(space), tried)
                continue
            if outcome != status.DONE:
                variant = self._after_failure(space, flat, failure(space, outcome), fresh)
                fresh = True
                continue
            if program.config.debug_mode and checks:
                debug.checked_forward(space)
            variant.counter[0] += 1
            if variant.single_use:
                return space
            if len(self._last) > 4 * program.config.max_variants:
                self._last.clear()
            self._last[key] = variant
            return space

    def _after_failure(self, space, flat: Flattened, error: Exception, fresh: bool) -> Variant:
        """Run the function itself where its tape failed: it may catch what NumPy raises there."""
        if fresh:
            raise error
        try:
            return self.program.trace(flat)
        except type(error) as its:
            raise error from its

    def watch(self, space: VariantWorkspace, arrays) -> bool:
        """Let the sweep's kernel compare captured arrays, and some others; False where it cannot."""
        watched = [*self.program.environment.arrays, *((array, array.copy()) for array in arrays)]
        if not all(array.flags.c_contiguous for array, _ in watched):
            return False
        rows = [(a.ctypes.data, c.ctypes.data, a.nbytes) for a, c in watched]
        space.watched = watched, np.array(rows or [(0, 0, 0)], np.int64)  # read by address
        space.frame[WORD["WATCH"]] = space.watched[1].ctypes.data
        space.frame[WORD["WATCH_COUNT"]] = len(rows)
        return True
