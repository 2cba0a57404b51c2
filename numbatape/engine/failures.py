"""The exceptions for sweeps that stop: those that NumPy would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import UnsupportedOperationError
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
    if outcome == status.INTEGER:
        return UnsupportedOperationError(
            f"integers beyond 2**53 are not exact in a float64{where}; use float64"
        )
    op = OPS[int(tape.code["op"][space.stopped]) >> 1]
    assert isinstance(op, ArrayOp)
    return np.linalg.LinAlgError(f"{op.failure}{where}")
