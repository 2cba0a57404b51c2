"""Elementary functions of the kernel language: accuracy by mpmath, and the same bits wherever they run."""

from __future__ import annotations

import inspect

import mpmath
import numpy as np
import pytest
import scipy.special

import numbatape as nt
from numbatape import jit
from numbatape.engine.formula_text import OF_EXPONENTIAL
from numbatape.ops import (
    OPS,
    Elementwise,
    elementary,
    error_functions,
    gamma_functions,
    scalars,
    short_functions,
)
from numbatape.ops.text import helpers

COUNT = 300


def even(low, high):
    return lambda rng, count: rng.uniform(low, high, count)


def spread(low, high):
    """Points with exponents from low to high."""
    return lambda rng, count: 10.0 ** rng.uniform(low, high, count)


def signs(points):
    return lambda rng, count: points(rng, count) * rng.choice([-1.0, 1.0], count)


def one_and(points):
    return lambda rng, count: 1.0 + points(rng, count)


def quarters(rng, count):
    return np.round(rng.uniform(-6e5, 6e5, count)) * (np.pi / 2)


def log_ndtr(x):
    return mpmath.log(mpmath.ncdf(x)) if x < 2 else mpmath.log1p(-mpmath.ncdf(-x))


# The exact function, NumPy's or SciPy's, units in the last place, and points: usual ones, all exponents, and
# where the method changes.
FUNCTIONS = {
    "fast_exp": (mpmath.exp, np.exp, 1.5, [even(-1, 1), even(-745, 709.7), signs(spread(-20, 0))]),
    "fast_expm1": (
        *(mpmath.expm1, np.expm1, 1.5),
        [even(-1, 1), even(-45, 709.7), signs(spread(-300, 0)), signs(even(0.3, 0.4))],
    ),
    "fast_log": (
        *(mpmath.log, np.log, 1.5),
        [
            even(0.5, 2),
            spread(-320, 308),
            one_and(signs(spread(-15, -1))),
            even(0.70, 0.72),
            even(1.41, 1.42),
        ],
    ),
    "fast_log1p": (
        *(mpmath.log1p, np.log1p, 1.5),
        [even(-0.9999, 2), spread(-300, 300), signs(spread(-20, 0)), even(0.40, 0.43), even(-0.3, -0.28)],
    ),
    "log1p_to_one": (mpmath.log1p, np.log1p, 1.5, [even(0, 1), spread(-300, 0), even(0.999, 1)]),
    "fast_tanh": (
        *(mpmath.tanh, np.tanh, 1.5),
        [even(-1, 1), even(-22, 22), signs(spread(-300, 0)), even(0.6, 0.7)],
    ),
    "fast_sinh": (
        *(mpmath.sinh, np.sinh, 1.5),
        [even(-1, 1), even(-710, 710), signs(spread(-300, 0)), signs(even(0.9, 1.1)), even(709, 710.4)],
    ),
    "fast_cosh": (mpmath.cosh, np.cosh, 1.5, [even(-1, 1), even(-710, 710), signs(spread(-300, 0))]),
    "fast_cbrt": (mpmath.cbrt, np.cbrt, 1.5, [even(0, 9), spread(-323, 308)]),
    "fast_i0e": (
        *(lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), scipy.special.i0e, 4),
        [even(-9, 9), even(-100, 100), signs(spread(-300, 3))],
    ),
    "fast_i1e": (
        *(lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), scipy.special.i1e, 4),
        [even(-9, 9), even(-100, 100), signs(spread(-300, 3))],
    ),
    "fast_sin": (mpmath.sin, np.sin, 1.5, [even(-4, 4), even(-1e6, 1e6), signs(spread(-300, 20)), quarters]),
    "fast_cos": (mpmath.cos, np.cos, 1.5, [even(-4, 4), even(-1e6, 1e6), signs(spread(-300, 20)), quarters]),
    "fast_erf": (
        *(mpmath.erf, scipy.special.erf, 4),
        [even(-1, 1), even(-6, 6), signs(spread(-300, 0)), even(0.7, 0.8)],
    ),
    "fast_erfc": (mpmath.erfc, scipy.special.erfc, 4, [even(-1, 1), even(-6, 27), signs(spread(-300, 0))]),
    "fast_erfcx": (
        *(lambda x: mpmath.exp(x * x) * mpmath.erfc(x), scipy.special.erfcx, 4),
        [even(-1, 1), even(-26, 30), spread(-300, 3)],
    ),
    "fast_ndtr": (mpmath.ncdf, scipy.special.ndtr, 4, [even(-1, 1), even(-38, 9), signs(spread(-300, 0))]),
    "fast_log_ndtr": (
        *(log_ndtr, scipy.special.log_ndtr, 3.5),
        [
            even(-1, 1),
            even(-40, 30),
            signs(spread(-300, 0)),
            spread(0, 150),
            even(0.2, 1.3),
            lambda rng, count: np.array([-0.08676461819985026]),  # it had the largest error: 4.2
        ],
    ),
    "fast_gammaln": (
        *(mpmath.loggamma, scipy.special.gammaln, 4),
        [
            even(0, 4),
            even(2, 100),
            spread(-300, 304),
            one_and(signs(spread(-15, -1))),
            even(1.9, 2.1),
            even(2.9, 3.1),
        ],
    ),
    "fast_psi": (
        *(mpmath.digamma, scipy.special.psi, 4),
        [even(0, 5), even(2, 100), spread(-300, 300), even(1.46163, 1.46164), even(0.9, 1.1), even(3.9, 4.1)],
    ),
}
EDGES = np.array([0.0, np.inf, np.nan, 5e-324, 3e-308, 1.0, 2.0, 1e300, 709.7827128933841, 710.0, 746.0])
EDGES = np.concatenate([EDGES, -EDGES])
TEXT = """
def inner(v, o, a, n):
    for i in simd(n):
        v[o + i] = {name}(v[a + i])


def run(w, pc):
    inner(w[0], w[1], w[2], w[3])
    return 0


def one(w, pc):
    v = w[0]
    for i in range(w[3]):
        v[w[1] + i] = {name}(v[w[2] + i])
    return 0
"""


