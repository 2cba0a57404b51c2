"""``scipy.stats.rv_discrete(values=(xk, pk))``: of traced places and probabilities, and at traced points."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stand_in
from ...trace.operands import find_trace, lift, values_of
from ...trace.trace import failing
from ...usercode.frames import not_supported
from .distributions import StandIn, run_broadcast
from .law_methods import operand
from .law_moments import ORDERS, about_the_mean


def _taken(x, places):
    trace = find_trace(x, places)
    return x[places] if trace is None else lift(trace, x)[places]


class Sample:
    """Places in ascending order, and the probability of each.

    Parameters
    ----------
    xk, pk
        Places and probabilities, traced or not.
    """

    def __init__(self, xk, pk):
        self.trace = find_trace(xk, pk)
        xk, pk = (np.ravel(operand(self.trace, part)) for part in (xk, pk))
        order = np.argsort(xk)
        self.xk, self.pk = _taken(xk, order) + 0.0, _taken(pk, order) + 0.0

    def _given(self, *parts) -> list:
        trace = find_trace(self.xk, self.pk, *parts)
        return [operand(trace, part) for part in parts]

    def _total(self, chosen, k):
        """Add the probabilities of those places that are chosen for k."""
        total = np.sum(np.where(chosen(self.xk, np.expand_dims(k, -1)), self.pk, 0.0), -1)
        return np.where(np.isnan(k), np.nan, total)

    def pmf(self, k, loc=0):
        k, loc = self._given(k, loc)
        return self._total(np.equal, k - loc)

    def cdf(self, k, loc=0):
        k, loc = self._given(k, loc)
        return np.where(np.greater_equal(k - loc, self.xk[-1]), 1.0, self._total(np.less_equal, k - loc))

    def sf(self, k, loc=0):
        return 1.0 - self.cdf(k, loc)

    def logpmf(self, k, loc=0):
        return np.log(self.pmf(k, loc))

    def logcdf(self, k, loc=0):
        return np.log(self.cdf(k, loc))

    def logsf(self, k, loc=0):
        return np.log(self.sf(k, loc))

    def ppf(self, q, loc=0):
        """Return a place: which one is data, since probabilities have no slope here."""
        q, loc = self._given(q, loc)
        reached = np.cumsum(self.pk)
        place = np.sum(np.expand_dims(q, -1) > reached, -1)
        inside = _taken(self.xk, np.minimum(place, np.size(values_of(self.xk)) - 1))
        inside = np.where(np.equal(q, 0.0), self.xk[0] - 1.0, np.where(np.equal(q, 1.0), self.xk[-1], inside))
        return np.where((q >= 0.0) & (q <= 1.0), inside + loc, np.nan)

    def isf(self, q, loc=0):
        return self.ppf(np.subtract(1.0, q), loc)

    def median(self, loc=0):
        return self.ppf(0.5, loc)

    def interval(self, confidence, loc=0):
        return self.ppf(0.5 * (1.0 - confidence), loc), self.ppf(0.5 * (1.0 + confidence), loc)

    def _raw(self, order: int, loc=0):
        return np.sum((self.xk + loc) ** order * self.pk)

    def moment(self, order, loc=0):
        return self._raw(int(order), loc)

    def _about(self, name: str):
        return about_the_mean(name, *(self._raw(order) for order in range(1, ORDERS.index(name) + 2)))

    def mean(self, loc=0):
        return self._about("mean") + loc

    def var(self, loc=0):
        return self._about("var")

    def std(self, loc=0):
        return np.sqrt(self.var())

    def stats(self, loc=0, moments="mv"):
        wanted = [name for name in ORDERS if name[0] in moments]
        found = [self.mean(loc) if name == "mean" else self._about(name) for name in wanted]
        return tuple(found) if len(found) > 1 else found[0]

    def entropy(self, loc=0):
        return np.sum(sc.entr(self.pk / np.sum(self.pk)))

    def expect(self, func=None, args=(), loc=0, lb=None, ub=None, conditional=False):
        """Add up what the function has at the places that are between the bounds, which are data."""
        x = self.xk + loc
        inside = np.equal(x, x)
        if lb is not None:
            inside = inside & np.greater_equal(x, lb)
        if ub is not None:
            inside = inside & np.less_equal(x, ub)
        share = np.where(inside, self.pk, 0.0)
        total = np.sum(np.where(inside, x if func is None else func(x, *args), 0.0) * share)
        return total / np.sum(share) if conditional else total

    def method(self, distribution, name: str):
        """Return a method; None for one of SciPy's own."""
        own = getattr(self, name, None) if name in METHODS else None
        if own is None:
            if self.trace is not None and not name.startswith("_"):
                raise not_supported(f"rv_discrete.{name} of traced values", "probabilities and moments are")
            return None
        if name == "expect":  # the function may have traced results
            return self._guarded(own)
        if self.trace is None:
            return stand_in(getattr(distribution, name), self._guarded(own), run_broadcast)

        def run(*args, **kwargs):
            with failing(self.trace):
                return self._guarded(own)(*args, **kwargs)

        return run

    @staticmethod
    def _guarded(own):
        def run(*args, **kwargs):
            with np.errstate(all="ignore"):  # logarithms of probabilities that are zero
                return own(*args, **kwargs)

        return run


METHODS = ("pmf", "cdf", "sf", "logpmf", "logcdf", "logsf", "ppf", "isf", "median", "interval", "moment",
           "mean", "var", "std", "stats", "entropy", "expect")  # fmt: skip


def of_object(original) -> StandIn:
    """Return the stand-in for a law that was made outside of the function, or of plain numbers."""
    return StandIn(original, Sample(original.xk, original.pk).method)


class _Class:
    """The stand-in for ``rv_discrete``, which is a base of the user's classes as SciPy's is."""

    def __init__(self, original: type):
        self._original = original
        self.__doc__ = original.__doc__

    def __call__(self, *args, values=None, **kwargs):
        if values is None:
            return self._original(*args, **kwargs)
        made = self._original(*args, values=tuple(map(values_of, values)), **kwargs)
        if find_trace(values) is None:
            return of_object(made)
        return StandIn(made, Sample(*values).method)

    def __instancecheck__(self, instance):
        return isinstance(getattr(instance, "_original", instance), self._original)

    def __mro_entries__(self, bases):
        return (self._original,)

    def __getattr__(self, name: str):
        return getattr(self._original, name)


MAKERS["scipy.stats"].update({"rv_discrete": _Class, "_methods.sample": of_object})
