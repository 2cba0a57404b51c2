"""Functions whose results joblib keeps in files, called by functions that are differentiated."""

import tempfile
import warnings

import numpy as np
from joblib import Memory

import numbatape as nt

warnings.simplefilter("error")
memory = Memory(tempfile.mkdtemp(), verbose=0)
x = np.arange(6.0).reshape(3, 2)
runs = []


@memory.cache
def powers(x, degree):
    runs.append(degree)
    return np.column_stack([x**k for k in range(1, degree + 1)])


@memory.cache
def misfit(p, scale=1.0):
    return np.sum((powers(x, 2) @ p["w"] - 1.0) ** 2) * scale


def loss(w):
    return misfit({"w": w}, scale=2.0) + np.sum(powers(x, 2)[0] * w)


w = np.array([0.1, 0.2, 0.3, 0.4])
design = powers(x, 2)
expected = 4.0 * design.T @ (design @ w - 1.0) + design[0]
gradient = nt.grad(loss)
for _ in range(2):
    assert np.allclose(gradient(w), expected)
assert np.allclose(nt.hessian(loss)(w), 4.0 * design.T @ design)
assert runs == [2]  # with data alone, what is in the file answers
cache = nt.prepare_gradient_cache(loss, w)
x[0] = [5.0, 7.0]  # what the functions refer to is watched all the same
design = powers(x, 2)
value, (gradient,) = nt.value_and_gradient(cache, w)
assert np.allclose(gradient, 4.0 * design.T @ (design @ w - 1.0) + design[0])
assert runs == [2, 2]


def cube(a, b=2.0):
    return a**3 * b


# A derivative as the function: each verb, and each choice of arguments, has results of its own.
for _ in range(2):
    assert memory.cache(nt.grad(cube))(2.0, 5.0) == 60.0
    assert memory.cache(nt.value_and_grad(cube))(2.0, 5.0) == (40.0, 60.0)
    assert memory.cache(nt.grad(cube, argnums=1))(2.0, 5.0) == 8.0
    assert memory.cache(nt.grad(cube, argnums=(0, 1)))(2.0, 5.0) == (60.0, 8.0)
