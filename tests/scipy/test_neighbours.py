"""Assignments, neighbours, triangulations and hulls: positions are data, found again in each call."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial
from scipy.optimize import linear_sum_assignment
from scipy.spatial import ConvexHull, Delaunay, KDTree, cKDTree, distance_matrix

import numbatape as nt

A = np.random.default_rng(0).normal(size=(12, 2))
TREE, TRIANGLES, HULL = KDTree(A), Delaunay(A), ConvexHull(A)


def assigned(cost):
    rows, columns = linear_sum_assignment(cost)
    return np.sum(cost[rows, columns])


def repelled(b):
    pairs = KDTree(b).query_pairs(1.0, output_type="ndarray")
    return np.sum(1.0 / np.sum((b[pairs[:, 0]] - b[pairs[:, 1]]) ** 2, -1))


def solid(b):
    hull = ConvexHull(np.concatenate([b, np.sin(3.0 * b[:, :1])], 1))
    return hull.volume * hull.area


PROGRAMS = {
    "assignment": lambda b: assigned(distance_matrix(A[:9], b)),
    "assignment of most": lambda b: np.sum(b[linear_sum_assignment(b, maximize=True)]),
    "distance_matrix": lambda b: np.sum(np.sin(distance_matrix(A, b, p=1))),
    "nearest": lambda b: np.sum(np.sin(TREE.query(b)[0])) + np.sum(A[TREE.query(b)[1]] * b),
    "several": lambda b: np.sum(np.sin(TREE.query(b, k=3)[0])),
    "a single point": lambda b: TREE.query(b[0])[0],
    "tree of traced points": lambda b: np.sum(np.sin(KDTree(b).query(A, k=2)[0])),
    "both": lambda b: np.sum(np.sin(cKDTree(b).query(b, k=[2, 3], p=1)[0])),
    "greatest coordinate": lambda b: np.sum(np.sin(cKDTree(b).query(b, k=[2, 3], p=np.inf)[0])),
    "too far": lambda b: np.sum(np.exp(-scipy.spatial.KDTree(b).query(b, k=4, distance_upper_bound=1.0)[0])),
    "around a box": lambda b: np.sum(np.sin(KDTree(b % 1.0, boxsize=1.0).query(b % 1.0, k=3)[0])),
    "pairs": repelled,
    "ball": lambda b: np.sum(b[KDTree(b).query_ball_point(b[0], 1.5)] ** 3),
    "balls": lambda b: sum(np.sum(A[i] @ b[0]) for i in TREE.query_ball_point(b[:2], 1.0)),
    "balls around plain points": lambda b: sum(
        np.sum(b[i] ** 2) for i in KDTree(b).query_ball_point(A[:2], 2.0)
    ),
    "numbers in balls": lambda b: np.sum(b[:, 0] * KDTree(b).query_ball_point(b, 1.0, return_length=True)),
    "numbers of pairs": lambda b: KDTree(b).count_neighbors(TREE, 1.0) * b[0, 0],
    "numbers of pairs, several": lambda b: np.sum(
        TREE.count_neighbors(KDTree(b), np.array([0.5, 1.0])) * b[:2, 0]
    ),
    "hull": lambda b: ConvexHull(b).volume + ConvexHull(b).area,
    "corners": lambda b: np.sum(np.sin(b[ConvexHull(b).vertices])),
    "solid": solid,
    "triangles": lambda b: np.sum(np.prod(b[Delaunay(b).simplices], -1)),
    "inside": lambda b: np.sum(np.where(TRIANGLES.find_simplex(b) >= 0, b[:, 0] ** 2, b[:, 1])),
    "of plain points": lambda b: HULL.volume * np.sum(A[HULL.vertices] @ b.T) + TREE.n,
}


@pytest.mark.filterwarnings(
    "ignore:`(distance_matrix|minkowski_distance(_p)?)` is deprecated"
)  # in SciPy 1.18
@pytest.mark.parametrize("name", PROGRAMS)
def test_positions_follow_the_points(name):
    """Values and gradients of one cache, for points among which other ones are neighbours."""
    f, cache = PROGRAMS[name], None
    for seed in range(3):
        b = np.random.default_rng(10 + seed).normal(size=(7, 2))
        cache = nt.prepare_gradient_cache(f, b) if cache is None else cache
        value, (slope,) = nt.value_and_gradient(cache, b)
        np.testing.assert_allclose(value, f(b), rtol=1e-12)
        steps = 1e-6 * np.eye(b.size).reshape(-1, *b.shape)
        differences = np.reshape([(f(b + d) - f(b - d)) / 2e-6 for d in steps], b.shape)
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-7)
    direction = np.cos(b)
    np.testing.assert_allclose(nt.jvp(f, (b,), (direction,))[1], np.sum(slope * direction), rtol=1e-9)


def test_positions_are_scipys():
    b = np.random.default_rng(5).normal(size=(7, 2))
    f = lambda b: np.ravel(TREE.query(b, k=3, distance_upper_bound=0.7)[1]) + 0.0 * b[0, 0]  # noqa: E731
    np.testing.assert_array_equal(nt.vjp(f, b)[0], f(b))


def test_errors_of_scipy_come_out():
    f = lambda c: assigned(np.where(c > 0.0, c, np.inf))  # noqa: E731
    slope = nt.grad(f)
    np.testing.assert_array_equal(slope(1.0 + np.eye(2)), [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="infeasible"):
        slope(-np.ones((2, 2)))


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda b: len(KDTree(b).query_ball_point(b[0], b[0, 1])) * b[0, 0], "query_ball_point.*query_pairs"),
        (lambda b: TREE.count_neighbors(KDTree(b), b[0, 0]) * b[0, 0], "count_neighbors.*query_pairs"),
        (lambda b: len(KDTree(b).query_pairs(1.0)) * b[0, 0], "output_type='ndarray'"),
        (lambda b: np.sum(ConvexHull(b).equations * b[0, 0]), "equations.*volume"),
    ],
)
def test_what_there_is_not(f, message):
    with pytest.raises(nt.UnsupportedOperationError, match=message):
        nt.grad(f)(A)
