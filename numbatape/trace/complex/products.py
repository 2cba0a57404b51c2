"""Products of complex arrays: by four products of parts, fewer where a part is zero."""

from __future__ import annotations

import itertools

import numpy as np

from ..functions.common import plain
from . import arrays
from .functions import HANDLED, implements
from .ufuncs import RULES


def multilinear(product, operands) -> list:
    """Return ``[real, imaginary]`` of a product that is linear in each operand.

    Parameters
    ----------
    product
        The product of real operands, traced or plain.
    operands
        (real, imaginary) pairs.
    """
    sums: list = [None, None]
    choices = [[(k, x) for k, x in enumerate(pair) if x is not None] for pair in operands]
    for terms in itertools.product(*choices):
        turns = sum(k for k, _ in terms)  # the power of i
        term = product(*(x for _, x in terms))
        known = sums[turns % 2]
        if turns % 4 >= 2:
            sums[turns % 2] = -term if known is None else known - term
        else:
            sums[turns % 2] = term if known is None else known + term
    return sums


def _conjugated(pairs, place: int | None) -> list:
    pairs = list(pairs)
    if place is not None and pairs[place][1] is not None:
        pairs[place] = pairs[place][0], -pairs[place][1]
    return pairs


def bilinear(function, conjugate: int | None = None):
    """Register a product of two arrays, one of which may be conjugated."""
    if isinstance(function, np.ufunc):
        RULES[function] = lambda a, b: tuple(multilinear(function, _conjugated((a, b), conjugate)))
        return

    def call(a, b, *args, **kwargs):
        value = function(*plain((a, b, *args)), **kwargs)
        trace = arrays.trace_of(a, b)
        pairs = _conjugated([arrays.halves(x, trace) for x in (a, b)], conjugate)
        return arrays.make(*multilinear(lambda x, y: function(x, y, *args, **kwargs), pairs), value)

    HANDLED[function] = call


for _function in (
    *(np.dot, np.inner, np.outer, np.linalg.outer, np.matmul, np.linalg.matmul, np.tensordot),
    *(np.linalg.tensordot, np.kron, np.cross, np.linalg.cross, np.convolve),
):
    bilinear(_function)
for _function in (np.vdot, np.vecdot, np.linalg.vecdot):
    bilinear(_function, conjugate=0)
bilinear(np.correlate, conjugate=1)
if hasattr(np, "matvec"):  # NumPy 2.2
    bilinear(np.matvec)
    bilinear(np.vecmat, conjugate=0)


@implements(np.einsum)
def einsum(*operands, **kwargs):
    """An operand has one part or two: at most ``2**k`` real products of k operands."""
    value = np.einsum(*plain(operands), **plain(kwargs))
    trace = arrays.trace_of(*operands)
    if isinstance(operands[0], str):
        places = range(1, len(operands))
    else:  # operand, labels, operand, labels, ..., labels
        places = range(0, len(operands) - 1, 2)

    def product(*parts):
        filled = list(operands)
        for k, part in zip(places, parts, strict=True):
            filled[k] = part
        return np.einsum(*filled, **kwargs)

    return arrays.make(*multilinear(product, [arrays.halves(operands[k], trace) for k in places]), value)


@implements(np.linalg.multi_dot)
def multi_dot(arrays, *, out=None):
    """From left to right: NumPy's best order is a matter of speed alone."""
    result = arrays[0]
    for matrix in arrays[1:]:
        result = np.dot(result, matrix)
    return result
