"""Containers of arrays: what counts as an inner node, in arguments and results alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import optree

NAMESPACE = "numbatape"
LEAF = optree.tree_structure(0)

# Dataclasses of our own that are leaves.
OPAQUE: set[type] = set()

_PLAIN = (np.ndarray, float, int, str, type(None))
_registered: set[type] = set()


def opaque(cls):
    """Make a dataclass a leaf (a decorator)."""
    OPAQUE.add(cls)
    return cls


def flatten(tree, is_leaf=None):
    """Return ``(leaves, structure)``; dataclasses become inner nodes where they are first met."""
    leaves, structure = optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    if any(leaf.__class__ not in _PLAIN and _register(leaf) for leaf in leaves):
        return flatten(tree, is_leaf)
    return leaves, structure


def leaves(tree) -> list:
    return flatten(tree)[0]


def unflatten(structure, parts):
    """Return the tree of a structure; a leaf stands for itself."""
    return optree.tree_unflatten(structure, parts)


def _register(leaf) -> bool:
    """Register the dataclass that a leaf is an instance of; False if it is none, or known."""
    cls = type(leaf)
    if not dataclasses.is_dataclass(cls) or cls in _registered or cls in OPAQUE:
        return False
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init)

    def apart(instance):
        return tuple(getattr(instance, name) for name in names), names, names

    def together(names, parts):
        return cls(**dict(zip(names, parts, strict=True)))

    optree.register_pytree_node(cls, apart, together, namespace=NAMESPACE)
    _registered.add(cls)
    return True


def forget(cls) -> None:
    """Let go of a dataclass that was made for one trace."""
    if cls in _registered:
        _registered.discard(cls)
        optree.unregister_pytree_node(cls, namespace=NAMESPACE)
