"""Loops over scalars become instructions on vectors, and what they compute stays what it was."""

import functools
import itertools
import operator

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES
from numbatape.tape.passes import reroll
from numbatape.tape.rerolling.components import components
from numbatape.tape.rerolling.periods import ranks_and_previous, repeating
from tests.linear_programs import LinearProgram
from tests.loop_programs import LoopProgram

OTHERS = tuple(name for name in PASSES if name != "reroll")
N = 60
X, Y = np.linspace(-0.4, 0.9, N), np.cos(np.arange(float(N)))


def caches(function, *args, values="fast"):
    """Return the function's gradient cache without re-rolling, and the one with all passes."""
    return [
        nt.prepare_gradient_cache(function, *args, config=nt.Config(passes=passes, values=values))
        for passes in (OTHERS, "all")
    ]


# ---- random programs


@pytest.mark.parametrize("seed", range(16))
def test_a_random_loop_keeps_its_value_and_derivatives(seed):
    program = LoopProgram(seed)
    f, (x, y, index) = program.function(), program.arguments()

    def function(x):
        return f(x, y, index)

    wanted = function(x)
    plain, rolled = caches(function, x)
    for point in (x, x + 1e-3):
        (value, (slope,)), (other, (its,)) = (nt.value_and_gradient(each, point) for each in (plain, rolled))
        np.testing.assert_allclose(other, value, rtol=1e-11)
        np.testing.assert_allclose(its, slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    np.testing.assert_allclose(nt.value_and_gradient(rolled, x)[0], wanted, rtol=1e-11)


@pytest.mark.parametrize("seed", range(100, 104))
def test_second_derivatives_of_a_random_loop(seed):
    program = LoopProgram(seed)
    f, (x, y, index) = program.function(), program.arguments()
    found = []
    for passes in (OTHERS, "all"):
        cache = nt.prepare_hessian_cache(lambda x: f(x, y, index), x, config=nt.Config(passes=passes))
        found.append(nt.value_gradient_and_hessian(cache, x)[2])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9 * np.abs(found[0]).max())


def test_with_the_bits_of_numpy_nothing_changes():
    """Sums keep their order, and ops that vectors compute in another loop stay as they are."""

    def function(x):
        total = 0.0
        for k in range(N):
            total = total + (np.exp(x[k]) * Y[k] + x[k]) * 0.1
        return total

    plain, rolled = caches(function, X, values="numpy")
    assert len(rolled.tape) < len(plain.tape)
    for point in (X, X[::-1] * 1.7):
        assert nt.value_and_gradient(rolled, point)[0] == function(point)


# ---- what becomes of loops


def autoregression(x):
    total = 0.0
    for t in range(2, N):
        mean = x[0]
        for k in range(2):
            mean = mean + x[k + 1] * Y[t - k - 1]
        total = total - 0.5 * (Y[t] - mean) ** 2 - x[3]
    return total


def volatility(x):
    s, total = 0.5, 0.0
    for t in range(1, N):
        s = np.sqrt(0.1 + x[1] ** 2 * (Y[t - 1] - x[0]) ** 2 + 0.3 * s**2)
        total = total - np.log(s) - 0.5 * ((Y[t] - x[0]) / s) ** 2
    return total


def lagged(x):
    """What a turn computes is read by later turns, but no chain is closed."""
    errors = [x[0], x[1]]
    total = 0.0
    for t in range(2, N):
        errors.append(x[t] * Y[t])
        total = total + errors[t] * errors[t - 1] * errors[t - 2]
    return total


def mixture(x):
    total = 0.0
    for t in range(N):
        terms = []
        for k in range(3):
            terms.append(np.exp(-((Y[t] - x[k]) ** 2)) * x[k + 3] ** 2)
        total = total + np.log(sum(terms))
    return total


def gathered(x):
    total = 0.0
    for t in range(N):
        total = total + np.exp((x[(7 * t * t) % 11] * Y[t] - x[0]) ** 2) * 0.1
    return total


def filled(x):
    z = np.zeros(N)
    for t in range(N):
        z[N - 1 - t] = x[t] * x[t]
    return z @ Y


def grid(x):
    """Two loops without anything between them: strides of an inner and of an outer loop."""
    x = x.reshape(10, 6)
    return sum(x[i, j] * x[0, j] * x[i, 0] for i in range(10) for j in range(6))


def remembered(x):
    """A chain whose links are read later."""
    states, s = [], 0.5
    for t in range(N):
        s = np.sin(s + x[t])
        states.append(s)
    total = 0.0
    for t in range(N):
        total = total + (states[t] - Y[t]) ** 2 * x[0]
    return total


def polynomial(x):
    """Horner's rule: a linear recurrence."""
    y = x[0]
    for t in range(N):
        y = y * x[1] + x[t]
    return y


