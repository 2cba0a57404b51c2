"""``scipy.optimize`` inside of traced functions: what a solver finds, by the equation that it solves.

A root makes the function zero, a minimum makes its gradient zero, except for variables at a bound. SciPy
solves with plain numbers; `numbatape.solvers.implicit` differentiates.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np
import scipy.optimize

from ..numpy_api.function_tables import MAKERS
from ..stand_ins.opened import Opened
from ..trace.primitives import sample_of
from ..usercode.frames import UsersLine, not_supported
from ..verbs.first_order import grad
from ..verbs.jacobians import value_and_jacobian
from .constraints import stationarity
from .implicit import Solution, at_bounds, shape_of
from .solver_calls import as_array, result_of, where_traced

# How far from a constrained minimum a solver may end. SLSQP ends where a step changes the value by less than
# 1e-6: for the half of a sum of squares, this is 1.4e-3 from the minimum.
NEAR = 1e-2
XTOL = 1e-5  # SciPy's tolerance for minima between bounds
LEFT = 1e-6  # how far from zero a function may be at a root that `fsolve` cannot improve, because of rounding
# Methods of `minimize` whose flag 2 says that rounding ended the search, which then has found the minimum. Of
# other methods (Nelder-Mead, Powell), it says that the iterations were not enough.
ENDED_BY_ROUNDING = frozenset(
    ("bfgs", "cg", "dogleg", "l-bfgs-b", "newton-cg", "trust-exact", "trust-krylov", "trust-ncg")
)


class Solve:
    """A call of a solver with traced values among its arguments, or in the functions that it gets.

    Parameters
    ----------
    original : callable
        SciPy's solver.
    args, kwargs
        Of the call.
    """

    def __init__(self, original: Callable, args: tuple, kwargs: dict):
        self.name = f"scipy.optimize.{original.__name__}"
        self._original, self._line = original, UsersLine()
        self._opened = Opened(self.name, (args, kwargs))
        self._signature = inspect.signature(original)
        self.traced = self.call_of(self._opened.found)

    def call_of(self, p) -> dict:
        """Return the call's arguments by name, with some values in the places of the traced ones."""
        args, kwargs = self._opened.filled(p)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def refuse(self, *options: str) -> None:
        """Raise if an option was given that has no derivative here."""
        for option in options:
            given = self.traced.get(option)
            if given is not None and not (isinstance(given, (bool, int, tuple)) and not given):
                raise not_supported(
                    f"{self.name}({option}=...) of traced values",
                    f"leave {option} out, or write the equation that the solution satisfies as a rule "
                    "(docs/rules.md, 'Implicit functions')",
                )

    def solution(self, function: str, residual: Callable, taken: Callable, check: bool = False):
        """Return what the solver finds, on the tape.

        Parameters
        ----------
        function
            The name of the solver's parameter that is the function.
        residual
            ``residual(f, y, call)`` → zero at the solution, where ``f(y)`` is the function with its extra
            arguments and ``call`` the arguments of the call.
        taken
            Takes the array out of what SciPy returns.
        check
            Whether to make sure that what SciPy returns is near a solution.

        Raises
        ------
        RuntimeError
            If it is not, in a call of the solver.
        """

        def equation(y, *p):
            call = self.call_of(p)
            options = call.get("kwargs") or {}
            return residual(lambda y: call[function](y, *extra_of(call), **options), y, call)

        def solve(*p):
            args, kwargs = self._opened.filled(p)
            found = np.asarray(taken(self._line.call(self._original, *args, **kwargs)), float)[()]
            if check and not (distance := made.distance(found, *p)) <= NEAR:
                raise RuntimeError(
                    f"{self.name} ended some {distance:.1g} from where the conditions of a solution hold, so "
                    "it has no derivative: give a smaller tol="
                )
            return found

        made = Solution(self.name, equation, solve, any_size=True)
        return made.of(*self._opened.found)


