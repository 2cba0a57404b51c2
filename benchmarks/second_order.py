"""Jacobians, Hessians, products with them, and batches of points: numbatape beside JAX and CasADi.

Every task is one function of NumPy arrays in, arrays out, for each engine that can do it; results are
compared before anything is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from benchmarks import workloads
from benchmarks.peers import rebound
from benchmarks.timing import interleave

TOLERANCE = 1e-8
RNG = np.random.default_rng(0)


def rosenbrock(x):
    """Rosenbrock's function of n variables."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


OBSERVED = RNG.normal(size=200)


def mixture(t):
    """Log-density of 200 observations under ten normal components: 30 parameters."""
    mu, log_sigma, log_weight = t[:10], t[10:20], t[20:30]
    z = (OBSERVED[:, None] - mu) / np.exp(log_sigma)
    terms = -0.5 * z * z - log_sigma + log_weight - logsumexp(log_weight)
    return np.sum(logsumexp(terms, axis=1))


WEIGHTS, BIAS = RNG.normal(size=(100, 100)) / 10, RNG.normal(size=100)


def layer(x):
    """Sines of a dense layer, 100 to 100."""
    return np.sin(WEIGHTS @ x + BIAS)


def reprojection(p):
    """Residual of one observation of bundle adjustment: 11 camera parameters, a point, a weight."""
    r, c, f, x0, k, point, w, m = p[:3], p[3:6], p[6], p[7:9], p[9:11], p[11:14], p[14], 0.3
    angle2 = np.sum(r * r)
    angle = np.sqrt(angle2)
    d = point - c
    cross = np.stack([r[1] * d[2] - r[2] * d[1], r[2] * d[0] - r[0] * d[2], r[0] * d[1] - r[1] * d[0]])
    turned = (
        d * np.cos(angle) + cross * np.sin(angle) / angle + r * (np.sum(r * d) * (1 - np.cos(angle)) / angle2)
    )
    u = turned[:2] / turned[2]
    n = np.sum(u * u)
    return w * (f * u * (1 + k[0] * n + k[1] * n * n) + x0 - m)


BLOCKS = 31_843


def posterior(name: str) -> tuple[Callable, np.ndarray]:
    """Return a posterior of the workloads as a function of its parameters, and where to take it."""
    (found,) = [w for w in workloads.catalogue() if w.name == name]
    return (lambda theta: found.function(theta, *found.data)), np.asarray(found.active[0], float)


def numbatape_tasks() -> dict[str, dict[str, Callable]]:
    """Return, by task and engine, calls without arguments that return arrays."""
    import numbatape as nt

    tasks: dict[str, dict[str, Callable]] = {}
    for name, (function, x) in scalar_functions().items():
        hessian = nt.prepare_hessian_cache(function, x)
        bound = hessian.bind(x)
        gradient = nt.prepare_gradient_cache(function, x).bind(x)
        product = nt.prepare_hvp_cache(function, x)
        products = nt.prepare_derivative_cache(nt.grad(function), x, lanes=8)
        v, lanes = np.cos(np.arange(x.size)), RNG.normal(size=(8, x.size))
        tasks[f"gradient, {name}"] = {"numbatape bound": lambda g=gradient: (g(), g.out[0])[1:]}
        tasks[f"hessian, {name}"] = {
            "numbatape": lambda c=hessian, x=x: nt.value_gradient_and_hessian(c, x)[1:],
            "numbatape bound": lambda b=bound: (b(), *b.out)[1:],
        }
        tasks[f"hvp, {name}"] = {"numbatape": lambda c=product, v=v, x=x: nt.value_and_hvp(c, v, x)[2:]}
        tasks[f"8 hvps, {name}"] = {
            "numbatape": lambda c=products, d=lanes, x=x: nt.value_and_derivative(c, (x, d))[1:]
        }
    for name, (function, x) in scalar_functions().items():
        if x.size <= 10:
            cache = nt.prepare_derivative_cache(function, x)
            tasks[f"gradient, {name}"]["numbatape forward"] = lambda c=cache, x=x: nt.value_and_gradient(
                c, x
            )[1]
            draws = x + 0.01 * RNG.normal(size=(1024, x.size))
            batched = nt.batch(function)
            tasks[f"1024 draws, {name}"] = {"numbatape": lambda b=batched, d=draws: b(d)}
    x = np.linspace(-1.0, 1.0, 100)
    columns, rows = nt.prepare_derivative_cache(layer, x), nt.prepare_pullback_cache(layer, x)
    tasks["jacobian, layer"] = {
        "numbatape": lambda: nt.value_and_jacobian(columns, x),
        "numbatape rows": lambda: nt.value_and_jacobian(rows, x),
    }
    points, batched = blocks(), nt.batch(reprojection)
    tasks["jacobians, bundle adjustment"] = {"numbatape": lambda: batched(points)}
    return tasks


def scalar_functions() -> dict[str, tuple[Callable, np.ndarray]]:
    """Return the scalar functions and where their derivatives are taken."""
    found = {name: posterior(name) for name in ("eight_schools_nc", "arK", "garch11")}
    found["rosenbrock_100"] = rosenbrock, np.linspace(-1.0, 1.0, 100)
    found["mixture_30"] = mixture, 0.1 * np.cos(np.arange(30.0))
    return found


