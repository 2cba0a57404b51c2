"""Passes that run before derivatives are taken, because a derivative has several instructions for each one.

A function that is recorded as a whole has read all of its numbers when it returns. From then on only
derivatives are appended. So the turns of its loops may become instructions on vectors by then, and of equal
arrays, such as a product ``h @ p`` that two lines of it compute, one is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter

import numpy as np

from ..late import imported
from ..tape.draft import Draft
from ..tape.freezing import RewriteLog
from ..tape.passes import PASSES, merge_arrays
from ..trace.trace import Trace, current

SHORTEST = PASSES["reroll"].shortest


def _reroll(draft: Draft, code: np.ndarray, start: int, read_later: bool) -> np.ndarray:
    return imported("..tape.passes.reroll", __package__).reroll(draft, code, start, read_later)


EARLY = {"merge": merge_arrays, "reroll": _reroll}


def passed(function: Callable, passes: Collection[str]) -> Callable:
    """Return a function that runs those of the passes on what it has recorded when it returns."""
    chosen = {name: run for name, run in EARLY.items() if name in passes}
    if not chosen:
        return function

    def run(*args, **kwargs):
        trace = current()
        assert trace is not None
        start = len(trace.tape.code)
        result = function(*args, **kwargs)
        if len(trace.tape.code) - start >= SHORTEST:
            _rewrite(trace, start, chosen)
        return result

    return run


def _rewrite(trace: Trace, start: int, passes: dict[str, Callable]) -> None:
    recorded = code = trace.tape.columns()
    draft = Draft(trace.tape, ())
    log = RewriteLog(draft)
    for name, run in passes.items():
        begun, before = perf_counter(), code
        code = run(draft, code, start, read_later=True)
        log.note(name, before, code, perf_counter() - begun)
    if code is not recorded:
        draft.write_back(code, start)
        trace.evaluation.forget(start)
    else:
        trace.tape.rewrites[:] = draft.rewrites
