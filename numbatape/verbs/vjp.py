"""Pullbacks, one-shot."""

from __future__ import annotations

from ..caches.arguments import Flattened, bare, require_active
from ..caches.base import parameter_names, python_function
from ..caches.linearised import Pullback, Taped
from ..caches.program import Evaluator
from ..caches.pullback import require_numbers
from ..caches.registry import shelf_of
from ..caches.steady import REFUSED, sizes_of
from ..trace.trace import current
from . import inner
from .calls import dispatch, with_statics


def vjp(f, *primals, static_argnums=None, static_argnames=None):
    """Return the value of ``f`` and its pullback (its vector-Jacobian product) at some point.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function with any output.
    *primals : arrays, numbers or pytrees of them
        Where to evaluate it.
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
    return shelf_of(python_function(f)).verb(("vjp",), lambda: _vjp_verb(f))(*primals)


def _vjp_verb(f):
    target, names = python_function(f), parameter_names(f)
    shelf = shelf_of(target)

    def call(*primals):
        idle = shelf.idle(("vjp", sizes_of(primals)))
        if idle and current() is None:
            try:
                taped = idle.pop()
            except IndexError:  # another thread took the last one
                return general(primals, idle)
            value = taped.front.call(*primals)
            if value is not REFUSED:
                return value, Pullback(taped, idle)
        return general(primals, idle)

    def general(primals, idle):
        def outer():
            flat = Flattened(primals, {}, names)
            require_active(flat)
            # The pullback reads the evaluator's state, so it gets an evaluator of its own.
            evaluator = Evaluator(shelf.program(target, flat, repeats=True))
            space = evaluator.forward(flat)
            require_numbers(space)
            taped = Taped(evaluator, flat, space)
            return taped.value, Pullback(taped, idle)

        return dispatch(primals, outer, lambda: inner.vjp(target, tuple(map(bare, primals))))

    return call
