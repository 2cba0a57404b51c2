"""Clones in threads, one-shot verbs in threads, and calls inside of calls."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numbatape as nt

THREADS = 8


def loss(x, scale):
    z = np.tanh(x) @ np.cos(x).T * scale
    if x[0, 0] > 0:  # two variants, switched between while others run
        z = z * z
    return np.sum(z) + np.sum(np.sort(x, axis=0)[0]) + np.linalg.slogdet(z @ z.T + 10 * np.eye(len(x)))[1]


def points(count):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(3, 3 + k % 2)), 1.0 + k % 3) for k in range(count)]


def gradients(call):
    return [call(*point) for point in points(40)]


def same(left, right):
    for (value, grads), (other, others) in zip(left, right, strict=True):
        assert value == other
        for g, h in zip(grads, others, strict=True):
            np.testing.assert_array_equal(g, h)


def in_threads(*calls):
    """Run each call in a thread of its own, all started at once; return their results."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]


def test_clones_give_the_same():
    cache = nt.prepare_gradient_cache(loss, *points(1)[0])
    expected = gradients(lambda *args: nt.value_and_gradient(cache, *args))
    clones = [cache.clone() for _ in range(THREADS)]
    calls = [lambda c=c: gradients(lambda *args: nt.value_and_gradient(c, *args)) for c in clones]
    for result in in_threads(*calls):
        same(result, expected)
    assert cache.traces <= 4  # paths and sizes, whatever the number of clones


def test_bound_clones():
    x = np.linspace(-1.0, 1.0, 200)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.exp(x) * x[::-1]), x)
    expected, (gradient,) = nt.value_and_gradient(cache, x)
    runs = [cache.clone().bind(x.copy()) for _ in range(THREADS)]
    results = in_threads(*[lambda run=run: [run() for _ in range(200)] for run in runs])
    for values, run in zip(results, runs, strict=True):
        assert values == [expected] * 200
        np.testing.assert_array_equal(run.out[0], gradient)


@pytest.mark.parametrize("attempt", range(3))
def test_one_shot_verbs_at_once(attempt):
    """The first calls of all threads meet in the trace."""
    shift = 1.0 + attempt

    def f(x, scale):
        return loss(x + shift, scale)

    verb = nt.value_and_grad(f, argnums=(0, 1))
    results = in_threads(*[lambda: gradients(verb)] * THREADS)
    again = nt.value_and_grad(f, argnums=(0, 1))
    expected = gradients(again)
    for result in results:
        same(result, expected)


def test_pullbacks_at_once():
    def f(x):
        return np.sin(x) * x[0]

    def one(seed):
        x = np.random.default_rng(seed).normal(size=6)
        y, pullback = nt.vjp(f, x)
        (g,) = pullback(np.ones(6))
        np.testing.assert_allclose(y, f(x), rtol=1e-14)
        expected = np.cos(x) * x[0]
        expected[0] += np.sum(np.sin(x))
        np.testing.assert_allclose(g, expected, rtol=1e-12)
        return True

    assert all(in_threads(*[lambda k=k: all(one(10 * k + j) for j in range(10)) for k in range(THREADS)]))


def test_pullbacks_own_their_state():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    _, first = nt.vjp(lambda x: x**3, x)
    _, second = nt.vjp(lambda x: x**3, y)
    np.testing.assert_allclose(first(np.ones(2))[0], 3 * x**2)
    np.testing.assert_allclose(second(np.ones(2))[0], 3 * y**2)
    np.testing.assert_allclose(first(np.ones(2))[0], 3 * x**2)


@pytest.mark.parametrize("same_verb", [True, False])
def test_a_rule_waits_for_a_thread_that_traces_the_same_function(same_verb):
    """No lock is held for good while the user's code runs: the two would wait for each other for ever."""
    asked = []

    def value(x):
        if not asked:
            asked.append(True)
            other = threading.Thread(
                target=lambda: asked.append(nt.grad(f)(np.array([2.0, 3.0]))), daemon=True
            )
            other.start()
            other.join(60.0)
            assert not other.is_alive()
        return x * x

    square = nt.primitive(value, pullback=lambda ybar, y, x: (2.0 * x * ybar,))

    def f(x):
        return np.sum(square(x)) * x[0] if x[0] > 0.0 else x[1]

    if same_verb:
        found = nt.grad(f)(np.array([1.0, 2.0]))
    else:
        cache = nt.prepare_gradient_cache(f, np.array([1.0, 2.0]))
        found = nt.value_and_gradient(cache, np.array([1.0, 2.0]))[1][0]
    np.testing.assert_allclose(found, [7.0, 4.0])
    np.testing.assert_allclose(asked[1], [21.0, 12.0])
    for k in range(3):
        np.testing.assert_allclose(nt.grad(f)(np.array([1.0, k])), [k * k + 3.0, 2.0 * k])


# ---- calls inside of calls


def test_gradients_of_constants_inside_a_trace():
    """A trace may take gradients of its own, at plain arrays."""
    inner = nt.grad(lambda x: np.sum(x**3))
    inner(np.ones(3))

    def f(x):
        return np.sum(x * inner(np.array([1.0, 2.0, 3.0])))

    np.testing.assert_allclose(nt.grad(f)(np.ones(3)), [3.0, 12.0, 27.0])


def test_a_verb_calls_itself():
    depth = []

    def f(x):
        if len(depth) < 3:
            depth.append(1)
            depth.append(float(verb(np.full(2, 2.0))[0]))
        return np.sum(x * x)

    verb = nt.grad(f)
    np.testing.assert_allclose(verb(np.ones(2)), [2.0, 2.0])
    assert 4.0 in depth


def test_a_failed_call_leaves_the_verb_usable():
    def f(x):
        if x[0] > 1:
            raise RuntimeError("not here")
        return np.sum(x * x)

    verb = nt.grad(f)

    def call(k):
        if k % 2:
            with pytest.raises(RuntimeError, match="not here"):
                verb(np.full(2, 3.0))
        return verb(np.ones(2))

    for result in in_threads(*[lambda k=k: call(k) for k in range(THREADS)]):
        np.testing.assert_array_equal(result, [2.0, 2.0])


def test_kernels_are_loaded_once_by_many_threads():
    def f(x):
        return np.sum(np.arctan2(x, np.cosh(x)) + np.cbrt(x))

    x = np.linspace(0.5, 2.0, 5)
    results = in_threads(*[lambda: nt.grad(f)(x)] * THREADS)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize(
    "module, use",
    [
        ("numbatape.verbs.first_order", "callable(nt.grad)"),
        ("numbatape.numpy_api.reductions", "nt.grad(lambda x: np.sum(x * x))(np.ones(2))[1] == 2.0"),
    ],
)
def test_a_fork_waits_for_what_another_thread_imports(module, use):
    program = """
import os, sys, threading
import numpy as np
import numbatape as nt

inside, go_on = threading.Event(), threading.Event()


class Slow:  # an import stands still, until the fork is under way
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            inside.set()
            go_on.wait(0.5)


sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: USE)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(20)
    os._exit(0 if USE else 1)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""
    program = program.replace("MODULE", repr(module)).replace("USE", use)
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_a_python_without_an_interpreter_lock_is_refused():
    text = "import sys; sys._is_gil_enabled = lambda: False; import numbatape; numbatape.grad(abs)(1.0)"
    refused = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "ImportError: numbatape does not support free-threaded Python" in refused.stderr
