"""Instructions appended to a tape that is being built: results' dimensions, levels and active operands.

An instruction is described by its row of the op table; numbers are not needed. The tracer
attaches NumPy's values to the results, and derivatives are made without any values.
"""

from __future__ import annotations

import functools

from ..errors import UnsupportedOperationError
from ..ops import OPCODE, OPS, ArrayOp, Elementwise
from ..tape import TapeBuilder
from ..tape.instruction import MAIN, NONE, PROLOGUE, opcode
from ..tape.tape import ACTIVE, CONSTANT, VARYING
from . import addresses

CORES = {op.name: op.operands for op in OPS if isinstance(op, ArrayOp)}  # parsed once, not in each call
# Whether the result of an array op has an axis whose size the operands do not tell.
FREE = {name: not set(cores[0]).issubset("".join(map("".join, cores[1:]))) for name, cores in CORES.items()}
# What stands in an instruction for k of the fields a, b, c and aux that it does not have.
UNUSED = [(NONE,) * k for k in range(5)]
COPY, CAST = OPCODE["copy"], OPCODE["cast"]


def row(name: str):
    """Return a row of the op table by name."""
    return OPS[OPCODE[name]]


def broadcast_dims(tape: TapeBuilder, shapes) -> tuple[int, ...]:
    """Return the broadcast of dimensions given as codes; relations that it relies on become guards."""
    common: tuple[int, ...] = ()
    for dims in shapes:
        if dims != common and dims != ():
            if common != ():
                break
            common = dims
    else:
        return common  # all shapes are equal but for those of numbers
    sizes = tape.sizes
    result: list[int] = []
    for k in range(max(map(len, shapes))):
        chosen = 1
        for dims in shapes:
            if k >= len(dims):
                continue
            dim = dims[-1 - k]
            if chosen == 1:
                chosen = sizes.pin(dim) if sizes.value(dim) == 1 else dim
            elif sizes.value(dim) == 1:
                sizes.pin(dim)
            else:
                chosen = sizes.same(chosen, dim)
        result.append(chosen)
    return tuple(reversed(result))


def elementwise(tape: TapeBuilder, op: Elementwise, family: int, numbers, line: int) -> int:
    """Record an elementwise op of operands in a family's cells; they broadcast as NumPy's do."""
    return elementwise_of_level(tape, op, family, numbers, line)[0]


def elementwise_of_level(
    tape: TapeBuilder, op: Elementwise, family: int, numbers, line: int
) -> tuple[int, int]:
    """Record as `elementwise` does; return the result and its level."""
    code = 2 * OPCODE[op.name] + family
    values, storages = tape.values, tape.storages
    # What the result is like, and which guards it needs, follows from the operands' layouts and levels.
    if len(numbers) == 2:
        a, b = numbers
        storage, _, layout = values[a]
        other, _, its_layout = values[b]
        key: tuple = code, layout, storages[storage][2], its_layout, storages[other][2]
        operands = a, b, NONE, NONE
    elif len(numbers) == 1:
        (a,) = numbers
        storage, _, layout = values[a]
        key = code, layout, storages[storage][2]
        operands = a, NONE, NONE, NONE
    else:
        a, b, c = numbers
        pairs = [(layout, storages[storage][2]) for storage, _, layout in (values[a], values[b], values[c])]
        key = code, *pairs
        operands = a, b, c, NONE
    found = tape.results.get(key)
    if found is None:
        found = tape.results[key] = _elementwise_result(tape, op, numbers, line)
    layout, cells, level, active, stage, otherwise = found
    if otherwise:
        given = [*operands]
        for k in otherwise:
            given[k] = turned(tape, given[k], layout, line)
        operands = tuple(given)
    out = tape.new_array(layout, cells, family, level) if layout else tape.scalar(family, level)
    tape.code.recent += (code, active, stage, out, *operands, line)
    return out, level


