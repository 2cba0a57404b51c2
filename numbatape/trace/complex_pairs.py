"""Complex leaves of pytrees: two real leaves, the real and the imaginary part.

For ``pytrees.flatten`` a complex value is an inner node, so that all leaves of a result are real. Putting a
tree together again makes complex numbers from the parts that are given: traced arrays, arrays, numbers,
whole trees of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import complex_parts
from .array import TracedArray
from .complex_array import TracedComplex
from .operands import values_of
from .pytrees import LEAF, flatten, mapped, register, unflatten
from .shared_inputs import note_pair


class Pair:
    """Two leaves that stand for one complex number or array."""

    __slots__ = ("im", "re")

    def __init__(self, re, im):
        self.re = re
        self.im = im

    def __repr__(self):
        return f"Pair({self.re!r}, {self.im!r})"


def join(re, im):
    """Return the complex array or number with two real parts; a `Pair` of other parts.

    A part that is None counts as zero; two of them give None. Trees of one structure give a tree.
    """
    if re is None or im is None:
        return re if im is None else join(np.zeros_like(im), im)
    if type(re) is TracedArray or type(im) is TracedArray:
        value = _complex(values_of(re), values_of(im))
        if isinstance(value, np.ndarray) and not getattr(values_of(re), "flags", value.flags).writeable:
            value.flags.writeable = False  # the caller's arrays are read-only, too
        z = complex_parts.make(re, im, value)
        if type(re) is type(im):
            note_pair(z._trace, re, im, z)
        return z
    if _is_number(re) and _is_number(im):
        return _complex(re, im)
    if flatten(re)[1] is not LEAF:
        return mapped(join, re, im)
    return Pair(re, im)


def _is_number(x) -> bool:
    return isinstance(x, (np.ndarray, np.generic, float, int)) and not isinstance(x, str)


def _complex(re, im):
    """Return ``re + i im``; arithmetic would mix infinities into the other part."""
    if re.__class__ is float and im.__class__ is float:
        return complex(re, im)
    if not isinstance(re, np.ndarray) and not isinstance(im, np.ndarray):
        number = complex(re, im)
        return np.result_type(re, im, np.complex64).type(number)
    result = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.result_type(re, im, np.complex64))
    result.real, result.imag = re, im
    return result


register(Pair, lambda pair: (pair.re, pair.im), lambda parts: join(*parts))


# ---- plain trees


def holds_complex(tree) -> bool:
    """Whether a result, recorded or traced, has complex numbers among its leaves."""

    def known(leaf):
        return leaf.__class__ in (Pair, TracedComplex) or is_complex(leaf)

    return any(map(known, flatten(tree, known)[0]))


def is_complex(x) -> bool:
    """Whether a leaf is a plain complex number or array."""
    return isinstance(x, (complex, np.complexfloating)) or (isinstance(x, np.ndarray) and x.dtype.kind == "c")


def split(x) -> tuple:
    """Return the real and the imaginary part of a plain number or array."""
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.real).reshape(x.shape), _imaginary(x)
    return (x.real, x.imag) if isinstance(x, (complex, np.complexfloating)) else (x, 0.0 * x)


def _imaginary(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.imag).reshape(x.shape) if x.dtype.kind == "c" else np.zeros_like(x)


def opened(tree):
    """Return a tree with plain complex leaves as pairs."""
    leaves, structure = flatten(tree)
    if not any(map(is_complex, leaves)):
        return tree
    return unflatten(structure, [Pair(*split(x)) if is_complex(x) else x for x in leaves])


def flatten_like(tree, given) -> list:
    """Return one real leaf of ``given`` for each real leaf of ``tree``.

    Where the tree has a pair or a traced complex array, ``given`` may have anything complex or real.

    Raises
    ------
    ValueError
        If the structures differ.
    """
    whole, structure = flatten(tree, lambda x: type(x) is Pair or type(x) is TracedComplex)
    result: list[Any] = []
    for leaf, part in zip(whole, structure.flatten_up_to(given), strict=True):
        if type(leaf) is Pair or type(leaf) is TracedComplex:
            result += halves_of(part)
        else:
            result.append(part)
    return result


def halves_of(part) -> tuple:
    """Return the parts of a direction or cotangent that belongs to something complex."""
    if type(part) is TracedComplex:
        return part.real, part.imag
    if type(part) is Pair:
        return part.re, part.im
    if type(part) is TracedArray:
        return part, np.zeros_like(part)
    if part is None:
        return None, None
    return split(
        part if isinstance(part, (np.ndarray, np.generic, complex, float, int)) else np.asarray(part)
    )
