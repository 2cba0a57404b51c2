"""``scipy.spatial.distance``: distances between points, of all pairs or one by one."""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy.special as sc

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sized import indices, triu_indices
from ...numpy_api.stand_ins import stands_for
from ...tape.size_tables import ROOT
from ...trace.axes import length
from ...trace.operands import is_wrong, lift_all, lift_first
from ...trace.symbolic_sizes import is_size, seen

# ---- distances: of all pairs of rows, x of shape (m, 1, k) and y of (1, n, k)


def _root(total):
    """Return roots whose derivative at zero is zero: a point's distance from itself."""
    zero = np.equal(total, 0.0)
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, total)))


def _as_floats(x):
    return np.astype(x, float) if x.dtype.kind in "iub" else x


def _as_doubles(x):
    """Return what SciPy's compiled metrics read: of complex numbers the real parts."""
    return _as_floats(np.real(x))


def _squares(x):
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else _as_floats(x) ** 2


def _total(terms, w):
    return np.sum(terms if w is None else w * terms, -1)


def _require_valid(w=None, p=1.0, **_):
    """Raise SciPy's errors for options; of traced ones these are guards."""
    if w is not None and is_wrong(np.any(np.less(w, 0.0))):
        raise ValueError("Input weights should be all non-negative")
    if is_wrong(p <= 0.0):
        raise ValueError("p must be greater than 0")


def _cosine(x, y, w=None):
    return 1.0 - _total(x * y, w) / (np.sqrt(_total(x * x, w)) * np.sqrt(_total(y * y, w)))


def _correlation(x, y, w=None):
    if w is not None:
        w = w / np.sum(w)
        return _cosine(x - _total(x, w)[..., None], y - _total(y, w)[..., None], w)
    return _cosine(x - np.mean(x, -1, keepdims=True), y - np.mean(y, -1, keepdims=True))


def _minkowski(x, y, p=2.0, w=None):
    if np.isinf(p):
        return _chebyshev(x, y, w)
    total = _total(np.abs(_as_floats(x - y)) ** p, w)
    zero = np.equal(total, 0.0)
    return np.where(zero, 0.0, np.where(zero, 1.0, total) ** (1.0 / p))


def _chebyshev(x, y, w=None):
    apart = np.abs(x - y)
    return np.max(apart if w is None else np.where(np.greater(w, 0.0), apart, 0.0), -1)


def _canberra(x, y, w=None, omits=False):
    both = np.abs(x) + np.abs(y)
    zero = np.equal(both, 0.0)
    terms = np.where(zero, 0.0, np.abs(x - y) / np.where(zero, 1.0, both))
    return _total(np.where(np.isnan(terms), 0.0, terms) if omits else terms, w)


def _mahalanobis(x, y, VI):
    d = x - y
    return _root(np.sum(np.matmul(d, VI) * d, -1))


def _seuclidean(x, y, V):
    return _root(np.sum(_squares(x - y) / V, -1))


METRICS = {
    "euclidean": lambda x, y, w=None: _root(_total(_squares(x - y), w)),
    "sqeuclidean": lambda x, y, w=None: _total((_as_floats(x) - _as_floats(y)) ** 2, w),
    "cityblock": lambda x, y, w=None: _total(np.abs(x - y), w),
    "chebyshev": _chebyshev,
    "cosine": _cosine,
    "correlation": _correlation,
    "minkowski": _minkowski,
    "canberra": _canberra,
    "jensenshannon": lambda x, y, base=None: jensenshannon(x, y, base, axis=-1),
    "braycurtis": lambda x, y, w=None: _total(np.abs(x - y), w) / _total(np.abs(x + y), w),
    "mahalanobis": _mahalanobis,
    "seuclidean": _seuclidean,
}


def _chosen(metric, options, points):
    """Return the function of two arrays of points that a metric is, and its options; ``points`` are all.

    A function is SciPy's metric of the same name, as in SciPy; the user's own one gets one pair at a time.
    """
    name = metric.lower() if isinstance(metric, str) else getattr(metric, "__name__", "")
    if name in METRICS:
        _require_valid(**options)
        if name == "seuclidean" and options.get("V") is None:
            options = {**options, "V": np.var(points(), 0, ddof=1)}
        if name == "mahalanobis" and options.get("VI") is None:
            options = {**options, "VI": np.linalg.inv(np.atleast_2d(np.cov(points().T))).T}
        return METRICS[name], options
    if callable(metric):
        return functools.partial(_one_by_one, metric), options
    known = ", ".join(METRICS)
    raise unsupported_argument("scipy.spatial.distance", f"metric={metric!r}", f"{known}, and functions are")


def _one_by_one(metric, x, y, **options):
    """Return the user's metric of points with equal or broadcast places, one pair after the other."""
    sides = np.broadcast_shapes(np.shape(x)[:-1], np.shape(y)[:-1])
    pairs = [np.broadcast_to(points, (*sides, np.shape(points)[-1])) for points in (x, y)]
    found = [metric(pairs[0][place], pairs[1][place], **options) for place in np.ndindex(*sides)]
    return np.reshape(np.stack(found) if found else np.zeros(0), sides)


