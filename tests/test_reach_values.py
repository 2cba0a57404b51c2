"""How far the swap of globals reaches: modules as values, holders of functions, classes of all kinds."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import importlib
import math
import operator
import random
import threading
import types
import typing

import numpy as np
import pytest

import numbatape as nt
from tests.every_case import every

X = np.array([0.5, 1.5, 2.0])
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def W(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


# ---- modules as values


def with_xp(xp, x):
    return xp.sum(xp.array([x[0], 2 * x[1], xp.exp(x[2])]) * x)


@case
def module_as_argument(x):
    return with_xp(np, x)


def namespace_of(*arrays):
    return np


@case
def module_from_a_function(x):
    xp = namespace_of(x)
    return xp.sum(xp.array([x[0], 2 * x[1], xp.exp(x[2])]) * x)


@case
def array_namespace(x):
    xp = x.__array_namespace__()
    return xp.sum(xp.asarray([x[0], 2 * x[1], xp.exp(x[2])]) * x)


class Backend:
    def __init__(self, xp, functions=math):
        self.xp, self.functions = xp, functions

    def w(self, x):
        return self.xp.array([x[0], 2 * x[1], self.functions.exp(x[2])])


@case
def module_as_attribute_made_inside(x):
    return np.sum(Backend(np).w(x) * x)


BACKENDS = {"numpy": np, "math": math}


@case
def dictionary_of_modules(x):
    xp = BACKENDS["numpy"]
    return np.sum(xp.array([x[0], 2 * x[1], BACKENDS["math"].exp(x[2])]) * x)


@case
def attribute_by_name(x):
    name = "array"
    return np.sum(getattr(np, name)([x[0], 2 * x[1], getattr(math, "exp")(x[2])]) * x)  # noqa: B009


@case
def attribute_getter(x):
    return np.sum(operator.attrgetter("array")(np)([x[0], 2 * x[1], math.exp(x[2])]) * x)


@case
def variables_of_a_module(x):
    return np.sum(vars(np)["array"]([x[0], 2 * x[1], math.__dict__["exp"](x[2])]) * x)


@case
def import_by_name(x):
    xp = importlib.import_module("numpy")
    return np.sum(xp.array([x[0], 2 * x[1], importlib.import_module("math").exp(x[2])]) * x)


@case
def module_in_a_loop(x):
    for xp in (np,):
        w = xp.array([x[0], 2 * x[1], math.exp(x[2])])
    return np.sum(w * x)


@case
def module_as_default(x, xp=np):
    return with_xp(xp, x)


# ---- holders of functions


SPACE = types.SimpleNamespace(w=W, inner=types.SimpleNamespace(w=W))
DEEP = [[[W]], {"w": (W,)}]
FACTORY = collections.defaultdict(lambda: W)
ORDERED = collections.OrderedDict(w=W)
QUEUE = collections.deque([W])
Named = collections.namedtuple("Named", "w k")
NAMED = Named(W, 1)


class Typed(typing.NamedTuple):
    w: object

    def total(self, x):
        return np.sum(self.w(x) * np.array([x[0], x[1], x[2]]))


TYPED = Typed(W)
CASES["namespace"] = lambda x: np.sum(SPACE.w(x) * x)
CASES["namespace in a namespace"] = lambda x: np.sum(SPACE.inner.w(x) * x)
CASES["lists of lists"] = lambda x: np.sum(DEEP[0][0][0](x) * x)
CASES["tuple in a dictionary in a list"] = lambda x: np.sum(DEEP[1]["w"][0](x) * x)
CASES["default factory"] = lambda x: np.sum(FACTORY["any"](x) * x)
CASES["ordered dictionary"] = lambda x: np.sum(ORDERED["w"](x) * x)
CASES["deque"] = lambda x: np.sum(QUEUE[0](x) * x)
CASES["named tuple"] = lambda x: np.sum(NAMED.w(x) * x) * NAMED.k
CASES["typed named tuple"] = lambda x: TYPED.total(x)
CASES["view of a dictionary"] = lambda x, d=types.MappingProxyType({"w": W}): np.sum(d["w"](x) * x)
CASES["chain of dictionaries"] = lambda x, d=collections.ChainMap({}, {"w": W}): np.sum(d["w"](x) * x)
CASES["globals by name"] = lambda x: np.sum(globals()["W"](x) * x)
CASES["evaluated text"] = lambda x: np.sum(eval("np.array([x[0], 2 * x[1], math.exp(x[2])])") * x)
CASES["partial in a partial"] = functools.partial(functools.partial(lambda k, w, x: np.sum(w(x) * x), 1), W)
CASES["lambda in a default"] = lambda x, w=lambda x: np.array([x[0], 2 * x[1], math.exp(x[2])]): np.sum(
    w(x) * x
)
CASES["comprehension"] = lambda x: sum([np.sum(np.array([w]) * y) for w, y in zip(W(x), x, strict=True)])
CASES["generator"] = lambda x: sum(math.exp(math.log(w)) * y for w, y in zip(W(x), x, strict=True))
CASES["compose"] = lambda x: functools.reduce(lambda value, f: f(value), [W, np.asarray], x) @ x


def attributed(x):
    return np.sum(attributed.w(x) * x)


attributed.w = W
case(attributed)


def wrapped(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)

    return inner


THRICE = wrapped(wrapped(wrapped(W)))
CASES["chain of decorators"] = lambda x: np.sum(THRICE(x) * x)


async def waited(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def coroutine(x):
    async def whole():
        return np.sum(await waited(x) * x)

    step = whole()
    try:
        step.send(None)
    except StopIteration as done:
        return done.value


# ---- dispatch


@functools.singledispatch
def weights(x):
    raise TypeError(type(x))


@weights.register
def _(x: np.ndarray):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@weights.register(list)
def _(x):
    return weights(np.array(x))


class Dispatching:
    @functools.singledispatchmethod
    def w(self, x):
        raise TypeError(type(x))

    @w.register
    def _(self, x: np.ndarray):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])


DISPATCHING = Dispatching()
CASES["singledispatch"] = lambda x: np.sum(weights(x) * x)
CASES["singledispatch of a list"] = lambda x: np.sum(weights([x[0], x[1], x[2]]) * x)
CASES["singledispatchmethod"] = lambda x: np.sum(DISPATCHING.w(x) * x)
CASES["singledispatchmethod made inside"] = lambda x: np.sum(Dispatching().w(x) * x)


# ---- classes and objects


class Slotted:
    __slots__ = ("calls", "w")

    def __init__(self, w):
        self.w, self.calls = w, 0

    def total(self, x):
        return np.sum(self.w(x) * np.array([x[0], x[1], x[2]]))


class Child(Slotted):
    __slots__ = ("__dict__",)

    def total(self, x):
        self.again = self.w
        return super().total(x)


SLOTTED, CHILD = Slotted(W), Child(W)
CASES["slots"] = lambda x: SLOTTED.total(x)
CASES["slots of a base"] = lambda x: CHILD.total(x)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    w: object = W
    ws: list = dataclasses.field(default_factory=lambda: [W])

    def total(self, x):
        return np.sum(self.ws[0](x) * np.array([x[0], x[1], x[2]]))


FROZEN = Frozen()
CASES["frozen with slots"] = lambda x: FROZEN.total(x)
CASES["frozen with slots made inside"] = lambda x: Frozen().total(x)


@dataclasses.dataclass
class Defaults:
    w: object = None
    start: object = dataclasses.field(default_factory=lambda: W)

    def total(self, x):
        return np.sum(self.w(x) * x)


DEFAULTS = Defaults(W)
CASES["attribute before its class's"] = lambda x: DEFAULTS.total(x)
CASES["field's default factory"] = lambda x: np.sum(Defaults().start(x) * x)


class Meta(type):
    made: typing.ClassVar[list] = []

    def __new__(mcs, name, bases, members):
        cls = super().__new__(mcs, name, bases, members)
        mcs.made.append(cls)
        return cls

    def w(cls, x):
        return np.array([x[0], cls.two * x[1], math.exp(x[2])])

    @property
    def weights(cls):
        return lambda x: np.array([x[0], cls.two * x[1], math.exp(x[2])])


class OfMeta(metaclass=Meta):
    two = 2.0

    def total(self, x):
        return np.sum(type(self).w(x) * np.array([x[0], x[1], x[2]]))


CASES["method of a metaclass"] = lambda x: np.sum(OfMeta.w(x) * x)
CASES["property of a metaclass"] = lambda x: np.sum(OfMeta.weights(x) * x)
CASES["class of a metaclass"] = lambda x: OfMeta().total(x)


class Registry:
    known: typing.ClassVar[dict] = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Registry.known[cls.__name__] = cls


class Registered(Registry):
    def w(self, x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])


REGISTERED = Registered()
CASES["registered subclass"] = lambda x: np.sum(REGISTERED.w(x) * x)
CASES["class out of a registry"] = lambda x: np.sum(Registry.known["Registered"]().w(x) * x)


class Link(enum.Enum):
    PLAIN = "plain"
    DOUBLE = "double"

    def w(self, x):
        scale = 2.0 if self is Link.DOUBLE else 1.0
        return np.array([x[0], 2 * x[1], math.exp(x[2])]) * scale

    @classmethod
    def first(cls):
        return cls.PLAIN

    @property
    def weights(self):
        return lambda x: np.array([x[0], 2 * x[1], math.exp(x[2])])

    @staticmethod
    def static(x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])


class Kind(enum.IntEnum):
    ONE = 1

    def w(self, x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])]) * self


class Functions(enum.Enum):
    EXP = functools.partial(W)
    PAIR = (1.0, W)

    def __init__(self, *parts):
        self.parts = parts

    def __call__(self, x):
        return self.value(x)


LINK, ONE = Link.PLAIN, Kind.ONE
CASES["method of an enumeration"] = lambda x: np.sum(Link.PLAIN.w(x) * x)
CASES["half the other member's"] = lambda x: np.sum(Link("double").w(x) * x) / 2.0
CASES["captured member"] = lambda x: np.sum(LINK.w(x) * x) if LINK is Link.PLAIN else 0.0
CASES["captured member that is a number"] = lambda x: np.sum(ONE.w(x) * x)
CASES["class method of an enumeration"] = lambda x: np.sum(Link.first().weights(x) * x)
CASES["static method of an enumeration"] = lambda x: np.sum(Link.PLAIN.static(x) * x)
CASES["member that is a function"] = lambda x: np.sum(Functions.EXP(x) * x)
CASES["member with a function"] = lambda x: np.sum(Functions.PAIR.parts[1](x) * x)
CASES["value with a function"] = lambda x: np.sum(Functions.PAIR.value[1](x) * x)


class Failure(ValueError):
    def __init__(self, x):
        super().__init__("far off")
        self.x = x

    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def method_of_an_exception(x):
    try:
        raise Failure(x)
    except Failure as error:
        return np.sum(error.w() * x)


class Params(dict):
    def w(self, x):
        return np.array([x[0], self["two"] * x[1], math.exp(x[2])])


class Stack(list):
    def w(self, x):
        return np.array([x[0], self[0] * x[1], math.exp(x[2])])


PARAMS, STACK = Params(two=2.0, w=W), Stack([2.0])
CASES["subclass of dict"] = lambda x: np.sum(PARAMS.w(x) * x)
CASES["entry of a subclass of dict"] = lambda x: np.sum(PARAMS["w"](x) * x)
CASES["subclass of list"] = lambda x: np.sum(STACK.w(x) * x)


class Generator(random.Random):
    def w(self, x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])


CASES["subclass of a library's class"] = lambda x: np.sum(Generator(1).w(x) * x)


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owner, cls=None):
        return lambda x: np.array([x[0], 2 * x[1], math.exp(x[2])])


class Constants:
    w = Descriptor()
    table: typing.ClassVar[list] = [W, np]
    exp = staticmethod(math.exp)
    two = 2.0

    def total(self, x):
        return np.sum(self.table[1].array([x[0], self.two * x[1], self.exp(x[2])]) * x)

    def __getattr__(self, name):
        if name == "lazy":
            return W
        raise AttributeError(name)


CONSTANTS = Constants()
CASES["descriptor"] = lambda x: np.sum(CONSTANTS.w(x) * x)
CASES["constants of a class"] = lambda x: CONSTANTS.total(x)
CASES["missing attribute"] = lambda x: np.sum(CONSTANTS.lazy(x) * x)


pytestmark = pytest.mark.filterwarnings("ignore::numbatape.errors.UnwatchedWarning")  # of eval, globals()


@every("name", CASES)
def test_unmodified(name):
    f = CASES[name]
    want = np.array([2 * X[0], 4 * X[1], np.exp(X[2]) * (1.0 + X[2])])
    for x in (X, X + 1.0):
        want = np.array([2 * x[0], 4 * x[1], np.exp(x[2]) * (1.0 + x[2])])
        value, grad = nt.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        np.testing.assert_allclose(grad, want, rtol=1e-14)


# ---- everything is as it was


def test_nothing_of_a_class_stays_behind():
    classes = (Link, Kind, Functions, Failure, OfMeta, Meta, Registry, Slotted, Child)
    before = {cls: dict(vars(cls)) for cls in classes}
    nt.clear_caches()
    for f in CASES.values():
        nt.grad(f)(X)
    with pytest.raises(ZeroDivisionError):
        nt.grad(lambda x: np.sum(Link.PLAIN.w(x)) * (1 / 0))(X)
    for cls in classes:
        assert dict(vars(cls)) == before[cls]
    assert Meta.made == [OfMeta]
    assert set(Registry.known) == {"Registered"}


def test_what_is_written_to_containers_arrives():
    fs, table = [W], {"w": W}
    space, counts, slotted = types.SimpleNamespace(w=W), Params(w=W), Slotted(W)

    def f(x):
        fs.append("more")
        table["new"] = table.pop("w")
        space.seen = True
        counts["calls"] = counts.get("calls", 0) + 1
        slotted.calls += 1
        return np.sum(fs[0](x) * table["new"](x) * space.w(x) * counts["w"](x) * slotted.w(x))

    nt.grad(f)(X)
    assert fs == [W, "more"]
    assert table == {"new": W}
    assert space == types.SimpleNamespace(w=W, seen=True)
    assert counts == {"w": W, "calls": 1}
    assert slotted.calls == 1
    assert slotted.w is W


def test_members_are_lent_to_the_thread_that_traces_alone():
    inside, outside = threading.Event(), threading.Event()
    seen = []

    def f(x):
        inside.set()
        assert outside.wait(60)
        return np.sum(Link.PLAIN.w(x) * x)

    def look():
        assert inside.wait(60)
        try:
            seen.append((Link.static, Link.PLAIN.w(X).tolist()))
        finally:
            outside.set()

    own = Link.static
    other = threading.Thread(target=look)
    other.start()
    grad = nt.grad(f)(X)
    other.join()
    assert seen == [(own, W(X).tolist())]
    assert Link.static is own
    np.testing.assert_allclose(grad, nt.grad(lambda x: np.sum(W(x) * x))(X))


def test_classes_derived_inside():
    """A class that the function derives from one of the user's is a class of its own."""

    def f(x):
        class Own(Slotted):
            pass

        class OwnMeta(type):
            pass

        a, b = Slotted(W), Own(W)
        kinds = {Slotted: 1.0, Own: 2.0}
        assert isinstance(b, Slotted) and not isinstance(a, Own)
        assert type(b) is Own and type(a) is Slotted and kinds[type(a)] == 1.0
        assert type(OwnMeta("K", (), {})) is OwnMeta and type(Own) is type
        return a.total(x) * kinds[type(b)] / 2.0

    np.testing.assert_allclose(nt.grad(f)(X), nt.grad(lambda x: np.sum(W(x) * x))(X))


def test_tables_by_class():
    table = {Slotted: "slotted", float: "float", np.ndarray: "array"}
    seen = []

    def f(x):
        seen.append([table.get(type(v)) for v in (Slotted(W), SLOTTED, x, x.shape[0] * 1.0)])
        return SLOTTED.total(x)

    nt.grad(f)(X)
    assert seen[0] == ["slotted", "slotted", "array", "float"]


def test_static_arguments_are_reached():
    f = nt.grad(lambda x, model: np.sum(model.w(x) * x))
    want = nt.grad(lambda x: np.sum(W(x) * x))(X)
    for static in (SLOTTED, CHILD, Link.PLAIN, NAMED, Backend(np)):
        np.testing.assert_allclose(f(X, nt.Static(static)), want)
    np.testing.assert_allclose(nt.grad(with_xp, argnums=1)(nt.Static(np), X), want)
    np.testing.assert_allclose(nt.grad(lambda x, w: np.sum(w(x) * x))(X, W), want)
