"""Eigenvalues, singular values, QR, and compositions of them; the matrix exponential.

One instruction computes values and vectors as one packed vector (`numbatape.ops.spectral`), and the
results are views of it. Sizes stay symbolic; which side of a matrix is the longer one is a guard.
"""

from __future__ import annotations

import math

import numpy as np

from ..late import imported
from ..trace import symbolic_sizes as sizes
from ..trace.axes import axes_of, length, lengths
from ..trace.operands import adopt, lift_all, lift_first, may_be_guard, values_of
from ..trace.primitives import array_instruction, layout_of, stop_gradient
from .function_tables import HOLDS
from .packed_results import packed
from .registration import composes, converted, records, recurring, unsupported_argument


def _sides(a) -> tuple[int, int]:
    """Return the size codes of a matrix's rows and columns."""
    return layout_of(a).dims[-2:]


def _is_wide(a) -> bool:
    """Whether a matrix has more columns than rows, which the tape relies on from now on."""
    return bool(length(a, -1) > length(a, -2))


def completed():
    """Return the file of factorisations that few functions use."""
    return imported("..matrix.completed", __package__)


def _turned(x):
    return np.swapaxes(x, -1, -2)


def named(value, parts):
    """Return the parts of a factorisation as NumPy names them; they carry NumPy's own numbers."""
    return type(value)(*[adopt(part, its) for part, its in zip(parts, value, strict=True)])


def _eigh(a, values, vectors):
    n = _sides(a)[0]
    values, rows = packed("eigh", (a,), (values, _turned(vectors)), ((n,), (n, n)))
    return values, np.matrix_transpose(rows)


@records(np.linalg.eigh, complex="complex_matrices.eigh", several=True)
def eigh(value, a, UPLO="L"):
    if UPLO.upper() == "L":
        return named(value, _eigh(a, *value))
    # LAPACK's vectors of the upper triangle may differ in sign from those of the transpose's lower one.
    eigen = imported("..matrix.eigen", __package__)
    return type(value)(*eigen.eigh(a, False))


@records(np.linalg.eigvalsh, complex="complex_matrices.eigvalsh", several=True)
def eigvalsh(value, a, UPLO="L"):
    lower = a if UPLO.upper() == "L" else np.matrix_transpose(a)
    return _eigh(lower, value, np.linalg.eigh(lower._value)[1])[0]


def _svd(a):
    value = np.linalg.svd(a._value, full_matrices=False)
    m, n = _sides(a)
    k = m if _is_wide(a) else n
    parts = value.S, _turned(value.U), _turned(value.Vh)
    values, left, right = packed("svd", (a,), parts, ((k,), (k, m), (n, k)))
    return np.matrix_transpose(left), values, np.matrix_transpose(right)


