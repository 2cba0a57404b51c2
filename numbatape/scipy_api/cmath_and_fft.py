"""``cmath`` and ``scipy.fft``, which never reach NumPy's protocols: stand-ins while tracing."""

from __future__ import annotations

import numpy as np

from ..numpy_api.registration import unsupported_argument
from ..numpy_api.stand_ins import stands_for
from ..trace.axes import pinned
from ..trace.complex_array import TracedComplex
from ..trace.operands import find_trace, lift_first

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
    def transform(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return function(x, n, axis, norm)

    return transform


def _several_axes(function, usual):
    def transform(x, s=None, axes=usual, norm=None, overwrite_x=False, workers=None, *, plan=None):
        if axes is None and s is not None:  # NumPy warns of this, SciPy takes the last axes
            axes = range(-len(s), 0)
        return function(x, s, axes if axes is None or np.ndim(axes) else (axes,), norm)

    return transform


def _hermitian(name: str):
    """``hfftn`` and ``ihfftn``, which NumPy lacks, by the transforms that are scaled the other way."""

    def transform(x, s, axes, norm):
        norm = {"ortho": "ortho", "forward": "backward"}.get(norm, "forward")
        if name[0] == "i":
            return np.conj(getattr(np.fft, name.replace("ihf", "rf"))(x, s, axes, norm))
        return getattr(np.fft, name.replace("hf", "irf"))(np.conj(x), s, axes, norm)

    return transform


def _hankel(name: str):
    """A fast Hankel transform as a product with its matrix, which SciPy makes of a unit matrix."""

    def transform(a, dln, mu, offset=0.0, bias=0.0):
        import scipy.fft

        options = (dln, mu, offset, bias)
        if find_trace(options) is not None:
            hint = "of constants it is; write the transform as a product with a matrix"
            raise unsupported_argument(f"scipy.fft.{name}", "traced parameters", hint)
        a = lift_first(a)
        return np.matmul(a, getattr(scipy.fft, name)(np.eye(pinned(a, a.ndim - 1)), *options))

    return transform


def _orders(function):
    return lambda x, axes=None: function(x, axes)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    stands_for("scipy.fft", _name)(_one_axis(getattr(np.fft, _name)))
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _usual = (-2, -1) if _name.endswith("2") else None
    stands_for("scipy.fft", _name)(_several_axes(getattr(np.fft, _name), _usual))
for _name in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
    _usual = (-2, -1) if _name.endswith("2") else None
    stands_for("scipy.fft", _name)(_several_axes(_hermitian(_name), _usual))
for _name in ("fht", "ifht"):
    stands_for("scipy.fft", _name)(_hankel(_name))
for _name in ("fftshift", "ifftshift"):
    stands_for("scipy.fft", _name)(_orders(getattr(np.fft, _name)))
