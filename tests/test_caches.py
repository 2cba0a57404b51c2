"""Every verb and prepared cache: what it returns, what it owns, what it leaves alone."""

import contextlib
import dataclasses
import gc
import pickle
import threading
import tracemalloc
import typing
import weakref

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt
from numbatape.caches import registry
from numbatape.engine import Workspace
from numbatape.programs import program

X = np.array([0.5, 1.5, -0.7])


def square_sum(x):
    return np.sum(x**2)


class Pair(typing.NamedTuple):
    mean: np.ndarray
    scale: float


@dataclasses.dataclass
class Line:
    slope: np.ndarray
    offset: float
    name: str = "line"

    def __call__(self, x):
        return np.sum(self.slope * x) * self.offset


# ---- one-shot verbs


def test_argnums():
    f = lambda x, y, z: np.sum(x * y**2) * z  # noqa: E731
    args = (X, X + 1, 3.0)
    dx, dy, dz = 3 * (X + 1) ** 2, 6 * X * (X + 1), np.sum(X * (X + 1) ** 2)
    np.testing.assert_allclose(nt.grad(f)(*args), dx, rtol=1e-14)
    np.testing.assert_allclose(nt.grad(f, 1)(*args), dy, rtol=1e-14)
    np.testing.assert_allclose(nt.grad(f, -1)(*args), dz, rtol=1e-14)
    several = nt.grad(f, (2, 0))(*args)
    assert isinstance(several, tuple)
    np.testing.assert_allclose(several[0], dz, rtol=1e-14)
    np.testing.assert_allclose(several[1], dx, rtol=1e-14)
    (single,) = nt.grad(f, (np.int64(1),))(*args)
    np.testing.assert_allclose(single, dy, rtol=1e-14)


def test_keyword_arguments_are_passed_through():
    def f(x, *, power=1, weights=1.0, label="none"):
        return np.sum(weights * x**power) if label == "none" else np.sum(x) * 7.0

    g = nt.value_and_grad(f)
    np.testing.assert_allclose(g(X, power=2, weights=X)[1], 2 * X * X)
    np.testing.assert_allclose(g(X, power=3, weights=X)[1], 3 * X**3)
    np.testing.assert_allclose(g(X, label="other")[1], np.full(3, 7.0))
    cache = nt.prepare_gradient_cache(f, X, kwargs={"power": 2, "weights": X})
    np.testing.assert_allclose(nt.value_and_gradient(cache, X)[1][0], 2 * X * X)


def test_has_aux():
    def f(x):
        return np.sum(x**2), {"double": 2 * x, "text": "hello", "none": None, "number": 3, "data": np.ones(2)}

    (value, aux), gradient = nt.value_and_grad(f, has_aux=True)(X)
    assert value == np.sum(X**2)
    np.testing.assert_array_equal(gradient, 2 * X)
    np.testing.assert_array_equal(aux["double"], 2 * X)
    assert (aux["text"], aux["none"], aux["number"]) == ("hello", None, 3)
    g = nt.grad(f, has_aux=True)
    for point in (X, X + 1, X):
        gradient, aux = g(point)
        np.testing.assert_array_equal(gradient, 2 * point)
        np.testing.assert_array_equal(aux["double"], 2 * point)
        aux["double"][:] = aux["data"][:] = np.nan  # they are the caller's own


def test_aux_may_be_a_dataclass_and_an_active_array_without_a_share_in_the_gradient():
    f = lambda x: (np.sum(x), Line(x * 2, x[0]))  # noqa: E731
    gradient, aux = nt.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(gradient, np.ones(3))
    assert isinstance(aux, Line)
    np.testing.assert_array_equal(aux.slope, 2 * X)


def test_derivative():
    assert nt.derivative(np.sin)(0.0) == 1.0
    assert nt.derivative(lambda t, a: a * t**3)(2.0, 5.0) == 60.0
    result = nt.derivative(lambda t: {"a": np.array([1.0, 2.0]) * t**2, "b": (t, 3.0, np.ones(2))})(3.0)
    np.testing.assert_array_equal(result["a"], [6.0, 12.0])
    assert result["b"][:2] == (1.0, 0.0)
    np.testing.assert_array_equal(result["b"][2], np.zeros(2))
    matrix = nt.derivative(lambda t: np.stack([t, t**2, np.sin(t)])[:, None] * np.ones((1, 2)))(0.5)
    np.testing.assert_allclose(
        matrix, np.stack([1.0, 1.0, np.cos(0.5)])[:, None] * np.ones((1, 2)), rtol=1e-15
    )
    for t in (np.float64(2.0), np.array(2.0), np.float32(2.0)):
        assert nt.derivative(lambda t: t**2)(t) == 4.0
    assert nt.derivative(lambda t: 3.0)(1.0) == 0.0
    assert nt.derivative(lambda t: t > 0)(1.0) == 0.0
    d = nt.derivative(lambda t: t**2 if t > 0 else -t)
    assert [d(t) for t in (1.0, -1.0, 2.0, -3.0)] == [2.0, -1.0, 4.0, -1.0]


