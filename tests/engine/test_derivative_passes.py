"""Passes over derivatives' tapes: what they save, and that no derivative changes by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatape as nt
from numbatape.config import PASSES
from numbatape.tape import passes
from numbatape.tape.passes import linear
from numbatape.tape.passes.linear_rows import linear_rows

RNG = np.random.default_rng(5)
DATA, ROWS, WEIGHTS = RNG.normal(size=60), RNG.normal(size=(20, 3)), RNG.uniform(0.5, 2.0, size=(20, 3))
TURNED = np.array([[0.0, 0.7, 0.1], [-0.7, 0.0, 0.2], [0.1, 0.3, 0.5]])
GROUP = np.arange(300) % 3
X = np.array([0.4, -0.3, 0.7])


def normal(x):
    """Parameters that are broadcast over data."""
    z = (DATA - x[0]) / np.exp(x[1])
    return np.sum(-0.5 * z**2 - x[1]) + x[2] ** 2


def columns(x):
    """Sums over rows of products with what all rows share, of both signs."""
    return np.sum(np.exp(-np.sum((ROWS * x - x**2) * WEIGHTS, axis=0)) * x)


def chained(x):
    """Products and sums of one argument, several times over."""
    t = np.tile(x, (20, 1)) * WEIGHTS
    u = (t * ROWS + t * 0.3 - t) * WEIGHTS
    return np.sum(np.sin(u) * u - t * u)


def transposed(x):
    """Views of what is narrow: transposed, reshaped, in part."""
    wide = np.broadcast_to(x, (4, 3)) * 2.0
    return np.sum(wide.T @ ROWS[:4]) ** 2 + np.sum(np.exp(wide.reshape(-1))) + np.sum(wide[1:, :2] ** 3)


def masked(x):
    """An infinite partial beside a zero cotangent."""
    root = np.sqrt(np.maximum(DATA, 0.0) * x[0])
    return np.sum(np.where(DATA > 0, root * x[1] + x[2] * root**2, 0.0))


def nested(x):
    """The derivative of a function that takes one."""
    return np.sum(nt.grad(normal)(x) * np.exp(x)) + nt.hessian(columns)(x)[0, 1]


def looped(x):
    """A loop whose derivatives stack carries that no further derivative starts from."""

    def step(c, row):
        c = np.sin(c) * row + x
        return c, np.sum(c**2)

    last, sums = nt.scan(step, x, ROWS[:6])
    return np.sum(last * np.exp(x)) + np.sum(sums)


def overwritten(x):
    """A loop that starts from an array to which numbers are written after it."""
    y = np.sin(x)
    last, _ = nt.scan(lambda c, row: (np.sin(c) * row + y, None), y, ROWS[:6])
    y[0] = last[1] * y[2]
    return np.sum(y * last)


def asked(x):
    """Tests of few numbers behind work on arrays, of which one hangs on a product."""
    total = np.sum(np.exp(DATA * x[0])) * np.sum(ROWS @ x)
    total = total * x[1] if x[0] * x[2] > 0.1 else np.sin(total)
    return total + np.sum(np.exp(x)) if x[1] < 0.0 else total


def stepped(x):
    """An equation of diffusion, in place."""
    u = np.concatenate([np.sin(x), x, x**2])
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**3)


def summed(x):
    """A loop over numbers."""
    return sum(np.exp(x[0] * k / 60) * x[1] for k in range(60))


def rows_in_turn(x):
    """A loop over arrays."""
    return sum(np.sum(np.exp(x * row)) for row in np.concatenate([ROWS, WEIGHTS]))


def gathered(x):
    """Operations on entries that captured positions repeat."""
    return np.sum(np.sin(x[0] + x[1] * x[GROUP]) * DATA[GROUP])


def scaled(x):
    """Literals around an elementwise function, which its derivatives multiply; a column of an array."""
    column = np.multiply.outer(np.linspace(0.0, 1.0, 80), x)[:, 1]
    return np.sum(0.5 * np.log1p((2.0 * x) ** 2)) + np.sum(np.sin(2.0 * x) * 0.5) + np.sum(np.cos(column))


def mixed(x, rows, scan=nt.scan):
    """What two loops mix, which no derivative reads, beside states, which derivatives read in each step."""

    def step(c, row):
        state, mixture = c
        state = np.tanh(state * row + x)
        return (state, TURNED @ mixture + np.log(1.0 + state**2)), None

    carry, _ = scan(step, (x, np.sin(x)), rows)
    return np.sum(scan(step, carry, rows[1:])[0][1])


def inner_slope(x):
    """A gradient without its value."""
    return np.sum(nt.grad(mixed)(x, ROWS[:4]) * x)


FUNCTIONS = [
    *(
        normal,
        columns,
        chained,
        transposed,
        masked,
        nested,
        looped,
        overwritten,
        asked,
        stepped,
        summed,
        rows_in_turn,
        gathered,
    ),
    scaled,
]


def lanes_of(cache) -> tuple:
    """Return (tape, plan) of the latest sweep in lanes."""
    (evaluator,) = cache._wide._evaluators.values()
    space = list(evaluator._workspaces.values())[-1]
    return space.plan.tape, space.plan


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", ["reverse_over_forward", "forward_over_reverse"])
def test_passes_change_no_derivative(function, mode):
    """All of them, none, and each by itself."""
    results = []
    alone = [(name,) for name in PASSES] if mode == "reverse_over_forward" else []
    for chosen in ("none", "all", *alone):
        config = nt.Config(passes=chosen, second_order_mode=mode)
        cache = nt.prepare_hessian_cache(function, X, config=config)
        results.append(nt.value_gradient_and_hessian(cache, X))
        assert [np.shape(part) for part in results[-1]] == [(), (3,), (3, 3)]
        again = nt.value_gradient_and_hessian(cache, X)
        for first, second in zip(results[-1], again, strict=True):
            np.testing.assert_array_equal(first, second)
    without, *others = results
    for result in others:
        for first, second in zip(without, result, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", [normal, columns, chained, transposed, masked, stepped])
def test_a_value_keeps_its_bits(function):
    """A dot adds up as a sum of products does, and a fused addition rounds its product."""
    values = []
    for chosen in ("none", "all", ("fuse",)):
        cache = nt.prepare_gradient_cache(function, X, config=nt.Config(passes=chosen))
        values.append(nt.value_and_gradient(cache, X)[0])
    assert values[1:] == values[:1] * 2


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_finds_work_by_itself(name, monkeypatch):
    """The law above is about something."""
    found = []

    def run(draft, code):
        calls = list(draft.calls)  # a pass may rewrite a loop in its place, and no instruction
        rewritten = its.run(draft, code)
        found.append(rewritten.tobytes() != code.tobytes() or draft.calls != calls)
        return rewritten

    its = passes.PASSES[name]
    monkeypatch.setitem(passes.PASSES, name, its._replace(run=run))
    for function in (*FUNCTIONS, inner_slope):
        config = nt.Config(passes=(name,))
        nt.prepare_gradient_cache(function, X, config=config)
        nt.value_gradient_and_hessian(nt.prepare_hessian_cache(function, X, config=config), X)
        if any(found):
            return
    raise AssertionError(f"{name} finds nothing to do")


@pytest.mark.parametrize("function", [looped, overwritten])
def test_what_directions_share_is_computed_once_in_loops(function):
    """Without a copy of the original, all values of a step differ between the directions of a Hessian."""

    def shared(chosen):
        cache = nt.prepare_hessian_cache(function, X, config=nt.Config(passes=chosen))
        nt.value_gradient_and_hessian(cache, X)
        (evaluator,) = cache._wide._evaluators.values()
        space = list(evaluator._workspaces.values())[-1]
        return sum(run.space.plan.tape.uniform for call in space.calls._loops.values() for run in call.runs)

    assert shared("all") >= shared(tuple(name for name in PASSES if name != "sources")) + 6


def in_python(step, carry, rows):
    for row in rows:
        carry, _ = step(carry, row)
    return carry, None


@pytest.mark.parametrize("lengths", [(3, 0), (0, 2), (1, 3)])
def test_loops_do_not_compute_what_no_derivative_reads(lengths):
    """What has no rows at one length has some at another."""
    slope, its = (nt.grad(lambda x, rows, s=s: mixed(x, rows, s)) for s in (nt.scan, in_python))
    slopes = nt.vmap(slope, in_axes=(0, None))
    for length in lengths:
        rows = ROWS[:length]
        expected = [its(x, rows) for x in (X, 0.5 * X)]
        np.testing.assert_allclose(slopes(np.stack([X, 0.5 * X]), rows), expected, rtol=1e-12, atol=1e-13)
    cache = nt.prepare_pullback_cache(slope, X, nt.Constant(ROWS[:3]))
    bodies = "".join(loop.body.listing() for loop in cache.tape.calls if loop.name == "nt.scan")
    assert " tanh " in bodies
    assert " log " not in bodies


def test_passes_leave_alone_what_no_sweep_would_be_faster_for():
    """What a pass changes is looked at anew by all later ones, a long tape for some instructions in vain."""
    matrix = WEIGHTS[:3] / 4

    def long(x):
        y, active = x, matrix * x[0]
        for _ in range(2000):
            y = active @ y + x
        return np.sum(y) + short(x)

    def short(x):
        t = x * WEIGHTS[0]
        u = (t * ROWS[0] + t * 0.3 - t) * WEIGHTS[0]
        return np.sum(np.sin(u) * u - t * u) + np.sum(x[:1] * x)

    changed = {}
    for function in (short, long):
        caches = [nt.prepare_hessian_cache(function, X, config=nt.Config(passes=p)) for p in ("all", "none")]
        hessian, plain = (nt.value_gradient_and_hessian(cache, X)[2] for cache in caches)
        np.testing.assert_allclose(hessian, plain, rtol=1e-12)
        changed[function] = {its.name for its in lanes_of(caches[0])[0].rewrites if its.ops}
    assert {"buffers", "linear"} <= changed[short]
    assert not {"buffers", "linear", "broadcasts"} & changed[long]


@pytest.mark.parametrize("chosen", ["fuse", ("fuse", "nothing"), ["fuse"], None, 1, ("all",)])
def test_names_of_passes_are_checked(chosen):
    with pytest.raises(
        nt.ConfigError, match=r"'all', 'none' or a tuple of names out of reroll, buffers, .*fuse"
    ):
        nt.Config(passes=chosen)


def test_all_passes_are_documented_and_there():
    assert tuple(passes.PASSES) == PASSES
    for name in PASSES:
        assert f'"{name}"' in nt.Config.__doc__


@pytest.mark.parametrize("function", FUNCTIONS)
def test_columns_agree_with_products(function):
    hessian = nt.hessian(function)(X)
    for k, unit in enumerate(np.eye(3)):
        np.testing.assert_allclose(nt.hvp(function)(X, unit), hessian[k], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("function", [chained, columns])
def test_jacobians_agree_with_products(function):
    def vector(x):
        return np.tile(x, (20, 1)) * WEIGHTS * ROWS - np.exp(x) * 0.5 + function(x)

    jacobian = nt.jacobian(vector, mode="forward")(X)
    for k, unit in enumerate(np.eye(3)):
        np.testing.assert_allclose(jacobian[..., k], nt.jvp(vector, (X,), (unit,))[1], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(nt.jacobian(vector, mode="reverse")(X), jacobian, rtol=1e-12, atol=1e-13)


def test_tangents_of_broadcast_parameters_stay_narrow():
    def cells(passes: str) -> int:
        config = nt.Config(passes=passes)
        cache = nt.prepare_hessian_cache(normal, X, config=config)
        nt.value_gradient_and_hessian(cache, X)
        tape, plan = lanes_of(cache)
        sizes = np.array(tape.sizes.evaluate(plan.dimensions))
        cells = 0
        for row in tape.code[tape.uniform :]:
            dims = tape.layouts[tape.values[row["out"]]["layout"]].dims
            cells += int(np.prod([d if d >= 0 else sizes[-d - 1] for d in dims]))
        return cells

    assert cells("all") < cells("none") / 2


def test_linear_chains_become_one_product():
    # cos(x)*t, times w, times r and 0.3 and -1, times w: one product a lane, of a coefficient without lanes.
    def chain(x):
        t = np.sin(np.tile(x, (20, 1))) * WEIGHTS
        return (t * ROWS + t * 0.3 - t) * WEIGHTS

    cache = nt.prepare_derivative_cache(chain, X)
    nt.value_and_jacobian(cache, X)
    tape, _ = lanes_of(cache)
    wide = [
        tape.name_of(k)
        for k in range(tape.uniform, len(tape))
        if len(tape.layouts[tape.values[tape.code[k]["out"]]["layout"]].dims) == 3
    ]
    assert wide.count("mul") + wide.count("weigh") == 1 and "add" not in wide and "addmul" not in wide, wide


def test_only_what_saves_a_pass_over_lanes_is_rewritten(monkeypatch):
    # In each step of a filter several instructions read the tangent of its variance, which is a sum, so that
    # it is computed and its products are not passed on; and negations of small arrays cost hardly anything.
    left = []

    def noted(draft, code):
        rows = linear_rows(draft, code)
        left.append(len(rows.numbers))
        return rows

    def filtered(x):
        a, h, q = np.eye(2) + x[0] * np.diag([0.1], 1), np.eye(2) * x[1], np.exp(x[2]) * np.eye(2)
        m, p, total = np.zeros(2), np.eye(2), 0.0
        for y in ROWS[:8, :2]:
            m, p = a @ m, a @ p @ a.T + q
            s, e = h @ p @ h.T + q, y - h @ m
            gain = np.linalg.solve(s, h @ p).T
            m, p = m + gain @ e, p - gain @ h @ p
            total = total - 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
        return total

    monkeypatch.setattr(linear, "linear_rows", noted)
    found = nt.hessian(filtered)(X)
    assert left and max(left) <= 8, left
    plain = nt.prepare_hessian_cache(filtered, X, config=nt.Config(passes="none"))
    np.testing.assert_allclose(found, nt.value_gradient_and_hessian(plain, X)[2], rtol=1e-11)


def test_long_chains():
    # Of arrays, in a loop: coefficients are computed as they grow.
    def loop(x):
        u, total = np.tile(x, (2, 1)), 0.0
        for k in range(60):
            u = np.sin(u) * WEIGHTS[k % 19 : k % 19 + 2] + x * 0.1
            total = total + np.sum(u) * 0.01
        return total * np.sum(u**2)

    cache = nt.prepare_hessian_cache(loop, X)
    _, _, hessian = nt.value_gradient_and_hessian(cache, X)
    plain = nt.prepare_hessian_cache(loop, X, config=nt.Config(passes="none"))
    expected = nt.value_gradient_and_hessian(plain, X)[2]
    np.testing.assert_allclose(hessian, expected, rtol=1e-11, atol=1e-12 * np.max(np.abs(expected)))


def test_infinite_partials_beside_zeros_stay_out():
    x = X + 1.0
    hessian = nt.hessian(masked)(x)
    step = 1e-5 * np.eye(len(x))
    columns = [(nt.grad(masked)(x + h) - nt.grad(masked)(x - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(hessian, columns, rtol=1e-7, atol=1e-6)
    assert hessian[0, 1] != 0.0


terms = st.sampled_from(["+", "-", "*", "n", "w", "t", "m"])


@settings(deadline=None, max_examples=20)
@given(st.lists(terms, min_size=1, max_size=12))
def test_random_chains(steps):
    def f(x):
        a, b = np.tile(x, (20, 1)), x * ROWS
        for step in steps:
            if step == "+":
                a = a + b
            elif step == "-":
                b = a - b
            elif step == "*":
                a = a * WEIGHTS
            elif step == "n":
                b = -b
            elif step == "w":
                b = b * 0.5 + a
            elif step == "t":
                a, b = b, a
            else:
                a = a + np.mean(b, axis=0)
        return np.stack([np.sum(a * b), np.sum(np.sin(a)), np.sum(b)])

    forward = nt.jacobian(f, mode="forward")(X)
    np.testing.assert_allclose(forward, nt.jacobian(f, mode="reverse")(X), rtol=1e-10, atol=1e-11)
    hessian = nt.hessian(lambda x: np.sum(f(x) ** 2))(X)
    direction = np.array([1.0, -0.7, 0.4])
    product = nt.hvp(lambda x: np.sum(f(x) ** 2))(X, direction)
    np.testing.assert_allclose(hessian @ direction, product, rtol=1e-9, atol=1e-9 * np.max(np.abs(hessian)))


@pytest.mark.parametrize("count", [3, 40])
def test_literals_are_multiplied_unless_values_have_few_lanes(count):
    x = np.linspace(0.1, 0.9, count)
    data = x[::-1].copy()  # which says that there are so many entries in each call

    def misfit(x):
        return np.sum(0.5 * (data - 2.0 * np.sin(x) * np.mean(x)) ** 2)

    cache = nt.prepare_hessian_cache(misfit, x)
    _, _, hessian = nt.value_gradient_and_hessian(cache, x)
    plain = nt.prepare_hessian_cache(misfit, x, config=nt.Config(passes="none"))
    np.testing.assert_allclose(hessian, nt.value_gradient_and_hessian(plain, x)[2], rtol=1e-12, atol=1e-12)
    names = [rewrite.name for rewrite in lanes_of(cache)[0].rewrites]
    assert ("literals" in names) == (count == 40)
    assert "fuse" in names
