"""Rules written by the user: values, derivatives of every kind, memory, errors."""

from __future__ import annotations

import functools
import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import numbatape as nt
from numbatape.derive import branches
from numbatape.errors import OutputError, UnsupportedOperationError

RNG = np.random.default_rng(3)


def product_pullback(ybar, y, a, b):
    return ybar @ b.T, a.T @ ybar


product = nt.primitive(lambda a, b: a @ b, pullback=product_pullback)


def _sizes(a, b):
    m, n = a.shape[0], b.shape[1]
    return {"c": ((m, n), a.dtype), "da": (a.shape, a.dtype), "db": (b.shape, b.dtype)}


def _mul(a, b, workspace):
    return np.matmul(a, b, out=workspace.c)


def _mul_pullback(ybar, y, a, b, workspace):
    return np.matmul(ybar, b.T, out=workspace.da), np.matmul(a.T, ybar, out=workspace.db)


def _mul_pushforward(tangents, y, a, b, workspace):
    da, db = tangents
    total = np.zeros(y.shape)
    if da is not None:
        total += da @ b
    if db is not None:
        total += a @ db
    return total


mul = nt.primitive(_mul, pullback=_mul_pullback, pushforward=_mul_pushforward, workspace=_sizes)
bare_mul = nt.primitive(_mul, pullback=_mul_pullback, workspace=_sizes)


@numba.njit
def _norm(x):
    return np.sqrt(np.sum(x**2))


@numba.njit
def _norm_pullback(ybar, y, x):
    return (ybar * x / y,)


def _norm_pushforward(tangents, y, x):
    return np.sum(tangents[0] * x) / y


norm = nt.primitive(_norm, pullback=_norm_pullback)
pushed_norm = nt.primitive(_norm, pullback=_norm_pullback, pushforward=_norm_pushforward)

A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
W = RNG.normal(size=(3, 2))


def weighed(rule):
    return lambda a, b: np.sum(W * np.sin(rule(a, b)))


# ---- first order


@pytest.mark.parametrize("rule", [product, mul, bare_mul])
def test_gradient_is_that_of_numpy(rule):
    wanted = nt.value_and_grad(weighed(np.matmul), (0, 1))(A, B)
    cache = nt.prepare_gradient_cache(weighed(rule), A, B)
    for _ in range(3):
        value, grads = nt.value_and_gradient(cache, A, B)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-14)
        for got, want in zip(grads, wanted[1], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)


def test_outside_of_a_trace_it_is_the_value():
    np.testing.assert_array_equal(mul(A, B), A @ B)
    np.testing.assert_array_equal(product(A, B), A @ B)


def test_plain_arguments_stay_as_they_are():
    seen = []

    def value(x, axis, table, k):
        seen.append((axis, table["p"], table["q"].dtype))
        return np.sum(x, axis) * table["p"] + k

    def pullback(ybar, y, x, axis, table, k):
        return np.broadcast_to(np.expand_dims(ybar, axis), x.shape) * table["p"], None, None, None

    rule = nt.primitive(value, pullback=pullback)
    table = {"p": 2.0, "q": np.arange(3)}
    got = nt.grad(lambda x: np.sum(rule(x, 0, table, 1) ** 2))(A)
    want = nt.grad(lambda x: np.sum((np.sum(x, 0) * 2.0 + 1) ** 2))(A)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert set(seen) == {(0, 2.0, np.dtype(int))}


