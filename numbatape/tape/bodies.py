"""A stretch of a builder's instructions becomes a tape of its own: the body of a loop.

What does not depend on the body's inputs stays where it is, and is computed once. What the body reads from
outside becomes an input of it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection

from .builder import TapeBuilder
from .code import SourceLines
from .instruction import MAIN, NONE, PROLOGUE, Instruction, opcode
from .size_tables import INPUT, SizeTable
from .sizes import Sizes
from .tape import ACTIVE, CONSTANT, F64, VARYING, InputSlot, Literal, Tape
from .uses import cell_of, dependents, key_of, keys_of


class Stretch:
    """The instructions from one place on, split into those of the body and the others.

    Parameters
    ----------
    builder
        The builder.
    start
        The first instruction of the stretch, which goes to the end.
    inputs
        Values that stand for what changes from step to step.
    outputs
        Values that a step computes for the next step, or that leave the loop.
    runs
        Whether the body runs at least once, so that what may fail can be computed before the first step.
    kept
        Keys of what is needed outside of the body, or None. With None, the body gets what depends on
        ``inputs``. With keys, it gets all instructions but those that the keys depend on, also what is the
        same in all steps.

    Attributes
    ----------
    body, others
        Instructions.
    captured
        Keys (`numbatape.tape.uses.keys_of`) of what the body reads, and neither writes nor has as a literal.
    known
        What the guards of the stretch say, by the numbers that they have in its instructions.
    """

    def __init__(self, builder: TapeBuilder, start: int, inputs, outputs, runs: bool, kept=None):
        self.builder, self.start = builder, start
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.keys = keys = keys_of(builder.values)
        rows = builder.instructions(start)
        fallible = {row.out for row in rows if not row.is_guard and row.row in builder.ops.fallible}
        stays = set() if runs else fallible - builder.spare
        sources = {keys[value] for value in (*self.inputs, *stays)}
        if kept is None:
            inside = dependents(builder.columns()[start:], keys, sources)
        else:
            inside = {keys[row.a if row.is_guard else row.out] for row in rows} - _needed(rows, keys, kept)
        self.body: list[Instruction] = []
        self.others: list[Instruction] = []
        for row in rows:
            mine = keys[row.a if row.is_guard else row.out] in inside
            (self.body if mine else self.others).append(row)
        self.known = list(builder.guards) if any(row.is_guard for row in rows) else []
        self.literals = _literals(builder)
        self._note_reads()

    def _note_reads(self) -> None:
        """Note what the body writes, and what it reads from outside."""
        keys = self.keys
        self.made = {keys[value] for row in self.body for value in row.results}
        own = self.made | {keys[value] for value in self.inputs}
        read = [*self.outputs, *(value for row in self.body for value in row.operands)]
        self.captured = [
            key
            for key in dict.fromkeys(keys[value] for value in read)
            if key not in own | self.literals.keys()
        ]

    def part(self, body: list[Instruction], inputs: list[int], outputs: list[int]) -> Stretch:
        """Return some instructions of the body as a stretch with inputs and outputs of its own.

        An input may also be what other instructions of the body compute: all cells that its key names.
        """
        found = copy.copy(self)
        found.keys = keys_of(self.builder.values)
        found.body, found.inputs, found.outputs = body, inputs, outputs
        found._note_reads()
        return found

    @property
    def guards(self) -> list[Instruction]:
        """Guards on what differs from step to step."""
        return [row for row in self.body if row.is_guard]

    def cut(self, name: str) -> None:
        """Take the body off the builder's tape. Errors about reading from inside of it call it ``name``."""
        builder = self.builder
        builder.code.cut(self.start)
        # The guards of the stretch are the last ones; those of the body leave the builder with it.
        numbers = [row.aux for row in (*self.body, *self.others) if row.is_guard]
        first = min(numbers, default=len(builder.guards))
        del builder.guards[first:]
        for each in self.others:
            if each.is_guard:
                builder.guards.append(self.known[each.aux])
                each = each.replace(aux=len(builder.guards) - 1)
            builder.code.append(each)
        for key in (*self.made, *(self.keys[value] for value in self.inputs)):
            builder.inner[key] = name

    def levels(self, inputs: list[int], captured: list[int], carries: list[tuple[int, int]]) -> list[int]:
        """Set the levels of all cells; return those of the inputs.

        A value takes an adjoint if it depends on something that does. The tracer does not know yet which
        carries do, so it has recorded instructions as if all did.

        Parameters
        ----------
        inputs, captured
            Levels at first, of inputs and of captures.
        carries
            ``(number of an input, number of the output that is its next value)``.
        """
        keys, levels = self.keys, list(inputs)
        outside = dict(zip(self.captured, captured, strict=True))
        while True:
            found = outside | {keys[x]: level for x, level in zip(self.inputs, levels, strict=True)}
            before = -1
            while before != sum(found.values()):
                before = sum(found.values())
                for row in self.body:
                    if not row.is_guard:
                        level = self._level(row, found)
                        for result in row.results:
                            found[keys[result]] = max(found.get(keys[result], CONSTANT), level)
            grown = list(levels)
            for number, output in carries:
                grown[number] = max(levels[number], found.get(keys[self.outputs[output]], CONSTANT))
            if grown == levels:
                self._levels = found
                return levels
            levels = grown

    def _level(self, row: Instruction, known: dict[int, int]) -> int:
        read = [known.get(self.keys[value], CONSTANT) for value in row.operands]
        if any(row.takes(k) and level == ACTIVE for k, level in enumerate(read)):
            return ACTIVE
        return VARYING if any(read) else CONSTANT

    def tape(self, forward: bool, passes: Collection[str], derivatives: bool) -> Tape:
        """Return the body: its inputs are those of the stretch and then the captures, one vector each."""
        return _Copy(self).frozen(forward, passes, derivatives)


