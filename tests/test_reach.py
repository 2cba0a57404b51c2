"""How far the swap of globals reaches: every way in which users write helpers, unmodified (issue 4)."""

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import functools
import gc
import math
import sys
import threading
import types
import typing
import weakref
from math import log

import numba
import numpy as np
import pytest
from scipy.special import logsumexp

import numbatape as nt
from numbatape.errors import LeakError
from numbatape.stand_ins import rebinding
from numbatape.trace import pytrees
from numbatape.trace.trace import Trace
from tests.every_case import every

X = np.array([0.5, 1.5, 2.0])

MODULE = """
import functools
import math
import numpy as np

def helper(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])

class K:
    def __init__(self, x):
        self.w = np.array([x[0], 2 * x[1], math.exp(x[2])])

    @staticmethod
    def st(x):
        return helper(x)

class O:
    def __call__(self, x):
        return helper(x)

obj = O()
part = functools.partial(lambda s, x: helper(x), 1)
"""


def _module(name):
    """Return a module of the user's, as an import from a file would make it."""
    module = types.ModuleType(name)
    module.__file__ = f"/home/user/{name}.py"
    exec(compile(MODULE, module.__file__, "exec"), vars(module))
    sys.modules[name] = module  # where its classes are looked up
    return module


HELPERS = _module("users_helpers")
HELPERS.sub = _module("users_other_helpers")


def W(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


def want(x):
    return np.sum(W(x) * x)


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class A:
    scale = 2.0

    def __init__(self, x):
        self.w = np.array([x[0], 2 * x[1], math.exp(x[2])])

    def total(self, x):
        return np.sum(self.w * x)


@case
def constructor(x):
    return A(x).total(x)


class P:
    def __init__(self, x):
        self.x = x

    @property
    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def prop(x):
    return np.sum(P(x).w * x)


class S:
    @staticmethod
    def w(x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])

    @classmethod
    def c(cls, x):
        return cls.w(x)


@case
def static(x):
    return np.sum(S.w(x) * x)


@case
def cls_method(x):
    return np.sum(S.c(x) * x)


inst = S()


@case
def static_inst(x):
    return np.sum(inst.w(x) * x)


@case
def cls_inst(x):
    return np.sum(inst.c(x) * x)


