"""The pushforward of recorded instructions, appended to their tape: tangents, first instruction to last.

The tangent of an elementwise row is the sum of its partials times the tangents of its operands. A linear
array op is applied to the tangent itself, and a bilinear one to the tangent of each operand in turn. For any
other array op the pullback is transposed, which is possible because it is linear in its cotangent: the
pullback is recorded for a cotangent of zeros, and the adjoint of what it recorded is the pushforward. The
pullback's own instructions are dropped when the tape is frozen, because nothing needs them.
"""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.instructions import CORES
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..ops import OPS, ArrayOp, Elementwise
from ..savings import uncollected
from ..tape.combinations import flatnonzero
from ..tape.instruction import Instruction
from .accumulators import Cells
from .activity import OPERANDS, Active, Places, useful_for, varied_in
from .adjoint import Adjoint, Rules
from .partials import product
from .repeats import CALLS, Walk
from .template import Sums


@functools.cache
def _adds() -> np.ndarray:
    """Return for each op and operand whether the op adds the operand to the others."""
    found = np.zeros((len(OPS), OPERANDS), bool)
    for k, op in enumerate(OPS):
        if op.signs:
            found[k, : len(op.signs)] = [sign > 0 for sign in op.signs]
    return found


class Pushforward:
    """One forward walk.

    A tangent is a symbol, or a number, which means an array with this number in all entries.

    Parameters
    ----------
    emitter
        Appends to the tape that is walked.
    strong
        Whether a product is zero where the tangent or the partial is zero, whatever the other one is.
    rules
        Has the pullbacks of users' rules.
    lanes
        The number of tangents per value, see `Adjoint`.
    """

    def __init__(
        self,
        emitter: Emitter,
        strong: bool = False,
        rules: Rules | None = None,
        lanes: int | None = None,
    ):
        self.emitter = emitter
        self.tape = emitter.tape
        self.strong = strong
        self.rules = rules or Rules()
        self.lanes = lanes
        self.tangents = Cells(emitter, lanes)
        self._places = Places(self.tape)
        self._reads = np.zeros(0, np.int64)  # for each place, how many operands' tangents are read there
        self._sums = Sums()  # tangents of one cell that are sums of products

    @uncollected
    def run(self, start: int, stop: int, seeds, outputs) -> list:
        """Return the tangents of ``outputs`` (value numbers), None for one that depends on no seed.

        Parameters
        ----------
        start, stop
            The instructions that computed the outputs.
        seeds
            ``(value number, tangent)`` pairs of the values that the derivative is taken along.
        """
        seeds = list(seeds)
        for value, tangent in seeds:
            self.tangents.add(value, tangent)
        # Adding seeds up may take new cells, so the places are numbered afterwards.
        places = self._places = Places(self.tape)
        found = varied_in(self.tape, places, start, stop, [value for value, _ in seeds])
        found = useful_for(found, places, outputs)
        self._check_calls(found)
        self._reads = found.reads(places)
        around = self.emitter.line
        try:
            sole = self._sole_operands(found)
            walk = Walk(self.emitter, self.tangents, True, self._push, found, self._sums, sole)
            walk.run([value for value, _ in seeds], outputs)
            return [self.tangents.whole(output) for output in outputs]
        finally:
            self.emitter.line = around

    def _sole_operands(self, found: Active) -> np.ndarray:
        """Return the operands, as bits, whose tangents `_taken_apart` may take apart."""
        several = found.needed & found.needed - 1 != 0
        sole = (self._reads[found.places[:, 1:]] == 1) & _adds()[found.rows["op"] >> 1]
        return np.where(several, sole @ (1 << np.arange(OPERANDS)), 0)

    def _check_calls(self, found: Active) -> None:
        """Raise if a call needs a formula that does not exist.

        Calls are checked from the last to the first. The call that a pullback makes comes after the call that
        the pullback belongs to, and an error about it tells the user more than that the rule has no
        pushforward.
        """
        for k in flatnonzero(CALLS[found.rows["op"] >> 1])[::-1].tolist():
            row, needed = found.one(k)
            self.rules.check_call(row.operands, [bool(needed >> j & 1) for j in range(OPERANDS)])

    def _push(self, row: Instruction, needed: int) -> None:
        op = OPS[row.row]
        known = self.tangents
        self.emitter.line = row.line
        tangents, count = [], 0
        for k, number in enumerate(row.operands):
            tangent = known.collect(number) if needed >> k & 1 else None
            tangents.append(tangent)
            count += tangent is not None
        if not count:
            return
        if op.__class__ is Elementwise:
            total = self._elementwise(op, row, tangents, count)
        else:
            pairs = zip(tangents, row.operands, strict=True)
            tangents = [None if tangent is None else known.spread(tangent, n) for tangent, n in pairs]
            total = self._array_op(op, row, tangents)
        if total is not None:
            self.tangents.add(row.out, total)

    def _elementwise(self, op: Elementwise, row: Instruction, tangents, count: int):
        rank = len(self.tape.layout_of(row.out).dims)
        later: list = []
        if count > 1 and not rank and op.signs:
            tangents, later = self._taken_apart(op, row, tangents)
        if count > 1 and not later and op.signs == (1, -1):
            one, other = (self._aligned(tangent, rank) for tangent in tangents)
            return one - other
        parts = []
        for k, tangent in enumerate(tangents):
            if tangent is not None:
                args = op, k, self._aligned(tangent, rank), row.operands, row.out
                parts.append(product(self.emitter, *args, self.strong, either=self.strong, forward=True))
        total = functools.reduce(operator.add, [*parts, *later])
        if not rank and not op.signs and len(parts) > 1 and total.__class__ is Symbol:
            self._sums[total.number] = parts
        return total

    def _aligned(self, tangent, rank: int):
        return self.tangents.aligned(tangent, rank) if tangent.__class__ is Symbol else tangent

    def _taken_apart(self, op: Elementwise, row: Instruction, tangents):
        """Return the operands' tangents, and the products of one that is a sum which nothing else reads.

        That tangent is None in the first result. Its products are added to the other tangent one by one,
        because a product and an addition become one instruction.
        """
        for k, tangent in enumerate(tangents):
            parts = self._sums.products_of(tangent) if tangent.__class__ is Symbol else None
            if parts and op.signs[k] > 0 and self._reads[self._places.one(row.operands[k])] == 1:
                return [None if j == k else other for j, other in enumerate(tangents)], parts
        return tangents, []

    def _array_op(self, op: ArrayOp, row: Instruction, tangents):
        """Return the tangent of an array op's result.

        A linear op is applied to the tangents themselves. Others have a formula, or are linear in each
        operand alone. What is left is pushed by transposing its pullback.
        """
        emitter, numbers = self.emitter, row.operands
        operands = [Symbol(emitter, number) for number in numbers]
        dims = self.tape.layout_of(row.out).dims
        cores = CORES[op.name]
        batch = len(dims) - len(cores[0])
        given = [k for k, tangent in enumerate(tangents) if tangent is not None]

        def along(k: int) -> Symbol:
            """Return the tangent of an operand so that it takes the operand's place."""
            return self.tangents.aligned(tangents[k], batch + len(cores[1 + k]))

        if op.calls and tangents[0] is not None:
            total = self.rules.push_call(row.out, numbers, along(0), self.strong)
            if total is not None:
                return total
        sizes = dict(zip(cores[0], dims[batch:], strict=True))
        if op.linear:
            for k, number in enumerate(numbers):
                if k in given:
                    operands[k] = along(k)
                elif "abc"[k] not in op.index:  # a constant, whose tangent is zero
                    own = self.tape.layout_of(number).dims
                    operands[k] = emitter.zeros(own, self.tape.family_of(number))
            return emitter.op(op.name, *operands, **sizes)
        if op.pushforward is not None and not emitter.strong and not self.strong:
            aligned = [along(k) if k in given else None for k in range(len(operands))]
            return op.pushforward(emitter, Symbol(emitter, row.out), operands, aligned)
        if op.bilinear and not emitter.strong and not self.strong:
            total = None
            for k in given:
                pair = [along(k) if j == k else operand for j, operand in enumerate(operands)]
                part = emitter.op(op.name, *pair, **sizes)
                total = part if total is None else total + part
            return total
        return self._transposed(op, row, operands, tangents, given)

    def _transposed(self, op: ArrayOp, row: Instruction, operands, tangents, given):
        """Return the tangent of a result by the op's pullback, which is linear in the cotangent.

        The pullback is recorded for a cotangent of zeros and is then pulled back itself, seeded with the
        tangents; its own instructions are spare after that, and a pass removes them.
        """
        emitter, tape = self.emitter, self.tape
        need = tuple(k in given for k in range(len(operands)))
        ghost = emitter.zeros(tape.layout_of(row.out).dims, tape.family_of(row.out))
        start = len(tape.code)
        if op.calls:
            parts = self.rules.pull_call(ghost, row.out, row.operands, need, transposing=True)
        elif op.pullback is None:
            raise UnsupportedOperationError(
                f"{op.name} has no derivative of this order yet ({tape.source.where(row.line)})"
            )
        else:
            parts = op.pullback(emitter, ghost, Symbol(emitter, row.out), operands, need)
        one = Cells(emitter)
        pulled = [
            (one.fitted(part, number), tangents[k])
            for k, (part, number) in enumerate(zip(parts, row.operands, strict=False))
            if need[k] and part is not None
        ]
        stop = len(tape.code)
        tape.note_spare(start)
        seeds = [(part.number, tangent) for part, tangent in pulled]
        transposed = Adjoint(emitter, self.strong, self.strong, self.rules, self.lanes)
        (tangent,) = transposed.run(start, stop, [ghost.number], seeds)
        return tangent
