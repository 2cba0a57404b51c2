"""Derivatives of finished tapes: functions from tape to tape, which need no trace and no numbers.

A derived tape computes what its tape computes, and then the derivative. It can be derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..emitter.emitter import Emitter
from ..emitter.instructions import copied
from ..emitter.symbol import Symbol
from ..ops import ROWS
from ..tape import Tape
from ..tape.passes import PASSES
from ..tape.resume import keep_histories, resumed
from ..tape.shared_results import Results
from ..tape.tape import ACTIVE, CONSTANT, POOLS, VARYING
from .adjoint import Adjoint
from .loops import LoopRules
from .pushforward import Pushforward

_kept: Results[Tape] = Results()


def adjoint(tape: Tape, dimensions: tuple[int, ...], strong: bool = True, lanes: int | None = None) -> Tape:
    """Return the tape of a function's result and its pullback.

    Parameters
    ----------
    tape
        The function's tape.
    dimensions
        Dimensions of all inputs, in one sequence, for which the tape holds.
    strong
        Whether a zero cotangent adds nothing, whatever the partial is (0 * inf = 0).
    lanes
        None for one cotangent per output. A number: cotangents have a leading axis before the axes of the
        output, and this is a size of that axis for which the tape holds; the tape holds for other sizes too.

    Returns
    -------
    Tape
        Its inputs are those of ``tape`` and one cotangent for each output that is active. Its outputs are
        those of ``tape`` and one cotangent for each input that is active.
    """
    return _derived(_adjoint, tape, dimensions, strong, lanes)


def gradient(tape: Tape, dimensions: tuple[int, ...], passes: Collection[str] = tuple(PASSES)) -> Tape:
    """Return the tape of a scalar function's value and its gradient.

    Parameters
    ----------
    tape, dimensions
        As in `adjoint`; the tape has one output, which is an active scalar.
    passes
        Names of the passes over what is recorded.

    Returns
    -------
    Tape
        Its inputs are those of ``tape``. Its outputs are the value, and one gradient for each active input.
    """
    emitter = _emitter(tape, dimensions)
    outputs, sources = _active_outputs(emitter, tape), _active_inputs(tape)
    stop = len(emitter.tape.code)
    parts = Adjoint(emitter, rules=LoopRules()).run(0, stop, sources, [(outputs[0], 1.0)])
    return _frozen(emitter, tape, _apart(emitter, tape, parts), sources, None, passes)


def _apart(emitter: Emitter, tape: Tape, parts: list) -> list:
    """Return gradients with cells of their own, which each sweep writes.

    The gradient of a product of vectors is the other vector itself, and that of a sum is constant. Callers
    who are given the cells may write to them (``Config(reuse_buffers=True)``), and the prologue would not
    write them again.
    """
    storage = emitter.tape.values
    taken = {storage[slot.value][0] for slot in tape.inputs} | {item.storage for item in tape.literals}
    found = []
    for part, like in zip(parts, _active_inputs(tape), strict=True):
        if part is not None:
            part = _as_symbol(emitter, part, like, None)
            its, level = storage[part.number][0], emitter.tape.level_of(part.number)
            is_shared = its >= len(POOLS) and its in taken
            if is_shared or level == CONSTANT:
                level = level or VARYING
                part = Symbol(emitter, copied(emitter.tape, part.number, level, emitter.line))
            taken.add(its)
        found.append(part)
    return found


def pushforward(
    tape: Tape, dimensions: tuple[int, ...], strong: bool = False, lanes: int | None = None
) -> Tape:
    """Return the tape of a function's result and its pushforward.

    Parameters
    ----------
    tape
        The function's tape.
    dimensions
        Dimensions of all inputs, in one sequence, for which the tape holds.
    strong
        Whether a product is zero where the tangent or the partial is zero, whatever the other one is.
    lanes
        None for one tangent per input. A number: tangents have a leading axis, as in `adjoint`.

    Returns
    -------
    Tape
        Its inputs are those of ``tape`` and one tangent for each input that is active. Its outputs are those
        of ``tape`` and one tangent for each output that is active.
    """
    return _derived(_pushforward, tape, dimensions, strong, lanes)


def _derived(derive: Callable, tape: Tape, dimensions, strong: bool, lanes: int | None) -> Tape:
    def make() -> Tape:
        return derive(_emitter(tape, dimensions), tape, strong, lanes)

    return _kept.of(tape, (derive, tuple(dimensions), strong, lanes), make)


def _emitter(tape: Tape, dimensions) -> Emitter:
    """Return what appends the derivative to a tape."""
    builder = resumed(tape, tuple(dimensions), ROWS)
    keep_histories(builder)
    return Emitter(builder)


def _adjoint(emitter: Emitter, tape: Tape, strong: bool, lanes: int | None) -> Tape:
    outputs, sources = _active_outputs(emitter, tape), _active_inputs(tape)
    stop = len(emitter.tape.code)
    seeds, code = _seeds(emitter, outputs, lanes)
    parts = Adjoint(emitter, strong, rules=LoopRules(), lanes=code).run(0, stop, sources, seeds)
    return _frozen(emitter, tape, parts, sources, code)


def _pushforward(emitter: Emitter, tape: Tape, strong: bool, lanes: int | None) -> Tape:
    outputs, sources = _active_outputs(emitter, tape), _active_inputs(tape)
    stop = len(emitter.tape.code)
    seeds, code = _seeds(emitter, sources, lanes)
    parts = Pushforward(emitter, strong, LoopRules(), lanes=code).run(0, stop, seeds, outputs)
    return _frozen(emitter, tape, parts, outputs, code)


def _active_inputs(tape: Tape) -> list[int]:
    return [slot.value for slot in tape.inputs if slot.level == ACTIVE]


def _active_outputs(emitter: Emitter, tape: Tape) -> list[int]:
    """Return the outputs that are differentiated."""
    builder = emitter.tape
    if tape.calls:
        for value in tape.outputs:  # Further views say that outputs are read, such as a loop's whole result.
            storage, offset, layout = builder.values[value]
            if storage >= len(POOLS):
                builder.view(storage, offset, *builder.layouts[layout])
    return [value for value in tape.outputs if builder.level_of(value) == ACTIVE]


def _seeds(emitter: Emitter, values, lanes: int | None) -> tuple[list[tuple[int, Symbol]], int | None]:
    """Return new inputs for the tangents or cotangents of values, and the size code of the lanes."""
    tape, code = emitter.tape, None
    seeds = []
    for value in values:
        dims = tape.layout_of(value).dims
        shape = (*(() if lanes is None else (lanes,)), *map(tape.sizes.value, dims))
        beside = Symbol(emitter, tape.input(shape, tape.family_of(value), ACTIVE))
        own = list(beside.dims)
        if lanes is not None:
            first = own.pop(0)
            code = first if code is None else tape.sizes.same(code, first)
        for mine, dim in zip(own, dims, strict=True):
            tape.sizes.same(mine, dim)
        seeds.append((value, beside))
    return seeds, code


def _as_symbol(emitter: Emitter, part, like: int, lanes: int | None) -> Symbol:
    """Return a derivative as a value of the tape: it may be a number, or None for zeros."""
    if part.__class__ is Symbol:
        return part
    dims = emitter.tape.layout_of(like).dims
    wide = dims if lanes is None else (lanes, *dims)
    zeros = emitter.zeros(wide, emitter.tape.family_of(like))
    return zeros if part is None else zeros + part


def _frozen(
    emitter: Emitter, tape: Tape, parts, likes, lanes: int | None, passes: Collection[str] = tuple(PASSES)
) -> Tape:
    """Return the tape with derivatives as additional outputs.

    None among ``parts`` stands for zeros in the dimensions of the value in ``likes``.
    """
    symbols = [_as_symbol(emitter, *its, lanes) for its in zip(parts, likes, strict=True)]
    found = [emitter.dense(symbol).number for symbol in symbols]
    return emitter.tape.freeze((*tape.outputs, *found), tuple(passes), derivatives=True, forward=True)
