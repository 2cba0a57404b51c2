"""Rules compiled by Numba run inside of the sweep by pointer: same numbers as in Python, no interpreter."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import numbatape as nt
from numbatape.engine.calls import Calls
from numbatape.testing import test_rule as check_rule

RNG = np.random.default_rng(11)


def _sizes(a, b):
    return {
        "c": ((a.shape[0], b.shape[1]), a.dtype),
        "da": (a.shape, a.dtype),
        "db": (b.shape, b.dtype),
        "bt": (b.shape[::-1], b.dtype),
        "at": (a.shape[::-1], a.dtype),
    }


@numba.njit
def _mul(a, b, workspace):
    return np.dot(a, b, workspace.c)


@numba.njit
def _mul_pullback(ybar, y, a, b, workspace):
    workspace.bt[...] = b.T
    workspace.at[...] = a.T
    return np.dot(ybar, workspace.bt, workspace.da), np.dot(workspace.at, ybar, workspace.db)


mul = nt.primitive(_mul, pullback=_mul_pullback, workspace=_sizes)


def _scattered(ybar, y, x, k):
    total = np.zeros_like(x)
    for i in range(k.size):
        total[k[i]] += 2.0 * ybar[i]
    return total, None


value_and_slope = {
    "array to array": (
        lambda x: np.sin(x) * 2.0,
        lambda ybar, y, x: (2.0 * ybar * np.cos(x),),
        (RNG.normal(size=(3, 2)),),
    ),
    "array to number": (
        lambda x: np.sqrt(np.sum(x**2)),
        lambda ybar, y, x: (ybar * x / y,),
        (RNG.normal(size=4),),
    ),
    "number to number": (lambda x: x**3, lambda ybar, y, x: (3.0 * ybar * x**2,), (1.5,)),
    "two arguments": (
        lambda x, t: x * t,
        lambda ybar, y, x, t: (ybar * t, np.sum(ybar * x)),
        (RNG.normal(size=(2, 3)), 0.7),
    ),
    "tuple of results": (
        lambda x, t: (x * t, np.sum(x) * t),
        lambda bars, y, x, t: (bars[0] * t + bars[1] * t, np.sum(bars[0] * x) + bars[1] * np.sum(x)),
        (RNG.normal(size=3), 0.7),
    ),
    "transposed results": (
        lambda x: x.T,
        lambda ybar, y, x: (ybar.T,),
        (RNG.normal(size=(2, 3)),),
    ),
    "no cotangent": (
        lambda x, t: np.sum(x) + 0.0 * t,
        lambda ybar, y, x, t: (np.ones_like(x) * ybar, None),
        (RNG.normal(size=3), 0.5),
    ),
    "integers": (
        lambda x, k: x[k] * 2.0,
        _scattered,
        (RNG.normal(size=4), np.array([3, 0, 0])),
    ),
    "constants": (
        lambda x, k, c, b: x * c[k] + b,
        lambda ybar, y, x, k, c, b: (ybar * c[k], None, None, None),
        (RNG.normal(size=(3, 2)), 0, np.array([2.0, 3.0]), True),
    ),
    "cotangents of other kinds": (
        lambda x, t: x.T * t,
        lambda ybar, y, x, t: (x > 0.0, 3),
        (RNG.normal(size=(3, 2)), 0.5),
    ),
    "narrow constants": (
        lambda x, k, c: (x[:, ::-1] * k[1]).T * c,
        lambda ybar, y, x, k, c: ((ybar.T * k[1] * c)[:, ::-1], None, None),
        (RNG.normal(size=(3, 2)), np.array([7, 2], np.uint16), np.float32(1.25)),
    ),
    "empty": (lambda x: x * 2.0, lambda ybar, y, x: (2.0 * ybar,), (np.zeros((0, 2)),)),
}


@pytest.fixture
def interpreted(monkeypatch):
    """Counts the calls of rules by Python."""
    counts = []
    placed = Calls._placed

    def counted(self):
        counts.append(None)
        return placed(self)

    monkeypatch.setattr(Calls, "_placed", counted)
    return counts


@pytest.mark.parametrize("name", value_and_slope)
def test_same_numbers_as_in_python(name, interpreted):
    value, pullback, args = value_and_slope[name]
    compiled = nt.primitive(numba.njit(value), pullback=numba.njit(pullback))
    plain = nt.primitive(value, pullback=pullback, workspace=lambda *specs: {})
    floats = [k for k, x in enumerate(args) if np.asarray(x).dtype == float and k < 2]

    def total(rule):
        def f(*given):
            full = list(args)
            for k, x in zip(floats, given, strict=True):
                full[k] = x
            parts = rule(*full)
            parts = parts if isinstance(parts, tuple) else (parts,)
            return sum(np.sum(np.sin(part) * 1.5) for part in parts)

        return f

    given = [args[k] for k in floats]
    found = []
    for rule in (compiled, plain):
        cache = nt.prepare_gradient_cache(total(rule), *given)
        for _ in range(3):
            found.append(nt.value_and_gradient(cache, *given))
        if rule is compiled:
            assert not interpreted
    assert interpreted
    for value_, grads in found[1:]:
        np.testing.assert_allclose(value_, found[0][0], rtol=1e-15)
        for got, want in zip(grads, found[0][1], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-16)
            assert got is None or type(got) is type(want)


square = nt.primitive(numba.njit(lambda x: x * x), pullback=numba.njit(lambda ybar, y, x: (ybar * (x + x),)))


@pytest.mark.parametrize(
    "pick",
    [
        lambda x: x[:, 1],
        lambda x: x[::2, ::-1],
        lambda x: x.T[1:],
        lambda x: np.diagonal(x),
        lambda x: x[1, 2],
    ],
)
def test_views_with_steps(pick, interpreted):
    x = RNG.normal(size=(4, 6))
    got = nt.value_and_grad(lambda x: np.sum(square(pick(x)) * x[0, 0]))(x)
    want = nt.value_and_grad(lambda x: np.sum(pick(x) ** 2 * x[0, 0]))(x)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-14)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-14)
    assert not interpreted


def test_float32_alone_and_beside_float64(interpreted):
    x = RNG.normal(size=5).astype(np.float32)
    value, grad = nt.value_and_grad(lambda x: np.sum(square(x)))(x)
    assert value.dtype == grad.dtype == np.float32
    np.testing.assert_array_equal(grad, 2 * x)
    both = nt.primitive(
        numba.njit(lambda x, w: np.sum(x * w)),
        pullback=numba.njit(lambda ybar, y, x, w: (ybar * w, ybar * x)),
    )
    w = RNG.normal(size=5)
    value, grads = nt.value_and_grad(lambda x, w: both(x, w), (0, 1))(x, w)
    assert [value.dtype, grads[0].dtype, grads[1].dtype] == [np.float64, np.float32, np.float64]
    np.testing.assert_array_equal(grads[1], x)
    assert not interpreted


def test_lanes_have_memory_of_their_own(interpreted):
    a, b, w = RNG.normal(size=(7, 3, 4)), RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))
    values, grads = nt.batch(lambda a: np.sum(w * np.sin(mul(a, b))))(a)
    want = nt.batch(lambda a: np.sum(w * np.sin(a @ b)))(a)
    np.testing.assert_allclose(values, want[0], rtol=1e-13)
    np.testing.assert_allclose(grads, want[1], rtol=1e-12, atol=1e-14)
    assert not interpreted


def test_each_call_site_has_memory_of_its_own(interpreted):
    @numba.njit
    def value(x, workspace):
        workspace.e[...] = np.exp(x)
        return workspace.e

    @numba.njit
    def pullback(ybar, y, x, workspace):
        return (ybar * workspace.e,)

    rule = nt.primitive(value, pullback=pullback, workspace=lambda x: {"e": (x.shape, x.dtype)})
    x = np.array([0.1, 0.2])
    got = nt.grad(lambda x: np.sum(rule(rule(x)) * rule(2.0 * x)))(x)
    want = nt.grad(lambda x: np.sum(np.exp(np.exp(x)) * np.exp(2.0 * x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert not interpreted


@contextlib.contextmanager
def nrt_statistics():
    """Yield a function that tells what Numba's runtime has allocated in the block."""
    from numba.core.runtime import _nrt_python, rtsys

    on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    yield lambda: type(before)(*(x - y for x, y in zip(rtsys.get_allocation_stats(), before, strict=True)))
    if not on:
        _nrt_python.memsys_disable_stats()


