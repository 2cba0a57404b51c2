"""Side effects of functions in many calls: the same history as plain NumPy leaves.

A program is the text of a class or of a function with its state. It runs with plain NumPy and through a verb,
with the same arguments and the same changes from outside between the calls.
"""

import array as std_array
import collections
import contextvars
import copy
import dataclasses
import functools
import io
import itertools
import os
import textwrap
import types
import warnings
import weakref

import numpy as np
import pandas
import pytest
import scipy.sparse.linalg

import numbatape as nt
from numbatape.programs import program

HEAD = """
    class Part:
        calls = 7
    class Model:
        scale = 2.0
        def __init__(self):
            self.history, self.log, self.last, self.names = [], {"loss": 0.0, "n": 1}, None, ["a"]
            self.calls, self.marks, self.weight, self.other = 0, [1, 2], 0.5, Part()
        def __call__(self, x):
            loss = np.sum(x**2) * self.scale
            BODY
            return loss
        def report(self):
            return np.mean(self.history), self.last
        def start(self, x):
            self.last = x
        def step(self):
            self.last = np.tanh(self.last) * self.weight
        def of_weight(self, y):
            return y * self.weight
    f = model = Model()
    weighted = nt.function(model.of_weight)
    held, weak = functools.partial(model.of_weight), weakref.ref(model)
    operator = scipy.sparse.linalg.LinearOperator((1, 1), model.of_weight, dtype=float)
    def inverse(n):
        try:
            return 1 / n
        except ZeroDivisionError:
            return 2.0
    def put(owner, value):
        owner.last = value
    def weigh(owner, value):
        owner.weight = value
"""

