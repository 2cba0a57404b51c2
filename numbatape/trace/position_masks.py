"""Masks of positions: ``x[np.arange(len(x)) < k]`` is ``x[:k]``, a slice that needs no guard on the length.

Which entries a mask selects decides a shape. A mask that depends on sizes alone would make them guards; where
it compares positions with a number, the tape tells which slice it is.
"""

from __future__ import annotations

import numpy as np

from ..tape.instruction import GUARD, PROLOGUE
from ..tape.tape import CONSTANT, POOLS
from . import symbolic_sizes as sizes
from .array import TracedArray
from .primitives import dims_of

# A comparison of a number with positions is one of positions with a number.
TURNED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
OPPOSITE = {"less": "greater_equal", "greater": "less_equal", "less_equal": "greater",
            "greater_equal": "less", "equal": "not_equal", "not_equal": "equal"}  # fmt: skip


def as_slices(x: TracedArray, keys: tuple) -> tuple:
    """Return an index with the slice that a mask of positions selects in its place, if it selects one."""
    axis = next((k for k, key in enumerate(keys) if type(key) is not slice), len(keys))
    mask = keys[axis] if axis < len(keys) else None
    if (
        type(mask) is not TracedArray
        or mask._level != CONSTANT
        or mask.ndim != 1  # the value of a number may be Python's own, without a dtype
        or mask._value.dtype.kind != "b"
        or not all(type(key) is slice for key in keys[axis + 1 :])  # beside other indices a mask means pairs
        or axis >= x.ndim
        or x._value.shape[axis] != len(mask._value)
        or mask._trace.integers.origins is None
    ):
        return keys
    dim = dims_of(mask)[0]
    found = _Masks(mask._trace, dim).slice_of(mask._id)
    if found is None:
        return keys
    mask._trace.tape.sizes.same(dim, dims_of(x)[axis])
    return (*keys[:axis], found, *keys[axis + 1 :])


class Positions:
    """What prologue instructions compute of the positions along an axis of a size code, read off the tape."""

    def __init__(self, trace, dim: int):
        self._trace, self._tape, self._dim = trace, trace.tape, dim
        self._tape.unroll()
        rows = [row for row in self._tape.instructions() if row.op != GUARD and row.stage == PROLOGUE]
        self._made = {self._place(row.out): row for row in rows}

    def _place(self, number: int):
        """Return what identifies the memory of a value: a storage, or a cell of a pool."""
        storage, offset, _ = self._tape.values[number]
        return (storage, offset) if storage < len(POOLS) else storage

    def _number(self, number: int):
        """Return a number as an int, or as a size; None for anything else."""
        place = self._place(number)
        if not isinstance(place, tuple):
            return None
        for literal in self._tape.literals:
            if (literal.storage, literal.offset) == place:
                value = np.asarray(literal.data).item()
                return int(value) if value == value // 1 and abs(value) < 2**31 else None
        for known, (how, code, by) in self._trace.integers.fractions.items():
            if self._place(known) == place and (how, by) == (sizes.DIVIDED, 1):
                return sizes.seen(self._trace, code)
        return None


class _Masks(Positions):
    """The comparisons of positions along an axis."""

    def slice_of(self, number: int) -> slice | None:
        name, operands = self._maker(number)
        negated = False
        while name == "logical_not":
            negated = not negated
            name, operands = self._maker(operands[0])
        if name not in OPPOSITE:
            return None
        left, right = operands[:2]
        if self._number(left) is not None:
            left, right, name = right, left, TURNED.get(name, name)
        bound = self._number(right)
        if bound is None:
            return None
        name = OPPOSITE[name] if negated else name
        if name in ("equal", "not_equal"):
            return self._steps(left, bound, name == "equal")
        return self._up_to(left, bound, name)

    def _up_to(self, positions: int, bound, name: str) -> slice | None:
        if self._maker(positions)[0] != "arange":
            return None
        if name in ("less_equal", "greater"):
            bound = bound + 1
        if not bound >= 0:  # a guard where it is a size
            bound = 0
        return slice(None, bound) if name.startswith("less") else slice(bound, None)

    def _steps(self, positions: int, bound, equal: bool) -> slice | None:
        """Return every so many entries, such as those of odd positions."""
        name, operands = self._maker(positions)
        step = self._number(operands[1]) if name == "remainder" else None
        if type(step) is not int or type(bound) is not int or self._maker(operands[0])[0] != "arange":
            return None
        if not equal and step == 2 and bound in (0, 1):
            equal, bound = True, 1 - bound
        return slice(bound, None, step) if equal and 0 <= bound < step else None

    def _maker(self, number: int) -> tuple[str, tuple]:
        """Return the op that makes a value, and its operands; positions are those of the whole axis."""
        row = self._made.get(self._place(number))
        if row is None:
            return "", ()
        name = self._tape.ops.names[row.row]
        offset, layout = self._tape.offset_of(number), self._tape.layout_of(number)
        if name == "arange":
            if layout.dims != (self._dim,) or layout.strides != (1,) or offset != 0:
                return "", ()
        elif (offset, layout) != (self._tape.offset_of(row.out), self._tape.layout_of(row.out)):
            return "", ()  # a part of what was made
        return name, (row.a, row.b, row.c)
