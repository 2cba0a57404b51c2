"""One trace serves all sizes of a function that calls a rule, whose results are checked in each call."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import linalg, signal

import numbatape as nt
from numbatape.engine import compiled_calls
from numbatape.engine.loops import loop_runs

RNG = np.random.default_rng(8)


def linear(matrix_of):
    """Return ``x -> M x`` with a matrix for each length of x, as a rule."""

    def pullback(ybar, y, x):
        return (matrix_of(x.shape[0]).T @ ybar,)

    return nt.primitive(lambda x: matrix_of(x.shape[0]) @ x, pullback=pullback)


def spread(rows: int, columns: int) -> np.ndarray:
    return np.cos(np.arange(rows)[:, None] * np.arange(1, columns + 1))


# The number of results by the number of arguments, and how many traces the lengths below take.
LENGTHS = (5, 8, 3, 1, 8, 12, 5)
LAWS = {
    "as many": (lambda n: n, 1),
    "one less": (lambda n: n - 1, 2),
    "three more": (lambda n: n + 3, 2),
    "always two": (lambda n: 2, 1),
    "twice as many": (lambda n: 2 * n, 2),
    "half": (lambda n: (n + 1) // 2, 5),  # no law fits, so each of the five lengths has a trace
    "four at most": (lambda n: min(n, 4), 5),
}


@pytest.mark.parametrize("name", LAWS)
def test_one_trace_serves_all_lengths(name):
    count, traces = LAWS[name]
    rule = linear(lambda n: spread(count(n), n))

    def f(x):
        y = rule(x * x)
        return np.sum(np.sin(y)) + y.size * x[0]

    cache = nt.prepare_gradient_cache(f, np.ones(LENGTHS[0]))
    for n in LENGTHS:
        x = RNG.normal(size=n)
        matrix = spread(count(n), n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, np.sum(np.sin(matrix @ (x * x))) + count(n) * x[0], rtol=1e-12)
        want = 2 * x * (matrix.T @ np.cos(matrix @ (x * x)))
        want[0] += count(n)
        np.testing.assert_allclose(gradient, want, rtol=1e-12)
    assert cache.traces <= traces


def outer_pullback(ybar, y, a, b):
    return ybar @ b, ybar.T @ a


outer = nt.primitive(lambda a, b: np.outer(a, b), pullback=outer_pullback)
pairs = nt.primitive(
    lambda a, b: (a * b[0], np.concatenate([b, b])),
    pullback=lambda ybar, y, a, b: (
        ybar[0] * b[0],
        ybar[1][: len(b)] + ybar[1][len(b) :] + np.sum(ybar[0] * a) * np.eye(len(b))[0],
    ),
)
VERBS = {
    "jacobian": lambda f: nt.jacobian(f, argnums=(0, 1)),
    "hessian": lambda f: nt.hessian(lambda a, b: np.sum(f(a, b)), argnums=(0, 1)),
    "gradient in a function": lambda f: nt.grad(
        lambda a, b: np.sum(nt.grad(lambda c: np.sum(f(c, b)))(a) ** 2), argnums=(0, 1)
    ),
    "vmap": lambda f: lambda a, b: nt.vmap(f)(np.stack([a, 2 * a]), np.stack([b, b - 1])),
    "batch": lambda f: lambda a, b: nt.batch(lambda a, b: np.sum(f(a, b)), in_axes=(0, 0))(
        np.stack([a, 2 * a]), np.stack([b, b])
    ),
    "jvp": lambda f: lambda a, b: nt.jvp(f, (a, b), (a, b)),
    "vjp": lambda f: lambda a, b: (lambda y, pull: pull(np.cos(y)))(*nt.vjp(f, a, b)),
}  # fmt: skip
# Two lengths that are equal at first, and then are not, and lengths of one entry.
SHAPES = [(3, 3), (4, 2), (1, 3), (2, 1), (3, 4), (3, 3)]


def uses_outer(a, b):
    return outer(a * a, np.sin(b)) @ b


def uses_pairs(a, b):
    first, second = pairs(a * a, np.sin(b))
    return np.sum(second * second) * first


def plain_outer(a, b):
    return np.outer(a * a, np.sin(b)) @ b


def plain_pairs(a, b):
    b = np.sin(b)
    return 2 * np.sum(b * b) * (a * a * b[0])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("f, plain", [(uses_outer, plain_outer), (uses_pairs, plain_pairs)])
def test_every_verb_at_every_size(verb, f, plain):
    of_rule, of_numpy = VERBS[verb](f), VERBS[verb](plain)
    for m, n in SHAPES:
        a, b = RNG.normal(size=m), RNG.normal(size=n)
        for got, want in zip(leaves(of_rule(a, b)), leaves(of_numpy(a, b)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def leaves(tree) -> list:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def test_a_rule_that_is_made_while_tracing_may_hold_sizes():
    def f(x):
        n = len(x)
        mean = nt.primitive(lambda v: np.sum(v) / n, pullback=lambda ybar, y, v: (ybar * np.ones(n) / n,))
        return mean(x * x)

    cache = nt.prepare_gradient_cache(f, np.ones(3))
    for n in (3, 5, 2, 3):
        x = RNG.normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, np.mean(x * x), rtol=1e-13)
        np.testing.assert_allclose(gradient, 2 * x / n, rtol=1e-13)


def test_workspaces_follow_sizes():
    def pullback(ybar, y, x, workspace):
        return (ybar * workspace.cosine,)

    @nt.primitive(pullback=pullback, workspace=lambda x: {"cosine": (x.shape, x.dtype)})
    def sine(x, workspace):
        np.cos(x, out=workspace.cosine)
        return np.sin(x)

    cache = nt.prepare_gradient_cache(lambda x: np.sum(sine(x) ** 2), np.ones(3))
    for n in (3, 7, 1, 3):
        x = RNG.normal(size=n)
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[1][0], np.sin(2 * x), rtol=1e-13)
    assert cache.traces == 1


def test_results_that_have_another_shape_at_the_same_size_are_traced_again():
    def pullback(ybar, y, x):
        full = np.zeros_like(x)
        full[x > 0] = ybar
        return (full,)

    positive = nt.primitive(lambda x: x[x > 0], pullback=pullback)
    f = nt.value_and_grad(lambda x: np.prod(positive(x)))
    for x in ([1.0, 2.0, 3.0], [-1.0, 2.0, 3.0], [4.0, -1.0, 5.0, 6.0], [4.0, 5.0], [-1.0, -2.0, 3.0]):
        x = np.array(x)
        value, gradient = f(x)
        kept = np.prod(x[x > 0])
        np.testing.assert_allclose(value, kept)
        np.testing.assert_allclose(gradient, np.where(x > 0, kept / x, 0.0))


# ---- functions of SciPy and NumPy that are rules


def mixed(x):
    """Return a matrix with real eigenvalues that differ, and no symmetry."""
    n = len(x)
    return np.diag(np.arange(1.0, n + 1)) + 0.1 * np.tril(np.outer(np.sin(x), x))


B, A = np.array([1.0, 0.5, 0.2]), np.array([1.0, -0.3, 0.1])
OF_RULES = {
    "exponential": lambda x: linalg.expm(0.02 * mixed(x)),
    "cosine": lambda x: linalg.cosm(0.02 * mixed(x)),
    "logarithm": lambda x: linalg.logm(mixed(x)),
    "square root": lambda x: linalg.sqrtm(mixed(x)),
    "eigenvalues": lambda x: np.real(np.linalg.eigvals(mixed(x))),
    "eigenvectors": lambda x: np.abs(np.linalg.eig(mixed(x))[1]),
    "factors": lambda x: np.concatenate(linalg.lu(mixed(x)), 1),
    "packed factors": lambda x: linalg.lu_solve(linalg.lu_factor(mixed(x)), x),
    "polar decomposition": lambda x: linalg.polar(mixed(x))[0],
    "matrix equation": lambda x: linalg.solve_sylvester(mixed(x), mixed(x).T, np.outer(x, x)),
    "complex system": lambda x: np.abs(np.linalg.solve(mixed(x) + 1j * np.eye(len(x)), x)),
    "banded system": lambda x: linalg.solve_banded((1, 1), np.stack([x, x**2 + 9, x]), x),
    "filter": lambda x: signal.lfilter(B, A, x),
    "filter with a state": lambda x: np.concatenate(signal.lfilter(B, A, x, zi=np.array([0.5, 0.2]))),
    "filter of traced coefficients": lambda x: signal.lfilter(B, np.append(1.0, 0.1 * x[:2]), x),
    "filter there and back": lambda x: signal.filtfilt(B, A, x, padlen=2),
    "sections": lambda x: signal.sosfilt(np.array([[*B, *A]]), x),
    "straight line": lambda x: signal.detrend(x),
    "sliding median": lambda x: signal.medfilt(x, 3),
    "products of columns": lambda x: linalg.khatri_rao(mixed(x), mixed(x)),
    "along an axis": lambda x: np.take_along_axis(np.outer(x, x**2), np.argsort(np.outer(x, x**2), 1), 1),
    "convolution": lambda x: signal.convolve(x, x[: len(x) // 2], "same"),
}


@pytest.mark.parametrize("name", OF_RULES)
def test_one_trace_serves_all_sizes_of(name):
    def f(x):
        return np.sum(np.sin(1.0 + OF_RULES[name](x)))

    cache = nt.prepare_gradient_cache(f, RNG.uniform(0.5, 1.5, 5))
    for n in (7, 4, 8, 5):
        x, step = RNG.uniform(0.5, 1.5, n), 1e-5 * RNG.normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient @ step, (f(x + step) - f(x - step)) / 2, rtol=1e-5, atol=1e-12)
    assert cache.traces == 1


def test_short_signals_have_traces_of_their_own():
    def f(x):
        y, state = signal.lfilter(B, A, x, zi=np.array([0.5, 0.2]))
        return np.sum(y**2) + np.sum(np.sin(state))

    cache = nt.prepare_gradient_cache(f, RNG.normal(size=4))
    for n in (1, 6, 2, 3, 1):
        x = RNG.normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, nt.grad(lambda x: f(x) + 0.0)(x), rtol=1e-12)
    assert cache.traces == 3


def test_tall_and_wide_matrices_have_laws_of_their_own():
    def f(a):
        return np.sum(np.sin(np.concatenate(linalg.lu(a)[1:], None)))

    for shape in ((5, 3), (3, 5), (4, 2), (2, 4)):
        nt.grad(f)(RNG.uniform(0.5, 1.5, shape))
    cache = nt.prepare_gradient_cache(lambda a: f(a), RNG.uniform(0.5, 1.5, (3, 3)))
    for n in (4, 6, 3):
        nt.value_and_gradient(cache, RNG.uniform(0.5, 1.5, (n, n)))
    assert cache.traces == 1


BOTH = {
    "as many as both": lambda a, b: np.concatenate([a, b]),
    "as many more": lambda a, b: a[len(b) :] * b[0],
}


@pytest.mark.parametrize("name", BOTH)
def test_lengths_that_follow_from_two_arguments(name):
    def pullback(ybar, y, a, b):
        return nt.vjp(BOTH[name], a, b)[1](ybar)

    rule = nt.primitive(BOTH[name], pullback=pullback)
    cache = nt.prepare_gradient_cache(lambda a, b: np.sum(np.sin(rule(a, b))), np.ones(5), np.ones(3))
    for m, n in ((5, 3), (7, 3), (8, 4), (9, 2), (12, 7), (5, 3)):
        a, b = RNG.normal(size=m), RNG.normal(size=n)
        value, slopes = nt.value_and_gradient(cache, a, b)
        want = nt.value_and_grad(lambda a, b: np.sum(np.sin(BOTH[name](a, b))), argnums=(0, 1))(a, b)
        np.testing.assert_allclose(value, want[0], rtol=1e-13)
        for slope, its in zip(slopes, want[1], strict=True):
            np.testing.assert_allclose(slope, its, rtol=1e-12)
    assert cache.traces <= 3


@pytest.fixture
def states(monkeypatch):
    """Return how many loops and states of compiled rules have been made so far."""
    made = []
    for kind in (loop_runs.LoopRun, compiled_calls.CompiledCall):
        init = kind.__init__
        monkeypatch.setattr(
            kind,
            "__init__",
            lambda self, *args, init=init, **kwargs: made.append(init(self, *args, **kwargs)),
        )
    return made


@numba.njit
def _parted(k, x, y):
    return np.sum(x) * y[k:], y * 2.0


@numba.njit
def _parted_back(ybar, y, k, x, z):
    back = 2.0 * ybar[1]
    back[k:] += np.sum(x) * ybar[0]
    return None, np.full(len(x), np.sum(ybar[0] * z[k:])).astype(np.float32), back


parted = nt.primitive(_parted, pullback=_parted_back)


def of_compiled_rules(x, y):
    first, second = parted(1, x.astype(np.float32), y[::-1])
    return np.sum(first**2) + np.sum(second * y) / len(y)


def of_scans(x, y):
    def step(carry, row):
        h, k = carry
        h = np.tanh(h + row * k)
        return (h, k), (h, h[:1] * 2.0)

    (last, _), (rows, column) = nt.scan(step, (y[:2], np.mean(x)), np.outer(x, [1.0, 2.0]), reverse=True)
    halved = nt.while_loop(lambda v: v > 1.0, lambda v: v * 0.5, np.sum(x * x) + 1.5, max_steps=99)
    return np.sum(rows**2) + np.sum(column) + halved * np.sum(last) + np.sum(y)


@nt.function
def part(x, k):
    """A sub-tape with guards, literals, numbers of both precisions, and several results."""
    scale = 2.0 if x[0] > 0 else 3.0
    narrow = np.tanh(x.astype(np.float32)) * np.float32(0.5)
    return np.cumsum(x * scale) / len(x), np.sum(narrow.astype(float) * np.arange(len(x))) * k


def of_bodies(x, y):
    sums, total = part(x, 2.0)
    others, more = part(y[::-1] * 0.5, total)
    chosen = nt.cond(
        np.sum(y) > 0.0, lambda v: np.sin(v) * v, lambda v: v[::-1] + 0.5, np.concatenate([x, y])
    )
    return np.sum(sums**2) + total + np.sum(others) * more + np.sum(chosen**2)


@pytest.mark.parametrize("f", [of_compiled_rules, of_scans, of_bodies])
def test_new_sizes_make_no_new_states(f, states):
    """Compiled rules and loops follow sizes: nothing is made anew, and results are those of a new trace."""
    rng = np.random.default_rng(3)
    point = lambda m, n: (rng.normal(size=m), rng.normal(size=n))  # noqa: E731
    cache = nt.prepare_gradient_cache(f, *point(3, 4))
    for m, n in (*np.ndindex(5, 3), *np.ndindex(3, 5)):
        nt.value_and_gradient(cache, *point(3 + m, 3 + n))
    before = len(states)
    cases = [point(m, n) for m, n in ((5, 9), (90, 2), (3, 70), (4, 3), (200, 150), (2, 8), (8, 8), (9, 4))]
    found = [nt.value_and_gradient(cache, *case) for case in cases]
    assert len(states) == before
    for case, (value, gradients) in zip(cases, found, strict=True):
        again, wanted = nt.value_and_gradient(nt.prepare_gradient_cache(f, *case), *case)
        np.testing.assert_allclose(value, again, rtol=1e-12)
        for its, other in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(its, other, rtol=1e-10, atol=1e-12)


def test_bodies_that_begin_without_entries():
    """Where an argument of a sub-tape has no entries nothing is copied, but at other sizes something is."""
    weighted = nt.function(lambda v: np.sum(np.sin(v) * np.arange(len(v))))
    rng = np.random.default_rng(0)

    def f(x, y):
        return np.sum(nt.map(lambda v: v * weighted(y), x))

    cache = nt.prepare_gradient_cache(f, np.ones(4), np.ones(5))
    for m, n in rng.integers(0, 14, (30, 2)):
        x, y = rng.normal(size=m), rng.normal(size=n)
        value, (by_x, by_y) = nt.value_and_gradient(cache, x, y)
        total = np.sum(np.sin(y) * np.arange(n))
        np.testing.assert_allclose(value, np.sum(x) * total, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(by_x, np.full(m, total), rtol=1e-12)
        np.testing.assert_allclose(by_y, np.sum(x) * np.cos(y) * np.arange(n), rtol=1e-10, atol=1e-12)


@nt.function
def wave(x):
    return np.exp(-x * x) * np.sin(x)


def test_two_calls_of_a_function_move_to_other_sizes(states):
    """Calls with arguments of one size shared a workspace, which was made anew for each new size."""

    def f(x, y):
        return np.sum(wave(x) * wave(2.0 * x)) + np.sum(wave(y))

    rng = np.random.default_rng(5)
    cache = nt.prepare_gradient_cache(f, np.ones(5), np.ones(5))
    for n in range(5, 12):
        nt.value_and_gradient(cache, np.ones(n), np.ones(n))
    before = len(states)
    cases = [(rng.normal(size=m), rng.normal(size=n)) for m, n in ((30, 30), (4, 90), (70, 3), (200, 200))]
    found = [nt.value_and_gradient(cache, *case) for case in cases]
    assert len(states) == before
    slope = lambda x: np.exp(-x * x) * (np.cos(x) - 2.0 * x * np.sin(x))  # noqa: E731
    value = lambda x: np.exp(-x * x) * np.sin(x)  # noqa: E731
    for (x, y), (total, (by_x, by_y)) in zip(cases, found, strict=True):
        np.testing.assert_allclose(total, np.sum(value(x) * value(2 * x)) + np.sum(value(y)), rtol=1e-12)
        wanted = slope(x) * value(2 * x) + 2.0 * value(x) * slope(2 * x)
        np.testing.assert_allclose(by_x, wanted, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(by_y, slope(y), rtol=1e-10, atol=1e-13)


ruled = nt.function(lambda v: np.sum(parted(0, v.astype(np.float32), v[::-1])[0] ** 2))
weighed = nt.function(lambda v: np.sum(np.sin(v) * np.arange(len(v))))


def scan_of_calls(x, y):
    """Each step calls a sub-tape of y's size, whose cells need a larger workspace now and then."""
    last, steps = nt.scan(lambda c, v: (np.tanh(c + v * weighed(y)),) * 2, 0.1, x)
    return last + np.sum(steps**2)


