"""Pullbacks and pushforwards that cannot be traced, as rules: each is the other's pullback.

Both are linear in their first arguments (cotangents, tangents) and have a derivative with respect
to these alone; ``y`` and the arguments of the rule are the rest.
"""

from __future__ import annotations

import abc
import dis
import inspect

import numpy as np

from ..errors import OutputError, UnsupportedOperationError
from ..jit.rules import is_dispatcher
from ..trace import operations
from ..trace.array import TracedArray
from ..trace.extents import filled
from ..trace.primitives import dims_of
from ..usercode.ownership import python_of
from .emit import emit
from .native import Entry
from .site import Callee, shape_of


def is_jitted(function) -> bool:
    """Whether a function is compiled by Numba."""
    return python_of(function) is not function


def no_further_derivative(name: str) -> UnsupportedOperationError:
    """Return the error for a derivative that needs the derivative of a pullback which cannot be traced."""
    return UnsupportedOperationError(
        f"the rule {name} has no derivative of this order: its pullback has a workspace, and so has its "
        "pushforward, if it has one, so neither can be traced; give a pushforward= that does without the "
        "workspace to nt.primitive"
    )


def touches(function, name: str) -> bool:
    """Whether a function's code reads a parameter."""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    read = {
        i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD") or "DEREF" in i.opname
    }
    return name in read


def zeros_of(x):
    """Return zeros of the shape of an array or a number; they are floats, of its dtype if that is one."""
    dtype = x.dtype if getattr(x, "dtype", np.dtype(int)).kind == "f" else np.dtype(float)
    if type(x) is TracedArray:
        return filled(x._trace, dims_of(x), 0.0, dtype)
    return np.zeros(np.shape(x), dtype)[()]


def emit_linear(rule, first, results, args):
    """Record a call of one of the rules below."""
    everything = [*first, *results, *args]
    return emit(rule, everything, rest=tuple(range(len(first), len(everything))))


class Linear(Callee):
    """What `Pulled` and `Pushed` share.

    Parameters
    ----------
    rule, site
        The user's rule, and its call.
    """

    traceable = False

    def __init__(self, rule, site):
        self.rule, self.site = rule, site
        self.compiled = rule.compiled
        self.first_value = rule.value
        # This call has a workspace of its own, so `value` is called again to fill it.
        own = rule.workspace
        self.workspace = None if own is None else lambda *_: own(*site.specs)

    @property
    def has_formula(self) -> bool:
        return self.rule.has_formula

    def at(self, size) -> Linear:
        return type(self)(self.rule, self.site.at(size))

    @property
    def size_codes(self) -> set[int]:
        return self.site.size_codes

    def result_shapes(self, sizes, kind, arguments, results) -> list | None:
        return None if self.rule.observed is None else self.models(arguments)

    @abc.abstractmethod
    def models(self, flat) -> list:
        """Return those of its arguments (or of their shapes) that its results are like."""

    def fingerprint(self) -> str:
        return f"{type(self).__name__} of {self.site.fingerprint()}"

    @property
    def is_compiled(self) -> bool:
        return is_dispatcher(self.rule.pullback) or is_dispatcher(self.rule.pushforward)

    def _entries(self, linear, y, given, state, produced) -> tuple[Entry, Entry]:
        """Return the functions that compiled code calls: the pullback and the pushforward.

        Parameters
        ----------
        linear
            Names of cotangents, of tangents.
        y, given
            Names of the rule's results and of its traced arguments.
        produced
            Names of the pushforward's results, of the pullback's.
        """
        site, rule = self.site, self.rule
        args = [None if k in site.traced else state.constant(f"c{k}", x) for k, x in enumerate(site.args)]
        for position, name in zip(site.traced, given, strict=True):
            args[position] = name
        cotangents, tangents = linear
        full = ["None"] * len(args)
        wanted: list[str | None] = [None] * len(args)
        for position, tangent, name in zip(site.traced, tangents, produced[1], strict=True):
            full[position], wanted[position] = tangent, name
        results = site.packed(y)
        before = tuple(args)
        return (
            Entry(rule.pullback, (site.packed(cotangents), results, *args), tuple(wanted), False, before),
            Entry(rule.pushforward, (tuple(full), results, *args), tuple(produced[0]), site.single, before),
        )

    def no_further_derivative(self) -> UnsupportedOperationError:
        return no_further_derivative(self.rule.name)

    def _split(self, flat):
        """Return (what it is linear in, results of the rule, its traced arguments)."""
        count = len(self.site.traced)
        rest = len(self.site.results) + count
        return flat[:-rest], flat[-rest:-count], flat[-count:]

    def split(self, flat):
        """Return (what it is linear in, the rest)."""
        count = len(flat) - len(self.site.results) - len(self.site.traced)
        return list(flat[:count]), list(flat[count:])

    def _call(self, function, *args):
        """Call a formula, whose operations are recorded; it does not use the workspace."""
        keywords = {}
        if self.rule.workspace is not None and "workspace" in inspect.signature(function).parameters:
            keywords["workspace"] = None
        return operations.rebind(function)(*args, **keywords)

    def _pull(self, flat, memory) -> tuple:
        """Return the cotangents of the traced arguments."""
        site, rule = self.site, self.rule
        ybar, y, given = self._split(flat)
        args = site.filled(given)
        if memory:
            rule.value(*args, **memory)
        return self._pulled(rule.pullback(site.packed(ybar), site.packed(y), *args, **memory), given)

    def _pulled(self, parts, given) -> tuple:
        """Return the cotangents of the traced arguments, which are given, with zeros in the place of None."""
        parts = self.site.checked_cotangents(parts, map(shape_of, given))
        return tuple(zeros_of(x) if part is None else part for part, x in zip(parts, given, strict=True))

    def _push(self, flat, memory) -> tuple:
        """Return the tangents of the results."""
        site, rule = self.site, self.rule
        if rule.pushforward is None:
            raise self._no_pushforward()
        tangents, y, given = self._split(flat)
        args = site.filled(given)
        if memory:
            rule.value(*args, **memory)
        return self._pushed(rule.pushforward(self._tangents(tangents), site.packed(y), *args, **memory), y)

    def _tangents(self, tangents) -> tuple:
        full: list = [None] * len(self.site.args)
        for position, tangent in zip(self.site.traced, tangents, strict=True):
            full[position] = tangent
        return tuple(full)

    def _pushed(self, result, y) -> tuple:
        """Return the tangents of the results, which are ``y``."""
        parts = (result,) if self.site.single else tuple(result)
        came, wanted = list(map(shape_of, parts)), list(map(shape_of, y))
        if came != wanted:
            raise OutputError(
                f"the pushforward of the rule {self.rule.name} returned tangents of shapes {came} for "
                f"results of shapes {wanted}"
            )
        return parts

    def _no_pushforward(self) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f"the rule {self.rule.name} has no pushforward, which forward mode needs here: its pullback has "
            "a workspace, so it cannot be traced and transposed; give pushforward= to nt.primitive, or use "
            "reverse mode"
        )


