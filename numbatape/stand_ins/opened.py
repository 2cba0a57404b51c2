"""Traced values that a function captures, turned into its arguments.

A rule computes with plain numbers when a tape is swept, and a sub-tape has a trace of its own. A function
that they call (an integrand, say) and its extra arguments may refer to traced values: in closures, defaults,
partials, containers and attributes of the user's objects. `Opened` finds these values, and puts others in
their places.

A rule runs again long after the line that calls it, when a loop of the user's has given the variables of a
closure, a global variable, a list or an object's attributes other contents. So `Opened` remembers what it has
found there: whatever has changed since then is copied as it was. What the function itself only counts or logs
stays what it is, because its value does not depend on that.
"""

from __future__ import annotations

import copy
import functools
import types

import numpy as np

from ..capture.captured import uses_in
from ..capture.held import (
    MUTABLE,
    Code,
    OfClasses,
    OfFunction,
    array_before,
    can_change,
    differ,
    duplicate,
    entries,
    module_scope,
    of_function,
)
from ..capture.holders import Wrapper, holder_of
from ..capture.references import FIELDS, GLOBAL, MEMBER, SLOT, Reference, Walk, of_object, references, same
from ..errors import UnsupportedOperationError
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from ..trace.integers import TracedInteger
from ..trace.library_kinds import Sparse
from ..trace.plain_arrays import PlainArray
from ..trace.trace import current
from ..usercode.bytecode import globals_assigned, globals_read
from ..usercode.frames import not_supported
from ..usercode.ownership import is_users_module
from .copies import behind_writing

_CONSTRAINTS = ("Bounds", "LinearConstraint", "NonlinearConstraint")


