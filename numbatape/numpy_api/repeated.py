"""Compositions that recur in one trace are repeated from a template, without running them.

``np.interp`` is a composition of a dozen instructions, and takes half a millisecond of Python to record. In
the turns of a loop it appends the same instructions each time, with other operands. So what a composition
appended is noted as a template, by all that it can depend on: the layouts, levels and dtypes of its
arguments, which of these share cells, its options, and the class, dtype and shape of NumPy's result. A
further call with the same of these appends the template with its own operands.

A template is only made of a composition that recorded instructions and nothing else: no guard, no call,
nothing that the trace notes beside its tape. It is recorded at the second call that is like others, because
the first one makes what later ones find: sizes as numbers, tables, entries of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..ops import OPS
from ..tape.code import LAST_OUT
from ..tape.instruction import GUARD, MAIN, NONE, Instruction
from ..tape.tape import CONSTANT, POOLS
from ..trace.aliasing import root_of
from ..trace.array import TracedArray, new_traced

POOL_COUNT = len(POOLS)
MOST_BYTES = 4096  # of a plain array, whose contents are part of the key
REFUSED = 8  # how many calls that were new a call counts that is known and cannot be repeated
PATIENCE = 64  # keys of one function that did not recur; after these, no more are made
OPTIONS = frozenset((int, bool, str, type(None), np.dtype, type))
NUMBERS = frozenset((float, np.float64, np.float32, np.int64, np.bool_))
CALLS = frozenset(k for k, op in enumerate(OPS) if op.calls)
STAGE, OUT = map(Instruction._fields.index, ("stage", "out"))
CELL, ARRAY, VIEW, PART = range(4)  # how a step of a template makes a value
MET = object()  # stands for the template of a call that was met once


class Unrepeatable(Exception):
    """A composition did more than a template can repeat, or depends on what no key contains."""


class Template(NamedTuple):
    """What a composition appends.

    A table holds what its instructions consist of: ``plain``, the user's line, the numbers of the arguments,
    and those of the values that the steps make.

    Attributes
    ----------
    steps
        One for each new value: ``(CELL, family, level)``, ``(ARRAY, layout, cells, family, level)``,
        ``(VIEW, place in the table, distance of the offset, layout)`` of an argument, or
        ``(PART, place in the table, offset, layout)`` of a new value.
    plain
        Numbers that are the same each time.
    fields
        Takes the fields of all instructions out of the table.
    result, level, family
        The place of the result in the table, and what it is like.
    """

    steps: list[tuple]
    plain: list[int]
    fields: Callable
    result: int
    level: int
    family: int


def call(trace, implementation, value, args, kwargs, run: Callable):
    """Return what ``run()`` returns: the result of a composition, which carries NumPy's value."""
    misses = trace.reused.compositions[implementation]
    if misses > PATIENCE or trace.in_loop or trace.differentiating is not None:
        return run()
    if trace.validity.vouched or trace.arguments.labels or trace.integers.fractions:
        return run()
    templates = trace.reused.templates
    try:
        key, traced = _key(trace, implementation, value, args, kwargs)
        template = templates[key]
    except (Unrepeatable, KeyError) as error:
        trace.reused.compositions[implementation] = misses + 1
        if error.__class__ is KeyError:
            templates[key] = MET
        return run()
    if template is MET:
        before = _State(trace)
        result = run()
        try:
            templates[key] = before.template(traced, result, value)
        except Unrepeatable:
            templates[key] = None
        return result
    shares = value.__class__ is np.ndarray and value.base is not None and _shares(traced, value)
    if template is None or shares:
        trace.reused.compositions[implementation] = misses + REFUSED
        return run()
    if misses:
        trace.reused.compositions[implementation] = misses - 1
    return _appended(trace, template, traced, value)


def _shares(traced: list[TracedArray], value) -> bool:
    """Whether NumPy's result has memory of an argument."""
    return value.__class__ is np.ndarray and any(np.may_share_memory(value, x._value) for x in traced)


# ---- keys


