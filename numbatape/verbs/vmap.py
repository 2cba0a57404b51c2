"""``nt.vmap``: a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..caches.registry import USUAL
from ..config import Config, chosen
from ..control.mapped_axes import check_in_axes, check_out_axes
from .made import NAMED, made_by
from .mapping import mapped_call
from .verb_calls import Served, bare_arguments


def vmap(
    f: Callable, in_axes: Any = 0, out_axes: Any = 0, *, config: Config | None = None
) -> Callable[..., Any]:
    """Return a function that does what ``f`` does, for each entry along an axis of its arguments.

    ``nt.vmap(f)(x)`` is ``np.stack([f(row) for row in x])``, computed in lanes: one sweep computes many rows
    at once, and what does not depend on the row is computed once. ``f`` may be any function of arrays, among
    them those that other verbs return (``nt.vmap(nt.hessian(f))``), and the result may be differentiated, or
    mapped again.

    Rows that take different branches of ``f`` are computed apart, each with its own branch. A function that
    cannot be traced is called once for each row.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or a container of them.
    in_axes : int or None, or tuple of them
        Which axis of each positional argument is mapped; None for an argument that all rows share. An entry
        for an argument that is a container may be a container, too, whose leaves say it for its parts. Axes
        may be negative. An int stands for all arguments. Keyword arguments are mapped over their first axis.
    out_axes : int or None, or container of them
        Where the results have the mapped axis; None for a result that is the same for all rows, and gets
        no axis. A container says it for the parts of a result that is one.
    config : Config, optional
        Choices: ``threads``, and how ``f`` is recorded (``values``, ``strong_zero``, ``passes``). Inside of a
        traced function, those of the trace hold.

    Returns
    -------
    callable
        Takes the arguments of ``f`` with the axis, and returns the results of ``f`` with the axis.

    Raises
    ------
    SpecError
        If ``in_axes`` or ``out_axes`` is neither an int, None, nor a container of them, or if no array is
        mapped. `ArityError` if ``in_axes`` has another length than the arguments, `StructureError` if one of
        its entries does not fit its argument, `ShapeError` if an array lacks the axis, or if the mapped axes
        have different lengths. These happen when the returned function is called, as does all that ``f``
        itself raises for one of the rows.
    OutputError
        If ``out_axes`` names an axis that a result does not have, or is None for one that differs between the
        rows; if ``f`` returns different shapes for different rows.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> nt.vmap(lambda x, a: a * np.sum(x**2), in_axes=(0, None))(X, 10.0)
    array([ 50., 250., 610.])
    >>> nt.vmap(nt.grad(lambda x: np.prod(x)))(X)
    array([[2., 1.],
           [4., 3.],
           [6., 5.]])
    >>> nt.grad(lambda a: np.sum(nt.vmap(lambda x: np.sin(a * x).sum())(X)))(0.0)
    np.float64(21.0)
    """
    check_in_axes(in_axes)
    check_out_axes(out_axes)
    return made_by(vmap, f, _vmap, shares=NAMED, in_axes=in_axes, out_axes=out_axes, config=config)


def _vmap(f, in_axes, out_axes, config):
    """Return what serves ``vmap(f, in_axes, out_axes)``."""
    config = chosen(config, USUAL)
    served = Served(f, ("vmap", repr(in_axes), repr(out_axes), config))

    def general(args, kwargs):
        args, named = bare_arguments(args), bare_arguments(kwargs.values())
        kwargs = dict(zip(kwargs, named, strict=True))
        return mapped_call(served, in_axes, out_axes, args, kwargs, config)

    return served.by(general)
