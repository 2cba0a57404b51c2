"""What the text of `numbatape.jit.rules` calls. Imports Numba: loaded where a rule is compiled by it.

Intrinsics, not functions: Numba types, lowers and optimises each function apart, which for a dozen of
them took thrice the time of the rule itself.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as make_signature
from numba.extending import intrinsic
from numba.np import arrayobj

from .raw import _load, _store, copy


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
        return builder.ptrtoint(data, ir.IntType(64))

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
        raised = builder.zext(status.is_error, ir.IntType(64))
        return context.make_tuple(builder, kind, (raised, result))

    return make_signature(kind, function, arguments), codegen


NAMES = {
    "np": np,
    "array_at": array_at,
    "address_of": address_of,
    "attempt": attempt,
    "copy_bytes": copy,
    **{f"load_{kind}": _load(kind) for kind in ("i64", "f64", "f32")},
    **{f"store_{kind}": _store(kind) for kind in ("i64", "f64", "f32")},
}


def kind_of(ndim: int | None, dtype: str):
    """Return Numba's type of a number or a contiguous array."""
    scalar = getattr(types, "boolean" if dtype == "bool" else dtype)
    return scalar if ndim is None else types.Array(scalar, ndim, "C")


def result_of(function, arguments):
    """Return the type of what a compiled function returns for arguments of some types."""
    import numba

    return numba.typeof(function).get_call_type(function.typingctx, tuple(arguments), {}).return_type
