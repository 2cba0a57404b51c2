"""Filling, counting, triangles, one row overwritten, copies between dtypes.

Reshapes, transposes and diagonals need no ops: they are views and copies.
"""

import math

import numpy as np

from ..jit.language import parallel
from .dependencies import triangle
from .indexing import row_at
from .status import DONE, INDEX, INTEGER
from .table import array_op, unary


def matrix_and_diagonal(rng, shapes):
    return rng.normal(size=shapes[0]), np.float64(rng.integers(-2, 3))


TRIANGLES = tuple((shape, ()) for shape in ((3, 3), (2, 5), (5, 2), (1, 1), (0, 3), (3, 0)))


@array_op("fill", "()->(n)", linear=True, repeats=True, moves=True, integers="within")
class Fill:
    """One cell, n times; the only op here whose result may be any view."""

    def depends(sets, operands, positions, core):
        return np.broadcast_to(operands[0][:, None], (len(operands[0]), *core))

    def oracle(x, shape):
        return np.broadcast_to(x, shape)

    def forward(v, o, a, n, so0):
        x = v[a]
        for i in parallel(n):
            v[o + i * so0] = x
        return DONE

    def reverse(g, o, a, n, so0):
        total = 0.0
        for i in range(n):
            total += g[o + i * so0]
        g[a] += total

    def pullback(e, ct, z, operands, need):
        return (e.sum(ct),)


@array_op("extent", "(n)->()", np.size, cases=(((0,),), ((1,),), ((7,),)), integers="position")
class Extent:
    """The number of entries, which makes a size of the tape a number to compute with."""

    def forward(v, o, n):
        v[o] = float(n)
        return DONE


@array_op(
    "exact_integers",
    "()->()",
    index="a",
    fallible=True,
    pointwise=True,
    cases=(((),),),
    make=lambda rng, shapes: (rng.integers(-(2**52), 2**52, shapes[0]).astype(float),),
    integers="position",
)
class ExactIntegers:
    """1 for an integer that a float64 holds exactly; one from 2**53 on stops the sweep."""

    def oracle(x):
        return np.float64(1.0)

    def forward(v, d, o, a):
        if not (math.fabs(d[a]) < 9007199254740992.0):
            return INTEGER
        v[o] = 1.0
        return DONE


@array_op("arange", "()->(n)", counts_up=True, integers="position")
class Arange:
    """Consecutive numbers from the operand on."""

    def oracle(x, shape):
        return x + np.arange(shape[0])

    def forward(v, o, a, n):
        first = v[a]
        for i in parallel(n):
            v[o + i] = first + i
        return DONE


@array_op(
    "tril",
    "(m,n),()->(m,n)",
    np.tril,
    index="b",
    linear=True,
    triangle="<=",
    cases=TRIANGLES,
    make=matrix_and_diagonal,
    integers="within",
)
class Tril:
    """Zero above the diagonal that b names."""

    def depends(sets, operands, positions, core):
        return triangle(operands[0], positions, core, 1)

    def oracle(x, k):
        return np.tril(x, int(k))

    def forward(v, d, o, a, b, m, n, sa0, sa1):
        diagonal = d[b]
        for i in range(m):
            for j in parallel(n):
                v[o + i * n + j] = v[a + i * sa0 + j * sa1] if j - i <= diagonal else 0.0
        return DONE

    def reverse(g, d, o, a, b, m, n, sa0, sa1):
        diagonal = d[b]
        for i in range(m):
            for j in parallel(n):
                # Adding the negative zero changes nothing, not even the sign of zero.
                g[a + i * sa0 + j * sa1] += g[o + i * n + j] if j - i <= diagonal else -0.0

    def pullback(e, ct, z, operands, need):
        return e.op("tril", ct, operands[1]), None


@array_op(
    "triu",
    "(m,n),()->(m,n)",
    np.triu,
    index="b",
    linear=True,
    triangle=">=",
    cases=TRIANGLES,
    make=matrix_and_diagonal,
    integers="within",
)
class Triu:
    """Zero below the diagonal that b names."""

    def depends(sets, operands, positions, core):
        return triangle(operands[0], positions, core, -1)

    def oracle(x, k):
        return np.triu(x, int(k))

    def forward(v, d, o, a, b, m, n, sa0, sa1):
        diagonal = d[b]
        for i in range(m):
            for j in parallel(n):
                v[o + i * n + j] = v[a + i * sa0 + j * sa1] if j - i >= diagonal else 0.0
        return DONE

    def reverse(g, d, o, a, b, m, n, sa0, sa1):
        diagonal = d[b]
        for i in range(m):
            for j in parallel(n):
                # Adding the negative zero changes nothing, not even the sign of zero.
                g[a + i * sa0 + j * sa1] += g[o + i * n + j] if j - i >= diagonal else -0.0

    def pullback(e, ct, z, operands, need):
        return e.op("triu", ct, operands[1]), None


