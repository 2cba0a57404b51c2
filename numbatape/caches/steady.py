"""The steady call of a gradient cache: a closure for the specs, sizes and constants of the last one.

It checks the arguments' class, dtype and shape, copies them in, enters one kernel (which compares
watched constants, sweeps forward and back) and copies the gradients out: 0.7 µs around the sweeps.
What it does not know it hands to the general call, as it does while another call is under way. A closure
that another thread got hold of before this one loaded other constants sees that they are not its own.
"""

from __future__ import annotations

import numpy as np

from ..engine import kernels
from ..tape.tape import ACTIVE, CONSTANT
from . import steady_complex
from .arguments import STATIC, Flattened, LeafSpec, is_mark
from .program import VariantWorkspace
from .results import gradient_leaves

ndarray = np.ndarray
_MISSING = object()


def is_regular(cache, flat: Flattened) -> bool:
    """Whether the closure can serve calls like this one: arrays and floats, one an argument."""
    config = cache._program.config
    given = cache._given
    leaves = [spec for spec in flat.specs if spec.part != "imag"]
    return (
        not config.debug_mode
        and config.friendly_tangents
        and not any(
            spec.part and spec.level == CONSTANT for spec in flat.specs
        )  # watched in the caller's memory
        and flat.count == len(leaves)  # no keywords; arguments are leaves, not containers
        and all(was is leaf for was, leaf in zip(given, flat.marks, strict=True) if is_mark(was))
        and all(is_mark(was) or s.level == ACTIVE for was, s in zip(given, leaves, strict=True))
        and all(spec.kind in ("array", "float") for spec in flat.active)
        and not any(spec.dtype == np.float16 for spec in flat.specs)  # whose cells are float32
    )


def make(cache, flat: Flattened, space: VariantWorkspace, output, general):
    """Return the arguments of ``GradientCache._serve``: ``general`` where a closure would not serve."""
    if (
        output is None
        or space.variant.single_use
        or space.variant.sharing is not None
        or not is_regular(cache, flat)
        or not cache._evaluator.watch(space, flat)
    ):
        return (general,)
    environment = cache._program.environment
    rebound = None if environment.empty else environment.rebound
    value = space.outputs[output.number].reshape(-1)
    turn, loaded, hits = cache._turn, space.constants, space.variant.counter
    gradient, words = kernels.call_of("gradient", space.address, value, _stopped, hits)
    space.alive = words, value
    number = _number(space.variant.recording.values[output.number])
    if flat.is_complex:
        return (steady_complex.make(flat, space, (gradient, value, number), rebound, general, turn),)
    grads = _packer(flat, space, cache._program.config.reuse_buffers)
    traced = [
        (leaf, spec) for leaf, spec in zip(flat.leaves, flat.specs, strict=True) if spec.level != STATIC
    ]
    rows = [
        (cells, spec, np.shape(leaf))
        for cells, (leaf, spec) in zip(space.inputs, traced, strict=True)
        if spec.level == ACTIVE
    ]
    if len(rows) == 1 and rows[0][1].kind == "array" and number is None:
        cells, spec, shape = rows[0]
        dtype = np.dtype(spec.dtype)

        (copy,) = (view.copy for view in gradient_leaves(flat, space) if view is not None)
        lone = flat.specs[0].level == ACTIVE and not cache._program.config.reuse_buffers
        constants = (None,) * (flat.count - 1)

        def call_one(x=_MISSING, *rest):
            if (
                x.__class__ is ndarray
                and x.dtype is dtype
                and x.shape == shape
                and not rest
                and (rebound is None or not rebound())
                and not turn.busy
            ):
                turn.busy = True
                try:
                    cells[...] = x
                    if space.constants is loaded and gradient() is not None:
                        return value[0], (copy(),) + constants if lone else grads()  # noqa: RUF005  (100 ns)
                finally:
                    turn.busy = False
            return general() if x is _MISSING else general(x, *rest)

        made = kernels.steady_call(
            space.address,
            call_one,
            turn,
            hits,
            shape=shape,
            cells=cells,
            dtype=dtype,
            ndim=len(shape),
            rebound=rebound,
            value=value,
            copy=copy,
            fixed=None if lone else grads() if cache._program.config.reuse_buffers else None,
            constants=constants or None,
        )
        if made is None or (not lone and not cache._program.config.reuse_buffers):
            return (call_one,)
        return call_one, *made

    count = len(rows)

    def call_many(*args):
        if len(args) == count and (rebound is None or not rebound()) and not turn.busy:
            turn.busy = True
            try:
                for x, (cells, spec, shape) in zip(args, rows, strict=True):
                    if spec.kind == "float":
                        if x.__class__ is not float:
                            break
                    elif x.__class__ is not ndarray or x.dtype != spec.dtype or x.shape != shape:
                        break
                    cells[...] = x
                else:
                    if space.constants is loaded and gradient() is not None:
                        return value[0] if number is None else number(value[0]), grads()
            finally:
                turn.busy = False
        return general(*args)

    return (call_many,)


def _stopped() -> None:
    """The sweep stopped: at a guard, at a constant that changed, or at an error."""


def _number(kept):
    """Return what makes the result's kind of number of a NumPy scalar; None: nothing is to do."""
    if isinstance(kept, ndarray):
        return np.array
    return float if type(kept) is float else None


def _packer(flat: Flattened, space: VariantWorkspace, reuse: bool):
    """Return a function that packs the gradients of the last sweep, as its caller gets them."""
    rows: list[tuple[ndarray | None, LeafSpec]] = list(
        zip(gradient_leaves(flat, space), flat.specs, strict=True)
    )
    if reuse and all(view is None or spec.kind == "array" for view, spec in rows):
        fixed = tuple(view for view, _ in rows)
        return lambda: fixed

    def pack():
        return tuple(
            None if view is None else view[()] if spec.kind != "array" else view if reuse else view.copy()
            for view, spec in rows
        )

    return pack
