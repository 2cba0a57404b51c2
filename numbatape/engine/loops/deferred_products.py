"""Products with a capture, whose contributions to the capture's cotangent are added for many steps at once.

The pullback of ``z = x @ W`` adds ``x.T @ zbar`` to the cotangent of ``W``. For a vector ``x`` this reads and
writes all of that cotangent in each step to add a matrix of rank one. So the reverse sweep of a body leaves
it out. Instead, the kernels of the loop stack ``x`` and ``zbar`` of several steps, and then add the
product of both stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...ops import ROWS
from ...ops.products import distinct
from ...tape import Tape
from ...tape.families import ACTIVE, F64
from ...tape.loop import CAPTURE, Loop

# At most this many steps are stacked: the stacks of most bodies then fit into the first cache.
STEPS = 64
ONE_THREAD = 524288  # multiplications: OpenBLAS divides a larger product among threads, which takes longer
FEW_STEPS = 16  # At least this many steps are stacked, because fewer save too little.
# The cotangent has at least this many cells: adding to fewer takes no longer than stacking the vectors.
LEAST_CELLS = 16
# The vector x has at most this many rows (columns in W @ x): with more of them, each step's product is worth
# its call.
MOST_ROWS = 4

PRODUCTS = ROWS.with_trait("product")


class Stacked(NamedTuple):
    """A value that is stacked in each step: its cells, or the adjoints of its cells, as some rows.

    Attributes
    ----------
    value
        A value of the body, a matrix.
    adjoint
        Whether its adjoints are meant.
    transposed
        Whether its columns are stacked.
    """

    value: int
    adjoint: bool
    transposed: bool


class DeferredProduct(NamedTuple):
    """``target += left.T @ right``, with the rows of all steps.

    Attributes
    ----------
    target
        The value whose adjoints are meant: a capture, or a part of one.
    left, right
        What is stacked.
    rows
        How many rows a step adds to either stack.
    """

    target: int
    left: Stacked
    right: Stacked
    rows: int


def steps_stacked(work: int) -> int:
    """Return how many steps are stacked, given the multiplications of the largest product in one step."""
    return min(STEPS, max(FEW_STEPS, ONE_THREAD // (work + 1)))


def _products(code: np.ndarray) -> list[int]:
    """Return which instructions are products of matrices, in float64."""
    return (ROWS.is_any(PRODUCTS, code["op"]) & (code["op"] & 1 == F64)).nonzero()[0].tolist()


def may_defer(loop: Loop) -> bool:
    """Whether some sizes may have products that are deferred."""
    body, code = loop.body, loop.body.code
    rows = _products(code)
    captures = _captures(loop)
    for k in rows:
        out, a, b, active = (int(code[name][k]) for name in ("out", "a", "b", "active"))
        for bit, target in ((2, b), (1, a)):
            m, n = body.layout_of(target).dims
            rank = body.layout_of(out).dims[0 if bit == 2 else 1]
            small = m >= 0 and n >= 0 and m * n < LEAST_CELLS
            if (
                active & bit
                and int(body.values["storage"][target]) in captures
                and not small
                and rank <= MOST_ROWS
            ):
                return True
    return False


def _captures(loop: Loop) -> set[int]:
    """Return the storages of the captures of a loop's body that take an adjoint."""
    storage = loop.body.values["storage"]
    return {
        int(storage[slot.value])
        for port, slot in zip(loop.ports, loop.body.inputs, strict=True)
        if port.role == CAPTURE and slot.level == ACTIVE
    }


def deferred_products(loop: Loop, dimensions: Sequence[int]) -> tuple[Tape, list[DeferredProduct]]:
    """Return the body without the pullbacks that are deferred, and the products that replace them.

    Parameters
    ----------
    dimensions
        The input dimensions of the body.
    """
    body, code, found = loop.body, loop.body.code, list[DeferredProduct]()
    rows = _products(code)
    if not rows:
        return body, found
    sizes = body.sizes.evaluate(dimensions)

    def size(code: int) -> int:
        return code if code >= 0 else sizes[-code - 1]

    storage = body.values["storage"]
    captures = _captures(loop)
    for k in rows:
        out, a, b, active = (int(code[name][k]) for name in ("out", "a", "b", "active"))
        for bit, target, other in ((2, b, a), (1, a, b)):
            if not active & bit or storage[target] not in captures or storage[other] in captures:
                continue
            layout = body.layout_of(target)
            (m, n), strides = map(size, layout.dims), tuple(map(size, layout.strides))
            rank = size(body.layout_of(out).dims[0 if bit == 2 else 1])
            if m * n < LEAST_CELLS or rank > MOST_ROWS or not distinct(m, n, *strides):
                continue
            left, right = Stacked(other, False, bit == 1), Stacked(out, True, bit == 1)
            if bit == 1:  # The cotangent of W in W @ x is zbar @ x.T.
                left, right = right, left
            found.append(DeferredProduct(target, left, right, rank))
            if body is loop.body:
                body = replace(body, code=code.copy())
            active &= ~bit
            body.code["active"][k] = active
    return body, found
