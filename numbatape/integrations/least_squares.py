"""``scipy.optimize.nnls``: least squares with variables that are not negative.

Which variables are positive is data. These solve ordinary least squares, and the others are zero: in one
system of full rank, each of them is an equation of its own.
"""

from __future__ import annotations

import numpy as np

from ..numpy_api.function_tables import MAKERS
from ..rules.searches import Search
from ..trace.operands import lift_all
from .ode import guarded


def nnls(original, A, b, **options):
    """Return the solution, and the norm of the residual."""
    matrix, b = lift_all(A, b)
    search = Search("scipy.optimize.nnls", lambda A, b: original(A, b, **options)[0], (matrix, b))
    positive = search.numbers("positive entries", lambda x: x > 0.0)
    system = np.concatenate([matrix * positive, np.diag(1.0 - positive)])
    x = positive * np.linalg.lstsq(system, np.concatenate([b, np.zeros(len(positive))]))[0]
    return x, np.linalg.norm(matrix @ x - b)


MAKERS.setdefault("scipy.optimize", {})["nnls"] = guarded(nnls)
