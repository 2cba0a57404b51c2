"""Definitions and uses: which instructions write and read which cells; their fields as columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from . import column_scans
from .column_scans import SHORT, reach
from .combinations import flatnonzero, numbered, stable_order
from .families import POOLS
from .instruction import GUARD, NONE, value_numbers

NO_GROUP = 0  # the group of an operand that is not there, see `numbatape.tape.draft.Draft`
READ = 4  # groups that an instruction reads: those of three operands and of its scratch
SCRATCH = 3  # the place of the scratch among these


def keys_of(values) -> list[int]:
    """Name what holds each value: its storage, or (negative) its cell of a pool, see `cell_of`."""
    pools = len(POOLS)
    if isinstance(values, list):
        return [s if s >= pools else -1 - (offset * pools + s) for s, offset, _ in values]
    rows = values if isinstance(values, np.ndarray) else values.columns()
    storage, offset = rows["storage"].astype(np.int64), rows["offset"]
    return np.where(storage >= pools, storage, -1 - (offset * pools + storage)).tolist()


def key_of(storage: int, offset: int) -> int:
    """Name what holds a value, as `keys_of` does, by its storage and its offset there."""
    pools = len(POOLS)
    return storage if storage >= pools else -1 - (offset * pools + storage)


def cell_of(key: int) -> tuple[int, int]:
    """Return (pool, offset) of the cell that a negative key names."""
    return -(key + 1) % len(POOLS), -(key + 1) // len(POOLS)


def dependents(code, keys: list[int], sources) -> set[int]:
    """Return the keys of values that depend on the given ones (included), and of the scratch of their ops.

    Parameters
    ----------
    code
        Instructions as an array, of a builder or of a tape.
    """
    # The last entry is for missing operands. It is the least one, so that its rank is NO_GROUP.
    at = np.append(np.array(keys, np.int64), min(keys, default=0) - 1)
    group, count = numbered(at)
    key = np.empty(count, np.int64)
    key[group] = at
    found = np.zeros(count, bool)
    found[np.searchsorted(key, list(sources))] = True
    return set(key[reach(*groups_of(code, group.astype(np.int32)), found)].tolist())


def groups_of(code: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group that each instruction writes, and the four groups that it reads.

    These are those of its operands and of its scratch; NO_GROUP stands for what is not there. A guard writes
    nothing.
    """
    if len(code) > SHORT:
        return column_scans.groups(code, group)
    numbers = value_numbers(code)
    read = numbers[:, 1:].astype(np.intp)  # NumPy indexes with these twice as fast as with 32 bits
    read[code["op"] == GUARD, SCRATCH] = NONE  # there it is the number of the guard
    return group[numbers[:, 0]], group[read]


class _Once:
    """A property that is computed when it is first read. (functools.cached_property has a lock in 3.11.)"""

    def __init__(self, function):
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance, owner=None):
        found = instance.__dict__[self.function.__name__] = self.function(instance)
        return found


