"""Solutions of ordinary differential equations, and their derivatives by solving more equations.

For ``y' = f(y, t, p)`` with solution y at times ``t_0, ..., t_N``:

- forward sensitivities: along directions (v, q) of (y_0, p), ``S' = f_y S + f_p q``, ``S(t_0) = v``;
- the adjoint equation, from each time back to the one before: ``a' = -f_y^T a``, ``g' = -f_p^T a``, where
  a grows by the cotangent of y at each time;
- the derivative of y_i with respect to its time is ``f(y_i, t_i)``, with respect to t_0 it is ``-S f(y_0,
t_0)``.

Both are solved by the same solver as y, with its tolerances. Where sensitivities along all directions are
few, they are solved for together, for pullbacks and pushforwards: they are as stable as the solution, and
need one pass. Where there are many, a pushforward has those along its own direction, and a pullback the
adjoint equation, which costs less but integrates y backwards. A solution is a rule whose pullback and
pushforward are solutions of the same kind, so that there are derivatives of all orders. See L. Petzold et al.
(2006), "Sensitivity analysis of differential-algebraic equations and partial differential equations".
"""

from __future__ import annotations

import numpy as np

from ..rules.primitive import Primitive, Rule
from ..trace.operands import find_trace, lift
from ..verbs.directions import jvp
from ..verbs.vjp import vjp
from .kept_derivatives import KeptDerivatives

FEW = 256  # equations, with which sensitivities along all directions are solved for together


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
        Up to this many equations sensitivities along all directions are solved for together.
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
        both = zip(p, dp, strict=True)
        if self._has_few(p):
            # These do not depend on the direction, so that all columns of a Jacobian share them.
            along = [start, *(np.zeros(np.size(x)) if d is None else np.reshape(d, (-1,)) for x, d in both)]
            moved = np.einsum("tkn,k->tn", self._sensitivities(y0, times, p), np.concatenate(along))
        else:
            directions = [np.zeros((1, *np.shape(x))) if d is None else d[None] for x, d in both]
            moved = self._along(np.reshape(start, (1, -1)), directions, y0, times, p)[:, 0]
        return moved if dtimes is None else moved + self._slopes(y, times, p) * dtimes[:, None]

    def _has_few(self, p) -> bool:
        """Whether sensitivities along all directions are few enough to be solved for together."""
        return self.n * (1 + self.n + sum(np.size(x) for x in p)) <= self.few

    def _sensitivities(self, y0, times, p):
        """Return derivatives for the entries of y0 and of all p, one after the other: times, entries, n."""
        arguments = y0, times, *p
        plain = find_trace(arguments) is None
        last = self._last
        if plain and last and all(map(np.array_equal, arguments, last[0])):
            return last[1]
        sizes = [self.n, *(int(np.size(x)) for x in p)]
        unit, ends = np.eye(sum(sizes)), np.cumsum(sizes)
        directions = [
            np.ascontiguousarray(np.reshape(unit[:, end - size : end], (-1, *np.shape(x))))
            for x, end, size in zip(p, ends[1:], sizes[1:], strict=True)
        ]
        moved = self._along(unit[:, : self.n], directions, y0, times, p)
        if plain:
            self._last = [np.array(x) for x in arguments], moved
        return moved

    def _along(self, start, directions, y0, times, p):
        """Return derivatives of the solution along directions (the first axis): times, directions, n."""
        count = start.shape[0]
        flow = self._more.get(count)
        if flow is None:
            name, (f, at) = f"sensitivities of {self.name}", self._moving(count, len(p))
            n = self.n * (1 + count)
            flow = self._more[count] = Flow(name, f, self.integrate, n, self.few, at)
        start = np.concatenate([np.reshape(y0, (-1,)), np.reshape(start, (-1,))])
        both = flow.solve(start, times, *p, *directions)
        return np.reshape(both[:, self.n :], (both.shape[0], count, self.n))

    def _moving(self, count: int, given: int):
        """Return the right-hand side for the solution and its derivatives along some directions.

        Returns
        -------
        f, at
            As those of `Flow`; the parameters are p and then the directions.
        """

        def at(p_and_directions):
            p, directions = p_and_directions[:given], p_and_directions[given:]
            plain = find_trace(p_and_directions) is None
            push = self._kept.along(p, directions, count) if plain else None

            def rate(z, t):
                y, moved = z[: self.n], np.reshape(z[self.n :], (count, self.n))
                if push is not None and find_trace((z, t)) is None:
                    rate, rates = push(y, float(t), moved)
                else:
                    pairs = [
                        jvp(self.f, (y, t, *p), (moved[k], 0.0 * t, *(d[k] for d in directions)))
                        for k in range(count)
                    ]
                    rate, rates = pairs[0][0], np.stack([its for _, its in pairs])
                return np.concatenate([rate, np.reshape(rates, (-1,))])

            return rate

        return lambda z, t, *p_and_directions: at(p_and_directions)(z, t), at

    def _slopes(self, y, times, p):
        """Return the right-hand sides at all times, of one copy: gradients that it takes are traced once."""
        rate = self._at(p)
        return np.stack([rate(y[k], times[k]) for k in range(y.shape[0])])

    # ---- reverse

    def _pullback(self, ybar, y, y0, times, *p):
        if find_trace(ybar) is None and not np.any(ybar):  # a zero cotangent: the solution does not count
            return (None,) * (2 + len(p))
        if self._has_few(p):
            start, *pbar = self._weighed(ybar, y0, times, p)
        else:
            start, *pbar = self._adjoint(ybar, y, times, p)
        rates = self._slopes(y, times, p)
        timesbar = np.sum(rates * ybar, 1)
        first = np.sum(rates[0] * start)
        timesbar = timesbar - np.concatenate([np.reshape(first, (1,)), np.zeros(y.shape[0] - 1)])
        return (start, timesbar, *pbar)

    def _weighed(self, ybar, y0, times, p) -> list:
        moved = self._sensitivities(y0, times, p)
        ends = np.cumsum([self.n, *(int(np.size(x)) for x in p)])
        total = np.sum(np.reshape(np.moveaxis(moved, 1, 0) * ybar, (ends[-1], -1)), 1)
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
