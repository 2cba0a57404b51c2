"""Searches: computations with plain numbers whose results are data, such as positions of neighbours.

A search runs again whenever its tape does, so that its results are those for the numbers of each call. They
have no derivative. How many there are, where that depends on the numbers, is a guard.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..trace.primitives import stop_gradient
from .primitive import Primitive, Rule


class Search:
    """A search as a part of a traced function.

    Parameters
    ----------
    name : str
        What messages call it.
    run : callable
        ``run(*given)`` → anything, for plain arrays.
    given : tuple
        What it depends on, traced.
    any_size : bool
        Whether the run serves any sizes, not just those of the trace in which it was made.
    """

    def __init__(self, name: str, run: Callable, given: tuple, any_size: bool = False):
        self._name, self._run, self._given, self._any_size = name, run, given, any_size
        self._known: tuple | None = None

    def _result(self, given: tuple):
        """Return what the run finds, which is kept for the next question about the same numbers."""
        known = self._known
        if known is None or not all(map(np.array_equal, known[0], given)):
            known = self._known = [np.array(x) for x in given], self._run(*given)
        return known[1]

    def found(self, *given):
        """Return what the search finds for plain arrays."""
        return self._result(given)

    def numbers(self, what: str, take: Callable):
        """Return ``take(result)``, an array of real numbers whose shape does not change."""
        rule = Rule(
            lambda *given: np.array(take(self._result(given)), float),
            lambda *_: (None,) * len(self._given),
            lambda tangents, z, *_: 0.0 * z,
            None,
            self._any_size,
        )
        rule.name = f"{what} of {self._name}"
        return stop_gradient(Primitive(rule)(*self._given))

    def positions(self, what: str, take: Callable):
        """Return ``take(result)``, an array of integers whose shape does not change."""
        return self.numbers(what, take).astype(np.intp)

    def counted(self, what: str, take: Callable):
        """Return ``take(result)``, an array of integers whose length is a guard."""
        int(self.numbers(f"number of {what}", lambda result: len(take(result))))
        return self.positions(what, take)
