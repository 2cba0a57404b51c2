"""What a code object says: the names that it uses, where, and what it imports."""

from __future__ import annotations

import dis
import functools
import importlib.util
import types

_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))


def inner(code: types.CodeType):
    """Yield the code of the functions that code makes."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


@functools.lru_cache(maxsize=10_000)
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the global and attribute names of code and of the functions inside it."""
    return frozenset(code.co_names).union(*map(names_of, inner(code)))


@functools.lru_cache(maxsize=10_000)
def globals_read(code: types.CodeType) -> frozenset[str]:
    """Return the names that code and the functions inside it look up as globals, not as attributes."""
    own = frozenset(i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL)
    return own.union(*map(globals_read, inner(code)))


@functools.lru_cache(maxsize=10_000)
def imported(code: types.CodeType, package: str) -> tuple[str, ...]:
    """Return the full names of the modules that code imports when it runs, its own package being known."""
    found: list[str] = []
    instructions = list(dis.get_instructions(code))
    for k, instruction in enumerate(instructions):
        if instruction.opname != "IMPORT_NAME":
            continue
        level, name = instructions[k - 2].argval, instruction.argval  # then come the names, then this
        if not level:
            found.append(name)
        elif package:
            found.append(importlib.util.resolve_name("." * level + name, package))
    for code_inside in inner(code):
        found += imported(code_inside, package)
    return tuple(dict.fromkeys(found))


def line_of(code: types.CodeType, name: str) -> int:
    """Return the line where code, or a function inside it, uses a name first; its own line if none does."""
    for part in (code, *inner(code)):
        for instruction in dis.get_instructions(part):
            if instruction.argval == name and instruction.positions and instruction.positions.lineno:
                return instruction.positions.lineno
    return code.co_firstlineno
