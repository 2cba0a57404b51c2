"""Long sweeps in segments, between which Python looks for signals: Ctrl-C stops a sweep of any length.

Only the interpreter handles signals, and a kernel runs without it. So the plan of a long sweep says where
to cut it into segments of some milliseconds. An elementwise instruction over very many cells, or an array
op over many batch elements, is split into parts. The sweeps themselves need not know: words of the frame
say which instructions they run. A short plan has no cuts, and a steady call of it enters one kernel once.

Clearing and seeding adjoints, comparing captured arrays and copying bound ones are cut too. Not cut are an
array op over one large operand (a matrix product, a factorisation, a sum), a rule compiled by Numba, and the
copies of arguments and results that NumPy makes (1.7 ms per million cells).
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..jit import address
from ..ops import OPS, ROWS, ArrayOp
from ..savings import frozen
from ..tape import Tape
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD
from ..tape.uses import Fields
from . import plan_tables as names
from .codegen import FIRST_KERNEL
from .frame import MEMORY_WORDS, SEED_CELLS, SEED_WORDS, WATCH_WORDS, WORD
from .plan_tables import CORE_HEAD, LEVEL, LOOP_HEAD
from .vectors import FIRST_VECTOR, PATTERNS, vector_arms

CELL = 8  # bytes
LONGEST_RECORD = 4096  # words; no record is longer
# Work in a segment, in operations on a cell that is in a cache: 1 to 30 ms. A call with cuts costs some 0.1
# ms more, because Python runs in it; that would be felt around segments of less than a millisecond.
MOST = 1 << 23
# The work of an instruction beside its cells; of a cell in arithmetic, the C library's functions, SciPy's.
INSTRUCTION, ARITHMETIC, ELEMENTARY, SPECIAL = 8, 1, 8, 256
# Work of a multiplication in a product of matrices, for which BLAS reads no cell, and of a matrix's cell.
MULTIPLICATION, MATRIX = 0.125, 0.5
STEEPEST = 1.5  # an op's work grows with at most this power of its number of cells
# Functions in an op's formula that take as long as arithmetic, and functions that may add up a series.
CHEAP_CALLS = r"(math\.(fabs|copysign)|sign|floor|rint|(upper|lower)_(number_)?share|gap|strong_mul)\("
LONG_CALLS = r"\bsc\.|\b(zeta|(gamma|beta|kolmogorov|kve)_slope|erfc_ratio)\("


@functools.cache
def weights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each op: the work per cell, the power of the number of cells, and which operands count."""
    weight, power = np.full(len(OPS), float(ARITHMETIC)), np.ones(len(OPS))
    counts = np.ones((4, len(OPS)), bool)
    for k, op in enumerate(OPS):
        if isinstance(op, ArrayOp):
            weight[k] = ARITHMETIC if op.adds_parts or op.light else ELEMENTARY
            if op.index:  # the size of the table that is read from does not matter
                counts[:, k] = [True, *(name in op.index for name in "abc")]
            elif any(len(group) == 2 for group in op.operands[1:]):
                # A factorisation of n*n cells takes about n**3 operations, but LAPACK does several at once.
                # With ELEMENTARY for each, sweeps with n = 128 (0.1 ms) were cut, and took 1.4 times as long.
                weight[k], power[k] = ARITHMETIC, STEEPEST
        elif re.search(LONG_CALLS, op.value):
            weight[k] = SPECIAL
        elif re.search(r"\w\(", re.sub(CHEAP_CALLS, "", op.value)):
            weight[k] = ELEMENTARY
    return weight, power, counts


def entries_of_layouts(tape: Tape, sizes_of) -> np.ndarray:
    """Return how many entries a value of each layout has."""
    index, dims, _ = tape.layout_tables
    found = np.ones(len(tape.layouts))
    axes = np.repeat(np.arange(len(tape.layouts)), index[:, 1])
    np.multiply.at(found, axes, sizes_of(dims[: len(axes)]))
    return found


def work_of(tape: Tape, sizes_of) -> np.ndarray:
    """Return about how much work each instruction is.

    Parameters
    ----------
    sizes_of
        Returns the values of size codes.
    """
    entries = entries_of_layouts(tape, sizes_of)
    of_value = np.append(entries[tape.values["layout"]], 0.0)  # the last entry is for missing operands
    fields = Fields(ROWS, tape.code)
    cells = [of_value.take(each) for each in (fields.out, fields.a, fields.b, fields.c)]
    guards = fields.op == GUARD
    row = np.where(guards, 0, fields.op >> 1)
    weight, power, counts = weights()
    counted = [np.where(each.take(row), its, 0.0) for each, its in zip(counts, cells, strict=True)]
    most = np.maximum(np.maximum(*counted[:2]), np.maximum(*counted[2:]))
    steep = flatnonzero(power.take(row) != 1.0)
    most[steep] **= power[row[steep]]
    work = weight.take(row) * most
    product = fields.of(ROWS.with_trait("product"))
    out, a, b = (each[product] for each in cells[:3])
    work[product] = np.maximum.reduce([MULTIPLICATION * np.sqrt(out * a * b), out, MATRIX * a, MATRIX * b])
    return INSTRUCTION + np.where(guards, 0.0, work)


