"""Kernels of rows on random cells, edges and strides, and the comparison of what they leave, bit by bit."""

from __future__ import annotations

import itertools

import numpy as np

from numbatape.engine import Workspace, kernels, make_plan
from numbatape.engine.codegen import FIRST_KERNEL, kernel_source
from numbatape.engine.frame import WORD, WORDS
from numbatape.engine.kernels import ITERATIONS, sweep_address
from numbatape.ops import OPS, Elementwise, oracle
from numbatape.ops.status import DONE
from numbatape.recording.record import InputLeaf, record
from numbatape.tape.tape import ACTIVE, CONSTANT
from numbatape.trace.primitives import array_instruction
from tests.engine.test_kernels import DTYPES, MEMORY, array_operands, index_operands

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, np.inf, -np.inf, np.nan, 1e308, 5e-324, 1e15, 710.0])
STRIDES = [(1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (2, 3, 1, 2)]
OUTER = [[], [(3, 50, 45, 0, 1)], [(3, 70, 45, 1, 0), (2, 35, 20, 7, 1)]]


def assert_same_bits(got, want):
    """Equal bit by bit, but for the sign and payload of NaN, which no operation defines."""
    for x, y in zip(got, want, strict=True):
        numbers = ~np.isnan(y)
        np.testing.assert_array_equal(np.isnan(x), ~numbers)
        bits = np.uint64 if x.itemsize == 8 else np.uint32
        np.testing.assert_array_equal(x.view(bits)[numbers], y.view(bits)[numbers])


def cases(op, direction):
    """Yield what `swept` takes behind the direction: a seed, a length, strides, outer levels, operands."""
    actives = range(1, 1 << op.arity) if direction == "reverse" else [0]
    for seed, case in enumerate(itertools.product((0, 1, 5, 13), STRIDES, OUTER, actives)):
        yield seed, *case


def swept(loaded, direction, seed, n, strides, outer, active):
    """Return all cells behind a kernel that ran on random cells and edges."""
    rng, stacks = np.random.default_rng(seed), {}
    for name, dtype in {"V64": "f8", "V32": "f4", "G64": "f8", "G32": "f4"}.items():
        cells = rng.normal(size=900)
        edge = rng.random(900) < 0.3
        cells[edge] = rng.choice(EDGES, size=edge.sum())
        with np.errstate(over="ignore"):
            stacks[name] = cells.astype(dtype)
    record = np.array([len(outer), n, *strides, 300, *itertools.chain(*outer), 0], np.int32)
    code = np.array([active << 16 | FIRST_KERNEL, 500, 100, 250, 0], np.int32)
    table = np.array([loaded.address[direction]])
    frame = np.zeros(len(WORDS), np.int64)
    sweep_address("iterations")  # fills the table that ITERATIONS is
    words = {"CODE": code, "AUX": record, "ITERATIONS": ITERATIONS, direction.upper(): table, **stacks}
    for name, array in words.items():
        frame[WORD[name]] = array.ctypes.data
    assert loaded.function(direction)(frame.ctypes.data, 0) == 0
    return list(stacks.values())


def compare(row, family, direction, values, compiled) -> int:
    """Compare the bits of a row's kernels by two compilers; return in how many cases.

    Parameters
    ----------
    row, family, direction, values
        Of the kernel, as `kernel_source` takes them.
    compiled
        For each compiler what compiles and loads a text.
    """
    op, text = OPS[row], kernel_source(row, family, direction, values)
    forms = [load(text) for load in compiled]
    if isinstance(op, Elementwise):
        chosen = [*cases(op, direction)]
        for case in chosen:
            assert_same_bits(*(swept(form, direction, *case) for form in forms))
        return len(chosen)
    table = (kernels.FORWARD if direction == "forward" else kernels.REVERSE)[2 * row + family :]
    chosen = [*itertools.product(op.cases, MEMORY.values())]
    for shapes, memory in chosen:
        space = workspace(op, family, shapes, *memory)
        results = []
        for form in forms:
            own, table[0] = table[0], form.address[direction]
            try:
                results.append(both_ways(space))
            finally:
                table[0] = own
        assert_same_bits(*results)
    return len(chosen)


def workspace(op, family, shapes, put, get) -> Workspace:
    """Return a workspace of one array op, with operands and cotangents, which lie in memory in some way."""
    fixed = index_operands(op)
    given = array_operands(op, shapes, DTYPES[family])
    inputs = [x if k in fixed else put(x) for k, x in enumerate(given)]
    expected = np.asarray(oracle(op)(*given)).astype(np.float64 if op.wide else DTYPES[family])
    leaves = [InputLeaf(x, CONSTANT if k in fixed else ACTIVE) for k, x in enumerate(inputs)]

    def function(*traced):
        views = [x if k in fixed else get(x) for k, x in enumerate(traced)]
        return array_instruction(op, views, expected)

    tape = record(function, leaves, lambda traced: (tuple(traced), {})).tape
    space = Workspace(make_plan(tape, tuple(n for x in inputs for n in np.shape(x))))
    for cells, x in zip(space.inputs, inputs, strict=True):
        cells[...] = x
    space.seed[...] = np.random.default_rng(6).normal(size=space.seed.size)
    return space


def both_ways(space) -> list[np.ndarray]:
    """Return copies of a workspace's values and adjoints behind its sweeps."""
    assert space.forward() == DONE
    space.reverse()
    return [np.array(x) for x in (*space.outputs, *space.gradients) if x is not None]
