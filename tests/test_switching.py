"""One cache called with sizes and branch points in any order, against fresh caches; what it keeps."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import numbatape as nt
from numbatape import jit
from numbatape.engine import Workspace
from numbatape.engine.calls import Calls
from numbatape.engine.frame import WORD
from numbatape.engine.placement import aligned, zeros
from numbatape.jit import by_sizes
from numbatape.programs import evaluator as evaluator_file
from numbatape.programs import variant
from numbatape.programs.evaluator import Evaluator
from numbatape.programs.variant import VariantWorkspace
from numbatape.steady_calls import steady


def branches(x, bound=1.0):
    """Three ways, depending on values; lengths in arithmetic."""
    y = np.exp(x[1:] * 0.3) * x[:-1]
    if x[0] > bound:
        return np.sum(y) / len(x)
    if np.sum(x) > 0:
        return np.mean(y * y) + x[-1]
    return np.var(x) * np.sum(np.arange(len(x)) * x)


def with_data(theta, data):
    residual = data - theta[0] - theta[1] * np.arange(len(data))
    if theta[0] > 0.5:
        return np.mean(residual**2)
    return np.sum(np.abs(residual)) + theta[1]


def looped(x):
    total = 0.0
    for k in range(len(x) % 3 + 1):
        total = total + np.sum(x[k:] ** 2) * (k + 1)
    return total


def settles(x):
    """A loop whose number of turns depends on the data."""
    y, turns = np.sum(x * x) + 0.1, 0
    while y > 1.0 and turns < 12:
        y, turns = y * 0.5, turns + 1
    return y * np.mean(x)


def two_vectors(x, y):
    return np.concatenate([x, y]) @ np.linspace(0.0, 1.0, len(x) + len(y)) + np.outer(x, y).sum() / x.size


def point(rng, n):
    return rng.normal(size=n) + rng.choice([-1.0, 0.0, 1.5])


CASES = {
    "branches": (branches, lambda rng: (point(rng, rng.integers(2, 40)),)),
    "branches and a bound": (branches, lambda rng: (point(rng, rng.integers(2, 9)), rng.choice([0.0, 1.0]))),
    "data": (with_data, lambda rng: (rng.normal(size=2), nt.Constant(rng.normal(size=rng.integers(1, 30))))),
    "data of few lengths": (
        with_data,
        lambda rng: (rng.normal(size=2), nt.Constant(rng.normal(size=rng.integers(5, 8)))),
    ),
    "a loop": (looped, lambda rng: (point(rng, rng.integers(3, 20)),)),
    "a loop that settles": (settles, lambda rng: (point(rng, rng.integers(1, 20)),)),
    "two lengths": (
        two_vectors,
        lambda rng: (rng.normal(size=rng.integers(1, 9)), point(rng, rng.integers(1, 9))),
    ),
    "float32": (branches, lambda rng: (point(rng, rng.integers(2, 20)).astype(np.float32),)),
}


def bare(arguments):
    return [a.value if isinstance(a, nt.Constant) else a for a in arguments]


def by_a_fresh_cache(f, arguments):
    return nt.value_and_gradient(nt.prepare_gradient_cache(f, *arguments), *arguments)


def check(result, f, arguments, fresh):
    value, gradients = result
    single = any(getattr(a, "dtype", None) == np.float32 for a in arguments)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if single else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(value, f(*bare(arguments)), **tolerance)
    expected, wanted = fresh
    np.testing.assert_allclose(value, expected, **tolerance)
    for gradient, its in zip(gradients, wanted, strict=True):
        assert (gradient is None) == (its is None)
        if its is not None:
            np.testing.assert_allclose(gradient, its, **tolerance)
            assert np.shape(gradient) == np.shape(its)
            assert np.asarray(gradient).dtype == np.asarray(its).dtype


@pytest.mark.parametrize("name", CASES)
def test_any_order_of_sizes_and_branches(name):
    f, arguments_of = CASES[name]
    rng = np.random.default_rng(len(name))
    known = [arguments_of(rng) for _ in range(12)]
    expected = {}  # of those that are known, which come several times
    cache = nt.prepare_gradient_cache(f, *known[0])
    for turn in range(100):
        number = rng.integers(len(known)) if turn % 3 else None
        arguments = arguments_of(rng) if number is None else known[number]
        result = nt.value_and_gradient(cache, *arguments)
        if number is not None:
            if number not in expected:
                expected[number] = by_a_fresh_cache(f, arguments)
            check(result, f, arguments, expected[number])
        elif turn % 2:
            check(result, f, arguments, by_a_fresh_cache(f, arguments))


@pytest.mark.parametrize("name", ["branches", "data", "two lengths"])
def test_one_shot_verbs_in_any_order(name):
    f, arguments_of = CASES[name]
    rng = np.random.default_rng(len(name))
    known = [bare(arguments_of(rng)) for _ in range(10)]
    expected = [by_a_fresh_cache(f, arguments)[1][0] for arguments in known]
    for turn in range(60):
        number = rng.integers(len(known)) if turn % 3 else None
        arguments = bare(arguments_of(rng)) if number is None else known[number]
        gradient = nt.grad(f)(*arguments)
        if number is not None:
            np.testing.assert_allclose(gradient, expected[number], rtol=1e-12, atol=1e-12)
        elif turn % 2:
            wanted = by_a_fresh_cache(f, arguments)[1][0]
            np.testing.assert_allclose(gradient, wanted, rtol=1e-12, atol=1e-12)


def test_results_are_fresh_arrays_also_for_new_sizes():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x**2), np.ones(3))
    kept = []
    for n in (4, 5, 6, 7, 8, 9, 30, 7, 31, 9, 32):
        x = np.arange(1.0, n + 1)
        kept.append((x, nt.value_and_gradient(cache, x)[1][0]))
    for x, gradient in kept:
        np.testing.assert_array_equal(gradient, 2 * x)


def test_new_sizes_see_captured_arrays_and_names_as_they_are():
    weights, scale = np.array([1.0, 2.0]), [3.0]

    def f(x):
        return np.sum(x**2) * weights[1] * scale[0] + x[0] * weights[0]

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    for n in range(4, 16):
        if n == 10:
            weights[1] = 5.0
        if n == 13:
            scale[0] = 7.0
        x = np.linspace(0.0, 1.0, n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        expected = 2 * x * weights[1] * scale[0] + weights[0] * (np.arange(n) == 0)
        np.testing.assert_allclose(gradient, expected, rtol=1e-14)


def test_new_sizes_of_constants_with_other_contents():
    cache = nt.prepare_gradient_cache(lambda p, t: np.mean((t - p) ** 2), 0.3, nt.Constant(np.ones(3)))
    for n in (4, 5, 6, 7, 8, 8, 9, 8, 7, 20):
        for shift in (0.0, 1.0):
            data = np.linspace(0.0, 1.0, n) + shift
            value, (gradient, _) = nt.value_and_gradient(cache, 0.3, nt.Constant(data))
            np.testing.assert_allclose(value, np.mean((data - 0.3) ** 2), rtol=1e-14)
            np.testing.assert_allclose(gradient, -2 * np.mean(data - 0.3), rtol=1e-13)
    assert cache.traces == 1


def test_sizes_that_raise_leave_the_cache_usable():
    cache = nt.prepare_gradient_cache(lambda x: x[3] * np.sum(x), np.ones(5))
    for n in (6, 7, 8, 9, 10):
        nt.value_and_gradient(cache, np.ones(n))
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, np.ones(2))
    assert nt.value_and_gradient(cache, np.ones(11))[0] == 11.0


def root_of(x):
    return np.sqrt(x * x + 1.0)


def weighted(x, w, workspace):
    workspace.product[...] = x * w
    if len(x) == 13:
        raise ArithmeticError("thirteen")
    return np.sum(workspace.product), x[1:] * 2.0


def weighted_back(ybar, y, x, w, workspace):
    back = ybar[0] * w
    back[1:] += 2.0 * ybar[1]
    return back, ybar[0] * x


ROOT = nt.primitive(root_of, pullback=lambda ybar, y, x: (ybar * x / y,))
WEIGHTED = nt.primitive(
    weighted, pullback=weighted_back, workspace=lambda x, w: {"product": (x.shape, x.dtype)}
)
SUB_TAPE = nt.function(lambda x: np.sum(np.tanh(x) * x))


def with_rules(x):
    total, rest = WEIGHTED(x, np.sin(x))
    return total * np.mean(rest) + np.sum(ROOT(x[1:])) / len(x)


def with_loops(x):
    def step(carry, row):
        carry = np.tanh(carry * 0.5 + row)
        return carry, carry

    return np.sum(nt.scan(step, 0.1, x)[1] ** 2) + nt.cond(x[0] > 0, SUB_TAPE, np.sum, x)


def with_calls_in_bodies(x):
    """Bodies that call others: of their own sizes, and of sizes that no body depends on."""

    def step(carry, row):
        carry = nt.cond(row > 0.5, lambda c: np.tanh(c), lambda c: SUB_TAPE(np.stack([c, row])), carry)
        return carry, ROOT(carry)

    def loop(v):
        return with_loops(v) + WEIGHTED(v, np.sin(v))[0]

    both = nt.cond(np.sum(x) > 0, loop, lambda v: np.sum(ROOT(v)), x)
    return both + nt.function(lambda v: SUB_TAPE(v[1:]) * np.mean(v))(x) + np.sum(nt.scan(step, 0.1, x)[1])


def with_arrays_in_bodies(x):
    """Loops of several steps whose bodies have arrays of the argument's size."""

    def step(carry, row):
        return (np.tanh(carry[0] * row + x), carry[1] * 0.5 + row), np.sum(carry[0] * x)

    (last, rest), sums = nt.scan(step, (np.zeros(len(x)), x[:2]), x[:4])
    halved = nt.while_loop(lambda v: np.sum(v * v) > 1.0, lambda v: v * 0.5, x, max_steps=100)
    total = nt.fori_loop(0, 3, lambda i, v: np.sin(v) + SUB_TAPE(v) * x, x)
    return np.sum(last * halved) + np.sum(sums) + np.sum(rest) + np.sum(total) / len(x)


