"""The instructions of a frozen tape, appended to a tape under construction."""

from __future__ import annotations

from collections.abc import Callable

from .builder import TapeBuilder
from .families import F64
from .instruction import NONE, Instruction
from .size_tables import INPUT, SUB
from .tape import POOLS, Literal, Tape


class Inlining:
    """A tape whose instructions are appended to another one.

    Parameters
    ----------
    builder
        The tape under construction.
    tape
        The frozen tape. Its source positions and its calls are those of the builder.
    dimensions
        Size codes of the builder, one for each input dimension in the sizes of ``tape``.

    Attributes
    ----------
    places
        For each storage of ``tape``, the storage of the builder and the offset there that take its place.
        Those of inputs have to be set before `run`.
    """

    def __init__(self, builder: TapeBuilder, tape: Tape, dimensions: tuple[int, ...]):
        self.builder, self.tape = builder, tape
        self._codes = _translated(builder, tape, dimensions)
        self._storages = tape.storages.tolist()
        self._addresses = tape.values.tolist()
        self._literals = {self._literal_key(item): item for item in tape.literals}
        self._given: set[int] = set()  # numbers of calls that instructions have
        self.places: dict[int, tuple[int, int]] = {}
        self._cells: dict[tuple[int, int], tuple[int, int]] = {}  # the keys are cells of pools
        self._values: dict[int, int] = {}

    @staticmethod
    def _literal_key(item: Literal) -> tuple[int, int]:
        return item.storage, item.offset if item.storage < len(POOLS) else 0

    def size(self, code: int) -> int:
        """Return the builder's size code for one of the tape."""
        return code if code >= 0 else self._codes[-code - 1]

    def layout(self, value: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return dimensions and strides of a value in the builder's size codes."""
        its = self.tape.layouts[self._addresses[value][2]]
        return tuple(map(self.size, its.dims)), tuple(map(self.size, its.strides))

    def run(self, on_guard: Callable[[int, object], bool]) -> list[int] | None:
        """Append the instructions; return the values of the outputs.

        Parameters
        ----------
        on_guard
            Called as ``on_guard(value, guard)`` in the place of each guard instruction, with the value that
            is compared (for a guard on what lanes agree on, the value with lanes). If it returns False,
            nothing else is appended, and the outputs are None.
        """
        agrees = self.tape.ops.with_trait("agrees")
        agreed: dict[int, int] = {}
        calls = self.tape.ops.with_trait("calls")
        for row in self.tape.instructions():
            if row.is_guard:
                if not on_guard(self.value(agreed.get(row.a, row.a)), self.tape.guards[row.aux]):
                    return None
            elif row.row in agrees:
                agreed[row.out] = row.a
            else:
                self._append(row, row.row in calls)
        return [self.value(number) for number in self.tape.outputs]

    def _append(self, row: Instruction, calls: bool) -> None:
        builder = self.builder
        a, b, c, aux = (NONE if x == NONE else self.value(x) for x in (row.a, row.b, row.c, row.aux))
        if calls:
            c = self._call(row.c)
        builder.emit(row.op, row.active, row.stage, self.value(row.out), a, b, c, aux, row.line)

    def _call(self, value: int) -> int:
        """Return the builder's literal with a number of a call that no other instruction has.

        What instructions share is called by Python, because each of them has operands of its own. The latest
        numbers are those of the instructions that were recorded to be appended here.
        """
        storage, offset, _ = self._addresses[value]
        called, calls = self.tape.calls[int(self._literals[storage, offset].data[0])], self.builder.calls
        free = (k for k in reversed(range(len(calls))) if calls[k] is called and k not in self._given)
        number = next(free, len(calls))
        if number == len(calls):
            calls.append(called)
        self._given.add(number)
        return self.builder.literal(float(number), F64)

    def value(self, number: int) -> int:
        """Return the builder's number of a value of the tape."""
        found = self._values.get(number)
        if found is None:
            storage, offset, _ = self._addresses[number]
            if storage < len(POOLS):
                place, start = self._cell(storage, offset)
            else:
                place, base = self._place(storage)
                start = self.builder.sizes.add(base, self.size(offset))
            found = self._values[number] = self.builder.view(place, start, *self.layout(number))
        return found

    def _cell(self, pool: int, offset: int) -> tuple[int, int]:
        key, builder = (pool, offset), self.builder
        if key not in self._cells:
            level, family = POOLS[pool]
            literal = self._literals.get(key)
            number = (
                builder.scalar(family, level) if literal is None else builder.literal(literal.data[0], family)
            )
            self._cells[key] = builder.values[number][:2]
        return self._cells[key]

    def _place(self, storage: int) -> tuple[int, int]:
        if storage not in self.places:
            builder = self.builder
            size, family, level = self._storages[storage]
            self.places[storage] = len(builder.storages), 0
            builder.storages.append((self.size(size), family, level))
            literal = self._literals.get((storage, 0))
            if literal is not None:
                builder.literals.append(Literal(len(builder.storages) - 1, literal.offset, literal.data))
        return self.places[storage]


def _translated(builder: TapeBuilder, tape: Tape, dimensions: tuple[int, ...]) -> list[int]:
    """Return the builder's size code for each size expression of a tape."""
    sizes, found = builder.sizes, []

    def code_of(code: int) -> int:
        return code if code >= 0 else found[-code - 1]

    for operation, left, right in tape.sizes.rows:
        if operation == INPUT:
            found.append(dimensions[left])
            continue
        if operation == SUB and left == 0 and right >= 0:  # a negative number, see `Sizes.negative`
            found.append(sizes.negative(-right))
            continue
        found.append(sizes.again(operation, code_of(left), code_of(right)))
    for guard in tape.sizes.guards:
        sizes.guard(code_of(guard.left), guard.relation, code_of(guard.right), guard.line)
    return found
