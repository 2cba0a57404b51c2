"""The kernel language's functions in their raw form: Numba intrinsics over addresses.

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

from . import factors, symbols

BYTE_P = ir.IntType(8).as_pointer()
I32, I64 = ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()
ELEMENT = {"f64": F64, "f32": F32, "i32": I32, "i64": I64}
LOADED = {"f64": types.float64, "f32": types.float64, "i32": types.int64, "i64": types.int64}
BYTES = {"f64": 8, "f32": 4, "i32": 4, "i64": 8}


def _pointer(builder, base, index, kind):
    return builder.gep(builder.inttoptr(base, ELEMENT[kind].as_pointer()), [index])


def _load(kind):
    @intrinsic
    def load(typingctx, base, index):
        def codegen(context, builder, signature, args):
            value = builder.load(_pointer(builder, *args, kind))
            if kind == "f32":
                return builder.fpext(value, F64)
            return builder.sext(value, I64) if kind == "i32" else value

        return LOADED[kind](types.int64, types.int64), codegen

    return load


def _store(kind):
    @intrinsic
    def store(typingctx, base, index, value):
        def codegen(context, builder, signature, args):
            stored = args[2]
            if kind == "f32":
                stored = builder.fptrunc(stored, F32)
            elif kind == "i32":
                stored = builder.trunc(stored, I32)
            builder.store(stored, _pointer(builder, *args[:2], kind))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, LOADED[kind]), codegen

    return store


@intrinsic
def radd(typingctx, total, term):
    """Addition that LLVM may reassociate: the one licence we give, to sum in SIMD lanes."""

    def codegen(context, builder, signature, args):
        return builder.fadd(*args, flags=("reassoc", "nsz"))

    return types.float64(types.float64, types.float64), codegen


@intrinsic
def invoke(typingctx, table, opcode, w, pc):
    """Call the kernel at ``table[opcode]``."""

    def codegen(context, builder, signature, args):
        address = builder.load(_pointer(builder, args[0], args[1], "i64"))
        kernel = builder.inttoptr(address, ir.FunctionType(I64, [I64, I64]).as_pointer())
        return builder.call(kernel, args[2:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


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
def copy(typingctx, target, source, count):
    """Copy ``count`` bytes."""

    def codegen(context, builder, signature, args):
        pointers = [builder.inttoptr(a, BYTE_P) for a in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


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
        pointers = [_pointer(builder, *rest[k : k + 2], kind) for k in range(0, len(rest), 3)]
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
    address, ``o`` an integer result (last)."""
    element = {"c": ir.IntType(8), "i": I32, "d": F64, "s": F32, "o": I32}
    typed = {"d": types.float64, "s": types.float64}

    def codegen(context, builder, signature, args):
        pointers, outcome = [], None
        values = iter(args)
        for code in spec:
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
        kind = ir.FunctionType(ir.VoidType(), [BYTE_P] * len(spec))
        symbol = external(f"nt_{module_name}_{routine}")
        builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), pointers)
        return builder.sext(builder.load(outcome), I64) if outcome else I64(0)

    given = [typed.get(code, types.int64) for code in spec if code != "o"]
    declared = types.int64(*given)
    names = ", ".join(f"a{k}" for k in range(len(given)))
    # intrinsic() counts the parameters of its function, so write one with the right number.
    scope = {"declared": declared, "codegen": codegen}
    exec(f"def call(tc, {names}): return declared, codegen", scope)
    return intrinsic(scope["call"])


