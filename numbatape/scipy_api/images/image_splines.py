"""``scipy.ndimage``: images between their pixels, by splines of order 0 to 5.

An image is differentiable, and so is where it is looked up: the coordinates of `map_coordinates`, the
matrix and offset of `affine_transform`, `shift`, and the angle of `rotate` where it decides no shape. Which
pixels are the neighbours of a place is data of the tape, so that no place is part of a guard.
"""

from __future__ import annotations

import numpy as np
import scipy.ndimage
import scipy.special

from ...numpy_api.registration import unsupported_argument
from ...trace.axes import one_axis, pinned
from ...trace.operands import find_trace, is_wrong, lift_first
from .image_filters import one_each
from .image_outputs import filters

PADDING = 12  # pixels that SciPy adds before it filters in the modes whose ends have no closed form


# ---- coefficients of splines


@filters("spline_filter1d")
def spline_filter1d(input, order=3, axis=-1, output=np.float64, mode="mirror"):
    """Apply a linear map along one axis; its matrix is what SciPy makes of unit vectors."""
    x = lift_first(input)
    axis = one_axis(x, axis)
    size = pinned(x, axis)
    if order < 2 or size == 1:
        return x * 1.0
    matrix = scipy.ndimage.spline_filter1d(np.eye(size), order, axis=0, mode=mode)
    return np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix.T), -1, axis)


@filters("spline_filter")
def spline_filter(input, order=3, output=np.float64, mode="mirror"):
    x = lift_first(input)
    for axis in range(x.ndim):
        x = spline_filter1d(x, order, axis, mode=mode)
    return x


def _weights(share, order: int) -> list:
    """Return the B-splines that are not zero at a share of the way between two knots.

    They come from de Boor's recurrence, whose terms are all positive.
    """
    weights = [1.0 + 0.0 * share]
    for degree in range(1, order + 1):
        lower = [0.0, *weights, 0.0]
        weights = [
            ((share + (degree - m)) * lower[m] + ((m + 1.0) - share) * lower[m + 1]) / degree
            for m in range(degree + 1)
        ]
    return weights


# ---- places beyond the borders


def _mapped(place, size: int, mode: str):
    """Return places inside of an axis, as SciPy maps them there."""
    last = size - 1
    if size == 1 and mode not in ("constant", "grid-constant"):
        return 0.0 * place
    if mode == "mirror":
        # SciPy leaves places within a pixel beyond the far border there: their neighbours are mirrored.
        turned = np.where(place < 0, float(last), float(size))
        place = np.abs(place)
        place = place - 2.0 * last * np.floor(place / (2.0 * last))
        return np.where(place >= turned, 2.0 * last - place, place)
    if mode in ("reflect", "grid-mirror"):
        place = np.where(place < 0, -1.0 - place, place)
        place = place - 2.0 * size * np.floor(place / (2.0 * size))
        return np.where(place > last, 2.0 * size - 1.0 - place, place)
    if mode == "wrap":
        below = place + last * (np.floor(-place / last) + 1.0)
        above = place - last * np.floor(place / last)
        return np.where(place < 0, below, np.where(place > last, above, place))
    if mode == "grid-wrap":
        return place - size * np.floor(place / size)
    return place  # the neighbours of a place, not the place itself, are moved inside


def _neighbour(index, size: int, mode: str):
    """Return a neighbour's position, whole numbers as floats, within the axis."""
    if size == 1:
        return 0.0 * index
    if mode in ("reflect", "grid-mirror", "grid-wrap"):
        return np.clip(_mapped(index, size, mode), 0.0, size - 1.0)
    if mode in ("nearest", "grid-constant"):
        return np.clip(index, 0.0, size - 1.0)
    return _mapped(index, size, "mirror")  # SciPy has no splines that end in the modes constant and wrap


# ---- interpolation


