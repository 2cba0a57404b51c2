"""Functions as JAX's: derivatives to any order, compiled, vectorised; samplers of blackjax and numpyro."""

import importlib.util
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numbatape as nt
from numbatape import transforms
from numbatape.integrations import as_jax_function, to_blackjax, to_numpyro

single = as_jax_function(lambda x: np.sum(x**3), np.zeros(2))
assert single(jnp.ones(2)).dtype == jnp.float32  # JAX's own dtype
jax.config.update("jax_enable_x64", True)


def f(p, k):
    w = np.zeros(2)
    w[:] = p["a"] ** 3 * k * p["n"]
    return np.sum(w)


x, example = np.array([1.0, 2.0]), {"a": np.zeros(2), "n": 3}
g = as_jax_function(f, example, 2.0)
of_a = lambda a: g({"a": a, "n": 3}, 2.0)  # noqa: E731
plain = lambda a: f({"a": a, "n": 3}, 2.0)  # noqa: E731
assert np.allclose(of_a(x), plain(x))
assert np.allclose(jax.grad(of_a)(x), nt.grad(plain)(x))
assert np.allclose(jax.grad(g, 1)({"a": jnp.array(x), "n": 3}, 2.0), 27.0)
assert np.allclose(jax.jit(jax.jacrev(jax.grad(of_a)))(x), nt.hessian(plain)(x))
third = jax.jit(jax.jacrev(jax.jacrev(jax.grad(of_a))))(x)
assert np.allclose(third, nt.jacobian(nt.hessian(plain))(x))
assert np.allclose(jax.jit(jax.vmap(jax.grad(of_a)))(jnp.ones((3, 2))), 18.0)

several = as_jax_function(lambda x, y: {"s": x * y, "t": np.sum(y)}, np.zeros(2), np.zeros(2))
rows = jax.jit(jax.jacrev(several, argnums=(0, 1)))(x, x + 1)
wanted = nt.jacobian(lambda x, y: {"s": x * y, "t": np.sum(y)}, argnums=(0, 1))(x, x + 1)
for name in ("s", "t"):
    for found, expected in zip(rows[name], wanted[name], strict=True):
        assert np.allclose(found, expected)

start = {"mu": 0.0, "sigma": 1.0}
y = np.array([1.0, 2.0, 3.0])


def logp(p):
    return np.sum(-0.5 * ((y - p["mu"]) / p["sigma"]) ** 2 - np.log(p["sigma"])) - p["sigma"] ** 2


density = transforms.unconstrained(logp, start, {"sigma": transforms.positive})
logdensity, potential = to_blackjax(density), to_numpyro(logp, start, {"sigma": transforms.positive})
assert np.allclose(logdensity(jnp.ones(2)), density(np.ones(2)))
assert np.allclose(potential(jnp.ones(2)), -density(np.ones(2)))
assert np.allclose(jax.grad(logdensity)(jnp.ones(2)), nt.grad(density)(np.ones(2)))

# A start at which the density is not finite is refused, with the term.
for make, sampler in ((to_blackjax, "blackjax"), (to_numpyro, "numpyro")):
    with pytest.raises(nt.SpecError, match=rf"nan; {sampler} needs .*log is nan, at .*jax_functions.py"):
        make(logp, {**start, "sigma": -1.0})

# What does not fit is named before JAX calls back, for its own error then is a page long.
for wrong, message in [(start, "vector of 2 numbers.* got dict"), (jnp.ones(3), r"got shape \(3,\)")]:
    with pytest.raises(TypeError, match=message):
        jax.grad(logdensity)(wrong)
with pytest.raises(TypeError, match=r"argument 0 has the shape \(3,\), its example \(2,\)"):
    jax.jit(several)(jnp.ones(3), jnp.ones(3))
with pytest.raises(TypeError, match="argument 0 has the structure"):
    g({"b": x}, 2.0)
with pytest.raises(TypeError, match=r"2 arguments .*, got 1"):
    jax.grad(several)(x)


@dataclass
class Scales:
    a: np.ndarray
    b: float


product = lambda p: np.sum(p.a) * p.b  # noqa: E731
scales = Scales(np.ones(2), 2.0)
for wrong, value, where in [(product, scales, "an example"), (lambda b: Scales(b, 1.0), 2.0, "the result")]:
    with pytest.raises(TypeError, match=f"{where} is or contains a Scales.*register_dataclass"):
        as_jax_function(wrong, value)
jax.tree_util.register_dataclass(Scales, ["a", "b"], [])
assert jax.jit(jax.grad(as_jax_function(product, scales)))(scales).b == 2.0

if importlib.util.find_spec("blackjax"):
    import blackjax

    nuts = blackjax.nuts(logdensity, step_size=0.5, inverse_mass_matrix=np.ones(2))
    state, keys = jax.jit(nuts.init)(jnp.array(density.start)), jax.random.split(jax.random.key(0), 300)

    def turn(state, key):
        state, _ = nuts.step(key, state)
        return state, state.position

    _, positions = jax.jit(lambda state, keys: jax.lax.scan(turn, state, keys))(state, keys)
    assert abs(np.mean(density.constrain(np.asarray(positions))["mu"]) - 2.0) < 0.4

if importlib.util.find_spec("numpyro"):
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(NUTS(potential_fn=potential), num_warmup=100, num_samples=200, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params=jnp.array(potential.density.start))
    draws = potential.density.constrain(np.asarray(mcmc.get_samples()))
    assert abs(np.mean(draws["mu"]) - 2.0) < 0.4

# JAX's own functions take no traced value, and say so in their own words
for of_jax in (lambda x: jnp.sum(jnp.sin(x)), lambda x: jnp.asarray(x)[0], lambda x: jnp.ones(2) @ x):
    with pytest.raises(nt.UnsupportedOperationError, match=r"takes plain arrays only.*use NumPy's functions"):
        nt.grad(of_jax)(np.ones(2))
