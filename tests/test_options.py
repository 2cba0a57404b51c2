"""Functions of NumPy under their options: values are NumPy's, and both modes agree on the derivative.

All calls of a row are traced together, so a row costs one trace.
"""

import math

import numpy as np
import pytest
import scipy.fft
import scipy.linalg

import numbatape as nt

RNG = np.random.default_rng(11)
X, Y, P = RNG.normal(size=5), RNG.normal(size=5), np.abs(RNG.normal(size=5)) + 0.3
A, T = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
S = M @ M.T
MASK = np.array([True, False, True, True, False])
ROWS = np.array([[0, 1], [2, 2]])
Z = X + 1j * Y
C = A + 1j * RNG.normal(size=(3, 4))


def written(write, x, *args):
    copied = x.copy()
    write(copied, *args)
    return copied


# What is called, as `function(point)` → a list of results for several forms of the call.
REAL = {
    "keepdims as an integer": (A, lambda a: [
        f(a, axis=axis, keepdims=np.int64(1))
        for f in (np.sum, np.prod, np.max, np.any, np.all, np.mean, np.var, np.std)
        for axis in (None, 0, (0, 1))]),
    "means that are whole numbers": (A, lambda a: [
        mean * a[0, 0] for dtype in (int, bool, np.int16)
        for mean in (np.mean(7.7 * a, dtype=dtype), (7.7 * a).mean(0, dtype), np.mean(
            7.7 * a, 1, dtype, keepdims=True, where=A > -0.5), np.mean((9 * a).astype(int), dtype=dtype))]),
    "joined in a dtype that cuts off": (A, lambda a: [
        join([3.3 * a, 5.7 * a], dtype=dtype, casting="unsafe") * a[0, 0]
        for join in (np.concatenate, np.stack, np.vstack, np.hstack)
        for dtype in (int, bool, np.int8)]),
    "products in complex numbers": (A, lambda a: [
        f(a, 0, dtype) for f in (np.sum, np.prod, np.mean, np.cumsum, np.cumprod)
        for dtype in (complex, np.complex128)]),
    "medians of truth values": (A, lambda a: [np.median(a > -0.3), np.median(a > 0.0, axis=1)]),
    "take of truth values": (X, lambda x: [
        x.take(True), np.take(x, [True, True, False, False, True]), np.take(x, x > 0.0),
        np.take([x, x], [False, True], axis=1)]),
    "repeat of a number": (X, lambda x: [np.repeat(x[0], 2, axis=0), np.repeat(np.sum(x), [3], axis=-1),
        np.take(x[0], [0, 0], 0), np.take(x[..., 0], np.array([0, 0]), 0)]),
    "view of a number": (X, lambda x: [
        np.sum(x).view(), x[0].view(), float(isinstance(np.sum(x).view(), np.float64))]),
    "unique": (X, lambda x: [
        *np.unique(np.append(x, x[1:4]), return_index=True, return_inverse=True, return_counts=True),
        *np.unique([x, x], return_inverse=True), np.unique(x, equal_nan=False), *np.unique_counts(x),
        *np.unique_inverse(x)]),
    "unique rows": (A, lambda x: [
        *np.unique(x[[0, 2, 0]], axis=0, return_index=True, return_inverse=True, return_counts=True),
        np.unique(x, axis=1)]),
    "forms of positions": (A, lambda a: [
        np.transpose(a[0], -1), np.permute_dims(a[0], 0), *np.array_split(a, 2.0), *np.split(a, 3.0),
        np.flip(a[0, 0]), np.trim_zeros(a[0, 0]), np.vecdot(a, a, keepdims=True),
        np.vecdot(a, a, axis=0, keepdims=True), np.cov(a, dtype=complex), np.polyval(a, a[0]),
        *scipy.fft.fftn(a, s=3, axes=0), scipy.fft.irfftn(a, s=5), scipy.fft.rfftn(a, axes=-2),
        scipy.linalg.circulant(a[0, 0]), scipy.linalg.cho_factor(a[0, 0] ** 2)[0]]),
    "fits": (X, lambda x: [
        part for y in (Y, P[:, None]) for part in np.polyfit(x, y, 2, full=True, w=P)]),
    "intersect1d": (X, lambda x: [
        *np.intersect1d(x, np.concatenate([x[1:3], Y]), return_indices=True), np.union1d(x, Y)]),
    "insert": (A, lambda a: [
        np.insert(a, [1, 3], a[0, :2]), np.insert(a, [0, 2], a[0], axis=0), np.insert(a, 1, a[:, 0], axis=1),
        np.insert(a, [1], a[:, :1], axis=1), np.insert(a, slice(0, 2), 9.0, axis=0), np.insert(a, -1, 5.0),
        np.insert(a[0], MASK[:4], 7.0)]),
    "histogram": (X, lambda x: [
        *np.histogram(x), *np.histogram(x, 3, weights=x), *np.histogram(x, 3, density=True),
        *np.histogram(x * 0.0, 2), *np.histogramdd((x, x**2), (2, 3))[1], np.histogram2d(x, -x, 2)[0]]),
    "rank, hermitian": (S, lambda s: [
        np.linalg.matrix_rank(s, tol=0.1), np.linalg.matrix_rank(s, hermitian=True),
        np.linalg.matrix_rank(s[0]), np.linalg.pinv(s, hermitian=True),
        np.linalg.svd(s, hermitian=True, compute_uv=False), np.linalg.svd(s, hermitian=True)[1]]),
    "overwrite_input": (X, lambda x: [
        np.median(x, overwrite_input=True), np.quantile(x, 0.3, overwrite_input=True),
        np.nanmedian(x, overwrite_input=True), np.percentile(x, [10, 80], overwrite_input=True)]),
    "numbers of Python": (X, lambda x: [
        x.item(2), x[1].item(), x.reshape(1, 5).item(0, 3), x.tolist(), math.frexp(x[0])[0],
        math.nextafter(x[1], 2.0)]),
    "partition": (A, lambda a: [
        np.sort(a.argpartition(1, axis=1)[:, 1] * 1.0), written(lambda z: z.partition(2), a[0])[2],
        np.partition(a, 1, axis=0)[1]]),
    "vectorize": (A, lambda a: [
        np.vectorize(np.sum, signature="(n)->()")(a),
        *np.vectorize(lambda r: (r.sum(), 2 * r), signature="(n)->(),(n)")(a),
        np.vectorize(np.dot, signature="(n),(n)->()")(a, a[0])]),
    "lists": (X, lambda x: [
        np.fliplr([x, 2 * x]), np.linalg.svdvals([x, x**2]), np.matrix_transpose([x, 2 * x]),
        np.fft.fft2([x, x**2]).real, np.linalg.matrix_norm([x, 2 * x]), np.array(x, ndmin=2),
        np.interp([x[0], 0.1], [0.0, x[2] ** 2], [1.0, x[3]]), np.cov([x[0], x[1], 2.0], bias=None),
        np.gradient([*x]), np.trapezoid([*x], x=[0.0, 1.0, 2.0, x[2] + 5.0, 9.0]), np.unique([x[3], x[0]]),
        np.round([*x], 1),
        np.zeros_like([*x]) + np.take([*x], 1), np.where([True, False], [x[0], x[1]], [1.0, x[2]]),
        *np.meshgrid([x[0], 1.0], [x[1]]), np.polymul([1.0, x[0]], [x[1], 2.0]), np.sinc([x[0], 2.0])]),
    "ranges": (X, lambda x: [
        np.arange(x[0], 3.0, 0.5), np.arange(0.0, 4.0 + x[0]), np.r_[x[0]:2.0:3j], np.r_[x[0]:3.0:0.5],
        np.r_[x, 1.0, x]]),
    "memory": (X, lambda x: [
        x * np.shares_memory(x, x), x * np.may_share_memory(x, Y), np.shape(x[1:])[0] * x]),
    "polynomials": (X, lambda x: [
        np.polyint(x, k=[x[0]]), np.polyint(x, 2, k=x[:2]), np.polymul([0.0, *x[:2]], x), np.poly(x),
        np.poly(M + x[0]), np.polydiv(x, x[:2])[0]]),
    "ends of interp": (X, lambda x: [
        np.interp(x, [-1.0, 0.0, 0.0], [x[0], 2.0, x[1]]), np.interp(x, [-1.0, 1.0], x[:2], left=x[3]),
        np.interp(x, [0.0, 0.3, 0.9], [1.0, 2.0, x[0]], period=1.1)]),
    "whole numbers": (X, lambda x: [
        x * np.reciprocal(np.array([1, 2, -1, 3, 5])), np.linalg.lstsq(ROWS.T @ ROWS, x[:2])[0],
        x * np.searchsorted([-1.0, 0.0, 1.0], np.append(x[:4], np.nan)),
        np.interp([0.3, np.nan], [0, 1], x[:2])[0]]),
    "no matrices": (S, lambda s: [
        np.linalg.eigvalsh(s[None][:0]), np.linalg.eigh(s[None][:0])[1], np.linalg.svd(s[None][:0])[1], s]),
    "masks and initial": (A, lambda a: [
        np.var(a, where=a > 0), np.std(a, 0, where=a > -9, ddof=1), np.max(a, where=a < 0.5, initial=-3.0),
        np.sum(a, 1, initial=2.0, where=a > 0), np.prod(a, 0, initial=a[0, 0]), np.add.reduce(a, (0, 1)),
        np.logaddexp.reduce(a, 1), np.hypot.reduce(a, 0), np.subtract.accumulate(a, 1),
        np.add.reduceat(a, [0, 2, 1], 1), np.mean(a, 1, keepdims=True, where=a < 9)]),
}  # fmt: skip
COMPLEX = {
    "joined in a real dtype": (Z, lambda z: [
        join([3.3 * z, 5.7 * z.real], dtype=dtype, casting="unsafe") * z.imag[0]
        for join in (np.concatenate, np.hstack)
        for dtype in (float, int)]),
    "edges and initial": (Z, lambda z: [
        np.diff(z, prepend=1.5), np.diff(z, 2, -1, 1.5, 2j), np.ediff1d(z, to_begin=[2.0, 1j], to_end=z[:1]),
        np.sum(z, initial=1.0), np.sum(z, 0, None, None, False, 2 + 1j), np.prod(z, initial=2.0),
        np.add.reduce(z, initial=3.0), np.pad(z, 2, constant_values=1j),
        np.pad(z, 2, mode="linear_ramp", end_values=3.0)]),
    "masks": (C, lambda z: [
        np.var(z, 1, where=z.real > -1), np.std(z, ddof=1, where=z.imag < 1), np.prod(z, 0, where=z.real > 0),
        np.sum(z, where=z.real > 0), np.var(z, 0, mean=np.mean(z, 0, keepdims=True))]),
    "folds": (C, lambda z: [
        np.subtract.reduce(z), np.divide.accumulate(z, 1), np.add.reduceat(z, [0, 2], 1),
        np.multiply.reduceat(z, [1, 0], 0), np.power.reduce(z, 0), np.cumulative_sum(z, axis=(0,))]),
    "polynomials": (Z, lambda z: [
        np.polyadd(z, z[:2]), np.polysub(z, z[:2]), np.polymul(z, z), np.polyder(z), np.polyint(z, 2),
        np.poly(z), *np.polydiv(z, z[:2])]),
    "order": (Z, lambda z: [np.sort(z), z[np.argsort(-z)], np.sort_complex(z), np.unique(z),
        np.union1d(z, Y), np.setdiff1d(Y, z), np.isin(z, X) * z]),
    "extremes": (C, lambda z: [
        np.max(z), z.min(0), np.max(z, (0, 1), keepdims=True), np.ptp(z, 1), z[0, np.argmax(z[0])],
        np.argmin(z, 1, keepdims=True), np.maximum(z, C[::-1]), np.fmin(1.0, z), np.clip(z, -1.0, 1j - C),
        np.max(z[0, 0]), np.maximum.reduce(z), np.nanmax(np.where(z.real > 1.0, np.nan, z), 0)]),
    "statistics": (C, lambda z: [
        np.cov(z), np.cov(z, aweights=P[:4]), np.corrcoef(z), np.cov(z, dtype=float),
        np.corrcoef(z, dtype="f8"), np.vecdot(z, z, axis=0, keepdims=True), np.vecdot(A, z, keepdims=False),
        np.nansum(z, 0), np.nanmean(z), np.nanvar(z)]),
    "choosing": (Z, lambda z: [
        np.interp(P, np.sort(Y), z, left=1j), np.insert(z, [1, 3], 1j),
        np.choose([0, 1] * 2, [z[:4], z[1:]]), np.sinc(z),
        np.piecewise(z, [z.real > 0], [lambda v: v**2, lambda v: v]), z.item(2), z[0].item()]),
}  # fmt: skip


