"""The adjoint of a stretch of a tape, appended to the tape.

Instructions are walked backwards; each one's reverse rule is recorded as further instructions. What
comes out is ordinary tape, so that it can be differentiated again.
"""

from __future__ import annotations

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..ops import OPS, Elementwise
from ..savings import uncollected
from ..tape.instruction import Instruction
from .accumulators import Cells
from .activity import Places, varied_in
from .partials import product
from .repeats import Walk


class Rules:
    """The part of a walk that depends on the tape's owner: the pullbacks of calls of users' rules."""

    def pull_call(self, ct: Symbol, out: int, numbers, need, transposing: bool = False) -> tuple:
        """Return one cotangent per operand of a call, None for no cotangent.

        ``transposing`` says that the adjoint of what is recorded will be taken, to make a pushforward.
        """
        raise UnsupportedOperationError(
            "a user's rule can be differentiated while its function is traced, and not on a finished tape"
        )

    def push_call(self, out: int, numbers, tangent: Symbol, strong: bool) -> Symbol | None:
        """Return the tangent of a call's result, given that of its first operand.

        None says that the pullback is to be transposed instead.
        """
        return None

    def inside(self, body) -> Rules:
        """Return the rules for the body of a loop, to which a derivative of it is appended."""
        return self

    def check_call(self, numbers, need) -> None:
        """Raise if the derivative of a call by some operands needs a formula that does not exist."""


class Adjoint:
    """One backward walk.

    A cotangent is a symbol, or a number, which means an array with this number in all entries.

    Parameters
    ----------
    emitter
        Appends to the tape that is walked.
    strong
        Whether a zero cotangent adds nothing, whatever the partial is (0 * inf = 0).
    either
        Whether a zero partial adds nothing either, whatever the cotangent is.
    rules
        Has the pullbacks of users' rules.
    lanes
        The number of cotangents per value, as a size code: all given and returned symbols then have a leading
        axis of this size. None for a single cotangent. A call of a user's rule takes one at a time.
    """

    def __init__(
        self,
        emitter: Emitter,
        strong: bool = True,
        either: bool = False,
        rules: Rules | None = None,
        lanes: int | None = None,
    ):
        self.emitter = emitter
        self.tape = emitter.tape
        self.strong = strong
        self.either = either
        self.rules = rules or Rules()
        self.cotangents = Cells(emitter, lanes)

    @uncollected
    def run(self, start: int, stop: int, targets, seeds) -> list:
        """Return the cotangents of ``targets``, None for a target on which no seed depends.

        Parameters
        ----------
        start, stop
            The instructions that computed the outputs from the targets.
        targets
            Value numbers.
        seeds
            ``(value number, cotangent)`` pairs of outputs.
        """
        seeds = list(seeds)
        for output, cotangent in seeds:
            self.cotangents.add(output, cotangent)
        # Adding seeds up may take new cells, so the places are numbered afterwards.
        found = varied_in(self.tape, Places(self.tape), start, stop, targets)
        around = self.emitter.line
        try:
            walk = Walk(self.emitter, self.cotangents, False, self._pull, found.take(slice(None, None, -1)))
            walk.run([output for output, _ in seeds], targets)
            return [self.cotangents.whole(target) for target in targets]
        finally:
            self.emitter.line = around

    def _pull(self, row: Instruction, needed: int) -> None:
        """Add what the cotangent of an instruction's result contributes to those of its operands."""
        out, numbers, around = row.out, row.operands, self.emitter.line
        self.emitter.line = row.line
        ct = self.cotangents.collect(out)
        if ct is None:  # No seed depends on the result, so its cotangent is zero.
            self.emitter.line = around
            return
        op = OPS[row.row]
        if op.__class__ is Elementwise:
            self._pull_elementwise(op, ct, out, numbers, needed)
            return
        if ct.__class__ is not Symbol and (not op.takes_numbers or np.ndim(ct)):
            ct = self.cotangents.spread(ct, out)
        need = tuple(bool(needed >> j & 1) for j in range(len(numbers)))
        if op.calls:  # a pullback may fail where the value does not
            parts = self.rules.pull_call(ct, out, numbers, need)
        else:
            if op.pullback is None:
                raise UnsupportedOperationError(
                    f"{op.name} has no derivative of this order yet ({self.tape.source.where(row.line)})"
                )
            emitter = self.emitter
            start = len(self.tape.code)
            operands = [Symbol(emitter, n) for n in numbers]
            parts = op.pullback(emitter, ct, Symbol(emitter, out), operands, need)
            self.tape.note_spare(start)
        for number, part, wanted in zip(numbers, parts, need, strict=False):
            if wanted and part is not None:
                self.cotangents.add(number, part)

    def _pull_elementwise(self, op: Elementwise, ct, out: int, numbers, needed: int) -> None:
        emitter, values, cotangents = self.emitter, self.tape.values, self.cotangents
        layout = values[out][2]
        for j, number in enumerate(numbers):
            if needed >> j & 1:
                part = product(emitter, op, j, ct, numbers, out, self.strong, self.either)
                if values[number][2] != layout:  # the operand was broadcast: a sum over these axes follows
                    part = cotangents.spread(part, out)
                cotangents.add(number, part)
