"""Derivatives along given directions: jvp, derivative, hvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..caches.directions import direction_leaves, like_result, products_of
from ..errors import SpecError
from ..nested.recorded_derivatives import hessian_vector, pushforward, with_aux
from ..programs.arguments import Flattened, as_array
from ..programs.contract import require_active, require_real
from ..programs.results import require_derivative, value_of
from ..programs.roles import as_constants
from ..steady_calls.outs import parts_outs, result_outs, tangent_outs
from ..trace.array import TracedArray
from ..trace.complex_array import TracedComplex
from . import inner
from .made import made_by, serving
from .verb_calls import Served, chosen_arguments, dispatch, with_statics


def jvp(
    f: Callable[..., Any],
    primals: Any,
    tangents: Any,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Return the value of ``f`` and its derivative along a direction, by forward mode.

    The derivative is the Jacobian-vector product.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    primals : tuple
        The arguments.
    tangents : tuple
        One direction for each argument, of its structure and shapes; for arguments without a derivative
        any entry (None, say).
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*primals)``.
    tangent : array, number, or pytree of them
        The derivative, with the structure and the shapes of the value.
    aux
        With ``has_aux`` only.

    Raises
    ------
    SpecError
        If a tangent has another structure or shape than its primal.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.jvp(lambda x: x**2, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise SpecError("jvp needs primals and tangents as tuples, one entry an argument")
    if len(primals) != len(tangents):
        raise SpecError(f"jvp got {len(primals)} primals and {len(tangents)} tangents")

    primals = with_statics(f, tuple(primals), static_argnums, static_argnames)
    return serving(f, ("jvp", has_aux), _jvp_verb, has_aux)(*primals, *tangents)


def _jvp_verb(f, has_aux: bool):
    """Return a function of primals followed by as many tangents."""
    served = Served(f, ("jvp", has_aux))
    transform = with_aux(pushforward(False)) if has_aux else pushforward(False)

    def general(args, kwargs):
        """Serve a call of `jvp` that is not steady: by a pushforward, traced if it is the first one."""
        count = len(args) // 2
        primals, tangents = args[:count], args[count:]

        def outer():
            # The keywords are values of variables.
            flat = Flattened(primals, as_constants(kwargs), served.names)
            require_active(flat)
            directions = direction_leaves(flat, tangents, "the tangent")
            with served.caller() as caller:
                derived = served.derived(caller, flat, transform, lanes=False)
                space = derived.sweep(derived.extended(flat, directions))
                result, parts, *aux = space.variant.recording.result
                slope = like_result(space, result, value_of(space, parts))
                made = value_of(space, result), slope, *(value_of(space, part) for part in aux)
                slopes = tangent_outs(space, result, parts)
                if slopes is not None:
                    outs = [*result_outs(space, result), *slopes, *result_outs(space, tuple(aux))]
                    derived.teach(caller.front, space, made, outs, frozenset(), tangents)
                return made

        return dispatch(
            (primals, tangents),
            outer,
            lambda: inner.jvp(served.function, primals, tangents, has_aux),
        )

    return served.by(general)


def derivative(
    f: Callable[..., Any],
    holomorphic: bool = False,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return the derivative of a function of one scalar; the output may have any shape.

    Parameters
    ----------
    f : callable
        Function of one float (further arguments are constants).
    holomorphic : bool
        Whether ``f`` is a holomorphic function of one complex number: f' is returned.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``g(x, *constants)`` → derivative, with the structure and shapes of ``f``'s result, or
        ``(derivative, aux)`` with ``has_aux``. It nests: ``nt.derivative(nt.derivative(f))`` is the second
        derivative.

    Raises
    ------
    SpecError
        From the call: ``x`` is no scalar, or cannot be differentiated; perhaps `grad` or `jacobian` is meant.
    OutputError
        From the call: ``f`` returns complex numbers for a complex one, without ``holomorphic=True``.

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
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(derivative, f, _derivative, holomorphic=holomorphic, has_aux=has_aux, **statics)


def _derivative(f, holomorphic: bool, has_aux: bool, *statics):
    """Return what serves the calls of `derivative`: a pushforward along the unit direction."""
    served = Served(f, ("derivative", holomorphic, has_aux), *statics)
    transform = with_aux(pushforward(False)) if has_aux else pushforward(False)

    def general(args, kwargs):
        """Serve a call of `derivative` that is not steady: by a pushforward along one."""
        if not args:
            raise SpecError("derivative needs the number at which it is taken")
        x, *constants = args
        plain = x._value if type(x) in (TracedArray, TracedComplex) else x
        shape = as_array(plain, "argument 0 of derivative").shape
        if shape:
            raise SpecError(
                f"derivative needs a function of one scalar, got shape {shape}; "
                "perhaps you meant grad or jacobian"
            )

        def outer():
            """Sweep a pushforward along one, outside of any trace."""
            flat = served.flatten(args, kwargs, (0,), holomorphic)
            if len({spec.path for spec in flat.active}) > 1:
                raise SpecError("derivative needs a function of one number, got a container of several")
            if not holomorphic:
                require_real(flat, "the derivative (but holomorphic=True)")
            direction = flat.active[0].dtype.type(1.0)
            with served.caller() as caller:
                derived = served.derived(caller, flat, transform, lanes=False)
                space = derived.sweep(derived.extended(flat, [direction]))
                result, parts, *aux = space.variant.recording.result
                require_derivative(flat, result)
                made = like_result(space, result, value_of(space, parts))
                if has_aux:
                    made = made, *(value_of(space, part) for part in aux)
                outs = None if holomorphic else tangent_outs(space, result, parts)
                if outs is not None:  # the unit direction stays in its cell
                    outs = [*outs, *result_outs(space, tuple(aux))]
                    derived.teach(caller.front, space, made, outs, frozenset())
                return made

        def nested():
            return inner.derivative(served.function, x, tuple(constants), kwargs, holomorphic, has_aux)

        return dispatch((args, kwargs), outer, nested)

    return served.by(general)


def hvp(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that multiplies the Hessian of ``f`` by a vector, without forming the Hessian.

    It computes the gradient of the derivative along the vector: reverse over forward mode.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar, or ``(scalar, aux)``.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``h(*args, v)`` → ``H(args) v``, with the structure of the argument, or ``(product, aux)`` with
        ``has_aux``; with a tuple of argnums ``v`` and the result are tuples, and H is the joint Hessian. With
        respect to complex numbers it is the derivative of the gradient along ``v``, which is linear over real
        factors alone.

    Raises
    ------
    SpecError
        From the call: an argument cannot be differentiated, or ``v`` has another structure or shape.
    OutputError
        From the call: ``f`` does not return one real scalar.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(hvp, f, _hvp, argnums=argnums, has_aux=has_aux, **statics)


def _hvp(f, argnums, has_aux: bool, *statics):
    """Return what serves the calls of `hvp`."""
    served = Served(f, ("hvp", str(argnums), has_aux), *statics)
    single = isinstance(argnums, (int, np.integer))
    transform = hessian_vector("reverse_over_forward", False)
    transform = with_aux(transform) if has_aux else transform

    def general(args, kwargs):
        """Serve a call of `hvp` that is not steady; the last argument is the vector."""
        if len(args) < 2:
            raise SpecError("hvp needs the function's arguments and, last, the vector")
        *args, v = args
        chosen = chosen_arguments(argnums, len(args))
        vectors = (v,) if single else v
        if not single and (not isinstance(v, (tuple, list)) or len(v) != len(chosen)):
            raise SpecError(f"hvp: the vector must be a tuple of {len(chosen)}, one entry an argument")

        def outer():
            flat = served.flatten(args, kwargs, chosen)
            given = [None] * len(args)
            for k, vector in zip(chosen, vectors, strict=True):
                given[k] = vector
            directions = direction_leaves(flat, given, "the vector")
            with served.caller() as caller:
                derived = served.derived(caller, flat, transform, lanes=False)
                space = derived.sweep(derived.extended(flat, directions))
                _, products = products_of(flat, space)
                made = products[chosen[0]] if single else tuple(products[k] for k in chosen)
                _, _, parts, *aux = space.variant.recording.result
                if has_aux:
                    made = made, *(value_of(space, part) for part in aux)
                outs = parts_outs(flat, space, parts, chosen)
                if outs is not None:
                    outs = [*outs, *result_outs(space, tuple(aux))]
                    derived.teach(caller.front, space, made, outs, frozenset(), (v,))
                return made

        def nested():
            products, *aux = inner.hvp(served.function, args, kwargs, chosen, vectors, has_aux)
            product = products[0] if single else products
            return (product, *aux) if has_aux else product

        return dispatch((args, kwargs, v), outer, nested)

    return served.by(general)
