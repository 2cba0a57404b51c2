"""Steady calls: whatever changes from call to call, what was learned gives what a first call gives.

Each case is a function, a verb on it, and a list of arguments that differ from one another in some way.
All of them go to one verb, back and forth, and each result is held against that of a function made anew.
"""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import numbatape as nt
from numbatape.programs import program
from numbatape.programs.evaluator import Evaluator
from numbatape.steady_calls.entry import Entry
from numbatape.steady_calls.front import Front
from numbatape.steady_calls.steady import SteadyCalls
from numbatape.trace import pytrees
from tests.every_case import every

X, Y = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.25, -0.5])
Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Model:
    weight: np.ndarray
    bias: float


def same(left, right):
    leaves, structure = pytrees.flatten(left)
    others, other_structure = pytrees.flatten(right)
    assert structure == other_structure
    for a, b in zip(leaves, others, strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def mapped(function, tree):
    leaves, structure = pytrees.flatten(tree)
    return pytrees.unflatten(structure, [function(leaf) for leaf in leaves])


# name: (makes the function, the arguments of calls)
FUNCTIONS = {
    "array": (lambda: lambda x: np.sum(x**3), [(X,), (Y,), (X[:2],), (X[::2],), (np.ones(0),)]),
    "matrix": (
        lambda: lambda a: np.sum(a @ a.T),
        [(np.outer(X, Y),), (np.outer(X, Y).T,), (np.ones((2, 3)),)],
    ),
    "single": (lambda: lambda x: np.sum(x**3), [(X.astype(np.float32),), (Y[:2].astype(np.float32),)]),
    "numbers": (lambda: lambda a, b: a * b**2, [(2.0, 3.0), (-1.0, 0.5), (np.float64(1.0), np.float64(2.0))]),
    "mixed dtypes": (lambda: lambda x: np.sum(np.sin(x)), [(X,), (X.astype(np.float32),), (X,)]),
    "branches": (
        lambda: lambda x: np.sum(x) if x[0] > 0 else np.sum(x**2),
        [(X,), (-X,), (X + 1,), (-X - 1,), (X[:1],)],
    ),
    "constant data": (
        lambda: lambda x, d: np.sum((x - d) ** 2),
        [(X, Y), (X, Y + 1), (Y, Y + 1), (X, nt.Constant(Y)), (X, nt.Constant(Y * 2)), (X[:2], Y[:2])],
    ),
    "integer data": (
        lambda: lambda x, k: np.sum(x[k] ** 2),
        [(X, np.array([0, 1])), (X, np.array([2, 2])), (Y, np.array([0, 1])), (X, np.array([1, 0, 2]))],
    ),
    "a number that changes": (
        lambda: lambda x, rate: rate * np.sum(x**2),
        [(X, 0.1), (X, 0.2), (X, 0.1), (Y, 0.2), (X, 0.0), (X, -0.0)],
    ),
    "text": (lambda: lambda x, kind: np.sum(getattr(np, kind)(x)), [(X, "sin"), (X, "cos"), (Y, "sin")]),
    "dictionary": (
        lambda: lambda p: p["a"] * np.sum(p["b"]) + np.sum(p["c"][0] ** 2),
        [
            ({"a": 2.0, "b": X, "c": (Y,)},),
            ({"b": X, "c": (Y,), "a": 3.0},),
            ({"a": 2.0, "b": X[:2], "c": (Y[:1],)},),
        ],
    ),
    "containers": (
        lambda: lambda m, p: np.sum(m.weight) * m.bias + p.first * np.sum(p.second[0]),
        [(Model(X, 2.0), Pair(1.0, [Y])), (Model(Y[:2], 0.5), Pair(3.0, [X]))],
    ),
    "ordered": (
        lambda: lambda p: np.sum(p["z"]) * p["a"],
        [(OrderedDict(z=X, a=2.0),), (OrderedDict(z=Y, a=1.0),)],
    ),
    "a list of arrays": (
        lambda: lambda parts: sum(np.sum(part**2) for part in parts),
        [([X, Y],), ([Y],), ([X, Y, X],), ([Y, X],)],
    ),
}


VERBS = {
    "grad": lambda f: nt.grad(f),
    "value_and_grad": lambda f: nt.value_and_grad(f),
    "hessian": lambda f: nt.hessian(f),
    "jacobian": lambda f: nt.jacobian(f),
    "hvp": lambda f: lambda *args: nt.hvp(f)(*args, mapped(np.ones_like, args[0])),
    "vjp": lambda f: lambda *args: pulled_back(*nt.vjp(f, *args)),
}


def pulled_back(value, pullback):
    return value, pullback(2.0 * value), pullback(value)


def back_and_forth(learned, fresh, calls):
    """Hold what one verb gives for all calls, three times there and back, against first calls."""
    expected = [fresh()(*args) for args in calls]
    order = [*range(len(calls)), *reversed(range(len(calls)))]
    for k in order * 3:
        same(learned(*calls[k]), expected[k])


@pytest.mark.parametrize("verb", VERBS)
@every("name", FUNCTIONS)
def test_verbs(name, verb):
    make, calls = FUNCTIONS[name]
    back_and_forth(VERBS[verb](make()), lambda: VERBS[verb](make()), calls)


def kinds(args) -> str:
    """Return what a prepared cache fixes about arguments, as text."""
    leaves, structure = pytrees.flatten(args)
    return str([structure, *((type(leaf), np.asarray(leaf).dtype, np.ndim(leaf)) for leaf in leaves)])


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_caches(name, reuse):
    make, calls = FUNCTIONS[name]
    config = nt.Config(reuse_buffers=reuse)

    def caches():
        prepared = {}

        def call(*args):
            key = kinds(args)
            if key not in prepared:
                prepared[key] = nt.prepare_gradient_cache(make(), *args, config=config)
            value, gradients = nt.value_and_gradient(prepared[key], *args)
            return value, mapped(lambda leaf: None if leaf is None else leaf.copy(), gradients)

        return call

    back_and_forth(caches(), caches, calls)


SCALE = 2.0


def test_what_a_function_captures_may_change(monkeypatch):
    table, X_own = {"power": 2}, X.copy()
    gradient = nt.grad(lambda x: SCALE * np.sum((x - X_own) ** table["power"]))
    for scale, power, shift in [(2.0, 2, 0.0), (3.0, 2, 0.0), (3.0, 3, 0.0), (3.0, 3, 1.0), (2.0, 2, 0.0)]:
        monkeypatch.setitem(globals(), "SCALE", scale)
        table["power"] = power
        X_own[...] = X + shift
        for x in (Y, X, Y):
            np.testing.assert_allclose(
                gradient(x), scale * power * (x - X - shift) ** (power - 1), rtol=1e-14
            )


def test_entries_for_former_values_of_names_do_not_pile_up(monkeypatch):
    """Each call asks the entries that there are; values that come again are served by their own ones."""
    asked, serve, owner = [], Entry.serve, types.SimpleNamespace(scale=1.0)
    monkeypatch.setattr(Entry, "serve", lambda entry, leaves: asked.append(entry) or serve(entry, leaves))
    f = nt.value_and_grad(lambda x: owner.scale * np.sum(x**2))
    for k in (*range(20), *range(17, 20)):
        owner.scale = float(k)
        asked.clear()
        value, gradient = f(np.ones(3))
        assert value == 3.0 * k
        np.testing.assert_array_equal(gradient, np.full(3, 2.0 * k))
        assert len(asked) < 12


def test_data_that_is_changed_in_place():
    data = Y.copy()
    prepared = nt.prepare_gradient_cache(lambda x, d: np.sum(x * d), X, nt.Constant(data))
    gradient = nt.grad(lambda x, d: np.sum(x * d))
    for shift in (0.0, 0.0, 1.0, 1.0, 0.0):
        data[...] = Y + shift
        for _ in range(2):
            np.testing.assert_array_equal(gradient(X, data), data)
            np.testing.assert_array_equal(nt.value_and_gradient(prepared, X)[1][0], data)
            np.testing.assert_array_equal(nt.value_and_gradient(prepared, X, data + 5)[1][0], data + 5)


@pytest.mark.parametrize("form", ["given", "bare", "omitted", "frozen", "a part of another array", "single"])
def test_complex_data(form, monkeypatch):
    """Complex constants are compared as a whole, also where a call leaves them out."""

    def f(x, z):
        return np.sum(np.abs(x * z - 1j) ** 2)

    whole = np.outer(X + 1j * Y, [1.0, 2.0]).astype(np.complex64 if form == "single" else complex)
    data = whole[:, 1] if form == "a part of another array" else whole[:, 1].copy()
    mark = nt.Constant(data, frozen=form == "frozen")
    cache = nt.prepare_gradient_cache(f, X, mark)
    given = {"bare": (data,), "omitted": (), "a part of another array": ()}.get(form, (mark,))

    def check():
        value, (gradient, nothing) = nt.value_and_gradient(cache, X, *given)
        np.testing.assert_allclose(value, f(X, data), rtol=1e-6)
        np.testing.assert_allclose(gradient, 2 * (X * np.abs(data) ** 2 - data.imag), rtol=1e-6)
        assert nothing is None

    check()
    check()
    with monkeypatch.context() as patched:
        if form != "a part of another array":
            patched.setattr(Evaluator, "forward", None)  # what general calls go through
        check()
    if form != "frozen":
        data[1] *= 1j
        check()
        data *= 0.5
        check()
        check()


def test_the_same_verb_of_the_same_function():
    def f(x):
        return np.sum(x**2)

    assert nt.grad(f) is nt.grad(f)
    assert nt.grad(f) is not nt.grad(f, argnums=(0,))
    assert nt.value_and_grad(f)(X)[0] == f(X)
    nt.clear_caches()
    np.testing.assert_array_equal(nt.grad(f)(X), 2 * X)


def test_no_trace_for_what_is_known(monkeypatch):
    traced = []
    record = program.record
    monkeypatch.setattr(program, "record", lambda *args: traced.append(args) or record(*args))
    verb = nt.value_and_grad(lambda x, scale: scale * np.sum(np.exp(x)) if x[0] > 0 else scale * np.sum(x))
    calls = [(X, 2.0), (-X, 2.0), (X[:2], 2.0), (-X[:2], 3.0), (X, 4.0)]
    for args in calls:
        verb(*args)
    assert len(traced) == 2  # one a branch; sizes and the scale need none
    for args in calls * 3:
        verb(*args)
    assert len(traced) == 2


def test_pullbacks_own_their_point():
    first = nt.vjp(np.sin, X)[1]
    second = nt.vjp(np.sin, Y)[1]
    np.testing.assert_allclose(first(np.ones(3))[0], np.cos(X), rtol=1e-15)
    np.testing.assert_allclose(second(np.ones(3))[0], np.cos(Y), rtol=1e-15)
    del first
    third = nt.vjp(np.sin, X + Y)[1]
    np.testing.assert_allclose(second(2 * np.ones(3))[0], 2 * np.cos(Y), rtol=1e-15)
    np.testing.assert_allclose(third(np.ones(3))[0], np.cos(X + Y), rtol=1e-15)


def test_results_belong_to_the_caller():
    for verb in (nt.grad, nt.hessian, nt.jacobian):
        derivative = verb(lambda x: np.sum(x**3))
        results = [derivative(X) for _ in range(4)]
        kept = results[0].copy()
        results[1][...] = 7.0
        for result in (results[0], results[2], results[3], derivative(X)):
            np.testing.assert_array_equal(result, kept)


def test_keyword_arguments():
    gradient = nt.grad(
        lambda x, data, *, scale=1.0, flag=True: scale * np.sum(x * data) if flag else np.sum(x)
    )
    for scale, flag, data in [
        (1.0, True, X),
        (2.0, True, X),
        (2.0, False, X),
        (2.0, True, Y),
        (1.0, True, X),
    ]:
        for _ in range(2):
            expected = scale * data if flag else np.ones(3)
            np.testing.assert_array_equal(gradient(X, data=data, scale=scale, flag=flag), expected)
            np.testing.assert_array_equal(gradient(X, data, scale=scale, flag=flag), expected)


class Regression:
    def __init__(self, data):
        self.data, self.power = data, 2

    def loss(self, x):
        return np.sum((x - self.data) ** self.power)

    __call__ = loss


@pytest.mark.parametrize("of", [lambda model: model.loss, lambda model: model])
def test_methods_and_objects_that_can_be_called(of, monkeypatch):
    traced = []
    record = program.record
    monkeypatch.setattr(program, "record", lambda *args: traced.append(args) or record(*args))
    model, other = Regression(X.copy()), Regression(Y.copy())
    for _ in range(3):
        np.testing.assert_allclose(nt.grad(of(model))(Y), 2 * (Y - X), rtol=1e-15)
        np.testing.assert_allclose(nt.grad(of(other))(X), 2 * (X - Y), rtol=1e-15)
    assert len(traced) == 2
    model.power = 3
    model.data[0] += 1.0
    np.testing.assert_allclose(nt.grad(of(model))(Y), 3 * (Y - model.data) ** 2, rtol=1e-15)
    assert set(vars(model)) == {"data", "power"}


def test_structures_that_alternate_need_no_general_call(monkeypatch):
    """Two forms of the same call, one with a keyword: each is served by what was learned of it."""
    verb = nt.grad(lambda x, data, scale=1.0: scale * np.sum((x - data) ** 2))
    tree = nt.grad(lambda p: sum(np.sum(part**2) for part in p.values()))
    kept = nt.grad(lambda x, data: np.sum((x - data["c"]) ** 2))
    forms = [
        (lambda: verb(X, Y), 2 * (X - Y)),
        (lambda: verb(X, Y, scale=3.0), 6 * (X - Y)),
        (lambda: verb(X, Y, 3.0), 6 * (X - Y)),
        (lambda: tree({"a": X})["a"], 2 * X),
        (lambda: tree({"a": X, "b": Y})["b"], 2 * Y),
        # Containers that only optree takes apart, as an argument, as data, and as a keyword.
        (lambda: tree(OrderedDict(b=Y, a=X))["b"], 2 * Y),
        (lambda: kept(X, OrderedDict(c=Y)), 2 * (X - Y)),
        (lambda: kept(X, nt.Constant(OrderedDict(c=Y + 1.0))), 2 * (X - Y - 1.0)),
        (lambda: kept(X, data=OrderedDict(c=Y)), 2 * (X - Y)),
    ]
    for call, _ in forms * 2:
        call()
    monkeypatch.setattr(Evaluator, "forward", None)  # what general calls go through
    for call, expected in forms * 4:
        np.testing.assert_allclose(call(), expected, rtol=1e-14)


def test_prepared_caches_know_several_forms(monkeypatch):
    cache = nt.prepare_gradient_cache(lambda x, d: np.sum((x - d) ** 2), X, nt.Constant(Y))
    forms = [
        (lambda: nt.value_and_gradient(cache, X, Y + 1.0), 2 * (X - Y - 1.0)),
        (lambda: nt.value_and_gradient(cache, X, nt.Constant(Y + 1.0)), 2 * (X - Y - 1.0)),
    ]
    for call, _ in forms * 2:
        call()
    monkeypatch.setattr(Evaluator, "forward", None)
    for call, expected in forms * 4:
        np.testing.assert_allclose(call()[1][0], expected, rtol=1e-14)


def _entry_or_not(x, k):
    try:
        part = Y[k] * 0.9
    except IndexError:
        part = 7.0
    return np.sum(x) * part if x[0] < 0 else np.sum(x**2) + part


def _factor_or_not(x, matrix):
    try:
        part = np.linalg.cholesky(matrix)[0, 0]
    except np.linalg.LinAlgError:
        part = -1.0
    return np.sum(x) * part if x[0] < 0 else np.sum(x**2) + part


def _branch_of_data(x, data):
    part = np.sum(data) if data[0] > 1.0 else 3.0
    return np.sum(x) * part if x[0] < 0 else np.sum(x**2) + part


# name: (function, the data of calls); the prologue, which computes with the data alone, may stop
STOPPED_BY_DATA = {
    "an index out of range": (_entry_or_not, [1, 2, 5]),
    "no factorisation": (_factor_or_not, [4 * np.eye(2), 9 * np.eye(2), -np.eye(2)]),
    "a branch": (_branch_of_data, [Y, Y + 2.0, Y - 3.0]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STOPPED_BY_DATA)
def test_data_at_which_the_prologue_stops(name, seed):
    """A steady call whose data stop the prologue leaves nothing that a later call takes for computed."""
    function, data = STOPPED_BY_DATA[name]
    verb = nt.value_and_grad(lambda x, d: function(x, d))
    cache = nt.prepare_gradient_cache(function, X, nt.Constant(data[0]))
    rng = np.random.default_rng(seed)
    for _ in range(60):
        x, d = (X, -X)[rng.integers(2)], data[rng.integers(len(data))]
        expected = function(x, d)
        assert verb(x, d)[0] == expected
        assert nt.value_and_gradient(cache, x, nt.Constant(d))[0] == expected


def test_arrays_that_nobody_writes_to_may_be_new_ones_in_each_call(monkeypatch):
    """Slices of read-only data: what served the first one serves those of other contents and sizes."""
    data = np.arange(40.0).reshape(20, 2)
    data.flags.writeable = False
    f = nt.value_and_grad(lambda w, x: np.sum(np.exp(0.01 * x @ w)))
    w = np.array([0.5, -0.25])
    for start in range(3):
        f(w, data[start : start + 5])
    general = []
    forward = Evaluator.forward
    monkeypatch.setattr(Evaluator, "forward", lambda *args: general.append(1) or forward(*args))
    written = data.copy()
    for start in range(4, 12):
        same(f(w, data[start : start + 5]), f(w, written[start : start + 5]))
    assert not general
    written[:5] = 3.0  # one that can be written to is compared, though it came in place of one that cannot
    assert f(w, written[:5])[0] != f(w, data[:5])[0]
    general.clear()
    for count in range(3, 19):
        _, gradient = f(w, data[:count])
        np.testing.assert_allclose(gradient, 0.01 * data[:count].T @ np.exp(0.01 * data[:count] @ w))
    assert len(general) <= 3


def test_a_copy_of_an_array_that_was_read_only_and_has_changed():
    """The array that calls had been given was taken for what the cells hold, when another one came."""
    f = lambda x, d: np.sum(x) * np.sum(d**2)  # noqa: E731
    x, data = np.ones(3), np.arange(4.0)
    data.flags.writeable = False
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(data))
    for _ in range(4):
        nt.value_and_gradient(cache, x, nt.Constant(data))
    data.flags.writeable = True
    data[0] = 9.0
    assert nt.value_and_gradient(cache, x, nt.Constant(data.copy()))[0] == f(x, data)


def test_derivatives_beside_constants(monkeypatch):
    """They took general calls, 136 µs in place of 3, in each step of solvers with parameters."""
    f = lambda x, c, y: np.sum(np.sin(x) * c[0]) * y + c[1]  # noqa: E731
    cache = nt.prepare_derivative_cache(f, np.ones(3), nt.Constant((2.0, 1.0, None)), 0.5)

    def check(x, c, y, dx, dy):
        value, slope = nt.value_and_derivative(cache, (x, dx), c, (y, dy))
        np.testing.assert_allclose(value, f(x, c, y), rtol=1e-14)
        np.testing.assert_allclose(slope, np.sum(np.cos(x) * dx) * c[0] * y + np.sum(np.sin(x)) * c[0] * dy)

    rng = np.random.default_rng(5)
    for again in range(4):
        if again == 2:
            monkeypatch.setattr(type(cache), "_push", lambda *args: pytest.fail("a general call"))
        check(rng.normal(size=3), (rng.normal(), 2.0, None), 0.7, rng.normal(size=3), 1.5)
    monkeypatch.undo()
    check(np.ones(4), (1.0, 0.0, None), 2.0, np.ones(4), 0.0)
    with pytest.raises(nt.SpecError):  # a pair in the constant's place, and none in an argument's
        nt.value_and_derivative(cache, np.ones(3), ((2.0, 1.0, None), 1.0), (0.5, 1.0))


@pytest.mark.parametrize("verb", ["grad", "jacobian", "value_and_jacobian", "hessian", "hessian_diagonal"])
@pytest.mark.parametrize(
    "x",
    [0.5, np.float32(0.5), np.array(0.5), np.array(0.5, np.float32), np.array([0.5, 0.2], np.float32)],
    ids=lambda x: f"{type(x).__name__}{np.shape(x)}{np.asarray(x).dtype}",
)
@pytest.mark.parametrize("factor", [1.0, np.float64(1.5)], ids=["own dtype", "float64"])
def test_later_results_are_of_the_classes_and_dtypes_of_the_first(verb, x, factor):
    derivative = getattr(nt, verb)(lambda x: np.sum(np.sin(x)) * factor)
    kinds = [
        [(type(part), part.dtype) for part in (result if isinstance(result, tuple) else (result,))]
        for result in (derivative(x) for _ in range(3))
    ]
    assert kinds[0] == kinds[1] == kinds[2]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("place", [0, 1])
def test_jacobians_beside_constants_need_no_general_call(mode, place, monkeypatch):
    def f(x, weights, group):
        return np.tanh(weights @ x) * np.sum(x[group == 1])

    def jacobian(x, weights, group):
        inner, total = np.tanh(weights @ x), np.sum(x[group == 1])
        return (1.0 - inner**2)[:, None] * weights * total + np.outer(inner, group == 1)

    turned = (lambda x, w, g: f(x, w, g)) if place == 0 else (lambda w, x, g: f(x, w, g))
    rng = np.random.default_rng(5)
    weights, derivative = rng.normal(size=(4, 3)), nt.value_and_jacobian(turned, argnums=place, mode=mode)
    for k in range(12):
        group = np.array([1, 1, 0]) if k < 4 else np.array([1, k % 2, k % 3 > 0]).astype(int)
        if k == 2:
            monkeypatch.setattr(Evaluator, "forward", lambda *_, **__: pytest.fail("a general call"))
        if k == 4:
            monkeypatch.undo()  # another number of entries is another size
        x, weights[0] = rng.normal(size=3), rng.normal(size=3)
        value, matrix = derivative(*((x, weights) if place == 0 else (weights, x)), group)
        np.testing.assert_allclose(value, f(x, weights, group), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(matrix, jacobian(x, weights, group), rtol=1e-13, atol=1e-15)


def test_directions_beside_constants_need_no_general_call(monkeypatch):
    f = lambda x, a, b: a * np.sin(x) * b  # noqa: E731
    points = [(0.1 + k, 1.2, 2.0 - k) for k in range(4)]
    slopes = [np.sin(x) * (b * k + 3.0 * a) for k, (x, a, b) in enumerate(points)]
    for k, (x, a, b) in enumerate(points):
        if k == 2:
            monkeypatch.setattr("numbatape.caches.derived.Derived.sweep", None)
        value, slope = nt.jvp(f, (nt.Constant(x), a, b), (None, float(k), 3.0))
        np.testing.assert_allclose([value, slope], [f(x, a, b), slopes[k]], rtol=1e-14)


def test_constants_that_change_are_served_by_the_builtin(monkeypatch):
    """Python takes the constants, and the builtin does the rest, except where a guard stops the sweep."""

    def f(x, data, scale=1.0):
        return np.sum(np.sin(data * scale) * x) * (x[0] if x[0] > scale else 2.0)

    gradient, rng = nt.value_and_grad(f), np.random.default_rng(5)
    for scale in (3.0, 1.0):  # both sides of the guard
        for _ in range(2):
            gradient(np.full(3, 2.0), np.ones(3), scale=scale)
    monkeypatch.setattr(Entry, "swept", None)
    for k in range(20):
        x, data, scale = 2.0 + 0.1 * rng.random(3), rng.normal(size=3), [1.0, 1.5][k % 2]
        value, its = gradient(x, data, scale=scale)
        assert value == pytest.approx(f(x, data, scale), rel=1e-14)
        np.testing.assert_allclose(its[1:], np.sin(data * scale)[1:] * x[0], rtol=1e-14)
    monkeypatch.undo()
    for k in range(20):
        x, data = 2.0 + 0.1 * rng.random(3), rng.normal(size=3)
        value, its = gradient(x, data, scale=1.0 + 2.0 * (k % 2))
        assert value == pytest.approx(f(x, data, 1.0 + 2.0 * (k % 2)), rel=1e-14)


LAYOUTS = {
    "column": lambda x: np.repeat(x[..., None], 2, axis=-1)[..., 0],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "rows of a wider one": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (3, 1, 2)])
def test_arrays_that_are_not_contiguous_need_no_python(layout, shape, monkeypatch):
    """Columns, slices and transposes, as arguments and as data; data that change are noticed."""

    def f(x, data):
        return np.sum(np.exp(data) * np.sin(x))

    gradient, rng = nt.grad(f), np.random.default_rng(2)
    x, data, other = (LAYOUTS[layout](rng.normal(size=shape)) for _ in range(3))
    for _ in range(3):
        gradient(x, data)
    with monkeypatch.context() as patch:
        patch.setattr(Entry, "serve", None)
        for _ in range(3):
            np.testing.assert_allclose(gradient(x, data), np.exp(data) * np.cos(x), rtol=1e-13)
    data[(-1,) * data.ndim] += 1.0
    np.testing.assert_allclose(gradient(x, data), np.exp(data) * np.cos(x), rtol=1e-13)
    np.testing.assert_allclose(gradient(x, other.copy()), np.exp(other) * np.cos(x), rtol=1e-13)


def test_new_sizes_of_data_that_are_not_contiguous():
    """Their builtin compares no contents, because Python has just copied them."""
    gradient, rng = nt.grad(lambda x, data: np.sum(np.exp(data) * np.sin(x))), np.random.default_rng(2)
    for n in range(2, 40):
        x, data = rng.normal(size=(2, n, 3))[:, :, 1]
        for _ in range(2):
            np.testing.assert_allclose(gradient(x, data), np.exp(data) * np.cos(x), rtol=1e-13)


def batch_loss(w, x, y, rate=1.0):
    residuals = np.tanh(x @ w) - y
    return rate * np.mean(residuals**2) if residuals[0] < 10.0 else np.sum(w)


def test_constants_that_differ_in_each_call_need_no_python(monkeypatch):
    """Batches of data and a rate: the builtin copies them, unless the prologue has read them."""
    rng, gradient = np.random.default_rng(4), nt.value_and_grad(batch_loss)
    data, w = rng.normal(size=(100, 4)), rng.normal(size=3)
    cache = nt.prepare_gradient_cache(batch_loss, w, *map(nt.Constant, (data[:8, :3], data[:8, 3], 1.0)))

    def check(first, rate):
        x, y = data[first : first + 8, :3], data[first : first + 8, 3]
        residuals = np.tanh(x @ w) - y
        slopes = rate * 2 * ((1 - (residuals + y) ** 2) * residuals) @ x / 8
        for value, its in (gradient(w, x, y, rate), gradient(w, x, y, rate=rate)):
            np.testing.assert_allclose(value, rate * np.mean(residuals**2), rtol=1e-13)
            np.testing.assert_allclose(its, slopes, rtol=1e-12, atol=1e-14)
        kept = nt.value_and_gradient(cache, w, *map(nt.Constant, (x, y, float(rate))))
        np.testing.assert_allclose(kept[1][0], slopes, rtol=1e-12, atol=1e-14)

    for k in range(12):
        check(k, 0.5 + k)
    with monkeypatch.context() as patch:
        patch.setattr(Entry, "serve", None)
        for k in range(12, 30):
            check(k, 0.5 + k)
    for k in range(6):  # numbers of another class, and data that change in place
        data += 0.01
        check(0, [1.0, np.float64(2.5), 3][k % 3])


@pytest.mark.parametrize(
    "f",
    [
        lambda w, x, k=1.0: np.sum(np.log(x * x) * w) * k,
        lambda w, x, k=1.0: np.sum(w * x) if k > 2.0 else k * np.sum(w),
        lambda w, x, k=1.0: np.sum(w * x) * (2.0 if x[0] > 0.0 else k),
    ],
    ids=["computed with", "a number that decides", "data that decide"],
)
def test_constants_that_the_prologue_reads_are_compared(f):
    gradient, rng = nt.value_and_grad(f), np.random.default_rng(1)
    w = rng.normal(size=3)
    for k in range(30):
        x = rng.normal(size=3)
        value, slopes = gradient(w, x, 0.25 * (k % 16))
        np.testing.assert_allclose(value, f(w, x, 0.25 * (k % 16)), rtol=1e-13)
        np.testing.assert_allclose(slopes @ w, value, rtol=1e-12, atol=1e-14)  # the functions are linear


@pytest.mark.parametrize("size", [3, 200])
@pytest.mark.parametrize("layout", [np.asarray, lambda x: np.repeat(x, 2)[::2]], ids=["whole", "strided"])
def test_guards_that_come_first_see_the_constants_of_the_call(size, layout):
    """They are asked before arrays are copied, and read cells where contiguous arrays have them."""

    def f(w, x, k):
        first = np.sum(w * x) if w[1] > k else -k * np.sum(w)
        return first * (2.0 if x[2] * w[0] > 0.5 else 1.0)

    gradient, rng = nt.value_and_grad(f), np.random.default_rng(9)
    for _ in range(120):
        w, x = (layout(rng.normal(size=size)) for _ in "wx")
        k = float(rng.normal())
        value, slopes = gradient(w, x, k)
        np.testing.assert_allclose(value, f(w, x, k), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(slopes @ w, value, rtol=1e-11, atol=1e-11)  # it is linear between guards


def test_sizes_in_turn_whose_constants_change():
    """Sizes that share memory copy what is constant before each sweep, but not what calls copy."""
    gradient, rng = nt.value_and_grad(lambda w, x, k: k * np.sum(np.sin(x * w))), np.random.default_rng(1)
    for k in range(60):
        w, x = rng.normal(size=(2, 3 + k // 4 % 3))
        value, slopes = gradient(w, x, 1.0 + k)
        np.testing.assert_allclose(value, (1.0 + k) * np.sum(np.sin(x * w)), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(slopes, (1.0 + k) * x * np.cos(x * w), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "forms",
    [
        ((0.5,), (np.float64(0.5),)),
        ((0.5, 2.0), {"scale": 2.0}, (0.5,)),
        (({"a": 0.5},), ({"a": np.float64(0.5)},)),
    ],
    ids=["classes of numbers", "keywords", "containers"],
)
def test_a_form_that_comes_to_stay_is_asked_first(forms, monkeypatch):
    """Calls of another form than the one in front were served in Python for ever, once both were known."""

    def f(x, scale=1.0):
        return (x["a"] if type(x) is dict else x) ** 2 * scale

    gradient = nt.grad(f)
    calls = [
        (lambda form=form: gradient(0.5, **form) if type(form) is dict else gradient(*form)) for form in forms
    ]
    for call in calls * 3:
        call()
    for call in calls:
        for _ in range(10):
            call()
        with monkeypatch.context() as patch:
            patch.setattr(SteadyCalls, "again", None)
            patch.setattr(Front, "elsewhere", None)
            for _ in range(3):
                call()
