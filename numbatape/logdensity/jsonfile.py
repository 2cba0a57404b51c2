"""JSON, plain or as the one file in a zip archive (as posteriordb keeps its data and draws)."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any

import numpy as np

from numbatape.logdensity.exits import InputError

TOO_DEEP = "lists and objects are nested too deeply"


def parse_json(raw: bytes, name: str) -> Any:
    """Parse the bytes of a .json or .json.zip file; errors name the file, line and column."""
    if raw.startswith(b"PK"):
        raw = _only_member(raw, name)
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise InputError(f"{name}: line {line}, column {column}: not UTF-8 text") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{name}: {where}: {error.msg}") from error
    except ValueError as error:  # an integer of too many digits
        raise InputError(f"{name}: {error}") from error
    except RecursionError as error:
        raise InputError(f"{name}: {TOO_DEEP}") from error


def _only_member(raw: bytes, name: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = [m for m in archive.namelist() if m.endswith(".json")]
            if len(members) != 1:
                raise InputError(f"{name}: expected one .json file in the archive, found {len(members)}")
            return archive.read(members[0])
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        # A NotImplementedError says that Python lacks the compression, a RuntimeError that there is a
        # password.
        raise InputError(f"{name}: damaged zip archive: {error}") from error


def parse_data(raw: bytes, name: str) -> Any:
    """Parse a data file, with its lists of numbers as arrays."""
    try:
        return to_arrays(parse_json(raw, name))
    except RecursionError as error:
        raise InputError(f"{name}: {TOO_DEEP}") from error


def to_arrays(tree: Any) -> Any:
    """Return `tree` with its lists of numbers as arrays: integers stay integers, numbers stay Python's."""
    if isinstance(tree, dict):
        return {key: to_arrays(value) for key, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    if _holds_only_numbers(tree):
        try:
            array = np.array(tree)
        except (ValueError, OverflowError):  # lists of different lengths, or an integer beyond all floats
            array = np.array(None)
        if array.dtype.kind in "bif":
            return array
    return [to_arrays(item) for item in tree]


def _holds_only_numbers(tree: list[Any]) -> bool:
    kinds = set(map(type, tree))
    if kinds == {list}:
        return all(map(_holds_only_numbers, tree))
    return kinds <= {int, float} or kinds == {bool}
