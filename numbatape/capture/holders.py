"""Holders are containers, methods, descriptors and wrappers: taking them apart and making them again.

This table is used by the copies that run while tracing (`numbatape.capture.copies`), by the walk over what a
function refers to (`numbatape.capture.reach`), and by the search for traced values in closures
(`numbatape.integrations.closures`).
"""

from __future__ import annotations

import collections
import copy
import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SHORT = 100  # containers with more entries than this are not looked into
CACHED = type(functools.lru_cache(len))


class Holder(NamedTuple):
    """How one kind of holder is taken apart and put together.

    Attributes
    ----------
    parts
        Returns the values that a holder holds.
    made
        Makes a holder like the first argument with the second argument's parts; returns None if it cannot.
    changed
        For mutable holders: replaces the parts of a holder (first) by those of another one (second).
    """

    parts: Callable[[Any], tuple]
    made: Callable[[Any, list], Any]
    changed: Callable[[Any, Any], None] | None = None


def _partial_parts(value) -> tuple:
    return (value.func, *value.args, *value.keywords.values())


def _partial(value, parts):
    count = 1 + len(value.args)
    return type(value)(*parts[:count], **dict(zip(value.keywords, parts[count:], strict=True)))


def _put_entries(value, now) -> None:
    for key in [key for key in value if key not in now]:
        del value[key]
    for key, part in now.items():
        if key not in value or value[key] is not part:
            value[key] = part


def _put_all(value, now) -> None:
    value.clear()
    value.extend(now)


def _put_attributes(value, now) -> None:
    _put_entries(vars(value), vars(now))


def _dispatchers(registry, made, parts):
    """Register implementations, given in the order of a registry."""
    for cls, implementation in zip(registry, parts, strict=True):
        if cls is not object:
            made.register(cls, implementation)
    return made


def _dispatching_method(value, parts):
    made = functools.singledispatchmethod(parts[0])
    return _dispatchers(value.dispatcher.registry, made, parts[1:])


def _dispatching(value, parts):
    by_class = dict(zip(value.registry, parts, strict=True))
    return _dispatchers(value.registry, functools.singledispatch(by_class[object]), parts)


def _cached_parts(value) -> tuple:
    """Return what ``lru_cache`` wraps, unless that takes no arguments: then it is a constant."""
    code = getattr(value.__wrapped__, "__code__", None)
    return (value.__wrapped__,) if code is None or code.co_argcount else ()


def _vectorized(value, parts):
    made = copy.copy(value)
    made.pyfunc = parts[0]
    return made


_DICT = Holder(lambda v: tuple(v.values()), lambda v, parts: dict(zip(v, parts, strict=True)), _put_entries)
_ORDERED = _DICT._replace(made=lambda v, parts: collections.OrderedDict(zip(v, parts, strict=True)))
_WRAPPED = Holder(lambda v: (v.__func__,), lambda v, parts: type(v)(*parts))


def _method(original, parts):
    """Return a method of another object: if the object is a stand-in (of a distribution), its own method."""
    function, owner = parts
    if function is original.__func__:
        found = getattr(owner, function.__name__, None)
        if callable(found) and getattr(original.__self__, function.__name__, None) == original:
            return found
    return types.MethodType(function, owner)


_PARTIAL = Holder(_partial_parts, _partial)
_DISPATCHER = Holder(lambda v: tuple(v.registry.values()), _dispatching)

HOLDERS: dict[type, Holder] = {
    list: Holder(tuple, lambda v, parts: list(parts), _put_all),
    tuple: Holder(tuple, lambda v, parts: tuple(parts)),
    collections.deque: Holder(tuple, lambda v, p: collections.deque(p, v.maxlen), _put_all),
    dict: _DICT,
    collections.OrderedDict: _ORDERED,
    collections.defaultdict: Holder(
        lambda v: (v.default_factory, *_DICT.parts(v)),
        lambda v, parts: collections.defaultdict(parts[0], zip(v, parts[1:], strict=True)),
        _put_entries,
    ),
    types.BuiltinFunctionType: Holder(  # methods of arrays, which may have stand-ins
        lambda v: (v.__self__,) if type(v.__self__) is np.ndarray else (),
        lambda v, parts: getattr(parts[0], v.__name__),
    ),
    types.MappingProxyType: Holder(
        lambda v: tuple(v.values()), lambda v, parts: types.MappingProxyType(dict(zip(v, parts, strict=True)))
    ),
    types.SimpleNamespace: Holder(
        lambda v: tuple(vars(v).values()),
        lambda v, parts: types.SimpleNamespace(**dict(zip(vars(v), parts, strict=True))),
        _put_attributes,
    ),
    collections.ChainMap: Holder(lambda v: tuple(v.maps), lambda v, parts: collections.ChainMap(*parts)),
    types.MethodType: Holder(lambda v: (v.__func__, v.__self__), _method),
    functools.partial: _PARTIAL,
    functools.partialmethod: _PARTIAL,
    staticmethod: _WRAPPED,
    classmethod: _WRAPPED,
    property: Holder(lambda v: (v.fget, v.fset, v.fdel), lambda v, parts: property(*parts, v.__doc__)),
    functools.cached_property: Holder(lambda v: (v.func,), lambda v, p: functools.cached_property(*p)),
    functools.singledispatchmethod: Holder(
        lambda v: (v.func, *v.dispatcher.registry.values()), _dispatching_method
    ),
    np.vectorize: Holder(lambda v: (v.pyfunc,), _vectorized),
    CACHED: Holder(_cached_parts, lambda v, parts: functools.lru_cache(**v.cache_parameters())(*parts)),
}
CONTAINERS = (dict, list, tuple, collections.deque)  # builtin containers that classes may derive from
LONG = frozenset(
    (
        list,
        tuple,
        dict,
        collections.deque,
        collections.OrderedDict,
        collections.defaultdict,
        types.MappingProxyType,
    )
)
_DISPATCHES = functools.singledispatch(len).__code__  # all functions that singledispatch returns have it


def holder_of(value, longest: int | None = SHORT) -> Holder | None:
    """Return how to take a value apart; None if it is no holder, or a long container."""
    kind = type(value)
    if kind in LONG and longest is not None and len(value) > longest:
        return None
    found = HOLDERS.get(kind)
    if found is None and kind is types.FunctionType and value.__code__ is _DISPATCHES:
        return _DISPATCHER
    return found


def container_of(value) -> type | None:
    """Return the builtin container that an object's class derives from, or None."""
    return next((kind for kind in CONTAINERS if isinstance(value, kind)), None)


def parts_of(value) -> tuple:
    """Return what a holder holds; nothing for other values."""
    holder = holder_of(value)
    return () if holder is None else holder.parts(value)


def keys_of(value) -> list | None:
    """Return the keys of a dictionary or the names of a namespace; None for other values."""
    if isinstance(value, types.SimpleNamespace):
        return list(vars(value))
    return list(value) if isinstance(value, dict) else None
