"""Rows: what a steady call needs to know of each leaf of its arguments, and where it is copied to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from .. import jit
from ..capture.references import exact_key
from ..jit import address
from ..programs.roles import bare
from ..trace.constants import EXACT_INTEGER
from ..trace.integer_arithmetic import LARGEST

ndarray = np.ndarray
# Arrays of so many bytes are compared by integers of the size of their entries: two copies took three times
# as long, and more where a caller's array lies in another order.
MANY_BYTES = 1 << 13
WORDS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


class ArrayRow:
    """An array that is copied into cells.

    Attributes
    ----------
    size
        The shape of an array, None for anything else; all classes of rows have it.

    Parameters
    ----------
    apart
        Captured arrays whose memory the array must not have.
    """

    def __init__(self, cells: ndarray, dtype: np.dtype, shape: tuple, apart: Sequence[ndarray] = ()):
        self.cells, self.dtype, self.size, self._apart = cells, dtype, shape, apart

    def fits(self, leaf) -> bool:
        usual = leaf.__class__ is ndarray and leaf.dtype == self.dtype and leaf.shape == self.size
        return usual and not any(np.may_share_memory(leaf, other) for other in self._apart)

    def write(self, leaf) -> None:
        self.cells[...] = leaf

    def native(self, alive: list) -> dict | None:
        """Return the row's words for the builtin, None where it has no such row."""
        if self.cells.dtype != self.dtype:
            return None
        whole = self.cells.flags.c_contiguous
        if self._apart and not whole:
            return None
        words = self.cells.itemsize == jit.object_layout.WORD
        kind = {"kind": jit.steady.ARRAY, "scattered": words} if whole else spread_words(self.cells)
        if kind is None:
            return None
        if self._apart:
            ends = [byte_bounds(other) for other in self._apart]
            begin, end = min(first for first, _ in ends), max(last for _, last in ends)
            kind = {"kind": jit.steady.APART, "begin": begin, "end": end}
        alive.append(self.cells)
        return {
            **kind,
            "object": id(self.dtype),
            "ndim": len(self.size),
            "shape": self.size,
            "cells": address(self.cells),
            "bytes": self.cells.nbytes,
        }


