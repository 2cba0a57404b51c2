"""Triangular systems in pullbacks of factorisations."""

import numpy as np
import pytest
import scipy.linalg

from numbatape.matrix.matrix_rule import solve_triangle


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("lower", [True, False])
def test_solutions_are_scipys_without_its_threads(dtype, lower, monkeypatch):
    """SciPy's function wakes up BLAS's threads even for matrices of two rows."""
    rng = np.random.default_rng(2)
    expected, given = [], []
    for rows, columns in ((1, 1), (2, 3), (5, 5), (6, 1)):
        full = rng.normal(size=(rows, rows)) + 1j * rng.normal(size=(rows, rows)) + 4.0 * np.eye(rows)
        a = (np.tril if lower else np.triu)(full if dtype == np.complex128 else full.real).astype(dtype)
        b = rng.normal(size=(rows, columns)).astype(dtype)
        for order in "CF":
            given.append((np.asarray(a, order=order), np.asarray(b, order=order)))
            expected.append(scipy.linalg.solve_triangular(*given[-1], lower=lower))
    monkeypatch.setattr(scipy.linalg, "solve_triangular", None)
    for (a, b), solution in zip(given, expected, strict=True):
        before = a.copy(), b.copy()
        found = solve_triangle(a, b, lower)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, solution, rtol=1e-4 if dtype == np.float32 else 1e-12)
        assert (a == before[0]).all() and (b == before[1]).all()


@pytest.mark.parametrize("columns", [0, 2])
def test_empty_and_singular_systems_are_scipys(columns):
    assert solve_triangle(np.eye(3), np.zeros((3, 0)), True).shape == (3, 0)
    assert solve_triangle(np.zeros((0, 0)), np.zeros((0, columns)), True).shape == (0, columns)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solve_triangle(np.diag([1.0, 0.0]), np.ones((2, 2)), True)
