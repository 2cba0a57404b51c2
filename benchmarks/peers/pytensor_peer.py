"""PyTensor, compiled by Numba: the workload on pytensor.tensor; sums written as array code."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt

from benchmarks.peers import Unsupported, rebound


class PyTensorNumpy:
    """pytensor.tensor with the names that it keeps elsewhere; plain numbers stay NumPy's."""

    pi = np.pi
    linalg = pt.linalg

    def __getattr__(self, name):
        symbolic = getattr(pt, name, None) or getattr(pt.linalg, name)
        plain = getattr(np, name)

        def function(x, *rest):
            return (symbolic if isinstance(x, pytensor.graph.Variable) else plain)(x, *rest)

        return function


def solve_triangular(L, y, lower):
    """Solve for a vector."""
    return pt.linalg.solve_triangular(L, y, lower=lower, b_ndim=1)


NAMES = {"np": PyTensorNumpy(), "expit": pt.sigmoid, "solve_triangular": solve_triangular}


def arK(theta, y):
    """Array code over observations; the loop over five lags stays."""
    alpha, beta, log_sigma = theta[0], theta[1:6], theta[6]
    sigma = pt.exp(log_sigma)
    prior = -0.5 * (alpha**2 + pt.sum(beta**2)) / 100 - pt.log1p((sigma / 2.5) ** 2) + log_sigma
    mu = alpha + sum(beta[k] * y[4 - k : -1 - k] for k in range(5))
    return prior - 0.5 * pt.sum(((y[5:] - mu) / sigma) ** 2) - (len(y) - 5) * log_sigma


def loop(*_):
    """A recurrence."""
    raise Unsupported("unrolled loops are too deep for PyTensor, and no scan is written here")


VARIANTS = {
    "_sum": pt.sum,
    "_sum_sin": lambda x: pt.sum(pt.sin(x)),
    "naive_map_sin_cos_exp": lambda x: pt.sum(pt.sin(pt.cos(pt.exp(x)))),
    "map_sin_cos_exp": lambda x: pt.sum(pt.sin(pt.cos(pt.exp(x)))),
    "arK": arK,
    "large_single_block_400": loop,
    "large_single_block_4000": loop,
    "garch11": loop,
    "hmm_example": loop,
    "scalar_ops": loop,
}


def prepare(workload):
    """One compiled function of value and gradients; inputs are trusted, as a sampler would."""
    function = VARIANTS.get(workload.function.__name__) or rebound(workload.function, **NAMES)
    arrays = [np.asarray(x) for x in workload.active]
    inputs = [pt.tensor(dtype="float64", shape=x.shape) for x in arrays]
    value = function(*inputs, *workload.data)
    compiled = pytensor.function(inputs, [value, *pt.grad(value, inputs)], mode="NUMBA")
    compiled.trust_input = True
    return lambda: compiled(*arrays), lambda result: (float(result[0]), result[1:])


ENGINES = {"pytensor": prepare}
