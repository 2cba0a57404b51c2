"""The builtin of steady calls compares what a function captures; Python does so only after a change."""

from __future__ import annotations

import functools
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

import numbatape as nt
from numbatape.capture.captured import Captured
from numbatape.capture.environment import Environment

# NumPy 2.5 warns of assigned shapes and dtypes, and programs have them all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")

X = np.array([1.0, 2.0, 3.0])
number = 2.0


class Model:
    scale = 3.0

    def __init__(self):
        self.weight = 2.0

    def logp(self, x):
        return np.sum(x) * self.weight * self.scale


def of_a_global():
    def change():
        global number
        number += 1.0

    return lambda x: np.sum(x) * number, change


def of_a_missing_name():
    def f(x):
        return np.sum(x) * (2.0 if "made_later" in table else 1.0)

    table = {}
    return f, lambda: table.update(made_later=1)


def of_a_cell():
    def change():
        nonlocal weight
        weight = 5.0

    weight = 2.0
    return lambda x: np.sum(x) * weight, change


def of_an_object():
    model = Model()
    return model.logp, lambda: setattr(model, "weight", 5.0)


def of_a_class():
    class Other(Model):
        scale = 4.0

    return Other().logp, lambda: setattr(Other, "scale", 5.0)


def of_an_inherited_member():
    class Other(Model):
        pass

    return Other().logp, lambda: setattr(Other, "scale", 5.0)


def of_an_inherited_method():
    class Other(Model):
        pass

    def another(self, x):
        return 7.0 * np.sum(x)

    other = Other()
    return lambda x: other.logp(x), lambda: setattr(Other, "logp", another)


def of_a_list():
    weights = [1.0, 2.0]
    return lambda x: np.sum(x) * weights[1], lambda: weights.__setitem__(1, 5.0)


def of_an_empty_list():
    weights = []
    return lambda x: np.sum(x) * (1 + len(weights)), lambda: weights.append(1.0)


def of_a_dictionary():
    weights = {"a": {"b": 2.0}}
    return lambda x: np.sum(x) * weights["a"]["b"], lambda: weights["a"].update(b=5.0)


def of_the_order_of_a_dictionary():
    weights = {"a": 2.0, "b": 3.0}
    return lambda x: np.sum(x) * next(iter(weights.values())), lambda: weights.update(a=weights.pop("a"))


def of_a_default_dictionary():
    weights = defaultdict(lambda: 2.0, a=1.0)
    return lambda x: np.sum(x) * weights["a"], lambda: weights.update(a=5.0)


def of_a_counter():
    counts = Counter("aab")
    return lambda x: np.sum(x) * counts["a"], lambda: counts.update("a")


def of_a_default():
    def f(x, weight=2.0):
        return np.sum(x) * weight

    return f, lambda: setattr(f, "__defaults__", (5.0,))


def of_code():
    def helper(x):
        return np.sum(x)

    def another(x):
        return 2.0 * np.sum(x)

    return lambda x: helper(x), lambda: setattr(helper, "__code__", another.__code__)


def of_what_a_derivative_was_made_of():
    weights = [1.0, 2.0]
    gradient = nt.grad(lambda x: np.sum(x**2) * weights[1])
    return lambda x: np.sum(gradient(x)), lambda: weights.__setitem__(1, 5.0)


def of_the_keywords_of_a_partial():
    f = functools.partial(lambda x, weight: np.sum(x) * weight, weight=2.0)
    return f, lambda: f.keywords.update(weight=5.0)


class Scaled(np.ndarray):
    scale = 2.0


def of_an_attribute_of_an_array():
    array = np.ones(2).view(Scaled)
    return lambda x: np.sum(x) * array.scale, lambda: setattr(array, "scale", 5.0)


def of_the_class_of_a_number():
    class Weight(float):
        def __mul__(self, other):
            return 2.0 * other

    weights = [Weight(1.0)]
    return lambda x: weights[0] * np.sum(x), lambda: setattr(
        Weight, "__mul__", lambda self, other: 5.0 * other
    )


def of_the_lookup_of_attributes():
    class Local:
        scale = 2.0

    local = Local()
    return lambda x: np.sum(x) * local.scale, lambda: setattr(
        Local, "__getattribute__", lambda self, name: 5.0
    )


def of_the_function_of_a_ufunc():
    weights = [2.0]
    ufunc = np.frompyfunc(lambda a: a * weights[0], 1, 1)
    return lambda x: np.sum(x) * float(ufunc(1.0)), lambda: weights.__setitem__(0, 5.0)


