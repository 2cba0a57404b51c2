"""Products of complex arrays by four products of parts, or fewer where a part is zero."""

from __future__ import annotations

import itertools

import numpy as np

from ...trace import complex_parts
from ...trace.operands import lift, values_of
from ..function_tables import COMPLEX_UFUNCS, form
from .complex_arithmetic import without_sign


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
        turns = sum(k for k, _ in terms)  # the term has this power of i as a factor
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


def _bilinear(function, conjugate: int | None):
    """Return the implementation of a product of two arrays, one of which may be conjugated."""

    def call(a, b, *args, **kwargs):
        value = function(*values_of((a, b, *args)), **kwargs)
        trace = complex_parts.trace_of(a, b)
        pairs = _conjugated([complex_parts.halves(x, trace) for x in (a, b)], conjugate)
        return complex_parts.make(*multilinear(lambda x, y: function(x, y, *args, **kwargs), pairs), value)

    return call


@form
def bilinear(function):
    """Return the implementation of a product of two arrays."""
    return _bilinear(function, None)


@form
def conjugating_first(function):
    """Return the implementation of a product whose first operand is conjugated."""
    return _bilinear(function, 0)


@form
def conjugating_second(function):
    """Return the implementation of a product whose second operand is conjugated."""
    return _bilinear(function, 1)


def _implement_product(ufunc, conjugate: int | None = None) -> None:
    """Register the implementation of a ufunc that is a product of two arrays."""

    def product(*operands):
        pairs = [[without_sign(part) for part in pair] for pair in operands]
        return tuple(multilinear(ufunc, _conjugated(pairs, conjugate)))

    COMPLEX_UFUNCS.register((ufunc,), product)


_implement_product(np.matmul)
_implement_product(np.vecdot, conjugate=0)
if hasattr(np, "matvec"):  # NumPy 2.2
    _implement_product(np.matvec)
    _implement_product(np.vecmat, conjugate=0)


def einsum(*operands, **kwargs):
    """An operand has one part or two: at most ``2**k`` real products of k operands."""
    value = np.einsum(*values_of(operands), **values_of(kwargs))
    trace = complex_parts.trace_of(*operands)
    if isinstance(operands[0], str):
        places = range(1, len(operands))
    else:  # operand, labels, operand, labels, ..., labels
        places = range(0, len(operands) - 1, 2)

    def product(*parts):
        filled = list(operands)
        for k, part in zip(places, parts, strict=True):
            filled[k] = part
        return np.einsum(*filled, **kwargs)

    dtype = kwargs.pop("dtype", None)
    if dtype is not None:
        operands = list(operands)
        for k in places:
            operands[k] = np.astype(lift(trace, operands[k]), dtype)
    return complex_parts.make(
        *multilinear(product, [complex_parts.halves(operands[k], trace) for k in places]), value
    )


def multi_dot(arrays, *, out=None):
    """Multiply from left to right; NumPy's choice of another order only affects speed."""
    np.linalg.multi_dot(values_of(arrays))  # raises NumPy's errors
    result = arrays[0]
    for matrix in arrays[1:]:
        result = np.dot(result, matrix)
    return result
