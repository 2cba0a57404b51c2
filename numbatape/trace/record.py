"""Record one run of a function: arguments in, tape out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..errors import UnsupportedOperationError
from ..tape import Tape
from ..tape.tape import ACTIVE
from . import randomness, scipy_bridge
from .array import TracedArray, new_traced
from .primitives import contiguous, family_of
from .trace import Trace


@dataclass(frozen=True)
class InputLeaf:
    """An argument leaf to trace: its value and whether it takes a gradient."""

    value: Any  # ndarray, NumPy scalar, or Python float (weakly typed)
    level: int


@dataclass(frozen=True)
class Recording:
    """What a trace gave.

    Attributes
    ----------
    tape
        The tape; its outputs are the traced leaves of the result, in order.
    result
        The function's result with each traced leaf replaced by its `Output` number.
    values
        The traced outputs' values, as NumPy computed them.
    pinned
        Whether the tape holds for the present contents of the constants only.
    """

    tape: Tape
    result: Any
    values: tuple
    levels: tuple[int, ...]
    pinned: bool


@dataclass(frozen=True)
class Output:
    """Stands for a traced output in a recorded result."""

    number: int


def record(function, leaves: list[InputLeaf], rebuild) -> Recording:
    """Run ``function`` on traced leaves and return what it did.

    Parameters
    ----------
    function
        The user's function.
    leaves
        Argument leaves that become inputs of the tape.
    rebuild
        Callable from the list of traced leaves to ``(args, kwargs)``.
    """
    trace = Trace()
    traced = []
    for leaf in leaves:
        value = leaf.value
        family = family_of(value)
        if isinstance(value, np.ndarray):
            # The tracer's own copy: whatever happens to the caller's array, or to ours, stays apart.
            value = value.copy()
            value.flags.writeable = False
        number = trace.tape.input(np.shape(value), family, leaf.level)
        traced.append(new_traced(trace, value, number, leaf.level, family))
    args, kwargs = rebuild(traced)
    try:
        with np.errstate(all="ignore"), randomness.forbidden():
            result = scipy_bridge.rebind(function)(*args, **kwargs)
            return _finish(trace, result)
    finally:
        trace.closed = True


def _finish(trace: Trace, result) -> Recording:
    outputs: list[int] = []
    values, levels = [], []

    def note(leaf):
        if leaf.__class__ is not TracedArray:
            return leaf
        if leaf._trace is not trace:
            raise UnsupportedOperationError("the function returned a value of another trace")
        kept = leaf._value
        outputs.append(contiguous(leaf)._id)
        values.append(kept)
        levels.append(leaf._level)
        return Output(len(outputs) - 1)

    noted = optree.tree_map(note, result, none_is_leaf=True, namespace="numbatape")
    tape = trace.tape.freeze(tuple(outputs))
    return Recording(tape, noted, tuple(values), tuple(levels), trace.pinned)


__all__ = ["ACTIVE", "InputLeaf", "Output", "Recording", "record"]
