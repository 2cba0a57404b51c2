"""Tapes with something changed at random, and what runs them so that a reach outside is noticed.

``python -m tests.engine.mutations COUNT [SEED]`` runs many in processes of their own, compiled kernels
between pages that nothing may touch; a crash is reported with the seed that repeats it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import mmap
import os
import signal
import sys

import numpy as np

import numbatape as nt
from numbatape.derive.lanes import Lanes, lanes
from numbatape.engine import Workspace, kernels, make_plan, workspace
from numbatape.engine.checked import Cells, CheckedWorkspace
from numbatape.errors import VerificationError
from numbatape.ops import OPS, ArrayOp, status
from numbatape.ops.table import UNKNOWN
from numbatape.recording.record import InputLeaf, record
from numbatape.tape.instruction import GUARD, NONE
from numbatape.tape.tape import ACTIVE, CONSTANT, F32, F64, FAMILY_DTYPE
from numbatape.trace.primitives import array_instruction, elementwise

LEVEL = {"x": ACTIVE, "c": CONSTANT}


def traced(function, *arrays, levels=""):
    """Return the tape of a function; ``levels`` says "x" (active) or "c" (constant) an argument."""
    levels = levels or "x" * len(arrays)
    leaves = [InputLeaf(a, LEVEL[k]) for a, k in zip(arrays, levels, strict=True)]
    return record(function, leaves, lambda args: (tuple(args), {})).tape


def dimensions(*arrays):
    return tuple(n for a in arrays for n in np.shape(a))


# ---- programs


def scalars(x):
    total = 0.0
    for i in range(4):
        total = total + np.sin(x[i]) * x[i + 1] - np.where(x[i] > 0, x[i], 2.0)
    return total if total > -1e9 else -total


def vectors(x, y):
    z = np.exp(-(x**2)) / (1 + y[:, None]) + x.T[::-1, 0]
    return np.sum(np.maximum(z, 0.5)) + np.sum(z[:, 1:-1])


def steps_in_place(x):
    u = np.outer(x, x)
    u[1:-1, 1:] += 0.1 * (u[2:, 1:] - 2 * u[1:-1, :-1] + u[:-2, 1:])
    return np.sum(u**2)


def gathers(x, c):
    chosen = x[(c * 2).astype(int)]
    table = np.stack([x, 2 * x], axis=1)[np.array([2, 0, 0, 1])]
    return np.sum(chosen) + np.sum(table * np.sort(x)[:2]) + np.sum(np.tril(np.outer(x, x)))


def algebra(x, y):
    covariance = x @ x.T + np.eye(3)
    factor = np.linalg.cholesky(covariance)
    solved = np.linalg.solve(covariance, y)
    return np.sum(factor) + np.sum(solved) + np.linalg.det(x) + np.linalg.slogdet(covariance)[1]


def reductions(x):
    return np.sum(np.prod(x, axis=0)) + np.sum(np.cumsum(x, axis=1)) + np.max(x) + np.sum(np.sort(x, axis=0))


def mixed(x, y):
    return np.sum(x * y) + np.sum(np.concatenate([x, np.float32(2) * x]))


def spectra(x):
    values, vectors = np.linalg.eigh(x @ x.T)
    q, r = np.linalg.qr(x)
    return np.sum(values * vectors[0]) + np.linalg.svd(x, full_matrices=False)[1][0] + np.sum(q) + np.sum(r)


def transforms(x):
    z = np.fft.fft(x)  # Bluestein's algorithm for 7
    return np.sum(np.real(z * np.conj(z))) + np.sum(np.imag(np.fft.fft(x[:6])))


_square = nt.primitive(lambda x, y: x * x + y, pullback=lambda ybar, z, x, y: (2 * x * ybar, ybar))
_both = nt.primitive(lambda x: (np.sum(x), x[:2]), pullback=lambda ybar, y, x: (ybar[0] + 0.0 * x,))


def rules(x):
    total, ends = _both(_square(x, x[::-1].copy()))
    return total + np.sum(_square(ends, ends))


RNG = np.random.default_rng(1)
PROGRAMS = {
    "scalars": (scalars, (RNG.normal(size=5),), "x"),
    "vectors": (vectors, (RNG.normal(size=(3, 3)), RNG.uniform(size=3)), "xx"),
    "steps in place": (steps_in_place, (RNG.normal(size=5),), "x"),
    "gathers": (gathers, (RNG.normal(size=3), np.array([1.0, 0.0, 1.0])), "xc"),
    "algebra": (algebra, (RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2))), "xx"),
    "reductions": (reductions, (RNG.normal(size=(2, 3)),), "x"),
    "mixed": (mixed, (RNG.normal(size=3).astype(np.float32), RNG.normal(size=3)), "xx"),
    "spectra": (spectra, (RNG.normal(size=(3, 2)),), "x"),
    "transforms": (transforms, (RNG.normal(size=7),), "x"),
    "rules": (rules, (RNG.normal(size=3),), "x"),
}


def op_cases():
    """Yield (name, tape, arrays) of a tape an op, dtype and number of dimensions."""
    rng = np.random.default_rng(2)
    for op, dtype in itertools.product(OPS, (np.float64, np.float32)):
        if isinstance(op, ArrayOp):
            if not op.cases:
                continue
            shapes = next(s for s in op.cases if all(0 not in shape for shape in s))
            given = op.make(rng, shapes) if op.make else [rng.normal(size=shape) for shape in shapes]
            index = [name in op.index for name in "abc"]
            arrays = [
                np.asarray(x, np.float64 if fixed else dtype) for x, fixed in zip(given, index, strict=False)
            ]
            levels = "".join("c" if fixed else "x" for fixed in index[: len(arrays)])

            def function(*args, op=op, arrays=arrays):
                return array_instruction(op, args, _value(op, arrays))

        elif op.name == "cast":
            continue  # in `mixed`
        else:
            shapes = [(2, 3), (3,), ()][: op.arity]
            arrays = [np.asarray(rng.uniform(0.2, 0.8, shape), dtype) for shape in shapes]
            orders = ["xyw"[k] in op.opaque for k in range(op.arity)]
            arrays = [np.ones_like(x) if order else x for x, order in zip(arrays, orders, strict=True)]
            levels = "".join(
                "c" if order or partial == UNKNOWN else "x"
                for order, partial in zip(orders, op.partials, strict=True)
            )

            def function(*args, op=op, arrays=arrays):
                return elementwise(op, *args, value=_value(op, arrays))

        yield f"{op.name} {np.dtype(dtype).name}", function, arrays, levels


def _value(op, given):
    from numbatape.ops import oracle

    with np.errstate(all="ignore"):
        return np.asarray(oracle(op)(*given))


def tapes():
    """Return (name, tape, arguments) of all that is mutated."""
    found = []
    for name, (function, arrays, levels) in PROGRAMS.items():
        tape = traced(function, *arrays, levels=levels)
        found.append((name, tape, arrays))
        if name != "mixed":
            laned = lanes(tape, Lanes(frozenset({0})), dimensions(*arrays))
            found.append((f"{name} in lanes", laned, (np.stack([arrays[0]] * 3), *arrays[1:])))
    for name, function, arrays, levels in op_cases():
        found.append((name, traced(function, *arrays, levels=levels), tuple(arrays)))
    return found


# ---- mutations


def other_number(rng, number):
    """A number near another one, or one that is often wrong."""
    near = [number + 1, number - 1, number + 8, -number, 2 * number]
    rare = [0, -1, 1, 3, 2**15, 2**31 - 1, -(2**31), int(rng.integers(-9, 40))]
    if rng.random() < 0.1:  # what no word of a table holds
        rare = near = [2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**100]
    return [*near, *rare][int(rng.integers(len(near) + len(rare)))]


def mutate_cell(rng, array, fields):
    """Return a copy of a structured array with one number changed."""
    copy = array.copy()
    if not len(copy):
        return copy
    k, field = int(rng.integers(len(copy))), fields[int(rng.integers(len(fields)))]
    new = other_number(rng, int(copy[field][k]))
    if rng.random() < 0.4:
        new = int(copy[field][int(rng.integers(len(copy)))])  # another row's number: plausible
    kind = np.iinfo(copy.dtype[field])
    copy[field][k] = min(max(int(new), int(kind.min)), int(kind.max))
    return copy


def mutate_codes(rng, codes):
    codes = list(codes)
    if codes:
        k = int(rng.integers(len(codes)))
        codes[k] = other_number(rng, codes[k])
    return tuple(codes)


def _with_one(rng, items: tuple, change) -> tuple:
    """Return items of which one is changed."""
    if not items:
        return items
    k = int(rng.integers(len(items)))
    return (*items[:k], change(items[k]), *items[k + 1 :])


def mutate_layout(rng, tape):
    field = "dims" if rng.random() < 0.5 else "strides"

    def change(layout):
        return layout._replace(**{field: mutate_codes(rng, getattr(layout, field))})

    return dataclasses.replace(tape, layouts=_with_one(rng, tape.layouts, change))


def mutate_sizes(rng, tape):
    sizes = tape.sizes
    if sizes.guards and rng.random() < 0.2:
        side = str(rng.choice(["left", "right"]))

        def change(guard):
            return dataclasses.replace(guard, **{side: other_number(rng, getattr(guard, side))})

        return dataclasses.replace(
            tape, sizes=dataclasses.replace(sizes, guards=_with_one(rng, sizes.guards, change))
        )
    rows = _with_one(rng, tuple(sizes.rows), lambda row: mutate_codes(rng, row))
    return dataclasses.replace(tape, sizes=dataclasses.replace(sizes, rows=rows))


def mutate_input(rng, tape):
    field = str(rng.choice(["value", "dims", "level", "family"]))

    def change(slot):
        old = getattr(slot, field)
        new = mutate_codes(rng, old) if field == "dims" else other_number(rng, old)
        return slot._replace(**{field: new})

    return dataclasses.replace(tape, inputs=_with_one(rng, tape.inputs, change))


def mutate_output(rng, tape):
    number = other_number(rng, int(rng.integers(-2, len(tape.values) + 2)))
    return dataclasses.replace(tape, outputs=_with_one(rng, tape.outputs, lambda _: number))


def mutate_literal(rng, tape):
    field = str(rng.choice(["storage", "offset", "data", "data", "data"]))

    def change(literal):
        if field != "data":
            return literal._replace(**{field: other_number(rng, getattr(literal, field))})
        data = np.array(literal.data)
        if data.size:
            place = int(rng.integers(data.size))
            near = float(data.flat[place]) + rng.choice([1.0, -1.0, 0.5])
            data.flat[place] = rng.choice([near, -1.0, 0.0, 2.0, 3.0, 1e9, -1e18, 1e30, np.nan, np.inf])
        return literal._replace(data=data)

    return dataclasses.replace(tape, literals=_with_one(rng, tape.literals, change))


def mutate_guard(rng, tape):
    def change(guard):
        field = str(rng.choice(["outcome", "position"]))
        return guard._replace(**{field: other_number(rng, getattr(guard, field))})

    return dataclasses.replace(tape, guards=_with_one(rng, tape.guards, change))


def mutate_counts(rng, tape):
    kind = int(rng.integers(4))
    if kind == 0:
        return dataclasses.replace(tape, forward=not tape.forward)
    if kind == 1:
        return dataclasses.replace(tape, calls=tape.calls[1:])
    field = ("prologue", "uniform")[kind - 2]
    return dataclasses.replace(tape, **{field: other_number(rng, len(tape) // 2)})


def mutate_code(rng, tape):
    fields = ("op", "active", "stage", "out", "a", "b", "c", "aux")
    return dataclasses.replace(tape, code=mutate_cell(rng, tape.code, fields))


def mutate_values(rng, tape):
    return dataclasses.replace(tape, values=mutate_cell(rng, tape.values, tape.values.dtype.names))


def mutate_storages(rng, tape):
    return dataclasses.replace(tape, storages=mutate_cell(rng, tape.storages, tape.storages.dtype.names))


RARE = (mutate_storages, mutate_layout, mutate_sizes, mutate_input, mutate_output, mutate_guard)
MUTATIONS = (*[mutate_code] * 4, *[mutate_values] * 2, *[mutate_literal] * 2, *RARE, mutate_counts)


def mutate_tape(rng, tape):
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        tape = MUTATIONS[int(rng.integers(len(MUTATIONS)))](rng, tape)
    return tape


# ---- checked runs


class OutOfSteps(Exception):
    """A mutated size makes a loop long: what it reached so far was in range."""


class OwnCells(Cells):
    """Cells of which only those may be touched that the instruction under way names storages of."""

    __slots__ = ("left", "ranges")

    def _place(self, index):
        place = super()._place(index)
        self.left[0] -= 1
        if self.left[0] < 0:
            raise OutOfSteps
        if not any(first <= place + self.first < end for first, end in self.ranges):
            raise IndexError(f"cell {index} belongs to no operand of the instruction")
        return place


class StrictWorkspace(CheckedWorkspace):
    """Interpreted sweeps, instruction by instruction, in which each touches its own operands alone."""

    def __init__(self, plan, steps):
        super().__init__(plan)
        self._left = [steps]
        for place, word in enumerate(self.words):
            if type(word) is Cells and word.data.dtype.kind == "f" and word.data is not self.seed:
                self.words[place] = own = OwnCells(word.data, word.first)
                own.left, own.ranges = self._left, [(0, 2**31)]
        self._own = [word for word in self.words if type(word) is OwnCells]

    def _allow(self, k):
        plan, tape = self.plan, self.plan.tape
        row = tape.code[k]
        fields = ("a", "b") if row["op"] == GUARD else ("out", "a", "b", "c", "aux")
        named = [int(tape.values["storage"][row[name]]) for name in fields if row[name] != NONE]
        ranges = {F64: [], F32: []}
        for storage in named:
            first = int(plan.bases[storage])
            size = plan.size(int(tape.storages["size"][storage]))
            ranges[int(tape.storages["family"][storage])].append((first, first + size))
        for own in self._own:
            own.ranges = ranges[F32 if own.data.dtype == FAMILY_DTYPE[F32] else F64]

    def run(self):
        """Sweep forward and back; True if both came to their end."""
        plan = self.plan
        for k in range(len(plan.tape)):
            self._allow(k)
            if self.step(k) != status.DONE:
                return False
        for g in self.g:
            g[...] = 1.0
        if not plan.tape.forward:
            for k in range(len(plan.tape) - 1, plan.prologue - 1, -1):
                self._allow(k)
                self.step_back(k)
        return True


def arguments(plan, rng, arrays):
    """Yield what to write into each input: the program's argument, or numbers of another shape."""
    for k, slot in enumerate(plan.tape.inputs):
        shape = plan.shape(slot.value)
        fits = k < len(arrays) and np.shape(arrays[k]) == shape
        yield slot.value, arrays[k] if fits else rng.choice([rng.normal(), 0.0, 1.0, 2.0], shape)