MODULES = (elementary, error_functions, gamma_functions, short_functions)


def points_of(name, count=COUNT):
    rng = np.random.default_rng(5)
    return np.concatenate([points(rng, count) for points in FUNCTIONS[name][3]])


def computed(name, x, entry, start=0):
    """Return a function's values by a kernel, over cells from a cell on, of the dtype of x."""
    text = TEXT.format(name=name)
    family = "f64" if x.dtype == np.float64 else "f32"
    kernel = jit.load(f"test-{name}", f"# cells: {family}\n" + helpers(text, *MODULES) + text)
    cells = np.zeros(2 * len(x) + start, x.dtype)
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
    exact, _, limit, _ = FUNCTIONS[name]
    points = points_of(name)
    assert max(errors(computed(name, points, "one"), points, exact)) < limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    _, usual, limit, _ = FUNCTIONS[name]
    edges = EDGES[~((EDGES < 0.0) | (EDGES > 1.0))] if name == "log1p_to_one" else EDGES
    with np.errstate(all="ignore"):
        found, expected = computed(name, edges, "one"), usual(edges)
    if name == "fast_gammaln":
        expected[EDGES == 5e-324] = 744.4400719213812  # SciPy gives infinity
    np.testing.assert_array_max_ulp(found, expected, 2 * limit)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_cell_has_the_same_bits_alone_and_in_vectors(name):
    points = points_of(name)
    alone = computed(name, points, "one")
    for start in range(3):
        for count in (1, 7, 8, 64, len(points)):
            np.testing.assert_array_equal(computed(name, points[:count], "run", start), alone[:count])


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "sin", "cos"])
def test_short_functions_are_right_to_float32(name):
    """In float32 cells they are the float64 functions, rounded once, to a tenth of a unit."""
    with np.errstate(all="ignore"):
        cells = np.concatenate([points_of(f"fast_{name}"), EDGES]).astype(np.float32)
        exact = getattr(np, name)(cells.astype(float))
        rounded = exact.astype(np.float32)
        found = computed(f"short_{name}", cells, "run")
        assert found.dtype == np.float32
        error = np.abs(found - exact) / np.spacing(np.abs(rounded))
    usual = np.isfinite(rounded)
    assert np.max(error[usual]) < 0.6
    np.testing.assert_array_equal(found[~usual], rounded[~usual])
    np.testing.assert_array_equal(np.signbit(found[usual]), np.signbit(rounded[usual]))


@pytest.mark.parametrize("function", [np.sin, np.cos], ids=["sin", "cos"])
def test_sines_of_float32_vectors_are_numpys(function):
    """They err by at most 1.5 units; a cell has the same bits alone, in slices and in reverse."""
    with np.errstate(all="ignore"):
        x = np.concatenate([points_of(f"fast_{function.__name__}"), FAR_AND_NEAR]).astype(np.float32)
        ways = [x, x[7:], x[::-1], x[::3], x[-1:], x[:1]]
        expected, exact = function(x), function(x.astype(float))
        derivative = nt.prepare_pullback_cache(function, x)
        for way in ways:
            value, (slopes,) = nt.value_and_pullback(derivative, np.ones_like(way), way)
            np.testing.assert_array_equal(value, function(way))
            assert slopes.dtype == value.dtype == np.float32
    finite = np.isfinite(exact)
    unit = np.spacing(np.abs(exact[finite]).astype(np.float32))
    assert np.max(np.abs(expected[finite] - exact[finite]) / unit) < 1.5


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


def test_one_is_added_to_exponentials_up_to_one_alone():
    """In vectors, `log1p_to_one` serves them: it is right from 0 to 1."""
    formulas = [formula for op in OPS if isinstance(op, Elementwise) for formula in (op.value, *op.partials)]
    texts = [inspect.getsource(scalars), *filter(None, formulas)]
    arguments = [part for text in texts for part in text.split(OF_EXPONENTIAL)[1:]]
    assert len(arguments) >= 2 and all(part.startswith("-math.fabs(") for part in arguments)
