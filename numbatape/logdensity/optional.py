"""Packages that only some commands need."""

from __future__ import annotations

import warnings
from types import ModuleType

from numbatape.integrations.vector_functions import package
from numbatape.logdensity.exits import InputError


def optional(name: str, needed_by: str, pip: str | None = None) -> ModuleType:
    """Return an optional package, or raise an `InputError` that says how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ announces its next version when it is imported
            return package(name, needed_by, pip)
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from error