# What a call repeats without a trace: the code that runs only writes there.
REPEATED = {
    "append": "self.history.append(loss)",
    "extend": "self.history.extend([loss, x[0]])",
    "attribute": "self.last = x * 2",
    "new attribute": "self.newest = x[::-1]",
    "item": "self.log['loss'] = loss",
    "new item": "self.log['least'] = np.min(x)",
    "containers": "self.history.append((loss, {'x': x, 'parts': [x[0], 'text', 3]}, None, self.names))",
    "several": "self.history.append(loss); self.last = x; self.log['loss'] = x > 1.0",
    "twice": "self.history.append(loss); self.history.append(loss)",
    "helper": "self.keep = x",
    "loop": "for v in x: self.history.append(v)",
    "constants": "self.history.append('step'); self.last = loss",
    "in a branch": "self.history.append(loss) if x[0] > 1.0 else None",
    "counter": "self.calls += 1",
    "counter in words": "self.calls = self.calls + 1",
    "counter in a dictionary": "self.log['n'] += 1; self.log['loss'] = loss",
    "counter in a list": "self.marks[1] -= 2",
    "counter in a loop": "for v in x: self.calls += 1",
    "counter in a branch": "if x[0] > 1.0: self.calls += 1",
    "two counters": "self.calls += 1; self.log['n'] += 2; self.history.append(loss)",
    "other kinds of numbers": "self.history.append((x.astype(np.float32), np.floor(loss), x > 0))",
}
# What a call repeats, although it is read: each call assigns it before.
ASSIGNED_FIRST = {
    "state in a loop": "self.last = x; [put(self, np.tanh(self.last)) for _ in x]; loss += self.last[0]",
    "state of methods": "self.start(x); self.step(); self.step(); loss = loss + np.sum(self.last)",
    "an array that is filled": "self.last = np.zeros(3); self.last[0] = x[0]; self.last[1:] += self.last[0]",
    "a plain array": "self.last = np.eye(2); loss += np.sum(self.last @ x[:2]); self.weight = self.last.size",
    "a list that is made": "self.last = []; self.last.append(x[0]); loss += self.last[-1]",
    "a dictionary that is made": "self.last = {'a': x[0]}; self.last['b'] = self.last['a'] * loss",
    "a size": "self.last = x.size; self.weight = len(x) + 1; loss = loss * self.last + self.weight",
    "a number that counts again": "self.weight = 0; self.weight += 1; self.weight *= 3; loss *= self.weight",
    "an attribute of a part": "self.other.calls = x[0] * 2; loss = loss * self.other.calls",
    "in both branches": "self.last = x[0] if x[0] > 1.0 else x[1]; loss = loss + self.last",
    "a copy of an array": "self.last = x.copy(); self.last[0] = loss; loss = loss + np.sum(self.last)",
    "one array by two names": "self.last = x * 2; self.newest = self.last; loss = loss + self.newest[0]",
    "an array and views": "self.last = x; self.newest = self.last[1:][::-1]; self.keep = x[:2]; "
    "loss = loss + self.newest[0]",
    "views that are apart": "self.last = x[:1]; self.newest = x[1:]; loss = loss + self.last[0]",
    "another attribute is counted": "self.last = x; self.calls += 1; loss = loss + np.sum(self.last)",
}
# What it repeats once it has changed twice, when it is an input of the tape and an output.
STATE = {
    "state of the last call": "loss += 0.0 if self.last is None else np.sum(self.last); self.last = x",
    "momentum": "self.weight = 0.9 * self.weight + 0.1 * x[:3]; loss = loss + np.sum(self.weight ** 2)",
    "attribute that counts and is read": "self.calls += 1; loss = loss * self.calls",
    "counter of numbers": "self.weight += 0.1",
    "counter of another object": "self.calls = self.other.calls + 1; self.other.calls += 3",
    "counter whose step varies": "self.calls += 10 if x[0] > 1.0 else 1",
    "an array that grows": "self.weight = np.append(self.weight, x[0])[-4:]; loss += np.sum(self.weight)",
    "greatest so far": "self.weight = max(self.weight, x[0]); loss = loss * self.weight",
    "two that take turns": "self.weight, self.last = self.weight * 0.5, self.weight; loss *= self.last",
    "options": "self.last = not self.last; loss = loss * (2.0 if self.last else 1.0)",
    "read by a partial": "loss = loss + held(x[0]); self.weight = x[0]; loss = loss * self.weight",
    "kept as well": "self.history.append(self.weight); self.weight = self.weight * 0.5; loss *= self.weight",
    "counted as well": "self.marks[1] += 1; self.calls += 2; self.weight += x[0]; loss *= self.weight",
    "replaced": "self.history = [*self.history[-1:], loss]",
    "every third": "self.calls += 1; self.weight *= 1.0 if self.calls % 3 else 0.5; loss *= self.weight",
    "deleted and made": "w = self.weight; del self.weight; self.weight = w * 1.5; loss = loss * w",
    "item that counts and is read": "self.log['n'] += 1; loss = loss * self.log['n']",
    "item that is read": "loss = loss + self.log['loss'] * 0.1; self.log['loss'] = np.sum(x)",
    "items that take turns": "a, b = self.marks; self.marks[0] = b; self.marks[1] = a + 1; loss = loss * a",
    "items by another name": "log = self.log; log.update(n=log['n'] + 1); loss = loss * self.log['n']",
    "an error that is caught": "self.calls += 1; loss = loss * inverse(self.calls % 3)",
}
# What it cannot repeat: something is read, or may be.
NOT_REPEATED = {
    "length": "self.history.append(loss); loss = loss + len(self.history)",
    "last entry": "self.history.append(loss); loss = loss + 0.5 * self.history[-1]",
    "entry before": "loss = loss + (0.0 if self.last is None else self.last); self.last = np.sum(x)",
    "another name": "h = self.history; h.append(loss)",
    "a method that reads": "self.history.append(loss); self.last = x[0]; loss = loss + self.report()[1]",
    "getattr": "self.last = x[0]; loss = loss + getattr(self, 'la' + 'st')",
    "vars": "self.last = x[0]; loss = loss + vars(self)['last']",
    "text": "self.last = x[0]; names = ('last',); loss = loss + self.__dict__[names[0]]",
    "read in a branch": "self.last = x[1] if x[0] > 1.0 else 0.0 if self.last is None else self.last; "
    "loss = loss + self.last",
    "assigned on one path": "weigh(self, x[0]) if x[0] > 0.5 else None; loss = loss * self.weight",
    "assigned twice on one path": "weigh(self, x[0]) if x[0] > 0.5 else None; loss *= self.weight; "
    "weigh(self, x[1]) if x[0] > 0.5 else None",
    "read by a solver": "loss = loss + nt.root(lambda y: y - self.weight, 1.0); self.weight = x[0]",
    "read by a sub-tape": "loss = loss + weighted(x[0]); self.weight = x[0]; loss = loss * self.weight",
    "read by a weak reference": "loss = loss + weak().weight; self.weight = x[0]; loss *= self.weight",
    "read by an object of a library": "loss = loss + np.sum(operator @ x[:1]); self.weight = x[0]; "
    "loss = loss * self.weight",
    "a view and its array": "self.last = x[1:]; self.newest = x; loss = loss + self.newest[0]",
    "copy": "self.last = x[0]; loss = loss + copy.copy(self).report.__self__.__dict__['last']",
    "in place": "self.history += [loss]",
    "a size": "self.history.append(x.size)",
    "insert": "self.history.insert(0, loss)",
    "pop": "self.history.append(loss); self.history.append(loss); loss = loss + self.history.pop()",
    "counter that is set": "self.calls = 3; self.calls += 1",
    "counter that starts again": "self.calls += 1; self.__init__()",
    "counter with two indices": "self.marks[-1] = 5; self.marks[1] += 1",
    "doubled": "self.calls *= 2",
    "step that varies": "self.calls += len(self.names); self.names.append('b')",
    "list that grows": "self.marks[1] += 1; self.marks.append(loss)",
    "items beside keys": "loss = loss * [1.0, 2.0, 3.0][self.calls % 3]; self.calls += 1; self.calls += 1; "
    "self.log[self.calls] = loss; self.log['n'] += 1; loss = loss * 0.9 ** self.log['n']",
    "key that changes": "self.names.append('b'); self.log[len(self.names)] = loss",
    "deleted": "self.last = x; del self.last; self.last = loss",
}
GLOBALS = """
## global list
hist = []
def f(x):
    hist.append(np.sum(x))
    return np.sum(x**2)
## global dictionary
log = {}
def f(x):
    log['x'] = x
    return np.sum(x**2)
## global name
last = None
def f(x):
    global last
    last = x
    return np.sum(x**2)
## global counter
last = 0
def f(x):
    global last
    last += 1
    return np.sum(x**2)
## global counter that is read
last = 0
def f(x):
    global last
    last += 1
    return np.sum(x**2) * (last % 3)
## global counter that a helper reads
last = 0
def scale():
    return last % 3
def f(x):
    global last
    last += 1
    return np.sum(x**2) * scale()
## counter of a closure
def make():
    last = 0
    def f(x):
        nonlocal last
        last += 1
        return np.sum(x**2)
    return f, lambda: last
f, read = make()
## counter of a closure that is read
def make():
    last = 0
    def f(x):
        nonlocal last
        last += 1
        return np.sum(x**2) * (1 + last % 2)
    return f, lambda: last
f, read = make()
## attribute of the function that counts
def f(x):
    f.calls += 1
    return np.sum(x**2)
f.calls = 0
## counter that starts again by way of a variable
class M:
    def __init__(self):
        self.calls = 0
    def __call__(self, x):
        start(self)
        self.calls += 1
        return np.sum(x**2)
start = M.__init__
f = model = M()
## counter of an object that is made once
only = None
class M:
    def __new__(cls):
        return object.__new__(cls) if only is None else only
    def __init__(self):
        self.calls = 0
    def __call__(self, x):
        M()
        self.calls += 1
        return np.sum(x**2)
f = model = only = M()
## closure
def make():
    hist = []
    def f(x):
        def keep(v):
            hist.append(v)
        keep(np.sum(x))
        return np.sum(x**2)
    return f, hist
f, hist = make()
## dictionary of a closure that is read
def make():
    last = {"n": 0, "w": 0.5, "old": None}
    def f(x):
        last["n"] += 1
        if last["n"] % 3 == 0:
            last["w"] *= 0.5
        return np.sum(x**2) * last["w"]
    return f, lambda: last
f, read = make()
## fields of a dataclass
@dataclasses.dataclass
class S:
    n: int = 0
    total: float = 0.0
last = S()
def f(x):
    last.n += 1
    last.total += np.sum(x)
    return np.sum(x**2) * last.n
## attributes of a namespace
last = types.SimpleNamespace(n=0, w=0.5)
def f(x):
    last.n += 1
    last.w = 0.9 * last.w + 0.1 * x[0]
    return np.sum(x**2) * last.n + last.w
## dictionary in a tuple
parts = ({"n": 0}, 1)
def f(x):
    parts[0]["n"] += 1
    return np.sum(x**2) * parts[0]["n"]
## keys in another order
last = {"n": 0, "m": 1}
def f(x):
    n = last.pop("n")
    last["n"] = n + 1
    return np.sum(x**2) * n
## closure that is read
def make():
    hist = []
    def f(x):
        hist.append(np.sum(x))
        return np.sum(x**2) + sum(hist)
    return f, hist
f, hist = make()
## two names
hist = []
same = hist
def f(x):
    hist.append(np.sum(x))
    return np.sum(x) + len(same)
## bound method
hist = []
keep = hist.append
def f(x):
    keep(np.sum(x))
    return np.sum(x**2)
## in a container
parts = ([], 1)
def f(x):
    parts[0].append(np.sum(x))
    return np.sum(x**2)
## default
def f(x, hist=[]):
    hist.append(np.sum(x))
    return np.sum(x**2) + len(hist)
## dataclass
@dataclasses.dataclass
class M:
    last: object = None
    def __call__(self, x):
        self.last = x[0]
        return np.sum(x**2) + (1.0 if self == M(x[0]) else 0.0)
f = model = M()
## deque without end
hist = collections.deque()
def f(x):
    hist.append(np.sum(x))
    hist.extend([x[0], 1.0])
    return np.sum(x**2)
## Counter
last = collections.Counter()
def f(x):
    last["calls"] += 1
    return np.sum(x**2)
## dictionary with a default
last = collections.defaultdict(int)
def f(x):
    last["far" if x[0] > 1.0 else "near"] += 1
    last["loss"] = np.sum(x)
    return np.sum(x**2)
## deque that is read
hist = collections.deque(maxlen=3)
def f(x):
    hist.append(np.sum(x))
    return np.sum(x**2) * len(hist)
## deque
hist = collections.deque(maxlen=2)
def f(x):
    hist.append(np.sum(x))
    return np.sum(x**2)
## property
class M:
    @property
    def best(self):
        return self.kept
    def __call__(self, x):
        self.kept = x[0]
        return np.sum(x**2) + self.best
f = model = M()
## set by a hook
class M:
    def __setattr__(self, name, value):
        object.__setattr__(self, name + '_', value)
    def __call__(self, x):
        self.kept = x[0]
        return np.sum(x**2) + self.kept_
f = model = M()
"""
CLASSES = {
    name: textwrap.dedent(HEAD).replace("BODY", body)
    for name, body in (REPEATED | ASSIGNED_FIRST | STATE | NOT_REPEATED).items()
}
PROGRAMS = CLASSES | dict(part.strip().split("\n", 1) for part in GLOBALS.split("##")[1:])

