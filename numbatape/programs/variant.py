"""`Variant`: one trace of a function, with its plans; `VariantWorkspace`: cells for one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import Plan, Workspace, make_plan
from ..engine.placement import LINE_CELLS, Placement, placed_at, room_of
from ..engine.workspace import SharedCells
from ..errors import UnsupportedOperationError
from ..late import imported
from ..recording.recorded import Recording
from ..tape import Tape
from ..tape.tape import CONSTANT
from ..trace.constants import EXACT_INTEGER
from ..trace.shared_inputs import lie_in, memory_of
from .arguments import Flattened

if TYPE_CHECKING:
    from ..config import Config
    from ..derive.lanes import Lanes
    from ..engine.replan import Replanner
    from .counted_sizes import CountedSizes
    from .one_way import OneWay

LONG = 1 << 13  # cells of a workspace from which on a gradient may be computed in one sweep (`one_way`)
# Where no vector is worth strips, these are cells that do not fit into the second cache with their adjoints.
MANY = 1 << 16
MOST_PLANS = 512  # a variant keeps so many, for sizes that come again


class Variant:
    """One trace: the path that some inputs take, with its plans by input dimensions."""

    def __init__(self, recording: Recording, flat: Flattened, values: str = "fast", captured: Sequence = ()):
        self.recording = recording
        self.tape = recording.tape
        self.statics, self.orders = flat.statics, flat.orders
        self.dimensions = flat.dimensions  # the sizes at which it was traced
        # The contents of the constants where the tape holds for no others, else None.
        self.contents = constant_contents(flat) if recording.pinned else None
        self.memory = self._memory_of(flat)  # how arguments lie in it, where the tape holds for nothing else
        # Captured arrays that no argument may be, because the function writes to the one or to the other.
        self.apart = tuple(captured) if "shared" in recording.memory else recording.written
        if self._is_captured(flat):
            raise UnsupportedOperationError(
                "an argument has the memory of an array that the function captures, and to one of them it "
                "writes; pass a copy (x.copy()): a trace has copies of arguments"
            )
        self.outcomes = tuple(guard.outcome for guard in self.tape.guards)
        self.single_use = recording.failed
        self.effects = recording.effects
        self.factors: Any = None  # captured arrays of any contents, once something has asked (`steady_data`)
        self.counter = np.zeros(1, np.int64)  # steady calls add to it in compiled code
        self.counted: CountedSizes | None = None
        if recording.counted:
            counted_sizes = imported(".counted_sizes", __package__)
            self.counted = counted_sizes.CountedSizes(self.tape, recording.counted)
        self._values = values
        self._planned = False
        self._replanner: Replanner | None = None
        self._one_way: Any = None  # see `one_way`
        self._plans: dict[tuple, Plan | None] = {}
        self._allowed: dict[tuple, bool] = {}  # whether the tape's guards on sizes hold, by dimensions
        # The keys are numbers of lanes. The values are the first sizes and their plan, and later what plans
        # others; None where only `make_plan` can.
        self._lane_planners: dict[tuple[Lanes, ...], Any] = {}
        self._cells: dict[tuple, int] = {}  # what `cells_a_lane` has returned, by its arguments
        # The sizes for which cells were counted last, and where they are.
        self._placed: tuple[tuple, Placement] | None = None

    def share_plans(self, other: Variant) -> None:
        """Take the plans of an earlier trace if it recorded the same, for functions traced in every call."""
        if not (self.tape.calls or other.tape.calls) and self.records_the_same(other):
            self._plans, self._cells = other._plans, other._cells

    def records_the_same(self, other: Variant) -> bool:
        """Whether another trace has the same instructions and guards."""
        return self.tape.digest == other.tape.digest and self.tape.guards == other.tape.guards

    @property
    def is_more_than_sweeps(self) -> bool:
        """Whether a call traces the function, or repeats its side effects."""
        return self.single_use or self.effects is not None

    @property
    def hits(self) -> int:
        """The number of calls that took this path to its end."""
        return int(self.counter[0])

    def laned(
        self, dimensions: tuple, levels: tuple[Lanes, ...], widths: tuple[int, ...]
    ) -> tuple[Tape, tuple[int, ...]]:
        """Return (tape, its input dimensions) with lanes: one level around another."""
        tape, sizes = self.tape, dimensions
        for level, width in zip(levels, widths, strict=True):
            wide: list[int] = []
            rest = iter(sizes)
            for number, slot in enumerate(tape.inputs):
                wide += [width] if number in level.slots else []
                wide += [next(rest) for _ in slot.dims]
            tape, sizes = imported("..derive.lanes", __package__).lanes(tape, level, sizes), tuple(wide)
        return tape, sizes

    def output_like(self, number: int, flat: Flattened) -> np.ndarray:
        """Return zeros in the shape that an output has for some arguments, and in its dtype.

        The recorded value has the shape for the dimensions of the trace.
        """
        tape, dimensions = self.tape, self.sizes_for(flat)
        assert dimensions is not None
        rows = tape.sizes.evaluate(dimensions)
        codes = tape.layout_of(tape.outputs[number]).dims
        shape = tuple(code if code >= 0 else rows[-code - 1] for code in codes)
        return np.broadcast_to(np.zeros((), np.asarray(self.recording.values[number]).dtype), shape)

    def lane_plan(self, dimensions: tuple, levels: tuple[Lanes, ...], widths: tuple[int, ...]) -> Plan:
        """Return the plan for some sizes in which inputs have lanes."""
        key = (dimensions, levels, widths)
        if key not in self._plans:
            tape, sizes = self.laned(dimensions, levels, widths)
            known, self._placed = self._placed, None
            placed = known[1] if known is not None and known[0] == key else None
            planner = self._lane_planner(levels, dimensions)
            plan = None if planner is None else planner.plan(sizes)
            if plan is None:
                plan = make_plan(tape, sizes, self._values, placed)
                self._lane_planners.setdefault(levels, (dimensions, plan))
            self._plans[key] = plan
        plan = self._plans[key]
        assert plan is not None
        return plan

    def _lane_planner(self, levels: tuple[Lanes, ...], dimensions: tuple) -> Replanner | None:
        """Return what plans the tape with lanes for sizes other than the first ones; None for those.

        Its kernel is loaded when sizes change, and not for another number of lanes.
        """
        known = self._lane_planners.get(levels)
        if isinstance(known, tuple):
            first, plan = known
            if first == dimensions:
                return None
            known = imported("..engine.replan", __package__).Replanner.of(plan)
            self._lane_planners[levels] = known
        return known

    def cells_a_lane(self, dimensions: tuple, levels: tuple[Lanes, ...], inner: tuple[int, ...] = ()) -> int:
        """Return how many cells one lane more of the outermost level takes."""
        key = (dimensions, levels, inner)
        if key not in self._cells:
            # Arrays start on cache lines: below a line of lanes the difference would be rounding.
            widths = LINE_CELLS, 2 * LINE_CELLS
            few, many = (self.cells_with_lanes(dimensions, levels, (*inner, width)) for width in widths)
            self._cells[key] = max(1, (many - few) // LINE_CELLS)
        return self._cells[key]

    def cells_with_lanes(self, dimensions: tuple, levels: tuple[Lanes, ...], widths: tuple[int, ...]) -> int:
        """Return how many cells a workspace takes in which inputs have lanes."""
        tape, sizes = self.laned(dimensions, levels, widths)
        planner = self._lane_planner(levels, dimensions)
        cells = None if planner is None else planner.cells(sizes)
        if cells is None:
            placed = placed_at(tape, sizes)
            # The plan for these sizes is likely to follow.
            self._placed = (dimensions, levels, widths), placed
            cells = sum(placed[1])
        return cells

    def most_cells(self, dimensions: tuple) -> int:
        """Return how many cells all values take at some sizes, none of which shares another one's."""
        room = room_of(self.tape, np.array(self.tape.sizes.evaluate(dimensions), np.int64))
        return max(1, int(room.sum()))

    def plan(self, dimensions: tuple) -> Plan | None:
        """Return the plan for some sizes, or None where the trace relied on others."""
        if dimensions in self._plans:
            return self._plans[dimensions]
        if len(self._plans) >= MOST_PLANS:  # workspaces keep those that are in use
            self._plans.clear()
        plan = self._plans[dimensions] = self._made_plan(dimensions)
        return plan

    def _made_plan(self, dimensions: tuple) -> Plan | None:
        if self._replanner is not None:
            return self._replanner.plan(dimensions)
        if not self._allows(dimensions):
            return None
        plan = make_plan(self.tape, dimensions, self._values)
        if self._planned:  # sizes change
            self._replanner = imported("..engine.replan", __package__).Replanner.of(plan)
        self._planned = True
        return plan

    def _allows(self, dimensions: tuple) -> bool:
        """Whether the trace relied on nothing that other sizes break.

        Tapes with lanes are planned by themselves, so this makes no plan of the tape without lanes.
        """
        if dimensions in self._plans or self._replanner is not None:
            return self.plan(dimensions) is not None
        allowed = self._allowed.get(dimensions)
        if allowed is None:
            if len(self._allowed) >= MOST_PLANS:
                self._allowed.clear()
            sizes = self.tape.sizes
            try:
                allowed = sizes.broken_guard(sizes.evaluate(dimensions)) is None
            except ZeroDivisionError:
                allowed = False
            self._allowed[dimensions] = allowed
        return allowed

    def one_way(self, config: Config) -> OneWay:
        """Return how the gradient is computed in one sweep; ``config`` is always the program's."""
        if self._one_way is None:
            self._one_way = imported(".one_way", __package__).OneWay(self, config)
        return self._one_way

    def fits(self, flat: Flattened, contents) -> bool:
        """Whether this trace may hold for some arguments (guards on values aside)."""
        if (self.statics, self.orders) != (flat.statics, flat.orders):
            return False
        if self.contents is not None and self.contents != contents():
            return False
        if self.memory is not None and self.memory != self._memory_of(flat):
            return False
        if self._is_captured(flat):
            return False
        return self.sizes_for(flat) is not None

    def sizes_for(self, flat: Flattened) -> tuple[int, ...] | None:
        """Return the dimensions of all inputs to try for some arguments; None if it relied on others."""
        if self.counted is None:
            return flat.dimensions if self._allows(flat.dimensions) else None
        return self.counted.tried_for(flat.dimensions)

    def _is_captured(self, flat: Flattened) -> bool:
        """Whether an argument is a captured array that must not be one; functions see no directions."""
        if not self.apart:
            return False
        return lie_in([x for x, spec, _ in flat.traced() if spec.argument != flat.directions], self.apart)

    def _memory_of(self, flat: Flattened) -> tuple | None:
        return memory_of([value for value, _, _ in flat.traced()], self.recording.memory)