def _looked_up(image, places, order, mode, cval, prefilter):
    """Return the image at places, one array of coordinates an axis, that broadcast against each other."""
    shape = [pinned(image, axis) for axis in range(image.ndim)]
    if order > 1 and prefilter:
        if mode in ("nearest", "grid-constant"):
            options = {"mode": "edge"} if mode == "nearest" else {"constant_values": cval}
            image = np.pad(image, PADDING, **options)
            places = [place + float(PADDING) for place in places]
            shape = [size + 2 * PADDING for size in shape]
        image = spline_filter(image, order, mode=mode)
    inside, rank, indices, product, known = True, len(places), [], 1.0, True
    for axis, (place, size) in enumerate(zip(places, shape, strict=True)):
        if mode == "constant":
            here = (place >= 0) & (place <= size - 1)
            inside, place = inside & here, np.where(here, place, 0.0)
        place = _mapped(place, size, mode)
        shifted = place if order % 2 else place + 0.5
        knot = np.floor(shifted)
        weights = np.stack(_weights(shifted - knot, order))
        index = np.stack([knot + float(k - order // 2) for k in range(order + 1)])
        # The neighbours along each axis have an axis of their own, before those of the places.
        apart = [1] * rank
        apart[axis] = order + 1
        apart.extend(index.shape[1:])
        product = product * np.reshape(weights, apart)
        indices.append(np.reshape(_neighbour(index, size, mode).astype(int), apart))
        if mode == "grid-constant":
            known = known & np.reshape((index >= 0) & (index <= size - 1), apart)
    pixels = image[tuple(indices)]
    if mode == "grid-constant":
        pixels = np.where(known, pixels, cval)
    total = np.sum(pixels * product, tuple(range(rank)))
    return np.where(inside, total, cval) if mode == "constant" else total


@filters("map_coordinates")
def map_coordinates(input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    image = lift_first(input, coordinates)
    return _looked_up(image, list(_numbers(coordinates)), order, mode, cval, prefilter)


def _numbers(value):
    return lift_first(value) if find_trace(value) is not None else np.asarray(value, float)


def _grid(shape):
    """Return the coordinates of all pixels, each along its own axis."""
    return list(np.ogrid[tuple(slice(0.0, float(size)) for size in shape)])


@filters("shift")
def shift(input, shift, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    image = lift_first(input, shift)
    grid = _grid([pinned(image, axis) for axis in range(image.ndim)])
    moved = _numbers(shift)
    steps = [moved] * image.ndim if np.ndim(moved) == 0 else [moved[axis] for axis in range(image.ndim)]
    places = [place - step for place, step in zip(grid, steps, strict=True)]
    return _looked_up(image, places, order, mode, cval, prefilter)


@filters("zoom")
def zoom(input, zoom, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *, grid_mode=False):
    if find_trace(zoom) is not None:
        raise unsupported_argument("scipy.ndimage.zoom", "a traced zoom", "it decides the result's shape")
    image = lift_first(input)
    shape = [pinned(image, axis) for axis in range(image.ndim)]
    factors = one_each(zoom, image.ndim)
    if prefilter and all(factor == 1 for factor in factors):
        return image * 1.0
    wide = [round(size * factor) for size, factor in zip(shape, factors, strict=True)]
    places = []
    for place, size, count in zip(_grid(wide), shape, wide, strict=True):
        if grid_mode:
            places.append((place + 0.5) * (size / count if count else 1.0) - 0.5)
        else:
            places.append(place * ((size - 1) / (count - 1) if count != 1 else 1.0))
    return _looked_up(image, places, order, mode, cval, prefilter)


@filters("affine_transform")
def affine_transform(
    input,
    matrix,
    offset=0.0,
    output_shape=None,
    output=None,
    order=3,
    mode="constant",
    cval=0.0,
    prefilter=True,
):
    """Look the image up at the places that the matrix maps the grid to."""
    image = lift_first(input, matrix, offset)
    rank = image.ndim
    shape = [pinned(image, axis) for axis in range(rank)] if output_shape is None else list(output_shape)
    matrix, offset = _numbers(matrix), _numbers(offset)
    if np.ndim(matrix) == 2 and np.shape(matrix)[1] == rank + 1:  # homogeneous coordinates
        offset, matrix = matrix[:rank, rank], matrix[:rank, :rank]
    if np.ndim(matrix) == 1 and is_wrong(np.any(np.equal(matrix, 0.0))):  # SciPy divides the offset by it
        raise unsupported_argument("scipy.ndimage.affine_transform", "zeros on a diagonal", "a matrix is")
    grid, places = _grid(shape), []
    for axis in range(rank):
        start = offset if np.ndim(offset) == 0 else offset[axis]
        if np.ndim(matrix) == 1:
            places.append((grid[axis] + start / matrix[axis]) * matrix[axis])
        else:
            places.append(_moved(matrix[axis], grid, start))
    return _looked_up(image, places, order, mode, cval, prefilter)


def _moved(row, grid, start):
    """Return what a row of a matrix makes of the grid, with the roundings of SciPy's sum.

    Where a place is on a border, or halfway between two pixels, the last bit decides what is there.
    """
    place = start
    for factor, coordinates in zip(row, grid, strict=True):
        place = place + factor * coordinates
    return place


@filters("rotate")
def rotate(
    input,
    angle,
    axes=(1, 0),
    reshape=True,
    output=None,
    order=3,
    mode="constant",
    cval=0.0,
    prefilter=True,
):
    """Look each plane up at the places that are turned about its centre."""
    if find_trace(angle) is not None and reshape:
        raise unsupported_argument(
            "scipy.ndimage.rotate", "a traced angle that decides the shape", "pass reshape=False"
        )
    image = lift_first(input, angle)
    shape = [pinned(image, axis) for axis in range(image.ndim)]
    first, second = sorted(one_axis(image, axis) for axis in axes)
    cosine, sine = scipy.special.cosdg(angle), scipy.special.sindg(angle)
    turn = np.reshape(np.stack([cosine, sine, -sine, cosine]), (2, 2))
    height, width = shape[first], shape[second]
    if reshape:
        corners = turn @ [[0, 0, height, height], [0, width, 0, width]]
        shape[first], shape[second] = (np.ptp(corners, axis=1) + 0.5).astype(int)
    places = _grid(shape)
    own = [places[first], places[second]]
    centre = np.matmul(turn, np.array([shape[first] - 1, shape[second] - 1]) / 2.0)
    places[first] = _moved(turn[0], own, (height - 1) / 2.0 - centre[0])
    places[second] = _moved(turn[1], own, (width - 1) / 2.0 - centre[1])
    planes = [axis for axis in range(image.ndim) if axis not in (first, second)]
    if planes:
        # Each plane is an image of its own: only the two axes of the rotation are interpolated.
        moved = np.moveaxis(image, (first, second), (-2, -1))
        flat = np.reshape(moved, (-1, height, width))
        plane = [
            np.reshape(places[k], (places[k].shape[first], places[k].shape[second])) for k in (first, second)
        ]
        turned = [_looked_up(flat[k], plane, order, mode, cval, prefilter) for k in range(flat.shape[0])]
        result = np.reshape(np.stack(turned), (*moved.shape[:-2], shape[first], shape[second]))
        return np.moveaxis(result, (-2, -1), (first, second))
    return _looked_up(image, places, order, mode, cval, prefilter)