def test_two_pullbacks_alive():
    f = lambda x, y: {"p": x * y, "s": np.sum(x)}  # noqa: E731
    a, b = X + 1, X - 2
    first, pull_first = nt.vjp(f, a, 2.0)
    second, pull_second = nt.vjp(f, b, 3.0)
    for _ in range(2):  # a pullback can be called again
        for pullback, x, y in ((pull_first, a, 2.0), (pull_second, b, 3.0)):
            gx, gy = pullback({"p": X, "s": 2.0})
            np.testing.assert_allclose(gx, X * y + 2.0, rtol=1e-15)
            np.testing.assert_allclose(gy, np.sum(X * x), rtol=1e-14)
    np.testing.assert_array_equal(first["p"], a * 2.0)
    np.testing.assert_array_equal(second["p"], b * 3.0)


def test_pullback_is_linear_and_outputs_may_share():
    y, pullback = nt.vjp(lambda x: (x, x, 2 * x, x[0], 1.0, x > 0), X)
    (gradient,) = pullback((X, X, X, 1.0, 0.0, np.zeros(3)))
    np.testing.assert_allclose(gradient, 4 * X + [1, 0, 0], rtol=1e-14)
    np.testing.assert_array_equal(y[0], X)
    assert y[0] is not X
    y[0][:] = 0.0
    np.testing.assert_array_equal(y[1], X)


def test_verbs_are_shared_per_function_and_cleared(monkeypatch):
    traces = []
    record = program.record
    monkeypatch.setattr(program, "record", lambda *args: (traces.append(1), record(*args))[1])

    def f(x):
        return np.sum(x**2)

    for _ in range(3):
        nt.grad(f)(X)
        nt.value_and_grad(f)(X)
    assert len(traces) == 1
    for _ in range(2):
        nt.vjp(f, X)[1](1.0)
    assert len(traces) == 1
    kept = nt.grad(f)
    nt.clear_caches()
    nt.vjp(f, X)
    kept(X)
    assert len(traces) == 2
    nt.prepare_gradient_cache(square_sum, X, config=nt.Config(empty_cache=True))
    kept(X)
    assert len(traces) == 4  # the cache's own, and the verb's again


@pytest.mark.usefixtures("only_new_objects")
def test_functions_are_not_kept_alive():
    def make():
        data = np.ones(3)
        f = lambda x: np.sum(x * data)  # noqa: E731
        nt.grad(f)(X)
        nt.vjp(f, X)[1](1.0)
        nt.derivative(f)(1.0)
        return weakref.ref(f), weakref.ref(data)

    found = make()
    gc.collect()
    assert [ref() for ref in found] == [None, None]


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("grown, seconds, freed", [(1.4, 0.1, False), (1.6, 0.1, True), (1.6, 2.0, False)])
@pytest.mark.parametrize("collects", [True, False])
def test_dropped_functions_are_freed_when_the_process_has_grown(grown, seconds, freed, collects, monkeypatch):
    """The collector counts objects: sixty dropped functions, each with 16 MB of data, waited for it."""

    def make(k):
        data = np.full(3, float(k))
        nt.grad(lambda x: np.sum(x * data) + k)(X)
        return weakref.ref(data)

    nt.clear_caches()  # traces of earlier functions of this code might serve these
    monkeypatch.setattr(registry, "MOST_GROWTH", 1 << 28)
    size = 1 << 30
    monkeypatch.setattr(registry, "_collector", registry.Collector())
    registry._collector.seconds = seconds
    monkeypatch.setattr(registry, "resident", lambda: size)
    first = make(0)
    if not collects:
        gc.disable()  # as programs do that must not wait for it
    try:
        size = int(size * grown)
        make(1)
        assert (first() is None) == (freed and collects)
    finally:
        gc.enable()


def _called(cache, verb, *calls):
    """Call a cache often enough for steady calls, at some arguments and at those before them again."""
    for call in (*calls, *calls, calls[0]):
        verb(cache, *call)
    return cache


def _either(x):
    return np.sum(x**2) if x[0] > 0.0 else np.sum(x**3)


def _steps(x):
    return nt.scan(lambda carry, entry: (carry * np.cos(entry), carry), 1.0, x)[0]