BETWEEN = {
    2: "model.history.clear()",
    4: "model.history = []",
    5: "model.log = {'loss': 5.0, 'n': 3}",
    6: "model.log.pop('least', None)",
    7: "model.scale = 3.0; model.calls = 100; model.weight = 2.0",
    8: "model.other.calls = 50",
    9: "model.last = np.float64(0.5)",
}


MODULES = []  # functions refer to their scopes alone


def made(text):
    module = types.ModuleType("a_users_module")
    module.__file__ = "/nowhere/a_users_module.py"
    scope = vars(module)
    scope.update(
        np=np,
        nt=nt,
        functools=functools,
        weakref=weakref,
        scipy=scipy,
        copy=copy,
        dataclasses=dataclasses,
        types=types,
        collections=collections,
    )
    MODULES.append(module)
    exec(compile(text, module.__file__, "exec"), scope)
    return scope


def state(scope):
    kept = {k: v for k, v in scope.items() if k in ("hist", "log", "last", "parts")}
    kept |= vars(scope["model"]) if "model" in scope else {}
    kept |= {"other": kept["other"].calls} if "other" in kept else {}
    kept |= {"read": scope["read"]()} if "read" in scope else {}
    return (
        repr(kept)
        + repr(getattr(scope["f"], "calls", None))
        + repr(getattr(scope["f"], "__defaults__", None))
    )