@numba.njit
def jw(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def njit_helper(x):
    return np.sum(jw(x) * x)


@dataclasses.dataclass
class D:
    x: object
    w: object = None

    def __post_init__(self):
        self.w = np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def dataclass(x):
    return np.sum(D(x).w * x)


@dataclasses.dataclass(frozen=True)
class DF:
    x: object

    @property
    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def dataclass_frozen(x):
    return np.sum(DF(x).w * x)


class C:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def cached_prop(x):
    c = C(x)
    return np.sum(c.w * x) + 0 * np.sum(c.w)


@functools.lru_cache
def lw(k):
    return np.array([1.0, 2.0, k])


@case
def lru_const(x):
    return np.sum(W(x) * x * lw(1) / np.array([1.0, 2.0, 1.0]))


class H:
    def __init__(self, x):
        self.x = x

    def __eq__(self, o):
        return self is o

    def __hash__(self):
        return 1


@functools.lru_cache
def lwt(h):
    return np.array([h.x[0], 2 * h.x[1], math.exp(h.x[2])])


@case
def lru_traced(x):
    return np.sum(lwt(H(x)) * x)


@functools.cache
def twice(a):
    return a + a


@functools.lru_cache
def power(*, of, times=1):
    return math.exp(of) * times


@functools.lru_cache
def first(h):
    return h.x[0]


@case
def lru_of_traced_numbers(x):
    return x[0] * x[0] + twice(x[1]) * x[1] + power(of=x[2]) * x[2]


@case
def lru_of_traced_pairs(x):
    @functools.cache
    def entry(k, pair):
        return first(H(x)) if k == 0 else pair[0] + pair[0] if k == 1 else math.exp(pair[1])

    @functools.cache
    def total(k):
        return 0.0 if k < 0 else entry(k, (x[1], x[2])) * x[k] + total(k - 1)

    return total(2) + 0.0 * total(1)


def gen(x):
    for k in range(3):
        yield np.array([x[0], 2 * x[1], math.exp(x[2])])[k]


@case
def generator(x):
    return sum(w * y for w, y in zip(gen(x), x, strict=True))


@case
def nested_fn(x):
    def inner(y):
        def inner2(z):
            return np.array([z[0], 2 * z[1], math.exp(z[2])])

        return inner2(y)

    return np.sum(inner(x) * x)


def deco(f):
    @functools.wraps(f)
    def g(*a):
        return f(*a)

    return g


@deco
def dw(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def decorated(x):
    return np.sum(dw(x) * x)


class Deco:
    def __init__(self, f):
        self.f = f
        functools.update_wrapper(self, f)

    def __call__(self, *a):
        return self.f(*a)


@Deco
def cdw(x):
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def class_decorated(x):
    return np.sum(cdw(x) * x)


@case
def mod_helper(x):
    return np.sum(HELPERS.helper(x) * x)


@case
def mod_callable_obj(x):
    return np.sum(HELPERS.obj(x) * x)


@case
def mod_class(x):
    return np.sum(HELPERS.K(x).w * x)


@case
def mod_static(x):
    return np.sum(HELPERS.K.st(x) * x)


@case
def mod_partial(x):
    return np.sum(HELPERS.part(x) * x)


@case
def mod_sub(x):
    return np.sum(HELPERS.sub.helper(x) * x)


class Inner:
    def w(self, x):
        return np.array([x[0], 2 * x[1], math.exp(x[2])])


class Outer:
    def __init__(self):
        self.inner = Inner()
        self.fs = [W]
        self.d = {"w": W}

    def go(self, x):
        return np.sum(self.inner.w(x) * x)


outer = Outer()


@case
def behind(x):
    return np.sum(outer.inner.w(x) * x)


@case
def behind2(x):
    return outer.go(x)


@case
def in_list(x):
    return np.sum(outer.fs[0](x) * x)


table = {"w": W, "l": [W]}


@case
def in_dict(x):
    return np.sum(table["w"](x) * x)


@case
def in_dict2(x):
    return np.sum(table["l"][0](x) * x)


@case
def alias_from(x):
    return np.sum(W(x) * x) + log(x[0]) * 0 + 0 * logsumexp(x)


part = functools.partial(lambda s, x: np.array([x[0], 2 * x[1], math.exp(x[2])]), 1)


@case
def partial(x):
    return np.sum(part(x) * x)


@case
def default_arg(x, w=W):
    return np.sum(w(x) * x)


@case
def mapped(x):
    return sum(map(lambda a, b: a * b, list(W(x)), list(x)))


@case
def local_import(x):
    import numpy as np2

    return np.sum(np2.array([x[0], 2 * x[1], math.exp(x[2])]) * x)


@case
def local_from(x):
    from math import exp

    return np.sum(np.array([x[0], 2 * x[1], exp(x[2])]) * x)


@case
def local_scipy(x):
    from scipy.special import logsumexp as l

    return want(x) + 0 * l(x)


count = 0


@case
def stores_global(x):
    global count
    count = 1
    return np.sum(W(x) * x)


def sg(x):
    global count
    count = 1
    return np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def stores_global2(x):
    return np.sum(sg(x) * x)


class Meth:
    def __init__(self):
        self.a = 2.0

    def __call__(self, x):
        return np.sum(self.w(x) * x)

    def w(self, x):
        return np.array([x[0], self.a * x[1], math.exp(x[2])])


CASES["callable_obj"] = Meth()
CASES["bound"] = Meth().__call__


class Op:
    def __init__(self, x):
        self.x = x

    def __add__(self, o):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])

    def __getitem__(self, k):
        return (self + 0)[k]

    def __len__(self):
        return 3

    def __enter__(self):
        return self + 0

    def __exit__(self, *a):
        return False

    def __iter__(self):
        return iter(self + 0)


@case
def operator(x):
    return np.sum((Op(x) + 1) * x)


@case
def with_stmt(x):
    with Op(x) as w:
        return np.sum(w * x)


class Sub(A):
    def __init__(self, x):
        super().__init__(x)


