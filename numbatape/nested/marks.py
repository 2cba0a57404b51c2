"""Marks: copies of what is differentiated, before the stretch of the tape that is differentiated."""

from __future__ import annotations

import numpy as np

from ..emitter import instructions
from ..tape.tape import ACTIVE
from ..trace.array import TracedArray, deferred, is_deferred, new_traced
from ..trace.primitives import family_of, operand, value_of
from ..trace.trace import Trace
from .emitting import emitter_of


def mark(trace: Trace, leaf) -> TracedArray:
    """Return a copy of a leaf, a new traced value: what depends on it does not depend on the leaf."""
    known = not is_deferred(leaf)
    family = family_of(value_of(leaf)) if known else leaf._family
    out = instructions.copied(trace.tape, operand(trace, leaf, family), ACTIVE, trace.line())
    if not known:
        return deferred(trace, out)
    value = value_of(leaf)
    if isinstance(value, np.ndarray):
        trace.derivatives.know(out, value.copy())
        value = value.copy()  # The function's writes go to a copy, so that they do not change the leaf.
    else:
        trace.derivatives.know(out, value)
    return new_traced(trace, value, out, ACTIVE, family)


def zeros_like(trace: Trace, number: int) -> TracedArray:
    """Return a marked array of zeros in the dimensions of a value."""
    emitter = emitter_of(trace)
    emitter.line = trace.line()
    tape = trace.tape
    dims = tape.layout_of(number).dims
    return deferred(trace, emitter.zeros(dims, tape.family_of(number)).number)
