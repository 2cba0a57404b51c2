"""Names of the elements of arrays: ``x[0]``, or ``x.1`` as Stan has them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

INDEXED = re.compile(r"(.+?)((?:\.\d+)+|(?:\[\s*\d+\s*(?:,\s*\d+\s*)*\])+)")
Index = tuple[int, ...]


def element_name(name: str, index: Index) -> str:
    """Return the name of an array's element, as NumPy would index it."""
    return name + (str(list(index)).replace(" ", "") if index else "")


@functools.cache
def split_name(name: str) -> tuple[str, Index]:
    """``x[1]``, ``x.1`` -> ``("x", (1,))``; a plain name has no index."""
    match = INDEXED.fullmatch(name)
    if match is None:
        return name, ()
    return match[1], tuple(map(int, re.findall(r"\d+", match[2])))


def by_array(names: Iterable[str]) -> dict[tuple[str, int], dict[Index, list[int]]]:
    """Group names by array (base name, number of indices) and index."""
    arrays: dict[tuple[str, int], dict[Index, list[int]]] = {}
    for k, name in enumerate(names):
        base, index = split_name(name)
        arrays.setdefault((base, len(index)), {}).setdefault(index, []).append(k)
    return arrays
