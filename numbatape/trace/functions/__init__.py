"""``__array_function__``: NumPy's functions of traced arrays, as compositions of primitives."""

from . import (  # they register themselves
    array_functions,
    build,
    einsum,
    in_place,
    join,
    linalg,
    math_functions,
    numeric,
    ordering,
    predicates,
    products,
    reductions,
    scipy_functions,
    select,
    shape,
    statistics,
)
from .reductions import logsumexp
from .registry import along, constant_only, dispatch, implements, on_constants, unsupported

__all__ = [
    "along",
    "array_functions",
    "build",
    "constant_only",
    "dispatch",
    "einsum",
    "implements",
    "in_place",
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
