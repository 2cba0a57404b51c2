"""What a function reads besides its arguments: every change is noticed, or each call is traced."""

import array
import collections
import contextlib
import contextvars
import ctypes
import functools
import gc
import importlib.util
import io
import json
import math
import mmap
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.stats import qmc

import numbatape as nt

X = np.array([1.0, 2.0, 3.0])


def follows(f, change, expected_traces=None):
    """Assert that a prepared cache gives what the function does, before and after a change."""
    cache = nt.prepare_gradient_cache(f, X)
    for _ in range(3):
        np.testing.assert_array_equal(nt.value_and_gradient(cache, X)[0], f(X))
    traces = cache._program.traces
    change()
    for _ in range(3):
        value, (gradient,) = nt.value_and_gradient(cache, X)
        np.testing.assert_array_equal(value, f(X))
        np.testing.assert_allclose(gradient @ X, value, rtol=1e-14)  # all of these are linear
    if expected_traces is not None:
        assert cache._program.traces - traces == expected_traces


# ---- pandas and xarray


def frames():
    pd = pytest.importorskip("pandas")
    plain = {"y": [1.0, 2.0, 3.0], "k": [1, 2, 3], "s": list("abc")}

    class Model:
        def __init__(self):
            self.df = pd.DataFrame(plain)

        def __call__(self, x):
            return np.sum(x * self.df.y.values)

    class Mine(pd.DataFrame):
        pass

    df, mine, model = pd.DataFrame(plain), Mine(plain), Model()
    named = pd.DataFrame(plain, index=list("abc"))
    kinds = pd.DataFrame({"c": pd.Categorical(["a", "b", "a"]), "n": pd.array([1, 2, None], dtype="Int64")})
    series, groups = pd.Series([1.0, 2.0, 3.0], index=list("abc")), df.groupby("s")
    return {
        "a column": (lambda x: np.sum(x * df["y"].values), lambda: df.loc.__setitem__((1, "y"), 10.0)),
        "another": (lambda x: np.sum(x * df["k"].to_numpy()), lambda: df.iloc.__setitem__((0, 1), 7)),
        "a new column": (lambda x: np.sum(x * df["y"].values), lambda: df.__setitem__("y", [4.0, 5.0, 6.0])),
        "the index": (lambda x: np.sum(x * df.index.values), lambda: setattr(df, "index", [3, 1, 2])),
        "an entry": (lambda x: np.sum(x * named.loc["b", "k"]), lambda: named.at.__setitem__(("b", "k"), 9)),
        "text": (
            lambda x: np.sum(x * (named["s"] == "b").values),
            lambda: named.loc.__setitem__(("a", "s"), "b"),
        ),
        "an attribute": (model, lambda: model.df.iloc.__setitem__((0, 0), 7.0)),
        "a subclass": (lambda x: np.sum(x * mine["y"].values), lambda: mine.loc.__setitem__((1, "y"), 10.0)),
        "a series": (lambda x: np.sum(x * series["a"]), lambda: series.__setitem__("a", 9.0)),
        "categories": (
            lambda x: np.sum(x * kinds["c"].cat.codes.values),
            lambda: kinds.loc.__setitem__((0, "c"), "b"),
        ),
        "nullable": (
            lambda x: np.sum(x * kinds["n"].fillna(0).to_numpy(float)),
            lambda: kinds.loc.__setitem__((0, "n"), 5),
        ),
        "groups": (
            lambda x: np.sum(x * groups["y"].sum().iloc[0]),
            lambda: df.loc.__setitem__((0, "y"), 50.0),
        ),
    }


@pytest.mark.parametrize("name", frames())
def test_frames_are_watched_by_content(name):
    f, change = frames()[name]
    follows(f, change, 1)


