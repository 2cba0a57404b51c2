"""`Plan`: a tape for given sizes, resolved to cells and verified before anything runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import VerificationError
from ..jit import address
from ..savings import frozen
from ..tape import Tape
from ..tape.combinations import flatnonzero
from . import plan_tables as names
from .codegen import FIRST_KERNEL
from .formula_text import tables_for_arms
from .placement import SMALL, Placement, evaluated, place_storages, storage_table
from .segments import Cuts, find_cuts
from .vectors import FIRST_VECTOR
from .verifier import check_tape, failure, op_info
from .verify_plan import kernel, verify

if TYPE_CHECKING:
    from .strips.strip_tables import Strips

LIMIT = names.LIMIT
# The longest head of a record is that of an array op: it has CORE_HEAD words, and for each of four operands
# at most MOST_LETTERS sizes and strides.
MOST_HEAD = names.CORE_HEAD + 2 * 4 * names.MOST_LETTERS

# Instructions and cells of a sweep that takes 20 µs at most, 100 if all are special functions.
BRIEF_CODE, BRIEF_CELLS = 512, 2048


@frozen(eq=False)
class Plan:
    """A tape at given sizes.

    Attributes
    ----------
    tape, dimensions
        What was planned, for which input dimensions.
    code, aux
        Instructions (six 32-bit words each) and their records.
    bases
        First cell of each storage, within its family's cells.
    cells
        Number of cells by family.
    active
        ``(first, number)`` of the cells that have adjoints, by family.
    kernels
        Kernel numbers (2 * row + family) that the plan calls by pointer.
    cuts
        Where long sweeps are cut, so that Python can look for signals; None for short ones.
    values
        "fast" or "numpy": whose bits elementwise results have, as in `Config`.
    strips
        The blocks of instructions that run strip by strip; None where there are none.
    """

    tape: Tape
    dimensions: tuple[int, ...]
    code: np.ndarray
    aux: np.ndarray
    bases: np.ndarray
    cells: tuple[int, int]
    active: tuple[tuple[int, int], tuple[int, int]]
    sizes: np.ndarray
    kernels: tuple[int, ...]
    values: str = "fast"
    cuts: Cuts | None = None
    strips: Strips | None = None

    @property
    def prologue(self) -> int:
        return self.tape.prologue

    @property
    def nbytes(self) -> int:
        return self.code.nbytes + self.aux.nbytes

    def size(self, code: int) -> int:
        """Return a size code's value."""
        return int(code if code >= 0 else self.sizes[-code - 1])

    def cell(self, value: int) -> tuple[int, int]:
        """Return (family, first cell) of a value."""
        storage, offset, _ = self.tape.values[value].item()
        family = int(self.tape.storages["family"][storage])
        return family, int(self.bases[storage]) + self.size(offset)

    def shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(map(self.size, self.tape.layout_of(value).dims))

    def strides(self, value: int) -> tuple[int, ...]:
        """Return the strides of a value, in cells."""
        return tuple(map(self.size, self.tape.layout_of(value).strides))

    def is_dense(self, value: int) -> bool:
        """Whether a value's cells follow one another in order."""
        size = 1
        for n, stride in zip(reversed(self.shape(value)), reversed(self.strides(value)), strict=True):
            if n > 1 and stride != size:
                return False
            size *= n
        return True

    def require_reverse(self) -> None:
        """Raise if a reverse sweep would find cells that hold the values of other instructions.

        Raises
        ------
        VerificationError
            On a tape that is only swept forward. This is an internal check: no call of a user leads here.
        """
        if self.tape.forward:
            raise VerificationError(
                "this tape is swept forward alone: cells served again, so there is no way back through it "
                "(a fault of numbatape itself: please report it)"
            )

    def write_literals(self, v) -> None:
        """Write the tape's literals into value cells, given by family."""
        for literal in self.tape.literals:
            family = int(self.tape.storages["family"][literal.storage])
            first = int(self.bases[literal.storage]) + literal.offset
            v[family][first : first + literal.data.size] = literal.data

    @property
    def is_brief(self) -> bool:
        """Whether a sweep takes so few microseconds that releasing the interpreter's lock does not pay.

        Releasing it and taking it back costs 40 ns of some 500 of a whole call. A sweep that calls rules
        releases it: a rule may wait for another thread.
        """
        return len(self.code) <= BRIEF_CODE and sum(self.cells) <= BRIEF_CELLS and not self.tape.calls

    def counts(self) -> dict[str, int]:
        """Return the words of a frame that are numbers, not addresses."""
        (first64, cells64), (first32, cells32) = self.active
        return {
            "COUNT": len(self.code),
            "SPLIT": self.prologue,
            "UNIFORM": self.tape.uniform,
            "FIRST64": first64,
            "CELLS64": cells64,
            "FIRST32": first32,
            "CELLS32": cells32,
        }