def test_a_product_into_its_workspace_allocates_nothing(interpreted):
    """The `mul!` of the seeds: C is overwritten by A B, and nothing is allocated after the first call."""
    a, b, c = RNG.normal(size=(60, 50)), RNG.normal(size=(50, 40)), np.ones((60, 40))

    def f(c, a, b):
        c[...] = mul(a, b)
        return np.sum(c**2)

    cache = nt.prepare_gradient_cache(f, c, a, b)
    out = np.empty_like(c), np.empty_like(a), np.empty_like(b)
    run = cache.bind(c, a, b, out=out)
    before = c.copy()
    run()
    tracemalloc.start()
    run()
    start = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(20):
        run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - start < 500  # the float that each call returns
    with nrt_statistics() as stats:
        run()
        assert stats().alloc == 0
    np.testing.assert_array_equal(c, before)
    np.testing.assert_array_equal(out[0], np.zeros_like(c))
    np.testing.assert_allclose(out[1], 2.0 * (a @ b) @ b.T, rtol=1e-12)
    np.testing.assert_allclose(out[2], a.T @ (2.0 * (a @ b)), rtol=1e-12)
    assert not interpreted


def test_sizes_need_no_other_compilation():
    rule = nt.primitive(square._rule.value, pullback=square._rule.pullback)
    for n in (3, 4, 5):
        nt.grad(lambda x: np.sum(rule(x)))(np.ones(n))
    assert len(rule._rule.compiled) == 2  # forward, reverse


