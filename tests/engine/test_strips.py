"""Strips: value and gradient of functions of long vectors, computed some hundred entries at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools

import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape import jit
from numbatape.config import PASSES
from numbatape.derive.tapes import gradient
from numbatape.engine import Workspace, kernels, make_plan, segments
from numbatape.engine.codegen import elementwise_source
from numbatape.engine.moving.moving_spaces import MovingSpace
from numbatape.engine.replan import Replanner
from numbatape.engine.strips.strip_plan import strip_plan
from numbatape.engine.strips.strip_replan import StripReplanner
from numbatape.engine.strips.strip_rows import LEAST, STRIP
from numbatape.engine.vectors import pair_arms, single_arms
from numbatape.ops import OPCODE
from numbatape.ops.status import DONE
from numbatape.programs import one_way
from numbatape.programs.one_way import OneWayReplanner, OneWayWorkspace
from numbatape.steady_calls.elastic import ElasticEntry

N = LEAST + 3 * STRIP + 5  # the last strip is not full
RNG = np.random.default_rng(11)
X = RNG.normal(size=N)
POSITIVE = np.abs(X) + 0.1
DATA = RNG.normal(size=N)
GROUP = RNG.integers(0, 7, N)
MATRIX = RNG.normal(size=(N, 3))
ORDER = np.argsort(DATA)
COLUMNS = RNG.normal(size=(4, N))
WIDE = 0.1 * RNG.normal(size=(N, 21))


def normal(t, y=DATA):
    z = (y - t[0]) / np.exp(t[1])
    return np.sum(-0.5 * z**2 - t[1] - 0.9189385332046727)


def grouped(t):
    eta = t[0] + np.exp(t[1]) * t[2:9][GROUP] + MATRIX @ t[9:12]
    return np.sum(DATA * eta - np.logaddexp(0.0, eta)) - np.sum(t * t)


def written(x):
    out = np.zeros(N)
    out[1:] = np.sin(x[:-1]) * x[1:]
    out[0] = x[3]
    out *= np.exp(-out)
    return np.sum(out)


def overwritten(x):
    """Between the sine and the cosine of a vector, it is written to."""
    y = x * 1.0
    s = np.sin(y)
    y[:] = y * s
    return np.sum(np.cos(y) * s) + np.sum(np.sin(y))


def two_reductions(x):
    centred = x - np.mean(x)  # a second pass over the data, which needs the first one's result
    return np.log(np.sum(centred**2)) + np.dot(centred, DATA)


def additions(x):
    totals = np.zeros(7)
    np.add.at(totals, GROUP, np.sin(x))
    return np.sum(totals**2) + np.dot(np.bincount(np.sort(GROUP), weights=x * DATA), totals)


# A function and its argument. Operands that are shifted, reversed or strided must see whole vectors.
FUNCTIONS = {
    "chain": (lambda x: np.sum(np.sin(np.cos(np.exp(x)))), X),
    "sum of sines": (lambda x: np.sum(np.sin(x)), X),
    "normal": (normal, np.array([0.1, 0.2])),
    "groups": (grouped, RNG.normal(size=12)),
    "gathers": (lambda t: np.sum((DATA - np.exp(t)[GROUP - 7] - t[GROUP[::-1]] * X) ** 2), X[:7]),
    "gather of a long vector": (lambda x: np.sum(np.sin(x)[ORDER] * x * np.cos(x[ORDER])), X),
    "additions": (additions, X),
    "norms": (lambda x: np.dot(np.sin(x / np.linalg.norm(x)), DATA) * np.linalg.norm(x - DATA), X),
    "tanh": (lambda x: np.sum(np.tanh(x) * DATA), X),
    "expit": (lambda x: np.sum(scipy.special.expit(x) ** 2), X),
    "gammaln": (lambda x: np.sum(scipy.special.gammaln(x)), POSITIVE),
    "powers": (lambda x: np.sum(x**2.5 / (1.0 + x) - np.sqrt(x)), POSITIVE),
    "where": (lambda x: np.sum(np.where(DATA > 0.0, np.log(x), -x)), POSITIVE),
    "maximum": (lambda x: np.sum(np.maximum(x, 0.3) * np.minimum(x, DATA)), X),
    "neighbours": (lambda x: np.sum(np.exp(x[1:] - x[:-1]) * np.sin(x)[1:]), X),
    "reversed": (lambda x: np.sum(np.exp(x) * np.exp(x)[::-1]), 0.3 * X),
    "every second": (lambda x: np.sum(np.cos(x)[::2] * x[1::2][: (N + 1) // 2][0]), X),
    "written": (written, 0.5 * X),
    "one entry of a vector": (lambda x: np.sum(np.exp(x) * np.exp(x)[7]), 0.3 * X),
    "running sums": (lambda x: np.sum(np.sin(np.cumsum(x) / 50.0) * x), X),
    "two reductions": (two_reductions, X),
    "matrix": (lambda x: np.sum(np.sin(x * COLUMNS) * COLUMNS), X),
    "columns": (lambda x: np.sum(np.exp(x * COLUMNS.sum(axis=0)) ** 2), 0.1 * X),
    "linear": (lambda x: np.dot(x, DATA), X),
    "products": (lambda x: np.sum(np.cos(x @ MATRIX) + np.sin(x[:3] @ MATRIX.T) @ MATRIX), 0.01 * X),
    "wide products": (lambda t: np.sum(np.log1p((DATA - WIDE @ t - t @ WIDE.T) ** 2)), WIDE[0]),
    "rows of columns": (
        lambda t: np.sum(np.log1p((t @ COLUMNS - np.exp(COLUMNS[1:].T @ t[1:])) ** 2)),
        X[:4],
    ),
    "twice": (lambda x: np.sum(x * DATA) + np.sum(x * np.sin(DATA)), X),
}


def caches(name, **config):
    f, x = FUNCTIONS[name]
    plain = nt.Config(passes=PASSES, **config)
    return nt.prepare_gradient_cache(f, x, config=nt.Config(**config)), nt.prepare_gradient_cache(
        f, x, config=plain
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strips_keep_all_bits(name):
    """A gradient's tape gives the same bits strip by strip and by whole vectors."""
    f, x = FUNCTIONS[name]
    outputs_in_strips_and_whole(f, x)


