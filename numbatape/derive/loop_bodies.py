"""Bodies of derivatives of loops: a loop's instruction taken apart, and a loop put together.

A derivative's body starts as the body of the loop, to which the derivative is appended. What fills each of
its inputs is noted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.instructions import row as op_row
from ..emitter.symbol import Symbol
from ..ops import ROWS
from ..tape import Tape
from ..tape.combinations import flatnonzero
from ..tape.instruction import value_numbers
from ..tape.loop import CAPTURE, SLICE, STACK, Branches, Loop, Out, Port
from ..tape.passes import PASSES
from ..tape.resume import keep_histories, resumed, without_guards
from ..tape.size_tables import INPUT
from ..tape.sizes import Sizes
from ..tape.tape import ACTIVE, F64, InputSlot


@dataclass
class Given:
    """What an input of a derivative's body gets.

    Attributes
    ----------
    role
        As in `Port`.
    source
        What fills it: cells one after the other, of all steps for a slice. None for a sum's first zeros.
    out
        Whether an output of the body is its next value.
    """

    role: str
    source: Symbol | None
    out: bool = False


class Call:
    """A loop instruction, taken apart.

    Parameters
    ----------
    emitter
        Appends to the tape that the instruction stands on.
    loop, out, numbers
        The loop, the instruction's result and its operands.
    """

    def __init__(self, emitter: Emitter, loop: Loop, out: int | None, numbers):
        self.emitter, self.loop, self.out, self.numbers = emitter, loop, out, numbers
        self.sizes = emitter.tape.sizes
        self.read_before = reads_history(emitter.tape, loop, out)
        self._past: int | None = out if loop.history is not None else None
        self._with_past = loop

    def cells(self, number: int, start: int, count: int) -> Symbol:
        """Return some cells of a vector (size codes)."""
        return Symbol(self.emitter, addresses.cut(self.emitter.tape, number, 0, start, count))

    def extent(self, port: Port) -> int:
        """Return how many cells of an operand a port stands for: all rows of a slice."""
        return self.sizes.mul(self.loop.length, port.count) if port.role == SLICE else port.count

    def source(self, k: int) -> Symbol:
        """Return what fills input ``k`` of the body; for a carry, what fills it in the first step."""
        port = self.loop.ports[k]
        return self.cells(self.numbers[port.operand], port.start, self.extent(port))

    def out_extent(self, out: Out) -> int:
        return self.sizes.mul(self.loop.length, out.count) if out.role == STACK else out.count

    def past(self, k: int) -> Symbol:
        """Return the rows of a carry before each step."""
        if self._past is None:  # the loop did not keep its carries, so it runs again
            self._with_past = self.loop.with_history(self.sizes)
            a, b = (Symbol(self.emitter, number) for number in self.numbers[:2])
            self._past = emit(self.emitter, self._with_past, a, b).number
        assert self._with_past.history is not None
        start = self._with_past.history[self.loop.carries.index(k)]
        return self.cells(self._past, start, self.sizes.mul(self.loop.length, self.loop.ports[k].count))

    def steps(self) -> Symbol | None:
        """Return the number of steps where it is data; None where it is the length."""
        if self.loop.test is not None:
            return self.emitter.still(self.cells(self.out, self.loop.counted, 1))
        if self.loop.steps is None:
            return None
        return self.cells(self.numbers[1], self.loop.steps, 1)

    def zeros(self, count: int) -> Symbol:
        emitter = self.emitter
        zero = Symbol(emitter, emitter.tape.zero(F64))
        return emitter.broadcast(zero, (count,))


def reads_history(tape, loop: Loop, out: int | None) -> bool:
    """Whether anything that was recorded may read the rows of carries in a loop's result.

    A view may begin anywhere among these rows: on a finished tape there are only views that are read, such as
    one column of a carry, and rows in reverse order begin with the last one.
    """
    if out is None or not loop.history:  # a map has no carries
        return False
    size, (storage, first, _) = tape.sizes.value, tape.values[out]
    begin = size(first) + min(map(size, loop.history))
    views = flatnonzero(tape.values.addresses()[0] == storage)
    for value in views[views != out].tolist():
        _, offset, layout = tape.values[value]
        its = tape.layouts[layout]
        steps = [(size(dim) - 1) * size(stride) for dim, stride in zip(its.dims, its.strides, strict=True)]
        if size(offset) + sum(max(step, 0) for step in steps) >= begin:
            return True
    code = value_numbers(tape.columns())
    return bool((code[:, 1:] == out).any())


def emit(emitter: Emitter, loop: Loop | Branches, a: Symbol, b: Symbol) -> Symbol:
    """Append the instruction that runs a loop; return its result."""
    tape = emitter.tape
    number = len(tape.calls)
    tape.calls.append(loop)
    operands = [a.number, b.number, tape.literal(float(number), F64)]
    op = op_row("call")
    return Symbol(
        emitter, instructions.array_op(tape, op, F64, operands, emitter.line, {"m": loop.extents[0]})
    )


class Body:
    """The body of a derivative, under construction: what an input of it gets is noted with it.

    Parameters
    ----------
    call
        The loop that the derivative is of.
    """

    def __init__(self, call: Call):
        loop, sizes = call.loop, call.sizes
        self.call = call
        self.loop = loop
        self.dimensions = tuple(map(sizes.value, loop.dimensions))
        # The call that a derivative belongs to has checked the guards of its body.
        self.tape = resumed(without_guards(loop.body), self.dimensions, ROWS)
        keep_histories(self.tape)
        around = call.emitter
        self.emitter = Emitter(self.tape, around.strong, around.cubes)
        self.stop = len(self.tape.code)
        self.given: list[Given] = []
        self.values: list[int] = []
        self.outputs: list[tuple[int, int, int]] = []  # (value, number of the input that it is next, or -1)
        self._known = set(self.tape.sizes.guards)

    def input(self, like: int, given: Given, level: int = ACTIVE) -> int:
        """Add an input in the dimensions of a value; return its number among the inputs."""
        tape = self.tape
        dims = tape.layout_of(like).dims
        strides, size = tape.contiguous_strides(dims)
        tape.storages.append((size if dims else 1, F64, level))
        value = tape.view(len(tape.storages) - 1, 0, dims, strides)
        return self.has(value, given)

    def has(self, value: int, given: Given) -> int:
        """Note what fills an input that the body has already."""
        self.values.append(value)
        self.given.append(given)
        return len(self.values) - 1

    def output(self, part, like: int, port: int = -1) -> None:
        """Add an output: a symbol, a number for all entries, or None for zeros in a value's dimensions."""
        emitter, tape = self.emitter, self.tape
        if part.__class__ is not Symbol:
            dims = tape.layout_of(like).dims
            zeros = emitter.zeros(dims, F64)
            part = zeros if part is None else zeros + part
        part = emitter.dense(emitter.in_family(part, F64))
        storage = tape.storage_of(part.number)
        inside = {tape.storage_of(value) for value in self.values}
        if storage in inside and (port < 0 or storage != tape.storage_of(self.values[port])):
            part = emitter.row("copy", part)  # an input's cells get their next value while others are read
        self.outputs.append((part.number, port, like))

    def is_active(self, value: int) -> bool:
        """Whether a value takes an adjoint."""
        return self.tape.level_of(value) == ACTIVE

    def frozen(self) -> tuple[Tape, list[int]]:
        """Return the body, and the numbers of the inputs that it reads."""
        tape, call = self.tape, self.call
        tape.inputs = [
            InputSlot(value, tape.layout_of(value).dims, tape.level_of(value), F64) for value in self.values
        ]
        body = tape.freeze(
            tuple(value for value, _, _ in self.outputs),
            tuple(PASSES),
            derivatives=True,
            forward=call.loop.body.forward,
        )
        used = _read(body)
        kept = [k for k, given in enumerate(self.given) if given.out or body.inputs[k].value in used]
        return replace(body, inputs=tuple(body.inputs[k] for k in kept)), kept

    def _samples(self, kept: list[int]) -> tuple | None:
        """Return the numbers that inputs have had, None for those of derivatives."""
        loop = self.loop
        if loop.samples is None:
            return None
        known = {slot.value: sample for slot, sample in zip(loop.body.inputs, loop.samples, strict=True)}
        return tuple(known.get(self.values[k]) for k in kept)

    @property
    def relied_on(self) -> list[tuple[int, str, int]]:
        """The relations between sizes that the derivative relies on, and the loop does not."""
        return [key for key in self.tape.sizes.guards if key not in self._known]

    def finish(self, name: str, reverse: bool) -> tuple[Loop, Symbol, list[int]]:
        """Emit the loop; return it, its result, and the numbers of the given inputs that the body reads."""
        tape, call = self.tape, self.call
        outer, sizes = call.emitter, call.sizes
        body, kept = self.frozen()
        code = SizeCodes(body.sizes.rows, call.loop.dimensions, sizes)
        code.guard(self.relied_on)
        pack = Packing(outer, sizes)
        count = {k: code.of(tape.contiguous_strides(body.inputs[j].dims)[1]) for j, k in enumerate(kept)}
        ports = [pack.port(self.given[k], count[k], call) for k in kept]
        steps = call.steps()
        start = None if steps is None else pack.port(Given(CAPTURE, steps), 1, call).start
        outs, end = [], 0
        # The order is that of a result: last carries and sums come before what is stacked.
        self.order = sorted(range(len(self.outputs)), key=lambda j: self.outputs[j][1] < 0)
        for j in self.order:
            value, port, _ = self.outputs[j]
            if port >= 0:
                out = Out(self.given[port].role, kept.index(port), end, count[port])
                end = sizes.add(end, out.count)
            else:
                dims = tape.layout_of(value).dims
                out = Out(STACK, -1, end, code.of(tape.contiguous_strides(dims)[1]))
                end = sizes.add(end, sizes.mul(call.loop.length, out.count))
            outs.append(out)
        a, b = pack.operands()
        loop = Loop(
            name,
            replace(body, outputs=tuple(body.outputs[j] for j in self.order)),
            call.loop.dimensions,
            call.loop.length,
            reverse,
            tuple(ports),
            tuple(outs),
            (end, *pack.extents),
            steps=start,
            samples=self._samples(kept),
        ).with_history(sizes)
        return loop, emit(outer, loop, a, b), kept