def test_all_checks_of_a_rule():
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    check_rule(mul, a, b)
    check_rule(square, a)


# ---- one half compiled, and what Numba cannot type


def test_one_half_compiled(interpreted):
    value, pullback = (lambda x: x * x), (lambda ybar, y, x: (2.0 * ybar * x,))
    x = np.array([1.0, 2.0])
    for halves in ((numba.njit(value), pullback), (value, numba.njit(pullback))):
        rule = nt.primitive(halves[0], pullback=halves[1])
        np.testing.assert_array_equal(nt.grad(lambda x, rule=rule: np.sum(rule(x)))(x), 2.0 * x)
    assert interpreted
    memory = {"workspace": lambda x: {"e": (x.shape, x.dtype)}}

    def kept(x, workspace):
        workspace.e[...] = np.exp(x)
        return workspace.e

    rule = nt.primitive(
        numba.njit(kept), pullback=lambda ybar, y, x, workspace: (ybar * workspace.e,), **memory
    )
    np.testing.assert_allclose(nt.grad(lambda x: np.sum(rule(x)))(x), np.exp(x), rtol=1e-15)


def test_what_cannot_be_typed_runs_in_python(interpreted):
    x = np.array([1.0, 2.0])
    tagged = nt.primitive(
        numba.njit(lambda x, tag: x * len(tag)),
        pullback=numba.njit(lambda ybar, y, x, tag: (ybar * len(tag), None)),
    )
    np.testing.assert_array_equal(nt.grad(lambda x: np.sum(tagged(x, "abc")))(x), [3.0, 3.0])
    listed = nt.primitive(numba.njit(lambda x: x * 2.0), pullback=numba.njit(lambda ybar, y, x: [ybar * 2.0]))
    np.testing.assert_array_equal(nt.grad(lambda x: np.sum(listed(x)))(x), [2.0, 2.0])
    assert interpreted
    wrong = nt.primitive(
        numba.njit(lambda x, y: x * y), pullback=numba.njit(lambda ybar, y, a, b: (ybar * b,))
    )
    with pytest.raises(nt.errors.OutputError, match=r"must return a tuple of 2 cotangents.* got 1"):
        nt.grad(lambda x: np.sum(wrong(x, x)))(x)
    wrong = nt.primitive(
        numba.njit(lambda x, y: x * y), pullback=numba.njit(lambda ybar, y, a, b: (ybar * b, np.zeros(3)))
    )
    with pytest.raises(nt.errors.OutputError, match=r"cotangent of shape \(3,\) for argument 1"):
        nt.grad(lambda x: np.sum(wrong(x, x)))(x)


