"""`Cache`: an argument that the function writes to."""

from __future__ import annotations

from typing import Any

from ..savings import frozen
from ..trace import pytrees


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
