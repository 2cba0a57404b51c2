"""A function over an axis of traced arrays: its body is traced for one row, gets lanes, and is inlined.

The body is recorded like that of a loop (`numbatape.control.body_traces`) and cut out of the trace. Its tape
then gets lanes, as the engine's tapes do (`numbatape.derive.lanes`), and the instructions with lanes are
appended to the trace. So what a trace records does not depend on the number of rows, derivatives of any
order are those of ordinary instructions, and nothing runs but array operations.

A branch on a value that differs from row to row *parts* the lanes. The trace notes whether all rows agree (a
guard). If they do not, the rows that take the path of the first one are computed as one group, and the others
as another one, each with a trace of its own. Which rows are in a group is data, and so is how many there are
(`numbatape.programs.counted_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..derive.inlined_lanes import append_lanes
from ..emitter import addresses
from ..errors import OutputError, StructureError, UnsupportedOperationError
from ..tape.tape import VARYING
from ..trace import pytrees
from ..trace.array import TracedArray, deferred, is_deferred, new_traced
from ..trace.axes import is_empty
from ..trace.primitives import sample_of
from ..trace.trace import Trace
from .body_state import BodyState, raises_errors, run_alike
from .body_traces import BodyTrace, of_trace, stacked_leaf
from .packing import result_of
from .trees import abandoned, leaves_of, text_of

NAME = "nt.vmap"


class Stacks:
    """The results of a function in some lanes.

    Attributes
    ----------
    structure
        Of the function's result.
    stacks
        One array for each real leaf, whose first axis numbers the lanes; None for a leaf that is None.
    shared
        For each leaf its value, if it does not depend on the lane, else None.
    """

    def __init__(self, structure, stacks: list, shared: list):
        self.structure, self.stacks, self.shared = structure, stacks, shared


FAILURES = (ArithmeticError, LookupError, ValueError)  # what NumPy's functions raise for numbers


class Apart(Exception):
    """The lanes cannot be computed together."""


def in_lanes(trace: Trace, function: Callable, rows: list, user: Callable) -> Stacks:
    """Return the results of a function for each row of some arrays.

    Parameters
    ----------
    function
        Takes a list of real leaves, one row of each array.
    rows
        Real arrays, traced or not, whose first axis numbers the lanes; there is one lane at least.
    user
        The user's function, which it calls.
    """
    try:
        return _Body(trace, function, rows, user).stacks()
    except Apart:
        return _one_by_one(function, rows)


def without_lanes(trace: Trace, function: Callable, rows: list) -> Stacks:
    """Return the results of a function for no rows, in the shapes that it returns for a row of zeros."""
    given = [stacked_leaf(trace, x, f"{NAME}: row {k}") for k, x in enumerate(rows)]
    for _, code in given:
        trace.tape.sizes.pin(code)
    body = BodyTrace(trace, NAME)
    found, structure = leaves_of(body.run(function, [leaf for leaf, _ in given]))
    samples = [None if x is None else np.asarray(sample_of(x)) for x in found]
    body.abandon()
    stacks = [None if x is None else np.zeros((0, *x.shape), x.dtype) for x in samples]
    return Stacks(structure, stacks, [None] * len(stacks))


class _Body:
    """The function, while it is recorded for one row."""

    def __init__(self, trace: Trace, function: Callable, rows: list, user: Callable):
        self.trace, self.function, self.rows, self.user = trace, function, rows, user

    def stacks(self) -> Stacks:
        """Return the results in all lanes; raise `Apart` if they cannot be computed together."""
        validity = self.trace.validity
        # The flag is cleared to see whether this body fails, too.
        before, validity.failed = validity.failed, False
        try:
            return self._stacks()
        finally:
            validity.failed |= before

    def _stacks(self) -> Stacks:
        """Return what the function returns for all rows, computed in lanes of the tape of one row.

        Raises `Apart` where rows may differ in more than their numbers; they are then computed one by one.
        """
        if raises_errors():
            raise Apart  # Only NumPy raises them, for the numbers of each row.
        trace, tape = self.trace, self.trace.tape
        given = [stacked_leaf(trace, x, f"{NAME}: row {k}") for k, x in enumerate(self.rows)]
        self.leaves = [leaf for leaf, _ in given]
        self.lanes, *others = [code for _, code in given]
        for other in others:
            self.lanes = tape.sizes.same(self.lanes, other)
        tape.sizes.guard(self.lanes, ">=", 1)
        levels = [max(VARYING, tape.level_of(leaf.number)) for leaf in self.leaves]
        before, leak = self._single_use(), trace.validity.leak
        body, state = BodyTrace(trace, NAME), BodyState(trace, NAME, [self.user])
        try:
            result = run_alike(body, state, lambda: body.run(self.function, self.leaves, levels))
        except UnsupportedOperationError:
            state.undo()
            trace.validity.failed, trace.validity.leak = before[0], leak
            # What fails for all rows at once may work row by row: writing to an array from outside, for
            # example.
            raise Apart from None
        with abandoned(body):
            found, structure = leaves_of(result)
            outputs = [leaf for leaf in found if leaf is not None]
            kinds = [np.asarray(sample_of(leaf)).dtype for leaf in outputs]
            if any(kind.kind not in "biufc" for kind in kinds):
                raise OutputError(
                    f"{NAME} stacks numbers and arrays, and the function returns something else"
                )
            numbers = [body.output(leaf) for leaf in outputs]
            if self._single_use() != before:  # what was recorded holds for the numbers of this row only
                raise Apart
        traced = body.close_lane(numbers, levels)
        numbers = [leaf.number for leaf in self.leaves]
        start = len(tape.code)
        try:
            values = append_lanes(
                tape, traced.tape, traced.dimensions, numbers, traced.captured, trace.line(), self._guard
            )
            self._compute_fallible(start)  # evaluated before a branch parts the lanes, too
        except FAILURES:  # NumPy raises in some lane, where the function itself might catch the error
            tape.code.cut(start)
            trace.evaluation.forget(start)
            raise Apart from None
        if values is None:
            return self._parted()
        stacks, shared = [], []
        pairs = iter(zip(values, kinds, strict=True))
        for leaf in found:
            if leaf is None:
                stacks.append(None)
                shared.append(None)
                continue
            number, kind = next(pairs)
            laned = len(tape.layout_of(number).dims) > np.ndim(sample_of(leaf))
            its = result_of(trace, number, kind)
            if kind == np.float16:
                its = np.astype(its, kind)
            stacks.append(its if laned else self._repeated(its))
            shared.append(None if laned else its)
        return Stacks(structure, stacks, shared)

    def _compute_fallible(self, start: int) -> None:
        """Compute what may fail of what was appended, as the comparison of guards computes its operands."""
        tape, evaluation = self.trace.tape, self.trace.evaluation
        fallible = tape.ops.fallible
        for row in tape.instructions(start):
            if not row.is_guard and row.row in fallible:
                evaluation.value(row.out)

    def _single_use(self) -> tuple:
        """Return what changes when the function does something that holds for the numbers of one run."""
        validity = self.trace.validity
        return validity.failed, validity.pinned, len(validity.outside)

    def _repeated(self, x: TracedArray) -> TracedArray:
        """Return what is the same in all lanes with an axis of lanes."""
        trace, tape = self.trace, self.trace.tape
        number = addresses.broadcast(tape, x._id, (self.lanes, *tape.layout_of(x._id).dims))
        if is_deferred(x):
            return deferred(trace, number)
        value = np.broadcast_to(x._value, (tape.sizes.value(self.lanes), *np.shape(x._value)))
        return new_traced(trace, value, number, x._level, x._family)

    # ---- branches

    def _guard(self, value: int, guard) -> bool:
        """Record that all lanes agree on what steered Python; return False if they do not."""
        trace = self.trace
        around, trace.differentiating = trace.differentiating, guard.position
        try:
            seen = deferred(trace, value)
            if seen.ndim == 0:
                trace.guard(seen, guard.kind, guard.outcome, guard.counts)
                return True
            if not np.all(np.equal(seen, seen[0])):
                self.parting = np.equal(seen, guard.outcome)
                return False
            trace.guard(seen[0], guard.kind, guard.outcome, guard.counts)
            return True
        finally:
            trace.differentiating = around

    def _parted(self) -> Stacks:
        """Return the results of two groups of lanes: those that go the way of the first one, and others."""
        same = np.nonzero(self.parting)[0]
        rest = np.nonzero(np.logical_not(self.parting))[0]
        # `len` would give an int, which would hold the tape to these numbers of lanes.
        if is_empty(same) or is_empty(rest):
            raise Apart  # No lane takes one of the two ways, because the number that decided was NaN.
        # A call of np.take finds a trace by its first argument alone.
        rows = [of_trace(self.trace, x) for x in self.rows]
        groups = [
            in_lanes(self.trace, self.function, [np.take(x, places, axis=0) for x in rows], self.user)
            for places in (same, rest)
        ]
        order = np.argsort(np.concatenate([same, rest]))
        return _joined(groups, lambda stacks: np.take(np.concatenate(stacks), order, axis=0))


def _joined(groups: list[Stacks], join: Callable) -> Stacks:
    """Return the results of groups of lanes as those of all."""
    first = groups[0]
    for group in groups[1:]:
        if group.structure != first.structure or [x is None for x in group.stacks] != [
            x is None for x in first.stacks
        ]:
            texts = [text_of(each.structure) for each in (first, group)]
            raise StructureError(
                f"{NAME}: the function returns {texts[0]} for some rows, and {texts[1]} for others"
            )
    columns = list(zip(*[group.stacks for group in groups], strict=True))
    for column in columns:
        shapes = {np.shape(sample_of(x))[1:] for x in column if x is not None}
        if len(shapes) > 1:
            raise OutputError(f"{NAME}: the function returns shapes {sorted(shapes)} for different rows")
    stacks = [None if column[0] is None else join(column) for column in columns]
    return Stacks(first.structure, stacks, [None] * len(stacks))


def _one_by_one(function: Callable, rows: list) -> Stacks:
    """Return the results of one call of the function for each row, which are recorded one after another."""
    groups = []
    for k in range(int(rows[0].shape[0])):
        leaves, structure = leaves_of(function([pytrees.copied_leaf(x[k]) for x in rows]))
        groups.append(Stacks(structure, [None if x is None else np.expand_dims(x, 0) for x in leaves], []))
    return _joined(groups, np.concatenate)
