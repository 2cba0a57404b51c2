"""A steady call as a Python builtin: leaves of arguments in, sweeps, fresh results out.

One ``PyCFunction`` serves every kind of derivative. Its ``self`` is the address of `WORDS` as a Python int;
behind them stand a table of rows, one a leaf of the arguments (`ROW`: what it must be, and where it is copied
to), and a table of what is made when the sweeps are through (`OUT`). It checks the leaves, takes its turn,
copies them into their cells, enters the sweeps (without the interpreter lock, where they may take long), and
makes the results with the C API. Whatever it does not know, and a call while another one has the turn, it
hands to a fallback, with the same arguments.

A closure in Python that does the same takes 0.4 µs more for one array, and 0.25 µs for each further leaf.

The fields of an array are read where NumPy's public header has them (``PyArrayObject_fields``, part
of its ABI); `available` looks whether they are there. Anything else is documented C API.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from .builtin import definition, enter, new_function

METH_FASTCALL = 0x80
HEAD = object.__basicsize__  # then: data, int nd, dimensions, strides, base, descr, int flags
DATA, NDIM, SHAPE, DESCR, FLAGS = (HEAD + 8 * k for k in (0, 1, 2, 5, 6))
TYPE = HEAD - 8
ITEMS = tuple.__basicsize__  # where the items of a tuple begin
CONTIGUOUS_ALIGNED = 0x101

# Addresses, numbers, and objects by id: 0 where there is none.
WORDS = (
    *("frame", "sweep", "fallback", "array_type", "rebound"),
    *("rows", "row_count", "outs", "out_count", "form"),
    *("turn", "free", "taken", "hits", "locked"),  # as in `numbatape.jit.builtin`
)
# One row a leaf: what it must be, then, as its kind needs them, an object, the number of dimensions, the
# addresses of the shape, of the cells and of known contents, and a number of bytes.
ROW = ("kind", "object", "ndim", "shape", "cells", "bytes", "contents")
ARRAY, NUMBER, SAME, DATA_ARRAY = range(4)  # kinds of rows
OUT = ("kind", "object")
CALLED, ENTRY, FIXED = range(3)  # kinds of outs: object(), object[0], object
# How the results come: as a tuple, as (first, tuple of the others), or the first alone.
TUPLE, PAIR, ALONE = range(3)

# name: result and arguments, "p" a pointer, "n" a Py_ssize_t, "d" a double, "." more of them
API = {
    "PyLong_AsVoidPtr": "pp",
    "PyEval_SaveThread": "p",
    "PyEval_RestoreThread": "vp",
    "PyFloat_AsDouble": "dp",
    "PyObject_CallNoArgs": "pp",
    "PyObject_Vectorcall": "pppnp",
    "PyObject_IsTrue": "ip",
    "PySequence_GetItem": "ppn",
    "PyTuple_New": "pn",
    "Py_IncRef": "vp",
    "Py_DecRef": "vp",
}


@functools.cache
def available() -> bool:
    """Whether objects and arrays have their fields where they are looked for."""

    def word(address, kind=ctypes.c_void_p):
        return kind.from_address(address).value

    for array in (np.zeros((2, 3)), np.zeros((4, 3), np.float32)[:, 1:]):
        address = id(array)
        if ctypes.sizeof(ctypes.c_void_p) != 8 or np.ndarray.__basicsize__ < FLAGS + 4:
            return False
        fields = (word(address + TYPE), word(address + DATA), word(address + DESCR))
        if fields != (id(np.ndarray), array.ctypes.data, id(array.dtype)):
            return False
        if (word(address + NDIM, ctypes.c_int), word(address + FLAGS, ctypes.c_int)) != (2, array.flags.num):
            return False
        if tuple(word(word(address + SHAPE) + 8 * k, ctypes.c_int64) for k in range(2)) != array.shape:
            return False
    pair = (HEAD, API)
    return [word(id(pair) + ITEMS + 8 * k) for k in range(2)] == [id(part) for part in pair]


class _Text:
    """The IR of ``PyObject *steady(PyObject *self, PyObject *const *arguments, Py_ssize_t count)``."""

    def __init__(self, symbol: str):
        from llvmlite import ir

        self.ir = ir
        self.module = ir.Module()
        self.i1, self.i32, self.i64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
        self.pointer = ir.IntType(8).as_pointer()
        kinds = {"p": self.pointer, "n": self.i64, "i": self.i32, "d": ir.DoubleType(), "v": ir.VoidType()}
        self.api = {}
        for name, spec in API.items():
            result, *arguments = (kinds[letter] for letter in spec)
            self.api[name] = ir.Function(self.module, ir.FunctionType(result, arguments), f"nt_python_{name}")
        self.memcpy = self.module.declare_intrinsic("llvm.memcpy", [self.pointer, self.pointer, self.i64])
        compare = ir.FunctionType(self.i32, [self.pointer, self.pointer, self.i64])
        self.memcmp = ir.Function(self.module, compare, "memcmp")
        kind = ir.FunctionType(self.pointer, [self.pointer, self.pointer.as_pointer(), self.i64])
        self.function = ir.Function(self.module, kind, symbol)
        start, self.other, self.stopped = map(self.function.append_basic_block, ("start", "other", "stopped"))
        self.builder = ir.IRBuilder(start)
        self.null = ir.Constant(self.pointer, None)
        self.write()

    # ---- the small vocabulary in which `write` is written

    def call(self, name, *arguments):
        return self.builder.call(self.api[name], arguments)

    def load(self, address, kind, offset=0):
        place = self.builder.gep(address, [self.i64(offset)])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def fields(self, table, number, names) -> dict:
        """Return the words of one record of a table by name."""
        first = self.builder.gep(table, [self.builder.mul(number, self.i64(8 * len(names)))])
        return {name: self.load(first, self.i64, 8 * k) for k, name in enumerate(names)}

    def address(self, word):
        return self.builder.inttoptr(word, self.pointer)

    def equal(self, left, right):
        return self.builder.icmp_signed("==", left, right)

    def go_on_if(self, condition, elsewhere=None):
        """Go on, or to where the turn ends and the fallback is called."""
        block = self.function.append_basic_block()
        self.builder.cbranch(condition, block, elsewhere or self.stopped)
        self.builder.position_at_end(block)

    def count_to(self, stop):
        """Begin a loop over ``0 .. stop - 1``; return its counter and what ends its body."""
        builder, before = self.builder, self.builder.block
        turn, inside, behind = (self.function.append_basic_block() for _ in range(3))
        builder.branch(turn)
        builder.position_at_end(turn)
        counter = builder.phi(self.i64)
        counter.add_incoming(self.i64(0), before)
        builder.cbranch(builder.icmp_signed("<", counter, stop), inside, behind)
        builder.position_at_end(inside)

        def end():
            counter.add_incoming(builder.add(counter, self.i64(1)), builder.block)
            builder.branch(turn)
            builder.position_at_end(behind)

        return counter, end

    def or_null(self, result):
        """Return a new object; leave with NULL where making it failed (what was made before is lost)."""
        with self.builder.if_then(self.equal(self.builder.ptrtoint(result, self.i64), self.i64(0))):
            self.leave(self.null)
        return result

    def put(self, new_tuple, place, item):
        """Store an item, whose reference goes over to it, in a tuple that nobody else knows yet.

        ``PyTuple_SetItem`` would check each time that nobody does: 10 ns.
        """
        first = self.builder.bitcast(
            self.builder.gep(new_tuple, [self.i64(ITEMS)]), self.pointer.as_pointer()
        )
        self.builder.store(item, self.builder.gep(first, [place]))

    def leave(self, result):
        """Return from the function, whose turn ends."""
        self.builder.store(self.free, self.turn)
        self.builder.ret(result)

    # ---- the function

    def write(self) -> None:
        builder, i64 = self.builder, self.i64
        self_, arguments, count = self.function.args
        words = self.call("PyLong_AsVoidPtr", self_)
        w = {name: self.load(words, i64, 8 * k) for k, name in enumerate(WORDS)}
        self.go_on_if(self.equal(count, w["row_count"]), self.other)
        rows = self.address(w["rows"])
        self.free = w["free"]
        self.turn, hits = (builder.inttoptr(w[name], i64.as_pointer()) for name in ("turn", "hits"))

        self.go_on_if(self.equal(builder.load(self.turn), self.free), self.other)
        builder.store(w["taken"], self.turn)
        number, end = self.count_to(count)
        leaf, row = builder.load(builder.gep(arguments, [number])), self.fields(rows, number, ROW)
        # A leaf that does not fit leaves those before it in their cells: the next call writes to all of them.
        self.check(leaf, row, w)
        self.copy_in(leaf, row)
        end()
        with builder.if_then(builder.icmp_signed("!=", w["rebound"], i64(0))):
            changed = self.or_null(self.call("PyObject_CallNoArgs", self.address(w["rebound"])))
            truth = self.call("PyObject_IsTrue", changed)
            self.call("Py_DecRef", changed)
            self.go_on_if(self.equal(truth, self.i32(0)))
        lock = self.api["PyEval_SaveThread"], self.api["PyEval_RestoreThread"]
        outcome = enter(builder, w["sweep"], w["frame"], w["locked"], *lock)
        self.go_on_if(self.equal(outcome, i64(0)))
        builder.store(builder.add(builder.load(hits), i64(1)), hits)
        self.results(w)
        builder.position_at_end(self.stopped)
        builder.store(self.free, self.turn)
        builder.branch(self.other)
        builder.position_at_end(self.other)
        given = builder.bitcast(arguments, self.pointer)
        builder.ret(self.call("PyObject_Vectorcall", self.address(w["fallback"]), given, count, self.null))

    def check(self, leaf, row, w) -> None:
        """Go on if a leaf is what its row says."""
        builder, i64 = self.builder, self.i64
        is_array = builder.or_(self.equal(row["kind"], i64(ARRAY)), self.equal(row["kind"], i64(DATA_ARRAY)))
        with builder.if_else(is_array) as (array, otherwise):
            with array:
                self.go_on_if(self.equal(self.load(leaf, i64, TYPE), w["array_type"]))
                self.go_on_if(self.equal(self.load(leaf, i64, DESCR), row["object"]))
                self.go_on_if(self.equal(builder.sext(self.load(leaf, self.i32, NDIM), i64), row["ndim"]))
                flags = builder.and_(self.load(leaf, self.i32, FLAGS), self.i32(CONTIGUOUS_ALIGNED))
                self.go_on_if(self.equal(flags, self.i32(CONTIGUOUS_ALIGNED)))
                axis, end = self.count_to(row["ndim"])
                sizes = [
                    builder.load(builder.gep(builder.bitcast(base, i64.as_pointer()), [axis]))
                    for base in (self.load(leaf, self.pointer, SHAPE), self.address(row["shape"]))
                ]
                self.go_on_if(self.equal(*sizes))
                end()
                with builder.if_then(self.equal(row["kind"], i64(DATA_ARRAY))):
                    data, known = self.load(leaf, self.pointer, DATA), self.address(row["contents"])
                    differs = builder.call(self.memcmp, [data, known, row["bytes"]])
                    self.go_on_if(self.equal(differs, self.i32(0)))
            with otherwise, builder.if_else(self.equal(row["kind"], i64(NUMBER))) as (number, same):
                with number:
                    self.go_on_if(self.equal(self.load(leaf, i64, TYPE), row["object"]))
                with same:
                    self.go_on_if(self.equal(builder.ptrtoint(leaf, i64), row["object"]))

    def copy_in(self, leaf, row) -> None:
        builder, i64 = self.builder, self.i64
        with builder.if_then(self.equal(row["kind"], i64(ARRAY))):
            source = self.load(leaf, self.pointer, DATA)
            builder.call(self.memcpy, [self.address(row["cells"]), source, row["bytes"], self.i1(0)])
        with builder.if_then(self.equal(row["kind"], i64(NUMBER))):
            cell = builder.inttoptr(row["cells"], self.ir.DoubleType().as_pointer())
            builder.store(self.call("PyFloat_AsDouble", leaf), cell)

    def results(self, w) -> None:
        """Return the results in their form."""
        builder, i64 = self.builder, self.i64
        outs = self.address(w["outs"])
        with builder.if_then(self.equal(w["form"], i64(ALONE))):
            self.leave(self.made(self.fields(outs, i64(0), OUT)))
        with builder.if_then(self.equal(w["form"], i64(PAIR))):
            pair = self.or_null(self.call("PyTuple_New", i64(2)))
            others = builder.sub(w["out_count"], i64(1))
            inner = self.or_null(self.call("PyTuple_New", others))
            self.put(pair, i64(1), inner)
            self.put(pair, i64(0), self.made(self.fields(outs, i64(0), OUT)))
            number, end = self.count_to(others)
            made = self.made(self.fields(outs, builder.add(number, i64(1)), OUT))
            self.put(inner, number, made)
            end()
            self.leave(pair)
        whole = self.or_null(self.call("PyTuple_New", w["out_count"]))
        number, end = self.count_to(w["out_count"])
        self.put(whole, number, self.made(self.fields(outs, number, OUT)))
        end()
        self.leave(whole)

    def made(self, out):
        """Return a new reference to one result."""
        builder, i64 = self.builder, self.i64
        found = self.address(out["object"])
        incoming = []
        with builder.if_else(self.equal(out["kind"], i64(CALLED))) as (called, otherwise):
            with called:
                incoming.append((self.or_null(self.call("PyObject_CallNoArgs", found)), builder.block))
            with otherwise:
                with builder.if_else(self.equal(out["kind"], i64(ENTRY))) as (entry, fixed):
                    with entry:
                        first = self.or_null(self.call("PySequence_GetItem", found, i64(0)))
                        taken = builder.block
                    with fixed:
                        self.call("Py_IncRef", found)
                        kept = builder.block
                either = builder.phi(self.pointer)
                either.add_incoming(first, taken)
                either.add_incoming(found, kept)
                incoming.append((either, builder.block))
        result = builder.phi(self.pointer)
        for value, block in incoming:
            result.add_incoming(value, block)
        return result


def _module_text(symbol: str) -> str:
    return str(_Text(symbol).module)


def make_steady(words: np.ndarray, alive):
    """Return a builtin over int64 words (`WORDS`), which keeps alive what they refer to."""
    needs = [*(f"nt_python_{name}" for name in API), "memcpy", "memcmp"]
    method = definition("steady", _module_text, METH_FASTCALL, *needs)
    return new_function(method, words, alive)