def points():
    rng = np.random.default_rng(0)
    for k in range(12):
        yield k, rng.integers(-2, 4, size=3 + (k == 8)) * 0.5


def verb(f):
    return nt.value_and_grad(f)


def prepared(f):
    cache = nt.prepare_gradient_cache(f, np.ones(3))
    return lambda x: nt.value_and_gradient(cache, x)


def pulled_back(f):
    def run(x):
        value, pullback = nt.vjp(f, x)
        return value, pullback(1.0)

    return run


@pytest.mark.filterwarnings("ignore::numbatape.errors.UnwatchedWarning")
@pytest.mark.parametrize(
    "name, way",
    [
        *((name, verb) for name in PROGRAMS),
        *((name, way) for name in REPEATED for way in (prepared, pulled_back)),
        *((name, prepared) for name in ASSIGNED_FIRST),
        *((name, pulled_back) for name in STATE),
        *((name, prepared) for name in ("counter", "last entry", "set by a hook", "two names")),
    ],
)
def test_the_history_is_that_of_plain_numpy(name, way):
    numpy, traced = made(PROGRAMS[name]), made(PROGRAMS[name])
    if way is prepared:
        numpy["f"](np.ones(3))
    run = way(traced["f"])
    for k, x in points():
        if "model" in numpy and name in CLASSES and k in BETWEEN:
            for scope in (numpy, traced):
                exec(BETWEEN[k], scope)
        found, expected = run(x)[0], numpy["f"](x)
        assert found == expected, (k, found, expected)
        assert state(traced) == state(numpy), k


