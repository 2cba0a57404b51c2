"""Where in the user's code the program is now, read off the stack."""

from __future__ import annotations

import dis
import sys

from ..errors import UnsupportedOperationError
from . import ownership
from .ownership import is_core


def user_frame():
    """Return the innermost frame of the user's code, or of a library's if there is none."""
    frame = sys._getframe(1)
    outside = None
    while frame is not None:
        # The file's name decides, because hashing a code object would read all of its bytecode.
        file = frame.f_code.co_filename
        if not is_core[file]:
            if ownership.is_users_file(file, frame.f_globals.get("__name__")):
                return frame
            outside = outside or frame
        frame = frame.f_back
    return outside or sys._getframe(1)


LOGS = ("logging", "warnings", "traceback", "reprlib")


def asked_by(modules: tuple[str, ...]) -> bool:
    """Whether code of some module of the standard library is between here and the user's code."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("numbatape"):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in modules


def where_in_user_code() -> str:
    """Return ``file:line in function`` of the user's code, for error messages."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def not_supported(what: str, hint: str = "") -> UnsupportedOperationError:
    """Return the error for something that the user's code asks for; the hint says what is supported."""
    return UnsupportedOperationError(
        f"{what} at {where_in_user_code()} is not supported" + (f"; {hint}" if hint else "")
    )


STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}


def is_stored() -> bool:
    """Whether the user's code is at an assignment ``a[i] = x`` now."""
    frame = user_frame()
    return frame.f_code.co_code[frame.f_lasti] in STORES


def unreachable(what: str) -> str:
    """Return the message for a traced value that goes into an array outside of the trace."""
    return (
        f"{what} at {where_in_user_code()} writes a traced value into an array that the trace cannot reach "
        "(captured, or made by code that runs as it is): make the array inside the function (np.zeros, "
        "np.array(data)), build the result with np.stack, or `import numbatape.numpy as np` where the "
        "function's own np is out of reach"
    )