class Base:
    scale = 2.0


class OtherBase:
    scale = 5.0


def of_the_attributes_as_a_whole():
    model = Model()
    return model.logp, lambda: setattr(model, "__dict__", {"weight": 5.0})


def of_the_class_of_an_object():
    class Other(Model):
        scale = 5.0

    model = Model()
    return lambda x: model.logp(x), lambda: setattr(model, "__class__", Other)


def of_the_bases_of_a_class():
    class Derived(Base):
        pass

    return lambda x: np.sum(x) * Derived.scale, lambda: setattr(Derived, "__bases__", (OtherBase,))


def of_a_member_with_a_default():
    class Options:
        pass

    options = Options()
    return lambda x: np.sum(x) * getattr(options, "scale", 2.0), lambda: setattr(Options, "scale", 5.0)


def of_a_special_method():
    class Weight:
        def __mul__(self, other):
            return 2.0 * other

    weight = Weight()
    return lambda x: weight * np.sum(x), lambda: setattr(Weight, "__mul__", lambda self, other: 5.0 * other)


def of_a_member_of_a_metaclass():
    class Meta(type):
        scale = 2.0

    class Made(metaclass=Meta):
        pass

    return lambda x: np.sum(x) * Made.scale, lambda: setattr(Made, "scale", 5.0)


def of_a_global_that_appears():
    def f(x):
        try:
            return np.sum(x) * defined_later
        except NameError:
            return np.sum(x)

    return f, lambda: globals().update(defined_later=5.0)


def of_a_variable_that_appears():
    def f(x):
        try:
            return np.sum(x) * weight
        except NameError:
            return np.sum(x)

    def change():
        nonlocal weight
        weight = 5.0

    if X is None:
        weight = 2.0
    return f, change


def of_an_attribute_of_a_module_that_appears():
    settings = types.ModuleType("settings")
    return lambda x: np.sum(x) * getattr(settings, "scale", 2.0), lambda: setattr(settings, "scale", 5.0)


def of_an_attribute_of_a_module_that_is_caught():
    settings = types.ModuleType("settings")

    def f(x):
        try:
            return np.sum(x) * settings.scale
        except AttributeError:
            return np.sum(x)

    return f, lambda: setattr(settings, "scale", 5.0)


def of_an_attribute_of_a_function_that_appears():
    def helper(x):
        return np.sum(x)

    return lambda x: helper(x) * getattr(helper, "scale", 2.0), lambda: setattr(helper, "scale", 5.0)


def of_the_attributes_of_a_function_as_a_whole():
    def helper(x):
        return np.sum(x) * helper.scale

    helper.scale = 2.0
    return lambda x: helper(x), lambda: setattr(helper, "__dict__", {"scale": 5.0})


def of_the_shape_of_an_array():
    weights = np.arange(6.0).reshape(2, 3)
    return lambda x: np.sum(x) * np.sum(weights[0]), lambda: setattr(weights, "shape", (3, 2))


def of_the_dtype_of_an_array():
    weights = np.arange(6.0)
    return lambda x: np.sum(x) * weights.size, lambda: setattr(weights, "dtype", np.complex128)


def of_the_memory_of_an_array():
    weights = np.arange(6.0)
    return lambda x: np.sum(x) * np.sum(weights), lambda: weights.resize(300_000, refcheck=False)


def of_a_generic_function():
    scale = functools.singledispatch(lambda kind: 2.0)
    return lambda x: np.sum(x) * scale(1), lambda: scale.register(int, lambda kind: 5.0)


def makers() -> dict:
    return {name: make for name, make in globals().items() if name.startswith("of_")}


NATIVE = makers()


def of_a_set():
    weights = {2.0}
    return lambda x: np.sum(x) * sum(weights), lambda: weights.add(5.0)


def of_an_ordered_dictionary():
    weights = OrderedDict(a=2.0, b=3.0)
    return lambda x: np.sum(x) * next(iter(weights.values())), lambda: weights.move_to_end("a")


def of_a_deque():
    weights = deque([2.0, 3.0])
    return lambda x: np.sum(x) * weights[0], weights.rotate


class Slotted:
    __slots__ = ("weight",)


def of_a_slot():
    slotted = Slotted()
    slotted.weight = 2.0
    return lambda x: np.sum(x) * slotted.weight, lambda: setattr(slotted, "weight", 5.0)


def of_a_slot_that_is_filled():
    slotted = Slotted()
    return lambda x: np.sum(x) * getattr(slotted, "weight", 2.0), lambda: setattr(slotted, "weight", 5.0)


