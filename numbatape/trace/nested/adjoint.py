"""The adjoint of a stretch of a tape, appended to the tape.

Instructions are walked backwards; each one's reverse rule is recorded as further instructions. What
comes out is ordinary tape, so that it can be differentiated again.

Cotangents of one-cell values are sums, each a new value. Those of arrays are kept a storage: while all
of them belong to the same view they are added up like scalars; parts of a storage (``x[i]``,
slices) are added in place to a buffer of zeros, by ``add`` instructions whose result is their
first operand. Of that operand they take no adjoint: the buffer's own cells carry it.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from ...errors import UnsupportedOperationError
from ...ops import OPCODE, OPS, Elementwise
from ...ops.table import OPERANDS, UNKNOWN, ArrayOp
from ...tape.instruction import MAIN, NONE
from ...tape.tape import ACTIVE, CONSTANT, FAMILY_DTYPE, POOLS
from ..array import TracedArray, new_traced
from ..primitives import (
    broadcast_to,
    contiguous,
    dims_of,
    expand,
    value_of,
    view,
)
from ..trace import Trace
from ..unknown import unknown_derivative
from . import calls, spectral  # noqa: F401  (they register themselves)
from .formulas import condition_function, partial_function, select
from .marks import strong_product, weigh
from .pullbacks import PULLBACKS

ADD = OPCODE["add"]
SIDE = re.compile(r"(1\.0) if (.+) else 0\.0|([xy]) if \3 != 0\.0 else 0\.0")


@functools.cache
def names_in(formula: str) -> frozenset[str]:
    """Return which of x, y, w, z a formula reads."""
    return frozenset(re.findall(r"\b[xywz]\b", formula))


class Buffer:
    """The cotangent of a storage, while and after it is added up."""

    def __init__(self):
        self.pending: list[tuple] = []  # (offset code, dims, strides, cotangent)
        self.storage: int | None = None
        self.value: np.ndarray | None = None


class Adjoint:
    """One backward walk.

    A cotangent is a traced array, or a number that stands for an array of it.

    Parameters
    ----------
    trace
        Whose tape is walked and written to.
    strong
        Whether a zero cotangent adds nothing whatever the partial is (0 * inf = 0).
    either
        Whether a zero partial adds nothing either, whatever the cotangent is.
    """

    def __init__(self, trace: Trace, strong: bool = True, either: bool = False):
        self.trace = trace
        self.tape = trace.tape
        self.strong = strong
        self.either = either
        self._scalars: dict[int, object] = {}
        self._buffers: dict[int, Buffer] = {}

    # ---- values on the tape

    def _key(self, value: int) -> int:
        """Name what carries a value's cotangent: a storage, or (negative) a cell of a pool."""
        storage, offset, _ = self.tape.values[value]
        return storage if storage >= len(POOLS) else -1 - (offset * len(POOLS) + storage)

    def _traced(self, value: int) -> TracedArray:
        """Return an operand as a traced array."""
        trace, storage = self.trace, self.tape.values[value][0]
        _, family, level = self.tape.storages[storage]
        if storage < len(POOLS):
            level, family = POOLS[storage]
        known = trace.value_at(value)
        # A copy: what the function writes into its array later must not move this one along.
        known = known.copy() if isinstance(known, np.ndarray) else known
        return new_traced(trace, known, value, level, family)

    # ---- the walk

    def run(self, start: int, stop: int, targets, seeds) -> list:
        """Return the cotangents of ``targets``, None for one that nothing depends on.

        Parameters
        ----------
        start, stop
            The instructions that computed the outputs from the targets.
        targets
            Value numbers.
        seeds
            ``(value number, cotangent)`` pairs of outputs.
        """
        relevant = self._relevant(start, stop, targets)
        for output, cotangent in seeds:
            storage = self.tape.values[output][0]
            family = self.tape.storages[storage][1]
            self._add(output, self._lifted(cotangent, family))
        trace, code = self.trace, self.tape.code
        around = trace.differentiating
        try:
            for k, needed in reversed(relevant):
                trace.differentiating = code[k][8]
                self._pull(code[k], needed)
        finally:
            trace.differentiating = around
        return [self._whole(target) for target in targets]

    def _whole(self, value: int):
        """Return the cotangent of a value as an array of its dimensions."""
        ct, dims = self._collect(value), self._dims(value)
        if ct is None or type(ct) is TracedArray or not dims:
            return ct
        return self._spread(ct, dims, self.tape.storages[self.tape.values[value][0]][1])

    def _relevant(self, start: int, stop: int, targets) -> list[tuple[int, int]]:
        """Return (instruction, operands that lead to a target) of all that depends on the targets."""
        key = self._key
        depends = set(map(key, targets))
        found = []
        for k, row in enumerate(self.tape.code[start:stop], start):
            active = row[1]
            if not active:
                continue
            needed = active & 1 if active & 1 and key(row[4]) in depends else 0
            if active & 2 and key(row[5]) in depends:
                needed |= 2
            if active & 4 and key(row[6]) in depends:
                needed |= 4
            if needed:
                depends.add(key(row[3]))
                found.append((k, needed))
        return found

    def _pull(self, row, needed: int) -> None:
        op, _, _, out, a, b, c, _, _ = row
        ct = self._collect(out)
        if ct is None:
            return
        numbers = [n for n in (a, b, c) if n != NONE]
        rule = OPS[op >> 1]
        if isinstance(rule, Elementwise):
            self._pull_elementwise(rule, ct, out, numbers, needed)
            return
        assert isinstance(rule, ArrayOp)
        pullback = PULLBACKS.get(rule.name)
        if pullback is None:
            raise UnsupportedOperationError(
                f"{rule.name} has no derivative of this order yet ({self.tape.line_table()[row[8]]})"
            )
        operands = [self._traced(n) for n in numbers]
        if type(ct) is not TracedArray:
            number = rule.name == "sum" and np.ndim(ct) == 0
            ct = float(ct) if number else self._spread(ct, self._dims(out), op & 1)
        need = tuple(bool(needed >> j & 1) for j in range(len(numbers)))
        start = len(self.tape.code)
        parts = pullback(ct, self._traced(out), operands, need)
        if rule.name != "call":  # a rule of the user's may fail where its value does not
            self.tape.note_spare(start)
        for number, part, wanted in zip(numbers, parts, need, strict=False):
            if wanted and part is not None:
                self._add(number, part)

    def _pull_elementwise(self, op: Elementwise, ct, out: int, numbers, needed: int) -> None:
        places = dict(zip(OPERANDS, numbers, strict=False)) | {"z": out}
        dims = self._dims(out)
        for j, number in enumerate(numbers):
            if needed >> j & 1:
                part = self._product(op, j, ct, places)
                if self._dims(number) != dims:  # a sum over what was broadcast follows
                    part = self._spread(part, dims, self.tape.storages[self.tape.values[out][0]][1])
                self._add(number, part)

    def _known(self, formula: str, places: dict[str, int]) -> list:
        """Return what a formula reads of x, y, w, z, None for the rest.

        A literal is given as a number, so that a formula's cases are decided here and not on the tape.
        """
        used = names_in(formula)
        return [self._number_or_traced(places[x]) if x in used else None for x in (*OPERANDS, "z")]

    def _number_or_traced(self, value: int):
        number = self.tape.numbers.get(value)
        return self._traced(value) if number is None else number

    def _slope(self, op: Elementwise, operand: int, places: dict[str, int]):
        """Return a row's partial, recorded once however often its instruction is pulled back."""
        key = (places["z"], operand)
        slope = self.trace.slopes.get(key)
        if slope is None:
            partial = op.differentiable_partial(operand)
            assert partial is not None
            slope = partial_function(op.name, operand)(*self._known(partial, places))
            self.trace.slopes[key] = slope
        return slope

    def _product(self, op: Elementwise, operand: int, ct, places: dict[str, int]):
        """Return ``ct`` times the row's partial."""
        partial = op.partials[operand]
        assert partial is not None
        if partial == UNKNOWN:
            raise unknown_derivative(op, self.tape.line_table()[self.trace.differentiating])
        if partial == "1.0":
            return ct
        if partial == "-1.0":
            return -ct
        side = SIDE.fullmatch(partial)
        if side and side[1]:
            return select(condition_function(side[2])(*self._known(side[2], places)), ct, 0.0)
        if side:
            return strong_product(ct, self._traced(places[side[3]]))
        slope = self._slope(op, operand, places)
        if type(slope) is not TracedArray and np.ndim(slope) == 0:
            slope = float(slope)  # of literals
        if ct.__class__ is float and ct == 1.0:
            return slope
        if slope.__class__ is float and np.isfinite(slope):
            return ct * slope
        if self.either:
            return strong_product(ct, slope)
        if self.strong or op.name == "weigh":
            return weigh(ct, slope)
        return ct * slope

    def _lifted(self, ct, family: int):
        """Return a cotangent that may be a plain array as a traced one, or a number."""
        if type(ct) is TracedArray or (np.ndim(ct) == 0 and not isinstance(ct, np.ndarray)):
            return ct if type(ct) is TracedArray else float(ct)
        data = np.asarray(ct, FAMILY_DTYPE[family])
        return new_traced(self.trace, data, self.trace.literal(data, family), CONSTANT, family)

    def _dims(self, value: int) -> tuple[int, ...]:
        return self.tape.layouts[self.tape.values[value][2]].dims

    def _spread(self, ct, dims, family: int) -> TracedArray:
        """Return a cotangent as a traced array of the given dimensions."""
        if type(ct) is not TracedArray:
            data = np.asarray(ct, FAMILY_DTYPE[family])[()]
            ct = new_traced(self.trace, data, self.trace.literal(data, family), CONSTANT, family)
        shape = tuple(map(self.tape.sizes.value, dims))
        return ct if dims_of(ct) == dims else broadcast_to(ct, shape, dims)

    # ---- adding up

    def _add(self, value: int, ct) -> None:
        """Add a cotangent to those of a value; sums over what was broadcast."""
        storage, offset, layout = self.tape.values[value]
        dims, strides = self.tape.layouts[layout].dims, self.tape.layouts[layout].strides
        family = self.tape.storages[storage][1] if storage >= len(POOLS) else POOLS[storage][1]
        ct = self._in_family(ct, family)
        size = self.tape.sizes.value
        repeated = [
            axis for axis, s in enumerate(strides) if size(s) == 0 and size(dims[axis]) != 1
        ]  # a broadcast view: its entries are one cell
        if repeated:  # what stands for several entries counts as often as the cell repeats
            own = dims_of(ct) if type(ct) is TracedArray else ()
            wide = [1] * (len(dims) - len(own)) + list(own)
            for axis in repeated:
                place = axis - len(dims)
                wide[place] = dims[axis] if size(wide[place]) == 1 else wide[place]
            ct = self._spread(ct, tuple(wide), family)
        if storage < len(POOLS):
            key = self._key(value)
            known = self._scalars.get(key)
            ct = self._fit(ct, ())
            self._scalars[key] = ct if known is None else known + ct
            return
        dims = tuple(1 if axis in repeated else dim for axis, dim in enumerate(dims))
        buffer = self._buffers.setdefault(storage, Buffer())
        buffer.pending.append((offset, dims, strides, self._fit(ct, dims)))

    def _in_family(self, ct, family: int):
        if type(ct) is TracedArray and ct._family != family:
            return np.astype(ct, FAMILY_DTYPE[family])
        return ct

    def _fit(self, ct, dims):
        """Return a cotangent in the given dimensions: summed, or repeated, where they differ."""
        if type(ct) is not TracedArray:
            return ct  # a number: the same in every entry
        size = self.tape.sizes.value
        own = dims_of(ct)
        if own == dims:
            return ct
        lead = len(own) - len(dims)
        summed = [*range(lead)]
        for axis, dim in enumerate(dims):
            if lead + axis >= 0 and size(dim) == 1 and size(own[lead + axis]) != 1:
                summed.append(lead + axis)
        if summed:
            ct = np.sum(ct, axis=tuple(summed), keepdims=True)
        if lead > 0:
            ct = _drop_lead(ct, lead)
        elif lead < 0:
            ct = expand(ct, tuple(range(-lead)))
        shape = tuple(map(size, dims))
        return ct if ct.shape == shape else broadcast_to(ct, shape, dims)

    def _collect(self, value: int):
        """Return the cotangent of a value as it stands, or None."""
        storage, offset, layout = self.tape.values[value]
        if storage < len(POOLS):
            return self._scalars.get(self._key(value))
        buffer = self._buffers.get(storage)
        if buffer is None:
            return None
        its = self.tape.layouts[layout]
        place = (offset, its.dims, its.strides)
        if buffer.storage is None:
            first = buffer.pending[0][:3]
            if all(part[:3] == first for part in buffer.pending):
                total = buffer.pending[0][3]
                for part in buffer.pending[1:]:
                    total = total + part[3]
                buffer.pending = [(*first, total)]
                if first == place:
                    return total
                if self._is_whole(storage, *first) and type(total) is TracedArray:
                    return self._part(buffer, total, offset, its)
            self._allocate(buffer, storage)
        for part in buffer.pending:
            self._accumulate(buffer, *part)
        buffer.pending = []
        assert buffer.storage is not None and buffer.value is not None
        number = self.tape.view(buffer.storage, offset, its.dims, its.strides)
        shown = buffer.value[self._cells(offset, its.dims, its.strides)]
        return new_traced(
            self.trace, shown if shown.ndim else shown[()], number, ACTIVE, self._family(storage)
        )

    def _is_whole(self, storage: int, offset, dims, strides) -> bool:
        """Whether a view is all of a storage, in order."""
        expected, size = self.tape.contiguous_strides(dims)
        return offset == 0 and strides == expected and size == self.tape.storages[storage][0]

    def _part(self, buffer: Buffer, total: TracedArray, offset, its) -> TracedArray:
        """Return a part of a cotangent that belongs to a whole storage."""
        total = contiguous(total)
        first = buffer.pending[0]
        buffer.pending = [(*first[:3], total)]
        flat = np.ravel(value_of(total))[self._cells(offset, its.dims, its.strides)]
        start = self.tape.sizes.add(self.tape.values[total._id][1], offset)
        return view(total, flat[()], its.dims, its.strides, start)

    def _family(self, storage: int) -> int:
        return self.tape.storages[storage][1]

    def _allocate(self, buffer: Buffer, storage: int) -> None:
        """Give a storage's cotangent cells of its own, zero at first."""
        tape, family = self.tape, self._family(storage)
        size = tape.storages[storage][0]
        number = tape.array((size,), family, ACTIVE)
        buffer.storage = tape.values[number][0]
        buffer.value = np.zeros(tape.sizes.value(size), FAMILY_DTYPE[family])
        zero = tape.literal(np.float64(0.0), family)
        # In the main part, like all that is added: the prologue does not run in each sweep.
        tape.emit(2 * OPCODE["fill"] + family, 0, MAIN, number, zero, line=self.trace.line())

    def _cells(self, offset, dims, strides) -> np.ndarray:
        size = self.tape.sizes.value
        cells = np.array(size(offset))
        for dim, stride in zip(dims, strides, strict=True):
            cells = cells[..., None] + size(stride) * np.arange(size(dim))
        return cells

    def _accumulate(self, buffer: Buffer, offset, dims, strides, ct) -> None:
        tape = self.tape
        assert buffer.storage is not None and buffer.value is not None
        family = self._family(buffer.storage)
        target = tape.view(buffer.storage, offset, dims, strides)
        np.add.at(buffer.value, self._cells(offset, dims, strides), value_of(ct))
        if type(ct) is TracedArray:
            number, active = ct._id, 2 if ct._level == ACTIVE else 0
        else:
            number, active = self.trace.literal(ct, family), 0
        tape.emit(2 * ADD + family, active, MAIN, target, target, number, line=self.trace.line())


def _drop_lead(x: TracedArray, count: int) -> TracedArray:
    """Return x without its first axes, which have one entry."""
    from ..functions.common import drop_axes

    return drop_axes(x, tuple(range(count)))