def smoothed(x):
    """A linear recurrence of several steps, in an array, whose states are read in two later turns."""
    levels = np.zeros(N)
    level, total = x[0] * 0.1, 0.0
    for t in range(N):
        level = (x[2] * x[2] * Y[t] - (level - x[t]) / (2.0 + x[1] ** 2)) * 0.5
        levels[t] = level
        total = total + (x[t] - level) ** 2
    return total + np.sum(levels * Y)


def from_a_number(x):
    """A linear recurrence that starts with a number, which takes no adjoint, read in the middle of a turn."""
    state = total = 0.0
    for t in range(N):
        state = state - np.sin(x[t])
        total = total + state * state
        state = state + x[2]
    return total


# And how many instructions are left at most.
LOOPS = {
    polynomial: 2,
    smoothed: 40,
    from_a_number: 20,
    autoregression: 20,
    volatility: 4 * N,
    lagged: 20,
    mixture: 25,
    gathered: 12,
    filled: 3,
    grid: 4,
    remembered: 2 * N + 10,
}


@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
def test_a_loop_becomes_vectors(function):
    plain, rolled = caches(function, X)
    assert len(rolled.tape) <= LOOPS[function] < len(plain.tape)
    (value, (slope,)), (other, (its,)) = (nt.value_and_gradient(each, X) for each in (plain, rolled))
    np.testing.assert_allclose([other, value], function(X), rtol=1e-13)
    np.testing.assert_allclose(its, slope, rtol=1e-12, atol=1e-13)
    nt.testing.check_derivatives(function, X)


@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
def test_derivatives_are_taken_of_vectors(function):
    """The tape of a Hessian-vector product has few instructions, too."""
    cache = nt.prepare_hvp_cache(function, X)
    _, _, product = nt.value_and_hvp(cache, Y, X)
    plain = nt.prepare_hvp_cache(function, X, config=nt.Config(passes=OTHERS))
    np.testing.assert_allclose(product, nt.value_and_hvp(plain, Y, X)[2], rtol=1e-11, atol=1e-11)
    long, short = (its._single.program.variants.popitem()[1].tape for its in (plain, cache))
    assert 2 * len(short) < len(long)


def predators(x):
    """Lines with several instructions that are alike, so that few of them are a turn apart from the last."""
    u, v, total = x[0], x[1], 0.0
    for _ in range(N):
        w = u * v
        u, v = u + 0.02 * (x[2] * u - w), v + 0.02 * (x[3] * w - x[4] * v)
        total = total + (u - 1.0) ** 2 + (v - 1.0) ** 2
    return total


def test_lines_with_several_instructions_that_are_alike():
    """The turns are found, and products beside cells of the new arrays are fused with sums as elsewhere."""
    plain, rolled = caches(predators, X)
    assert len(rolled.tape) <= 8 * N + 20 < len(plain.tape)
    results = [nt.value_and_gradient(each, X) for each in (plain, rolled)]
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-13)
    np.testing.assert_allclose(results[1][1][0], results[0][1][0], rtol=1e-11, atol=1e-13)
    products = [
        nt.prepare_hvp_cache(predators, X, config=nt.Config(passes=passes)) for passes in (OTHERS, "all")
    ]
    found = [nt.value_and_hvp(each, Y, X)[2] for each in products]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11)
    long, short = (its._single.program.variants.popitem()[1].tape for its in products)
    assert 1.1 * len(short) < len(long)


@pytest.mark.parametrize("function", [autoregression, volatility], ids=lambda function: function.__name__)
def test_instructions_know_their_lines(function):
    """Each instruction stands in a line of the function's body."""
    _, rolled = caches(function, X)
    code = function.__code__
    lines = {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}
    assert {rolled.tape.line_of(k).number for k in range(len(rolled.tape))} <= lines


def test_the_cache_says_what_was_done():
    plain, rolled = caches(autoregression, X)
    assert "reroll" not in repr(plain).partition("passes all")[2]
    assert f", reroll {rolled.tape.rewrites[0][1]} to {rolled.tape.rewrites[0][2]}" in repr(rolled)


# ---- what has to stay


def test_a_test_sees_the_bits_that_python_saw():
    """A tenth added ten times is not one, though a sum in another order is."""

    def function(x):
        total = 0.0
        for k in range(40):
            total = total + x[k]
        return total * 2.0 if total == in_turn else total * 3.0

    in_turn = functools.reduce(operator.add, [0.1] * 40)  # `sum` compensates rounding since Python 3.12
    x = np.full(40, 0.1)
    _, rolled = caches(function, x)
    for _ in range(2):
        assert nt.value_and_gradient(rolled, x)[0] == function(x) == 2.0 * in_turn
    assert rolled.traces == 1


