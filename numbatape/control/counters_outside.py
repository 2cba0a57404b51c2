"""What a body may count, or write down, for the caller of the function that is traced.

A list from outside that a body appends to, or a number of calls, tells the caller how often the body ran:
once for each trace, where Python runs it in each step. It is harmless as long as nothing that is computed
depends on it. So the object has to be older than the call, and no code that the traced function runs may
read it by any of its names, but the body's own (of which another run has shown that it records the same).
"""

from __future__ import annotations

import types
from collections.abc import Iterable

from ..capture.changed_state import Change, may_read
from ..capture.environment import Environment


def is_for_the_caller(change: Change, environment: Environment | None, bodies: Iterable[Environment]) -> bool:
    """Whether nothing but the body reads what it has changed, and the caller has made it.

    Parameters
    ----------
    environment
        What the traced function refers to.
    bodies
        What the functions of the body refer to.
    """
    if environment is None or change.undo is None or not _is_older(change.holder, environment):
        return False
    own = {code for its in bodies for code in its.running()}
    return not may_read(change.names(environment, *bodies), environment.running(), own)


def _is_older(holder, environment: Environment) -> bool:
    """Whether the traced function reaches an object from outside, so that it is older than the call."""
    if type(holder) is types.CellType:
        return any(cell is holder for cell, _, _ in environment.variables())
    if isinstance(holder, dict) and "__builtins__" in holder:
        return True  # global variables, of a copy of the function perhaps
    return id(holder) in environment.dictionaries() or any(x is holder for x in environment.reached)
