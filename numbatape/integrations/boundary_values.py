"""``scipy.integrate.solve_bvp``: the collocation equations on the mesh that SciPy has found.

The mesh is data. On it, the values and the unknown parameters solve SciPy's own equations: a cubic spline
satisfies the differential equation at both ends and in the middle of each interval. Their derivatives follow
by the implicit function theorem, from a dense Jacobian: with a thousand unknowns it takes a second.
"""

from __future__ import annotations

import inspect
import sys

import numpy as np

from ..capture.opened import Opened
from ..numpy_api.function_tables import MAKERS
from ..numpy_api.stand_ins import made
from ..rules.searches import Search
from ..trace.primitives import sample_of
from ..usercode.users_line import UsersLine
from .implicit import Solution
from .ode import guarded, refuse
from .optimisers import as_array

NAME = "scipy.integrate.solve_bvp"


def _collocation(fun, mesh, y) -> tuple:
    """Return the equations' rest in each interval, and the slopes at the nodes."""
    steps = mesh[1:] - mesh[:-1]
    slopes = _rows(fun(mesh, y))
    middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * steps * (slopes[:, 1:] - slopes[:, :-1])
    between = _rows(fun(mesh[:-1] + 0.5 * steps, middle))
    rest = y[:, 1:] - y[:, :-1] - steps / 6.0 * (slopes[:, :-1] + slopes[:, 1:] + 4.0 * between)
    return rest, slopes


def _rows(value):
    return np.stack(value) if isinstance(value, (list, tuple)) else value


def _spline(mesh, y, slopes):
    """Return the cubic spline with some values and slopes at the nodes."""
    steps = mesh[1:] - mesh[:-1]
    across = (y[:, 1:] - y[:, :-1]) / steps
    bend = (slopes[:, :-1] + slopes[:, 1:] - 2.0 * across) / steps
    coefficients = [bend / steps, (across - slopes[:, :-1]) / steps - bend, slopes[:, :-1], y[:, :-1]]
    kind = sys.modules["scipy.interpolate"].PPoly
    return made("scipy.interpolate", "PPoly", kind)(np.stack(coefficients, 1), mesh, True, 1)


def solve_bvp(original, *args, **kwargs):
    """Return SciPy's result, in which ``sol``, ``y``, ``yp`` and ``p`` have derivatives."""
    import scipy.interpolate  # noqa: F401  (SciPy imports it for its own spline)

    signature, line = inspect.signature(original), UsersLine()
    opened = Opened(NAME, (args, kwargs))

    def call_of(p) -> dict:
        args, kwargs = opened.filled(p)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    traced = call_of(opened.found)
    if traced["S"] is not None or np.iscomplexobj(sample_of(as_array(traced["y"]))):
        raise refuse(f"{NAME} with a singular term (S=) or complex values", "write real equations without it")
    size = int(np.shape(sample_of(as_array(traced["y"])))[0])
    unknown = traced["p"] is not None

    def run(*p):
        found = line.call(original, **call_of(p))
        if not found.success:
            raise RuntimeError(f"{NAME} found no solution, so it has no derivative: {found.message}")
        return found

    search = Search(NAME, run, tuple(opened.found))
    nodes = int(search.numbers("number of nodes", lambda found: len(found.x)))
    mesh = search.numbers("mesh", lambda found: found.x)

    def taken_apart(z, p):
        """Return the values at the nodes, the unknown parameters, and the functions of the call."""
        y, parameters, call = np.reshape(z[: size * nodes], (size, nodes)), z[size * nodes :], call_of(p)
        more = (parameters,) if unknown else ()
        return y, parameters, (lambda x, y: call["fun"](x, y, *more)), (lambda a, b: call["bc"](a, b, *more))

    def residual(z, mesh, *p):
        y, _, fun, bc = taken_apart(z, p)
        rest, _ = _collocation(fun, mesh, y)
        return np.concatenate([np.reshape(rest, (-1,)), np.reshape(_rows(bc(y[:, 0], y[:, -1])), (-1,))])

    def solve(mesh, *p):
        found = search.found(*p)
        return np.concatenate([np.ravel(found.y), found.p if unknown else np.zeros(0)])

    z = Solution(NAME, residual, solve).of(mesh, *opened.found)
    y, parameters, fun, _ = taken_apart(z, opened.found)
    slopes = _rows(fun(mesh, y))
    return sys.modules["scipy.optimize"].OptimizeResult(
        sol=_spline(mesh, y, slopes),
        p=parameters if unknown else None,
        x=mesh,
        y=y,
        yp=slopes,
        status=0,
        success=True,
        message="The algorithm converged to the desired accuracy.",
    )


MAKERS.setdefault("scipy.integrate", {})["solve_bvp"] = guarded(solve_bvp)
