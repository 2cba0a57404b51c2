"""Systems, inverses, determinants and norms of complex matrices."""

from __future__ import annotations

import numpy as np

from ...late import imported
from ...trace import complex_parts
from ...trace.axes import length
from ...trace.operands import values_of
from ..linalg import moves


def _block(a):
    """Return the real matrix ``[[Re, -Im], [Im, Re]]`` that multiplies as a complex one does."""
    re, im = a.real, a.imag
    return np.concatenate(
        [np.concatenate([re, -im], -1), np.concatenate([im, re], -1)],
        -2,
    )


def _columns(b):
    return np.concatenate([b.real, b.imag], -2)


def _parts(stacked, n: int, value):
    return complex_parts.make(stacked[..., :n, :], stacked[..., n:, :], value)


# With this many rows, a rule (SciPy, and a pullback in NumPy) is faster than a real system of twice the size.
BLOCKS = 100


def solve(a, b):
    value = np.linalg.solve(*values_of((a, b)))
    n = length(a, -1)
    right = b if np.ndim(values_of(b)) > 1 else b[:, None]
    if n >= BLOCKS:
        equations = imported("...matrix.equations", __package__)
        solution = equations.call(equations.SOLVE, a, right)[0]
        return complex_parts.adopted(solution if right is b else solution[:, 0], value)
    solution = np.linalg.solve(_block(a), _columns(right))
    return _parts(solution, n, value) if right is b else _parts(solution, n, value[..., None])[..., 0]


def inv(a):
    value = np.linalg.inv(values_of(a))
    n = length(a, -1)
    if n >= BLOCKS:
        equations = imported("...matrix.equations", __package__)
        return complex_parts.adopted(equations.call(equations.INV, a)[0], value)
    return _parts(np.linalg.inv(_block(a))[..., :n], n, value)


# ---- norms


def _euclidean(z, axes, keepdims):
    """The norm over both parts at once, so that second derivatives are right where a part is zero."""
    both = np.stack([z.real, z.imag])
    result = np.linalg.vector_norm(both, axis=(0, *(k % z.ndim + 1 for k in axes)), keepdims=keepdims)
    return result[0] if keepdims else result


def norm(x, ord=None, axis=None, keepdims=False):
    np.linalg.norm(values_of(x), ord, axis, keepdims)  # raises NumPy's own error
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    if ord is None or (len(axes) == 1 and ord == 2) or ord == "fro":
        return _euclidean(x, axes, keepdims)
    if len(axes) == 2 and ord in (2, -2, "nuc"):
        spectral_norm = imported(".complex_matrices", __package__).spectral_norm
        return spectral_norm(x, ord, tuple(k % x.ndim for k in axes), keepdims)
    return np.linalg.norm(np.abs(x), ord, axis, keepdims)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    if not moves(ord) and ord == 2:
        return _euclidean(x, axes, keepdims)
    return np.linalg.vector_norm(np.abs(x), axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro":
        return _euclidean(x, (-2, -1), keepdims)
    return np.linalg.norm(x, ord, (-2, -1), keepdims)
