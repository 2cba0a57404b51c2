"""``scipy.ndimage``: sums, means, extremes and centres of the labelled parts of an image."""

from __future__ import annotations

import numpy as np

from ...numpy_api.registration import unsupported_argument
from ...numpy_api.stand_ins import stands_for
from ...trace.axes import pinned
from ...trace.operands import find_trace, lift_first


def _parts(name: str, x, labels, index):
    """Return the image, a mask for each part that is asked for, and whether the answer is one number."""
    if find_trace(labels, index) is not None:
        raise unsupported_argument(f"scipy.ndimage.{name}", "traced labels", "labels are data")
    shape = [pinned(x, axis) for axis in range(x.ndim)]
    if labels is None:
        return x, [np.ones(shape, bool)], True
    shape = np.broadcast_shapes(shape, np.shape(labels))
    x, labels = np.broadcast_to(x, shape), np.broadcast_to(labels, shape)
    if index is None:
        return x, [labels > 0], True
    return x, [labels == label for label in np.ravel(index)], np.ndim(index) == 0


def _of_parts(*names: str, of_part):
    """Register a statistic: a function of the image and the mask of one part."""

    def statistic(input, labels=None, index=None):
        x, masks, one = _parts(names[0], lift_first(input), labels, index)
        values = [of_part(x, mask) for mask in masks]
        return values[0] if one else np.reshape(np.stack(values), np.shape(index))

    stands_for("scipy.ndimage", *names)(statistic)
    return statistic


def _mean(x, mask):
    return np.sum(x[mask]) / np.float64(np.count_nonzero(mask))


def _variance(x, mask):
    return _mean(np.square(x - _mean(x, mask)), mask)


_of_parts("sum", "sum_labels", of_part=lambda x, mask: np.sum(x[mask]))
_of_parts("mean", of_part=_mean)
_of_parts("variance", of_part=_variance)
_of_parts("standard_deviation", of_part=lambda x, mask: np.sqrt(_variance(x, mask)))
_of_parts("minimum", of_part=lambda x, mask: np.min(x[mask]) if mask.any() else 0.0 * np.sum(x[mask]))
_of_parts("maximum", of_part=lambda x, mask: np.max(x[mask]) if mask.any() else 0.0 * np.sum(x[mask]))
_of_parts("median", of_part=lambda x, mask: np.median(x[mask]))


@stands_for("scipy.ndimage", "center_of_mass")
def center_of_mass(input, labels=None, index=None):
    x, masks, one = _parts("center_of_mass", lift_first(input), labels, index)
    grid = np.indices(x.shape).astype(float)
    centres = []
    for mask in masks:
        weights = x[mask]
        total = np.sum(weights)
        centres.append(tuple(np.sum(weights * places[mask]) / total for places in grid))
    return centres[0] if one else centres
