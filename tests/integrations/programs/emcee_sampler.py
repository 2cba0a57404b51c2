"""A line with noise of unknown size, sampled by emcee."""

import emcee
import numpy as np
import pytest

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import to_emcee

rng = np.random.default_rng(0)
x = np.linspace(0.0, 10.0, 50)
y = 1.0 + 2.0 * x + 0.5 * rng.normal(size=50)


def logp(p, x, y):
    return np.sum(-0.5 * ((y - p["a"] - p["b"] * x) / p["sigma"]) ** 2 - np.log(p["sigma"]))


start = {"a": 1.0, "b": 2.0, "sigma": 1.0}
walkers = to_emcee(logp, start, {"sigma": transforms.positive}, data={"x": x, "y": y})
sampler = emcee.EnsembleSampler(16, **walkers)
sampler.random_state = np.random.RandomState(0).get_state()
sampler.run_mcmc(walkers.initial(16, seed=0), 800)
draws = walkers.density.constrain(sampler.get_chain(discard=400, flat=True))
assert abs(np.mean(draws["b"]) - 2.0) < 0.1 and abs(np.mean(draws["sigma"]) - 0.5) < 0.1
assert draws["a"].shape == (6400,) and draws["sigma"].min() > 0.0

# All walkers at once, and each alone, are the density.
points = walkers.initial(16, seed=1)
values = walkers["log_prob_fn"](points)
alone = [float(walkers.density(point, x=x, y=y)) for point in points]
assert np.allclose(values, alone, rtol=1e-12)

# A start at which the density is not finite is refused, with the term.
with pytest.raises(
    nt.SpecError, match=r"nan; emcee needs .*log is nan, at .*emcee_sampler.py(.|\n)*sigma = -1"
):
    to_emcee(logp, {**start, "sigma": -1.0}, data={"x": x, "y": y})
