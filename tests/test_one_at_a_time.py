"""A cache serves one call at a time: a second one, of a thread or of a rule inside, gets an error."""

from __future__ import annotations

import os
import threading
from collections import deque

import numpy as np
import pytest

import numbatape as nt

X = np.array([0.5, 1.5, 2.0])
V = np.array([1.0, 0.0, -1.0])


def new_gate():
    """Return what the rules below call in the middle of a sweep: hooks, each once.

    On an object of `threading`, into which no trace looks: a function whose captured values change is
    traced anew.
    """
    gate = threading.Event()
    gate.forward, gate.back = deque(), deque()
    return gate


def pass_through(gate, name):
    waiting = getattr(gate, name)
    if waiting:
        waiting.popleft()()


def gated(gate):
    """Return a function whose sweeps pass through a gate, forward and back."""

    def value(x):
        pass_through(gate, "forward")
        return x * x

    def pullback(ybar, y, x):
        pass_through(gate, "back")
        return (2.0 * x * ybar,)

    square = nt.primitive(value, pullback=pullback, pushforward=lambda tangents, y, x: 2.0 * x * tangents[0])

    def f(x):
        return np.sum(square(x) * np.array([1.0, 2.0, 3.0]))

    return f


def bound(prepare):
    return lambda f: (lambda run: lambda: (run(), *map(np.copy, run.out)))(prepare(f, X.copy()).bind(X))


def cache_call(prepare, run):
    return lambda f: (lambda cache: lambda: run(cache))(prepare(f, X))


KINDS = {
    "gradient": cache_call(nt.prepare_gradient_cache, lambda c: nt.value_and_gradient(c, X)),
    "gradient, two arguments": lambda f: (lambda cache: lambda: nt.value_and_gradient(cache, X, 2.0))(
        nt.prepare_gradient_cache(lambda x, s: f(x) * s, X, 2.0)
    ),
    "gradient with options": cache_call(
        nt.prepare_gradient_cache, lambda c: nt.value_and_gradient(c, X, out=(np.zeros(3),))
    ),
    "bound gradient": bound(nt.prepare_gradient_cache),
    "bound Hessian": bound(nt.prepare_hessian_cache),
    "derivative": cache_call(nt.prepare_derivative_cache, lambda c: nt.value_and_derivative(c, (X, V))),
    "forward Jacobian": cache_call(nt.prepare_derivative_cache, lambda c: nt.value_and_jacobian(c, X)),
    "forward gradient": cache_call(nt.prepare_derivative_cache, lambda c: nt.value_and_gradient(c, X)),
    "pullback": cache_call(nt.prepare_pullback_cache, lambda c: nt.value_and_pullback(c, 1.0, X)),
    "reverse Jacobian": cache_call(nt.prepare_pullback_cache, lambda c: nt.value_and_jacobian(c, X)),
    "product": cache_call(nt.prepare_hvp_cache, lambda c: nt.value_and_hvp(c, V, X)),
    "Hessian": cache_call(nt.prepare_hessian_cache, lambda c: nt.value_gradient_and_hessian(c, X)),
    "sparse Jacobian": cache_call(
        nt.prepare_sparse_jacobian_cache, lambda c: nt.value_and_sparse_jacobian(c, X)
    ),
    "sparse Hessian": cache_call(
        nt.prepare_sparse_hessian_cache, lambda c: nt.value_gradient_and_sparse_hessian(c, X)
    ),
}
BACK = ("gradient", "gradient, two arguments", "gradient with options", "bound gradient", "pullback")


def numbers(result) -> list:
    """Return all numbers of a result, flat."""
    if isinstance(result, (tuple, list)):
        return [number for part in result for number in numbers(part)]
    if result is None:
        return []
    return np.ravel(result.toarray() if hasattr(result, "toarray") else result).tolist()


def elsewhere(call):
    """Make a call in another thread; return what it raised."""
    raised = []

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def refused(call):
    with pytest.raises(nt.BusyError, match=r"cache\.clone\(\).*one-shot"):
        call()


def refused_elsewhere(call):
    (error,) = elsewhere(call)
    assert isinstance(error, nt.BusyError)