def _needed(rows: list[Instruction], keys: list[int], kept) -> set[int]:
    """Return the keys that some keys depend on, themselves included."""
    found = set(kept)
    before = -1
    while before != len(found):
        before = len(found)
        for row in rows:
            if not row.is_guard and keys[row.out] in found:
                found.update(keys[value] for value in (*row.operands, *row.results))
    return found


def _literals(builder: TapeBuilder) -> dict[int, Literal]:
    """Return the literals by key."""
    return {key_of(item.storage, item.offset): item for item in builder.literals}


class _Copy:
    """The body's own builder, in which levels are known and unneeded storages do not exist."""

    def __init__(self, stretch: Stretch):
        self.stretch, self.old = stretch, stretch.builder
        old = self.old
        self.new = new = TapeBuilder(old.ops)
        new.exact = old.exact
        new.sizes = own_sizes(old.sizes)
        new.source = SourceLines(old.source.table())
        self.storages: dict[int, int] = {}  # for each key, the new storage, or the offset of a scalar
        self.values: dict[int, int] = {}
        self.calls: dict[int, int] = {}
        self.inputs: dict[int, int] = {}  # for each key, the storage of a captured value as an input
        self.casts: list[Instruction] = []  # instructions that narrow captured float32 values again
        self._carried = {stretch.keys[value] for value in stretch.inputs}

    def frozen(self, forward: bool, passes: Collection[str], derivatives: bool) -> Tape:
        stretch, new = self.stretch, self.new
        code = [self._row(row) for row in stretch.body]
        outputs = tuple(self._value(value) for value in stretch.outputs)
        for value in stretch.inputs:
            self._slot(self._value(value), stretch.keys[value])
        for key in stretch.captured:
            self._captured(key)
            storage = self.inputs[key]
            self._slot(new.view(storage, 0, (new.storages[storage][0],), (1,)), key)
        for row in self.casts + code:
            new.code.append(row)
        new.spare = {self.values[value] for value in self.old.spare if value in self.values}
        return new.freeze(outputs, passes, derivatives, forward=forward)

    def _slot(self, value: int, key: int) -> None:
        new = self.new
        level = self._level(key)
        new.inputs.append(InputSlot(value, new.layouts[new.values[value][2]].dims, level, F64))

    def _level(self, key: int) -> int:
        return self.stretch._levels.get(key, CONSTANT)

    def _row(self, row: Instruction) -> Instruction:
        keys = self.stretch.keys
        if row.is_guard:
            self.new.guards.append(self.stretch.known[row.aux])
            return row.replace(
                stage=MAIN, a=self._value(row.a), b=self._value(row.b), aux=len(self.new.guards) - 1
            )
        levels = [self._level(keys[value]) for value in row.operands]
        active = sum(1 << k for k, level in enumerate(levels) if row.takes(k) and level == ACTIVE)
        early = not any(levels) and (row.stage == PROLOGUE or self._level(keys[row.out]) == CONSTANT)
        out, aux = self._value(row.out), row.aux if row.aux == NONE else self._value(row.aux)
        a, b, c = (value if value == NONE else self._value(value) for value in (row.a, row.b, row.c))
        if self.old.ops[row.row].calls:
            c = self._call(int(self.old.numbers[row.c]))
        return Instruction(row.op, active, PROLOGUE if early else MAIN, out, a, b, c, aux, row.line)

    def _call(self, number: int) -> int:
        """Return the literal with a rule's number on the new tape."""
        if number not in self.calls:
            self.calls[number] = len(self.new.calls)
            self.new.calls.append(self.old.calls[number])
        return self.new.literal(float(self.calls[number]), F64)

    def _value(self, value: int) -> int:
        found = self.values.get(value)
        if found is None:
            storage, offset = self._place(value)
            # Only layouts of its own, so that a body's digest does not depend on what was recorded before.
            layout = self.old.layouts[self.old.values[value][2]]
            address = storage, offset, self.new.layout_number(layout.dims, layout.strides)
            found = self.values[value] = self.new.values.append(address)
        return found

    def _place(self, value: int) -> tuple[int, int]:
        """Return the new storage and offset of a value."""
        old, new, key = self.old, self.new, self.stretch.keys[value]
        storage, offset, _ = old.values[value]
        size, family, _ = old.storages[storage]
        literal = self.stretch.literals.get(key)
        if key in self.stretch.captured:
            storage, scalar = self._captured(key)
            return storage, 0 if scalar else offset
        level = CONSTANT if literal is not None and key not in self.stretch.made else self._level(key)
        if key in self._carried or key >= 0:
            if key not in self.storages:
                self.storages[key] = len(new.storages)
                new.storages.append((size if key >= 0 else 1, family, level))
                if literal is not None:
                    new.literals.append(Literal(self.storages[key], literal.offset, literal.data))
            return self.storages[key], offset if key >= 0 else 0
        pool = 2 * level + family
        if key not in self.storages:
            self.storages[key] = new.pool_cells[pool]
            new.pool_cells[pool] += 1
            if literal is not None:
                new.literals.append(Literal(pool, self.storages[key], literal.data))
        return pool, self.storages[key]

    def _captured(self, key: int) -> tuple[int, bool]:
        """Return (the new storage of what is captured, whether it was a scalar of a pool)."""
        old, new, scalar = self.old, self.new, key < 0
        if key not in self.storages:
            size, family, level = (
                1 if scalar else old.storages[key][0],
                family_of_key(old, key),
                self._level(key),
            )
            self.storages[key] = self.inputs[key] = len(new.storages)
            new.storages.append((size, F64, level))
            if family != F64:
                self.storages[key] = len(new.storages)
                new.storages.append((size, family, level))
                narrow, wide = (new.view(its[key], 0, (size,), (1,)) for its in (self.storages, self.inputs))
                cast = opcode(old.ops.number["cast"], family)
                self.casts.append(Instruction(cast, int(level == ACTIVE), MAIN, narrow, wide))
        return self.storages[key], scalar


def own_sizes(sizes: Sizes) -> Sizes:
    """Return sizes to which a body may add: the same codes, without the relations between them."""
    rows = tuple(sizes.rows)
    dimensions = {left: value for (op, left, _), value in zip(rows, sizes.values, strict=True) if op == INPUT}
    count = max(dimensions, default=-1) + 1
    given = [dimensions.get(k, 0) for k in range(count)]
    return Sizes.resume(SizeTable(rows, ()), [*range(count)], given)


def input_codes(sizes: Sizes) -> tuple[int, ...]:
    """Return the size code of each input dimension, 0 for one that no expression uses."""
    codes = {left: -k - 1 for k, (op, left, _) in enumerate(sizes.rows) if op == INPUT}
    return tuple(codes.get(k, 0) for k in range(max(codes, default=-1) + 1))


def address_of(key: int) -> tuple[int, int]:
    """Return the storage and the offset that a key names."""
    return (key, 0) if key >= 0 else cell_of(key)


def family_of_key(builder: TapeBuilder, key: int) -> int:
    """Return the family of the cells that a key names."""
    return builder.storages[address_of(key)[0]][1]
