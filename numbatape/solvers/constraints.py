"""The equation that a minimum under constraints satisfies.

At a minimum the slope g of the function is a combination of the slopes J of the active constraints,
``g = J^T lambda``, and these constraints c are zero. Multipliers are eliminated: with lambda as the least
squares solution of the first, ``g - J^T lambda + J^T c`` is zero at the minimum, and its Jacobian there is
regular if the minimum is strict and the active constraints are independent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..trace.primitives import sample_of
from ..verbs.jacobians import value_and_jacobian
from .solver_calls import as_array

ACTIVE = 1e-5  # a constraint is active if it holds with less room than this, relative to its scale


def stationarity(slope, y, constraints, bounds: tuple):
    """Return what is zero at a minimum.

    Parameters
    ----------
    slope : array
        The gradient of the function at y.
    y : array
        Where the conditions are evaluated.
    constraints
        As SciPy's `minimize` takes them.
    bounds : (low, high)
        Of the variables, which may be infinite.
    """
    parts = [_conditions(one, y) for one in _listed(constraints)]
    eye, ones = np.eye(len(slope)), np.ones(len(slope))
    for room, sign in ((y - bounds[0], 1.0), (bounds[1] - y, -1.0)):
        if not np.all(np.isinf(sample_of(room))):
            parts.append((np.where(np.isinf(room), 0.0, room), sign * eye, _is_active(room, ones)))
    values = np.concatenate([value for value, _, _ in parts])
    slopes = np.concatenate([slopes for _, slopes, _ in parts])
    active = np.concatenate([active for _, _, active in parts])
    slopes = slopes * active[:, None]
    multipliers = np.linalg.solve(slopes @ slopes.T + np.diag(1.0 - active), slopes @ slope)
    return slope - slopes.T @ (multipliers - values)


def _listed(constraints) -> list:
    return list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]


def _conditions(constraint, y) -> tuple:
    """Return the values of a constraint, their Jacobian, and 1 where it is active (0 where it is not)."""
    if isinstance(constraint, dict):
        extra = constraint.get("args", ())
        extra = extra if isinstance(extra, tuple) else (extra,)
        values, slopes = value_and_jacobian(_vector_of(lambda y: constraint["fun"](y, *extra)))(y)
        ones = np.ones(len(values))
        return values, slopes, ones if constraint["type"] == "eq" else _is_active(values, ones)
    function = constraint.fun if hasattr(constraint, "fun") else lambda y: constraint.A @ y
    values, slopes = value_and_jacobian(_vector_of(function))(y)
    ones = np.ones(len(values))
    low, high = ones * constraint.lb, ones * constraint.ub
    at_low, at_high = _is_active(values - low, ones), _is_active(high - values, ones)
    room = np.where(at_low > 0.0, values - np.where(np.isinf(low), 0.0, low), 0.0)
    room = np.where((at_high > 0.0) & (at_low == 0.0), values - np.where(np.isinf(high), 0.0, high), room)
    return room, slopes, np.maximum(at_low, at_high)


def _vector_of(function: Callable) -> Callable:
    def vector(y):
        return np.reshape(as_array(function(y)), (-1,))

    return vector


def _is_active(room, ones):
    """Return 1 where there is no room left, else 0."""
    return np.where(room <= ACTIVE, ones, 0.0)
