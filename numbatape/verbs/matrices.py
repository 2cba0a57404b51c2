"""Whole matrices of derivatives: jacobian, hessian."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..caches import dense_jacobian as dense
from ..caches.base import parameter_names, python_function
from ..caches.complex_leaves import require_real
from ..caches.dense_hessian import blocks, full_hessian, hessian_outs
from ..caches.registry import Caller, shelf_of
from ..trace.nested.derived import hessian_vector, pullback, pushforward
from . import inner
from .calls import StaticArguments, chosen_arguments, dispatch, flatten_call, one_shot
from .made import MadeFunction, made_by


class JacobianFunction(MadeFunction):
    """What `jacobian` returns: its ``repr`` says which mode "auto" took in the last call."""

    __slots__ = ()

    def _how(self) -> str:
        mode, serve = self._options["mode"], cast(Any, self.__call__)
        return f": auto, {serve.taken or 'not called yet'}" if mode == "auto" else f": {mode}"


def jacobian(f, argnums=0, mode="auto", holomorphic=False, *, static_argnums=None, static_argnames=None):
    """Return a function that computes the Jacobian of ``f``.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    mode : {"auto", "forward", "reverse"}
        By columns or by rows; "auto" takes what there are fewer of.
    holomorphic : bool
        Whether ``f`` is a holomorphic function of complex arguments: its complex Jacobian is returned.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``j(*args, **kwargs)`` → Jacobian of shape output shape + input shape. For containers: the
        output's tree, with one tree of the argument's structure in the place of each leaf; with a
        tuple of argnums, a tuple of them (outputs outside, arguments inside, as in JAX). ``repr(j)``
        says which mode "auto" took.

    Raises
    ------
    ValueError
        If ``mode`` is none of its choices.
    SpecError
        From the call: an argument has a dtype that cannot be differentiated (an integer, say).
    OutputError
        From the call: ``f`` returns complex numbers for complex arguments, without ``holomorphic=True``.
    UnsupportedOperationError
        From the call: ``f`` uses what numbatape cannot differentiate.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.jacobian(lambda x: np.stack([x[0] ** 2 + x[1], x[0] * x[1]]))(np.array([2.0, 3.0]))
    array([[4., 1.],
           [3., 2.]])
    """
    if mode not in dense.MODES:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, dense.MODES))}")
    statics = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options = {"argnums": argnums, "mode": mode, "holomorphic": holomorphic, **statics}
    return made_by(jacobian, f, _jacobian, JacobianFunction, **options)


def _jacobian(f, argnums, mode: str, holomorphic: bool, static_argnums, static_argnames):
    target, names = python_function(f), parameter_names(f)
    static = StaticArguments(static_argnums, static_argnames, names)
    shelf = shelf_of(target)
    single = isinstance(argnums, (int, np.integer))
    what = ("jacobian", str(argnums), mode, holomorphic)

    def general(args, kwargs):
        chosen = chosen_arguments(argnums, len(args))

        def outer():
            flat = flatten_call(args, kwargs, chosen, names, holomorphic, static)
            with shelf.lent(what, Caller) as caller:
                primal, direction = None, mode
                if mode != "forward":
                    primal = shelf.evaluator(caller, target, flat).forward(flat)
                    direction = dense.choose(mode, flat, primal)
                serve.taken = direction
                if direction == "forward":
                    derived = shelf.derived(caller, target, flat, pushforward(False), lanes=True)
                    _, assembled = dense.forward(derived, flat, None)
                else:
                    derived = shelf.derived(caller, target, flat, pullback, lanes=True)
                    _, assembled = dense.reverse(derived, flat, primal, None)
                made = dense.arranged(assembled, chosen, single)
                outs = dense.outs_of(flat, derived, direction == "forward")
                if outs is not None and not holomorphic:
                    derived.teach(caller.front, derived.last, made, outs[1:], frozenset())
                return made

        def nested():
            return inner.jacobian(target, args, kwargs, chosen, single, mode, holomorphic)

        return dispatch((args, kwargs), outer, nested)

    serve: Any = one_shot(shelf.idle(what), general)
    serve.taken = None
    return serve


def hessian(f, argnums=0, *, static_argnums=None, static_argnames=None):
    """Return a function that computes the Hessian of a scalar function.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``h(*args, **kwargs)`` → array of shape input shape + input shape; of a dictionary a dictionary
        of dictionaries; with a tuple of argnums a tuple of tuples. Of several arguments with containers it
        is the tuple of gradients with, in the place of each leaf, a tuple of its derivatives, as in JAX.

    Raises
    ------
    SpecError
        From the call: an argument cannot be differentiated, or is complex.
    OutputError
        From the call: ``f`` does not return one real scalar.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.hessian(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)(np.array([1.2, 1.2]))
    array([[1250., -480.],
           [-480.,  200.]])
    """
    statics = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(hessian, f, _hessian, argnums=argnums, **statics)


def _hessian(f, argnums, static_argnums, static_argnames):
    target, names = python_function(f), parameter_names(f)
    static = StaticArguments(static_argnums, static_argnames, names)
    shelf = shelf_of(target)
    single = isinstance(argnums, (int, np.integer))
    what = ("hessian", str(argnums))
    transform = hessian_vector("reverse_over_forward", False)

    def general(args, kwargs):
        chosen = chosen_arguments(argnums, len(args))

        def outer():
            flat = flatten_call(args, kwargs, chosen, names, static=static)
            require_real(flat, "a Hessian")
            with shelf.lent(what, Caller) as caller:
                derived = shelf.derived(caller, target, flat, transform, lanes=True)
                _, _, whole = full_hessian(derived, flat, None)
                made = blocks(flat, whole, chosen, single)
                outs = hessian_outs(flat, derived.last) if single else None
                if outs is not None:
                    derived.teach(caller.front, derived.last, made, outs[-1:], frozenset())
                return made

        def nested():
            return inner.hessian(target, args, kwargs, chosen, single)

        return dispatch((args, kwargs), outer, nested)

    return one_shot(shelf.idle(what), general)
