"""The derivatives of a loop: further loops, whose bodies are the derivatives of its body.

The adjoint of a loop runs its steps in the opposite order, and the pushforward in the same order. Both
start each step from the carries before it, which the loop has stacked (its *history*), and compute what they
need of the step again. Cotangents of captures, and tangents of sums, are added in place from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.instructions import row as op_row
from ..emitter.symbol import Symbol
from ..errors import UnsupportedOperationError
from ..ops import ROWS
from ..tape import Tape
from ..tape.loop import CAPTURE, CARRY, SLICE, STACK, SUM, Loop, Out, Port
from ..tape.passes import PASSES
from ..tape.resume import resumed
from ..tape.sizes import ADD, FLOORDIV, INPUT, MUL, SUB, Sizes
from ..tape.tape import ACTIVE, F64, InputSlot
from .adjoint import Adjoint, Rules
from .pushforward import Pushforward

_COMBINE = {ADD: "add", SUB: "sub", MUL: "mul", FLOORDIV: "floordiv"}


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

    def __init__(self, emitter: Emitter, loop: Loop, out: int, numbers):
        self.emitter, self.loop, self.numbers = emitter, loop, numbers
        self.sizes = emitter.tape.sizes
        self.read_before = _reads_history(emitter.tape, loop, out)
        self._past: int | None = out if loop.history is not None else None
        self._with_past = loop

    def cells(self, number: int, start: int, count: int) -> Symbol:
        """Return some cells of a vector (size codes)."""
        return Symbol(self.emitter, addresses.cut(self.emitter.tape, number, 0, start, count))

    def of_ports(self, roles) -> list[int]:
        return [k for k, port in enumerate(self.loop.ports) if port.role in roles]

    def extent(self, port: Port) -> int:
        """Return how many cells of an operand a port stands for: all rows of a slice."""
        return self.sizes.mul(self.loop.length, port.count) if port.role == SLICE else port.count

    def source(self, k: int) -> Symbol:
        """Return what fills input ``k`` of the body: of a carry, the first one."""
        port = self.loop.ports[k]
        return self.cells(self.numbers[port.operand], port.start, self.extent(port))

    def out_extent(self, out: Out) -> int:
        return self.sizes.mul(self.loop.length, out.count) if out.role == STACK else out.count

    def past(self, k: int) -> Symbol:
        """Return the rows of a carry before each step."""
        if self._past is None:  # the loop did not keep them: it runs again
            self._with_past = self.loop.with_history(self.sizes)
            a, b = (Symbol(self.emitter, number) for number in self.numbers[:2])
            self._past = emit(self.emitter, self._with_past, a, b).number
        assert self._with_past.history is not None
        start = self._with_past.history[self.loop.carries.index(k)]
        return self.cells(self._past, start, self.sizes.mul(self.loop.length, self.loop.ports[k].count))

    def zeros(self, count: int) -> Symbol:
        emitter = self.emitter
        zero = Symbol(emitter, emitter.tape.zero(F64))
        return emitter.broadcast(zero, (count,))


def _reads_history(tape, loop: Loop, out: int) -> bool:
    """Whether anything that was recorded reads the rows of carries in a loop's result."""
    storage, first, _ = tape.values[out]
    starts = {tape.sizes.add(first, start) for start in loop.history or ()}
    return any(its == storage and offset in starts for its, offset, _ in tape.values)


