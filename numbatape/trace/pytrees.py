"""Containers of arrays: what counts as an inner node, in arguments and results alike.

optree takes containers apart. Its import takes 17 ms, so this file does without it where there is no
other container than tuples: for arguments and results that are arrays and numbers. Their structure is a
`Node`, whoever has taken them apart, so that equal structures are equal.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import OutputError, StructureError
from ..late import LOCK, imported
from ..savings import frozen

if TYPE_CHECKING:
    import optree

NAMESPACE = "numbatape"

# Classes of leaves that are met most often; others are leaves, too, if optree does not know them.
LEAVES: set[type] = {np.ndarray, np.float64, np.float32, float, int, bool, complex, str, type(None)}
OPAQUE: set[type] = set()  # dataclasses of numbatape that are leaves

# Classes of arrays with labels by package; they become inner nodes where they are first met.
LABELLED = {"pandas": ("Series", "DataFrame"), "polars": ("Series", "DataFrame"), "xarray": ("DataArray",)}

# A class with one of these attributes may be a container (`numbatape.trace.records`).
_RECORDS = ("__attrs_attrs__", "__pydantic_validator__", "keys", "_get_kwargs", "_extra_fields")

_PLAIN = (np.ndarray, float, int, str, type(None))
_registered: dict[int, type] = {}  # The keys are ids, because the stand-in for a class equals the class.
_nodes: list[tuple[type, Callable, Callable]] = []  # inner nodes that optree does not know yet


@frozen(eq=False)
class Node:
    """The structure of a leaf, a tuple or an empty dictionary, with the names of `optree.PyTreeSpec`.

    There is one object for each structure.

    Attributes
    ----------
    type
        The class of the container; None for a leaf.
    parts
        The structures in it.
    """

    type: type | None = None
    parts: tuple[Node, ...] = ()

    @property
    def num_leaves(self) -> int:
        return 1 if self.type is None else sum(part.num_leaves for part in self.parts)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[Node]:
        return list(self.parts)

    def entries(self) -> list[int]:
        return list(range(len(self.parts)))

    def paths(self) -> list[tuple]:
        """Return the path to each leaf: the entries on the way."""
        if self.type is None:
            return [()]
        return [(k, *path) for k, part in enumerate(self.parts) for path in part.paths()]

    def __str__(self) -> str:
        if self.type is None:
            return "*"
        shown = ", ".join(map(str, self.parts)) + "," * (len(self.parts) == 1)
        return f"({shown})" if self.type is tuple else "{}"

    def flatten_up_to(self, tree) -> list:
        """Return the parts of a tree that are in the places of the leaves.

        Raises
        ------
        ValueError
            If the tree has another structure.
        """
        if self.type is None:
            return [tree]
        if type(tree) is not self.type:
            raise ValueError(f"expected a {self.type.__name__}, got {tree!r}")
        if len(tree) != len(self.parts):
            raise ValueError(f"expected a {self.type.__name__} of {len(self.parts)}, got {tree!r}")
        rows = zip(self.parts, tree, strict=True)
        return [leaf for part, its in rows for leaf in part.flatten_up_to(its)]

    def filled(self, parts):
        """Return the tree with these leaves, the next of an iterator."""
        if self.type is None:
            return next(parts)
        return tuple([part.filled(parts) for part in self.parts]) if self.type is tuple else {}


LEAF, EMPTY = Node(), Node(dict)


@cache
def _tuple_of(parts: tuple[Node, ...]) -> Node:
    return Node(tuple, parts)


def library():
    """Return optree; import it, and tell it about the containers of this package."""
    optree = imported("optree")
    if _nodes:
        with LOCK:
            while _nodes:
                optree.register_pytree_node(*_nodes.pop(), namespace=NAMESPACE)
    return optree


def register(cls: type, apart: Callable, together: Callable) -> None:
    """Make a class an inner node. ``apart(x)`` returns its parts, ``together(parts)`` the container."""
    _nodes.append((cls, lambda x: (apart(x), None, None), lambda _, parts: together(parts)))


def register_labelled(cls: type, apart: Callable, together: Callable) -> None:
    """Make a class with labels an inner node.

    ``apart(x)`` returns its parts, its labels and the names of the parts, ``together(labels, parts)`` the
    container.
    """
    _nodes.append((cls, apart, together))


def opaque(cls):
    """Make a dataclass a leaf (a decorator)."""
    OPAQUE.add(cls)
    return leaf(cls)


def leaf(cls):
    """Note that objects of a class are leaves (a decorator)."""
    LEAVES.add(cls)
    return cls


def flatten(tree, is_leaf=None) -> tuple[list, Any]:
    """Return ``(leaves, structure)``; containers become inner nodes where they are first met."""
    leaves: list = []
    node = _node_of(tree, is_leaf, leaves)
    if node is not None:
        return leaves, node
    try:
        leaves, structure = library().tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError:
        raise StructureError(
            "a container among arguments or results contains itself, or is nested too deeply"
        ) from None
    if any(type(leaf) not in _PLAIN and _register(leaf) for leaf in leaves):
        return flatten(tree, is_leaf)
    return leaves, _converted(structure) or structure


def _node_of(tree, is_leaf, leaves: list) -> Node | None:
    """Return the structure of a tree and append its leaves; None if optree has to take it apart."""
    kind = type(tree)
    if kind in LEAVES or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    if kind is dict and not tree:
        return EMPTY
    if kind is not tuple:
        return None
    parts = []
    for part in tree:
        found = _node_of(part, is_leaf, leaves)
        if found is None:
            return None
        parts.append(found)
    return _tuple_of(tuple(parts))


def _converted(structure: optree.PyTreeSpec) -> Node | None:
    """Return a structure of optree's as a `Node`; None if it has a container that no node stands for."""
    if structure.is_leaf():
        return LEAF
    if structure.type is dict and not structure.num_children:
        return EMPTY
    if structure.type is not tuple:
        return None
    parts = []
    for part in structure.children():
        found = _converted(part)
        if found is None:
            return None
        parts.append(found)
    return _tuple_of(tuple(parts))


