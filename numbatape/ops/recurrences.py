"""Cumulative sums and products, and linear recurrences.

A recurrence is what a loop leaves behind whose state is multiplied and added to in each turn.
"""

import functools
import operator

import numpy as np

from .dependencies import coefficients_and_addends, everything, recurring, running_totals
from .reduce import LENGTHS as ROW_LENGTHS
from .status import DONE
from .table import array_op

# The flag ``weighed`` of the functions below: whether a state of zero stays zero whatever multiplies it.
PLAIN = 0
WEIGHED = 1
LENGTHS = tuple(((n,), (n,), ()) for n in (0, 1, 7))


def recurrence(a, b, c):
    """Return ``z`` with ``z[0] = c`` and ``z[i+1] = a[i]*z[i] + b[i]``."""
    z = np.append(c, b)
    for i, coefficient in enumerate(a):
        z[i + 1] += coefficient * z[i]
    return z


def weighed_recurrence(a, b, c):
    """Return the same, where a zero stays one whatever it is multiplied by."""
    z = np.append(c, b)
    for i, coefficient in enumerate(a):
        if z[i] != 0.0:
            z[i + 1] += coefficient * z[i]
    return z


def next_state(a, b, z, weighed):
    if weighed and z == 0.0:
        return b
    return a * z + b


def go_forward(v, o, a, b, c, n, sa0, sb0, weighed):
    z = v[c]
    v[o] = z
    for i in range(n):
        z = next_state(v[a + i * sa0], v[b + i * sb0], z, weighed)
        v[o + i + 1] = z


