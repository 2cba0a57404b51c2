"""NumPy's functions of traced arrays: values, derivatives, replay, errors. One table, a few laws."""

from __future__ import annotations

import functools
import math
import zlib

import numba
import numpy as np
import pytest
import scipy.linalg as sl
import scipy.special
import scipy.special as sc
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import numbatape as nt
from numbatape.recording.record import InputLeaf, Output, record
from numbatape.stand_ins.rebinding import rebind
from numbatape.tape.tape import ACTIVE
from tests.every_case import OLDER, every, of_these_versions

V, W, M, N, C = (5,), (4,), (3, 4), (4, 3), (2, 3, 4)
WEIGHTS = np.array([[1.0, 2.0], [0.0, 1.0], [0.5, 0.3], [2.0, 0.1]])  # along the axes 2 and 0
OF_WEIGHTED = {"method": "inverted_cdf", "keepdims": True}
SQUARE, STACK = (3, 3), (2, 3, 3)
MASK = np.array([True, False, True, True, False])
GRID = np.arange(12).reshape(3, 4) % 5 < 3


def pd(a):
    """Return a positive definite matrix."""
    return a @ np.swapaxes(a, -1, -2) + 3.0 * np.eye(a.shape[-1])


def at_raveled_place(x):
    place = np.argmax(x[:, 0]), np.argmax(x[0])
    return np.ravel(x)[np.ravel_multi_index(place, (3, 4), order="c")] * x


@numba.njit
def compiled(x):
    return math.exp(x) * 2.0


def case(name, f, *shapes, low=-2.0, high=2.0):
    return pytest.param(f, shapes, (low, high), id=name)


def positive(name, f, *shapes):
    return case(name, f, *shapes, low=0.2, high=3.0)


REDUCTIONS = [
    case(f"{name}{label}", lambda x, g=name, o=options: getattr(np, g)(x, **o), shape)
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "ptp")
    for label, options, shape in (
        ("", {}, M),
        ("-axis0", {"axis": 0}, C),
        ("-negative", {"axis": -2}, C),
        ("-axes", {"axis": (0, 2)}, C),
        ("-keepdims", {"axis": 1, "keepdims": True}, C),
        ("-allkeep", {"keepdims": True}, M),
        ("-noaxes", {"axis": ()}, M),
    )
    if not (name in ("var", "std", "ptp") and options.get("axis") == ())
]

