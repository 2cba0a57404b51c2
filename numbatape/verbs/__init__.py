"""One-shot verbs: prepare on first use, cached per function, structure, dtypes and sizes.

Inside of a function that is being traced they record derivatives on its tape (``inner.py``).
"""

from .batch import batch
from .directions import derivative, hvp, jvp
from .first_order import grad, stop_gradient, value_and_grad, vjp
from .matrices import hessian, jacobian

__all__ = [
    "batch",
    "derivative",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]
