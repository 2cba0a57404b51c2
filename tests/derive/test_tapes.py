"""Derivatives of tapes: adjoint and pushforward are each other's transpose, and can be taken again.

The tapes are made by the emitter alone, without any trace, or recorded.
"""

import functools
import gc
import itertools
import weakref

import numpy as np
import pytest

import numbatape as nt
from numbatape.derive.lanes import Lanes, lanes
from numbatape.derive.tapes import adjoint, pushforward
from numbatape.engine.reference import Reference
from numbatape.ops import ROWS
from numbatape.tape.resume import resumed
from numbatape.tape.shared_results import Results
from numbatape.tape.tape import ACTIVE, F64
from tests.derive.emitted_bodies import BODIES, emitted


def polynomial(e, x):
    return (x * x * x - 2.0 * x + 1.0,)


def shared(e, x, y):
    z = x * y
    return z + x / y, e.row("exp", z) * z


def broadcast(e, x, y):
    return (e.last(x) * y + e.row("sin", y),)


def repeated(e, x):
    cell = e.entry(x, 0, -1) * e.entry(x, 1, -1)
    wide = e.broadcast(cell, (3, 2))
    rows = e.sum(e.broadcast(x, (4, 2)), (0,))
    return e.sum(wide), e.matmul(wide, e.symbol(np.ones((2, 4)))), rows


def views_of_a_cell(e, x):
    cell = e.entry(x, 0, -1) * e.entry(x, 1, -1)
    return e.expand(cell, (0, 1)), e.broadcast(cell, (3,))


def reductions(e, x):
    return e.sum(x), e.sum(x * x, (0,)), e.op("logsumexp", x), e.op("prod", x), e.max(x)


def running(e, x):
    return e.op("cumsum", x), e.op("cumprod", x), e.flip(x) * x, e.join(x, 1.0, x)


def parts(e, x):
    return (e.cut(x, 0, 2) * e.cut(x, 1, 3) + e.entry(x, 2, -1),)


def cases(e, x, y):
    return e.where(x < y, x * y, x / y), e.row("maximum", x, y), e.row("abs", x - y)


def matrices(e, a, b):
    spd = e.matmul(a, e.transposed(a)) + e.symbol(3.0 * np.eye(3))
    low = e.op("cholesky", spd)
    return e.op("solve", spd, b), e.op("inv", spd), e.op("det", spd), e.op("solve_lower", low, b)


def rearranged(e, a, x):
    """Views of all cells of an array: its transpose, and a vector as a column and as a row."""
    spread = e.matmul(e.expand(x, (0,)), e.matmul(a, e.last(x)))
    return e.matmul(a, e.transposed(a)) * spread, e.matmul(e.transposed(a), e.last(x)) * e.last(x)


def spectral(e, a):
    return (e.op("eigh", e.tril(a) + 10.0 * e.symbol(np.diag([1.0, 2.0, 4.0])), q=12),)


def positions(e, x, k):
    return e.op("take1", x, k), e.op("scatter1", e.op("take1", x, k) * 2.0, k, m=x.dims[-1]), e.op("sort", x)


TAPES = {
    "polynomial": (polynomial, [(3,)], 0),
    "one cell": (polynomial, [()], 0),
    "shared": (shared, [(2,), (2,)], 0),
    "broadcast": (broadcast, [(2,), (2, 3)], 0),
    "repeated": (repeated, [(2,)], 0),
    "views of a cell": (views_of_a_cell, [(2,)], 0),
    "reductions": (reductions, [(2, 3)], 0),
    "running": (running, [(4,)], 0),
    "parts": (parts, [(3,)], 0),
    "cases": (cases, [(3,), (3,)], 0),
    "matrices": (matrices, [(3, 3), (3, 2)], 0),
    "rearranged": (rearranged, [(3, 3), (3,)], 0),
    "spectral": (spectral, [(3, 3)], 0),
    "positions": (positions, [(4,), (3,)], 1),
    **BODIES,
}


def loop(x, y):
    total = x[0]
    for k in range(3):
        total = np.tanh(total) * y[k] + x[k % 2]
    return total


def arrays(x, w):
    h = np.tanh(w @ x)
    return np.sum(h**2) + np.log(np.linalg.det(w @ w.T)) + h[0] * np.max(x)


