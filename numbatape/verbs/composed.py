"""Verbs that are made of other verbs: elementwise_grad, laplacian, directional_derivative, make_hvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import OutputError, SpecError
from ..programs.roles import as_constant
from ..stand_ins import rebinding
from ..trace import pytrees
from ..trace.primitives import sample_of
from ..trace.trace import current
from .directions import jvp
from .first_order import grad
from .hessians import hessian_diagonal
from .made import made_by
from .verb_calls import chosen_arguments
from .vjp import vjp


def elementwise_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the derivative of each result by its own argument.

    This is the gradient of the sum of the results, by reverse mode. If ``f`` works entry by entry, that is
    the derivative at each entry; otherwise it is the sum of each column of the Jacobian. It nests: applied
    twice it gives second derivatives.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one array.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``g(*args, **kwargs)`` → array of the argument's shape, or ``(array, aux)`` with ``has_aux``.

    Raises
    ------
    SpecError
        From the call: an argument cannot be differentiated.
    OutputError
        From the call: ``f`` does not return one real array.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.elementwise_grad(np.sin)(np.zeros(3))
    array([1., 1., 1.])
    >>> nt.elementwise_grad(nt.elementwise_grad(lambda x: x**3))(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(elementwise_grad, f, _elementwise_grad, argnums=argnums, has_aux=has_aux, **statics)


def _elementwise_grad(f, argnums, has_aux: bool, static_argnums, static_argnames):
    def total(*args, **kwargs):
        result = f if current() is None else rebinding.rebind(f)
        result = result(*args, **kwargs)
        value, *aux = pytrees.value_and_aux(result) if has_aux else (result,)
        if not isinstance(sample_of(value), (float, np.ndarray, np.floating)):
            got = type(sample_of(value)).__name__
            raise OutputError(f"elementwise_grad needs a function that returns one array, got {got}")
        return (np.sum(value), *aux) if has_aux else np.sum(value)

    total.__wrapped__ = f  # type: ignore[attr-defined]  # what it captures is watched
    return grad(
        total,
        argnums=argnums,
        has_aux=has_aux,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
    )


def laplacian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that sums the second derivatives of ``f`` by each entry of its argument.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns a number or an array.
    argnums : int
        The argument to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``d(*args, **kwargs)`` → the Laplacian of each result, with the result's shape, or
        ``(laplacian, aux)`` with ``has_aux``.

    Raises
    ------
    SpecError
        From the call: the argument cannot be differentiated, or is complex.
    OutputError
        From the call: ``f`` returns a container.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    np.float64(18.0)
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(laplacian, f, _laplacian, argnums=argnums, has_aux=has_aux, **statics)


def _laplacian(f, argnums, has_aux: bool, static_argnums, static_argnames):
    """Return what serves the calls of `laplacian`: sums over the diagonal of the Hessian."""
    if not isinstance(argnums, (int, np.integer)):
        raise SpecError(
            f"laplacian: argnums={argnums!r} must be an int; give one container for several arrays"
        )
    diagonal = hessian_diagonal(
        f, int(argnums), has_aux, static_argnums=static_argnums, static_argnames=static_argnames
    )

    def call(*args, **kwargs):
        (chosen,) = chosen_arguments(argnums, len(args))
        found = diagonal(*args, **kwargs)
        found, *aux = found if has_aux else (found,)
        (inputs, structure), (parts, own) = pytrees.flatten(args[chosen]), pytrees.flatten(found)
        if structure != own:
            raise OutputError("laplacian needs a function that returns a number or an array, got a container")
        total = 0.0
        for x, part in zip(inputs, parts, strict=True):
            if part is not None:  # an integer in a container has no derivative
                axes, count = np.ndim(sample_of(x)), np.ndim(sample_of(part))
                total = total + (np.sum(part, tuple(range(count - axes, count))) if axes else part)
        return (total, *aux) if has_aux else total

    return call


def directional_derivative(
    f: Callable[..., Any],
    order: int = 1,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes derivatives of some order along a direction, by forward mode.

    The derivative of order k is that of ``t -> f(x + t v)`` at 0, taken k times.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output; differentiated with respect to its first argument, all
        others are constants.
    order : int
        How often to differentiate: 1 or more.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``d(x, *constants, v)``, where ``v`` may be named, → derivative, with the structure and shapes of
        ``f``'s result; ``v`` has those of ``x``. With ``has_aux``, ``(derivative, aux)``.

    Raises
    ------
    ValueError
        If ``order`` is no positive integer.
    SpecError
        From the call: ``v`` has another structure or shape than ``x``.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    >>> [float(nt.directional_derivative(lambda x: x[0] ** 2 * x[1], k)(x, v)) for k in (1, 2, 3)]
    [3.0, 0.0, -6.0]
    """
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order < 1:
        raise ValueError(f"order={order!r}: must be a positive integer")
    options: dict[str, Any] = {
        "has_aux": has_aux,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
    }
    return made_by(directional_derivative, f, _directional_derivative, order=int(order), **options)


def _directional_derivative(f, order: int, has_aux: bool, static_argnums, static_argnames):
    options: dict[str, Any] = {
        "has_aux": has_aux,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
    }
    lower: Callable = f if order == 1 else directional_derivative(f, order - 1, **options)
    more = () if order == 1 else (None,)  # the direction, which is an argument of the lower derivative

    def call(*args, v=None):
        args = args if v is None else (*args, v)
        if len(args) < 2:
            raise SpecError("directional_derivative needs the function's arguments and, last, the direction")
        x, *constants, v = args
        given = [*constants, v] if more else constants
        primals = (x, *map(as_constant, given))
        _, derivative, *aux = jvp(lower, primals, (v, *(None for _ in given)), **options)
        return (derivative, *aux) if has_aux else derivative

    return call


def make_hvp(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the gradient at a point, and the Hessian's products with vectors there.

    The forward state is kept, so that each product is one reverse sweep. For one product at each point
    `hvp` is faster.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar.
    argnums : int
        The argument to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``m(*args)`` → ``(product, gradient)``; ``product(v)`` → the Hessian times ``v``, with the structure
        of the argument. With ``has_aux``, ``(product, gradient, aux)``.

    Raises
    ------
    SpecError
        From the call: the argument cannot be differentiated; from the product: ``v`` has another structure
        or shape.
    OutputError
        From the call: ``f`` does not return one real scalar.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> product, gradient = nt.make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> gradient, product(np.array([1.0, 0.0])), product(np.array([0.0, 1.0]))
    (array([ 3., 12.]), array([6., 0.]), array([ 0., 12.]))
    """
    options: dict[str, Any] = {
        "has_aux": has_aux,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
    }
    return made_by(make_hvp, f, _make_hvp, argnums=argnums, **options)


def _make_hvp(f, argnums, has_aux, static_argnums, static_argnames):
    if not isinstance(argnums, (int, np.integer)):
        raise SpecError(
            f"make_hvp: argnums={argnums!r} must be an int; give one container for several arrays"
        )
    options: dict[str, Any] = {
        "has_aux": has_aux,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
    }
    gradient_of = grad(f, argnums, **options)

    def call(*args):
        (chosen,) = chosen_arguments(argnums, len(args))
        primals = [arg if k == chosen else as_constant(arg) for k, arg in enumerate(args)]
        gradient, pullback, *aux = vjp(gradient_of, *primals, **options)
        # The Hessian is symmetric, so its rows are its columns.
        return lambda v: pullback(v)[chosen], gradient, *aux

    return call
