"""Object files that are put into memory without LLVM's library, beside those that LLVM's loader takes."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from numbatape.engine.chain import sweep_source
from numbatape.engine.codegen import kernel_source
from numbatape.jit import compiler, elf, linalg, loader, machine, symbols
from numbatape.ops import OPCODE

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="LLVM's loader serves other systems"
)

TEXT = """# cells: f64
def total(w, pc):
    v = w[0]
    result = 0.0
    for i in range(w[1]):
        result += math.exp(v[i]) * 0.1
    v[0] = result
    return pc
"""


@pytest.fixture(scope="module")
def compiled():
    return compiler.compile_source(TEXT, "key")


def result_of(address: int) -> float:
    cells = np.array([1.0, 2.0, 3.0])
    frame = np.array([cells.ctypes.data, 3], np.int64)
    assert loader.Kernels({"total": address}).function("total")(frame.ctypes.data, 7) == 7
    return cells[0]


def test_both_loaders_give_the_same_kernel(compiled):
    ours = elf.place(compiled.code, symbols.address_of)["nt_key_total"]
    theirs = loader._place_by_llvm(compiled, ["nt_key_total"])["nt_key_total"]
    assert result_of(ours) == result_of(theirs) == pytest.approx(0.1 * np.exp([1.0, 2.0, 3.0]).sum())


SOURCES = {
    "sweeps": lambda: sweep_source("reverse"),
    "a jump table": lambda: kernel_source(OPCODE["fft"], 0),
    "constants": lambda: kernel_source(OPCODE["gammaln"], 0, "reverse"),
    "LAPACK": lambda: linalg.with_wrappers(kernel_source(OPCODE["cholesky"], 1, "reverse")),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_kernels_of_every_kind_are_placed(source):
    found = compiler.compile_source(source(), "key")
    placed = elf.place(found.code, symbols.address_of)
    assert {f"nt_key_{entry}" for entry in found.entries} <= set(placed)


def test_code_cannot_be_written_to(compiled):
    address = elf.place(compiled.code, symbols.address_of)["nt_key_total"]
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, *_ = line.split()
        first, end = (int(part, 16) for part in span.split("-"))
        if first <= address < end:
            assert permissions == "r-xp"
            return
    raise AssertionError("the kernel is in no part of the process's memory")


def another_processor(code: bytearray) -> None:
    struct.pack_into("<H", code, elf.MACHINE_AT, 183)  # aarch64


def another_format(code: bytearray) -> None:
    code[:4] = b"\xcf\xfa\xed\xfe"  # Mach-O


def sections_of(code) -> list:
    """Return (place of the row in the file, section)."""
    (table,) = struct.unpack_from("<Q", code, elf.TABLE_AT)
    return [(table + 64 * k, section) for k, section in enumerate(elf.sections_of(bytes(code)))]


def data_that_is_written_to(code: bytearray) -> None:
    row = next(row for row, section in sections_of(code) if section.is_loaded and section.size)
    code[row + 8] |= elf.SHF_WRITE


def another_kind_of_reference(code: bytearray) -> None:
    sections = sections_of(code)
    used = (s for _, s in sections if s.type == elf.SHT_RELA and sections[s.info][1].is_loaded)
    struct.pack_into("<I", code, next(used).offset + 8, 9)  # R_X86_64_GOTPCREL


@pytest.mark.parametrize(
    "change",
    [another_processor, another_format, data_that_is_written_to, another_kind_of_reference],
    ids=lambda f: f.__name__,
)
def test_what_is_left_to_llvm(compiled, change):
    code = bytearray(compiled.code)
    change(code)
    assert elf.place(bytes(code), symbols.address_of) is None


def test_a_symbol_that_is_missing(compiled):
    with pytest.raises(ImportError, match="needs the symbol 'exp'"):
        elf.place(compiled.code, lambda name: None)


def test_a_system_that_refuses_executable_memory(compiled, monkeypatch):
    refused = type("Refusing", (), {"mmap": elf._c_library().mmap, "mprotect": lambda *_: -1})
    monkeypatch.setattr(elf, "_c_library", lambda: refused)
    with pytest.raises(OSError, match="refuses executable memory"):
        elf.place(compiled.code, symbols.address_of)


IN_A_FRESH_PROCESS = """
import llvmlite.binding as llvm
from numbatape.jit import loader, symbols

loader._engine()  # LLVM looks into the process from here on
for name in ("exp", "pow", "fmod", "sincos", "memset", "memcmp", "bcmp", "no_such_symbol"):
    assert symbols.address_of(name) == llvm.address_of_symbol(name), name
"""


def test_functions_of_the_c_library_are_those_that_llvm_finds():
    """In a process without Numba, which tells LLVM of functions of its own under some of these names."""
    subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
        timeout=120,
    )


def test_a_processor_without_a_name_is_described_by_llvm(monkeypatch):
    told = machine.identity()
    machine.identity.cache_clear()
    monkeypatch.setattr(machine, "MODALIAS", Path("/sys/no/such/file"))
    try:
        asked = machine.identity()
    finally:
        machine.identity.cache_clear()
    assert llvm.get_host_cpu_name() in asked and asked != told