@stands_for("scipy.spatial.distance", "cdist")
def cdist(XA, XB, metric="euclidean", *, out=None, **options):
    if out is not None:
        raise unsupported_argument("scipy.spatial.distance.cdist", "out", "take the result")
    x, y = lift_all(XA, XB)
    distance, options = _chosen(metric, options, lambda: _as_doubles(np.concatenate([x, y])))
    if distance in METRICS.values():  # SciPy's own metrics compute with doubles
        x, y = _as_doubles(x), _as_doubles(y)
    return distance(x[:, None, :], y[None, :, :], **options)


def _pairs(x):
    """Return the first and the second of all pairs of rows, for any number of rows."""
    count = length(x, 0)
    return triu_indices(x._trace, count, 1) if is_size(count) else np.triu_indices(count, 1)


@stands_for("scipy.spatial.distance", "pdist")
def pdist(X, metric="euclidean", *, out=None, **options):
    if out is not None:
        raise unsupported_argument("scipy.spatial.distance.pdist", "out", "take the result")
    x = lift_first(X)
    rows, cols = _pairs(x)
    distance, options = _chosen(metric, options, lambda: _as_doubles(x))
    if distance in METRICS.values():
        x = _as_doubles(x)
    return distance(x[rows], x[cols], **options)


@stands_for("scipy.spatial.distance", "jensenshannon")
def jensenshannon(p, q, base=None, *, axis=0, keepdims=False):
    # Each sum is divided by its weight in the end, in place of each entry before: the slope of an entry that
    # is zero is infinite, and through the weights it would reach the slopes of all others.
    p, q = lift_all(p, q)
    weight, other = np.sum(p, axis, keepdims=True), np.sum(q, axis, keepdims=True)
    # Measures whose sums are negative become distributions, too.
    p, q = p * np.sign(weight), q * np.sign(other)
    weight, other = np.abs(weight), np.abs(other)
    total = np.sum(sc.rel_entr(p, (p + q * (weight / other)) / 2.0), axis, keepdims=True) / weight
    total = total + np.sum(sc.rel_entr(q, (q + p * (other / weight)) / 2.0), axis, keepdims=True) / other
    total = total if keepdims else np.squeeze(total, axis)
    # The sum may be just below zero where distributions are equal but for rounding.
    return _root(np.maximum(total, 0.0) / (2.0 if base is None else 2.0 * np.log(base)))


@stands_for("scipy.spatial.distance", "mahalanobis")
def mahalanobis(u, v, VI):
    return _mahalanobis(*lift_all(u, v, VI))


@stands_for("scipy.spatial", "minkowski_distance")
def minkowski_distance(x, y, p=2.0):
    """Return distances, for ``distance_matrix``, too; of points to themselves SciPy's root has no slope."""
    x, y = lift_all(x, y)
    return _minkowski(x, y, p)


@stands_for("scipy.spatial.distance", "squareform")
def squareform(X, force="no", checks=True):
    x = lift_first(X)
    if x.ndim == 2:
        if length(x, 0) != length(x, 1):
            raise ValueError("The matrix argument must be square.")
        if checks and is_wrong(np.any(np.not_equal(x, x.T))):
            raise ValueError("Distance matrix 'X' must be symmetric.")
        if checks and is_wrong(np.any(np.not_equal(np.diagonal(x), 0.0))):
            raise ValueError("Distance matrix 'X' diagonal must be zero.")
        return x[_pairs(x)]
    count = _points(x._trace, length(x, 0))
    rows, cols = indices(x._trace, (count, count)) if is_size(count) else np.indices((count, count))
    first, last = np.minimum(rows, cols), np.maximum(rows, cols)
    place = np.where(first == last, 0, first * (2 * count - first - 1) // 2 + last - first)
    return np.concatenate([np.zeros(1), x])[place]


def _points(trace, pairs):
    """Return of how many points these are the numbers of all pairs; one point has no pairs."""
    if not is_size(pairs):
        return math.isqrt(2 * pairs) + 1
    table = trace.tape.sizes
    count = table.add(table.rounded(ROOT, table.mul(pairs._code, 2), 0), 1)
    table.guard(table.mul(count, table.sub(count, 1)), "==", table.mul(pairs._code, 2), trace.line())
    return seen(trace, count)


for _name in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra",
              "braycurtis", "minkowski"):  # fmt: skip

    def _single(u, v, *args, _name=_name, centered=True, **options):
        u, v = lift_all(u, v)
        if _name == "minkowski" and args:
            options["p"], *args = args
        if args:
            options["w"], *args = args
        if args:
            (centered,) = args
        _require_valid(**options)
        if _name in ("canberra", "braycurtis"):  # SciPy converts the second vector only
            v = _as_doubles(v)
        if _name == "canberra":  # SciPy leaves NaN out here, and not in `cdist`
            options["omits"] = True
        return METRICS[_name if centered else "cosine"](u, v, **options)

    stands_for("scipy.spatial.distance", _name)(_single)
