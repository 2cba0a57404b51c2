"""The derivatives of a loop: further loops, whose bodies are the derivatives of its body.

The adjoint of a loop runs its steps in the opposite order, and the pushforward in the same order. Both
start each step from the carries before it, which the loop has stacked (its *history*), and compute what they
need of the step again. Cotangents of captures, and tangents of sums, are added in place from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..tape.loop import CAPTURE, CARRY, SLICE, STACK, SUM, Branches, Loop, Port
from ..tape.tape import ACTIVE, F64
from . import branches
from .adjoint import Adjoint, Rules
from .inlined_lanes import in_lanes
from .loop_bodies import Body, Call, Given, reads_history
from .pushforward import Pushforward


class LoopRules(Rules):
    """The derivatives of calls that need no numbers: those of loops."""

    def pull_call(self, ct: Symbol, out: int, numbers, need, transposing: bool = False) -> tuple:
        if not self._has_lanes(ct, out):
            return self.pull_lane(ct, out, numbers, need, transposing)

        def pull(ct: Symbol, out: int, numbers) -> tuple:
            return self.pull_call(ct, out, numbers, need, transposing)

        return tuple(self._in_lanes("the pullback", pull, ct, out, numbers))

    def pull_lane(self, ct: Symbol, out: int, numbers, need, transposing: bool) -> tuple:
        """Do what `pull_call` does, for a call with a single cotangent."""
        emitter = ct.emitter
        loop = called(emitter.tape, numbers)
        if not isinstance(loop, (Loop, Branches)):
            return super().pull_call(ct, out, numbers, need, transposing)
        if isinstance(loop, Branches) or loop.runs_once:
            return branches.pull(emitter, loop, out, numbers, ct, self), None, None
        return pull(emitter, loop, out, numbers, ct, self), None, None

    def push_call(self, out: int, numbers, tangent: Symbol, strong: bool) -> Symbol | None:
        emitter = tangent.emitter
        loop = called(emitter.tape, numbers)
        if not isinstance(loop, (Loop, Branches)):
            return super().push_call(out, numbers, tangent, strong)
        if self._has_lanes(tangent, out):

            def pushed(tangent: Symbol, out: int, numbers) -> tuple:
                return (self.push_call(out, numbers, tangent, strong),)

            (total,) = self._in_lanes("the pushforward", pushed, tangent, out, numbers)
            return total
        if isinstance(loop, Branches) or loop.runs_once:
            return branches.push(emitter, loop, out, numbers, tangent, strong, self)
        return push(emitter, loop, out, numbers, tangent, strong, self)

    @staticmethod
    def _has_lanes(along: Symbol, out: int) -> bool:
        """Whether a call has lanes, or its cotangent or tangent has."""
        return max(along.ndim, Symbol(along.emitter, out).ndim) > 1

    def _in_lanes(self, what: str, derive: Callable, along: Symbol, out: int, numbers) -> list:
        """Return a derivative of a call in lanes: ``derive(along, out, numbers)`` is recorded for one lane.

        Parameters
        ----------
        along
            The cotangent or the tangent. It, the call's operands and its result have a first axis that
            numbers the lanes where they differ between lanes.
        """
        emitter, tape = along.emitter, along.emitter.tape
        values = [along, *(Symbol(emitter, value) for value in (out, *numbers[:2]))]
        rank = max(x.ndim for x in values)
        widest = {k: x for k, x in enumerate(values) if x.ndim == rank}
        whole = {k: x for k, x in widest.items() if x.dims[0] != 1} or widest
        shared = [
            x if x.ndim < rank else Symbol(emitter, addresses.dropped(tape, x.number, (0,)))
            for k, x in enumerate(values)
            if k not in whole
        ]
        loop = called(tape, numbers)
        read = isinstance(loop, Loop) and reads_history(tape, loop, out)

        def one_lane(rows: list[Symbol]):
            mine, others = iter(rows), iter(shared)
            along, out, a, b = (next(mine) if k in whole else next(others) for k in range(4))
            if read:  # the carries of this lane are read, too
                storage, first, _ = tape.values[out.number]
                tape.view(storage, tape.sizes.add(first, loop.history[0]), (1,), (1,))
            numbers_of_lane = a.number, b.number, numbers[2]
            if not self._has_lanes(along, out.number):
                numbers_of_lane = self.lane_call(emitter, out, numbers_of_lane)
            return derive(along, out.number, numbers_of_lane)

        name = f"{what} of {getattr(loop, 'name', 'a rule')}"
        return in_lanes(emitter, name, one_lane, [*whole.values()])

    def lane_call(self, emitter: Emitter, out: Symbol, numbers) -> tuple:
        """Return the operands of a call as the derivative of one of its lanes takes them."""
        return numbers


def called(tape, numbers):
    """Return what a call instruction with these operands calls."""
    return tape.calls[int(tape.numbers[numbers[2]])]


def pull(emitter: Emitter, loop: Loop, out: int, numbers, ct: Symbol, rules: Rules) -> Symbol | None:
    """Return the cotangent of the first operand of a loop instruction; None if nothing depends on it."""
    call = Call(emitter, loop, out, numbers)
    body = Body(call)
    tape, inputs = body.tape, loop.body.inputs
    for k, port in enumerate(loop.ports):
        if port.role != SUM:  # a body does not read the sum that it adds to
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
            # This cotangent is the same in all steps, and is that of the sum before the first step.
            passed[out.port] = whole
            seed = body.input(value, Given(CAPTURE, whole))
            seeds.append((value, Symbol(body.emitter, body.values[seed])))
        elif out.role == STACK and tape.level_of(value) == ACTIVE:
            seed = body.input(value, Given(SLICE, whole))
            seeds.append((value, Symbol(body.emitter, body.values[seed])))
    walk = Adjoint(body.emitter, rules=rules.inside(body))
    for k in active:
        if loop.ports[k].role == CAPTURE:
            sums[k] = body.input(inputs[k].value, Given(SUM, None, out=True))
            walk.cotangents.begin(inputs[k].value, body.values[sums[k]])
    targets = [k for k in active if loop.ports[k].role != SUM]
    parts = dict(zip(targets, walk.run(0, body.stop, [inputs[k].value for k in targets], seeds), strict=True))
    places: dict[int, int] = {}  # for each input of the loop, the output that has its cotangent
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
    parts = [(k, port) for k, port in enumerate(loop.ports) if port.operand == 0]
    return _assembled(call, [*parts, *_of_the_test(loop)], found)


def _of_the_test(loop: Loop) -> list[tuple[int, Port]]:
    """Return the parts of the first operand that the condition alone reads, which have no cotangent."""
    known = {port.start for port in loop.ports if port.operand == 0}
    captured = [port for port in loop.test_ports if port.role == CAPTURE and port.operand == 0]
    return [(-1, port) for port in captured if port.start not in known]


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


def push(
    emitter: Emitter, loop: Loop, out: int, numbers, tangent: Symbol, strong: bool, rules: Rules
) -> Symbol:
    """Return the tangent of a loop's result, given that of its first operand."""
    call = Call(emitter, loop, out, numbers)
    body = Body(call)
    inputs = loop.body.inputs
    for k, port in enumerate(loop.ports):
        if port.role != SUM:
            source = call.past(k) if port.role == CARRY else call.source(k)
            body.has(inputs[k].value, Given(CAPTURE if port.role == CAPTURE else SLICE, source))
    walk = Pushforward(body.emitter, strong, rules.inside(body))
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
    pieces = [(spans, part.number) for spans, part in _pushed(call, outer, body, carried, places, kept)]
    tape = emitter.tape
    if derived.extents[0] == loop.extents[0] and _in_place(tape, pieces, result.number):
        return result  # The derived loop has put the tangents where they belong.
    return Symbol(emitter, instructions.pieces(tape, (loop.extents[0],), F64, pieces, emitter.line))


