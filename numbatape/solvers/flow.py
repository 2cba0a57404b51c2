"""Solutions of ordinary differential equations, and their derivatives by solving more equations.

For ``y' = f(y, t, p)`` with solution y at times ``t_0, ..., t_N``:

- forward sensitivities: along directions (v, q) of (y_0, p), ``S' = f_y S + f_p q``, ``S(t_0) = v``;
- the adjoint equation, from each time back to the one before: ``a' = -f_y^T a``, ``g' = -f_p^T a``, where
  a grows by the cotangent of y at each time;
- the derivative of y_i with respect to its time is ``f(y_i, t_i)``, with respect to t_0 it is ``-S f(y_0,
t_0)``.

Both are solved by the same solver as y, with its tolerances. A pullback uses sensitivities where these are
few: they are as stable as the solution, and need one pass. The adjoint equation costs less where there are
many, but integrates y backwards. A solution is a rule whose pullback and pushforward are solutions of the
same kind, so that there are derivatives of all orders. See L. Petzold et al., "Sensitivity analysis of
differential-algebraic equations and partial differential equations" (2006).
"""

from __future__ import annotations

import numpy as np

from ..rules.primitive import Primitive, Rule
from ..trace.operands import find_trace, lift
from ..verbs.directions import jvp
from ..verbs.vjp import vjp
from .kept_derivatives import KeptDerivatives

FEW = 256  # pullbacks use forward sensitivities up to this many equations


def vector(parts, size: int):
    """Return what a right-hand side returned, an array or a list, as a vector."""
    trace = find_trace(parts)
    result = np.asarray(parts, float) if trace is None else lift(trace, parts)
    return np.reshape(result, (size,))


