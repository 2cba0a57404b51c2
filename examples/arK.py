"""Autoregression of order K on a series of 200 values, with the loops of the textbook.

theta holds alpha, beta[0:K] and log sigma. The log-density leaves constants out and includes the
log-Jacobian of sigma = exp(log sigma). Data: posteriordb (Stan developers, BSD 3-Clause).
"""

import json
from pathlib import Path

import numpy as np

data = json.loads(Path(__file__).with_name("arK.json").read_text())
data["y"] = np.array(data["y"])

names = ["alpha"] + [f"beta[{k}]" for k in range(data["K"])] + ["log_sigma"]


def logp(theta, data):
    K, T, y = data["K"], data["T"], data["y"]
    alpha, beta, log_sigma = theta[0], theta[1 : K + 1], theta[K + 1]
    sigma = np.exp(log_sigma)
    total = -0.5 * (alpha / 10) ** 2 - 0.5 * np.sum((beta / 10) ** 2)
    total += log_sigma - np.log1p((sigma / 2.5) ** 2)
    for t in range(K, T):
        mean = alpha
        for k in range(K):
            mean += beta[k] * y[t - k - 1]
        total += -0.5 * ((y[t] - mean) / sigma) ** 2 - log_sigma
    return total


def unconstrain(draw, data):
    beta = [draw[f"beta[{k}]"] for k in range(1, data["K"] + 1)]
    return np.array([draw["alpha"], *beta, np.log(draw["sigma"])])
