"""Long sweeps come in segments, between which Ctrl-C takes effect: same numbers, and a cache that works."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import segments
from numbatape.engine.segments import Segments
from tests.engine.mutations import traced

X = np.random.default_rng(0).uniform(0.5, 1.5, 60)
square = nt.primitive(lambda x: x * x, pullback=lambda ybar, y, x: (2.0 * x * ybar,))


def loop(x):
    total = 0.0
    for k in range(60):
        total = total * 0.5 + np.sin(x[k]) * x[k - 1] if k % 2 else total + x[k] * x[k]
    return total


def vectors(x):
    return np.sum(np.exp(x) * x * 3.0 + x / (2.0 + x * x))


def transposed(x):
    return np.sum(np.exp(x.reshape(10, 6).T) * x[:10] + x[:6, None])


def batches(x):
    positive = np.eye(2) * 9.0 + 0.1 * x[:56].reshape(14, 2, 2)
    return np.sum(np.sum(np.sort(x.reshape(10, 6), axis=1)[:, :3], axis=1) ** 2) + np.sum(
        np.linalg.cholesky(positive)
    )


def ruled(x):
    return np.sum(square(np.exp(x)) * x)


def branched(x):
    return vectors(x) if x[0] > 0 else -vectors(x)


FUNCTIONS = {f.__name__: f for f in (loop, vectors, transposed, batches, ruled, branched)}


def single(x):
    """float32 goes its own way."""
    return np.sum(np.tanh(x) * x)


def bound(prepare):
    def make(f, x):
        run = prepare(f, x).bind(x.copy())
        return lambda: (run(), *(part.copy() for part in run.out))

    return make


VERBS = {
    "gradient": lambda f, x: (lambda cache: lambda: nt.value_and_gradient(cache, x))(
        nt.prepare_gradient_cache(f, x)
    ),
    "bound": bound(nt.prepare_gradient_cache),
    "product": lambda f, x: (lambda cache: lambda: nt.value_and_hvp(cache, x[::-1].copy(), x))(
        nt.prepare_hvp_cache(f, x)
    ),
    "Hessian in chunks": lambda f, x: (lambda cache: lambda: nt.value_gradient_and_hessian(cache, x))(
        nt.prepare_hessian_cache(f, x, config=nt.Config(chunk_size=7))
    ),
    "Hessian": lambda f, x: (lambda cache: lambda: nt.value_gradient_and_hessian(cache, x))(
        nt.prepare_hessian_cache(f, x)
    ),
    "bound Hessian": bound(nt.prepare_hessian_cache),
    "batch": lambda f, x: (lambda points: lambda: nt.batch(f)(points))(
        np.stack([x * (1.0 + k / 64) for k in range(20)])
    ),
}


def numbers(result):
    if isinstance(result, (tuple, list)):
        return [number for part in result for number in numbers(part)]
    return np.ravel(result).tolist()


@pytest.fixture
def short(monkeypatch):
    """Cut the plans that are made from now on into segments of little work."""
    nt.clear_caches()
    monkeypatch.setattr(segments, "MOST", 100)
    yield
    nt.clear_caches()


def whole(kind, f, x):
    """Return the numbers of a sweep that is not cut."""
    nt.clear_caches()
    return numbers(VERBS[kind](f, x)())


CASES = [(kind, f) for kind in ("gradient", "bound", "batch") for f in FUNCTIONS]
CASES += [(kind, "vectors") for kind in VERBS if kind not in ("gradient", "bound", "batch")]


@pytest.mark.parametrize("kind, name", CASES)
def test_segments_compute_the_same(kind, name, monkeypatch):
    f = FUNCTIONS[name]
    expected = whole(kind, f, X)
    nt.clear_caches()
    monkeypatch.setattr(segments, "MOST", 100)
    entered = []
    run = Segments.run
    monkeypatch.setattr(Segments, "run", lambda self, *args: entered.append(1) or run(self, *args))
    call = VERBS[kind](f, X)
    for _ in range(3):
        entered.clear()
        # A sum of adjoints that is taken in parts is rounded in another order.
        np.testing.assert_allclose(numbers(call()), expected, rtol=1e-13, atol=1e-15)
        assert entered
    nt.clear_caches()


def test_float32(short):
    x = X.astype(np.float32)
    value, (gradient,) = nt.value_and_gradient(nt.prepare_gradient_cache(single, x), x)
    np.testing.assert_allclose(value, single(x), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.tanh(x) + x / np.cosh(x) ** 2, rtol=1e-5)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind, name", [(kind, "vectors") for kind in VERBS] + [("gradient", "branched")])
def test_an_interrupt_at_any_segment(kind, name, short, monkeypatch):
    """The call is lost, the next one gives the same numbers as ever."""
    call = VERBS[kind](FUNCTIONS[name], X)
    expected = numbers(call())
    assert numbers(call()) == expected
    enter, left = Segments._enter, [10**9]

    def counted(self, entry, start=0):
        left[0] -= 1
        outcome = enter(self, entry, start)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGINT)  # handled here, as if it had come while the kernel ran
        return outcome

    monkeypatch.setattr(Segments, "_enter", counted)
    call()
    entries = 10**9 - left[0]
    assert entries > 3
    for at in range(1, entries + 1, max(1, entries // 12)):
        left[0] = at
        with pytest.raises(KeyboardInterrupt):
            call()
        left[0] = 10**9
        assert numbers(call()) == expected


def test_a_guard_that_fails_in_a_segment(short):
    cache = nt.prepare_gradient_cache(branched, X)
    for sign in (1.0, -1.0, 1.0, -1.0):
        x = X.copy()
        x[0] *= sign
        value, _ = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, branched(x), rtol=1e-13)
    assert cache.traces == 2


def test_errors_name_the_instruction_that_is_taken_in_parts(short):
    def f(x):
        return np.sum(np.linalg.cholesky(x.reshape(15, 2, 2)))

    good = np.tile(np.eye(2).ravel(), 15)
    cache = nt.prepare_gradient_cache(f, good)
    bad = good.copy()
    bad[-1] = -1.0
    for _ in range(2):
        nt.value_and_gradient(cache, good)
        with pytest.raises(np.linalg.LinAlgError, match=r"not positive definite \(at .*test_interrupts.py"):
            nt.value_and_gradient(cache, bad)


WATCHED = np.linspace(0.5, 1.5, 350)


def watching(x):
    return np.exp(x) * WATCHED


LINEAR = {
    "steady": lambda x: (lambda run: [run() for _ in range(3)])(
        VERBS["gradient"](lambda x: np.sum(watching(x)), x)
    ),
    "bound": lambda x: VERBS["bound"](lambda x: np.sum(watching(x)), x)(),
    "pullback": lambda x: nt.value_and_pullback(nt.prepare_pullback_cache(watching, x), x[::-1].copy(), x),
    "two results": lambda x: nt.value_and_pullback(
        nt.prepare_pullback_cache(lambda x: (x * x, watching(x)), x), (x[::-1].copy(), x), x
    ),
    "float32": lambda x: nt.value_and_pullback(
        nt.prepare_pullback_cache(watching, x.astype(np.float32)), x[::-1].copy(), x.astype(np.float32)
    ),
}


@pytest.mark.parametrize("kind", LINEAR)
def test_what_goes_through_memory_is_cut_too(kind, monkeypatch):
    """Adjoints are cleared and seeded, captured arrays compared, bound ones copied: a piece at a time."""
    x = np.linspace(1.0, 2.0, 350)
    nt.clear_caches()
    expected = numbers(LINEAR[kind](x))
    nt.clear_caches()
    monkeypatch.setattr(segments, "MOST", 100)
    enter, move, seen, names = Segments._enter, segments.ctypes.memmove, [], set()

    def measured(self, name, start=0):
        names.add(name)
        word = {key: int(self._frame[segments.WORD[key]]) for key in segments.WORD}
        if name == "pullback":
            rows = (segments.ctypes.c_int32 * (3 * word["SEED_COUNT"])).from_address(word["SEEDS"])
            seen.append(word["CELLS64"] + word["CELLS32"] + sum(rows[2::3]))
        elif name == "watched":
            rows = (segments.ctypes.c_int64 * (4 * word["WATCH_COUNT"])).from_address(word["WATCH"])
            seen.append(sum(rows[2::4]) // 8)
        return enter(self, name, start)

    monkeypatch.setattr(Segments, "_enter", measured)
    monkeypatch.setattr(segments.ctypes, "memmove", lambda *row: seen.append(row[2] // 8) or move(*row))
    np.testing.assert_allclose(numbers(LINEAR[kind](x)), expected, rtol=1e-13)
    assert max(seen) == 100
    assert ("watched" in names) == (kind == "steady")
    nt.clear_caches()


def test_a_captured_array_that_changed_is_noticed_in_any_piece(short):
    x, table = np.ones(350), np.ones(350)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) * table), x)
    for k in (0, 120, 349, 349):
        nt.value_and_gradient(cache, x)
        table[k] += 1.0
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0], np.e * table, rtol=1e-14)


# ---- where plans are cut


def plan_of(f, x):
    from numbatape.engine import make_plan

    return make_plan(traced(f, x), np.shape(x))


def test_short_plans_are_not_cut():
    assert plan_of(vectors, X).cuts is None
    assert plan_of(loop, X).cuts is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_segment_is_long(name, short):
    """A segment has the work of one, and of the last instruction more; long ones are taken in parts."""
    plan = plan_of(FUNCTIONS[name], X)
    work = segments.work_of(plan.tape, lambda codes: np.array([plan.size(int(code)) for code in codes]))
    stops = [0, *plan.cuts.stops]
    assert stops[-1] == len(work)
    for first, last in zip(stops[:-1], stops[1:], strict=True):
        total = work[first:last].sum()
        if first in plan.cuts.parts:
            total /= len(plan.cuts.parts[first][0])
        assert total <= 2 * segments.MOST or last == first + 1
    long = np.flatnonzero(work > segments.MOST)
    arms = {"copy", "exp", "mul", "add", "div", "tanh", "sort", "cholesky", "square"}
    assert {plan.tape.name_of(k) for k in long if k not in plan.cuts.parts}.isdisjoint(arms)


@pytest.mark.parametrize("size, cut", [(128, False), (400, True)])
def test_factorisations_of_a_tenth_of_a_millisecond_are_not_cut(size, cut):
    """A call with cuts runs Python between its segments, which costs more than such a sweep takes."""

    def f(a):
        return np.sum(np.log(np.diag(np.linalg.cholesky(a))))

    cache = nt.prepare_gradient_cache(f, np.eye(size))
    assert (cache._space.segments is not None) == cut
