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
from collections.abc import Iterable
from pathlib import Path

from numbatape.engine import library
from numbatape.jit import elf, loader, processor_levels, shared, shipped, store, symbols
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


def load(level: Level, files: dict[str, store.ObjectFile], texts: Iterable[str]) -> None:
    """Load object files, given by their keys; shared functions come first, because kernels call them."""
    for text in filter(shared.is_shared, texts):
        key = store.key_of(text, level)
        (symbols.SHARED[shared.symbol_of(text)],) = loader.link(files.pop(key), key).address.values()
    for key, found in files.items():
        loader.link(found, key)


def main(wheel: str) -> None:
    """Check each object file of a wheel, and load those of this machine's levels."""
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(wheel) as content:
            content.extractall(directory, [name for name in content.namelist() if "/kernels/" in name])
        shipped.DIRECTORY = Path(directory, "numbatape", "kernels")
        texts = [text for _, text in library.texts()]
        for level in processor_levels.LEVELS:
            archive, lines = shipped.files(level)[1].read_bytes(), shipped.manifest(level)
            assert lines, f"no kernels for {level.name}"
            files = {}
            for key, line in lines.items():
                digest, first, count, _ = line.split(" ", 3)
                packed = archive[int(first) :][: int(count)]
                assert hashlib.sha256(packed).hexdigest() == digest
                files[key] = store.unpacked(key, zlib.decompress(packed))
                check(level, key, files[key])
            loads = level in processor_levels.here()
            if loads:
                load(level, files, texts)
            print(f"{level.name}: {len(lines)} object files checked{' and loaded' * loads}")
    size = Path(wheel).stat().st_size / 1e6
    assert size <= 15.0
    print(f"{size:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
