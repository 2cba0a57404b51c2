"""`Batch`: a function at many points, a lane a point.

Points that part at a branch are swept apart: those for which a variant's guards hold, then the others
with the variant of their own path, traced at one of them if there is none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..engine.lanes import Lanes
from ..errors import SpecError, UnsupportedOperationError
from ..ops import OPCODE, status
from ..tape.tape import F64
from ..trace import pytrees
from .arguments import Constant, Flattened
from .program import Evaluator, Program, Stop, Variant, VariantWorkspace, failure

NARROWEST, WIDEST = 8, 1024
# 2 MB. Fewer cells would stay closer to the core but be dispatched in smaller parts (garch11: 2.4 us a point,
# with a quarter of them 3.1, with an eighth 4.1; with four times as many 2.4).
CELLS = 1 << 18
AGREE = OPCODE["agree"]


class Batch:
    """Sweeps of one program over the lanes of points.

    Parameters
    ----------
    program
        Of a function, or of one of its derivatives.
    slots
        Numbers of the tape's inputs that have a lane a point.
    reverse
        Whether a reverse sweep follows.
    inner
        A level of lanes inside of each point (directions), and its width.
    """

    def __init__(
        self,
        program: Program,
        slots: frozenset[int],
        reverse: bool,
        inner: tuple[Lanes, int] | None = None,
    ):
        # A point's bits must not depend on the points beside it.
        outer = Lanes(slots, hoist=not reverse, folded=False)
        self.program = program
        self.inner = () if inner is None else (inner[1],)
        self.evaluator = Evaluator(program, (outer,) if inner is None else (inner[0], outer))
        self.slots = slots
        self.reverse = reverse

    def run(self, flat_at: Callable[[int], Flattened], points: list[np.ndarray], visit: Callable, fill=None):
        """Sweep over all points.

        Parameters
        ----------
        flat_at
            Arguments at one point.
        points
            One array a slot, in order, with the points as first axis.
        visit
            Called as ``visit(space, chosen, count)`` after each forward sweep: the points that
            ``chosen`` (a slice or an array of numbers) picks are in the first ``count`` lanes.
        fill
            Writes the inner lanes into a workspace.
        """
        self.program.refresh()
        count = len(points[0])
        flat = flat_at(0)
        usual = self.program.find(flat) or self.program.trace(flat)
        # One lane would take other kernels, which may differ in the last bit.
        width = max(NARROWEST, min(self._width(usual, flat), count))
        for first in range(0, count, width):
            pending: list[tuple[np.ndarray, Variant | None, set[int]]] = []
            pending.append((np.arange(first, min(first + width, count)), usual, set()))
            while pending:
                chosen, variant, tried = pending.pop()
                flat = flat_at(int(chosen[0]))
                fresh = variant is None
                if variant is None:
                    variant = self.program.trace(flat)
                for part, stop in self._sweep(variant, flat, chosen, points, width, visit, fill, fresh):
                    found = self.program.find(flat_at(int(part[0])), stop, tried | {id(variant)})
                    pending.append((part, found, tried | {id(variant)}))

    def _width(self, variant: Variant, flat: Flattened) -> int:
        """Return how many points' cells fit into a core's cache."""
        cells = variant.cells_a_lane(flat.dimensions, self.evaluator.levels, self.inner)
        return max(NARROWEST, min(WIDEST, CELLS // cells))

    def _sweep(self, variant, flat, chosen, points, width, visit, fill, fresh) -> Iterator[tuple]:
        """Sweep points with one variant; yield (points, stop) for those that take another path."""
        space = self.evaluator.workspace(variant, flat.dimensions, (*self.inner, width))
        space.load(flat, self.evaluator.lanes)
        if fill is not None:
            fill(space)
        while len(chosen):
            count = len(chosen)
            rising = chosen[-1] - chosen[0] == count - 1  # they are in order
            place = slice(int(chosen[0]), int(chosen[-1]) + 1) if rising else chosen
            # Spare lanes repeat a point.
            lanes = place if count == width else np.append(chosen, np.full(width - count, chosen[0]))
            for slot, array in zip(sorted(self.slots), points, strict=True):
                space.inputs[slot][...] = array[lanes]
            outcome = space.forward()
            if outcome == status.DONE:
                variant.counter[0] += count
                visit(space, place, count)
                return
            if outcome != status.GUARD:
                raise failure(space, outcome)
            holds, stop = self._parted(space, count)
            if fresh and not holds[0]:
                raise UnsupportedOperationError(
                    "a branch hangs on the last bit of a number: NumPy's value and the kernel's differ there"
                )
            yield chosen[~holds], stop
            chosen, fresh = chosen[holds], False

    def _parted(self, space: VariantWorkspace, count: int) -> tuple[np.ndarray, Stop]:
        """Return which points the guard that stopped a sweep holds for, and the stop of the others."""
        stop, plan, at = Stop.of(space), space.plan, space.stopped
        before = int(plan.tape.code["op"][at - 1]) if at else -1
        if before != 2 * AGREE + F64:
            return np.zeros(count, bool), stop  # a guard on what all points share
        seen = space.value_view(int(plan.tape.code["a"][at - 1])).reshape(-1)[:count]
        wanted = space.value_view(int(plan.tape.code["b"][at]))[()]
        return seen == wanted, stop


def common_length(trees, axes) -> int:
    """Return the number of points; raise where the batched arguments differ in it."""
    lengths = set()
    for tree, axis in zip(trees, axes, strict=True):
        if axis is not None:
            for leaf in pytrees.leaves(tree):
                if not -np.ndim(leaf) <= axis < np.ndim(leaf):
                    raise SpecError(
                        f"in_axes={axis} names an axis that an array of shape {np.shape(leaf)} lacks"
                    )
                lengths.add(np.shape(leaf)[axis])
    if len(lengths) != 1:
        raise ValueError(f"the batched arguments have {sorted(lengths)} points; they need the same number")
    return lengths.pop()


def at_point(tree, axis: int, k: int):
    """Return a batched argument at one point, in its role."""
    if tree.__class__ is Constant:
        return Constant(at_point(tree.value, axis, k))
    leaves, structure = pytrees.flatten(tree)
    return pytrees.unflatten(structure, [np.take(leaf, k, axis) for leaf in leaves])
