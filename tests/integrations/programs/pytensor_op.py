"""A function as an op of PyTensor, compiled by its default mode and by Python alone."""

import importlib.util
import pickle
import sys
import warnings

import cloudpickle
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import numbatape as nt
from numbatape.integrations import as_pytensor_op


def f(p, k):
    w = np.zeros(2)
    w[:] = p["a"] ** 3 * k
    return np.sum(w)


x = np.array([1.0, 2.0])
op = as_pytensor_op(f, {"a": np.zeros(2)}, 2.0)
a, k = pt.vector("a"), pt.scalar("k")
y = op({"a": a}, k)
outputs = [y, pytensor.grad(y, a), pytensor.grad(y, k), pytensor.gradient.hessian(y, a)]
expected = [
    f({"a": x}, 2.0),
    nt.grad(lambda a: f({"a": a}, 2.0))(x),
    nt.grad(lambda k: f({"a": x}, k))(2.0),
    nt.hessian(lambda a: f({"a": a}, 2.0))(x),
]
warnings.simplefilter("error")
for mode in ("FAST_COMPILE", None, "NUMBA"):
    function = pytensor.function([a, k], outputs, mode=mode)
    for found, wanted in zip(function(x, 2.0), expected, strict=True):
        assert np.allclose(found, wanted)

both = as_pytensor_op(lambda x, n: {"rows": x[:n] ** 2, "sum": np.sum(x)}, np.zeros(3), 2)
z = pt.vector("z")
made = both(z, 2)
total = pt.sum(made["rows"]) * made["sum"]
slope = pytensor.function([z], pytensor.grad(total, z), mode="FAST_COMPILE")
assert np.allclose(slope(np.ones(3)), [8.0, 8.0, 2.0])

with pytest.raises(TypeError, match="argument 0 has 2 dimensions, its example 1"):
    both(pt.matrix("m"), 2)

# PyTensor's JAX linker takes it, too; a gradient may be JAX's or PyTensor's.
assert "jax" not in sys.modules
if importlib.util.find_spec("jax") is not None:
    for found, wanted in zip(pytensor.function([a, k], outputs, mode="JAX")(x, 2.0), expected, strict=True):
        assert np.allclose(found, wanted)
    slope = pytensor.function([z], pytensor.grad(total, z), mode="JAX")
    assert np.allclose(slope(np.ones(3)), [8.0, 8.0, 2.0])
    with pytest.raises(TypeError, match=r"argument 0 has the shape \(4,\), its example \(3,\)"):
        slope(np.ones(4))

    import jax
    from pytensor.link.jax.dispatch import jax_funcify

    cube = as_pytensor_op(lambda x: np.sum(x**3 + 0 * np.log(x)), np.zeros(2))
    sampled = jax_funcify(pytensor.graph.fg.FunctionGraph([a], [cube(a)]))
    value, gradient = jax.jit(jax.value_and_grad(lambda x: sampled(x)[0]))(x)
    assert value == 9.0 and gradient.tolist() == [3.0, 12.0]
    assert np.isnan(sampled(np.array([-1.0, 1.0]))[0])  # in silence
    copy = pickle.loads(cloudpickle.dumps(cube.op))  # as for a process of its own
    assert copy.perform_jax(x) == 9.0
