"""Every array op's kernels, interpreted over bounds-checked cells.

Values against NumPy, adjoints against the complex step, for operands that are views of every kind.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.special

import numbatape as nt
from numbatape.ops import OPS, ArrayOp
from numbatape.ops.status import DONE, FACTOR, INDEX
from tests.every_case import case, every

ARRAY_OPS = {op.name: op for op in OPS if isinstance(op, ArrayOp)}
LAYOUTS = ("contiguous", "gaps", "transposed", "reversed")


class Cells:
    """Cells that refuse a position outside, a negative one and one that is no integer."""

    def __init__(self, values):
        self.values = values

    def _checked(self, position):
        position = operator.index(position)
        if not 0 <= position < len(self.values):
            raise IndexError(f"cell {position} of {len(self.values)}")
        return position

    def __getitem__(self, position):
        return float(self.values[self._checked(position)])

    def __setitem__(self, position, value):
        self.values[self._checked(position)] = value


def strides_of(shape, layout):
    if len(shape) == 0:
        return ()
    *_, n = shape
    if len(shape) == 1:
        return {"contiguous": (1,), "gaps": (3,), "transposed": (2,), "reversed": (-1,)}[layout]
    return {
        "contiguous": (n, 1),
        "gaps": (2 * n + 3, 2),
        "transposed": (1, max(shape[0], 1)),
        "reversed": (-n - 1, -1),
    }[layout]


class Run:
    """One op with its operands laid out in cells; what is not an operand's cell starts as NaN."""

    def __init__(self, op, operands, layout="contiguous", strides=None):
        operands = [np.asarray(operand, float) for operand in operands]
        self.op = op
        self.args = {}
        self.views = {}
        top = {"v": 3, "d": 2}
        for name, operand in zip("abc", operands, strict=False):
            steps = (strides or {}).get(name) or strides_of(operand.shape, layout)
            spans = [(size - 1) * step for size, step in zip(operand.shape, steps, strict=True) if size]
            stack = "d" if name in op.index else "v"
            first = top[stack] - sum(span for span in spans if span < 0)
            top[stack] = first + sum(span for span in spans if span > 0) + 4
            self.args[name] = first
            self.args |= {f"s{name}{axis}": step for axis, step in enumerate(steps)}
            self.views[name] = (stack, first, operand.shape, steps)
        sizes: dict[str, int] = {}
        for letters, operand in zip(op.operands[1:], operands, strict=True):
            sizes |= dict(zip(letters, operand.shape, strict=True))
        if not sizes.keys() >= {*op.operands[0]}:  # sizes that only the value knows
            sizes |= zip(op.operands[0], np.shape(oracle(op, operands)), strict=True)
        self.shape = tuple(sizes[letter] for letter in op.operands[0])
        self.args |= sizes
        self.args |= {f"so{k}": s for k, s in enumerate(strides_of(self.shape, "contiguous"))}
        self.args["o"] = top["v"]
        self.args["s"] = top["v"] + math.prod(self.shape) + 1
        self.scratch = eval(op.scratch, {}, dict(sizes))
        self.v = np.full(self.args["s"] + self.scratch + 2, np.nan)
        self.d = np.full(top["d"], np.nan)
        for name, operand in zip("abc", operands, strict=False):
            self.view(name)[...] = operand

    def view(self, name, stack=None):
        which, first, shape, steps = self.views[name]
        stack = getattr(self, which) if stack is None else stack
        return np.lib.stride_tricks.as_strided(
            stack[first:], shape, [8 * step for step in steps], writeable=True
        )

    def call(self, kernel, **more):
        known = {**self.args, **more, "v": Cells(self.v), "d": Cells(self.d)}
        return kernel(**{name: known[name] for name in inspect.signature(kernel).parameters})

    def result(self, stack=None):
        stack = self.v if stack is None else stack
        first = self.args["o"]
        return stack[first : first + math.prod(self.shape)].reshape(self.shape)

    def forward(self):
        """Run forward; only result and scratch may change."""
        before = self.v.copy(), self.d.copy()
        status = self.call(self.op.forward)
        self.result(before[0])[...] = self.result()
        scratch = slice(self.args["s"], self.args["s"] + self.scratch)
        before[0][scratch] = self.v[scratch]
        np.testing.assert_array_equal(self.v, before[0])
        np.testing.assert_array_equal(self.d, before[1])
        return status

    def reverse(self, gbar, need="abc"):
        """Return what a reverse sweep adds to each operand; of the rest only scratch may change."""
        adjoints = np.random.default_rng(5).normal(size=self.v.size)
        self.result(adjoints)[...] = gbar
        old = adjoints.copy()
        values = self.v.copy()
        flags = {f"need_{name}": int(name in need) for name in "abc"}
        assert self.call(self.op.reverse, g=Cells(adjoints), **flags) is None
        scratch = slice(self.args["s"], self.args["s"] + self.scratch)
        values[scratch] = self.v[scratch]
        np.testing.assert_array_equal(self.v, values)
        touched = np.zeros(self.v.size)
        added = {}
        for name in self.views:
            if name not in self.op.index and name in need:
                self.view(name, touched)[...] = 1.0
                added[name] = self.view(name, adjoints) - self.view(name, old)
        np.testing.assert_array_equal(adjoints[touched == 0.0], old[touched == 0.0])
        return added


