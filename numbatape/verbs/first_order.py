"""Gradients, one-shot: prepared on first use, kept by function and signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..late import imported
from ..programs.contract import require_complex
from ..programs.results import (
    complex_output,
    gradients_of,
    require_aux,
    scalar_output,
    seed_output,
    value_and_aux,
    value_of,
)
from ..steady_calls.outs import Out, gradient_outs, result_outs
from ..trace import pytrees
from ..trace.array import TracedArray
from ..trace.primitives import stop_gradient as _stop_traced
from .made import made_with
from .verb_calls import Served, chosen_arguments, dispatch

OPTIONS = "argnums", "has_aux", "holomorphic", "static_argnums", "static_argnames"


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the value and the gradient of ``f``, by reverse mode.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar, or ``(scalar, aux)``.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    holomorphic : bool
        Whether ``f`` is a holomorphic function with one complex result: the derivative f' is returned.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``g(*args, **kwargs)`` → ``(value, gradient)`` or ``((value, aux), gradient)``; the
        gradient has the structure and the shapes of the argument, and is a tuple if ``argnums`` is one. With
        respect to a complex number x + iy the gradient of a real function is ∂/∂x + i ∂/∂y.

    Raises
    ------
    SpecError
        From the call: an argument has a dtype that cannot be differentiated (an integer, say), or ``argnums``
        names an argument that is not there.
    OutputError
        From the call: ``f`` does not return one real scalar (one complex number with ``holomorphic=True``).
    UnsupportedOperationError
        From the call: ``f`` uses what numbatape cannot differentiate; the message names the function and the
        line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.value_and_grad(lambda x, y: np.sum(x * y), argnums=(0, 1))(np.ones(2), np.arange(2.0))
    (np.float64(1.0), (array([0., 1.]), array([1., 1.])))
    """
    given = argnums, has_aux, holomorphic, static_argnums, static_argnames
    return made_with(value_and_grad, f, _value_and_grad, OPTIONS, given)


def _value_and_grad(f, *options):
    return _gradient(f, True, *options)


def _grad(f, *options):
    return _gradient(f, False, *options)


def _gradient(f, with_value: bool, argnums, has_aux, holomorphic, *statics):
    """Return what serves ``value_and_grad(f, ...)`` or ``grad(f, ...)``."""
    what = ("gradient", with_value, str(argnums), has_aux, holomorphic)
    served = Served(f, what, *statics)
    scalar: Callable = value_and_aux if has_aux else scalar_output
    if holomorphic:
        scalar = _complex_of_two if has_aux else complex_output
    single = isinstance(argnums, (int, np.integer))

    def arranged(value, grads):
        gradient = grads[0] if single else grads
        if with_value:
            return value, gradient
        return (gradient, value[1]) if has_aux else gradient

    def outs_of(flat, space, chosen) -> list[Out]:
        result = space.variant.recording.result
        grads = gradient_outs(flat, space, chosen)
        if with_value:
            return [*result_outs(space, result), *grads]
        return [*grads, *result_outs(space, result[1])] if has_aux else grads

    def general(args, kwargs):
        """Serve a call that is not steady: by a value sweep and a reverse sweep; the front learns from it."""
        chosen = chosen_arguments(argnums, len(args), 1)

        def outer():
            flat = served.flatten(args, kwargs, chosen)
            if holomorphic:
                require_complex(flat)
            with served.caller() as caller:
                evaluator = served.evaluator(caller, flat, repeats=True, gradient=True)
                space = evaluator.forward(flat)
                seed_output(space, scalar(space.variant.recording))
                space.reverse()
                value, grads = value_of(space), gradients_of(flat, space)
                # The gradient of the real part u is du/dx + i du/dy, and f' = du/dx - i du/dy.
                result = arranged(
                    value, tuple(_conjugate(grads[k]) if holomorphic else grads[k] for k in chosen)
                )
                if not holomorphic:
                    outs = outs_of(flat, space, chosen)
                    caller.front.learn(flat, evaluator, space, result, outs, "gradient")
            return result

        def nested():
            inner = imported(".inner", __package__)  # imported only for derivatives inside of a trace
            return arranged(
                *inner.value_and_grad(served.function, args, kwargs, chosen, has_aux, holomorphic)
            )

        return dispatch((args, kwargs), outer, nested)

    return served.by(general)


def _complex_of_two(recording):
    require_aux(recording)
    return complex_output(recording, recording.result[0])


def _conjugate(tree):
    return pytrees.mapped(lambda leaf: None if leaf is None else np.conjugate(leaf), tree)


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``f``, by reverse mode.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function that returns one real scalar, or ``(scalar, aux)``.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    holomorphic : bool
        Whether ``f`` is a holomorphic function with one complex result: the derivative f' is returned.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``g(*args, **kwargs)`` → gradient, or ``(gradient, aux)`` with ``has_aux``; see `value_and_grad`.

    Raises
    ------
    SpecError
        From the call: an argument has a dtype that cannot be differentiated (an integer, say), or ``argnums``
        names an argument that is not there.
    OutputError
        From the call: ``f`` does not return one real scalar (one complex number with ``holomorphic=True``).
    UnsupportedOperationError
        From the call: ``f`` uses what numbatape cannot differentiate; the message names the function and the
        line.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
    array([1., 1., 1.])
    >>> complex(nt.grad(lambda z: z**3, holomorphic=True)(1 + 1j))
    6j
    >>> nt.grad(lambda x, kind: getattr(np, kind)(x), static_argnums=1)(0.0, "sin")
    np.float64(1.0)
    """
    given = argnums, has_aux, holomorphic, static_argnums, static_argnames
    return made_with(grad, f, _grad, OPTIONS, given)


def stop_gradient(x: Any) -> Any:
    """Return a copy of ``x`` with zero derivative; it raises nothing.

    Parameters
    ----------
    x : array, number, or pytree of them
        Traced or plain.

    Returns
    -------
    array, number, or pytree of them
        Of the same structure and with the same values.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.grad(lambda x: x[0] * nt.stop_gradient(x)[1])(np.array([3.0, 4.0]))
    array([4., 0.])
    """
    return pytrees.mapped(_stopped, x)


def _stopped(leaf):
    if type(leaf) is TracedArray:
        return _stop_traced(leaf)
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