def make_plan(
    tape: Tape, dimensions: tuple[int, ...], values: str = "fast", placed: Placement | None = None
) -> Plan:
    """Derive the plan of a tape for given input dimensions, and verify it.

    Parameters
    ----------
    values
        As in `Plan`.
    placed
        Where its storages are at these sizes, if that is known already.

    Raises
    ------
    VerificationError
        If the tape or the plan is not safe to run; names the instruction and the reason.
    """
    check_tape(tape)
    sizes = _evaluate(tape, dimensions)
    bases, cells, active = place_storages(tape, sizes, least=SMALL) if placed is None else placed
    if max(cells) > LIMIT:
        raise VerificationError(f"a workspace of {max(cells)} cells: more than 32-bit offsets can address")
    storages = storage_table(tape, sizes, bases)
    code, aux = derive(tape, sizes, storages, op_info(values))
    called = flatnonzero(np.bincount(code[:, 0] & 0xFFFF))  # np.unique imports numpy.ma: 20 ms
    kernels = called[(called >= FIRST_KERNEL) & (called < FIRST_VECTOR)] - FIRST_KERNEL
    for array in (code, aux, bases, sizes):
        array.flags.writeable = False
    called = tuple(kernels.tolist())
    plan = Plan(tape, tuple(dimensions), code, aux, bases, cells, active, sizes, called, values)
    verify(plan, storages)
    cuts = find_cuts(tape, lambda codes: evaluated(codes, sizes), code, aux)
    return plan if cuts is None else replace(plan, cuts=cuts)


def _evaluate(tape: Tape, dimensions) -> np.ndarray:
    """Return the values of the size expressions; raise where a value's extent makes no sense."""
    try:
        sizes = np.array(tape.sizes.evaluate(dimensions), np.int64)
    except (LookupError, ArithmeticError) as error:
        raise VerificationError(f"the tape's sizes cannot be evaluated for {dimensions}: {error}") from error

    index, dims, strides = tape.layout_tables
    used = np.zeros(len(index) + 1, bool)
    # Only layouts in use are checked, because those of dead code may hold anything.
    used[tape.values["layout"]] = True
    used = used[:-1].repeat(index[:, 1])
    extents, strides = dims[: len(used)][used], strides[: len(used)][used]
    codes = np.concatenate((extents, tape.storages["size"], strides, tape.values["offset"]))
    found = evaluated(codes, sizes)
    if max(found.max(initial=0), -found.min(initial=0)) > LIMIT:
        raise VerificationError("a dimension, stride or offset: more cells than 32-bit offsets can address")
    if found[: len(extents) + len(tape.storages)].min(initial=0) < 0:
        raise VerificationError(f"a dimension is negative for inputs of sizes {dimensions}")
    return sizes


def derive(tape: Tape, sizes, storages, info) -> tuple[np.ndarray, np.ndarray]:
    """Return the engine's instructions and their records."""
    layouts, dims, strides = tape.layout_tables
    code = np.zeros((len(tape), names.CODE_WORDS), np.int32)
    ranks = layouts[:, 1][tape.values["layout"][tape.code["out"]]] if len(tape) else np.zeros(0, int)
    aux = np.zeros(int((MOST_HEAD + names.LEVEL * (ranks + 1)).sum()) + 64, np.int32)
    rows = np.ascontiguousarray(tape.code).view(np.int32)
    values = np.ascontiguousarray(tape.values).view(np.int32)
    words = {
        names.TAPE: rows,
        names.VALUES: values,
        names.LAYOUTS: layouts,
        names.LAYOUT_DIMS: dims,
        names.LAYOUT_STRIDES: strides,
        names.SIZE_VALUES: sizes,
        names.STORAGES: storages,
        names.OP_INFO: info,
        names.ENGINE_CODE: code,
        names.ENGINE_AUX: aux,
    }
    tables, numbers = tables_for_arms(tape)
    words |= tables
    w = np.zeros(32, np.int64)
    for word, array in words.items():
        w[word] = address(array)
    w[names.ROWS], w[names.OP_COUNT], w[names.SPLIT_AT] = len(tape), FIRST_KERNEL, tape.prologue
    for word, number in numbers.items():
        w[word] = number
    derive = kernel("derive")
    reason = derive(address(w), 0)
    if reason:
        raise failure(tape, int(w[names.BAD]), reason)
    kernel("arms")(address(w), 0)
    return code, aux[: max(1, int(w[names.AUX_USED]))].copy()
