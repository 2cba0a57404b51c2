"""Dot products and norms of vectors."""

import math

import numpy as np

from ..jit.language import lane_dot
from .dependencies import dense, everything, pairs
from .reduce import BLOCK, LENGTHS
from .status import DONE
from .table import array_op

PAIRS = (((0,), (0,)), ((1,), (1,)), ((7,), (7,)))


def block_dot(v, a, b, n, sa0, sb0):
    if sa0 == 1 and sb0 == 1:
        return lane_dot(v, a, v, b, n)
    total = 0.0
    for i in range(n):
        total += v[a + i * sa0] * v[b + i * sb0]
    return total


def dot_cells(v, a, b, n, sa0, sb0):
    total = block_dot(v, a, b, min(n, BLOCK), sa0, sb0)
    lost = 0.0
    first = BLOCK
    while first < n:
        part = block_dot(v, a + first * sa0, b + first * sb0, min(BLOCK, n - first), sa0, sb0)
        new = total + part
        back = new - total
        lost += (total - (new - back)) + (part - back)
        total = new
        first += BLOCK
    if lost - lost == 0.0:  # two-sum gives NaN if an entry is infinite
        total += lost
    return total


@array_op("dot", "(n),(n)->()", np.vecdot, bilinear=True, cases=PAIRS, reads_narrow=True)
class Dot:
    """``sum(x*y)``, fused: as accurate as a sum, and a zero cotangent adds nothing."""

    depends = dense

    def interacts(sets, operands):
        x, y = operands
        return [] if x is None or y is None else [pairs(x, y)]

    def forward(v, o, a, b, n, sa0, sb0):
        v[o] = dot_cells(v, a, b, n, sa0, sb0)
        return DONE

    def reverse(v, g, o, a, b, n, sa0, sb0, need_a, need_b):
        gz = g[o]
        if gz == 0.0:
            return
        if a == b and sa0 == 1 and sb0 == 1 and need_a and need_b:  # a sum of squares
            for i in range(n):
                g[a + i] += 2.0 * gz * v[a + i]
            return
        if need_a:
            if sa0 == 1 and sb0 == 1:
                for i in range(n):
                    g[a + i] += gz * v[b + i]
            else:
                for i in range(n):
                    g[a + i * sa0] += gz * v[b + i * sb0]
        if need_b:
            if sa0 == 1 and sb0 == 1:
                for i in range(n):
                    g[b + i] += gz * v[a + i]
            else:
                for i in range(n):
                    g[b + i * sb0] += gz * v[a + i * sa0]

    def pullback(e, ct, z, operands, need):
        a, b = operands
        return e.times(e.last(ct), b) if need[0] else None, e.times(e.last(ct), a) if need[1] else None


@array_op("norm2", "(n)->()", np.linalg.norm, cases=LENGTHS)
class Norm2:
    """Euclidean norm; ``dx = x/z``, and 0 at 0."""

    depends, interacts = dense, everything

    def forward(v, o, a, n, sa0):
        v[o] = math.sqrt(dot_cells(v, a, a, n, sa0, sa0))
        return DONE

    def reverse(v, g, o, a, n, sa0):
        if v[o] != 0.0 and g[o] != 0.0:
            scale = g[o] / v[o]
            if sa0 == 1:
                for i in range(n):
                    g[a + i] += scale * v[a + i]
            else:
                for i in range(n):
                    g[a + i * sa0] += scale * v[a + i * sa0]

    def pullback(e, ct, z, operands, need):
        at_zero = z == 0.0
        scale = e.where(at_zero, 0.0, ct / e.where(at_zero, 1.0, z))
        return (e.times(e.last(scale), operands[0]),)
