"""Second derivatives by all entries: hessian, hessian_diagonal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..caches.dense_hessian import blocks, full_hessian, hessian_outs
from ..nested.recorded_derivatives import hessian_vector, second_pushforward, with_aux
from ..programs.contract import require_real
from ..programs.results import value_of
from ..steady_calls.outs import Out, result_outs
from . import inner
from .jacobians import Differentiated, Ways
from .made import made_by
from .verb_calls import Served, chosen_arguments, dispatch


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of a scalar function.

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
        ``h(*args, **kwargs)`` → array of shape input shape + input shape, or ``(hessian, aux)`` with
        ``has_aux``; of a dictionary a dictionary of dictionaries; with a tuple of argnums a tuple of tuples.
        Of several arguments with containers it is the tuple of gradients with, in the place of each leaf, a
        tuple of its derivatives, as in JAX.

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
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(hessian, f, _hessian, argnums=argnums, has_aux=has_aux, **statics)


def _hessian(f, argnums, has_aux: bool, *statics):
    """Return what serves the calls of `hessian`."""
    served = Served(f, ("hessian", str(argnums), has_aux), *statics)
    single = isinstance(argnums, (int, np.integer))
    transform = hessian_vector("reverse_over_forward", False)
    transform = with_aux(transform) if has_aux else transform

    def general(args, kwargs):
        """Serve a call of `hessian` that is not steady, and let the front learn from it."""
        chosen = chosen_arguments(argnums, len(args), 1)

        def outer():
            flat = served.flatten(args, kwargs, chosen)
            require_real(flat, "a Hessian")
            with served.caller() as caller:
                derived = served.derived(caller, flat, transform, lanes=True)
                space, _, _, whole = full_hessian(derived, flat, None)
                made = blocks(flat, whole, chosen, single)
                outs = hessian_outs(flat, derived.last) if single else None
                others: list[Out] = []
                if has_aux:
                    aux = space.variant.recording.result[-1]
                    made, others = (made, value_of(space, aux)), result_outs(space, aux)
                if outs is not None:
                    derived.teach(caller.front, space, made, [outs[-1], *others], frozenset())
                return made

        def nested():
            made, *aux = inner.hessian(served.function, args, kwargs, chosen, single, has_aux)
            return (made, *aux) if has_aux else made

        return dispatch((args, kwargs), outer, nested)

    return served.by(general)


def hessian_diagonal(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the second derivative of ``f`` by each entry of its argument.

    For a function with one result this is the diagonal of the Hessian. It is computed by forward over
    forward mode, one lane for each entry, and no memory is needed for the Hessian. If the function is a sum
    of terms with few variables each, `sparse_hessian` takes fewer lanes.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    argnums : int or tuple of int
        The arguments to differentiate with respect to, by place. The others are constants.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``; aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    callable
        ``d(*args, **kwargs)`` → array of shape output shape + input shape, or ``(array, aux)`` with
        ``has_aux``; containers as for `jacobian`.

    Raises
    ------
    SpecError
        From the call: an argument cannot be differentiated, or is complex.
    UnsupportedOperationError
        From the call: ``f`` uses what numbatape cannot differentiate.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> nt.hessian_diagonal(lambda x: x[0] ** 3 * x[1] ** 2)(np.array([2.0, 3.0]))
    array([108.,  16.])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    return made_by(hessian_diagonal, f, _hessian_diagonal, argnums=argnums, has_aux=has_aux, **statics)


def _hessian_diagonal(f, argnums, has_aux, *statics):
    ways = Ways(second_pushforward(False), None, inner.hessian_diagonal)
    return Differentiated(f, ways, False, argnums, "forward", False, has_aux, *statics).serve
