"""Which axis of each argument `vmap` maps over, and where the results get it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..capture.moving_names import MovingName
from ..errors import ArityError, OutputError, ShapeError, SpecError, StructureError
from ..trace import pytrees
from ..trace.complex_array import TracedComplex
from ..trace.complex_pairs import Pair
from ..trace.integers import as_index
from ..trace.plain_arrays import as_ndarrays
from ..trace.primitives import sample_of


def wholes_of(tree) -> tuple[list, Any]:
    """Return the leaves of a tree and its structure; something complex is one leaf."""
    return pytrees.flatten(tree, lambda x: type(x) is Pair or type(x) is TracedComplex)


def sample_of_whole(x):
    """Return a leaf's number or array, or zeros of its shape where nobody has computed it."""
    return x._value if type(x) is TracedComplex else sample_of(x)


class Mapped:
    """The arguments of a call, taken apart.

    Parameters
    ----------
    in_axes
        As `vmap` takes it.
    args, kwargs
        The arguments, without marks of roles.

    Attributes
    ----------
    leaves
        The leaves of ``(args, kwargs)``.
    axes
        For each leaf the axis that numbers the lanes, which is not negative; None for a leaf that all lanes
        share.
    count
        The number of lanes.
    names
        What messages call the leaves.
    """

    def __init__(self, in_axes, args: Sequence, kwargs: dict):
        whole = (tuple(args), dict(kwargs))
        self.leaves, self._structure = wholes_of(whole)
        self.leaves = [as_ndarrays(leaf) for leaf in self.leaves]
        given = _axes_of_arguments(in_axes, whole)
        paths = self._structure.paths()
        names = self.names = [*map(_name, paths)]
        # All lanes share the values of variables that the function refers to.
        shared = [place == 1 and type(name) is MovingName for place, name, *_ in paths]
        self.axes = [
            None if axis is None or both else _axis_of(as_index(leaf), axis, name)
            for leaf, axis, name, both in zip(self.leaves, given, names, shared, strict=True)
        ]
        lengths = {
            name: np.shape(sample_of_whole(leaf))[axis]
            for leaf, axis, name in zip(self.leaves, self.axes, names, strict=True)
            if axis is not None
        }
        self.count = _common(lengths, in_axes)

    def rebuilt(self, leaves) -> tuple[tuple, dict]:
        """Return ``(args, kwargs)`` with other leaves."""
        return pytrees.unflatten(self._structure, leaves)


def check_in_axes(in_axes) -> None:
    """Raise if ``in_axes`` is nothing that `vmap` takes, whatever the arguments are."""
    if in_axes is None or _is_integer(in_axes):
        return
    if not isinstance(in_axes, (tuple, list)):
        raise SpecError(
            f"nt.vmap: in_axes={in_axes!r} must be an int, None, or a tuple with an entry for each "
            "positional argument"
        )
    _check_leaves("in_axes", in_axes)


def check_out_axes(out_axes) -> None:
    """Raise if ``out_axes`` is nothing that `vmap` takes, whatever the results are."""
    _check_leaves("out_axes", out_axes)


def _check_leaves(what: str, axes) -> None:
    for axis in pytrees.leaves(axes):
        if axis is not None and not _is_integer(axis):
            raise SpecError(f"nt.vmap: {what}={axes!r} must have ints and None as its leaves, not {axis!r}")


def _is_integer(axis) -> bool:
    return isinstance(axis, (int, np.integer)) and not isinstance(axis, bool)


def _axes_of_arguments(in_axes, whole) -> list:
    """Return one entry of ``in_axes`` for each leaf of ``(args, kwargs)``; keywords have axis 0 mapped."""
    args, kwargs = whole
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ArityError(
                f"nt.vmap: in_axes={in_axes!r} has {len(in_axes)} entries, and there are {len(args)} "
                "positional arguments"
            )
    else:
        in_axes = (in_axes,) * len(args)
    found: list = []
    for k, (prefix, arg) in enumerate(zip(in_axes, args, strict=True)):
        found += _spread(prefix, arg, f"nt.vmap: in_axes of argument {k}")
    return found + [0] * len(wholes_of(kwargs)[0])


