"""Results of ufuncs and of their methods have NumPy's dtypes (NEP 50), and its values."""

from __future__ import annotations

import re

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


@pytest.mark.filterwarnings("ignore:Converting input from bool")
def test_truth_values_that_become_small_integers():
    def results(x):
        b = x[0] > 0.4
        found = {
            "square": b**2,
            "cube": b**3,
            "by itself": b**b,
            "function": np.power(b, 2),
            "number": b[0] ** 2,
        }
        found |= {"np.square": np.square(b), "quotient": b // (x[0] > 0), "rest": b % (x[0] > 0)}
        found |= {"conjugate": np.conj(b), "angle": np.angle(b), "method": b.conj(), "real": np.real(b)}
        found |= {"choice": np.choose(b, [x[1], 2.0]), "counts": np.histogram(b, 2)[0], "sum": np.sum(b**2)}
        return found

    agree(results, X)
    with pytest.raises(TypeError, match="'positive' did not contain a loop"):
        nt.grad(lambda x: x * (+(x > 0)))(np.float64(1.0))


def test_numpys_types_make_numbers_of_arrays_without_dimensions():
    kinds = (np.float64, np.float32, np.float16, np.int64, np.bool_, np.complex128)

    def results(x):
        y = np.array(x[0, 1])
        made = np.float64(y), np.float32(y), np.float16(y), np.int64(y), np.bool_(y), np.complex128(y)
        return {kind: each for kind, each in zip(kinds, made, strict=True)}

    agree(results, X)
    assert [*map(type, nt.vjp(results, X)[0].values())] == [*kinds]


ZEROS = {
    "truncated": lambda x: x.astype(int),
    "int32": lambda x: x.astype(np.float32).astype(np.int32),
    "times a negative number": lambda x: np.abs(x).astype(int) * -3,
    "negative": lambda x: -np.abs(x).astype(int),
    "quotient": lambda x: np.abs(x).astype(int) // -5,
    "remainder": lambda x: np.abs(x).astype(int) % -5,
    "product": lambda x: np.prod(x.astype(int)[:, None] * [1, -1], axis=1),
    "running product": lambda x: np.cumprod(x.astype(int) - 1) * 0,
    "number": lambda x: x[0].astype(int),
    "array": lambda x: np.array(x, dtype=int),
    "written": lambda x: (y := np.zeros(3, int), y.__setitem__(0, x[0]))[0],
}


@pytest.mark.parametrize("name", ZEROS)
def test_integers_have_no_negative_zeros(name):
    """Cells hold floats, in which -0.3 is truncated to -0.0, whose reciprocal has the other sign."""

    def results(x, c):
        k, m = ZEROS[name](x), ZEROS[name](c)
        found = {
            "times a float": 1.0 / (k * 1.5),
            "times an array": 1.0 / (k * np.abs(x)),
            "quotient": 1.0 / k,
        }
        found |= {
            "joined": 1.0 / np.append(k, x[:1]),
            "chosen": 1.0 / np.where(x > -9, k, x),
            "sine": 1.0 / np.sin(k),
        }
        found |= {"sum": 1.0 / (k + x * 0.0), "angle": np.arctan2(k, -1.0), "of a constant": x / (m * 1.5)}
        return found

    x = np.array([-0.3, 0.3, -1.2])
    cache = nt.prepare_pullback_cache(results, x, nt.Constant(x))
    with np.errstate(all="ignore"):
        expected = results(x, x)
    found = nt.value_and_pullback(cache, expected, x, nt.Constant(x))[0]
    for key, want in expected.items():
        np.testing.assert_array_equal(found[key], want, err_msg=key)


def _complex(x):
    return (x + 1j * x[::-1]).astype(np.complex64)


CORNERS = {
    "median of no integers": lambda x: np.median(x[:0].astype(int)),
    "median of no halves": lambda x: np.median(x[:0].astype(np.float16)),
    "closeness of truth values": lambda x: np.allclose(x > 0, x > 0),
    "closeness to True": lambda x: np.isclose(x > 0, True),
    "largest norm of nothing": lambda x: np.linalg.norm(x[:0], np.inf),
    "power zero of halves": lambda x: np.linalg.matrix_power(x.astype(np.float16).reshape(2, 2), 0),
    "real if close": lambda x: np.real_if_close(_complex(x)[0]),
    "next of a number": lambda x: np.nextafter(np.array(x[0]), 1.0),
    "product of a complex number": lambda x: np.prod(_complex(x)[0], axis=0),
    "running product of a complex number": lambda x: np.cumprod(_complex(x)[0], 0),
    "largest of no complex numbers": lambda x: np.max(_complex(x)[:0].reshape(0, 2), -1, keepdims=True),
    "powers of complex numbers": lambda x: np.vander(_complex(x)),
    "points between complex numbers": lambda x: np.linspace(_complex(x), 1, 3),
    "item of a complex array": lambda x: _complex(x)[:1].item(),
    "truth of a complex number": lambda x: _complex(x)[:1].reshape(()).astype(bool),
    "quotient of two precisions": lambda x: x / _complex(x),
    "power of two precisions": lambda x: _complex(x) ** x,
    "complex power of single precision": lambda x: x.astype(np.float32) ** (x + 1j),
    "complex equality with None": lambda x: (x + 1j) == None,  # noqa: E711
    "complex difference from text": lambda x: (x + 1j) != "a",
    "complex sum of truth values": lambda x: np.add(x > 0, x > 1, dtype=complex),
    "complex sum of a float32": lambda x: np.add(x.astype(np.float32), 0.1, dtype=complex),
    "None in a complex array": lambda x: (z := x + 1j, z.__setitem__(0, None))[0],
    "None for all complex entries": lambda x: (z := x + 1j, z.__setitem__(..., None))[0],
    "integers joined with a float": lambda x: np.r_[(x * 3).astype(int), 1.5],
    "truth values joined with an integer": lambda x: np.r_[x > 0, 2],
    "floats joined with an imaginary number": lambda x: np.r_[x, 1j],
    "float32 joined with a float": lambda x: np.r_[x.astype(np.float32), 1.5],
    "columns of integers and floats": lambda x: np.c_[(x * 3).astype(int), x],
    "points between truth values": lambda x: np.linspace(x[0] > 0, x[1] > 0, 3),
    "resized complex numbers": lambda x: np.resize(_complex(x)[:0], 3),
    "complex sums along an axis": lambda x: np.apply_along_axis(np.sum, 0, _complex(x).reshape(2, 2)),
    "complex arrays along an axis": lambda x: np.apply_along_axis(np.cumsum, 1, _complex(x).reshape(2, 2)),
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", CORNERS)
def test_types_dtypes_and_shapes_at_corners(name):
    f, x = CORNERS[name], np.array([0.7, -1.4, 2.2, 0.3])
    got, expected = nt.vjp(lambda x: (np.sum(x), f(x)), x)[0][1], f(x)
    assert type(got) is type(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    single = np.asarray(expected).dtype in (np.float16, np.float32, np.complex64)
    np.testing.assert_allclose(got, expected, rtol=1e-6 if single else 1e-13)


def test_complex_corners_raise_numpys_errors():
    for f in (
        lambda x: np.add.accumulate(_complex(x)[0]),
        lambda x: np.linalg.multi_dot([_complex(x)] * 3),
        lambda x: np.vander(_complex(x).reshape(2, 2)),
    ):
        x = np.array([0.7, -1.4, 2.2, 0.3])
        with pytest.raises((TypeError, ValueError)) as numpys:
            f(x)
        with pytest.raises(type(numpys.value), match=re.escape(str(numpys.value)[:30])):
            nt.vjp(f, x)
