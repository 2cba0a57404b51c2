"""Pullbacks and pushforwards that cannot be traced, as rules: each is the other's pullback.

Both are linear in their first arguments (cotangents, tangents) and have a derivative with respect
to these alone; ``y`` and the arguments of the rule are the rest.
"""

from __future__ import annotations

import numpy as np

from ...errors import OutputError, UnsupportedOperationError
from ...jit.rules import is_dispatcher
from .. import scipy_bridge
from .emit import emit
from .native import Entry


def is_jitted(function) -> bool:
    """Whether a function is compiled by Numba."""
    return hasattr(function, "py_func")


def no_further_derivative(name: str) -> UnsupportedOperationError:
    """Return the error for a derivative that would need the derivative of an opaque pullback."""
    return UnsupportedOperationError(
        f"the rule {name} has no derivative of this order: its pullback (and its pushforward, if it has one) "
        "is compiled or has a workspace, so it cannot be traced; write it in plain NumPy, without a workspace"
    )


def emit_linear(rule, first, results, args):
    """Record a call of one of the rules below."""
    everything = [*first, *results, *args]
    return emit(rule, everything, rest=tuple(range(len(first), len(everything))))


class Linear:
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
        # Memory of its own: what `value` leaves in it is computed again.
        own = rule.workspace
        self.workspace = None if own is None else lambda *_: own(*site.specs)

    @property
    def is_compiled(self) -> bool:
        return is_dispatcher(self.rule.pullback) or is_dispatcher(self.rule.pushforward)

    def _entries(self, linear, y, given, state, produced) -> tuple[Entry, Entry]:
        """Return what compiled code calls: the pullback and the pushforward.

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

    def _pull(self, flat, memory) -> tuple:
        """Return the cotangents of the traced arguments."""
        site, rule = self.site, self.rule
        ybar, y, given = self._split(flat)
        args = site.filled(given)
        if memory:
            rule.value(*args, **memory)
        parts = rule.pullback(site.packed(ybar), site.packed(y), *args, **memory)
        specs = [site.specs[k] for k in site.traced]
        return tuple(
            np.zeros(spec.shape, spec.dtype if spec.dtype.kind == "f" else float)[()]
            if part is None
            else part
            for part, spec in zip(site.checked_cotangents(parts), specs, strict=True)
        )

    def _push(self, flat, memory) -> tuple:
        """Return the tangents of the results."""
        site, rule = self.site, self.rule
        if rule.pushforward is None:
            raise self._no_pushforward()
        tangents, y, given = self._split(flat)
        args = site.filled(given)
        if memory:
            rule.value(*args, **memory)
        return self._pushed(rule.pushforward(self._tangents(tangents), site.packed(y), *args, **memory))

    def _tangents(self, tangents) -> tuple:
        full: list = [None] * len(self.site.args)
        for position, tangent in zip(self.site.traced, tangents, strict=True):
            full[position] = tangent
        return tuple(full)

    def _pushed(self, result) -> tuple:
        parts = (result,) if self.site.single else tuple(result)
        shapes = [port.shape for port in self.site.results]
        if list(map(np.shape, parts)) != shapes:
            raise OutputError(
                f"the pushforward of the rule {self.rule.name} returned tangents of shapes "
                f"{list(map(np.shape, parts))} for results of shapes {shapes}"
            )
        return parts

    def _no_pushforward(self) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f"the rule {self.rule.name} has no pushforward, which forward mode needs here: its pullback is "
            "compiled or has a workspace, so it cannot be traced and transposed; give pushforward= to "
            "nt.primitive, or use reverse mode"
        )


class Pulled(Linear):
    """The pullback as a rule, of ``(*ybar, *y, *args)``."""

    name = property(lambda self: f"pullback of {self.rule.name}")

    def entries(self, site, names, results, state) -> list[Entry]:
        ybar, y, given = self._split(names)
        tangents = [f"bar_{name}" for name in results]
        back, push = self._entries((ybar, tangents), y, given, state, (ybar, results))
        return [back, push]

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
        if rule.workspace is not None or is_jitted(rule.pushforward):
            return list(emit_linear(Pushed(rule, mine), tangents, y, given))
        push = scipy_bridge.rebind(rule.pushforward)
        return list(self._pushed(push(self._tangents(tangents), mine.packed(y), *mine.filled(given))))


class Pushed(Linear):
    """The pushforward as a rule, of ``(*tangents, *y, *args)``."""

    name = property(lambda self: f"pushforward of {self.rule.name}")

    def entries(self, site, names, results, state) -> list[Entry]:
        tangents, y, given = self._split(names)
        cotangents = [f"bar_{name}" for name in results]
        back, push = self._entries((cotangents, tangents), y, given, state, (results, tangents))
        return [push, back]

    def value(self, *flat, **memory):
        return self._push(flat, memory)

    def pullback(self, ybar, _, *flat, **memory):
        count = len(self.site.traced)
        return (*self._pull((*ybar, *flat[count:]), memory), *[None] * (len(flat) - count))

    def nested(self, site, cotangents, _, args) -> list:
        _, y, given = self._split(args)
        return list(emit_linear(Pulled(self.rule, self.site), cotangents, y, given))
