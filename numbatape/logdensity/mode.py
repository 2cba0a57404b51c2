"""The mode of a log-density, by SciPy's optimisers, and its curvature there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

import numbatape as nt
from numbatape.integrations import scipy_problem
from numbatape.logdensity.exits import running_model
from numbatape.logdensity.matrix import Matrix

FEW = 500  # up to this many parameters, a trust region works with the whole Hessian; else with products
CLOSE = 1e-4  # At the mode, the next Newton step is at most this long, in standard errors.
SMALL = 1e-5  # the largest entry of the relative gradient at a mode, where the Hessian is not computed
FLAT_ERROR = 1e4  # a larger standard error, in multiples of theta, is no curvature at all


@dataclass(frozen=True)
class Mode:
    """Where a search ended.

    Attributes
    ----------
    theta, logp, gradient
        The point, the log-density there, and its gradient.
    hessian, covariance
        Second derivatives of the log-density, and the inverse of their negative; None where they were not
        asked for, and where there is no inverse because the point is no strict maximum.
    distance
        The length of the next Newton step, in standard errors; NaN without a covariance.
    iterations, message
        Of the optimisers.
    """

    theta: Matrix
    logp: float
    gradient: Matrix
    hessian: Matrix | None
    covariance: Matrix | None
    distance: float
    iterations: int
    message: str

    @property
    def flat(self) -> list[int]:
        """The entries of theta along which the log-density hardly bends: the maximum may be at infinity."""
        if self.covariance is None:
            return []
        errors = np.sqrt(np.diag(self.covariance))
        return [int(k) for k in np.flatnonzero(errors > FLAT_ERROR * np.maximum(1.0, np.abs(self.theta)))]

    @property
    def is_found(self) -> bool:
        """Whether this is a mode to the accuracy that matters."""
        if self.hessian is None:
            relative = np.abs(self.gradient) * np.maximum(1.0, np.abs(self.theta)) / max(1.0, abs(self.logp))
            return bool(np.max(relative, initial=0.0) <= SMALL)
        return self.covariance is not None and self.distance <= CLOSE and not self.flat


def find_mode(
    label: str,
    logp: Callable[..., Any],
    data: tuple[Any, ...],
    start: Matrix,
    method: str,
    with_hessian: bool,
) -> Mode:
    """Climb from a start to a mode: L-BFGS first, then Newton's method in a trust region."""

    def negative(theta: Any, *args: Any) -> Any:
        return -logp(theta, *args)

    negative.__wrapped__ = logp  # type: ignore[attr-defined]
    constants = tuple(nt.Constant(value, frozen=True) for value in data)
    curvature = "dense" if start.size <= FEW else "product"
    theta, iterations, message = start, 0, ""
    with running_model(f"{label}: optimising"), np.errstate(all="ignore"):
        problem = scipy_problem(negative, start, args=constants, hess=curvature)
        problem["fun"] = _tolerant(problem["fun"])
        hessian = {key: problem.pop(key) for key in ("hess", "hessp") if key in problem}

        if method != "trust":
            options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-9, "maxls": 50}
            found = minimize(**problem, method="L-BFGS-B", options=options)
            theta, iterations, message = found.x, int(found.nit), str(found.message)
        if method != "lbfgs":
            problem["x0"] = theta
            name = "trust-exact" if "hess" in hessian else "trust-krylov"
            scale = max(1.0, abs(float(problem["fun"](theta, *constants)[0])))
            options = {"maxiter": 1_000, "gtol": 1e-10 * scale}
            found = minimize(**problem, **hessian, method=name, options=options)
            theta, iterations, message = found.x, iterations + int(found.nit), str(found.message)
        value, gradient = problem["fun"](theta, *constants)
        matrix = nt.hessian(negative)(theta, *constants) if with_hessian else None
    covariance = None if matrix is None else _inverse(matrix)
    distance = np.nan if covariance is None else float(np.sqrt(max(gradient @ covariance @ gradient, 0.0)))
    return Mode(
        theta=theta,
        logp=-float(value),
        gradient=-gradient,
        hessian=None if matrix is None else -matrix,
        covariance=covariance,
        distance=distance,
        iterations=iterations,
        message=message,
    )


def _tolerant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is infinite where the model has no finite value: searches step back there."""

    def tolerant(theta: Matrix, *args: Any) -> tuple[float, Matrix]:
        try:
            value, gradient = function(theta, *args)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros(theta.size)
        if np.isfinite(value) and np.isfinite(gradient).all():
            return float(value), gradient
        return np.inf, np.zeros(theta.size)

    return tolerant


def _inverse(matrix: Matrix) -> Matrix | None:
    """Return the inverse of a positive definite matrix; None for others."""
    if not np.isfinite(matrix).all():
        return None
    try:
        factor = linalg.cho_factor(matrix, lower=True)
    except linalg.LinAlgError:
        return None
    return np.asarray(linalg.cho_solve(factor, np.eye(len(matrix))), dtype=np.float64)
