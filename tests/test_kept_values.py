"""Traced values that a function keeps are the plain numbers of each call, as in plain NumPy."""

import collections
import contextlib

import numpy as np
import pytest
from scipy import stats

import numbatape as nt

X = np.array([1.0, 2.0, 3.0])
last = None


class Model:
    of_class = None

    def __init__(self):
        self.history, self.calls, self.by_call = [], 0, {}
        self.recent, self.objects = collections.deque(maxlen=2), np.empty(2, object)

    def __call__(self, x):
        loss = np.sum(x**2)
        self.calls += 1
        self.history.append(loss)
        self.last = x
        self.by_call[self.calls] = {"x": x, "parts": [loss, (2.0 * loss, "two")]}
        self.recent.append((loss, x * 1j))
        self.objects[0] = loss
        Model.of_class = loss
        return loss


def is_plain(tree) -> bool:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple, collections.deque)):
        return all(map(is_plain, tree))
    if type(tree) is np.ndarray and tree.dtype == object:
        return all(map(is_plain, tree))
    return type(tree) in (np.float64, np.ndarray, int, str, type(None))


def test_attributes_lists_and_dictionaries():
    model, numpy = Model(), Model()
    cache = nt.prepare_gradient_cache(model, X)  # it runs the function once
    numpy(X)
    for k in (2.0, 3.0, 3.0, 1.0):
        assert nt.value_and_gradient(cache, k * X)[0] == numpy(k * X)
        assert model.history == numpy.history and model.calls == numpy.calls
        np.testing.assert_array_equal(model.last, numpy.last)
        assert repr(vars(model)) == repr(vars(numpy))
    assert all(map(is_plain, vars(model).values())) and type(Model.of_class) is np.float64


def test_names():
    previous, log = None, {}

    def f(x):
        global last
        nonlocal previous
        step = 0.0 if previous is None else np.sum(previous)
        previous, last = x, np.sum(x)
        log.setdefault("first", []).append(x[0])
        f.attribute = x
        return np.sum(x * x) + step

    g = nt.value_and_grad(f)
    before = 0.0
    for k in (1.0, 2.0, 2.0, 5.0):
        assert g(k * X)[0] == 14.0 * k * k + before
        before = 6.0 * k
        assert last == before and type(last) is np.float64
        np.testing.assert_array_equal(previous, k * X)
        np.testing.assert_array_equal(f.attribute, k * X)
    assert log == {"first": [1.0, 2.0, 2.0, 5.0]}


VERBS = {
    "grad": nt.grad,
    "hessian": nt.hessian,
    "jacobian": nt.jacobian,
    "hvp": lambda f: lambda x: nt.hvp(f)(x, x),
    "jvp": lambda f: lambda x: nt.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: nt.vjp(f, x)[1](1.0),
    "nested": lambda f: nt.grad(lambda x: np.sum(nt.grad(f)(x))),
}


@pytest.mark.parametrize("name", VERBS)
def test_every_verb(name):
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return np.sum(x**3)

    run = VERBS[name](f)
    for k in (1.0, 2.0):
        run(k * X)
        np.testing.assert_array_equal(kept[-1], 2.0 * k * X)
    assert {type(each) for each in kept} == {np.ndarray}


def test_what_is_kept_when_the_function_raises():
    kept = []

    def f(x):
        kept.append(np.sum(x))
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        nt.grad(f)(X)
    assert kept == [6.0] and type(kept[0]) is np.float64


def test_a_branch_that_keeps_runs_in_every_call():
    large = []

    def f(x):
        if x[0] > 2.0:
            large.append(x[0])
        return np.sum(x * x)

    cache = nt.prepare_gradient_cache(f, X)
    for k in (1.0, 3.0, 3.0, 1.0, 4.0):
        nt.value_and_gradient(cache, k * X)
    assert large == [3.0, 3.0, 4.0]


@pytest.mark.parametrize("fails", [False, True])
def test_a_trace_that_starts_twice_keeps_once(fails):
    """What an error came of may have been the int as data: then the function runs again, on an int."""
    kept, calls = [], [0]

    def f(x, k):
        kept.append(np.sum(x))
        calls[0] += 1
        try:
            last = x[k]
        except IndexError:
            last = 0.0 * x[0]
        if fails and k == 3:
            raise KeyError("its own")
        return np.sum(x * x) + last

    g = nt.grad(f)
    for n, k in enumerate((0, 3, 2, 3), start=1):
        with pytest.raises(KeyError) if fails and k == 3 else contextlib.nullcontext():
            g(X, k)
        assert kept == [np.sum(X)] * n and calls == [n]


class Views:
    """Names for one array, and for views of it, that each call makes anew and writes to."""

    def __init__(self):
        self.first, self.second = np.zeros(3), np.zeros(3)

    def __call__(self, x):
        self.first[0] += 1.0
        total = np.sum(self.second * x) + np.sum(self.first)
        self.first = np.array(self.second) + x * 0.5
        self.second, self.part, self.argument = self.first, self.first[1:], x
        return total


def test_names_for_one_array_share_it_afterwards():
    model, numpy = Views(), Views()
    f = nt.value_and_grad(model)
    for k in (2.0, 3.0, 3.0, 1.0):
        assert f(k * X)[0] == numpy(k * X)
        assert model.second is model.first and np.shares_memory(model.part, model.first)
        assert model.first.base is None and model.argument.flags.writeable and model.part.flags.writeable
        np.testing.assert_array_equal(model.part, numpy.part)


class Part:
    def __init__(self):
        self.size = 3

    def zeros(self):
        return np.zeros(self.size)


class Swaps:
    """Keeps objects, containers and methods that it has already, and which have stand-ins meanwhile."""

    def __init__(self):
        self.parts = [Part(), Part()]
        self.first, self.table = self.parts[0], {"second": self.parts[1]}

    def __call__(self, x):
        self.first = self.parts[1]
        self.again, self.pair, self.method = self.parts, (self.first, self.table), self.first.zeros
        return np.sum(x**2 + self.method())


def test_objects_that_are_kept_are_the_users():
    model = Swaps()
    parts, table = model.parts, model.table
    for k in range(3):
        nt.grad(model)(X + k)
        assert model.first is parts[1] and model.again is model.parts is parts
        assert model.pair[0] is parts[1] and model.pair[1] is table
        assert model.method.__self__ is parts[1] and model.method.__func__ is Part.zeros


@pytest.mark.parametrize("verb", [lambda f, x: nt.jvp(f, (x,), (x,)), nt.vjp])
def test_results_of_scipys_code_for_any_array_library_are_numbers_afterwards(verb):
    x, kept = np.arange(6.0).reshape(2, 3), {}

    def f(x):
        kept["maximum"] = stats.tmax(x, 4.0)
        return 2.0 * kept["maximum"]

    for _ in range(2):
        verb(f, x)
        assert isinstance(kept["maximum"], np.ndarray) and "numbatape" not in type(kept["maximum"]).__module__
        np.testing.assert_array_equal(kept["maximum"], stats.tmax(x, 4.0))
