"""`Emitter`: functions of symbols that append instructions, in which derivatives are written.

Pullbacks of array ops (`numbatape.ops`) and partials of rows (`numbatape.derive`) are compositions of these.
They know sizes, cells and levels, but no values; a rule that must branch on a value uses `Emitter.ask`.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..errors import UnsupportedOperationError
from ..ops import OPS, ArrayOp, Elementwise, resolve
from ..tape import TapeBuilder
from ..tape.code import LAST_OUT
from ..tape.instruction import MAIN, NONE, PROLOGUE, swapped
from ..tape.tape import ACTIVE, F32, F64, FAMILY_DTYPE, VARYING
from . import addresses, instructions
from .symbol import Symbol

ELEMENTWISE = {
    op.name: (op, k, op.partials, op.chooses) for k, op in enumerate(OPS) if isinstance(op, Elementwise)
}
ARRAY_OPS = {op.name: op for op in OPS if isinstance(op, ArrayOp)}
POWERS = {2.0: "square", 1.0: "copy", -1.0: "reciprocal"}


class Emitter:
    """Appends to a tape.

    Parameters
    ----------
    tape
        The tape under construction.
    strong
        Whether zero factors give zero, whatever the other factor is (``Config.strong_zero``).
    cubes
        Whether third and fourth powers are products; with ``Config(values="numpy")`` NumPy's own loop
        computes them.

    Attributes
    ----------
    line
        The source line that instructions belong to.
    slopes
        Partials that were recorded before, by result and operand; others are in `slope_table`.
    slope_table
        The value numbers of partials that a kernel has recorded (`numbatape.derive.walk_memory`): for each
        value one by operand, a negative number where there is none.
    """

    def __init__(self, tape: TapeBuilder, strong: bool = False, cubes: bool = True):
        self.tape = tape
        self.strong = strong
        self.cubes = cubes
        self.line = NONE
        self.slopes: dict[tuple[int, int], object] = {}
        self.slope_table = np.zeros((0, 3), np.int32)

    def slope(self, out: int, operand: int):
        """Return the partial that was recorded before for a result and an operand, None if there is none."""
        found = self.slopes.get((out, operand))
        if found is None and out < len(self.slope_table):
            number = int(self.slope_table[out, operand])
            found = Symbol(self, number) if number >= 0 else None
        return found

    # ---- branches of rules

    @property
    def assumes(self) -> bool:
        """Whether `ask` assumes the usual case, so that what a rule appends depends on no number."""
        return True

    def ask(self, condition: Symbol, usual: bool) -> bool:
        """Return the truth of a one-cell value, and record a guard on it.

        Without values this assumes the usual case; the guard stops sweeps over the tape where
        another case holds.
        """
        self.guard(condition, usual)
        return usual

    def guard(self, condition: Symbol, outcome: bool) -> None:
        """Record that a one-cell value has a truth value."""
        number = instructions.in_family(self.tape, condition.number, F64, self.line)
        self.tape.guard(number, "bool", outcome, condition.level, self.line)

    def note_guards(self, rows: np.ndarray) -> None:
        """Note guards on assumptions that were appended as instructions, in the columns of an instruction."""
        self.tape.note_guards(rows)

    def cofactors(self, a: Symbol) -> Symbol:
        """Return the cofactors of matrices of any rank, which only traces can record (by a rule)."""
        raise UnsupportedOperationError(
            "derivatives of determinants of singular matrices are taken while a function is traced"
        )

    # ---- numbers, where there are any

    def stands_for(self, row: Symbol, lane: Symbol) -> None:
        """Note that a new value stands for one lane of another one while instructions are recorded for it."""

    def agrees(self, x: Symbol, outcome: float) -> bool:
        """Whether all entries are known to be what a guard says."""
        return True

    def moved(self, start: int) -> None:
        """Note that instructions from one place on were taken off the tape, or have moved."""

    # ---- operands

    def symbol(self, x, family: int = F64) -> Symbol:
        """Return a symbol as it is, and numbers as a literal."""
        if x.__class__ is Symbol:
            return x
        return Symbol(self, self.tape.literal(np.asarray(x), family))

    def in_family(self, x: Symbol, family: int) -> Symbol:
        """Return a symbol in a family's cells."""
        return (
            x
            if x.family == family
            else Symbol(self, instructions.cast(self.tape, x.number, family, self.line))
        )

    # ---- elementwise

    def row(self, name: str, *args):
        """Return an elementwise op of the table, by name, of symbols, numbers and arrays."""
        op, code, partials, chooses = ELEMENTWISE[name]
        tape = self.tape
        values, storages = tape.values, tape.storages
        numbers, family, level, active, cells, symbols = [], F32, 0, 0, True, False
        for k, arg in enumerate(args):
            if arg.__class__ is Symbol:
                symbols = True
                number = arg.number
                storage, _, layout = values[number]
                _, its_family, its_level = storages[storage]
                if layout:
                    cells = False
                if its_family == F64 and not (k == 0 and chooses):
                    family = F64
                if its_level > level:
                    level = its_level
                if its_level == ACTIVE and partials[k] is not None:
                    active |= 1 << k
                numbers.append(number)
            else:
                numbers.append(arg)
        if not symbols:
            return resolve(op.numpy[0])(*args)
        if chooses and args[1].__class__ is not Symbol and args[2].__class__ is not Symbol:
            family = args[0].family
        known_floats = tape.cell_literals.floats
        for k, arg in enumerate(args):
            if arg.__class__ is not Symbol:
                found = known_floats.get(arg) if arg.__class__ is float and family == F64 else None
                if found is None:
                    data = np.asarray(arg)
                    cells = cells and not data.ndim
                    found = tape.literal(data, family)
                numbers[k] = found
            elif storages[values[arg.number][0]][1] != family:
                numbers[k] = instructions.cast(tape, arg.number, family, self.line)
        if not cells or op.opaque:
            return Symbol(self, instructions.elementwise(tape, op, family, numbers, self.line))
        # All operands have one cell: derivatives of scalar loops consist of such instructions.
        if level == ACTIVE and not active:
            level = VARYING
        recent = tape.code.recent
        if op.commutes and recent and recent[LAST_OUT] == numbers[1] and family == F64:
            numbers.reverse()  # the last result becomes operand a, which a sweep may have in a register
            active = swapped(active)
        pool = 2 * level + family
        offset = tape.pool_cells[pool]
        tape.pool_cells[pool] = offset + 1
        out = values.append_cell(pool, offset)
        stage = MAIN if level else PROLOGUE
        unused = instructions.UNUSED[4 - len(numbers)]
        recent += (2 * code + family, active, stage, out, *numbers, *unused, self.line)
        return Symbol(self, out)

    def where(self, condition, x, y) -> Symbol:
        """Return ``x`` where a condition holds and ``y`` elsewhere."""
        return self.row("where", condition, x, y)

    def power(self, x, y):
        """Return ``x**y``; small integer exponents become products, which never take a logarithm."""
        if y.__class__ is not Symbol and np.ndim(y) == 0:
            exponent = float(y)
            if exponent in POWERS:
                return self.row(POWERS[exponent], x)
            if exponent == 3.0 and self.cubes:
                return self.row("mul", self.row("square", x), x)
            if exponent == 4.0 and self.cubes:
                return self.row("square", self.row("square", x))
        return self.row("power", x, y)

    def times(self, ct, x):
        """Return ``ct * x``, zero where ct is zero whatever x is: a reverse sweep skips such a cotangent."""
        if ct.__class__ is float and ct != 0.0:
            return x if ct == 1.0 else ct * x
        return self.row("weigh", ct, x)

    def still(self, x: Symbol) -> Symbol:
        """Return the same numbers without a derivative."""
        if x.level != ACTIVE:
            return x
        return Symbol(self, instructions.copied(self.tape, x.number, VARYING, self.line))

    # ---- array ops

    def op(self, name: str, *args, **dims) -> Symbol:
        """Return an array op of the table, by name.

        Parameters
        ----------
        dims
            Size codes of letters of the result's signature that the operands do not have.
        """
        op = ARRAY_OPS[name]
        cells = [x for k, x in enumerate(args) if x.__class__ is Symbol and "abc"[k] not in op.index]
        family = F32 if cells and all(x.family == F32 for x in cells) else F64
        numbers = []
        for k, arg in enumerate(args):
            own = F64 if "abc"[k] in op.index else family
            numbers.append(self.in_family(self.symbol(arg, own), own).number)
        return Symbol(self, instructions.array_op(self.tape, op, family, numbers, self.line, dims))

    def sum(self, x: Symbol, axes=(-1,), keepdims: bool = False) -> Symbol:
        """Return the sum over axes."""
        return self.over_axes("sum", x, axes, keepdims)

    def over_axes(self, name: str, x: Symbol, axes, keepdims: bool = False) -> Symbol:
        """Return a reduction ``(n)->()`` over axes, as one instruction, in the order of memory."""
        tape = self.tape
        axes = [axis % x.ndim for axis in axes]
        kept = [k for k in range(x.ndim) if k not in axes]
        strides = x.layout.strides
        order = sorted(axes, key=lambda k: -abs(tape.sizes.value(strides[k])))
        number = x.number
        if [*kept, *order] != [*range(x.ndim)]:
            number = addresses.transposed(tape, number, [*kept, *order])
        if len(order) != 1:
            number = self._merged(number, [1] * len(kept) + [len(order)])
        result = self.op(name, Symbol(self, number))
        return self.expand(result, axes) if keepdims and axes else result

    def _merged(self, number: int, counts) -> int:
        found = addresses.merged(self.tape, number, counts)
        if found is None:
            found = addresses.merged(self.tape, self.dense(Symbol(self, number)).number, counts)
            assert found is not None
        return found

    def max(self, x: Symbol) -> Symbol:
        """Return the largest entry along the last axis, which stays with one entry."""
        self.tape.sizes.guard(x.dims[-1], ">=", 1)
        return self.last(self.op("max", x))

    def matmul(self, a, b) -> Symbol:
        """Return the product of (stacks of) matrices."""
        a, b = self.symbol(a), self.symbol(b)
        if self.strong and not (self._is_finite(a) and self._is_finite(b)):
            return self.sum(self.expand(a, (-1,)) * self.expand(b, (-3,)), (-2,))
        if a.ndim > 2 and b.ndim == 2:  # One product of matrices replaces one for each batch entry.
            rows = Symbol(self, self._merged(a.number, [a.ndim - 1, 1]))
            result = self.op("matmul", rows, b)
            dims = (*a.dims[:-1], result.dims[-1])
            return Symbol(self, addresses.reshaped(self.tape, result.number, dims))
        return self.op("matmul", a, b)

    def _is_finite(self, x: Symbol) -> bool:
        finite = self.row("isfinite", x)
        return self.ask(self.over_axes("all_nonzero", finite, range(x.ndim)) if x.ndim else finite, True)

    def tril(self, x, k: int = 0) -> Symbol:
        return self.op("tril", x, float(k))

    def triu(self, x, k: int = 0) -> Symbol:
        return self.op("triu", x, float(k))

    def eye(self, dim: int, family: int) -> Symbol:
        """Return the identity matrix of a size (a code); the prologue makes it."""
        return self.triu(self.tril(self.broadcast(self.symbol(1.0, family), (dim, dim))))

    # ---- views

    def transposed(self, x: Symbol) -> Symbol:
        """Return matrices transposed."""
        order = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
        return Symbol(self, addresses.transposed(self.tape, x.number, order))

    def expand(self, x: Symbol, axes) -> Symbol:
        """Return x with new axes of one entry at the given places of the result."""
        return Symbol(self, addresses.expanded(self.tape, x.number, tuple(axes)))

    def last(self, x):
        """Return x with a new last axis; a number as it is."""
        if x.__class__ is float:
            return x
        return Symbol(self, addresses.expanded(self.tape, x.number, (-1,)))

    def drop(self, x: Symbol, axes) -> Symbol:
        """Return x without axes that have one entry."""
        return Symbol(self, addresses.dropped(self.tape, x.number, axes))

    def broadcast(self, x: Symbol, dims) -> Symbol:
        """Return x repeated to dimensions (size codes)."""
        if x.dims == tuple(dims):
            return x
        return Symbol(self, addresses.broadcast(self.tape, x.number, dims))

    def flip(self, x: Symbol) -> Symbol:
        """Return x in the other order along its last axis."""
        return Symbol(self, addresses.flipped(self.tape, x.number, x.ndim - 1))

    def ordered(self, x: Symbol, order) -> Symbol:
        """Return a view whose axis k is axis ``order[k]`` of x."""
        return Symbol(self, addresses.transposed(self.tape, x.number, order))

    def split(self, x: Symbol, shape) -> Symbol:
        """Return x with its first axis as axes of the given sizes (plain numbers), whose product it has."""
        return Symbol(self, addresses.split(self.tape, x.number, shape))

    def head(self, x: Symbol) -> Symbol:
        """Return all entries along the last axis but the last one."""
        sizes = self.tape.sizes
        sizes.guard(x.dims[-1], ">=", 1)
        count = sizes.sub(x.dims[-1], 1)
        return Symbol(self, addresses.cut(self.tape, x.number, x.ndim - 1, 0, count))

    def entry(self, x: Symbol, k: int, axis: int) -> Symbol:
        """Return entry k along an axis, without the axis."""
        return self.drop(self.cut(x, k, k + 1, axis), (axis,))

    def is_empty(self, x: Symbol) -> bool:
        """Whether the last axis has no entry; this records a guard."""
        return self.is_none(x.dims[-1])

    def is_none(self, dim: int) -> bool:
        """Whether a size (a code) is 0; this records a guard."""
        sizes = self.tape.sizes
        if sizes.value(dim) == 0:
            sizes.pin(dim)
            return True
        sizes.guard(dim, ">=", 1)
        return False

    def cut(self, x: Symbol, first: int, stop: int, axis: int = -1) -> Symbol:
        """Return the entries from ``first`` to ``stop`` (exclusive; plain numbers) along an axis."""
        self.tape.sizes.guard(x.dims[axis], ">=", stop)
        return Symbol(self, addresses.cut(self.tape, x.number, axis % x.ndim, first, stop - first))

    def dense(self, x: Symbol) -> Symbol:
        """Return x itself if its cells are in row-major order, else a copy."""
        return x if addresses.is_dense(self.tape, x.number) else self.row("copy", x)

    def unpacked(self, x: Symbol, *shapes) -> list[Symbol]:
        """Return the parts of a packed vector (the last axis), in the given shapes (size codes)."""
        parts, first, sizes = [], 0, self.tape.sizes
        for shape in shapes:
            count = reduce(sizes.mul, shape)
            part = Symbol(self, addresses.cut(self.tape, x.number, x.ndim - 1, first, count))
            if len(shape) != 1:
                part = self.dense(part)
                dims = (*x.dims[:-1], *shape)
                part = Symbol(self, addresses.reshaped(self.tape, part.number, dims))
            parts.append(part)
            first = sizes.add(first, count)
        return parts

    # ---- new arrays

    def join(self, *parts) -> Symbol:
        """Return arrays one after another along the last axis; a number is one entry."""
        tape = self.tape
        first = next(part for part in parts if part.__class__ is Symbol)
        lead = first.dims[:-1]
        place, pieces = 0, []
        for part in parts:
            size = part.dims[-1] if part.__class__ is Symbol else 1
            spans = [*((0, dim) for dim in lead), (place, size)]
            pieces.append((spans, self.symbol(part, first.family).number))
            place = tape.sizes.add(place, size)
        return Symbol(self, instructions.pieces(tape, (*lead, place), first.family, pieces, self.line))

    def zeros(self, dims, family: int) -> Symbol:
        """Return an active array of zeros."""
        return Symbol(self, instructions.zeros(self.tape, dims, family, self.line))

    def literal(self, data, family: int) -> Symbol:
        """Return numbers as a literal in a family's cells."""
        return Symbol(self, self.tape.literal(np.asarray(data, FAMILY_DTYPE[family]), family))
