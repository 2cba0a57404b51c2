"""Hierarchical model: radon in the houses of Minnesota, with an intercept and a slope for each county.

919 measurements in 85 counties (Gelman and Hill, "Data Analysis Using Regression and Multilevel
Models"); `floor` is 1 for the ground floor and 0 for the basement. Counties with few houses borrow
from the others. The parameters are non-centred, so that a sampler has no funnel. Data: posteriordb
(Stan developers, BSD 3-Clause).

Shows: parameters with constraints, dimensions and labels; `to_nutpie`; and, for a check, maximum
likelihood with the counties' effects integrated out, as lme4 does it. The file is also a model for
the command line:

    numbatape sample examples/radon.py --out radon
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from numbatape import transforms
from numbatape.integrations import scipy_problem, to_nutpie

FILE = Path(__file__).with_name("radon_mn.json")
read = {name: np.array(value) for name, value in json.loads(FILE.read_text()).items()}
data = {
    "county": read["county_idx"] - 1,
    "floor": read["floor_measure"].astype(float),
    "log_radon": read["log_radon"],
}
counties = int(read["J"])

start = {
    "intercept": 1.0,
    "slope": 0.0,
    "noise": 1.0,  # standard deviations: of a house, and of the counties' intercepts and slopes
    "spread_intercept": 1.0,
    "spread_slope": 1.0,
    "raw_intercept": np.zeros(counties),
    "raw_slope": np.zeros(counties),
}
constraints = dict.fromkeys(["noise", "spread_intercept", "spread_slope"], transforms.positive)
dims = {"raw_intercept": ("county",), "raw_slope": ("county",)}
coords = {"county": np.arange(1, counties + 1)}


def normal(x, mean, deviation):
    """Return the log-density of independent normals, without constants."""
    return np.sum(-0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation))


def logp(p, data):
    intercept = p["intercept"] + p["spread_intercept"] * p["raw_intercept"]
    slope = p["slope"] + p["spread_slope"] * p["raw_slope"]
    mean = intercept[data["county"]] + data["floor"] * slope[data["county"]]
    total = normal(data["log_radon"], mean, p["noise"])
    total += normal(p["raw_intercept"], 0.0, 1.0) + normal(p["raw_slope"], 0.0, 1.0)
    for name in constraints:
        total += normal(p[name], 0.0, 1.0)
    return total + normal(p["intercept"], 0.0, 10.0) + normal(p["slope"], 0.0, 10.0)


def misfit(p, data):
    """Return the negative log-likelihood of the five parameters that are not a county's.

    Without the counties' effects the data have the covariance ``noise**2 * (identity + Z @ Z.T)``,
    where Z has two columns for each county. Its determinant and inverse are those of a small matrix
    (Woodbury).
    """
    noise, spread = np.exp(p["log_noise"]), np.exp(p["log_spread"])
    member = np.eye(counties)[data["county"]]
    Z = np.hstack([spread[0] * member, spread[1] * data["floor"][:, None] * member]) / noise
    residual = (data["log_radon"] - p["line"][0] - p["line"][1] * data["floor"]) / noise
    inner, projected = np.eye(2 * counties) + Z.T @ Z, Z.T @ residual
    quadratic = residual @ residual - projected @ np.linalg.solve(inner, projected)
    return 0.5 * (quadratic + np.linalg.slogdet(inner)[1]) + len(residual) * p["log_noise"]


def maximum_likelihood():
    """Return the estimates, under the names of the model."""
    problem = scipy_problem(
        misfit, {"line": np.zeros(2), "log_noise": 0.0, "log_spread": np.zeros(2)}, args=(data,)
    )
    p = problem.unflatten(minimize(**problem, method="BFGS", tol=1e-4).x)
    values = [*p["line"], np.exp(p["log_noise"]), *np.exp(p["log_spread"])]
    return dict(zip(["intercept", "slope", "noise", "spread_intercept", "spread_slope"], values, strict=True))


def main(draws=1000, chains=2):
    import nutpie  # the model needs it only here

    model = to_nutpie(logp, start, constraints, data={"data": data}, dims=dims, coords=coords)
    trace = nutpie.sample(model, draws=draws, chains=chains, seed=1, progress_bar=False)
    posterior = trace.posterior
    for name, estimate in maximum_likelihood().items():
        mean, deviation = float(posterior[name].mean()), float(posterior[name].std())
        print(
            f"{name:17s} {mean:6.3f} (standard deviation {deviation:.3f}), maximum likelihood {estimate:6.3f}"
        )
        assert abs(mean - estimate) < 2 * deviation
    print("divergences:", int(trace.sample_stats["diverging"].sum()))

    effect = (posterior["spread_intercept"] * posterior["raw_intercept"]).mean(("chain", "draw"))
    print(f"the county with most radon: number {int(effect.idxmax())}")


if __name__ == "__main__":
    main()