class VariantWorkspace(Workspace):
    """A workspace that knows what is loaded.

    Attributes
    ----------
    dimensions, widths
        Those of all inputs, without lanes, and the number of lanes of each level.
    inputs, gradients, all_inputs
        Cells of the arguments, and their adjoints; cells of all inputs of the tape.
    constants
        ``(leaf, bytes)`` of each constant in the cells; the bytes are None where the leaf's
        identity says enough.
    one_way
        Returns how gradients of this variant are computed in one sweep; None where gradients are not meant.
    """

    def __init__(
        self,
        plan: Plan,
        variant: Variant,
        adjoints: SharedCells | None = None,
        dimensions: tuple[int, ...] | None = None,
        widths: tuple[int, ...] = (),
    ):
        super().__init__(plan, adjoints)
        self.dimensions = plan.dimensions if dimensions is None else dimensions
        self.widths = widths
        self.variant = variant  # kept alive, so that no other variant gets its id
        self.all_inputs = self.inputs
        if variant.counted is not None:  # the last inputs are no arguments, but sizes that data decide
            given = len(self.inputs) - len(variant.counted.guards)
            self.inputs, self.gradients = self.inputs[:given], self.gradients[:given]
        self.constants: list[tuple[Any, bytes | None]] | None = None
        self.one_way: Callable[[], OneWay] | None = None
        self.lanes_stay = False  # whether the lanes hold fixed directions already
        # The steady call that this workspace serves; weakly, because that refers to the workspace.
        self.entry: Callable[[], Any] | None = None
        self.watched: tuple = ()  # what the frame refers to by address
        self.alive: tuple = ()
        self.checked: Any = None  # the cells of the last sweep with checks (``debug_mode``)

    @property
    def stopped_guard(self) -> int:
        """The number of the guard that stopped the sweep."""
        return int(self.plan.tape.code["aux"][self.stopped])

    def has_assumed(self) -> bool:
        """Whether the guard that stopped the sweep is on what a rule has assumed (`Recording.assumed`)."""
        assumed = self.variant.recording.assumed
        return bool(assumed) and self.stopped_guard in assumed

    def lacks_factor(self) -> bool:
        """Whether the sweep stopped at a guard because a matrix has no factor, unlike when it was traced."""
        attempts = self.variant.recording.attempts
        return (
            bool(attempts)
            and self.stopped_guard in attempts
            and bool(self.variant.outcomes[self.stopped_guard])
        )

    def refuting(self, refuted: frozenset[int]) -> frozenset[int]:
        """Return the guards to be refuted by the next trace: the kernel has no factor where NumPy has one.

        Raises
        ------
        numpy.linalg.LinAlgError
            If another trace does not help, or the function must not run twice.
        """
        guard = self.stopped_guard
        if guard in refuted or self.variant.recording.has_effects:
            line = self.plan.tape.line_of(self.stopped)
            raise np.linalg.LinAlgError(f"a matrix is singular within rounding (at {line})")
        return refuted | {guard}

    def retire_entry(self) -> None:
        """Let the steady call that this workspace serves refuse all calls."""
        entry = None if self.entry is None else self.entry()
        if entry is not None:
            entry.retire()

    def whole(self) -> Workspace:
        """Return a workspace of the same tape and inputs whose instructions run one after another."""
        return self

    def replanner(self) -> Any:
        """Return what plans further sizes for a workspace like this one; None where only `make_plan` does."""
        tape = self.plan.tape
        if tape is not self.variant.tape:
            return None
        replan = imported("..engine.replan", __package__)
        return replan.Replanner(self.plan) if replan.Replanner.serves(tape) else None

    def results(self) -> list[tuple[int, np.ndarray | None, bool]]:
        """Return what calls return: values of the tape, their views, and whether it is their adjoint."""
        tape = self.plan.tape
        slots = [(slot.value, view, True) for slot, view in zip(tape.inputs, self.gradients, strict=False)]
        values = [(value, view, False) for value, view in zip(tape.outputs, self.outputs, strict=True)]
        return [*slots, *values]

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
        self.retire_entry()  # its rows compare with the former constants
        self.prologue_done = False
        self.constants = None  # The constants count as unknown until all of them are in their cells.
        for cells, leaf, _ in constants:
            kind = np.asarray(leaf).dtype.kind
            if (
                kind in "iu"
                and np.size(leaf)
                and max(abs(int(np.max(leaf))), abs(int(np.min(leaf)))) > EXACT_INTEGER
            ):
                raise UnsupportedOperationError("an integer argument beyond 2**53 is not exact in a float64")
            cells[...] = leaf
        # Data that are compared by their contents may be large, and are not kept alive.
        self.constants = [
            (leaf, None) if by_identity else (None, np.asarray(leaf).tobytes())
            for _, leaf, by_identity in constants
        ]


def constant_contents(flat: Flattened) -> tuple:
    """Return the bytes of all constant leaves."""
    return tuple(np.asarray(leaf).tobytes() for leaf, spec, _ in flat.traced() if spec.level == CONSTANT)
