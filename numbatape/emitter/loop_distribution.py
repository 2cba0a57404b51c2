"""Loop distribution: what the steps of a loop compute independently of each other becomes vectors.

The body of a loop was recorded for one step. Its instructions and its carries form a graph, in which a carry
depends on the instruction that computes its next value. An elementwise instruction that is in no circle is
one instruction on vectors over all steps. A carry that is in no circle is a shifted copy of its next values.
A circle that makes ``a*z + b`` of one number ``z`` is a linear recurrence, or a sum. All other circles, and
what stands between two of them, stay in the loop, which gets what is computed before it as slices, and
stacks what is needed behind it. (Re-rolling does the same to the turns of a Python loop, whose number is
known: `numbatape.tape.rerolling.distribution`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..tape import TapeBuilder
from ..tape.bodies import Stretch, address_of
from ..tape.instruction import MAIN, NONE, Instruction
from ..tape.rerolling.components import components
from ..tape.tape import ACTIVE, F64, VARYING
from . import addresses, instructions
from .instructions import row as op_row
from .linear_carries import LinearCarry

VECTOR, SHIFTED, LINEAR, LOOP = range(4)  # what becomes of a component
WIDEST = 64  # cells: operations on longer arrays gain nothing, and need memory for all steps
MOST = 1 << 23  # cells that vectors may take


class Component(NamedTuple):
    """Instructions and carries that depend on each other; most often one of them."""

    what: int
    rows: list[Instruction]
    carries: list[int]


class Home(NamedTuple):
    """Where the cells are that a key names, in all steps: those of a step are ``lane`` cells apart."""

    storage: int
    offset: int
    lane: int


class Core(NamedTuple):
    """What stays in a loop.

    Attributes
    ----------
    stretch
        The body. Its inputs are carries and then slices, its outputs are carries and then stacked ones.
    carries
        Numbers of its carries among those of the whole loop.
    slices
        What fills its slices: matrices with a row for each step.
    stacks
        Keys of the stacked outputs.
    past
        Carries that are needed as they are before each step: the key and the number of each.
    """

    stretch: Stretch
    carries: list[int]
    slices: list[int]
    stacks: list[int]
    past: list[tuple[int, int]]


class LoopDistribution:
    """The body of a loop, split into what is computed before the loop, in it and behind it.

    Parameters
    ----------
    stretch
        The body. It runs at least once.
    carries
        How many of its inputs, and of its outputs, are carries.
    length
        How many steps there are, a size code.

    Attributes
    ----------
    before, inside, behind
        Components in an order in which they can be computed.
    """

    def __init__(self, stretch: Stretch, carries: int, length: int):
        self.stretch, self.length = stretch, length
        self.builder: TapeBuilder = stretch.builder
        self.keys = stretch.keys
        self.carries = carries
        self.inputs = {self.keys[value]: k for k, value in enumerate(stretch.inputs)}
        self.homes: dict[int, Home] = {}
        self.last: dict[int, int] = {}  # by carry: its value behind the last step
        self._split()

    # ---- what depends on what

    def _edges(self) -> list[set[int]]:
        """Return for each instruction, and then for each carry, what it depends on."""
        rows, keys = self.stretch.body, self.keys
        self.writers: dict[int, list[int]] = {}
        for k, row in enumerate(rows):
            for value in row.results:
                self.writers.setdefault(keys[value], []).append(k)
        edges = [{source for value in row.operands for source in self._sources(keys[value])} for row in rows]
        for several in self.writers.values():  # instructions that fill one array stay together
            for k, before in zip(several[1:], several, strict=False):
                edges[k].add(before)
                edges[before].add(k)
        outputs = self.stretch.outputs[: self.carries]
        return edges + [set(self._sources(keys[value])) for value in outputs]

    def _sources(self, key: int) -> list[int]:
        """Return the instructions or the carry that a key's cells come from."""
        k = self.inputs.get(key, self.carries)
        return [len(self.stretch.body) + k] if k < self.carries else self.writers.get(key, [])

    def _split(self) -> None:
        body, edges = self.stretch.body, self._edges()
        found = components(edges)
        place = {node: k for k, nodes in enumerate(found) for node in nodes}
        parts = [
            self._component([body[k] for k in nodes if k < len(body)], [k - len(body) for k in nodes if k >= len(body)])
            for nodes in found
        ]
        needs = [{place[other] for node in nodes for other in edges[node]} - {k} for k, nodes in enumerate(found)]
        looped = [part.what == LOOP for part in parts]
        late, early = looped[:], looped[:]  # what depends on loops, what loops depend on
        for k, its in enumerate(needs):
            late[k] |= any(late[other] for other in its)
        for k in reversed(range(len(parts))):
            for other in needs[k]:
                early[other] |= early[k]
        core = [a and b for a, b in zip(late, early, strict=True)]
        numbered = list(zip(parts, core, late, strict=True))
        self.before = [part for part, inside, behind in numbered if not inside and not behind]
        self.inside = [part for part, inside, _ in numbered if inside]
        self.behind = [part for part, inside, behind in numbered if behind and not inside]

    def _component(self, rows: list[Instruction], carries: list[int]) -> Component:
        what = LOOP
        if all(map(self._is_vector, rows)):
            if not carries and len({self.keys[row.out] for row in rows}) == 1:
                what = VECTOR
            elif len(carries) == 1 and not rows:
                (k,) = carries
                small = self._size(self.keys[self.stretch.inputs[k]]) is not None
                what = SHIFTED if small or self._stays(k) else LOOP
            elif len(carries) == 1 and self._circle(rows, carries[0]).is_linear:
                what = LINEAR
        return Component(what, rows, carries)

    def _stays(self, k: int) -> bool:
        """Whether each step returns a carry as it is."""
        return self.keys[self.stretch.inputs[k]] == self.keys[self.stretch.outputs[k]]

    def _circle(self, rows: list[Instruction], k: int) -> LinearCarry:
        ends = self.keys[self.stretch.inputs[k]], self.keys[self.stretch.outputs[k]]
        return LinearCarry(self.builder, self.keys, rows, *ends)

    def _is_vector(self, row: Instruction) -> bool:
        """Whether it may be one instruction for all steps."""
        op = self.builder.ops[row.row]
        small = all(self._size(self.keys[x]) is not None for x in row.results)
        return op.elementwise and not op.casts and row.family == F64 and small

    def _size(self, key: int) -> int | None:
        """Return how many cells a key names (a size code); None for too many."""
        code = self._cells(key)
        return code if self.builder.sizes.value(code) <= WIDEST else None

    @property
    def pays(self) -> bool:
        """Whether instructions leave the loop, and their vectors do not take too much memory."""
        sizes, moved = self.builder.sizes, [row for part in (*self.before, *self.behind) for row in part.rows]
        cells = sum(sizes.value(self._size(self.keys[row.out]) or 0) for row in moved)
        return bool(moved) and cells * sizes.value(self.length) <= MOST

    # ---- what stays in the loop

    def core(self) -> Core:
        """Return what stays in the loop, when what is before it has been emitted."""
        stretch, keys = self.stretch, self.keys
        carries = sorted(k for part in self.inside for k in part.carries)
        kept = {row.out for part in self.inside for row in part.rows}
        rows = [row for row in stretch.body if row.out in kept]
        made = {keys[x] for row in rows for x in row.results}
        ends = [stretch.outputs[k] for k in carries]
        read = dict.fromkeys(keys[x] for x in (*(x for row in rows for x in row.operands), *ends))
        slices = [key for key in read if key in self.homes]
        later = [x for part in self.behind for row in part.rows for x in row.operands]
        later += [x for k, x in enumerate(stretch.outputs) if k not in carries]
        wanted = dict.fromkeys(keys[x] for x in later)
        stacks = [key for key in wanted if key in made]
        own = {keys[stretch.inputs[k]]: k for k in carries}
        past = [(key, own[key]) for key in wanted if key in own]
        part = stretch.part(
            rows,
            [*(stretch.inputs[k] for k in carries), *map(self._whole, slices)],
            [*ends, *map(self._whole, stacks)],
        )
        return Core(part, carries, list(map(self._rows, slices)), stacks, past)

    def place(self, key: int, result: int, start: int) -> None:
        """Note where the result of the loop has a key's cells in all steps, one step after the other."""
        storage, offset, _ = self.builder.values[result]
        self.homes[key] = Home(storage, self.builder.sizes.add(offset, start), self._cells(key))

    def _cells(self, key: int) -> int:
        """Return how many cells a key names, a size code."""
        return 1 if key < 0 else self.builder.storages[key][0]

    def _whole(self, key: int) -> int:
        """Return all cells that a key names as a value of the body."""
        storage, offset = address_of(key)
        return self.builder.view(storage, offset, (self._cells(key),), (1,))

    def _rows(self, key: int) -> int:
        """Return all cells that a key names in all steps: a matrix with a row for each step."""
        home = self.homes[key]
        dims = self.length, self._cells(key)
        return self.builder.view(home.storage, home.offset, dims, (home.lane, 1))

    # ---- vectors

    def take(self, k: int, number: int) -> None:
        """Note what fills input ``k``, a slice: a value whose first axis numbers the steps."""
        tape, layout = self.builder, addresses.layout_of(self.builder, number)
        if len(layout.dims) > 1 and not addresses.is_dense(tape, number):
            number = instructions.elementwise(tape, op_row("copy"), F64, [number], NONE)
        storage, offset, _ = tape.values[number]
        lane = addresses.layout_of(tape, number).strides[0]
        self.homes[self.keys[self.stretch.inputs[k]]] = Home(storage, offset, lane)

    def emit(self, parts: Sequence[Component], first: Sequence[int]) -> None:
        """Append what components compute; ``first`` are the carries before the first step."""
        for part in parts:
            if part.what == VECTOR:
                for row in part.rows:
                    self._append(row)
            elif part.what == SHIFTED:
                self._shift(part.carries[0], first[part.carries[0]])
            else:
                self._recur(part, first[part.carries[0]])

    def lanes(self, value: int, padding: int = 0) -> int:
        """Return a value of the body in all steps; one that is the same in all of them as it is.

        ``padding`` says how many axes are missing behind that of the steps.
        """
        tape = self.builder
        home = self.homes.get(self.keys[value])
        if home is None:
            return value
        _, offset, layout = tape.values[value]
        dims, strides = tape.layouts[layout].dims, tape.layouts[layout].strides
        offset = home.offset if self.keys[value] < 0 else tape.sizes.add(home.offset, offset)
        wide = (self.length, *[1] * padding, *dims), (home.lane, *[0] * padding, *strides)
        return tape.view(home.storage, offset, *wide)

    def in_all_steps(self, value: int) -> int:
        """Return a value of the body with an axis of steps, also one that is the same in all of them."""
        number = self.lanes(value)
        dims = addresses.layout_of(self.builder, value).dims
        return number if number != value else addresses.broadcast(self.builder, value, (self.length, *dims))

    def behind_last(self, k: int) -> int:
        """Return carry ``k`` behind the last step."""
        if k not in self.last:
            value = self.stretch.outputs[k]
            self.last[k] = self._step(self.in_all_steps(value), self.builder.sizes.sub(self.length, 1))
        return self.last[k]

    def _step(self, number: int, step: int) -> int:
        """Return what a value with an axis of steps is in one of them."""
        tape, layout = self.builder, addresses.layout_of(self.builder, number)
        offset = tape.sizes.add(tape.values[number][1], tape.sizes.mul(step, layout.strides[0]))
        return addresses.view(tape, number, layout.dims[1:], layout.strides[1:], offset)

    def _append(self, row: Instruction) -> None:
        """Append an instruction for all steps."""
        tape, key = self.builder, self.keys[row.out]
        if key not in self.homes:
            # Several instructions may fill an array. What they read has been computed.
            level = ACTIVE if any(map(self._active, (self.stretch.body[k] for k in self.writers[key]))) else VARYING
            tape.storages.append((tape.sizes.mul(self.length, self._cells(key)), F64, level))
            self.homes[key] = Home(len(tape.storages) - 1, 0, self._cells(key))
        operands, unused = self._operands(row), instructions.UNUSED[4 - len(row.operands)]
        out = self.lanes(row.out)
        tape.code.recent += (row.op, self._active(row), MAIN, out, *operands, *unused, row.line)

    def _operands(self, row: Instruction) -> list[int]:
        rank = self._rank(row.out)
        return [self.lanes(x, rank - self._rank(x)) for x in row.operands]

    def _active(self, row: Instruction) -> int:
        """Return which operands take an adjoint, as bits."""
        levels = [self.builder.storages[self._storage(x)][2] for x in row.operands]
        return sum(1 << k for k, level in enumerate(levels) if row.takes(k) and level == ACTIVE)

    def _storage(self, value: int) -> int:
        """Return the storage of a value of the body, or of what it is in all steps."""
        home = self.homes.get(self.keys[value])
        return self.builder.values[value][0] if home is None else home.storage

    def _rank(self, value: int) -> int:
        return len(addresses.layout_of(self.builder, value).dims)

    def _shift(self, k: int, first: int) -> None:
        """Compute a carry whose next value does not depend on it."""
        tape, key = self.builder, self.keys[self.stretch.inputs[k]]
        output = self.stretch.outputs[k]
        if self._stays(k):
            storage, offset, _ = tape.values[first]
            self.homes[key] = Home(storage, offset, 0)
            self.last[k] = first
            return
        if not self._read(key, set()):
            return
        rows, line = self.lanes(output), NONE
        level = max(VARYING, tape.level_of(first), tape.level_of(rows))
        dims = addresses.layout_of(tape, first).dims
        inner, size = tape.contiguous_strides(dims)
        cells = tape.sizes.mul(tape.sizes.add(self.length, 1), size)
        tape.storages.append((cells, F64, level))
        storage = len(tape.storages) - 1
        instructions.copied_into(tape, tape.view(storage, 0, dims, inner), first, line)
        behind = tape.view(storage, size, (self.length, *dims), (size, *inner))
        instructions.copied_into(tape, behind, rows, line)
        self.homes[key] = Home(storage, 0, size)
        self.last[k] = self._step(behind, tape.sizes.sub(self.length, 1))

    def _read(self, key: int, inside: set[int]) -> bool:
        """Whether an instruction that writes none of some keys, or a stacked output, reads a key."""
        keys = self.keys
        return any(keys[x] == key for x in self.stretch.outputs[self.carries :]) or any(
            keys[x] == key for row in self.stretch.body if keys[row.out] not in inside for x in row.operands
        )

    def _recur(self, part: Component, first: int) -> None:
        """Compute a carry that each step multiplies and adds to."""
        (k,) = part.carries
        tape, keys, circle = self.builder, self.keys, self._circle(part.rows, k)
        start, end = keys[self.stretch.inputs[k]], keys[self.stretch.outputs[k]]
        made = {keys[row.out] for row in part.rows}
        read = {key for key in (start, *made) if self._read(key, made)}
        read |= made & {keys[x] for j, x in enumerate(self.stretch.outputs[: self.carries]) if j != k}
        if not read and circle.is_sum:
            self.last[k] = circle.total(self.lanes, self.length, first)
            return
        states = circle.states(self.lanes, self.length, first)
        storage, offset, _ = tape.values[states]
        self.homes[start] = Home(storage, offset, 1)
        self.homes[end] = Home(storage, tape.sizes.add(offset, 1), 1)
        self.last[k] = tape.view(storage, tape.sizes.add(offset, self.length), (), ())
        needed = []
        for row in reversed(part.rows):
            if keys[row.out] in read - {end}:
                needed.append(row)
                read.update(made & {keys[x] for x in row.operands})
        for row in reversed(needed):
            self._append(row)