@records(np.linalg.svd, complex="complex_matrices.svd", several=True)
def svd(value, a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        parts = hermitian_svd(a, compute_uv)
        return type(value)(*parts) if compute_uv else parts
    if compute_uv and full_matrices and length(a, -1) != length(a, -2):
        return type(value)(*completed().svd(a))
    parts = _svd(a)
    return named(value, parts) if compute_uv else adopt(parts[1], value)


def hermitian_svd(a, compute_uv: bool):
    """Return the parts of ``svd(hermitian=True)`` as NumPy makes them of eigenvalues and eigenvectors."""
    if not compute_uv:
        return np.sort(np.abs(np.linalg.eigvalsh(a)), -1)[..., ::-1]
    values, vectors = np.linalg.eigh(a)
    order = np.argsort(np.abs(values), -1)[..., ::-1]
    values = np.take_along_axis(values, order, -1)
    left = np.take_along_axis(vectors, order[..., None, :], -1)
    signs = np.where(np.signbit(values), -1.0, 1.0)
    right = np.matrix_transpose(np.conj(left * signs[..., None, :]))
    return left, np.abs(values), right


@records(np.linalg.svdvals, complex="complex_matrices.svdvals", several=True)
def svdvals(value, x, /):
    return adopt(_svd(x)[1], value)


def _qr(a):
    """Q and R with min(m, n) columns and rows; for a wide matrix from the QR of its first columns."""
    wide = _is_wide(a)
    m = length(a, -2)
    first = a[..., :m] if wide else a
    q, r = np.linalg.qr(first._value)
    long, short = _sides(first)
    rows, r = packed("qr", (first,), (_turned(q), r), ((short, long), (short, short)))
    q = np.matrix_transpose(rows)
    return q, np.concatenate([r, np.matmul(rows, a[..., m:])], -1) if wide else r


@records(np.linalg.qr, complex="complex_matrices.qr", several=True)
def qr(value, a, mode="reduced"):
    if mode not in ("reduced", "r", "complete"):
        raise unsupported_argument(np.linalg.qr, f"mode={mode!r}", "'reduced', 'complete' and 'r' are")
    if mode == "complete" and length(a, -2) > length(a, -1):
        return type(value)(*completed().tall_qr(a))
    q, r = _qr(a)
    return adopt(r, value) if mode == "r" else named(value, (q, r))


# ---- compositions


def _of_full_rank(function, a, cutoff):
    """Return a matrix that is guarded to have full rank, because only then the derivative is right.

    In the body of a loop, where there can be no guard, a matrix of less than full rank becomes NaN.
    """
    if not (may_be_guard(a) and may_be_guard(cutoff)):
        full = _full_rank(a, cutoff)
        return a + np.where(np.expand_dims(full, (-2, -1)), 0.0, np.nan).astype(a.dtype)
    values = np.linalg.svd(a._value, compute_uv=False)
    share = max(a._value.shape[-2:]) * _precision(a) if cutoff is None else values_of(cutoff)
    full = np.all(np.min(values, -1) > share * np.max(values, -1))
    # The guard is outside of what is repeated, because a template has none.
    if not recurring(_all_full_rank, full, (a, cutoff), {}, lambda: adopt(_all_full_rank(a, cutoff), full)):
        raise unsupported_argument(function, "a of less than full rank", "its derivative does not exist")
    return a


def _full_rank(a, cutoff):
    """Return which matrices have full rank."""
    values = _svd(stop_gradient(a))[1]
    return np.min(values, -1) > (relative_cutoff(a) if cutoff is None else cutoff) * np.max(values, -1)


def _all_full_rank(a, cutoff):
    return np.all(_full_rank(a, cutoff))


def relative_cutoff(a):
    """Return up to which share of the largest singular value NumPy takes the others for zero."""
    return (length(a, -1) if _is_wide(a) else length(a, -2)) * _precision(a)


def _precision(a):
    """Return the precision in which a matrix is computed with: integers become float64."""
    return np.finfo(a.dtype if a.dtype.kind in "fc" else np.float64).eps


def lapacks_cutoff(rcond, dtype):
    """Return what LAPACK makes of a cutoff: the precision, if it is negative."""
    return rcond if rcond >= 0 else np.finfo(dtype).eps


def _solve_upper(r, b):
    value = np.linalg.solve(r._value, np.broadcast_to(b._value, (*r._value.shape[:-2], *b._value.shape[-2:])))
    return array_instruction("solve_upper", (r, b), value)


def pseudo_inverse(function, a, cutoff=None, value=None):
    """Return the pseudo-inverse of a real matrix, which must have full rank (a guard).

    Parameters
    ----------
    function
        Of NumPy or SciPy, for messages.
    cutoff
        Up to which share of the largest singular value others are taken for zero; None for `relative_cutoff`.
    value
        What the result carries, where the caller knows that.
    """
    a = lift_first(a)
    if 0 in a._value.shape:
        raise unsupported_argument(function, "an empty matrix")
    a = _of_full_rank(function, a, cutoff)
    value = np.linalg.pinv(a._value) if value is None else value
    return recurring(_inverse, value, (a,), {}, lambda: adopt(_inverse(a), value))


def _inverse(a):
    """Return the pseudo-inverse of a matrix of full rank."""
    if _is_wide(a):
        return np.matrix_transpose(_tall_inverse(np.matrix_transpose(a)))
    return _tall_inverse(a)


def _tall_inverse(a):
    q, r = _qr(a)
    return _solve_upper(r, np.matrix_transpose(q))


@composes(np.linalg.pinv, complex="complex_matrices.pinv")
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    cutoff = rcond if rcond is not None else None if rtol is np._NoValue else rtol
    if np.ndim(0.0 if cutoff is None else cutoff):
        raise unsupported_argument(np.linalg.pinv, "an array as rcond")
    a = _from_lower(a) if hermitian else a
    if cutoff is None and rtol is not None:
        cutoff = 1e-15
    # Numbers of the result's class and shape will do: NumPy's take their place.
    return pseudo_inverse(np.linalg.pinv, a, cutoff, np.matrix_transpose(a._value) * 1.0)


@records(np.linalg.lstsq, complex="complex_matrices.lstsq")
def lstsq(value, a, b, rcond=None):
    a, b = lift_all(*(converted([a, b], np.float32, np.float64) if value[0].dtype == np.float64 else (a, b)))
    a, b = (x if x.dtype.kind == "f" else np.astype(x, np.float64) for x in (a, b))
    if 0 in a._value.shape:
        raise unsupported_argument(np.linalg.lstsq, "an empty matrix")
    a = _of_full_rank(np.linalg.lstsq, a, None if rcond is None else lapacks_cutoff(rcond, a.dtype))
    tall = bool(length(a, -2) > length(a, -1))
    rank = length(a, -2) if _is_wide(a) else length(a, -1)
    rank = adopt(sizes.number_of(a._trace, rank._code), value[2]) if sizes.is_size(rank) else value[2]
    parts = (value[0], value[1], value[3]) if tall else (value[0], value[3])

    def run():
        return tuple([adopt(part, its) for part, its in zip(_least_squares(a, b, tall), parts, strict=True)])

    solution, *residuals, values = recurring(_least_squares, parts, (a, b, tall), {}, run)
    return solution, residuals[0] if tall else value[1], rank, values


def _least_squares(a, b, tall: bool):
    """Return the solution, the residuals if there are any, and the singular values."""
    solution = np.matmul(_inverse(a), b)
    values = _svd(a)[1]
    if not tall:
        return solution, values
    return solution, np.sum(np.square(b - np.matmul(a, solution)), 0, keepdims=b.ndim == 1), values


@composes(np.linalg.cond, complex="complex_matrices.cond")
def cond(x, p=None):
    if p in (None, 2, -2):
        values = _svd(x)[1]
        largest, smallest = values[..., 0], values[..., -1]
        result = smallest / largest if p == -2 else largest / smallest
    else:
        result = np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, (-2, -1))
    return infinite_where_singular(result, x)


