"""Loops of which several steps become one: results stay those of the Python loop, for every length."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.ops import OPS
from tests.control.python_loops import Python
from tests.control.scan_programs import checked

RNG = np.random.default_rng(8)
LENGTH = 50
Y = RNG.normal(size=LENGTH)
T = np.array([0.8, 0.7, -0.5, 0.6])


def hmm(flow, t, y=Y):
    """A hidden Markov model: a product of matrices, a sum and a quotient of two entries."""
    transition = np.stack([np.stack([t[0], 1.0 - t[0]]), np.stack([1.0 - t[1], t[1]])])

    def step(carry, v):
        belief, total = carry
        joint = (belief @ transition) * np.exp(-0.5 * (v - t[2:]) ** 2)
        evidence = np.sum(joint)
        return (joint / evidence, total + np.log(evidence)), evidence

    (belief, total), evidence = flow.scan(step, (np.full(2, 0.5), 0.0), y)
    return total + belief[0] * np.sum(np.sin(evidence))


def in_turn(flow, t, y=Y):
    """Carries that change places, one that is stacked as it is before each step, and one that is copied."""

    def step(carry, v):
        a, b, c = carry
        following = np.tanh(t[0] * b + v) * a
        return (b, following, a), (a + 0.0, b * c, following)

    last, stacks = flow.scan(step, (t[1], t[2], 0.3), y, reverse=True)
    return sum(last) + sum(np.sum(np.cos(rows)) for rows in stacks)


def matrices(flow, t, y=Y):
    """Views, transposes, broadcasts, writes to entries, literals among entries, and dots."""
    turn = np.array([[0.5, -0.4], [0.3, 0.6]])

    def step(carry, v):
        w, state = carry
        rows = np.zeros(2)
        rows[0], rows[1] = np.sin(v * state[1]), t[1] * state[0]
        product = turn.T @ w[:, ::-1]
        shifted = np.array([state[0], 0.5]) * 0.5
        w = 0.5 * product + rows[:, None] * 0.1
        return (w, np.tanh(w @ state + shifted)), state @ w[0]

    (w, state), stacked = flow.scan(step, (np.outer(t[:2], t[2:]), t[:2]), y)
    return np.sum(w) + np.sum(state) + np.sum(stacked**2)


def wide(flow, t, y=Y):
    """Arrays that are too large for instructions on their entries; carries that change places."""
    turn = np.linspace(-0.4, 0.4, 25).reshape(5, 5)

    def step(carry, v):
        a, b = carry
        product = np.tanh(a @ turn[:, ::-1]).T
        return (b[:5] * t[0] + product, np.concatenate([b[1:], v * a[:1]])), (a + 0.0, product[1:3], b)

    last, stacks = flow.scan(step, (np.outer(t, np.ones(5))[0] + 0.1, np.full(6, t[1])), y, reverse=True)
    return sum(np.sum(z) for z in last) + sum(np.sum(np.cos(rows)) for rows in stacks)


def single(flow, t, y=Y):
    """Arrays of one entry: cotangents of the last carry are added up before its derivative is taken."""
    w = t[:1] * 0.5

    def step(carry, v):
        return 0.4 * np.tanh(w + 0.5 * carry) + 0.1 * v, 0.0 + carry

    last, stacked = flow.scan(step, 0.3 * w, y)
    return np.sum(last) + np.sum(stacked) * t[1]


def stopped(flow, t, y=Y):
    """What has no derivative takes no adjoint."""

    def step(carry, v):
        z = np.sin(carry * t[0] + v) * nt.stop_gradient(carry * t[1])
        return z, z

    last, stacked = flow.scan(step, 0.3 + 0.0 * t[0], y)
    return last + np.sum(stacked)


def substeps(flow, t, y=Y):
    """Short loops in the body of a long one: outputs that are carries, parts, or there twice; a counter."""

    def step(carry, v):
        def small(inner, row):
            z, k = inner
            following = np.tanh(z * row + t[0]) * np.where(k % 2 == 0, 1.0, t[1])
            following[1] = 0.5 * z[0]
            return (following, k + 1), (z, following, following, following[1:], k)

        (carry, k), stacks = flow.scan(small, (carry, 0), np.array([0.3, v, -0.2]), reverse=True)
        carry = flow.fori_loop(1, 3, lambda i, z: np.sin(z * i + t[2]), carry)
        first, second = (
            sum(np.sum(np.cos(rows) * rows[0]) for rows in part) for part in (stacks, stacks[:3])
        )
        return carry, first + second * k

    last, stacked = flow.scan(step, t[1:] * 0.5, y)
    return np.sum(last) + np.sum(np.sin(stacked))


PROGRAMS = [hmm, in_turn, matrices, wide, single, stopped]


def bodies(f, *arguments):
    return [len(loop.body) for loop in nt.prepare_gradient_cache(f, *arguments).tape.calls]


@pytest.mark.parametrize("f", PROGRAMS)
def test_several_steps_are_one(f):
    several, one = bodies(lambda t: f(nt, t), T)
    assert several > 2 * one


@pytest.mark.parametrize("f", [*PROGRAMS, substeps])
def test_derivatives_are_those_of_the_python_loop(f):
    scanned, looped = (lambda t, flow=flow: f(flow, t) for flow in (nt, Python))
    v = np.array([0.3, -1.0, 0.5, 0.2])
    points = np.stack([T, 1.1 * T])
    for verb, arguments in (
        (nt.value_and_grad, (T,)),
        (nt.hvp, (T, v)),
        (nt.batch, (points,)),
    ):
        found, wanted = verb(scanned)(*arguments), verb(looped)(*arguments)
        for part, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(part, want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        nt.jvp(scanned, (T,), (v,)), nt.jvp(looped, (T,), (v,)), rtol=1e-10, atol=1e-12
    )


def test_short_loops_in_bodies_are_written_out_but_segments_are_not():
    def f(t, checkpoint=None):
        def step(z, v):
            return np.sin(z * v + t), None

        def outer(z, v):
            return nt.scan(step, z, np.array([0.1, 0.2]))[0], None

        return nt.scan(outer if checkpoint is None else step, 0.5, Y[:8], checkpoint=checkpoint)[0]

    def inner(*arguments):
        return [
            loop.body.calls for loop in nt.prepare_gradient_cache(lambda t: f(t, *arguments), 0.3).tape.calls
        ]

    assert not any(inner())
    assert any(inner(4))


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_length_of_an_argument_does_not_change_the_tape(f):
    short, long = (nt.prepare_gradient_cache(lambda t, y: f(nt, t, y), T, Y[:n]).tape for n in (2, LENGTH))
    assert short.digest == long.digest


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_serves_every_length(f):
    cache = nt.prepare_gradient_cache(lambda t, y: f(nt, t, y), T, Y[:2])
    for n in (1, 12, 19, 20, 24, 41, 100):
        y = RNG.normal(size=n)
        value, parts = nt.value_and_gradient(cache, T, y)
        again, wanted = nt.value_and_grad(lambda t, y: f(Python, t, y), argnums=(0, 1))(T, y)
        np.testing.assert_allclose(value, again, rtol=1e-12)
        for part, want in zip(parts, wanted, strict=True):
            np.testing.assert_allclose(part, want, rtol=1e-10, atol=1e-12)
    assert cache.traces == 1


@pytest.mark.parametrize("seed", range(100, 106))
def test_a_random_scan_of_many_steps_is_what_its_python_loop_is(seed):
    checked(seed, second=seed % 3 == 0, length=LENGTH)


def test_a_long_body_is_left_as_it_is():
    def f(t):
        def step(carry, v):
            for _ in range(70):
                carry = np.sin(carry) + v
            return carry, None

        return nt.scan(step, t[0], Y)[0]

    assert len(bodies(f, T)) == 1


def test_arrays_of_many_entries_stay_arrays():
    several, one = nt.prepare_gradient_cache(lambda t: wide(nt, t), T).tape.calls
    names = [[loop.body.ops.names[row.row] for row in loop.body.instructions()] for loop in (several, one)]
    assert names[0].count("matmul") > names[1].count("matmul") == 1


def test_the_last_result_is_the_first_operand_of_what_commutes():
    """A sweep has it in a register there, whichever order the body was written in."""

    def logistic(t, x):
        return nt.scan(lambda c, _: (t * c * (1.0 - c), None), x, None, length=200)[0]

    (loop, *_) = nt.prepare_gradient_cache(logistic, 0.9, 0.4).tape.calls
    code = loop.body.code
    commutes = np.isin(code["op"] >> 1, [k for k, op in enumerate(OPS) if getattr(op, "commutes", False)])
    assert commutes.sum() > 20
    assert not np.any(commutes[1:] & (code["b"][1:] == code["out"][:-1]))
    assert np.count_nonzero(commutes[1:] & (code["a"][1:] == code["out"][:-1])) > 20


def test_instructions_that_are_alike_come_together():
    """A sweep goes from one to the next without looking the op up: five groups in each step of nine."""
    (loop, *_) = nt.prepare_gradient_cache(lambda t: hmm(nt, t), T).tape.calls
    ops = loop.body.code["op"]
    assert np.count_nonzero(ops[1:] != ops[:-1]) <= 0.6 * len(ops)
