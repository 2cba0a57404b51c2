"""Calls of NumPy and SciPy with arguments that are met less often: values are the plain call's, derivatives
those of differences, at points that take other paths too."""

import warnings

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import scipy.special as sc
import scipy.stats as st

import numbatape as nt

X = np.array([1.3, 2.6, 0.4])
POINTS = [X, np.array([2.2, 0.7, 1.6]), np.array([0.3, 1.5, 2.9])]
A = np.arange(9.0).reshape(3, 3) + 5.0 * np.eye(3)
STACK = np.stack([A, A.T])
SYMMETRIC = A + A.T
DATA = np.array([3.0, 4.0, 5.0])
LOWER, UPPER = sp.csr_array(np.tril(A)), sp.csc_array(np.triu(A))

PRECISION = st.Covariance.from_precision(SYMMETRIC @ SYMMETRIC)
CALLS = {
    **{
        f"Covariance.{way}": lambda x, way=way, of=of: np.stack(
            [
                f(x * STACK) + f(x)
                for c in [getattr(st.Covariance, way)(of(x))]
                for f in (c.whiten, c.colorize)
            ]
        )
        for way, of in {
            "from_diagonal": np.exp,
            "from_cholesky": lambda x: np.tril(A) * x,
            "from_precision": lambda x: np.outer(x, x) + np.eye(3),
            "from_eigendecomposition": lambda x: np.linalg.eigh(np.outer(x, x) + np.diag(DATA)),
        }.items()
    },
    "Covariance of constants": lambda x: (
        PRECISION.whiten(x) * st.Covariance.from_diagonal([1.0, 0.0, 4.0]).whiten(A + x)
        + PRECISION.log_pdet * x
    ),
    "convolution_matrix of rows": lambda x: sl.convolution_matrix(STACK * x, 4, "same"),
    "kv and kve, whose order is fitted": lambda x: sc.kv(x, x[::-1]) + sc.kve(x[0] - 2.0, DATA),
    "genhyperbolic, whose index is fitted": lambda x: st.genhyperbolic(x[0], 2.0 + x[1], 0.5).logpdf(0.3),
    "geninvgauss, whose index is fitted": lambda x: st.geninvgauss(x[0], x[1]).logpdf(DATA),
    "kaiser, whose ends are a root of zero": lambda x: np.kaiser(5, x[0]),
    "piecewise, functions of all their entries": lambda x: np.piecewise(
        x, [x < 1.0], [lambda s: s - s.mean(), lambda s: s / s.max()]
    ),
    "piecewise of plain places": lambda x: np.piecewise(
        np.arange(3.0), [DATA > 3.5], [lambda s: s * x[0], lambda s: x[1] * np.exp(s)]
    ),
    "apply_along_axis to plain data": lambda x: np.apply_along_axis(lambda row: row * x[0], 1, A),
    "apply_along_axis of lists": lambda x: np.apply_along_axis(lambda row: [row[0] * x[1], row @ x], 0, A),
    "nanquantile, weights": lambda x: np.nanquantile(
        np.where(x > 2.0, np.nan, x), 0.4, weights=x**2, method="inverted_cdf"
    ),
    "nanpercentile, weights and axes": lambda x: np.nanpercentile(
        np.where(STACK > 13.0, np.nan, STACK * x), 30, (0, 2), weights=STACK * 0.1, method="inverted_cdf"
    ),
    "svd(hermitian=True)": lambda x: np.concatenate(
        [part.ravel() for part in np.linalg.svd(SYMMETRIC - np.diag(9.0 * x), hermitian=True)]
    ),
    "svd(hermitian=True), complex": lambda x: np.linalg.svd(
        SYMMETRIC * x[0] + 1j * (A - A.T), hermitian=True, compute_uv=False
    ),
    "norm of a matrix without entries": lambda x: np.linalg.norm(np.ones((3, 0)) * x[0], ord=2) * x,
    "eigvalsh, type=2": lambda x: sl.eigvalsh(SYMMETRIC, SYMMETRIC + np.diag(x), type=2),
    "eigvalsh, type=3, upper": lambda x: sl.eigvalsh(A * x[0], SYMMETRIC * x[1], type=3, lower=False),
    "eigvalsh, by value": lambda x: sl.eigvalsh(SYMMETRIC * x[0], subset_by_value=[2.0, 100.0]),
    "eigvalsh_tridiagonal, by position": lambda x: sl.eigvalsh_tridiagonal(
        x, x[:2], select="i", select_range=(0, 1)
    ),
    "eigvalsh_tridiagonal, by value": lambda x: sl.eigvalsh_tridiagonal(
        x, x[:2], select="v", select_range=(-9.0, 3.0)
    ),
    "logsumexp, complex": lambda x: sc.logsumexp(x + 1j * x[::-1], b=DATA),
    "logsumexp, complex, sign": lambda x: sc.logsumexp(x + 1j * x[::-1], return_sign=True)[1],
    "softmax, complex": lambda x: sc.softmax(x + 1j * x[::-1]) + sc.log_softmax(1j * x),
    "lambertw, other branches": lambda x: sc.lambertw(x, 2) + sc.lambertw(-x) * sc.lambertw(x - 1.5j, -1),
    **{
        f"{name} of complex numbers": lambda x, name=name: getattr(sc, name)(0.5 * x - 0.4 + 0.7j * x[::-1])
        for name in (
            *("dawsn", "erf", "erfc", "erfcx", "erfi", "exp1", "expi", "expm1", "gamma", "log1p", "log_ndtr"),
            *("loggamma", "ndtr", "psi", "rgamma", "spence", "wofz", "wrightomega"),
        )
    },
    "results of complex ufuncs": lambda x: sum(
        part[1] for part in (f(x + 0.5j) for f in (sc.airy, sc.fresnel, sc.shichi, sc.sici))
    ),
    "Bessel functions of complex numbers": lambda x: sum(
        f(1.5, x + 0.5j)
        for f in (sc.jv, sc.yv, sc.iv, sc.kv, sc.kve, sc.hankel1, sc.hankel1e, sc.hankel2, sc.hankel2e)
    ),
    "hypergeometric functions of complex numbers": lambda x: (
        sc.hyp0f1(1.2, 1j * x) + sc.hyp1f1(1.2, 0.7, 1j * x) + sc.hyp2f1(1.2, 0.7, 2.3, 0.1j * x)
    ),
    "polynomials of complex numbers": lambda x: (
        sum(
            getattr(sc, f"eval_{name}")(n, x + 0.3j)
            for name in ("chebyt", "chebyu", "chebyc", "chebys", "legendre", "laguerre", "sh_legendre")
            for n in (3, 1.5)
        )
        + sc.eval_jacobi(3, x, 0.3, 1j * x)
        + sc.eval_genlaguerre(2, 0.4, 1j * x)
    ),
    "xlogy of complex numbers": lambda x: sc.xlogy(x - 1.3, x + 1j) + sc.xlog1py(x, 1j * x),
    "ufunc of a list": lambda x: np.exp([x[0], x[1], 2.0]),
    "ufunc of a list and a tuple": lambda x: np.add([x[0], 1.0], (x[1], 2.0)) * np.hypot([x[0], 1.0], x[2]),
    "ufunc's methods of lists": lambda x: (
        np.multiply.outer([x[0], x[1]], [1.0, x[2]]) + np.add.reduce([x[0], x[1]]) + np.logaddexp.reduce([*x])
    ),
    "lambertw of a list": lambda x: sc.lambertw([x[0], x[1], 2.0]),
    "scipy.special's ufunc of a list": lambda x: sc.gammaln([x[0], x[1], 2.0]),
    "list of lists": lambda x: np.tanh([[x[0], 1.0], [x[1], x[2]]]),
    "number for scipy's array namespace": lambda x: (
        st.ttest_ind_from_stats(x[0], 1.0, 10, x[1], 2.0, 9)[0] * x
    ),
    "zeta, two operands": lambda x: sc.zeta(1.0 + x, x),
    "zeta, order": lambda x: sc.zeta(1.0 + x, 2.5),
    "zeta, whole order as a float, left of 0": lambda x: sc.zeta(3.0, -x),
    "zeta, whole orders": lambda x: sc.zeta(np.array([2.0, 3.0, 4.0]), x),
    "nextafter": lambda x: np.nextafter(x, 9.0) * x,
    "nextafter, direction": lambda x: np.nextafter(x, x[::-1]) * x,
    "astype(int) in products": lambda x: x * x.astype(int) + x.astype(int) ** 2,
    "astype(int) in sums": lambda x: (2.5 * x.astype(np.int32)).sum() * x,
    "astype(int) as exponent": lambda x: x ** x.astype(int),
    "astype(int), remainder": lambda x: x.astype(int) % 2 * x + x.astype(int) // 2,
    "astype(int) as positions": lambda x: x[x.astype(int)] ** 2,
    "astype(bool)": lambda x: (x - 1.0).astype(bool) * x,
    "trapezoid, matrix of places": lambda x: np.trapezoid(A * x, A * x**2),
    "trapezoid, vector over a matrix": lambda x: np.trapezoid(x**2, A * x),
    "trapezoid, stack": lambda x: np.trapezoid(STACK * x, STACK * x[::-1], axis=1),
    "trapezoid, vector over a stack": lambda x: np.trapezoid(x, STACK * x),
    "trapezoid, vector of places": lambda x: np.trapezoid(STACK * x, x=np.cumsum(x), axis=1),
    "gradient, edges": lambda x: np.gradient(x**2, edge_order=0) + np.gradient(x**2, edge_order=2),
    "hypot.reduceat": lambda x: np.hypot.reduceat(x, [0, 2]),
    "hypot.reduceat, single entries": lambda x: np.hypot.reduceat(-x, [0, 1, 1, 0, 2]),
    "hypot.reduceat, axis": lambda x: np.hypot.reduceat(A * x, [0, 1], axis=1),
    "hypot.reduce, axes": lambda x: np.hypot.reduce(STACK * x, axis=1),
    "hypot.accumulate": lambda x: np.hypot.accumulate(A * x, axis=1),
    "logaddexp.reduceat": lambda x: np.logaddexp.reduceat(A * x, [0, 1], axis=1),
    "subtract.reduceat": lambda x: np.subtract.reduceat(x * x, [0, 1]),
    "min of constants where": lambda x: np.min(DATA, where=x > 1, initial=9.0) * x,
    "max of constants where": lambda x: np.max(DATA, where=x > 1, initial=-9.0) * x,
    "mean of constants where": lambda x: np.mean(DATA, where=x > 1) * x,
    "sum of constants, initial": lambda x: np.sum(DATA, where=x > 1, initial=x[0]) * x,
    "bincount": lambda x: np.bincount(x.astype(int), minlength=4) * np.sum(x),
    "bincount, weights": lambda x: np.bincount(x.astype(int), weights=x**2, minlength=2),
    "delete at argmax": lambda x: np.delete(x, np.argmax(x)) ** 2,
    "delete at a negative position": lambda x: np.delete(A * x, np.argmin(x) - 3, axis=1),
    "delete, several positions": lambda x: np.delete(x, np.argsort(x)[:2]) ** 2,
    "delete, mask": lambda x: np.delete(x, x > 1) ** 2,
    "hypot.reduce, several axes": lambda x: np.hypot.reduce(STACK * x, axis=(0, 2)),
    "hypot.reduce, all axes": lambda x: np.hypot.reduce(A * x, axis=None, keepdims=True),
    "hypot.reduce, initial": lambda x: np.hypot.reduce(x, initial=2.0),
    "hypot.reduce, where": lambda x: np.hypot.reduce(A * x, axis=0, where=A * x > 4.0),
    "fmax.reduce, where": lambda x: np.fmax.reduce(A * x, axis=(0, 1), initial=x[0], where=A > 2.0) * x,
    "subtract.reduce, where": lambda x: np.subtract.reduce(A * x, axis=1, initial=x[0], where=x > 1.0),
    "divide.reduce, initial": lambda x: np.true_divide.reduce(A[:2] * x, axis=0, initial=0.3),
    "logaddexp.reduce, where": lambda x: np.logaddexp.reduce(A * x, axis=1, where=A > 2.0),
    "is_integer": lambda x: x * (2.0 if x[1].is_integer() else 3.0),
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, STACK * x, [0, 2]),
    "toeplitz of a number": lambda x: sl.toeplitz(x[0]) * x,
    "expm of one entry": lambda x: sl.expm(x[:1]),
    "block_diag of stacks": lambda x: sl.block_diag(np.ones((2, 1, 3)) * x, np.ones((2, 2, 1)) * x[0]),
    "multivariate_normal.entropy": lambda x: st.multivariate_normal.entropy(X, np.outer(x, x) + np.eye(3)),
    "multivariate_normal.entropy, diagonal": lambda x: st.multivariate_normal.entropy(X, x),
    "spsolve_triangular": lambda x: spl.spsolve_triangular(LOWER, x),
    "spsolve_triangular, matrix": lambda x: spl.spsolve_triangular(LOWER, A * x),
    "spsolve_triangular, upper": lambda x: spl.spsolve_triangular(UPPER, x, lower=False),
    "spsolve_triangular, unit": lambda x: spl.spsolve_triangular(LOWER, x, unit_diagonal=True),
    "spsolve_triangular, entries": lambda x: spl.spsolve_triangular((1.0 + x[0] ** 2) * LOWER, x),
}