MASKED = [
    case("sum-where", lambda x: np.sum(x, 1, where=GRID), M),
    case("sum-initial", lambda x, y: np.sum(x, 0, initial=y), M, ()),
    case("sum-float32", lambda x: np.sum(x, dtype=np.float32), V),
    case("prod-where", lambda x: np.prod(x, where=GRID, initial=2.0), M),
    case("mean-where", lambda x: np.mean(x, 1, where=GRID, keepdims=True), M),
    case("mean-traced-where", lambda x: np.mean(x, 1, where=x > -1.0), M),
    case("var-where", lambda x: np.var(x, 1, where=GRID), M),
    case("var-ddof", lambda x: np.var(x, 0, ddof=1), M),
    case("var-correction", lambda x: np.var(x, 0, correction=1), M),
    case("var-mean", lambda x, m: np.var(x, 0, mean=m), M, (1, 4)),
    case("var-negative-correction", lambda x: np.var(x, 0, correction=-2), M),
    case("std-ddof", lambda x: np.std(x, ddof=2), M),
    case("dot-named", lambda x, y: np.dot(x, b=y), M, (4, 2)),
    case("norm-named", lambda x: np.linalg.norm(x=x), M),
    case("tile-named", lambda x: np.tile(A=[x[0], x[1]], reps=2), M),
    case("polyval-named", lambda x, p: np.polyval(p=p, x=x), M, (3,)),
    case("std-negative-ddof", lambda x: np.std(x, ddof=-9), M),
    case("cov-negative-ddof", lambda x: np.cov(x, ddof=-1), M),
    case("max-initial", lambda x: np.max(x, 1, initial=0.5), M),
    case("max-where", lambda x: np.max(x, 1, initial=-9.0, where=GRID), M),
    case("min-traced-initial", lambda x, y: np.min(x, initial=y), M, ()),
    case("max-empty", lambda x: np.max(x, 1, initial=0.5), (3, 0)),
    case("sum-empty", lambda x: np.sum(x, 0), (0, 3)),
    case("sum-bool", lambda x: np.sum(x > 0) * x, V),
    case("any", lambda x: np.where(np.any(x > 1, 1), 2.0, 3.0) * x[:, 0], M),
    case("all", lambda x: np.all(x > -9, axis=(0, 1)) * x, M),
    case("any-where", lambda x: np.any(x, where=MASK) + x, V),
    case("argmax", lambda x: np.argmax(x) + 0.0 * x, M),
    case("argmin-axis", lambda x: np.argmin(x, 1, keepdims=True) * x, M),
    case("argmax-picks", lambda x: x[np.arange(3), np.argmax(x, 1)], M),
    case("count_nonzero", lambda x: np.count_nonzero(x > 0, axis=1) * x[:, 0], M),
    case("count_nonzero-all", lambda x: np.count_nonzero(x > 0) * x, M),
    case("cumsum", lambda x: np.cumsum(x), M),
    case("cumsum-axis", lambda x: np.cumsum(x, 1), C),
    case("cumprod", lambda x: np.cumprod(x, axis=-1), M),
    case("cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), M),
    case("cumulative_prod", lambda x: np.cumulative_prod(x, include_initial=True), V),
    case("logaddexp-reduce", lambda x: np.logaddexp.reduce(x, 1), M),
    case("logaddexp-reduce-none", lambda x: np.logaddexp.reduce(x), V),
    case("average", lambda x, w: np.average(x, 1, w**2 + 0.1), M, W),
    case("average-same", lambda x: np.average(x, weights=x**2 + 1), M),
    case("average-plain", lambda x: np.average(x, axis=(0, 1), keepdims=True), M),
    case("average-returned", lambda x: np.average(x, 0, np.arange(1.0, 4.0), True), M),
    case("nansum", lambda x: np.nansum(np.where(GRID, x, np.nan), 0), M),
    case("nanmean", lambda x: np.nanmean(np.where(GRID, x, np.nan), 1), M),
    case("nanvar", lambda x: np.nanvar(np.where(GRID, x, np.nan), 1), M),
    case("nanstd", lambda x: np.nanstd(np.where(GRID, x, np.nan)), M),
    case("nanmax", lambda x: np.nanmax(np.where(GRID, x, np.nan), 1), M),
    case("nanmin", lambda x: np.nanmin(np.where(GRID, x, np.nan)), M),
    case("nanprod", lambda x: np.nanprod(np.where(GRID, x, np.nan), 1), M),
    case("nanmedian", lambda x: np.nanmedian(np.where(GRID, x, np.nan), 1), M),
    case("nanmedian-all", lambda x: np.nanmedian(np.where(GRID, x, np.nan), keepdims=True), M),
    case("nanquantile", lambda x: np.nanquantile(np.where(GRID, x, np.nan), [0.2, 0.7], 0, keepdims=True), M),
    case("nanpercentile", lambda x: np.nanpercentile(np.where(GRID, x, np.nan), 35.0, 1), M),
    case(
        "nanmedian-axes", lambda x: np.nanmedian(np.where(GRID, x, np.nan), (-1, 0), keepdims=True), C[:1] + M
    ),
    case("nanquantile-axes", lambda x: np.nanquantile(np.where(GRID, x, np.nan), [0.2, 0.7], (0, 2)), C),
    case("quantile-hazen", lambda x: np.quantile(x, [0.1, 0.4, 1.0], 1, method="hazen"), M),
    case("quantile-weights", lambda x, w: np.quantile(x, [0.1, 1.0], 1, weights=w**2, **OF_WEIGHTED), M, M),
    *(  # older versions of NumPy give the weights to other entries
        []
        if OLDER
        else [
            case(
                "quantile-weights-axes",
                lambda x: np.quantile(x, 0.6, (2, 0), weights=WEIGHTS, **OF_WEIGHTED),
                C,
            )
        ]
    ),
    case("percentile-weights", lambda x: np.percentile(x, 30, weights=[1, 0, 3, 2, 5], **OF_WEIGHTED), V),
    case("quantile-nearest", lambda x: np.quantile(x, 0.3, method="nearest"), M),
    case("percentile-inverted", lambda x: np.percentile(x, [[30], [60]], method="averaged_inverted_cdf"), M),
    case("cov-aweights", lambda x: np.cov(x, aweights=[1.0, 2.0, 3.0, 4.0]), M),
    case("cov-weights", lambda x: np.cov(x, fweights=[1, 2, 3, 4], aweights=np.arange(1.0, 5.0), ddof=0), M),
    case("cov-traced-weights", lambda x, w: np.cov(x, aweights=w**2 + 0.1), M, W),
    case("interp-period", lambda x, f: np.interp(5 * x, [3.0, 0.2, 2.0, 1.1, 0.7], f, period=-3.5), V, V),
    case("norm-3", lambda x: np.linalg.norm(x, 3, axis=1), M),
    case("norm-of-list", lambda x: np.linalg.norm([x[0], 2.0 * x[1]]), V),
    case("det-of-lists", lambda x: np.linalg.det([[x[0], x[1]], [0.3, x[2]]]), V),
    case("diag-of-list", lambda x: np.diag([x[0], 1.0, x[2]]), V),
    case("concatenate-lists", lambda x: np.concatenate([[x[0]], [1.0, x[1]], x]), V),
    case("stack-lists", lambda x: np.stack([[x[0], 1.0], [2.0, x[1]]]), V),
    case("append-lists", lambda x: np.append([x[0]], [1.0, x[1]]), V),
    case("argmax-list", lambda x: np.argmax([x[0], x[1], 0.3]) * x, V),
    case("isclose-math", lambda x: x * math.isclose(x[0], x[0] + 1e-12) + x * math.isclose(x[0], x[1]), V),
    case("ldexp-modf-math", lambda x: math.ldexp(x[0], 3) + math.modf(x[1])[0] * x, V),
    case("nanargmax", lambda x: np.nanargmax(np.where(GRID, x, np.nan), 1) * x[:, 0], M),
    case("nanargmin", lambda x: np.nanargmin(np.where(GRID, x, np.nan)) * x, M),
    case("angle", lambda x: np.angle(x) * x + np.angle(x, deg=True), M),
    case("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, [0, 2]), C),
    positive("geomspace", lambda x, y: np.geomspace(x, y, 5), (), V),
    case("polysub", lambda p, q: np.polysub(p, q), V, W),
    case("polyint", lambda p: np.polyint(p, 2, [1.0, 2.0]), V),
    case("polyfit", lambda y: np.polyfit(np.arange(5.0), y, 2, w=np.arange(1.0, 6.0)), V),
    case("polyfit-cov", lambda x, y: np.sum(np.sin(np.polyfit(x, y, 1, w=y + 9.0, cov=True)[1])), V, V),
    case("polyfit-unscaled", lambda x: np.polyfit(x, np.ones((5, 2)), 1, cov="unscaled")[1], V),
    case("polyfit-abscissae", lambda x, y: np.polyfit(x + np.arange(5.0) * 4, y, 1), V, (5, 2)),
    case("nancumsum", lambda x: np.nancumsum(np.where(GRID, x, np.nan), 1), M),
    case("nancumprod", lambda x: np.nancumprod(np.where(GRID, x, np.nan)), M),
    case("cov", lambda x: np.cov(x), M),
    case("cov-two", lambda x, y: np.cov(x, y, bias=True), V, V),
    case("corrcoef", lambda x: np.corrcoef(x), M),
]

ORDERING = [
    case("sort", np.sort, M),
    case("sort-axis0", lambda x: np.sort(x, 0), M),
    case("sort-none", lambda x: np.sort(x, None), M),
    case("argsort", lambda x: np.argsort(x, 0) * x, M),
    case("argsort-picks", lambda x: x[np.argsort(x)], V),
    case("median", lambda x: np.median(x), M),
    case("median-odd", lambda x: np.median(x, 0, keepdims=True), M),
    case("median-axes", lambda x: np.median(x, (0, 2)), C),
    case("quantile", lambda x: np.quantile(x, 0.3, 1), M),
    case("quantile-many", lambda x: np.quantile(x, [0.0, 0.25, 1.0], axis=0), M),
    case("percentile", lambda x: np.percentile(x, 65.0, keepdims=True), M),
    case("nonzero", lambda x: x[np.nonzero(x > 0)], M),
    case("flatnonzero", lambda x: np.ravel(x)[np.flatnonzero(x > 0)], M),
    case("trim_zeros", lambda x: np.trim_zeros(x * np.array([0.0, 1.0, 0.0, 2.0, 0.0])[: x.size]), V),
    case("trim_zeros-axis", lambda x: np.trim_zeros(np.pad(x, 1), "b", axis=0) * 2.0, M),
    case("asarray_chkfinite", lambda x: np.asarray_chkfinite([x[0], x[1] * 2.0]) ** 2, V),
    case("argwhere", lambda x: np.argwhere(x > 0)[0] * x[0, 0], M),
    case("searchsorted", lambda x: np.searchsorted(np.array([-1.0, 0.0, 1.0]), x, "right") * x, M),
    case("digitize", lambda x: np.digitize(x, np.array([-1.0, 0.0, 1.0])) * x, M),
    case("digitize-down", lambda x: np.digitize(x, np.array([1.0, 0.0, -1.0]), right=True) * x, M),
    case("unique", np.unique, M),
    case("unravel_index-small", lambda x: x[np.unravel_index(np.argmax(x), (3, 4), order="c")] * x, M),
    case("ravel_multi_index-small", at_raveled_place, M),
]

SHAPES = [
    case("reshape", lambda x: np.reshape(x, (2, -1)), M),
    case("reshape-F", lambda x: np.reshape(x, (6, 2), order="F"), M),
    case(
        "reshape-small-letter", lambda x: np.reshape(x, (6, 2), order="f") * x.T.reshape((6, 2), order="c"), M
    ),
    case("ravel-small-letter", lambda x: np.ravel(x, "f") * x.flatten("k") * np.ravel(x.T, "a"), M),
    case("reshape-transposed", lambda x: x.T.reshape(-1), M),
    case("ravel-F", lambda x: np.ravel(x, "F"), M),
    case("ravel-K", lambda x: np.ravel(x.T, "K") * np.ravel(x, "A"), M),
    case("transpose", lambda x: np.transpose(x, (1, 2, 0)), C),
    case("transpose-method", lambda x: x.transpose(2, 0, 1) * x.T.transpose(0, 2, 1), C),
    case("swapaxes", lambda x: np.swapaxes(x, 0, -1), C),
    case("matrix_transpose", np.matrix_transpose, C),
    case("moveaxis", lambda x: np.moveaxis(x, (0, 1), (-1, 0)), C),
    case("rollaxis", lambda x: np.rollaxis(x, 2, 1), C),
    case("expand_dims", lambda x: np.expand_dims(x, (0, -1)), M),
    case("squeeze", lambda x: np.squeeze(x[None, :, None]), V),
    case("squeeze-axis", lambda x: np.squeeze(x[None, :, None], 0), V),
    case("squeeze-scalar", lambda x: np.squeeze(x), (1, 1)),
    case("broadcast_to", lambda x: np.broadcast_to(x, (3, 2, 4)), (2, 1)),
    case("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y, 1.0), (3, 1), W),
    case("atleast_1d", lambda x, y: np.atleast_1d(x, y), (), V),
    case("atleast_2d", lambda x: np.atleast_2d(x), V),
    case("atleast_3d", lambda x: [np.atleast_3d(x), np.atleast_3d(x[0]), np.atleast_3d(x[0, 0])], M),
    case("split", lambda x: np.split(x, 2, 1), M),
    case("split-places", lambda x: np.split(x, [1, 3, 7]), V),
    case("array_split", lambda x: np.array_split(x, 3), V),
    case("hsplit", lambda x: np.hsplit(x, 2), M),
    case("vsplit", lambda x: np.vsplit(x, [1]), M),
    case("dsplit", lambda x: np.dsplit(x, 2), C),
    case("unstack", lambda x: np.unstack(x, axis=1), M),
    case("flip", lambda x: np.flip(x), M),
    case("flip-axis", lambda x: np.flip(x, 1), C),
    case("fliplr", np.fliplr, M),
    case("flipud", np.flipud, M),
    *[case(f"rot90-{k}", lambda x, k=k: np.rot90(x, k), M) for k in range(4)],
    case("rot90-axes", lambda x: np.rot90(x, -1, (1, 2)), C),
    case("diagonal", np.diagonal, SQUARE),
    case("diagonal-offset", lambda x: np.diagonal(x, 1, 0, 2), C),
    case("diagonal-below", lambda x: np.diagonal(x, -1), M),
    case("meshgrid", lambda x, y: np.meshgrid(x, y), V, W),
    case("meshgrid-ij", lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), V, W),
    case("copy", lambda x: np.copy(x), M),
]

JOINS = [
    case("concatenate", lambda x, y: np.concatenate([x, y]), M, (2, 4)),
    case("concatenate-axis", lambda x, y: np.concatenate((x, np.ones((3, 1)), y), -1), M, (3, 2)),
    case("concatenate-none", lambda x, y: np.concatenate([x, y], None), M, V),
    case("concatenate-float32", lambda x: np.concatenate([x, x], dtype=np.float32, casting="same_kind"), V),
    case("stack", lambda x, y: np.stack([x, y, np.zeros(5)], 1), V, V),
    case("stack-scalars", lambda x: np.stack([x[0], 2.0, x[1] * x[2]]), V),
    case("stack-array", lambda x: np.stack(x, -1), M),
    case("hstack", lambda x, y: np.hstack([x, y, 1.0]), V, ()),
    case("hstack-matrices", lambda x, y: np.hstack([x, y]), M, (3, 2)),
    case("vstack", lambda x, y: np.vstack([x, y]), W, M),
    case("dstack", lambda x, y: np.dstack([x, y]), M, M),
    case("column_stack", lambda x, y: np.column_stack([x, y, np.ones(3)]), (3,), (3, 2)),
    case("append", lambda x, y: np.append(x, y), M, ()),
    case("append-axis", lambda x, y: np.append(x, y, 1), M, (3, 1)),
    case("block", lambda x, y: np.block([[x, np.zeros((3, 1))], [y, 2.0]]), M, W),
    case("block-row", lambda x, y: np.block([x, y]), V, ()),
    case("tile", lambda x: np.tile(x, 2), M),
    case("tile-more", lambda x: np.tile(x, (2, 1, 3)), M),
    case("repeat", lambda x: np.repeat(x, 3), M),
    case("repeat-axis", lambda x: np.repeat(x, 2, 1), M),
    case("repeat-counts", lambda x: np.repeat(x, [1, 0, 2], axis=0), M),
    case("roll", lambda x: np.roll(x, 2), V),
    case("roll-all", lambda x: np.roll(x, -5), M),
    case("roll-by-several", lambda x: np.roll(x, (1, 2, -5)), M),
    case("roll-axes", lambda x: np.roll(x, (1, 7), (0, 1)), M),
    case("resize", lambda x: np.resize(x, (2, 4)), V),
    case("pad", lambda x: np.pad(x, ((1, 0), (0, 2))), M),
    case("pad-value", lambda x: np.pad(x, 1, constant_values=7.0), V),
    case("pad-edge", lambda x: np.pad(x, 2, mode="edge"), M),
    case("pad-reflect", lambda x: np.pad(x, (2, 1), mode="reflect"), V),
    case("pad-wrap", lambda x: np.pad(x, ((0, 0), (1, 2)), "wrap"), M),
]

BUILDS = [
    case("diag", lambda x: np.diag(x), V),
    case("diag-above", lambda x: np.diag(x, 2), V),
    case("diag-below", lambda x: np.diag(x, -1), V),
    case("diag-matrix", lambda x: np.diag(x, 1), M),
    case("diagflat", lambda x: np.diagflat(x), (2, 2)),
    case("tril", lambda x: np.tril(x, -1), M),
    case("triu", lambda x: np.triu(x, 1), C),
    case("tril-vector", lambda x: np.tril(x), V),
    case("zeros_like", lambda x: np.zeros_like(x) + x, M),
    case("ones_like", lambda x: np.ones_like(x, dtype=float) * x, M),
    case("full_like", lambda x, y: np.full_like(x, y), M, ()),
    case("full_like-row", lambda x, y: np.full_like(x, y), M, W),
    case("astype-float32", lambda x: x.astype(np.float32).astype(float), V),
    case("astype-int", lambda x: x.astype(int) * x, V),
    case("astype-bool", lambda x: (x > 0).astype(float) * x, V),
    case("real-imag", lambda x: np.real(x) + np.imag(x) + x.real * np.conj(x), V),
    case("linspace", lambda a, b: np.linspace(a, b, 7), (), ()),
    case("linspace-open", lambda a: np.linspace(a, 2.0, 4, endpoint=False), (2,)),
    case("linspace-axis", lambda a, b: np.linspace(a, b, 4, axis=1), (2,), (2,)),
    case("linspace-step", lambda a, b: np.linspace(a, b, 4, retstep=True), (), ()),
    case("linspace-one", lambda a, b: np.linspace(a, b, 1), (), ()),
    case("logspace", lambda a, b: np.logspace(a, b, 4), (), ()),
    case("vander", lambda x: np.vander(x, 3), V),
    case("vander-none", lambda x: np.concatenate([np.vander(x, 0)[:, :0], x[:, None]], 1), V),
    case("vander-empty", lambda x: np.sum(np.vander(x[:0])) + x, V),
    case("joined-rows", lambda x, y: np.r_["0,2", x, y, [x[0], 1.0, 2.0, x[1]]], W, (3, 4)),
    case("joined-columns", lambda x: np.r_["1,2,0", x, x**2], V),
    case("vander-up", lambda x: np.vander(x, increasing=True), W),
    case("tril_indices_from", lambda x: x[np.tril_indices_from(x)], SQUARE),
    case("ix_", lambda x: np.ix_(x, x)[0] * x, V),
]

SELECTIONS = [
    case("where", lambda x, y: np.where(x > y, x, y * 2), M, W),
    case("where-scalar", lambda x: np.where(GRID, x, 0.0), M),
    case("where-number", lambda x: np.where(np.arange(5) % 2, x, 1.0), V),
    case("where-positions", lambda x: x[np.where(x > 0)], M),
    case("where-safe", lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), x), V),
    case("clip", lambda x: np.clip(x, -0.5, 0.7), M),
    case("clip-one", lambda x: np.clip(x, None, 0.7), M),
    case("clip-traced", lambda x, lo: np.clip(x, min=lo, max=lo + 1), M, W),
    case("clip-where", lambda x: np.clip(x, -0.5, 0.7, where=x > -1.0, out=2.0 * x), M),
    case("clip-plain", lambda lo: np.clip(np.linspace(-2, 2, 5), lo, None), V),
    case("select", lambda x: np.select([x < -1, x < 1], [x**2, x], 3.0), M),
    case("piecewise-rows", lambda x: np.piecewise(x, [x[:, 0] < 0], [lambda v: v**2, lambda v: 3.0 * v]), M),
    case("piecewise-array", lambda x: np.piecewise(x, np.array([x < 0, x > 1]), [lambda v: v**2, np.exp]), V),
    case("piecewise-number", lambda x: np.piecewise(x, x > 0, [lambda v: v**2, np.exp]), ()),
    case("piecewise", lambda x: np.piecewise(x, [x < 0, x > 1], [lambda v: v**2, np.exp, 0.5]), V),
    case("nan_to_num", lambda x: np.nan_to_num(np.where(GRID, x, np.nan), nan=2.0), M),
    case(
        "nan_to_num-by-position",
        lambda x: np.nan_to_num(
            x * np.resize([1.0, np.nan, np.inf, -np.inf], 12).reshape(3, 4), True, 5, 6, 7
        ),
        M,
    ),
    case("nan_to_num-by-traced", lambda x, v: np.nan_to_num(np.where(GRID, x, np.nan), nan=v), M, ()),
    # NumPy 2.5 warns of np.fix
    *(
        [case("fix", lambda x: np.fix(3 * x, None) * x, V)]
        if np.lib.NumpyVersion(np.__version__) < "2.5.0"
        else []
    ),
    case("hypot-reduce-number", lambda x: np.hypot.reduce(x), ()),
    case("hypot-reduce-over-none", lambda x: np.hypot.reduce(x, axis=(), initial=2.0), V),
    case("take", lambda x: np.take(x, [0, 3, -1, 3], 1), M),
    case("take-flat", lambda x: np.take(x, [[0, 7], [3, 3]]), M),
    case("take-clip", lambda x: np.take(x, [9, -9, 1], mode="clip"), V),
    case("take-wrap", lambda x: np.take(x, [9, -9, 1], mode="wrap"), V),
    case("take-scalar", lambda x: np.take(x, 2, axis=1), M),
    case("take-found", lambda x: np.take(x, [[np.argmax(x), 0], [1, np.argmin(x)]]), V),
    case("ix-found", lambda x: np.outer(x, x)[np.ix_([np.argmax(x), 1], [0, np.argmin(x)])], V),
    case("unravel-found", lambda x: np.outer(x, x)[np.unravel_index([np.argmax(x), 3], (2, 2))], V),
    case("take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, 1), 1), M),
    case("take_along_axis-0", lambda x: np.take_along_axis(x, np.array([[0, 1, 2, -1]]), 0), M),
    case("take_along_axis-none", lambda x: np.take_along_axis(x, np.array([0, 5]), None), M),
    case("choose", lambda x, y: np.choose([0, 1, 1, 0], [x, y]), W, ()),
    case("compress", lambda x: np.compress([True, False, True], x, 0), M),
    case("compress-traced", lambda x: np.compress(x[:, 0] > 0, x, axis=0), (6, 2)),
    case("extract", lambda x: np.extract(x > 0, x), M),
    case("delete", lambda x: np.delete(x, [0, 2], 1), M),
    case("insert", lambda x: np.insert(x, 1, 9.0, axis=1), M),
    case("apply_along_axis", lambda x: np.apply_along_axis(lambda v: v[0] * v, 1, x), C),
    case("mask", lambda x: x[x > 0] * 2, M),
    case("mask-constant", lambda x: x[MASK], V),
]

PREDICATES = [
    case("isclose", lambda x: np.isclose(x, x + 1e-9) * x, V),
    case("allclose", lambda x: x * 2 if np.allclose(x, x) else x, V),
    case("array_equal", lambda x: x * 2 if np.array_equal(x, x) else x, V),
    case("shape", lambda x: x * np.shape(x)[0] * np.ndim(x) * np.size(x, 1), M),
    case("result_type", lambda x: x.astype(np.result_type(x, np.float32)), V),
    case("round", lambda x: np.round(x) + x, V),
    case("round-digits", lambda x: np.round(1.234, 2) * x + np.round(x, 1) * 0, V),
    case("round-tens", lambda x: np.round(x * 100, -3) + x, V),
    case("sinc", np.sinc, V),
    case("i0", np.i0, V),
]

PRODUCTS = [
    case("dot-vectors", np.dot, V, V),
    case("dot-matrix-vector", np.dot, M, W),
    case("dot-vector-matrix", np.dot, (3,), M),
    case("dot-matrices", np.dot, M, N),
    case("dot-scalar", np.dot, (), M),
    case("dot-tensors", np.dot, C, (2, 4, 3)),
    case("dot-tensor-vector", np.dot, C, W),
    case("dot-vector-tensor", np.dot, (3,), (2, 3, 2)),
    case("matmul", np.matmul, M, N),
    case("matmul-operator", lambda x, y: x @ y @ x, M, N),
    case("matmul-vectors", lambda x, y: x @ y, V, V),
    case("matmul-vector-matrix", np.matmul, (3,), M),
    case("matmul-matrix-vector", np.matmul, M, W),
    case("matmul-stack", np.matmul, C, (2, 4, 2)),
    case("matmul-stack-matrix", np.matmul, C, (4, 2)),
    case("matmul-matrix-stack", np.matmul, (2, 3), C),
    case("matmul-broadcast", np.matmul, (2, 1, 3, 2), (3, 2, 2)),
    case("matmul-stack-vector", np.matmul, C, W),
    case("matmul-vector-stack", np.matmul, (3,), C),
    case("matmul-self", lambda x: x @ x.T, M),
    case("matmul-constant", lambda x: np.arange(6.0).reshape(2, 3) @ x, M),
    case("inner", np.inner, M, (2, 4)),
    case("inner-vectors", np.inner, V, V),
    case("vdot", np.vdot, M, M),
    case("vecdot", lambda x, y: np.vecdot(x, y), C, W),
    case("vecdot-axis-dtype", lambda x: np.vecdot(x, x[0] * x, axis=0, keepdims=True, dtype=float), SQUARE),
    case("vecdot-axes", lambda x, y: np.vecdot(x, y, axes=[1, (-1,)]), C, (4, 3)),
    case("matmul-axes", lambda x: np.matmul(x, x**2, axes=[(0, 1), (1, 0), (1, 0)], dtype=float), SQUARE),
    case("linalg.vecdot", lambda x, y: np.linalg.vecdot(x, y, axis=0), M, M),
    case("matvec", lambda x, y: np.matvec(x, y), C, W),
    case("vecmat", lambda x, y: np.vecmat(x, y), (3,), C),
    case("outer", np.outer, V, M),
    case("linalg.outer", np.linalg.outer, V, W),
    case("multiply.outer", np.multiply.outer, V, M),
    case("tensordot", np.tensordot, C, (3, 4, 2)),
    case("tensordot-axes", lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])), C, (4, 2, 3)),
    case("tensordot-0", lambda x, y: np.tensordot(x, y, 0), V, W),
    case("tensordot-axis", lambda x, y: np.tensordot(x, y, (1, 0)), C, M),
    case("kron", np.kron, M, (2, 2)),
    case("kron-uneven", np.kron, V, (2, 2)),
    case("trace", np.trace, SQUARE),
    case("trace-offset", lambda x: np.trace(x, 1, 0, 2), C),
    case("cross", np.cross, (4, 3), (3,)),
    case("cross-axis", lambda x, y: np.cross(x, y, axis=0), (3, 2), (3, 2)),
    *[
        case(f"einsum {text}", lambda *xs, t=text: np.einsum(t, *xs), *shapes)
        for text, shapes in (
            ("ij,jk->ik", (M, N)),
            ("ij,jk", (M, N)),
            ("ii", (SQUARE,)),
            ("ii->i", (SQUARE,)),
            ("ij->ji", (M,)),
            ("ij->", (M,)),
            ("ji", (M,)),
            ("ij,ij->i", (M, M)),
            ("ij,ij", (M, M)),
            ("i,j->ij", (V, W)),
            ("i,j->ji", (V, W)),
            ("bij,bjk->bik", (C, (2, 4, 2))),
            ("bij,bjk->kbi", (C, (2, 4, 2))),
            ("...ij,...jk->...ik", ((2, 1, 3, 2), (3, 2, 4))),
            ("...i->...", (C,)),
            ("i...,i...", (M, M)),
            ("iij,jk->ik", ((3, 3, 4), (4, 2))),
            ("ij,jk,kl->il", (M, N, (3, 2))),
            ("i,ij,j", ((3,), M, W)),
            ("a,b,c->abc", ((2,), (3,), (4,))),
            ("ab,bc,cd,de->ae", ((2, 3), (3, 4), (4, 2), (2, 3))),
            ("ij, k -> i", (M, V)),
            ("ij,ij->ij", ((3, 1), M)),
            (",ij->j", ((), M)),
            ("ijk,k->ij", (C, W)),
        )
    ],
    case("einsum-dtype", lambda x: np.einsum("ij,ij->i", x > 0, x, dtype=float, casting="unsafe"), M),
    case("einsum-lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), M, N),
    case("einsum-twice", lambda x: np.einsum("ij,ik->jk", x, x), M),
]

