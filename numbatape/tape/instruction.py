"""Instructions: the fields of one, and two ways to read many of them.

While a tape is built, its instructions are a `Code` (`numbatape.tape.code`), a sequence of tuples. Such a
tuple holds the fields of `Instruction` in their order, on which code that appends instructions relies, and
the kernels of `numbatape.tape.column_scan_kernels`. All other code reads instructions in one of two ways:

- one instruction at a time, with names and with `Instruction.replace`: `instructions`;
- all of them at once, a NumPy array for each field: `Code.columns`. A frozen tape's ``code`` has the same
  fields (all but the line, which is in `Tape.positions`), so that analyses work on either form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from heapq import heapify, heappop
from itertools import chain
from typing import NamedTuple

import numpy as np

GUARD = 0xFFFF  # stands in the field ``op`` of an instruction that compares and computes nothing
NONE = -1
PROLOGUE, MAIN = 0, 1

INSTRUCTION = np.dtype(
    [
        ("op", "u2"),  # an opcode (see `opcode`), or GUARD
        ("active", "u1"),  # bit k: operand k takes an adjoint
        ("stage", "u1"),  # PROLOGUE or MAIN
        ("out", "i4"),  # value numbers
        ("a", "i4"),
        ("b", "i4"),
        ("c", "i4"),
        ("aux", "i4"),  # scratch value of an array op, number of a guard
    ]
)


class Instruction(NamedTuple):
    """One instruction. Operands and results are value numbers.

    Attributes
    ----------
    op
        The row of the op table and the family, see `opcode`; or GUARD.
    active
        Bit k says that operand k takes an adjoint.
    stage
        PROLOGUE or MAIN.
    out
        The result.
    a, b, c
        The operands, NONE where there is none.
    aux
        The scratch that an array op writes; the number of a guard.
    line
        The position in the user's source, an index into the tape's lines.
    """

    op: int
    active: int
    stage: int
    out: int
    a: int = NONE
    b: int = NONE
    c: int = NONE
    aux: int = NONE
    line: int = NONE

    @property
    def is_guard(self) -> bool:
        return self.op == GUARD

    @property
    def row(self) -> int:
        """The row of the op table; of no meaning for a guard."""
        return self.op >> 1

    @property
    def family(self) -> int:
        return self.op & 1

    @property
    def operands(self) -> tuple[int, ...]:
        """The operands that there are."""
        _, _, _, _, a, b, c, _, _ = self
        if a != NONE and c == NONE:
            return (a,) if b == NONE else (a, b)
        return tuple(value for value in (a, b, c) if value != NONE)

    @property
    def results(self) -> tuple[int, ...]:
        """What is written: the result, and the scratch that an array op keeps beside it."""
        if self.op == GUARD:
            return ()
        return (self.out,) if self.aux == NONE else (self.out, self.aux)

    def takes(self, k: int) -> bool:
        """Whether operand ``k`` takes an adjoint."""
        return bool(self.active >> k & 1)

    def replace(self, **fields) -> Instruction:
        """Return the instruction with other values in some fields."""
        return self._replace(**fields)


COLUMNS = np.dtype([(name, "i4") for name in Instruction._fields])

# Where the value numbers begin among the 32-bit words of an instruction, in either form.
_FIRST_WORD = {dtype: dtype.fields["out"][1] // 4 for dtype in (COLUMNS, INSTRUCTION)}  # type: ignore[index]

# Makes an `Instruction` of a tuple without copying fields, in a third of the time that calling the class
# takes.
instruction = partial(tuple.__new__, Instruction)


def opcode(row: int, family: int) -> int:
    """Return the number by which instructions name a row of the op table for one family of cells."""
    return 2 * row + family


def swapped(active):
    """Return the bits of active operands of commuting instructions whose ``a`` and ``b`` changed places."""
    return active >> 1 | (active & 1) << 1


def instructions(rows: Iterable[tuple]) -> list[Instruction]:
    """Return a builder's tuples as instructions."""
    return list(map(instruction, rows))


def columns(rows: Sequence[tuple]) -> np.ndarray:
    """Return instructions as one array, whose fields are those of `Instruction`."""
    return _flat(rows, len(Instruction._fields)).view(COLUMNS)


def rows_as_columns(rows: Sequence[tuple], width: int) -> np.ndarray:
    """Return tuples of integers as one array for each place in them."""
    return _flat(rows, width).reshape(-1, width).T.copy()


def _flat(rows: Sequence[tuple], width: int) -> np.ndarray:
    return np.fromiter(chain.from_iterable(rows), np.int32, width * len(rows))


