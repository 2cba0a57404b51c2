"""What a release build writes: the archives that `numbatape.jit.shipped` reads."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import audit, builtin, c_function, compiler, crew, linalg, machine, shipped, steady, store
from .builtin import Builtin
from .processor_levels import Level

# What Python calls, besides the kernels: a release build ships them, and `nt.warmup` has them ready.
FUNCTIONS: tuple[Builtin, ...] = (
    builtin.BUILTIN,
    steady.STEADY,
    audit.AUDIT,
    crew.CREW_FUNCTION,
    *c_function.C_FUNCTIONS,
)


def compiled(level: Level, source: str) -> tuple[str, bytes]:
    """Compile a text for a level of processors; return its key, and the packed object file.

    Raises
    ------
    CannotEmit
        If this LLVM was built without the level's architecture.
    """
    source, _ = linalg.parts(source)
    key = store.key_of(source, level)
    found = compiler.compile_source(source, key, machine.emitter(level), optimise=True)
    return key, zlib.compress(store.packed(key, found), 9)


def builtins(level: Level) -> Iterator[tuple[str, str, bytes]]:
    """Yield (name, key, packed object file) of each function that Python calls, for a level of processors."""
    for function in FUNCTIONS:
        key = store.key_of(function.source, level)
        found, _ = function.compiled(key, machine.emitter(level))
        yield function.name, key, zlib.compress(store.packed(key, found), 9)


def write(directory: Path, level: Level, kernels: Iterable[tuple[str, str, bytes]]) -> tuple[Path, Path]:
    """Write a level's manifest and archive; each kernel is (name, key, packed object file)."""
    lines, parts, first = [], [], 0
    for name, key, packed in {
        row[1]: row for row in kernels
    }.values():  # kernels with the same text are written once
        lines.append(f"{key} {hashlib.sha256(packed).hexdigest()} {first} {len(packed)} {name}\n")
        parts.append(packed)
        first += len(packed)
    manifest, archive = shipped.files(level, directory)
    manifest.write_text("".join(lines))
    archive.write_bytes(b"".join(parts))
    return manifest, archive
