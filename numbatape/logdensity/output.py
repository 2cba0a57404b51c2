"""Writing files completely or not at all: a temporary file, fsync, rename."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix

SUFFIXES = (".npz", ".csv")
ZARR = ".zarr"  # a directory that counts as one file
CSV_MARK = "# numbatape "  # begins the line with the run's identity, which follows as JSON
ROWS_AT_ONCE = 4096


def check_output(path: Path, inputs: list[str], suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise an `InputError` unless `path` can be written; called before any work starts."""
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: the output is a {' or '.join(suffixes)} file")
    if path.is_dir():
        if path.suffix != ZARR or not (path / "zarr.json").is_file():
            raise InputError(f"{path}: is a directory")
    elif path.exists():
        # Renaming over a device or a pipe would replace it by a file.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: exists and is not a regular file")
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: is not writable")
        for name in inputs:
            if os.path.exists(name) and os.path.samefile(name, path):
                raise InputError(f"{path}: is an input of this run")
    folder = _real(path).parent
    if not folder.is_dir():
        raise InputError(f"{path}: the directory {folder} does not exist")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{path}: cannot write to {folder}: {error.strerror or error}") from error


def atomic_write(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Create or replace `path` with what `write` writes, in one step.

    Until then the bytes are in a file without a name, where the system has such files, so that even
    a kill that no handler can catch leaves nothing behind.
    """
    target = _real(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # left by a killed process that had the same number
    unnamed = _open_unnamed(target.parent)
    try:
        with unnamed or open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if unnamed:
                _give_name(file.fileno(), temporary)
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{path}: {error.strerror or error}") from error
        raise
    _sync_folder(target.parent)


def write_result(
    path: Path, identity: dict[str, Any], names: list[str], logp: Matrix, grad: Matrix | None
) -> None:
    """Write log-densities and gradients as .npz or .csv, with the run's identity."""
    if path.suffix.lower() == ".npz":
        arrays: dict[str, Any] = {"logp": logp, "names": np.array(names, dtype=np.str_)}
        if grad is not None:
            arrays["grad"] = grad
        arrays.update({key: np.array(value) for key, value in identity.items()})
        atomic_write(path, lambda file: np.savez(file, **arrays))
    else:
        atomic_write(path, lambda file: file.writelines(_csv_lines(identity, names, logp, grad)))


def read_result(path: Path, identity: dict[str, Any]) -> Matrix | None:
    """Return (logp, grad) side by side if `path` holds the finished result of this very run."""
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as file:
                if any(key not in file or file[key].item() != value for key, value in identity.items()):
                    return None
                columns = [file["logp"][:, None]] + ([file["grad"]] if identity["with_grad"] else [])
                return np.hstack(columns)
        with open(path) as text:
            first = text.readline()
            if first != _csv_mark(identity):
                return None
            text.readline()
            return np.loadtxt(text, delimiter=",", comments=None, ndmin=2)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):  # missing, or another file
        return None


def _csv_lines(
    identity: dict[str, Any], names: list[str], logp: Matrix, grad: Matrix | None
) -> Iterator[bytes]:
    yield _csv_mark(identity).encode()
    header = io.StringIO()
    labels = ["logp"] + ([f"grad_{name}" for name in names] if grad is not None else [])
    csv.writer(header, lineterminator="\n").writerow(labels)
    yield header.getvalue().encode()
    for start in range(0, len(logp), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        block = logp[rows, None] if grad is None else np.column_stack([logp[rows], grad[rows]])
        # The repr is the shortest text that is read back as the same number.
        yield "".join(",".join(map(repr, row)) + "\n" for row in block.tolist()).encode()


def _csv_mark(identity: dict[str, Any]) -> str:
    return CSV_MARK + json.dumps(identity) + "\n"


def _real(path: Path) -> Path:
    """Follow links, so that the file they lead to is replaced rather than the link."""
    return Path(os.path.realpath(path))


def _open_unnamed(folder: Path) -> BinaryIO | None:
    """Open a file without a name in `folder`; None where the system or the disk has no such files."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    except OSError:
        return None


def _give_name(descriptor: int, path: Path) -> None:
    # With a dir_fd, Python calls linkat and follows the link in /proc; without one, it would not.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where directories can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
