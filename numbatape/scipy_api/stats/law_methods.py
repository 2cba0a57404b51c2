"""Methods of a distribution: densities, cumulative functions, quantiles and moments, computed from its `Law`.

Each method takes the distribution, its law, and the arguments of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...numpy_api.creation import as_doubles
from ...numpy_api.registration import unsupported_argument
from ...rules.searches import Search
from ...trace.array import TracedArray
from ...trace.integers import TracedInteger
from ...trace.operands import find_trace, lift, lift_all
from ...trace.primitives import sample_of
from ...trace.symbolic_sizes import is_size
from .law_moments import standard_moment
from .laws import INF, Law, any_of, log_rest


def operand(trace, x):
    """Return an argument as float64, in which SciPy always computes densities."""
    if type(x) is TracedInteger:
        x = x.as_float()
    if type(x) is not TracedArray and find_trace(x) is not None:
        x = lift(trace, x)
    if type(x) is TracedArray:
        return as_doubles(x)
    x = np.asarray(x)
    if x.dtype.kind == "c":  # a conversion would only warn that it takes the real part
        raise unsupported_argument("a distribution's method", "complex numbers", "real ones are")
    return x.astype(np.float64, copy=False)[()]


def _parameters(distribution, law: Law, x, args, kwargs):
    """Return ``(x, shapes, loc, scale, where the parameters are not valid)``, as float64."""
    shapes, loc, scale = distribution._parse_args(*args, **kwargs)
    trace = find_trace(x, shapes, loc, scale)
    x, loc, scale = (operand(trace, part) for part in (x, loc, scale))
    given, shapes = shapes, tuple(operand(trace, shape) for shape in shapes)
    # Whether a size is valid is a guard on sizes, where it would cost instructions for a number.
    compared = [size if is_size(size) else shape for size, shape in zip(given, shapes, strict=True)]
    broken = any_of([np.logical_not(condition) for condition in law.valid(*compared)])
    return x, shapes, loc, scale, broken


def _standardised(x, loc, scale):
    if type(loc) is TracedArray or np.any(loc != 0.0):
        x = x - loc
    if type(scale) is TracedArray or np.any(scale != 1.0):
        x = x / scale
    return x


def _outside(law: Law, x, low, high):
    """Return where a density vanishes; NaN counts as inside, so that the formula propagates it."""
    bounds = []
    for end, beyond, at in ((low, np.less, np.less_equal), (high, np.greater, np.greater_equal)):
        infinite = is_infinite(end)
        if law.open or law.far or not infinite:
            bounds.append((at if law.open or infinite else beyond)(x, end))
        if law.far and type(end) is TracedArray:  # The end may be infinite in a later call.
            bounds.append(at(x, -INF if at is np.less_equal else INF))
    if law.discrete:
        bounds.append(np.not_equal(np.floor(x), x) & ~np.isnan(x))
    return any_of(bounds)


def is_infinite(end) -> bool:
    """Whether an end of the support is infinite in every call, which a traced one may cease to be."""
    return type(end) is not TracedArray and bool(np.all(np.isinf(end)))


def _log_density(law, x, shapes, scale, broken):
    return _with_shift(_log_inside(law, x, shapes), scale, broken)


def _log_inside(law, x, shapes):
    outside = _outside(law, x, *law.ends(shapes))
    result = law.log(x, *shapes)
    return result if outside is None else np.where(outside, -INF, result)


def _with_shift(result, scale, broken):
    """Return a log-density of x for one in standard form: NaN where the parameters are not valid."""
    shift = None
    if type(scale) is TracedArray or np.any(scale != 1.0):
        shift = -np.log(scale)  # the logarithm is NaN for negative scales; a scale of zero becomes NaN below
    # This has the shape of the parameters, which often are numbers: so it takes an instruction on few cells.
    if broken is not None:
        shift = np.where(broken, np.nan, 0.0 if shift is None else shift)
    return result if shift is None else result + shift


def _density(law, x, shapes, scale, broken):
    log = _log_inside(law, x, shapes)
    if not law.hollow and all(map(is_infinite, law.ends(shapes))):
        return np.exp(_with_shift(log, scale, broken))
    # Where the density is 0, its logarithm has an infinite slope, which times 0 is NaN.
    vanishes = np.equal(log, -INF)
    result = np.where(vanishes, 0.0, np.exp(np.where(vanishes, 0.0, log)))
    broken = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
    if broken is None and type(scale) is not TracedArray and np.all(scale == 1.0):
        return result
    # This has the shape of the parameters, which often are numbers: so it takes an instruction on few cells.
    factor = 1.0 / scale
    return result * (factor if broken is None else np.where(broken, np.nan, factor))


# How each cumulative function follows from those that a law has: by the first route of which it has all.
# Small probabilities come from a function that is accurate where they are small.
def _same(f):
    return f


def _rest(log):
    return -np.expm1(log)


def _log_of_smaller(f, rest):
    return np.where(f < 0.5, np.log(f), np.log1p(-rest))


def _routes(name: str, other: str) -> dict[str, tuple[tuple[tuple[str, ...], Callable], ...]]:
    log, log_other = f"log{name}", f"log{other}"
    return {
        name: (((name,), _same), ((log,), np.exp), ((log_other,), _rest), ((other,), lambda f: 1.0 - f)),
        log: (
            ((log,), _same),
            ((name, other), _log_of_smaller),
            ((log_other,), log_rest),
            ((name,), np.log),
            ((other,), lambda f: np.log1p(-f)),
        ),
    }


ROUTES = _routes("cdf", "sf") | _routes("sf", "cdf")
LIMITS = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-INF, 0.0), "logsf": (0.0, -INF)}


def cumulative(name):
    """Return a cumulative function of ``(law, x, shapes, scale, where the shapes are not valid)``."""

    def evaluate(law, x, shapes, scale, broken):
        """Compute it from the first function that the law has, with its values outside of the support."""
        sources, derive = next((s, d) for s, d in ROUTES[name] if all(getattr(law, one) for one in s))
        whole = x
        if law.discrete:
            x = np.floor(x)
            whole = np.where(np.isfinite(x), x, 0.0)
        result = derive(*[getattr(law, source)(whole, *shapes) for source in sources])
        ends = law.ends(shapes)
        below = np.less if law.discrete and not is_infinite(ends[0]) else np.less_equal
        beyond = (below, np.greater_equal)
        # On the whole line the formulas hold at infinity, too.
        whole_line = not law.discrete and not law.far and all(map(is_infinite, ends))
        for end, outside, limit in zip(ends, beyond, LIMITS[name], strict=True):
            if not whole_line:
                result = np.where(outside(x, end), limit, result)
        if law.discrete:
            result = np.where(np.isnan(x), np.nan, result)
        broken = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
        return result if broken is None else np.where(broken, np.nan, result)

    return evaluate


def with_sums(law: Law) -> Law:
    """Return a law of counts with the cumulative function that is a sum of its probabilities."""

    def total(k, shapes, above: bool):
        low, high = law.ends(shapes)
        # Which counts there are is a guard, where counts or ends are arguments.
        first, last = float(np.min(low)), float(np.max(high if above else k))
        if above:
            first = max(first, float(np.min(k)) + 1.0)
        counts = np.arange(first, last + 1.0)
        if not counts.size:
            return 0.0 * k
        k, low, high, *own = (
            np.expand_dims(part, -1) if np.ndim(sample_of(part)) else part for part in (k, low, high, *shapes)
        )
        inside = np.less_equal(counts, high) & np.greater_equal(counts, low)
        inside = inside & (np.greater if above else np.less_equal)(counts, k)
        terms = np.exp(law.log(np.where(inside, counts, low), *own))
        return np.sum(np.where(inside, terms, 0.0), -1)

    def cdf(k, *shapes):
        return total(k, shapes, above=False)

    def sf(k, *shapes):
        return 1.0 - cdf(k, *shapes) if is_infinite(law.ends(shapes)[1]) else total(k, shapes, above=True)

    return replace(law, cdf=cdf, sf=sf)


def _at(evaluate):
    """Return a method that standardises its argument."""

    def method(distribution, law, x, args, kwargs):
        x, shapes, loc, scale, broken = _parameters(distribution, law, x, args, kwargs)
        return evaluate(law, _standardised(x, loc, scale), shapes, scale, broken)

    return method


# ---- quantiles and moments


def _quantile(name):
    def method(distribution, law, q, args, kwargs):
        q, shapes, loc, scale, broken = _parameters(distribution, law, q, args, kwargs)
        return _place(_standard_quantile(name, law, q, shapes), q, loc, scale, broken)

    return method


def _standard_quantile(name, law, q, shapes):
    if getattr(law, name) is not None:
        result = getattr(law, name)(q, *shapes)
    else:
        result = (law.isf if name == "ppf" else law.ppf)(1.0 - q, *shapes)
    low, high = law.ends(shapes) if name == "ppf" else reversed(law.ends(shapes))
    return np.where(np.equal(q, 0.0), low, np.where(np.equal(q, 1.0), high, result))


def _place(result, q, loc, scale, broken):
    bad = any_of(
        [
            np.less(q, 0.0),
            np.greater(q, 1.0),
            np.less_equal(scale, 0.0),
            *([] if broken is None else [broken]),
        ]
    )
    result = result * scale + loc
    return result if bad is None else np.where(bad, np.nan, result)


def _count_quantile(name):
    """Return quantiles of counts: data that depend on the parameters, and move with the location."""

    def method(distribution, law, q, args, kwargs):
        shapes, loc, _ = distribution._parse_args(*args, **kwargs)
        return loc + _as_data(distribution, name, (q, *shapes))

    return method


def _as_data(distribution, name: str, given: tuple):
    function = getattr(distribution, name)
    traced = [k for k, part in enumerate(given) if find_trace(part) is not None]
    if not traced:
        return function(*given)

    def filled(*numbers):
        known = dict(zip(traced, numbers, strict=True))
        return function(*(known.get(k, part) for k, part in enumerate(given)))

    search = Search(f"{distribution.name}.{name}", filled, lift_all(*(given[k] for k in traced)))
    return search.numbers("quantiles", lambda found: found)


def _median(distribution, law, args, kwargs):
    if law.discrete:
        return _count_quantile("ppf")(distribution, law, 0.5, args, kwargs)
    return _quantile("ppf")(distribution, law, 0.5, args, kwargs)


def _interval(distribution, law, confidence, args, kwargs):
    quantile = (_count_quantile if law.discrete else _quantile)("ppf")
    return tuple(quantile(distribution, law, 0.5 + side * confidence, args, kwargs) for side in (-0.5, 0.5))


def _moment(name):
    def method(distribution, law, args, kwargs):
        _, shapes, loc, scale, broken = _parameters(distribution, law, 0.0, args, kwargs)
        result = standard_moment(distribution, law, {"std": "var"}.get(name, name), shapes)
        if name == "mean":
            result = loc + scale * result
        elif name == "entropy":
            result = result + np.log(scale)
        elif name in ("var", "std"):
            result = np.square(scale) * result
        bad = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
        result = result if bad is None else np.where(bad, np.nan, result)
        return np.sqrt(result) if name == "std" else result

    return method


KINDS = {"m": "mean", "v": "var", "s": "skewness", "k": "kurtosis"}


def _stats(distribution, law, args, kwargs):
    kwargs = dict(kwargs)
    moments = kwargs.pop("moments", "mv")
    results = tuple(
        _moment(name)(distribution, law, args, kwargs) for kind, name in KINDS.items() if kind in moments
    )
    return results if len(results) > 1 else results[0]


def _support(distribution, law, args, kwargs):
    _, shapes, loc, scale, broken = _parameters(distribution, law, 0.0, args, kwargs)
    bad = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
    ends = [end if is_infinite(end) else loc + scale * end for end in law.ends(shapes)]
    return tuple(ends if bad is None else [np.where(bad, np.nan, end) for end in ends])


CUMULATIVE = {name: _at(cumulative(name)) for name in ROUTES}
QUANTILES = {name: _quantile(name) for name in ("ppf", "isf")}
CONTINUOUS = {"logpdf": _at(_log_density), "pdf": _at(_density), **CUMULATIVE, **QUANTILES}
DISCRETE = {"logpmf": _at(_log_density), "pmf": _at(_density), **CUMULATIVE}
DISCRETE |= {name: _count_quantile(name) for name in ("ppf", "isf")}
OF_PARAMETERS = {
    "median": _median,
    "interval": _interval,
    "stats": _stats,
    "support": _support,
    **{name: _moment(name) for name in ("mean", "var", "std", "entropy")},
}
NEEDS = {
    **{name: [source for sources, _ in ROUTES[name] for source in sources] for name in ROUTES},
    **dict.fromkeys(("ppf", "isf", "median", "interval"), ("ppf", "isf")),
}