def _elementwise_result(tape: TapeBuilder, op: Elementwise, numbers, line: int) -> tuple:
    dims, level, active = _result(tape, op, numbers, line)
    layout, cells = tape.dense(dims)
    otherwise: tuple = ()
    if len(dims) > 1 and OPCODE[op.name] != COPY:  # a copy is what makes the cells row-major
        layout, otherwise = _in_memory_order(tape, layout, numbers)
    return layout, cells, level, active, MAIN if level else PROLOGUE, otherwise


def _in_memory_order(tape: TapeBuilder, layout: int, numbers) -> tuple[int, tuple[int, ...]]:
    """Return the layout of an elementwise op's result, and which operands are copied to it before.

    The result has the order of axes that all operands have in memory, as in NumPy. Where they disagree,
    constants take the order of the others, once; other operands become row-major.
    """
    dims, size = tape.layouts[layout].dims, tape.sizes.value
    sizes = [*map(size, dims)]
    full = []
    for k, number in enumerate(numbers):
        its = tape.layout_of(number)
        if 0 not in its.strides and [*map(size, its.dims)] == sizes:  # what is broadcast lies in no order
            full.append((k, addresses.axis_order(tape, its), tape.level_of(number) == CONSTANT))
    orders = {order for _, order, constant in full if not constant} or {order for _, order, _ in full}
    if None in orders or not orders:
        return layout, ()
    order = orders.pop() if len(orders) == 1 else tuple(range(len(dims)))
    layout = addresses.ordered(tape, dims, order)
    return layout, tuple(k for k, its, _ in full if its is not None and its != order)


def turned(tape: TapeBuilder, number: int, layout: int, line: int) -> int:
    """Return a copy of a value in another layout, which has the same dimensions and every cell once."""
    family, level = tape.family_of(number), tape.level_of(number)
    out = tape.new_array(layout, tape.dense(tape.layouts[layout].dims)[1], family, level)
    active, stage = int(level == ACTIVE), MAIN if level else PROLOGUE
    tape.code.recent += (opcode(COPY, family), active, stage, out, number, NONE, NONE, NONE, line)
    return out


def _result(tape: TapeBuilder, op: Elementwise, numbers, line: int) -> tuple[tuple[int, ...], int, int]:
    """Return dimensions and level of an elementwise op's result, and which operands take an adjoint."""
    partials, shapes, level, active = op.partials, [], CONSTANT, 0
    for k, number in enumerate(numbers):
        its_level = tape.level_of(number)
        shapes.append(tape.layout_of(number).dims)
        if its_level > level:
            level = its_level
        if its_level == ACTIVE:
            if partials[k] is not None:
                active |= 1 << k
            elif "xyw"[k] in op.opaque:
                raise _opaque(op, k, tape.source.where(line))
    if level == ACTIVE and not active:
        level = VARYING
    return broadcast_dims(tape, shapes), level, active


def _opaque(op: Elementwise, k: int, where) -> UnsupportedOperationError:
    place = ("first", "second", "third")[k]
    return UnsupportedOperationError(
        f"{op.name} at {where} has no derivative in closed form for its {place} argument; "
        "pass that as nt.Constant, or wrap it in nt.stop_gradient"
    )


def array_op(
    tape: TapeBuilder,
    op: ArrayOp,
    family: int,
    numbers,
    line: int,
    dims: dict[str, int],
    differentiable: bool = True,
) -> int:
    """Record an array op: core dimensions last, batch dimensions broadcast.

    Parameters
    ----------
    numbers
        Operands, in cells of the family unless they are positions.
    dims
        Size codes of the letters of the result's signature that the operands do not have.
    differentiable
        False if the result carries no derivative.
    """
    return array_op_of_level(tape, op, family, numbers, line, dims, differentiable)[0]