def test_scalars_and_a_tuple_of_results():
    def pullback(bars, y, r, t):
        bx, by = bars
        return bx * np.cos(t) + by * np.sin(t), np.sum(-bx * r * np.sin(t) + by * r * np.cos(t))

    polar = nt.primitive(lambda r, t: (r * np.cos(t), r * np.sin(t)), pullback=pullback)

    def f(rule, r, t):
        x, y = rule(r, t)
        return np.sum(x**3 * y)

    def plain(r, t):
        return r * np.cos(t), r * np.sin(t)

    r = np.array([1.0, 2.0])
    for order in (nt.value_and_grad, nt.jacobian):
        got = order(lambda r, t: f(polar, r, t), argnums=(0, 1))(r, 0.3)
        want = order(lambda r, t: f(plain, r, t), argnums=(0, 1))(r, 0.3)
        for x, y in zip(
            np.hstack([*got[-2:]] if order is nt.jacobian else [*got[1]]),
            np.hstack([*want[-2:]] if order is nt.jacobian else [*want[1]]),
            strict=True,
        ):
            np.testing.assert_allclose(x, y, rtol=1e-13)
    np.testing.assert_allclose(
        nt.hessian(lambda v: f(polar, v[:2], v[2]))(np.array([1.0, 2.0, 0.3])),
        nt.hessian(lambda v: f(plain, v[:2], v[2]))(np.array([1.0, 2.0, 0.3])),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f4", "f8"), ("f8", "f4")])
def test_dtypes_are_numpys(dtypes):
    seen = []

    def value(a, b):
        seen.append((a.dtype, b.dtype))
        return a @ b

    rule = nt.primitive(value, pullback=product_pullback)
    a, b = A.astype(dtypes[0]), B.astype(dtypes[1])
    value, grads = nt.value_and_grad(lambda a, b: np.sum(rule(a, b)), (0, 1))(a, b)
    assert value.dtype == (a @ b).dtype
    assert [g.dtype for g in grads] == [a.dtype, b.dtype]
    assert set(seen) == {(a.dtype, b.dtype)}
    np.testing.assert_allclose(grads[0], np.ones((3, 2)) @ B.T, rtol=1e-5)


def test_views_slices_and_writes():
    def f(rule, x):
        y = np.zeros((4, 4))
        y[:3] = x
        y[1] *= 2.0
        z = rule(y.T[1:, ::-1], y[:, :2])
        y[:] = 0.0
        y[:3, :2] = z
        return np.sum(y**2 * np.arange(4.0))

    np.testing.assert_allclose(
        nt.grad(lambda x: f(product, x))(A), nt.grad(lambda x: f(np.matmul, x))(A), rtol=1e-13
    )


def test_integers_empty_arrays_and_numbers():
    seen = []

    def value(x, which, empty, t):
        seen.append((which.dtype, empty.shape, type(t)))
        return x[which] * t, len(empty), np.array(1.5)

    def pullback(ybar, y, x, which, empty, t):
        g = np.zeros(x.shape)
        np.add.at(g, which, ybar[0] * t)
        return g, None, np.zeros((0, 3)), np.sum(ybar[0] * x[which])

    pick = nt.primitive(value, pullback=pullback, workspace=lambda *specs: {})

    def f(x, which, empty, t):
        y, n, half = pick(x, which, empty, t)
        return np.sum(y**2) + n + half + np.sum(empty)

    x, which, empty = np.arange(4.0), np.array([2, 2, 3]), np.zeros((0, 3))
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(which), empty, 2.0)
    for w in (which, np.array([0, 1, 3])):
        value_, grads = nt.value_and_gradient(cache, x, w, empty, 2.0)
        assert value_ == np.sum((2.0 * x[w]) ** 2) + 1.5
        np.testing.assert_allclose(grads[0], np.bincount(w, 8.0 * x[w], 4))
        assert grads[3] == pytest.approx(np.sum(4.0 * x[w] ** 2))
    assert set(seen) == {(np.dtype(int), (0, 3), float)}


def test_one_trace_serves_other_sizes():
    cache = nt.prepare_gradient_cache(weighed(mul), A, B)
    other = RNG.normal(size=(3, 5)), RNG.normal(size=(5, 2))
    for args in (other, (A, B)):
        _, got = nt.value_and_gradient(cache, *args)
        want = nt.grad(weighed(np.matmul), (0, 1))(*args)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-13)
    assert cache.traces == 1


# ---- every way of running a tape


@pytest.mark.parametrize("rule", [product, mul])
def test_jacobians_and_jvp(rule):
    flat = A.ravel()

    def g(f):
        return lambda x: np.sin(f(x.reshape(3, 4), B)).ravel()

    np.testing.assert_allclose(
        nt.jacobian(g(rule))(flat), nt.jacobian(g(np.matmul))(flat), rtol=1e-12, atol=1e-14
    )
    got = nt.jvp(rule, (A, B), (np.ones_like(A), np.ones_like(B)))[1]
    np.testing.assert_allclose(got, np.ones_like(A) @ B + A @ np.ones_like(B), rtol=1e-13)
    pullbacks = nt.prepare_pullback_cache(g(rule), flat)
    np.testing.assert_allclose(
        nt.value_and_jacobian(pullbacks, flat)[1], nt.jacobian(g(np.matmul))(flat), rtol=1e-12, atol=1e-14
    )


