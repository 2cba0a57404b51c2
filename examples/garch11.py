"""GARCH(1,1): a series whose variance depends on its last value and its last variance.

theta holds mu, log alpha0, logit alpha1 and logit(beta1 / (1 - alpha1)). The log-density leaves
constants out and includes the log-Jacobian of the transforms. Data: posteriordb (Stan developers,
BSD 3-Clause).

`numbatape logp`, `sample` and `optimize` take this file as a model. As a script it finds the mode,
and forecasts the next deviation. Shows: Python's own loop over a series, `scipy_problem(...,
hess="dense")`, the delta method by `nt.grad`, `nt.vmap` over draws.
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

import numbatape as nt
from numbatape.integrations import scipy_problem

data = json.loads(Path(__file__).with_name("garch11.json").read_text())
data["y"] = np.array(data["y"])

names = ["mu", "log_alpha0", "logit_alpha1", "logit_p"]
# Of the posterior, by 8 000 draws of nutpie.
MEANS = {"mu": 5.05, "alpha0": 1.47, "alpha1": 0.567, "beta1": 0.293}
start = np.array([5.0, 0.0, 0.0, 0.0])


def constrain(theta, data):
    """Return the model's parameters by name."""
    alpha1 = expit(theta[2])
    return {
        "mu": theta[0],
        "alpha0": np.exp(theta[1]),
        "alpha1": alpha1,
        "beta1": expit(theta[3]) * (1 - alpha1),
    }


def logp(theta, data):
    y, s = data["y"], data["sigma1"]
    mu, alpha0, alpha1, p = theta[0], np.exp(theta[1]), expit(theta[2]), expit(theta[3])
    beta1 = p * (1 - alpha1)
    total = theta[1] + np.log(alpha1) + 2 * np.log(1 - alpha1) + np.log(p) + np.log(1 - p)
    total += -0.5 * ((y[0] - mu) / s) ** 2
    for t in range(1, data["T"]):
        s = np.sqrt(alpha0 + alpha1 * (y[t - 1] - mu) ** 2 + beta1 * s**2)
        total += -0.5 * ((y[t] - mu) / s) ** 2 - np.log(s)
    return total


def unconstrain(draw, data):
    alpha1 = draw["alpha1"]
    p = draw["beta1"] / (1 - alpha1)
    return np.array([draw["mu"], np.log(draw["alpha0"]), logit(alpha1), logit(p)])


def forecast(theta):
    """Return the standard deviation of the value after the last one."""
    p, variance = constrain(theta, data), data["sigma1"] ** 2
    for y in data["y"]:
        variance = p["alpha0"] + p["alpha1"] * (y - p["mu"]) ** 2 + p["beta1"] * variance
    return np.sqrt(variance)


def main(draws=2000):
    problem = scipy_problem(lambda theta: -logp(theta, data), start, hess="dense")
    mode = minimize(**problem, method="trust-exact", tol=1e-8).x
    covariance = np.linalg.inv(problem["hess"](mode))
    for name, value in constrain(mode, data).items():
        print(f"{name:6s} {value:.4f}")
    assert np.all(np.abs(mode - unconstrain(MEANS, data)) < 0.3)

    deviation, slope = nt.value_and_grad(forecast)(mode)
    error = np.sqrt(slope @ covariance @ slope)
    near = np.random.default_rng(0).multivariate_normal(mode, 0.01 * covariance, size=draws)
    spread = 10 * np.std(
        nt.vmap(forecast)(near)
    )  # a tenth of the posterior's width, where lines are straight
    print(f"next deviation: {deviation:.3f}, standard error {error:.3f} (by {draws} draws: {spread:.3f})")
    np.testing.assert_allclose(error, spread, rtol=4 / np.sqrt(draws) + 0.02)


if __name__ == "__main__":
    main()