@pytest.mark.parametrize("second", [refused, refused_elsewhere])
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_call_is_refused_and_disturbs_nothing(kind, second):
    gate = new_gate()
    call = KINDS[kind](gated(gate))
    expected = numbers(call())
    for place in ("forward", "back") if kind in BACK else ("forward",):
        for _ in range(3):  # steady calls among them
            met = []
            getattr(gate, place).append(lambda met=met: (second(call), met.append(1)))
            assert numbers(call()) == expected
            assert met
    assert numbers(call()) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_gives_the_turn_back(kind):
    """Also that of the second call, if the rule that makes it does not catch it."""
    gate = new_gate()
    call = KINDS[kind](gated(gate))
    expected = numbers(call())

    def interrupt():
        raise KeyboardInterrupt

    for hook, error, times in ((call, nt.BusyError, 3), (interrupt, KeyboardInterrupt, 1)):
        for _ in range(2):
            # Steady calls that stop are made again the general way, and what raises there is traced again.
            for _ in range(times):
                gate.forward.append(hook)
            with pytest.raises(error):
                call()
            gate.forward.clear()
            assert numbers(call()) == expected


def test_a_clone_serves_the_rule_and_the_other_thread():
    gate = new_gate()
    cache = nt.prepare_gradient_cache(gated(gate), X)
    expected = numbers(nt.value_and_gradient(cache, X))
    found = []
    for run in (lambda call: call(), elsewhere):
        gate.forward.append(
            lambda run=run: run(lambda: found.append(numbers(nt.value_and_gradient(cache.clone(), X))))
        )
        assert numbers(nt.value_and_gradient(cache, X)) == expected
    assert found == [expected] * 2


def test_verbs_may_be_called_inside_of_themselves():
    gate = new_gate()
    verb = nt.grad(gated(gate))
    expected = verb(X)
    found = []
    gate.back.append(lambda: found.append(verb(X + 1.0)))
    np.testing.assert_array_equal(verb(X), expected)
    np.testing.assert_allclose(found[0], 2.0 * (X + 1.0) * np.array([1.0, 2.0, 3.0]))


def test_a_pullback_serves_one_call_at_a_time():
    gate = new_gate()
    _, pull = nt.vjp(gated(gate), X)
    expected = numbers(pull(1.0))
    gate.back.append(lambda: refused(lambda: pull(2.0)))
    assert numbers(pull(1.0)) == expected
    assert numbers(pull(1.0)) == expected


@pytest.mark.parametrize("kind", ["gradient", "gradient, two arguments", "bound gradient", "product"])
def test_many_threads_get_the_right_numbers_or_the_error(kind):
    """Without rules: the sweep runs without the interpreter lock."""
    call = KINDS[kind](lambda x: np.sum(np.exp(np.linspace(0.0, 1.0, 3000)[:, None] * x)))
    expected = numbers(call())
    barrier, wrong, served = threading.Barrier(4), [], []

    def work():
        barrier.wait()
        for _ in range(200):
            try:
                found = numbers(call())
            except nt.BusyError:
                continue
            served.append(1)
            # A bound callable's gradient is one array, which the next call may write to meanwhile.
            if found[0] != expected[0] or ("bound" not in kind and found != expected):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served
    assert not wrong
    assert numbers(call()) == expected


def test_the_second_thread_may_bring_other_constants():
    """A closure made for some constants does not serve when others were loaded in between."""
    cache = nt.prepare_gradient_cache(lambda x, c: np.sum(x * c), X, nt.Constant(V))
    expected = numbers(nt.value_and_gradient(cache, X))
    closure = cache.served
    nt.value_and_gradient(cache, X, nt.Constant(2.0 * V))
    assert numbers(closure(X)) == expected


# ---- forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("where", ["a trace", "a sweep"])
def test_a_child_of_a_fork_works(where):
    """While another thread traces, or is in the cache's sweep, whose locks and flags the child has not."""
    gate, inside, done = new_gate(), threading.Event(), threading.Event()
    f = gated(gate)
    cache = nt.prepare_gradient_cache(f, X)
    expected = numbers(nt.value_and_gradient(cache, X))
    verb = nt.grad(f)

    def held(call):
        gate.forward.append(lambda: (inside.set(), done.wait()))
        return threading.Thread(target=call)

    if where == "a trace":
        thread = held(lambda: verb(X))
    else:
        thread = held(lambda: nt.value_and_gradient(cache, X))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            right = numbers(nt.value_and_gradient(cache, X)) == expected
            right &= numbers(verb(X)) == expected[1:]
            right &= numbers(nt.grad(lambda x: np.sum(np.arctan(x)))(X)) != expected
            code = 0 if right else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert numbers(nt.value_and_gradient(cache, X)) == expected
