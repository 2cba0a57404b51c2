"""`Site`: one call of a rule on a tape, and its `Instance` at one place of a plan.

The instruction's operands are all arguments, one after the other, and its result is all results;
a `Port` says where each of them is, and what kind of object the rule gets.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import OutputError, SpecError, UnforeseenShapeError, UnsupportedOperationError
from ..tape.sizes import Sizes
from ..trace.array import TracedArray
from ..trace.primitives import dims_of
from .instance import Instance
from .native import native, workspace_class
from .ports import Port
from .result_shapes import ObservedShapes


@dataclass(frozen=True)
class ArgumentSpec:
    """What the function ``workspace=`` of `primitive` is told about an argument.

    Parameters
    ----------
    shape : tuple of int
        The argument's shape; ``()`` for a number.
    dtype : numpy.dtype
        The argument's dtype.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.ArgumentSpec.of(np.ones((2, 3)))
    ArgumentSpec(shape=(2, 3), dtype=dtype('float64'))
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, value: Any) -> ArgumentSpec:
        """Return the shape and the dtype of an array or a number.

        Parameters
        ----------
        value : array or number
            What is described.

        Returns
        -------
        ArgumentSpec
            Its shape and its dtype; those of ``np.asarray(value)`` for anything but an array.

        Raises
        ------
        ValueError
            If NumPy cannot make an array of the value (a list of lists of different lengths, say).

        Examples
        --------
        >>> import numbatape as nt
        >>> nt.ArgumentSpec.of(1.0)
        ArgumentSpec(shape=(), dtype=dtype('float64'))
        """
        value = value if isinstance(value, np.ndarray) else np.asarray(value)
        return cls(value.shape, value.dtype)


class Callee(abc.ABC):
    """What the instruction of a call calls: the base of all rules with a value and a pullback.

    Attributes
    ----------
    name
        Its name in error messages.
    value
        ``value(*args)`` returns one result, or a tuple of them.
    pullback
        ``pullback(ybar, y, *args)`` returns one cotangent per argument, None for none.
    workspace
        The function of `ArgumentSpec` that declares its memory; None if it needs none.
    traceable, has_formula
        Whether its pullback is traced where its result is on a tape; whether the pullback or the
        pushforward can be traced.
    pushforward, push_formula
        Its pushforward, and the same as Python code that can be traced; None where there is none.
    is_compiled
        Whether the sweep calls compiled code.
    follows_sizes
        Whether that is the same for all sizes, but for those of arguments and results.
    reads_cotangents
        Whether the pullback may do otherwise for other numbers of cotangents.
    observed
        The shapes that its results have had. None if it may depend on the sizes for which it was traced (it
        was made while tracing), so that a tape which calls it holds for these sizes alone.
    """

    name: str
    value: Callable[..., Any]
    pullback: Callable[..., Any]
    workspace: Callable | None = None
    pushforward: Callable | None = None
    push_formula: Callable | None = None
    traceable = has_formula = reads_cotangents = True
    is_compiled = follows_sizes = False
    observed: ObservedShapes | None = None

    def at(self, size: Callable[[int], int]) -> Callee:
        """Return the rule at given sizes: itself, unless it refers to a call."""
        return self

    @property
    def size_codes(self) -> set[int]:
        """The size codes that it refers to: those of a call."""
        return set()

    def result_shapes(self, sizes: Sizes, kind, arguments, results) -> list | None:
        """Return the shapes of the results as size codes; see `ObservedShapes.laws`.

        None if the tape holds for the present sizes alone.
        """
        return None if self.observed is None else self.observed.laws(sizes, kind, arguments, results)

    def fingerprint(self) -> str:
        """Return what tells one rule from others in this process."""
        return f"{type(self).__name__} {self.name} {id(self)}"

    @abc.abstractmethod
    def nested(self, site: Site, cotangents, results, args) -> list:
        """Record the pullback; return one cotangent for each argument of the first operand."""

    @abc.abstractmethod
    def no_further_derivative(self) -> Exception:
        """Return the error for a derivative of a pullback that cannot be traced."""


