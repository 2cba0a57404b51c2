"""`linear_solve`: linear systems that are given by products with a vector, and their derivatives.

For ``A(x) = b`` with A linear in x, the derivative of x along a direction solves a system with A, and a
pullback one with its transpose, whose products are the pullbacks of A. No matrix is made, and both systems
are again solved here, so that there are derivatives of all orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..control.argument_checks import check_count, check_functions, positive
from ..errors import ConfigError, ShapeError, SpecError
from ..late import imported
from ..stand_ins.opened import Opened
from ..trace.primitives import sample_of
from ..usercode.frames import UsersLine
from ..verbs.structures import flatten
from ..verbs.vjp import vjp
from .implicit import Solution, sampled, with_floats

METHODS = ("cg", "gmres", "bicgstab", "minres")


def linear_solve(
    A: Any,
    b: Any,
    *args: Any,
    method: Any = "gmres",
    x0: Any = None,
    tol: float = 1e-12,
    max_steps: int | None = None,
    preconditioner: Any = None,
) -> Any:
    """Return the solution x of ``A(x, *args) = b``, by an iteration that only needs products with A.

    Inside of a function that is differentiated, the solution depends on ``b``, on ``args``, and on whatever
    else ``A`` uses. Its derivatives solve further systems with A, or with its transpose, and never make a
    matrix.

    Parameters
    ----------
    A : callable, or matrix
        ``A(x, *args)``, linear in x: an array, or a pytree of them, in the structure of ``b``. Or something
        with ``A @ x``.
    b : array, number, or pytree of them
        The right-hand side; integers count as floats.
    *args : arrays, numbers, or pytrees of them
        Further arguments of ``A``.
    method : {"gmres", "cg", "bicgstab", "minres"}
        Which of SciPy's iterations. "cg" is for symmetric positive definite A, "minres" for symmetric A.
    x0 : array, or pytree of them, optional
        Where to start; zeros otherwise.
    tol : float
        The iteration ends when the residual is this small, relative to ``b``.
    max_steps : int, optional
        How many steps to take at most; SciPy's default otherwise.
    preconditioner : callable, optional
        ``preconditioner(x)``, linear, near to the inverse of A. It has no influence on derivatives.

    Returns
    -------
    array, or pytree of them
        In the structure of ``b``.

    Raises
    ------
    RuntimeError
        If the iteration does not converge.
    SpecError
        If ``A`` returns another number of entries than ``b`` has.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> def stiffness(u, k):
    ...     return np.append(k * u[:-1], 0.0) * 0.5 + u * 2.0
    >>> nt.linear_solve(stiffness, np.array([1.0, 2.0]), 1.0)
    array([0.4, 1. ])
    >>> nt.grad(lambda k: nt.linear_solve(stiffness, np.array([1.0, 2.0]), k)[0])(1.0).round(9)
    np.float64(-0.08)
    """
    if method not in METHODS:
        raise ConfigError(f"nt.linear_solve: method={method!r} is none of {', '.join(METHODS)}")
    positive("nt.linear_solve", "tol", tol)
    if max_steps is not None:
        check_count("nt.linear_solve", "max_steps", max_steps)
    if preconditioner is not None:
        check_functions("nt.linear_solve", preconditioner=preconditioner)
    b = with_floats("nt.linear_solve", "b", b)
    start = None
    if x0 is not None:
        start = np.array(flatten(sampled(with_floats("nt.linear_solve", "x0", x0)))[0], float)
    vector, unflatten = flatten(b)
    if not np.size(sample_of(vector)):
        raise ShapeError(f"nt.linear_solve: there are no entries in b, which is {type(b).__name__}")
    if start is not None and start.size != np.size(sample_of(vector)):
        raise ShapeError(
            f"nt.linear_solve: x0 has {start.size} entries for {np.size(sample_of(vector))} unknowns"
        )
    if not callable(A) and not hasattr(A, "__matmul__"):
        raise SpecError(f"nt.linear_solve: A must be a function or a matrix, got {A!r}")
    operator = A if callable(A) else lambda x, *args: A @ x
    options = {"rtol": tol, "atol": 0.0, "maxiter": max_steps, "x0": start}
    if method == "minres":
        del options["atol"]
    system = _System(method, options, unflatten, preconditioner)
    found = system.solution(operator, vector, args, transposed=False)
    return flatten(sampled(b))[1](found)


class _System:
    """How systems are solved, with an operator or its transpose.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    options : dict
        Of SciPy's function.
    unflatten : callable
        Makes the operator's argument of a vector.
    preconditioner : callable or None
    """

    def __init__(self, method: str, options: dict, unflatten, preconditioner):
        self.method, self.options, self.unflatten = method, options, unflatten
        self.preconditioner = preconditioner
        self.symmetric = method in ("cg", "minres")

    @property
    def _from_zero(self) -> _System:
        """The same for other right-hand sides, to which the starting vector has no relation."""
        options = self.options | {"x0": None}
        return _System(self.method, options, self.unflatten, self.preconditioner)

    def solution(self, A: Callable, b, args: tuple, transposed: bool):
        """Return the solution for a vector b, on the tape if anything is traced."""
        opened = Opened("nt.linear_solve", (A, b, args))
        transposed = transposed and not self.symmetric
        line = UsersLine() if opened.found else None

        def found(*p):
            operator, rhs, extra = opened.filled(p)
            given = operator, np.array(rhs, float), extra, transposed
            return self._solve(*given) if line is None else line.call(self._solve, *given)

        if not opened.found:
            return found()

        def residual(y, *p):
            operator, rhs, extra = opened.filled(p)
            return self._product(operator, y, extra, transposed) - rhs

        def other(rate, p, transposed):
            operator, _, extra = opened.filled(p)
            return self._from_zero.solution(operator, rate, extra, transposed)

        return _LinearSolution(residual, found, other, transposed).of(*opened.found)

    def _product(self, A: Callable, x, args: tuple, transposed: bool):
        if transposed:
            return vjp(lambda v: self._product(A, v, args, False), 0.0 * x)[1](x)[0]
        value = flatten(A(self.unflatten(x), *args))[0]
        if np.shape(sample_of(value)) != np.shape(sample_of(x)):
            sizes = np.size(sample_of(value)), np.size(sample_of(x))
            raise SpecError(f"nt.linear_solve: A returns {sizes[0]} entries for {sizes[1]} unknowns")
        return value

    def _solve(self, A: Callable, b: np.ndarray, args: tuple, transposed: bool) -> np.ndarray:
        """Solve with the operator, or its transpose, by SciPy's iterations."""
        package, size = imported("scipy.sparse.linalg"), len(b)
        product = self._one_way(lambda x: self._product(A, x, args, False), size, transposed)
        options = dict(self.options)
        if self.preconditioner is not None:
            near = self._one_way(
                lambda x: flatten(self.preconditioner(self.unflatten(x)))[0], size, transposed
            )
            options["M"] = package.LinearOperator((size, size), near, dtype=float)
        if self.method == "gmres":  # SciPy's limit for gmres counts restarts, not steps.
            steps = options["maxiter"] or 10 * size
            options["restart"] = min(size, steps, 100)
            options["maxiter"] = -(-steps // options["restart"])
        operator = package.LinearOperator((size, size), product, dtype=float)
        scale = np.linalg.norm(b)
        if not scale:
            return np.zeros(size)
        if options["x0"] is not None:
            options["x0"] = options["x0"] / scale
        # The norm of a cotangent may be of any size, and SciPy's iterations give up on tiny ones.
        x, status = getattr(package, self.method)(operator, b / scale, **options)
        error = np.linalg.norm(product(x) - b / scale)
        if status and not error <= np.sqrt(options["rtol"]):
            raise RuntimeError(
                f"nt.linear_solve: {self.method} did not converge; the residual is {error:.1e} times b. Give "
                "max_steps=, a preconditioner, or a larger tol="
            )
        return scale * x

    @staticmethod
    def _one_way(function: Callable, size: int, transposed: bool) -> Callable:
        """Return a linear function of plain vectors, or its transpose."""
        if not transposed:
            return lambda x: np.asarray(function(np.ascontiguousarray(x, float)))
        pull = vjp(function, np.zeros(size))[1]
        return lambda x: pull(np.ascontiguousarray(x, float))[0]


class _LinearSolution(Solution):
    """The solution of a linear system, whose Jacobian is the operator."""

    def __init__(self, residual: Callable, solve: Callable, other: Callable, transposed: bool):
        super().__init__("nt.linear_solve", residual, solve)
        self._other, self._transposed = other, transposed

    def _solved(self, rate, y, p):
        return self._other(rate, p, self._transposed)

    def _solved_transposed(self, ybar, y, p):
        return self._other(ybar, p, not self._transposed)