_tripled = nt.primitive(lambda x: 3.0 * x, pullback=lambda ybar, y, x: (3.0 * ybar,))
SEVERAL = [(np.full(n, 0.5),) for n in (3, 4, 5, 6)]  # so many that they are served by an elastic entry
LONG = np.linspace(0.5, 1.5, 60)
DROPPED = {
    "gradient": lambda c: _called(
        nt.prepare_gradient_cache(square_sum, X, config=c), nt.value_and_gradient, *SEVERAL
    ),
    "gradient of containers": lambda c: _called(
        nt.prepare_gradient_cache(lambda tree: square_sum(tree["a"]), {"a": X}, config=c),
        nt.value_and_gradient,
        ({"a": X},),
    ),
    "gradient of branches": lambda c: _called(
        nt.prepare_gradient_cache(_either, X, config=c), nt.value_and_gradient, (X,), (-X,)
    ),
    "gradient of a loop": lambda c: _called(
        nt.prepare_gradient_cache(_steps, X, config=c), nt.value_and_gradient, *SEVERAL
    ),
    "gradient of a rule in Python": lambda c: _called(
        nt.prepare_gradient_cache(lambda x: np.sum(_tripled(x)), X, config=c), nt.value_and_gradient, *SEVERAL
    ),
    "bound": lambda c: nt.prepare_gradient_cache(square_sum, X, config=c).bind(X.copy())(),
    "Hessian": lambda c: _called(
        nt.prepare_hessian_cache(square_sum, X, config=c), nt.value_gradient_and_hessian, (X,)
    ),
    "Hessian by its pattern": lambda c: _called(
        nt.prepare_hessian_cache(lambda x: np.sum(x[1:] ** 3), LONG, config=c),
        nt.value_gradient_and_hessian,
        (LONG,),
    ),
    "bound Hessian": lambda c: nt.prepare_hessian_cache(square_sum, X, config=c).bind(X.copy())(),
    "product": lambda c: _called(nt.prepare_hvp_cache(square_sum, X, config=c), nt.value_and_hvp, (X, X)),
    "pullback": lambda c: _called(
        nt.prepare_pullback_cache(np.sin, X, config=c), nt.value_and_pullback, (X, X)
    ),
    "Jacobian": lambda c: _called(
        nt.prepare_pullback_cache(np.sin, X, config=c), nt.value_and_jacobian, (X,)
    ),
    "derivative": lambda c: _called(
        nt.prepare_derivative_cache(np.sin, X, config=c), nt.value_and_derivative, ((X, X),)
    ),
    "gradient by columns": lambda c: _called(
        nt.prepare_derivative_cache(square_sum, X, config=c), nt.value_and_gradient, (X,)
    ),
    "sparse Jacobian": lambda c: _called(
        nt.prepare_sparse_jacobian_cache(np.sin, LONG, config=c), nt.value_and_sparse_jacobian, (LONG,)
    ),
    "sparse Hessian": lambda c: _called(
        nt.prepare_sparse_hessian_cache(square_sum, LONG, config=c),
        nt.value_gradient_and_sparse_hessian,
        (LONG,),
    ),
}


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh arrays", "kept arrays"])
@pytest.mark.parametrize("kind", DROPPED)
def test_a_cache_that_is_dropped_frees_its_memory_at_once(monkeypatch, kind, reuse):
    """No cycle of references leaves its workspaces to the garbage collector."""
    made = []
    init = Workspace.__init__
    monkeypatch.setattr(
        Workspace, "__init__", lambda self, *args: (made.append(weakref.ref(self)), init(self, *args))[0]
    )
    enabled = gc.isenabled()
    gc.disable()
    try:
        cache = DROPPED[kind](nt.Config(reuse_buffers=reuse))
        made += [] if type(cache) is float else [weakref.ref(cache)]
        del cache
        assert made
        assert [ref for ref in made if ref() is not None] == []
    finally:
        if enabled:
            gc.enable()


def test_the_call_of_a_cache_keeps_the_cache_alive():
    """It serves what it has learned, and other sizes, when nobody else holds the cache."""
    call = nt.prepare_gradient_cache(square_sum, X).call
    for x in (X, X, np.ones(5), X):
        np.testing.assert_array_equal(call(x)[1][0], 2.0 * x)


def test_functions_with_a_shelf_can_be_pickled():
    nt.grad(square_sum)(X)
    assert pickle.loads(pickle.dumps(square_sum)) is square_sum
    assert vars(square_sum)["__numbatape__"].__reduce__()[1] == ()


def test_builtins_methods_and_partials():
    np.testing.assert_array_equal(nt.grad(np.sum)(X), np.ones(3))
    line = Line(np.arange(3.0), 2.0)
    np.testing.assert_array_equal(nt.grad(line)(X), 2 * np.arange(3.0))
    np.testing.assert_array_equal(nt.grad(line.__call__)(X), 2 * np.arange(3.0))
    np.testing.assert_array_equal(nt.vjp(line.__call__, X)[1](1.0)[0], 2 * np.arange(3.0))