def allocated(workspace: Callable | None, specs) -> dict[str, Any]:
    """Return the keyword with a rule's memory: a named tuple of arrays; nothing if it declares none."""
    wanted = {} if workspace is None else workspace(*specs)
    if not isinstance(wanted, Mapping) or not all(
        isinstance(item, tuple) and len(item) == 2 for item in wanted.values()
    ):
        raise SpecError(f"workspace= must return a dict of name: (shape, dtype), got {wanted!r}")
    if not wanted:
        return {}
    arrays = (np.zeros(shape, dtype) for shape, dtype in wanted.values())
    return {"workspace": workspace_class(tuple(wanted))(*arrays)}


def shape_of(x) -> tuple[int, ...]:
    """Return np.shape(x), for an array in a tenth of the time; that of a traced array needs no guard."""
    if x.__class__ is np.ndarray:
        return x.shape
    if type(x) is TracedArray:
        return tuple(map(x._trace.tape.sizes.value, dims_of(x)))
    return np.shape(x)


PLAIN = {int, float, complex, bool, str, bytes, type(None)}  # their texts say all that they are


def _identity(arg) -> str:
    """Return what tells an argument that may be anything from others, as long as it lives.

    Two lists with the same entries are two arguments, because one of them may be written to later. And what
    ``repr`` says of an object need not be all that there is to it.
    """
    if type(arg) in PLAIN:
        return f"{type(arg)} {arg!r}"
    if isinstance(arg, np.generic) and not arg.dtype.hasobject:
        return f"{arg.dtype} {arg.tobytes()!r}"
    if isinstance(arg, tuple):
        return f"{type(arg)} {[_identity(item) for item in arg]}"
    if isinstance(arg, np.ndarray) and arg.dtype == object:
        return f"{arg.shape} {[_identity(item) for item in arg.flat]}"
    return f"{type(arg)} {id(arg)}"


