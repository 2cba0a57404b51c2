"""Which instructions are linear in a tape's directions, and which of their results may be passed on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..column_scans import reach
from ..combinations import by_combination, flatnonzero
from ..draft import LANES, Draft
from ..instruction import MAIN, value_numbers
from ..tape import F64
from ..uses import NO_GROUP, Uses

# A product is passed on to at most this many readers, because each computes a coefficient of its own.
READERS = 3


class LinearRows(NamedTuple):
    """Instructions that make arrays with lanes by sums, or by products with values without lanes.

    Attributes
    ----------
    numbers
        The numbers of these instructions.
    laned
        Which groups have lanes.
    readers
        For each of their results, how many operands it is, if all of these may take a sum of products
        instead; otherwise 0.
    """

    numbers: np.ndarray
    laned: np.ndarray
    readers: np.ndarray


def linear_rows(draft: Draft, code: np.ndarray) -> LinearRows:
    """Return the instructions that depend linearly on the tape's directions."""
    uses = draft.uses(code)
    laned = laned_groups(draft, uses)
    rows = linear_numbers(draft, code, laned)
    return _gaining(draft, code, LinearRows(rows, laned, _readers(draft, code, uses, rows)))


def laned_groups(draft: Draft, uses: Uses) -> np.ndarray:
    """Return which groups depend on the tape's directions."""
    return reach(uses.out, uses.operands, uses.flags(draft.group[list(draft.directions)]))


def linear_numbers(draft: Draft, code: np.ndarray, laned: np.ndarray, choices=False) -> np.ndarray:
    """Return the numbers of the instructions that make arrays with lanes by sums and by products.

    Parameters
    ----------
    choices
        Whether choices between a value with lanes and zero are wanted, too: flags by instruction.
    """
    uses, ops, fields = draft.uses(code), draft.ops, draft.fields(code)
    products = [row for row in ops.with_trait("factors") if ops[row].factors == "xy"]
    is_sum, is_product = (fields.is_any(rows) for rows in (ops.with_trait("signs"), products))
    is_product |= choices
    rows = flatnonzero((is_sum | is_product) & laned.take(uses.out))
    rows = rows[(fields.stage[rows] == MAIN) & (fields.op[rows] & 1 == F64)]
    fit = (uses.writes.take(uses.out[rows]) == 1) & draft.is_array(fields.out[rows])
    with_lanes, given = np.zeros((2, len(rows)), np.int8)
    for operands in uses.operands.take(rows, axis=0)[:, :3].T.astype(np.intp):
        with_lanes += laned[operands]
        given += operands != NO_GROUP
        fit &= uses.last_write[operands] < rows
    fit &= with_lanes == np.where(is_product[rows], 1, given)
    rows = rows[fit]
    return rows[draft.covers(fields.out[rows])]


def _gaining(draft: Draft, code: np.ndarray, found: LinearRows) -> LinearRows:
    """Leave out what gains nothing.

    Passing a result on gains something for products that lead to a further product or to a negation, or of
    which two have the same base; for what lies between these; and for negations that are factors, because the
    other factor has no lanes. A result with too many readers is not passed on; a sum may have one reader,
    unless its terms may have one base. Negating few cells in their lanes takes hardly longer than negating a
    coefficient.
    """
    rows, laned, readers = found
    uses, ops, passed = draft.uses(code), draft.ops, (readers > 0) & (readers <= READERS)
    fields = draft.fields(code)
    product = ~ops.is_any(ops.with_trait("signs"), fields.op[rows])
    negation = ops.is_any(ops.with_signs((-1,)), fields.op[rows])
    layouts = draft.layout[fields.out[rows[negation]]]
    negation[negation] = by_combination(lambda layout: not draft.is_small(layout, LANES), layouts)
    out, operands = uses.out[rows], uses.operands.take(rows, axis=0)
    bases = np.where(laned.take(operands[:, 0]), operands[:, 0], operands[:, 1])
    shared = np.bincount(bases[product], minlength=draft.count) > 1
    several = passed & ~product & (operands[:, 1] != NO_GROUP) & (readers > 1)
    if several.any():
        joining = reach(out[passed], operands[passed], uses.flags(out[product & shared[bases]]))
        passed &= ~several | joining[out]
    handed_on, factors = uses.flags(out[passed]), uses.flags(operands[product, :2])
    ends = (factors | uses.flags(operands[negation, :2])) & handed_on
    further = reach(*reversed_edges(out[passed], operands[passed]), ends)
    takes = uses.flags(out[passed & product & (shared[bases] | further[out])])
    takes = reach(out[passed], operands[passed], takes)
    takes |= uses.flags(out[passed & negation]) & factors
    readers = np.where(takes[out] & passed, readers, 0)
    stays = (readers > 0) | takes.take(operands).any(axis=1)
    return LinearRows(rows[stays], laned, readers[stays])


def reversed_edges(out: np.ndarray, operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return instructions that lead from results to operands, the last ones first, for `reach`."""
    back = np.full((3 * len(out), operands.shape[1]), NO_GROUP, operands.dtype)
    back[:, 0] = np.repeat(out[::-1], 3)
    return operands[::-1, :3].reshape(-1), back


def _readers(draft: Draft, code: np.ndarray, uses: Uses, rows: np.ndarray) -> np.ndarray:
    """Return how often each result of linear rows is read; 0 where the result itself must be computed."""
    groups, fields = uses.out[rows], draft.fields(code)
    linear, results = np.zeros(len(code), bool), uses.flags(groups)
    linear[rows] = True
    shape, place = _layout_numbers(draft)
    layout, offset = draft.layout, draft.offset
    barred = draft.fixed(uses)
    (places,) = results.take(uses.operands.reshape(-1)).nonzero()
    at = places // uses.operands.shape[1]
    group = uses.operands.reshape(-1)[places]
    made, result = fields.out.take(uses.last_write.take(group)), fields.out[at]
    read = value_numbers(code)[at, 1 + places % uses.operands.shape[1]]
    alike = linear[at] & (offset.take(read) == offset.take(made))
    layout_made = layout.take(made)
    alike &= place[layout.take(read)] == place[layout_made]
    # A guard has no result; it is not linear, so that what is compared for it does not matter.
    alike &= shape[layout.take(result)] == shape[layout_made]
    barred[group[~alike]] = True
    return np.where(barred[groups], 0, uses.reads[groups])


def _layout_numbers(draft: Draft) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of the layouts' shapes, and of their shapes with strides, equal for equal ones."""
    settled = draft.sizes.settled
    shapes: dict[tuple, int] = {}
    places: dict[tuple, int] = {}
    numbers = []
    for its in draft.layouts:
        dims, strides = tuple(map(settled, its.dims)), tuple(map(settled, its.strides))
        numbers.append(
            (shapes.setdefault(dims, len(shapes)), places.setdefault((dims, strides), len(places)))
        )
    shape, place = np.array(numbers).T
    return shape, place
