"""Captured arrays that take part in a trace: stand-ins for them that traced values may meet anywhere.

``X.dot(b)``, ``table[i]`` and ``buffer[:] = x`` of an ordinary array never ask the tracer. Where a function
needs that, it is traced again with plain arrays (`numbatape.trace.plain`) in the places of captured ones.
These are copies, so that the caller's arrays stay as they are: what a function writes traced values to is
scratch for the call. What it writes without them (a counter) goes to the caller's array when the trace ends.
"""

from __future__ import annotations

import numpy as np

from .memory import root_of, twin, window
from .plain import is_plain, wrap
from .trace import Trace


class CapturedArrays:
    """The stand-ins for captured arrays in one trace; arrays that share memory go on sharing it."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._made: dict[int, tuple] = {}  # by id: (array, stand-in), which keeps the array alive
        self.tables: dict[int, WithArrays] = {}  # by the id of the table that has no arrays
        self._roots: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by id: (who owns the memory, its copy)

    def stand_in(self, array: np.ndarray):
        """Return what stands for an array; None for one of a dtype that no traced value has."""
        if id(array) not in self._made:
            made = wrap(self._trace, self._copy(array))
            self._made[id(array)] = array, made if is_plain(made) else None
        return self._made[id(array)][1]

    def _copy(self, array: np.ndarray) -> np.ndarray:
        root = root_of(array)
        if id(root) not in self._roots:
            copy = twin(root)
            self._roots[id(root)] = root, copy
            self._trace.borrowed.add(id(root_of(copy)))
        root, copy = self._roots[id(root)]
        if array is not root:
            return window(root, array, copy)
        copy.flags.writeable = array.flags.writeable
        return copy

    def original(self, stand_in) -> np.ndarray | None:
        """Return the array that something stands for; None for anything else."""
        return next((array for array, made in self._made.values() if made is stand_in), None)

    def give_back(self) -> None:
        """Write what was written without traced values to the arrays that were captured."""
        for root, copy in self._roots.values():
            if id(root_of(copy)) not in self._trace.boxes and root.tobytes() != copy.tobytes():
                root[...] = copy


class WithArrays:
    """A table of stand-ins, and those for captured arrays."""

    def __init__(self, known, arrays: CapturedArrays):
        self._known, self._arrays = known, arrays

    def __getattr__(self, name):
        return getattr(self._known, name)

    def stand_in(self, value):
        """Return what stands for a value, or None."""
        if type(value) is np.ndarray:
            return self._arrays.stand_in(value)
        return self._known.stand_in(value)