def complex_cholesky(a):
    """Cholesky of the lower triangle, without conjugation: the analytic continuation."""
    lower = np.zeros_like(a)
    for j in range(len(a)):
        lower[j, j] = np.sqrt(a[j, j] - np.sum(lower[j, :j] ** 2))
        for i in range(j + 1, len(a)):
            lower[i, j] = (a[i, j] - np.sum(lower[i, :j] * lower[j, :j])) / lower[j, j]
    return lower


def triangle(a, lower, unit):
    part = np.tril(a, -unit) if lower else np.triu(a, unit)
    return part + unit * np.eye(len(a))


def triangular_value(lower, unit):
    return lambda a, b: scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)


def triangular_form(lower, unit):
    return lambda a, b: np.linalg.solve(triangle(a, lower, unit), b)


def log_abs_det(a):
    z = np.linalg.det(a)
    return np.log(z * np.sign(z.real))


def recurrence_value(a, b, c):
    return np.linalg.solve(np.eye(len(a) + 1) - np.diag(a, -1), np.append(c, b))


# Where NumPy has no function of just these operands.
def with_row(x, row, position):
    result = np.array(np.broadcast_to(x, x.shape), np.result_type(x, row))
    result[int(position.real)] = row
    return result


VALUES = {
    "put": with_row,
    "logsumexp": scipy.special.logsumexp,
    "logabsdet": lambda a: np.linalg.slogdet(a)[1],
    "detsign": lambda a: np.linalg.slogdet(a)[0],
    "outer_sum": lambda x, y: np.sum(np.multiply.outer(x, y)),
    "near_singular": lambda a: float(a.size > 0 and np.linalg.cond(a) > 1e6),
    "argsort": lambda x: np.argsort(x, stable=True),
    "places_left": np.searchsorted,
    "places_right": lambda x, y: np.searchsorted(x, y, "right"),
    "exact_integers": lambda k: float(abs(k) < 2**53),
    "take": lambda x, p: x[p.astype(int)],
    "take1": lambda x, p: x[p.astype(int)],
    "add_at": lambda x, e, p: x + e @ np.eye(len(x))[p.astype(int)],
    "add_rows_at": lambda x, e, p: x + np.eye(len(x))[p.astype(int)].T @ e,
    "tril": lambda x, k: np.tril(x, int(k)),
    "triu": lambda x, k: np.triu(x, int(k)),
    "distance2": lambda x, y: np.sum((x - y) ** 2),
    "strong_matmul": np.matmul,
    "share_ties": lambda x, best, total: np.where(
        x.real == best.real, total / np.sum(x.real == best.real), 0.0
    ),
    "correlation": lambda x, w: scipy.signal.convolve2d(x, w[::-1, ::-1], "valid"),
    "convolution": scipy.signal.convolve2d,
    "recurrence": recurrence_value,
    "weighed_recurrence": recurrence_value,
    "solve_lower": triangular_value(1, 0),
    "solve_upper": triangular_value(0, 0),
    "solve_lower_unit": triangular_value(1, 1),
    "solve_upper_unit": triangular_value(0, 1),
}