def spread_words(cells: ndarray) -> dict | None:
    """Return the words by which a builtin writes an array to cells with gaps; None where it cannot.

    All but the first axis must have steps like those of one axis. So have lanes: their axis is the first one
    of the array, and the last one in memory.
    """
    if cells.itemsize != jit.object_layout.WORD or not cells.size:
        return None
    axes = [(n, step) for n, step in zip(cells.shape[1:], cells.strides[1:], strict=True) if n > 1]
    if any(outer != n * step for (_, outer), (n, step) in itertools.pairwise(axes)):
        return None
    return {
        "kind": jit.steady.SPREAD,
        "blocks": cells.shape[0],
        "block_step": cells.strides[0],
        "words": cells.size // cells.shape[0],
        "word_step": axes[-1][1] if axes else 0,
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
            "cells": address(self.cells),
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


class LaneRow:
    """An array whose first axis numbers points, each of which goes into a lane of the cells.

    There may be fewer points than lanes, unless a builtin writes them.

    Parameters
    ----------
    cells
        The lanes of the array, or of the real parts of a complex one.
    dtype
        Of the array.
    imag
        The lanes of the imaginary parts, None for a real array.
    """

    def __init__(self, cells: ndarray, dtype: np.dtype, imag: ndarray | None = None):
        self.cells, self.dtype, self.imag = cells, dtype, imag
        self.size = cells.shape

    def fits(self, leaf) -> bool:
        return (
            leaf.__class__ is ndarray and leaf.dtype == self.dtype and leaf.shape[1:] == self.cells.shape[1:]
        )

    def write(self, leaf) -> None:
        if self.imag is None:
            _fill_lanes(self.cells, leaf)
        else:
            _fill_lanes(self.cells, leaf.real)
            _fill_lanes(self.imag, leaf.imag)

    def native(self, alive: list) -> dict | None:
        return None if self.imag is not None else ArrayRow(self.cells, self.dtype, self.size).native(alive)


def _fill_lanes(cells: ndarray, points: ndarray) -> None:
    """Write points into lanes; lanes that are left over repeat the first point."""
    count = len(points)
    cells[:count] = points
    if count < len(cells):
        cells[count:] = points[0]


class SameRow:
    """A value that selects the tape: it must be the same as before."""

    size = None

    def __init__(self, known: Any):
        self.known = known

    def fits(self, leaf) -> bool:
        return leaf is self.known or exact_key(leaf) == exact_key(self.known)

    def write(self, leaf) -> None:
        pass

    def native(self, alive: list) -> dict:
        alive.append(self.known)
        return {"kind": jit.steady.SAME, "object": id(self.known)}


class KnownNumberRow(SameRow):
    """A constant number: its cell holds it already, and the prologue has been computed with it."""

    def __init__(self, cells: ndarray, known):
        super().__init__(known)
        self.cells = cells

    def fits(self, leaf) -> bool:
        if leaf.__class__ is not self.known.__class__:
            return False
        return leaf.__class__ is float or abs(leaf) <= LARGEST  # larger integers take the general call

    def changed(self, leaf) -> bool:
        # Compared by text, which tells 0.0 from -0.0 and makes all NaNs equal.
        return leaf is not self.known and repr(leaf) != repr(self.known)

    def is_other(self, leaf) -> bool:
        """Whether a builtin, which knows numbers by identity, takes a number for another one."""
        return leaf is not self.known

    def take(self, leaf) -> None:
        """Compute with another number from now on."""
        self.known = leaf
        self.cells[...] = leaf

    def following(self) -> NumberRow | None:
        """Return a row of numbers that each call writes to the cell, None for integers, which are tested."""
        return NumberRow(self.cells, type(self.known)) if isinstance(self.known, float) else None


class DataRow:
    """A constant array: cells hold its contents already, and the prologue has been computed with them.

    Attributes
    ----------
    known
        A copy of the contents.
    was_scattered
        Whether the call from which it was learned had an array whose entries lie apart, or in another order.
    """

    def __init__(self, cells: ndarray, known: ndarray):
        self.cells = cells
        self.was_scattered = not known.flags.c_contiguous
        self.known = np.array(known, order="C")
        self.size = self.known.shape

    def fits(self, leaf) -> bool:
        return leaf.__class__ is ndarray and leaf.shape == self.known.shape and self.computes(leaf)

    def computes(self, leaf: ndarray) -> bool:
        """Whether the trace holds for an array of this dtype and such numbers."""
        if leaf.dtype != self.known.dtype:
            return False
        if leaf.dtype.kind not in "iu" or not leaf.size:
            return True
        # Larger integers take the general call, which raises. Those without a sign have no more bits together
        # than the largest one, which takes a third of the time to see.
        return 0 <= np.bitwise_or.reduce(leaf, None) < EXACT_INTEGER or _largest(leaf) < EXACT_INTEGER

    def changed(self, leaf) -> bool:
        """Whether any bit of the contents has changed."""
        word = WORDS.get(leaf.itemsize) if leaf.nbytes >= MANY_BYTES else None
        if word is None:
            return leaf.tobytes() != self.known.tobytes()
        return bool(np.not_equal(leaf.view(word), self.known.view(word)).any())

    is_other = changed

    def take(self, leaf) -> None:
        """Compute with other contents from now on."""
        self.known[...] = leaf
        self.cells[...] = leaf

    def following(self) -> ArrayRow | None:
        """Return a row of arrays that each call copies to the cells, None for those that are converted."""
        usual = self.__class__ is DataRow and self.cells.dtype == self.known.dtype
        return ArrayRow(self.cells, self.known.dtype, self.size) if usual else None

    def write(self, leaf) -> None:
        pass

    def native(self, alive: list) -> dict | None:
        if self.known.dtype.byteorder not in "=|":
            return None
        alive.append(self.known)
        return {
            "kind": jit.steady.DATA_ARRAY,
            "object": id(self.known.dtype),
            "ndim": self.known.ndim,
            "shape": self.known.shape,
            "bytes": self.known.nbytes,
            "scattered": self.known.itemsize == jit.object_layout.WORD,
            "contents": address(self.known),
        }


class FrozenRow(DataRow):
    """A constant array that nobody writes to, as long as each call is given this one."""

    def __init__(self, cells: ndarray, known: ndarray):
        self.cells, self.known, self.size, self.was_scattered = cells, known, known.shape, False

    def fits(self, leaf) -> bool:
        return leaf is self.known or super().fits(leaf)

    def compared(self) -> DataRow:
        """Return a row of arrays of which the contents are compared, as there was another array now."""
        row = DataRow(self.cells, self.known)
        row.known[...] = row.cells  # its array may have been made writable and changed meanwhile
        return row

    def native(self, alive: list) -> dict:
        alive.append(self.known)
        return {"kind": jit.steady.SAME, "object": id(self.known)}


class ComplexDataRow(DataRow):
    """A constant complex array, whose parts stand apart in cells and together in the argument."""

    def __init__(self, real: ndarray, imag: ndarray, known: ndarray):
        super().__init__(real, known)
        self.imag = imag

    def take(self, leaf) -> None:
        self.known[...] = leaf
        self.cells[...], self.imag[...] = leaf.real, leaf.imag


def _largest(integers: ndarray) -> int:
    return max(abs(int(integers.max())), abs(int(integers.min())))


Row = ArrayRow | NumberRow | ComplexRow | LaneRow | SameRow | DataRow


def sizes_of(leaves: Sequence) -> tuple:
    """Return the shapes of arrays, None for each other leaf."""
    return tuple([leaf.shape if leaf.__class__ is ndarray else None for leaf in leaves])


def key_of(sizes: tuple) -> tuple:
    """Return the key of some sizes among entries: the shape alone of one array, which is there already."""
    return sizes[0] if len(sizes) == 1 and sizes[0] is not None else sizes


def opened_leaves(leaves: tuple, sizes: tuple) -> tuple[tuple, tuple]:
    """Return leaves without the marks of constants, and the key of their sizes."""
    if None in sizes:  # A size of None stands for a leaf that is not an array.
        opened = tuple(map(bare, leaves))
        if not all(map(is_, opened, leaves)):
            return opened, key_of(sizes_of(opened))
    return leaves, sizes
