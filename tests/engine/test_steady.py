"""The builtin of a steady call: it serves what it knows, and hands the rest to the closure."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import numbatape as nt
from numbatape import jit
from numbatape.engine.frame import WORD

X = np.array([0.5, 1.0, 1.5])


def cube(x, c=None):
    return np.sum(x * x * x)


def steady(*args, function=cube, **choices):
    cache = nt.prepare_gradient_cache(function, *args, config=nt.Config(**choices))
    nt.value_and_gradient(cache, args[0])
    return cache


def is_builtin(cache):
    return type(cache.served) is type(len)


@pytest.fixture(autouse=True)
def _available():
    assert jit.object_layout.readable()


def check(cache, x):
    value, gradients = nt.value_and_gradient(cache, x)
    assert type(value) is x.dtype.type
    np.testing.assert_allclose(value, np.sum(np.asarray(x) ** 3), rtol=1e-6)
    np.testing.assert_allclose(gradients[0], 3 * np.asarray(x) ** 2, rtol=1e-6)
    assert all(g is None for g in gradients[1:])
    assert type(gradients[0]) is np.ndarray
    return gradients


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (), (2, 1, 2, 1, 2)])
def test_what_it_serves(dtype, shape):
    x = np.full(shape, 1.5, dtype)
    cache = steady(x)
    assert is_builtin(cache)
    first = check(cache, x)[0]
    kept = first.copy()
    second = check(cache, np.asarray(x + 1))[0]
    assert is_builtin(cache)
    for gradient in (first, second):
        assert (gradient.shape, gradient.dtype) == (shape, dtype)
        assert gradient.flags.carray
        assert gradient.flags.owndata
        assert gradient.base is None
    np.testing.assert_array_equal(first, kept)  # It is not what the second call has written.


class Thing:
    pass


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3), (1,)])
def test_directions_go_to_lanes_that_have_gaps(shape, dtype, monkeypatch):
    """The axis of lanes is the first one of the directions, and the last one in memory."""
    rng = np.random.default_rng(0)
    cache = nt.prepare_derivative_cache(
        lambda x, y: [np.sin(v) * y for v in x.ravel()], np.zeros(shape, dtype), 1.0, lanes=4
    )
    for k in range(4):
        x, dx = rng.normal(size=shape).astype(dtype), rng.normal(size=(4, *shape)).astype(dtype)
        y, dy = rng.normal(), rng.normal(size=4)
        if k == 2 and dtype == np.float64:
            monkeypatch.setattr("numbatape.steady_calls.entry.Entry.serve_as_bound", None)
        value, slopes = nt.value_and_derivative(cache, (x, dx), (y, dy))
        flat, moved = x.ravel(), dx.reshape(4, -1)
        close = functools.partial(np.testing.assert_allclose, rtol=0.0, atol=8 * np.finfo(dtype).eps)
        close(value, np.sin(flat) * y)
        close(np.transpose(slopes), np.cos(flat) * y * moved + np.sin(flat) * dy[:, None])


def test_arrays_of_objects_among_the_results_hold_references():
    thing = Thing()
    function = nt.value_and_grad(lambda x: (np.sum(x), np.array([thing, None])), has_aux=True)

    def held() -> tuple[int, int]:
        (_, found), _ = function(X)
        held = sys.getrefcount(thing)
        del found
        return held, sys.getrefcount(thing)

    first = held()
    assert [held() for _ in range(5)] == [first] * 5


def test_constants_give_none():
    cache = steady(X, nt.Constant(X))
    assert is_builtin(cache)
    assert check(cache, X)[1] is None


def test_reused_buffers():
    cache = steady(X, reuse_buffers=True)
    assert is_builtin(cache)
    assert check(cache, X)[0] is check(cache, X + 1)[0]


class Sub(np.ndarray):
    pass


def test_what_it_hands_on():
    cache = steady(X)
    for x in (np.arange(6.0)[::2], np.arange(5.0), np.frombuffer(b"\0" * 25, np.uint8)[1:].view(np.float64)):
        check(cache, x)
        check(cache, X)
    for bad in (np.arange(3), X[None], "x", None, X.astype(np.float32), [1.0]):
        with pytest.raises((nt.SpecError, TypeError)):
            nt.value_and_gradient(cache, bad)
    check(cache, X)


@pytest.mark.parametrize("args", [(), (X, X)])
def test_other_numbers_of_arguments(args):
    with pytest.raises((nt.SpecError, TypeError)):
        nt.value_and_gradient(steady(X), *args)


FACTOR = 2.0


def scaled(x):
    return FACTOR * np.sum(x)


def test_a_global_that_changes(monkeypatch):
    cache = steady(X, function=scaled)
    assert is_builtin(cache)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X)[1][0], 3.0)
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X)[1][0], 3.0)


def test_another_branch():
    cache = steady(X, function=lambda x: np.sum(x) if x[0] > 0 else -np.sum(x))
    for sign in (1, -1, 1, 1, -1):
        np.testing.assert_array_equal(nt.value_and_gradient(cache, sign * X)[1][0], sign)


@pytest.mark.usefixtures("only_new_objects")
def test_nothing_leaks():
    cache = steady(X, nt.Constant(X))

    def run(count):
        for _ in range(count):
            nt.value_and_gradient(cache, X)
        gc.collect()
        return sys.getallocatedblocks()

    def counts():
        return (
            sys.getrefcount(X),
            sys.getrefcount(np.ndarray),
            sys.getrefcount(np.dtype(float)),
            sys.getrefcount(None),
            sys.getrefcount(cache.served),
        )

    run(100)
    before, blocks = counts(), run(100)
    assert run(5000) - blocks < 50
    assert max(abs(a - b) for a, b in zip(counts(), before, strict=True)) < 20


def test_where_fields_are_elsewhere(monkeypatch):
    monkeypatch.setattr(jit.object_layout, "readable", lambda: False)
    cache = steady(X)
    assert not is_builtin(cache)
    check(cache, X)


FULL = """
import resource
import numpy as np
import numbatape as nt

