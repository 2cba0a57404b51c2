"""An audit hook of CPython that costs a program which does not trace a few instructions per event.

CPython tells its audit hooks about every file that is opened, every directory that is listed, and every
process and connection. A hook can never be removed, and one written in Python would be called for each
``id(x)`` in the program too. So this hook is machine code, written in LLVM IR. It returns at once while
nobody observes, and for events whose names do not begin like those that concern the outside world.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable

import numpy as np

from .builtin import Builtin
from .machine import CannotEmit

# The first two letters of the events that matter: open, os., subprocess, socket, sqlite3, urllib, glob, ...
PREFIXES = ("op", "os", "su", "so", "sq", "ur", "gl", "ht", "ft", "pt", "fc", "mm", "im", "sm", "po")
API = {"PyUnicode_FromString": "pp", "PyObject_CallFunctionObjArgs": "pp.", "Py_DecRef": "vp"}
_lock = threading.Lock()
_installed: list[np.ndarray] = []


def _module_text(symbol: str) -> str:
    """Return the IR of ``int hook(const char *event, PyObject *args, int64 words[2])``."""
    from llvmlite import ir

    module = ir.Module()
    byte, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    pointer = byte.as_pointer()
    kinds = {"p": pointer, "v": ir.VoidType()}
    api = {
        name: ir.Function(
            module,
            ir.FunctionType(kinds[spec[0]], [pointer] * (len(spec.rstrip(".")) - 1), spec.endswith(".")),
            f"nt_python_{name}",
        )
        for name, spec in API.items()
    }
    function = ir.Function(module, ir.FunctionType(i32, [pointer, pointer, pointer]), symbol)
    start, second, matters, no = (
        function.append_basic_block(n) for n in ("start", "second", "matters", "no")
    )
    event, args, words = function.args
    builder = ir.IRBuilder(no)
    builder.ret(i32(0))
    builder.position_at_end(start)
    words = builder.bitcast(words, i64.as_pointer())
    watching = builder.icmp_signed("!=", builder.load(words), i64(0))
    first = builder.load(event)
    # A name may be empty, so the second letter is read only if there is a first one.
    builder.cbranch(builder.and_(watching, builder.icmp_signed("!=", first, byte(0))), second, no)
    builder.position_at_end(second)
    letters = builder.or_(
        builder.shl(builder.zext(first, i32), i32(8)),
        builder.zext(builder.load(builder.gep(event, [i64(1)])), i32),
    )
    choice = builder.switch(letters, no)
    for prefix in PREFIXES:
        choice.add_case(i32(int.from_bytes(prefix.encode(), "big")), matters)
    builder.position_at_end(matters)
    observer = builder.inttoptr(builder.load(builder.gep(words, [i64(1)])), pointer)
    name = builder.call(api["PyUnicode_FromString"], [event])
    null = ir.Constant(pointer, None)
    with builder.if_then(builder.icmp_signed("==", builder.ptrtoint(name, i64), i64(0))):
        builder.ret(i32(-1))
    answer = builder.call(api["PyObject_CallFunctionObjArgs"], [observer, name, args, null])
    builder.call(api["Py_DecRef"], [name])
    with builder.if_then(builder.icmp_signed("==", builder.ptrtoint(answer, i64), i64(0))):
        builder.ret(i32(-1))
    builder.call(api["Py_DecRef"], [answer])
    builder.ret(i32(0))
    return str(module)


AUDIT = Builtin("audit", _module_text, tuple(f"nt_python_{name}" for name in API))


def _hook_in_python(
    observer: Callable[[str, tuple], None], words: np.ndarray
) -> Callable[[str, tuple], None]:
    """Return a hook that does what the machine code does."""

    def hook(event: str, args: tuple) -> None:
        if words[0] and event.startswith(PREFIXES):
            observer(event, args)

    return hook


def observe(observer: Callable[[str, tuple], None]) -> np.ndarray:
    """Install a hook that tells a function about events; return an array whose first word counts observers.

    While the count is not 0, the function is called with each event's name and arguments, by the thread that
    causes the event. A process has one such hook, which stays to its end.
    """
    with _lock:
        if not _installed:
            words = np.array([0, id(observer)], np.int64)
            try:
                address = AUDIT.address()
            except CannotEmit:
                sys.addaudithook(_hook_in_python(observer, words))
                _installed.append(words)
                return words
            # CPython calls its hooks until the process ends, when all modules are gone already, so these
            # objects must never be freed.
            for each in (words, observer):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
            add = ctypes.pythonapi.PySys_AddAuditHook
            add.argtypes, add.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int
            if add(address, words.ctypes.data):
                raise RuntimeError("CPython refused an audit hook")
            _installed.append(words)
        return _installed[0]
