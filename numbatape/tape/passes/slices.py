"""Linear expressions of shifted views of one array become one instruction each, which goes row by row.

A time step of a heat or wave equation consists of such expressions: ``u[1:-1] + 0.1 * (u[2:] - 2*u[1:-1] +
u[:-2])``. Each of its operations alone reads and writes whole arrays; a row of them stays in the processor's
first cache. Every entry keeps its bits, because the instruction does the same operations in the same order.
"""

from __future__ import annotations

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
    """A row of the code that may be a step: its kind, what it reads, and the factor of a product."""

    kind: int
    operands: tuple[int, ...]
    factor: float = 1.0


class Tree(NamedTuple):
    """The steps that lead to a value: numbers of rows, and of values that are read from outside."""

    rows: tuple[int, ...]
    leaves: tuple[int, ...]


def make_stencils(draft: Draft, code: np.ndarray) -> np.ndarray:
    """Replace trees of steps whose leaves are shifted views of one storage."""
    shifted = _shifted(draft, code)
    steps = _steps(draft, code, shifted) if len(shifted) else {}
    if len(steps) < FEWEST_STEPS:
        return code
    changes: dict[int, list[tuple]] = {}
    for root, tree in _trees(draft, code, steps).items():
        taps = {draft.address(value)[1] for value in tree.leaves}
        if FEWEST_STEPS <= len(tree.rows) <= MOST_STEPS and len(taps) >= FEWEST_TAPS:
            row = _stencil(draft, code, steps, root, tree)
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
    for k in rows.tolist():
        row, a, b = (int(code[name][k]) for name in ("op", "a", "b"))
        row >>= 1
        kind = next((kind for kind, its in kinds.items() if row in its), None)
        if kind is not None:
            found[k] = Step(kind, (a,) if b == NONE else (a, b))
        elif (factor := _number(draft, b)) is not None:
            found[k] = Step(MULTIPLY if row in products else DIVIDE, (a,), factor)
        elif row in products and (factor := _number(draft, a)) is not None:
            found[k] = Step(MULTIPLY, (b,), factor)
    return found


def _number(draft: Draft, value: int) -> float | None:
    """Return a literal number that is finite and not zero."""
    number = draft.builder.numbers.get(value) if draft.address(value)[0] < len(POOLS) else None
    return float(number) if number is not None and np.isfinite(number) and number != 0 else None


def _trees(draft: Draft, code: np.ndarray, steps: dict[int, Step]) -> dict[int, Tree]:
    """Return each tree that no other tree contains; the keys are the trees' last rows."""
    uses = draft.uses(code)
    fixed = draft.fixed(uses)
    trees: dict[int, Tree] = {}
    for k, step in steps.items():
        dims = _codes(draft, draft.layout_of(int(code["out"][k])).dims)
        if len(dims) > MOST_AXES:
            continue
        rows, leaves, taken = [k], [], []
        for value in step.operands:
            group = draft.group[value]
            maker = int(uses.last_write[group])
            inside = (
                maker in trees
                and int(code["out"][maker]) == value
                and code["stage"][maker] == code["stage"][k]
            )
            inside = inside and uses.reads[group] == uses.writes[group] == 1 and not fixed[group]
            if inside:
                rows += trees[maker].rows
                leaves += trees[maker].leaves
                taken.append(maker)
            elif maker < k:
                leaves.append(value)
            else:
                break
        else:
            if _alike(draft, dims, leaves):
                trees[k] = Tree(tuple(rows), tuple(leaves))
                for maker in taken:
                    del trees[maker]
    return trees


def _codes(draft: Draft, codes) -> tuple[int, ...]:
    """Return size codes, with the number in place of a code for which guards allow only one."""
    return tuple(map(draft.sizes.settled, codes))


def _values(draft: Draft, codes) -> list[int]:
    """Return the sizes of this trace."""
    return list(map(draft.sizes.value, codes))


def _alike(draft: Draft, dims: tuple[int, ...], leaves: list[int]) -> bool:
    """Whether values are views of one storage that differ only in the cell where they begin."""
    storage, _, layout = draft.address(leaves[0])
    strides = _codes(draft, draft.layouts[layout].strides)
    if storage < len(POOLS) or min(_values(draft, strides), default=0) < 1 or not all(_values(draft, dims)):
        return False
    for value in leaves:
        its, _, layout = draft.address(value)
        if its != storage or _codes(draft, draft.layouts[layout].dims) != dims:
            return False
        if _codes(draft, draft.layouts[layout].strides) != strides:
            return False
    return True


