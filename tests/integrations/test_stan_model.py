"""`to_bridgestan_like`: the methods of BridgeStan's StanModel, against the density and its derivatives."""

import inspect
import json

import numpy as np
import pytest

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import to_bridgestan_like

Y = np.array([28.0, 8.0, -3.0])
START = {"mu": 0.0, "tau": 1.0, "theta": np.zeros((3, 1))}
CONSTRAINTS = {"tau": transforms.positive}


def logp(p, y):
    z = (y - p["theta"][:, 0]) / 10.0
    return (
        -0.5 * np.sum(z**2) - 0.5 * np.sum((p["theta"] - p["mu"]) ** 2) / p["tau"] ** 2 - 3 * np.log(p["tau"])
    )


@pytest.fixture(scope="module")
def model():
    return to_bridgestan_like(logp, START, CONSTRAINTS, data={"y": Y})


X = np.array([1.0, 0.3, 2.0, -1.0, 0.5])


@pytest.mark.parametrize("jacobian", [True, False])
def test_densities(model, jacobian):
    density = transforms.unconstrained(logp, START, CONSTRAINTS)

    def f(x):
        return density(x, Y) - (0.0 if jacobian else density.log_jacobian(x))

    v = np.arange(5.0)
    value, gradient = model.log_density_gradient(X, jacobian=jacobian)
    assert type(value) is float and np.isclose(value, f(X)) and np.allclose(gradient, nt.grad(f)(X))
    assert model.log_density(X, propto=False, jacobian=jacobian) == value
    value, gradient, hessian = model.log_density_hessian(X, jacobian=jacobian)
    assert np.isclose(value, f(X)) and np.allclose(gradient, nt.grad(f)(X))
    assert np.allclose(hessian, nt.hessian(f)(X))
    value, product = model.log_density_hessian_vector_product(X, v, jacobian=jacobian)
    assert np.isclose(value, f(X)) and np.allclose(product, hessian @ v)


def test_parameters(model):
    assert model.param_num() == model.param_unc_num() == 5
    names = ["mu", "tau", "theta.1.1", "theta.2.1", "theta.3.1"]
    assert sorted(model.param_names()) == names and sorted(model.param_unc_names()) == names
    theta = model.param_constrain(X)
    assert theta[model.param_names().index("tau")] == pytest.approx(np.exp(0.3))
    assert np.allclose(model.param_unconstrain(theta), X)
    density = transforms.unconstrained(logp, START, CONSTRAINTS)
    tree = density.constrain(X)
    text = json.dumps({name: np.asarray(part).tolist() for name, part in tree.items()})
    assert np.allclose(model.param_unconstrain_json(text), X)
    assert model.name() == "logp" and "tau" in model.model_info()


def test_out(model):
    gradient, hessian, theta = np.zeros(5), np.zeros((5, 5)), np.zeros(5)
    assert model.log_density_gradient(X, out=gradient)[1] is gradient
    assert np.allclose(gradient, model.log_density_gradient(X)[1])
    assert model.log_density_hessian(X, out_grad=gradient, out_hess=hessian)[2] is hessian
    assert (
        model.param_constrain(X, out=theta) is theta
        and model.param_unconstrain(theta, out=gradient) is gradient
    )
    with pytest.raises(nt.StructureError, match=r"out needs shape \(5,\), got \(4,\)"):
        model.log_density_gradient(X, out=np.zeros(4))


def test_errors(model):
    with pytest.raises(nt.StructureError, match=r"theta needs 5 entries, got shape \(2,\)"):
        model.param_unconstrain(np.zeros(2))
    with pytest.raises(nt.StructureError, match="the JSON has no tau, theta"):
        model.param_unconstrain_json('{"mu": 1.0}')


def test_signatures_are_bridgestans():
    """Its programs pass these by name."""
    bridgestan = pytest.importorskip("bridgestan")
    ours = type(to_bridgestan_like(logp, START, CONSTRAINTS, data={"y": Y}))
    names = [name for name, member in vars(ours).items() if not name.startswith("_") and callable(member)]
    assert len(names) == 13
    for name in names:
        its = inspect.signature(getattr(bridgestan.StanModel, name)).parameters
        assert its.keys() <= inspect.signature(getattr(ours, name)).parameters.keys()
