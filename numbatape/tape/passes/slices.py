"""Linear expressions of shifted views of one array become one instruction each, which goes row by row.

A time step of a heat or wave equation consists of such expressions: ``u[1:-1] + 0.1 * (u[2:] - 2*u[1:-1] +
u[:-2])``. Each of its operations alone reads and writes whole arrays; a row of them stays in the processor's
first cache. Every entry keeps its bits, because the instruction does the same operations in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..column_scans import reach
from ..draft import Draft
from ..draft_values import SCALAR_LAYOUT
from ..families import POOLS
from ..instruction import NONE, Instruction, opcode, rewritten
from ..tape import CONSTANT, F64, VARYING
from ..uses import NO_GROUP

FEWEST_STEPS, MOST_STEPS, FEWEST_TAPS = 3, 32, 2
MOST_AXES = 3
ROUNDS = 4  # how often instructions are left out because an operand is neither a tap nor a step's result
SCRATCH = 1024  # cells for a row of results; like MOST_STEPS a limit of `numbatape.ops.stencils`
# Kinds of steps, in the order of `numbatape.ops.stencils`.
ADD, SUBTRACT, NEGATE, MULTIPLY, DIVIDE = range(5)


class Step(NamedTuple):
    """A row of the code that may be a step.

    Attributes
    ----------
    kind, factor
        What it does. The factor of a product or quotient is not among the operands.
    operands, active
        What it reads, and which of that takes an adjoint.
    out, stage
        Its result, and the stage that it runs in.
    """

    kind: int
    factor: float
    operands: tuple[int, ...]
    active: tuple[int, ...]
    out: int
    stage: int


class Tree(NamedTuple):
    """The steps that lead to a value: numbers of rows, and of values that are read from outside."""

    rows: tuple[int, ...]
    leaves: tuple[int, ...]


class Form(NamedTuple):
    """A layout, with numbers for codes for which guards allow only one, and whether taps may have it."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    fits: bool


class Values:
    """What is asked again and again of the values of steps, looked up at once.

    Attributes
    ----------
    addresses
        ``(storage, offset, layout)`` of each value.
    last
        The row that writes the cells of each value last.
    single
        The values that are one operand of one instruction, and nothing else needs them.
    taps, tables
        What trees need that are alike, as those of a loop's turns are: results of `_taps` and `_table`.
    """

    def __init__(self, draft: Draft, code: np.ndarray, steps: dict[int, Step]):
        self.draft = draft
        numbers = sorted({value for step in steps.values() for value in (step.out, *step.operands)})
        values = np.array(numbers, np.intp)
        columns = (column.take(values).tolist() for column in (draft.storage, draft.offset, draft.layout))
        self.addresses = dict(zip(numbers, zip(*columns, strict=True), strict=True))
        uses, groups = draft.uses(code), draft.group.take(values)
        self.last = dict(zip(numbers, uses.last_write.take(groups).tolist(), strict=True))
        once = (uses.reads.take(groups) == 1) & (uses.writes.take(groups) == 1)
        self.single = {*values[once & ~draft.fixed(uses).take(groups)].tolist()}
        self._forms: dict[int, Form] = {}
        self.taps: dict[tuple, tuple | None] = {}
        self.tables: dict[tuple, np.ndarray | None] = {}

    def form(self, value: int) -> Form:
        """Return the form of a value's layout."""
        layout = self.addresses[value][2]
        found = self._forms.get(layout)
        if found is None:
            sizes = self.draft.sizes
            dims, strides = (tuple(map(sizes.settled, codes)) for codes in self.draft.layouts[layout])
            fits = all(map(sizes.value, dims)) and min(map(sizes.value, strides), default=0) >= 1
            found = self._forms[layout] = Form(dims, strides, fits)
        return found


