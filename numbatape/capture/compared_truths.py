"""NumPy's truth values that code compares by identity: ``(x > 0) is np.True_``.

NumPy has one object for true and one for false. A traced truth value is neither, so such a test would take
the other path without a word. No operator tells that two objects were compared, so the code is read instead.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedOperationError
from ..tape.tape import shown_name
from ..usercode.bytecode import compared_by_identity
from .environment import Environment

TRUTHS = frozenset(("True_", "False_"))  # NumPy's names


def refuse(environment: Environment) -> None:
    """Raise if code compares something with a truth value of NumPy's by identity.

    Parameters
    ----------
    environment
        What the function that is about to be traced refers to.
    """
    codes = [code for _, code in environment.functions]
    rows = [(name, line, code) for code in codes for name, line in compared_by_identity(code)]
    names = {name for name, _, _ in rows}.intersection(_held(environment)) if rows else ()
    for name, line, code in rows:
        if name in names:
            shown = f"np.{name}" if name in TRUTHS else name
            raise UnsupportedOperationError(
                f"`is {shown}` at {shown_name(code.co_filename)}:{line} in {code.co_qualname} is not "
                "supported; a traced truth value is another object than NumPy's: use bool(x)"
            )


def _held(environment: Environment) -> set[str]:
    """Return the names of what holds a truth value of NumPy's: variables, attributes, keys and parameters."""
    found = {name for _, name, value in environment.names() if type(value) is np.bool_}
    for _, items in environment.dictionaries().values():
        found.update(str(key) for key, value in items.items() if type(value) is np.bool_)
    for function, code in environment.functions:
        positional = code.co_varnames[: code.co_argcount]
        defaults = zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False)
        found.update(name for name, value in defaults if type(value) is np.bool_)
    return found | TRUTHS
