"""Finished blocks of rows beside the output, in ``OUT.parts/``."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.journal import Journal
from numbatape.logdensity.matrix import Matrix

WAY_OUT = "remove it to start again, or leave --resume out"


def _is_block(line: dict[str, Any]) -> bool:
    """Whether a line of a manifest describes a block."""
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
        self._journal = Journal(self.folder, identity, _is_block, WAY_OUT)

    def __len__(self) -> int:
        return len({block["start"] for block in self._journal.pieces})

    def restore(self, table: Matrix) -> list[tuple[int, int]]:
        """Copy the finished blocks into `table`; return the row ranges that are still missing."""
        done = np.zeros(len(table), dtype=bool)
        for block in self._journal.pieces:
            start, stop = block["start"], block["stop"]
            raw = self._journal.read(block, _file_of(start))
            rows = None if raw is None else np.load(io.BytesIO(raw), allow_pickle=False)
            if rows is not None and rows.shape == table[start:stop].shape:
                table[start:stop] = rows
                done[start:stop] = True
        edges = np.flatnonzero(np.diff(np.concatenate([[True], done, [True]]).astype(np.int8)))
        return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

    def save(self, start: int, rows: Matrix) -> None:
        """Keep a finished block; called by the worker threads."""
        buffer = io.BytesIO()
        np.save(buffer, rows)
        block = {"start": start, "stop": start + len(rows)}
        self._journal.keep(block, _file_of(start), buffer.getvalue())

    def remove(self) -> None:
        """Delete the directory: the output is complete."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Release the lock; the blocks stay."""
        self._journal.close()


def _file_of(start: int) -> str:
    return f"rows-{start:012d}.npy"
