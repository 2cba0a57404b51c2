"""``dtype=np.dtypes.Float32DType``: classes of dtypes, wherever NumPy's functions take them."""

import numpy as np
import pytest

import numbatape as nt

X = np.array([1.0, 2.5, 4.0])


def written(z, x):
    z[1:] = x[1:]
    return z


CASES = {
    "astype": lambda x, c: x.astype(c),
    "np.astype": lambda x, c: np.astype(x, c),
    "asarray": lambda x, c: np.asarray(x, c) * 2,
    "array": lambda x, c: np.array([x[0], x[2]], dtype=c),
    "zeros": lambda x, c: written(np.zeros(3, c), x),
    "zeros_like": lambda x, c: np.zeros_like(x, dtype=c) + x.astype(c),
    "full": lambda x, c: np.full(2, x[0], c),
    "full_like": lambda x, c: np.full_like(x, x[0], dtype=c),
    "eye": lambda x, c: np.eye(len(x), dtype=c) @ x,
    "tri": lambda x, c: np.tri(len(x), dtype=c) @ x,
    "linspace": lambda x, c: np.linspace(x[0], x[1], 3, dtype=c),
    "sum": lambda x, c: np.sum(x, dtype=c),
    "prod": lambda x, c: x.prod(dtype=c),
    "mean": lambda x, c: np.mean(x, dtype=c),
    "var": lambda x, c: x.var(dtype=c),
    "reduce": lambda x, c: np.add.reduce(x, dtype=c),
    "accumulate": lambda x, c: np.add.accumulate(x, dtype=c),
    "outer": lambda x, c: np.multiply.outer(x, x, dtype=c),
    "ufunc": lambda x, c: np.subtract(x[1], x[0], dtype=c),
    "matmul": lambda x, c: np.matmul(x, x, dtype=c),
}


@pytest.mark.parametrize("dtype", ["Float64DType", "Float32DType", "Complex128DType"])
@pytest.mark.parametrize("name", CASES)
def test_a_class_is_its_dtype(name, dtype):
    f, cls = CASES[name], getattr(np.dtypes, dtype)
    expected = f(X, cls)
    value, slope = nt.jvp(lambda x: f(x, cls), (X,), (X,))
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-6 if dtype == "Float32DType" else 1e-14)
    np.testing.assert_array_equal(slope, nt.jvp(lambda x: f(x, cls()), (X,), (X,))[1])


def test_of_integers():
    whole = nt.grad(lambda x: np.sum(x * x.astype(np.dtypes.Int64DType)))
    np.testing.assert_array_equal(whole(X), [1.0, 2.0, 4.0])
