"""The results of an `ElasticEntry`: where its builtin finds the cells that it makes them of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import jit
from ..engine.moving.moving_spaces import ITEMSIZE, MovingSpace
from ..engine.replan_kernels import FIRST_ACTIVE, LEVELS
from ..tape.tape import FAMILY_DTYPE
from .elastic_ends import Result, address_of
from .outs import Out

COPIED, NUMBERED = jit.steady.COPIED, jit.steady.NUMBERED
OUT = len(jit.steady.OUT)
OBJECT, SHAPE, CELLS, BYTES = (jit.steady.OUT.index(name) for name in ("object", "shape", "cells", "bytes"))


class ElasticResults:
    """How the results of calls are made, which have other cells and shapes at other sizes.

    The builtin makes arrays and NumPy's numbers itself, of cells whose address is in its table: views, and
    methods of views that it would call, take 0.6 µs a result more.

    Parameters
    ----------
    results
        For each leaf of the results what it is made of; None for what is the same for all sizes.
    """

    def __init__(self, results: Sequence[Result | None], outs: Sequence[Out], space: MovingSpace):
        self._results = [(k, result) for k, result in enumerate(results) if result is not None]
        self._outs, self._space = outs, space
        self._items: list = [None] * len(outs)  # the builtin knows them by address
        self._shapes = [np.zeros(1 + (len(result.dims) if result else 0), np.int64) for result in results]
        self._table: memoryview | None = None

    def records(self) -> list[dict]:
        """Return the words of the builtin's outs."""
        records: list[dict] = [{"kind": out.kind, "object": id(out.source)} for out in self._outs]
        for k, result in self._results:
            if result.how != "item":
                kind = COPIED if result.how == "copy" else NUMBERED
                dtype = FAMILY_DTYPE[result.family]
                records[k] = {"kind": kind, "object": id(dtype), "ndim": len(result.dims)}
        return records

    def attach(self, table: memoryview) -> None:
        """Take the builtin's table, in which the outs are."""
        self._table = table
        for k, shape in enumerate(self._shapes):
            table[OUT * k + SHAPE] = address_of(shape)

    def place(self, first: memoryview, sizes: memoryview, ends: memoryview) -> None:
        """Tell the builtin where results are.

        Parameters
        ----------
        first, sizes, ends
            The planner's tables: where storages begin, what size codes stand for, how many cells there are.
        """
        table, space = self._table, self._space
        assert table is not None
        for k, result in self._results:
            row, how, family = OUT * k, result.how, result.family
            cell = _cell_of(result, first, sizes, ends)
            if how == "item":
                source = self._items[k] = self._source(result, cell, sizes)
                table[row + OBJECT] = id(source)
                continue
            itemsize = ITEMSIZE[family]
            table[row + CELLS] = (space.at_g if result.adjoint else space.at_v)[family] + itemsize * cell
            if how == "copy":
                shape = self._shapes[k]
                for axis, n in enumerate(result.dims):
                    n = shape[axis] = n if n >= 0 else sizes[-n - 1]
                    itemsize *= n
                table[row + BYTES] = itemsize

    def made(self, first: memoryview, sizes: memoryview, ends: memoryview) -> list:
        """Return the results, made by Python; parameters as of `place`."""
        sources = [out.source for out in self._outs]
        for k, result in self._results:
            sources[k] = self._source(result, _cell_of(result, first, sizes, ends), sizes)
        return [Out(out.kind, source).make() for out, source in zip(self._outs, sources, strict=True)]

    def _source(self, result: Result, cell: int, sizes: memoryview) -> Any:
        """Return what makes a result (`Out.source`), given the number of its first cell."""
        memory = (self._space.g if result.adjoint else self._space.v)[result.family]
        if result.how == "copy":
            shape = tuple([n if n >= 0 else sizes[-n - 1] for n in result.dims])
            if 0 in shape:
                return np.zeros(shape, memory.dtype).copy
            return np.ndarray(shape, memory.dtype, memory, cell * memory.itemsize).copy
        number = memory[cell : cell + 1]
        return number if result.how == "entry" else number.item


def _cell_of(result: Result, first: memoryview, sizes: memoryview, ends: memoryview) -> int:
    """Return the number of a result's first cell, among values or adjoints of its family."""
    offset = result.offset
    cell = first[result.place] + (offset if offset >= 0 else sizes[-offset - 1])
    return cell - ends[LEVELS * result.family + FIRST_ACTIVE] if result.adjoint else cell