def _key(trace, implementation, value, args, kwargs) -> tuple[tuple, list[TracedArray]]:
    """Return all that a composition depends on, and its traced arguments."""
    traced: list[TracedArray] = []
    kind = value.__class__
    parts = [implementation, kind]
    if kind is np.ndarray:
        parts += (value.dtype, value.shape)
    elif kind not in NUMBERS:
        raise Unrepeatable
    if kwargs.get("out") is not None:
        raise Unrepeatable  # NumPy's result is an argument
    _describe(trace, args, parts, traced)
    for name in kwargs:
        parts.append(name)
        _describe(trace, (kwargs[name],), parts, traced)
    if not traced:
        raise Unrepeatable
    _relate(trace.tape, traced, parts)
    return tuple(parts), traced


def _describe(trace, args, parts: list, traced: list) -> None:
    """Append to a key what arguments are like; collect the traced ones."""
    for x in args:
        kind = type(x)
        if kind is TracedArray:
            value, boxes = x._value, trace.memory.boxes
            if x._trace is not trace:
                raise Unrepeatable
            if value.__class__ is np.ndarray:
                if boxes and id(root_of(value)) in boxes:
                    raise Unrepeatable  # it is read entry by entry
                parts.append(value.dtype)
            storage, offset, layout = trace.tape.values[x._id]
            parts += (value.__class__, layout, x._level, x._family)
            if x._level == CONSTANT:
                parts += (storage, offset)  # its contents may decide what is recorded
            else:
                traced.append(x)
        elif kind in OPTIONS:
            parts += (kind, x)
        elif kind in NUMBERS:
            parts += (kind, np.array(x).tobytes())  # 0.0 and -0.0 are equal
        elif kind is tuple or kind is list:
            parts += (kind, len(x))
            _describe(trace, x, parts, traced)
        elif kind is np.ndarray and x.nbytes <= MOST_BYTES and x.dtype.kind in "fiub":
            if trace.memory.boxes and id(root_of(x)) in trace.memory.boxes:
                raise Unrepeatable
            parts += (x.dtype, x.shape, x.tobytes())
        else:
            raise Unrepeatable


def _relate(tape, traced: list[TracedArray], parts: list) -> None:
    """Append which arguments are the same, or parts of one storage, and how far apart."""
    homes: dict[int | tuple, tuple[int, int]] = {}
    numbers: dict[int, int] = {}
    recent = tape.code.recent
    for k, x in enumerate(traced):
        storage, offset, _ = tape.values[x._id]
        home = storage if storage >= POOL_COUNT else (storage, offset)
        place, start = homes.setdefault(home, (k, offset))
        parts += (numbers.setdefault(x._id, k), place, tape.sizes.sub(offset, start) if place != k else 0)
        if storage < POOL_COUNT:
            parts.append(
                bool(recent) and recent[LAST_OUT] == x._id
            )  # a sum of cells begins with the last result


# ---- templates


def _appended(trace, template: Template, traced: list[TracedArray], value) -> TracedArray:
    """Append a template; return its result."""
    tape = trace.tape
    values, add = tape.values, tape.sizes.add
    table = [*template.plain, trace.line(), *[x._id for x in traced]]
    for step in template.steps:
        kind = step[0]
        if kind == ARRAY:
            _, layout, cells, family, level = step
            table.append(tape.new_array(layout, cells, family, level))
        elif kind == CELL:
            _, family, level = step
            table.append(tape.scalar(family, level))
        else:
            _, base, offset, layout = step
            storage, start, _ = values[table[base]]
            place = offset if kind == PART else start + offset if start >= 0 <= offset else add(start, offset)
            table.append(tape.seen_as(storage, place, layout))
    tape.code.recent += template.fields(table)
    return new_traced(trace, value, table[template.result], template.level, template.family)


