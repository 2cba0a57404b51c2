"""JAX: jit(value_and_grad(f)); Python loops as the array code or the scan that a JAX user writes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import lax

from benchmarks.peers import Unsupported, rebound

jax.config.update("jax_enable_x64", True)

NAMES = {
    "np": jnp,
    "expit": jax.scipy.special.expit,
    "solve_triangular": jax.scipy.linalg.solve_triangular,
}


def power_block(n, x):
    """Multiply x[0] by x[1] n times."""
    return lax.fori_loop(0, n, lambda _, y: y * x[1], x[0])


def arK(theta, y):
    """Array code over observations; the loop over five lags may stay."""
    alpha, beta, log_sigma = theta[0], theta[1:6], theta[6]
    sigma = jnp.exp(log_sigma)
    prior = -0.5 * (alpha**2 + jnp.sum(beta**2)) / 100 - jnp.log1p((sigma / 2.5) ** 2) + log_sigma
    mu = alpha + sum(beta[k] * y[4 - k : -1 - k] for k in range(5))
    return prior - 0.5 * jnp.sum(((y[5:] - mu) / sigma) ** 2) - (len(y) - 5) * log_sigma


def garch11(theta, y, sigma1):
    """The recurrence by scan, the likelihood as array code."""
    mu, log_alpha0 = theta[0], theta[1]
    alpha0, alpha1 = jnp.exp(log_alpha0), NAMES["expit"](theta[2])
    p = NAMES["expit"](theta[3])
    beta1 = p * (1 - alpha1)
    jacobian = log_alpha0 + jnp.log(alpha1) + 2 * jnp.log(1 - alpha1) + jnp.log(p * (1 - p))

    def step(s, before):
        s = jnp.sqrt(alpha0 + alpha1 * (before - mu) ** 2 + beta1 * s**2)
        return s, s

    _, s = lax.scan(step, sigma1, y[:-1])
    lp = -0.5 * ((y[0] - mu) / sigma1) ** 2
    return lp + jacobian - jnp.sum(jnp.log(s) + 0.5 * ((y[1:] - mu) / s) ** 2)


def hmm_example(theta, y):
    """The forward algorithm by scan over pairs of log-probabilities."""
    p, q = NAMES["expit"](theta[0]), NAMES["expit"](theta[1])
    mu0 = jnp.exp(theta[2])
    mu1 = mu0 + jnp.exp(theta[3])
    move = jnp.log(jnp.array([[p, 1 - p], [q, 1 - q]]))
    emission = -0.5 * (y[:, None] - jnp.array([mu0, mu1])) ** 2

    def step(state, emitted):
        return jnp.logaddexp(state[0] + move[0], state[1] + move[1]) + emitted, None

    state, _ = lax.scan(step, emission[0], emission[1:])
    prior = -0.5 * (mu0 - 3) ** 2 - 0.5 * (mu1 - 10) ** 2
    return jnp.logaddexp(state[0], state[1]) + prior + jnp.sum(move) + theta[2] + theta[3]


def scalar_ops(x):
    """A loop that is measured for being unrolled."""
    raise Unsupported("XLA does not compile 5000 unrolled operations in 30 s")


VARIANTS = {
    "scalar_ops": scalar_ops,
    "_sum": lambda x: jnp.sum(x),
    "_sum_sin": lambda x: jnp.sum(jnp.sin(x)),
    "naive_map_sin_cos_exp": lambda x: jnp.sum(jnp.sin(jnp.cos(jnp.exp(x)))),
    "map_sin_cos_exp": lambda x: jnp.sum(jax.vmap(lambda e: jnp.sin(jnp.cos(jnp.exp(e))))(x)),
    "large_single_block_400": lambda x: power_block(400, x),
    "large_single_block_4000": lambda x: power_block(4000, x),
    "arK": arK,
    "garch11": garch11,
    "hmm_example": hmm_example,
}


def prepare(workload):
    """Data is closed over, as in a sampler: XLA may fold what depends on data alone."""
    function = VARIANTS.get(workload.function.__name__) or rebound(workload.function, **NAMES)
    data = [jnp.asarray(x) for x in workload.data]
    argnums = tuple(range(len(workload.active)))
    compiled = jax.jit(jax.value_and_grad(lambda *x: function(*x, *data), argnums))

    def call():
        value, gradients = compiled(*workload.active)
        return float(value), [np.asarray(g) for g in gradients]

    return call, lambda result: result


ENGINES = {"jax": prepare}
