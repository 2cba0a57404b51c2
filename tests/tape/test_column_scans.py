"""The steps of freezing that are kernels do what a plain statement of them in Python does."""

from __future__ import annotations

import numpy as np
import pytest

from numbatape.derive.lane_values import distinct
from numbatape.tape import column_scans as scans
from numbatape.tape.combinations import FEW, by_combination, combinations, numbered, stable_order
from numbatape.tape.families import POOLS
from numbatape.tape.instruction import GUARD, NONE, columns
from numbatape.tape.uses import NO_GROUP, dependents, groups_of
from tests.every_case import every

SEEDS = range(60)


def program(seed):
    """Instructions on a few values, many of which share cells, and where these values are."""
    rng = np.random.default_rng(seed)
    count, length = rng.integers(3, 12), rng.integers(1, 30)
    storage = rng.integers(0, len(POOLS) + 3, count)
    offset = rng.integers(0, 3, count)
    layout = np.where(storage < len(POOLS), 0, rng.integers(1, 3, count))
    cell = np.where(storage < len(POOLS), offset, 0)
    places = list(zip(storage.tolist(), cell.tolist(), strict=True))
    known = sorted(set(places))
    group = np.array([*(known.index(place) + 1 for place in places), NO_GROUP], np.int32)
    home = np.array([NONE, *(s for s, _ in known)], np.int32)
    rows = []
    for _ in range(length):
        guard = rng.random() < 0.1
        operands = np.where(rng.random(3) < 0.3, NONE, rng.integers(0, count, 3)).tolist()
        out = NONE if guard else int(rng.integers(0, count))
        scratch = int(rng.integers(0, count)) if rng.random() < 0.2 else NONE
        op = GUARD if guard else int(rng.integers(0, 3))
        rows.append((op, int(rng.integers(0, 2)), int(rng.integers(0, 2)), out, *operands, scratch, 0))
    return columns(rows), storage, offset, layout, group, home


def random_groups(rng, count):
    found = rng.random(count) < 0.3
    found[NO_GROUP] = False
    return found


@every("seed", SEEDS)
def test_what_is_needed_later_stays(seed):
    code, *_, group, home = program(seed)
    rng = np.random.default_rng(seed)
    out, operands = groups_of(code, group)
    needed, stays = random_groups(rng, len(home)), code["op"] == GUARD
    expected, later = [], {k for k in range(len(home)) if needed[k]}
    for k in reversed(range(len(code))):
        if stays[k] or out[k] in later:
            expected.append(k)
            later |= set(operands[k].tolist()) - {NO_GROUP}
    assert sorted(expected) == np.flatnonzero(scans.live(out, operands, needed, stays)).tolist()


@every("seed", SEEDS)
def test_dependents_are_what_can_be_reached(seed):
    code, *_, group, home = program(seed)
    rng = np.random.default_rng(seed)
    out, operands = groups_of(code, group)
    sources = random_groups(rng, len(home))
    found, grown = {k for k in range(len(home)) if sources[k]}, -1
    while grown != len(found):
        grown = len(found)
        for k in range(len(code)):
            if out[k] != NO_GROUP and found & {out[k], *operands[k, :3].tolist()}:
                found |= {out[k], operands[k, 3]} - {NO_GROUP}
    assert found == set(np.flatnonzero(scans.reach(out, operands, sources)).tolist())
    names = [100 - 7 * k for k in group[:-1].tolist()]  # any numbers, of both signs
    chosen = {name for name, k in zip(names, group.tolist(), strict=False) if sources[k]}
    known = set(group[:-1].tolist())
    assert dependents(code, names, chosen) == {100 - 7 * k for k in found & known}


@every("seed", SEEDS)
def test_repetitions_are_those_of_value_numbering(seed):
    code, storage, offset, layout, group, home = program(seed)
    out, _ = groups_of(code, group)
    several = np.bincount(out, minlength=len(home)) > 1
    storages = np.random.default_rng(seed).integers(0, 2, (len(POOLS) + 3, 3)).astype(np.int32)
    pooled = storage < len(POOLS)
    inside = np.where(pooled, 0, offset).astype(np.int32)
    known, alias, expected = {}, {}, []
    for k, row in enumerate(code.tolist()):
        op, active, stage, result, *operands = row[:7]
        target = group[result]
        if op == GUARD or several[target] or inside[result]:
            continue
        places = [alias.get(group[x], group[x]) for x in operands]
        if any(several[place] for place in places):
            continue
        views = [(inside[x], layout[x]) if x != NONE else None for x in operands]
        key = (op, active, stage, layout[result], bool(pooled[result]), *places, *views)
        first = known.setdefault(key, target)
        if pooled[result]:
            alike = home[first] >= home[target]
        else:
            alike = (storages[home[first]] == storages[home[target]]).all()
        if first != target and alike:
            alias[target] = first
            expected.append(k)
    repeats, replaced = scans.repeated(code, group, inside, layout.astype(np.int32), several, home, storages)
    assert np.flatnonzero(repeats).tolist() == expected
    assert replaced.tolist() == [alias.get(k, k) for k in range(len(home))]


@every("seed", SEEDS)
def test_cells_are_lent_when_they_were_read_for_the_last_time(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    first = rng.integers(-1, 30, count)
    last, kind = np.maximum(first, rng.integers(-1, 40, count)), rng.integers(0, 3, count)
    borrowers = np.flatnonzero(first >= 0)
    lender, free, ended = list(range(count)), {}, 0
    ending = sorted(borrowers, key=lambda s: last[s])
    for storage in sorted(borrowers, key=lambda s: first[s]):
        while last[ending[ended]] < first[storage]:
            free.setdefault(kind[ending[ended]], []).append(lender[ending[ended]])
            ended += 1
        if free.get(kind[storage]):
            lender[storage] = free[kind[storage]].pop()
    assert scans.lend(first, last, kind, borrowers).tolist() == lender


@pytest.mark.parametrize("length", [FEW, FEW + 1, scans.SHORT + 1])
@pytest.mark.parametrize("spread", [1, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_a_function_is_called_once_for_each_combination(seed, spread, length):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-1, 4, length) * spread for _ in range(2))
    different, places = distinct(x)
    assert different.tolist() == sorted(set(x.tolist()))
    np.testing.assert_array_equal(different[places], x)
    rank, count = numbered(x)
    assert count == len(set(x.tolist()))
    assert [sorted(set(x.tolist())).index(value) for value in x.tolist()] == rank.tolist()
    assert stable_order(x + spread).tolist() == sorted(range(len(x)), key=lambda k: x[k])
    pairs = [*zip(x.tolist(), y.tolist(), strict=True)]
    for scale in (1, 2**20):  # some numbers have more than 32 bits then
        first, number = combinations(x * scale, y)
        assert first.tolist() == [pairs.index(pair) for pair in sorted(set(pairs))]
        np.testing.assert_array_equal(x[first][number], x)
        np.testing.assert_array_equal(y[first][number], y)
    calls = []
    holds = by_combination(lambda a, b: calls.append((a, b)) or a < b, x, y)
    assert len(calls) == len(set(calls)) == len(first)
    np.testing.assert_array_equal(holds, x < y)
