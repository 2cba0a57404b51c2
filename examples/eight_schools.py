"""Eight schools (Rubin 1981), non-centred: how much does coaching help, school by school?

theta holds t[0:8], mu and log tau; the effect of school j is ``mu + tau * t[j]``. The log-density
leaves constants out and includes the log-Jacobian of tau = exp(log tau).
Data and reference draws: posteriordb (Stan developers, BSD 3-Clause).
"""

import json
from pathlib import Path

import numpy as np

data = json.loads(Path(__file__).with_name("eight_schools.json").read_text())
data["y"] = np.array(data["y"])
data["sigma"] = np.array(data["sigma"])

names = [f"t[{j}]" for j in range(8)] + ["mu", "log_tau"]


def logp(theta, data):
    t, mu, log_tau = theta[:8], theta[8], theta[9]
    tau = np.exp(log_tau)
    effect = mu + tau * t
    z = (data["y"] - effect) / data["sigma"]
    prior = -0.5 * np.sum(t**2) - 0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2)
    return prior - 0.5 * np.sum(z**2) + log_tau


def unconstrain(draw, data):
    """One draw of theta[1..8] (the schools' effects), mu and tau."""
    mu, tau = draw["mu"], draw["tau"]
    t = [(draw[f"theta[{j}]"] - mu) / tau for j in range(1, 9)]
    return np.array([*t, mu, np.log(tau)])
