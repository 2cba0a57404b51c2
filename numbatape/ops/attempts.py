"""Factorisations that may fail: ops that say so in a cell instead of stopping the sweep.

Where a function catches NumPy's `LinAlgError`, whether a matrix has a factor decides about its path, and so
is a guard. Each op here is one of `numbatape.ops.linalg` whose result is packed into a vector, with a last
cell that is 1 if the matrix could be factored. Otherwise all cells are 0.
"""

import numpy as np

from ..jit.language import parallel
from .dependencies import dense, everything
from .linalg import (
    SQUARES,
    SYSTEMS,
    factor_pullback,
    inverse_pullback,
    positive_definite,
    pull_factor,
    pull_inverse,
    pull_solution,
    put_factor,
    put_inverse,
    put_solution,
    solution_pullback,
    well_conditioned,
)
from .status import DONE
from .table import array_op


def attempted(function):
    """Return NumPy's function with its result packed, and zeros where that raises."""

    def attempt(*operands):
        try:
            result = function(*operands)
        except np.linalg.LinAlgError:
            return np.zeros(operands[-1].size + 1, operands[-1].dtype)
        return np.append(result, result.dtype.type(1))

    return attempt


def put_outcome(v, o, count, status):
    """Put 1 into the last cell if it went well; otherwise all cells are 0."""
    v[o + count] = 1.0
    if status != DONE:
        for i in parallel(count + 1):
            v[o + i] = 0.0
    return DONE


def regular(e, matrix, done):
    """Return a matrix, and the identity where the attempt has failed.

    There the cotangent is 0: nothing has read the result, or it was that of one row of several, which takes
    another path (`numbatape.vmap`).
    """
    return e.where(e.expand(done, (-1,)) != 0.0, matrix, e.eye(matrix.dims[-1], matrix.family))


@array_op(
    "attempted_cholesky",
    "(n,n)->(q)",
    attempted(np.linalg.cholesky),
    scratch="2*n*n",
    cases=SQUARES,
    make=positive_definite,
    extents="q == n*n + 1",
)
class AttemptedCholesky:
    """The factor of `cholesky`, and whether there is one."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, sa1):
        return put_outcome(v, o, n * n, put_factor(v, o, a, n, sa0, sa1))

    def reverse(v, g, o, a, n, so0, sa0, sa1, s):
        if v[o + n * n] != 0.0:
            pull_factor(v, g, o, a, n, n, so0, sa0, sa1, s)

    def pullback(e, ct, z, operands, need):
        n = operands[0].dims[-1]
        factor, done = e.unpacked(z, (n, n), (1,))
        return factor_pullback(e, e.unpacked(ct, (n, n))[0], regular(e, factor, done), operands, need)


@array_op(
    "attempted_solve",
    "(n,n),(n,k)->(q)",
    attempted(np.linalg.solve),
    scratch="2*n*n+n+n*k",
    cases=SYSTEMS,
    make=well_conditioned,
    extents="q == n*k + 1",
)
class AttemptedSolve:
    """The solution of `solve`, and whether the matrix is regular."""

    depends, interacts = dense, everything

    def forward(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s):
        return put_outcome(v, o, n * k, put_solution(v, o, a, b, n, k, sa0, sa1, sb0, sb1, s))

    def reverse(v, g, o, a, b, n, k, so0, sa0, sa1, sb0, sb1, s, need_a, need_b):
        if v[o + n * k] != 0.0:
            pull_solution(v, g, o, a, b, n, k, k, so0, sa0, sa1, sb0, sb1, s, need_a, need_b)

    def pullback(e, ct, z, operands, need):
        a, b = operands
        solution, done = e.unpacked(z, b.dims[-2:], (1,))
        its = e.unpacked(ct, b.dims[-2:])[0]
        return solution_pullback(e, its, solution, (regular(e, a, done), b), need)


@array_op(
    "attempted_inv",
    "(n,n)->(q)",
    attempted(np.linalg.inv),
    scratch="2*n*n+n",
    cases=SQUARES,
    make=well_conditioned,
    extents="q == n*n + 1",
)
class AttemptedInv:
    """The inverse of `inv`, and whether there is one."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0, sa1, s):
        return put_outcome(v, o, n * n, put_inverse(v, o, a, n, sa0, sa1, s))

    def reverse(v, g, o, a, n, so0, sa0, sa1, s):
        if v[o + n * n] != 0.0:
            pull_inverse(v, g, o, a, n, n, so0, sa0, sa1, s)

    def pullback(e, ct, z, operands, need):
        n = operands[0].dims[-1]
        return inverse_pullback(e, e.unpacked(ct, (n, n))[0], e.unpacked(z, (n, n))[0], operands, need)
