"""What object files may contain: ``python -m tests.object_files dist/*.whl`` checks all of a wheel.

The tests check a sample for every level of processors (tests/engine/test_shipped.py).
"""

from __future__ import annotations

import hashlib
import struct
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from numbatape.jit import elf, loader, processor_levels, shipped, store
from numbatape.jit.processor_levels import Level

MACHINES = {"x86_64": 62, "aarch64": 183}  # EM_X86_64, EM_AARCH64
# Whole addresses; on ARM also in pieces of 16 bits, within the object file, and of calls, from which LLVM's
# loader jumps on. So nothing depends on how far from a kernel libm or SciPy stand in memory.
_PIECES, _WITHIN, _CALLS = range(263, 270), (260, 261, 275, 277, 278, 284, 285, 286, 299), (282, 283)
RELOCATIONS = {"x86_64": {elf.R_X86_64_64}, "aarch64": {257, *_PIECES, *_WITHIN, *_CALLS}}
# What LLVM makes of loops, of remainders, and of a sine beside a cosine; the C libraries of Linux have them.
OF_LLVM = {"memset", "memcpy", "memmove", "bcmp", "fmod", "sincos"}


def check(level: Level, key: str, found: store.ObjectFile) -> None:
    """Assert the right processor, known symbols and kinds of references, and nothing to write to."""
    code = found.code
    assert code.startswith(elf.IDENTITY)
    (kind,) = struct.unpack_from("<H", code, elf.MACHINE_AT)
    assert kind == MACHINES[level.architecture]
    sections = elf.sections_of(code)
    loaded = {k for k, section in enumerate(sections) if section.is_loaded}
    assert not any(sections[k].flags & elf.SHF_WRITE or sections[k].type == elf.SHT_NOBITS for k in loaded)
    symbols = [(name, section) for name, section, _ in elf.symbols_of(code, sections)]
    assert {name for name, section in symbols if section == 0 and name} <= {*found.externals, *OF_LLVM}
    defined = {name for name, section in symbols if section in loaded}
    assert {f"nt_{key}_{entry}" for entry in found.entries} <= defined
    for section in sections:
        if section.type == elf.SHT_RELA and section.info in loaded:
            kinds = {info & 0xFFFFFFFF for _, info, _ in struct.iter_unpack("<QQq", section.content(code))}
            assert kinds <= RELOCATIONS[level.architecture]


def main(wheel: str) -> None:
    """Check each object file of a wheel, and load those of this machine's levels."""
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(wheel) as files:
            files.extractall(directory, [name for name in files.namelist() if "/kernels/" in name])
        shipped.DIRECTORY = Path(directory, "numbatape", "kernels")
        for level in processor_levels.LEVELS:
            archive, lines = shipped.files(level)[1].read_bytes(), shipped.manifest(level)
            assert lines, f"no kernels for {level.name}"
            for key, line in lines.items():
                digest, first, count, _ = line.split(" ", 3)
                packed = archive[int(first) :][: int(count)]
                assert hashlib.sha256(packed).hexdigest() == digest
                found = store.unpacked(key, zlib.decompress(packed))
                check(level, key, found)
                if level in processor_levels.here():
                    loader.link(found, key)
            loads = "checked and loaded" if level in processor_levels.here() else "checked"
            print(f"{level.name}: {len(lines)} object files {loads}")
    size = Path(wheel).stat().st_size / 1e6
    assert size <= 15.0
    print(f"{size:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