@dataclass(eq=False)
class Site:
    """A call of a rule on a tape.

    Attributes
    ----------
    rule
        What is called.
    args
        The arguments, with None in place of traced ones.
    traced
        Positions of the traced arguments: first those that get cotangents from the pullback, then the rest.
    first, rest, results
        Ports of these arguments and of the results.
    single
        Whether the rule returns one result, not a tuple.
    specs
        The `ArgumentSpec` of each argument, with size codes in its shape.
    """

    rule: Callee
    args: list
    traced: list[int]
    first: list[Port]
    rest: list[Port]
    results: list[Port]
    single: bool
    specs: list[ArgumentSpec]
    family: int
    number: int = -1

    def __repr__(self) -> str:
        return f"Site({self.rule.name!r}, {self.number})"

    def fingerprint(self) -> str:
        """Return what decides the result of the call, for the tape's digest."""
        content = hashlib.sha256()
        for arg in self.args:
            if isinstance(arg, np.ndarray) and arg.dtype != object:
                content.update(repr((arg.shape, arg.dtype)).encode() + arg.tobytes())
            else:
                content.update(_identity(arg).encode())
        places = self.traced, self.first, self.rest, self.results, self.single, self.family
        return f"{self.rule.fingerprint()} {content.hexdigest()} {places}"

    def packed(self, parts):
        """Return results (or their cotangents) as the rule passes them: one, or a tuple."""
        return parts[0] if self.single else tuple(parts)

    def filled(self, values) -> list:
        """Return all arguments, given the traced ones."""
        args = list(self.args)
        for position, value in zip(self.traced, values, strict=True):
            args[position] = value
        return args

    def again(self, number: int) -> Site:
        """Return a call of the same rule with arguments that are like those of this one."""
        twin = object.__new__(Site)
        twin.__dict__.update(self.__dict__, number=number)
        return twin

    # ---- what the rule returned

    def checked_results(self, result, shapes) -> list:
        """Return the parts of a result; raise if its kind is not the one that was traced."""
        parts = [result] if self.single else list(result)
        for part, shape in zip(parts, shapes, strict=True):
            if shape_of(part) != shape:
                raise UnforeseenShapeError(
                    f"the rule {self.rule.name} returned shape {np.shape(part)}; by the shapes of its "
                    f"arguments, and from what it returned when it was traced, it should be {shape}"
                )
        return parts

    def checked_cotangents(self, cotangents, shapes, what: str = "pullback") -> list:
        """Return one cotangent per traced argument; raise if one does not fit its argument.

        Parameters
        ----------
        shapes
            The shapes of the traced arguments.
        """
        count = len(self.args)
        if not isinstance(cotangents, (tuple, list)) or len(cotangents) != count:
            came = len(cotangents) if isinstance(cotangents, (tuple, list)) else type(cotangents).__name__
            raise OutputError(
                f"the {what} of the rule {self.rule.name} must return a tuple of {count} cotangents, one an "
                f"argument (None for none); got {came}"
            )
        for position, shape in zip(self.traced, shapes, strict=True):
            part = cotangents[position]
            if part is not None and shape_of(part) != shape:
                raise OutputError(
                    f"the {what} of the rule {self.rule.name} returned a cotangent of shape {np.shape(part)} "
                    f"for argument {position}, which has shape {shape}"
                )
        return [cotangents[position] for position in self.traced]

    # ---- the engine's side

    def cells(self, size) -> tuple[int, int, int]:
        """Return how many cells the result and the two operands have; see `numbatape.engine.calls`."""
        results, first, rest = (
            size(ports[-1].stop) if ports else 0 for ports in (self.results, self.first, self.rest)
        )
        return results, first, rest

    @property
    def size_codes(self) -> set[int]:
        """The size codes that it refers to."""
        ports = (*self.first, *self.rest, *self.results)
        found = {code for port in ports for code in (port.start, port.stop, *port.shape)}
        return found.union(self.rule.size_codes, *(spec.shape for spec in self.specs))

    def at(self, size: Callable[[int], int]) -> Site:
        """Return the same call with numbers in the place of size codes, whose values ``size`` returns."""
        first, rest, results = ([port.at(size) for port in p] for p in (self.first, self.rest, self.results))
        specs = self.specs_at(size)
        rule, single, family = self.rule.at(size), self.single, self.family
        return Site(rule, self.args, self.traced, first, rest, results, single, specs, family, self.number)

    def specs_at(self, size: Callable[[int], int]) -> list[ArgumentSpec]:
        """Return the specs of the arguments with numbers in their shapes."""
        return [ArgumentSpec(tuple([size(n) for n in spec.shape]), spec.dtype) for spec in self.specs]

    def memory_of(self, rule: Callee, size: Callable[[int], int]) -> dict[str, Any]:
        """Return the keyword with the memory of the rule; ``rule`` is the call's, at the same sizes."""
        return {} if rule.workspace is None else allocated(rule.workspace, self.specs_at(size))

    def place(self, size, out, first, rest, out_adjoint, first_adjoint) -> Instance:
        """Return an instance on cells; see `numbatape.engine.calls`."""
        return Instance(self, size, out, first, rest, out_adjoint, first_adjoint)

    def native(self, size, reverse: bool):
        """Return how to call the rule without Python; see `numbatape.engine.calls`."""
        return native(self, size, reverse) if self.rule.is_compiled else None

    def explain(self, error: BaseException) -> None:
        """Add the rule's name to an error."""
        explain(self.rule, error)


def explain(rule, error: BaseException) -> None:
    """Add a rule's name to an error, once."""
    note = f"(raised by the rule {rule.name})"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def plain_result(name: str, result, is_traced: Callable) -> tuple[list, bool]:
    """Return (copies of the results, whether there is one); raise for objects that no rule may return."""
    single = not isinstance(result, tuple)
    parts = [result] if single else list(result)
    copies = []
    for part in parts:
        if is_traced(part):
            raise UnsupportedOperationError(
                f"the value of the rule {name} is traced: it computes with a traced value that is none of "
                "its arguments; pass that as an argument"
            )
        if not isinstance(part, (np.ndarray, np.generic, float, int)):
            raise OutputError(
                f"the rule {name} must return an array, a number or a tuple of them, got "
                f"{type(part).__name__}"
            )
        copies.append(np.array(part) if isinstance(part, np.ndarray) else np.asarray(part)[()])
    if not parts:
        raise OutputError(f"the rule {name} returned an empty tuple")
    return copies, single
