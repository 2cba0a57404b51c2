"""`Config(debug_mode=True)` checks every derivative; hits of guards; what args_to_zero adds to."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt

DEBUG = nt.Config(debug_mode=True, silence_debug_messages=True)
GOOD, BAD = np.array([1.0, 2.0]), np.array([1.0, -1.0])


def logs(x):
    return np.sum(np.log(x) * x)


def vector(x):
    return np.log(x) * x


CALLS = {
    "gradient": (nt.prepare_gradient_cache, logs, nt.value_and_gradient),
    "pullback": (nt.prepare_pullback_cache, logs, lambda c, x: nt.value_and_pullback(c, 1.0, x)),
    "derivative": (
        nt.prepare_derivative_cache,
        logs,
        lambda c, x: nt.value_and_derivative(c, (x, np.ones(2))),
    ),
    "forward Jacobian": (nt.prepare_derivative_cache, vector, nt.value_and_jacobian),
    "reverse Jacobian": (nt.prepare_pullback_cache, vector, nt.value_and_jacobian),
    "forward gradient": (nt.prepare_derivative_cache, logs, nt.value_and_gradient),
    "product": (nt.prepare_hvp_cache, logs, lambda c, x: nt.value_and_hvp(c, np.ones(2), x)),
    "Hessian": (nt.prepare_hessian_cache, logs, nt.value_gradient_and_hessian),
    "sparse Jacobian": (nt.prepare_sparse_jacobian_cache, vector, nt.value_and_sparse_jacobian),
    "sparse Hessian": (nt.prepare_sparse_hessian_cache, logs, nt.value_gradient_and_sparse_hessian),
}


def flat(result):
    if isinstance(result, tuple):
        return np.concatenate([flat(part) for part in result])
    return np.ravel(result.toarray() if hasattr(result, "toarray") else result)


@pytest.mark.parametrize("kind", CALLS)
def test_debug_mode_checks_every_derivative(kind):
    prepare, f, run = CALLS[kind]
    plain, cache = prepare(f, GOOD), prepare(f, GOOD, config=DEBUG)
    for _ in range(2):
        np.testing.assert_allclose(flat(run(cache, GOOD)), flat(run(plain, GOOD)), rtol=1e-13)
        with pytest.raises(nt.DebugError, match=r"log, at .*test_debug_mode\.py:\d+.*the first NaN appears"):
            run(cache, BAD)


def test_debug_mode_checks_each_chunk(monkeypatch):
    from numbatape.programs import debug

    seen = []
    check = debug.checked_forward
    monkeypatch.setattr(debug, "checked_forward", lambda space: seen.append(1) or check(space))
    config = nt.Config(debug_mode=True, silence_debug_messages=True, chunk_size=1)
    cache = nt.prepare_derivative_cache(vector, GOOD, config=config)
    nt.value_and_jacobian(cache, GOOD)
    assert seen == [1, 1]  # two chunks


@pytest.mark.parametrize("bind", [False, True])
def test_hits_of_steady_calls_count(bind):
    cache = nt.prepare_gradient_cache(lambda x: x[0] if x[0] > 0 else -x[0], np.ones(1))
    x = np.ones(1)
    run = cache.bind(x) if bind else lambda: nt.value_and_gradient(cache, x)
    ((before,),) = [guard["outcomes"].values() for guard in cache.guards()]
    for _ in range(100):
        run()
    x[0] = -1.0
    for _ in range(50):
        run()
    (guard,) = cache.guards()
    assert guard["outcomes"] == {True: before + 100, False: 50}


def _sign(x):
    return np.sum(x**3) if x[0] > 0 else np.sum(np.sin(x))


def _halves(x):
    return x * x if x[0] > 0 else np.sin(x)


DERIVATIVES = {
    "derivative": (nt.prepare_derivative_cache, _halves, lambda c, x: nt.value_and_derivative(c, (x, x))),
    "Jacobian by columns": (nt.prepare_derivative_cache, _halves, nt.value_and_jacobian),
    "Jacobian by rows": (nt.prepare_pullback_cache, _halves, nt.value_and_jacobian),
    "product": (nt.prepare_hvp_cache, _sign, lambda c, x: nt.value_and_hvp(c, x, x)),
    "Hessian": (nt.prepare_hessian_cache, _sign, nt.value_gradient_and_hessian),
    "sparse Jacobian": (nt.prepare_sparse_jacobian_cache, _halves, nt.value_and_sparse_jacobian),
    "sparse Hessian": (nt.prepare_sparse_hessian_cache, _sign, nt.value_gradient_and_sparse_hessian),
}


@pytest.mark.parametrize("kind", DERIVATIVES)
def test_hits_of_derivatives_count(kind):
    """They are traced as programs of their own, on the same lines."""
    prepare, f, run = DERIVATIVES[kind]
    x = np.array([1.0, 2.0])
    cache = prepare(f, x)

    def hits():
        (guard,) = cache.guards()
        assert guard["line"].number == f.__code__.co_firstlineno + 1
        return guard["outcomes"].get(True, 0), guard["outcomes"].get(False, 0)

    run(cache, x), run(cache, -x)  # traces, and finds patterns
    before = hits()
    for _ in range(5):
        run(cache, x)
    for _ in range(3):
        run(cache, -x)
    there, elsewhere = np.subtract(hits(), before)
    # A sparse cache sweeps the function too, for its pattern.
    assert (there, elsewhere) in ((5, 3), (10, 6))


def test_what_is_added_to_keeps_its_size():
    cache = nt.prepare_gradient_cache(
        lambda x, y: np.sum(x * x) * y[0], GOOD, GOOD, config=nt.Config(reuse_buffers=True)
    )
    x = np.ones(3)
    first = nt.value_and_gradient(cache, GOOD, GOOD)[1][1].copy()
    # The size of x is another, that of y is not.
    second = nt.value_and_gradient(cache, x, GOOD, args_to_zero=(True, False))[1][1]
    np.testing.assert_allclose(second, first + np.array([3.0, 0.0]))
    with pytest.raises(nt.ShapeError, match=r"of shape \(3,\); the argument has shape \(2,\) now"):
        nt.value_and_gradient(cache, GOOD, GOOD, args_to_zero=(False, True))
    np.testing.assert_allclose(nt.value_and_gradient(cache, GOOD, GOOD)[1][1], first)
