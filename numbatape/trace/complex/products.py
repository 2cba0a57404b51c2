"""Products of complex arrays: by four products of parts, fewer where a part is zero."""

from __future__ import annotations

import itertools

import numpy as np

from ..functions.common import plain
from . import arrays
from .functions import HANDLED


def _multilinear(product, operands, value):
    """Return a product that is linear in each operand, of (real, imaginary) pairs.

    Parameters
    ----------
    product
        The product of real operands, traced or plain.
    """
    sums: list = [None, None]  # real and imaginary part
    choices = [[(k, x) for k, x in enumerate(pair) if x is not None] for pair in operands]
    for terms in itertools.product(*choices):
        turns = sum(k for k, _ in terms)  # the power of i
        term = product(*(x for _, x in terms))
        place, sign = turns % 2, -1.0 if turns % 4 >= 2 else 1.0
        if sums[place] is None:
            sums[place] = term if sign > 0 else -term
        else:
            sums[place] = sums[place] + term if sign > 0 else sums[place] - term
    if not any(arrays.is_traced(x) for x in sums):
        return value
    return arrays.make(*sums, value)


def _conjugated(pair):
    return pair[0], None if pair[1] is None else -pair[1]


def bilinear(function, conjugate: int | None = None):
    """Register a product of two arrays, one of which may be conjugated."""

    def call(a, b, *args, **kwargs):
        value = function(*plain((a, b, *args)), **kwargs)
        trace = arrays.trace_of(a, b)
        pairs = [arrays.halves(x, trace) for x in (a, b)]
        if conjugate is not None:
            pairs[conjugate] = _conjugated(pairs[conjugate])
        return _multilinear(lambda x, y: function(x, y, *args, **kwargs), pairs, value)

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


def einsum(*operands, **kwargs):
    """An operand a term, each real or a sum of two: at most ``2**k`` real products."""
    value = np.einsum(*plain(operands), **plain(kwargs))
    trace = arrays.trace_of(*operands)
    if isinstance(operands[0], str):
        places = range(1, len(operands))
    else:  # operand, labels, operand, labels, ..., labels
        places = range(0, len(operands) - 1, 2)
    pairs = [arrays.halves(operands[k], trace) for k in places]

    def product(*parts):
        filled = list(operands)
        for k, part in zip(places, parts, strict=True):
            filled[k] = part
        return np.einsum(*filled, **kwargs)

    return _multilinear(product, pairs, value)


HANDLED[np.einsum] = einsum


def multi_dot(arrays_, *, out=None):
    """From left to right; NumPy's best order is a matter of speed alone."""
    result = arrays_[0]
    for matrix in arrays_[1:]:
        result = np.dot(result, matrix)
    return result


HANDLED[np.linalg.multi_dot] = multi_dot

# The ufuncs among them come by the other protocol.
from .ufuncs import RULES  # noqa: E402


def _ufunc(ufunc, conjugate: int | None = None):
    def rule(a, b):
        pairs = [a, b]
        if conjugate is not None:
            pairs[conjugate] = _conjugated(pairs[conjugate])
        sums = _parts(ufunc, pairs)
        return tuple(sums)

    RULES[ufunc] = rule


def _parts(ufunc, pairs) -> list:
    sums: list = [None, None]
    for (j, x), (k, y) in itertools.product(*(enumerate(pair) for pair in pairs)):
        if x is not None and y is not None:
            term = ufunc(x, y)
            place = (j + k) % 2
            if sums[place] is None:
                sums[place] = -term if j + k == 2 else term
            else:
                sums[place] = sums[place] - term if j + k == 2 else sums[place] + term
    return sums
