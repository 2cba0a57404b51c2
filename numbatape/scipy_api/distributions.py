"""``scipy.stats``: stand-ins for its distributions, whose densities accept traced arguments.

A distribution is an object, not a function: its stand-in has the methods below for traced arguments, and
passes everything else on to SciPy's own object. A `Law` per distribution says what they compute: its
log-density (or log-mass) in standard form, its support, and its cumulative functions where they are
elementary or functions of the op table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import UnsupportedOperationError
from ..numpy_api.function_tables import MAKERS
from ..numpy_api.registration import run_composition, unsupported_argument
from ..numpy_api.stand_ins import stand_in
from ..trace.array import TracedArray
from ..trace.operands import adopt, find_trace, lift, values_of
from ..usercode.frames import where_in_user_code


class _Special:
    """``scipy.special``, imported when a formula first needs it."""

    def __getattr__(self, name):
        import scipy.special

        function = getattr(scipy.special, name)
        setattr(self, name, function)
        return function


sc = _Special()
INF = np.inf


def any_of(conditions):
    """Return conditions joined by "or"; plain ones that hold nowhere are dropped."""
    joined = None
    for condition in conditions:
        if type(condition) is not TracedArray and not np.any(condition):
            continue
        joined = condition if joined is None else np.logical_or(joined, condition)
    return joined


def pick(condition, yes: Callable, no: Callable):
    """Return ``where(condition, yes(), no())``; a side that is not needed is not computed."""
    if type(condition) is not TracedArray:
        if np.all(condition):
            return yes()
        if not np.any(condition):
            return no()
    return np.where(condition, yes(), no())


def positive(*shapes):
    return [shape > 0 for shape in shapes]


@dataclass(frozen=True)
class Law:
    """One distribution in standard form (loc 0, scale 1): functions of ``(x, *shapes)``.

    Parameters
    ----------
    log
        The log-density, or log-mass, inside of the support.
    low, high
        The support's ends: numbers, or functions of the shapes.
    open
        Whether the ends themselves are outside of the support in SciPy.
    valid
        Conditions on the shapes; SciPy gives NaN where they do not hold.
    cdf, sf, logcdf, logsf
        Cumulative functions inside of the support; derived from one another where None.
    ppf, isf
        Quantiles, as functions of the lower and of the upper tail probability; one follows from the other.
    mean, var, entropy
        Moments, as functions of the shapes; NaN or infinite where they do not exist.
    far
        Whether infinite ends count as outside, because the formula gives NaN there.
    discrete
        Whether it is a distribution of whole numbers; such a distribution has no scale.
    """

    log: Callable
    low: object = -INF
    high: object = INF
    open: bool = False
    valid: Callable = positive
    cdf: Callable | None = None
    sf: Callable | None = None
    logcdf: Callable | None = None
    logsf: Callable | None = None
    ppf: Callable | None = None
    isf: Callable | None = None
    mean: Callable | None = None
    var: Callable | None = None
    entropy: Callable | None = None
    far: bool = False
    discrete: bool = False

    def ends(self, shapes):
        return [end(*shapes) if callable(end) else end for end in (self.low, self.high)]


def _operand(trace, x):
    """Return an argument as float64, in which SciPy always computes densities."""
    if type(x) is not TracedArray and find_trace(x) is not None:
        x = lift(trace, x)
    if type(x) is TracedArray:
        return x if x.dtype == np.float64 else np.astype(x, np.float64)
    return np.asarray(x, np.float64)[()]


def _parameters(distribution, law: Law, x, args, kwargs):
    """Return ``(x, shapes, loc, scale, where the parameters are not valid)``, as float64."""
    shapes, loc, scale = distribution._parse_args(*args, **kwargs)
    trace = find_trace(x, shapes, loc, scale)
    x, loc, scale = (_operand(trace, part) for part in (x, loc, scale))
    shapes = tuple(_operand(trace, shape) for shape in shapes)
    broken = any_of([np.logical_not(condition) for condition in law.valid(*shapes)])
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
        infinite = _is_infinite(end)
        if law.open or law.far or not infinite:
            bounds.append((at if law.open or infinite else beyond)(x, end))
        if law.far and type(end) is TracedArray:  # its value may be infinite
            bounds.append(at(x, -INF if at is np.less_equal else INF))
    if law.discrete:
        bounds.append(np.not_equal(np.floor(x), x) & ~np.isnan(x))
    return any_of(bounds)


def _is_infinite(end) -> bool:
    return type(end) is not TracedArray and bool(np.all(np.isinf(end)))


def _log_density(law, x, shapes, scale, broken):
    outside = _outside(law, x, *law.ends(shapes))
    result = law.log(x, *shapes)
    if outside is not None:
        result = np.where(outside, -INF, result)
    shift = None
    if type(scale) is TracedArray or np.any(scale != 1.0):
        shift = -np.log(scale)  # NaN for negative scales; zero becomes NaN below
    if broken is not None:  # has the shape of the parameters, which often are numbers
        shift = np.where(broken, np.nan, 0.0 if shift is None else shift)
    return result if shift is None else result + shift


def _density(law, x, shapes, scale, broken):
    return np.exp(_log_density(law, x, shapes, scale, broken))


# How each cumulative function follows from the others: from the first one that the law has.
def _rest(log):
    return -np.expm1(log)


def _log_rest(log):
    return np.log(-np.expm1(log))


ROUTES: dict[str, tuple[tuple[str, Callable], ...]] = {
    "cdf": (("cdf", lambda f: f), ("sf", lambda f: 1.0 - f), ("logcdf", np.exp), ("logsf", _rest)),
    "sf": (("sf", lambda f: f), ("cdf", lambda f: 1.0 - f), ("logsf", np.exp), ("logcdf", _rest)),
    "logcdf": (
        ("logcdf", lambda f: f),
        ("cdf", np.log),
        ("sf", lambda f: np.log1p(-f)),
        ("logsf", _log_rest),
    ),
    "logsf": (("logsf", lambda f: f), ("sf", np.log), ("cdf", lambda f: np.log1p(-f)), ("logcdf", _log_rest)),
}
LIMITS = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-INF, 0.0), "logsf": (0.0, -INF)}


def _cumulative(name):
    def evaluate(law, x, shapes, scale, broken):
        source, derive = next((s, d) for s, d in ROUTES[name] if getattr(law, s) is not None)
        whole = x
        if law.discrete:
            x = np.floor(x)
            whole = np.where(np.isfinite(x), x, 0.0)
        result = derive(getattr(law, source)(whole, *shapes))
        ends = law.ends(shapes)
        below = np.less if law.discrete and not _is_infinite(ends[0]) else np.less_equal
        beyond = (below, np.greater_equal)
        whole_line = (
            not law.discrete and not law.far and all(map(_is_infinite, ends))
        )  # the formulas hold at infinity, too
        for end, outside, limit in zip(ends, beyond, LIMITS[name], strict=True):
            if not whole_line:
                result = np.where(outside(x, end), limit, result)
        if law.discrete:
            result = np.where(np.isnan(x), np.nan, result)
        broken = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
        return result if broken is None else np.where(broken, np.nan, result)

    return evaluate


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


def _median(distribution, law, args, kwargs):
    return _quantile("ppf")(distribution, law, 0.5, args, kwargs)


def _interval(distribution, law, confidence, args, kwargs):
    return tuple(
        _quantile("ppf")(distribution, law, 0.5 + side * confidence, args, kwargs) for side in (-0.5, 0.5)
    )


def _moment(name):
    def method(distribution, law, args, kwargs):
        _, shapes, loc, scale, broken = _parameters(distribution, law, 0.0, args, kwargs)
        result = getattr(law, {"std": "var"}.get(name, name))(*shapes)
        if name == "mean":
            result = loc + scale * result
        elif name == "entropy":
            result = result + np.log(scale)
        else:
            result = np.square(scale) * result
        bad = any_of([np.less_equal(scale, 0.0), *([] if broken is None else [broken])])
        result = result if bad is None else np.where(bad, np.nan, result)
        return np.sqrt(result) if name == "std" else result

    return method


def _stats(distribution, law, args, kwargs):
    kwargs = dict(kwargs)
    moments = kwargs.pop("moments", "mv")
    if not set(moments) <= set("mv"):
        raise unsupported_argument(
            f"scipy.stats.{distribution.name}.stats", f"moments={moments!r}", "'mv' is"
        )
    results = tuple(
        _moment({"m": "mean", "v": "var"}[kind])(distribution, law, args, kwargs) for kind in moments
    )
    return results if len(results) > 1 else results[0]


CUMULATIVE = {name: _at(_cumulative(name)) for name in ROUTES}
QUANTILES = {name: _quantile(name) for name in ("ppf", "isf")}
CONTINUOUS = {"logpdf": _at(_log_density), "pdf": _at(_density), **CUMULATIVE, **QUANTILES}
DISCRETE = {"logpmf": _at(_log_density), "pmf": _at(_density), **CUMULATIVE}
OF_PARAMETERS = {
    "median": _median,
    "interval": _interval,
    "stats": _stats,
    **{name: _moment(name) for name in ("mean", "var", "std", "entropy")},
}
NEEDS = {
    **{name: [source for source, _ in ROUTES[name]] for name in ROUTES},
    **dict.fromkeys(("ppf", "isf", "median", "interval"), ("ppf", "isf")),
    **{"mean": ("mean",), "var": ("var",), "std": ("var",), "entropy": ("entropy",), "stats": ("mean",)},
}


def _method(distribution, name: str, law: Law, evaluate):
    """Return a method for traced arguments, which raises if the law lacks a function that it needs."""
    if not any(getattr(law, source) for source in NEEDS.get(name, ("log",))):

        def implementation(*args, **kwargs):
            raise UnsupportedOperationError(
                f"scipy.stats.{distribution.name}.{name} of a traced array at {where_in_user_code()} is "
                f"not supported; {'logpmf and pmf' if law.discrete else 'logpdf and pdf'} are"
            )

        return stand_in(getattr(distribution, name), implementation, run_composition)

    def run(*leading, args, kwargs):
        with np.errstate(all="ignore"):  # formulas may fail outside of the support
            return evaluate(distribution, law, *leading, args, kwargs)

    if name in ("ppf", "isf"):

        def implementation(q, *args, **kwargs):
            return run(q, args=args, kwargs=kwargs)

    elif name == "interval":

        def implementation(confidence, *args, **kwargs):
            return run(confidence, args=args, kwargs=kwargs)

    elif name in OF_PARAMETERS:

        def implementation(*args, **kwargs):
            return run(args=args, kwargs=kwargs)

    else:

        def implementation(x, *args, **kwargs):
            return run(x, args=args, kwargs=kwargs)

    return stand_in(getattr(distribution, name), implementation, _run_broadcast)


def _run_broadcast(implementation, value, args, kwargs):
    """Broadcast a moment to NumPy's shape: the variance has that of ``loc``, on which it does not depend."""
    result = implementation(*args, **kwargs)
    if isinstance(result, tuple):
        return tuple(map(_adopted, result, value))
    return _adopted(result, value)


