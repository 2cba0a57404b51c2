"""Object files on disk: where they are, how they are named, written and read back.

A file is a JSON header line (its key, the symbols it defines and needs, SHA-256 of all that) and the object.
It is written to a temporary name and renamed, so that a reader sees all of it or nothing; a truncated or
foreign file fails its checksum and is compiled again. A directory that others may write to is not used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import llvmlite

from ..savings import frozen
from . import locks, machine, trust, versions
from .processor_levels import Level

HEADER = 1 << 16  # bytes that a header has at most, enough for hundreds of symbols
DAY = 86400.0
# Kernels of other versions have other names and are never used again, so they are deleted some time.
UNUSED_DAYS = 60
LARGEST = 200 << 20  # bytes of all files; the whole library of kernels takes some 10 MB

# Tiers: a kernel has one form, or it is compiled quickly when a call waits for it, and again, with all of
# LLVM's effort, when nobody does (`numbatape.jit.background`). Both forms have one key, and one file.
ONLY, BASELINE, OPTIMISED = TIERS = ("only", "baseline", "optimised")


@frozen()
class ObjectFile:
    """A compiled kernel: entry points, external symbols, the object itself, and its tier."""

    entries: tuple[str, ...]
    externals: tuple[str, ...]
    code: bytes
    tier: str = ONLY

    def checksum(self, key: str) -> str:
        """SHA-256 of all that the file says: a symbol that is missing would kill the process."""
        head = json.dumps([key, self.tier, self.entries, self.externals]).encode()
        return hashlib.sha256(head + self.code).hexdigest()


def cache_directory() -> Path:
    """Return the directory of compiled kernels (``NUMBATAPE_CACHE_DIR`` overrides it)."""
    chosen = os.environ.get("NUMBATAPE_CACHE_DIR")
    if chosen:  # a shell has replaced a tilde already; a file of settings, or a program that sets it, has not
        return Path(os.path.expanduser(chosen))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "numbatape"


def usable_directory() -> Path | None:
    """Return the cache directory; None where others may write to it, which stderr says once."""
    directory = cache_directory()
    reason = trust.refusal(directory)
    if reason is None:
        return directory
    _complain(directory, reason)
    return None


@functools.cache
def _complain(directory: Path, reason: str) -> None:
    print(
        f"numbatape: the kernel cache {directory} is not used: {reason}. Kernels are compiled in memory; "
        "NUMBATAPE_CACHE_DIR can name another directory.",
        file=sys.stderr,
        flush=True,
    )


@functools.cache
def _hash_of(level: Level | None):
    """Return a hash of everything besides the source that decides what an object file contains."""
    if level is None:
        # A release of llvmlite is built with one LLVM; the library itself would take 50 ms to import.
        made_for = (llvmlite.__version__, sys.platform, machine.identity())
    else:
        made_for = tuple(map(str, level))
    return hashlib.sha256("\0".join([*made_for, versions.COMPILER]).encode())


def key_of(source: str, level: Level | None = None) -> str:
    """Return the content hash under which the kernels of a source text, all of it, are stored.

    Parameters
    ----------
    level
        The level of processors that they are compiled for; this very processor unless one is given.
    """
    key = _hash_of(level).copy()
    key.update(source.encode())
    return key.hexdigest()[:24]


def packed(key: str, compiled: ObjectFile) -> bytes:
    """Return an object file as bytes: a header line, and the object."""
    fields = {
        "tier": compiled.tier,
        "entries": compiled.entries,
        "externals": compiled.externals,
        "sha256": compiled.checksum(key),
    }
    return json.dumps(fields).encode() + b"\n" + compiled.code


def unpacked(key: str, content: bytes) -> ObjectFile | None:
    """Return the object file that was packed, or None where it is damaged, or another kernel's."""
    header, _, code = content.partition(b"\n")
    try:
        fields = json.loads(header) if len(header) <= HEADER else {}
        found = ObjectFile(tuple(fields["entries"]), tuple(fields["externals"]), code, fields["tier"])
        return found if found.checksum(key) == fields["sha256"] else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def read(name: str, key: str) -> ObjectFile | None:
    """Return the stored object file, or None when it is missing, damaged, another's, or another kernel's."""
    directory = usable_directory()
    if directory is None:
        return None
    path = directory / f"{name}-{key}.nto"
    try:
        found = unpacked(key, trust.read_own(path))
    except OSError:
        return None
    if found is not None:
        _note_use(path)
    return found


