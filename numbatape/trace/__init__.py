"""The tracer: runs a function on values that record what is done to them. Knows no kernels."""

from . import array  # first: what it imports at its end needs it, and it is the one way into that circle

__all__ = ["array"]
