"""Names that code reads and that may be missing: it asks for them with a default, or catches the error.

Such a name may appear between two calls, and then the function computes something else. All other names are
there, or the function fails where it is traced.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import types

from .bytecode import ATTRIBUTES, NAMES, globals_assigned, globals_read, inner, operations, text_of

_ASKING = frozenset(("getattr", "hasattr", "attrgetter", "vars", "__dict__"))
# What a `with` statement may name that lets errors through.
_PASSING = frozenset(
    (
        *("errstate", "catch_warnings", "nullcontext", "closing", "open", "printoptions", "localcontext"),
        *("Lock", "RLock", "lock", "_lock", "redirect_stdout", "redirect_stderr", "set_workers"),
    )
)
# Classes of errors that are no builtins and that no error of Python's own is one of.
_OF_LIBRARIES = frozenset(
    ("LinAlgError", "NumbatapeError", "UnsupportedOperationError", "LeakError", "SpecError")
)
_HANDLER, _POP_HANDLER = dis.opmap["PUSH_EXC_INFO"], dis.opmap["POP_EXCEPT"]
_MATCHES = (dis.opmap["CHECK_EXC_MATCH"], dis.opmap["CHECK_EG_MATCH"])
_WITH, _RAISE = dis.opmap["WITH_EXCEPT_START"], dis.opmap["RERAISE"]
_ENTER = {
    dis.opmap[name] for name in ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL") if name in dis.opmap
}
_ENDS = {k for k, name in enumerate(dis.opname) if name.startswith(("STORE_", "POP_", "JUMP_", "RETURN_"))}


@functools.lru_cache(maxsize=10_000)
def asked_for(code: types.CodeType) -> frozenset[str]:
    """Return the names that code, or a function inside it, may ask for as text: ``getattr(x, "name", 0)``."""
    own = []
    if not _ASKING.isdisjoint(code.co_names):
        own = [text for text in code.co_consts if isinstance(text, str) and text.isidentifier()]
    return frozenset(own).union(*map(asked_for, inner(code)))


@functools.lru_cache(maxsize=10_000)
def may_catch(code: types.CodeType, *kinds: type[Exception]) -> bool:
    """Whether code, or a function inside it, may catch one of these errors."""
    return any(catches(code, kind) for kind in kinds) or any(may_catch(part, *kinds) for part in inner(code))


@functools.lru_cache(maxsize=10_000)
def catches(code: types.CodeType, kind: type[Exception]) -> bool:
    """Whether a statement of code itself may catch an error: unless it is known that none does."""
    if not code.co_exceptiontable:
        return False
    everything, named, managers = _handlers(code)
    return everything or not managers <= _PASSING or any(_may_be_class_of(name, kind) for name in named)


def _may_be_class_of(name: str, kind: type[Exception]) -> bool:
    """Whether what code calls so may be a class of an error, or a tuple of such classes."""
    its = getattr(builtins, name, None)
    if isinstance(its, type) and issubclass(its, BaseException):
        return issubclass(kind, its)
    return name not in _OF_LIBRARIES or name in [base.__name__ for base in kind.__mro__]


@functools.lru_cache(maxsize=10_000)
def _handlers(code: types.CodeType) -> tuple[bool, frozenset[str], frozenset[str]]:
    """Return whether code drops errors of any kind, what its ``except``s name, and what its ``with``s do.

    A ``finally`` drops errors where it returns, or leaves a loop: it pops the error and does not raise it.
    """
    everything, named, managers = False, set(), set()
    loaded: list[str] = []
    unseen = False  # whether this is a handler that has not looked at the error's class
    found = [*operations(code), (_RAISE, 0)]
    for (op, arg), (following, _) in itertools.pairwise(found):
        if op in _MATCHES:
            named.update(loaded)
        elif op in _ENTER:
            managers.update(loaded[:1] or ("a context manager",))
        elif op == _POP_HANDLER:
            everything = everything or (unseen and following != _RAISE)
        if op in ATTRIBUTES and loaded:
            loaded[-1] = text_of(code, op, arg)
        elif op in NAMES:
            loaded.append(text_of(code, op, arg))
        elif op in _ENDS or op in _ENTER or op == _HANDLER:
            loaded = []
        if op == _HANDLER or op in _MATCHES or op in (_WITH, _RAISE):
            unseen = op == _HANDLER
    return everything, frozenset(named), frozenset(managers)


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
