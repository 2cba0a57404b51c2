"""C functions of caches: what they compute, from several threads at once and on every path of the model."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches import c_function
from numbatape.caches.c_function import CGradient, CValue
from numbatape.jit.c_function import DONE, NOT_FINITE, SEAT

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4, ctypes.c_void_p)
FAILED = -7


class Caller:
    """Calls a C function as a sampler does: with addresses."""

    def __init__(self, f, size, *constants, kind=CGradient, config=None):
        self.raised: list[BaseException] = []
        self.size = size
        prepare = nt.prepare_gradient_cache if kind is CGradient else nt.prepare_pullback_cache
        self.cache = prepare(f, np.full(size, 0.3), *map(nt.Constant, constants), config=config)
        self.function = kind(self.cache, constants, self._failed)
        self.words = np.zeros((2, len(self.function.table)), np.int64)
        self.words[self.function.place] = self.function.table
        self.call = CALL(self.function.address)

    def _failed(self, error):
        self.raised.append(error)
        return FAILED

    def __call__(self, x):
        x, gradient, value = np.array(x, float), np.full(self.size, np.nan), np.full(1, np.nan)
        addresses = (array.ctypes.data for array in (x, gradient, value))
        return self.call(self.size, *addresses, self.words.ctypes.data), value[0], gradient

    @property
    def counts(self):
        return self.function.served, self.function.fallen


CORNERS = [np.array([a, b]) for a in (0.5, -0.5) for b in (0.4, -0.4)]


def smooth(x):
    return np.sum(np.sin(x) * x) + np.exp(x[0])


def branches(x):
    total = 0.0
    for k in range(2):
        total = total + (x[k] ** 2 if x[k] > 0.0 else -3.0 * x[k])
    return total + np.sum(x)


def beyond_support(x):
    return -np.sum(x**2) if x[0] > 0.0 else -np.inf


def looped(x):
    def step(carry, row):
        carry = 0.5 * carry + np.tanh(row)
        return carry, carry

    return nt.scan(step, 0.0, x)[0]


rule = nt.primitive(np.cos, pullback=lambda ybar, y, x: (-np.sin(x) * ybar,))


def with_rule(x):
    return np.sum(rule(x)) * x[0]


def narrow(x):
    return np.sum(x.astype(np.float32) ** 2)


def long(x):
    y = np.concatenate([x] * 4000)
    return np.sum(np.sin(y) * y)


@pytest.mark.parametrize("f", [smooth, branches, looped, with_rule, narrow, long], ids=lambda f: f.__name__)
def test_it_computes_what_the_cache_does(f):
    caller, rng = Caller(f, 4), np.random.default_rng(1)
    for x in rng.normal(size=(12, 4)):
        value, (gradient,) = nt.value_and_gradient(caller.cache, x)
        outcome, its_value, its_gradient = caller(x)
        assert outcome == DONE
        assert its_value == value
        assert np.array_equal(its_gradient, gradient)


@pytest.mark.parametrize("f, traces", [(smooth, 1), (branches, 4), (looped, 1), (with_rule, 1)])
def test_python_is_needed_once_for_each_path(f, traces):
    caller = Caller(f, 2)
    for x in CORNERS * 3:
        caller(x)
    assert caller.counts == (12, traces)


def test_constants_are_those_of_the_function():
    first = Caller(lambda x, y: np.sum((x - y) ** 2), 2, np.ones(2))
    other = CGradient(first.cache, (np.zeros(2),), first._failed)
    assert first(np.zeros(2))[:2] == (DONE, 2.0)
    first.words[other.place] = other.table
    assert first(np.zeros(2))[:2] == (DONE, 0.0)


def test_values_that_are_not_finite_are_reported_on_every_path():
    caller = Caller(beyond_support, 2)
    points = [np.ones(2), -np.ones(2), np.full(2, np.nan), np.array([np.inf, 0.0])] * 2
    assert [caller(x)[0] for x in points] == [DONE, NOT_FINITE, NOT_FINITE, NOT_FINITE] * 2
    assert caller.counts == (8, 2)  # NaN is not above zero, so it takes the path of -1


def test_what_the_function_raises_is_handed_over():
    def f(x):
        if x[0] > 1.0:
            raise KeyError("beyond one")
        return np.linalg.cholesky(np.array([[2.0, x[0]], [x[0], x[1]]]))[1, 1]

    caller = Caller(f, 2)
    assert caller([2.0, 1.0])[0] == FAILED
    assert caller([0.5, -1.0])[0] == FAILED
    assert [type(error) for error in caller.raised] == [KeyError, np.linalg.LinAlgError]
    assert caller([0.0, 4.0])[:2] == (DONE, 2.0)


@pytest.mark.parametrize("f", [smooth, branches, with_rule], ids=lambda f: f.__name__)
def test_threads_may_call_at_once(f):
    caller, rng = Caller(f, 16), np.random.default_rng(2)
    points = rng.normal(size=(6, 60, 16))
    expected = [[caller(x)[1] for x in rows] for rows in points]
    found = [[] for _ in points]
    together = threading.Barrier(len(points))

    def work(rows, results):
        together.wait()
        results += [caller(x)[1] for x in rows]

    threads = [threading.Thread(target=work, args=pair) for pair in zip(points, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    assert not caller.raised
    assert not caller.function._records[:, SEAT.index("claimed")].any()


def test_calls_without_a_free_seat_are_answered_in_python():
    caller = Caller(branches, 2)
    expected = caller([1.0, -1.0])
    caller.function._records[:, SEAT.index("claimed")] = 1
    found = caller([1.0, -1.0])
    assert found[:2] == expected[:2]
    assert np.array_equal(found[2], expected[2])
    assert caller.counts == (1, 1)


def test_there_are_so_many_paths_and_no_more(monkeypatch):
    monkeypatch.setattr(c_function, "MOST_PATHS", 2)
    caller = Caller(branches, 2)
    for x in CORNERS * 2:
        assert caller(x)[1] == branches(x)
    assert caller.counts == (8, 6)


@pytest.mark.parametrize("debug_mode", [False, True])
def test_without_machine_code_python_answers_all_calls(monkeypatch, debug_mode):
    class Missing:
        def address(self):
            raise c_function.CannotEmit("no LLVM for this machine")

    if not debug_mode:
        monkeypatch.setattr(c_function, "C_FUNCTIONS", (Missing(), Missing()))
    caller = Caller(branches, 2, config=nt.Config(debug_mode=debug_mode, silence_debug_messages=True))
    for x in CORNERS[:3]:
        assert caller(x)[:2] == (DONE, branches(x))


@pytest.mark.parametrize("f", [lambda x: np.cumsum(np.exp(x)), lambda x: x, lambda x: np.ones(3)])
def test_values_of_arrays(f):
    caller = Caller(f, 3, kind=CValue, config=nt.Config(values="numpy"))
    for x in np.random.default_rng(3).normal(size=(4, 3)):
        result = np.full(3, np.nan)
        assert caller.call(3, 3, x.ctypes.data, result.ctypes.data, caller.words.ctypes.data) == DONE
        assert np.array_equal(result, f(x))
    assert caller.counts == (4, 1)
