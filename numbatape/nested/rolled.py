"""Re-rolling before derivatives are taken, because the derivative of a vector is one instruction, too.

A function that is recorded as a whole has read all of its numbers when it returns. From then on only
derivatives are appended, for which the loops of the function may be instructions on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..late import imported
from ..tape.draft import Draft
from ..tape.passes import PASSES
from ..trace.trace import Trace, current

REROLL = "reroll"


def rolled(function: Callable, passes: Collection[str]) -> Callable:
    """Return a function that re-rolls what it has recorded when it returns, if that is among the passes."""
    if REROLL not in passes:
        return function

    def run(*args, **kwargs):
        trace = current()
        assert trace is not None
        start = len(trace.tape.code)
        result = function(*args, **kwargs)
        if len(trace.tape.code) - start >= PASSES[REROLL].shortest:
            _reroll(trace, start)
        return result

    return run


def _reroll(trace: Trace, start: int) -> None:
    tape = trace.tape
    before = tape.columns()
    draft = Draft(tape, ())
    code = imported("..tape.passes.reroll", __package__).reroll(draft, before, start, read_later=True)
    if code is not before:
        draft.rewrites.append((REROLL, len(before), len(code)))
        draft.write_back(code, start)
        trace.evaluation.forget(start)
