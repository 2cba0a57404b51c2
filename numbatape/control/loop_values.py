"""The numbers of a loop while its function is traced: where Python looks at them, the loop runs."""

from __future__ import annotations

import numpy as np

from ..engine.loops.branch_runs import make_run
from ..engine.loops.loop_instance import LoopInstance
from ..engine.workspace import Workspace
from ..errors import MissingBodyError
from ..tape.loop import Branches, Loop
from ..trace.trace import CURRENT


def loop_values(loop: Loop | Branches, size, values: str, first, rest) -> np.ndarray:
    """Return the result of a loop, or of branches, as one vector.

    Parameters
    ----------
    size
        Returns the value of a size code.
    values
        As in `Config`.
    first, rest
        The operands.
    """
    trace = CURRENT.get()
    token = CURRENT.set(None)  # a rule that the body calls does not belong to the trace
    try:
        result = np.empty(loop.cells(size)[0])
        run = make_run(loop, size, values, Workspace, reverse=False, again=False)
        LoopInstance(run, result, first, rest, None, None).forward()
        return result
    except MissingBodyError as missing:
        if trace is not None:
            # Noted on the trace as well, because the function may catch the error.
            trace.validity.missing = missing
        raise
    finally:
        CURRENT.reset(token)
