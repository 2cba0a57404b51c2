"""``cache.bind``: fixed buffers in, fixed buffers out, one kernel entry a call."""

from __future__ import annotations

import numpy as np

from ..engine import kernels
from ..engine.frame import WORD
from ..errors import SpecError
from ..tape.tape import ACTIVE
from .arguments import Flattened
from .program import VariantWorkspace
from .results import buffers_of, per_argument, scalar_output, value_of


def bind(cache, args, out):
    """Return the bound callable of a gradient cache; see `GradientCache.bind`."""
    cache = cache.clone()  # cells of its own: other calls of the cache do not disturb it
    flat = cache._flatten(args)
    space = cache._sweep(flat)
    if out is None:
        buffers = [None if view is None else np.empty_like(view, order="C") for view in space.gradients]
    else:
        buffers = buffers_of(flat, space, out)
    tables = _copies_in(flat, space), _copies_out(flat, space, buffers)

    def general():
        """Serve a call that leaves the bound path: the cache switches, traces or raises."""
        now = cache._sweep(flat)
        for buffer, view in zip(buffers, now.gradients, strict=True):
            if buffer is not None:
                buffer[...] = view
        return value_of(now)

    output = scalar_output(space.variant.recording)
    call = general
    if output is not None and not cache._program.config.debug_mode and not space.variant.single_use:
        call = _direct(space, tables, output, general)
    parts = iter(buffers)
    leaves = [next(parts) if spec.kind != "static" else None for spec in flat.specs]
    call.out = per_argument(flat, leaves)
    return call


def _direct(space: VariantWorkspace, tables, output, general):
    """Return the callable that enters the kernel with the copies to do before and after it."""
    for name, rows in zip(("COPY_IN", "COPY_OUT"), tables, strict=True):
        space.frame[WORD[name]] = rows.ctypes.data
        space.frame[WORD[f"{name}_COUNT"]] = len(rows)
    run, address = kernels.entry("bound"), space.address
    cells = space.outputs[output.number].reshape(-1)

    def call():
        if run(address):
            return general()
        return cells[0]

    call.keep = space, tables  # the kernel reads them by address
    return call


def _copies_in(flat: Flattened, space: VariantWorkspace) -> np.ndarray:
    """Return (target, source, bytes) of each differentiated argument."""
    rows = []
    for (leaf, spec, _), cells in zip(flat.traced(), space.inputs, strict=True):
        if spec.level == ACTIVE:
            if not isinstance(leaf, np.ndarray) or not leaf.flags.c_contiguous:
                raise SpecError(f"{spec.path}: bind needs C-contiguous arrays, whose memory each call reads")
            rows.append((cells.ctypes.data, leaf.ctypes.data, leaf.nbytes))
    return np.array(rows, np.int64)


def _copies_out(flat: Flattened, space: VariantWorkspace, buffers) -> np.ndarray:
    rows = []
    for (_, spec, _), view, buffer in zip(flat.traced(), space.gradients, buffers, strict=True):
        if buffer is not None:
            if not buffer.flags.c_contiguous:
                raise SpecError(f"out for {spec.path}: bind needs a C-contiguous array")
            rows.append((buffer.ctypes.data, view.ctypes.data, buffer.nbytes))
    return np.array(rows, np.int64).reshape(-1, 3)