LINALG = [
    case("cholesky", lambda a: np.linalg.cholesky(pd(a)), SQUARE),
    case("cholesky-upper", lambda a: np.linalg.cholesky(pd(a), upper=True), SQUARE),
    case("cholesky-stack", lambda a: np.linalg.cholesky(pd(a)), STACK),
    case("solve", lambda a, b: np.linalg.solve(pd(a), b), SQUARE, (3,)),
    case("solve-matrix", lambda a, b: np.linalg.solve(pd(a), b), SQUARE, (3, 2)),
    case("solve-stack", lambda a, b: np.linalg.solve(pd(a), b), STACK, (3, 2)),
    case("solve-stack-vector", lambda a, b: np.linalg.solve(pd(a), b), STACK, (3,)),
    case("inv", lambda a: np.linalg.inv(pd(a)), STACK),
    case("det", np.linalg.det, STACK),
    case("slogdet", lambda a: np.linalg.slogdet(pd(a)).logabsdet, STACK),
    case("slogdet-sign", lambda a: np.linalg.slogdet(a)[0] * a[0, 0], SQUARE),
    *[
        case(f"norm-{order}-{axis}", lambda x, o=order, a=axis: np.linalg.norm(x, o, a), shape)
        for order, axis, shape in (
            *[(o, None, V) for o in (None, 2, 1, np.inf, -np.inf, 3, 0.5)],
            *[(o, None, M) for o in (None, "fro", 1, -1, np.inf, -np.inf)],
            *[(o, 1, C) for o in (None, 2, 1, np.inf)],
            *[(o, (2, 0), C) for o in (None, "fro", 1, np.inf)],
            (None, None, C),
        )
    ],
    case("norm-keepdims", lambda x: np.linalg.norm(x, 1, (0, 2), True), C),
    case("vector_norm", lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=3), C),
    case("vector_norm-all", lambda x: np.linalg.vector_norm(x, keepdims=True), M),
    case("matrix_norm", lambda x: np.linalg.matrix_norm(x), C),
    case("matrix_norm-1", lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True), C),
    *[
        case(f"matrix_power-{k}", lambda a, k=k: np.linalg.matrix_power(pd(a) / 9, k) * a, SQUARE)
        for k in (-2, 0, 1, 5)
    ],
    case("multi_dot", lambda *xs: np.linalg.multi_dot(xs), (2, 3), (3, 4), (4, 2)),
    case("multi_dot-vectors", lambda *xs: np.linalg.multi_dot(xs), (3,), (3, 4), (4,)),
    case("eigh-values", lambda a: np.linalg.eigh(a)[0], STACK),
    case("eigh-vectors", lambda a: np.linalg.eigh(a.T).eigenvectors, SQUARE),
    case("eigh-both", lambda a: np.concatenate(np.linalg.eigh(a[0])[::-1], None), STACK),
    case("eigvalsh", lambda a: np.linalg.eigvalsh(a[:, ::-1]), SQUARE),
    case("svd-square", lambda a: np.linalg.svd(a)[0], SQUARE),
    case("svd-wide", lambda a: np.linalg.svd(a, full_matrices=False).Vh, M),
    case("svd-tall", lambda a: np.linalg.svd(a, full_matrices=False).U, (2, 4, 3)),
    case("svd-values", lambda a: np.linalg.svd(a, compute_uv=False), C),
    case("svdvals", lambda a: np.linalg.svdvals(a.T), M),
    case("qr-tall", lambda a: np.linalg.qr(a)[0], (2, 4, 3)),
    case("qr-wide", lambda a: np.linalg.qr(a)[1], M),
    case("qr-wide-q", lambda a: np.linalg.qr(a).Q, C),
    case("qr-r", lambda a: np.linalg.qr(a, "r"), N),
    case("qr-complete", lambda a: np.linalg.qr(a, "complete")[0], SQUARE),
    case("pinv", lambda a: np.linalg.pinv(a), M),
    case("pinv-tall", lambda a: np.linalg.pinv(a), (2, 4, 3)),
    case("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], N, W),
    case("lstsq-residuals", lambda a, b: np.linalg.lstsq(a, b)[1], N, (4, 2)),
    case("lstsq-wide", lambda a, b: np.linalg.lstsq(a, b)[0], M, (3,)),
    case("cond", lambda a: np.linalg.cond(a), STACK),
    case("cond-1", lambda a: np.linalg.cond(a, 1), SQUARE),
    case("norm-2", lambda x: np.linalg.norm(x, 2), M),
    case("norm-nuc", lambda x: np.linalg.norm(x, "nuc", (0, 2), True), C),
    case("matrix_norm-smallest", lambda x: np.linalg.matrix_norm(x, ord=-2), C),
    case("matrix_rank", lambda x: np.linalg.matrix_rank(x) * x[..., 0, 0], C),
    case("tensorinv", lambda a: np.linalg.tensorinv(a + np.eye(4).reshape(4, 2, 2) * 4, 1), (4, 2, 2)),
    case(
        "tensorsolve", lambda a, b: np.linalg.tensorsolve(a + 4 * np.eye(4).reshape(4, 2, 2), b), (4, 2, 2), W
    ),
    case("linalg.trace", lambda x: np.linalg.trace(x, offset=1), C),
    case("linalg.diagonal", lambda x: np.linalg.diagonal(x), C),
    case("linalg.matrix_transpose", np.linalg.matrix_transpose, C),
    case("linalg.cross", np.linalg.cross, (4, 3), (4, 3)),
    case("linalg.tensordot", lambda x, y: np.linalg.tensordot(x, y, axes=1), M, N),
    case("linalg.matmul", np.linalg.matmul, M, N),
]