x, size = np.ones(100_000), 800_000
cache = nt.prepare_derivative_cache(lambda x: (x * 2.0, x * 3.0), x)
for _ in range(3):
    result = nt.value_and_derivative(cache, (x, x))
del result
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 3 * size // 2, before[1]))  # enough for one of four arrays
for _ in range(2):
    try:
        nt.value_and_derivative(cache, (x, x))
        print("served")
    except MemoryError:
        pass
    again = np.empty_like(x)
    del again
resource.setrlimit(resource.RLIMIT_AS, before)
print(nt.value_and_derivative(cache, (x, x))[1][1][0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit, or no such file")
def test_where_memory_ends_the_results_before_are_freed():
    apart = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "500000"}  # Freed arrays are no memory for further ones.
    done = subprocess.run([sys.executable, "-c", FULL], check=True, capture_output=True, text=True, env=apart)
    assert done.stdout == "3.0\n"


def test_what_a_call_reads_lies_together():
    """Where hundreds of sizes take turns, a call waits for each line of memory that is apart."""
    cache = steady(X, nt.Constant(X), function=lambda x, c: FACTOR * cube(x))
    first = cache.served.__self__
    words = np.frombuffer((ctypes.c_int64 * len(jit.steady.WORDS)).from_address(first), np.int64)
    told = dict(zip(jit.steady.WORDS, words.tolist(), strict=True))
    assert told["watch_count"] > 0
    assert all(0 < told[name] - first < 8192 for name in ("rows", "outs", "watches"))
    frame = np.frombuffer((ctypes.c_int64 * len(WORD)).from_address(told["frame"]), np.int64)
    assert all(0 < frame[WORD[name]] - told["frame"] < 8192 for name in ("CODE", "AUX", "SEEDS", "SEED_DATA"))


ENDING = """
import gc, weakref
from numbatape.jit import builtin

method = weakref.ref(builtin.BUILTIN.definition(builtin.METH_NOARGS))
builtin._definition.cache_clear()  # as when the module goes, at the end of the process
gc.collect()
assert method() is not None
"""


def test_methods_of_builtins_outlive_all_modules():
    """CPython frees a builtin in a cycle after all modules, and reads its method then."""
    subprocess.run([sys.executable, "-c", ENDING], check=True)
