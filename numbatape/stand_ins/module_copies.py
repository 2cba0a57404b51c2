"""Modules that stand in for others while a function is traced, and functions that return such modules."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, MutableMapping

import numpy as np

from ..trace import operations
from ..trace.complex_parts import is_traced
from ..trace.plain_arrays import is_plain
from ..trace.trace import current, standing

# Names of the module ``time`` that `time.tzset` sets anew.
CHANGING = ("timezone", "altzone", "daylight", "tzname")
_DICTIONARY = vars(types.ModuleType)["__dict__"]
NONE: Mapping = types.MappingProxyType({})


class ModuleCopy(types.ModuleType):
    """A module with the attributes of another one, except for those that are replaced.

    Replaced attributes are made when they are first read, or when code asks for the whole dictionary.

    Parameters
    ----------
    original
        The other module.
    replaced
        Attributes that replace the module's own.
    late
        Makers of further attributes, called when these are first read.
    like_users
        Names of classes and functions that are copied like the user's, once for each trace.
    stand_in
        Finds such a copy in the running trace.
    """

    def __init__(
        self, original: types.ModuleType, replaced: dict, late: dict, like_users: frozenset[str], stand_in
    ):
        super().__init__(original.__name__, original.__doc__)
        scope = _DICTIONARY.__get__(self)
        own, others = vars(original).items(), {*late, *like_users, *CHANGING}
        scope.update({name: value for name, value in own if name not in others})
        scope.update(replaced)

        def missing(name):
            if name in like_users:
                return stand_in(getattr(original, name))
            if name not in late:
                return getattr(original, name)  # an attribute that was added to the module later
            made = scope[name] = late[name]()
            return made

        scope["__getattr__"] = missing
        scope["__dir__"] = functools.partial(dir, original)
        self.__numbatape_late__ = frozenset(late)
        self.__numbatape_original__ = original

    # SciPy compares the modules of its operands.
    def __eq__(self, other):
        return self.__numbatape_original__ is getattr(other, "__numbatape_original__", other)

    def __hash__(self):
        return hash(self.__numbatape_original__)

    @property
    def __dict__(self):
        for name in self.__numbatape_late__:
            getattr(self, name)
        return _DICTIONARY.__get__(self)


class UsersModule(types.ModuleType):
    """The stand-in for a module of the user: an attribute's stand-in is found when the attribute is read.

    So modules may refer to each other in circles, and code may look up names that it computes. Assignments
    go to the module itself, and to the globals of copies of its functions.

    Parameters
    ----------
    original
        The module.
    stand_in
        Returns the stand-in for a value.
    scopes
        By the ids of dictionaries of globals, copies of these.
    originals
        By the ids of stand-ins, what they stand for, which the module itself gets.
    """

    def __init__(
        self, original: types.ModuleType, stand_in, scopes: Mapping = NONE, originals: Mapping = NONE
    ):
        super().__init__(original.__name__, original.__doc__)
        put = super().__setattr__
        put("__numbatape_own__", original)
        put("__numbatape_stand_in__", stand_in)
        put("__numbatape_scopes__", scopes)
        put("__numbatape_originals__", originals)
        for name, value in vars(original).items():
            if name.startswith("__") and name.endswith("__") and name != "__getattr__":
                put(name, value)

    def __getattr__(self, name):
        return self.__numbatape_stand_in__(getattr(self.__numbatape_own__, name))

    def __setattr__(self, name, value):
        setattr(self.__numbatape_own__, name, self.__numbatape_originals__.get(id(value), value))
        self.__numbatape_scopes__.get(id(vars(self.__numbatape_own__)), {})[name] = value

    def __delattr__(self, name):
        delattr(self.__numbatape_own__, name)
        self.__numbatape_scopes__.get(id(vars(self.__numbatape_own__)), {}).pop(name, None)

    def __dir__(self):
        return dir(self.__numbatape_own__)

    @property
    def __dict__(self):
        return _Attributes(self)


class _Attributes(dict):
    """The stand-ins for the attributes of a module of the user; assignments are those to its attributes."""

    def __init__(self, module: UsersModule):
        own, stand_in = vars(module.__numbatape_own__), module.__numbatape_stand_in__
        super().__init__({name: stand_in(value) for name, value in own.items()})
        self._module = module

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        setattr(self._module, name, value)

    def __delitem__(self, name):
        super().__delitem__(name)
        delattr(self._module, name)

    def __ior__(self, others):
        self.update(others)
        return self

    update, setdefault = MutableMapping.update, MutableMapping.setdefault  # by way of the methods above
    pop, popitem, clear = MutableMapping.pop, MutableMapping.popitem, MutableMapping.clear


# ---- functions that return modules: while tracing, they return the stand-in for the module

NAMESPACES = (
    "scipy._lib._array_api",
    *(
        package + name
        for package in ("", "scipy._lib.", "scipy._external.")
        for name in ("array_api_compat", "array_api_compat.common")
    ),
)


def _importing(original):
    def import_module(name, package=None):
        return standing(original(name, package))

    return import_module


def _choosing(original):
    """Return the stand-in for ``array_namespace``: traced values count as NumPy's arrays.

    While tracing, the answer is NumPy's stand-in also for plain arrays, since a library uses the module for
    other arguments as well, such as numbers and lists of numbers.
    """

    def array_namespace(*xs, **options):
        found = original(*(x._value if is_traced(x) or is_plain(x) else x for x in xs), **options)
        if current() is None or found.__name__.rpartition(".")[2] != "numpy":
            return found
        # Code that asks for the module may write to what it makes by it, also where the user's does not.
        return operations.module_in_traces(np)

    return array_namespace


REPLACED = {  # The keys are modules and names, as in `clocks_and_files`.
    "importlib": {"import_module": _importing},
    **{name: {"array_namespace": _choosing} for name in NAMESPACES},
}