NUMERIC = [
    case("diff", np.diff, M),
    case("diff-2", lambda x: np.diff(x, 2, 0), (4, 2)),
    case("diff-ends", lambda x, y: np.diff(x, prepend=y, append=1.0), V, ()),
    case("diff-short", lambda x: np.diff(x, 3), (2,)),
    case("ediff1d", lambda x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=0.0), M),
    case("ediff1d_lists", lambda x: np.ediff1d(x, to_end=[x[0, 0], 2.0], to_begin=x[1, 1]), M),
    case("gradient", lambda x: np.gradient(x), V),
    case("gradient-both", lambda x: np.gradient(x, 0.5), M),
    case("gradient-points", lambda x: np.gradient(x, np.array([0.0, 0.5, 2.0, 2.5, 4.0])), V),
    case("gradient-edges", lambda x: np.gradient(x, 0.5, axis=0, edge_order=2), (5, 2)),
    case("gradient-edges-points", lambda x: np.gradient(x, np.arange(5.0) ** 2, edge_order=2), V),
    case("trapezoid", np.trapezoid, M),
    case("trapezoid-points", lambda y, x: np.trapezoid(y, x, axis=0), M, (3,)),
    case("trapezoid-dx", lambda y: np.trapezoid(y, dx=0.1, axis=0), M),
    *[
        case(f"{name}-{mode}-{a}-{b}", lambda x, y, f=name, m=mode: getattr(np, f)(x, y, m), (a,), (b,))
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for a, b in ((5, 3), (2, 5), (4, 4), (5, 2))
    ],
    case("convolve-self", lambda x: np.convolve(x, x), V),
    case("interp", lambda x, fp: np.interp(x, np.array([-1.5, 0.0, 0.5, 1.0]), fp), V, W),
    case("interp-number", lambda xp, x: np.interp(x, np.sort(xp), xp), W, ()),
    case("interp-ends", lambda x: np.interp(x, [-1.0, 0.0, 1.0], [1.0, 3.0, 2.0], left=-5.0, right=7.0), V),
    case("bincount", lambda w: np.bincount([0, 3, 1, 3, 0], w, 6), V),
    case("polyval", lambda p, x: np.polyval(p, x), W, V),
    case("polyval-number", lambda p, x: np.polyval(p, x), W, ()),
    case("polyder", lambda p: np.polyder(p, 2), V),
    case("polyadd", lambda p, q: np.polyadd(p, q), W, V),
    case("polymul", lambda p, q: np.polymul(p, q), W, V),
    case("unwrap", lambda x: np.unwrap(3 * x), V),
]

