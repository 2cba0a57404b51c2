"""The instructions that take part in a derivative are those that a plain statement in Python finds."""

import numpy as np

from numbatape.derive.activity import Places, useful_for, varied_in
from numbatape.ops import OPS, ROWS
from numbatape.tape import TapeBuilder
from numbatape.tape.families import POOLS
from numbatape.tape.instruction import GUARD, NONE
from numbatape.tape.uses import key_of
from tests.every_case import every


def random_tape(rng):
    """A tape whose instructions write to cells and to arrays, some several times, in any order."""
    tape = TapeBuilder(ROWS)
    for _ in range(rng.integers(3, 9)):
        level, family = POOLS[rng.integers(len(POOLS))]
        first = tape.array((3,), family, level) if rng.random() < 0.5 else tape.scalar(family, level)
        for _ in range(rng.integers(0, 2)):
            storage, offset, _ = tape.values[first]
            tape.view(storage, offset, (1,), (1,))
    count = len(tape.values)
    for _ in range(rng.integers(1, 30)):
        operands = [int(k) if rng.random() < 0.7 else NONE for k in rng.integers(0, count, 3)]
        active = sum(1 << j for j in range(3) if operands[j] != NONE and rng.random() < 0.7)
        if rng.random() < 0.1:
            tape.emit(GUARD, 0, 0, NONE, operands[0], aux=int(rng.integers(50)))
        else:
            tape.emit(2 * int(rng.integers(len(OPS))), active, 0, int(rng.integers(count)), *operands)
    return tape


@every("seed", range(40))
def test_an_instruction_takes_part_if_a_source_reaches_it_and_it_reaches_a_result(seed):
    rng = np.random.default_rng(seed)
    tape = random_tape(rng)
    key = [key_of(*tape.values[k][:2]) for k in range(len(tape.values))]
    sources, results = rng.integers(0, len(key), 2).tolist(), rng.integers(0, len(key), 2).tolist()
    start = int(rng.integers(0, len(tape.code)))
    reached, expected = {key[k] for k in sources}, []
    for row in tape.instructions(start):
        needed = sum(1 << j for j, k in enumerate(row[4:7]) if row.takes(j) and key[k] in reached)
        if needed:
            reached.add(key[row.out])
            expected.append((row, needed))
    places = Places(tape)
    varied = varied_in(tape, places, start, len(tape.code), sources)
    assert list(varied.pairs()) == expected
    wanted, kept = {key[k] for k in results}, []
    for row, needed in reversed(expected):
        if key[row.out] in wanted:
            kept.insert(0, (row, needed))
            wanted |= {key[row[4 + j]] for j in range(3) if needed >> j & 1}
    useful = useful_for(varied, places, results)
    assert list(useful.pairs()) == kept == [useful.one(k) for k in range(useful.count)]
    reads = [key[row[4 + j]] for row, needed in kept for j in range(3) if needed >> j & 1]
    assert [useful.reads(places)[k] for k in places.of(range(len(key)))] == [reads.count(k) for k in key]
