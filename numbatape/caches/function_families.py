"""Functions that a program makes again and again, with other values in the variables that they capture.

``nt.grad(lambda w: loss(w, batch))`` in a loop over batches gets a new function in each turn, of the same
code, and ``nt.grad(Model(data).loss)`` the method of a new object. Where only numbers and arrays differ, all
of them are served by the traces of one, the *model*, whose variables are moving
(`numbatape.capture.moving_names`): their values are read off the function that is called, and passed by
keyword. Those of a `functools.partial` are keywords anyway.
"""

from __future__ import annotations

import copy
import functools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from ..capture.captured import is_empty
from ..capture.environment import Environment
from ..capture.holders import Wrapper
from ..capture.moving_names import CHANGES, MovingName, can_move
from ..capture.references import same
from ..late import imported
from ..threads import survives_fork
from ..trace.aliasing import root_of
from ..usercode.ownership import adopt, is_users_class
from .function_parts import (
    ATTRIBUTES,
    CODE,
    DEFAULTS,
    Path,
    asks_for_names,
    cell_at,
    defaults_of,
    in_closures,
    is_known,
    is_open,
    owner_of,
    parts_of_function,
    scopes_of,
    value_at,
    with_cells,
)

RECENT = 64  # families that are remembered
MOST_TURNS = 16  # a trace takes as long as some hundred turns
MOST_CALLS = 256  # of one function in a row: to look up its values costs as much as a trace by then
MOST_BYTES = 1 << 16  # a larger array is moving, too, so that a model does not keep it alive
_families: OrderedDict[tuple, tuple] = OrderedDict()
_lock = survives_fork(threading.RLock())  # what a function refers to may run code of the user's


class _Unset:
    """What a model has in a moving attribute: code that reads it where no stand-in is raises.

    A rule that calls a method in each sweep has the object itself. None might pass for a value.
    """

    def _refuse(self, *_):
        raise RuntimeError("an attribute that is an input is read where it has no value")

    __bool__ = __len__ = __iter__ = __float__ = __int__ = __index__ = __array__ = __call__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __getattr__ = _refuse


UNSET = _Unset()


