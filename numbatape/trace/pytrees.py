"""Containers of arrays: what counts as an inner node, in arguments and results alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import optree

from ..errors import OutputError

NAMESPACE = "numbatape"
LEAF = optree.tree_structure(0)

# Dataclasses of numbatape that are leaves.
OPAQUE: set[type] = set()

_PLAIN = (np.ndarray, float, int, str, type(None))
_registered: dict[int, type] = {}  # by id, because the stand-in for a class equals the class


def opaque(cls):
    """Make a dataclass a leaf (a decorator)."""
    OPAQUE.add(cls)
    return cls


def flatten(tree, is_leaf=None):
    """Return ``(leaves, structure)``; dataclasses become inner nodes where they are first met."""
    leaves, structure = optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    if any(type(leaf) not in _PLAIN and _register(leaf) for leaf in leaves):
        return flatten(tree, is_leaf)
    return leaves, structure


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
        raise OutputError(
            "a derivative needs a function that returns numbers, arrays, or tuples, lists, dictionaries and "
            f"dataclasses of them, got {got}"
        )


def value_and_aux(result) -> tuple:
    """Return the result of a function of which ``has_aux=True`` was said; raise if it is no pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else result.__class__.__name__
        raise OutputError(f"has_aux=True needs a function that returns (value, aux), got {got}")
    return result


def _is_number(leaf) -> bool:
    dtype = getattr(leaf, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufc"
    return isinstance(leaf, (int, float, complex)) or type(leaf) in OPAQUE


def unflatten(structure, parts):
    """Return the tree with a structure; the tree of a single leaf is the leaf."""
    return optree.tree_unflatten(structure, parts)


def _register(leaf) -> bool:
    """Register the dataclass of a leaf; return False if it has none, or a known one."""
    cls = type(leaf)
    if not dataclasses.is_dataclass(cls) or id(cls) in _registered or cls in OPAQUE:
        return False
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init)

    def apart(instance):
        return tuple(getattr(instance, name) for name in names), names, names

    def together(names, parts):
        return cls(**dict(zip(names, parts, strict=True)))

    optree.register_pytree_node(cls, apart, together, namespace=NAMESPACE)
    _registered[id(cls)] = cls
    return True


def forget(cls) -> None:
    """Unregister a dataclass that was made for one trace."""
    if _registered.pop(id(cls), None) is not None:
        optree.unregister_pytree_node(cls, namespace=NAMESPACE)
