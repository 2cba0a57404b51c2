"""Questions about a value's type: a traced value answers like the number or array it stands for.

Code that asks ``isinstance(x, np.ndarray)`` and goes another way for what is none would else trace
a path that the function does not take.
"""

from __future__ import annotations

import numpy as np

from ..array import TracedArray
from ..complex.array import TracedComplex
from ..integers import TracedInteger
from .stand_ins import stands_for


def is_instance(value, kinds) -> bool:
    """``isinstance``."""
    if type(value) in (TracedArray, TracedComplex, TracedInteger):
        return isinstance(value._value, kinds) or isinstance(value, kinds)
    return isinstance(value, kinds)


@stands_for("numpy", "isscalar", run=None)
def isscalar(element):
    traced = type(element) in (TracedArray, TracedComplex, TracedInteger)
    return np.isscalar(element._value if traced else element)


BUILTINS = {"isinstance": is_instance}
