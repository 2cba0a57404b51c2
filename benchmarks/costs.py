"""What costs what: the tables of docs/costs.md, by ``python benchmarks/run.py --only costs``.

Every number is the least processor time of many rounds, in seconds; what is no time is text. A table is
a dictionary of rows of columns.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy.stats

import numbatape as nt
from benchmarks.peers import rebound
from benchmarks.report import ratio_text
from benchmarks.timing import interleave

X = np.linspace(0.5, 1.5, 10)
MATRIX = np.random.default_rng(0).normal(size=(8, 8)) / 4
SERIES = np.random.default_rng(1).normal(size=1000)
TURNS = 200, 1000  # of loops whose difference counts


def cubes(x):
    return np.sum(x * x * x)


def misfit(x, data):
    return np.sum((x - data[:10]) ** 2)


def either(x):
    return np.sum(x * x) if x[0] > 1.0 else np.sum(x)


def path(x):
    """A function whose path, and so whose trace, an integer chooses."""
    return np.sum(x * x) * int(x[0])


def numbers(turns):
    """Two operations a turn on numbers, each of which needs the one before; no linear recurrence."""

    def f(x):
        y = x[0]
        for _ in range(turns):
            y = x[2] - y * y
        return y

    return f


def sines(turns):
    """Two operations a turn on numbers, one of them a sine."""

    def f(x):
        y = x[0]
        for _ in range(turns):
            y = np.sin(y) + x[1]
        return y

    return f


def maths(turns):
    """Two operations a turn on numbers, one of them a sine of the module ``math``."""

    def f(x):
        y = x[0]
        for _ in range(turns):
            y = math.sin(y) + x[1]
        return y

    return f


def writes(turns):
    """Two operations a turn on entries of an array, each of which is written to it."""

    def f(x):
        y = x * 1.0
        for k in range(turns):
            y[k % 8] = y[(k + 1) % 8] * x[1] + 0.1
        return np.sum(y)

    return f


def distributions(turns):
    """Two operations a turn: a log-density of SciPy's, and a sum."""

    def f(x):
        y = x
        for _ in range(turns):
            y = scipy.stats.norm.logpdf(y, x, 2.0) + x
        return np.sum(y)

    return f


def arrays(turns):
    """Two operations a turn on whole arrays."""

    def f(x):
        y = x
        for _ in range(turns):
            y = y * x + x
        return np.sum(y)

    return f


def products(turns):
    """Two operations a turn: a product with a matrix of 8 by 8, and a sum of vectors."""

    def f(x):
        y = x
        for _ in range(turns):
            y = MATRIX @ y + x
        return np.sum(y)

    return f


def garch_step(theta, carry, y):
    variance, total = carry
    residual = y - theta[0]
    total = total - 0.5 * (np.log(variance) + residual**2 / variance)
    return theta[1] + theta[2] * residual**2 + theta[3] * variance, total


def garch_loop(theta):
    carry = 0.3, 0.0
    for y in SERIES:
        carry = garch_step(theta, carry, y)
    return carry[1]


def garch_scan(theta):
    return nt.scan(lambda carry, y: (garch_step(theta, carry, y), None), (0.3, 0.0), SERIES)[0][1]


def normal_loop(theta):
    total = 0.0
    for y in SERIES:
        total = total - 0.5 * ((y - theta[0]) / theta[1]) ** 2 - np.log(theta[1])
    return total


def normal_array(theta):
    return np.sum(-0.5 * ((SERIES - theta[0]) / theta[1]) ** 2 - np.log(theta[1]))


def logistic(n):
    """Residuals and log-likelihood of a logistic regression with 1 000 rows."""
    rng = np.random.default_rng(n)
    features, outcome = rng.normal(size=(1000, n)), rng.integers(0, 2, size=1000).astype(float)

    def log_likelihood(beta):
        eta = features @ beta
        return np.sum(outcome * eta - np.logaddexp(0.0, eta))

    return log_likelihood, lambda beta: outcome - 1.0 / (1.0 + np.exp(-(features @ beta)))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def least(calls: dict[str, Callable], rounds: int, seconds: float) -> dict[str, float]:
    """Return the least time of each call; the first calls are not counted."""
    for call in calls.values():
        call()
    return {name: found["minimum"] for name, found in interleave(calls, rounds, seconds).items()}


def prepared(f: Callable, x) -> Callable:
    cache = nt.prepare_gradient_cache(f, x)
    return lambda: nt.value_and_gradient(cache, x)


def first(make: Callable[[], Callable], x, rounds: int) -> float:
    """Return the least time in which a function that is new gets its first gradient."""
    spent = []
    for _ in range(rounds + 1):  # the first one may load kernels
        function = make()
        gc.collect()
        start = time.process_time()
        prepared(function, x)()
        spent.append(time.process_time() - start)
    return min(spent[1:])


