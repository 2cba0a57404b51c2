"""``__array_function__``: NumPy's functions of traced arrays, as compositions of primitives."""

from .registry import along, constant_only, dispatch, implements, on_constants, unsupported
from . import (  # noqa: I001  (they register themselves)
    reductions,
    statistics,
    ordering,
    shape,
    join,
    build,
    select,
    predicates,
    products,
    einsum,
    linalg,
    numeric,
)
from .reductions import logsumexp

__all__ = [
    "along",
    "build",
    "constant_only",
    "dispatch",
    "einsum",
    "implements",
    "join",
    "linalg",
    "logsumexp",
    "numeric",
    "on_constants",
    "ordering",
    "predicates",
    "products",
    "reductions",
    "select",
    "shape",
    "statistics",
    "unsupported",
]
