"""``cache.bind``: fixed buffers in, fixed buffers out, one kernel entry a call."""

from __future__ import annotations

import numpy as np
import optree

from ..engine import Workspace, kernels
from ..engine.frame import WORD
from ..errors import SpecError
from ..tape.tape import ACTIVE
from .arguments import NAMESPACE, STATIC, Flattened
from .base import scalar_output
from .program import Evaluator


class Bound:
    """A callable without arguments: reads the bound inputs, writes the gradients, returns the value.

    Attributes
    ----------
    out
        The gradient buffers, one an argument (None for constants).
    """

    # __call__ is a slot, so that an instance's call goes straight to its builtin.
    __slots__ = ("__call__", "_alive", "out")


def bind(cache, args, out) -> Bound:
    """Return the bound callable of a gradient cache; see `GradientCache.bind`."""
    flat = cache._flatten(args)
    evaluator = Evaluator(cache._program)  # other calls of the cache do not disturb these cells
    space = evaluator.forward(flat)
    targets = _targets(flat, space, out)
    sources, sinks = [], []
    for cells, view, (spec, leaf, target) in zip(space.inputs, space.gradients, targets, strict=True):
        if spec.level != ACTIVE:
            continue
        if not isinstance(leaf, np.ndarray) or not leaf.flags.c_contiguous:
            raise SpecError(f"{spec.path}: bind needs C-contiguous arrays, whose memory each call reads")
        sources.append((cells.ctypes.data, leaf.ctypes.data, leaf.nbytes))
        if target is not None:
            sinks.append((target.ctypes.data, view.ctypes.data, target.nbytes))
    tables = _copy_tables(space, sources, sinks)

    def elsewhere():
        """Serve a call on another branch, through the evaluator, which switches or traces."""
        there = evaluator.forward(flat)
        output = scalar_output(there.variant.recording)
        if output is not None:
            there.seed[...] = 1.0
            there.reverse()
        for view, (_, _, target) in zip(there.gradients, targets, strict=True):
            if target is not None:
                target[...] = view if output is not None else 0.0
        return float(cache._value(there))

    bound = Bound()
    bound.out = _as_arguments(flat, targets)
    output = scalar_output(space.variant.recording)
    if output is None:  # this branch does not depend on the arguments: no sweep to enter
        bound.__call__, bound._alive = elsewhere, ()
        return bound
    space.seed[...] = 1.0
    value = space.outputs[output.number].reshape(-1)
    bound.__call__, words = kernels.call_of("bound", space.address, value, elsewhere)
    bound._alive = (words, value, space, tables, elsewhere)
    return bound


def _targets(flat: Flattened, space: Workspace, out) -> list:
    """Return (spec, leaf, gradient buffer or None) of each traced leaf."""
    given = _out_leaves(flat, out)
    views = iter(space.gradients)
    rows = []
    for spec, leaf, target in zip(flat.specs, flat.leaves, given, strict=True):
        if spec.level == STATIC:
            continue
        view = next(views)
        if view is None:
            if target is not None and out is not None:
                raise SpecError(f"out for {spec.path}: a constant has no gradient, pass None")
            rows.append((spec, leaf, None))
            continue
        if out is None:
            target = np.empty(view.shape, view.dtype)
        elif target is not None and not _fits(target, view):
            raise SpecError(
                f"out for {spec.path}: needs a writable C-contiguous array of {view.dtype} and shape "
                f"{view.shape}"
            )
        rows.append((spec, leaf, target))
    return rows


def _fits(target, view) -> bool:
    return (
        isinstance(target, np.ndarray)
        and target.dtype == view.dtype
        and target.shape == view.shape
        and target.flags.c_contiguous
        and target.flags.writeable
    )


def _out_leaves(flat: Flattened, out) -> list:
    """Return one entry a leaf of the arguments: what ``out`` has there."""
    if out is None:
        return [None] * len(flat.specs)
    out = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(out) != flat.count:
        raise SpecError(f"out: needs one entry an argument ({flat.count}), None for constants; got {len(out)}")
    leaves: list = []
    for argument, part in enumerate(out):
        count = sum(spec.argument == argument for spec in flat.specs)
        own = [None] * count
        if part is not None:
            own = optree.tree_leaves(part, none_is_leaf=True, namespace=NAMESPACE)
        if len(own) != count:
            raise SpecError(f"out: entry {argument} has {len(own)} leaves, the argument has {count}")
        leaves += own
    return leaves + [None] * (len(flat.specs) - len(leaves))  # keyword arguments are constants


def _copy_tables(space: Workspace, sources, sinks) -> list[np.ndarray]:
    tables = []
    for name, rows in (("COPY_IN", sources), ("COPY_OUT", sinks)):
        table = np.array(rows or [(0, 0, 0)], np.int64)
        space.frame[WORD[name]] = table.ctypes.data
        space.frame[WORD[f"{name}_COUNT"]] = len(rows)
        tables.append(table)
    return tables


def _as_arguments(flat: Flattened, targets) -> tuple:
    buffers = iter(target for _, _, target in targets)
    leaves = [None if spec.level == STATIC else next(buffers) for spec in flat.specs]
    args, _ = flat.unflatten(leaves)
    has = {spec.argument for spec in flat.specs if spec.level == ACTIVE}
    return tuple(a if k in has else None for k, a in enumerate(args))