def _adopted(result, value):
    if np.shape(values_of(result)) != np.shape(value):
        result = np.broadcast_to(result, np.shape(value))
    return adopt(result, value)


class StandIn:
    """The stand-in for an object of ``scipy.stats``: some methods are replaced, the others are SciPy's.

    Parameters
    ----------
    original
        SciPy's object.
    make
        ``make(original, name)`` returns a replaced method, or None for one of SciPy's.
    """

    def __init__(self, original, make):
        self._original, self._make = original, make

    def __getattr__(self, name):
        method = self._make(self._original, name)
        method = getattr(self._original, name) if method is None else method
        setattr(self, name, method)
        return method

    def __call__(self, *args, **kwargs):
        return Frozen(self, args, kwargs)


class Frozen:
    """A distribution with its parameters: ``norm(mu, sigma)``."""

    def __init__(self, distribution: StandIn, args, kwargs):
        self._distribution, self._args, self._kwargs = distribution, args, kwargs

    def __getattr__(self, name):
        distribution = self._distribution
        if distribution._make(distribution._original, name) is None:
            return getattr(distribution._original(*self._args, **self._kwargs), name)
        method = getattr(distribution, name)
        given = dict(self._kwargs)
        if name == "entropy":
            given.pop("allow_singular", None)  # only densities have this option

        def call(*args, **kwargs):
            return method(*args, *self._args, **given, **kwargs)

        return call


