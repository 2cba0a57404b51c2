"""Calls with lanes (loops, branches, rules): lanes may differ in data, and in what is differentiated."""

import functools

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt

rule = nt.primitive(
    lambda w, x: np.sin(w) * x[0] + w * w * x[1],
    pullback=lambda ct, z, w, x: (
        np.sum(ct * (np.cos(w) * x[0] + 2 * w * x[1])),
        np.stack([np.sum(ct * np.sin(w)), np.sum(ct * w * w)]),
    ),
)

CALLS = {
    "first carry": lambda w, x: nt.scan(lambda c, y: (c * y + np.sin(c), c), w, x),
    "captured": lambda w, x: nt.scan(lambda c, y: (c * w + y * np.sin(w), None), 0.3, x)[0],
    "both": lambda w, x: nt.scan(lambda c, y: (c * w + y, c * x[0]), w, x),
    "data only": lambda w, x: nt.scan(lambda c, y: (c * y + 1.0, None), 0.5, x)[0] * w,
    "counted": lambda w, x: nt.fori_loop(0, 2, lambda i, c: c * w + x[i], 1.0),
    "tested": lambda w, x: nt.while_loop(lambda c: c < 5, lambda c: c * 1.5 + w, np.exp(x[0])),
    "branches on data": lambda w, x: nt.cond(x[0] > 0, lambda z: z * x[1], lambda z: z**3, w),
    "branches on both": lambda w, x: nt.cond(x[0] * w > 0, lambda z: z * x[1], lambda z: z**3, w),
    "rule": rule,
    "matrix rule": lambda w, x: scipy.linalg.sqrtm(np.outer(x, x) + np.eye(2) * (3 + w)),
    "map": lambda w, x: nt.map(lambda y: np.sin(w * y), x),
}
ROWS = np.array([[0.7, -0.4], [-0.9, 0.2], [1.1, 0.8]])
each = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def total(parts):
    parts = [part for part in (parts if isinstance(parts, tuple) else (parts,)) if part is not None]
    return sum(np.sum(np.sin(part)) for part in parts)


def mapped(call):
    return lambda w, rows: total(nt.vmap(call, in_axes=(None, 0))(w, rows))


def looped(call):
    def function(w, rows):
        found = [call(w, np.copy(row)) for row in rows]
        if not isinstance(found[0], tuple):
            return total(np.stack(found))
        columns = [column for column in zip(*found, strict=True) if column[0] is not None]
        return total(tuple(np.stack(column) for column in columns))

    return function


@functools.cache
def derivatives_of_the_loop(call, count):
    """Return gradient and Hessian for both arguments; those for one are parts of them."""
    return tuple(verb(looped(call), argnums=(0, 1))(0.7, ROWS[:count]) for verb in (nt.grad, nt.hessian))


@each
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)], ids=["shared", "rows", "shared and rows"])
@pytest.mark.parametrize("count", [3, 1], ids=["three", "one"])
def test_first_and_second_order(call, argnums, count):
    gradient, hessian = derivatives_of_the_loop(call, count)
    if argnums != (0, 1):
        gradient, hessian = gradient[argnums], hessian[argnums][argnums]
    for verb, wanted, rtol in ((nt.grad, gradient, 1e-12), (nt.hessian, hessian, 1e-10)):
        found = verb(mapped(call), argnums=argnums)(0.7, ROWS[:count])
        pairs = zip(_leaves(found), _leaves(wanted), strict=True)
        for own, other in pairs:
            np.testing.assert_allclose(own, other, rtol, 1e-12)


@each
def test_directions(call):
    found = nt.jvp(nt.grad(lambda w: mapped(call)(w, ROWS)), (0.7,), (1.0,))
    gradient, hessian = derivatives_of_the_loop(call, 3)
    np.testing.assert_allclose(found, (gradient[0], hessian[0][0]), 1e-10)


@each
def test_third_order(call):
    D = nt.derivative
    found, wanted = (D(D(D(lambda w, way=way: way(call)(w, ROWS))))(0.7) for way in (mapped, looped))
    np.testing.assert_allclose(found, wanted, 1e-9)


@each
def test_a_map_of_jacobians(call):
    derivative = nt.grad(lambda w, x: total(call(w, x)))
    found = nt.vmap(nt.jacobian(derivative), in_axes=(None, 0))(0.7, ROWS)
    np.testing.assert_allclose(found, [nt.jacobian(derivative)(0.7, row) for row in ROWS], 1e-10)


def _leaves(tree):
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple) else [tree]
