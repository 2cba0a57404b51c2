"""Searches among traced points: neighbours, triangulations, hulls, and the assignment of least cost.

What a search finds are positions: data, which is found again in each call and has no derivative. Distances
and volumes are computed from the points at these positions, so they have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import scipy.optimize

from ...errors import UnsupportedOperationError
from ...numpy_api.creation import as_doubles
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all, lift_first
from ...trace.plain_arrays import as_ndarrays
from ...trace.trace import failing
from ...usercode.frames import not_supported, where_in_user_code
from .distances import METRICS


@stands_for("scipy.optimize", "linear_sum_assignment", run=None)
def linear_sum_assignment(cost_matrix, maximize=False):
    cost = lift_first(cost_matrix)
    solve = scipy.optimize.linear_sum_assignment
    search = Search("scipy.optimize.linear_sum_assignment", lambda cost: solve(cost, maximize), (cost,))
    pairs = search.positions("positions", np.stack)
    return pairs[0], pairs[1]


def _rows(points, positions):
    """Return the points at positions, of which either may be traced."""
    points, positions = lift_all(points, positions)
    return points[positions]


class Points:
    """The stand-in for one of SciPy's objects that are made of points.

    Parameters
    ----------
    make
        SciPy's class.
    points
        The points, one a row, traced or not.
    options : dict
        Further arguments of the class.
    made
        SciPy's object, where it exists: if the points are not traced.
    """

    counted: ClassVar[dict[str, str]] = {}  # attributes that are arrays of positions, and what their rows are

    def __init__(self, make, points, options: dict, made=None):
        self._make, self._options, self._made = make, options, made
        self._points = points
        self._found = Search(self._name, lambda points: make(points, **options), (points,))

    @property
    def _name(self) -> str:
        return f"scipy.spatial.{self._make.__name__}"

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._made is None:
            if name in self.counted:
                return self._found.counted(self.counted[name], lambda found: getattr(found, name))
            raise self._refuse(name)
        value = getattr(self._made, name)
        if not callable(value):
            return value

        def method(*args, **kwargs):
            args, kwargs = as_ndarrays(args), as_ndarrays(kwargs)
            if find_trace(args, tuple(kwargs.values())) is not None:
                raise self._refuse(name)
            return value(*args, **kwargs)

        return method

    def _refuse(self, name: str) -> UnsupportedOperationError:
        own = [key for key in vars(type(self)) if not key.startswith("_") and key != "counted"]
        known = ", ".join([*self.counted, *own])
        return not_supported(f"{self._name}.{name} of traced values", f"these are: {known}")

    def _searched(self, what: str, points, take: Callable) -> Search:
        """Return the search for some traced points in SciPy's object, which plain points make only once."""
        name = f"{self._name}.{what}"
        if self._made is not None:
            return Search(name, lambda x: take(self._made, x), (points,))
        if find_trace(points) is None:
            return Search(name, lambda own: take(self._make(own, **self._options), points), (self._points,))
        return Search(name, lambda own, x: take(self._make(own, **self._options), x), (self._points, points))


