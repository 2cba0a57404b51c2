"""The tracer: runs a function on values that record what is done to them. Knows no kernels."""

from . import contents  # which file has what: nothing else is imported for this

__all__ = ["contents"]
