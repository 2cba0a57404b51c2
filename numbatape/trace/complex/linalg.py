"""Systems, inverses, determinants and norms of complex matrices."""

from __future__ import annotations

import numpy as np

from ..functions.common import plain
from . import arrays
from .functions import implements
from .ufuncs import unsupported


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
    return arrays.make(stacked[..., :n, :], stacked[..., n:, :], value)


@implements(np.linalg.solve)
def solve(a, b):
    value = np.linalg.solve(*plain((a, b)))
    n = np.shape(plain(a))[-1]
    right = b if np.ndim(plain(b)) > 1 else b[:, None]
    solution = np.linalg.solve(_block(a), _columns(right))
    return _parts(solution, n, value if np.ndim(plain(b)) > 1 else value[..., None])[
        ... if np.ndim(plain(b)) > 1 else (..., 0)
    ]


@implements(np.linalg.inv)
def inv(a):
    value = np.linalg.inv(plain(a))
    n = np.shape(value)[-1]
    return _parts(np.linalg.inv(_block(a))[..., :n], n, value)


# ---- determinants


def _pivots(a) -> list:
    """Return ``(pivot, sign)`` of each step of an elimination with partial pivoting.

    The rows change places by positions that are data: no branch is recorded.
    """
    found = []
    while True:
        n = a.shape[-1]
        best = np.argmax(np.abs(a[:, 0]))
        found.append((a[best, 0], np.where(np.equal(best, 0), 1.0, -1.0)))
        if n == 1:
            return found
        places = np.arange(n)
        order = np.where(places == 0, best, np.where(np.equal(places, best), 0, places))
        a = a[np.astype(order, int)]
        pivot = np.where(np.equal(a[0, 0], 0.0), 1.0, a[0, 0])
        a = a[1:, 1:] - np.outer(a[1:, 0] / pivot, a[0, 1:])


def _each_matrix(function, a, value):
    """Apply a function to each matrix of a stack."""
    if a.ndim == 2:
        return function(a)
    lead = np.shape(value)
    flat = np.reshape(a, (-1, *a.shape[-2:]))
    return np.reshape(np.stack([function(flat[k]) for k in range(flat.shape[0])]), lead)


@implements(np.linalg.det)
def det(a):
    value = np.linalg.det(plain(a))

    def one(matrix):
        product, side = 1.0, 1.0
        for pivot, sign in _pivots(matrix) if matrix.shape[-1] else ():
            product, side = product * pivot, side * sign
        return product * side

    if 0 in np.shape(plain(a)):
        return value
    return arrays.adopted(_each_matrix(one, a, value), value)


@implements(np.linalg.slogdet)
def slogdet(a):
    value = np.linalg.slogdet(plain(a))
    if a.ndim != 2 or not a.size:
        raise unsupported("np.linalg.slogdet of a stack of matrices")
    turn, log = 1.0, 0.0
    for pivot, sign in _pivots(a):
        size = np.abs(pivot)
        turn, log = turn * (pivot / np.where(size == 0.0, 1.0, size)) * sign, log + np.log(size)
    return type(value)(arrays.adopted(turn, value.sign), log)


# ---- norms


def _euclidean(z, axes, keepdims):
    """One norm over both parts, so that second derivatives hold where a part is zero."""
    both = np.stack([z.real, z.imag])
    result = np.linalg.vector_norm(both, axis=(0, *(k % z.ndim + 1 for k in axes)), keepdims=keepdims)
    return result[0] if keepdims else result


@implements(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    np.linalg.norm(plain(x), ord, axis, keepdims)  # NumPy's own error
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    if ord is None or (len(axes) == 1 and ord == 2) or ord == "fro":
        return _euclidean(x, axes, keepdims)
    if len(axes) == 2 and ord in (2, -2, "nuc"):
        from ..matrix.numpys import spectral_norm

        return spectral_norm(x, ord, tuple(k % x.ndim for k in axes), keepdims)
    return np.linalg.norm(np.abs(x), ord, axis, keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    if ord == 2:
        return _euclidean(x, axes, keepdims)
    return np.linalg.vector_norm(np.abs(x), axis=axis, keepdims=keepdims, ord=ord)


@implements(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro":
        return _euclidean(x, (-2, -1), keepdims)
    return np.linalg.norm(x, ord, (-2, -1), keepdims)
