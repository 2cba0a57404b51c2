"""`Tape`: a traced function as typed arrays. Immutable, symbolic in sizes, shared by threads.

A value on a tape is an address: a storage, an offset into it and a layout (dimensions and strides,
in cells), exactly as a NumPy view is. Storages are named by number; the plan gives them cells.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import MOST_LINES
from ..late import imported
from ..savings import frozen
from ..threads import survives_fork
from .families import (  # noqa: F401  (readers of a tape import these names from here)
    ACTIVE,
    CONSTANT,
    DTYPE_CLASSES,
    F32,
    F64,
    FAMILIES,
    FAMILY_DTYPE,
    LEVELS,
    MOST_DIMENSIONS,
    NARROW,
    POOLS,
    VARYING,
    as_dtype,
    family_of_dtype,
)
from .instruction import GUARD, NONE, Instruction, tape_instructions, thawed
from .rows import Rows, Signature
from .size_tables import SizeTable

VALUE = np.dtype([("storage", "i4"), ("offset", "i4"), ("layout", "i4")])
STORAGE = np.dtype([("size", "i4"), ("family", "u1"), ("level", "u1")])

WIDTH = 8  # entries that kernels take at once


class Layout(NamedTuple):
    """Dimensions and strides of a value, as size codes; strides count cells."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def is_row(self) -> bool:
        """Whether entries follow one another, and are not known to be fewer than kernels take at once."""
        return not self.dims or (self.strides[-1] == 1 and not 0 <= self.dims[-1] < WIDTH)


class InputSlot(NamedTuple):
    """An argument leaf: the value it fills, its dimensions, whether it takes a gradient."""

    value: int
    dims: tuple[int, ...]
    level: int
    family: int


class Guard(NamedTuple):
    """A traced value that steered Python, and what it was.

    ``kind`` is "bool" or "int"; ``outcome`` what Python saw; ``position`` indexes `Tape.lines`. A guard of
    kind "count" compares a size that data decide: ``counts`` says which one of these sizes. The guard's place
    among the guards cannot say it, because that changes when a body is cut out of a tape and appended again.
    """

    kind: str
    outcome: int
    position: int
    counts: int = NONE


class Literal(NamedTuple):
    """Numbers that the trace met as plain constants: contents for a stretch of a storage."""

    storage: int
    offset: int
    data: np.ndarray


class Rewrite(NamedTuple):
    """What a pass did when a tape was recorded.

    Attributes
    ----------
    name
        The pass.
    before, after
        How many instructions there were.
    seconds
        How long it took. The first use in a process includes the import of its file.
    ops
        (name, difference) for each op of which there are more or fewer instructions afterwards.
    """

    name: str
    before: int
    after: int
    seconds: float
    ops: tuple[tuple[str, int], ...]


def shown_name(file: str) -> str:
    """Return a source file as messages name it: a cell of a notebook as IPython does, ``Cell In[3]``."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)
    return " ".join(name_of(file) or [file])


@frozen()
class Line:
    """A source position of the user's code."""

    file: str
    number: int
    function: str

    def __str__(self):
        return f"{shown_name(self.file)}:{self.number} in {self.function}"

    @property
    def short(self) -> str:
        """The file without its folders, and the number."""
        return f"{shown_name(self.file).rsplit('/', 1)[-1]}:{self.number}"


