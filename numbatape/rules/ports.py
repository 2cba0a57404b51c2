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

    # ---- of a port with numbers

    def view(self, flat: np.ndarray) -> np.ndarray:
        """Return its cells in its shape, never a copy: cells have one stride."""
        return flat[self.start : self.stop].reshape(self.shape)

    def reader(self, flat: np.ndarray) -> Callable[[], Any]:
        """Return a function that returns the array or number: without a copy where that is possible."""
        if self.scalar is not None:
            number = self.scalar
            return lambda: number(flat[self.start])
        part = flat[self.start : self.stop]
        if part.dtype == self.dtype and part.flags.c_contiguous:
            cells = part.reshape(self.shape)
            return lambda: cells
        buffer = np.empty(self.shape, self.dtype)
        line = buffer.reshape(-1)

        def read():
            line[...] = part
            return buffer

        return read


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
