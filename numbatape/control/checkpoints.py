"""Loops in segments, which need memory for the steps of one segment only."""

from __future__ import annotations

import math

import numpy as np

from ..errors import SpecError
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.axes import lengths
from ..trace.size_fractions import integer_root
from .argument_checks import whole


def in_segments(scan, f, init, xs, length, reverse: bool, checkpoint):
    """Do what a scan does, by a scan over segments, each of which is a scan over its steps.

    The body of the outer loop has a loop in it, so that a reverse sweep saves the carries between segments,
    and computes each segment again before it sweeps back through it.

    Parameters
    ----------
    scan
        Called as ``scan(f, init, xs, length)``; it knows the direction.
    length
        An int or a size. A trace holds for all lengths that leave a rest, or for all that leave none.
    checkpoint
        "sqrt", or the number of segments.
    """
    steps = _steps(length, checkpoint)
    segments, rest = divmod(length, steps)
    if segments < 2:
        return scan(f, init, xs, length)
    full = length - rest
    leaves, structure = pytrees.flatten(xs)

    def parts(cut):
        return pytrees.unflatten(structure, [None if x is None else cut(x) for x in leaves])

    heads = parts(lambda x: np.reshape(x[:full], (segments, steps, *shape_of(x)[1:])))
    tails = parts(lambda x: x[full:])

    def segment(carry, rows):
        return scan(f, carry, rows, steps)

    if reverse and rest:
        carry, last = scan(f, init, tails, rest)
        carry, stacked = scan(segment, carry, heads, segments)
    else:
        carry, stacked = scan(segment, init, heads, segments)
        carry, last = scan(f, carry, tails, rest) if rest else (carry, None)
    ys, kind = pytrees.flatten(stacked)
    ys = [None if y is None else np.reshape(y, (full, *shape_of(y)[2:])) for y in ys]
    if rest:
        ends = pytrees.leaves(last)
        ys = [None if y is None else np.concatenate([y, end]) for y, end in zip(ys, ends, strict=True)]
    return carry, pytrees.unflatten(kind, ys)


def _steps(length, checkpoint):
    """Return the number of steps of a segment."""
    if isinstance(checkpoint, str):
        if checkpoint != "sqrt":
            raise SpecError(f'nt.scan: checkpoint is "sqrt" or a number of segments, not {checkpoint!r}')
        return max(1, math.isqrt(length) if type(length) is int else integer_root(length))
    segments = whole("nt.scan", "checkpoint", checkpoint)
    if segments < 1:
        raise SpecError(f"nt.scan: checkpoint={segments} is no number of segments")
    return max(1, (length + segments - 1) // segments)


def shape_of(x) -> tuple:
    """Return the shape of an array; that of a traced one consists of sizes, which need no guard."""
    return lengths(x) if type(x) is TracedArray else np.shape(x)
