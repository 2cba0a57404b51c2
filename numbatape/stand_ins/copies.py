"""Copies of the user's functions that refer to stand-ins.

The originals do not change. `numbatape.stand_ins.copied_classes` is about classes and objects.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import types
from collections.abc import Iterator
from operator import is_

import numpy as np

from ..capture.conversions import CALLS, OF_LIBRARIES, TYPES, TYPES_NAME, calling_types
from ..capture.holders import CACHED, holder_of
from ..capture.moving_names import MovingName, key_of
from ..capture.reach import needs_stand_in, python_function, used_globals
from ..capture.references import atoms_only, contents, is_atom, is_users_attribute
from ..late import imported
from ..trace import operations
from ..trace.trace import current
from ..usercode.bytecode import (
    assigns_any_global,
    assigns_attributes,
    globals_assigned,
    imports,
    names_of,
)
from ..usercode.ownership import (
    MARK,
    is_librarys_name,
    is_users_function,
    is_users_module,
    lent_classes,
    users_classes,
)
from .clocks_and_files import note_error_state
from .copied_classes import CopiedClasses
from .module_copies import UsersModule


class Copies(CopiedClasses):
    """The copies made for one trace.

    Parameters
    ----------
    known
        The table of stand-ins.
    again
        Makes the table again, after something was imported while tracing.
    """

    def __init__(self, known, again):
        super().__init__()
        self.known, self._again = known, again
        self._functions: dict[int, object] = {}
        self._scopes: dict[int, dict] = {}
        self._cells: dict[int, types.CellType] = {}
        self._copied_items: dict[int, list | dict] = {}  # by the id of the original's, if some are inputs
        self._modules: dict[int, UsersModule] = {}
        self._kept: list = []  # originals, kept alive so that no other objects get their ids
        # (id of a function's globals, name) of each global that copies have assigned. The original function
        # sees these assignments when the trace ends.
        self.assigned: set[tuple[int, str]] = set()

    def owns_function(self, function: types.FunctionType) -> bool:
        """Whether a function's copy refers to stand-ins by its globals, and not only by its closure."""
        return is_users_function(function)

    def owns_module(self, module: types.ModuleType) -> bool:
        """Whether the attributes of a module have stand-ins."""
        return is_users_module(module)

    # ---- anything

    def value(self, value, names=None):
        """Return the stand-in for a value in the copies.

        Parameters
        ----------
        value
            Anything that the user's code refers to.
        names
            The attributes that code reads, if it uses the value (a module) for nothing else.
        """
        if is_atom(value):
            return value
        stand_in = self.known.stand_in(value)
        if stand_in is not None:
            return stand_in
        if type(value) is types.ModuleType:
            return self._module(value, names)
        if type(value) is np.vectorize:
            return operations.with_function(value, self.value(value.pyfunc))
        if type(value) is np.errstate:  # a function that it decorates refers to the very object
            note_error_state(value)
            return value
        helper = python_function(value)
        if helper is not None:
            return self.function(helper)
        found = self._objects.get(id(value))
        if found is value and id(value) in self._unfinished:  # what it holds refers to it
            self.exposed.add(id(value))
            if self._uses is not None:
                self._uses.hidden = True
        if found is None:
            # Noted before its parts are, because an object may refer to itself.
            self._objects[id(value)] = value
            self._kept.append(value)
            self._unfinished[id(value)] = []
            found = self._objects[id(value)] = self._other(value)
            if found is value:
                self.exposed.discard(id(value))
            for made, name in self._unfinished.pop(id(value)):
                self._put_member(made, name, found)
        return found

    def _other(self, value):
        """Return the stand-in for an object, a class, a method or a container."""
        holder = holder_of(value)
        if type(value) is CACHED and _asks_caches():
            return value
        if holder is not None:
            parts = holder.parts(value)
            items = _items_of(value)
            moves = id(items) in self._holders
            if atoms_only(parts) and not moves:
                return value
            copies = [self.value(part) for part in parts]
            if moves:
                self._put_inputs(items, copies)
            if all(map(is_, copies, parts)) and type(value) is not CACHED and not moves:
                return value  # but what a cache keeps of this trace must not stay in it
            made = holder.made(value, copies)
            if moves:
                self._copied_items[id(items)] = _items_of(made)
            self._objects[id(made)] = made
            self._own[id(made)] = value
            self._kept.append(made)
            if holder.changed is not None:
                self.filled.append((value, made, parts, copies, holder))
            return made
        if lent_classes(value if isinstance(value, type) else type(value)):
            self._lend(value)
            return value
        if isinstance(value, type):
            return self.subclass(value) if self._needed(value) else value
        return self._object(value) if users_classes(type(value)) else value

    def _put_inputs(self, items: list | dict, copies: list) -> None:
        """Put the traced values of items that are inputs among the parts of a container's copy."""
        keys = [*range(len(items))] if type(items) is list else [*items]
        for k, key in enumerate(keys, len(copies) - len(keys)):
            copies[k] = self.moving_value(key, items, copies[k])

    def _module(self, module, names):
        """Return the stand-in for a module: a copy for NumPy and the like, a view for a user's module."""
        replaced, proxy = self.known.modules.get(id(module), (frozenset(), None))
        if replaced and (names is None or not replaced.isdisjoint(names)):
            return proxy
        if not self.owns_module(module):
            return module
        found = self._modules.get(id(module))
        if found is None:
            found = self._modules[id(module)] = UsersModule(module, self.value, self._scopes, self._own)
        return found

    def names_of_modules(self) -> list[dict]:
        """Return the attributes of the user's modules that have a stand-in."""
        return [vars(each.__numbatape_own__) for each in self._modules.values()]

    # ---- functions

    def function(self, original: types.FunctionType):
        """Return a copy of a function with other globals and another closure."""
        found = self._functions.get(id(original))
        if found is not None:
            return found
        code = original.__code__
        scope = self._scope(original) if self.owns_function(original) else original.__globals__
        # The closure is copied after the function, because it may refer to the function.
        cells = original.__closure__
        closure = None
        if cells is not None:
            closure = tuple(
                cell if name == "__class__" else self._new_cell(cell)
                for name, cell in zip(code.co_freevars, cells, strict=True)
            )
        if scope is not original.__globals__:
            code = self._calling(code, original.__globals__, scope)
        copy = types.FunctionType(code, scope, original.__name__, None, closure)
        result = self._writing_back(copy, original)
        self._functions[id(original)] = self._functions[id(result)] = result
        self._own[id(result)] = original
        self._kept += original, result
        copy.__qualname__, copy.__doc__ = original.__qualname__, original.__doc__
        copy.__module__ = original.__module__
        copy.__defaults__ = tuple(self._defaults_of(original)) or None
        if original.__kwdefaults__:
            copy.__kwdefaults__ = {k: self.value(v) for k, v in original.__kwdefaults__.items()}
        copy.__dict__ = attributes = self._attributes_of(original)
        if attributes is original.__dict__:
            result.__dict__ = attributes
        if scope is not original.__globals__:
            for name, asked in used_globals(original):
                if name not in original.__globals__:
                    if name in self.known.builtins:
                        scope[name] = self.known.builtins[name]
                elif name in scope:
                    value = original.__globals__[name]
                    if key_of(name, original.__globals__) in self.moved:
                        continue  # another function has it, and may have assigned to it
                    moving = self.moving_value(name, original.__globals__, value)
                    replaced = self.value(value, asked) if moving is value else moving
                    if replaced is not value:  # another function may have replaced it already
                        scope[name] = replaced
        for cell in cells or ():
            new = self._cells.get(id(cell), cell)
            if new is not cell and key_of("", cell) not in self.moved:
                new.cell_contents = self.value(cell.cell_contents)
        return result

    def _defaults_of(self, original: types.FunctionType) -> Iterator:
        code, defaults = original.__code__, original.__defaults__ or ()
        for k, value in enumerate(defaults, code.co_argcount - len(defaults)):
            moving = self.moving_value(code.co_varnames[k], original, value)
            yield self.value(value) if moving is value else moving

    def _attributes_of(self, original) -> dict:
        """Return the attributes of a function's copy: the same dictionary if none is replaced."""
        own = original.__dict__
        if not own or assigns_attributes(original.__code__):
            return own
        replaced = {
            name: self.value(value) if is_users_attribute(name) else value for name, value in own.items()
        }
        return own if all(map(is_, replaced.values(), own.values())) else replaced

    def _calling(self, code: types.CodeType, globals_: dict, scope: dict) -> types.CodeType:
        """Return code that calls functions of ours in place of builtin types; they are put into the scope."""
        calls = OF_LIBRARIES if is_librarys_name(globals_.get("__name__")) else CALLS
        used = [name for name in calls if name in names_of(code) and name not in globals_]
        names = tuple((name, f"__numbatape_{name}__") for name in used)
        scope.update((new, calls[name]) for name, new in names)
        if names:
            code = imported("..usercode.called_types", __package__).with_calls(code, names)
        scope[TYPES_NAME] = TYPES
        return calling_types(code, globals_)

    def _scope(self, original) -> dict:
        """Return the copy of a function's globals, which the copies of a module's functions share."""
        scope = self._scopes.get(id(original.__globals__))
        if scope is None:
            scope = self._scopes[id(original.__globals__)] = {**original.__globals__, MARK: True}
        if imports(original.__code__):
            scope["__builtins__"] = {**vars(builtins), "__import__": self._import}
        return scope

    def _import(self, name, scope=None, local=None, fromlist=(), level=0):
        """Run an import statement of the user's code, and return the stand-in for its result."""
        module = builtins.__import__(name, scope, local, fromlist, level)
        self.known = self._again()
        return self.value(module, frozenset(fromlist) if fromlist else None)

    def _writing_back(self, copy, original):
        """Return a function that copies its assignments to globals to the original's globals."""
        names: tuple[str, ...] | None = globals_assigned(original.__code__)
        if assigns_any_global(original.__code__):
            names = None
        if names == () or copy.__globals__ is original.__globals__ or inspect.isgeneratorfunction(copy):
            return copy
        scope, globals_ = copy.__globals__, original.__globals__
        self.assigned.update((id(globals_), name) for name in (globals_ if names is None else names))
        return _writing_back(copy, names, scope, globals_)

    def _new_cell(self, cell):
        """Return the cell itself unless its content is replaced: other functions must see assignments."""
        found = self._cells.get(id(cell))
        if found is None:
            found = cell
            with contextlib.suppress(ValueError):
                now = cell.cell_contents
                moving = self.moving_value("", cell, now)
                if moving is not now:
                    found = types.CellType(moving)
                elif self._replaces(now):
                    found = types.CellType()
            self._cells[id(cell)] = found
        return found

    def assigned_to(self, moving: dict[MovingName, object]) -> dict[MovingName, object]:
        """Return what the copies have assigned to variables that are inputs, given their values."""
        found = {}
        for name, value in moving.items():
            holder = name.holder
            if name.key not in self.moved or not name.may_change:
                continue
            if type(holder) is types.CellType:
                now = self._cells[id(holder)].cell_contents
            elif (items := self._copied_items.get(id(holder))) is not None:
                if type(items) is dict and [*items] != [*holder]:
                    raise RuntimeError("a dictionary with an item that is an input has got other keys")
                now = items[name.name]
            elif id(holder) in self._scopes:
                now = self._scopes[id(holder)][name.name]
            else:
                now = name.read() if name.key in self._reassigned else value
            if now is not value:
                found[name] = now
        return found

    def _replaces(self, value) -> bool:
        """Whether a value may have a stand-in.

        This is decided without making the stand-in, because the value may refer to the function that is being
        copied.
        """
        return not is_atom(value) and (
            self.known.stand_in(value) is not None
            or type(value) in (types.ModuleType, np.errstate)
            or python_function(value) is not None
            or (bool(self._holders) and holder_of(value) is not None)
            or needs_stand_in(value, self.known, self._of_all_objects)
        )


