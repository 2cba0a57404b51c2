"""NumPy's functions that call a function of the user's: ``piecewise`` and ``apply_along_axis``.

That function may use traced values of its surroundings where its own arguments are plain.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..errors import LeakError
from ..trace.axes import lengths, one_axis, pinned
from ..trace.operands import find_trace, lift, lift_first, values_of
from ..trace.plain_arrays import as_ndarrays
from ..trace.trace import current, failing
from .function_tables import HOLDS, MAKERS, implements
from .stand_ins import named_like


@implements(np.piecewise, complex=HOLDS)
def piecewise(x, condlist, funclist, *args, **kw):
    """Call functions of single entries on all of ``x``; what is not chosen gets no adjoint.

    Any other function, such as one that takes a mean, gets the entries that it is chosen for: their number
    is a guard.
    """
    alone = np.isscalar(values_of(condlist))
    x = lift_first(x, *((condlist,) if alone else condlist))
    if alone or (x.ndim and not isinstance(values_of(condlist[0]), (list, np.ndarray))):
        condlist = [condlist]
    n = len(condlist)
    if len(funclist) not in (n, n + 1):
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    conditions = [_like_entries(condition, x) for condition in condlist]
    if len(funclist) > n:
        anywhere = conditions[0]
        for condition in conditions[1:]:
            anywhere = np.logical_or(anywhere, condition)
        conditions.append(np.logical_not(anywhere))
    result = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for condition, function in zip(conditions, funclist, strict=True):
            if not callable(function):
                part = function
            else:
                part = _called(lambda s, f=function: f(s, *args, **kw), x, condition)
            result = np.where(condition, part, result)
    return np.astype(result, x.dtype) if result.dtype != x.dtype else result


def _like_entries(condition, x):
    """Return a condition as one truth value for each entry of ``x``; it may know of leading axes alone."""
    condition = lift(x._trace, condition) if isinstance(condition, list) else condition
    np.asarray(values_of(x))[np.asarray(values_of(condition), bool)]  # raises NumPy's error
    return np.expand_dims(condition, tuple(range(np.ndim(values_of(condition)), x.ndim)))


def _called(function: Callable, x, condition):
    """Return the results of a function of the entries that a condition chooses; others may be anything."""
    part = function(x)
    chosen = np.broadcast_to(np.asarray(values_of(condition), bool), np.shape(values_of(x)))
    if math.prod(lengths(x)) < 2 or _is_elementwise(function, values_of(x), values_of(part), chosen):
        return part
    kept = np.reshape(condition, (-1,))
    mine = np.reshape(x, (-1,))[kept]
    if not pinned(mine, 0):
        return 0.0
    found = np.broadcast_to(function(mine), mine.shape)
    places = np.maximum(np.cumsum(np.astype(lift(x._trace, kept), int)) - 1, 0)
    return np.reshape(found[places], x.shape)


def _is_elementwise(function: Callable, x, part, chosen) -> bool:
    """Whether a function gives each of two groups of entries what it gives all of them together."""
    x = np.asarray(x)
    if chosen.all() or not chosen.any():
        chosen = (np.arange(x.size) % 2 == 0).reshape(x.shape)
    part = np.broadcast_to(part, x.shape)
    last_bits = 1e-5 if x.dtype.itemsize < 8 else 1e-12
    for group in (chosen, ~chosen):
        try:
            alone = values_of(function(x[group]))
            if not np.allclose(alone, part[group], last_bits, 0.0, equal_nan=True):
                return False
        except Exception:  # the user's function may raise anything when it gets the wrong entries
            return False
    return True


@implements(np.apply_along_axis, complex=HOLDS)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    x = np.moveaxis(lift_first(arr), one_axis(arr, axis), -1)
    places = [pinned(x, k) for k in range(x.ndim - 1)]
    # Views, as in NumPy, because the function may write to them.
    results = [func1d(x[place], *args, **kwargs) for place in np.ndindex(*places)]
    # Each result may be a list or a tuple of traced numbers.
    stacked = np.stack([lift(x._trace, result) for result in results])
    stacked = np.reshape(stacked, (*places, *stacked._sizes()[1:]))
    axis, before = one_axis(arr, axis), x.ndim - 1
    return np.moveaxis(stacked, range(before, stacked.ndim), range(axis, axis + stacked.ndim - before))


def _for_closures(at: int, implementation: Callable):
    """Return what makes the stand-in for a function whose argument at a place is an array.

    If the array is plain, NumPy runs first; where the user's function makes traced values, NumPy fails, and
    the array is taken as traced.
    """

    def make(original):
        def call(*args, **kwargs):
            trace = current()
            if trace is None or find_trace(args, tuple(kwargs.values())) is not None:
                return original(*args, **kwargs)
            args, kwargs = as_ndarrays(args), as_ndarrays(kwargs)
            before = trace.validity.leak
            try:
                return original(*args, **kwargs)
            except Exception as error:
                leaked = isinstance(error, LeakError) or trace.validity.leak is not before
                if not leaked or len(args) <= at:
                    raise
            trace.validity.leak = before
            with failing(trace):
                return implementation(*args[:at], lift(trace, args[at]), *args[at + 1 :], **kwargs)

        return named_like(call, original)

    return make


MAKERS["numpy"].update(
    piecewise=_for_closures(0, np.piecewise), apply_along_axis=_for_closures(2, np.apply_along_axis)
)
