"""Laws of the compiled kernels, over the whole op table and both dtypes.

Compiled kernels against the same text interpreted with every access checked, values against NumPy,
adjoints against differences of NumPy's values; operands are views of every kind. What formulas and
bodies compute is tested on its own (test_op_formulas, test_array_kernels): here it is loops,
strides, broadcasting and dtypes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from types import FunctionType

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatape as nt
from numbatape.engine import Workspace, kernels, make_plan
from numbatape.engine.checked import CheckedWorkspace
from numbatape.engine.codegen import source_of
from numbatape.engine.reference import Reference
from numbatape.jit.lowering.cells import kind_of
from numbatape.ops import OPS, ArrayOp, Elementwise, oracle, scalars
from numbatape.ops.libm import PREFIX
from numbatape.ops.status import DONE
from numbatape.ops.table import BOOLEAN, UNKNOWN
from numbatape.recording.record import InputLeaf, record
from numbatape.tape.tape import ACTIVE, CONSTANT
from numbatape.trace.primitives import array_instruction, elementwise
from tests.engine.test_elementary import FUNCTIONS
from tests.every_case import every
from tests.formulas import completed

ROWS = [op for op in OPS if isinstance(op, Elementwise) and not op.name.startswith(PREFIX)]
ARRAY_OPS = [op for op in OPS if isinstance(op, ArrayOp)]
DTYPES = [np.float64, np.float32]
FLOATS = {"f64", "f32"}  # kinds of cells


class Swept:
    """A function of arrays, traced and swept forward and back in both forms, with random cotangents."""

    def __init__(self, function, inputs, constants=(), seed=0):
        leaves = [InputLeaf(x, CONSTANT if k in constants else ACTIVE) for k, x in enumerate(inputs)]
        self.tape = record(function, leaves, lambda traced: (tuple(traced), {})).tape
        dimensions = tuple(n for x in inputs for n in np.shape(x))
        self.plan = make_plan(self.tape, dimensions)
        self.compiled, self.checked = Workspace(self.plan), CheckedWorkspace(self.plan)
        for slot, cells, x in zip(self.tape.inputs, self.compiled.inputs, inputs, strict=True):
            cells[...] = x
            self.checked.set(slot.value, x)
        self.cotangents = np.random.default_rng(seed).normal(size=self.compiled.seed.size)
        self.compiled.seed[...] = self.checked.seed[...] = self.cotangents
        self._sweep_twice(inputs)
        assert self.checked.forward() == DONE
        self.checked.reverse()
        self.expected = Reference(self.tape, dimensions).run(inputs)

    def _sweep_twice(self, inputs):
        """Sweep; again, for the same bits and untouched inputs."""
        seen = []
        for _ in range(2):
            assert self.compiled.forward() == DONE
            self.compiled.reverse()
            self.values = [value.copy() for value in self.compiled.outputs]
            self.adjoints = [g if g is None else g.copy() for g in self.compiled.gradients]
            seen.append([x.tobytes() for x in (*self.values, *self.adjoints) if x is not None])
        assert seen[0] == seen[1]
        for cells, x in zip(self.compiled.inputs, inputs, strict=True):
            np.testing.assert_array_equal(cells, x)

    def check_forms(self, tolerance):
        """Compare the compiled with the checked form."""
        for number, value in enumerate(self.tape.outputs):
            close(self.values[number], self.checked.view(value), tolerance)
        for slot, adjoint in zip(self.tape.inputs, self.adjoints, strict=True):
            if adjoint is not None:
                close(adjoint, self.checked.view(slot.value, adjoint=True), tolerance)

    def cotangent(self):
        """Yield the cotangent of each output."""
        first = 0
        for value, slot in zip(self.values, self.tape.outputs, strict=True):
            level = self.tape.storages["level"][self.tape.values["storage"][slot]]
            cells = value.size if level == ACTIVE else 0
            yield (
                self.cotangents[first : first + cells].reshape(value.shape)
                if cells or not value.size
                else 0.0
            )
            first += cells


def close(actual, expected, tolerance):
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def ulps(actual, expected, count):
    """Compare to some units in the last place of the results' dtype."""
    unit = np.spacing(np.maximum(np.abs(expected), np.finfo(expected.dtype).tiny))
    with np.errstate(invalid="ignore"):
        good = (np.abs(actual - expected) <= count * unit) | (actual == expected)
    assert np.all(good | (np.isnan(actual) & np.isnan(expected)))