def test_a_pullback_without_pushforward_serves_reverse_jacobians():
    cache = nt.prepare_pullback_cache(lambda a: bare_mul(a, B), A)
    np.testing.assert_allclose(nt.value_and_pullback(cache, W, A)[1][0], W @ B.T, rtol=1e-14)
    with pytest.raises(UnsupportedOperationError, match=r"_mul has no pushforward"):
        nt.jvp(lambda a: bare_mul(a, B), (A,), (A,))


@pytest.mark.parametrize("rule", [product, mul])
def test_batches_give_each_point_memory_of_its_own(rule):
    points = RNG.normal(size=(7, 3, 4))
    values, grads = nt.batch(lambda a: np.sum(W * np.sin(rule(a, B))))(points)
    for point, value, grad in zip(points, values, grads, strict=True):
        want = nt.value_and_grad(lambda a: np.sum(W * np.sin(a @ B)))(point)
        np.testing.assert_allclose(value, want[0], rtol=1e-13)
        np.testing.assert_allclose(grad, want[1], rtol=1e-13)


def test_bound_and_debug_mode():
    cache = nt.prepare_gradient_cache(weighed(mul), A, B)
    a = A.copy()
    run = cache.bind(a, B)
    a[0] = 2.0
    assert run() == pytest.approx(weighed(np.matmul)(a, B), rel=1e-14)
    config = nt.Config(debug_mode=True, silence_debug_messages=True)
    checked = nt.prepare_gradient_cache(weighed(mul), A, B, config=config)
    np.testing.assert_allclose(
        nt.value_and_gradient(checked, a, B)[1][0], nt.grad(weighed(np.matmul))(a, B), rtol=1e-13
    )
    np.testing.assert_allclose(run.out[0], nt.grad(weighed(np.matmul))(a, B), rtol=1e-13)


def test_constants_run_in_the_prologue_once():
    count = []

    def value(x):
        count.append(1)
        return x**2

    rule = nt.primitive(value, pullback=lambda ybar, y, x: (2 * x * ybar,))
    cache = nt.prepare_gradient_cache(
        lambda x, c: np.sum(x * rule(c)), np.ones(2), nt.Constant(np.arange(2.0))
    )
    before = len(count)
    for _ in range(4):
        nt.value_and_gradient(cache, np.ones(2))
    assert len(count) <= before + 1
    np.testing.assert_array_equal(nt.value_and_gradient(cache, np.ones(2), np.ones(2) * 3)[1][0], [9.0, 9.0])


def test_verbs_inside_of_a_rule():
    def value(x):
        return nt.grad(lambda z: np.sum(np.exp(z)))(x)

    rule = nt.primitive(value, pullback=lambda ybar, y, x: (ybar * np.exp(x),))
    np.testing.assert_allclose(nt.grad(lambda x: np.sum(rule(x)))(np.ones(3)), np.exp(np.ones(3)), rtol=1e-14)


def test_sparse_patterns_take_a_rule_for_dense():
    square = nt.primitive(lambda x: x**2, pullback=lambda ybar, y, x: (2 * ybar * x,))
    assert nt.sparsity(lambda x: square(x) + 0.0, np.ones(3)).toarray().all()


# ---- second order


