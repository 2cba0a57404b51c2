"""The baseline compiler: text in the kernel language → LLVM IR, without Numba.

The language is what these files know (`subset`): functions of integers, floats and booleans, loops over
ranges, cells by address, calls of known symbols. Code for a module comes of one walk over its syntax tree,
which takes milliseconds where Numba's general pipeline takes a second.

The bits are those of Numba's kernels, which stay the reference (``tests/numba_kernels``): the same operations
in the same order, the same symbols of the C library, no licence to reorder or to fuse. So they depend neither
on the effort of LLVM's passes nor on the width of the processor's vectors.
"""

from __future__ import annotations

from typing import NamedTuple

from .module import Module
from .subset import OutsideOfKernelLanguage

__all__ = ["Lowered", "OutsideOfKernelLanguage", "lower"]


class Lowered(NamedTuple):
    """LLVM IR of a module: its text, the names of its entry points, and the symbols that it needs."""

    text: str
    entries: tuple[str, ...]
    externals: tuple[str, ...]


def lower(source: str, key: str) -> Lowered:
    """Return a module of kernels as LLVM IR; the entry point ``name`` has the symbol ``nt_<key>_<name>``.

    Raises
    ------
    OutsideOfKernelLanguage
        Where the text is not in the kernel language; names the line and the construct.
    """
    module = Module(source, key)
    return Lowered(module.text(), module.entries, tuple(module.externals))
