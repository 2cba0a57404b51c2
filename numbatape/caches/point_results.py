"""The results of points, collected from sweeps over them: arrays whose first axis numbers the points."""

from __future__ import annotations

import numpy as np

from ..control.mapped_axes import OutAxes, wholes_of
from ..control.trees import text_of
from ..errors import OutputError, StructureError
from ..programs.arguments import Flattened
from ..programs.variant import Variant, VariantWorkspace
from ..recording.recorded import Output
from ..trace.complex_pairs import Pair, join


class Rows:
    """One result of each point, whose dtype is known when all are there."""

    def __init__(self, count: int):
        self._count = count
        self.array: np.ndarray | None = None

    def put(self, chosen, part, shape: tuple[int, ...], dtype, verb: str = "nt.batch") -> None:
        """Write the results of some points: an array of them, or one that they share.

        ``verb`` is what an error names.

        Raises
        ------
        OutputError
            If points have results of different shapes.
        """
        if self.array is None:
            self.array = np.empty((self._count, *shape), dtype)
        elif self.array.shape[1:] != shape:
            raise OutputError(
                f"the function returns shape {self.array.shape[1:]} at some points and {shape} at others: "
                f"{verb} stacks the results"
            )
        common = np.result_type(self.array.dtype, dtype)
        if common != self.array.dtype:  # other points return other kinds of numbers
            self.array = self.array.astype(common)
        self.array[chosen] = part


class Stacks:
    """The results of all lanes, as they become known.

    Parameters
    ----------
    count
        The number of lanes.
    verb
        What errors name.
    """

    def __init__(self, count: int, verb: str):
        self._count, self._verb = count, verb
        self._structure = None
        self._rows: list[Rows | None] = []
        self._shared: list = []

    def put(self, chosen, structure, stacks: list[tuple]) -> None:
        """Note the results of some lanes: for each leaf an array, and whether it has an axis of lanes."""
        absent = [stack is None for stack, _ in stacks]
        if self._structure is None:
            self._structure = structure
            self._rows = [None if missing else Rows(self._count) for missing in absent]
            self._shared = [None if laned else stack for stack, laned in stacks]
        elif structure != self._structure or absent != [rows is None for rows in self._rows]:
            texts = text_of(self._structure), text_of(structure)
            raise StructureError(
                f"{self._verb}: the function returns {texts[0]} for some rows, and {texts[1]} for others"
            )
        for k, (rows, (stack, laned)) in enumerate(zip(self._rows, stacks, strict=True)):
            if rows is None:
                continue
            array = np.asarray(stack)
            if array.dtype.kind not in "biufc":
                what = type(stack).__name__
                raise OutputError(
                    f"{self._verb} stacks numbers and arrays, and the function returns a {what}"
                )
            rows.put(chosen, array, array.shape[1:] if laned else array.shape, array.dtype, self._verb)
            if laned or not _same(self._shared[k], stack):
                self._shared[k] = None

    def arrays(self) -> list:
        """Return one array for each leaf, with the lanes first; None for a leaf that is None."""
        return [None if rows is None else rows.array for rows in self._rows]

    def placed(self, out_axes: OutAxes):
        """Return the tree of results."""
        return out_axes.placed(self._structure, self.arrays(), self._shared)

    def axes(self, out_axes: OutAxes) -> list[int] | None:
        """Return where each leaf of the results has the axis of lanes; None if a leaf has none."""
        stacks = self.arrays()
        if any(x is None for x in stacks):
            return None
        axes = out_axes.axes(self._structure, stacks)
        return None if any(axis is None for axis in axes) else axes


def _same(x, y) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def with_lanes(view: np.ndarray, points: int, width: int, shape) -> np.ndarray:
    """Return an output with an axis of points and one of directions, either of which it may lack."""
    extra = view.ndim - len(shape)
    if extra == 2:
        return view[:points]
    if extra == 1 and view.shape[0] == width:
        return np.broadcast_to(view, (points, width, *shape))
    if extra == 1:
        return np.broadcast_to(view[:points, None], (points, width, *shape))
    return np.broadcast_to(view, (points, width, *shape))


def stacked(space: VariantWorkspace, leaf, count: int, width: int = 0) -> tuple:
    """Return a part of a recorded result in the first lanes, and whether it has a first axis of lanes.

    ``width`` is the number of directions in lanes inside of each point, on which the part does not depend.
    """
    if leaf.__class__ is Pair:
        (re, laned), (im, too) = (stacked(space, part, count, width) for part in (leaf.re, leaf.im))
        return join(re, im), laned or too
    if leaf.__class__ is not Output:
        return leaf, False
    sample, view = np.asarray(space.variant.recording.values[leaf.number]), space.outputs[leaf.number]
    if width:
        shape = view.shape[view.ndim - sample.ndim :]
        return with_lanes(view, count, width, shape)[:, 0].astype(sample.dtype, copy=False), True
    laned = view.ndim > sample.ndim
    return (view[:count] if laned else view).astype(sample.dtype, copy=False), laned


def empty_stacks(variant: Variant, flat: Flattened, result, verb: str) -> Stacks:
    """Return the stacks of no points, for a recorded result (or a part of it) at made-up arguments."""

    def like(leaf):
        if leaf.__class__ is Pair:
            return join(like(leaf.re), like(leaf.im))
        return variant.output_like(leaf.number, flat) if leaf.__class__ is Output else leaf

    leaves, structure = wholes_of(result)
    stacks = Stacks(0, verb)
    empty = [None if leaf is None else np.asarray(like(leaf))[None][:0] for leaf in leaves]
    stacks.put(slice(0, 0), structure, [(x, True) for x in empty])
    return stacks