class Opened(Walk):
    """A function or a value that may refer to traced values.

    Parameters
    ----------
    name
        What error messages call it.
    value
        The function or the value.
    arrays
        Whether arrays that were made in the trace count as traced values, too: the trace may write to them.
        So it is for sub-tapes, which themselves compare global variables in each call.

    Attributes
    ----------
    found : list
        The traced values.
    """

    def __init__(self, name: str, value, arrays: bool = False):
        super().__init__()
        uses = uses_in(current())
        if uses is not None:
            uses.hidden = True  # the function runs again in each sweep
        self._name, self._value, self._arrays = name, value, arrays
        self.found: list[TracedArray] = []
        self._places: dict[int, int] = {}
        self._owners: dict[int, list[int]] = {}  # for the id of a value, the ids of what refers to it
        self._leaves: list[int] = []  # the ids of traced and plain arrays
        self._made: list[tuple] = []  # copies of containers and objects, and what they held at first
        # For the id of an object that can change, its state when it was found.
        self._before: dict[int, object] = {}
        self._all = False
        self._copies = _copied_containers()
        self._later: list[Reference] = []  # containers in global variables, which the function may only fill
        self._functions: list[types.FunctionType] = []
        self._fields: set[int] = set()  # ids of dictionaries of attributes, and of namespaces
        self._modules: dict[int, types.ModuleType] = {}
        self._classes: list[type] = []
        self._walk_all(value)
        self._of_classes = OfClasses(self._classes)
        self._code = Code((*self._functions, *self._of_classes.functions))
        self._leave_counts()
        self._opened = self._above(self._leaves)

    def _walk_all(self, value) -> None:
        """Walk; containers in global variables that the function only fills go on being filled."""
        waiting = [Reference(value)]
        while waiting:
            self.walk(*waiting)
            later, self._later = self._later, []
            code = Code(self._functions)
            waiting = [reference for reference in later if not code.only_fills(reference.name)]

    def visit(self, reference: Reference) -> list[Reference]:
        """Note what is traced in a value, and how it was before; return what it refers to."""
        value = reference.value
        key = id(value)
        if not self._arrays:
            # Attributes of objects hold the caller's arrays and containers; the trace writes to copies.
            value = _standing(value) if type(value) is np.ndarray else self._copies.get(key, value)
            reference = reference._replace(value=value)
        kind = type(value)
        if (kind is TracedArray or kind is TracedComplex) and value._trace.closed:
            return []  # something has kept the value beyond its call, so it has no place on this tape
        if kind is TracedComplex:
            raise not_supported(
                f"{self._name} with complex traced parameters", "pass real and imaginary parts"
            )
        if kind is TracedArray or kind is PlainArray or kind is TracedInteger:
            self._leaves.append(key)
            if kind is TracedArray or (self._arrays and kind is PlainArray):
                self._places[key] = len(self.found)
                self.found.append(value)
            elif kind is PlainArray:
                self._before[key] = value._value.copy()
            return []
        if isinstance(value, type):
            if not self._arrays:
                self._classes.append(value)
            return []
        found = self._references(reference)
        for part in found:
            self._owners.setdefault(id(part.value), []).append(key)
        if kind is types.FunctionType and holder_of(value) is None:
            self._functions.append(value)
            self._before[id(value)] = of_function(value, variables=not self._arrays)
        elif kind is np.ndarray and value.dtype != object:
            if (trace := current()) is not None and trace.memory.writes:
                self._leaves.append(key)
                self._before[key] = array_before(trace, value)
        elif can_change(value):
            if reference.kind is FIELDS or kind is types.SimpleNamespace:
                self._fields.add(key)
            self._before[key] = duplicate(value)
        return found

    def _references(self, reference: Reference) -> list[Reference]:
        """Return what the walk follows from a value."""
        value = reference.value
        if isinstance(value, Wrapper):  # what a verb has made, such as ``nt.value_and_grad(f)``
            return [Reference(value.__wrapped__)]
        if isinstance(value, Sparse):
            return [Reference(value.values)]
        if isinstance(value, types.ModuleType):
            if self._arrays or not is_users_module(value):
                return []
            self._modules[id(value)] = value
            before = self._before[id(value)] = self._before.get(id(value), {}) | module_scope(reference)
            return [Reference(part, GLOBAL) for part in before.values()]
        if type(value) is types.FunctionType and (copied := behind_writing(value)) is not None:
            return [Reference(copied)]
        held = of_object(value) if _is_constraint(value) else references(value)
        found = [part for part in held if part.kind is not MEMBER and part.kind is not GLOBAL]
        if not self._arrays and type(value) is types.FunctionType:
            read = globals_read(value.__code__)
            for part in held:
                if part.kind is GLOBAL and part.name in read:
                    self._owners.setdefault(id(part.value), []).append(id(value))
                    (self._later if isinstance(part.value, MUTABLE) else found).append(part)
        return found

    def _leave_counts(self) -> None:
        """Forget what the function only counts in or appends to: it goes on doing so."""
        code = self._code
        for before in self._before.values():
            if isinstance(before, OfFunction):
                for name in code.counted.intersection((*before.variables, *before.attributes)):
                    before.variables.pop(name, None)
                    before.attributes.pop(name, None)

    def keep_all(self) -> None:
        """Let the next copy be one of everything that can change, not only of what has changed."""
        self._all = True
        self._opened |= self._above([*self._before])

    def _changed(self) -> list[int]:
        """Return the ids of what holds something else than when it was found."""
        if change := self._of_classes.changed(self._code):
            raise UnsupportedOperationError(
                f"{self._name}: its function reads {change}, in a sweep. What it reads of a class "
                "or what methods read outside of their object is not kept for each call; pass it to the "
                "function as an argument, or keep it in the object"
            )
        return [key for key, before in self._before.items() if self._differs(key, before)]

    def _differs(self, key: int, before) -> bool:
        if isinstance(before, OfFunction):
            return differ(before.now(self.seen[key]).entries, before.entries)
        if key in self._modules:
            now = {name: getattr(self._modules[key], name, None) for name in before}
            return differ([*now.values()], [*before.values()])
        now, counted = self.seen[key], self._code.counted
        if key in self._fields and counted:
            now, before = (_without(counted, each) for each in (now, before))
        return differ(entries(now), entries(before))

    def _above(self, ids: list[int]) -> set[int]:
        """Return the ids of all values that refer to one of some values, directly or indirectly."""
        above: set[int] = set()
        waiting = [*ids]
        while waiting:
            key = waiting.pop()
            if key not in above:
                above.add(key)
                waiting += self._owners.get(key, ())
        return above

    def filled(self, values):
        """Return a copy with other values in the places of the traced ones."""
        done = _Done()
        if changed := self._changed():
            self._opened |= self._above(changed)
        copied = self._copy(self._value, values, done)
        self._made = [(its, _held(its)) for its in done.values()]
        return copied

    @property
    def written(self) -> bool:
        """Whether the last copy has changed what it refers to, as the function itself would have done."""
        return any(
            len(before) != len(_held(its)) or any(a is not b for a, b in zip(before, _held(its), strict=True))
            for its, before in self._made
        )

    def _copy(self, value, values, done):
        """Return a copy of a value in which other values take the places of the traced ones.

        What refers to no traced value is returned as it is. ``done`` has the copies that were made, because
        values may refer to one another in a circle.
        """
        kind = type(value)
        if id(value) in self._places:
            return values[self._places[id(value)]]
        if kind is PlainArray or (kind is np.ndarray and value.dtype != object and id(value) in self._before):
            return self._before[id(value)]
        if kind is TracedInteger:
            return value.settled()
        if id(value) not in self._opened:
            return value
        if id(value) in done:
            return done[id(value)]

        def again(part):
            return self._copy(part, values, done)

        holder, key = holder_of(value), id(value)
        if isinstance(value, type):
            return value
        if kind is types.FunctionType and holder is None:
            if (copied := behind_writing(value)) is not None:
                return again(copied)
            return self._function(value, again, done)
        if key in self._modules:
            return self._module(value, again, done)
        value = self._before.get(key, value)
        if isinstance(value, dict) and (holder is None or kind is dict):
            result = done[key] = copy.copy(value)  # noted first, because it may refer to itself
            result.update({key: again(part) for key, part in value.items()})
        elif holder is not None:
            result = holder.made(value, [again(part) for part in holder.parts(value)])
        elif isinstance(value, Wrapper):
            result = value.of(again(value.__wrapped__))
        elif isinstance(value, Sparse):
            result = value.with_data(again(value.values))
        elif kind is list:
            result = done[key] = []  # noted first, because a list may contain itself
            result += map(again, value)
        elif isinstance(value, (list, tuple)):
            parts = [again(part) for part in value]
            result = kind(*parts) if hasattr(value, "_fields") else kind(parts)
        else:
            result = done[key] = duplicate(value)
            self._put_attributes(result, value, again)
        done[key] = result
        return result

    def _function(self, value: types.FunctionType, again, done):
        """Return a copy of a function, whose closure, attributes and globals are copies of what was there."""
        before, scope = self._before[id(value)], value.__globals__
        assert isinstance(before, OfFunction)
        if private := self._all or any(
            id(part) in self._opened or not same(scope.get(name), part)
            for name, part in before.variables.items()
        ):
            scope = done.scopes.setdefault(id(scope), {**scope})
        cells = tuple(types.CellType() for _ in value.__closure__ or ())
        made = types.FunctionType(value.__code__, scope, value.__name__, None, cells or None)
        counts = self._code.counted.intersection(globals_assigned(value.__code__)) if private else ()
        result = done[id(value)] = _counting(made, counts, value.__globals__) if counts else made
        by_cell = dict(zip(map(id, value.__closure__ or ()), cells, strict=True))
        for cell, content in before.cells:
            by_cell[id(cell)].cell_contents = again(content)
        made.__defaults__ = before.defaults and tuple(map(again, before.defaults))
        made.__kwdefaults__ = before.keywords and {k: again(v) for k, v in before.keywords.items()}
        made.__qualname__ = value.__qualname__
        made.__dict__.update({name: again(part) for name, part in before.attributes.items()})
        if private:
            scope.update({name: again(part) for name, part in before.variables.items()})
        return result

    def _module(self, value: types.ModuleType, again, done) -> types.ModuleType:
        """Return a module with the attributes that another one had, and its other ones."""
        result = done[id(value)] = types.ModuleType(value.__name__, value.__doc__)
        result.__getattr__ = functools.partial(getattr, value)  # type: ignore[method-assign]
        vars(result).update({name: again(part) for name, part in self._before[id(value)].items()})
        return result

    def _put_attributes(self, result, value, again) -> None:
        for reference in of_object(value):
            if reference.kind is FIELDS:
                fields = self._before.get(id(reference.value), reference.value)
                result.__dict__.update({name: again(part) for name, part in fields.items()})
            elif reference.kind is SLOT:
                object.__setattr__(result, reference.name, again(reference.value))


