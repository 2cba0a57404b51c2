"""Slopes of noncentral chi-squared, F and t distribution functions for their degrees of freedom.

There is no closed form. Chi-squared and F are sums over Poisson's law of central functions, whose slopes
for their parameters are rows of the op table. A sum's terms have one maximum, whose place and width have
formulas: terms near it are added, and where there are many, every h-th one is, which for terms this smooth
is as exact as all of them. Student's t is an integral over the spread that the normal variable is divided
by: its logarithm takes the nodes of a trapezoidal rule, around the maximum of the integrand. So slopes keep
their digits in the tails, too. Nodes are data, found again in each call.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all
from ...trace.primitives import by_row
from .laws import ROOT_2PI

TERMS = 128  # nodes of a sum
SPREADS = 240  # nodes of the integral for t
FAR = 40.0  # how much smaller than its maximum the logarithm of what is left out is


def _nodes(run, *args):
    """Return the first node and the distance of nodes for arguments, of which some may be traced."""
    with np.errstate(all="ignore"):
        if find_trace(*args) is None:
            return run(*args)
        search = Search("degrees of freedom", run, tuple(lift_all(*args)), any_size=True)
        return tuple(search.numbers("nodes", lambda found, k=k: found[k]) for k in range(2))


def _spaced(first, step, count):
    return np.expand_dims(first, -1) + np.expand_dims(step, -1) * np.arange(float(count))


def _window(place, width):
    """Return first and distance of the terms around a maximum."""
    first = np.maximum(np.floor(place - 9.0 * width - 10.0), 0.0)
    return first, np.maximum((place + 9.0 * width + 30.0 - first) / (TERMS - 1.0), 1.0)


def _poisson(count, mean):
    """Return Poisson's mass, also between whole numbers; where the mean is zero its slope needs a power."""
    few = np.less(mean, 1.0)
    some = np.where(few, 1.0, mean)
    power = np.exp(-mean) * np.power(np.where(few, mean, 0.5), count) * sc.rgamma(count + 1.0)
    return np.where(few, power, np.exp(sc.xlogy(count, some) - some - sc.gammaln(count + 1.0)))


def _summed(nodes, nc, term):
    """Sum ``term(j)`` over Poisson's law with mean nc/2; term gets an axis of nodes at the end."""
    first, step = nodes
    count = _spaced(first, step, TERMS)
    return step * np.sum(_poisson(count, 0.5 * np.expand_dims(nc, -1)) * term(count), -1)


def _chi2_nodes(x, df, nc):
    a, product = 0.5 * df, 0.25 * nc * x
    place = 2.0 * product / (a + np.sqrt(a * a + 4.0 * product))
    curvature = 1.0 / np.maximum(place, 1e-9) + 1.0 / (place + a)
    return _window(place, 1.0 / np.sqrt(curvature))


def chi2_for_freedom(x, df, nc):
    """Return the slope of ``chndtr(x, df, nc)`` for df."""
    half, end = 0.5 * np.expand_dims(df, -1), 0.5 * np.expand_dims(x, -1)
    slope = by_row("gammainc_a")
    return 0.5 * _summed(_nodes(_chi2_nodes, x, df, nc), nc, lambda count: slope(half + count, end))


def _f_nodes(x, m, n, nc):
    share = m * x / (m * x + n)
    a, b, product = 0.5 * m, 0.5 * n, 0.5 * nc * share
    lead = product - a
    root = np.sqrt(lead * lead + 4.0 * product * (a + b))
    place = np.where(lead > 0.0, 0.5 * (lead + root), 2.0 * product * (a + b) / (root - lead))
    curvature = 1.0 / np.maximum(place, 1e-9) + 1.0 / (a + place) - 1.0 / (a + b + place)
    return _window(place, 1.0 / np.sqrt(curvature))


def f_for_freedom(first, density, x, m, n, nc):
    """Return the slope of ``ncfdtr(m, n, nc, x)`` for the first or the second degrees of freedom."""
    a, b = 0.5 * np.expand_dims(m, -1), 0.5 * np.expand_dims(n, -1)
    share = np.expand_dims(m * x / (m * x + n), -1)
    slope = by_row("betainc_a" if first else "betainc_b")
    whole = 0.5 * _summed(_nodes(_f_nodes, x, m, n, nc), nc, lambda count: slope(a + count, b, share))
    moved = density * x
    return whole + moved / m if first else whole - moved / n


# ---- Student's t


def _t_exponent(u, x, df, nc):
    s = np.exp(u)
    return (df + 1.0) * u - 0.5 * (df * s * s + np.square(x * s - nc))


def _t_nodes(x, df, nc):
    """Search for the places on both sides of the maximum where the integrand is negligible."""
    lead, square = x * nc, df + x * x
    root = np.sqrt(lead * lead + 4.0 * square * (df + 1.0))
    top = np.log(np.where(lead > 0.0, 0.5 * (lead + root) / square, 2.0 * (df + 1.0) / (root - lead)))
    level = _t_exponent(top, x, df, nc) - FAR
    ends = []
    for reach in (-1.5 * FAR, 20.0):
        near, far = top, top + reach
        for _ in range(50):
            middle = 0.5 * (near + far)
            above = _t_exponent(middle, x, df, nc) > level
            near, far = np.where(above, middle, near), np.where(above, far, middle)
        ends.append(far)
    return ends[0], (ends[1] - ends[0]) / (SPREADS - 1.0)


def _t_spreads(x, df, nc):
    """Return logarithms of spreads and their weights, with the normal density at x times the spread."""
    first, step = _nodes(_t_nodes, x, df, nc)
    logs = _spaced(first, step, SPREADS)
    s = np.exp(logs)
    gap = np.expand_dims(x, -1) * s - np.expand_dims(nc, -1)
    return logs, s, np.expand_dims(step, -1) * s * np.exp(-0.5 * gap * gap) / ROOT_2PI


def t_for_freedom(x, df, nc):
    """Return the slope of ``nctdtr(df, nc, x)`` for df.

    Integrated by parts: the normal density times the slope of the distribution function of the spread.
    """
    _, s, weights = _t_spreads(x, df, nc)
    half = 0.5 * np.expand_dims(df, -1)
    end = half * s * s
    slope = 0.5 * (by_row("gammainc_a")(half, end) + by_row("gamma_factor")(half, end) / half)
    return -x * np.sum(weights * slope, -1)


def t_density_for_freedom(density, x, df, nc):
    """Return the slope of the density for df: its logarithm's is the mean of the score of the spread."""
    logs, s, weights = _t_spreads(x, df, nc)
    df = np.expand_dims(df, -1)
    exponent = df * (logs - 0.5 * s * s + 0.5)
    mass = weights * np.exp(exponent)
    score = 0.5 * (np.log(0.5 * df) - sc.psi(0.5 * df) - (np.expm1(2.0 * logs) - 2.0 * logs))
    return density * np.sum(mass * score, -1) / np.sum(mass, -1)
