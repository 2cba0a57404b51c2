"""``warnings`` in a traced function that turns warnings into errors, or collects them.

Tracing runs with NumPy's floating-point warnings off, because a tape gives none. If the function uses
warnings, they are on again, as in its caller, and the tape holds for these inputs only: no guard says which
other inputs give warnings.
"""

from __future__ import annotations

import numpy as np

from ..numpy_api.stand_ins import named_like
from ..trace.trace import current


def _see_warnings() -> None:
    """Let NumPy give warnings from here on, as outside of the trace."""
    trace = current()
    if trace is not None:
        trace.validity.failed = True
        np.seterr(**trace.capture.float_errors)


def catch_warnings(original):
    """Return the stand-in for ``warnings.catch_warnings``."""

    class Catching(original):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._collects = kwargs.get("record", False)

        def __enter__(self):
            self._float_errors = np.geterr()
            log = super().__enter__()
            if self._collects:
                _see_warnings()
            return log

        def __exit__(self, *error):
            np.seterr(**self._float_errors)
            return super().__exit__(*error)

    Catching.__name__ = Catching.__qualname__ = original.__name__
    return Catching


def adding_filter(original):
    """Return the stand-in for ``warnings.simplefilter`` or ``filterwarnings``."""

    def add(action, *args, **kwargs):
        original(action, *args, **kwargs)
        if action == "error":
            _see_warnings()

    return named_like(add, original)
