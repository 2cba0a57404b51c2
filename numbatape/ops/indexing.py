"""Gather and scatter: array ops whose positions are data, checked as the tape runs."""

import numpy as np

from ..jit.language import parallel, simd
from .dependencies import added_rows, dense
from .status import DONE, INDEX
from .table import array_op


def positions(rng, shapes):
    """Random cells and positions in them, from either end."""
    size = shapes[0][0]
    return rng.normal(size=shapes[0]), rng.integers(-size, max(size, 1), shapes[1]).astype(float)


def entries_and_positions(rng, shapes):
    """Random cells, entries to add to them, and where."""
    cells, places = positions(rng, (shapes[0], shapes[2]))
    return cells, rng.normal(size=shapes[1]), places


def add_entries(x, position, shape):
    """Add up entries (or rows) at their positions in zeros."""
    result = np.zeros(shape)
    np.add.at(result, position.astype(int), x)
    return result


def is_short(k):
    """Whether rows have two or three cells, for which a loop takes longer than the cells themselves."""
    return k == 2 or k == 3


def copy_short_row(v, o, a, k, sa1):
    v[o] = v[a]
    v[o + 1] = v[a + sa1]
    if k == 3:
        v[o + 2] = v[a + 2 * sa1]


def add_short_row(g, o, a, k, sa1):
    g[a] += g[o]
    g[a + sa1] += g[o + 1]
    if k == 3:
        g[a + 2 * sa1] += g[o + 2]


def row_at(p, m):
    """Which of m rows a position names that is within bounds; negative ones count from the end."""
    row = int(p)
    return row + m if row < 0 else row


def others(d, b, sb0, m, n):
    """Count the positions that do not count from the first entry, or are out of bounds, or NaN.

    There are hardly ever any. To ask that of eight positions at once, in a loop of its own, and to go on
    without tests takes a third of the time of reading entries.
    """
    unusual = 0
    for i in parallel(n):
        unusual += 0 if 0.0 <= d[b + i * sb0] < m else 1
    return unusual


# All positions count from the first entry; some count from the last one; one is out of bounds, or NaN.
FROM_FIRST, FROM_EITHER, BEYOND = 0, 1, 2


def count_from(d, b, sb0, m, n):
    """Return where positions count from, or `BEYOND`."""
    if others(d, b, sb0, m, n) == 0:
        return FROM_FIRST
    for i in range(n):
        p = d[b + i * sb0]
        if not (-m <= p < m):  # The comparison is one of floats, so it refuses NaN, too.
            return BEYOND
    return FROM_EITHER


