"""The warning that a function is traced in every call, because of what it reads."""

from __future__ import annotations

import warnings

from ..errors import UnwatchedWarning
from ..trace.state import Outside

_warned: set[Outside] = set()


def warn_of(outside: tuple[Outside, ...]) -> None:
    """Warn once of each source that cannot be checked before a call, at the line that reads it."""
    for one in outside:
        if one not in _warned:
            _warned.add(one)
            message = (
                f"{one} may give other numbers in each call, and nothing tells "
                "whether it does: the function is traced in every call, which is right but slow. Read it "
                "outside of the function, and pass the numbers as nt.Constant(...)"
            )
            warnings.warn_explicit(message, UnwatchedWarning, one.file or "<unknown>", one.line)
