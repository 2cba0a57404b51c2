"""Whether calls keep memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

from .derivative_error import DerivativeError

CALLS = 20
WINDOWS = 6
GROWTH = 4096  # bytes that CALLS steady calls may keep: a garbage collector may not have run


def check_growth(call: Callable, plain: Callable | None = None) -> None:
    """Raise if steady calls keep memory, beyond what as many calls of the plain function keep by themselves.

    Libraries leak, too: a call of ``scipy.integrate.solve_ivp`` with LSODA keeps 0.8 KB (SciPy 1.17).
    """
    # Freezing spares the garbage collector a dozen searches of all existing objects, which take seconds in a
    # process that has compiled a thousand kernels.
    frozen = gc.get_freeze_count() == 0
    if frozen:
        gc.freeze()
    try:
        kept = _beyond(call, plain)
        if frozen and kept > GROWTH:
            # Frozen objects that nobody refers to any more kept what they refer to: free them, and repeat.
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            kept = _beyond(call, plain)
    finally:
        if frozen:
            gc.unfreeze()
    if kept > GROWTH:
        raise DerivativeError(f"{CALLS} calls like the ones before kept {kept} bytes more")


def _beyond(call: Callable, plain: Callable | None) -> int:
    """Return the bytes that calls keep, without what as many calls of the plain function keep."""
    kept = min(_growth(call))
    if plain is not None and kept > GROWTH:
        kept -= max(0, min(_growth(plain)))
    return kept


def _growth(call: Callable) -> list[int]:
    """Return the bytes kept in each window of calls, up to the first one that keeps next to none."""
    grown: list[int] = []
    tracing = tracemalloc.is_tracing()
    if not tracing:
        # One tracing covers all windows, because what was made before tracing is not seen when
        # something replaces it.
        tracemalloc.start()
    # A leak grows in every window, but caches that fill up, or other threads, do not.
    while len(grown) < WINDOWS and not (grown and grown[-1] <= GROWTH):
        call()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(CALLS):
            call()
        gc.collect()
        grown.append(tracemalloc.get_traced_memory()[0] - before)
    if not tracing:
        tracemalloc.stop()
    return grown


def peak_of(call: Callable) -> int:
    """Return how many bytes a steady call allocates at most, the float that it returns not counted."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    found = []
    for _ in range(CALLS):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = call()
        found.append(tracemalloc.get_traced_memory()[1] - before - sys.getsizeof(result))
    if not tracing:
        tracemalloc.stop()
    return max(0, min(found))  # the smallest, because other threads may allocate, too