def test_threads_and_reentrance():
    g = nt.value_and_grad(lambda x: np.sum(np.exp(x)) if x[0] > 0 else np.sum(x**2))
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.normal(size=int(rng.integers(1, 5)))
            _, gradient = g(x)
            expected = np.exp(x) if x[0] > 0 else 2 * x
            if not np.allclose(gradient, expected, rtol=1e-12):
                failures.append((x, gradient))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_njit_functions_are_traced_through_their_python():
    class Dispatcher:  # what numba.njit returns, without the compiler
        def __init__(self, py_func):
            self.py_func = py_func

        def __call__(self, x):
            raise AssertionError("the compiled function was called")

    np.testing.assert_array_equal(nt.grad(Dispatcher(square_sum))(X), 2 * X)


# ---- prepared caches


def test_clone_repr_tape_and_layout():
    cache = nt.prepare_gradient_cache(square_sum, X)
    clone = cache.clone()
    other = np.arange(4.0)
    np.testing.assert_array_equal(nt.value_and_gradient(clone, other)[1][0], 2 * other)
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X)[1][0], 2 * X)
    assert cache.traces == clone.traces == 1
    text = repr(cache)
    for part in (
        "GradientCache of square_sum",
        "mode reverse",
        "argument 0 (`x`): (3,) float64",
        "1 instructions",
        "0 guards",
        "passes all",
        "bytes",
    ):
        assert part in text
    assert "dot" in str(cache.tape)
    assert cache.layout.shapes == ((3,),)


def test_clone_does_not_need_the_first_arguments():
    x = X.copy()
    cache = nt.prepare_gradient_cache(lambda x: np.log(x[1]) if x[1] > 0 else x[99], x)
    x[:] = -1.0
    assert nt.value_and_gradient(cache.clone(), X)[1][0][1] == 1 / X[1]


def test_results_are_fresh():
    cache = nt.prepare_gradient_cache(lambda x, y: np.sum(x * y), X, X)
    results = [nt.value_and_gradient(cache, X + k, X - k)[1] for k in range(4)]
    for k, (gx, gy) in enumerate(results):
        np.testing.assert_array_equal(gx, X - k)
        np.testing.assert_array_equal(gy, X + k)
    assert len({g.__array_interface__["data"][0] for pair in results for g in pair}) == 8


def test_reuse_buffers():
    cache = nt.prepare_gradient_cache(square_sum, X, config=nt.Config(reuse_buffers=True))
    first = nt.value_and_gradient(cache, X)[1][0]
    second = nt.value_and_gradient(cache, X + 1)[1][0]
    third = nt.value_and_gradient(cache, X + 2)[1][0]
    assert np.shares_memory(first, second)
    assert np.shares_memory(second, third)
    np.testing.assert_array_equal(first, 2 * (X + 2))


def test_args_to_zero_accumulates():
    f = lambda x, y: np.sum(x**2) - np.sum(y**2)  # noqa: E731
    cache = nt.prepare_gradient_cache(f, X, X, config=nt.Config(reuse_buffers=True))
    x, y = X, X + 1
    nt.value_and_gradient(cache, x, y)
    gx, gy = nt.value_and_gradient(cache, x, y, args_to_zero=(False, True))[1]
    np.testing.assert_allclose(gx, 4 * x)
    np.testing.assert_allclose(gy, -2 * y)
    gx, gy = nt.value_and_gradient(cache, x, y, args_to_zero=(False, False))[1]
    np.testing.assert_allclose(gx, 6 * x)
    np.testing.assert_allclose(gy, -4 * y)
    gx, gy = nt.value_and_gradient(cache, x, y)[1]
    np.testing.assert_allclose(gx, 2 * x)
    with pytest.raises(nt.SpecError, match="args_to_zero needs one bool for each of 2 arguments, got 1"):
        nt.value_and_gradient(cache, x, y, args_to_zero=(True,))
    fresh = nt.prepare_gradient_cache(f, X, X)
    np.testing.assert_allclose(nt.value_and_gradient(fresh, x, y, args_to_zero=(True, True))[1][0], 2 * x)
    with pytest.raises(ValueError, match="reuse_buffers=True"):
        nt.value_and_gradient(fresh, x, y, args_to_zero=(False, True))
    pull = nt.prepare_pullback_cache(f, X, X)
    with pytest.raises(ValueError, match="fresh"):
        nt.value_and_pullback(pull, 1.0, X, X, args_to_zero=(False, True))


