"""``scipy.stats.shapiro``: the statistic is a composition, its p-value is Royston's polynomial of it."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import scipy.special as sc
import scipy.stats

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.registration import run_record
from ...numpy_api.stand_ins import stand_in
from ...trace.axes import axes_of, pinned
from ...trace.operands import is_wrong, lift_first

# These are the coefficients of P. Royston, "Remark AS R94", Applied Statistics 44 (1995), the constant first.
SMALL_MEAN, SMALL_LOG_SCALE = (
    (0.5440, -0.39978, 0.025054, -6.714e-4),
    (1.3822, -0.77857, 0.062767, -0.0020322),
)
MEAN, LOG_SCALE = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)
LIMIT = (-2.273, 0.459)
FLAT = 1e-19  # a sample whose range is less has the statistic and the p-value 1
SMALL = 11  # samples of this size and smaller have polynomials of their own
# Two polynomials in one over the root of the size: for the largest entry's weight, and for the next one's.
LARGEST = (
    (0.0, 0.221157, -0.147981, -2.071190, 4.434685, -2.706056),
    (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633),
)
# SciPy computes the statistic in Python since 1.18, and knows no flat samples there.
IN_PYTHON = hasattr(scipy.stats._morestats, "_swilk")


def _weights(size: int):
    """Return SciPy's weights of the smaller half of a sorted sample, up to their sign."""
    if not IN_PYTHON:
        from scipy.stats._ansari_swilk_statistics import swilk

        weights = np.zeros(size // 2)
        # SciPy's function writes the weights to its second argument.
        swilk(np.arange(float(size)), weights, 0)
        return weights
    if size == 3:
        return np.array([np.sqrt(0.5)])
    scores = sc.ndtri((np.arange(size, 0.0, -1.0) - 0.375) / (size + 0.25))
    total = np.sum(np.square(scores))
    polynomials = LARGEST[: 1 if size <= 5 else 2]
    ends = np.polynomial.polynomial.polyval(1.0 / np.sqrt(size), np.transpose(polynomials))
    ends += scores[: len(ends)] / np.sqrt(total)
    rest = total - 2.0 * np.sum(np.square(scores[: len(ends)]))
    weights = scores * np.sqrt((1.0 - 2.0 * np.sum(np.square(ends))) / rest)
    weights[: len(ends)] = ends
    return weights[: size // 2]


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
    """Return W, by a linear combination of the sorted sample, whose size gives SciPy the coefficients."""
    x = lift_first(x)
    axes = axes_of(x, axis)
    if keepdims:
        found = shapiro(value, x, axis=axes, nan_policy=nan_policy)
        return type(value)(*(np.expand_dims(part, axes) for part in found))
    if len(axes) < x.ndim:
        lines = np.moveaxis(x, axes, range(-len(axes), 0))
        shape = lines.shape[: -len(axes)]
        rows = np.reshape(lines, (math.prod(shape), -1))
        found = [shapiro(value, line, nan_policy=nan_policy) for line in rows]
        return type(value)(*(np.reshape(np.stack(parts), shape) for parts in zip(*found, strict=True)))
    y = np.sort(np.ravel(x))
    if nan_policy == "omit":  # NaN is sorted to the end; how many there are is a guard
        y = y[: int(np.sum(~np.isnan(y)))]
    elif nan_policy == "raise" and is_wrong(np.any(np.isnan(y))):
        raise ValueError("The input contains nan values")
    size = pinned(y, 0)
    if size < 3:  # SciPy has warned of it
        return type(value)(np.sum(y) + np.nan, np.sum(y) + np.nan)
    weights = _weights(size)
    half = len(weights)
    gaps = y[::-1][:half] - y[:half]
    squares = np.sum(np.square(y - np.mean(y)))
    if IN_PYTHON:
        w = np.square(np.sum(weights * gaps)) / squares
        w = np.clip(w, 0.75, 1.0) if size == 3 else w
        return type(value)(w[()], _p_value(w, size)[()])
    flat = np.less(y[-1] - y[0], FLAT)
    w = np.where(flat, 1.0, np.square(np.sum(weights * gaps)) / np.where(flat, 1.0, squares))
    return type(value)(w[()], np.where(flat, 1.0, _p_value(np.where(flat, 0.5, w), size))[()])


MAKERS["scipy.stats"]["shapiro"] = partial(stand_in, implementation=shapiro, run=run_record)
