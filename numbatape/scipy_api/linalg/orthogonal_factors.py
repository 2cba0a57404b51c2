"""``scipy.linalg``: factors with orthogonal columns, and what follows from them: QR, SVD, polar factors."""

from __future__ import annotations

import numpy as np

from ...matrix import completed, factors
from ...matrix.matrix_rule import adjoint, call, is_complex
from ...numpy_api import decompositions
from ...numpy_api.registration import run_long_record, run_record, unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import is_empty, is_square, length, pinned
from ...trace.operands import adopt, lift_all, lift_first, values_of
from ...trace.primitives import stop_gradient
from .linear_systems import as_floats


@stands_for("scipy.linalg", "svd", run=run_long_record)
def svd(value, a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True,
        lapack_driver="gesdd"):  # fmt: skip
    a = lift_first(a)
    if lapack_driver != "gesdd" and compute_uv:
        return completed.svd(a, completed.svd_by(lapack_driver, full_matrices))
    result = np.linalg.svd(a, full_matrices, compute_uv)
    if not compute_uv:
        return adopt(result, value)
    if is_complex(a) or (full_matrices and not is_square(a)):
        return tuple(result)
    return tuple(map(adopt, result, value))  # the tape uses SciPy's LAPACK, which may be another than NumPy's


@stands_for("scipy.linalg", "svdvals", run=run_long_record)
def svdvals(value, a, overwrite_a=False, check_finite=True):
    return adopt(np.linalg.svd(lift_first(a), compute_uv=False), value)


