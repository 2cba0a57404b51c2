"""Numbers with a lower bound, an upper bound, or both; arrays of them entry by entry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SpecError
from ..late import imported
from .transform import Transform, as_floats, require


@dataclass(frozen=True, repr=False)
class Lower(Transform):
    """Numbers above a bound: ``x = bound + exp(y)``."""

    bound: float

    @property
    def name(self) -> str:
        return "positive" if self.bound == 0.0 else f"lower({self.bound})"

    def constrain(self, y):
        x = np.exp(as_floats(y))
        return x if self.bound == 0.0 else x + self.bound

    def log_jacobian(self, y):
        return as_floats(y)

    def unconstrain(self, x):
        x = as_floats(x)
        require(self, x > self.bound, x, f"numbers above {self.bound}")
        return np.log(x - self.bound)


@dataclass(frozen=True, repr=False)
class Upper(Transform):
    """Numbers below a bound: ``x = bound - exp(y)``."""

    bound: float

    @property
    def name(self) -> str:
        return f"upper({self.bound})"

    def constrain(self, y):
        return self.bound - np.exp(as_floats(y))

    def log_jacobian(self, y):
        return as_floats(y)

    def unconstrain(self, x):
        x = as_floats(x)
        require(self, x < self.bound, x, f"numbers below {self.bound}")
        return np.log(self.bound - x)


@dataclass(frozen=True, repr=False)
class Interval(Transform):
    """Numbers between two bounds: ``x = low + (high - low) / (1 + exp(-y))``."""

    low: float
    high: float

    @property
    def name(self) -> str:
        return f"interval({self.low}, {self.high})"

    def constrain(self, y):
        # Importing scipy.special takes a tenth of a second: models without such bounds need not wait for it.
        return self.low + (self.high - self.low) * imported("scipy.special").expit(as_floats(y))

    def log_jacobian(self, y):
        y = as_floats(y)
        # This is log expit(y) + log expit(-y), where neither overflows.
        return np.log(self.high - self.low) - np.logaddexp(0.0, y) - np.logaddexp(0.0, -y)

    def unconstrain(self, x):
        x = as_floats(x)
        inside = (x > self.low) & (x < self.high)
        require(self, inside, x, f"numbers between {self.low} and {self.high}")
        return np.log(x - self.low) - np.log(self.high - x)


positive = Lower(0.0)


def lower(bound: float) -> Transform:
    """Return the transform to numbers above a bound.

    Parameters
    ----------
    bound : float
        The bound, which no value reaches.

    Returns
    -------
    Transform
        It makes numbers above the bound of any real ones.

    Raises
    ------
    SpecError
        If the bound is not finite.

    Examples
    --------
    >>> from numbatape import transforms
    >>> transforms.lower(2.0).constrain(0.0)
    np.float64(3.0)
    """
    return Lower(_finite(bound, "lower"))


def upper(bound: float) -> Transform:
    """Return the transform to numbers below a bound.

    Parameters
    ----------
    bound : float
        The bound, which no value reaches.

    Returns
    -------
    Transform
        It makes numbers below the bound of any real ones.

    Raises
    ------
    SpecError
        If the bound is not finite.

    Examples
    --------
    >>> from numbatape import transforms
    >>> transforms.upper(2.0).constrain(0.0)
    np.float64(1.0)
    """
    return Upper(_finite(bound, "upper"))


def interval(low: float, high: float) -> Transform:
    """Return the transform to numbers between two bounds.

    Parameters
    ----------
    low, high : float
        The bounds, which no value reaches.

    Returns
    -------
    Transform
        It makes numbers between the bounds of any real ones.

    Raises
    ------
    SpecError
        If a bound is not finite, or ``low`` is not below ``high``.

    Examples
    --------
    >>> from numbatape import transforms
    >>> transforms.interval(-1.0, 1.0).constrain(0.0)
    np.float64(0.0)
    """
    low, high = _finite(low, "interval"), _finite(high, "interval")
    if low >= high:
        raise SpecError(f"transforms.interval({low}, {high}): the first bound must be below the second")
    return Interval(low, high)


def _finite(bound: float, name: str) -> float:
    try:
        bound = float(bound)
    except (TypeError, ValueError):
        raise SpecError(f"transforms.{name}: a bound must be a number, got {bound!r}") from None
    if not np.isfinite(bound):
        hint = "lower, upper and real are for values without one of the bounds"
        raise SpecError(f"transforms.{name}: a bound must be finite, got {bound}; {hint}")
    return bound
