"""Writes calls of the module's functions, of Python's and ``math``'s, and of the kernel language's functions.

In this file and in `strips`, ``to`` is the function that is being written (an `Expressions`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from .. import linalg, symbols
from . import arithmetic, cells, strips
from .subset import parameter_types, refused
from .writer import LLVM, Value, integer, number

NONE = Value("", "none")
PURE = "nounwind willreturn readnone"  # LLVM 15's names of these attributes, which later versions accept
# Functions of `math` that are instructions of LLVM. The roundings return an integer, as in Python.
OPERATIONS = {"fabs": 1, "sqrt": 1, "copysign": 2}
ROUNDINGS = ("floor", "ceil", "trunc")
LIBM = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "erf", "erfc"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"), 1),
    **dict.fromkeys(("asinh", "acosh", "atanh"), 1),
    "atan2": 2,
    "pow": 2,
}
# LLVM would turn a power of 2 or 10 into another function, at some optimisation levels and not at others.
_AS_WRITTEN = ("pow", "exp2")


def call(to, node: ast.Call) -> Value:
    """Write a call."""
    if isinstance(node.func, ast.Attribute):
        return _math(to, node)
    if not isinstance(node.func, ast.Name):
        raise refused(node, "what is called is a name")
    name = node.func.id
    if name in strips.COUNTS:
        return strips.call(to, node)
    given = [to.expression(argument) for argument in node.args]
    if name in to.module.functions:
        return _own(to, node, given)
    if name.startswith("sc_"):
        return _scalar_loop(to, name[3:], [to.cast(value, "float", node) for value in given], node)
    if name.startswith("loop_"):
        return _vector_loop(to, name[5:], _integers(to, node, given), node)
    if name in linalg.ROUTINES:
        return _fortran(to, *linalg.ROUTINES[name], given, node)
    if name not in _BUILTINS:
        raise refused(node, "a function that the kernel language has not")
    least, most, write = _BUILTINS[name]
    _check(node, least, most)
    return write(to, node, given)


def _check(node: ast.Call, least: int, most: int) -> None:
    if not least <= len(node.args) <= most:
        raise refused(node, f"takes {least} arguments")


def _integers(to, node, given) -> list[str]:
    return [to.cast(value, "int", node) for value in given]


def _own(to, node, given) -> Value:
    """Write a call of a function of the module."""
    types = parameter_types(to.module.functions[node.func.id])
    if types is not None:  # a function that may stand in another module
        _check(node, len(types), len(types))
        given = [Value(to.cast(value, kind, node), kind) for value, kind in zip(given, types, strict=True)]
    inner = to.module.instance(node.func.id, tuple(value.type for value in given), node)
    listed = ", ".join(f"{LLVM[value.type]} {value.text}" for value in given)
    convention = "" if inner.entry else "fastcc "
    text = f"call {convention}{LLVM[inner.result]} {inner.symbol}({listed})"
    if inner.result == "none":
        to.line(text)
        return NONE
    return Value(to.new(text), inner.result)


# ---- math


def _math(to, node) -> Value:
    if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "math"):
        raise refused(node, "what is called is a name, or a function of `math`")
    name = node.func.attr
    given = [to.cast(to.expression(argument), "float", node) for argument in node.args]
    arity = 1 if name in ROUNDINGS else OPERATIONS.get(name) or LIBM.get(name)
    if arity is None:
        raise refused(node, "a function of `math` that the kernel language has not")
    _check(node, arity, arity)
    if name in LIBM:
        return Value(libm(to, name, given), "float")
    result = operation(to, name, given)
    return (
        Value(to.new(f"fptosi double {result} to i64"), "int")
        if name in ROUNDINGS
        else Value(result, "float")
    )


def operation(to, name: str, given: list[str]) -> str:
    """Write one of LLVM's operations on float64."""
    function = to.module.intrinsic(f"llvm.{name}.f64", "double", ", ".join(["double"] * len(given)))
    return to.new(f"call double {function}({', '.join(f'double {x}' for x in given)})")


