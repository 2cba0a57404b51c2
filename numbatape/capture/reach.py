"""What of the user's code a function can reach, and whether any of it needs a stand-in while tracing."""

from __future__ import annotations

import types

import numpy as np

from ..usercode.bytecode import DYNAMIC, globals_used, imports, names_of, passed_on
from ..usercode.ownership import MARK, is_users_function, is_users_object_class, module_of
from .conversions import CALLS, calling_types
from .holders import CACHED, parts_of
from .references import GLOBAL, Reference, Walk, contents, of_function, of_module, references


def python_function(value) -> types.FunctionType | None:
    """Return the user's Python function behind a value: itself, or a Numba dispatcher's.

    A library's function with a user's function in its closure (from a decorator) counts, too.
    """
    if type(value) is not types.FunctionType:
        if not module_of(value).startswith("numba."):
            return None
        value = getattr(value, "py_func", None)
        if type(value) is not types.FunctionType:
            return None
    if MARK in value.__globals__:
        return None  # the function is a copy, or code of a copy has defined it
    if is_users_function(value):
        return value
    return value if any(_is_users_function(part) for _, _, part in contents(value)) else None


def _is_users_function(value) -> bool:
    return type(value) is types.FunctionType and MARK not in value.__globals__ and is_users_function(value)


def used_globals(function: types.FunctionType):
    """Yield ``(name, attributes)`` of the globals and builtins that a function may use.

    The attributes are those that its code may read from the global; None for any, where the code passes it
    on.
    """
    code = function.__code__
    names, handed_on = names_of(code), passed_on(code)
    if names.isdisjoint(DYNAMIC):
        for name in globals_used(code):
            yield name, None if name in handed_on else names
    else:
        for name in names.union(function.__globals__):
            yield name, None


class Reach(Walk):
    """Everything of the user that some values refer to, directly or indirectly.

    Attributes
    ----------
    functions
        The user's functions.
    others
        ``(value, names)`` of other values: the names are the attributes that code reads off a module, None
        where it may read any.
    """

    def __init__(self, *values):
        super().__init__()
        self.functions: list[types.FunctionType] = []
        self.others: list[tuple] = []
        self.walk(*map(Reference, values))

    def visit(self, reference: Reference):
        value = reference.value
        helper = python_function(value)
        if helper is value:
            self.functions.append(helper)
            return _of_helper(helper)
        names = reference.asked if type(value) is types.ModuleType else None
        self.others.append((value, names))
        if helper is not None:
            return (Reference(helper),)
        if type(value) is types.ModuleType:
            return of_module(value, names, reference.code)
        if type(value) is types.FunctionType:  # a library's functions are not copied
            return map(Reference, parts_of(value))
        return references(value)

    def reads(self, assigned: set[tuple[int, str]]) -> bool:
        """Whether a function reads one of some global variables, given as (id of the globals, name)."""
        return bool(assigned) and any(
            (id(function.__globals__), name) in assigned
            for function in self.functions
            for name, _ in used_globals(function)
        )

    def needs(self, known) -> bool:
        """Whether a table has a stand-in for any of these values."""
        functions = (_function_needs(function, known) for function in self.functions)
        return any(functions) or any(_other_needs(value, names, known) for value, names in self.others)


class _Found(Exception):
    """Ends a search."""


class _Search(Reach):
    """A walk that ends at the first value which needs a stand-in."""

    def __init__(self, value, known, objects: bool):
        self.known, self._objects = known, objects
        super().__init__(value)

    def visit(self, reference: Reference):
        found = super().visit(reference)
        value = reference.value
        if self._objects and (is_users_object_class(type(value)) or python_function(value) is not None):
            raise _Found
        if python_function(reference.value) is reference.value:
            needs = _function_needs(self.functions[-1], self.known)
        else:
            needs = _other_needs(*self.others[-1], self.known)
        if needs:
            raise _Found
        return found


def needs_stand_in(value, known, objects: bool = False) -> bool:
    """Whether a table has a stand-in for anything that a value refers to, directly or indirectly.

    With ``objects``, all functions and all objects of the user's classes need one, because what they read is
    observed, or is an input.
    A class of a library that was given to a verb refers to a thousand functions, of which most need one.
    """
    try:
        _Search(value, known, objects)
    except _Found:
        return True
    return False


def _function_needs(function: types.FunctionType, known) -> bool:
    code = function.__code__
    if imports(code) or not names_of(code).isdisjoint((*known.builtins, *CALLS)):
        return True
    return calling_types(code, function.__globals__) is not code


def _other_needs(value, names, known) -> bool:
    if known.stand_in(value) is not None or python_function(value) is not None:
        return True
    if type(value) is np.vectorize or (type(value) is CACHED and parts_of(value)):
        return True
    if type(value) is not types.ModuleType:
        return False
    replaced, _ = known.modules.get(id(value), (frozenset(), None))
    return bool(replaced) and (names is None or not replaced.isdisjoint(names))


def _of_helper(function: types.FunctionType) -> list[Reference]:
    """Return what a function refers to; if its code may use names that it does not show, all globals."""
    found = of_function(function)
    if is_users_function(function) and not names_of(function.__code__).isdisjoint(DYNAMIC):
        scope = function.__globals__
        found += [Reference(scope[name], GLOBAL, scope, name) for name in scope if name != "__builtins__"]
    return found
