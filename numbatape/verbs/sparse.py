"""Sparse derivatives, one-shot: sparsity, sparse_jacobian, sparse_hessian."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ..caches.pullback import require_numbers
from ..caches.registry import shelf_of
from ..caches.sparse_hessian import SparseHessianCache
from ..caches.sparse_jacobian import SparseJacobianCache, output_pattern
from ..capture.moving_names import moving_names
from ..errors import SpecError
from ..nested.recorded_derivatives import first_result, second_result
from ..programs.arguments import Flattened
from ..programs.contract import require_floats, require_real
from ..programs.evaluator import Evaluator
from ..programs.results import scalar_output, value_of
from ..programs.roles import as_constant, as_constants
from ..sparse.pattern import hessian_pattern
from ..usercode.ownership import parameter_names, traced_function
from . import inner_sparse
from .made import NAMED, made_by
from .verb_calls import bare_arguments, chosen_arguments, dispatch, with_statics, with_variables


def sparsity(
    f: Callable[..., Any],
    *args: Any,
    order: int = 1,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> scipy.sparse.csr_array:
    """Return where the Jacobian (order 1) or the Hessian (order 2) of ``f`` may have entries.

    The pattern is read off the tape of the path that ``args`` take: entries are structural, and may be
    zero at some points.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function; it returns one real scalar for order 2.
    *args : arrays, numbers or pytrees of them
        Where to trace it.
    order : {1, 2}
        Jacobian or Hessian.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    scipy.sparse.csr_array
        Of bool. Rows are the output's entries, columns those of the float arguments (order 2: both), in C
        order.

    Raises
    ------
    ValueError
        If ``order`` is neither 1 nor 2.
    SpecError
        If no argument is a float, or one is complex.
    OutputError
        If ``f`` does not return one real scalar, for order 2.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.sparsity(lambda x: x[1:] * x[:-1], np.ones(3)).toarray().astype(int)
    array([[1, 1, 0],
           [0, 1, 1]])
    >>> nt.sparsity(lambda x: np.sum(x[1:] * x[:-1]), np.ones(3), order=2).nnz
    4
    """
    if not isinstance(order, (int, np.integer)) or order not in (1, 2):
        raise ValueError(f"order={order!r}: must be 1 (Jacobian) or 2 (Hessian)")
    target = traced_function(f)
    args = with_statics(f, args, static_argnums, static_argnames)
    return dispatch(
        bare_arguments(args),
        lambda: _sparsity(f, target, args, order),
        lambda: inner_sparse.sparsity(target, args, int(order)),
    )


def _sparsity(f, target, args, order) -> scipy.sparse.csr_array:
    flat = Flattened(args, {}, parameter_names(f))
    require_floats(flat, [k for k in range(len(args)) if k in flat.differentiated] or [0])
    require_real(flat, "a sparsity pattern")
    space = Evaluator(shelf_of(target).program(target, flat)).forward(flat)
    if order == 1:
        require_numbers(space)
        return output_pattern(space).matrix
    scalar_output(space.variant.recording, "Hessian")
    return hessian_pattern(space.plan, space.v).matrix


def _in_places(f, args: tuple, kwargs: dict) -> tuple:
    """Return arguments that came by name in their places, after the others."""
    if not kwargs:
        return args
    bound = inspect.signature(f).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{', '.join(bound.kwargs)}: sparse derivatives take no keyword-only arguments")
    return bound.args


def _one_shot(f, kind, nested, pattern, argnums, has_aux, statics):
    """Return what serves the calls of a sparse verb.

    Outside of traces it prepares a cache of some kind for each signature of the arguments; inside of a trace
    ``nested`` records the derivative.
    """
    target, names = traced_function(f), parameter_names(f)
    shelf = shelf_of(target)

    def call(*args, **kwargs):
        """Serve a call by a prepared cache that no other call uses."""
        variables = {name: kwargs.pop(name) for name in moving_names(kwargs)}
        args = with_statics(f, _in_places(f, args, kwargs), *statics)
        chosen = chosen_arguments(argnums, len(args), 1)
        if len(chosen) > 1:
            raise SpecError(f"argnums={argnums!r}: a sparse derivative is with respect to one argument")
        place = chosen[0]
        args = tuple(arg if k == place else as_constant(arg) for k, arg in enumerate(args))

        def prepared():
            transform = first_result if has_aux else None
            cache = kind._prepare(target, args, variables, None, False, transform, shelf.moving)
            cache._given_pattern = pattern
            cache.prepared_in_call = True
            return cache

        def outer():
            flat = Flattened(args, as_constants(variables), names)
            require_floats(flat, chosen)
            key = (kind.__name__, has_aux, flat.signature, id(pattern))
            with shelf.lent(key, prepared) as cache:
                matrix = cache._matrix_at(args, variables)
            if not has_aux:
                return matrix
            made = lambda: Evaluator(shelf.program(target, flat, second_result))  # noqa: E731
            with shelf.lent(("aux", flat.signature), made) as evaluator:
                return matrix, value_of(evaluator.forward(flat))

        return dispatch(bare_arguments(args), outer, lambda: nested(target, args, chosen, pattern, has_aux))

    return with_variables(shelf.moving, call)


def sparse_jacobian(
    f: Callable[..., Any],
    pattern: Any = None,
    *,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f`` as a ``scipy.sparse.csr_array``.

    The pattern is read off the tape and coloured on first use [1]_; columns (or rows) of one colour share a
    lane of the sweep.

    Parameters
    ----------
    f : callable
        Function with any output; differentiated with respect to one argument, all others are constants.
    pattern : sparse or dense matrix, optional
        Where entries may be, if it is known.
    argnums : int
        The argument to differentiate with respect to, by place.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``j(*args)`` → csr_array of shape (entries of the output, entries of x); ``(csr_array, aux)``
        with ``has_aux``.

    Raises
    ------
    SpecError
        From the call: the argument is no float array, it is complex, or ``argnums`` names several.
    PatternError
        From the call: ``pattern`` has another shape than the derivative.
    OutputError
        From the call: with ``has_aux``, the function does not return a pair.
    TypeError
        From the call: a keyword-only argument was given.

    References
    ----------
    .. [1] A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian? Graph coloring for computing
       derivatives", SIAM Review 47 (2005).

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.sparse_jacobian(np.diff)(np.zeros(3)).toarray()
    array([[-1.,  1.,  0.],
           [ 0., -1.,  1.]])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options = {"pattern": pattern, "argnums": argnums, "has_aux": has_aux}
    return made_by(sparse_jacobian, f, _sparse_jacobian, shares=NAMED, **options, **statics)


def _sparse_jacobian(f, pattern, argnums, has_aux, *statics):
    return _one_shot(f, SparseJacobianCache, inner_sparse.jacobian, pattern, argnums, has_aux, statics)


def sparse_hessian(
    f: Callable[..., Any],
    pattern: Any = None,
    *,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of ``f`` as a ``scipy.sparse.csr_array``.

    Parameters
    ----------
    f : callable
        Function that returns one real scalar; differentiated with respect to one argument, all others are
        constants.
    pattern : sparse or dense matrix, optional
        Where entries may be (one triangle is enough), if it is known.
    argnums : int
        The argument to differentiate with respect to, by place.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``h(*args)`` → csr_array of shape (entries of x, entries of x); ``(csr_array, aux)`` with
        ``has_aux``.

    Raises
    ------
    OutputError
        From the call: ``f`` does not return one real scalar.
    SpecError
        From the call: the argument is no float array, it is complex, or ``argnums`` names several.
    PatternError
        From the call: ``pattern`` has another shape than the derivative.
    TypeError
        From the call: a keyword-only argument was given.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.sparse_hessian(lambda x: np.sum(x**4))(np.arange(3.0)).data
    array([ 0., 12., 48.])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options = {"pattern": pattern, "argnums": argnums, "has_aux": has_aux}
    return made_by(sparse_hessian, f, _sparse_hessian, shares=NAMED, **options, **statics)


def _sparse_hessian(f, pattern, argnums, has_aux, *statics):
    return _one_shot(f, SparseHessianCache, inner_sparse.hessian, pattern, argnums, has_aux, statics)