COUNTERS = (
    *("global counter", "counter of a closure", "attribute of the function that counts"),
    *("deque", "deque without end", "Counter"),
)


@pytest.mark.parametrize("name", [*REPEATED, *ASSIGNED_FIRST, *COUNTERS])
def test_no_trace_for_what_is_repeated(name, monkeypatch):
    traces = []
    trace = program.Program._trace
    monkeypatch.setattr(program.Program, "_trace", lambda *args: traces.append(1) or trace(*args))
    f = made(PROGRAMS[name])["f"]
    run = nt.value_and_grad(f)
    for k in range(5):
        run(np.array([2.0, k, 3.0]))
        run(np.array([0.0, k, 3.0]))
    assert len(traces) <= 4  # two branches; the first call finds out what is written


GLOBAL_STATE = (
    *("global name", "global counter that is read", "global counter that a helper reads"),
    *("counter of a closure that is read", "dictionary of a closure that is read", "dictionary in a tuple"),
    *("fields of a dataclass", "attributes of a namespace"),
)


@pytest.mark.parametrize("name", [*STATE, *GLOBAL_STATE])
def test_no_trace_for_state_that_goes_on(name, monkeypatch):
    traces = []
    trace = program.Program._trace
    monkeypatch.setattr(program.Program, "_trace", lambda *args: traces.append(1) or trace(*args))
    run = nt.value_and_grad(made(PROGRAMS[name])["f"])
    for k in range(24):
        if k == 18:
            traces.clear()
        run(np.array([2.0 + 0.125 * k, k % 3, 3.0]))
    assert not traces


