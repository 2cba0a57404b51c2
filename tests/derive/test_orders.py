"""Laws between derivatives of first to third order, whichever way they are nested."""

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt

X, V, U = np.random.default_rng(3).normal(size=(3, 4)) * 0.7


def arrays(x):
    m = np.outer(np.tanh(x), x[::-1]) + 0.3 * np.sin(x)[:, None]
    v = np.linalg.solve(m + m.T + 6.0 * np.eye(4), np.cumsum(x[np.array([0, 2, 2, 1])]))
    y = x * 1.0
    y[1:3] *= v[:2]
    return np.sum(np.log1p(y**2)) - 0.5 * np.sum((x * v) ** 2) + sc.logsumexp(v + np.max(x)) + x @ m @ v


def control_flow(x):
    step = nt.function(lambda t, u: np.tanh(t * u) + t**2)
    last, rows = nt.scan(lambda c, z: (0.5 * c + np.sin(z) * c[0], c * z), x, x[:2])
    y = nt.cond(x[0] > 0.03, lambda t: t**2 * np.cos(t), lambda t: np.sin(t) + t**3, last)
    for k in range(3):
        y = 0.6 * y + 0.4 * np.sin(y * x[k])
    return (
        np.sum(step(y, x)) + np.mean(np.where(rows > 0.1, rows**2, np.expm1(rows))) + np.prod(1.0 + x / 9.0)
    )


@pytest.mark.parametrize("f", [arrays, control_flow])
def test_all_ways_to_nest_derivatives_agree(f):
    hessian = nt.hessian(f)(X)
    other = nt.prepare_hessian_cache(f, X, config=nt.Config(second_order_mode="forward_over_reverse"))
    product = nt.hvp(f)(X, V)
    third = nt.jvp(lambda y: nt.hvp(f)(y, V), (X,), (U,))[1]

    def along(g, t):
        return lambda y: nt.jvp(g, (y,), (t,))[1]

    laws = {
        "symmetric": (hessian.T, hessian),
        "forward over reverse": (nt.value_gradient_and_hessian(other, X)[2], hessian),
        "reverse over reverse": (nt.jacobian(nt.grad(f))(X), hessian),
        "forward over forward": (along(along(f, V), U)(X), U @ hessian @ V),
        "product": (product, hessian @ V),
        "sparse": (nt.sparse_hessian(f)(X).toarray(), hessian),
        "lanes": (nt.vmap(nt.hessian(f))(np.stack([X, X]))[1], hessian),
        "Hessian of lanes": (nt.hessian(lambda y: np.sum(nt.vmap(f)(y)))(X[None])[0, :, 0], hessian),
        "third, reverse last": (nt.grad(lambda y: U @ nt.hvp(f)(y, V))(X), third),
        "third, Jacobian of Hessian": (nt.jacobian(nt.hessian(f))(X) @ U @ V, third),
        "third, forward": (along(along(along(f, U), V), U)(X), U @ third),
        "third, reverse": (nt.grad(lambda z: V @ nt.grad(lambda y: U @ nt.grad(f)(y))(z))(X), third),
    }
    for law, (found, expected) in laws.items():
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12 * np.abs(third).max(), err_msg=law)


def test_literals_among_coefficients_are_multiplied_when_the_tape_is_made():
    cache = nt.prepare_hessian_cache(lambda x: np.sin(x[0]) - 0.5 * np.sum(x[1:] ** 2), X)
    found = nt.value_gradient_and_hessian(cache, X)[2]
    np.testing.assert_allclose(found, -np.diag([np.sin(X[0]), 1.0, 1.0, 1.0]), rtol=1e-15)
    (variant,) = cache._wide.program.snapshot()
    tape = variant.tape
    literals = {(its.storage, its.offset) for its in tape.literals if its.data.size == 1}
    for row in tape.instructions():
        operands = [tuple(tape.values[value].item()[:2]) for value in row.operands]
        assert len(operands) < 2 or not literals.issuperset(operands), tape.name_of(
            tape.instructions().index(row)
        )
