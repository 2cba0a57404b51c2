"""``array_api_extra.at``, by which SciPy writes to parts of arrays: a copy is written to, and returned."""

from __future__ import annotations

import operator

import numpy as np

from ..numpy_api.stand_ins import stands_for
from ..trace.plain_arrays import wrap
from ..trace.trace import current

_WHOLE = object()


class At:
    """``at(x, index)``, or ``at(x)[index]``.

    Parameters
    ----------
    x
        A traced array.
    index
        What is written to.
    """

    def __init__(self, x, index=_WHOLE):
        self._x, self._index = x, index

    def __getitem__(self, index):
        return At(self._x, index)

    def set(self, y, /, copy=None, xp=None):
        """Return the array with other entries at the index."""
        result = self._target(copy)
        result[self._index] = y
        return result

    def _target(self, copy):
        # A stand-in gets plain arrays as ndarrays, to which a traced value could not be written.
        return wrap(current(), self._x if copy is False else self._x.copy())


def _combining(combine):
    def method(self, y, /, copy=None, xp=None):
        result = self._target(copy)
        result[self._index] = combine(result[self._index], y)
        return result

    return method


for _name, _combine in {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "power": operator.pow},
    **{"divide": operator.truediv, "min": np.minimum, "max": np.maximum},
}.items():
    setattr(At, _name, _combining(_combine))

# SciPy 1.18 moved the package.
for _package in ("scipy._lib", "scipy._external"):
    stands_for(f"{_package}.array_api_extra", "at", run=None)(At)
