"""Second derivatives of every row of the op table, through nested verbs, against the table itself.

A row's second partials (checked against mpmath in tests/test_op_formulas.py) are not what second
derivatives are made of: those come from its first partials, differentiated as compositions of rows.
"""

import itertools

import numpy as np
import pytest

import numbatape as nt
from numbatape.ops import OPS, Elementwise, oracle
from numbatape.ops.libm import PREFIX
from numbatape.ops.oracles import needs_shape
from numbatape.ops.table import BOOLEAN, OPERANDS
from numbatape.trace.primitives import array_instruction, elementwise, value_of
from tests.every_case import every
from tests.formulas import completed, evaluate

# "cast" has other cells; the others' second derivatives would be third ones for parameters.
PARAMETERS = (
    "gammainc_a gammainc_aa betainc_a betainc_b betainc_aa betainc_ab betainc_bb stdtr_rise stdtr_rise_n"
)
LAST = ("cast", *PARAMETERS.split())
ELEMENTWISE = [op for op in OPS if isinstance(op, Elementwise) and op.differentiable]
ROWS = [op for op in ELEMENTWISE if op.name not in LAST and not op.name.startswith(PREFIX)]
ARRAY_OPS = [op for op in OPS if not isinstance(op, Elementwise) and op.differentiable]
MODES = ("reverse_over_forward", "forward_over_reverse")


def points_of(op, count):
    rng = np.random.default_rng(sum(map(ord, op.name)))
    for _ in range(count):
        drawn = [int(rng.integers(2)) if domain == BOOLEAN else rng.uniform(*domain) for domain in op.domains]
        if op.follows:
            drawn[-1] = float(evaluate(op.follows, dict(zip(OPERANDS, map(np.float64, drawn), strict=False))))
        yield drawn


def differentiated(op):
    return [k for k, partial in enumerate(op.partials) if partial is not None]


@every("mode", MODES)
@every("op", ROWS, tests=6)
def test_second_partials(op, mode):
    active = differentiated(op)
    config = nt.Config(second_order_mode=mode)
    args = [1.0 if k in active else nt.Constant(1.0) for k in range(op.arity)]
    cache = None
    for point in points_of(op, 4):
        args = [x if k in active else nt.Constant(x) for k, x in enumerate(point)]
        if cache is None:
            cache = nt.prepare_hessian_cache(
                lambda *xs: elementwise(op, *completed(op, xs)), *args, config=config
            )
        _, _, hessian = nt.value_gradient_and_hessian(cache, *args)
        names = dict(zip(OPERANDS, map(np.float64, point), strict=False))
        names["z"] = evaluate(op.value, names)
        for k in active:
            names["d" + OPERANDS[k]] = evaluate(op.partials[k], names)
        for i, j in itertools.product(active, active):
            pair = "".join(sorted(OPERANDS[i] + OPERANDS[j], key=OPERANDS.index))
            want = evaluate(op.second.get(pair, "0.0"), names)
            got = hessian if len(active) == 1 else hessian[i][j]
            np.testing.assert_allclose(got, want, rtol=2e-10, atol=1e-13, err_msg=f"{pair} at {point}")


def sample(op, shapes):
    rng = np.random.default_rng(7)
    if op.make:
        return [np.asarray(x) for x in op.make(rng, shapes)]
    return [rng.normal(size=shape) for shape in shapes]


CASES = [
    pytest.param(op, shapes, id=f"{op.name}-{'-'.join(map(str, shapes)).replace(' ', '')}")
    for op in ARRAY_OPS
    for shapes in op.cases
    if op.name not in ("det",) or shapes != ((0, 0),)
]


def test_every_differentiable_array_op_has_a_pullback():
    assert {op.name for op in ARRAY_OPS if op.pullback is None} <= {"call"}


