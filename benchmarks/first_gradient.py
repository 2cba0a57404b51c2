"""Latency: the first gradient of a new function, in a warm process and from process start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers import rebound
from benchmarks.timing import once
from benchmarks.workloads import Workload


def one_line(x):
    """One line of array code."""
    return np.sum(np.sin(x))


def fifty_ops(x):
    """50 array operations besides the final sum: five a turn, ten turns."""
    y = x
    for _ in range(10):
        y = np.sin(y) * x + np.exp(-y)
    return np.sum(y)


def scalar_ops(x):
    """5000 scalar operations: a multiplication and an addition a turn."""
    y = x[0]
    for _ in range(250):
        for i in range(10):
            y = y * x[1] + x[i]
    return y


FUNCTIONS = {"1 line": one_line, "50 ops": fifty_ops, "5000 scalar ops": scalar_ops}

# What a user types, one process each.
PROCESSES = {
    "numpy (value only)": "print(np.sum(np.sin(x)))",
    "numbatape": (
        "import numbatape as nt\n"
        "cache = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x)), x)\n"
        "print(nt.value_and_gradient(cache, x)[1][0])"
    ),
    "jax": (
        "import jax, jax.numpy as jnp\n"
        "jax.config.update('jax_enable_x64', True)\n"
        "print(jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(x))))(x)[1])"
    ),
    "casadi": (
        "import casadi as ca\n"
        "s = ca.SX.sym('s', 10)\n"
        "value = ca.sum1(ca.sin(s))\n"
        "print(ca.Function('f', [s], [value, ca.gradient(value, s)])(x)[1])"
    ),
    "autograd": (
        "import autograd, autograd.numpy as anp\n"
        "print(autograd.value_and_grad(lambda x: anp.sum(anp.sin(x)))(x)[1])"
    ),
    "torch": (
        "import torch\n"
        "t = torch.from_numpy(x).requires_grad_()\n"
        "print(torch.autograd.grad(torch.sum(torch.sin(t)), t)[0])"
    ),
    "pytensor": (
        "import pytensor, pytensor.tensor as pt\n"
        "t = pt.dvector()\n"
        "value = pt.sum(pt.sin(t))\n"
        "print(pytensor.function([t], [value, pt.grad(value, t)], mode='NUMBA')(x)[1])"
    ),
}


def warm(prepare: Callable, function: Callable, repeats: int) -> float:
    """Return the median time to prepare a new function and get its gradient once.

    The first run is not counted: kernels that the function needs are compiled or loaded by then.
    """
    seconds = []
    for _ in range(repeats + 1):
        workload = Workload(function.__name__, rebound(function), (np.linspace(0.5, 0.9, 10),))
        seconds.append(once(lambda w=workload: prepare(w)[0]())[1])
    return statistics.median(seconds[1:])


def process(name: str, repeats: int, **environment: str) -> float:
    """Return the median wall time of a Python process that prints one gradient."""
    program = "import numpy as np\nx = np.linspace(0.5, 0.9, 10)\n" + PROCESSES[name]
    root = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", program]
    run = {**os.environ, "PYTHONPATH": paths, **environment}
    seconds = [
        once(lambda: subprocess.run(command, env=run, check=True, capture_output=True))[1]
        for _ in range(repeats + 1)
    ]
    return statistics.median(seconds[1:] or seconds)  # the first fills file caches


def empty_cache() -> float:
    """Return the wall time of such a process that has to compile its kernels."""
    with tempfile.TemporaryDirectory() as directory:
        return process("numbatape", 0, NUMBATAPE_CACHE_DIR=directory)
