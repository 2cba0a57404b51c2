"""``scipy.integrate.solve_ivp`` of traced values."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from ..numpy_api.function_tables import MAKERS
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace, lift
from ..trace.primitives import stop_gradient
from ..usercode.frames import UsersLine
from .events import Events, Observed
from .flow import Flow
from .ode import array_in, right_hand_side, tiled_to
from .solver_calls import where_traced

NAME = "scipy.integrate.solve_ivp"


class InitialValueProblem:
    """A call of ``solve_ivp`` with traced values among its arguments, or in the functions that it gets.

    Its parameters are those of ``solve_ivp``.
    """

    def __init__(self, original, fun, t_span, y0, method, t_eval, events, vectorized, args, options):
        trace = Opened(NAME, (fun, args, t_span, y0, t_eval, events)).found[0]._trace
        self._trace, self._original, self._method, self._line = trace, original, method, UsersLine()
        self.y0 = array_in(trace, y0)
        self.ends = [np.reshape(array_in(trace, end), (1,)) for end in t_span]
        self.asked = None if t_eval is None else array_in(trace, t_eval)
        self._size = int(self.y0.shape[0])
        f, self._at, self.p = right_hand_side(NAME, fun, args, self._size, True, vectorized)
        self.events = Events(NAME, events, args)
        self._end = None if find_trace(t_span[1]) is not None else float(t_span[1])
        self._options = {k: v for k, v in options.items() if v is not None}
        names = ("jac", "jac_sparsity", "lband", "uband")
        self._own = {k: self._options.pop(k) for k in names if k in self._options}
        if self._own and Opened(NAME, (self._own, args)).found:
            self._own = {}  # the user's Jacobian has traced parameters, so the solver takes differences
        self.done: dict = {}
        self.flow = Flow(NAME, f, self._integrate, self._size, at=self._at)

    def observe(self) -> Observed:
        """Return the solver's own times, and the events."""
        asked = () if self.asked is None else (self.asked,)
        given = (self.y0, *self.ends, *asked, *self.p, *self.events.found)
        return Observed(NAME, self._run, given, len(self.events))

    def _run(self, start, first, last, *more):
        """Return what SciPy finds, for plain numbers."""
        asked, more = (None, more) if self.asked is None else (more[0], more[1:])
        p, q = more[: len(self.p)], more[len(self.p) :]
        span, events = (first[0], last[0]), self.events.of(q) if len(self.events) else None
        rate = self._at(p)
        found = self._line.call(self._original, lambda t, y: rate(y, t), span, start, self._method,
                                asked, events=events, **self._options, **self._own)  # fmt: skip
        self._note(found)
        return found

    def _integrate(self, rate, start, times):
        """Return solutions at times, for the user's equations (`mine`), or for these and further ones."""
        if times[0] == times[-1]:  # a span without length, too
            return np.repeat(start[None], len(times), 0)
        mine, forward = len(start) == self._size, times[-1] >= times[0]
        end = self._end if mine and self._end is not None else times[-1]
        end = max(end, times[-1]) if forward else min(end, times[-1])
        tolerances = {
            k: tiled_to(self._options[k], start, self._size) for k in ("rtol", "atol") if k in self._options
        }
        options = self._options | tolerances | (self._own if mine else {})
        if mine and len(self.events):
            options["events"] = _after(times[-1], forward)
        once = np.concatenate([[True], np.diff(times[1:]) != 0.0])  # SciPy takes no time twice
        found = self._line.call(self._original, lambda t, y: rate(y, t), (times[0], end), start, self._method,
                                times[1:][once], **options)  # fmt: skip
        rows = np.full((np.count_nonzero(once), len(start)), np.nan)
        if np.size(found.y):
            rows[: found.y.shape[1]] = found.y.T
        if not self.done:
            self._note(found)
        return np.concatenate([start[None], rows[np.cumsum(once) - 1]])

    def _note(self, found) -> None:
        self.done.update(message=found.message, nfev=found.nfev, njev=found.njev, nlu=found.nlu)

    def at(self, *groups) -> list:
        """Return the solution at groups of times, which may come in any order: rows for each group."""
        times = np.concatenate(groups)
        sorting = np.argsort(times)
        forward = np.reshape(self.ends[1], ()) >= np.reshape(self.ends[0], ())
        order = sorting if forward else np.flip(sorting)
        rows = self.flow.solve(self.y0, np.concatenate([self.ends[0], times[order]]), *self.p)
        rows = rows[1:][np.argsort(order)]
        cuts = np.cumsum([0, *(int(np.shape(group)[0]) for group in groups)])
        return [rows[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]

    def sol(self, t):
        """Return the solution at some times, in any order, as SciPy's ``sol`` does."""
        t = np.asarray(t, float) if find_trace(t) is None else lift(self._trace, t)
        found = np.transpose(self.at(np.reshape(t, (-1,)))[0])
        return found if t.ndim else found[:, 0]

    def event(self, k: int, t, y):
        """Return the time of an event of function k, and the solution there, from its place as data."""
        time = self.events.time(k, self.flow)(t, y, *self.p, *self.events.found)
        both = np.concatenate([np.reshape(t, (1,)), np.reshape(time, (1,))])
        return time, self.flow.solve(y, both, *self.p)[-1]


def _after(time: float, forward: bool):
    """Return the event that ends an integration behind a time, within the step that reaches it."""
    margin = 64.0 * np.finfo(float).eps * max(1.0, abs(time))  # more than the error of SciPy's search

    def event(t, y):
        return t - time - margin if forward else t - time + margin

    event.terminal = True
    return event


def solve_ivp(original, fun, t_span, y0, method="RK45", t_eval=None, dense_output=False, events=None,
              vectorized=False, args=None, **options):  # fmt: skip
    """Solve by SciPy, and look the solution up as a function of start, times and parameters (`Flow`)."""
    args = () if args is None else tuple(args)
    problem = InitialValueProblem(
        original, fun, t_span, y0, method, t_eval, events, vectorized, args, options
    )
    nothing = None if events is None else []
    result = {"t_events": nothing, "y_events": nothing, "sol": problem.sol if dense_output else None}
    if t_eval is not None and not len(problem.events):
        times = problem.asked
        y = problem.flow.solve(problem.y0, np.concatenate([problem.ends[0], times]), *problem.p)[1:]
        reached = stop_gradient(np.isfinite(y[-1, 0]))
        result |= {"success": reached, "status": np.where(reached, 0, -1)}
    else:
        seen = problem.observe()
        times = seen.times if t_eval is None else problem.asked[: int(seen.times.shape[0])]
        if t_eval is None and seen.status == 0:
            times = np.concatenate([problem.ends[0], times[1:-1], problem.ends[1]])
        y, *near = problem.at(times, *seen.events)
        result |= {"success": seen.status >= 0, "status": seen.status}
        if events is not None:
            found = [
                [problem.event(k, t, y) for t, y in zip(ts, ys, strict=True)]
                for k, (ts, ys) in enumerate(zip(seen.events, near, strict=True))
            ]
            result["t_events"] = [
                np.stack([t for t, _ in pairs]) if pairs else np.array([]) for pairs in found
            ]
            result["y_events"] = [
                np.stack([y for _, y in pairs]) if pairs else np.array([]) for pairs in found
            ]
            if t_eval is None and seen.status == 1:
                t_last, y_last = found[seen.last][-1]
                times = np.concatenate([times[:-1], np.reshape(t_last, (1,))])
                y = np.concatenate([y[:-1], np.reshape(y_last, (1, -1))])
    return scipy.optimize.OptimizeResult(t=times, y=np.transpose(y), **result, **problem.done)


MAKERS["scipy.integrate"]["solve_ivp"] = where_traced(solve_ivp)
