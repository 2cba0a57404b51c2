"""Users' rules, and matrix functions that are rules, in bodies: as in the Python loop, in every mode."""

import functools

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt
from tests.control.python_loops import Python

X = np.array([0.3, 0.7, 1.2])
V = np.array([0.2, 1.0, -0.4])

cube = nt.primitive(lambda x: x**3, pullback=lambda ybar, y, x: (3.0 * ybar * x**2,))
both = nt.primitive(
    lambda x, a: np.exp(a * x),
    pullback=lambda ybar, y, x, a: (ybar * a * y, np.sum(ybar * x * y)),
    pushforward=lambda t, y, x, a: (
        y * ((0.0 if t[0] is None else a * t[0]) + (0.0 if t[1] is None else x * t[1]))
    ),
)


def squares(x, workspace):
    workspace.kept[:] = 2.0 * x
    return x**2


buffered = nt.primitive(
    squares,
    pullback=lambda ybar, y, x, workspace: (ybar * workspace.kept,),
    pushforward=lambda t, y, x, workspace: 2.0 * x * t[0],
    workspace=lambda spec: {"kept": (spec.shape, spec.dtype)},
)


def of_a_carry(loops, x):
    return loops.scan(lambda c, v: (cube(c * v) + x[0], c), 0.8, x)[0]


def of_two_arguments(loops, x):
    last, rows = loops.scan(lambda c, v: (both(c, v), np.sum(c)), 0.1 * x, 0.3 * x)
    return np.sum(last) * np.sum(rows)


def with_memory(loops, x):
    return np.sum(loops.scan(lambda c, v: (buffered(c + v), None), 0.1 * x, x)[0])


def of_a_matrix(loops, x):
    A = np.outer(x, x) + np.diag(np.arange(1.0, 4.0))

    def step(c, v):
        return np.linalg.svd(A + v * np.diag(c), compute_uv=False), None

    return np.sum(loops.scan(step, x, x)[0])


def in_a_loop_in_a_loop(loops, x):
    return loops.fori_loop(
        0, 3, lambda i, c: loops.scan(lambda d, v: (cube(0.5 * d + v), None), c, x)[0], 0.2
    )


PROGRAMS = {
    f.__name__: f for f in (of_a_carry, of_two_arguments, with_memory, of_a_matrix, in_a_loop_in_a_loop)
}
MODES = {
    "gradient": lambda f: nt.value_and_grad(f)(X),
    "forward": lambda f: nt.jvp(f, (X,), (V,)),
    "hessian": lambda f: nt.hessian(f)(X),
    "product": lambda f: nt.hvp(f)(X, V),
    "gradient of a gradient": lambda f: nt.grad(lambda x: nt.grad(f)(x) @ V)(X),
    "gradient of a forward derivative": lambda f: nt.grad(lambda x: nt.jvp(f, (x,), (V,))[1])(X),
    "batch": lambda f: nt.batch(f)(np.stack([X, 1.1 * X])),
}


def flat(tree):
    parts = tree if isinstance(tree, tuple) else (tree,)
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_in_a_body(name, mode):
    found, expected = (flat(MODES[mode](functools.partial(PROGRAMS[name], loops))) for loops in (nt, Python))
    scale = 1.0 + np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("mode", MODES)
def test_rules_in_a_sub_tape(mode):
    g = nt.function(lambda x, a: both(cube(x), a) + buffered(x))
    f, plain = (lambda x, g=g: np.sum(g(g(x, x[0]), 0.3) * x) for g in (g, g.__wrapped__))
    np.testing.assert_allclose(flat(MODES[mode](f)), flat(MODES[mode](plain)), rtol=1e-11, atol=1e-11)


def test_a_pullback_that_branches_on_values():
    rule = nt.primitive(abs, pullback=lambda ybar, y, x: (ybar if x > 0 else -ybar,))
    f = lambda x: nt.scan(lambda c, v: (c + rule(v), None), 0.0, x)[0]  # noqa: E731
    np.testing.assert_array_equal(nt.grad(f)(X - 0.5), [-1.0, 1.0, 1.0])
    with pytest.raises(nt.UnsupportedOperationError, match=r"rule in its body branches on a value.*np.where"):
        nt.jvp(f, (X - 0.5,), (V,))


def test_exponentials_of_matrices_that_differ_from_step_to_step():
    """Their squarings differ, too, which no guard of a body can ask for."""
    generator, times = np.array([[-1.0, 1.0], [0.4, -0.4]]), np.array([0.1, 2.0, 30.0])

    def f(scale):
        step = lambda state, t: (state @ scipy.linalg.expm(scale * t * generator), state[0])  # noqa: E731
        return np.sum(nt.scan(step, np.array([1.0, 0.0]), times)[1])

    def unrolled(scale):
        state, total = np.array([1.0, 0.0]), 0.0
        for t in times:
            total = total + state[0]
            state = state @ scipy.linalg.expm(scale * t * generator)
        return total

    np.testing.assert_allclose(nt.grad(f)(1.3), nt.grad(unrolled)(1.3), rtol=1e-12)
    second = nt.grad(nt.grad(f))(1.3), nt.grad(nt.grad(unrolled))(1.3)
    np.testing.assert_allclose(*second, rtol=1e-11)