def array_op_of_level(
    tape: TapeBuilder,
    op: ArrayOp,
    family: int,
    numbers,
    line: int,
    dims: dict[str, int],
    differentiable: bool,
) -> tuple[int, int]:
    """Record as `array_op` does; return the result and its level."""
    code = 2 * OPCODE[op.name] + family
    values, storages, parts = tape.values, tape.storages, [code, differentiable]
    if dims:
        parts += dims.items()
    for number in numbers:
        storage, _, layout = values[number]
        parts += (layout, storages[storage][2])
    key = tuple(parts)
    found = tape.results.get(key)
    if found is None:
        shape, scratch, level, active = _array_result(tape, op, numbers, dims, differentiable)
        found = *tape.dense(shape), scratch, level, active, MAIN if level else PROLOGUE
        tape.results[key] = found
    layout, cells, scratch, level, active, stage = found
    out = tape.new_array(layout, cells, family, level) if layout else tape.scalar(family, level)
    aux = NONE if scratch is None else tape.array(scratch, family, VARYING if level else CONSTANT)
    tape.code.recent += (code, active, stage, out, *numbers, *UNUSED[3 - len(numbers)], aux, line)
    return out, level


def _array_result(tape: TapeBuilder, op: ArrayOp, numbers, dims: dict[str, int], differentiable: bool):
    """Return dimensions of an array op's result and of its scratch (or None), level, and active operands."""
    sizes = tape.sizes
    result, *cores = CORES[op.name]
    letters: dict[str, int] = {}
    batches, level, active = [], CONSTANT, 0
    for k, (number, core) in enumerate(zip(numbers, cores, strict=True)):
        its_dims, its_level = tape.layout_of(number).dims, tape.level_of(number)
        split = len(its_dims) - len(core)
        if split:
            batches.append(its_dims[:split])
        for letter, dim in zip(core, its_dims[split:], strict=True):
            known = letters.setdefault(letter, dim)
            if known != dim:
                letters[letter] = sizes.same(known, dim)
        if its_level > level:
            level = its_level
        if its_level == ACTIVE and "abc"[k] not in op.index:
            active |= 1 << k
    if not (differentiable and op.differentiable):
        active = 0
    if level == ACTIVE and not active:
        level = VARYING
    batch = broadcast_dims(tape, batches)
    letters = dims | letters
    scratch = None if op.scratch == "0" else (*batch, _scratch_cells(sizes, op, letters))
    return batch + tuple([letters[x] for x in result]), scratch, level, active


def _scratch_cells(sizes, op: ArrayOp, letters: dict[str, int]) -> int:
    """Evaluate the scratch formula over size codes (sums and products of letters)."""
    result = 0
    for factors in _terms(op.scratch):
        result = sizes.add(result, sizes.product(letters.get(x, x) for x in factors))
    return result


@functools.cache
def _terms(formula: str) -> list[list]:
    """Return the terms of a formula, each a list of factors: letters and numbers."""
    terms = formula.replace(" ", "").split("+")
    return [[int(x) if x.isdigit() else x for x in term.split("*")] for term in terms]


def cast(tape: TapeBuilder, number: int, family: int, line: int) -> int:
    """Return a value in another family's cells."""
    return _converted(tape, number, CAST, family, tape.level_of(number), line)


def copied(tape: TapeBuilder, number: int, level: int, line: int) -> int:
    """Return a copy of a value in cells of another level."""
    return _converted(tape, number, COPY, tape.family_of(number), level, line)


def copied_into(tape: TapeBuilder, out: int, number: int, line: int) -> None:
    """Copy a value to an address whose cells are of the same family."""
    level = tape.level_of(number)
    stage = PROLOGUE if level == CONSTANT else MAIN
    tape.emit(opcode(COPY, tape.family_of(number)), level == ACTIVE, stage, out, number, line=line)


def _converted(tape: TapeBuilder, number: int, op: int, family: int, level: int, line: int) -> int:
    out = tape.array(tape.layout_of(number).dims, family, level)
    active = 1 if tape.level_of(number) == ACTIVE and level == ACTIVE else 0
    tape.emit(opcode(op, family), active, MAIN if level else PROLOGUE, out, number, line=line)
    return out


