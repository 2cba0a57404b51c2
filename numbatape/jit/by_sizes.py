"""Builtins of steady calls by the sizes that they are for, in a table where the one in front looks them up.

Where calls of several sizes take turns, Python took 0.3 to 0.5 µs to find the builtin for each of them, and
read the key of a dictionary, its parts and the builtin itself, which the processor's caches may not hold.
The builtin in front hashes the sizes of its leaves, finds the words of the builtin for them in a table, and
goes on with these words: this takes 0.03 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .builtin import OTHERS
from .object_layout import NDIM, SHAPE, TYPE, WORD

BASIS, PRIME = 0xCBF29CE484222325, 0x9E3779B97F4A7C15
BITS = (1 << 64) - 1
OTHER_LEAF = 0xFF  # hashed in place of a number of dimensions where a leaf is no array
SLOT = (
    "hash",
    "words",
    "object",
)  # a hash of 0 ends a search, and words of 0 are those of a builtin that has gone
OFTEN = 64  # a builtin that serves so many calls in a row goes to the front
FEWEST = 16


class BySizes:
    """Builtins by the shapes of their leaves, with None for each leaf that is no array.

    Parameters
    ----------
    head
        The words `OTHERS`, which builtins know by address: they stay where they are when the table grows.
    """

    def __init__(self, head: np.ndarray):
        self._head = head
        self._builtins: dict[tuple, Callable] = {}
        self._slots: dict[tuple, int] = {}
        self._renew()

    def __contains__(self, sizes: tuple) -> bool:
        return sizes in self._builtins

    def __len__(self) -> int:
        return len(self._builtins)

    def _renew(self) -> None:
        """Make a table of a power of two of slots, more than four for each builtin."""
        slots = max(FEWEST, 1 << (4 * len(self._builtins)).bit_length())
        table = np.zeros((slots, len(SLOT)), np.uint64)
        for sizes, builtin in self._builtins.items():
            self._write(table, sizes, builtin)
        # Another thread may ask at any time, and must not find a table that has gone.
        self._head[:] = table.ctypes.data, slots - 1, 0, 0
        self._table, self._used = table, len(self._builtins)

    def _write(self, table: np.ndarray, sizes: tuple, builtin: Callable) -> None:
        code, mask = hash_of(sizes), len(table) - 1
        place = code & mask
        while table[place, 0]:
            place = (place + 1) & mask
        self._slots[sizes] = place
        table[place] = code, builtin.__self__, id(builtin)

    def put(self, sizes: tuple, builtin: Callable | None) -> None:
        """Let calls with leaves of these sizes be served by a builtin of `jit.steady`, or by none."""
        known = self._builtins.get(sizes)
        if known is builtin:
            return
        if known is not None:
            del self._builtins[sizes]
            self._table[self._slots.pop(sizes), 1:] = 0
        if builtin is None:
            return
        self._builtins[sizes] = builtin
        if 2 * (self._used + 1) > len(self._table):
            self._renew()
        else:
            self._write(self._table, sizes, builtin)
            self._used += 1


def hash_of(sizes: Iterable[tuple[int, ...] | None]) -> int:
    """Return the hash of leaves with these shapes, which is never 0."""
    code = BASIS
    for shape in sizes:
        for word in (OTHER_LEAF,) if shape is None else (len(shape), *shape):
            code = (code ^ word) * PRIME & BITS
    return code | 1 << 63


# ---- what the builtin in front does, as IR


def interrupt(text, head) -> None:
    """Write that the builtin in front has served a call, so that no other one serves many in a row."""
    text.builder.store(text.i64(0), _word(text, head, "times"))


def look_up(text, head, arguments, count, array_type, nothing) -> dict:
    """Write a search, and return what it finds: the words of a builtin, and the builtin as ``object``.

    If there is none for the sizes of the ``arguments``, the search ends at the block ``nothing``. So it does
    if the same one has served so many calls in a row that it had better be in front.
    """
    builder, i64 = text.builder, text.i64
    table, mask = text.load(head, text.pointer), text.load(head, i64, WORD * OTHERS.index("mask"))
    text.go_on_if(builder.icmp_signed("!=", builder.ptrtoint(table, i64), i64(0)), nothing)
    code = _hash(text, arguments, count, array_type)
    before, turn, used, found = builder.block, text.block(), text.block(), text.block()
    text.go(turn)
    text.at(turn)
    place = builder.phi(i64)
    place.add_incoming(code, before)
    slot = builder.gep(table, [builder.mul(builder.and_(place, mask), i64(WORD * len(SLOT)))])
    there = text.load(slot, i64)
    builder.cbranch(text.equal(there, i64(0)), nothing, used)
    text.at(used)
    words = text.load(slot, i64, WORD)
    fits = builder.and_(text.equal(there, code), builder.icmp_signed("!=", words, i64(0)))
    place.add_incoming(builder.add(place, i64(1)), used)
    builder.cbranch(fits, found, turn)
    text.at(found)
    last, times = _word(text, head, "last"), _word(text, head, "times")
    more = builder.add(builder.load(times), i64(1))
    again = builder.select(text.equal(builder.load(last), words), more, i64(0))
    builder.store(words, last)
    builder.store(again, times)
    text.go_on_if(builder.icmp_signed("<", again, i64(OFTEN)), nothing)
    return {"words": text.address(words), "object": text.load(slot, text.pointer, 2 * WORD)}


def _word(text, head, name: str):
    """Return the address of a word of the head."""
    return text.builder.bitcast(text.builder.gep(head, [text.i64(WORD * OTHERS.index(name))]), text.words)


def _hash(text, arguments, count, array_type):
    """Write what `hash_of` does."""
    builder, i64, code = text.builder, text.i64, text.hash

    def mix(word):
        builder.store(builder.mul(builder.xor(builder.load(code), word), i64(PRIME)), code)

    builder.store(i64(BASIS), code)
    number, end = text.each(count)
    leaf = builder.load(builder.gep(arguments, [number]))
    with builder.if_else(text.equal(text.load(leaf, i64, TYPE), array_type)) as (array, otherwise):
        with array:
            ndim = builder.sext(text.load(leaf, text.i32, NDIM), i64)
            mix(ndim)
            axis, end_of_axes = text.each(ndim)
            shape = builder.bitcast(text.load(leaf, text.pointer, SHAPE), text.words)
            mix(builder.load(builder.gep(shape, [axis])))
            end_of_axes()
        with otherwise:
            mix(i64(OTHER_LEAF))
    end()
    return builder.or_(builder.load(code), i64(1 << 63))
