"""The discrete Fourier transform: mixed radix 2, 3, 4, 5, 7, and Bluestein's algorithm for other lengths.

The last operand is a table for a length: factors, roots of unity, Bluestein's chirp. `plan_of` and
`real_plan_of` make it while tracing, and the ops ``fft_table`` and ``rfft_table`` when the tape runs, where
the length is not known before.
"""

import numpy as np

from ..jit.language import parallel
from .dependencies import dense
from .fourier import forward_turns, reverse_turns
from .fourier_tables import (
    plan_of,
    put_real_table,
    put_table,
    real_plan_of,
    roots,
    size_of_plan,
    size_of_real_plan,
)
from .real_fourier import add_sequences, add_spectra, fits_real, put_sequences, put_spectra
from .status import DONE, INDEX
from .table import array_op

SEVERAL = 4096  # the largest length of which several are transformed at once: more would leave the cache


def transform_pair(x, y, table=None):
    """Return the transform of ``x + iy`` as two rows; linear in x and y, of any dtype."""
    n = len(x)
    w = roots(np.outer(np.arange(n), np.arange(n)), n)
    return np.stack([w.real @ x - w.imag @ y, w.real @ y + w.imag @ x])


def with_plan(rng, shapes):
    n = shapes[0]
    return rng.normal(size=n), rng.normal(size=n), plan_of(*n)


SIZES = (1, 6, 11, 20, 42)


# A table that the tape computes has room for that of any length n, so the kernel can't fail. Bluestein's
# algorithm needs stages of 2*n - 1 entries, and the next product of twos, threes, fives and sevens is at most
# 1.25 times as long. Four times it, the chirp's 2*n parts and 64 factors are at most 12*n + 61 cells.
ROOM = 12
MORE = 64


def padded_plan(ones):
    """Return the table for as many entries as there are, followed by zeros."""
    table = plan_of(len(ones)) if len(ones) else np.zeros(0)
    return np.pad(table, (0, ROOM * len(ones) + MORE - len(table)))


@array_op(
    "fft_table",
    "(n)->(t)",
    padded_plan,
    cases=tuple(((n,),) for n in (*SIZES, 30, 60, 77)),
    extents=f"t == {ROOM}*n + {MORE}",
    scratch="t",
    wide=True,
)
class FftTable:
    """The table of a length that the tape does not know before it runs: that of the operand."""

    def forward(v, o, n, t, s):
        for i in parallel(t):
            v[o + i] = 0.0
        if n > 0:
            put_table(v, o, n, s)
        return DONE


@array_op(
    "fft",
    "(n),(n),(t)->(p,n)",
    transform_pair,
    scratch="4*n+t",
    index="c",
    linear=True,
    cases=tuple(((n,), (n,), (size_of_plan(n),)) for n in SIZES),
    make=with_plan,
    extents="p == 2",
    fallible=True,
    one_module=True,
    beside=f"turns >= 4 and step_c == 0 and n <= {SEVERAL}",
)
class Fft:
    """The transform of ``a + ib``: a row of real parts and one of imaginary parts.

    With the parts exchanged in operands and result it is the inverse times n, which is the adjoint.
    """

    depends = dense

    def forward(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s):
        return forward_turns(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s, 1, 0, 0, 0)

    def reverse(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b):
        reverse_turns(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b, 1, 0, 0, 0)

    def forward_across(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s, turns, step_o, step_a, step_b):
        return forward_turns(v, d, o, a, b, c, n, t, sa0, sb0, sc0, s, turns, step_o, step_a, step_b)

    def reverse_across(
        v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b, turns, step_o, step_a, step_b
    ):
        reverse_turns(v, g, d, o, a, b, c, n, sa0, sb0, sc0, s, need_a, need_b, turns, step_o, step_a, step_b)

    def pullback(e, ct, z, operands, need):
        """The inverse transform times n: the same one with real and imaginary parts exchanged."""
        back = e.op("fft", e.entry(ct, 1, -2), e.entry(ct, 0, -2), operands[2], p=2)
        return e.entry(back, 1, -2), e.entry(back, 0, -2), None


# ---- of real numbers


def spectrum(x, table):
    """Return the first half of the transform of real numbers as two rows, its entries weighted."""
    weight = weights(len(x), table)
    both = transform_pair(x, np.zeros_like(x))
    return both[:, : len(weight)] * weight


def sequence(re, im, table):
    """Return the adjoint of `spectrum`; behind the two factors of a table for an even number stands 1."""
    h = len(re)
    n = 2 * h - 2 if h > 1 and table[2] == 1.0 else 2 * h - 1
    weight = weights(n, table)
    w = roots(np.outer(np.arange(n), np.arange(h)), n)
    return w.real @ (weight * re) + w.imag @ (weight * im)