def _note_use(path: Path) -> None:
    """Set a file's time to now, at most once a day: `prune` deletes by it."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > DAY:
            os.utime(path)


def write(name: str, key: str, compiled: ObjectFile, source: str) -> bool:
    """Store an object file and, beside it, its source; False where the directory cannot be used."""
    directory = usable_directory()
    if directory is None:
        return False
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(directory / f"{name}-{key}.py", source.encode())
        replace(directory / f"{name}-{key}.nto", packed(key, compiled))
    except OSError:
        return False
    _prune_once(directory)
    return True


def exchange(name: str, key: str, compiled: ObjectFile) -> bool:
    """Replace a stored object file; False where there is none any more, or it cannot be written.

    A directory that somebody has deleted is not made again: they may be about to delete the one above it.
    """
    directory = usable_directory()
    path = directory and directory / f"{name}-{key}.nto"
    if path is None or not path.exists():
        return False
    try:
        replace(path, packed(key, compiled))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def turn(name: str, key: str) -> Iterator[None]:
    """Let one process at a time into the context for a kernel, where there is a directory that they share."""
    directory = usable_directory()
    if directory is None:
        yield
        return
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locks.only_one(directory / f"{name}-{key}.lock"):
        yield


def replace(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or nothing."""
    import tempfile  # The import takes 5 ms, and is needed only where something is stored.

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@functools.cache
def _prune_once(directory: Path) -> None:
    prune(directory)


def _statuses(directory: Path) -> dict[str, os.stat_result]:
    """Return the files of a directory by name; a cache has tens of thousands, so each is asked once."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(directory) as entries:  # there may be no such directory
        for entry in entries:
            with contextlib.suppress(OSError):  # another process has deleted it
                if not entry.is_dir(follow_symlinks=False):
                    found[entry.name] = entry.stat(follow_symlinks=False)
    return found


def _objects(statuses: dict[str, os.stat_result]) -> Iterator[tuple[str, float, int]]:
    """Yield stem and time of use of each object file, and its bytes with those of its source."""
    for name, status in statuses.items():
        stem, _, suffix = name.rpartition(".")
        if suffix == "nto":
            source = statuses.get(f"{stem}.py")
            yield stem, status.st_mtime, status.st_size + (source.st_size if source else 0)


def prune(directory: Path, days: float = UNUSED_DAYS, size: int = LARGEST) -> tuple[int, int]:
    """Delete kernels that were not used for some days and, beyond a total size, those used longest ago.

    Leftovers of a process that was killed (``.tmp-*``, a lock) are deleted after a day.

    Returns
    -------
    tuple of int
        How many kernels were deleted, and their bytes.
    """
    now, statuses = time.time(), _statuses(directory)
    for name, status in statuses.items():
        if name.startswith(".tmp-") or name.endswith(".lock"):
            with contextlib.suppress(OSError):
                if now - status.st_mtime > DAY:
                    os.unlink(directory / name)
    total = count = freed = 0
    for stem, time_of_use, bytes_ in sorted(_objects(statuses), key=lambda row: row[1], reverse=True):
        total += bytes_
        if now - time_of_use > days * DAY or total > size:
            count, freed = count + 1, freed + bytes_
            for suffix in ("nto", "py"):
                with contextlib.suppress(OSError):
                    os.unlink(directory / f"{stem}.{suffix}")
    return count, freed


class Stored(NamedTuple):
    """A kernel in the cache directory: its name, bytes (of object and source), days since its last use, tier.

    Uses are noted once a day. The tier is one of `TIERS`, or "" where the file is damaged.
    """

    name: str
    bytes: int
    days: float
    tier: str


def stored() -> list[Stored]:
    """Return the kernels in the cache directory, by name."""
    now, directory = time.time(), cache_directory()
    return sorted(
        Stored(stem.rpartition("-")[0], bytes_, max(0.0, now - time_of_use) / DAY, _tier(directory, stem))
        for stem, time_of_use, bytes_ in _objects(_statuses(directory))
    )


def _tier(directory: Path, stem: str) -> str:
    """Return what the header of an object file says of its tier, or "" where it says nothing."""
    try:
        with (directory / f"{stem}.nto").open("rb") as file:
            tier = json.loads(file.readline(HEADER))["tier"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return tier if tier in TIERS else ""


def with_tier(directory: Path, tier: str) -> list[str]:
    """Return the stems of the object files whose headers name a tier."""
    return [stem for stem, *_ in _objects(_statuses(directory)) if _tier(directory, stem) == tier]


def size() -> int:
    """Return the bytes of all files in the cache directory."""
    return sum(status.st_size for status in _statuses(cache_directory()).values())
