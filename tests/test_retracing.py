"""Why a function is traced: what `guards` reports, and the warning where one reason comes again and again."""

from __future__ import annotations

import contextlib
import gc
import itertools
import warnings
import weakref

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches import function_families
from numbatape.programs import program
from numbatape.programs.trace_log import OFTEN


def either(x):
    return np.sum(x) if x[0] > 1.0 else np.sum(x**2)


def loop(x):
    total = 0.0
    for k in range(len(x)):
        total = total + k * x[k]
    return total


def chosen(x, how):
    return np.sum(x) if how == "sum" else np.sum(x**2)


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args)


def test_a_new_cache_has_traced_its_function_once():
    report = nt.prepare_gradient_cache(either, np.ones(2)).guards()
    assert report.why == "the function was new"
    assert [(trace["number"], trace["shapes"]) for trace in report.traces] == [(1, "(2,)")]


def test_a_guard_says_what_it_saw_and_where():
    cache = nt.prepare_gradient_cache(either, np.ones(2))
    nt.value_and_gradient(cache, np.full(2, 2.0))
    report = cache.guards()
    (guard,) = report
    first = either.__code__.co_firstlineno
    assert guard["condition"] == "return np.sum(x) if x[0] > 1.0 else np.sum(x**2)"
    assert (guard["variants"], guard["outcomes"]) == (2, {False: 1, True: 1})
    assert report.why == f"the test at {report.traces[-1]['line']} gave True"
    assert report.traces[-1]["line"].number == first + 1
    assert "gave True" in str(report)


def test_a_size_that_python_read_is_a_guard_with_its_line():
    cache = nt.prepare_gradient_cache(loop, np.ones(3))
    nt.value_and_gradient(cache, np.ones(4))
    report = cache.guards()
    sizes = [guard for guard in report if guard["kind"] == "size"]
    assert {guard["condition"] for guard in sizes} == {"n0 == 3", "n0 == 4"}
    assert {guard["line"].number for guard in sizes} == {loop.__code__.co_firstlineno + 2}
    line = report.traces[-1]["line"]
    assert (
        report.why
        == f"the sizes differ: argument 0 (`x`).shape[0] == 3 does not hold, on which {line} relied"
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.sum(x + y),
        lambda x, y: x @ y,
        lambda x, y: np.sum(np.concatenate([np.outer(x, x), y[None, :]])),
        lambda x, y: np.sum(np.where(x > 0.0, x, y)),
    ],
)
def test_sizes_that_an_operation_needs_are_guards_with_its_line(function):
    cache = nt.prepare_gradient_cache(function, np.ones(3), np.ones(3))
    (guard,) = cache.guards()
    assert (guard["kind"], guard["condition"], guard["outcomes"]) == ("size", "n0 == n1", {True: 1})
    assert guard["line"].number == function.__code__.co_firstlineno
    with contextlib.suppress(ValueError):  # what does not broadcast is NumPy's error
        nt.value_and_gradient(cache, np.ones(1), np.ones(4))
        assert f"on which {guard['line']} relied" in cache.guards().why


def test_a_test_in_a_loop_is_part_of_each_trace_once():
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x) if all(x > 0.0) else np.sum(x**2), np.ones(3))
    for x in ([1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [1.0, 1.0, 1.0]):
        nt.value_and_gradient(cache, np.array(x))
    (guard,) = (guard for guard in cache.guards() if guard["kind"] == "bool")
    assert (guard["variants"], guard["outcomes"]) == (cache.traces, {True: 4, False: 2})


def test_an_option_that_selects_the_tape_is_named():
    cache = nt.prepare_gradient_cache(chosen, np.ones(3), "sum")
    nt.value_and_gradient(cache, np.ones(3), "squares")
    assert cache.guards().why == "argument 1 (`how`) had another value"


def test_what_the_function_refers_to_is_a_reason():
    weights = [2.0]
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x) * weights[0], np.ones(3))
    weights[0] = 3.0
    assert nt.value_and_gradient(cache, np.ones(3))[0] == 9.0
    assert cache.guards().why == "`weights[0]`, which the function refers to, has changed"


def test_one_warning_for_a_loop_over_many_lengths():
    cache = nt.prepare_gradient_cache(loop, np.ones(1))
    lengths = range(2, OFTEN + 10)
    with pytest.warns(nt.RetracingWarning, match=r"shape\[0\] == .*nt\.scan") as warned:
        found = [nt.value_and_gradient(cache, np.linspace(0.0, 1.0, n))[1][0] for n in lengths]
    for n, gradient in zip(lengths, found, strict=True):
        np.testing.assert_allclose(gradient, np.arange(n), rtol=1e-14)
    assert [(w.filename, w.lineno) for w in warned] == [(__file__, loop.__code__.co_firstlineno + 2)]


