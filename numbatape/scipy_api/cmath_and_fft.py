"""``cmath`` and ``scipy.fft``, which never reach NumPy's protocols: stand-ins while tracing."""

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


def _one_axis(function):
    def transform(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None):
        return function(x, n, axis, norm)

    return transform


def _several_axes(function, usual):
    def transform(x, s=None, axes=usual, norm=None, overwrite_x=False, workers=None):
        return function(x, s, axes if axes is None or np.ndim(axes) else (axes,), norm)

    return transform


def _orders(function):
    return lambda x, axes=None: function(x, axes)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    stands_for("scipy.fft", _name)(_one_axis(getattr(np.fft, _name)))
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _usual = (-2, -1) if _name.endswith("2") else None
    stands_for("scipy.fft", _name)(_several_axes(getattr(np.fft, _name), _usual))
for _name in ("fftshift", "ifftshift"):
    stands_for("scipy.fft", _name)(_orders(getattr(np.fft, _name)))
