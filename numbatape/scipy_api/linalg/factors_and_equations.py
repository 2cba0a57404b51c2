"""``scipy.linalg``'s eigenvalue problems, factorisations and equations."""

from __future__ import annotations

import numpy as np

from ...matrix import eigen, equations, factors, similarity
from ...matrix.equations import linalg
from ...matrix.matrix_rule import MatrixRule, adjoint, call, is_complex
from ...numpy_api import decompositions
from ...numpy_api.complex_numbers.complex_matrices import pseudo_inverse, squared
from ...numpy_api.registration import run_long_record, run_record, unsupported_argument
from ...numpy_api.sized import positions
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import is_empty, is_square, length
from ...trace.operands import adopt, lift_all, lift_first
from ...trace.primitives import stop_gradient
from .linear_systems import as_floats, triangular

CHECKS = ("overwrite_a", "overwrite_b", "check_finite")


def refuse(name: str, options: dict, allowed=()) -> None:
    """Raise for options that are given and are neither None nor about memory and checks."""
    for key, value in options.items():
        if key not in CHECKS and key not in allowed and value is not None and value is not False:
            raise unsupported_argument(name, f"{key}={value!r}")


# ---- eigenvalues


@stands_for("scipy.linalg", "eig")
def eig(a, b=None, left=False, right=True, overwrite_a=False, overwrite_b=False, check_finite=True,
        homogeneous_eigvals=False):  # fmt: skip
    refuse("scipy.linalg.eig", {"left": left, "homogeneous_eigvals": homogeneous_eigvals})
    if b is not None:
        if not right:
            return eigvals(a, b)
        w, v = call(eigen.PAIR_EIG, *lift_all(a, b))
        _finite("scipy.linalg.eig", w)
        if is_complex(v):
            hint = "right=False is, and eig(np.linalg.solve(b, a)), which fixes the vectors' phases"
            raise unsupported_argument("scipy.linalg.eig", "b, where vectors are complex", hint)
        return w + 0j, v if is_empty(v) else eigen.scaled(v)
    a = lift_first(a)
    if not right:
        return eigen.eigvals(a) + 0j
    w, v = eigen.eig(a)
    return w + 0j, v


@stands_for("scipy.linalg", "eigvals")
def eigvals(a, b=None, overwrite_a=False, check_finite=True, homogeneous_eigvals=False):
    refuse("scipy.linalg.eigvals", {"homogeneous_eigvals": homogeneous_eigvals})
    if b is not None:
        w, _ = call(eigen.PAIR_EIGVALS, *lift_all(a, b))
        _finite("scipy.linalg.eigvals", w)
        return w + 0j
    return eigen.eigvals(lift_first(a)) + 0j


def _finite(function: str, w) -> None:
    """Guard that the eigenvalues of a pair are finite."""
    if not bool(np.all(np.isfinite(w))):
        raise unsupported_argument(function, "a singular b", "eig(b, a), of the inverse eigenvalues, is")


@stands_for("scipy.linalg", "eigh")
def eigh(a, b=None, *, lower=True, eigvals_only=False, type=1, subset_by_index=None, subset_by_value=None,
         driver=None, **options):  # fmt: skip
    """Compute all values, and choose a subset of them behind the rule."""
    kind = None if type == 1 or b is None or eigvals_only else type
    refuse("scipy.linalg.eigh", {"type": kind, **options})
    matrices = lift_all(a) if b is None else lift_all(a, b)
    if eigvals_only and b is None:
        values = np.linalg.eigvalsh(matrices[0], "L" if lower else "U")
    elif type != 1 and b is not None:  # types 2 and 3 are eigenvalues of a @ b and of b @ a
        a, b = (_mirrored(matrix, lower) for matrix in matrices)
        root = np.linalg.cholesky(b)
        values = np.linalg.eigvalsh(np.matrix_transpose(root) @ a @ root)
    else:
        value = _all_eigenvectors(subset_by_index, lower=lower, driver=driver)
        rule = eigen.hermitian("scipy.linalg.eigh", value, bool(lower))
        values, vectors = call(rule, *matrices)
        if not eigvals_only:
            vectors = eigen.turned(vectors, bool(lower), *matrices[1:])
    some = slice(None) if subset_by_index is None else slice(subset_by_index[0], subset_by_index[1] + 1)
    if subset_by_value is not None:
        if not eigvals_only:
            raise unsupported_argument("scipy.linalg.eigh", "subset_by_value", "subset_by_index is")
        some = _between(values, *subset_by_value)
    return values[..., some] if eigvals_only else (values[..., some], vectors[..., some])


