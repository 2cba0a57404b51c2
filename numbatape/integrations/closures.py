"""Traced values that a function captures, turned into its arguments.

A rule computes with plain numbers when a tape is swept. A function that the rule calls (an integrand, say)
and its extra arguments may refer to traced values: in closures, defaults, partials, containers and
attributes of the user's objects. `Opened` finds these values, and puts plain ones in their places.
"""

from __future__ import annotations

import copy
import types

from ..capture.holders import holder_of
from ..errors import UnsupportedOperationError
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.plain_arrays import PlainArray
from ..usercode.frames import where_in_user_code
from ..usercode.ownership import is_users_class


class Opened:
    """A function or a value that may refer to traced values.

    Attributes
    ----------
    found : list
        The traced values.
    """

    def __init__(self, name: str, value):
        self._name, self._value = name, value
        self.found: list[TracedArray] = []
        self._places: dict[int, int] = {}
        self._holds: dict[int, bool] = {}  # by id: whether an object refers to a traced value
        self._seen(value)

    def filled(self, values):
        """Return a copy with other values in the places of the traced ones."""
        if not self._holds.get(id(self._value), False):
            return self._value
        return self._copy(self._value, values, {})

    def _seen(self, value) -> bool:
        kind = type(value)
        if kind is TracedComplex:
            raise UnsupportedOperationError(
                f"{self._name} with complex traced parameters at {where_in_user_code()} is not supported; "
                "pass real and imaginary parts"
            )
        if kind is TracedArray:
            if id(value) not in self._places:
                self._places[id(value)] = len(self.found)
                self.found.append(value)
            return True
        if kind is PlainArray:
            return True
        known = self._holds.get(id(value))
        if known is None:
            self._holds[id(value)] = False  # for objects that refer to themselves
            known = self._holds[id(value)] = any([self._seen(part) for part in _behind(value)])
        return known

    def _copy(self, value, values, done):
        kind = type(value)
        if kind is TracedArray:
            return values[self._places[id(value)]]
        if kind is PlainArray:
            return value._value
        if not self._holds.get(id(value), False):
            return value
        if id(value) in done:
            return done[id(value)]

        def again(part):
            return self._copy(part, values, done)

        holder = holder_of(value, longest=None)
        if kind is dict or (holder is None and isinstance(value, dict)):  # which may refer to itself
            result = done[id(value)] = copy.copy(value)
            result.update({key: again(part) for key, part in value.items()})
        elif holder is not None:
            result = holder.made(value, [again(part) for part in holder.parts(value)])
        elif kind is types.FunctionType:
            return _function(value, again, done)
        elif isinstance(value, (list, tuple)):
            parts = [again(part) for part in value]
            result = kind(*parts) if hasattr(value, "_fields") else kind(parts)
        else:
            result = done[id(value)] = copy.copy(value)
            result.__dict__.update({key: again(part) for key, part in vars(value).items()})
        done[id(value)] = result
        return result


def _behind(value) -> list:
    """Return the objects that a value refers to, which may be or refer to traced values."""
    holder = holder_of(value, longest=None)
    if holder is not None:
        return list(holder.parts(value))
    if type(value) is types.FunctionType:
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if is_users_class(type(value)) and isinstance(getattr(value, "__dict__", None), dict):
        return list(vars(value).values())
    return []


def _is_filled(cell) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _function(value, again, done):
    cells = tuple(types.CellType() for _ in value.__closure__ or ())
    result = done[id(value)] = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, None, cells or None
    )
    for new, cell in zip(cells, value.__closure__ or (), strict=True):
        if _is_filled(cell):
            new.cell_contents = again(cell.cell_contents)
    result.__defaults__ = value.__defaults__ and tuple(map(again, value.__defaults__))
    result.__kwdefaults__ = value.__kwdefaults__ and {k: again(v) for k, v in value.__kwdefaults__.items()}
    result.__qualname__ = value.__qualname__
    result.__dict__.update(value.__dict__)
    return result
