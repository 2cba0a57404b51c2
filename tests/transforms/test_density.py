"""`transforms.unconstrained`: a density of constrained parameters as one of a vector."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr

import numbatape as nt
from numbatape import transforms as tr


@dataclasses.dataclass
class Parameters:
    sigma: float
    theta: np.ndarray


def logp(p, scale=1.0):
    terms = np.zeros(2)  # written to, so that the function has to run as a copy while it is traced
    terms[0] = -p["sigma"] * scale
    terms[1] = -0.5 * np.sum(p["theta"] ** 2)
    return np.sum(terms)


START = {"sigma": 2.0, "theta": np.array([0.2, 0.8])}
CHOICE = {"sigma": tr.positive, "theta": tr.simplex}


def test_density_is_the_models_plus_the_jacobians():
    density = tr.unconstrained(logp, START, CHOICE)
    vector = density.start
    assert vector.shape == (density.size,) == (2,)
    assert np.allclose(density.constrain(vector)["theta"], START["theta"])
    expected = logp(START) + math.log(2.0) + float(tr.simplex.log_jacobian(vector[1:]))
    assert math.isclose(density(vector), expected, rel_tol=1e-14)
    assert math.isclose(density.log_jacobian(vector), expected - logp(START), rel_tol=1e-12)
    assert density.names == ("sigma", "theta[0]", "theta[1]")
    assert density.unconstrained_names == ("sigma", "theta[0]")
    assert density.shapes == {"sigma": (), "theta": (2,)}
    assert repr(density) == "<unconstrained logp: 2 numbers (sigma: positive, theta[2]: simplex)>"


@pytest.mark.parametrize("verb", [nt.grad, nt.hessian, nt.value_and_grad])
def test_the_densitys_own_verbs_and_verbs_inside_of_functions(verb):
    """The model's function is copied for the trace, wherever the density is called from."""
    density = tr.unconstrained(logp, START, CHOICE)
    direct, inside = verb(density)(density.start), verb(lambda v: 2.0 * density(v))(density.start)
    for a, b in zip(np.ravel(np.hstack(direct)), np.ravel(np.hstack(inside)), strict=True):
        assert math.isclose(2.0 * a, b, rel_tol=1e-12, abs_tol=1e-12)


def test_derivatives():
    density = tr.unconstrained(logp, START, CHOICE)
    nt.testing.check_derivatives(density, density.start, points=1)
    nt.testing.check_derivatives(density, density.start, nt.Constant(3.0), points=0)


def test_containers():
    start = Parameters(2.0, np.array([0.2, 0.8]))
    of_class = tr.unconstrained(lambda p: logp({"sigma": p.sigma, "theta": p.theta}), start, CHOICE)
    of_tuple = tr.unconstrained(
        lambda p: logp({"sigma": p[0], "theta": p[1][0]}), (2.0, [start.theta]), (tr.positive, [tr.simplex])
    )
    of_number = tr.unconstrained(lambda s: -s, 2.0, tr.positive)
    vector = np.array([0.3, -0.2])
    expected = tr.unconstrained(logp, START, CHOICE)(vector)
    assert math.isclose(of_class(vector), expected) and math.isclose(of_tuple(vector), expected)
    assert isinstance(of_class.constrain(vector), Parameters)
    assert math.isclose(of_number(np.array([0.5])), 0.5 - math.exp(0.5))


def test_many_points():
    density = tr.unconstrained(logp, START, CHOICE)
    draws = np.random.default_rng(0).normal(size=(3, 4, 2))
    parameters = density.constrain(draws)
    assert parameters["sigma"].shape == (3, 4) and parameters["theta"].shape == (3, 4, 2)
    assert np.allclose(density.unconstrain(parameters), draws)
    assert density.log_jacobian(draws).shape == (3, 4)
    values, gradients = nt.batch(density)(draws[0])
    for k in range(4):
        assert math.isclose(values[k], density(draws[0, k]), rel_tol=1e-12)
        assert np.allclose(gradients[k], nt.grad(density)(draws[0, k]))


