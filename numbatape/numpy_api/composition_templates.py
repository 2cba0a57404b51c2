"""Templates of compositions: what one appended to the tape, with the places of its operands (`repeated`).

A template is only made of a composition that recorded instructions and nothing else: no guard, no call of
a loop, nothing that the trace notes beside its tape. Calls of rules are repeated: each has an entry of its
own in `Tape.calls`, which differs from that of the template only in its number.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..late import imported
from ..ops import OPS
from ..tape.instruction import GUARD, MAIN, NONE, Instruction, instructions
from ..tape.tape import CONSTANT, POOLS
from ..trace.aliasing import root_of
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex

if TYPE_CHECKING:
    from ..rules.site import Site

POOL_COUNT = len(POOLS)
CALLS = frozenset(k for k, op in enumerate(OPS) if op.calls)
CELL, ARRAY, VIEW, PART, CALL = range(5)  # how a step of a template makes a value


class Unrepeatable(Exception):
    """A composition did more than a template can repeat, or depends on what no key contains."""


class Part(NamedTuple):
    """A real array or number of a result: its place in the table, and what it is like.

    Attributes
    ----------
    bound
        How far it may be from zero, if it is an integer (`numbatape.trace.integer_ranges`).
    """

    place: int
    level: int
    family: int
    bound: int | None


class Template(NamedTuple):
    """What a composition appends.

    A table holds what its instructions consist of: ``plain``, the user's line, the numbers of the arguments,
    and those of the values that the steps make.

    Attributes
    ----------
    steps
        One for each new value: ``(CELL, family, level)``, ``(ARRAY, layout, cells, family, level)``,
        ``(VIEW, place in the table, distance of the offset, layout)`` of an argument,
        ``(PART, place in the table, offset, layout)`` of a new value, or
        ``(CALL, call of a rule, family)`` of the literal that is the number of such a call.
    plain
        Numbers that are the same each time.
    fields
        Takes the fields of all instructions out of the table; None if there are none.
    kind
        The class of the result: of a traced array, of a complex one, of a list or tuple of real ones.
    parts
        The result, its real and imaginary part (None for one that is zero), or its entries.
    factor
        The place of the number of the Cholesky factor that the result contains, for `cho_factor`; else None.
    """

    steps: list[tuple]
    plain: list[int]
    fields: Callable | None
    kind: type
    parts: list[Part | None]
    factor: int | None


def arrays_of(value) -> tuple:
    """Return the arrays and numbers that NumPy's result consists of."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def lenders(traced: list[TracedArray], value) -> tuple[int, ...]:
    """Return in whose memory the parts of NumPy's result are: places of arguments, -1 for none of them.

    The result is empty if no part is a view of an argument.
    """
    kind = value.__class__
    if kind is np.ndarray:
        if value.base is None:
            return ()
        root = root_of(value)
        for k, x in enumerate(traced):
            if x._value.__class__ is np.ndarray and root_of(x._value) is root:
                return (k,)
        return ()
    if not isinstance(value, (list, tuple)):
        return ()
    found = [lenders(traced, each) or (-1,) for each in value]
    return tuple([k for (k,) in found]) if max(found, default=(-1,)) >= (0,) else ()


def _parts_of(result, value) -> list[TracedArray | None]:
    """Return the real arrays and numbers that a composition's result consists of.

    Raises
    ------
    Unrepeatable
        If their numbers are not those of NumPy's result, or if several of them are in the same memory.
    """
    kind = type(result)
    if kind is TracedArray:
        parts, values = [result], [value]
    elif kind is TracedComplex:
        if result._value is not value or value.__class__ is not np.ndarray or result._zeros is not None:
            raise Unrepeatable
        # The parts' numbers are views of NumPy's, see `numbatape.trace.complex_parts.make`.
        return [result._re, result._im]
    elif kind is value.__class__ and issubclass(kind, (list, tuple)) and len(result) == len(value):
        parts, values = list(result), list(value)
    else:
        raise Unrepeatable
    for part, its in zip(parts, values, strict=True):
        if type(part) is not TracedArray or part._value is not its:
            raise Unrepeatable
    for k, its in enumerate(values):
        if any(np.may_share_memory(its, other) for other in values[:k]):
            raise Unrepeatable
    return parts


CALLED = Instruction._fields.index("c")  # the field with the number of what a call instruction calls


def _numbers(row: Instruction) -> tuple[int, ...]:
    """Return the numbers of an instruction's result, operands and scratch; NONE where there is none."""
    return row.out, row.a, row.b, row.c, row.aux