# Analytic in complex operands; absent where the value function is.
FORMS = {
    "max": lambda x: x[np.argmax(x.real)],
    "min": lambda x: x[np.argmin(x.real)],
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "dot": lambda x, y: np.sum(x * y),
    "norm2": lambda x: np.sqrt(np.sum(x * x)),
    "sort": lambda x: x[np.argsort(x.real)],
    "cholesky": complex_cholesky,
    "attempted_cholesky": lambda a: np.append(complex_cholesky(a), 1.0),
    "attempted_solve": lambda a, b: np.append(np.linalg.solve(a, b), 1.0),
    "attempted_inv": lambda a: np.append(np.linalg.inv(a), 1.0),
    "logabsdet": log_abs_det,
    "solve_lower": triangular_form(1, 0),
    "solve_upper": triangular_form(0, 0),
    "solve_lower_unit": triangular_form(1, 1),
    "solve_upper_unit": triangular_form(0, 1),
}


def oracle(op, operands):
    return (VALUES.get(op.name) or op.numpy[0])(*operands)


def has_differences(op) -> bool:
    """Whether the adjoint is checked by differences: NumPy's decompositions are not analytic."""
    return "q" in op.operands[0] and op.name not in FORMS


def gradient(op, operands, gbar):
    """Complex-step gradient of ``sum(gbar * op(operands))``, one array an operand."""
    if has_differences(op):
        return {"a": differences(op, *operands, gbar)}
    form = FORMS.get(op.name) or VALUES.get(op.name) or op.numpy[0]
    gradients = {}
    for name, operand in zip("abc", operands, strict=False):
        if name in op.index:
            continue
        gradients[name] = np.zeros(operand.shape)
        for position in np.ndindex(operand.shape):
            moved = operand.astype(complex)
            moved[position] += 1e-30j
            shifted = [moved if other is operand else other for other in operands]
            gradients[name][position] = np.sum(gbar * form(*shifted)).imag / 1e-30
    return gradients


def differences(op, a, gbar, h=2e-3):
    """Two steps of Richardson's extrapolation, for what LAPACK does in real numbers only."""

    def along(position):
        def at(t):
            moved = a.copy()
            moved[position] += t
            return np.sum(gbar * op.numpy[0](moved))

        tries = [(at(h / 2**k) - at(-h / 2**k)) / (2 * h / 2**k) for k in range(4)]
        for order in (4, 16, 64):
            tries = [(order * fine - rough) / (order - 1) for rough, fine in itertools.pairwise(tries)]
        return tries[0]

    return np.array([along(position) for position in np.ndindex(a.shape)]).reshape(a.shape)


def sample(op, shapes):
    rng = np.random.default_rng(11)
    operands = op.make(rng, shapes) if op.make else [rng.normal(size=shape) for shape in shapes]
    return [np.asarray(operand, float) for operand in operands]


