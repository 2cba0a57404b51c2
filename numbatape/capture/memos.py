"""Functions that remember their results by their arguments, while a function is traced.

A traced number can be no key of ``functools.lru_cache``: two values of the same number have derivatives of
their own, and what the cache keeps would outlive the trace. So calls with traced numbers are remembered by
the very values, for as long as the trace runs. All others have a cache of their own, too, which is empty when
the trace begins: the function that it fills itself with runs as a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..trace import pytrees
from ..trace.complex_parts import is_traced
from ..trace.trace import current


def remembering(cached, function: Callable) -> Callable:
    """Return what remembers a function's results in a trace.

    Parameters
    ----------
    cached
        What ``lru_cache`` makes of the function.
    """
    mine = object()

    @functools.wraps(function)
    def call(*args, **kwargs):
        leaves, structure = pytrees.flatten((args, kwargs))
        trace = current()
        if trace is None or not any(map(_is_traced_number, leaves)):
            return cached(*args, **kwargs)
        # What an inner trace has computed is none of the outer one's values, so each has its own memory.
        found = trace.capture.remembered
        key = mine, structure, tuple(("traced", id(x)) if _is_traced_number(x) else x for x in leaves)
        if key not in found:
            found[key] = function(*args, **kwargs), leaves  # kept alive, so that no others get their ids
        return found[key][0]

    for name in ("cache_info", "cache_clear", "cache_parameters"):
        setattr(call, name, getattr(cached, name))
    return call


def _is_traced_number(x) -> bool:
    return is_traced(x) and not np.ndim(x) and x.dtype.kind in "fc"


def of_lru_cache(original: Callable) -> Callable:
    """Return the stand-in for ``functools.lru_cache``, for functions that the traced function decorates."""

    def lru_cache(maxsize=128, typed=False):
        if current() is None:
            return original(maxsize, typed)
        if callable(maxsize):
            return remembering(original(maxsize), maxsize)
        decorate = original(maxsize, typed)
        return lambda function: remembering(decorate(function), function)

    return lru_cache


def of_cache(original: Callable) -> Callable:
    """Return the stand-in for ``functools.cache``."""
    return lambda function: (
        original(function) if current() is None else remembering(original(function), function)
    )
