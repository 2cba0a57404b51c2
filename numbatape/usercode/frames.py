"""Where in the user's code the program is now, read off the stack."""

from __future__ import annotations

import builtins
import dis
import sys
import types
import warnings

from ..errors import UnsupportedOperationError
from ..tape.tape import shown_name
from . import absences, ownership
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


def catches(kind: type[Exception], start: types.FrameType | None) -> bool:
    """Whether the function that is traced, or one that it has called, may catch an error of Python's.

    Parameters
    ----------
    kind
        The class of the error.
    start
        The frame that has called the function.
    """
    frame = sys._getframe(1)
    while frame is not None and frame is not start:
        code = frame.f_code
        if (
            code.co_exceptiontable
            and not is_core[code.co_filename]
            and ownership.is_users_file(code.co_filename, frame.f_globals.get("__name__"))
            and absences.catches(code, kind)
        ):
            return True
        frame = frame.f_back
    return False


ERRORS = frozenset(("NumbatapeError", "UnsupportedOperationError", "LeakError"))


def may_be_caught(start: types.FrameType | None) -> bool:
    """Whether an error that numbatape raises now may be caught by the user's code that has called it.

    Code that names the errors of numbatape means them.

    Parameters
    ----------
    start
        The frame that has called the function which is traced.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(ownership.PACKAGE):
        frame = frame.f_back
    if frame is None or not ownership.is_users_file(
        frame.f_code.co_filename, frame.f_globals.get("__name__")
    ):
        return False  # a library's code tries some things, and goes another way if they fail
    found = False
    while frame is not None and frame is not start:
        code = frame.f_code
        if not is_core[code.co_filename] and code.co_exceptiontable:
            if not ERRORS.isdisjoint(code.co_names):
                return False
            found = True
        frame = frame.f_back
    return found


LOGS = ("logging", "warnings", "traceback", "reprlib")


def asked_by(modules: tuple[str, ...]) -> bool:
    """Whether code of some module of the standard library is between here and the user's code."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(ownership.PACKAGE):
        frame = frame.f_back
    return frame is not None and ownership.top(frame.f_globals.get("__name__")) in modules


def where_in_user_code() -> str:
    """Return ``file:line in function`` of the user's code, for error messages."""
    frame = user_frame()
    return f"{shown_name(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def not_supported(what: str, hint: str = "") -> UnsupportedOperationError:
    """Return the error for something that the user's code asks for; the hint says what is supported."""
    return UnsupportedOperationError(
        f"{what} at {where_in_user_code()} is not supported" + (f"; {hint}" if hint else "")
    )


STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}


def is_store(frame) -> bool:
    """Whether a frame is at an assignment ``a[i] = x``."""
    return frame.f_code.co_code[frame.f_lasti] in STORES


def is_stored() -> bool:
    """Whether the user's code is at an assignment ``a[i] = x`` now."""
    return is_store(user_frame())


_SUBSCRIPTS = {dis.opmap[name] for name in ("BINARY_SUBSCR", "BINARY_SLICE") if name in dis.opmap}
_BINARY = dis.opmap["BINARY_OP"]
_BINARIES = {name: k for k, (name, _) in enumerate(getattr(dis, "_nb_ops", ()))}
_SUBSCRIPT_OF_BINARY = _BINARIES.get("NB_SUBSCR")
_REMAINDERS = (_BINARIES.get("NB_REMAINDER"), _BINARIES.get("NB_INPLACE_REMAINDER"))


def is_index(frame) -> bool:
    """Whether a frame is at ``a[i]``, which since Python 3.14 is one of the binary operators."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == _BINARY:
        return code[at + 1] == _SUBSCRIPT_OF_BINARY
    return code[at] in _SUBSCRIPTS


def is_remainder(frame) -> bool:
    """Whether a frame is at ``a % b``, which is a number or a text."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == _BINARY and code[at + 1] in _REMAINDERS


def unreachable(what: str) -> str:
    """Return the message for a traced value that goes into an array outside of the trace."""
    return (
        f"{what} at {where_in_user_code()} writes a traced value into an array that the trace cannot reach "
        "(captured, or made by code that runs as it is): make the array inside the function (np.zeros, "
        "np.array(data)), build the result with np.stack, or `import numbatape.numpy as np` where the "
        "function's own np is out of reach"
    )


_CODE = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


class UsersLine:
    """The line of the user's code that is running, from which functions of libraries are called.

    SciPy's solvers warn at the line that calls them, and Python shows a warning once per line. While a
    function is traced, and when its tape runs, the caller is numbatape. So the call is made from a frame
    whose file and line are those of the user's call. Unlike ``warnings.catch_warnings`` this does not change
    Python's filters and registries, which other threads use, too.

    Parameters
    ----------
    frame
        A frame of that code; the innermost one, unless it is given.
    """

    def __init__(self, frame=None):
        frame = user_frame() if frame is None else frame
        self._code, self._line, scope = frame.f_code, frame.f_lineno, frame.f_globals
        module = sys.modules.get(scope.get("__name__", ""))
        # Copies have globals of their own; the registry of warnings that were shown is in the module's.
        known = getattr(module, "__dict__", scope)
        own = known if known.get("__file__") == scope.get("__file__") else scope
        self._scope = {
            "__name__": scope.get("__name__", "<unknown>"),
            "__warningregistry__": own.setdefault("__warningregistry__", {}),
            "__builtins__": builtins,
        }
        self._caller: types.FunctionType | None = None

    def call(self, function, *args, **kwargs):
        """Call a function from this line."""
        if self._caller is None:
            names = {"co_filename": self._code.co_filename, "co_name": self._code.co_name}
            code = _CODE.replace(**names, co_qualname=self._code.co_qualname, co_firstlineno=self._line)
            self._caller = types.FunctionType(code, self._scope)
        return self._caller(function, args, kwargs)

    def warn(self, message: str, category: type[Warning]) -> None:
        """Give a warning at this line."""
        file, scope = self._code.co_filename, self._scope
        registry = scope["__warningregistry__"]
        warnings.warn_explicit(message, category, file, self._line, scope["__name__"], registry)
