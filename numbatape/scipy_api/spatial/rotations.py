"""Rotation vectors in ``scipy.spatial.transform``, with derivatives of all orders at rotations by zero.

`Rotation` is copied like the user's classes. SciPy takes the norm of a rotation vector, whose second
derivative does not exist at zero, to compute a function of its square, which is smooth. Here the square is
the argument.
"""

from __future__ import annotations

import numpy as np

from ...numpy_api.function_tables import MAKERS
from ...numpy_api.stand_ins import named_like
from ...trace import operations
from ...trace.operands import find_trace, lift_all, lift_first
from ...trace.plain_arrays import wrap
from ...trace.trace import current

SMALL = 1e-6  # The series serve squared angles below this, where what they leave out is below 1e-20.


def from_rotvec(rotvec, degrees=False):
    """Return the quaternions of rotation vectors."""
    if rotvec.shape[-1] != 3:
        raise ValueError(f"Expected `rot_vec` to have shape (..., 3), got {rotvec.shape}")
    rotvec = np.deg2rad(rotvec) if degrees else rotvec
    square = np.sum(rotvec**2, -1, keepdims=True)
    small = square < SMALL
    angle = np.sqrt(np.where(small, 1.0, square))
    scale = np.where(small, 0.5 - square / 48.0 + square**2 / 3840.0, np.sin(angle / 2.0) / angle)
    cosine = np.where(small, 1.0 - square / 8.0 + square**2 / 384.0, np.cos(angle / 2.0))
    return np.concatenate([rotvec * scale, cosine], -1)


def as_rotvec(quat, degrees=False):
    """Return the rotation vectors of quaternions."""
    quat = np.where(_is_other_sign(quat), -quat, quat)
    axis, cosine = quat[..., :3], quat[..., 3:]
    square = np.sum(axis**2, -1, keepdims=True)
    small = square < SMALL
    sine = np.sqrt(np.where(small, 1.0, square))
    ratio = np.where(small, square / np.where(small, cosine, 1.0) ** 2, 0.0)
    series = 2.0 * (1.0 - ratio / 3.0 + ratio**2 / 5.0) / np.where(small, cosine, 1.0)
    scale = np.where(small, series, 2.0 * np.arctan2(sine, cosine) / sine)
    return axis * (np.rad2deg(scale) if degrees else scale)


def _is_other_sign(quat):
    """Whether the opposite quaternion is the one of the rotation that SciPy takes."""
    x, y, z, w = (quat[..., k : k + 1] for k in range(4))
    last = (x == 0.0) & (y == 0.0) & (z < 0.0)
    return (w < 0.0) | ((w == 0.0) & ((x < 0.0) | ((x == 0.0) & (y < 0.0)) | last))


def _maker(implementation):
    """Return what makes the stand-in for a function of SciPy's, which serves plain arrays, too."""

    def make(original):
        def call(x, degrees=False):
            trace = find_trace(x)
            # A plain rotation is wrapped while tracing, because a traced position may be an index of it.
            if trace is None:
                made = implementation(np.asarray(x), degrees)
                return made if current() is None else wrap(current(), made)
            return implementation(lift_first(x), degrees)

        return named_like(call, original)

    return make


for _function in (as_rotvec, from_rotvec):
    MAKERS["scipy.spatial.transform._rotation_xp"][_function.__name__] = _maker(_function)


def _reduce_maker(original):
    """Return what runs in place of ``reduce``: SciPy's own takes ones in place of the rotation by zero."""

    def reduce(quat, left=None, right=None):
        zero = np.array([[0.0, 0.0, 0.0, 1.0]])
        if left is None and right is None:
            return quat, None, None
        # Traced, because the copy chooses among them by traced positions.
        all_of_them = lift_all(quat, zero if left is None else left, zero if right is None else right)
        found, one, other = operations.library_copy(original)(*all_of_them)
        return found, None if left is None else one, None if right is None else other

    return named_like(reduce, original)


MAKERS["scipy.spatial.transform._rotation_xp"]["reduce"] = _reduce_maker