# Functions of SciPy's that err by more than the kernels do, whose bound is above that of the elementary ones.
COARSE = {op.name for op in ROWS if FUNCTIONS.get(f"fast_{op.name}", (None, None, 0))[2] > 1.5}


def exact_values(op):
    """Return mpmath's function where SciPy's is coarse, else NumPy's or SciPy's."""
    if op.name not in COARSE:
        return oracle(op)

    def one(x):
        with mpmath.workprec(160):
            return float(FUNCTIONS[f"fast_{op.name}"][0](mpmath.mpf(x)))

    return np.vectorize(one, otypes=[float])


def slopes(function, x, step, count):
    """Return central differences of ``t -> function(x + t)`` at 0, each with half the step of the last."""
    return [(function(x + h) - function(x - h)) / (2 * h) for h in step / 2.0 ** np.arange(count)]


def extrapolated(table):
    for order in range(1, len(table)):
        table = [(4**order * b - a) / (4**order - 1) for a, b in itertools.pairwise(table)]
    return table[0]


def difference(function, x, step):
    """Return the derivative at 0 of ``t -> function(x + t)``."""
    return extrapolated(slopes(function, x, step, 5))


# ---- elementwise ops

# Operands of one op, as views of a matrix m (4, 5) and a scalar s.
WAYS = {
    "contiguous": [lambda m, s: m] * 3,
    "scalars": [lambda m, s: s] * 3,
    "cells of arrays": [lambda m, s: m[1, 2], lambda m, s: m[3, 0], lambda m, s: m[0, 4]],
    "one cell": [lambda m, s: m[:1, 1:2], lambda m, s: s, lambda m, s: m[0, :1]],
    "rows": [lambda m, s: m, lambda m, s: m[2], lambda m, s: m[0]],
    "columns": [lambda m, s: m[:, 1:2], lambda m, s: m, lambda m, s: m[:, 3:4]],
    "n and 1": [lambda m, s: m[0], lambda m, s: m[1, 2:3], lambda m, s: m[2, :1]],
    "1 and n": [lambda m, s: m[1, 2:3], lambda m, s: m[0], lambda m, s: m[2]],
    "outer": [lambda m, s: m[:, :1], lambda m, s: m[:1], lambda m, s: m[:1, 1:2]],
    "scalar first": [lambda m, s: s, lambda m, s: m, lambda m, s: s],
    "scalar last": [lambda m, s: m[:, :1], lambda m, s: s, lambda m, s: m],
    "transposed": [lambda m, s: m.T, lambda m, s: m.T, lambda m, s: m.T],
    "crossed": [lambda m, s: m[:4, :4], lambda m, s: m[:4, :4].T, lambda m, s: m[:4, 1:]],
    "strided": [lambda m, s: m[::2, 1::2], lambda m, s: m[::2, ::3], lambda m, s: m[1::2, 2:4]],
    "reversed": [lambda m, s: m[::-1], lambda m, s: m[:, ::-1], lambda m, s: m[::-1, ::-1]],
    "empty": [lambda m, s: m[:, :0], lambda m, s: m[:, :1], lambda m, s: m[:, :0]],
}


