"""Functions with hand-written rules: `nt.primitive` and `nt.zero_derivative`."""

from .primitive import Primitive, ZeroDerivative, primitive, zero_derivative
from .site import ArgumentSpec

__all__ = ["ArgumentSpec", "Primitive", "ZeroDerivative", "primitive", "zero_derivative"]
