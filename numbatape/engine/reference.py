"""The reference interpreter: a tape instruction by instruction with NumPy's own functions.

It shares no code with the kernels: values are ndarrays that alias as the tape's addresses do, each
result comes from the op's NumPy function. It is the tests' oracle, and the forward sweep of ``debug_mode``.
"""

from __future__ import annotations

import numpy as np

from ..errors import DebugError
from ..ops import OPS, ArrayOp, oracle
from ..ops.oracles import needs_shape
from ..tape import Tape
from ..tape.loop import CARRY, SLICE, STACK, SUM, Branches, Loop
from ..tape.tape import FAMILY_DTYPE
from .placement import place_storages


class Reference:
    """A tape's values at given sizes, as ndarrays."""

    def __init__(self, tape: Tape, dimensions: tuple[int, ...]):
        self.tape = tape
        sizes = tape.sizes.evaluate(dimensions)
        self._sizes = sizes
        bases, cells, _ = place_storages(tape, np.array(sizes, np.int64))
        self._bases = bases
        self._cells = [np.full(n, np.nan, FAMILY_DTYPE[f]) for f, n in enumerate(cells)]
        for literal in tape.literals:
            family = int(tape.storages["family"][literal.storage])
            first = int(bases[literal.storage]) + literal.offset
            self._cells[family][first : first + literal.data.size] = literal.data

    def _size(self, code: int) -> int:
        return int(code if code >= 0 else self._sizes[-code - 1])

    def view(self, value: int) -> np.ndarray:
        """Return a value as a writable ndarray that aliases as the tape says."""
        storage, offset, layout = self.tape.values[value].item()
        family = int(self.tape.storages["family"][storage])
        shape = tuple(map(self._size, self.tape.layouts[layout].dims))
        if 0 in shape:
            return np.zeros(shape, FAMILY_DTYPE[family])
        itemsize = FAMILY_DTYPE[family].itemsize
        strides = tuple(self._size(s) * itemsize for s in self.tape.layouts[layout].strides)
        first = (int(self._bases[storage]) + self._size(offset)) * itemsize
        return np.ndarray(shape, FAMILY_DTYPE[family], self._cells[family], first, strides)

    def run(self, inputs, check=None) -> list[np.ndarray]:
        """Return the outputs for given inputs.

        Parameters
        ----------
        inputs
            One array per input slot.
        check
            Called as ``check(instruction, result)`` after each instruction.

        Raises
        ------
        DebugError
            If a guard does not hold, or a result has not the shape that the tape says.
        """
        for slot, data in zip(self.tape.inputs, inputs, strict=True):
            self.view(slot.value)[...] = data
        for k, row in enumerate(self.tape.instructions()):
            operands = [self.view(value) for value in row.operands]
            if row.is_guard:
                if operands[0][()] != operands[1][()]:
                    raise _GuardFails(f"instruction {k}: the guard does not hold ({self.tape.line_of(k)})")
                continue
            op = OPS[row.row]
            target = self.view(row.out)
            with np.errstate(all="ignore"):
                if op.calls:
                    call = self.tape.calls[int(np.asarray(operands[2]).flat[0])]
                    if isinstance(call, (Loop, Branches)):
                        result = loop_result(call, self._size, *operands[:2], target.shape)
                    else:
                        result = called(self.tape, self._size, operands, target.shape)
                else:
                    result = oracle(op)(*operands, *([target.shape] if needs_shape(op) else []))
            if isinstance(op, ArrayOp) or op.casts:
                result = np.asarray(result)
            if np.broadcast_shapes(np.shape(result), target.shape) != target.shape:
                raise DebugError(
                    f"instruction {k}, {self.tape.name_of(k)}: shape {np.shape(result)} does not fit "
                    f"{target.shape} ({self.tape.line_of(k)})"
                )
            target[...] = result
            if check is not None:
                check(k, target)
        return [self.view(value).copy() for value in self.tape.outputs]