def parts_of(results):
    """Return the results as arrays of floats, which are one number a part of each result."""
    parts = []
    for one in results:
        one = np.asarray(one)
        parts += [one.real, one.imag] if one.dtype.kind == "c" else [1.0 * one]
    return parts


def check(function, point):
    def f(x):
        return parts_of(function(x))

    value, pullback = nt.vjp(f, point)
    wanted = f(point.copy())
    elsewhere = 0.7 * point[::-1] + 0.1  # the tape, or a new one if a guard fails
    for found, at in ((value, point), (nt.vjp(f, elsewhere)[0], elsewhere)):
        for k, (ours, numpys) in enumerate(zip(found, f(at.copy()), strict=True)):
            assert np.shape(ours) == np.shape(numpys), k
            np.testing.assert_allclose(ours, numpys, rtol=1e-10, atol=1e-12, err_msg=f"result {k}")
    rng = np.random.default_rng(2)
    cotangents = [rng.normal(size=np.shape(part)) for part in wanted]
    step = rng.normal(size=point.shape)
    step = step + 1j * rng.normal(size=point.shape) if np.iscomplexobj(point) else step
    tangents = nt.jvp(f, (point,), (step,))[1]
    forward = sum(np.sum(ct * dy) for ct, dy in zip(cotangents, tangents, strict=True))
    (gradient,) = pullback(cotangents)
    np.testing.assert_allclose(np.vdot(gradient, step).real, forward, rtol=1e-9, atol=1e-11)
    h = 1e-6
    ends = [f(point + sign * h * step) for sign in (1, -1)]
    differences = sum(np.sum(ct * (up - down)) for ct, up, down in zip(cotangents, *ends, strict=True))
    np.testing.assert_allclose(forward, differences / (2 * h), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REAL)
