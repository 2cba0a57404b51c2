"""Logistic regression: did cold weather damage the space shuttle's O-rings?

Maximum likelihood by Newton's method in a trust region, with the exact Hessian, which also gives
the standard errors. Data: temperature at launch (degrees Fahrenheit) and whether an O-ring was
damaged, for the 23 flights before the Challenger's last one (Dalal, Fowlkes and Hoadley 1989). R's
``glm`` is the reference.

Shows: `scipy_problem(..., hess="dense")`, `nt.hessian`, the delta method by `nt.grad`.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import numbatape as nt
from numbatape.integrations import scipy_problem

TEMPERATURE = np.array(
    [66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58], float
)
DAMAGED = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1], float)
R_COEFFICIENTS, R_ERRORS, R_DEVIANCE = [15.0429, -0.2322], [7.3786, 0.1082], 20.315


def misfit(beta, X, y):
    """Return the negative log-likelihood."""
    eta = X @ beta
    return np.sum(np.logaddexp(0.0, eta) - y * eta)


def main():
    X = np.column_stack([np.ones_like(TEMPERATURE), TEMPERATURE])
    problem = scipy_problem(misfit, np.zeros(2), args=(X, DAMAGED), hess="dense")
    fit = minimize(**problem, method="trust-exact", tol=1e-8)

    covariance = np.linalg.inv(nt.hessian(misfit)(fit.x, X, DAMAGED))
    errors = np.sqrt(np.diag(covariance))
    for name, estimate, error in zip(["intercept", "temperature"], fit.x, errors, strict=True):
        print(f"{name:12s} {estimate:9.4f}  (standard error {error:.4f})")
    np.testing.assert_allclose(fit.x, R_COEFFICIENTS, atol=1e-4)
    np.testing.assert_allclose(errors, R_ERRORS, atol=1e-4)
    np.testing.assert_allclose(2 * fit.fun, R_DEVIANCE, atol=1e-3)

    # The Challenger started at 31 degrees. The delta method needs the gradient of the prediction.
    for degrees in (70.0, 31.0):
        chance, slope = nt.value_and_grad(lambda beta, t: expit(beta[0] + beta[1] * t))(fit.x, degrees)
        error = np.sqrt(slope @ covariance @ slope)
        print(f"damage at {degrees:.0f} F: {chance:.4f} (standard error {error:.4f})")


if __name__ == "__main__":
    main()