def run_checked(plan, rng, arrays, steps=1500):
    """Run both sweeps, every access checked; True if they came to their end."""
    if max(plan.cells) > 10**5:
        return False
    space = StrictWorkspace(plan, steps)
    for value, data in arguments(plan, rng, arrays):
        space.set(value, data)
    try:
        return space.run()
    except OutOfSteps:
        return False


# ---- compiled runs between pages that nothing may touch


class Fenced:
    """Memory that ends at a page which may not be touched, and starts behind another such page."""

    def __init__(self):
        self._libc = __import__("ctypes").CDLL(None, use_errno=True)
        self._kept = []

    def cells(self, count, dtype):
        dtype = np.dtype(dtype)
        page = mmap.PAGESIZE
        body = max(1, -(-count * dtype.itemsize // page)) * page
        memory = mmap.mmap(-1, body + 2 * page)
        whole = np.frombuffer(memory, np.uint8)
        address = whole.ctypes.data
        for fence in (address, address + page + body):
            if self._libc.mprotect(_pointer(fence), page, 0):
                raise OSError("mprotect")
        self._kept.append((memory, address, page, body))
        start = page + body - count * dtype.itemsize
        return whole[start : page + body].view(dtype)

    def open(self):
        """Let all that was fenced go."""
        for _memory, address, page, body in self._kept:
            for fence in (address, address + page + body):
                self._libc.mprotect(_pointer(fence), page, 3)
        self._kept.clear()


def _pointer(address):
    import ctypes

    return ctypes.c_void_p(address)


def work_of(plan):
    """Return a bound of the cells that a plan's instructions visit."""
    tape = plan.tape
    shapes = [math.prod(map(plan.size, layout.dims)) for layout in tape.layouts]
    cells = [shapes[layout] for layout in tape.values["layout"]]
    rows = [[cells[row[name]] for name in ("out", "a", "b", "c") if row[name] >= 0] for row in tape.code]
    return sum(max(row) ** 2 for row in rows if row)


def run_compiled(plan, rng, arrays, fenced):
    """Run compiled sweeps in fenced memory; whoever reaches outside ends the process."""
    workspace.aligned, kept = fenced.cells, workspace.aligned
    try:
        space = Workspace(plan)
        for cells, (_, data) in zip(space.inputs, arguments(plan, rng, arrays), strict=True):
            cells[...] = data
        outcome = space.forward()
        while outcome == status.GUARD:
            outcome = space.accept_guard()
        if outcome == status.DONE:
            if plan.tape.uniform:
                space.forward_lanes()
            if not plan.tape.forward:
                space.reverse()
    except (ValueError, TypeError):  # what a rule makes of other arguments
        pass
    finally:
        workspace.aligned = kept
        fenced.open()


def loaded(number, values, plan):
    """Whether a kernel is in the process already: many are not worth waiting for."""
    reverse = OPS[number >> 1].differentiable and not plan.tape.forward
    return kernels.forward_table(values)[number] and (not reverse or kernels.REVERSE[number])


def main(count, seed):
    found = tapes()
    for _, tape, arrays in found:
        Workspace(make_plan(tape, dimensions(*arrays)))
    fenced = Fenced()
    done, chunk, crashes, tally = 0, 2000, 0, np.zeros(3, int)
    while done < count:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(120)  # some of SciPy's functions do not come back for rare arguments
            own = np.zeros(3, int)
            for k in range(done, done + chunk):
                own[one(found, seed, k, fenced)] += 1
            os.write(writer, own.tobytes())
            os._exit(0)
        os.close(writer)
        told = os.read(reader, 64)
        os.close(reader)
        _, outcome = os.waitpid(child, 0)
        if outcome and os.WTERMSIG(outcome) == signal.SIGALRM:
            print(f"too slow in {done}..{done + chunk} of seed {seed}", flush=True)
        elif outcome:
            crashes += 1
            print(f"crash {outcome} in {done}..{done + chunk} of seed {seed}", flush=True)
        else:
            tally += np.frombuffer(told, int)
        done += chunk
        if done % 20_000 == 0:
            print(
                f"{done}: refused {tally[0]}, not run {tally[1]}, run {tally[2]}, crashes {crashes}",
                flush=True,
            )


def one(found, seed, k, fenced):
    """Mutate and run one tape; return 0 if it was refused, 1 if it was not run, 2 if it ran."""
    rng = np.random.default_rng([seed, k])
    _, tape, arrays = found[int(rng.integers(len(found)))]
    try:
        plan = make_plan(mutate_tape(rng, tape), dimensions(*arrays))
    except VerificationError:
        return 0
    if max(plan.cells) > 10**6 or work_of(plan) > 10**7:
        return 1
    if not all(loaded(number, plan.values, plan) for number in plan.kernels):
        return 1
    run_compiled(plan, rng, arrays, fenced)
    return 2


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