def test_one_warning_for_an_option_that_changes():
    cache = nt.prepare_gradient_cache(lambda x, label: np.sum(x), np.ones(2), "0")
    labels = map(str, range(1, OFTEN + 10))
    with pytest.warns(nt.RetracingWarning, match=r"argument 1 \(`label`\)") as warned:
        assert {float(nt.value_and_gradient(cache, np.ones(2), label)[0]) for label in labels} == {2.0}
    assert [w.filename for w in warned] == [__file__]


SCALE = 0.0


def scaled(x):
    return np.sum(x) * SCALE


DATA = np.zeros(2)


def with_data(x):
    return np.sum(x * DATA)


class Layer:
    rate = 0.0

    def loss(self, x):
        return np.sum(x) * self.rate


def set_scale(k, layer):
    globals()["SCALE"] = k


def set_data(k, layer):
    DATA[:] = k


def set_rate(k, layer):
    layer.rate = k


@pytest.mark.parametrize(
    ("f", "change", "name"),
    [(scaled, set_scale, "SCALE"), (with_data, set_data, "DATA"), (Layer.loss, set_rate, r"Layer\.rate")],
)
def test_one_warning_for_what_the_function_refers_to(f, change, name):
    layer = Layer()
    layer.rate = 1.0
    cache = nt.prepare_gradient_cache(layer.loss if f is Layer.loss else f, np.ones(2))

    def slope(k):
        change(float(k), layer)
        return nt.value_and_gradient(cache, np.ones(2))[1][0].tolist()

    with pytest.warns(nt.RetracingWarning, match=rf"`{name}`, which .*nt\.Constant") as warned:
        found = [slope(k) for k in range(OFTEN + 10)]
    assert found == [[k, k] for k in range(OFTEN + 10)]
    assert [w.filename for w in warned] == [__file__]


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        (lambda k: [np.ones(2)] * k, r"argument 1 \(`parts`\) had another structure.*stacked"),
        (lambda k: nt.Constant({"a": [1.0] * k}), r"argument 1 \(`parts`\) had another structure.*stacked"),
        (lambda k: nt.Static(0.5 * k), r"argument 1 \(`parts`\) had another value.*nt\.Constant"),
        (lambda k: f"run {k}", r"argument 1 \(`parts`\) had another value.*each text"),
    ],
)
def test_one_warning_for_an_argument_of_one_shot_verbs(argument, says):
    slope = nt.grad(lambda x, parts: np.sum(x**2))
    with pytest.warns(nt.RetracingWarning, match=says) as warned:
        found = [slope(np.ones(2), argument(k)).tolist() for k in range(1, OFTEN + 3)]
    assert found == [[2.0, 2.0]] * (OFTEN + 2)
    assert [w.filename for w in warned] == [__file__]


def test_what_fills_the_cache_is_named_where_several_lines_do():
    def f(x):
        total = 0.0
        if x[0] > 0.0:
            total = total + x[0] ** 2
        if x[1] > 0.0:
            total = total + x[1] ** 2
        if x[2] > 0.0:
            total = total + x[2] ** 2
        return total

    cache = nt.prepare_gradient_cache(f, np.ones(3), config=nt.Config(max_variants=6))
    points = [np.array(signs) for signs in itertools.product((1.0, -1.0), repeat=3)]
    with pytest.warns(nt.RetracingWarning, match=r"more than 6 traces.*are due to the test at") as warned:
        found = [nt.value_and_gradient(cache, x)[0] for x in points * 2]
    assert found == [f(x) for x in points * 2]
    assert [w.filename for w in warned] == [__file__]


def test_a_function_that_reads_what_it_keeps_is_told_so():
    class Model:
        last = 0.0

        def loss(self, x):
            self.last = np.sum(x**2) + len(repr(self.last))  # a text of traced numbers would be this call's
            return self.last

        def doubles(self, x):
            scale = getattr(self, "scale", 1.0)
            self.scale = 1.5 * scale + len(repr(scale))
            return np.sum(x) * self.scale

        def tells(self, x):
            self.scale = 2 * getattr(self, "scale", 1.0) % 1000
            if x[0] < 0.0:
                print("negative")
            return np.sum(x) * self.scale

        def lengthens(self, x):
            self.sizes = [*getattr(self, "sizes", []), len(x)]
            return np.sum(x) * len(self.sizes)

    points = [np.full(2, 1.0 * k) for k in range(OFTEN + 10)]
    contents = "contents of constants have changed"
    told = {
        "loss": contents,
        "doubles": contents,
        "tells": r"it changes what it refers to \(scale\);.*has_aux",
        "lengthens": "variable `sizes` had another structure",
    }
    for name, match in told.items():
        f, numpy = getattr(Model(), name), getattr(Model(), name)
        with pytest.warns(nt.RetracingWarning, match=match) as warned:
            found = [nt.value_and_grad(f)(x)[0] for x in points]
        assert found == [numpy(x) for x in points]
        assert [w.filename for w in warned] == [__file__]


