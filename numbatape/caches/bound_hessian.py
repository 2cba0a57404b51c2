"""``cache.bind`` of Hessian caches: it imports what derivatives of tapes need, which a gradient does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..engine import kernels
from ..engine.frame import WORD
from ..errors import DtypeError, SpecError
from ..programs.results import cells_of
from ..recording.recorded import Output
from .bound import Bound, require_own_memory, stopped
from .compressed import places, views_of
from .derived import Derived


def _buffers(x, out) -> tuple:
    """Return (gradient, Hessian) to write to, checked."""
    if x.dtype == np.float16:
        raise DtypeError("bind: derivatives of float16 arrays have no bound form; bind float32 ones")
    require_own_memory((x,))
    if out is None:
        out = np.empty(x.shape, x.dtype), np.empty(x.shape + x.shape, x.dtype)
    gradient, hessian = out
    parts = ("x", x, x.shape), ("gradient", gradient, x.shape), ("hessian", hessian, x.shape * 2)
    for name, array, shape in parts:
        good = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.dtype == x.dtype
        if not good or array.shape != shape:
            raise SpecError(f"bind: {name} must be a C-contiguous array of {x.dtype}, shape {shape}")
    return out


def _elsewhere(cache, x, out) -> Callable[[], float]:
    """Return what serves a call that leaves the bound path: the cache switches, traces or raises."""
    gradient, hessian = out

    def elsewhere() -> float:
        value, gradient[...], hessian[...] = cache._general(x)  # the general call takes the cache's turn
        return float(value)

    return elsewhere


def bind_compressed(cache, known, x, out) -> Bound:
    """Return the bound callable of a Hessian cache whose pattern has few colours."""
    gradient, hessian = out = _buffers(x, out)
    elsewhere = _elsewhere(cache, x, out)
    bound = Bound()
    bound.out = out
    bound.__call__, bound._alive = elsewhere, ()
    views = views_of(known)
    if views is None:
        return bound
    result, from_gradient, products = views
    space = known.derived.last
    value = cells_of(space, result).reshape(-1)
    flat_products, place, target = places(known, products)
    cells, entries, matrix = space.inputs[0], np.empty(len(place)), hessian.reshape(-1)
    sweep, words = kernels.call_of("bound_value", space, value, stopped, space.variant.counter)
    matrix[:] = 0.0
    # Sweeps write only where the pattern has entries. A call that left the path may have written elsewhere.
    clean, turn = True, cache._turn

    def run() -> float:
        nonlocal clean
        if not turn.busy:
            turn.busy = True
            try:
                cells[...] = x
                result = sweep()
                if result is not None:
                    if not clean:
                        matrix[:] = 0.0
                        clean = True
                    gradient[...] = from_gradient
                    matrix[target] = flat_products.take(place, out=entries, mode="clip")
                    return result
                clean = False
            finally:
                turn.busy = False
        return elsewhere()

    run()
    bound.__call__, bound._alive = run, (words, value, space)
    return bound


def bind_outputs(cache, derived: Derived, x, out) -> Bound:
    """Return the bound callable of a Hessian cache; see `HessianCache.bind`."""
    space = derived.last
    gradient, hessian = out = _buffers(x, out)
    size = x.size
    elsewhere = _elsewhere(cache, x, out)
    bound = Bound()
    bound.out = out
    bound.__call__, bound._alive = elsewhere, ()
    if space is None or space.variant.is_more_than_sweeps:
        return bound
    result, grads, products = space.variant.recording.result
    leaves = [result, *grads, *products]
    if len(leaves) != 3 or any(leaf.__class__ is not Output for leaf in leaves):
        return bound
    value, from_gradient = cells_of(space, result), cells_of(space, leaves[1])
    from_hessian = space.outputs[leaves[2].number]
    if from_hessian.size != size * size or not from_gradient.flags.c_contiguous:
        return bound
    # The Hessian is symmetric: whether lanes or entries come first in memory does not matter.
    copies_in = np.array([(space.inputs[0].ctypes.data, x.ctypes.data, x.nbytes)], np.int64)
    copies_out = np.array(
        [
            (to.ctypes.data, view.ctypes.data, to.nbytes)
            for to, view in ((gradient, from_gradient), (hessian, from_hessian))
        ],
        np.int64,
    )
    for name, rows in (("COPY_IN", copies_in), ("COPY_OUT", copies_out)):
        space.frame[WORD[name]] = rows.ctypes.data
        space.frame[WORD[f"{name}_COUNT"]] = len(rows)
    flat = value.reshape(-1)
    bound.__call__, words = kernels.call_of(
        "bound_value", space, flat, elsewhere, space.variant.counter, cache._turn
    )
    bound._alive = words, flat, space, copies_in, copies_out, elsewhere, x, out
    return bound