def emit(emitter: Emitter, loop: Loop, a: Symbol, b: Symbol) -> Symbol:
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
        self.dimensions = tuple(map(sizes.value, loop.dimensions))
        self.tape = resumed(loop.body, self.dimensions, ROWS)
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
        dims = tape.layouts[tape.values[like][2]].dims
        strides, size = tape.contiguous_strides(dims)
        tape.storages.append((size if dims else 1, F64, level))
        value = tape.view(len(tape.storages) - 1, 0, dims, strides)
        return self.has(value, given)

    def has(self, value: int, given: Given) -> int:
        """Note an input that the body has already."""
        self.values.append(value)
        self.given.append(given)
        return len(self.values) - 1

    def output(self, part, like: int, port: int = -1) -> None:
        """Add an output: a symbol, a number for all entries, or None for zeros in a value's dimensions."""
        emitter, tape = self.emitter, self.tape
        if part.__class__ is not Symbol:
            dims = tape.layouts[tape.values[like][2]].dims
            zeros = emitter.zeros(dims, F64)
            part = zeros if part is None else zeros + part
        part = emitter.dense(emitter.in_family(part, F64))
        storage = tape.values[part.number][0]
        inside = {tape.values[value][0] for value in self.values}
        if storage in inside and (port < 0 or storage != tape.values[self.values[port]][0]):
            part = emitter.row("copy", part)  # an input's cells get their next value while others are read
        self.outputs.append((part.number, port, like))

    def finish(self, name: str, reverse: bool) -> tuple[Loop, Symbol, list[int]]:
        """Emit the loop; return it, its result, and the numbers of the given inputs that the body reads."""
        tape, call = self.tape, self.call
        outer, sizes = call.emitter, call.sizes
        tape.inputs = [
            InputSlot(value, tape.layouts[tape.values[value][2]].dims, tape.level_of(value), F64)
            for value in self.values
        ]
        body = tape.freeze(
            tuple(value for value, _, _ in self.outputs),
            tuple(PASSES),
            derivatives=True,
            forward=call.loop.body.forward,
        )
        code = SizeCodes(body.sizes.rows, call.loop.dimensions, sizes)
        for left, relation, right in tape.sizes.guards:
            if (left, relation, right) not in self._known:
                sizes.guard(code.of(left), relation, code.of(right))
        used = _read(body)
        kept = [k for k, given in enumerate(self.given) if given.out or body.inputs[k].value in used]
        body = _with_inputs(body, kept)
        pack = Packing(outer, sizes)
        count = {k: code.of(tape.contiguous_strides(body.inputs[j].dims)[1]) for j, k in enumerate(kept)}
        ports = [pack.port(self.given[k], count[k], call) for k in kept]
        outs, starts = [], [0]

        def place(role, number, cells, rows):
            outs.append(Out(role, number, starts[0], cells))
            starts[0] = sizes.add(starts[0], sizes.mul(rows, cells))

        ordered = sorted(self.outputs, key=lambda each: each[1] < 0)  # as a result has them: stacks last
        for value, port, _ in ordered:
            if port >= 0:
                place(self.given[port].role, kept.index(port), count[port], 1)
            else:
                cells = code.of(tape.contiguous_strides(tape.layouts[tape.values[value][2]].dims)[1])
                place(STACK, -1, cells, call.loop.length)
        order = [self.outputs.index(each) for each in ordered]
        body = _with_outputs(body, order)
        a, b = pack.operands()
        loop = Loop(
            name,
            body,
            call.loop.dimensions,
            call.loop.length,
            reverse,
            tuple(ports),
            tuple(outs),
            (starts[0], *pack.extents),
        ).with_history(sizes)
        self.order = order
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
                found = getattr(self._sizes, _COMBINE[operation])(self.of(left), self.of(right))
            self._known[code] = found
        return found


def _read(body: Tape) -> set[int]:
    """Return the inputs (value numbers) that an instruction or an output reads."""
    storage = body.values["storage"]
    read = {int(storage[value]) for value in body.outputs}
    for name in ("a", "b", "c"):
        column = body.code[name]
        read |= set(storage[column[column >= 0]].tolist())
    return {slot.value for slot in body.inputs if int(storage[slot.value]) in read}


def _with_inputs(body: Tape, kept: list[int]) -> Tape:
    return replace(body, inputs=tuple(body.inputs[k] for k in kept))


def _with_outputs(body: Tape, order: list[int]) -> Tape:
    return replace(body, outputs=tuple(body.outputs[k] for k in order))


