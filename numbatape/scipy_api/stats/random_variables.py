"""Random variables of ``scipy.stats``'s newer interface, in traced functions, and what is made of them.

A variable answers the questions of SciPy's interface (``logpdf``, ``icdf``, ``variance``, ...) by the methods
of its class whose names begin with an underscore. What a class has no formula for is asked of SciPy's own
object, if nothing in the question is traced.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import UnsupportedOperationError
from ...trace.operands import find_trace
from ...trace.primitives import sample_of
from ...usercode.frames import not_supported, where_in_user_code
from .laws import INF, LOG_HALF, log_rest, pick

AT_POINTS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "ccdf", "logccdf", "icdf", "iccdf")
AT_POINTS += ("ilogcdf", "ilogccdf")
OF_ITSELF = ("mean", "variance", "standard_deviation", "median", "entropy", "support", "skewness")
OTHERS = (
    *("logentropy", "mode", "moment", "kurtosis", "sample", "plot"),
    *("tol", "cache_policy", "validation_policy", "reset_cache"),
)


def log_of_difference(log_more, log_less):
    """Return ``log(exp(log_more) - exp(log_less))``, accurately also where the two are close."""
    gap = np.minimum(log_less - log_more, 0.0)
    return np.where(np.equal(log_more, -INF), -INF, log_more + log_rest(gap))


class RandomVariable:
    """A random variable in a traced function.

    Parameters
    ----------
    parameters
        The numbers and arrays that determine it, traced or not.
    """

    __array_ufunc__ = None  # ``array * variable`` is asked of the variable
    discrete = False

    def __init__(self, *parameters):
        self._parameters = parameters

    def _original(self):
        """Return SciPy's own object, which exists only for parameters that are not traced."""
        raise NotImplementedError

    def __getattr__(self, name: str):
        answer = None if name.startswith("_") else self._answer(name)
        if name in AT_POINTS and answer is not None:
            return self._at_points(name, answer)
        if name in OF_ITSELF and answer is not None:
            return self._of_itself(name, answer)
        if name in (*AT_POINTS, *OF_ITSELF, *OTHERS):
            return self._of_scipy(name)
        raise AttributeError(f"a random variable ({type(self).__name__}) has no attribute {name!r}")

    def _answer(self, name: str) -> Callable | None:
        """Return the method that computes an answer, or None."""
        own = getattr(type(self), f"_{name}", None)
        if own is None and name == "standard_deviation" and self._answer("variance"):
            return lambda self: np.sqrt(self.variance())
        if own is None and name == "median" and self._answer("icdf"):
            return lambda self: self._icdf(0.5)
        if own is None and name in ("ilogcdf", "ilogccdf") and self._answer(name.replace("log", "")):
            return lambda self, x: self._answer(name.replace("log", ""))(self, np.exp(x))
        return own

    def _at_points(self, name: str, answer: Callable):
        def method(x, y=None, /, *, method=None):
            self._refuse_method(name, method)
            with np.errstate(all="ignore"):  # formulas may fail outside of the support
                if y is None:
                    return self._narrowed(answer(self, self._point(x)), x)
                return self._narrowed(self._between(name, self._point(x), self._point(y)), x, y)

        return method

    def _of_itself(self, name: str, answer: Callable):
        def method(*, method=None):
            self._refuse_method(name, method)
            with np.errstate(all="ignore"):
                found = answer(self)
            return found if name == "support" else self._narrowed(found)

        return method

    def _of_scipy(self, name: str):
        if find_trace(*self._parameters) is not None:
            raise self.refuse(name)
        found = getattr(self._original(), name)
        if not callable(found):
            return found

        def method(*args, **kwargs):
            if find_trace(args, tuple(kwargs.values())) is not None:
                raise self.refuse(name)
            return found(*args, **kwargs)

        return method

    def _refuse_method(self, name: str, method) -> None:
        if method is not None:
            raise UnsupportedOperationError(
                f"the option method={method!r} of a random variable's {name} at {where_in_user_code()} is "
                "not supported in traced functions; leave it out"
            )

    def refuse(self, name: str) -> UnsupportedOperationError:
        """Return the error for a question that has no answer with traced values."""
        known = [one for one in (*AT_POINTS, *OF_ITSELF) if self._answer(one)]
        return not_supported(
            f"{name} of a random variable ({self}) with traced values", f"these are: {', '.join(known)}"
        )

    def _point(self, x):
        return x if find_trace(x) is not None else np.asarray(x, float)[()]

    def _narrowed(self, result, *points):
        """Return a result as float32 if everything that went in is; without parameters SciPy has float64."""
        if not self._parameters:
            return result
        kinds = {np.asarray(sample_of(x)).dtype for x in (*self._parameters, *points)}
        return result.astype(np.float32) if kinds == {np.dtype(np.float32)} else result

    def _between(self, name: str, x, y):
        """Return the probability of an interval, or of everything else (or the logarithm of these)."""
        inside = name in ("cdf", "logcdf")
        if name not in ("cdf", "ccdf", "logcdf", "logccdf"):
            raise TypeError(f"{name} takes one argument")
        if not name.startswith("log"):
            upper = np.maximum(self._ccdf(x), self._ccdf(y)) < 0.5
            mass = np.where(upper, self._ccdf(x) - self._ccdf(y), self._cdf(y) - self._cdf(x))
            return mass if inside else np.where(mass >= 0.0, self._cdf(x) + self._ccdf(y), 1.0 - mass)
        if np.any(x > y):
            raise UnsupportedOperationError(
                f"{name}(x, y) with x > y is a logarithm of a negative number, at {where_in_user_code()}"
            )
        return self._log_mass(x, y) if inside else np.logaddexp(self._logcdf(x), self._logccdf(y))

    def _log_mass(self, x, y):
        """Return the logarithm of the probability of an interval, whose ends may be infinite."""
        first, last = np.equal(x, -INF), np.equal(y, INF)  # formulas have no slope at infinite ends
        above_x = np.where(first, 0.0, self._logccdf(x))
        by_upper = log_of_difference(above_x, np.where(last, -INF, self._logccdf(y)))
        below_y, below_x = np.where(last, 0.0, self._logcdf(y)), np.where(first, -INF, self._logcdf(x))
        return np.where(above_x < LOG_HALF, by_upper, log_of_difference(below_y, below_x))

    # ---- arithmetic

    def __add__(self, loc):
        return Shifted(self, loc, 1.0)

    def __mul__(self, scale):
        return Shifted(self, 0.0, scale)

    def __sub__(self, loc):
        return self + -loc

    def __truediv__(self, scale):
        return self * (1.0 / scale)

    def __neg__(self):
        return self * -1.0

    def __rsub__(self, other):
        return -self + other

    def __abs__(self):
        return Folded(self)

    __radd__, __rmul__ = __add__, __mul__

    def _unsupported_power(self, other):
        raise UnsupportedOperationError(
            f"powers and reciprocals of random variables in traced functions, at {where_in_user_code()}, are "
            "not supported; sums and products with numbers, exp, log, abs and truncate are"
        )

    __pow__ = __rpow__ = __rtruediv__ = _unsupported_power


