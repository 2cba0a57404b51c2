"""Ufuncs whose arguments are lists with traced entries: ``np.exp([a, b])``, ``np.add.reduce([a, b])``.

NumPy asks traced arrays what a ufunc does with them, but not the entries of a list: it converts those to
numbers. So the user's code gets a stand-in for each ufunc, which stacks such lists before it calls the ufunc.
"""

from __future__ import annotations

import functools

import numpy as np

from .arrays_of_lists import SEQUENCES, stacking_lists

METHODS = frozenset(("accumulate", "at", "outer", "reduce", "reduceat"))


class UfuncOfLists:
    """A ufunc that also takes lists with traced entries.

    It has the attributes of the ufunc, is equal to it, and is an instance of `np.ufunc` for tests of types.
    """

    __slots__ = ("__wrapped__", "_stacking")

    def __init__(self, ufunc: np.ufunc):
        self.__wrapped__ = ufunc
        self._stacking = stacking_lists(ufunc)

    def __call__(self, *args, **kwargs):
        for x in args:
            if type(x) in SEQUENCES:
                return self._stacking(*args, **kwargs)
        return self.__wrapped__(*args, **kwargs)

    @property
    def __class__(self):
        return np.ufunc

    def __getattr__(self, name: str):
        found = getattr(self.__wrapped__, name)
        return stacking_lists(found) if name in METHODS else found

    def __eq__(self, other):
        return self.__wrapped__ == (other.__wrapped__ if type(other) is UfuncOfLists else other)

    def __hash__(self):
        return hash(self.__wrapped__)

    def __repr__(self):
        return repr(self.__wrapped__)


def of_lists(module) -> dict[str, tuple]:
    """Return ``{name: (original, what makes the stand-in)}`` for the ufuncs of a module."""
    found = ((name, value) for name, value in vars(module).items() if type(value) is np.ufunc)
    return {name: (ufunc, functools.partial(_of_lists, ufunc)) for name, ufunc in found}


@functools.cache
def _of_lists(ufunc: np.ufunc) -> UfuncOfLists:
    return UfuncOfLists(ufunc)
