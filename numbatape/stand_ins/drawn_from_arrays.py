"""``rng.shuffle(x)``, ``rng.choice(x, 5)``, ``rng.normal(mu, sigma)`` of traced arrays, by seeded generators.

NumPy's compiled methods take a traced array for a sequence, and swap its rows. After the first assignment of
a swap, both rows would be the same. What they draw are positions, which are drawn here for the numbers of
rows, and standard numbers, which are shifted and scaled as NumPy does it.
"""

from __future__ import annotations

import functools

import numpy as np

from ..errors import UnsupportedOperationError
from ..trace.operands import find_trace, lift, values_of
from ..trace.plain_arrays import as_ndarrays, is_plain
from ..trace.trace import current
from ..usercode.frames import where_in_user_code


def takes(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a method gets a traced array, one to which traced values may be written, or a list to shuffle.

    Lists are shuffled here because calls of NumPy's methods get copies of them, with plain ints for sizes.
    """
    if name not in _DRAWING or current() is None:
        return False
    given = (*args, *kwargs.values())
    if name == "shuffle" and any(isinstance(x, list) for x in given):
        return True
    return find_trace(given) is not None or any(map(is_plain, given))


def draw(generator, name: str, args: tuple, kwargs: dict):
    """Do a method with a traced array; ``generator`` draws positions and standard numbers."""
    return _DRAWING[name](generator, *args, **kwargs)


def _array(x):
    """Return a list with traced entries as an array."""
    return x if hasattr(x, "dtype") else lift(current(), x)


def _parameter(x):
    return _array(x) if isinstance(x, (list, tuple)) else x


def _order(generator, x, axis: int):
    """Return the positions of a permutation of an axis."""
    ndim = np.ndim(values_of(as_ndarrays(x)))
    if not ndim:
        raise TypeError("x must be an integer or at least 1-dimensional")
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return generator.permutation(x.shape[axis])


def _shuffle(generator, x, axis=0):
    if isinstance(x, list):  # NumPy swaps its entries, whatever they are
        x[:] = [x[k] for k in generator.permutation(len(x))]
    else:
        x[...] = np.take(x, _order(generator, x, axis), axis)


def _permutation(generator, x, axis=0):
    x = _array(x)
    return np.take(x, _order(generator, x, axis), axis)


def _permuted(generator, x, axis=None, out=None):
    x = _array(x)
    target = values_of(as_ndarrays(x if out is None else out))
    places = np.empty_like(target, int)  # the order in memory decides which draw is for which entry
    places[...] = np.arange(target.size).reshape(target.shape)
    if axis is None and target.ndim > 1:
        np.ravel(x if out is None else out, "K")  # notes that this order counts
    result = np.ravel(x)[generator.permuted(places, axis=axis)]
    if out is None:
        return result
    out[...] = result
    return out


def _choice(generator, a, size=None, replace=True, p=None, axis=0, shuffle=True):
    if find_trace(p) is not None:
        raise UnsupportedOperationError(
            f"choice at {where_in_user_code()}: probabilities that depend on traced values decide which "
            "entries are drawn; compare uniform numbers with their sums, np.searchsorted(np.cumsum(p), u)"
        )
    a = _array(a)
    options = {"shuffle": shuffle}
    if isinstance(generator, np.random.RandomState):
        if np.ndim(values_of(as_ndarrays(a))) != 1:
            raise ValueError("a must be 1-dimensional")
        options = {}
    return np.take(a, generator.choice(a.shape[axis], size, replace, p, **options), axis)


def _standard(generator, name: str, size, *parameters):
    """Return standard numbers for the parameters of a distribution, in the shape of the result."""
    shapes = [np.shape(x) for x in parameters]
    if size is None:
        size = np.broadcast_shapes(*shapes) or None
    else:
        given = tuple(size) if isinstance(size, (tuple, list)) else (size,)
        if np.broadcast_shapes(given, *shapes) != given:
            raise ValueError(f"Output size {given} is not compatible with broadcast dimensions of inputs")
    return np.float64(1.0) * getattr(generator, name)(size)


def _normal(generator, loc=0.0, scale=1.0, size=None):
    loc, scale = _parameter(loc), _parameter(scale)
    if np.any(np.less(scale, 0.0)):
        raise ValueError("scale < 0")
    return loc + scale * _standard(generator, "standard_normal", size, loc, scale)


def _uniform(generator, low=0.0, high=1.0, size=None):
    low, high = _parameter(low), _parameter(high)
    name = "random_sample" if isinstance(generator, np.random.RandomState) else "random"
    return low + np.subtract(high, low) * _standard(generator, name, size, low, high)


def _exponential(generator, scale=1.0, size=None):
    scale = _parameter(scale)
    if np.any(np.less(scale, 0.0)):
        raise ValueError("scale < 0")
    return scale * _standard(generator, "standard_exponential", size, scale)


_DRAWING = {
    "shuffle": _shuffle,
    "permutation": _permutation,
    "permuted": _permuted,
    "choice": _choice,
    "normal": _normal,
    "uniform": _uniform,
    "exponential": _exponential,
}


def of_global_generator(original):
    """Return the stand-in for a function of ``np.random``, a method of its global generator."""
    name = original.__name__

    @functools.wraps(original)
    def call(*args, **kwargs):
        if takes(name, args, kwargs):
            return draw(original.__self__, name, args, kwargs)
        return original(*args, **kwargs)

    return call
