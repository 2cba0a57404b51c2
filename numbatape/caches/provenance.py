"""Where a function's value stops being finite: the instruction, its line, and what it depends on."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.reference import Reference
from ..tape.instruction import NONE
from ..tape.tape import POOLS, Line, Tape

NAMES_SHOWN = 6


class _Origin(NamedTuple):
    """An instruction whose result is not finite, or the last branch before a constant result.

    Attributes
    ----------
    name
        Of the op; "branch" where the function returned a number that is not finite from a branch.
    line
        The user's source line, if there is one.
    value
        What came out of it; None for a branch.
    entries
        The entries of the first argument that it depends on.
    """

    name: str
    line: Line | None
    value: float | None
    entries: tuple[int, ...]


def why_nonfinite(cache, names: Sequence[str], point: np.ndarray) -> str:
    """Return why the value that a gradient cache computed last is not finite, as a text for an error.

    Parameters
    ----------
    cache
        Of a function whose first argument is a vector.
    names
        Of the vector's entries.
    point
        The vector at which the value was computed.
    """
    origin = _origin(cache, point)
    if origin is None:
        return "the function returns it whatever its argument"
    what = "it was returned from a branch" if origin.name == "branch" else f"{origin.name} is {origin.value}"
    if origin.line is not None:
        text = linecache.getline(origin.line.file, origin.line.number).strip()
        what += f", at {origin.line}" + (f"\n  {text}" if text else "")
    on = listed([f"{names[k]} = {point[k]:.6g}" for k in origin.entries]) or "the data alone"
    return f"{what}\nit depends on {on}"


def listed(texts: Sequence[str]) -> str:
    """Return some texts, and how many more there are."""
    more = len(texts) - NAMES_SHOWN
    return ", ".join(texts[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _origin(cache, point: np.ndarray) -> _Origin | None:
    """Return why the value that a gradient cache computed last, at a point, is not finite.

    That is the instruction from which the value got what is not finite in it: of each such result either
    the origin of an operand, or, if its operands are finite or data, the instruction itself.

    None if neither an instruction nor a branch accounts for it: the function returns it for any argument.
    """
    space = cache._space
    tape, dimensions = space.plan.tape, space.plan.dimensions
    inputs = [cells.copy() for cells in space.all_inputs]
    # Steady calls read a long vector where it is, and leave other numbers in its cells.
    inputs[0][...] = point
    entries = _Entries(tape, dimensions, inputs)
    reference, rows = Reference(tape, dimensions), tape.instructions()
    origins: dict[tuple[int, int], _Origin] = {}

    def check(k: int, result: np.ndarray) -> None:
        out = _key(tape, rows[k].out)
        if np.isfinite(result).all():
            # The other cells of an array may still hold what is not finite.
            if out[0] < len(POOLS):
                origins.pop(out, None)
            return
        bad = [_key(tape, v) for v in rows[k].operands if not np.isfinite(reference.view(v)).all()]
        known = [origins[key] for key in bad if key in origins]
        value = float(np.extract(~np.isfinite(result), result)[0])
        origins[out] = (
            known[0] if known else _Origin(tape.name_of(k), tape.line_of(k), value, entries.before(k))
        )

    reference.run(inputs, check)
    for output in tape.outputs:
        if (origin := origins.get(_key(tape, output))) is not None:
            return origin
    guards = [k for k, row in enumerate(rows) if row.is_guard and entries.before(k)]
    return _Origin("branch", tape.line_of(guards[-1]), None, entries.before(guards[-1])) if guards else None


class _Entries:
    """The entries of the first input that each instruction depends on, an array's cells taken as one."""

    def __init__(self, tape: Tape, dimensions: tuple[int, ...], inputs: list[np.ndarray]):
        self._tape = tape
        positions = Reference(tape, dimensions)
        for slot, cells in zip(tape.inputs, inputs, strict=True):
            positions.view(slot.value)[...] = np.zeros(cells.shape)
        first = positions.view(tape.inputs[0].value)
        first[...] = np.arange(first.size).reshape(first.shape)
        home = self._storage(tape.inputs[0].value)
        known: dict[tuple[int, int], frozenset[int]] = {}

        def of(value: int) -> frozenset[int]:
            if self._storage(value) == home:
                return frozenset(map(int, np.ravel(positions.view(value))))
            return known.get(_key(tape, value), frozenset())

        self._before: list[tuple[int, ...]] = []
        for row in tape.instructions():
            through = frozenset().union(*map(of, row.operands))
            self._before.append(tuple(sorted(through)))
            if not row.is_guard:
                key = _key(tape, row.out)
                known[key] = through | known.get(key, frozenset())
                if row.aux != NONE:
                    known[_key(tape, row.aux)] = through

    def before(self, instruction: int) -> tuple[int, ...]:
        """Return the entries that an instruction's operands depend on."""
        return self._before[instruction]

    def _storage(self, value: int) -> int:
        return int(self._tape.values["storage"][value])


def _key(tape: Tape, value: int) -> tuple[int, int]:
    """Return what stands for the cells of a value: an array's are taken as one."""
    storage, offset, _ = tape.values[value].item()
    return storage, offset if storage < len(POOLS) else 0
