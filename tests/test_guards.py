"""Control flow, captured values, constants, sizes: no input ever gets another path's derivative."""

import contextlib
import dataclasses
import functools
import math
import random
import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatape as nt


def prepared(f, *args, **options):
    return nt.prepare_gradient_cache(f, *args, **options)


def agrees(cache, f, *args, rtol=1e-12):
    """The cache's answer against a fresh trace at this very point, and the value against NumPy."""
    value, grads = nt.value_and_gradient(cache, *args)
    np.testing.assert_allclose(value, f(*args), rtol=rtol)
    _, fresh = nt.vjp(f, *args)
    for got, expected in zip(grads, fresh(np.ones(())), strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-14)
    return value, grads


# ---- branches


def cubic_or_square(x):
    return x[0] ** 3 if x[0] > 1 else x[0] ** 2


def test_variants_are_found_again_without_tracing():
    cache = prepared(cubic_or_square, np.array([0.1]))
    for point, gradient, traces in (
        (0.1, 0.2, 1),
        (1.1, 3.63, 2),
        (0.5, 1.0, 2),
        (1.2, 4.32, 2),
        (0.1, 0.2, 2),
    ):
        np.testing.assert_allclose(
            nt.value_and_gradient(cache, np.array([point]))[1][0], [gradient], rtol=1e-14
        )
        assert cache.traces == traces
    for k in range(100):
        point = np.array([0.5 + k % 2])
        expected = 3 * point**2 if point[0] > 1 else 2 * point
        np.testing.assert_allclose(nt.value_and_gradient(cache, point)[1][0], expected, rtol=1e-14)
    assert cache.traces == 2


def test_guards_reports_lines_outcomes_and_hits():
    cache = prepared(cubic_or_square, np.array([0.1]))
    nt.value_and_gradient(cache, np.array([2.0]))
    (guard,) = cache.guards()
    assert guard["kind"] == "bool"
    assert guard["line"].number == cubic_or_square.__code__.co_firstlineno + 1
    assert guard["line"].file == __file__
    assert set(guard["outcomes"]) == {True, False}


def test_every_point_of_a_tree_of_branches():
    def f(x):
        if x[0] > 0:
            y = x[1] * 2 if x[1] > 0 else x[1] ** 2
        elif x[1] > x[0]:
            y = np.sin(x[1])
        else:
            y = x[0] * x[1]
        return y * (3 if x[2] > 0 else x[2])

    cache = prepared(f, np.ones(3))
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 3))
    for point in points:
        agrees(cache, f, point)
    known = cache.traces
    assert known <= 8
    for point in points[::-1]:
        nt.value_and_gradient(cache, point)
    assert cache.traces == known  # all found among the siblings


def test_guards_on_constants_are_asked_in_the_prologue():
    def f(x, c):
        y = x**2 if x > 0 else -x
        return y * (c if c > 0 else 2 * c)

    cache = prepared(f, 1.0, nt.Constant(1.0))
    for x in (1.0, -1.0, 2.0, -2.0):
        for c in (1.0, -1.0, 3.0, -3.0):
            value, (gradient, _) = nt.value_and_gradient(cache, x, c)
            assert value == f(x, c)
            assert gradient == (2 * x if x > 0 else -1) * (c if c > 0 else 2 * c)
    assert cache.traces == 4
    assert cache.tape.prologue >= 1


def test_while_with_data_dependent_counts():
    def newton(a):
        x = a / 2 + 0.5
        while abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
        return x

    g = nt.value_and_grad(newton)
    for a in (2.0, 1.0, 100.0, 1e4, 2.5, 2.0, 1e-2):
        value, gradient = g(a)
        assert value == pytest.approx(math.sqrt(a), rel=1e-8)
        # the derivative of the iteration itself, not of the limit
        assert gradient == pytest.approx(
            (newton(a * (1 + 1e-6)) - newton(a * (1 - 1e-6))) / (2e-6 * a), rel=1e-4
        )


@pytest.mark.filterwarnings("ignore::numbatape.RetracingWarning")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0] ** 2 if x[0] > 1 else x[0] * 5,
        lambda x: x[0] ** 2 if x[0] >= 1 else x[0] * 5,
        lambda x: x[0] ** 2 if x[0] == 1 else x[0] * 5,
        lambda x: max(x[0], x[1]) * 3 + min(x[0], x[1]),
        lambda x: x[0] * int(x[0]) + x[1] * math.floor(x[1] * 2),
        lambda x: x[0] if x[0] - x[1] else x[1] * 2,
        lambda x: np.maximum(x[0], x[1]) if 0 < x[1] <= 1 else x[0],
    ],
)
def test_at_ties_and_boundaries(f):
    cache = prepared(f, np.array([0.3, 0.4]))
    one = 1.0
    around = [np.nextafter(one, 0), one, np.nextafter(one, 2), 0.5, 1.5, 2.0, -1.0, 0.0, -0.0]
    for a in around:
        for b in around:
            agrees(cache, f, np.array([a, b]))


