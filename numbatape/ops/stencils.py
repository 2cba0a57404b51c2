"""Stencils: linear expressions of shifted views of one array, computed row by row.

The table of a stencil is ``[steps, taps, (kind, x, y, factor) of each step..., (di, dj, dk, weight) of each
tap...]``. A tap is a view of the operand that begins so many entries behind its first one. A step computes
the row ``x + y``, ``x - y``, ``-x``, ``x * factor`` or ``x / factor``, where a number from 0 on is the result
of an earlier step, and -1, -2, ... are the taps. The last step is the result. The weights are the partials.
"""

import numpy as np

from ..jit.language import parallel
from .dependencies import dense
from .status import DONE, INDEX
from .table import array_op

KINDS = 5  # the number of kinds of steps, in the order above
ENTRY = 4  # how many numbers describe a step, or a tap
SCRATCH = 1024  # cells: a row is computed in strips, so that the results of all steps fit
MOST_STEPS = 32


def parts_of(table) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps and the taps of a table as rows."""
    steps = int(table[0])
    rows = np.asarray(table)[2:].reshape(-1, ENTRY)
    return rows[:steps], rows[steps:]


def shifted(x, shape, taps) -> list:
    """Return the views of the last three axes that the taps are."""
    corners = taps[:, :3].astype(int).tolist()
    return [x[..., i : i + shape[0], j : j + shape[1], k : k + shape[2]] for i, j, k in corners]


def expression(x, table, shape):
    """Return what the steps compute."""
    steps, taps = parts_of(table)
    rows = {-1 - k: view for k, view in enumerate(shifted(x, shape, taps))}
    operations = (np.add, np.subtract, lambda a, b: -a)
    for k, (kind, a, b, factor) in enumerate(steps.tolist()):
        if kind < 3:
            rows[k] = operations[int(kind)](rows[int(a)], rows[int(b)])
        else:
            rows[k] = rows[int(a)] * factor if kind == 3 else rows[int(a)] / factor
    return rows[len(steps) - 1]


def spread_out(x, table, shape):
    """Return the transpose: each entry, times the weights, added at all places that it was read from."""
    taps = parts_of(table)[1]
    result = np.zeros(shape, np.result_type(x, float))
    for target, weight in zip(shifted(result, x.shape, taps), taps[:, 3], strict=True):
        target += weight * x
    return result


def fits(d, c, sc, t, f, h, p, u, m, n):
    """Whether t cells are a table for views of u*m*n entries of an array of f*h*p: all places are inside."""
    if t < 2:
        return False
    steps = d[c]
    taps = d[c + sc]
    if not (1 <= steps <= MOST_STEPS and 1 <= taps <= t):  # NaN fails these tests, too
        return False
    if int(steps) != steps or int(taps) != taps or 2 + ENTRY * (int(steps) + int(taps)) != t:
        return False
    for i in range(int(steps)):
        at = c + (2 + ENTRY * i) * sc
        if not 0 <= d[at] < KINDS:
            return False
        for j in range(1, 3):
            x = d[at + j * sc]
            if not -taps <= x < i or int(x) != x:
                return False
    for i in range(int(taps)):
        at = c + (2 + ENTRY * (int(steps) + i)) * sc
        if not (0 <= d[at] <= f - u and 0 <= d[at + sc] <= h - m and 0 <= d[at + 2 * sc] <= p - n):
            return False
    return True


def first_of_tap(d, c, sc, tap, sa0, sa1, sa2):
    """Return how far behind the operand's first cell a tap begins."""
    at = c + (2 + ENTRY * (int(d[c]) + tap)) * sc
    return int(d[at]) * sa0 + int(d[at + sc]) * sa1 + int(d[at + 2 * sc]) * sa2


def step_row(v, kind, z, sz, x, sx, y, sy, factor, n):
    """Compute a row of one step."""
    if sx == 1 and sy == 1 and sz == 1:
        if kind == 0:
            for j in parallel(n):
                v[z + j] = v[x + j] + v[y + j]
        elif kind == 1:
            for j in parallel(n):
                v[z + j] = v[x + j] - v[y + j]
        elif kind == 2:
            for j in parallel(n):
                v[z + j] = -v[x + j]
        elif kind == 3:
            for j in parallel(n):
                v[z + j] = v[x + j] * factor
        else:
            for j in parallel(n):
                v[z + j] = v[x + j] / factor
    else:
        for j in range(n):
            p = v[x + j * sx]
            q = v[y + j * sy]
            if kind == 0:
                p = p + q
            elif kind == 1:
                p = p - q
            elif kind == 2:
                p = -p
            elif kind == 3:
                p = p * factor
            else:
                p = p / factor
            v[z + j * sz] = p