@frozen(eq=False)
class Tape:
    """A traced function.

    Attributes
    ----------
    code
        Structured array of `INSTRUCTION`, the prologue (what depends on constants alone) first.
    prologue
        Number of prologue instructions.
    values, layouts, storages
        What operands refer to.
    literals, inputs, outputs
        Where numbers come from and where results are.
    guards
        One entry per guard instruction, in the order in which they were traced.
    positions, lines
        Source position of each instruction: an index into ``lines``, or -1.
    sizes
        Size expressions and the relations between sizes that the trace relied on.
    ops
        The op table.
    uniform
        On a tape with lanes: the number of instructions at the beginning that do not depend on the lanes.
    forward
        Whether it is never swept back, so that the cells of values that are no longer read are reused.
    calls
        Rules written by the user, by the number that is an operand of ``call`` instructions; what the
        engine asks of them is in `numbatape.engine.calls`.
    rewrites
        The passes that ran when it was recorded, in their order. They do not count in `digest`.
    """

    code: np.ndarray
    prologue: int
    values: np.ndarray
    layouts: tuple[Layout, ...]
    storages: np.ndarray
    literals: tuple[Literal, ...]
    inputs: tuple[InputSlot, ...]
    outputs: tuple[int, ...]
    guards: tuple[Guard, ...]
    positions: np.ndarray
    lines: tuple[Line, ...]
    sizes: SizeTable
    ops: Rows
    uniform: int = 0
    forward: bool = False
    calls: tuple = ()
    rewrites: tuple[Rewrite, ...] = ()

    def layout_of(self, value: int) -> Layout:
        """Return a value's dimensions and strides as size codes."""
        return self.layouts[self.values["layout"][value]]

    def __len__(self) -> int:
        return len(self.code)

    def instructions(self) -> list[Instruction]:
        """Return all instructions, to be read one at a time."""
        return tape_instructions(self.code, self.positions)

    def columns(self) -> np.ndarray:
        """Return all instructions as a builder has them, see `numbatape.tape.instruction.columns`."""
        return thawed(self.code, self.positions)

    def listing(self) -> str:
        """Return the tape as text, one line per instruction."""
        return imported(".listing", __package__).listing(self)

    def __str__(self) -> str:
        """Return the listing; of a long one its head and its end."""
        lines = self.listing().splitlines()
        if len(lines) > MOST_LINES:  # so many stay: those of the end are four, and one says what is left out
            left_out = len(lines) - MOST_LINES + 1
            lines[MOST_LINES - 5 : -4] = [f"   ...  {left_out} lines more: tape.listing()"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return imported(".listing", __package__).html(self)

    def __copy__(self):
        return self  # a copy may be the tape itself, because nothing changes a tape

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a tape cannot be pickled: pickle the cache, which traces its function again")

    def __repr__(self) -> str:
        return f"<Tape {self.digest[:12]}: {len(self)} instructions, {len(self.guards)} guards>"

    @property
    def nbytes(self) -> int:
        """Bytes of instructions and value table."""
        return self.code.nbytes + self.values.nbytes

    @cached_property
    def layout_tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start and rank of each layout, all dims, all strides, as kernels read them (size codes)."""
        dims: list[int] = []
        strides: list[int] = []
        index = []
        for layout in self.layouts:
            index.append((len(dims), len(layout.dims)))
            dims += layout.dims
            strides += layout.strides
        return (
            np.array(index, np.int32).reshape(-1, 2),
            np.array(dims or [0], np.int32),
            np.array(strides or [0], np.int32),
        )

    @cached_property
    def read_once(self) -> np.ndarray:
        """For each instruction: whether its result is an active number that is one operand of one other.

        Only numbers of the pool count, each of which is written separately. An output is read by others.
        """
        storage, offset = self.values["storage"], self.values["offset"]
        # There are no more cells than values. They count from 1: 0 is for what is elsewhere, or is missing.
        known = (storage == POOLS.index((ACTIVE, F64))) & (offset >= 0) & (offset < len(offset))
        cell = np.append(np.where(known, offset, -1) + 1, 0)
        operands = np.concatenate([self.code["a"], self.code["b"], self.code["c"]])
        reads = np.bincount(cell[operands], minlength=int(cell.max()) + 1)
        reads[cell[[*self.outputs]]] += 2
        reads[0] = 0
        return (reads[cell[self.code["out"]]] == 1).astype(np.int32)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides what the tape computes.

        Ops are named by their signatures, not by their numbers, and guards by what Python saw; in which lines
        of the user's code they stand does not count.
        """
        content = hashlib.sha256()
        for array in (self.code, self.values, self.storages):
            content.update(array.tobytes())
        for literal in self.literals:
            content.update(repr((literal.storage, literal.offset, literal.data.dtype.str)).encode())
            content.update(literal.data.tobytes())
        guards = [(guard.kind, guard.outcome, guard.counts) for guard in self.guards]
        relations = [(guard.left, guard.relation, guard.right) for guard in self.sizes.guards]
        fixed = (
            (self.prologue, self.uniform, self.forward),
            (self.layouts, self.inputs, self.outputs, [call.fingerprint() for call in self.calls]),
            (self.sizes.rows, relations, guards),
            self.signatures(),
        )
        content.update(repr(fixed).encode())
        return content.hexdigest()

    def signatures(self) -> dict[int, Signature]:
        """Return what identifies the ops of the tape, by the row that instructions name them by."""
        used = set((self.code["op"][self.code["op"] != GUARD] >> 1).tolist())
        return {row: self.ops.signature(row) for row in sorted(used)}

    @cached_property
    def calls_rules(self) -> bool:
        """Whether it calls a rule of the user's, itself or in a body."""
        return any(
            any(body.calls_rules for body in call.bodies) if hasattr(call, "bodies") else True
            for call in self.calls
        )

    def line_of(self, instruction: int) -> Line | None:
        """Return the user's source line behind an instruction."""
        position = int(self.positions[instruction])
        return self.lines[position] if position >= 0 else None

    def name_of(self, instruction: int) -> str:
        """Return the op name of an instruction, with a suffix for float32."""
        op = int(self.code["op"][instruction])
        if op == GUARD:
            return "guard"
        return self.ops.names[op >> 1] + (".f32" if op & 1 else "")


for _name in ("layout_tables", "read_once", "digest", "calls_rules"):
    if hasattr(vars(Tape)[_name], "lock"):  # cached properties have a lock in Python 3.11 only
        survives_fork(vars(Tape)[_name].lock)


# ---- views: what they cover, and how they walk through their storage


def covers(builder, layout: Layout, size: int) -> bool:
    """Whether a view from a storage's first cell on has every cell once, for all sizes that guards allow.

    Parameters
    ----------
    size
        The storage's size code.
    """
    dims = tuple(map(builder.sizes.settled, layout.dims))
    return memory_order(builder, Layout(dims, layout.strides), size) is not None


def memory_order(builder, layout: Layout, size: int) -> list[int] | None:
    """Return the axes of a view, but those of one entry, in the order in which they walk through the storage.

    The view begins at the storage's first cell. None says that it does not have every cell once.

    Parameters
    ----------
    size
        The storage's size code.
    """
    (dims, strides), sizes = layout, builder.sizes
    axes = sorted((k for k in range(len(dims)) if dims[k] != 1), key=lambda k: -sizes.value(strides[k]))
    expected, cells = builder.contiguous_strides([dims[k] for k in axes])
    fit = sizes.agree(cells, size) and sizes.all_agree([strides[k] for k in axes], expected)
    return axes if fit else None


def axes_of(layout: Layout, whole: Layout) -> list[int | None] | None:
    """Return which axis of a view that covers the storage each axis of another view walks along.

    Both begin at the storage's first cell. None in the list stands for an axis that walks nowhere (one entry,
    or a broadcast); None for the list says that the view walks otherwise: along a part, or along several axes
    at once.
    """
    pairs = enumerate(zip(whole.dims, whole.strides, strict=True))
    walked = {(dim, stride): k for k, (dim, stride) in pairs if dim != 1}
    axes: list[int | None] = []
    for pair in zip(layout.dims, layout.strides, strict=True):
        if pair[0] == 1 or pair[1] == 0:
            axes.append(None)
        elif pair in walked:
            axes.append(walked[pair])
        else:
            return None
    return axes


def steady_along(layout: Layout, place: int) -> bool:
    """Whether a value does not change along an axis, counted from the last one, which is 1."""
    return place > len(layout.dims) or layout.dims[-place] == 1 or layout.strides[-place] == 0
