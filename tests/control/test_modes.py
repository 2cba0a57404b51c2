"""Loops with a body agree with the Python loops that they stand for, in every mode of differentiation."""

import functools

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import calls
from tests.control.programs import PROGRAMS
from tests.control.python_loops import Python

X = np.array([0.3, -0.7, 1.2, 0.5])
V = np.array([0.2, 1.0, -0.4, 0.6])

MODES = {
    "value": lambda f: f(X),
    "gradient": lambda f: nt.value_and_grad(f)(X),
    "forward": lambda f: nt.jvp(f, (X,), (V,)),
    "hessian": lambda f: nt.hessian(f)(X),
    "product": lambda f: nt.hvp(f)(X, V),
    "gradient of a gradient": lambda f: nt.grad(lambda x: nt.grad(f)(x) @ V)(X),
    "batch": lambda f: nt.batch(f)(np.stack([X, 1.1 * X, X + 0.2])),
    "jacobian inside": lambda f: nt.grad(
        lambda x: np.sum(nt.jacobian(lambda z: np.stack([f(z), z[0]]))(x) ** 2)
    )(X),
    "sparse": lambda f: nt.sparse_hessian(f)(X).toarray(),
}


def flat(tree):
    parts = tree if isinstance(tree, tuple) else (tree,)
    return np.concatenate([np.ravel(part) for part in parts])


@functools.cache
def slopes(name, scale=1.0, shift=0.0):
    """Return value and gradient of a Python loop."""
    return nt.value_and_grad(functools.partial(PROGRAMS[name], Python))(scale * X + shift)


@functools.cache
def hessian(name):
    return nt.hessian(functools.partial(PROGRAMS[name], Python))(X)


# What each mode gives follows from gradients and a Hessian, so that two traces of the Python loop serve all.
EXPECTED = {
    "value": lambda name: slopes(name)[0],
    "gradient": slopes,
    "forward": lambda name: (slopes(name)[0], slopes(name)[1] @ V),
    "hessian": hessian,
    "product": lambda name: hessian(name) @ V,
    "gradient of a gradient": lambda name: hessian(name) @ V,
    "batch": lambda name: tuple(
        zip(*(slopes(name, *at) for at in ((1.0, 0.0), (1.1, 0.0), (1.0, 0.2))), strict=True)
    ),
    "jacobian inside": lambda name: 2.0 * hessian(name) @ slopes(name)[1],
    "sparse": hessian,
}


