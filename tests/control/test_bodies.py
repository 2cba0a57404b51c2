"""What a loop's tape is made of: its body, what it captures, and what it keeps for derivatives."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import scipy.interpolate
import scipy.spatial.distance
import scipy.special
import scipy.stats

import numbatape as nt
from numbatape.derive.tapes import adjoint, pushforward
from numbatape.engine.plan import make_plan
from numbatape.engine.workspace import Workspace
from numbatape.errors import VerificationError
from numbatape.tape.loop import CAPTURE

X = np.array([0.3, -0.7, 1.2])


def decay(x):
    return nt.scan(lambda c, v: (np.sin(c * v) * np.exp(x[0]), None), 1.0, x)[0]


def test_a_length_of_any_size_has_one_tape():
    # A long loop has two bodies: one of several steps, and one for the steps that are left.
    for lengths in ((2, 20), (70, 500, 4000)):
        sizes = {n: len(nt.prepare_gradient_cache(decay, np.ones(n)).tape) for n in lengths}
        assert len(set(sizes.values())) == 1


def test_what_is_the_same_in_all_steps_is_computed_once():
    tape = nt.prepare_gradient_cache(decay, X).tape
    for loop in tape.calls:
        names = {tape.ops.names[row.row] for row in loop.body.instructions()}
        assert {"sin", "mul"} <= names
        assert "exp" not in names
        assert [port.role for port in loop.ports].count(CAPTURE) == 1


def test_carries_are_kept_for_derivatives_alone():
    """A pushforward starts from the carries before each step; nothing starts from its own carries."""
    cache = nt.prepare_derivative_cache(decay, X)
    nt.value_and_derivative(cache, (X, X))
    values, pushforwards = cache.tape.calls[:2], cache.tape.calls[2:]
    assert all(loop.history is not None for loop in values)
    assert pushforwards
    alone = nt.prepare_gradient_cache(decay, X).tape.calls
    assert all(loop.history is None for loop in (*pushforwards, *alone))


def test_derivatives_do_not_run_an_inner_loop_again_to_keep_its_carries():
    def f(x):
        def outer(c, _):
            c, _ = nt.scan(lambda c, v: (np.sin(c * v), None), c, x)
            return c, c

        return np.sum(nt.scan(outer, np.sum(x), None, length=4)[1])

    def in_python(x):
        total, c = 0.0, np.sum(x)
        for _ in range(4):
            for v in x:
                c = np.sin(c * v)
            total = total + c
        return total

    np.testing.assert_allclose(nt.hessian(f)(X), nt.hessian(in_python)(X), rtol=1e-12)
    first = pushforward(nt.prepare_gradient_cache(f, X).tape, X.shape)
    second = adjoint(first, (*X.shape, *X.shape))
    names = [[its.name for its in loop.body.calls] for loop in second.calls]
    # The adjoint of a step's tangent has the loop, its tangents, and the adjoints of both; each is two loops,
    # the first of which takes several steps at once.
    assert max(map(len, names)) == 8
    assert all(len(each) <= 2 * len({*each}) for each in names)


def test_the_digest_covers_the_body():
    def other(x):
        return nt.scan(lambda c, v: (np.cos(c * v) * np.exp(x[0]), None), 1.0, x)[0]

    tapes = [nt.prepare_gradient_cache(f, X).tape for f in (decay, other, decay)]
    assert tapes[0].digest == tapes[2].digest != tapes[1].digest


def test_the_verifier_looks_into_bodies():
    tape = nt.prepare_gradient_cache(decay, X).tape
    *others, loop = tape.calls
    code = loop.body.code.copy()
    code["a"][0] = len(loop.body.values) + 7
    broken = dataclasses.replace(loop, body=dataclasses.replace(loop.body, code=code))
    plan = make_plan(dataclasses.replace(tape, calls=(*others, broken)), (3,))
    with pytest.raises(VerificationError, match="no value of this tape"):
        Workspace(plan)


def test_positions_that_a_body_reads_and_the_tape_around_it_too():
    """They stay apart from what the tape hands to the body: nothing may write next to them later."""
    knots = np.linspace(0.0, 1.0, 4)

    def f(rows):
        def step(total, row):
            grid = np.linspace(0.0, 1.0, len(row))
            return total + np.sum(np.interp(knots, grid, row) ** 2), None

        return nt.scan(step, 0.0, rows)[0]

    rows = np.random.default_rng(0).normal(size=(3, 5))
    expected = [nt.grad(lambda row: f(row[None]))(row) for row in rows]
    np.testing.assert_allclose(nt.grad(f)(rows), expected, rtol=1e-12)


def test_slopes_over_steps_of_each_row_need_no_guard():
    """Whether steps are equal, or values finite, is a guard outside of bodies, which have none."""
    rng = np.random.default_rng(0)
    rows, places = rng.normal(size=(3, 5)), np.cumsum(rng.uniform(0.5, 1.0, (3, 5)), axis=1)

    def slopes(total, pair):
        row, place = pair
        return total + np.sum(np.gradient(row, place) ** 2), None

    f = lambda rows: nt.scan(slopes, 0.0, (rows, places))[0]  # noqa: E731
    expected = [
        nt.grad(lambda row, t=t: np.sum(np.gradient(row, t) ** 2))(row)
        for row, t in zip(rows, places, strict=True)
    ]
    np.testing.assert_allclose(nt.grad(f)(rows), expected, rtol=1e-12)


PLACES = np.linspace(-2.0, 2.0, 6)
ERRORS_OF_ENTRIES = {
    "nanargmax": lambda x: x[np.nanargmax(x)],
    "choose": lambda x: np.choose(np.argmax(x), [x[0], x[1], 3.0 * x[2]]),
    "geomspace": lambda x: np.geomspace(np.exp(x[0]), np.exp(x[1]), 4)[1],
    "cov": lambda x: np.cov(np.arange(6.0).reshape(2, 3) * x, aweights=np.exp(x))[0, 1],
    "average": lambda x: np.average(x, weights=np.exp(x)),
    "sort": lambda x: np.abs(np.sort(x * (1 + 2j)))[0],
    "poly": lambda x: np.abs(np.poly(x * (1 + 1j))[1]),
    "histogram": lambda x: np.histogram([0.1, 0.2, 0.5], 3, (x[0] - 1.0, x[0] + 9.0), weights=x)[0][0],
    "reciprocal": lambda x: np.reciprocal(1 + (x > 0).astype(int))[1] + x[0],
    "interp": lambda x: np.interp(x[0], np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0, 3.0])),
    "squareform": lambda x: np.sum(scipy.spatial.distance.squareform(np.abs(x[:, None] - x)) ** 2),
    "weighted distance": lambda x: scipy.spatial.distance.cosine(x, x**2 + 1.0, np.exp(x)),
    "complex logsumexp": lambda x: np.real(scipy.special.logsumexp(x * (1 + 2j))),
    "weighted logsumexp": lambda x: scipy.special.logsumexp(x, b=np.exp(x)),
    "shapiro": lambda x: scipy.stats.shapiro(x, nan_policy="raise")[0],
    "interp1d": lambda x: np.sum(scipy.interpolate.interp1d(PLACES, PLACES**2)(x)),
    "grid": lambda x: np.sum(scipy.interpolate.RegularGridInterpolator((PLACES,), PLACES**2)(x[:, None])),
    "splev": lambda x: np.sum(scipy.interpolate.splev(x, scipy.interpolate.splrep(PLACES, PLACES**2), ext=2)),
}


def summed(f, rows):
    return nt.scan(lambda total, row: (total + f(row), None), 0.0, rows)[0]


def test_places_outside_of_a_table_are_nan_in_a_step():
    """Outside of bodies SciPy's error is raised; it can't be a guard in one."""
    rows = np.array([[0.5], [9.0]])
    for name in ("interp1d", "grid", "splev"):
        run = nt.value_and_grad(partial(summed, ERRORS_OF_ENTRIES[name]))
        assert np.isfinite(run(rows[[0, 0]])[0])
        assert np.isnan(run(rows)[0])


@pytest.mark.parametrize("name", ERRORS_OF_ENTRIES)
def test_numpys_errors_about_entries_need_no_guard(name):
    """They are guards outside of bodies, and so is what depends on constants in a branch."""
    f, x = ERRORS_OF_ENTRIES[name], np.array([0.3, -0.7, 0.9])

    def step(total, row):
        return total + nt.cond(row[2] > 0.0, f, lambda row: row[0], row) + f(2.0 * row), None

    rows = np.stack([x, x[::-1] + 0.1])
    expected = [nt.grad(lambda row: step(0.0, row)[0])(row) for row in rows]
    found = nt.grad(lambda rows: nt.scan(step, 0.0, rows)[0])(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_choice_does_not_count_from_the_end_in_a_step():
    f = nt.value_and_grad(lambda x, k: nt.scan(lambda c, j: (c * np.choose(j, x), None), 1.0, k)[0])
    assert f(np.array([2.0, 3.0]), np.array([0, 1]))[0] == 6.0
    with pytest.raises((IndexError, ValueError)):
        f(np.array([2.0, 3.0]), np.array([0, -1]))


def _positions_twice(a):
    """Positions that are read as numbers, too: several steps at once kept them in rows of one result."""
    middle = np.sum(a[:, 0] > 0, keepdims=True) // 2
    return np.where(middle == 1, a[middle, 0], a[middle, 1] ** 2)[0]


BODIES = {
    "lstsq": lambda a: np.sum(np.linalg.lstsq(a, np.ones(4), rcond=None)[0]),
    "pinv": lambda a: np.sum(np.linalg.pinv(a) ** 2),
    "cutoff of pinv": lambda a: a[0, 1] * np.sum(np.linalg.pinv(np.ones((3, 1)), rcond=1e-9 * a[0, 0] ** 2)),
    "nanmedian": lambda a: np.nanmedian(np.where(a > 1.0, np.nan, a)),
    "nanmedian of columns": lambda a: np.sum(np.nanmedian(np.where(a > 1.0, np.nan, a), 0, keepdims=True)),
    "bincount": lambda a: np.sum(np.bincount((a[:, 0] > 0) + 1, weights=a[:, 1], minlength=3) ** 2),
    "positions": _positions_twice,
}


@pytest.mark.parametrize("name", BODIES)
def test_numpys_functions_whose_guards_a_body_cannot_ask(name):
    points = np.random.default_rng(3).normal(size=(17, 4, 2))
    body = BODIES[name]
    value, gradient = nt.value_and_grad(lambda x: np.sum(nt.map(body, x)))(points)
    expected, its = nt.value_and_grad(lambda x: sum(body(a) for a in x))(points)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, its, rtol=1e-10, atol=1e-13)


def test_what_numpys_functions_in_bodies_cannot_do_is_not_silent():
    matrices = np.stack([np.eye(2), np.ones((2, 2)), np.diag([1.0, 2.0])])
    inverses, gradient = nt.value_and_grad(
        lambda x: np.sum(nt.map(lambda a: np.linalg.pinv(a)[0, 0], x)[::2])
    )(matrices)
    assert inverses == pytest.approx(2.0)  # of a matrix of less than full rank it is NaN
    np.testing.assert_allclose(gradient[::2], [[[-1.0, 0.0], [0.0, 0.0]]] * 2, atol=1e-14)
    assert np.isnan(
        nt.grad(lambda x: np.sum(nt.map(lambda a: np.linalg.pinv(a)[0, 0], x)))(matrices)[1]
    ).all()

    def counts(x, bins):
        def body(c, row):
            bins, x = row
            return c + np.sum(np.bincount(bins, weights=x, minlength=2) ** 2), None

        return nt.scan(body, 0.0, (bins, x))[0]

    cache = nt.prepare_gradient_cache(counts, np.ones((2, 3)), nt.Constant(np.array([[0, 1, 1], [0, 0, 1]])))
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, np.ones((2, 3)), nt.Constant(np.array([[0, 1, 1], [0, 2, 1]])))


@pytest.mark.parametrize("same", [np.allclose, np.array_equal, np.array_equiv])
def test_comparisons_of_arrays_differ_from_step_to_step(same):
    rows = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]])

    def f(x):
        return np.sum(nt.map(lambda row: same(row, rows[0]) * np.sum(row**2), x))

    np.testing.assert_array_equal(nt.grad(f)(rows), [[2.0, 4.0], [0.0, 0.0], [2.0, 4.0]])
    np.testing.assert_array_equal(nt.grad(f)(rows[::-1] * 2.0), np.zeros((3, 2)))


def test_an_integer_of_many_lanes_reads_a_captured_array_in_a_step():
    """That it is the same in all lanes is a truth, which the trace with stand-ins does not ask for."""
    table = np.arange(1.0, 5.0)

    def f(x):
        def step(carry, _):
            k, total = carry
            rows = nt.vmap(lambda v: table[k + np.where(v > 5.0, 1, 0)] * v)(np.sin(x))
            return ((k + 1) % 3, total + np.sum(rows)), None

        return nt.scan(step, (np.int64(1), 0.0), None, 3)[0][1]

    x = np.array([0.3, 6.0, 0.5])
    value, gradient = nt.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, 6.0 * np.cos(x), rtol=1e-14)