@pytest.mark.parametrize("tell", ["print('three')", "warnings.warn('three')", "pandas.set_option('three')"])
def test_what_a_function_tells_in_some_calls_it_tells_in_later_ones_too(tell, capsys, monkeypatch):
    scope = made(f"""
import pandas, warnings
calls = 0
def f(x):
    global calls
    calls += 1
    if calls % 3 == 0:
        {tell}
    return np.sum(x**2) * calls
""")
    monkeypatch.setattr(pandas, "set_option", print)
    run = nt.grad(scope["f"])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(12):
            run(np.ones(3))
    told = [each for each in found if each.category is UserWarning]
    assert len(told) + capsys.readouterr().out.count("three") == 4


def test_other_derivatives_of_functions_with_state():
    scope, plain = (made(PROGRAMS["attribute that counts and is read"]) for _ in range(2))
    runs = nt.value_and_grad(scope["f"]), nt.hessian(scope["f"]), nt.jvp
    for k in range(8):
        x = np.array([1.0, k, 2.0])
        assert runs[0](x)[0] == plain["f"](x)
        np.testing.assert_allclose(runs[1](x), 4.0 * (plain["f"](x) and plain["f"].calls) * np.eye(3))
        assert runs[2](scope["f"], (x,), (x,))[0] == plain["f"](x)
        assert scope["f"].calls == plain["f"].calls == 3 * k + 3


def test_arrays_that_are_kept_are_the_callers():
    model = made(PROGRAMS["attribute"])["f"]
    g = nt.grad(model)
    kept = []
    for k in range(4):
        g(np.full(3, float(k)))
        kept.append(model.last)
        model.last[0] = -1.0
    np.testing.assert_array_equal(np.stack(kept)[:, 1], 2.0 * np.arange(4.0))


SEVERAL_RUNS = {
    "jacobian": lambda f: nt.jacobian(f, mode="reverse"),
    "value and Jacobian": lambda f: lambda x: nt.value_and_jacobian(f)(x)[1],
    "Hessian": lambda f: nt.hessian(lambda x: np.sum(f(x) ** 2) / 4.0),
    "sparse Jacobian": lambda f: lambda x: nt.sparse_jacobian(f)(x).toarray(),
    "sparse Hessian": lambda f: lambda x: nt.sparse_hessian(lambda x: np.sum(f(x) ** 3) / 6.0)(x).toarray(),
}


@pytest.mark.parametrize("name", SEVERAL_RUNS)
def test_a_call_is_one_run_however_often_the_function_is_traced(name):
    calls = []

    def f(x):
        calls.append(len(calls))
        return x + calls[-1]

    expected = {"Hessian": lambda k: 0.5 * np.eye(3), "sparse Hessian": lambda k: (1.0 + k) * np.eye(3)}
    run = SEVERAL_RUNS[name](f)
    for k in range(3):
        found = run(np.ones(3))
        np.testing.assert_allclose(found, expected.get(name, lambda k: np.eye(3))(k))
        assert calls == list(range(k + 1))


def test_the_jacobian_of_a_cache_is_one_run():
    calls = []

    def f(x):
        calls.append(len(calls))
        return x * calls[-1]

    for prepare in (nt.prepare_pullback_cache, nt.prepare_derivative_cache):
        calls.clear()
        cache = prepare(f, np.ones(2))
        assert calls == [0]
        for k in (1, 2):
            np.testing.assert_array_equal(nt.value_and_jacobian(cache, np.ones(2))[1], k * np.eye(2))
            assert calls == list(range(k + 1))


