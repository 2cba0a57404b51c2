"""Outs: how a steady call makes each leaf of its results from what a sweep has left in the cells."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .. import jit
from ..jit import address
from ..programs.arguments import Flattened
from ..programs.results import gradient_leaves, in_dtype, without_lanes
from ..programs.variant import VariantWorkspace
from ..recording.recorded import Output
from ..tape.tape import ACTIVE
from ..trace import pytrees
from ..trace.complex_pairs import Pair, join

ndarray = np.ndarray


class Out:
    """How one leaf of the results is made.

    Parameters
    ----------
    kind
        Of `numbatape.jit.steady`: CALLED, ENTRY or FIXED.
    source
        By kind: a callable without arguments, an array whose entry 0 is taken, or the object itself.
    """

    __slots__ = ("kind", "source")

    def __init__(self, kind: int, source):
        self.kind, self.source = kind, source

    def make(self):
        if self.kind == jit.steady.CALLED:
            return self.source()
        return self.source[0] if self.kind == jit.steady.ENTRY else self.source

    def native(self) -> dict:
        """Return the out's words for a builtin, which makes copies of whole arrays, and numbers, itself."""
        cells = self.source if self.kind == jit.steady.ENTRY else copied(self)
        if cells is None or cells.dtype.kind not in "biufc" or not cells.dtype.isnative:
            return {"kind": self.kind, "object": id(self.source)}
        kind = jit.steady.NUMBERED if self.kind == jit.steady.ENTRY else jit.steady.COPIED
        its = {"ndim": cells.ndim, "shape": cells.shape, "cells": address(cells), "bytes": cells.nbytes}
        return {"kind": kind, "object": id(cells.dtype), **its}


def copied(out: Out) -> ndarray | None:
    """Return the contiguous cells that a result is a copy of; None for other results."""
    cells = getattr(out.source, "__self__", None) if out.kind == jit.steady.CALLED else None
    whole = cells.__class__ is ndarray and out.source == cells.copy and cells.flags.c_contiguous
    return cells if whole else None


def memory_of(cells: ndarray) -> tuple[int, int]:
    """Return where cells begin in memory, and how many bytes they have."""
    return address(cells), cells.nbytes


def made_of(cells: ndarray, how: Callable, *more) -> Out:
    """Return the out that is ``how(cells, *more)``.

    The cells can be told from it, and whether another one is made in the same way.
    """
    return Out(jit.steady.CALLED, functools.partial(how, cells, *more))


def _number(cells: ndarray, kind: type):
    return kind(cells[0])


def _reshaped(cells: ndarray, shape: tuple, dtype):
    return cells.astype(dtype, order="C").reshape(shape)[()]


def out_of(cells: ndarray, kept) -> Out:
    """Return the out that makes of cells what NumPy would return, of which ``kept`` is an example."""
    cells = without_lanes(cells, kept)
    if isinstance(kept, ndarray):
        if cells.dtype == kept.dtype:
            return Out(jit.steady.CALLED, cells.copy)
        return made_of(cells, ndarray.astype, kept.dtype)
    alone = cells.reshape(-1)
    if type(kept) is float:
        return Out(jit.steady.CALLED, alone.item)
    if type(kept) in (int, bool):
        return made_of(alone, _number, type(kept))
    if cells.dtype == kept.dtype:
        return Out(jit.steady.ENTRY, alone)
    return made_of(alone, _number, kept.dtype.type)


def constant_out(leaf) -> Out:
    """Return the out of a leaf that does not depend on the arguments."""
    return Out(jit.steady.CALLED, leaf.copy) if leaf.__class__ is ndarray else Out(jit.steady.FIXED, leaf)


def result_outs(space: VariantWorkspace, result) -> list[Out]:
    """Return one out per leaf of a recorded result (or of a part of it)."""
    values, outputs = space.variant.recording.values, space.outputs
    outs = []
    for leaf in pytrees.flatten(result, lambda leaf: leaf.__class__ is Pair)[0]:
        if leaf.__class__ is Output:
            outs.append(out_of(outputs[leaf.number], values[leaf.number]))
        elif leaf.__class__ is Pair:
            outs.append(_pair_out(space, leaf))
        else:
            outs.append(constant_out(leaf))
    return outs


def _pair_out(space: VariantWorkspace, pair: Pair) -> Out:
    parts = [
        out_of(space.outputs[x.number], space.variant.recording.values[x.number])
        if x.__class__ is Output
        else constant_out(x)
        for x in (pair.re, pair.im)
    ]
    return Out(jit.steady.CALLED, lambda: join(*(part.make() for part in parts)))