def weights(n: int, table) -> np.ndarray:
    weight = np.full(n // 2 + 1, table[1])
    weight[0] = table[0]
    if n % 2 == 0:
        weight[-1] = table[0]
    return weight


def with_real_plan(rng, shapes):
    (n,), _ = shapes
    return rng.normal(size=n), real_plan_of(n, 0.5, 0.75)


def with_spectrum(rng, shapes):
    (h,), _, (size,) = shapes
    n = 2 * h - 1 if size_of_real_plan(2 * h - 1) == size else 2 * h - 2
    return rng.normal(size=h), rng.normal(size=h), real_plan_of(n, 0.5, 0.75)


def padded_real_plan(ones, factors):
    n = len(ones)
    table = real_plan_of(n, *factors) if n else np.zeros(0)
    return np.pad(table, (0, ROOM * n + MORE - len(table)))


@array_op(
    "rfft_table",
    "(n),(k)->(t)",
    padded_real_plan,
    cases=tuple(((n,), (2,)) for n in (*SIZES, 30, 60, 77)),
    extents=f"k == 2 and t == {ROOM}*n + {MORE}",
    scratch="t",
    index="b",
    wide=True,
)
class RealFftTable:
    """The table for as many real numbers as the first operand has, with the factors of the second."""

    def forward(v, d, o, n, t, b, sb0, s):
        for i in parallel(t):
            v[o + i] = 0.0
        if n > 0:
            put_real_table(v, o, n, d[b], d[b + sb0], s)
        return DONE


@array_op(
    "rfft",
    "(n),(t)->(p,h)",
    spectrum,
    scratch="4*n+t",
    index="b",
    linear=True,
    cases=tuple(((n,), (size_of_real_plan(n),)) for n in SIZES),
    make=with_real_plan,
    extents="p == 2",
    fallible=True,
    one_module=True,
    beside=f"turns >= 4 and step_b == 0 and n <= {SEVERAL}",
)
class RealFft:
    """The first half of the transform of real numbers: a row of real parts and one of imaginary parts.

    Outer and inner entries are multiplied by the factors that the table begins with.
    """

    depends = dense

    def forward(v, d, o, a, b, h, n, t, sa0, sb0, s):
        if not fits_real(d, b, sb0, n, h, t):
            return INDEX
        put_spectra(v, d, o, a, b, h, n, sa0, sb0, s, 1, 0, 0)
        return DONE

    def reverse(v, g, d, o, a, b, h, n, sa0, sb0, s):
        add_sequences(v, g, d, o, a, b, h, n, sa0, sb0, s, 1, 0, 0)

    def forward_across(v, d, o, a, b, h, n, t, sa0, sb0, s, turns, step_o, step_a):
        if not fits_real(d, b, sb0, n, h, t):
            return INDEX
        put_spectra(v, d, o, a, b, h, n, sa0, sb0, s, turns, step_o, step_a)
        return DONE

    def reverse_across(v, g, d, o, a, b, h, n, sa0, sb0, s, turns, step_o, step_a):
        add_sequences(v, g, d, o, a, b, h, n, sa0, sb0, s, turns, step_o, step_a)

    def pullback(e, ct, z, operands, need):
        x, table = operands
        return e.op("irfft", e.entry(ct, 0, -2), e.entry(ct, 1, -2), table, n=x.dims[-1]), None


@array_op(
    "irfft",
    "(h),(h),(t)->(n)",
    sequence,
    scratch="4*n+t",
    index="c",
    linear=True,
    cases=tuple(((n // 2 + 1,), (n // 2 + 1,), (size_of_real_plan(n),)) for n in SIZES),
    make=with_spectrum,
    fallible=True,
    one_module=True,
    beside=f"turns >= 4 and step_c == 0 and n <= {SEVERAL}",
)
class InverseRealFft:
    """The adjoint of ``rfft`` with the same table, which is the inverse with the factors 1/n and 2/n."""

    depends = dense

    def forward(v, d, o, a, b, c, h, n, t, sa0, sb0, sc0, s):
        if not fits_real(d, c, sc0, n, h, t):
            return INDEX
        put_sequences(v, d, o, a, b, c, n, sa0, sb0, sc0, s, 1, 0, 0, 0)
        return DONE

    def reverse(v, g, d, o, a, b, c, h, n, sa0, sb0, sc0, s, need_a, need_b):
        add_spectra(v, g, d, o, a, b, c, h, n, sa0, sb0, sc0, s, need_a, need_b, 1, 0, 0, 0)

    def forward_across(v, d, o, a, b, c, h, n, t, sa0, sb0, sc0, s, turns, step_o, step_a, step_b):
        if not fits_real(d, c, sc0, n, h, t):
            return INDEX
        put_sequences(v, d, o, a, b, c, n, sa0, sb0, sc0, s, turns, step_o, step_a, step_b)
        return DONE

    def reverse_across(
        v, g, d, o, a, b, c, h, n, sa0, sb0, sc0, s, need_a, need_b, turns, step_o, step_a, step_b
    ):
        add_spectra(
            v, g, d, o, a, b, c, h, n, sa0, sb0, sc0, s, need_a, need_b, turns, step_o, step_a, step_b
        )

    def pullback(e, ct, z, operands, need):
        back = e.op("rfft", ct, operands[2], p=2, h=operands[0].dims[-1])
        return e.entry(back, 0, -2), e.entry(back, 1, -2), None
