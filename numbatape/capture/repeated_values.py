"""Values that a function stores, as templates from which each call without a trace makes its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Kept(NamedTuple):
    """A traced value that the function stores: its output on the tape, and the class of its number."""

    output: int
    kind: type  # the class of the number; ndarray for arrays
    dtype: np.dtype

    def number(self, outputs):
        view = outputs[self.output]
        if self.kind is np.ndarray:
            return view.astype(self.dtype)  # this copies: the cells are written to by the next sweep
        return self.kind(view[()])


class Made(NamedTuple):
    """A container that the function makes in each call, with templates of its entries."""

    kind: type
    keys: tuple
    parts: tuple


class Same(NamedTuple):
    """An object that is the same one in each call."""

    value: object


class Copied(NamedTuple):
    """An array that the function makes in each call, whose entries depend on no argument."""

    value: np.ndarray


class View(NamedTuple):
    """A view of an array that the function keeps, too."""

    base: object  # the template of that array, which is C-contiguous
    offset: int  # the distance from the start of the memory in bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, base, whole: np.ndarray, part: np.ndarray) -> View | None:
        """Return a view of an array by its place in the memory of another one; None if it is not inside."""
        (first, end), (start, stop) = map(np.lib.array_utils.byte_bounds, (whole, part))
        inside = first <= start and stop <= end and whole.flags.c_contiguous and whole.dtype == part.dtype
        address = part.__array_interface__["data"][0]
        return cls(base, address - first, part.shape, part.strides) if inside else None

    def made(self, whole: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, whole.dtype, whole, self.offset, self.strides)


def again(part, outputs, made: dict[int, object]):
    """Return what a template stands for; ``made`` has, by the ids of templates, what several names share."""
    if part.__class__ is Same:
        return part.value
    if part.__class__ is Kept or part.__class__ is Copied:
        found = made.get(id(part))
        if found is None:
            found = made[id(part)] = part.number(outputs) if part.__class__ is Kept else part.value.copy()
        return found
    if part.__class__ is View:
        return part.made(again(part.base, outputs, made))
    values = [again(each, outputs, made) for each in part.parts]
    return dict(zip(part.keys, values, strict=True)) if part.kind is dict else part.kind(values)
