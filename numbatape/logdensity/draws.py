"""Read files of draws: CmdStan and plain CSV, NumPy, and posteriordb's JSON."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.csvfile import parse_csv
from numbatape.logdensity.failures import InputError
from numbatape.logdensity.jsonfile import parse_json
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.models import read_bytes


@dataclass(frozen=True)
class Draws:
    """A matrix of draws.

    Attributes
    ----------
    source : str
        The file's path as given.
    names : tuple of str, or None
        The columns as the file spells them; None for a bare matrix.
    values : float64 array, (draws, columns)
    sha256 : str
        Hash of the file.
    """

    source: str
    names: tuple[str, ...] | None
    values: Matrix
    sha256: str


def read_draws(file: str) -> Draws:
    """Read a file of draws, its kind told by the suffix (.json and .zip alike hold JSON)."""
    path = Path(file)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        kinds = ", ".join(sorted(READERS))
        raise InputError(f"{file}: draws are read from {kinds} files, not `{path.suffix or path.name}`")
    raw = read_bytes(path)
    names, values = reader(raw, file)
    if names is not None:
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise InputError(f"{file}: duplicate column {', '.join(repeated)}")
    if values.size == 0:
        raise InputError(f"{file}: holds no draws")
    return Draws(file, names, values, hashlib.sha256(raw).hexdigest())


def _read_npy(raw: bytes, file: str) -> tuple[None, Matrix]:
    return None, _matrix(_load(raw, file), file)


def _read_npz(raw: bytes, file: str) -> tuple[tuple[str, ...] | None, Matrix]:
    """Read a matrix (alone, or called `draws`, with `names` beside it) or one array a parameter."""
    with _load(raw, file) as archive:
        try:
            arrays = {name: archive[name] for name in archive.files}
        except (ValueError, zipfile.BadZipFile, EOFError) as error:
            raise InputError(f"{file}: {error}") from error
    names = arrays.pop("names", None)
    if "draws" in arrays:
        arrays = {"draws": arrays["draws"]}
    if len(arrays) != 1 or next(iter(arrays.values())).ndim != 2:
        return _side_by_side(arrays, file)
    matrix = _matrix(next(iter(arrays.values())), file)
    if names is None:
        return None, matrix
    if names.shape != matrix.shape[1:] or names.dtype.kind != "U":
        raise InputError(f"{file}: `names` must hold {matrix.shape[1]} strings, one a column")
    return tuple(names.tolist()), matrix


def _load(raw: bytes, file: str) -> Any:
    try:
        return np.load(io.BytesIO(raw), allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{file}: not a NumPy file: {error}") from error


def _matrix(array: Any, file: str) -> Matrix:
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        shape = getattr(array, "shape", "of several arrays")
        raise InputError(f"{file}: expected a matrix (draws, parameters), got shape {shape}")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{file}: expected real numbers, got dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _side_by_side(arrays: dict[str, Any], file: str) -> tuple[tuple[str, ...], Matrix]:
    """Lay arrays with the draws along their first axis side by side, elements named as in NumPy."""
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1 or lengths == {()}:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"
        raise InputError(f"{file}: expected arrays with one row a draw, found {shapes}")
    names: list[str] = []
    columns = []
    for name, array in arrays.items():
        suffixes = [str(list(index)).replace(" ", "") for index in np.ndindex(array.shape[1:])]
        names += [name + ("" if suffix == "[]" else suffix) for suffix in suffixes]
        columns.append(_matrix(array.reshape(len(array), -1), file))
    return tuple(names), np.hstack(columns)


def _read_json(raw: bytes, file: str) -> tuple[tuple[str, ...], Matrix]:
    """Read posteriordb draws: a list of chains, each a dictionary of name to numbers."""
    chains = parse_json(raw, file)
    if isinstance(chains, dict):
        chains = [chains]
    if not isinstance(chains, list) or not chains or not all(isinstance(c, dict) for c in chains):
        raise InputError(f"{file}: expected a list of chains, each a dictionary of name to numbers")
    names = tuple(chains[0])
    blocks = []
    for number, chain in enumerate(chains, 1):
        if set(chain) != set(names):
            odd = ", ".join(sorted(set(chain) ^ set(names)))
            raise InputError(f"{file}: chain {number} and chain 1 differ in the columns {odd}")
        columns = [_json_column(chain[name], f"{file}: chain {number}, column {name}") for name in names]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise InputError(f"{file}: chain {number} has columns of different lengths: {sorted(lengths)}")
        blocks.append(np.column_stack(columns) if columns else np.empty((0, 0)))
    return names, np.ascontiguousarray(np.vstack(blocks))


def _json_column(numbers: Any, where: str) -> Matrix:
    if not isinstance(numbers, list):
        raise InputError(f"{where}: expected a list of numbers, got {type(numbers).__name__}")
    for position, number in enumerate(numbers, 1):
        if type(number) not in (float, int):
            raise InputError(f"{where}, draw {position}: {number!r} is not a number")
    return np.array(numbers, dtype=np.float64)


READERS = {
    ".csv": parse_csv,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".json": _read_json,
    ".zip": _read_json,
}
