"""Object files that come with the installed package: an archive and a manifest for each level of processors.

A release build (``hatch_build.py``) compiles the whole library of kernels and puts two files a level into
the wheel. The archive holds packed object files, one after the other. A line of the manifest has the key of a
text, the SHA-256 of what is packed, where that begins, how many bytes it takes, and the kernel's name.

Who can write to these files can write to the Python files beside them, which run unasked. So no owner is
checked, but damage is: nothing is unpacked whose hash is not the manifest's. A text, a compiler or a level
that the archive was not made for has another key, which no line has.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from pathlib import Path

from . import processor_levels, store
from .processor_levels import Level

DIRECTORY = Path(__file__).parents[1] / "kernels"


def files(level: Level, directory: Path | None = None) -> tuple[Path, Path]:
    """Return the paths of a level's manifest and archive, in the package or in another directory."""
    directory = directory or DIRECTORY
    return directory / f"{level.name}.manifest", directory / f"{level.name}.objects"


@functools.cache
def manifest(level: Level) -> dict[str, str]:
    """Return a manifest's lines by key; none where no archive was shipped."""
    try:
        text = files(level)[0].read_text()
    except (OSError, ValueError):
        return {}
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def level() -> Level | None:
    """Return the best level of this machine that was shipped."""
    return next((level for level in processor_levels.here() if manifest(level)), None)


def read(source: str) -> tuple[str, store.ObjectFile] | None:
    """Return the key and the object file of a source text, or None where none was shipped in good order."""
    best = level()
    if best is None:
        return None
    key = store.key_of(source, best)
    try:
        digest, first, count, _ = manifest(best)[key].split(" ", 3)
        with files(best)[1].open("rb") as file:
            file.seek(int(first))
            packed = file.read(int(count))
        if hashlib.sha256(packed).hexdigest() != digest:
            return None
        found = store.unpacked(key, zlib.decompress(packed))
    except (KeyError, OSError, ValueError, OverflowError, zlib.error):
        return None
    return None if found is None else (key, found)
