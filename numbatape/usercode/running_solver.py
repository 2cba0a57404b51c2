"""SciPy's solvers that call the user's function: iterations, which must be differentiated as a whole."""

from __future__ import annotations

import itertools
import sys

from .ownership import SOLVERS

RULES = "docs/rules.md"


def solver_above() -> str:
    """Return the name of SciPy's solver (a function that iterates) that is running, or ""."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(SOLVERS) and frame.f_code.co_name != "<lambda>":
            found = public_name(frame)
        frame = frame.f_back
    return found


def implicit(solver: str) -> str:
    """Return how to differentiate the solution that a solver finds, as text."""
    if solver.startswith("scipy.sparse.linalg."):
        return "use nt.linear_solve, whose solution has derivatives (docs/implicit.md)"
    return (
        f"differentiate what {solver.rpartition('.')[2]} finds as a whole, by the equation that it solves: "
        f"implicit differentiation, a rule of six lines ({RULES}, 'Implicit functions')"
    )


def public_name(frame) -> str:
    """Return the name of a frame's function as users write it, without private modules."""
    parts = frame.f_globals.get("__name__", "").split(".")
    public = ".".join(itertools.takewhile(lambda part: not part.startswith("_"), parts))
    return f"{public}.{frame.f_code.co_qualname}".removeprefix(".")
