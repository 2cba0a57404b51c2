"""The exceptions for sweeps that stop: those that NumPy would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ops import OPS, ArrayOp, status

if TYPE_CHECKING:
    from .workspace import Workspace


def failure(space: Workspace, outcome: int) -> Exception:
    """Return the exception that NumPy would raise for a sweep's status."""
    tape = space.plan.tape
    line = tape.line_of(space.stopped)
    where = f" (at {line})" if line else ""
    if outcome == status.INDEX:
        return IndexError(f"an index is out of bounds{where}")
    op = OPS[int(tape.code["op"][space.stopped]) >> 1]
    assert isinstance(op, ArrayOp)
    return np.linalg.LinAlgError(f"{op.failure}{where}")
