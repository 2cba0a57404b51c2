"""Both tiers of kernels: the same bits, and where each of them is compiled."""

from __future__ import annotations

import pytest

import numbatape as nt
from numbatape.engine import library
from numbatape.jit import loader, store
from numbatape.ops import OPCODE, OPS
from tests.kernel_bits import compare
from tests.numba_kernels.__main__ import TIERS

TEXT = "def total(w, pc):\n    return w[0] + {number}\n"


def source_of(number, head="# cells: f64, two tiers\n"):
    return head + TEXT.format(number=number)


# Sums, a choice, moves, and formulas of each kind. ``python -m tests.numba_kernels`` compares all of them.
SAMPLE = [
    *[("sum", 0, "forward"), ("max", 1, "reverse"), ("sort", 0, "forward"), ("psi", 0, "reverse")],
    *[("boxcox1p", 1, "reverse"), ("amplitude", 0, "reverse")],
]


@pytest.mark.parametrize("name, family, direction", SAMPLE)
def test_kernels_of_the_table(name, family, direction):
    """On edges, strides and random cells; the bits of sweeps are compared in tests/engine/test_shipped.py."""
    row = OPCODE[name]
    assert direction in OPS[row].two_tiers
    assert compare(row, family, direction, "fast", TIERS) >= 3


def test_warmup_has_the_optimised_forms_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBATAPE_CACHE_DIR", str(tmp_path))
    loaded = loader.load("test", source_of(1))
    assert loaded.tier == store.BASELINE
    texts = [("test", source_of(1)), ("test", source_of(2)), ("test", source_of(3, "# cells: f64\n"))]
    monkeypatch.setattr(library, "texts", lambda dtypes, values: iter(texts))
    monkeypatch.setattr(library, "FUNCTIONS", ())
    nt.warmup()
    assert sorted(found.tier for found in store.stored()) == ["only", "optimised", "optimised"]
    assert loader.load("test", source_of(1)) is loaded  # what runs is not replaced
    assert loader.load("test", source_of(2)).tier == store.OPTIMISED
