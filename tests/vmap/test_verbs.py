"""`nt.vmap` is a Python loop over an axis, alone and in every verb."""

import functools

import numpy as np
import optree
import pytest

import numbatape as nt
from numbatape.programs.one_way import OneWayWorkspace
from tests.vmap.row_programs import PROGRAMS

ROWS = np.array([[0.7, -0.4, 1.3], [-0.9, 0.2, 0.5], [1.1, 0.8, -0.6], [0.3, 1.7, 0.9]])
OTHERS = np.array([[-0.2, 1.4, 0.6], [0.5, 0.9, -1.2], [0.4, -0.7, 2.1]])  # other branches, another length
each = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


def looped(function, rows):
    """Return the results for all rows, stacked."""
    return optree.tree_map(lambda *parts: np.stack(parts), *[function(np.copy(row)) for row in rows])


def total(tree):
    return sum(np.sum(np.sin(leaf)) for leaf in optree.tree_leaves(tree))


def assert_equal(program, found, wanted, rtol=1e-12):
    rtol = 1e-6 if program is PROGRAMS["float32"] else rtol
    found, wanted = optree.tree_flatten(found), optree.tree_flatten(wanted)
    assert found[1] == wanted[1]
    for own, other in zip(found[0], wanted[0], strict=True):
        assert np.asarray(own).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(own, other, rtol, rtol)


def mapped_sum(program):
    return lambda rows: total(nt.vmap(program)(rows))


@functools.cache
def of_the_loop(program, verb, others=False):
    """Return a derivative of the sum over rows that Python goes through."""
    return verb(lambda rows: total(looped(program, rows)))(OTHERS if others else ROWS)


@each
def test_values(program):
    for rows in (ROWS, OTHERS, ROWS[:1]):
        assert_equal(program, nt.vmap(program)(rows), looped(program, rows), 1e-14)


@each
@pytest.mark.parametrize("verb", [nt.grad, nt.hessian], ids=["grad", "hessian"])
def test_derivatives_of_a_sum_over_rows(program, verb):
    mapped = verb(mapped_sum(program))
    for rows in (ROWS, OTHERS):
        assert_equal(program, mapped(rows), of_the_loop(program, verb, rows is OTHERS), 1e-11)


@each
def test_directions(program):
    value = total(looped(program, ROWS))
    slope = np.sum(of_the_loop(program, nt.grad) * ROWS).astype(np.asarray(value).dtype)
    assert_equal(program, nt.jvp(mapped_sum(program), (ROWS,), (ROWS,)), (value, slope))
    product = np.tensordot(of_the_loop(program, nt.hessian), ROWS)
    assert_equal(program, nt.hvp(mapped_sum(program))(ROWS, ROWS), product, 1e-11)


@each
def test_reverse_sweeps(program):
    """A prepared cache sweeps back over the function's own tape, for one length and for another."""
    cache = nt.prepare_gradient_cache(mapped_sum(program), ROWS)
    for rows in (ROWS, OTHERS, ROWS):
        wanted = of_the_loop(program, nt.grad, rows is OTHERS)
        assert_equal(program, nt.value_and_gradient(cache, rows)[1][0], wanted)


@each
@pytest.mark.parametrize("verb", [nt.grad, nt.value_and_grad], ids=["grad", "value_and_grad"])
def test_a_map_of_derivatives(program, verb):
    derivative = verb(lambda row: total(program(row)))
    assert_equal(program, nt.vmap(derivative)(ROWS), looped(derivative, ROWS))


@each
def test_the_jacobian_of_a_map(program):
    """A row's result depends on this row alone: with the slopes that the sum over rows has for it."""

    def mapped(rows):
        return nt.vmap(lambda row: total(program(row)))(rows)

    wanted = np.eye(len(ROWS))[:, :, None] * of_the_loop(program, nt.grad)
    dtype = np.asarray(total(looped(program, ROWS))).dtype
    assert_equal(program, nt.jacobian(mapped)(ROWS), wanted.astype(dtype))


def test_the_gradient_of_a_long_map_of_a_scan_is_one_forward_sweep():
    """All lanes of a loop go through its steps together forward, and one after another backwards."""

    def last(x):
        def step(c, row):
            c = np.tanh(c * x[0] + row * x[1])
            return c, c * c

        c, squares = nt.scan(step, 0.0 * x[0], np.linspace(0.0, 1.0, 40))
        return c + np.sum(squares)

    rows = np.random.default_rng(1).normal(size=(256, 2))
    cache = nt.prepare_gradient_cache(lambda x: np.sum(nt.vmap(last)(x)), rows)
    (space,) = cache._evaluator._workspaces.values()
    assert isinstance(space, OneWayWorkspace)
    for scale in (1.0, -1.0):  # a general call, then a steady one
        value, (gradient,) = nt.value_and_gradient(cache, scale * rows)
        values, gradients = nt.batch(last)(scale * rows)
        np.testing.assert_allclose(value, np.sum(values), rtol=1e-13)
        np.testing.assert_allclose(gradient, gradients, rtol=1e-11, atol=1e-13)
