"""Attributes that no code of the traced function reads may change between calls without a trace."""

import copy
import dataclasses
import functools
import operator
import pathlib
import sys
import types

import numpy as np
import pytest
from scipy.integrate import quad

import numbatape as nt

W = np.array([0.1, 0.2])
HISTORY: list = []


class Base:
    """A model as practitioners write it: what it has besides ``C`` and ``parts`` is notes of its fit."""

    def __init__(self):
        self.C, self.n, self.best, self.flag = 0.5, 0, None, False
        self.history, self.parts, self.table = [], [1.0, 2.0], {"a": 1.5}
        self.inner = types.SimpleNamespace(scale=2.0)
        self.scratch = np.zeros(2)
        self.calls, self.last, self.values = 0, None, []

    def loss(self, w):
        return self.C * np.sum(w**2)

    def counting(self, w):
        self.calls += 1
        self.last = w * self.C
        self.values.append(self.C)
        return self.loss(w)

    def note(self, w, value):
        self.history.append(w.copy())
        self.n += 1
        self.w_, self.best = w, value
        self.scratch[:] = w * value


def estimators():
    """Return a module among the installed packages, with a base for classes like that of scikit-learn."""
    module = types.ModuleType("estimators_like_library")
    module.__file__ = str(pathlib.Path(np.__file__).parents[1] / f"{module.__name__}.py")
    sys.modules[module.__name__] = module
    text = """
class Request:
    def __get__(self, owner, cls=None):
        return lambda: owner.n

class Estimator:
    def __init_subclass__(cls):
        cls.request = Request()

    def get_params(self):
        return {name: getattr(self, name) for name in ("C", "n")}

    def __repr__(self):
        return f"{self.n}"

    def __getstate__(self):
        return self.__dict__.copy()

class Sized(Estimator):
    def __len__(self):
        return self.n + 1
"""
    exec(text, vars(module))
    return module


LIBRARY = estimators()


def variant(loss, *bases, **members):
    """Return an object of a class like `Base` with another loss."""
    return type("Model", (Base, *bases), {"__module__": __name__, "loss": loss} | members)()


def agrees(cache, f, w=W):
    """Assert that a kept cache gives what a fresh trace does."""
    value, (gradient,) = nt.value_and_gradient(cache, w)
    fresh, (other,) = nt.value_and_gradient(nt.prepare_gradient_cache(f, w), w)
    assert value == fresh == f(w)
    np.testing.assert_array_equal(gradient, other)


@pytest.mark.parametrize("bases", [(), (LIBRARY.Estimator,)], ids=["plain", "of a library"])
def test_a_callback_that_keeps_a_history_costs_no_traces(bases):
    model = variant(Base.loss, *bases)
    cache = nt.prepare_gradient_cache(model.loss, W)
    for k in range(5):
        agrees(cache, model.loss)
        model.note(W, float(k))
        model.history = [*model.history, k]
        del model.history[0]
    assert cache._program.traces == 1
    model.C = 0.7  # this is read
    agrees(cache, model.loss)
    model.note(W, 9.0)
    agrees(cache, model.loss)
    assert cache._program.traces == 2


@pytest.mark.parametrize("name", ["__repr__", "__getstate__", "get_params"])
def test_methods_that_show_all_attributes_do_not_make_a_function_unwatched(name):
    """They ask `vars` for those of an object, which calls compare: no warning, and no trace in each call."""
    model = variant(Base.loss, **{name: lambda self: str(vars(self))})
    cache = nt.prepare_gradient_cache(model.loss, W)
    for C in (0.5, 0.7):
        model.C = C
        for _ in range(3):
            agrees(cache, model.loss)
    assert cache._program.traces == 2


def test_a_method_that_counts_its_calls_keeps_its_trace_beside_a_history():
    model = Base()
    cache, n = nt.prepare_gradient_cache(model.counting, W), model.calls
    for k in range(6):
        w = W + k
        value, (gradient,) = nt.value_and_gradient(cache, w)
        assert (value, model.calls, len(model.values)) == (model.C * np.sum(w**2), n + k + 1, n + k + 1)
        np.testing.assert_array_equal(gradient, 2 * model.C * w)
        np.testing.assert_array_equal(model.last, w * model.C)
        model.note(w, float(k))
        if k == 3:
            model.C = 0.7  # this is read
    assert cache._program.traces == 2
    model.calls, model.last, model.values = 0, None, []
    nt.value_and_gradient(cache, W)
    assert (model.calls, len(model.values)) == (1, 1)
    np.testing.assert_array_equal(model.last, W * model.C)


