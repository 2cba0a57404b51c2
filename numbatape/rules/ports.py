"""`Port`: where one argument or result of a rule is in the operand that holds all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..tape.sizes import Sizes


class Port(NamedTuple):
    """A part of a flat operand.

    Attributes
    ----------
    start, stop
        Its cells: size codes, as the shape is.
    shape, dtype
        Shape and dtype of the array.
    scalar
        The class of the number, None for an array.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: np.dtype
    scalar: type | None

    @property
    def is_symbolic(self) -> bool:
        """Whether its place depends on the sizes of the tape's inputs."""
        return min(self.start, self.stop, *self.shape) < 0

    def at(self, size: Callable[[int], int]) -> Port:
        """Return the same port with numbers in the place of size codes, whose values ``size`` returns."""
        if not self.is_symbolic:
            return self
        shape = tuple([size(n) for n in self.shape])
        return Port(size(self.start), size(self.stop), shape, self.dtype, self.scalar)

    def cells(self, flat: np.ndarray, size: Callable[[int], int]) -> np.ndarray:
        """Return its cells in its shape, never a copy: cells have one stride."""
        start, stop, shape, _, _ = self
        start, stop = start if start >= 0 else size(start), stop if stop >= 0 else size(stop)
        part = flat if start == 0 and stop == len(flat) else flat[start:stop]  # often it is alone
        if len(shape) == 1:
            return part
        return part.reshape([n if n >= 0 else size(n) for n in shape])

    def reader(self, cells: np.ndarray) -> Callable[[], Any] | None:
        """Return what reads the array or number from its cells; None if they are the array itself."""
        if self.scalar is not None:
            number = self.scalar
            return lambda: number(cells[()])
        if cells.dtype == self.dtype and cells.flags.c_contiguous:
            return None
        buffer = np.empty(cells.shape, self.dtype)

        def read():
            buffer[...] = cells
            return buffer

        return read


class Operands:
    """What a rule is called with: arrays of cells, and numbers or converted arrays, read in each call.

    Attributes
    ----------
    values
        What it is called with, as of the last call.
    changing
        Positions of those that are read in each call, and what reads them.
    """

    __slots__ = ("changing", "values")

    def __init__(self, values: list):
        self.values = values
        self.changing: list[tuple[int, Callable]] = []

    def put(self, places: list[tuple[int, Port]], flat: np.ndarray, size: Callable[[int], int]) -> list:
        """Let the arguments at some positions be what ports say; return their cells."""
        found = []
        for k, port in places:
            cells = port.cells(flat, size)
            read = port.reader(cells)
            if read is None:
                self.values[k] = cells
            else:
                self.changing.append((k, read))
            found.append(cells)
        return found

    def now(self) -> list:
        """Return the present ones."""
        for k, read in self.changing:
            self.values[k] = read()
        return self.values


def ports_of(sizes: Sizes, values, shapes) -> list[Port]:
    """Return the ports of values that are packed one after the other.

    Parameters
    ----------
    sizes
        The size expressions of the tape.
    values
        Arrays and numbers.
    shapes
        Their shapes as size codes.
    """
    ports, start = [], 0
    for value, shape in zip(values, shapes, strict=True):
        scalar = None if isinstance(value, np.ndarray) else type(value)
        stop = sizes.add(start, sizes.product(shape))
        ports.append(Port(start, stop, tuple(shape), np.asarray(value).dtype, scalar))
        start = stop
    return ports
