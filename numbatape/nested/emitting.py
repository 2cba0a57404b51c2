"""A trace's emitter: derivatives are appended to its tape as symbols, and come back as traced arrays.

Their numbers are computed only when they are needed (`numbatape.trace.evaluation`); intermediate values of
a Hessian usually never are.
"""

from __future__ import annotations

import numpy as np

from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..late import imported
from ..tape.instruction import Instruction
from ..tape.tape import FAMILY_DTYPE
from ..trace.array import TracedArray, deferred
from ..trace.primitives import family_of
from ..trace.trace import Trace


class TraceEmitter(Emitter):
    """Appends to the tape of a trace, whose values decide the branches of rules."""

    def __init__(self, trace: Trace):
        super().__init__(trace.tape, trace.strong, trace.values == "fast")
        self.trace = trace

    @property
    def assumes(self) -> bool:
        """Whether `ask` assumes the usual case: the sweep after the trace then checks the guards."""
        return self.trace.derivatives.assumes and not self.trace.in_loop

    def ask(self, condition: Symbol, usual: bool) -> bool:
        """Return the truth of a one-cell value, and record a guard.

        Where the trace assumes nothing, it is the truth in this trace.
        """
        if self.assumes:
            self.trace.derivatives.assume(len(self.tape.guards), condition.number, usual)
        else:
            usual = bool(self.trace.evaluation.value(condition.number))
        self.guard(condition, usual)
        return usual

    def note_guards(self, rows: np.ndarray) -> None:
        a, b = (rows[:, Instruction._fields.index(name)].tolist() for name in "ab")
        for number, (condition, outcome) in enumerate(zip(a, b, strict=True), len(self.tape.guards)):
            self.trace.derivatives.assume(number, condition, bool(self.tape.numbers[outcome]))
        super().note_guards(rows)

    def stands_for(self, row: Symbol, lane: Symbol) -> None:
        self.trace.evaluation.stands_for(row.number, lane.number)

    def agrees(self, x: Symbol, outcome: float) -> bool:
        return bool(np.all(self.trace.evaluation.value(x.number) == outcome))

    def moved(self, start: int) -> None:
        self.trace.evaluation.forget(start)

    def cofactors(self, a: Symbol) -> Symbol:
        result = imported("..matrix.determinants", __package__).cofactors(traced(self.trace, a))
        return self.in_family(symbol(self.trace, result), a.family)


def emitter_of(trace: Trace) -> TraceEmitter:
    """Return the emitter of a trace."""
    if trace.derivatives.emitter is None:
        trace.derivatives.emitter = TraceEmitter(trace)
    return trace.derivatives.emitter


def traced(trace: Trace, ct):
    """Return a symbol as a traced array whose numbers are not computed yet; numbers as they are."""
    return deferred(trace, ct.number) if ct.__class__ is Symbol else ct


def symbol(trace: Trace, x):
    """Return a traced array or an array as a symbol; a number stays one."""
    if type(x) is TracedArray:
        return Symbol(emitter_of(trace), x._id)
    if np.ndim(x) == 0:
        return float(x)
    family = family_of(x)
    return Symbol(emitter_of(trace), trace.constants.number_of(np.asarray(x, FAMILY_DTYPE[family]), family))