@pytest.mark.parametrize("f", [with_rules, with_loops, with_calls_in_bodies, with_arrays_in_bodies])
def test_new_sizes_of_what_calls_rules_and_loops_take_no_general_call(f, monkeypatch):
    rng = np.random.default_rng(3)
    cache = nt.prepare_gradient_cache(f, np.ones(4))
    for n in (5, 6, 7, 8):
        nt.value_and_gradient(cache, rng.normal(size=n))
    points = [rng.normal(size=n) for n in (9, 4, 30, 12, 100, 11, 31)]
    expected = [nt.value_and_gradient(nt.prepare_gradient_cache(f, x), x) for x in points]
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "forward", lambda *_, **__: pytest.fail("a general call"))
        patch.setattr(Calls, "remake", lambda *_, **__: pytest.fail("loops are made anew"))
        for x, (value, (gradient,)) in zip(points, expected, strict=True):
            found, (its,) = nt.value_and_gradient(cache, x)
            np.testing.assert_allclose(found, value, rtol=1e-13)
            np.testing.assert_allclose(its, gradient, rtol=1e-12, atol=1e-14)
    if f is with_rules:
        with pytest.raises(ArithmeticError, match="thirteen"):
            nt.value_and_gradient(cache, np.ones(13))
        assert nt.value_and_gradient(cache, points[0])[0] == expected[0][0]
        assert nt.value_and_gradient(cache, np.ones(14))[0] == f(np.ones(14))
    assert cache.traces <= 2  # the result of one entry fewer is a law that two sizes tell


