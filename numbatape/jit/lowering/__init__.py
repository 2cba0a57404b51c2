"""The front end of the compiler: it turns text in the kernel language into LLVM IR.

The kernel language is what these files know (see `subset`): functions of integers, floats and booleans, loops
over ranges, loads and stores of cells by address, and calls of known symbols. One walk over the syntax tree
of a module writes its IR. This takes milliseconds, where Numba's general pipeline takes a second.

Kernels give the same bits as if Numba had compiled them, and the tests compare the two
(``tests/numba_kernels``): operations are the same and in the same order, they call the same functions of the
C library, and LLVM is not allowed to reorder or to fuse them. So results depend neither on LLVM's
optimisation level nor on the width of the processor's vectors.
"""

from __future__ import annotations

from typing import NamedTuple

from .module import ALL_PASSES, TWO_TIERS, Module
from .subset import OutsideOfKernelLanguage

__all__ = ["ALL_PASSES", "TWO_TIERS", "Lowered", "OutsideOfKernelLanguage", "lower"]


class Lowered(NamedTuple):
    """LLVM IR of a module.

    Attributes
    ----------
    entries, externals
        The names of its entry points, and the symbols that it needs.
    effort
        Whether LLVM's whole list of passes makes faster code than a short one, and when that is due: "",
        `ALL_PASSES` or `TWO_TIERS`.
    """

    text: str
    entries: tuple[str, ...]
    externals: tuple[str, ...]
    effort: str


def lower(source: str, key: str) -> Lowered:
    """Return a module of kernels as LLVM IR; the entry point ``name`` has the symbol ``nt_<key>_<name>``.

    Raises
    ------
    OutsideOfKernelLanguage
        Where the text is not in the kernel language; names the line and the construct.
    """
    module = Module(source, key)
    return Lowered(module.text(), module.entries, tuple(module.externals), module.effort)
