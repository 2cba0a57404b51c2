"""What depends on what in the body of a loop, and what becomes of it: vectors, recurrences, or a loop.

The instructions and the carries of a step form a graph, in which a carry depends on the instruction that
computes its next value. Its strongly connected components are single instructions, or circles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..tape import TapeBuilder
from ..tape.bodies import Stretch, address_of
from ..tape.instruction import Instruction
from ..tape.rerolling.components import components
from ..tape.tape import CONSTANT, F64
from .linear_carries import LinearCarry

VECTOR, SHIFTED, LINEAR, LOOP = range(4)  # what becomes of a component
WIDEST = 64  # cells: operations on longer arrays gain nothing, and need memory for all steps
WIDEST_PRODUCT = 1024  # cells of a product: one product of matrices is faster than many with a vector
MOST = 1 << 23  # cells that vectors may take


class Component(NamedTuple):
    """Instructions and carries that depend on each other; most often one of them."""

    what: int
    rows: list[Instruction]
    carries: list[int]


class LoopComponents:
    """The components of a loop's body, in an order in which they can be computed.

    Parameters
    ----------
    stretch
        The body.
    carries
        How many of its inputs, and of its outputs, are carries.
    length
        How many steps there are, a size code.
    levels
        The levels of what fills the inputs, if all stays in the loop that is not the same in all calls.
        None if as much as possible leaves it.

    Attributes
    ----------
    rows
        The instructions that are needed.
    writers
        By key (`numbatape.tape.uses.keys_of`): the numbers of the instructions that write there.
    before, inside, behind
        The components that come before the loop, those that it consists of, and those that follow it.
    """

    def __init__(self, stretch: Stretch, carries: int, length: int, levels: Sequence[int] | None = None):
        self.stretch, self.carries, self.length = stretch, carries, length
        self.builder: TapeBuilder = stretch.builder
        self.keys = stretch.keys
        self.rows = self._live()
        self._inputs = {self.keys[value]: k for k, value in enumerate(stretch.inputs)}
        self._moving = self._inputs.keys() | stretch.made
        self._staying = set() if levels is None else self._changing(levels)
        self._split()

    def _live(self) -> list[Instruction]:
        """Return the instructions that an output needs, or that may fail."""
        keys, found = self.keys, []
        needed = {keys[x] for x in self.stretch.outputs}
        for row in reversed(self.stretch.body):
            if row.row in self.builder.ops.fallible or any(keys[x] in needed for x in row.results):
                found.append(row)
                needed.update(keys[x] for x in row.operands)
        return found[::-1]

    def _changing(self, levels: Sequence[int]) -> set[int]:
        """Return the keys of what is not the same in all calls, given the levels of what fills the inputs."""
        keys, stretch, storages = self.keys, self.stretch, self.builder.storages
        found = {key for key in stretch.captured if storages[address_of(key)[0]][2] != CONSTANT}
        found |= {keys[x] for x, level in zip(stretch.inputs, levels, strict=True) if level != CONSTANT}
        ends = [*zip(stretch.inputs[: self.carries], stretch.outputs, strict=False)]
        before = -1
        while before != len(found):
            before = len(found)
            for row in self.rows:
                if any(keys[x] in found for x in row.operands):
                    found.update(keys[x] for x in row.results)
            found.update(keys[start] for start, end in ends if keys[end] in found)
        return found

    def _edges(self) -> list[set[int]]:
        """Return for each instruction, and then for each carry, what it depends on."""
        rows, keys = self.rows, self.keys
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
        k = self._inputs.get(key, self.carries)
        return [len(self.rows) + k] if k < self.carries else self.writers.get(key, [])

    def _split(self) -> None:
        """Split the body into parts that run before the loop, in it, and behind it.

        A part belongs in the loop if it depends on a loop's circle and such a circle depends on it. It may be
        such a circle itself.
        """
        body, edges = self.rows, self._edges()
        found = components(edges)
        place = {node: k for k, nodes in enumerate(found) for node in nodes}
        parts = [
            self._component(
                [body[k] for k in nodes if k < len(body)], [k - len(body) for k in nodes if k >= len(body)]
            )
            for nodes in found
        ]
        needs = [
            {place[other] for node in nodes for other in edges[node]} - {k} for k, nodes in enumerate(found)
        ]
        looped = [part.what == LOOP for part in parts]
        # A component is late if it depends on a loop, and early if a loop depends on it.
        late, early = looped[:], looped[:]
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
        what, keys = LOOP, self.keys
        made = [*(row.out for row in rows), *(self.stretch.inputs[k] for k in carries)]
        if any(keys[x] in self._staying for x in made):
            return Component(what, rows, carries)
        if not carries and len(rows) == 1 and self._serves_all_steps(rows[0]):
            what = VECTOR
        elif all(map(self._is_vector, rows)):
            if not carries and len({self.keys[row.out] for row in rows}) == 1:
                what = VECTOR
            elif len(carries) == 1 and not rows:
                (k,) = carries
                small = self._size(self.keys[self.stretch.inputs[k]]) is not None
                what = SHIFTED if small or self.stays(k) else LOOP
            elif len(carries) == 1 and self.circle(rows, carries[0]).is_linear:
                what = LINEAR
        return Component(what, rows, carries)

    def stays(self, k: int) -> bool:
        """Whether each step returns a carry as it is."""
        return self.keys[self.stretch.inputs[k]] == self.keys[self.stretch.outputs[k]]

    def circle(self, rows: list[Instruction], k: int) -> LinearCarry:
        """Return the instructions of the circle through carry ``k`` as what may be a linear recurrence."""
        ends = self.keys[self.stretch.inputs[k]], self.keys[self.stretch.outputs[k]]
        return LinearCarry(self.builder, self.keys, rows, *ends)

    def _is_vector(self, row: Instruction) -> bool:
        """Whether it may be one instruction for all steps."""
        op = self.builder.ops[row.row]
        small = all(self._size(self.keys[x]) is not None for x in row.results)
        return (op.elementwise or op.pointwise) and not op.casts and row.family == F64 and small

    def _serves_all_steps(self, row: Instruction) -> bool:
        """Whether an instruction that is not elementwise may be one for all steps."""
        return self.side_of_steps(row) is not None or self.takes_one(row)

    def takes_one(self, row: Instruction) -> bool:
        """Whether it takes one entry, or one row, of an array that is the same in all steps."""
        tape, keys = self.builder, self.keys
        op = tape.ops[row.row]
        if not (op.moves and op.index == "b" and row.family == F64) or keys[row.a] in self._moving:
            return False
        one = tape.layout_of(row.b).dims == (1,) == tape.layout_of(row.out).dims[:1]
        return one and self._size(keys[row.out]) is not None and len(self.writers[keys[row.out]]) == 1

    def side_of_steps(self, row: Instruction) -> int | None:
        """Return which operand of a product differs from step to step, if one product serves all steps.

        This operand is a vector, and the other one is the same in all steps. None for other instructions.
        """
        tape, keys = self.builder, self.keys
        if not tape.ops[row.row].product or row.family != F64:
            return None
        moving = [k for k, x in enumerate(row.operands) if keys[x] in self._moving]
        if len(moving) != 1:
            return None
        (side,) = moving
        alone = tape.layout_of(row.out).dims[side] == 1
        cells = tape.sizes.value(self.cells(keys[row.out]))
        return side if alone and cells <= WIDEST_PRODUCT and len(self.writers[keys[row.out]]) == 1 else None

    def _size(self, key: int) -> int | None:
        """Return how many cells a key names (a size code); None for too many."""
        code = self.cells(key)
        return code if self.builder.sizes.value(code) <= WIDEST else None

    @property
    def core_rows(self) -> list[Instruction]:
        """The instructions that stay in the loop, in their order."""
        kept = {row.out for part in self.inside for row in part.rows}
        return [row for row in self.rows if row.out in kept]

    @property
    def core_carries(self) -> list[int]:
        """The numbers of the carries that stay in the loop."""
        return sorted(k for part in self.inside for k in part.carries)

    @property
    def moves(self) -> bool:
        """Whether instructions leave the loop."""
        return any(part.rows for part in (*self.before, *self.behind))

    @property
    def fits(self) -> bool:
        """Whether the vectors of what leaves the loop do not take too much memory."""
        sizes, moved = self.builder.sizes, [row for part in (*self.before, *self.behind) for row in part.rows]
        cells = sum(sizes.value(self.cells(self.keys[row.out])) for row in moved)
        return cells * sizes.value(self.length) <= MOST

    def cells(self, key: int) -> int:
        """Return how many cells a key names, a size code."""
        return 1 if key < 0 else self.builder.storages[key][0]

    def read(self, key: int, inside: set[int]) -> bool:
        """Whether an instruction that writes none of some keys, or a stacked output, reads a key."""
        keys = self.keys
        return any(keys[x] == key for x in self.stretch.outputs[self.carries :]) or any(
            keys[x] == key for row in self.rows if keys[row.out] not in inside for x in row.operands
        )
