"""The arguments of a call of a sub-tape: what becomes inputs of its tape, and what selects it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..capture.references import key_of, key_orders
from ..control.trees import parts_of
from ..errors import SpecError
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.array import TracedArray, is_deferred
from ..trace.integers import TracedInteger
from ..trace.plain_arrays import as_ndarrays

PARAMETERS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Kind(NamedTuple):
    """What a number or an array is, whatever its entries and its sizes are.

    Attributes
    ----------
    cls
        Its class: ndarray, float, int or a scalar class of NumPy.
    dtype, ndim
        Of it as an array.
    active
        Whether an adjoint is computed for it. Numbers always take one: it costs nothing, and the same number
        is a constant in one call and a variable in another.
    """

    cls: type
    dtype: np.dtype
    ndim: int
    active: bool

    def made(self, cells: np.ndarray):
        """Return what the function sees, given its numbers in float64."""
        return cells.astype(self.dtype) if self.cls is np.ndarray else self.cls(cells[()])


def kind_of(leaf) -> Kind | None:
    """Return the kind of a leaf that becomes an input of a tape; None for one that selects the tape."""
    if type(leaf) is TracedInteger:
        return Kind(int, np.dtype(int), 0, False)
    if type(leaf) is TracedArray:
        sample = leaf._sample()
        cls = type(sample) if not is_deferred(leaf) or not np.ndim(sample) else np.ndarray
        active = leaf._level == ACTIVE
    elif isinstance(leaf, (np.ndarray, np.generic)) or type(leaf) in (int, float):
        sample, cls, active = leaf, type(leaf), False
    else:
        return None
    array = np.asarray(sample)
    if array.dtype.kind not in "biuf":
        return None
    floating = array.dtype.kind == "f"
    return Kind(
        cls if cls is not np.memmap else np.ndarray,
        array.dtype,
        array.ndim,
        floating and (active or not array.ndim),
    )


@pytrees.opaque
@dataclass(frozen=True, eq=False)
class Static:
    """A static argument among the others."""

    value: Any


class Arguments:
    """The arguments of one call.

    Parameters
    ----------
    args, kwargs
        The arguments, static ones as `Static`.

    Attributes
    ----------
    leaves
        What becomes inputs of a tape: traced or plain arrays and numbers.
    kinds
        The kind of each.
    key
        What selects a tape.
    statics
        The values that do, by their place among all leaves.
    """

    def __init__(self, args: tuple, kwargs: dict):
        parts, self._structure = parts_of((args, kwargs))
        self.leaves: list = []
        self.kinds: list[Kind] = []
        self.statics: dict[int, Any] = {}
        key: list[Hashable] = [self._structure, key_orders((*args, kwargs))]
        for place, part in enumerate(map(as_ndarrays, parts)):
            kind = kind_of(part)
            if kind is not None:
                self.leaves.append(part)
                self.kinds.append(kind)
                key.append(kind)
                continue
            value = part.value if type(part) is Static else part
            self.statics[place] = value
            key.append(key_of(value))
        self.key = tuple(key)

    @property
    def is_traced(self) -> bool:
        """Whether a traced value is among the arguments."""
        return any(type(leaf) in (TracedArray, TracedInteger) for leaf in self.leaves)

    def rebuilt(self, leaves) -> tuple[tuple, dict]:
        """Return ``(args, kwargs)`` with other leaves."""
        given = iter(leaves)
        count = len(self.statics) + len(self.kinds)
        parts = [self.statics[k] if k in self.statics else next(given) for k in range(count)]
        return pytrees.unflatten(self._structure, parts)


class StaticNames:
    """Which arguments of a function are static.

    Parameters
    ----------
    function
        The function.
    numbers, names
        Positions and names of static arguments, as the user has given them: one, or several.
    """

    def __init__(self, function: Callable, numbers, names):
        numbers = (numbers,) if isinstance(numbers, (int, np.integer)) else tuple(numbers or ())
        self.names = {names} if isinstance(names, str) else set(names or ())
        self._who = getattr(function, "__qualname__", repr(function))
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None
        # A ufunc's own defaults exclude one another when they are given.
        self._takes_defaults = not isinstance(inspect.unwrap(function), np.ufunc)
        known = () if self._signature is None else tuple(self._signature.parameters.values())
        positional = [each.name for each in known if each.kind in PARAMETERS]
        self.numbers = {
            number % len(positional) if number < 0 and positional else number for number in numbers
        }
        takes_more = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in known)
        for number in numbers:
            if (
                self._signature is not None
                and not takes_more
                and not -len(positional) <= number < len(positional)
            ):
                raise SpecError(
                    f"static_argnums={number}: {self._who} has {len(positional)} positional arguments"
                )
        missing = self.names - {each.name for each in known}
        if missing and not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known):
            raise SpecError(
                f"static_argnames={sorted(missing)[0]!r}: {self._who} has no argument of this name"
            )
        self.names |= {positional[k] for k in self.numbers if k < len(positional)}
        self._places = {name: k for k, name in enumerate(positional)}

    def arguments(self, args: tuple, kwargs: dict) -> Arguments:
        """Return the arguments of a call, in one order however they were given, defaults included."""
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._who}: {error}") from None
            if self._takes_defaults:
                bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        static = self.numbers | {self._places[name] for name in self.names if name in self._places}
        args = tuple(self._held(arg, k) if k in static else arg for k, arg in enumerate(args))
        kwargs = {name: self._held(arg, name) if name in self.names else arg for name, arg in kwargs.items()}
        return Arguments(args, kwargs)

    def _held(self, value, where) -> Static:
        """Return a static argument; a traced int among it is one number from now on."""
        if type(value) is TracedInteger:
            value = value.settled()
        if any(type(leaf) is TracedArray for leaf in pytrees.leaves(value)):
            raise SpecError(
                f"{self._who}: argument {where!r} is static, and it was called with a traced value for it; "
                "leave it out of static_argnums and static_argnames"
            )
        try:
            hash(value)
        except TypeError:
            raise SpecError(
                f"{self._who}: argument {where!r} is static, so it must be hashable; got a "
                f"{type(value).__name__}"
            ) from None
        return Static(value)
