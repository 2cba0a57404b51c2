"""Eigenvalues and eigenvectors: of general matrices, of Hermitian ones, of pairs, of tridiagonal ones.

The pullbacks fix the phase and the size of each vector (Giles 2008, section 3.1); LAPACK's normalisation is a
composition on top of them, with a factor whose value is one (`scaled`, `turned`).
"""

from __future__ import annotations

import numpy as np

from ..ops.spectral import NEAR, NOISE, SINGLE_NOISE
from ..trace.axes import is_empty
from ..trace.primitives import stop_gradient
from .matrix_rule import MatrixRule, adjoint, call, diagonal, is_complex, traced


def inverse_gaps(w):
    """Return ``1/(w_j - w_i)``, and 0 for equal values, whose vectors have no derivative of their own."""
    gap = w[..., None, :] - w[..., :, None]
    same = np.equal(gap, 0.0)
    return np.where(same, 0.0, 1.0 / np.where(same, 1.0, gap))


def _idle(ct) -> bool:
    """Whether a plain cotangent is zero."""
    return not traced(ct) and not np.any(ct)


# ---- general matrices


def _eig_pullback(ybar, y, a):
    (wbar, vbar), (w, v) = ybar, y
    if is_empty(a):
        return (np.zeros_like(a),)
    left = adjoint(v)
    if _idle(vbar):
        return (np.linalg.solve(left, wbar[..., :, None] * left),)
    inner = diagonal(wbar) + np.conj(inverse_gaps(w)) * np.matmul(left, vbar)
    return (np.linalg.solve(left, np.matmul(inner, left)),)


def _eigvals(a):
    """Return NumPy's eigenvalues, and the vectors in their order."""
    values = np.linalg.eigvals(a)
    others, vectors = np.linalg.eig(a)
    ordered = _in_order(values, others, vectors).astype(np.result_type(vectors, values))
    return values.astype(ordered.dtype), ordered


def _real_eigvals(a):
    """Return real eigenvalues where those of a real matrix are, which NumPy has left complex since 2.5."""
    values, vectors = _eigvals(a)
    if np.iscomplexobj(a) or np.any(values.imag):
        return values, vectors
    return values.real, vectors.real


def _in_order(values, others, vectors):
    """Return the vectors of other eigenvalues in the order of these values."""
    ordered = np.empty_like(vectors)
    for k in np.ndindex(*values.shape[:-1]):
        ordered[k] = vectors[k][:, _nearest(values[k], others[k])]
    return ordered


def _nearest(values, others):
    """Return the positions of the given values among others, each once."""
    distance = np.abs(values[:, None] - others)
    found = np.argmin(distance, 1) if len(values) else np.zeros(0, int)
    if len(set(found.tolist())) < len(found):
        for i in range(len(found)):
            found[i] = np.argmin(distance[i])
            distance[:, found[i]] = np.inf
    return found


def _pair_eig(a, b):
    """Return SciPy's eigenvalues and vectors of ``A v = w B v``."""
    import scipy.linalg

    w, v = scipy.linalg.eig(a, b)
    return (w, v) if np.iscomplexobj(v) or w.imag.any() else (w.real, v)


def _pair_eigvals(a, b):
    """Return SciPy's eigenvalues, in the order in which it gives them alone, and the vectors."""
    import scipy.linalg

    others, vectors = _pair_eig(a, b)
    values = scipy.linalg.eigvals(a, b)
    values = values if np.iscomplexobj(others) else values.real
    return values, _in_order(values, others, vectors)


def _pair_pullback(ybar, y, a, b):
    """As `_eig_pullback`, with ``(B V)^-1`` in the place of ``V^-1``."""
    (wbar, vbar), (w, v) = ybar, y
    if is_empty(a):
        return np.zeros_like(a), np.zeros_like(b)
    right = adjoint(v)
    inner = diagonal(wbar)
    if not _idle(vbar):
        inner = inner + np.conj(inverse_gaps(w)) * np.matmul(right, vbar)
    left = adjoint(np.matmul(b, v))
    ends = right, np.conj(w)[..., :, None] * right
    abar, bbar = (np.linalg.solve(left, np.matmul(inner, end)) for end in ends)
    return abar, -bbar


PAIR_EIG = MatrixRule("scipy.linalg.eig", _pair_eig, _pair_pullback, varies=True)
PAIR_EIGVALS = MatrixRule("scipy.linalg.eigvals", _pair_eigvals, _pair_pullback, varies=True)
EIG = MatrixRule("np.linalg.eig", lambda a: tuple(np.linalg.eig(a)), _eig_pullback, varies=True)
EIGVALS = MatrixRule("np.linalg.eigvals", _eigvals, _eig_pullback, varies=True)
REAL_EIGVALS = MatrixRule("np.linalg.eigvals", _real_eigvals, _eig_pullback, varies=True)


def scaled(v):
    """Return vectors of norm 1 whose largest entry is real, as LAPACK's geev leaves them."""
    if not is_complex(v):
        return v / np.sqrt(np.sum(v * v, -2, keepdims=True))
    size = v.real * v.real + v.imag * v.imag
    unit = v / np.sqrt(np.sum(size, -2, keepdims=True))
    size, im = stop_gradient(size), stop_gradient(v.imag)
    place = np.argmax(np.where(np.equal(im, 0.0), size, -1.0), -2)
    lead = np.take_along_axis(unit, np.expand_dims(place, -2), -2)
    return unit * _turn(lead)


