"""``scipy.integrate.solve_bvp``: the collocation equations on the mesh that SciPy has found.

The mesh is data. On it, the values and the unknown parameters solve SciPy's own equations: a cubic spline
satisfies the differential equation at both ends and in the middle of each interval. Their derivatives follow
by the implicit function theorem. The Jacobian is sparse: an interval's equations depend on its two nodes.
"""

from __future__ import annotations

import inspect

import numpy as np
import scipy.interpolate
import scipy.optimize

from ..numpy_api.function_tables import MAKERS
from ..numpy_api.stand_ins import made
from ..rules.searches import Search
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace
from ..trace.primitives import sample_of
from ..usercode.frames import UsersLine
from ..verbs.directions import jvp
from .implicit import Solution
from .solver_calls import as_array, refuse, where_traced
from .sparse_solve import System

NAME = "scipy.integrate.solve_bvp"
GROUPS = 3  # of nodes that are moved together: the even ones, the odd ones, and the last one


def _collocation(fun, mesh, y) -> tuple:
    """Return the equations' rest in each interval, and the slopes at the nodes."""
    steps = mesh[1:] - mesh[:-1]
    slopes = as_array(fun(mesh, y))
    middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * steps * (slopes[:, 1:] - slopes[:, :-1])
    between = as_array(fun(mesh[:-1] + 0.5 * steps, middle))
    rest = y[:, 1:] - y[:, :-1] - steps / 6.0 * (slopes[:, :-1] + slopes[:, 1:] + 4.0 * between)
    return rest, slopes


class _Collocated(Solution):
    """The values at the nodes, as a rule; systems with their Jacobian are solved by its sparse factors.

    Parameters
    ----------
    residual, solve
        As of any `Solution`.
    size, nodes, unknown : int
        How many functions, nodes and unknown parameters there are.
    """

    def __init__(self, residual, solve, size: int, nodes: int, unknown: int):
        super().__init__(NAME, residual, solve)
        every, total = np.arange(size), size * nodes + unknown
        # Nodes of one group are moved together. No equation depends on two of them: neighbours differ, and
        # so do the first and the last node, between which there are the boundary conditions.
        group = np.arange(nodes) % 2
        group[-1] = GROUPS - 1
        self._directions = np.zeros((GROUPS * size + unknown, total))
        for node, its in enumerate(group):
            self._directions[its * size + every, every * nodes + node] = 1.0
        self._directions[GROUPS * size + np.arange(unknown), size * nodes + np.arange(unknown)] = 1.0
        intervals, equation, other = np.indices((nodes - 1, size, size)).reshape(3, -1)
        parts = [
            (equation * (nodes - 1) + intervals, other * nodes + node, group[node] * size + other)
            for node in (intervals, intervals + 1)
        ]
        first = size * (nodes - 1)
        condition, other = np.indices((size + unknown, size)).reshape(2, -1)
        parts += [(first + condition, other * nodes + k, group[k] * size + other) for k in (0, nodes - 1)]
        row, which = np.indices((total, unknown)).reshape(2, -1)
        parts.append((row, size * nodes + which, GROUPS * size + which))
        rows, cols, lanes = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._place = lanes, rows
        self._system = System(rows, cols, (total, total), "COLAMD")

    def _entries(self, y, p):
        """Return the entries of the Jacobian, by derivatives along few directions."""
        if find_trace((y, *p)) is None:
            moved = self.kept.push((y, *p), (self._directions, *(None for _ in p)), len(self._directions))[1]
        else:
            moved = np.stack(
                [jvp(lambda y: self._residual(y, *p), (y,), (way,))[1] for way in self._directions]
            )
        return moved[self._place]

    def _solved(self, rate, y, p):
        return self._system.solve(self._entries(y, p), rate)

    def _solved_transposed(self, ybar, y, p):
        return self._system.transposed.solve(self._entries(y, p), ybar)


def _spline(mesh, y, slopes):
    """Return the cubic spline with some values and slopes at the nodes."""
    steps = mesh[1:] - mesh[:-1]
    across = (y[:, 1:] - y[:, :-1]) / steps
    bend = (slopes[:, :-1] + slopes[:, 1:] - 2.0 * across) / steps
    coefficients = [bend / steps, (across - slopes[:, :-1]) / steps - bend, slopes[:, :-1], y[:, :-1]]
    kind = scipy.interpolate.PPoly
    return made("scipy.interpolate", "PPoly", kind)(np.stack(coefficients, 1), mesh, True, 1)


def solve_bvp(original, *args, **kwargs):
    """Return SciPy's result, in which ``sol``, ``y``, ``yp`` and ``p`` have derivatives."""
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
    unknown = 0 if traced["p"] is None else int(np.size(sample_of(as_array(traced["p"]))))

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
        more = () if call["p"] is None else (parameters,)
        return y, parameters, (lambda x, y: call["fun"](x, y, *more)), (lambda a, b: call["bc"](a, b, *more))

    def residual(z, mesh, *p):
        y, _, fun, bc = taken_apart(z, p)
        rest, _ = _collocation(fun, mesh, y)
        return np.concatenate([np.reshape(rest, (-1,)), np.reshape(as_array(bc(y[:, 0], y[:, -1])), (-1,))])

    def solve(mesh, *p):
        found = search.found(*p)
        return np.concatenate([np.ravel(found.y), np.zeros(0) if found.p is None else found.p])

    z = _Collocated(residual, solve, size, nodes, unknown).of(mesh, *opened.found)
    y, parameters, fun, _ = taken_apart(z, opened.found)
    slopes = as_array(fun(mesh, y))
    return scipy.optimize.OptimizeResult(
        sol=_spline(mesh, y, slopes),
        p=None if traced["p"] is None else parameters,
        x=mesh,
        y=y,
        yp=slopes,
        status=0,
        success=True,
        message="The algorithm converged to the desired accuracy.",
    )


MAKERS["scipy.integrate"]["solve_bvp"] = where_traced(solve_bvp)
