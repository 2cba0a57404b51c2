"""Tests of few numbers are asked first: which path a call takes is known before its arrays are copied."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest

import numbatape as nt
from numbatape.steady_calls import steady
from numbatape.tape.instruction import GUARD

rng = np.random.default_rng(11)
DIRECTION = np.cos(np.arange(40_000.0))


def behind_work(x):
    s = np.sum(np.exp(x) * 0.5)
    s = s + np.sum(np.sin(x)) if x[0] > 0 else s - np.sum(np.cos(x))
    s = s + np.sum(x * x) if x[1] * x[2] > 0 else s * 1.5
    return s + np.sum(np.tanh(x)) if x[-1] > 0.1 * x[0] else s - np.sum(x)


def on_integers(x):
    k = int(np.clip(x[0] * 4, -2, 2))
    return np.sum(np.exp(x)) * k + x[k]


def on_both(x):
    """A test of a sum stands between two of one number each."""
    s = np.sum(np.exp(x))
    s = s * 2 if x[0] > 0 else s
    s = s + np.sum(np.sin(x)) if np.sum(x) > 0 else s
    return s * s if x[1] > 0 else s


def narrow(x):
    z = np.tanh(x) * np.float32(2)
    return np.sum(z) if x[3] > x[2] else np.sum(z * z)


def in_parts(parts):
    s = np.sum(np.exp(parts["x"])) * parts["scale"]
    s = s + np.sum(parts["x"]) if parts["scale"] > 0 else s
    return s * s if parts["x"][1] > 0 else s


def points_of(program, n):
    signs = itertools.product([-1.0, 1.0], repeat=3)
    points = []
    for first, second, last in signs:
        x = rng.uniform(0.2, 1.0, size=n)
        x[[0, 1, -1]] *= first, second, last
        points.append(x.astype(np.float32) if program is narrow else x)
    if program is in_parts:
        return [{"x": x, "scale": float(x[0])} for x in points]
    return points


def bits(result):
    if isinstance(result, dict):
        return tuple(bits(result[name]) for name in sorted(result))
    if isinstance(result, tuple):
        return tuple(map(bits, result))
    return np.asarray(result).dtype, np.asarray(result).tobytes()


def jvp_of(f):
    return lambda x: nt.jvp(f, (x,), (DIRECTION[: len(x)].astype(x.dtype),))


# Sweeps of short vectors, of longer ones, and strip by strip; of the longest, in segments.
CASES = [
    *((program, n) for program in (behind_work, on_integers, on_both, narrow) for n in (4, 300, 5000)),
    (behind_work, 40_000),
    *((in_parts, n) for n in (300, 5000)),
]


@pytest.mark.filterwarnings("ignore::numbatape.RetracingWarning")
@pytest.mark.parametrize(
    ("verb", "program", "n"),
    [
        *((nt.value_and_grad, *case) for case in CASES),
        *((jvp_of, behind_work, n) for n in (4, 5000)),
        (nt.hessian, behind_work, 5),
    ],
)
def test_builtins_find_the_path_by_themselves(verb, program, n, monkeypatch):
    """Results have the bits of a function that takes one path alone, and Python is asked no more."""
    points = points_of(program, n)
    alone = []
    for x in points:
        own = verb(type(program)(program.__code__, program.__globals__))
        alone.append([bits(own(x)) for _ in range(3)][-1])
    missed = []
    again = steady.SteadyCalls.again
    monkeypatch.setattr(steady.SteadyCalls, "again", lambda *own: missed.append(1) or again(*own))
    both = verb(program)
    for turn in range(8 if n > 1000 else 40):
        before = len(missed)
        for k in rng.permutation(len(points)):
            assert bits(both(points[k])) == alone[k], (turn, k)
    if program is not on_both and n < 40_000:
        assert len(missed) - before <= 1


def entries_of(cache):
    (table,) = cache._front._tables.values()
    return list(itertools.chain(*table._entries.values()))


def test_guards_stand_before_all_work_that_does_not_decide_them():
    cache = nt.prepare_gradient_cache(behind_work, np.ones(50))
    (variant,) = cache._program.variants.values()
    code = variant.tape.code
    # A product and three comparisons decide three guards.
    assert np.flatnonzero(code["op"] == GUARD).tolist() == [1, 4, 7]
    assert len(code) > 12


@pytest.mark.parametrize("stay", [np.sum, np.max, lambda x: np.vdot(x, x) * x[0], lambda x: np.sort(x)[0]])
def test_guards_that_hang_on_work_stay(stay):
    """So does each one behind them, because a guard that fails says that all before it have held."""

    def f(x):
        s = np.sum(np.exp(x))
        s = s * 2 if stay(x) > 0 else s
        return s * s if x[1] > 0 else s

    cache = nt.prepare_gradient_cache(f, np.ones(50))
    (variant,) = cache._program.variants.values()
    assert np.flatnonzero(variant.tape.code["op"] == GUARD)[0] > 2


def test_errors_are_raised_on_the_paths_that_raise_them():
    """An error behind a test, and one before it, which the tape has behind it now."""

    def f(x):
        s = np.linalg.cholesky(np.eye(2) * x[1])[0, 0]
        s = s * np.sum(np.exp(x))
        return s if x[0] > 0 else s * np.linalg.cholesky(np.eye(2) * x[2])[1, 1]

    gradient, places = nt.grad(f), np.ones(600)
    for _ in range(12):
        for signs in itertools.product([-1.0, 1.0], repeat=3):
            x = places.copy()
            x[:3] = signs
            if x[1] > 0 and (x[0] > 0 or x[2] > 0):
                expected = np.exp(x)
                np.testing.assert_allclose(gradient(x)[3:], expected[3:])
            else:
                with pytest.raises(np.linalg.LinAlgError):
                    gradient(x)


def test_constants_and_names_of_all_paths_are_those_of_the_call():
    data, scale, shown = [rng.normal(size=800) for _ in range(3)], 2.0, np.full(800, 0.3)

    def f(x, y):
        s = np.sum(np.exp(x * y)) * scale
        return s if x[0] > 0 else s * 3

    gradient = nt.grad(f)
    for k in range(60):
        if k == 30:
            scale = 5.0
        y = data[k // 7 % 3] if k < 40 else data[k % 3]
        for x in (shown, -shown):
            expected = y * np.exp(x * y) * scale * (1 if x[0] > 0 else 3)
            np.testing.assert_allclose(gradient(x, y), expected, rtol=1e-12)


@pytest.mark.parametrize("n", [4, 5000])
def test_a_path_that_comes_alone_comes_to_the_front(n):
    cache = nt.prepare_gradient_cache(behind_work, np.ones(n))
    points = points_of(behind_work, n)
    for x in points * 10:
        cache.call(x)
    fronts = set()
    for x in points:
        for _ in range(150):
            cache.call(x)
        (table,) = cache._front._tables.values()
        fronts.add(id(table._front))
    assert len(fronts) == len(points)


def test_calls_are_counted_for_the_path_that_they_take():
    cache = nt.prepare_gradient_cache(behind_work, np.ones(30))
    for x in points_of(behind_work, 30) * 20:
        cache.call(x)
    first = cache.guards()[0]
    assert first["outcomes"] == {True: 81, False: 80}  # with the call of its preparation


def test_paths_are_freed_at_once_and_followed_no_more_when_their_workspaces_go():
    cache = nt.prepare_gradient_cache(behind_work, np.ones(40))
    points = points_of(behind_work, 40)
    expected = [bits(cache.call(x)) for x in points]
    for x in points * 20:
        cache.call(x)
    for entry in entries_of(cache)[:4]:
        entry.retire()
    del entry
    gc.collect()
    for _ in range(20):
        for x, its in zip(points, expected, strict=True):
            assert bits(cache.call(x)) == its
    spaces = [weakref.ref(space) for space in cache._evaluator._workspaces.values()]
    gc.disable()
    try:
        del cache
        assert all(space() is None for space in spaces)
    finally:
        gc.enable()