def padded_to_rows(x, rows, labels):
    """Several traces: the array is padded or not, and one or two of its parts have an entry more."""
    parts = np.array_split(x, 3)
    table = np.pad(x, (0, -len(x) % 4)).reshape(-1, 4)
    return np.sum(table.mean(1) ** 2) + sum(np.sum(part) ** 2 for part in parts) * np.mean(
        (rows @ x[:3]) ** 2
    )


def of_constants(x, rows, labels):
    return np.mean((rows @ x[:3] - rows[:, 0]) ** 2) + np.sum(x[labels] ** 3) + np.sum(x)


def of_standardised_constants(x, rows, labels):
    return np.mean(((rows - rows.mean(0)) @ x[:3]) ** 2) + np.sum(np.eye(3)[labels] @ x[:3]) + np.sum(x * x)


@pytest.mark.parametrize("f", [padded_to_rows, of_constants, of_standardised_constants])
def test_new_sizes_of_several_traces_and_of_constants_take_no_general_call(f, monkeypatch):
    rng = np.random.default_rng(4)

    def point(n):
        return (
            rng.normal(size=n),
            nt.Constant(rng.normal(size=(n + 1, 3))),
            nt.Constant(rng.integers(0, 3, n)),
        )

    cache = nt.prepare_gradient_cache(f, *point(4))
    for n in (4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18):
        nt.value_and_gradient(cache, *point(n))
    points = [point(n) for n in (31, 40, 13, 26, 100, 41, 19, 39, 3)]
    expected = [nt.value_and_gradient(nt.prepare_gradient_cache(f, *each), *each) for each in points]
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "forward", lambda *_, **__: pytest.fail("a general call"))
        for each, (value, (gradient, *_)) in zip(points, expected, strict=True):
            found, (its, *_) = nt.value_and_gradient(cache, *each)
            assert found == value
            np.testing.assert_array_equal(its, gradient)


def smooth_terms(x):
    y = np.exp(-x * x) * x[0]
    for _ in range(6):  # more vectors than are alive at once: a tape that is swept forward uses cells again
        y = np.tanh(y * x) + np.arange(len(x)) / len(x)
    return y


