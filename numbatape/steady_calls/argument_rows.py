"""One row for each leaf of the arguments and directions that a call was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..programs.arguments import KEYWORDS, STATIC, Flattened
from ..programs.variant import VariantWorkspace
from ..tape.tape import CONSTANT
from ..trace import pytrees
from ..trace.complex_pairs import join
from .leaf_rows import (
    ArrayRow,
    ComplexDataRow,
    ComplexRow,
    DataRow,
    FrozenRow,
    KnownNumberRow,
    LaneRow,
    NumberRow,
    Row,
    SameRow,
)


def rows_of(
    flat: Flattened,
    space: VariantWorkspace,
    omitted: frozenset[int] = frozenset(),
    lanes: frozenset[int] = frozenset(),
    more: Sequence[Row] = (),
) -> list[Row]:
    """Return one row per leaf of what a call is given, in the order in which calls take them apart.

    Parameters
    ----------
    omitted
        The arguments that calls leave out: constants that the cache was given at its preparation.
    lanes
        Numbers of the tape's inputs that have a point in each lane.
    more
        Rows of further leaves (directions, cotangents). They are behind the function's arguments and in front
        of keywords, among which are the values of variables that move.
    """
    rows: list[Row] = []
    before: Any = None  # the leaf before; that of an imaginary part is the real part
    cells = enumerate(space.inputs)
    columns = zip(flat.leaves, flat.specs, flat.by_identity, strict=True)
    for leaf, spec, by_identity in columns:
        if spec.argument == KEYWORDS and more:
            rows, more = [*rows, *more], ()
        if spec.level == STATIC:
            if spec.argument not in omitted:
                rows.append(SameRow(leaf))
            continue
        number, own = next(cells)
        dtype = np.dtype(spec.dtype)
        if number in lanes:
            if spec.part == "imag":
                real = rows[-1]
                assert isinstance(real, LaneRow)
                rows[-1] = LaneRow(real.cells, np.dtype(spec.whole_dtype), own)
            else:
                rows.append(LaneRow(own, dtype))
        elif spec.part == "imag" and spec.argument not in omitted:
            whole = np.dtype(spec.whole_dtype)
            kind = {"array": np.ndarray, "float": complex}.get(spec.kind, whole.type)
            real = rows[-1]
            assert isinstance(real, (ArrayRow, NumberRow))
            if spec.level == CONSTANT:
                rows[-1] = ComplexDataRow(real.cells, own, join(before, leaf).astype(whole))
            else:
                rows[-1] = ComplexRow(real.cells, own, kind, whole, np.shape(leaf))
        elif spec.argument in omitted:
            continue
        elif spec.level == CONSTANT and not spec.part:
            if spec.kind != "array":
                rows.append(KnownNumberRow(own, leaf))
            else:
                rows.append((FrozenRow if by_identity else DataRow)(own, leaf))
        elif spec.kind == "array":
            rows.append(ArrayRow(own, dtype, np.shape(leaf), space.variant.apart))
        else:
            rows.append(NumberRow(own, float if spec.kind == "float" else dtype.type))
        before = leaf
    return [*rows, *more]


def watched_memory(flat: Flattened, omitted: frozenset[int]) -> list[np.ndarray | None]:
    """Return the constant arrays that calls leave out, unless they are known by identity.

    The parts of a complex array stand for the array; None where that is not known.
    """
    found: list[np.ndarray | None] = []
    for leaf, spec, by_identity in zip(flat.leaves, flat.specs, flat.by_identity, strict=True):
        if spec.argument in omitted and spec.level == CONSTANT and spec.kind == "array" and not by_identity:
            if not spec.part:
                found.append(leaf)
            elif spec.part == "real":
                whole = leaf.base
                same = (
                    whole.__class__ is np.ndarray
                    and whole.shape == leaf.shape
                    and whole.dtype == spec.whole_dtype
                )
                found.append(whole if same else None)
    return found


def omitted_data(
    flat: Flattened, space: VariantWorkspace, omitted: frozenset[int]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the real ones of the arrays of `watched_memory`, each with its cells."""
    cells = iter(space.inputs)
    found = []
    for leaf, spec, by_identity in zip(flat.leaves, flat.specs, flat.by_identity, strict=True):
        if spec.level != STATIC:
            own = next(cells)
            usual = spec.level == CONSTANT and spec.kind == "array" and not (by_identity or spec.part)
            if usual and spec.argument in omitted:
                found.append((leaf, own))
    return found


def direction_rows(space: VariantWorkspace, slots: Sequence[int], trees) -> list[Row] | None:
    """Return one row per leaf of the directions that a call was given, in the inputs with these numbers.

    None stands for no direction: its argument has no derivative. The result is None if others are left over.
    """
    rows: list[Row] = []
    left = list(slots)
    for leaf in pytrees.leaves(trees):
        if leaf is None:
            rows.append(SameRow(None))
        elif left and leaf.__class__ is np.ndarray:
            rows.append(ArrayRow(space.inputs[left.pop(0)], leaf.dtype, leaf.shape))
        elif left and isinstance(leaf, (int, float, np.number)):
            rows.append(NumberRow(space.inputs[left.pop(0)], type(leaf)))
        else:
            return None
    return None if left else rows