class LoopRules(Rules):
    """The derivatives of calls that need no numbers: those of loops."""

    def pull_call(self, ct: Symbol, out: int, numbers, need, transposing: bool = False) -> tuple:
        emitter = ct.emitter
        loop = called(emitter.tape, numbers)
        if not isinstance(loop, Loop):
            return super().pull_call(ct, out, numbers, need, transposing)
        if ct.ndim != 1:
            raise UnsupportedOperationError(f"{loop.name}: a loop takes one cotangent at a time")
        return pull(emitter, loop, out, numbers, ct), None, None

    def push_call(self, out: int, numbers, tangent: Symbol, strong: bool) -> Symbol | None:
        emitter = tangent.emitter
        loop = called(emitter.tape, numbers)
        if not isinstance(loop, Loop):
            return super().push_call(out, numbers, tangent, strong)
        if tangent.ndim != 1:
            raise UnsupportedOperationError(f"{loop.name}: a loop takes one tangent at a time")
        return push(emitter, loop, out, numbers, tangent, strong)


def called(tape, numbers):
    """Return what a call instruction with these operands calls."""
    return tape.calls[int(tape.numbers[numbers[2]])]


def pull(emitter: Emitter, loop: Loop, out: int, numbers, ct: Symbol) -> Symbol | None:
    """Return the cotangent of the first operand of a loop instruction; None if nothing depends on it."""
    call = Call(emitter, loop, out, numbers)
    body = Body(call)
    tape, inputs = body.tape, loop.body.inputs
    for k, port in enumerate(loop.ports):
        if port.role != SUM:  # nothing reads those
            source = call.past(k) if port.role == CARRY else call.source(k)
            body.has(inputs[k].value, Given(CAPTURE if port.role == CAPTURE else SLICE, source))
    active = [k for k, slot in enumerate(inputs) if slot.level == ACTIVE]
    seeds, carried, passed, sums = [], {}, {}, {}
    for out, value in zip(loop.outs, loop.body.outputs, strict=True):
        whole = call.cells(ct.number, out.start, call.out_extent(out))
        if out.role == CARRY and out.port in active:
            carried[out.port] = body.input(inputs[out.port].value, Given(CARRY, whole, out=True))
            if tape.level_of(value) == ACTIVE:
                seeds.append((value, Symbol(body.emitter, body.values[carried[out.port]])))
        elif out.role == SUM and out.port in active:
            passed[out.port] = whole  # the same in all steps, and for the sum before the first one
            seed = body.input(value, Given(CAPTURE, whole))
            seeds.append((value, Symbol(body.emitter, body.values[seed])))
        elif out.role == STACK and tape.level_of(value) == ACTIVE:
            seed = body.input(value, Given(SLICE, whole))
            seeds.append((value, Symbol(body.emitter, body.values[seed])))
    walk = Adjoint(body.emitter, rules=LoopRules())
    for k in active:
        if loop.ports[k].role == CAPTURE:
            sums[k] = body.input(inputs[k].value, Given(SUM, None, out=True))
            walk.cotangents.begin(inputs[k].value, body.values[sums[k]])
    targets = [k for k in active if loop.ports[k].role != SUM]
    parts = dict(zip(targets, walk.run(0, body.stop, [inputs[k].value for k in targets], seeds), strict=True))
    places: dict[int, int] = {}  # by input of the loop: which output has its cotangent
    for k in targets:
        role, part = loop.ports[k].role, parts[k]
        if role == CARRY:
            if call.read_before:
                start = loop.history[loop.carries.index(k)]
                rows = call.cells(ct.number, start, call.sizes.mul(loop.length, loop.ports[k].count))
                later = body.input(inputs[k].value, Given(SLICE, rows))
                later_symbol = Symbol(body.emitter, body.values[later])
                part = later_symbol if part is None else part + later_symbol
            body.output(part, inputs[k].value, carried[k])
        elif role == CAPTURE:
            body.outputs.append((body.values[sums[k]], sums[k], inputs[k].value))
        elif part is not None:
            body.output(part, inputs[k].value)
        else:
            continue
        places[k] = len(body.outputs) - 1
    if not body.outputs and not passed:
        return None
    found: dict[int, Symbol] = dict(passed)
    if body.outputs:
        derived, result, _ = body.finish(f"the adjoint of {loop.name}", not loop.reverse)
        outer = Call(emitter, derived, result.number, numbers)
        for k, place in places.items():
            out = derived.outs[body.order.index(place)]
            found[k] = outer.cells(result.number, out.start, outer.out_extent(out))
    return _assembled(call, [(k, port) for k, port in enumerate(loop.ports) if port.operand == 0], found)


