"""Sampling by nutpie: models in NumPy beside the same models in PyMC, in one process.

``python -m benchmarks.samplers [ROUNDS]`` needs nutpie and PyMC, which is best installed in an environment of
its own (``pip install nutpie pymc optree``), because it may ask for an older Numba. Both models start their
chains at the same points. Seconds are of one core, the least of several rounds in turn; "gradient" is what
the calls of the log-density with its gradient take of them, measured by calling the same C function at draws
from compiled code, as nutpie does.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from numbatape import transforms
from numbatape.integrations import to_nutpie
from numbatape.integrations.compiled_model import Failures

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its new version
    import nutpie
    import pymc as pm

SETTINGS = {"draws": 1000, "tune": 500, "chains": 4, "cores": 1, "seed": 3, "progress_bar": False}
GROUPS, MEASURED = 397, 2000
ARGUMENTS = 5  # of the C function: size, vector, gradient, value, words


def eight_schools():
    """Return eight schools for numbatape and for PyMC."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def logp(p, y):
        theta = p["mu"] + p["tau"] * p["raw"]
        prior = -0.5 * (p["mu"] / 5) ** 2 - np.log1p((p["tau"] / 5) ** 2) - 0.5 * np.sum(p["raw"] ** 2)
        return prior - 0.5 * np.sum(((y - theta) / error) ** 2)

    start = {"mu": 0.0, "tau": 1.0, "raw": np.zeros(8)}
    with pm.Model() as model:
        mu, tau, raw = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), pm.Normal("raw", 0, 1, shape=8)
        pm.Normal("y", mu + tau * raw, error, observed=y)
    return to_nutpie(logp, start, {"tau": transforms.positive}, data={"y": y}), model


def hierarchical():
    """Return a model of 400 parameters: 2 000 measurements in 397 groups, whose means have a common prior."""
    rng = np.random.default_rng(1)
    group = rng.integers(GROUPS, size=MEASURED)
    y = 1.0 + 0.5 * rng.normal(size=GROUPS)[group] + 0.8 * rng.normal(size=MEASURED)

    def logp(p, y):
        mean = p["mu"] + p["tau"] * p["raw"][group]
        prior = -0.5 * (p["mu"] ** 2 + p["tau"] ** 2 + p["sigma"] ** 2 + np.sum(p["raw"] ** 2))
        return prior - 0.5 * np.sum(((y - mean) / p["sigma"]) ** 2) - len(y) * np.log(p["sigma"])

    start = {"mu": 0.0, "tau": 1.0, "sigma": 1.0, "raw": np.zeros(GROUPS)}
    positive = dict.fromkeys(["tau", "sigma"], transforms.positive)
    with pm.Model() as model:
        mu, tau, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 1)
        raw = pm.Normal("raw", 0, 1, shape=GROUPS)
        pm.Normal("y", mu + tau * raw[group], sigma, observed=y)
    return to_nutpie(logp, start, positive, data={"y": y}), model


@intrinsic
def call(typing, address, arguments):
    """Call a C function of integers and addresses."""

    def emit(context, builder, signature, args):
        word = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word] * ARGUMENTS).as_pointer())
        return builder.call(function, [builder.extract_value(args[1], k) for k in range(ARGUMENTS)])

    return types.int64(types.int64, types.UniTuple(types.int64, ARGUMENTS)), emit


@njit
def call_at(address, rows, count, size, gradient, value, words):
    for k in range(count):
        call(address, (size, rows + 8 * size * k, gradient, value, words))


def seconds_a_gradient(model, points: np.ndarray) -> float:
    """Return the time of a call of a compiled model's log-density with its gradient."""
    count, size = points.shape
    gradient, value = np.zeros(size), np.zeros(1)
    words = gradient.ctypes.data, value.ctypes.data, model.user_data.ctypes.data
    least = np.inf
    for _ in range(200):
        began = time.thread_time()
        call_at(model.compiled_logp_func.address, points.ctypes.data, count, size, *words)
        least = min(least, time.thread_time() - began)
    return least / count


def steps_of(trace) -> int:
    return int(trace.sample_stats.n_steps.sum() + trace.warmup_sample_stats.n_steps.sum())


def compare(name: str, rounds: int) -> None:
    ours, model = globals()[name]()
    theirs = nutpie.compile_pymc_model(model)
    theirs = dataclasses.replace(theirs, initial_point_func=ours.initial_point_func)
    models, seconds, traces, a_step = {"numbatape": ours, "PyMC": theirs}, {}, {}, {}
    for _ in range(rounds):
        for label, each in models.items():
            began = time.process_time()
            traces[label] = nutpie.sample(each, **SETTINGS)
            seconds[label] = min(seconds.get(label, np.inf), time.process_time() - began)
    kept = nutpie.sample(ours, store_unconstrained=True, **SETTINGS).sample_stats["unconstrained_draw"]
    points = np.ascontiguousarray(kept.values[0, :500])
    models["numbatape"] = ours._with_functions(Failures())
    print(f"{name}: {ours.n_dim} parameters, {SETTINGS['chains']} chains")
    for label, each in models.items():
        steps, mu = steps_of(traces[label]), traces[label].posterior["mu"].values
        gradient = seconds_a_gradient(each, points)
        a_step[label] = seconds[label] / steps
        print(
            f"  {label:9} {seconds[label]:7.3f} s, {steps} steps, {a_step[label] * 1e6:6.2f} µs a step; "
            f"a gradient {gradient * 1e6:6.2f} µs, {gradient / a_step[label]:4.0%}; "
            f"mu {mu.mean():.3f} ± {mu.std():.3f}"
        )
    print(f"  a step takes {a_step['numbatape'] / a_step['PyMC']:.2f} times as long as with PyMC")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in ("eight_schools", "hierarchical"):
        compare(name, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
