"""Functions that return modules: while tracing, they return the stand-in for the module."""

from __future__ import annotations

import numpy as np

from ..trace import operations
from ..trace.complex_parts import is_traced
from ..trace.plain_arrays import is_plain
from ..trace.trace import current, standing
from .clocks_and_files import OUTSIDE

NAMESPACES = ("scipy._lib._array_api", "array_api_compat", "array_api_compat.common")


def _importing(original):
    def import_module(name, package=None):
        return standing(original(name, package))

    return import_module


def _choosing(original):
    """Return the stand-in for ``array_namespace``: traced values count as NumPy's arrays.

    While tracing, the answer is NumPy's stand-in also for plain arrays, since a library uses the module for
    other arguments as well, such as numbers and lists of numbers.
    """

    def array_namespace(*xs, **options):
        found = original(*(x._value if is_traced(x) or is_plain(x) else x for x in xs), **options)
        if current() is None or found.__name__.rpartition(".")[2] != "numpy":
            return found
        ours = standing(np)
        return operations.module_in_traces(np) if ours is np else ours

    return array_namespace


OUTSIDE.setdefault("importlib", {})["import_module"] = _importing
for _module in NAMESPACES:
    OUTSIDE.setdefault(_module, {})["array_namespace"] = _choosing
