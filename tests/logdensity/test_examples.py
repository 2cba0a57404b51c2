"""The examples against reference values: three points each, value and gradient."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt

ROOT = Path(__file__).parents[2]
REFERENCE = json.loads((ROOT / "tests" / "data" / "reference.json").read_text())


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", REFERENCE)
def test_values_in_plain_numpy(name):
    example = load(name)
    for point in REFERENCE[name]:
        assert len(example.names) == len(point["theta"])
        value = example.logp(np.array(point["theta"]), example.data)
        np.testing.assert_allclose(value, point["value"], rtol=1e-10)


@pytest.mark.parametrize("name", REFERENCE)
def test_values_and_gradients(name):
    example = load(name)
    points = [np.array(point["theta"]) for point in REFERENCE[name]]
    cache = nt.prepare_gradient_cache(example.logp, points[0], nt.Constant(example.data, frozen=True))
    for theta, point in zip(points, REFERENCE[name], strict=True):
        value, grads = nt.value_and_gradient(cache, theta)
        np.testing.assert_allclose(value, point["value"], rtol=1e-10)
        size = np.max(np.abs(point["gradient"]))
        np.testing.assert_allclose(grads[0], point["gradient"], rtol=1e-10, atol=1e-12 * size)


@pytest.mark.parametrize("name", ["eight_schools", "arK", "garch11"])
def test_unconstrain_inverts_the_constraints(name):
    example = load(name)
    draws = {
        "eight_schools": {**{f"theta[{j}]": 3.0 + j for j in range(1, 9)}, "mu": 3.0, "tau": 2.0},
        "arK": {"alpha": 0.5, **{f"beta[{k}]": float(k) for k in range(1, 6)}, "sigma": 2.0},
        "garch11": {"mu": 5.0, "alpha0": 1.5, "alpha1": 0.5, "beta1": 0.25},
    }
    expected = {
        "eight_schools": [*(np.arange(1, 9) / 2), 3, np.log(2)],
        "arK": [0.5, 1, 2, 3, 4, 5, np.log(2)],
        "garch11": [5, np.log(1.5), 0, 0],
    }
    theta = example.unconstrain(draws[name], example.data)
    np.testing.assert_allclose(theta, expected[name], atol=1e-15)
    assert np.isfinite(example.logp(theta, example.data))