def bytes_text(number: float) -> str:
    return f"{number:,.0f} bytes".replace(",", " ")


def each_new(call: Callable, arguments: Iterable) -> float:
    """Return the mean time of calls, each with an argument that never came before."""
    arguments = list(arguments)
    start = time.process_time()
    for x in arguments:
        call(x)
    return (time.process_time() - start) / len(arguments)


def fresh_process(rounds: int) -> float:
    """Return the least processor time of a process that gets one gradient, kernels being in the cache."""
    program = "import numpy as np, numbatape as nt; nt.grad(lambda x: np.sum(x * x * x))(np.ones(10))"
    root, spent = Path(__file__).resolve().parents[1], []
    for _ in range(rounds + 1):
        before = os.times()
        subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
        after = os.times()
        spent.append(sum(after[2:4]) - sum(before[2:4]))  # user and system time of children
    return min(spent[1:])


def of_calls(rounds: int, seconds: float) -> dict:
    """Return what a call of a small function takes, by the way it is called."""
    cache = nt.prepare_gradient_cache(cubes, X)
    reusing = nt.prepare_gradient_cache(cubes, X, config=nt.Config(reuse_buffers=True))
    bound, kept = nt.prepare_gradient_cache(cubes, X).bind(X), nt.grad(cubes)
    steady = least(
        {
            "NumPy: the value alone": lambda: cubes(X),
            "bound: `run = cache.bind(x)`, `run()`": bound,
            "prepared, `Config(reuse_buffers=True)`": lambda: nt.value_and_gradient(reusing, X),
            "prepared: `nt.value_and_gradient(cache, x)`": lambda: nt.value_and_gradient(cache, X),
            "one-shot, kept: `g = nt.grad(f)`, `g(x)`": lambda: kept(X),
            "one-shot: `nt.grad(f)(x)`": lambda: nt.grad(cubes)(X),
        },
        rounds,
        seconds,
    )
    firsts = {
        "the first call, of a new function": first(lambda: rebound(cubes), X, 3 * rounds),
        "a process with one gradient: Python, imports, the first call": fresh_process(rounds),
    }
    return {name: {"a call": spent} for name, spent in (steady | firsts).items()}


