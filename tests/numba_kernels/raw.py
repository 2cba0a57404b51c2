"""The kernel language's functions as Numba intrinsics over addresses.

A cell array is its address here (an int64), so ``v[i]`` is ``load_f64(v, i)``. Kernels compute in
float64 whatever their cells' dtype: float32 cells widen on load and round on store, which costs
next to nothing and leaves one set of formulas.
"""

from __future__ import annotations

import math
import re

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from numbatape.jit import language, linalg, symbols

from . import strips

F32, F64 = ir.FloatType(), ir.DoubleType()
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


BYTES = {"f64": 8, "f32": 4, "i32": 4, "i64": 8}


@intrinsic
def invoke(typingctx, table, opcode, w, pc):
    """Call the kernel at ``table[opcode]``."""

    def codegen(context, builder, signature, args):
        address = builder.load(element(builder, args[0], args[1], "i64"))
        kernel = builder.inttoptr(address, ir.FunctionType(I64, [I64, I64]).as_pointer())
        return builder.call(kernel, args[2:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


@numba.njit
def opaque(i):
    """Return an integer."""
    return i


@intrinsic
def bits_of(typingctx, x):
    """Return the 64 bits of a float, as an integer."""
    return types.int64(types.float64), lambda context, builder, signature, args: builder.bitcast(args[0], I64)


@intrinsic
def float_of(typingctx, bits):
    """Return the float that has these 64 bits."""
    return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(args[0], F64)


@intrinsic
def clear(typingctx, base, first, count, size):
    """Set ``count`` cells of ``size`` bytes to zero."""

    def codegen(context, builder, signature, args):
        base, first, count, size = args
        start = builder.add(base, builder.mul(first, size))
        cgutils.memset(builder, builder.inttoptr(start, BYTE_P), builder.mul(count, size), 0)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@intrinsic
def differs(typingctx, left, right, count):
    """``memcmp`` of ``count`` bytes; not zero where they differ."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(I32, [BYTE_P, BYTE_P, I64])
        memcmp = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        pointers = [builder.inttoptr(a, BYTE_P) for a in args[:2]]
        return builder.sext(builder.call(memcmp, [*pointers, args[2]]), I64)

    return types.int64(*[types.int64] * 3), codegen


# ---- ufunc inner loops: void loop(char **args, intp *n, intp *strides, void *data)


def external(symbol: str) -> str:
    """Return the symbol, known to this process: Numba's own engine links what it compiles."""
    llvm.add_symbol(symbol, symbols.address_of(symbol))
    return symbol


def _call_loop(builder, name, signature, pointers, count, steps):
    module = builder.module
    kind = ir.FunctionType(ir.VoidType(), [BYTE_P] * 4)
    loop = cgutils.get_or_insert_function(module, kind, external(f"nt_loop_{name}_{signature}"))
    data_name = external(f"nt_data_{name}_{signature}")
    data = module.globals.get(data_name)
    if data is None:
        data = ir.GlobalVariable(module, ir.IntType(8), data_name)
    with builder.goto_entry_block():
        args = builder.alloca(BYTE_P, len(pointers))
        dims = builder.alloca(I64, 1)
        strides = builder.alloca(I64, len(steps))
    for k, pointer in enumerate(pointers):
        builder.store(builder.bitcast(pointer, BYTE_P), builder.gep(args, [I64(k)]))
    for k, step in enumerate(steps):
        builder.store(step, builder.gep(strides, [I64(k)]))
    builder.store(count, dims)
    builder.call(loop, [builder.bitcast(p, BYTE_P) for p in (args, dims, strides, data)])


def scalar_function(name):
    """Return ``sc.psi`` and the like as a function of scalars: the inner loop at length one."""
    loop, signature, which = symbols.scalar_loop(name)
    inputs, _, outputs = signature.partition("-")
    arity = sum(2 if t == "D" else 1 for t in inputs)

    def codegen(context, builder, _, args):
        types_of = inputs + outputs
        with builder.goto_entry_block():
            cells = [builder.alloca(F64, 2 if t == "D" else 1) for t in types_of]
        rest = iter(args)
        for t, cell in zip(inputs, cells, strict=False):
            if t == "l":
                builder.store(_whole(builder, next(rest)), builder.bitcast(cell, I64.as_pointer()))
                continue
            for part in range(2 if t == "D" else 1):
                builder.store(next(rest), builder.gep(cell, [I64(part)]))
        steps = [I64(16 if t == "D" else 8) for t in types_of]
        _call_loop(builder, loop, signature, cells, I64(1), steps)
        results = zip(outputs, cells[len(inputs) :], strict=True)
        parts = [builder.gep(cell, [I64(k)]) for t, cell in results for k in range(2 if t == "D" else 1)]
        return builder.load(parts[which])

    declared = types.float64(*[types.float64] * arity)
    # An intrinsic's parameters are read off its Python signature, hence one form an arity.
    forms = {
        1: lambda tc, x: (declared, codegen),
        2: lambda tc, x, y: (declared, codegen),
        3: lambda tc, x, y, w: (declared, codegen),
        4: lambda tc, x, y, w, u: (declared, codegen),
    }
    return intrinsic(forms[arity])


def _whole(builder, number):
    """Return a float as an integer; what is none, or too large, as the smallest one."""
    size = builder.call(builder.module.declare_intrinsic("llvm.fabs", [F64]), [number])
    fits = builder.fcmp_ordered("<", size, F64(2.0**62))
    safe = builder.select(fits, number, F64(0.0))
    return builder.select(fits, builder.fptosi(safe, I64), I64(-(2**63)))


def vector_function(name, arity, kind):
    """Return an inner loop as ``(n, v, first, step, ...)``, one triple an operand, result last."""
    letter = "d" if kind == "f64" else "f"
    signature = f"{letter * arity}-{letter}"

    def codegen(context, builder, _, args):
        count, rest = args[0], args[1:]
        pointers = [element(builder, *rest[k : k + 2], kind) for k in range(0, len(rest), 3)]
        steps = [builder.mul(step, I64(BYTES[kind])) for step in rest[2::3]]
        _call_loop(builder, name, signature, pointers, count, steps)
        return context.get_dummy_value()

    declared = types.void(*[types.int64] * (1 + 3 * (arity + 1)))
    forms = {
        1: lambda tc, n, av, a, sa, ov, o, so: (declared, codegen),
        2: lambda tc, n, av, a, sa, bv, b, sb, ov, o, so: (declared, codegen),
        3: lambda tc, n, av, a, sa, bv, b, sb, cv, c, sc, ov, o, so: (declared, codegen),
    }
    return intrinsic(forms[arity])


# ---- BLAS and LAPACK by SciPy's pointers; Fortran passes everything by reference


def _fortran(module_name, routine, spec):
    """Return a call: ``c`` a character code, ``i`` a 32-bit integer, ``d``/``s`` a float, ``p`` an
    address, ``o`` an integer result (last), ``r`` an integer that is returned."""
    element = {"c": ir.IntType(8), "i": I32, "d": F64, "s": F32, "o": I32}
    typed = {"d": types.float64, "s": types.float64}

    def codegen(context, builder, signature, args):
        pointers, outcome = [], None
        values = iter(args)
        for code in spec.replace("r", ""):
            if code == "p":
                pointers.append(builder.inttoptr(next(values), BYTE_P))
                continue
            with builder.goto_entry_block():
                slot = builder.alloca(element[code])
            if code == "o":
                outcome = slot
                builder.store(I32(0), slot)
            else:
                value = next(values)
                if code in "ci":
                    value = builder.trunc(value, element[code])
                elif code == "s":
                    value = builder.fptrunc(value, F32)
                builder.store(value, slot)
            pointers.append(builder.bitcast(slot, BYTE_P))
        returned = I32 if "r" in spec else ir.VoidType()
        kind = ir.FunctionType(returned, [BYTE_P] * len(pointers))
        symbol = external(f"nt_{module_name}_{routine}")
        result = builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), pointers)
        if "r" in spec:
            return builder.sext(result, I64)
        return builder.sext(builder.load(outcome), I64) if outcome else I64(0)

    given = [typed.get(code, types.int64) for code in spec if code not in "or"]
    declared = types.int64(*given)
    names = ", ".join(f"a{k}" for k in range(len(given)))
    # intrinsic() counts the parameters of its function, so write one with the right number.
    scope = {"declared": declared, "codegen": codegen}
    exec(f"def call(tc, {names}): return declared, codegen", scope)
    return intrinsic(scope["call"])