def test_xarray_is_watched_by_content():
    xr = pytest.importorskip("xarray")
    single = xr.DataArray(X.copy(), dims="t")
    several = xr.Dataset({"a": ("t", X.copy())}, coords={"t": [1, 2, 3]})
    follows(lambda x: np.sum(x * single.values), lambda: single.__setitem__(0, 5.0), 1)
    follows(lambda x: np.sum(x * several["a"].values), lambda: several["a"].__setitem__(0, 5.0), 1)
    follows(lambda x: np.sum(x * several["a"].values), lambda: several.__setitem__("a", ("t", 2 * X)), 1)


def test_neither_is_imported():
    code = "import sys, numpy as np, numbatape as nt; d = {}\n"
    code += "nt.grad(lambda x: np.sum(x * len(d)))(np.ones(2))\n"
    code += "sys.exit(bool({'pandas', 'xarray'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---- buffers, objects, names


class Ends:
    """Something of another library that shows its memory as an array."""

    __slots__ = ("data",)
    __module__ = "numpy.another"

    def __init__(self):
        self.data = X.copy()

    def __array__(self, dtype=None, copy=None):
        return self.data


class Quantity(np.ndarray):
    """An array with a unit, as in astropy: it has no bytes, and its class is a library's."""

    __module__ = "numpy.another"
    unit = 1.0

    def tobytes(self, order="C"):
        raise NotImplementedError

    def in_meters(self):
        return np.asarray(self) * self.unit


def library(name="scipy_like_library", **fields):
    """Return an object of a class whose file is among the installed packages."""
    module = types.ModuleType(name)
    module.__file__ = str(pathlib.Path(np.__file__).parents[1] / f"{name}.py")
    sys.modules[name] = module
    exec("class Inner: pass\nclass Outer: pass", vars(module))
    module.Outer.__module__ = module.Inner.__module__ = name
    outer = module.Outer()
    outer.inner = module.Inner()
    vars(outer.inner).update(fields)
    return outer


def read_only():
    a = X.copy()
    a.flags.writeable = False

    def change():
        a.flags.writeable = True
        a[0] = 9.0
        a.flags.writeable = False

    return lambda x: np.sum(x * a), change


def changed(make):
    """Return ``(f, change)`` of a function that reads the first entry of something."""
    held = make()
    return lambda x: np.sum(x * held[0]), lambda: held.__setitem__(0, 5)


def attribute(owner, name="v", value=5.0):
    return lambda: setattr(owner, name, value)


def of_memory():
    yield "array.array", changed(lambda: array.array("d", X))
    yield "memoryview", changed(lambda: memoryview(bytearray(X.tobytes())).cast("d"))
    yield "bytearray", changed(lambda: bytearray(b"123"))
    yield "a ctypes array", changed(lambda: (ctypes.c_double * 3)(*X))
    number = ctypes.c_double(2.0)
    yield "a ctypes number", (lambda x: np.sum(x * number.value), attribute(number, "value"))
    memory = mmap.mmap(-1, 24)
    memory[:] = X.tobytes()
    yield (
        "mmap",
        (lambda x: np.sum(x * np.frombuffer(memory)), lambda: memory.__setitem__(slice(8), memory[8:16])),
    )
    ends = Ends()
    yield "__array__", (lambda x: np.sum(x * np.asarray(ends)), lambda: ends.data.__setitem__(0, 5.0))
    yield "made writeable", read_only()
    length, width = X.copy().view(Quantity), X.copy().view(Quantity)
    width.unit = 2.0
    yield (
        "a library's arrays",
        (lambda x: np.sum(x * length.in_meters()), lambda: length.__setitem__(0, 5.0)),
    )
    yield "beside an array", (lambda x: np.sum(x * width.in_meters()), attribute(width, "unit"))
    yield "objects, strided", changed(lambda: np.array([1.0, 2.0, 3.0, 4.0], object)[::2])
    yield "transposed", changed(lambda: np.arange(6.0).reshape(2, 3).T[:, 0] + 1.0)


STATE = {"v": 2.0}
VARIABLE = contextvars.ContextVar("VARIABLE", default=2.0)


