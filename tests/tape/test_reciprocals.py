"""Numbers by which others are divided several times are inverted once, on tapes swept over points."""

from __future__ import annotations

import numpy as np
import pytest

import numbatape as nt
from numbatape.derive.tapes import gradient
from numbatape.recording.record import InputLeaf, Manner, record
from numbatape.tape.tape import ACTIVE

Y = np.random.default_rng(1).normal(size=6)
TINY, LEAST, LARGE = 5e-324, 1e-310, 1.7e308


def volatility(x):
    """A loop whose steps divide by one number four times."""
    s, total = x[0], 0.0
    for y in Y:
        s = np.sqrt(0.1 + x[1] * (y - x[2]) ** 2 + x[3] * s**2)
        total = total - np.log(s) - 0.5 * ((y - x[2]) / s) ** 2
    return total


def ratios(x):
    return x[0] / x[3] + x[1] / x[3] * 2.0 + np.sin(x[2] / x[3])


def chain(x):
    """Entries of one array that divide each other, also one that is overwritten in between."""
    z = np.sin(x) + 2.0
    first = x[0] / z[1] + z[1] / x[2] + x[3] / z[1] + z[2] / x[2]
    z[1] = x[3] * z[2]
    return first + x[1] / x[0] + x[0] / z[1] + z[3] / z[1] + x[2] / x[0]


def guarded(x):
    """Division that decides a branch."""
    return x[1] / x[3] * np.exp(x[2] / x[3]) if x[0] / x[3] > 0.5 else x[2] / x[3]


def ops_of(function, x, passes, values="fast") -> list[str]:
    leaves = [InputLeaf(x, ACTIVE)]
    recording = record(function, leaves, lambda traced: (tuple(traced), {}), Manner(values=values, passes=()))
    tape = gradient(recording.tape, (len(x),), passes)
    return [tape.name_of(k) for k in range(len(tape))]


def test_a_divisor_is_inverted_once():
    x = np.array([1.0, 0.3, 0.1, 0.5])
    before, after = (ops_of(volatility, x, passes) for passes in (("merge",), ("merge", "reciprocals")))
    steps = len(Y)
    # One of three divisions is by the square root plus zero, whose sign it has to lose; one is 1/s itself.
    assert before.count("div") == 3 * steps and before.count("quotient") == 0
    assert after.count("div") == steps and after.count("quotient") == 2 * steps


def test_tapes_of_single_points_and_what_guards_compare_stay():
    x = np.array([1.0, 0.3, 0.1, 0.5])
    assert "quotient" not in ops_of(volatility, x, ("reroll", "reciprocals"))
    ops = ops_of(guarded, x, ("reciprocals",))
    assert ops.index("div") < ops.index("guard") < ops.index("quotient")


@pytest.mark.parametrize("function", [volatility, ratios, chain, guarded])
def test_results_stay(function):
    points = np.random.default_rng(2).uniform(0.2, 2.0, size=(40, 4))
    plain = nt.batch(function, config=nt.Config(passes="none"))(points)
    for config in (nt.Config(), nt.Config(passes=("reciprocals",))):
        for result, expected in zip(nt.batch(function, config=config)(points), plain, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-13)
    exact = nt.batch(function, config=nt.Config(values="numpy"))(points)[0]
    np.testing.assert_array_equal(exact, [function(x) for x in points])


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_the_derivative_of_a_root_of_zero_is_infinite_beside_a_shared_reciprocal(zero):
    points = np.array([[zero, 1.0], [4.0, 2.0]])

    def shared(x):
        s = np.sqrt(x[0])
        return s + x[1] / s

    with np.errstate(all="ignore"):
        values, grads = nt.batch(shared)(points)
        singles = [nt.value_and_grad(shared)(x) for x in points]
    np.testing.assert_array_equal(values, [value for value, _ in singles])
    np.testing.assert_array_equal(grads, [grad for _, grad in singles])


@pytest.mark.parametrize("divisor", [TINY, LEAST, LARGE, -LARGE, 0.0, -0.0, np.inf, np.nan, 3.0])
def test_where_a_reciprocal_overflows_or_loses_bits(divisor):
    """Beside divisors of ordinary size in the other lanes, of which all vectors have some."""
    points = np.random.default_rng(3).normal(size=(21, 4))
    points[::4, 3] = divisor
    points[::8, 0] = LEAST
    points[4::8, 0] = 1.6e308

    def halves(x):
        return x[0] / x[3] + x[1] * 0.0 / x[3] - (x[2] * 1e-308) / x[3]

    with np.errstate(all="ignore"):
        results = [nt.batch(halves, config=nt.Config(passes=passes))(points) for passes in ("none", "all")]
        for plain, result in zip(*results, strict=True):
            np.testing.assert_allclose(result, plain, rtol=1e-13, atol=TINY)
