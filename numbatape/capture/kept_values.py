"""Traced values that a function has kept (``self.last = x``, ``history.append(loss)``) become plain numbers.

When a trace ends, everything that its function refers to is searched, and traced values are replaced by the
numbers of the call, which plain NumPy would have left there.
"""

from __future__ import annotations

import collections
import types

import numpy as np

from ..trace.aliasing import duplicates, root_of
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import PlainArray, PlainComplex
from ..usercode.bytecode import globals_assigned
from ..usercode.ownership import is_users_class
from .references import (
    FIELDS,
    SLOT,
    contents,
    is_dead_proxy,
    is_users_attribute,
    members_of,
    of_object,
    slots_of,
)

_KINDS = frozenset((TracedArray, TracedComplex, TracedInteger, PlainArray, PlainComplex))
_LISTS = (list, collections.deque)
_NUMBERS = frozenset((float, int, bool, str, type(None), np.float64, np.ndarray))


class Kept:
    """What a trace leaves behind in the objects that its function refers to.

    Attributes
    ----------
    found
        Whether a traced value was kept.
    """

    def __init__(self, trace):
        self._trace = trace
        copies = trace.capture.copies
        # Stand-ins that were stored become what they stand in for, once no trace needs them any more.
        self._original = copies.original if copies is not None and copies.belong_to(trace) else _itself
        self._of_modules = [] if copies is None else copies.names_of_modules()
        self.found = False
        self._seen: dict[int, object] = {}
        # Names that referred to one array, or to views of it, do so afterwards. Hence copies are found by the
        # id of the array that owns the memory, and replacements by the id of the traced value.
        self._copies: dict[int, np.ndarray] = {}
        self._plain: dict[int, tuple] = {}

    def settle(self, reached) -> None:
        """Replace traced values by numbers, in objects and in their contents."""
        for value in reached:
            self._replacement(value)
        for names in self._of_modules:
            for name, value in tuple(names.items()):
                if type(value) in _KINDS:
                    self._replace(value, lambda new, names=names, name=name: names.__setitem__(name, new))

    def _replacement(self, value):
        """Return the replacement of a value: the value itself, changed inside, or its numbers."""
        value = self._original(value)
        kind = type(value)
        if kind in _KINDS:
            return self._numbers_of(value)
        if kind in _NUMBERS and (kind is not np.ndarray or value.dtype != object):
            return value
        if kind is tuple:
            parts = [self._replacement(part) for part in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else tuple(parts)
        if id(value) not in self._seen:
            self._seen[id(value)] = value
            self._look_into(value)
        return value

    def _numbers_of(self, value):
        """Return what stands in the place of a traced value: an argument's original, or NumPy's numbers."""
        trace = value._trace
        if trace is not self._trace:
            return value  # The value belongs to an enclosing trace, which replaces it later.
        original = trace.capture.arrays.original(value) if trace.capture.arrays is not None else None
        if original is not None:
            return original
        self.found = True
        if type(value) is TracedInteger:
            return value._value
        number = value._value
        if type(number) in _KINDS:  # code of SciPy for any array library passes plain arrays of the trace on
            return self._numbers_of(number)
        if not isinstance(number, np.ndarray):
            return number
        if id(value) not in self._plain:
            copy = duplicates(number, self._copies)
            owner = root_of(number) is number
            self._plain[id(value)] = value, self._copies[id(number)] if owner else copy
        return self._plain[id(value)][1]

    def _look_into(self, value) -> None:
        """Replace traced values in an object that the function refers to by their numbers.

        The object may be a container, a function with its variables, a class, or an instance of a user's
        class.
        """
        if is_dead_proxy(value):
            return
        if isinstance(value, (*_LISTS, np.ndarray)):
            if isinstance(value, np.ndarray):
                if not value.dtype.hasobject:
                    return
                value = np.asarray(value)
                value = value.reshape(-1) if value.flags.c_contiguous else value.flat
            elif _NUMBERS.issuperset(map(type, value)):
                return
            for k, part in enumerate(value):
                if type(part) in _NUMBERS:
                    continue
                self._replace(part, lambda new, k=k: value.__setitem__(k, new))
        elif isinstance(value, dict):
            self._look_into_names(value)
        elif isinstance(value, set):
            if not (_KINDS | {tuple}).isdisjoint(map(type, value)):
                members = [self._replacement(part) for part in value]
                value.clear()
                value.update(members)
        elif isinstance(value, types.FunctionType):
            for _, cell, part in contents(value):
                self._replace(part, lambda new, cell=cell: setattr(cell, "cell_contents", new))
            if any(map(is_users_attribute, vars(value))):
                self._look_into_names(vars(value))
            scope = value.__globals__
            for name in globals_assigned(value.__code__):
                if name in scope:
                    self._replace(scope[name], lambda new, name=name: scope.__setitem__(name, new))
        elif isinstance(value, type):
            if is_users_class(value):
                for name, part in members_of(value).items():
                    self._replace(part, lambda new, name=name: setattr(value, name, new))
        elif is_users_class(type(value)) or isinstance(value, types.SimpleNamespace):
            for reference in of_object(value):
                if reference.kind is FIELDS:
                    self._look_into_names(reference.value)
                elif reference.kind is SLOT:
                    slot = slots_of(type(value))[reference.name]
                    self._replace(reference.value, lambda new, slot=slot: slot.__set__(value, new))

    def _look_into_names(self, names: dict) -> None:
        if not (_KINDS | {tuple}).isdisjoint(map(type, names)):
            items = [(self._replacement(key), part) for key, part in names.items()]
            # The user's class may update in another way: a Counter counts pairs.
            kind = collections.OrderedDict if isinstance(names, collections.OrderedDict) else dict
            kind.clear(names)
            kind.update(names, items)
        for key, part in list(names.items()):
            self._replace(part, lambda new, key=key: names.__setitem__(key, new))

    def _replace(self, part, put) -> None:
        new = self._replacement(part)
        if new is not part:
            put(new)


def _itself(value):
    return value