def test_paths_that_settle_do_not_warn():
    """A loop whose number of turns depends on the data: a dozen paths, which are soon known."""

    def settles(x):
        y, turns = np.sum(x * x), 0
        while y > 1.0:
            y, turns = y * 0.5, turns + 1
        return y * (turns + 1)

    cache = nt.prepare_gradient_cache(settles, np.ones(3))
    rng = np.random.default_rng(0)
    points = [rng.normal(size=3) * 2.0 ** rng.integers(0, 6) for _ in range(100)]
    for _ in range(2):
        for x in points:
            np.testing.assert_allclose(quietly(nt.value_and_gradient, cache, x)[0], settles(x), rtol=1e-13)
    traces = cache.traces
    assert traces <= 16
    for x in points:
        nt.value_and_gradient(cache, x)
    assert cache.traces == traces


# ---- functions that are made again in each turn of a loop


@pytest.fixture
def traces(monkeypatch):
    """Return a list with the name of each function that is traced."""
    found = []
    record = program.record

    def noted(function, *args):
        found.append(function.__name__)
        return record(function, *args)

    monkeypatch.setattr(program, "record", noted)
    return found


def test_a_lambda_in_a_loop_is_traced_twice(traces):
    x, weight = np.linspace(0.1, 1.0, 5), 2.0
    for turn in range(6):
        weight = 2.0 if turn < 4 else 3.0
        gradient = nt.grad(lambda x: np.sum(x * x) * weight)(x)  # noqa: B023 (it is called in this turn)
        np.testing.assert_array_equal(gradient, 2.0 * weight * x)
    assert len(traces) == 2 + 1  # the first two functions, and one where the variable is an input


def test_equal_code_with_other_variables_is_another_function(traces):
    def made(weight):
        return lambda x: np.sum(x * x) * weight

    x = np.linspace(0.1, 1.0, 5)
    for weight in (1.0, 2.0, 1.0, 2.0):
        np.testing.assert_array_equal(nt.grad(made(weight))(x), 2.0 * weight * x)
    by_default = [lambda x, weight=weight: np.sum(x) * weight for weight in (1.5, 2.5, 1.5)]
    assert [nt.grad(f)(x)[0] for f in by_default] == [1.5, 2.5, 1.5]


@pytest.mark.parametrize("anew", [False, True])
def test_a_function_that_is_called_often_has_a_trace_of_its_own(anew, traces, monkeypatch):
    """It shares that of others of its code for some calls; what it refers to may change later as well."""
    monkeypatch.setattr(function_families, "MOST_CALLS", 5)

    def made(weight):
        def f(x):
            return np.sum(x * x) * weight

        def change(new):
            nonlocal weight
            weight = new

        return f, change

    x = np.linspace(0.1, 1.0, 5)
    for weight in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(nt.grad(made(weight)[0])(x), 2.0 * weight * x)
    (f, change), before = made(4.0), len(traces)
    gradient = nt.grad(f)
    for call in range(20):
        np.testing.assert_array_equal((nt.grad(f) if anew else gradient)(x), 8.0 * x)
        assert len(traces) == before + (call > 5)
    change(5.0)
    np.testing.assert_array_equal((nt.grad(f) if anew else gradient)(x), 10.0 * x)
    np.testing.assert_array_equal(nt.grad(made(6.0)[0])(x), 12.0 * x)
    assert len(traces) == before + 2


@pytest.mark.usefixtures("only_new_objects")
def test_a_view_of_much_memory_is_not_kept():
    def several():
        memory = np.ones(1 << 16)
        part = memory[:2]
        for _ in range(3):
            assert nt.grad(lambda x: np.sum(x) * part[0])(1.0) == 1.0
        return weakref.ref(memory)

    reference = several()
    gc.collect()
    assert reference() is None


@pytest.mark.usefixtures("only_new_objects")
def test_a_function_that_is_made_once_is_freed():
    def once():
        f = lambda x: np.sum(x**3)  # noqa: E731
        nt.grad(f)(np.ones(2))
        return weakref.ref(f)

    reference = once()
    gc.collect()
    assert reference() is None
