"""``float(x)`` and ``int(x)`` in copies of the user's functions: sizes stay symbolic.

The names mean types, too (``dtype=float``, ``isinstance(n, int)``), so only the instructions that call them
refer to these functions (`numbatape.usercode.bytecode.with_calls`).
"""

from __future__ import annotations

from ..tape.tape import CONSTANT
from ..trace import size_fractions
from ..trace.array import TracedArray, new_traced
from ..trace.integers import TracedInteger


def as_float(*args):
    """``float(x)``; that of a size, or of a number that depends on sizes only, needs no guard."""
    if len(args) == 1:
        x = args[0]
        if type(x) is TracedInteger:
            return x.as_float()
        if type(x) is TracedArray and _depends_on_sizes(x):
            return new_traced(x._trace, float(x._value), x._id, x._level, x._family)
    return float(*args)


def as_int(*args, **kwargs):
    """``int(x)``; that of a size, or of a fraction of a size, is a size."""
    if len(args) == 1 and not kwargs:
        size = size_fractions.truncated(args[0])
        if size is not None:
            return size
    return int(*args, **kwargs)


def _depends_on_sizes(x: TracedArray) -> bool:
    """Whether a number is a constant that nothing but sizes decides."""
    if x._level != CONSTANT or not isinstance(x._value, float) or x._trace.of_sizes is None:
        return False
    return x._trace.of_sizes.sizes_behind(x._id) is not None


CALLS = {"float": as_float, "int": as_int}
