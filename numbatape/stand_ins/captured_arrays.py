"""Captured arrays in a trace: stand-ins for them, which work with traced values everywhere.

With an ordinary array, ``X.dot(b)``, ``table[i]`` and ``buffer[:] = x`` never reach the tracer. A function
that needs this is traced again with plain arrays (`numbatape.trace.plain_arrays`) in place of captured
ones. These are copies, so that the caller's arrays do not change: an array to which the function writes
traced values is scratch for the call. What it writes without traced values (a counter) is copied to the
caller's array when the trace ends.
"""

from __future__ import annotations

import numpy as np

from ..trace.aliasing import root_of, twin, window
from ..trace.plain_arrays import is_plain, wrap
from ..trace.trace import Trace


class CapturedArrays:
    """The stand-ins for captured arrays in one trace; they share memory where the arrays do."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._made: dict[int, tuple] = {}  # the keys are ids of arrays, the values (array, stand-in)
        self.tables: dict[int, WithArrays] = {}  # the keys are ids of the tables without arrays
        # The keys are ids of owners, the values (owner, its copy).
        self._roots: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._used: set[int] = set()  # the ids of owners whose copies stand-ins have

    def stand_in(self, array: np.ndarray):
        """Return the stand-in for an array; None if no traced value can have its dtype."""
        if id(array) not in self._made:
            made = wrap(self._trace, self._copy(array))
            if is_plain(made):
                self._used.add(id(root_of(array)))
            self._made[id(array)] = array, made if is_plain(made) else None
        return self._made[id(array)][1]

    def found(self, array: np.ndarray):
        """Return the stand-in for an array if one of its memory was made already, else None."""
        return self.stand_in(array) if id(root_of(array)) in self._roots else None

    def _copy(self, array: np.ndarray) -> np.ndarray:
        root = root_of(array)
        if id(root) not in self._roots:
            copy = twin(root)
            self._roots[id(root)] = root, copy
            self._trace.capture.borrowed.add(id(root_of(copy)))
        root, copy = self._roots[id(root)]
        if array is not root:
            return window(root, array, copy)
        copy.flags.writeable = array.flags.writeable
        return copy

    def original(self, stand_in) -> np.ndarray | None:
        """Return the array that a stand-in is for; None for anything else."""
        return next((array for array, made in self._made.values() if made is stand_in), None)

    def written(self) -> set[int]:
        """Return the ids of captured arrays whose stand-ins were written to."""
        changed = set(map(id, self.written_roots()))
        return {key for key, (array, _) in self._made.items() if id(root_of(array)) in changed}

    def written_roots(self) -> list[np.ndarray]:
        """Return the owners of the memory of captured arrays whose stand-ins were written to."""
        return [
            root
            for root, copy in self._roots.values()
            if id(root_of(copy)) in self._trace.memory.boxes or root.tobytes() != copy.tobytes()
        ]

    def give_back(self) -> None:
        """Copy to the captured arrays what was written without traced values."""
        for key, (root, copy) in self._roots.items():
            unwritten = key not in self._used or id(root_of(copy)) in self._trace.memory.boxes
            if not unwritten and root.tobytes() != copy.tobytes():
                root[...] = copy


class WithArrays:
    """A table of stand-ins, extended by those for captured arrays."""

    def __init__(self, known, arrays: CapturedArrays):
        self._known, self._arrays = known, arrays

    def __getattr__(self, name):
        return getattr(self._known, name)

    def stand_in(self, value):
        """Return the stand-in for a value, or None."""
        if type(value) is np.ndarray:
            return self._arrays.stand_in(value)
        return self._known.stand_in(value)