def outputs_in_strips_and_whole(f, *args):
    """Hold value and gradient strip by strip to those by whole vectors; return them, none without strips."""
    captured = nt.prepare_gradient_cache(f, *args, config=nt.Config(passes=PASSES))._space
    dimensions = captured.plan.dimensions
    derived = gradient(captured.plan.tape, dimensions)
    plans = strip_plan(derived, dimensions), make_plan(derived, dimensions)
    if plans[0] is None:
        return ()
    spaces = [Workspace(plan) for plan in plans]
    for space in spaces:
        for cells, its in zip(space.inputs, captured.inputs, strict=True):
            cells[...] = its
        with formulas_of(plans[0].strips.opcodes if space is spaces[1] else ()):
            for _ in range(2):
                assert space.forward() == DONE
    for strips, whole in zip(*(space.outputs for space in spaces), strict=True):
        np.testing.assert_array_equal(strips, whole)
    return spaces[0].outputs


@contextlib.contextmanager
def formulas_of(opcodes):
    """Let the ops that these kernels of blocks compute in pairs have the bits of their formulas."""
    pairs = [ops for opcode, *ops in pair_arms() if opcode in opcodes]
    before = kernels.FORWARD.copy()
    for op in {op for pair in pairs for op in pair if op.loop}:
        text = elementwise_source(dataclasses.replace(op, loop=None), "f64", "fast", "forward")
        kernels.FORWARD[2 * OPCODE[op.name]] = jit.load(f"{op.name}-formula", text).address["forward"]
    yield
    kernels.FORWARD[:] = before


def pairs_of(plan) -> list[str]:
    names = {opcode: f"{one.name} {other.name}" for opcode, one, other in pair_arms()}
    return sorted(names[opcode] for opcode in plan.strips.opcodes if opcode in names)


def sharing(x):
    """A sine and a cosine of one vector, which are read twice, and a sine of another one."""
    s, c = np.sin(x), np.cos(x)
    y = c * s + np.tanh(s)
    y[1:] += np.tanh(c)[:-1] * np.sin(x + 1.0)[1:]
    return np.sum(y * np.sinh(x)) + np.sum(c[::2])


# Functions whose tapes have instructions that strips compute in pairs, and these pairs.
PAIRS = {
    "tanh": (lambda x: np.sum(np.tanh(x) * DATA), ["tanh tanh_slope"]),
    "expm1": (lambda x: np.sum(np.expm1(x) ** 2), ["expm1 exp"]),
    "sinh": (lambda x: np.sum(np.sinh(x) * x), ["sinh cosh"]),
    "cosh": (lambda x: np.sum(np.cosh(x)), ["cosh sinh"]),
    "sine": (lambda x: np.sum(np.sin(x) * x), ["sin cos"]),
    "cosine": (lambda x: np.sum(np.cos(x) ** 2), ["cos sin"]),
    "both": (lambda x: np.sum(np.sin(x) * np.cos(x)), ["sin cos"]),
    "layers": (lambda x: np.sum(np.tanh(DATA * np.tanh(x) + x)), ["tanh tanh_slope"]),
    "shifted": (lambda x: np.sum(np.tanh(x)[1:] * x[:-1]) + np.sum(np.tanh(x)), ["tanh tanh_slope"]),
    "overwritten": (overwritten, ["sin cos"]),
    "sharing": (sharing, ["sin cos", "sinh cosh", "tanh tanh_slope"]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_have_the_bits_of_their_formulas(name):
    f, pairs = PAIRS[name]
    outputs_in_strips_and_whole(f, X)
    cache = nt.prepare_gradient_cache(f, X)
    plan = cache._space.plan
    assert set(pairs) <= set(pairs_of(plan)), pairs_of(plan)
    two = nt.prepare_gradient_cache(f, X, config=nt.Config(passes=PASSES))
    for at in (X, X[::-1].copy()):
        (value, (slopes,)), (its, (its_slopes,)) = (nt.value_and_gradient(each, at) for each in (cache, two))
        np.testing.assert_allclose(value, its, rtol=1e-13)
        np.testing.assert_allclose(slopes, its_slopes, rtol=1e-13, atol=1e-13)
    numpys = nt.prepare_gradient_cache(f, X, config=nt.Config(values="numpy"))
    assert not pairs_of(numpys._space.plan)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("values", ["fast", "numpy"])
def test_gradients_by_one_sweep_and_by_two(name, values):
    f, x = FUNCTIONS[name]
    one, two = caches(name, values=values)
    for at in (x, 1.01 * x, x):
        (value, (slopes,)), (its, (its_slopes,)) = (nt.value_and_gradient(cache, at) for cache in (one, two))
        np.testing.assert_allclose(value, its, rtol=1e-13)
        np.testing.assert_allclose(slopes, its_slopes, rtol=1e-11, atol=1e-12 * np.abs(its_slopes).max())
    np.testing.assert_allclose(one.bind(x)(), f(x), rtol=1e-12)
    again = nt.value_and_gradient(one, x)
    assert again[0] == one.bind(x)()
    if values == "fast":
        np.testing.assert_array_equal(again[1][0], nt.grad(f)(x))
    np.testing.assert_array_equal(again[1][0], nt.value_and_gradient(one.clone(), x)[1][0])


def is_one_way(cache) -> bool:
    return isinstance(cache._space, OneWayWorkspace)


@pytest.mark.parametrize("name", ["chain", "sum of sines", "normal", "groups", "tanh", "twice"])
def test_long_elementwise_functions_take_one_sweep(name):
    one, two = caches(name)
    assert is_one_way(one)
    assert not is_one_way(two)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.abs(x - DATA)),
        lambda x: np.sum(np.maximum(x, 0.0)),
        lambda x: np.sum(np.clip(x, -1.0, 1.0) ** 2),
    ],
    ids=["abs", "maximum", "clip"],
)
def test_signs_and_shares_weigh_as_little_as_arithmetic(f):
    cache = nt.prepare_gradient_cache(f, X)
    assert is_one_way(cache)
    two = nt.prepare_gradient_cache(f, X, config=nt.Config(passes=PASSES))
    one_sweep, two_sweeps = (nt.value_and_gradient(each, X)[1][0] for each in (cache, two))
    np.testing.assert_array_equal(one_sweep, two_sweeps)


