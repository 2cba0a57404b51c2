"""Pausing Python's garbage collector in steps that make hundreds of thousands of small tuples.

The collector would examine all of these tuples repeatedly without finding any garbage, because none of them
is part of a cycle. In the derivative of a long program this took a quarter of the time.
"""

from __future__ import annotations

import functools
import gc


def uncollected(function):
    """Return an internal function that runs with the collector off. It calls no user code except rules."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return run
