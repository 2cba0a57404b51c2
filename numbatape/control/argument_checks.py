"""Checks of the arguments of loops, branches and solvers; their errors name the argument that is wrong."""

from __future__ import annotations

import numbers
import operator

import numpy as np

from ..errors import SpecError
from ..trace.primitives import sample_of


def check_functions(name: str, **functions) -> None:
    """Raise if one of the named arguments is not a function."""
    for parameter, value in functions.items():
        if not callable(value):
            raise TypeError(f"{name}: {parameter} must be a function, got {value!r}")


def check_flags(name: str, **flags) -> None:
    """Raise if one of the named arguments is neither true nor false."""
    for parameter, value in flags.items():
        if not isinstance(value, (int, np.bool_)):
            raise TypeError(f"{name}: {parameter} must be True or False, got {value!r}")


def whole(name: str, parameter: str, value) -> int:
    """Return an argument as an int; raise if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {parameter} must be an integer, got {value!r}") from None


def check_count(name: str, parameter: str, value) -> None:
    """Raise if an argument is no integer from 1 on."""
    if whole(name, parameter, value) < 1:
        raise SpecError(f"{name}: {parameter}={value}: must be 1 or more")


def check_truth(name: str, value) -> None:
    """Raise if what decides between branches is no single number or truth value."""
    if value is None:
        raise SpecError(f"{name} is None (is a return missing?), not one value")
    sample = sample_of(value)
    if np.shape(sample) != ():
        raise SpecError(f"{name} is an array of shape {np.shape(sample)}, not one value")
    if np.asarray(sample).dtype.kind not in "biufc":
        raise SpecError(f"{name} is {value!r}, not a number or a truth value")


def positive(name: str, parameter: str, value) -> None:
    """Raise if an argument is no number above zero."""
    if not isinstance(value, numbers.Real) or not value > 0.0:
        raise SpecError(f"{name}: {parameter}={value!r}: must be a number above zero")
