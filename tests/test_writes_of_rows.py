"""Writes of single rows at positions that are data: they cost what they write, and mean what NumPy's do."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine.placement import overwritten, placed_at

RNG = np.random.default_rng(11)
POSITIONS = [[0, 3, 2, 1], [-1, 2, 2, -1], [4, 4, 4, 4], [-6, 5, 0, -2]]


def in_place(y, k, v):
    y[k] = v
    return y


def chosen(y, k, v):
    """The same array by a choice among all entries, which is no write."""
    return np.where(np.arange(len(y)) == k % len(y), v, y)


def many(x, p, put):
    y = x * 2.0
    for k in range(4):
        y = put(y, p[k], x[k] * x[k - 1])
    return np.sum(y * x)


def read_and_written(x, p, put):
    y = np.sin(x)
    for k in range(4):
        y = put(y, p[k], y[p[k]] * y[p[k - 1]] + x[k])
    return np.sum(np.exp(0.3 * y) * x)


def read_as_a_whole(x, p, put):
    y = x * 1.0
    total = 0.0
    for k in range(4):
        y = put(y, p[k], y[p[k - 1]] * x[k])
        total = total + (np.sum(y) if k % 2 else np.sum(y * y))
    return total * np.sum(y)


def known_positions_between(x, p, put):
    y = np.zeros(len(x))
    y = put(y, 0, x[0])
    for k in range(1, 6):
        y = put(y, k, y[p[k % 4]] * x[k] + y[k - 1] * x[0] + x[2])
    y = put(y, -1, y[-2] * y[p[0]])
    return np.sum(y * x) + y[5]


def an_entry_that_is_kept(x, p, put):
    y = x * 2.0
    y = put(y, p[0], x[1])
    before = y[2]
    y = put(y, 2, before * before)
    y = put(y, p[1], y[2] * before)
    return np.sum(y * y)


def its_own_entry(x, p, put):
    y = x * 1.0
    for k in range(4):
        y = put(y, p[k], y[3])
        y = put(y, 1, y[p[k]])
    return np.sum(y**3)


def only_an_entry(x, p, put):
    y = np.zeros(len(x))
    for k in range(4):
        y = put(y, p[k], y[p[k]] + x[k] ** 2)
    return y[p[0]] ** 2 * y[2]


def two_arrays(x, p, put):
    y, z = x * 1.0, x * x
    for k in range(4):
        y = put(y, p[k], z[p[k - 1]])
        z = put(z, p[k - 2], y[p[k]] * x[k])
    return np.sum(y * z)


def a_constant(x, p, put):
    y = np.cos(np.arange(float(len(x))))
    y = put(y, p[0], 2.5)
    y = put(y, p[1], x[0])
    y = put(y, p[2], 1.5)
    return np.sum(y * y * x)


def positions_of_sizes_between(x, p, put):
    n = len(x)
    y = put(x * 2.0, p[0], x[0])
    y = put(y, n // 2, x[1] * y[p[1]])
    y = put(y, p[2], y[n // 3] * y[1])
    y = put(y, n - 1, x[2] * y[p[3]])
    return np.sum(y * y * x)


def in_a_body(x, p, put):
    def step(c, k):
        c = put(c.copy(), p[0], c[p[1]] * x[0])
        c = put(c, p[2], c[p[2]] + x[k] * c[1])
        c = put(c, 3, c[p[3]] + x[1])
        return c, c[p[0]] * c[2]

    c, rows = nt.scan(step, x * 1.0, np.arange(4))
    return np.sum(c * c) + np.sum(rows)


def in_a_body_that_starts_again(x, p, put):
    def step(k, c):
        c = put(c.copy(), p[0], x[k] * 2.0)
        return put(c, p[2], x[k] * c[p[1]])

    return np.sum(nt.checkpoint(lambda c: nt.fori_loop(0, 5, step, c))(x * 1.0) ** 2)


PROGRAMS = [
    many,
    read_and_written,
    read_as_a_whole,
    known_positions_between,
    an_entry_that_is_kept,
    its_own_entry,
    only_an_entry,
    two_arrays,
    a_constant,
    positions_of_sizes_between,
    in_a_body,
    in_a_body_that_starts_again,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives_are_those_of_a_choice(f):
    """Gradients, Hessians, products and tangents, at other positions and sizes, by one trace each."""

    def written(x, p):
        return f(x, p, in_place)

    def selected(x, p):
        return f(x, p, chosen)

    x, p = RNG.normal(size=6), nt.Constant(np.array(POSITIONS[0]))
    caches = [
        (
            nt.prepare_gradient_cache(each, x, p),
            nt.prepare_hessian_cache(each, x, p),
            nt.prepare_hvp_cache(each, x, p),
        )
        for each in (written, selected)
    ]
    for n in (6, 9, 40):
        x, w = RNG.normal(size=n), RNG.normal(size=n)
        for places in POSITIONS:
            p = nt.Constant(np.array(places))
            its = []
            for gradient, hessian, product in caches:
                its.append(
                    [
                        *nt.value_and_gradient(gradient, x, p)[:2],
                        nt.value_gradient_and_hessian(hessian, x, p)[2],
                        nt.value_and_hvp(product, w, x, p)[2],
                    ]
                )
            assert its[0][0] == pytest.approx(f(x.copy(), np.array(places), in_place), rel=1e-12)
            for mine, reference in zip(*its, strict=True):
                scale = max(1.0, float(np.max(np.abs(leaf(reference)))))
                np.testing.assert_allclose(leaf(mine), leaf(reference), rtol=1e-11, atol=1e-12 * scale)
    # A Hessian and its products are traced beside the function.
    assert [cache.traces for cache in caches[0]] == [1, 2, 2]


def leaf(result):
    while isinstance(result, tuple):
        result = result[0]
    return result


@pytest.mark.parametrize("f", PROGRAMS[:10], ids=lambda f: f.__name__)
def test_lanes(f):
    """Many points at once, over arguments and positions, and functions that are mapped."""
    X, P = RNG.normal(size=(5, 6)), np.array([*POSITIONS, [1, 0, 5, 3]])
    p = P[3]
    batch = nt.batch(lambda x: f(x, p + 0 * np.argmax(x), in_place))(X)[1]
    mapped = nt.vmap(nt.grad(lambda x, p: f(x, p, in_place)))(X, P)
    for k in range(5):
        for mine, its in ((batch[k], p), (mapped[k], P[k])):
            reference = nt.grad(lambda x, its=its: f(x, its, chosen))(X[k])
            np.testing.assert_allclose(mine, reference, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "options", [{"debug_mode": True, "silence_debug_messages": True}, {"passes": "none"}]
)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_other_ways_to_run(f, options):
    x, p = RNG.normal(size=7), np.array([2, -3, 2, 0])
    config = nt.Config(**options)
    cache = nt.prepare_gradient_cache(lambda x, p: f(x, p, in_place), x, nt.Constant(p), config=config)
    value, gradient = nt.value_and_gradient(cache, x, nt.Constant(p))
    assert value == pytest.approx(f(x.copy(), p, in_place), rel=1e-12)
    reference = nt.grad(lambda x: f(x, p, chosen))(x)
    np.testing.assert_allclose(leaf(gradient), reference, rtol=1e-11, atol=1e-11)


def cells(f, x, p):
    """Return how many cells the values of a function have, with one trace for all sizes."""
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(p))
    return sum(placed_at(cache.tape, (len(x), len(p)))[1])


def test_a_write_takes_no_array():
    """Ten more writes need ten more numbers, not arrays, wherever single entries are read in between."""

    def function_of(body, count):
        def f(x, p):
            y = x * 2.0
            total = 0.0
            for k in range(count):
                total = total + body(y, x, p, k)
            return np.sum(y * x) + total

        return f

    def only_written(y, x, p, k):
        y[p[k]] = x[k] * x[k]
        return 0.0

    def added_to(y, x, p, k):
        y[p[k]] += x[k] * y[p[k - 1]]
        return y[3]

    def known_as_well(y, x, p, k):
        y[p[k]] = x[k]
        y[k] = y[p[k - 1]] * y[k + 1]
        return 0.0

    def summed(y, x, p, k):
        y[p[k]] = x[k] * x[k]
        return np.sum(y)

    def squared(y, x, p, k):
        y[p[k]] = x[k] * x[k]
        return np.sum(y * y)

    x, p = RNG.normal(size=4096), RNG.integers(0, 4096, 20)
    for body in (only_written, added_to, known_as_well, summed):
        assert cells(function_of(body, 14), x, p) - cells(function_of(body, 4), x, p) < 2000, body.__name__
    # The reverse rule of a product reads the array as it was.
    assert cells(function_of(squared, 14), x, p) - cells(function_of(squared, 4), x, p) > 10 * 4096


def test_what_is_read_again_keeps_its_cells():
    def f(x, p):
        y = x * 2.0
        y[p[0]] = x[0]
        before = y.copy()
        y[p[1]] = x[1]
        y[p[2]] = x[2]
        return np.sum(before * y), before, y

    x, p = RNG.normal(size=6), np.array([1, 4, 1])
    result, pull = nt.vjp(lambda x: f(x, p), x)
    for mine, its in zip(result, f(x, p), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-14)
    seeds = [(float(RNG.normal()), RNG.normal(size=6), RNG.normal(size=6)) for _ in range(3)]
    pulled = [leaf(pull(seed)) for seed in seeds]
    jacobian = [leaf(part) for part in nt.jacobian(lambda x: f(x, p)[1:])(x)]
    slope = nt.grad(lambda x: f(x, p)[0])(x)
    for seed, mine in zip(seeds, pulled, strict=True):
        its = seed[0] * slope + seed[1] @ jacobian[0] + seed[2] @ jacobian[1]
        np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)
    cache = nt.prepare_gradient_cache(lambda x, p: f(x, p)[0], x, nt.Constant(p))
    root = overwritten(cache.tape)
    # The second and third write share the cells of the first one; the copy has its own.
    assert root is not None and np.count_nonzero(root != np.arange(len(root))) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_entries_of_matrices(dtype):
    def f(x, p, put_row, put_entry):
        m = np.outer(x, x)
        m = put_row(m, p[0], x**2)
        m = put_entry(m, p[1], p[2], x[3] * x[0])
        m = put_entry(m, p[3], -1, m[p[1], 2] * x[1])
        m = put_row(m, p[2], m[p[0]] * x)
        m = put_row(m, p[1], 3.0)
        return np.sum(m * m * np.outer(x, x**2))

    def row(m, k, v):
        m[k] = v
        return m

    def entry(m, j, k, v):
        m[j, k] = v
        return m

    def chosen_row(m, k, v):
        return np.where((np.arange(len(m)) == k % len(m))[:, None], v, m)

    def chosen_entry(m, j, k, v):
        n = len(m)
        return np.where((np.arange(n) == j % n)[:, None] & (np.arange(n) == k % n), v, m)

    x = RNG.normal(size=6).astype(dtype)
    for places in POSITIONS:
        p = np.array(places)
        value, mine = nt.value_and_grad(lambda x, p=p: f(x, p, row, entry))(x)
        captured = nt.prepare_gradient_cache(lambda x, p: f(x, p, row, entry), x, nt.Constant(p))
        _, (by_argument, *_) = nt.value_and_gradient(captured, x, nt.Constant(p))
        its_value, reference = nt.value_and_grad(lambda x, p=p: f(x, p, chosen_row, chosen_entry))(x)
        assert mine.dtype == dtype and value == pytest.approx(its_value, rel=1e-5)
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        for each in (mine, by_argument):
            np.testing.assert_allclose(each, reference, rtol=tolerance, atol=tolerance)


def test_views_see_what_is_written():
    def f(x, p):
        y = x * 1.0
        z, last = y[1:4], y[-2:]
        y[p[0]] = x[2] ** 2
        z[p[1] % 3] = x[1] ** 3
        last[p[2] % 2] *= 2.0
        y[p[3]] = z[0] * last[1]
        return np.sum(y * x) + np.sum(z**2) + np.prod(last)

    cache = nt.prepare_gradient_cache(f, RNG.normal(size=6), nt.Constant(np.array(POSITIONS[0])))
    for places in POSITIONS:
        x, p = RNG.normal(size=6), np.array(places)
        assert nt.value_and_gradient(cache, x, nt.Constant(p))[0] == pytest.approx(f(x, p), rel=1e-12)
        nt.testing.check_derivatives(lambda x, p=p: f(x, p), x)


def test_positions_outside_raise_as_the_tape_runs():
    def f(x, p):
        y = x * 2.0
        y[p[0]] = x[0]
        y[p[1]] = x[1]
        return np.sum(y * x)

    x = np.ones(5)
    cache = nt.prepare_gradient_cache(f, x, nt.Constant(np.array([0, 1])))
    for places in ([0, 5], [-6, 0], [7, 1]):
        with pytest.raises(IndexError, match="out of bounds"):
            nt.value_and_gradient(cache, x, nt.Constant(np.array(places)))
        assert nt.value_and_gradient(cache, x, nt.Constant(np.array([4, -5])))[0] == pytest.approx(
            f(x, [4, -5])
        )
    assert nt.value_and_gradient(cache, np.ones(9), nt.Constant(np.array([7, 1])))[0] == pytest.approx(
        9 * 2 - 2
    )
    assert cache.traces == 1
