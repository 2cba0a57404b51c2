"""Kernels as object files: compiled on a machine when first needed, loaded ever after.

This is the only package that names LLVM, Numba, cache paths and external symbols. On systems that `elf`
supports, a stored kernel is loaded in a millisecond without LLVM or Numba. LLVM (50 ms to import) compiles
kernels that are not stored, in a tenth of a second each; Numba only compiles users' rules (`rules`).
"""

import ctypes

import numpy as np

from . import object_layout, steady
from .builtin import WORDS as BUILTIN_WORDS
from .builtin import make_builtin, turn_words
from .loader import Kernels, kernel_info, load, shared_modules
from .machine import CannotEmit
from .object_layout import DATA

__all__ = [
    "BUILTIN_WORDS",
    "CannotEmit",
    "Kernels",
    "address",
    "kernel_info",
    "load",
    "make_builtin",
    "object_layout",
    "shared_modules",
    "steady",
    "turn_words",
]

_word, _finds_fields = ctypes.c_size_t.from_address, object_layout.readable()


def address(array: np.ndarray) -> int:
    """Return the address of an array's first entry, in an eighth of the time of ``array.ctypes.data``.

    That makes an object of Python's for each array, and a new plan asks for fifty addresses.
    """
    return _word(id(array) + DATA).value if _finds_fields else array.ctypes.data