class Held:
    v = 2.0


class Computed:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return STATE[name]

    def __getitem__(self, key):
        return STATE[key]


class Descriptor:
    def __get__(self, owner, cls):
        return STATE["v"]


class Meta(type):
    v = 2.0

    def read(cls):
        return cls.v


class OfMeta(metaclass=Meta):
    described = Descriptor()


class Table(dict):
    def scaled(self):
        return STATE["v"] * self["key"]


class Series(list):
    v = 2.0

    def scaled(self):
        return self.v * self[0]


@functools.singledispatch
def doubled(x):
    return x


@doubled.register
def _(x: np.ndarray):
    return STATE["v"] * x


def of_objects():
    def state():
        STATE["v"] = 5.0

    computed, of_meta = Computed(), OfMeta()
    yield "__getattr__", (lambda x: np.sum(x * computed.v), state)
    yield "__getitem__", (lambda x: np.sum(x * computed["v"]), state)
    yield "a descriptor", (lambda x: np.sum(x * of_meta.described), state)
    yield "a metaclass", (lambda x: np.sum(x * OfMeta.read()), attribute(Meta))
    get = STATE.get
    yield "a bound method", (lambda x: np.sum(x * get("v")), state)
    values = STATE.values()
    yield "a view of a dictionary", (lambda x: np.sum(x * sum(values)), state)
    held = X.copy()
    total = held.sum
    yield "a method of an array", (lambda x: np.sum(x * total()), lambda: held.__setitem__(0, 5.0))
    target = Held()
    reference, many = weakref.ref(target), weakref.WeakValueDictionary(a=target)
    yield "a weak reference", (lambda x: np.sum(x * reference().v), attribute(target))
    yield "weak values", (lambda x: np.sum(x * many["a"].v), attribute(target, value=7.0))
    gone = Held()
    gone.proxy = weakref.proxy(Held())
    yield "a weak proxy of what is gone", (lambda x: np.sum(x * gone.v), attribute(gone))
    yield "a context variable", (lambda x: np.sum(x * VARIABLE.get()), lambda: VARIABLE.set(5.0))
    local = threading.local()
    local.v = 2.0
    yield "threading.local", (lambda x: np.sum(x * local.v), attribute(local))
    chain = collections.ChainMap({}, STATE)
    yield "a chain of dictionaries", (lambda x: np.sum(x * chain["v"]), state)
    spline = CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    yield "slots of a library", (lambda x: np.sum(x * float(spline(1.5))), lambda: spline.c.__imul__(2.0))
    outer = library(v=2.0)
    yield "deep in a library", (lambda x: np.sum(x * outer.inner.v), attribute(outer.inner))
    table = Table(key=1.0)
    yield "methods of a class derived from dict", (lambda x: np.sum(x * table.scaled()), state)
    series = Series([1.0])
    yield "attributes of one derived from list", (lambda x: np.sum(x * series.scaled()), attribute(series))
    yield "implementations of singledispatch", (lambda x: np.sum(doubled(x)), state)
    counts = [2.0]

    @functools.lru_cache
    def helper():
        return counts[0]

    def forget():
        counts[0] = 5.0
        helper.cache_clear()

    yield "a cached helper", (lambda x: np.sum(x * helper()), forget)


