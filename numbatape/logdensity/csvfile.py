"""CSV with a header, read by NumPy; where that fails, a slower reader finds what is wrong, and where."""

from __future__ import annotations

import csv
import re

import numpy as np

from numbatape.logdensity.exits import InputError
from numbatape.logdensity.matrix import Matrix

NUMBER = re.compile(r"[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)


def parse_csv(raw: bytes, file: str) -> tuple[tuple[str, ...], Matrix]:
    """Return column names and values; lines that start with ``#`` and empty lines are skipped.

    An unnamed first column, the row names that R and pandas write, is left out.
    """
    lines = _decode(raw, file).split("\n")
    numbers = [n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    if not numbers:
        raise InputError(f"{file}: empty, expected a header of column names")
    first, body = numbers[0], numbers[1:]
    names = _header(lines[first], f"{file}: line {first + 1}")
    if body:
        try:
            values = np.loadtxt([lines[n] for n in body], delimiter=",", comments=None, ndmin=2)
        except ValueError:
            values = None
        if values is None or values.shape[1] != len(names):
            values = _read_carefully(lines, body, names, file)
    else:
        values = np.empty((0, len(names)))
    if names[0] == "":
        return tuple(names[1:]), np.ascontiguousarray(values[:, 1:])
    return tuple(names), values


def _decode(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise InputError(f"{file}: line {line}, character {column}: not UTF-8 text") from error


def _header(line: str, where: str) -> list[str]:
    names = [name.strip() for name in _fields(line, where)]
    seen: set[str] = set()
    for column, name in enumerate(names, 1):
        if name == "" and (column > 1 or len(names) == 1):
            raise InputError(f"{where}, column {column}: empty column name")
        if NUMBER.fullmatch(name):
            raise InputError(f"{where}, column {column}: expected a header of names, found the number {name}")
        if name in seen:
            raise InputError(f"{where}, column {column}: duplicate column {name}")
        seen.add(name)
    return names


def _fields(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")], strict=True))
    except csv.Error as error:
        raise InputError(f"{where}: {error}") from error


def _read_carefully(lines: list[str], body: list[int], names: list[str], file: str) -> Matrix:
    """Read field by field: quoted numbers are fine, anything else is reported by line and column."""
    values = np.full((len(body), len(names)), np.nan)
    for row, n in enumerate(body):
        where = f"{file}: line {n + 1}"
        fields = _fields(lines[n], where)
        for column, (name, field) in enumerate(zip(names, fields, strict=False), 1):
            if name == "":  # row names, left out by the caller
                continue
            text = field.strip()
            if not NUMBER.fullmatch(text):
                what = f"`{text}` is not a number" if text else "no value"
                raise InputError(f"{where}, column {column} ({name}): {what}")
            values[row, column - 1] = float(text)
        if len(fields) < len(names):
            missing = names[len(fields)]
            raise InputError(
                f"{where}, column {len(fields) + 1} ({missing}): the line ends after {len(fields)} of "
                f"{len(names)} values"
            )
        if len(fields) > len(names):
            raise InputError(
                f"{where}, column {len(names) + 1}: {len(fields)} values under {len(names)} column names"
            )
    return values