def test_a_rounding_difference_at_a_guard_does_no_harm():
    """NumPy's pairwise sum decides the branch; the kernel's sum may differ in the last bit."""

    def f(x):
        return np.sum(x) ** 2 if np.sum(x) > 1.0 else np.sum(x)

    rng = np.random.default_rng(5)
    cache = prepared(f, np.ones(50))
    for _ in range(30):
        x = rng.uniform(size=50)
        x /= np.sum(x)  # the sum is 1.0 within an ulp or two
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, 1.0, rtol=1e-14)
        assert np.allclose(gradient, 2.0, rtol=1e-13) or np.allclose(gradient, 1.0, rtol=1e-13)


def test_masks_whose_count_changes():
    def f(x):
        return np.sum(x[x > 0] ** 2) - np.prod(x[np.abs(x) < 0.5])

    cache = prepared(f, np.array([1.0, -1.0, 0.2]))
    for x in ([1.0, -1.0, 0.2], [-1.0, 1.0, 0.3], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [0.1, 0.2, 0.3]):
        agrees(cache, f, np.array(x))
    known = cache.traces
    agrees(cache, f, np.array([0.25, -7.0, 3.0]))  # the counts of the first point, at other places
    assert cache.traces == known


def test_python_reads_of_traced_integers():
    def f(x):
        k = int(np.argmax(x))
        total = x[k] ** 2
        for j in range(np.argmin(x) + 1):
            total = total + x[j]
        return total * [1.0, 2.0, 3.0][np.argmax(x)]

    cache = prepared(f, np.array([1.0, 2.0, 3.0]))
    for x in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 3.0, 2.0]):
        agrees(cache, f, np.array(x))


def test_index_out_of_range_on_another_path_is_an_index_error():
    f = lambda x: x[np.int64(0)] * np.ones(2)[np.argmax(x)]  # noqa: E731
    cache = prepared(f, np.array([3.0, 2.0, 1.0]))
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, np.array([1.0, 2.0, 3.0]))
    agrees(cache, f, np.array([1.0, 2.0, 0.0]))


def test_exceptions_of_the_function_pass_and_leave_the_cache_usable():
    def f(x):
        if x[0] < 0:
            raise ArithmeticError("negative")
        return x[0] ** 2

    cache = prepared(f, np.array([1.0]))
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="negative"):
            nt.value_and_gradient(cache, np.array([-1.0]))
        assert nt.value_and_gradient(cache, np.array([3.0]))[1][0] == 6.0


def test_failed_factorisation_reaches_the_users_except():
    def f(x):
        try:
            return np.sum(np.log(np.diag(np.linalg.cholesky(x))))
        except np.linalg.LinAlgError:
            return np.sum(x) * 0.0 - 1.0

    good, bad = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    for first in (good, bad):
        cache = prepared(f, first)
        for m in (bad, good, bad, bad, good, good):
            agrees(cache, f, m)
        bound = m.copy()
        run = cache.bind(bound)
        for m in (bad, good, bad):
            bound[:] = m
            assert run() == pytest.approx(f(m), rel=1e-14)


def test_other_caught_exceptions():
    def f(x):
        total = 0.0
        try:
            for k in range(4):
                total = total + x[k] * (k + 1)
        except IndexError:
            total = total * 2.0
        try:
            return total * int(x[0])
        except ValueError:
            return total * 0.5

    for n in (2, 6):
        cache = prepared(f, np.ones(n))
        for x in (np.ones(6), np.ones(2), np.full(4, 2.0), np.array([1.5, 2.5])):
            agrees(cache, f, x)
        _, (gradient,) = nt.value_and_gradient(cache, np.array([np.nan, 1.0]))
        np.testing.assert_array_equal(gradient, [1.0, 2.0])
        agrees(cache, f, np.ones(2))


def test_ties_in_the_last_bit_add_no_trace_of_a_known_path():
    rng = np.random.default_rng(0)
    kernels = nt.value_and_grad(lambda x: np.sum(x * x))
    points = (rng.normal(size=5) for _ in range(10_000))
    x = next(x for x in points if kernels(x)[0] < np.sum(x * x))
    best = np.sum(x * x)

    def f(x):
        s = np.sum(x * x)
        return 2.0 * s if s < best else s

    cache = prepared(f, 3.0 * x)
    for _ in range(5):
        assert nt.value_and_gradient(cache, x)[0] == pytest.approx(best)  # NumPy's value decides
    assert len(cache._program.variants) == 1


