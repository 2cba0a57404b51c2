"""Latency: the first gradient of a new function: in a warm process, in a new one, on a fresh machine."""

from __future__ import annotations

import json
import os
import resource
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


# ---- kernels: none stored, all stored, or brought along by a wheel


def sixteen_functions() -> None:
    """Derivatives of small functions of many ops, with a Hessian, a batch and a float32 gradient."""
    import scipy.special as sc

    import numbatape as nt

    x = np.linspace(0.2, 1.7, 6)
    system = np.outer(x, x) + 2.0 * np.eye(6)
    functions = [
        lambda x: np.sum(np.exp(-(x**2)) * np.cos(3.0 * x)),
        lambda x: np.sum(np.log1p(x) / np.sqrt(1.0 + x * x)) - np.prod(x),
        lambda x: np.max(x) * np.tanh(x[0]) + np.min(x) * np.arctan2(x[1], x[2]),
        lambda x: np.sum(np.where(x > 1.0, np.abs(x - 1.5), np.maximum(x, 0.5))),
        lambda x: np.sum(np.cumsum(x) * np.sort(x)[::-1]) + np.var(x),
        lambda x: np.sum(system @ x) + x @ system @ x,
        lambda x: np.linalg.slogdet(system * x[0] + np.diag(x))[1],
        lambda x: np.sum(np.linalg.solve(system, x) ** 2),
        lambda x: np.sum(np.linalg.cholesky(system + np.outer(x, x))),
        lambda x: np.sum(np.linalg.eigvalsh(system + np.diag(x)) ** 1.5),
        lambda x: sc.logsumexp(x) + np.sum(sc.gammaln(x + 1.0)),
        lambda x: np.sum(sc.psi(x + 1.0) * sc.erf(x)) + np.sum(sc.expit(x)),
        lambda x: np.sum(np.stack([x, x[::-1]]).T @ np.ones(2)) + np.sum(np.diff(x) ** 2),
        lambda x: np.linalg.norm(x) + np.sum(np.sinh(x) * np.arcsin(x / 2.0)),
        lambda x: np.sum(np.hypot(x, x[0]) % 0.7) + np.sum(np.floor(x) * x),
        lambda x: np.sum(np.outer(x, x)[np.triu_indices(6)]) - np.sum(np.logaddexp(x, 1.0)),
    ]
    for function in functions:
        nt.value_and_grad(function)(x)
    nt.hessian(functions[0])(x)
    nt.batch(functions[1])(np.stack([x, x + 0.1]))
    nt.grad(functions[0])(x.astype(np.float32))


def first_uses() -> None:
    """Print the mean and the largest processor time of an op's first use, both of its kernels."""
    import time

    from numbatape import jit
    from numbatape.engine import library

    spent: dict[str, float] = {}
    for name, text in library.texts(dtypes=("f64",), values=("fast",)):
        if name.startswith("shared-"):  # loaded with the first op that needs it, whose time this is
            continue
        start = time.process_time()
        jit.load(name, text)
        op = name.partition("-")[0]
        spent[op] = spent.get(op, 0.0) + time.process_time() - start
    ops = [seconds for op, seconds in spent.items() if op not in ("sweeps", "plan")]
    print(json.dumps({"mean": statistics.mean(ops), "worst": max(ops), "sweeps": spent["sweeps"]}))


ROOT = Path(__file__).resolve().parents[1]
SCHOOLS = ROOT / "examples" / "eight_schools"
PROGRAMS = {
    "README's main command": (
        "import sys\n"
        f"sys.argv = ['numbatape', 'logp', '{SCHOOLS}.py', '--draws', '{SCHOOLS}_draws.csv', '--out', OUT]\n"
        "from numbatape.__main__ import run\n"
        "run()"
    ),
    "sixteen functions": "from benchmarks.first_gradient import sixteen_functions\nsixteen_functions()",
    "one gradient": f"import numpy as np\nx = np.linspace(0.5, 0.9, 10)\n{PROCESSES['numbatape']}",
    "import numpy": "import numpy",
}
WITHOUT_WHEEL = """
from pathlib import Path
from numbatape.jit import shipped
shipped.DIRECTORY = Path("nowhere")
"""


def processor_time(program: str, cache: str, wheel: bool) -> tuple[float, str]:
    """Return the processor time of a process, all of its threads, and what it printed."""
    # The installed numbatape comes first: it may be a wheel's, and the tree of this file has no kernels.
    lines = [f"import sys; sys.path.append({str(ROOT)!r})", f"OUT = {str(Path(cache) / 'out.npz')!r}"]
    lines += [program] if wheel or program == PROGRAMS["import numpy"] else [WITHOUT_WHEEL, program]
    environment = {**os.environ, "NUMBATAPE_CACHE_DIR": cache, "NUMBATAPE_BACKGROUND": "0"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=cache,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def first_runs(repeats: int) -> dict[str, dict[str, float]]:
    """Return the median processor time of each program, by where its kernels come from.

    "wheel" is there where the installed numbatape came from a wheel of a release build.
    """
    with tempfile.TemporaryDirectory() as cache:
        program = "import numbatape as nt; print(nt.kernel_info()['shipped'])"
        shipped = int(processor_time(program, cache, True)[1])
    found: dict[str, dict[str, float]] = {}
    for name, program in PROGRAMS.items():
        seconds: dict[str, list[float]] = {}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for way in ("empty cache", "warm cache"):
                    seconds.setdefault(way, []).append(processor_time(program, cache, False)[0])
            if shipped:
                with tempfile.TemporaryDirectory() as cache:
                    seconds.setdefault("wheel", []).append(processor_time(program, cache, True)[0])
        found[name] = {way: statistics.median(times) for way, times in seconds.items()}
    with tempfile.TemporaryDirectory() as cache:
        program = "from benchmarks.first_gradient import first_uses\nfirst_uses()"
        for way, wheel in {"empty cache": False, "wheel": True}.items():
            if shipped or not wheel:
                for what, spent in json.loads(processor_time(program, cache, wheel)[1]).items():
                    label = "the sweeps" if what == "sweeps" else f"first use of an op, {what}"
                    found.setdefault(label, {})[way] = spent
    return found
