"""Random programs of views, copies and writes on odd sizes: NumPy's values, slopes by its complex numbers.

A step into the imaginary direction of 1e-30 is a dual number that all of NumPy's functions for memory take.
"""

import numpy as np
import pytest

import numbatape as nt
from tests.memory_programs import SHAPES, program, refused

NUMBER, TINY = 0.7, 1e-30
TOLERANCE = {"float64": 1e-10, "float32": 2e-4}


def weighted(arrays):
    total = 0.0
    for k, a in enumerate(arrays):
        flat = a.reshape(-1)
        for j in range(flat.shape[0]):
            total = total + np.sin(flat[j] * 0.3) * (0.3 + k + 0.1 * j)
    return total + 0.0


def check(seed, dtype="float64"):
    """Hold one program against NumPy at three points; False if NumPy does not run it alike in both kinds."""
    rng, shape = np.random.default_rng(seed), SHAPES[seed % len(SHAPES)]
    points = [np.asarray(0.5 * rng.normal(size=(2, *shape)), dtype) for _ in range(3)]
    skipped = refused(seed, [x for x, _ in points], lambda size: np.zeros(size, dtype), NUMBER)
    if skipped is None:
        return False

    def f(x):
        return weighted(program(seed, x, lambda size: np.zeros(size, dtype), NUMBER, skipped))

    tolerance = TOLERANCE[dtype]
    cache = None
    for x, direction in points:
        x = np.array(x)  # of no dimensions too
        try:
            dual = program(
                seed, x + TINY * 1j * direction, lambda size: np.zeros(size, complex), NUMBER, skipped
            )
        except (ValueError, TypeError, IndexError):  # what fits real numbers may not fit complex ones
            return False
        expected = complex(weighted(dual))
        if not abs(expected.real) < 1e6 or not np.isclose(f(x.copy()), expected.real, rtol=tolerance):
            return False  # complex numbers are ordered otherwise
        cache = cache or nt.prepare_gradient_cache(f, x)
        kept = x.copy()
        value, (gradient,) = nt.value_and_gradient(cache, x)
        np.testing.assert_array_equal(x, kept)
        np.testing.assert_allclose(value, expected.real, rtol=tolerance, atol=tolerance)
        slope = np.sum(gradient * direction)
        np.testing.assert_allclose(slope, expected.imag / TINY, rtol=10 * tolerance, atol=10 * tolerance)
    return True


def run(seeds, dtype):
    done = 0
    for seed in seeds:
        try:
            done += check(seed, dtype)
        except Exception as error:
            error.add_note(f"seed {seed}, {dtype}")
            raise
    return done


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs(first):
    assert run(range(first, first + 20), "float64") > 12


@pytest.mark.parametrize("first", range(1000, 1040, 20))
def test_programs_in_float32(first):
    assert run(range(first, first + 20), "float32") > 12