class Model:
    """A function whose traces serve all of its family.

    Parameters
    ----------
    function
        One of the family.
    parts
        What it refers to, see `parts_of_function`.
    moving
        Where the moving values are.
    unread
        Those among them that no code reads: attributes which are left out of the copy.

    Attributes
    ----------
    function
        A copy of the function, without values in its moving variables.
    names
        For each moving value, the keyword that passes it, and where it is.
    """

    def __init__(self, function, parts: dict[Path, Any], moving: set[Path], unread: Collection[Path] = ()):
        self.moving = dict.fromkeys(path for path in parts if path in moving)
        self.fixed = {path: value for path, value in parts.items() if path not in moving}
        self.names: list[tuple[str, Path]] = []
        self._last: weakref.ref | None = None  # the function, or its object, that was served last
        self._calls = 0  # how many calls of that came before
        self._turns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        if type(function) is functools.partial:
            self.names = [(path[1], path) for path in self.moving]
            keywords = function.keywords | {name: None for name, _ in self.names}
            self.function: Any = functools.partial(function.func, *function.args, **keywords)
        elif type(function) is types.FunctionType:
            self.function = self._copied(function)
        else:
            self.function = _with_unset(function, self.moving)
            fields = vars(owner_of(self.function))
            self.names = [(MovingName(path[1], fields), path) for path in self.moving if path not in unread]

    def _copied(self, function: types.FunctionType) -> types.FunctionType:
        """Return a function with cells of its own for moving variables, and for functions that have such."""
        cells = {path: cell_at(function, path) for path in self.moving if path[0] is not DEFAULTS}
        made = {}
        for path, cell in cells.items():
            if id(cell) not in made:
                made[id(cell)] = types.CellType(None)
                owner = value_at(function, path[:-1]) if len(path) > 1 else function
                name = MovingName(owner.__code__.co_freevars[path[-1]], made[id(cell)])
                self.names.append((name, path))
        # A function is copied if it has such a cell, or one with a function that is copied.
        inside = [function, *(value for path, value in in_closures(function) if path[-1] is CODE)]
        holding = {id(cell): cell for each in inside for cell in each.__closure__ or ()}
        copied: dict[int, types.FunctionType] = {}
        before = -1
        while before != len(made) + len(copied):
            before = len(made) + len(copied)
            for each in inside:
                if id(each) not in copied and any(id(cell) in made for cell in each.__closure__ or ()):
                    copied[id(each)] = each
            for key, cell in holding.items():
                if key not in made and not is_empty(cell) and id(cell.cell_contents) in copied:
                    made[key] = types.CellType(None)
        copies = {key: with_cells(each, made) for key, each in copied.items()}
        for key, cell in holding.items():
            if key in made and not is_empty(cell) and id(cell.cell_contents) in copies:
                made[key].cell_contents = copies[id(cell.cell_contents)]
        found = copies.get(id(function)) or with_cells(function, made)
        defaults = dict(defaults_of(function))
        moving = [name for name in defaults if (DEFAULTS, name) in self.moving]
        self.names += [(MovingName(name, found), (DEFAULTS, name)) for name in moving]
        found.__defaults__ = tuple((defaults | dict.fromkeys(moving)).values()) or None
        return found

    def differs(self, parts: dict[Path, Any]) -> set[Path] | None:
        """Return where a function of the family has another value; None if it has other parts."""
        if parts.keys() != self.fixed.keys() | self.moving.keys():
            return None
        return {path for path, value in self.fixed.items() if not _equal(parts[path], value)}

    def parts_with(self, function) -> bool:
        """Whether a function that lives on gets its own traces: it is called often, or in turn with others.

        Each turn copies its data to the tape's cells, and computes again what depends on them alone.
        """
        its = owner_of(_innermost(function))
        if self._last is not None and self._last() is its:
            self._calls += 1
            return self._calls > MOST_CALLS
        self._calls = 0
        try:
            self._last = weakref.ref(its)
            turns = self._turns[its] = self._turns.get(its, 0) + 1
        except TypeError:  # an object that cannot be hashed, or referred to weakly
            return False
        return turns > MOST_TURNS

    def within(self, derivative) -> Model:
        """Return the model of a derivative of the function (``nt.vmap(nt.grad(f))``)."""
        found = copy.copy(self)
        found.function = derivative.of(self.function)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether it stands for all functions of its code, which refer to nothing of their own."""
        function = _innermost(self.function)
        return type(function) is types.FunctionType and not self.fixed and not self.moving

    @property
    def has_parameters(self) -> bool:
        """Whether moving values are passed as parameters, and not all as variables."""
        return any(type(name) is not MovingName for name, _ in self.names)

    def keywords(self, function, kwargs: dict) -> dict | None:
        """Return a function's moving values for a call; None if one of them cannot be an input."""
        function = _innermost(function)
        found: dict[str, Any] = {}
        try:
            for name, path in self.names:
                if name not in kwargs:  # a call may give other keywords than a partial has
                    found[name] = value_at(function, path)
        except (ValueError, LookupError):  # a variable or attribute without a value: the function raises
            return None
        return found if all(map(can_move, found.values())) else None


class Family:
    """The functions of one code, the partials of one function, or a method of the objects of one class."""

    def __init__(self):
        self.undo: Callable[[], None] | None = None  # see `Moving.undo`
        self.model: Model | None = None
        self._refused = False
        self._read: set[Path] = set()  # where objects that cannot be inputs are, and code reads them
        self._begin()

    def _begin(self) -> None:
        """Start to compare functions, or start again."""
        self.model = None
        self._moving: set[Path] = set()
        self._changes = 0
        self._last: dict[Path, object] | None = None  # what the last function referred to, as tokens

    def set_back(self, values: dict) -> None:
        """Do nothing: the functions of a family assign nothing to what they refer to."""

    def model_of(self, function) -> Model | None:
        """Return the model that serves a function, if there is one; note what differs from earlier ones."""
        if self._refused:
            return None
        parts = dict(parts_of_function(function))
        if self.model is not None:
            differs = self.model.differs(parts)
            if differs is None:
                self._begin()
            elif differs:
                self._moving |= differs
                self._choose(function, parts)
            return self.model
        if not parts and type(function) is types.FunctionType:  # all functions of this code are equal
            self._choose(function, parts)
            return self.model
        tokens = {path: _token(value) for path, value in parts.items()}
        last, self._last = self._last, tokens
        if last is not None and last.keys() == tokens.keys():
            self._moving |= {path for path, token in tokens.items() if token != last[path]}
            self._changes += 1
            if self._changes >= CHANGES or not self._moving:
                self._choose(function, parts)
        return self.model

    def _choose(self, function, parts: dict[Path, Any]) -> None:
        """Make a model of a function, if all that differs can be an input, or is not read."""
        moving = self._moving | {path for path, value in parts.items() if _is_large(value)}
        unread = {path for path in moving if path not in parts or not can_move(parts[path])}
        if not unread <= parts.keys() or unread & self._read:
            self._begin()
        elif _may_move(function, parts, moving, unread):
            self.model = Model(function, parts, moving, unread)
        elif unread:
            self._read |= unread
            self._begin()
        else:
            self.refuse()

    def refuse(self) -> None:
        """Note that functions of this family cannot be traced with inputs in the place of variables."""
        self._refused, self.model, self._last = True, None, None


