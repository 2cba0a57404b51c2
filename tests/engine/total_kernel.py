"""A small kernel for tests of compiling, storing and loading: the sum of a vector, times a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numbatape.jit import loader

TEXT = """def total(w, pc):
    v = w[0]
    result = 0.0
    for i in range(w[1]):
        result += v[i] * {factor}
    v[0] = result
    return pc
"""


def run_total(kernels, numbers: Sequence[float] = (1.0, 2.0, 3.0)) -> float:
    """Return what the kernel makes of a vector."""
    cells = np.array(numbers)
    frame = np.array([cells.ctypes.data, len(cells)], np.int64)
    assert kernels.function("total")(frame.ctypes.data, 7) == 7
    return cells[0]


def load_again(source: str, **options):
    """Load as another process would: from disk or by compiling."""
    return loader._load("test", source, **options)