def counting(name):
    """Return a function that counts its runs in a place of some kind, and returns the count."""

    class Holder:
        n = 0

        def __next__(self):
            self.n += 1
            return self.n

    class Slotted:
        __slots__ = ("n",)

    held, slotted, memory, numbers = Holder(), Slotted(), bytearray(1), iter([*range(1, 99)])
    lines = io.StringIO("".join(f"{k}\n" for k in range(1, 99)))
    array, grown = std_array.array("q", [0]), np.zeros(0)

    def member():
        Holder.n += 1
        return Holder.n

    def new_member():
        Holder.new = getattr(Holder, "new", 0) + 1
        return Holder.new

    def slot():
        slotted.n = getattr(slotted, "n", 0) + 1
        return slotted.n

    def bytes_():
        memory[0] += 1
        return memory[0]

    def words():
        array.append(1)
        return len(array) - 1

    def size():
        grown.resize(len(grown) + 1, refcheck=False)
        return len(grown)

    counts = {
        "member of a class": member,
        "new member of a class": new_member,
        "slot without a value": slot,
        "bytearray": bytes_,
        "array.array": words,
        "size of an array": size,
        "iterator of a user's": lambda: next(held),
        "iterator of Python's": lambda: next(numbers),
        "text": lambda: float(lines.readline()),
    }
    return counts[name]


PLACES = (
    *("member of a class", "new member of a class", "slot without a value", "bytearray", "array.array"),
    *("size of an array", "iterator of a user's", "iterator of Python's", "text"),
)


@pytest.mark.filterwarnings("ignore::numbatape.UnwatchedWarning")
@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_only_finds_sizes_leaves_no_trace(place):
    count = counting(place)
    jacobian = nt.value_and_jacobian(lambda x: x * count(), mode="reverse")
    for k in (1, 2):
        value, slopes = jacobian(np.ones(2))
        np.testing.assert_array_equal(value, [k, k])
        np.testing.assert_array_equal(slopes, k * np.eye(2))


def test_members_of_classes_count_once_in_sparse_jacobians():
    count = counting("member of a class")
    jacobian = nt.sparse_jacobian(lambda x: x * count())
    for k in (1, 2):
        np.testing.assert_array_equal(jacobian(np.ones(2)).toarray(), k * np.eye(2))


def generated():
    yield from itertools.count(1)


def in_a_frame():
    frame = pandas.DataFrame({"n": [0.0]})

    def next_count():
        frame["n"] = frame["n"] + 1
        return frame["n"].iloc[0]

    return next_count


def in_a_context_variable():
    variable = contextvars.ContextVar("count", default=0)

    def next_count():
        variable.set(variable.get() + 1)
        return variable.get()

    return next_count


def in_the_environment():
    os.environ.pop("NUMBATAPE_TEST", None)

    def next_count():
        os.environ["NUMBATAPE_TEST"] = str(int(os.environ.get("NUMBATAPE_TEST", "0")) + 1)
        return int(os.environ["NUMBATAPE_TEST"])

    return next_count


ONCE = {
    "count": lambda: itertools.count(1).__next__,
    "generator": lambda: generated().__next__,
    "frame": in_a_frame,
    "context variable": in_a_context_variable,
    "environment": in_the_environment,
}
# Each gives a function that returns the Jacobian of a function of three numbers.
JACOBIANS = {
    "columns": lambda f: nt.jacobian(f, mode="forward"),
    "rows": lambda f: nt.jacobian(f, mode="reverse"),
    "auto": nt.jacobian,
    "sparse": lambda f: lambda x: nt.sparse_jacobian(f)(x).toarray(),
}


@pytest.mark.filterwarnings("ignore::numbatape.UnwatchedWarning")
@pytest.mark.parametrize("way", JACOBIANS)
@pytest.mark.parametrize("place", ONCE)
def test_a_jacobian_is_one_run_of_what_cannot_be_undone(place, way):
    count = ONCE[place]()
    jacobian = JACOBIANS[way](lambda x: x * count())
    for k in (1, 2):
        np.testing.assert_array_equal(jacobian(np.ones(3)), k * np.eye(3))


