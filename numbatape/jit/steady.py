"""A steady call as a Python builtin: it takes the leaves of the arguments, sweeps, and returns fresh results.

One ``PyCFunction`` serves every kind of derivative. Its ``self`` is the address of `WORDS` as a Python int.
The words refer to two tables: one with a row for each leaf of the arguments (`ROW`: what the leaf must be,
and where it is copied to), and one that says which results are made when the sweeps are done (`OUT`). The
builtin takes its turn, checks the leaves, copies them into their cells, enters the sweeps (without the
interpreter lock, if they may take long), and makes the results through the C API. It hands a call to a
fallback, with the same arguments, if a leaf is not what its row says, or if another call has the turn.
Where leaves have other sizes, it looks for the words of a builtin for these first, and goes on with them
(`jit.by_sizes`). A third table (`WATCH`) says what the function captured, by address. If that is as it was,
nothing of Python's runs before the sweeps; asking ``rebound`` instead takes 0.3 µs or more.

A closure in Python that does the same takes 0.4 µs more for one array, and 0.25 µs for each further leaf.

The fields of an array are read where NumPy's public header has them (``PyArrayObject_fields``, part of its
ABI). `object_layout.readable` checks that they are there. Everything else is Python's documented C API.
"""

from __future__ import annotations

import functools

import numpy as np

from ..late import imported
from .builtin import Builtin, Text, enter, new_function
from .object_layout import DATA, DESCR, NDIM, SHAPE, TYPE, WORD

METH_FASTCALL = 0x80
ALIGNED, CONTIGUOUS_ALIGNED = 0x100, 0x101  # flags NPY_ARRAY_ALIGNED and NPY_ARRAY_C_CONTIGUOUS

# Addresses, numbers, and objects by id; a word that is not needed is 0.
WORDS = (
    "frame",  # address of the workspace's frame
    "sweep",  # address of the sweeps' entry point
    "fallback",  # called with the same arguments if this call cannot be served
    "array_type",  # np.ndarray
    "rebound",  # called if captured things may have changed; if it returns true, the fallback serves
    "watches",  # address of the table of what is captured, and its length; -1 if only ``rebound`` can tell
    "watch_count",
    "rows",  # address of the table of leaves, and how many there are
    "row_count",
    "outs",  # address of the table of results, and how many there are
    "out_count",
    "form",  # TUPLE, PAIR or ALONE
    "items",  # offset of a tuple's items, which differs between versions of Python
    *("kept", "kept_place", "kept_bytes"),  # addresses that constants are copied from and to, and how many
    "others",  # address of the words `OTHERS` of the builtins for other sizes, 0 if there are none
    "leading",  # address of an entry point that runs the guards that come first, 0 if they are not asked
    "lead",  # the instruction behind these
    *("peeks", "peek_count"),  # address and number of the cells of arrays that they read (`jit.by_paths`)
    "paths",  # address of what is known of builtins for other outcomes of these guards
    *("turn", "free", "taken", "hits", "locked"),  # These are the fields that `numbatape.jit.builtin` uses.
)
# A leaf has this row. Which fields it uses depends on its kind.
ROW = (
    "kind",  # ARRAY, NUMBER, SAME, DATA_ARRAY, PLACED, SPREAD, LATE or APART
    "object",  # an array's dtype, a number's type, or the very object that the leaf must be
    "ndim",
    "shape",  # address of the sizes
    "cells",  # address that the leaf is copied to; of a placed array, that its address is written to
    "bytes",  # number of bytes that are copied or compared
    "contents",  # address of what a data array must contain
    *("begin", "end"),  # addresses between which a placed array, or one that stays apart, must not lie
    *("blocks", "block_step", "words", "word_step"),  # where a spread array goes, see `Text.spread`
    "scattered",  # whether an array's entries, 64-bit words, may lie in any order: a column, a transpose
)
# A late array is copied behind the guards that come first.
ARRAY, NUMBER, SAME, DATA_ARRAY, PLACED, SPREAD, LATE, APART = range(8)
OUT = (
    "kind",
    "object",  # what is called, indexed or returned; of what is made of cells, the dtype
    *("ndim", "shape", "cells", "bytes"),  # as in a row of an array, for results that are made of cells
)
# A result is object(), object[0] or object; or a copy of cells as a new array, or one cell as NumPy's number.
# The last two touch no objects but the dtype, so that fewer cache lines are fetched for each entry.
CALLED, ENTRY, FIXED, COPIED, NUMBERED = range(5)
# Results are returned as a tuple, as (first, tuple of the others), or as the first alone.
TUPLE, PAIR, ALONE = range(3)

