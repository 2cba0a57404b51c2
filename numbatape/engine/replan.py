"""`Replanner`: plans of one tape for further sizes, by one call of a kernel."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from ..ops import ROWS
from ..tape import Tape
from ..tape.instruction import GUARD
from ..threads import survives_fork
from . import plan_tables as names
from . import replan_kernels as more
from . import segments
from .codegen import FIRST_KERNEL
from .extents_proof import ends_stay_inside, extents_hold_for_all_sizes
from .formula_text import tables_for_arms
from .placement import lenders_at_all_sizes
from .plan import Plan, make_plan
from .segments import Cuts, cuts_of_work, weights
from .verifier import op_info
from .verify_plan import address_of, kernel, verify_extents

RELATIONS = {"==": more.EQUAL, ">=": more.AT_LEAST, "!=": more.UNEQUAL}
OUTCOMES = 6  # kinds of storages: three levels of two families


class Replanner:
    """Plans of a tape, for sizes other than those of a first plan.

    A plan for further sizes is like that of `make_plan`: the same kernel derives it and the same one
    verifies it. What makes it fast is that the tables which these kernels read are made once. On a tape that
    is swept forward alone, storages whose sizes are the same expression take each other's cells.

    Parameters
    ----------
    first
        A plan of the tape, whose tape has been checked.

    Attributes
    ----------
    code, aux, sizes, storages, ends, kernels
        The last plan that was made: instructions, records, values of the size expressions; first cell and end
        of each storage; where the cells of each kind (constant, varying, active; of both families) end;
        numbers of the kernels that plans have called so far.
    address
        Of what the kernels read.
    given
        Where the dimensions are written that the kernel plans for.
    mover
        The addresses of the kernel that plans for them, and of what it reads.
    """

    def __init__(self, first: Plan):
        tape = first.tape
        self.tape, self.values = tape, first.values
        self.kernels = first.kernels
        self._known = np.zeros(FIRST_KERNEL, np.int32)
        self._known[list(first.kernels)] = 1
        layouts = tape.layout_tables[0]
        ranks = layouts[:, 1][tape.values["layout"][tape.code["out"]]] if len(tape) else np.zeros(0, int)
        self.sizes = np.zeros(len(tape.sizes.rows), np.int64)
        self.storages = np.zeros((len(tape.storages), names.STORAGE_WORDS), np.int64)
        self.storages[:, names.FAMILY] = tape.storages["family"]
        self.storages[:, names.LEVEL_OF] = tape.storages["level"]
        self.code = np.zeros((len(tape), names.CODE_WORDS), np.int32)
        self.aux = np.zeros(int((24 + 5 * (ranks + 1)).sum()) + 64, np.int32)
        self.ends = np.zeros(OUTCOMES, np.int64)
        self._works = np.zeros(max(1, len(tape)), np.int64)
        self._rank = len(first.dimensions)
        # The dimensions of a body are those of its loop.
        self._dimensions = np.zeros(max(1, self._rank), np.int64)
        alike = _alike(tape)
        tables, numbers = self._words_of(alike)
        self.proved = extents_hold_for_all_sizes(tape, alike)
        self._words = np.zeros(more.WORDS, np.int64)
        for word, array in tables.items():
            self._words[word] = array.ctypes.data
        for word, number in numbers.items():
            self._words[word] = number
        self._tables = tables  # kept alive, because the kernel reads them by address
        self.address = self._words.ctypes.data
        # A memoryview reads and writes single numbers in half of the time that an array takes.
        self._outcome, self.given = memoryview(self._words), memoryview(self._dimensions)
        self._replan = kernel("replan")
        self._lock = survives_fork(threading.Lock())  # plans are shared by clones in other threads

    def _words_of(self, alike) -> tuple[dict[int, np.ndarray], dict[int, int]]:
        """Return what the kernel reads: tables, by the words that get their addresses, and numbers."""
        tape = self.tape
        layouts, dims, strides = tape.layout_tables
        bounded, positive = _bounded(tape)
        tables_of_arms, numbers_of_arms = tables_for_arms(tape)
        guards = [(g.left, RELATIONS[g.relation], g.right) for g in tape.sizes.guards]
        kinds = 3 * tape.storages["family"].astype(np.int32) + tape.storages["level"]
        stored = [tape.storages["size"], kinds, lenders_at_all_sizes(tape, alike)]
        tables = {
            names.TAPE: np.ascontiguousarray(tape.code).view(np.int32),
            names.VALUES: np.ascontiguousarray(tape.values).view(np.int32),
            names.LAYOUTS: layouts,
            names.LAYOUT_DIMS: dims,
            names.LAYOUT_STRIDES: strides,
            names.SIZE_VALUES: self.sizes,
            names.STORAGES: self.storages,
            names.OP_INFO: op_info(self.values),
            names.ENGINE_CODE: self.code,
            names.ENGINE_AUX: self.aux,
            more.SIZE_ROWS: _table(tape.sizes.rows),
            more.SIZE_GUARDS: _table(guards),
            more.DIMENSIONS: self._dimensions,
            more.BOUNDED: bounded,
            more.STORED: np.ascontiguousarray(np.stack(stored, 1).astype(np.int32)),
            more.CELLS: self.ends,
            **tables_of_arms,
            more.KNOWN_KERNELS: self._known,
            more.WEIGHTS: _weights(tape),
            more.WORKS: self._works,
        }
        numbers = {
            names.ROWS: len(tape),
            names.OP_COUNT: FIRST_KERNEL,
            names.SPLIT_AT: tape.prologue,
            more.SIZE_COUNT: len(tape.sizes.rows),
            more.GUARD_COUNT: len(guards),
            more.BOUNDED_COUNT: len(bounded),
            more.POSITIVE_COUNT: positive,
            more.STORED_COUNT: len(tape.storages),
            more.CHOOSE_ARMS: address_of("arms"),
            **numbers_of_arms,
            more.DERIVE: address_of("derive"),
            more.VERIFY: address_of("verify"),
        }
        return tables, numbers

    @classmethod
    def of(cls, plan: Plan) -> Replanner | None:
        """Return what plans further sizes of a plan's tape; None where only `make_plan` does."""
        return cls(plan) if cls.serves(plan.tape) else None

    @staticmethod
    def serves(tape: Tape) -> bool:
        """Whether further sizes of a tape can be planned without `make_plan`."""
        return ends_stay_inside(tape, _alike(tape))

    def plan(self, dimensions: tuple[int, ...]) -> Plan | None:
        """Return the plan for given dimensions of the inputs, None where the tape relied on others.

        Raises
        ------
        VerificationError
            If the plan is not safe to run.
        """
        with self._lock:
            outcome = self.move(dimensions)
            if outcome == more.OK:
                return self._copied(dimensions)
        if outcome == more.OTHER_SIZES:
            return None
        sizes = self.tape.sizes
        try:
            broken = sizes.broken_guard(sizes.evaluate(dimensions)) is not None
        except ZeroDivisionError:
            broken = True
        return None if broken else make_plan(self.tape, dimensions, self.values)

    def move(self, dimensions) -> int:
        """Plan for other dimensions, in the tables of this object; return `OK` (0), or the reason why not.

        The caller must see to it that no other thread uses this object while it reads the tables.
        """
        given = self.given
        for k, n in enumerate(dimensions):
            given[k] = n
        outcome = self._replan(self.address, 0)
        if outcome:
            return outcome
        if self._outcome[more.NEW_KERNELS]:
            self.note_kernels()
        return more.OK

    def measure(self, dimensions) -> int:
        """Find out how large a plan for other dimensions is, without making it; return as `move` does."""
        given, words = self.given, self._outcome
        for k, n in enumerate(dimensions):
            given[k] = n
        words[more.MEASURES] = 1
        outcome = self._replan(self.address, 0)
        words[more.MEASURES] = 0
        return outcome

    def only_measure(self, other: Replanner | None = None) -> None:
        """Let the kernel only measure from now on, for dimensions that another planner is given (or this)."""
        self._outcome[more.MEASURES] = 1
        if other is not None:
            self._dimensions, self.given = other._dimensions, other.given
            self._outcome[more.DIMENSIONS] = self._dimensions.ctypes.data

    @property
    def mover(self) -> tuple[int, int]:
        return address_of("replan"), self.address

    def cells(self, dimensions) -> int | None:
        """Return how many cells a plan for given dimensions has, None where that is not known without it."""
        with self._lock:
            return None if self.measure(dimensions) else int(self.ends[2] + self.ends[5])

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the last plan."""
        return tuple(self.given[: self._rank])

    def arguments(self) -> np.ndarray:
        """Return a copy of what the kernels get: the addresses of the tables."""
        return self._words.copy()

    @property
    def is_long(self) -> bool:
        """Whether a sweep by the last plan is cut into segments."""
        return self._outcome[more.WORK] > segments.MOST

    def cuts(self) -> Cuts | None:
        """Return where the sweeps of the last plan are cut; None if they are short."""
        return self.cuts_of(self.code, self.aux) if self.is_long else None

    def cuts_of(self, code: np.ndarray, aux: np.ndarray) -> Cuts | None:
        """Return what `cuts` returns, for instructions and records in other arrays."""
        return cuts_of_work(self._works, code, aux)

    @property
    def longest(self) -> int:
        """The cells of the largest storage of the last plan that is not constant."""
        return self._outcome[more.LONGEST]

    @property
    def work(self) -> int:
        """The work of a sweep by the last plan, without the prologue, as `segments` estimates it."""
        return self._outcome[more.SWEEP_WORK]

    def plan_in_tables(self, dimensions: tuple[int, ...]) -> Plan:
        """Return the plan that `move` has written to the tables, which the next one overwrites."""
        (_, first, total), (_, first_single, total_single) = self.ends.reshape(-1, more.LEVELS).tolist()
        return Plan(
            self.tape,
            dimensions,
            self.code,
            self.aux[: max(1, int(self._words[names.AUX_USED]))],
            self.storages[:, 0],
            (total, total_single),
            ((first, total - first), (first_single, total_single - first_single)),
            self.sizes,
            self.kernels,
            self.values,
            self.cuts(),
        )

    def _copied(self, dimensions: tuple[int, ...]) -> Plan:
        """Return a plan with copies of what `move` has written to the tables."""
        plan = self.plan_in_tables(dimensions)
        tables = {name: getattr(plan, name).copy() for name in ("code", "aux", "bases", "sizes")}
        plan = replace(plan, **tables)
        if not self.proved:
            verify_extents(plan)
        return plan

    def note_kernels(self) -> None:
        """Note which kernels the last plan calls."""
        called = (self.code[:, 0] & 0xFFFF) - FIRST_KERNEL
        self._known[called[(called >= 0) & (called < FIRST_KERNEL)]] = 1
        self._outcome[more.NEW_KERNELS] = 0
        self.kernels = tuple(np.flatnonzero(self._known).tolist())


def _table(rows) -> np.ndarray:
    return np.array(list(rows) or [(0, 0, 0)], np.int32)


def _bounded(tape: Tape) -> tuple[np.ndarray, int]:
    """Return the size codes that must be 32-bit numbers; how many, the first ones, must not be negative."""
    index, dims, strides = tape.layout_tables
    used = np.zeros(len(index) + 1, bool)
    # Only layouts in use are checked, because those of dead code may hold anything.
    used[tape.values["layout"]] = True
    used = np.repeat(used[:-1], index[:, 1])
    positive = {*dims[: len(used)][used].tolist(), *tape.storages["size"].tolist()}
    others = {*strides[: len(used)][used].tolist(), *tape.values["offset"].tolist()} - positive
    first, rest = ([code for code in sorted(codes) if code < 0] for codes in (positive, others))
    return np.array([*first, *rest, 0], np.int32)[: len(first) + len(rest) or 1], len(first)


def _weights(tape: Tape) -> np.ndarray:
    """Return for each instruction its work per cell, the kind of the estimate, and which operands count."""
    weight, power, counts = weights()
    code = tape.code
    guards = code["op"] == GUARD
    row = np.where(guards, 0, code["op"] >> 1)
    kind = np.where(power[row] > 1, more.POWER, 0)
    kind[np.isin(row, list(ROWS.with_trait("product")))] = more.PRODUCT
    bits = sum(counts[j, row].astype(np.int32) << j for j in range(4))
    table = np.stack([weight[row], kind, bits], 1)
    table[guards] = 0
    return np.ascontiguousarray(table.astype(np.int32))


def _alike(tape: Tape) -> dict[int, int]:
    """Return a code that stands for each size code which guards say is equal to another one."""
    alike: dict[int, int] = {}

    def found(code: int) -> int:
        while code in alike:
            code = alike[code]
        return code

    for guard in tape.sizes.guards:
        first, last = sorted((found(guard.left), found(guard.right)))
        if guard.relation == "==" and first < last and first < 0:
            alike[first] = last
    return {code: found(code) for code in alike}
