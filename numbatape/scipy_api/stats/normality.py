"""``scipy.stats.shapiro``: the statistic is a composition, its p-value is Royston's polynomial of it."""

from __future__ import annotations

import numpy as np
import scipy.special as sc
import scipy.stats
from scipy.stats._ansari_swilk_statistics import swilk

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import run_record
from ...numpy_api.stand_ins import stand_in
from ...trace import operations
from ...trace.axes import pinned
from ...trace.operands import is_wrong, lift_first

# P. Royston, "Remark AS R94", Applied Statistics 44 (1995): coefficients, the constant first.
SMALL_MEAN, SMALL_LOG_SCALE = (
    (0.5440, -0.39978, 0.025054, -6.714e-4),
    (1.3822, -0.77857, 0.062767, -0.0020322),
)
MEAN, LOG_SCALE = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)
LIMIT = (-2.273, 0.459)
FLAT = 1e-19  # a sample whose range is less has the statistic and the p-value 1
SMALL = 11  # samples of this size and smaller have polynomials of their own


def _p_value(w, size: int):
    if size == 3:
        return np.maximum(6.0 / np.pi * (np.arcsin(np.sqrt(w)) - np.arcsin(np.sqrt(0.75))), 0.0)
    polynomial = np.polynomial.polynomial.polyval
    y = np.log(1.0 - w)
    if size <= SMALL:
        y = -np.log(polynomial(size, LIMIT) - y)
        mean, log_scale = polynomial(size, SMALL_MEAN), polynomial(size, SMALL_LOG_SCALE)
    else:
        mean, log_scale = polynomial(np.log(size), MEAN), polynomial(np.log(size), LOG_SCALE)
    return sc.ndtr((mean - y) / np.exp(log_scale))


def shapiro(value, x, *, axis=None, nan_policy="propagate", keepdims=False):
    """The square of a linear combination of the sorted sample; SciPy knows the coefficients by its size."""
    x = lift_first(x)
    if axis is not None and x.ndim > 1:
        lines = np.moveaxis(x, axis, -1)
        shape = lines.shape[:-1]
        rows = np.reshape(lines, (-1, lines.shape[-1]))
        found = [shapiro(value, line, nan_policy=nan_policy) for line in rows]
        results = [np.reshape(np.stack(parts), shape) for parts in zip(*found, strict=True)]
        return type(value)(*(np.expand_dims(part, axis) if keepdims else part for part in results))
    y = np.sort(np.ravel(x))
    if nan_policy == "omit":  # sorted, they are the last; how many there are is a guard
        y = y[: int(np.sum(~np.isnan(y)))]
    elif nan_policy == "raise" and is_wrong(np.any(np.isnan(y))):
        raise ValueError("The input contains nan values")
    size = pinned(y, 0)
    if size < 3:  # SciPy has warned of it
        return type(value)(np.sum(y) + np.nan, np.sum(y) + np.nan)
    weights = np.zeros(size // 2)
    swilk(np.arange(float(size)), weights, 0)  # fills the weights in
    half = len(weights)
    gaps = y[::-1][:half] - y[:half]
    flat = np.less(y[-1] - y[0], FLAT)
    squares = np.where(flat, 1.0, np.sum(np.square(y - np.mean(y))))
    w = np.where(flat, 1.0, np.square(np.sum(weights * gaps)) / squares)
    return type(value)(w, np.where(flat, 1.0, _p_value(np.where(flat, 0.5, w), size)))


def _stand_in(original):
    """Return a copy of SciPy's function where that is written in Python, which it is since SciPy 1.18."""
    if hasattr(scipy.stats._morestats, "_swilk"):
        return operations.library_copy(original)
    return stand_in(original, implementation=shapiro, run=run_record)


MAKERS["scipy.stats"]["shapiro"] = _stand_in