@every("op, shapes", CASES, tests=6)
def test_array_op(op, shapes):
    """Both nestings agree, with each other (for an op's last shapes) and with differences of the gradient."""
    operands = sample(op, shapes)
    index = ["abc".index(x) for x in op.index]
    rng = np.random.default_rng(11)
    shape = np.shape(oracle(op)(*operands))
    weights = rng.normal(size=shape)
    scale = 1.0 / (1.0 + np.abs(oracle(op)(*operands)).max(initial=0.0))

    def f(*xs):
        value = oracle(op)(*map(value_of, xs))
        z = array_instruction(op, xs, np.asarray(value)[()])
        return np.sum(weights * np.sin(scale * z))

    args = [nt.Constant(x) if k in index else x for k, x in enumerate(operands)]
    active = [k for k in range(len(operands)) if k not in index]
    directions = [rng.normal(size=operands[k].shape) for k in active]
    results = []
    for mode in MODES if shapes == op.cases[-1] else MODES[:1]:
        cache = nt.prepare_hvp_cache(f, *args, config=nt.Config(second_order_mode=mode))
        v = tuple(directions) if len(active) > 1 else directions[0]
        value, gradient, product = nt.value_and_hvp(cache, v, *args)
        results.append((gradient, product) if len(active) > 1 else ((gradient,), (product,)))
    reference = nt.prepare_gradient_cache(f, *args)
    plain_value, plain = nt.value_and_gradient(reference, *args)
    np.testing.assert_allclose(value, plain_value, rtol=1e-13, atol=1e-13)

    def gradient_at(step):
        moved = list(args)
        for k, d in zip(active, directions, strict=True):
            if "abc"[k] not in op.stepwise:
                moved[k] = operands[k] + step * d
        return nt.value_and_gradient(reference, *moved)[1]

    h = 2e-4
    stencil = [(1, 672), (2, -168), (3, 32), (4, -3)]  # eighth order
    sides = {s: gradient_at(s * h) for n, _ in stencil for s in (n, -n)}
    for place, k in enumerate(active):
        first, second = (np.asarray(results[k][1][place]) for k in (0, -1))
        size = 1.0 + np.abs(first).max(initial=0.0)
        np.testing.assert_allclose(first, second, rtol=1e-11, atol=1e-12 * size)
        for gradient, _ in results:
            np.testing.assert_allclose(gradient[place], plain[k], rtol=1e-11, atol=1e-12)
        if not op.name.startswith(("max", "min", "sort")):
            difference = sum(w * (sides[n][k] - sides[-n][k]) for n, w in stencil) / (840 * h)
            np.testing.assert_allclose(first, difference, rtol=1e-7, atol=1e-7 * size)


# Ops whose results have sizes of their own; their derivatives are tested with the functions that record them.
WITH_SHAPES = {"fill", "arange", "scatter", "scatter1", "spread", "stencil"}


def test_ops_that_need_shapes():
    assert {op.name for op in OPS if needs_shape(op)} == WITH_SHAPES


@every("op, shapes", CASES)
def test_forward_is_the_transpose_of_reverse(op, shapes):
    operands = sample(op, shapes)
    index = ["abc".index(x) for x in op.index]
    args = [nt.Constant(x) if k in index else x for k, x in enumerate(operands)]
    active = [k for k in range(len(operands)) if k not in index]
    rng = np.random.default_rng(13)

    def f(*xs):
        return array_instruction(op, xs, np.asarray(oracle(op)(*map(value_of, xs)))[()])

    tangents = [rng.normal(size=operands[k].shape) if k in active else None for k in range(len(args))]
    value, pushed = nt.jvp(f, tuple(args), tuple(tangents))
    ybar = rng.normal(size=np.shape(value))
    _, pullback = nt.vjp(f, *args)
    pulled = pullback(ybar)
    left = np.sum(ybar * pushed)
    right = sum(np.sum(pulled[k] * tangents[k]) for k in active)
    np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-11)


def cells_of(case) -> int:
    return sum(map(np.prod, case.values[1]))


# Of each op its largest operands that have few enough cells for whole matrices of derivatives.
FEW_CELLS = [case for case in CASES if 2 <= cells_of(case) <= 50 and 0 not in case.values[1][0]]
OF_PATTERNS = list({case.values[0].name: case for case in sorted(FEW_CELLS, key=cells_of)}.values())


def test_every_op_has_operands_for_its_patterns():
    assert {op.name for op in ARRAY_OPS if op.cases} == {case.values[0].name for case in OF_PATTERNS}


def of_cells(op, operands, chosen):
    """Return an op's result as a function of the cells of some operands, its weighted sum, and the cells."""
    ends = np.cumsum([0, *(operands[k].size for k in chosen)])
    value = np.asarray(oracle(op)(*operands))
    weights = np.cos(1.0 + np.arange(value.size)).reshape(value.shape)

    def result(x):
        xs = list(operands)
        for k, first, end in zip(chosen, ends[:-1], ends[1:], strict=True):
            xs[k] = np.reshape(x[first:end], operands[k].shape)
        return array_instruction(op, xs, np.asarray(oracle(op)(*map(value_of, xs)))[()])

    return (
        result,
        lambda x: np.sum(weights * result(x)),
        np.concatenate([operands[k].ravel() for k in chosen]),
    )


@every("op, shapes", OF_PATTERNS, tests=6)
def test_patterns_miss_no_entry(op, shapes):
    """What ``depends`` and ``interacts`` say of an op has each entry that its derivatives have.

    Each operand is looked at beside constants, too, and all of them together.
    """
    operands = [np.asarray(x, float) for x in sample(op, shapes)]
    active = [k for k in range(len(operands)) if "abc"[k] not in (*op.index, *op.stepwise)]
    for chosen in [active, *([k] for k in active if len(active) > 1)]:
        result, total, x = of_cells(op, operands, chosen)
        jacobian, hessian = np.reshape(nt.jacobian(result)(x), (-1, x.size)), nt.hessian(total)(x)
        for exact, found in (
            (jacobian, nt.sparsity(result, x)),
            (hessian, nt.sparsity(total, x, order=2)),
        ):
            assert not (np.abs(exact) > 1e-11 * np.abs(exact).max(initial=1.0))[found.toarray() == 0].any()
