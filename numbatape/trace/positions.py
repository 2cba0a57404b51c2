"""Traced positions whose numbers are needed."""

from __future__ import annotations

from ..tape.tape import CONSTANT
from .array import TracedArray


def fixed(k):
    """Return an index with its traced positions as numbers, which become guards."""
    if type(k) is not TracedArray:
        return k
    trace = k._trace
    if k._level == CONSTANT:
        trace.pin_constants(k)
        return k._value
    flat = k.reshape(-1)
    for n in range(flat.size):
        trace.guard(flat[n], "bool" if k.dtype.kind == "b" else "int", flat._value[n].item())
    return k._value