def close(actual, expected, tolerance=1e-12):
    scale = np.max(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def swept(name, *operands, gbar=1.0, need="abc", **options):
    """Run an op both ways; its status, value and adjoints (a, b)."""
    run = Run(ARRAY_OPS[name], operands, **options)
    status = run.forward()
    value = run.result().copy()
    added = {}
    if run.op.reverse and status == DONE:
        added = run.reverse(np.broadcast_to(gbar, run.shape), need)
    return SimpleNamespace(status=status, value=value, **added)


CASES = [
    pytest.param(op, shapes, id=f"{op.name}-{'-'.join(map(str, shapes)).replace(' ', '')}")
    for op in ARRAY_OPS.values()
    for shapes in op.cases
]


# Ops without cases: their kernels are tested below, and in tests/test_stencils.py.
ELSEWHERE = ("fill", "arange", "scatter", "scatter1", "agree", "call", "spread", "stencil")


def test_every_op_has_cases():
    assert {name for name, op in ARRAY_OPS.items() if not op.cases} <= set(ELSEWHERE)


@every("op, shapes", CASES)
def test_value_and_adjoint(op, shapes):
    operands = sample(op, shapes)
    expected = oracle(op, operands)
    gbar = np.random.default_rng(3).normal(size=np.shape(expected))
    slopes = gradient(op, operands, gbar) if op.differentiable else None
    for layout in LAYOUTS:
        with case(layout):
            run = Run(op, operands, layout)
            assert run.forward() == DONE
            assert run.shape == np.shape(expected)
            close(run.result(), expected)
            if slopes is not None:
                check_adjoint(run, gbar, slopes, 1e-9 if has_differences(op) else 1e-12)


def check_adjoint(run, gbar, expected, tolerance):
    added = run.reverse(gbar)
    again = run.reverse(gbar)  # the forward state must outlive a sweep
    assert set(added) == set(expected)
    for name, adjoint in expected.items():
        close(added[name], adjoint, tolerance)
        close(again[name], adjoint, tolerance)
        alone = run.reverse(gbar, need=name)
        close(alone[name], adjoint, tolerance)


BROADCAST = [
    ("sum", "a", ((5,),)),
    ("prod", "a", ((5,),)),
    ("max", "a", ((5,),)),
    ("cumsum", "a", ((5,),)),
    ("cumprod", "a", ((5,),)),
    ("logsumexp", "a", ((5,),)),
    ("norm2", "a", ((5,),)),
    ("sort", "a", ((5,),)),
    ("distance2", "a", ((5,), (5,))),
    ("distance2", "b", ((14,), (14,))),
    ("dot", "a", ((5,), (5,))),
    ("dot", "b", ((5,), (5,))),
    ("outer_sum", "a", ((2, 5), (3, 4))),
    ("correlation", "a", ((4, 13), (3, 5))),
    ("correlation", "b", ((4, 13), (3, 5))),
    ("convolution", "a", ((4, 13), (3, 5))),
    ("convolution", "b", ((4, 13), (3, 5))),
    ("matmul", "a", ((7, 8), (8, 6))),
    ("matmul", "b", ((7, 8), (8, 6))),
    ("matmul", "a", ((7, 8), (8, 1))),
    ("matmul", "b", ((1, 8), (8, 6))),
    ("solve", "b", ((4, 4), (4, 3))),
    ("solve_lower", "b", ((4, 4), (4, 3))),
    ("solve_upper", "b", ((4, 4), (4, 1))),
    ("take", "a", ((4, 3), (6,))),
    ("take1", "a", ((4,), (6,))),
    ("tril", "a", ((4, 3), ())),
]


@pytest.mark.parametrize(
    "name, operand, shapes, axis",
    [(*row, axis) for row in BROADCAST for axis in range(len(row[2]["ab".index(row[1])]))],
)
def test_broadcast_operand(name, operand, shapes, axis):
    """Cells that coincide add up the adjoints of all their appearances."""
    op = ARRAY_OPS[name]
    operands = sample(op, shapes)
    which = "ab".index(operand)
    one = operands[which].take([0], axis)
    operands[which] = np.broadcast_to(one, operands[which].shape)
    steps = [1] * one.ndim
    steps[axis] = 0
    plain = Run(op, operands)
    run = Run(op, operands, strides={operand: tuple(steps)})
    assert plain.forward() == run.forward() == DONE
    close(run.result(), plain.result())
    gbar = np.random.default_rng(3).normal(size=run.shape)
    expected = plain.reverse(gbar)[operand].sum(axis, keepdims=True)
    close(run.reverse(gbar)[operand].take([0], axis), expected)


@pytest.mark.parametrize("columns", [1, 6])
def test_matmul_of_overlapping_windows(columns):
    rng = np.random.default_rng(0)
    series, weights = rng.normal(size=14), rng.normal(size=(8, columns))
    windows = np.lib.stride_tricks.sliding_window_view(series, 8)
    gbar = rng.normal(size=(7, columns))
    plain = swept("matmul", windows, weights, gbar=gbar)
    run = swept("matmul", windows, weights, gbar=gbar, strides={"a": (1, 1)})
    expected = np.zeros(14)
    for i in range(7):
        expected[i : i + 8] += plain.a[i]
    close(run.value, plain.value)
    close(np.append(run.a[:, 0], run.a[-1, 1:]), expected)
    close(run.b, plain.b)


# ---- fill and arange: their size is in the result only


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_fill(n, step):
    op = ARRAY_OPS["fill"]
    cells = np.full(12, np.nan)
    cells[0] = 2.5
    assert op.forward(Cells(cells), 2, 0, n, step) == DONE
    written = np.arange(2, 2 + n * step, step)
    np.testing.assert_array_equal(cells[written], 2.5)
    assert np.isnan(np.delete(cells, [0, *written])).all()
    adjoints = np.arange(12.0)
    op.reverse(Cells(adjoints), 2, 0, n, step)
    assert adjoints[0] == written.sum()
    np.testing.assert_array_equal(adjoints[1:], np.arange(1.0, 12.0))


@pytest.mark.parametrize("first", [0.0, -2.5])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_arange(n, first):
    op = ARRAY_OPS["arange"]
    cells = np.full(8, np.nan)
    cells[1] = first
    assert op.forward(v=Cells(cells), o=2, a=1, n=n) == DONE
    np.testing.assert_array_equal(cells[2 : 2 + n], op.oracle(first, (n,)))
    np.testing.assert_array_equal(cells[2 : 2 + n], first + np.arange(n))
    assert cells[1] == first and np.isnan(np.delete(cells, range(1, 2 + n))).all()


@pytest.mark.parametrize(
    "entries, wanted, seen",
    [((1.0, 1.0), 1.0, 1.0), ((1.0, 0.0), 1.0, 0.0), ((np.nan, 1.0), 1.0, np.nan), ((), 1.0, 1.0)],
)
def test_agree(entries, wanted, seen):
    n = len(entries)
    cells = np.array([*entries, wanted, -1.0])
    assert ARRAY_OPS["agree"].forward(Cells(cells), n + 1, 0, n, n, 1) == DONE
    np.testing.assert_equal(cells[-1], seen)


# ---- scatter: the transpose of take


@pytest.mark.parametrize("name, shapes", [("scatter", ((4, 3), (4,))), ("scatter1", ((5,), (5,)))])
def test_scatter_is_the_transpose_of_take(name, shapes):
    rng = np.random.default_rng(0)
    x, positions = rng.normal(size=shapes[0]), rng.integers(-6, 6, shapes[1]).astype(float)
    expected = np.zeros((6, *shapes[0][1:]))
    np.add.at(expected, positions.astype(int), x)
    cells = np.concatenate([np.ravel(x), positions, np.full(expected.size, np.nan)])
    op, o = ARRAY_OPS[name], x.size + positions.size
    letters = dict(m=6, n=shapes[0][0]) | (dict(k=3, sa1=1) if name == "scatter" else {})
    sa0 = 3 if name == "scatter" else 1
    call = dict(v=Cells(cells), d=Cells(cells), o=o, a=0, b=x.size, sa0=sa0, sb0=1, **letters)
    assert op.forward(**call) == DONE
    np.testing.assert_array_equal(cells[o:].reshape(expected.shape), expected)
    adjoints = np.zeros_like(cells)
    adjoints[o:] = rng.normal(size=expected.size)
    call["g"] = Cells(adjoints)
    del call["v"]
    op.reverse(**call)
    back = adjoints[o:].reshape(expected.shape)[positions.astype(int)]
    np.testing.assert_array_equal(adjoints[: x.size].reshape(x.shape), back)
    cells[x.size] = 6.0
    assert op.forward(**{k: v for k, v in call.items() if k != "g"} | {"v": Cells(cells)}) == INDEX


# ---- reductions


def test_sum_is_as_accurate_as_pairwise():
    x = np.random.default_rng(0).lognormal(sigma=8.0, size=5000) * np.resize([1.0, -1.0, 1.0], 5000)
    exact = math.fsum(x)
    bound = max(abs(np.sum(x) - exact), 2.0**-53 * np.abs(x).sum())
    assert abs(swept("sum", x).value - exact) <= bound
    # Only the first block may lose its small terms.
    tiny = np.concatenate([[1.0], np.full(6000, 1e-16)])
    assert abs(swept("sum", tiny).value - math.fsum(tiny)) <= 256 * 2.0**-53


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("where", [0, 300, 999])
def test_sum_of_non_finite(special, where):
    x = np.ones(1000)
    x[where] = special
    np.testing.assert_equal(swept("sum", x).value[()], special)


def test_sum_that_overflows():
    assert swept("sum", np.full(600, 1e308)).value == math.inf


@pytest.mark.parametrize(
    "x, expected",
    [
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        ([0.0], [1.0]),
        ([1e-200, 1e-200, 2.0], [2e-200, 2e-200, 0.0]),
        ([1e200, 1e200, 0.0], [0.0, 0.0, math.inf]),
    ],
)
def test_prod_gives_true_cofactors(x, expected):
    np.testing.assert_allclose(swept("prod", x).a, expected, rtol=1e-15, atol=1e-15)


def test_cumprod_with_zeros():
    run = swept("cumprod", [2.0, 0.0, 3.0, 0.0, 5.0], gbar=[1.0, 10.0, 100.0, 1000.0, 1e4])
    np.testing.assert_array_equal(run.value, [2.0, 0.0, 0.0, 0.0, 0.0])
    close(run.a, [1.0, 2.0 * 10.0 + 6.0 * 100.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "name, x, value, expected",
    [
        ("max", [1.0, 3.0, 3.0, 2.0], 3.0, [0.0, 0.5, 0.5, 0.0]),
        ("min", [1.0, 3.0, 1.0, 1.0], 1.0, [1 / 3, 0.0, 1 / 3, 1 / 3]),
        ("max", [1.0, math.nan, 3.0, math.nan], math.nan, [0.0, 0.5, 0.0, 0.5]),
        ("min", [math.nan, -math.inf], math.nan, [1.0, 0.0]),
        ("max", [-math.inf, -math.inf], -math.inf, [0.5, 0.5]),
        ("max", [math.inf, 1.0], math.inf, [1.0, 0.0]),
        ("max", [-0.0, 0.0], 0.0, [0.5, 0.5]),
    ],
)
def test_extrema(name, x, value, expected):
    run = swept(name, x)
    np.testing.assert_array_equal(run.value, value)
    close(run.a, expected)


@pytest.mark.parametrize(
    "x",
    [[1.0, 3.0, 3.0], [2.0, math.nan, 5.0, math.nan], [-math.inf] * 2, [math.inf] * 2, [-0.0, 0.0]],
)
@pytest.mark.parametrize("name", ["argmax", "argmin", "any_nonzero", "all_nonzero", "count_nonzero"])
def test_positions_and_counts(name, x):
    assert swept(name, x).value == ARRAY_OPS[name].numpy[0](x)


@pytest.mark.parametrize(
    "x, expected",
    [
        ([-math.inf, -math.inf], [0.0, 0.0]),
        ([-math.inf, 1.0], [0.0, 1.0]),
        ([math.inf, 1.0, -math.inf], [1.0, 0.0, 0.0]),
        ([math.inf, math.inf], [0.5, 0.5]),
        ([1.0, math.nan], [math.nan, math.nan]),
        ([math.inf, math.nan], [math.nan, math.nan]),
        ([0.0, -50.0], [1.0, math.exp(-50.0)]),
        ([-1e9, -1e9 + 1.0], [1 / (1 + math.e), math.e / (1 + math.e)]),
        ([1e308, 1e308], [0.5, 0.5]),
    ],
)
def test_logsumexp_edges(x, expected):
    run = swept("logsumexp", x)
    np.testing.assert_allclose(run.value, scipy.special.logsumexp(x), rtol=1e-15)
    np.testing.assert_allclose(run.a, expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("n", [3, 20])
def test_zeros_stay_zeros_in_strong_products(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n, n))
    x[1, 0] = y[2, 1] = 0.0
    x[0, 2], y[0, 0] = math.inf, -math.inf
    pairs = x[:, :, None], y[None]
    with np.errstate(invalid="ignore"):
        expected = np.sum(np.where((pairs[0] == 0.0) | (pairs[1] == 0.0), 0.0, pairs[0] * pairs[1]), axis=1)
        run = Run(ARRAY_OPS["strong_matmul"], (x, y))
        run.forward()
    np.testing.assert_allclose(run.result(), expected, rtol=1e-13)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()


def test_norm_at_zero():
    run = swept("norm2", [0.0, 0.0])
    assert run.value == 0.0
    np.testing.assert_allclose(run.a, 0.0, atol=1e-15)


def few(rng, n):
    return rng.integers(0, 5, n).astype(float)


def of_all_sizes(rng, n):
    """They differ in 64 bits of their keys, infinities among them."""
    x = rng.choice([-1.0, 1.0], n) * np.exp(rng.uniform(-740.0, 709.0, n))
    x[: n // 9] = rng.choice([-math.inf, -0.0, 0.0, math.inf, 5e-324], n // 9)
    return x


def close_together(rng, n):
    """No half of the bits of their keys tells them apart."""
    x = 1.0 + 1e-15 * rng.integers(0, 1000, n)
    x[: n // 100 + 1] = -1e300
    return x


@pytest.mark.parametrize("make", [few, np.random.Generator.normal, of_all_sizes, close_together])
@pytest.mark.parametrize("n", [2, 3, 16, 17, 99, 230, 400, 1100, 6200])
def test_sorting_is_stable_with_nan_last(n, make):
    rng = np.random.default_rng(n)
    x = make(rng, size=n) if make is np.random.Generator.normal else make(rng, n)
    x[rng.random(n) < 0.2] = math.nan
    gbar = rng.normal(size=n)
    order = np.argsort(x, stable=True)
    np.testing.assert_array_equal(swept("argsort", x).value, order)
    run = swept("sort", x, gbar=gbar)
    np.testing.assert_array_equal(run.value, x[order])
    np.testing.assert_array_equal(np.signbit(run.value), np.signbit(x[order]))
    expected = np.zeros(n)
    expected[order] = gbar
    close(run.a, expected)
    value, pullback = nt.vjp(np.sort, x)
    assert value.tobytes() == x[order].tobytes()
    np.testing.assert_array_equal(pullback(gbar)[0], expected)


# ---- linear algebra


def test_cholesky_reads_the_lower_triangle_only():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    a = root @ root.T + np.eye(4)
    gbar = rng.normal(size=(4, 4))
    plain = swept("cholesky", a, gbar=gbar)
    a[np.triu_indices(4, 1)] = math.nan
    gbar[np.triu_indices(4, 1)] = math.nan
    run = swept("cholesky", a, gbar=gbar)
    np.testing.assert_array_equal(run.value, plain.value)
    np.testing.assert_array_equal(run.a, plain.a)
    np.testing.assert_array_equal(np.triu(run.a, 1), 0.0)


@pytest.mark.parametrize("n", [32, 33, 70])
def test_cholesky_adjoint_in_blocks(n):
    """Against the closed form for the whole matrix, without blocks."""
    rng = np.random.default_rng(n)
    root, gbar = rng.normal(size=(2, n, n))
    a = root @ root.T + n * np.eye(n)
    run = swept("cholesky", a, gbar=gbar)
    lower = np.linalg.cholesky(a)
    product = np.tril(lower.T @ np.tril(gbar))
    inverse = np.linalg.inv(lower)
    both = inverse.T @ (product + product.T - np.diag(np.diag(product))) @ inverse
    close(run.a, np.tril(both) - 0.5 * np.diag(np.diag(both)))


@pytest.mark.parametrize("a", [[[1.0, 0.0], [2.0, 1.0]], [[-1.0]], [[0.0]]])
def test_cholesky_of_what_is_not_positive_definite(a):
    assert swept("cholesky", a).status == FACTOR
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(a)


@pytest.mark.parametrize("name", ["cholesky", "solve", "inv"])
@pytest.mark.parametrize("n", [2, 13])
def test_attempts_that_fail_say_so_and_go_on(name, n):
    operands = [np.zeros((n, n)), *([np.ones((n, 3))] if name == "solve" else [])]
    run = Run(ARRAY_OPS[f"attempted_{name}"], operands)
    assert run.forward() == DONE
    assert not run.result().any()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["solve_lower", "solve_upper", "solve_lower_unit", "solve_upper_unit"])
@pytest.mark.parametrize("k", [1, 3])
def test_triangular_solve_reads_its_triangle_only(name, k, layout):
    op = ARRAY_OPS[name]
    a, b = sample(op, ((5, 5), (5, k)))
    gbar = np.random.default_rng(1).normal(size=(5, k))
    plain = swept(name, a, b, gbar=gbar, layout=layout)
    inside = np.tri(5, k=-int("unit" in name), dtype=bool)
    outside = ~(inside if "lower" in name else inside.T)
    a[outside] = math.nan
    run = swept(name, a, b, gbar=gbar, layout=layout)
    np.testing.assert_array_equal(run.value, plain.value)
    np.testing.assert_array_equal(run.a, plain.a)
    np.testing.assert_array_equal(run.b, plain.b)
    np.testing.assert_array_equal(run.a[outside], 0.0)


@pytest.mark.parametrize("name", ["solve", "inv", "solve_lower", "solve_upper"])
def test_singular_systems_fail(name):
    singular = np.array([[1.0, 0.0], [0.0, 0.0]])
    operands = (singular,) if name == "inv" else (singular, np.ones((2, 1)))
    assert swept(name, *operands).status == FACTOR


def cofactors(a):
    n = len(a)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            result[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return result


LOW_RANK = np.random.default_rng(4)
SINGULAR = {
    "n=1": np.zeros((1, 1)),
    "zero": np.zeros((2, 2)),
    "zero 3": np.zeros((3, 3)),
    "1 to 9": np.arange(1.0, 10.0).reshape(3, 3),
    "first column zero": np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 5.0], [0.0, 1.0, 7.0]]),
    "equal rows": np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]),
    "rank n-1": LOW_RANK.normal(size=(6, 5)) @ LOW_RANK.normal(size=(5, 6)),
    "rank n-2": LOW_RANK.normal(size=(6, 4)) @ LOW_RANK.normal(size=(4, 6)),
    "rank 1": np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0, 0.0]),
    "nearly singular": np.diag([1.0, 1e-9, 2.0]) + np.triu(np.ones((3, 3)), 1),
    "scaled rows": np.diag([1e8, 1.0, 1e-8]) @ LOW_RANK.normal(size=(3, 3)),
}


