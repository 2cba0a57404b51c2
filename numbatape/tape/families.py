"""Levels, families and pools: what decides where the cells of a value stand."""

from __future__ import annotations

import numpy as np

# Levels: what a value depends on decides when it is computed and whether it has an adjoint.
CONSTANT, VARYING, ACTIVE = 0, 1, 2
# An array has at most this many dimensions, because the plan's kernel keeps a set of axes in 64 bits.
MOST_DIMENSIONS = 62
LEVELS = ("constant", "varying", "active")

# Families: the dtype of cells. Booleans and integers live in float cells (exact below 2**53).
F64, F32 = 0, 1
FAMILIES = ("f64", "f32")
FAMILY_DTYPE = (np.dtype(np.float64), np.dtype(np.float32))
NARROW = (np.dtype(np.float32), np.dtype(np.float16))  # The numbers of these dtypes are in float32 cells.

DTYPE_CLASSES = type(np.dtype)  # the class of np.dtypes.Float64DType, say

# Storages 0..5 are the pools of scalars: that of a level and a family has the number 2 * level + family. Code
# that makes scalars writes this formula out, because a call would take as long as everything else.
POOLS = tuple((level, family) for level in (CONSTANT, VARYING, ACTIVE) for family in (F64, F32))


def as_dtype(dtype) -> np.dtype:
    """Return the dtype that NumPy's functions take a ``dtype=`` for.

    They know its class, too, such as ``np.dtypes.Float64DType``, of which ``np.dtype`` makes that of objects.
    """
    return np.empty(0, dtype).dtype if dtype.__class__ is DTYPE_CLASSES else np.dtype(dtype)


def family_of_dtype(dtype) -> int:
    """Return the family whose cells hold numbers of a supported dtype."""
    return F32 if dtype in NARROW else F64