LAWS: dict[str, Law] = {}


def register(name: str, law: Law) -> None:
    """Register the law of the distribution with that name."""
    LAWS[name] = law
    methods = (DISCRETE if law.discrete else CONTINUOUS) | OF_PARAMETERS

    def make(distribution, method):
        evaluate = methods.get(method)
        return None if evaluate is None else _method(distribution, method, law, evaluate)

    MAKERS.setdefault("scipy.stats", {})[name] = lambda original: StandIn(original, make)


def extend(name: str, **functions) -> None:
    """Add functions to a law that is registered."""
    register(name, replace(LAWS[name], **functions))


def thaw(value, distribution):
    """Return the stand-in for a distribution that was frozen outside: ``prior = norm(0, 1)``.

    Parameters
    ----------
    distribution
        Returns ``(original, stand-in)`` by the name of a distribution, None where there is none.
    """
    kept = getattr(value, "dist", None)
    if kept is None:
        return _thaw_vectors(value, distribution)
    stands = distribution(getattr(kept, "name", None))
    if stands is None or type(kept) is not type(stands[0]):
        return None
    return Frozen(stands[1], value.args, value.kwds)


def _thaw_vectors(value, distribution):
    """Thaw a distribution of vectors or matrices, which keeps its parameters as attributes."""
    stands = distribution(type(value).__name__.removesuffix("_frozen"))
    if stands is None or type(getattr(value, "_dist", None)) is not type(stands[0]):
        return None
    parameters = {}
    for name, parameter in inspect.signature(stands[0]).parameters.items():
        if name in ("seed", "random_state") or parameter.kind is parameter.VAR_KEYWORD:
            continue
        kept = value.cov_object.covariance if name == "cov" else getattr(value, name, None)
        if kept is None:
            return None  # the object keeps this parameter only in another form
        if not (isinstance(kept, bool) and kept == parameter.default):
            parameters[name] = kept
    return Frozen(stands[1], (), parameters)
