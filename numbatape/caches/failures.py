"""The exceptions for sweeps that stop: those that NumPy would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ops import status

if TYPE_CHECKING:
    from .variant import VariantWorkspace


def failure(space: VariantWorkspace, outcome: int) -> Exception:
    """Return the exception that NumPy would raise for a sweep's status."""
    tape = space.plan.tape
    line = tape.line_of(space.stopped)
    where = f" (at {line})" if line else ""
    if outcome == status.INDEX:
        return IndexError(f"an index is out of bounds{where}")
    op = tape.name_of(space.stopped).split(".")[0]
    if op in ("eigh", "svd", "qr"):
        return np.linalg.LinAlgError(f"{op} did not converge{where}")
    if op == "cholesky":
        return np.linalg.LinAlgError(f"Matrix is not positive definite{where}")
    return np.linalg.LinAlgError(f"Singular matrix{where}")
