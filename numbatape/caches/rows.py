"""Rows and outs: what a steady call needs of a leaf of its arguments, and how it makes one of its results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import jit
from ..tape.tape import ACTIVE, CONSTANT
from ..trace import pytrees
from ..trace.complex.pairs import Pair, join
from ..trace.integers import LARGEST
from ..trace.record import Output
from ..trace.trace import EXACT_INTEGER
from .arguments import STATIC, Flattened
from .program import VariantWorkspace
from .results import gradient_leaves, in_dtype

ndarray = np.ndarray


class ArrayRow:
    """An array that is copied into cells.

    Attributes
    ----------
    size
        Of this and of the other rows: the shape of an array, None for anything else.
    """

    def __init__(self, cells: ndarray, dtype: np.dtype, shape: tuple):
        self.cells, self.dtype, self.size = cells, dtype, shape

    def fits(self, leaf) -> bool:
        return leaf.__class__ is ndarray and leaf.dtype == self.dtype and leaf.shape == self.size

    def write(self, leaf) -> None:
        self.cells[...] = leaf

    def native(self, alive: list) -> dict | None:
        """Return the row's words for the builtin, None where it has no such row."""
        if self.cells.dtype != self.dtype or not self.cells.flags.c_contiguous:
            return None
        shape = np.array([*self.size, 0], np.int64)
        alive += [shape, self.cells]
        return {
            "kind": jit.steady.ARRAY,
            "object": id(self.dtype),
            "ndim": len(self.size),
            "shape": shape.ctypes.data,
            "cells": self.cells.ctypes.data,
            "bytes": self.cells.nbytes,
        }


class NumberRow:
    """A number, of Python or of NumPy, that is copied into a cell."""

    size = None

    def __init__(self, cells: ndarray, kind: type):
        self.cells, self.kind = cells, kind

    def fits(self, leaf) -> bool:
        return leaf.__class__ is self.kind

    def write(self, leaf) -> None:
        self.cells[...] = leaf

    def native(self, alive: list) -> dict | None:
        if self.cells.dtype != np.float64 or not issubclass(self.kind, float):
            return None
        alive.append(self.cells)
        return {
            "kind": jit.steady.NUMBER,
            "object": id(self.kind),
            "cells": self.cells.ctypes.data,
        }


class ComplexRow:
    """A complex array or number, whose parts stand apart."""

    def __init__(self, real: ndarray, imag: ndarray, kind: Any, dtype: np.dtype, shape: tuple):
        self.real, self.imag, self.kind, self.dtype = real, imag, kind, dtype
        self.size = shape if kind is ndarray else None

    def fits(self, leaf) -> bool:
        if leaf.__class__ is not self.kind:
            return False
        return self.kind is not ndarray or (leaf.dtype == self.dtype and leaf.shape == self.size)

    def write(self, leaf) -> None:
        self.real[...], self.imag[...] = leaf.real, leaf.imag

    def native(self, alive: list) -> None:
        return None


class SameRow:
    """Something that selects the tape, or an array that nobody can write to: it must be what it was."""

    def __init__(self, known: Any):
        self.known = known
        self.size = known.shape if known.__class__ is ndarray else None

    def fits(self, leaf) -> bool:
        if leaf is self.known:
            return True
        return leaf.__class__ is self.known.__class__ and leaf.__class__ is not ndarray and leaf == self.known

    def write(self, leaf) -> None:
        pass

    def native(self, alive: list) -> dict:
        alive.append(self.known)
        return {"kind": jit.steady.SAME, "object": id(self.known)}


class KnownNumberRow(SameRow):
    """A number that is a constant: it stands in a cell and has been computed with already."""

    def __init__(self, cells: ndarray, known):
        super().__init__(known)
        self.cells = cells

    def fits(self, leaf) -> bool:
        if leaf.__class__ is not self.known.__class__:
            return False
        return leaf.__class__ is float or abs(leaf) <= LARGEST  # the general call sees to larger integers

    def changed(self, leaf) -> bool:
        # By its text, which tells 0.0 from -0.0 and makes one NaN as good as another.
        return leaf is not self.known and repr(leaf) != repr(self.known)

    def take(self, leaf) -> None:
        """Compute with another number from now on."""
        self.known = leaf
        self.cells[...] = leaf


