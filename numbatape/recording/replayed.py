"""A derivative of a run that a call has made of a function, recorded from its tape without a second run.

A function that counts, writes to a file or draws items from a generator does something else in its next run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from ..nested.rule_pullbacks import note_sites
from ..ops import ROWS
from ..tape.code import Code
from ..tape.instruction import NONE
from ..tape.resume import resumed, without_guards
from ..trace import pytrees
from ..trace.array import new_traced
from ..trace.primitives import family_of
from ..trace.shared_inputs import own_copy
from ..trace.trace import CURRENT, Trace
from .record import finish
from .recorded import InputLeaf, Manner, Output, Recording


def replay(
    recording: Recording,
    outputs: Sequence[np.ndarray],
    dimensions: Sequence[int],
    leaves: Sequence[InputLeaf],
    directions: Collection[int],
    rebuild: Callable,
    manner: Manner,
) -> Recording:
    """Return what a derivative of a function does, given what the function has done.

    Parameters
    ----------
    recording
        The run of the function. A sweep over its tape has checked that its guards hold.
    outputs
        The numbers that the sweep has left, one array for each output of the tape.
    dimensions
        Those of all inputs in that sweep.
    leaves
        The function's argument leaves, and the directions among them.
    directions
        Which of the leaves are directions.
    rebuild, manner
        As for `numbatape.recording.record.record`; the manner names a transform.
    """
    assert manner.transform is not None
    tape = without_guards(recording.tape)
    # Behind the arguments come sizes that data decide, which nothing compares any more. Each is an input of
    # two dimensions, the size and 0 (`numbatape.programs.counted_sizes`).
    counts = tuple(dimensions[len(dimensions) - 2 * len(recording.counted) :])
    whole = (*(size for leaf in leaves for size in np.shape(leaf.value)), *counts)
    ends = np.cumsum([0, *(np.ndim(leaf.value) for leaf in leaves)]).tolist()
    own = [k for k in range(len(leaves)) if k not in directions]
    moved = [place for k in own for place in range(ends[k], ends[k + 1])]
    moved += range(len(whole) - len(counts), len(whole))
    builder = resumed(tape, whole, ROWS, moved)
    rows, builder.code = builder.code, Code()
    slots = iter(builder.inputs)
    builder.inputs = []
    trace = Trace(builder)
    manner.begin(trace)
    traced = []
    for k, leaf in enumerate(leaves):
        family = family_of(leaf.value)
        if k in directions:
            number = builder.input(np.shape(leaf.value), family, leaf.level)
        else:
            builder.inputs.append(next(slots))
            number = builder.inputs[-1].value
        trace.derivatives.know(number, leaf.value)
        traced.append(new_traced(trace, own_copy(leaf.value), number, leaf.level, family))
    builder.inputs += slots

    def function(*_args, **_kwargs):
        builder.code = rows
        note_sites(trace)
        filled = [
            _output(trace, recording, outputs, part.number) if part.__class__ is Output else part
            for part in parts
        ]
        return pytrees.unflatten(structure, filled)

    parts, structure = pytrees.flatten(recording.result)
    token = CURRENT.set(trace)
    try:
        args, kwargs = rebuild(traced)
        with np.errstate(all="ignore"):
            made = finish(trace, manner.transform(function)(*args, **kwargs), manner.passes, None)
            return replace(made, counted=tuple((NONE, count) for count in counts[::2]))
    finally:
        CURRENT.reset(token)
        trace.close()


def _output(trace: Trace, recording: Recording, outputs: Sequence[np.ndarray], number: int):
    """Return an output of the function as a traced array."""
    found = outputs[number].astype(np.asarray(recording.values[number]).dtype)
    value = recording.tape.outputs[number]
    level, family = recording.levels[number], trace.tape.family_of(value)
    return new_traced(trace, found if found.ndim else found[()], value, level, family)
