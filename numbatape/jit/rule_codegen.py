"""The machine code of the C functions that call a rule. Importing this imports Numba.

One intrinsic writes all of a C function, because Numba types and lowers each statement of a Python function
by itself: as forty statements, the two functions of a rule took longer than the rule.
"""

from __future__ import annotations

from functools import reduce

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from .call_words import (
    CALL_A,
    CALL_B,
    CALL_COPY,
    CALL_FAILED,
    CALL_NUMBER,
    CALL_OUT,
    CALL_RAISED,
    CALL_STATUS,
)
from .rule_signatures import HEAD, Leaf, Signature

BYTE_P, I64 = ir.IntType(8).as_pointer(), ir.IntType(64)
CELL = {"float64": ir.DoubleType(), "float32": ir.FloatType()}
NUMBERS = (types.Integer, types.Float, types.Boolean)


def kind_of(ndim: int | None, dtype: str):
    """Return Numba's type of a number or a contiguous array."""
    scalar = getattr(types, "boolean" if dtype == "bool" else dtype)
    return scalar if ndim is None else types.Array(scalar, ndim, "C")


def call_of(function, arguments):
    """Return the types of a call of a compiled function, for arguments of some types."""
    return numba.typeof(function).get_call_type(function.typingctx, tuple(arguments), {})


def kinds_of_parts(signature: Signature, result) -> list | None:
    """Return the types of the parts of a function's result; None where Python is to say what is wrong."""
    if signature.single:
        kinds = [result]
    elif isinstance(result, types.BaseTuple) and len(result) == len(signature.produced):
        kinds = list(result)
    else:
        return None
    for name, kind in zip(signature.produced, kinds, strict=True):
        if name is None or isinstance(kind, types.NoneType):  # None is a zero cotangent
            continue
        array = isinstance(kind, types.Array)
        if not isinstance(kind.dtype if array else kind, NUMBERS):
            return None
        if (kind.ndim if array else 0) != (signature.leaf(name).ndim or 0):
            return None
    return kinds


def caller(signature: Signature, functions, given, calls, kinds):
    """Return the intrinsic ``(words, state)`` that calls functions, one after the other.

    Parameters
    ----------
    signature
        Where arguments and results are.
    functions, given, calls
        What is called, the types of what it gets, and those of the call (`call_of`).
    kinds
        The types of the parts of the last one's result.
    """

    @intrinsic
    def whole(typingctx, words, state):
        def codegen(context, builder, _, args):
            return _Caller(context, builder, signature, *args).write(functions, given, calls, kinds)

        return types.int64(types.int64, types.int64), codegen

    return whole