SECOND = {
    "a sum": lambda x: np.sum(smooth_terms(x) ** 2),
    "products of matrices": lambda x: np.sum((np.outer(x, x) @ np.sin(x)) ** 2) / x.size,
    "sorted": lambda x: np.sum(np.sort(smooth_terms(x)) * x),
    "with_loops": with_loops,
    "either": lambda x: nt.cond(np.sum(x) > 0, lambda v: np.sum(v * v), np.sum, x),
}
RESULTS = {
    "an array": smooth_terms,
    "parts": lambda x: (np.cumsum(x)[1:], np.sin(x)[len(x) // 2 :], np.outer(x, x)[1:]),
    "arrays and numbers": lambda x: {"a": np.cumsum(x), "b": (np.outer(x, x), np.sum(x**3))},
    "the same array twice": lambda x: (lambda y: (y, y))(x**2),
    "a number": lambda x: np.sum(x**3),
}


def cotangents_like(result, rng):
    if isinstance(result, dict):
        return {key: cotangents_like(part, rng) for key, part in result.items()}
    if isinstance(result, tuple):
        return tuple(cotangents_like(part, rng) for part in result)
    return rng.normal(size=np.shape(result)) if np.ndim(result) else float(rng.normal())


DIRECTED = {
    "hvp": (
        SECOND,
        nt.prepare_hvp_cache,
        lambda cache, f, x, rng: nt.value_and_hvp(cache, rng.normal(size=len(x)), x),
    ),
    "derivative": (
        SECOND | RESULTS,
        nt.prepare_derivative_cache,
        lambda cache, f, x, rng: nt.value_and_derivative(cache, (x, rng.normal(size=len(x)))),
    ),
    "pullback": (
        RESULTS,
        nt.prepare_pullback_cache,
        lambda cache, f, x, rng: nt.value_and_pullback(cache, cotangents_like(f(x), rng), x),
    ),
}


@pytest.mark.parametrize(
    ("verb", "name"), [(verb, name) for verb, (functions, *_) in DIRECTED.items() for name in functions]
)
def test_new_sizes_along_directions_take_no_general_call(verb, name, monkeypatch):
    functions, prepare, call = DIRECTED[verb]
    f, sizes = functions[name], (9, 4, 30, 2, 100, 11, 1500, 31)

    def leaves(cache, n):
        rng = np.random.default_rng(n)
        return nt.flatten(call(cache, f, rng.normal(size=n), rng))[0]

    cache = prepare(f, np.ones(4))
    for n in (5, 6, 7, 8):
        leaves(cache, n)
    expected = [leaves(prepare(f, np.ones(n)), n) for n in sizes]
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "forward", lambda *_, **__: pytest.fail("a general call"))
        for n, vector in zip(sizes, expected, strict=True):
            np.testing.assert_allclose(leaves(cache, n), vector, rtol=1e-12, atol=1e-14)
    assert cache.traces <= 2


LANED = {
    "hessian": lambda f: nt.hessian(lambda x: f(x)),
    "jacobian by rows": lambda f: nt.jacobian(lambda x: f(x) * x, mode="reverse"),
    "jacobian by columns": lambda f: nt.jacobian(lambda x: f(x) * x, mode="forward"),
    "batch": lambda f: nt.batch(lambda x: f(x)),
    "vmap": lambda f: nt.vmap(lambda x: f(x) * x),
}


@pytest.mark.parametrize("verb", LANED)
@pytest.mark.parametrize("name", ["a sum", "products of matrices", "sorted", "with_loops"])
def test_new_sizes_of_what_has_lanes_are_planned_by_the_kernel(verb, name, monkeypatch):
    rng = np.random.default_rng(5)
    shape = (3,) if verb in ("batch", "vmap") else ()
    points = [rng.normal(size=(*shape, n)) for n in (9, 4, 23, 2, 40, 11, 30)]
    expected = [LANED[verb](SECOND[name])(x) for x in points]
    call = LANED[verb](SECOND[name])
    for n in (5, 6, 7, 8):
        call(rng.normal(size=(*shape, n)))
    with monkeypatch.context() as patch:
        patch.setattr(variant, "make_plan", lambda *_: pytest.fail("a plan that Python makes"))
        for x, value in zip(points, expected, strict=True):
            found, value = nt.flatten(call(x))[0], nt.flatten(value)[0]
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-13)


def test_a_cotangent_of_another_size_than_the_result_is_an_error():
    cache = nt.prepare_pullback_cache(smooth_terms, np.ones(4))
    for n in (5, 6, 7, 8, 30):
        nt.value_and_pullback(cache, np.ones(n), np.ones(n))
        with pytest.raises(nt.SpecError, match="needs shape"):
            nt.value_and_pullback(cache, np.ones(n + 1), np.ones(n))
    _, (gradient,) = nt.value_and_pullback(cache, np.zeros(31), np.ones(31))
    assert not gradient.any()


def test_fixed_sizes_stay_fixed():
    config = nt.Config(fixed_sizes=True)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x), np.ones(3), config=config)
    for _ in range(8):
        nt.value_and_gradient(cache, np.ones(3))
        with pytest.raises(nt.SpecError):
            nt.value_and_gradient(cache, np.ones(4))


def test_what_a_cache_keeps_is_bounded(monkeypatch):
    """Workspaces, plans and steady calls, after many sizes and paths, each of which comes again and again."""
    monkeypatch.setattr(evaluator_file, "MOST_WORKSPACES", 20)
    cache = nt.prepare_gradient_cache(branches, np.ones(5))
    rng = np.random.default_rng(0)

    def kept():
        evaluator = cache._evaluator
        tables = cache._front._tables.values()
        plans = sum(len(variant._plans) for variant in cache._program.snapshot())
        return len(evaluator._workspaces), sum(map(len, tables)), plans, len(cache._program.variants)

    for _ in range(800):
        nt.value_and_gradient(cache, point(rng, rng.integers(2, 120)))
    workspaces, entries, plans, variants = kept()
    assert workspaces <= 20
    assert entries <= 20
    assert plans <= 3 * 512
    assert variants <= 6
    traces = cache.traces
    for _ in range(300):
        nt.value_and_gradient(cache, point(rng, rng.integers(2, 120)))
    assert cache.traces == traces


