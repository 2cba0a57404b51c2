"""A sweep as a Python builtin without arguments. It takes 90 ns around the kernel, where ctypes takes 300.

One small function serves all sweeps. It is written in LLVM IR, and is a ``PyCFunction`` whose ``self`` is the
address of some words (`WORDS`) as a Python int. The function takes its turn, releases the interpreter lock,
enters the sweep, and returns the value as a float. If the sweep stops early, or if another call is under way,
it calls the fallback instead. It uses Python's documented C API, and reads and writes the flag of a `Turn`.

The functions of `numbatape.jit.steady`, `numbatape.jit.audit`, `numbatape.jit.crew` and
`numbatape.jit.c_function` are built in the same way (`Builtin`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from ..savings import frozen
from ..threads import Turn
from . import loader, machine, store, versions
from .object_layout import DATA, FLAGS, NDIM, SHAPE, STRIDES

API = (
    "PyLong_AsLongLong",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyFloat_FromDouble",
    "PyObject_CallNoArgs",
)
METH_NOARGS = 4
WORDS = (
    "frame",  # address of the workspace's frame
    "sweep",  # address of the sweep's entry point
    "value",  # address of the value that is returned
    "single",  # whether the value is a float32
    "fallback",  # the fallback, by id
    "turn",  # address of the flag of a `Turn`; 0 if the caller has the turn already
    "free",  # what the flag holds when nobody has the turn
    "taken",  # what it holds when somebody has
    "hits",  # address of the number of sweeps that did not stop early
    "locked",  # whether the sweep keeps the interpreter's lock
)
# What builtins of `jit.steady` know of those for other sizes (`jit.by_sizes`): the address of a table, the
# number of its slots less one, the words that were found last, and how often in a row.
OTHERS = ("table", "mask", "last", "times")


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class Text:
    """What a text in IR is composed of: a module, its types, and loops in the function that it is about."""

    def __init__(self):
        from llvmlite import ir

        self.ir = ir
        self.module = ir.Module()
        self.i1, self.i32, self.i64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
        self.pointer, self.words = ir.IntType(8).as_pointer(), self.i64.as_pointer()
        self.memcpy = self.module.declare_intrinsic("llvm.memcpy", [self.pointer, self.pointer, self.i64])

    def declared(self, symbol: str, spec: str):
        """Return an external function.

        Its result and its arguments have a letter each: "p" is a pointer, "n" a Py_ssize_t, "i" an int, "d" a
        double, "v" nothing.
        """
        kinds = {"p": self.pointer, "n": self.i64, "i": self.i32}
        kinds |= {"d": self.ir.DoubleType(), "v": self.ir.VoidType()}
        result, *arguments = (kinds[letter] for letter in spec)
        return self.ir.Function(self.module, self.ir.FunctionType(result, arguments), symbol)

    def begin(self, function) -> None:
        """Write the function's first block from now on."""
        self.function, self.builder = function, self.ir.IRBuilder(function.append_basic_block())

    def block(self):
        return self.function.append_basic_block()

    def go(self, block) -> None:
        self.builder.branch(block)

    def at(self, block) -> None:
        self.builder.position_at_end(block)

    def load(self, address, kind, offset=0):
        place = self.builder.gep(address, [self.i64(offset)])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def spread(self, source, target, where: dict) -> None:
        """Copy contiguous 64-bit words to places with gaps.

        Parameters
        ----------
        source, target
            Addresses.
        where
            How many ``blocks`` of ``words`` there are, and how many bytes the places of two blocks, and of
            two words of a block, are apart: ``block_step`` and ``word_step``.
        """
        builder = self.builder
        block, end_of_blocks = self.each(where["blocks"])
        given = builder.gep(builder.bitcast(source, self.words), [builder.mul(block, where["words"])])
        places = builder.gep(target, [builder.mul(block, where["block_step"])])
        word, end = self.each(where["words"])
        place = builder.gep(places, [builder.mul(word, where["word_step"])])
        builder.store(builder.load(builder.gep(given, [word])), builder.bitcast(place, self.words))
        end()
        end_of_blocks()

    def fields_of(self, leaf) -> dict:
        """Return what `Text.each_word` has to know of an array."""
        pointers = {
            name: self.load(leaf, self.pointer, k) for name, k in (("shape", SHAPE), ("steps", STRIDES))
        }
        ndim = self.builder.sext(self.load(leaf, self.i32, NDIM), self.i64)
        return {**pointers, "data": self.load(leaf, self.pointer, DATA), "ndim": ndim}

    def has_flags(self, leaf, flags: int):
        """Whether an array has some flags of NumPy's."""
        its, wanted = self.load(leaf, self.i32, FLAGS), self.i32(flags)
        return self.builder.icmp_signed("==", self.builder.and_(its, wanted), wanted)

    def each_word(self, array: dict, cells, slots: tuple):
        """Begin a loop over the 64-bit words of an array that is not contiguous, and over contiguous cells.

        Parameters
        ----------
        array
            Its address as ``data``, ``ndim``, which is not 0, and the addresses of ``shape`` and ``steps``.
        cells
            The address of the first cell.
        slots
            Where the function keeps a pointer and a number: two results of ``alloca``.

        Returns
        -------
        tuple
            The places of a word and of its cell, and a function that ends the loop's body.
        """
        (at_row, rest_at), builder, i64 = slots, self.builder, self.i64
        shape, steps = (builder.bitcast(array[name], self.words) for name in ("shape", "steps"))
        last = builder.sub(array["ndim"], i64(1))

        def at(sizes, axis):
            return builder.load(builder.gep(sizes, [axis]))

        builder.store(i64(1), rest_at)
        axis, end_of_axes = self.each(last)
        builder.store(builder.mul(builder.load(rest_at), at(shape, axis)), rest_at)
        end_of_axes()
        row, end_of_rows = self.each(builder.load(rest_at))
        builder.store(array["data"], at_row)
        builder.store(row, rest_at)
        turn, end_of_axes = self.each(last)  # from the last axis but one to the first
        axis, rest = builder.sub(builder.sub(last, i64(1)), turn), builder.load(rest_at)
        rows = builder.udiv(rest, at(shape, axis))
        index = builder.sub(rest, builder.mul(rows, at(shape, axis)))
        builder.store(builder.gep(builder.load(at_row), [builder.mul(index, at(steps, axis))]), at_row)
        builder.store(rows, rest_at)
        end_of_axes()
        first, length, step = builder.load(at_row), at(shape, last), at(steps, last)
        own = builder.gep(builder.bitcast(cells, self.words), [builder.mul(row, length)])
        word, end_of_row = self.each(length)
        found = builder.bitcast(builder.gep(first, [builder.mul(word, step)]), self.words)

        def end():
            end_of_row()
            end_of_rows()

        return found, builder.gep(own, [word]), end

    def each(self, count):
        """Begin a loop over ``0 .. count - 1``; return its counter and a function that ends its body."""
        before, turn, inside, behind = self.builder.block, self.block(), self.block(), self.block()
        self.go(turn)
        self.at(turn)
        counter = self.builder.phi(self.i64)
        counter.add_incoming(self.i64(0), before)
        self.builder.cbranch(self.builder.icmp_signed("<", counter, count), inside, behind)
        self.at(inside)

        def end():
            counter.add_incoming(self.builder.add(counter, self.i64(1)), self.builder.block)
            self.go(turn)
            self.at(behind)

        return counter, end


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


