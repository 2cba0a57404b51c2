"""What a C function that calls a rule is compiled for: where arguments and results stand, and their kinds."""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = ("v", "g", "first", "size", "lane", "memory")  # the first words of the state


@dataclass(frozen=True)
class Leaf:
    """What is fixed about an array or a number, all but its sizes.

    Attributes
    ----------
    name
        Its name, and how those of its words begin.
    place
        Where it stands: "first" or "rest" among the operands, "result", "constant" or "memory".
    ndim
        None for a number.
    dtype
        NumPy's name of the dtype.
    """

    name: str
    place: str
    ndim: int | None
    dtype: str

    @property
    def sizes(self) -> list[str]:
        return [f"{self.name}_n{k}" for k in range(self.ndim or 0)]


@dataclass(frozen=True)
class Signature:
    """What a C function is compiled for.

    Attributes
    ----------
    leaves
        All arguments, results and arrays of a workspace.
    arguments
        The arguments of each of the functions that are called in turn: names, and tuples of names.
    produced
        What each part of the last function's result is: the name of a result (forward), of the argument
        that it is a cotangent of (reverse), or None for a part that is not used.
    single
        Whether that is one part, not a tuple.
    reverse
        Whether parts are added to adjoints.
    cells
        The dtype of the cells.
    """

    leaves: tuple[Leaf, ...]
    arguments: tuple[tuple, ...]
    produced: tuple[str | None, ...]
    single: bool
    reverse: bool
    cells: str
    fields: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self):
        names = list(HEAD)
        for leaf in self.leaves:
            names += [f"{leaf.name}_at", f"{leaf.name}_buffer", *leaf.sizes]
        object.__setattr__(self, "fields", tuple(names))

    def leaf(self, name: str) -> Leaf:
        """Return the leaf of a name, or of what a name is the cotangent of."""
        return next(leaf for leaf in self.leaves if leaf.name == name.removeprefix("bar_"))
