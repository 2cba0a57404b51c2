"""Kernels as object files: compiled once per machine, loaded ever after.

This is the only package that names LLVM, Numba, cache paths and external symbols. On systems that `elf`
supports, a stored kernel is loaded in a millisecond without LLVM or Numba. LLVM (50 ms to import) compiles
kernels that are not stored, in a tenth of a second each; Numba only compiles users' rules (`rules`).
"""

from . import steady
from .builtin import WORDS as BUILTIN_WORDS
from .builtin import make_builtin, turn_words
from .loader import Kernels, kernel_info, load
from .machine import CannotEmit

__all__ = [
    "BUILTIN_WORDS",
    "CannotEmit",
    "Kernels",
    "kernel_info",
    "load",
    "make_builtin",
    "steady",
    "turn_words",
]
