"""Ctrl-C stops a loop between any two of its looks for it; the next call gives the same numbers as ever."""

import os
import signal

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import interrupts, segments

X = np.array([0.4, 0.9, 1.1])


def nested(x):
    def outer(i, c):
        inner = nt.fori_loop(0, 40, lambda j, d: 0.5 * d + np.sin(c), c)
        return 0.7 * inner + x[1] * np.cos(c)

    return nt.fori_loop(0, 20, outer, x[0])


def while_true(x):
    last = nt.while_loop(lambda c: c[1] < 30.0, lambda c: (np.sin(c[0]) * x[1], c[1] + 1.0), (x[2], 0.0))
    return last[0]


def bound(f):
    run = nt.prepare_gradient_cache(f, X).bind(X.copy())
    return lambda: (run(), run.out[0].copy())


CALLS = {
    "gradient": lambda f: (lambda cache: lambda: nt.value_and_gradient(cache, X))(
        nt.prepare_gradient_cache(f, X)
    ),
    "bound": bound,
    "product": lambda f: (lambda cache: lambda: nt.value_and_hvp(cache, X, X))(nt.prepare_hvp_cache(f, X)),
    "batch": lambda f: lambda: nt.batch(f)(np.stack([X, 1.1 * X])),
}


def numbers(result):
    if isinstance(result, tuple):
        return [number for part in result for number in numbers(part)]
    return np.ravel(result).tolist()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("f", [nested, while_true])
@pytest.mark.parametrize("kind", CALLS)
def test_an_interrupt_at_any_look(kind, f, monkeypatch):
    nt.clear_caches()
    monkeypatch.setattr(segments, "MOST", 500)
    left = [10**9]

    def looks(lookout):
        found = 0
        while True:
            try:
                yield found
                left[0] -= 1
                if left[0] == 0:
                    os.kill(
                        os.getpid(), signal.SIGINT
                    )  # handled here, as if it had come while the kernel ran
                found = 0
            except GeneratorExit:
                return
            except BaseException as error:
                lookout.error, found = error, 1

    monkeypatch.setattr(interrupts, "_signals", looks)
    call = CALLS[kind](f)
    expected = numbers(call())
    left[0] = 10**9
    assert numbers(call()) == expected
    count = 10**9 - left[0]
    assert count > 3
    for at in range(1, count + 1, max(1, count // 10)):
        left[0] = at
        with pytest.raises(KeyboardInterrupt):
            call()
        left[0] = 10**9
        assert numbers(call()) == expected
    nt.clear_caches()


def test_short_loops_do_not_look(monkeypatch):
    monkeypatch.setattr(interrupts, "_signals", None)
    assert np.isfinite(nt.grad(nested)(X)).all()
