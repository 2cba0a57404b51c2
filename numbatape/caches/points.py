"""The points of a batch: how many there are, and the arguments at one of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ..errors import SpecError
from ..programs.arguments import Flattened, plain_array
from ..programs.contract import require_active
from ..programs.roles import Constant, Static, as_constants, is_mark
from ..trace import pytrees
from ..trace.complex_pairs import is_complex, split


def _identities(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape) if len(shape) > 1 else np.ones(shape)


# What made-up points consist of where there are none. A function may raise at the first of these (one that
# factors a matrix does at ones), and tell the shape of its result at another.
FILLS = (np.ones, _identities, np.zeros)


def batched_leaves(trees, axes) -> list[tuple]:
    """Return (leaf, axis that numbers the points) of all batched arguments."""
    return [
        (plain_array(leaf, f"argument {k}"), axis)
        for k, (tree, axis) in enumerate(zip(trees, axes, strict=True))
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
        found = f"have {sorted(lengths)} points; they need the same number" if lengths else "hold no array"
        raise SpecError(f"the batched arguments {found}")
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

    for fill in FILLS:

        def sample(leaf, fill=fill):
            shape, dtype = np.delete(np.shape(leaf), axis), np.asarray(leaf).dtype
            return fill(tuple(shape.tolist())).astype(dtype)[()]

        yield _mapped(tree, sample)


class Points:
    """The arguments of a call of a batched function.

    Parameters
    ----------
    names
        The names of the function's parameters.
    args, trees
        The arguments, and what the function gets of them, without the marks of their roles.
    axes
        Which axis of each argument numbers the points, None for one that all points share.
    variables
        The values of variables of the function, which all points share, by their `MovingName`.

    Attributes
    ----------
    count
        The number of points.
    flat
        The arguments at the first point, or at a made-up one if there are none.
    slots
        Numbers of the tape's inputs that have one lane per point.
    arrays
        One array per slot, in order, with the points as first axis.
    """

    def __init__(self, names, args, trees, axes, variables):
        self._names, self._trees, self._axes, self._variables = names, trees, axes, variables
        self._keywords = as_constants(variables)
        leaves = batched_leaves(trees, axes)
        self.count = common_length(leaves)
        self._shared = [
            a if is_mark(a) or axis is not None else Constant(a) for a, axis in zip(args, axes, strict=True)
        ]
        self._kept: tuple[int, Flattened] | None = None
        flat = self.flat = self.at(0) if self.count else next(self.samples())
        require_active(flat)
        self.slots = frozenset(
            k
            for k, (_, spec, _) in enumerate(flat.traced())
            if spec.argument >= 0 and axes[spec.argument] is not None
        )
        self.arrays = [
            part if axis == 0 else np.moveaxis(part, axis, 0)
            for leaf, axis in leaves
            for part in (split(leaf) if is_complex(leaf) else (np.asarray(leaf),))
        ]

    def at(self, k: int) -> Flattened:
        """Return the arguments at one point."""
        if self._kept is None or self._kept[0] != k:
            args = [
                arg if axis is None else at_point(arg, axis, k)
                for arg, axis in zip(self._shared, self._axes, strict=True)
            ]
            self._kept = k, Flattened(tuple(args), self._keywords, self._names)
        return self._kept[1]

    def samples(self) -> Iterator[Flattened]:
        """Yield the arguments at made-up points, for a batch that has none."""
        trees = [
            itertools.repeat(arg) if axis is None else sample_points(arg, axis)
            for arg, axis in zip(self._shared, self._axes, strict=True)
        ]
        for args in zip(*trees, strict=False):
            yield Flattened(args, self._keywords, self._names)

    def leaves(self) -> list[tuple]:
        """Return (leaf, axis that numbers the points, None for a shared leaf) of all arguments."""
        given = [
            (leaf, axis)
            for arg, tree, axis in zip(self._shared, self._trees, self._axes, strict=True)
            for leaf in ([tree] if arg.__class__ is Static else pytrees.leaves(tree))
        ]
        return given + [(leaf, None) for value in self._variables.values() for leaf in pytrees.leaves(value)]