def test_out():
    cache = nt.prepare_gradient_cache(lambda x, y, c: np.sum(x * y) * c, X, X, nt.Constant(2.0))
    gx, gy = np.empty(3), np.empty((3, 2))[:, 0]
    _, grads = nt.value_and_gradient(cache, X, X + 1, out=(gx, gy, None))
    assert grads[0] is gx
    np.testing.assert_array_equal(gx, 2 * (X + 1))
    np.testing.assert_array_equal(gy, 2 * X)
    nt.value_and_gradient(cache, X, X + 1, out=(None, gy, None))
    for bad, message in (
        (
            (np.empty(4), gy, None),
            r"out for argument 0 \(`x`\): needs a writable array of float64, shape \(3,\)",
        ),
        ((np.empty(3, np.float32), gy, None), "got float32"),
        (([0.0] * 3, gy, None), "leaves, got 3"),
        ((gx, gy), "one entry an argument"),
        ((gx, gy, np.empty(())), "needs None"),
    ):
        with pytest.raises(nt.SpecError, match=message):
            nt.value_and_gradient(cache, X, X, out=bad)
    np.testing.assert_array_equal(nt.value_and_gradient(cache, X, X)[1][0], 2 * X)


def test_bind_and_guard_switches():
    f = lambda x, y: np.sum(x**3) * y[0] if x[0] > 0 else np.sum(x * y)  # noqa: E731
    x, y = np.array([0.5, 1.0]), np.array([2.0, 3.0])
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(y))
    gradient = np.empty(2)
    run = cache.bind(x, out=(gradient, None))
    for k in range(6):
        x[:] = [(-1.0) ** k, k]
        assert run() == pytest.approx(f(x, y), rel=1e-14)
        np.testing.assert_allclose(gradient, 3 * x**2 * y[0] if x[0] > 0 else y, rtol=1e-14)
        nt.value_and_gradient(cache, x + 5.0)  # other calls do not disturb it
    assert run.out[0] is gradient
    assert run.out[1] is None
    assert cache.traces == 2
    own = cache.bind(x)
    own()
    np.testing.assert_allclose(own.out[0], y, rtol=1e-14)
    for args, out, message in (
        ((np.ones(4)[::2],), None, "bind needs C-contiguous"),
        ((np.ones(2, ">f8"),), None, "native byte order"),
        ((x,), (np.empty((2, 2))[:, 0], None), "bind needs a C-contiguous"),
        ((x,), (np.empty(3), None), "shape"),
    ):
        with pytest.raises(nt.SpecError, match=message):
            cache.bind(*args, out=out)


def test_bind_of_trees_constant_results_and_errors():
    tree = {"a": np.ones(2), "b": [np.ones(3)]}
    run = nt.prepare_gradient_cache(lambda p: np.sum(p["a"]) * np.sum(p["b"][0]), tree).bind(tree)
    assert run() == 6.0
    np.testing.assert_array_equal(run.out[0]["b"][0], np.full(3, 2.0))
    x = np.ones(2)
    run = nt.prepare_gradient_cache(lambda x: 3.0, x).bind(x)
    assert run() == 3.0
    np.testing.assert_array_equal(run.out[0], np.zeros(2))
    matrix = np.eye(2)
    run = nt.prepare_gradient_cache(lambda m: np.sum(np.linalg.inv(m)), matrix).bind(matrix)
    matrix[:] = 1.0
    with pytest.raises(np.linalg.LinAlgError):
        run()
    matrix[:] = np.eye(2)
    assert run() == 2.0


def test_include_callable():
    line = Line(np.array([1.0, 2.0, 3.0]), 2.0)
    cache = nt.prepare_gradient_cache(line, X, include_callable=True)
    for args in ((X,), (line, X), (Line(line.slope, 3.0), X)):
        offset = args[0].offset if len(args) == 2 else 2.0
        value, (d_line, dx) = nt.value_and_gradient(cache, *args)
        np.testing.assert_allclose(value, np.sum(line.slope * X) * offset)
        assert isinstance(d_line, Line)
        np.testing.assert_allclose(d_line.slope, X * offset)
        np.testing.assert_allclose(d_line.offset, np.sum(line.slope * X))
        np.testing.assert_allclose(dx, line.slope * offset)
    line.offset = 7.0
    np.testing.assert_allclose(nt.value_and_gradient(cache, X)[1][1], line.slope * 7.0)


def test_struct_of_the_seeds():
    @dataclasses.dataclass
    class Struct:
        x1: float
        x2: float

    value, gradient = nt.value_and_grad(lambda s: s.x1**2 + s.x2**2)(Struct(1.0, 2.0))
    assert value == 5.0
    assert gradient == Struct(2.0, 4.0)