def test_max_variants_bounds_what_is_kept():
    f = lambda x: x * int(x)  # noqa: E731
    cache = prepared(f, 1.5, config=nt.Config(max_variants=3))
    points = [k + 0.5 for k in (*range(10), *range(10))]
    with pytest.warns(nt.RetracingWarning, match=r"more than 3 traces .*test_guards.py:\d+ in"):
        gradients = [nt.value_and_gradient(cache, point)[1][0] for point in points]
    assert gradients == [int(point) for point in points]
    assert len(cache._program.variants) == 3


# ---- sizes


def test_one_cache_serves_loops_of_any_length():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + (i + 1) * x[i]
        return total

    cache = prepared(f, np.ones(5))
    for n in (5, 3, 10, 1, 5, 0, 10):
        value, (gradient,) = nt.value_and_gradient(cache, np.ones(n))
        np.testing.assert_array_equal(gradient, np.arange(1.0, n + 1))
        assert value == n * (n + 1) / 2


def test_vector_code_needs_one_trace_for_all_sizes():
    f = lambda x: np.sum(x**2) + np.dot(x, x) + np.sum(x[1:] * x[:-1])  # noqa: E731
    cache = prepared(f, np.ones(4))
    for n in (3, 4, 7, 50, 3):
        agrees(cache, f, np.linspace(0.5, 1.5, n))
    assert cache.traces == 1
    for n in (1, 2, 0, 2, 1):  # a product of slices of size one, or zero, could broadcast
        agrees(cache, f, np.linspace(0.5, 1.5, n))
    assert cache.traces <= 4


def test_sizes_that_steer():
    def f(x):
        if x.size > 3:
            return np.sum(x) ** 2
        return x[0] * len(x) + x.shape[0] * np.mean(x)

    cache = prepared(f, np.ones(2))
    for n in (2, 5, 3, 4, 2, 1):
        agrees(cache, f, np.linspace(0.5, 1.5, n))


def test_broadcast_sizes_that_part():
    f = lambda x, y: np.sum(x * y)  # noqa: E731
    cache = prepared(f, np.ones(3), np.ones(3))
    for n, m in ((3, 3), (1, 3), (3, 1), (5, 5), (1, 1), (0, 1), (0, 0)):
        agrees(cache, f, np.arange(1.0, n + 1), np.arange(2.0, m + 2))
    with pytest.raises(ValueError, match="broadcast"):
        nt.value_and_gradient(cache, np.ones(2), np.ones(3))
    agrees(cache, f, np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    ("f", "sizes"),
    [
        (lambda x, y: np.sum(np.outer(x, y)), [(50, 1), (20, 5), (20, 1)]),
        (lambda x, y: np.sum(np.outer(y, x)), [(30, 1), (25, 5), (25, 1)]),
        (
            lambda x, y: np.sum(np.outer(x, y)) if len(x) > 2 else np.sum(x) * np.sum(y),
            [(50, 1), (31, 7), (31, 1)],
        ),
        (lambda x, y: np.sum(x[:, None] * np.sin(y)) if x[0] > 0 else np.sum(x), [(50, 1), (21, 5), (21, 1)]),
    ],
)
def test_bits_do_not_depend_on_earlier_calls(f, sizes):
    """One of the traces that hold at the last sizes serves them in all calls, whichever came before."""
    rng = np.random.default_rng(1)
    points = {size: [np.append(0.3, rng.normal(size=n - 1)) for n in size] for size in sizes}
    cache = prepared(f, *points[sizes[0]])
    seen: dict = {}
    for size in (*sizes, sizes[1], sizes[2], sizes[0], sizes[2], sizes[2]):
        value, gradients = nt.value_and_gradient(cache, *points[size])
        bits = value.tobytes(), *(g.tobytes() for g in gradients)
        assert seen.setdefault(size, bits) == bits
    assert cache.traces == 2


def test_traces_of_two_sizes_exclude_each_other_where_their_paths_are_the_same():
    f = lambda x, y: np.sum(np.outer(x, y)) if x[0] > 0 else np.sum(x) * np.sum(y)  # noqa: E731
    cache = prepared(f, np.ones(2), np.ones(1))
    nt.value_and_gradient(cache, np.ones(2), np.ones(3))
    nt.value_and_gradient(cache, -np.ones(2), np.ones(3))  # the other path serves one entry as well
    nt.value_and_gradient(cache, -np.ones(2), np.ones(1))
    assert cache.traces == 3
    relations = [[g.relation for g in v.tape.sizes.guards] for v in cache._program.snapshot()]
    assert sum("!=" in each for each in relations) == 1
    loops = prepared(lambda x: sum(v * v for v in x), np.ones(1))
    for n in (2, 3, 4, 3, 1):
        assert nt.value_and_gradient(loops, np.ones(n))[0] == n
    # One length excludes another one without a further relation.
    assert not any(g.relation == "!=" for v in loops._program.snapshot() for g in v.tape.sizes.guards)