def _mirrored(a, lower: bool):
    """Return the symmetric (or Hermitian) matrix of which one triangle is read."""
    if not lower:
        a = np.matrix_transpose(np.conj(a))
    below = np.tril(a, -1)
    return np.tril(a) + np.matrix_transpose(np.conj(below))


def _between(values, low, high) -> slice:
    """Return which ascending values are above ``low`` and at most ``high``: their numbers are guards."""
    start = int(np.sum(np.less_equal(values, low)))
    return slice(start, max(start, int(np.sum(np.less_equal(values, high)))))


def _all_eigenvectors(subset, **options):
    """Return what computes all eigenvalues and vectors; a subset has the signs that SciPy gives it.

    The derivative of one vector needs all others.
    """

    def value(*matrices):
        values, vectors = linalg().eigh(*matrices, **options)
        if subset is not None and values.size:
            _, wanted = linalg().eigh(*matrices, subset_by_index=subset, **options)
            part = vectors[..., subset[0] : subset[1] + 1]
            part *= np.where(np.sum(np.conj(part) * wanted, -2, keepdims=True).real < 0.0, -1.0, 1.0)
        return values, vectors

    return value


@stands_for("scipy.linalg", "eigvalsh")
def eigvalsh(
    a, b=None, *, lower=True, type=1, subset_by_index=None, subset_by_value=None, driver=None, **options
):
    options |= {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, driver=driver, **options)


@stands_for("scipy.linalg", "eigh_tridiagonal")
def eigh_tridiagonal(d, e, eigvals_only=False, select="a", select_range=None, check_finite=True, tol=0.0,
                     lapack_driver="auto"):  # fmt: skip
    every = select in ("a", "all", 0)
    if not (every or eigvals_only):
        raise unsupported_argument(
            "scipy.linalg.eigh_tridiagonal", f"select={select!r}", "eigvalsh_tridiagonal is, or a part of all"
        )
    values, vectors = call(eigen.TRIDIAGONAL, *lift_all(d, e))
    if not every:
        low, high = select_range
        by_index = select in ("i", "index", 2)
        values = values[slice(low, high + 1) if by_index else _between(values, low, high)]
    return values if eigvals_only else (values, vectors)


@stands_for("scipy.linalg", "eigvalsh_tridiagonal")
def eigvalsh_tridiagonal(
    d, e, select="a", select_range=None, check_finite=True, tol=0.0, lapack_driver="auto"
):
    return eigh_tridiagonal(d, e, True, select, select_range)


# ---- factorisations


def _lu_parts(a):
    order, low, up = call(factors.LU, lift_first(a))
    return stop_gradient(order), low, up