def loop_result(loop: Loop | Branches, size, first, rest, shape) -> np.ndarray:
    """Return the result of a loop, or of branches, whose body is interpreted once a step.

    Parameters
    ----------
    size
        Returns the value of a size code of the tape that the loop stands on.
    first, rest
        The operands, which may have batch dimensions.
    shape
        Of the result.
    """
    result = np.empty(shape)
    firsts, rests = (np.broadcast_to(x, (*shape[:-1], x.shape[-1])) for x in (first, rest))
    for k in np.ndindex(*shape[:-1]):
        one = loop
        result[k] = 0.0
        if isinstance(one, Branches):
            if one.index is None:
                _run_first_that_holds(one, size, (firsts[k], rests[k]), result[k])
                continue
            index = rests[k][size(one.index)]
            one = one.loops[int(min(max(index, 0.0), len(one.loops) - 1.0))]
        _run_loop(one, size, (firsts[k], rests[k]), result[k])
    return result


class _GuardFails(DebugError):
    """A guard does not hold."""


def _run_first_that_holds(branches: Branches, size, operands, result) -> None:
    for number, loop in enumerate(branches.loops):
        try:
            _run_loop(loop, size, operands, result)
        except _GuardFails:
            if number + 1 == len(branches.loops):
                raise
        else:
            result[size(branches.chosen)] = number
            return


def _run_loop(loop: Loop, size, operands, result) -> None:
    """Run a loop step by step in Python, each body by a `Reference` of its own, and write its result."""
    dimensions = tuple(map(size, loop.dimensions))

    def part(port, row=0):
        count = size(port.count)
        start = size(port.start) + row * count
        return np.array(operands[port.operand][start : start + count])

    def run(tape, parts):
        body = Reference(tape, dimensions)
        shapes = [body.view(slot.value).shape for slot in tape.inputs]
        outputs = body.run([cells.reshape(shape) for cells, shape in zip(parts, shapes, strict=True)])
        return [output.reshape(-1) for output in outputs]

    def goes_on():
        parts = [current[port.start] if port.role == CARRY else part(port) for port in loop.test_ports]
        return bool(run(loop.test, parts)[0][0])

    current = [np.zeros(0) if port.role == SLICE else part(port) for port in loop.ports]
    length = size(loop.length)
    if loop.steps is not None:
        length = min(int(operands[1][size(loop.steps)]), length)
    step, more = 0, False
    while True:
        more = loop.test is not None and goes_on()
        if step >= length or (loop.test is not None and not more):
            break
        row = length - 1 - step if loop.reverse else step
        for k, port in enumerate(loop.ports):
            if port.role == SLICE:
                current[k] = part(port, row)
        for k, start in zip(loop.carries, loop.history or (), strict=False):
            _put(result, size(start), row, current[k])
        outputs = run(loop.body, current)
        for out, output in zip(loop.outs, outputs, strict=True):
            if out.role == STACK:
                _put(result, size(out.start), row, output)
            else:
                current[out.port] = output
        step += 1
    for out in loop.outs:
        if out.role in (CARRY, SUM):
            _put(result, size(out.start), 0, current[out.port])
    if loop.test is not None:
        result[size(loop.counted) : size(loop.counted) + 2] = step, more


def _put(result: np.ndarray, start: int, row: int, cells: np.ndarray) -> None:
    start += row * len(cells)
    result[start : start + len(cells)] = cells


def called(tape, size, operands, shape) -> np.ndarray:
    """Return a call's result by an instance of its own, without kernels."""
    first, rest, number = operands
    call = tape.calls[int(np.asarray(number).flat[0])]
    result = np.empty(shape, FAMILY_DTYPE[call.family])
    batch = shape[:-1]
    firsts, rests = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (first, rest))
    for k in np.ndindex(*batch):
        call.place(size, result[k], firsts[k], rests[k], None, None).forward()
    return result
