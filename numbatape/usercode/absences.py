"""Names that code reads and that may be missing: it asks for them with a default, or catches the error.

Such a name may appear between two calls, and then the function computes something else. All other names are
there, or the function fails where it is traced.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types

from .bytecode import ATTRIBUTES, globals_assigned, globals_read, inner, names_of, operations, text_of

_ASKING = frozenset(("getattr", "hasattr", "attrgetter", "vars", "__dict__"))
_CAUGHT = frozenset(("AttributeError", "NameError", "Exception", "BaseException", "suppress"))
_CAUGHT_DIVISION = frozenset(
    ("ZeroDivisionError", "ArithmeticError", "Exception", "BaseException", "suppress")
)
_HANDLER, _POP = dis.opmap["PUSH_EXC_INFO"], dis.opmap["POP_TOP"]


@functools.lru_cache(maxsize=10_000)
def asked_for(code: types.CodeType) -> frozenset[str]:
    """Return the names that code, or a function inside it, may ask for as text: ``getattr(x, "name", 0)``."""
    own = []
    if not _ASKING.isdisjoint(code.co_names):
        own = [text for text in code.co_consts if isinstance(text, str) and text.isidentifier()]
    return frozenset(own).union(*map(asked_for, inner(code)))


@functools.lru_cache(maxsize=10_000)
def may_catch(code: types.CodeType) -> bool:
    """Whether code, or a function inside it, may catch the error that a missing name raises."""
    if code.co_exceptiontable and (not _CAUGHT.isdisjoint(names_of(code)) or _catches_all(code)):
        return True
    return any(map(may_catch, inner(code)))


@functools.lru_cache(maxsize=10_000)
def may_catch_division(code: types.CodeType) -> bool:
    """Whether code may catch the error of a division by zero."""
    return not _CAUGHT_DIVISION.isdisjoint(code.co_names) or _catches_all(code)


def _catches_all(code: types.CodeType) -> bool:
    """Whether code has an ``except`` without a class: it drops the exception without looking at it."""
    found = [op for op, _ in operations(code)]
    return any(pair == (_HANDLER, _POP) for pair in zip(found, found[1:], strict=False))


@functools.lru_cache(maxsize=10_000)
def attributes_read(code: types.CodeType) -> frozenset[tuple[str, str]]:
    """Return pairs of a name and of an attribute that code, or a function inside it, reads off it."""
    found, before = set(), ""
    for op, arg in operations(code):
        name = text_of(code, op, arg)
        if op in ATTRIBUTES:
            found.add((before, name))
        before = name
    return frozenset(found).union(*map(attributes_read, inner(code)))


@functools.lru_cache(maxsize=10_000)
def unbound(code: types.CodeType) -> frozenset[str]:
    """Return the globals that code reads or assigns to and that are no builtins.

    Builtins are left out, because they are missing among the globals of nearly every function, and each name
    takes 20 ns in each call.
    """
    read = (name for name in globals_read(code) if not hasattr(builtins, name))
    return frozenset(read).union(globals_assigned(code))
