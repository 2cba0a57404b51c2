"""Copies of the user's functions, classes and objects that refer to stand-ins.

The originals stay as they are. A class becomes a subclass whose members are copies, so that constructors,
properties, static and class methods are reached; its objects become the class's own again when the trace ends
(`restore`). A captured object becomes another of that subclass with the same attributes, not copies of them.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import types

import numpy as np

from . import pytrees
from .code import names_of
from .functions.vectorize import with_function
from .ownership import is_users_function
from .references import (
    ATOMS,
    CACHED,
    Reach,
    assigns_attributes,
    fields_of,
    functions_in,
    globals_assigned,
    helpers_of,
    imports,
    members_of,
    python_function,
    small,
    users_classes,
)
from .trace import current


def copy_module(module: types.ModuleType, replaced: dict) -> types.ModuleType:
    """Return a module with the same attributes but for the replaced ones.

    A real module, so that looking up an attribute costs what it always does.
    """
    proxy = types.ModuleType(module.__name__, module.__doc__)
    proxy.__dict__.update(vars(module))
    proxy.__dict__.update(replaced)
    proxy.__dict__["__getattr__"] = functools.partial(getattr, module)  # what is loaded later
    return proxy


class Copies:
    """The copies made for one trace.

    Parameters
    ----------
    known
        The table of stand-ins.
    again
        Makes the table anew, for what is imported while tracing.
    """

    def __init__(self, known, again):
        self.known, self._again = known, again
        self._functions: dict[int, object] = {}
        self._scopes: dict[int, dict] = {}
        self._cells: dict[int, types.CellType] = {}
        self._modules: dict[int, types.ModuleType] = {}
        self._objects: dict[int, object] = {}
        self._classes: dict[type, type] = {}
        self._kept: list = []  # originals, so that an id stays its own

    # ---- anything

    def value(self, value, names=None):
        """Return what stands for a value in the copies; ``names`` are those that the code around it uses."""
        if isinstance(value, ATOMS):
            return value
        stand_in = self.known.stand_in(value)
        if stand_in is not None:
            return stand_in
        if type(value) is np.vectorize:
            return with_function(value, self.value(value.pyfunc, names))
        if value.__class__ is types.ModuleType:
            replaced, proxy = self.known.modules.get(id(value), (frozenset(), None))
            if replaced and (names is None or not replaced.isdisjoint(names)):
                return proxy
            return self._module(value, names)
        helper = python_function(value)
        if helper is not None:
            return self.function(helper)
        found = self._objects.get(id(value))
        if found is None:
            found = self._other(value)
            self._objects[id(value)] = found
            self._kept.append(value)
        return found

    def _other(self, value):
        """Return what stands for an object, a class, a method, a container."""
        if value.__class__ is types.MethodType:
            function, owner = (self.value(part) for part in functions_in(value))
            same = function is value.__func__ and owner is value.__self__
            return value if same or not callable(function) else types.MethodType(function, owner)
        if value.__class__ is functools.partial:
            parts = list(map(self.value, functions_in(value)))
            if all(map(_is, parts, functions_in(value))):
                return value
            count = 1 + len(value.args)
            keywords = dict(zip(value.keywords, parts[count:], strict=True))
            return functools.partial(parts[0], *parts[1:count], **keywords)
        if isinstance(value, CACHED) and functions_in(value):
            inner = self.value(value.__wrapped__)  # with a cache of its own: traced values stay inside
            return (
                value
                if inner is value.__wrapped__
                else functools.lru_cache(**value.cache_parameters())(inner)
            )
        if small(value):
            return self._container(value)
        if isinstance(value, type):
            return self.subclass(value) if self._needed(value) else value
        if users_classes(type(value)):
            return self._object(value)
        return value

    def _container(self, value):
        """Return a container of other entries; the same where none is replaced, or some may change."""
        entries = list(small(value))
        parts = list(map(self.value, entries))
        if all(map(_is, parts, entries)):
            return value
        if value.__class__ is dict:
            return dict(zip(value, parts, strict=True))
        return value.__class__(parts)

    def _needed(self, value) -> bool:
        return bool(users_classes(value if isinstance(value, type) else type(value))) and Reach(value).needs(
            self.known
        )

    # ---- functions

    def function(self, original: types.FunctionType):
        """Return a copy of a function with other globals and another closure."""
        found = self._functions.get(id(original))
        if found is not None:
            return found
        code = original.__code__
        scope = self._scope(original) if is_users_function(original) else original.__globals__
        # Closures are copied after the function is known, which may refer to itself.
        cells = original.__closure__
        closure = None
        if cells is not None:
            closure = tuple(
                cell if name == "__class__" else self._new_cell(cell)
                for name, cell in zip(code.co_freevars, cells, strict=True)
            )
        copy = types.FunctionType(code, scope, original.__name__, None, closure)
        self._functions[id(original)] = result = self._writing_back(copy, original)
        self._kept.append(original)
        names = names_of(code)
        copy.__qualname__, copy.__doc__ = original.__qualname__, original.__doc__
        copy.__module__ = original.__module__
        copy.__defaults__ = original.__defaults__ and tuple(
            self.value(v, names) for v in original.__defaults__
        )
        if original.__kwdefaults__:
            copy.__kwdefaults__ = {k: self.value(v, names) for k, v in original.__kwdefaults__.items()}
        if assigns_attributes(code):
            copy.__dict__ = original.__dict__  # its own, perhaps
        else:
            copy.__dict__.update(original.__dict__)
        if scope is not original.__globals__:
            for name in names:
                if name not in original.__globals__:
                    if name in self.known.builtins:
                        scope[name] = self.known.builtins[name]
                elif name in scope:
                    value = original.__globals__[name]
                    replaced = self.value(value, names)
                    if replaced is not value:  # else another function's names may have replaced it
                        scope[name] = replaced
        for cell in cells or ():
            new = self._cells.get(id(cell), cell)
            if new is not cell:
                new.cell_contents = self.value(cell.cell_contents, names)
        return result

    def _scope(self, original) -> dict:
        """Return the copy of a function's globals, which functions of one module share."""
        scope = self._scopes.get(id(original.__globals__))
        if scope is None:
            scope = self._scopes[id(original.__globals__)] = dict(original.__globals__)
        if imports(original.__code__):
            scope["__builtins__"] = {**vars(builtins), "__import__": self._import}
        return scope

    def _import(self, name, scope=None, local=None, fromlist=(), level=0):
        """Import what code imports when it runs, and return what stands for it."""
        module = builtins.__import__(name, scope, local, fromlist, level)
        self.known = self._again()
        return self.value(module, frozenset(fromlist) if fromlist else None)

    def _writing_back(self, copy, original):
        """Return a function whose assignments to globals reach the original's."""
        names = globals_assigned(original.__code__)
        if not names or copy.__globals__ is original.__globals__ or inspect.isgeneratorfunction(copy):
            return copy
        scope, globals_ = copy.__globals__, original.__globals__

        @functools.wraps(copy)
        def writing_back(*args, **kwargs):
            try:
                return copy(*args, **kwargs)
            finally:
                for name in names:
                    if name in scope:
                        globals_[name] = scope[name]

        return writing_back

    def _new_cell(self, cell):
        """Return the cell itself unless its content is replaced: assignments must be seen."""
        found = self._cells.get(id(cell))
        if found is None:
            found = cell
            with contextlib.suppress(ValueError):
                if self._replaces(cell.cell_contents):
                    found = types.CellType()
            self._cells[id(cell)] = found
        return found

    def _replaces(self, value) -> bool:
        """Whether something may stand for a value; decided without making it, as it may refer back."""
        return not isinstance(value, ATOMS) and (
            self.known.stand_in(value) is not None
            or value.__class__ is types.ModuleType
            or python_function(value) is not None
            or Reach(value).needs(self.known)
        )

    # ---- classes and objects

    def _object(self, original):
        """Return an object with the same attributes whose members are copies."""
        cls = type(original)
        if not hasattr(original, "__dict__") or cls not in users_classes(cls) or not self._needed(original):
            return original
        # Not of tuples and their like, which cannot be made without their contents.
        with contextlib.suppress(TypeError):
            made = self.subclass(cls)
            result = object.__new__(made)
            object.__setattr__(result, "__dict__", original.__dict__)
            self._objects[id(original)] = result  # its attributes may lead back to it
            self._note(result, cls)
            for name, part in fields_of(original).items():
                if self.value(part) is not part and not hasattr(cls, name):
                    type.__setattr__(made, name, self._attribute(name))
            return result
        return original

    def _attribute(self, name: str) -> property:
        """Return what gives an attribute's stand-in, whoever assigns to it."""

        def get(owner):
            try:
                return self.value(owner.__dict__[name])
            except KeyError:
                raise AttributeError(name) from None

        def put(owner, value):
            owner.__dict__[name] = value

        def delete(owner):
            del owner.__dict__[name]

        return property(get, put, delete)

    def adopt(self, objects) -> None:
        """Let objects that the trace has made be of the stand-ins for their classes, until it ends."""
        for each in objects:
            cls = type(each)
            if self._needed(cls):
                object.__setattr__(each, "__class__", self.value(cls))
                self._note(each, cls)

    @staticmethod
    def _note(made, cls: type) -> None:
        """Note an object that is to be of its own class again."""
        trace = current()
        if trace is not None:
            trace.stand_ins.append((made, cls))

    def subclass(self, cls: type) -> type:
        """Return a subclass with copied members; ``super()`` finds copies too."""
        found = self._classes.get(cls)
        if found is None:
            made: dict[type, type] = {}
            meta = _standing(type(cls))
            for base in reversed(users_classes(cls)):
                parents = (base, *reversed(made.values())) if base is cls else (base,)
                body = {"__slots__": (), "__module__": base.__module__, "__qualname__": base.__qualname__}
                made[base] = meta(base.__name__, parents, {**body, "__numbatape_own__": base})
            found = self._classes[cls] = made[cls]
            for base, own in made.items():
                for name, member in members_of(base).items():
                    copy = self._member(member)
                    if copy is not member:
                        type.__setattr__(own, name, copy)
                        if isinstance(copy, functools.cached_property):
                            copy.__set_name__(own, name)
        return found

    def _member(self, member):
        """Return what stands for what a class defines."""
        if isinstance(member, (staticmethod, classmethod)):
            function = self.value(member.__func__)
            return member if function is member.__func__ else type(member)(function)
        if member.__class__ is property:
            functions = functions_in(member)
            copies = [f and self.value(f) for f in functions]
            return member if all(map(_is, copies, functions)) else property(*copies, member.__doc__)
        if isinstance(member, functools.cached_property):
            function = self.value(member.func)
            return member if function is member.func else functools.cached_property(function)
        return self.value(member)

    def _module(self, module, names):
        """Return a copy of a user's module, with copies of what code may use."""
        copy = self._modules.get(id(module))
        for name, helper in helpers_of(module, names).items():
            replaced = self.value(helper, names)
            if replaced is not helper:
                if copy is None:
                    copy = self._modules[id(module)] = copy_module(module, {})
                copy.__dict__[name] = replaced
        return module if copy is None else copy