@frozen(eq=False)
class Cuts:
    """Where a plan's sweeps are cut.

    Attributes
    ----------
    stops
        Numbers of the instructions that segments begin with, and the number of all instructions.
    parts
        The parts of each instruction that is split, by its number: ``(code, aux)`` of a small plan.
    """

    stops: list[int]
    parts: dict[int, tuple[np.ndarray, np.ndarray]]


def find_cuts(tape: Tape, sizes_of, code: np.ndarray, aux: np.ndarray) -> Cuts | None:
    """Return where to cut the sweeps of a plan; None if they are short."""
    # Most plans are short. A bound that looks at no operand shows it: each instruction counts as if it worked
    # on the largest array, in the slowest way that any of them has.
    largest = entries_of_layouts(tape, sizes_of).max(initial=1.0)
    if len(code) * (INSTRUCTION + SPECIAL * largest**STEEPEST) <= MOST:
        return None
    weight, power, _ = weights()
    most = weight * largest**power
    most[[*ROWS.with_trait("product")]] = largest**STEEPEST * MULTIPLICATION
    short = INSTRUCTION * len(code) + Fields(ROWS, tape.code).times @ most <= MOST
    return None if short else cuts_of_work(work_of(tape, sizes_of), code, aux)


def cuts_of_work(work: np.ndarray, code: np.ndarray, aux: np.ndarray) -> Cuts | None:
    """Return what `find_cuts` does, where the work of each instruction is known."""
    total = np.cumsum(work)
    if total[-1] <= MOST:
        return None
    begins = np.floor((total - work) / MOST)
    stops = {int(k) + 1 for k in np.flatnonzero(np.diff(begins))} | {len(work)}
    parts = {}
    for k in np.flatnonzero(work > MOST).tolist():
        stops |= {k, k + 1}
        found = _parts(code[k], aux, int(np.ceil(work[k] / MOST)))
        if found is not None:
            parts[k] = found
    return Cuts(sorted(stops - {0}), parts)


