"""Functions of ``scipy.linalg`` that go by way of similar matrices: any function of one, and balancing."""

from __future__ import annotations

import numpy as np

from ...matrix.equations import linalg
from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...rules.searches import Search
from ...trace import operations
from ...trace.axes import pinned
from ...trace.operands import is_wrong, lift_first

# Eigenvalues nearer to each other, relative to the largest, count as equal.
NEAR = 1e-7


@stands_for("scipy.linalg", "funm")
def funm(A, func, disp=True):
    """Apply a function to the eigenvalues, which have to differ: its slopes at equal ones are not known."""
    a = lift_first(A)
    if not disp:
        raise unsupported_argument("scipy.linalg.funm", "disp=False", "without it the matrix is returned")
    values, vectors = np.linalg.eig(a)
    n = pinned(a, -1)
    gaps = np.abs(np.expand_dims(values, -1) - np.expand_dims(values, -2)) + np.diag(np.full(n, np.inf))
    if is_wrong(np.min(gaps, initial=np.inf) <= NEAR * np.max(np.abs(values), initial=0.0)):
        hint = "expm, logm, sqrtm, cosm, sinm and fractional_matrix_power are"
        raise unsupported_argument("scipy.linalg.funm", "equal eigenvalues", hint)
    found = operations.rebind(func)(values)
    result = np.matmul(vectors * np.expand_dims(found, -2), np.linalg.inv(vectors))
    if a.dtype.kind == "c" or result.dtype.kind != "c":
        return result
    # SciPy's rule for what is real.
    small = 1e3 * np.finfo(float).eps * np.max(np.abs(result))
    return np.real(result) if bool(np.all(np.abs(np.imag(result)) <= np.maximum(small, 1e-9))) else result


@stands_for("scipy.linalg", "matrix_balance")
def matrix_balance(A, permute=True, scale=True, separate=False, overwrite_a=False):
    """Multiply by powers of 2 and permute; which ones is data."""
    a = lift_first(A)
    if a.dtype.kind == "c":
        raise unsupported_argument("scipy.linalg.matrix_balance", "a complex matrix", "a real one is")
    search = Search("scipy.linalg.matrix_balance", lambda a: _factors(a, permute, scale), (a,))
    similar, scaling, order = (search.numbers("factors", lambda found, k=k: found[k]) for k in range(3))
    inverse = np.swapaxes(similar / np.sum(np.square(similar), -2, keepdims=True), -1, -2)
    balanced = np.matmul(np.matmul(inverse, a), similar)
    return balanced, ((scaling, order.astype(np.intp)) if separate else similar)


def _factors(a, permute: bool, scale: bool):
    similar = linalg().matrix_balance(a, permute, scale)[1]
    return similar, *linalg().matrix_balance(a, permute, scale, True)[1]
