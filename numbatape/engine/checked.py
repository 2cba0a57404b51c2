"""The checked form: the generated kernels, interpreted by Python over bounds-checked cells.

The same text that is compiled into raw loads and stores runs here with arrays that refuse any
index outside of them. Slow, and the seat belt of the tests and of ``debug_mode``.
"""

from __future__ import annotations

import functools
import math
import re

import numpy as np

from ..jit import language, symbols
from ..ops import status
from ..tape.tape import F32, F64, FAMILY_DTYPE
from .codegen import FIRST_KERNEL, kernel_source, sweep_source
from .frame import WORD, WORDS
from .plan import Plan


class Cells:
    """Cells ``first .. first + len(data) - 1`` of a stack; any other index raises."""

    __slots__ = ("data", "first")

    def __init__(self, data: np.ndarray, first: int = 0):
        self.data = data
        self.first = first

    def _place(self, index) -> int:
        place = int(index) - self.first
        if not 0 <= place < len(self.data):
            raise IndexError(
                f"cell {index} is outside of cells {self.first} to {self.first + len(self.data) - 1}"
            )
        return place

    def __getitem__(self, index):
        value = self.data[self._place(index)]
        # Kernels compute in float64 whatever the cells' dtype, and in Python integers.
        return np.float64(value) if self.data.dtype.kind == "f" else int(value)

    def __setitem__(self, index, value):
        self.data[self._place(index)] = value


class _Math:
    """``math`` without exceptions: log(0) is -inf, as in compiled code."""

    names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
             "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "fabs": "abs", "pow": "power"}  # fmt: skip

    def __getattr__(self, name):
        found = getattr(np, self.names.get(name, name), None)
        if found is None:
            import scipy.special

            found = {"lgamma": scipy.special.gammaln}.get(name) or getattr(scipy.special, name, None)
        if name in ("pi", "e", "inf", "nan"):
            return getattr(math, name)
        if found is None:
            raise AttributeError(name)
        if name in ("floor", "ceil", "trunc"):
            # Numba's math.floor of a float is an integer; formulas never rely on that.
            return lambda x: found(x)
        setattr(self, name, found)
        return found


def _clear(cells, first, count, size):
    for i in range(int(count)):
        cells[first + i] = 0.0


def _loop(name: str):
    function = symbols.ufunc(re.sub(r"^sc_", "sc.", name))

    def run(n, *operands):
        *inputs, result = [operands[k : k + 3] for k in range(0, len(operands), 3)]
        dtype = result[0].data.dtype
        for i in range(n):
            args = [dtype.type(cells[first + i * step]) for cells, first, step in inputs]
            result[0][result[1] + i * result[2]] = function(*args)

    return run


def namespace(source: str) -> dict:
    """Return the globals in which a module of kernels runs as plain Python."""
    names = {k: f for k, f in vars(language).items() if not k.startswith("_")}
    names |= {"math": _Math(), "clear": _clear, "invoke": lambda table, op, w, pc: table(op)(w, pc)}
    for name in set(re.findall(r"\bsc_(\w+)\(", source)):
        names[f"sc_{name}"] = symbols.ufunc(f"sc.{name}")
    for name in set(re.findall(r"\bloop_(\w+)\(", source)):
        names[f"loop_{name}"] = _loop(name)
    return names


@functools.cache
def module(source: str) -> dict:
    """Return the functions of a module of kernels, as plain Python functions."""
    names = namespace(source)
    exec(compile(source, "<numbatape checked kernels>", "exec"), names)
    return names


class CheckedWorkspace:
    """A workspace whose sweeps are interpreted with every cell access checked."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.v = tuple(np.full(n, np.nan, FAMILY_DTYPE[f]) for f, n in enumerate(plan.cells))
        self.g = tuple(np.full(n, np.nan, FAMILY_DTYPE[f]) for f, (_, n) in enumerate(plan.active))
        for literal in plan.tape.literals:
            family = int(plan.tape.storages["family"][literal.storage])
            first = int(plan.bases[literal.storage]) + literal.offset
            self.v[family][first : first + literal.data.size] = literal.data
        self._sweeps = module(sweep_source())
        self.words = self._frame()

    def _frame(self) -> list:
        plan = self.plan
        w: list = [0] * len(WORDS)
        code = plan.code.reshape(-1)
        values = {
            "CODE": Cells(code),
            "AUX": Cells(plan.aux),
            "V64": Cells(self.v[F64]),
            "V32": Cells(self.v[F32]),
            "G64": Cells(self.g[F64], plan.active[F64][0]),
            "G32": Cells(self.g[F32], plan.active[F32][0]),
            "FORWARD": lambda number: self._kernel(number, "forward"),
            "REVERSE": lambda number: self._kernel(number, "reverse"),
            "COUNT": len(plan.code),
            "SPLIT": plan.prologue,
            "FIRST64": plan.active[F64][0],
            "CELLS64": plan.active[F64][1],
            "FIRST32": plan.active[F32][0],
            "CELLS32": plan.active[F32][1],
        }
        for name, value in values.items():
            w[WORD[name]] = value
        return w

    @staticmethod
    def _kernel(number: int, direction: str):
        return module(kernel_source(int(number) >> 1, int(number) & 1))[direction]

    @property
    def stopped(self) -> int:
        return int(self.words[WORD["STOPPED"]])

    def view(self, value: int, adjoint: bool = False) -> np.ndarray:
        """Return a copy of a value's cells (or of its adjoint's)."""
        family, first = self.plan.cell(value)
        cells = self.g[family] if adjoint else self.v[family]
        first -= self.plan.active[family][0] if adjoint else 0
        shape, strides = self.plan.shape(value), self.plan.strides(value)
        return cells[first + _positions(shape, strides)]

    def set(self, value: int, data) -> None:
        """Write a value's cells."""
        family, first = self.plan.cell(value)
        self.v[family][first + _positions(self.plan.shape(value), self.plan.strides(value))] = data

    def step(self, instruction: int) -> int:
        """Run one instruction forward; return its status."""
        with np.errstate(all="ignore"):
            return self._sweeps["forward_range"](self.words, instruction, instruction + 1)

    def step_back(self, instruction: int) -> None:
        """Run one instruction in reverse."""
        with np.errstate(all="ignore"):
            self._sweeps["reverse_range"](self.words, instruction, instruction + 1)

    def forward(self) -> int:
        """Run prologue and main part; return the status."""
        for k in range(len(self.plan.code)):
            outcome = self.step(k)
            if outcome != status.DONE:
                return outcome
        return status.DONE

    def reverse(self, cotangents) -> None:
        """Clear the adjoints, seed the outputs' and run the reverse sweep."""
        for g in self.g:
            g[...] = 0.0
        for value, cotangent in zip(self.plan.tape.outputs, cotangents, strict=True):
            family, first = self.plan.cell(value)
            first -= self.plan.active[family][0]
            if first >= 0:
                positions = first + _positions(self.plan.shape(value), self.plan.strides(value))
                np.add.at(self.g[family], positions, cotangent)
        for k in range(len(self.plan.code) - 1, self.plan.prologue - 1, -1):
            self.step_back(k)


def _positions(shape, strides) -> np.ndarray:
    result = np.zeros(shape, np.int64)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        along = np.arange(n) * stride
        result += along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return result


__all__ = ["FIRST_KERNEL", "Cells", "CheckedWorkspace"]