def libm(to, name: str, given: list[str]) -> str:
    """Write a call of the C library's function."""
    function = to.module.library(name, "double", ", ".join(["double"] * len(given)), PURE)
    attributes = "nobuiltin" if name in _AS_WRITTEN else ""
    return to.new(f"call double {function}({', '.join(f'double {x}' for x in given)}) {attributes}".rstrip())


# ---- Python's functions


def _absolute(to, node, given) -> Value:
    if given[0].type == "float":
        return Value(operation(to, "fabs", [given[0].text]), "float")
    value = to.cast(given[0], "int", node)
    below = to.new(f"icmp slt i64 {value}, 0")
    return Value(to.select(below, "i64", to.new(f"sub i64 0, {value}"), value), "int")


def _float(to, node, given) -> Value:
    return Value(to.cast(given[0], "float", node), "float")


def _int(to, node, given) -> Value:
    if given[0].type == "float":
        return Value(to.new(f"fptosi double {given[0].text} to i64"), "int")
    return Value(to.cast(given[0], "int", node), "int")


# ---- functions of the kernel language


def _bits_of(to, node, given) -> Value:
    return Value(to.new(f"bitcast double {to.cast(given[0], 'float', node)} to i64"), "int")


def _float_of(to, node, given) -> Value:
    return Value(to.new(f"bitcast i64 {to.cast(given[0], 'int', node)} to double"), "float")


def _opaque(to, node, given) -> Value:
    (value,) = _integers(to, node, given)
    return Value(to.opaque(value), "int")


def _invoke(to, node, given) -> Value:
    """Call the kernel at ``table[opcode]``."""
    table, opcode, w, pc = _integers(to, node, given)
    place = to.element(to.pointer(table), "i64", opcode)
    kernel = to.pointer(to.new(f"load i64, ptr {place}"))
    return Value(to.new(f"call i64 {kernel}(i64 {w}, i64 {pc})"), "int")


