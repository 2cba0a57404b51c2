"""Modules that stand in for others while a function is traced."""

from __future__ import annotations

import functools
import types

_DICTIONARY = vars(types.ModuleType)["__dict__"]


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
    """

    def __init__(self, original: types.ModuleType, replaced: dict, late: dict):
        super().__init__(original.__name__, original.__doc__)
        scope = _DICTIONARY.__get__(self)
        scope.update({name: value for name, value in vars(original).items() if name not in late})
        scope.update(replaced)

        def missing(name):
            if name not in late:
                return getattr(original, name)  # an attribute that was added later
            made = scope[name] = late[name]()
            return made

        scope["__getattr__"] = missing
        scope["__dir__"] = functools.partial(dir, original)
        self.__numbatape_late__ = frozenset(late)

    @property
    def __dict__(self):
        for name in self.__numbatape_late__:
            getattr(self, name)
        return _DICTIONARY.__get__(self)


class UsersModule(types.ModuleType):
    """The stand-in for a module of the user: an attribute's stand-in is found when the attribute is read.

    So modules may refer to each other in circles, and code may look up names that it computes. Assignments
    go to the module itself.
    """

    def __init__(self, original: types.ModuleType, stand_in):
        super().__init__(original.__name__, original.__doc__)
        put = super().__setattr__
        put("__numbatape_own__", original)
        put("__numbatape_stand_in__", stand_in)
        for name, value in vars(original).items():
            if name.startswith("__") and name.endswith("__") and name != "__getattr__":
                put(name, value)

    def __getattr__(self, name):
        return self.__numbatape_stand_in__(getattr(self.__numbatape_own__, name))

    def __setattr__(self, name, value):
        setattr(self.__numbatape_own__, name, value)

    def __delattr__(self, name):
        delattr(self.__numbatape_own__, name)

    def __dir__(self):
        return dir(self.__numbatape_own__)

    @property
    def __dict__(self):
        stand_in = self.__numbatape_stand_in__
        return {name: stand_in(value) for name, value in vars(self.__numbatape_own__).items()}
