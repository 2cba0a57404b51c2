"""A sweep as a Python builtin without arguments: 90 ns around the kernel, where ctypes takes 300.

One small function in LLVM IR (no Numba) serves them all: a ``PyCFunction`` whose ``self`` is the
address of some words (`WORDS`) as a Python int. It takes its turn, releases the interpreter lock, enters
the sweep, and returns the value as a float; where the sweep stops, or another call is under way, it calls
the fallback. It touches Python through the documented C API, and the flag of a `Turn`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..threads import Turn
from . import loader, store
from .machine import emit, target

API = (
    "PyLong_AsLongLong",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyFloat_FromDouble",
    "PyObject_CallNoArgs",
)
METH_NOARGS = 4
# Addresses of the frame, the sweep and the value; whether that is a float32; the fallback; the address of
# the flag of a `Turn`, 0 if the caller has the turn, and what it holds; the address of a counter of sweeps.
# Last, whether the sweep keeps the interpreter's lock.
WORDS = ("frame", "sweep", "value", "single", "fallback", "turn", "free", "taken", "hits", "locked")


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def enter(builder, sweep, frame, locked, save, restore):
    """Write the call of a sweep, without the interpreter's lock unless the word ``locked`` says otherwise.

    Parameters
    ----------
    sweep, frame, locked
        Words.
    save, restore
        ``PyEval_SaveThread`` and ``PyEval_RestoreThread``.
    """
    from llvmlite import ir

    i64 = ir.IntType(64)
    function = builder.inttoptr(sweep, ir.FunctionType(i64, [i64, i64]).as_pointer())
    with builder.if_else(builder.icmp_signed("!=", locked, i64(0))) as (kept, released):
        with kept:
            directly = builder.call(function, [frame, i64(0)])
            first = builder.block
        with released:
            thread = builder.call(save, [])
            apart = builder.call(function, [frame, i64(0)])
            builder.call(restore, [thread])
            second = builder.block
    outcome = builder.phi(i64)
    outcome.add_incoming(directly, first)
    outcome.add_incoming(apart, second)
    return outcome


def _module_text(symbol: str) -> str:
    """Return the IR of ``PyObject *call(PyObject *self, PyObject *)``."""
    from llvmlite import ir

    module = ir.Module()
    byte, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    pointer = byte.as_pointer()
    kinds = (
        ir.FunctionType(i64, [pointer]),
        ir.FunctionType(pointer, []),
        ir.FunctionType(ir.VoidType(), [pointer]),
        ir.FunctionType(pointer, [ir.DoubleType()]),
        ir.FunctionType(pointer, [pointer]),
    )
    as_long, save, restore, from_double, call_none = (
        ir.Function(module, kind, f"nt_python_{name}") for name, kind in zip(API, kinds, strict=True)
    )
    function = ir.Function(module, ir.FunctionType(pointer, [pointer, pointer]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    words = builder.inttoptr(builder.call(as_long, [function.args[0]]), i64.as_pointer())
    frame, entry, value, single, fallback, turn, free, taken, hits, locked = (
        builder.load(builder.gep(words, [ir.Constant(i32, k)])) for k in range(len(WORDS))
    )
    flag, counter = (builder.inttoptr(word, i64.as_pointer()) for word in (turn, hits))
    has_flag = builder.icmp_signed("!=", turn, i64(0))

    def fall_back():
        builder.ret(builder.call(call_none, [builder.inttoptr(fallback, pointer)]))

    with builder.if_then(has_flag):
        with builder.if_then(builder.icmp_signed("!=", builder.load(flag), free)):
            fall_back()
        builder.store(taken, flag)
    outcome = enter(builder, entry, frame, locked, save, restore)
    with builder.if_then(has_flag):
        builder.store(free, flag)
    with builder.if_then(builder.icmp_signed("!=", outcome, i64(0))):
        fall_back()
    builder.store(builder.add(builder.load(counter), i64(1)), counter)
    with builder.if_then(builder.icmp_signed("!=", single, i64(0))):
        narrow = builder.load(builder.inttoptr(value, ir.FloatType().as_pointer()))
        builder.ret(builder.call(from_double, [builder.fpext(narrow, ir.DoubleType())]))
    result = builder.load(builder.inttoptr(value, ir.DoubleType().as_pointer()))
    builder.ret(builder.call(from_double, [result]))
    return str(module)


def _sources(module_text: Callable[[str], str]) -> str:
    """Return all that decides what the text will be, which itself takes 20 ms to import llvmlite.ir for."""
    files = {Path(__file__), Path(module_text.__code__.co_filename)}  # type: ignore[attr-defined]
    return "\n".join([sys.version, np.__version__, *(path.read_text() for path in sorted(files))])


@functools.cache
def machine_code(name: str, module_text: Callable[[str], str], *needs: str) -> int:
    """Return the address of the function whose IR ``module_text(symbol)`` is, and what it needs by symbol."""
    with loader.lock:
        key = store.key_of(_sources(module_text))
        compiled = store.read(name, key)
        if compiled is None:
            import llvmlite.binding as llvm

            text = module_text(f"nt_{key}_call")
            module = llvm.parse_assembly(text)
            code = emit(target().create_target_machine(opt=2, jit=True), module)
            compiled = store.ObjectFile(("call",), needs, code)
            store.write(name, key, compiled, text)
        return loader.link(compiled, key).address["call"]


@functools.cache
def definition(name: str, module_text: Callable[[str], str], flags: int, *needs: str) -> _MethodDef:
    """Return the method that `machine_code` makes of the same arguments."""
    return _MethodDef(name.encode(), machine_code(name, module_text, *needs), flags, None)


def turn_words(turn: Turn | None) -> dict[str, int]:
    """Return the words about a turn: its flag's address, and what stands there when it is free or taken."""
    return {"turn": 0 if turn is None else turn.address, "free": id(False), "taken": id(True)}


def new_function(method: _MethodDef, words: np.ndarray, alive=()):
    """Return a builtin whose ``self`` is the address of words, as a Python int.

    It keeps the words, and what they refer to, alive: as its module, which may be any object.
    """
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return new(ctypes.addressof(method), words.ctypes.data, (words, alive))


def make_builtin(words: np.ndarray):
    """Return a builtin ``() -> float`` over int64 words (`WORDS`); what they refer to must outlive it.

    Raises
    ------
    CannotEmit
        Where LLVM emits no code for this machine.
    """
    needs = [f"nt_python_{name}" for name in API]
    return new_function(definition("builtin", _module_text, METH_NOARGS, *needs), words)