@functools.cache
def expected(name, mode):
    return flat(EXPECTED[mode](name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_is_what_its_python_loop_is(name, mode):
    tolerance = 1e-5 if name == "single_precision" else 1e-11
    found = flat(MODES[mode](functools.partial(PROGRAMS[name], nt)))
    assert found.shape == expected(name, mode).shape
    scale = 1.0 + np.max(np.abs(expected(name, mode)), initial=0.0)
    np.testing.assert_allclose(found, expected(name, mode), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", ["recurrence", "trees", "nested", "writes", "factors"])
def test_debug_mode_interprets_a_loop(name):
    f = functools.partial(PROGRAMS[name], nt)
    cache = nt.prepare_gradient_cache(f, X, config=nt.Config(debug_mode=True, silence_debug_messages=True))
    value, (gradient,) = nt.value_and_gradient(cache, X)
    np.testing.assert_allclose(flat((value, gradient)), expected(name, "gradient"), rtol=1e-11)


@pytest.mark.parametrize("mode", ["reverse_over_forward", "forward_over_reverse"])
@pytest.mark.parametrize("name", ["recurrence", "trees", "nested", "captured_arrays", "backwards"])
def test_the_gradient_beside_a_hessian_has_no_lanes(name, mode):
    """In the general call, in a steady one and where both are bound to buffers."""
    config = nt.Config(second_order_mode=mode)
    cache = nt.prepare_hessian_cache(functools.partial(PROGRAMS[name], nt), X, config=config)
    value, gradient = nt.value_and_grad(functools.partial(PROGRAMS[name], Python))(X)
    hessian = expected(name, "hessian").reshape(len(X), len(X))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
    for _ in range(3):
        for found, wanted in zip(
            nt.value_gradient_and_hessian(cache, X), (value, gradient, hessian), strict=True
        ):
            assert np.shape(found) == np.shape(wanted)
            close(found, wanted)
    x = X + 1.0
    run = cache.bind(x)
    x[:] = X
    close(run(), value)
    for found, wanted in zip(run.out, (gradient, hessian), strict=True):
        close(found, wanted)


@pytest.mark.parametrize("name", ["recurrence", "nested", "captured_arrays"])
def test_a_cache_serves_other_numbers(name):
    cache = nt.prepare_gradient_cache(functools.partial(PROGRAMS[name], nt), X)
    for x in (X, X + 0.1, -X, X):
        value, (gradient,) = nt.value_and_gradient(cache, x)
        wanted = nt.value_and_grad(functools.partial(PROGRAMS[name], Python))(x)
        np.testing.assert_allclose(flat((value, gradient)), flat(wanted), rtol=1e-11)


def decay(x):
    last, _ = nt.scan(lambda c, v: (0.5 * c + v**2, None), 0.0, x)
    return last


def test_another_length_needs_no_trace():
    cache = nt.prepare_gradient_cache(decay, np.ones(3))
    tape = cache.tape
    for n in (3, 5, 1, 40, 3):
        x = np.linspace(0.1, 1.0, n)
        _, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(gradient, 2.0 * x * 0.5 ** np.arange(n)[::-1], rtol=1e-13)
        assert cache.tape is tape


@pytest.mark.parametrize("checkpoint", ["sqrt", 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_segments_of_another_length_need_no_trace(checkpoint, reverse):
    """But there are two ways through the function: with a rest of steps behind the segments, and without."""

    def f(x):
        last, seen = nt.scan(lambda c, v: (0.5 * c + v**2, c), 0.0, x, reverse=reverse, checkpoint=checkpoint)
        return last + np.sum(seen)

    cache = nt.prepare_gradient_cache(f, np.ones(7))
    for n in (8, 10, 14, 9, 12, 16, 11):
        x = np.linspace(0.1, 1.0, n)
        _, (gradient,) = nt.value_and_gradient(cache, x)
        steps = np.arange(n) if reverse else np.arange(n)[::-1]  # behind each one
        np.testing.assert_allclose(gradient, 2.0 * x * (2.0 - 0.5**steps), rtol=1e-13)
    assert cache.traces <= 2


@pytest.mark.parametrize("size", [0, 1, 2])
def test_jacobians_of_loops_in_traces_may_have_no_entries(size):
    def last(x, a):
        return nt.scan(lambda c, _: (np.sin(c * x + a), None), x, None, length=3)[0]

    points = np.linspace(0.1, 0.9, 2 * size).reshape(2, size)
    for f in (last, lambda x, a: nt.grad(lambda a: np.sum(last(x, a)))(a)):
        found = nt.vmap(nt.jacobian(f), in_axes=(0, None))(points, points[0])
        assert found.shape == (2, size, size)
        expected = [nt.jacobian(f)(x, points[0]) for x in points]
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_loop_without_steps_needs_no_entries():
    def f(x):
        return nt.fori_loop(0, len(x), lambda i, c: c * x[i], 1.0) + np.sum(x)

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    for n in (0, 2):
        assert nt.value_and_gradient(cache, np.ones(n))[0] == f(np.ones(n)) == 1.0 + n


def test_the_body_runs_once_a_trace(capsys):
    runs = []

    def step(c, v):
        print("runs")
        return c * v, None

    def counted(c, v):
        runs.append(None)
        return c * v, None

    nt.grad(lambda x: nt.scan(step, 1.0, x)[0])(np.linspace(1.0, 2.0, 50))
    assert capsys.readouterr().out == "runs\n"
    nt.grad(lambda x: nt.scan(counted, 1.0, x)[0])(np.linspace(1.0, 2.0, 50))
    assert len(runs) == 1


@pytest.mark.parametrize("mode", ["reverse_over_forward", "forward_over_reverse"])
def test_a_loop_without_steps_gives_its_first_carry(mode):
    """Also in lanes, where rows without entries begin where the carry begins."""

    def f(x, rows):
        (kept, moved), _ = nt.scan(lambda c, row: ((c[0], row * np.sin(c[1])), None), (x[:2], x[2]), rows)
        return np.append(kept**3, moved**2 * kept[0])

    none, x = np.zeros(0), X[:3]
    cache = nt.prepare_hessian_cache(
        lambda x: np.sum(f(x, none)), x, config=nt.Config(second_order_mode=mode)
    )
    a, b, c = x
    slopes = np.array([[3 * a**2, 0, 0], [0, 3 * b**2, 0], [c**2, 0, 2 * a * c]])
    curvature = np.array([[6 * a, 0, 2 * c], [0, 6 * b, 0], [2 * c, 0, 2 * a]])
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(nt.jacobian(lambda x: f(x, none), mode=direction)(x), slopes, rtol=1e-13)
    np.testing.assert_allclose(nt.value_gradient_and_hessian(cache, x)[2], curvature, rtol=1e-13)


def test_lanes_of_a_loop_without_results():
    """Solving stays in the body, because it may fail; its kernel ran once a lane, beyond the last one."""

    def f(x, rows):
        def step(carry, row):
            np.linalg.solve(np.eye(2) + x, row)
            return row, None

        return np.sum(nt.scan(step, x[0], rows)[0] * x[1])

    points, rows = np.linspace(0.1, 1.2, 12).reshape(3, 2, 2), np.array([[0.5, 2.0], [3.0, -1.0]])
    np.testing.assert_allclose(nt.vmap(lambda x: f(x, rows))(points), points[:, 1] @ rows[1], rtol=1e-13)


@pytest.mark.parametrize("curvature, most", [(0.0, 1.0), (0.1, 2.0)])
def test_reverse_sweeps_keep_of_each_step_what_they_read(curvature, most):
    """Nothing of a linear step, and where the carry is squared the carry alone, beside what one step has."""

    def f(flow, x):
        def step(u, _):
            v = u.copy()
            v[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
            if curvature:
                v[1:-1] -= curvature * u[1:-1] ** 2
            return v, None

        return np.sum(flow.scan(step, x, None, 40)[0] ** 2)

    x = np.random.default_rng(4).normal(size=3000)
    cache = nt.prepare_gradient_cache(lambda x: f(nt, x), x)
    assert sum(space.nbytes for space in cache._evaluator._workspaces.values()) < most * 40 * x.nbytes
    np.testing.assert_allclose(
        nt.value_and_gradient(cache, x)[1][0], nt.grad(lambda x: f(Python, x))(x), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize(
    "holds", [lambda c, x: np.sum(c[1] ** 2) > 0.2, lambda c, x: c[0] < 10.0 * x[0]], ids=["carry", "capture"]
)
def test_directions_of_a_loop_with_a_condition_are_computed_together(holds, monkeypatch):
    """They take the same steps; points that do not are in `tests/control/test_steps_of_lanes.py`."""
    found, lanes_of = [], calls.lanes_of
    monkeypatch.setattr(calls, "lanes_of", lambda *each: found.append(lanes_of(*each)) or found[-1])

    def body(c):
        return c[0] + 1, np.tanh(c[1][::-1] * c[1] + 0.3 * c[1])

    def f(x):
        return np.sum(nt.while_loop(lambda c: holds(c, x), body, (0, x), max_steps=9)[1] ** 2)

    def in_python(x):
        c = 0, x
        while holds(c, x):
            c = body(c)
        return np.sum(c[1] ** 2)

    points = np.array([[0.25, 0.9, 0.4], [0.85, 0.2, 0.6]])
    expected = [nt.hessian(in_python)(x) for x in points]
    for x, its in zip(points, expected, strict=True):
        np.testing.assert_allclose(nt.hessian(f)(x), its, rtol=1e-12, atol=1e-14)
    assert len([each for each in found if each is not None and each.count == 3]) >= 3
    np.testing.assert_allclose(nt.vmap(nt.hessian(f))(points), expected, rtol=1e-12, atol=1e-14)
