"""Carries and outputs as trees: their leaves, what error messages call them, and whether they fit."""

from __future__ import annotations

import optree

from ..errors import StructureError
from ..trace import pytrees
from ..trace.integers import as_index
from ..trace.plain_arrays import as_ndarrays


def leaves_of(tree) -> tuple[list, optree.PyTreeSpec]:
    """Return the leaves of a tree, traced or not, and its structure."""
    leaves, structure = pytrees.flatten(tree)
    return [as_index(as_ndarrays(leaf)) for leaf in leaves], structure


def names_of(structure, root: str) -> list[str]:
    """Return what error messages call the leaves of a tree: ``carry['h'][0]``."""
    return [root + "".join(f"[{part!r}]" for part in path) for path in optree.treespec_paths(structure)]


def check_structure(name: str, what: str, expected, found) -> None:
    """Raise if a body returned another structure than it got."""
    if expected != found:
        raise StructureError(
            f"{name}: {what} has the structure {text_of(expected)}, and the body returns {text_of(found)}"
        )


def text_of(structure) -> str:
    """Return a structure as text, with ``*`` for leaves."""
    if structure.is_leaf():
        return "*"
    text = str(structure)
    return text.removeprefix("PyTreeSpec(").removesuffix(")").partition(", NoneIsLeaf")[0]
