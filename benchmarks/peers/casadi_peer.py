"""CasADi: value and gradient in one Function, called through its buffer interface.

The workload runs unchanged on `casadi.ArrayInterface`, a view of symbols with NumPy's semantics.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from benchmarks.peers import Unsupported, rebound

ca.GlobalOptions.setNumpyMode(1)  # NumPy's shapes and axes; 0 warns, and becomes an error in tests

# Workloads for the matrix graph (MX): with both built, these were the faster there, or too big for
# a scalar graph (SX). All others were faster as a scalar graph, or need its Cholesky.
MATRIX_GRAPH = {
    "sum_1000",
    "sum_sin_1000",
    "sum_sin_100000",
    "kron_sum",
    "kron_view_sum",
    "broadcast_sin_cos_exp_100",
    "broadcast_sin_cos_exp_100000",
    "simple_mlp",
    "simple_mlp_small",
    "gp_lml_128",
    "turing_broadcast_1000",
    "turing_broadcast_100000",
    "arK_vec",
    "GLM_Poisson",
    "irt_2pl",
    "radon_vis_nc_mn",
}


def _getitem(self, key, plain=ca.ArrayInterface.__getitem__):
    """Indexing with `x[:, None]`, which ArrayInterface lacks."""
    column = isinstance(key, tuple) and key[-1] is None
    return np.reshape(self, (-1, 1)) if column else plain(self, key)


ca.ArrayInterface.__getitem__ = _getitem


def expit(x):
    """Logistic function."""
    return 1 / (1 + np.exp(-x))


def solve_triangular(L, y, lower):
    """CasADi substitutes forward when it sees a lower triangular pattern."""
    return np.linalg.solve(np.tril(L), y)


def _symbol(kind, shape):
    # CasADi stores columns first; a transposed symbol makes its buffer a C-contiguous array.
    return kind.sym("x", shape[-1] if shape else 1, shape[0] if len(shape) == 2 else 1)


def prepare_bound(workload):
    """Build the Function and attach the workload's arrays to it; a call works in place on them."""
    kind = ca.MX if workload.name in MATRIX_GRAPH else ca.SX
    arrays = [np.array(x, dtype=float) for x in workload.active]
    symbols = [_symbol(kind, x.shape) for x in arrays]
    views = [ca.ArrayInterface(s.T, x.ndim) for s, x in zip(symbols, arrays, strict=True)]
    function = rebound(workload.function, expit=expit, solve_triangular=solve_triangular)
    try:
        value = kind(function(*views, *workload.data))
    except NotImplementedError as error:
        raise Unsupported(str(error).splitlines()[0]) from error
    outputs = [value, *(ca.densify(ca.gradient(value, s)) for s in symbols)]
    buffer, call = ca.Function("value_and_gradient", symbols, outputs).buffer()
    results = [np.empty(()), *(np.empty_like(x) for x in arrays)]
    for k, x in enumerate(arrays):
        buffer.set_arg(k, memoryview(x))
    for k, x in enumerate(results):
        buffer.set_res(k, memoryview(x))
    # `call` holds bare addresses: of the Function's own memory in `buffer`, and of the arrays.
    call.keep = buffer, arrays, results
    return call, lambda _: (float(results[0]), results[1:])


def prepare(workload):
    """The same with the arguments copied in and fresh results copied out."""
    evaluate, read = prepare_bound(workload)
    _, inputs, (_, *gradients) = evaluate.keep

    def call():
        for buffer, x in zip(inputs, workload.active, strict=True):
            buffer[...] = x
        evaluate()
        value, _ = read(None)
        return value, [g.copy() for g in gradients]

    return call, lambda result: result


ENGINES = {"casadi": prepare, "casadi bound": prepare_bound}