def _pushed(call: Call, outer: Call, body: Body, carried: dict, places: dict, kept) -> Iterator[tuple]:
    """Yield the parts of the tangent of a loop's result, each with its place there.

    Parameters
    ----------
    call, outer
        The loop's instruction, and that of its pushforward.
    body
        The body of the pushforward.
    carried
        For each input of the loop that has a tangent, the input of the pushforward's body that holds it.
    places
        For each output of the loop that has a tangent, the output of the pushforward's body that is it.
    kept
        The inputs of the pushforward's body that are left.
    """
    loop, derived, result, sizes = call.loop, outer.loop, outer.out, call.sizes
    for j, out in enumerate(loop.outs):
        extent = call.out_extent(out)
        if j in places:
            mine = derived.outs[body.order.index(places[j])]
            part = outer.cells(result, mine.start, extent)
        else:
            part = call.zeros(extent)
        yield [(out.start, extent)], part
    if loop.test is not None:  # The number of steps, and whether there would be more, have no tangent.
        yield [(loop.counted, 2)], call.zeros(2)
    for k, start in zip(loop.carries, loop.history or (), strict=False):
        extent = sizes.mul(loop.length, loop.ports[k].count)
        if k in carried:
            assert derived.history is not None
            place = derived.history[derived.carries.index(kept.index(carried[k]))]
            part = outer.cells(result, place, extent)
        else:
            part = call.zeros(extent)
        yield [(start, extent)], part


def _in_place(tape, pieces, result: int) -> bool:
    """Whether the pieces of a vector are those of a result, in the same places."""
    storage, first, _ = tape.values[result]
    places = [(spans[0][0], *tape.values[number][:2]) for spans, number in pieces]
    return all((its, offset) == (storage, tape.sizes.add(first, start)) for start, its, offset in places)


def _number(inputs, value: int) -> int:
    return next(k for k, slot in enumerate(inputs) if slot.value == value)