API = {  # the letters are those of `Text.declared`
    "PyLong_AsVoidPtr": "pp",
    "PyEval_SaveThread": "p",
    "PyEval_RestoreThread": "vp",
    "PyFloat_AsDouble": "dp",
    "PyObject_CallNoArgs": "pp",
    "PyObject_Vectorcall": "pppnp",
    "PyObject_IsTrue": "ip",
    "PyDict_GetItem": "ppp",
    "PyDict_Next": "ipppp",
    "PySequence_GetItem": "ppn",
    "PyTuple_New": "pn",
    "Py_IncRef": "vp",
    "Py_DecRef": "vp",
}
ARRAY_API = {"PyArray_Empty": "pippi", "PyArray_Scalar": "pppp"}


class _Text(Text):
    """The IR of ``PyObject *steady(PyObject *self, PyObject *const *arguments, Py_ssize_t count)``."""

    def __init__(self, symbol: str):
        super().__init__()
        self.api = {name: self.declared(symbol, spec) for symbol, (name, spec) in _SYMBOLS.items()}
        self.memcmp = self.declared("memcmp", "ippn")
        ir, kinds = self.ir, [self.pointer, self.pointer.as_pointer(), self.i64]
        self.begin(ir.Function(self.module, ir.FunctionType(self.pointer, kinds), symbol))
        names = "again", "unfit", "stopped", "other"
        self.again, self.unfit, self.stopped, self.other = map(self.function.append_basic_block, names)
        self.null = ir.Constant(self.pointer, None)
        self.write()

    # ---- what the function is composed of

    def call(self, name, *arguments):
        return self.builder.call(self.api[name], arguments)

    def fields(self, table, number, names) -> dict:
        """Return the words of one record of a table by name."""
        first = self.builder.gep(table, [self.builder.mul(number, self.i64(WORD * len(names)))])
        return {name: self.load(first, self.i64, WORD * k) for k, name in enumerate(names)}

    def address(self, word):
        return self.builder.inttoptr(word, self.pointer)

    def equal(self, left, right):
        return self.builder.icmp_signed("==", left, right)

    def go_on_if(self, condition, elsewhere=None):
        """Go on if a condition holds; if not, end the turn and call the fallback (or go elsewhere)."""
        block = self.block()
        self.builder.cbranch(condition, block, elsewhere or self.stopped)
        self.at(block)

    def or_null(self, result):
        """Return a new object; if there is none, free the results before it, and return NULL to Python."""
        with self.builder.if_then(self.equal(self.builder.ptrtoint(result, self.i64), self.i64(0))):
            self.call("Py_DecRef", self.builder.load(self.unfinished))  # which may be NULL
            self.leave(self.null)
        return result

    def new_tuple(self, length):
        """Return the tuple of all results, which has none yet."""
        made = self.or_null(self.call("PyTuple_New", length))
        self.builder.store(made, self.unfinished)
        return made

    def put(self, new_tuple, place, item):
        """Store an item in a new tuple, which takes over the reference to it.

        ``PyTuple_SetItem`` takes 10 ns longer, because it checks that nobody else refers to the tuple.
        """
        first = self.builder.bitcast(self.builder.gep(new_tuple, [self.items]), self.pointer.as_pointer())
        self.builder.store(item, self.builder.gep(first, [place]))

    def leave(self, result):
        """End the turn and return from the function."""
        self.builder.store(self.free, self.turn)
        self.let_go()
        self.builder.ret(result)

    def let_go(self) -> None:
        """Let go of the builtin that was looked up, if one was."""
        self.call("Py_DecRef", self.builder.load(self.held))

    def look_up(self, head, arguments, count, array_type):
        """Return the words of the builtin for a call's sizes, and keep that alive; go on if there is one."""
        look_up = imported(".by_sizes", __package__).look_up
        found = look_up(self, head, arguments, count, array_type, self.stopped)
        self.call("Py_IncRef", found["object"])
        self.builder.store(found["object"], self.held)
        return found["words"]

    # ---- the function

    def write(self) -> None:
        """Write the whole function: check and copy in the leaves, ask for changes, sweep, make the results.

        Whatever does not fit ends at ``other``, which calls the fallback with the same arguments.
        """
        builder, i64 = self.builder, self.i64
        self_, arguments, count = self.function.args
        numbers = (builder.alloca(i64) for _ in range(5))
        self.position, self.key, self.value, self.hash, self.hops = numbers
        self.unfinished, self.held = builder.alloca(self.pointer), builder.alloca(self.pointer)
        self.slots = builder.alloca(self.pointer), builder.alloca(i64)
        builder.store(self.null, self.unfinished)
        builder.store(self.null, self.held)
        builder.store(i64(0), self.hops)
        first = self.call("PyLong_AsVoidPtr", self_)
        w = {name: self.load(first, i64, WORD * k) for k, name in enumerate(WORDS)}
        self.free, self.items, fallback = w["free"], w["items"], w["fallback"]
        self.turn = builder.inttoptr(w["turn"], i64.as_pointer())
        self.go_on_if(self.equal(builder.load(self.turn), self.free), self.other)
        builder.store(w["taken"], self.turn)
        begin = builder.block
        self.go(self.again)
        self.at(self.again)
        words = builder.phi(self.pointer)
        words.add_incoming(first, begin)
        array_type, others = w["array_type"], w["others"]
        w = {name: self.load(words, i64, WORD * k) for k, name in enumerate(WORDS)}
        rows = self.address(w["rows"])
        hits = builder.inttoptr(w["hits"], i64.as_pointer())
        self.go_on_if(self.equal(count, w["row_count"]), self.unfit)
        number, end = self.each(count)
        leaf, row = builder.load(builder.gep(arguments, [number])), self.fields(rows, number, ROW)
        # Where a leaf does not fit, those before it are in their cells already. That does no harm, because
        # every call writes all of these cells.
        self.check(leaf, row, w)
        self.copy_in(leaf, row)
        end()
        with builder.if_then(builder.icmp_signed("!=", w["leading"], i64(0))):
            imported(".by_paths", __package__).ask_first(self, w, words, arguments)
            number, end = self.each(count)
            leaf, row = builder.load(builder.gep(arguments, [number])), self.fields(rows, number, ROW)
            self.copy_whole(leaf, row, LATE)
            end()
        with builder.if_then(builder.icmp_signed("!=", w["rebound"], i64(0))):
            imported(".watches", __package__).ask_if_changed(self, w)
        lock = self.api["PyEval_SaveThread"], self.api["PyEval_RestoreThread"]
        with builder.if_then(builder.icmp_signed("!=", w["kept_bytes"], i64(0))):
            places = self.address(w["kept_place"]), self.address(w["kept"])
            builder.call(self.memcpy, [*places, w["kept_bytes"], self.i1(0)])
        outcome = enter(builder, w["sweep"], w["frame"], w["locked"], *lock)
        self.go_on_if(self.equal(outcome, i64(0)))
        builder.store(builder.add(builder.load(hits), i64(1)), hits)
        with builder.if_then(builder.icmp_signed("!=", w["others"], i64(0))):
            imported(".by_sizes", __package__).interrupt(self, self.address(w["others"]))
        with builder.if_then(builder.icmp_signed("!=", w["leading"], i64(0))):
            imported(".by_paths", __package__).interrupt(self, self.address(w["paths"]))
        self.results(w)
        self.at(self.unfit)
        self.go_on_if(self.equal(builder.ptrtoint(words, i64), builder.ptrtoint(first, i64)))
        self.go_on_if(builder.icmp_signed("!=", others, i64(0)))
        found = self.look_up(self.address(others), arguments, count, array_type)
        words.add_incoming(found, builder.block)
        self.go(self.again)
        self.at(self.stopped)
        builder.store(self.free, self.turn)
        builder.branch(self.other)
        self.at(self.other)
        self.let_go()
        given = builder.bitcast(arguments, self.pointer)
        builder.ret(self.call("PyObject_Vectorcall", self.address(fallback), given, count, self.null))

    def check(self, leaf, row, w) -> None:
        """Go on if a leaf is what its row says."""
        builder, i64 = self.builder, self.i64
        is_array = functools.reduce(
            builder.or_,
            [self.equal(row["kind"], i64(kind)) for kind in (ARRAY, DATA_ARRAY, PLACED, SPREAD, LATE, APART)],
        )
        with builder.if_else(is_array) as (array, otherwise):
            with array:
                self.go_on_if(self.equal(self.load(leaf, i64, TYPE), w["array_type"]), self.unfit)
                self.go_on_if(self.equal(self.load(leaf, i64, DESCR), row["object"]))
                ndim = builder.sext(self.load(leaf, self.i32, NDIM), i64)
                self.go_on_if(self.equal(ndim, row["ndim"]), self.unfit)
                aligned = self.has_flags(leaf, ALIGNED)
                scattered = builder.and_(aligned, builder.icmp_signed("!=", row["scattered"], i64(0)))
                self.go_on_if(builder.or_(self.has_flags(leaf, CONTIGUOUS_ALIGNED), scattered))
                axis, end = self.each(row["ndim"])
                sizes = [
                    builder.load(builder.gep(builder.bitcast(base, i64.as_pointer()), [axis]))
                    for base in (self.load(leaf, self.pointer, SHAPE), self.address(row["shape"]))
                ]
                self.go_on_if(self.equal(*sizes), self.unfit)
                end()
                with builder.if_then(self.equal(row["kind"], i64(DATA_ARRAY))):
                    data, known = self.load(leaf, self.pointer, DATA), self.address(row["contents"])
                    with builder.if_else(self.has_flags(leaf, CONTIGUOUS_ALIGNED)) as (whole, apart):
                        with whole:
                            self.compare_memory(data, known, row["bytes"])
                        with apart, builder.if_then(builder.icmp_signed("!=", row["bytes"], i64(0))):
                            word, beside, end = self.each_word(self.fields_of(leaf), known, self.slots)
                            self.go_on_if(self.equal(builder.load(word), builder.load(beside)))
                            end()
                kinds = [self.equal(row["kind"], i64(kind)) for kind in (PLACED, APART)]
                with builder.if_then(builder.or_(*kinds)):
                    data = self.load(leaf, i64, DATA)
                    before = builder.icmp_unsigned("<=", builder.add(data, row["bytes"]), row["begin"])
                    self.go_on_if(builder.or_(before, builder.icmp_unsigned(">=", data, row["end"])))
            with otherwise, builder.if_else(self.equal(row["kind"], i64(NUMBER))) as (number, same):
                with number:
                    self.go_on_if(self.equal(self.load(leaf, i64, TYPE), row["object"]), self.unfit)
                with same:
                    self.go_on_if(self.equal(builder.ptrtoint(leaf, i64), row["object"]), self.unfit)

    def compare_memory(self, left, right, length, ask=None) -> None:
        """Go on if two pieces of memory have the same contents (else as `go_on_if` does)."""
        differs = self.builder.call(self.memcmp, [left, right, length])
        self.go_on_if(self.equal(differs, self.i32(0)), ask)

    def copy_in(self, leaf, row) -> None:
        builder, i64 = self.builder, self.i64
        self.copy_whole(leaf, row, ARRAY)
        self.copy_whole(leaf, row, APART)
        with builder.if_then(self.equal(row["kind"], i64(SPREAD))):
            self.spread(self.load(leaf, self.pointer, DATA), self.address(row["cells"]), row)
        with builder.if_then(self.equal(row["kind"], i64(PLACED))):
            builder.store(self.load(leaf, i64, DATA), builder.inttoptr(row["cells"], i64.as_pointer()))
        with builder.if_then(self.equal(row["kind"], i64(NUMBER))):
            cell = builder.inttoptr(row["cells"], self.ir.DoubleType().as_pointer())
            builder.store(self.call("PyFloat_AsDouble", leaf), cell)

    def copy_whole(self, leaf, row, kind: int) -> None:
        """Copy an array to its cells if its row is of a kind."""
        with self.builder.if_then(self.equal(row["kind"], self.i64(kind))):
            cells, source = self.address(row["cells"]), self.load(leaf, self.pointer, DATA)
            with self.builder.if_else(self.has_flags(leaf, CONTIGUOUS_ALIGNED)) as (whole, apart):
                with whole:
                    self.builder.call(self.memcpy, [cells, source, row["bytes"], self.i1(0)])
                with apart:
                    word, cell, end = self.each_word(self.fields_of(leaf), cells, self.slots)
                    self.builder.store(self.builder.load(word), cell)
                    end()

    def results(self, w) -> None:
        """Return the results in their form."""
        builder, i64, outs = self.builder, self.i64, self.address(w["outs"])
        with builder.if_then(self.equal(w["form"], i64(ALONE))):
            self.leave(self.made(self.fields(outs, i64(0), OUT)))
        with builder.if_then(self.equal(w["form"], i64(PAIR))):
            pair = self.new_tuple(i64(2))
            others = builder.sub(w["out_count"], i64(1))
            inner = self.or_null(self.call("PyTuple_New", others))
            self.put(pair, i64(1), inner)
            self.put(pair, i64(0), self.made(self.fields(outs, i64(0), OUT)))
            number, end = self.each(others)
            made = self.made(self.fields(outs, builder.add(number, i64(1)), OUT))
            self.put(inner, number, made)
            end()
            self.leave(pair)
        whole = self.new_tuple(w["out_count"])
        number, end = self.each(w["out_count"])
        self.put(whole, number, self.made(self.fields(outs, number, OUT)))
        end()
        self.leave(whole)

    def made(self, out):
        """Return a new reference to one result."""
        builder, ends, incoming = self.builder, self.block(), []
        found = self.address(out["object"])
        for kind, make in self.makers().items():
            inside, elsewhere = self.block(), self.block()
            builder.cbranch(self.equal(out["kind"], self.i64(kind)), inside, elsewhere)
            self.at(inside)
            incoming.append((make(found, out), builder.block))
            builder.branch(ends)
            self.at(elsewhere)
        self.call("Py_IncRef", found)
        incoming.append((found, builder.block))
        self.go(ends)
        self.at(ends)
        result = builder.phi(self.pointer)
        for value, block in incoming:
            result.add_incoming(value, block)
        return result

    def makers(self) -> dict:
        """Return what writes the making of a result of each kind, but of a fixed one."""
        return {
            CALLED: lambda found, _: self.or_null(self.call("PyObject_CallNoArgs", found)),
            ENTRY: lambda found, _: self.or_null(self.call("PySequence_GetItem", found, self.i64(0))),
            COPIED: self.copied,
            NUMBERED: lambda found, out: self.or_null(
                self.call("PyArray_Scalar", self.address(out["cells"]), found, self.null)
            ),
        }

    def copied(self, dtype, out):
        """Return a new array with the contents of cells."""
        self.call("Py_IncRef", dtype)  # PyArray_Empty takes over a reference
        ndim = self.builder.trunc(out["ndim"], self.i32)
        made = self.or_null(self.call("PyArray_Empty", ndim, self.address(out["shape"]), dtype, self.i32(0)))
        target, source = self.load(made, self.pointer, DATA), self.address(out["cells"])
        self.builder.call(self.memcpy, [target, source, out["bytes"], self.i1(0)])
        return made


def _module_text(symbol: str) -> str:
    return str(_Text(symbol).module)


_SYMBOLS = {f"nt_python_{name}": (name, spec) for name, spec in API.items()}
_SYMBOLS |= {f"nt_numpy_{name}": (name, spec) for name, spec in ARRAY_API.items()}
STEADY = Builtin("steady", _module_text, (*_SYMBOLS, "memcpy", "memcmp"))


def make_steady(words: np.ndarray, alive):
    """Return a builtin over int64 words (`WORDS`), which keeps alive what they refer to.

    Raises
    ------
    CannotEmit
        Where LLVM emits no code for this machine.
    """
    return new_function(STEADY.definition(METH_FASTCALL), words, alive)