def infinite_where_singular(result, x):
    """Return condition numbers without NaN where a matrix has none."""
    unknown = np.logical_and(np.isnan(result), ~np.any(np.isnan(x), (-2, -1)))
    return np.where(unknown, np.inf, result)


@composes(np.linalg.matrix_rank, complex="complex_matrices.matrix_rank")
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if A.ndim < 2:
        return np.any(A != 0).astype(int)
    if 0 in (length(A, -1), length(A, -2)):
        return np.zeros(A.shape[:-2], int)[()]
    values = _svd(stop_gradient(_from_lower(A) if hermitian else A))[1]
    if tol is not None:
        return np.count_nonzero(values > np.expand_dims(tol, -1), -1)
    relative = relative_cutoff(A) if rtol is None else rtol
    return np.count_nonzero(values > np.max(values, -1, keepdims=True) * np.expand_dims(relative, -1), -1)


def _from_lower(a):
    """Return the symmetric matrix whose lower triangle NumPy reads."""
    return np.tril(a) + np.matrix_transpose(np.tril(a, -1))


def spectral_norm(x, ord, axes, keepdims):
    """Norms of matrices by their singular values: 2, -2 and "nuc"."""
    moved = np.moveaxis(x, axes, (-2, -1))
    if ord == 2 and 0 in (length(moved, -1), length(moved, -2)):
        return np.sum(x, axes, keepdims=keepdims)  # a matrix without entries has the norm 0
    values = _svd(moved)[1]
    result = np.sum(values, -1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
    return np.expand_dims(result, axes_of(x, axes)) if keepdims else result


@composes(np.linalg.tensorsolve, complex=HOLDS)
def tensorsolve(a, b, axes=None):
    a, b = lift_all(a, b)
    if axes is not None:
        a = np.moveaxis(a, axes, range(a.ndim - len(axes), a.ndim))
    shape, size = lengths(a)[b.ndim :], math.prod(lengths(b))
    return np.reshape(np.linalg.solve(np.reshape(a, (size, -1)), np.ravel(b)), shape)


@composes(np.linalg.tensorinv, complex=HOLDS)
def tensorinv(a, ind=2):
    shape = (*a.shape[ind:], *a.shape[:ind])
    return np.reshape(np.linalg.inv(np.reshape(a, (math.prod(a.shape[:ind]), -1))), shape)
