"""Code that calls functions of ours in place of types, and refers to the types themselves everywhere else.

``float`` in ``dtype=float`` means the type. In ``float(x)`` it is a function, and a traced argument needs
another one.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from operator import is_

from .bytecode import LOAD_GLOBAL

_CACHE, _ATTRIBUTE, _NULL = (dis.opmap[name] for name in ("CACHE", "LOAD_ATTR", "PUSH_NULL"))
_METHOD = dis.opmap["LOAD_METHOD"] if sys.version_info < (3, 12) else _ATTRIBUTE
_SHIFT = 0 if sys.version_info < (3, 12) else 1  # the lowest bit of LOAD_ATTR says that it is LOAD_METHOD


@functools.lru_cache(maxsize=10_000)
def with_calls(code: types.CodeType, names: tuple[tuple[str, str], ...]) -> types.CodeType:
    """Return code, and the code of the functions inside it, that calls other globals in place of some.

    Parameters
    ----------
    names
        Pairs of a global's name and of the name that is called instead. Where the code does anything else
        with the global (``dtype=float``), it still refers to the old name.
    """
    constants = tuple(with_calls(c, names) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    text, others = bytearray(code.co_code), list(code.co_names)
    for old, new in names:
        if old not in code.co_names:
            continue
        # The lowest bit of the argument says that the instruction prepares a call. Arguments that take more
        # than a byte stay as they are.
        call = code.co_names.index(old) << 1 | 1
        to = len(others) << 1 | 1
        if to > 255:
            continue
        others.append(new)
        for at in range(0, len(text), 2):
            if (
                text[at] == LOAD_GLOBAL
                and text[at + 1] == call
                and not (at and text[at - 2] == dis.EXTENDED_ARG)
            ):
                text[at + 1] = to
    if bytes(text) == code.co_code and all(map(is_, constants, code.co_consts)):
        return code
    return code.replace(co_code=bytes(text), co_names=tuple(others), co_consts=constants)


@functools.lru_cache(maxsize=10_000)
def with_methods(code: types.CodeType, owners: frozenset[str], names: frozenset[str], other: str):
    """Return code, and the code of the functions inside it, that calls some attributes of another global.

    Parameters
    ----------
    owners
        Names of globals (``np``).
    names
        Names of attributes (``float64``): the calls ``np.float64(x)`` become calls of ``other.float64``.
    """
    constants = tuple(
        with_methods(c, owners, names, other) if isinstance(c, types.CodeType) else c for c in code.co_consts
    )
    text, others = bytearray(code.co_code), [*code.co_names, other]
    places = [at for at in range(0, len(text), 2) if text[at] != _CACHE]
    for at, attribute, behind in zip(places, places[1:], places[2:], strict=False):
        if (
            text[at] == LOAD_GLOBAL
            and others[text[at + 1] >> 1] in owners
            and not (at and text[at - 2] == dis.EXTENDED_ARG)
            and text[attribute] in (_ATTRIBUTE, _METHOD)
            and others[text[attribute + 1] >> _SHIFT] in names
            and _is_called(text[at + 1] & 1, text[attribute], text[attribute + 1], text[behind])
            and len(others) <= 128  # larger numbers need another instruction
        ):
            text[at + 1] = (len(others) - 1) << 1 | (text[at + 1] & 1)
    if bytes(text) == code.co_code and all(map(is_, constants, code.co_consts)):
        return code
    return code.replace(co_code=bytes(text), co_names=tuple(others), co_consts=constants)


def _is_called(null: int, op: int, arg: int, following: int) -> bool:
    """Whether an attribute of a global is called at once.

    Python loads it as a method; or, if the global was imported in the same file, as an attribute with the
    null of a call before it (until 3.12) or behind it.
    """
    return bool(null) or op != _ATTRIBUTE or bool(_SHIFT and arg & 1) or following == _NULL