def past_carries(x):
    """Only one column of the carries before each step is read behind the loop, or from its end on."""

    def step(c, r):
        return np.stack([np.sin(c[0] * r), np.tanh(c[0] + c[1])]), np.exp(c[1])

    last, found = nt.scan(step, x, np.array([0.4, -1.0, 0.7, 0.2, 1.1, 0.5]), reverse=True)
    return np.sum(found[1:]) + np.sum(last)


RECORDED = {
    "an unrolled loop": (loop, [(2,), (3,)]),
    "a function of arrays": (arrays, [(3,), (3, 3)]),
    "carries of the past": (past_carries, [(2,)]),
}


@functools.cache
def case(name):
    """Return a tape and arguments for it."""
    rng = np.random.default_rng(5)
    if name in RECORDED:
        f, shapes = RECORDED[name]
        args = [rng.normal(size=shape) for shape in shapes]
        return nt.prepare_gradient_cache(f, *args).tape, args
    f, shapes, constants = TAPES[name]
    args = [rng.uniform(0.5, 1.5, size=shape) for shape in shapes]
    if constants:
        args[-1] = np.array([2.0, 0.0, 2.0])
    return emitted(f, *shapes, constants=constants), args


@pytest.fixture(params=[*TAPES, *RECORDED])
def known(request):
    return case(request.param)


def sizes(*arrays):
    return tuple(itertools.chain.from_iterable(np.shape(x) for x in arrays))


def run(tape, inputs):
    return Reference(tape, sizes(*inputs)).run(inputs)


def like(rng, arrays):
    return [rng.normal(size=np.shape(x)) for x in arrays]


def active(tape, args):
    return [x for x, slot in zip(args, tape.inputs, strict=True) if slot.level == ACTIVE]


def dot(xs, ys):
    return sum(float(np.sum(x * y)) for x, y in zip(xs, ys, strict=True))


def test_pushforward_is_the_limit_of_differences(known):
    tape, args = known
    rng = np.random.default_rng(0)
    tangents = like(rng, active(tape, args))
    moves = iter(tangents)
    step = [
        next(moves) if slot.level == ACTIVE else 0.0 * x for x, slot in zip(args, tape.inputs, strict=True)
    ]
    results = run(pushforward(tape, sizes(*args)), [*args, *tangents])
    pushed = results[len(tape.outputs) :]
    h = 1e-6
    above, below = (run(tape, [x + s * d for x, d in zip(args, step, strict=True)]) for s in (h, -h))
    for tangent, up, down in zip(pushed, above, below, strict=True):
        np.testing.assert_allclose(tangent, (up - down) / (2 * h), rtol=2e-7, atol=2e-7)


def test_values_stay(known):
    """A derived tape computes the function's own results first."""
    tape, args = known
    outputs = run(tape, args)
    for derive, beside in ((pushforward, active(tape, args)), (adjoint, outputs)):
        again = run(derive(tape, sizes(*args)), [*args, *map(np.zeros_like, beside)])
        for value, other in zip(again, outputs, strict=False):
            np.testing.assert_allclose(value, other, rtol=1e-14)


def test_adjoint_is_the_transpose_of_the_pushforward(known):
    tape, args = known
    rng = np.random.default_rng(1)
    tangents, cotangents = like(rng, active(tape, args)), like(rng, run(tape, args))
    count = len(tape.outputs)
    pushed = run(pushforward(tape, sizes(*args)), [*args, *tangents])[count:]
    pulled = run(adjoint(tape, sizes(*args)), [*args, *cotangents])[count:]
    assert dot(pushed, cotangents) == pytest.approx(dot(pulled, tangents), rel=1e-11, abs=1e-11)


def test_derived_tapes_are_derived_again(known):
    """The adjoint of the adjoint and the pushforward of the adjoint are one bilinear form, read two ways."""
    tape, args = known
    rng = np.random.default_rng(3)
    cotangents = like(rng, run(tape, args))
    first = adjoint(tape, sizes(*args))
    given = [*args, *cotangents]
    tangents = [0.0 * x for x in active(first, given)]
    for k in range(len(active(tape, args))):
        tangents[k] = rng.normal(size=np.shape(tangents[k]))
    weights = like(rng, run(first, given))
    for k in range(len(tape.outputs)):
        weights[k] = np.zeros_like(weights[k])
    pushed = run(pushforward(first, sizes(*given)), [*given, *tangents])[len(first.outputs) :]
    pulled = run(adjoint(first, sizes(*given)), [*given, *weights])[len(first.outputs) :]
    assert dot(pushed, weights) == pytest.approx(dot(pulled, tangents), rel=1e-10, abs=1e-10)


