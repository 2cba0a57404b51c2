"""Kernels as object files: compiled once per machine, loaded ever after.

The only package that names LLVM, Numba, cache paths and external symbols. Where `elf` knows the system, a
stored kernel is loaded in a millisecond and needs neither. LLVM (50 ms to import) compiles kernels that are
not stored, a tenth of a second each; Numba is there for users' rules alone (`rules`).
"""

from . import steady
from .builtin import WORDS as BUILTIN_WORDS
from .builtin import make_builtin, turn_words
from .loader import Kernels, kernel_info, load

__all__ = ["BUILTIN_WORDS", "Kernels", "kernel_info", "load", "make_builtin", "steady", "turn_words"]
