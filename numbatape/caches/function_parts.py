"""Where functions of one code, or methods of objects of one class, have values that may differ.

`numbatape.caches.function_families` compares them.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

from ..capture.references import slots_of
from ..late import imported
from ..usercode.bytecode import names_of, passes_on
from ..usercode.ownership import is_users_function

# Where a value is: numbers of cells, each in the closure of the function before; or one of the first three
# words and a name. `CODE` stands last in the place of a function whose closure is followed.
Path = tuple
DEFAULTS, KEYWORDS, ATTRIBUTES, CODE = "defaults", "keywords", "attributes", "code"
# Attributes of functions that may differ between those of one code.
_OF_FUNCTIONS = frozenset(("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"))
_OF_OBJECTS = frozenset(("id", "weakref", "ref", "proxy"))  # names by which code tells objects apart


def owner_of(function):
    """Return the object whose attributes a method, or an object that is called, refers to."""
    return function.__self__ if type(function) is types.MethodType else function


def parts_of_function(function) -> Iterator[tuple[Path, Any]]:
    """Yield where a function and the functions in its closure have values, and the values."""
    if type(function) is functools.partial:
        yield from (((KEYWORDS, name), value) for name, value in function.keywords.items())
    elif type(function) is types.FunctionType:
        yield from (((DEFAULTS, name), value) for name, value in defaults_of(function))
        for path, value in in_closures(function):
            yield path, value.__code__ if path[-1] is CODE else value
    else:
        yield from (((ATTRIBUTES, name), value) for name, value in vars(owner_of(function)).items())


def defaults_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return zip(names, defaults, strict=True)


def in_closures(function: types.FunctionType) -> Iterator[tuple[Path, Any]]:
    """Yield what closures have; for a function of the user's, `CODE` stands behind where it is."""
    waiting: list[tuple[types.FunctionType, Path]] = [(function, ())]
    seen = {id(function)}
    while waiting:
        owner, path = waiting.pop()
        for k, cell in enumerate(owner.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                value = cell  # a variable without a value
            if type(value) is not types.FunctionType or not is_users_function(value):
                yield (*path, k), value
                continue
            yield (*path, k, CODE), value
            if id(value) not in seen:
                seen.add(id(value))
                waiting.append((value, (*path, k)))


def scopes_of(function: types.FunctionType) -> list[int] | None:
    """Return the ids of the globals of a function and of those in its closure.

    None if functions of one code may differ in more than their closures and the function's own defaults.
    """
    if function.__kwdefaults__:
        return None
    scopes = [id(function.__globals__)]
    if not function.__closure__:
        return None if function.__dict__ else scopes
    if function.__dict__ and _has_attributes(function):
        return None
    for path, value in in_closures(function):
        if path[-1] is CODE and value is not function:
            if value.__defaults__ or value.__kwdefaults__ or (value.__dict__ and _has_attributes(value)):
                return None
            scopes.append(id(value.__globals__))
    return scopes


def _has_attributes(function: types.FunctionType) -> bool:
    return any(not name.startswith("__") for name in function.__dict__)


def asks_for_names(function: types.FunctionType) -> bool:
    """Whether code asks for names and texts of functions, which those of one code need not share."""
    inside = (value for path, value in in_closures(function) if path[-1] is CODE)
    return any(not _OF_FUNCTIONS.isdisjoint(names_of(each.__code__)) for each in (function, *inside))


@functools.lru_cache(maxsize=1_000)
def is_open(cls: type) -> bool:
    """Whether an object of a class is what its attributes say, and another one may have them.

    It is not if its class is derived from a builtin one, has slots or a destructor.
    """
    if hasattr(cls, "__del__") or slots_of(cls):
        return False
    try:
        return hasattr(object.__new__(cls), "__dict__")
    except TypeError:
        return False


def is_known(owner, function) -> bool:
    """Whether code may tell an object from a copy: by another way to it, by its address, or as a value."""
    roots = [function]
    routes = imported("..capture.uncopied", __package__).Routes(roots)
    if routes.holders_of(owner) != [id(roots if function is owner else function)]:
        return True
    codes, method = routes.running(), getattr(function, "__func__", type(owner).__call__)
    first = getattr(method, "__code__", None)
    own = {"self"} if first is None else {"self", *first.co_varnames[:1]}
    names = frozenset().union(*map(names_of, codes))
    # ``self in BEST`` is another answer for a copy, also where BEST has the object from a later call on.
    # A constructor has run when the object is there.
    running = codes if "__init__" in names else [code for code in codes if code.co_name != "__init__"]
    if any(passes_on(code, frozenset(own)) for code in running):
        return True
    weak = any(isinstance(value, weakref.ReferenceType) for value in routes.reached)
    return weak or not names.isdisjoint(_OF_OBJECTS)


def value_at(function, path: Path):
    """Return the value at a place; raise ValueError or LookupError if there is none."""
    if path[0] is KEYWORDS:
        return function.keywords[path[1]]
    if path[0] is DEFAULTS:
        return dict(defaults_of(function))[path[1]]
    if path[0] is ATTRIBUTES:
        return vars(owner_of(function))[path[1]]
    return cell_at(function, path).cell_contents


def cell_at(function: types.FunctionType, path: Path) -> types.CellType:
    for k in path[:-1]:
        function = function.__closure__[k].cell_contents  # type: ignore[index]
    return function.__closure__[path[-1]]  # type: ignore[index]


def with_cells(function: types.FunctionType, cells: dict[int, types.CellType]) -> types.FunctionType:
    """Return a copy of a function with other cells, given by the ids of its own."""
    closure = tuple([cells.get(id(cell), cell) for cell in function.__closure__ or ()])
    scope, name, defaults = function.__globals__, function.__name__, function.__defaults__
    made = types.FunctionType(function.__code__, scope, name, defaults, closure or None)
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    made.__module__ = function.__module__
    return made
