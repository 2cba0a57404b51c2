"""Where code takes a variable as an operand of ``@``, if it does nothing else with it."""

from __future__ import annotations

import dis
import functools
import inspect
import types

from .bytecode import inner

_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ADDS = frozenset(
    (
        *("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"),
        *("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"),
        *("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"),
        *("PUSH_NULL", "NOP", "RESUME", "KW_NAMES"),
    )
)
# Instructions that take their operands off the stack, and leave one result.
_ONE_RESULT = frozenset(
    (
        *("BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "COMPARE_OP", "CALL", "CALL_KW"),
        *("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_NOT", "UNARY_INVERT"),
        *("BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE"),
    )
)


@functools.lru_cache(maxsize=1000)
def product_sites(code: types.CodeType, name: str) -> frozenset[int] | None:
    """Return the offsets of the ``@`` of which a global, or a variable of a closure, is an operand.

    None if code, or a function inside it, does anything else with the variable, or may come to one of these
    places twice.
    """
    if code.co_flags & _SUSPENDS or any(_names(part, name) for part in inner(code)):
        return None
    listed = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    if any(i.opcode in _JUMPS and i.argval <= i.offset for i in listed):
        return None
    found: list[int] = []
    for k, instruction in enumerate(listed):
        if instruction.argval != name or instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_CONST"):
            continue  # an attribute with this name is no variable
        if instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            return None
        site = _product_of(listed, k)
        if site is None:
            return None
        found.append(site)
    return frozenset(found) if len(set(found)) == len(found) else None


def _names(code: types.CodeType, name: str) -> bool:
    named = name in (*code.co_names, *code.co_freevars, *code.co_cellvars)
    return named or any(_names(part, name) for part in inner(code))


def _product_of(listed: list[dis.Instruction], k: int) -> int | None:
    """Return the offset of the ``@`` that takes what instruction ``k`` loads; None if something else does."""
    depth = 1  # how many entries the stack has from what was loaded on
    for instruction in listed[k + 1 :]:
        if instruction.opcode in _JUMPS or instruction.is_jump_target:
            return None
        effect = dis.stack_effect(instruction.opcode, instruction.arg)
        taken = _taken(instruction.opname, effect)
        if taken is None:
            return None
        if taken >= depth:
            is_product = instruction.opname == "BINARY_OP" and instruction.argrepr == "@"
            return instruction.offset if is_product else None
        depth += effect
    return None


def _taken(opname: str, effect: int) -> int | None:
    """Return how many entries an instruction takes off the stack; None where that is not known."""
    if opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return 1
    if opname in _ADDS:
        return 0
    if opname in _ONE_RESULT:
        return 1 - effect
    return -effect if opname == "PRECALL" else None
