"""Pullbacks, one-shot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..caches.linearised import Pullback, Taped
from ..caches.registry import shelf_of
from ..programs.arguments import Flattened
from ..programs.contract import require_active
from ..programs.evaluator import Evaluator
from ..programs.results import require_aux
from ..programs.roles import as_constants
from ..steady_calls.entry import REFUSED
from ..steady_calls.leaf_rows import sizes_of
from ..trace import pytrees
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import current
from ..usercode.ownership import parameter_names, traced_function
from . import inner
from .made import serving, with_moving
from .verb_calls import dispatch, with_statics


def vjp(
    f: Callable[..., Any],
    *primals: Any,
    has_aux: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Return the value of ``f`` and its pullback (its vector-Jacobian product) at some point.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    *primals : arrays, numbers or pytrees of them
        Where to evaluate it.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, aux is passed through.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.

    Returns
    -------
    value : array, number, or pytree of them
        ``f(*primals)``.
    pullback : callable
        ``pullback(ybar)`` → tuple with the cotangents of the arguments, one entry for each. ``ybar`` has the
        structure and the shapes of the value. A pullback owns its forward state: pullbacks of
        several calls may be alive at once.
    aux
        With ``has_aux`` only.

    Raises
    ------
    SpecError
        If nothing can be differentiated; from the pullback, if the cotangent does not fit the value.
    UnsupportedOperationError
        If ``f`` uses what numbatape cannot differentiate.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> y, pullback = nt.vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.ones(2))
    (array([2., 4.]),)
    """
    primals = with_statics(f, primals, static_argnums, static_argnames)
    return serving(f, ("vjp", has_aux), _vjp_verb, has_aux)(*primals)


def _vjp_verb(f, has_aux: bool):
    """Return what serves the calls of `vjp`: each leaves a sweep behind for its pullback."""
    target, names = traced_function(f), parameter_names(f)
    shelf = shelf_of(target)
    moving = shelf.moving

    def call(*primals, **variables):
        idle = shelf.idle(("vjp", has_aux, sizes_of(primals), bool(variables)))
        if moving.names and moving.names[0] not in variables and current() is None:
            itself = lambda: general(primals, variables, idle)  # noqa: E731
            return with_moving(moving, moving.keywords(), call, itself, primals, variables)
        if idle and current() is None:
            try:
                taped = idle.pop()
            except IndexError:  # another thread took the last one
                return general(primals, variables, idle)
            value = taped.front.call(*primals, **variables)
            if value is not REFUSED:
                return _apart(value, Pullback(taped, idle)) if has_aux else (value, Pullback(taped, idle))
        return general(primals, variables, idle)

    def general(primals, variables, idle):
        """Serve a call of `vjp` that is not steady; its workspace goes to the pullback."""

        def nested():
            return inner.vjp(target, primals, has_aux)

        def outer():
            flat = Flattened(primals, as_constants(variables), names)
            require_active(flat)
            # The pullback reads the evaluator's state, so it gets an evaluator of its own.
            evaluator = Evaluator(shelf.program(target, flat, repeats=True))
            space = evaluator.forward(flat)
            if has_aux:
                require_aux(space.variant.recording)
            recorded = space.variant.recording.result
            recorded = recorded[0] if has_aux else recorded
            pytrees.require_numbers(recorded, pytrees.leaves(recorded))
            taped = Taped(evaluator, flat, space)
            found = taped.value, Pullback(taped, idle)
            value, pullback, *aux = _apart(*found) if has_aux else found
            return value, pullback if current() is None else _recordable(pullback, nested), *aux

        return dispatch(primals, outer, nested)

    return call


def _recordable(pullback, nested):
    """Return the pullback at a plain point inside of a trace: with a traced cotangent it is recorded."""
    return lambda ybar: dispatch(ybar, lambda: pullback(as_ndarrays(ybar)), lambda: nested()[1](ybar))


def _apart(result: tuple, pullback) -> tuple:
    """Return (value, pullback, aux), given the result ``(value, aux)`` and the pullback of that pair.

    The pullback that is returned takes a cotangent of the value alone.
    """
    value, aux = result
    leaves, structure = pytrees.flatten(aux)
    numbers = (float, int, complex, np.ndarray, np.generic)
    # What is no number takes no cotangent, and stays in its place for the sake of the structure.
    zeros = [np.zeros_like(leaf, float) if isinstance(leaf, numbers) else leaf for leaf in leaves]
    zeros_of_aux = pytrees.unflatten(structure, zeros)
    return value, lambda ybar: pullback((ybar, zeros_of_aux)), aux
