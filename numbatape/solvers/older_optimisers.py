"""``leastsq`` and the ``fmin`` functions, older forms of ``least_squares`` and ``minimize``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numpy_api.function_tables import MAKERS
from ..verbs.first_order import grad
from .optimisers import Solve, at_ends, slope_of, with_flags
from .solver_calls import as_array, where_traced

MINIMISERS = {"fmin": "func", "fmin_bfgs": "f", "fmin_cg": "f", "fmin_ncg": "f", "fmin_powell": "func"}
# A line search that ends because of rounding has found the minimum; its flag is 2. That flag of the other
# minimisers means that the iterations were not enough, as with the methods of `minimize`.
LINE_SEARCHES = ("fmin_bfgs", "fmin_cg", "fmin_ncg")


def leastsq(original, *args, **kwargs):
    """Return the solution, and SciPy's flag, which says why it ended."""
    solve, flags = Solve(original, args, kwargs), []
    solve.refuse("full_output")

    def residual(f, y, call):
        return grad(lambda y: 0.5 * np.sum(as_array(f(y)) ** 2))(y)

    def taken(found):
        x, flag = found
        flags.append(flag)
        if flag not in (1, 2, 3, 4):
            raise RuntimeError(f"no minimum was found, so it has no derivative: ier={flag}")
        return np.atleast_1d(x)

    return solve.solution("func", residual, taken), flags[0]


def _minimiser(parameter: str) -> Callable:
    """Return the implementation for a minimiser whose function is the parameter of the given name."""

    def implementation(original, *args, **kwargs):
        solve = Solve(with_flags(original), args, kwargs)
        solve.refuse("full_output", "retall", "callback")

        def residual(f, y, call):
            return slope_of(f, y)

        def taken(found):
            x, flag = found[0], found[-1]
            if flag not in ((0, 2) if original.__name__ in LINE_SEARCHES else (0,)):
                raise RuntimeError(f"no minimum was found, so it has no derivative: warnflag={flag}")
            return np.atleast_1d(x)

        return solve.solution(parameter, residual, taken)

    return implementation


def _line_search(original, *args, **kwargs):
    """The implementation of `brent` and `golden`, which search without bounds.

    SciPy does not say whether the steps were enough, so it is checked that the slope is zero where they end.
    """
    solve = Solve(original, args, kwargs)
    solve.refuse("full_output")
    return solve.solution("func", lambda f, y, call: slope_of(f, y), lambda found: found, check=True)


def fminbound(original, *args, **kwargs):
    solve = Solve(with_flags(original), args, kwargs)
    solve.refuse("full_output")

    def residual(f, y, call):
        return at_ends(slope_of(f, y), y, call["x1"], call["x2"], call["xtol"])

    def taken(found):
        x, _, flag, _ = found
        if flag:
            raise RuntimeError(f"no minimum was found, so it has no derivative: ierr={flag}")
        return x

    return solve.solution("func", residual, taken)


MAKERS["scipy.optimize"].update(
    {name: where_traced(_minimiser(parameter)) for name, parameter in MINIMISERS.items()},
    brent=where_traced(_line_search),
    fminbound=where_traced(fminbound),
    golden=where_traced(_line_search),
    leastsq=where_traced(leastsq),
)