def continuous(variable) -> RandomVariable:
    """Return a variable that is going to be transformed; discrete ones are not, in SciPy either."""
    if not isinstance(variable, RandomVariable) or variable.discrete:
        raise NotImplementedError("Transformations are currently only supported for continuous RVs.")
    return variable


class Transformed(RandomVariable):
    """What is made of another variable X by SciPy's ``make(X, *arguments)``."""

    def __init__(self, x: RandomVariable, make: Callable, *arguments):
        super().__init__(*continuous(x)._parameters, *arguments)
        self._x, self._make, self._arguments = x, make, arguments

    def _original(self):
        return self._make(self._x._original(), *self._arguments)

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()} {self._x!r}"

    def _inside(self, x, value, beyond):
        low, high = self._support()
        return np.where(np.logical_or(np.less(x, low), np.greater(x, high)), beyond, value)

    def _clipped(self, x, value, below, above):
        low, high = self._support()
        return np.where(np.less_equal(x, low), below, np.where(np.greater_equal(x, high), above, value))


class Shifted(Transformed):
    """``scale * X + loc``; the scale may be negative."""

    def __init__(self, x, loc, scale):
        if isinstance(x, Shifted):
            x, loc, scale = x._x, x._loc * scale + loc, x._scale * scale
        super().__init__(x, lambda x, loc, scale: x * scale + loc, loc, scale)
        self._loc, self._scale = loc, scale
        self._size, self._rises = np.abs(scale), np.greater(scale, 0.0)

    def _standard(self, x):
        return (x - self._loc) / self._scale

    def _placed(self, x):
        return x * self._scale + self._loc

    def _side(self, name: str, other: str, x):
        x_of = self._x
        return pick(self._rises, lambda: getattr(x_of, name)(x), lambda: getattr(x_of, other)(x))

    def _pdf(self, x):
        return self._x._pdf(self._standard(x)) / self._size

    def _logpdf(self, x):
        return self._x._logpdf(self._standard(x)) - np.log(self._size)

    def _cdf(self, x):
        return self._side("_cdf", "_ccdf", self._standard(x))

    def _ccdf(self, x):
        return self._side("_ccdf", "_cdf", self._standard(x))

    def _logcdf(self, x):
        return self._side("_logcdf", "_logccdf", self._standard(x))

    def _logccdf(self, x):
        return self._side("_logccdf", "_logcdf", self._standard(x))

    def _icdf(self, p):
        return self._placed(self._side("_icdf", "_iccdf", p))

    def _iccdf(self, p):
        return self._placed(self._side("_iccdf", "_icdf", p))

    def _mean(self):
        return self._placed(self._x.mean())

    def _median(self):
        return self._placed(self._x.median())

    def _variance(self):
        return self._x.variance() * np.square(self._scale)

    def _entropy(self):
        return self._x.entropy() + np.log(self._size)

    def _support(self):
        ends = [self._placed_end(end) for end in self._x._support()]
        return np.minimum(*ends), np.maximum(*ends)

    def _placed_end(self, end):
        infinite = np.isinf(end)  # an infinite end has no slope
        finite = self._placed(np.where(infinite, 0.0, end))
        return np.where(infinite, np.where(self._rises, end, -end), finite)