def repeats(d, b, sb0, n):
    """Whether many positions are those of the entry before, by looking at some of them."""
    pairs = min(n - 1, 32)
    step = max((n - 1) // 32, 1)
    same = 0
    for k in range(pairs):
        i = b + k * step * sb0
        same += 1 if d[i] == d[i + sb0] else 0
    return 1 if 4 * same > pairs else 0


def read_at_positions(v, d, o, a, b, n, sa0, sb0):
    """Read entries at positions that count from the first one, eight at once."""
    for i in simd(n):
        row = int(d[b + i * sb0])
        v[o + i] = v[a + row * sa0]


def add_at_positions(v, o, so, a, sa, d, b, sb0, m, n, ends):
    """Add entries one after the other.

    To look for negative positions, of which there are none if all ``ends`` are the first, takes a third more.
    """
    if ends == FROM_FIRST and repeats(d, b, sb0, n) == 0:
        for i in range(n):
            v[o + int(d[b + i * sb0]) * so] += v[a + i * sa]
    else:
        add_at_any(v, o, so, a, sa, d, b, sb0, m, n)


def add_at_any(v, o, so, a, sa, d, b, sb0, m, n):
    """Do that for positions from either end.

    Where positions often repeat the one before, what the last entry was added to stays in a register: the
    next one does not wait for the cell to be stored and loaded. So sorted positions take half of the time.
    Among random positions entries would wait for the register, where the processor can add several at once.
    """
    if not repeats(d, b, sb0, n):
        for i in range(n):
            row = row_at(d[b + i * sb0], m)
            v[o + row * so] += v[a + i * sa]
        return
    last = -1
    total = 0.0
    for i in range(n):
        row = row_at(d[b + i * sb0], m)
        if row != last:
            last = row
            total = v[o + row * so]
        v[o + row * so] = total + v[a + i * sa]
        # The cell has rounded it if the cells are float32, as NumPy's sums are rounded.
        total = v[o + row * so]


@array_op(
    "take",
    "(m,k),(n)->(n,k)",
    index="b",
    linear=True,
    fallible=True,
    moves=True,
    cases=(((5, 3), (4,)), ((1, 2), (3,)), ((5, 1), (1,)), ((4, 0), (2,)), ((3, 2), (0,)), ((0, 2), (0,))),
    make=positions,
    integers="within",
)
class Take:
    """``x[positions]``, row by row; the transpose adds rows up where positions repeat."""

    def depends(sets, operands, positions, core):
        x, _ = operands
        if positions is None:
            of_column = sets.along_last(x.swapaxes(1, 2))
            return np.broadcast_to(of_column[:, None, :], (len(x), *core))
        return np.take_along_axis(x, (positions % max(x.shape[1], 1))[:, :, None], axis=1)

    def oracle(x, position):
        return x[position.astype(int)]

    def forward(v, d, o, a, b, m, n, k, sa0, sa1, sb0):
        for i in range(n):
            p = d[b + i * sb0]
            if not (-m <= p < m):  # The comparison is one of floats, so it refuses NaN, too.
                return INDEX
            row = row_at(p, m)
            first = a + row * sa0
            if is_short(k):
                copy_short_row(v, o + i * k, first, k, sa1)
            else:
                for j in parallel(k):
                    v[o + i * k + j] = v[first + j * sa1]
        return DONE

    def reverse(g, d, o, a, b, m, n, k, sa0, sa1, sb0):
        for i in range(n):
            row = row_at(d[b + i * sb0], m)
            first = a + row * sa0
            if is_short(k):
                add_short_row(g, o + i * k, first, k, sa1)
            else:
                for j in parallel(k):
                    g[first + j * sa1] += g[o + i * k + j]

    def pullback(e, ct, z, operands, need):
        x, positions = operands
        return e.op("scatter", ct, positions, m=x.dims[-2]), None


@array_op(
    "take1",
    "(m),(n)->(n)",
    np.take,
    index="b",
    cut="n",
    linear=True,
    fallible=True,
    moves=True,
    cases=(((5,), (4,)), ((1,), (3,)), ((5,), (1,)), ((3,), (0,)), ((0,), (0,))),
    make=positions,
    integers="within",
)
class Take1:
    """`take` of single cells, which needs no inner loop."""

    def depends(sets, operands, positions, core):
        x, _ = operands
        if positions is None:
            return dense(sets, operands, None, core)
        return np.take_along_axis(x, positions % max(x.shape[1], 1), axis=1)

    def oracle(x, position):
        return x[position.astype(int)]

    def forward(v, d, o, a, b, m, n, sa0, sb0):
        if others(d, b, sb0, m, n) == 0:
            read_at_positions(v, d, o, a, b, n, sa0, sb0)
            return DONE
        for i in range(n):
            p = d[b + i * sb0]
            if not (-m <= p < m):
                return INDEX
            row = row_at(p, m)
            v[o + i] = v[a + row * sa0]
        return DONE

    def reverse(g, d, o, a, b, m, n, sa0, sb0):
        add_at_positions(g, a, sa0, o, 1, d, b, sb0, m, n, others(d, b, sb0, m, n))

    def pullback(e, ct, z, operands, need):
        x, positions = operands
        return e.op("scatter1", ct, positions, m=x.dims[-1]), None


@array_op("scatter", "(n,k),(n)->(m,k)", index="b", linear=True, fallible=True, integers="within")
class Scatter:
    """The transpose of `take`: rows added up at their positions in a matrix of zeros."""

    depends, oracle = added_rows, add_entries

    def forward(v, d, o, a, b, m, n, k, sa0, sa1, sb0):
        for i in parallel(m * k):
            v[o + i] = 0.0
        for i in range(n):
            p = d[b + i * sb0]
            if not (-m <= p < m):
                return INDEX
            row = row_at(p, m)
            for j in parallel(k):
                v[o + row * k + j] += v[a + i * sa0 + j * sa1]
        return DONE

    def reverse(g, d, o, a, b, m, n, k, sa0, sa1, sb0):
        for i in range(n):
            row = row_at(d[b + i * sb0], m)
            for j in parallel(k):
                g[a + i * sa0 + j * sa1] += g[o + row * k + j]

    def pullback(e, ct, z, operands, need):
        return e.op("take", ct, operands[1]), None


@array_op("scatter1", "(n),(n)->(m)", index="b", cut="n", linear=True, fallible=True, integers="within")
class Scatter1:
    """The transpose of `take1`."""

    oracle = add_entries

    def depends(sets, operands, positions, core):
        if positions is None:
            return dense(sets, operands, None, core)
        return added_rows(sets, [operands[0][:, :, None]], positions, (*core, 1))

    def forward(v, d, o, a, b, m, n, sa0, sb0):
        ends = count_from(d, b, sb0, m, n)
        if ends == BEYOND:
            return INDEX
        for i in parallel(m):
            v[o + i] = 0.0
        add_at_positions(v, o, 1, a, sa0, d, b, sb0, m, n, ends)
        return DONE

    def reverse(g, d, o, a, b, m, n, sa0, sb0):
        for i in range(n):
            row = row_at(d[b + i * sb0], m)
            g[a + i * sa0] += g[o + row]

    def pullback(e, ct, z, operands, need):
        return e.op("take1", ct, operands[1]), None


@array_op(
    "add_at",
    "(m),(n),(n)->(m)",
    index="c",
    cut="n",
    linear=True,
    fallible=True,
    cases=tuple(((m,), (n,), (n,)) for m, n in ((5, 7), (1, 3), (3, 1), (3, 0), (0, 0))),
    make=entries_and_positions,
    integers="sum at",
)
class AddAt:
    """Entries added at their positions one after the other, as ``np.add.at`` does.

    Adding up the entries for each position first would round differently, and turn -0.0 + 0 into 0.0.
    """

    def depends(sets, operands, positions, core):
        x, entries, _ = operands
        if entries is None:
            return x
        if positions is None:
            added = dense(sets, [entries], None, core)
        else:
            added = added_rows(sets, [entries[:, :, None]], positions, (*core, 1)).reshape(-1, *core)
        return sets.together(added.shape, x, added)

    def oracle(x, entries, position):
        result = np.array(x)
        np.add.at(result, position.astype(int), entries)
        return result

    def forward(v, d, o, a, b, c, m, n, sa0, sb0, sc0):
        ends = count_from(d, c, sc0, m, n)
        if ends == BEYOND:
            return INDEX
        for i in parallel(m):
            v[o + i] = v[a + i * sa0]
        add_at_positions(v, o, 1, b, sb0, d, c, sc0, m, n, ends)
        return DONE

    def reverse(g, d, o, a, b, c, m, n, need_a, need_b, sa0, sb0, sc0):
        if need_a:
            for i in parallel(m):
                g[a + i * sa0] += g[o + i]
        if need_b:
            for i in range(n):
                row = row_at(d[c + i * sc0], m)
                g[b + i * sb0] += g[o + row]

    def pullback(e, ct, z, operands, need):
        return ct, e.op("take1", ct, operands[2]) if need[1] else None, None


@array_op(
    "add_rows_at",
    "(m,k),(n,k),(n)->(m,k)",
    index="c",
    linear=True,
    fallible=True,
    cases=(
        ((5, 3), (7, 3), (7,)),
        ((1, 2), (3, 2), (3,)),
        ((3, 9), (1, 9), (1,)),
        ((3, 2), (0, 2), (0,)),
        ((4, 0), (2, 0), (2,)),
        ((0, 2), (0, 2), (0,)),
    ),
    make=entries_and_positions,
    integers="sum at",
)
class AddRowsAt:
    """`add_at` of rows: a position is read and checked once for all cells of a row."""

    def depends(sets, operands, positions, core):
        x, rows, _ = operands
        if rows is None:
            return x
        added = added_rows(sets, [rows], positions, core)
        return sets.together((len(added), *core), x, added)

    oracle = AddAt.oracle

    def forward(v, d, o, a, b, c, m, n, k, sa0, sa1, sb0, sb1, sc0):
        for i in range(m):
            for j in parallel(k):
                v[o + i * k + j] = v[a + i * sa0 + j * sa1]
        for i in range(n):
            p = d[c + i * sc0]
            if not (-m <= p < m):
                return INDEX
            row = row_at(p, m)
            for j in parallel(k):
                v[o + row * k + j] += v[b + i * sb0 + j * sb1]
        return DONE

    def reverse(g, d, o, a, b, c, m, n, k, need_a, need_b, sa0, sa1, sb0, sb1, sc0):
        if need_a:
            for i in range(m):
                for j in parallel(k):
                    g[a + i * sa0 + j * sa1] += g[o + i * k + j]
        if need_b:
            for i in range(n):
                row = row_at(d[c + i * sc0], m)
                for j in parallel(k):
                    g[b + i * sb0 + j * sb1] += g[o + row * k + j]

    def pullback(e, ct, z, operands, need):
        return ct, e.op("take", ct, operands[2]) if need[1] else None, None
