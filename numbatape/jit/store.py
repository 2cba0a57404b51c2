"""Object files on disk: where they are, how they are named, written and read back.

A file is a JSON header line (symbols it defines and needs, SHA-256 of all that) and the object.
Written to a temporary name and renamed, so that a reader sees all of it or nothing and two
processes that compile the same kernel do not hurt each other; a truncated or foreign file fails
its checksum and is compiled again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ObjectFile:
    """A compiled kernel: entry points, external symbols, and the object itself."""

    entries: tuple[str, ...]
    externals: tuple[str, ...]
    code: bytes

    @property
    def checksum(self) -> str:
        """SHA-256 of the object and of its symbols: a symbol that is not looked up kills the process."""
        symbols = json.dumps([self.entries, self.externals]).encode()
        return hashlib.sha256(symbols + self.code).hexdigest()


def cache_directory() -> Path:
    """Return the directory of compiled kernels (``NUMBATAPE_CACHE_DIR`` overrides it)."""
    chosen = os.environ.get("NUMBATAPE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "numbatape"


@functools.cache
def _machine() -> str:
    """Everything besides the source that decides what an object file contains."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    here = Path(__file__).parent
    own = "".join((here / name).read_text() for name in ("compiler.py", "raw.py", "strips.py"))
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite")]
    return "\n".join([*versions, llvm.get_host_cpu_name(), features, llvm.get_process_triple(), own])


def key_of(source: str) -> str:
    """Return the content hash under which the kernels of a source text are stored."""
    return hashlib.sha256((source + "\0" + _machine()).encode()).hexdigest()[:24]


def read(name: str, key: str) -> ObjectFile | None:
    """Return the stored object file, or None when it is missing or damaged."""
    try:
        header, _, code = (cache_directory() / f"{name}-{key}.nto").read_bytes().partition(b"\n")
        fields = json.loads(header)
        found = ObjectFile(tuple(fields["entries"]), tuple(fields["externals"]), code)
        return found if found.checksum == fields["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(name: str, key: str, compiled: ObjectFile, source: str) -> bool:
    """Store an object file and, beside it, its source; False where the directory is read-only."""
    fields = {
        "entries": compiled.entries,
        "externals": compiled.externals,
        "sha256": compiled.checksum,
    }
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace(directory / f"{name}-{key}.py", source.encode())
        replace(directory / f"{name}-{key}.nto", json.dumps(fields).encode() + b"\n" + compiled.code)
    except OSError:
        return False
    return True


def replace(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def stored() -> list[str]:
    """Return the names of the kernels in the cache directory."""
    return sorted(path.stem.rsplit("-", 1)[0] for path in cache_directory().glob("*.nto"))
