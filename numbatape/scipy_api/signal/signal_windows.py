"""``scipy.signal.windows`` with as many entries as an argument has: constants of the tape, for any length.

Each function returns None for what it does not know: fewer than two entries, options of other kinds. SciPy
makes these windows from plain ints, which the tape then relies on.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.sized import with_sizes
from ...trace import extents, operations
from ...trace import symbolic_sizes as sizes

# Weights of the cosines of the angles from -pi to pi, of their doubles, and so on.
COSINES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.50, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _of_points(shape):
    """Return a window, given a function of the positions and of one less than the points that they are from.

    A periodic window (not ``sym``) is one of a point more, which is left out. ``sym`` is the last parameter.
    """
    count = len(inspect.signature(shape).parameters) - 2

    def window(trace, M, *options, sym=True, **named):
        if len(options) > count:
            *options, sym = options
        if not (sizes.is_size(M) and sym in (True, False) and M > 1):
            return None
        places = 1.0 * extents.arange(trace, sizes.code_of(trace, M))
        return shape(places, M - 1 if sym else M, *options, **named)

    return window


def _cosines(weights):
    def shape(places, last):
        angle = places * (2.0 * np.pi / last) - np.pi
        return sum((weight * np.cos(k * angle) for k, weight in enumerate(weights[1:], 1)), weights[0])

    return _of_points(shape)


@_of_points
def boxcar(places, last):
    return 0.0 * places + 1.0


@_of_points
def cosine(places, last):
    return np.sin((np.pi / (last + 1)) * (places + 0.5))


@_of_points
def bartlett(places, last):
    return 1.0 - np.abs(2.0 * places / last - 1.0)


@_of_points
def gaussian(places, last, std):
    return np.exp(-((places - 0.5 * last) ** 2) / (2 * std * std))


@_of_points
def general_gaussian(places, last, p, sig):
    return np.exp(-0.5 * np.abs((places - 0.5 * last) / sig) ** (2 * p))


@_of_points
def exponential(places, last, center=None, tau=1.0):
    return None if center is not None else np.exp(-np.abs(places - 0.5 * last) / tau)


@_of_points
def kaiser(places, last, beta):
    inside = 1.0 - ((places - 0.5 * last) / (0.5 * last)) ** 2
    return np.i0(beta * np.sqrt(np.maximum(inside, 0.0))) / np.i0(beta)


@_of_points
def tukey(places, last, alpha=0.5):
    if not isinstance(alpha, float) or not 0.0 < alpha < 1.0:
        return None
    width = np.floor(alpha * last / 2.0)
    from_end = np.minimum(places, last - places)
    edge = 0.5 * (1.0 + np.cos(np.pi * (2.0 * from_end / alpha / last - 1.0)))
    return np.where(from_end <= width, edge, 1.0)


WINDOWS = {
    **{name: _cosines(weights) for name, weights in COSINES.items()},
    **{
        "bartlett": bartlett,
        "boxcar": boxcar,
        "cosine": cosine,
        "exponential": exponential,
        "gaussian": gaussian,
    },
    **{"general_gaussian": general_gaussian, "kaiser": kaiser, "tukey": tukey},
}


def get_window(trace, window, Nx, fftbins=True):
    """Return a window by name; None for what has no name here, or other options."""
    name, *options = window if isinstance(window, tuple) else (window,)
    if isinstance(name, float):
        name, options = "kaiser", [name]
    if not isinstance(name, str):
        return None
    for ending in ("_symmetric", "_periodic"):
        if name.endswith(ending):
            name, fftbins = name.removesuffix(ending), ending == "_periodic"
    found = WINDOWS.get(name)
    wanted = name in ("exponential", "gaussian", "general_gaussian", "kaiser")
    if found is None or (bool(options) != wanted and name != "tukey"):
        return None
    return found(trace, Nx, *options, sym=not fftbins)


def _register() -> None:
    for module, implementations in {
        "scipy.signal.windows": WINDOWS,
        "scipy.signal": {"get_window": get_window},
    }.items():
        for name, implementation in implementations.items():
            # Imported late: what makes copies is in a layer above this one.
            makers = MAKERS[module]
            makers[name] = functools.partial(
                with_sizes,
                implementation=implementation,
                make=lambda original: operations.library_copy(original),
            )


_register()
