"""A function that calls sub-tapes has the values and derivatives that it has without them, in every mode."""

import functools

import numpy as np
import pytest

import numbatape as nt
from tests.subtapes.programs import PROGRAMS, plain, program

X = np.array([0.3, 0.7, 1.2])
POINTS = (X, np.array([1.3, 0.2, 0.9]), X)
V = np.array([0.2, 1.0, -0.4])

MODES = {
    "value": lambda f, x: f(x),
    "gradient": lambda f, x: nt.value_and_grad(f)(x),
    "forward": lambda f, x: nt.jvp(f, (x,), (V,)),
    "hessian": lambda f, x: nt.hessian(f)(x),
    "product": lambda f, x: nt.hvp(f)(x, V),
    "gradient of a gradient": lambda f, x: nt.grad(lambda y: nt.grad(f)(y) @ V)(x),
    "batch": lambda f, x: nt.batch(f)(np.stack([x, 1.1 * x, x + 0.2])),
    "jacobian": lambda f, x: nt.jacobian(lambda y: np.stack([f(y), y[0] * f(2.0 * y)]))(x),
    "map": lambda f, x: nt.vmap(nt.value_and_grad(f))(np.stack([x, 1.1 * x, x + 0.2])),
    "gradient of a map": lambda f, x: nt.grad(lambda y: np.sum(nt.vmap(f)(np.stack([y, 1.1 * y])) ** 2))(x),
    "sparse": lambda f, x: nt.sparse_hessian(f)(x).toarray(),
}
# Modes whose second and third call are served by what the first has made, at points on other branches.
REPEATED = {"gradient", "product"}
LONG = {"derivatives_inside", "inner_derivatives", "with_a_scan", "factors", "in_a_while_loop"}


def flat(tree):
    parts = tree if isinstance(tree, tuple) else (tree,)
    return np.concatenate([np.ravel(part) for part in parts])


@functools.cache
def slopes(name, point, scale=1.0, shift=0.0):
    """Return value and gradient without sub-tapes."""
    return nt.value_and_grad(program(name, plain))(scale * POINTS[point] + shift)


@functools.cache
def hessian(name, point):
    return nt.hessian(program(name, plain))(POINTS[point])


def jacobian(name, point):
    """Return that of ``[f(y), y[0] * f(2 * y)]``."""
    value, gradient = slopes(name, point, 2.0)
    return np.stack([slopes(name, point)[1], 2.0 * POINTS[point][0] * gradient + value * np.eye(3)[0]])


def slope_of_a_map(name, point):
    """Return that of ``f(y)**2 + f(1.1 * y)**2``."""
    found = [(scale, *slopes(name, point, scale)) for scale in (1.0, 1.1)]
    return sum(2.0 * scale * value * gradient for scale, value, gradient in found)


def rows(name, point):
    its = [slopes(name, point, *at) for at in ((1.0, 0.0), (1.1, 0.0), (1.0, 0.2))]
    return tuple(np.array(parts) for parts in zip(*its, strict=True))


# What each mode gives follows from gradients and a Hessian, so that few traces without sub-tapes serve all.
EXPECTED = {
    "value": lambda *at: slopes(*at)[0],
    "gradient": slopes,
    "forward": lambda *at: (slopes(*at)[0], slopes(*at)[1] @ V),
    "hessian": hessian,
    "product": lambda *at: hessian(*at) @ V,
    "gradient of a gradient": lambda *at: hessian(*at) @ V,
    "batch": rows,
    "jacobian": jacobian,
    "map": rows,
    "gradient of a map": slope_of_a_map,
    "sparse": hessian,
}


@functools.cache
def expected(name, mode, point):
    return flat(EXPECTED[mode](name, point))


def points_of(name, mode) -> int:
    if mode == "gradient" or (mode in REPEATED and name not in LONG):
        return 3
    return 2 if "branches" in name else 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sub_tape_is_what_its_function_is(name, mode):
    tolerance = 1e-5 if name == "single_precision" else 1e-11
    for point, x in enumerate(POINTS[: points_of(name, mode)]):
        wanted = expected(name, mode, point)
        found = flat(MODES[mode](program(name), x))
        assert found.shape == wanted.shape
        scale = 1.0 + np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", ["chained", "branches_of_numbers", "nested", "with_a_scan", "in_a_scan"])
def test_debug_mode_interprets_sub_tapes(name):
    config = nt.Config(debug_mode=True, silence_debug_messages=True)
    cache = nt.prepare_gradient_cache(program(name), X, config=config)
    for point, x in enumerate(POINTS):
        found = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(
            flat((found[0], found[1][0])), expected(name, "gradient", point), rtol=1e-11
        )


@pytest.mark.parametrize("make", [nt.function, nt.checkpoint, lambda f: nt.guarded(f, lambda *_: 0)])
@pytest.mark.parametrize(
    "name", ["chained", "nested", "with_a_scan", "captured_array", "captured_traced_value"]
)
def test_forms_of_sub_tapes(name, make):
    f = PROGRAMS[name](make)
    for mode in ("gradient", "hessian"):
        for point, x in enumerate(POINTS):
            wanted = expected(name, mode, point)
            np.testing.assert_allclose(flat(MODES[mode](f, x)), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["chained", "branches", "with_a_scan", "sizes"])
def test_second_order_against_differences_of_gradients(name):
    f, step = program(name), 1e-6
    rows = [(nt.grad(f)(X + step * e) - nt.grad(f)(X - step * e)) / (2.0 * step) for e in np.eye(3)]
    np.testing.assert_allclose(nt.hessian(f)(X), rows, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["chained", "branches_of_numbers", "in_a_scan_with_branches", "nested"])
def test_reverse_mode_is_the_transpose_of_forward_mode(name):
    f = program(name)
    for x in POINTS:
        np.testing.assert_allclose(nt.jvp(f, (x,), (V,))[1], nt.grad(f)(x) @ V, rtol=1e-12)


@pytest.mark.parametrize("name", ["chained", "branches_of_numbers", "in_a_scan_with_branches"])
def test_bound_calls_take_branches_that_were_not_traced(name):
    cache = nt.prepare_gradient_cache(program(name), X)
    x = X.copy()
    run = cache.bind(x)
    for point, its in enumerate(POINTS):
        x[:] = its
        value = run()
        np.testing.assert_allclose(flat((value, run.out[0])), expected(name, "gradient", point), rtol=1e-11)
