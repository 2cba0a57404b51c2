"""Random draws while tracing raise: a tape would replay one draw for ever.

The legacy global generator is noticed by its state. A ``Generator`` that the function captures is
noticed the same way by `numbatape.trace.capture`.
"""

from __future__ import annotations

import contextlib

import numpy as np

from ..errors import UnsupportedOperationError

MESSAGE = (
    "the function draws random numbers{where} while it is traced; the tape would repeat this draw in "
    "every call. Draw outside and pass the numbers as nt.Constant(...)"
)


def _legacy_state():
    import random

    position = np.random.get_state(legacy=False)
    return position["state"]["pos"], position["state"]["key"][:4].tobytes(), position["gauss"], hash(random.getstate())


@contextlib.contextmanager
def forbidden():
    """Raise `UnsupportedOperationError` if the global generators moved inside the block."""
    before = _legacy_state()
    yield
    if _legacy_state() != before:
        raise UnsupportedOperationError(MESSAGE.format(where=" (np.random or random)"))
