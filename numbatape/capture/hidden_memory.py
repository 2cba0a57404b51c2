"""Captured arrays that a function writes to, and whose memory something reads that has no stand-in.

A trace writes to copies of captured arrays (`numbatape.stand_ins.captured_arrays`), and other arrays in the
same memory are views of these copies. A memoryview, a Series of pandas, a pointer of ctypes or an object of a
library would go on with the former numbers, so the trace refuses these.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import mmap
import types
from collections.abc import Iterator

import numpy as np

from ..errors import UnsupportedOperationError
from ..usercode.ownership import is_users_object_class, module_of
from . import watching
from .environment import Environment
from .holders import holder_of
from .references import slots_of

_PARTS = 1000  # of so many parts of a library's object, the search for arrays looks at no more
_BUFFERS = (memoryview, array.array, bytearray, mmap.mmap)
# Parts that do not belong to an object but to the whole program.
_ELSEWHERE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def require_seen(trace, environment: Environment) -> None:
    """Raise if what was written to captured arrays, or to an argument, is hidden from something captured.

    Parameters
    ----------
    trace
        The trace of a run that has just ended.
    environment
        What the function refers to.
    """
    captured = [] if trace.capture.arrays is None else trace.capture.arrays.written_roots()
    if not captured:
        return
    for value in environment.reached:
        for memory in _hidden(value):
            if any(np.may_share_memory(memory, root) for root in captured):
                site = environment.site_of(value)
                raise UnsupportedOperationError(
                    f"{site if site.line else site.what} shares memory with a captured array that the "
                    "function writes to, and would go on with the former numbers: read the array itself, "
                    "or make what reads it inside of the function"
                )


def _hidden(value) -> Iterator[np.ndarray]:
    """Yield arrays in memory that a value reads as it is; what has a stand-in has none."""
    kind = type(value)
    if issubclass(kind, np.ndarray):
        if kind is not np.ndarray:
            yield value.view(np.ndarray)
    elif issubclass(kind, _BUFFERS):
        memory = memoryview(value)
        if memory.contiguous and memory.nbytes:
            yield np.frombuffer(memory.cast("B"), np.uint8)
    elif isinstance(value, ctypes._Pointer):
        if value:
            yield _at(ctypes.addressof(value.contents))
    elif isinstance(value, ctypes.c_void_p):
        if value.value:
            yield _at(value.value)
    elif (memory := watching.memory_of(value)) is not None:
        yield memory
    elif (parts := watching.parts_of(value)) is not None:
        yield from (part for part in parts() if isinstance(part, np.ndarray))
    elif not (_has_stand_in(value) or holder_of(value) is not None or _is_of_program(value)):
        yield from _held_by(value)


def _has_stand_in(value) -> bool:
    """Whether an object of the user's is copied with its attributes; one that is compiled shows none."""
    copied = hasattr(value, "__dict__") or slots_of(type(value))
    return bool(copied) and is_users_object_class(type(value))


def _at(address: int) -> np.ndarray:
    """Return the byte at an address."""
    return np.frombuffer((ctypes.c_char * 1).from_address(address), np.uint8)


def _is_of_program(value) -> bool:
    return isinstance(value, _ELSEWHERE) or module_of(value).startswith(("builtins", "numbatape"))


def _held_by(value) -> Iterator[np.ndarray]:
    """Yield the arrays of a library's object, also of one that is compiled."""
    waiting, seen = [value], {id(value)}
    while waiting and len(seen) < _PARTS:
        for part in gc.get_referents(waiting.pop()):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, np.ndarray):
                yield part
            elif not (isinstance(part, _ELSEWHERE) or _has_stand_in(part)):
                waiting.append(part)
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if type(member) is types.GetSetDescriptorType and not name.startswith("__"):
                yield from _buffer(value, name)


def _buffer(value, name: str) -> Iterator[np.ndarray]:
    """Yield the memory that an attribute of a compiled object shows; Cython's objects do not refer to it."""
    with contextlib.suppress(Exception):  # the attribute may raise anything, and most are no buffers
        yield np.asarray(memoryview(getattr(value, name)))
