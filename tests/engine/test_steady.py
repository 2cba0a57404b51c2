"""The builtin of a steady call: it serves what it knows, and hands the rest to the closure."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

import numbatape as nt
from numbatape import jit

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
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,)])
def test_what_it_serves(dtype, shape):
    x = np.full(shape, 1.5, dtype)
    cache = steady(x)
    assert is_builtin(cache)
    first, second = check(cache, x), check(cache, x + 1)
    assert is_builtin(cache)
    assert first[0] is not second[0]
    assert first[0].shape == shape
    assert first[0].dtype == dtype


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