CASES = [
    *REDUCTIONS, *MASKED, *ORDERING, *SHAPES, *JOINS, *BUILDS, *SELECTIONS, *PREDICATES, *PRODUCTS,
    *LINALG, *NUMERIC,
]  # fmt: skip


def arguments(shapes, bounds, seed):
    rng = np.random.default_rng(seed)
    draws = [rng.uniform(*bounds, size=shape) for shape in shapes]
    return [np.float64(x) if np.ndim(x) == 0 else x for x in draws]


def named(cases) -> list:
    """Return (name, function, shapes, bounds) of cases."""
    return of_these_versions(
        [(case.id, *case.values) for case in cases], lambda case: case[1](*arguments(*case[2:], 0))
    )


def seed_of(name) -> int:
    return zlib.crc32(name.encode())


def leaves(tree) -> list:
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def same_kind(result, expected):
    assert type(result) is type(expected), (type(result), type(expected))
    assert np.asarray(result).dtype == np.asarray(expected).dtype
    assert np.shape(result) == np.shape(expected)


@every("name, f, shapes, bounds", named(CASES))
def test_the_traced_value_is_numpys(name, f, shapes, bounds):
    check_traced_value(f, shapes, bounds, seed_of(f"test_the_traced_value_is_numpys[{name}]"))


def check_traced_value(f, shapes, bounds, seed):
    args = arguments(shapes, bounds, seed)
    expected = leaves(f(*args))
    recording = record(f, [InputLeaf(x, ACTIVE) for x in args], lambda traced: (traced, {}))
    assert len(leaves(recording.result)) == len(expected)
    for leaf, its in zip(leaves(recording.result), expected, strict=True):
        value = recording.values[leaf.number] if isinstance(leaf, Output) else leaf
        same_kind(value, its)
        np.testing.assert_array_almost_equal_nulp(np.asarray(value), np.asarray(its), 4)


def close(result, expected, rtol=1e-12, atol=1e-12):
    single = np.asarray(expected).dtype == np.float32
    tolerances = {"rtol": 1e-6, "atol": 1e-6} if single else {"rtol": rtol, "atol": atol}
    np.testing.assert_allclose(np.asarray(result, float), np.asarray(expected, float), **tolerances)


def slope(f, args, directions, weights) -> float:
    """Return the directional derivative of ``sum(weights*f)`` by Richardson extrapolation."""

    def functional(step):
        moved = [x + step * d for x, d in zip(args, directions, strict=True)]
        return sum(np.sum(w * np.asarray(y, float)) for w, y in zip(weights, leaves(f(*moved)), strict=True))

    def central(h):
        return (functional(h) - functional(-h)) / (2 * h)

    h = 1e-3
    rows = [central(h / 2**k) for k in range(4)]
    for k in range(1, 4):
        rows = [(4**k * fine - coarse) / (4**k - 1) for coarse, fine in zip(rows, rows[1:], strict=False)]
    return rows[0]


@every("name, f, shapes, bounds", named(CASES))
def test_replay_and_gradient(name, f, shapes, bounds):
    check_replay_and_gradient(
        f, shapes, bounds, seed_of(f"test_replay_and_gradient[{name}]"), single="float32" in name
    )