def test_options_of_functions_of_real_arrays(name):
    point, function = REAL[name]
    check(function, point)


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_options_of_functions_of_complex_arrays(name):
    point, function = COMPLEX[name]
    check(function, point)


def test_assertions_of_numpy_testing_hold_for_the_numbers_of_each_call():
    def f(x):
        np.testing.assert_allclose(x, x + 1e-12)
        np.testing.assert_equal(x, x)
        np.testing.assert_almost_equal(x[0], x[0])
        np.testing.assert_array_less(x, 10.0)
        return np.sum(x**2)

    gradient = nt.grad(f)
    np.testing.assert_array_equal(gradient(X), 2 * X)
    with pytest.raises(AssertionError, match="ordered"):
        gradient(X + 10.0)
    np.testing.assert_array_equal(gradient(2 * X), 4 * X)


@pytest.mark.parametrize("name", ["sqrt", "gamma", "atan2", "fsum", "isclose", "frexp"])
def test_math_refuses_complex_numbers_as_python_does(name):
    given = {"atan2": lambda z: (z, 1.0), "isclose": lambda z: (z, 1.0), "fsum": lambda z: ([z, z],)}
    with pytest.raises(TypeError, match="must be real number, not complex"):
        nt.grad(lambda z: getattr(math, name)(*given.get(name, lambda z: (z,))(z)))(1 + 2j)