class DataRow:
    """A constant: an array whose contents stand in cells and have been computed with already.

    Attributes
    ----------
    known
        A copy of the contents.
    """

    def __init__(self, cells: ndarray, known: ndarray):
        self.cells = cells
        self.known = np.array(known, order="C")
        self.size = self.known.shape

    def fits(self, leaf) -> bool:
        known = self.known
        if leaf.__class__ is not ndarray or leaf.dtype != known.dtype or leaf.shape != known.shape:
            return False
        # Larger integers raise, in the general call.
        return known.dtype.kind not in "iu" or not leaf.size or _largest(leaf) < EXACT_INTEGER

    def changed(self, leaf) -> bool:
        """Whether the contents are others, bit by bit."""
        return leaf.tobytes() != self.known.tobytes()

    def take(self, leaf) -> None:
        """Compute with other contents from now on."""
        self.known[...] = leaf
        self.cells[...] = leaf

    def write(self, leaf) -> None:
        pass

    def native(self, alive: list) -> dict | None:
        if self.known.dtype.byteorder not in "=|":
            return None
        shape = np.array([*self.known.shape, 0], np.int64)
        alive += [shape, self.known]
        return {
            "kind": jit.steady.DATA_ARRAY,
            "object": id(self.known.dtype),
            "ndim": self.known.ndim,
            "shape": shape.ctypes.data,
            "bytes": self.known.nbytes,
            "contents": self.known.ctypes.data,
        }


def _largest(integers: ndarray) -> int:
    return max(abs(int(integers.max())), abs(int(integers.min())))


Row = ArrayRow | NumberRow | ComplexRow | SameRow | DataRow


def rows_of(flat: Flattened, space: VariantWorkspace, omitted: frozenset[int] = frozenset()) -> list[Row]:
    """Return one row a leaf of the arguments that a call is given.

    Parameters
    ----------
    omitted
        The arguments that calls leave out: constants that the cache was given at its preparation.
    """
    rows: list[Row] = []
    cells = iter(space.inputs)
    columns = zip(flat.leaves, flat.specs, flat.by_identity, strict=True)
    for leaf, spec, by_identity in columns:
        if spec.level == STATIC:
            if spec.argument not in omitted:
                rows.append(SameRow(leaf))
            continue
        own = next(cells)
        dtype = np.dtype(spec.dtype)
        if spec.part == "imag" and spec.argument not in omitted:
            whole = np.dtype(spec.whole_dtype)
            kind = {"array": ndarray, "float": complex}.get(spec.kind, whole.type)
            real = rows[-1]
            assert isinstance(real, (ArrayRow, NumberRow))
            rows[-1] = ComplexRow(real.cells, own, kind, whole, np.shape(leaf))
        elif spec.argument in omitted:
            continue
        elif spec.level == CONSTANT:
            if spec.kind != "array":
                rows.append(KnownNumberRow(own, leaf))
            else:
                rows.append(SameRow(leaf) if by_identity else DataRow(own, leaf))
        elif spec.kind == "array":
            rows.append(ArrayRow(own, dtype, np.shape(leaf)))
        else:
            rows.append(NumberRow(own, float if spec.kind == "float" else dtype.type))
    return rows


# ---- outs: what is made when a sweep is through


class Out:
    """How one leaf of the results is made.

    Parameters
    ----------
    kind
        Of `numbatape.jit.steady`: CALLED, ENTRY or FIXED.
    source
        What is called without arguments, the array whose entry 0 is taken, or the object itself.
    """

    __slots__ = ("kind", "source")

    def __init__(self, kind: int, source):
        self.kind, self.source = kind, source

    def make(self):
        if self.kind == jit.steady.CALLED:
            return self.source()
        return self.source[0] if self.kind == jit.steady.ENTRY else self.source


def out_of(cells: ndarray, kept) -> Out:
    """Return how cells are handed out as what NumPy would give: ``kept`` is an example of it."""
    if isinstance(kept, ndarray):
        if cells.dtype == kept.dtype:
            return Out(jit.steady.CALLED, cells.copy)
        dtype = kept.dtype
        return Out(jit.steady.CALLED, lambda: cells.astype(dtype))
    alone = cells.reshape(-1)
    if type(kept) is float:
        return Out(jit.steady.CALLED, alone.item)
    if type(kept) is int:
        return Out(jit.steady.CALLED, lambda: int(alone[0]))
    if cells.dtype == kept.dtype:
        return Out(jit.steady.ENTRY, alone)
    number = kept.dtype.type
    return Out(jit.steady.CALLED, lambda: number(alone[0]))


def constant_out(leaf) -> Out:
    """Return how something that does not depend on the arguments is handed out."""
    return Out(jit.steady.CALLED, leaf.copy) if leaf.__class__ is ndarray else Out(jit.steady.FIXED, leaf)


def result_outs(space: VariantWorkspace, result) -> list[Out]:
    """Return one out a leaf of a recorded result (or of a part of it)."""
    values, outputs = space.variant.recording.values, space.outputs
    outs = []
    for leaf in pytrees.flatten(result, lambda leaf: leaf.__class__ is Pair)[0]:
        if leaf.__class__ is Output:
            outs.append(out_of(outputs[leaf.number], values[leaf.number]))
        elif leaf.__class__ is Pair:
            outs.append(_pair_out(space, leaf))
        else:
            outs.append(constant_out(leaf))
    return outs