def test_products_of_matrices_weigh_less_than_their_multiplications():
    """Both ways take the same products, so what is beside them decides."""
    wanted = np.sin(np.arange(30000.0)).reshape(200, 150)

    def f(a, b):
        return np.sum(wanted * (wanted - a @ b.T) ** 2)

    assert is_one_way(nt.prepare_gradient_cache(f, wanted[:, :10], wanted[:150, :10]))


def test_gradients_of_several_numbers_take_one_sweep():
    """Each number's gradient is a cell of its own, although all of these cells are of one pool."""

    def f(mean, log_scale, y):
        return -0.5 * np.sum(((y - mean) / np.exp(log_scale)) ** 2) - y.size * log_scale

    data = nt.Constant(X)
    cache = nt.prepare_gradient_cache(f, 0.3, 0.2, data)
    _, grads = nt.value_and_gradient(cache, 0.3, 0.2, X)
    assert is_one_way(cache)
    assert len(str(cache.tape).split("div ")) == 2  # the derivatives multiply by the scale's reciprocal
    z = (X - 0.3) / np.exp(0.2)
    np.testing.assert_allclose(grads[:2], [np.sum(z) / np.exp(0.2), np.sum(z * z) - X.size], rtol=1e-12)
    # Both gradients are the same number, which is on the tape once: two sweeps keep them apart.
    same = nt.prepare_gradient_cache(lambda a, b, y: np.sum(np.sin(y) * y) + a + b, 1.0, 2.0, data)
    assert nt.value_and_gradient(same, 1.0, 2.0, X)[1][:2] == (1.0, 1.0)


def scaled_to_rows_and_columns(x):
    """Adjoints of the matrix that is multiplied with many vectors are outer products, which are added up."""
    gaps = x[:138].reshape(69, 2)[:, None] - x[138:276].reshape(69, 2)
    kernel = np.exp(-np.sum(gaps**2, axis=2))
    v = np.ones(69)
    for _ in range(20):
        u = 1 / (kernel @ v)
        v = 1 / (kernel.T @ u)
    return np.sum(u[:, None] * kernel * v * np.log(kernel))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_slope_of_a_number_may_be_a_number(kind):
    """That of a term that is added to a long sum: nothing is recorded for it."""
    gradients = nt.grad(lambda x, p: np.sum(np.sin(x)) + p, (0, 1))
    for n in (10, N):
        slope = gradients(np.ones(n), kind(0.5))[1]
        assert (type(slope), slope) == (kind, 1.0)


@pytest.mark.parametrize(
    "f",
    [
        scaled_to_rows_and_columns,
        lambda x: np.sum(np.sort(np.sin(x)) ** 2 * x),
        lambda x: np.median(np.sin(x) * x) * np.sum(x * x),
        lambda x: scipy.special.logsumexp(x * DATA),
        lambda x: np.prod(1.0 + 1e-3 * x),
    ],
    ids=["scaled kernel", "sort", "median", "logsumexp", "prod"],
)
def test_derivatives_that_would_do_most_work_again_take_two_sweeps(f):
    assert not is_one_way(nt.prepare_gradient_cache(f, X))


POSITIONS = RNG.integers(0, 50, X.size)


def added_at(x):
    totals = np.zeros(50)
    np.add.at(totals, POSITIONS, x)
    return np.sum(totals**2)