@frozen()
class Builtin:
    """A function in LLVM IR that CPython or another program calls.

    Attributes
    ----------
    name
        The name of its file in the kernel cache.
    module_text
        Returns the IR of a module that defines the function under the symbol that it is given.
    needs
        The symbols that the function calls.
    """

    name: str
    module_text: Callable[[str], str]
    needs: tuple[str, ...]

    @property
    def source(self) -> str:
        """What identifies the machine code, besides the processor.

        It is not the IR itself, because importing what writes the IR takes 20 ms. The code depends on the
        size of the head of Python's objects, and on nothing else of Python or NumPy that could differ.
        """
        return f"{self.name} {versions.BUILTINS} {object.__basicsize__}"

    def compiled(self, key: str, emitter) -> tuple[store.ObjectFile, str]:
        """Return the object file that a target machine of LLVM's makes of the function, and the IR."""
        import llvmlite.binding as llvm

        text = self.module_text(f"nt_{key}_call")
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = emitter.triple, str(emitter.target_data)
        return store.ObjectFile(("call",), self.needs, machine.emit(emitter, module)), text

    def address(self) -> int:
        """Return the address of the function, which is compiled now if it never was on this machine.

        Raises
        ------
        CannotEmit
            Where LLVM emits no code for this machine.
        """
        with loader.lock:
            return _address(self)

    def definition(self, flags: int) -> _MethodDef:
        """Return what CPython must know of the function in order to call it as a method with these flags."""
        return _definition(self, flags)


@functools.cache
def _address(function: Builtin) -> int:
    def compiled(key: str) -> tuple[store.ObjectFile, str]:
        return function.compiled(key, machine.host())

    return loader.obtained(function.name, function.source, compiled).address["call"]


@functools.cache
def _definition(function: Builtin, flags: int) -> _MethodDef:
    found = _MethodDef(function.name.encode(), function.address(), flags, None)
    # A builtin in a cycle is freed at the very end of the process, when this module is gone; CPython then
    # still reads the builtin's method.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
    return found


def turn_words(turn: Turn | None) -> dict[str, int]:
    """Return the words about a turn: its flag's address, and what stands there when it is free or taken."""
    return {"turn": 0 if turn is None else turn.address, "free": id(False), "taken": id(True)}


class _Held(tuple):
    """What a builtin keeps alive, in the place of its module: errors say whose it is, and no numbers."""

    __slots__ = ()

    def __str__(self):
        return "numbatape"


def new_function(method: _MethodDef, words: np.ndarray, alive=()):
    """Return a builtin whose ``self`` is the address of words, as a Python int.

    The builtin keeps the words, and what they refer to, alive: they are its module, which may be any object.
    """
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return new(ctypes.addressof(method), words.ctypes.data, _Held((words, alive)))


BUILTIN = Builtin("builtin", _module_text, tuple(f"nt_python_{name}" for name in API))


def make_builtin(words: np.ndarray):
    """Return a builtin ``() -> float`` over int64 words (`WORDS`); what they refer to must outlive it.

    Raises
    ------
    CannotEmit
        Where LLVM emits no code for this machine.
    """
    return new_function(BUILTIN.definition(METH_NOARGS), words)