class Pulled(Linear):
    """The pullback as a rule, of ``(*ybar, *y, *args)``."""

    name = property(lambda self: f"pullback of {self.rule.name}")

    def entries(self, site, names, results, state) -> list[Entry]:
        ybar, y, given = self._split(names)
        tangents = [f"bar_{name}" for name in results]
        back, push = self._entries((ybar, tangents), y, given, state, (ybar, results))
        return [back, push]

    @property
    def formula(self):
        return self.rule.formula

    def transpose(self) -> Linear:
        return Pushed(self.rule, self.site)

    def models(self, flat) -> list:
        return list(self._split(flat)[2])

    def direct(self, flat) -> list:
        """Record the pullback's own formula; return its results."""
        site, (ybar, y, given) = self.site, self._split(flat)
        parts = self._call(self.rule.formula, site.packed(ybar), site.packed(y), *site.filled(given))
        return list(self._pulled(parts, given))

    def value(self, *flat, **memory):
        return self._pull(flat, memory)

    def pullback(self, tangents, _, *flat, **memory):
        count = len(self.site.results)
        return (*self._push((*tangents, *flat[count:]), memory), *[None] * (len(flat) - count))

    def nested(self, site, tangents, _, args) -> list:
        rule, mine = self.rule, self.site
        if rule.pushforward is None:
            raise self._no_pushforward()
        _, y, given = self._split(args)
        pushed = Pushed(rule, mine)
        if rule.workspace is not None or is_jitted(rule.pushforward):
            return list(emit_linear(pushed, tangents, y, given))
        return pushed.direct([*tangents, *y, *given])


class Pushed(Linear):
    """The pushforward as a rule, of ``(*tangents, *y, *args)``."""

    name = property(lambda self: f"pushforward of {self.rule.name}")

    def entries(self, site, names, results, state) -> list[Entry]:
        tangents, y, given = self._split(names)
        cotangents = [f"bar_{name}" for name in results]
        back, push = self._entries((cotangents, tangents), y, given, state, (results, tangents))
        return [push, back]

    @property
    def formula(self):
        return self.rule.push_formula

    def transpose(self) -> Linear:
        return Pulled(self.rule, self.site)

    def models(self, flat) -> list:
        return list(self._split(flat)[1])

    def direct(self, flat) -> list:
        """Record the pushforward's own formula; return its results."""
        site, (tangents, y, given) = self.site, self._split(flat)
        return list(
            self._pushed(
                self._call(
                    self.rule.push_formula, self._tangents(tangents), site.packed(y), *site.filled(given)
                ),
                y,
            )
        )

    def value(self, *flat, **memory):
        return self._push(flat, memory)

    def pullback(self, ybar, _, *flat, **memory):
        count = len(self.site.traced)
        return (*self._pull((*ybar, *flat[count:]), memory), *[None] * (len(flat) - count))

    def nested(self, site, cotangents, _, args) -> list:
        _, y, given = self._split(args)
        return list(emit_linear(Pulled(self.rule, self.site), cotangents, y, given))