def make_stencils(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Replace trees of steps whose leaves are shifted views of one storage."""
    shifted = _shifted(draft, code)
    steps = _steps(draft, code, shifted) if len(shifted) else {}
    if len(steps) < FEWEST_STEPS:
        return code
    values = Values(draft, code, steps)
    changes: dict[int, list[tuple]] = {}
    for root, tree in _trees(values, steps).items():
        if FEWEST_STEPS <= len(tree.rows) <= MOST_STEPS:
            taps = {values.addresses[value][1] for value in tree.leaves}
            row = _stencil(values, code, steps, root, tree) if len(taps) >= FEWEST_TAPS else None
            if row is not None:
                changes |= {k: [] for k in tree.rows}
                changes[root] = [row]
    return rewritten(code, changes)


def _shifted(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Return values in each storage of which instructions read views that begin at different places.

    There are none if no two views of a storage differ in this alone.
    """
    fields = draft.fields(code)
    read = np.concatenate([fields.a, fields.b])
    read = read[read >= 0]
    storage, offset, layout = (column.take(read) for column in (draft.storage, draft.offset, draft.layout))
    arrays = (storage >= len(POOLS)) & (layout != SCALAR_LAYOUT)
    # Most storages are only read from one place on, and are not sorted.
    some = np.zeros(len(draft.storages), np.int32)
    some[storage[arrays]] = offset[arrays]
    several = np.zeros(len(some), bool)
    several[storage[arrays & (offset != some.take(storage))]] = True
    arrays &= several.take(storage)
    if not arrays.any():
        return read[:0]
    read, storage, offset, layout = read[arrays], storage[arrays], offset[arrays], layout[arrays]
    order = np.lexsort((offset, layout, storage))
    same = [(np.diff(column[order]) == 0) for column in (storage, layout, offset)]
    if not (same[0] & same[1] & ~same[2]).any():
        return read[:0]
    order = np.lexsort((offset, storage))
    apart = (np.diff(storage[order]) == 0) & (np.diff(offset[order]) != 0)
    return read[order][1:][apart]


def _steps(draft: Draft, code: np.ndarray, shifted: np.ndarray) -> dict[int, Step]:
    """Return the rows that may be steps from shifted views, by number."""
    ops = draft.ops
    kinds = {ADD: ops.with_signs((1, 1)), SUBTRACT: ops.with_signs((1, -1)), NEGATE: ops.with_signs((-1,))}
    products = {
        row for row in ops.with_trait("factors") - ops.with_trait("zero_wins") if ops[row].factors == "xy"
    }
    quotients = ops.with_trait("quotient")
    rows = draft.array_rows(code, frozenset().union(*kinds.values(), products, quotients))
    rows, uses = rows[draft.fields(code).op[rows] & 1 == F64], draft.uses(code)
    views = uses.flags(draft.group[shifted])
    reached = reach(uses.out[rows], uses.operands.take(rows, axis=0), views)
    rows = rows[reached[uses.out[rows]]]
    pooled = np.append(False, draft.groups()[0][1:] < len(POOLS))
    # Each round leaves out steps, until all that is read are views, numbers and results of steps.
    for _ in range(ROUNDS):
        fit = views | pooled | uses.flags(uses.out[rows])
        fit[NO_GROUP] = True
        steps = fit.take(uses.operands.take(rows, axis=0)).all(axis=1)
        if steps.all():
            break
        rows = rows[steps]
    found = {}
    names = "op", "a", "b", "active", "out", "stage"
    for k, *fields in zip(rows.tolist(), *(code[name][rows].tolist() for name in names), strict=True):
        row, a, b, active, out, stage = fields
        row >>= 1
        kind = next((kind for kind, its in kinds.items() if row in its), None)
        takes = active & 1, active >> 1 & 1
        if kind is not None:
            count = 1 if b == NONE else 2
            found[k] = Step(kind, 1.0, (a, b)[:count], takes[:count], out, stage)
        elif (factor := _number(draft, b)) is not None:
            found[k] = Step(MULTIPLY if row in products else DIVIDE, factor, (a,), takes[:1], out, stage)
        elif row in products and (factor := _number(draft, a)) is not None:
            found[k] = Step(MULTIPLY, factor, (b,), takes[1:], out, stage)
    return found


def _number(draft: Draft, value: int) -> float | None:
    """Return a literal number that is finite and not zero."""
    number = draft.builder.numbers.get(value)
    if number is None or draft.address(value)[0] >= len(POOLS):
        return None
    return float(number) if math.isfinite(number) and number != 0 else None


def _trees(values: Values, steps: dict[int, Step]) -> dict[int, Tree]:
    """Return each tree that no other tree contains; the keys are the trees' last rows."""
    trees: dict[int, Tree] = {}
    for k, step in steps.items():
        dims = values.form(step.out).dims
        if len(dims) > MOST_AXES:
            continue
        rows, leaves, taken = [k], [], []
        for value in step.operands:
            maker = values.last[value]
            its = steps[maker] if maker in trees else None
            if its is not None and its.out == value and its.stage == step.stage and value in values.single:
                rows += trees[maker].rows
                leaves += trees[maker].leaves
                taken.append(maker)
            elif maker < k:
                leaves.append(value)
            else:
                break
        else:
            if _alike(values, dims, leaves):
                trees[k] = Tree(tuple(rows), tuple(leaves))
                for maker in taken:
                    del trees[maker]
    return trees


def _alike(values: Values, dims: tuple[int, ...], leaves: list[int]) -> bool:
    """Whether values are views of one storage that differ only in the cell where they begin."""
    storage = values.addresses[leaves[0]][0]
    form = values.form(leaves[0])
    if storage < len(POOLS) or form.dims != dims or not form.fits:
        return False
    return all(values.addresses[value][0] == storage and values.form(value) == form for value in leaves)


def _stencil(values: Values, code: np.ndarray, steps: dict[int, Step], root: int, tree: Tree):
    """Return the instruction that does the steps of a tree; None where no array contains all taps."""
    draft, last = values.draft, Instruction._make(code[root].item())
    found = _taps(values, last.out, tree.leaves)
    table = None if found is None else _table(values, steps, tree, found.places)
    if table is None:
        return None
    takes = any(
        active and value in found.places
        for k in tree.rows
        for value, active in zip(steps[k].operands, steps[k].active, strict=True)
    )
    return last.replace(
        op=opcode(draft.ops.number["stencil"], F64),
        active=int(takes),
        out=found.out,
        a=found.whole,
        b=draft.literal(table),
        c=NONE,
        aux=draft.array((SCRATCH,), F64, VARYING if last.stage else CONSTANT),
    )


class Taps(NamedTuple):
    """The leaves of a tree as views of three axes.

    Attributes
    ----------
    places
        Where each leaf begins in ``whole``, by value.
    whole, out
        A view that contains all leaves, and the result as a view.
    """

    places: dict[int, tuple[int, ...]]
    whole: int
    out: int


def _taps(values: Values, out: int, leaves) -> Taps | None:
    """Return the leaves as views of an array that contains them; None where it would reach too far."""
    draft, addresses = values.draft, values.addresses
    (_, offset, own), (tapped, _, layout) = addresses[out], addresses[leaves[0]]
    size, starts = draft.storages[tapped][0], tuple([addresses[value][1] for value in leaves])
    key = layout, own, size, starts
    if key not in values.taps:
        values.taps[key] = _whole(draft, draft.layouts[own].strides, values.form(leaves[0]), size, starts)
    found = values.taps[key]
    if found is None:
        return None
    places, first, (dims, apart), (shape, strides) = found
    return Taps(
        dict(zip(leaves, places, strict=True)),
        draft.view(leaves[0], first, dims, apart),
        draft.view(out, offset, shape, strides),
    )


def _whole(draft: Draft, own, form: Form, size: int, starts: tuple[int, ...]) -> tuple | None:
    """Return how an array contains views that begin at some cells; None if it reaches beyond its storage.

    These are the place of each view, the array's first cell, its dimensions and strides, and those of the
    result, whose strides are ``own``.
    """
    sizes, (dims, strides, _) = draft.sizes, form
    order = sorted(range(len(dims)), key=lambda axis: -sizes.value(strides[axis]))
    lead = (1,) * (MOST_AXES - len(dims))
    shape = (*lead, *(dims[axis] for axis in order))
    apart = (*lead, *(strides[axis] for axis in order))
    places, first = [], 0
    for start in starts:
        rest = sizes.value(start)
        place = [0] * len(lead)
        for stride in map(sizes.value, apart[len(lead) :]):
            place.append(rest // stride)
            rest %= stride
        places.append(place)
        first = rest

    def cell(place) -> int:
        """Return the place of a cell in the storage, as a size code."""
        found = first
        for n, stride in zip(place, apart, strict=True):
            found = sizes.add(found, sizes.mul(n, stride))
        return found

    expected = [(cell(place), sizes.settled(start)) for place, start in zip(places, starts, strict=True)]
    corner = [min(column) for column in zip(*places, strict=True)]
    places = [tuple(map(int.__sub__, place, corner)) for place in places]
    columns = zip(*places, strict=True)
    whole = [sizes.add(n, max(column)) for n, column in zip(shape, columns, strict=True)]
    last = [sizes.sub(sizes.add(n, least), 1) for n, least in zip(whole, corner, strict=True)]
    end = sizes.add(cell(last), 1)
    if sizes.value(end) > sizes.value(size):
        return None
    if any(place != offset for place, offset in expected):
        return None  # a guard that they are equal would fix sizes, as for ``x[n // 2:] - x[n // 2 - 1:-1]``
    sizes.guard(size, ">=", end)
    result = shape, (*lead, *(own[axis] for axis in order))
    return places, cell(corner), (tuple(whole), apart), result


def _table(values: Values, steps: dict[int, Step], tree: Tree, places) -> np.ndarray | None:
    """Return the table of a stencil (see `numbatape.ops.stencils`); None if a weight is out of range."""
    its, taps = [steps[k] for k in sorted(tree.rows)], list(places)
    number = {step.out: n for n, step in enumerate(its)}
    number |= {value: -1 - n for n, value in enumerate(taps)}
    form = tuple([(step.kind, step.factor, *map(number.__getitem__, step.operands)) for step in its])
    key = form, tuple(places.values())
    if key not in values.tables:
        values.tables[key] = _tabulated(*key)
    return values.tables[key]


def _tabulated(steps: tuple[tuple, ...], places: tuple) -> np.ndarray | None:
    """Return a table of steps ``(kind, factor, *operands)``; operands are steps or, from -1 down, taps."""
    weights = [0.0] * (len(steps) - 1) + [1.0] + [0.0] * len(places)  # weights[-1 - n] is that of a tap
    taps = range(-1, -1 - len(places), -1)
    for n in reversed(range(len(steps))):
        kind, factor, *operands = steps[n]
        weight = weights[n]
        partials = {SUBTRACT: (1.0, -1.0), NEGATE: (-1.0,), MULTIPLY: (factor,), DIVIDE: (1 / factor,)}
        for operand, partial in zip(operands, partials.get(kind, (1.0, 1.0)), strict=True):
            weights[operand] += weight * partial
    if not np.isfinite(weights).all():
        return None
    entries = [[len(steps), len(places)]]
    for kind, factor, *operands in steps:
        x, y = (*operands, operands[0])[:2]
        entries.append([kind, x, y, factor])
    entries += [[*place, weights[tap]] for place, tap in zip(places, taps, strict=True)]
    return np.array([x for entry in entries for x in entry], float)
