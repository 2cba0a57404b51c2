"""The discrete Fourier transform: mixed radix 2, 3, 4, 5, and Bluestein's algorithm for other lengths.

The third operand is a table for a length: factors, roots of unity, Bluestein's chirp. `plan_of` makes it
while tracing, and the op ``fft_table`` when the tape runs, where the length is not known before.
"""

import functools

import numpy as np

from ..jit.language import parallel
from .dependencies import dense
from .fourier import forward_turns, reverse_turns
from .fourier_tables import put_table
from .status import DONE
from .table import array_op

RADICES = (4, 2, 3, 5)
SEVERAL = 4096  # the largest length of which several are transformed at once: more would leave the cache


def roots(k, n: int) -> np.ndarray:
    """Return ``exp(-2 pi i k/n)`` for integers k, each part within an ulp: turns are reduced exactly."""
    k = np.asarray(k, np.int64) % n
    quarter = (8 * k + n) // (2 * n)
    angle = 0.5 * np.pi * ((4 * k - quarter * n) / n)
    return np.exp(-1j * angle) * np.array([1, -1j, -1, 1j])[quarter % 4]


def factors_of(n: int) -> list[int] | None:
    """Return radices whose product is n, None if there are none."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found if n == 1 else None


def smooth(n: int) -> int:
    """Return the first number from n on whose prime factors are 2, 3 and 5."""
    while factors_of(n) is None:
        n += 1
    return n


def stages_of(n: int) -> tuple[int, list[int]]:
    """Return the length of the stages for length n, and its factors."""
    length = n if factors_of(n) is not None else smooth(2 * n - 1)
    return length, factors_of(length) or []


def size_of_plan(n: int) -> int:
    """Return how many numbers the table for length n has."""
    length, factors = stages_of(n)
    return 2 + len(factors) + 2 * (length - 1) + (2 * (n + length) if length != n else 0)


def _pairs(z) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).reshape(-1)


@functools.lru_cache(maxsize=64)
def plan_of(n: int) -> np.ndarray:
    """Return the table for length n.

    ``[length of the stages, number of factors, factors..., roots of each stage...]``, and for
    Bluestein's algorithm (length of the stages other than n) the chirp and its transform.
    """
    length, factors = stages_of(n)
    parts = [np.array([length, len(factors), *factors], float)]
    size = length
    for radix in factors:
        size //= radix
        parts.append(_pairs(roots(np.outer(np.arange(size), np.arange(1, radix)), size * radix).reshape(-1)))
    if length != n:
        chirp = roots(np.arange(n) ** 2, 2 * n)
        kernel = np.zeros(length, complex)
        kernel[:n] = chirp.conj()
        kernel[length - n + 1 :] = chirp[:0:-1].conj()
        parts += [_pairs(chirp), _pairs(np.fft.fft(kernel) / length)]
    table = np.concatenate(parts)
    table.flags.writeable = False
    return table


def transform_pair(x, y, table=None):
    """Return the transform of ``x + iy`` as two rows; linear in x and y, of any dtype."""
    n = len(x)
    w = roots(np.outer(np.arange(n), np.arange(n)), n)
    return np.stack([w.real @ x - w.imag @ y, w.real @ y + w.imag @ x])


def with_plan(rng, shapes):
    n = shapes[0]
    return rng.normal(size=n), rng.normal(size=n), plan_of(*n)


SIZES = (1, 6, 7, 20)


# A table that the tape computes has room for that of any length n, so the kernel can't fail. Bluestein's
# algorithm needs stages of 2*n - 1 entries, and the next product of twos, threes and fives is at most 1.25
# times as long. Four times this length, the chirp's 2*n parts and 64 factors are at most 12*n + 61 cells.
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
