"""Holds a whole program against plain NumPy: values, errors, state, slopes, batches and other verbs."""

import copy
import linecache
import math
import types
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats

import numbatape as nt
from tests.whole_programs import CALLS, program

STEPS = (3e-3, 1e-3)
SIXTH_ORDER = ((1, 0.75), (2, -0.15), (3, 1 / 60))
ERRORS = (np.linalg.LinAlgError, ArithmeticError, LookupError, ValueError, TypeError)


class Unclear(Exception):
    """NumPy itself does not say what is right here: a kink, an overflow, numbers too large."""


@dataclass
class Made:
    """A program's module, with ``f`` and the state that it captures."""

    module: types.ModuleType

    @property
    def f(self):
        return self.module.f

    def change(self, line):
        exec(line, self.module.__dict__)

    def state(self):
        m = self.module
        return copy.deepcopy((m.TABLE, m.RATE, m.CONFIG, m.model.rate, m.model.calls, m.model.log))

    def restore(self, state):
        """Put the state back; what is as it was stays the same object, so that traces stay valid."""
        m, (table, m.RATE, config, rate, calls, log) = self.module, state
        if not np.array_equal(m.TABLE, table):
            m.TABLE[:] = table
        if config != m.CONFIG:
            m.CONFIG = dict(config)
        if len(log) != len(m.model.log):
            m.model.log = list(log)
        if (m.model.rate, m.model.calls) != (rate, calls):
            m.model.rate, m.model.calls = rate, calls


def make(text, name):
    module = types.ModuleType(name)
    module.__file__ = f"/nowhere/{name}.py"
    module.__dict__.update(np=np, math=math, special=scipy.special, stats=scipy.stats)
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(True), module.__file__)
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return Made(module)


def arguments(rng, form, size, dtype):
    """Return arguments of a call: the array, the container, the integer."""

    def draw(*shape):
        return np.asarray(rng.normal(size=shape) * 0.8 + 0.2, dtype)

    p = {
        "scalar": lambda: float(draw()),
        "dict": lambda: {"a": draw()[()], "w": draw(size)},
        "tuple": lambda: (draw(size), float(draw())),
        "matrix": lambda: draw(size, size),
    }[form]()
    return draw(size), p, int(rng.integers(-1, 4))


def added(tree, other, t):
    """Return ``tree + t * other``, leaf by leaf."""
    if isinstance(tree, dict):
        return {k: added(v, other[k], t) for k, v in tree.items()}
    if isinstance(tree, tuple):
        return tuple(added(a, b, t) for a, b in zip(tree, other, strict=True))
    moved = tree + t * other
    return float(moved) if isinstance(tree, float) and not isinstance(tree, np.floating) else moved


def rebuilt(tree):
    """Return other arrays with the same numbers: a function may write to them."""
    if isinstance(tree, dict):
        return {k: rebuilt(v) for k, v in tree.items()}
    if isinstance(tree, tuple):
        return tuple([rebuilt(v) for v in tree])
    return np.copy(tree) if isinstance(tree, np.ndarray) else tree


def product(tree, other):
    if isinstance(tree, dict):
        return sum(product(v, other[k]) for k, v in tree.items())
    if isinstance(tree, tuple):
        return sum(product(a, b) for a, b in zip(tree, other, strict=True))
    return float(np.sum(np.asarray(tree, float) * other))


def difference(g):
    """Return the slope of a function of a number at 0, if it has one."""
    found = []
    for h in STEPS:
        found.append(sum(w * (g(k * h) - g(-k * h)) for k, w in SIXTH_ORDER) / h)
    if not np.allclose(*found, rtol=1e-6, atol=1e-6):
        raise Unclear("differences of two steps differ")
    return found[1]


def has_kink(g):
    """Whether slopes from the left and from the right differ."""
    h = 1e-5
    right, left = (4 * g(h) - g(2 * h) - 3 * g(0)) / (2 * h), -(4 * g(-h) - g(-2 * h) - 3 * g(0)) / (2 * h)
    return not np.allclose(right, left, rtol=1e-4, atol=1e-4)