@stands_for("scipy.linalg", "qr", run=run_long_record)
def qr(value, a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    if mode not in ("full", "economic", "r"):
        raise unsupported_argument("scipy.linalg.qr", f"mode={mode!r}", "'full', 'economic' and 'r' are")
    a, order = lift_first(a), ()
    if pivoting:
        order = np.astype(stop_gradient(completed.column_order(a)), value[-1].dtype)
        order = (adopt(order, value[-1]),)
        a = np.take_along_axis(a, np.expand_dims(order[0], -2), -1)
    if mode != "r":
        whole = mode == "full" and not is_square(a)
        parts = np.linalg.qr(a, "complete" if whole else "reduced")
        # The tape uses SciPy's LAPACK; the rest of a whole Q is made otherwise.
        return *(parts if whole or is_complex(a) else map(adopt, parts, value)), *order
    r = np.linalg.qr(a, "r")
    missing = pinned(a, -2) - r.shape[-2]  # R has the rows of the whole Q
    r = np.pad(r, (*[(0, 0)] * (r.ndim - 2), (0, missing), (0, 0))) if missing else r
    return (r, *order) if isinstance(value, tuple) else r  # an array of a stack


@stands_for("scipy.linalg", "qr_multiply", run=run_record)
def qr_multiply(value, a, c, mode="right", pivoting=False, conjugate=False, overwrite_a=False,
                overwrite_c=False):  # fmt: skip
    a, c = lift_all(a, c)
    if a.ndim != 2 or c.ndim > 2 or overwrite_c:
        raise unsupported_argument("scipy.linalg.qr_multiply", "stacks or overwrite_c", "one matrix is")
    order = ()
    if pivoting:
        order = (adopt(np.astype(stop_gradient(completed.column_order(a)), value[-1].dtype), value[-1]),)
        a = np.take_along_axis(a, np.expand_dims(order[0], -2), -1)
    q, r = np.linalg.qr(a, "reduced")
    q = np.conj(q) if conjugate else q
    product = np.matmul(q, c) if mode == "left" else np.matmul(c, q)
    return (adopt(product, value[0]), adopt(r, value[1]), *order)


@stands_for("scipy.linalg", "pinv")
def pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    if atol is not None or return_rank:
        raise unsupported_argument("scipy.linalg.pinv", "atol or return_rank", "rtol is")
    a = lift_first(a)
    if np.iscomplexobj(a):
        return np.linalg.pinv(a, decompositions.relative_cutoff(a) if rtol is None else rtol)
    # These numbers only have the right shape; SciPy's take their place.
    value = np.matrix_transpose(a._value) * 1.0
    return decompositions.pseudo_inverse("scipy.linalg.pinv", a, rtol, value)


@stands_for("scipy.linalg", "rq")
def rq(a, overwrite_a=False, lwork=None, mode="full", check_finite=True):
    a = lift_first(a)
    m, n = length(a, -2), length(a, -1)
    if mode not in ("economic", "full", "r") or m > n or (mode != "economic" and m != n):
        raise unsupported_argument("scipy.linalg.rq", f"mode={mode!r}", "mode='economic' of a wide matrix is")
    r, q = call(factors.RQ, a)
    return r if mode == "r" else (r, q)


@stands_for("scipy.linalg", "polar")
def polar(a, side="right"):
    a = lift_first(a)
    m, n = length(a, -2), length(a, -1)
    if (m < n) if side == "right" else (m > n):
        hint = "a of at least as many rows as columns is; with side='left' of at most as many"
        raise unsupported_argument("scipy.linalg.polar", f"side={side!r}", hint)
    if side == "right":
        return call(factors.POLAR, a)
    u, p = call(factors.POLAR, adjoint(a))
    return adjoint(u), p


@stands_for("scipy.linalg", "orthogonal_procrustes")
def orthogonal_procrustes(A, B, check_finite=True):
    a, b = lift_all(A, B)
    turn, stretch = call(factors.POLAR, np.matmul(adjoint(a), b))
    return turn, np.trace(stretch.real)


def _full_rank(function: str, a, cutoff):
    """Return left singular vectors and values of a matrix; a guard holds that it has full rank."""
    u, s, _ = np.linalg.svd(a, full_matrices=False)
    if not bool(np.min(s) > cutoff * np.max(s)):
        raise unsupported_argument(function, "a of less than full rank", "its derivative does not exist")
    return u, s


@stands_for("scipy.linalg", "orth")
def orth(A, rcond=None):
    a = as_floats(lift_first(A))
    cutoff = np.finfo(a.dtype).eps * max(length(a, 0), length(a, 1)) if rcond is None else rcond
    return _full_rank("scipy.linalg.orth", a, cutoff)[0]


@stands_for("scipy.linalg", "null_space", run=run_record)
def null_space(value, A, rcond=None, *, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    A, rcond = lift_first(A), None if rcond is None else float(rcond)
    _same_rank(A, value.shape[-1], rcond)
    rows, columns = np.shape(values_of(A))[-2:]
    missing = value.shape[-1] - max(columns - rows, 0)
    return adopt(call(completed.null_space_by(rcond, lapack_driver, missing), A)[0], value)


def _same_rank(a, missing: int, rcond) -> None:
    """Guard that a matrix has as many null vectors as it has now."""
    if is_empty(a):  # all directions are null vectors
        return
    values = stop_gradient(np.linalg.svd(a, compute_uv=False))
    cutoff = np.max(values, -1, keepdims=True) * (
        np.finfo(values.dtype).eps * max(length(a, -1), length(a, -2)) if rcond is None else rcond
    )
    if not bool(np.all(values > cutoff)):  # a full rank says how many there are at every size
        bool(np.all(np.equal(np.sum(values > cutoff, -1), a.shape[-1] - missing)))  # `bool` records the guard


@stands_for("scipy.linalg", "subspace_angles")
def subspace_angles(A, B):
    a, b = (as_floats(x) for x in lift_all(A, B))
    bases = []
    for x in (a, b):
        if length(x, 0) < length(x, 1):
            raise unsupported_argument("scipy.linalg.subspace_angles", "more columns than rows")
        _full_rank("scipy.linalg.subspace_angles", x, np.finfo(x.dtype).eps * length(x, 0))
        bases.append(np.linalg.qr(x)[0])
    if length(bases[0], 1) < length(bases[1], 1):
        bases.reverse()
    first, second = bases
    inner = np.matmul(adjoint(first), second)
    cosines = np.linalg.svd(inner, compute_uv=False)
    sines = np.linalg.svd(second - np.matmul(first, inner), compute_uv=False)
    # The arccosine loses digits near 1. SciPy evaluates this condition in another order than its cosines.
    small = np.greater_equal(cosines * cosines, 0.5)
    cosine = np.where(small, 0.0, cosines[::-1])
    return np.where(small, np.arcsin(np.where(small, sines, 0.0)), np.arccos(cosine))
