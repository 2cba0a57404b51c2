"""Calling functions of libraries from lines of the user's code.

SciPy's solvers warn at the line that calls them, and Python shows a warning once per line. While a function
is traced, and when its tape runs, the caller is numbatape. So the call is made from a frame whose file and
line are those of the user's call. Unlike ``warnings.catch_warnings`` this does not change Python's filters
and registries, which other threads use, too.
"""

from __future__ import annotations

import builtins
import sys
import types
import warnings

from .frames import user_frame

_CODE = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


class UsersLine:
    """The line of the user's code that is running.

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
