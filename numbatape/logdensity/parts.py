"""Finished blocks of rows beside the output, so that a killed run can be resumed.

``OUT.parts/`` holds one file per block and a manifest of JSON lines: first the run's identity, then
one line per finished block. A line is appended only after its block is safely on disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import threading
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.output import atomic_write

try:
    import fcntl
except ImportError:  # Windows: without the lock
    fcntl = None  # type: ignore[assignment]


DAMAGED = "damaged manifest; remove the directory to start again"


def _is_block(line: Any) -> bool:
    """Whether a line of a manifest describes a block."""
    if not isinstance(line, dict) or not isinstance(line.get("sha256"), str):
        return False
    start, stop = line.get("start"), line.get("stop")
    return type(start) is int and type(stop) is int and 0 <= start <= stop


class Parts:
    """The finished blocks of one run.

    Raises
    ------
    InputError
        If the directory belongs to another run, or another process works on it.
    """

    def __init__(self, output: Path, identity: dict[str, Any]) -> None:
        self.folder = output.with_name(output.name + ".parts")
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(exist_ok=True)
            self._manifest: IO[str] = open(  # noqa: SIM115  (open and locked during the whole run)
                self.folder / "manifest.jsonl", "a+", encoding="ascii"
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
            self._blocks = self._take_up(identity)
        except BaseException:
            self._manifest.close()
            raise

    def _take_up(self, identity: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the blocks of the manifest, after checking that they are this run's."""
        self._manifest.seek(0)
        try:
            text = self._manifest.read()
            whole = text[: text.rfind("\n") + 1]  # a kill may have interrupted the last line
            found, *blocks = map(json.loads, whole.splitlines() or ["{}"])
        except (ValueError, RecursionError) as error:  # it is not ASCII, or not JSON
            raise InputError(f"{self.folder}: {DAMAGED}") from error
        if not isinstance(found, dict) or not all(map(_is_block, blocks)):
            raise InputError(f"{self.folder}: {DAMAGED}")
        if not blocks:
            self._manifest.truncate(0)
            self._append(identity)
        elif found != identity:
            different = ", ".join(sorted(k for k in found | identity if found.get(k) != identity.get(k)))
            raise InputError(
                f"{self.folder}: belongs to another run (different: {different}); remove it to start "
                "again, or leave --resume out"
            )
        else:
            self._manifest.truncate(len(whole))  # in ASCII each character is one byte
        return blocks

    def restore(self, table: Matrix) -> list[tuple[int, int]]:
        """Copy the finished blocks into `table`; return the row ranges that are still missing."""
        done = np.zeros(len(table), dtype=bool)
        for block in self._blocks:
            start, stop = block["start"], block["stop"]
            rows = self._load(block)
            if rows is not None and rows.shape == table[start:stop].shape:
                table[start:stop] = rows
                done[start:stop] = True
        edges = np.flatnonzero(np.diff(np.concatenate([[True], done, [True]]).astype(np.int8)))
        return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

    def _load(self, block: dict[str, Any]) -> Matrix | None:
        """Return a block's rows, or None if its file is gone or not what was written."""
        try:
            raw = self._path(block["start"]).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw).hexdigest() != block["sha256"]:
            return None
        rows: Matrix = np.load(io.BytesIO(raw), allow_pickle=False)
        return rows

    def save(self, start: int, rows: Matrix) -> None:
        """Keep a finished block; called by the worker threads."""
        buffer = io.BytesIO()
        np.save(buffer, rows)
        raw = buffer.getvalue()

        def write(file: BinaryIO) -> None:
            file.write(raw)

        atomic_write(self._path(start), write)
        line = {"start": start, "stop": start + len(rows), "sha256": hashlib.sha256(raw).hexdigest()}
        with self._lock:
            self._append(line)

    def remove(self) -> None:
        """Delete the directory: the output is complete."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Release the lock; the blocks stay."""
        self._manifest.close()

    def _append(self, line: dict[str, Any]) -> None:
        self._manifest.write(json.dumps(line) + "\n")
        self._manifest.flush()
        os.fsync(self._manifest.fileno())

    def _path(self, start: int) -> Path:
        return self.folder / f"rows-{start:012d}.npy"