@pytest.mark.parametrize(
    ("f", "size"),
    [
        (lambda t: np.sum(t[POSITIONS] * X), 50),
        (lambda t: -0.5 * np.sum((X - t[POSITIONS] - t[POSITIONS // 2] * DATA) ** 2), 50),
        (added_at, X.size),
        (lambda x: np.sum((np.cumsum(x) - DATA) ** 2), X.size),
        (lambda x: np.sum(((x - np.mean(x)) / np.std(x)) ** 4), X.size),
        (lambda x: np.sum(np.convolve(np.sin(x), DATA[:5], mode="same") * x), X.size),
        (lambda x: np.sum(np.tanh(x[:4800].reshape(80, 60) @ x[:3600].reshape(60, 60)) ** 2), X.size),
    ],
    ids=["gather", "two gathers", "add.at", "cumsum", "standardised", "convolve", "matmul"],
)
def test_what_both_ways_do_as_often_takes_one_sweep(f, size):
    """Strips save the rest: adjoints of all vectors need not be cleared, added to and copied."""
    x = X[:size]
    one, two = (nt.prepare_gradient_cache(f, x, config=nt.Config(passes=p)) for p in ("all", PASSES))
    assert is_one_way(one)
    (value, (slopes,)), (its, (its_slopes,)) = (nt.value_and_gradient(each, x) for each in (one, two))
    np.testing.assert_allclose(value, its, rtol=1e-13)
    np.testing.assert_allclose(slopes, its_slopes, rtol=1e-11, atol=1e-12 * np.abs(its_slopes).max())


@pytest.mark.parametrize(
    ("name", "op"), [("groups", "scatter1"), ("gathers", "take1"), ("additions", "add_at")]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_at_positions_of_the_tape_is_in_blocks(name, op, dtype):
    """Gathered entries, and those that are added to others, are never written out."""
    f, t = FUNCTIONS[name]
    cache = nt.prepare_gradient_cache(f, t.astype(dtype))
    plan = cache._space.plan
    found = np.flatnonzero(np.isin(plan.tape.code["op"] >> 1, [OPCODE["take1"], OPCODE[op]]))
    assert OPCODE[op] in plan.tape.code["op"][found] >> 1
    assert all(any(start <= k < stop for start, stop in plan.strips.extents) for k in found.tolist())
    outputs_in_strips_and_whole(f, t.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [2, 5, 8, 15, 16, 21])
@pytest.mark.parametrize(
    "eta",
    [
        lambda m, t: m @ t,
        lambda m, t: t @ m.T,
        lambda m, t: np.dot(m, t),
        lambda m, t: m.dot(t[:, None])[:, 0],
        lambda m, t: np.einsum("ij,j->i", m, t),
    ],
    ids=["matrix", "from the left", "dot", "column", "einsum"],
)
def test_products_of_tall_matrices_are_in_blocks(eta, columns, dtype):
    """Also where the last strip has one row; value, both directions, and bits from call to call."""
    t, kinds = (0.2 * RNG.normal(size=columns)).astype(dtype), {}
    for rows in (LEAST + 1, N):
        m, y = WIDE[:rows, :columns].astype(dtype), DATA[:rows].astype(dtype)
        f = lambda t, m=m, y=y: np.sum(np.exp(eta(m, t)) - y * eta(m, t))  # noqa: E731
        cache = nt.prepare_gradient_cache(f, t)
        plan = cache._space.plan
        names = {opcode: f"{op.name} {pattern}" for opcode, op, pattern, _ in single_arms()}
        kinds[rows] = {names[opcode] for opcode in plan.strips.opcodes} & {"matmul rows", "matmul sums"}
        value, (slopes,) = nt.value_and_gradient(cache, t)
        again, (its,) = nt.value_and_gradient(cache, t)
        assert value == again
        np.testing.assert_array_equal(slopes, its)
        tolerance = 1e-12 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(value, f(t), rtol=tolerance)
        along = nt.jvp(f, (t,), (np.ones_like(t),))[1]
        np.testing.assert_allclose(np.sum(slopes), along, rtol=10 * tolerance)
        outputs_in_strips_and_whole(f, t)
    assert all(each == {"matmul rows", "matmul sums"} for each in kinds.values())


def test_data_that_a_slope_subtracts_are_not_negated_first():
    """Strips read one array then, and not two: that of the value, and its negation for the gradient."""
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) - DATA * x), X)
    plan = cache._space.plan
    assert plan.tape.prologue == 0
    np.testing.assert_allclose(nt.value_and_gradient(cache, X)[1][0], np.exp(X) - DATA, rtol=1e-13)
    # And the product that the value subtracts is one instruction with that, as nothing is swept back.
    assert OPCODE["submul"] in plan.tape.code["op"] >> 1
    whole = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) - DATA * x), X, config=nt.Config(passes=()))
    assert nt.value_and_gradient(cache, X)[0] == nt.value_and_gradient(whole, X)[0]


def test_additions_that_strips_cannot_begin_stand_alone():
    """Those at positions from the end, and to numbers other than zero: -0.0 is one, and stays."""

    def f(x, first):
        totals = first * np.ones(7)
        np.add.at(totals, GROUP - 7, x)
        others = np.full(8, -0.0)
        np.add.at(others, GROUP, -0.0 * DATA**2 * np.cos(x))
        return np.sum(totals**2) + np.sum(np.copysign(1.0, others))

    cache = nt.prepare_gradient_cache(f, X, 2.0)
    for first in (2.0, -1.0):
        value, (slopes, _) = nt.value_and_gradient(cache, X, first)
        np.testing.assert_allclose(value, f(X, first), rtol=1e-13)
        totals = first + np.bincount(GROUP, weights=X)
        np.testing.assert_allclose(slopes, 2.0 * totals[GROUP], rtol=1e-13)


def test_norms_of_long_vectors_are_in_blocks():
    """Parts add up squares, of which the root is taken behind the last strip; the slope at zero is zero."""
    f, x = FUNCTIONS["norms"]
    plan = nt.prepare_gradient_cache(f, x)._space.plan
    norms = np.flatnonzero(plan.tape.code["op"] >> 1 == OPCODE["norm2"])
    assert all(any(start <= k < stop for start, stop in plan.strips.extents) for k in norms.tolist())
    value, (slopes,) = nt.value_and_gradient(nt.prepare_gradient_cache(np.linalg.norm, x), 0.0 * x)
    assert value == 0.0
    assert not slopes.any()


def with_tests(t, x):
    """Tests of numbers, and of what strips compute; the last one protects a position."""
    if t[1] <= 0.0:
        return -np.inf
    if np.any(x < -50.0):
        return np.sum(x) * t[0]
    shift = x[:9][t[2].astype(int)] if t[2] < 9.0 else 0.0
    return np.sum(-0.5 * ((DATA - shift - t[0] * np.exp(x)) / t[1]) ** 2) - N * np.log(t[1])


