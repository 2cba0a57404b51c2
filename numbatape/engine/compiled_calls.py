"""`CompiledCall`: a rule that compiled code calls, at one call site of one workspace."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ..jit.rule_signatures import HEAD
from ..jit.rules import Native
from ..ops.calls import BACK, STATE
from ..tape.tape import FAMILY_DTYPE
from .plan_tables import STORAGE_WORDS

CACHE_LINE = 64
V, G, FIRST, SIZE = (HEAD.index(name) for name in ("v", "g", "first", "size"))


class CompiledCall:
    """The state of a compiled rule's call (`numbatape.jit.rules`): words that say where everything is.

    Parameters
    ----------
    native
        How to call it.
    plan, out
        The plan, and the value that is the call's result.
    in_order
        Whether operands and result are without gaps for all sizes.
    size
        Returns the present value of a size code.
    """

    def __init__(self, native: Native, plan, out: int, in_order: bool, size: Callable[[int], int]):
        self.native, self._out = native, out
        *batch, m = plan.shape(out)
        lanes = prod(batch) if m else 1
        state = dict(native.fields)
        offset = 0
        for name, shape, dtype in native.memory:
            state[f"{name}_at"] = offset
            offset += -(-prod(shape) * dtype.itemsize // CACHE_LINE) * CACHE_LINE
        self._memory: dict[str, np.ndarray] = {}  # arrays whose addresses the state has
        state |= {"lane": offset, "memory": self._take("memory", offset * lanes)}
        state |= {f"{name}_buffer": self._take(f"{name}_buffer", size) for name, size in native.buffers}
        self.words = np.array([state.get(name, 0) for name in native.names], np.int64)
        self._at = {name: k for k, name in enumerate(native.names)}
        row = plan.tape.values[out].item()
        self._storage, self._offset = row[:2]
        self._cells = plan.tape.layouts[row[2]].dims[-1]
        self._family = int(plan.tape.storages["family"][self._storage])
        self._size = size
        self.follows = native.follows and in_order and not batch

    def _take(self, name: str, size: int) -> int:
        """Return the address of zeros that live as long as this object, on a cache line."""
        memory = self._memory[name] = np.zeros(size + CACHE_LINE, np.uint8)
        return memory.ctypes.data + -memory.ctypes.data % CACHE_LINE

    @property
    def nbytes(self) -> int:
        """The bytes of the rule's workspaces and buffers."""
        return sum(memory.nbytes for memory in self._memory.values())

    def write_to(self, row: np.ndarray) -> None:
        """Fill in the row of the table of calls."""
        row[STATE] = self.words.ctypes.data
        for column, address in ((0, self.native.forward), (BACK, self.native.reverse)):
            if address:
                row[column] = address

    def place(self, plan, cells, active) -> None:
        """Note where cells, adjoints and the result are."""
        v, g = (arrays[self._family] for arrays in cells)
        words, offset, count = self.words, self._offset, self._cells
        first = int(plan.bases[self._storage])
        words[V] = v.ctypes.data
        words[G] = g.ctypes.data - FAMILY_DTYPE[self._family].itemsize * active[self._family][0]
        words[FIRST] = first + (offset if offset >= 0 else plan.size(offset))
        words[SIZE] = count if count >= 0 else plan.size(count)

    # ---- what lets it follow sizes (`numbatape.engine.moving.moving_calls`)

    @property
    def result(self) -> tuple[int, int, int]:
        """Where the result is: the word of its storage, the size code of its offset, its family."""
        return STORAGE_WORDS * self._storage, self._offset, self._family

    def starts(self) -> list[tuple[int, int]]:
        """Return the addresses of words that are values of size codes, and these codes."""
        codes = [(self._at[name], code) for name, code in self.native.codes.items()]
        return [(self._address(at), code) for at, code in (*codes, (SIZE, self._cells)) if code < 0]

    def buffers(self) -> list[tuple[int, int, int, int, int]]:
        """Return for each buffer the address of its word, where its array begins and ends (size codes), the
        bytes of an entry, and how many bytes there are."""
        return [
            (self._address(self._at[f"{name}_buffer"]), *room, self._bytes(name))
            for name, room in self.native.rooms.items()
        ]

    def make_room(self) -> None:
        """Let buffers be as long as their arrays are now, and somewhat longer."""
        for name, (start, stop, width) in self.native.rooms.items():
            size = width * (self._size_of(stop) - self._size_of(start))
            if size > self._bytes(name):
                self.words[self._at[f"{name}_buffer"]] = self._take(f"{name}_buffer", size * 5 // 4)

    def _address(self, word: int) -> int:
        return self.words.ctypes.data + self.words.itemsize * word

    def _bytes(self, name: str) -> int:
        return len(self._memory[f"{name}_buffer"]) - CACHE_LINE

    def _size_of(self, code: int) -> int:
        return code if code >= 0 else self._size(code)
