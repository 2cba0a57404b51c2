"""Functions that the generated text of `numbatape.jit.rule_texts` calls. Importing this imports Numba.

They are intrinsics, because Numba types, lowers and optimises each function separately, which for a dozen of
them took three times as long as the rule itself.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as make_signature
from numba.extending import intrinsic
from numba.np import arrayobj

BYTE_P, I32, I64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
ELEMENT = {"f64": ir.DoubleType(), "f32": ir.FloatType(), "i32": I32, "i64": I64}
LOADED = {"f64": types.float64, "f32": types.float64, "i32": types.int64, "i64": types.int64}


def element(builder, base, index, kind):
    """Return the pointer to an element of an array at an address."""
    return builder.gep(builder.inttoptr(base, ELEMENT[kind].as_pointer()), [index])


def load(kind):
    """Return the intrinsic ``(base, index)`` that loads an element; a narrower one is widened."""

    @intrinsic
    def load(typingctx, base, index):
        def codegen(context, builder, signature, args):
            value = builder.load(element(builder, *args, kind))
            if kind == "f32":
                return builder.fpext(value, ir.DoubleType())
            return builder.sext(value, I64) if kind == "i32" else value

        return LOADED[kind](types.int64, types.int64), codegen

    return load


def store(kind):
    """Return the intrinsic ``(base, index, value)`` that stores an element, rounded where it is narrower."""

    @intrinsic
    def store(typingctx, base, index, value):
        def codegen(context, builder, signature, args):
            stored = args[2]
            if kind == "f32":
                stored = builder.fptrunc(stored, ir.FloatType())
            elif kind == "i32":
                stored = builder.trunc(stored, I32)
            builder.store(stored, element(builder, *args[:2], kind))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, LOADED[kind]), codegen

    return store


@intrinsic
def copy_bytes(typingctx, target, source, count):
    """Copy ``count`` bytes."""

    def codegen(context, builder, signature, args):
        pointers = [builder.inttoptr(a, BYTE_P) for a in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def array_at(typingctx, address, shape, dtype):
    """The contiguous array of a shape and a dtype at an address."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def codegen(context, builder, signature, args):
        element = context.get_data_type(dtype.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(element))
        sizes = cgutils.unpack_tuple(builder, args[1])
        strides, step = [], size
        for n in reversed(sizes):
            strides.insert(0, step)
            step = builder.mul(step, n)
        array = arrayobj.make_array(kind)(context, builder)
        data = builder.inttoptr(args[0], element.as_pointer())
        arrayobj.populate_array(array, data, sizes, strides, size, None)
        return array._getvalue()

    return make_signature(kind, address, shape, dtype), codegen


@intrinsic
def address_of(typingctx, array):
    """The address of an array's first entry."""

    def codegen(context, builder, signature, args):
        data = arrayobj.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, I64)

    return make_signature(types.int64, array), codegen


@intrinsic
def attempt(typingctx, function, arguments):
    """Call a compiled function; return (whether it raised, its result, zeros where it did)."""
    call = function.get_call_type(typingctx, tuple(arguments), {})
    kind = types.Tuple((types.int64, call.return_type))

    def codegen(context, builder, signature, args):
        overload = function.dispatcher.overloads[tuple(call.args)]
        context.add_linking_libs([overload.library])
        given = cgutils.unpack_tuple(builder, args[1])
        given = [
            context.cast(builder, x, own, wanted)
            for x, own, wanted in zip(given, arguments, call.args, strict=True)
        ]
        status, result = context.call_internal_no_propagate(builder, overload.fndesc, call, given)
        raised = builder.zext(status.is_error, I64)
        return context.make_tuple(builder, kind, (raised, result))

    return make_signature(kind, function, arguments), codegen


NAMES = {
    "np": np,
    "array_at": array_at,
    "address_of": address_of,
    "attempt": attempt,
    "copy_bytes": copy_bytes,
    **{f"load_{kind}": load(kind) for kind in ("i64", "f64", "f32")},
    **{f"store_{kind}": store(kind) for kind in ("i64", "f64", "f32")},
}


def kind_of(ndim: int | None, dtype: str):
    """Return Numba's type of a number or a contiguous array."""
    scalar = getattr(types, "boolean" if dtype == "bool" else dtype)
    return scalar if ndim is None else types.Array(scalar, ndim, "C")


def result_of(function, arguments):
    """Return the type of what a compiled function returns for arguments of some types."""
    import numba

    return numba.typeof(function).get_call_type(function.typingctx, tuple(arguments), {}).return_type
