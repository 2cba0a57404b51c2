"""Functions pickled by name, or (where cloudpickle is installed) by value, and caches that wait for theirs.

A model that keeps a cache of its own method is pickled and deeply copied together with it. The cache is made
before the model has its attributes, so the method can only be traced later: when the cache is first used.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import pickle
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import SpecError
from ..threads import survives_fork
from ..usercode.ownership import python_of

if TYPE_CHECKING:
    from .base import PreparedCache

_preparing = survives_fork(threading.RLock())


class _Tried(threading.local):
    """Functions, or the owners of methods, that are being pickled by trial, by id."""

    def __init__(self):
        self.ids: set[int] = set()


_tried = _Tried()


class Shipped:
    """A wrapper that pickles a function, where that is possible.

    A function of a module is pickled by its name, as usual; one that Numba has compiled by the name of its
    dispatcher. A lambda or a local function needs cloudpickle.
    """

    def __init__(self, function: Callable):
        self.function = function

    def __reduce__(self):
        function = _named(self.function)
        # A model that keeps a derivative of its own method holds this wrapper, too: the trial meets it again.
        owner = id(getattr(function, "__self__", function))
        if owner in _tried.ids:
            return Shipped, (function,)
        _tried.ids.add(owner)
        try:
            return self._by_name_or_value(function)
        finally:
            _tried.ids.discard(owner)

    @staticmethod
    def _by_name_or_value(function: Callable) -> tuple:
        try:
            pickle.dumps(function)
            return Shipped, (function,)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if importlib.util.find_spec("cloudpickle") is not None:
                import cloudpickle

                return _landed, (cloudpickle.dumps(function),)
            raise pickle.PicklingError(
                f"{function!r} has no name that another process could import ({error}): define it at the "
                "top of a module, or install cloudpickle, which sends lambdas and local functions by value"
            ) from None


def awaiting(cls: type, again: tuple) -> PreparedCache:
    """Return a cache that is prepared when it is first used.

    Parameters
    ----------
    again
        The function, as `Shipped`, and the other arguments of its preparation.
    """
    cache = object.__new__(_waiting_class(cls))
    vars(cache)["_waiting"] = again
    return cache


@functools.cache
def _waiting_class(cls) -> type[PreparedCache]:
    """Return a class for caches that wait: one is prepared, and becomes ``cls``, when an attribute is needed.

    All attributes of a class with ``__getattr__`` are slower, so prepared caches are of no such class.
    """
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    methods = {"__getattr__": prepared, "clone": _clone, "__copy__": _clone}
    return type(cls.__name__, (cls,), {**names, **methods, "_prepared_class": cls})


def _clone(cache: PreparedCache) -> PreparedCache:
    """Return a clone; the cache is prepared first, once for all threads that ask for one."""
    prepared(cache, "_program")
    return cache.clone()


def class_of(cache: PreparedCache) -> type[PreparedCache]:
    """Return the class that a cache has once it is prepared."""
    return getattr(type(cache), "_prepared_class", type(cache))


def prepared(cache: PreparedCache, name: str) -> Any:
    """Prepare a cache that waits for it, and return one of its attributes."""
    if name.startswith("__"):  # pickle and copy ask for such ones before they use an object
        raise AttributeError(f"{type(cache).__name__!r} object has no attribute {name!r}")
    with _preparing:
        again = vars(cache).pop("_waiting", None)
        if again is not None:
            shipped, args, kwargs, config, calls, choices = again
            try:
                made = class_of(cache)._prepare(shipped.function, args, kwargs, config, calls)
            except BaseException as error:
                vars(cache)["_waiting"] = again
                # An AttributeError that left this place would seem to say that the cache lacks an attribute.
                if isinstance(error, AttributeError):
                    raise SpecError(
                        f"a copied or unpickled {type(cache).__name__} traces its function when it is first "
                        f"used, and that failed: {type(error).__name__}: {error}"
                    ) from error
                raise
            vars(made).update(choices)
            made._cloned_into(cache)
            cache.__class__ = class_of(cache)
        return object.__getattribute__(cache, name)


def deep_copy(cache: PreparedCache, memo: dict) -> PreparedCache:
    """Return a clone, or where the function is copied, too (a method, a model), a cache of the other one."""
    shipped, *others = cache._again()
    function = copy.deepcopy(shipped.function, memo)
    if function is shipped.function and "_waiting" not in vars(cache):
        return cache.clone()
    return awaiting(class_of(cache), (Shipped(function), *others))


def _landed(data: bytes) -> Shipped:
    """Return the function that cloudpickle has sent, wrapped again."""
    return Shipped(pickle.loads(data))


def _named(function: Callable) -> Callable:
    """Return the Numba dispatcher that a function's module has under its name, or else the function."""
    found = sys.modules.get(getattr(function, "__module__", None) or "")
    for part in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found if python_of(found) is function else function  # type: ignore[return-value]