def outcome(run):
    """Return what a call gives, or the error that it ends with."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run()
        except ERRORS as error:
            return error


class Check:
    """One program in several calls through one verb."""

    def __init__(self, seed, dtype="float64", length=6):
        text, self.form, self.between = program(seed, length)
        self.rng, self.seed, self.dtype = np.random.default_rng(seed), seed, dtype
        self.plain, self.traced, self.aside = (make(text, f"program_{seed}_{k}") for k in "pta")
        self.tolerance = 1e-9 if dtype == "float64" else 3e-3
        both = self.rng.random() < 0.6
        self.argnums = (0, 1) if both else 0
        self.verb = nt.value_and_grad(self.traced.f, argnums=self.argnums)
        self.script, self.done = [text], 0
        self.other = 1 if seed // 8 % 2 else 3  # the call that is made in another way too

    def run(self):
        sizes = [int(self.rng.integers(2, 5)) for _ in range(2)]
        last = None
        for number in range(CALLS):
            size = sizes[0] if number < 2 else sizes[1]
            x, p, k = arguments(self.rng, self.form, size, self.dtype)
            if number == 1 and last and self.rng.random() < 0.5:
                k = last[2]
            scale = 0.7 if self.rng.random() < 0.7 else -0.2
            last = (x, p, k, scale)
            line = self.between[number]
            self.script.append(f"{line}\nverb{(x, p, k)!r}, scale={scale}")
            for made in (self.plain, self.traced, self.aside):
                made.change(line)
            try:
                self.call(*last)
                self.done += 1
                if number == self.other:
                    self.other_ways(*last)
            except Unclear:
                continue
        return self.done

    def value_of(self, made, x, p, k, scale):
        """Return the plain function's value; what it did to arguments and state is undone."""
        kept = made.state()
        result = outcome(lambda: made.f(copy.deepcopy(x), copy.deepcopy(p), k, scale=scale))
        made.restore(kept)
        return result

    def call(self, x, p, k, scale):
        expected = self.plainly(x, p, k, scale)
        kept = copy.deepcopy((x, p))
        found = outcome(lambda: self.verb(x, p, k, scale=scale))
        assert _same((x, p), kept), "arguments"
        if isinstance(expected, Exception):
            self.traced.restore(self.plain.state())  # how far it got before the error is its own affair
            assert type(found) is type(expected), f"{expected!r} expected, {found!r} found"
            return
        if isinstance(found, ValueError) and "read-only" in str(found):
            self.traced.restore(self.plain.state())
            raise Unclear("NumPy's ufunc.at writes to read-only arrays, numbatape refuses to")
        if isinstance(found, Exception):
            raise found
        value, gradient = found
        self.near(value, expected, "value")
        self.compare_state()
        self.slopes(gradient, x, p, k, scale)

    def plainly(self, x, p, k, scale):
        """Return what plain NumPy gives; what it wrote to the captured array is kept aside and undone."""
        table = self.table = self.plain.state()[0]
        expected = outcome(lambda: self.plain.f(copy.deepcopy(x), copy.deepcopy(p), k, scale=scale))
        self.written = self.plain.state()[0]
        self.plain.module.TABLE[:] = table
        if isinstance(expected, Exception):
            return expected
        if not np.abs(expected) < 1e5:
            self.traced.restore(self.plain.state())
            raise Unclear("large numbers")
        return expected

    def compare_state(self):
        """Compare the state; an array that a traced value was written to is as it was before."""
        table = self.traced.module.TABLE
        if np.array_equal(table, self.written):
            table[:] = self.table
        plain, traced = self.plain.state(), self.traced.state()
        for name, a, b in zip(("TABLE", "RATE", "CONFIG", "rate", "calls"), plain, traced, strict=False):
            assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, f"state: {name} {a} {b}"
        self.near(np.asarray(traced[5], float), np.asarray(plain[5], float), "state: log")

    def near(self, found, expected, what, loose=1.0):
        tolerance = self.tolerance * loose
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=what)

    def direction(self, tree):
        if isinstance(tree, dict):
            return {k: self.direction(v) for k, v in tree.items()}
        if isinstance(tree, tuple):
            return tuple(self.direction(v) for v in tree)
        return self.rng.normal(size=np.shape(tree))[()]

    def along(self, x, p, k, scale, d):
        """Return the plain function along a direction, in float64."""

        def g(t):
            value = self.value_of(self.plain, *added((x, p), d, t), k, scale)
            if isinstance(value, Exception) or not np.isfinite(value):
                raise Unclear("an error close by")
            return float(value)

        return g

    def slopes(self, gradient, x, p, k, scale):
        """Compare the gradient with differences along a random direction."""
        d = self.direction((x, p))
        if self.argnums == 0:
            d, gradient = (d[0], added(d[1], d[1], -1.0)), (gradient, d[1])
        g = self.along(x, p, k, scale, d)
        expected, found = difference(g), product(gradient, d)
        if not np.isclose(found, expected, rtol=max(self.tolerance, 1e-6), atol=max(self.tolerance, 1e-6)):
            if has_kink(g):
                raise Unclear("a kink")
            if self.dtype != "float64" and not np.isclose(
                g(0.0), self.value_of(self.plain, x, p, k, scale), 1e-4
            ):
                raise Unclear("float64 takes another branch")
            raise AssertionError(f"slope {found!r}, differences {expected!r}")

    def other_ways(self, x, p, k, scale):
        """Run the program in another way, and compare with the verb of a fresh copy."""
        ways = (
            self.batch,
            self.mapped,
            self.forward,
            self.prepared,
            self.no_passes,
            self.debug,
            self.hessian,
            self.hvp,
        )
        ways[int(self.rng.integers(len(ways)))](x, p, k, scale)

    def prepare_aside(self, p, k, scale):
        self.aside.restore(self.plain.state())
        f = self.aside.f
        return lambda x: f(x, rebuilt(p), k, scale=scale)

    def expected_gradient(self, x, p, k, scale):
        """Return value and gradient by the verb, which ``call`` has compared with differences."""
        kept = self.traced.state()
        found = outcome(lambda: self.verb(x, p, k, scale=scale))
        self.traced.restore(kept)
        if isinstance(found, Exception):
            raise Unclear("raises")
        value, gradient = found
        return value, gradient if self.argnums == 0 else gradient[0]

    def batch(self, x, p, k, scale):
        points = np.stack([x, *[arguments(self.rng, self.form, len(x), self.dtype)[0] for _ in range(3)]])
        plain = [self.value_of(self.plain, point, p, k, scale) for point in points]
        f = self.prepare_aside(p, k, scale)
        found = outcome(lambda: nt.batch(f)(points))
        failed = [value for value in plain if isinstance(value, Exception)]
        if failed:
            assert type(found) in [type(e) for e in failed], f"batch: {failed[0]!r} expected, {found!r} found"
            return
        if isinstance(found, Exception):
            raise found
        if "calls +=" in self.script[0] or not np.all(np.abs(plain) < 1e5):
            return
        self.near(found[0], plain, "batch")
        for point, gradient in zip(points, found[1], strict=True):
            self.near(gradient, self.expected_gradient(point, p, k, scale)[1], "gradient in a batch", 10.0)

    def mapped(self, x, p, k, scale):
        points = np.stack([x, *[arguments(self.rng, self.form, len(x), self.dtype)[0] for _ in range(3)]])
        plain = [self.value_of(self.plain, point, p, k, scale) for point in points]
        if any(isinstance(value, Exception) for value in plain) or not np.all(np.abs(plain) < 1e5):
            raise Unclear("raises, or large numbers")
        if "calls +=" in self.script[0]:
            raise Unclear("the calls differ")
        f = self.prepare_aside(p, k, scale)
        self.near(nt.vmap(f)(points), plain, "vmap")
        f = self.prepare_aside(p, k, scale)
        found = nt.grad(lambda points: np.sum(nt.vmap(f)(points)))(points)
        for point, gradient in zip(points, found, strict=True):
            self.near(gradient, self.expected_gradient(point, p, k, scale)[1], "gradient of a vmap", 10.0)

    def forward(self, x, p, k, scale):
        value, gradient = self.expected_gradient(x, p, k, scale)
        f, d = self.prepare_aside(p, k, scale), np.asarray(self.direction(x), self.dtype)
        found = nt.jvp(f, (x,), (d,))
        self.near(found[0], value, "jvp's value")
        self.near(found[1], np.sum(gradient * d), "jvp", 10.0)

    def configured(self, x, p, k, scale, **options):
        value, gradient = self.expected_gradient(x, p, k, scale)
        others = nt.Constant(p), nt.Constant(k), nt.Constant(scale)
        self.aside.restore(self.plain.state())
        cache = nt.prepare_gradient_cache(self.aside.f, x, *others, config=nt.Config(**options))
        for _ in range(2):
            self.aside.restore(self.plain.state())
            found = nt.value_and_gradient(cache, x, *others)
            self.near(found[0], value, f"value {options}")
            self.near(found[1][0], gradient, f"gradient {options}", 10.0)

    def prepared(self, *call):
        self.configured(*call)

    def no_passes(self, *call):
        self.configured(*call, passes="none")

    def debug(self, *call):
        self.configured(*call, debug_mode=True, silence_debug_messages=True)

    def curvature(self, x, p, k, scale, d):
        """Return differences of the gradient along a direction."""
        if self.dtype != "float64":
            raise Unclear("float32")

        def g(t):
            return self.expected_gradient(x + t * d, p, k, scale)[1]

        if has_kink(g):
            raise Unclear("a kink of the gradient")
        return difference(g)

    def second(self, x, p, k, scale, way):
        d = self.direction(x)
        try:
            expected = self.curvature(x, p, k, scale, d)
        except Unclear:
            return
        found = way(self.prepare_aside(p, k, scale), d)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg="second order")

    def hvp(self, x, p, k, scale):
        self.second(x, p, k, scale, lambda f, d: nt.hvp(f)(x, d))

    def hessian(self, x, p, k, scale):
        self.second(x, p, k, scale, lambda f, d: nt.hessian(f)(x) @ d)


def _same(a, b):
    if isinstance(a, dict):
        return all(_same(a[k], b[k]) for k in b)
    if isinstance(a, tuple):
        return all(_same(u, v) for u, v in zip(a, b, strict=True))
    return np.array_equal(a, b)
