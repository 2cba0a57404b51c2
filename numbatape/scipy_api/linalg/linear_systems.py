"""``scipy.linalg``: linear systems, triangular and Cholesky factors, inverses, determinants, norms."""

from __future__ import annotations

import functools

import numpy as np
import scipy.linalg

from ...numpy_api.caught_errors import columns, fails_as, triangle
from ...numpy_api.linalg import cholesky_factor, solve_system
from ...numpy_api.registration import recurring, run_long_record, run_record, unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.array import TracedArray, new_traced
from ...trace.axes import drop_axes
from ...trace.operands import adopt, lift_all, lift_first, values_of
from ...trace.primitives import array_instruction, expand


@stands_for("scipy.linalg", "solve_triangular", run=run_long_record)
def solve_triangular(value, a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False,
                     check_finite=True):  # fmt: skip
    a, b = lift_all(a, b)
    if _complex(a, b):
        return triangular(a, b, bool(lower), trans, unit_diagonal)
    return _triangle(a, b, bool(lower), trans not in (0, "N"), unit_diagonal, value)


def triangular(a, b, lower: bool, trans=0, unit: bool = False):
    """Return the solution of a triangular system, real or complex."""
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if not _complex(a, b):
        solve_plain = scipy.linalg.solve_triangular
        return solve_triangular(
            solve_plain(values_of(a), values_of(b), trans, lower, unit), a, b, trans, lower, unit
        )
    a = np.tril(a, -int(unit)) if lower else np.triu(a, int(unit))
    a = a + np.eye(a.shape[-1]) if unit else a
    turned = a if trans == 0 else np.matrix_transpose(a)
    return np.linalg.solve(np.conj(turned) if trans == 2 and np.iscomplexobj(a) else turned, b)


def as_floats(x):
    """Return a matrix as SciPy computes with it: integers and truth values as doubles."""
    return np.astype(x, np.float64) if x.dtype.kind in "biu" else x


def _complex(*operands) -> bool:
    # NumPy's `iscomplexobj` takes 2 µs of a traced array, which is real by its class.
    return any([type(x) is not TracedArray and np.iscomplexobj(x) for x in operands])


def _triangle(a, b, lower: bool, transposed: bool, unit: bool, value):
    if transposed:
        a, lower = np.matrix_transpose(a), not lower
    return solve_system(f"solve_{'lower' if lower else 'upper'}{'_unit' if unit else ''}", a, b, value)


@stands_for("scipy.linalg", "cholesky", run=run_record)
def cholesky(value, a, lower=False, overwrite_a=False, check_finite=True):
    a = lift_first(a)
    return np.linalg.cholesky(a, upper=not lower) if _complex(a) else cholesky_factor(a, not lower, value)


@fails_as("scipy", "cholesky", "cho_factor")
def _failed_cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    return "cholesky", triangle(a, lower)


@stands_for("scipy.linalg", "cho_factor", run=run_record)
def cho_factor(value, a, lower=False, overwrite_a=False, check_finite=True):
    a, (factored, _) = np.atleast_2d(lift_first(a)), value
    zeros = _leaves_zeros(lower, overwrite_a, np.asarray(values_of(a)).flags.fnc)
    known = a, bool(lower), zeros
    run = functools.partial(_factored, factored, *known)
    return recurring(_factored, factored, known, {}, run), lower


def _factored(value, a, lower: bool, zeros: bool):
    """Return a Cholesky factor, in whose other triangle there are zeros or the entries of the matrix."""
    if _complex(a):
        factor = np.linalg.cholesky(a, upper=not lower)
    else:
        factor = cholesky_factor(a, not lower, np.tril(value) if lower else np.triu(value))
    if zeros:
        return adopt(factor[...], value)
    result = adopt(factor + (np.triu(a, 1) if lower else np.tril(a, -1)), value)
    if type(result) is TracedArray:
        result._trace.reused.factors[result._id] = factor._id
    return result


@functools.cache
def _leaves_zeros(lower: bool, overwrite: bool, by_columns: bool) -> bool:
    """Whether SciPy's `cho_factor` leaves zeros in the triangle that it does not use, as from 1.18.1 on.

    Before, it leaves the entries of the matrix, or not, as the matrix lies in memory.
    """
    trial = np.asarray([[2.0, 1.0], [1.0, 2.0]], order="F" if by_columns else "C")
    trial = scipy.linalg.cho_factor(trial, lower, overwrite)[0]
    return bool(trial[(0, 1) if lower else (1, 0)] == 0.0)


@stands_for("scipy.linalg", "cho_solve", run=run_long_record)
def cho_solve(value, c_and_lower, b, overwrite_b=False, check_finite=True):
    c, lower = c_and_lower
    c, b = lift_all(c, b)
    if _complex(c, b):
        return _complex_cholesky_solve(c, lower, b)
    return _cholesky_solve(c, bool(lower), b, value)


