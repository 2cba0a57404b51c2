"""Where code takes a variable as an operand of ``@``, or calls it, if it does nothing else with it."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
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
_SHAPES = frozenset(("shape", "size", "ndim", "dtype"))  # attributes that say nothing about contents
_LOADS = _ADDS - {"LOAD_CONST", "LOAD_SMALL_INT", "PUSH_NULL", "NOP", "RESUME", "KW_NAMES"}
_ARGUMENTS = "CALL" if sys.version_info >= (3, 12) else "PRECALL"  # what takes arguments off the stack
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
    """Return the offsets of the ``@``, and of the calls, of which a variable is an operand or an argument.

    A call is a product if it has called ``np.dot`` or ``np.matmul``, which the trace knows. None if code, or
    a function inside it, does anything else with the variable, or may come to one of these places twice.
    """
    found: list[int] = []
    for takes, depth in _takers(code, name) or []:
        if takes is not None and takes.opname == "LOAD_ATTR" and takes.argval in _SHAPES:
            continue
        if takes is not None and takes.opname == "BINARY_OP" and takes.argrepr == "@":
            found.append(takes.offset)
            continue
        call = None if takes is None else _call_with(code, takes, depth)
        if call is None:
            return None
        found.append(call)
    return frozenset(found) if len(set(found)) == len(found) else None


@functools.lru_cache(maxsize=1000)
def call_of(code: types.CodeType, name: str) -> int | None:
    """Return the offset of the one call of a variable, if code does nothing else with it, and not twice."""
    takers = _takers(code, name) or []
    if len(takers) != 1 or takers[0][0] is None or takers[0][0].opname != "CALL":
        return None
    ((call, depth),) = takers
    # Until Python 3.11, another instruction has taken the arguments before.
    return call.offset if depth > (call.arg if _ARGUMENTS == "CALL" else 0) else None


@functools.lru_cache(maxsize=1000)
def argument_of(code: types.CodeType, name: str, call: int) -> int | None:
    """Return the number of the argument that a variable is in a call, if code does nothing else with it.

    None if the call, of which this is the offset, gives arguments by keywords.
    """
    takers = _takers(code, name) or []
    if len(takers) != 1 or takers[0][0] is None or _call_with(code, *takers[0]) != call:
        return None
    ((taker, depth),) = takers
    return taker.arg - depth


def _call_with(code: types.CodeType, taker: dis.Instruction, depth: int) -> int | None:
    """Return the offset of the call that takes an entry of the stack as an argument that has no keyword."""
    if taker.opname != _ARGUMENTS or depth > taker.arg:
        return None
    listed = _listed(code)
    (at,) = (k for k, instruction in enumerate(listed) if instruction.offset == taker.offset)
    if listed[at - 1].opname == "KW_NAMES":
        return None
    return listed[at + (_ARGUMENTS != "CALL")].offset


def beginning(code: types.CodeType, at: int) -> int:
    """Return where the instruction begins at which a frame is, which may be in the cache behind it."""
    return max(i.offset for i in _listed(code) if i.offset <= at)


def _listed(code: types.CodeType) -> list[dis.Instruction]:
    return [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]


def _takers(code: types.CodeType, name: str) -> list[tuple[dis.Instruction | None, int]] | None:
    """Return what takes a variable off the stack, for each place that loads it.

    With the instruction comes how deep in the stack the variable is. None if code, or a function inside it,
    does anything else with the variable than to load it, or may come to a place twice.
    """
    if code.co_flags & _SUSPENDS or any(_names(part, name) for part in inner(code)):
        return None
    listed = _listed(code)
    if any(i.opcode in _JUMPS and i.argval <= i.offset for i in listed):
        return None
    found = []
    for k, instruction in enumerate(listed):
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if name not in names or instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_CONST"):
            continue  # an attribute with this name is no variable
        if instruction.opname not in _LOADS:
            return None
        found += [_taker_of(listed, k, len(names) - at) for at, each in enumerate(names) if each == name]
    return found


def _names(code: types.CodeType, name: str) -> bool:
    named = name in (*code.co_names, *code.co_freevars, *code.co_cellvars)
    return named or any(_names(part, name) for part in inner(code))


def _taker_of(listed: list[dis.Instruction], k: int, depth: int) -> tuple[dis.Instruction | None, int]:
    """Return what takes what instruction ``k`` loads, and how deep it is then; None if that is not known."""
    # How many entries the stack has from what was loaded on; since Python 3.13 a NULL may lie on top of it.
    depth += sys.version_info >= (3, 13) and "NULL" in listed[k].argrepr
    for instruction in listed[k + 1 :]:
        if instruction.opcode in _JUMPS or instruction.is_jump_target:
            return None, 0
        effect = dis.stack_effect(instruction.opcode, instruction.arg)
        taken = _taken(instruction.opname, effect)
        if taken is None:
            return None, 0
        if taken >= depth:
            return instruction, depth
        depth += effect
    return None, 0


def _taken(opname: str, effect: int) -> int | None:
    """Return how many entries an instruction takes off the stack; None where that is not known."""
    if opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return 1
    if opname in _ADDS:
        return 0
    if opname in _ONE_RESULT:
        return 1 - effect
    return -effect if opname == "PRECALL" else None