def _stencil(draft: Draft, code: np.ndarray, steps: dict[int, Step], root: int, tree: Tree):
    """Return the instruction that does the steps of a tree; None where no array contains all taps."""
    last = Instruction._make(code[root].item())
    found = _taps(draft, last.out, tree.leaves)
    table = None if found is None else _table(code, steps, tree, found.places)
    if table is None:
        return None
    takes = any(
        int(code["active"][k]) >> place & 1
        for k in tree.rows
        for place, name in enumerate("ab")
        if int(code[name][k]) in found.places
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


def _taps(draft: Draft, out: int, leaves) -> Taps | None:
    """Return the leaves as views of an array that contains them; None where it would reach too far."""
    layout, sizes = draft.layout_of(leaves[0]), draft.sizes
    dims, strides = _codes(draft, layout.dims), _codes(draft, layout.strides)
    own = draft.layout_of(out).strides
    order = sorted(range(len(dims)), key=lambda axis: -sizes.value(strides[axis]))
    lead = [1] * (MOST_AXES - len(dims))
    shape = (*lead, *(dims[axis] for axis in order))
    apart = (*lead, *(strides[axis] for axis in order))
    places, first = {}, 0
    for value in leaves:
        rest = sizes.value(draft.address(value)[1])
        place = [0] * len(lead)
        for stride in _values(draft, apart[len(lead) :]):
            place.append(rest // stride)
            rest %= stride
        places[value] = place
        first = rest

    def cell(place) -> int:
        """Return the place of a cell in the storage, as a size code."""
        found = first
        for n, stride in zip(place, apart, strict=True):
            found = sizes.add(found, sizes.mul(n, stride))
        return found

    expected = {
        value: (cell(place), sizes.settled(draft.address(value)[1])) for value, place in places.items()
    }
    corner = [min(column) for column in zip(*places.values(), strict=True)]
    places = {value: tuple(map(int.__sub__, place, corner)) for value, place in places.items()}
    columns = zip(*places.values(), strict=True)
    whole = [sizes.add(n, max(column)) for n, column in zip(shape, columns, strict=True)]
    last = [sizes.sub(sizes.add(n, least), 1) for n, least in zip(whole, corner, strict=True)]
    end = sizes.add(cell(last), 1)
    size = draft.storages[draft.address(leaves[0])[0]][0]
    if sizes.value(end) > sizes.value(size):
        return None
    if any(place != offset for place, offset in expected.values()):
        return None  # a guard that they are equal would fix sizes, as for ``x[n // 2:] - x[n // 2 - 1:-1]``
    sizes.guard(size, ">=", end)
    base = leaves[0]
    return Taps(
        places,
        draft.view(base, cell(corner), whole, apart),
        draft.view(out, draft.address(out)[1], shape, (*lead, *(own[axis] for axis in order))),
    )


def _table(code: np.ndarray, steps: dict[int, Step], tree: Tree, places) -> np.ndarray | None:
    """Return the table of a stencil (see `numbatape.ops.stencils`); None if a weight is out of range."""
    rows, taps = sorted(tree.rows), list(places)
    number = {int(code["out"][k]): n for n, k in enumerate(rows)}
    number |= {value: -1 - n for n, value in enumerate(taps)}
    weights = dict.fromkeys(number, 0.0) | {int(code["out"][rows[-1]]): 1.0}
    for k in reversed(rows):
        kind, operands, factor = steps[k]
        weight = weights[int(code["out"][k])]
        partials = {SUBTRACT: (1.0, -1.0), NEGATE: (-1.0,), MULTIPLY: (factor,), DIVIDE: (1 / factor,)}
        for value, partial in zip(operands, partials.get(kind, (1.0, 1.0)), strict=True):
            weights[value] += weight * partial
    if not np.isfinite(list(weights.values())).all():
        return None
    entries = [[len(rows), len(taps)]]
    for k in rows:
        kind, operands, factor = steps[k]
        x, y = (number[value] for value in (*operands, operands[0])[:2])
        entries.append([kind, x, y, factor])
    entries += [[*places[value], weights[value]] for value in taps]
    return np.array([x for entry in entries for x in entry], float)
