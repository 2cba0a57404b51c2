"""Emitting the instruction that calls a sub-tape."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from ..control.body_traces import of_trace
from ..control.packing import Packing, emit, part, result_of
from ..derive.loop_bodies import SizeCodes
from ..emitter import instructions
from ..errors import MissingBodyError, UnforeseenShapeError
from ..tape.loop import CAPTURE, STACK, Branches, Loop, Out, Port
from ..tape.tape import ACTIVE, F32, F64, NARROW, VARYING
from ..trace import operations, pytrees
from ..trace.array import new_traced
from ..trace.integers import TracedInteger
from ..trace.primitives import operand
from ..trace.trace import Trace
from .call_arguments import Kind, key_of
from .known_bodies import Body, KnownBodies


class Emitted(NamedTuple):
    """The inputs of a call on the tape that it stands on."""

    operands: list[int]
    ports: tuple[Port, ...]
    ends: tuple[int, int]
    dimensions: tuple[int, ...]


def inputs_of(trace: Trace, leaves, kinds) -> Emitted:
    """Put the inputs of a call together."""
    tape, sizes = trace.tape, trace.tape.sizes
    pack, ports, dimensions = Packing(trace), [], []
    for leaf, kind in zip(leaves, kinds, strict=True):
        array = of_trace(trace, leaf.lifted() if type(leaf) is TracedInteger else leaf)
        number = operand(trace, array, F64)
        if kind.dtype.kind != "f" and tape.level_of(number) == ACTIVE:
            number = instructions.copied(tape, number, VARYING, trace.line())
        dims = tape.layout_of(number).dims
        ports.append(pack.port(CAPTURE, number, 1, sizes.product(dims)))
        dimensions += dims
    return Emitted(pack.operands(), tuple(ports), (pack.ends[0], pack.ends[1]), tuple(dimensions))


def call(trace: Trace, known: KnownBodies, given: Emitted, recompute: bool):
    """Emit the call of a sub-tape, and return its result; None if no trace is known that may hold."""
    sizes = trace.tape.sizes
    dimensions = tuple(map(sizes.value, given.dimensions))
    bodies = [body for body in known.bodies if body.is_current and body.allows(dimensions)]
    groups: dict[tuple, list[Body]] = {}
    for body in bodies:
        groups.setdefault(_result_key(body, dimensions, trace.in_loop), []).append(body)
    for group in groups.values():
        made, places = _instruction(trace, known, group, given, recompute)
        if len(groups) == 1 and not known.is_local and not any(body.may_fail for body in group):
            break
        try:
            if _holds(trace, made, given):
                break
        except UnforeseenShapeError:
            known.drop(group)  # the next trace knows the shapes of this call, too
    else:
        return None
    result = group[0].result
    if result.shares and trace.memory.writes:
        known.in_place = True  # what is written to the result is written to the argument, too
        return None
    trace.calls.sub_tapes.append((known, known.version))
    found = emit(trace, made, given.operands)
    outputs = iter([part(trace, found, *place) for place in places])
    leaves = [
        _leaf(trace, next(outputs), leaf) if type(leaf) is Kind else _plain(leaf)
        for leaf in _leaves_of(group)
    ]
    return (pytrees.unflatten(result.structure, leaves),)


def _leaves_of(group: list[Body]) -> list:
    """Return the leaves of what bodies return: a number is one of NumPy's, unless all return Python's."""
    found = []
    for leaf, *others in zip(*(body.result.leaves for body in group), strict=True):
        differ = type(leaf) is Kind and any(other.cls is not leaf.cls for other in others)
        found.append(leaf._replace(cls=np.float64) if differ else leaf)
    return found


def _result_key(body: Body, dimensions, in_loop: bool) -> tuple:
    """Return what the bodies of one instruction have in common: structure, shapes and dtypes of results.

    In the body of a loop one instruction serves all steps, of which one may take a path that returns a number
    of Python's (of `math`, say), and another one a path that returns one of NumPy's.
    """
    tape, result = body.tape, body.result
    values = tape.sizes.evaluate(dimensions)
    shapes = []
    for value in tape.outputs:
        dims = tape.layouts[int(tape.values["layout"][value])].dims
        shapes.append(tuple(code if code >= 0 else values[-code - 1] for code in dims))
    leaves = [leaf if type(leaf) is Kind else _contents(*leaf) for leaf in result.leaves]
    if in_loop:
        leaves = [
            leaf._replace(cls=np.float64) if type(leaf) is Kind and leaf.cls is float else leaf
            for leaf in leaves
        ]
    return result.structure, tuple(shapes), tuple(leaves)


def _contents(value) -> Hashable:
    """Return what tells a constant part of a result from those of other traces."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    return key_of(value)


def _instruction(trace: Trace, known: KnownBodies, bodies: list[Body], given: Emitted, recompute: bool):
    """Return the loop or the branches that run bodies, and where the result has their outputs."""
    sizes = trace.tape.sizes
    loops, places = [], []
    for number, body in enumerate(bodies):
        tape = body.tape if trace.swept else body.forward_tape
        codes = SizeCodes(tape.sizes.rows, given.dimensions, sizes)
        codes.guard([(guard.left, guard.relation, guard.right) for guard in tape.sizes.guards])
        outs, end = [], 0
        for k, value in enumerate(tape.outputs):
            dims = tuple(map(codes.of, tape.layouts[int(tape.values["layout"][value])].dims))
            if number == 0:
                places.append((dims, end))
            else:
                for own, other in zip(dims, places[k][0], strict=True):
                    sizes.same(own, other)
                dims = places[k][0]
            outs.append(Out(STACK, -1, end, sizes.product(dims)))
            end = sizes.add(end, outs[-1].count)
        extents = (end, *given.ends)
        places_of = given.dimensions, 1, False, given.ports, tuple(outs), extents
        loops.append(
            known.only(Loop(known.name, tape, *places_of, recompute=recompute, samples=body.samples))
        )
    if len(loops) == 1 and not bodies[0].tape.guards:
        return loops[0], places
    extents = (sizes.add(end, 1), *given.ends)
    made = Branches(known.name, tuple(loops), None, extents, chosen=end, source=known)
    return known.only(made), places


def _holds(trace: Trace, made: Loop | Branches, given: Emitted) -> bool:
    """Whether a body holds for the numbers of this call; raise what NumPy would raise for them."""
    values = [np.asarray(trace.evaluation.value(number)) for number in given.operands]
    try:
        operations.loop_values(made, trace.tape.sizes.value, trace.values, *values)
    except MissingBodyError as missing:
        if trace.validity.missing is missing:
            trace.validity.missing = None
        return False
    return True


def _leaf(trace: Trace, number: int, kind: Kind):
    """Return a part of the result as what the function returns."""
    tape = trace.tape
    if kind.cls in (np.ndarray, np.float64, np.float32) and kind.dtype in (np.float64, np.float32):
        return result_of(trace, number, kind.dtype)
    if kind.dtype.kind != "f" and tape.level_of(number) == ACTIVE:
        number = instructions.copied(tape, number, VARYING, trace.line())
    value = kind.made(np.asarray(trace.evaluation.value(number)))
    family = F64
    if kind.dtype in NARROW:
        number, family = instructions.cast(tape, number, F32, trace.line()), F32
    array = new_traced(trace, value, number, tape.level_of(number), family)
    return TracedInteger(array) if kind.cls is int else array


def _plain(leaf: tuple):
    (value,) = leaf
    return value.copy() if isinstance(value, np.ndarray) else value