def test_fixed_sizes_raises_instead():
    cache = prepared(lambda x: np.sum(x), np.ones(2), config=nt.Config(fixed_sizes=True))
    with pytest.raises(nt.ShapeError, match=r"prepared for shape \(2,\) with fixed_sizes=True, got \(3,\)"):
        nt.value_and_gradient(cache, np.ones(3))
    assert nt.value_and_gradient(cache, np.ones(2))[0] == 2.0


def test_constants_change_size_without_a_trace():
    f = lambda w, x: np.sum(w @ x)  # noqa: E731
    w = np.array([1.0, 2.0])
    cache = prepared(f, w, nt.Constant(np.ones((2, 10))))
    for n in (10, 100, 3):
        x = np.random.default_rng(n).normal(size=(2, n))
        np.testing.assert_allclose(nt.value_and_gradient(cache, w, x)[1][0], x.sum(axis=1), rtol=1e-13)
    assert cache.traces == 1


@settings(max_examples=30, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_any_sequence_of_sizes(sizes):
    f = lambda x: np.sum(np.sin(x) * x[::-1]) + (np.max(x) if x.size else 0.0)  # noqa: E731
    cache = prepared(f, np.ones(2))
    for n in sizes:
        agrees(cache, f, np.linspace(0.3, 1.9, n) if n else np.zeros(0))


# ---- captured values


class Model:
    scale = 2.0

    def __init__(self):
        self.data = np.ones(2)
        self.power = 2
        self.options = {"shift": 1.0, "deep": {"list": [3.0, np.ones(2)]}}

    def helper(self, x):
        return x * self.scale

    def logp(self, x):
        deep = self.options["deep"]["list"]
        return np.sum(
            self.helper(x - self.data) ** self.power + self.options["shift"] * x * deep[0] * deep[1]
        )


@dataclasses.dataclass
class Slotted:
    __slots__ = ("factor",)
    factor: float


GLOBAL_ARRAY = np.ones(2)
GLOBAL_NUMBER = 2.0
NAMESPACE = types.SimpleNamespace(scale=2.0, inner=types.SimpleNamespace(data=np.ones(2)))


class Settings:
    rate = 2.0


def uses_globals(x):
    return (
        np.sum(x * GLOBAL_ARRAY)
        * GLOBAL_NUMBER
        * NAMESPACE.scale
        * np.sum(NAMESPACE.inner.data)
        * Settings.rate
    )


@functools.lru_cache
def remembered():
    return GLOBAL_NUMBER


def follows(f, changes, x=None):
    """After each change the cache computes what the function computes now."""
    x = np.array([0.5, 1.5]) if x is None else x
    cache = prepared(f, x)
    one_shot = nt.value_and_grad(f)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):  # the general call and the steady one
            agrees(cache, f, x)
            np.testing.assert_allclose(one_shot(x)[0], f(x), rtol=1e-12)
    return cache


def test_captured_array_changed_in_place():
    data = np.ones(2)

    def change():
        data[0] = 5.0

    follows(lambda x: np.sum(x * data), [change, lambda: data.fill(2.0), lambda: data.__setitem__(1, -0.0)])


def test_captured_views_and_read_only_views():
    base = np.ones(4)
    view, locked = base[::2], base[1::2]
    locked.flags.writeable = False
    follows(lambda x: np.sum(x * view * locked), [lambda: base.fill(2.0), lambda: base.__setitem__(1, 7.0)])


def test_captured_name_rebound():
    data, number = np.ones(2), 2.0

    def f(x):
        return np.sum(x * data) * number

    def rebind():
        nonlocal data, number
        data, number = np.arange(2.0), 3.0

    follows(f, [rebind])


def test_an_equal_number_is_no_change():
    number = 2.0
    f = lambda x: x * number  # noqa: E731
    cache = prepared(f, 1.0)
    number = float("2.0")
    nt.value_and_gradient(cache, 1.0)
    assert cache.traces == 1


def test_captured_globals(monkeypatch):
    here = globals()
    follows(
        uses_globals,
        [
            lambda: monkeypatch.setitem(here, "GLOBAL_NUMBER", 3.0),
            lambda: monkeypatch.setitem(here, "GLOBAL_ARRAY", np.arange(2.0)),
            lambda: monkeypatch.setattr(NAMESPACE, "scale", 5.0),
            lambda: NAMESPACE.inner.data.fill(9.0),
            lambda: monkeypatch.setattr(NAMESPACE, "inner", types.SimpleNamespace(data=np.full(2, 4.0))),
            lambda: monkeypatch.setattr(Settings, "rate", 7.0),
        ],
    )


