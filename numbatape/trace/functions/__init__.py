"""``__array_function__``: NumPy's functions of traced arrays, as compositions of primitives."""

from .registry import along, constant_only, dispatch, implements, on_constants, unsupported
from . import build, linalg, reductions, shape  # noqa: I001  (they register themselves)
from .reductions import logsumexp

__all__ = [
    "along",
    "build",
    "constant_only",
    "dispatch",
    "implements",
    "linalg",
    "logsumexp",
    "on_constants",
    "reductions",
    "shape",
    "unsupported",
]
