"""``cache.bind``: calls that read and write fixed buffers, by one entry into the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..engine import kernels
from ..engine.frame import WORD
from ..errors import SpecError
from ..jit import address
from ..late import imported
from ..programs.arguments import Flattened
from ..programs.results import buffers_of, gradient_leaves, per_argument, scalar_output, value_of
from ..programs.variant import VariantWorkspace
from ..tape.tape import ACTIVE
from ..threads import in_turn
from ..trace import pytrees

if TYPE_CHECKING:
    from ..engine.strips.strip_copies import StripCopies


class Bound:
    """A callable without arguments: reads the bound inputs, writes the gradients, returns the value.

    Attributes
    ----------
    out
        The gradient buffers, one per argument (None for constants).
    """

    # __call__ is a slot, so that an instance's call goes straight to its builtin.
    __slots__ = ("__call__", "_alive", "out")

    def __reduce__(self):
        raise TypeError("a bound callable cannot be copied or pickled: bind a copy of the cache")

    if TYPE_CHECKING:
        __call__: Callable[[], float]
        _alive: tuple
        out: tuple


def bind(cache, args, out) -> Bound:
    """Return the bound callable of a gradient cache; see `GradientCache.bind`."""
    cache = cache.clone()  # A clone has cells of its own, which other calls of the cache do not write to.
    flat = cache._flatten(args)
    require_own_memory(args)
    space = cache._sweep(flat)
    if flat.is_complex or any(spec.dtype == np.float16 for spec in flat.active):
        return _bind_parts(cache, flat, space, out)
    if out is None:
        buffers = [None if view is None else np.empty(view.shape, view.dtype) for view in space.gradients]
    else:
        buffers = buffers_of(flat, space, out)
    by_strip = _copied_by_strip(flat, space, buffers)
    copied = frozenset() if by_strip is None else by_strip.copied
    tables = _copies_in(flat, space, copied), _copies_out(flat, space, buffers, copied)

    def elsewhere() -> float:
        """Serve a call that leaves the bound path: the cache switches, traces or raises."""
        if by_strip is not None:
            by_strip.end()
        try:
            there = cache._sweep(flat)
        finally:
            if by_strip is not None:
                by_strip.begin()
        for buffer, view in zip(buffers, there.gradients, strict=True):
            if buffer is not None:
                buffer[...] = view
        return float(value_of(there))

    elsewhere = in_turn(cache._turn, elsewhere)
    bound = Bound()
    parts = iter(buffers)
    bound.out = per_argument(flat, [None if s.kind == "static" else next(parts) for s in flat.specs])
    output = scalar_output(space.variant.recording)
    if output is None or space.variant.is_more_than_sweeps or cache._program.config.debug_mode:
        bound.__call__, bound._alive = elsewhere, ()
        return bound
    for name, rows in zip(("COPY_IN", "COPY_OUT"), tables, strict=True):
        space.frame[WORD[name]] = rows.ctypes.data
        space.frame[WORD[f"{name}_COUNT"]] = len(rows)
    value = space.outputs[output.number].reshape(-1)
    bound.__call__, words = kernels.call_of(
        "bound", space, value, elsewhere, space.variant.counter, cache._turn
    )
    bound._alive = words, value, space, tables, elsewhere, by_strip
    if by_strip is not None:
        by_strip.begin()
    return bound


def require_own_memory(args) -> None:
    """Raise for arrays of the other byte order, of which the kernels would read a copy that never changes."""
    for leaf in pytrees.flatten(args)[0]:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc" and not leaf.dtype.isnative:
            raise SpecError(f"bind needs arrays in native byte order, got {leaf.dtype}")


def _bind_parts(cache, flat: Flattened, space: VariantWorkspace, out) -> Bound:
    """Return the bound callable of complex arguments, each of which is two inputs, and of float16 ones."""
    if out is None:
        parts = [
            None if view is None else np.empty(view.shape, spec.dtype)
            for view, spec in zip(gradient_leaves(flat, space), flat.specs, strict=True)
        ]
        out = per_argument(flat, parts)
    inputs = []
    for (leaf, spec, _), cells in zip(flat.traced(), space.inputs, strict=True):
        if spec.level == ACTIVE:
            if not isinstance(leaf, np.ndarray):
                raise SpecError(f"{spec.path}: bind needs arrays, whose memory each call reads")
            inputs.append((cells, leaf))
    buffers = [(buffer, k) for k, buffer in enumerate(buffers_of(flat, space, out)) if buffer is not None]
    views = [space.gradients[k] for _, k in buffers]
    output = scalar_output(space.variant.recording)

    def elsewhere() -> float:
        there = cache._sweep(flat)
        for buffer, k in buffers:
            buffer[...] = there.gradients[k]
        return float(value_of(there))

    turn, elsewhere = cache._turn, in_turn(cache._turn, elsewhere)
    bound = Bound()
    bound.out, bound.__call__, bound._alive = out, elsewhere, ()
    if output is None or space.variant.is_more_than_sweeps or cache._program.config.debug_mode:
        return bound
    value = space.outputs[output.number].reshape(-1)
    gradient, words = kernels.call_of("gradient", space, value, stopped, space.variant.counter)

    def run() -> float:
        if not turn.busy:
            turn.busy = True
            try:
                for cells, leaf in inputs:
                    cells[...] = leaf
                if gradient() is not None:
                    for (buffer, _), view in zip(buffers, views, strict=True):
                        buffer[...] = view
                    return float(value[0])
            finally:
                turn.busy = False
        return elsewhere()

    bound.__call__, bound._alive = run, (words, value, space)
    return bound


def _copied_by_strip(flat: Flattened, space: VariantWorkspace, buffers) -> StripCopies | None:
    """Return what copies arguments and gradients strip by strip; None where the blocks of a plan do not."""
    tape, strips = space.plan.tape, space.plan.strips
    if strips is None or not strips.extents:
        return None
    leaves = [leaf for leaf, _, _ in flat.traced()]
    sources = {
        slot.value: leaf
        for slot, leaf in zip(tape.inputs, leaves, strict=True)
        if slot.level == ACTIVE and isinstance(leaf, np.ndarray) and leaf.flags.c_contiguous
    }
    active = [k for k, slot in enumerate(tape.inputs) if slot.level == ACTIVE]
    targets = {
        value: buffers[k]
        for k, value in zip(active, tape.outputs[1:], strict=True)
        if buffers[k] is not None and buffers[k].flags.c_contiguous
    }
    memory = [*sources.values(), *targets.values()]
    for k, buffer in enumerate(memory[len(sources) :], len(sources)):
        if any(np.may_share_memory(buffer, other) for other in memory[:k]):
            return None  # an argument would be overwritten before all of it has been read
    copies = imported("..engine.strips.strip_copies", __package__).StripCopies(space, sources, targets)
    for value in copies.copied:
        copies.word(value)[0] = address(sources[value] if value in sources else targets[value])
    return copies


def _copies_in(flat: Flattened, space: VariantWorkspace, copied: frozenset[int]) -> np.ndarray:
    """Return (target, source, bytes) of each differentiated argument, but for those that blocks copy."""
    rows = []
    slots = space.plan.tape.inputs[: len(space.inputs)]  # what follows stands for sizes that data decide
    columns = zip(flat.traced(), space.inputs, slots, strict=True)
    for (leaf, spec, _), cells, slot in columns:
        if spec.level == ACTIVE:
            if not isinstance(leaf, np.ndarray) or not leaf.flags.c_contiguous:
                raise SpecError(f"{spec.path}: bind needs C-contiguous arrays, whose memory each call reads")
            if slot.value not in copied:
                rows.append((cells.ctypes.data, leaf.ctypes.data, leaf.nbytes))
    return np.array(rows, np.int64).reshape(-1, 3)


def _copies_out(flat: Flattened, space: VariantWorkspace, buffers, copied: frozenset[int]) -> np.ndarray:
    rows = []
    results = {id(view): value for value, view, _ in space.results()} if copied else {}
    for (_, spec, _), view, buffer in zip(flat.traced(), space.gradients, buffers, strict=True):
        if buffer is not None and view is not None:
            if not buffer.flags.c_contiguous:
                raise SpecError(f"out for {spec.path}: bind needs a C-contiguous array")
            if results.get(id(view)) not in copied:
                rows.append((buffer.ctypes.data, view.ctypes.data, buffer.nbytes))
    return np.array(rows, np.int64).reshape(-1, 3)


def stopped() -> None:
    """The sweep stopped: at a guard, or at an error."""