@dataclass
class Packing:
    """The parts of the two operands of a loop, while they are put together."""

    emitter: Emitter
    sizes: Sizes
    pieces: tuple[list, list] = field(default_factory=lambda: ([], []))
    ends: list[int] = field(default_factory=lambda: [0, 0])

    def port(self, given: Given, count: int, call: Call) -> Port:
        """Add what an input gets; return its port."""
        sizes = self.sizes
        extent = sizes.mul(call.loop.length, count) if given.role == SLICE else count
        source = call.zeros(extent) if given.source is None else given.source
        operand = 0 if source.level == ACTIVE else 1
        start = self.ends[operand]
        self.pieces[operand].append(([(start, extent)], source.number))
        self.ends[operand] = sizes.add(start, extent)
        return Port(given.role, operand, start, count)

    @property
    def extents(self) -> tuple[int, int]:
        return self.ends[0], self.ends[1]

    def operands(self) -> list[Symbol]:
        """Return both operands; one without parts is a cell that nothing reads."""
        emitter, found = self.emitter, []
        for pieces, end in zip(self.pieces, self.ends, strict=True):
            if not pieces:
                found.append(emitter.broadcast(Symbol(emitter, emitter.tape.zero(F64)), (1,)))
                continue
            number = instructions.pieces(emitter.tape, (end,), F64, pieces, emitter.line)
            found.append(Symbol(emitter, number))
        return found


class SizeCodes:
    """Size codes of a body, in terms of the tape that its loop stands on."""

    def __init__(self, rows, dimensions, sizes: Sizes):
        self._rows, self._dimensions, self._sizes = rows, dimensions, sizes
        self._known: dict[int, int] = {}

    def of(self, code: int) -> int:
        """Return the code on the outer tape."""
        if code >= 0:
            return code
        found = self._known.get(code)
        if found is None:
            operation, left, right = self._rows[-code - 1]
            if operation == INPUT:
                found = self._dimensions[left]
            else:
                found = self._sizes.again(operation, self.of(left), self.of(right))
            self._known[code] = found
        return found

    def guard(self, relations) -> None:
        """Let the outer tape rely on relations between sizes of the body."""
        for left, relation, right in relations:
            self._sizes.guard(self.of(left), relation, self.of(right))


def _read(body: Tape) -> set[int]:
    """Return the inputs (value numbers) that an instruction or an output reads."""
    storage = body.values["storage"]
    read = {int(storage[value]) for value in body.outputs}
    for name in ("a", "b", "c"):
        column = body.code[name]
        read |= set(storage[column[column >= 0]].tolist())
    return {slot.value for slot in body.inputs if int(storage[slot.value]) in read}
