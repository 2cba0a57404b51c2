"""`scipy_problem`: the keywords that SciPy's optimisers take, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OutputError, SpecError
from ..verbs.directions import hvp
from ..verbs.first_order import value_and_grad
from ..verbs.hessians import hessian
from ..verbs.jacobians import jacobian
from ..verbs.sparse import sparse_hessian, sparse_jacobian
from .vector_functions import of_vector

SOLVERS = ("minimize", "least_squares", "root", "curve_fit")
HESSIANS = (None, "dense", "product", "sparse")


class Problem(dict):
    """Keywords for one of SciPy's solvers; `scipy_problem` makes it.

    Attributes
    ----------
    unflatten : callable
        Solution vector → parameters in the structure of the starting point.
    names : tuple of str
        One name for each entry of the vector.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from numbatape.integrations import scipy_problem
    >>> problem = scipy_problem(lambda p: (p["a"] - 1) ** 2 + (p["b"] + 2) ** 2, {"a": 0.0, "b": 0.0})
    >>> {name: round(float(x), 6) for name, x in problem.unflatten(minimize(**problem).x).items()}
    {'a': 1.0, 'b': -2.0}
    """

    def __init__(self, keywords: dict, unflatten):
        super().__init__(keywords)
        self.unflatten = unflatten
        self.names = unflatten.names


def scipy_problem(
    f: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    solver: str = "minimize",
    hess: Any = None,
    sparse: bool = False,
) -> Problem:
    """Return the keywords that one of SciPy's optimisers takes for a function, with its derivatives.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``: a number for `minimize`, an array of residuals for `least_squares` and `root`. For
        `curve_fit` the model: ``f(xdata, *parameters)`` if ``x0`` is a list or vector of numbers,
        ``f(xdata, parameters)`` if it is a container.
    x0 : array, number, or pytree of them
        Where to start. ``f`` gets its first argument in this structure.
    args : tuple
        Further arguments of ``f``: constants. For `curve_fit`: ``(xdata, ydata)``.
    solver : {"minimize", "least_squares", "root", "curve_fit"}
        The function of `scipy.optimize` that the keywords are for.
    hess : {None, "dense", "product", "sparse"}
        For `minimize`: also give ``hess`` (as an array, or as a sparse matrix for "trust-constr"), or
        ``hessp``, the product with a vector. SciPy warns where a method does not use it.
    sparse : bool
        For `least_squares`: give the Jacobian as a sparse matrix.

    Returns
    -------
    Problem
        A dictionary to be passed as ``minimize(**problem)``; ``problem.unflatten(result.x)`` is the
        solution in the structure of ``x0``.

    Raises
    ------
    ValueError
        If an option is none of its choices, or not for this solver.
    TypeError
        If ``args`` is a string: the solver's name, given by position.
    SpecError
        If ``x0`` holds no floats.
    OutputError
        From the solver: the function does not return what it needs.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import least_squares, minimize
    >>> from numbatape.integrations import scipy_problem
    >>> rosen = lambda x, a: np.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> problem = scipy_problem(rosen, np.zeros(3), args=(100.0,), hess="dense")
    >>> minimize(**problem, method="trust-exact", tol=1e-8).x.round(6)
    array([1., 1., 1.])
    >>> residuals = lambda x: np.append(10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1])
    >>> least_squares(**scipy_problem(residuals, np.zeros(3), solver="least_squares")).x.round(6)
    array([1., 1., 1.])
    """
    for name, value, known in (("solver", solver, SOLVERS), ("hess", hess, HESSIANS)):
        if value not in known:
            raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, known))}")
    if hess is not None and solver != "minimize":
        raise ValueError(f"hess={hess!r} is for minimize; {solver} takes a Jacobian alone")
    if sparse and solver != "least_squares":
        raise ValueError(f"sparse=True is for least_squares, not for {solver}; minimize takes hess='sparse'")
    if isinstance(args, str):
        raise TypeError(f"scipy_problem: args={args!r}; the solver is given by name: solver={args!r}")
    args = args if isinstance(args, tuple) else (args,)
    if solver == "curve_fit":
        return _curve_fit(f, x0, args)
    function, vector, unflatten = of_vector(f, x0)
    made: dict[str, Any] = {"x0": vector, "args": args}
    if solver == "minimize":
        made |= {"fun": value_and_grad(function), "jac": True, **_hessian(function, hess)}
    else:
        jac = sparse_jacobian(function) if sparse else jacobian(function)
        made |= {"fun": _residuals(function), "jac": _of_vectors(jac)}
    return Problem(made, unflatten)


def _hessian(function: Callable, kind) -> dict[str, Callable]:
    if kind == "product":
        product = hvp(function)
        return {"hessp": lambda x, p, *args: product(x, *args, p)}  # SciPy's order: the vector is second
    verb = {"dense": hessian, "sparse": sparse_hessian}.get(kind)
    return {} if verb is None else {"hess": verb(function)}


def _residuals(function: Callable) -> Callable:
    """Return a function whose result is a vector of floats, as a plain call of NumPy's functions."""

    def residuals(x, *args):
        found = np.asarray(function(x, *args))
        if found.ndim > 1 or found.dtype.kind not in "fiu":
            raise OutputError(
                f"residuals must be a vector of real numbers, got {found.dtype} of shape {found.shape}"
            )
        return found

    return residuals


def _of_vectors(jac: Callable) -> Callable:
    """Return a Jacobian with two axes, also where the function returns a number."""

    def matrix(x, *args):
        found = jac(x, *args)
        return found if found.ndim == 2 else found.reshape(1, -1)

    return matrix


def _curve_fit(f: Callable, start, args: tuple) -> Problem:
    """Return the problem of `curve_fit`: a model and its Jacobian with respect to the parameters."""
    if len(args) != 2:
        raise SpecError(f"curve_fit needs args=(xdata, ydata), got {len(args)} entries")
    xdata, ydata = args
    by_number = isinstance(start, (list, tuple, np.ndarray)) and all(np.ndim(x) == 0 for x in start)

    def model(parameters, x):
        return f(x, *parameters) if by_number else f(x, parameters)

    model.__wrapped__ = f  # type: ignore[attr-defined]
    function, vector, unflatten = of_vector(model, start)
    slopes = jacobian(function)
    made = {
        "f": lambda x, *parameters: function(np.array(parameters), x),
        "jac": lambda x, *parameters: slopes(np.array(parameters), x),
        "xdata": xdata,
        "ydata": ydata,
        "p0": vector,
    }
    return Problem(made, unflatten)
