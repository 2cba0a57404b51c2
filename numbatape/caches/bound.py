"""``cache.bind``: fixed buffers in, fixed buffers out, one kernel entry a call."""

from __future__ import annotations

import numpy as np

from ..engine import Workspace, kernels
from ..engine.frame import WORD
from ..errors import SpecError
from ..tape.tape import ACTIVE, FAMILY_DTYPE
from .arguments import STATIC
from .base import scalar_output
from .program import Evaluator


class Bound:
    """A callable without arguments: reads the bound inputs, writes the gradients, returns the value.

    Attributes
    ----------
    out
        The gradient buffers, one an argument (None for constants).
    """

    __slots__ = ("__call__", "_keep", "out")


def bind(cache, args, out):
    """Return the bound callable of a gradient cache; see `GradientCache.bind`."""
    flat = cache._flatten(args)
    evaluator = Evaluator(cache._program)  # cells of its own: other calls of the cache do not disturb it
    space = evaluator.forward(flat)
    traced = [(s, v) for s, v in zip(flat.specs, flat.leaves, strict=True) if s.level != STATIC]
    gradients = [None if g is None else np.empty(g.shape, g.dtype) for g in space.gradients]
    if out is not None:
        gradients = _buffers(flat, traced, gradients, out)
    rows_in, rows_out = [], []
    for (spec, leaf), cells, view, gradient in zip(
        traced, space.inputs, space.gradients, gradients, strict=True
    ):
        if spec.level != ACTIVE:
            continue
        if not isinstance(leaf, np.ndarray) or not leaf.flags.c_contiguous:
            raise SpecError(f"{spec.path}: bind needs C-contiguous arrays, whose memory each call reads")
        rows_in.append((cells.ctypes.data, leaf.ctypes.data, leaf.nbytes))
        if gradient is not None:
            rows_out.append((gradient.ctypes.data, view.ctypes.data, gradient.nbytes))
    call = _callable(cache, evaluator, flat, space, (rows_in, rows_out))
    parts = iter(gradients)
    leaves = [None if spec.level == STATIC else next(parts) for spec in flat.specs]
    buffers, _ = flat.unflatten(leaves)
    has = {spec.argument for spec in flat.specs if spec.level == ACTIVE}
    call.out = tuple(b if k in has else None for k, b in enumerate(buffers))
    return call


def _buffers(flat, traced, gradients, out):
    import optree

    leaves = []
    for argument, given in enumerate(out if isinstance(out, (tuple, list)) else (out,)):
        count = sum(spec.argument == argument for spec in flat.specs)
        if given is None:
            leaves += [None] * count
        else:
            leaves += optree.tree_leaves(given, none_is_leaf=True, namespace="numbatape")
    if len(leaves) != len(flat.specs):
        raise SpecError(f"out: needs one entry an argument ({flat.count}), with None for constants")
    kept = [leaf for leaf, spec in zip(leaves, flat.specs, strict=True) if spec.level != STATIC]
    for (spec, _), expected, given in zip(traced, gradients, kept, strict=True):
        if given is None:
            continue
        good = (
            expected is not None
            and isinstance(given, np.ndarray)
            and given.dtype == expected.dtype
            and given.shape == expected.shape
            and given.flags.c_contiguous
            and given.flags.writeable
        )
        if not good:
            raise SpecError(
                f"out for {spec.path}: needs a writable C-contiguous array of {spec.dtype}"
                + (f" and shape {expected.shape}" if expected is not None else " (a constant has no gradient)")
            )
    return kept


def _callable(cache, evaluator, flat, space: Workspace, rows):
    tables = [np.array(r or [(0, 0, 0)], np.int64) for r in rows]
    for name, table, r in zip(("COPY_IN", "COPY_OUT"), tables, rows, strict=True):
        space.frame[WORD[name]] = table.ctypes.data
        space.frame[WORD[f"{name}_COUNT"]] = len(r)
    output = scalar_output(space.variant.recording)
    run, address = kernels.entry("bound"), space.address
    if output is None:
        constant = cache._value(space)

        def call():
            for target, _, size in rows[1]:
                np.ctypeslib.as_array((np.ctypeslib.ctypes.c_byte * size).from_address(target))[...] = 0
            return constant
    else:
        cells = space.outputs[output.number].reshape(-1)
        space.seed[...] = 1.0

        def call():
            if run(address):
                return _slow(cache, evaluator, flat, call)
            return cells[0]

    call.keep = (cells if output is not None else None, tables, flat, space)
    return call


def _slow(cache, evaluator, flat, call):
    """Serve a call on another branch: through the evaluator, which switches or traces."""
    space = evaluator.forward(flat)
    output = scalar_output(space.variant.recording)
    if output is not None:
        space.seed[...] = 1.0
        space.reverse()
    traced = [s for s in flat.specs if s.level != STATIC]
    gradients, _ = flat.unflatten(
        iter(cache._gradient_leaves(flat, space, copy=False))
    )
    del traced
    import optree

    sources = optree.tree_leaves(gradients, none_is_leaf=True, namespace="numbatape")
    targets = optree.tree_leaves(call.out, none_is_leaf=True, namespace="numbatape")
    pairs = zip(targets, [s for s in sources], strict=False)
    for target, source in pairs:
        if target is not None and source is not None:
            target[...] = source if output is not None else 0.0
    return cache._value(space)


__all__ = ["FAMILY_DTYPE", "bind"]
