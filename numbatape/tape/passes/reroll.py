"""Re-rolling: the turns of a loop in Python become instructions on vectors.

A loop over 200 observations is traced as 200 copies of the same few instructions on single cells. What the
turns compute independently of each other becomes one instruction over all turns, with operands at constant
strides; what they add to one number becomes a sum; what depends on the turn before stays as it is, and reads
and writes cells of the vectors (`numbatape.tape.rerolling.distribution`).

Numbers may change in the last bits, where a sum is taken in another order, and where vectors run in NumPy's
loops (`exp`), but in nothing that a guard, a comparison or a rounding depends on. With
``Config(values="numpy")`` all bits stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..combinations import SPARSE, flatnonzero, numbered
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..families import F64, POOLS
from ..instruction import GUARD, NONE, chosen, copied, joined, swapped
from ..liveness import steady
from ..rerolling.cycles import NOT_LINEAR, forms_of
from ..rerolling.distribution import Distribution, Slots
from ..rerolling.periods import CELL, SCALAR, Stretch, aligned, ranks_and_previous, repeating, saving
from ..rerolling.rolling import Rolling
from ..rerolling.single_cells import Cells
from ..uses import SCRATCH, Fields

SHORT = 24  # tapes with fewer instructions on single cells are left as they are
ENOUGH = 0.5  # No others are tried if a period saves this share of what it might save at best.
OFTEN = 12  # the search looks at each instruction of a tape this many times at most, on average
LEAST = 50.0  # a stretch is re-rolled if it saves this many nanoseconds a sweep
SHARE = 0.01  # a stretch is examined if it might save this share of the time of its other instructions
OTHER_SLOT = 20.0  # an instruction on arrays takes at least this many nanoseconds

NUMBER, OTHER = 1, 2  # kinds of operands; 0 stands for a missing one


def reroll(draft: Draft, code: np.ndarray, start: int = 0, read_later: bool = False) -> np.ndarray:
    """Replace the turns of loops by instructions on vectors.

    Parameters
    ----------
    draft, code
        What was recorded.
    start
        The first instruction that may be rewritten.
    read_later
        Whether instructions that are not recorded yet may read any result.
    """
    search = _Search(draft, code, start)
    plans = search.run() if search.single.sum() >= SHORT else []
    parts, last = [], 0
    for plan in sorted(plans, key=lambda plan: plan.stretch):
        stretch = plan.stretch
        if parts:  # stretches before this one have moved cells, so that it is looked at again
            plan = Distribution(search.cells, stretch, search.slots)
            if plan.saved < LEAST:
                continue
        parts += [search.code[last : stretch.start], *Rolling(draft, search.cells, plan, read_later).rows()]
        last = stretch.stop
    if not parts:
        return code
    search.cells.settle()
    return joined([*parts, search.code[last:]])


class _Search:
    """Finds stretches that are worth re-rolling."""

    def __init__(self, draft: Draft, code: np.ndarray, start: int):
        self.draft, self.code = draft, code
        self._known: dict[Stretch, Distribution] = {}
        if not self._find_single(start):
            self.single[:] = False
            return
        draft.forget_fields()  # the memory of a long trace is at its peak behind here
        self.code = self.cells.code = self._ordered()
        self.rank, self.previous = ranks_and_previous(self._signature())

    def _find_single(self, start: int) -> bool:
        """Find the instructions that may be computed as vectors; return whether there may be enough."""
        draft, code = self.draft, self.code
        ops, fields = draft.ops, draft.fields(code)
        values = fields.out, fields.a, fields.b, fields.c
        kinds = fields.is_any(ops.with_trait("elementwise") - ops.with_trait("casts"))
        self.single = kinds & (fields.op & 1 == F64) & (fields.aux == NONE)
        self.single[:start] = False
        # An operand that an instruction does not have (NONE, which is -1) takes the last entry.
        scalar = np.append(draft.layout == SCALAR_LAYOUT, True)
        for each in values:
            self.single &= scalar.take(each)
        if self.single.sum() < SHORT or not self._may_save():
            return False
        self.cells = cells = Cells(draft, code, start)
        for each in values:
            self.single &= cells.single.take(each)
        self.single &= cells.writer.take(cells.of.take(fields.out)) == np.arange(len(code))
        self._bits(fields)
        return True

    def _may_save(self) -> bool:
        """Whether some op occurs at a line as often as a loop has turns that is worth re-rolling.

        No loop is worth it either if all instructions on single cells together take little of the tape's
        time.
        """
        code = chosen(self.code, self.single)
        if len(code) * (SCALAR - CELL) <= SHARE * OTHER_SLOT * (len(self.code) - len(code)):
            return False
        if saving(1, int(np.bincount(code["op"]).max())) <= 0:
            return False  # Not even one vector over the instructions of all lines would pay.
        number, _ = numbered(numbered(code["line"])[0] * (int(code["op"].max()) + 1) + code["op"])
        return saving(1, int(np.bincount(number).max())) > 0

    def _bits(self, fields: Fields) -> None:
        """Note which instructions may be computed as vectors, and which additions in another order."""
        code, ops = self.code, self.draft.ops
        alike = ops.with_trait("exact")  # Vectors have the bits of single cells for these ops.
        free = np.zeros(len(code), bool)
        if not self.draft.builder.exact:
            alike |= frozenset(range(len(ops))) - ops.with_trait("loop")
            free = steady(self.draft, code)
        self.vector = self.single & (free | fields.is_any(alike))
        added, subtracted = (fields.is_any(ops.with_signs(signs)) for signs in ((1, 1), (1, -1)))
        # How many of them stand before each instruction.
        self.vectors_before = np.append(np.int32(0), np.cumsum(self.vector, dtype=np.int32))
        self.addition = (added.astype(np.int8) - subtracted) * (self.single & free)
        self.form = forms_of(ops)[np.minimum(fields.op >> 1, len(ops))] * (self.single & free)

    def _ordered(self) -> np.ndarray:
        """Return the instructions with the later one of two results as the first operand of an addition.

        Most turns have this order. The first one, which adds to a number, may not, because the tracer had no
        reason for it.
        """
        code, cells = self.code, self.cells
        a, b = (cells.writer[cells.of[code[name]]] for name in "ab")
        late = flatnonzero((self.addition > 0) & (b > a))
        if not len(late):
            return code
        code, rows = copied(code), chosen(code, late)
        code["a"][late], code["b"][late] = rows["b"], rows["a"]
        code["active"][late] = swapped(rows["active"])
        return code

    def _signature(self) -> np.ndarray:
        """Return one number for all that makes instructions alike."""
        found, count = numbered(self.code["line"])
        for field, bound in self._fields():
            if count * bound > SPARSE * len(found):  # `numbered` sorts only numbers with large gaps
                found, count = numbered(found)
            found *= bound
            found += field
            count *= bound
        return found

    def _fields(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield what alike instructions have in common, one after the other, with a bound of its numbers."""
        code, cells = self.code, self.cells
        # The first turn adds to a number, those behind it to what the turn before has made.
        plain = self.addition == 0
        yield numbered(code["op"])
        yield code["active"] * plain, 8
        yield code["stage"], 2
        pool = np.minimum(cells.home.take(cells.of.take(code["out"])), len(POOLS))
        pool[code["op"] == GUARD] = 0
        yield pool, 8
        for operand in (code[name] for name in "abc"):
            literal = cells.is_literal.take(cells.of.take(operand))
            kind = np.where(literal, np.int8(NUMBER), np.int8(OTHER))
            yield kind * (plain & (operand != NONE)), 4
        yield self.vector, 2
        yield self.addition + 1, 4
        yield self.single, 2

    def slots(self, stretch: Stretch) -> Slots:
        """Return what is known of the instructions of a stretch."""
        rows = slice(stretch.start, stretch.stop)
        single = self.single[rows].reshape(stretch.turns, stretch.period)
        ordered = ~single[0]
        if ordered.any():
            ordered |= self._disturbed(rows, stretch)
        vector = self.vector[rows].reshape(single.shape).all(axis=0) & ~ordered
        addition = np.where(vector, self.addition[stretch.start : stretch.start + stretch.period], 0)
        form = np.where(vector, self.form[stretch.start : stretch.start + stretch.period], NOT_LINEAR)
        return Slots(vector, ordered, addition, form)

    def _disturbed(self, rows: slice, stretch: Stretch) -> np.ndarray:
        """Return the slots that touch cells of which it is not known which instruction writes which one."""
        draft, cells, code = self.draft, self.cells, chosen(self.code, rows)
        others = chosen(code, ~self.single[rows])
        uses = draft.uses(cells.recorded)
        written = uses.flags(uses.out[rows])
        written |= uses.flags(uses.operands[rows, SCRATCH])
        unclear = np.zeros(draft.count, bool)
        for name in ("out", "a", "b", "c"):
            values = others[name][others[name] != NONE]
            hazy = ~cells.single[values] | (cells.writer[cells.of[values]] < 0)
            unclear[draft.group[values[hazy]]] = True
        scratch = others["aux"][(others["aux"] != NONE) & (others["op"] != GUARD)]
        unclear[draft.group[scratch]] = True
        unclear &= written
        touched = unclear[draft.group[np.stack([code[name] for name in ("out", "a", "b", "c")])]].any(axis=0)
        return touched.reshape(stretch.turns, stretch.period).any(axis=0)

    # ---- which periods

    def run(self) -> list[Distribution]:
        """Return how stretches that are worth it are re-rolled."""
        found: list[Distribution] = []
        waiting, budget = [(0, len(self.code))], OFTEN * len(self.code)
        while waiting and budget > 0:
            low, high = waiting.pop()
            if high - low < SHORT:
                continue
            budget -= high - low
            best: tuple[float, list[Distribution]] = (0.0, [])
            for promised, stretches in repeating(self.rank, self.previous, low, high):
                stretches = [its for its in stretches if self._most(its) >= LEAST]
                if sum(map(self._most, stretches)) <= best[0]:
                    continue
                budget -= sum(its.stop - its.start for its in stretches)
                saved, good = self._tried(stretches)
                if saved > best[0]:
                    best = saved, good
                if saved > ENOUGH * promised or budget < 0:
                    break
            for plan in best[1]:
                waiting.append((low, plan.stretch.start))
                low = plan.stretch.stop
            if best[1]:
                waiting.append((low, high))
                found += best[1]
        return found

    def _most(self, stretch: Stretch) -> float:
        """Return an upper bound of what re-rolling saves: all slots become vectors that may be vectors.

        The bound counts as 0 if it is small beside the time that the other instructions take.
        """
        within = self.vectors_before[stretch.stop] - self.vectors_before[stretch.start]
        # At most this many slots can be vectors, and that does not pay.
        if saving(int(within) // stretch.turns, stretch.turns) < LEAST:
            return 0.0
        vector = self.vector[stretch.start : stretch.stop].reshape(stretch.turns, stretch.period).all(axis=0)
        single = self.single[stretch.start : stretch.start + stretch.period]
        saved = saving(int(vector.sum()), stretch.turns)
        others = OTHER_SLOT * stretch.turns * int(np.count_nonzero(~single))
        return saved if saved > SHARE * others else 0.0

    def _writers(self, stretch: Stretch) -> np.ndarray:
        """Return, for each operand of the second turn of a stretch, which instruction computed it."""
        first = stretch.start + stretch.period
        turn, cells = self.code[first : first + stretch.period], self.cells
        return np.stack([cells.writer[cells.of[turn[name]]] for name in "abc"], axis=1)

    def _tried(self, stretches: list[Stretch]) -> tuple[float, list[Distribution]]:
        """Return what re-rolling saves, and how stretches that are worth it are re-rolled."""
        total, good = 0.0, []
        for each in stretches:
            plan = self._known.get(each)
            if plan is None:  # several periods, and what is left between two stretches, lead to the same one
                plan = Distribution(self.cells, aligned(each, self._writers(each)), self.slots)
                self._known[each] = plan
            if plan.saved >= LEAST:
                total += plan.saved
                good.append(plan)
        return total, good