@pytest.mark.filterwarnings("ignore::numbatape.UnwatchedWarning")
def test_caches_run_once_a_call_too():
    rule = nt.primitive(np.sin, pullback=lambda ybar, y, x: (ybar * np.cos(x),))

    def prepared(prepare, of=lambda y: y):
        count = ONCE["generator"]()
        return prepare(lambda x: of(rule(x) * count()), np.zeros(30))

    x = np.linspace(0.0, 1.0, 30)
    cache = prepared(nt.prepare_pullback_cache)
    np.testing.assert_allclose(nt.value_and_jacobian(cache, x)[1], 2 * np.diag(np.cos(x)))
    cache = prepared(nt.prepare_derivative_cache, np.sum)
    np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0], 2 * np.cos(x))
    cache = prepared(nt.prepare_hessian_cache, np.sum)
    np.testing.assert_allclose(nt.value_gradient_and_hessian(cache, x)[2], -2 * np.diag(np.sin(x)))
    cache = prepared(nt.prepare_sparse_hessian_cache, np.sum)
    found = nt.value_gradient_and_sparse_hessian(cache, x)
    np.testing.assert_allclose(found[2].toarray(), -2 * np.diag(np.sin(x)))


def test_a_function_that_is_traced_in_each_call_writes_a_file_once_a_call(tmp_path):
    runs = []
    with (tmp_path / "log").open("w") as log:

        def f(x, *, by):
            runs.append(len(runs))
            log.write(f"run {runs[-1]}\n")
            return by * x

        jacobian = nt.jacobian(f, mode="reverse")
        for by in ([2.0, 3.0], [4.0, 5.0]):
            np.testing.assert_array_equal(jacobian(np.ones(2), by=np.array(by)), np.diag(by))
    assert (tmp_path / "log").read_text() == "run 0\nrun 1\n"


ANOTHER_NAME = """
## list
same, parts = [1.0], None
def f(x):
    parts[0].append(1.0)
    return np.sum(x) * len(same)
## dictionary
same, parts = {"a": 1.0}, None
def f(x):
    parts[0]["a"] += 1.0
    return np.sum(x) * same["a"]
"""


@pytest.mark.parametrize("text", ANOTHER_NAME.split("##")[1:], ids=("list", "dictionary"))
def test_a_container_that_is_an_input_is_not_written_to_by_another_name(text):
    scope = made(text.split("\n", 1)[1])
    scope["parts"] = (scope["same"],)
    run = nt.value_and_grad(scope["f"])
    for k in range(8):
        assert run(np.ones(2))[0] == 2.0 * (k + 2)


KEPT_BESIDE = """
## global
last = np.float64(0.0)
def f(x):
    global last
    last = np.sum(x)
    hist.append(last)
    return last**2
read = lambda: last
## closure
def make():
    last = np.float64(0.0)
    def f(x):
        nonlocal last
        last = np.sum(x)
        hist.append(last)
        return last**2
    return f, lambda: last
f, read = make()
## class
class M:
    last = np.float64(0.0)
def f(x):
    M.last = np.sum(x)
    hist.append(M.last)
    return M.last**2
read = lambda: M.last
## slot
class M:
    __slots__ = ("last",)
    def __call__(self, x):
        self.last = np.sum(x)
        hist.append(self.last)
        return self.last**2
f = M()
f.last = np.float64(0.0)
read = lambda: f.last
"""


@pytest.mark.parametrize("text", KEPT_BESIDE.split("##")[1:], ids=lambda text: text.split()[0])
def test_a_number_that_was_there_before_is_kept_nevertheless(text):
    scope = made("hist = []\n" + text.split("\n", 1)[1])
    run = nt.grad(scope["f"])
    for k in (0.0, 0.0, 1.0, 2.0, 2.0, 0.0, 3.0, 4.0):
        run(np.full(2, k))
        assert scope["read"]() == 2 * k


def test_state_after_an_error_is_that_of_plain_numpy():
    text = """
n = 0
def f(x):
    global n
    n += 1
    return x * n if n % 6 == 5 else np.sum(x**2) * n
"""
    plain, traced = made(text), made(text)
    run = nt.grad(traced["f"])
    for _ in range(14):
        if np.ndim(plain["f"](np.ones(2))):
            with pytest.raises(nt.errors.OutputError):
                run(np.ones(2))
        else:
            np.testing.assert_array_equal(run(np.ones(2)), 2.0 * plain["n"])
        assert traced["n"] == plain["n"]
