"""``scipy.stats``: statistics of samples, as compositions of NumPy's functions."""

from __future__ import annotations

import inspect

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.nan_statistics import without_nan
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace import operations, size_fractions
from ...trace.axes import axes_of, entries, length, lengths
from ...trace.operands import find_trace, is_wrong, lift_all, lift_first
from ..special.ufunc_table import is_active

# SciPy 1.13 cuts NaN off with the largest entries in trim_mean, which has no nan_policy there.
NAN_STAYS = "nan_policy" in inspect.signature(scipy.stats.trim_mean).parameters

OF_NUMBERS = (
    "gmean",
    "hmean",
    "kurtosis",
    "median_abs_deviation",
    "moment",
    "pmean",
    "sem",
    "skew",
    "variation",
)


def statistic(name: str):
    """Register a statistic, also under ``nan_policy``."""

    def register(function):
        def call(*args, nan_policy="propagate", **kwargs):
            if name in OF_NUMBERS and getattr(args[0], "ndim", 1) == 0 and find_trace(args[0]) is not None:
                args = (np.atleast_1d(args[0]), *args[1:])  # SciPy takes a number for a sample of one
            # A guard says whether something is NaN; SciPy has raised its own error already.
            given = [] if nan_policy == "propagate" else _arrays(*args, *kwargs.values())
            if nan_policy == "omit" and any(bool(np.any(np.isnan(x))) for x in given):
                return _omitting(name, function, *args, **kwargs)
            if nan_policy == "raise":
                for x in given:
                    is_wrong(np.any(np.isnan(x)))
            return function(*args, **kwargs)

        stands_for("scipy.stats", name)(call)
        return function

    return register


def _arrays(*arguments):
    """Return those arguments that are arrays, or lists of traced numbers, which may hold NaN, too."""
    lists = [lift_first(x) for x in arguments if isinstance(x, (list, tuple)) and find_trace(x) is not None]
    return lists + [x for x in arguments if hasattr(x, "ndim") and not isinstance(x, type)]


def _omitting(name: str, function, *args, **kwargs):
    """Return a statistic of the entries that are not NaN."""
    if name in ("zscore", "zmap"):
        return function(*args, **kwargs, mean=np.nanmean, std=np.nanstd)
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    options = bound.arguments
    if options.get("weights") is not None or options.get("qk") is not None or name == "boxcox_llf":
        raise unsupported_argument(f"scipy.stats.{name}", "nan_policy='omit'", "of one sample it is")
    x, *_ = options.values()
    data, axis, keepdims = next(iter(options)), options.pop("axis"), options.pop("keepdims")
    del options[data]
    return without_nan(lift_first(x), axis, keepdims, lambda row: function(row, axis=0, **options))


def _count(x, axis):
    """Return the number of entries along an axis: an int, or a traced number."""
    return entries(x, axes_of(x, axis))


def _central(x, axis):
    return x - np.mean(x, axis, keepdims=True)


def _deviation(x, axis, ddof, keepdims):
    """Return deviations, which are NaN in SciPy, and infinite in NumPy, of too few entries."""
    return np.where(_count(x, axis) <= ddof, np.nan, np.std(x, axis, ddof=ddof, keepdims=keepdims))


@statistic("zmap")
def zmap(scores, compare, axis=0, ddof=0, *, mean=np.mean, std=_deviation):
    compare = lift_first(compare, scores)
    return (scores - mean(compare, axis, keepdims=True)) / std(compare, axis, ddof=ddof, keepdims=True)


@statistic("zscore")
def zscore(a, axis=0, ddof=0, *, mean=np.mean, std=_deviation):
    a = lift_first(a)
    middle, spread = mean(a, axis, keepdims=True), std(a, axis, ddof=ddof, keepdims=True)
    return np.where(spread <= np.abs(_precision(middle) * middle), np.nan, (a - middle) / spread)


def _precision(x) -> float:
    """Return how much of a mean is rounding: entries that differ by less count as equal in SciPy."""
    return float(np.finfo(x.dtype).eps)


@stands_for("scipy.stats", "gzscore")
def gzscore(a, *, axis=0, ddof=0, nan_policy="propagate"):
    """Return the scores of logarithms; SciPy's policy is about these."""
    logs = np.log(lift_first(a))
    if nan_policy == "raise":
        is_wrong(np.any(np.isnan(logs)))  # a guard: SciPy has raised its own error already
    by = {"mean": np.nanmean, "std": np.nanstd} if nan_policy == "omit" else {}
    return zscore(logs, axis, ddof, **by)