TREES = {
    "dict": ({"a": X, "b": 2.0}, lambda p: np.sum(p["a"]) * p["b"]),
    "list": ([X, 2.0], lambda p: np.sum(p[0]) * p[1]),
    "tuple": ((X, 2.0), lambda p: np.sum(p[0]) * p[1]),
    "namedtuple": (Pair(X, 2.0), lambda p: np.sum(p.mean) * p.scale),
    "dataclass": (Line(X, 2.0), lambda p: np.sum(p.slope) * p.offset),
    "nested": ({"q": [Pair(X, 2.0), (Line(X, 1.0), {})]}, lambda p: np.sum(p["q"][0].mean) * p["q"][0].scale),
}


@pytest.mark.parametrize("name", TREES)
def test_gradients_have_the_structure_of_arguments(name):
    tree, f = TREES[name]
    for gradient in (nt.grad(f)(tree), nt.value_and_gradient(nt.prepare_gradient_cache(f, tree), tree)[1][0]):
        assert type(gradient) is type(tree)
        value, pull = nt.vjp(f, tree)
        assert value == f(tree)
        assert repr(pull(1.0)[0]) == repr(gradient)
    inner = gradient["q"][0] if name == "nested" else gradient
    first, second = (
        inner.values()
        if name == "dict"
        else inner
        if isinstance(inner, (tuple, list))
        else (inner.slope, inner.offset)
    )
    np.testing.assert_array_equal(first, np.full(3, 2.0))
    assert second == np.sum(X)
    assert isinstance(second, np.float64)


@pytest.mark.parametrize("name", TREES)
def test_raw_tangents_and_their_layout(name):
    tree, f = TREES[name]
    g = lambda p, c: f(p) * c  # noqa: E731
    friendly = nt.value_and_gradient(nt.prepare_gradient_cache(g, tree, nt.Constant(3.0)), tree)[1]
    raw_cache = nt.prepare_gradient_cache(
        g, tree, nt.Constant(3.0), config=nt.Config(friendly_tangents=False)
    )
    _, raw = nt.value_and_gradient(raw_cache, tree)
    layout = raw_cache.layout
    assert raw.shape == (sum(int(np.prod(shape)) for shape in layout.shapes),)
    assert repr(layout.unravel(raw)) == repr(friendly)
    np.testing.assert_array_equal(layout.ravel(friendly), raw)
    assert len(layout.paths) == len(layout.shapes)
    pull = nt.prepare_pullback_cache(g, tree, nt.Constant(3.0), config=nt.Config(friendly_tangents=False))
    np.testing.assert_array_equal(nt.value_and_pullback(pull, 1.0, tree)[1], raw)
    with pytest.raises(nt.SpecError, match="the layout needs a vector of"):
        layout.unravel(np.zeros(99))


def test_integers_in_a_tree_are_constants():
    gradient = nt.grad(lambda p: np.sum(p["x"] ** p["n"]) * p["i"][0])(
        {"x": X, "n": 2, "i": np.array([3, 4])}
    )
    np.testing.assert_allclose(gradient["x"], 6 * X)
    assert gradient["n"] is None
    assert gradient["i"] is None


# ---- inputs


@pytest.mark.parametrize("raises", [False, True])
def test_inputs_are_left_alone(raises):
    def f(x, y):
        if raises:
            raise RuntimeError("user")
        return np.sum(np.sort(x) * y)

    x, y = X.copy(), X + 1
    kept = x.tobytes(), y.tobytes()
    for call in (nt.grad(f, (0, 1)), lambda *a: nt.vjp(f, *a), lambda *a: nt.prepare_gradient_cache(f, *a)):
        if raises:
            with pytest.raises(RuntimeError, match="user"):
                call(x, y)
        else:
            call(x, y)
        assert (x.tobytes(), y.tobytes()) == kept
        assert x.flags.writeable


def test_memory_layouts():
    f = lambda m: np.sum(np.sin(m) * np.arange(6.0).reshape(2, 3))  # noqa: E731
    plain = np.linspace(0.0, 1.0, 6).reshape(2, 3)
    locked = plain.copy()
    locked.flags.writeable = False
    wide = np.zeros((4, 6))
    wide[::2, ::-2] = plain
    swapped = plain.astype(plain.dtype.newbyteorder())
    expected = np.cos(plain) * np.arange(6.0).reshape(2, 3)
    cache = nt.prepare_gradient_cache(f, plain)
    for m in (plain, np.asfortranarray(plain), locked, wide[::2, ::-2], plain.T.copy().T, swapped):
        for gradient in (nt.grad(f)(m), nt.value_and_gradient(cache, m)[1][0]):
            np.testing.assert_allclose(gradient, expected, rtol=1e-14)
            assert gradient.dtype == np.float64
            assert gradient.flags.c_contiguous


