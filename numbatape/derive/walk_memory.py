"""The memory that a walk shares with its kernel, and how it is kept in step with the tape."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np

from .. import jit
from ..emitter.emitter import Emitter
from ..emitter.symbol import Symbol
from ..jit import address
from ..tape.code import LAST_OUT
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD, NONE, value_numbers
from ..tape.uses import key_of
from . import accumulators
from . import walk_words as names
from .accumulators import POOL_COUNT, Buffer, Cells
from .activity import Active, Places
from .row_classes import Kinds, reading
from .template import MOST_NUMBERS, Sums, named, newest

KERNEL_FILES = "walk_words.py", "walk_signature.py", "walk_repeat.py", "walk_kernel.py"
FIRST_WORDS = 256  # the arrays of templates have room for so many at first
# A signature has no more words, because it names at most `names.MOST_ENTRIES` cotangents of an operand.
MOST_WORDS = 1024
ROOM, ROOM_EACH = 4096, 8  # new values that there is room for at first, and further ones for each instruction


def walk_source() -> str:
    """Return the module of the kernels ``walk`` and ``chain``."""
    here = Path(__file__).parent
    texts = [(here / name).read_text() for name in KERNEL_FILES]
    texts = [re.sub(r"^from \S+ import (\([^)]*\)|.*)\n", "", text, flags=re.MULTILINE) for text in texts]
    return "# cells: f64\n" + "\n".join(texts)


@functools.cache
def kernel(name: str):
    """Return a kernel of this module."""
    return jit.load("walk", walk_source()).function(name)


class Memory:
    """The arrays that the kernel reads and writes.

    Cotangents (or tangents) are either in the kernel's chains of entries, or in `Cells`, where Python's
    derivatives look for them; `give_back` and `hand_over` move them.

    Parameters
    ----------
    emitter, cells, sums
        As in `numbatape.derive.repeats.Walk`.
    kinds
        The kinds of the tape's values.

    Attributes
    ----------
    w
        The words of the kernel, see `numbatape.derive.walk_words`.
    """

    def __init__(self, emitter: Emitter, cells: Cells, sums: Sums, kinds: Kinds):
        self._emitter = emitter
        self._tape = tape = emitter.tape
        self._cells = cells
        self._sums = sums
        self._kinds = kinds
        self.w = np.zeros(64, np.int64)
        self.w[names.LATEST] = NONE
        self._arrays: dict[int, np.ndarray] = {}  # the keys are the words that have their addresses
        places = Places(tape)
        self._pool_starts = places.starts
        of_place = np.full((places.count, names.PLACE_WORDS), NONE, np.int32)
        of_place[:, names.PYTHONS] = 0
        for key in (*cells.cells, *cells.buffers):
            of_place[self.place_of_key(key), names.PYTHONS] = 1
        self._of_place = self._keep(names.PLACES, of_place)
        self._pools = self._keep(names.POOLS, np.array(tape.pool_cells, np.int64))
        self._signature = self._keep(names.SIGNATURE, np.zeros(MOST_WORDS, np.int32))
        self._numbers = self._keep(names.NUMBERS, np.zeros(MOST_NUMBERS, np.int32))
        self._values = self._slopes = self._sum_count = 0
        self._known: dict[tuple, int] = {}  # the kernel's numbers of Python's numbers
        self._parts = sums.numbers = []  # these numbers
        self._taken_slopes: np.ndarray | None = None  # the table of them, when it was last taken
        self._addresses: dict[tuple, int] = {}  # values by storage, offset, dimensions and strides
        self._templates = 0
        self._used = dict.fromkeys((names.TEMPLATES, names.SIGNATURES, names.WORDS), 0)
        for word in (names.TABLE, *self._used):
            self._keep(word, np.zeros(FIRST_WORDS, np.int32))
        self.w[names.MASK] = FIRST_WORDS - 1

    def set_rows(self, found: Active, classes: np.ndarray, sole: np.ndarray | None, forward: bool) -> None:
        """Hand the instructions to the kernel, in the order of the walk.

        Parameters
        ----------
        sole
            For each instruction, the operands whose tangents are taken apart, as bits.
        """
        tape, (rows, needed, places) = self._tape, found
        table = np.full((len(rows), names.ROW_WORDS), NONE, np.int32)
        table[:, 0], table[:, names.NEEDED], table[:, names.LINE] = classes, needed, rows["line"]
        table[:, names.OUT : names.OUT + names.ROW_VALUES] = value_numbers(rows)[:, : names.ROW_VALUES]
        given = np.ones((len(rows), names.ROW_VALUES), bool)
        given[:, 1:] = needed[:, None] >> np.arange(3) & 1
        table[:, names.PLACE : names.PLACE + names.ROW_VALUES] = np.where(given, places, NONE)
        flags = np.where(reading()[rows["op"] >> 1], names.SLOPED, 0)
        for j, name in enumerate("abc"):
            flags += (names.LITERAL << j) * (self._kinds.literal[rows[name]] != NONE)
        if sole is not None:
            flags += names.SOLE * 2 * sole
        table[:, names.FLAGS] = flags
        self._rows = self._keep(names.ROWS, table)
        self.w[names.COUNT], self.w[names.FORWARD] = len(rows), forward
        self.make_room(len(tape.values) + ROOM_EACH * len(rows) + ROOM)
        self.follow(self._kinds.first)

    @property
    def signature(self) -> list[int]:
        """The signature that the kernel has looked up."""
        return self._signature[: int(self.w[names.LENGTH])].tolist()

    @property
    def arguments(self) -> list[int]:
        """The values that it names."""
        return self._numbers[: int(self.w[names.ARGUMENTS])].tolist()

    def moving(self, arguments: list[int]) -> set[int]:
        """Return those of some values that are moving arrays."""
        kinds = self._arrays[names.KINDS]
        return {value for value in arguments if int(kinds[value]) in self._kinds.moving}

    def touched(self, at: int) -> list[tuple[int, int]]:
        """Return the values whose cotangents the derivative of an instruction concerns, and their places."""
        row = self._rows[at].tolist()
        values, places = (row[at : at + names.ROW_VALUES] for at in (names.OUT, names.PLACE))
        return [(value, place) for value, place in zip(values, places, strict=True) if place != NONE]

    def _keep(self, word: int, array: np.ndarray) -> np.ndarray:
        """Let a word of the kernel's be the address of an array."""
        self._arrays[word] = array
        self.w[word] = address(array)
        return array

    def make_room(self, room: int) -> None:
        """Make room for the given numbers of values, entries and new things of each sort.

        Nothing may wait to be taken then.
        """
        kept = {names.VALUES: 3, names.KINDS: 1, names.SLOPES: 3, names.SUMS: 4, names.ENTRIES: 3}
        for word, width in kept.items():
            array = np.empty(width * room, np.int32)
            if word in self._arrays:
                array[: len(self._arrays[word])] = self._arrays[word]
            self._keep(word, array)
        lost = {names.CODE: 9, names.STORAGES: 3, names.VIEWED: 2, names.SPARE: 1, names.NEW_SLOPES: 3}
        for word, width in lost.items():
            self._keep(word, np.empty(width * room, np.int32))
        self._room = self.w[names.ROOM] = room

    # ---- from the kernel to the tape

    def _new(self, word: int, counter: int, width: int) -> np.ndarray:
        """Return what the kernel has appended since the last time, one row each."""
        count, self.w[counter] = int(self.w[counter]), 0
        return self._arrays[word][: width * count].reshape(count, width)

    def take(self) -> None:
        """Append to the tape what the kernel has appended since the last time."""
        tape, w, emitter = self._tape, self.w, self._emitter
        code = self._new(names.CODE, names.CODE_COUNT, names.CODE_WORDS)
        tape.code.extend(code)
        if w[names.GUARD_COUNT] > len(tape.guards):
            emitter.note_guards(code[code[:, 0] == GUARD])
        size = names.VALUE_WORDS
        values = self._arrays[names.VALUES][size * self._values : size * int(w[names.VALUE_COUNT])]
        tape.values.extend(values.reshape(-1, size))
        self._values = len(tape.values)
        storages = self._new(names.STORAGES, names.NEW_STORAGES, names.STORAGE_WORDS)
        if len(storages):
            tape.add_storages(storages)
        tape.pool_cells[:] = self._pools.tolist()
        viewed = self._new(names.VIEWED, names.VIEWED_COUNT, names.VIEW_WORDS)
        if len(viewed):
            tape.note_views(list(map(tuple, viewed.tolist())))
        tape.spare.update(self._new(names.SPARE, names.SPARE_COUNT, 1).ravel().tolist())
        # Python seldom asks for partials and sums that the kernel has noted, so these stay in its tables.
        for value, operand, slope in self._new(names.NEW_SLOPES, names.SLOPE_COUNT, 3).tolist():
            emitter.slopes[value, operand] = self._part(slope)
        self._slopes = len(emitter.slopes)
        self._taken_slopes = self._arrays[names.SLOPES].reshape(-1, 3)[: self._values]
        emitter.slope_table = self._taken_slopes
        self._sums.table = self._arrays[names.SUMS].reshape(-1, 4)[: self._values]

    # ---- from the tape to the kernel

    def follow(self, kinds=None) -> None:
        """Tell the kernel what Python has appended to the tape."""
        tape, w = self._tape, self.w
        if max(len(tape.values), int(w[names.ENTRY_COUNT]) + MOST_WORDS) > self._room:
            self.make_room(2 * max(self._room, len(tape.values)))
        first, stop = self._values, len(tape.values)
        addresses = self._kinds.values
        if kinds is None:
            addresses = tape.values.rows(first, stop)
            kinds = self._kinds.of_addresses(first, addresses)
        if stop > first:
            self._arrays[names.VALUES].reshape(-1, 3)[first:stop] = addresses
        self._arrays[names.KINDS][first:stop] = kinds
        slopes = self._arrays[names.SLOPES].reshape(-1, 3)
        slopes[first:stop] = NONE
        if self._emitter.slope_table is not self._taken_slopes:  # another walk has noted some
            former = self._taken_slopes = self._emitter.slope_table
            np.copyto(slopes[: len(former)], former, where=former >= 0)
        for (value, operand), slope in newest(self._emitter.slopes, self._slopes):
            slopes[value, operand] = self.number_of(slope)
        sums = self._arrays[names.SUMS].reshape(-1, 4)
        sums[first:stop, 0] = 0
        for value, parts in newest(self._sums, self._sum_count):
            sums[value, 0] = len(parts)
            sums[value, 1 : 1 + len(parts)] = list(map(self.number_of, parts))
        self._values, self._slopes, self._sum_count = stop, len(self._emitter.slopes), len(self._sums)
        self._pools[:] = tape.pool_cells
        recent = tape.code.recent
        w[names.LAST] = recent[LAST_OUT] if recent else NONE
        w[names.VALUE_COUNT], w[names.STORAGE_COUNT] = stop, len(tape.storages)
        w[names.GUARD_COUNT] = len(tape.guards)

    def number_of(self, part) -> int:
        """Return the kernel's number of a cotangent or a partial."""
        if part.__class__ is Symbol:
            return part.number
        key = part.__class__, np.asarray(part).tobytes()
        if key not in self._known:
            self._known[key] = names.FIRST_NUMBER - len(self._known)
            self._parts.append(part)
        return self._known[key]

    def _part(self, number: int):
        """Return a cotangent or a partial by the kernel's number of it."""
        return named(number, self._emitter, self._parts)

    # ---- templates

    def note(self, signature: list[int], words: list[int] | None) -> None:
        """Add a template; None for words that the derivative with this signature must be taken by Python."""
        used = self._used
        template = [used[names.SIGNATURES], len(signature), used[names.WORDS], words is not None]
        for word, items in ((names.TEMPLATES, template), (names.SIGNATURES, signature), (names.WORDS, words)):
            self._extend(word, items or [])
        self._templates += 1
        slots = self._arrays[names.TABLE]
        if 4 * self._templates <= len(slots):
            self._enter_template(slots, self._templates)
            return
        slots = self._keep(names.TABLE, np.zeros(2 * len(slots), np.int32))
        self.w[names.MASK] = len(slots) - 1
        for number in range(1, self._templates + 1):
            self._enter_template(slots, number)

    def _extend(self, word: int, items: list[int]) -> None:
        """Append to an array of the kernel's."""
        array, first = self._arrays[word], self._used[word]
        stop = self._used[word] = first + len(items)
        if stop > len(array):
            former, array = array, self._keep(word, np.zeros(2 * stop, np.int32))
            array[:first] = former[:first]
        array[first:stop] = items

    def _enter_template(self, slots: np.ndarray, number: int) -> None:
        """Enter a template, by its number plus one, into the table of templates by their signatures' hash."""
        at = names.TEMPLATE_WORDS * (number - 1)
        first, length = self._arrays[names.TEMPLATES][at : at + names.TEMPLATE_START].tolist()
        code = 0
        for word in self._arrays[names.SIGNATURES][first : first + length].tolist():
            code = (code * 1000003 + word + 65536) & 0xFFFFFFFF
        slot = code & len(slots) - 1
        while slots[slot]:
            slot = slot + 1 & len(slots) - 1
        slots[slot] = number

    # ---- cotangents: those that the kernel knows, and those in cells

    def place_of_key(self, key: int) -> int:
        if key >= 0:
            return int(self._pool_starts[-1]) + key
        offset, pool = divmod(-1 - key, POOL_COUNT)
        return int(self._pool_starts[pool]) + offset

    def place_of(self, value: int) -> int:
        return self.place_of_key(key_of(*self._tape.values[value][:2]))

    def _key_of_place(self, place: int) -> int:
        starts = self._pool_starts
        if place >= starts[-1]:
            return place - int(starts[-1])
        pool = int(np.searchsorted(starts, place, "right")) - 1
        return key_of(pool, place - int(starts[pool]))

    def give_back(self, places: list[int] | None = None) -> None:
        """Put what the kernel knows of some places, or of all, into the cells."""
        if places is None:
            known = (self._of_place[:, names.HEAD] != NONE) | (self._of_place[:, names.BASE] != NONE)
            places = flatnonzero(known).tolist()
        cells, buffers = self._cells.cells, self._cells.buffers
        for place in places:
            key = self._key_of_place(place)
            entry, tail, base, pythons = self._of_place[place].tolist()
            self._of_place[place] = NONE, NONE, NONE, 1
            if key < 0:
                for _, ct in self._chain(entry):
                    cells[key] = self._part(ct)
            elif entry != NONE or base != NONE:
                buffer = buffers.setdefault(key, Buffer())
                if not pythons:
                    buffer.pending, buffer.early, buffer.base = [], [], None if base == NONE else base
                # The entries of a chain are in the order of their numbers.
                most = (tail - entry) // names.ENTRY_WORDS + 1
                if most < accumulators.MANY or not self._give_columns(buffer, entry, most):
                    for value, ct in self._chain(entry):
                        _, offset, layout = self._tape.values[value]
                        buffer.pending.append((offset, *self._tape.layouts[layout], self._part(ct)))
            elif not pythons:
                buffers.pop(key, None)

    def _chain(self, entry: int) -> list[tuple[int, int]]:
        """Return the values of a chain of entries, and the numbers of their cotangents."""
        entries, found = self._arrays[names.ENTRIES].data, []  # a memoryview gives Python's integers
        while entry != NONE:
            found.append((entries[entry], entries[entry + names.ENTRY_CT]))
            entry = entries[entry + names.ENTRY_NEXT]
        return found

    def _give_columns(self, buffer: Buffer, entry: int, most: int) -> bool:
        """Let a chain of at most ``count`` entries wait as columns, if all its cotangents are symbols."""
        w, found = self.w, np.empty((2, most), np.int32)
        w[names.CHAIN], w[names.CHAIN_VALUES], w[names.CHAIN_CTS] = entry, address(found), address(found[1])
        values, cts = found[:, : kernel("chain")(w.ctypes.data, 0)]
        if len(values) < accumulators.MANY or cts.min() < 0:
            return False
        self._cells.add_columns(buffer, values, cts)
        return True

    def hand_over(self, touched: list[tuple[int, int]]) -> None:
        """Let the kernel know the cotangents at some places, which have been given back, where it can."""
        cells, buffers = self._cells.cells, self._cells.buffers
        for value, _ in touched:
            storage, offset, layout = self._tape.values[value]
            its = self._tape.layouts[layout]
            self._addresses[storage, offset, its.dims, its.strides] = value
        for value, place in touched:
            key = self._key_of_place(place)
            if key < 0:
                ct = cells.get(key)
                self._enter(place, [] if ct is None else [(value, self.number_of(ct))], NONE)
                continue
            buffer = buffers.get(key)
            if buffer is None:
                self._enter(place, [], NONE)
            elif not buffer.early and len(buffer.pending) <= names.MOST_ENTRIES:
                entries = [(self._addresses.get((key, *its)), ct) for *its, ct in buffer.pending]
                if all(part is not None for part, _ in entries):
                    base = NONE if buffer.base is None else buffer.base
                    self._enter(place, [(part, self.number_of(ct)) for part, ct in entries], base)

    def _enter(self, place: int, pending: list[tuple[int, int]], base: int) -> None:
        entries, w = self._arrays[names.ENTRIES], self.w
        head = tail = NONE
        for value, ct in pending:
            entry = names.ENTRY_WORDS * int(w[names.ENTRY_COUNT])
            w[names.ENTRY_COUNT] += 1
            entries[entry : entry + names.ENTRY_WORDS] = value, ct, NONE
            if head == NONE:
                head = entry
            else:
                entries[tail + names.ENTRY_NEXT] = entry
            tail = entry
        self._of_place[place] = head, tail, base, 0