# A copy between float64 and float32 cells: only its operand has other cells than the result.
unary("cast", "x", (np.float64, np.float32), dx="1.0", casts=True)


def add_rows_between(g, o, a, first, stop, k, sa0, sa1):
    """Add the adjoints of some rows of a result, which is contiguous, to those of an operand."""
    if sa1 == 1 and sa0 == k:
        for j in parallel((stop - first) * k):
            g[a + first * k + j] += g[o + first * k + j]
    elif k == 1:
        for i in parallel(stop - first):
            g[a + (first + i) * sa0] += g[o + first + i]
    else:
        for i in range(first, stop):
            for j in parallel(k):
                g[a + i * sa0 + j * sa1] += g[o + i * k + j]


def matrix_row_and_position(rng, shapes):
    """Random cells, a row, and a position from either end."""
    size = shapes[0][0]
    return rng.normal(size=shapes[0]), rng.normal(size=shapes[1]), np.array(float(rng.integers(-size, size)))


@array_op(
    "put",
    "(m,k),(k),()->(m,k)",
    index="c",
    linear=True,
    fallible=True,
    moves=True,
    overwrites=True,
    cases=(((5, 3), (3,), ()), ((1, 2), (2,), ()), ((7, 1), (1,), ()), ((4, 0), (0,), ())),
    make=matrix_row_and_position,
    integers="within",
)
class Put:
    """A matrix with another row at a position.

    The result may have the cells of the matrix (`numbatape.engine.placement`). Then nothing is copied, and
    the adjoints of both are in the same cells, too: in reverse, those of the overwritten row become zero.
    """

    def depends(sets, operands, positions, core):
        x, row, _ = operands
        batch = len(x if x is not None else row)
        if positions is None:
            if row is None:
                return x
            return sets.together((batch, *core), x, row[:, None, :])
        result = np.zeros((batch, *core), np.int64)
        if x is not None:
            result[...] = x
        result[np.arange(batch), positions.reshape(-1) % max(core[0], 1)] = 0 if row is None else row
        return result

    def oracle(x, row, position):
        result = np.array(x)
        result[int(position)] = row
        return result

    def forward(v, d, o, a, b, c, m, k, sa0, sa1, sb0):
        p = d[c]
        if not (-m <= p < m):  # The comparison is one of floats, so it refuses NaN, too.
            return INDEX
        row = row_at(p, m)
        if o == a:
            pass
        elif sa1 == 1 and sa0 == k:
            for j in parallel(m * k):
                v[o + j] = v[a + j]
        elif k == 1:
            for i in parallel(m):
                v[o + i] = v[a + i * sa0]
        else:
            for i in range(m):
                for j in parallel(k):
                    v[o + i * k + j] = v[a + i * sa0 + j * sa1]
        for j in parallel(k):
            v[o + row * k + j] = v[b + j * sb0]
        return DONE

    def reverse(g, d, o, a, b, c, m, k, need_a, need_b, sa0, sa1, sb0):
        row = row_at(d[c], m)
        if need_b:
            for j in parallel(k):
                g[b + j * sb0] += g[o + row * k + j]
        if o == a:
            for j in parallel(k):
                g[o + row * k + j] = 0.0
        elif need_a:
            add_rows_between(g, o, a, 0, row, k, sa0, sa1)
            add_rows_between(g, o, a, row + 1, m, k, sa0, sa1)

    def pullback(e, ct, z, operands, need):
        _, row, position = operands
        of_x = of_row = None
        if need[0]:
            of_x = e.op("put", ct, e.zeros(row.dims[-1:], ct.family), position)
        if need[1]:
            rows = e.op("take", ct, e.expand(position, (-1,)))
            of_row = e.drop(rows, (rows.ndim - 2,))
        return of_x, of_row, None