def mapped(function: Callable, tree, *others):
    """Return a tree with a function of each leaf, and of the same leaf of other trees; None is a leaf."""
    kind = type(tree)
    if kind in LEAVES:
        return function(tree, *others)
    if kind is tuple and LEAVES.issuperset(map(type, tree)) and {type(other) for other in others} <= {tuple}:
        return tuple([function(*parts) for parts in zip(tree, *others, strict=True)])
    if not others:
        found, structure = flatten(tree)
        return unflatten(structure, [function(leaf) for leaf in found])
    return library().tree_map(function, tree, *others, none_is_leaf=True, namespace=NAMESPACE)


def copied(tree):
    """Return a tree with copies of its arrays, which may be written to."""
    return mapped(copied_leaf, tree)


def copied_leaf(leaf):
    return leaf.copy() if getattr(leaf, "ndim", 0) else leaf


def without_labels(result):
    """Return the number in an object with labels (``array.sum()`` of xarray's); other values as they are."""
    cls = type(result)
    if cls.__name__ in LABELLED.get(cls.__module__.partition(".")[0], ()):
        found = leaves(result)
        return found[0] if len(found) == 1 and not np.ndim(found[0]) else result
    return result


def leaves(tree) -> list:
    return flatten(tree)[0]


def require_numbers(result, parts) -> None:
    """Raise if the result of a function (with these leaves) cannot have a derivative.

    Traced values in other objects (generators, sets, instances of ordinary classes) would
    lose their derivatives, and None means a missing ``return``.
    """
    strange = [leaf for leaf in parts if leaf is not None and not _is_number(leaf)]
    if result is None or strange:
        got = "None (is a return missing?)" if result is None else type(strange[0]).__name__
        if strange and hasattr(type(strange[0]), "toarray"):
            got = "a sparse matrix, whose toarray() is an array"
        raise OutputError(
            "a derivative needs a function that returns numbers, arrays, or tuples, lists, dictionaries and "
            f"dataclasses of them, got {got}"
        )


