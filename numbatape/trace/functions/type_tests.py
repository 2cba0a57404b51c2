"""Questions about a value's type: a traced value answers like the number or array it stands for.

Code that asks ``isinstance(x, np.ndarray)`` and goes another way for what is none would else trace
a path that the function does not take.
"""

from __future__ import annotations

import numpy as np

from ..array import TracedArray
from ..complex.array import TracedComplex
from .stand_ins import stands_for


def is_instance(value, kinds) -> bool:
    """``isinstance``."""
    if type(value) is TracedArray or type(value) is TracedComplex:
        return isinstance(value._value, kinds) or isinstance(value, kinds)
    return isinstance(value, kinds)


@stands_for("numpy", "isscalar", run=None)
def isscalar(element):
    return np.isscalar(element._value if isinstance(element, (TracedArray, TracedComplex)) else element)


BUILTINS = {"isinstance": is_instance}