@stands_for("scipy.linalg", "lu")
def lu(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    order, low, up = _lu_parts(a)
    places = np.astype(np.argsort(order, -1), int)
    if permute_l:
        return np.take_along_axis(low, np.broadcast_to(places[..., None], low.shape), -2), up
    if p_indices:
        return places, low, up
    rows = positions(order, -1)
    return np.where(np.equal(rows[:, None], order[..., None, :]), 1.0, 0.0), low, up


@stands_for("scipy.linalg", "lu_factor", run=run_long_record)
def lu_factor(value, a, overwrite_a=False, check_finite=True):
    a = lift_first(a)
    if not is_square(a):
        raise unsupported_argument("scipy.linalg.lu_factor", "a of other shape", "square matrices are")
    both, pivots, _ = call(factors.LU_FACTOR, a)
    return adopt(both, value[0]), adopt(np.astype(stop_gradient(pivots), value[1].dtype), value[1])


@stands_for("scipy.linalg", "lu_solve", run=run_long_record)
def lu_solve(value, lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    return adopt(_lu_solve(*lu_and_piv, b, trans), value)


def _lu_solve(both, pivots, b, trans):
    both, b = lift_all(both, b)
    (order,) = call(factors.ORDER, pivots)
    if trans:
        half = triangular(both, b, False, trans)
        half = triangular(both, half, True, trans, True)
        return half[np.astype(np.argsort(order), int)]
    half = triangular(both, b[np.astype(order, int)], True, 0, True)
    return triangular(both, half, False)


@stands_for("scipy.linalg", "ldl")
def ldl(A, lower=True, hermitian=True, overwrite_a=False, check_finite=True):
    a = lift_first(A)
    if is_complex(a):
        hint = "real matrices are; np.linalg.cholesky is for complex ones, too"
        raise unsupported_argument("scipy.linalg.ldl", "a complex matrix", hint)
    factor, blocks, order = call(factors.LDL[bool(lower)], a)
    order = np.astype(stop_gradient(order), int)
    return factor[np.argsort(order)], blocks, order


@stands_for("scipy.linalg", "hessenberg")
def hessenberg(a, calc_q=False, overwrite_a=False, check_finite=True):
    h, q = similarity.hessenberg(_one_square("scipy.linalg.hessenberg", lift_first(a)))
    return (h, q) if calc_q else h


@stands_for("scipy.linalg", "schur")
def schur(a, output="real", lwork=None, overwrite_a=False, sort=None, check_finite=True):
    refuse("scipy.linalg.schur", {"sort": sort})
    a, hint = _one_square("scipy.linalg.schur", lift_first(a)), "np.linalg.eig is"
    if is_complex(a) or output not in ("real", "r"):
        what = "a complex result, whose vectors have phases without a derivative"
        raise unsupported_argument("scipy.linalg.schur", what, hint)
    t, z = call(similarity.SCHUR, a)
    if bool(np.any(np.not_equal(np.diag(t, -1), 0.0))):
        raise unsupported_argument("scipy.linalg.schur", "a matrix with complex eigenvalues", hint)
    return t, z


def _one_square(function: str, a):
    if not is_square(a):
        raise unsupported_argument(function, "a of other shape", "one square matrix is")
    return a


@stands_for("scipy.linalg", "pinvh")
def pinvh(a, atol=None, rtol=None, lower=True, return_rank=False, check_finite=True):
    refuse("scipy.linalg.pinvh", {"atol": atol, "return_rank": return_rank})
    a = as_floats(lift_first(a))
    own, strict = (np.tril(a), np.tril(a, -1)) if lower else (np.triu(a), np.triu(a, 1))
    half = strict + 0.5 * (own - strict)  # the triangle and its adjoint add up to the matrix
    whole = half + adjoint(half)
    cutoff = np.finfo(a.dtype).eps * length(a, -1) if rtol is None else rtol
    sizes = np.abs(np.linalg.eigvalsh(whole))
    if not bool(np.all(np.min(sizes, -1) > cutoff * np.max(sizes, -1))):
        hint = "its derivative does not exist"
        raise unsupported_argument("scipy.linalg.pinvh", "a of less than full rank", hint)
    return np.linalg.inv(whole)


@stands_for("scipy.linalg", "lstsq", run=run_record)
def lstsq(
    value, a, b, cond=None, overwrite_a=False, overwrite_b=False, check_finite=True, lapack_driver=None
):
    a, b = (as_floats(x) for x in lift_all(a, b))
    cutoff = np.finfo(a.dtype).eps if cond is None else cond
    inverse = pseudo_inverse if is_complex(a) else decompositions.pseudo_inverse
    solution = np.matmul(inverse("scipy.linalg.lstsq", a, cutoff), b)
    residuals, values = value[1], value[3]
    if np.size(residuals) and length(a, 0) > length(a, 1):
        residuals = adopt(np.sum(squared(b - np.matmul(a, solution)), 0), residuals)
    if values is not None:
        values = adopt(np.linalg.svd(a, compute_uv=False), values)
    return adopt(solution, value[0]), residuals, value[2], values


# ---- equations


@stands_for("scipy.linalg", "solve_sylvester", run=None)  # the rule calls SciPy itself
def solve_sylvester(a, b, q):
    return equations.sylvester(*lift_all(a, b, q))


@stands_for("scipy.linalg", "solve_continuous_lyapunov", "solve_lyapunov")
def solve_continuous_lyapunov(a, q):
    a, q = lift_all(a, q)
    return equations.sylvester(a, adjoint(a), q)


@stands_for("scipy.linalg", "solve_discrete_lyapunov")
def solve_discrete_lyapunov(a, q, method=None):
    return equations.discrete_lyapunov(*lift_all(a, q))


def _riccati(name: str, rule: MatrixRule):
    @stands_for("scipy.linalg", name)
    def solve(a, b, q, r, e=None, s=None, balanced=True):
        refuse(f"scipy.linalg.{name}", {"e": e, "s": s})
        return call(rule, *lift_all(a, b, q, r))[0]


_riccati("solve_continuous_are", equations.CONTINUOUS_ARE)
_riccati("solve_discrete_are", equations.DISCRETE_ARE)