class _Caller:
    """Writes a C function: makes arguments of cells, calls, and stores results or adds them to adjoints."""

    def __init__(self, context, builder, signature: Signature, words, state):
        self.context, self.builder, self.signature = context, builder, signature
        self.words, self.state = words, state
        self.itemsize = np.dtype(signature.cells).itemsize
        self.head = {name: self._word(state, k) for k, name in enumerate(HEAD)}
        self.start = {
            place: self._word(words, k)
            for place, k in (("result", CALL_OUT), ("first", CALL_A), ("rest", CALL_B))
        }
        self.failed = builder.append_basic_block("failed")

    def write(self, functions, given, calls, kinds):
        """Write all of it, and return the status: 0, or what the state says where a function raised."""
        builder = self.builder
        end, status = builder.append_basic_block("end"), cgutils.alloca_once_value(builder, I64(0))
        last = len(functions) - 1
        for k, (function, own, call) in enumerate(zip(functions, given, calls, strict=True)):
            result = self._call(function, self.signature.arguments[k], own, call)
            if k == last:
                self._store(result, call.return_type, kinds)
            self.context.nrt.decref(builder, call.return_type, result)
        builder.branch(end)
        builder.position_at_end(self.failed)
        builder.store(self._note_failure(), status)
        builder.branch(end)
        builder.position_at_end(end)
        return builder.load(status)

    def _note_failure(self):
        """Write which call failed, if none has before it, and return the status."""
        builder, code = self.builder, self._word(self.words, CALL_STATUS)
        raised = self._pointer(self._word(self.words, CALL_RAISED), I64)
        with builder.if_then(builder.icmp_signed("==", builder.load(raised), I64(0))):
            builder.store(code, raised)
            builder.store(I64(1 + self.signature.reverse), self._pointer(self.words, I64, I64(CALL_FAILED)))
            copy = self._pointer(self.words, I64, I64(CALL_COPY))
            cgutils.raw_memcpy(builder, copy, self._pointer(self.words, I64), I64(CALL_NUMBER + 1), 8)
        return code

    # ---- words and cells

    def _pointer(self, base, kind, index=None):
        pointer = self.builder.inttoptr(base, kind.as_pointer())
        return pointer if index is None else self.builder.gep(pointer, [index])

    def _word(self, base, k: int):
        return self.builder.load(self._pointer(base, I64, I64(k)))

    def _field(self, name: str):
        return self._word(self.state, self.signature.fields.index(name))

    def _sizes(self, leaf: Leaf) -> list:
        return [self._field(name) for name in leaf.sizes]

    def _count(self, leaf: Leaf):
        return reduce(self.builder.mul, self._sizes(leaf), I64(1))

    def _cells(self, leaf: Leaf, adjoint: bool):
        """Return the address of a leaf's first cell."""
        builder = self.builder
        first = builder.add(self.start[leaf.place], self._field(f"{leaf.name}_at"))
        return builder.add(self.head["g" if adjoint else "v"], builder.mul(first, I64(self.itemsize)))

    def _load_cell(self, cells, index):
        """Return a cell as a float64."""
        value = self.builder.load(self._pointer(cells, CELL[self.signature.cells], index))
        return value if self.itemsize == 8 else self.builder.fpext(value, CELL["float64"])

    def _store_cell(self, cells, index, value):
        """Store a float64 in a cell, or add it to an adjoint, rounded where cells are narrower."""
        if self.signature.reverse:
            value = self.builder.fadd(self._load_cell(cells, index), value)
        if self.itemsize == 4:
            value = self.builder.fptrunc(value, CELL["float32"])
        self.builder.store(value, self._pointer(cells, CELL[self.signature.cells], index))

    def _cast(self, value, source, target):
        """Convert a number, as NumPy's types do."""
        builder, source = self.builder, types.unliteral(source)
        if source == target:
            return value
        if isinstance(source, types.Boolean):
            value, source = builder.zext(value, I64), types.int64
        if not isinstance(target, types.Boolean):
            return self.context.cast(builder, value, source, target)
        if isinstance(source, types.Float):
            return builder.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
        return builder.icmp_signed("!=", value, ir.Constant(value.type, 0))

    # ---- arguments

    def _array(self, kind, address, sizes):
        """Return the contiguous array at an address."""
        builder, context = self.builder, self.context
        element = context.get_data_type(kind.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(element))
        strides, step = [], size
        for n in reversed(sizes):
            strides.insert(0, step)
            step = builder.mul(step, n)
        array = arrayobj.make_array(kind)(context, builder)
        data = builder.inttoptr(address, element.as_pointer())
        arrayobj.populate_array(array, data, sizes, strides, size, None)
        return array._getvalue()

    def _value(self, name, kind):
        """Return an argument."""
        if isinstance(name, tuple):
            parts = [self._value(*part) for part in zip(name, kind, strict=True)]
            return self.context.make_tuple(self.builder, kind, parts)
        if name == "None":
            return self.context.get_dummy_value()
        if name == "workspace":
            arrays = [self._leaf(leaf, False) for leaf in self.signature.leaves if leaf.place == "memory"]
            return self.context.make_tuple(self.builder, kind, arrays)
        return self._leaf(self.signature.leaf(name), name.startswith("bar_"))

    def _leaf(self, leaf: Leaf, adjoint: bool):
        builder, kind, at = self.builder, kind_of(leaf.ndim, leaf.dtype), f"{leaf.name}_at"
        if leaf.place == "memory":
            address = builder.add(self.head["memory"], builder.mul(self.head["lane"], self._turn()))
            return self._array(kind, builder.add(address, self._field(at)), self._sizes(leaf))
        if leaf.place == "constant":
            word = self._field(at)
            if leaf.ndim is not None:
                return self._array(kind, word, self._sizes(leaf))
            if leaf.dtype.startswith("float"):
                return self._cast(builder.bitcast(word, CELL["float64"]), types.float64, kind)
            return self._cast(word, types.int64, kind)
        cells = self._cells(leaf, adjoint)
        if leaf.ndim is None:
            return self._cast(self._load_cell(cells, I64(0)), types.float64, kind)
        if leaf.dtype == self.signature.cells:
            return self._array(kind, cells, self._sizes(leaf))
        return self._array(kind, self._converted(leaf, kind.dtype, cells, adjoint), self._sizes(leaf))

    def _turn(self):
        """Return the number of the lane that is computed."""
        builder, size = self.builder, self.head["size"]
        several = builder.icmp_signed(">", size, I64(0))
        cells = builder.sub(self.start["result"], self.head["first"])
        turn = builder.sdiv(cells, builder.select(several, size, I64(1)))
        return builder.select(several, turn, I64(0))

    def _converted(self, leaf: Leaf, dtype, cells, adjoint: bool):
        """Convert cells to another dtype, and return the address of the memory that they are in then."""
        builder, context, count = self.builder, self.context, self._count(leaf)
        element = context.get_data_type(dtype)
        size = I64(np.dtype(leaf.dtype).itemsize)
        behind = builder.mul(I64(int(adjoint)), builder.mul(size, count))  # values, and then cotangents
        address = builder.add(self._field(f"{leaf.name}_buffer"), behind)
        with cgutils.for_range(builder, count) as loop:
            number = self._cast(self._load_cell(cells, loop.index), types.float64, dtype)
            context.pack_value(builder, dtype, number, self._pointer(address, element, loop.index))
        return address

    # ---- the call

    def _call(self, function, names, given, call):
        """Call a function and return its result; where it raises, go on where failures are noted."""
        builder, context = self.builder, self.context
        overload = function.overloads[tuple(call.args)]
        context.add_linking_libs([overload.library])
        values = [
            context.cast(builder, self._value(name, own), own, wanted)
            for name, own, wanted in zip(names, given, call.args, strict=True)
        ]
        status, result = context.call_internal_no_propagate(builder, overload.fndesc, call, values)
        self._leave_if(status.is_error)
        return result

    def _leave_if(self, failure, free=lambda: None):
        leave, stay = (self.builder.append_basic_block(name) for name in ("leave", "stay"))
        self.builder.cbranch(failure, leave, stay)
        self.builder.position_at_end(leave)
        free()
        self.builder.branch(self.failed)
        self.builder.position_at_end(stay)

    # ---- results

    def _store(self, result, whole, kinds):
        """Check the shapes of all parts of a result, and store them."""
        builder, signature, wrong, parts = self.builder, self.signature, [], []
        for k, (name, kind) in enumerate(zip(signature.produced, kinds, strict=True)):
            if name is None:
                continue
            leaf = signature.leaf(name)
            value = result if signature.single else builder.extract_value(result, k)
            if isinstance(kind, types.Array):
                value = arrayobj.make_array(kind)(self.context, builder, value)
                for n, size in zip(
                    cgutils.unpack_tuple(builder, value.shape), self._sizes(leaf), strict=False
                ):
                    wrong.append(builder.icmp_signed("!=", n, size))
            parts.append((leaf, kind, value))
        if wrong:
            free = lambda: self.context.nrt.decref(builder, whole, result)  # noqa: E731
            self._leave_if(reduce(builder.or_, wrong), free)
        for part in parts:
            self._store_part(*part)

    def _store_part(self, leaf: Leaf, kind, value):
        """Write what a rule has returned for one leaf to the leaf's cells; None is a cotangent of zeros."""
        builder, signature = self.builder, self.signature
        cells = self._cells(leaf, signature.reverse)
        if isinstance(kind, types.NoneType):
            if not signature.reverse:
                every = builder.mul(self._count(leaf), I64(self.itemsize))
                cgutils.memset(builder, builder.inttoptr(cells, BYTE_P), every, 0)
        elif not isinstance(kind, types.Array):
            self._store_cell(cells, I64(0), self._cast(value, kind, types.float64))
        elif kind.layout != "C":
            place = cgutils.alloca_once_value(builder, I64(0))
            with cgutils.loop_nest(builder, self._sizes(leaf), I64) as indices:
                at = builder.load(place)
                pointer = cgutils.get_item_pointer(self.context, builder, kind, value, indices)
                self._store_entry(cells, at, kind, pointer)
                builder.store(builder.add(at, I64(1)), place)
        elif kind.dtype.name == signature.cells and not signature.reverse:
            data = builder.bitcast(value.data, CELL[signature.cells].as_pointer())
            target = self._pointer(cells, CELL[signature.cells])
            cgutils.raw_memcpy(builder, target, data, self._count(leaf), self.itemsize)
        else:
            with cgutils.for_range(builder, self._count(leaf)) as loop:
                self._store_entry(cells, loop.index, kind, builder.gep(value.data, [loop.index]))

    def _store_entry(self, cells, at, kind, pointer):
        entry = self.context.unpack_value(self.builder, kind.dtype, pointer)
        self._store_cell(cells, at, self._cast(entry, kind.dtype, types.float64))
