"""The variables of a function that are inputs of its tape, while the function runs."""

from __future__ import annotations

from typing import Any

from ..capture.moving import contents_of, require_inputs, require_same
from ..capture.moving_names import MovingName
from ..trace.trace import Trace


class MovingInputs:
    """Moving variables (`numbatape.capture.moving_names`) in the runs of a function.

    Parameters
    ----------
    names
        The variables.
    """

    def __init__(self, names: tuple[MovingName, ...]):
        self._before = {name: name.read() for name in names if name.may_change}

    def begin(self, trace: Trace, values: dict[MovingName, Any]) -> None:
        """Note the traced values that the variables have in a run."""
        self._values = values
        trace.capture.moving = {name.key: value for name, value in values.items()}
        self._contents, self._own = contents_of(values), contents_of(self._before)

    def end(self, trace: Trace) -> None:
        """Note which variables the run has assigned to; raise if it did what calls cannot do again."""
        found = trace.capture.copies.assigned_to(self._values)
        if found and not trace.swept:
            raise RuntimeError("a variable that is an input is assigned to, and a transform runs this again")
        self.undo()  # what assigned values lead to is the trace, and not the function's
        require_inputs(trace, self._values, self._contents)
        for name, value in found.items():
            name.assign(value)
        trace.capture.reassigned = found

    def require_unwritten(self) -> None:
        """Raise if the function has written to containers of variables by other names, too."""
        require_same(self._own)

    def undo(self) -> None:
        """Give the variables the values again that they had before the first run."""
        for name, value in self._before.items():
            name.assign(value)