def of_operations(rounds: int, seconds: float) -> dict:
    """Return what one operation more takes, in the first call and later."""
    eight, long = np.linspace(0.5, 0.9, 8), np.linspace(0.5, 0.9, 10_000)
    cases = {
        "arithmetic on numbers": (numbers, eight),
        "a sine, and arithmetic": (sines, eight),
        "a sine of `math`, and arithmetic": (maths, eight),
        "arithmetic with entries of an array, and writing them": (writes, eight),
        "arithmetic on arrays of 8": (arrays, eight),
        "arithmetic on arrays of 10 000": (arrays, long),
        "a product with an 8 × 8 matrix, and arithmetic": (products, eight),
        "a log-density of SciPy's, and arithmetic": (distributions, eight),
    }
    table = {}
    for name, (make, x) in cases.items():
        few, many = (n // 10 if x is long else n for n in TURNS)
        found = least(
            {str(n): nt.prepare_gradient_cache(make(n), x).bind(x) for n in (few, many)}, rounds, seconds
        )
        latency = first(lambda make=make, many=many: make(many), x, rounds)
        steady = (found[str(many)] - found[str(few)]) / (2 * (many - few))
        table[name] = {"first call": latency / (2 * many), "later calls": steady}
    return table


def of_loops(rounds: int, seconds: float) -> dict:
    """Return what 1 000 steps of a loop take."""
    theta, normal = np.array([0.1, 0.1, 0.2, 0.5]), np.array([0.1, 1.2])
    cases = {
        "a recurrence (garch), Python's `for`": (garch_loop, theta),
        "the same by `nt.scan`": (garch_scan, theta),
        "a sum over observations, Python's `for`": (normal_loop, normal),
        "the same as arrays": (normal_array, normal),
    }
    table = {}
    for name, (f, x) in cases.items():
        cache = nt.prepare_gradient_cache(f, x)
        found = least({"value": lambda f=f, x=x: f(x), "gradient": cache.bind(x)}, rounds, seconds)
        table[name] = {
            "NumPy's value": found["value"],
            "first call": first(lambda f=f: rebound(f), x, rounds),
            "later calls": found["gradient"],
            "tape": bytes_text(cache.tape.nbytes),
        }
    return table


def of_derivatives(rounds: int, seconds: float) -> dict:
    """Return times of other derivatives, in gradients of the same function."""
    table: dict[str, dict[str, float]] = {}
    units: dict[str, float] = {}
    cases = {
        "logistic regression, 10 parameters": (*logistic(10), np.full(10, 0.1)),
        "logistic regression, 100": (*logistic(100), np.full(100, 0.1)),
        "Rosenbrock, 100": (rosenbrock, None, np.linspace(-1.0, 1.0, 100)),
    }
    for title, (f, residuals, x) in cases.items():
        along = np.cos(np.arange(x.size))
        value, products = nt.prepare_derivative_cache(f, x), nt.prepare_hvp_cache(f, x)
        hessian = nt.prepare_hessian_cache(f, x)
        calls = {
            "gradient": prepared(f, x),
            "NumPy's value": lambda f=f, x=x: f(x),
            "derivative along a direction": lambda c=value, x=x, v=along: nt.value_and_derivative(c, (x, v)),
            "Hessian times a vector, with the gradient": lambda c=products, x=x, v=along: nt.value_and_hvp(
                c, v, x
            ),
            "Hessian": lambda c=hessian, x=x: nt.value_gradient_and_hessian(c, x),
        }
        if residuals is None:
            sparse = nt.prepare_sparse_hessian_cache(f, x)
            calls["sparse Hessian"] = lambda c=sparse, x=x: nt.value_gradient_and_sparse_hessian(c, x)
        else:
            jacobian = nt.prepare_derivative_cache(residuals, x)
            calls["Jacobian of the 1 000 residuals"] = lambda c=jacobian, x=x: nt.value_and_jacobian(c, x)
        found = least(calls, rounds, seconds)
        unit = found.pop("gradient")
        for name, spent in found.items():
            table.setdefault(name, {})[title] = ratio_text(spent / unit)
        units[title] = unit
    return table | {"one gradient takes": units}


def of_changes(rounds: int, seconds: float) -> dict:
    """Return what a call takes in which something is not as it was."""
    data = [SERIES + k for k in range(7)]
    cache = nt.prepare_gradient_cache(misfit, X, nt.Constant(SERIES))
    frozen = nt.prepare_gradient_cache(misfit, X, nt.Constant(SERIES, frozen=True))
    sized, branching = nt.prepare_gradient_cache(cubes, X), nt.prepare_gradient_cache(either, X)
    traced = nt.prepare_gradient_cache(path, X, config=nt.Config(max_variants=1000))
    lengths, sides = [np.ones(n) for n in range(4, 64)], [X, X + 1.0]

    def in_turn(call, arguments):
        for x in 3 * arguments:  # a size gets a workspace of its own when it comes again
            call(x)
        turns = itertools.cycle(arguments)
        return lambda: call(next(turns))

    def at(cache):
        return lambda x: nt.value_and_gradient(cache, x)

    def made_anew():
        numbers = itertools.count()

        def call(k):
            return nt.value_and_grad(lambda x: np.sum(x * x * x) * k)(X)

        return lambda: call(float(next(numbers)))

    steady = least(
        {
            "nothing": prepared(cubes, X),
            "nothing; 8 kB of data are compared": lambda: nt.value_and_gradient(cache, X, SERIES),
            "nothing; the data are `frozen=True`": lambda: nt.value_and_gradient(frozen, X, SERIES),
            "a number in the closure of a new lambda": made_anew(),
            "8 kB of data": in_turn(lambda y: nt.value_and_gradient(cache, X, y), data),
            "the size: 60 sizes in turn": in_turn(at(sized), lengths),
            "the path: two branches in turn": in_turn(at(branching), sides),
        },
        rounds,
        seconds,
    )
    new_sizes = each_new(at(sized), (np.ones(n) for n in range(1000, 1300)))
    new_paths = each_new(at(traced), (X + k for k in range(2, 40)))
    news = {"the size, to one that is new": new_sizes, "the path, to one that is new (a trace)": new_paths}
    return {name: {"a call": spent} for name, spent in (steady | news).items()}


def of_memory() -> dict:
    """Return bytes of a tape and of a workspace."""
    table = {}
    eight, long = np.linspace(0.5, 0.9, 8), np.linspace(0.5, 0.9, 10_000)
    cases = {"an operation on numbers": (numbers, eight), "an operation on arrays of 10 000": (arrays, long)}
    for name, (make, x) in cases.items():
        small, large = (nt.prepare_gradient_cache(make(n), x) for n in (20, 220))
        table[name] = {
            "tape": bytes_text((large.tape.nbytes - small.tape.nbytes) / 400),
            "workspace": bytes_text((large._space.nbytes - small._space.nbytes) / 400),
        }
    return table


def measure(rounds: int, seconds: float, progress: Callable) -> dict:
    """Return all tables by title."""
    tables = {
        "A call": lambda: of_calls(rounds, seconds),
        "An operation": lambda: of_operations(rounds, seconds),
        "1 000 steps": lambda: of_loops(rounds, seconds),
        "Other derivatives, in gradients of the same function": lambda: of_derivatives(rounds, seconds),
        "What has changed since the last call": lambda: of_changes(rounds, seconds),
        "Memory": of_memory,
    }
    found = {}
    for title, table in tables.items():
        progress(f"costs, {title}")
        found[title] = table()
    return found
