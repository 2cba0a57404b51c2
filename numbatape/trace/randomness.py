"""Random draws while tracing raise: a tape would replay one draw for ever.

The global generators are noticed by their state; those that the function captures or gets as
arguments are noticed the same way by whoever knows them (`Environment.generator_states`).
"""

from __future__ import annotations

import contextlib
import random

import numpy as np

from ..errors import UnsupportedOperationError


def error(source: str) -> UnsupportedOperationError:
    """Return the error for a draw from ``source``."""
    return UnsupportedOperationError(
        f"the function draws random numbers ({source}) while it is traced; the tape would repeat this "
        "draw in every call. Draw outside and pass the numbers as nt.Constant(...)"
    )


def _global_states() -> tuple:
    state = np.random.get_state(legacy=False)  # noqa: NPY002  (users may draw from it)
    words = state["state"]
    return words["pos"], words["key"][:4].tobytes(), state["gauss"], hash(random.getstate())


@contextlib.contextmanager
def forbidden():
    """Raise `UnsupportedOperationError` if the global generators moved inside the block."""
    before = _global_states()
    yield
    if _global_states() != before:
        raise error("np.random or random")