def _spread(prefix, tree, what: str) -> list:
    """Return one entry of a prefix of a tree for each leaf of it; something complex is one leaf."""
    count = len(wholes_of(tree)[0])
    if prefix is None or _is_integer(prefix):
        return [prefix] * count
    entries, structure = pytrees.flatten(prefix)
    try:
        parts = structure.flatten_up_to(tree)
    except ValueError as error:
        raise StructureError(
            f"{what} is {prefix!r}, which is no prefix of the structure that it is for: {error}"
        ) from None
    return [entry for entry, part in zip(entries, parts, strict=True) for _ in range(len(wholes_of(part)[0]))]


def _axis_of(leaf, axis, name: str) -> int | None:
    """Return an axis of a leaf that is not negative; raise if the leaf has no such axis."""
    if leaf is None:
        return None
    sample = sample_of_whole(leaf)
    if isinstance(sample, (str, bytes)) or not isinstance(
        sample, (np.ndarray, np.generic, int, float, complex)
    ):
        raise SpecError(
            f"nt.vmap: {name} is a {type(sample).__name__}, which has no axis to map over: in_axes must be "
            "None for it"
        )
    axis, ndim = operator.index(axis), np.ndim(sample)
    if not -ndim <= axis < ndim:
        least = axis + 1 if axis >= 0 else -axis
        raise ShapeError(
            f"nt.vmap: in_axes={axis} for {name} asks for at least {least} dimensions, and its shape is "
            f"{np.shape(sample)}"
        )
    return axis % ndim


def _common(lengths: dict[str, int], in_axes) -> int:
    """Return the number of lanes."""
    if not lengths:
        raise SpecError(
            f"nt.vmap: in_axes={in_axes!r} maps no array: at least one argument needs an axis to map over"
        )
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ShapeError(f"nt.vmap: the mapped axes have different lengths: {text}")
    return next(iter(lengths.values()))


def _name(path: tuple) -> str:
    """Return what error messages call a leaf of ``(args, kwargs)``."""
    group, first, *rest = path
    label = f"keyword {first!r}" if group == 1 else f"argument {first}"
    return label + "".join(f"[{key!r}]" for key in rest)


# ---- results


class OutAxes:
    """Where the results of a function get the axis of the lanes.

    Parameters
    ----------
    out_axes
        As `vmap` takes it.
    """

    def __init__(self, out_axes):
        self._given = out_axes

    def axes(self, structure, stacks: list) -> list:
        """Return the axis of each leaf of the results; None for a leaf that gets no axis."""
        return _spread(self._given, pytrees.unflatten(structure, stacks), "nt.vmap: out_axes")

    def placed(self, structure, stacks: list, shared: list) -> Any:
        """Return the tree of results.

        Parameters
        ----------
        structure
            Of the function's result, in which something complex is one leaf.
        stacks
            One array for each leaf, whose first axis numbers the lanes; None for a leaf that is None.
        shared
            The value of each leaf that is the same in all lanes, else None.
        """
        axes = self.axes(structure, stacks)
        return pytrees.unflatten(
            structure,
            [
                None if stack is None else self._leaf(stack, axis, value)
                for stack, axis, value in zip(stacks, axes, shared, strict=True)
            ],
        )

    @staticmethod
    def _leaf(stack, axis, value):
        if axis is None:
            if value is None:
                raise OutputError(
                    "nt.vmap: out_axes is None for a result that differs between the lanes: it needs an axis"
                )
            return value
        shape, axis = np.shape(sample_of_whole(stack)), operator.index(axis)
        ndim = len(shape)
        if not -ndim <= axis < ndim:
            raise OutputError(
                f"nt.vmap: out_axes={axis} for a result of shape {shape[1:]}, which has "
                f"{ndim} dimensions with the axis of the lanes"
            )
        return stack if axis % ndim == 0 else np.moveaxis(stack, 0, axis)