class Tree(Points):
    """The stand-in for ``KDTree`` and ``cKDTree``."""

    @property
    def data(self):
        """The points."""
        return self._points

    @property
    def n(self) -> int:
        """The number of points."""
        return int(np.shape(self._points)[0])

    @property
    def m(self) -> int:
        """The number of coordinates."""
        return int(np.shape(self._points)[1])

    def query(self, x, k=1, eps=0.0, p=2.0, distance_upper_bound=np.inf, workers=1):
        """Return the distances of the nearest neighbours, and their positions."""
        x = as_ndarrays(x)
        if self._made is not None and find_trace(x) is None:
            return self._made.query(x, k, eps, p, distance_upper_bound, workers=workers)
        x = as_doubles(lift_first(x)) if find_trace(x) is not None else np.asarray(x, float)
        search = self._searched(
            "query", x, lambda tree, x: tree.query(x, k, eps, p, distance_upper_bound, workers=workers)
        )
        nearest = search.positions("positions", lambda found: found[1])
        missing = np.equal(nearest, self.n)  # SciPy's position for a neighbour that is too far away
        others = _rows(self._points, np.where(missing, 0, nearest))
        x = x if nearest.ndim < x.ndim else x[..., None, :]
        return np.where(missing, np.inf, self._distance(x, others, p)), nearest

    def query_pairs(self, r, p=2.0, eps=0, output_type="set"):
        """Return the positions of all pairs of points that are near to each other."""
        if self._made is not None:
            return self._made.query_pairs(r, p, eps, output_type=output_type)
        if output_type != "ndarray":
            raise UnsupportedOperationError(
                f"{self._name}.query_pairs of traced points at {where_in_user_code()} returns an array: pass "
                "output_type='ndarray'"
            )
        return self._found.counted("pairs", lambda tree: tree.query_pairs(r, p, eps, output_type="ndarray"))

    def query_ball_point(self, x, r, p=2.0, eps=0, workers=1, return_sorted=None, return_length=False):
        """Return the positions of the points in a ball around each point of x, or how many these are.

        The positions are arrays where SciPy returns lists. How many there are is a guard.
        """
        x = as_ndarrays(x)
        if find_trace(r) is not None:
            raise self._refuse("query_ball_point(r=...)")
        if self._made is not None and find_trace(x) is None:
            return self._made.query_ball_point(x, r, p, eps, workers, return_sorted, return_length)
        x = as_doubles(lift_first(x)) if find_trace(x) is not None else np.asarray(x, float)

        def balls(tree, x):
            return tree.query_ball_point(x, r, p, eps, workers, return_sorted, return_length)

        search = self._searched("query_ball_point", x, balls)
        if return_length:
            return search.positions("numbers of neighbours", lambda found: found)
        if x.ndim == 1:
            return search.counted("neighbours", lambda found: found)
        if x.ndim > 2:
            raise self._refuse("query_ball_point of points in more than one axis")
        return [search.counted("neighbours", lambda found, k=k: found[k]) for k in range(x.shape[0])]

    def count_neighbors(self, other, r, p=2.0, weights=None, cumulative=True):
        """Return how many pairs of a point here and one of another tree are near to each other."""
        other = other if isinstance(other, Tree) else stand_in_of(other)
        if weights is not None or find_trace(r) is not None:
            raise self._refuse(f"count_neighbors({'r' if weights is None else 'weights'}=...)")
        if self._made is not None and other._made is not None:
            return self._made.count_neighbors(other._made, r, p, None, cumulative)

        def counts(tree, points):
            return tree.count_neighbors(other._make(points, **other._options), r, p, None, cumulative)

        search = self._searched("count_neighbors", other._points, counts)
        return search.positions("numbers of pairs", lambda found: found)

    def _distance(self, x, y, p):
        box = self._options.get("boxsize") if self._made is None else self._made.boxsize
        if box is not None:  # distances go around the box; a side of no length is open
            box = np.broadcast_to(np.asarray(box, float), (self.m,))
            round_trip = np.where(box > 0.0, box, 1.0)
            turns = np.where(box > 0.0, np.round((x - y) / round_trip), 0.0)
            x = x - turns * round_trip
        return METRICS["euclidean"](x, y) if p == 2.0 else METRICS["minkowski"](x, y, p)


class Triangulation(Points):
    """The stand-in for ``Delaunay``."""

    counted: ClassVar = {"simplices": "simplices", "neighbors": "simplices", "convex_hull": "facets"}

    @property
    def points(self):
        """The points."""
        return self._points

    def find_simplex(self, xi, bruteforce=False, tol=None):
        """Return the positions of the simplices that points are in, -1 outside of all."""
        xi = as_ndarrays(xi)
        if self._made is not None and find_trace(xi) is None:
            return self._made.find_simplex(xi, bruteforce, tol)
        search = self._searched("find_simplex", xi, lambda found, x: found.find_simplex(x, bruteforce, tol))
        return search.positions("positions", lambda found: found)


class Hull(Points):
    """The stand-in for ``ConvexHull``."""

    counted: ClassVar = {"vertices": "vertices", "simplices": "facets", "neighbors": "facets"}

    @property
    def points(self):
        """The points."""
        return self._points

    @property
    def volume(self):
        """The volume; in a plane, the area."""
        corners = _rows(self._points, self.simplices)
        middle = np.mean(_rows(self._points, self.vertices), 0)
        return np.sum(np.abs(np.linalg.det(corners - middle))) / math.factorial(int(corners.shape[-1]))

    @property
    def area(self):
        """The area of the surface; in a plane, the length of the boundary."""
        corners = _rows(self._points, self.simplices)
        sides = corners[:, 1:] - corners[:, :1]
        sizes = np.sqrt(np.linalg.det(np.matmul(sides, np.swapaxes(sides, -1, -2))))
        return np.sum(sizes) / math.factorial(int(corners.shape[-1]) - 1)


CLASSES: dict[str, type[Points]] = {
    "KDTree": Tree,
    "cKDTree": Tree,
    "Delaunay": Triangulation,
    "ConvexHull": Hull,
}


def stand_in_of(value) -> Points | None:
    """Return the stand-in for a tree, a triangulation or a hull that was made outside, or None."""
    kind = CLASSES.get(type(value).__name__)
    if kind is None:
        return None
    points = np.asarray(value.data if kind is Tree else value.points)
    return kind(type(value), points, {}, value)


def _make(original):
    """Return what makes the stand-in for an object in a traced function."""
    kind = CLASSES[original.__name__]

    def make(points, *args, **options):
        points = as_ndarrays(points)
        trace = find_trace(points)
        if trace is None:
            return stand_in_of(original(points, *args, **options))
        if args:
            raise UnsupportedOperationError(
                f"scipy.spatial.{original.__name__} of traced points at {where_in_user_code()} takes its "
                "options by name"
            )
        with failing(trace):
            return kind(original, as_doubles(lift_first(points)), options)

    return make


for _name in CLASSES:
    MAKERS["scipy.spatial"][_name] = _make