def check_replay_and_gradient(f, shapes, bounds, seed, single=False):
    first, second = (arguments(shapes, bounds, seed + k) for k in range(2))
    cache = nt.prepare_pullback_cache(f, *first)
    rng, swept = np.random.default_rng(seed + 2), []
    for args in (first, second):
        copies = [np.array(x) for x in args]
        expected = f(*args)
        weights = [rng.normal(size=np.shape(y)) for y in leaves(expected)]
        ybar = _shaped(expected, iter(weights))
        value, gradients = nt.value_and_pullback(cache, ybar, *args)
        for result, its in zip(leaves(value), leaves(expected), strict=True):
            same_kind(result, its)
            close(result, its)
        for x, copy in zip(args, copies, strict=True):
            np.testing.assert_array_equal(x, copy)
        directions = [rng.normal(size=np.shape(x)) for x in args]
        along = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True) if g is not None)
        if not single:
            expected_slope = slope(f, args, directions, weights)
            assert along == pytest.approx(expected_slope, rel=1e-7, abs=1e-7)
        swept.append((ybar, [value, gradients]))
    ybar, before = swept[0]
    now = nt.value_and_pullback(cache, ybar, *first)  # back to where it was traced
    for result, its in zip(leaves(list(now)), leaves(before), strict=True):
        np.testing.assert_array_equal(result, its)


@every("name, f, shapes, bounds", named([c for c in CASES if len(c.values[1]) > 1]))
def test_constants_change_from_call_to_call(name, f, shapes, bounds):
    """A first argument that is data: the others' gradients are what they were."""
    seed = seed_of(f"test_constants_change_from_call_to_call[{name}]")
    first, second = (arguments(shapes, bounds, seed + k) for k in range(2))
    rng = np.random.default_rng(seed)
    ybar = _shaped(expected := f(*second), iter([rng.normal(size=np.shape(y)) for y in leaves(expected)]))
    whole = nt.value_and_pullback(nt.prepare_pullback_cache(f, *first), ybar, *second)[1]
    cache = nt.prepare_pullback_cache(f, nt.Constant(first[0]), *first[1:])
    value, gradients = nt.value_and_pullback(cache, ybar, second[0], *second[1:])
    for result, its in zip(leaves(value), leaves(expected), strict=True):
        same_kind(result, its)
        close(result, its)
    assert gradients[0] is None
    for part, its in zip(gradients[1:], whole[1:], strict=True):
        if part is not None:
            close(part, its)


def _shaped(tree, parts):
    if isinstance(tree, (tuple, list)):
        return type(tree)(_shaped(part, parts) for part in tree)
    return next(parts)


# ---- float32


FLOAT32 = {
    "sum": lambda x: np.sum(x, 0),
    "mean": lambda x: np.mean(x, 1),
    "var": lambda x: np.var(x),
    "max": lambda x: np.max(x, 0),
    "argmax": lambda x: np.argmax(x) * x,
    "cumsum": lambda x: np.cumsum(x, 1),
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: np.dot(x[0], x[1]),
    "mixed": lambda x: x @ np.ones(4),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "norm": lambda x: np.linalg.norm(x),
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + 3 * np.eye(3, dtype=np.float32)),
    "solve": lambda x: np.linalg.solve(x @ x.T + 3 * np.eye(3, dtype=np.float32), x[:, 0]),
    "det": lambda x: np.linalg.det(x[:, :3]),
    "eigh": lambda x: np.linalg.eigh(x[:, :3]).eigenvectors,
    "svd": lambda x: np.linalg.svd(x, full_matrices=False).U,
    "qr": lambda x: np.linalg.qr(x.T)[1],
    "concatenate": lambda x: np.concatenate([x, np.ones((1, 4), np.float32)]),
    "promoting": lambda x: np.concatenate([x, np.ones((1, 4))]),
    "where": lambda x: np.where(x > 0, x, 0.0),
    "sort": lambda x: np.sort(x, 1),
    "take": lambda x: x[[0, 2, -1]],
    "count": lambda x: np.count_nonzero(x > 0) + np.sum(x > 0, 0),
    "std-float64": lambda x: np.std(x, dtype=np.float64),
    "diag": lambda x: np.diag(x[0]),
    "linspace": lambda x: np.linspace(x[0], x[1], 3),
    "pad": lambda x: np.pad(x, 1),
    "median": lambda x: np.median(x, 0),
    "nan_to_num": lambda x: np.nan_to_num(x),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_stays_what_numpy_makes_of_it(name):
    f = FLOAT32[name]
    x = np.random.default_rng(7).normal(size=M).astype(np.float32)
    expected = f(x)
    cache = nt.prepare_pullback_cache(f, x)
    value, (gradient,) = nt.value_and_pullback(cache, np.ones(np.shape(expected)), x)
    same_kind(value, expected)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    if gradient is not None:
        assert gradient.dtype == np.float32
        double = nt.prepare_pullback_cache(f, x.astype(float))
        _, (exact,) = nt.value_and_pullback(double, np.ones(np.shape(expected)), x.astype(float))
        np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-4)


# ---- sizes


SYMBOLIC = {
    "sum": lambda x: np.sum(x),
    "sum-axis": lambda x: np.sum(x, 0),
    "sum-axes": lambda x: np.sum(x[None], (0, 2)),
    "max": lambda x: np.max(x, 1),
    "prod": lambda x: np.prod(x, 0, keepdims=True),
    "argmax": lambda x: np.argmax(x, 0) * 1.0,
    "any": lambda x: np.where(np.any(x > 0, 1), 1.0, 2.0),
    "cumsum": lambda x: np.cumsum(x, 0),
    "cumsum-all": lambda x: np.cumsum(x),
    "sort": lambda x: np.sort(x, 0),
    "logaddexp": lambda x: np.logaddexp.reduce(x, 1),
    "matmul": lambda x: x @ x.T,
    "matmul-vector": lambda x: x @ x[0],
    "matmul-stack": lambda x: (x[None] @ x.T)[0],
    "dot": lambda x: np.dot(x[:, 0], x[:, 1]),
    "dot-matrix": lambda x: np.dot(x.T, x),
    "outer": lambda x: np.outer(x[:, 0], x[0]),
    "tensordot": lambda x: np.tensordot(x, x, ([0, 1], [0, 1])),
    "tensordot-1": lambda x: np.tensordot(x, x, (0, 0)),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "einsum-sum": lambda x: np.einsum("ij->j", x),
    "einsum-3": lambda x: np.einsum("ij,kj,kl->il", x, x, x),
    "kron": lambda x: np.kron(x, np.ones((2, 1))),
    "transpose": lambda x: x.T,
    "ravel": lambda x: np.ravel(x),
    "reshape": lambda x: x.reshape(-1),
    "reshape-transposed": lambda x: x.T.reshape(-1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[:, None]),
    "concatenate": lambda x: np.concatenate([x, x * 2, np.ones((1, 1)) * x[:1]]),
    "concatenate-1": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack([x, x * x]),
    "hstack": lambda x: np.hstack([x[0], 1.0, x[:, 0]]),
    "where": lambda x: np.where(x > 0, x, x * x),
    "clip": lambda x: np.clip(x, -1, 1),
    "tril": lambda x: np.tril(x),
    "diagonal": lambda x: np.diagonal(x @ x.T),
    "trace": lambda x: np.trace(x @ x.T),
    "cholesky": lambda x: np.linalg.cholesky(np.exp(-((x[:, 0] - x[:, 0][:, None]) ** 2)) + x @ x.T),
    "norm": lambda x: np.linalg.norm(x),
    "norm-axis": lambda x: np.linalg.norm(x, axis=1),
    "flip": lambda x: np.flip(x, 0),
    "roll": lambda x: np.roll(x, 1, 0),
    "diff": lambda x: np.diff(x, axis=0),
    "pad": lambda x: np.pad(x, 1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2, 0),
    "isclose": lambda x: np.isclose(x, 0.0) + x,
    "nan_to_num": lambda x: np.nan_to_num(x),
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0])[1] * x,
    "count_nonzero": lambda x: np.count_nonzero(x > 0, 0) * 1.0,
    "vdot": lambda x: np.vdot(x, x),
    "trapezoid": lambda x: np.trapezoid(x, axis=0),
}


@every("name", SYMBOLIC)
def test_one_tape_serves_all_sizes(name):
    def f(x):
        return np.sum(np.sin(SYMBOLIC[name](x) + 0.1 * np.sum(x)))

    rng = np.random.default_rng(5)
    cache = nt.prepare_gradient_cache(f, rng.normal(size=(4, 3)))
    for shape in ((6, 5), (3, 7)):
        x = rng.normal(size=shape)
        value, (gradient,) = nt.value_and_gradient(cache, x)
        close(value, f(x))
        fresh = nt.prepare_gradient_cache(f, x)
        close(gradient, nt.value_and_gradient(fresh, x)[1][0])
    assert cache._program.traces == 1


# ---- functions that reach no protocol


def norm_of(a, b):
    return math.sqrt(a * a + b * b)


