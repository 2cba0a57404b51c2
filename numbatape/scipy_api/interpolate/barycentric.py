"""``scipy.interpolate.BarycentricInterpolator`` of traced nodes and values, and at traced points.

Its class is copied like the user's classes, except for two things. SciPy multiplies the weights in a random
order, which a tape can't repeat. And SciPy looks up the value at a node, which would have no slope; here a
polynomial is the sum of Lagrange's, which have one at every point.
"""

from __future__ import annotations

import numpy as np
import scipy.interpolate

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import stands_for
from ...trace import operations
from ...trace.operands import find_trace, lift_all, lift_first
from ...trace.trace import standing

_MAKERS = MAKERS["scipy.interpolate"]


def weights(nodes):
    """Return the barycentric weights of distinct nodes, scaled as SciPy's."""
    # SciPy takes the real parts of complex nodes.
    nodes = np.astype(lift_first(nodes), float) if find_trace(nodes) is not None else np.asarray(nodes, float)
    gaps = (nodes[:, None] - nodes) * _scale(nodes)
    return 1.0 / np.prod(np.where(np.eye(len(nodes), dtype=bool), 1.0, gaps), axis=1)


def _scale(nodes):
    """Return the factor that gives the nodes' interval a capacity of one: products of gaps stay moderate."""
    return 4.0 / (np.max(nodes) - np.min(nodes))


def _constructor(original):
    construct = operations.library_copy(original)

    def __init__(self, xi, yi=None, axis=0, *, wi=None, **options):
        construct(self, xi, yi, axis, wi=weights(xi) if wi is None else wi, **options)
        if wi is None:
            self._inv_capacity = _scale(self.xi)  # kept, because `add_xi` multiplies further weights with it

    return __init__


def _evaluation(original):
    def _evaluate(self, x):
        if find_trace(x, self.xi, self.yi) is None:
            return original(self, x)
        x, nodes, factors, values = lift_all(x, self.xi, self.wi, self.yi)
        gaps = (x[..., None] - nodes) * _scale(nodes)
        others = np.where(np.eye(len(nodes), dtype=bool), 1.0, gaps[..., None, :])
        lagrange = factors * np.prod(others, axis=-1)
        return (lagrange @ values) / np.sum(lagrange, -1)[..., None]

    return _evaluate


@stands_for("scipy.interpolate", "barycentric_interpolate", run=None)
def barycentric_interpolate(xi, yi, x, axis=0, *, der=0, rng=None):
    made = standing(scipy.interpolate.BarycentricInterpolator)(xi, yi, axis)
    if np.ndim(der):
        return made.derivatives(x, der=np.amax(der) + 1)[der]
    return made(x) if der == 0 else made.derivative(x, der=der)


_MAKERS["BarycentricInterpolator.__init__"] = _constructor
_MAKERS["BarycentricInterpolator._evaluate"] = _evaluation