@case
def subclass(x):
    return Sub(x).total(x)


class NT(typing.NamedTuple):
    x: object

    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def namedtuple(x):
    return np.sum(NT(x).w() * x)


class Sl:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


@case
def slots(x):
    return np.sum(Sl(x).w() * x)


class NewC:
    def __new__(cls, x):
        o = object.__new__(cls)
        o.w = np.array([x[0], 2 * x[1], math.exp(x[2])])
        return o


@case
def new(x):
    return np.sum(NewC(x).w * x)


@case
def isinst(x):
    a = A(x)
    assert isinstance(a, A) and type(a) is A
    return a.total(x)


@contextlib.contextmanager
def cm(x):
    yield np.array([x[0], 2 * x[1], math.exp(x[2])])


@case
def context(x):
    with cm(x) as w:
        return np.sum(w * x)


class Desc:
    def __get__(self, o, t=None):
        return np.array([o.x[0], 2 * o.x[1], math.exp(o.x[2])])


class HasDesc:
    w = Desc()

    def __init__(self, x):
        self.x = x


@case
def descriptor(x):
    return np.sum(HasDesc(x).w * x)


@case
def aux_reduce(x):
    return functools.reduce(lambda a, b: a + b, list(W(x) * x))


class HoldsNp:
    xp = np

    def w(self, x):
        return self.xp.array([x[0], 2 * x[1], math.exp(x[2])])


hn = HoldsNp()


@case
def class_np(x):
    return np.sum(hn.w(x) * x)


class HoldsNp2:
    def __init__(self, xp):
        self.xp = xp

    def w(self, x):
        return self.xp.array([x[0], 2 * x[1], math.exp(x[2])])


hn2 = HoldsNp2(np)


@case
def inst_np(x):
    return np.sum(hn2.w(x) * x)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def w(self): ...

    def total(self, x):
        return np.sum(self.w() * x)


class Concrete(Abstract):
    def __init__(self, x):
        self.x = x

    def w(self):
        return np.array([self.x[0], 2 * self.x[1], math.exp(self.x[2])])


class Doubled:
    def w(self):
        return super().w() * 2.0


class Both(Doubled, Concrete):
    def w(self):
        return super().w() / 2.0

    def again(self):
        return type(self)(self.x)


class Tree:
    def __init__(self, k, x, *children):
        self.k, self.x, self.children = k, x, children

    def total(self):
        own = np.array([self.x[self.k], math.exp(self.x[self.k])])
        weight = [own[0], 2 * own[0], own[1]][self.k] * self.x[self.k]
        return weight + sum(child.total() for child in self.children)


CASES["abstract base"] = lambda x: Concrete(x).total(x)
CASES["is a, and is a kind of"] = lambda x: (
    Concrete(x).total(x) * isinstance(Concrete(x), Abstract) * issubclass(Concrete, Abstract)
)
CASES["super in two bases"] = lambda x: Both(x).again().total(x)
CASES["objects in objects"] = lambda x: Tree(0, x, Tree(1, x), Tree(2, x)).total()
CASES["deep copy"] = lambda x: copy.deepcopy(Concrete(x)).total(x)


def X_only(x):
    return x


class Set(set):
    pass


class FrozenSet(frozenset):
    pass


LONG, TABLE = [X_only] * 150 + [W], {k: X_only for k in range(150)} | {"W": W}
OBJECTS = np.array([[X_only, W]], object)
KEYS = {W: 1.0, X_only: 2.0}
VALUES = {"W": W}.values()
SETS = {"": {W}, "frozen": frozenset([W]), "derived": Set([W]), "derived, frozen": FrozenSet([W])}
for kind in SETS:
    CASES[f"a set {kind}"] = lambda x, kind=kind: np.sum(next(iter(SETS[kind]))(x) * x)
    CASES[f"membership of a set {kind}"] = lambda x, kind=kind: np.sum(W(x) * x) * (W in SETS[kind])