def of_an_attribute_of_a_thread():
    local = threading.local()
    return lambda x: np.sum(x) * getattr(local, "weight", 2.0), lambda: setattr(local, "weight", 5.0)


def of_a_mask():
    masked = np.ma.array([2.0, 3.0], mask=[False, True])
    return lambda x: np.sum(x) * masked.sum(), lambda: masked.mask.__setitem__(1, False)


OTHER = {
    name: make for name, make in globals().copy().items() if name.startswith("of_") and name not in NATIVE
}


@pytest.fixture
def asked(monkeypatch):
    """Return a namespace whose ``times`` counts the calls of `Captured.rebound`."""
    found, rebound = SimpleNamespace(times=0), Captured.rebound

    def counting(self):
        found.times += 1
        return rebound(self)

    monkeypatch.setattr(Captured, "rebound", counting)
    return found


def assert_right(cache, f):
    value, (gradient,) = nt.value_and_gradient(cache, X)
    assert value == f(X)
    np.testing.assert_allclose(gradient @ X, value, rtol=1e-14)  # all of these are linear


@pytest.mark.parametrize("make", NATIVE.values(), ids=NATIVE)
def test_the_builtin_notices_a_change_and_asks_python_only_then(make, asked):
    f, change = make()
    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(3):
        assert_right(cache, f)
    asked.times = 0
    for _ in range(3):
        assert_right(cache, f)
    assert asked.times == 0
    change()
    assert_right(cache, f)
    assert asked.times > 0


@pytest.mark.parametrize("make", OTHER.values(), ids=OTHER)
def test_what_the_builtin_cannot_compare_is_compared_by_python(make, asked):
    f, change = make()
    cache = nt.prepare_gradient_cache(f, X)
    assert Environment(f).watch_rows([]) is None
    for _ in range(3):
        assert_right(cache, f)
    asked.times = 0
    assert_right(cache, f)
    assert asked.times == 1
    change()
    assert_right(cache, f)


def test_an_equal_number_in_place_of_another_is_no_change(asked):
    global number
    f, _ = of_a_global()
    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(3):
        assert_right(cache, f)
    traces = cache._program.traces
    number = float(repr(number))  # another object
    assert_right(cache, f)
    assert cache._program.traces == traces


def test_a_verb_follows_code_that_is_replaced():
    def f(x):
        return np.sum(x)

    def another(x):
        return 2.0 * np.sum(x)

    gradient = nt.grad(f)
    np.testing.assert_array_equal(gradient(X), np.ones(3))
    f.__code__ = another.__code__  # as a notebook's autoreload does
    np.testing.assert_array_equal(gradient(X), np.full(3, 2.0))


def test_an_array_that_becomes_read_only_is_not_written_to():
    buffer = np.zeros(3)

    def f(x):
        buffer[0] = x[0]
        return np.sum(buffer * x)

    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(3):
        nt.value_and_gradient(cache, X)
    buffer.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        nt.value_and_gradient(cache, X)
    buffer.flags.writeable = True
    assert nt.value_and_gradient(cache, X)[0] == X[0] ** 2


def test_a_class_that_gets_an_equal_number_is_asked_about_once(asked):
    class Scaled(Model):
        pass

    cache = nt.prepare_gradient_cache(Scaled().logp, X)
    for _ in range(3):
        nt.value_and_gradient(cache, X)
    traces = cache._program.traces
    Model.scale = float(repr(Model.scale))  # another object
    nt.value_and_gradient(cache, X)
    asked.times = 0
    nt.value_and_gradient(cache, X)
    assert (asked.times, cache._program.traces) == (0, traces)


def test_a_captured_matrix_is_watched():
    matrix = np.eye(3).view(np.matrix)
    gradient = nt.grad(lambda x: np.sum(np.asarray(matrix) @ x))
    np.testing.assert_array_equal(gradient(X), np.ones(3))
    matrix[0, 0] = 5.0
    np.testing.assert_array_equal(gradient(X), [5.0, 1.0, 1.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_number_of_a_module_that_changes_again_and_again(dtype):
    """An entry that a changed number has stopped leaves no guard, by which the next one could be chosen."""
    settings = types.ModuleType("settings")
    gradient = nt.grad(lambda x: np.sum(x * settings.scale))
    for scale in (1.5, 2.0, 3.0, 4.0, 1.5, 5.0):
        settings.scale = scale
        np.testing.assert_array_equal(gradient(X.astype(dtype)), np.full(3, scale, dtype))
