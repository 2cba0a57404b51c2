"""Numbers of values that were recorded without any: of derivatives, when Python or NumPy needs one.

Instructions are evaluated with the functions of the op table, each once, and only those that the wanted value
depends on. They start from the arguments, the literals and the copies on which a derivative's function ran.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import OPS, ArrayOp, Elementwise, oracle
from ..ops.oracles import needs_shape
from ..tape import TapeBuilder
from ..tape.instruction import Instruction, instruction
from ..tape.tape import FAMILY_DTYPE, POOLS
from ..tape.uses import key_of


class AssumptionError(Exception):
    """A trace needs a number of a derivative in which a rule has made an assumption that does not hold."""


class Derivatives:
    """Derivatives that are taken inside of a trace: recorded as instructions, and evaluated where needed.

    Parameters
    ----------
    tape
        The tape that they are recorded on.

    Attributes
    ----------
    taken
        Whether there is any.
    order
        How many derivatives will be taken, one of another, of what is being recorded.
    emitter
        What appends them (`numbatape.nested.emitting`).
    deferred
        Weak references to arrays whose numbers nobody has computed.
    given
        Values by number that the evaluation starts from.
    evaluation
        What computes numbers; None as long as nobody has needed one.
    assumes
        Whether rules may assume the usual case, see `assume`.
    assumed
        The guards on what they have assumed.
    mistaken
        Whether one of the assumptions is wrong.
    """

    __slots__ = (
        "_tape",
        "_unchecked",
        "assumed",
        "assumes",
        "deferred",
        "emitter",
        "evaluation",
        "given",
        "mistaken",
        "order",
        "taken",
    )

    def __init__(self, tape: TapeBuilder):
        self._tape = tape
        self.taken = self.assumes = self.mistaken = False
        self.order = 0
        self.emitter: Any = None
        self.deferred: list = []
        self.given: list[tuple[int, Any]] = []
        self.evaluation: Evaluation | None = None
        self.assumed: list[int] = []
        self._unchecked: list[tuple[int, bool]] = []  # assumed truth values that were not evaluated, by value

    def evaluated(self, results_of) -> Evaluation:
        """Return what computes numbers; ``results_of`` gives it the results of calls.

        Raises
        ------
        AssumptionError
            If a rule has made an assumption that does not hold.
        """
        if self.evaluation is None:
            self._tape.unroll()
            self.evaluation = Evaluation(self._tape, results_of)
            for number, value in self.given:
                self.evaluation.note(number, value)
        if self._unchecked:
            unchecked, self._unchecked = self._unchecked, []
            self.mistaken |= any(bool(self.evaluation.value(number)) != truth for number, truth in unchecked)
        if self.mistaken:
            raise AssumptionError
        return self.evaluation

    def assume(self, guard: int, condition: int, truth: bool) -> None:
        """Note that a rule has assumed the truth of a value, and recorded the guard of a given number on it.

        Evaluating the value takes longer than recording it. So it is left to the first sweep over the tape,
        unless the trace itself needs the number of a derivative.
        """
        self.assumed.append(guard)
        self._unchecked.append((condition, truth))

    def know(self, number: int, value) -> None:
        """Make the numbers of a value known to the evaluation; nobody may write to them.

        They are noted by its cells, so a scalar must not move into an array that it is written to.
        """
        self.given.append((number, value))
        storage, offset, _ = self._tape.values[number]
        if storage < len(POOLS):
            self._tape.note_views([(storage, offset)])
        if self.evaluation is not None:
            self.evaluation.note(number, value)

    def close(self) -> None:
        """Let go of all that refers to the trace, so that it is freed without the garbage collector."""
        self.given, self.deferred, self.evaluation = [], [], None
        if self.emitter is not None:  # the partials that the emitter notes refer to it
            self.emitter.slopes, self.emitter = {}, None


class Evaluation:
    """The cells of a tape under construction, as far as they were needed.

    Parameters
    ----------
    tape
        The tape; instructions may be appended between calls of `value`.
    calls
        Returns the results of the call of a rule with a given number, as one vector, given its operands.
    """

    def __init__(self, tape: TapeBuilder, calls):
        self.tape = tape
        self._calls = calls
        self._cells: dict[int, np.ndarray] = {}  # by key, see `numbatape.tape.uses.keys_of`
        self._writers: dict[int, list[int]] = {}  # instructions that write to a key, in order
        self._written: dict[int, int] = {}  # how many of them have been evaluated
        self._lanes: dict[int, int] = {}  # for each key, the value that its cells are a copy of
        self._indexed = self._literals = 0

    def note(self, number: int, value) -> None:
        """Set a value that covers its storage."""
        key = self._key(number)
        self._cells[key] = np.array(value, FAMILY_DTYPE[self.tape.family_of(number)], order="C").reshape(-1)
        self._written[key] = 1

    def stands_for(self, number: int, lane: int) -> None:
        """Let a value that covers its storage have the numbers of another one, when they are needed."""
        self._lanes[self._key(number)] = lane

    def has(self, number: int) -> bool:
        """Whether the cell of a scalar is known here, which is then found nowhere else."""
        key = self._key(number)
        return key in self._writers or key in self._cells

    def value(self, number: int):
        """Return the numbers of a value: a new array, or a scalar."""
        self._index()
        self._settle(number)
        found = self._view(number).copy()
        return found if found.ndim else found[()]

    def forget(self, start: int) -> None:
        """Note that instructions from one place on were taken off the tape, or have moved."""
        for key, its in self._writers.items():
            if its[-1] >= start:
                self._writers[key] = its = [k for k in its if k < start]
                self._written[key] = min(self._written.get(key, 0), len(its))
        self._writers = {key: its for key, its in self._writers.items() if its}
        self._indexed = min(self._indexed, start)

    def _key(self, number: int) -> int:
        storage, offset, _ = self.tape.values[number]
        return key_of(storage, offset)

    def _index(self) -> None:
        """Index the instructions that were recorded since the last call."""
        tape = self.tape
        for k, row in enumerate(tape.instructions(self._indexed), self._indexed):
            if not row.is_guard:
                self._writers.setdefault(self._key(row.out), []).append(k)
        self._indexed = len(tape.code)
        for literal in tape.literals[self._literals :]:
            self._cells[key_of(literal.storage, literal.offset)] = literal.data
        self._literals = len(tape.literals)

    def _settle(self, number: int) -> None:
        """Evaluate the instructions that a value's cells depend on, the deepest first."""
        writers, written, code = self._writers, self._written, self.tape.code
        stack = [(self._key(number), len(code))]
        while stack:
            key, stop = stack[-1]  # the reader wants what the instructions before ``stop`` have written
            if key in self._lanes:
                lane = self._lanes.pop(key)
                self._settle(lane)
                self._cells[key], written[key] = self._view(lane).reshape(-1).copy(), 1
            its, done = writers.get(key, ()), written.get(key, 0)
            if done >= len(its) or its[done] >= stop:
                stack.pop()
                continue
            k = its[done]
            row = instruction(code[k])
            missing = []
            for operand in row.operands:
                other = self._key(operand)
                found, ready = writers.get(other, ()), written.get(other, 0)
                if other != key and ready < len(found) and found[ready] < k:
                    missing.append((other, k))
            if missing:
                stack += missing
                continue
            self._run(row)
            written[key] = done + 1

    def _view(self, number: int) -> np.ndarray:
        """Return a value as a view of its cells, which are allocated if they do not exist yet."""
        tape = self.tape
        storage, offset, layout = tape.values[number]
        count, family, _ = tape.storages[storage]
        size, dtype = tape.sizes.value, FAMILY_DTYPE[family]
        key = self._key(number)
        cells = self._cells.get(key)
        if cells is None:
            cells = self._cells[key] = np.zeros(1 if key < 0 else size(count), dtype)
        shape = tuple(map(size, tape.layouts[layout].dims))
        if 0 in shape:
            return np.zeros(shape, dtype)
        strides = tuple(size(s) * dtype.itemsize for s in tape.layouts[layout].strides)
        return np.ndarray(shape, dtype, cells, 0 if key < 0 else size(offset) * dtype.itemsize, strides)

    def _run(self, row: Instruction) -> None:
        op = OPS[row.row]
        target = self._view(row.out)
        operands = [self._view(number) for number in row.operands]
        with np.errstate(all="ignore"):
            if isinstance(op, Elementwise):
                target[...] = operands[0] if op.casts or op.moves else oracle(op)(*operands)
            elif op.calls:
                target[...] = self._calls(int(operands[2][()]), operands)
            else:
                assert isinstance(op, ArrayOp)
                target[...] = oracle(op)(*operands, *([target.shape] if needs_shape(op) else []))
