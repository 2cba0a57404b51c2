"""`Derived`: a function's derivatives in many directions, one or several at once, in lanes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..config import Config
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.evaluator import Evaluator
from ..programs.program import Program
from ..programs.variant import Variant, VariantWorkspace
from ..recording.recorded import Output
from ..steady_calls.argument_rows import direction_rows
from ..steady_calls.front import Front
from ..steady_calls.outs import Out
from ..tape.tape import ACTIVE
from ..trace import pytrees

# Value cells in lanes (8 MB): up to this size one wide sweep costs no more per lane than several narrow
# ones, and it can be served by a steady call.
LANE_CELLS = 1 << 20
WIDEST = 256


def _lanes(slots, fixed: bool):
    """Return lanes for some inputs; the file is imported with the first Jacobian or Hessian."""
    return imported("..derive.lanes", __package__).Lanes(frozenset(slots), fixed=fixed)


class Derived:
    """One derivative of a function (`numbatape.nested.recorded_derivatives`) and one thread's workspaces.

    Parameters
    ----------
    transform
        What is recorded in place of the function.
    lanes
        Whether the directions come as lanes: arrays with one more, leading dimension.
    of_first
        Whether the function returns ``(value, aux)``, of which the value is differentiated.
    **options
        What else the program is given.
    """

    def __init__(self, function, config: Config, transform, lanes: bool, of_first: bool = False, **options):
        recorded = imported("numbatape.nested.recorded_derivatives")
        self._transform = recorded.in_lanes(transform) if lanes else transform
        its = recorded.of_first_result(transform) if of_first else transform
        self.program = Program(function, config, recorded.in_lanes(its) if lanes else its, **options)
        self.lanes = lanes
        self._evaluators: dict[bool, Evaluator] = {}
        self.last: VariantWorkspace | None = None
        self.current: Flattened | None = None  # the arguments and directions of the last sweep

    def clone(self) -> Derived:
        """Return this derivative with workspaces of its own."""
        other = copy.copy(self)
        other._evaluators = {}
        other.current = other.last = None
        return other

    def extended(self, flat: Flattened, directions) -> Flattened:
        """Return the arguments followed by directions (without lanes).

        A direction in the memory of an argument is copied, since the function may write to the argument.
        """
        arrays = [leaf for leaf in flat.leaves if isinstance(leaf, np.ndarray)]
        apart = [d.copy() if any(np.may_share_memory(d, a) for a in arrays) else d for d in directions]
        args, kwargs = pytrees.unflatten(flat.outer, flat.marks)
        found = Flattened((*args, tuple(apart)), kwargs, flat.names, flat.holomorphic)
        found.directions = found.count - 1
        return found

    def slots(self, extended: Flattened) -> list[int]:
        """Return the numbers of the inputs that are directions."""
        its = extended.directions
        return [k for k, (_, spec, _) in enumerate(extended.traced()) if spec.argument == its]

    def evaluator(self, slots, fixed: bool = False) -> Evaluator:
        if fixed not in self._evaluators:
            levels = (_lanes(slots, fixed),) if self.lanes else ()
            self._evaluators[fixed] = Evaluator(self.program, levels)
        return self._evaluators[fixed]

    def replayed(self, extended: Flattened, primal: VariantWorkspace | None) -> Variant | None:
        """Return the trace for a call in which the function has run; None where it may run again.

        Parameters
        ----------
        primal
            A sweep of the function itself in this call, if there was one; with ``of_first`` of its value.
        """
        if primal is None or not primal.variant.is_more_than_sweeps:
            return None
        return self.program.replay(self._transform, extended, self.slots(extended), primal)

    def sweep(
        self, extended: Flattened, width: int = 0, fill=None, fixed: bool = False, traced=None
    ) -> VariantWorkspace:
        """Run the derivative.

        ``fill(views)`` writes the directions into their lanes; where they are ``fixed``, only once.
        ``traced`` is a trace that was made for this call.
        """
        slots = self.slots(extended)
        evaluator = self.evaluator(slots, fixed)
        self.current = extended
        if not self.lanes:
            return evaluator.forward(extended, traced=traced)
        return evaluator.forward(
            extended, (width,), lambda space: fill([space.inputs[k] for k in slots]), traced=traced
        )

    def along(self, flat: Flattened, directions, primal: VariantWorkspace | None = None) -> VariantWorkspace:
        """Run the derivative along one direction; ``primal`` is as in `columns`."""
        extended = self.extended(flat, directions)
        return self.sweep(extended, traced=self.replayed(extended, primal))

    def again(self, space: VariantWorkspace, extended: Flattened, fill) -> None:
        """Run once more at the same arguments, for other directions."""
        fill([space.inputs[k] for k in self.slots(extended)])
        space.forward_lanes()
        if self.program.config.debug_mode:
            imported("..programs.debug", __package__).checked_forward(space)

    def columns(
        self, flat: Flattened, samples, visit: Callable, chunk: int | None, primal=None, seeds=None
    ) -> VariantWorkspace:
        """Run along many directions, chunk by chunk.

        Parameters
        ----------
        samples
            One array per direction leaf, for its shape and dtype.
        visit
            Called as ``visit(space, first, count)`` after each chunk: directions ``first`` to
            ``first + count - 1`` are in the first ``count`` lanes.
        primal
            A sweep of the function itself in this call, if there was one.
        seeds
            The directions; all unit ones (of all leaves' entries, in order) if None. They must be the
            same in every call.

        Returns
        -------
        VariantWorkspace
            The workspace, which holds what does not depend on the directions.
        """
        extended = self.extended(flat, samples)
        if seeds is None:
            seeds = UnitSeeds([int(np.size(sample)) for sample in samples])
        total = seeds.total
        traced = self.replayed(extended, primal)
        if chunk is None:
            chunk, traced = self.preferred_width(extended, total, traced)
        width = chunk_width(total, chunk)
        # If one sweep is enough the lanes hold all directions, and may stay.
        whole = width >= total
        space = self.sweep(extended, width, lambda views: seeds.write(views, 0), whole, traced)
        self.last = space if whole else None
        visit(space, 0, min(width, total))
        for first in range(width, total, width):
            self.again(space, extended, lambda views, first=first: seeds.write(views, first))
            visit(space, first, min(width, total - first))
        return space

    def teach(
        self,
        front: Front,
        space: VariantWorkspace,
        result,
        outs: list[Out],
        omitted: frozenset[int] | None,
        directions: Sequence | None = None,
    ) -> None:
        """Let calls like the last one be served by a steady call.

        Parameters
        ----------
        front
            What learns it.
        result, outs
            What the call returned, and how each leaf of that is made.
        omitted
            The function's arguments that the call left out.
        directions
            Those that the call was given, one tree per argument; None where they stay in their lanes.
        """
        extended = self.current
        if omitted is None or extended is None:
            return
        slots = self.slots(extended)
        fixed = self.lanes and directions is None
        trees = () if directions is None else tuple(directions)
        rows = [] if directions is None else direction_rows(space, slots, trees)
        if rows is None:
            return
        evaluator = self.evaluator(slots, fixed)
        left_out = omitted | {extended.count - 1}
        front.learn(extended, evaluator, space, result, outs, "forward", left_out, trees, rows)

    def preferred_width(
        self, extended: Flattened, total: int, traced: Variant | None = None
    ) -> tuple[int, Variant | None]:
        """Return how many lanes fit into a core's cache, for arguments of these sizes; not more than needed.

        Parameters
        ----------
        total
            How many directions there are.
        traced
            A trace that was made for this call.

        Returns
        -------
        lanes : int
            The number of lanes.
        traced : Variant, optional
            The trace that was made in order to know this, for these arguments.
        """
        if traced is None:
            self.program.refresh()
            variant, fresh = self.program.find_or_trace(extended)
            traced = variant if fresh else None
        else:
            variant = traced
        return self._lanes_of(variant, extended, total), traced

    def _lanes_of(self, variant: Variant, extended: Flattened, total: int) -> int:
        slots, dimensions = self.slots(extended), variant.sizes_for(extended)
        assert dimensions is not None
        if total <= min(WIDEST, LANE_CELLS // (2 * variant.most_cells(dimensions))):
            return total  # a bound on the cells of a lane is enough to know this
        lanes = (_lanes(slots, True),)
        if total <= WIDEST and variant.cells_with_lanes(dimensions, lanes, (total,)) <= LANE_CELLS:
            return total
        return max(1, min(WIDEST, LANE_CELLS // variant.cells_a_lane(dimensions, lanes)))


class UnitSeeds:
    """All unit directions of leaves of the given sizes."""

    def __init__(self, sizes: list[int]):
        self.sizes = sizes
        self.total = sum(sizes)

    def write(self, views, first: int) -> None:
        """Write directions ``first``, ``first + 1``, ... into the lanes of the directions' cells."""
        start = 0
        for view, size in zip(views, self.sizes, strict=True):
            view[...] = 0.0
            low, high = max(first, start), min(first + len(view), start + size)
            if low < high:
                lanes = np.arange(low - first, high - first)
                entries = np.arange(low - start, high - start)
                view[(lanes, *(np.unravel_index(entries, view.shape[1:]) if view.ndim > 1 else ()))] = 1.0
            start += size


def chunk_width(total: int, preferred: int) -> int:
    """Return the lanes of a chunk: of as few chunks as possible, whose widths are as even as possible."""
    chunks = max(1, math.ceil(total / max(1, preferred)))
    return max(1, math.ceil(total / chunks))


def active_leaves(flat: Flattened) -> list[tuple]:
    """Return ``(leaf, spec)`` of what is differentiated."""
    return [(leaf, spec) for leaf, spec, _ in flat.traced() if spec.level == ACTIVE]


def outputs_of(space: VariantWorkspace, part) -> list[np.ndarray]:
    """Return views of the outputs in a part of the recorded result, zeros for the rest."""
    views = []
    for leaf in pytrees.leaves(part):
        if leaf.__class__ is Output:
            views.append(space.outputs[leaf.number])
        else:
            views.append(np.asarray(leaf))
    return views