def _items_of(container):
    """Return what has the items of a container: the attributes of a namespace, of others the container."""
    return vars(container) if type(container) is types.SimpleNamespace else container


def _asks_caches() -> bool:
    """Whether the function that is traced asks how full the caches of its functions are."""
    trace = current()
    environment = None if trace is None else trace.capture.environment
    return environment is not None and environment.asks_caches


def _writing_back(copy, names: tuple[str, ...] | None, scope: dict, globals_: dict):
    """Return a function that runs a copy, and then assigns globals of some names (None for all) again."""

    @functools.wraps(copy)
    def writing_back(*args, **kwargs):
        before = {name: scope.get(name, MARK) for name in (scope if names is None else names)}
        try:
            return copy(*args, **kwargs)
        finally:
            for name in {**before, **scope} if names is None else before:
                now = scope.get(name, MARK)
                if now is not before.get(name, MARK):
                    if now is MARK:
                        globals_.pop(name, None)
                    else:
                        globals_[name] = now

    return writing_back


_WRITING_BACK = _writing_back(len, (), {}, {}).__code__


def behind_writing(function: types.FunctionType):
    """Return the copy that a function runs before it writes its globals back; None for other functions."""
    if function.__code__ is not _WRITING_BACK:
        return None
    return next(content for name, _, content in contents(function) if name == "copy")