@pytest.mark.parametrize("a", SINGULAR.values(), ids=list(SINGULAR))
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gaps"])
def test_det_has_the_true_cofactors(a, layout):
    run = swept("det", a, layout=layout, gbar=0.5)
    close(run.value, np.linalg.det(a))
    close(2.0 * run.a, cofactors(a))


def test_det_survives_pivots_that_overflow_on_the_way():
    a = np.diag([1e200, 1e200, 1e-200, 1e-200])
    np.testing.assert_allclose(swept("det", a).value, 1.0, rtol=1e-14)
    assert swept("det", np.diag([1e200, 1e200])).value == math.inf


@pytest.mark.parametrize("a", [np.zeros((1, 1)), np.ones((2, 2)), np.zeros((3, 3))])
def test_slogdet_of_singular(a):
    run = swept("logabsdet", a)
    assert run.value == -math.inf
    assert np.isnan(run.a).all()
    assert swept("detsign", a).value == 0.0


# ---- gather


@pytest.mark.parametrize("position", [3.0, -4.0, math.nan, math.inf, 1e300])
@pytest.mark.parametrize("name", ["take", "take1"])
def test_positions_outside_are_refused(name, position):
    cells = np.ones((3, 2)) if name == "take" else np.ones(3)
    assert swept(name, cells, [0.0, position]).status == INDEX


