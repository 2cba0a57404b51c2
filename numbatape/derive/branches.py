"""The derivatives of branches: branches of derivatives, of which the same one runs."""

from __future__ import annotations

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..tape.loop import CAPTURE, STACK, Branches, Loop, Out, Port
from ..tape.tape import F64
from .adjoint import Adjoint
from .loop_bodies import Body, Call, Given, emit
from .pushforward import Pushforward


def pull(emitter: Emitter, branches: Branches, numbers, ct: Symbol, rules) -> Symbol:
    """Return the cotangent of the first operand of an instruction that runs one of several branches."""
    sizes = emitter.tape.sizes
    size = branches.extents[1]

    def derived(loop: Loop) -> tuple[Body, list[Port], list[Out]]:
        call = Call(emitter, loop, None, numbers)
        body, inputs = Body(call), loop.body.inputs
        ports = _primals(body, loop)
        seeds = []
        for out, value in zip(loop.outs, loop.body.outputs, strict=True):
            if body.is_active(value):
                seed = body.input(value, Given(CAPTURE, None))
                ports.append(Port(CAPTURE, 0, sizes.add(size, out.start), out.count))
                seeds.append((value, Symbol(body.emitter, body.values[seed])))
        targets = [k for k, slot in enumerate(inputs) if body.is_active(slot.value)]
        walk = Adjoint(body.emitter, rules=rules)
        parts = walk.run(0, body.stop, [inputs[k].value for k in targets], seeds)
        outs = []
        for k, part in zip(targets, parts, strict=True):
            port = loop.ports[k]
            if part is not None and port.operand == 0:
                body.output(part, inputs[k].value)
                outs.append(Out(STACK, -1, port.start, port.count))
        return body, ports, outs

    return _run(emitter, branches, numbers, ct, "the adjoint", derived, size)


def push(emitter: Emitter, branches: Branches, numbers, tangent: Symbol, strong: bool, rules) -> Symbol:
    """Return the tangent of the result, given that of the first operand."""
    sizes = emitter.tape.sizes
    size = branches.extents[1]

    def derived(loop: Loop) -> tuple[Body, list[Port], list[Out]]:
        call = Call(emitter, loop, None, numbers)
        body, inputs = Body(call), loop.body.inputs
        ports = _primals(body, loop)
        seeds = []
        for port, slot in zip(loop.ports, inputs, strict=True):
            if port.operand == 0 and body.is_active(slot.value):
                seed = body.input(slot.value, Given(CAPTURE, None))
                ports.append(Port(CAPTURE, 0, sizes.add(size, port.start), port.count))
                seeds.append((slot.value, Symbol(body.emitter, body.values[seed])))
        walk = Pushforward(body.emitter, strong, rules)
        pairs = list(zip(loop.outs, loop.body.outputs, strict=True))
        parts = walk.run(0, body.stop, seeds, [value for _, value in pairs])
        outs = []
        for (out, value), part in zip(pairs, parts, strict=True):
            if part is not None:
                body.output(part, value)
                outs.append(Out(STACK, -1, out.start, out.count))
        return body, ports, outs

    return _run(emitter, branches, numbers, tangent, "the pushforward", derived, branches.extents[0])


def _primals(body: Body, loop: Loop) -> list[Port]:
    for slot in loop.body.inputs:
        body.has(slot.value, Given(CAPTURE, None))
    return list(loop.ports)


def _run(
    emitter: Emitter, branches: Branches, numbers, linear: Symbol, what: str, derived, result: int
) -> Symbol:
    """Emit the branches of a derivative: their first operand has what it is linear in behind the primals."""
    tape, sizes = emitter.tape, emitter.tape.sizes
    size, extent = branches.extents[1], linear.dims[-1]
    end = sizes.add(size, extent)
    primals = addresses.cut(tape, numbers[0], 0, 0, size)  # all but the cell of an operand without parts
    pieces = [([(0, size)], primals), ([(size, extent)], linear.number)]
    first = Symbol(emitter, instructions.pieces(tape, (end,), F64, pieces, emitter.line))
    loops = []
    for loop in branches.loops:
        body, ports, outs = derived(loop)
        tape_of_body, kept, _ = body.frozen()
        loops.append(
            Loop(
                loop.name,
                tape_of_body,
                loop.dimensions,
                1,
                False,
                tuple(ports[k] for k in kept),
                tuple(outs),
                (result, end, branches.extents[2]),
            )
        )
    made = Branches(
        f"{what} of {branches.name}", tuple(loops), branches.index, (result, end, branches.extents[2])
    )
    return emit(emitter, made, first, Symbol(emitter, numbers[1]))
