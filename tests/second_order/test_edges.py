"""Second and third derivatives at ties, zeros and other special cases of the rows' formulas.

Higher derivatives are made of the text of a row's partials. A case in it (``... if x != y else 0.5``)
has a derivative of its own, which must be the function's. The convention where the one-sided limits
differ: a second derivative is their mean where it is odd, and their common value where it is even.
"""

import itertools

import numpy as np
import pytest

import numbatape as nt
from numbatape.trace.primitives import elementwise
from tests.every_case import every
from tests.formulas import completed, evaluate
from tests.second_order.test_rows import ROWS, differentiated
from tests.test_op_formulas import BY_NAME, OPERANDS, exactly, hard_points, partials_at

MODES = ("reverse_over_forward", "forward_over_reverse")
WHOLE = ("yn", "kn", "expn", "lpmv", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn")
GRID = {1: (0.0, -0.0, 1.0, -1.0, 0.5), 2: (0.0, 1.0, -1.0, 0.5), 3: ()}
# Whose table itself cancels there, or divides by a denormal number; steps of whole exponents.
LEFT_OUT = {"hypot": [(5e-324, 0.0)], "ldexp": [(1e-300, 1100.0), (-1.0, -3.0)]}


def edges_of(op):
    grid = itertools.product(GRID[op.arity], repeat=op.arity)
    if op.name in WHOLE:
        grid = [(float(n), x) for n in range(3) for x in (0.0, 0.5)] if op.arity == 2 else []
    elif op.name == "kolmogi":
        grid = [(0.5,)]
    elif op.opaque or op.name in ("poch", "binom", "beta", "betaln", "ldexp"):  # poles, and orders left of 0
        grid = [point for point in grid if point[0] > 0.0]
    points = dict.fromkeys(tuple(completed(op, point)) for point in [*grid, *op.edges, *hard_points(op)])
    return [p for p in points if p not in LEFT_OUT.get(op.name, ()) and not np.isnan(p).any()]


def hessian_cache(op, mode):
    active = differentiated(op)
    args = [0.5 if k in active else nt.Constant(0.5) for k in range(op.arity)]
    if op.name in WHOLE:
        args[0] = nt.Constant(1.0)
    config = nt.Config(second_order_mode=mode)
    return nt.prepare_hessian_cache(lambda *xs: elementwise(op, *completed(op, xs)), *args, config=config)


@every("op", [op for op in ROWS if edges_of(op) and op.name != "ldexp"], tests=6)
def test_second_derivatives_at_edges_are_the_row_s(op):
    active = differentiated(op)
    caches = [hessian_cache(op, mode) for mode in MODES]
    for point in edges_of(op):
        first, second = partials_at(op, point)
        if not np.isfinite([*first.values(), *second.values()]).all():
            continue  # at the end of a domain; an infinite one times zero is NaN in forward mode
        args = [x if k in active else nt.Constant(x) for k, x in enumerate(point)]
        hessians = [nt.value_gradient_and_hessian(cache, *args)[2] for cache in caches]
        for i, j in itertools.product(active, active):
            pair = "".join(sorted(OPERANDS[i] + OPERANDS[j], key=OPERANDS.index))
            got = [h if len(active) == 1 else h[i][j] for h in hessians]
            np.testing.assert_allclose(
                got, [second[pair]] * 2, rtol=2e-9, atol=2e-12, err_msg=f"{pair} at {point}"
            )


@pytest.mark.parametrize("op", [op for op in ROWS if op.smooth], ids=lambda op: op.name)
def test_what_is_differentiated_again_has_the_partial_s_value(op):
    rng = np.random.default_rng(5)
    drawn = [tuple(rng.uniform(*domain) for domain in op.domains) for _ in range(20)]
    for point in [*edges_of(op), *([] if op.name in WHOLE else drawn)]:
        names = dict(zip(OPERANDS, map(np.float64, point), strict=False))
        names["z"] = evaluate(op.value, names)
        for operand, formula in op.smooth.items():
            want = evaluate(op.partials[OPERANDS.index(operand)], names)
            if np.isfinite([want, names["z"]]).all():
                got = evaluate(formula, names)
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15, err_msg=f"{operand} at {point}")


@pytest.mark.parametrize(
    "name, point, pair, want",
    [
        ("xlogy", (0.0, 0.0), "xy", np.inf),
        ("rel_entr", (0.0, 2.0), "xy", -0.5),
        ("kl_div", (0.0, 2.0), "xy", -0.5),
        ("power", (0.0, 1.0), "xy", -np.inf),
        ("power", (0.0, 0.0), "xy", 0.0),
    ],
    ids=str,
)
def test_mixed_second_derivatives_beside_infinite_ones(name, point, pair, want):
    _, _, hessian = nt.value_gradient_and_hessian(hessian_cache(BY_NAME[name], MODES[0]), *point)
    i, j = map(OPERANDS.index, pair)
    np.testing.assert_allclose([hessian[i][j], hessian[j][i]], want)


