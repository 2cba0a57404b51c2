"""``scipy.stats``: stand-ins for its distributions, whose densities accept traced arguments.

A distribution is an object, not a function: its stand-in has the methods below for traced arguments, and
passes everything else on to SciPy's own object. A `Law` per distribution says what they compute: its
log-density (or log-mass) in standard form, its support, and its cumulative functions where they are
elementary or functions of the op table.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace

import numpy as np
import scipy.stats

from ...numpy_api.function_tables import MAKERS, STAND_INS
from ...numpy_api.registration import recurring, run_composition
from ...numpy_api.stand_ins import is_users_distribution, made, stand_in
from ...trace import operations
from ...trace.operands import adopt, values_of
from ...usercode.frames import not_supported
from .law_methods import CONTINUOUS, DISCRETE, NEEDS, OF_PARAMETERS, with_sums
from .laws import Law

QUANTILES = ("ppf", "isf", "median", "interval")


def _lacks(law: Law, name: str) -> bool:
    """Whether a law has no function from which a method follows."""
    # Quantiles of counts are whole numbers, which are data.
    if name not in NEEDS or (law.discrete and name in QUANTILES):
        return False
    return not any(getattr(law, source) for source in NEEDS[name])


def _completed(distribution, name: str, law: Law) -> Law:
    """Return a law with the functions that a method needs, if those that it has imply them."""
    its_own = getattr(scipy.stats, distribution.name, None) is distribution
    if not its_own or not _lacks(law, name):
        return law
    if law.discrete:
        return with_sums(law)
    if _lacks(law, "cdf") and not callable(law.low) and not callable(law.high):
        law = made("scipy.stats", "_implied.areas", (distribution, law))
    if name in QUANTILES and not _lacks(law, "cdf"):
        law = made("scipy.stats", "_implied.quantiles", (distribution, law))
    return law


def method_of(distribution, name: str, law: Law, evaluate):
    """Return a method for traced arguments, which raises if the law lacks a function that it needs."""
    law = _completed(distribution, name, law)
    if _lacks(law, name):

        def implementation(*args, **kwargs):
            raise not_supported(
                f"scipy.stats.{distribution.name}.{name} of a traced array",
                f"{'logpmf and pmf' if law.discrete else 'logpdf and pdf'} are",
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

    return stand_in(getattr(distribution, name), implementation, run_broadcast, knows_sizes=True)


def run_broadcast(implementation, value, args, kwargs):
    """Broadcast a moment to NumPy's shape: the variance has that of ``loc``, on which it does not depend."""

    def run():
        result = implementation(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple(map(_adopted, result, value))
        return _adopted(result, value)

    return recurring(implementation, value, args, kwargs, run)


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

    @property
    def __class__(self):
        """SciPy's class, for tests of types."""
        return type(self._original)

    def __getattr__(self, name):
        method = self._make(self._original, name)
        if method is None and name in (*EXPECTATIONS, "fit") and hasattr(self._original, "expect"):
            method = made("scipy.stats", f"_methods.{name}", self)
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
        """Return a method of the frozen distribution with its shapes, location and scale filled in."""
        distribution = self._distribution
        expects = name in EXPECTATIONS and hasattr(distribution._original, "expect")
        if expects and name == "expect":
            return self._expect
        if not expects and distribution._make(distribution._original, name) is None:
            return getattr(distribution._original(*self._args, **self._kwargs), name)
        method = getattr(distribution, name)
        given = dict(self._kwargs)
        given.pop("seed", None)  # a seed is for draws alone, which are refused
        if name == "entropy" and not hasattr(distribution._original, "_parse_args"):
            return functools.partial(method, **self._of_vectors(distribution._original, given))
        if name == "stats":  # the option of ``stats`` itself comes behind the parameters

            def call(moments="mv"):
                return method(*self._args, moments=moments, **given)

            return call

        def call(*args, **kwargs):
            return method(*args, *self._args, **given, **kwargs)

        return call

    def _of_vectors(self, original, given) -> dict:
        """Return those parameters of a law of vectors or matrices that its entropy takes, without a mean."""
        bound = inspect.signature(original).bind_partial(*self._args, **given).arguments
        taken = inspect.signature(original.entropy).parameters
        return {name: value for name, value in bound.items() if name in taken}

    def _expect(self, func=None, lb=None, ub=None, **options):
        """Return an expected value; SciPy's own method takes the parameters in another form."""
        original = self._distribution._original
        shapes, loc, scale = original._parse_args(*self._args, **self._kwargs)
        if hasattr(original, "pdf"):
            options["scale"] = scale
        return self._distribution.expect(func, args=shapes, loc=loc, lb=lb, ub=ub, **options)


# Methods that call other methods, or the user's function (`numbatape.solvers.expectations`).
EXPECTATIONS = ("expect", "moment", "nnlf")
LAWS: dict[str, Law] = {}


def register(name: str, law: Law) -> None:
    """Register the law of the distribution with that name."""
    LAWS[name] = law
    methods = (DISCRETE if law.discrete else CONTINUOUS) | OF_PARAMETERS

    def make(distribution, method):
        evaluate = methods.get(method)
        return None if evaluate is None else method_of(distribution, method, law, evaluate)

    MAKERS["scipy.stats"][name] = lambda original: StandIn(original, make)


def extend(name: str, **functions) -> None:
    """Add functions to a law that is registered."""
    register(name, replace(LAWS[name], **functions))


def named(name) -> tuple | None:
    """Return ``(original, stand-in)`` of the distribution with some name, or None."""
    original = getattr(scipy.stats, name, None) if isinstance(name, str) else None
    return None if original is None or name not in STAND_INS["scipy.stats"] else (original, _stand_in(name))


@functools.cache
def _stand_in(name: str):
    return made("scipy.stats", name, getattr(scipy.stats, name))


def stand_in_of(value):
    """Return the stand-in for a distribution that was frozen outside: ``prior = norm(0, 1)``, or None."""
    if (stands := _of_data(value)) is not None:
        return stands
    kept = getattr(value, "dist", None)
    if (stands := _of_data(kept)) is not None:
        return Frozen(stands, value.args, value.kwds)
    if kept is None:
        return _thaw_vectors(value)
    if is_users_distribution(kept):
        return Frozen(operations.users_distribution(kept), value.args, value.kwds)
    stands = named(getattr(kept, "name", None))
    if stands is None or type(kept) is not type(stands[0]):
        return None
    return Frozen(stands[1], value.args, value.kwds)


def _of_data(value):
    """Return the stand-in for a histogram's law, or for one of places and their probabilities, or None."""
    if isinstance(value, scipy.stats.rv_histogram):
        return made("scipy.stats", "_methods.histogram", value)
    if isinstance(value, scipy.stats.rv_discrete) and type(value).__name__ == "rv_sample":
        return made("scipy.stats", "_methods.sample", value)
    return None


def _thaw_vectors(value):
    """Thaw a distribution of vectors or matrices, which keeps its parameters as attributes."""
    stands = named(type(value).__name__.removesuffix("_frozen"))
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