def compute_strip(v, d, s, corner, sa0, sa1, sa2, end, so2, c, sc, strip, size):
    """Do all steps for some entries of a row; the results of steps are in scratch, a strip apart."""
    steps = int(d[c])
    for r in range(steps):
        at = c + (2 + ENTRY * r) * sc
        x = int(d[at + sc])
        sx = 1
        if x >= 0:
            x = s + x * strip
        else:
            x = corner + first_of_tap(d, c, sc, -1 - x, sa0, sa1, sa2)
            sx = sa2
        y = int(d[at + 2 * sc])
        sy = 1
        if y >= 0:
            y = s + y * strip
        else:
            y = corner + first_of_tap(d, c, sc, -1 - y, sa0, sa1, sa2)
            sy = sa2
        z = s + r * strip
        sz = 1
        if r == steps - 1:
            z = end
            sz = so2
        step_row(v, int(d[at]), z, sz, x, sx, y, sy, d[at + 3 * sc], size)


def add_taps(v, x, sx0, sx1, sx2, y, sy0, sy1, sy2, d, c, sc, u, m, n, gathers):
    """Add the taps of x, times their weights, to y; or with ``gathers`` 0 add y to the taps of x."""
    steps = int(d[c])
    for i in range(u):
        for j in range(m):
            own = y + i * sy0 + j * sy1
            corner = x + i * sx0 + j * sx1
            for tap in range(int(d[c + sc])):
                weight = d[c + (5 + ENTRY * (steps + tap)) * sc]
                first = corner + first_of_tap(d, c, sc, tap, sx0, sx1, sx2)
                if gathers and sx2 == 1 and sy2 == 1:
                    for k in parallel(n):
                        v[own + k] += weight * v[first + k]
                elif gathers:
                    for k in range(n):
                        v[own + k * sy2] += weight * v[first + k * sx2]
                elif sx2 == 1 and sy2 == 1:
                    for k in parallel(n):
                        v[first + k] += weight * v[own + k]
                else:
                    for k in range(n):
                        v[first + k * sx2] += weight * v[own + k * sy2]


@array_op("stencil", "(f,h,p),(t)->(u,m,n)", scratch=f"{SCRATCH}", index="b", linear=True, fallible=True)
class Stencil:
    """A linear expression of shifted views; each entry has the bits of the separate operations."""

    oracle = expression

    def depends(sets, operands, positions, core):
        x, _ = operands
        if positions is None:
            return dense(sets, operands, None, core)
        return sets.unite_cells(*shifted(x, core, parts_of(positions[0])[1]))

    def forward(v, d, o, a, b, f, h, p, t, u, m, n, so0, so1, so2, sa0, sa1, sa2, sb0, s):
        if not fits(d, b, sb0, t, f, h, p, u, m, n):
            return INDEX
        strip = SCRATCH // int(d[b])
        for i in range(u):
            for j in range(m):
                first = 0
                while first < n:
                    corner = a + i * sa0 + j * sa1 + first * sa2
                    end = o + i * so0 + j * so1 + first * so2
                    size = min(strip, n - first)
                    compute_strip(v, d, s, corner, sa0, sa1, sa2, end, so2, b, sb0, strip, size)
                    first += strip
        return DONE

    def reverse(g, d, o, a, b, u, m, n, so0, so1, so2, sa0, sa1, sa2, sb0):
        add_taps(g, a, sa0, sa1, sa2, o, so0, so1, so2, d, b, sb0, u, m, n, 0)

    def pullback(e, ct, z, operands, need):
        x, table = operands
        f, h, p = x.dims[-3:]
        return e.op("spread", ct, table, f=f, h=h, p=p), None


@array_op("spread", "(u,m,n),(t)->(f,h,p)", index="b", linear=True, fallible=True, integers="within")
class Spread:
    """The transpose of `stencil`."""

    oracle = spread_out

    def depends(sets, operands, positions, core):
        x, _ = operands
        if positions is None:
            return dense(sets, operands, None, core)
        places = np.arange(len(x) * int(np.prod(core))).reshape(len(x), *core)
        taps = parts_of(positions[0])[1]
        owners = np.concatenate([view.reshape(-1) for view in shifted(places, x.shape[1:], taps)])
        return sets.unite(owners, np.tile(x.reshape(-1), len(taps)), places.size).reshape(places.shape)

    def forward(v, d, o, a, b, u, m, n, t, f, h, p, so0, so1, so2, sa0, sa1, sa2, sb0):
        if not fits(d, b, sb0, t, f, h, p, u, m, n):
            return INDEX
        for i in range(f):
            for j in range(h):
                for k in parallel(p):
                    v[o + i * so0 + j * so1 + k * so2] = 0.0
        add_taps(v, o, so0, so1, so2, a, sa0, sa1, sa2, d, b, sb0, u, m, n, 0)
        return DONE

    def reverse(g, d, o, a, b, u, m, n, so0, so1, so2, sa0, sa1, sa2, sb0):
        add_taps(g, o, so0, so1, so2, a, sa0, sa1, sa2, d, b, sb0, u, m, n, 1)

    def pullback(e, ct, z, operands, need):
        x, table = operands
        u, m, n = x.dims[-3:]
        return e.op("stencil", ct, table, u=u, m=m, n=n), None