def _copied_containers() -> dict[int, object]:
    """Return the copies of captured containers to which the trace writes, by the ids of these."""
    trace = current()
    copies = None if trace is None else trace.capture.copies
    return {} if copies is None else {id(original): made for original, made, *_ in copies.filled}


def _standing(array: np.ndarray):
    """Return what stands for a captured array in the trace, if that has taken it over; else the array."""
    trace = current()
    found = None if trace is None or trace.capture.arrays is None else trace.capture.arrays.found(array)
    return array if found is None else found


def _is_constraint(value) -> bool:
    """Whether a value is a constraint of scipy.optimize, which holds what the user gave it."""
    kind = type(value)
    return kind.__module__.startswith("scipy.optimize") and kind.__name__ in _CONSTRAINTS


class _Done(dict):
    """Copies by the ids of the originals, and those of functions' globals."""

    def __init__(self):
        super().__init__()
        self.scopes: dict[int, dict] = {}


def _counting(copied: types.FunctionType, names, scope: dict):
    """Return a function that counts in global variables of the original, too."""

    def counting(*args, **kwargs):
        try:
            return copied(*args, **kwargs)
        finally:
            scope.update((name, copied.__globals__[name]) for name in names)

    counting.__dict__ = copied.__dict__
    return counting


def _without(names: set[str], value) -> dict:
    """Return the attributes of a namespace, or of an object's dictionary, that have other names."""
    named = value if isinstance(value, dict) else vars(value)
    return {name: part for name, part in named.items() if name not in names}


def _held(value) -> list:
    return of_function(value).entries if type(value) is types.FunctionType else entries(value)


def as_now(functions: tuple) -> tuple:
    """Return functions as they are: later turns of a loop cannot change what they refer to."""
    opened = Opened("a rule", functions)
    opened.keep_all()
    return opened.filled(opened.found)


def globals_of(functions: tuple) -> frozenset[str]:
    """Return the names of the global variables of users that functions read and do not themselves assign."""
    opened = Opened("a rule", functions)
    kept = (before for before in opened._before.values() if isinstance(before, OfFunction))
    return frozenset(name for before in kept for name in before.variables).difference(opened._code.assigned)
