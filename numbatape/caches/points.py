"""The points of a batch: how many there are, the arguments at one of them, results collected from all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..errors import OutputError, SpecError
from ..trace import pytrees
from .arguments import Constant


def batched_leaves(trees, axes) -> list[tuple]:
    """Return (leaf, axis that numbers the points) of all batched arguments."""
    return [
        (leaf, axis)
        for tree, axis in zip(trees, axes, strict=True)
        if axis is not None
        for leaf in pytrees.leaves(tree)
    ]


def common_length(leaves) -> int:
    """Return the number of points; raise where batched leaves differ in it."""
    lengths = set()
    for leaf, axis in leaves:
        shape = np.shape(leaf)
        if not -len(shape) <= axis < len(shape):
            raise SpecError(f"in_axes={axis} names an axis that an array of shape {shape} lacks")
        lengths.add(shape[axis])
    if len(lengths) != 1:
        raise ValueError(f"the batched arguments have {sorted(lengths)} points; they need the same number")
    return lengths.pop()


def at_point(tree, axis: int, k: int):
    """Return a batched argument at one point, in its role (a `Constant` stays one)."""
    return _mapped(tree, lambda leaf: np.asarray(leaf).take(k, axis))


def _mapped(tree, change: Callable):
    """Return a batched argument with other leaves, in its role."""
    if tree.__class__ is Constant:
        return Constant(_mapped(tree.value, change))
    leaves, structure = pytrees.flatten(tree)
    return pytrees.unflatten(structure, [change(leaf) for leaf in leaves])


def sample_points(tree, axis: int) -> Iterator:
    """Yield made-up points of a batch that has none: ones, matrices of ones on the diagonal, zeros."""

    def diagonal(shape):
        return np.broadcast_to(np.eye(*shape[-2:]), shape) if len(shape) > 1 else np.ones(shape)

    for fill in (np.ones, diagonal, np.zeros):

        def sample(leaf, fill=fill):
            shape, dtype = np.delete(np.shape(leaf), axis), np.asarray(leaf).dtype
            return fill(tuple(shape.tolist())).astype(dtype)[()]

        yield _mapped(tree, sample)


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
