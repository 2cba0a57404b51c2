"""``lsqr`` and ``lsmr`` of SciPy with a plain matrix and a traced right-hand side.

The solution is linear in the right-hand side. With damping d it is ``(A'A + d^2)^-1 A' b``; its transpose is
``(AA' + d^2)^-1 A``: the same problem for the transposed matrix. Without damping it is the pseudoinverse, for
which this holds, too. So a pullback calls the same solver, with the same tolerances.
"""

from __future__ import annotations

import inspect

import numpy as np

from ..numpy_api.function_tables import MAKERS
from ..rules.searches import Search
from ..stand_ins.opened import Opened
from ..trace.operands import lift_first
from ..usercode.frames import UsersLine, not_supported
from .linear_rules import linear
from .solver_calls import where_traced

LIMIT = 7  # SciPy's ``istop`` where the iterations were not enough
NEAR = 1e-6  # SciPy's own tolerance


def _lengths(x, start, rest, A, damp) -> dict:
    """Return the lengths that a solver reports, by name, as functions of its solution."""
    moved = x if start is None else x - start
    fit, step = np.linalg.norm(rest), np.linalg.norm(moved)
    return {
        "r1norm": fit,
        "normr": np.hypot(fit, damp * step),
        "normar": np.linalg.norm(A.T @ rest - damp**2 * moved),
        "normx": np.linalg.norm(x),
        "step": step,
    }


def _is_solved(found: dict) -> bool:
    """Whether a solution that the iterations have not confirmed is one, by SciPy's default tolerances."""
    fits = found["normr"] <= NEAR * found["norma"] * found.get("normx", found.get("step"))
    return fits or found["normar"] <= NEAR * found["norma"] * found["normr"]


def _solver(names: tuple):
    """Return the implementation for a solver whose results are x and numbers with these names."""

    def implementation(original, *args, **kwargs):
        """Return the least-squares solution as a rule, and SciPy's numbers about it as data."""
        call = inspect.signature(original).bind(*args, **kwargs).arguments
        A, b, start = call.pop("A"), call.pop("b"), call.pop("x0", None)
        name, line = f"scipy.sparse.linalg.{original.__name__}", UsersLine()
        given = {"A": A, "x0": start, **call}
        traced = [key for key, option in given.items() if Opened(name, option).found]
        if traced:
            raise not_supported(
                f"{name} with a traced {' and '.join(traced)}",
                "use nt.linear_solve(lambda x: A.T @ (A @ x) + damp**2 * x, A.T @ b, method='cg')",
            )
        b = np.reshape(lift_first(b), (-1,))
        damp = call.get("damp", 0.0)

        def solve(matrix):
            def of(b):
                found = line.call(original, matrix, b, **call)
                if found[1] == LIMIT and not _is_solved(dict(zip(names, found[1:], strict=False))):
                    raise RuntimeError(
                        f"{name} found no solution (istop={LIMIT}), so it has no derivative: raise the limit "
                        "of its iterations"
                    )
                return found[0]

            return of

        target = b if start is None else b - A @ start
        x = linear(name, solve(A), solve(A.T))(target)
        x = x if start is None else start + x
        lengths = _lengths(x, start, b - A @ x, A, damp)
        other = Search(name, lambda b: line.call(original, A, b, x0=start, **call), (b,))
        results = [x]
        for place, what in enumerate(names, 1):
            known = lengths.get(what)
            results.append(other.numbers(what, lambda found, k=place: found[k]) if known is None else known)
        return tuple(results)

    return implementation


LSQR = ("istop", "itn", "r1norm", "normr", "norma", "conda", "normar", "step", "var")
LSMR = ("istop", "itn", "normr", "normar", "norma", "conda", "normx")
MAKERS["scipy.sparse.linalg"].update(lsqr=where_traced(_solver(LSQR)), lsmr=where_traced(_solver(LSMR)))