# Loops over float32 cells differ from those over float64 in what a load and a store are.
SINGLE_WAYS = ("contiguous", "scalars", "one cell", "rows", "outer", "strided", "reversed", "empty")
# Rows that no SIMD loop serves have loops of one text, which differ in the formula alone: all ways are for
# the first row of each kind.
FEW_WAYS = {
    np.float64: ("contiguous", "scalars", "cells of arrays", "rows", "outer", "strided", "empty"),
    np.float32: ("contiguous", "scalars", "outer", "strided"),
}
FIRST_OF_KIND = {
    (op.arity, op.differentiable, bool(op.opaque), bool(op.follows)): op.name
    for op in reversed(ROWS)
    if not op.hot and not op.name.startswith(("gammainc_", "betainc_"))  # computed in Python: slow
}.values()


def sample(op, dtype, seed=7):
    """Return a (4, 5) matrix and a scalar for each operand, as one flat list of float32 numbers."""
    rng = np.random.default_rng(seed)
    inputs = []
    for low, high in op.domains:
        for shape in ((4, 5), ()):
            if (low, high) == BOOLEAN:
                x = rng.integers(0, 2, shape).astype(dtype)
            else:
                x = rng.uniform(low, high, shape).astype(np.float32).astype(dtype)
            inputs.append(x if shape else dtype(x))
    return inputs


def ways_of(op, dtype=np.float64):
    names = FEW_WAYS[dtype]
    if op.hot or op.name in FIRST_OF_KIND:
        names = WAYS if dtype == np.float64 else SINGLE_WAYS
    return {way: WAYS[way] for way in names}


def operands(op, ways, inputs):
    return completed(op, [ways[k](inputs[2 * k], inputs[2 * k + 1]) for k in range(op.arity)])


def constants_of(op):
    """Return the operands that the tracer takes as constants only."""
    return [k for k in range(op.arity) if "xyw"[k] in op.opaque or op.partials[k] == UNKNOWN]


@functools.lru_cache(maxsize=2)  # both dtypes of an op, one after the other
def references(name):
    """Return, for each way, an op's exact values, and for each operand its slopes and where those are sure.

    Slopes are differences of NumPy's values, and sure where there is no kink. They are computed once for each
    tuple of operands that occurs: some of SciPy's functions and of mpmath's take a millisecond each.
    """
    op = next(op for op in ROWS if op.name == name)
    inputs = sample(op, np.float64)
    shapes, columns = {}, []
    for way, ways in ways_of(op).items():
        values = np.broadcast_arrays(*(np.asarray(x, float) for x in operands(op, ways, inputs)))
        shapes[way] = values[0].shape
        columns.append(np.stack([np.ravel(x) for x in values]))
    tuples, places = np.unique(np.concatenate(columns, axis=1), axis=1, return_inverse=True)
    exact = np.asarray(exact_values(op)(*tuples))
    sloped = {}
    for k in range(op.arity):
        if op.partials[k] is None or k in constants_of(op):
            continue

        def along(x, k=k):
            with np.errstate(all="ignore"):
                moved = completed(op, [*tuples[:k], x, *tuples[k + 1 :]])
                return oracle(op)(*moved).astype(float)

        table = slopes(along, tuples[k], 0.02, 7)
        slope, again = extrapolated(table[:5]), extrapolated(table[2:])
        with np.errstate(invalid="ignore"):
            sloped[k] = slope, np.abs(slope - again) <= 1e-9 * (1.0 + np.abs(slope))
    found = {}
    parts = np.split(places, np.cumsum([column.shape[1] for column in columns])[:-1])
    for (way, shape), where in zip(shapes.items(), parts, strict=True):
        at = where.reshape(shape)
        found[way] = exact[at], {k: (slope[at], sure[at]) for k, (slope, sure) in sloped.items()}
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
@pytest.mark.parametrize("op", [op for op in ROWS if not op.casts], ids=lambda op: op.name)
def test_elementwise(op, dtype):
    inputs = sample(op, dtype)
    chosen = ways_of(op, dtype)

    def function(*traced):
        results = []
        for ways in chosen.values():
            values = operands(op, ways, inputs)
            results.append(elementwise(op, *operands(op, ways, traced), value=oracle(op)(*values)))
        return tuple(results)

    swept = Swept(function, inputs, [j for k in constants_of(op) for j in (2 * k, 2 * k + 1)])
    for way, actual, expected in zip(chosen, swept.values, swept.expected, strict=True):
        # NumPy's own float32 functions may lose more digits than the kernels, which compute in float64.
        ulps(actual, references(op.name)[way][0].astype(actual.dtype), 4)
        # SciPy's functions err by 1e-5 in float32.
        if op.name not in COARSE and (dtype == np.float64 or not isinstance(op.numpy[0], str)):
            close(actual, expected, 1e-15 if dtype == np.float64 else 1e-6)
    swept.check_forms(1e-13 if dtype == np.float64 else 1e-5)
    expected = expected_adjoints(op, inputs, chosen, swept)
    for adjoint, (total, sure) in zip(swept.adjoints, expected, strict=True):
        if adjoint is None:
            continue
        close(adjoint[sure], total[sure], 1e-8 if dtype == np.float64 else 1e-4)