def gradient_outs(
    flat: Flattened, space: VariantWorkspace, arguments: Iterable[int], reuse: bool = False
) -> list[Out]:
    """Return one out per leaf of the gradients with respect to some arguments.

    Parameters
    ----------
    reuse
        Whether arrays are the workspace's own, which the next call overwrites.
    """
    views = gradient_leaves(flat, space)
    columns = list(zip(views, flat.specs, strict=True))
    outs: list[Out] = []
    for argument in arguments:
        if argument not in flat.differentiated:
            outs.append(Out(jit.steady.FIXED, None))
            continue
        own = [column for column in columns if column[1].argument == argument]
        for k, (view, spec) in enumerate(own):
            if spec.part == "imag":
                continue
            if view is None:
                outs.append(Out(jit.steady.FIXED, None))
            elif spec.part:
                outs.append(_joined(view, own[k + 1][0], spec.kind == "array"))
            elif spec.dtype == np.float16:
                outs.append(Out(jit.steady.CALLED, lambda view=view: in_dtype(view.copy(), np.float16)))
            elif spec.kind != "array":
                outs.append(Out(jit.steady.ENTRY, view.reshape(-1)))
            else:
                outs.append(Out(jit.steady.FIXED, view) if reuse else Out(jit.steady.CALLED, view.copy))
    return outs


def parts_outs(flat: Flattened, space: VariantWorkspace, parts, arguments: Iterable[int]) -> list[Out] | None:
    """Return one out per leaf of recorded derivatives of the shape of some arguments.

    ``parts`` has one entry per differentiated leaf. None for complex ones, which the general call joins.
    """
    if flat.is_complex:
        return None
    found = iter(pytrees.leaves(parts))
    by_leaf = [(next(found) if spec.level == ACTIVE else None, spec) for spec in flat.specs]
    outs: list[Out] = []
    for argument in arguments:
        if argument not in flat.differentiated:
            outs.append(Out(jit.steady.FIXED, None))
            continue
        for part, spec in by_leaf:
            if spec.argument != argument:
                continue
            if part is None:
                outs.append(Out(jit.steady.FIXED, None))
            elif part.__class__ is not Output or spec.dtype == np.float16:
                return None
            else:
                outs.append(out_of(space.outputs[part.number], space.variant.recording.values[part.number]))
    return outs


def reshaped_out(cells: ndarray, shape: tuple, dtype=None) -> Out:
    """Return the out that copies cells in another shape and dtype; a number where there are no dimensions."""
    if dtype is not None and cells.dtype != dtype:
        return made_of(cells, _reshaped, shape, dtype)
    if not shape:
        return Out(jit.steady.ENTRY, cells.reshape(-1))
    view = cells.reshape(shape)
    if np.may_share_memory(view, cells):
        return Out(jit.steady.CALLED, view.copy)
    return made_of(cells, _reshaped, shape, cells.dtype)


def _joined(real: ndarray, imag: ndarray, is_array: bool) -> Out:
    """Return the out that joins both parts of the gradient with respect to a complex leaf."""
    if is_array:
        return Out(jit.steady.CALLED, lambda: join(real, imag))
    return Out(jit.steady.CALLED, lambda: join(real[()], imag[()]))


def tangent_outs(space: VariantWorkspace, result, parts, lanes: int = 0) -> list[Out] | None:
    """Return one out per leaf of the derivative of a recorded result; None for complex and float16 ones.

    Parameters
    ----------
    parts
        What was recorded as the tangents of the float leaves.
    lanes
        The length of a tangent's leading axis, 0 for none.
    """
    recording = space.variant.recording
    leaves = pytrees.flatten(result, lambda leaf: leaf.__class__ is Pair)[0]
    if any(leaf.__class__ is Pair for leaf in leaves):
        return None
    found = iter(pytrees.leaves(parts))
    outs = []
    for leaf in leaves:
        kept = recording.values[leaf.number] if leaf.__class__ is Output else leaf
        dtype = np.asarray(kept).dtype
        if leaf.__class__ is not Output or dtype.kind != "f" or dtype == np.float16:
            return None
        part = next(found)
        if part.__class__ is not Output:
            return None
        view = space.outputs[part.number]
        if lanes:
            if view.ndim == np.ndim(kept):
                return None
            outs.append(Out(jit.steady.CALLED, view.copy))
        else:
            outs.append(out_of(view, recording.values[part.number]))
    return outs


def in_form(form: int, made: Sequence):
    """Return the leaves of results in the form in which a call returns them."""
    if form == jit.steady.ALONE:
        return made[0]
    return (made[0], tuple(made[1:])) if form == jit.steady.PAIR else tuple(made)
