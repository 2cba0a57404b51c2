"""Derivatives of a function of plain numbers, by caches that are kept from call to call.

A rule that differentiates a function in each sweep would trace it each time if it used verbs. Caches are
lent to one call at a time, so that threads, and rules that are called again by what they call, do not meet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..caches.arguments import Constant
from ..caches.derivative import prepare_derivative_cache, value_and_derivative
from ..caches.pullback import prepare_pullback_cache, value_and_pullback


def _dimensions(args) -> tuple:
    return tuple(map(np.ndim, args))


class KeptDerivatives:
    """Pushforwards and pullbacks of ``f(*args)``, an array, for plain arrays and numbers."""

    def __init__(self, f: Callable):
        self._f = f
        self._idle: dict = {}

    def push(self, primals: tuple, tangents: tuple, lanes: int = 1):
        """Return the value and its derivative along tangents, which have an axis for lanes in front.

        Arguments whose tangent is None do not move, and neither do integers.
        """
        moving = tuple(
            None if d is None or np.asarray(x).dtype.kind != "f" else d[0] if lanes == 1 else d
            for x, d in zip(primals, tangents, strict=True)
        )

        def prepare():
            given = [Constant(x) if d is None else x for x, d in zip(primals, moving, strict=True)]
            return prepare_derivative_cache(self._f, *given, lanes=lanes)

        pairs = [x if d is None else (x, d) for x, d in zip(primals, moving, strict=True)]
        value, moved = self._lent(
            (lanes, *(d is None for d in moving), _dimensions(primals)),
            prepare,
            value_and_derivative,
            tuple(pairs),
        )
        return value, moved[None] if lanes == 1 else moved

    def pull(self, ybar, *args):
        """Return the value and the cotangents of the arguments."""
        return self._lent(
            ("pullback", _dimensions(args)),
            lambda: prepare_pullback_cache(self._f, *args),
            value_and_pullback,
            (np.array(ybar), *args),
        )

    def _lent(self, key, prepare: Callable, run: Callable, args: tuple):
        idle = self._idle.setdefault(key, [])
        cache = idle.pop() if idle else prepare()
        result = run(cache, *args)
        idle.append(cache)
        return result
