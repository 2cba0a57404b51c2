"""Read files of draws: CmdStan and plain CSV, NumPy, posteriordb's JSON, and ArviZ's."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from numbatape.logdensity.arviz_files import OURS, arrays_of, digest_of, file_of_run, read_group
from numbatape.logdensity.arviz_files import SUFFIXES as ARVIZ
from numbatape.logdensity.csvfile import parse_csv
from numbatape.logdensity.element_names import element_name
from numbatape.logdensity.exits import InputError
from numbatape.logdensity.jsonfile import parse_json
from numbatape.logdensity.matrix import Matrix
from numbatape.logdensity.rawfile import read_bytes, unpacked


@dataclass(frozen=True)
class Draws:
    """A matrix of draws.

    Attributes
    ----------
    source : str
        The file's path as given; of several files, the first and how many more.
    names : tuple of str, or None
        The columns as the file spells them; None for a bare matrix.
    values : float64 array, (draws, columns)
    sha256 : str
        Hash of the file; of several, of their hashes.
    chains : int
        How many chains of the same length stand below each other.
    theta : Draws, or None
        The unconstrained parameters, where a file of `numbatape sample` has them.
    model_sha256 : str
        Of the model that drew them; empty where it is not known.
    """

    source: str
    names: tuple[str, ...] | None
    values: Matrix
    sha256: str
    chains: int = 1
    theta: Draws | None = None
    model_sha256: str = ""


def read_draws(*files: str) -> Draws:
    """Read files of draws (one for each chain, say) and put them together."""
    return _together([_read_file(file) for file in files])


def _together(parts: list[Draws]) -> Draws:
    first, *others = parts
    if not others:
        return first
    blocks = [first.values, *(_like(first, other) for other in others)]
    hashes = "".join(part.sha256 for part in parts)
    lengths = {len(part.values) / part.chains for part in parts}
    thetas = [part.theta for part in parts if part.theta is not None]
    models = {part.model_sha256 for part in parts}
    return Draws(
        source=f"{first.source} and {len(others)} more",
        names=first.names,
        values=np.ascontiguousarray(np.vstack(blocks)),
        sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        chains=sum(part.chains for part in parts) if len(lengths) == 1 else 1,
        theta=_together(thetas) if len(thetas) == len(parts) and len(models) == 1 else None,
        model_sha256=first.model_sha256,
    )


def _like(first: Draws, chain: Draws) -> Matrix:
    """Return a chain's draws with the columns of the first file."""
    if (first.names is None) != (chain.names is None):
        named, bare = (first, chain) if chain.names is None else (chain, first)
        raise InputError(f"{named.source} names its columns, {bare.source} does not")
    if first.names is None or chain.names is None:
        if first.values.shape[1] != chain.values.shape[1]:
            raise InputError(
                f"{chain.source} has {chain.values.shape[1]} columns, {first.source} {first.values.shape[1]}"
            )
        return chain.values
    odd = sorted(set(first.names) ^ set(chain.names))
    if odd:
        raise InputError(f"{first.source} and {chain.source} differ in the columns {', '.join(odd)}")
    return chain.values[:, [chain.names.index(name) for name in first.names]]


def _read_file(file: str) -> Draws:
    """Read a file of draws, its kind told by the suffix (.json and .zip alike hold JSON), or a run's."""
    path = Path(file)
    if path.is_dir() and path.suffix not in ARVIZ:
        path = file_of_run(path)
        file = str(path)
    if path.suffix in ARVIZ:
        return _read_arviz(path, file)
    kind = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    reader = READERS.get(kind.lower())
    if reader is None:
        kinds = ", ".join(sorted([*READERS, *ARVIZ]))
        raise InputError(f"{file}: draws are read from {kinds} files (or .gz), not `{kind or path.name}`")
    raw = read_bytes(path)
    content = unpacked(raw, file)[0]
    names, values = reader(content, file)
    if names is not None:
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise InputError(f"{file}: duplicate column {', '.join(repeated)}")
    if values.size == 0:
        raise InputError(f"{file}: holds no draws")
    draws = Draws(file, names, values, hashlib.sha256(raw).hexdigest())
    return _with_theta(draws, content) if reader is _read_npz else draws


def _with_theta(draws: Draws, content: bytes) -> Draws:
    """Return the draws of an .npz file of `numbatape optimize` with theta, which it holds too."""
    with _load(content, draws.source) as archive:
        if not {"theta", "theta_names", "model_sha256"} <= set(archive.files):
            return draws
        names = tuple(archive["theta_names"].tolist())
        theta = replace(draws, names=names, values=_matrix(archive["theta"], draws.source))
        return replace(draws, theta=theta, model_sha256=str(archive["model_sha256"]))


def _read_arviz(path: Path, file: str) -> Draws:
    """Read the posterior of a file of ArviZ; theta, if `numbatape` has written it there."""
    posterior = read_group(path, "posterior")
    theta = read_group(path, "unconstrained_posterior")
    main = theta if posterior is None else posterior
    if main is None:
        raise InputError(f"{file}: has no group `posterior`")
    ours = main.attrs.get("inference_library") == OURS
    model = str(main.attrs.get("model_sha256", "")) if ours else ""
    sha256 = digest_of(path)

    def draws(group: Any) -> Draws:
        arrays = arrays_of(group)
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
        names, values = _side_by_side(flat, file)
        if values.size == 0:
            raise InputError(f"{file}: holds no draws")
        return Draws(file, names, values, sha256, group.sizes["chain"], None, model)

    return replace(draws(main), theta=draws(theta) if theta is not None and ours else None)


def _read_npy(raw: bytes, file: str) -> tuple[None, Matrix]:
    return None, _matrix(_load(raw, file), file)


def _read_npz(raw: bytes, file: str) -> tuple[tuple[str, ...] | None, Matrix]:
    """Read a matrix (alone, or called `draws`, with `names` beside it) or one array per parameter."""
    arrays = read_archive(raw, file)
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


def read_archive(raw: bytes, file: str) -> dict[str, Any]:
    """Return the arrays of an .npz file by name."""
    archive = _load(raw, file)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InputError(f"{file}: not an .npz file, but one array")
    with archive:
        try:
            return {name: archive[name] for name in archive.files}
        except (ValueError, zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise InputError(f"{file}: {error}") from error


def _load(raw: bytes, file: str) -> Any:
    try:
        return np.load(io.BytesIO(raw), allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        # NumPy takes any other bytes for a pickle, and advises how to load one.
        known = raw.startswith((b"\x93NUMPY", b"PK"))
        raise InputError(f"{file}: not a NumPy file" + (f": {error}" if known else "")) from error


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
        names += [element_name(name, index) for index in np.ndindex(array.shape[1:])]
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
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError as error:
        raise InputError(f"{where}: an integer that no float can hold") from error


READERS = {
    ".csv": parse_csv,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".json": _read_json,
    ".zip": _read_json,
}