class Folded(Transformed):
    """``abs(X)``."""

    def __init__(self, x):
        super().__init__(x, abs)

    def _support(self):
        low, high = self._x._support()
        sizes = np.abs(low), np.abs(high)
        crosses = np.logical_and(np.less(low, 0.0), np.greater(high, 0.0))
        return np.where(crosses, 0.0, np.minimum(*sizes)), np.maximum(*sizes)

    def _pdf(self, x):
        return self._inside(x, self._x._pdf(x) + self._x._pdf(-x), 0.0)

    def _logpdf(self, x):
        return self._inside(x, np.logaddexp(self._x._logpdf(x), self._x._logpdf(-x)), -INF)

    def _cdf(self, x):
        return np.where(np.less(x, 0.0), 0.0, self._x._between("cdf", -np.abs(x), np.abs(x)))

    def _ccdf(self, x):
        return np.where(np.less(x, 0.0), 1.0, self._x._ccdf(np.abs(x)) + self._x._cdf(-np.abs(x)))

    def _logcdf(self, x):
        return np.where(np.less(x, 0.0), -INF, self._x._log_mass(-np.abs(x), np.abs(x)))

    def _logccdf(self, x):
        both = np.logaddexp(self._x._logccdf(np.abs(x)), self._x._logcdf(-np.abs(x)))
        return np.where(np.less(x, 0.0), 0.0, both)
