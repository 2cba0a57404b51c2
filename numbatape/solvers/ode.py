"""``scipy.integrate.odeint`` of traced values, and what it shares with `solve_ivp`."""

from __future__ import annotations

import numpy as np

from ..numpy_api.function_tables import MAKERS
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace, lift
from ..usercode.frames import UsersLine
from .flow import Flow, vector
from .solver_calls import refuse, where_traced


def array_in(trace, x):
    """Return an argument as an array: a traced one of the trace, or a plain one."""
    return np.asarray(x) if find_trace(x) is None else lift(trace, x)


def right_hand_side(name: str, func, args, size: int, time_first: bool, columns: bool = False):
    """Return ``f(y, t, *p)``, ``at`` and p, the traced values that a function and its arguments refer to.

    ``at(p)`` is f as a function of y and t alone. It copies the user's function once, with the values of p in
    it, where f does so in every call, which takes ten times as long as most right-hand sides.
    """
    opened = Opened(name, (func, tuple(args)))

    def at(p):
        function, extra = opened.filled(p)

        def rate(y, t):
            y = y[:, None] if columns else y
            return vector(function(t, y, *extra) if time_first else function(y, t, *extra), size)

        return rate

    def f(y, t, *p):
        return at(p)(y, t)

    return f, at, opened.found


def odeint(original, func, y0, t, args=(), Dfun=None, col_deriv=0, full_output=0, ml=None, mu=None,
           rtol=None, atol=None, tcrit=None, h0=0.0, hmax=0.0, hmin=0.0, ixpr=0, mxstep=0, mxhnil=0,
           mxordn=12, mxords=5, printmessg=0, tfirst=False):  # fmt: skip
    """Solve by SciPy with its options, as one flow whose derivatives are those of the equation."""
    if full_output:
        raise refuse("scipy.integrate.odeint(full_output=True)", "leave it out")
    args = args if isinstance(args, tuple) else (args,)
    trace = find_trace(y0, t) or Opened("odeint", (func, args)).found[0]._trace
    y0, t = array_in(trace, y0), array_in(trace, t)
    y0 = y0 if y0.ndim else np.reshape(y0, (1,))
    size = int(y0.shape[0])
    f, at, p = right_hand_side("scipy.integrate.odeint", func, args, size, tfirst)
    options = {"tcrit": tcrit, "h0": h0, "hmax": hmax, "hmin": hmin, "ixpr": ixpr, "mxstep": mxstep,
               "mxhnil": mxhnil, "mxordn": mxordn, "mxords": mxords, "printmessg": printmessg}  # fmt: skip

    line = UsersLine()

    def integrate(rate, start, times):
        own = {"ml": ml, "mu": mu} if len(start) == size else {}
        tolerances = {"rtol": tiled_to(rtol, start, size), "atol": tiled_to(atol, start, size)}
        return line.call(original, rate, start, times, **tolerances, **own, **options)

    return Flow("scipy.integrate.odeint", f, integrate, size, at=at).solve(y0, t, *p)


def tiled_to(tolerance, start, size: int):
    """Return a tolerance for more equations than the user's: the same pattern, repeated."""
    if tolerance is None or not np.ndim(tolerance):
        return tolerance
    return (
        np.resize(tolerance, len(start)) if len(start) % size == 0 else np.full(len(start), np.min(tolerance))
    )


MAKERS["scipy.integrate"]["odeint"] = where_traced(odeint)