def test_functions_with_tests_take_one_sweep_and_each_path_is_traced_once():
    start, far = np.array([1.0, 1.0, 2.5]), np.where(np.arange(N) == N - 2, -60.0, X)
    one, two = (
        nt.prepare_gradient_cache(with_tests, start, X, config=nt.Config(passes=passes))
        for passes in ("all", PASSES)
    )
    assert is_one_way(one)
    for _ in range(3):
        for x, *t in [
            (far, 1, 2, 99),
            (X, 1, 1, 2),
            (far, 1, 3, 99),
            (X, 1, 2, 99),
            (X, 2, -1, 2),
            (-X, 2, 3, 4),
        ]:
            t = np.array(t, float)
            (value, slopes), (its, its_slopes) = (nt.value_and_gradient(cache, t, x) for cache in (one, two))
            np.testing.assert_allclose(value, its, rtol=1e-13)
            np.testing.assert_allclose(one.bind(t, x)(), its, rtol=1e-13)
            for found, expected in zip(slopes, its_slopes, strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert len(one._program.variants) == len(two._program.variants) == 4


def test_a_failing_guard_leaves_arguments_as_they_were():
    """The gradient of the call before is the argument of one that takes another path."""

    def f(x):
        y = np.exp(x) - 1.0 + DATA * x
        return np.sum(y * y) if np.sum(y) > 0.0 else np.sum(x * DATA)

    cache = nt.prepare_gradient_cache(f, X, config=nt.Config(reuse_buffers=True))
    x = X
    for _ in range(6):
        its, its_slopes = nt.value_and_grad(f)(x.copy())
        value, (slopes,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, its, rtol=1e-12)
        np.testing.assert_allclose(slopes, its_slopes, rtol=1e-12)
        x = slopes
        x *= -0.01 / np.abs(x).max()


def test_what_needs_a_sum_is_in_one_block_with_what_needs_numbers_that_follow_from_it():
    """The three blocks: the norm, what needs it and its inverse, and what needs their sum."""
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x / np.linalg.norm(x) * DATA), X)
    assert len(cache._space.plan.strips.extents) == 3


def test_positions_beyond_another_table_raise():
    cache = nt.prepare_gradient_cache(lambda t: np.sum(np.exp(t)[GROUP] * DATA), X[:7])
    np.testing.assert_allclose(nt.value_and_gradient(cache, X[:9])[0], np.sum(np.exp(X)[GROUP] * DATA))
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            nt.value_and_gradient(cache, X[:6])
    np.testing.assert_allclose(nt.value_and_gradient(cache, X[:7])[0], np.sum(np.exp(X)[GROUP] * DATA))


def test_a_block_that_takes_long_is_cut(monkeypatch):
    """Python looks for signals between the parts of a long block, whose bits are those of the whole one."""
    f, x = FUNCTIONS["groups"]
    whole = nt.prepare_gradient_cache(f, x)
    monkeypatch.setattr(segments, "MOST", 20 * STRIP)
    cut = nt.prepare_gradient_cache(f, x)
    assert max(len(part) for part in cut._space.plan.strips.parts) > 3
    assert is_one_way(whole)
    for at in (x, 0.5 * x):
        (value, (slopes,)), (its, (its_slopes,)) = (
            nt.value_and_gradient(cache, at) for cache in (whole, cut)
        )
        assert value == its
        np.testing.assert_array_equal(slopes, its_slopes)
        assert cut.bind(at)() == value


def test_bits_do_not_depend_on_earlier_sizes():
    """A cache that has seen other sizes gives the bits of one that was prepared for these."""

    def f(x):
        return np.sum(np.exp(np.sin(x)) * x)

    sizes = (5, N, 9, N + STRIP, N, 200, N + 1, N, N + 1)
    cache = nt.prepare_gradient_cache(f, np.ones(3))
    for size in sizes:
        x = np.random.default_rng(size).normal(size=size)
        value, (slopes,) = nt.value_and_gradient(cache, x)
        fresh = nt.prepare_gradient_cache(f, x)
        assert value == nt.value_and_gradient(fresh, x)[0]
        np.testing.assert_array_equal(slopes, nt.value_and_gradient(fresh, x)[1][0])


