"""Several steps of a loop as one, for bodies of arrays: the instructions are repeated on further storages."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops import OPCODE
from ..tape.bodies import Stretch, address_of
from ..tape.instruction import MAIN, NONE, Instruction, opcode
from ..tape.tape import ACTIVE, F64, POOLS, VARYING
from . import addresses

MOST_ROWS = 20  # instructions of a step: with more of them, what is saved is less than a tenth
MOST_IN_BODY = 60  # instructions of all steps together
MOST_CELLS = 512  # cells that a step writes: where it writes more, its time is that of its arrays
MOST_STEPS = 12
# Of a loop in the body of another one whose steps are written out: steps, and the cells that they write. A
# reverse sweep saves these in each step of the outer loop, where it would save that loop's carries alone.
MOST_TURNS, MOST_KEPT = 8, 256

Place = tuple[int, int]  # a storage, and an offset there as a size code


def array_steps_together(stretch: Stretch, rows: Sequence[Instruction]) -> int:
    """Return how many steps of a loop become one; 1 where that does not pay.

    Parameters
    ----------
    stretch
        The body.
    rows
        Those of its instructions that stay in the loop.
    """
    if not rows or len(rows) > MOST_ROWS or not _may_be_repeated(stretch, rows):
        return 1
    return min(MOST_STEPS, MOST_IN_BODY // len(rows))


def _may_be_repeated(stretch: Stretch, rows: Sequence[Instruction], most: int = MOST_CELLS) -> bool:
    """Whether instructions can be repeated on further storages, and write at most so many cells of arrays."""
    tape = stretch.builder
    if any(row.family != F64 or tape.ops[row.row].casts for row in rows):
        return False
    written = {address_of(stretch.keys[x])[0] for row in rows for x in row.results}
    cells = sum(tape.sizes.value(tape.storages[storage][0]) for storage in written if storage >= len(POOLS))
    return cells <= most


def may_be_written_out(stretch: Stretch, steps: int) -> bool:
    """Whether all steps of a loop that stands in the body of another one are written out there."""
    tape, rows = stretch.builder, stretch.body
    fits = 0 < steps <= MOST_TURNS and steps * len(rows) <= MOST_IN_BODY and not stretch.guards
    alone = fits and not any(tape.ops[row.row].calls for row in rows)
    read_only = alone and stretch.made.isdisjoint(stretch.keys[x] for x in stretch.inputs)
    return read_only and _may_be_repeated(stretch, rows, MOST_KEPT // steps)


class RepeatedSteps:
    """A body that makes several steps. Parameters and attributes are those of `UnrolledSteps`.

    Parameters
    ----------
    places
        Where the carries are before the first step; None for where the body has them.
    """

    def __init__(
        self,
        stretch: Stretch,
        carries: int,
        past: Sequence[int],
        count: int,
        places: Sequence[Place] | None = None,
    ):
        self.one, self.builder = stretch, stretch.builder
        self._rows: list[Instruction] = []
        self._inputs = {self.builder.storage_of(value) for value in stretch.inputs}
        self._homes: dict[int, Place] = {}  # for each key, where its cells are in the present step
        self._values: dict[int, int] = {}  # for each value, its number in the present step
        keys, starts, slices = stretch.keys, stretch.inputs[:carries], stretch.inputs[carries:]
        stacked = stretch.outputs[carries:]
        wide, stacks = ([self._wide(x, count) for x in values] for values in (slices, stacked))
        earlier = [self._wide(starts[k], count) for k in past]
        before = [*map(self._place, starts)] if places is None else [*places]
        # The verifier wants positions in a storage that nothing writes to later, such as another step's row.
        copied = {keys[x] for row in stretch.body for x in self._positions_of(row)}
        if (
            places is not None
        ):  # An output of a whole body may be an input, a part of an array, or there twice.
            copied = {*map(keys.__getitem__, stacked)}
        apart = [(x, whole) for x, whole in zip(stacked, stacks, strict=True) if keys[x] in copied]
        for step in range(count):
            self._values = {}
            self._homes = {keys[x]: place for x, place in zip(starts, before, strict=True)}
            for values, wholes in ((slices, wide), (stacked, stacks)):
                for value, whole in zip(values, wholes, strict=True):
                    if (value, whole) in apart:
                        continue
                    self._homes[keys[value]] = self._row_place(value, whole, step)
            for k, whole in zip(past, earlier, strict=True):
                self._copied(starts[k], self._row_place(starts[k], whole, step))
            self._rows += [self._repeated(row) for row in stretch.body]
            for value, whole in apart:
                self._copied(value, self._row_place(value, whole, step))
            before = [self._dense(value) for value in stretch.outputs[:carries]]
        ends = [
            self._view(place, self.builder.layout_of(value).dims)
            for place, value in zip(before, stretch.outputs, strict=False)
        ]
        self.stretch = stretch.part(self._rows, [*starts, *wide], [*ends, *stacks, *earlier])

    def _positions_of(self, row: Instruction) -> list[int]:
        """Return the operands of an instruction that are positions."""
        index = getattr(self.builder.ops[row.row], "index", "")
        return [x for letter, x in zip("abc", (row.a, row.b, row.c), strict=True) if letter in index]

    def _wide(self, value: int, count: int) -> int:
        """Return a new matrix with a row for each step, each with the entries of a value."""
        level = max(VARYING, self.builder.level_of(value))
        return self.builder.array((count, self._size(value)), F64, level)

    def _size(self, value: int) -> int:
        return self.builder.sizes.product(self.builder.layout_of(value).dims)

    def _row_place(self, value: int, whole: int, step: int) -> Place:
        return self.builder.storage_of(whole), self.builder.sizes.mul(step, self._size(value))

    def _place(self, value: int) -> Place:
        storage, offset, _ = self.builder.values[value]
        return storage, offset

    def _view(self, place: Place, dims: tuple[int, ...]) -> int:
        return self.builder.view(*place, dims, self.builder.contiguous_strides(dims)[0])

    def _repeated(self, row: Instruction) -> Instruction:
        out, a, b, c, aux = (
            x if x == NONE else self._now(x) for x in (row.out, row.a, row.b, row.c, row.aux)
        )
        if row.out in self.builder.spare:
            self.builder.spare.add(out)
        return row.replace(out=out, a=a, b=b, c=c, aux=aux)

    def _now(self, value: int) -> int:
        """Return what a value of the body is in the present step."""
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = self._moved(value)
        return found

    def _moved(self, value: int) -> int:
        tape, key = self.builder, self.one.keys[value]
        storage, offset, layout = tape.values[value]
        home = self._homes.get(key)
        if home is None:
            if key not in self.one.made:
                return value
            level = max(VARYING, tape.storages[storage][2])
            if key < 0:
                home = self._place(tape.scalar(F64, level))
            else:
                tape.storages.append((tape.storages[storage][0], F64, level))
                home = len(tape.storages) - 1, 0
            self._homes[key] = home
        # A key below zero names one cell of a pool; other keys name all cells of a storage.
        return tape.seen_as(home[0], home[1] if key < 0 else tape.sizes.add(home[1], offset), layout)

    def _dense(self, value: int) -> Place:
        """Return where the entries of a value stand one after the other at the end of the present step.

        They do not stand in an input of the body, which the next carries are copied to one by one.
        """
        now = self._now(value)
        if addresses.is_dense(self.builder, now) and self.builder.storage_of(now) not in self._inputs:
            return self._place(now)
        dims = self.builder.layout_of(value).dims
        fresh = self.builder.array(dims, F64, max(VARYING, self.builder.level_of(value)))
        self._copied(value, self._place(fresh))
        return self._place(fresh)

    def _copied(self, value: int, place: Place) -> None:
        out, source = self._view(place, self.builder.layout_of(value).dims), self._now(value)
        active = int(self.builder.level_of(source) == self.builder.level_of(out) == ACTIVE)
        self._rows.append(Instruction(opcode(OPCODE["copy"], F64), active, MAIN, out, source))
