"""Parameters with constraints as parameters without, as Stan's reference manual defines them.

A transform maps numbers without constraints to a value that satisfies one, and knows the logarithm of its
Jacobian determinant. `unconstrained` puts the transforms of a model's parameters together.

Examples
--------
>>> import numpy as np, numbatape as nt
>>> from numbatape import transforms
>>> def logp(p):
...     return -0.5 * np.sum(p["theta"] ** 2) / p["sigma"] ** 2 - 3 * np.log(p["sigma"]) - p["sigma"]
>>> start = {"sigma": 1.0, "theta": np.zeros(3)}
>>> density = transforms.unconstrained(logp, start, {"sigma": transforms.positive})
>>> density.names
('sigma', 'theta[0]', 'theta[1]', 'theta[2]')
>>> nt.grad(density)(density.start)
array([-3.,  0.,  0.,  0.])
"""

from .bounds import interval, lower, positive, upper
from .constrained_vectors import ordered, positive_ordered, simplex, sum_to_zero
from .correlations import correlation_cholesky
from .density import Unconstrained, unconstrained
from .transform import Transform, real

__all__ = [
    "Transform",
    "Unconstrained",
    "correlation_cholesky",
    "interval",
    "lower",
    "ordered",
    "positive",
    "positive_ordered",
    "real",
    "simplex",
    "sum_to_zero",
    "unconstrained",
    "upper",
]