# Functions of vectors of any length, with what they read beside them.
OF_ANY_LENGTH = {
    "chain": lambda x, d: np.sum(np.sin(np.exp(x)) * d),
    "neighbours": lambda x, d: np.sum(np.exp(x[1:] - x[:-1]) * np.sin(d)[1:]),
    "reversed": lambda x, d: np.sum(np.exp(x) * np.exp(x)[::-1]) + np.dot(x, d),
    "half": lambda x, d: np.sum(np.exp(x[x.size // 2 :]) ** 2) + np.sum(np.sin(x) * d),
    "every second": lambda x, d: np.sum(np.cos(x)[::2] ** 2) + np.sum(np.sin(x) * d) / x.size,
    "running sums": lambda x, d: np.sum(np.sin(np.cumsum(x) / 50.0) * d),
    "two reductions": lambda x, d: np.log(np.sum((x - np.mean(x)) ** 2)) + np.dot(x, d),
    "rows": lambda x, d: np.sum(np.sin(x * (np.array([[1.0], [2.0]]) * d)) * d),
    "norms": lambda x, d: np.linalg.norm(x * d) + np.dot(x, d) / np.linalg.norm(d),
    "products": lambda x, d: (
        np.sum(np.exp(np.stack([d, x, x * d], axis=1) @ x[:3]) * d)
        + np.sum(np.tanh(d[:2] @ np.stack([x, d])))
    ),
    "largest": lambda x, d: np.log(np.sum(np.exp(x - np.max(x)))) + np.sum(d * d * x),
    "arithmetic": lambda x, d: (
        np.sum((x * d + 0.5) / (1.5 - x) - 3.0 / (x / 2.0 + 4.0) - x * x) + np.dot(d, x)
    ),
}


SINGLE, DOUBLE = np.float32, np.float64


def two_vectors(size, dtypes=(DOUBLE, DOUBLE)):
    rng = np.random.default_rng(size)
    return (0.3 * rng.normal(size=size)).astype(dtypes[0]), rng.normal(size=size).astype(dtypes[1])


@pytest.mark.parametrize("dtypes", [(SINGLE, SINGLE), (SINGLE, DOUBLE), (DOUBLE, SINGLE)])
@pytest.mark.parametrize("name", OF_ANY_LENGTH)
def test_float32_strips_keep_all_bits(name, dtypes):
    """So it is where float32 and float64 vectors are in one block, and gradients have their own dtype."""
    f, args = OF_ANY_LENGTH[name], two_vectors(N, dtypes)
    outputs = outputs_in_strips_and_whole(f, *args)
    assert [its.dtype for its in outputs] == [f(*args).dtype, *dtypes]


@pytest.mark.parametrize("values", ["fast", "numpy"])
@pytest.mark.parametrize("dtypes", [(SINGLE, SINGLE), (SINGLE, DOUBLE)])
@pytest.mark.parametrize("name", ["chain", "neighbours", "two reductions"])
def test_float32_gradients_by_one_sweep_and_by_two(name, dtypes, values):
    f, (x, d) = OF_ANY_LENGTH[name], two_vectors(N, dtypes)
    given = x.copy(), d.copy()
    one, two = (
        nt.prepare_gradient_cache(f, x, d, config=nt.Config(values=values, **config))
        for config in ({}, {"passes": PASSES})
    )
    assert is_one_way(one)
    assert not is_one_way(two)
    value, slopes = nt.value_and_gradient(one, x, d)
    its, its_slopes = nt.value_and_gradient(two, x, d)
    exact = nt.value_and_grad(f, argnums=(0, 1))(x.astype(float), d.astype(float))
    assert value == its
    assert type(value) is np.result_type(x, d).type
    np.testing.assert_allclose(value, exact[0], rtol=1e-5)
    for mine, other, right, at in zip(slopes, its_slopes, exact[1], (x, d), strict=True):
        assert mine.dtype == other.dtype == at.dtype
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-6 * np.abs(right).max())
        np.testing.assert_allclose(other, right, rtol=1e-5, atol=1e-6 * np.abs(right).max())
    for at, before in zip((x, d), given, strict=True):
        np.testing.assert_array_equal(at, before)


def test_float32_strips_have_kernels_of_their_own():
    """Each operation of arithmetic, between vectors and with a number on either side."""
    cache = nt.prepare_gradient_cache(OF_ANY_LENGTH["arithmetic"], *two_vectors(N, (SINGLE, SINGLE)))
    names = {opcode: f"{op.name} {pattern}".strip() for opcode, op, pattern, _ in single_arms()}
    used = {names[opcode] for opcode in cache._space.plan.strips.opcodes}
    assert used >= {"sum", "dot", "mul vv", "add vs", "sub sv", "div vv", "div sv", "div vs", "square v"}


def test_float32_sums_of_strips_are_rounded_once():
    x = RNG.normal(size=2 * N).astype(np.float32)
    value, (slopes,) = nt.value_and_gradient(nt.prepare_gradient_cache(lambda x: np.sum(x * x), x), x)
    assert value == np.float32(np.sum(x.astype(float) * x))
    np.testing.assert_array_equal(slopes, 2 * x)


@pytest.mark.parametrize("dtypes", [(DOUBLE, DOUBLE), (SINGLE, SINGLE)], ids=["float64", "float32"])
@pytest.mark.parametrize("name", OF_ANY_LENGTH)
def test_a_new_length_has_the_bits_of_a_new_cache_without_a_plan_by_python(name, dtypes, monkeypatch):
    f = OF_ANY_LENGTH[name]

    def arguments(size):
        return two_vectors(size, dtypes)

    def outcome(cache, size):
        value, slopes = nt.value_and_gradient(cache, *arguments(size))
        return [value, *slopes]

    known = (N, 50, N + 1, 51, N + 2)
    new = (N + 3, 2 * LEAST + STRIP, 2 * LEAST, LEAST + 1, 3 * N, 2 * LEAST - 1, 60, N + 4, 3 * N + 1)
    fresh = {size: outcome(nt.prepare_gradient_cache(f, *arguments(size)), size) for size in new}
    cache = nt.prepare_gradient_cache(f, *arguments(7))
    for size in known:
        outcome(cache, size)

    def refused(*_):
        raise AssertionError("a plan by Python")

    monkeypatch.setattr(one_way, "strip_plan", refused)
    served = []
    serve = ElasticEntry.serve
    monkeypatch.setattr(
        ElasticEntry, "serve", lambda self, *rest: served.append(self._planner) or serve(self, *rest)
    )
    for size in new:
        for found, expected in zip(outcome(cache, size), fresh[size], strict=True):
            np.testing.assert_array_equal(found, expected)
    assert any(isinstance(planner, OneWayReplanner) for planner in served)


@pytest.mark.parametrize("first", [100, N], ids=["short", "long"])
def test_one_call_of_a_kernel_brings_everything_to_a_new_length(first, monkeypatch):
    """Whether one sweep is better, the plan, its proof, the cells, the prologue, and the builtin's words."""
    f = lambda x: np.sum(np.exp(-x * x) * x[0]) / len(x)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, np.ones(first))
    slopes = lambda n: nt.value_and_gradient(cache, X[:n])[1][0]  # noqa: E731
    for n in range(first, first - 5, -1):
        slopes(n)
    calls = []
    lead = MovingSpace.lead

    def counted(space, dimensions):
        kernel = space._lead
        with monkeypatch.context() as patch:
            patch.setattr(space, "_lead", lambda *words: calls.append(1) or kernel(*words))
            patch.setattr(space, "_place", lambda *_: pytest.fail("a second call"))
            return lead(space, dimensions)

    monkeypatch.setattr(MovingSpace, "lead", counted)
    monkeypatch.setattr(StripReplanner, "move", lambda *_: pytest.fail("a plan by Python"))
    monkeypatch.setattr(Replanner, "move", lambda *_: pytest.fail("a plan by Python"))
    for n in range(first - 20, first - 30, -1):
        x = X[:n]
        slope = np.exp(-x * x) * x[0] * -2 * x
        slope[0] += np.sum(np.exp(-x * x))
        np.testing.assert_allclose(slopes(n), slope / n, rtol=1e-12, atol=1e-15)
    assert len(calls) == 10
    assert cache.traces == 1


def test_many_short_vectors_take_one_sweep_whose_cells_are_used_again(monkeypatch):
    """Time steps: all values and their adjoints together do not fit into the second cache."""

    def f(u):
        for _ in range(30):
            u = u - 0.05 * u * (u - np.roll(u, 1)) + 0.1 * (np.roll(u, -1) - 2 * u + np.roll(u, 1))
        return np.sum(u**2)

    def outcome(cache, size):
        value, (slope,) = nt.value_and_gradient(cache, 0.3 * DATA[:size])
        return [value, *slope]

    passes = tuple(name for name in PASSES if name != "strips")
    sizes = (700, 701, 702, 650, 30)
    new = {size: nt.prepare_gradient_cache(f, DATA[:size]) for size in sizes}
    assert [is_one_way(cache) for cache in new.values()] == [True] * 4 + [False]
    fresh = {size: outcome(cache, size) for size, cache in new.items()}
    for size in (700, 30):
        two = nt.prepare_gradient_cache(f, DATA[:size], config=nt.Config(passes=passes))
        assert not is_one_way(two)
        np.testing.assert_allclose(outcome(two, size), fresh[size], rtol=1e-10, atol=1e-13)
    cache = nt.prepare_gradient_cache(f, DATA[:720])
    for size in (31, 721, 32, 722):
        outcome(cache, size)
    monkeypatch.setattr(one_way, "strip_plan", lambda *_: pytest.fail("a plan by Python"))
    for size in sizes:
        assert outcome(cache, size) == fresh[size]


def test_steps_that_are_written_into_zeros_take_one_sweep():
    """It does more than three times the function's work, but with a third of the cells."""

    def f(u, n=1200):
        before = u.copy()
        for _ in range(100):
            new = np.zeros(n)
            new[1:-1] = 1.6 * u[1:-1] - before[1:-1] + 0.2 * (u[2:] + u[:-2])
            before, u = u, new
        return np.sum(u**2)

    one, two = (
        nt.prepare_gradient_cache(f, DATA[:1200], config=nt.Config(passes=passes))
        for passes in (nt.Config().passes, PASSES)
    )
    assert is_one_way(one)
    assert not is_one_way(two)
    (value, (slopes,)), (its, (its_slopes,)) = (
        nt.value_and_gradient(each, DATA[:1200]) for each in (one, two)
    )
    np.testing.assert_allclose(value, its, rtol=1e-12)
    np.testing.assert_allclose(slopes, its_slopes, rtol=1e-10, atol=1e-12 * np.abs(its_slopes).max())


@pytest.mark.parametrize("name", ["j1", "i1", "i1e", "j0", "k1", "yn", "ellipk", "erfcx"])
def test_one_sweep_calls_no_more_functions_than_two(name):
    """Two take the slope of j1 from j0, where one would call jv, which takes fifty times as long."""
    function = getattr(scipy.special, name)
    x = np.linspace(0.1, 0.9, 5000)
    f = (lambda x: np.sum(function(2, x))) if name == "yn" else (lambda x: np.sum(function(x)))
    cache, plain = (nt.prepare_gradient_cache(f, x, config=nt.Config(passes=p)) for p in ("all", PASSES))
    assert is_one_way(cache) == (name in ("j0", "k1", "yn", "ellipk", "erfcx"))
    (_, (slopes,)), (_, (its,)) = (nt.value_and_gradient(each, x) for each in (cache, plain))
    np.testing.assert_allclose(slopes, its, rtol=1e-14)


@pytest.mark.parametrize("function", [np.fmax, np.fmin])
def test_shares_of_numbers_take_one_sweep(function):
    """As those of np.maximum do: each is one instruction, with NaN and ties as in two sweeps."""
    x, y = RNG.normal(size=(2, 5000))
    x[::7] = y[::7]
    x[3::11] = np.nan
    y[5::13] = np.nan

    def f(x, y):
        return np.sum(function(x, y))

    cache, plain = (nt.prepare_gradient_cache(f, x, y, config=nt.Config(passes=p)) for p in ("all", PASSES))
    assert is_one_way(cache)
    for slopes, its in zip(*(nt.value_and_gradient(each, x, y)[1] for each in (cache, plain)), strict=True):
        np.testing.assert_array_equal(slopes, its)


@pytest.mark.parametrize("name", ["neighbours", "half", "every second", "running sums", "rows"])
def test_a_new_length_whose_sweeps_are_cut_needs_no_plan_by_python(name, monkeypatch):
    """Blocks are cut into more parts or fewer than those of the first plan; bits are those of whole ones."""
    f = OF_ANY_LENGTH[name]

    def outcome(cache, size):
        x, d = two_vectors(size)
        value, slopes = nt.value_and_gradient(cache, x, nt.Constant(d))
        return [value, slopes[0]]

    def new_cache(size):
        x, d = two_vectors(size)
        return nt.prepare_gradient_cache(f, x, nt.Constant(d))

    new = (3 * N, LEAST + 1, 4 * N, 60, N + 5, 2 * LEAST, 3 * N + 7, 9 * N)
    fresh = {size: outcome(new_cache(size), size) for size in new}
    monkeypatch.setattr(segments, "MOST", 60 * STRIP)
    cache = new_cache(7)
    for size in (N, 50, N + 1, 51, N + 2, 2 * N):
        outcome(cache, size)
    cut = []
    serve = ElasticEntry._in_segments
    monkeypatch.setattr(
        ElasticEntry, "_in_segments", lambda self, *rest: cut.append(self._cuts) or serve(self, *rest)
    )
    monkeypatch.setattr(one_way, "strip_plan", lambda *_: pytest.fail("a plan by Python"))
    kept = len(cache._evaluator._workspaces)
    for size in new:
        for found, expected in zip(outcome(cache, size), fresh[size], strict=True):
            np.testing.assert_array_equal(found, expected)
    assert len(cache._evaluator._workspaces) == kept
    assert len(cut) > 4
    assert any(its.parts for its in cut)


def test_constants_may_change():
    cache = nt.prepare_gradient_cache(normal, np.zeros(2), nt.Constant(DATA))
    assert is_one_way(cache)
    for data in (DATA, 2.0 * DATA, DATA):
        t = np.array([0.1, -0.3])
        value, (slopes, _) = nt.value_and_gradient(cache, t, nt.Constant(data))
        np.testing.assert_allclose(value, normal(t, data), rtol=1e-12)
        z = (data - t[0]) / np.exp(t[1])
        np.testing.assert_allclose(slopes, [z.sum() / np.exp(t[1]), np.sum(z * z - 1.0)], rtol=1e-10)


@pytest.mark.parametrize("name", ["chain", "linear", "sum"])
def test_gradients_are_added_to_and_written_to(name):
    """They are the cache's own arrays; constant ones, which a prologue could compute, are written again."""
    f, x = FUNCTIONS[name] if name in FUNCTIONS else (lambda x: 3.0 * np.sum(x), np.tile(X, 3))
    cache = nt.prepare_gradient_cache(f, x, config=nt.Config(reuse_buffers=True))
    assert is_one_way(cache)
    once = nt.value_and_gradient(cache, x)[1][0].copy()
    twice = nt.value_and_gradient(cache, x, args_to_zero=(False,))[1][0]
    np.testing.assert_array_equal(twice, 2.0 * once)
    for _ in range(2):
        found = nt.value_and_gradient(cache, x)[1][0]
        np.testing.assert_array_equal(found, once)
        found *= 2.0


def test_a_profile_shows_each_instruction_by_itself():
    one, _ = caches("chain")
    rows = one.profile(repeats=2)
    assert {"exp", "sin", "cos", "sum"} <= {row["op"] for row in rows}
    assert [row["bytes"] for row in rows if row["op"] == "exp"] == [8 * N]
    assert len([row for row in rows if row["forward"] > 0.0]) > len(rows) // 2
    np.testing.assert_array_equal(nt.value_and_gradient(one, X)[1][0], nt.value_and_gradient(one, X)[1][0])


MISSING = RNG.normal(size=(N, 3))
MISSING[5], MISSING[7, 1] = np.nan, np.inf
COMPLETE = np.isfinite(MISSING).all(axis=1)


@pytest.mark.parametrize(
    "of_rows",
    [
        lambda x: np.sum((x - MISSING) ** 2, axis=1),
        lambda x: np.sum(x * MISSING, axis=1),
        lambda x: np.linalg.norm(x - MISSING, axis=1),
        lambda x: np.prod(x * MISSING, axis=1),
        lambda x: np.std(x * MISSING, axis=1),
    ],
    ids=["squares", "products", "norms", "prod", "std"],
)
@pytest.mark.parametrize("chosen", [lambda rows: np.where(COMPLETE, rows, 0.0), lambda rows: rows[COMPLETE]])
@pytest.mark.parametrize("size", [N, 9])
def test_rows_that_are_not_chosen_have_slopes_of_zero_whatever_is_in_them(of_rows, chosen, size, monkeypatch):
    """Of few rows and of many, which are differentiated in two sweeps and in one."""
    x = RNG.normal(size=(size, 3))
    monkeypatch.setitem(globals(), "MISSING", MISSING[:size])
    monkeypatch.setitem(globals(), "COMPLETE", COMPLETE[:size])
    f = functools.partial(
        lambda x, of_rows, chosen: np.sum(np.sin(chosen(of_rows(x)))), of_rows=of_rows, chosen=chosen
    )
    slopes = nt.grad(f)(x)
    np.testing.assert_array_equal(slopes == 0.0, ~np.broadcast_to(COMPLETE[:, None], slopes.shape))
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE])
def test_nan_and_infinite_entries_stay_where_they_are(dtype):
    x = X.astype(dtype)
    x[[3, STRIP, N - 1]] = np.inf, np.nan, 1e30
    f = FUNCTIONS["sum of sines"][0]
    with np.errstate(invalid="ignore"):
        one, two = (
            nt.prepare_gradient_cache(f, x, config=config) for config in (None, nt.Config(passes=PASSES))
        )
        (value, (slopes,)), (_, (its,)) = (nt.value_and_gradient(cache, x) for cache in (one, two))
    assert np.isnan(value)
    # The cosine is NumPy's in float32 strips, and our own in the reverse sweep.
    np.testing.assert_allclose(slopes, its, rtol=0.0 if dtype is DOUBLE else 4e-7)