def differences(f, x, h=1e-5):
    columns = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))]
    return np.stack(columns, -1)


@pytest.mark.parametrize("name", CALLS)
def test_value_and_jacobian(name):
    f = CALLS[name]
    cache = nt.prepare_pullback_cache(f, X)
    for x in POINTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's about formats and deprecations
            want, slopes = np.asarray(f(x)), differences(f, x)
        value, jacobian = nt.value_and_jacobian(cache, x)
        np.testing.assert_allclose(value, want, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(jacobian, slopes, rtol=1e-6, atol=1e-7)
        _, pushed = nt.jvp(f, (x,), (X,))
        np.testing.assert_allclose(pushed, jacobian @ X, rtol=1e-10, atol=1e-12)


def test_a_ufunc_is_itself_while_it_takes_lists():
    def f(x, op, table):
        assert isinstance(np.exp, np.ufunc) and type(np.exp) is np.ufunc
        assert op is np.exp and table[np.exp] == 2.0 and np.exp.nin == 1 and np.exp.__name__ == "exp"
        out = np.zeros(3)
        np.add.at(out, [0, 1, 0], [x[0], x[1], 1.0])
        return np.sum(op(x, out=np.empty(3)) * out * table[np.exp])

    x = np.array([0.3, 0.5, 0.7])
    value, gradient = nt.value_and_grad(f)(x, np.exp, {np.exp: 2.0})
    exps = np.exp(x)
    np.testing.assert_allclose(value, 2.0 * (exps[0] * 1.3 + exps[1] * 0.5))
    np.testing.assert_allclose(gradient, [2.0 * exps[0] * 2.3, 2.0 * exps[1] * 1.5, 0.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nextafter_has_numpy_s_bits(dtype):
    x, two = np.array([1.0, -0.0, 3.5], dtype), dtype(2.0)
    cache = nt.prepare_pullback_cache(lambda x: np.nextafter(x, two), x)
    for point in (x, x + dtype(0.25)):
        value, (gradient,) = nt.value_and_pullback(cache, np.ones_like(x), point)
        np.testing.assert_array_equal(value, np.nextafter(point, two))
        assert value.dtype == gradient.dtype == dtype
        np.testing.assert_array_equal(gradient, 1.0)


def test_nextafter_s_direction_has_no_derivative():
    assert nt.grad(lambda y: np.nextafter(1.0, y))(2.0) == 0.0


def test_a_position_out_of_range_and_a_singular_triangle_raise_on_replay():
    cache = nt.prepare_gradient_cache(lambda x, k: np.sum(np.delete(x, k.astype(int))), X, np.float64(1.0))
    nt.value_and_gradient(cache, X, np.float64(-3.0))
    with pytest.raises(IndexError):
        nt.value_and_gradient(cache, X, np.float64(3.0))
    with pytest.raises(np.linalg.LinAlgError, match="zero entry on diagonal"):
        nt.grad(lambda x: np.sum(spl.spsolve_triangular(x[0] * LOWER, x)))(np.zeros(3))


CONSTANT_DATA = np.array([1.0, 5.0, 2.0])
TRACED_OPTIONS = {
    "pad, one number": lambda x: np.pad(CONSTANT_DATA, 1, constant_values=x[0]),
    "pad, two numbers": lambda x: np.pad(CONSTANT_DATA, (1, 2), constant_values=(x[0], x[1])),
    "pad of a traced array": lambda x: np.pad(x, 2, constant_values=x[0]),
    "pad in two dimensions": lambda x: np.pad(np.outer(x, x), 1, constant_values=((x[0], 0.5), (x[1], x[2]))),
    "quantile": lambda x: np.quantile(CONSTANT_DATA, x[0]),
    "quantiles": lambda x: np.quantile(CONSTANT_DATA, x),
    "percentile": lambda x: np.percentile(x, 100.0 * x[:2]),
    "fromiter": lambda x: np.fromiter((v * v for v in x), float),
    "fromiter, count": lambda x: np.fromiter(iter(x), dtype=float, count=2),
}


@pytest.mark.parametrize("name", TRACED_OPTIONS)
def test_traced_options_of_constants(name):
    f = TRACED_OPTIONS[name]
    g = nt.jacobian(f)
    for x in (np.array([0.3, 0.7, 0.95]), np.array([0.8, 0.1, 0.45])):
        np.testing.assert_allclose(nt.jvp(f, (x,), (np.ones(3),))[0], f(x), rtol=1e-14)
        for k, unit in enumerate(np.eye(3)):
            slope = (f(x + 1e-6 * unit) - f(x - 1e-6 * unit)) / 2e-6
            np.testing.assert_allclose(g(x)[..., k], slope, rtol=1e-7, atol=1e-8)


def test_a_number_comes_out_where_entries_are_left_out():
    value, _ = nt.vjp(lambda x: np.hypot.reduce(x, initial=1.0, where=x > 1.0), X)
    assert type(value) is np.float64
    with pytest.raises(ValueError, match="one has to specify 'initial'"):
        nt.grad(lambda x: np.subtract.reduce(x, where=x > 1.0))(X)


def test_what_numpy_raises_for_such_options():
    with pytest.raises(ValueError, match="range"):
        nt.grad(lambda x: np.quantile(CONSTANT_DATA, 2.0 * x[0]))(np.ones(1))
    with pytest.raises(ValueError, match="too short"):
        nt.grad(lambda x: np.sum(np.fromiter((v for v in x), float, count=3)))(np.ones(2))


@pytest.mark.parametrize("call", [sl.solve_toeplitz, sl.matmul_toeplitz])
def test_several_toeplitz_matrices_are_refused(call):
    with pytest.raises(nt.UnsupportedOperationError, match="several matrices of Toeplitz"):
        nt.grad(lambda x: np.sum(call(A * x, X)))(X)


def test_several_centres_of_moments_are_refused():
    with pytest.raises(nt.UnsupportedOperationError, match="several centers"):
        nt.grad(lambda x: np.sum(st.moment(A * x, 2, center=X)))(X)


REDUCED = {
    "bool": lambda x: x > 1.0,
    "int": lambda x: (3 * x).astype(int),
    "single": lambda x: x.astype(np.float32),
    "double": lambda x: x - 1.5,
    "complex": lambda x: x + 1j * x[::-1],
    "no bool": lambda x: x[:0] > 1.0,
    "no int": lambda x: x[:0].astype(int),
}
REDUCTIONS = (
    *(np.sum, np.prod, np.max, np.min, np.nansum, np.nanprod, np.nanmax, np.nanmin),
    *(np.add.reduce, np.multiply.reduce, np.logical_or.reduce, np.logical_and.reduce, np.logical_xor.reduce),
    *(np.hypot.reduce, np.true_divide.reduce, np.logaddexp.reduce, np.fmax.reduce, np.subtract.reduce),
)


@np.errstate(all="ignore")
@pytest.mark.parametrize("kind", REDUCED)
def test_an_initial_value_has_the_dtype_of_the_reduction(kind):
    """Integers cut off its fraction, truth values take its truth, and single precision rounds it."""
    x, operand = np.array([1.2, -0.4, 0.3, 2.5]), REDUCED[kind]
    for function in REDUCTIONS:
        for initial in (lambda x: 2 * x[0], lambda x: -0.7):
            call = lambda x: function(operand(x), initial=initial(x))  # noqa: B023, E731
            try:
                expected = call(x)
            except TypeError:
                continue  # NumPy has no such reduction
            try:
                _, found = nt.grad(lambda x: (np.sum(x), call(x)), has_aux=True)(x)  # noqa: B023
            except nt.UnsupportedOperationError:
                assert kind == "complex"
                continue
            assert type(found) is type(expected), function
            np.testing.assert_allclose(found, expected, rtol=1e-6 if kind == "single" else 1e-12, atol=1e-15)


def _put(x, write):
    mask = x > 1.0
    write(mask, 1j * x)
    return mask


WHOLE = {
    "signs": lambda x: np.copysign(1.0, x.astype(int)) + np.signbit((x / 3).astype(int)),
    "angles": lambda x: np.arctan2(np.ceil(x - 0.3).astype(int), -1.0),
    "quotients": lambda x: 1.0 / (x.astype(int) * -1) + x[:3] / -np.abs(x).astype(int),
    "converted": lambda x: 1.0 / (x.astype(int) % -5).astype(float),
    "truth in products": lambda x: np.einsum("i->", x > 0) * 0.5 + np.einsum("ij->i", np.outer(x, x) > 0),
    "truth in sums": lambda x: np.sum(x > 0, dtype=bool) * 0.5 + np.add.reduce(x > 0, dtype=bool),
    "truth of complex numbers": lambda x: _put(x, lambda mask, z: mask.__setitem__(slice(2), z[:2])) * x,
    "truth of one": lambda x: _put(x, lambda mask, z: mask.__setitem__([0, 2], z[1])) * x,
    "truth copied": lambda x: _put(x, lambda mask, z: np.copyto(mask, z, casting="unsafe")) * x,
    "real loops": lambda x: np.add(x + 1j, x, dtype=np.float64, casting="unsafe"),
    "complex reduce": lambda x: np.multiply.reduce(x + 1j),
}


@pytest.mark.parametrize("name", WHOLE)
@np.errstate(all="ignore")
@pytest.mark.filterwarnings("ignore:.*discards the imaginary part")
def test_integers_and_truth_values_are_numpys(name):
    """Cells are floats: they may hold a negative zero, or a number of truths, where NumPy has none."""
    f = WHOLE[name]
    verb = nt.grad(lambda x: (np.sum(x), (f(x), f(x) * 1.0)), has_aux=True)
    for x in (np.array([-0.3, 0.3, -1.2]), np.array([0.4, -0.6, 1.5]), np.array([-0.3, 0.3, -1.2])):
        for found, expected in zip(verb(x)[1], (f(x), f(x) * 1.0), strict=True):
            assert (found.dtype, type(found)) == (expected.dtype, type(expected))
            np.testing.assert_allclose(found, expected, rtol=1e-14)
