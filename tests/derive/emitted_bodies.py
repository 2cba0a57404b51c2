"""Loops, branches and calls of sub-tapes that are emitted without any trace, for laws of derivatives.

Each is a function of an emitter and of vectors, like those in `test_tapes`.
"""

import numpy as np

from numbatape.emitter.emitter import Emitter
from numbatape.emitter.symbol import Symbol
from numbatape.ops import ROWS
from numbatape.tape import TapeBuilder
from numbatape.tape.loop import CAPTURE, CARRY, SLICE, STACK, Branches, Loop, Out, Port
from numbatape.tape.tape import ACTIVE, F64, VARYING


def emitted(function, *shapes, constants=0, family=F64):
    """Return the tape of a function of symbols: arguments of the given shapes, the last ones constant."""
    tape = TapeBuilder(ROWS)
    e = Emitter(tape)
    levels = [ACTIVE] * (len(shapes) - constants) + [VARYING] * constants
    numbers = [tape.input(shape, family, level) for shape, level in zip(shapes, levels, strict=True)]
    results = function(e, *(Symbol(e, number) for number in numbers))
    return tape.freeze(tuple(x.number for x in results))


def called(e, call, first, rest=None):
    """Emit an instruction that runs a loop or branches."""
    number = e.literal(np.float64(len(e.tape.calls)), F64)
    e.tape.calls.append(call)
    return e.op("call", first, e.zeros((0,), F64) if rest is None else rest, number, m=call.extents[0])


def scan(e, step, carry, rows, width, capture, length, reverse=False, history=False):
    """Emit a loop over vectors; ``step`` returns the next carry, and a row in the carry's dimensions."""
    sizes = e.tape.sizes
    n, k = carry.dims[0], capture.dims[0]
    body = emitted(step, *((sizes.value(count),) for count in (n, width, k)))
    ends = [n, sizes.add(n, rows.dims[0])]
    ports = Port(CARRY, 0, 0, n), Port(SLICE, 0, n, width), Port(CAPTURE, 0, ends[1], k)
    outs = Out(CARRY, 0, 0, n), Out(STACK, -1, n, n)
    extents = sizes.add(n, sizes.mul(length, n)), sizes.add(ends[1], k), 0
    loop = Loop("a loop", body, (n, width, k), length, reverse, ports, outs, extents)
    return called(e, loop.with_history(sizes) if history else loop, e.join(carry, rows, capture))


def _step(b, c, r, w):
    new = b.row("sin", c) * w + b.sum(r * r) * c
    return new, new * c


def looped(length, **options):
    """Return a function whose loop has steps of which each reads two entries of a vector."""
    return lambda e, x, rows, w: (scan(e, _step, x, rows, 2, w, length, **options),)


def nested(e, x, rows, w):
    """A loop in each step of a loop, one step of which is a sub-tape."""

    def step(b, c, r, w):
        inner = scan(b, _step, c * w, b.join(r, r), 2, w, 2)
        return b.cut(inner, 0, 2) + c, once(b, c, b.cut(inner, 2, 4))

    return (scan(e, step, x, rows, 2, w, 3),)


def once(e, x, w):
    """Emit a call of a sub-tape: a loop of one step."""
    n = x.dims[0]
    loop = _of_one_step(e, lambda b, x, w: (b.row("exp", x) * w,), n)
    return called(e, loop, e.join(x, w))


def _of_one_step(e, function, n):
    body = emitted(function, *[(e.tape.sizes.value(n),)] * 2)
    ports = Port(CAPTURE, 0, 0, n), Port(CAPTURE, 0, n, n)
    return Loop(
        "one step", body, (n, n), 1, False, ports, (Out(STACK, -1, 0, n),), (n, e.tape.sizes.add(n, n), 0)
    )


def sub_tapes(e, x, w):
    """One sub-tape, called with the result of the other call."""
    y = once(e, x, w)
    return once(e, y * x, w), y


def chosen(index):
    """Return a function that runs one of two branches."""

    def function(e, x, w):
        first = _of_one_step(e, lambda b, x, w: (b.op("cumsum", x * w),), x.dims[0])
        second = _of_one_step(e, lambda b, x, w: (x * x * b.sum(w),), x.dims[0])
        call = Branches("branches", (first, second), 0, (*first.extents[:2], 1))
        return called(e, call, e.join(x, w), e.literal(np.array([float(index)]), F64)), x / w

    return function


BODIES = {
    "a loop": (looped(3), [(2,), (6,), (2,)], 0),
    "a loop over numbers": (looped(4), [(1,), (8,), (1,)], 0),
    "a loop of one step": (looped(1), [(2,), (2,), (2,)], 0),
    "a loop of no step": (looped(0), [(2,), (0,), (2,)], 0),
    "a loop over nothing": (looped(3), [(0,), (6,), (0,)], 0),
    "a loop from the last row on": (looped(3, reverse=True), [(2,), (6,), (2,)], 0),
    "a loop that keeps its carries": (looped(3, history=True), [(2,), (6,), (2,)], 0),
    "a loop with a constant": (looped(3), [(3,), (6,), (3,)], 1),
    "nested loops": (nested, [(2,), (6,), (2,)], 0),
    "sub-tapes": (sub_tapes, [(3,), (3,)], 0),
    "the first branch": (chosen(0), [(2,), (2,)], 0),
    "the last branch": (chosen(7), [(2,), (2,)], 0),
}
