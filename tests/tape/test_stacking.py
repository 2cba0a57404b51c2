"""Python loops over small arrays: what the turns compute independently of each other is one instruction."""

import numpy as np
import pytest

import numbatape as nt
from numbatape.config import PASSES
from numbatape.tape.passes.stack import LEAST

RNG = np.random.default_rng(2)
TURNS = LEAST + 6
ROWS, SERIES = RNG.normal(size=(TURNS, 3)), RNG.normal(size=TURNS)
T = RNG.normal(size=28) * 0.5
UNSTACKED = tuple(name for name in PASSES if name != "stack")


def chained(t):
    """Arithmetic on numbers and rows of data, of which the results of a turn are summed."""
    return sum(
        np.sum(np.exp(-0.5 * (y - t[:3]) ** 2) * np.sin(row)) for y, row in zip(SERIES, ROWS, strict=True)
    )


def rows(t):
    """Products of rows with a matrix, in a loop whose carry needs the turn before."""
    w, h = t[:12].reshape(3, 4), np.zeros(4)
    for row in ROWS:
        h = np.tanh(row @ w + h @ t[12:].reshape(4, 4))
    return np.sum(h)


def columns(t):
    """Products of a matrix with columns, whose results are views of what is stacked."""
    w, total = t[:12].reshape(4, 3), 0.0
    for row in ROWS:
        z = (w @ row).reshape(2, 2)
        total = total + np.sum(np.cos(z.T) * t[12:14]) * z[0, 1]
    return total


def backwards(t):
    """Rows of what was computed, from the last to the first, and every second one."""
    table, total = np.outer(SERIES, t[:3]).reshape(TURNS, 3) * t[3], 0.0
    for k in range(TURNS - 1, -1, -1):
        total = total + np.sum(np.sin(table[k])) + np.sum(table[k // 2 * 2] ** 2)
    return total


def neighbours(t):
    """Results of a turn and of the turn before, in an array that is written to."""
    out = np.zeros((TURNS, 3))
    for k in range(TURNS):
        out[k] = np.sin(ROWS[k] * t[:3])
    return sum(np.sum(np.cos(out[k] * out[k - 1])) for k in range(1, TURNS))


PROGRAMS = [chained, rows, columns, backwards, neighbours]


@pytest.mark.parametrize("f", PROGRAMS)
def test_stacked_turns_keep_value_and_derivatives(f):
    plain, stacked = (
        nt.prepare_gradient_cache(f, T, config=nt.Config(passes=its)) for its in (UNSTACKED, "all")
    )
    for point in (T, 1.1 * T):
        wanted, found = (nt.value_and_gradient(cache, point) for cache in (plain, stacked))
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
        np.testing.assert_allclose(found[1][0], wanted[1][0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found[0], f(point), rtol=1e-12)
    v = np.cos(np.arange(28.0))
    wanted, found = (
        nt.value_and_hvp(nt.prepare_hvp_cache(f, T, config=nt.Config(passes=its)), v, T)[2]
        for its in (UNSTACKED, "all")
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS)
def test_turns_are_stacked(f):
    plain, stacked = (
        nt.prepare_gradient_cache(f, T, config=nt.Config(passes=its)).tape for its in (UNSTACKED, "all")
    )
    assert len(stacked) < len(plain) - LEAST / 2


def test_what_needs_the_turn_before_stays():
    def f(t):
        z = t[:3]
        for row in ROWS:
            z = np.sin(z * row) + t[3:6]
        return np.sum(z)

    plain, stacked = (
        nt.prepare_gradient_cache(f, T, config=nt.Config(passes=its)).tape for its in (UNSTACKED, "all")
    )
    assert stacked.digest == plain.digest


def test_numbers_that_guards_depend_on_and_numpys_bits_stay():
    def guarded(t):
        total = 0.0
        for row in ROWS:
            z = np.exp(t[:3] * row)
            if z[0] > 0.1:
                total = total + np.sum(z)
        return total

    for f, options in ((guarded, {}), (chained, {"values": "numpy"})):
        tapes = [
            nt.prepare_gradient_cache(f, T, config=nt.Config(passes=its, **options)).tape
            for its in (UNSTACKED, "all")
        ]
        assert tapes[0].digest == tapes[1].digest