def test_data_that_changes_is_not_traced_again():
    density = tr.unconstrained(logp, START, CHOICE)
    cache = nt.prepare_gradient_cache(density, density.start, nt.Constant(1.0))
    for scale in (1.0, 2.0, 3.0):
        value, _ = nt.value_and_gradient(cache, density.start, scale)
        assert math.isclose(value, density(density.start, scale), rel_tol=1e-14)
    assert cache.traces == 1


def test_captured_data_is_watched():
    data = np.array([1.0])
    density = tr.unconstrained(lambda p: -p * data[0], 1.0)
    slopes = nt.grad(density), nt.grad(lambda v: density(v))
    for data[0] in (1.0, 2.0, 3.0):
        assert [float(slope(np.ones(1))[0]) for slope in slopes] == [-data[0], -data[0]]


def test_what_is_no_float_is_passed_on():
    density = tr.unconstrained(lambda p: -p["x"] * p["n"], {"x": 1.0, "n": 3}, {"x": tr.positive})
    assert density.size == 1 and math.isclose(density(np.zeros(1)), -3.0)


def test_labels_of_xarray():
    theta = xr.DataArray(np.ones(2), dims=("school",), coords={"school": ["A", "B"]})
    density = tr.unconstrained(lambda p: -np.sum(p["theta"]), {"theta": theta, "mu": 0.0})
    assert density.dims == {"theta": ("school",)} and list(density.coords["school"]) == ["A", "B"]
    assert math.isclose(density(np.zeros(3)), 0.0)
    named = tr.unconstrained(
        lambda p: -np.sum(p["w"]),
        {"w": np.ones((2, 1))},
        dims={"w": ("row", "column")},
        coords={"row": [1, 2]},
    )
    assert named.dims == {"w": ("row", "column")} and named.coords == {"row": [1, 2]}


PAIR, AXES = {"a": np.ones(2), "b": np.ones(2)}, {"a": ("k",), "b": ("k",)}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tr.unconstrained(logp, START, {"sigm": tr.positive}), "sigm is no parameter.* sigma, theta"),
        (lambda: tr.unconstrained(logp, {"sigma": -1.0}, CHOICE | {"theta": None}), "theta is no parameter"),
        (lambda: tr.unconstrained(logp, {"sigma": -1.0}, tr.positive), "sigma: transforms.positive needs"),
        (lambda: tr.unconstrained(logp, {"a": {"b": 1.0}}, {"a": {"c": tr.real}}), "a.c is no parameter"),
        (lambda: tr.unconstrained(logp, {"a": 1.0}, {"a": "positive"}), "'positive' is no transform"),
        (lambda: tr.unconstrained(logp, {"a": 1.0}, {"a": {"b": tr.real}}), "takes one transform"),
        (
            lambda: tr.unconstrained(logp, {"a": 1.0}, {"a": tr.simplex}),
            "a: transforms.simplex is of a vector",
        ),
        (lambda: tr.unconstrained(logp, {"a": 1}), "holds no floats"),
        (lambda: tr.unconstrained(logp, {"a": 1.0}, dims={"b": ("k",)}), "parameters and their shapes are a"),
        (lambda: tr.unconstrained(logp, PAIR, dims=AXES, coords={"k": "abc"}), "'k' has 2 .* 3 labels in co"),
        (lambda: tr.unconstrained(logp, PAIR | {"b": np.ones(3)}, dims=AXES), "3 entries there, and 2 in an"),
        (lambda: tr.unconstrained(logp, START, CHOICE)(np.ones(3)), r"vector of 2 entries.*got shape \(3,\)"),
        (
            lambda: tr.unconstrained(logp, START, CHOICE).unconstrain({"sigma": 1.0}),
            "should hold sigma, theta, got sigma",
        ),
        (
            lambda: tr.unconstrained(logp, START).unconstrain({"sigma": 1.0, "theta": np.ones(3)}),
            r"theta needs shape \(2,\), got \(3,\)",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(nt.SpecError, match=message):
        make()