def test_what_a_differentiated_function_captures_is_noticed_behind_the_verb():
    scale = 2.0

    def inner(x):
        return scale * np.sum(x**2)

    slope, rows, plane = nt.grad(inner), nt.jacobian(inner), nt.hessian(inner)
    outer = nt.grad(lambda x: np.sum(slope(x)) + np.sum(rows(x)) + np.sum(plane(x)[0] * x))
    before = outer(np.ones(2))
    np.testing.assert_allclose(before, [12.0, 8.0])
    scale = 3.0
    np.testing.assert_allclose(outer(np.ones(2)), 1.5 * before)


def test_captured_containers():
    numbers, table, queue = [1.0, 2.0], {"a": 1.0, "b": np.ones(2)}, {3.0}

    def f(x):
        return np.sum(x * table["b"]) * table["a"] * sum(numbers) * len(table) * sum(queue)

    follows(
        f,
        [
            lambda: numbers.append(4.0),
            lambda: numbers.__setitem__(0, 7.0),
            lambda: table.update(a=5.0),
            lambda: table["b"].fill(3.0),
            lambda: table.update(c=1),
            lambda: queue.add(8.0),
        ],
    )


def test_long_and_deep_containers():
    long = [1.0] * 30_000
    deep = [[[[[[[[2.0]]]]]]]]
    inner = deep
    while isinstance(inner[0], list):
        inner = inner[0]

    def f(x):
        value = deep
        while isinstance(value, list):
            value = value[0]
        return np.sum(x) * long[-1] * value

    follows(f, [lambda: long.__setitem__(-1, 3.0), lambda: inner.__setitem__(0, 5.0)])


def test_captured_objects(monkeypatch):
    model = Model()
    follows(
        model.logp,
        [
            lambda: setattr(model, "power", 3),
            lambda: model.data.fill(0.25),
            lambda: setattr(model, "data", np.arange(2.0)),
            lambda: model.options.update(shift=4.0),
            lambda: model.options["deep"]["list"].__setitem__(0, 8.0),
            lambda: model.options["deep"]["list"][1].fill(2.0),
            lambda: monkeypatch.setattr(Model, "scale", 5.0),
            lambda: setattr(model, "scale", 6.0),
            lambda: monkeypatch.setattr(Model, "helper", lambda self, x: -x),
        ],
    )


def test_captured_attributes_of_functions_and_of_modules_without_a_file():
    def scaled(x):
        return np.sum(x) * scaled.factor * np.sum(scaled.weights)

    scaled.factor, scaled.weights = 2.0, np.ones(2)
    gradient = nt.grad(lambda x: scaled(x) * settings_module.z)
    settings_module = types.ModuleType("settings_module")
    settings_module.z = 1.0
    for factor, weight, z in ((2.0, 1.0, 1.0), (5.0, 1.0, 1.0), (5.0, 3.0, 1.0), (5.0, 3.0, 7.0)):
        scaled.factor, settings_module.z = factor, z
        scaled.weights[:] = weight
        np.testing.assert_array_equal(gradient(np.zeros(2)), 2.0 * factor * weight * z)


def test_captured_slots_partials_defaults_and_wrapped():
    slotted = Slotted(2.0)

    def f(x, weights, *, power=(2.0,), slotted=slotted):
        return np.sum(weights * x ** power[0]) * slotted.factor

    weights = np.ones(2)
    call = functools.partial(f, weights=weights)

    def wrapped(x):
        return call(x)

    decorated = functools.wraps(wrapped)(lambda x: wrapped(x) * 1.0)
    changes = [
        lambda: weights.fill(3.0),
        lambda: setattr(slotted, "factor", 4.0),
        lambda: f.__kwdefaults__.update(power=(3.0,)),
    ]
    follows(decorated, changes)

    def g(x, factor=2.0):
        return np.sum(x) * factor

    follows(g, [lambda: setattr(g, "__defaults__", (5.0,))])


def test_functions_given_as_arguments_are_followed():
    weights = np.ones(2)

    def helper(x):
        return np.sum(x * weights)

    f = lambda x, function: function(x) ** 2  # noqa: E731
    g = nt.grad(f)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(g(x, helper), 2 * 3.0 * np.ones(2))
    weights[0] = 5.0
    np.testing.assert_allclose(g(x, helper), 2 * 7.0 * weights)
    np.testing.assert_allclose(g(x, np.sum), np.full(2, 6.0))


def test_a_decorators_copy_of_attributes_is_not_its_own():
    def f(x):
        return np.sum(x)

    nt.grad(f)(np.ones(2))
    wrapper = functools.wraps(f)(lambda x: f(x) * 3.0)
    np.testing.assert_array_equal(nt.grad(wrapper)(np.ones(2)), [3.0, 3.0])


# ---- random draws


