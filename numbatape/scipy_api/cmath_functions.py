"""``cmath``, whose functions never reach NumPy's protocols: stand-ins while tracing."""

from __future__ import annotations

import numpy as np

from ..numpy_api.stand_ins import stands_for
from ..trace.complex_array import TracedComplex

UFUNCS = (
    *("exp", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isnan", "isinf", "isfinite"),
)
RENAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
           "atanh": "arctanh"}  # fmt: skip


def _complex(z):
    return z if type(z) is TracedComplex or isinstance(z, complex) else z + 0j


def _through(ufunc):
    return lambda z: ufunc(_complex(z))


for _names in (dict(zip(UFUNCS, UFUNCS, strict=True)), RENAMED):
    for _name, _its in _names.items():
        stands_for("cmath", _name)(_through(getattr(np, _its)))


@stands_for("cmath", "log")
def log(z, base=None):
    return np.log(_complex(z)) if base is None else np.log(_complex(z)) / np.log(_complex(base))


@stands_for("cmath", "phase")
def phase(z):
    return np.angle(_complex(z))


@stands_for("cmath", "polar")
def polar(z):
    return np.abs(_complex(z)), np.angle(_complex(z))


@stands_for("cmath", "rect")
def rect(r, phi):
    return r * np.exp(1j * phi)