def value_numbers(code: np.ndarray) -> np.ndarray:
    """Return result, operands and scratch of all instructions as rows of five, which share memory with them.

    In a guard's row, the number of the guard stands in the place of the scratch.
    """
    words = np.ascontiguousarray(code).view(np.int32).reshape(len(code), code.dtype.itemsize // 4)
    first = _FIRST_WORD[code.dtype]
    return words[:, first : first + 5]


def lists(code: np.ndarray, *names: str) -> list[list[int]]:
    """Return fields of an array of instructions as lists, whose entries are read ten times as fast."""
    return [code[name].tolist() for name in names]


def tape_instructions(code: np.ndarray, positions: np.ndarray) -> list[Instruction]:
    """Return the instructions of a frozen tape."""
    fields = lists(code, *INSTRUCTION.names)
    return list(map(Instruction._make, zip(*fields, positions.tolist(), strict=True)))


def thawed(code: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the instructions of a frozen tape as `columns`."""
    found = np.empty(len(code), COLUMNS)
    for name in INSTRUCTION.names:
        found[name] = code[name]
    found["line"] = positions
    return found


def frozen(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `Code.columns` as a frozen tape has them: the instructions, and the position of each.

    The prologue comes first; within it, and behind it, the order stays.
    """
    first = code["stage"] == PROLOGUE
    if np.count_nonzero(first):
        code = chosen(code, np.concatenate((*first.nonzero(), *(~first).nonzero())))
    found = np.empty(len(code), INSTRUCTION)
    for name in INSTRUCTION.names[: INSTRUCTION.names.index("out")]:
        found[name] = code[name]
    value_numbers(found)[...] = value_numbers(code)
    return found, code["line"].copy()


# NumPy copies arrays of structured dtypes field by field, after it has compared the fields of both. It takes
# twenty to sixty times as long as a copy of the same bytes. So the functions below treat instructions, values
# and storages as bytes, as NumPy's `take` and `compress` do.


@cache
def _as_bytes(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"V{dtype.itemsize}")


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays of one structured dtype as one array."""
    dtype = parts[0].dtype
    return np.concatenate([part.view(_as_bytes(dtype)) for part in parts]).view(dtype)


def chosen(rows: np.ndarray, which) -> np.ndarray:
    """Return some items of an array of a structured dtype: by their numbers, a flag for each, or a slice."""
    if which.__class__ is slice:
        dtype = rows.dtype
        return np.ascontiguousarray(rows.view(_as_bytes(dtype))[which]).view(dtype)
    return rows.compress(which) if which.dtype == bool else rows.take(which)


def copied(rows: np.ndarray) -> np.ndarray:
    """Return a copy of an array of a structured dtype."""
    dtype = rows.dtype
    return rows.view(_as_bytes(dtype)).copy().view(dtype)


def replace_items(rows: np.ndarray, numbers: np.ndarray | slice, new: np.ndarray) -> None:
    """Let items of an array of a structured dtype be those of another one."""
    items = _as_bytes(rows.dtype)
    rows.view(items)[numbers] = new.view(items)


def without(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return an array of a structured dtype without the items of some numbers."""
    kept = np.ones(len(rows), bool)
    kept[numbers] = False
    return chosen(rows, kept)


def rewritten(code: np.ndarray, changes: Mapping[int, Sequence[tuple]]) -> np.ndarray:
    """Return instructions as columns with some of them replaced, each by any number of others.

    Parameters
    ----------
    changes
        For the number of an instruction, what replaces it. An empty sequence drops it; a sequence that
        contains it inserts the others before or after it.
    """
    if not changes:
        return code
    numbers = np.array(sorted(changes))
    parts = [changes[k] for k in numbers.tolist()]
    lengths = np.array([len(part) for part in parts])
    times = np.ones(len(code), int)
    times[numbers] = lengths
    found = chosen(code, np.repeat(np.arange(len(code)), times))
    # The first place of each change, and then those behind it.
    places = np.repeat((np.cumsum(times) - times)[numbers] - (np.cumsum(lengths) - lengths), lengths)
    replace_items(found, places + np.arange(len(places)), columns(list(chain.from_iterable(parts))))
    return found


def first_to_last(queue: list[int]) -> Iterator[int]:
    """Yield the numbers of instructions from the least on, each once.

    ``queue`` becomes a heap, to which later ones may be pushed (`heapq.heappush`) meanwhile.
    """
    heapify(queue)
    done = NONE
    while queue:
        k = heappop(queue)
        if k != done:
            done = k
            yield k
