"""A function as PyTorch's: derivatives of two orders, in training and in torch.func."""

import numpy as np
import pytest
import torch

import numbatape as nt
from numbatape.integrations import as_torch_function


def model(p, x, n):
    return {"y": np.tanh(x @ p["w"]) * n, "size": np.sum(p["b"] ** 3), "count": x.shape[0]}


def product(p, x, n):
    found = model(p, x, n)
    return np.sum(found["y"]) * found["size"]


f = as_torch_function(lambda x: np.sum(np.sin(x) ** 2))
x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
plain = x.detach().numpy()
square = lambda x: np.sum(np.sin(x) ** 2)  # noqa: E731
assert f(x).item() == square(plain)
assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
assert np.allclose(torch.autograd.functional.hessian(f, x), nt.hessian(square)(plain))
assert np.allclose(torch.func.grad(f)(x.detach()), nt.grad(square)(plain))
assert np.allclose(torch.func.jvp(f, (x.detach(),), (torch.ones(2, dtype=torch.float64),))[1],
                   nt.jvp(square, (plain,), (np.ones(2),))[1])  # fmt: skip

assert np.allclose(torch.func.hessian(f)(x.detach()), nt.hessian(square)(plain))
assert np.allclose(torch.func.vmap(f)(torch.ones(3, 2)), 2 * np.sin(1.0) ** 2)

# float32 stays float32
single = torch.ones(2, requires_grad=True)
value = f(single)
value.backward()
assert value.dtype == single.grad.dtype == torch.float32
assert np.allclose(single.grad, nt.grad(square)(np.ones(2)), rtol=1e-5)

# containers; integers and what has no derivative
g = as_torch_function(model)
p = {"w": torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
     "b": torch.tensor(2.0, dtype=torch.float64, requires_grad=True)}  # fmt: skip
data = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
for n in (2, 3):
    found = g(p, data, n)
    assert found["count"].item() == 4 and not found["count"].requires_grad
    (found["y"].sum() * found["size"]).backward()
    tree = {name: part.detach().numpy() for name, part in p.items()}
    wanted = nt.grad(product)(tree, data.numpy(), n)
    for name, part in p.items():
        assert np.allclose(part.grad, wanted[name])
        part.grad = None

# inside of a network, by an optimiser of PyTorch
layer = torch.nn.Linear(3, 1, dtype=torch.float64)
loss = as_torch_function(lambda y: np.mean((y[:, 0] - np.arange(4.0)) ** 2))
optimiser = torch.optim.LBFGS(layer.parameters(), lr=0.5, max_iter=200)


def closure():
    optimiser.zero_grad()
    value = loss(layer(data))
    value.backward()
    return value


optimiser.step(closure)
assert loss(layer(data)).item() < 1e-6

# PyTorch's own functions take no traced value, and say so in their own words
for f in (
    lambda x: torch.sin(x).sum(),
    lambda x: torch.ones(2) * x,
    lambda x: torch.from_numpy(x).sum(),
    lambda x: torch.tensor(x).sum(),
):
    with pytest.raises(nt.UnsupportedOperationError, match=r"takes plain arrays only.*use NumPy's functions"):
        nt.grad(f)(np.ones(2))