@pytest.mark.parametrize("generator", [np.random.MT19937, np.random.PCG64])
def test_draw_of_a_number_that_waits_raises(generator):
    """Normal numbers are drawn in pairs: the second draw changes none of the generator's words."""
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(generator(0))
    try:
        for draws in range(4):
            np.random.seed(7) if generator is np.random.MT19937 else None  # noqa: NPY002
            np.random.standard_normal(draws)  # noqa: NPY002
            assert nt.grad(lambda x, k=draws: k * x)(1.0) == draws
            with pytest.raises(nt.UnsupportedOperationError, match="draws random numbers"):
                nt.grad(lambda x: x * np.random.normal())(1.0)  # noqa: NPY002
            with pytest.raises(nt.UnsupportedOperationError, match="draws random numbers"):
                nt.grad(lambda x: x * random.gauss(0.0, 1.0))(1.0)
    finally:
        np.random.set_bit_generator(before)


@pytest.mark.parametrize("draw", [lambda: np.random.normal(), random.random])  # noqa: NPY002
def test_global_random_draws_raise(draw):
    state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with pytest.raises(nt.UnsupportedOperationError, match=r"draws random numbers.*nt\.Constant"):
            nt.grad(lambda x: x * draw())(1.0)
    finally:
        np.random.set_state(state[0])  # noqa: NPY002
        random.setstate(state[1])


@pytest.mark.parametrize("draws", [0, 1, 624])
def test_draws_from_a_generator_that_the_function_imports(draws, monkeypatch):
    """``numpy.random`` is imported by whoever first asks for it: its state before is not known."""
    module, state = np.random, np.random.get_state()  # noqa: NPY002
    new = np.random.RandomState().get_state()
    monkeypatch.delitem(sys.modules, "numpy.random")

    def f(x):
        if "numpy.random" not in sys.modules:  # where other threads run, f is run again
            monkeypatch.setitem(sys.modules, "numpy.random", module)
            module.set_state(new)
        if draws:
            module.bytes(4 * draws)
        return x * 2.0

    try:
        with pytest.raises(nt.UnsupportedOperationError, match="random") if draws else nullcontext():
            assert nt.grad(f)(1.0) == 2.0
    finally:
        module.set_state(state)


def test_captured_and_given_generators_raise_when_drawn_from():
    rng = np.random.default_rng(0)
    holder = {"deep": [random.Random(0)]}
    for f in (lambda x: x * rng.normal(), lambda x: x * holder["deep"][0].random()):
        with pytest.raises(nt.UnsupportedOperationError, match="draws random numbers"):
            nt.grad(f)(1.0)
    with pytest.raises(nt.UnsupportedOperationError, match="draws random numbers"):
        nt.grad(lambda x, rng: x * rng.normal())(1.0, np.random.default_rng(0))


def test_draws_elsewhere_do_not_matter():
    rng = np.random.default_rng(0)
    model = types.SimpleNamespace(rng=rng, scale=2.0)
    g = nt.grad(lambda x: x * model.scale if x > 0 else x)
    assert g(1.0) == 2.0
    rng.normal()
    assert g(-1.0) == 1.0  # traced anew, after the generator moved


# ---- constants


def test_constants_changed_in_place_replaced_or_resized():
    f = lambda x, y: np.sum((x - np.exp(y)) ** 2)  # noqa: E731
    x, y = np.zeros(2), np.ones(2)
    cache = prepared(f, x, nt.Constant(y))

    def expect(y, *args):
        np.testing.assert_allclose(nt.value_and_gradient(cache, x, *args)[1][0], -2 * np.exp(y), rtol=1e-14)

    for _ in range(2):
        expect(np.ones(2))
    y[0] = 3.0
    for _ in range(2):
        expect(y)
    for _ in range(2):
        expect(np.full(2, 0.5), np.full(2, 0.5))  # given: not what it was prepared with
        expect(y)  # left out: what it was prepared with
    y[1] = -0.0
    expect(y)
    frozen = np.full(2, 0.25)
    frozen.flags.writeable = False
    expect(frozen, frozen)
    expect(y, nt.Constant(y, frozen=True))
    assert cache.traces == 1


def test_left_out_statics_are_those_of_preparation():
    cache = prepared(lambda x, p: np.sum(x**p), np.full(2, 3.0), nt.Static(2))
    x = np.full(2, 3.0)
    for _ in range(2):
        np.testing.assert_array_equal(nt.value_and_gradient(cache, x, nt.Static(3))[1][0], [27.0, 27.0])
        np.testing.assert_array_equal(nt.value_and_gradient(cache, x)[1][0], [6.0, 6.0])
        np.testing.assert_array_equal(nt.value_and_gradient(cache, x, 1)[1][0], [1.0, 1.0])


def test_required_arguments_cannot_be_left_out():
    for extra in (3, np.arange(2), "text"):
        cache = prepared(lambda x, k: np.sum(x), np.ones(2), extra)
        nt.value_and_gradient(cache, np.ones(2), extra)
        with pytest.raises(nt.ArityError, match="prepared for 2 arguments, got 1"):
            nt.value_and_gradient(cache, np.ones(2))


