"""Variables that a function refers to, and whose values differ from call to call, are inputs of its tape."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import enum
import functools
import gc
import heapq
import math
import operator
import threading
import types
import weakref
from typing import ClassVar

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

import numbatape as nt
from numbatape.programs import program

X = np.array([0.5, 1.0, 2.0])
VALUES = 1.5, 2.0, -0.5, 3.0, 0.25, 1.5, -2.0
Pair = collections.namedtuple("Pair", "first second")
SCALE, DATA, TABLE = 1.0, np.ones(3), {"scale": 1.0}
SHIFTS = types.SimpleNamespace(value=0.0)


@pytest.fixture
def traces(monkeypatch):
    """The names of the functions that were traced, in order."""
    found: list[str] = []
    record = program.record

    def counted(function, *args, **options):
        found.append(getattr(function, "__name__", "object"))
        return record(function, *args, **options)

    monkeypatch.setattr(program, "record", counted)
    return found


@dataclasses.dataclass
class Ridge:
    weight: float
    data: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(3))

    @property
    def twice(self):
        return 2 * self.weight

    def loss(self, x):
        return np.sum(np.sin(x) * self.data) + self.twice * np.sum(x * x)

    def __call__(self, x):
        return self.loss(x)


RIDGE = Ridge(1.0)


def of_global(x):
    return np.sum(np.sin(x)) * SCALE


def of_helper(x):
    return of_global(x) * SCALE


def of_array(x):
    return np.sum(np.sin(x) * DATA)


def of_cubes(x, cubes):
    return np.sum(cubes * DATA * x**3)


def of_table(x):
    return np.sum(np.sin(x)) * TABLE["scale"]


def of_object(x):
    return RIDGE.loss(x)


def with_global(k):
    global SCALE
    SCALE = k
    return of_helper


def with_lambda(k):
    global SCALE
    SCALE = k
    return lambda x: of_global(x) + SCALE


def with_both(k):
    global SCALE
    SCALE = k
    return lambda x: of_global(x) * k


def with_contents(k):
    DATA[1] = k
    return of_array


def with_entry(k):
    TABLE["scale"] = k
    return of_table


def with_attribute(k):
    RIDGE.weight, RIDGE.data = k, np.full(3, k)
    return RIDGE.loss


def with_object(k):
    RIDGE.weight = k
    return of_object


def with_inner(k):
    def residual(y):
        return y - k

    return lambda x: np.sum(residual(x) ** 3) + k


def with_circle(k):
    """The function in the closure refers to itself."""

    def repeated(y, n):
        return y * k if n == 0 else repeated(np.sin(y), n - 1)

    return lambda x: np.sum(repeated(x, 3))


def weighted(x, k, power):
    return np.sum(np.abs(x) ** power) * k


FORMS = {
    "closure": lambda k: lambda x: np.sum(np.sin(x)) * k,
    "array in a closure": lambda k: (lambda data: lambda x: np.sum(np.sin(x) * data))(np.full(3, k)),
    "dictionary": lambda k: (lambda data: lambda x: sum(np.sum(x * v) for v in data.values()))(
        {"a": k, "b": np.full(3, k)}
    ),
    "tuple": lambda k: (lambda data: lambda x: np.sum(x * data[1]) * data[0])((k, np.full(3, k))),
    "inner function": with_inner,
    "function that calls itself": with_circle,
    "default": lambda k: lambda x, k=k: np.sum(np.sin(x)) * k,
    "partial": lambda k: functools.partial(weighted, k=k, power=2),
    "method of a new object": lambda k: Ridge(k, np.full(3, k)).loss,
    "new object that is called": lambda k: Ridge(k, np.full(3, k)),
    "attribute": with_attribute,
    "attribute of a global object": with_object,
    "global": with_global,
    "global in a lambda": with_lambda,
    "closure beside a global": with_both,
    "contents of a global array": with_contents,
    "entry of a global dictionary": with_entry,
}


# From this turn on there are no more traces: the global is compared when lambdas share traces.
SETTLED = dict.fromkeys(FORMS, 5) | {"closure beside a global": 6}


def flat(tree) -> np.ndarray:
    """Return all numbers of a result."""
    return np.concatenate([np.ravel(part) for part in (tree if isinstance(tree, tuple) else (tree,))])


def fresh(verb, make, k, x):
    """Return what a verb gives for a function that it has not met."""
    nt.clear_caches()
    return flat(verb(make(k))(x))


@pytest.mark.parametrize("verb", [nt.value_and_grad, nt.hessian], ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("form", FORMS)
def test_a_variable_that_has_changed_twice_needs_no_trace(form, verb, traces):
    make = FORMS[form]
    nt.clear_caches()
    found = []
    for turn, k in enumerate(VALUES):
        before = len(traces)
        found.append(flat(verb(make(k))(X + turn)))
        assert len(traces) == before or turn < SETTLED[form]
    expected = [fresh(verb, make, k, X + turn) for turn, k in enumerate(VALUES)]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


VERBS = {
    "jvp": lambda f: nt.jvp(lambda x: f(x) * x, (X,), (np.ones(3),))[1],
    "vjp": lambda f: nt.vjp(f, X)[1](2.0)[0],
    "jacobian": lambda f: nt.jacobian(f)(X),
    "hvp": lambda f: nt.hvp(f)(X, np.ones(3))[-1],
    "vmap": lambda f: nt.vmap(f)(np.stack([X, 2 * X])),
    "batch": lambda f: nt.batch(f)(np.stack([X, 2 * X]))[1],
    "batch of Jacobians": lambda f: nt.batch(lambda x: f(x) * x)(np.stack([X, 2 * X]))[1],
    "batch of values": lambda f: nt.batch(f, value_only=True)(np.stack([X, 2 * X])),
    "sparse Hessian": lambda f: nt.sparse_hessian(f)(X).toarray(),
    "sparse Jacobian": lambda f: nt.sparse_jacobian(lambda x: f(x) * x)(X).toarray(),
    "vmap of grad": lambda f: nt.vmap(nt.grad(f))(np.stack([X, 2 * X])),
    "derivative": lambda f: nt.derivative(lambda t: f(t * X))(0.5),
    "grad of a derivative inside": lambda f: nt.grad(lambda x: np.sum(nt.grad(f)(x) ** 2))(X),
}


# Where a function that is traced calls a verb of a method, attributes of its object stay literals; and so do
# those of an object in the closure of a function that is made anew.
UNFIT = (
    "vmap of grad",
    "batch of Jacobians",
    "sparse Jacobian",
    "jvp",
    "derivative",
    "grad of a derivative inside",
)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize(
    "form", ["closure", "global in a lambda", "closure beside a global", "method of a new object"]
)
def test_other_verbs_take_such_variables_too(name, form, traces):
    call, make = VERBS[name], FORMS[form]
    nt.clear_caches()
    found = []
    for turn, k in enumerate(VALUES):
        before = len(traces)
        found.append(np.asarray(call(make(k))))
        assert len(traces) == before or turn < SETTLED[form] or (form.startswith("method") and name in UNFIT)
    for k, its in zip(VALUES, found, strict=True):
        nt.clear_caches()
        np.testing.assert_allclose(its, call(make(k)), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("verb", ["jvp", "hvp"])
def test_directions_and_variables_of_one_shape_are_kept_apart(verb, monkeypatch):
    """Calls give directions before variables, although the tape has them behind."""
    product, cubes = nt.hvp(of_cubes), np.array([3.0, -1.0, 0.5])
    for turn in range(12):
        data, x, v = np.cos(turn + np.arange(9.0)).reshape(3, 3)
        monkeypatch.setitem(globals(), "DATA", data)
        if verb == "hvp":
            np.testing.assert_allclose(product(x, cubes, v), 6 * cubes * data * x * v, rtol=1e-12)
        else:
            found = nt.jvp(of_cubes, (x, cubes), (v, cubes))
            expected = [(cubes * data) @ x**3, (cubes * data) @ (3 * x**2 * v + x**3)]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_patterns_follow_positions_that_change():
    """A sparse derivative has its entries where the present positions are, not those of its first trace."""
    x = np.arange(8.0)
    for turn in range(12):
        places, scale = np.array([turn % 5, 7]), 1.0 + turn
        found = nt.sparse_jacobian(lambda z, places=places, scale=scale: z[places] * scale)(x)
        expected = np.zeros((2, 8))
        expected[[0, 1], places] = scale
        np.testing.assert_array_equal(found.toarray(), expected)
        hessian = nt.sparse_hessian(lambda z: np.sum(z[places] ** 3) * scale)(x)  # noqa: B023
        expected = np.zeros(8)
        expected[places] = 6.0 * scale * x[places]
        np.testing.assert_allclose(hessian.toarray(), np.diag(expected), rtol=1e-13)


class Counting:
    def __init__(self, k):
        self.k, self.calls, self.kept = k, 0, []

    def counts(self, x):
        self.calls += 1
        return np.sum(x * x) * self.k + self.calls

    def keeps(self, x):
        self.kept.append(self.k)
        return np.sum(x * x) * self.k + len(self.kept)

    @functools.cached_property
    def doubled(self):
        return 2 * self.k

    def reads_what_was_computed(self, x):
        return np.sum(x * x) * self.doubled


def _writes_to_its_array(k):
    data = np.full(3, k)

    def f(x):
        data[0] += 1.0
        return np.sum(x * data)

    return f


def _assigns(k):
    def f(x):
        nonlocal k
        k = k + 1
        return np.sum(x * x) * k

    return f


def _catches(k):
    def f(x):
        try:
            return np.sum(x * x) * math.sqrt(k)
        except ValueError:
            return np.sum(x)

    return f


def _with_default_inside(k):
    def inner(y, m=k):
        return y * m

    return lambda x: np.sum(inner(x))


def _in_class(k):
    class Inner:
        factor = k

        def of(self, y):
            return y * self.factor

    return lambda x: np.sum(Inner().of(x))


# Functions that tell the value of a variable from a traced one, or that change what they refer to.
SNEAKY = {
    "type": lambda k: lambda x: np.sum(x * x) * k * (2.0 if type(k) is float else 3.0),
    "isinstance": lambda k: lambda x: np.sum(x * x) * k * isinstance(k, float),
    "text": lambda k: lambda x: np.sum(x * x) * len(f"{k}"),
    "key": lambda k: lambda x: np.sum(x * x) * {1.5: 2.0, 2.0: 3.0}.get(k, 5.0),
    "members": lambda k: lambda x: np.sum(x * x) * len({k, 1.5, 2.0}),
    "test": lambda k: lambda x: np.sum(x * x) * (k or 7.0) if k > 0 else np.sum(x),
    "rounding": lambda k: lambda x: np.sum(x * x) * (int(k) + round(k, 1) + math.floor(k)),
    "turns": lambda k: lambda x: np.sum(functools.reduce(lambda y, _: np.sin(y), range(int(abs(k))), x)),
    "size": lambda k: lambda x: np.sum(x[: int(abs(k))]) * k,
    "exponent": lambda k: lambda x: np.sum(np.abs(x) ** k),
    "order": lambda k: lambda x: np.sum(scipy.special.jv(int(abs(k)), x)),
    "rule": lambda k: lambda x: scipy.integrate.quad(lambda t: np.sin(t * k) * x[0], 0.0, x[1])[0],
    "scan": lambda k: lambda x: nt.scan(lambda c, e: (c * np.cos(e) + k, c), k, x)[0],
    "sub-tape": lambda k: lambda x: nt.function(lambda y: np.sum(np.sin(y)) * k)(x),
    "array that is written to": _writes_to_its_array,
    "assigned variable": _assigns,
    "caught error": _catches,
    "default inside": _with_default_inside,
    "class": _in_class,
    "counter": lambda k: Counting(k).counts,
    "list that is kept": lambda k: Counting(k).keeps,
    "computed once": lambda k: Counting(k).reads_what_was_computed,
    "long list": lambda k: (lambda data: lambda x: np.sum(x * x) * data[-1])([k] * 100),
}


@pytest.mark.parametrize("form", SNEAKY)
def test_what_a_function_does_with_a_variable_stays_right(form):
    make = SNEAKY[form]
    nt.clear_caches()
    for turn, k in enumerate(VALUES):
        f = make(k)
        value, gradient = nt.value_and_grad(f)(X + turn)
        np.testing.assert_allclose(value, make(k)(X + turn), rtol=1e-13)
        step = 1e-6 * np.eye(3)
        slopes = [(make(k)(X + turn + h) - make(k)(X + turn - h)) / 2e-6 for h in step]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "value",
    [1.5, 2, np.float32(0.5), np.float64(0.5), True, np.full(3, 2.0, np.float32), np.arange(3)],
    ids=str,
)
def test_dtypes_are_those_of_the_value(value):
    """A Python float does not widen float32, a float64 does."""
    x = X.astype(np.float32)
    for k in (value, value + value, value, value + value + value):
        result, gradient = nt.value_and_grad(lambda x, k=k: np.sum(np.sin(x) * k))(x)
        expected = np.sum(np.sin(x) * k)
        assert (result.dtype, gradient.dtype) == (expected.dtype, np.float32)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_objects_are_left_as_they_are():
    for k in VALUES:
        its = Counting(k)
        for turn in range(3):
            value, _ = nt.value_and_grad(its.keeps)(X)
            assert value == np.sum(X * X) * k + turn + 1
        assert vars(its) == {"k": k, "calls": 0, "kept": [k] * 3}


class Trainer:
    def __init__(self):
        self.step, self.history, self.log = 0, [], {"loss": []}

    @property
    def rate(self):
        return 0.9**self.step

    def loss(self, x):
        return np.sum(np.sin(x)) * self.rate

    def longer(self, x):
        return np.sum(np.sin(x)) * self.rate + len(self.history)


@pytest.mark.parametrize("name, most", [("loss", 4), ("longer", 12)])
def test_a_history_that_the_function_does_not_read_costs_no_traces(name, most, traces):
    """A trainer changes its step and its list of losses in each turn: the step alone is an input."""
    its = Trainer()
    for k in range(12):
        its.step = k
        value, gradient = nt.value_and_grad(getattr(its, name))(X)
        np.testing.assert_allclose(value, getattr(its, name)(X), rtol=1e-14)
        np.testing.assert_allclose(gradient, np.cos(X) * 0.9**k, rtol=1e-14)
        its.history.append(value)
        its.log["loss"].append(value)
    assert len(traces) <= most


class Fitted:
    """An object as libraries make them: with a lock, a callback and a way back to itself of its own."""

    def __init__(self, k):
        self.k, self.lock, self.callback, self.back = k, threading.Lock(), lambda: k, [self]

    def loss(self, x):
        return np.sum(np.sin(x)) * self.k


OF_FITTED = {
    "not read": (lambda self, x: np.sum(np.sin(x)) * self.k, 4),
    "called": (lambda self, x: np.sum(np.sin(x)) * self.callback(), 8),
    "by its name": (lambda self, x: np.sum(np.sin(x)) * getattr(self, "callback")(), 9),  # noqa: B009
    "among all": (lambda self, x: np.sum(np.sin(x)) * vars(self)["callback"](), 8),
    "another way": (lambda self, x: np.sum(np.sin(x)) * self.back[0].k, 8),
    "identity": (lambda self, x: np.sum(np.sin(x)) * (self.k if self is self.back[0] else 0.0), 8),
    "a member": (lambda self, x: np.sum(np.sin(x)) * (self.k if self in self.back else 0.0), 8),
}


BEST: list = []
RANKS: dict = {}


class Ranked:
    def __init__(self, k):
        self.k = k

    def listed(self, x):
        return np.sum(np.sin(x)) * (self.k if self in BEST else 2.0 * self.k)

    def counted(this, x):
        return np.sum(np.sin(x)) * this.k * (1 + BEST.count(this))

    def keyed(self, x):
        return np.sum(np.sin(x)) * self.k * RANKS.get(self, 3.0)


class RankedWithALock(Ranked):
    def __init__(self, k):
        super().__init__(k)
        self.lock = threading.Lock()


@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("name", ["listed", "counted", "keyed"])
@pytest.mark.parametrize("cls", [Ranked, RankedWithALock])
def test_objects_that_code_finds_among_others(cls, name, when):
    """A copy that stands for all objects of a class is another object than each of them."""
    BEST.clear(), RANKS.clear()
    its = type(cls.__name__, (cls,), {"__module__": __name__})
    objects = [its(1.0 + k) for k in range(6)]
    for k, each in enumerate(objects):
        if k == (0 if when == "before" else 4):
            BEST.append(objects[5])
            RANKS[objects[5]] = 7.0
        loss = getattr(each, name)
        np.testing.assert_allclose(nt.grad(loss)(X), np.cos(X) * loss(np.array([np.pi / 2])), rtol=1e-14)


@pytest.mark.parametrize("name", OF_FITTED)
def test_what_each_object_has_of_its_own_and_no_code_reads(name, traces):
    """scikit-learn's searches give each estimator a context of its own while it is fitted."""
    loss, most = OF_FITTED[name]
    cls = type("Fitted", (Fitted,), {"loss": loss, "__module__": __name__})
    for k in range(1, 9):
        x = X * k
        np.testing.assert_allclose(nt.grad(cls(0.5 * k).loss)(x), np.cos(x) * 0.5 * k, rtol=1e-14)
    assert len(traces) <= most