class _State:
    """What a trace has recorded and noted, before a composition runs."""

    def __init__(self, trace):
        self.trace, tape = trace, trace.tape
        self.noted = self._noted()
        self.instructions, self.values = len(tape.code), len(tape.values)
        self.storages, self.cells = len(tape.storages), [*tape.pool_cells]
        self.rolling = tape._windows is not None

    def _noted(self) -> tuple:
        """Return what grows, or changes, if a composition does more than to append instructions."""
        trace = self.trace
        tape, validity, derivatives, memory = trace.tape, trace.validity, trace.derivatives, trace.memory
        its = (
            *(tape.calls, tape.inner, tape.inputs, validity.outside, derivatives.assumed),
            *(derivatives.deferred, derivatives.given, memory.boxes, memory.patchworks, memory.borrowers),
            *(memory.located, trace.reused.factors, trace.calls.sites, trace.calls.sub_tapes),
            *(trace.arguments.labels, trace.integers.fractions, tape.spare, trace.capture.containers),
        )
        flags = validity.pinned, validity.failed, validity.leak, validity.missing, derivatives.taken
        return (*map(len, its), *flags, trace.arguments.written, trace.integers.met, tape._windows)

    def _differs(self, row: tuple) -> bool:
        """Whether an instruction is another one in later calls.

        Constants of later calls are the same, and what was computed of them serves these, too.
        """
        if row[0] == GUARD:
            return row[STAGE] == MAIN
        return self.trace.tape.level_of(row[OUT]) != CONSTANT

    def grown(self) -> int:
        """Return how many cells of pools, and storages, were added that are no constants."""
        tape = self.trace.tape
        more = zip(POOLS, tape.pool_cells, self.cells, strict=True)
        cells = sum(now - before for (level, _), now, before in more if level != CONSTANT)
        return cells + sum(level != CONSTANT for _, _, level in tape.storages[self.storages :])

    def template(self, traced: list[TracedArray], result, value) -> Template:
        """Return what was appended since then as a template."""
        tape = self.trace.tape
        if (
            self.rolling
            or self._noted() != self.noted
            or type(result) is not TracedArray
            or result._value is not value
        ):
            raise Unrepeatable
        rows = [row for row in tape.code[self.instructions :] if self._differs(row)]
        lines = {row[-1] for row in rows}
        if not rows or len(lines) > 1 or any(row[0] == GUARD or row[0] >> 1 in CALLS for row in rows):
            raise Unrepeatable
        numbers = {number for row in rows for number in row[3:8] if number != NONE}
        numbers.add(result._id)
        table = _Table(self, traced, numbers)
        fields = [place for row in rows for place in table.places_of(row)]
        plain = table.plain
        shift = len(plain)
        # Behind the plain numbers come the line, the arguments and the new values, counted from -1 on down
        # while the number of plain ones was not known.
        places = [shift - 1 - place if place < 0 else place for place in fields]
        steps = [
            (kind, shift - 1 - first, *rest) if kind in (VIEW, PART) else (kind, first, *rest)
            for kind, first, *rest in table.steps
        ]
        made = table.made.get(result._id)
        if made is None or tape.values[result._id][0] in table.borrowed or _shares(traced, value):
            raise Unrepeatable
        place = shift - 1 - made
        return Template(steps, plain, itemgetter(*places), place, result._level, result._family)


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
    borrowed
        Storages that new values do not have for themselves.
    """

    def __init__(self, state: _State, traced: list[TracedArray], numbers: set[int]):
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
        self.borrowed = {home if isinstance(home, int) else -1 for home in self._given}
        older = sorted(number for number in numbers if number < state.values and number not in self.made)
        for number in older:
            self._note_older(number)
        new = sum([self._note_new(number) for number in range(state.values, len(tape.values))])
        if new != state.grown():
            raise Unrepeatable  # cells without a value

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

    def places_of(self, row: tuple) -> list[int]:
        """Return where the fields of an instruction are in the table."""
        op, active, stage, *numbers, _ = row
        if numbers[0] not in self.made:
            raise Unrepeatable
        found = [self._plain(field) for field in (op, active, stage)]
        for number in numbers:
            place = self.made.get(number)
            found.append(self._plain(number) if place is None else place)
        return [*found, -1]

    def _plain(self, number: int) -> int:
        place = self._index.get(number)
        if place is None:
            place = self._index[number] = len(self.plain)
            self.plain.append(number)
        return place
