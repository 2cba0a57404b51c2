"""Gaussian process regression: hyperparameters by their marginal likelihood, and predictions.

Data: a draw from a process with known hyperparameters, seen with noise. Half of the points are kept
for a test of the predictions.

Shows: Cholesky factors in a traced function, parameters as a dictionary, `scipy_problem`, standard
errors by `nt.hessian`, and `nt.grad` of a prediction: the slope of the curve that was found.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import numbatape as nt
from numbatape.integrations import scipy_problem

TRUTH = {"log_scale": np.log(0.3), "log_height": np.log(1.5), "log_noise": np.log(0.2)}


def kernel(p, a, b):
    """Return the covariances of the process between two sets of points: squared exponential."""
    distance = (a[:, None] - b[None, :]) / np.exp(p["log_scale"])
    return np.exp(2 * p["log_height"]) * np.exp(-0.5 * distance**2)


def noisy_kernel(p, x):
    return kernel(p, x, x) + np.exp(2 * p["log_noise"]) * np.eye(len(x))


def misfit(p, x, y):
    """Return the negative logarithm of the marginal likelihood."""
    factor = cho_factor(noisy_kernel(p, x), lower=True)
    log_det = 2 * np.sum(np.log(np.diag(factor[0])))
    return 0.5 * (y @ cho_solve(factor, y) + log_det + len(x) * np.log(2 * np.pi))


def predict(p, x, y, at):
    """Return mean and standard deviation of the process at other points."""
    factor, cross = cho_factor(noisy_kernel(p, x), lower=True), kernel(p, x, at)
    variance = np.exp(2 * p["log_height"]) - np.sum(cross * cho_solve(factor, cross), axis=0)
    return cross.T @ cho_solve(factor, y), np.sqrt(variance)


def main(n=300):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, size=n))
    curve = np.linalg.cholesky(kernel(TRUTH, x, x) + 1e-10 * np.eye(n)) @ rng.normal(size=n)
    y = curve + np.exp(TRUTH["log_noise"]) * rng.normal(size=n)
    seen, hidden = slice(0, None, 2), slice(1, None, 2)

    start = {"log_scale": 0.0, "log_height": 0.0, "log_noise": 0.0}
    problem = scipy_problem(misfit, start, args=(x[seen], y[seen]))
    found = minimize(**problem, method="L-BFGS-B")
    p = problem.unflatten(found.x)

    hessian = nt.hessian(lambda v: misfit(problem.unflatten(v), x[seen], y[seen]))(found.x)
    errors = problem.unflatten(np.sqrt(np.diag(np.linalg.inv(hessian))))
    for name, truth in TRUTH.items():
        print(f"{name:11s} {p[name]:7.3f} (standard error {errors[name]:.3f}), truth {truth:.3f}")
        assert abs(p[name] - truth) < 4 * errors[name]

    mean, deviation = predict(p, x[seen], y[seen], x[hidden])
    inside = np.mean(np.abs(curve[hidden] - mean) < 2 * deviation)
    print(f"{100 * inside:.0f} % of the hidden values are within 2 standard deviations (95 expected)")
    assert 0.85 < inside <= 1.0

    slope = nt.derivative(lambda t: predict(p, x[seen], y[seen], np.array([t]))[0][0])(5.0)
    step = predict(p, x[seen], y[seen], np.array([5.0 - 1e-5, 5.0 + 1e-5]))[0]
    print(f"slope of the predicted curve at 5: {slope:.4f}")
    np.testing.assert_allclose(slope, (step[1] - step[0]) / 2e-5, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