def test_the_second_derivative_is_symmetric(known):
    """Of a combination of the results: pushing the gradient along u, then v, is along v, then u."""
    tape, args = known
    rng = np.random.default_rng(4)
    cotangents = like(rng, run(tape, args))
    first = adjoint(tape, sizes(*args))
    given = [*args, *cotangents]
    second = pushforward(first, sizes(*given))
    u, v = like(rng, active(tape, args)), like(rng, active(tape, args))
    still = [0.0 * c for c in cotangents]
    along = [run(second, [*given, *d, *still])[len(first.outputs) + len(tape.outputs) :] for d in (u, v)]
    assert dot(along[0], v) == pytest.approx(dot(along[1], u), rel=1e-9, abs=1e-9)


def filtered(t):
    """Matrices beside their transposes, and vectors beside their cells as columns."""
    a, m, p = np.full((3, 3), 0.2) * t[0] + np.eye(3), np.ones(3) * t[1], np.eye(3)
    for _ in range(4):
        p = a @ p @ a.T + np.eye(3) * t[0]
        m = a @ m + p @ (p.T @ m)
    return m @ p @ m


def test_cotangents_of_all_cells_need_no_buffer():
    """Those of views of one array are added after their axes are brought into one order."""
    x = np.array([0.3, 0.7])
    cache = nt.prepare_hvp_cache(filtered, x, config=nt.Config(passes="none"))
    nt.value_and_hvp(cache, x, x)
    names = [cache.tape.ops[op].name for op in (cache.tape.code["op"] >> 1).tolist()]
    assert names.count("fill") == 2  # for the cells of t and those of the direction


def test_cotangents_of_equal_entries_need_no_buffer():
    """A matrix of which all entries are added up, those of its columns, and itself."""

    def centred(x):
        y = np.abs(x[:, None] - x)
        z = y - np.mean(y, axis=0) - np.mean(y, axis=1)[:, None] + np.mean(y)
        return np.sum(z**2)

    x = np.array([0.3, -1.0, 2.5, 0.9])
    cache = nt.prepare_hvp_cache(centred, x, config=nt.Config(passes="none"))
    _, _, product = nt.value_and_hvp(cache, x[::-1].copy(), x)
    names = [cache.tape.ops[op].name for op in (cache.tape.code["op"] >> 1).tolist()]
    assert names.count("fill") == 2  # for the cotangents of x, whose entries are read twice
    gradients = [nt.grad(centred)(x + step * x[::-1]) for step in (-1e-3, 1e-3)]
    np.testing.assert_allclose(product, (gradients[1] - gradients[0]) / 2e-3, rtol=1e-9)  # it is quadratic


def function(x, w):
    y = np.tanh(w * x[0])
    return y * np.sum(np.exp(x)) if y > 0 else np.sum(x)


def again(derive):
    """Return the function that derives the adjoint of a tape once more."""

    def derived(tape, dimensions):
        first = adjoint(tape, dimensions)
        return derive(first, dimensions)

    return derived


DERIVED = {
    "adjoint": adjoint,
    "pushforward": pushforward,
    "lanes": functools.partial(adjoint, lanes=2),
    "adjoint of adjoint": again(adjoint),
    "pushforward of adjoint": again(pushforward),
    "lanes of the first argument": lambda tape, dimensions: lanes(tape, Lanes(frozenset({0})), dimensions),
}
KINDS = {
    **{kind: DERIVED[kind] for kind in ("adjoint", "pushforward", "lanes", "lanes of the first argument")},
    "lanes that may be swept back": lambda tape, dimensions: lanes(
        tape, Lanes(frozenset({0}), hoist=False), dimensions
    ),
}


def test_equal_tapes_are_derived_once():
    """What is derived of a tape goes with the last one that is equal to it, without the collector."""
    first, second = (emitted(lambda e, x, y: (x * y + e.row("sin", x),), (2,), (2,)) for _ in range(2))
    made = {kind: derive(first, (2, 2)) for kind, derive in KINDS.items()}
    assert len({id(tape) for tape in made.values()}) == len(KINDS)
    gc.collect()
    gc.disable()
    try:
        found = {kind: derive(second, (2, 2)) for kind, derive in KINDS.items()}
        assert all(found[kind] is made[kind] for kind in KINDS)
        del first
        alive = [weakref.ref(tape) for tape in made.values()]
        made.clear(), found.clear()
        assert sum(ref() is not None for ref in alive) == len(KINDS)
        del second
        assert sum(ref() is not None for ref in alive) == 0
    finally:
        gc.enable()