def of_modules(folder):
    path = folder / "users_module_of_e.py"
    path.write_text("V = 2.0\n")
    spec = importlib.util.spec_from_file_location("users_module_of_e", path)
    module = sys.modules["users_module_of_e"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def inside(x):
        import users_module_of_e

        return np.sum(x * users_module_of_e.V)

    def name(x):
        from users_module_of_e import V

        return np.sum(x * V)

    word = "V"
    for f in (inside, name, lambda x: np.sum(x * getattr(module, word))):
        module.V = 2.0
        yield f, attribute(module, "V")
    module.V = 2.0

    def read(namespace):
        return namespace.V

    yield lambda x: np.sum(x * read(module)), attribute(module, "V")
    libs = sys.modules[type(library()).__module__]
    libs.options, libs.number = {"v": 2.0}, 2.0
    yield lambda x: np.sum(x * libs.options["v"]), lambda: libs.options.update(v=5.0)
    yield lambda x: np.sum(x * libs.number), attribute(libs, "number")


@pytest.mark.parametrize("name", dict(of_memory()))
def test_memory_is_watched_by_content(name):
    follows(*dict(of_memory())[name], 1)


@pytest.mark.parametrize("name", dict(of_objects()))
def test_objects_are_watched(name):
    STATE["v"] = Meta.v = 2.0
    VARIABLE.set(2.0)
    follows(*dict(of_objects())[name], 1)


def test_arrows_arrays_are_watched_by_content():
    """pandas keeps columns of text in them where pyarrow is installed. Their memory may be NumPy's."""
    pa = pytest.importorskip("pyarrow")
    numbers = np.array([1.0, 2.0, 3.0])
    held = {"chunks": pa.chunked_array([pa.array(numbers)]), "text": pa.chunked_array([["a", "b"]])}

    def f(x):
        return np.sum(x * held["chunks"].to_numpy()) * len(held["text"])

    cache = nt.prepare_gradient_cache(f, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert nt.value_and_gradient(cache, X)[0] == f(X)
    assert cache.traces == 1
    numbers[1] = 20.0
    assert nt.value_and_gradient(cache, X)[0] == f(X)
    held["text"] = pa.chunked_array([["a", "b"], ["c"]])
    assert nt.value_and_gradient(cache, X)[0] == f(X)


def test_modules_are_watched(tmp_path):
    for f, change in of_modules(tmp_path):
        follows(f, change, 1)


def test_what_is_watched_may_still_grow():
    held = array.array("d", X)
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x * sum(held)), X)
    nt.value_and_gradient(cache, X)
    held.append(4.0)  # no buffer of it is held
    assert nt.value_and_gradient(cache, X)[0] == 60.0


def test_unchanged_state_is_traced_once():
    pd = pytest.importorskip("pandas")
    df, held = pd.DataFrame({"y": X, "s": list("abc")}), array.array("d", X)
    outer = library(v=2.0)
    f = lambda x: np.sum(x * df["y"].values * np.asarray(held) * outer.inner.v)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            nt.value_and_gradient(cache, X)
    assert cache._program.traces == 1


REGISTRY = """
class Definition:
    def __init__(self, factor):
        self.factor, self.parts = factor, ("meter", 1)

class Slotted:
    __slots__ = ("factor",)
    def __init__(self, factor):
        self.factor = factor

class Registry:
    def __init__(self, kind):
        self.units, self.kind, self.factor, self.last = {"cm": kind(2.0)}, kind, 2.0, None

    def read(self, text):  # like pint, which defines a unit anew when it reads its name in a longer text
        self.units[text] = self.kind(self.factor)
        return self.units[text].factor

    def read_and_hold(self, text):
        self.last = self.units[text] = self.kind(self.factor)
        return self.last.factor

def seconds(value):  # like pint, which asks the class for the attribute of arrays
    is_array = hasattr(type(value), "dtype")
    return value / 1e9 if is_array and value.dtype.kind == "m" else value
"""


@pytest.fixture
def definitions():
    name = "units_like_library"
    module = types.ModuleType(name)
    module.__file__ = str(pathlib.Path(np.__file__).parents[1] / f"{name}.py")
    exec(compile(REGISTRY, module.__file__, "exec"), vars(module))
    return module