CASES["a long list"] = lambda x: np.sum(LONG[150](x) * x)
CASES["a long table"] = lambda x: np.sum(TABLE["W"](x) * x)
CASES["an array of functions"] = lambda x: np.sum(OBJECTS[0, 1](x) * x)
CASES["keys of a table"] = lambda x: np.sum(next(iter(KEYS))(x) * x)
CASES["a table keyed by functions"] = lambda x: KEYS[W] * np.sum(W(x) * x)
CASES["a view of a table"] = lambda x: np.sum(next(iter(VALUES))(x) * x)


# What an argument's own class defines is reached too.
@dataclasses.dataclass
class Model:
    w: np.ndarray

    def weights(self, x):
        return np.array([self.w[0] * x[0], math.exp(self.w[1] * x[1])])

    def __call__(self, x):
        return np.sum(self.weights(x))


class Pair(typing.NamedTuple):
    a: float

    def both(self):
        return np.array([self.a, math.exp(self.a)])


@every("name", CASES)
def test_unmodified(name):
    want = nt.grad(lambda x: x[0] ** 2 + 2 * x[1] ** 2 + np.exp(x[2]) * x[2])(X)
    f = CASES[name]
    for _ in range(2):
        np.testing.assert_allclose(nt.grad(f)(X), want, rtol=1e-14)
    cache = nt.prepare_gradient_cache(f, X)
    for x in (X, X + 1.0):
        value, (grad,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        assert grad.shape == (3,)


def test_classes_are_themselves_before_and_after():
    before = {cls: dict(vars(cls)) for cls in (A, P, S, C, Model)}
    made = []

    def f(x):
        a = A(x)
        made.append(a)
        assert type(a) is A
        assert isinstance(a, A)
        assert isinstance(outer, Outer)
        return a.total(x), Model(x)

    value, aux = nt.value_and_grad(f, has_aux=True)(X)[0]
    assert type(aux) is Model
    assert all(type(each) is A for each in made)
    assert value == A(X).total(X)
    for cls, members in before.items():
        assert dict(vars(cls)) == members


def test_objects_given_as_arguments():
    m, x = Model(np.array([1.0, 2.0])), np.ones(2)

    def f(m, x):
        assert type(m) is Model
        return m(x) + m.w[0]

    want = np.array([1.0, np.exp(2.0)])
    np.testing.assert_allclose(nt.grad(f)(m, x).w, want + np.array([1.0, 0.0]))
    np.testing.assert_allclose(nt.grad(lambda d: d["m"](x))({"m": m})["m"].w, want)
    np.testing.assert_allclose(nt.grad(lambda p: np.sum(p.both()))(Pair(1.0)).a, 1.0 + np.e)
    cache = nt.prepare_gradient_cache(m, x, include_callable=True)
    np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0].w, want)
    assert type(m) is Model


def test_assignments_to_globals_and_attributes_arrive():
    global count
    count = 0
    nt.clear_caches()
    nt.grad(stores_global)(X)
    assert count == 1

    class Counting:
        def __init__(self):
            self.calls = 0
            self.inner = Inner()

        def __call__(self, x):
            self.calls += 1
            return np.sum(self.inner.w(x) * x)

    f = Counting()
    nt.grad(f)(X)
    assert f.calls > 0
    assert type(f.inner) is Inner


def test_derivatives_inside_of_objects():
    """The gradient of a function of an object that the function makes."""

    def inner(model):
        return np.sum(model.weights(np.ones(2)) ** 2)

    def f(x):
        return np.sum(nt.grad(inner)(Model(x[:2])).w ** 2)

    registered = []
    for _ in range(3):
        nt.clear_caches()
        want = [8.0 * X[0], 16.0 * np.exp(4.0 * X[1]), 0.0]
        np.testing.assert_allclose(nt.grad(lambda x: f(x))(X), want)
        registered.append(len(pytrees._registered))
    assert registered[0] == registered[2]  # what was made for a trace is let go


class Tally:
    calls = 0

    @classmethod
    def count(cls, x):
        cls.calls += 1
        return np.array([x[0], math.exp(x[1])]) * cls.calls


