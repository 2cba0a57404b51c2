"""Which instructions two plans have in common before the guard where their traces part.

Where that guard stops the sweep of one plan, the other one may go on behind its own copy of the common
instructions, with the values that the first one has computed. What is here proves that these are the values
that it would have computed itself, to the last bit: each of its instructions before the guard is one of the
other plan's, in the same order, on operands that have the same layout and hold the same. Constants are
compared by their contents, everything else by the instructions that have written it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ..jit import address
from ..tape import Tape
from ..tape.combinations import flatnonzero
from ..tape.instruction import GUARD, NONE
from ..tape.tape import CONSTANT, FAMILY_DTYPE, POOLS
from .frame import ACTIVE_SHIFT, OPERANDS_MASK
from .placement import ALIGNMENT, evaluated, overwritten, read_backwards, storage_sizes
from .segments import work_of
from .workspace import Workspace

# Longer beginnings are not looked at, because to compare an instruction takes some 5 µs.
MOST_INSTRUCTIONS = 2048
# What a cell that is copied takes, as work of instructions (`work_of`), and what a row of copies takes.
COPIED, ROW_OF_COPIES = 2.0, 16.0
# The first bits of an instruction of the plan: what runs, and which operands take an adjoint. Above them are
# those that say which numbers stay in a register.
RUNS = 0xFFFF | OPERANDS_MASK << ACTIVE_SHIFT

Group = tuple[int, int]  # cells that are written separately: a storage and 0, or a pool and a cell of it
Memory = tuple[int, int, int]  # target, source, bytes


@dataclass(frozen=True)
class Beginning:
    """Where one workspace stops, where the other one goes on, and what is copied to it for that.

    Attributes
    ----------
    guard
        The number of the guard where they part.
    stop, meets
        The instructions that are this guard.
    start
        The instruction with which the other one goes on.
    copies
        What is copied before.
    taken, left
        The groups of the first one that are copied, and those of the other one that have their numbers then.
    """

    guard: int
    stop: int
    meets: int
    start: int
    copies: list[Memory]
    taken: frozenset[Group]
    left: frozenset[Group]

    def brings(self, other: Beginning, tape: Tape) -> bool:
        """Whether a call that goes on here may go on once more, as another beginning says.

        That is so if the workspace has all numbers then that are copied to a third one: those that came with
        the call, and those that it has computed itself, all of them.

        Parameters
        ----------
        tape
            That of the workspace in the middle.
        """
        left = other.taken - self.left
        if not left:
            return True
        before, since = (
            {
                group_of(tape, value)
                for op, *values in tape.code[["op", "out", "aux"]][first:last].tolist()
                for value in (() if op == GUARD else values)
                if value != NONE
            }
            for first, last in ((tape.prologue, self.start), (self.start, other.stop))
        )
        return left <= since - before


def _group(storage: int, offset: int) -> Group:
    return (storage, offset) if storage < len(POOLS) else (storage, 0)


def group_of(tape: Tape, value: int) -> Group:
    """Return the group that has the cells of a value."""
    return _group(*tape.values[value].item()[:2])


def kept_groups(tape: Tape) -> set[Group]:
    """Return the groups with cells that keep their numbers from call to call: literals, and other constants.

    An array may have some of them beside others that each sweep writes (`np.append(x, 1.0)`).
    """
    groups = {group_of(tape, slot.value) for slot in tape.inputs if slot.level == CONSTANT}
    for item in tape.literals:
        cells = range(item.offset, item.offset + (item.data.size if item.storage < len(POOLS) else 1))
        groups.update(_group(item.storage, cell) for cell in cells)
    for op, *written in tape.code[["op", "out", "aux"]][: tape.prologue].tolist():
        groups.update(group_of(tape, value) for value in written if op != GUARD and value != NONE)
    return groups


class _Side:
    """One of the workspaces, with its tape as plain numbers."""

    def __init__(self, space: Workspace, guard: int):
        plan = self.plan = space.plan
        tape = self.tape = plan.tape
        self.space, self.first, self.guard = space, plan.prologue, guard
        found = flatnonzero((tape.code["op"] == GUARD) & (tape.code["aux"] == guard)).tolist()
        self.stop = found[0] if found else NONE
        self.rows = tape.code[["op", "active", "out", "a", "b", "c", "aux"]][: self.stop + 1].tolist()
        self.words = (plan.code[: self.stop + 1, 0] & RUNS).tolist()
        self.levels, self.families, self._bases = (
            column.tolist() for column in (tape.storages["level"], tape.storages["family"], plan.bases)
        )
        self.sizes = storage_sizes(tape, plan.sizes).tolist()
        self._values = tape.values.tolist()
        self._layouts: dict[int, tuple] = {}

    def group(self, value: int) -> Group:
        return _group(*self._values[value][:2])

    def is_constant(self, value: int) -> bool:
        return self.levels[self._values[value][0]] == CONSTANT

    def place(self, value: int) -> tuple:
        """Return where a value is in its group: first cell, dimensions and strides.

        Sums of SciPy's libraries may have other bits where arrays begin elsewhere in a line of the caches.
        """
        storage, offset, layout = self._values[value]
        known = self._layouts.get(layout)
        if known is None:
            known = self._layouts[layout] = self.plan.shape(value), self.plan.strides(value)
        if storage < len(POOLS):
            return known
        family, first, _ = self.cells((storage, 0))
        return (self.plan.size(offset), FAMILY_DTYPE[family].itemsize * first % ALIGNMENT, *known)

    def still_has(self, group: Group) -> bool:
        """Whether the cells of a group still have its numbers when the sweep comes to the guard.

        Where a tape is only swept forward, others take the cells of storages that nothing reads any more.
        """
        storage = group[0]
        return self._holders.get((self.families[storage], self._bases[storage]), storage) == storage

    @functools.cached_property
    def _holders(self) -> dict[tuple[int, int], int]:
        """Which storage was the last to write to the cells from a place on, by family and place."""
        holders: dict[tuple[int, int], int] = {}
        for op, _, out, *_, aux in self.rows[self.first : self.stop]:
            for value in () if op == GUARD else (out,) if aux == NONE else (out, aux):
                storage = self._values[value][0]
                if storage >= len(POOLS) and self.sizes[storage]:
                    holders[self.families[storage], self._bases[storage]] = storage
        return holders

    def cells(self, group: Group) -> tuple[int, int, int]:
        """Return the family of a group, its first cell, and how many cells it has."""
        storage, offset = group
        count = 1 if storage < len(POOLS) else self.sizes[storage]
        return self.families[storage], self._bases[storage] + offset, count


def shared_beginning(one: Workspace, other: Workspace, guard: int) -> Beginning | None:
    """Return where a call goes on in another workspace where a guard has stopped the sweep of one.

    It goes on at the guard of the other tape, if the instructions before that are known to have the same
    results, and to copy these takes less than they do: all results, or only those that are needed. Else the
    other tape is swept from its beginning, for which the arguments alone are copied. None where not even
    these are alike.

    Parameters
    ----------
    guard
        The number of the guard, in both tapes.
    """
    here, there = _Side(one, guard), _Side(other, guard)
    same = _inputs(here, there)
    if here.stop < here.first or there.stop < there.first or same is None:
        return None
    alone = _beginning(here, there, there.first, same)
    if here.stop > MOST_INSTRUCTIONS or _overwrites(here, there):
        return alone
    if not _Matching(here, there, same).holds():
        return alone
    sizes = there.plan.sizes
    work = work_of(there.tape, lambda codes: evaluated(codes, sizes))[there.first : there.stop].sum()
    choices = [(work, alone)]
    needed = _needed(there)
    some = {its: group for its, group in same.items() if there.still_has(its) and needed(its)}
    if all(map(here.still_has, some.values())):
        goes_on = _beginning(here, there, there.stop, some)
        choices.append((_work_of_copies(goes_on.copies), goes_on))
    return min(choices, key=itemgetter(0))[1]


def _beginning(here: _Side, there: _Side, start: int, groups: dict[Group, Group]) -> Beginning:
    """Return where a call goes on with an instruction once some groups have been copied."""
    copies = _copies(here, there, groups)
    places = here.guard, here.stop, there.stop, start
    return Beginning(*places, copies, frozenset(groups.values()), frozenset(groups))


def _work_of_copies(copies: list[Memory]) -> float:
    cells = sum(count for _, _, count in copies) / FAMILY_DTYPE[0].itemsize
    return COPIED * cells + ROW_OF_COPIES * len(copies)


def _inputs(here: _Side, there: _Side) -> dict[Group, Group] | None:
    """Return which groups of the first tape have the arguments that groups of the second one have.

    Those of constants are left out, as both workspaces have their contents. None where not all lie alike.
    """
    same: dict[Group, Group] = {}
    for a, b in zip(here.tape.inputs, there.tape.inputs, strict=True):
        alike = a.level == b.level and a.family == b.family and here.place(a.value) == there.place(b.value)
        group, its = here.group(a.value), there.group(b.value)
        if not alike or here.cells(group)[2] != there.cells(its)[2]:
            return None
        if b.level != CONSTANT:
            same[its] = group
    return same


def _overwrites(here: _Side, there: _Side) -> bool:
    """Whether an instruction may change a value that an older one has computed, in either workspace."""
    return any(tape.calls or overwritten(tape) is not None for tape in (here.tape, there.tape))


class _Matching:
    """The comparison of two tapes up to a guard.

    Parameters
    ----------
    same
        The groups of the second tape that have what groups of the first one have. It grows.
    """

    def __init__(self, here: _Side, there: _Side, same: dict[Group, Group]):
        self._here, self._there, self._same = here, there, same
        self._taken = {group: its for its, group in same.items()}
        self._kept = [kept_groups(side.tape) for side in (here, there)]
        self._constants: dict[tuple[int, int], bool] = {}

    def holds(self) -> bool:
        """Whether all that the second tape computes before the guard is computed by the first one, too."""
        here, there, k = self._here, self._there, self._here.first
        for row, word in zip(there.rows[there.first : -1], there.words[there.first : -1], strict=True):
            while k < here.stop and not self._is_same(here.rows[k], here.words[k], row, word):
                if self._is_needed(here.rows[k]):
                    return False
                k += 1
            if k == here.stop:
                return False
            k += 1
        left = here.rows[k:-1]
        return not any(map(self._is_needed, left)) and self._reads_same(here.rows[-1][3], there.rows[-1][3])

    def _is_needed(self, row: tuple) -> bool:
        """Whether an instruction that the first tape alone has writes what the second one has, too."""
        op, _, out, _, _, _, aux = row
        written = () if op == GUARD else (out,) if aux == NONE else (out, aux)
        return any(self._here.group(value) in self._taken for value in written)

    def _is_same(self, mine: tuple, word: int, its: tuple, its_word: int) -> bool:
        """Whether two instructions compute the same; note where the results are."""
        if word != its_word or mine[:2] != its[:2]:
            return False
        if not all(map(self._reads_same, mine[3:6], its[3:6])):
            return False
        if mine[0] == GUARD:
            return True  # what it must be is an operand
        if (mine[6] == NONE) != (its[6] == NONE):
            return False
        pairs = [(mine[2], its[2])] if mine[6] == NONE else [(mine[2], its[2]), (mine[6], its[6])]
        return all(self._may_write(*pair) for pair in pairs) and all(self._writes(*pair) for pair in pairs)

    def _reads_same(self, mine: int, its: int) -> bool:
        """Whether two operands hold the same."""
        here, there = self._here, self._there
        if mine == NONE or its == NONE:
            return mine == its
        if here.place(mine) != there.place(its):
            return False
        if here.is_constant(mine) or there.is_constant(its):
            return here.is_constant(mine) and there.is_constant(its) and self._has_same_numbers(mine, its)
        return self._same.get(there.group(its)) == here.group(mine)

    def _has_same_numbers(self, mine: int, its: int) -> bool:
        known = self._constants.get((mine, its))
        if known is None:
            one, other = self._here.space.value_view(mine), self._there.space.value_view(its)
            whole = f"u{one.dtype.itemsize}"
            known = one.dtype == other.dtype and bool(np.array_equal(one.view(whole), other.view(whole)))
            self._constants[mine, its] = known
        return known

    def _may_write(self, mine: int, its: int) -> bool:
        """Whether two results, or what ops keep, lie alike in groups that stand for each other."""
        here, there = self._here, self._there
        group, other = here.group(mine), there.group(its)
        if here.place(mine) != there.place(its) or here.is_constant(mine) or there.is_constant(its):
            return False
        if self._same.get(other, group) != group or self._taken.get(group, other) != other:
            return False
        if group in self._kept[0] or other in self._kept[1]:
            return False
        return here.cells(group)[::2] == there.cells(other)[::2]

    def _writes(self, mine: int, its: int) -> bool:
        group, other = self._here.group(mine), self._there.group(its)
        self._same[other], self._taken[group] = group, other
        return self._same[other] == group


def _needed(side: _Side):
    """Return whether anything behind a guard reads a group, forward or backwards, or returns it."""
    tape = side.tape
    wanted = read_backwards(tape).tolist()
    values: set[int] = {*tape.outputs}
    for op, *operands in tape.code[["op", "a", "b", "c", "aux"]][side.stop :].tolist():
        values.update(operands[:3] if op == GUARD else operands)
    groups = {side.group(value) for value in values if value != NONE}
    return lambda group: group in groups or wanted[group[0]]


def _copies(here: _Side, there: _Side, same: dict[Group, Group]) -> list[Memory]:
    """Return the rows of memory that bring groups of one workspace to the other, as few as there can be."""
    rows: list[Memory] = []
    for its, group in same.items():
        (family, first, count), (_, target, _) = here.cells(group), there.cells(its)
        size = FAMILY_DTYPE[family].itemsize
        source, begins = (address(side.space.v[family]) for side in (here, there))
        rows.append((begins + size * target, source + size * first, size * count))
    merged: list[Memory] = []
    for target, source, count in sorted(row for row in rows if row[2]):
        if merged and (target, source) == (merged[-1][0] + merged[-1][2], merged[-1][1] + merged[-1][2]):
            merged[-1] = (*merged[-1][:2], merged[-1][2] + count)
        else:
            merged.append((target, source, count))
    return merged
