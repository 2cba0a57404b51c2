"""Sets of positions along an axis that follow from its length: ``i % 3 != 1``, ``i < n // 2``, written flags.

A set cuts the axis into stretches; in each stretch it is the positions with some remainders by a period. Cuts
are ints and sizes, whose order is guarded, so that "and", "or" and "not" of sets are sets for every length.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

import numpy as np

from ..tape.instruction import GUARD, PROLOGUE, Instruction
from ..tape.rows import Traits
from ..tape.tape import CONSTANT
from ..tape.uses import key_of
from . import extents
from . import symbolic_sizes as sizes
from .array import TracedArray
from .operands import lift
from .primitives import dims_of

# A comparison of a number with positions is one of positions with a number.
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
BOTH = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
LONGEST_PERIOD, MOST_STRETCHES = 1_000, 20


class Pattern(NamedTuple):
    """Positions with some remainders by a period."""

    period: int
    remainders: frozenset

    def combined(self, other: Pattern, apply) -> Pattern | None:
        period = math.lcm(self.period, other.period)
        if period > LONGEST_PERIOD:
            return None
        mine, its = (frozenset(k for k in range(period) if k % p in rest) for p, rest in (self, other))
        if apply is operator.and_:
            return _shortest(period, mine & its)
        return _shortest(period, apply(mine, its))


NOTHING, ALL = Pattern(1, frozenset()), Pattern(1, frozenset((0,)))


def _shortest(period: int, remainders: frozenset) -> Pattern:
    if not remainders:
        return NOTHING
    return ALL if len(remainders) == period else Pattern(period, remainders)


class Selection(NamedTuple):
    """A set of positions: ``patterns[k]`` between ``cuts[k - 1]`` and ``cuts[k]``, which are in order."""

    cuts: tuple
    patterns: tuple

    def others(self) -> Selection:
        patterns = (_shortest(p, frozenset(range(p)) - rest) for p, rest in self.patterns)
        return Selection(self.cuts, tuple(patterns))

    def combined(self, other: Selection, apply) -> Selection | None:
        """Return what "and", "or" or "exclusive or" makes of two sets; the order of their cuts is guarded."""
        left, right = list(self.cuts), list(other.cuts)
        mine, its = list(self.patterns), list(other.patterns)
        cuts: list = []
        patterns: list = []
        while True:
            pattern = mine[0].combined(its[0], apply)
            if pattern is None:
                return None
            if patterns and patterns[-1] == pattern:
                cuts.pop()
            else:
                patterns.append(pattern)
            if not left and not right:
                break
            if not right or (left and left[0] <= right[0]):
                cuts.append(left.pop(0))
                mine.pop(0)
            else:
                cuts.append(right.pop(0))
                its.pop(0)
        return Selection(tuple(cuts), tuple(patterns)) if len(patterns) <= MOST_STRETCHES else None


def selected(mask: TracedArray):
    """Return the slice, or the positions, that a mask selects for every length; None if it is not known."""
    value, trace = mask._value, mask._trace
    if value.__class__ is not np.ndarray or value.ndim != 1 or value.dtype.kind != "b":
        return None
    if mask._level != CONSTANT or trace.integers.origins is None or dims_of(mask)[0] >= 0:
        return None
    found = _Masks(trace, dims_of(mask)[0]).set_of(mask._id)
    return None if found is None else _positions(trace, found, dims_of(mask)[0], value)


def _positions(trace, chosen: Selection, dim: int, value: np.ndarray):
    """Return the slice, or the positions, of a set for every length of the axis.

    None if they are not those of the mask in this trace: then something was read off the tape wrongly.
    """
    ends = (0, *chosen.cuts, sizes.seen(trace, dim))
    parts = [
        (first, end, pattern)
        for first, end, pattern in zip(ends[:-1], ends[1:], chosen.patterns, strict=True)
        if pattern.remainders
    ]
    if not parts:
        return slice(0, 0)
    if len(parts) == 1 and len(parts[0][2].remainders) == 1:
        found = _slice(*parts[0])
        numbers = np.arange(len(value))[sizes.valued(found)]
    else:
        made = [_listed(trace, *part) for part in parts]
        found = np.concatenate(made) if len(made) > 1 else made[0]
        numbers = sizes.valued(getattr(found, "_value", found))
    return found if np.array_equal(np.flatnonzero(value), numbers) else None


def _slice(first, end, pattern: Pattern) -> slice:
    period, (rest,) = pattern
    if period > 1:
        first = (first + (period - 1 - rest)) // period * period + rest
    return slice(first, end, period if period > 1 else None)


def _listed(trace, first, end, pattern: Pattern):
    """Return the positions of a pattern between two cuts; the k-th one of an axis follows from k."""
    period, remainders = pattern
    start, stop = (sum((cut + (period - 1 - rest)) // period for rest in remainders) for cut in (first, end))
    at = extents.arange(trace, sizes.code_of(trace, stop - start)) + start
    if period == 1:
        return at
    table = lift(trace, np.array(sorted(remainders)))
    return at // len(remainders) * period + table[at % len(remainders)]


class Positions:
    """What prologue instructions compute of the positions along an axis of a size code, read off the tape."""

    def __init__(self, trace, dim: int):
        self._trace, self._tape, self._dim = trace, trace.tape, dim
        self._tape.unroll()
        # By key (`numbatape.tape.uses.keys_of`): the last instruction that writes to cells, and all of them.
        self._made: dict[int, Instruction] = {}
        self._parts: dict[int, list[Instruction]] = {}
        for row in self._tape.instructions():
            if row.op != GUARD and row.stage == PROLOGUE:
                place = self._place(row.out)
                self._made[place] = row
                self._parts.setdefault(place, []).append(row)

    def _place(self, number: int) -> int:
        storage, offset, _ = self._tape.values[number]
        return key_of(storage, offset)

    def _number(self, number: int):
        """Return a number as an int, or as a size; None for anything else."""
        place = self._place(number)
        if place >= 0:  # a storage of its own: an array
            return None
        for literal in self._tape.literals:
            if key_of(literal.storage, literal.offset) == place:
                value = np.asarray(literal.data).item()
                return int(value) if value == value // 1 and abs(value) < 2**31 else None
        for known, (how, code, by) in self._trace.integers.fractions.items():
            if self._place(known) == place and (how, by) == (sizes.DIVIDED, 1):
                return sizes.seen(self._trace, code)
        return None


class _Masks(Positions):
    """The comparisons of positions along an axis."""

    def __init__(self, trace, dim: int):
        super().__init__(trace, dim)
        self._length = sizes.seen(trace, dim)

    def set_of(self, number: int) -> Selection | None:
        """Return where a value along the axis is true, or not zero."""
        known = self._number(number)
        if known is not None:
            return Selection((), (ALL if known != 0 else NOTHING,)) if type(known) is int else None
        op, operands = self._maker(number)
        if op is None:
            return self._written(number)
        if op.signs == (1,):
            return self.set_of(operands[0])
        if op.logic == "not":
            found = self.set_of(operands[0])
            return found and found.others()
        if op.logic:
            one, other = map(self.set_of, operands[:2])
            return None if one is None or other is None else one.combined(other, BOTH[op.logic])
        return self._compared(op.compares, *operands[:2]) if op.compares else None

    def _compared(self, relation: str, left: int, right: int) -> Selection | None:
        if self._number(left) is not None:
            left, right, relation = right, left, TURNED[relation]
        bound = self._number(right)
        if bound is None:
            return None
        op, operands = self._maker(left)
        if op is not None and op.floored == "remainder":
            return self._by_remainder(relation, *operands[:2], bound)
        if relation in ("<=", ">"):
            found = self._less(left, bound + 1)
        else:
            found = self._less(left, bound)
        if relation in ("==", "!=") and found is not None:
            up_to = self._less(left, bound + 1)
            found = up_to and up_to.combined(found.others(), operator.and_)
        negative = relation in (">", ">=", "!=")
        return found.others() if found is not None and negative else found

    def _by_remainder(self, relation: str, positions: int, by: int, bound) -> Selection | None:
        period, shift = self._number(by), 0
        op, operands = self._maker(positions)
        if op is not None and len(op.signs) == 2:
            positions, more = operands[:2]
            if op.signs == (1, 1) and self._number(more) is None:
                positions, more = more, positions
            shift = self._number(more)
            if type(shift) is not int:
                return None
            shift *= op.signs[1]
            op, _ = self._maker(positions)
        if op is None or not op.counts_up or type(period) is not int or type(bound) is not int:
            return None
        if not 1 <= period <= LONGEST_PERIOD:
            return None
        rest = (k for k in range(period) if COMPARE[relation]((k + shift) % period, bound))
        return Selection((), (_shortest(period, frozenset(rest)),))

    def _less(self, positions: int, bound) -> Selection | None:
        """Return where an expression of positions is less than a number."""
        op, operands = self._maker(positions)
        if op is None:
            return None
        if op.counts_up:
            return self._up_to(bound)
        if op.signs == (1,):
            return self._less(operands[0], bound)
        if op.magnitude:
            return self._between(operands[0], bound)
        floored = op.floored == "quotient"
        if not floored and len(op.signs) != 2 and op.factors != "xy":
            return None
        left, right = operands[:2]
        negated = op.signs == (1, -1) and self._number(left) is not None
        if negated or (op.signs != (1, -1) and not floored and self._number(right) is None):
            left, right = right, left
        by = self._number(right)
        if by is None:
            return None
        if negated:  # The comparison is by - p < bound.
            found = self._less(left, by - bound + 1)
            return found and found.others()
        if op.signs:
            return self._less(left, bound - by if op.signs == (1, 1) else bound + by)
        if type(by) is not int or by < 1:
            return None
        if floored:  # p // by < bound says the same as p < bound * by
            return self._less(left, bound * by)
        if bound <= 0 and type(bound) is not int:
            return None
        return self._less(left, (bound + (by - 1)) // by)  # The quotient is rounded up: p * by < bound.

    def _between(self, positions: int, bound) -> Selection | None:
        """Return where an expression is between a bound and its negative."""
        one, other = self._less(positions, bound), self._less(positions, 1 - bound)
        return None if one is None or other is None else one.combined(other.others(), operator.and_)

    def _up_to(self, bound) -> Selection:
        """Return the positions below a bound."""
        if not bound > 0:  # a guard where it is a size
            return Selection((), (NOTHING,))
        if not bound < self._length:
            return Selection((), (ALL,))
        return Selection((bound,), (ALL, NOTHING))

    def _written(self, number: int) -> Selection | None:
        """Return where an array that was written to, part by part, is true."""
        tape, place = self._tape, self._place(number)
        layout = tape.layout_of(number)
        whole = (layout.dims, layout.strides, tape.offset_of(number)) == ((self._dim,), (1,), 0)
        result = Selection((), (NOTHING,))
        if not whole or place < 0 or place not in self._parts:  # Negative keys name single cells.
            return None
        for row in self._parts[place]:
            if tape.ops[row.row].signs != (1,):
                return None
            known, out = self._number(row.a), tape.layout_of(row.out)
            if known is None or type(known) is not int:
                return None
            if known == 0:
                continue
            if not out.dims:
                starts, size, step = [tape.offset_of(row.out)], 1, 1
            elif len(out.dims) == 1:
                starts, size, step = [tape.offset_of(row.out)], out.dims[0], out.strides[0]
            elif len(out.dims) == 2 and out.dims[0] == 2:
                starts = [tape.offset_of(row.out)]
                starts.append(tape.sizes.add(starts[0], out.strides[0]))
                size, step = out.dims[1], out.strides[1]
            else:
                return None
            for start in starts:
                part = self._span(*(sizes.seen(self._trace, code) for code in (start, size, step)))
                result = part and result.combined(part, operator.or_)
                if result is None:
                    return None
        return result

    def _span(self, first, size, step) -> Selection | None:
        """Return the positions of a slice."""
        if type(step) is not int or step < 1 or (step > 1 and type(first) is not int):
            return None
        before, up_to = self._up_to(first), self._up_to(first + size * step)
        found = up_to.combined(before.others(), operator.and_)
        steps = Selection((), (_shortest(step, frozenset((first % step,))),)) if step > 1 else None
        return found.combined(steps, operator.and_) if steps and found else found

    def _maker(self, number: int) -> tuple[Traits | None, tuple]:
        """Return the op that makes a value, and its operands; positions are those of the whole axis.

        There is None for the op of what several instructions write, and of a part of what one makes.
        """
        place = self._place(number)
        row = self._made.get(place)
        if row is None or len(self._parts[place]) > 1:
            return None, ()
        op = self._tape.ops[row.row]
        offset, layout = self._tape.offset_of(number), self._tape.layout_of(number)
        if op.counts_up:
            if layout.dims != (self._dim,) or layout.strides != (1,) or offset != 0:
                return None, ()
            if self._number(row.a) != 0:
                return None, ()
        elif (offset, layout) != (self._tape.offset_of(row.out), self._tape.layout_of(row.out)):
            return None, ()  # a part of what was made
        elif op.signs == (1, 1) and self._number(row.b) == 0:
            return self._maker(row.a)  # integers get 0 added, so that they have no negative zeros
        return op, (row.a, row.b, row.c)
