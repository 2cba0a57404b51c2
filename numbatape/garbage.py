"""Steps that make hundreds of thousands of small tuples run without Python's garbage collector.

The collector looks at all of them again and again, and finds nothing: none of them refers to itself. In
the derivative of a long program that is a quarter of the time.
"""

from __future__ import annotations

import functools
import gc


def uncollected(function):
    """Let a function of ours run without the collector; of the user's code it calls rules at most."""

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
