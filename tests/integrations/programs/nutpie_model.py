"""Eight schools, sampled by nutpie."""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its new version
    import nutpie

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import to_nutpie

y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def logp(p, y):
    terms = np.zeros(3)
    terms[0] = -0.5 * (p["mu"] / 5) ** 2
    terms[1] = -np.log1p((p["tau"] / 5) ** 2) - 0.5 * np.sum(p["theta"] ** 2)
    terms[2] = -0.5 * np.sum(((y - p["mu"] - p["tau"] * p["theta"]) / error) ** 2)
    return np.sum(terms)


start = {"mu": 0.0, "tau": 1.0, "theta": np.zeros(8)}
options = {"dims": {"theta": ("school",)}, "coords": {"school": list("ABCDEFGH")}}
model = to_nutpie(logp, start, {"tau": transforms.positive}, data={"y": y}, **options)
sample = {"draws": 500, "tune": 500, "chains": 2, "seed": 1, "progress_bar": False}
first = nutpie.sample(model, cores=2, **sample).posterior
assert first["theta"].dims == ("chain", "draw", "school") and list(first["school"].values) == list("ABCDEFGH")
assert abs(float(first["mu"].mean()) - 4.4) < 1.0  # posteriordb's reference: 4.41
assert abs(float(first["tau"].mean()) - 3.6) < 1.0  # 3.6
assert float(first["tau"].min()) > 0.0

# Chains have memory of their own: the number of threads changes nothing.
again = nutpie.sample(model, cores=1, **sample).posterior
assert np.array_equal(first["theta"], again["theta"])

# Other data.
shifted = nutpie.sample(model.with_data(y=0.0 * y), **sample).posterior
assert abs(float(shifted["mu"].mean())) < 1.0

# Data in a container, as model files of the command line have them.
nested = to_nutpie(
    lambda p, data: logp(p, data["y"]),
    start,
    {"tau": transforms.positive},
    data={"data": {"y": y}},
    **options,
)
few = sample | {"draws": 20, "tune": 20}
numbers = to_nutpie(
    logp,
    start,
    {"tau": transforms.positive},
    data={"y": y},
    dims={"theta": ("school",)},
    coords={"school": list(range(1, 9))},
)
assert list(nutpie.sample(numbers, **few).posterior["school"].values) == list(range(1, 9))
assert np.array_equal(
    nutpie.sample(nested, **few).posterior["mu"], nutpie.sample(model, **few).posterior["mu"]
)

# A density of one array, made before; a dataclass is in tests/transforms.
density = transforms.unconstrained(lambda x: -0.5 * np.sum(x**2), np.zeros(2))
normal = nutpie.sample(to_nutpie(density), **sample).posterior
assert normal["x"].shape == (2, 500, 2) and abs(float(normal["x"].std()) - 1.0) < 0.15


# A factorisation that fails is a divergence, not the end.
def fragile(x):
    return np.log(np.linalg.cholesky(np.array([[1.5 - x[0], 0.0], [0.0, 1.0]]))[0, 0]) - x[0] ** 2


divergent = nutpie.sample(to_nutpie(fragile, np.zeros(1)), **sample)
assert float(divergent.posterior["x"].max()) < 1.5

with pytest.raises(nt.SpecError, match="the log-density at the starting point is nan"):
    to_nutpie(lambda x: np.sum(np.log(x)), -np.ones(2))