def blocks() -> np.ndarray:
    """Return the parameters of the blocks of bundle adjustment."""
    return np.array([0.1, 0.2, 0.3, 0, 0, 0, 1, 0.1, 0.2, 0.01, 0.02, 0.5, 0.6, 2, 1]) + 0.01 * (
        np.random.default_rng(1).normal(size=(BLOCKS, 15))
    )


def called(function, data, theta):
    return function(theta, *data)


def jax_tasks() -> dict[str, Callable]:
    """Return the tasks as JAX does them."""
    import jax
    import jax.numpy as jnp

    from benchmarks.peers.jax_peer import NAMES, VARIANTS

    names = NAMES | {"logsumexp": jax.scipy.special.logsumexp}
    tasks = {}

    def compiled(function, *args):
        run = jax.jit(function)
        return lambda: [np.asarray(part) for part in jax.tree.leaves(run(*args))]

    for name, (function, x) in scalar_functions().items():
        found = [w for w in workloads.catalogue() if w.name == name]
        if found:
            (work,) = found
            data = [jnp.asarray(d) for d in work.data]
            body = VARIANTS.get(work.function.__name__) or rebound(work.function, **names)
            f = functools.partial(called, body, data)
        else:
            f = rebound(function, **names)
        v = np.cos(np.arange(x.size))
        tasks[f"hessian, {name}"] = compiled(lambda t, f=f: (jax.grad(f)(t), jax.hessian(f)(t)), x)
        tasks[f"hvp, {name}"] = compiled(lambda t, v, f=f: jax.jvp(jax.grad(f), (t,), (v,))[1], x, v)
        tasks[f"gradient, {name}"] = compiled(jax.grad(f), x)
        if x.size <= 10:
            draws = x + 0.01 * np.ones((1024, x.size))
            tasks[f"1024 draws, {name}"] = compiled(jax.vmap(jax.value_and_grad(f)), draws)
    x = np.linspace(-1.0, 1.0, 100)
    f = rebound(layer, **names)
    tasks["jacobian, layer"] = compiled(lambda t: (f(t), jax.jacfwd(f)(t)), x)
    g = rebound(reprojection, **names)
    tasks["jacobians, bundle adjustment"] = compiled(jax.vmap(lambda p: (g(p), jax.jacrev(g)(p))), blocks())
    return tasks


def casadi_tasks() -> dict[str, Callable]:
    """Return the tasks that CasADi's symbols take unchanged, through its buffer interface."""
    import casadi as ca

    tasks = {}

    def buffered(inputs, outputs, x):
        function = ca.Function("f", inputs, [ca.densify(o) for o in outputs])
        buffer, run = function.buffer()
        argument = np.ascontiguousarray(x)
        results = [np.zeros(function.size_out(k)[::-1]) for k in range(len(outputs))]
        buffer.set_arg(0, memoryview(argument))
        for k, result in enumerate(results):
            buffer.set_res(k, memoryview(result))

        def call(alive=(function, buffer, argument)):  # what the buffer refers to by address
            run()
            return [r.T for r in results]

        return call

    x = np.linspace(-1.0, 1.0, 100)
    s = ca.MX.sym("x", 100)
    y = ca.sin(ca.DM(WEIGHTS) @ s + ca.DM(BIAS))
    tasks["jacobian, layer"] = buffered([s], [y, ca.jacobian(y, s)], x)
    s = ca.SX.sym("x", 100)
    f = ca.sum1(100 * (s[1:] - s[:-1] ** 2) ** 2 + (1 - s[:-1]) ** 2)
    hessian, gradient = ca.hessian(f, s)
    tasks["hessian, rosenbrock_100"] = buffered([s], [gradient, hessian], x)
    return tasks


def engines(peers) -> dict[str, dict[str, Callable]]:
    """Return calls by task and engine, those of the given peers beside numbatape's."""
    tasks = numbatape_tasks()
    for name, make in (("jax", jax_tasks), ("casadi", casadi_tasks)):
        if name in peers:
            for task, call in make().items():
                if task in tasks:
                    tasks[task][f"{name} bound" if name == "casadi" else name] = call
    return tasks


def agree(task: str, calls: dict[str, Callable]) -> None:
    """Raise if an engine's results differ from numbatape's."""
    ours = [np.ravel(part) for part in calls[next(iter(calls))]()]
    for name, call in calls.items():
        theirs = [np.ravel(part) for part in call()]
        if task.startswith(("1024 draws", "8 hvps")):
            continue  # points and directions of their own
        for a, b in zip(ours, theirs, strict=True):
            error = np.max(np.abs(a - b)) / max(1e-300, np.max(np.abs(a)))
            if not error <= TOLERANCE:
                raise ValueError(f"{task}, {name}: off by {error:.1e}")


def measure(peers, rounds: int, seconds: float, progress: Callable) -> dict:
    """Return median times in seconds by task and engine."""
    found = {}
    for task, calls in engines(peers).items():
        progress(task)
        agree(task, calls)
        found[task] = {name: t["median"] for name, t in interleave(calls, rounds, seconds).items()}
    return found