def log_density(x):
    return logsumexp(x) + norm_of(x[0], x[1])


class Model:
    scale = 2.0

    def density(self, x):
        return math.log(x[0] ** 2) * self.scale


BRIDGED = [
    case("logsumexp", lambda x: logsumexp(x), M),
    case("logsumexp-axis", lambda x: sc.logsumexp(x, axis=0, keepdims=True), M),
    case("logsumexp-weights", lambda x, b: scipy.special.logsumexp(x, b=b**2, axis=1), M, W),
    case("logsumexp-sign", lambda x, b: sc.logsumexp(x, b=b, return_sign=True), W, W),
    case("softmax", lambda x: sc.softmax(x, axis=1), M),
    case("log_softmax", lambda x: sc.log_softmax(x), M),
    positive("polygamma", lambda x: sc.polygamma(1, x) + sc.polygamma(0, x), V),
    positive("multigammaln", lambda x: sc.multigammaln(x + 1, 3), ()),
    case("solve_triangular", lambda a, b: sl.solve_triangular(pd(a), b), SQUARE, (3,)),
    case("solve_triangular-lower", lambda a, b: sl.solve_triangular(pd(a), b, lower=True), SQUARE, (3, 2)),
    case("solve_triangular-trans", lambda a, b: sl.solve_triangular(pd(a), b, "T", lower=True), SQUARE, (3,)),
    case("solve_triangular-unit", lambda a, b: sl.solve_triangular(a, b, unit_diagonal=True), SQUARE, (3,)),
    case("sl.cholesky", lambda a: sl.cholesky(pd(a)), SQUARE),
    case("sl.cholesky-lower", lambda a: sl.cholesky(pd(a), lower=True), SQUARE),
    case("cho_factor", lambda a, b: sl.cho_solve(sl.cho_factor(pd(a)), b), SQUARE, (3,)),
    case("cho_factor-lower", lambda a, b: sl.cho_solve(sl.cho_factor(pd(a), lower=True), b), SQUARE, (3, 2)),
    case("cho_factor-itself", lambda a: sl.cho_factor(pd(a))[0], SQUARE),
    case("sl.solve", lambda a, b: sl.solve(pd(a), b), SQUARE, (3,)),
    case("sl.solve-pos", lambda a, b: sl.solve(pd(a), b, assume_a="pos"), SQUARE, (3, 2)),
    case("sl.solve-sym", lambda a, b: sl.solve(a + 3.0 * np.eye(3), b, assume_a="sym"), SQUARE, (3,)),
    case("sl.solve-sym-lower", lambda a, b: sl.solve(pd(a), b, lower=True, assume_a="sym"), SQUARE, (3,)),
    *[
        case(f"sl.solve-{kind}", lambda a, b, kind=kind: sl.solve(a, b, assume_a=kind), SQUARE, (3, 2))
        for kind in ("diagonal", "tridiagonal", "banded", "lower triangular")
    ],
    *[
        case(f"sl.inv-{kind}", lambda a, kind=kind: sl.inv(pd(a), assume_a=kind, lower=True), SQUARE)
        for kind in ("sym", "pos", "upper triangular")
    ],
    case("sl.solve-triangle", lambda a, b: sl.solve(a, b, assume_a="upper triangular"), SQUARE, (3, 2)),
    case("sl.eigvalsh", lambda a: sl.eigvalsh(a), SQUARE),
    case("sl.eigh-values", lambda a: sl.eigh(a, eigvals_only=True, lower=False), SQUARE),
    case("sl.eigh-evd", lambda a: sl.eigh(a, driver="evd")[1], SQUARE),
    case("sl.svd", lambda a: sl.svd(a, full_matrices=False)[2], M),
    case("sl.svdvals", lambda a: sl.svdvals(a), M),
    case("sl.qr", lambda a: sl.qr(a, mode="economic")[1], N),
    case("sl.qr-full", lambda a: sl.qr(a)[0], M),
    case("sl.pinv", lambda a: sl.pinv(a), M),
    case("expm", lambda a: sl.expm(a), SQUARE),
    case("expm-squared", lambda a: sl.expm(7.0 * a), STACK),
    positive("comb", lambda n, k: sc.comb(n + 3.0, k), V, V),
    positive("perm", lambda n, k: sc.perm(n + 3.0, k), V, V),
    positive("factorial", lambda n: sc.factorial(n), V),
    case("pdtr", lambda x: sc.pdtr(np.array([0, 1, 2, 3, 4]), x + 3.0), V),
    positive("gammainc", lambda x: sc.gammainc(2.5, x) + sc.stdtr(3.0, x), V),
    positive("jv", lambda x: sc.jv(2.5, x) * sc.kn(2, x) + sc.expn(2, x), V),
    positive("jvp", lambda x: sc.jvp(2.5, x) + sc.yvp(1, x, 2), V),
    positive("ivp", lambda x: sc.ivp(1, x, 3) * sc.kvp(0.5, x, 1), V),
    case("block_diag", lambda a, b: sl.block_diag(a, b, 2.0), M, V),
    case("toeplitz", lambda c, r: sl.toeplitz(c, r), V, W),
    case("toeplitz-symmetric", lambda c: sl.toeplitz(c), V),
    case("circulant", lambda c: sl.circulant(c), V),
    case("sl.inv-det", lambda a: sl.inv(pd(a)) * sl.det(pd(a)), SQUARE),
    positive("math", lambda x: math.log(x[0]) + math.exp(x[1]) * math.sin(x[2]) + math.pow(x[3], 2), V),
    positive("math-base", lambda x: math.log(x[0], 2) + math.lgamma(x[1]) * math.erf(x[4]), V),
    positive("math-hypot", lambda x: math.hypot(x[2], x[3]) + math.hypot(x[0], x[1], x[2]), V),
    positive("math-weak-float32", lambda x: np.float32(2.0) * math.sqrt(x[0]), V),
    positive("math-sums", lambda x: math.fsum([x[0], x[1], 2.0]) * math.prod([x[2], x[3]]), V),
    positive("math-helper", lambda x: norm_of(x[0], x[1]), V),
    positive("log_density", log_density, V),
    positive("method", Model().density, V),
    positive("partial", functools.partial(lambda p, x: math.exp(p * x[0]), 0.5), V),
    case("array", lambda x: np.array([x[0], 2 * x[1], 1.0]), V),
    case("array-nested", lambda x: np.array([[x[0], 0.0], [x[1], x[2]]]) @ x[:2], V),
    case("array-rows", lambda x: np.asarray([x, x * x]), V),
    case("array-copy", lambda x: np.array(x) + np.asarray(x), V),
    case("array-ndmin", lambda x: np.array(x, ndmin=3), V),
    case("full", lambda x: np.full((2, 3), x[0] * x[1]), V),
    case("sum-list", lambda x: np.sum([x[0], x[1] * x[2]]) + np.mean([x[0], 1.0]), V),
    case("dot-list", lambda x: np.dot([x[0], x[1]], [1.0, 2.0]), V),
    case("c_", lambda x: np.c_[np.ones(5), x], V),
    case("r_", lambda x: np.r_[0.0, x, 0:3], V),
    case("closure", (lambda log: lambda x: log(x[0] ** 2 + 1))(math.log), V),
    case("nested", lambda x: (lambda y: math.exp(y) + norm_of(y, 1.0))(x[0]), V),
    case("default", lambda x, log=math.log1p: log(x[0] ** 2), V),
    case("njit", lambda x: compiled(x[0]) * x, V),
]


@every("name, f, shapes, bounds", named(BRIDGED))
def test_bridged_value(name, f, shapes, bounds):
    check_traced_value(f, shapes, bounds, seed_of(f"test_bridged_value[{name}]"))


@every("name, f, shapes, bounds", named(BRIDGED))
def test_bridged_gradient(name, f, shapes, bounds):
    check_replay_and_gradient(
        f, shapes, bounds, seed_of(f"test_bridged_gradient[{name}]"), single="float32" in name
    )


def plain_function(x):
    return x * x + 1.0


def asks(v):
    return v**2 if isinstance(v, (np.ndarray, np.floating)) else 100.0 * v


class Asking:
    def logp(self, x):
        return np.sum(x) * (3.0 if isinstance(x, np.ndarray) else 0.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(asks(x)),
        lambda x: asks(x[0]),
        Asking().logp,
        lambda x: x[0] * np.isscalar(x[0]) + x[1] * np.isscalar(x),
        lambda x: 2.0 * x[0] if not isinstance(x[0], (list, dict)) else 0.0,
        lambda x: sum(v for v in x if isinstance(v, float)),
        lambda x: x[0] * isinstance(x.shape[0], int) * isinstance(x > 0, np.ndarray),
        lambda x: x[0] * isinstance(1j * x, np.ndarray) * isinstance(1j * x[0], complex),
    ],
)
def test_questions_about_a_type_are_answered_as_without_a_trace(f):
    x = np.array([0.7, 0.2])
    value, gradient = nt.value_and_grad(f)(x)
    assert value == f(x)
    np.testing.assert_allclose([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(2)], gradient)