@dataclass
class _Loop:
    """The loops of an instruction: a row (turns, steps of o a b c) for each axis, the innermost first."""

    cells: list[int]  # first cells of o a b c
    axes: list[list[int]]
    scratch: int

    def halves(self) -> tuple[_Loop, _Loop] | None:
        """Return two loops that together do the same; None for a loop of one iteration."""
        while self.axes and self.axes[-1][0] == 1:
            self.axes.pop()
        if not self.axes:
            return None
        *inner, (turns, *steps) = self.axes
        first = turns // 2
        turns_before = first * int(np.prod([axis[0] for axis in inner], dtype=np.int64))
        moved = [cell + first * step for cell, step in zip(self.cells, steps, strict=True)]
        return (
            _Loop(self.cells, [*map(list, inner), [first, *steps]], self.scratch),
            _Loop(moved, [*map(list, inner), [turns - first, *steps]], self.scratch + turns_before),
        )

    def split(self, count: int) -> list[_Loop]:
        """Return about ``count`` loops that together do the same, in order."""
        both = self.halves() if count > 1 else None
        if both is None:
            return [self]
        return both[0].split(count // 2) + both[1].split(count - count // 2)


def _parts(instruction: np.ndarray, aux: np.ndarray, count: int):
    """Return code and records of several instructions that do what one does; None if it has no loop."""
    word, o, a, b, last, _ = instruction.tolist()
    op = word & 0xFFFF
    if op >= FIRST_VECTOR:
        return _vector_parts(instruction, aux, count)
    if op < FIRST_KERNEL or op == GUARD:
        return None
    row = OPS[(op - FIRST_KERNEL) >> 1]
    record = aux[last : last + LONGEST_RECORD].tolist()
    levels, is_array = record[0], isinstance(row, ArrayOp)
    if is_array:
        head = CORE_HEAD + len(row.letters) + sum(map(len, row.operands))
        third, inner, cells = record[names.CORE_THIRD], [], record[names.CORE_CELLS]
    else:
        head, third, cells = LOOP_HEAD, record[names.LOOP_THIRD], 0
        inner = [record[names.LOOP_COUNT : names.LOOP_THIRD]]
    axes = inner + [record[head + LEVEL * j :][:LEVEL] for j in range(levels)]
    loops = _Loop([o, a, b, third], axes, 0).split(count)
    if len(loops) == 1:
        return None
    code, records = [], []
    for loop in loops:
        o, a, b, c = loop.cells
        code.append([word, o, a, b, len(records), 0])
        if is_array:
            scratch = record[names.CORE_SCRATCH] + loop.scratch * cells
            start = [len(loop.axes), c, scratch, *record[names.CORE_CELLS : head]]
            outer = loop.axes
        else:
            innermost, *outer = loop.axes or [[1, 0, 0, 0, 0]]
            start = [len(outer), *innermost, c]
        records += start + [number for axis in outer for number in axis]
    # The first cell of an operand without cells may be any number, which is cut to 32 bits as in the plan.
    return tuple(np.array(words, np.int64).astype(np.int32) for words in (code, records))


def _vector_parts(instruction: np.ndarray, aux: np.ndarray, count: int):
    """Do the same for an instruction that runs in an arm for vectors."""
    word, o, a, b, last, _ = instruction.tolist()
    _, op, pattern = vector_arms()[(word & 0xFFFF) - FIRST_VECTOR]
    assert pattern in PATTERNS[op.arity]
    third, n = 0, last  # where there is no record, the last word is the number of cells
    if op.arity == 3:
        third, n = map(int, aux[[last + names.LOOP_THIRD, last + names.LOOP_COUNT]])
    steps = [1, *(int(kind == "v") for kind in pattern), 0, 0][:4]
    code, records = [], []
    for loop in _Loop([o, a, b, third], [[n, *steps]], 0).split(count):
        o, a, b, c = loop.cells
        ((turns, *_),) = loop.axes or [[1]]
        code.append([word, o, a, b, len(records) if op.arity == 3 else turns, 0])
        if op.arity == 3:
            records += [0, turns, *steps, c]
    return np.array(code, np.int32), np.array(records or [0], np.int32)


class Segments:
    """The sweeps over one frame of a plan with cuts.

    Parameters
    ----------
    frame
        Its words say what the kernels run; they are restored after each sweep.
    sweep
        Returns an entry point by its name.
    """

    def __init__(self, frame: np.ndarray, cuts: Cuts, sweep: Callable[[str], Callable]):
        self._frame, self._cuts, self._sweep = frame, cuts, sweep
        self._address = address(frame)

    def run(self, name: str, start: int = 0) -> int:
        """Do in segments what the entry point of this name does; return its status."""
        frame = self._frame
        kept = frame.copy()
        try:
            return self._run(name, start)
        finally:
            results = frame[[WORD["STOPPED"], WORD["RAISED"]]]
            frame[...] = kept
            frame[[WORD["STOPPED"], WORD["RAISED"]]] = results

    def _run(self, name: str, start: int) -> int:
        """Run the parts of a sweep by name, as the compiled sweeps do; return the status."""
        frame = self._frame
        count, split, uniform = (int(frame[WORD[word]]) for word in ("COUNT", "SPLIT", "UNIFORM"))
        if name == "pullback":
            return self._reverse(split, count)
        if name in ("prologue", "resume", "lanes"):
            first = uniform if name == "lanes" else start
            return self._forward(first, split if name == "prologue" else count)
        if name in ("watched", "forward", "gradient"):
            frame[WORD["COUNT"]] = split
            outcome = self._watched()
            if outcome:
                return outcome
        if name.startswith("bound"):
            self._copy("COPY_IN")
        outcome = self._forward(split, count)
        if not outcome and name in ("gradient", "bound"):
            outcome = self._reverse(split, count)
        if not outcome and name.startswith("bound"):
            self._copy("COPY_OUT")
        return outcome

    def _enter(self, name: str, start: int = 0) -> int:
        return self._sweep(name)(self._address, start)

    def _table(self, name: str, size: int) -> list[list[int]]:
        """Return the rows of ``size`` 64-bit words that a word of the frame refers to."""
        first, count = (int(self._frame[WORD[word]]) for word in (name, f"{name}_COUNT"))
        words = (ctypes.c_int64 * (size * count)).from_address(first) if count else ()
        return [list(words[size * k : size * (k + 1)]) for k in range(count)]

    def _copy(self, name: str) -> None:
        for target, source, size in self._table(name, MEMORY_WORDS):
            for start, part in pieces(size, CELL):
                ctypes.memmove(target + start, source + start, part)

    def _watched(self) -> int:
        """Compare the watched arrays, large ones in pieces."""
        frame, rows = self._frame, self._table("WATCH", WATCH_WORDS)
        if sum(row[2] for row in rows) <= CELL * MOST:
            return self._enter("watched")
        piece = np.zeros(WATCH_WORDS, np.int64)
        frame[WORD["WATCH"]], frame[WORD["WATCH_COUNT"]] = address(piece), 1
        for k, (array, copy, size, kind) in enumerate(rows):
            for start, part in pieces(size, CELL):
                piece[:] = array + start, copy + start, part, kind
                if outcome := self._enter("watched"):
                    frame[WORD["STOPPED"]] = k
                    return outcome
        return 0

    def _between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the segments of a stretch of the plan."""
        stops = self._cuts.stops
        inside = stops[bisect.bisect_right(stops, start) : bisect.bisect_left(stops, stop)]
        places = [start, *inside, stop]
        return list(zip(places[:-1], places[1:], strict=True))

    def _in_parts(self, segment: tuple[int, int]) -> int:
        """Let the frame refer to the parts of an instruction; return how many there are, or 0."""
        first, last = segment
        parts = self._cuts.parts.get(first) if last == first + 1 else None
        if parts is None:
            return 0
        code, aux = parts
        self._frame[WORD["CODE"]], self._frame[WORD["AUX"]] = address(code), address(aux)
        return len(code)

    def _forward(self, start: int, stop: int) -> int:
        frame = self._frame
        whole = frame[[WORD["CODE"], WORD["AUX"]]]
        for segment in self._between(start, stop):
            count = self._in_parts(segment)
            for first, last in [(k, k + 1) for k in range(count)] or [segment]:
                frame[WORD["COUNT"]] = last
                outcome = self._enter("resume", first)
                if outcome:
                    if count:
                        frame[WORD["STOPPED"]] = segment[0]
                    return outcome
            if count:
                frame[[WORD["CODE"], WORD["AUX"]]] = whole
        return 0

    def _reverse(self, start: int, stop: int) -> int:
        frame = self._frame
        whole = frame[[WORD["CODE"], WORD["AUX"]]]
        frame[WORD["SPLIT"]] = frame[WORD["COUNT"]] = stop
        outcome = self._clear_and_seed()
        for segment in reversed(self._between(start, stop)):
            if outcome:
                return outcome
            count = self._in_parts(segment)
            for first, last in [(k, k + 1) for k in reversed(range(count))] or [segment]:
                frame[WORD["SPLIT"]], frame[WORD["COUNT"]] = first, last
                outcome = outcome or self._enter("pullback")
            if count:
                frame[[WORD["CODE"], WORD["AUX"]]] = whole
        return outcome

    def _clear_and_seed(self) -> int:
        """Clear and seed adjoints in pieces; then the frame tells the sweep to do no more of it."""
        frame = self._frame
        seeds, active = int(frame[WORD["SEED_COUNT"]]), []
        for first, cells in (("FIRST64", "CELLS64"), ("FIRST32", "CELLS32")):
            active.append((first, int(frame[WORD[first]]), cells, int(frame[WORD[cells]])))
        frame[[WORD["CELLS64"], WORD["CELLS32"], WORD["SEED_COUNT"]]] = 0
        for first, start, cells, count in active:
            for offset, part in pieces(count):
                frame[WORD[first]], frame[WORD[cells]] = start + offset, part
                self._enter("pullback")
            frame[WORD[cells]] = 0
        table = (ctypes.c_int32 * (SEED_WORDS * seeds)).from_address(int(frame[WORD["SEEDS"]]))
        if sum(table[SEED_CELLS::SEED_WORDS]) <= MOST:
            frame[WORD["SEED_COUNT"]] = seeds
            outcome = self._enter("pullback")
            frame[WORD["SEED_COUNT"]] = 0
            return outcome
        data, row = int(frame[WORD["SEED_DATA"]]), np.zeros(SEED_WORDS, np.int32)
        frame[WORD["SEEDS"]], frame[WORD["SEED_COUNT"]] = address(row), 1
        for family, cell, count in (table[SEED_WORDS * k : SEED_WORDS * (k + 1)] for k in range(seeds)):
            for offset, part in pieces(count):
                row[:], frame[WORD["SEED_DATA"]] = (family, cell + offset, part), data + CELL * offset
                self._enter("pullback")
            data += CELL * count
        frame[WORD["SEED_COUNT"]] = 0
        return int(frame[WORD["RAISED"]])


def pieces(count: int, unit: int = 1) -> list[tuple[int, int]]:
    """Return (start, length) of the pieces in which that many units of memory are handled."""
    most = unit * MOST
    return [(start, min(most, count - start)) for start in range(0, count, most)]
