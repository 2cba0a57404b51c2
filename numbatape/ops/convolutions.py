"""Convolutions and correlations of matrices, computed term by term, row by row.

A vector is a matrix of one row. Each op is the transpose of the other one in either operand, so that both
kernels, and all derivatives, consist of the same two functions.
"""

import numpy as np

from ..jit.language import lane_dots, parallel
from .dependencies import dense, pairs
from .status import DONE
from .table import array_op


def correlated(x, w):
    """Return the sums of products of the last two axes of ``x`` with a smaller ``w``, wherever that fits."""
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[-2:], (-2, -1))
    return np.einsum("...ijpq,...pq->...ij", views, w)


def convolved(x, w):
    """Return the products of all entries of the last two axes, added up where their places add up."""
    k, u = w.shape[-2:]
    lead = [(0, 0)] * (x.ndim - 2)
    return correlated(np.pad(x, [*lead, (k - 1, k - 1), (u - 1, u - 1)]), w[..., ::-1, ::-1])


def gather_products(zv, z, sz0, sz1, xv, x, sx0, sx1, wv, w, sw0, sw1, m, n, k, u):
    """``z[i, j] += sum of x[i+p, j+q] * w[p, q]``, for z of (m, n) and w of (k, u) entries."""
    if sx1 == 1 and sw1 == 1 and u > n:
        gather_dots(zv, z, sz0, sz1, xv, x, sx0, wv, w, sw0, m, n, k, u)
    elif sx1 == 1 and sz1 == 1:
        gather_rows(zv, z, sz0, xv, x, sx0, wv, w, sw0, sw1, m, n, k, u)
    else:
        for i in range(m):
            for j in range(n):
                total = 0.0
                for p in range(k):
                    for q in range(u):
                        total += xv[x + (i + p) * sx0 + (j + q) * sx1] * wv[w + p * sw0 + q * sw1]
                zv[z + i * sz0 + j * sz1] += total


