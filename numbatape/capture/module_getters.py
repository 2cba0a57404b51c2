"""Functions that return modules: while tracing, they return the stand-in for the module."""

from __future__ import annotations

from ..trace.complex_parts import is_traced
from ..trace.plain_arrays import is_plain
from ..trace.trace import standing
from .clocks_and_files import OUTSIDE

NAMESPACES = ("scipy._lib._array_api", "array_api_compat", "array_api_compat.common")


def _importing(original):
    def import_module(name, package=None):
        return standing(original(name, package))

    return import_module


def _choosing(original):
    """Return the stand-in for ``array_namespace``: traced values count as NumPy's arrays."""

    def array_namespace(*xs, **options):
        if not any(is_traced(x) or is_plain(x) for x in xs):
            return original(*xs, **options)
        # The function is called for its own errors.
        original(*(x._value if is_traced(x) or is_plain(x) else x for x in xs), **options)
        return next(x for x in xs if is_traced(x) or is_plain(x)).__array_namespace__()

    return array_namespace


OUTSIDE.setdefault("importlib", {})["import_module"] = _importing
for _module in NAMESPACES:
    OUTSIDE.setdefault(_module, {})["array_namespace"] = _choosing
