"""``np.linalg`` beyond the op table: general eigenvalues, and factorisations of complex matrices."""

from __future__ import annotations

import numpy as np

from ...matrix import determinants, eigen, factors
from ...matrix.matrix_rule import adjoint, call, is_complex
from ...trace.axes import axes_of, length
from ...trace.operands import adopt, lift_all, lift_first, values_of
from .. import decompositions
from ..function_tables import HOLDS, implements
from ..registration import unsupported_argument
from .complex_ufuncs import unsupported

# ---- general matrices, real or complex


@implements(np.linalg.eig, complex=HOLDS)
def eig(a):
    value = np.linalg.eig(values_of(a))
    return decompositions.named(value, eigen.eig(lift_first(a)))


@implements(np.linalg.eigvals, complex=HOLDS)
def eigvals(a):
    value = np.linalg.eigvals(values_of(a))
    return adopt(eigen.eigvals(lift_first(a)), value)


# ---- complex matrices


def eigh(a, UPLO="L"):
    value = np.linalg.eigh(values_of(a), UPLO)
    return decompositions.named(value, eigen.eigh(a, UPLO.upper() == "L"))


def eigvalsh(a, UPLO="L"):
    value = np.linalg.eigvalsh(values_of(a), UPLO)
    return adopt(eigen.eigh(a, UPLO.upper() == "L")[0], value)


def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    value = np.linalg.svd(values_of(a), full_matrices, compute_uv, hermitian)
    if hermitian:
        parts = decompositions.hermitian_svd(a, compute_uv)
        return decompositions.named(value, parts) if compute_uv else adopt(parts, value)
    if not compute_uv:
        return adopt(factors.svd(a)[1], value)
    if full_matrices and length(a, -1) != length(a, -2):
        return decompositions.named(value, decompositions.completed().svd(a))
    return decompositions.named(value, factors.svd(a))


def svdvals(x, /):
    return adopt(factors.svd(x)[1], np.linalg.svdvals(values_of(x)))


def qr(a, mode="reduced"):
    value = np.linalg.qr(values_of(a), mode)
    if mode not in ("reduced", "r", "complete"):
        raise unsupported(f"np.linalg.qr(mode={mode!r})", "'reduced', 'complete' and 'r' are")
    if mode == "complete" and length(a, -2) > length(a, -1):
        return decompositions.named(value, decompositions.completed().tall_qr(a))
    q, r = factors.qr(a)
    return adopt(r, value) if mode == "r" else decompositions.named(value, (q, r))


def cholesky(a, /, *, upper=False):
    value = np.linalg.cholesky(values_of(a), upper=upper)
    if upper:
        return adopt(adjoint(call(factors.CHOLESKY, adjoint(a))[0]), value)
    return adopt(call(factors.CHOLESKY, a)[0], value)


def det(a):
    value = np.linalg.det(values_of(a))
    return adopt(call(determinants.DET, a)[0], value)


def slogdet(a):
    value = np.linalg.slogdet(values_of(a))
    return decompositions.named(value, call(determinants.SLOGDET, a))


def pseudo_inverse(function, a, cutoff):
    """Return the pseudo-inverse of a matrix of full rank, by QR."""
    if 0 in a.shape:
        raise unsupported_argument(function, "an empty matrix")
    values = np.linalg.svd(a, compute_uv=False)
    if not bool(np.all(np.min(values, -1) > cutoff * np.max(values, -1))):  # a guard
        raise unsupported_argument(function, "a of less than full rank", "its derivative does not exist")
    if a.shape[-2] < a.shape[-1]:
        return adjoint(pseudo_inverse(function, adjoint(a), cutoff))
    q, r = factors.qr(a)
    return np.linalg.solve(r, adjoint(q))


def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    options = {} if rtol is np._NoValue else {"rtol": rtol}
    value = np.linalg.pinv(values_of(a), rcond, hermitian, **options)
    cutoff = rcond if rcond is not None else None if rtol is np._NoValue else rtol
    if hermitian or np.ndim(0.0 if cutoff is None else cutoff):
        raise unsupported("np.linalg.pinv(hermitian=True), or an array rcond")
    default = max(a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else 1e-15
    return adopt(pseudo_inverse(np.linalg.pinv, a, default if cutoff is None else cutoff), value)


def squared(x):
    """Return the squares of absolute values."""
    return x.real * x.real + x.imag * x.imag if is_complex(x) else np.square(x)


def lstsq(a, b, rcond=None):
    value = np.linalg.lstsq(values_of(a), values_of(b), rcond)
    a, b = lift_all(a, b)
    precision = value[3].dtype
    if rcond is None:
        cutoff = np.finfo(precision).eps * max(a.shape)
    else:
        cutoff = decompositions.lapacks_cutoff(rcond, precision)
    inverse = pseudo_inverse if is_complex(a) else decompositions.pseudo_inverse
    solution = np.matmul(inverse(np.linalg.lstsq, a, cutoff), b)
    residuals = value[1]
    if np.size(residuals):
        rest = squared(b - np.matmul(a, solution))
        residuals = adopt(np.sum(rest, 0, keepdims=b.ndim == 1), residuals)
    values = adopt(np.linalg.svd(a, compute_uv=False), value[3])
    return adopt(solution, value[0]), residuals, value[2], values


def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if hermitian or tol is not None or A.ndim < 2:
        raise unsupported("np.linalg.matrix_rank(tol or hermitian), or of a vector")
    if 0 in A.shape[-2:]:
        return np.zeros(A.shape[:-2], int)[()]
    values = factors.svd(A)[1]
    relative = max(A.shape[-2:]) * np.finfo(A.dtype).eps if rtol is None else rtol
    return np.count_nonzero(values > np.max(values, -1, keepdims=True) * relative, -1)


def cond(x, p=None):
    value = np.linalg.cond(values_of(x), p)
    if p in (None, 2, -2):
        values = factors.svd(x)[1]
        largest, smallest = values[..., 0], values[..., -1]
        result = smallest / largest if p == -2 else largest / smallest
    else:
        result = np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, (-2, -1))
    return adopt(decompositions.infinite_where_singular(result, x), value)


def spectral_norm(x, ord, axes, keepdims):
    """Norms of complex matrices by their singular values: 2, -2 and "nuc"."""
    values = factors.svd(np.moveaxis(x, axes, (-2, -1)))[1]
    result = np.sum(values, -1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
    return np.expand_dims(result, axes_of(x, axes)) if keepdims else result