@statistic("gmean")
def gmean(a, axis=0, dtype=None, weights=None, *, keepdims=False):
    _no_dtype("gmean", dtype)
    return np.exp(np.average(np.log(lift_first(a, weights)), axis, weights, keepdims=keepdims))


@statistic("hmean")
def hmean(a, axis=0, dtype=None, *, weights=None, keepdims=False):
    _no_dtype("hmean", dtype)
    return 1.0 / np.average(1.0 / _not_negative(lift_first(a, weights)), axis, weights, keepdims=keepdims)


def _not_negative(a):
    """Return entries with NaN in place of negative ones, for which SciPy defines no mean."""
    return np.where(a < 0.0, np.nan, a)


@statistic("pmean")
def pmean(a, p, *, axis=0, dtype=None, weights=None, keepdims=False):
    _no_dtype("pmean", dtype)
    if find_trace(p) is None and p == 0:
        return gmean(a, axis, weights=weights, keepdims=keepdims)
    if find_trace(p) is None:
        powers = _not_negative(lift_first(a, weights)) ** float(p)
        return np.average(powers, axis, weights, keepdims=keepdims) ** (1.0 / float(p))
    if is_wrong(np.isinf(p)):
        raise NotImplementedError("Power mean only implemented for finite `p`")
    a, near = _not_negative(lift_first(a, p)), np.abs(p) < 0.5
    order = np.where(near, 1.0, p)
    far = np.average(a**order, axis, weights, keepdims=keepdims) ** (1.0 / order)
    return np.where(near, _of_small_order(a, np.where(near, p, 0.0), axis, weights, keepdims), far)


def _of_small_order(a, p, axis, weights, keepdims):
    """Return a power mean that is smooth in its order at 0, where it is the geometric mean.

    The mean of ``exp(p*t)``, with the logarithms t less their mean m, is ``1 + p*p*s``, whose s is half a
    mean of ``t*t`` times a power series. So the power mean is ``exp(m + log1p(p*p*s)/p)``.
    """
    logs = np.log(a)
    middle = np.average(logs, axis, weights, keepdims=True)
    gaps = logs - middle
    step = p * gaps
    near = np.abs(step) < 0.03
    small = np.where(near, step, 0.0)
    series = 0.5 + small * (1 / 6 + small * (1 / 24 + small * (1 / 120 + small * (1 / 720 + small / 5040))))
    large = np.where(near, 1.0, step)
    bend = np.where(near, series, (np.expm1(large) - large) / (large * large))
    bends = np.average(gaps * gaps * bend, axis, weights, keepdims=keepdims)
    rise = p * bends / sc.exprel(np.log1p(p * p * bends))  # log1p(p*p*s)/p, without a quotient of zeros
    return np.exp(np.average(logs, axis, weights, keepdims=keepdims) + rise)


def _no_dtype(name, dtype):
    if dtype is not None:
        raise unsupported_argument(f"scipy.stats.{name}", "dtype")


@stands_for("scipy.stats", "gstd")
def gstd(a, axis=0, ddof=1, *, keepdims=False, nan_policy="propagate"):
    """Return the geometric deviation; SciPy's policy is about logarithms, which negative entries lack."""
    logs = np.log(lift_first(a))
    if nan_policy == "omit" and bool(np.any(np.isnan(logs))):
        return without_nan(logs, axis, keepdims, lambda row: np.exp(_deviation(row, 0, ddof, False)))
    if nan_policy == "raise":
        is_wrong(np.any(np.isnan(logs)))  # a guard: SciPy has raised its own error already
    return np.exp(_deviation(logs, axis, ddof, keepdims))


@statistic("moment")
def moment(a, order=1, axis=0, *, center=None, keepdims=False):
    if np.ndim(order):
        return np.stack([moment(a, one, axis, center=center, keepdims=keepdims) for one in order])
    if np.ndim(center):
        raise unsupported_argument("scipy.stats.moment", "several centers", "one number is")
    if order < 0:  # SciPy's value is the second moment
        raise unsupported_argument("scipy.stats.moment", "a negative order", "np.mean(gap**order) is")
    x = lift_first(a, center)
    gap = _central(x, axis) if center is None else x - center
    if order == 1 and center is None:
        gap = 0.0 * gap  # the first central moment is exactly zero in SciPy
    return np.mean(gap ** int(order), axis, keepdims=keepdims)


def _standardised_moment(a, order: int, axis, keepdims):
    a = lift_first(a)
    middle = np.mean(a, axis, keepdims=True)
    gap = a - middle
    second = np.mean(np.square(gap), axis, keepdims=keepdims)
    if not keepdims:
        middle = np.mean(a, axis)
    alike = second <= np.square(_precision(middle) * middle)
    return np.where(alike, np.nan, np.mean(gap**order, axis, keepdims=keepdims) / second ** (0.5 * order))


