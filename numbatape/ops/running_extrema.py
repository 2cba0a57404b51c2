"""``np.maximum.accumulate`` and ``np.minimum.accumulate``: the largest and the smallest entry so far."""

import math

import numpy as np

from .dependencies import nothing, running_totals
from .scalars import share
from .status import DONE
from .table import array_op

LENGTHS = (((0,),), ((1,),), ((2,),), ((7,),))
LARGEST, SMALLEST = 1.0, -1.0  # the factor of entries that makes the wanted one the largest


def running_maximum(x):
    return np.maximum.accumulate(x)


def running_minimum(x):
    return np.minimum.accumulate(x)


def go_forward(v, o, a, n, sa0, sign):
    best = -sign * math.inf
    for k in range(n):
        x = v[a + k * sa0]
        if not (sign * best >= sign * x or best != best):
            best = x
        v[o + k] = best


def go_back(v, g, o, a, n, sa0, sign):
    """Hand cotangents on to the entry before, as ``np.maximum`` of two numbers shares them."""
    gz = 0.0
    for step in range(n):
        k = n - 1 - step
        gz += g[o + k]
        x = v[a + k * sa0]
        if k == 0:
            g[a] += gz
        else:
            before = v[o + k - 1]
            g[a + k * sa0] += gz * (share(sign * x, sign * before) if x == x else 1.0)
            gz *= share(sign * before, sign * x) if before == before else 1.0


def pulled_back(e, ct, z, x, sign):
    """Return the cotangent: a linear recurrence from the end, whose coefficients are the shares.

    ``sign`` is `LARGEST` or `SMALLEST`.
    """
    if e.is_empty(z):
        return ct
    before, entries = e.head(z), e.flip(e.head(e.flip(x)))
    of_before = _share(e, before, entries, sign)
    of_entry = _share(e, entries, before, sign)
    last = e.entry(e.flip(ct), 0, ct.ndim - 1)
    states = e.op("weighed_recurrence", e.flip(of_before), e.flip(e.head(ct)), last, m=z.dims[-1])
    first = e.entry(e.flip(states), 0, ct.ndim - 1)
    return e.join(e.last(first), e.flip(e.head(states)) * of_entry)


def _share(e, x, y, sign):
    """Return which share of a cotangent the first of two numbers gets."""
    larger = x > y if sign == LARGEST else y > x
    share = e.where(larger, 1.0, e.where(x == y, 0.5, 0.0))
    return e.where(e.row("isnan", x), 1.0, share)


@array_op("running_maximum", "(n)->(n)", running_maximum, cases=LENGTHS)
class RunningMaximum:
    """The largest entry so far, NaN from the first NaN on; ties share the cotangent."""

    depends, interacts = running_totals, nothing

    def forward(v, o, a, n, sa0):
        go_forward(v, o, a, n, sa0, LARGEST)
        return DONE

    def reverse(v, g, o, a, n, sa0):
        go_back(v, g, o, a, n, sa0, LARGEST)

    def pullback(e, ct, z, operands, need):
        return (pulled_back(e, ct, z, operands[0], LARGEST),)


@array_op("running_minimum", "(n)->(n)", running_minimum, cases=LENGTHS)
class RunningMinimum:
    """The smallest entry so far, NaN from the first NaN on; ties share the cotangent."""

    depends, interacts = running_totals, nothing

    def forward(v, o, a, n, sa0):
        go_forward(v, o, a, n, sa0, SMALLEST)
        return DONE

    def reverse(v, g, o, a, n, sa0):
        go_back(v, g, o, a, n, sa0, SMALLEST)

    def pullback(e, ct, z, operands, need):
        return (pulled_back(e, ct, z, operands[0], SMALLEST),)
