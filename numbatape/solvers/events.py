"""What ``solve_ivp`` observes on its way: its own times, and where functions of the solution cross zero.

How many steps and events there are, and which event ended the integration, are guards; their times are data.
The time of an event is then differentiated as the root of the event's function along the solution, by the
implicit function theorem. For derivatives of all orders, this root depends on the solution at a time next to
it, which is the time that SciPy found: so the equations that lead from there to the root have no length.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..rules.searches import Search
from ..stand_ins.opened import Opened
from .flow import Flow
from .implicit import Solution


class Events:
    """The functions whose zeros are events, with their extra arguments.

    Parameters
    ----------
    name : str
        The name of SciPy's function, for error messages.
    events : callable, sequence of callables, or None
        ``event(t, y, *args)``, as `solve_ivp` takes them.
    args : tuple
        Extra arguments.

    Attributes
    ----------
    found : list
        The traced values that functions and extra arguments refer to.
    """

    def __init__(self, name: str, events, args: tuple):
        self._given = () if events is None else (events,) if callable(events) else tuple(events)
        self._opened = Opened(name, (self._given, args if self._given else ()))
        self.found = self._opened.found

    def __len__(self) -> int:
        return len(self._given)

    def of(self, p) -> list[Callable]:
        """Return the functions ``event(t, y)`` for some parameters, marked as SciPy expects."""
        functions, args = self._opened.filled(p)
        return [_marked(own, of, args) for own, of in zip(self._given, functions, strict=True)]

    def time(self, k: int, flow: Flow) -> Callable:
        """Return the time of an event of function k, as a rule of ``(t, y, *p, *q)``.

        There y is the solution at t, next to the event, and p and q are parameters of flow and events.
        """

        def beyond(at, t, y, *p_and_q):
            """Return the function's value at a time, for the solution that passes y at t."""
            p, q = p_and_q[: len(p_and_q) - len(self.found)], p_and_q[len(p_and_q) - len(self.found) :]
            times = np.concatenate([np.reshape(t, (1,)), np.reshape(at, (1,))])
            return np.reshape(self.of(q)[k](at, flow.solve(y, times, *p)[-1]), ())

        return Solution(f"time of event {k} of {flow.name}", beyond, lambda t, *_: np.float64(t)).of


def _marked(own, function, args) -> Callable:
    def event(t, y):
        return function(t, y, *args)

    event.terminal, event.direction = getattr(own, "terminal", None), getattr(own, "direction", 0)
    return event


class Observed:
    """What a run of ``solve_ivp`` observes: numbers that are compared in each call, and times as data.

    Parameters
    ----------
    name : str
        What messages call it.
    run : callable
        ``run(*given)`` → SciPy's result, for plain numbers.
    given : tuple
        What the run depends on, traced.
    functions : int
        How many functions have events.

    Attributes
    ----------
    status : int
        SciPy's: 0 at the end of the span, 1 for an event that ended the integration, -1 for a failure.
    last : int
        The function of the event that ended the integration.
    times : array
        The times of the solution that SciPy returns.
    events : list of arrays
        The times of each function's events.
    """

    def __init__(self, name: str, run: Callable, given: tuple, functions: int):
        search = Search(name, run, given)
        self.status, self.last, *counts = map(int, search.numbers("steps and events", _counts))
        times = search.numbers("times", lambda found: np.concatenate([found.t, *(found.t_events or ())]))
        ends = np.cumsum([0, *counts])
        assert len(counts) == 1 + functions
        self.times, *self.events = [times[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def _counts(found) -> list[int]:
    """Return the status, the function that ended the integration, and the numbers of steps and events."""
    events, last = found.t_events or (), -1
    if found.status == 1:
        last = int(np.argmax([abs(at[-1] - found.t[0]) if len(at) else -1.0 for at in events]))
    return [found.status, last, len(found.t), *map(len, events)]