def test_rebind_leaves_alone_what_needs_nothing():
    assert rebind(plain_function) is plain_function
    model = Model()
    stand_in = rebind(model.density).__self__
    assert isinstance(stand_in, Model)
    assert vars(stand_in) is vars(model)
    assert rebind(abs) is abs


def test_rebind_changes_nothing_outside():
    copy = rebind(log_density)
    assert copy is not log_density
    assert copy.__code__ is log_density.__code__
    assert log_density.__globals__["math"] is math
    assert log_density.__globals__["logsumexp"] is scipy.special.logsumexp
    assert copy.__globals__["norm_of"].__globals__ is copy.__globals__
    assert copy(np.ones(2)) == log_density(np.ones(2))


def test_rebind_copies_helpers_that_call_each_other():
    def even(x, n):
        return x if n == 0 else math.exp(0.1 * odd(x, n - 1))

    def odd(x, n):
        return math.sin(even(x, n - 1))

    assert nt.grad(lambda x: even(x, 4))(0.5) == pytest.approx(
        slope(lambda x: even(float(x), 4), [0.5], [1.0], [1.0]), rel=1e-7
    )


def test_helpers_in_another_module(tmp_path, monkeypatch):
    source = "import math\ndef f(x):\n    return g(x)\ndef g(x):\n    return math.log(x)\n"
    (tmp_path / "my_helpers.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import my_helpers

    assert nt.grad(lambda x: my_helpers.f(x) + my_helpers.g(x))(2.0) == pytest.approx(1.0)
    assert my_helpers.math is math


# ---- what raises


def raises(text, f, *shapes):
    return pytest.param(f, shapes, text, id=text)


@pytest.mark.parametrize(
    ("f", "shapes", "text"),
    [
        raises(r"np.linalg.qr\(..., mode='raw'\)", lambda x: np.linalg.qr(x, "raw"), M),
        raises(r"np.astype\(..., dtype=object\)", lambda x: x.astype(object), V),
        raises(r"scipy.special.polygamma\(..., n=1.5\)", lambda x: sc.polygamma(1.5, x), V),
        raises(r"np.linalg.pinv\(..., a of less", lambda x: np.linalg.pinv(x * 0.0 + 1.0), M),
        raises(r"scipy.linalg.eigh\(..., type=2", lambda x: sl.eigh(x, pd(x), type=2)[1], SQUARE),
        raises(r"np.clip\(..., where\)", lambda x: np.clip(x, 0.0, 1.0, where=x > 0.5), M),
        raises(r"np.ravel\(..., order='K'\)", lambda x: np.ravel(x[:, 1:3], "K"), M),
    ],
)
def test_unsupported_arguments_name_function_argument_and_line(f, shapes, text):
    with pytest.raises(nt.UnsupportedOperationError, match=text) as caught:
        nt.prepare_pullback_cache(f, *arguments(shapes, (0.5, 2.0), 0))
    assert "test_functions.py:" in str(caught.value)
    assert "<lambda>" in str(caught.value)


@pytest.mark.parametrize(
    ("f", "shape", "error"),
    [
        (lambda x: np.sum(x, 5), V, np.exceptions.AxisError),
        (lambda x: np.reshape(x, (4, 4)), V, ValueError),
        (lambda x: np.concatenate([x, np.ones((2, 2))]), V, ValueError),
        (lambda x: np.max(x), (0,), ValueError),
        (lambda x: np.matmul(x, x), (2, 3), ValueError),
        (lambda x: np.linalg.cholesky(-pd(x)), SQUARE, np.linalg.LinAlgError),
        (lambda x: np.linalg.solve(0 * x, x[0]), SQUARE, np.linalg.LinAlgError),
        (lambda x: sl.solve_triangular(0 * x, x[0]), SQUARE, np.linalg.LinAlgError),
        (lambda x: np.take(x, 9), V, IndexError),
        (lambda x: np.einsum("ij->i", x), V, ValueError),
        (lambda x: np.squeeze(x, 0), V, ValueError),
        (lambda x: np.sum(x, nonsense=1), V, TypeError),
        (lambda x: math.log(x[0] - 9.0), V, ValueError),
        (lambda x: np.add.accumulate(x), (), TypeError),
        (lambda x: np.hsplit(x, 1), (), ValueError),
        (lambda x: np.multiply(x, x, out=x * 1, where=x), V, TypeError),
    ],
)
def test_numpys_own_errors(f, shape, error):
    x = np.random.default_rng(1).uniform(0.5, 1.0, shape)
    with pytest.raises(error):
        f(x)
    with pytest.raises(error) as caught:
        nt.prepare_pullback_cache(f, x)
    assert not isinstance(caught.value, nt.NumbatapeError)


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "var", "max", "prod", "cumsum", "squeeze", "ravel", "copy", "round", "median"],
)
def test_python_floats(name):
    function = getattr(np, name)
    value, gradient = nt.value_and_grad(lambda x: np.sum(function(x)) + x)(1.5)
    assert value == np.sum(function(1.5)) + 1.5
    assert gradient == (1.0 if name in ("var", "round") else 2.0)


# ---- random arguments


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    name=st.sampled_from(["sum", "mean", "max", "prod", "std", "any", "count_nonzero"]),
    keepdims=st.booleans(),
    data=st.data(),
)
@settings(max_examples=30, deadline=None)
def test_reductions_over_any_axes(shape, name, keepdims, data):
    axes = data.draw(st.none() | st.lists(st.integers(-len(shape), len(shape) - 1), max_size=3).map(tuple))
    order = data.draw(st.permutations(range(len(shape))))
    if axes is not None and len({a % len(shape) for a in axes}) != len(axes):
        return
    x = np.random.default_rng(0).normal(size=shape)

    def f(x):
        return getattr(np, name)(np.transpose(x, order), axis=axes, keepdims=keepdims) * 1.0

    expected = f(x)
    ybar = np.random.default_rng(1).normal(size=np.shape(expected))
    value, (gradient,) = nt.value_and_pullback(nt.prepare_pullback_cache(f, x), ybar, x)
    close(value, expected)
    if gradient is not None and not (name == "std" and np.any(np.asarray(expected) < 1e-3)):
        direction = np.random.default_rng(2).normal(size=shape)
        along = slope(f, [x], [direction], [ybar])
        assert np.sum(gradient * direction) == pytest.approx(along, rel=1e-6, abs=1e-6)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_einsum_of_any_labels(data):
    sizes = {"a": 2, "b": 3, "c": 1, "d": 4}
    terms = data.draw(st.lists(st.text("abcd", min_size=1, max_size=3), min_size=1, max_size=3))
    output = "".join(data.draw(st.permutations(sorted(set("".join(terms))))))
    output = output[: data.draw(st.integers(0, len(output)))]
    text = f"{','.join(terms)}->{output}"
    rng = np.random.default_rng(0)
    args = [rng.normal(size=[sizes[k] for k in term]) for term in terms]
    expected = np.einsum(text, *args)
    ybar = rng.normal(size=np.shape(expected))

    def f(*args):
        return np.einsum(text, *args)

    value, gradients = nt.value_and_pullback(nt.prepare_pullback_cache(f, *args), ybar, *args)
    close(value, expected)
    directions = [rng.normal(size=x.shape) for x in args]
    along = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    assert along == pytest.approx(slope(f, args, directions, [ybar]), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("unused", [1000.0, np.inf, np.nan])
def test_logsumexp_leaves_out_what_has_no_weight(unused):
    a, b = np.array([unused, 0.0, 1.0]), np.array([0.0, 1.0, 2.0])
    value, (first, second) = nt.value_and_grad(lambda a, b: logsumexp(a, b=b), argnums=(0, 1))(a, b)
    total = 1.0 + 2.0 * np.e
    np.testing.assert_allclose(
        [value, *first], [np.log(total), 0.0, 1.0 / total, 2.0 * np.e / total], rtol=1e-14
    )
    np.testing.assert_allclose(second[1:], [1.0 / total, np.e / total], rtol=1e-14)


@pytest.mark.skipif(OLDER, reason="SciPy raises")
@pytest.mark.parametrize("keepdims", [False, True])
def test_weighted_logsumexp_of_no_entries(keepdims):
    none = np.zeros((2, 0))

    def f(a, b):
        value, sign = logsumexp(a, axis=1, b=b, keepdims=keepdims, return_sign=True)
        return np.sum(np.exp(value) - sign)

    value, gradient = nt.value_and_grad(f)(none, none)
    assert value == f(none, none) == 2.0
    assert gradient.shape == (2, 0)
