"""``scipy.integrate.odeint`` and ``solve_ivp`` of traced values."""

from __future__ import annotations

import sys

import numpy as np

from ..capture.opened import Opened
from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..rules.primitive import Primitive, Rule
from ..trace.operands import find_trace, lift
from ..trace.primitives import stop_gradient
from ..trace.trace import failing
from ..usercode.frames import where_in_user_code
from ..usercode.users_line import UsersLine
from .flow import Flow, vector


def refuse(what: str, hint: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{what} of traced values at {where_in_user_code()} is not supported; {hint}"
    )


def guarded(implementation):
    """Return what makes a stand-in, which calls the original where nothing is traced."""

    def make(original):
        def call(*args, **kwargs):
            opened = Opened(original.__name__, (args, kwargs))
            if not opened.found:
                args, kwargs = opened.filled([])
                return UsersLine().call(original, *args, **kwargs)
            with failing(opened.found[0]._trace):
                return implementation(original, *args, **kwargs)

        call.__name__ = call.__qualname__ = original.__name__
        call.__doc__ = original.__doc__
        return call

    return make


def as_array(trace, x):
    """Return an argument as an array, traced or plain."""
    return np.asarray(x) if find_trace(x) is None else lift(trace, x)


def right_hand_side(name: str, func, args, size: int, time_first: bool, columns: bool = False):
    """Return ``f(y, t, *p)`` and p, the traced values that a function and its extra arguments refer to."""
    opened = Opened(name, (func, tuple(args)))

    def f(y, t, *p):
        function, extra = opened.filled(p)
        y = y[:, None] if columns else y
        return vector(function(t, y, *extra) if time_first else function(y, t, *extra), size)

    return f, opened.found


def odeint(original, func, y0, t, args=(), Dfun=None, col_deriv=0, full_output=0, ml=None, mu=None,
           rtol=None, atol=None, tcrit=None, h0=0.0, hmax=0.0, hmin=0.0, ixpr=0, mxstep=0, mxhnil=0,
           mxordn=12, mxords=5, printmessg=0, tfirst=False):  # fmt: skip
    if full_output:
        raise refuse("scipy.integrate.odeint(full_output=True)", "leave it out")
    args = args if isinstance(args, tuple) else (args,)
    trace = find_trace(y0, t) or Opened("odeint", (func, args)).found[0]._trace
    y0, t = as_array(trace, y0), as_array(trace, t)
    y0 = y0 if y0.ndim else np.reshape(y0, (1,))
    size = int(y0.shape[0])
    f, p = right_hand_side("scipy.integrate.odeint", func, args, size, tfirst)
    options = {"tcrit": tcrit, "h0": h0, "hmax": hmax, "hmin": hmin, "ixpr": ixpr, "mxstep": mxstep,
               "mxhnil": mxhnil, "mxordn": mxordn, "mxords": mxords, "printmessg": printmessg}  # fmt: skip

    line = UsersLine()

    def integrate(rate, start, times):
        own = {"ml": ml, "mu": mu} if len(start) == size else {}
        tolerances = {"rtol": tiled_to(rtol, start, size), "atol": tiled_to(atol, start, size)}
        return line.call(original, rate, start, times, **tolerances, **own, **options)

    return Flow("scipy.integrate.odeint", f, integrate, size).solve(y0, t, *p)


def tiled_to(tolerance, start, size: int):
    """Return a tolerance for more equations than the user's: the same pattern, repeated."""
    if tolerance is None or not np.ndim(tolerance):
        return tolerance
    return (
        np.resize(tolerance, len(start)) if len(start) % size == 0 else np.full(len(start), np.min(tolerance))
    )