def _of_zero(parameter: str, refused: tuple, result: Callable = lambda x: x, taken: Callable = lambda x: x):
    """Return the implementation for a solver of ``f(x) = 0``.

    Parameters
    ----------
    parameter
        The name of its parameter that is the function.
    refused
        Options that are not supported.
    result
        Makes the solver's result of the solution.
    taken
        Takes the solution out of the solver's result.
    """

    def implementation(original, *args, **kwargs):
        solve = Solve(original, args, kwargs)
        solve.refuse(*refused)
        with_slope = any(solve.traced.get(name) is True for name in ("jac", "fprime"))

        def residual(f, y, call):
            value = f(y)
            value = value[0] if with_slope else value
            return np.reshape(as_array(value), shape_of(y))

        # SciPy raises where it has found no root, unless it is told not to.
        return result(solve.solution(parameter, residual, taken, check=solve.traced.get("disp") is False))

    return implementation


def fixed_point(original, *args, **kwargs):
    solve = Solve(original, args, kwargs)
    return solve.solution(
        "func", lambda f, y, call: np.reshape(as_array(f(y)), shape_of(y)) - y, lambda found: found
    )


def _root_result(x):
    made = scipy.optimize.RootResults(np.nan, 0, 0, 0, None)
    made.root, made.converged, made.flag = x, True, "converged"
    return made


def _taken(found):
    """Return the solution in a result of SciPy's; raise if there is none, as it has no derivative."""
    if not found.success:
        raise RuntimeError(f"no solution was found, so it has no derivative: {found.message}")
    return found.x


def _taken_root(found):
    if not found.converged:
        raise RuntimeError(f"no root was found, so it has no derivative: {found.flag}")
    return found.root


def _objective(f: Callable, call: dict) -> Callable:
    """Return the function that is minimised, without the gradient that it may return beside its value."""
    with_slope = call.get("jac") is True
    return lambda y: np.reshape(f(y)[0] if with_slope else f(y), ())


def minimize(original, *args, **kwargs):
    solve = Solve(original, args, kwargs)
    solve.refuse("callback")

    def residual(f, y, call):
        slope, constraints = grad(_objective(f, call))(y), call["constraints"]
        if not _given(constraints):
            return at_bounds(slope, y, *ends_of(call["bounds"]))
        return stationarity(slope, y, constraints, ends_of(call["bounds"]))

    call = solve.traced
    x = solve.solution("fun", residual, _taker_of_minimum(call), _given(call["constraints"]))
    return result_of(x, fun=_objective(lambda y: call["fun"](y, *extra_of(call)), call)(x))


def _taker_of_minimum(call: dict) -> Callable:
    """Return what takes the minimum out of SciPy's result, and raises if there is none."""
    method = call["method"]
    if method is None:  # SciPy chooses BFGS or L-BFGS-B then, and SLSQP under constraints
        by_line_search = not _given(call["constraints"])
    else:
        by_line_search = str(method).lower() in ENDED_BY_ROUNDING

    def taken(found):
        if not found.success and not (by_line_search and found.status == 2):
            raise RuntimeError(f"no minimum was found, so it has no derivative: {found.message}")
        return np.atleast_1d(found.x)

    return taken


def with_flags(original: Callable) -> Callable:
    """Return a solver that always returns SciPy's flag, which says whether it has found a solution."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def solver(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.arguments["full_output"] = True
        return original(*bound.args, **bound.kwargs)

    return solver


def fsolve(original, *args, **kwargs):
    """Return the root; SciPy itself only warns if it has found none."""

    def taken(found):
        x, more, flag, message = found
        if flag != 1 and not np.max(np.abs(more["fvec"]), initial=0.0) <= LEFT:
            raise RuntimeError(f"no root was found, so it has no derivative: {message}")
        return x

    return _of_zero("func", ("full_output",), taken=taken)(with_flags(original), *args, **kwargs)


def _given(constraints) -> bool:
    return not (isinstance(constraints, (tuple, list)) and not constraints)


def ends_of(bounds) -> tuple:
    """Return the lower and the upper bounds of a solver's call; infinite ones where there are none."""
    if bounds is None:
        return -np.inf, np.inf
    if hasattr(bounds, "lb"):
        return bounds.lb, bounds.ub
    if isinstance(bounds, tuple) and len(bounds) == 2 and np.ndim(sample_of(bounds[0])) == 0:
        return bounds
    low = np.stack([-np.inf if bound[0] is None else bound[0] for bound in bounds])
    high = np.stack([np.inf if bound[1] is None else bound[1] for bound in bounds])
    return low, high