@statistic("skew")
def skew(a, axis=0, bias=True, *, keepdims=False):
    result = _standardised_moment(a, 3, axis, keepdims)
    n = _count(lift_first(a), axis)
    return result if bias or n < 3 else np.sqrt(n * (n - 1.0)) / (n - 2.0) * result


@statistic("kurtosis")
def kurtosis(a, axis=0, fisher=True, bias=True, *, keepdims=False):
    result = _standardised_moment(a, 4, axis, keepdims)
    n = _count(lift_first(a), axis)
    if not bias and n > 3:
        unbiased = (n * n - 1.0) * result - 3.0 * (n - 1.0) ** 2
        result = unbiased / ((n - 2.0) * (n - 3.0)) + 3.0
    return result - 3.0 if fisher else result


@statistic("sem")
def sem(a, axis=0, ddof=1, *, keepdims=False):
    a = lift_first(a)
    count = _count(a, axis)
    error = np.std(a, axis, ddof=ddof, keepdims=keepdims) / np.sqrt(1.0 * count)
    # SciPy has none of a sample of one entry, and zeros of several such samples.
    return np.where(count <= 1, np.nan, error) if axis is None or a.ndim == 1 else error


@statistic("variation")
def variation(a, axis=0, *, ddof=0, keepdims=False):
    a = lift_first(a)
    ratio = np.std(a, axis, ddof=ddof, keepdims=keepdims) / np.mean(a, axis, keepdims=keepdims)
    return np.where(_count(a, axis) < ddof, np.nan, ratio)


@statistic("trim_mean")
def trim_mean(a, proportiontocut, axis=0, *, keepdims=False):
    a = lift_first(a)
    axes = axes_of(a, axis)
    kept = tuple(1 if k in axes else n for k, n in enumerate(lengths(a)))
    if len(axes) != 1:
        rest = [k for k in range(a.ndim) if k not in axes]
        a = np.reshape(np.transpose(a, [*rest, *axes]), (*(lengths(a)[k] for k in rest), -1))
        axes = (len(rest),)
    (axis,) = axes
    rows, n = np.moveaxis(np.sort(a, axis), axis, -1), length(a, axis)
    share = proportiontocut * n
    size = None if find_trace(share) is None else size_fractions.rounded_to_size(share, size_fractions.DOWN)
    cut = int(share) if size is None else size
    result = np.mean(rows[..., cut : n - cut], -1)
    if NAN_STAYS:
        unknown = np.any(np.isnan(rows[..., -1:]), -1)  # NaN is sorted to the end, which may be cut off
        result = np.where(unknown, np.nan, result)
    return np.reshape(result, kept) if keepdims else result


@statistic("iqr")
def iqr(x, axis=None, rng=(25, 75), scale=1.0, interpolation="linear", keepdims=False):
    x = lift_first(x)
    if bool(_count(x, axis) == 0):  # NumPy has an error for percentiles of no entries, SciPy a NaN
        return np.sum(x, axis, keepdims=keepdims) + np.nan
    low, high = (np.percentile(x, q, axis, method=interpolation, keepdims=keepdims) for q in sorted(rng))
    return (high - low) / _scale("iqr", scale, 1.3489795003921634)


@statistic("median_abs_deviation")
def median_abs_deviation(x, axis=0, center=np.median, scale=1.0, *, keepdims=False):
    if center is not np.median:
        raise unsupported_argument("scipy.stats.median_abs_deviation", "center", "np.median is")
    x = lift_first(x)
    gap = np.abs(x - np.median(x, axis, keepdims=True))
    return np.median(gap, axis, keepdims=keepdims) / _scale("median_abs_deviation", scale, 0.6744897501960817)


def _scale(name: str, scale, normal: float):
    if isinstance(scale, str):
        if scale.lower() != "normal":
            raise unsupported_argument(f"scipy.stats.{name}", f"scale={scale!r}", "numbers and 'normal' are")
        return normal
    return scale


@statistic("entropy")
def entropy(pk, qk=None, base=None, axis=0, *, keepdims=False):
    if qk is None:
        pk = lift_first(pk)
        terms = sc.entr(pk / np.sum(pk, axis, keepdims=True))
    else:
        pk, qk = np.broadcast_arrays(*lift_all(pk, qk))
        terms = sc.rel_entr(pk / np.sum(pk, axis, keepdims=True), qk / np.sum(qk, axis, keepdims=True))
    total = np.sum(terms, axis, keepdims=keepdims)
    return total if base is None else total / np.log(base)