def expected_adjoints(op, inputs, chosen, swept):
    """Return each input's adjoint by differences, and where those are sure.

    Operands that are constants have none: theirs is not asked for.
    """
    ends = np.cumsum([np.size(x) for x in inputs])
    total, sure = np.zeros(ends[-1]), np.ones(ends[-1], bool)
    places = [
        np.arange(end - np.size(x), end).reshape(np.shape(x)) for x, end in zip(inputs, ends, strict=True)
    ]
    for way, cotangent in zip(chosen, swept.cotangent(), strict=True):
        where = operands(op, WAYS[way], places)
        for k, (slope, good) in references(op.name)[way][1].items():
            at = np.broadcast_to(where[k], slope.shape)
            np.add.at(total, at, np.where(good, cotangent * slope, 0.0))
            np.logical_and.at(sure, at, good)
    assert np.mean(sure) > 0.6
    split = (np.split(x, ends[:-1]) for x in (total, sure))
    return [(t.reshape(np.shape(x)), s.reshape(np.shape(x))) for t, s, x in zip(*split, inputs, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
def test_cast(dtype):
    """Cells of the other dtype: in arrays, scalars and views; the adjoint comes back in its own."""
    other = np.float32 if dtype == np.float64 else np.float64
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(other)
    swept = Swept(lambda x: tuple(x[k].astype(dtype) for k in (0, (0, 1), slice(None, None, -2))), [x])
    assert [value.dtype for value in swept.values] == [dtype] * 3
    swept.check_forms(0.0)
    expected = np.zeros((4, 5))
    for k, cotangent in zip((0, (0, 1), slice(None, None, -2)), swept.cotangent(), strict=True):
        expected[k] += cotangent
    np.testing.assert_allclose(swept.adjoints[0], expected, rtol=1e-6)


# ---- array ops


def reversed_in_memory(x):
    return x[(slice(None, None, -1),) * np.ndim(x)]


def transposed_in_memory(x):
    return x.T


def strided_in_memory(x):
    return x[..., ::2]


# How an operand lies in memory: (input made of the operand, the operand as a view of that input).
MEMORY = {
    "contiguous": (lambda x: x, lambda x: x),
    "transposed": (lambda x: np.ascontiguousarray(x.T), transposed_in_memory),
    "reversed": (lambda x: np.ascontiguousarray(reversed_in_memory(x)), reversed_in_memory),
    "strided": (
        lambda x: np.repeat(x, 2, axis=-1) if np.ndim(x) else x,
        lambda x: x[..., ::2] if np.ndim(x) else x,
    ),
}


def array_operands(op, shapes, dtype):
    rng = np.random.default_rng(5)
    made = op.make(rng, shapes) if op.make else [rng.normal(size=shape) for shape in shapes]
    return [
        np.asarray(x, float if "abc"[k] in op.index else dtype).reshape(shapes[k]) for k, x in enumerate(made)
    ]


def index_operands(op):
    return tuple(k for k in range(op.arity) if "abc"[k] in op.index)


def check_array_op(op, values, dtype, memory=MEMORY):
    """Sweep an op with its operands in memory in every way; return what was swept."""
    for put, get in memory.values():
        inputs = [put(x) if k not in index_operands(op) else x for k, x in enumerate(values)]
        expected = np.asarray(oracle(op)(*values)).astype(np.float64 if op.wide else dtype)

        def function(*traced, get=get, expected=expected):
            views = [x if k in index_operands(op) else get(x) for k, x in enumerate(traced)]
            return array_instruction(op, views, expected)

        swept = Swept(function, inputs, index_operands(op))
        close(swept.values[0], swept.expected[0], 1e-13 if dtype == np.float64 else 2e-5)
        swept.check_forms(1e-12 if dtype == np.float64 else 2e-4)
        if op.differentiable and swept.values[0].size and all(x.size for x in values):
            check_direction(op, values, get, put, swept, dtype)


def check_direction(op, values, get, put, swept, dtype):
    """Compare the adjoints, in a random direction, with differences of NumPy's values."""
    rng = np.random.default_rng(8)
    exact = [np.asarray(x, float) for x in values]
    still = op.index + op.stepwise  # operands that are not moved
    along = [0.0 * x if "abc"[k] in still else rng.normal(size=x.shape) for k, x in enumerate(exact)]
    (cotangent,) = swept.cotangent()

    def moved(t):
        with np.errstate(all="ignore"):
            return np.sum(cotangent * oracle(op)(*(x + t * u for x, u in zip(exact, along, strict=True))))

    expected = difference(moved, 0.0, 0.002)
    adjoints = [None if g is None else np.asarray(get(g)) for g in swept.adjoints]
    parts = [np.sum(g * u) for g, u in zip(adjoints, along, strict=True) if g is not None]
    scale = sum(np.sum(np.abs(g * u)) for g, u in zip(adjoints, along, strict=True) if g is not None)
    if dtype == np.float64 and op.linear:
        bilinear = np.sum(
            cotangent
            * np.asarray(
                oracle(op)(
                    *(
                        x if k in index_operands(op) else u
                        for k, (x, u) in enumerate(zip(exact, along, strict=True))
                    )
                )
            )
        )
        assert abs(sum(parts) - bilinear) <= 1e-13 * (scale + 1e-300)
    assert abs(sum(parts) - expected) <= (1e-8 if dtype == np.float64 else 1e-3) * (scale + 1e-300)


ARRAY_CASES = [
    pytest.param(op, shapes, id=f"{op.name}-{'-'.join(map(str, shapes)).replace(' ', '')}")
    for op in ARRAY_OPS
    for shapes in op.cases[-3:]
]


@every("op, shapes", ARRAY_CASES)
def test_array_op(op, shapes):
    """The last of an op's shapes in memory of every kind; tests/test_array_kernels.py has all of them."""
    ways = MEMORY if shapes == op.cases[-1] else {name: MEMORY[name] for name in ("transposed", "strided")}
    check_array_op(op, array_operands(op, shapes, np.float64), np.float64, ways)


@every("op, shapes", [c for c in ARRAY_CASES if c.values[1] == c.values[0].cases[-1]])
def test_array_op_float32(op, shapes):
    if op.name == "eigh":
        shapes = op.cases[2]  # the signs of larger ones' vectors differ between LAPACK's precisions
    ways = {name: MEMORY[name] for name in ("contiguous", "transposed")}
    check_array_op(op, array_operands(op, shapes, np.float32), np.float32, ways)


@every("op", [op for op in ARRAY_OPS if op.cases])
def test_array_op_over_a_batch(op):
    """Batch axes loop over the kernel; operands broadcast along them, scratch is one piece an element."""
    shapes = op.cases[-2] if len(op.cases) > 1 else op.cases[-1]
    first, *rest = array_operands(op, shapes, np.float64)
    if not first.size:
        first, *rest = array_operands(op, op.cases[0], np.float64)
    batch = np.stack([first, first[..., ::-1] if op.make is None else 2.0 * first, first + 0.0])[:, None]
    check_array_op(op, [np.repeat(batch, 2, axis=1), *rest], np.float64, {"contiguous": MEMORY["contiguous"]})


def test_kernels_are_cut_out_of_their_files_whole():
    bodies = [f for op in ARRAY_OPS for f in (op.forward, op.reverse, *(op.across or ())) if f is not None]
    helpers = [f for f in vars(scalars).values() if isinstance(f, FunctionType)]
    for function in bodies + helpers:
        assert source_of(function) == textwrap.dedent(inspect.getsource(function))


def float_cells_passed_on(function):
    """Yield what a kernel passes cells of floats to: the function, the argument's name, the parameter's."""
    for node in ast.walk(ast.parse(source_of(function))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = function.__globals__.get(node.func.id)
            if isinstance(called, FunctionType):
                for arg, name in zip(node.args, inspect.signature(called).parameters, strict=False):
                    if isinstance(arg, ast.Name) and {kind_of(arg.id, "f32"), kind_of(name, "f32")} <= FLOATS:
                        yield called, arg.id, name


@every("op", ARRAY_OPS)
def test_cells_are_passed_on_as_what_they_are(op):
    """A parameter's name says of which dtype its cells are: float32 cells can't be passed on as ``d``."""
    own = "f64" if op.wide else "f32"
    functions = [f for f in (op.forward, op.reverse, *(op.across or ())) if f is not None]
    for function in functions:
        for called, cells, name in float_cells_passed_on(function):
            assert kind_of(cells, own) == kind_of(name, own), f"{function.__name__}: {cells} as {name}"
            if called not in functions:
                functions.append(called)


def test_fill():
    swept = Swept(lambda s: np.full((3, 2), s), [np.float64(2.5)])
    np.testing.assert_array_equal(swept.values[0], np.full((3, 2), 2.5))
    np.testing.assert_allclose(swept.adjoints[0], np.sum(swept.cotangents), rtol=1e-14)


# ---- more shapes and strides for a few ops


@pytest.mark.parametrize("size", [0, 1, 2, 7, 300])
def test_sizes(size):
    x = np.random.default_rng(size).normal(size=(2, size))

    def function(x):
        row = x[0]
        return (np.sin(x), x * row, np.where(x > 0, x, row), np.sum(x), np.sum(x, axis=0), np.cumsum(row),
                x @ x.T, np.sort(row), row[::-1] / 3, np.sum(x.T * row[:, None], axis=0))  # fmt: skip

    swept = Swept(function, [x])
    swept.check_forms(1e-12)
    for actual, expected in zip(swept.values, function(x), strict=True):
        close(actual, np.asarray(expected), 1e-13)


axis = st.builds(
    slice, st.none() | st.integers(0, 2), st.none() | st.integers(-2, 5), st.sampled_from([None, 2, -1, -2])
)


def made_of(function, x):
    expected = function(x)
    swept = Swept(lambda x: function(x) + 0.0, [x])
    close(swept.values[0], np.asarray(expected + 0.0), 1e-13)
    swept.check_forms(1e-13)
    ones = np.random.default_rng(3).normal(size=x.shape)
    moved = difference(lambda t: np.sum(next(swept.cotangent()) * function(x + t * ones)), 0.0, 0.01)
    assert abs(np.sum(swept.adjoints[0] * ones) - moved) <= 1e-8 * (1.0 + np.sum(np.abs(swept.adjoints[0])))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(axis, axis, axis, axis, st.permutations([0, 1, 2]))
def test_views_of_any_kind(first, second, third, fourth, order):
    x = np.random.default_rng(2).normal(size=(3, 4, 5))

    def function(x):
        y = x[first, second].transpose(order)
        return np.sum(y * y[..., :1] + np.sin(y[third]).sum(axis=0), axis=-1) if y.shape[-1] else y

    made_of(function, x)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(axis, axis, st.booleans(), st.booleans())
def test_products_of_views(rows, columns, left, right):
    x = np.random.default_rng(4).normal(size=(9, 9))
    made_of(lambda x: (x.T if left else x)[rows][:, columns] @ (x.T if right else x)[columns], x)


# ---- what stands next to each other


def test_where_of_scalars_leaves_the_frame_alone():
    """The third operand of formulas is called w, as the frame is elsewhere."""
    x = np.array([1.0, 2.0, 3.0])
    swept = Swept(lambda x: np.where(x[0] > 0, x[1], x[2]) * np.sum(np.sin(x)), [x])
    np.testing.assert_allclose(swept.values[0], 2.0 * np.sum(np.sin(x)), rtol=1e-14)
    swept.check_forms(1e-13)


@pytest.mark.parametrize("name", ["solve", "det", "logabsdet", "inv", "cholesky", "sort"])
def test_nan_stays_inside(name):
    """Pivots and permutations of NaN are still numbers of rows: nothing outside is touched."""
    op = next(op for op in ARRAY_OPS if op.name == name)
    shapes = ((9, 9), (9, 2))[: op.arity] if name != "sort" else ((9,),)
    values = [np.full(shape, np.nan) for shape in shapes]
    leaves = [InputLeaf(x, ACTIVE) for x in values]
    result = np.full(shapes[-1] if op.operands[0] else (), np.nan)
    tape = record(lambda *xs: array_instruction(op, xs, result), leaves, lambda xs: (tuple(xs), {})).tape
    plan = make_plan(tape, tuple(n for x in values for n in x.shape))
    for space in (Workspace(plan), CheckedWorkspace(plan)):
        for slot, x in zip(tape.inputs, values, strict=True):
            family, first = plan.cell(slot.value)
            space.v[family][first : first + x.size] = x.reshape(-1)
        if space.forward() == DONE:
            space.reverse()


@pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
def test_many_numbers_are_sorted_by_their_digits(dtype):
    """As stable as the merging of fewer numbers: positions of equal ones stay in order, NaN comes last."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=5000).astype(dtype) * np.exp(rng.normal(size=5000) * 10).astype(dtype)
    x[rng.integers(0, 5000, 900)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 5e-324], 900)
    weights = np.arange(4000)
    functions = (
        lambda x: np.sum(np.sort(x)[:4000] * weights),
        lambda x: np.sum(x[np.argsort(x, kind="stable")[:4000]] * weights),
    )
    for numbers in (x, x[::-1], np.sort(x), x[:4096], np.full(4100, dtype(2.0))):
        want = np.argsort(numbers, kind="stable")
        expected = np.zeros(len(numbers))
        expected[want[:4000]] = weights
        for function in functions:
            with np.errstate(invalid="ignore", over="ignore"):
                np.testing.assert_array_equal(nt.grad(function)(numbers), expected)


def test_what_is_only_swept_forward_does_without_the_reverse_sweeps(monkeypatch, rng):
    """A first run does not wait for a chain of which it has no use."""
    source = kernels.sweep_source

    def forward_only(direction):
        assert direction == "forward"
        return source(direction)

    monkeypatch.setattr(kernels, "sweep_source", forward_only)
    kernels.sweep.cache_clear()

    def f(x):
        return np.sum(np.sin(x) * x)

    x = rng.normal(size=5000)  # value and gradient of long vectors are one sweep
    want = np.cos(x) * x + np.sin(x)
    for _ in range(2):
        np.testing.assert_allclose(nt.jvp(f, (x,), (x,))[1], np.dot(want, x), rtol=1e-12)
        np.testing.assert_allclose(nt.batch(f)(x[:20].reshape(4, 5))[1].ravel(), want[:20], rtol=1e-12)
        np.testing.assert_allclose(nt.grad(f)(x), want, rtol=1e-12)
    cache, gradient = nt.prepare_gradient_cache(f, x), np.empty_like(x)
    assert cache.bind(x, out=(gradient,))() == pytest.approx(f(x), rel=1e-12)
    np.testing.assert_allclose(gradient, want, rtol=1e-12)
