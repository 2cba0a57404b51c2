"""``nt.batch``: value and derivative at many points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..caches.batched_points import BatchedPoints
from ..caches.points import Points
from ..caches.registry import USUAL
from ..capture.moving_names import moving_names
from ..config import Config, chosen
from ..errors import SpecError
from ..programs.roles import Constant, is_mark
from ..trace import pytrees
from . import inner_batch
from .made import NAMED, made_by
from .mapping import mapped_call
from .verb_calls import Served, bare_arguments, dispatch, with_statics


def batch(
    f: Callable[..., Any],
    in_axes: Any = 0,
    *,
    value_only: bool = False,
    has_aux: bool = False,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    config: Config | None = None,
) -> Callable[..., Any]:
    """Return a function that evaluates ``f`` and its derivative at many points in one sweep.

    Each point is a lane: arrays shared by all points are not repeated. Points that take different
    branches of ``f`` are swept apart, with exact results; where no guard describes the branch (text, a
    caught exception, state that ``f`` changes) the function runs at each point. What comes out for a point
    does not depend on the other points, to the last bit.

    Parameters
    ----------
    f : callable
        Plain NumPy/SciPy function of one point; returns a scalar or an array (of real arguments it may be
        complex).
    in_axes : int or None or tuple of them
        Which axis of each argument numbers the points; None for an argument shared by all. An int stands
        for the first argument alone: the others are shared. Data of each point that takes no gradient comes
        as a batched `Constant`.
    value_only : bool
        Whether to return the values alone, and to compute no derivative. `vmap` does the same for any axes,
        and for functions that return containers.
    has_aux : bool
        Whether ``f`` returns ``(value, aux)``: the value is differentiated, and what aux contains (numbers
        and arrays) is stacked, with a leading axis of points.
    static_argnums, static_argnames : int, str or tuple of them
        Arguments that select a tape, by place or by name: any hashable value.
    config : Config, optional
        Choices: ``threads``, and how ``f`` is recorded (``values``, ``strong_zero``, ``passes``). Inside of a
        traced function, those of the trace hold.

    Returns
    -------
    callable
        ``b(X, *others)`` → ``(values, derivatives)``: values with a leading axis of points; of a scalar
        function the gradients, of an array-valued one the Jacobians, each with a leading axis of points.
        With several batched float arguments the derivatives are a tuple. With ``value_only`` it returns the
        values alone. With ``has_aux`` there is ``(values, aux)`` in the place of the values.

    Raises
    ------
    ValueError
        If the batched arguments differ in the number of points.
    numpy.linalg.LinAlgError, IndexError
        Or what else ``f`` raises at one of the points.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> values, gradients = nt.batch(lambda x: np.sum(x**2))(X)
    >>> values, gradients[1]
    (array([ 5., 25., 61.]), array([6., 8.]))
    >>> nt.batch(lambda x: np.stack([x[0] * x[1], x[0]]))(X)[1][0]
    array([[2., 1.],
           [1., 0.]])
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options: dict[str, Any] = {"in_axes": in_axes, "value_only": bool(value_only), "has_aux": bool(has_aux)}
    return made_by(batch, f, _batch, shares=NAMED, **options, **statics, config=config)


def _batch(f, in_axes, value_only, has_aux, static_argnums, static_argnames, config):
    """Return what serves ``batch(f, ...)``."""
    config = chosen(config, USUAL)
    statics = repr(static_argnums), repr(static_argnames)
    served = Served(f, ("batch", repr(in_axes), value_only, has_aux, statics, config))

    def general(args, kwargs):
        others = sorted(kwargs.keys() - set(moving_names(kwargs)))
        if others:
            raise TypeError(f"nt.batch: arguments come by position; got the keywords {others}")
        args = with_statics(f, args, static_argnums, static_argnames)
        axes, trees = _axes(in_axes, args), bare_arguments(args)
        if value_only:
            found = mapped_call(served, axes, 0, trees, kwargs, config)
            return pytrees.value_and_aux(found) if has_aux else found

        def outside(args):
            points = Points(served.names, args, bare_arguments(args), axes, kwargs)
            with served.caller() as caller:
                return BatchedPoints(served.function, served.shelf, caller, points, has_aux, config).result()

        def nested():
            return inner_batch.batch(served.function, args, axes, has_aux, outside)

        return dispatch(trees, lambda: outside(args), nested)

    return served.by(general)


def _axes(in_axes, args) -> tuple:
    """Return the axis of each argument that numbers the points, None where there is none."""
    given = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,)
    kinds = (int, np.integer, type(None))
    if not all(isinstance(axis, kinds) and not isinstance(axis, bool) for axis in given):
        raise SpecError(f"in_axes={in_axes!r}: must be an int, or a tuple of ints and None")
    axes = (in_axes, *[None] * (len(args) - 1)) if not isinstance(in_axes, (tuple, list)) else in_axes
    if len(axes) != len(args) or all(axis is None for axis in axes):
        raise SpecError(f"in_axes={in_axes!r} does not fit {len(args)} arguments, or batches none of them")
    for k, (arg, axis) in enumerate(zip(args, axes, strict=True)):
        if axis is not None and is_mark(arg) and arg.__class__ is not Constant:
            raise SpecError(f"argument {k} is a {type(arg).__name__}, which all points share: in_axes None")
    return tuple(axes)