@pytest.mark.parametrize("step", [np.floor, np.sign, np.rint, lambda x: x % 0.1, lambda x: x > 0.1 * 10])
def test_a_step_sees_the_bits_that_python_saw(step):
    def function(x):
        total = -1.0
        for k in range(40):
            total = total + x[k]
        return step(total - 3.0) + x[0]

    x = np.full(40, 0.1)
    _, rolled = caches(function, x)
    assert nt.value_and_gradient(rolled, x)[0] == function(x)


@pytest.mark.parametrize(("products", "is_rolled"), [(10, True), (900, False)])
def test_a_loop_that_takes_little_beside_arrays_is_not_looked_at(products, is_rolled):
    a = np.eye(40) * 0.5

    def function(x):
        total, y = 0.0, x
        for k in range(40):
            total = total + x[k] * x[k]
        for _ in range(products):
            y = a @ y
        return total + y[0]

    _, rolled = caches(function, np.linspace(0.5, 1.0, 40))
    assert ("reroll" in {each.name for each in rolled.tape.rewrites if each.ops}) == is_rolled


def test_guards_of_turns_keep_their_order():
    def function(x):
        total = 0.0
        for k in range(N):
            y = x[k] * x[k] + 0.25
            if y > 5.0:
                return total
            total = total + np.log(y)
        return total

    plain, rolled = caches(function, X)
    assert len(rolled.tape.guards) == len(plain.tape.guards) == N
    other = X.copy()
    other[[12, 20]] = 3.0
    for point in (X, other):
        values = [nt.value_and_gradient(each, point)[0] for each in (plain, rolled)]
        np.testing.assert_allclose(values, function(point), rtol=1e-13)


def test_components_come_after_those_that_they_depend_on():
    edges = [{1}, {2}, {0, 3}, set(), {0, 4}, {3, 6}, {5}]
    found = components(edges)
    assert sorted(map(tuple, found)) == [(0, 1, 2), (3,), (4,), (5, 6)]
    place = {node: k for k, part in enumerate(found) for node in part}
    assert all(place[other] <= place[node] for node, others in enumerate(edges) for other in others)


def test_stretches_do_not_overlap():
    """The last turn of one may begin as the first turn of the next does."""
    signature = np.array([2, 3] + [1, 2, 3] * 101 + [1, 2, 4] * 112 + [1, 2, 3] * 99)
    found = [stretches for _, stretches in repeating(*ranks_and_previous(signature), 0, len(signature))]
    assert max(map(len, found)) == 3
    for stretches in found:
        for one, other in itertools.pairwise(stretches):
            assert one.stop <= other.start
        assert all(np.array_equal(signature[s : e - p], signature[s + p : e]) for s, p, e in spans(stretches))


def spans(stretches):
    return [(its.start, its.period, its.stop) for its in stretches]


def plus(a, b):
    return a + b


@pytest.mark.parametrize("before", range(4))
def test_a_period_that_begins_in_the_middle_of_a_turn(before):
    """The last addition before the loop looks like the last one of a turn, but adds to the other sum."""

    def f(x):
        t = 2.0 * x[1]
        s = 2.0 * x[0]
        for _ in range(before):
            s = plus(s, 0.0)
        for k in range(30):
            e = np.sin(x[k])
            u = np.tanh(np.sin(e * e))
            s = plus(s, e)
            t = plus(t, u)
        return s * t

    plain, rolled = caches(f, X)
    (value, (slope,)), (other, (its,)) = (nt.value_and_gradient(each, X) for each in (plain, rolled))
    np.testing.assert_allclose(other, value, rtol=1e-12)
    np.testing.assert_allclose(its, slope, rtol=1e-12)
    assert len(rolled.tape) < len(plain.tape)
    np.testing.assert_allclose(nt.jvp(f, (X,), (Y,)), (value, slope @ Y), rtol=1e-12)


def test_loops_that_begin_alike():
    """The instructions that two stretches have in common are emitted once."""

    def function(x):
        u, total = x[1], 0.0
        for i in range(120):
            u = u + 0.5
            total = total + np.maximum(0.4, np.sqrt(u)) if i < 60 else total + np.exp(-u) * np.maximum(0.4, u)
            u = 0.5 * u + 0.02
        return total

    plain, rolled = caches(function, X)
    assert len(rolled.tape) < len(plain.tape)
    slopes = [nt.value_and_gradient(each, X)[1][0] for each in (plain, rolled)]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12)


# ---- derivatives of what was re-rolled when the function returned


def written(x):
    """Numbers that loops have computed are written to arrays, one of which is the argument."""
    s, found = x[0], []
    for t in range(N):
        s = 0.9 * s + np.sin(x[t])
        found.append(s)
    x[3:20] = found[2:19]
    z = np.zeros(N)
    for t in range(N):
        z[t] = found[t] * x[t]
    z[5] = found[7]
    return z