# Where a formula has a case and the function has derivatives of all orders.
SMOOTH = [
    ("logaddexp", (1.0, 1.0)),
    ("logaddexp2", (-0.5, -0.5)),
    ("expit", (0.0,)),
    ("log_expit", (0.0,)),
    ("tanh", (0.0,)),
    ("sinc", (0.0,)),
    ("exprel", (0.0,)),
    ("power", (2.0, 0.0)),
    ("power", (3.0, 1.0)),
    ("powm1", (2.0, 0.0)),
    ("boxcox", (2.0, 0.0)),
    ("boxcox", (2.0, 1.0)),
    ("boxcox1p", (1.0, 0.0)),
    ("xlogy", (0.0, 2.0)),
    ("xlog1py", (0.0, 2.0)),
    ("i0", (0.0,)),
    ("i1", (0.0,)),
    ("i1", (1e-9,)),
    ("j0", (1e-9,)),
    ("j1", (0.0,)),
    ("j1", (1e-9,)),
    ("rgamma", (0.0,)),
    ("rgamma", (-1.0,)),
    ("rgamma", (1e-9,)),
    ("trigamma", (-0.25,)),
    ("spence", (1.0,)),
    ("ellipk", (0.0,)),
    ("ellipe", (0.0,)),
    ("ellipkm1", (1.0,)),
    ("sine_integral", (0.0,)),
    ("sinh_integral", (0.0,)),
    ("berp", (0.0,)),
    ("beip", (0.0,)),
    ("spherical_jn", (0.0, 1e-3)),
    ("spherical_in", (1.0, 1e-3)),
]


@pytest.mark.parametrize("name, point", SMOOTH, ids=str)
def test_third_derivatives_at_edges_are_exact(name, point):
    op = BY_NAME[name]
    active = [k for k in differentiated(op) if OPERANDS[k] not in op.opaque]
    for chosen in itertools.combinations_with_replacement(active, 3):

        def derivative(function, k):
            return lambda *xs: nt.derivative(lambda t: function(*xs[:k], t, *xs[k + 1 :]))(xs[k])

        function = lambda *xs: elementwise(op, *xs)  # noqa: E731
        for k in chosen:
            function = derivative(function, k)
        want = float(exactly(op, point, tuple(map(chosen.count, range(op.arity)))))
        np.testing.assert_allclose(function(*point), want, rtol=1e-8, atol=1e-10, err_msg=f"{chosen}")


@pytest.mark.parametrize("logarithm", [np.logaddexp, np.logaddexp2], ids=["e", "2"])
def test_every_second_derivative_of_a_tie(logarithm):
    def f(x):
        return np.sum(logarithm(0.0, x))

    scale = 1.0 if logarithm is np.logaddexp else np.log(2.0)
    x, want = np.zeros(2), 0.25 * scale * np.eye(2)
    for mode in MODES:
        config = nt.Config(second_order_mode=mode)
        cache = nt.prepare_hessian_cache(f, np.ones(2), config=config)
        np.testing.assert_allclose(nt.value_gradient_and_hessian(cache, x)[2], want)
        cache = nt.prepare_hvp_cache(f, np.ones(2), config=config)
        np.testing.assert_allclose(nt.value_and_hvp(cache, np.ones(2), x)[2], want @ np.ones(2))
    np.testing.assert_allclose(nt.hessian(f)(x), want)
    np.testing.assert_allclose(nt.jacobian(nt.grad(f), mode="reverse")(x), want)
    np.testing.assert_allclose(nt.sparse_hessian(f)(x).toarray(), want)
    _, rows = nt.batch(lambda x: np.sum(nt.grad(f)(x)))(np.zeros((3, 2)))
    np.testing.assert_allclose(rows, np.full((3, 2), 0.25 * scale))


# A cotangent that is zero at a point, and not beside it.
PRODUCTS = [
    (lambda x: x * np.exp(x), (0.0, 1.0, 2.0, 3.0)),
    (lambda x: np.sin(x) * np.exp(x), (0.0, 1.0, 2.0, 2.0)),
    (lambda x: x**2 * np.sin(x + 1.0), (0.0, 0.0, 2.0 * np.sin(1.0), 6.0 * np.cos(1.0))),
]


NESTINGS = list(itertools.product([nt.grad, nt.derivative], repeat=3))


@pytest.mark.parametrize("nesting", NESTINGS, ids=lambda verbs: "-".join(verb.__name__ for verb in verbs))
@pytest.mark.parametrize("function, values", PRODUCTS, ids=["x*exp", "sin*exp", "square*sin"])
def test_a_cotangent_that_is_zero_has_a_derivative(function, values, nesting):
    for verb, want in zip((lambda f: f, *nesting), values, strict=True):
        function = verb(function)
        np.testing.assert_allclose(function(0.0), want, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_strong_zero_keeps_the_derivative_of_a_zero(mode):
    """Zero times infinity is zero, and what is zero at one point alone has its derivative."""
    config = nt.Config(second_order_mode=mode, strong_zero=True)

    def f(x):
        return x[0] * x[1] + np.sum(x * x + np.sin(x) * np.expm1(x))

    x = np.zeros(2)
    _, _, got = nt.value_gradient_and_hessian(nt.prepare_hessian_cache(f, x, config=config), x)
    np.testing.assert_allclose(got, [[4.0, 1.0], [1.0, 4.0]], rtol=1e-14)