def family_of(function) -> tuple[Family, Model] | None:
    """Return the family of a function and the model whose traces serve it, if there is one."""
    if isinstance(function, Wrapper):
        found = family_of(function.__wrapped__)
        return None if found is None else (found[0], found[1].within(function))
    adopt(function)
    key: tuple[int | str, ...]
    kept: tuple
    kind = type(function)
    if kind is types.FunctionType:
        scopes = scopes_of(function)
        if scopes is None:
            return None
        key, kept = (id(function.__code__), *scopes), (function.__code__,)
    elif kind is functools.partial:
        key, kept = (id(function.func), *map(id, function.args), *function.keywords), (function.func,)
    else:
        owner = owner_of(function)
        if not is_users_class(type(owner)) or not is_open(owner.__class__):
            return None
        kept = type(owner), getattr(function, "__func__", None)
        key = (*map(id, kept),)
    with _lock:
        known, family = _families.get(key, (None, None))
        if known != kept:
            family = Family()
            _families[key] = kept, family
            while len(_families) > RECENT:
                _families.popitem(last=False)
        _families.move_to_end(key)
        model = family.model_of(function)
    return None if model is None else (family, model)


def _innermost(function):
    """Return the function that verbs were applied to."""
    while isinstance(function, Wrapper):
        function = function.__wrapped__
    return function


def forget() -> None:
    """Forget all families."""
    with _lock:
        _families.clear()


def _with_unset(function, paths: Iterable[Path]):
    """Return a method of a copy of its object, or a copy of an object, without values in some attributes."""
    owner = owner_of(function)
    made = object.__new__(type(owner))
    vars(made).update(vars(owner) | {path[1]: UNSET for path in paths})
    return made if owner is function else types.MethodType(function.__func__, made)


def _may_move(function, parts: dict[Path, Any], moving: set[Path], unread: set[Path]) -> bool:
    """Whether the code of a function reads its moving variables by their names, and does not change them."""
    if unread:  # a callback, a logger or a lock that each object has of its own
        if not all(path[0] is ATTRIBUTES for path in unread):
            return False
        function = _with_unset(function, unread)
    code = imported("..capture.moving", __package__).Code(Environment(function))
    if type(function) is types.FunctionType:
        if asks_for_names(function):
            return False
        inside = (value for path, value in in_closures(function) if path[-1] is CODE)
        return code.may_move({name for each in (function, *inside) for name in each.__code__.co_freevars})
    if type(function) is functools.partial:  # what it does to keywords, it does to arguments
        return not any(type(parts[path]) in (list, dict) for path in moving)
    if is_known(owner_of(function), function):
        return False
    fields = vars(owner_of(function))
    if not code.leaves_objects or not all(code.leaves_unread(path[1]) for path in unread):
        return False
    return all(code.reads(MovingName(path[1], fields)) for path in moving - unread)


def _equal(value, other) -> bool:
    """Whether two values that functions refer to are the same; methods are made anew when they are read."""
    return same(value, other) or (type(value) is types.MethodType is type(other) and value == other)


def _token(value):
    """Return what tells a value from others; it keeps no array alive, so another one may get its id."""
    if type(value) is types.MethodType:
        return id(value.__func__), id(value.__self__)
    if can_move(value) and type(value) not in (np.ndarray, tuple, list, dict):
        return type(value), repr(value)
    return id(value)


def _is_large(value) -> bool:
    return type(value) is np.ndarray and can_move(value) and root_of(value).nbytes > MOST_BYTES
