"""``sum(x*y)`` as one ``dot``: a product that only a sum reads need not be written and read again.

Done when the tape is frozen, when it is known what else reads the product. A dot adds up in blocks
as a sum does, so it is as accurate; the reverse sweep saves the product's adjoint.
"""

from __future__ import annotations

import numpy as np

from .tape import GUARD, NONE, Layout


def sums_of_products(builder, code, group, kept_groups) -> np.ndarray:
    """Turn sums of products into dots, in place; return the rows that nothing needs any more.

    Parameters
    ----------
    code
        Instructions in order, with the builder's value numbers.
    group
        What lives or dies together, by value number; the last entry stands for no operand.
    kept_groups
        Groups that the tape's inputs and outputs are in.
    """
    names = builder.names
    if "dot" not in names:
        return np.zeros(0, int)
    ops = np.where(code["op"] == GUARD, -1, code["op"] >> 1)
    sums = np.flatnonzero(ops == names.index("sum"))
    if not len(sums):
        return sums
    groups = int(group[-1]) + 1
    numbers = np.concatenate([code[name] for name in "abc"] + [code["aux"][code["op"] != GUARD]])
    reads = np.bincount(group[numbers], minlength=groups)
    written = group[code["out"]]
    writes = np.bincount(written, minlength=groups)
    last = np.full(groups, -1)
    last[written] = np.arange(len(code))  # the last assignment to an index wins
    products = {names.index("mul"): ("a", "b"), names.index("square"): ("a", "a")}
    unneeded = []
    for k in sums.tolist():
        total = code[k]
        value = int(total["a"])
        own = int(group[value])
        at = int(last[own])
        row = code[at]
        if reads[own] != 1 or writes[own] != 1 or own in kept_groups:
            continue
        if int(ops[at]) not in products or row["op"] & 1 != total["op"] & 1:
            continue
        factors = [int(row[name]) for name in products[int(ops[at])]]
        if any(last[group[x]] > at for x in factors):
            continue
        if row["out"] == value:
            if not all(_same_length(builder, x, value) for x in factors):
                continue
        elif _is_flat(builder, value, int(row["out"])):  # np.sum of a whole matrix
            if not all(_same_cells(builder, x, int(row["out"])) for x in factors):
                continue
            factors = [_flat(builder, x) for x in factors]
        else:
            continue
        total["op"] = 2 * names.index("dot") + (total["op"] & 1)
        total["a"], total["b"] = factors
        total["active"] = row["active"] if row["b"] != NONE else 3 * row["active"]
        unneeded.append(at)
    return np.array(unneeded, int)


def _same_length(builder, factor: int, product: int) -> bool:
    """Whether the last axis of a factor is the product's, and not one that broadcasts to it."""
    mine, its = (builder.layouts[builder.values[x][2]].dims[-1:] for x in (factor, product))
    value = builder.sizes.value
    # Lengths that agreed do so by a size guard; one may have been broadcast.
    return bool(mine) and value(mine[0]) == value(its[0]) != 1


def _is_flat(builder, value: int, product: int) -> bool:
    """Whether a value is all of a contiguous product, seen as one vector."""
    storage, offset, layout = builder.values[value]
    its_storage, its_offset, its_layout = builder.values[product]
    strides, size = builder.contiguous_strides(builder.layouts[its_layout].dims)
    return (
        (storage, offset) == (its_storage, its_offset)
        and builder.layouts[its_layout].strides == strides
        and builder.layouts[layout] == Layout((size,), (1,))
    )


def _same_cells(builder, factor: int, product: int) -> bool:
    """Whether a factor is contiguous, of the product's size in each axis, and broadcast in none."""
    mine, its = (builder.layouts[builder.values[x][2]] for x in (factor, product))
    value = builder.sizes.value
    return (
        len(mine.dims) == len(its.dims)
        and mine.strides == builder.contiguous_strides(mine.dims)[0]
        and all(value(a) == value(b) != 1 for a, b in zip(mine.dims, its.dims, strict=True))
    )


def _flat(builder, factor: int) -> int:
    """Return a contiguous value as one vector."""
    storage, offset, layout = builder.values[factor]
    size = builder.contiguous_strides(builder.layouts[layout].dims)[1]
    return builder.view(storage, offset, (size,), (1,))