@intrinsic
def _pivot(typingctx, base, index):
    def codegen(context, builder, signature, args):
        return builder.sext(builder.load(element(builder, *args, "i32")), I64)

    return types.int64(types.int64, types.int64), codegen


def namespace(kind: str, source: str) -> dict:
    """Return the globals that a kernel module of this cell dtype is compiled in."""
    size = BYTES[kind]

    @numba.njit(error_model="numpy", _nrt=False)
    def at(base, first):
        return base + size * first

    @numba.njit(error_model="numpy", _nrt=False)
    def pivot(base, first, i):
        return _pivot(base + size * first, i)

    dot, load_cell, store_cell = strips.lane_dot(kind), load(kind), store(kind)

    @numba.njit(error_model="numpy", _nrt=False)
    def lane_dots(cv, c, sc0, av, a, sa0, bv, b, n, scale):
        for r in range(4):
            total = load_cell(cv, c + r * sc0) + scale * dot(av, a + r * sa0, bv, b, n)
            store_cell(cv, c + r * sc0, total)

    @numba.njit(error_model="numpy", _nrt=False)
    def eight_dots(cv, c, av, a, sa0, bv, b, m, k):
        for i in range(m):
            store_cell(cv, c + i, dot(av, a + i * sa0, bv, b, k))

    @numba.njit(error_model="numpy", _nrt=False)
    def term(av, a, sa, bv, b, sb, q):
        return load_cell(av, a + q * sa) * load_cell(bv, b + q * sb)

    @numba.njit(error_model="numpy", _nrt=False)
    def four(av, a, sa, bv, b, sb, q):
        first = term(av, a, sa, bv, b, sb, q) + term(av, a, sa, bv, b, sb, q + 1)
        return first + (term(av, a, sa, bv, b, sb, q + 2) + term(av, a, sa, bv, b, sb, q + 3))

    @numba.njit(error_model="numpy", _nrt=False)
    def add_slim_rows(cv, c, av, a, sa, bv, b, sb, n, k):
        for j in range(n):
            total = load_cell(cv, c + j)
            for q in range(0, k - k % 8, 8):
                total += four(av, a, sa, bv, b + j, sb, q) + four(av, a, sa, bv, b + j, sb, q + 4)
            for q in range(k - k % 8, k):
                total += term(av, a, sa, bv, b + j, sb, q)
            store_cell(cv, c + j, total)

    @numba.njit(error_model="numpy", _nrt=False)
    def transpose8(zv, o, sz, xv, a, sa):
        for i in range(8):
            for j in range(8):
                store_cell(zv, o + i * sz + j, load_cell(xv, a + j * sa + i))

    load_float, load_integer = load("f64"), load("i64")

    @numba.njit(error_model="numpy", _nrt=False)
    def differs_from_integers(left, right, count):
        others = 0
        for k in range(count):
            others |= bits_of(load_float(left, k)) ^ bits_of(float(load_integer(right, k)))
        return others

    p = {"f64": "d", "f32": "s"}[kind]
    names = {
        "math": math,
        "parallel": range,
        "simd": range,
        "opaque": opaque,
        "bits_of": bits_of,
        "float_of": float_of,
        "horner": numba.njit(language.horner),
        "invoke": invoke,
        "clear": clear,
        "copy_bytes": copy_bytes,
        "differs": differs,
        "differs_from_integers": differs_from_integers,
        "at": at,
        "pivot": pivot,
        "lane_sum": strips.lane_sum(kind),
        "lane_dot": dot,
        "lane_dots": lane_dots,
        "eight_dots": eight_dots,
        "add_slim_rows": add_slim_rows,
        "transpose8": transpose8,
        "lane_gaps": strips.lane_gaps(kind),
    }
    for name, (library, routine, spec) in linalg.ROUTINES.items():
        letter = "" if library == "threads" else p
        names[name] = _fortran(library, letter + routine, spec.replace("d", p))
    for each in ELEMENT:
        names[f"load_{each}"] = load(each)
        names[f"store_{each}"] = store(each)
    for name in set(re.findall(r"\bsc_(\w+)\(", source)):
        names[f"sc_{name}"] = scalar_function(name)
    for name in set(re.findall(r"\bloop_(\w+)\(", source)):
        real = re.sub(r"^sc_", "sc.", name)
        names[f"loop_{name}"] = vector_function(real, symbols.ufunc(real).nin, kind)
    return names
