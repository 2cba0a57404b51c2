"""Holders are containers, methods, descriptors and wrappers: taking them apart and making them again.

The walk over what a function refers to (`numbatape.capture.references`) takes holders apart; the copies that
run while tracing (`numbatape.stand_ins.copies`) and those of closures that hold traced values
(`numbatape.stand_ins.opened`) put them together again.
"""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..late import imported
from ..trace import pytrees
from ..trace.operands import find_trace

CACHED = type(functools.lru_cache(len))
_TAKE_ANY = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class Wrapper(ABC):
    """Classes of what numbatape makes of a function, which is then its ``__wrapped__``.

    They register themselves.
    """

    __wrapped__: Callable

    @abstractmethod
    def of(self, f: Callable):
        """Return the same of another function."""


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


def _items(value) -> tuple:
    return (*value, *value.values())


def _pairs(parts):
    """Return keys and values, given all keys and then all values."""
    half = len(parts) // 2
    return zip(parts[:half], parts[half:], strict=True)


def _put_entries(value, now) -> None:
    for key in [key for key in value if key not in now]:
        del value[key]
    for key, part in now.items():
        if key not in value or value[key] is not part:
            value[key] = part


def _put_all(value, now) -> None:
    value.clear()
    value.extend(now)


def _put_members(value, now) -> None:
    value.clear()
    value.update(now)


def _objects_in(value) -> tuple:
    """Return the entries of an array of objects; arrays of numbers are handled as a whole."""
    return tuple(value.reshape(-1)) if value.dtype == object else ()


def _array_of_objects(value, parts):
    made = np.empty(len(parts), object)
    # The parts are assigned one by one, because NumPy would take lists apart.
    for k, part in enumerate(parts):
        made[k] = part
    return made.reshape(value.shape)


def _put_objects(value, now) -> None:
    value[...] = now


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
    takes = code is None or code.co_argcount or code.co_kwonlyargcount or code.co_flags & _TAKE_ANY
    return (value.__wrapped__,) if takes else ()


def _cached(value, parts):
    """Return the stand-in for what ``lru_cache`` makes of a function."""
    made = functools.lru_cache(**value.cache_parameters())(*parts)
    return imported(".memos", __package__).remembering(made, *parts)


def _remembered(value, parts):
    """Return the stand-in for a function whose results joblib keeps in files, to be used for plain data."""
    function = parts[0]

    @functools.wraps(function)
    def call(*args, **kwargs):
        plain = find_trace(pytrees.leaves((args, kwargs))) is None
        return value(*args, **kwargs) if plain else function(*args, **kwargs)

    return call


def _vectorized(value, parts):
    made = copy.copy(value)
    made.pyfunc = parts[0]
    return made


VIEWS = (type({}.keys()), type({}.values()), type({}.items()))


def _view(value, parts):
    """Return the view of another dictionary: of its keys, its values or its items."""
    return getattr(parts[0], ("keys", "values", "items")[VIEWS.index(type(value))])()


_DICT = Holder(_items, lambda v, parts: dict(_pairs(parts)), _put_entries)
_ORDERED = _DICT._replace(made=lambda v, parts: collections.OrderedDict(_pairs(parts)))
_SET = Holder(tuple, lambda v, parts: type(v)(parts))
_WRAPPED = Holder(lambda v: (v.__func__,), lambda v, parts: type(v)(*parts))


def _method(original, parts):
    """Return a method of another object: if the object is a stand-in (of a distribution), its own method."""
    function, owner = parts
    # The function is that of the method itself, or a wrapper that runs its copy.
    if getattr(function, "__wrapped__", function) is original.__func__:
        found = getattr(owner, function.__name__, None)
        if callable(found) and getattr(original.__self__, function.__name__, None) == original:
            return found
    return types.MethodType(function, owner)


_PARTIAL = Holder(_partial_parts, _partial)
_REMEMBERED = Holder(lambda v: (v.func,), _remembered)
_DISPATCHER = Holder(lambda v: tuple(v.registry.values()), _dispatching)

HOLDERS: dict[type, Holder] = {
    list: Holder(tuple, lambda v, parts: list(parts), _put_all),
    tuple: Holder(tuple, lambda v, parts: tuple(parts)),
    collections.deque: Holder(tuple, lambda v, p: collections.deque(p, v.maxlen), _put_all),
    set: _SET._replace(changed=_put_members),
    frozenset: _SET,
    np.ndarray: Holder(_objects_in, _array_of_objects, _put_objects),
    dict: _DICT,
    collections.OrderedDict: _ORDERED,
    collections.defaultdict: Holder(
        lambda v: (v.default_factory, *_items(v)),
        lambda v, parts: collections.defaultdict(parts[0], _pairs(parts[1:])),
        _put_entries,
    ),
    types.BuiltinFunctionType: Holder(  # methods of arrays, which may have stand-ins
        lambda v: (v.__self__,) if type(v.__self__) is np.ndarray else (),
        lambda v, parts: getattr(parts[0], v.__name__),
    ),
    types.MappingProxyType: Holder(_items, lambda v, parts: types.MappingProxyType(dict(_pairs(parts)))),
    **dict.fromkeys(VIEWS, Holder(lambda v: (v.mapping,), _view)),
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
    CACHED: Holder(_cached_parts, _cached),
}
# Builtin containers that classes may derive from.
CONTAINERS = (dict, list, tuple, collections.deque, set, frozenset)
_DISPATCHES = functools.singledispatch(len).__code__  # all functions that singledispatch returns have it


def holder_of(value) -> Holder | None:
    """Return how to take a value apart and make it again; None if it is no holder."""
    kind = type(value)
    found = HOLDERS.get(kind) or _holder_of_joblib(kind)
    if found is None and kind is types.FunctionType and value.__code__ is _DISPATCHES:
        return _DISPATCHER
    return found


def container_of(value) -> type | None:
    """Return the builtin container that an object's class derives from, or None."""
    return next((kind for kind in CONTAINERS if isinstance(value, kind)), None)


def parts_of(value) -> tuple:
    """Return what a holder holds, or an object whose class derives from one; nothing for other values."""
    kind = type(value)
    holder = holder_of(value) if kind is types.FunctionType else _holder_of_class(kind)
    return () if holder is None else holder.parts(value)


@functools.lru_cache(maxsize=10_000)
def _holder_of_class(cls: type) -> Holder | None:
    if str(cls.__module__).startswith("scipy.sparse"):
        return None  # iterating over a dok_matrix, which is a dictionary, never ends
    return next((HOLDERS[base] for base in cls.__mro__ if base in HOLDERS), _holder_of_joblib(cls))


def _holder_of_joblib(cls: type) -> Holder | None:
    """Return how to take apart what joblib's ``Memory.cache`` makes of a function."""
    return _REMEMBERED if cls.__module__ == "joblib.memory" and hasattr(cls, "call_and_shelve") else None


def names_in(value) -> list | None:
    """Return the names in a namespace; None for other values."""
    return list(vars(value)) if isinstance(value, types.SimpleNamespace) else None
