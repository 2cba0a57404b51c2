"""Elementary functions of the kernel language: accuracy by mpmath, and the same bits wherever they run."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape import jit
from numbatape.ops import elementary
from numbatape.ops.text import helpers

RNG = np.random.default_rng(5)
COUNT = 300


def signs(x):
    return np.concatenate([x, -x])


def spread(low, high):
    """Return points with exponents from low to high."""
    return 10.0 ** RNG.uniform(low, high, COUNT)


def even(low, high):
    return RNG.uniform(low, high, COUNT)


QUARTERS = np.round(RNG.uniform(-6e5, 6e5, COUNT)) * (np.pi / 2)
# The exact function, NumPy's, and points: usual ones, all exponents, and where the method changes.
FUNCTIONS = {
    "fast_exp": (mpmath.exp, np.exp, [even(-1, 1), even(-745, 709.7), signs(spread(-20, 0))]),
    "fast_expm1": (
        mpmath.expm1,
        np.expm1,
        [even(-1, 1), even(-45, 709.7), signs(spread(-300, 0)), signs(even(0.3, 0.4))],
    ),
    "fast_log": (
        mpmath.log,
        np.log,
        [even(0.5, 2), spread(-320, 308), 1 + signs(spread(-15, -1)), even(0.70, 0.72), even(1.41, 1.42)],
    ),
    "fast_log1p": (
        mpmath.log1p,
        np.log1p,
        [even(-0.9999, 2), spread(-300, 300), signs(spread(-20, 0)), even(0.40, 0.43), even(-0.3, -0.28)],
    ),
    "fast_tanh": (mpmath.tanh, np.tanh, [even(-1, 1), even(-22, 22), signs(spread(-300, 0)), even(0.6, 0.7)]),
    "fast_sin": (mpmath.sin, np.sin, [even(-4, 4), even(-1e6, 1e6), signs(spread(-300, 20)), QUARTERS]),
    "fast_cos": (mpmath.cos, np.cos, [even(-4, 4), even(-1e6, 1e6), signs(spread(-300, 20)), QUARTERS]),
}
EDGES = np.array([0.0, np.inf, np.nan, 5e-324, 3e-308, 1.0, 2.0, 1e300, 709.7827128933841, 710.0, 746.0])
EDGES = np.concatenate([EDGES, -EDGES])
TEXT = """
def inner(v, o, a, n):
    for i in range(n):
        v[o + i] = {near}(v[a + i])


def run(w, pc):
    inner(w[0], w[1], w[2], w[3])
    return 0


def one(w, pc):
    v = w[0]
    for i in serial(w[3]):
        v[w[1] + i] = {fast}(v[w[2] + i])
    return 0
"""


def computed(name, x, entry, start=0):
    """Return a function's values by a kernel, over cells from a cell on."""
    text = TEXT.format(fast=name, near=name.replace("fast_sin", "near_sin").replace("fast_cos", "near_cos"))
    kernel = jit.load(f"test-{name}", "# cells: f64\n" + helpers(text, elementary) + text)
    cells = np.zeros(2 * len(x) + start)
    cells[start : start + len(x)] = x
    words = np.array([cells.ctypes.data, start + len(x), start, len(x)], np.int64)
    kernel.function(entry)(words.ctypes.data, 0)
    return cells[start + len(x) :]


def errors(values, x, exact):
    """Return errors in units in the last place of the exact value."""
    with mpmath.workprec(160):
        for value, at in zip(values.tolist(), x.tolist(), strict=True):
            truth = exact(mpmath.mpf(at))
            last = np.spacing(abs(float(truth)))
            yield abs(float((mpmath.mpf(value) - truth) / mpmath.mpf(last)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_last_places(name):
    exact, _, points = FUNCTIONS[name]
    points = np.concatenate(points)
    assert max(errors(computed(name, points, "one"), points, exact)) < 1.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    _, numpy, _ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = numpy(EDGES)
    found = computed(name, EDGES, "one")
    np.testing.assert_array_max_ulp(found, expected, 2)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_cell_has_the_same_bits_alone_and_in_vectors(name):
    points = np.concatenate(FUNCTIONS[name][2])
    points = points[np.abs(points) <= elementary.FAR] if name in ("fast_sin", "fast_cos") else points
    alone = computed(name, points, "one")
    for start in range(3):
        for count in (1, 7, 8, 64, len(points)):
            np.testing.assert_array_equal(computed(name, points[:count], "run", start), alone[:count])


FAR_AND_NEAR = np.array([0.3, 2e6, -1.0, 1e22, np.inf, -7e300, np.nan, 999_999.9, -0.0] * 3)


@pytest.mark.parametrize("function", [np.sin, np.cos], ids=["sin", "cos"])
def test_sines_of_large_numbers_in_vectors(function):
    """A vector with far too large entries is computed entry by entry, forward and back."""
    with np.errstate(invalid="ignore"):
        cache = nt.prepare_pullback_cache(function, FAR_AND_NEAR)
        single = nt.prepare_gradient_cache(lambda x: function(x[0]), np.ones(1))
        value, (slopes,) = nt.value_and_pullback(cache, np.ones_like(FAR_AND_NEAR), FAR_AND_NEAR)
        alone = [nt.value_and_gradient(single, np.array([x])) for x in FAR_AND_NEAR]
        np.testing.assert_array_max_ulp(value, np.array([its for its, _ in alone]), 1)
        np.testing.assert_array_max_ulp(slopes, np.array([its[0] for _, (its,) in alone]), 1)
        np.testing.assert_array_max_ulp(value, function(FAR_AND_NEAR), 2)


@pytest.mark.parametrize("function", [np.sin, np.cos, scipy.special.expit], ids=["sin", "cos", "expit"])
def test_bits_do_not_depend_on_strides_or_places(function):
    """Entries of a vector have the same bits as those of its slices and of its reverse, forward and back."""
    x = np.random.default_rng(2).normal(size=64) * 5.0
    for pick in (slice(None), slice(3, 50), slice(None, None, 3), slice(None, None, -1)):
        cache = nt.prepare_pullback_cache(lambda x, pick=pick: function(x[pick]), x)
        value, (slopes,) = nt.value_and_pullback(cache, np.ones(len(x[pick])), x)
        if pick == slice(None):
            values, all_slopes = value.copy(), slopes.copy()
        np.testing.assert_array_equal(value, values[pick])
        np.testing.assert_array_equal(slopes[pick], all_slopes[pick])