def test_containers_of_functions_are_as_the_function_left_them():
    handlers, used, pool = {W: 0, X_only: 1}, {W}, np.array([W, None], object)

    def f(x):
        handlers[W] += 1
        handlers["last"] = X_only
        used.add(X_only)
        pool[1] = X_only
        return np.sum(W(x) * x)

    nt.grad(f)(X)
    assert handlers == {W: 1, X_only: 1, "last": X_only}
    assert used == {W, X_only}
    assert list(pool) == [W, X_only]


def test_a_classes_own_state_arrives():
    Tally.calls = 0
    cache = nt.prepare_gradient_cache(lambda x: np.sum(Tally.count(x)), X)
    first = Tally.calls
    for k in range(first + 1, first + 4):
        assert nt.value_and_gradient(cache, X)[0] == pytest.approx((X[0] + np.exp(X[1])) * k)
    assert Tally.calls == first + 3


def test_a_users_lru_cache_keeps_no_traced_value():
    for cached in (lwt, twice, power, first):
        cached.cache_clear()
    for f in (lru_traced, lru_of_traced_numbers, lru_of_traced_pairs):
        nt.grad(f)(X)
    assert [cached.cache_info().currsize for cached in (lwt, twice, power, first)] == [0] * 4


def test_what_is_remembered_is_remembered_by_values_and_not_by_numbers():
    """Equal numbers have derivatives of their own; a function that counts its calls runs once for a value."""
    calls = []

    @functools.cache
    def square(a):
        calls.append(1)
        return a * a

    def f(x):
        a, b = x[0], x[1]
        return 3.0 * square(a) + square(b) + square(a) + square(2.0)

    value, gradient = nt.value_and_grad(f)(np.ones(2))
    assert len(calls) == 3
    assert value == 9.0
    np.testing.assert_array_equal(gradient, [8.0, 2.0])
    with pytest.raises(TypeError, match="unhashable type"):
        nt.grad(lambda x: np.sum(square(x)))(X)


def test_what_is_remembered_keeps_no_trace():
    """A finished trace is freed without the collector."""
    before = {id(kept) for kept in gc.get_objects() if type(kept) is Trace}
    enabled = gc.isenabled()
    gc.disable()
    try:
        nt.grad(lambda x: twice(x[0]) * power(of=x[1]))(X)
        assert not [kept for kept in gc.get_objects() if type(kept) is Trace and id(kept) not in before]
    finally:
        if enabled:
            gc.enable()


def test_other_threads_notice_nothing():
    """They find the originals wherever they look, while a trace runs."""
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def f(x):
        a = A(x)
        inside.set()
        go_on.wait(60.0)
        return a.total(x) + HELPERS.K(x).w[0]

    thread = threading.Thread(target=lambda: seen.append(nt.grad(f)(X)))
    thread.start()
    assert inside.wait(60.0)
    try:
        assert type(A(X).w) is np.ndarray
        assert type(HELPERS.K(X).w) is np.ndarray
        assert HELPERS.np is np
        assert f.__globals__["A"] is A
    finally:
        go_on.set()
        thread.join()
    assert seen[0].shape == (3,)


POOL = weakref.WeakValueDictionary({0: W})  # what an object of a library holds is not reached


def test_what_is_not_reached_names_line_and_fix():
    with pytest.raises(
        LeakError,
        match=r"test_reach.py:\d+ in W .*would drop .* reach it through POOL\[0\] .* use np.log\(x\)",
    ):
        nt.grad(lambda x: np.sum(POOL[0](x) * x))(X)


def test_each_helper_is_copied_once_and_cheaply():
    source = "".join(f"def h{k}(x): return np.array([x[0] * {k}.0, math.exp(x[1])])\n" for k in range(10))
    source += "class K:\n    def __init__(self, x): self.x = np.array([x[0]])\n"
    source += "def f(x): return np.sum(K(x).x) + " + " + ".join(f"np.sum(h{k}(x))" for k in range(10)) + "\n"
    scope = {"np": np, "math": math, "__name__": __name__}
    exec(compile(source, "/home/user/ten.py", "exec"), scope)
    rebinding.rebind(scope["f"])  # what is known of code is found out once
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event in ("call", "c_call") else None)
    try:
        copy = rebinding.rebind(scope["f"])
    finally:
        sys.setprofile(None)
    assert copy is not scope["f"]
    assert len(calls) < 3000