# ---- errors


@numba.njit
def _checked_root(x):
    if np.min(x) < 0.0:
        raise ValueError("negative")
    return np.sqrt(x)


@numba.njit
def _checked_root_pullback(ybar, y, x):
    if np.min(x) == 0.0:
        raise ZeroDivisionError("zero")
    return (0.5 * ybar / y,)


root = nt.primitive(_checked_root, pullback=_checked_root_pullback)


def test_what_compiled_code_raises_surfaces_with_the_rules_name():
    def f(x):
        return np.sum(root(x))

    x = np.array([4.0, 1.0])
    cache = nt.prepare_gradient_cache(f, x)
    bound_at = x.copy()
    run = cache.bind(bound_at)
    for bad, kind in ((-1.0, ValueError), (0.0, ZeroDivisionError)):
        for call in (
            lambda bad=bad: nt.value_and_gradient(cache, np.array([4.0, bad])),
            lambda bad=bad: (bound_at.__setitem__(1, bad), run()),
            lambda bad=bad: nt.grad(f)(np.array([4.0, bad])),
        ):
            with pytest.raises(kind, match=r"negative|zero") as caught:
                call()
            assert any("rule _checked_root" in note for note in caught.value.__notes__)
        for _ in range(2):
            value, (grad,) = nt.value_and_gradient(cache, x)
            assert value == 3.0
            np.testing.assert_array_equal(grad, [0.25, 0.5])
        bound_at[...] = x
        assert run() == 3.0


def test_a_lane_that_raises():
    points = np.array([[4.0, 1.0], [4.0, -1.0]])
    with pytest.raises(ValueError, match="negative"):
        nt.batch(lambda x: np.sum(root(x)))(points)


# ---- without the interpreter


def test_other_threads_run_on_while_a_rule_computes(interpreted):
    @numba.njit
    def spin(x):
        total = 0.0
        for k in range(400_000_000):
            total += np.sin(x * k)
            if total > 1e18:
                break
            if k > 8_000_000:
                break
        return total

    rule = nt.primitive(spin, pullback=numba.njit(lambda ybar, y, x: (ybar,)))
    cache = nt.prepare_gradient_cache(lambda x: rule(x) * 1.0, 1.0)
    nt.value_and_gradient(cache, 1.0)
    beats, done = [], threading.Event()

    def beat():
        while not done.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    start = time.perf_counter()
    nt.value_and_gradient(cache, 2.0)
    stop = time.perf_counter()
    done.set()
    thread.join()
    assert len([t for t in beats if start < t < stop]) > 10
    assert not interpreted


MODULE = """
import numba
import numpy as np
import numbatape as nt

@numba.njit(cache=True)
def value(x):
    total = 0.0
    for k in range(x.size):
        total += x[k] * x[k]
    return total

@numba.njit(cache=True)
def pullback(ybar, y, x):
    slope = np.empty(x.size)
    for k in range(x.size):
        slope[k] = 2.0 * ybar * x[k]
    return (slope,)

rule = nt.primitive(value, pullback=pullback)
print(nt.grad(lambda x: rule(x))(np.array([1.0, 2.0])))
entries = [alive for _, alive in rule._rule.compiled.values()]
print(sum(entry.cache_hits for entry in entries), len(entries))
"""