def _turn(lead):
    """Return a factor of value one that keeps ``lead`` real: its conjugate phase, with its sign."""
    size = np.abs(lead)
    zero = np.equal(size, 0.0)
    sign = np.where(np.less(stop_gradient(lead.real), 0.0), -1.0, 1.0)
    return np.where(zero, 1.0, np.conj(lead) * sign / np.where(zero, 1.0, size))


def eig(a):
    w, v = call(EIG, a)
    return w, v if is_empty(a) else scaled(v)


def eigvals(a):
    return call(EIGVALS, a)[0]


def real_eigvals(a):
    """Return eigenvalues that are real where all of a real matrix's are; a change of that is a guard."""
    return call(REAL_EIGVALS, a)[0]


# ---- Hermitian matrices


def folded(g, lower: bool):
    """Return the cotangent of the one triangle that is read, given that of the whole matrix."""
    whole = 0.5 * (g + adjoint(g))
    return np.tril(whole) + np.tril(whole, -1) if lower else np.triu(whole) + np.triu(whole, 1)


def _turns(products, vbar, w):
    """Return what turns two vectors against each other, over the gap of their values.

    Only this part of the products ``V^H Vbar`` has a share in the result.
    """
    turn = 0.5 * (products - adjoint(products))
    size = sizes_of(vbar, -2)
    gap = w[..., None, :] - w[..., :, None]
    return inverse_gaps(w) * without_noise(turn, size + np.swapaxes(size, -1, -2), gap, w)


def sizes_of(vectors, axis: int):
    """Return the sums of the sizes of the entries of vectors along an axis."""
    return np.sum(_size(vectors), axis, keepdims=True)


def _size(x):
    """Return the sizes of entries, without a derivative."""
    parts = (x.real, x.imag) if is_complex(x) else (x,)
    return sum(np.abs(stop_gradient(part) if traced(part) else part) for part in parts)


def without_noise(turn, size, gap, values):
    """Return what turns vectors against each other, 0 where it and the gap are rounding (`ops.spectral`)."""
    share = SINGLE_NOISE if values.dtype == np.float32 else NOISE
    largest = np.max(_size(values), -1)[..., None, None]
    return np.where(np.logical_and(_size(turn) < share * size, _size(gap) <= NEAR * largest), 0.0, turn)


def hermitian(name: str, value, lower: bool) -> MatrixRule:
    """Return the rule of a function that gives all eigenvalues and vectors of ``a``, or of ``a`` and ``b``.

    ``V^H B V = 1``, and where there is no ``b``, ``V^H V = 1``.
    """

    def pullback(ybar, y, *args):
        (wbar, vbar), (w, v) = ybar, y
        if is_empty(args[0]):
            return tuple(np.zeros_like(x) for x in args)
        products = np.matmul(adjoint(v), vbar)
        inner = diagonal(wbar) + _turns(products, vbar, w)
        cotangents = [np.matmul(v, np.matmul(inner, adjoint(v)))]
        if len(args) == 2:
            rest = diagonal(w * wbar) + _turns(products * w[..., None, :], vbar * w[..., None, :], w)
            rest = rest + 0.5 * np.tril(np.triu(products))
            cotangents.append(-np.matmul(v, np.matmul(rest, adjoint(v))))
        return tuple(folded(g, lower) for g in cotangents)

    return MatrixRule(name, value, pullback)


def turned(v, lower: bool, b=None):
    """Return vectors in LAPACK's phase: complex ones have a real first (of V, or of BV) or last entry."""
    if not is_complex(v) or is_empty(v):
        return v
    if lower:
        lead = v[..., :1, :] if b is None else np.matmul(_whole_row(b), v)
    else:
        lead = v[..., -1:, :]
    return v * _turn(lead)


def _whole_row(b):
    """Return the first row of the Hermitian matrix with the given lower triangle."""
    return np.concatenate([b[..., :1, :1].real, adjoint(b[..., 1:, :1])], -1)


NUMPYS = {
    lower: hermitian("np.linalg.eigh", lambda a, s="UL"[lower]: tuple(np.linalg.eigh(a, s)), lower)
    for lower in (False, True)
}


def eigh(a, lower: bool):
    w, v = call(NUMPYS[lower], a)
    return w, turned(v, lower)


# ---- tridiagonal matrices


def _tridiagonal(d, e):
    import scipy.linalg

    return scipy.linalg.eigh_tridiagonal(d, e)


def _tridiagonal_pullback(ybar, y, d, e):
    (wbar, vbar), (w, v) = ybar, y
    inner = diagonal(wbar) + _turns(np.matmul(adjoint(v), vbar), vbar, w)
    left = np.matmul(v, inner)
    below = np.sum(left[..., 1:, :] * v[..., :-1, :], -1) + np.sum(left[..., :-1, :] * v[..., 1:, :], -1)
    return np.sum(left * v, -1), below


TRIDIAGONAL = MatrixRule("scipy.linalg.eigh_tridiagonal", _tridiagonal, _tridiagonal_pullback)
