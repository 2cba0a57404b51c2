"""Gauss-Jacobi quadrature with parameters that have a derivative.

SciPy's own code branches where the parameters are equal, or sum up to zero: there its derivatives are those
of narrower families. Here the nodes come from SciPy as plain numbers; two steps of Newton's method, which
leave them where they are, carry their derivatives up to third order, and the weights are DLMF 3.5.18, 18.3.
"""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace.operands import find_trace, lift_all
from .orthogonal_polynomials import jacobi
from .ufunc_table import whole


def _nodes_and_weights(original, n, given, parameters, mu):
    """Return a rule with the weight function ``(1 - x)**a (1 + x)**b``.

    Parameters
    ----------
    original
        SciPy's function.
    n
        The number of nodes.
    given
        Its further arguments, traced.
    parameters
        a and b.
    mu
        Whether the sum of weights is asked for, too.
    """
    name = original.__name__
    count = whole(name, n)
    search = Search(f"scipy.special.{name}", lambda *given: original(count, *map(float, given)), given)
    x = search.numbers("nodes", lambda found: found[0])
    a, b = parameters

    def slope(x):
        return 0.5 * (count + a + b + 1.0) * jacobi(count - 1.0, a + 1.0, b + 1.0, x)

    for _ in range(2):
        x = x - jacobi(float(count), a, b, x) / slope(x)
    total = 2.0 ** (a + b + 1.0) * sc.beta(a + 1.0, b + 1.0)
    weights = 1.0 / ((1.0 - x) * (1.0 + x) * np.square(slope(x)))
    weights = weights * (total / np.sum(weights))
    return (x, weights, total) if mu else (x, weights)


@stands_for("scipy.special", "roots_jacobi")
def roots_jacobi(n, alpha, beta, mu=False):
    if find_trace(alpha, beta) is None:
        return sc.roots_jacobi(n, alpha, beta, mu)
    given = tuple(lift_all(alpha, beta))
    return _nodes_and_weights(sc.roots_jacobi, n, given, given, mu)


@stands_for("scipy.special", "roots_gegenbauer")
def roots_gegenbauer(n, alpha, mu=False):
    if find_trace(alpha) is None:
        return sc.roots_gegenbauer(n, alpha, mu)
    (alpha,) = lift_all(alpha)
    return _nodes_and_weights(sc.roots_gegenbauer, n, (alpha,), (alpha - 0.5, alpha - 0.5), mu)
