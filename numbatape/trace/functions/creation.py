"""``np.zeros`` and its kind while a function that writes to arrays is traced.

They make ordinary arrays that a traced value may be written into later: see `numbatape.trace.plain`.
"""

from __future__ import annotations

import numpy as np

from ..plain import strip, trace_of_plain, wrap
from ..trace import CURRENT
from .common import find_trace

NAMES = (
    *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy", "fromiter"),
    *("arange", "linspace", "logspace", "geomspace", "eye", "identity", "tri", "diag", "diagflat"),
    *("concatenate", "stack", "vstack", "hstack", "column_stack", "tile", "repeat", "append"),
    *("fromfunction", "indices", "vander", "outer", "broadcast_to", "where", "reshape"),
)


def creating(original, stand_in=None):
    """Return a function that makes plain arrays of the current trace where it would make ndarrays.

    Parameters
    ----------
    original
        NumPy's function.
    stand_in
        What runs in its place for traced arguments, where they do not reach it by themselves.
    """

    def call(*args, **kwargs):
        trace = CURRENT.get()
        if find_trace(args, tuple(kwargs.values())) is not None:
            return (stand_in or original)(*args, **kwargs)
        inner = trace_of_plain(args, kwargs)
        result = original(*strip(args), **strip(kwargs))
        trace = inner or trace
        if trace is None or (inner is None and not _is_fresh(result, args)):
            return result
        if original in (np.empty, np.empty_like):
            result = np.zeros_like(result)  # what stood in memory is nobody's number
        return wrap(trace, result)

    call.__name__ = call.__qualname__ = original.__name__
    call.__doc__ = original.__doc__
    call.__wrapped__ = original
    return call


def _is_fresh(result, args) -> bool:
    """Whether an array is no argument, and no view of one: what is captured stays as it is."""
    if type(result) is not np.ndarray:
        return False
    return not any(isinstance(arg, np.ndarray) and np.may_share_memory(arg, result) for arg in args)


def creators(stand_ins: dict[str, tuple]) -> dict[str, tuple]:
    """Return ``{name: (original, stand-in)}``, given what stands in for functions as it is."""
    return {
        name: (getattr(np, name), creating(getattr(np, name), stand_ins.get(name, (None, None))[1]))
        for name in NAMES
    }