def test_repeated_positions_add_up():
    run = swept("take1", [5.0, 6.0, 7.0], [0.0, -1.0, 2.0, 0.0], gbar=[1.0, 10.0, 100.0, 1000.0])
    np.testing.assert_array_equal(run.value, [5.0, 7.0, 7.0, 5.0])
    close(run.a, [1001.0, 0.0, 110.0])


def test_a_cotangent_of_zero_stays_zero():
    """Whatever the coefficients of a recurrence of cotangents are."""
    cells = np.array([np.inf, np.nan, 3.0, 0.0, 2.0, 1.0, 0.0, *[np.nan] * 4])
    assert ARRAY_OPS["weighed_recurrence"].forward(Cells(cells), 7, 0, 3, 6, 3, 1, 1) == DONE
    np.testing.assert_array_equal(cells[7:], [0.0, 0.0, 2.0, 7.0])


def test_slim_products_of_long_rows():
    """Three to eight columns: the adjoints of points in a matrix of their distances, also as a sum."""
    rng = np.random.default_rng(3)  # 401 * 3 and 410 * 3 entries are more than SLIM_PRODUCT
    for k in (3, 4, 7):
        x, y, w = rng.normal(size=(401, k)), rng.normal(size=(k, 410)), rng.normal(size=(401, 410))
        found = nt.grad(lambda x, y, w: np.sum((x @ y) ** 2 * w) + np.sum(x[0]), argnums=(0, 1))(x, y, w)
        cotangent = 2.0 * w * (x @ y)
        first = np.zeros_like(x)
        first[0] = 1.0
        np.testing.assert_allclose(found[0], cotangent @ y.T + first, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(found[1], x.T @ cotangent, rtol=1e-12, atol=1e-11)