def go_forward_across(v, o, a, b, c, n, sa0, sb0, turns, step_o, step_a, step_b, step_c, weighed):
    """Compute several batch elements, four at once, as a step waits for the one before it (some 3 ns)."""
    whole = turns - turns % 4
    for first in range(whole // 4):
        o0 = o + 4 * first * step_o
        a0 = a + 4 * first * step_a
        b0 = b + 4 * first * step_b
        c0 = c + 4 * first * step_c
        o1 = o0 + step_o
        o2 = o1 + step_o
        o3 = o2 + step_o
        z0 = v[c0]
        z1 = v[c0 + step_c]
        z2 = v[c0 + 2 * step_c]
        z3 = v[c0 + 3 * step_c]
        v[o0] = z0
        v[o1] = z1
        v[o2] = z2
        v[o3] = z3
        for i in range(n):
            x = a0 + i * sa0
            y = b0 + i * sb0
            z0 = next_state(v[x], v[y], z0, weighed)
            z1 = next_state(v[x + step_a], v[y + step_b], z1, weighed)
            z2 = next_state(v[x + 2 * step_a], v[y + 2 * step_b], z2, weighed)
            z3 = next_state(v[x + 3 * step_a], v[y + 3 * step_b], z3, weighed)
            v[o0 + i + 1] = z0
            v[o1 + i + 1] = z1
            v[o2 + i + 1] = z2
            v[o3 + i + 1] = z3
    for j in range(turns - whole):
        k = whole + j
        go_forward(v, o + k * step_o, a + k * step_a, b + k * step_b, c + k * step_c, n, sa0, sb0, weighed)


def go_back(v, g, o, a, b, c, n, sa0, sb0, need_a, need_b, need_c):
    """Sweep back, which is the same for both ops: a cotangent of zero adds nothing."""
    gz = 0.0
    for step in range(n):
        i = n - 1 - step
        gz += g[o + i + 1]
        if gz != 0.0:
            x = v[a + i * sa0]
            if need_a:
                g[a + i * sa0] += gz * v[o + i]
            if need_b:
                g[b + i * sb0] += gz
            gz *= x
    if need_c:
        g[c] += gz + g[o]


def pulled_back(e, ct, z, operands, need):
    """Return the cotangents of coefficients, addends and start."""
    a, last = operands[0], e.entry(e.flip(ct), 0, ct.ndim - 1)
    back = e.op("weighed_recurrence", e.flip(a), e.flip(e.head(ct)), last, m=z.dims[-1])
    each = e.dense(e.flip(e.head(back)))  # products and sums of it run in SIMD lanes
    return (
        e.times(each, e.head(z)) if need[0] else None,
        each if need[1] else None,
        e.entry(e.flip(back), 0, back.ndim - 1) if need[2] else None,
    )


def pushed_forward(e, z, operands, tangents):
    """Return the tangent of the states, which is a recurrence with the same coefficients."""
    a, zero = operands[0], e.symbol(0.0, z.family)
    of_a, of_b, of_c = tangents
    parts = [of_b] if of_b is not None else []
    parts += [e.times(of_a, e.head(z))] if of_a is not None else []
    added = functools.reduce(operator.add, parts) if parts else e.broadcast(zero, a.dims[-1:])
    return e.op("recurrence", a, added, zero if of_c is None else of_c, m=z.dims[-1])


@array_op("recurrence", "(n),(n),()->(m)", extents="m == n + 1", beside="turns >= 4", cases=LENGTHS)
class Recurrence:
    """``z[0] = c``, ``z[i+1] = a[i]*z[i] + b[i]``; the adjoint is such a recurrence from the end."""

    oracle = recurrence
    depends, interacts = recurring, coefficients_and_addends
    pullback, pushforward = pulled_back, pushed_forward

    def forward(v, o, a, b, c, n, sa0, sb0):
        go_forward(v, o, a, b, c, n, sa0, sb0, PLAIN)
        return DONE

    def reverse(v, g, o, a, b, c, n, sa0, sb0, need_a, need_b, need_c):
        go_back(v, g, o, a, b, c, n, sa0, sb0, need_a, need_b, need_c)

    def forward_across(v, o, a, b, c, n, sa0, sb0, turns, step_o, step_a, step_b, step_c):
        go_forward_across(v, o, a, b, c, n, sa0, sb0, turns, step_o, step_a, step_b, step_c, PLAIN)
        return DONE

    def reverse_across(
        v, g, o, a, b, c, n, sa0, sb0, need_a, need_b, need_c, turns, step_o, step_a, step_b, step_c
    ):
        for j in range(turns):
            at_a = a + j * step_a
            at_b = b + j * step_b
            go_back(v, g, o + j * step_o, at_a, at_b, c + j * step_c, n, sa0, sb0, need_a, need_b, need_c)


@array_op("weighed_recurrence", "(n),(n),()->(m)", extents="m == n + 1", beside="turns >= 4", cases=LENGTHS)
class WeighedRecurrence(Recurrence):
    """``recurrence`` of cotangents: a state of zero adds nothing to the next one."""

    oracle = weighed_recurrence

    def forward(v, o, a, b, c, n, sa0, sb0):
        go_forward(v, o, a, b, c, n, sa0, sb0, WEIGHED)
        return DONE

    def forward_across(v, o, a, b, c, n, sa0, sb0, turns, step_o, step_a, step_b, step_c):
        go_forward_across(v, o, a, b, c, n, sa0, sb0, turns, step_o, step_a, step_b, step_c, WEIGHED)
        return DONE


@array_op("cumsum", "(n)->(n)", np.cumsum, linear=True, cases=ROW_LENGTHS, integers="sum")
class Cumsum:
    """Sums in order, as NumPy does; the adjoint sums the cotangents from the end."""

    depends = running_totals

    def forward(v, o, a, n, sa0):
        total = 0.0
        for i in range(n):
            total += v[a + i * sa0]
            v[o + i] = total
        return DONE

    def reverse(g, o, a, n, sa0):
        total = 0.0
        for step in range(n):
            i = n - 1 - step
            total += g[o + i]
            g[a + i * sa0] += total

    def pullback(e, ct, z, operands, need):
        return (e.flip(e.op("cumsum", e.flip(ct))),)


@array_op("cumprod", "(n)->(n)", np.cumprod, cases=ROW_LENGTHS, integers="product")
class Cumprod:
    """The reverse sweep of ``z[i] = z[i-1]*x[i]``: without division, so that zeros need no special case."""

    depends, interacts = running_totals, everything

    def forward(v, o, a, n, sa0):
        total = 1.0
        for i in range(n):
            total *= v[a + i * sa0]
            v[o + i] = total
        return DONE

    def reverse(v, g, o, a, n, sa0):
        gz = 0.0
        for step in range(n):
            i = n - 1 - step
            gz += g[o + i]
            before = 1.0
            if i > 0:
                before = v[o + i - 1]
            x = v[a + i * sa0]
            g[a + i * sa0] += before * gz
            gz *= x

    def pullback(e, ct, z, operands, need):
        """Entry (j, i) of the Jacobian is the product up to i without factor j: n*n cells, no division."""
        (x,) = operands
        others = e.where(e.eye(x.dims[-1], x.family), 1.0, e.expand(x, (-2,)))
        products = e.triu(e.op("cumprod", others))
        return (e.sum(products * e.expand(ct, (-2,))),)
