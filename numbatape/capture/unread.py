"""Attributes that no code which runs reads: ``self.history`` of an object with a traced method.

Programs write to such attributes between calls. Each call compares all attributes of captured objects, and
where some have changed, `without_unread` decides whether only these are concerned. Then the traces still
hold, and from there on calls do not compare these attributes.

The decision rests on the names in the code that may run (`WrittenOnly`). It is refused wherever something may
read attributes without naming them: reflection, hooks, libraries, code that is traced apart.
"""

from __future__ import annotations

import abc
import functools
import io
import types
import typing
from collections.abc import Callable, Iterator

import numpy as np

from ..usercode.bytecode import makes_text, names_of, names_read
from ..usercode.ownership import is_users_class
from ..usercode.written_only import WrittenOnly
from .captured import Captured
from .environment import Environment
from .references import is_special

_HOOKS = ("__setattr__", "__getattribute__", "__getattr__", "__delattr__")
# Beside the names of `WrittenOnly.reflects`: code with these may read attributes by texts that it makes.
BY_TEXT = frozenset(
    (
        *("hasattr", "setattr", "delattr", "compile", "methodcaller", "format", "format_map", "vformat"),
        *("Formatter", "Template", "_getframe", "__builtins__", "builtins", "f_locals", "__setattr__"),
        *("__delattr__", "weakref", "ctypes"),
    )
)
# Functions of these modules read attributes of what they are given.
_READERS = ("copy", "pickle", "_pickle", "inspect", "dataclasses", "operator", "_operator", "copyreg", "gc")
_BUILTINS = (getattr, hasattr, setattr, delattr, vars, dir, eval, exec, compile, globals, locals)
# What SciPy asks of linear operators and sparse matrices, written out because importing these takes 150 ms.
_OF_MATRICES = frozenset(
    (
        *("matvec", "rmatvec", "matmat", "rmatmat", "_matvec", "_rmatvec", "_matmat", "_rmatmat", "adjoint"),
        *("_adjoint", "_transpose", "H", "A", "args", "keys", "nnz", "getnnz", "format", "indices", "indptr"),
        *("row", "col", "coords", "offsets", "blocksize", "tocsr", "tocsc", "tocoo", "tobsr", "todia"),
        *("todok", "tolil", "todense", "toarray", "asformat", "multiply", "power", "getH", "solve", "psolve"),
    )
)
# Special members of classes that no operation of Python's runs, but those that make text, copy and pickle.
_TEXTS = frozenset(("__repr__", "__str__"))
_QUIET = _TEXTS.union(
    (
        *("__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__"),
        *("__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__"),
        *("__dir__", "__getstate__", "__setstate__", "__init_subclass__", "__class_getitem__", "__slots__"),
        *("__orig_bases__", "__parameters__", "__abstractmethods__", "__sklearn_tags__", "__sklearn_clone__"),
    )
)
_VALUES = type({}.values())
_BASES = (object, abc.ABC, typing.Generic, typing.Protocol)


def without_unread(
    noted: Environment, make: Callable[[list], Environment], written: list[tuple]
) -> Environment | None:
    """Return what a function captures but for attributes that it does not read, if nothing else has changed.

    None if something that the function may read has changed.

    Parameters
    ----------
    noted
        What the function captures, as it was.
    make
        Returns what it captures now, without some places (`Effects.places`).
    written
        Places that it only writes to, and its moving variables, which ``noted`` is without: calls change them
        themselves, or pass them as inputs.
    """
    own = {id(container): keys for container, keys in written if keys is not None}
    before, now = former_attributes(noted), None
    places = _unnamed(noted, before)
    while places:
        now = make(places)
        confirmed = _confirmed(now, places)
        if confirmed == places:
            break
        places = confirmed  # other attributes are read, and what these lead to may read further ones
    if not places or now is None:
        return None
    for mapping, keys in places:
        others = keys | own.get(id(mapping), frozenset())
        if _others(mapping, others) != _others(before[id(mapping)], others):
            return None
    gone = {key for key in noted.seen if key not in now.seen}
    changed = _rest_changed(noted, now, gone | {id(mapping) for mapping, _ in places})
    return None if changed else now


def _others(mapping: dict, keys: frozenset) -> list[tuple]:
    """Return the entries with other keys, by the identities of their values."""
    return [(name, id(value)) for name, value in mapping.items() if name not in keys]


def former_attributes(noted: Environment) -> dict[int, dict]:
    """Return, by id, the former items of dictionaries, as far as they were noted."""
    return {id(container): items for container, items in former_items(noted) if type(container) is not list}


def former_items(noted: Environment) -> Iterator[tuple]:
    """Yield (dictionary or list, its former items by their keys), as far as they were noted."""
    yield from noted.dictionaries().values()
    for container, entries in noted.sequences:
        if type(container) is list:
            yield container, dict(enumerate(entries))
    for _, parts, container in noted._parts:
        if id(container) in noted._written:
            yield container, dict(zip(parts[::2], parts[1::2], strict=True))


