"""The steady call ``array -> (value, (gradient, ...))`` as a Python builtin: 0.4 µs less than a closure.

A ``PyCFunction`` of one argument whose ``self`` is the address of `WORDS` as a Python int. It compares
the argument's class, dtype, shape and flags, takes its turn, copies it in, enters the sweep without the
interpreter lock, and makes the results with the C API; whatever it does not know it hands to the closure.

The fields of an array are read where NumPy's public header has them (``PyArrayObject_fields``, part
of its ABI); `available` looks whether they are there. Anything else is documented C API.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from .builtin import definition, new_function

METH_O = 8
HEAD = object.__basicsize__  # then: data, int nd, dimensions, strides, base, descr, int flags
DATA, NDIM, SHAPE, DESCR, FLAGS = (HEAD + 8 * k for k in (0, 1, 2, 5, 6))
TYPE = HEAD - 8
CONTIGUOUS_ALIGNED = 0x101

# Addresses, sizes, and objects by id: 0 where there is none.
WORDS = (
    *("frame", "sweep", "closure", "array_type", "dtype", "ndim", "shape", "cells", "bytes"),
    *("rebound", "value", "copy", "fixed", "constants"),
    *("turn", "free", "taken", "hits"),  # as in `numbatape.jit.builtin`
)
# name: result and arguments, "p" a pointer, "n" a Py_ssize_t, "." more of them
API = {
    "PyLong_AsVoidPtr": "pp",
    "PyEval_SaveThread": "p",
    "PyEval_RestoreThread": "vp",
    "PyObject_CallNoArgs": "pp",
    "PyObject_CallFunctionObjArgs": "pp.",
    "PyObject_IsTrue": "ip",
    "PySequence_GetItem": "ppn",
    "PySequence_Concat": "ppp",
    "PyTuple_Pack": "pn.",
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
    return True


def _module_text(symbol: str) -> str:
    """Return the IR of ``PyObject *call(PyObject *self, PyObject *array)``."""
    from llvmlite import ir

    module = ir.Module()
    i32, i64 = ir.IntType(32), ir.IntType(64)
    pointer = ir.IntType(8).as_pointer()
    kinds = {"p": pointer, "n": i64, "i": i32, "v": ir.VoidType()}
    api = {}
    for name, spec in API.items():
        more = spec.endswith(".")
        arguments = [kinds[k] for k in spec[1:].rstrip(".")]
        api[name] = ir.Function(module, ir.FunctionType(kinds[spec[0]], arguments, more), f"nt_python_{name}")
    memcpy = module.declare_intrinsic("llvm.memcpy", [pointer, pointer, i64])
    function = ir.Function(module, ir.FunctionType(pointer, [pointer, pointer]), symbol)
    start, other = function.append_basic_block("start"), function.append_basic_block("other")
    stopped = function.append_basic_block("stopped")
    builder = ir.IRBuilder(start)
    null = ir.Constant(pointer, None)

    def call(name, *arguments):
        return builder.call(api[name], arguments)

    def load(address, kind, offset=0):
        place = builder.gep(address, [i64(offset)])
        return builder.load(builder.bitcast(place, kind.as_pointer()))

    def go_on_if(condition, elsewhere=other):
        block = function.append_basic_block()
        builder.cbranch(condition, block, elsewhere)
        builder.position_at_end(block)

    def equal(left, right):
        return builder.icmp_signed("==", left, right)

    def address(word):
        return builder.inttoptr(w[word], pointer)

    self, array = function.args
    words = call("PyLong_AsVoidPtr", self)
    w = {name: load(words, i64, 8 * k) for k, name in enumerate(WORDS)}
    closure = builder.inttoptr(w["closure"], pointer)
    go_on_if(equal(load(array, i64, TYPE), w["array_type"]))
    go_on_if(equal(load(array, i64, DESCR), w["dtype"]))
    go_on_if(equal(builder.sext(load(array, i32, NDIM), i64), w["ndim"]))
    good = builder.and_(load(array, i32, FLAGS), i32(CONTIGUOUS_ALIGNED))
    go_on_if(equal(good, i32(CONTIGUOUS_ALIGNED)))
    # The shape, axis by axis.
    before, turn, inside, behind = builder.block, *(function.append_basic_block() for _ in range(3))
    builder.branch(turn)
    builder.position_at_end(turn)
    axis = builder.phi(i64)
    builder.cbranch(builder.icmp_signed("<", axis, w["ndim"]), inside, behind)
    builder.position_at_end(inside)
    sizes = [
        builder.load(builder.gep(builder.bitcast(base, i64.as_pointer()), [axis]))
        for base in (load(array, pointer, SHAPE), address("shape"))
    ]
    following = builder.add(axis, i64(1))
    axis.add_incoming(i64(0), before)
    axis.add_incoming(following, inside)
    builder.cbranch(equal(*sizes), turn, other)
    builder.position_at_end(behind)
    flag, counter = (builder.inttoptr(w[name], i64.as_pointer()) for name in ("turn", "hits"))
    go_on_if(equal(builder.load(flag), w["free"]))
    builder.store(w["taken"], flag)

    def release():
        builder.store(w["free"], flag)

    def made(result, releases=True):
        """Return NULL where a call of the C API failed; what was made before is lost then."""
        with builder.if_then(equal(builder.ptrtoint(result, i64), i64(0))):
            if releases:
                release()
            builder.ret(null)
        return result

    with builder.if_then(builder.icmp_signed("!=", w["rebound"], i64(0))):
        changed = made(call("PyObject_CallNoArgs", address("rebound")))
        truth = call("PyObject_IsTrue", changed)
        call("Py_DecRef", changed)
        go_on_if(equal(truth, i32(0)), stopped)
    builder.call(memcpy, [address("cells"), load(array, pointer, DATA), w["bytes"], ir.IntType(1)(0)])
    sweep = builder.inttoptr(w["sweep"], ir.FunctionType(i64, [i64, i64]).as_pointer())
    thread = call("PyEval_SaveThread")
    outcome = builder.call(sweep, [w["frame"], i64(0)])
    call("PyEval_RestoreThread", thread)
    go_on_if(equal(outcome, i64(0)), stopped)
    builder.store(builder.add(builder.load(counter), i64(1)), counter)
    value = made(call("PySequence_GetItem", address("value"), i64(0)))
    with builder.if_then(builder.icmp_signed("!=", w["fixed"], i64(0))):
        release()
        result = call("PyTuple_Pack", i64(2), value, address("fixed"))
        call("Py_DecRef", value)
        builder.ret(result)
    gradient = made(call("PyObject_CallNoArgs", address("copy")))
    release()  # what is read from now on belongs to no cache
    alone = made(call("PyTuple_Pack", i64(1), gradient), releases=False)
    call("Py_DecRef", gradient)
    lone = builder.block
    with builder.if_then(builder.icmp_signed("!=", w["constants"], i64(0))):
        longer = made(call("PySequence_Concat", alone, address("constants")), releases=False)
        call("Py_DecRef", alone)
        joined = builder.block
    gradients = builder.phi(pointer)
    gradients.add_incoming(alone, lone)
    gradients.add_incoming(longer, joined)
    result = call("PyTuple_Pack", i64(2), value, gradients)
    call("Py_DecRef", value)
    call("Py_DecRef", gradients)
    builder.ret(result)
    builder.position_at_end(stopped)
    release()
    builder.branch(other)
    builder.position_at_end(other)
    call("Py_IncRef", closure)  # the call may replace it, and free the words with it
    result = call("PyObject_CallFunctionObjArgs", closure, array, null)
    call("Py_DecRef", closure)
    builder.ret(result)
    return str(module)


def make_steady(words: np.ndarray):
    """Return a builtin over int64 words (`WORDS`), which must outlive it, as must all it refers to."""
    needs = [*(f"nt_python_{name}" for name in API), "memcpy"]
    return new_function(definition("steady", _module_text, METH_O, *needs), words)
