"""The directory of a run of ``numbatape sample``: finished chains, and the draws of all of them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.journal import MANIFEST, Journal, parse_manifest
from numbatape.logdensity.model_parameters import Arrays

WAY_OUT = "give another directory as --out, or remove this one"


def identity_in(folder: Path) -> dict[str, Any]:
    """Return the identity of the run that a directory belongs to; empty if it does not exist.

    Raises
    ------
    InputError
        If there is something else in the directory, or it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; --out is a directory")
    if not folder.parent.is_dir():
        raise InputError(f"{folder}: the directory {folder.parent} does not exist")
    try:
        with open(folder / MANIFEST, encoding="ascii") as file:
            return parse_manifest(file, folder)[0]
    except FileNotFoundError:
        if folder.exists() and os.listdir(folder):
            raise InputError(f"{folder}: is not empty, and holds no run; {WAY_OUT}") from None
        return {}
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}") from error


def _is_chain(line: dict[str, Any]) -> bool:
    return type(line.get("chain")) is int


class ChainFiles:
    """The finished chains of one run; the directory is locked until `close`."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self._journal = Journal(folder, identity, _is_chain, WAY_OUT)

    def __len__(self) -> int:
        return len({piece["chain"] for piece in self._journal.pieces})

    def restore(self, chains: Iterable[int]) -> dict[int, Arrays]:
        """Return those of the chains that are finished and whole."""
        wanted, found = set(chains), {}
        for piece in self._journal.pieces:
            chain = piece["chain"]
            raw = self._journal.read(piece, _file_of(chain)) if chain in wanted else None
            if raw is not None:
                with np.load(io.BytesIO(raw), allow_pickle=False) as file:
                    found[chain] = {name: file[name] for name in file.files}
        return found

    def save(self, chain: int, arrays: Arrays) -> None:
        """Keep a finished chain."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        self._journal.keep({"chain": chain}, _file_of(chain), buffer.getvalue())

    def close(self) -> None:
        """Release the lock; the chains stay."""
        self._journal.close()


def _file_of(chain: int) -> str:
    return f"chain-{chain:04d}.npz"