@pytest.mark.parametrize("kind", ["Definition", "Slotted"])
def test_an_equal_object_in_place_of_a_librarys_is_no_change(kind, definitions):
    registry = definitions.Registry(getattr(definitions, kind))
    first = registry.units["cm"]
    cache = nt.prepare_gradient_cache(lambda x: np.sum(x * registry.read("cm")), X)
    for _ in range(3):
        assert nt.value_and_gradient(cache, X)[0] == 12.0
    assert cache.traces == 1 and registry.units["cm"] is first
    registry.factor = 3.0  # now the objects differ
    for _ in range(2):
        assert nt.value_and_gradient(cache, X)[0] == 18.0
        assert registry.units["cm"].factor == 3.0
    held = nt.prepare_gradient_cache(lambda x: np.sum(x * registry.read_and_hold("cm")), X)
    for _ in range(3):
        assert nt.value_and_gradient(held, X)[0] == 18.0
        assert registry.units["cm"] is registry.last  # somebody else holds the new object, in each call
    assert held.traces == 4


def test_a_library_may_take_a_traced_number_for_an_array_by_its_class(definitions):
    assert nt.grad(lambda x: definitions.seconds(x) ** 2)(3.0) == 6.0
    with pytest.raises(AttributeError, match="'float' object has no attribute 'dtype'"):
        nt.grad(lambda x: x * x.dtype.itemsize)(1.0)


# ---- what cannot be watched


@pytest.fixture
def connection():
    """A database; Python 3.13 warns of one that is not closed."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        yield database


@pytest.fixture(autouse=True)
def float_errors():
    with np.errstate():
        yield


def of_the_world(folder, connection):
    file = folder / "number.txt"
    file.write_text("2")
    connection.execute("create table t (v real)")
    connection.execute("insert into t values (2)")
    text, target = io.StringIO("2"), Held()
    proxy = weakref.proxy(target)
    os.environ["OF_TEST"] = "2"

    def write():
        file.write_text("555")

    def opened(x):
        with file.open() as lines:
            return np.sum(x * float(lines.read()))

    def update():
        connection.execute("update t set v = 5")

    def environment():
        os.environ["OF_TEST"] = "5"

    name = str(file)
    yield "read_text", lambda x: np.sum(x * float(file.read_text())), write
    yield "json", lambda x: np.sum(x * json.loads(pathlib.Path(name).read_bytes())), write
    yield "Path.open", opened, write
    yield "os.stat", lambda x: np.sum(x * os.stat(name).st_size), write
    yield "getsize", lambda x: np.sum(x * os.path.getsize(name)), write
    yield "Path.stat", lambda x: np.sum(x * file.stat().st_size), write
    yield "exists", lambda x: np.sum(x * (1.0 + file.exists())), file.unlink
    yield "listdir", lambda x: np.sum(x * len(os.listdir(folder))), (folder / "more").touch
    yield "iterdir", lambda x: np.sum(x * len(list(folder.iterdir()))), (folder / "more").touch
    yield "subprocess", lambda x: np.sum(x * float(subprocess.check_output(["cat", name]))), write
    yield "environ", lambda x: np.sum(x * float(os.environ["OF_TEST"])), environment
    yield "getenv", lambda x: np.sum(x * float(os.getenv("OF_TEST"))), environment
    yield "sqlite3", lambda x: np.sum(x * connection.execute("select v from t").fetchone()[0]), update
    yield "geterr", lambda x: np.sum(x * len(np.geterr()["over"])), lambda: np.seterr(over="call")
    yield "StringIO", lambda x: np.sum(x * float(text.getvalue())), lambda: text.write("5")
    yield "proxy", lambda x: np.sum(x * proxy.v), attribute(target)
    np.savez(folder / "numbers.npz", v=np.array(4.0))
    archive = np.load(folder / "numbers.npz")
    yield "npz", lambda x: np.sum(x * archive["v"]), archive.zip.namelist
    yield "eval", lambda x: np.sum(x * eval("STA" + "TE")["v"]), lambda: STATE.update(v=5.0)
    yield "globals", lambda x: np.sum(x * globals()["STATE"]["v"]), lambda: STATE.update(v=5.0)
    pd = pytest.importorskip("pandas")
    yield "pandas", lambda x: np.sum(x * pd.read_csv(name, header=None)[0].sum()), write


WORLD = (
    *("read_text", "json", "Path.open", "os.stat", "getsize", "Path.stat", "exists", "listdir", "iterdir"),
    *("subprocess", "environ", "getenv", "sqlite3", "geterr", "StringIO", "proxy", "eval", "globals"),
    *("pandas", "npz"),
)


@pytest.mark.parametrize("name", WORLD)
def test_a_trace_serves_one_call_where_nobody_can_watch(name, tmp_path, connection):
    STATE["v"] = 2.0
    f, change = next(rest for its, *rest in of_the_world(tmp_path, connection) if its == name)
    with pytest.warns(nt.UnwatchedWarning, match=rf"{__file__}:\d+ .*nt\.Constant") as noted:
        cache = nt.prepare_gradient_cache(f, X)
    assert {one.filename for one in noted} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        follows_now = nt.value_and_gradient(cache, X)[0]
        assert follows_now == f(X)
        change()
        for _ in range(2):
            assert nt.value_and_gradient(cache, X)[0] == f(X)


class Finalised:
    """Garbage that only Python's collector frees; what it does then is no part of the traced function."""

    def __init__(self, read, how):
        self.itself, self.read, self.how = self, read, how
        if how == "finalize":
            weakref.finalize(self, read)

    def __del__(self):
        if self.how == "__del__":
            self.read()


