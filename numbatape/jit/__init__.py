"""Kernels as object files: compiled once per machine, loaded by llvmlite ever after.

The only package that names LLVM, Numba, cache paths and external symbols. Numba compiles users' rules alone
(`rules`) and is not imported for a kernel: a fresh process pays 40 ms for ``llvmlite.binding``, a
millisecond for a kernel that is stored and a tenth of a second for one that is not.
"""

from . import steady
from .builtin import WORDS as BUILTIN_WORDS
from .builtin import make_builtin, turn_words
from .loader import Kernels, kernel_info, load

__all__ = ["BUILTIN_WORDS", "Kernels", "kernel_info", "load", "make_builtin", "steady", "turn_words"]
