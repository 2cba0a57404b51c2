"""Containers that Python does not call so: classes of attrs and pydantic, namespaces, SciPy's results
that are tuples with further fields, and other mappings.

They are put together without their constructors, whose converters and validators expect plain numbers.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping

from ..errors import StructureError

# Attributes in which Python's own mappings keep their items.
ITEMS = ("data", "maps")


def ways_of(instance) -> tuple[Callable, Callable] | None:
    """Return what takes instances of a class apart, and what puts them together; None if nothing does.

    Parameters
    ----------
    instance
        The first one of its class that was met.
    """
    cls = type(instance)
    if hasattr(cls, "__attrs_attrs__"):
        made = [field.name for field in cls.__attrs_attrs__ if not field.init]
        return _fields(cls, tuple(field.name for field in cls.__attrs_attrs__), made, _set_fields)
    if hasattr(cls, "__pydantic_decorators__") and hasattr(cls, "model_fields"):
        return _fields(cls, tuple(cls.model_fields), list(cls.__private_attributes__), _set_model)
    if hasattr(cls, "__dataclass_fields__"):
        fields = cls.__dataclass_fields__.values()  # pydantic's dataclasses would validate traced values
        made = [field.name for field in fields if not field.init]
        return _fields(cls, tuple(field.name for field in fields), made, _set_fields)
    if hasattr(cls, "_extra_fields"):
        return _bunch_parts, functools.partial(_bunch, cls)
    if issubclass(cls, types.SimpleNamespace) or (cls.__module__, cls.__name__) == ("argparse", "Namespace"):
        return _namespace_parts, lambda names, parts: cls(**dict(zip(names, parts, strict=True)))
    # Since Python 3.12 the hash of a mapping proxy is that of what it shows, which has none as a rule.
    hashable = cls.__hash__ is not None and cls is not types.MappingProxyType
    if issubclass(cls, Mapping) and (not hashable or issubclass(cls, dict)):
        return _mapping(instance)
    return None


def _fields(cls: type, names: tuple, made: list, put: Callable) -> tuple[Callable, Callable]:
    def apart(instance):
        # A field that the constructor computes from others would lose the derivative by way of them.
        extra = getattr(instance, "__pydantic_extra__", None)
        if made or extra:
            raise StructureError(
                f"{cls.__name__} has fields that are no arguments of its constructor "
                f"({', '.join([*made, *(extra or ())])}): pass its other fields in a dictionary"
            )
        return tuple(getattr(instance, name) for name in names), names, names

    return apart, lambda names, parts: put(cls.__new__(cls), dict(zip(names, parts, strict=True)))


def _set_fields(instance, values: dict):
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def _set_model(instance, values: dict):
    """Return a model of pydantic with values, as its ``model_construct`` leaves one."""
    of_pydantic = {"fields_set": set(values), "extra": None, "private": None}
    object.__setattr__(instance, "__dict__", values)
    return _set_fields(instance, {f"__pydantic_{name}__": value for name, value in of_pydantic.items()})


def _bunch_parts(result) -> tuple:
    """Take a result of SciPy's apart: entries of a tuple, further fields, and other names of the same values.

    What its methods keep beside them (the data of ``pearsonr``) is no part of the result.
    """
    fields = vars(result)
    names = (*result._fields, *result._extra_fields)
    parts = (*result, *[fields[name] for name in result._extra_fields])
    others = {id(part): place for place, part in enumerate(parts)}
    others = {name: others.get(id(part)) for name, part in fields.items() if name not in names}
    again = [(name, place) for name, place in others.items() if place is not None]
    return parts, (len(result), names, tuple(again)), names


def _bunch(cls: type, labels: tuple, parts):
    size, names, again = labels
    made = tuple.__new__(cls, parts[:size])
    vars(made).update(zip(names[size:], parts[size:], strict=True))
    vars(made).update({name: parts[place] for name, place in again})
    return made


def _namespace_parts(instance) -> tuple:
    names = tuple(vars(instance))
    return tuple(vars(instance).values()), names, names


def _mapping(instance) -> tuple[Callable, Callable] | None:
    """Return the two ways of a mapping that can be made of its items, as an argument or as keywords."""
    cls = type(instance)
    keys, values = list(instance), [instance[key] for key in instance]
    for make in (cls, lambda items: cls(**items)):
        try:
            made = make(dict(zip(keys, values, strict=True)))
            if list(made) == keys and all(
                made[key] is value for key, value in zip(keys, values, strict=True)
            ):
                return _ways_of_mapping(make)
        except Exception:  # the constructor of a user's class may raise anything
            continue
    return None


def _ways_of_mapping(make: Callable) -> tuple[Callable, Callable]:
    def together(keys, parts):
        return make(dict(zip(keys, parts, strict=True)))

    def apart(mapping):
        keys = tuple(mapping)
        parts = tuple([mapping[key] for key in keys])
        state = getattr(mapping, "__dict__", {})
        if state and state is not mapping:
            again = vars(together(keys, parts))
            lost = [name for name in state if name not in ITEMS and state[name] is not again.get(name, again)]
            if lost:
                raise StructureError(
                    f"a {type(mapping).__name__} has attributes beside its items ({', '.join(lost)}), which "
                    "a traced function would not get: pass a dictionary"
                )
        return parts, keys, keys

    return apart, together
