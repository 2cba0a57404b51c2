"""What signals and images are taken to be beyond their ends."""

from __future__ import annotations

import numpy as np

# NumPy's words for SciPy's modes of images.
BORDERS = {"reflect": "symmetric", "grid-mirror": "symmetric", "nearest": "edge", "mirror": "reflect",
           "wrap": "wrap", "grid-wrap": "wrap", "constant": "constant",
           "grid-constant": "constant"}  # fmt: skip


def padded(line, before: int, behind: int, mode: str, cval):
    """Return an array with more entries at both ends of its last axis."""
    width = [(0, 0)] * (line.ndim - 1) + [(before, behind)]
    options = {"constant_values": cval} if BORDERS[mode] == "constant" else {}
    return np.pad(line, width, BORDERS[mode], **options)


def continued(line, width: int, kind: str):
    """Return signals with more entries at both ends of the last axis, as SciPy continues them.

    Parameters
    ----------
    kind
        "zeros"; "constant", the entry at the end; "even", mirrored at that entry; "odd", mirrored and turned
        over at that entry.
    """
    if kind in ("zeros", "constant"):
        return padded(line, width, width, "constant" if kind == "zeros" else "nearest", 0.0)
    before, behind = np.flip(line[..., 1 : width + 1], -1), np.flip(line[..., -(width + 1) : -1], -1)
    if kind == "odd":
        before, behind = 2.0 * line[..., :1] - before, 2.0 * line[..., -1:] - behind
    return np.concatenate([before, line, behind], -1)


# NumPy's words for modes of SciPy's polyphase filters.
BEYOND = {"wrap": "wrap", "edge": "edge", "symmetric": "symmetric", "reflect": "reflect"}


def extended(line, width: int, mode: str, cval=0):
    """Return signals with more entries at both ends of the last axis, by a mode of ``upfirdn``."""
    size, around = line.shape[-1], [(0, 0)] * (line.ndim - 1) + [(width, width)]
    if mode == "constant":
        return np.pad(line, around, constant_values=cval)
    if mode in BEYOND:
        return np.pad(line, around, BEYOND[mode])
    if mode == "antireflect":
        return np.pad(line, around, "reflect", reflect_type="odd")
    if mode == "antisymmetric":
        place = np.arange(-width, size + width) % (2 * size)
        return (
            np.where(place < size, 1.0, -1.0) * line[..., np.where(place < size, place, 2 * size - 1 - place)]
        )
    first, last = line[..., :1], line[..., -1:]
    if mode == "line":  # the line through the first and the last entry
        slopes = 2 * [(last - first) / (size - 1)]
    else:  # "smooth" continues the line through the last two entries on each side
        slopes = [line[..., 1:2] - first, last - line[..., -2:-1]]
    steps = np.arange(1.0, width + 1.0)
    return np.concatenate([first - slopes[0] * steps[::-1], line, last + slopes[1] * steps], -1)
