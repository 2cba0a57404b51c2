"""Minimisers that look for the lowest of several minima, which is differentiated as that of `minimize`."""

from __future__ import annotations

from collections.abc import Callable

from ..numpy_api.function_tables import MAKERS
from .optimisers import Solve, at_ends, ends_of, extra_of, result_of, slope_of
from .solver_calls import where_traced

# What each calls back, or what makes its minimum another equation.
REFUSED = {
    "basinhopping": ("accept_test", "callback"),
    "differential_evolution": ("callback", "constraints", "integrality", "vectorized"),
    "dual_annealing": ("callback",),
    "shgo": ("callback", "constraints"),
}


def _minimiser(name: str) -> Callable:
    def implementation(original, *args, **kwargs):
        solve = Solve(original, args, kwargs)
        solve.refuse(*REFUSED[name])
        if "constraints" in (solve.traced.get("minimizer_kwargs") or {}):
            solve.refuse("minimizer_kwargs")

        def residual(f, y, call):
            local = call.get("minimizer_kwargs") or {}
            # A search by chance ends beside a bound.
            return at_ends(slope_of(f, y), y, *ends_of(call.get("bounds", local.get("bounds"))), 0.0)

        def taken(found):
            lowest = getattr(found, "lowest_optimization_result", found)
            # A line search that ends because of rounding has found the minimum; its status is 2.
            if not found.success and getattr(lowest, "status", None) != 2:
                raise RuntimeError(f"no minimum was found, so it has no derivative: {found.message}")
            return found.x

        x = solve.solution("func", residual, taken, True)
        call = solve.traced
        return result_of(x, fun=call["func"](x, *extra_of(call)))

    return implementation


MAKERS["scipy.optimize"].update({name: where_traced(_minimiser(name)) for name in REFUSED})
