"""Carries and outputs as trees: their leaves, what error messages call them, and whether they fit."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from ..errors import DtypeError, ShapeError, StructureError
from ..trace import operations, pytrees
from ..trace.complex_pairs import is_complex
from ..trace.integers import as_index
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import current
from .body_traces import BodyTrace
from .mapped_axes import sample_of_whole, wholes_of

WEAK = (int, float, bool, type(None))  # Python numbers take the dtype of what they meet


def parts_of(tree) -> tuple[list, Any]:
    """Return the leaves of a tree, traced or not, and its structure; a complex leaf has two real parts."""
    leaves, structure = pytrees.flatten(tree)
    if any(map(is_complex, leaves)):
        trace = current()
        parts = [operations.constant(trace, np.asarray(x)) if is_complex(x) else x for x in leaves]
        leaves, structure = pytrees.flatten(pytrees.unflatten(structure, parts))
    return leaves, structure


def leaves_of(tree) -> tuple[list, Any]:
    """Return the real leaves of a tree as arrays and numbers, traced or not, and its structure."""
    leaves, structure = parts_of(tree)
    return [as_index(as_ndarrays(leaf)) for leaf in leaves], structure


def carry_names(name: str, structure) -> list[str]:
    """Return what error messages call the leaves of a carry; users of `fori_loop` do not see its counter."""
    if name != "nt.fori_loop":
        return names_of(structure, "carry")
    return ["carry" + "".join(f"[{part!r}]" for part in path[1:]) for path in structure.paths()]


def named_leaves(name: str, carry) -> tuple[list, list[str]]:
    """Return the leaves of a carry, and what error messages call them."""
    leaves, structure = pytrees.flatten(carry)
    return leaves, carry_names(name, structure)


def names_of(structure, root: str) -> list[str]:
    """Return what error messages call the leaves of a tree: ``carry['h'][0]``, or ``the output``."""
    tails = ("".join(f"[{part!r}]" for part in path) for path in structure.paths())
    return [root.removeprefix("the ") + tail if tail else root for tail in tails]


def check_complex(name: str, root: str, before, after, says: str) -> None:
    """Raise if a leaf is real in one of two trees of one structure, and complex in the other one.

    Parameters
    ----------
    root
        What the trees are called.
    says
        What is said of the leaf, its dtype, and the other dtype.
    """
    (old, expected), (new, found) = wholes_of(before), wholes_of(after)
    if expected != found:
        return
    for x, y, where in zip(old, new, names_of(expected, root), strict=True):
        dtypes = [np.asarray(sample_of_whole(leaf)).dtype for leaf in (x, y)]
        if x is not None and y is not None and (dtypes[0].kind == "c") != (dtypes[1].kind == "c"):
            raise DtypeError(f"{name}: {says.format(where, *dtypes)}")


def check_numbers(name: str, where: str, leaf) -> None:
    """Raise if a part of a carry, of rows or of outputs is neither a number nor an array of numbers."""
    if isinstance(leaf, (str, bytes)) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "biufc"):
        text = repr(leaf) if isinstance(leaf, (str, bytes)) else f"an array of dtype {leaf.dtype}"
        raise DtypeError(f"{name}: {where} is {text}, not a number or an array of numbers")


def check_structure(name: str, what: str, expected, found, other: str = "the body returns") -> None:
    """Raise if a body returned another structure than it got."""
    if expected == found:
        return
    texts = text_of(expected), text_of(found)
    if name == "nt.fori_loop":  # its users do not see the counter
        texts = tuple(text.removeprefix("(*, ")[:-1] for text in texts)
    raise StructureError(f"{name}: {what} has the structure {texts[0]}, and {other} {texts[1]}")


def check_absence(name: str, where: str, before, after) -> None:
    """Raise if one of two leaves is None, and the other one is not."""
    if (before is None) != (after is None):
        texts = ["None" if x is None else "a number or an array" for x in (before, after)]
        raise StructureError(f"{name}: {where} is {texts[0]}, and the body returns {texts[1]} for it")


def text_of(structure) -> str:
    """Return a structure as text, with ``*`` for leaves."""
    if structure.is_leaf():
        return "*"
    text = str(structure)
    if text.startswith("PyTreeSpec("):
        text = text.removeprefix("PyTreeSpec(").removesuffix(")").partition(", NoneIsLeaf")[0]
    return text.replace("CustomTreeNode(TracedComplex[None], [*, *])", "complex")


@contextlib.contextmanager
def abandoned(body: BodyTrace):
    """``with abandoned(body):`` takes off what a body has recorded if an error comes up."""
    try:
        yield
    except BaseException:
        body.abandon()
        raise


def compare(name: str, before, after) -> None:
    """Raise if a carry changes its structure, a shape or a dtype."""
    (old, expected), (new, found) = pytrees.flatten(before), pytrees.flatten(after)
    check_structure(name, "the carry", expected, found)
    for x, y, where in zip(old, new, carry_names(name, expected), strict=True):
        check_absence(name, where, x, y)
        if np.shape(x) != np.shape(y):
            raise ShapeError(
                f"{name}: {where} has shape {np.shape(x)}, and the body returns it with shape {np.shape(y)}; "
                "it must keep its shape"
            )
        kinds = [np.asarray(leaf).dtype for leaf in (x, y)]
        if type(x) not in WEAK and type(y) not in WEAK and kinds[0] != kinds[1]:
            raise DtypeError(
                f"{name}: {where} has dtype {kinds[0]}, and the body returns it with dtype {kinds[1]}; "
                "it must keep its dtype"
            )
