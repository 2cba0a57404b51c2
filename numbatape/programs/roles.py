"""What role an argument has: `Constant`, `Static` or `Cache`."""

from __future__ import annotations

from typing import Any

from ..savings import frozen
from ..trace import pytrees


@pytrees.opaque
@frozen()
class Constant:
    """Data: an argument without a gradient whose values and sizes may change from call to call.

    Parameters
    ----------
    value : array, number, or pytree of them
        The data; the function gets it as it is, without this mark.
    frozen : bool
        Promise that the contents never change: they are then not compared in each call.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> f = lambda x, y: np.sum((x - y) ** 2)
    >>> cache = nt.prepare_gradient_cache(f, np.zeros(2), nt.Constant(np.ones(2)))
    >>> nt.value_and_gradient(cache, np.zeros(2))
    (np.float64(2.0), (array([-2., -2.]), None))
    """

    value: Any
    frozen: bool = False


@pytrees.opaque
@frozen()
class Static:
    """A hashable Python value that selects the tape: each value has a trace of its own.

    Parameters
    ----------
    value : hashable
        The value; the function gets it as it is, without this mark.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> f = lambda x, power: np.sum(x**power)
    >>> cache = nt.prepare_gradient_cache(f, np.ones(2), nt.Static(3))
    >>> nt.value_and_gradient(cache, np.ones(2), nt.Static(2))[0]
    np.float64(2.0)
    """

    value: Any


@pytrees.opaque
@frozen(eq=False)
class Cache:
    """Memory that the function writes to: its contents on entry do not matter.

    If the function returns None and has exactly one `Cache`, this is its output. The caller's
    array stays as it is.

    Parameters
    ----------
    buffer : numpy.ndarray
        An array of any contents: the function gets memory of this shape and dtype.

    Examples
    --------
    >>> import numpy as np, numbatape as nt
    >>> def squares(y, x):
    ...     y[:] = x**2
    >>> y, x = np.zeros(2), np.array([1.0, 2.0])
    >>> cache = nt.prepare_pullback_cache(squares, nt.Cache(y), x)
    >>> nt.value_and_pullback(cache, np.ones(2), nt.Cache(y), x)
    (array([1., 4.]), (None, array([2., 4.])))
    """

    buffer: Any


def is_mark(x) -> bool:
    """Whether an argument comes as a `Constant`, a `Static` or a `Cache`."""
    return x.__class__ is Constant or x.__class__ is Static or x.__class__ is Cache


def data_of(argument):
    """Return the value of an argument that comes as a `Constant`."""
    return argument.value if argument.__class__ is Constant else argument


def bare(argument):
    """Return the value of an argument that comes as a `Constant` or a `Static`."""
    cls = argument.__class__
    return argument.value if cls is Constant or cls is Static else argument


def as_constant(value):
    """Return an argument in the role of a constant, unless it has a role already."""
    return value if is_mark(value) else Constant(value)


def as_constants(named: dict) -> dict:
    """Return keyword arguments in the role of constants, unless they have roles already."""
    return {name: as_constant(value) for name, value in named.items()}


def like_prepared(arg, prepared):
    """Return a bare argument in the role that it was prepared with."""
    if is_mark(arg) or not is_mark(prepared):
        return arg
    return Constant(arg, prepared.frozen) if prepared.__class__ is Constant else prepared.__class__(arg)
