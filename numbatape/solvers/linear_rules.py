"""Linear systems with plain matrices and traced right-hand sides: SciPy's factors and iterative solvers.

A solution is linear in the right-hand side: its pushforward solves the same system for the tangent, and its
pullback the transposed system for the cotangent, by the same factors or with the same tolerances.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, splu

from ..numpy_api.function_tables import MAKERS
from ..rules.primitive import Primitive, Rule
from ..scipy_api.sparse.sparse_matrices import TracedSparse
from ..stand_ins.opened import Opened
from ..trace.operands import find_trace, lift_first
from ..trace.trace import failing
from ..usercode.frames import UsersLine, not_supported
from .sparse_solve import System, checked, checked_system


def linear(name: str, solve: Callable, transposed: Callable) -> Callable:
    """Return a linear function of one array as a rule.

    Parameters
    ----------
    name : str
        What messages call it.
    solve, transposed : callable
        The function and its transpose, of plain arrays.
    """
    rule = Rule(
        lambda b: solve(b),
        lambda xbar, x, b: (linear(name, transposed, solve)(xbar),),
        lambda tangents, x, b: linear(name, solve, transposed)(tangents[0]),
        None,
    )
    rule.name = name
    return Primitive(rule)


class Iterated(System):
    """Systems that an iterative solver solves.

    Instead of the name of an order of columns, ``order`` holds two functions that return what solves a system
    with a plain matrix: one for systems with the matrix, one for systems with its transpose.
    """

    def _value(self, data, b):
        matrix = csr_array((data, (self.rows, self.cols)), self.shape)
        solve, transposed = self.order
        return solve(matrix)(b) if self._way == "N" else transposed(matrix.T.tocsr())(b)


def _is_plain(trans: str) -> bool:
    """Whether factors solve systems with the matrix itself; SciPy takes letters of any case."""
    if trans not in tuple("NnTtHh"):
        raise ValueError("trans must be N, T, or H")  # as SciPy says it
    return trans in "Nn"


class TracedFactors:
    """The stand-in for SuperLU's factors of a sparse matrix with traced entries: they solve systems."""

    def __init__(self, name: str, A, order: str):
        self._name = name
        self._system, self._data = checked_system(name, A, order)
        self.shape = self._system.shape

    def __getattr__(self, attribute: str):
        raise not_supported(f"{self._name}(A).{attribute} of traced entries", "its method solve is")

    def solve(self, rhs, trans="N"):
        """Return the solution of a system with the matrix; with ``trans``, with its transpose."""
        system = self._system if _is_plain(trans) else self._system.transposed
        rhs = lift_first(rhs) if find_trace(rhs) is not None else np.asarray(rhs, float)
        if rhs.dtype.kind == "c":
            raise not_supported(f"{self._name}(A).solve of complex numbers", "use real ones")
        return system.solve(self._data, rhs)


class Factors:
    """The stand-in for SuperLU's factors of a sparse matrix of plain numbers."""

    def __init__(self, original):
        self._original = original

    def __getattr__(self, name: str):
        return getattr(self.__dict__["_original"], name)

    def solve(self, rhs, trans="N"):
        """Return the solution of a system with the matrix; with ``trans``, with its transpose."""
        if find_trace(rhs) is None:
            return self._original.solve(rhs, trans)
        if "c" in (np.dtype(rhs.dtype).kind, self._original.L.dtype.kind):
            raise not_supported("splu(A).solve of complex numbers", "use real ones")
        ways = ("N", "T") if _is_plain(trans) else ("T", "N")
        solve, transposed = (
            lambda b, way=way: self._original.solve(np.ascontiguousarray(b, float), way) for way in ways
        )
        with failing(find_trace(rhs)):
            return linear("scipy.sparse.linalg.splu(A).solve", solve, transposed)(rhs)


def stand_in_of(value):
    """Return the stand-in for factors that were made outside of the function."""
    return Factors(value) if hasattr(value, "perm_c") and not isinstance(value, type) else None


def _splu(original):
    signature = inspect.signature(original)

    def splu(A, *args, **options):
        if type(A) is TracedSparse or find_trace(A) is not None:
            if original.__name__ == "spilu":
                raise not_supported("spilu of traced entries", "use splu")
            order = signature.bind(A, *args, **options).arguments.get("permc_spec")
            return TracedFactors("splu", A, order or "COLAMD")
        return Factors(UsersLine().call(original, A, *args, **options))

    return splu


def _factorized(original):
    def factorized(A):
        return _splu(splu)(A).solve

    return factorized


def _iterative(original):
    """Return what makes the stand-in for an iterative solver: ``solver(A, b, ...)`` → ``(x, info)``."""
    signature, name = inspect.signature(original), f"scipy.sparse.linalg.{original.__name__}"

    def solver(*args, **kwargs):
        """Solve, and record the solution as linear in ``b`` (and, through the matrix, in traced entries)."""
        call = signature.bind(*args, **kwargs).arguments
        A, b = call.pop("A"), call.pop("b")
        trace = A.values._trace if type(A) is TracedSparse else find_trace(A, b, tuple(call.values()))
        traced_matrix = type(A) is TracedSparse or find_trace(A) is not None
        # The functions of a LinearOperator may refer to traced values, too.
        opened = Opened(name, (None if traced_matrix else A, tuple(call.values())))
        if trace is None and not opened.found:
            args, kwargs = Opened(name, (args, kwargs)).filled([])
            return UsersLine().call(original, *args, **kwargs)
        traced = [key for key, option in call.items() if find_trace(option) is not None]
        if traced:
            raise not_supported(
                f"{name} with a traced {' and '.join(traced)}",
                "the solution does not depend on it: nt.stop_gradient(...)",
            )
        if opened.found:
            raise not_supported(f"{name} of a function of traced values", "use nt.linear_solve")
        line = UsersLine()

        def solve(matrix, options):
            def of(b):
                x, info = line.call(original, matrix, b, **options)
                if info != 0:
                    raise RuntimeError(
                        f"{name} found no solution (info={info}), so it has no derivative: raise maxiter"
                    )
                return x

            return of

        backwards = {key: value for key, value in call.items() if key not in ("x0", "callback")}
        for key in ("M", "M1", "M2"):
            if backwards.get(key) is not None:
                backwards[key] = backwards[key].T
        with failing(trace):
            if traced_matrix:
                matrix = A if type(A) is TracedSparse else TracedSparse.of_dense(lift_first(A), False)
                return _with_traced_matrix(name, matrix, b, lambda plain: solve(plain, call),
                                           lambda plain: solve(plain, backwards)), 0  # fmt: skip
            b = np.reshape(lift_first(b), (-1,))  # SciPy's solution of a system with one column is a vector
            if not (original.__name__ in SYMMETRIC and isinstance(A, LinearOperator)):
                return linear(name, solve(A, call), solve(A.T, backwards))(b), 0
            return linear(name, solve(A, call), solve(A, backwards))(b), 0

    return solver


def _with_traced_matrix(name: str, matrix, b, solve: Callable, transposed: Callable):
    b = np.reshape(b, (-1,))
    data, rows, cols, shape, b = checked(name, matrix, b)
    return Iterated(rows, cols, shape, (solve, transposed)).solve(data, b)


SYMMETRIC = ("cg", "minres")  # solvers for symmetric matrices, which are their own transpose
ITERATIVE = ("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "qmr", "tfqmr")
MAKERS["scipy.sparse.linalg"].update(
    splu=_splu, spilu=_splu, factorized=_factorized, **dict.fromkeys(ITERATIVE, _iterative)
)