def test_workspaces_are_limited_by_bytes():
    config = nt.Config(max_bytes=200_000)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) * x), np.ones(5), config=config)
    for _ in range(3):
        for n in range(1_000, 1_040):
            _, (gradient,) = nt.value_and_gradient(cache, np.full(n, 0.5))
            np.testing.assert_allclose(gradient, np.exp(0.5) * 1.5, rtol=1e-14)
    evaluator = cache._evaluator
    assert sum(space.nbytes for space in evaluator._workspaces.values()) == evaluator._bytes
    assert evaluator._bytes <= 200_000 + max(space.nbytes for space in evaluator._workspaces.values())
    assert not evaluator.has_room()
    known = set(evaluator._workspaces)
    for n in [*range(1_000, 1_040)] * 3:  # those without a workspace do not take another's place
        nt.value_and_gradient(cache, np.full(n, 0.5))
    assert set(evaluator._workspaces) == known


def test_sizes_share_their_adjoints_and_keep_what_they_returned():
    """Gradients under `reuse_buffers` are the cache's own arrays, for each size of arguments."""
    config = nt.Config(reuse_buffers=True)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x**3), np.ones(3), config=config)
    for n in (3, 5, 4, 8, 5, 3, 8):
        x = np.linspace(0.5, 1.5, n)
        _, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(gradient, 3 * x**2, rtol=1e-14)
    _, (again,) = nt.value_and_gradient(cache, x, args_to_zero=(False,))
    np.testing.assert_allclose(again, 6 * x**2, rtol=1e-14)


@nt.function
def damped(x):
    return np.exp(-x * x) * np.sin(x)


@pytest.mark.usefixtures("only_new_objects")
def test_the_bytes_of_workspaces_are_those_of_bodies_and_loops_too():
    """What bodies, stacks of steps and rules take was not counted, so that caches kept it for all sizes."""

    def scanned(x):
        last, rows = nt.scan(lambda s, r: (np.sin(s) * r, s * r), 0.1, x)
        return last + np.sum(rows)

    for function in (lambda x: np.sum(damped(x) * x), scanned):
        config = nt.Config(max_bytes=200_000)
        cache = nt.prepare_gradient_cache(function, np.ones(5), config=config)
        gc.collect()
        before = sum(type(its) is Workspace for its in gc.get_objects())  # those of bodies
        for n in (*range(1_000, 1_030), *range(1_000, 1_030)):
            nt.value_and_gradient(cache, np.full(n, 0.5))
        evaluator = cache._evaluator
        spaces = [*evaluator._workspaces.values()]
        assert sum(space.nbytes for space in spaces) == evaluator._bytes
        for space in spaces:
            bodies = {id(x): x for run in space.calls._loops.values() for its in run.runs for x in its.spaces}
            cells = [array.nbytes for x in (space, *bodies.values()) for array in (*x.v, *x.g)]
            assert space.nbytes > sum(cells)
        assert evaluator._bytes <= 200_000 + max(space.nbytes for space in spaces)
        gc.collect()
        assert sum(type(its) is Workspace for its in gc.get_objects()) - before <= 20


def test_sizes_that_take_turns_are_looked_up_without_python(monkeypatch):
    """Sizes with one entry go from shapes to the builtin; several entries, and what is dropped, do not."""

    def searched(self, *args):
        searches.append(args)
        return search(self, *args)

    searches: list[tuple] = []
    search = steady.SteadyCalls.again
    monkeypatch.setattr(steady.SteadyCalls, "again", searched)
    one = nt.prepare_gradient_cache(lambda x: np.sum(x**3), np.ones(3))
    two = nt.prepare_gradient_cache(lambda x, y: np.sum(x * y), np.ones(3), np.ones(3))
    for n in [*range(1, 11)] * 5:
        x = np.linspace(0.5, 1.5, n)
        np.testing.assert_allclose(nt.value_and_gradient(one, x)[1][0], 3 * x**2, rtol=1e-14)
        np.testing.assert_array_equal(nt.value_and_gradient(two, x, x + 1)[1], [x + 1, x])
    assert len(searches) <= 70  # of 100 calls
    del searches[:]
    for n in [*range(1, 11)] * 5:
        nt.value_and_gradient(one, np.ones(n))
        nt.value_and_gradient(two, np.ones(n), np.ones(n))
    assert not searches
    for _ in range(by_sizes.OFTEN + 3):  # so many in a row: in front
        nt.value_and_gradient(one, np.ones(4))
    (table,) = one._front._tables.values()
    assert len(searches) == 2
    assert table._front.rows[0].size == (4,)
    assert ((7,),) in table._alone
    (entry,) = table._entries[(7,)]
    entry.retire()
    assert ((7,),) not in table._alone
    np.testing.assert_array_equal(nt.value_and_gradient(one, np.ones(7))[1][0], np.full(7, 3.0))


