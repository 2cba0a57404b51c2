"""Tests of types: a traced value gives the same answer as the number or array that it carries.

Without this, code that branches on ``type(x)``, ``isinstance(x, np.ndarray)`` or ``hasattr(x, "shape")``
would trace a path that the function does not take. These functions replace Python's own functions in the
copies that run while tracing. Code that reads ``x.__class__`` (``match``, ``functools.singledispatch``,
abstract base classes) is handled by `numbatape.trace.kinds`.
"""

from __future__ import annotations

import builtins
import functools
import types

import numpy as np

from ..numpy_api.arrays_of_lists import UfuncOfLists
from ..numpy_api.stand_ins import stands_for
from ..trace import operations
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.library_kinds import FRAME
from ..trace.plain_arrays import PlainArray, PlainComplex
from ..trace.trace import current
from ..usercode.frames import not_supported
from ..usercode.ownership import users_classes

TRACED = frozenset((TracedArray, TracedComplex, TracedInteger, PlainArray, PlainComplex))


def meant(value):
    """Return what a traced value stands for: a number, an array, a Series, a method; others as they are.

    A function that stands in for one of Python's own is that function to tests of types.
    """
    kind = builtins.type(value)
    if kind is types.FunctionType:
        return len if value is length else sum if value is total else value
    if kind is types.MethodType and builtins.type(value.__self__) in TRACED:
        return getattr(value.__self__._value, value.__name__, value)
    if kind is UfuncOfLists:
        return value.__wrapped__
    if kind is TracedArray and value._trace.arguments.labels:
        return operations.original_of(value)
    if hasattr(kind, FRAME):
        return value.original()
    return value._value if kind in TRACED else value


def type_of(value):
    """``type(value)``; for the user's classes the stand-in, to which names refer in copies, too."""
    kind = builtins.type(meant(value))
    trace = current()
    if trace is not None and trace.capture.copies is not None:
        if issubclass(kind, builtins.type):
            kind = trace.capture.copies.metaclass_behind(kind)
        elif users_classes(kind):
            return trace.capture.copies.value(kind)
    return Type if kind is builtins.type else kind


class _Kind(type):
    """The metaclass of `Type`: calls of `Type` and tests with it do what those of ``type`` do."""

    def __call__(cls, *args, **kwargs):
        if cls is not Type:
            return super().__call__(*args, **kwargs)  # the function has derived a metaclass from type
        return type_of(*args) if len(args) == 1 and not kwargs else builtins.type(*args, **kwargs)

    def __instancecheck__(cls, instance):
        return isinstance(instance, builtins.type) if cls is Type else super().__instancecheck__(instance)

    def __subclasscheck__(cls, other):
        return issubclass(other, builtins.type) if cls is Type else super().__subclasscheck__(other)

    def __getitem__(cls, item):
        return types.GenericAlias(builtins.type, item)

    def __eq__(cls, other):
        return cls is other or (cls is Type and other is builtins.type)

    def __hash__(cls):
        return hash(builtins.type) if cls is Type else super().__hash__()

    def __repr__(cls):
        return repr(builtins.type) if cls is Type else super().__repr__()


class Type(type, metaclass=_Kind):
    """The stand-in for ``type``, in calls and as a class."""


Type.__name__ = Type.__qualname__ = "type"
Type.__module__ = "builtins"


def is_instance(value, kinds) -> bool:
    """``isinstance``."""
    return isinstance(meant(value), kinds)


def has_attribute(value, name) -> bool:
    """``hasattr``."""
    return hasattr(meant(value), name)


def attribute(value, name, *default):
    """``getattr``; where the number or array has the attribute, a traced value has it, too, or raises."""
    if name in ("__class__", "__array_priority__"):
        return getattr(meant(value), name, *default)
    kind = builtins.type(value)
    if kind not in (TracedArray, TracedComplex):
        return getattr(value, name, *default)
    if meant(value) is not value._value:  # a Series has attributes that its array has not
        return getattr(value, name, *default)
    if not hasattr(value._value, name):
        return getattr(value._value, name, *default)
    try:
        return getattr(value, name)
    except AttributeError:
        raise not_supported(f"attribute {name} of a traced value") from None


def names_of(*value) -> list[str]:
    """``dir``."""
    return dir(*map(meant, value))


@stands_for("numpy", "isscalar", run=None)
def isscalar(element):
    return np.isscalar(meant(element))


def _asking(original):
    """Return the stand-in for a function of ``inspect`` that says what kind of object it is given."""

    @functools.wraps(original)
    def ask(value):
        return original(meant(value))

    return ask


ABOUT_KINDS = ("isbuiltin", "isfunction", "ismethod", "isroutine", "isclass")
# The keys are modules and names, as in `clocks_and_files`.
REPLACED = {"inspect": dict.fromkeys(ABOUT_KINDS, _asking)}


def length(value):
    """``len``; that of a traced array is a size that the function can compute with."""
    if builtins.type(value) in (TracedArray, TracedComplex) and value.ndim:
        return value._sizes()[0]
    return value._sizes()[0] if hasattr(builtins.type(value), FRAME) else len(value)


def total(values, /, start=0):
    """``sum``; the entries of a traced array are added from the first to the last, as Python adds them."""
    traced = builtins.type(values) is TracedArray and values.ndim and values.dtype.kind == "f"
    if not traced or not values._value.shape[0]:
        return sum(values, start)
    return start + np.cumsum(values, axis=0)[-1]


def identity(value, /):
    """``id``; for a stand-in that of the original, which is what the user's tables have."""
    trace = current()
    copies = None if trace is None else trace.capture.copies
    return id(value if copies is None else copies.original(value))


BUILTINS = {
    "id": identity,
    "len": length,
    "sum": total,
    "type": Type,
    "isinstance": is_instance,
    "hasattr": has_attribute,
    "getattr": attribute,
    "dir": names_of,
}
