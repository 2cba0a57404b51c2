"""Results whose dictionaries have traced numbers as keys: their keys are NumPy's numbers afterwards."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from copy import copy

from .array import TracedArray

DICTIONARIES = (dict, OrderedDict, defaultdict, Counter)


def with_plain_keys(tree):
    """Return a result whose dictionaries have NumPy's numbers in place of traced ones as keys."""
    if type(tree) in DICTIONARIES:
        entries = {_plain_key(key): with_plain_keys(part) for key, part in tree.items()}
        tree = copy(tree)
        tree.clear()
        tree.update(entries)
        return tree
    if type(tree) in (list, tuple):
        return type(tree)(map(with_plain_keys, tree))
    if isinstance(tree, tuple) and hasattr(tree, "_make"):
        return tree._make(map(with_plain_keys, tree))
    return tree


def _plain_key(key):
    if type(key) is TracedArray:
        return key._value
    return tuple(map(_plain_key, key)) if type(key) is tuple else key