@pytest.mark.parametrize("mode", ["forward_over_reverse", "reverse_over_forward"])
def test_a_pullback_in_numpy_differentiates_again(mode):
    x, v = RNG.normal(size=(2, 3, 4))
    products = []
    for rule in (product, np.matmul):
        cache = nt.prepare_hvp_cache(
            lambda a, rule=rule: np.sum(W * np.sin(rule(a, B + a[0, 0]))),
            x,
            config=nt.Config(second_order_mode=mode),
        )
        products.append(nt.value_and_hvp(cache, v, x)[2])
    np.testing.assert_allclose(*products, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward_over_reverse", "reverse_over_forward"])
@pytest.mark.parametrize("rule", [norm, pushed_norm])
def test_second_order_through_a_compiled_rule(rule, mode):
    """By the pushforward, or by the Python behind the compiled pullback."""
    x, v = np.array([1.0, 2.0, 2.0]), np.array([0.5, -1.0, 0.0])
    config = nt.Config(second_order_mode=mode)
    got, want = (
        nt.value_and_hvp(nt.prepare_hvp_cache(f, x, config=config), v, x)[2]
        for f in (lambda x: rule(x), lambda x: np.sqrt(np.sum(x**2)))
    )
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_second_order_without_any_formula_raises():
    """Never a silent zero: the inner gradient depends on the argument through the pullback's arguments."""
    x = RNG.normal(size=(3, 4))
    for mode, message in (
        ("reverse_over_forward", "_mul has no pushforward"),
        ("forward_over_reverse", "_mul has no derivative of this order"),
    ):
        config = nt.Config(second_order_mode=mode)
        with pytest.raises(UnsupportedOperationError, match=message):
            nt.value_and_hvp(
                nt.prepare_hvp_cache(lambda a: np.sum(bare_mul(a, a.T) ** 2), x, config=config), x, x
            )
    with pytest.raises(UnsupportedOperationError, match="_mul has no derivative of this order"):
        nt.grad(lambda a: np.sum(nt.grad(lambda a: np.sum(bare_mul(a, a.T)))(a) ** 2))(x)


# ---- memory


@pytest.mark.usefixtures("only_new_objects")
def test_a_workspace_is_allocated_once():
    made = []

    def sizes(a, b):
        made.append(1)
        return _sizes(a, b)

    rule = nt.primitive(_mul, pullback=_mul_pullback, workspace=sizes)
    x = RNG.normal(size=(300, 300))
    cache = nt.prepare_gradient_cache(lambda a, b: np.sum(rule(a, b)), x, x)
    out = np.empty_like(x), np.empty_like(x)
    run = cache.bind(x, x, out=out)
    run()
    made.clear()
    gc.collect()
    tracemalloc.start()
    run()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        run()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not made
    assert peak - before < x.nbytes / 10
    assert after - before < 2000
    np.testing.assert_allclose(out[0], np.ones_like(x) @ x.T, rtol=1e-12)


def test_what_the_value_leaves_the_pullback_finds_at_each_call_site():
    def value(x, workspace):
        np.exp(x, out=workspace.e)
        return workspace.e

    def pullback(ybar, y, x, workspace):
        return (ybar * workspace.e,)

    rule = nt.primitive(value, pullback=pullback, workspace=lambda x: {"e": (x.shape, x.dtype)})
    x = np.array([0.1, 0.2])
    got = nt.grad(lambda x: np.sum(rule(rule(x)) * rule(2.0 * x)))(x)
    want = nt.grad(lambda x: np.sum(np.exp(np.exp(x)) * np.exp(2.0 * x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_threads_with_clones():
    cache = nt.prepare_gradient_cache(weighed(mul), A, B)
    points = RNG.normal(size=(40, 3, 4))

    def work(k):
        own = cache.clone()
        return [nt.value_and_gradient(own, x, B)[1][0] for x in points[k::4]]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for k, grads in enumerate(found):
        for x, grad in zip(points[k::4], grads, strict=True):
            np.testing.assert_allclose(grad, nt.grad(weighed(np.matmul))(x, B), rtol=1e-12)


def test_clones_have_memory_of_their_own():
    cache = nt.prepare_gradient_cache(weighed(mul), A, B)
    other = cache.clone()
    first = nt.value_and_gradient(cache, A, B)
    nt.value_and_gradient(other, 2 * A, B)
    again = nt.value_and_gradient(cache, A, B)
    np.testing.assert_array_equal(first[1][0], again[1][0])


# ---- zero derivative


def test_zero_derivative_follows_the_values():
    scale = nt.zero_derivative(lambda x: {"top": np.max(np.abs(x)), "n": len(x)})

    def f(x):
        s = scale(x)
        return np.sum(x**2) * s["top"] / s["n"]

    cache = nt.prepare_gradient_cache(f, np.ones(2))
    for x in (np.array([1.0, 4.0]), np.array([-3.0, 2.0])):
        value, (grad,) = nt.value_and_gradient(cache, x)
        assert value == f(x)
        np.testing.assert_allclose(grad, 2 * x * np.abs(x).max() / 2)
    assert nt.hessian(lambda x: scale(x)["top"] * x[0])(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_zero_derivative_sees_captured_values_change():
    table = np.array([1.0, 2.0])
    shift = nt.zero_derivative(lambda x: np.exp(x) * table)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x * shift(x)), np.ones(2))
    table[:] = 5.0
    np.testing.assert_allclose(nt.value_and_gradient(cache, np.ones(2))[1][0], 5.0 * np.exp(np.ones(2)))


def test_what_a_traced_pullback_captures_is_watched():
    factor = np.array([1.0, 1.0])
    rule = nt.primitive(lambda x: x * factor, pullback=lambda ybar, y, x: (ybar * factor,))
    cache = nt.prepare_hvp_cache(lambda x: np.sum(rule(x) ** 2), np.ones(2))
    factor[:] = 3.0
    np.testing.assert_allclose(nt.value_and_hvp(cache, np.ones(2), np.ones(2))[2], [18.0, 18.0])


# ---- errors


def rule_with(pullback, value=lambda x, y: x * y):
    return nt.primitive(value, pullback=pullback)


def test_wrong_number_of_cotangents():
    rule = rule_with(lambda ybar, y, a, b: (ybar * b,))
    with pytest.raises(OutputError, match=r"pullback of the rule .*lambda.* tuple of 2 cotangents.* got 1"):
        nt.grad(lambda x: np.sum(rule(x, x)))(np.ones(2))
    rule = rule_with(lambda ybar, y, a, b: ybar * b)
    with pytest.raises(OutputError, match="got ndarray"):
        nt.grad(lambda x: np.sum(rule(x, x)))(np.ones(3))


def test_wrong_shape_of_a_cotangent():
    rule = rule_with(lambda ybar, y, a, b: (ybar * b, np.zeros(3)))
    for call in (nt.grad, nt.hessian):
        with pytest.raises(
            OutputError, match=r"cotangent of shape \(3,\) for argument 1, which has shape \(2,\)"
        ):
            call(lambda x: np.sum(rule(x, x)))(np.ones(2))


@pytest.mark.parametrize("where", ["value", "pullback"])
def test_an_exception_inside_leaves_the_cache_usable(where):
    fail = []

    def maybe(name):
        if fail == [name]:
            raise RuntimeError(f"not today: {name}")

    def value(x):
        maybe("value")
        return x**2

    def pullback(ybar, y, x):
        maybe("pullback")
        return (2 * x * ybar,)

    rule = nt.primitive(value, pullback=pullback, workspace=None)
    x = np.array([1.0, 2.0])
    cache = nt.prepare_gradient_cache(lambda x: np.sum(rule(x)), x)
    run = cache.bind(x)
    nt.value_and_gradient(cache, x)
    fail.append(where)
    for call in (lambda: nt.value_and_gradient(cache, x), run, lambda: nt.grad(lambda x: np.sum(rule(x)))(x)):
        with pytest.raises(RuntimeError, match=f"not today: {where}"):
            call()
    fail.clear()
    for _ in range(2):
        value, (grad,) = nt.value_and_gradient(cache, x)
        assert value == 5.0
        np.testing.assert_array_equal(grad, 2 * x)
        assert run() == 5.0


@pytest.mark.parametrize("wanted", [((2,), float), {"c": (2,)}, [("c", (2,), float)]])
def test_a_workspace_is_a_dict_of_shapes_and_dtypes(wanted):
    rule = nt.primitive(
        lambda x, workspace: x, pullback=lambda ybar, y, x, workspace: (ybar,), workspace=lambda x: wanted
    )
    with pytest.raises(nt.SpecError, match="must return a dict of name"):
        nt.grad(lambda x: np.sum(rule(x)))(np.ones(2))


def _root(x):
    if x[0] < 0.0:
        raise ValueError("negative")
    return np.sqrt(x)


def _root_pullback(ybar, y, x):
    return (0.5 * ybar / y,)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_function_may_catch_what_a_rule_raises(compiled):
    value, pullback = (numba.njit(_root), numba.njit(_root_pullback)) if compiled else (_root, _root_pullback)
    root = nt.primitive(value, pullback=pullback)

    def f(x):
        try:
            return np.sum(root(x))
        except ValueError:
            return np.sum(x**2)

    cache = nt.prepare_gradient_cache(f, np.ones(2))
    for _ in range(2):
        for x, want in ((np.array([4.0, 1.0]), [0.25, 0.5]), (np.array([-1.0, 3.0]), [-2.0, 6.0])):
            result, (grad,) = nt.value_and_gradient(cache, x)
            assert result == f(x)
            np.testing.assert_allclose(grad, want)


def test_an_interrupt_is_not_swallowed():
    stop = []

    def value(x):
        if stop:
            stop.clear()
            raise KeyboardInterrupt
        return x**2

    rule = nt.primitive(value, pullback=lambda ybar, y, x: (2 * x * ybar,))
    x = np.ones(2)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(rule(x)), x)
    nt.value_and_gradient(cache, x)
    stop.append(1)
    with pytest.raises(KeyboardInterrupt):
        nt.value_and_gradient(cache, x)
    assert nt.value_and_gradient(cache, x)[0] == 2.0


def test_what_a_rule_may_not_do():
    def writes(x):
        x[0] = 0.0
        return x * 2.0

    x = np.ones(2)
    for value, error in (
        (writes, "writes to its argument 0"),
        (lambda x: "text", "must return an array, a number or a tuple"),
        (lambda x: (), "empty tuple"),
    ):
        rule = nt.primitive(value, pullback=lambda ybar, y, x: (ybar,))
        with pytest.raises((UnsupportedOperationError, OutputError), match=error):
            nt.grad(lambda x, rule=rule: np.sum(rule(x)))(x)
    rule = nt.primitive(lambda pair: pair[0], pullback=lambda ybar, y, pair: (None,))
    with pytest.raises(UnsupportedOperationError, match="inside a list"):
        nt.grad(lambda x: np.sum(rule([x])))(x)
    with pytest.raises(TypeError, match="pullback must be callable"):
        nt.primitive(lambda x: x, pullback=None)


def test_another_shape_than_when_traced():
    """It is traced again."""
    size = [2]
    rule = nt.primitive(lambda x: np.ones(size[0]), pullback=lambda ybar, y, x: (np.zeros(3),))
    cache = nt.prepare_gradient_cache(lambda x: np.sum(rule(x)), np.ones(3))
    size[0] = 4
    assert nt.value_and_gradient(cache, np.ones(3))[0] == 4.0
    assert cache.traces == 2


def test_as_a_decorator_and_by_itself():
    @nt.primitive(pullback=lambda ybar, y, x: (ybar * y,))
    def exp(x):
        """Return e to the x."""
        return np.exp(x)

    assert exp.__name__ == "exp"
    assert exp.__doc__.startswith("Return e")
    assert nt.grad(exp)(0.0) == 1.0
    assert nt.vjp(exp, np.zeros(2))[1](np.ones(2))[0].tolist() == [1.0, 1.0]


def test_a_function_that_wraps_a_compiled_one_is_not_the_compiled_one():
    @functools.wraps(_norm)  # which copies its attributes, the function behind it among them
    def tripled(x):
        return 3.0 * _norm(x)

    @functools.wraps(_norm_pullback)
    def tripled_pullback(ybar, y, x):
        return (9.0 * ybar * x / y,)

    x = np.array([3.0, 4.0])
    by_rules = nt.primitive(tripled, pullback=tripled_pullback)
    np.testing.assert_allclose(nt.grad(by_rules)(x), 9.0 * x / 15.0, rtol=1e-14)
    pushed = nt.primitive(tripled, pullback=lambda ybar, y, x: (9.0 * ybar * x / y,))
    np.testing.assert_allclose(nt.hessian(pushed)(x), 3.0 * nt.hessian(norm_by_numpy)(x), rtol=1e-13)
    for f in (tripled, lambda x: tripled(2.0 * x) / 2.0):
        np.testing.assert_allclose(nt.grad(f)(x), 3.0 * x / 5.0, rtol=1e-14)
        cache = nt.prepare_gradient_cache(f, x)
        assert nt.value_and_gradient(cache, x)[0] == pytest.approx(15.0)


def norm_by_numpy(x):
    return np.sqrt(np.sum(x**2))


class Settings:
    def __init__(self):
        self.factor = 2.0


def assigns_after(kind):
    """Return functions that change what a rule reads: after its call, between two calls, before."""
    settings, entries, array = Settings(), [2.0], np.array([2.0])
    read = {"attribute": lambda: settings.factor, "entry": lambda: entries[0], "array": lambda: array[0]}[
        kind
    ]
    rule = nt.primitive(lambda x: x * read(), pullback=lambda ybar, y, x: (ybar * read(),))

    def put(value):
        settings.factor = entries[0] = array[0] = value

    def after(x):
        put(2.0)
        y = rule(x)
        put(5.0)
        return y

    def between(x):
        put(2.0)
        y = rule(x)
        put(5.0)
        return y + rule(x)

    def before(x):
        put(3.0)
        return rule(x)

    return after, between, before


@pytest.mark.parametrize("kind", ["attribute", "entry", "array"])
def test_a_rule_that_reads_what_the_function_changes_after_its_call_is_refused(kind):
    after, between, before = assigns_after(kind)
    for f in (after, between):
        with pytest.raises(UnsupportedOperationError, match="which the function changes after the call"):
            nt.grad(f)(3.0)
    assert [nt.grad(before)(3.0) for _ in range(3)] == [3.0] * 3


class Solver:
    """A model whose rule is a method: the object keeps what the rule does not read, too."""

    def __init__(self):
        self.factor, self.calls, self.log, self.scratch = 2.0, 0, [], np.zeros(1)
        self.rule = nt.primitive(self.value, pullback=self.pull)

    def value(self, x):
        return self.factor * x

    def pull(self, ybar, y, x):
        return (self.factor * ybar,)

    def counting(self, x):
        y = self.rule(x)
        self.calls += 1
        self.log.append(self.calls)
        self.scratch[0] = self.calls
        return y + self.rule(x)

    def keeping(self, x):
        self.last = self.rule(x)
        return self.last

    def refactoring(self, x):
        y = self.rule(x)
        self.calls += 1
        self.factor += 1.0
        return y


def test_an_object_may_change_in_what_its_rule_does_not_read():
    solver = Solver()
    assert [nt.grad(solver.counting)(3.0) for _ in range(3)] == [4.0] * 3
    assert solver.calls == len(solver.log) == solver.scratch[0] == 3
    assert [nt.grad(solver.keeping)(3.0) for _ in range(3)] == [2.0] * 3
    with pytest.raises(UnsupportedOperationError, match=r"reads `Solver\.factor`, which"):
        nt.grad(solver.refactoring)(3.0)


def test_a_rule_may_keep_what_its_pullback_reads():
    kept, runs = {}, []

    def value(x):
        kept["x"] = x
        runs.append(1)
        return x**2

    rule = nt.primitive(value, pullback=lambda ybar, y, x: (ybar * 2.0 * kept["x"],))
    reads = nt.primitive(lambda x: x + kept["x"], pullback=lambda ybar, y, x: (ybar,))
    assert nt.grad(lambda x: reads(rule(x)))(3.0) == 6.0


class _Holder:
    """An object whose text says nothing of what is in it."""

    def __init__(self, array):
        self.array = array

    def __repr__(self):
        return "_Holder"

    def __getitem__(self, k):
        return self.array


@pytest.mark.parametrize("kind", [lambda array: (array,), lambda array: [array], _Holder])
def test_bodies_with_rules_are_told_apart_by_what_the_rules_are_given(kind):
    """Bodies of loops are planned once for all loops with equal ones; texts leave most of an array out."""

    def pullback(ct, y, x, data):
        return ct * np.sum(data[0]), None

    total = nt.primitive(lambda x, data: x * np.sum(data[0]), pullback=pullback)

    def looped(data):
        return lambda x: nt.scan(lambda c, row: (np.sin(c) + total(c, data) * row, None), x, np.ones(5))[0]

    def plain(data, x):
        for _ in range(5):
            x = np.sin(x) + x * np.sum(data[0])
        return x

    numbers = np.linspace(0.0, 1e-3, 2000)
    other = numbers.copy()
    other[1000] = 3.0
    first, second, third = map(kind, (numbers, other, numbers.copy()))
    derivatives = [(data, nt.value_and_grad(looped(data))) for data in (first, second, third)]
    for _ in range(2):
        for data, derivative in derivatives:
            np.testing.assert_allclose(derivative(0.3)[0], plain(data, 0.3), rtol=1e-13)
        numbers[7] = 2.0  # in the first one


def test_known_derivatives_of_bodies_keep_what_the_bodies_call():
    """They are found by a digest that has the identities of rules, which other rules may get after them."""

    def pullback(ct, y, x):
        return (2.0 * ct,)

    double = nt.primitive(lambda x: 2.0 * x, pullback=pullback)
    nt.hessian(lambda x: nt.cond(x[0] > 0.0, lambda x: double(x[0]) ** 2, lambda x: x[0], x))(np.ones(2))
    called = [call for _, known in branches._kept.items() for call in known.calls]
    assert any(getattr(call, "rule", None) and call.rule.pullback is pullback for call in called)
