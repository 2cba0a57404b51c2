"""Cotangents, or tangents, in the dimensions of a value: summed, repeated, or with axes in another order."""

from __future__ import annotations

from ..emitter import addresses, instructions
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..tape.tape import Layout, memory_order


class Fitting:
    """Brings cotangents into the dimensions of values.

    Parameters
    ----------
    emitter
        Appends to the tape.
    lanes
        The number of cotangents per value, as a size code: all symbols then have a leading axis of this size,
        before the axes of their values. None for one cotangent per value.
    """

    def __init__(self, emitter: Emitter, lanes: int | None = None):
        self.emitter = emitter
        self.tape = emitter.tape
        self.lanes = lanes
        self.lead: tuple[int, ...] = () if lanes is None else (lanes,)

    def spread(self, ct, value: int) -> Symbol:
        """Return a cotangent as a symbol of a value's dimensions."""
        tape = self.tape
        storage, _, layout = tape.values[value]
        return self._spread(ct, tape.layouts[layout].dims, tape.storages[storage][1])

    def _spread(self, ct, dims, family: int) -> Symbol:
        if ct.__class__ is not Symbol:
            ct = self.emitter.literal(ct, family)
        else:
            ct = self.aligned(ct, len(dims))
        return self.emitter.broadcast(ct, (*self.lead, *dims))

    def aligned(self, ct: Symbol, rank: int) -> Symbol:
        """Return a symbol with axes of size one after the lanes, to broadcast with symbols of that rank."""
        missing = rank + 1 - ct.ndim
        if self.lanes is None or missing <= 0:
            return ct
        return self.emitter.expand(ct, range(1, 1 + missing))

    def fitted(self, ct, value: int) -> Symbol:
        """Return a cotangent as a symbol in the dimensions and the cells of a value."""
        tape = self.tape
        storage, _, layout = tape.values[value]
        family = tape.storages[storage][1]
        symbol = ct if ct.__class__ is Symbol else self.emitter.literal(ct, family)
        return self._fit(self.emitter.in_family(symbol, family), tape.layouts[layout].dims)

    def _fit(self, ct, dims):
        """Return a cotangent in the given dimensions: summed, or repeated, where they differ."""
        if ct.__class__ is not Symbol:
            return ct  # a plain number stands for an array of any dimensions
        own = ct.dims
        if own == (*self.lead, *dims):
            return ct
        emitter, size, lanes = self.emitter, self.tape.sizes.value, len(self.lead)
        lead = len(own) - lanes - len(dims)
        behind = [
            axis
            for axis, dim in enumerate(dims, lanes + lead)
            if axis >= lanes and size(dim) == 1 and size(own[axis]) != 1
        ]
        if behind or lead > 0:
            ct = emitter.sum(ct, [*range(lanes, lanes + lead), *behind])
            if behind:
                ct = emitter.expand(ct, [axis - max(lead, 0) for axis in behind])
        if lead < 0:
            ct = emitter.expand(ct, range(lanes, lanes - lead))
        return emitter.broadcast(ct, (*self.lead, *dims))

    def _in_memory_order(self, ct: Symbol, its: Layout) -> Symbol:
        """Return a cotangent whose axes lie in memory as those of its value, a copy where they do not.

        What the cotangent is multiplied with lies as the value does. If the cotangent did not, each of these
        arrays would be copied to its order.
        """
        tape = self.tape
        own, wanted = addresses.axis_order(tape, ct.layout), addresses.axis_order(tape, its)
        if own is None or wanted is None or own == wanted:
            return ct
        layout = addresses.ordered(tape, ct.dims, wanted)
        return Symbol(self.emitter, instructions.turned(tape, ct.number, layout, self.emitter.line))

    def _rearranged(self, pending: list[tuple], storage: int, offset, its: Layout) -> list[tuple]:
        """Return cotangents of a storage with their axes as in a view of it, if all are of all its cells.

        Those of a matrix and of its transpose, or of a vector and of its cells as a column, need no buffer:
        the views of one are like those of the other. Nor do those whose entries are all the same, such as
        that of a matrix whose entries were added up as those of a vector.
        """
        address = (offset, its.dims, its.strides)
        if offset or all(part[:3] == address for part in pending) or any(part[0] for part in pending):
            return pending
        tape, size = self.tape, self.tape.storages[storage][0]
        order = memory_order(tape, its, size)
        if order is None:
            return pending
        found = []
        for part in pending:
            own, ct = memory_order(tape, Layout(*part[1:3]), size), part[3]
            if own is None:
                return pending
            if [part[1][k] for k in own] == [its.dims[k] for k in order]:
                found.append((*address, self._with_axes(ct, own, order, len(its.dims))))
            elif ct.__class__ is Symbol and not any(ct.layout.strides[len(self.lead) :]):
                found.append((*address, self._repeated(ct, its.dims)))
            else:
                return pending
        return found

    def _repeated(self, ct: Symbol, dims) -> Symbol:
        """Return a cotangent whose entries are one cell (of each lane), in other dimensions."""
        strides = ct.layout.strides[: len(self.lead)]
        view = addresses.view(self.tape, ct.number, (*self.lead, *dims), (*strides, *(0 for _ in dims)))
        return Symbol(self.emitter, view)

    def _with_axes(self, ct, own: list[int], order: list[int], rank: int):
        """Return a cotangent whose axes ``own`` become the axes ``order``, among others of one entry."""
        if ct.__class__ is not Symbol:
            return ct
        lanes = len(self.lead)
        becomes = dict(zip(order, own, strict=True))
        axes = [*range(lanes), *(lanes + becomes[k] for k in range(rank) if k in becomes)]
        if axes != [*range(ct.ndim)]:
            ct = self.emitter.ordered(ct, axes)
        added = [lanes + k for k in range(rank) if k not in becomes]
        return self.emitter.expand(ct, added) if added else ct

    def _unrepeated(self, ct, dims, strides, family: int) -> tuple:
        """Return a cotangent, and the dimensions in which it is added, where several entries may be one cell.

        Such axes of a broadcast view become axes of one entry. Strides of an array without entries may be 0,
        too, but the trace serves further sizes.
        """
        size, settled = self.tape.sizes.value, self.tape.sizes.settled
        repeated = [axis for axis, s in enumerate(strides) if settled(s) == 0 and size(dims[axis]) != 1]
        if not repeated:
            return ct, dims
        # A number for all entries counts once per repetition.
        own = ct.dims[len(self.lead) :] if ct.__class__ is Symbol else ()
        wide = [1] * (len(dims) - len(own)) + list(own)
        for axis in repeated:
            place = axis - len(dims)
            wide[place] = dims[axis] if size(wide[place]) == 1 else wide[place]
        ct = self._spread(ct, tuple(wide), family)
        return ct, tuple(1 if axis in repeated else dim for axis, dim in enumerate(dims))
