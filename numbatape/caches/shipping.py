"""Functions that are pickled: by name, or by value where cloudpickle is installed."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import threading
from collections.abc import Callable


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


def _landed(data: bytes) -> Shipped:
    return Shipped(pickle.loads(data))


def _named(function: Callable) -> Callable:
    """Return the Numba dispatcher that a function's module has under its name, or else the function."""
    found = sys.modules.get(getattr(function, "__module__", None) or "")
    for part in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found if getattr(found, "py_func", None) is function else function  # type: ignore[return-value]