def _clear(to, node, given) -> Value:
    """Set ``count`` cells of ``size`` bytes to zero."""
    base, first, count, size = _integers(to, node, given)
    memset = to.module.intrinsic("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    to.module.externals["memset"] = None
    start = to.pointer(to.new(f"add i64 {base}, {to.new(f'mul i64 {first}, {size}')}"))
    to.line(f"call void {memset}(ptr {start}, i8 0, i64 {to.new(f'mul i64 {count}, {size}')}, i1 false)")
    return NONE


def _copy_bytes(to, node, given) -> Value:
    target, source, count = _integers(to, node, given)
    memcpy = to.module.intrinsic("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    to.module.externals["memcpy"] = None
    to.line(f"call void {memcpy}(ptr {to.pointer(target)}, ptr {to.pointer(source)}, i64 {count}, i1 false)")
    return NONE


def _differs(to, node, given) -> Value:
    """``memcmp`` of ``count`` bytes; not zero where they differ."""
    left, right, count = _integers(to, node, given)
    memcmp = to.module.library("memcmp", "i32", "ptr, ptr, i64")
    found = to.new(f"call i32 {memcmp}(ptr {to.pointer(left)}, ptr {to.pointer(right)}, i64 {count})")
    return Value(to.new(f"sext i32 {found} to i64"), "int")


def _differs_from_integers(to, node, given) -> Value:
    """Compare ``count`` float64 cells with as many 64-bit integers; not zero where the numbers differ.

    Expressions over SIMD lanes read floats only, and to compare one entry after the other takes as long as to
    read a copy of the integers, which this makes superfluous.
    """
    cells_, integers, count = _integers(to, node, given)
    pointers = to.pointer(cells_), to.pointer(integers)
    whole = to.new(f"and i64 {count}, -8")
    found = _differing_bits(to, pointers, "0", whole, 8)
    reduce = to.module.intrinsic("llvm.vector.reduce.or.v8i64", "i64", "<8 x i64>")
    many = to.new(f"call i64 {reduce}(<8 x i64> {found})")
    return Value(to.new(f"or i64 {many}, {_differing_bits(to, pointers, whole, count, 1)}"), "int")


def _differing_bits(to, pointers: tuple[str, str], first: str, stop: str, width: int) -> str:
    """Write a loop over some cells and integers; return the bits that differ in any pair."""
    int_, float_ = ("i64", "double") if width == 1 else (f"<{width} x i64>", f"<{width} x double>")
    head, turn, behind = (to.label(hint) for hint in ("pairs", "pair", "behind"))
    before = to.block
    to.begin(head)
    i, found, onward, more = (f"%{to.label(hint)}" for hint in ("i", "found", "onward", "more"))
    to.line(f"{i} = phi i64 [ {first}, %{before} ], [ {onward}, %{turn} ]")
    none = "0" if width == 1 else "zeroinitializer"
    to.line(f"{found} = phi {int_} [ {none}, %{before} ], [ {more}, %{turn} ]")
    to.branch(to.new(f"icmp slt i64 {i}, {stop}"), turn, behind)
    to.begin(turn)
    its, other = (
        to.new(f"load {int_}, ptr {to.element(pointer, 'i64', i)}, align 8") for pointer in pointers
    )
    number_ = to.new(f"bitcast {float_} {to.new(f'sitofp {int_} {other} to {float_}')} to {int_}")
    to.line(f"{more} = or {int_} {found}, {to.new(f'xor {int_} {its}, {number_}')}")
    to.line(f"{onward} = add i64 {i}, {width}")
    to.jump(head)
    to.begin(behind)
    return found


def _at(to, node, given) -> Value:
    """Return the address of a cell."""
    base, first = _integers(to, node, given)
    step = to.new(f"mul i64 {first}, {cells.BYTES[to.module.cells]}")
    return Value(to.new(f"add i64 {base}, {step}"), "int")


def _pivot(to, node, given) -> Value:
    """Return the i-th of the 32-bit integers that LAPACK left from a cell on."""
    start = to.pointer(_at(to, node, given[:2]).text)
    return cells.load(to, "i32", to.element(start, "i32", to.cast(given[2], "int", node)))


_BUILTINS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "min": (2, 9, lambda to, node, given: arithmetic.extreme(to, given, False)),
    "max": (2, 9, lambda to, node, given: arithmetic.extreme(to, given, True)),
    "abs": (1, 1, _absolute),
    "float": (1, 1, _float),
    "int": (1, 1, _int),
    "bits_of": (1, 1, _bits_of),
    "float_of": (1, 1, _float_of),
    "opaque": (1, 1, _opaque),
    "invoke": (4, 4, _invoke),
    "clear": (4, 4, _clear),
    "copy_bytes": (3, 3, _copy_bytes),
    "differs": (3, 3, _differs),
    "differs_from_integers": (3, 3, _differs_from_integers),
    "at": (2, 2, _at),
    "pivot": (3, 3, _pivot),
}


# ---- ufunc inner loops: void loop(char **args, intp *n, intp *strides, void *data)


def _call_loop(to, name: str, signature: str, pointers, count: str, steps) -> None:
    loop = to.module.library(f"nt_loop_{name}_{signature}", "void", "ptr, ptr, ptr, ptr")
    data = to.module.data(f"nt_data_{name}_{signature}")
    arguments, dims, strides = to.slot("ptr", len(pointers)), to.slot("i64"), to.slot("i64", len(steps))
    for k, pointer in enumerate(pointers):
        to.line(f"store ptr {pointer}, ptr {to.element(arguments, 'ptr', str(k))}")
    for k, step in enumerate(steps):
        to.line(f"store i64 {step}, ptr {to.element(strides, 'i64', str(k))}")
    to.line(f"store i64 {count}, ptr {dims}")
    to.line(f"call void {loop}(ptr {arguments}, ptr {dims}, ptr {strides}, ptr {data})")


def _scalar_loop(to, name: str, given: list[str], node) -> Value:
    """Write ``sc_psi(x)`` and the like: the inner loop at length one, and one float64 of its results."""
    try:
        loop, signature, which = symbols.scalar_loop(name)
    except AttributeError:
        raise refused(node, "a function that scipy.special has not") from None
    inputs, _, outputs = signature.partition("-")
    arity = sum(2 if t == "D" else 1 for t in inputs)
    _check(node, arity, arity)
    places = [to.slot("double", 2 if t == "D" else 1) for t in inputs + outputs]
    rest = iter(given)
    for t, place in zip(inputs, places, strict=False):
        if t == "l":
            to.line(f"store i64 {_whole(to, next(rest))}, ptr {place}")
            continue
        for part in range(2 if t == "D" else 1):
            to.line(f"store double {next(rest)}, ptr {to.element(place, 'double', str(part))}")
    _call_loop(to, loop, signature, places, "1", [16 if t == "D" else 8 for t in inputs + outputs])
    results = zip(outputs, places[len(inputs) :], strict=True)
    parts = [(place, k) for t, place in results for k in range(2 if t == "D" else 1)]
    place, k = parts[which]
    return Value(to.new(f"load double, ptr {to.element(place, 'double', str(k))}"), "float")


def _whole(to, x: str) -> str:
    """Return a float as an integer; NaN, and what is too large, become the smallest integer."""
    fits = to.new(f"fcmp olt double {operation(to, 'fabs', [x])}, {number(2.0**62)}")
    safe = to.select(fits, "double", x, number(0.0))
    return to.select(fits, "i64", to.new(f"fptosi double {safe} to i64"), str(-(2**63)))


def _vector_loop(to, name: str, given: list[str], node) -> Value:
    """Write ``loop_exp(n, v, first, step, ...)``, one triple an operand, the result last."""
    kind = to.module.cells
    count, rest = given[0], given[1:]
    if len(rest) % 3 or len(rest) < 6:
        raise refused(node, "takes a count, and (cells, first, step) for each operand and the result")
    letter = "d" if kind == "f64" else "f"
    pointers = [
        to.element(to.pointer(rest[k]), cells.ELEMENT[kind], rest[k + 1]) for k in range(0, len(rest), 3)
    ]
    steps = [to.new(f"mul i64 {step}, {cells.BYTES[kind]}") for step in rest[2::3]]
    real = re.sub(r"^sc_", "sc.", name)
    _call_loop(to, real, f"{letter * (len(rest) // 3 - 1)}-{letter}", pointers, count, steps)
    return NONE


# ---- BLAS and LAPACK by SciPy's pointers; Fortran passes everything by reference


def _fortran(to, library: str, routine: str, spec: str, given: list[Value], node) -> Value:
    """Write a call of a routine; the letters of its spec are those of `numbatape.jit.linalg.ROUTINES`."""
    double = to.module.cells == "f64"
    element = {"c": "i8", "i": "i32", "d": "double" if double else "float", "o": "i32"}
    arity = len(spec) - spec.count("o") - spec.count("r")
    _check(node, arity, arity)
    pointers, outcome, values = [], None, iter(given)
    for code in spec.replace("r", ""):
        if code == "p":
            pointers.append(to.pointer(to.cast(next(values), "int", node)))
            continue
        place = to.slot(element[code])
        pointers.append(place)
        if code == "o":
            outcome, value = place, "0"
        elif code == "d":
            value = to.cast(next(values), "float", node)
            value = value if double else to.new(f"fptrunc double {value} to float")
        else:
            value = to.new(f"trunc i64 {to.cast(next(values), 'int', node)} to {element[code]}")
        to.line(f"store {element[code]} {value}, ptr {place}")
    letter = "" if library == "threads" else "d" if double else "s"
    symbol, types = f"nt_{library}_{letter}{routine}", ", ".join(["ptr"] * len(pointers))
    listed = ", ".join(f"ptr {pointer}" for pointer in pointers)
    if "r" in spec:
        result = to.new(f"call i32 {to.module.library(symbol, 'i32', types)}({listed})")
        return Value(to.new(f"sext i32 {result} to i64"), "int")
    to.line(f"call void {to.module.library(symbol, 'void', types)}({listed})")
    if outcome is None:
        return integer(0)
    return Value(to.new(f"sext i32 {to.new(f'load i32, ptr {outcome}')} to i64"), "int")