def _cholesky_solve(c, lower: bool, b, value):
    column = b if b.ndim > 1 else expand(b, (1,))
    # Only one triangle is read, so the sum that `cho_factor` returned need not be computed for it.
    trace = c._trace
    if c._id in trace.reused.factors:
        c = new_traced(trace, c._value, trace.reused.factors[c._id], c._level, c._family)
    factor = c if lower else np.matrix_transpose(c)
    half = np.linalg.solve(np.tril(values_of(factor)), values_of(column))
    half = array_instruction("solve_lower", (factor, column), half)
    full = value if b.ndim > 1 else np.asarray(value)[..., None]
    result = array_instruction("solve_upper", (np.matrix_transpose(factor), half), full)
    return result if b.ndim > 1 else adopt(drop_axes(result, (-1,)), value)


def _complex_cholesky_solve(c, lower, b):
    half = triangular(c, b, bool(lower), 0 if lower else 2)
    return triangular(c, half, bool(lower), 2 if lower else 0)


GENERAL = (None, "gen", "general")
POSITIVE = ("pos", "positive definite")
SYMMETRIC = ("sym", "symmetric", "her", "hermitian")
TRIANGLES = ("lower triangular", "upper triangular")
# How many diagonals there are on each side of the main one.
DIAGONALS = {"diagonal": 0, "tridiagonal": 1}


def _as_read(a, assume_a, lower: bool):
    """Return a real matrix of those entries that SciPy reads under an assumption."""
    if assume_a in (*SYMMETRIC, *POSITIVE):
        half, beside = (np.tril(a), np.tril(a, -1)) if lower else (np.triu(a), np.triu(a, 1))
        return half + np.matrix_transpose(beside)
    if assume_a in TRIANGLES:
        return np.tril(a) if assume_a.startswith("lower") else np.triu(a)
    if assume_a in DIAGONALS:
        return np.tril(np.triu(a, -DIAGONALS[assume_a]), DIAGONALS[assume_a])
    return a


@stands_for("scipy.linalg", "solve", run=run_long_record)
def solve(value, a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None,
          transposed=False):  # fmt: skip
    """Choose the factorisation that ``assume_a`` asks for; SciPy's number stays the value."""
    a, b = lift_all(a, b)
    if _complex(a, b):
        if assume_a in POSITIVE:
            return _complex_cholesky_solve(np.linalg.cholesky(a, upper=not lower), lower, b)
        if assume_a in SYMMETRIC and not transposed:
            inner = np.tril(a, -1) if lower else np.triu(a, 1)
            other = np.matrix_transpose(inner)
            diagonal = np.diagonal(a)
            if assume_a.startswith("her"):
                other, diagonal = np.conj(other), diagonal.real
            return np.linalg.solve(inner + other + np.diag(diagonal), b)
        if assume_a not in GENERAL or transposed:
            hint = "of complex matrices None, 'gen', 'sym', 'her' and 'pos' are"
            raise unsupported_argument("scipy.linalg.solve", f"assume_a={assume_a!r} or transposed", hint)
        return np.linalg.solve(a, b)
    if assume_a in POSITIVE:  # SciPy reads one triangle, which alone gets a derivative
        factor = cholesky_factor(a, not lower, np.linalg.cholesky(a._value, upper=not lower))
        return _cholesky_solve(factor, bool(lower), b, value)
    if assume_a in TRIANGLES:
        return _triangle(a, b, assume_a.startswith("lower"), bool(transposed), False, value)
    a = _as_read(a, assume_a, lower)
    return solve_system("solve", np.matrix_transpose(a) if transposed else a, b, value)


@fails_as("scipy", "solve")
def _failed_solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None,
                  transposed=False):  # fmt: skip
    if assume_a in POSITIVE:
        return _failed_cholesky(a, lower)
    return "solve", *columns(np.matrix_transpose(a) if transposed else a, b)


@fails_as("scipy", "inv")
def _failed_inv(a, *options, **named):
    return "inv", lift_first(a)


@stands_for("scipy.linalg", "inv")
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    a = lift_first(a)
    if _complex(a) and assume_a not in GENERAL:
        raise unsupported_argument(
            "scipy.linalg.inv", f"assume_a={assume_a!r}", "of complex matrices 'gen' is"
        )
    return np.linalg.inv(_as_read(a, assume_a, lower))


@stands_for("scipy.linalg", "det")
def det(a, overwrite_a=False, check_finite=True):
    return np.linalg.det(lift_first(a))


@stands_for("scipy.linalg", "norm")
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    return np.linalg.norm(lift_first(a), ord, axis, keepdims)