def test_threads_have_their_own_values():
    def slopes(k, found):
        for turn in range(60):
            slope = nt.grad(lambda x: np.sum(np.sin(x)) * k * turn)(X)  # noqa: B023 (it is called in this turn)
            found.append(slope - np.cos(X) * k * turn)

    found: list = []
    threads = [threading.Thread(target=slopes, args=(k, found)) for k in (1.0, 2.0, 3.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 240
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


def test_errors_are_those_of_the_function():
    def made(k):
        def f(x):
            if k < 0:
                raise ValueError(f"negative: {k}")
            return np.sum(x * x) * k

        return f

    for k in (1.0, 2.0, 3.0, -1.0, 4.0, -2.0, 5.0):
        if k < 0:
            with pytest.raises(ValueError, match=f"negative: {k}"):
                nt.grad(made(k))(X)
        else:
            np.testing.assert_array_equal(nt.grad(made(k))(X), 2 * X * k)


def test_a_given_argument_comes_before_a_default():
    for k in VALUES:
        f = lambda x, k=k: np.sum(x) * k  # noqa: E731
        assert nt.grad(f)(X)[0] == k
        assert nt.grad(f)(X, 7.0)[0] == 7.0
        assert nt.grad(f)(X, k=8.0)[0] == 8.0
        g = functools.partial(weighted, k=k, power=1)
        assert nt.grad(g)(X, k=9.0)[0] == 9.0


def test_vmap_shares_a_default_among_lanes():
    """An array that happens to have as many rows as there are lanes is not mapped over."""
    for k in VALUES:
        data = np.full(2, k)
        found = nt.vmap(lambda x, data=data: np.sum(x) * data)(np.ones((2, 3)))
        np.testing.assert_array_equal(found, np.full((2, 2), 3 * k))


def test_functions_that_take_turns_get_traces_of_their_own(traces):
    nt.clear_caches()
    slopes = [nt.grad(FORMS["closure"](float(k))) for k in range(4)]
    for _ in range(20):
        for k, slope in enumerate(slopes):
            np.testing.assert_allclose(slope(X), np.cos(X) * k)
    assert len(traces) == 2 + 1 + 2  # two functions, the model, and the functions that it has served at first


class Signed:
    def __init__(self, k):
        self.k, self.sign = k, 1.0

    def loss(self, x):
        return np.sum(x * x) * self.k * getattr(self, "sign", 3.0)


def signed(k, sign=1.0):
    def f(x):
        return np.sum(x * x) * k * sign

    def change(value):
        nonlocal sign
        sign = value

    return f, change


def test_what_changes_after_the_verb_was_given_a_function():
    """The derivative is of the function as it is when it is called, and not as it was before."""
    for k in VALUES:
        its = Signed(k)
        slope = nt.grad(its.loss)
        np.testing.assert_array_equal(slope(X), 2 * X * k)
        its.sign = -1.0
        np.testing.assert_array_equal(slope(X), -2 * X * k)
        del its.sign
        np.testing.assert_array_equal(slope(X), 6 * X * k)
        f, change = signed(k)
        slope = nt.grad(f)
        np.testing.assert_array_equal(slope(X), 2 * X * k)
        change(-1.0)
        np.testing.assert_array_equal(slope(X), -2 * X * k)


KEPT = np.zeros(3)
WRITES = {
    "out": lambda k: np.add(KEPT, k, out=KEPT),
    "copyto": lambda k: np.copyto(KEPT[1:], k),
    "at": lambda k: np.add.at(KEPT, [0, 1, 1], k),
    "put": lambda k: np.put(KEPT, [1], k),
    "entries": lambda k: KEPT.__setitem__(slice(None), 0.5 * KEPT + k),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_a_captured_array_stays_there(name):
    write = WRITES[name]

    def made(k):
        def f(x):
            total = np.sum(x * x) * np.sum(KEPT)
            write(k)
            return total + np.sum(x * KEPT) * k

        return f

    KEPT[:] = 0.0
    for turn, k in enumerate(VALUES):
        before = KEPT.copy()
        expected = made(k)(X + turn)
        after = KEPT.copy()
        KEPT[:] = before
        value, _ = nt.value_and_grad(made(k))(X + turn)
        np.testing.assert_allclose(value, expected, rtol=1e-13)
        np.testing.assert_array_equal(KEPT, after)


PART = nt.function(lambda y: np.sum(np.sin(y)) * SCALE)


def with_part(x):
    return PART(x) * SCALE


def test_a_sub_tape_reads_a_global_as_it_is():
    global SCALE
    for k in VALUES:
        SCALE = k
        value, gradient = nt.value_and_grad(with_part)(X)
        np.testing.assert_allclose(value, np.sum(np.sin(X)) * k**2, rtol=1e-14)
        np.testing.assert_allclose(gradient, np.cos(X) * k**2, rtol=1e-14)


class Integrated:
    """Its integrand runs in each sweep, on the object itself."""

    def __init__(self, k):
        self.k = k

    def loss(self, x):
        return scipy.integrate.quad(lambda t: 0.5 if self.k is None else t * self.k, 0.0, x[0])[0]

    def tested(self, x):
        return scipy.integrate.quad(lambda t: t * self.k if self.k else t, 0.0, x[0])[0]


@pytest.mark.parametrize("method", [Integrated.loss, Integrated.tested], ids=lambda method: method.__name__)
def test_an_integrand_reads_attributes_of_its_own_object(method):
    for k in VALUES:
        value, gradient = nt.value_and_grad(types.MethodType(method, Integrated(k)))(X)
        np.testing.assert_allclose([value, gradient[0]], [0.5 * k * X[0] ** 2, k * X[0]], rtol=1e-12)


def scale():
    """It uses nothing of NumPy's, so that only what it reads asks for a copy of it."""
    return SCALE


class Kind(enum.Enum):
    ONE = 1
    HELD = (scale,)

    def scale(self):
        return SCALE

    @property
    def own(self):
        return SCALE


class Indexed:
    def __class_getitem__(cls, k):
        return SCALE * k

    @staticmethod
    def scale():
        return SCALE


class Meta(type):
    @property
    def scale(cls):
        return SCALE


class OfMeta(metaclass=Meta):
    pass


class Number(float):
    def scaled(self):
        return self * SCALE


class Settings(types.ModuleType):
    @property
    def scale(self):
        return SCALE


class Law(scipy.stats.rv_continuous):
    def _pdf(self, x):
        return np.exp(-x * x) * SCALE


HELD = weakref.ref(of_global)
CONTEXT: contextvars.ContextVar = contextvars.ContextVar("context")
CONTEXT.set(of_global)
ROWS = {"pair": Pair(scale, [scale]), "settings": Settings("settings"), "number": Number(1.0)}
LOCAL, FINAL = threading.local(), weakref.finalize(Kind, scale)
LOCAL.scale = scale
UFUNC, LAW = np.frompyfunc(lambda v: v * SCALE, 1, 1), Law()
SLOPE = nt.grad(lambda t: t * SCALE)
PREPARED = nt.prepare_gradient_cache(lambda t: t * SCALE, 1.0)


@pytest.mark.parametrize(
    "read",
    {
        "weak reference": lambda: HELD()(X) / np.sum(np.sin(X)),
        "context variable": lambda: CONTEXT.get()(X) / np.sum(np.sin(X)),
        "globals": lambda: of_global.__globals__["SCALE"],
        "method of an enumeration": Kind.ONE.scale,
        "property of an enumeration": lambda: Kind.ONE.own,
        "member of an enumeration": lambda: Kind.HELD.value[0](),
        "index of a class": lambda: Indexed[1.0],
        "static method": lambda: Indexed.scale(),
        "property of a class": lambda: OfMeta.scale,
        "method of a number": lambda: ROWS["number"].scaled(),
        "entry of a pair": lambda: ROWS["pair"].first(),
        "list in a pair": lambda: ROWS["pair"].second[0](),
        "property of a module": lambda: ROWS["settings"].scale,
        "attribute of a thread": lambda: LOCAL.scale(),
        "finalizer": lambda: FINAL.peek()[1](),
        "ufunc": lambda: float(UFUNC(1.0)),
        "law": lambda: float(LAW.pdf(0.0)),
        "derivative at a number": lambda: float(SLOPE(1.0)),
        "prepared derivative at a number": lambda: float(nt.value_and_gradient(PREPARED, 1.0)[0]),
    }.items(),
    ids=lambda each: each[0],
)
def test_functions_that_run_as_they_are_read_a_global_as_it_is(read):
    """Copies have traced values of variables that are inputs, and other functions would read literals."""
    global SCALE
    own = read[1]

    def f(x):
        return np.sum(np.sin(x)) * own() * SCALE

    nt.clear_caches()
    for k in VALUES:
        SCALE = k
        np.testing.assert_allclose(nt.grad(f)(X), np.cos(X) * k**2, rtol=1e-14)


LIST: list = []
TABLES: dict = {}
FILL = np.zeros(3)
KEEPS = {
    "append": lambda k: LIST.append(k),
    "items in place": lambda k: LIST.__iadd__([k]),
    "operator": lambda k: operator.setitem(TABLES, "last", k),
    "heap": lambda k: heapq.heappushpop(LIST, k) if LIST else LIST.append(k),
    "deleted": lambda k: LIST.__delitem__(slice(0, 1)) if len(LIST) > 2 else LIST.append(k),
    "whole array": lambda k: np.add(FILL, k, out=FILL),
    "global and list": lambda k: (LIST.append(k), TABLES.update(count=TABLES.get("count", 0) + 1)),
}


def filled(x):
    KEEPS[TABLES["how"]](SCALE)
    return np.sum(x * x) * SCALE + sum(LIST) + np.sum(FILL)


def in_place(x):
    entries = LIST
    entries += [SCALE]
    if len(entries) > 2:
        del entries[0]
    np.add(FILL, SCALE, out=FILL)
    return np.sum(x * x) * SCALE + sum(LIST) + np.sum(FILL)


@pytest.mark.parametrize("how", [*KEEPS, None])
def test_what_a_function_keeps_is_kept_once(how):
    """Where a trace with inputs fails, what it did is undone before the function runs again."""
    global SCALE
    f = in_place if how is None else filled
    found: list[list] = []
    for call in (lambda: nt.value_and_grad(f)(X)[0], lambda: f(X)):
        nt.clear_caches()
        LIST.clear()
        TABLES.clear()
        TABLES["how"], FILL[:] = how, 0.0
        found.append([])
        for k in VALUES:
            SCALE = k
            value = call()
            found[-1].append((round(float(value), 9), [*LIST], {**TABLES}, FILL.tolist()))
    assert found[0] == found[1]


class Known:
    """Code tells its objects apart: by equality, by tables of them, by their addresses."""

    every: ClassVar[list] = []
    weights: ClassVar[weakref.WeakKeyDictionary] = weakref.WeakKeyDictionary()
    addresses: ClassVar[dict] = {}

    def __init__(self, k):
        self.k = k
        self.every.append(self)
        self.weights[self] = self.addresses[id(self)] = k

    def by_equality(self, x):
        return np.sum(x) * self.k * sum(each.k for each in self.every if each == self)

    def by_table(self, x):
        return np.sum(x) * self.k * self.weights.get(self, 0.0)

    def by_address(self, x):
        return np.sum(x) * self.k * self.addresses.get(id(self), 0.0)


class Named:
    __slots__ = ("sign",)


class Slotted(Named):
    def __init__(self, k):
        self.k, self.sign = abs(k), np.sign(k)

    def signed(self, x):
        return np.sum(x) * self.k**2 * getattr(self, "sign", 7.0) ** 2


class Entries(dict):
    def weighted(self, x):
        return np.sum(x) * self["k"] ** 2


CODE = compile("def scaled(y): return y * factor", "scaled", "exec")


def with_other_globals(k):
    scope = {"factor": k}
    exec(CODE, scope)
    inner = scope["scaled"]
    return lambda x: np.sum(inner(x)) * k


def with_a_name(k):
    def f(x):
        return np.sum(x) * float(f.__name__) ** 2

    f.__name__ = str(k)
    return f


@pytest.mark.parametrize(
    "make",
    {
        "equality": lambda k: Known(k).by_equality,
        "table": lambda k: Known(k).by_table,
        "address": lambda k: Known(k).by_address,
        "slots": lambda k: Slotted(k).signed,
        "entries": lambda k: Entries(k=k).weighted,
        "globals": with_other_globals,
        "name": with_a_name,
    }.items(),
    ids=lambda each: each[0],
)
def test_functions_that_differ_in_more_than_their_variables(make):
    nt.clear_caches()
    Known.every.clear()
    for k in VALUES:
        np.testing.assert_allclose(nt.grad(make[1](k))(X), np.full(3, k**2), rtol=1e-14)


class Open:
    count = 0

    def __init__(self, k):
        self.k = k
        Open.count += 1

    def __del__(self):
        Open.count -= 1

    def loss(self, x):
        return np.sum(np.exp(x)) * self.k


def test_destructors_run_for_the_users_objects_alone():
    """They may close files that an object and its stand-in have in common."""
    kept = []
    for k in VALUES:
        kept.append(Open(k))
        np.testing.assert_array_equal(nt.grad(kept[-1].loss)(X), np.exp(X) * k)
        gc.collect()
        assert Open.count == len(kept)
    nt.clear_caches()
    kept.clear()
    gc.collect()
    assert Open.count == 0
    assert nt.grad(lambda t: Open(t).loss(X))(2.0) == np.sum(np.exp(X))
    gc.collect()
    assert Open.count == 0


class Group:
    def __init__(self):
        self.members: list = []


GROUP = Group()
ENTRIES: list = []


class Member:
    """Its constructor names the group that leads back to it."""

    def __init__(self, k):
        self.k, self.group, self.entries = k, GROUP, ENTRIES
        GROUP.members.append(self)

    def loss(self, x):
        return np.sum(x) * self.k * sum(each.k for each in self.group.members)

    def share(self, x):
        return np.sum(x) * self.k * sum(each.k for each in self.entries)


@pytest.mark.parametrize("name", ["loss", "share"])
def test_objects_that_lead_back_to_themselves(name):
    """While a stand-in is made, what it leads to must not get the original in its place."""
    nt.clear_caches()
    GROUP.members.clear()
    ENTRIES[:] = [Member(k) for k in (1.0, 2.0, 3.0)]
    for number, k in (
        (0, 1.0),
        (1, 2.5),
        (0, 7.0),
        (0, 3.0),
        (0, 4.0),
        (1, 1.0),
        (0, 2.0),
        (0, 5.0),
        (1, 9.0),
    ):
        ENTRIES[number].k = k
        f = (
            (lambda x: ENTRIES[0].share(x))
            if name == "share" and not number
            else getattr(ENTRIES[number], name)
        )
        np.testing.assert_allclose(nt.grad(f)(X), np.full(3, k * sum(each.k for each in ENTRIES)))