@pytest.mark.parametrize("how", ["__del__", "finalize", "callback"])
def test_files_that_are_read_when_garbage_is_collected(how, tmp_path, only_new_objects):
    """Dask reads how much memory is used, and temporary directories list what they delete."""
    seen = []

    def read(*_):
        seen.append(os.listdir(tmp_path))

    def f(x):
        gc.collect()
        return np.sum(x**2)

    Finalised(read, how)
    gc.callbacks.extend([read] if how == "callback" else [])
    try:
        cache = nt.prepare_gradient_cache(f, X)
    finally:
        gc.callbacks[:] = [each for each in gc.callbacks if each is not read]
    assert seen
    assert nt.value_and_gradient(cache, X)[0] == f(X) and cache.traces == 1


def test_points_from_entropy_raise():
    engine = qmc.Sobol(1, seed=1)
    for f in (
        lambda x: np.sum(x * qmc.Sobol(1).random(1)[0, 0]),
        lambda x: np.sum(x * engine.random(1)[0, 0]),
    ):
        with pytest.raises(nt.UnsupportedOperationError, match="draws random"):
            nt.grad(f)(X)
    nt.grad(lambda x: np.sum(x * qmc.Halton(1, seed=1).random(1)[0, 0]))(X)


def test_the_process_ends_as_before():
    code = "import numpy as np, pathlib, warnings, numbatape as nt\nwarnings.simplefilter('ignore')\n"
    code += f"p = pathlib.Path({__file__!r})\n"
    code += "print(nt.grad(lambda x: np.sum(x * len(p.read_text())))(np.ones(2))[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr and float(done.stdout) > 0.0


@pytest.mark.parametrize("generator", [random, np.random], ids=["random", "numpy"])
def test_draws_of_other_threads_are_not_the_functions(generator):
    """A thread that draws while a function is traced changes nothing; a function that draws is refused."""
    asked, drawn, done = (threading.Event() for _ in range(3))

    def draw():
        asked.wait(60)
        generator.random()
        drawn.set()
        done.wait(60)  # lives on while the function is traced again

    def f(x):
        asked.set()
        drawn.wait(60)
        return np.sum(x**2)

    drawer = threading.Thread(target=draw)
    drawer.start()
    try:
        np.testing.assert_array_equal(nt.grad(f)(X), 2 * X)
        with pytest.raises(nt.UnsupportedOperationError, match="draws random numbers"):
            nt.grad(lambda x: np.sum(x) * generator.random())(X)
    finally:
        done.set()
        drawer.join()


