"""GARCH(1,1): a series whose variance depends on its last value and its last variance.

theta holds mu, log alpha0, logit alpha1 and logit(beta1 / (1 - alpha1)). The log-density leaves
constants out and includes the log-Jacobian of the transforms.
Data: posteriordb (Stan developers, BSD 3-Clause).
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

data = json.loads(Path(__file__).with_name("garch11.json").read_text())
data["y"] = np.array(data["y"])

names = ["mu", "log_alpha0", "logit_alpha1", "logit_p"]


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