def _pair_out(space: VariantWorkspace, pair: Pair) -> Out:
    parts = [
        out_of(space.outputs[x.number], space.variant.recording.values[x.number])
        if x.__class__ is Output
        else constant_out(x)
        for x in (pair.re, pair.im)
    ]
    return Out(jit.steady.CALLED, lambda: join(*(part.make() for part in parts)))


def gradient_outs(
    flat: Flattened, space: VariantWorkspace, arguments: Iterable[int], reuse: bool = False
) -> list[Out]:
    """Return one out a leaf of the gradients with respect to some arguments.

    Parameters
    ----------
    reuse
        Whether arrays are the workspace's own, which the next call overwrites.
    """
    views = gradient_leaves(flat, space)
    columns = list(zip(views, flat.specs, strict=True))
    outs: list[Out] = []
    for argument in arguments:
        if argument not in flat.differentiated:
            outs.append(Out(jit.steady.FIXED, None))
            continue
        own = [column for column in columns if column[1].argument == argument]
        for k, (view, spec) in enumerate(own):
            if spec.part == "imag":
                continue
            if view is None:
                outs.append(Out(jit.steady.FIXED, None))
            elif spec.part:
                outs.append(_joined(view, own[k + 1][0], spec.kind == "array"))
            elif spec.dtype == np.float16:
                outs.append(Out(jit.steady.CALLED, lambda view=view: in_dtype(view.copy(), np.float16)))
            elif spec.kind != "array":
                outs.append(Out(jit.steady.ENTRY, view.reshape(-1)))
            else:
                outs.append(Out(jit.steady.FIXED, view) if reuse else Out(jit.steady.CALLED, view.copy))
    return outs


def parts_outs(flat: Flattened, space: VariantWorkspace, parts, arguments: Iterable[int]) -> list[Out] | None:
    """Return one out a leaf of recorded derivatives of the shape of some arguments.

    ``parts`` has one entry a differentiated leaf. None for complex ones, which the general call joins.
    """
    if flat.is_complex:
        return None
    found = iter(pytrees.leaves(parts))
    by_leaf = [(next(found) if spec.level == ACTIVE else None, spec) for spec in flat.specs]
    outs: list[Out] = []
    for argument in arguments:
        if argument not in flat.differentiated:
            outs.append(Out(jit.steady.FIXED, None))
            continue
        for part, spec in by_leaf:
            if spec.argument != argument:
                continue
            if part is None:
                outs.append(Out(jit.steady.FIXED, None))
            elif part.__class__ is not Output or spec.dtype == np.float16:
                return None
            else:
                outs.append(out_of(space.outputs[part.number], space.variant.recording.values[part.number]))
    return outs


def reshaped_out(cells: ndarray, shape: tuple) -> Out:
    """Return how cells are handed out in another shape."""
    view = cells.reshape(shape)
    if np.may_share_memory(view, cells):
        return Out(jit.steady.CALLED, view.copy)
    return Out(jit.steady.CALLED, lambda: cells.copy().reshape(shape))


def _joined(real: ndarray, imag: ndarray, is_array: bool) -> Out:
    """Return how the gradient with respect to a complex leaf is made of its parts."""
    if is_array:
        return Out(jit.steady.CALLED, lambda: join(real, imag))
    return Out(jit.steady.CALLED, lambda: join(real[()], imag[()]))


def direction_rows(space: VariantWorkspace, slots: Iterable[int], trees) -> list[Row]:
    """Return one row a leaf of the directions that a call was given, in the inputs with these numbers."""
    rows: list[Row] = []
    for slot, leaf in zip(slots, pytrees.leaves(trees), strict=False):
        cells = space.inputs[slot]
        if leaf.__class__ is ndarray:
            rows.append(ArrayRow(cells, leaf.dtype, leaf.shape))
        elif isinstance(leaf, (int, float, np.number)):
            rows.append(NumberRow(cells, type(leaf)))
    return rows


def tangent_outs(space: VariantWorkspace, result, parts, lanes: int = 0) -> list[Out] | None:
    """Return one out a leaf of the derivative of a recorded result, None where that is not real.

    Parameters
    ----------
    parts
        What was recorded as the tangents of the float leaves.
    lanes
        The length of a tangent's leading axis, 0 for none.
    """
    recording = space.variant.recording
    leaves = pytrees.flatten(result, lambda leaf: leaf.__class__ is Pair)[0]
    if any(leaf.__class__ is Pair for leaf in leaves):
        return None
    found = iter(pytrees.leaves(parts))
    outs = []
    for leaf in leaves:
        kept = recording.values[leaf.number] if leaf.__class__ is Output else leaf
        if leaf.__class__ is not Output or np.asarray(kept).dtype.kind != "f":
            return None
        part = next(found)
        if part.__class__ is not Output:
            return None
        view = space.outputs[part.number]
        if lanes:
            if view.ndim == np.ndim(kept) or np.asarray(kept).dtype == np.float16:
                return None
            outs.append(Out(jit.steady.CALLED, view.copy))
        else:
            outs.append(out_of(view, recording.values[part.number]))
    return outs