def test_a_name_of_a_module_may_come_to_name_another_one():
    """A cell of a notebook may say ``import model_b as model`` after ``import model_a as model``."""
    modules = [types.ModuleType(f"of_test_{k}") for k in range(3)]
    for k, module in enumerate(modules):
        module.factor = k + 2.0
    scope = {"np": np, "model": modules[0], "library": math}
    code = "def f(x): return np.sum(x) * model.factor + library.sqrt(x[0])\n"
    code += "def imports(x):\n    import of_test_module as model\n    return np.sum(x) * model.factor\n"
    exec(code, scope)
    modules[0].inner = modules[1]
    by_name, by_attribute = nt.grad(scope["f"]), nt.grad(lambda x: np.sum(x) * modules[0].inner.factor)
    np.testing.assert_array_equal(by_name(np.ones(2)), [2.5, 2.0])
    np.testing.assert_array_equal(by_attribute(np.ones(2)), [3.0, 3.0])
    scope["model"] = modules[0].inner = modules[2]
    np.testing.assert_array_equal(by_name(np.ones(2)), [4.5, 4.0])
    np.testing.assert_array_equal(by_attribute(np.ones(2)), [4.0, 4.0])
    scope["library"] = types.SimpleNamespace(sqrt=lambda v: 3.0 * v)
    np.testing.assert_array_equal(by_name(np.ones(2)), [7.0, 4.0])


def test_a_module_that_another_one_has_replaced_in_sys_modules(monkeypatch):
    first, second = types.ModuleType("of_test_module"), types.ModuleType("of_test_module")
    first.factor, second.factor = 2.0, 5.0

    def f(x):
        import of_test_module

        return np.sum(x) * of_test_module.factor

    g = nt.grad(f)
    for module in (first, second, first):
        monkeypatch.setitem(sys.modules, "of_test_module", module)
        np.testing.assert_array_equal(g(np.ones(2)), [module.factor] * 2)


def test_a_module_of_a_class_of_its_own():
    """By ``sys.modules[__name__].__class__ = Settings`` modules get properties."""

    class Settings(types.ModuleType):
        @property
        def twice(self):
            return 2.0 * self.factor

    settings = Settings("settings")
    of_attribute, of_property = (
        nt.grad(lambda x: x * settings.factor),
        nt.grad(lambda x: x * settings.twice),
    )
    for settings.factor in (1.0, 2.0, 3.0):
        assert (of_attribute(1.0), of_property(1.0)) == (settings.factor, 2.0 * settings.factor)


@pytest.mark.parametrize("base", [float, int, str, np.float64])
def test_attributes_of_numbers_and_text(base):
    cls = type("WithAttribute", (base,), {})
    of_closure, of_list = cls("1"), [cls("1")]
    of_closure.factor = of_list[0].factor = 2.0
    gradients = [nt.grad(lambda x: x * of_closure.factor), nt.grad(lambda x: x * of_list[0].factor)]
    assert [g(1.0) for g in gradients] == [2.0, 2.0]
    of_closure.factor = of_list[0].factor = 5.0
    assert [g(1.0) for g in gradients] == [5.0, 5.0]
    of_list[0] = cls("1")  # an equal one
    of_list[0].factor = 7.0
    assert gradients[1](1.0) == 7.0


def test_a_module_that_warns_of_a_name_is_not_asked_for_it():
    """NumPy 2.5 warns where ``numpy.char.chararray`` is asked for."""
    module = types.ModuleType("lazy_module")
    module.scale = 2.0

    def asked(name):
        if not name.startswith("__"):
            raise AssertionError(f"lazy_module.{name} was asked for")
        raise AttributeError(name)

    module.__getattr__ = asked

    class Operator:
        """Reads one name of the module, and never the other."""

        def times(self, x):
            return module.scale * x

        def never(self):
            return module.chararray

    operator = Operator()

    def f(x):
        return brentq(lambda y: operator.times(y) - x, -10.0, 10.0)

    np.testing.assert_allclose(nt.grad(f)(3.0), 0.5)