def test_edges_of_a_histogram_that_are_no_numbers_raise_in_each_call():
    gradient = nt.grad(lambda x: np.histogram(x, 3, weights=x)[1].sum())
    assert np.all(np.isfinite(gradient(X)))
    with pytest.raises(ValueError, match="not finite"):
        gradient(np.append(X[:4], np.nan))


@pytest.mark.parametrize("make", [nt.function, nt.checkpoint, lambda f: nt.guarded(f, abs)])
def test_sub_tapes_are_made_of_functions(make):
    with pytest.raises(TypeError, match="got 3"):
        make(3)


def test_numbers_of_python_among_joined_arrays_are_weakly_typed():
    x = X.astype(np.float32)
    joined, _ = nt.vjp(lambda x: np.r_[x, 1.0], x)
    assert joined.dtype == np.float32
    assert nt.vjp(lambda x: x.item(0) * np.float64(2.0), x)[0].dtype == np.float64


def test_extremes_of_complex_numbers_are_ordered_by_the_imaginary_parts_of_equal_real_parts():
    z = np.array(
        [[1 - 2j, 1 + 3j, 0 + 9j], [1 + 3j, complex(1, -np.inf), 1 - 2j], [np.nan, 5, complex(7, np.nan)]]
    )
    for function in (np.max, np.min, np.argmax, np.argmin):
        for axis in (None, 0, 1):
            found = nt.vjp(lambda z, f=function, axis=axis: f(z, axis=axis) * 1.0, z)[0]
            np.testing.assert_array_equal(found, function(z, axis=axis))
    for ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        np.testing.assert_array_equal(nt.vjp(ufunc, z, z.T)[0], ufunc(z, z.T))
