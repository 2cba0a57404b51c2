"""Whether a gradient is right: against a closed form, else against differences of the NumPy value."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-8


class WrongGradient(Exception):
    """An engine's value or gradient is off; it is not timed."""


def directional_derivative(function, arguments, direction) -> float:
    """Differentiate along a direction: central differences, extrapolated twice.

    Of a few step lengths the one is taken whose last extrapolation changed least.
    """

    def slope(h):
        forward = function(*[x + h * d for x, d in zip(arguments, direction, strict=True)])
        backward = function(*[x - h * d for x, d in zip(arguments, direction, strict=True)])
        return (forward - backward) / (2 * h)

    estimates = []
    for h in (1e-1, 1e-2, 3e-3, 1e-3):
        coarse, middle, fine = slope(h), slope(h / 2), slope(h / 4)
        once = middle + (middle - coarse) / 3, fine + (fine - middle) / 3
        twice = once[1] + (once[1] - once[0]) / 15
        estimates.append((abs(twice - once[1]), twice))
    return min(estimates)[1]


def gradient_error(workload, gradients) -> float:
    """Return the error of a gradient, relative to its size.

    With a closed form: the largest error of an element. Without: the largest error along three
    random directions, relative to what such a derivative comes to.
    """
    if workload.gradient:
        pairs = zip(gradients, workload.gradient(*workload.active, *workload.data), strict=True)
        return max(float(np.max(np.abs(g - r)) / np.max(np.abs(r))) for g, r in pairs)
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(3):
        direction = [rng.standard_normal(np.shape(x)) for x in workload.active]
        parts = [np.ravel(g * d) for g, d in zip(gradients, direction, strict=True)]
        expected = directional_derivative(
            lambda *x: workload.function(*x, *workload.data), workload.active, direction
        )
        parts = np.concatenate(parts)
        errors.append(abs(float(np.sum(parts)) - expected) / float(np.linalg.norm(parts)))
    return max(errors)


def check(workload, value, gradients) -> float:
    """Return the gradient's relative error.

    Raises
    ------
    WrongGradient
        The value, a shape, or the gradient is off by more than `TOLERANCE`.
    """
    expected = workload.value()
    if not abs(float(value) - expected) <= TOLERANCE * abs(expected):
        raise WrongGradient(f"value {float(value)!r}, NumPy says {float(expected)!r}")
    shapes = [np.shape(x) for x in workload.active]
    if [np.shape(g) for g in gradients] != shapes:
        raise WrongGradient(f"shapes {[np.shape(g) for g in gradients]}, arguments have {shapes}")
    error = gradient_error(workload, gradients)
    if not error <= TOLERANCE:
        raise WrongGradient(f"relative error {error:.1e}")
    return error