def test_arguments_and_the_object_of_a_closure_that_stores_its_cache():
    model = Base()
    model.prepared = nt.prepare_gradient_cache(lambda w: model.loss(w) + np.sum(w), W)
    for k in range(4):
        agrees(model.prepared, lambda w: model.loss(w) + np.sum(w))
        model.note(W, float(k))
    assert model.prepared._program.traces == 1


READERS = {
    "branch": lambda self, w: np.sum(w) * (self.n if w[0] > 0.5 else 2.0),
    "helper": lambda self, w: np.sum(w) * helped(self),
    "getattr": lambda self, w: np.sum(w) * getattr(self, "".join("n")),
    "vars": lambda self, w: np.sum(w) * vars(self)["n"],
    "dictionary": lambda self, w: np.sum(w) * self.__dict__["n"],
    "copy": lambda self, w: np.sum(w) * copy.copy(self).n,
    "attrgetter": lambda self, w: np.sum(w) * operator.attrgetter("n")(self),
    "computed attrgetter": lambda self, w: np.sum(w) * (GET(self)),
    "partial": lambda self, w: np.sum(w) * READ_N(self),
    "format": lambda self, w: np.sum(w) * float("{.n}".format(self)),  # noqa: UP032
    "hasattr": lambda self, w: np.sum(w) * (3.0 if hasattr(self, "w_"[:2]) else 2.0),
    "default": lambda self, w: np.sum(w) * (3.0 if getattr(self, "w_", None) is None else 2.0),
    "number of attributes": lambda self, w: np.sum(w) * len(vars(self)),
    "length": lambda self, w: np.sum(w) * len(self.history),
    "alias": lambda self, w: np.sum(w) * (1 + len(HISTORY)),
    "property": lambda self, w: np.sum(w) * self.counted,
    "special": lambda self, w: np.sum(w) * len(self),
    "integrand": lambda self, w: quad(lambda t: t * self.n * w[0], 0.0, 1.0)[0],
    "alias of a builtin": lambda self, w: np.sum(w) * (3.0 if HAS(self, "w" + "_") else 2.0),
    "method of a text": lambda self, w: np.sum(w) * float(SHOW(self)),
    "sub-tape": lambda self, w: nt.function(lambda v: np.sum(v) * self.n)(w),
    "gradient": lambda self, w: np.sum(nt.grad(lambda v: np.sum(v**2) * self.n)(w)),
    "rebuilt": lambda self, w: np.sum(w) * type(self).read(self),
    "exec": lambda self, w: np.sum(w) * eval("self.n", {"self": self}),
    "match": lambda self, w: np.sum(w) * matched(self),
    "caught": lambda self, w: np.sum(w) * tried(self),
    "hook": lambda self, w: np.sum(w) * self.anything,
}
OF_BASES = {
    "method of the base": lambda self, w: np.sum(w) * self.get_params()["n"],
    "text by the base": lambda self, w: np.sum(w) * float(f"{self}"),
    "text by the base and a name": lambda self, w: np.sum(w) * float(str(self)),
    "text by the base and an operator": lambda self, w: np.sum(w) * float("%s" % self),  # noqa: UP031
    "descriptor of the base": lambda self, w: np.sum(w) * self.request(),
    "operator of the base": lambda self, w: np.sum(w) * (3.0 if self else 2.0),
    "function of the base's library": lambda self, w: np.sum(w) * LIBRARY.Estimator.get_params(self)["n"],
}
READERS |= OF_BASES
GET, READ_N = operator.attrgetter("n"), functools.partial(lambda key, model: getattr(model, key), "n")
HAS, SHOW = hasattr, "{.n}".format


def helped(model):
    return model.n + 1