def solve_ivp(original, fun, t_span, y0, method="RK45", t_eval=None, dense_output=False, events=None,
              vectorized=False, args=None, **options):  # fmt: skip
    name = "scipy.integrate.solve_ivp"
    if events is not None:
        raise refuse(f"{name} with events", "nt.root of the event's function finds the time of one")
    options = {k: v for k, v in options.items() if v is not None}
    own = {k: options.pop(k) for k in ("jac", "jac_sparsity", "lband", "uband") if k in options}
    args = () if args is None else tuple(args)
    trace = Opened(name, (fun, args, t_span, y0, t_eval)).found[0]._trace
    y0, span = as_array(trace, y0), [t_span[0], t_span[1]]
    size = int(y0.shape[0])
    f, p = right_hand_side(name, fun, args, size, True, vectorized)
    fun_extra = Opened(name, (own, args))
    if fun_extra.found and own:
        own = {}  # the user's Jacobian has traced parameters, so the solver takes differences
    line = UsersLine()
    ends = [np.reshape(as_array(trace, end), (1,)) for end in span]
    if t_eval is None:

        def steps(start, first, last, *p):
            rate = lambda t, y: f(y, t, *p)  # noqa: E731
            return line.call(original, rate, (first[0], last[0]), start, method, **options, **own).t

        t_eval = np.concatenate([ends[0], _times_between(name, steps, (y0, *ends, *p)), ends[1]])
    t_eval = as_array(trace, t_eval)
    times = np.concatenate([ends[0], t_eval])
    done: dict = {}

    def integrate(rate, start, times):
        scaled = {k: tiled_to(v, start, size) if k in ("rtol", "atol") else v for k, v in options.items()}
        mine = len(start) == size
        forward = times[-1] >= times[0]
        end = span_end if mine and span_end is not None else times[-1]
        end = max(end, times[-1]) if forward else min(end, times[-1])
        if times[0] == times[-1]:  # a span without length, too
            return np.repeat(start[None], len(times), 0)
        found = line.call(original, lambda t, y: rate(y, t), (times[0], end), start, method, times[1:],
                          **scaled, **(own if mine else {}))  # fmt: skip
        rows = np.full((len(times), len(start)), np.nan)
        rows[0] = start
        if np.size(found.y):
            rows[1 : 1 + found.y.shape[1]] = found.y.T
        done.update(message=found.message, nfev=found.nfev, njev=found.njev, nlu=found.nlu)
        return rows

    span_end = None if find_trace(span[1]) is not None else float(span[1])
    flow = Flow(name, f, integrate, size)
    y = flow.solve(y0, times, *p)

    def sol(t):
        """Return the solution at some times, in any order, as SciPy's ``sol`` does."""
        t = np.asarray(t, float) if find_trace(t) is None else lift(trace, t)
        sorting = np.argsort(np.reshape(t, (-1,)))
        forward = np.reshape(ends[1], ()) >= np.reshape(ends[0], ())
        order = sorting if forward else np.flip(sorting)
        rows = flow.solve(y0, np.concatenate([ends[0], np.reshape(t, (-1,))[order]]), *p)[1:]
        found = np.transpose(rows[np.argsort(order)])
        return found if t.ndim else found[:, 0]

    reached = stop_gradient(np.isfinite(y[-1, 0]))
    return sys.modules["scipy.optimize"].OptimizeResult(
        t=t_eval, y=np.transpose(y[1:]), sol=sol if dense_output else None, t_events=None, y_events=None,
        success=reached, status=np.where(reached, 0, -1), **done,
    )  # fmt: skip


def _times_between(name: str, steps, arguments: tuple):
    """Return the times between the ends at which a solver has made steps: data, whose number is a guard."""

    def of_no_derivative(value):
        count = len(arguments)
        rule = Rule(value, lambda *_: (None,) * count, lambda tangents, z, *_: 0.0 * z, None)
        rule.name = f"steps of {name}"
        return stop_gradient(Primitive(rule)(*arguments))

    count = int(of_no_derivative(lambda *given: np.float64(len(steps(*given)))))
    inside = of_no_derivative(lambda *given: np.array(steps(*given)))
    return inside[1 : count - 1]


for _name, _function in (("odeint", odeint), ("solve_ivp", solve_ivp)):
    MAKERS.setdefault("scipy.integrate", {})[_name] = guarded(_function)