class Flow:
    """Solutions at times, as a rule of ``(y0, times, *p)``; the first time is that of y0.

    Parameters
    ----------
    name : str
        The name of SciPy's function, for error messages.
    f : callable
        ``f(y, t, *p)``, a vector.
    integrate : callable
        ``integrate(f, y0, times)`` → solutions, one row per time, by SciPy. For derivatives it is given the
        user's equations and more.
    n : int
        Number of equations.
    few : int
        Pullbacks use forward sensitivities up to this many equations.
    at : callable, optional
        ``at(p)`` is f as a function of y and t, for plain values p; where it is faster than f.
    """

    def __init__(self, name: str, f, integrate, n: int, few: int = FEW, at=None):
        self.name, self.f, self.integrate, self.n, self.few = name, f, integrate, n, few
        self._at = at or (lambda p: lambda y, t: f(y, t, *p))
        self._kept = KeptDerivatives(f)
        self._more: dict = {}
        self._last: tuple = ()  # the last sensitivities, after the arguments that they are for
        rule = Rule(self._value, self._pullback, self._pushforward, None)
        rule.name = name
        self.solve = Primitive(rule)

    def _value(self, y0, times, *p):
        given = np.asarray(y0, float), np.asarray(times, float)
        rows = self.integrate(self._at(p), *given)
        return np.ascontiguousarray(rows, float)

    # ---- forward

    def _pushforward(self, tangents, y, y0, times, *p):
        dy0, dtimes, *dp = tangents
        start = np.zeros(self.n) if dy0 is None else dy0
        if dtimes is not None:
            start = start - self.f(y0, times[0], *p) * dtimes[0]
        directions = [
            np.zeros((1, *np.shape(x))) if d is None else d[None] for x, d in zip(p, dp, strict=True)
        ]
        moved = self._along(np.reshape(start, (1, -1)), directions, y0, times, p)[:, 0]
        return moved if dtimes is None else moved + self._slopes(y, times, p) * dtimes[:, None]

    def _along(self, start, directions, y0, times, p):
        """Return derivatives of the solution along directions (the first axis): times, directions, n."""
        count = start.shape[0]
        flow = self._more.get(count)
        if flow is None:
            name, f = f"sensitivities of {self.name}", self._moving(count, len(p))
            flow = self._more[count] = Flow(name, f, self.integrate, self.n * (1 + count), self.few)
        start = np.concatenate([np.reshape(y0, (-1,)), np.reshape(start, (-1,))])
        both = flow.solve(start, times, *p, *directions)
        return np.reshape(both[:, self.n :], (both.shape[0], count, self.n))

    def _moving(self, count: int, given: int):
        """Return the right-hand side for the solution and its derivatives along some directions."""

        def f(z, t, *p_and_directions):
            p, directions = p_and_directions[:given], p_and_directions[given:]
            y, moved = z[: self.n], np.reshape(z[self.n :], (count, self.n))
            if find_trace((y, t, *p_and_directions)) is None:
                primals, tangents = (y, float(t), *p), (moved, np.zeros(count), *directions)
                rate, rates = self._kept.push(primals, tangents, count)
            else:
                pairs = [
                    jvp(self.f, (y, t, *p), (moved[k], 0.0 * t, *(d[k] for d in directions)))
                    for k in range(count)
                ]
                rate, rates = pairs[0][0], np.stack([its for _, its in pairs])
            return np.concatenate([rate, np.reshape(rates, (-1,))])

        return f

    def _slopes(self, y, times, p):
        """Return the right-hand sides at all times, of one copy: gradients that it takes are traced once."""
        rate = self._at(p)
        return np.stack([rate(y[k], times[k]) for k in range(y.shape[0])])

    # ---- reverse

    def _pullback(self, ybar, y, y0, times, *p):
        if find_trace(ybar) is None and not np.any(ybar):  # a zero cotangent: the solution does not count
            return (None,) * (2 + len(p))
        count = self.n + sum(np.size(x) for x in p)
        if self.n * (1 + count) <= self.few:
            start, *pbar = self._weighed(ybar, y0, times, p)
        else:
            start, *pbar = self._adjoint(ybar, y, times, p)
        rates = self._slopes(y, times, p)
        timesbar = np.sum(rates * ybar, 1)
        first = np.sum(rates[0] * start)
        timesbar = timesbar - np.concatenate([np.reshape(first, (1,)), np.zeros(y.shape[0] - 1)])
        return (start, timesbar, *pbar)

    def _weighed(self, ybar, y0, times, p) -> list:
        sizes = [self.n, *(int(np.size(x)) for x in p)]
        unit, ends = np.eye(sum(sizes)), np.cumsum(sizes)
        directions = [
            np.reshape(unit[:, end - size : end], (-1, *np.shape(x)))
            for x, end, size in zip(p, ends[1:], sizes[1:], strict=True)
        ]
        arguments = y0, times, *p
        plain = find_trace(arguments) is None
        last = self._last
        if plain and last and all(map(np.array_equal, arguments, last[0])):
            moved = last[1]
        else:
            moved = self._along(unit[:, : self.n], directions, y0, times, p)
            if plain:
                self._last = [np.array(x) for x in arguments], moved
        total = np.sum(np.reshape(np.moveaxis(moved, 1, 0) * ybar, (len(unit), -1)), 1)
        parts = np.split(total, ends[:-1])
        return [parts[0], *(np.reshape(part, np.shape(x)) for part, x in zip(parts[1:], p, strict=True))]

    def _adjoint(self, ybar, y, times, p) -> list:
        flow = self._more.get("adjoint")
        sizes = [int(np.size(x)) for x in p]
        if flow is None:
            name, n = f"adjoint of {self.name}", 2 * self.n + sum(sizes)
            flow = self._more["adjoint"] = Flow(name, self._back, self.integrate, n, self.few)
        a, g = ybar[-1], np.zeros(sum(sizes))
        for k in range(y.shape[0] - 1, 0, -1):
            start = np.concatenate([y[k], a, g])
            end = flow.solve(start, np.flip(times[k - 1 : k + 1]), *p)[-1]
            a, g = end[self.n : 2 * self.n] + ybar[k - 1], end[2 * self.n :]
        parts = np.split(g, np.cumsum(sizes)[:-1]) if sizes else []
        return [a, *(np.reshape(part, np.shape(x)) for part, x in zip(parts, p, strict=True))]

    def _back(self, z, t, *p):
        y, a = z[: self.n], z[self.n : 2 * self.n]
        if find_trace((z, t, *p)) is None:
            rate, (abar, _, *pbar) = self._kept.pull(a, y, float(t), *p)
        else:
            rate, pull = vjp(self.f, y, t, *p)
            abar, _, *pbar = pull(a)
        parts = [
            np.zeros(np.size(x)) if g is None else np.reshape(g, (-1,)) for x, g in zip(p, pbar, strict=True)
        ]
        return np.concatenate([rate, -abar, *(-part for part in parts)])
