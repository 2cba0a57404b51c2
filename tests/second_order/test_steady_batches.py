"""`nt.batch` and `nt.vmap` called again: the same bits as from the first call, without its work."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.caches.batch import Batch
from numbatape.trace import pytrees

RNG = np.random.default_rng(3)
MATRIX = RNG.normal(size=(3, 3))


def points(*shape):
    return lambda n: RNG.normal(size=(n, *shape))


def weighted(x, y):
    return np.sum(x**2) * y[0]


# name: what maps, and for each argument what makes it for a number of points
CASES = {
    "gradient": (nt.batch(lambda x: np.sum(np.exp(x) * x[0])), points(3)),
    "of numbers": (nt.batch(lambda x: np.sin(x)), points()),
    "another axis": (nt.batch(lambda x: np.sum(np.exp(x)), in_axes=-1), lambda n: RNG.normal(size=(3, n))),
    "two arguments": (nt.batch(weighted, in_axes=(0, 0)), points(3), points(2)),
    "shared array": (nt.batch(weighted), points(3), lambda n: RNG.normal(size=2)),
    "shared number": (nt.batch(lambda x, a: a * np.sum(x)), points(3), lambda n: float(RNG.normal())),
    "constants by point": (
        nt.batch(weighted, in_axes=(0, 0)),
        points(3),
        lambda n: nt.Constant(RNG.integers(1, 5, size=(n, 2))),
    ),
    "tree": (
        nt.batch(lambda p: np.sum(p["a"]) * p["b"]),
        lambda n: {"a": RNG.normal(size=(n, 2)), "b": RNG.normal(size=n)},
    ),
    "columns": (nt.batch(lambda x: np.stack([x[0] * x[1], x[0], np.sum(x), x[2] ** 2])), points(3)),
    "rows": (nt.batch(lambda x: np.stack([x[0] * x[1], np.sum(x)])), points(3)),
    "float32": (nt.batch(lambda x: np.sum(np.sin(x))), lambda n: RNG.normal(size=(n, 3)).astype("f4")),
    "value only": (nt.batch(lambda x: np.sum(np.exp(x)), value_only=True), points(3)),
    "map": (nt.vmap(lambda x: MATRIX @ x), points(3)),
    "map of a tree": (
        nt.vmap(lambda x, a: {"u": x * a, "v": (x[0], np.outer(x, x))}, in_axes=(1, None), out_axes=-1),
        lambda n: RNG.normal(size=(3, n)),
        lambda n: 2.5,
    ),
    "complex map": (nt.vmap(np.fft.fft), lambda n: RNG.normal(size=(n, 4)) + 1j),
    "map of a gradient": (nt.vmap(nt.value_and_grad(lambda x: np.sum(np.sin(x) * x[0]))), points(3)),
    "map of a Hessian": (nt.vmap(nt.hessian(lambda x: np.sum(np.sin(x) * x[0]))), points(3)),
    "map of positions": (
        nt.vmap(lambda x, k: x[k]),
        points(3),
        lambda n: RNG.integers(0, 3, size=n),
    ),
    "map of a scan": (nt.vmap(lambda x: nt.scan(lambda c, r: (c * 0.5 + r, c), 0.0, x)), points(4)),
}


def same(found, expected):
    pairs = zip(pytrees.leaves(found), pytrees.leaves(expected), strict=True)
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("count", [1, 5, 1100])  # one lane, lanes that are left over, blocks
@pytest.mark.parametrize("case", CASES)
def test_further_calls(case, count, monkeypatch):
    mapped, *makers = CASES[case]
    first, second = ([make(count) for make in makers] for _ in range(2))
    expected = mapped(*first), mapped(*second)
    nt.clear_caches()
    same(mapped(*first), expected[0])
    monkeypatch.setattr(Batch, "run", None)  # what follows is steady
    same(mapped(*second), expected[1])
    same(mapped(*first), expected[0])


def test_each_call_has_results_of_its_own():
    f = nt.batch(lambda x: np.sum(x**2))
    results = [f(np.full((4, 2), k)) for k in (1.0, 2.0, 3.0)]
    assert [float(values[0]) for values, _ in results] == [2.0, 8.0, 18.0]


def test_points_that_part_after_points_that_did_not():
    f = nt.batch(lambda x: x**2 if x > 0 else -x)
    x = np.array([1.0, 2.0, 3.0])
    for signs in ([1, 1, 1], [1, 1, 1], [1, -1, 1], [-1, -1, -1], [1, 1, 1]):
        values, gradients = f(x * signs)
        np.testing.assert_array_equal(values, np.where(x * signs > 0, x**2, x))
        np.testing.assert_array_equal(gradients, np.where(x * signs > 0, 2 * x, -1.0))


def test_captured_values_that_change():
    data = np.ones(2)
    f = nt.vmap(lambda x: np.sum(x * data))
    x = np.ones((3, 2))
    for value in (1.0, 1.0, 5.0, 5.0):
        data[:] = value
        assert f(x).tolist() == [2 * value] * 3


def test_an_error_at_one_point():
    f = nt.vmap(np.linalg.cholesky)
    good = np.stack([np.eye(2)] * 9)
    f(good)
    bad = good.copy()
    bad[7] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        f(bad)
    same(f(good), good)


def test_a_function_that_catches_what_its_tape_raises():
    def f(x):
        try:
            return np.sum(np.linalg.cholesky(x))
        except np.linalg.LinAlgError:
            return -1.0

    mapped, x = nt.vmap(f), np.stack([np.eye(2)] * 9)
    for _ in range(2):
        assert mapped(x).tolist() == [2.0] * 9
    x[3] *= -1
    assert mapped(x).tolist() == [2.0] * 3 + [-1.0] + [2.0] * 5