def nested(x):
    inner = nt.grad(lambda y: polynomial(y) + y[0] ** 3)(x)
    return polynomial(inner * 0.1) * inner


@pytest.mark.parametrize("function", [written, nested], ids=lambda function: function.__name__)
def test_values_that_are_read_after_the_loops(function):
    """The function, and derivatives of derivatives, go on with values that the pass has moved."""
    found = []
    for passes in (OTHERS, "all"):
        cache = nt.prepare_derivative_cache(function, X.copy(), config=nt.Config(passes=passes))
        found.append(nt.value_and_derivative(cache, (X.copy(), Y)))
    for plain, rolled in zip(*found, strict=True):
        np.testing.assert_allclose(rolled, plain, rtol=1e-12, atol=1e-12)


def test_a_search_looks_at_each_stretch_once(monkeypatch):
    """What one period leaves over leads to stretches that another one has led to before."""
    searches, looked_at, run = [], reroll.aligned, reroll._Search.run

    def note(stretch, made):
        searches[-1].append(stretch)
        return looked_at(stretch, made)

    def begin(search):
        searches.append([])
        return run(search)

    monkeypatch.setattr(reroll, "aligned", note)
    monkeypatch.setattr(reroll._Search, "run", begin)

    def logistic_map(x):
        y = x[0]
        for _ in range(N):
            y = x[1] * y * (1 - y)
        return y

    nt.hessian(logistic_map)(np.array([0.5, 0.3]))
    assert max(map(len, searches)) > 2
    for stretches in searches:
        assert len(set(stretches)) == len(stretches)


# ---- recurrences whose turns read the state in several places


@pytest.mark.parametrize("seed", range(12))
def test_a_random_linear_recurrence_keeps_its_value_and_derivatives(seed):
    """Where a state reads `x[2] - z`, the last bits of a small z are lost: errors are relative to one."""
    program, x = LinearProgram(seed), np.array([0.4, 0.7, -0.3])
    found = []
    for passes in (OTHERS, "all"):
        cache = nt.prepare_hessian_cache(program, x, config=nt.Config(passes=passes))
        found.append(nt.value_gradient_and_hessian(cache, x))
    for rolled, plain in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(rolled, plain, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1][0], program(x), rtol=1e-9, atol=1e-12)


def decaying(x):
    y = x[0]
    for _ in range(N):
        y = y + 0.01 * (x[2] - x[1] * y)
    return y


def twice(x):
    y = x[0]
    for k in range(N):
        y = X[k] * (y + y) - (y * x[1] - x[2])
    return y


def begun_with_two(x):
    y, z = x[0], x[1]
    for k in range(N):
        y = z = 0.5 * y + Y[k] * z - x[2]
    return y


@pytest.mark.parametrize("function, turns", [(decaying, N), (twice, N), (begun_with_two, N - 1)])
def test_a_state_that_is_read_twice_is_a_recurrence(function, turns):
    x = np.array([0.4, 0.7, -0.3])
    plain, rolled = caches(function, x)
    assert "recurrence" in str(rolled.tape)
    assert len(rolled.tape) < N  # no instruction is left for each turn
    np.testing.assert_allclose(nt.value_and_gradient(rolled, x)[0], function(x), rtol=1e-12)
    slopes = [nt.value_and_gradient(cache, x)[1][0] for cache in (plain, rolled)]
    np.testing.assert_allclose(*slopes, rtol=1e-11)


def test_cotangents_of_a_recurrence_are_one_where_numbers_scale_them():
    """Such a cotangent is a product with a partial, in which zero stays zero, and one with a number."""

    def logistic_map(x):
        y = x[0]
        for _ in range(N):
            y = 3.1 * y * (1 - y) + x[1]
        return y

    x, found = np.array([0.4, 0.05]), []
    for passes in (OTHERS, "all"):
        cache = nt.prepare_hvp_cache(logistic_map, x, config=nt.Config(passes=passes))
        found.append(nt.value_and_hvp(cache, np.ones(2), x))
    for rolled, plain in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(rolled, plain, rtol=1e-9)
    assert len(cache.tape) < 8 * N  # the turns of the map itself stay, and none of its derivatives


def test_a_cotangent_of_zero_stays_zero_in_a_recurrence():
    def roots(x):
        y = x[0]
        for _ in range(N):
            y = 0.3 * (np.sqrt(y) + y * x[1])
        return x[1] ** 2 + 0.0 * y

    cache = nt.prepare_hvp_cache(roots, np.array([0.0, 0.5]))
    _, slope, product = nt.value_and_hvp(cache, np.array([0.0, 1.0]), np.array([0.0, 0.5]))
    np.testing.assert_array_equal(slope, [0.0, 1.0])
    np.testing.assert_array_equal(product, [0.0, 2.0])
