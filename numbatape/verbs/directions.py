"""Derivatives along given directions: jvp, derivative, hvp."""

from __future__ import annotations

import functools

import numpy as np

from ..caches.arguments import Flattened, require_active
from ..caches.base import parameter_names, python_function
from ..caches.complex_leaves import require_real
from ..caches.directions import direction_leaves, like_result, products_of
from ..caches.registry import shelf_of
from ..caches.results import require_derivative, value_of
from ..errors import SpecError
from ..trace.array import TracedArray
from ..trace.complex.array import TracedComplex
from ..trace.nested.derived import hessian_vector, pushforward
from . import inner
from .calls import StaticArguments, chosen_arguments, dispatch, flatten_call


def jvp(f, primals, tangents):
    """Return the value of ``f`` and its derivative along a direction.

    Parameters
    ----------
    f : callable
        Function with any output.
    primals : tuple
        Arguments.
    tangents : tuple
        One direction an argument, of its structure and shapes; what is not differentiated takes
        any entry (None, say).

    Returns
    -------
    value
        ``f(*primals)``.
    tangent
        Derivative, with the structure and shapes of the value.

    Raises
    ------
    SpecError
        If a tangent has another structure or shape than its primal.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.jvp(lambda x: x**2, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    target, names = python_function(f), parameter_names(f)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise SpecError("jvp needs primals and tangents as tuples, one entry an argument")
    if len(primals) != len(tangents):
        raise SpecError(f"jvp got {len(primals)} primals and {len(tangents)} tangents")

    def outer():
        flat = Flattened(tuple(primals), {}, names)
        require_active(flat)
        directions = direction_leaves(flat, tangents, "the tangent")
        with shelf_of(target).derived(target, flat, "jvp", pushforward(False), lanes=False) as derived:
            space = derived.sweep(derived.extended(flat, directions))
            result, parts = space.variant.recording.result
            return value_of(space, result), like_result(space, result, value_of(space, parts))

    return dispatch((primals, tangents), outer, lambda: inner.jvp(target, tuple(primals), tuple(tangents)))


def derivative(f, holomorphic=False):
    """Return the derivative of a function of one scalar; the output may have any shape.

    Parameters
    ----------
    f : callable
        Function of one float (further arguments are constants).
    holomorphic : bool
        ``f`` is a holomorphic function of one complex number: f'.

    Returns
    -------
    callable
        ``g(x, *constants)`` → derivative, with the structure and shapes of ``f``'s result. Nests:
        ``nt.derivative(nt.derivative(f))`` is the second derivative.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> float(nt.derivative(np.sin)(0.0))
    1.0
    >>> nt.derivative(lambda t: np.stack([t, t**2]))(3.0)
    array([1., 6.])
    >>> float(nt.derivative(nt.derivative(lambda t: t**3))(2.0))
    12.0
    """
    target, names = python_function(f), parameter_names(f)
    shelf = shelf_of(target)

    @functools.wraps(f)
    def call(x, *constants, **kwargs):
        plain = x._value if type(x) in (TracedArray, TracedComplex) else x
        if np.ndim(plain) != 0:
            raise SpecError(
                f"derivative needs a function of one scalar, got shape {np.shape(plain)}; "
                "perhaps you meant grad or jacobian"
            )

        def outer():
            flat = flatten_call((x, *constants), kwargs, (0,), names, holomorphic)
            if not holomorphic:
                require_real(flat, "the derivative (but holomorphic=True)")
            direction = flat.active[0].dtype.type(1.0)
            with shelf.derived(target, flat, "jvp", pushforward(False), lanes=False) as derived:
                space = derived.sweep(derived.extended(flat, [direction]))
                result, parts = space.variant.recording.result
                require_derivative(flat, result)
                return like_result(space, result, value_of(space, parts))

        trees = (x, constants, kwargs)
        return dispatch(trees, outer, lambda: inner.derivative(target, x, constants, kwargs, holomorphic))

    return call


def hvp(f, argnums=0, *, static_argnums=None, static_argnames=None):
    """Return a function that multiplies the Hessian of ``f`` by a vector.

    Parameters
    ----------
    f : callable
        Function that returns one real scalar.
    argnums : int or tuple of int
        What to differentiate with respect to. The other arguments are constants.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``h(*args, v)`` → ``H(args) v``, with the structure of the argument; with a tuple of argnums
        ``v`` and the result are tuples, and H is the joint Hessian. With respect to complex numbers it is
        the derivative of the gradient along ``v``, which is linear over real factors alone.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    target, names = python_function(f), parameter_names(f)
    static = StaticArguments(static_argnums, static_argnames, names)
    shelf = shelf_of(target)
    single = isinstance(argnums, (int, np.integer))

    @functools.wraps(f)
    def call(*args, **kwargs):
        if len(args) < 2:
            raise SpecError("hvp needs the function's arguments and, last, the vector")
        *args, v = args
        chosen = chosen_arguments(argnums, len(args))
        vectors = (v,) if single else v
        if not single and (not isinstance(v, (tuple, list)) or len(v) != len(chosen)):
            raise SpecError(f"hvp: the vector must be a tuple of {len(chosen)}, one entry an argument")

        def outer():
            flat = flatten_call(args, kwargs, chosen, names, static=static)
            given = [None] * len(args)
            for k, vector in zip(chosen, vectors, strict=True):
                given[k] = vector
            directions = direction_leaves(flat, given, "the vector")
            transform = hessian_vector("reverse_over_forward", False)
            with shelf.derived(target, flat, "hvp", transform, lanes=False) as derived:
                _, products = products_of(flat, derived.sweep(derived.extended(flat, directions)))
            return tuple(products[k] for k in chosen)

        products = dispatch(
            (args, kwargs, v), outer, lambda: inner.hvp(target, args, kwargs, chosen, vectors)
        )
        return products[0] if single else products

    return call