def curve_fit(original, *args, **kwargs):
    """Fit by SciPy, and differentiate the parameters as the minimum of the squared residuals."""
    solve = Solve(original, args, kwargs)
    solve.refuse("full_output")

    def misfit(y, call):
        """Return the residuals in units of sigma."""
        distance = np.ravel(
            call["f"](as_array(call["xdata"]), *(y[k] for k in range(len(y)))) - as_array(call["ydata"])
        )
        sigma = call["sigma"]
        if sigma is None:
            return distance
        sigma = as_array(sigma)
        if np.ndim(sample_of(sigma)) < 2:
            return distance / sigma
        return np.linalg.solve(np.linalg.cholesky(sigma), distance)

    def residual(f, y, call):
        slope = grad(lambda y: 0.5 * np.sum(misfit(y, call) ** 2))(y)
        return at_bounds(slope, y, *ends_of(_pairs(call["bounds"])))

    x = solve.solution("f", residual, lambda found: found[0])
    call = solve.traced
    rows, slopes = value_and_jacobian(lambda y: misfit(y, call))(x)
    covariance = np.linalg.inv(slopes.T @ slopes)
    if not call["absolute_sigma"]:
        covariance = covariance * (np.sum(rows**2) / (len(rows) - len(x)))
    return x, covariance


def _pairs(bounds):
    """Return bounds of `curve_fit` or `least_squares`, (all lower ones, all upper ones), as an object."""
    if hasattr(bounds, "lb"):
        return bounds
    low, high = bounds
    return scipy.optimize.Bounds(as_array(low), as_array(high))


def least_squares(original, *args, **kwargs):
    solve = Solve(original, args, kwargs)
    solve.refuse("callback")
    if solve.traced["loss"] != "linear":
        solve.refuse("loss")

    def residual(f, y, call):
        slope = grad(lambda y: 0.5 * np.sum(as_array(f(y)) ** 2))(y)
        return at_bounds(slope, y, *ends_of(call["bounds"]))

    x = solve.solution("fun", residual, _taken)
    call = solve.traced
    fun = as_array(call["fun"](x, *extra_of(call), **(call["kwargs"] or {})))
    return result_of(x, fun=fun, cost=0.5 * np.sum(fun**2))


def minimize_scalar(original, *args, **kwargs):
    solve = Solve(original, args, kwargs)

    def residual(f, y, call):
        slope = slope_of(f, y)
        if call["bounds"] is None:
            return slope
        tolerance = (call["options"] or {}).get("xatol", call["tol"])
        return at_ends(slope, y, *call["bounds"], XTOL if tolerance is None else tolerance)

    x = solve.solution("fun", residual, _taken)
    call = solve.traced
    return result_of(x, fun=call["fun"](x, *extra_of(call)))


def slope_of(f: Callable, y):
    """Return the gradient of a function that is minimised; it may return an array of one entry."""
    return grad(lambda y: np.reshape(f(y), ()))(y)


def at_ends(slope, y, low, high, tolerance):
    """Return the slope; where the search has ended at a bound, the distance from that.

    SciPy's search between bounds ends before the bound: by two thirds of its tolerance and of a share of y.
    """
    near = tolerance + 3.0 * np.sqrt(np.finfo(float).eps) * np.abs(y)
    at_high = np.where((high - y <= near) & (slope < 0.0), y - high, slope)
    return np.where((y - low <= near) & (slope > 0.0), y - low, at_high)


def extra_of(call: dict) -> tuple:
    """Return the further arguments of the function in a call."""
    extra = call.get("args", ())
    return extra if isinstance(extra, tuple) else (extra,)


_BRACKETED = ("bisect", "brenth", "brentq", "ridder", "toms748")
for _name, _implementation in {
    **{name: _of_zero("f", ("full_output",)) for name in _BRACKETED},
    "newton": _of_zero("func", ("full_output",)),
    "fsolve": fsolve,
    "root_scalar": _of_zero("f", (), _root_result, _taken_root),
    "root": _of_zero("fun", ("callback",), result_of, _taken),
    "curve_fit": curve_fit,
    "fixed_point": fixed_point,
    "least_squares": least_squares,
    "minimize": minimize,
    "minimize_scalar": minimize_scalar,
}.items():
    MAKERS["scipy.optimize"][_name] = where_traced(_implementation)