def test_the_prologue_runs_only_when_constants_changed(monkeypatch):
    from numbatape.engine import Workspace

    runs = []
    original = Workspace.run_prologue
    monkeypatch.setattr(Workspace, "run_prologue", lambda self: (runs.append(1), original(self))[1])
    f = lambda x, y: np.sum(x * np.exp(y))  # noqa: E731
    g = nt.grad(f)
    x, y = np.ones(3), np.ones(3)
    for _ in range(3):
        g(x, y)
    assert len(runs) == 1
    y[0] = 2.0
    np.testing.assert_allclose(g(x, y), np.exp(y), rtol=1e-15)
    assert len(runs) == 2
    g(x, y.copy())
    assert len(runs) == 2  # other object, same contents


def test_nothing_of_constants_alone_is_in_the_reverse_sweep():
    f = lambda x, y: np.sum(np.exp(y) @ (x * np.sin(y).sum()) + np.cos(y[0]))  # noqa: E731
    cache = prepared(f, np.ones(3), nt.Constant(np.ones((3, 3))))
    code, prologue = cache.tape.code, cache.tape.prologue
    assert prologue >= 4
    assert not code["active"][:prologue].any()
    names = [cache.tape.name_of(k) for k in range(len(code))]
    assert {"exp", "sin", "cos"} <= set(names[:prologue])


def test_python_integers_select_the_tape():
    g = nt.grad(lambda x, n: sum(x**k for k in range(n)))
    assert [g(2.0, n) for n in (1, 2, 3, 2)] == [0.0, 1.0, 5.0, 1.0]


def test_constants_that_steer():
    def f(x, c):
        if np.sum(c) > 0:
            return np.sum(x) * c[0]
        return np.sum(x**2)

    g = nt.value_and_grad(f)
    for c in ([1.0, 2.0], [-1.0, -2.0], [3.0, 0.0], [0.0, 0.0]):
        value, gradient = g(np.ones(2), np.array(c))
        assert value == f(np.ones(2), np.array(c))
        np.testing.assert_array_equal(gradient, np.full(2, c[0] if sum(c) > 0 else 2.0))


# ---- the worked examples of the sources