def value_and_aux(result) -> tuple:
    """Return the result of a function that is called with ``has_aux=True``; raise if it is no pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        got = str(getattr(result, "dtype", result.__class__.__name__))
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else got
        raise OutputError(f"has_aux=True needs a function that returns (value, aux), got {got}")
    return result


def _is_number(leaf) -> bool:
    if hasattr(type(leaf), "__array__"):  # sparse matrices and splines have a dtype, but are no arrays
        return getattr(getattr(leaf, "dtype", None), "kind", "O") in "biufc"
    return isinstance(leaf, (int, float, complex)) or type(leaf) in OPAQUE


def unflatten(structure, parts):
    """Return the tree with a structure; the tree of a single leaf is the leaf."""
    if type(structure) is not Node:
        return library().tree_unflatten(structure, parts)
    return structure.filled(iter(parts))


def _register(leaf) -> bool:
    """Register the class of a leaf, if it is a container; return False if it is none, or a known one."""
    cls = type(leaf)
    if id(cls) in _registered or cls in LEAVES:
        return False
    if cls.__name__ in LABELLED.get(cls.__module__.partition(".")[0], ()):
        return _register_labelled(cls)
    if is_plain_dataclass(cls):
        ways = _dataclass_ways(cls)
    elif issubclass(cls, SimpleNamespace) or any(hasattr(cls, mark) for mark in _RECORDS):
        ways = imported(".records", __package__).ways_of(leaf)
    else:
        return False
    if ways is None:
        return False
    library().register_pytree_node(cls, *ways, namespace=NAMESPACE)
    _registered[id(cls)] = cls
    return True


def is_plain_dataclass(cls) -> bool:
    """Whether the constructor of a dataclass takes traced values: pydantic's validate them."""
    return dataclasses.is_dataclass(cls) and not hasattr(cls, "__pydantic_validator__")


def _dataclass_ways(cls) -> tuple[Callable, Callable]:
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init)

    def apart(instance):
        return tuple(getattr(instance, name) for name in names), names, names

    def together(names, parts):
        return cls(**dict(zip(names, parts, strict=True)))

    return apart, together


def _register_labelled(cls) -> bool:
    """Register a class of arrays with labels (`numbatape.trace.frames.labels`)."""
    if id(cls) in _registered:
        return False
    known = imported(".frames.data_frames", __package__).KNOWN
    register_labelled(cls, *known[cls.__module__.partition(".")[0], cls.__name__])
    _registered[id(cls)] = cls
    return True


def forget(cls) -> None:
    """Unregister a dataclass that was made for one trace."""
    if _registered.pop(id(cls), None) is not None:
        # The stand-ins for a class are equal to it as keys, so that optree's dictionary has one entry for all
        # of them, which is gone with the first. By then optree has unregistered this class itself.
        with contextlib.suppress(KeyError):
            library().unregister_pytree_node(cls, namespace=NAMESPACE)


# ---- what a message calls an argument, and a leaf of it


@lru_cache(maxsize=256)
def paths_of(outer: optree.PyTreeSpec | Node, names: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return (argument number, readable path) of each leaf of ``(args, kwargs)``."""
    result = []
    for group, first, *rest in outer.paths():
        label = label_of(group, first, names)
        tail = "".join(map(step_text, rest))
        result.append((-1 if group == 1 else first, label + (f", leaf {tail}" if tail else "")))
    return result


def label_of(group: int, first, names: tuple[str, ...]) -> str:
    """Return what a positional argument (group 0) or a keyword is called."""
    if group == 1:
        return getattr(first, "label", None) or f"keyword `{first}`"
    return f"argument {first} (`{names[first]}`)" if first < len(names) else f"argument {first}"


def step_text(key) -> str:
    """Return a step of a path as text: ``.name`` or ``[2]``."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
