"""One call at a time: methods and functions that use a cache's memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from ..threads import Turn, alone

Method = TypeVar("Method", bound=Callable)


def one_at_a_time(method: Method) -> Method:
    """Let a method of an object with a ``_turn`` run while no other such call is under way.

    Raises
    ------
    BusyError
        From the call, if another one is under way.
    """

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        return alone(self._turn, method, self, *args, **kwargs)

    return call  # type: ignore[return-value]


def in_turn(turn: Turn, function: Callable) -> Callable:
    """Return a function that runs when it has the turn, and else raises `BusyError`."""
    return functools.partial(alone, turn, function)