def test_tapes_that_name_other_lines_are_derived_again():
    """Error messages name the lines of the function that was called."""
    tapes = [
        nt.prepare_gradient_cache(f, np.ones(2)).tape for f in (lambda x: np.sum(np.exp(x)), exponentials)
    ]
    assert tapes[0].digest == tapes[1].digest
    derived = [adjoint(tape, (2,)) for tape in tapes]
    assert [str(its.line_of(0)) for its in derived] == [str(its.line_of(0)) for its in tapes]
    assert str(derived[0].line_of(0)) != str(derived[1].line_of(0))


def exponentials(x):
    return np.sum(np.exp(x))


def test_only_the_newest_results_of_a_tape_are_kept():
    tape = emitted(polynomial, (3,))
    results = Results(most=2)
    made = [results.of(tape, key, object) for key in "abc"]
    assert results.of(tape, "c", object) is made[2] and results.of(tape, "b", object) is made[1]
    assert results.of(tape, "a", object) is not made[0]


def test_tapes_with_rules_share_no_results():
    """A digest does not say what a rule's function refers to."""
    rule = nt.primitive(np.sin, pullback=lambda ct, y, x: (ct * np.cos(x),))
    tapes = [nt.prepare_gradient_cache(lambda x: rule(x) * 2.0, 0.5).tape for _ in range(2)]
    assert lanes(tapes[0], Lanes(frozenset({0})), ()) is lanes(tapes[0], Lanes(frozenset({0})), ())
    assert lanes(tapes[0], Lanes(frozenset({0})), ()) is not lanes(tapes[1], Lanes(frozenset({0})), ())


@pytest.mark.parametrize("kind", DERIVED)
def test_derived_tapes_do_not_depend_on_the_point(kind):
    """On one path: what was traced elsewhere has the same derivatives, bit for bit."""
    points = (([1.0, 2.0], 0.5), ([0.3, -4.0], 7.0), ([-1.0, 2.0], 0.5))
    tapes = [nt.prepare_gradient_cache(function, np.array(x), w).tape for x, w in points]
    digests = [DERIVED[kind](tape, (2,)).digest for tape in tapes]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("kind", DERIVED)
@pytest.mark.parametrize("name", RECORDED)
def test_functions_traced_at_two_points_have_the_same_derived_tapes(name, kind):
    f, shapes = RECORDED[name]
    rng = np.random.default_rng(8)
    drawn = [[rng.normal(size=shape) for shape in shapes] for _ in range(3)]
    digests = {DERIVED[kind](nt.prepare_gradient_cache(f, *args).tape, sizes(*args)).digest for args in drawn}
    assert len(digests) == 1


def test_a_derived_tape_serves_other_sizes():
    tape = emitted(lambda e, x, y: (e.sum(e.row("exp", x) * y),), (3,), (3,))
    rng = np.random.default_rng(6)
    x, y, ct = rng.normal(size=5), rng.normal(size=5), np.float64(2.0)
    _, xbar, ybar = run(adjoint(tape, (3, 3)), [x, y, ct])
    np.testing.assert_allclose(xbar, 2.0 * y * np.exp(x))
    np.testing.assert_allclose(ybar, 2.0 * np.exp(x))


@pytest.mark.parametrize("derive", [pushforward, adjoint])
def test_lanes_are_directions_one_by_one(known, derive):
    tape, args = known
    rng = np.random.default_rng(7)
    values = active(tape, args) if derive is pushforward else run(tape, args)
    seeds = [rng.normal(size=(3, *np.shape(x))) for x in values]
    wide = derive(tape, sizes(*args), lanes=2)
    together = run(wide, [*args, *seeds])[len(tape.outputs) :]
    alone = derive(tape, sizes(*args))
    for k in range(3):
        apart = run(alone, [*args, *(seed[k] for seed in seeds)])[len(tape.outputs) :]
        for one, many in zip(apart, together, strict=True):
            np.testing.assert_allclose(many[k], one, rtol=1e-12, atol=1e-14)


def test_a_literal_that_only_views_name_is_a_number_again():
    """It is no view with dimensions, which an instruction of one cell cannot read."""
    tape = emitted(lambda e, x: (x + e.broadcast(e.symbol(2.5), (3,)),), (3,))
    builder = resumed(tape, (3,), ROWS)
    number = builder.literal(np.float64(2.5), F64)
    assert builder.layouts[builder.values[number][2]].dims == ()
