"""Results of ufuncs and of their methods have NumPy's dtypes (NEP 50), and its values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sc

import numbatape as nt

X = np.array([[0.5, 0.75, 0.3], [0.8, 0.45, 0.6]], np.float32)
OTHERS = {
    "float": 1.5,
    "int": 2,
    "float64": np.float64(1.5),
    "float32": np.float32(0.7),
    "0-d": np.array(1.5),
    "array": np.array([0.4, 0.9, 0.6]),
    "int8": np.array([1, 2, 3], np.int8),
    "uint8": np.uint8(3),
    "bool": np.array([True, False, True]),
}
BINARY = [
    *(np.add, np.subtract, np.multiply, np.divide, np.hypot, np.logaddexp, np.logaddexp2, np.nextafter),
    *(np.arctan2, np.maximum, np.fmin, np.copysign, np.logical_and, np.logical_xor, np.power),
]


def agree(function, x):
    """Compare the results that a function returns in a dictionary, inside of a trace and outside."""
    with np.errstate(all="ignore"):
        expected = function(x)
        results = nt.vjp(function, x)[0]
    for name, want in expected.items():
        got = np.asarray(results[name])
        assert (name, got.dtype) == (name, np.asarray(want).dtype)
        np.testing.assert_allclose(got, want, rtol=3e-6, err_msg=str(name))


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
def test_calls_and_outer_products(ufunc):
    def results(x):
        found = {}
        for name, other in OTHERS.items():
            found[name] = ufunc(x, other)
            found["reflected " + name] = ufunc(other, x)
            found["outer " + name] = ufunc.outer(x, other)
            found["outer of " + name] = ufunc.outer(other, x)
        return found

    agree(results, X)


@pytest.mark.parametrize("ufunc", BINARY[:-1], ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions(ufunc, dtype):
    def results(x):
        found = {"accumulate": ufunc.accumulate(x), "reduceat": ufunc.reduceat(x, [0, 1])}
        found |= {"reduce": ufunc.reduce(x), "keepdims": ufunc.reduce(x, keepdims=True)}
        if ufunc.identity is not None:
            found["initial"] = ufunc.reduce(x, initial=np.float64(1.5))
            found["where"] = ufunc.reduce(x, where=X > 0.5)
        return found

    agree(results, X.astype(dtype))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply], ids=lambda ufunc: ufunc.__name__)
def test_at(ufunc):
    def results(x):
        found = {}
        for name, other in OTHERS.items():
            found[name] = y = x * 1
            ufunc.at(y, (0, [0, 1, 0]), other)
        return found

    agree(results, X)


@pytest.mark.parametrize("narrow", [np.int8, np.float16, np.bool_])
def test_compositions_of_narrow_arrays(narrow):
    """NumPy's root of an int8 is a float16, but SciPy's ufuncs convert their arguments first."""
    y = np.array([1, 2, 3]).astype(narrow)
    agree(lambda x: {"elliprc": sc.elliprc(y, x), "elliprf": sc.elliprf(x, y, 2.0)}, X)
    agree(lambda x: {"elliprc": sc.elliprc(y, x), "elliprf": sc.elliprf(x, y, 2.0)}, X.astype(float))
