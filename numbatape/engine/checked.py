"""The checked form: the generated kernels, interpreted by Python over bounds-checked cells.

The same text that is compiled into raw loads and stores runs here with arrays that refuse any
index outside of them. This is slow; the tests and ``debug_mode`` use it to find accesses out of bounds.
"""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..jit import interpreted
from ..ops.calls import ENTRIES
from ..tape.tape import F32, F64, FAMILY_DTYPE
from .calls import Calls
from .chain import sweep_source
from .codegen import kernel_source
from .frame import WORD, WORDS
from .plan import Plan
from .workspace import Workspace, seed_table


@functools.total_ordering
class Cells:
    """Cells ``first .. first + len(data) - 1`` of a stack; any other index raises.

    It moves by bytes, as an address does, and so tells how many bytes it is behind another one.
    """

    __slots__ = ("data", "first")

    def __init__(self, data: np.ndarray, first: int = 0):
        self.data = data
        self.first = first

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def __add__(self, size: int) -> Cells:
        return Cells(self.data, self.first - size // self.data.itemsize)

    def __sub__(self, other):
        if isinstance(other, Cells):
            return (other.first - self.first) * self.data.itemsize
        return self + -other

    def __lt__(self, other: Cells) -> bool:
        return self.first > other.first

    def __eq__(self, other) -> bool:
        return self.data is other.data and self.first == other.first

    __hash__ = None  # type: ignore[assignment]

    def _place(self, index) -> int:
        place = operator.index(index) - self.first
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


def _clear(cells, first, count, size):
    for i in range(int(count)):
        cells[first + i] = 0.0


def _invoke(table, opcode, w, pc):
    return table(opcode)(w, pc)


@functools.cache
def module(source: str) -> dict:
    """Return the functions of a module of kernels, as plain Python functions."""
    scope = interpreted.names(source) | {"clear": _clear, "invoke": _invoke}
    interpreted.run(source, scope, "checked")
    return scope


class _CallTable:
    """The table behind ``CALLS``, where every rule is called by Python."""

    def __init__(self, calls: Calls):
        self._sweeps = calls.forward, calls.reverse, calls.reverse_all

    def __call__(self, entry: int):
        return self._sweeps[entry % ENTRIES]

    def __getitem__(self, entry: int) -> int:
        return 0


class CheckedWorkspace:
    """A workspace whose sweeps are interpreted with every cell access checked.

    Parameters
    ----------
    plan
        What to run; cells that nothing has written yet hold NaN.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.v = tuple(np.full(n, np.nan, FAMILY_DTYPE[f]) for f, n in enumerate(plan.cells))
        self.g = tuple(np.full(n, np.nan, FAMILY_DTYPE[f]) for f, (_, n) in enumerate(plan.active))
        plan.write_literals(self.v)
        self.seeds, cells = seed_table(plan)
        self.seed = np.ones(max(1, cells))
        self._calls = Calls(plan, self.v, self.g, Workspace, native=False) if plan.tape.calls else None
        self.words = self._frame()

    def _frame(self) -> list:
        """Return the words of the frame, with arrays that check each position in the place of addresses."""
        plan = self.plan
        values = {
            "CODE": Cells(plan.code.reshape(-1)),
            "AUX": Cells(plan.aux),
            "V64": Cells(self.v[F64]),
            "V32": Cells(self.v[F32]),
            "G64": Cells(self.g[F64], plan.active[F64][0]),
            "G32": Cells(self.g[F32], plan.active[F32][0]),
            "FORWARD": lambda number: self._kernel(number, "forward"),
            "REVERSE": lambda number: self._kernel(number, "reverse"),
            "ITERATIONS": lambda number: module(sweep_source("forward"))["iterations"],
            "SEEDS": Cells(self.seeds.reshape(-1)),
            "SEED_DATA": Cells(self.seed),
            **plan.counts(),
            "SEED_COUNT": len(plan.tape.outputs),
        }
        if self._calls is not None:
            values |= {"CALLS": _CallTable(self._calls), "CALL": Cells(self._calls.words)}
        return [values.get(name, 0) for name in WORDS]

    def _kernel(self, number: int, direction: str):
        row, family = int(number) >> 1, int(number) & 1
        return module(kernel_source(row, family, direction, self.plan.values))[direction]

    @property
    def stopped(self) -> int:
        return int(self.words[WORD["STOPPED"]])

    def _positions(self, value: int, adjoint: bool):
        family, first = self.plan.cell(value)
        result = np.full(self.plan.shape(value), first - (self.plan.active[family][0] if adjoint else 0))
        for axis, stride in enumerate(self.plan.strides(value)):
            steps = np.arange(result.shape[axis]) * stride
            result += steps.reshape([-1 if k == axis else 1 for k in range(result.ndim)])
        return (self.g if adjoint else self.v)[family], result

    def view(self, value: int, adjoint: bool = False) -> np.ndarray:
        """Return a copy of a value's cells (or of its adjoint's)."""
        cells, positions = self._positions(value, adjoint)
        return cells[positions]

    def set(self, value: int, data) -> None:
        """Write a value's cells."""
        cells, positions = self._positions(value, adjoint=False)
        cells[positions] = data

    def _run(self, entry: str, *arguments, direction: str = "forward"):
        with np.errstate(all="ignore"):
            outcome = module(sweep_source(direction))[entry](self.words, *arguments)
        if self._calls is not None:
            self._calls.end()
        return outcome

    def step(self, instruction: int) -> int:
        """Run one instruction forward; return its status."""
        return self._run("forward_range", instruction, instruction + 1)

    def step_back(self, instruction: int) -> None:
        """Run one instruction in reverse."""
        self._run("reverse_range", instruction, instruction + 1, direction="reverse")

    def forward(self) -> int:
        """Run prologue and main part; return the status."""
        return self._run("prologue", 0) or self._run("value", 0)

    def reverse(self) -> None:
        """Clear the adjoints and run the reverse sweep with the cotangents in ``seed``."""
        self.plan.require_reverse()
        self._run("pullback", 0, direction="reverse")
