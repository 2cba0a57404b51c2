"""Arms of the chain for contiguous vectors, and sums of products that become dots."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape.engine import Workspace, make_plan, verify
from numbatape.engine.checked import CheckedWorkspace
from numbatape.engine.vectors import FIRST_VECTOR, PATTERNS, vector_arms
from numbatape.errors import VerificationError
from numbatape.ops import OPCODE, OPS, oracle
from numbatape.ops.status import DONE
from numbatape.recording.record import InputLeaf, record
from numbatape.tape.tape import ACTIVE, CONSTANT
from numbatape.trace.primitives import elementwise
from tests.every_case import every

ARMS = [(op.name, pattern) for _, op, pattern in vector_arms()]
LENGTHS = [2, 3, 4, 7, 8, 17, 55]  # around the numbers of SIMD lanes


def program(name, pattern, n, level=ACTIVE):
    """Return (tape, inputs) of one op on vectors of n cells, and scalars where the pattern says so."""
    rng = np.random.default_rng(n)
    inputs = [rng.uniform(0.5, 2.0, n if kind == "v" else ()) for kind in pattern]
    op = OPS[OPCODE[name]]

    def function(*traced):
        values = [x._value for x in traced]
        return (elementwise(op, *traced, value=oracle(op)(*values)),)

    leaves = [InputLeaf(x if np.ndim(x) else np.float64(x), level) for x in inputs]
    return record(function, leaves, lambda traced: (tuple(traced), {})).tape, inputs


def computed(space, tape, inputs):
    for slot, x in zip(tape.inputs, inputs, strict=True):
        space.set(slot.value, x) if isinstance(space, CheckedWorkspace) else None
    if isinstance(space, Workspace):
        for cells, x in zip(space.inputs, inputs, strict=True):
            cells[...] = x
    assert space.forward() == DONE
    return space.outputs[0].copy() if isinstance(space, Workspace) else space.view(tape.outputs[0])


def swept(space, tape, inputs, cotangents):
    value = computed(space, tape, inputs)
    space.seed[...] = cotangents
    space.reverse()
    if isinstance(space, Workspace):
        return [value, *(g.copy() for g in space.gradients)]
    return [value, *(space.view(s.value, adjoint=True) for s in tape.inputs)]


@every("n", LENGTHS)
@pytest.mark.parametrize("name, pattern", ARMS, ids=lambda x: x)
def test_every_arm_at_every_length(name, pattern, n):
    tape, inputs = program(name, pattern, n)
    plan = make_plan(tape, tuple(k for x in inputs for k in np.shape(x)))
    opcode = next(code for code, op, p in vector_arms() if (op.name, p) == (name, pattern))
    if len(pattern) < 3:
        assert plan.code[0, 0] & 0xFFFF == opcode
        assert plan.code[0, 4] == n
        assert plan.kernels == ()
    else:  # there is no reverse arm, so that the kernel by pointer serves, but for constants
        assert plan.kernels
        tape = program(name, pattern, n, CONSTANT)[0]
        forward = make_plan(tape, plan.dimensions)
        assert forward.code[0, 0] & 0xFFFF == opcode
        assert forward.aux[forward.code[0, 4] + 1] == n
        assert forward.kernels == ()
        for space in (Workspace(forward), CheckedWorkspace(forward)):
            np.testing.assert_array_equal(computed(space, tape, inputs), oracle(OPS[OPCODE[name]])(*inputs))
        tape = program(name, pattern, n)[0]
    cotangents = np.random.default_rng(n).normal(size=n)
    cotangents[::3] = 0.0
    compiled = swept(Workspace(plan), tape, inputs, cotangents)
    checked = swept(CheckedWorkspace(plan), tape, inputs, cotangents)
    np.testing.assert_array_equal(compiled[0], oracle(OPS[OPCODE[name]])(*inputs))
    for ours, its in zip(compiled, checked, strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-14, atol=1e-15)
    for k, x in enumerate(inputs):
        step = 1e-6
        ends = [oracle(OPS[OPCODE[name]])(*inputs[:k], x + h, *inputs[k + 1 :]) for h in (step, -step)]
        slope = cotangents * (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(
            compiled[1 + k], slope if np.ndim(x) else slope.sum(), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("n", [4, 7])
def test_a_zero_cotangent_adds_nothing(n):
    """Neither to vectors nor to a scalar, whatever stands on the other side."""
    for pattern in PATTERNS[2]:
        tape, inputs = program("mul", pattern, n)
        inputs = [np.full(np.shape(x), np.inf) for x in inputs]
        plan = make_plan(tape, tuple(k for x in inputs for k in np.shape(x)))
        for space in (Workspace(plan), CheckedWorkspace(plan)):
            for adjoint in swept(space, tape, inputs, np.zeros(n))[1:]:
                np.testing.assert_array_equal(adjoint, 0.0)


def test_the_number_of_cells_is_verified():
    tape, _ = program("add", "vs", 8)
    plan = make_plan(tape, (8,))
    for count in (9, 0, -1, 2**31 - 1):
        code = plan.code.copy()
        code[0, 4] = count
        with pytest.raises(VerificationError, match="instruction 0, add"):
            verify(dataclasses.replace(plan, code=code))
    for opcode in (FIRST_VECTOR, FIRST_VECTOR + 1, FIRST_VECTOR + len(vector_arms())):  # vv, sv, none
        code = plan.code.copy()
        code[0, 0] = opcode | code[0, 0] & ~0xFFFF
        with pytest.raises(VerificationError, match="instruction 0, add"):
            verify(dataclasses.replace(plan, code=code))


def test_the_record_of_a_fused_arm_is_verified():
    tape, _ = program("addmul", "vvs", 8, CONSTANT)
    plan = make_plan(tape, (8, 8))
    record = plan.code[0, 4]
    for place, number in ((1, 9), (1, 0), (6, -1), (6, 10**6)):
        aux = plan.aux.copy()
        aux[record + place] = number
        with pytest.raises(VerificationError, match="instruction 0, addmul"):
            verify(dataclasses.replace(plan, aux=aux))
    for number in (-1, len(plan.aux), 2**31 - 1):
        code = plan.code.copy()
        code[0, 4] = number
        with pytest.raises(VerificationError, match="instruction 0, addmul"):
            verify(dataclasses.replace(plan, code=code))


def test_operands_may_share_cells():
    x = np.arange(1.0, 12.0)
    gradient = nt.grad(lambda x: np.sum((x[1:] * x[:-1] + x[1:]) * x[0]))(x)
    inner = x[1:] * x[:-1] + x[1:]
    expected = np.zeros(11)
    expected[1:] += x[0] * (x[:-1] + 1)
    expected[:-1] += x[0] * x[1:]
    expected[0] += inner.sum()
    np.testing.assert_allclose(gradient, expected, rtol=1e-14)


# ---- sums of products, and products in sums


def names(function, *args):
    tape = nt.prepare_gradient_cache(function, *args).tape
    return [tape.name_of(k) for k in range(len(tape))]


def shared(x, y):
    z = x * y
    return np.sum(z) + z[0]


def returned_view(x, y):
    z = x * y
    return np.sum(z) * np.max(z)


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x, y: np.sum(x * y), ["dot"]),
        (lambda x, y: np.sum(x**2), ["dot"]),
        (lambda x, y: np.sum(x * y) + np.sum(y * y), ["dot", "dot", "add"]),
        (lambda x, y: np.sum(x * x[0]), ["mul", "sum"]),
        (lambda x, y: np.sum(x * y[:1]), ["mul", "sum"]),
        (shared, ["mul", "sum", "add"]),
        (returned_view, ["mul", "sum", "max", "mul"]),
    ],
)
def test_which_sums_are_dots(function, expected):
    x, y = np.arange(1.0, 6.0), np.arange(5.0)[::-1].copy()
    assert names(function, x, y) == expected
    cache = nt.prepare_gradient_cache(function, x, y)
    value, gradients = nt.value_and_gradient(cache, x, y)
    assert value == function(x, y)
    for k, j in itertools.product(range(2), range(5)):
        steps = [[x.copy(), y.copy()] for _ in range(2)]
        steps[0][k][j] += 1e-6
        steps[1][k][j] -= 1e-6
        slope = (function(*steps[0]) - function(*steps[1])) / 2e-6
        np.testing.assert_allclose(gradients[k][j], slope, rtol=1e-6, atol=1e-6)


def test_rows_are_summed_as_dots():
    x, y = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    assert names(lambda x, y: np.max(np.sum(x * y, axis=1)), x, y) == ["dot", "max"]
    value, (gx, gy) = nt.value_and_grad(lambda x, y: np.sum(np.sum(x * y, axis=1) ** 2), (0, 1))(x, y)
    rows = x @ y
    np.testing.assert_allclose(value, rows @ rows, rtol=1e-15)
    np.testing.assert_allclose(gx, 2 * np.outer(rows, y), rtol=1e-15)
    np.testing.assert_allclose(gy, 2 * rows @ x, rtol=1e-15)


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x, y: np.sum(x * y), ["dot"]),
        (lambda x, y: np.sum(x**2), ["dot"]),
        (lambda x, y: np.sum(x.T * y.T), ["mul", "sum"]),
        (lambda x, y: np.sum((x * y)[1:]), ["mul", "sum"]),
        (lambda x, y: np.sum(x * y[0]), ["mul", "sum"]),
        (lambda x, y: np.sum(x * y[:, :1]), ["mul", "sum"]),
    ],
)
def test_sums_of_whole_matrices_are_dots(function, expected):
    rng = np.random.default_rng(0)
    x, y, dx, dy = rng.normal(size=(4, 3, 5))
    assert names(function, x, y) == expected
    cache = nt.prepare_gradient_cache(function, x, y)
    for rows in (3, 6):
        x, y, dx, dy = rng.normal(size=(4, rows, 5))
        value, (gx, gy) = nt.value_and_gradient(cache, x, y)
        np.testing.assert_allclose(value, function(x, y), rtol=1e-14)
        slope = (function(x + dx, y + dy) - function(x - dx, y - dy)) / 2  # quadratic: exact
        np.testing.assert_allclose(np.sum(gx * dx) + np.sum(gy * dy), slope, rtol=1e-12)


def test_a_dot_is_as_accurate_as_a_sum():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 200_000))
    value = nt.value_and_grad(lambda x: np.sum(x * y))(x)[0]
    exact = np.sum(np.asarray(x * y, np.longdouble))
    assert abs(value - exact) <= 2 * abs(np.sum(x * y) - exact) + 1e-13 * np.sum(np.abs(x * y))


def test_a_masked_sum_of_products_stays_finite():
    y = np.array([1.0, np.inf])
    gradient = nt.grad(lambda x: np.where(x[0] > 0, x[0], np.sum(x * y)))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(gradient, [1.0, 0.0])


def without_passes(function, *args):
    cache = nt.prepare_gradient_cache(function, *args, config=nt.Config(passes="none"))
    return nt.value_and_gradient(cache, *args)[1]


def twice_read(x, y):
    z = x[0] * y[0]
    return z + z * x[1]


def written_later(x, y):
    z = np.zeros(2)
    z[0] = x[0]
    product = z[0] * y[0]
    z[0] = 7.0
    return product + z[0] * x[1]


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x, y: x[0] + x[1] * y[0], ["addmul"]),
        (lambda x, y: x[1] * y[0] + x[0], ["addmul"]),
        (lambda x, y: x[1] ** 2 + x[0], ["addmul"]),
        (lambda x, y: x[0] * y[0] + x[1] * y[1], ["mul", "addmul"]),
        (lambda x, y: x[0] * y[0] + x[1] * y[1] + x[2] * y[2], ["mul", "addmul", "addmul"]),
        (lambda x, y: x[0] * y[0] - x[1], ["mulsub"]),
        (lambda x, y: x[1] - x[0] * y[0], ["submul"]),
        (lambda x, y: x[0] * y[0] - x[1] ** 2, ["mul", "submul"]),
        (lambda x, y: np.sum(x * y - y), ["mul", "sub", "sum"]),
        (lambda x, y: np.sum(x[:2] * y[:2] + x[2]), ["mul", "add", "sum"]),
        (lambda x, y: np.sum(x * y + x), ["addmul", "sum"]),
        (lambda x, y: np.sum(x * y[0] + x), ["mul", "add", "sum"]),
        (lambda x, y: np.sum(x[::2] * y[1:] + x[1:]), ["mul", "add", "sum"]),
        (twice_read, ["mul", "addmul"]),
        (written_later, ["mul", "addmul"]),
    ],
)
def test_which_products_are_fused_with_their_sum(function, expected):
    x, y = np.array([0.3, -1.7, 0.9]), np.array([1.1, 0.7, -0.4])
    found = [name for name in names(function, x, y) if name != "copy"]
    assert found == expected
    value, gradients = nt.value_and_grad(function, (0, 1))(x, y)
    assert value == function(x, y)  # every rounding stays
    for ours, its in zip(gradients, without_passes(function, x, y), strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-15)


def test_an_addend_that_is_constant_takes_no_adjoint():
    def recurrence(x, y):
        s = y[0]
        for k in range(6):
            s = y[k] + s * x[k % 3]  # the carried value is a factor
            s = s + x[0] * x[0]  # and an addend, in the register
        return s

    x, y = np.array([0.9, -0.4, 0.3]), np.linspace(-1, 1, 6)
    ours = nt.grad(recurrence)(x, nt.Constant(y))
    np.testing.assert_allclose(ours, without_passes(recurrence, x, nt.Constant(y))[0], rtol=1e-14)
    hessian = nt.hessian(recurrence)(x, nt.Constant(y))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-13, atol=1e-15)
    step = 1e-5 * np.eye(3)
    slopes = [
        nt.grad(recurrence)(x + h, nt.Constant(y)) - nt.grad(recurrence)(x - h, nt.Constant(y)) for h in step
    ]
    np.testing.assert_allclose(hessian, np.array(slopes) / 2e-5, rtol=1e-7, atol=1e-8)


def test_what_is_added_first_to_all_of_a_buffer_is_copied():
    def f(x):
        y = np.sin(x)
        return np.sum(y[:3] * y[1:]) + np.sum(y * y[::-1]) + np.sum(np.broadcast_to(y, (2, 4)).T ** 3)

    x = np.array([0.3, -1.7, 0.9, 0.4])
    cache = nt.prepare_hessian_cache(f, x)
    value, gradient, hessian = nt.value_gradient_and_hessian(cache, x)
    plain = nt.prepare_hessian_cache(f, x, config=nt.Config(passes="none"))
    for ours, its in zip((value, gradient, hessian), nt.value_gradient_and_hessian(plain, x), strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-13, atol=1e-15)
    step = 1e-5 * np.eye(4)
    slopes = [(nt.grad(f)(x + h) - nt.grad(f)(x - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(hessian, slopes, rtol=1e-7, atol=1e-8)

    def count(cache, name):
        (variant,) = cache._wide.program.snapshot()
        return [variant.tape.name_of(k) for k in range(len(variant.tape))].count(name)

    assert count(cache, "fill") < count(plain, "fill")


@pytest.mark.parametrize("n", [2, 5, 40, 1100])
@pytest.mark.parametrize("columns", [2, 4, 9])
def test_columns_are_summed_row_by_row(n, columns):
    rng = np.random.default_rng(n)
    x, w = rng.normal(size=(n, columns)), rng.normal(size=columns)
    value, gradient = nt.value_and_grad(lambda x: np.sum(np.sum(x, axis=0) * w))(x)
    np.testing.assert_allclose(value, np.sum(x, axis=0) @ w, rtol=1e-12)
    np.testing.assert_array_equal(gradient, np.broadcast_to(w, x.shape))
    stack = rng.normal(size=(3, n, columns))
    total = nt.value_and_grad(lambda x: np.sum(np.sum(np.sin(x), axis=1)[:, ::-1] * w))(stack)
    np.testing.assert_allclose(total[0], np.sum(np.sin(stack).sum(axis=1)[:, ::-1] * w), rtol=1e-12)
    np.testing.assert_allclose(total[1], np.cos(stack) * w[::-1], rtol=1e-12)


def test_float32_rounds_after_the_product():
    x, y, z = (np.array(v, np.float32) for v in ([1.0 + 2.0**-12], [1.0 + 2.0**-12], [-1.0 - 2.0**-11]))
    f = lambda x, y, z: (x * y + z)[0]  # noqa: E731
    assert nt.value_and_grad(f)(x, y, z)[0] == f(x, y, z) == 0.0
    assert nt.value_and_grad(f)(*(v.astype(float) for v in (x, y, z)))[0] == 2.0**-24


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_a_matrix_are_multiplied_alike_however_many_there_are(dtype):
    """Four rows at a time, and those that are left, add up their products in one order."""
    rng = np.random.default_rng(5)
    for columns in (3, 4, 5, 7, 8, 11, 16, 19, 38):
        matrix, x = rng.normal(size=(9, columns)).astype(dtype), rng.normal(size=columns).astype(dtype)
        cache = nt.prepare_pullback_cache(lambda a, x: a @ x, matrix, x)
        products = [
            nt.value_and_pullback(cache, np.ones(rows, dtype), matrix[:rows], x)[0] for rows in (9, 8, 7)
        ]
        for fewer in products[1:]:
            np.testing.assert_array_equal(products[0][: len(fewer)], fewer)
        np.testing.assert_allclose(products[0], matrix @ x, rtol=100 * np.finfo(dtype).eps, atol=1e-6)


def test_extrema_give_their_adjoint_by_one_instruction_for_each_operand():
    gradient = nt.grad(lambda x, y: np.sum(np.maximum(x, y) * np.minimum(x, 0.5)), argnums=(0, 1))
    x, y = np.array([0.1, 0.7, 0.5, 0.5, np.nan]), np.array([0.2, 0.3, 0.4, 0.5, 0.0])
    by_x, by_y = gradient(x, y)
    np.testing.assert_allclose(by_x[:4], [0.2, 0.5, 0.5 + 0.25, 0.25 + 0.25])
    np.testing.assert_allclose(by_y[:4], [0.1, 0.0, 0.0, 0.25])
    traced = nt.prepare_gradient_cache(
        lambda x, y: np.sum(nt.grad(lambda x: np.sum(np.maximum(x, y)))(x) * y), x, nt.Constant(y)
    )
    listing = traced.tape.listing()
    assert "upper_share" in listing
    assert not any(name in listing for name in ("greater", "equal", "where"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_short_rows_have_the_logsumexp_that_each_has_alone(dtype):
    """Rows in lanes, and a row whose entries are in lanes: one value, also where entries are infinite."""
    rng = np.random.default_rng(3)
    for columns in (1, 2, 4, 7, 8, 15, 16):
        rows = (rng.normal(size=(11, columns)) * rng.choice([1e-3, 1.0, 40.0], size=(11, 1))).astype(dtype)
        rows[1] = rows[1, 0]
        rows[2, 0], rows[3], rows[4, -1] = np.inf, -np.inf, np.nan
        cache = nt.prepare_pullback_cache(lambda x: scipy.special.logsumexp(x, axis=1), rows)
        total, (slopes,) = nt.value_and_pullback(cache, np.ones(11, dtype), rows)
        exact = scipy.special.logsumexp(rows.astype(float), axis=1)
        np.testing.assert_allclose(total, exact, rtol=4 * np.finfo(dtype).eps)
        for row, its, slope in zip(rows, total, slopes, strict=True):
            alone, (its_slope,) = nt.value_and_pullback(cache, np.ones(1, dtype), row[None])
            np.testing.assert_array_equal(alone, its)
            np.testing.assert_array_equal(its_slope[0], slope)
        far = np.isfinite(exact)
        expected = np.exp(rows[far].astype(float) - exact[far][:, None])
        np.testing.assert_allclose(slopes[far], expected, rtol=40 * 100 * np.finfo(dtype).eps, atol=1e-12)
        np.testing.assert_array_equal(slopes[3], np.zeros(columns))