_LINALG = """
def gemm(cv, c, sc0, sc1, av, a, sa0, sa1, bv, b, sb0, sb1, m, n, k, alpha, beta):
    if m == 0 or n == 0:
        return 0
    small = m * n * k <= 64
    # The stride along an axis of size one is never taken, and 0 where an axis was added.
    a_rows = (sa1 == 1 or k == 1) and (sa0 >= max(1, k) or m == 1)
    a_columns = (sa0 == 1 or m == 1) and (sa1 >= max(1, m) or k == 1)
    b_rows = (sb1 == 1 or n == 1) and (sb0 >= max(1, n) or k == 1)
    b_columns = (sb0 == 1 or k == 1) and (sb1 >= max(1, k) or n == 1)
    c_rows = (sc1 == 1 or n == 1) and (sc0 >= max(1, n) or m == 1)
    if small or k == 0 or not ((a_rows or a_columns) and (b_rows or b_columns) and c_rows):
        for i in range(m):
            for j in range(n):
                total = 0.0
                for q in range(k):
                    total = radd(total, av[a + i * sa0 + q * sa1] * bv[b + q * sb0 + j * sb1])
                old = 0.0
                if beta != 0.0:
                    old = beta * cv[c + i * sc0 + j * sc1]
                cv[c + i * sc0 + j * sc1] = old + alpha * total
        return 0
    # Row-major C = A B is column-major C' = B' A'.
    ta = 78 if a_rows else 84  # N, T
    tb = 78 if b_rows else 84
    la = max(sa0, 1, k) if a_rows else max(sa1, 1, m)
    lb = max(sb0, 1, n) if b_rows else max(sb1, 1, k)
    _gemm(tb, ta, n, m, k, alpha, at(bv, b), lb, at(av, a), la, beta, at(cv, c), max(sc0, 1, n))
    return 0

def potrf(v, a, n):
    return _potrf(85, n, at(v, a), max(1, n)) if n else 0  # U: row-major lower

def getrf(v, a, n, p):
    return _getrf(n, n, at(v, a), max(1, n), at(v, p)) if n else 0

def _row_swaps(v, n, p, bv, b, sb0, k, backwards):
    for q in range(n):
        i = n - 1 - q if backwards else q
        j = pivot(v, p, i) - 1
        if i != j:
            for col in range(k):
                old = bv[b + i * sb0 + col]
                bv[b + i * sb0 + col] = bv[b + j * sb0 + col]
                bv[b + j * sb0 + col] = old

def getrs(v, a, n, p, bv, b, sb0, k, transposed):
    # LAPACK factored F = M' = P L U, seen row-major: M = U' L' P'. Row-major right sides stay where
    # they are: a row-major X is the column-major X', multiplied from the other side (trsm SIDE=R).
    if n == 0 or k == 0:
        return 0
    if transposed:  # M' X = P L U X = B
        _row_swaps(v, n, p, bv, b, sb0, k, False)
        _trsm(82, 76, 84, 85, k, n, 1.0, at(v, a), n, at(bv, b), sb0)
        _trsm(82, 85, 84, 78, k, n, 1.0, at(v, a), n, at(bv, b), sb0)
    else:  # M X = U' L' P' X = B
        _trsm(82, 85, 78, 78, k, n, 1.0, at(v, a), n, at(bv, b), sb0)
        _trsm(82, 76, 78, 85, k, n, 1.0, at(v, a), n, at(bv, b), sb0)
        _row_swaps(v, n, p, bv, b, sb0, k, True)
    return 0

def lu_sign(v, a, n, p):
    sign = 1.0
    for i in range(n):
        if pivot(v, p, i) != i + 1:
            sign = -sign
    return sign

def trsm(av, a, sa0, lower, transposed, unit, bv, b, sb0, n, k):
    # Row-major op(A) X = B is column-major X' op(A)' = B'; A seen column-major is A'.
    if n == 0 or k == 0:
        return 0
    uplo = 85 if lower else 76
    trans = 84 if transposed else 78
    diag = 85 if unit else 78
    _trsm(82, uplo, trans, diag, k, n, 1.0, at(av, a), sa0, at(bv, b), sb0)
    return 0
"""


@intrinsic
def _pivot(typingctx, base, index):
    def codegen(context, builder, signature, args):
        return builder.sext(builder.load(_pointer(builder, *args, "i32")), I64)

    return types.int64(types.int64, types.int64), codegen


def linalg_source() -> str:
    """Return the text of the BLAS wrappers, in the kernel language like everything else."""
    return _LINALG


def namespace(kind: str, source: str) -> dict:
    """Return the globals that a kernel module of this cell dtype is compiled in."""
    size = BYTES[kind]

    @numba.njit(error_model="numpy", _nrt=False)
    def at(base, first):
        return base + size * first

    @numba.njit(error_model="numpy", _nrt=False)
    def pivot(base, first, i):
        return _pivot(base + size * first, i)

    p = {"f64": "d", "f32": "s"}[kind]
    names = {
        "math": math,
        "radd": radd,
        "invoke": invoke,
        "clear": clear,
        "copy_bytes": copy,
        "differs": differs,
        "at": at,
        "pivot": pivot,
        "_gemm": _fortran("blas", f"{p}gemm", f"cciii{p}pipi{p}pi"),
        "_trsm": _fortran("blas", f"{p}trsm", f"ccccii{p}pipi"),
        "_potrf": _fortran("lapack", f"{p}potrf", "cipio"),
        "_getrf": _fortran("lapack", f"{p}getrf", "iipipo"),
    }
    names |= {f"_{name}": _fortran("lapack", p + name, spec) for name, spec in factors.ROUTINES.items()}
    for element in ELEMENT:
        names[f"load_{element}"] = _load(element)
        names[f"store_{element}"] = _store(element)
    for name in set(re.findall(r"\bsc_(\w+)\(", source)):
        names[f"sc_{name}"] = scalar_function(name)
    for name in set(re.findall(r"\bloop_(\w+)\(", source)):
        real = re.sub(r"^sc_", "sc.", name)
        names[f"loop_{name}"] = vector_function(real, symbols.ufunc(real).nin, kind)
    return names
