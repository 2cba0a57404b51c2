"""Sums of a narrow value times a coefficient: the coefficient is summed, or multiplied as a matrix."""

from __future__ import annotations

from ..draft import Draft
from ..instruction import MAIN, NONE, Instruction
from .coefficients import PLAIN, ZERO_EITHER, Coefficients, stage_of
from .narrow_rows import joined_axes, strides_in, summed_axes, varying

INSTRUCTION = 60  # what an instruction costs by itself, in operations on entries
MULTIPLICATIONS = 3  # This many multiplications in a product of matrices cost as much as one such operation.


class CountedCoefficients(Coefficients):
    """Instructions on coefficients and on values with lanes, and their total cost.

    Attributes
    ----------
    directions
        How many there may be.
    after
        The cost so far.
    """

    # A coefficient is what the derivative of the array was, and may be NaN where it meets a zero cotangent.
    mixed = ZERO_EITHER

    def __init__(self, draft: Draft):
        super().__init__(draft)
        self.after = 0
        self.directions = sum(map(self.cells, draft.directions))

    def cells(self, value: int) -> int:
        sizes = self.draft.sizes
        return sizes.value(sizes.product(self.draft.layout_of(value).dims))

    def cost(self, value: int, laned: bool) -> int:
        """Return what it costs to compute a value."""
        return INSTRUCTION + (self.directions if laned else 1) * self.cells(value)

    def emit(self, name: str, out: int, a: int, b: int, line: int, stage: int = MAIN) -> None:
        super().emit(name, out, a, b, line, stage)
        self.after += self.cost(out, laned=False)

    def laned(self, name: str, out: int | None, a: int, b: int, like: Instruction) -> int:
        """Emit an instruction on values with lanes, in the shape of a result."""
        out = self.like(like.out) if out is None else out
        super().emit(name, out, a, b, like.line)
        self.after += self.cost(out, laned=True)
        return out


class PartSums:
    """The terms of one sum.

    Parameters
    ----------
    to
        Where instructions are emitted.
    row
        The sum.
    made
        The array that it sums.
    """

    def __init__(self, to: CountedCoefficients, row: Instruction, made: int):
        self.to, self.draft, self.row = to, to.draft, row
        self.whole = to.draft.layout_of(made)
        axes = summed_axes(to.draft, row, made)
        assert axes is not None
        self.kept, self.summed = axes

    def of(self, base: int, strides: tuple[int, ...], coefficient: int, how: str, out: int | None) -> int:
        """Return the sum of a coefficient times a value that has some strides in the array.

        Parameters
        ----------
        how
            How the coefficient is applied.
        out
            Where the result is wanted; None if that does not matter.
        """
        along = varying(self.whole, strides)
        if not along.isdisjoint(self.summed):
            return self._product(base, strides, *along, coefficient, how, out)
        total = self._total(coefficient, self.kept, self.summed)
        view = self._view(base, strides, self.kept)
        out = self.to.like(self.row.out) if out is None else out
        self.to.apply(out, view, total, how, self.row.line)
        self.to.after += (self.to.directions - 1) * self.to.cells(out)
        return out

    def _view(self, value: int, strides: tuple[int, ...], axes: tuple[int, ...]) -> int:
        """Return a value as an array with some axes of the whole."""
        dims = [self.whole.dims[axis] for axis in axes]
        return self.draft.view(value, self.draft.address(value)[1], dims, [strides[axis] for axis in axes])

    def _total(self, coefficient: int, kept: tuple[int, ...], summed: tuple[int, ...]) -> int:
        """Return a coefficient summed over some axes of the array, with the others in the given order."""
        rank, name = len(self.whole.dims), self.to.ops.names[self.row.row]
        strides = strides_in(self.draft, self.draft.layout_of(coefficient), rank)
        level = self.to.level(coefficient)
        left = list(summed)
        while left:
            axis = left.pop()
            rest = (*kept, *left)
            view = self._view(coefficient, strides, (*rest, axis))
            coefficient = self.to.array(tuple(self.whole.dims[k] for k in rest), level)
            self.to.emit(name, coefficient, view, NONE, self.row.line, stage_of(level))
            self.to.after += self.to.cells(view)
            its = dict(zip(rest, self.draft.layout_of(coefficient).strides, strict=True))
            strides = tuple(its.get(k, 0) for k in range(rank))
        return coefficient

    def _product(self, base: int, strides, axis: int, coefficient: int, how: str, out: int | None) -> int:
        """Return the product of a row, a value that changes along one summed axis, with a matrix."""
        draft, to, dims = self.draft, self.to, self.whole.dims
        if self.kept:
            coefficient = self._full(coefficient)
            joined = joined_axes(draft, self.whole, self.kept)
            assert joined is not None
            (size, step), along = joined, draft.layout_of(coefficient).strides[axis]
        else:
            coefficient = self._total(coefficient, (axis,), tuple(k for k in self.summed if k != axis))
            size, step, along = 1, 0, draft.layout_of(coefficient).strides[0]
        matrix = draft.view(coefficient, 0, (dims[axis], size), (along, step))
        stride = strides[axis]
        value = draft.view(
            base, draft.address(base)[1], (1, dims[axis]), (draft.sizes.mul(dims[axis], stride), stride)
        )
        result = to.array((1, size), draft.kind_of(self.row.out)[1])
        Coefficients.emit(
            to, "matmul" if how == PLAIN else "strong_matmul", result, value, matrix, self.row.line
        )
        to.after += INSTRUCTION + to.directions * to.cells(matrix) // MULTIPLICATIONS
        shape = draft.layout_of(self.row.out).dims
        view = draft.view(result, 0, shape, draft.builder.contiguous_strides(shape)[0])
        return view if out is None else to.laned("copy", out, view, NONE, self.row)

    def _full(self, coefficient: int) -> int:
        """Return a coefficient with all entries of the array, in rows."""
        dims, to = self.whole.dims, self.to
        strides = self.draft.builder.contiguous_strides(dims)[0]
        its = self.draft.layout_of(coefficient)
        if (its.dims, its.strides) == (dims, strides) and self.draft.address(coefficient)[1] == 0:
            return coefficient
        level = to.level(coefficient)
        full = to.array(dims, level)
        to.emit("copy", full, coefficient, NONE, self.row.line, stage_of(level))
        return full
