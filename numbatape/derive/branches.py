"""The derivatives of bodies that run once: sub-tapes, and branches of which one runs.

The adjoint of a body is a body, too, which computes again what it needs of the first one. Derivatives of
branches are branches, of which the one runs that has the number of the branch that has run. Derived bodies
are kept by the digest of the body, so that each is derived once, however often it is called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..tape import Tape
from ..tape.loop import CAPTURE, STACK, Branches, Loop, Out, Port
from ..tape.tape import F64
from ..threads import Kept
from .adjoint import Adjoint
from .loop_bodies import Body, Call, Given, SizeCodes, emit
from .pushforward import Pushforward


@dataclass(frozen=True)
class Derived:
    """The derivative of a body.

    Attributes
    ----------
    tape
        The derived body.
    inputs
        What fills its inputs: numbers of the body's inputs, or, counted on behind these, numbers of
        cotangents of its outputs (or of tangents of its inputs).
    outputs
        For each of its outputs, the input (or output) of the body that it is the derivative of.
    relations
        Relations between sizes on which it relies, but the body does not.
    calls
        What the body calls. Digests tell rules and their arguments apart by identity, so none of these may be
        freed, and another one take its place in memory, as long as the derivative is known by the digest.
    """

    tape: Tape
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relations: tuple
    calls: tuple


_kept: Kept[Derived] = Kept(512)


def pull(emitter: Emitter, called: Loop | Branches, out: int, numbers, ct: Symbol, rules) -> Symbol | None:
    """Return the cotangent of the first operand of an instruction, None if nothing depends on it."""

    def record(body: Body, loop: Loop) -> tuple[list[int], list[int]]:
        inputs, seeds, linear = loop.body.inputs, [], []
        for k, value in enumerate(loop.body.outputs):
            if body.is_active(value):
                seed = body.input(value, Given(CAPTURE, None))
                linear.append(k)
                seeds.append((value, Symbol(body.emitter, body.values[seed])))
        targets = [k for k, slot in enumerate(inputs) if body.is_active(slot.value)]
        targets = [k for k in targets if loop.ports[k].operand == 0]
        walk = Adjoint(body.emitter, rules=rules.inside(body))
        parts = dict(
            zip(targets, walk.run(0, body.stop, [inputs[k].value for k in targets], seeds), strict=True)
        )
        first = [k for k, port in enumerate(loop.ports) if port.operand == 0]
        return linear, _noted(body, {k: (parts.get(k), inputs[k].value) for k in first})

    def derived(loop: Loop) -> Derived:
        return _derived(("pull", type(rules)), emitter, loop, numbers, record)

    extent = called.extents[1]
    return _run(emitter, called, out, numbers, ct, "the adjoint", derived, extent, _outs, _ports)


def push(emitter: Emitter, called: Loop | Branches, out: int, numbers, tangent: Symbol, strong: bool, rules):
    """Return the tangent of the result, given that of the first operand."""

    def record(body: Body, loop: Loop) -> tuple[list[int], list[int]]:
        seeds, linear = [], []
        for k, (port, slot) in enumerate(zip(loop.ports, loop.body.inputs, strict=True)):
            if port.operand == 0 and body.is_active(slot.value):
                seed = body.input(slot.value, Given(CAPTURE, None))
                linear.append(k)
                seeds.append((slot.value, Symbol(body.emitter, body.values[seed])))
        walk = Pushforward(body.emitter, strong, rules.inside(body))
        parts = walk.run(0, body.stop, seeds, loop.body.outputs)
        return linear, _noted(body, dict(enumerate(zip(parts, loop.body.outputs, strict=True))))

    def derived(loop: Loop) -> Derived:
        return _derived(("push", type(rules), strong), emitter, loop, numbers, record)

    extent = called.extents[0]
    return _run(emitter, called, out, numbers, tangent, "the pushforward", derived, extent, _ports, _outs)


def _noted(body: Body, parts: dict[int, tuple]) -> list[int]:
    """Let derivatives be the outputs of a body; return the numbers of what they are derivatives of.

    ``parts`` has ``(derivative or None for zeros, the value that it belongs to)`` by these numbers. What a
    body does not write of the result is zero.
    """
    found = {k: pair for k, pair in parts.items() if pair[0] is not None}
    for part, like in found.values():
        body.output(part, like)
    return list(found)


def _ports(loop: Loop):
    return loop.ports


def _outs(loop: Loop):
    return loop.outs


def _derived(kind, emitter: Emitter, loop: Loop, numbers, record) -> Derived:
    """Return what ``record`` appends to a body, from what is kept if it was derived before."""
    dimensions = tuple(map(emitter.tape.sizes.value, loop.dimensions))
    operands = tuple(port.operand for port in loop.ports)
    key = kind, loop.body.digest, dimensions, operands, emitter.strong, emitter.cubes
    found = _kept.get(key)
    if found is None:
        body = Body(Call(emitter, loop, None, numbers))
        for slot in loop.body.inputs:
            body.has(slot.value, Given(CAPTURE, None))
        linear, outputs = record(body, loop)
        tape, kept = body.frozen()
        count = len(loop.body.inputs)
        numbers_of = [*range(count), *(count + k for k in linear)]
        inputs = tuple(numbers_of[k] for k in kept)
        found = Derived(tape, inputs, tuple(outputs), tuple(body.relied_on), tuple(loop.body.calls))
        _kept.put(key, found)
    return found


def _run(emitter, called, out, numbers, linear: Symbol, what: str, derived, result: int, given, wanted):
    """Emit the derivative: its first operand has what it is linear in behind the primals.

    Parameters
    ----------
    result
        The extent of its result.
    given, wanted
        Return where a loop has what the derivative is given (its outputs, for an adjoint), and what it is
        taken of.
    """
    tape, sizes = emitter.tape, emitter.tape.sizes
    size, extent = called.extents[1], linear.dims[-1]
    loops = called.loops if isinstance(called, Branches) else (called,)
    parts = [derived(loop) for loop in loops]
    if not any(part.outputs for part in parts):
        return None
    end = sizes.add(size, extent)
    # An operand without parts has one cell, which is left out.
    primals = addresses.cut(tape, numbers[0], 0, 0, size)
    pieces = [([(0, size)], primals), ([(size, extent)], linear.number)]
    first = Symbol(emitter, instructions.pieces(tape, (end,), F64, pieces, emitter.line))
    second, index, length = Symbol(emitter, numbers[1]), None, called.extents[2]
    if isinstance(called, Branches):
        index = called.index
        if index is None:
            second, index, length = _with_choice(emitter, called, out, numbers)
    extents = (result, end, length)
    runs = []
    for loop, part in zip(loops, parts, strict=True):
        SizeCodes(part.tape.sizes.rows, loop.dimensions, sizes).guard(part.relations)
        behind = [Port(CAPTURE, 0, sizes.add(size, its.start), its.count) for its in given(loop)]
        ports = [*loop.ports, *behind]
        outs = [Out(STACK, -1, wanted(loop)[k].start, wanted(loop)[k].count) for k in part.outputs]
        runs.append(
            replace(
                loop,
                name=f"{what} of {loop.name}",
                body=part.tape,
                ports=tuple(ports[k] for k in part.inputs),
                outs=tuple(outs),
                extents=extents,
                samples=_samples(loop, part),
            )
        )
    made: Loop | Branches = runs[0]
    if isinstance(called, Branches):
        made = Branches(f"{what} of {called.name}", tuple(runs), index, extents)
    return emit(emitter, made, first, second)


def _samples(loop: Loop, part: Derived) -> tuple | None:
    """Return the numbers that the inputs of a derived body have had, None for those of derivatives."""
    if loop.samples is None:
        return None
    return tuple(loop.samples[k] if k < len(loop.samples) else None for k in part.inputs)


def _with_choice(emitter: Emitter, branches: Branches, out: int, numbers) -> tuple[Symbol, int, int]:
    """Return a second operand with the number of the body that ran behind it, where it is, and its extent."""
    tape, sizes = emitter.tape, emitter.tape.sizes
    assert branches.chosen is not None
    start = branches.extents[2]
    end = sizes.add(start, 1)
    choice = emitter.still(Symbol(emitter, addresses.cut(tape, out, 0, branches.chosen, 1)))
    pieces = [([(start, 1)], choice.number)]
    if start != 0:
        pieces.insert(0, ([(0, start)], addresses.cut(tape, numbers[1], 0, 0, start)))
    return Symbol(emitter, instructions.pieces(tape, (end,), F64, pieces, emitter.line)), start, end