def rules_in_bodies(x, y):
    """The buffers of compiled rules grow inside of bodies."""
    return nt.cond(np.sum(x) > 0.0, lambda a, b: ruled(a) - ruled(b), lambda a, b: ruled(b), x, y)


@pytest.mark.parametrize("f", [scan_of_calls, rules_in_bodies])
def test_nests_follow_sizes_as_soon_as_they_change(f):
    """What was made anew for some sizes kept these when it first moved."""
    rng = np.random.default_rng(1)
    cache = nt.prepare_gradient_cache(f, np.ones(4), np.ones(5))
    for m, n in [*rng.integers(1, 14, (12, 2)).tolist(), (3, 90), (200, 4), (5, 300)]:
        x, y = rng.normal(size=m), rng.normal(size=n)
        value, gradients = nt.value_and_gradient(cache, x, y)
        again, wanted = nt.value_and_gradient(nt.prepare_gradient_cache(f, x, y), x, y)
        np.testing.assert_allclose(value, again, rtol=1e-11, atol=1e-12)
        for its, other in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(its, other, rtol=1e-6, atol=1e-11)  # some parts are float32


def test_a_sub_tape_of_a_rule_whose_shapes_are_not_yet_known():
    """The first call of the rule is taken for a result of three entries, which two sizes contradict."""
    shorter = linear(lambda n: spread(n - 1, n))
    squares = nt.function(lambda v: np.sum(shorter(v) ** 2))

    def f(x, y):
        return nt.cond(x[0] > 0.0, lambda a, b: squares(a) - squares(b), lambda a, b: squares(b), x, y)

    cache = nt.prepare_gradient_cache(f, np.ones(4), np.ones(5))
    for m, n in ((4, 5), (7, 3), (2, 9), (6, 6)):
        x, y = RNG.normal(size=m), RNG.normal(size=n)
        first, second = (spread(k - 1, k) for k in (m, n))
        _, (by_x, by_y) = nt.value_and_gradient(cache, x, y)
        np.testing.assert_allclose(by_x, 2 * first.T @ first @ x * (x[0] > 0.0), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(by_y, 2 * second.T @ second @ y * (-1 if x[0] > 0 else 1), rtol=1e-10)
    assert cache.traces <= 2


def test_many_calls_of_a_function_move_to_other_sizes(states):
    """More than 16 calls of one body shared a workspace, and took 10 ms for each new size."""

    def f(x):
        total = 0.5
        for k in range(40):
            total = total + np.sum(wave(x * total) / (k + 40.0))
        return total

    cache = nt.prepare_gradient_cache(f, np.ones(4))
    for n in (5, 6, 7, 8):
        nt.value_and_gradient(cache, np.ones(n))
    before = len(states)
    cases = [RNG.normal(size=n) for n in (30, 3, 12)]
    found = [nt.value_and_gradient(cache, x) for x in cases]
    assert len(states) == before
    for x, (value, (gradient,)) in zip(cases, found, strict=True):
        again, (wanted,) = nt.value_and_gradient(nt.prepare_gradient_cache(f, x), x)
        np.testing.assert_allclose(value, again, rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=1e-12)
