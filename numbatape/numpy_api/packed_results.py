"""Ops whose result packs several parts into one vector: the parts are views of it."""

from __future__ import annotations

import functools

import numpy as np

from ..trace.axes import count_of
from ..trace.operands import lift
from ..trace.primitives import array_instruction, layout_of, view


def packed(op: str, operands, parts, cores, differentiable: bool = True):
    """Record an op whose result packs NumPy's parts into one vector; return the parts.

    Parameters
    ----------
    cores
        The sizes of each part behind those of the stack, as size codes.
    """
    batch = np.shape(parts[0])[: np.ndim(parts[0]) - len(cores[0])]
    if 0 in batch:
        for a in operands:
            count_of(a, range(a.ndim))  # a guard: there is nothing to compute for no matrices
        return [lift(a._trace, np.asarray(part)) for part in parts]
    table = operands[0]._trace.tape.sizes
    counts = [table.product(core) for core in cores]
    size = functools.reduce(table.add, counts)
    cells = [np.reshape(np.asarray(part), (*batch, -1) if np.size(part) else (*batch, 0)) for part in parts]
    whole = array_instruction(op, operands, np.concatenate(cells, -1), differentiable, {"q": size})
    pieces, first = [], 0
    for part, core, count in zip(parts, cores, counts, strict=True):
        pieces.append(_piece(whole, first, core, part))
        first = table.add(first, count)
    return pieces


def _piece(whole, first: int, core, value):
    layout = layout_of(whole)
    builder = whole._trace.tape
    _, start, _ = builder.values[whole._id]
    strides = (*layout.strides[:-1], *builder.contiguous_strides(core)[0])
    dims = (*layout.dims[:-1], *core)
    return view(whole, np.asarray(value), dims, strides, builder.sizes.add(start, first))
