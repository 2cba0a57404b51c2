"""autograd: the workload itself on autograd.numpy."""

from __future__ import annotations

import autograd.numpy
import autograd.scipy.linalg
import autograd.scipy.special
from autograd import value_and_grad

from benchmarks.peers import rebound

NAMES = {
    "np": autograd.numpy,
    "expit": autograd.scipy.special.expit,
    "solve_triangular": autograd.scipy.linalg.solve_triangular,
}


def prepare(workload):
    """One closure of the data; autograd traces again at every call."""
    function = rebound(workload.function, **NAMES)
    argnums = tuple(range(len(workload.active)))
    evaluate = value_and_grad(lambda *x: function(*x, *workload.data), argnums)
    return lambda: evaluate(*workload.active), lambda result: result


ENGINES = {"autograd": prepare}