def test_the_same_array_twice_gets_two_gradients():
    for a, b in (
        nt.grad(lambda x, y: np.sum(x * y * y), (0, 1))(X, X),
        nt.vjp(lambda x, y: np.sum(x * y * y), X, X)[1](1.0),
    ):
        np.testing.assert_allclose(a, X * X)
        np.testing.assert_allclose(b, 2 * X * X)


def test_results_that_are_inputs_constants_or_numbers():
    value, gradient = nt.value_and_grad(lambda x: x)(2.0)
    assert (value, gradient, type(value)) == (2.0, 1.0, float)
    for f, expected in (
        (lambda x: 3.0, 3.0),
        (lambda x: 3, 3),
        (lambda x: np.float64(3.0), 3.0),
        (lambda x: np.array(3.0), 3.0),
        (lambda x: nt.stop_gradient(np.sum(x)), np.sum(X)),
    ):
        cache = nt.prepare_gradient_cache(f, X)
        for value, gradient in (nt.value_and_grad(f)(X), nt.value_and_gradient(cache, X)):
            assert value == expected
            gradient = gradient[0] if isinstance(gradient, tuple) else gradient
            np.testing.assert_array_equal(gradient, np.zeros(3))
    value, (gx, gc) = nt.value_and_gradient(
        nt.prepare_gradient_cache(lambda x, c: np.sum(c), X, nt.Constant(X)), X
    )
    assert (value, gc) == (np.sum(X), None)
    np.testing.assert_array_equal(gx, np.zeros(3))
    value, grads = nt.value_and_grad(lambda x, y: np.sum(x), (0, 1))(X, X)
    np.testing.assert_array_equal(grads[1], np.zeros(3))


def test_kinds_of_numbers():
    f = lambda x: np.sum(x * x)  # noqa: E731
    for x in (2.0, np.float64(2.0), np.array(2.0), np.array([2.0])):
        value, gradient = nt.value_and_grad(f)(x)
        assert value == 4.0
        assert isinstance(gradient, np.ndarray) == isinstance(x, np.ndarray)
        assert np.shape(gradient) == np.shape(x)
        assert gradient == 4.0
    cache = nt.prepare_gradient_cache(lambda x: np.reshape(np.sum(x), ()) * 1.0, X)
    kinds = {type(nt.value_and_gradient(cache, X)[0]) for _ in range(3)}
    assert kinds == {np.float64}
    cache = nt.prepare_gradient_cache(lambda x, y: x * y, 2.0, 3.0)
    for _ in range(3):
        value, grads = nt.value_and_gradient(cache, 2.0, 3.0)
        assert (value, grads, type(value), type(grads[0])) == (6.0, (3.0, 2.0), float, np.float64)


def test_float32_stays_float32():
    f = lambda x, c: np.sum(np.exp(x) * c * 2.0) + 1  # noqa: E731
    x, c = X.astype(np.float32), np.ones(3, np.float32)
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(c))
    for value, gradient in (
        nt.value_and_grad(f)(x, c),
        nt.value_and_gradient(cache, x),
        nt.value_and_gradient(cache, x),
    ):
        gradient = gradient[0] if isinstance(gradient, tuple) else gradient
        assert value.dtype == gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, 2 * np.exp(x), rtol=1e-6)
    mixed = nt.value_and_grad(lambda x, y: np.sum(x * y), (0, 1))(x, X)
    assert [mixed[0].dtype, mixed[1][0].dtype, mixed[1][1].dtype] == [np.float64, np.float32, np.float64]


def test_python_floats_are_weakly_typed():
    single = np.float32(2.0)
    for f in (
        lambda x, a: x * a,
        lambda x, a: x * (a * 2 + 1) ** 2,
        lambda x, a: x * -a,
        lambda x, a: x * abs(a),
        lambda x, a: x * round(a, 1),
        lambda x, a: x + a // 2,
        lambda x, a: x * a.__pos__(),
    ):
        assert f(single, 1.5).dtype == np.float32
        assert nt.value_and_grad(f, (0, 1))(single, 1.5)[0].dtype == np.float32
    strong = nt.value_and_grad(lambda x, a: x * a, (0, 1))(single, np.float64(1.5))
    assert strong[0].dtype == np.float64