def zeros(tape: TapeBuilder, dims, family: int, line: int) -> int:
    """Return an active array of zeros, for derivatives."""
    out = tape.array(tuple(dims), family, ACTIVE)
    # It is cleared in each sweep, because the additions to it run in each sweep; the prologue does not.
    op = OPCODE["fill"] if dims else COPY
    tape.emit(opcode(op, family), 0, MAIN, out, tape.zero(family), line=line)
    return out


def pieces(tape: TapeBuilder, dims, family: int, parts, line: int) -> int:
    """Return a new array filled piece by piece.

    Parameters
    ----------
    parts
        ``(spans, number)`` pairs: per axis ``(first, size)`` as size codes, and the value that is copied
        there. Together they cover each cell exactly once.
    """
    sizes = tape.sizes
    level = max((tape.level_of(number) for _, number in parts), default=CONSTANT)
    whole = tape.array(tuple(dims), family, level)
    strides = tape.layout_of(whole).strides
    for spans, number in parts:
        offset = tape.offset_of(whole)
        for (first, _), stride in zip(spans, strides, strict=True):
            offset = sizes.add(offset, sizes.mul(first, stride))
        place = tuple(size for _, size in spans)
        broadcast_dims(tape, [place, tape.layout_of(number).dims])
        part = addresses.view(tape, whole, place, strides, offset)
        copied_into(tape, part, number, line)
    return whole


def joined(tape: TapeBuilder, numbers, axis: int, family: int, line: int) -> tuple[int, int]:
    """Return a new array of arrays of a family one after another along an axis, and its level.

    Which sizes it has, the guards that they need, and where each array goes follows from the layouts.
    """
    values, storages = tape.values, tape.storages
    addresses_of = [values[number] for number in numbers]
    place = joined, axis, *[layout for _, _, layout in addresses_of]
    found = tape.rearranged.get(place)
    if found is None:
        found = tape.rearranged[place] = _places(tape, numbers, axis)
    layout, cells, places = found
    levels = [storages[storage][2] for storage, _, _ in addresses_of]
    level = max(levels)
    whole = tape.new_array(layout, cells, family, level)
    storage, code = values[whole][0], opcode(COPY, family)
    for number, its_level, (offset, part) in zip(numbers, levels, places, strict=True):
        out = values.append_array((storage, offset, part))
        stage = PROLOGUE if its_level == CONSTANT else MAIN
        active = 1 if its_level == ACTIVE else 0
        tape.code.recent += (code, active, stage, out, number, NONE, NONE, NONE, line)
    return whole, level


def _places(tape: TapeBuilder, numbers, axis: int) -> tuple[int, int, list[tuple[int, int]]]:
    """Return layout and cells of arrays one after another, and offset and layout of each one in the whole."""
    sizes = tape.sizes
    shapes = [tape.layout_of(number).dims for number in numbers]
    dims = list(shapes[0])
    for other in shapes[1:]:
        for k, dim in enumerate(other):
            if k != axis:
                dims[k] = sizes.same(dims[k], dim)
    firsts, end = [], 0
    for shape in shapes:
        firsts.append(end)
        end = sizes.add(end, shape[axis])
    dims[axis] = end
    layout, cells = tape.dense(tuple(dims))
    strides = tape.layouts[layout].strides
    places = []
    for shape, first in zip(shapes, firsts, strict=True):
        dims[axis] = shape[axis]
        places.append((sizes.mul(first, strides[axis]), tape.layout_number(tuple(dims), strides)))
    return layout, cells, places


def in_family(tape: TapeBuilder, number: int, family: int, line: int) -> int:
    """Return a value as it is, or cast, in a family's cells."""
    return number if tape.family_of(number) == family else cast(tape, number, family, line)