def test_worked_examples():
    np.testing.assert_array_equal(
        nt.grad(lambda x, y: np.sum(x * y), (0, 1))(np.full(2, 2.0), np.ones(2)), [[1.0, 1.0], [2.0, 2.0]]
    )
    rosenbrock = lambda x: np.sum((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2)  # noqa: E731
    np.testing.assert_allclose(nt.grad(rosenbrock)(np.array([0.1, 0.2, 0.3])), [-9.4, 15.6, 52.0], rtol=1e-13)
    f = lambda x: np.sum(x) ** 3 if np.sum(x) > 1 else np.sum(x) ** 2  # noqa: E731
    cache = prepared(f, np.array([0.2, 0.3]))
    for x in ([0.2, 0.3], [2.0, 3.0], [0.1, 0.1]):
        agrees(cache, f, np.array(x))
    np.testing.assert_array_equal(
        nt.grad(lambda x: x[0] * nt.stop_gradient(x)[1])(np.array([3.0, 4.0])), [4.0, 0.0]
    )
    np.testing.assert_allclose(
        nt.grad(np.linalg.det)(np.array([[1.0, 0, 0], [0, 2, 0], [0, math.pi, 3]])),
        [[6.0, 0, 0], [0, 3, -math.pi], [0, 0, 2]],
        rtol=1e-14,
        atol=1e-14,
    )
    a = np.ones(2)
    for gradient in nt.grad(lambda p: np.sum(p[0]) + np.sum(p[1]))((a, a)):
        np.testing.assert_array_equal(gradient, [1.0, 1.0])


def test_domains_of_math_functions_are_guards():
    def f(x):
        try:
            return math.log(x[0]) + math.sqrt(x[1])
        except ValueError:
            return 3.0 * x[0]

    inside, outside = np.array([2.0, 4.0]), np.array([2.0, -4.0])
    for first in (inside, outside):
        cache = nt.prepare_gradient_cache(f, first)
        for _ in range(2):
            value, (gradient,) = nt.value_and_gradient(cache, inside)
            assert value == pytest.approx(f(inside), rel=1e-15)
            np.testing.assert_allclose(gradient, [0.5, 0.25], rtol=1e-14)
            value, (gradient,) = nt.value_and_gradient(cache, outside)
            assert value == f(outside)
            np.testing.assert_array_equal(gradient, [3.0, 0.0])


def test_where_zeros_are_trimmed_is_a_guard():
    def f(x):
        return np.sum(np.trim_zeros(x) ** 2) * x[2]

    cache = nt.prepare_gradient_cache(f, np.array([0.0, 1.0, 2.0, 0.0]))
    for x in ([1.0, 1.0, 3.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0] * 4, [0.0, 1.0, 2.0, 0.0]):
        x = np.array(x)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        expected = 2.0 * x * x[2]
        expected[2] += np.sum(x**2)
        assert value == f(x)
        np.testing.assert_array_equal(gradient, expected)
    checked = nt.prepare_gradient_cache(lambda x: np.sum(np.asarray_chkfinite(x) ** 2), np.ones(2))
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        nt.value_and_gradient(checked, np.array([1.0, np.inf]))


@pytest.mark.parametrize("late", [np.nan, np.inf, -np.inf])
def test_guards_on_integers_meet_numbers_that_are_no_integers(late):
    table = np.array([0.4, -0.3, 0.8])

    def f(x, q):
        return table[np.floor(q).astype(int) % 3] * np.sum(x)

    verb, x = nt.value_and_grad(f), np.array([1.0, 2.0])
    for q in (0.5, 1.5, late, 0.5, late):
        q = np.float64(q)
        with np.errstate(invalid="ignore"):
            expected = f(x, q)
            value, gradient = verb(x, q)
        assert value == expected
        np.testing.assert_allclose(gradient, np.full(2, expected / 3.0), rtol=1e-15)


def quotient(a, b):
    return a // b


def caught_here(t):
    try:
        return 1 / max(t, 0.0)
    except ZeroDivisionError:
        return t**2


def caught_outside(t):
    with contextlib.suppress(ArithmeticError):
        return quotient(1.5, max(t, 0.0)) + t
    return 3 * t


DIVISION_ERRORS = (ZeroDivisionError, KeyError)


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def caught_by_a_tuple(t):
    try:
        return 1 / max(t, 0.0)
    except DIVISION_ERRORS:
        return t**2


def caught_by_a_manager(t):
    with Swallows():
        return 1 / max(t, 0.0)
    return t**2


def dropped_at_the_end(t):
    result = t**2
    try:
        result = 1 / max(t, 0.0)
    finally:
        return result  # noqa: B012


def power_of_zero(t):
    try:
        return max(t, 0.0) ** -1
    except ZeroDivisionError:
        return t**2


def too_large(t):
    try:
        return (1e200 * max(-t, 0.0)) ** 2 + 1 / t
    except OverflowError:
        return t**2


def remainder(t):
    try:
        return math.remainder(1.0, max(t, 0.0))
    except ValueError:
        return t**2


CAUGHT = (caught_here, caught_by_a_tuple, caught_by_a_manager, dropped_at_the_end, power_of_zero, too_large)


@pytest.mark.parametrize(
    ("f", "slopes"),
    [*((f, (-4.0, -0.6)) for f in CAUGHT), (caught_outside, (1.0, 3.0)), (remainder, (-2.0, -0.6))],
)
def test_a_division_of_python_s_numbers_by_zero_is_caught_as_in_python(f, slopes):
    cache = nt.prepare_gradient_cache(f, 0.5)
    for t, slope in zip((0.5, -0.3, 0.5), (*slopes, slopes[0]), strict=True):
        value, (gradient,) = nt.value_and_gradient(cache, t)
        assert value == f(t)
        np.testing.assert_allclose(gradient, slope)
    assert nt.value_and_grad(lambda t: 1 / (t - t))(0.5)[0] == np.inf  # nothing catches it: a limit


@pytest.mark.parametrize(
    "f",
    [
        lambda t: (t - 0.5) ** 0.5,
        lambda t: pow(t - 0.5, -1.5),
        lambda t: (t - 0.5) ** (2 * t),
        lambda t: (-0.4) ** (2 * t),
        lambda t: (-(t - 0.5)) ** (1 / 3) if t > 0.4 else t**2.0,
    ],
)
def test_powers_of_python_s_numbers_are_complex_where_python_s_are(f):
    """A float to the power of a float: NumPy's is not a number where the base is negative."""

    def parts(t):
        power = f(t)
        return 2 * power.real + 3 * power.imag + isinstance(power, complex)

    verb = nt.value_and_grad(parts)
    for t in (0.7, 0.3, 1.2, 0.2, 0.7, 0.5 + 1e-9):
        value, slope = verb(t)
        np.testing.assert_allclose(value, parts(t), rtol=1e-14)
        if t != 0.5 + 1e-9:
            np.testing.assert_allclose(slope, (parts(t + 1e-6) - parts(t - 1e-6)) / 2e-6, rtol=1e-8)


def test_what_calls_a_verb_does_not_catch_for_the_function():
    """A handler above the verb is none of the function's, whose divisor may be zero."""
    with contextlib.suppress(ZeroDivisionError):
        cache = nt.prepare_gradient_cache(lambda t: 1.0 / t, 0.5)
        assert nt.value_and_gradient(cache, 0.0) == (np.inf, (-np.inf,))
        return
    pytest.fail("the function has no handler")