class Uses:
    """Who writes and reads each group of cells (`numbatape.tape.draft.Draft`), as far as somebody asks.

    Parameters
    ----------
    code
        Instructions as columns, without dead ones.
    group
        The group of each value, and at the end NO_GROUP.
    count
        How many groups there are.

    Attributes
    ----------
    out, operands
        See `groups_of`.
    """

    def __init__(self, code: np.ndarray, group: np.ndarray, count: int):
        self.code, self.count = code, count
        self.out, self.operands = groups_of(code, group)

    @_Once
    def _written(self) -> tuple[np.ndarray, np.ndarray]:
        if len(self.out) > SHORT:
            return column_scans.written(self.out, self.count)
        return self._times(self.out), self._last(self.out, np.arange(len(self.out)))

    @_Once
    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        if len(self.out) > SHORT:
            return column_scans.read(self.operands, self.count)
        groups = self.operands.reshape(-1)
        return self._times(groups), self._last(groups, np.arange(len(groups)) // READ)

    @property
    def writes(self) -> np.ndarray:
        """How many instructions write each group."""
        return self._written[0]

    @property
    def reads(self) -> np.ndarray:
        """How many operands of instructions are in each group."""
        return self._read[0]

    @property
    def last_write(self) -> np.ndarray:
        """The last instruction that writes each group, -1 for none."""
        return self._written[1]

    @property
    def last_read(self) -> np.ndarray:
        """The last instruction that reads each group, -1 for none."""
        return self._read[1]

    @_Once
    def _readers(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in ``operands``, sorted by group, and where those of each group begin."""
        start = np.append(0, np.cumsum(self.reads))
        if len(self.out) > SHORT:
            return column_scans.readers(self.operands, start), start
        groups = self.operands.reshape(-1)
        return stable_order(groups)[np.count_nonzero(groups == NO_GROUP) :], start

    def _times(self, groups: np.ndarray) -> np.ndarray:
        found = np.bincount(groups, minlength=self.count).astype(np.int32)
        found[NO_GROUP] = 0
        return found

    def _last(self, groups: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        # They have 32 bits, because a long trace takes most of its memory here.
        last = np.full(self.count, NONE, np.int32)
        last[groups] = numbers  # NumPy keeps the last of several assignments.
        last[NO_GROUP] = NONE
        return last

    def readers(self, group: int) -> np.ndarray:
        """Return the instructions that read a group, in order, with repetitions."""
        order, start = self._readers
        return order[start[group] : start[group + 1]] // READ

    def values(self, group: int) -> list[int]:
        """Return the values by which instructions name a group."""
        order, start = self._readers
        places = order[start[group] : start[group + 1]]
        read = value_numbers(self.code)[places // READ, 1 + places % READ]  # the first column is the result
        once = self.writes[group] == 1
        writers = self.last_write[group : group + 1] if once else flatnonzero(self.out == group)
        return sorted({*read.tolist(), *self.code["out"][writers].tolist()})

    def read_by(self, instructions: np.ndarray) -> np.ndarray:
        """Return which groups some instructions read."""
        return self.flags(self.operands[instructions])

    def flags(self, groups: np.ndarray) -> np.ndarray:
        """Return for each group whether it is among some."""
        found = np.zeros(self.count, bool)
        found[groups] = True
        found[NO_GROUP] = False
        return found

    def settled(self, groups: np.ndarray, instructions: np.ndarray) -> np.ndarray:
        """Return whether nothing writes to each group from the instruction beside it on."""
        return self.last_write[groups] < instructions


class Fields:
    """The fields of instructions as columns, each copied when it is first read.

    Instructions are rows of 36 bytes. To read one field of a long tape's instructions means to read all of
    its bytes, which takes NumPy ten to forty times as long as a field whose numbers lie side by side, and
    passes ask for the same few fields again and again.

    Parameters
    ----------
    ops
        The op table.
    code
        Instructions as columns, which nobody changes any more.
    """

    op: np.ndarray
    active: np.ndarray
    stage: np.ndarray
    out: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    aux: np.ndarray
    times: np.ndarray  # how often each op occurs

    def __init__(self, ops, code: np.ndarray):
        self.ops, self.code = ops, code

    def __getattr__(self, name: str) -> np.ndarray:
        if name == "times":
            count = len(self.ops)
            found = np.bincount(self.op >> 1, minlength=count)[:count]  # guards are no ops
        elif name in self.code.dtype.fields:
            found = np.ascontiguousarray(self.code[name])
        else:
            raise AttributeError(name)
        self.__dict__[name] = found
        return found

    def is_any(self, rows: Iterable[int]) -> np.ndarray:
        """Return which instructions are of some ops, given by row."""
        if len(self.code) > SHORT and not self.times[[*rows]].any():
            return np.zeros(len(self.code), bool)
        return self.ops.is_any(rows, self.op)

    def of(self, rows: Iterable[int]) -> np.ndarray:
        """Return the numbers of the instructions of some ops, given by row."""
        return flatnonzero(self.is_any(rows))
