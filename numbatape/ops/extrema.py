"""The largest and the smallest entry of a row, where they are, and those so far."""

import math

import numpy as np

from ..jit.language import parallel
from .dependencies import dense, nothing, running_totals
from .reduce import LENGTHS, NONEMPTY, largest_of
from .scalars import share
from .status import DONE
from .table import array_op

LARGEST, SMALLEST = 1.0, -1.0  # the factor of entries that makes the wanted one the largest


def add_shared(v, a, n, sa0, z, gz, g, t, st0):
    """Share the adjoint ``gz`` of an extremum z equally among the entries that attain it (NaN: the NaNs).

    Shares are added to the cells from t on. Of a short row all entries take something, be it zero, because
    nobody could predict a branch for each. In a long one the entries are counted in strips, and those of
    strips that have some are looked at again.
    """
    if n <= 64 and z == z:
        ties = 0.0
        for i in range(n):
            ties += 1.0 if v[a + i * sa0] == z else 0.0
        # LLVM would emit a branch in the loop below if this were only the quotient.
        part = gz if ties == 1.0 else gz / ties
        for i in range(n):
            g[t + i * st0] += part if v[a + i * sa0] == z else 0.0
    else:
        add_shared_of_long(v, a, n, sa0, z, gz, g, t, st0)


def add_shared_of_long(v, a, n, sa0, z, gz, g, t, st0):
    """Do that for a long row, or one with NaN."""
    ties = 0
    some = n
    last = 0
    first = 0
    while first < n:
        end = min(first + 256, n)
        here = 0
        if z != z:
            for i in parallel(first, end):
                x = v[a + i * sa0]
                here += 1 if x != x else 0
        else:
            for i in parallel(first, end):
                here += 1 if v[a + i * sa0] == z else 0
        if here > 0:
            ties += here
            some = min(some, first)
            last = end
        first = end
    part = gz / ties
    for i in parallel(some, last):
        x = v[a + i * sa0]
        # Adding the negative zero changes nothing, not even the sign of zero.
        g[t + i * st0] += part if x == z or (x != x and z != z) else -0.0


def entries_and_extremum(rng, shapes):
    """Return entries of which some are equal, the largest of them, and what they share."""
    x = np.round(rng.normal(size=shapes[0]))
    return [x, np.max(x), rng.normal()]


@array_op(
    "share_ties",
    "(n),(),()->(n)",
    cases=(((1,), (), ()), ((7,), (), ()), ((70,), (), ())),
    make=entries_and_extremum,
    stepwise="ab",
    light=True,
)
class ShareTies:
    """The adjoint of an extremum's operand: a number, shared by the entries that attain the extremum."""

    interacts = nothing

    def depends(sets, operands, positions, core):
        """Each cell depends on the number that is shared, and on no other by a derivative."""
        batch = max(len(operand) for operand in operands if operand is not None)
        total = operands[2]
        return sets.together((batch, *core), None if total is None else total.reshape(-1, 1))

    def oracle(x, best, total):
        chosen = (x == best) | (np.isnan(x) & np.isnan(best))
        return np.where(chosen, total / max(np.sum(chosen), 1), 0.0)

    def forward(v, o, a, b, c, n, sa0):
        for i in parallel(n):
            v[o + i] = 0.0
        add_shared(v, a, n, sa0, v[b], v[c], v, o, 1)
        return DONE

    def reverse(v, g, o, a, b, c, n, sa0, need_c):
        if need_c:
            z = v[b]
            ties = 0
            total = 0.0
            for i in range(n):
                x = v[a + i * sa0]
                if x == z or (x != x and z != z):
                    ties += 1
                    total += g[o + i]
            if ties > 0:
                g[c] += total / ties

    def pullback(e, ct, z, operands, need):
        x, best, _ = operands
        shares = e.op("share_ties", x, best, e.symbol(1.0, z.family))
        return None, None, e.sum(e.where(shares == 0.0, 0.0, shares * ct)) if need[2] else None


def share_of_ties(e, ct, z, x):
    """Return the cotangents of an extremum's operand."""
    return e.op("share_ties", x, z, ct)


EXTREMUM = {"cases": NONEMPTY, "nonempty": True, "moves": True, "light": True, "integers": "within"}
BOTH = {**EXTREMUM, "two_tiers": "forward, reverse"}


@array_op("max", "(n)->()", (np.max, np.amax), **BOTH)
class Max:
    """NaN propagates; ties share the adjoint equally."""

    depends, interacts = dense, nothing

    def forward(v, o, a, n, sa0):
        v[o] = largest_of(v, a, n, sa0, 1.0)
        return DONE

    def reverse(v, g, o, a, n, sa0):
        add_shared(v, a, n, sa0, v[o], g[o], g, a, sa0)

    def pullback(e, ct, z, operands, need):
        return (share_of_ties(e, ct, z, operands[0]),)


@array_op("min", "(n)->()", (np.min, np.amin), **BOTH)
class Min(Max):
    """NaN propagates; ties share the adjoint equally."""

    def forward(v, o, a, n, sa0):
        v[o] = -largest_of(v, a, n, sa0, -1.0)
        return DONE


# ---- where they are


def place_of_first(v, a, n, sa0, sign):
    """The position of the first NaN, or else of the first of the largest numbers times the sign."""
    best = -math.inf
    where = 0
    for i in range(n):
        x = sign * v[a + i * sa0]
        if x > best or (x != x and best == best):
            best = x
            where = i
    return float(where)


@array_op("argmax", "(n)->()", np.argmax, cases=NONEMPTY, nonempty=True, integers="position")
class Argmax:
    """Position of the first NaN, or else of the first maximum."""

    def forward(v, o, a, n, sa0):
        v[o] = place_of_first(v, a, n, sa0, 1.0)
        return DONE


@array_op("argmin", "(n)->()", np.argmin, cases=NONEMPTY, nonempty=True, integers="position")
class Argmin:
    """Position of the first NaN, or else of the first minimum."""

    def forward(v, o, a, n, sa0):
        v[o] = place_of_first(v, a, n, sa0, -1.0)
        return DONE


# ---- of truth values


@array_op("any_nonzero", "(n)->()", np.any, cases=LENGTHS)
class AnyNonzero:
    """Whether an entry is not zero; NaN counts as one."""

    def forward(v, o, a, n, sa0):
        found = 0
        for i in parallel(n):
            found += 1 if v[a + i * sa0] != 0.0 else 0
        v[o] = 1.0 if found > 0 else 0.0
        return DONE


@array_op("all_nonzero", "(n)->()", np.all, cases=LENGTHS)
class AllNonzero:
    """Whether no entry is zero; NaN counts as none."""

    def forward(v, o, a, n, sa0):
        found = 0
        for i in parallel(n):
            found += 1 if v[a + i * sa0] == 0.0 else 0
        v[o] = 1.0 if found == 0 else 0.0
        return DONE


# ---- running extrema


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


@array_op("running_maximum", "(n)->(n)", running_maximum, cases=LENGTHS, integers="within")
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


@array_op("running_minimum", "(n)->(n)", running_minimum, cases=LENGTHS, integers="within")
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
