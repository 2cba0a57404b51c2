"""Eight schools, sampled by nutpie, and models that leave the compiled path."""

import signal
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its new version
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import to_nutpie
from numbatape.integrations.nutpie_model import jitter

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
shifted = nutpie.sample(model.with_data(y=list(0.0 * y)), **sample).posterior
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


# The draws are those of a function in Python: here the gradient of a cache, and NumPy's own arithmetic.
def sampled_by_python(density, data):
    cache = nt.prepare_gradient_cache(lambda x: density(x, **data), density.start)

    def logp_and_gradient(x):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        return value, gradient

    def expand(x):
        return {name: np.asarray(leaf, float) for name, leaf in density.by_path(density.constrain(x)).items()}

    shapes = list(density.shapes.values())
    initial = lambda seed: density.start + jitter(seed, density.size)  # noqa: E731
    return from_pyfunc(
        density.size, lambda: logp_and_gradient, lambda *_: expand, [np.dtype(float)] * len(shapes), shapes,
        list(density.shapes), make_initial_point_fn=initial,
    )  # fmt: skip


# Two cores take turns at branches that neither of them has seen, and one branch has no derivative at all.
def branches(x):
    if x[0] > 2.0:
        return -np.inf
    total = 0.0
    for k in range(3):
        total = total - (x[k] ** 2 if x[k] > 0 else 0.5 * x[k] ** 2)
    return total


branching = transforms.unconstrained(branches, np.full(3, 0.5))
schools = transforms.unconstrained(logp, start, {"tau": transforms.positive})
short = sample | {"draws": 100, "tune": 200, "chains": 3}
# Before 0.16, nutpie drew other random numbers for functions in Python.
in_python = sampled_by_python if nutpie.__version__ >= "0.16" else to_nutpie
for density, data in ((branching, {}), (schools, {"y": y})):
    ours = nutpie.sample(to_nutpie(density, data=data), cores=2, **short).posterior
    theirs = nutpie.sample(in_python(density, data=data), cores=1, **short).posterior
    for name in density.shapes:
        assert np.array_equal(ours[name], theirs[name]), name


# What the model raises comes out of the sampler, with the model's line.
def raises(x):
    if x[0] > 1.0:
        raise KeyError("beyond one")
    return -np.sum(x**2)


with pytest.raises(KeyError, match="beyond one") as caught:
    nutpie.sample(to_nutpie(raises, np.zeros(2)), **sample)
assert caught.traceback[-1].name == "raises"
with pytest.raises(nt.SpecError, match="z is no data of this model; it has y"):
    model.with_data(z=y)
with pytest.raises(
    nt.SpecError, match=r"is nan; nutpie needs .*sub is nan, at .*nutpie_model.py(.|\n)*mu = 0"
):
    nutpie.sample(model.with_data(y=np.nan * y), **sample)


# Ctrl-C ends the sampling early, and gives what there is; so does a wait with a limit.
def slow(x):
    for _ in range(20):  # longer ones take long to end: samplers finish their draws
        x = np.linalg.solve(np.eye(5) + 0.01 * np.outer(x, x), x)
    return -0.5 * np.sum(x**2)


endless = sample | {"draws": 10_000_000}
patient = to_nutpie(slow, np.ones(5))
with pytest.raises(TimeoutError):
    nutpie.sample(patient, **endless, blocking=False).wait(timeout=0.1)
signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt():
    """Raise Ctrl-C once the main thread waits for the samplers: an earlier one ends the preparations."""
    waits = nutpie.sample.__globals__["_BackgroundSampler"].wait.__code__
    main = threading.main_thread().ident
    while all(frame.f_code is not waits for frame, _ in traceback.walk_stack(sys._current_frames()[main])):
        time.sleep(0.01)
    signal.raise_signal(signal.SIGINT)


threading.Thread(target=interrupt).start()
stopped = nutpie.sample(patient, **endless)
assert stopped is not None