def _standing(meta: type) -> type:
    """Return a metaclass for what stands for a class: it counts the class's objects as its own."""

    class Standing(meta):  # type: ignore[misc, valid-type]
        def __call__(self, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            trace, own = current(), self.__numbatape_own__
            if trace is not None and type(made) is self:
                trace.stand_ins.append((made, own))
            return made

        def __setattr__(self, name, value):
            if name in vars(self):
                super().__setattr__(name, value)
            setattr(self.__numbatape_own__, name, value)  # whoever looks at the class must see it

        def __delattr__(self, name):
            if name in vars(self):
                super().__delattr__(name)
            delattr(self.__numbatape_own__, name)

        def __instancecheck__(self, instance):
            return isinstance(instance, self.__numbatape_own__)

        def __subclasscheck__(self, other):
            return issubclass(other, self.__numbatape_own__)

    return Standing


def _is(left, right) -> bool:
    return left is right


def restore(trace) -> None:
    """Give the objects that a trace made back to their own classes."""
    for made, cls in trace.stand_ins:
        standing = type(made)
        with contextlib.suppress(TypeError):  # a class whose objects are laid out in another way
            object.__setattr__(made, "__class__", cls)
        if standing is not cls:
            pytrees.forget(standing)
    trace.stand_ins.clear()