def _assembled(call: Call, ports, found: dict[int, Symbol]) -> Symbol | None:
    """Return the cotangent of an operand, put together from those of its parts."""
    if not any(k in found for k, _ in ports):
        return None
    sizes, pieces, end = call.sizes, [], 0
    for k, port in ports:
        extent = call.extent(port)
        part = found[k] if k in found else call.zeros(extent)
        pieces.append(([(end, extent)], part.number))
        end = sizes.add(end, extent)
    tape = call.emitter.tape
    return Symbol(call.emitter, instructions.pieces(tape, (end,), F64, pieces, call.emitter.line))


def push(emitter: Emitter, loop: Loop, out: int, numbers, tangent: Symbol, strong: bool) -> Symbol:
    """Return the tangent of a loop's result, given that of its first operand."""
    call = Call(emitter, loop, out, numbers)
    body = Body(call)
    inputs = loop.body.inputs
    for k, port in enumerate(loop.ports):
        if port.role != SUM:
            source = call.past(k) if port.role == CARRY else call.source(k)
            body.has(inputs[k].value, Given(CAPTURE if port.role == CAPTURE else SLICE, source))
    walk = Pushforward(body.emitter, strong, LoopRules())
    seeds, carried = [], {}
    for k, (port, slot) in enumerate(zip(loop.ports, inputs, strict=True)):
        if slot.level != ACTIVE:
            continue
        source = call.cells(tangent.number, port.start, call.extent(port)) if port.operand == 0 else None
        if port.role in (CARRY, SUM):
            carried[k] = body.input(slot.value, Given(port.role, source, out=True))
        elif source is None:
            continue
        else:
            carried[k] = body.input(slot.value, Given(port.role, source))
        value = body.values[carried[k]]
        if port.role == SUM:
            walk.tangents.begin(slot.value, value)
        seeds.append((slot.value, Symbol(body.emitter, value)))
    values = [y for y in loop.body.outputs if body.tape.level_of(y) == ACTIVE]
    seeds = [(x, t) for x, t in seeds if loop.ports[_number(inputs, x)].role != SUM]
    parts = dict(zip(values, walk.run(0, body.stop, seeds, values), strict=True))
    places = {}
    for j, (out, value) in enumerate(zip(loop.outs, loop.body.outputs, strict=True)):
        if out.role == SUM and out.port in carried:
            body.outputs.append((body.values[carried[out.port]], carried[out.port], value))
        elif out.role == CARRY and out.port in carried:
            body.output(parts.get(value), value, carried[out.port])
        elif out.role == STACK and parts.get(value) is not None:
            body.output(parts[value], value)
        else:
            continue
        places[j] = len(body.outputs) - 1
    derived, result, kept = body.finish(f"the pushforward of {loop.name}", loop.reverse)
    outer = Call(emitter, derived, result.number, numbers)
    sizes, pieces = call.sizes, []
    for j, out in enumerate(loop.outs):
        extent = call.out_extent(out)
        if j in places:
            mine = derived.outs[body.order.index(places[j])]
            part = outer.cells(result.number, mine.start, extent)
        else:
            part = call.zeros(extent)
        pieces.append(([(out.start, extent)], part.number))
    for k, start in zip(loop.carries, loop.history or (), strict=False):
        extent = sizes.mul(loop.length, loop.ports[k].count)
        if k in carried:
            assert derived.history is not None
            place = derived.history[derived.carries.index(kept.index(carried[k]))]
            part = outer.cells(result.number, place, extent)
        else:
            part = call.zeros(extent)
        pieces.append(([(start, extent)], part.number))
    tape = emitter.tape
    return Symbol(emitter, instructions.pieces(tape, (loop.extents[0],), F64, pieces, emitter.line))


def _number(inputs, value: int) -> int:
    return next(k for k, slot in enumerate(inputs) if slot.value == value)