def gather_dots(zv, z, sz0, sz1, xv, x, sx0, wv, w, sw0, m, n, k, u):
    """Do that where the rows of w are contiguous and long, so that each entry of z is a dot product."""
    whole = n - n % 4
    for i in range(m):
        for p in range(k):
            row = x + (i + p) * sx0
            for j in range(whole // 4):
                first = z + i * sz0 + 4 * j * sz1
                lane_dots(zv, first, sz1, xv, row + 4 * j, 1, wv, w + p * sw0, u, 1.0)
            for j in range(whole, n):
                total = 0.0
                for q in range(u):
                    total += xv[row + j + q] * wv[w + p * sw0 + q]
                zv[z + i * sz0 + j * sz1] += total


def gather_rows(zv, z, sz0, xv, x, sx0, wv, w, sw0, sw1, m, n, k, u):
    """Do that where the rows of z are contiguous, so that entries of w are multiplied by whole rows."""
    terms = k * u
    for i in range(m):
        row = z + i * sz0
        corner = x + i * sx0
        p = 0
        q = 0
        t = 0
        while t + 4 <= terms:  # Each pass takes four, so that z is loaded and stored a quarter as often.
            w0 = wv[w + p * sw0 + q * sw1]
            x0 = corner + p * sx0 + q
            q += 1
            if q == u:
                q = 0
                p += 1
            w1 = wv[w + p * sw0 + q * sw1]
            x1 = corner + p * sx0 + q
            q += 1
            if q == u:
                q = 0
                p += 1
            w2 = wv[w + p * sw0 + q * sw1]
            x2 = corner + p * sx0 + q
            q += 1
            if q == u:
                q = 0
                p += 1
            w3 = wv[w + p * sw0 + q * sw1]
            x3 = corner + p * sx0 + q
            q += 1
            if q == u:
                q = 0
                p += 1
            for j in parallel(n):
                zv[row + j] += (w0 * xv[x0 + j] + w1 * xv[x1 + j]) + (w2 * xv[x2 + j] + w3 * xv[x3 + j])
            t += 4
        while t < terms:
            w0 = wv[w + p * sw0 + q * sw1]
            x0 = corner + p * sx0 + q
            q += 1
            if q == u:
                q = 0
                p += 1
            for j in parallel(n):
                zv[row + j] += w0 * xv[x0 + j]
            t += 1


def spread_products(xv, x, sx0, sx1, zv, z, sz0, sz1, wv, w, sw0, sw1, m, n, k, u):
    """``x[i+p, j+q] += z[i, j] * w[p, q]``: the transpose of `gather_products`."""
    if sx1 == 1 and sw1 == 1 and u > n:
        spread_rows(xv, x, sx0, wv, w, sw0, zv, z, sz0, sz1, k, u, m, n)
    elif sx1 == 1 and sz1 == 1:
        spread_rows(xv, x, sx0, zv, z, sz0, wv, w, sw0, sw1, m, n, k, u)
    else:
        for i in range(m):
            for j in range(n):
                gz = zv[z + i * sz0 + j * sz1]
                for p in range(k):
                    for q in range(u):
                        xv[x + (i + p) * sx0 + (j + q) * sx1] += gz * wv[w + p * sw0 + q * sw1]


def spread_rows(xv, x, sx0, zv, z, sz0, wv, w, sw0, sw1, m, n, k, u):
    """Do that where the rows of x and z are contiguous, and those of z the longer ones."""
    for i in range(m):
        row = z + i * sz0
        for p in range(k):
            target = x + (i + p) * sx0
            q = 0
            while q + 4 <= u and n > 8:  # Each pass takes four, between the places that do not get all four.
                first = w + p * sw0 + q * sw1
                w0 = wv[first]
                w1 = wv[first + sw1]
                w2 = wv[first + 2 * sw1]
                w3 = wv[first + 3 * sw1]
                xv[target + q] += w0 * zv[row]
                xv[target + q + 1] += w0 * zv[row + 1] + w1 * zv[row]
                xv[target + q + 2] += (w0 * zv[row + 2] + w1 * zv[row + 1]) + w2 * zv[row]
                inner = target + q + 3
                for j in parallel(n - 3):
                    xv[inner + j] += (w0 * zv[row + 3 + j] + w1 * zv[row + 2 + j]) + (
                        w2 * zv[row + 1 + j] + w3 * zv[row + j]
                    )
                last = row + n - 1
                end = inner + n - 3
                xv[end] += (w1 * zv[last] + w2 * zv[last - 1]) + w3 * zv[last - 2]
                xv[end + 1] += w2 * zv[last] + w3 * zv[last - 1]
                xv[end + 2] += w3 * zv[last]
                q += 4
            while q < u:
                w0 = wv[w + p * sw0 + q * sw1]
                for j in parallel(n):
                    xv[target + q + j] += w0 * zv[row + j]
                q += 1


def interacting(sets, operands):
    """All cells of one operand interact with all of the other one."""
    x, y = operands
    return [] if x is None or y is None else [pairs(sets.whole(x), sets.whole(y))]


SIZES = (
    ((1, 9), (1, 3)),
    ((5, 20), (3, 5)),
    ((4, 4), (4, 4)),
    ((3, 13), (1, 11)),
    ((2, 9), (2, 1)),
    ((7, 2), (3, 1)),
)


@array_op(
    "correlation",
    "(f,h),(k,u)->(m,n)",
    bilinear=True,
    cases=SIZES,
    extents="m + k == f + 1 and n + u == h + 1",
    one_module=True,
    integers="sum",
)
class Correlation:
    """``z[i, j] = sum of x[i+p, j+q] * w[p, q]`` over the entries of ``w``, wherever these fit into x."""

    oracle = correlated
    depends, interacts = dense, interacting

    def forward(v, o, a, b, k, u, m, n, so0, so1, sa0, sa1, sb0, sb1):
        for i in range(m):
            for j in parallel(n):
                v[o + i * so0 + j * so1] = 0.0
        gather_products(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, u)
        return DONE

    def reverse(v, g, o, a, b, k, u, m, n, so0, so1, sa0, sa1, sb0, sb1, need_a, need_b):
        if need_a:
            spread_products(g, a, sa0, sa1, g, o, so0, so1, v, b, sb0, sb1, m, n, k, u)
        if need_b:
            gather_products(g, b, sb0, sb1, v, a, sa0, sa1, g, o, so0, so1, k, u, m, n)

    def pullback(e, ct, z, operands, need):
        x, w = operands
        (f, h), (k, u) = x.dims[-2:], w.dims[-2:]
        return (
            e.op("convolution", ct, w, f=f, h=h) if need[0] else None,
            e.op("correlation", x, ct, m=k, n=u) if need[1] else None,
        )


@array_op(
    "convolution",
    "(m,n),(k,u)->(f,h)",
    bilinear=True,
    cases=SIZES,
    extents="f + 1 == m + k and h + 1 == n + u",
    one_module=True,
    integers="sum",
)
class Convolution:
    """``z[i+p, j+q]`` is the sum of all ``x[i, j] * w[p, q]``."""

    oracle = convolved
    depends, interacts = dense, interacting

    def forward(v, o, a, b, m, n, k, u, f, h, so0, so1, sa0, sa1, sb0, sb1):
        for i in range(f):
            for j in parallel(h):
                v[o + i * so0 + j * so1] = 0.0
        spread_products(v, o, so0, so1, v, a, sa0, sa1, v, b, sb0, sb1, m, n, k, u)
        return DONE

    def reverse(v, g, o, a, b, m, n, k, u, so0, so1, sa0, sa1, sb0, sb1, need_a, need_b):
        if need_a:
            gather_products(g, a, sa0, sa1, g, o, so0, so1, v, b, sb0, sb1, m, n, k, u)
        if need_b:
            gather_products(g, b, sb0, sb1, g, o, so0, so1, v, a, sa0, sa1, k, u, m, n)

    def pullback(e, ct, z, operands, need):
        x, w = operands
        (m, n), (k, u) = x.dims[-2:], w.dims[-2:]
        return (
            e.op("correlation", ct, w, m=m, n=n) if need[0] else None,
            e.op("correlation", ct, x, m=k, n=u) if need[1] else None,
        )
