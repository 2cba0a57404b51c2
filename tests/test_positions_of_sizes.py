"""Masks and positions that hang on sizes alone: slices and writes for every length, from one trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numbatape as nt
from tests.every_case import every

LENGTHS = (9, 12, 4, 7, 20, 2, 3)


def first(x):
    n, i = len(x), np.arange(len(x))
    return np.sum(x[i < n // 2] ** 2) + np.mean(x[i < n - 1]) + np.sum(np.sin(x[n // 2 <= i]))


def every_other(x):
    i = np.arange(len(x))
    return np.sum(x[i % 2 == 0] ** 2) - np.sum(np.sin(x[i % 2 != 0])) + np.sum(x[~(i % 3 == 1)[: len(x)]])


def beyond_the_ends(x):
    n, i = len(x), np.arange(len(x))
    return np.sum(x[i >= n - 12] ** 2) + np.sum(x[i > 100]) + np.sum(x[i < 100]) + np.sum(x[i >= -3])


def of_axes(x):
    i, table = np.arange(len(x)), np.outer(x, x)
    return np.sum(table[i % 2 == 0] ** 2) + np.sum(table[:, i < 2]) + np.sum(table[i < 2, 1:][:, 0])


def paired(x):
    """Beside other positions, and behind an int, a mask means other entries than a slice does."""
    i, cube = np.arange(len(x)), np.multiply.outer(np.outer(x, x), x)
    pairs = cube[i % 2 == 0, i % 2 == 0]
    return np.sum(pairs**2) + np.sum(cube[0, :, i < 2] * np.arange(len(x)))


def copied(x):
    y = x[np.arange(len(x)) < 2]
    y[0] = 5.0
    return np.sum(y**2) + np.sum(x**3)


def written(x):
    i, y, table = np.arange(len(x)), 2.0 * x, np.outer(x, x)
    y[i % 3 == 0] *= 2.0
    y[i >= len(x) - 1] = 5.0 * x[0]
    table[i < 2] = 0.0
    table[:, i % 2 == 1] *= 3.0
    return np.sum(y**3) + np.sum(table**2)


def causal(x):
    scores = np.outer(x, np.sin(x))
    scores[np.triu_indices(len(x), 1)] = -9.0
    return np.sum(np.exp(scores) @ x)


def diagonal(x):
    i, table = np.arange(len(x)), np.outer(x, x)
    table[i, i] = x**3
    table[-1 - i, 0] = x
    return np.sum(table**2)


def permuted(x):
    y = x.copy()
    y[np.arange(len(x))[::-1]] = x * np.arange(len(x))
    y[np.argsort(x)[:2]] = 0.5
    return np.sum(y**2 * np.arange(len(x)))


def one_hot(x):
    i, table = np.arange(len(x)), np.zeros((len(x), 4))
    table[i, i % 4] = x
    return np.sum((table @ np.arange(4.0)) ** 2)


def in_lists(x):
    n, table, y = len(x), np.outer(x, np.sin(x)), np.zeros(len(x))
    y[[n - 1, 0]] = x[[0, n // 2]]
    y[[n // 2]] += np.array([n, x[0]])[1]
    picked = table[[n - 1, 0], [n // 2, -1]] @ np.array([n, 0.5]) + np.sum(table[:, [n // 2, 0]])
    return (
        picked
        + np.sum(np.take(x, [n - 1, n // 3]) ** 2)
        + np.sum(y**2 * np.arange(n))
        + np.sum(x * np.array(n))
    )


def ordered(selected):
    return np.sum(selected**2 * np.arange(1, 1 + len(selected)))


def of_pairs(x):
    n, i, table = len(x), np.arange(len(x)), np.outer(x, np.cos(x))
    masks = [
        *(~np.eye(n, dtype=bool), np.identity(n) == 0, (1 - np.eye(n)).astype(bool), i[:, None] != i),
        *(np.tri(n, dtype=bool), ~np.tri(n, dtype=bool), np.triu(np.ones_like(table), 1) > 0),
        *(np.tril(np.ones((n, n), int), -1).astype(bool), i[:, None] < i - 1, i[:, None] - i >= 0),
        *(np.ogrid[:n, :n][0] + 1 <= i, np.eye(n, k=1, dtype=bool), i + 1 == i[:, None]),
    ]
    return sum(ordered(table[mask]) for mask in masks)


def of_pairs_beside_axes(x):
    cube, off = np.multiply.outer(np.outer(x, x), np.sin(x)), ~np.eye(len(x), dtype=bool)
    return np.sum(cube[off] ** 2 * np.arange(len(x))) + ordered(cube[:, off][0]) + ordered(cube[1:, off][0])


def other_masks_of_pairs(x):
    """Bands, parts of masks and rectangles: one trace for each length."""
    n, i, table = len(x), np.arange(len(x)), np.outer(x, np.cos(x))
    total = ordered(table[np.abs(i[:, None] - i) <= 1]) + ordered(table[1:][~np.eye(n, dtype=bool)[1:]])
    return total + ordered(table[:, :2][np.eye(n, 2) == 0]) + ordered(table[~np.eye(n, dtype=bool).T[::-1]])


def backwards(x):
    n = len(x)
    weights = 0.9 ** np.arange(n - 1, -1, -1) + np.arange(n, 0.0, -1.0)
    return np.sum(weights * x) + ordered(x[np.arange(n - 1, -1, -2)]) + np.sum(np.arange(1, -n, -2)) * x[0]


def in_bins(x):
    return np.sum(np.bincount(np.arange(len(x)) % 3, weights=x, minlength=3) ** 2 * np.arange(3))


def left_out(x):
    n, i = len(x), np.arange(len(x))
    folds = sum(np.sum(x[i % 3 == k]) * np.sum(np.cos(x[i % 3 != k])) for k in range(3))
    blocks = np.sum(x[i // 2 != 1] ** 2) + np.sum(x[np.abs(i - 1) > 1])
    ends = np.sum(x[(i < 2) | (n - 1 - i < 2)] ** 3) + np.sum(x[(i > 0) & (i < n - 1) & (2 * i != 4)])
    return folds + blocks + ends


def written_flags(x):
    n = len(x)
    kept, odd = np.ones(n, dtype=bool), np.zeros(n, bool)
    kept[0] = kept[-1] = False
    odd[1::2] = True
    ends = np.where(kept, 0.0, x)
    table, y = np.outer(x, x + 1.0), np.sin(x)
    y[kept & odd] = x[kept & odd] ** 3
    y[~odd] += 1.0
    return np.sum(x[kept] ** 2) + np.sum(ends) + np.sum(table[np.ix_(odd, ~kept)] ** 2) + np.sum(y * x)


def written_integers(x):
    n = len(x)
    weights, before = np.full(n, 2), np.zeros(n, int)
    weights[1::2] = 4
    weights[0] = weights[-1] = 1
    before[1:] = np.arange(n - 1)
    return np.sum(weights * x**2) + np.sum(x[before] * np.cos(x)) * np.sum(np.ones(n, int))


def bands(x):
    i, table = np.arange(len(x)), np.outer(x, np.sin(x))
    down, right = np.indices(table.shape)
    off, first = np.ones(table.shape, bool), np.ones_like(x, dtype=bool)
    np.fill_diagonal(off, False)
    first[-1] = False
    table[np.abs(down - right) < 1] += 1.0
    band = np.sum(table[np.abs(i[:, None] - i) <= 1] ** 2)
    return band + np.sum(table[off] ** 3) + np.sum(table[down < right] * 2.0) + np.sum(x[first])


# With the most traces that these lengths may take: two entries or fewer may be another case.
PROGRAMS = {
    "first": (first, 2),
    "every other": (every_other, 7),  # the last mask is part of another one
    "beyond the ends": (beyond_the_ends, 3),
    "axes": (of_axes, 2),
    "pairs": (paired, 7),
    "a copy": (copied, 1),
    "in lists": (in_lists, 1),
    "written": (written, 1),
    "causal": (causal, 2),
    "diagonal": (diagonal, 1),
    "permuted": (permuted, 2),
    "one hot": (one_hot, 1),
    "pairs by masks": (of_pairs, 1),
    "pairs by masks beside axes": (of_pairs_beside_axes, 1),
    "other masks of pairs": (other_masks_of_pairs, 7),
    "backwards": (backwards, 1),
    "in bins": (in_bins, 1),
    "left out": (left_out, 4),
    "bands": (bands, 2),
    "written flags": (written_flags, 3),
    "written integers": (written_integers, 2),
}


@every("name", PROGRAMS)
def test_positions_follow_sizes(name):
    f, most = PROGRAMS[name]
    cache = nt.prepare_gradient_cache(f, np.linspace(0.1, 1.0, 6))
    for n in LENGTHS:
        x = np.random.default_rng(n).normal(size=n)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        fresh = nt.value_and_gradient(nt.prepare_gradient_cache(f, x), x)[1][0]
        np.testing.assert_allclose(gradient, fresh, rtol=1e-12, atol=1e-13)
    assert cache.traces <= most + 1
    counts = any(guard["kind"] == "count" for guard in cache.guards())
    assert counts == (name == "other masks of pairs")  # all others are positions that follow from the length


def visited(x):
    n = len(x)
    done, turn, seen = np.zeros(n, bool), np.zeros(n, int), np.zeros(n, int)
    total, k = 0.0, 0
    while not done.all():
        k = (k + 2) % n
        if done[k]:
            k = (k + 1) % n
        total, done[k], turn[k] = total * 0.9 + x[k], True, k // 2
        seen[k] += 1
    return total * np.sum(x[done]) + np.sum(x * turn) + np.sum(x * seen)


def test_flags_that_are_asked_entry_by_entry_are_plain():
    """Written at known places of a known length, they need no guards and leave nothing on the tape."""
    x = np.linspace(0.1, 1.0, 9)
    cache = nt.prepare_gradient_cache(visited, x)
    assert len(cache.guards()) <= 1
    for n in (9, 5, 9, 1):
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_allclose(nt.value_and_gradient(cache, x)[0], visited(x), rtol=1e-12)
    assert cache.traces == 3


def seen_through_views(x):
    n = len(x)
    flags, counts = np.zeros(n, bool), np.zeros(n, int)
    half, same = flags[1:], counts[::-1]
    k = int(x[0] > 0.0)
    flags[k] = True
    half[1] = True
    counts[1] = 3
    same[0] += 2
    counts[np.argmax(x)] += 5  # at a position that is data
    taken = x[flags]
    flags[:] = False
    half[-1] = True
    return np.sum(taken**2) + np.sum(x[half.nonzero()[0]]) + np.sum(x * counts) + 3.0 * np.sum(x[flags])


def test_written_flags_are_seen_through_views():
    cache = nt.prepare_gradient_cache(seen_through_views, np.ones(6))
    for n in (6, 9, 4, 7, 3, 12):
        for sign in (1, -1):
            x = sign * np.random.default_rng(n).normal(size=n)
            np.testing.assert_allclose(nt.value_and_gradient(cache, x)[0], seen_through_views(x), rtol=1e-12)


def test_a_mask_is_as_long_as_its_axis():
    cache = nt.prepare_gradient_cache(
        lambda x, y: np.sum(x[np.arange(len(y)) < 2]) * y[0], np.ones(5), np.ones(5)
    )
    assert nt.value_and_gradient(cache, np.ones(7), np.ones(7))[0] == 2.0
    with pytest.raises(IndexError, match="did not match"):
        nt.value_and_gradient(cache, np.ones(7), np.ones(6))


def test_a_mask_of_pairs_is_as_large_as_the_matrix():
    cache = nt.prepare_gradient_cache(
        lambda x, y: np.sum(np.outer(x, x)[~np.eye(len(y), dtype=bool)]), np.ones(5), np.ones(5)
    )
    assert nt.value_and_gradient(cache, np.ones(7), np.ones(7))[0] == 42.0
    with pytest.raises(IndexError, match="did not match"):
        nt.value_and_gradient(cache, np.ones(7), np.ones(6))


def test_a_number_as_position_beside_an_array_of_them():
    table = np.arange(10.0)

    def f(x):
        return table[math.floor(2.0 * x[0])] * x[1] + table[x.astype(int)][1] * x[0]

    x = np.array([1.2, 3.4])
    np.testing.assert_array_equal(nt.grad(f)(x), [3.0, 2.0])


def test_no_positions_at_first():
    """What is written nowhere in the first call may be written somewhere in the next one."""

    def f(x, places):
        y = x.copy()
        y[places] = x[0] * 2.0
        return np.sum(y**2)

    cache = nt.prepare_gradient_cache(f, np.ones(4), nt.Constant(np.array([], int)))
    for places in ([1, 2], [], [3], [0, 0, 1]):
        x, places = np.arange(1.0, 5.0), np.array(places, int)
        assert nt.value_and_gradient(cache, x, places)[0] == f(x, places)
