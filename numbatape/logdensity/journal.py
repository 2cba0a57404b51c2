"""A directory of finished pieces of work, so that a killed run can be resumed.

It holds one file for each piece and ``manifest.jsonl``: first the run's identity, then one line for each
finished piece. A line is appended only after its file is safely on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.output import atomic_write

try:
    import fcntl
except ImportError:  # Windows: without the lock
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.jsonl"
DAMAGED = "damaged manifest; remove the directory to start again"


class Journal:
    """The finished pieces of one run; the directory is locked while the journal is open.

    Attributes
    ----------
    pieces : list of dict
        The lines of the manifest below the identity: what `keep` was given, and the file's hash.

    Raises
    ------
    InputError
        If the directory belongs to another run, or another process works on it.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, Any],
        is_piece: Callable[[dict[str, Any]], bool],
        way_out: str,
    ) -> None:
        self.folder, self._way_out = folder, way_out
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(exist_ok=True)
            self._manifest: IO[str] = open(  # noqa: SIM115  (open and locked during the whole run)
                self.folder / MANIFEST, "a+", encoding="ascii"
            )
        except OSError as error:
            raise InputError(f"{self.folder}: {error.strerror or error}") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._manifest.close()
                raise InputError(f"{self.folder}: another run is working on it") from error
        try:
            self.pieces = self._take_up(identity, is_piece)
        except BaseException:
            self._manifest.close()
            raise

    def _take_up(
        self, identity: dict[str, Any], is_piece: Callable[[dict[str, Any]], bool]
    ) -> list[dict[str, Any]]:
        """Return the lines of the manifest, after checking that they are this run's."""
        self._manifest.seek(0)
        found, pieces, whole = parse_manifest(self._manifest, self.folder)
        if not all(isinstance(piece.get("sha256"), str) and is_piece(piece) for piece in pieces):
            raise InputError(f"{self.folder}: {DAMAGED}")
        if not pieces:
            self._manifest.truncate(0)
            self._append(identity)
        elif found != identity:
            different = ", ".join(sorted(k for k in found | identity if found.get(k) != identity.get(k)))
            raise InputError(
                f"{self.folder}: belongs to another run (different: {different}); {self._way_out}"
            )
        else:
            self._manifest.truncate(whole)
        return pieces

    def keep(self, piece: dict[str, Any], name: str, raw: bytes) -> None:
        """Write a finished piece's file, then its line; called by any thread."""

        def write(file: BinaryIO) -> None:
            file.write(raw)

        atomic_write(self.folder / name, write)
        line = {**piece, "sha256": hashlib.sha256(raw).hexdigest()}
        with self._lock:
            self._append(line)
            self.pieces.append(line)

    def read(self, piece: dict[str, Any], name: str) -> bytes | None:
        """Return the bytes of a piece's file, or None if it is gone or not what was written."""
        try:
            raw = (self.folder / name).read_bytes()
        except OSError:
            return None
        return raw if hashlib.sha256(raw).hexdigest() == piece["sha256"] else None

    def close(self) -> None:
        """Release the lock; the pieces stay."""
        self._manifest.close()

    def _append(self, line: dict[str, Any]) -> None:
        self._manifest.write(json.dumps(line) + "\n")
        self._manifest.flush()
        os.fsync(self._manifest.fileno())


def parse_manifest(file: IO[str], folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """Return a manifest's identity, its other lines, and how many characters are whole lines."""
    try:
        text = file.read()
        whole = text[: text.rfind("\n") + 1]  # a kill may have interrupted the last line
        found, *pieces = map(json.loads, whole.splitlines() or ["{}"])
    except (ValueError, RecursionError) as error:  # The line is not ASCII, or not JSON.
        raise InputError(f"{folder}: {DAMAGED}") from error
    if not all(isinstance(line, dict) for line in (found, *pieces)):
        raise InputError(f"{folder}: {DAMAGED}")
    return found, pieces, len(whole)