def matched(model):
    match model:
        case Base(n=0):
            return 2.0
        case Base(n=n):
            return 3.0 * n


def tried(model):
    try:
        return float(model.w_[0])
    except AttributeError:
        return 7.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["loss", "counting"])
@pytest.mark.parametrize("name", READERS)
def test_attributes_that_are_read_in_any_way_are_compared(name, method):
    members = {
        "counted": property(lambda self: self.n + 1),
        "read": lambda self: self.n,
    } | ({} if name in OF_BASES else {"__len__": lambda self: 1 + self.n})
    if name == "hook":
        members["__getattr__"] = lambda self, key: self.n if key == "anything" else object.__getattr__
    base = LIBRARY.Sized if name == "operator of the base" else LIBRARY.Estimator
    model = variant(READERS[name], *((base,) if name in OF_BASES or method == "loss" else ()), **members)
    if name == "alias":
        model.history = HISTORY
    loss = getattr(model, method)
    cache = nt.prepare_gradient_cache(loss, W)
    for k in range(3):
        for w in (W, W + 1.0):
            agrees(cache, loss, w)
        model.note(W, 1.0 + k)


@dataclasses.dataclass
class Record:
    C: float = 0.5
    n: int = 0

    def loss(self, w):
        return np.sum(w) * sum(dataclasses.asdict(self).values())


class Shadowed(Base):
    scale = 2.0

    def loss(self, w):
        return self.scale * np.sum(w)


def change_entry(model):
    model.table["a"] += 1


CHANGES = {
    "a class's attribute is shadowed": (Shadowed(), lambda m: setattr(m, "scale", 3.0 + m.n)),
    "a class's attribute is assigned": (Shadowed(), lambda m: setattr(Shadowed, "scale", 4.0 + m.n)),
    "the fields of a dataclass": (Record(), lambda m: setattr(m, "n", m.n + 1)),
    "an entry": (variant(lambda self, w: self.table["a"] * np.sum(w)), change_entry),
    "a member": (variant(lambda self, w: sum(self.parts) * np.sum(w)), lambda m: m.parts.append(1.0)),
    "a nested object": (
        variant(lambda self, w: self.inner.scale * np.sum(w)),
        lambda m: setattr(m.inner, "scale", m.inner.scale + 1),
    ),
    "an array": (
        variant(lambda self, w: np.sum(self.scratch * w)),
        lambda m: m.scratch.__iadd__(1.0),
    ),
    "a method": (Base(), lambda m: setattr(Base, "loss", lambda self, w, n=m.n: np.sum(w) * (n + 1))),
    "a deleted attribute": (variant(lambda self, w: tried(self) * np.sum(w)), lambda m: vars(m).pop("w_", 0)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_what_is_read_are_followed(name, monkeypatch):
    monkeypatch.setattr(Base, "loss", Base.loss)
    model, change = CHANGES[name]
    cache = nt.prepare_gradient_cache(lambda w: model.loss(w), W)
    for k in range(3):
        agrees(cache, lambda w: model.loss(w))
        if isinstance(model, Base):
            model.note(W, 1.0 + k)
            agrees(cache, lambda w: model.loss(w))
        change(model)
        agrees(cache, lambda w: model.loss(w))


def read_n(model):
    return float(model.n)


def read_nothing(model):
    return 3.0


def test_a_later_static_argument_may_read_what_earlier_ones_do_not():
    model = Base()

    def f(w, reads):
        return reads(model) * np.sum(w)

    for k in range(6):
        reads = (read_nothing, read_n, read_nothing)[k % 3]
        np.testing.assert_array_equal(nt.grad(f)(W, nt.Static(reads)), reads(model) * np.ones(2))
        model.note(W, 1.0)


def test_classes_of_another_process_s_main_program_are_the_users(monkeypatch):
    """Workers of joblib unpickle them; their own main program is a file of joblib's."""
    monkeypatch.setitem(sys.modules, "__main__", LIBRARY)
    model = variant(Base.loss, LIBRARY.Estimator, __module__="__main__")
    cache = nt.prepare_gradient_cache(model.loss, W)
    for k in range(3):
        agrees(cache, model.loss)
        model.note(W, float(k))
    assert cache._program.traces == 1
