"""Kernels as plain Python: the same text, interpreted.

`names` is what the text refers to. `entry_points` is for machines that LLVM cannot emit code for: they are
called by address like compiled ones, and read and write the same memory. They take a thousand times as long.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import math
import operator
import re
import types
import warnings
from collections.abc import Callable

import numpy as np

from . import language, symbols
from .lowering.cells import kind_of
from .lowering.module import HEADER

NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "fabs": "abs",
    "pow": "power",
    "lgamma": "sc.gammaln",
}


class _Math:
    """``math`` without exceptions: log(0) is -inf, as in compiled code."""

    def __getattr__(self, name):
        if name in ("pi", "e", "inf", "nan"):
            found = getattr(math, name)
        else:
            called = NUMPY_NAMES.get(name, name)
            its = called.startswith("sc.") or hasattr(np, called)
            found = symbols.ufunc(called if its else f"sc.{called}")
        setattr(self, name, found)  # Next time, the attribute is found without this call.
        return found


_MATH = _Math()


def _loop(name: str):
    """Return what ``loop_<name>`` calls: a ufunc over n cells, with (cells, first, step) for each operand."""
    function = symbols.ufunc(re.sub(r"^sc_", "sc.", name))

    def run(n, *operands):
        *inputs, result = [operands[k : k + 3] for k in range(0, len(operands), 3)]
        dtype = result[0].dtype
        for i in range(n):
            args = [dtype.type(cells[first + i * step]) for cells, first, step in inputs]
            result[0][result[1] + i * result[2]] = function(*args)

    return run


def names(source: str) -> dict[str, object]:
    """Return what a module of kernels calls, as functions of Python's numbers and of cells.

    Cells are objects with a ``dtype`` whose items are read and written by index.
    """
    found: dict[str, object] = {k: f for k, f in vars(language).items() if not k.startswith("_")}
    found["math"] = _MATH
    for name in set(re.findall(r"\bsc_(\w+)\(", source)):
        found[f"sc_{name}"] = symbols.scalar_function(name)
    for name in set(re.findall(r"\bloop_(\w+)\(", source)):
        found[f"loop_{name}"] = _loop(name)
    return found


def run(kernels: str | ast.Module, scope: dict[str, object], title: str) -> None:
    """Execute a module of kernels in a scope, in which its functions are then."""
    exec(_with_numpys_floats(compile(kernels, f"<numbatape {title} kernels>", "exec")), scope)


def _with_numpys_floats(constant):
    """Return code whose floats are NumPy's: Python's own raise where compiled code gives inf or NaN."""
    if type(constant) is float:
        return np.float64(constant)
    if type(constant) is tuple:
        return tuple(map(_with_numpys_floats, constant))
    if type(constant) is types.CodeType:
        return constant.replace(co_consts=_with_numpys_floats(constant.co_consts))
    return constant


# ---- kernels over memory

_TYPES = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, ctypes.c_int64)
_alive: list = []  # callbacks, whose addresses stand in tables


class Memory:
    """Cells from an address on. No index is checked: the proof of `engine.verify_plan` holds here too."""

    __slots__ = ("address", "dtype", "type")

    def __init__(self, address: int, kind: str):
        self.address, self.type = address, _TYPES[kind]
        self.dtype = np.dtype(self.type)

    def _cell(self, index):
        return self.type.from_address(self.address + ctypes.sizeof(self.type) * operator.index(index))

    def __getitem__(self, index):
        value = self._cell(index).value
        # Kernels compute in float64 whatever the cells' dtype, and in Python integers.
        return np.float64(value) if self.dtype.kind == "f" else value

    def __setitem__(self, index, value):
        self._cell(index).value = value


class _OverMemory(ast.NodeTransformer):
    """Turns the addresses that names of cells stand for into `Memory`, where cells are meant."""

    def __init__(self, cells: str):
        self.cells = cells

    def _memory(self, node: ast.expr, kinds=tuple(_TYPES)) -> ast.expr:
        kind = kind_of(node.id, self.cells) if isinstance(node, ast.Name) else None
        if kind not in kinds:
            return node
        return ast.Call(ast.Name("Memory", ast.Load()), [node, ast.Constant(kind)], [])

    def visit_Subscript(self, node):
        self.generic_visit(node)
        node.value = self._memory(node.value)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name.startswith("loop_") or (hasattr(language, name) and not name.startswith("_")):
            # What such functions take besides cells of floats are numbers, whatever their names.
            node.args = [self._memory(argument, ("f64", "f32")) for argument in node.args]
        return node


def _clear(base: int, first: int, count: int, size: int) -> None:
    ctypes.memset(base + first * size, 0, count * size)


def _differs(left: int, right: int, count: int) -> bool:
    return ctypes.string_at(left, count) != ctypes.string_at(right, count)


def _differs_from_integers(cells: int, integers: int, count: int) -> bool:
    return any(Memory(cells, "f64")[k] != Memory(integers, "i64")[k] for k in range(count))


def _invoke(table: int, opcode: int, w: int, pc: int) -> int:
    return _ENTRY(Memory(table, "i64")[opcode])(w, pc)


_BY_ADDRESS = {
    "Memory": Memory,
    "clear": _clear,
    "copy_bytes": ctypes.memmove,
    "differs": _differs,
    "differs_from_integers": _differs_from_integers,
    "invoke": _invoke,
}


def entry_points(source: str) -> dict[str, int]:
    """Return the addresses of a module's entry points, by name."""
    cells = "f32" if source.startswith(HEADER) else "f64"
    tree = ast.fix_missing_locations(_OverMemory(cells).visit(ast.parse(source)))
    scope = names(source) | _BY_ADDRESS
    run(tree, scope, "interpreted")
    addresses = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["w", "pc"]:
            callback = _ENTRY(_quiet(scope[node.name]))
            _alive.append(callback)
            addresses[node.name] = ctypes.cast(callback, ctypes.c_void_p).value
    return addresses


def _quiet(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def entry(w, pc):
        with np.errstate(all="ignore"):
            return int(function(w, pc))

    return entry


@functools.cache
def warn(reason: str) -> None:
    """Say once that kernels are interpreted, and why."""
    warnings.warn(
        f"LLVM cannot emit code for this machine ({reason}): numbatape interprets its kernels in Python. "
        "Results are right, and take a thousand times as long",
        RuntimeWarning,
        stacklevel=2,
    )