@statistic("boxcox_llf")
def boxcox_llf(lmb, data, *, axis=0, keepdims=False):
    data = lift_first(data, lmb)
    n = _count(data, axis)
    logs = np.log(data)
    # The variance of the powers; it does not depend on their constant -1/lmb.
    variance = np.var(sc.boxcox(data, lmb), axis, keepdims=keepdims)
    return (lmb - 1.0) * np.sum(logs, axis, keepdims=keepdims) - 0.5 * n * np.log(variance)


def _signs(x):
    """Return signs of numbers; that of zero is positive: `abs` has no slope there, ``sign * x`` has one."""
    return np.where(x < 0.0, -1.0, 1.0)


def _yeo_johnson(x, lmbda):
    """Return powers of ``1 + abs(x)`` that are smooth in the order, also where it is 0 or 2."""
    right, size = _signs(x) > 0.0, _signs(x) * x
    rising, falling = (
        sc.boxcox1p(np.where(right, size, 0.0), lmbda),
        sc.boxcox1p(np.where(right, 0.0, size), 2.0 - lmbda),
    )
    return np.where(right, rising, -falling)


@stands_for("scipy.stats", "yeojohnson")
def yeojohnson(x, lmbda=None):
    if lmbda is None:
        return operations.library_copy(scipy.stats.yeojohnson)(x)
    return _yeo_johnson(lift_first(x, lmbda), lmbda)


@stands_for("scipy.stats", "yeojohnson_llf")
def yeojohnson_llf(lmb, data, *, axis=0, nan_policy="propagate", keepdims=False):
    if nan_policy != "propagate":
        options = {"axis": axis, "nan_policy": nan_policy, "keepdims": keepdims}
        return operations.library_copy(scipy.stats.yeojohnson_llf)(lmb, data, **options)
    data = lift_first(data, lmb)
    variance = np.var(_yeo_johnson(data, lmb), axis, keepdims=keepdims)
    logs = _signs(data) * np.log1p(_signs(data) * data)
    return (lmb - 1.0) * np.sum(logs, axis, keepdims=keepdims) - 0.5 * _count(data, axis) * np.log(variance)


@stands_for("scipy.stats", "power_divergence")
def power_divergence(f_obs, f_exp=None, ddof=0, axis=0, lambda_=None, **options):
    if not is_active(lambda_):
        return operations.library_copy(scipy.stats.power_divergence)(
            f_obs, f_exp, ddof, axis, lambda_, **options
        )
    if options.get("keepdims") or options.get("nan_policy", "propagate") != "propagate":
        options_of = "keepdims or nan_policy, with a lambda_ that has a derivative"
        raise unsupported_argument("scipy.stats.power_divergence", options_of, "without them it is")
    # SciPy has formulas apart for three orders, whose derivatives are not those of the statistic there.
    given = operations.library_copy(scipy.stats.power_divergence)(f_obs, f_exp, ddof, axis, **options)
    observed = lift_first(f_obs, lambda_)
    expected = np.mean(observed, axis, keepdims=True) if f_exp is None else lift_first(f_exp, lambda_)
    ratio, low = observed / expected, lambda_ < -0.5
    negative = ratio < 0.0  # powers of these are real at whole orders only
    positive, mirrored = np.where(negative, 1.0, ratio), np.where(negative, ratio, -1.0)
    order, other = np.where(low, 0.0, lambda_), np.where(low, lambda_, -1.0)
    terms = observed * sc.boxcox(positive, order) / (order + 1.0)
    others = expected * sc.boxcox(positive, other + 1.0) / other
    first = np.where(low, expected, observed)
    powers = (observed * mirrored**lambda_ - first) / (lambda_ * (lambda_ + 1.0))
    statistic = 2.0 * np.sum(np.where(negative, powers, np.where(low, others, terms)), axis)
    freedom = _count(observed, axis) - 1.0 - ddof
    return type(given)(statistic, sc.chdtrc(freedom, statistic))


@stands_for("scipy.stats", "rankdata")
def rankdata(a, method="average", *, axis=None, nan_policy="propagate"):
    x = lift_first(a)
    if method != "average" or nan_policy != "propagate" or (axis is not None and x.ndim != 1):
        return operations.library_copy(scipy.stats.rankdata)(x, method, axis=axis, nan_policy=nan_policy)
    x = np.ravel(x)
    # SciPy numbers the entries that are equal, which would be so many in all calls with this trace.
    ordered = np.sort(x)
    below, up_to = (np.searchsorted(ordered, x, side) for side in ("left", "right"))
    return np.where(np.any(np.isnan(x)), np.nan, 0.5 * (below + up_to + 1))
