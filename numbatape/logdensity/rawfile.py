"""The bytes of a file, unpacked where it is compressed by gzip."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from numbatape.logdensity.exits import InputError


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, or raise an `InputError` that names it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def unpacked(raw: bytes, file: str) -> tuple[bytes, str]:
    """Return a file's content and the suffix that tells its kind: ``.csv`` for ``draws.csv.gz``."""
    path = Path(file)
    if path.suffix.lower() != ".gz":
        return raw, path.suffix.lower()
    try:
        return gzip.decompress(raw), Path(path.stem).suffix.lower()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: not a whole gzip file: {error}") from error
