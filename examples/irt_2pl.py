"""Item response, two-parameter logistic: 100 people answer 20 questions.

theta holds log sigma_theta, ability[0:J], log sigma_a, log a[0:I], mu_b, log sigma_b and b[0:I]:
question i has discrimination a[i] and difficulty b[i]. The log-density leaves constants out and
includes the log-Jacobian of the three scales. Data: posteriordb (Stan developers, BSD 3-Clause).
"""

import json
from pathlib import Path

import numpy as np

data = json.loads(Path(__file__).with_name("irt_2pl.json").read_text())
data["y"] = np.array(data["y"])

names = (
    ["log_sigma_theta"]
    + [f"ability[{j}]" for j in range(data["J"])]
    + ["log_sigma_a"]
    + [f"log_a[{i}]" for i in range(data["I"])]
    + ["mu_b", "log_sigma_b"]
    + [f"b[{i}]" for i in range(data["I"])]
)


def normal(x, mean, log_sigma):
    """Log-density of independent normals, without constants."""
    return -0.5 * np.sum(((x - mean) / np.exp(log_sigma)) ** 2) - x.size * log_sigma


def half_cauchy(log_sigma, scale):
    """Log-density of sigma ~ half-Cauchy(0, scale), on the logarithm."""
    return log_sigma - np.log1p((np.exp(log_sigma) / scale) ** 2)


def logp(theta, data):
    items, people, y = data["I"], data["J"], data["y"]
    log_sigma_theta, rest = theta[0], theta[1:]
    ability, rest = rest[:people], rest[people:]
    log_sigma_a, rest = rest[0], rest[1:]
    log_a, rest = rest[:items], rest[items:]
    mu_b, log_sigma_b, b = rest[0], rest[1], rest[2:]

    total = half_cauchy(log_sigma_theta, 2) + normal(ability, 0, log_sigma_theta)
    total += half_cauchy(log_sigma_a, 2) + normal(log_a, 0, log_sigma_a)
    total += half_cauchy(log_sigma_b, 2) + normal(b, mu_b, log_sigma_b) - 0.5 * (mu_b / 5) ** 2

    eta = np.exp(log_a)[:, None] * (ability[None, :] - b[:, None])
    return total + np.sum(y * eta - np.logaddexp(0, eta))
