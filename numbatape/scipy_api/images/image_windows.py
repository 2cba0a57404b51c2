"""``scipy.ndimage``: the least, greatest or k-th entry around each entry, and grey morphology."""

from __future__ import annotations

import numpy as np

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.sliding import flipped
from ...trace.axes import axes_of, lengths, one_axis
from ...trace.operands import find_trace, lift_first
from ..signal.borders import padded
from ..signal.convolutions import windows
from .image_filters import one_each
from .image_outputs import filters


def _footprint(x, size, footprint, structure=None):
    """Return which neighbours count, as an array of booleans with as many axes as the image."""
    if footprint is not None:
        return np.asarray(footprint, bool)
    if structure is not None:
        return np.ones(np.shape(structure), bool)
    return np.ones([int(count) for count in one_each(size, x.ndim)], bool)


def _neighbours(x, footprint, mode, cval, origin):
    """Return the neighbours of each entry along a new last axis, in the footprint's order."""
    each = (one_each(option, x.ndim) for option in (mode, origin))
    shape = lengths(x)
    for axis, (count, border, shift) in enumerate(zip(footprint.shape, *each, strict=True)):
        before = count // 2 + shift
        line = padded(np.moveaxis(x, axis, -1), before, count - 1 - before, border, cval)
        x = np.moveaxis(line, -1, axis)
    places = np.argwhere(footprint).tolist()
    parts = [
        x[tuple(slice(first, first + count) for first, count in zip(place, shape, strict=True))]
        for place in places
    ]
    return np.stack(parts, -1)


def _no_axes(name, axes, x):
    if axes is not None and list(axes_of(x, axes)) != list(range(x.ndim)):
        raise unsupported_argument(f"scipy.ndimage.{name}", "axes", "filter the axes one after the other")


# ---- order statistics


def _extreme_line(name: str, extreme):
    def filtered(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
        x = lift_first(input)
        axis = one_axis(x, axis)
        before = size // 2 + origin
        line = padded(np.moveaxis(x, axis, -1), before, size - 1 - before, mode, cval)
        return np.moveaxis(extreme(windows(line, size), -1), -1, axis)

    filters(name)(filtered)


def _extreme_around(name: str, extreme):
    def filtered(
        input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None
    ):
        x = lift_first(input)
        _no_axes(name, axes, x)
        return extreme(_neighbours(x, _footprint(x, size, footprint), mode, cval, origin), -1)

    filters(name)(filtered)


for _which, _extreme in (("minimum", np.min), ("maximum", np.max)):
    _extreme_line(f"{_which}_filter1d", _extreme)
    _extreme_around(f"{_which}_filter", _extreme)


def _ranked(name, input, rank_among, size, footprint, mode, cval, origin, axes):
    x = lift_first(input)
    _no_axes(name, axes, x)
    footprint = _footprint(x, size, footprint)
    rank = rank_among(int(footprint.sum()))
    return np.sort(_neighbours(x, footprint, mode, cval, origin), -1)[..., rank]


@filters("rank_filter")
def rank_filter(
    input, rank, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None
):
    return _ranked(
        "rank_filter", input, lambda count: rank % count, size, footprint, mode, cval, origin, axes
    )


@filters("median_filter")
def median_filter(
    input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None
):
    return _ranked(
        "median_filter", input, lambda count: count // 2, size, footprint, mode, cval, origin, axes
    )


@filters("percentile_filter")
def percentile_filter(
    input,
    percentile,
    size=None,
    footprint=None,
    output=None,
    mode="reflect",
    cval=0.0,
    origin=0,
    *,
    axes=None,
):
    """Take the entry of the rank that SciPy gives a percentile, for the number of entries of the window."""
    if find_trace(percentile) is not None:
        raise unsupported_argument("scipy.ndimage.percentile_filter", "a traced percentile")
    percent = percentile + 100.0 if percentile < 0.0 else percentile

    def rank(count):
        return count - 1 if percent == 100.0 else int(count * percent / 100.0)

    return _ranked("percentile_filter", input, rank, size, footprint, mode, cval, origin, axes)


# ---- grey morphology


def _heights(name, structure, chosen):
    if find_trace(structure) is not None:
        raise unsupported_argument(f"scipy.ndimage.{name}", "a traced structure")
    return 0.0 if structure is None else np.asarray(structure, float)[chosen]


def _erode(name, x, chosen, structure, mode, cval, origin):
    heights = _heights(name, structure, chosen)
    return np.min(_neighbours(x, chosen, mode, cval, origin) - heights, -1)


def _dilate(name, x, chosen, structure, mode, cval, origin):
    """Look the other way: all is flipped, and the centre of a footprint of even size moves by one."""
    heights = _heights(name, structure, chosen)
    origin = [
        -shift - (1 - count % 2) for shift, count in zip(one_each(origin, x.ndim), chosen.shape, strict=True)
    ]
    flipped_heights = heights if structure is None else heights[::-1]
    return np.max(_neighbours(x, flipped(chosen), mode, cval, origin) + flipped_heights, -1)


def _morphology(name: str, combine):
    """Register a function of an image and of its erosion and dilation by one footprint."""

    def transformed(
        input,
        size=None,
        footprint=None,
        structure=None,
        output=None,
        mode="reflect",
        cval=0.0,
        origin=0,
        *,
        axes=None,
    ):
        """Return what `combine` makes of the image, its erosion and its dilation."""
        x = lift_first(input)
        _no_axes(name, axes, x)

        chosen = _footprint(x, size, footprint, structure)

        def erode(image):
            return _erode(name, image, chosen, structure, mode, cval, origin)

        def dilate(image):
            return _dilate(name, image, chosen, structure, mode, cval, origin)

        return combine(x, erode, dilate)

    filters(name)(transformed)


_morphology("grey_erosion", lambda x, erode, dilate: erode(x))
_morphology("grey_dilation", lambda x, erode, dilate: dilate(x))
_morphology("grey_opening", lambda x, erode, dilate: dilate(erode(x)))
_morphology("grey_closing", lambda x, erode, dilate: erode(dilate(x)))
_morphology("white_tophat", lambda x, erode, dilate: x - dilate(erode(x)))
_morphology("black_tophat", lambda x, erode, dilate: erode(dilate(x)) - x)
_morphology("morphological_gradient", lambda x, erode, dilate: dilate(x) - erode(x))
_morphology("morphological_laplace", lambda x, erode, dilate: dilate(x) + erode(x) - 2.0 * x)