class State:
    """What a trace has recorded and noted, before a composition runs."""

    def __init__(self, trace):
        self.trace, tape = trace, trace.tape
        self.noted = self._noted()
        self.instructions, self.values = len(tape.code), len(tape.values)
        self.storages, self.cells = len(tape.storages), [*tape.pool_cells]
        self.calls = len(tape.calls)
        self.factors = len(trace.reused.factors)
        self.rolling = tape._windows is not None

    def _noted(self) -> tuple:
        """Return what grows, or changes, if a composition does more than to append instructions."""
        trace = self.trace
        tape, validity, derivatives, memory = trace.tape, trace.validity, trace.derivatives, trace.memory
        its = (
            *(tape.inner, tape.inputs, validity.outside, validity.attempts, derivatives.assumed),
            *(derivatives.deferred, derivatives.given, memory.boxes, memory.patchworks, memory.borrowers),
            *(memory.located, trace.calls.sub_tapes),
            *(trace.arguments.labels, trace.integers.fractions, tape.spare, trace.capture.containers),
        )
        flags = validity.pinned, validity.failed, validity.leak, validity.missing, derivatives.taken
        return (*map(len, its), *flags, trace.arguments.written, trace.integers.met, tape._windows)

    def _differs(self, row: Instruction) -> bool:
        """Whether an instruction is another one in later calls.

        Constants of later calls are the same, and what was computed of them serves these, too.
        """
        if row.op == GUARD:
            return row.stage == MAIN
        return self.trace.tape.level_of(row.out) != CONSTANT

    def grown(self) -> int:
        """Return how many cells of pools, and storages, were added that are no constants."""
        tape = self.trace.tape
        more = zip(POOLS, tape.pool_cells, self.cells, strict=True)
        cells = sum(now - before for (level, _), now, before in more if level != CONSTANT)
        return cells + sum(level != CONSTANT for _, _, level in tape.storages[self.storages :])

    def template(self, traced: list[TracedArray], result, value) -> Template:
        """Return what was appended since then as a template."""
        tape = self.trace.tape
        if self.rolling or self._noted() != self.noted:
            raise Unrepeatable
        parts = _parts_of(result, value)
        rows = [row for row in instructions(tape.code[self.instructions :]) if self._differs(row)]
        lines = {row.line for row in rows}
        if len(lines) > 1 or any(row.op == GUARD for row in rows):
            raise Unrepeatable
        calls = {row.out: self._call_of(row) for row in rows if row.row in CALLS}
        if len(calls) != len(tape.calls) - self.calls:
            raise Unrepeatable
        numbers = {number for row in rows for number in _numbers(row) if number != NONE}
        numbers.update([part._id for part in parts if part is not None])
        factor = self._factor_of(parts)
        numbers.update(factor)
        table = _Table(self, traced, numbers, calls)
        named = [place for row in rows for place in table.places_of(row)]
        results = [0 if part is None else table.place_of_part(part) for part in parts]
        factors = [table.place_of_new(number) for number in factor]
        plain = table.plain

        def settled(place: int) -> int:
            """Return a place in the table, now that it is known how many plain numbers there are.

            Behind these come the line, the arguments and the new values, which were counted from -1 on down.
            """
            return len(plain) - 1 - place if place < 0 else place

        steps = [
            (kind, settled(first), *rest) if kind in (VIEW, PART) else (kind, first, *rest)
            for kind, first, *rest in table.steps
        ]
        bound_of = self.trace.integers.range_of
        found = [
            None
            if part is None
            else Part(settled(at), part._level, part._family, bound_of(tape.values[part._id]))
            for part, at in zip(parts, results, strict=True)
        ]
        # A grid of broadcast vectors takes no instruction.
        fields = itemgetter(*map(settled, named)) if rows else None
        within = settled(factors[0]) if factors else None
        return Template(steps, plain, fields, type(result), found, within)

    def _call_of(self, row: Instruction) -> tuple[Site, int]:
        """Return what an instruction calls, which must be a rule, and the family of its number's literal."""
        tape = self.trace.tape
        site = tape.calls[int(tape.numbers[row.c])]
        if type(site) is not imported("..rules.site", __package__).Site or site.number < self.calls:
            raise Unrepeatable
        return site, tape.family_of(row.c)

    def _factor_of(self, parts: list[TracedArray | None]) -> list[int]:
        """Return the number of the Cholesky factor that was noted for the result, in a list; or none."""
        noted = [*self.trace.reused.factors.items()][self.factors :]
        if noted and (len(noted) > 1 or parts[0] is None or noted[0][0] != parts[0]._id):
            raise Unrepeatable
        return [factor for _, factor in noted]


