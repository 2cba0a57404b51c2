"""OpenBLAS's number of threads: kernels set it for small matrices, and leave it as it was."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg

import numbatape as nt
from numbatape.jit import symbols


def number_of_threads() -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(symbols.address_of("nt_threads_get"))()


@pytest.fixture
def two_threads():
    """OpenBLAS with two threads, whatever the machine has; skipped where SciPy has another BLAS."""
    if symbols.address_of("nt_threads_get") == symbols.address_of("nt_python_Py_IsInitialized"):
        pytest.skip("SciPy's BLAS is not OpenBLAS")
    set_number = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int))(symbols.address_of("nt_threads_set"))
    before = number_of_threads()
    set_number(ctypes.c_int(2))
    yield
    set_number(ctypes.c_int(before))


FUNCTIONS = {
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a @ a.T + np.eye(len(a)))),
    "inv": lambda a: np.sum(np.linalg.inv(a + 4.0 * np.eye(len(a)))),
    "solve": lambda a: np.sum(np.linalg.solve(a + 4.0 * np.eye(len(a)), a)),
    "solve_triangular": lambda a: np.sum(scipy.linalg.solve_triangular(a + 4.0 * np.eye(len(a)), a)),
    "slogdet": lambda a: np.linalg.slogdet(a + 4.0 * np.eye(len(a)))[1],
    "eigvalsh": lambda a: np.sum(np.linalg.eigvalsh(a + a.T) ** 3),
    "svdvals": lambda a: np.sum(scipy.linalg.svdvals(a)),
    "qr": lambda a: np.sum(np.linalg.qr(a)[1] ** 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [9, 90])  # 90 rows are enough for all threads
def test_the_number_stays(two_threads, rng, name, size):
    a = rng.normal(size=(size, size))
    nt.grad(FUNCTIONS[name])(a)
    assert number_of_threads() == 2


def test_the_number_stays_in_threads(two_threads, rng):
    gradient = nt.grad(FUNCTIONS["cholesky"])
    matrices = rng.normal(size=(40, 12, 12))
    expected = [gradient(a) for a in matrices]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(gradient, matrices)), expected)
    assert number_of_threads() == 2


def test_another_blas_is_left_alone(monkeypatch):
    monkeypatch.setattr(symbols.ctypes, "CDLL", lambda path: object())
    for name in ("get", "set"):
        address = symbols._of_openblas.__wrapped__(name)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 1