def test_kept_on_disk_where_numba_keeps_the_rules_own_functions(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    cache = os.environ.get("NUMBATAPE_CACHE_DIR", str(tmp_path))
    # Unoptimised code has dynamic globals, with which Numba stores no function.
    environment = {**os.environ, "NUMBATAPE_CACHE_DIR": cache, "NUMBA_OPT": "1"}

    def run(code):
        command = [sys.executable, "-c", f"import runpy; {code}", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return done.stdout.splitlines()

    once = "import sys; path = sys.argv[1]; runpy.run_path(path)"
    assert run(once) == ["[2. 4.]", "0 2"]
    # Then another rule takes its place in the file, and nothing stale is loaded.
    changed = 'text = open(path).read().replace("2.0 * ybar", "3.0 * ybar"); open(path, "w").write(text)'
    assert run(f"{once}; {changed}; runpy.run_path(path)") == ["[2. 4.]", "2 2", "[3. 6.]", "0 2"]


# ---- derivatives of derivatives


def _mul_pushforward(tangents, y, a, b, workspace):
    da, db = tangents
    return np.dot(da, b, workspace.c) + np.dot(a, db)


pushed_mul = nt.primitive(
    _mul, pullback=_mul_pullback, pushforward=numba.njit(_mul_pushforward), workspace=_sizes
)
norm_pair = [
    numba.njit(lambda x: np.sqrt(np.sum(x**2))),
    numba.njit(lambda ybar, y, x: (ybar * x / y,)),
    numba.njit(lambda tangents, y, x: np.sum(tangents[0] * x) / y),
]
norm = nt.primitive(norm_pair[0], pullback=norm_pair[1], pushforward=norm_pair[2])


def test_forward_mode_and_jacobians_by_pointer(interpreted):
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    got = nt.jvp(pushed_mul, (a, b), (a + 1.0, b - 1.0))[1]
    np.testing.assert_allclose(got, (a + 1.0) @ b + a @ (b - 1.0), rtol=1e-13)
    for mode in ("forward", "reverse"):
        got = nt.jacobian(lambda x: np.sin(norm(x) * x), mode=mode)(a[0])
        want = nt.jacobian(lambda x: np.sin(np.sqrt(np.sum(x**2)) * x), mode=mode)(a[0])
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    x = a[0]
    got = nt.grad(lambda s: np.sum(nt.grad(norm)(x) * s))(2.0)  # a pullback on the tape
    np.testing.assert_allclose(got, np.sum(x) / np.sqrt(np.sum(x**2)), rtol=1e-14)
    assert not interpreted


def _plain_push(tangents, y, a, b, workspace):
    """Do without the workspace."""
    da, db = tangents
    left = 0.0 if da is None else da @ b
    return left + (0.0 if db is None else a @ db)


@numba.njit
def _logsum(x, t):
    top = np.max(x)
    total = 0.0
    for k in range(x.size):
        total += np.exp((x[k] - top) * t)
    return top + np.log(total) / t


@numba.njit
def _logsum_pullback(ybar, y, x, t):
    p = np.empty(x.size)
    for k in range(x.size):
        p[k] = np.exp((x[k] - y) * t)
    return ybar * p, ybar * (np.sum(p * x) - y) / t


def _logsum_pushforward(tangents, y, x, t):
    p = np.exp((x - y) * t)
    total = 0.0
    if tangents[0] is not None:
        total = total + np.sum(p * tangents[0])
    if tangents[1] is not None:
        total = total + tangents[1] * (np.sum(p * x) - y) / t
    return total


def plain_logsum(x, t):
    return np.log(np.sum(np.exp(x * t))) / t


HIGHER = {
    "compiled pullback alone": nt.primitive(_logsum, pullback=_logsum_pullback),
    "and a pushforward in NumPy": nt.primitive(
        _logsum, pullback=_logsum_pullback, pushforward=_logsum_pushforward
    ),
    "a workspace, and a pushforward": nt.primitive(
        lambda x, t, workspace: plain_logsum(x, t),
        pullback=lambda ybar, y, x, t, workspace: _logsum_pullback.py_func(ybar, y, x, t),
        pushforward=lambda tangents, y, x, t, workspace: _logsum_pushforward(tangents, y, x, t),
        workspace=lambda *specs: {"unused": (3, float)},
    ),
}


@pytest.mark.parametrize("name", HIGHER)
def test_derivatives_of_order_two_and_three(name):
    rule, x, t = HIGHER[name], RNG.normal(size=4), 0.7

    def f(g):
        return lambda v: np.sin(g(v[:4] * v[4], 1.0 + v[4]) * 2.0) * v[0]

    v, u = np.append(x, t), RNG.normal(size=5)
    np.testing.assert_allclose(nt.hessian(f(rule))(v), nt.hessian(f(plain_logsum))(v), rtol=1e-10, atol=1e-12)
    for mode in ("reverse_over_forward", "forward_over_reverse"):
        found = []
        for g in (rule, plain_logsum):
            cache = nt.prepare_hvp_cache(f(g), v, config=nt.Config(second_order_mode=mode))
            found.append([nt.value_and_hvp(cache, u, v)[k] for k in (1, 2, 1, 2)])
        for got, want in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    # A gradient inside of a function that is differentiated: by a reverse sweep, and forward.
    inner = [lambda v, g=g: np.sum(nt.grad(f(g))(v) ** 2) for g in (rule, plain_logsum)]
    np.testing.assert_allclose(*(nt.grad(h)(v) for h in inner), rtol=1e-10)
    np.testing.assert_allclose(*(nt.hvp(h)(v, u) for h in inner), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(*(nt.jvp(f(g), (v,), (u,))[1] for g in (rule, plain_logsum)), rtol=1e-11)
    weigh = [lambda s, g=g: np.sum(nt.grad(f(g))(v) * s) for g in (rule, plain_logsum)]
    np.testing.assert_allclose(*(nt.grad(h)(1.5) for h in weigh), rtol=1e-11)
    check_rule(rule, x, t, float32=False)


def test_explicit_signatures_and_other_layouts(interpreted):
    """A function compiled for any layout takes contiguous arrays too."""
    value = numba.njit("float64(float64[:], float64)")(lambda x, t: np.sum(x) * t)
    pullback = numba.njit("UniTuple(float64[:], 1)(float64, float64, float64[:])")(
        lambda ybar, y, x: (np.ones((x.size, 2))[:, 0] * ybar,)
    )
    half = nt.primitive(
        value, pullback=numba.njit(lambda ybar, y, x, t: (np.full(x.size, ybar * t), ybar * np.sum(x)))
    )
    whole = nt.primitive(numba.njit("float64(float64[:])")(lambda x: np.sum(x)), pullback=pullback)
    got = nt.grad(lambda x, t: half(x, t) * whole(x), (0, 1))(np.array([1.0, 2.0]), 3.0)
    np.testing.assert_allclose(got[0], [18.0, 18.0])
    np.testing.assert_allclose(got[1], 9.0)
    assert not interpreted


def test_clones_in_threads():
    a, b = RNG.normal(size=(40, 30, 20)), RNG.normal(size=(20, 10))
    cache = nt.prepare_gradient_cache(lambda a, b: np.sum(np.sin(mul(a, b))), a[0], b)

    def work(k):
        own = cache.clone()
        return [nt.value_and_gradient(own, x, b)[1][0] for x in a[k::4]]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for k, grads in enumerate(found):
        for x, grad in zip(a[k::4], grads, strict=True):
            np.testing.assert_allclose(grad, np.cos(x @ b) @ b.T, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("only_new_objects")
def test_a_compiled_rule_is_freed():
    def once():
        pullback = numba.njit(lambda ybar, y, x: (np.full(x.size, ybar),))
        rule = nt.primitive(numba.njit(lambda x: np.sum(x)), pullback=pullback)
        np.testing.assert_array_equal(nt.grad(lambda x: rule(x))(np.ones(2)), np.ones(2))
        assert len(rule._rule.compiled) == 2
        return weakref.ref(rule)

    gone = once()
    gc.collect()
    assert gone() is None


def test_a_c_function_of_numbas_is_traced_through_its_python_once():
    square = numba.cfunc("f8(f8)")(lambda a: a * a)
    cache = nt.prepare_gradient_cache(lambda x: square(x[0]) * x[1], np.ones(2))
    for x in (np.array([2.0, 3.0]), np.array([0.5, 4.0])):
        value, (slope,) = nt.value_and_gradient(cache, x)
        assert value == square(x[0]) * x[1]
        np.testing.assert_array_equal(slope, [2.0 * x[0] * x[1], x[0] ** 2])
    assert cache.traces == 1
