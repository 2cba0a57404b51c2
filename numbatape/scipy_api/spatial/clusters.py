"""``scipy.cluster`` of traced points: which cluster a point belongs to is data, and found again in each call.

Means of clusters and distances from them are computed from the points, so they have derivatives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import scipy.cluster.vq

from ...errors import UnsupportedOperationError
from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import with_original
from ...rules.searches import Search
from ...trace.operands import find_trace, is_wrong, lift_all, lift_first
from ...usercode.frames import where_in_user_code


def vq(original, obs, code_book, check_finite=True):
    obs, code_book = lift_all(obs, code_book)
    search = Search("scipy.cluster.vq.vq", lambda x, y: original(x, y)[0], (obs, code_book))
    codes = search.positions("clusters", np.asarray)
    gaps = obs - code_book[codes]
    return codes, np.abs(gaps) if obs.ndim == 1 else np.linalg.norm(gaps, axis=1)


def _require_number(name: str, options: dict, instead: str) -> None:
    """Raise if a function draws where it starts by something else than a number."""
    number = options.get("rng", options.get("seed"))
    if not isinstance(number, (int, np.integer)):
        raise UnsupportedOperationError(
            f"{name} at {where_in_user_code()} draws where it starts: pass a number as rng=, so that each "
            f"call draws the same, or {instead}"
        )


def kmeans(original, obs, k_or_guess, *args, **kwargs):
    """Return the means of clusters, and the mean distance from them."""
    name = "scipy.cluster.vq.kmeans"
    options = inspect.signature(original).bind(obs, k_or_guess, *args, **kwargs).arguments
    del options["obs"], options["k_or_guess"]
    if np.ndim(k_or_guess) == 0:
        _require_number(name, options, "centroids instead of their number")
    obs, starts = lift_first(obs), (k_or_guess,) if find_trace(k_or_guess) is not None else ()

    def find(x, *start):
        book, distortion = original(x, *(start or (k_or_guess,)), **options)
        codes, gaps = scipy.cluster.vq.vq(x, book)
        means = np.stack([np.mean(x[codes == k], 0) for k in range(len(book))])
        if not (np.allclose(means, book, 1e-9, 1e-12) and np.isclose(np.mean(gaps), distortion, 1e-9)):
            raise UnsupportedOperationError(
                f"{name} stopped before its centroids were the means of their clusters, so they have no "
                "derivative: lower thresh="
            )
        return codes

    labels = Search(name, find, (obs, *map(lift_first, starts))).positions("clusters", np.asarray)
    members = np.equal(labels, np.arange(int(np.max(labels)) + 1)[:, None]) * 1.0
    counts = np.sum(members, 1)
    centroids = members @ obs / (counts if obs.ndim == 1 else counts[:, None])
    gaps = obs - centroids[labels]
    return centroids, np.mean(np.abs(gaps) if obs.ndim == 1 else np.linalg.norm(gaps, axis=1))


def kmeans2(original, data, k, *args, **kwargs):
    name = "scipy.cluster.vq.kmeans2"
    options = inspect.signature(original).bind(data, k, *args, **kwargs).arguments
    del options["data"], options["k"]
    if options.get("minit") != "matrix":
        _require_number(name, options, "centroids with minit='matrix'")
    data = lift_first(data, k)
    starts = (k,) if find_trace(k) is not None else ()
    search = Search(
        name, lambda x, *start: original(x, *(start or (k,)), **options), (data, *map(lift_first, starts))
    )
    labels = search.positions("clusters", lambda found: found[1])
    centroids = search.numbers("centroids", lambda found: found[0])
    members = np.equal(labels, np.arange(centroids.shape[0])[:, None]) * 1.0
    counts = np.sum(members, 1)
    shaped = counts if data.ndim == 1 else counts[:, None]
    means = members @ data / np.where(np.equal(shaped, 0.0), 1.0, shaped)
    return np.where(np.equal(shaped, 0.0), centroids, means), labels  # a cluster without members stays


def whiten(original, obs, check_finite=True):
    obs = lift_first(obs)
    if check_finite and is_wrong(np.any(~np.isfinite(obs))):
        raise ValueError("array must not contain infs or NaNs")
    spread = np.std(obs, 0)
    return obs / np.where(np.equal(spread, 0.0), 1.0, spread)


class Links:
    """What `linkage` of traced points returns: clusters that are found when `fcluster` asks for them."""

    def __init__(self, find: Callable, points):
        self.find, self.points = find, points

    def _refuse(self, *_, **__):
        raise UnsupportedOperationError(
            f"the numbers in scipy.cluster.hierarchy.linkage of traced points at {where_in_user_code()} are "
            "not supported; fcluster of them is"
        )

    __array__ = __getitem__ = __iter__ = __len__ = _refuse


def linkage(original, y, method="single", metric="euclidean", optimal_ordering=False):
    return Links(lambda y: original(y, method, metric, optimal_ordering), lift_first(y))


def _fcluster(original):
    def fcluster(Z, t, *args, **kwargs):
        if not isinstance(Z, Links):
            return original(Z, t, *args, **kwargs)
        search = Search(
            "scipy.cluster.hierarchy.fcluster",
            lambda points: original(Z.find(points), t, *args, **kwargs),
            (Z.points,),
        )
        return search.positions("clusters", np.asarray)

    return fcluster


def fclusterdata(original, X, t, *args, **kwargs):
    search = Search(
        "scipy.cluster.hierarchy.fclusterdata", lambda X: original(X, t, *args, **kwargs), (lift_first(X),)
    )
    return search.positions("clusters", np.asarray)


for _module, _functions in {
    "vq": (vq, kmeans, kmeans2, whiten),
    "hierarchy": (linkage, fclusterdata),
}.items():
    MAKERS[f"scipy.cluster.{_module}"].update(
        {function.__name__: with_original(function) for function in _functions}
    )
MAKERS["scipy.cluster.hierarchy"]["fcluster"] = _fcluster