class _Table:
    """The numbers in a composition's instructions: those that stay, and those that are others each time.

    Attributes
    ----------
    plain
        The numbers that stay.
    made
        Places of arguments and new values by their number: -1 is the line, what follows goes down from there.
    steps
        Those of the template, with such places.
    """

    def __init__(
        self,
        state: State,
        traced: list[TracedArray],
        numbers: set[int],
        calls: dict[int, tuple[Site, int]],
    ):
        self.tape = tape = state.trace.tape
        self.state = state
        self._needed = numbers
        self.plain: list[int] = []
        self._index: dict[int, int] = {}
        self.made: dict[int, int] = {}
        self.steps: list[tuple] = []
        self._next = -2
        # Where storages, and cells of pools, come from: the place of the first value that has them.
        self._homes: dict[int | tuple, int] = {}
        self._given: dict[int | tuple, int] = {}  # offsets of the arguments
        for x in traced:
            home, offset = self._home(x._id)
            self.made.setdefault(x._id, self._next)
            self._given.setdefault(home, offset)
            self._homes.setdefault(home, self._next)
            self._next -= 1
        older = sorted(number for number in numbers if number < state.values and number not in self.made)
        for number in older:
            self._note_older(number)
        new = sum([self._note_new(number) for number in range(state.values, len(tape.values))])
        if new != state.grown():
            raise Unrepeatable  # No value names these new cells.
        # Where the numbers of calls are, by the number of a call's result.
        self._calls: dict[int, int] = {}
        for out, call in calls.items():
            self._calls[out] = self._next
            self.steps.append((CALL, *call))
            self._next -= 1

    def _home(self, number: int) -> tuple[int | tuple, int]:
        storage, offset, _ = self.tape.values[number]
        return (storage if storage >= POOL_COUNT else (storage, offset)), offset

    def _note_older(self, number: int) -> None:
        """Note a value from before: a view of an argument, or a constant."""
        home, _ = self._home(number)
        if home in self._given:
            self._view_of_argument(number)
        elif self.tape.level_of(number) != CONSTANT:
            raise Unrepeatable

    def _view_of_argument(self, number: int) -> None:
        home, offset = self._home(number)
        start, layout = self._given[home], self.tape.values[number][2]
        distance = self.tape.sizes.sub(offset, start)
        self._make(number, (VIEW, self._homes[home], distance, layout))

    def _note_new(self, number: int) -> bool:
        """Note a new value; return whether its cells are new, too, and are no constant."""
        tape = self.tape
        storage, offset, layout = tape.values[number]
        home, _ = self._home(number)
        if tape.level_of(number) == CONSTANT:
            return False
        if home in self._given:
            self._view_of_argument(number)
            return False
        if home in self._homes:
            base = self._homes[home]
            self._make(
                number, (PART, base, offset, layout) if storage >= POOL_COUNT else (VIEW, base, 0, layout)
            )
            return False
        is_new = (
            storage >= self.state.storages if storage >= POOL_COUNT else offset >= self.state.cells[storage]
        )
        if not is_new:
            raise Unrepeatable
        cells, family, level = tape.storages[storage]
        self._homes[home] = self._next
        if storage < POOL_COUNT:
            if layout:
                raise Unrepeatable
            self._make(number, (CELL, family, level))
        else:
            if offset or not layout:
                raise Unrepeatable
            self._make(number, (ARRAY, layout, cells, family, level))
        return True

    def _make(self, number: int, step: tuple) -> None:
        if step[0] in (VIEW, PART) and number not in self._needed:
            return
        self.made[number] = self._next
        self.steps.append(step)
        self._next -= 1

    def places_of(self, row: Instruction) -> list[int]:
        """Return where the fields of an instruction are in the table."""
        if row.out not in self.made:
            raise Unrepeatable
        found = [self._plain(field) for field in (row.op, row.active, row.stage)]
        for number in _numbers(row):
            place = self.made.get(number)
            found.append(self._plain(number) if place is None else place)
        if row.out in self._calls:
            found[CALLED] = self._calls[row.out]
        return [*found, -1]

    def place_of_part(self, part: TracedArray) -> int:
        """Return where the number of a result's part is in the table."""
        place = self.made.get(part._id)
        if place is None:
            if part._level != CONSTANT:
                raise Unrepeatable
            place = self._plain(part._id)
        return place

    def place_of_new(self, number: int) -> int:
        """Return where a number is that each call makes anew."""
        if number not in self.made:
            raise Unrepeatable
        return self.made[number]

    def _plain(self, number: int) -> int:
        place = self._index.get(number)
        if place is None:
            place = self._index[number] = len(self.plain)
            self.plain.append(number)
        return place
