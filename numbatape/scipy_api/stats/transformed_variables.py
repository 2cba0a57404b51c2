"""Random variables that functions of ``scipy.stats`` make of others: truncated, mixed, functions of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special as sc
import scipy.stats

from .laws import INF
from .random_variables import RandomVariable, Transformed, continuous


class Truncated(Transformed):
    """X under the condition that it is between two ends."""

    def __init__(self, x, lb=-INF, ub=INF):
        super().__init__(x, lambda x, lb, ub: scipy.stats.truncate(x, lb, ub), lb, ub)
        low, high = x._support()
        self._low, self._high = np.maximum(low, lb), np.minimum(high, ub)
        with np.errstate(all="ignore"):
            self._mass = x._log_mass(self._low, self._high)

    def _support(self):
        return self._low, self._high

    def _logpdf(self, x):
        return self._inside(x, self._x._logpdf(x) - self._mass, -INF)

    def _logcdf(self, x):
        return self._clipped(x, self._x._log_mass(self._low, x) - self._mass, -INF, 0.0)

    def _logccdf(self, x):
        return self._clipped(x, self._x._log_mass(x, self._high) - self._mass, 0.0, -INF)

    def _pdf(self, x):
        return np.exp(self._logpdf(x))

    def _cdf(self, x):
        return np.exp(self._logcdf(x))

    def _ccdf(self, x):
        return np.exp(self._logccdf(x))

    def _icdf(self, p):
        return self._x._icdf(self._x._cdf(self._low) + p * np.exp(self._mass))

    def _iccdf(self, p):
        return self._x._iccdf(self._x._ccdf(self._high) + p * np.exp(self._mass))


class Increasing(Transformed):
    """``exp(X)`` or ``log(X)``: g(X) with the inverse h of g, and with the logarithm of the slope of h."""

    def __init__(self, x, name: str):
        super().__init__(x, lambda x: getattr(scipy.stats, name)(x))
        exponential = np.exp, np.log, lambda x: -np.log(x)
        self._g, self._h, self._log_slope = exponential if name == "exp" else (np.log, np.exp, lambda x: x)

    def _support(self):
        with np.errstate(all="ignore"):
            low, high = self._x._support()
            return self._g(low), self._g(high)

    def _logpdf(self, x):
        return self._inside(x, self._x._logpdf(self._h(x)) + self._log_slope(x), -INF)

    def _pdf(self, x):
        return self._inside(x, self._x._pdf(self._h(x)) * np.exp(self._log_slope(x)), 0.0)

    def _cdf(self, x):
        return self._clipped(x, self._x._cdf(self._h(x)), 0.0, 1.0)

    def _ccdf(self, x):
        return self._clipped(x, self._x._ccdf(self._h(x)), 1.0, 0.0)

    def _logcdf(self, x):
        return self._clipped(x, self._x._logcdf(self._h(x)), -INF, 0.0)

    def _logccdf(self, x):
        return self._clipped(x, self._x._logccdf(self._h(x)), 0.0, -INF)

    def _icdf(self, p):
        return self._g(self._x._icdf(p))

    def _iccdf(self, p):
        return self._g(self._x._iccdf(p))


class OrderStatistic(Transformed):
    """The one of rank r among n variables like X."""

    def __init__(self, x, r, n):
        super().__init__(x, lambda x, r, n: scipy.stats.order_statistic(x, r=r, n=n), r, n)
        self._r, self._n = r, n

    def _support(self):
        return self._x._support()

    def _logpdf(self, x):
        below, above = self._r - 1.0, self._n - self._r
        density = self._x._logpdf(x) - sc.betaln(self._r, above + 1.0)
        for count, part in ((below, self._x._logcdf(x)), (above, self._x._logccdf(x))):
            density = density + np.where(np.equal(count, 0.0), 0.0, count * part)
        return density

    def _pdf(self, x):
        return np.exp(self._logpdf(x))

    def _cdf(self, x):
        return sc.betainc(self._r, self._n - self._r + 1.0, self._x._cdf(x))

    def _ccdf(self, x):
        return sc.betainc(self._n - self._r + 1.0, self._r, self._x._ccdf(x))

    def _icdf(self, p):
        return self._x._icdf(sc.betaincinv(self._r, self._n - self._r + 1.0, p))

    def _iccdf(self, p):
        return self._x._iccdf(sc.betaincinv(self._n - self._r + 1.0, self._r, p))


class Mixture(RandomVariable):
    """One of several variables, with given probabilities."""

    def __init__(self, components, weights=None):
        count = len(components)
        super().__init__(*(p for one in components for p in one._parameters), weights)
        self.components = [continuous(one) for one in components]
        self.weights = np.full(count, 1.0 / count) if weights is None else weights

    def __repr__(self) -> str:
        return f"mixture of {', '.join(map(repr, self.components))}"

    def _original(self):
        parts = [one._original() for one in self.components]
        return scipy.stats.Mixture(parts, weights=np.array(self.weights))

    def _sum(self, name: str, *args):
        parts = [getattr(one, name)(*args) * w for one, w in zip(self.components, self.weights, strict=True)]
        return sum(parts[1:], parts[0])

    def _logsum(self, name: str, x):
        total = -INF
        for one, w in zip(self.components, self.weights, strict=True):
            total = np.logaddexp(total, getattr(one, name)(x) + np.log(w))
        return total

    def _support(self):
        lows, highs = zip(*(one._support() for one in self.components), strict=True)
        return np.min(np.stack(lows), 0), np.max(np.stack(highs), 0)

    def _variance(self):
        mean = self.mean()
        pairs = zip(self.components, self.weights, strict=True)
        return sum(w * (one.variance() + np.square(one.mean() - mean)) for one, w in pairs)


def _by_parts(name: str) -> Callable:
    if name.startswith("log"):
        return lambda self, x: self._logsum(f"_{name}", x)
    return lambda self, *x: self._sum(f"_{name}" if x else name, *x)


for _name in ("pdf", "cdf", "ccdf", "logpdf", "logcdf", "logccdf", "mean"):
    setattr(Mixture, f"_{_name}", _by_parts(_name))
