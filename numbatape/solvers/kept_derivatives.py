"""Derivatives of a function of plain numbers, by caches that are kept from call to call.

A rule that differentiates a function in each sweep would trace it each time if it used verbs. Caches are
lent to one call at a time, so that threads, and rules that are called again by what they call, do not meet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..caches.derivative import prepare_derivative_cache
from ..caches.pullback import prepare_pullback_cache, value_and_pullback
from ..programs.roles import Constant

MOST_KINDS = 32  # of arguments; those that came first are forgotten


def _dimensions(args) -> tuple:
    return tuple(map(np.ndim, args))


def _moving(x, tangent, lanes: int):
    """Return the tangent of an argument as caches take it; None for one that does not move."""
    if tangent is None or np.asarray(x).dtype.kind != "f":
        return None
    return tangent[0] if lanes == 1 else tangent


class KeptDerivatives:
    """Pushforwards and pullbacks of ``f(*args)``, an array, for plain arrays and numbers."""

    def __init__(self, f: Callable):
        self._f = f
        self._idle: dict = {}

    def push(self, primals: tuple, tangents: tuple, lanes: int = 1):
        """Return the value and its derivative along tangents, which have an axis for lanes in front.

        Arguments whose tangent is None do not move, and neither do integers.
        """
        moving = tuple(_moving(x, d, lanes) for x, d in zip(primals, tangents, strict=True))
        return self._pushed(self._pushes(primals, moving, lanes), primals, moving, lanes)

    def along(self, fixed: tuple, tangents: tuple, lanes: int = 1):
        """Return what computes `push` of ``f(y, t, *fixed)``, given y, t and the tangents of y.

        The time does not move. What is the same at all times is looked at once.
        """
        idle = None
        moving = tuple(_moving(x, d, lanes) for x, d in zip(fixed, tangents, strict=True))
        still = _moving(0.0, np.zeros(lanes), lanes)

        def push(y, t, moved):
            nonlocal idle
            primals, its = (y, t, *fixed), (moved[0] if lanes == 1 else moved, still, *moving)
            if idle is None:
                idle = self._pushes(primals, its, lanes)
            return self._pushed(idle, primals, its, lanes)

        return push

    def _pushes(self, primals: tuple, moving: tuple, lanes: int) -> list:
        """Return the idle caches for such arguments."""
        key = lanes, *(d is None for d in moving), _dimensions(primals)
        if key not in self._idle and len(self._idle) >= MOST_KINDS:  # a system has as many lanes as unknowns
            self._idle.pop(next(iter(self._idle)), None)
        return self._idle.setdefault(key, [])

    def _pushed(self, idle: list, primals: tuple, moving: tuple, lanes: int):
        if idle:
            cache = idle.pop()
        else:
            given = [Constant(x) if d is None else x for x, d in zip(primals, moving, strict=True)]
            cache = prepare_derivative_cache(self._f, *given, lanes=lanes)
        value, moved = cache._along(
            tuple([x if d is None else (x, d) for x, d in zip(primals, moving, strict=True)])
        )
        idle.append(cache)
        return value, moved[None] if lanes == 1 else moved

    def pull(self, ybar, *args):
        """Return the value and the cotangents of the arguments."""
        idle = self._idle.setdefault(("pullback", _dimensions(args)), [])
        cache = idle.pop() if idle else prepare_pullback_cache(self._f, *args)
        result = value_and_pullback(cache, np.array(ybar), *args)
        idle.append(cache)
        return result