def _unnamed(noted: Environment, before: dict[int, dict]) -> list[tuple]:
    """Return attributes that code does not read by their names, as places (`Effects.places`)."""
    read = frozenset().union(*map(names_read, noted.running(_called())))
    places = []
    for value in noted.reached:
        fields = getattr(value, "__dict__", None)
        if id(fields) in before and _is_plain(value):
            keys = {*fields, *before[id(fields)]}
            unread = frozenset(key for key in keys if _may_be_unread(key) and key not in read)
            if unread:
                places.append((fields, unread))
    return places


def _confirmed(now: Environment, places: list[tuple]) -> list[tuple]:
    """Return those of some places that the function does not read, given what it captures without them.

    What it captures is reached without reading any of these. Hence if no code there reads them, none does.
    """
    if now.runs_later or now.names_foreign or now.opaque or now.iterators or now.libraries_hold:
        return []
    codes = now.running(_called())
    names = frozenset().union(*map(names_of, codes))
    text = any(map(makes_text, codes))
    if any(reads_unseen(value, names, text) for value in now.reached) or not names.isdisjoint(BY_TEXT):
        return []
    again = any(getattr(value, "__name__", "") == "__init__" for _, _, value in now.names())
    code = WrittenOnly(codes, again)
    kept = [(mapping, frozenset(filter(code.unused, keys))) for mapping, keys in places]
    return [(mapping, keys) for mapping, keys in kept if keys]


def is_plain_class(cls: type) -> bool:
    """Whether reading an attribute of an object of a class runs no code of the user's."""
    return is_users_class(cls) and all(
        getattr(cls, hook, None) is getattr(object, hook, None) for hook in _HOOKS
    )


def _is_plain(value) -> bool:
    """Whether attributes of an object are read by their names only."""
    cls = type(value)
    return (
        is_plain_class(cls)
        # Code that compares, prints or copies a dataclass reads its fields without naming them.
        and not hasattr(cls, "__dataclass_fields__")
        and not hasattr(cls, "__match_args__")
    )


def _may_be_unread(key) -> bool:
    """Whether an attribute is none that Python or libraries read from any object that they are given."""
    return type(key) is str and not is_special(key) and key not in _asked_by_libraries()


def reads_unseen(value, names: frozenset[str], text: bool) -> bool:
    """Whether a captured value reads attributes of others, or has methods that run without being named.

    Parameters
    ----------
    names
        The names in the code that may run.
    text
        Whether that code makes text of objects.
    """
    if isinstance(value, type):
        return any(map(is_users_class, value.__mro__)) and any(
            not is_users_class(base) and base not in _BASES and _may_run(base, names, text)
            for base in value.__mro__
        )
    if isinstance(value, types.BuiltinFunctionType) and value in _BUILTINS:
        return True
    return getattr(value, "__module__", None) in _READERS


def _may_run(base: type, names: frozenset[str], text: bool) -> bool:
    """Whether code of a library's class, from which one of the user's is derived, may run."""
    own = vars(base)
    if not names.isdisjoint(own) or (text and not _TEXTS.isdisjoint(own)):
        return True
    return any(is_special(name) and name not in _QUIET for name in own)


@functools.cache
def _asked_by_libraries() -> frozenset[str]:
    """Names of attributes that libraries look up in objects of any class."""
    kinds = (np.ndarray, np.random.Generator, np.random.RandomState)
    return frozenset(name for kind in kinds for name in dir(kind)) | _OF_MATRICES


@functools.cache
def _called() -> frozenset[str]:
    """Names of methods that libraries call of objects of any class, though no code of the user's does."""
    kinds = (io.TextIOBase, dict, list, set, str)
    return _asked_by_libraries().union(name for kind in kinds for name in dir(kind) if not is_special(name))


class _Rest(Captured):
    """What was noted, without the rows of what has some ids."""

    def __init__(self, noted: Environment, gone: set):
        super().__init__()
        vars(self).update(vars(noted))
        # The pair behind that of a dictionary is of its values, and goes with it.
        self.sequences, skip = [], False
        for container, entries in noted.sequences:
            if type(container) is not _VALUES:
                skip = id(container) in gone
            if not skip:
                self.sequences.append((container, entries))
        for name in ("bindings", "attributes", "functions", "sets", "absent", "_objects"):
            setattr(self, name, [row for row in getattr(noted, name) if id(row[0]) not in gone])
        for name, k in (("unset", 1), ("_parts", 2), ("_contents", 0)):
            setattr(self, name, [row for row in getattr(noted, name) if id(row[k]) not in gone])
        self._layouts = [each for each in noted._layouts if not each.is_among(gone)]


def _rest_changed(noted: Environment, now: Environment, gone: set) -> bool:
    """Whether something has changed but for values with some ids, which the function does not reach."""
    if _Rest(noted, gone).rebound():
        return True
    known = [array for array, _ in now.arrays]
    return any(np.may_share_memory(array, its) for array in noted.written_arrays() for its in known)
