"""Kernels of rows on random cells, edges and strides, and the comparison of what they leave, bit by bit."""

from __future__ import annotations

import itertools

import numpy as np

from numbatape.engine.codegen import FIRST_KERNEL
from numbatape.engine.frame import WORD, WORDS
from numbatape.engine.kernels import ITERATIONS, sweep_address

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


def swept(kernels, direction, seed, n, strides, outer, active):
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
    table = np.array([kernels.address[direction]])
    frame = np.zeros(len(WORDS), np.int64)
    sweep_address("iterations")  # fills the table that ITERATIONS is
    words = {"CODE": code, "AUX": record, "ITERATIONS": ITERATIONS, direction.upper(): table, **stacks}
    for name, array in words.items():
        frame[WORD[name]] = array.ctypes.data
    assert kernels.function(direction)(frame.ctypes.data, 0) == 0
    return list(stacks.values())
