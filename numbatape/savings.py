"""Two savings of time: dataclasses that are made quickly, and pauses of Python's garbage collector.

`dataclasses.dataclass` compiles five functions for a frozen class, half a millisecond in a process that makes
thirty such classes before its first gradient. Only ``__init__`` differs so much between classes that it has
to be compiled; the others are the same few functions for all.

In steps that make hundreds of thousands of small tuples, the collector would examine all of them repeatedly
without finding any garbage, because none of them is part of a cycle. In the derivative of a long program this
took a quarter of the time.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import operator
from typing import Any, TypeVar, dataclass_transform


def uncollected(function):
    """Return an internal function that runs with the collector off. It calls no user code except rules."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return run


# ---- frozen dataclasses

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(*, eq: bool = True, kw_only: bool = False):
    """Return a decorator that makes a class a frozen dataclass.

    `dataclasses.fields`, `dataclasses.replace` and `dataclasses.is_dataclass` know the class.

    Parameters
    ----------
    eq
        Whether objects with equal fields are equal, and have equal hashes; else each equals only itself.
    kw_only
        Whether ``__init__`` takes keywords only.
    """

    def decorate(cls: Class) -> Class:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        made.__init__ = _init_of(made, dataclasses.fields(made))
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if "__repr__" not in vars(cls):
            made.__repr__ = _repr
        if eq:
            compared = [each.name for each in dataclasses.fields(made) if each.compare]
            made.__eq__, made.__hash__ = _comparison(compared)
        return made

    return decorate


def _init_of(cls: type, fields):
    """Return ``__init__``: it writes to the object's dictionary, since setting an attribute is refused."""
    taken = [field for field in fields if field.init]
    scope: dict[str, Any] = {"_made_later": _made_later}
    lines = []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()" + (f" if {name} is _made_later else {name}" if field.init else "")
        elif not field.init:
            continue  # an attribute of the class, or what __post_init__ writes
        lines.append(f"    _fields['{name}'] = {value}\n")

    def parameter(field) -> str:
        if field.default_factory is not dataclasses.MISSING:
            return f"{field.name}=_made_later"
        if field.default is dataclasses.MISSING:
            return field.name
        scope[f"_default_{field.name}"] = field.default
        return f"{field.name}=_default_{field.name}"

    parameters = ["self", *(parameter(field) for field in taken if not field.kw_only)]
    named = [parameter(field) for field in taken if field.kw_only]
    head = ", ".join([*parameters, *(["*", *named] if named else [])])
    last = "    self.__post_init__()\n" if hasattr(cls, "__post_init__") else ""
    exec(f"def __init__({head}):\n    _fields = self.__dict__\n{''.join(lines)}{last}", scope)
    init = scope["__init__"]
    init.__annotations__ = {field.name: field.type for field in taken}
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


class _MadeLater:
    """The default of a field that is made for each object."""

    def __repr__(self):
        return "<factory>"


_made_later = _MadeLater()


def _comparison(names: list[str]):
    """Return ``__eq__`` and ``__hash__``."""
    # Always a tuple, of one value as well: tuples compare by identity first, and their equality is a bool.
    values = operator.attrgetter(*names) if len(names) > 1 else lambda self: (getattr(self, names[0]),)

    def __eq__(self, other):
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self):
        return hash(values(self))

    return __eq__, __hash__


def _repr(self):
    shown = (f"{x.name}={getattr(self, x.name)!r}" for x in dataclasses.fields(self) if x.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self, name, value):
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self, name):
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