def test_empty_arrays():
    empty = np.zeros(0)
    for f in (np.sum, lambda x: np.sum(np.exp(x) * 2.0) + 1.0, lambda x: np.dot(x, x), lambda x: np.prod(x)):
        value, gradient = nt.value_and_grad(f)(empty)
        assert value == f(empty)
        assert gradient.shape == (0,)
    y, pullback = nt.vjp(lambda x: np.outer(x, np.ones(2)), empty)
    assert y.shape == (0, 2)
    assert pullback(np.zeros((0, 2)))[0].shape == (0,)
    with pytest.raises(ValueError, match="zero-size"):
        nt.grad(np.max)(empty)


def test_large_integers_are_not_rounded_silently():
    g = nt.grad(lambda x, k: np.sum(x * (k > 2**60)))
    with pytest.raises(nt.UnsupportedOperationError, match=r"2\*\*53"):
        g(X, np.array([2**60, 2**60 + 1, 3]))


# ---- debug mode


DEBUG = nt.Config(debug_mode=True, silence_debug_messages=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) @ np.ones((3, 2))) + np.linalg.norm(x),
        lambda x: np.prod(x) if x[0] > 0 else np.sum(x),
        lambda x: np.sum(np.linalg.inv(np.outer(x, x) + np.eye(3)) * sc.gammaln(np.abs(x))),
        lambda x: 2.0,
    ],
)
def test_debug_mode_agrees(f):
    plain, checked = nt.prepare_gradient_cache(f, X), nt.prepare_gradient_cache(f, X, config=DEBUG)
    for x in (X, -X, X + 2):
        value, (gradient,) = nt.value_and_gradient(plain, x)
        debug_value, (debug_gradient,) = nt.value_and_gradient(checked, x)
        np.testing.assert_allclose(debug_value, value, rtol=1e-13)
        np.testing.assert_allclose(debug_gradient, gradient, rtol=1e-12, atol=1e-14)
    out = (np.empty(3),)
    nt.value_and_gradient(checked, X, out=out)
    np.testing.assert_allclose(out[0], nt.value_and_gradient(plain, X)[1][0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.cumsum(np.exp(x)).astype(float) ** 2),
        lambda x: np.sum(np.exp(np.sum(np.tanh(x)) * 0.01) * np.arange(200.0)),
        lambda x: np.float64(1.5) * np.sum(np.cumsum(np.exp(x))),
    ],
)
def test_debug_mode_casts_float32_without_alarm(f):
    """Rounded otherwise than by NumPy in float32, a sum is not wrong in float64."""
    x = np.linspace(0.1, 0.9, 200).astype(np.float32)
    value, (gradient,) = nt.value_and_gradient(nt.prepare_gradient_cache(f, x, config=DEBUG), x)
    want = nt.value_and_gradient(nt.prepare_gradient_cache(f, x), x)
    np.testing.assert_allclose(value, want[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, want[1][0], rtol=1e-4)


def test_debug_mode_of_pullbacks():
    f = lambda x: (np.cumsum(x), x[0] * x, 1.0)  # noqa: E731
    ybar = (X, X + 1, 0.0)
    expected = nt.value_and_pullback(nt.prepare_pullback_cache(f, X), ybar, X)[1][0]
    got = nt.value_and_pullback(nt.prepare_pullback_cache(f, X, config=DEBUG), ybar, X)[1][0]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_debug_mode_finds_the_first_nan_and_its_line():
    def f(x):
        y = x + 1
        z = np.log(y)
        return np.sum(z * 2)

    cache = nt.prepare_gradient_cache(f, X, config=DEBUG)
    with pytest.raises(nt.DebugError, match=r"log.*the first NaN appears here") as caught:
        nt.value_and_gradient(cache, -X - 5.0)
    assert f"test_caches.py:{f.__code__.co_firstlineno + 2} in " in str(caught.value)
    assert np.isfinite(nt.value_and_gradient(cache, X)[0])

    cache = nt.prepare_gradient_cache(lambda x: np.sum(np.sqrt(x) * 0.0), X + 1, config=DEBUG)
    with pytest.raises(nt.DebugError, match="the first NaN"):
        nt.value_and_gradient(cache, np.array([1.0, np.inf, 1.0]))


def test_traces_for_one_call_keep_no_memory():
    def caught(x):
        with contextlib.suppress(ValueError):  # no guard says for which arguments it is raised
            np.reshape(x, (3, 3))
        return np.sum(x * x)

    x = np.ones(100_000)
    cache = nt.prepare_gradient_cache(caught, x)
    tracemalloc.start()
    try:
        for _ in range(20):
            np.testing.assert_array_equal(nt.value_and_gradient(cache, x)[1][0], 2.0 * x)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.traces == 21 and kept < 10 * x.nbytes


def test_debug_mode_says_that_it_is_on():
    with pytest.warns(UserWarning, match="debug_mode is on"):
        nt.prepare_gradient_cache(square_sum, X, config=nt.Config(debug_mode=True))