@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_sizes_are_told_apart_however_many_there_are(leaves):
    """Of leaves that are arrays and numbers; where some are dropped, others are still found."""
    function = (
        lambda x: np.sum(x * x),
        lambda x, y: np.sum(x * x) * y,
        lambda x, y, z: np.sum(x * x) * y + np.sum(z),
    )[leaves - 1]
    rng = np.random.default_rng(leaves)
    shapes = list(itertools.product(range(7), (0, 1, 2, 3, 6)))

    def argument(m, n):
        return (rng.normal(size=(m, n)), 0.5, rng.normal(size=n % 3))[:leaves]

    def turn():
        for m, n in rng.permutation(shapes).tolist():
            args = argument(m, n)
            value, slopes = nt.value_and_gradient(cache, *args)
            np.testing.assert_allclose(value, function(*args), rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(slopes[0], 2 * args[0] * (args[1] if leaves > 1 else 1.0))

    cache = nt.prepare_gradient_cache(function, *argument(3, 2))
    for _ in range(3):
        turn()
    (table,) = cache._front._tables.values()
    assert len(table._alone) >= len(shapes) - 1  # the one in front need not be there
    for sizes in shapes[::3]:
        for entries in [its for its in table._entries.values() if its[0].rows[0].size == sizes]:
            entries[0].retire()
    assert len(table._alone) <= len(shapes) - len(shapes[::3])
    for _ in range(3):
        turn()
    assert len(table._alone) >= len(shapes) - 1


WITH_CONSTANTS = {
    "the length": lambda x, a: np.sum(np.exp(-x * x) * x[0]) / len(x) * a,
    "literals": lambda x, a: np.sum((2.5 * x + a) ** 2 * np.sin(x + 0.3)) + 1.5 * np.arange(1.0, 4.0) @ x[:3],
    "a prologue": lambda x, a: np.sum(x[1:] * x[:-1]) / (1 / len(x) + np.sqrt(len(x) + 1)) + a * np.mean(x),
    "a part of an array": lambda x, a: _written(x, a),
    "positions": lambda x, a: np.sum(np.sort(x)[::2] * a) + x[-1] * x[len(x) // 2] + np.max(x),
    "a product": lambda x, a: np.outer(x, x[:3])[-1] @ np.ones(3) * a + np.linalg.norm(x),
}


def _written(x, a):
    y = np.zeros(len(x) + 1)
    y[1:] = x * a
    y[len(x) // 2] += 3.0
    return np.sum(y * y[::-1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", WITH_CONSTANTS)
def test_sizes_in_turn_compute_in_one_memory_what_each_computes_alone(name, dtype):
    """Each has its own constants; other kinds of calls have cells of their own."""
    rng, function = np.random.default_rng(0), WITH_CONSTANTS[name]
    sizes = [4, 5, 6, 7, 9, 12, 17, 33, 70]
    given = {n: (rng.normal(size=n).astype(dtype), rng.uniform(0.5, 2.0)) for n in sizes}
    alone = {n: nt.value_and_grad(lambda x, a: function(x, a))(*args) for n, args in given.items()}
    cache = nt.prepare_gradient_cache(function, *given[4])
    for k in range(40):
        n = int(rng.permutation(sizes)[0]) if k > 20 else sizes[k % len(sizes)]
        x, a = given[n]
        value, (slope, _) = nt.value_and_gradient(cache, np.repeat(x, 2)[::2] if k % 7 == 6 else x, a)
        assert (value, value.dtype) == (alone[n][0], alone[n][0].dtype)
        np.testing.assert_array_equal(slope, alone[n][1])
        nt.value_and_gradient(cache, x + 1, a)
    (table,) = cache._front._tables.values()
    places = {}
    for key, builtin in table._alone._builtins.items():
        words = (ctypes.c_int64 * len(jit.steady.WORDS)).from_address(builtin.__self__)
        frame = (ctypes.c_int64 * len(WORD)).from_address(words[jit.steady.WORDS.index("frame")])
        places[key] = frame[WORD["V64"]]
    assert len(places) > 6
    if dtype == np.float64 and name != "a part of an array":
        assert len({*places.values()}) < len(places) / 2


def test_what_a_call_has_looked_up_stays_until_it_returns():
    """A rule's code runs during the sweeps, and may forget all that is known."""
    known: list = []
    alive: list[bool] = []

    def doubled(x):
        if known:
            table = known.pop()
            builtin = weakref.ref(table._alone._builtins[((15,),)])
            table.clear()
            gc.collect()
            alive.append(builtin() is not None)
        return 2.0 * x

    twice = nt.primitive(doubled, pullback=lambda ybar, y, x: (2.0 * ybar,))
    cache = nt.prepare_gradient_cache(lambda x: np.sum(twice(x) * x), np.ones(3))
    for n in [*range(3, 20)] * 6:
        nt.value_and_gradient(cache, np.ones(n))
    (table,) = cache._front._tables.values()
    assert table._front.rows[0].size == (19,)
    known.append(table)
    x = np.linspace(0.0, 1.0, 15)
    value, (slope,) = nt.value_and_gradient(cache, x)
    assert alive == [True]
    np.testing.assert_allclose(value, 2 * x @ x)
    np.testing.assert_array_equal(slope, 4 * x)


def test_two_branches_of_one_size_are_not_looked_up_as_one():
    """Where the test hangs on all entries, it does not come first on the tape, and is not asked first."""
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x * x) if np.sum(x) > 9.0 else np.sum(x), np.ones(3))
    for n, first in [(n, first) for n in (5, 6, 7, 8) for first in (0.5, 2.0)] * 4:
        slope = nt.value_and_gradient(cache, np.full(n, first))[1][0]
        np.testing.assert_array_equal(slope, np.full(n, 1.0 if first < 1 else 2 * first))
    (table,) = cache._front._tables.values()
    assert not table._alone


def test_sizes_without_room_rarely_take_another_ones_place(monkeypatch):
    """After 32 calls each, every size took another one's place in every call: 200 µs in place of 30."""
    made = []
    monkeypatch.setattr(evaluator_file, "VariantWorkspace", lambda *a: made.append(0) or VariantWorkspace(*a))

    def either(x):
        return np.sum(x * x) / len(x) if x[0] > 0.0 else np.sum(np.exp(x[1:]))

    config = nt.Config(max_bytes=100_000)
    cache = nt.prepare_gradient_cache(either, np.ones(5), config=config)
    points = [np.full(n, sign * 0.5) for n in range(500, 530) for sign in (1.0, -1.0)]
    for turn in range(100):
        for x in points:
            _, (gradient,) = nt.value_and_gradient(cache, x)
            if turn % 33:
                continue
            expected = 2 * x / len(x) if x[0] > 0.0 else np.exp(x) * (np.arange(len(x)) > 0)
            np.testing.assert_allclose(gradient, expected, rtol=1e-14)
    assert not cache._evaluator.has_room()
    assert len(made) < 500  # of 6 000 calls


@pytest.mark.usefixtures("only_new_objects")
def test_memory_stays_flat_over_sizes_and_branches():
    """What is known after one round of calls is all that further rounds keep, also where the oldest go."""
    sub = nt.function(lambda x: np.sum(np.exp(-x * x)) / len(x))

    def turns(x):
        y = 0.0
        for entry in x[:4]:
            y = np.sin(y) + entry * entry
        return y

    def scanned(x):
        return nt.scan(lambda c, v: (0.9 * c + np.tanh(v + c), c), 0.0, x)[0]

    def mixed(x):
        if x[0] > 0.0:
            return scanned(x) + sub(x[1:])
        return turns(x) + nt.cond(x[-1] > 0.0, lambda v: np.sum(v * v), lambda v: np.mean(v), x)

    rng = np.random.default_rng(0)
    points = [rng.normal(size=n) for n in rng.integers(2, 24, 200)]
    small = nt.Config(max_bytes=60_000, max_variants=8)
    caches = [nt.prepare_gradient_cache(mixed, points[0], config=config) for config in (None, small)]
    verb = nt.grad(mixed)

    def kept() -> int:
        """Return how many blocks of memory there are after one more round."""
        for x in points:
            for cache in caches:
                nt.value_and_gradient(cache, x)
            verb(x)
        for x in points[:20]:
            nt.hessian(mixed)(x[:9])
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(8):  # entries of paths that often follow one another are joined in the first rounds
        kept()
    counts = [kept() for _ in range(6)]
    # Which sizes have a workspace changes, and counts by some hundreds with it; an object kept in one call of
    # three would be 200 more in each round.
    assert min(counts[-2:]) - min(counts[:2]) < 800, counts


def test_one_lane_of_a_function_becomes_several():
    """A workspace made for one lane kept cells of the last lane only when it moved to other sizes."""
    wave = nt.function(lambda v: np.sum(np.sin(v)))

    def f(x, y):
        return np.sum(nt.vmap(lambda s: wave(y * s))(x))

    cache = nt.prepare_gradient_cache(f, np.ones(4), np.ones(5))
    for m, n in ((3, 5), (3, 13), (1, 13), (2, 13), (4, 6)):
        x, y = np.arange(1.0, m + 1), np.linspace(0.1, 0.9, n)
        _, (by_x, by_y) = nt.value_and_gradient(cache, x, y)
        slopes = np.cos(np.outer(x, y))
        np.testing.assert_allclose(by_x, slopes @ y, rtol=1e-12)
        np.testing.assert_allclose(by_y, x @ slopes, rtol=1e-12)


def test_a_workspace_larger_than_the_budget_still_follows_sizes(monkeypatch):
    """Each entry drops the one before it: there never are as many as sizes get at once."""
    made = []
    begin = VariantWorkspace.__init__

    def counted(self, *args, **kwargs):
        made.append(self)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(VariantWorkspace, "__init__", counted)

    def halved(x):
        return np.sum(nt.while_loop(lambda v: np.sum(v) > 1.0, lambda v: v * 0.5, x, max_steps=100))

    cache = nt.prepare_gradient_cache(halved, np.ones(5), config=nt.Config(max_bytes=2_000))
    for n in range(6, 26):
        x = np.linspace(0.5, 1.0, n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        steps = int(np.ceil(np.log2(x.sum())))
        np.testing.assert_allclose(value, x.sum() / 2**steps, rtol=1e-13)
        np.testing.assert_allclose(gradient, 0.5**steps, rtol=1e-13)
    assert cache.traces == 1 and len(made) < 6


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
def test_memory_of_dropped_workspaces_goes_back_to_the_system():
    """C's allocator takes large blocks from its heap once one was freed, and small ones above hold them."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    freed = np.ones(2 << 20)  # from now on, the allocator takes blocks up to this size from the heap
    del freed
    large = [zeros(4 << 20) for _ in range(8)]
    for memory in large:
        memory[:] = 1
    small, before = [np.ones(10_000) for _ in range(8)], resident()
    del large, memory
    assert resident() < before - (28 << 20)
    assert len(small) == 8
    assert not any(zeros(2 << 20)[:: 1 << 10]) and not any(aligned(300_000, np.float64)[:: 1 << 10])


@pytest.mark.parametrize("argnums", [0, (0, 1)], ids=["data", "argument"])
def test_numbers_in_the_place_of_arrays_without_dimensions_at_new_lengths(argnums):
    gradient = nt.grad(lambda x, scale: np.sum(x * x) * scale, argnums=argnums)
    for n in range(3, 12):
        gradient(np.ones(n), np.array(2.0))
    # The workspace that follows sizes has rows for arrays.
    for n, scale in (12, 3.0), (13, np.float64(3.0)), (14, np.array(3.0)):
        found = gradient(np.ones(n), scale)
        assert np.array_equal(found if argnums == 0 else found[0], np.full(n, 6.0))
        assert argnums == 0 or found[1] == n


def clipped(x):
    total = 0.0
    for v in x:
        total = total + (v * v if abs(v) < 1.0 else 2.0 * abs(v) - 1.0)
    return total


@pytest.mark.filterwarnings("ignore::numbatape.RetracingWarning")
def test_what_a_guard_has_seen_says_which_of_many_paths_is_next():
    """Of 64 paths with an entry for the same sizes, few are asked in vain: one by one, it would be half."""
    points = [np.array([0.5 if inside else 1.5 for inside in p]) for p in itertools.product([0, 1], repeat=6)]
    cache = nt.prepare_gradient_cache(clipped, points[0])
    for _ in range(3):
        for x in points:
            nt.value_and_gradient(cache, x)
    assert cache.traces == 64
    (table,) = cache._front._tables.values()
    (entries,) = table._entries.values()
    asked, builtins = [], {entry: entry.builtin for entry in entries}
    for entry, serve in builtins.items():
        entry.__dict__["builtin"] = lambda *leaves, serve=serve: asked.append(1) or serve(*leaves)
    for k in np.random.default_rng(0).permutation(64):
        x = points[k]
        value, (slope,) = nt.value_and_gradient(cache, x)
        assert value == clipped(x)
        np.testing.assert_array_equal(slope, np.where(np.abs(x) < 1.0, 2 * x, 2.0))
    assert cache.traces == 64
    assert len(asked) < 64 * 6
    for entry, serve in builtins.items():
        entry.__dict__["builtin"] = (
            serve  # what leads to an entry knows its builtin by the address of its words
        )
    entries[0].retire()
    assert all(nt.value_and_gradient(cache, x)[0] == clipped(x) for x in points)


def test_where_python_serves_the_path_of_the_last_calls_is_asked_first(monkeypatch):
    """Sweeps that are cut, and calls that write to what they capture, have no builtin."""
    seen, asked = [], []

    def watched(x):
        seen.append(x[0])
        return branches(x)

    serve = steady.Entry.serve_as_bound
    monkeypatch.setattr(steady.Entry, "serve_as_bound", lambda *own: asked.append(1) or serve(*own))
    gradient = nt.grad(watched)
    points = np.array([2.0, 0.5]), np.array([0.5, 0.7]), np.array([0.5, -0.7])
    for _ in range(3):
        for x in points:
            gradient(x)
    for x in points:
        gradient(x), gradient(x), asked.clear()
        gradient(x)
        assert len(asked) == 1
    seen.clear(), gradient(points[0])
    assert seen == [2.0]
