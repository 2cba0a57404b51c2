"""``Config(values="numpy")``: elementwise results with NumPy's bits, over the op table."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numbatape as nt
from numbatape.engine import Workspace, make_plan
from numbatape.engine.checked import CheckedWorkspace
from numbatape.ops import OPS, Elementwise, oracle
from numbatape.ops.libm import PREFIX
from numbatape.ops.status import DONE
from numbatape.ops.table import BOOLEAN
from numbatape.recording.record import InputLeaf, record
from numbatape.tape.tape import ACTIVE, VARYING
from numbatape.trace.primitives import elementwise
from tests.every_case import every

COMPOSED = {
    "sinc",
    "trigamma",
    "hurwitz",
    "zeta_rise",
    "erfc_ratio",
    "tanh_slope",
    "turn",
    "power_slope",
    "power_rise",
    "ldexp",
    "kolmogorov_slope",
    "kve_slope",
    "chi2_far",
    "cast",
}  # NumPy has no loop of float64 for them
# Nor for derivatives for parameters (`numbatape.ops.parameters`), results of loops that are named in full.
COMPOSED |= {op.name for op in OPS if op.name.startswith(("gammainc_", "betainc_", "stdtr_rise", "student_"))}
COMPOSED |= {op.name for op in OPS if isinstance(op, Elementwise) and "__" in op.value}
ROWS = [op for op in OPS if isinstance(op, Elementwise) and op.name not in COMPOSED]
ROWS = [op for op in ROWS if not op.name.startswith(PREFIX)]  # see `test_bits_of_math`
DTYPES = [np.float64, np.float32]


def sample(op, dtype):
    rng = np.random.default_rng(3)
    for low, high in op.domains:
        if (low, high) == BOOLEAN:
            yield rng.integers(0, 2, 37).astype(dtype)
        else:
            yield rng.uniform(low, high, 37).astype(dtype)


VIEWS = {
    "array": lambda x: x,
    "scalar": lambda x: x[3],
    "strided": lambda x: x[1::3],
    "pair": lambda x: x[5:7],
}


def same_bits(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected, np.asarray(actual).dtype)
    same = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
    assert np.all(same | (np.isnan(actual) & np.isnan(expected)))


@every("dtype", DTYPES)
@every("op", ROWS, tests=5)
def test_bits(op, dtype):
    if op.name in ("addmul", "addweigh", "submul", "mulsub") and dtype == np.float32:
        return  # products of float32 are not fused with their sum: it would be rounded once instead of twice
    inputs = list(sample(op, dtype))

    def function(*traced):
        results = []
        for pick in VIEWS.values():
            values = oracle(op)(*(pick(x) for x in inputs))
            results.append(elementwise(op, *(pick(x) for x in traced), value=values))
        return tuple(results)

    levels = [VARYING if k in op.opaque else ACTIVE for k in "xyw"]
    leaves = [InputLeaf(x, level) for x, level in zip(inputs, levels, strict=False)]
    tape = record(function, leaves, lambda traced: (tuple(traced), {})).tape
    plan = make_plan(tape, tuple(len(x) for x in inputs), "numpy")
    space = Workspace(plan)
    for cells, x in zip(space.inputs, inputs, strict=True):
        cells[...] = x
    assert space.forward() == DONE
    with np.errstate(all="ignore"):
        for pick, result in zip(VIEWS.values(), space.outputs, strict=True):
            same_bits(result, oracle(op)(*(pick(x) for x in inputs)))


def function(x):
    y = np.exp(x) * np.sin(x) + np.tanh(x[0]) ** 1.5 - np.hypot(x, 2.0)
    return np.sum(y * y) + np.log(x[1])


def test_gradients_are_the_same_derivatives():
    x = np.linspace(0.5, 2.0, 11)
    fast = nt.prepare_gradient_cache(function, x)
    numpy = nt.prepare_gradient_cache(function, x, config=nt.Config(values="numpy"))
    for _ in range(2):
        (value, (gradient,)), (its_value, (its,)) = (nt.value_and_gradient(c, x) for c in (fast, numpy))
        np.testing.assert_allclose(value, its_value, rtol=1e-14)
        np.testing.assert_allclose(gradient, its, rtol=1e-13)


def test_checked_form():
    x = np.linspace(0.5, 2.0, 11)
    tape = nt.prepare_gradient_cache(function, x).tape
    plan = make_plan(tape, (11,), "numpy")
    space, compiled = CheckedWorkspace(plan), Workspace(plan)
    space.set(tape.inputs[0].value, x)
    compiled.inputs[0][...] = x
    for one in (space, compiled):
        assert one.forward() == DONE
        one.reverse()
    np.testing.assert_allclose(space.view(tape.outputs[0]), compiled.outputs[0], rtol=1e-14)
    adjoint = space.view(tape.inputs[0].value, adjoint=True)
    np.testing.assert_allclose(adjoint, compiled.gradients[0], rtol=1e-12)


# Python's own bits: of `math`, and of ``**`` on scalars; NumPy's loops for arrays.
NUMPY = nt.Config(values="numpy")
UNARY = (
    "cos tan sinh cosh tanh atan asinh exp exp2 expm1 log log2 log10 log1p sqrt cbrt erf erfc gamma lgamma"
)


def unary(name, scale=1.0):
    return lambda x: getattr(math, name)(scale * x[0])


def powers(exponent):
    """Yield (name, function) of powers of scalars and of arrays."""
    yield f"x[0]**{exponent!r}", lambda x: x[0] ** exponent
    yield f"x**{exponent!r}", lambda x: (x**exponent)[1]
    if isinstance(exponent, float):
        yield f"power(x, {exponent!r})", lambda x: np.power(x, exponent)[1]
        yield f"power(x[0], {exponent!r})", lambda x: np.power(x[0], exponent)


EXPONENTS = (0, 1, 2, 3, 4, 5, 7, -1, -2, -3, 0.5, -0.5, 1.5, 2.0, 3.0, 4.0, -1.0)
MATH = {name: unary(name) for name in UNARY.split()}
MATH |= {name: unary(name, 0.3) for name in ("sin", "asin", "acos", "atanh")}
MATH |= dict(pair for exponent in EXPONENTS for pair in powers(exponent))
MATH |= {
    "acosh": lambda x: math.acosh(1.0 + x[0]),
    "atan2": lambda x: math.atan2(x[0], x[1]),
    "pow": lambda x: math.pow(x[0], x[1]),
    "hypot": lambda x: math.hypot(x[0], x[1]),
    "hypot of three": lambda x: math.hypot(x[0], x[1], x[2]),
    "dist": lambda x: math.dist(x[:2], x[2:]),
    "fsum": lambda x: math.fsum(x),
    "log, base": lambda x: math.log(x[0], 3.0),
    "remainder": lambda x: math.remainder(x[0], x[1]),
    "degrees": lambda x: math.degrees(x[0]),
    "power of scalars": lambda x: x[0] ** x[1],
    "power of a number": lambda x: 1.7 ** x[0],
    "pow()": lambda x: pow(x[0], 3),
    "two": lambda x: 2.0 ** x[0] * np.exp(x[1]) + math.exp(x[1]),
}


@every("name", MATH, tests=5)
def test_bits_of_math(name):
    """Values are the plain call's; gradient and Hessian those of the fast form."""
    f = MATH[name]
    points = np.random.default_rng(8).uniform(0.2, 2.8, (40, 4))
    exact, fast = (nt.prepare_gradient_cache(f, points[0], config=c) for c in (NUMPY, nt.Config()))
    for x in points:
        value, (gradient,) = nt.value_and_gradient(exact, x)
        assert value == f(x)
        np.testing.assert_allclose(gradient, nt.value_and_gradient(fast, x)[1][0], rtol=1e-13, atol=1e-15)
    exact, fast = (nt.prepare_hessian_cache(f, points[0], config=c) for c in (NUMPY, nt.Config()))
    hessian, want = (nt.value_gradient_and_hessian(c, points[1])[2] for c in (exact, fast))
    np.testing.assert_allclose(hessian, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_bits_of_powers_of_floats(exponent):
    exact = nt.prepare_gradient_cache(lambda x: x**exponent, 1.0, config=NUMPY)
    for x in np.random.default_rng(9).uniform(0.2, 2.8, 40).tolist():
        assert nt.value_and_gradient(exact, x)[0] == x**exponent


@every("dtype", DTYPES)
def test_powers_of_negative_numbers(dtype):
    """Kernels take NumPy's loop over absolute values, and give the results their signs."""
    x = np.random.default_rng(0).normal(size=50).astype(dtype)
    x[:7] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0
    exponents = np.array(
        [5.0, -3.0, 6.0, -2.0, -0.5, 7.5, 0.0, np.inf, -np.inf, np.nan, 1e300, 2.0**53 - 1.0]
    )
    with np.errstate(all="ignore"):
        y = np.repeat(exponents.astype(dtype), len(x))
        x = np.tile(x, len(exponents))
        for base, exponent in ((x, y), (x[::-2], y[::-2]), (dtype(-2.0), y), (x, dtype(5.0))):
            power = nt.vmap(lambda a, b: a**b, tuple(0 if np.ndim(a) else None for a in (base, exponent)))
            got, want = power(base, exponent), np.power(base, exponent)
            np.testing.assert_allclose(got, want, rtol=1e-15 if dtype == np.float64 else 3e-7)
            sure = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[sure], np.signbit(want)[sure])


@pytest.mark.parametrize("order", ["random", "sorted", "runs from the end"])
def test_entries_are_added_one_after_the_other(order):
    """Sums at positions have the bits of np.add.at, of which the next entry may be for the same place."""
    rng = np.random.default_rng(8)
    places = rng.integers(0, 7, 300)
    if order != "random":
        places = np.sort(places) if order == "sorted" else np.sort(places)[::-1] - 7
    entries, start = rng.normal(size=300), rng.normal(size=7)

    def f(start, entries):
        cells = start.copy()
        np.add.at(cells, places, entries)
        return cells

    cache = nt.prepare_pullback_cache(f, start, entries)
    weights = rng.normal(size=7)
    value, (of_start, of_entries) = nt.value_and_pullback(cache, weights, start, entries)
    np.testing.assert_array_equal(value, f(start, entries))
    np.testing.assert_array_equal(of_start, weights)
    np.testing.assert_array_equal(of_entries, weights[places])

    taken = nt.prepare_pullback_cache(lambda start: start[places], start)
    sums = np.zeros(7)
    np.add.at(sums, places, entries)
    np.testing.assert_array_equal(nt.value_and_pullback(taken, entries, start)[1][0], sums)
