"""Steady calls allocate nothing that stays, traces are freed, and kernels let other threads run."""

from __future__ import annotations

import ctypes
import gc
import threading
import tracemalloc

import numpy as np
import pytest

import numbatape as nt
from numbatape import jit
from numbatape.engine import kernels
from numbatape.trace.trace import Trace

CALLS = 1000
SIZE, SHORT = 20_000, 3
ARRAY = 8 * SIZE
STAYS = 16 * CALLS  # a third of the smallest object a call; free lists of tuples come and go below


def loss(x, y):
    z = np.exp(-x) * y + x[0]
    return np.sum(z * z) + np.max(x)


def steady(call, calls=CALLS):
    """Return (bytes that stay, bytes at the peak) of many calls; what stays, in the best of rounds."""
    for _ in range(20):
        call()
    stays, peaks = [], []
    gc.freeze()  # collections then look at what the calls make, not at all that other tests have left
    tracemalloc.start()
    try:
        for _ in range(4):
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for _ in range(calls):
                call()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
            gc.collect()
            stays.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    return min(stays) * CALLS // calls, max(peaks)


def prepared(size=SIZE, **choices):
    x, y = np.linspace(0.1, 1.0, size), np.ones(size)
    cache = nt.prepare_gradient_cache(loss, x, y, config=nt.Config(**choices))
    return cache, x, y


def test_fresh_results():
    cache, x, y = prepared(50)
    assert steady(lambda: nt.value_and_gradient(cache, x, y))[0] < STAYS
    cache, x, y = prepared()
    _, peak = steady(lambda: nt.value_and_gradient(cache, x, y), 20)
    assert peak < 4.5 * ARRAY  # two gradients, while the last two are still there


def test_reused_buffers():
    cache, x, y = prepared(50, reuse_buffers=True)
    assert steady(lambda: nt.value_and_gradient(cache, x, y))[0] < STAYS
    cache, x, y = prepared(reuse_buffers=True)
    _, peak = steady(lambda: nt.value_and_gradient(cache, x, y), 20)
    assert peak < 0.1 * ARRAY


def test_bound():
    cache, x, y = prepared(50)
    assert steady(cache.bind(x, y))[0] < STAYS
    cache, x, y = prepared()
    _, peak = steady(cache.bind(x, y), 20)
    assert peak < 0.1 * ARRAY


@pytest.mark.parametrize("size", [50, 5000])
def test_out(size):
    x = np.linspace(0.1, 1.0, size)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(x)), x)
    out = (np.empty(size),)
    assert steady(lambda: nt.value_and_gradient(cache, x, out=out), 300)[0] < STAYS


def test_constants_and_other_sizes():
    """Sizes seen before, and constants that change, cost no memory either."""
    cache = nt.prepare_gradient_cache(loss, np.ones(4), nt.Constant(np.ones(4)))
    points = [(np.ones(n), nt.Constant(np.full(n, k))) for n in (4, 7) for k in (1.0, 2.0)]

    def call():
        for x, y in points:
            nt.value_and_gradient(cache, x, y)

    assert steady(call, 300)[0] < 4 * STAYS  # four calls each


def test_one_shot():
    x = np.ones(30)
    gradient = nt.grad(lambda x: np.sum(x * np.cos(x)))
    assert steady(lambda: gradient(x), 300)[0] < STAYS


def filled(x):
    y = np.zeros(SHORT)
    for k in range(SHORT):
        y[k] = np.sin(x[k]) * x[0]
    return np.sum(np.outer(y, x) @ np.linalg.inv(np.outer(x, x) + np.eye(SHORT)) * x.T) + np.mean(x)


def traces():
    return [x for x in gc.get_objects() if type(x) is Trace]


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("verb", [nt.grad, nt.hessian, lambda f: lambda x: nt.hvp(f)(x, x)])
def test_a_finished_trace_is_freed_without_the_garbage_collector(verb):
    gc.disable()
    try:
        verb(lambda x: filled(x))(np.linspace(0.5, 1.0, SHORT))
        assert not traces()
    finally:
        gc.enable()


# ---- the GIL

LONG = """# cells: f64
def wait(w, pc):
    v = w[0]
    for i in range(w[1]):
        v[0] = v[0] * 0.999 + 1.0
    return 0
"""


def test_sweeps_are_called_without_the_gil():
    for name in ("value", "gradient", "bound", "pullback"):
        function = kernels.sweep(name)
        assert isinstance(function, ctypes._CFuncPtr)
        assert not function._flags_ & ctypes._FUNCFLAG_PYTHONAPI


def turns_of_another_thread(call):
    """Return how often another thread counted while a call ran."""
    count, done = [0], threading.Event()

    def work():
        while not done.is_set():
            count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    before = count[0]
    call()
    during = count[0] - before
    done.set()
    thread.join()
    return during


def test_other_threads_run_while_a_kernel_does():
    function = jit.load("wait", LONG).function("wait")
    cell = np.zeros(1)
    frame = np.array([cell.ctypes.data, 40_000_000], np.int64)
    # With the GIL held the other thread could have had a turn or two at the call's ends.
    assert turns_of_another_thread(lambda: function(frame.ctypes.data, 0)) > 10_000
    np.testing.assert_allclose(cell[0], 1000.0)


def test_other_threads_run_while_a_bound_call_does():
    x = np.linspace(0.0, 1.0, 2_000_000)
    run = nt.prepare_gradient_cache(lambda x: np.sum(np.sin(np.sin(np.sin(x)))), x).bind(x)
    run()
    assert turns_of_another_thread(run) > 1000
