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
    scipy_functions,
    math_functions,
    array_functions,
)
from .reductions import logsumexp

__all__ = [
    "along",
    "array_functions",
    "build",
    "constant_only",
    "dispatch",
    "einsum",
    "implements",
    "join",
    "linalg",
    "logsumexp",
    "math_functions",
    "numeric",
    "on_constants",
    "ordering",
    "predicates",
    "products",
    "reductions",
    "scipy_functions",
    "select",
    "shape",
    "statistics",
    "unsupported",
]
