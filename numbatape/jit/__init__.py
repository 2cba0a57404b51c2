"""Kernels as object files: compiled by Numba once per machine, loaded by llvmlite ever after.

The only package that names Numba's flags, cache paths and external symbols. Loading a cached
kernel does not import Numba: a fresh process pays 40 ms for ``llvmlite.binding`` and a millisecond
a kernel, where Numba's own cache takes 300 ms before the first kernel.
"""

from . import steady
from .builtin import WORDS as BUILTIN_WORDS
from .builtin import make_builtin, turn_words
from .loader import Kernels, kernel_info, load

__all__ = ["BUILTIN_WORDS", "Kernels", "kernel_info", "load", "make_builtin", "steady", "turn_words"]
